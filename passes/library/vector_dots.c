/* Products of a matrix and a vector read each element of the matrix once, so that memory is all that counts:
 * as a product of elements and a sum they are reductions, which read a row, or columns, side by side, take
 * in what makes their operands, and are split where there are few results. So do those of a few rows that are
 * large, and are not the library's: the heads of a cache, of which a group of queries shares one.
 *
 *   y = bf16[1,4096] dot(x, w), ...                                x: bf16[1,8192], w: bf16[8192,4096]
 *   ->  p = f32[8192,1,4096] multiply(broadcast(convert(x)), broadcast(convert(w)))
 *       y = convert(f32[1,4096] reduce(p, 0), dimensions={0}, add)
 *
 * What a kernel on tensor cores does as fast by the model of time is left to it: it takes fewer instructions, and its
 * loads run ahead of its products. A sum over columns takes what makes its vector into its kernel, and a sum another one
 * that it is combined with: there one row is a tile's only if it meets no other product, and if the launch of what makes
 * the vector is lost in it.
 *
 * Needs: laid out. Keeps: values but for the order of sums. Ends: each rewrite removes a dot. */
#include <string.h>

#include "ir/kernel/candidates.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/matmul.h"
#include "ir/kernel/time/costs.h"
#include "passes/fusion/fusion.h"
#include "passes/library/library.h"
#include "passes/settings.h"
#include "passes/simplify/rewrite.h"

#define NEAR 1.01 /* of a bound that no kernel quite reaches */

enum {
    LEAST_SUM = 32 /* terms */,
    MOST_ROWS = 8,
    MOST_SEEN = 64 /* instructions around a product */
};

typedef struct Side {
    Instruction *x;
    Ints batch, sum;
    int64_t kept; /* elements of the other dimensions */
} Side;

static Side side_of(const Instruction *dot, uint32_t i)
{
    Side s = {.x = dot->operands[i],
              .batch = inst_ints(dot, i == 0 ? ATTR_LHS_BATCH_DIMS : ATTR_RHS_BATCH_DIMS),
              .sum = inst_ints(dot, i == 0 ? ATTR_LHS_CONTRACTING_DIMS
                                           : ATTR_RHS_CONTRACTING_DIMS),
              .kept = 1};
    for (uint32_t d = 0; d < s.x->shape->rank; d++) {
        if (!ints_contain(s.batch, d) && !ints_contain(s.sum, d))
            s.kept *= s.x->shape->dims[d];
    }
    return s;
}

static bool fits(const Rewriter *r, const Instruction *dot)
{
    DType t = dot->shape->dtype;
    if (matmul_is_library(dot) || !dtype_is_float(t) || dtype_info[t].bits < 16 ||
        inst_int(dot, ATTR_ALGORITHM, ALGORITHM_UNSET) != ALGORITHM_UNSET ||
        dot->operand_count != 2 || !rw_is_static(dot->shape) ||
        !shape_is_row_major(dot->shape))
        return false;
    int64_t elements = 0;
    for (uint32_t i = 0; i < 2; i++) {
        const Shape *s = dot->operands[i]->shape;
        if (!rw_is_static(s) || !shape_is_row_major(s) || !dtype_is_float(s->dtype) ||
            dtype_info[s->dtype].bits < 16 ||
            dtype_info[s->dtype].bits > dtype_info[t].bits)
            return false;
        elements = shape_elements(s) > elements ? shape_elements(s) : elements;
    }
    return elements >= r->cx->settings->vector_dot_elements;
}

/* Elements as the sum is made: narrow floats in f32. */
static Instruction *widened(Rewriter *r, Instruction *x, DType result)
{
    return rw_in_type(r, x, dtype_info[result].bits < 32 ? DT_F32 : result);
}

/* The sum reads along the rows of the matrix as it lies. */
static bool is_by_rows(const Side *matrix)
{
    const Shape *s = matrix->x->shape;
    uint32_t last = s->rank;
    while (last > 0 && s->dims[last - 1] == 1)
        last--;
    return last > 0 && ints_contain(matrix->sum, (int64_t)last - 1);
}

/* The dimensions of all products: where those of the two sides stand. */
typedef struct Products {
    int64_t *sizes, *position[2], *sums;
    uint32_t rank, sum_count;
} Products;

/* In the order of the matrix. */
static void add_sums(Products *p, const Side *side, uint32_t matrix)
{
    const Side *m = &side[matrix], *v = &side[!matrix];
    for (uint32_t d = 0; d < m->x->shape->rank; d++) {
        int64_t i = ints_find(m->sum, d);
        if (i < 0)
            continue;
        p->position[matrix][d] = p->position[!matrix][v->sum.data[i]] = p->rank;
        p->sums[p->sum_count++] = p->rank;
        p->sizes[p->rank++] = m->x->shape->dims[d];
    }
}

