/* What the lowering for NVPTX and the one for the emulator share: the walk over the calls of
 * pseudo functions. */
#include "codegen/gx/lower.h"

#include <string.h>

#include "ir/base/bug.h"

#define G(flag) GX_##flag
const GxInfo gx_info[ROW_COUNT] = {
#define GX(id, name, signature, features, flags, nvptx, intrinsic, emu, detail)          \
    {name, signature, features, flags},
#include "codegen/gx/gx.def"
};

/* The row whose name `name` has, or has with a type behind it. */
static GxRow find_row(const char *name)
{
    for (unsigned i = 0; i < ROW_COUNT; i++) {
        size_t length = strlen(gx_info[i].name);
        if (strncmp(name, gx_info[i].name, length) != 0)
            continue;
        if (name[length] == 0 || name[length] == '.')
            return (GxRow)i;
    }
    bug("no row of gx.def is named %s", name);
}

static bool is_kernel(const char *name, Kernel *const *kernels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(kernels[i]->name, name) == 0)
            return true;
    return false;
}

void lower_each(LLVMModuleRef m,
                void (*visit)(LLVMBuilderRef b, LLVMValueRef inst, const void *user),
                const void *user)
{
    LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetModuleContext(m));
    for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f)) {
        LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f);
        for (; block; block = LLVMGetNextBasicBlock(block)) {
            LLVMValueRef inst = LLVMGetFirstInstruction(block), next;
            for (; inst; inst = next) {
                next = LLVMGetNextInstruction(inst);
                visit(b, inst, user);
            }
        }
    }
    LLVMDisposeBuilder(b);
}

