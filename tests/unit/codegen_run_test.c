/* Kernels written by hand on gx.*, compiled for the host and run by the emulator's engine:
 * block sums with shared memory, shuffles and barriers, atomics, functions of libdevice
 * against the C library, and what an access out of bounds is told as. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/backend.h"
#include "tests/unit/shared/hand_kernels.h"

enum { THREADS = 128, BLOCKS = 8, ELEMENTS = THREADS * BLOCKS };

typedef struct Fixture {
    HandKernels hand;
    Kernel *kernel;
    LLVMTypeRef f32, f64;
    bool reports; /* accesses, as in shadow mode */
} Fixture;

static int set_up(void **state)
{
    static Fixture f;
    *state = &f;
    return hand_kernels_open(&f.hand) ? 0 : 1;
}

static int tear_down(void **state)
{
    Fixture *f = *state;
    hand_kernels_close(&f->hand);
    return 0;
}

/* A kernel of two pointers, in and out, of `bytes` each. */
static Kernel *start(Fixture *f, const char *name, uint64_t bytes)
{
    static const uint32_t block[3] = {THREADS, 1, 1}, grid[3] = {BLOCKS, 1, 1};
    const KernelArg args[] = {{.align = 16, .bytes = bytes, .is_read_only = true},
                              {.align = 16, .bytes = bytes}};
    Kernel *k = kernel_create(f->hand.arena, backend_module(f->hand.backend), name, args,
                              2, block, grid);
    f->kernel = k;
    f->f32 = LLVMFloatTypeInContext(k->context);
    f->f64 = LLVMDoubleTypeInContext(k->context);
    return k;
}

/* Byte offset of this thread's element. */
static LLVMValueRef element(Kernel *k, unsigned bytes)
{
    LLVMBuilderRef b = k->builder;
    LLVMValueRef first = LLVMBuildNUWMul(b, gx_ctaid(k, 0), gx_i32(k, THREADS), "");
    LLVMValueRef index = LLVMBuildNUWAdd(b, first, gx_tid(k, 0), "");
    return LLVMBuildNUWMul(b, index, gx_i32(k, bytes), "");
}

static bool run(Fixture *f, void *in, void *out, uint64_t bytes, Finding *finding)
{
    const uint64_t args[] = {(uintptr_t)in, (uintptr_t)out};
    const uint64_t extents[] = {bytes, bytes};
    HandRun launch = {
        .args = args, .extents = extents, .count = 2, .check_written = f->reports};
    kernel_finish(f->kernel);
    return hand_kernels_run(&f->hand, f->kernel, 90, &launch, finding);
}

/* ---- math ---- */

static double ulps(double got, double want, bool is_double)
{
    if (got == want || (isnan(got) && isnan(want)))
        return 0;
    int exponent;
    frexp(want, &exponent);
    int least = is_double ? -1021 : -125;
    double ulp = ldexp(1, (exponent < least ? least : exponent) - (is_double ? 53 : 24));
    return fabs(got - want) / ulp;
}

typedef struct Function {
    const char *name;
    double (*want)(double);
    double low, high;         /* of the arguments */
    double most, most_double; /* allowed error, in ulps */
} Function;

static const Function functions[] = {
    {"exp", exp, -87, 88, 2, 1},     {"log", log, 1e-30, 1e30, 1, 1},
    {"sin", sin, -1e5, 1e5, 2, 2},   {"cos", cos, -1e5, 1e5, 2, 2},
    {"tanh", tanh, -12, 12, 2, 2},   {"erf", erf, -5, 5, 2, 2},
    {"sinh", sinh, -80, 80, 3, 2},   {"cosh", cosh, -80, 80, 3, 2},
    {"expm1", expm1, -20, 80, 2, 1}, {"log1p", log1p, -0.99, 1e6, 2, 1},
    {"tan", tan, -1e3, 1e3, 4, 2},   {"atan", atan, -1e6, 1e6, 2, 2},
    {"cbrt", cbrt, -1e9, 1e9, 2, 2}, {"round", round, -1e3, 1e3, 0, 0},
    {"sqrt", sqrt, 0, 1e30, 0, 0},   {"exp2", exp2, -120, 120, 2, 1},
};