/* As the dot has them; those that are summed last if the matrix is read by rows, else behind the batch. */
static Products find_products(Rewriter *r, const Side *side, uint32_t matrix)
{
    bool by_rows = is_by_rows(&side[matrix]);
    uint32_t rank = side[0].x->shape->rank + side[1].x->shape->rank + 1u;
    Products p = {.sizes = ARENA_ARRAY(r->scratch, int64_t, rank),
                  .position = {ARENA_ARRAY(r->scratch, int64_t, rank),
                               ARENA_ARRAY(r->scratch, int64_t, rank)},
                  .sums = ARENA_ARRAY(r->scratch, int64_t, rank)};
    for (uint32_t i = 0; i < side[0].batch.count; i++) {
        int64_t d = side[0].batch.data[i];
        p.position[0][d] = p.position[1][side[1].batch.data[i]] = p.rank;
        p.sizes[p.rank++] = side[0].x->shape->dims[d];
    }
    if (!by_rows)
        add_sums(&p, side, matrix);
    for (uint32_t i = 0; i < 2; i++) {
        const Shape *s = side[i].x->shape;
        for (uint32_t d = 0; d < s->rank; d++) {
            if (ints_contain(side[i].batch, d) || ints_contain(side[i].sum, d))
                continue;
            p.position[i][d] = p.rank;
            p.sizes[p.rank++] = s->dims[d];
        }
    }
    if (by_rows)
        add_sums(&p, side, matrix);
    return p;
}

/* Of the sum, at best: the arrays through memory, the matrix through L2 for each row, for rows are results of their
 * own, or each product and its operands' conversions. */
static double sum_seconds(const Rewriter *r, const Instruction *dot, const Side *matrix,
                          double rows)
{
    const GpuModel *device = r->cx->target->device;
    const GpuRates *rates = gpu_rates(device);
    OpCost one = op_cost(OP_MULTIPLY, DT_F32), sum = op_cost(OP_ADD, DT_F32),
           widen = convert_cost(dot->operands[0]->shape->dtype, DT_F32);
    double each = one.fma + sum.fma + widen.alu + widen.fma + widen.mufu;
    double bytes = (double)shape_bytes(dot->shape);
    for (uint32_t i = 0; i < 2; i++)
        bytes += (double)shape_bytes(dot->operands[i]->shape);
    double memory = cost_seconds_of_bytes(device, bytes);
    double l2 = rows * (double)shape_bytes(matrix->x->shape) /
                (rates->l2_bytes * rates->mhz * 1e6);
    double products = rows * (double)shape_elements(matrix->x->shape);
    double issue =
        1e-12 * (double)cost_ps_of_instructions(device, (int64_t)(each * products));
    double most = memory > issue ? memory : issue;
    return costs.launch_seconds + (most > l2 ? most : l2);
}

/* -- what a sum would take in ------------------------------------------------------------------- */

static bool is_fusible(const Instruction *inst)
{
    return op_is(inst->op, OPF_ELEMENTWISE | OPF_MOVES) && inst->operand_count > 0;
}

static bool is_computed_vector(const Instruction *x)
{
    while (op_is(x->op, OPF_MOVES) && x->operand_count > 0)
        x = x->operands[0];
    return is_fusible(x);
}

/* Instructions that have been looked at for one dot. */
typedef struct Seen {
    const Instruction *list[MOST_SEEN];
    uint32_t count;
} Seen;

/* False: it was seen before, or there are too many. */
static bool is_new(Seen *seen, const Instruction *inst)
{
    bool is = seen->count < MOST_SEEN;
    for (uint32_t i = 0; i < seen->count && is; i++)
        is = seen->list[i] != inst;
    if (is)
        seen->list[seen->count++] = inst;
    return is;
}

static bool walk_operands(Seen *seen, const Instruction *x, const Instruction *end)
{
    bool is = x == end;
    for (uint32_t i = 0; i < x->operand_count && !is; i++)
        is = is_new(seen, x->operands[i]) && walk_operands(seen, x->operands[i], end);
    return is;
}

/* `x` is made of `end`, or of so much that it may be. */
static bool is_made_of(const Instruction *x, const Instruction *end)
{
    Seen seen = {.count = 0};
    return walk_operands(&seen, x, end) || seen.count == MOST_SEEN;
}

