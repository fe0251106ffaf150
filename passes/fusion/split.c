/* Splits reductions that would leave most of the GPU idle: few results, each of many elements. They are
 * reduced in two kernels, the first of which makes as many partial results as keep it busy.
 *
 *   s = f32[] reduce(f32[16777216] x, 0), dimensions={0}
 *   ->  b = f32[1024,16384] bitcast(x)  p = f32[1024] reduce(b, 0), dimensions={1}
 *       s = f32[] reduce(p, 0), dimensions={0}
 *
 * A size without a fitting divisor is padded with the initial value. Only where that may join more than once;
 * sums of narrow floats, which kernels keep in f32, stay in f32 between the two.
 *
 * Needs: layouts, row-major inside. Keeps: values but for the order of sums. Ends: one sweep. */
#include "ir/eval/eval.h"
#include "passes/fusion/fusion.h"
#include "passes/simplify/rewrite.h"

#define LEAST_ELEMENTS (1 << 20)
#define BLOCKS 1024      /* that keep a GPU busy */
#define ROW_BLOCK 4096   /* elements that a block should have of a row */
#define COLUMN_WIDTH 32  /* results of a block that reduces columns */
#define COLUMN_BLOCK 128 /* elements that a column of it should have */
/* Fewer elements than LEAST_ELEMENTS are worth a second launch where one block has as many of a row, or of a
 * column: it would take that long alone. */
#define LONG_ROW (1 << 16)
#define LONG_COLUMN 2048
#define LONG_COLUMN_ELEMENTS (1 << 17)

bool reduction_is_kept_wider(const Instruction *reduce)
{
    DType t = reduce->shape->dtype;
    OpCode op = inst_called(reduce, 0)->root->op;
    return (op == OP_ADD || op == OP_MULTIPLY) && dtype_is_float(t) &&
           dtype_info[t].bits < 32;
}

bool reduction_may_join_twice(const Instruction *reduce)
{
    const Instruction *root = inst_called(reduce, 0)->root,
                      *initial = reduce->operands[1];
    DType t = reduce->shape->dtype;
    if (inst_called(reduce, 0)->parameter_count != 2 || root->operand_count != 2 ||
        root->operands[0]->op != OP_PARAMETER || root->operands[1]->op != OP_PARAMETER ||
        root->operands[0] == root->operands[1] || root->shape->dtype != t)
        return false;
    switch (root->op) {
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_AND:
    case OP_OR:
        return true;
    case OP_XOR:
        return inst_is_constant_scalar(initial, 0);
    case OP_ADD:
        return inst_is_constant_scalar(initial, 0) ||
               (!reduction_is_kept_wider(reduce) &&
                inst_is_constant_scalar(initial, -0.0));
    case OP_MULTIPLY:
        return !reduction_is_kept_wider(reduce) && inst_is_constant_scalar(initial, 1);
    default:
        return false;
    }
}

/* What the reducer gives for values and others after them. */
static Instruction *join(Rewriter *r, const Instruction *reduce, Instruction *const *xs,
                         Instruction *const *ys)
{
    uint32_t n = reduce->operand_count / 2;
    Computation *by = inst_called(reduce, 0);
    Instruction **both = ARENA_ARRAY(r->scratch, Instruction *, 2 * n);
    for (uint32_t i = 0; i < n; i++) {
        both[i] = xs[i];
        both[n + i] = ys[i];
    }
    Instruction *call = rw_add(r, OP_CALL, by->root->shape, 2 * n, both);
    inst_set_computation(call, ATTR_TO_APPLY, by);
    return call;
}

static const Literal *result_of(Rewriter *r, Instruction *call, uint32_t i)
{
    enum { MOST_STEPS = 10000 };
    return evaluate_constant(r->scratch, rw_element(r, call, i), 1, MOST_STEPS);
}

/* Several arrays, as of argmax: what reduces the initial values with themselves gives them, and it is the same to join
 * them before or after some other values. So they change nothing by joining again, wherever. The first alone is not
 * enough: of pairs (a, b) of a recurrence (0, c) is its own square, but forgets what was before it. */
