/* Sums of squares of differences from a mean, of arrays that no kernel keeps, are made in the pass over memory that makes
 * the mean: by the shifted data algorithm (Chan, Golub, LeVeque: Algorithms for computing the sample variance, 1983).
 *
 *   t = f32[8] reduce(x, 0), dimensions={0,1}, add   m = t / n   v = f32[8] reduce((x - m)^2, 0), add
 *   ->  s = median of x[a,b,:] at three points
 *       p = f32[8] reduce(x - s, 0)   q = f32[8] reduce((x - s)^2, 0)
 *       t = p + n * s   v = q - 2 * (m - s) * p + n * (m - s)^2, at least 0: q - p * (p / n), where m is t / n
 *
 * m may be anything that is made of t. What is lost of the digits is what the square of the shift's difference from the
 * mean is of the variance, and not what that of the mean is, as it would be without a shift. A median, since a single
 * element may be the one that is far from all others; 0 where it is not finite.
 *
 * Needs: layouts, row-major inside. Keeps: values but for roundings. Ends: one sweep. */
#include <float.h>

#include "passes/fusion/fusion.h"
#include "passes/simplify/rewrite.h"

#define STEPS 16 /* from the sum to what is made of it that are looked through */

/* q = sum((x - mean)^2), mean made of total = sum(x). */
typedef struct Variance {
    Instruction *x, *total, *mean;
} Variance;

/* Of a sum: a shift, and sums of what is less by it. NULL: not made. */
typedef struct Shifted {
    Instruction *shift, *sum, *squares;
} Shifted;

typedef struct Sums {
    PassContext *cx;
    Instruction **forward; /* [instruction id] what stands for it */
    Shifted *shifted;      /* [instruction id] of a sum */
    bool changed;
} Sums;

static bool is_sum(const Instruction *inst)
{
    return inst->op == OP_REDUCE && inst->operand_count == 2 &&
           inst->control_count == 0 &&
           (inst->shape->dtype == DT_F32 || inst->shape->dtype == DT_F64) &&
           rw_reducer_op(inst_called(inst, 0)) == OP_ADD &&
           inst_is_constant_scalar(inst->operands[1], 0);
}

static bool sums_alike(const Instruction *a, const Instruction *b)
{
    Ints x = inst_ints(a, ATTR_DIMENSIONS), y = inst_ints(b, ATTR_DIMENSIONS);
    return a->shape == b->shape && ints_equal(x, y);
}

/* A number for each result of the sum, along all that is summed. */
static bool is_along(const Instruction *spread, const Instruction *sum)
{
    if (spread->op != OP_BROADCAST ||
        !shape_same_dims(spread->operands[0]->shape, sum->shape))
        return false;
    Ints dims = inst_ints(spread, ATTR_DIMENSIONS);
    for (size_t i = 0; i < dims.count; i++) {
        if (ints_contain(inst_ints(sum, ATTR_DIMENSIONS), dims.data[i]) ||
            (i > 0 && dims.data[i] <= dims.data[i - 1]))
            return false;
    }
    return true;
}

/* The sum of x that `inst` is made of, element by element. */
static Instruction *find_total(Instruction *inst, const Instruction *x,
                               const Instruction *like, int steps)
{
    if (is_sum(inst) && inst->operands[0] == x && sums_alike(inst, like))
        return inst;
    bool is_step = op_is(inst->op, OPF_ELEMENTWISE) || inst->op == OP_RESHAPE ||
                   inst->op == OP_BITCAST;
    Instruction *found = NULL;
    for (uint32_t k = 0; k < inst->operand_count && is_step && steps > 0 && !found; k++)
        found = find_total(inst->operands[k], x, like, steps / 2);
    return found;
}

static bool find_variance(const Instruction *sum, Variance *out)
{
    if (!is_sum(sum) || sum->operands[0]->op != OP_MULTIPLY)
        return false;
    const Instruction *square = sum->operands[0], *less = square->operands[0];
    if (less != square->operands[1] || less->op != OP_SUBTRACT ||
        square->control_count + less->control_count + less->operands[1]->control_count !=
            0 ||
        !is_along(less->operands[1], sum) || !shape_is_row_major(less->shape))
        return false;
    out->x = less->operands[0];
    out->mean = less->operands[1]->operands[0];
    out->total = find_total(out->mean, out->x, sum, STEPS);
    return out->total != NULL;
}

static Instruction *along(Rewriter *r, const Instruction *sum, const Shape *shape,
                          Instruction *x)
{
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, (size_t)shape->rank + 1);
    uint32_t count = 0;
    for (uint32_t d = 0; d < shape->rank; d++) {
        if (!ints_contain(inst_ints(sum, ATTR_DIMENSIONS), d))
            dims[count++] = d;
    }
    return rw_broadcast(r, shape, x, count, dims);
}

/* For each result, the element that lies `quarters` of the way along all that is summed. */
static Instruction *element_at(Rewriter *r, const Instruction *sum, Instruction *x,
                               int64_t quarters)
{
    const Shape *from = x->shape;
    SliceDim *dims = ARENA_ARRAY(r->scratch, SliceDim, (size_t)from->rank + 1);
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, (size_t)from->rank + 1);
    for (uint32_t d = 0; d < from->rank; d++) {
        bool is_summed = ints_contain(inst_ints(sum, ATTR_DIMENSIONS), d);
        int64_t n = from->dims[d];
        int64_t first = is_summed ? n / 4 * quarters + n % 4 * quarters / 4 : 0;
        sizes[d] = is_summed ? 1 : n;
        dims[d] = (SliceDim){first, first + sizes[d], 1};
    }
    const Shape *one = shape_with_dims(r->m->intern, from, from->rank, sizes);
    return rw_unary(r, OP_BITCAST, sum->shape, rw_slice(r, one, x, dims));
}

