/* Kernels written by hand on the gx operations of tensor cores, matrices and asynchronous copies: every row of
 * tensor_cores.def assembles for the targets that have it and is refused for the others; the emulator runs them. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/backend.h"
#include "ir/number/number.h"
#include "tests/unit/shared/hand_kernels.h"

enum { MOST_KERNELS = 64, BYTES = 4096 };

/* One warp; pointers to factors, to sums, and to the result. */
static Kernel *start(HandKernels *f, const char *name)
{
    static const uint32_t block[3] = {32, 1, 1}, grid[3] = {1, 1, 1};
    const KernelArg args[] = {{.align = 16, .bytes = BYTES, .is_read_only = true},
                              {.align = 16, .bytes = BYTES, .is_read_only = true},
                              {.align = 16, .bytes = BYTES}};
    Kernel *k =
        kernel_create(f->arena, backend_module(f->backend), name, args, 3, block, grid);
    k->at = "dot.1";
    return k;
}

static LLVMTypeRef register_type(Kernel *k, DType t)
{
    return t == DT_F64   ? LLVMDoubleTypeInContext(k->context)
           : t == DT_F32 ? LLVMFloatTypeInContext(k->context)
                         : gx_int_type(k, 32);
}

/* Registers of this lane, one behind the other in argument `arg`: `count` of each lane. */
static void load_registers(Kernel *k, unsigned arg, LLVMTypeRef type, uint32_t count,
                           LLVMValueRef *out)
{
    unsigned bytes = gx_type_bytes(type);
    LLVMValueRef lane =
        LLVMBuildNUWMul(k->builder, gx_lane(k), gx_i32(k, count * bytes), "");
    for (uint32_t i = 0; i < count; i++)
        out[i] =
            gx_load(k, arg, LLVMBuildNUWAdd(k->builder, lane, gx_i32(k, i * bytes), ""),
                    type, bytes);
}

static void store_registers(Kernel *k, const LLVMValueRef *values, uint32_t count)
{
    unsigned bytes = gx_type_bytes(LLVMTypeOf(values[0]));
    LLVMValueRef lane =
        LLVMBuildNUWMul(k->builder, gx_lane(k), gx_i32(k, count * bytes), "");
    for (uint32_t i = 0; i < count; i++)
        gx_store(k, 2, LLVMBuildNUWAdd(k->builder, lane, gx_i32(k, i * bytes), ""),
                 values[i], bytes);
}

static Kernel *mma_kernel(HandKernels *f, const TensorCore *t, const char *prefix)
{
    LLVMValueRef a[8], b[8], c[8];
    Kernel *k = start(f, arena_printf(f->arena, "%s%u", prefix, t->number));
    DType factor = t->types[0] == DT_F64 ? DT_F64 : DT_S32;
    uint32_t sums = tensor_core_registers(t, TENSOR_C);
    load_registers(k, 0, register_type(k, factor), tensor_core_registers(t, TENSOR_A), a);
    load_registers(k, 1, register_type(k, factor), tensor_core_registers(t, TENSOR_B), b);
    load_registers(k, 1, register_type(k, t->types[2]), sums, c);
    gx_mma(k, t, a, b, c, c);
    store_registers(k, c, sums);
    kernel_finish(k);
    return k;
}

static bool has(const Target *target, const TensorCore *t)
{
    return target->sm >= t->sm;
}

static void rows_assemble(void **state)
{
    HandKernels *f = *state;
    static const char *const names[] = {"sm_75", "sm_80", "sm_90a", "sm_120a"};
    static const uint32_t counts[] = {9, 31, 38, 38};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Target target;
        Cubin cubin;
        Kernel *kernels[MOST_KERNELS];
        const TensorCore *t, *rows[MOST_KERNELS];
        uint32_t count = 0;
        assert_true(target_find(names[i], &target));
        for (uint32_t row = 0; (t = tensor_core_row(row)) != NULL; row++) {
            if (!has(&target, t))
                continue;
            rows[count] = t;
            kernels[count++] = mma_kernel(f, t, arena_printf(f->arena, "t%zu_", i));
        }
        assert_int_equal(count, counts[i]);
        const char *ptx = hand_kernels_assemble(f, kernels, count, names[i], &cubin);
        for (uint32_t j = 0; j < count; j++) {
            char shape[64];
            snprintf(shape, sizeof shape, "mma.sync.aligned.m%un%uk%u.row.col.",
                     rows[j]->m, rows[j]->n, rows[j]->k);
            assert_non_null(strstr(ptx, shape));
        }
    }
}

static void others_are_refused(void **state)
{
    HandKernels *f = *state;
    Kernel *k = mma_kernel(f, tensor_core_numbered(7), "refused");
    assert_non_null(strstr(hand_kernels_refusal(f, k, "sm_80"),
                           "llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
                           "needs sm_89 and PTX 8.4; sm_80 with PTX"));
}

