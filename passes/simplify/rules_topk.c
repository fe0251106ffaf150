/* Rules of topk, and of sorts of which only the first elements are read: approx_max_k as JAX lowers it, sort(-x)[:k].
 *
 *   s = sort(x, iota), by x descending; slice(s.0)[0:k], slice(s.1)[0:k]
 *     =>  t = topk(x), k; t.0, t.1
 *
 * Measure: sorts. Where zeros are equal for the comparator, topk, which has -0 below 0, gets them as one, and the values are
 * taken from x by their positions. NaN, about which a comparison that is not total says nothing, goes where topk has it.
 *
 * One element alone is a reduction of values and indices. */
#include "ir/kernel/kernel.h"
#include "ir/kernel/sort.h"
#include "ir/number/number.h"
#include "passes/simplify/rewrite.h"

/* Elements that topk's kernel keeps, and how many times as many there must be: else a sort does as well. */
enum { MOST_K = 1024, LEAST_PART = 4 };

/* Of rows that are cut, as passes/fusion/split.c does it where a reduction has one operand: elements of a row, and of a
 * piece, and how many pieces there are; where each gives k. */
enum {
    LONG_ROW = 1 << 16,
    LEAST_PIECE = 4096,
    LEAST_PIECES = 4,
    MOST_PIECES = 1024,
    MOST_BEST = 128
};

/* How many of a row a slice takes from its start, everything of the other dimensions; 0: it is another slice. */
static int64_t first_of_rows(const Instruction *slice, const Shape *s)
{
    uint32_t last = s->rank - 1;
    if (slice->op != OP_SLICE)
        return 0;
    const SliceSpec *spec = inst_attr(slice, ATTR_SLICE)->slice;
    if (!slice_is_first(spec))
        return 0;
    for (uint32_t d = 0; d < last; d++) {
        if (spec->dims[d].limit != s->dims[d])
            return 0;
    }
    return spec->dims[last].limit;
}

/* Every reader takes the first of rows, few enough. */
static bool only_first_are_read(Rewriter *r, const Instruction *sort)
{
    const Uses *uses = rw_uses(r);
    const Shape *s = sort->operands[0]->shape;
    if (sort->id >= r->known || sort->control_count > 0 || sort->parent->root == sort)
        return false;
    for (uint32_t i = uses->start[sort->id]; i < uses->start[sort->id + 1]; i++) {
        const Instruction *element = uses->list[i];
        if (element->op != OP_GET_TUPLE_ELEMENT || element->id >= r->known ||
            element->parent->root == element)
            return false;
        for (uint32_t k = uses->start[element->id]; k < uses->start[element->id + 1];
             k++) {
            int64_t n = first_of_rows(uses->list[k], s);
            if (n < 1 || n > MOST_K || n > s->dims[s->rank - 1] / LEAST_PART)
                return false;
        }
    }
    return true;
}

/* Of (x, indices), by x alone; is_largest: descending. */
static bool sorts_indices(const Instruction *sort, bool *is_largest)
{
    const Instruction *first, *second;
    const Shape *s = sort->operands[0]->shape;
    if (sort->operand_count != 2 || !rw_is_static(s) || s->rank == 0 ||
        dtype_is_complex(s->dtype) || shape_elements(s) == 0)
        return false;
    return inst_ints(sort, ATTR_DIMENSIONS).data[0] == s->rank - 1 &&
           sort->operands[1]->shape->dtype == DT_S32 &&
           sort_is_indices(sort->operands[1], s->rank - 1) &&
           sort_compares(sort, &first, &second, is_largest) &&
           first->op == OP_PARAMETER && first->parameter == 0;
}

static Instruction *topk_of(Rewriter *r, Instruction *x, int64_t k, bool is_largest)
{
    const Shape *s = x->shape;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, s->rank);
    for (uint32_t d = 0; d < s->rank; d++)
        dims[d] = d + 1 == s->rank ? k : s->dims[d];
    const Shape *shapes[2] = {rw_shape(r, s->dtype, s->rank, dims),
                              rw_shape(r, DT_S32, s->rank, dims)};
    Instruction *by = rw_unary(r, OP_TOPK, shape_tuple(r->m->intern, 2, shapes), x);
    inst_set_int(by, ATTR_K, k);
    inst_set_int(by, ATTR_LARGEST, is_largest);
    inst_set_int(by, ATTR_IS_STABLE, 1);
    return by;
}

