/* From gx.* operations to one back end's LLVM IR, row by row of gx.def.
 *
 * Both functions take a module whose functions include all of `kernels` (finished, of one
 * context); others are left out. Calls to libdevice remain. An operation that the target lacks:
 * ESCAPE_UNSUPPORTED. */
#ifndef GXC_CODEGEN_GX_LOWER_H
#define GXC_CODEGEN_GX_LOWER_H

#include "codegen/gx/gx.h"
#include "codegen/gx/row.h"
#include "ir/analysis/target.h"

/* The module itself becomes NVPTX's. `ptx`: the version of PTX that will be written, 9.0 is 90. Shared memory becomes
 * a static array up to 48 KiB, else dynamic shared memory that the launch provides. */
void lower_nvptx(LLVMModuleRef m, Kernel *const *kernels, size_t count,
                 const Target *target, uint32_t ptx);
/* After LLVM's passes, which turn arithmetic in f32 between conversions from and to f16 and bf16 into arithmetic
 * of those types, where each rounding matters: a product and a sum of them are not contracted, and before
 * sm_90 integers become bf16 by way of a type that holds them. The passes join conversions that round once
 * in all to one; without an instruction for it LLVM rounds twice, to f32 first. */
void lower_nvptx_narrow(LLVMModuleRef m, const Target *target);

/* The module itself becomes functions and K.sites as runtime/emu/abi.def says: the kernels are gone. */
void lower_emu(LLVMModuleRef m, Kernel *const *kernels, size_t count);

/* ---- for the two of them ---- */

typedef struct GxCall {
    LLVMValueRef call;
    LLVMBuilderRef builder; /* stands before the call */
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMValueRef function;
    const Kernel *kernel;
    GxRow row;
} GxCall;

/* Calls `visit` for every instruction, which it may replace and remove; `user` is handed on. */
void lower_each(LLVMModuleRef m,
                void (*visit)(LLVMBuilderRef b, LLVMValueRef inst, const void *user),
                const void *user);

/* Removes all functions but these kernels. */
void lower_only(LLVMModuleRef m, Kernel *const *kernels, size_t count);

/* Calls `lower` for every call of a pseudo function in `function`; what it returns replaces the
 * call. `user` is handed on. */
void lower_calls(const Kernel *k, LLVMValueRef function,
                 LLVMValueRef (*lower)(const GxCall *c, void *user), void *user);

/* Operand i of the call; a constant's value. */
LLVMValueRef gx_operand(const GxCall *c, unsigned i);
uint64_t gx_constant(const GxCall *c, unsigned i);

/* An index operation: the value is below this; its axis. */
uint32_t gx_index_bound(const GxCall *c);
unsigned gx_index_axis(const GxCall *c);
/* LLVM's operation for an ATOMIC_ row (not CAS) on integers or floats. */
LLVMAtomicRMWBinOp gx_atomic_op(const GxCall *c);

/* Calls `intrinsic` (with its overloads) or a function by name with the given arguments. */
LLVMValueRef lower_intrinsic(LLVMBuilderRef b, LLVMModuleRef m, const char *name,
                             LLVMTypeRef *overloads, unsigned overload_count,
                             LLVMValueRef *args, unsigned count);
/* llvm.<name> overloaded on the type of args[0]. */
LLVMValueRef lower_math(LLVMBuilderRef b, LLVMModuleRef m, const char *name,
                        LLVMValueRef *args, unsigned count);

/* ENCODE_: the call's result from what the hardware gives, which takes numbers that are too
 * large, and some NaN, to the largest one. */
LLVMValueRef narrow_encode(const GxCall *c, LLVMValueRef saturated);
/* The same from the codes of the call's last operand, saturated as the hardware would. */
LLVMValueRef narrow_encode_emulated(const GxCall *c);
/* DECODE_: from the <2 x half> (e8m0: <2 x bfloat>) that the hardware gives. */
LLVMValueRef narrow_decode(const GxCall *c, LLVMValueRef halves);

void lower_function_attribute(LLVMValueRef f, const char *name);

#endif