static bool initials_join_twice(Rewriter *r, const Instruction *reduce)
{
    enum { SAMPLES = 2 };
    static const double sample[SAMPLES] = {1, 4}, of_pred[SAMPLES] = {1, 0};
    uint32_t n = reduce->operand_count / 2, first = r->comp->instruction_count;
    Instruction **initials = reduce->operands + n;
    for (uint32_t i = 0; i < n; i++) {
        if (initials[i]->op != OP_CONSTANT)
            return false;
    }
    Instruction *twice = join(r, reduce, initials, initials);
    bool stay = true;
    for (uint32_t i = 0; i < n && stay; i++) {
        const Literal *l = result_of(r, twice, i);
        stay = l != NULL && literal_equal(l, initials[i]->literal);
    }
    Instruction **xs = ARENA_ARRAY(r->scratch, Instruction *, n);
    for (uint32_t k = 0; k < SAMPLES && stay; k++) {
        for (uint32_t i = 0; i < n; i++) {
            const Shape *s = initials[i]->shape;
            xs[i] = rw_splat(r, s, s->dtype == DT_PRED ? of_pred[k] : sample[k]);
        }
        Instruction *after = join(r, reduce, initials, xs),
                    *before = join(r, reduce, xs, initials);
        for (uint32_t i = 0; i < n && stay; i++) {
            const Literal *a = result_of(r, after, i), *b = result_of(r, before, i);
            stay = a != NULL && b != NULL && literal_equal(a, b);
        }
    }
    computation_remove_from(r->comp, first);
    return stay;
}

/* How many pieces the reduction wants: 1 if it is well as it is. */
static int64_t wanted_pieces(const Instruction *reduce)
{
    const Shape *from = reduce->operands[0]->shape;
    int64_t elements = shape_elements(from),
            rows = shape_elements(shape_leaf(reduce->shape, 0));
    if (rows == 0)
        return 1;
    int64_t columns = elements / rows;
    bool by_rows = true;
    for (uint32_t d = from->rank; d-- > 0;) {
        if (from->dims[d] == 1)
            continue;
        by_rows = ints_contain(inst_ints(reduce, ATTR_DIMENSIONS), d);
        break;
    }
    bool is_long = by_rows ? columns >= LONG_ROW
                           : columns >= LONG_COLUMN && elements >= LONG_COLUMN_ELEMENTS;
    if (elements < LEAST_ELEMENTS && !is_long)
        return 1;
    int64_t blocks = by_rows ? rows : (rows + COLUMN_WIDTH - 1) / COLUMN_WIDTH;
    int64_t most = columns / (by_rows ? ROW_BLOCK : COLUMN_BLOCK);
    int64_t wanted = BLOCKS / blocks;
    return wanted < most ? wanted : most;
}

/* A divisor of n near `wanted`, or `wanted`: then the last piece is filled up. */
static int64_t pieces_of(int64_t n, int64_t wanted)
{
    for (int64_t pieces = wanted; pieces >= 4 && pieces >= wanted / 2; pieces--) {
        if (n % pieces == 0)
            return pieces;
    }
    for (int64_t pieces = wanted + 1; pieces <= 4 * wanted && pieces < n; pieces++) {
        if (n % pieces == 0)
            return pieces;
    }
    return wanted;
}

/* Reduces dimension `along` of the arrays xs in `pieces` pieces; gives the new reduction. */
static Instruction *split(Rewriter *r, Instruction **xs, uint32_t along, int64_t pieces)
{
    Instruction *reduce = r->at;
    Intern *t = r->m->intern;
    uint32_t n = reduce->operand_count / 2;
    const Shape *from = xs[0]->shape;
    Instruction **initials = reduce->operands + n, *wider;
    if (reduction_is_kept_wider(reduce)) {
        wider = rw_splat(r, shape_with_dtype(t, initials[0]->shape, from->dtype), 0);
        initials = &wider;
    }
    int64_t size = (from->dims[along] + pieces - 1) / pieces;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, (size_t)from->rank + 1);
    int64_t *kept = ARENA_ARRAY(r->scratch, int64_t, (size_t)from->rank + 1);
    int64_t *inner = ARENA_ARRAY(r->scratch, int64_t, (size_t)from->rank + 1);
    uint32_t rank = 0, kept_rank = 0, inner_count = 0;
    int64_t piece_dim = 0;
    for (uint32_t d = 0; d < from->rank; d++) {
        bool is_reduced = ints_contain(inst_ints(reduce, ATTR_DIMENSIONS), d);
        if (d == along) {
            piece_dim = kept_rank;
            kept[kept_rank++] = dims[rank++] = pieces;
        } else if (!is_reduced) {
            kept[kept_rank++] = from->dims[d];
        }
        if (is_reduced)
            inner[inner_count++] = rank;
        dims[rank++] = d == along ? size : from->dims[d];
    }
    Instruction **operands = ARENA_ARRAY(r->scratch, Instruction *, 2 * n);
    Instruction **again = ARENA_ARRAY(r->scratch, Instruction *, 2 * n);
    const Shape **partials = ARENA_ARRAY(r->scratch, const Shape *, n);
    for (uint32_t i = 0; i < n; i++) {
        Instruction *x =
            rw_fill_up(r, xs[i], initials[i], along, pieces * size - from->dims[along]);
        const Shape *result =
            shape_with_dtype(t, shape_leaf(reduce->shape, i), x->shape->dtype);
        partials[i] = shape_with_dims(t, result, kept_rank, kept);
        operands[i] =
            rw_unary(r, OP_BITCAST, shape_with_dims(t, x->shape, rank, dims), x);
        operands[n + i] = again[n + i] = initials[i];
    }
    if (reduction_is_kept_wider(reduce))
        return rw_sum(r, shape_with_dtype(t, reduce->shape, from->dtype),
                      rw_sum(r, partials[0], operands[0], inner_count, inner), 1,
                      &piece_dim);
    const Shape *made = n == 1 ? partials[0] : shape_tuple(t, n, partials);
    Instruction *first = rw_like(r, reduce, made, 2 * n, operands);
    inst_set_ints(first, ATTR_DIMENSIONS, inner, inner_count);
    for (uint32_t i = 0; i < n; i++)
        again[i] = n == 1 ? first : rw_element(r, first, i);
    Instruction *second = rw_like(r, reduce, reduce->shape, 2 * n, again);
    inst_set_ints(second, ATTR_DIMENSIONS, &piece_dim, 1);
    return second;
}