static Instruction *with_one_zero(Rewriter *r, Instruction *x)
{
    Instruction *zero = rw_splat(r, x->shape, 0);
    Instruction *is_zero = rw_compare(r, x, zero, DIRECTION_EQ);
    return rw_add(r, OP_SELECT, x->shape, 3, (Instruction *[]){is_zero, zero, x});
}

/* x at indices of its rows. */
static Instruction *take(Rewriter *r, const Shape *s, Instruction *x,
                         Instruction *indices)
{
    uint32_t rank = x->shape->rank;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, rank + 1);
    int64_t *ones = ARENA_ARRAY(r->scratch, int64_t, rank + 1);
    int64_t last = rank - 1;
    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = indices->shape->dims[d];
        ones[d] = 1;
    }
    dims[rank] = 1;
    Instruction *at = rw_reshape(r, rw_shape(r, DT_S32, rank + 1, dims), indices);
    Instruction *taken = rw_binary(r, OP_GATHER, s, x, at);
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = d;
    inst_set_ints(taken, ATTR_OFFSET_DIMS, NULL, 0);
    inst_set_ints(taken, ATTR_COLLAPSED_SLICE_DIMS, &last, 1);
    inst_set_ints(taken, ATTR_START_INDEX_MAP, &last, 1);
    inst_set_ints(taken, ATTR_OPERAND_BATCHING_DIMS, dims, rank - 1);
    inst_set_ints(taken, ATTR_START_INDICES_BATCHING_DIMS, dims, rank - 1);
    inst_set_int(taken, ATTR_INDEX_VECTOR_DIM, rank);
    inst_set_ints(taken, ATTR_SLICE_SIZES, ones, rank);
    return taken;
}

static Instruction *slice_sort(Rewriter *r, Instruction *inst)
{
    Instruction *element = inst->operands[0];
    bool is_largest;
    if (element->op != OP_GET_TUPLE_ELEMENT || element->operands[0]->op != OP_SORT)
        return NULL;
    Instruction *sort = element->operands[0], *x = sort->operands[0];
    int64_t which = inst_int(element, ATTR_INDEX, 0);
    int64_t k =
        rw_is_static(x->shape) && x->shape->rank > 0 ? first_of_rows(inst, x->shape) : 0;
    if (k < 1 || !sorts_indices(sort, &is_largest) || !only_first_are_read(r, sort))
        return NULL;
    const Instruction *by = inst_called(sort, 0)->root;
    bool is_exact = !dtype_is_float(x->shape->dtype) ||
                    inst_int(by, ATTR_TYPE, COMPARE_FLOAT) == COMPARE_TOTALORDER;
    Instruction *best = topk_of(r, is_exact ? x : with_one_zero(r, x), k, is_largest);
    if (which == 1 || is_exact)
        return rw_as(inst, rw_element(r, best, (uint32_t)which));
    return rw_as(inst, take(r, inst->shape, x, rw_element(r, best, 1)));
}

/* -- the first one --------------------------------------------------------------------------------- */

/* What goes behind every other value of the type; among equal ones an index decides. */
static Instruction *last_of_all(Rewriter *r, DType t, bool is_largest)
{
    Literal *l = literal_create(r->m->arena, shape_scalar(r->m->intern, t));
    uint64_t sign = (uint64_t)1 << (dtype_info[t].bits - 1);
    uint64_t bits = is_largest ? sign | (sign - 1) : sign - 1;
    if (!dtype_is_float(t)) {
        if (is_largest)
            number_lowest(t, l->data);
        else
            number_highest(t, l->data);
        return rw_constant(r, l);
    }
    if (dtype_info[t].special == SPECIAL_E8M0) /* no sign */
        bits = is_largest ? 0 : sign | (sign - 1);
    else if (dtype_info[t].special == SPECIAL_FNUZ && is_largest) /* its NaN */
        bits = sign;
    number_store(t, l->data, bits);
    return rw_constant(r, l);
}

static Instruction *compared(Computation *comp, Instruction *a, Instruction *b,
                             int64_t direction)
{
    const Shape *pred = shape_scalar(comp->module->intern, DT_PRED);
    Instruction *c =
        computation_add(comp, OP_COMPARE, pred, 2, (Instruction *[]){a, b}, NULL);
    inst_set_int(c, ATTR_DIRECTION, direction);
    if (dtype_is_float(a->shape->dtype))
        inst_set_int(c, ATTR_TYPE, COMPARE_TOTALORDER);
    return c;
}