/* Four warps, though the block has one: what is made of it, not what it does. */
static Kernel *wide_kernel(HandKernels *f, const char *name, bool is_right,
                           bool has_words, uint32_t line)
{
    Kernel *k = start(f, name);
    LLVMValueRef sums[8], words[2 * GX_WGMMA_WORDS];
    uint32_t shared = gx_shared_alloc(k, 8192, 1024);
    for (int i = 0; i < 8; i++)
        sums[i] = LLVMConstNull(LLVMFloatTypeInContext(k->context));
    gx_proxy_fence(k);
    gx_barrier(k);
    for (int i = 0; i < 2 * GX_WGMMA_WORDS; i++)
        words[i] = gx_tid(k, 0);
    GxMatrices a = {.offset = gx_i32(k, shared),
                    .lead = 1024,
                    .stride = line != 0 ? 8 * line : 128,
                    .line = line,
                    .is_transposed = !is_right},
               b = {.offset = gx_i32(k, shared + 2048),
                    .lead = 256,
                    .stride = 128,
                    .is_transposed = is_right};
    if (has_words)
        a.words = words;
    gx_wgmma(k, DT_F16, 16, 2, &a, &b, sums);
    store_registers(k, sums, 8);
    kernel_finish(k);
    return k;
}

static void warpgroups_are_of_one_gpu(void **state)
{
    HandKernels *f = *state;
    Target target;
    assert_true(target_find("sm_90a", &target));
    Kernel *k = wide_kernel(f, "wide", false, false, 0);
    const char *ptx = backend_ptx(f->backend, &k, 1, &target, f->cuda.ptx);
    assert_non_null(strstr(ptx, "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16"));
    assert_non_null(strstr(ptx, "add, 1, 1, 1, 0;")); /* transposed */
    k = wide_kernel(f, "wide_right", true, false, 0);
    ptx = backend_ptx(f->backend, &k, 1, &target, f->cuda.ptx);
    assert_non_null(strstr(ptx, "add, 1, 1, 0, 1;"));
    k = wide_kernel(f, "wide_registers", true, true, 0);
    ptx = backend_ptx(f->backend, &k, 1, &target, f->cuda.ptx);
    assert_non_null(strstr(ptx, "}, right, add, 1, 1, 1;"));
    /* PTX ISA, "Matrix Descriptor Format": strides from bits 16 and 32 on in 16 bytes, the swizzle's mode in bits 62, 63;
     * a second step of 16 terms along rows is 32 bytes further, else two groups of 8 rows */
    static const uint64_t modes[][2] = {{32, 3}, {64, 2}, {128, 1}};
    for (int i = 0; i < 6; i++) {
        uint32_t line = (uint32_t)modes[i / 2][0];
        uint64_t apart = UINT64_C(1024) / 16 << 16 | (uint64_t)line * 8 / 16 << 32 |
                         modes[i / 2][1] << 62;
        k = wide_kernel(f, arena_printf(f->arena, "wide_line%d", i), i % 2, false, line);
        ptx = backend_ptx(f->backend, &k, 1, &target, f->cuda.ptx);
        assert_non_null(
            strstr(ptx, arena_printf(f->arena, ", %" PRId64, (int64_t)apart)));
        unsigned step = i % 2 == 0 ? line : line == 32 ? 1024 / 16 : 2, got = 0;
        const char *second = strstr(strstr(ptx, "add.s64 left") + 1, "add.s64 left");
        assert_int_equal(sscanf(second, "add.s64 left, %%rd%*u, %u;", &got), 1);
        assert_int_equal(got, step);
    }
    k = wide_kernel(f, "wide_refused", false, false, 0);
    assert_non_null(strstr(hand_kernels_refusal(f, k, "sm_90"), "sm_90 with PTX"));
}