/* The longest dimension that is reduced; the operand's rank: there is none. */
static uint32_t longest_reduced(const Instruction *reduce)
{
    const Shape *from = reduce->operands[0]->shape;
    uint32_t along = from->rank;
    for (uint32_t d = 0; d < from->rank; d++) {
        if (ints_contain(inst_ints(reduce, ATTR_DIMENSIONS), d) &&
            (along == from->rank || from->dims[d] > from->dims[along]))
            along = d;
    }
    return along;
}

/* In how many pieces, and along which dimension; 0: it is well as it is, or cannot be split. */
static int64_t find_pieces(const Instruction *reduce, uint32_t *along)
{
    uint32_t n = reduce->operand_count / 2;
    if (reduce->op != OP_REDUCE || reduce->control_count != 0 ||
        (n == 1 && !reduction_may_join_twice(reduce)))
        return 0;
    const Shape *from = reduce->operands[0]->shape;
    for (uint32_t i = 0; i < n; i++) {
        const Shape *x = reduce->operands[i]->shape, *s = shape_leaf(reduce->shape, i);
        if (!shape_is_array(s) || dtype_is_sub_byte(s->dtype) || !shape_is_row_major(x) ||
            !shape_is_row_major(s) || shape_is_dynamic(x) || x->dtype != s->dtype)
            return 0;
    }
    int64_t wanted = wanted_pieces(reduce);
    *along = longest_reduced(reduce);
    if (*along == from->rank)
        return 0;
    if (wanted > from->dims[*along])
        wanted = from->dims[*along];
    int64_t pieces = wanted < 4 ? 0 : pieces_of(from->dims[*along], wanted);
    for (uint32_t d = 0; n > 1 && d < *along; d++) {
        if (from->dims[d] > 1 && ints_contain(inst_ints(reduce, ATTR_DIMENSIONS), d))
            return 0; /* pieces would not follow in the order of the elements */
    }
    return n > 1 && pieces > 0 && from->dims[*along] % pieces != 0 ? 0 : pieces;
}

bool reduction_wants_pieces(const Instruction *reduce)
{
    uint32_t along;
    return reduce->operand_count == 2 && find_pieces(reduce, &along) != 0;
}

static Instruction *try_split(Instruction *reduce, void *context)
{
    PassContext *cx = context;
    uint32_t along;
    int64_t pieces = find_pieces(reduce, &along);
    if (pieces == 0)
        return NULL;
    Rewriter r = {.m = reduce->parent->module,
                  .comp = reduce->parent,
                  .scratch = cx->scratch,
                  .cx = cx,
                  .at = reduce};
    if (reduce->operand_count > 2)
        return initials_join_twice(&r, reduce)
                   ? split(&r, reduce->operands, along, pieces)
                   : NULL;
    Instruction *x = reduce->operands[0];
    if (reduction_is_kept_wider(reduce))
        x = rw_in_type(&r, x, DT_F32);
    return rw_convert(&r, reduce->shape, split(&r, &x, along, pieces));
}

bool pass_split_reductions(Module *m, PassContext *cx)
{
    return module_replace_each(m, try_split, cx, cx->scratch) != 0;
}