static void check_function(Fixture *f, const Function *fn, bool is_double)
{
    unsigned bytes = is_double ? 8 : 4;
    const char *suffix = is_double ? "" : "f";
    Kernel *k = start(f, arena_printf(f->hand.arena, "k_%s%s", fn->name, suffix),
                      ELEMENTS * bytes);
    LLVMTypeRef type = is_double ? f->f64 : f->f32;
    LLVMValueRef offset = element(k, bytes), x = gx_load(k, 0, offset, type, bytes);
    x = gx_libdevice(k, arena_printf(f->hand.arena, "%s%s", fn->name, suffix), &x, 1);
    gx_store(k, 1, offset, x, bytes);

    float in[ELEMENTS], out[ELEMENTS];
    double in_double[ELEMENTS], out_double[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        double value = fn->low + (fn->high - fn->low) * i / (ELEMENTS - 1);
        in[i] = (float)value;
        in_double[i] = is_double ? value : (double)in[i];
    }
    Finding finding;
    bool is_good = is_double ? run(f, in_double, out_double, sizeof in_double, &finding)
                             : run(f, in, out, sizeof in, &finding);
    assert_true(is_good);
    for (int i = 0; i < ELEMENTS; i++) {
        double got = is_double ? out_double[i] : (double)out[i];
        double want = fn->want(in_double[i]);
        double error = ulps(got, want, is_double);
        if (!(error <= (is_double ? fn->most_double : fn->most) + 0.5))
            fail_msg("%s%s(%.9g) = %.17g, not %.17g (%.2f ulp)", fn->name, suffix,
                     in_double[i], got, want, error);
    }
}

static void math_agrees_with_the_c_library(void **state)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        check_function(*state, &functions[i], false);
        check_function(*state, &functions[i], true);
    }
}

/* ---- threads together ---- */

static LLVMValueRef warp_sum(Kernel *k, LLVMValueRef v)
{
    for (unsigned distance = 16; distance > 0; distance /= 2)
        v = gx_float_op(k, LLVMFAdd, v,
                        gx_shfl(k, GX_SHFL_BFLY, v, gx_i32(k, distance), 32));
    return v;
}

static void blocks_are_summed(void **state)
{
    Fixture *f = *state;
    Kernel *k = start(f, "block_sum", ELEMENTS * 8);
    LLVMBuilderRef b = k->builder;
    uint32_t room = gx_shared_alloc(k, 4 * 8, 8);
    LLVMValueRef t = gx_tid(k, 0),
                 sum = warp_sum(k, gx_load(k, 0, element(k, 8), f->f64, 8));
    GxIf is_first;
    LLVMValueRef lane = LLVMBuildAnd(b, t, gx_i32(k, 31), "");
    gx_if_begin(k, &is_first, LLVMBuildICmp(b, LLVMIntEQ, lane, gx_i32(k, 0), ""));
    LLVMValueRef slot =
        LLVMBuildMul(b, LLVMBuildLShr(b, t, gx_i32(k, 5), ""), gx_i32(k, 8), "");
    gx_store(k, GX_SHARED, LLVMBuildAdd(b, slot, gx_i32(k, room), ""), sum, 8);
    gx_if_end(k, &is_first, NULL, 0, NULL);
    gx_barrier(k);
    gx_if_begin(k, &is_first, LLVMBuildICmp(b, LLVMIntEQ, t, gx_i32(k, 0), ""));
    GxLoop loop;
    sum = LLVMConstReal(f->f64, 0);
    gx_loop_begin(k, &loop, gx_i32(k, 0), gx_i32(k, 4), gx_i32(k, 1), &sum, 1);
    LLVMValueRef at = LLVMBuildMul(b, loop.index, gx_i32(k, 8), "");
    at = LLVMBuildAdd(b, at, gx_i32(k, room), "");
    LLVMValueRef next =
        gx_float_op(k, LLVMFAdd, sum, gx_load(k, GX_SHARED, at, f->f64, 8));
    gx_loop_end(k, &loop, &next);
    gx_store(k, 1, LLVMBuildMul(b, gx_ctaid(k, 0), gx_i32(k, 8), ""), sum, 8);
    gx_if_end(k, &is_first, NULL, 0, NULL);

    double in[ELEMENTS], out[ELEMENTS] = {0};
    for (int i = 0; i < ELEMENTS; i++)
        in[i] = i;
    Finding finding;
    assert_true(run(f, in, out, sizeof in, &finding));
    for (int block = 0; block < BLOCKS; block++) {
        double want = 0;
        for (int i = 0; i < THREADS; i++)
            want += in[block * THREADS + i];
        assert_true(out[block] == want);
    }
}

