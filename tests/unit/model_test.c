/* The model of time: what it counts of small kernels, mechanism by mechanism, and what it says bounds them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/analysis/simulate.h"
#include "ir/base/text.h"
#include "ir/kernel/time/work.h"
#include "tests/unit/shared/module.h"

typedef struct Fixture {
    Arena *arena;
    Target target;
    Module *module;
    CostModel *cost;
} Fixture;

static int setup(void **state)
{
    static Fixture f;
    f = (Fixture){.arena = arena_create()};
    assert_true(target_find("h100", &f.target));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    Fixture *f = *state;
    arena_destroy(f->arena);
    return 0;
}

/* A module whose entry's root is a fusion of this kind and configuration with this body; parameters as in the body. */
static const Instruction *configured(Fixture *f, const char *kind, const char *config,
                                     const char *parameters, const char *body,
                                     const char *shape)
{
    Text t, operands;
    text_init(&t, f->arena);
    text_init(&operands, f->arena);
    text_printf(
        &t,
        "HloModule m, is_scheduled=true\n"
        "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n"
        "addi { x = s32[] parameter(0) y = s32[] parameter(1) ROOT z = s32[] add(x, y) "
        "}\n"
        "body { %s %s }\nENTRY main { %s ROOT k = %s fusion(",
        parameters, body, parameters, shape);
    for (unsigned i = 0; strstr(parameters, arena_printf(f->arena, "p%u =", i)) != NULL;
         i++)
        text_printf(&t, "%sp%u", i == 0 ? "" : ", ", i);
    text_printf(&t, "), kind=kLoop, calls=body, backend_config={\"emitter\":\"%s\"",
                kind);
    if (config != NULL)
        text_printf(&t, ",\"config\":{%s}", config);
    text_string(&t, "} }\n");
    f->module = parse_module(f->arena, t.data);
    f->cost = cost_create(f->module, &f->target, f->arena);
    return f->module->entry->root;
}

static const Instruction *fusion(Fixture *f, const char *kind, const char *parameters,
                                 const char *body, const char *shape)
{
    return configured(f, kind, NULL, parameters, body, shape);
}

static KernelWork work_of(Fixture *f, const Instruction *inst)
{
    KernelWork w;
    kernel_work(inst, &f->target, f->arena, &w);
    assert_int_equal(kernel_registers(inst, &f->target, f->arena), w.registers);
    return w;
}

static KernelTime cost_kernel_of(Fixture *f, const Instruction *inst)
{
    return cost_kernel(f->cost, inst);
}

#define assert_about(x, y) assert_true((x) > 0.98 * (y) && (x) < 1.02 * (y))

/* -- memory ------------------------------------------------------------------------------------------ */

#define MILLION "f32[1048576]"

static void streams_move_each_byte_once(void **state)
{
    Fixture *f = *state;
    const Instruction *k =
        fusion(f, "loop", "p0 = " MILLION " parameter(0) p1 = " MILLION " parameter(1)",
               "ROOT r = " MILLION " add(p0, p1)", MILLION);
    KernelWork w = work_of(f, k);
    assert_about(w.read_bytes, 8 * 1048576);
    assert_about(w.written_bytes, 4 * 1048576);
    assert_about(w.l2_bytes, 12 * 1048576);
    assert_about(w.needed_bytes, 12 * 1048576);
    assert_int_equal(cost_kernel(f->cost, k).limit, LIMIT_MEMORY);
}

/* Large ones: at nine tenths of the data sheet's rate, as streams on these devices. */
static void streams_reach_their_share(void **state)
{
    Fixture *f = *state;
    const Instruction *k =
        fusion(f, "loop", "p0 = f32[1073741824] parameter(0)",
               "ROOT r = f32[1073741824] negate(p0)", "f32[1073741824]");
    KernelTime t = cost_kernel(f->cost, k);
    assert_true(t.share > 0.88 && t.share < 0.92);
    assert_about(t.seconds, 2.0 * 4 * 1073741824 / 3352e9 / 0.91);
}