static Instruction *of_two(Computation *comp, OpCode op, Instruction *a, Instruction *b)
{
    return computation_add(comp, op, a->shape, 2, (Instruction *[]){a, b}, NULL);
}

/* Of two values and their indices the one that goes first: the greater (smaller) value, of equal ones the smaller index. */
static Computation *first_of_two(Rewriter *r, DType t, bool is_largest)
{
    Computation *comp = module_add_computation(r->m, "first_of_two");
    const Shape *shapes[2] = {shape_scalar(r->m->intern, t),
                              shape_scalar(r->m->intern, DT_S32)};
    Instruction *p[4], *chosen[2];
    for (uint32_t i = 0; i < 4; i++)
        p[i] = computation_add_parameter(comp, i, shapes[i % 2], NULL);
    Instruction *before = compared(comp, p[1], p[3], DIRECTION_LT);
    Instruction *equal = compared(comp, p[0], p[2], DIRECTION_EQ);
    Instruction *more =
        compared(comp, p[0], p[2], is_largest ? DIRECTION_GT : DIRECTION_LT);
    Instruction *takes = of_two(comp, OP_OR, more, of_two(comp, OP_AND, equal, before));
    for (uint32_t i = 0; i < 2; i++)
        chosen[i] = computation_add(comp, OP_SELECT, shapes[i], 3,
                                    (Instruction *[]){takes, p[i], p[i + 2]}, NULL);
    comp->root = computation_add(comp, OP_TUPLE, shape_tuple(r->m->intern, 2, shapes), 2,
                                 chosen, NULL);
    return comp;
}

/* Of rows of the last dimension, by values and indices. */
static Instruction *first_along(Rewriter *r, Instruction *x, Instruction *indices,
                                bool is_largest)
{
    const Shape *s = x->shape;
    int64_t last = s->rank - 1;
    const Shape *rows[2] = {rw_shape(r, s->dtype, s->rank - 1, s->dims),
                            rw_shape(r, DT_S32, s->rank - 1, s->dims)};
    Instruction *operands[4] = {
        x, indices, last_of_all(r, s->dtype, is_largest),
        rw_splat_int(r, shape_scalar(r->m->intern, DT_S32), INT32_MAX)};
    Instruction *first =
        rw_add(r, OP_REDUCE, shape_tuple(r->m->intern, 2, rows), 4, operands);
    inst_set_ints(first, ATTR_DIMENSIONS, &last, 1);
    inst_set_computation(first, ATTR_TO_APPLY, first_of_two(r, s->dtype, is_largest));
    return first;
}

/* Of few long rows so many that a GPU is busy are reduced on their own, and what they give once more. */
static int64_t pieces_of_row(const Shape *s)
{
    int64_t n = s->dims[s->rank - 1], rows = shape_elements(s) / n, pieces = 1;
    while (n >= LONG_ROW && 2 * pieces * rows <= MOST_PIECES &&
           n / (2 * pieces) >= LEAST_PIECE)
        pieces *= 2;
    return pieces < LEAST_PIECES ? 1 : pieces;
}

/* The last dimension in pieces. */
static Instruction *cut(Rewriter *r, Instruction *x, int64_t pieces)
{
    const Shape *s = x->shape;
    const int64_t *dims = rw_cut_dims(r, s, pieces);
    return rw_reshape(r, rw_shape(r, s->dtype, s->rank + 1, dims), x);
}

static Instruction *first_of_rows_of(Rewriter *r, Instruction *x, bool is_largest)
{
    uint32_t last = x->shape->rank - 1;
    int64_t pieces = pieces_of_row(x->shape), n = x->shape->dims[last];
    if (pieces > 1 && n % pieces != 0) /* what fills it up has greater indices */
        x = rw_fill_up(r, x, last_of_all(r, x->shape->dtype, is_largest), last,
                       pieces - n % pieces);
    const Shape *s = shape_with_dtype(r->m->intern, x->shape, DT_S32);
    Instruction *indices = rw_add(r, OP_IOTA, s, 0, NULL);
    inst_set_int(indices, ATTR_IOTA_DIMENSION, last);
    if (pieces == 1)
        return first_along(r, x, indices, is_largest);
    Instruction *of_pieces =
        first_along(r, cut(r, x, pieces), cut(r, indices, pieces), is_largest);
    return first_along(r, rw_element(r, of_pieces, 0), rw_element(r, of_pieces, 1),
                       is_largest);
}