/* Both shuffles, of two bytes in groups of eight lanes. */
static void shuffles_move_every_type(void **state)
{
    Fixture *f = *state;
    Kernel *k = start(f, "shuffles", ELEMENTS * 16);
    LLVMTypeRef type = LLVMVectorType(gx_int_type(k, 8), 2);
    LLVMValueRef offset = element(k, 16), v = gx_load(k, 0, offset, type, 2);
    LLVMValueRef three = gx_i32(k, 3), at = offset;
    LLVMValueRef results[] = {gx_shfl(k, GX_SHFL_UP, v, three, 8),
                              gx_shfl(k, GX_SHFL_BFLY, v, three, 8)};
    for (int i = 0; i < 2; i++) {
        gx_store(k, 1, at, results[i], 2);
        at = LLVMBuildAdd(k->builder, at, gx_i32(k, 2), "");
    }

    static uint8_t in[ELEMENTS * 16], out[ELEMENTS * 16];
    for (int i = 0; i < ELEMENTS; i++) {
        in[i * 16] = (uint8_t)i;
        in[i * 16 + 1] = (uint8_t)(i >> 8);
    }
    Finding finding;
    assert_true(run(f, in, out, sizeof in, &finding));
    for (int i = 0; i < ELEMENTS; i++) {
        int group = i & ~7, l = i & 7;
        int want[] = {l >= 3 ? i - 3 : i, group + (l ^ 3)};
        for (int j = 0; j < 2; j++) {
            int got = out[i * 16 + 2 * j] | out[i * 16 + 2 * j + 1] << 8;
            assert_int_equal(got, want[j]);
        }
    }
}

static void atomics_lose_nothing(void **state)
{
    Fixture *f = *state;
    Kernel *k = start(f, "atomics", 64);
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef half = LLVMHalfTypeInContext(k->context);
    LLVMTypeRef bfloat = LLVMBFloatTypeInContext(k->context);
    LLVMValueRef t = gx_tid(k, 0), value = LLVMBuildSIToFP(b, t, f->f32, "");
    gx_atomic(k, GX_ATOMIC_ADD, 1, gx_i32(k, 0), gx_i32(k, 1));
    gx_atomic(k, GX_ATOMIC_ADD, 1, gx_i32(k, 4), LLVMConstReal(f->f32, 1));
    gx_atomic(k, GX_ATOMIC_MAX, 1, gx_i32(k, 8), value);
    gx_atomic(k, GX_ATOMIC_MIN, 1, gx_i32(k, 12), LLVMBuildFNeg(b, value, ""));
    gx_atomic(k, GX_ATOMIC_ADD, 1, gx_i32(k, 16), LLVMConstReal(half, 1));
    gx_atomic(k, GX_ATOMIC_ADD, 1, gx_i32(k, 18), LLVMConstReal(bfloat, 0.25));
    gx_atomic(k, GX_ATOMIC_UMAX, 1, gx_i32(k, 20),
              LLVMBuildTrunc(b, t, gx_int_type(k, 8), ""));
    gx_atomic(k, GX_ATOMIC_ADD, 1, gx_i32(k, 24), LLVMConstReal(f->f64, 0.5));
    float zeros[16] = {0}, out[16] = {0};
    Finding finding;
    assert_true(run(f, zeros, out, 64, &finding));
    uint32_t words[16];
    memcpy(words, out, sizeof words);
    double sum;
    memcpy(&sum, words + 6, sizeof sum);
    assert_int_equal(words[0], ELEMENTS);
    assert_true(out[1] == ELEMENTS && out[2] == THREADS - 1 && out[3] == -(THREADS - 1));
    assert_int_equal(words[4] & 0xffff, 0x6400); /* 1024 as half */
    assert_int_equal(words[4] >> 16, 0x4280); /* 64: bfloat has 8 bits, 64 + 0.25 is 64 */
    assert_int_equal(words[5], THREADS - 1);
    assert_true(sum == ELEMENTS * 0.5);
}

/* ---- mistakes ---- */