/* Read along the slow dimension each thread fetches a sector of its own: L2 moves eight times the bytes, memory
 * the same, as neighbours come while L2 holds them. */
static void strides_cost_sectors(void **state)
{
    Fixture *f = *state;
    const Instruction *k = fusion(
        f, "loop", "p0 = f32[2048,4096] parameter(0)",
        "ROOT r = f32[4096,2048] transpose(p0), dimensions={1,0}", "f32[4096,2048]");
    KernelWork w = work_of(f, k);
    double bytes = 4.0 * 2048 * 4096;
    assert_about(w.l2_bytes, 8 * bytes + bytes);
    assert_about(w.read_bytes, bytes);
    /* the transpose kernel reads whole sectors both ways */
    k = fusion(f, "transpose", "p0 = f32[2048,4096] parameter(0)",
               "ROOT r = f32[4096,2048] transpose(p0), dimensions={1,0}",
               "f32[4096,2048]");
    assert_about(work_of(f, k).l2_bytes, 2 * bytes);
    assert_true(cost_kernel(f->cost, k).seconds > 0);
}

/* exp(x - largest of the row): what the first walk read is in registers in the second. */
static void kept_rows_are_read_once(void **state)
{
    Fixture *f = *state;
    const Instruction *k = fusion(
        f, "row_reduction", "p0 = f32[4096,4096] parameter(0)",
        "none = f32[] constant(0) largest = f32[4096] reduce(p0, none), dimensions={1}, "
        "to_apply=add wide = f32[4096,4096] broadcast(largest), dimensions={0} "
        "ROOT r = f32[4096,4096] subtract(p0, wide)",
        "f32[4096,4096]");
    KernelWork w = work_of(f, k);
    assert_true(w.l2_bytes > 1.99 * 4096 * 4096 * 4);
    assert_true(w.l2_bytes < 2.01 * 4096 * 4096 * 4);
}

static void slices_move_what_they_take(void **state)
{
    Fixture *f = *state;
    const Instruction *k =
        fusion(f, "loop", "p0 = " MILLION " parameter(0)",
               "ROOT r = f32[65536] slice(p0), slice={[65536:131072]}", "f32[65536]");
    KernelWork w = work_of(f, k);
    assert_about(w.read_bytes, 4 * 65536);
    k = fusion(f, "loop", "p0 = f32[4096,1024] parameter(0) p1 = s32[16,1] parameter(1)",
               "ROOT r = f32[16,1024] gather(p0, p1), offset_dims={1}, "
               "collapsed_slice_dims={0}, "
               "start_index_map={0}, index_vector_dim=1, slice_sizes={1,1024}",
               "f32[16,1024]");
    w = work_of(f, k);
    assert_about(w.read_bytes - 16 * 4, 16 * 4096);
}

/* A window that neighbours share is fetched from memory once, however often threads read it. */
static void neighbours_are_fetched_once(void **state)
{
    Fixture *f = *state;
    const Instruction *k =
        fusion(f, "loop", "p0 = f32[4096,4096] parameter(0)",
               "a = f32[4094,4096] slice(p0), slice={[0:4094], [0:4096]} "
               "b = f32[4094,4096] slice(p0), slice={[1:4095], [0:4096]} "
               "c = f32[4094,4096] slice(p0), slice={[2:4096], [0:4096]} "
               "d = f32[4094,4096] add(a, b) ROOT e = f32[4094,4096] add(c, d)",
               "f32[4094,4096]");
    KernelWork w = work_of(f, k);
    double bytes = 4.0 * 4096 * 4096;
    assert_about(w.read_bytes, bytes);
    assert_about(w.l2_bytes, 4 * bytes);
}

/* -- units ---------------------------------------------------------------------------------------------- */

