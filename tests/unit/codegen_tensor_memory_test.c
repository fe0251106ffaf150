/* Kernels written by hand on the gx operations of tensor memory: they assemble for the targets that have it, are refused
 * for the others, and give on the emulator what the sums of products are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/backend.h"
#include "ir/number/number.h"
#include "tests/unit/shared/hand_kernels.h"

enum {
    THREADS = 128,
    STEPS = 2,
    TERMS = 16 * STEPS,
    MOST_ROWS = 128,
    COLUMNS = 48,
    TAKEN = 64,
    PIECE = 8,
    PIECE_BYTES = 16,
    LEFT_BYTES = MOST_ROWS * TERMS * 2,
    RIGHT_BYTES = COLUMNS * TERMS * 2,
    MATRIX = PIECE * PIECE_BYTES
};

/* Which product a kernel makes. */
typedef struct Form {
    uint32_t rows;
    DType type;
    bool is_transposed[2];
} Form;

static LLVMValueRef times(Kernel *k, LLVMValueRef x, uint32_t n)
{
    return gx_mul_natural(k, x, gx_i32(k, n));
}

static LLVMValueRef plus(Kernel *k, LLVMValueRef x, uint32_t n)
{
    return gx_add_natural(k, x, gx_i32(k, n));
}

/* `bytes` of an argument as they are. */
static void copy(Kernel *k, unsigned arg, uint32_t to, uint32_t bytes)
{
    GxLoop loop;
    gx_loop_begin(k, &loop, gx_tid(k, 0), gx_i32(k, bytes / PIECE_BYTES),
                  gx_i32(k, THREADS), NULL, 0);
    LLVMValueRef at = times(k, loop.index, PIECE_BYTES);
    gx_copy_async(k, arg, at, plus(k, at, to), PIECE_BYTES, NULL);
    gx_loop_end(k, &loop, NULL);
}

/* All matrices of a side that follow each other lie one behind the other, then those of the next eight terms. */
static GxMatrices matrices(Kernel *k, uint32_t at, uint32_t side, bool is_transposed)
{
    return (GxMatrices){.offset = gx_i32(k, at),
                        .lead = side / PIECE * MATRIX,
                        .stride = MATRIX,
                        .is_transposed = is_transposed};
}

/* Each warp's rows of its sums, one row of COLUMNS behind the other. */
static void store_sums(Kernel *k, const Form *form, LLVMValueRef address)
{
    enum { PART = 16 /* columns of a load */, HALF = 16, LANES = 32 };
    LLVMValueRef warp = LLVMBuildLShr(k->builder, gx_tid(k, 0), gx_i32(k, 5), ""),
                 lane = gx_lane(k), sums[PART / 2];
    uint32_t own = form->rows / (THREADS / LANES);
    for (uint32_t half = 0; half < own / HALF; half++) {
        LLVMValueRef first =
            gx_add_natural(k, address, times(k, warp, LANES * GX_TENSOR_LANE));
        for (uint32_t part = 0; part < COLUMNS; part += PART) {
            gx_tensor_load(k, plus(k, first, half * HALF * GX_TENSOR_LANE + part), PART,
                           sums);
            for (uint32_t i = 0; i < PART / 2; i++) {
                LLVMValueRef row = LLVMBuildLShr(k->builder, lane, gx_i32(k, 2), ""),
                             column = LLVMBuildAnd(k->builder, lane, gx_i32(k, 3), "");
                row = plus(k, gx_add_natural(k, row, times(k, warp, own)),
                           half * HALF + i / 2 % 2 * PIECE);
                column = plus(k, times(k, column, 2), part + i / 4 * PIECE + i % 2);
                LLVMValueRef at = gx_add_natural(k, times(k, row, COLUMNS), column);
                gx_store(k, 2, times(k, at, 4), sums[i], 4);
            }
        }
    }
}

/* The product twice, the second time added. */
static Kernel *product_kernel(HandKernels *f, const char *name, const Form *form)
{
    static const uint32_t block[3] = {THREADS, 1, 1}, grid[3] = {1, 1, 1};
    const KernelArg args[] = {{.align = 16, .bytes = LEFT_BYTES, .is_read_only = true},
                              {.align = 16, .bytes = RIGHT_BYTES, .is_read_only = true},
                              {.align = 16, .bytes = 4 * MOST_ROWS * COLUMNS}};
    Kernel *k =
        kernel_create(f->arena, backend_module(f->backend), name, args, 3, block, grid);
    GxIf one;
    k->at = "dot.1";
    uint32_t left = gx_shared_alloc(k, LEFT_BYTES, 128),
             right = gx_shared_alloc(k, RIGHT_BYTES, 128),
             slot = gx_shared_alloc(k, 8, 8), mbarrier = gx_shared_alloc(k, 8, 8);
    LLVMValueRef thread = gx_tid(k, 0),
                 is_first =
                     LLVMBuildICmp(k->builder, LLVMIntULT, thread, gx_i32(k, 32), ""),
                 is_one = LLVMBuildICmp(k->builder, LLVMIntEQ, thread, gx_i32(k, 0), "");
    gx_if_begin(k, &one, is_first);
    gx_tensor_alloc(k, gx_i32(k, slot), TAKEN);
    gx_if_end(k, &one, NULL, 0, NULL);
    gx_if_begin(k, &one, is_one);
    gx_mbarrier_init(k, gx_i32(k, mbarrier));
    gx_if_end(k, &one, NULL, 0, NULL);
    copy(k, 0, left, form->rows * TERMS * 2);
    copy(k, 1, right, RIGHT_BYTES);
    gx_copy_commit(k);
    gx_copy_wait(k, 0);
    gx_proxy_fence(k);
    gx_barrier(k);
    LLVMValueRef address = gx_load(k, GX_SHARED, gx_i32(k, slot), gx_int_type(k, 32), 4);
    GxMatrices a = matrices(k, left, form->rows, form->is_transposed[0]),
               b = matrices(k, right, COLUMNS, form->is_transposed[1]);
    for (uint32_t i = 0; i < 2; i++) {
        gx_if_begin(k, &one, is_one);
        gx_tensor_mma(k, form->type, form->rows, COLUMNS, STEPS, &a, &b, address,
                      gx_i32(k, i));
        gx_tensor_commit(k, gx_i32(k, mbarrier));
        gx_if_end(k, &one, NULL, 0, NULL);
        gx_mbarrier_wait(k, gx_i32(k, mbarrier), gx_i32(k, i));
        gx_barrier(k);
    }
    store_sums(k, form, address);
    gx_barrier(k);
    gx_if_begin(k, &one, is_first);
    gx_tensor_free(k, address, TAKEN);
    gx_if_end(k, &one, NULL, 0, NULL);
    kernel_finish(k);
    return k;
}