/* 16 x 16 and 8 x 16 numbers of bf16, by asynchronous copies and ldmatrix; the sums' bits go through stmatrix. */
static Kernel *tile_kernel(HandKernels *f, const char *name, bool stores)
{
    Kernel *k = start(f, name);
    LLVMBuilderRef b = k->builder;
    const TensorCore *t = tensor_core_numbered(4);
    uint32_t shared = gx_shared_alloc(k, 1024, 16);
    LLVMValueRef lane = gx_lane(k), words[4], factors[2], sums[4],
                 at = LLVMBuildNUWMul(b, lane, gx_i32(k, 16), "");
    gx_copy_async(k, 0, at, at, 16, NULL);
    /* the second factor's 256 bytes: half of the lanes; the others' bytes become zeros */
    LLVMValueRef half = LLVMBuildICmp(b, LLVMIntULT, lane, gx_i32(k, 16), "");
    gx_copy_async(k, 1, LLVMBuildSelect(b, half, at, gx_i32(k, 0), ""),
                  LLVMBuildNUWAdd(b, at, gx_i32(k, 512), ""), 16,
                  LLVMBuildSelect(b, half, gx_i32(k, 16), gx_i32(k, 0), ""));
    gx_copy_commit(k);
    gx_copy_wait(k, 0);
    gx_barrier(k);
    /* rows of 32 bytes: matrices 0 and 1 are rows 0-7 and 8-15, 2 and 3 the other half of them */
    LLVMValueRef row = LLVMBuildAnd(b, lane, gx_i32(k, 15), "");
    LLVMValueRef column = LLVMBuildLShr(b, lane, gx_i32(k, 4), "");
    LLVMValueRef offset = LLVMBuildAdd(b, LLVMBuildMul(b, row, gx_i32(k, 32), ""),
                                       LLVMBuildMul(b, column, gx_i32(k, 16), ""), "");
    gx_ldmatrix(k, offset, 4, false, words);
    row = LLVMBuildAnd(b, lane, gx_i32(k, 7), "");
    column = LLVMBuildAnd(b, LLVMBuildLShr(b, lane, gx_i32(k, 3), ""), gx_i32(k, 1), "");
    offset = LLVMBuildAdd(b, LLVMBuildMul(b, row, gx_i32(k, 32), ""),
                          LLVMBuildMul(b, column, gx_i32(k, 16), ""), "");
    gx_ldmatrix(k, LLVMBuildAdd(b, offset, gx_i32(k, 512), ""), 2, false, factors);
    for (int i = 0; i < 4; i++)
        sums[i] = LLVMConstReal(LLVMFloatTypeInContext(k->context), 0.5);
    gx_mma(k, t, words, factors, sums, sums);
    if (stores) {
        gx_barrier(k);
        gx_stmatrix(k, at, 4, true, words);
        gx_barrier(k);
        gx_ldmatrix(k, at, 1, false, words);
    }
    store_registers(k, sums, 4);
    (void)shared;
    kernel_finish(k);
    return k;
}

static void tiles_run(void **state)
{
    HandKernels *f = *state;
    static uint16_t a[BYTES / 2], b[BYTES / 2];
    static float out[BYTES / 4];
    for (int i = 0; i < 256; i++)
        a[i] = number_float_to_bf16((float)(i * 7 % 31 - 15));
    for (int i = 0; i < 128; i++)
        b[i] = number_float_to_bf16((float)(i * 5 % 23 - 11));
    const uint64_t args[] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)out};
    const uint64_t extents[] = {512, 256, BYTES};
    for (int early = 0; early < 2; early++) {
        Kernel *k = tile_kernel(f, "tile", true);
        assert_true(k->needs_fibres);
        memset(out, 0, sizeof out);
        hand_kernels_run_well(f, k, 90,
                              (HandRun){.args = args,
                                        .extents = extents,
                                        .count = 3,
                                        .copies_early = early != 0});
        for (int lane = 0; lane < 32; lane++) {
            for (int i = 0; i < 4; i++) {
                int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
                float sum = 0.5F;
                for (int j = 0; j < 16; j++)
                    sum += number_bf16_to_float(a[row * 16 + j]) *
                           number_bf16_to_float(b[column * 16 + j]);
                assert_true(out[lane * 4 + i] == sum);
            }
        }
    }
}

static void tiles_assemble(void **state)
{
    HandKernels *f = *state;
    static const char *const names[] = {"sm_80", "sm_90"};
    static const char *const wanted[] = {"cp.async.cg.shared.global [%",
                                         "cp.async.commit_group", "cp.async.wait_group",
                                         "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
                                         "ldmatrix.sync.aligned.m8n8.x2.shared.b16"};
    Kernel *kernels[] = {tile_kernel(f, "tile_80", false),
                         tile_kernel(f, "tile_90", true)};
    for (int i = 0; i < 2; i++) {
        Cubin cubin;
        const char *ptx = hand_kernels_assemble(f, &kernels[i], 1, names[i], &cubin);
        for (size_t j = 0; j < sizeof wanted / sizeof *wanted; j++)
            assert_non_null(strstr(ptx, wanted[j]));
        assert_int_equal(
            strstr(ptx, "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16") != NULL, i);
        assert_int_equal(cubin.uses[0].spill_stores, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_assemble),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(warpgroups_are_of_one_gpu),
        cmocka_unit_test(tiles_run),
        cmocka_unit_test(tiles_assemble),
    };
    return cmocka_run_group_tests(tests, hand_kernels_set_up, hand_kernels_tear_down);
}