/* A sum of x and of x moved by a row and by an element. */
static KernelWork work_of_neighbours(Fixture *f, const char *kind)
{
    return work_of(
        f, fusion(f, kind, "p0 = f32[4097,1032] parameter(0)",
                  "a = f32[4096,1024] slice(p0), slice={[0:4096], [0:1024]} "
                  "b = f32[4096,1024] slice(p0), slice={[1:4097], [0:1024]} "
                  "c = f32[4096,1024] slice(p0), slice={[0:4096], [1:1025]} "
                  "d = f32[4096,1024] add(a, b) ROOT e = f32[4096,1024] add(c, d)",
                  "f32[4096,1024]"));
}

/* What another load of the same block fetched is in L1: of the element beside all but one sector of a block, of
 * the next row where the block walks there. */
static void neighbours_are_near(void **state)
{
    Fixture *f = *state;
    KernelWork loop = work_of_neighbours(f, "loop");
    KernelWork stencil = work_of_neighbours(f, "stencil");
    assert_true(loop.l2_bytes > 3 * 16 * 1048576.0 &&
                loop.l2_bytes < 3.3 * 16 * 1048576.0);
    assert_true(stencil.l2_bytes > 2 * 16 * 1048576.0 &&
                stencil.l2_bytes < 2.4 * 16 * 1048576.0);
}

/* Threads of either half read both halves: together all of the array, though each would find the other's. */
static void halves_are_read(void **state)
{
    Fixture *f = *state;
    const char *type = "f32[65536,256]", *half = "f32[65536,128]";
    const char *body = arena_printf(
        f->arena,
        "a = %s slice(p0), slice={[0:65536], [0:128]} "
        "b = %s slice(p0), slice={[0:65536], [128:256]} "
        "c = %s subtract(a, b) d = %s add(a, b) ROOT e = %s concatenate(c, d), "
        "dimensions={1}",
        half, half, half, half, type);
    const Instruction *k = fusion(
        f, "loop", arena_printf(f->arena, "p0 = %s parameter(0)", type), body, type);
    assert_about(work_of(f, k).read_bytes, 65536.0 * 256 * 4);
}

static void functions_take_their_units(void **state)
{
    Fixture *f = *state;
    const char *body = "a = " MILLION " tanh(p0) b = " MILLION " tanh(a) c = " MILLION
                       " tanh(b) d = " MILLION " tanh(c) ROOT e = " MILLION " tanh(d)";
    const Instruction *k =
        fusion(f, "loop", "p0 = " MILLION " parameter(0)", body, MILLION);
    KernelTime slow = cost_kernel(f->cost, k);
    assert_int_equal(slow.limit, LIMIT_MUFU);
    KernelWork w = work_of(f, k);
    double warps = 1048576.0 / TARGET_WARP;
    assert_about(w.counts.unit[WORK_MUFU] * w.blocks, 5 * 2 * warps);
    /* f64 has 64 units a multiprocessor on H100, 2 on T4 */
    assert_true(target_find("t4", &f->target));
    k = fusion(f, "loop", "p0 = f64[16777216] parameter(0)",
               "ROOT e = f64[16777216] exponential(p0)", "f64[16777216]");
    assert_int_equal(cost_kernel(f->cost, k).limit, LIMIT_F64);
    assert_true(target_find("h100", &f->target));
    k = fusion(f, "loop", "p0 = f64[16777216] parameter(0)",
               "ROOT e = f64[16777216] exponential(p0)", "f64[16777216]");
    assert_int_equal(cost_kernel(f->cost, k).limit, LIMIT_MEMORY);
}

/* ALU instructions of a loop over words: `last` makes r of a constant c and shifts l and s of p0. */
static double alu_of_words(Fixture *f, const char *last, int right)
{
    const char *body = arena_printf(f->arena,
                                    "i = u32[] constant(13) j = u32[] constant(%d) "
                                    "c = u32[1048576] broadcast(i), dimensions={} "
                                    "d = u32[1048576] broadcast(j), dimensions={} "
                                    "l = u32[1048576] shift-left(p0, c) "
                                    "s = u32[1048576] shift-right-logical(p0, d) "
                                    "ROOT r = u32[1048576] %s",
                                    right, last);
    return work_of(f, fusion(f, "loop", "p0 = u32[1048576] parameter(0)", body,
                             "u32[1048576]"))
        .counts.unit[WORK_ALU];
}