static const Form forms[] = {
    {64, DT_BF16, {false, false}}, {128, DT_BF16, {false, false}},
    {64, DT_F16, {true, false}},   {128, DT_F16, {false, true}},
    {128, DT_BF16, {true, true}},
};
enum { FORMS = sizeof forms / sizeof *forms };

static void forms_assemble(void **state)
{
    HandKernels *f = *state;
    static const char *const names[] = {"sm_100a", "sm_100f", "sm_103a", "sm_110a"};
    /* "Instruction descriptor": rows / 16 from bit 24, columns / 8 from bit 17, 16 and 15 transposed, bf16 1 from bits
     * 10 and 7, f32 sums 1 from bit 4 */
    static const uint32_t descriptors[FORMS] = {0x40c0490, 0x80c0490, 0x40c8010,
                                                0x80d0010, 0x80d8490};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (int j = 0; j < FORMS; j++) {
            Kernel *k =
                product_kernel(f, arena_printf(f->arena, "t%zu_%d", i, j), &forms[j]);
            Cubin cubin;
            const char *ptx = hand_kernels_assemble(f, &k, 1, names[i], &cubin);
            assert_non_null(strstr(ptx, "tcgen05.mma.cta_group::1.kind::f16 ["));
            assert_non_null(strstr(ptx, arena_printf(f->arena, "%u", descriptors[j])));
            assert_int_equal(cubin.uses[0].spill_stores, 0);
        }
    }
}

static void others_are_refused(void **state)
{
    HandKernels *f = *state;
    static const char *const names[] = {"sm_100", "sm_120a", "sm_90a"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_non_null(strstr(
            hand_kernels_refusal(
                f, product_kernel(f, arena_printf(f->arena, "refused%zu", i), &forms[0]),
                names[i]),
            "gx.tensor."));
}

static float factor(int side, uint32_t row, uint32_t term)
{
    return (float)((row * 7 + term * 5 + (uint32_t)side * 3) % 17) - 8;
}

/* As matrices() has it: of each, rows are of the side, or of a transposed factor terms. */
static void fill(uint16_t *out, int side, uint32_t count, DType type, bool is_transposed)
{
    for (uint32_t row = 0; row < count; row++) {
        for (uint32_t term = 0; term < TERMS; term++) {
            uint32_t matrix = term / PIECE * (count / PIECE) + row / PIECE;
            uint32_t down = is_transposed ? term % PIECE : row % PIECE,
                     across = is_transposed ? row % PIECE : term % PIECE;
            float x = factor(side, row, term);
            out[matrix * PIECE * PIECE + down * PIECE + across] =
                type == DT_F16 ? number_float_to_f16(x) : number_float_to_bf16(x);
        }
    }
}

static void run_form(HandKernels *f, int number)
{
    const Form *form = &forms[number];
    static uint16_t a[LEFT_BYTES / 2], b[RIGHT_BYTES / 2];
    static float out[MOST_ROWS * COLUMNS];
    Kernel *k = product_kernel(f, arena_printf(f->arena, "run%d", number), form);
    fill(a, 0, form->rows, form->type, form->is_transposed[0]);
    fill(b, 1, COLUMNS, form->type, form->is_transposed[1]);
    const uint64_t args[] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)out},
                   extents[] = {sizeof a, sizeof b, sizeof out};
    hand_kernels_run_well(f, k, 100,
                          (HandRun){.args = args, .extents = extents, .count = 3});
    for (uint32_t row = 0; row < form->rows; row++) {
        for (uint32_t column = 0; column < COLUMNS; column++) {
            float sum = 0;
            for (uint32_t term = 0; term < TERMS; term++)
                sum += factor(0, row, term) * factor(1, column, term);
            assert_true(out[row * COLUMNS + column] == 2 * sum);
        }
    }
}

static void products_are_sums(void **state)
{
    for (int i = 0; i < FORMS; i++)
        run_form(*state, i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_assemble),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(products_are_sums),
    };
    return cmocka_run_group_tests(tests, hand_kernels_set_up, hand_kernels_tear_down);
}