/* Elementwise operations make it of a product that stands beside `dot`, neither behind nor before it. */
static bool is_made_of_other(Seen *seen, const Instruction *x, const Instruction *dot)
{
    if (x == dot || !is_new(seen, x))
        return false;
    if (x->op == OP_DOT || x->op == OP_REDUCE)
        return !is_made_of(x, dot) && !is_made_of(dot, x);
    bool is = false;
    for (uint32_t i = 0; i < x->operand_count && !is && is_fusible(x); i++)
        is = is_made_of_other(seen, x->operands[i], dot);
    return is;
}

/* Elementwise operations combine what is made of `dot` with what is made of another product. */
static bool meets_product(Seen *down, Seen *up, const Uses *uses, const Instruction *made,
                          const Instruction *dot)
{
    bool meets = false;
    for (uint32_t i = 0; i < uses_count(uses, made) && !meets; i++) {
        const Instruction *user = uses->list[uses->start[made->id] + i];
        meets =
            is_fusible(user) && is_new(down, user) &&
            (is_made_of_other(up, user, dot) || meets_product(down, up, uses, user, dot));
    }
    return meets;
}

/* Whether a sum of the one row would share its kernel with another's. */
static bool has_company(Rewriter *r, const Instruction *dot)
{
    const Uses *uses = rw_uses(r);
    Seen down = {.count = 0}, up = {.count = 0};
    return dot->id >= r->known || meets_product(&down, &up, uses, dot, dot);
}

/* The kernel on tensor cores, where a sum is no faster; else NULL. */
static Instruction *tile_kernel(Rewriter *r, Instruction *dot, const Side *matrix,
                                const Side *vector, double rows)
{
    Candidates all;
    bool is_one = rows == 1, is_computed = is_one && is_computed_vector(vector->x);
    if (r->cx->target->tiles == TILES_NONE)
        return NULL;
    /* where each result has a row of the matrix, each reads all that the vector is computed of: that is no gain */
    bool is_taken_in = is_one && !(is_computed && is_by_rows(matrix));
    if (is_taken_in && has_company(r, dot))
        return NULL;
    candidates_find(dot, NULL, r->cx->target, r->cx->products, &all);
    const Candidate *tile = candidates_by(&all, CANDIDATE_TILE);
    double before = is_taken_in && is_computed ? costs.launch_seconds : 0;
    if (tile == NULL || tile->seconds + before > sum_seconds(r, dot, matrix, rows) * NEAR)
        return NULL;
    Instruction *fusion = fusion_wrap(dot);
    kernel_kind_set(fusion, kernel_kind_find(tile->name, strlen(tile->name)));
    return fusion;
}

static Instruction *vector_dot(Rewriter *r, Instruction *dot)
{
    if (!fits(r, dot))
        return NULL;
    Side side[2] = {side_of(dot, 0), side_of(dot, 1)};
    uint32_t matrix = side[0].kept > side[1].kept ? 0 : 1;
    int64_t terms = 1, rows = side[!matrix].kept;
    for (uint32_t i = 0; i < side[0].sum.count; i++)
        terms *= side[0].x->shape->dims[side[0].sum.data[i]];
    int64_t elements = shape_elements(side[matrix].x->shape);
    if (rows > MOST_ROWS || terms < LEAST_SUM ||
        dot->shape->rank + side[0].sum.count > KERNEL_MOST_RANK ||
        (rows > 1 && elements < r->cx->settings->library_dot_work / rows))
        return NULL;
    Instruction *tile = tile_kernel(r, dot, &side[matrix], &side[!matrix], (double)rows);
    if (tile != NULL)
        return tile;
    Products p = find_products(r, side, matrix);
    Instruction *x[2];
    for (uint32_t i = 0; i < 2; i++) {
        x[i] = widened(r, side[i].x, dot->shape->dtype);
        x[i] = rw_spread(r, rw_shape(r, x[i]->shape->dtype, p.rank, p.sizes), x[i],
                         p.position[i]);
    }
    Instruction *product = rw_binary(r, OP_MULTIPLY, x[0]->shape, x[0], x[1]);
    DType t = product->shape->dtype;
    const Shape *sums = rw_shape(r, t, dot->shape->rank, dot->shape->dims);
    Instruction *sum = rw_sum(r, sums, product, p.sum_count, p.sums);
    r->cx->counts.vector_dots++;
    return rw_convert(r, dot->shape, sum);
}

bool pass_vector_dots(Module *m, PassContext *cx)
{
    static const Rule rules[] = {{OP_DOT, "vector_dot", vector_dot}, {0}};
    return rewrite_module(m, cx, (const Rule *[]){rules}, 1);
}