/* A shift back by the other bits is a rotation, any other one is not. */
static void rotations_are_one_instruction(void **state)
{
    Fixture *f = *state;
    double one = alu_of_words(f, "and(p0, c)", 19);
    assert_about(alu_of_words(f, "or(l, s)", 19), one);
    assert_about(alu_of_words(f, "or(s, l)", 19), one);
    assert_true(alu_of_words(f, "or(l, s)", 18) > one + 1);
    assert_true(alu_of_words(f, "xor(l, l)", 19) > one);
}

/* What divides is known: a product and shifts do it. */
static void constants_divide_cheaply(void **state)
{
    Fixture *f = *state;
    double any = alu_of_words(f, "remainder(p0, l)", 19);
    assert_true(alu_of_words(f, "remainder(p0, c)", 19) < any / 2);
    assert_true(alu_of_words(f, "divide(p0, c)", 19) < any / 2);
}

/* 32-bit sums are shared by the ALU and the unit of products. */
static void sums_take_either_unit(void **state)
{
    Fixture *f = *state;
    KernelWork w = work_of(f, fusion(f, "loop", "p0 = u32[1048576] parameter(0)",
                                     "a = u32[1048576] xor(p0, p0) "
                                     "ROOT r = u32[1048576] add(a, p0)",
                                     "u32[1048576]"));
    const GpuRates *r = gpu_rates(f->target.device);
    double warps = 1048576.0 / TARGET_WARP, units = r->alu + r->imul;
    assert_true(w.counts.unit[WORK_ADD] * w.blocks >= warps);
    double all =
        w.counts.unit[WORK_ALU] + w.counts.unit[WORK_IMUL] + w.counts.unit[WORK_ADD];
    assert_about(work_integer_cycles(&w.counts, r), all * TARGET_WARP / units);
    KernelWork only = {.blocks = 1e6, .threads = 128, .counts = {.issued = 100}};
    only.counts.unit[WORK_ADD] = only.counts.unit[WORK_ALU] = 60;
    assert_int_equal(kernel_time(&only, f->target.device).limit, LIMIT_ALU);
    double seconds = kernel_time(&only, f->target.device).seconds;
    only.counts.unit[WORK_ADD] = 0;
    only.counts.unit[WORK_ALU] = 120;
    assert_true(kernel_time(&only, f->target.device).seconds > 1.9 * seconds);
}

