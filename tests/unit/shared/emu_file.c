/* See emu_file.h. */
#include "tests/unit/shared/emu_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <llvm-c/Target.h>

#include "codegen/assembler/assemble.h"
#include "codegen/backend.h"
#include "runtime/plan/builder.h"
#include "runtime/plan/elf.h"
#include "runtime/plan/plan.h"
#include "tests/unit/shared/artefact.h"

enum {
    COUNT = EMU_FILE_COUNT,
    BYTES = EMU_FILE_BYTES,
    THREADS = 128,
    TRIPS = EMU_FILE_TRIPS
};

/* The registers that a call of the system and its arguments take. */
#if defined(__x86_64__)
#define INIT_PARSER LLVMInitializeX86AsmParser
#define CHANGES                                                                          \
    "~{rax},~{rcx},~{rdx},~{rsi},~{rdi},~{r10},~{r11},~{memory},~{dirflag},~{fpsr},~{"   \
    "flags}"
#else
#define INIT_PARSER LLVMInitializeAArch64AsmParser
#define CHANGES "~{x0},~{x1},~{x2},~{x3},~{x8},~{memory}"
#endif

/* Code of this CPU, where codegen writes none. */
static void assembly_add(LLVMBuilderRef b, LLVMContextRef context, const char *text)
{
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(context), NULL, 0, 0);
    INIT_PARSER();
    LLVMValueRef code =
        LLVMGetInlineAsm(type, text, strlen(text), CHANGES, strlen(CHANGES), 1, 0,
                         LLVMInlineAsmDialectATT, 0);
    LLVMBuildCall2(b, type, code, NULL, 0, "");
}

/* out[i] = in[i] + 1, as codegen's emitters write it. */
static const void *kernel_make(Arena *a, const char *assembly, size_t *out_bytes)
{
    static const KernelArg args[] = {{.align = 4, .bytes = BYTES},
                                     {.align = 4, .bytes = BYTES}};
    static const uint32_t block[3] = {THREADS, 1, 1};
    static const uint32_t grid[3] = {(COUNT + THREADS - 1) / THREADS, 1, 1};
    const char *error = NULL;
    Cuda cuda;
    if (!cuda_find(a, NULL, ASSEMBLER_ANY, &cuda, &error))
        fail_msg("%s", error);
    Libdevice *device = libdevice_open(a, cuda.libdevice, &error);
    assert_non_null(device);
    Backend *backend = backend_create(a, device);
    Kernel *k =
        kernel_create(a, backend_module(backend), "add_one", args, 2, block, grid);
    LLVMTypeRef f32 = LLVMFloatTypeInContext(k->context);
    LLVMBuilderRef b = k->builder;
    if (assembly)
        assembly_add(b, k->context, assembly);
    k->at = "add.1";
    LLVMValueRef first = LLVMBuildMul(b, gx_ctaid(k, 0), gx_i32(k, THREADS), "");
    LLVMValueRef i = LLVMBuildAdd(b, first, gx_tid(k, 0), "");
    GxIf s;
    gx_if_begin(k, &s, LLVMBuildICmp(b, LLVMIntULT, i, gx_i32(k, COUNT), ""));
    LLVMValueRef at = LLVMBuildMul(b, i, gx_i32(k, 4), "");
    LLVMValueRef x = gx_load(k, 0, at, f32, 4);
    gx_store(k, 1, at, LLVMBuildFAdd(b, x, LLVMConstReal(f32, 1), ""), 4);
    gx_if_end(k, &s, NULL, 0, NULL);
    kernel_finish(k);
    const void *object = backend_host_object(backend, &k, 1, 90, out_bytes);
    void *copy = arena_copy(a, object, *out_bytes);
    backend_destroy(backend);
    libdevice_close(device);
    return copy;
}

static uint32_t slice_add(PlanBuilder *b, PlanAllocationKind kind, uint64_t bytes)
{
    PlanAllocation a = {.kind = (uint32_t)kind, .alignment = 16, .bytes = BYTES};
    PlanSlice s = {.allocation = plan_add_allocations(b, &a, 1), .bytes = bytes};
    return plan_add_slices(b, &s, 1);
}

static PlanValue value_make(PlanBuilder *b, uint32_t slice)
{
    return (PlanValue){.name = plan_string(b, "x"),
                       .dtype = plan_string(b, "f32"),
                       .element_bits = 32,
                       .rank = 1,
                       .dims = plan_add_numbers(b, (int64_t[]){COUNT, 0}, 2),
                       .slice = slice,
                       .alias = PLAN_NONE,
                       .size_of = PLAN_NONE,
                       .bytes = BYTES};
}

static uint32_t launch_add(PlanBuilder *b, uint32_t from, uint32_t to)
{
    PlanArg args[] = {{.tag = PLAN_ARG_SLICE, .access = PLAN_READ, .index = from},
                      {.tag = PLAN_ARG_SLICE, .access = PLAN_WRITE, .index = to}};
    PlanCommand c = {
        .kind = PLAN_LAUNCH, .name = plan_string(b, "fusion.1"), .signal = PLAN_NONE};
    return plan_command(b, &c, args, 2);
}

/* x + 1, then TRIPS times + 1 in place. `launched_bytes`: of the slices that the launches say;
 * less than BYTES is a mistake that the emulator has to find. */
static void plan_make(PlanBuilder *b, uint64_t launched_bytes)
{
    plan_builder_init(b);
    b->info[0].module = plan_string(b, "test");
    b->info[0].target = plan_string(b, "sm_90a");
    b->info[0].sm = 90;
    b->info[0].suffix = 'a';
    b->info[0].min_driver = 12080;
    PlanKernel k = {.name = plan_string(b, "add_one"),
                    .grid = {(COUNT + THREADS - 1) / THREADS, 1, 1},
                    .block = {THREADS, 1, 1},
                    .cluster = {1, 1, 1},
                    .parameter_count = 2};
    plan_add_kernels(b, &k, 1);
    uint32_t in = slice_add(b, PLAN_ARGUMENT, BYTES),
             out = slice_add(b, PLAN_RESULT, BYTES);
    PlanValue argument = value_make(b, in), result = value_make(b, out);
    plan_add_arguments(b, &argument, 1);
    plan_add_results(b, &result, 1);
    PlanSlice part = {.allocation = b->slices[out].allocation, .bytes = launched_bytes};
    uint32_t launched = plan_add_slices(b, &part, 1);
    launch_add(b, in, launched);
    PlanLoop loop = {.trip_count = TRIPS, .counter = PLAN_NONE, .body_commands = 1};
    PlanCommand c = {.kind = PLAN_WHILE,
                     .name = plan_string(b, "while.1"),
                     .signal = PLAN_NONE,
                     .index = plan_add_loops(b, &loop, 1)};
    uint32_t open = plan_command(b, &c, NULL, 0);
    launch_add(b, launched, launched);
    plan_close(b, open);
}

void *emu_file_make(uint64_t launched_bytes, const char *assembly, size_t *out_bytes)
{
    PlanBuilder b;
    plan_make(&b, launched_bytes);
    Arena *a = arena_create();
    PlanElfSection emu = {PLAN_ELF_EMU, NULL, 0};
    emu.bytes = kernel_make(a, assembly, &emu.size);
    void *file = artefact_make(&b, &emu, 1, out_bytes);
    arena_destroy(a);
    return file;
}

const char *emu_folder(void)
{
    static _Thread_local char path[4096]; /* sessions are made by several threads */
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 20);
    assert_true(n > 0);
    path[n] = '\0';
    strcpy(strrchr(path, '/'), "/../..");
    return path;
}