/* The median of three elements of what each result is a sum of, if it is finite. */
static Instruction *typical(Rewriter *r, const Instruction *sum, Instruction *x)
{
    const Shape *shape = sum->shape;
    Instruction *a = element_at(r, sum, x, 1), *b = element_at(r, sum, x, 2),
                *c = element_at(r, sum, x, 3),
                *low = rw_binary(r, OP_MINIMUM, shape, a, b),
                *high = rw_binary(r, OP_MAXIMUM, shape, a, b);
    Instruction *s =
        rw_binary(r, OP_MAXIMUM, shape, low, rw_binary(r, OP_MINIMUM, shape, high, c));
    Instruction *finite =
        rw_unary(r, OP_IS_FINITE, shape_with_dtype(r->m->intern, shape, DT_PRED), s);
    return rw_add(r, OP_SELECT, shape, 3,
                  (Instruction *[]){finite, s, rw_splat(r, shape, 0)});
}

static Instruction *sum_of(Rewriter *r, const Instruction *like, Instruction *x)
{
    return rw_like(r, like, like->shape, 2, (Instruction *[]){x, like->operands[1]});
}

static double summed_count(const Instruction *sum)
{
    return (double)shape_elements(sum->operands[0]->shape) /
           (double)shape_elements(sum->shape);
}

static void shift(Sums *s, Rewriter *r, const Variance *v)
{
    const Shape *shape = v->total->shape, *array = v->x->shape;
    Shifted *made = &s->shifted[v->total->id];
    made->shift = typical(r, v->total, v->x);
    Instruction *less =
        rw_binary(r, OP_SUBTRACT, array, v->x, along(r, v->total, array, made->shift));
    made->sum = sum_of(r, v->total, less);
    made->squares = sum_of(r, v->total, rw_binary(r, OP_MULTIPLY, array, less, less));
    Instruction *n = rw_splat(r, shape, summed_count(v->total));
    s->forward[v->total->id] = rw_binary(
        r, OP_ADD, shape, made->sum, rw_binary(r, OP_MULTIPLY, shape, n, made->shift));
}

/* It is total / n, where the difference from the shift is made without the shift. */
static bool is_mean(const Variance *v)
{
    double n = summed_count(v->total);
    const Instruction *mean = v->mean;
    return mean->operand_count == 2 && mean->operands[0] == v->total &&
           ((mean->op == OP_DIVIDE && inst_is_constant_scalar(mean->operands[1], n)) ||
            (mean->op == OP_MULTIPLY &&
             inst_is_constant_scalar(mean->operands[1], 1 / n)));
}

/* What the squares are less by, for a mean that far from the shift. Where it is infinite although the mean is not, so are
 * the squares: they stay so, as the program's do, for which it is the least number instead. */
static Instruction *limited(Rewriter *r, Instruction *by, Instruction *more)
{
    const Shape *shape = more->shape;
    double least = shape->dtype == DT_F64 ? -DBL_MAX : -(double)FLT_MAX;
    Instruction *finite =
        rw_unary(r, OP_IS_FINITE, shape_with_dtype(r->m->intern, shape, DT_PRED), by);
    Instruction *most = rw_binary(r, OP_MAXIMUM, shape, more, rw_splat(r, shape, least));
    return rw_add(r, OP_SELECT, shape, 3, (Instruction *[]){finite, most, more});
}

static void visit(Sums *s, Instruction *sum)
{
    Variance v;
    if (!reduction_wants_pieces(sum) || !find_variance(sum, &v))
        return;
    Rewriter r = {.m = sum->parent->module,
                  .comp = sum->parent,
                  .scratch = s->cx->scratch,
                  .cx = s->cx,
                  .at = sum};
    const Shape *shape = sum->shape;
    const Shifted *made = &s->shifted[v.total->id];
    if (made->sum == NULL)
        shift(s, &r, &v);
    double n = summed_count(sum);
    Instruction *by, *more;
    if (is_mean(&v)) {
        by = rw_binary(&r, OP_MULTIPLY, shape, made->sum, rw_splat(&r, shape, 1 / n));
        more = rw_unary(&r, OP_NEGATE, shape, made->sum);
    } else {
        by = rw_binary(&r, OP_SUBTRACT, shape, v.mean, made->shift);
        more = rw_binary(&r, OP_MULTIPLY, shape, rw_splat(&r, shape, n), by);
        more = rw_binary(&r, OP_SUBTRACT, shape, more,
                         rw_binary(&r, OP_ADD, shape, made->sum, made->sum));
    }
    more = limited(&r, by, rw_binary(&r, OP_MULTIPLY, shape, by, more));
    more = rw_binary(&r, OP_ADD, shape, made->squares, more);
    s->forward[sum->id] = rw_binary(&r, OP_MAXIMUM, shape, more, rw_splat(&r, shape, 0));
    s->changed = true;
}

static bool visit_program(Computation *comp, PassContext *cx)
{
    uint32_t count = comp->instruction_count;
    Sums s = {.cx = cx,
              .forward = ARENA_ARRAY(cx->scratch, Instruction *, count + 1u),
              .shifted = ARENA_ARRAY(cx->scratch, Shifted, count + 1u)};
    for (uint32_t i = 0; i < count; i++) {
        if (comp->instructions[i] != NULL)
            visit(&s, comp->instructions[i]);
    }
    if (s.changed)
        computation_substitute(comp, s.forward, count);
    return s.changed;
}

bool pass_one_pass_variances(Module *m, PassContext *cx)
{
    return rewrite_programs(m, cx, visit_program);
}