static const Instruction *square_dot(Fixture *f, const char *type, const char *result)
{
    const char *p = arena_printf(f->arena,
                                 "p0 = %s[4096,4096] parameter(0) "
                                 "p1 = %s[4096,4096] parameter(1)",
                                 type, type);
    const char *body = arena_printf(f->arena,
                                    "ROOT d = %s[4096,4096] dot(p0, p1), "
                                    "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                                    result);
    return fusion(f, "dot", p, body, arena_printf(f->arena, "%s[4096,4096]", result));
}

/* Products by FMA: issue is the limit for floats, the multipliers for integers at half the rate. */
static void products_take_their_units(void **state)
{
    Fixture *f = *state;
    KernelTime t = cost_kernel_of(f, square_dot(f, "f8e4m3fn", "f32"));
    assert_true(t.limit == LIMIT_ISSUE || t.limit == LIMIT_FMA);
    assert_true(t.seconds > 2e-3 && t.seconds < 8e-3);
    assert_true(t.least_seconds < 1e-4); /* tensor cores would */
    t = cost_kernel_of(f, square_dot(f, "s8", "s32"));
    assert_int_equal(t.limit, LIMIT_INT);
    assert_true(t.seconds > 2.5e-3 && t.seconds < 1e-2);
}

#define WIDE_TILE "\"tile\":[128,256],\"depth\":64,\"warps\":[8,1],\"stages\":"

/* Steps by wgmma that begin before the last one is done keep more of it busy; they need a stage more. */
static void steps_overlap(void **state)
{
    Fixture *f = *state;
    double cycles[3];
    static const char *const stages[] = {WIDE_TILE "2", WIDE_TILE "3", WIDE_TILE "4"};
    for (int i = 0; i < 3; i++) {
        const Instruction *k = configured(
            f, "tile", stages[i],
            "p0 = bf16[2048,1024] parameter(0) p1 = bf16[1024,1024] parameter(1)",
            "ROOT d = bf16[2048,1024] dot(p0, p1), lhs_contracting_dims={1}, "
            "rhs_contracting_dims={0}",
            "bf16[2048,1024]");
        cycles[i] = work_of(f, k).counts.unit[WORK_TENSOR];
    }
    assert_about(cycles[0] / cycles[1], 0.82 / 0.76);
    assert_about(cycles[2], cycles[1]);
}

/* Of tiles in groups rows behind the ends are neither read nor written; columns are read for each. */
static void rows_of_groups_move_once(void **state)
{
    Fixture *f = *state;
    const Instruction *k = configured(
        f, "tile", WIDE_TILE "4",
        "p0 = bf16[1024,512] parameter(0) p1 = bf16[4,512,512] parameter(1) p2 = s32[4] "
        "parameter(2)",
        "ROOT d = bf16[1024,512] ragged-dot(p0, p1, p2), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
        "bf16[1024,512]");
    KernelWork w = work_of(f, k);
    double rows = 1024 * 512 * 2, blocks = (1024 / 128 + 4 / 2) * (512 / 256);
    assert_about(w.blocks, blocks);
    assert_about(w.l2_bytes, 512.0 / 256 * rows + blocks * 256 * 512 * 2 + rows);
    assert_about(w.written_bytes, rows);
}

/* -- waits ------------------------------------------------------------------------------------------------ */

/* A weight's gradient: few blocks, each with all of a long sum; twice the sum, twice the time. */
static KernelTime long_sum(Fixture *f, int depth)
{
    const char *p = arena_printf(f->arena,
                                 "p0 = bf16[%d,64] parameter(0) p1 = bf16[%d,64] "
                                 "parameter(1)",
                                 depth, depth);
    return cost_kernel_of(
        f, fusion(f, "dot", p,
                  "ROOT d = f32[64,64] dot(p0, p1), lhs_contracting_dims={0}, "
                  "rhs_contracting_dims={0}",
                  "f32[64,64]"));
}

static void few_blocks_are_chains(void **state)
{
    Fixture *f = *state;
    KernelTime one = long_sum(f, 1 << 18), two = long_sum(f, 1 << 19);
    assert_int_equal(one.limit, LIMIT_CHAIN);
    assert_about(two.seconds, 2 * one.seconds);
    assert_about(one.steps, (1 << 18) / 16);
    assert_true(one.seconds > 20 * one.least_seconds);
}

static KernelTime scattered(Fixture *f, int updates, const char *type, const char *add)
{
    const char *p = arena_printf(f->arena,
                                 "p0 = %s[1000] parameter(0) p1 = s32[%d,1] "
                                 "parameter(1) p2 = %s[%d] parameter(2)",
                                 type, updates, type, updates);
    const char *body =
        arena_printf(f->arena,
                     "ROOT s = %s[1000] scatter(p0, p1, p2), update_window_dims={}, "
                     "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                     "index_vector_dim=1, to_apply=%s",
                     type, add);
    return cost_kernel_of(
        f, fusion(f, "scatter", p, body, arena_printf(f->arena, "%s[1000]", type)));
}

/* Sums of floats in order: each owner walks over all updates. Of integers: atomics, in parallel. */
static void ordered_sums_are_chains(void **state)
{
    Fixture *f = *state;
    KernelTime one = scattered(f, 1 << 20, "f32", "add"),
               two = scattered(f, 1 << 21, "f32", "add"),
               atomic = scattered(f, 1 << 20, "s32", "addi");
    assert_int_equal(one.limit, LIMIT_CHAIN);
    assert_about(one.steps, 1 << 20);
    assert_about(two.seconds, 2 * one.seconds);
    assert_int_equal(atomic.limit, LIMIT_ATOMICS);
    assert_true(atomic.seconds * 100 < one.seconds);
}

/* A cumulative sum of one row is one block, chunk by chunk; of many rows it is bound by memory. */
static KernelTime cumulative(Fixture *f, int rows, int columns)
{
    const char *shape = arena_printf(f->arena, "f32[%d,%d]", rows, columns);
    return cost_kernel_of(
        f, fusion(f, "window_scan", arena_printf(f->arena, "p0 = %s parameter(0)", shape),
                  arena_printf(f->arena,
                               "c = f32[] constant(0) ROOT s = %s reduce-window(p0, c), "
                               "window={size=1x%d pad=0_0x%d_0}, to_apply=add",
                               shape, columns, columns - 1),
                  shape));
}

static void one_row_is_a_chain(void **state)
{
    Fixture *f = *state;
    KernelTime row = cumulative(f, 1, 1 << 22), rows = cumulative(f, 1 << 11, 1 << 11);
    assert_int_equal(row.limit, LIMIT_CHAIN);
    assert_about(row.bytes, rows.bytes);
    assert_true(row.seconds > 50 * rows.seconds);
}

static void small_kernels_are_launches(void **state)
{
    Fixture *f = *state;
    KernelTime t = cost_kernel_of(f, fusion(f, "loop", "p0 = f32[64] parameter(0)",
                                            "ROOT r = f32[64] negate(p0)", "f32[64]"));
    assert_int_equal(t.limit, LIMIT_LAUNCH);
    assert_true(t.seconds > 2e-6 && t.seconds < 4e-6);
    t = cost_kernel_of(f, fusion(f, "loop", "p0 = f32[0] parameter(0)",
                                 "ROOT r = f32[0] negate(p0)", "f32[0]"));
    assert_true(t.seconds == 0); /* nothing is launched */
}

/* Shared memory and registers decide how many blocks a multiprocessor has. */
static void blocks_need_room(void **state)
{
    Fixture *f = *state;
    const GpuModel *d = f->target.device;
    KernelWork w = {.blocks = 1e4, .threads = 256, .registers = 32};
    assert_true(kernel_resident(&w, d) == 8);
    w.registers = 128;
    assert_true(kernel_resident(&w, d) == 2);
    w.shared_bytes = 200 * 1024;
    assert_true(kernel_resident(&w, d) == 1);
    w = (KernelWork){.blocks = 1e4, .threads = 32};
    assert_true(kernel_resident(&w, d) == 32);
    /* half as many blocks at a time take twice as long, where each waits */
    w = (KernelWork){.blocks = 132 * 8, .threads = 256, .block_cycles = 1e6};
    KernelTime all = kernel_time(&w, d);
    w.shared_bytes = 50 * 1024;
    KernelTime half = kernel_time(&w, d);
    assert_int_equal(all.limit, LIMIT_LATENCY);
    assert_about(half.seconds, 2 * all.seconds);
}

/* -- programs ------------------------------------------------------------------------------------------------ */

static KernelTime library_dot(Fixture *f, const char *type, int m, int n, int k)
{
    const char *text = arena_printf(
        f->arena,
        "HloModule m, is_scheduled=true\nENTRY main { a = %s[%d,%d] parameter(0) b = "
        "%s[%d,%d] "
        "parameter(1) ROOT d = %s[%d,%d] dot(a, b), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}, backend_config={\"library\":\"cublaslt\"} }\n",
        type, m, k, type, k, n, type, m, n);
    f->module = parse_module(f->arena, text);
    f->cost = cost_create(f->module, &f->target, f->arena);
    return cost_kernel(f->cost, f->module->entry->root);
}

static void libraries_reach_their_share(void **state)
{
    Fixture *f = *state;
    KernelTime bf16 = library_dot(f, "bf16", 8192, 8192, 8192),
               f32 = library_dot(f, "f32", 8192, 8192, 8192),
               narrow = library_dot(f, "bf16", 8, 8192, 8192),
               tiny = library_dot(f, "bf16", 64, 64, 64);
    assert_int_equal(bf16.limit, LIMIT_TENSOR);
    assert_true(bf16.share > 0.6 && bf16.share < 0.75);
    assert_int_equal(f32.limit, LIMIT_FMA);
    assert_true(f32.share > 0.7 && f32.share < 0.9);
    assert_int_equal(narrow.limit, LIMIT_MEMORY);
    assert_int_equal(tiny.limit, LIMIT_LAUNCH);
}

/* A loop counts as often as it is known to run, without its condition. */
static void loops_count_their_trips(void **state)
{
    Fixture *f = *state;
    const char *text =
        "HloModule m, is_scheduled=true\n"
        "one { x = f32[1048576] parameter(0) ROOT n = f32[1048576] negate(x) }\n"
        "body { t = (f32[1048576]) parameter(0) x = f32[1048576] get-tuple-element(t), "
        "index=0 "
        "n = f32[1048576] fusion(x), kind=kLoop, calls=one, "
        "backend_config={\"emitter\":\"loop\"} ROOT r = (f32[1048576]) tuple(n) }\n"
        "condition { t = (f32[1048576]) parameter(0) ROOT c = pred[] constant(true) }\n"
        "ENTRY main { p = f32[1048576] parameter(0) i = (f32[1048576]) tuple(p) "
        "ROOT w = (f32[1048576]) while(i), condition=condition, body=body, "
        "backend_config={\"known_trip_count\":{\"n\":\"7\"}} }\n";
    f->module = parse_module(f->arena, text);
    f->cost = cost_create(f->module, &f->target, f->arena);
    const Instruction *loop = f->module->entry->root;
    const Instruction *n = inst_called(loop, 1)->root->operands[0];
    double one = cost_kernel(f->cost, n).seconds;
    assert_true(one > 0);
    assert_about(cost_compute(f->cost, loop), 7 * one);
    assert_about(simulate(f->module, f->cost, f->arena).step, 7 * one);
}

/* As ptxas gives them to a thread that has use for more: of 672 threads, warps that four quarters cannot share evenly. */
static void threads_share_registers(void **state)
{
    (void)state;
    assert_int_equal(target_thread_registers(32), 255);
    assert_int_equal(target_thread_registers(256), 255);
    assert_int_equal(target_thread_registers(512), 128);
    assert_int_equal(target_thread_registers(640), 96);
    assert_int_equal(target_thread_registers(672), 80);
    assert_int_equal(target_thread_registers(1024), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(streams_move_each_byte_once),
        TEST(streams_reach_their_share),
        TEST(strides_cost_sectors),
        TEST(kept_rows_are_read_once),
        TEST(slices_move_what_they_take),
        TEST(neighbours_are_fetched_once),
        TEST(functions_take_their_units),
        TEST(neighbours_are_near),
        TEST(halves_are_read),
        TEST(rotations_are_one_instruction),
        TEST(constants_divide_cheaply),
        TEST(sums_take_either_unit),
        TEST(products_take_their_units),
        TEST(steps_overlap),
        TEST(rows_of_groups_move_once),
        TEST(few_blocks_are_chains),
        TEST(ordered_sums_are_chains),
        TEST(one_row_is_a_chain),
        TEST(small_kernels_are_launches),
        TEST(blocks_need_room),
        TEST(threads_share_registers),
        TEST(libraries_reach_their_share),
        TEST(loops_count_their_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
