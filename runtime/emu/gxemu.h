/* What libgxemu offers libgxrt beyond the functions of cuda.def: kernels are loaded from a
 * host object, and launches say what each pointer may touch. All return a CUresult. */
#ifndef GXC_RUNTIME_EMU_GXEMU_H
#define GXC_RUNTIME_EMU_GXEMU_H

#include "runtime/library/cuda_types.h"

enum { GXEMU_BARRIERS = 1 }; /* the kernel has barriers or shuffles: run fibres */

enum { /* kinds of parameters: what is in a parameter's 8-byte slot (abi.def) */
       GXEMU_IMMEDIATE, /* the value */
       GXEMU_POINTER    /* a device address */
};

/* A kernel of a module, as the plan describes it. The name is copied. */
typedef struct GxemuKernel {
    const char *name; /* symbol in the object; name for cuModuleGetFunction */
    uint32_t flags;   /* GXEMU_BARRIERS */
    uint32_t parameter_count;
    uint32_t static_shared_bytes; /* dynamic shared memory lies behind these */
} GxemuKernel;

/* One parameter of one launch. For pointers: the bytes [pointer, pointer + bytes) that the
 * kernel may touch, and how. */
typedef struct GxemuParameter {
    uint32_t kind;   /* GXEMU_IMMEDIATE, ... */
    uint32_t access; /* 1 read, 2 write, 3 both */
    uint64_t bytes;
} GxemuParameter;

typedef struct GxemuLaunch {
    const char *name;                 /* HLO instruction, for messages; copied */
    const GxemuParameter *parameters; /* parameter_count of the kernel; copied */
    uint32_t parameter_count;
} GxemuLaunch;

/* gxemuSetDeviceCount(count, force): the emulator has `count` devices from now on. Without
 * force, it only adds devices, and does nothing if GXEMU_DEVICES is set. Before cuInit or after.
 *
 * gxemuModuleLoad(out, object, bytes, kernels, kernel_count): as cuModuleLoadData in the current
 * context, from the bytes of a .gxc.emu object (not needed afterwards);
 * CUDA_ERROR_INVALID_IMAGE if it is none or lacks a kernel, with the reason in
 * gxemuGetLastError.
 *
 * gxemuLaunchKernel(config, function, parameters, launch): as cuLaunchKernelEx;
 * parameters[i] points to an 8-byte slot. cuLaunchKernelEx on an emulated kernel is the same
 * with extents taken from the allocations that pointers lie in.
 *
 * gxemuMemUndefine(pointer, bytes, stream): in stream order, these bytes count as never
 * written (shadow mode).
 *
 * gxemuMemDefine(pointer, bytes, stream): in stream order, these bytes count as written, by a
 * function of the host that needs no copy to reach them.
 *
 * gxemuSetCondition(handle, selector, bytes, branch, branches, stream): what a kernel with
 * cudaGraphSetConditional does: the condition is whether the number at `selector` chooses
 * `branch`. 1 byte: true is branch 0, false branch 1; 4 bytes: s32, out of range is the last one.
 * While `stream` is captured.
 *
 * gxemuFailCall(number): that call from now on, of any function, fails, as GXEMU_FAIL_CALL says it;
 * 0: none does.
 *
 * gxemuGetLastError(text, bytes): the report of the current context's latest fault (kernel,
 * HLO instruction, thread, address, what to do), empty if there was none. A faulting kernel
 * makes every later call on its context fail with CUDA_ERROR_ILLEGAL_ADDRESS, other findings
 * (race, undefined bytes, misuse of a barrier) with CUDA_ERROR_ASSERT. */
#define CUDA_FUNCTION(name, symbol, parameters) CUresult symbol parameters;
#define EMU_API_FUNCTION(name, symbol, parameters) CUresult symbol parameters;
#include "runtime/library/cuda.def"

#endif