static void an_access_out_of_bounds_names_its_instruction(void **state)
{
    Fixture *f = *state;
    Kernel *k = start(f, "outside", 4096);
    LLVMValueRef offset = element(k, 4);
    k->at = "add.7";
    LLVMValueRef v = gx_load(k, 0, offset, f->f32, 4);
    k->at = "dynamic-update-slice.9";
    gx_store(k, 1, LLVMBuildAdd(k->builder, offset, gx_i32(k, 4), ""), v, 4);
    float in[1024] = {0}, out[1024];
    Finding finding;
    assert_false(run(f, in, out, 4096, &finding));
    assert_non_null(strstr(finding.text, "dynamic-update-slice.9"));
}

static void a_misaligned_access_is_found(void **state)
{
    Fixture *f = *state;
    Kernel *k = start(f, "misaligned", 8192);
    LLVMTypeRef pair = LLVMVectorType(f->f32, 2);
    k->at = "bitcast.3";
    gx_store(k, 1, gx_i32(k, 4), gx_load(k, 0, gx_i32(k, 0), pair, 8), 8);
    static double in[1024], out[1024];
    Finding finding;
    assert_false(run(f, in, out, 8192, &finding));
    assert_non_null(strstr(finding.text, "misaligned: "));
    assert_non_null(strstr(finding.text, "bitcast.3"));
}

/* LLVM may rely on what a kernel is promised of its arguments, even where no access does. */
static void a_misaligned_argument_is_found(void **state)
{
    Fixture *f = *state;
    static _Alignas(16) double in[1024], out[1024];
    double *odd = in + 1;
    for (int is_odd = 0; is_odd < 2; is_odd++) {
        Kernel *k = start(f, is_odd ? "odd" : "even", 4096);
        gx_store(k, 1, gx_i32(k, 0), gx_load(k, 0, gx_i32(k, 0), f->f64, 8), 8);
        Finding finding;
        f->reports = true;
        assert_int_equal(run(f, is_odd ? odd : odd + 1, out, 4096, &finding), !is_odd);
        f->reports = false;
        if (is_odd)
            assert_non_null(
                strstr(finding.text, "was promised more of byte 0 of argument 0"));
    }
}

/* Half of a block's threads wait at one barrier (or the lanes of half a warp in one shuffle), the others at
 * another of the same instruction: to hardware they are two. */
static void synchronisations_of_one_instruction_are_told_apart(void **state)
{
    Fixture *f = *state;
    static float in[THREADS * BLOCKS], out[THREADS * BLOCKS];
    static const char *const wanted[] = {"divergent barrier", "divergent warp"};
    for (unsigned i = 0; i < 2; i++) {
        Kernel *k = start(f, i == 0 ? "two_barriers" : "two_shuffles", sizeof in);
        k->at = "reduce.5";
        uint32_t half = i == 0 ? THREADS / 2 : 16;
        LLVMValueRef value = i == 0 ? NULL : gx_lane(k);
        GxIf s;
        gx_if_begin(k, &s,
                    LLVMBuildICmp(k->builder, LLVMIntULT,
                                  i == 0 ? gx_tid(k, 0) : gx_lane(k), gx_i32(k, half),
                                  ""));
        for (unsigned side = 0; side < 2; side++) {
            if (i == 0)
                gx_barrier(k);
            else
                gx_store(k, 1, gx_i32(k, 4 * side),
                         gx_shfl(k, GX_SHFL_BFLY, value, gx_i32(k, 16), 32), 4);
            if (side == 0)
                gx_if_else(k, &s, NULL, 0);
        }
        gx_if_end(k, &s, NULL, 0, NULL);
        Finding finding;
        assert_false(run(f, in, out, sizeof in, &finding));
        assert_non_null(strstr(finding.text, wanted[i]));
        assert_non_null(strstr(finding.text, "reduce.5 (site 0"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(math_agrees_with_the_c_library),
        cmocka_unit_test(blocks_are_summed),
        cmocka_unit_test(shuffles_move_every_type),
        cmocka_unit_test(atomics_lose_nothing),
        cmocka_unit_test(an_access_out_of_bounds_names_its_instruction),
        cmocka_unit_test(a_misaligned_access_is_found),
        cmocka_unit_test(a_misaligned_argument_is_found),
        cmocka_unit_test(synchronisations_of_one_instruction_are_told_apart),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
