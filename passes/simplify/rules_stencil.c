/* Rules of stencils: updates in place of most of an array, from neighbours in the same array. In place a thread
 * would read what another has replaced, so that all that is read would have to be copied first; as a new array
 * it is one elementwise kernel with a boundary.
 *
 *   dynamic-update-slice(x, f(slices of x), constants)
 *   ->  select(inside, pad(f(slices of x), 0), x)
 *
 * Measure: number of dynamic-update-slices. */
#include "passes/simplify/rewrite.h"

enum { MOST_LOOKED_AT = 200 };

typedef struct Stencil {
    const Instruction *array;
    const int64_t *start;
    int looked_at;
} Stencil;

/* x reads the array elsewhere than where it is replaced, through elementwise operations. */
static bool reads_neighbours(Stencil *s, const Instruction *x)
{
    if (s->looked_at++ > MOST_LOOKED_AT)
        return false;
    if (x->op == OP_SLICE && x->operands[0] == s->array) {
        const SliceSpec *cut = inst_attr(x, ATTR_SLICE)->slice;
        for (uint32_t d = 0; d < cut->rank; d++) {
            if (cut->dims[d].start != s->start[d])
                return true;
        }
        return false;
    }
    if (!op_is(x->op, OPF_ELEMENTWISE))
        return false;
    for (uint32_t i = 0; i < x->operand_count; i++) {
        if (reads_neighbours(s, x->operands[i]))
            return true;
    }
    return false;
}

/* Where the update begins; NULL: it is not known. */
static int64_t *known_start(Rewriter *r, const Instruction *inst)
{
    const Shape *s = inst->shape, *part = inst->operands[1]->shape;
    int64_t *start = ARENA_ARRAY(r->scratch, int64_t, s->rank + 1u);
    if (!inst_has_scalar_starts(inst))
        return NULL;
    for (uint32_t d = 0; d < s->rank; d++) {
        const Literal *at = rw_splat_of(inst->operands[d + 2]);
        if (at == NULL)
            return NULL;
        int64_t last = s->dims[d] - part->dims[d];
        int64_t first = literal_int(at, 0); /* negative: below 0, or beyond INT64_MAX */
        bool is_above =
            first > last || (first < 0 && dtype_is_unsigned(at->shape->dtype));
        start[d] = is_above ? last : first < 0 ? 0 : first;
    }
    return start;
}

static Instruction *update_by_element(Rewriter *r, Instruction *inst)
{
    Instruction *x = inst->operands[0], *update = inst->operands[1];
    const Shape *s = inst->shape, *part = update->shape;
    if (!rw_is_static(s) || !rw_is_static(part) || s->rank == 0 ||
        shape_elements(part) < shape_elements(s) / 2)
        return NULL;
    const int64_t *start = known_start(r, inst);
    Stencil stencil = {.array = x, .start = start};
    if (start == NULL || !reads_neighbours(&stencil, update))
        return NULL;
    Intern *t = r->m->intern;
    PaddingDim *dims = ARENA_ARRAY(r->m->arena, PaddingDim, s->rank);
    for (uint32_t d = 0; d < s->rank; d++)
        dims[d] =
            (PaddingDim){.low = start[d], .high = s->dims[d] - part->dims[d] - start[d]};
    Padding *padding = ARENA_NEW(r->m->arena, Padding);
    *padding = (Padding){s->rank, dims};
    Instruction *inside = rw_splat_int(r, shape_with_dtype(t, part, DT_PRED), 1);
    Instruction *parts[2] = {inside, update};
    for (uint32_t i = 0; i < 2; i++) {
        DType type = parts[i]->shape->dtype;
        Instruction *none = rw_splat(r, shape_scalar(t, type), 0);
        parts[i] = rw_binary(r, OP_PAD, shape_with_dtype(t, s, type), parts[i], none);
        inst_set(parts[i], (Attr){.id = ATTR_PADDING, .padding = padding});
    }
    return rw_add(r, OP_SELECT, s, 3, (Instruction *[]){parts[0], parts[1], x});
}

const Rule rules_stencil[] = {
    {OP_DYNAMIC_UPDATE_SLICE, "update_by_element", update_by_element},
    {0},
};