/* topk(x), k=1  =>  (v, i) = reduce(x, iota); tuple(reshape(v), reshape(i)) */
static Instruction *first_of_row(Rewriter *r, Instruction *inst)
{
    Instruction *x = inst->operands[0];
    const Shape *s = x->shape;
    if (inst_int(inst, ATTR_K, 0) != 1 || !rw_is_static(s) || s->rank == 0 ||
        dtype_is_complex(s->dtype) || shape_elements(s) == 0 ||
        shape_leaf(inst->shape, 1)->dtype != DT_S32)
        return NULL;
    Instruction *first = first_of_rows_of(r, x, inst_int(inst, ATTR_LARGEST, 1) != 0);
    Instruction *parts[2];
    for (uint32_t i = 0; i < 2; i++)
        parts[i] = rw_reshape(r, shape_leaf(inst->shape, i), rw_element(r, first, i));
    return rw_add(r, OP_TUPLE, inst->shape, 2, parts);
}

/* Rows of which topk's kernel would have so few that most of a GPU is idle: the best of pieces, and of those the best. Among
 * equal ones those of earlier pieces stand first, as they do in the row.
 *
 *   topk(x[n]), k  =>  (v, i) = topk(x[p,n/p]), k; (w, j) = topk(v[p k]), k; tuple(w, (i + n/p iota)[p k] at j) */
static Instruction *best_of_pieces(Rewriter *r, Instruction *inst)
{
    Instruction *x = inst->operands[0];
    const Shape *s = x->shape;
    int64_t k = inst_int(inst, ATTR_K, 0);
    bool is_largest = inst_int(inst, ATTR_LARGEST, 1) != 0;
    if (k < 2 || k > MOST_K || !rw_is_static(s) || s->rank == 0 ||
        dtype_is_complex(s->dtype) || shape_elements(s) == 0 ||
        shape_leaf(inst->shape, 1)->dtype != DT_S32)
        return NULL;
    uint32_t last = s->rank - 1;
    int64_t n = s->dims[last], rows = shape_elements(s) / n, pieces = pieces_of_row(s);
    while (pieces > 1 && (pieces * rows > MOST_BEST || n / pieces < LEAST_PART * k))
        pieces /= 2;
    if (pieces < LEAST_PIECES)
        return NULL;
    if (n % pieces != 0) /* what fills it up stands behind its equals */
        x = rw_fill_up(r, x, last_of_all(r, s->dtype, is_largest), last,
                       pieces - n % pieces);
    int64_t size = x->shape->dims[last] / pieces;
    Instruction *best = topk_of(r, cut(r, x, pieces), k, is_largest);
    Instruction *values = rw_element(r, best, 0), *at = rw_element(r, best, 1);
    Instruction *begin = rw_add(r, OP_IOTA, at->shape, 0, NULL);
    inst_set_int(begin, ATTR_IOTA_DIMENSION, last);
    begin = rw_binary(r, OP_MULTIPLY, at->shape, begin, rw_splat_int(r, at->shape, size));
    at = rw_binary(r, OP_ADD, at->shape, at, begin);
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, s->rank);
    for (uint32_t d = 0; d < s->rank; d++)
        dims[d] = d == last ? pieces * k : s->dims[d];
    values = rw_reshape(r, rw_shape(r, s->dtype, s->rank, dims), values);
    at = rw_reshape(r, rw_shape(r, DT_S32, s->rank, dims), at);
    Instruction *chosen = topk_of(r, values, k, is_largest);
    Instruction *where = rw_element(r, chosen, 1);
    Instruction *parts[2] = {rw_element(r, chosen, 0), take(r, where->shape, at, where)};
    for (uint32_t i = 0; i < 2; i++)
        parts[i] = rw_reshape(r, shape_leaf(inst->shape, i), parts[i]);
    return rw_add(r, OP_TUPLE, inst->shape, 2, parts);
}

const Rule rules_topk[] = {
    {OP_SLICE, "slice_sort", slice_sort},
    {OP_TOPK, "first_of_row", first_of_row},
    {OP_TOPK, "best_of_pieces", best_of_pieces},
    {0},
};