void lower_only(LLVMModuleRef m, Kernel *const *kernels, size_t count)
{
    size_t functions = 0, length;
    LLVMValueRef f, next;
    for (f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
        functions += !LLVMIsDeclaration(f);
    if (functions == count)
        return;
    for (f = LLVMGetFirstFunction(m); f; f = next) {
        next = LLVMGetNextFunction(f);
        if (!LLVMIsDeclaration(f) &&
            !is_kernel(LLVMGetValueName2(f, &length), kernels, count))
            LLVMDeleteFunction(f);
    }
}

/* Rows of the functions that were called lately: their names are long, and there are many rows. */
typedef struct RecentRows {
    LLVMValueRef callee[32];
    GxRow row[32];
} RecentRows;

/* The row of the pseudo function that `inst` calls; ROW_COUNT: it calls none. */
static GxRow called_row(LLVMValueRef inst, RecentRows *recent)
{
    if (LLVMGetInstructionOpcode(inst) != LLVMCall)
        return ROW_COUNT;
    LLVMValueRef callee = LLVMGetCalledValue(inst);
    if (!LLVMIsAFunction(callee))
        return ROW_COUNT;
    size_t at = (uintptr_t)callee / 64 % (sizeof recent->row / sizeof *recent->row);
    if (recent->callee[at] == callee)
        return recent->row[at];
    size_t length;
    const char *name = LLVMGetValueName2(callee, &length);
    recent->callee[at] = callee;
    recent->row[at] = strncmp(name, "gx.", 3) == 0 ? find_row(name) : ROW_COUNT;
    return recent->row[at];
}

/* What only the other target reads, a call of libdevice that would have to be linked, goes. */
static void remove_unread(LLVMValueRef value)
{
    if (LLVMIsACallInst(value) && LLVMGetFirstUse(value) == NULL)
        LLVMInstructionEraseFromParent(value);
}

static void lower_function(GxCall *c, LLVMValueRef (*lower)(const GxCall *c, void *user),
                           void *user)
{
    RecentRows recent = {0};
    LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(c->function);
    for (; block; block = LLVMGetNextBasicBlock(block)) {
        LLVMValueRef inst = LLVMGetFirstInstruction(block), next;
        for (; inst; inst = next) {
            next = LLVMGetNextInstruction(inst);
            c->row = called_row(inst, &recent);
            if (c->row == ROW_COUNT)
                continue;
            c->call = inst;
            LLVMPositionBuilderBefore(c->builder, inst);
            LLVMValueRef value = lower(c, user);
            if (value && LLVMGetTypeKind(LLVMTypeOf(inst)) != LLVMVoidTypeKind)
                LLVMReplaceAllUsesWith(inst, value);
            LLVMValueRef exact = c->row == ROW_EX2 ? LLVMGetOperand(inst, 1) : NULL;
            LLVMInstructionEraseFromParent(inst);
            if (exact != NULL)
                remove_unread(exact);
        }
    }
}

void lower_calls(const Kernel *k, LLVMValueRef function,
                 LLVMValueRef (*lower)(const GxCall *c, void *user), void *user)
{
    GxCall c = {.kernel = k, .function = function};
    Escape e;
    c.module = LLVMGetGlobalParent(function);
    c.context = LLVMGetModuleContext(c.module);
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(c.context);
    c.builder = builder;
    escape_push(&e);
    if (setjmp(e.target) == 0)
        lower_function(&c, lower, user);
    escape_pop(&e);
    LLVMDisposeBuilder(builder);
    if (e.kind != ESCAPE_NONE)
        escape_throw(e.kind, "%s", e.message);
}

LLVMValueRef gx_operand(const GxCall *c, unsigned i)
{
    return LLVMGetOperand(c->call, i);
}

uint64_t gx_constant(const GxCall *c, unsigned i)
{
    LLVMValueRef v = LLVMGetOperand(c->call, i);
    if (!LLVMIsAConstantInt(v))
        bug("kernel %s: operand %u of %s is no constant", c->kernel->name, i,
            gx_info[c->row].name);
    return LLVMConstIntGetZExtValue(v);
}

unsigned gx_index_axis(const GxCall *c)
{
    switch (c->row) {
    case ROW_TID_Y:
    case ROW_CTAID_Y:
        return 1;
    case ROW_TID_Z:
    case ROW_CTAID_Z:
        return 2;
    default:
        return 0;
    }
}

uint32_t gx_index_bound(const GxCall *c)
{
    const Kernel *k = c->kernel;
    switch (c->row) {
    case ROW_TID_X:
    case ROW_TID_Y:
    case ROW_TID_Z:
        return k->block[gx_index_axis(c)];
    case ROW_CTAID_X:
    case ROW_CTAID_Y:
    case ROW_CTAID_Z:
        return k->grid[gx_index_axis(c)];
    case ROW_LANE:
        return TARGET_WARP;
    default:
        bug("%s is no index", gx_info[c->row].name);
    }
}

LLVMAtomicRMWBinOp gx_atomic_op(const GxCall *c)
{
    bool is_int = LLVMGetTypeKind(LLVMTypeOf(c->call)) == LLVMIntegerTypeKind;
    switch (c->row) {
    case ROW_ATOMIC_ADD:
        return is_int ? LLVMAtomicRMWBinOpAdd : LLVMAtomicRMWBinOpFAdd;
    case ROW_ATOMIC_MIN:
        return is_int ? LLVMAtomicRMWBinOpMin : LLVMAtomicRMWBinOpFMinimum;
    case ROW_ATOMIC_MAX:
        return is_int ? LLVMAtomicRMWBinOpMax : LLVMAtomicRMWBinOpFMaximum;
    default:
        break;
    }
    if (!is_int)
        bug("kernel %s: %s of floats", c->kernel->name, gx_info[c->row].name);
    switch (c->row) {
    case ROW_ATOMIC_UMIN:
        return LLVMAtomicRMWBinOpUMin;
    case ROW_ATOMIC_UMAX:
        return LLVMAtomicRMWBinOpUMax;
    case ROW_ATOMIC_AND:
        return LLVMAtomicRMWBinOpAnd;
    case ROW_ATOMIC_OR:
        return LLVMAtomicRMWBinOpOr;
    case ROW_ATOMIC_XOR:
        return LLVMAtomicRMWBinOpXor;
    default:
        bug("%s is no atomic operation", gx_info[c->row].name);
    }
}

LLVMValueRef lower_intrinsic(LLVMBuilderRef b, LLVMModuleRef m, const char *name,
                             LLVMTypeRef *overloads, unsigned overload_count,
                             LLVMValueRef *args, unsigned count)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (id == 0)
        bug("LLVM has no %s", name);
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(m, id, overloads, overload_count);
    return LLVMBuildCall2(b, LLVMGlobalGetValueType(f), f, args, count, "");
}

LLVMValueRef lower_math(LLVMBuilderRef b, LLVMModuleRef m, const char *name,
                        LLVMValueRef *args, unsigned count)
{
    LLVMTypeRef type = LLVMTypeOf(args[0]);
    return lower_intrinsic(b, m, name, &type, 1, args, count);
}

void lower_function_attribute(LLVMValueRef f, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(f));
    LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(context, kind, 0));
}
