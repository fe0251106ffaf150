/* Products of a matrix and a vector read each element of the matrix once, so that memory is all that counts:
 * as a product of elements and a sum they are reductions, which read a row, or columns, side by side, take
 * in what makes their operands, and are split where there are few results.
 *
 *   y = bf16[1,4096] dot(x, w), ...                                x: bf16[1,8192], w: bf16[8192,4096]
 *   ->  p = f32[8192,4096] multiply(convert(w), broadcast(convert(x)))
 *       y = reshape(convert(f32[4096] reduce(p, 0), dimensions={0}, add))
 *
 * Needs: laid out. Keeps: values but for the order of sums. Ends: each rewrite removes a dot. */
#include "ir/analysis/matmul.h"
#include "passes/library/library.h"
#include "passes/settings.h"
#include "passes/simplify/rewrite.h"

enum { LEAST_SUM = 32 /* terms */ };

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
    DType t = dtype_info[result].bits < 32 ? DT_F32 : result;
    return rw_convert(r, shape_with_dtype(r->m->intern, x->shape, t), x);
}

/* The matrix's dimensions in an order in which the batch stands as the result has it, and those that are
 * summed where they lie: last if its rows are summed, else before those that are kept. */
static uint32_t find_order(const Side *matrix, int64_t *order)
{
    const Shape *s = matrix->x->shape;
    uint32_t n = 0, last = s->rank;
    while (last > 0 && s->dims[last - 1] == 1)
        last--;
    bool by_rows = last > 0 && ints_contain(matrix->sum, (int64_t)last - 1);
    for (uint32_t i = 0; i < matrix->batch.count; i++)
        order[n++] = matrix->batch.data[i];
    for (uint32_t sums = by_rows ? 0 : 1, turn = 0; turn < 2; turn++, sums = !sums) {
        for (uint32_t d = 0; d < s->rank; d++) {
            if (!ints_contain(matrix->batch, d) && ints_contain(matrix->sum, d) == sums)
                order[n++] = d;
        }
    }
    return n;
}

/* Whether dimensions that stay come in this order already. */
static bool is_in_order(const Side *matrix, const int64_t *order)
{
    int64_t before = -1;
    for (uint32_t i = 0; i < matrix->x->shape->rank; i++) {
        if (ints_contain(matrix->sum, order[i]))
            continue;
        if (order[i] < before)
            return false;
        before = order[i];
    }
    return true;
}

/* Where dimension `d` of the vector stands in the matrix; -1: it is kept, of one element. */
static int64_t partner(const Side *vector, const Side *matrix, int64_t d)
{
    for (uint32_t i = 0; i < vector->batch.count; i++) {
        if (vector->batch.data[i] == d)
            return matrix->batch.data[i];
    }
    for (uint32_t i = 0; i < vector->sum.count; i++) {
        if (vector->sum.data[i] == d)
            return matrix->sum.data[i];
    }
    return -1;
}

static Instruction *sum_products(Rewriter *r, const Instruction *dot, const Side *vector,
                                 const Side *matrix)
{
    uint32_t rank = matrix->x->shape->rank, sums = 0, kept = 0;
    int64_t *order = ARENA_ARRAY(r->scratch, int64_t, rank + 1u);
    int64_t *place = ARENA_ARRAY(r->scratch, int64_t, rank + 1u);
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, rank + 1u);
    int64_t *summed = ARENA_ARRAY(r->scratch, int64_t, rank + 1u);
    find_order(matrix, order);
    bool moves = !is_in_order(matrix, order);
    for (uint32_t i = 0; i < rank; i++) {
        if (!moves)
            order[i] = i;
        place[order[i]] = i;
        sizes[i] = matrix->x->shape->dims[order[i]];
    }
    Instruction *m = widened(r, matrix->x, dot->shape->dtype);
    DType t = m->shape->dtype;
    if (moves)
        m = rw_transpose(r, rw_shape(r, t, rank, sizes), m, order);
    Instruction *v = widened(r, vector->x, dot->shape->dtype);
    int64_t *over = ARENA_ARRAY(r->scratch, int64_t, v->shape->rank + 1u);
    for (uint32_t d = 0; d < v->shape->rank; d++) {
        int64_t p = partner(vector, matrix, d);
        over[d] = p < 0 ? -1 : place[p];
    }
    v = rw_spread(r, m->shape, v, over);
    Instruction *product = rw_binary(r, OP_MULTIPLY, m->shape, m, v);
    for (uint32_t i = 0; i < rank; i++) {
        if (ints_contain(matrix->sum, order[i]))
            summed[sums++] = i;
        else
            sizes[kept++] = m->shape->dims[i];
    }
    Instruction *sum = rw_sum(r, rw_shape(r, t, kept, sizes), product, sums, summed);
    sum =
        rw_convert(r, shape_with_dtype(r->m->intern, sum->shape, dot->shape->dtype), sum);
    return rw_reshape(r, dot->shape, sum);
}

static Instruction *vector_dot(Rewriter *r, Instruction *dot)
{
    if (!fits(r, dot))
        return NULL;
    Side side[2] = {side_of(dot, 0), side_of(dot, 1)};
    uint32_t v = side[0].kept == 1 ? 0 : 1;
    int64_t terms = 1;
    for (uint32_t i = 0; i < side[v].sum.count; i++)
        terms *= side[v].x->shape->dims[side[v].sum.data[i]];
    if (side[v].kept != 1 || terms < LEAST_SUM)
        return NULL;
    r->cx->counts.vector_dots++;
    return sum_products(r, dot, &side[v], &side[!v]);
}

bool pass_vector_dots(Module *m, PassContext *cx)
{
    static const Rule rules[] = {{OP_DOT, "vector_dot", vector_dot}, {0}};
    return rewrite_module(m, cx, (const Rule *[]){rules}, 1);
}
