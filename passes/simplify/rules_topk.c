/* Rules of sorts of which only the first elements are read: approx_max_k as JAX lowers it, sort(-x)[:k].
 *
 *   s = sort(x, iota), by x descending; slice(s.0)[0:k], slice(s.1)[0:k]
 *     =>  t = topk(x), k; t.0, t.1
 *
 * Measure: sorts. Where zeros are equal for the comparator, topk, which has -0 below 0, gets them as one, and the values are
 * taken from x by their positions. NaN, about which a comparison that is not total says nothing, goes where topk has it. */
#include "ir/kernel/sort.h"
#include "passes/simplify/rewrite.h"

/* Elements that topk's kernel keeps, and how many times as many there must be: else a sort does as well. */
enum { MOST_K = 1024, LEAST_PART = 4 };

/* How many of a row a slice takes from its start, everything of the other dimensions; 0: it is another slice. */
static int64_t first_of_rows(const Instruction *slice, const Shape *s)
{
    uint32_t last = s->rank - 1;
    if (slice->op != OP_SLICE)
        return 0;
    const SliceSpec *spec = inst_attr(slice, ATTR_SLICE)->slice;
    for (uint32_t d = 0; d < s->rank; d++) {
        SliceDim x = spec->dims[d];
        if (x.start != 0 || x.stride != 1 || (d != last && x.limit != s->dims[d]))
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

/* Numbers of the places in a row. */
static bool is_places(const Instruction *x, uint32_t last)
{
    while (x->op == OP_BROADCAST) {
        Ints dims = inst_ints(x, ATTR_DIMENSIONS);
        uint32_t k = 0;
        while (k < dims.count && dims.data[k] != last)
            k++;
        if (k == dims.count)
            return false;
        last = k;
        x = x->operands[0];
    }
    return x->op == OP_IOTA && inst_int(x, ATTR_IOTA_DIMENSION, 0) == last;
}

/* Of (x, places), by x alone; is_largest: descending. */
static bool sorts_places(const Instruction *sort, bool *is_largest)
{
    const Instruction *first, *second;
    const Shape *s = sort->operands[0]->shape;
    if (sort->operand_count != 2 || !rw_is_static(s) || s->rank == 0 ||
        dtype_is_complex(s->dtype) || shape_elements(s) == 0)
        return false;
    return inst_ints(sort, ATTR_DIMENSIONS).data[0] == s->rank - 1 &&
           sort->operands[1]->shape->dtype == DT_S32 &&
           is_places(sort->operands[1], s->rank - 1) &&
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
    const Shape *pred = shape_with_dtype(r->m->intern, x->shape, DT_PRED);
    Instruction *is_zero = rw_binary(r, OP_COMPARE, pred, x, zero);
    inst_set_int(is_zero, ATTR_DIRECTION, DIRECTION_EQ);
    return rw_add(r, OP_SELECT, x->shape, 3, (Instruction *[]){is_zero, zero, x});
}

/* x at places of its rows. */
static Instruction *take(Rewriter *r, const Shape *s, Instruction *x, Instruction *places)
{
    uint32_t rank = x->shape->rank;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, rank + 1);
    int64_t *ones = ARENA_ARRAY(r->scratch, int64_t, rank + 1);
    int64_t last = rank - 1;
    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = places->shape->dims[d];
        ones[d] = 1;
    }
    dims[rank] = 1;
    Instruction *at = rw_reshape(r, rw_shape(r, DT_S32, rank + 1, dims), places);
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
    if (k < 1 || !sorts_places(sort, &is_largest) || !only_first_are_read(r, sort))
        return NULL;
    const Instruction *by = inst_called(sort, 0)->root;
    bool is_exact = !dtype_is_float(x->shape->dtype) ||
                    inst_int(by, ATTR_TYPE, COMPARE_FLOAT) == COMPARE_TOTALORDER;
    Instruction *best = topk_of(r, is_exact ? x : with_one_zero(r, x), k, is_largest);
    if (which == 1 || is_exact)
        return rw_as(inst, rw_element(r, best, (uint32_t)which));
    return rw_as(inst, take(r, inst->shape, x, rw_element(r, best, 1)));
}

const Rule rules_topk[] = {
    {OP_SLICE, "slice_sort", slice_sort},
    {0},
};
