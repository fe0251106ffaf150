/* Rules of static-shapes for what looks for extremes or takes one step after the other. */
#include <string.h>

#include "passes/dynamic/sized.h"
#include "passes/simplify/expand.h"

/* -- topk ------------------------------------------------------------------------------------------ */

/* What comes last: in the total order of floats the largest or smallest pattern of bits. */
static Instruction *last_value(Statics *st, DType t, bool largest)
{
    const Shape *s = shape_scalar(st->r.m->intern, t);
    Literal *l = literal_create(st->r.m->arena, s);
    /* floats: all bits set, or all but the sign; integers: the sign alone, or all but it */
    bool is_float = dtype_is_float(t), has_sign = is_float || dtype_is_signed(t);
    size_t bytes = dtype_info[t].storage;
    unsigned char *data = l->data;
    memset(data, is_float || !largest ? 0xff : 0, bytes);
    if (has_sign)
        data[bytes - 1] =
            (unsigned char)((data[bytes - 1] & 0x7f) | (largest ? 0x80 : 0));
    return rw_constant(&st->r, l);
}

bool sized_topk(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    const Shape *s = x[0]->inst->shape;
    uint32_t last = s->rank - 1u;
    const Attr *largest = inst_attr(inst, ATTR_LARGEST);
    Sized masked = *x[0], *operands[1] = {&masked};
    if (sized_has(x[0], last)) {
        if (dtype_info[s->dtype].bits < 8 || dtype_is_complex(s->dtype) ||
            s->dtype == DT_PRED || s->dtype == DT_F8E8M0FNU)
            return false;
        int64_t d = last;
        masked.inst =
            sized_masked(st, x[0], &(Ints){&d, 1},
                         last_value(st, s->dtype, largest == NULL || largest->i != 0));
    }
    Instruction *all = sized_again(st, inst, operands);
    for (uint32_t k = 0; k < 2; k++) {
        out[k].inst = sized_element(st, all, k);
        out[k].sizes = sized_scratch(st, s->rank);
        for (uint32_t d = 0; d < last; d++)
            out[k].sizes[d] = sized_has(x[0], d) ? x[0]->sizes[d] : NULL;
    }
    return true;
}

/* -- select-and-scatter ----------------------------------------------------------------------------- */

bool sized_select_and_scatter(Statics *st, const Instruction *inst, Sized *const *x,
                              Sized *out)
{
    Instruction *again = sized_again(st, inst, x);
    out->inst = expand_select_and_scatter(&st->r, again, sized_mask(st, x[0], NULL),
                                          sized_mask(st, x[1], NULL));
    out->sizes = x[0]->sizes;
    return true;
}

/* -- scan ------------------------------------------------------------------------------------------- */

typedef struct Steps {
    const Instruction *inst;
    uint32_t inputs, carries, outputs;
    uint32_t d;
    const Shape *present; /* pred[1, .., 1]: of one step */
} Steps;

/* The function with an input more behind the others: whether the step is there; carries stay as they are
 * where it is not. */
static Computation *step_if_present(Statics *st, const Steps *s)
{
    Module *m = st->r.m;
    Computation *f = inst_called(s->inst, 0);
    Computation *comp = module_add_computation(m, "scan_present");
    uint32_t n = s->inputs + s->carries, given = s->outputs + s->carries;
    Instruction **all = ARENA_ARRAY(st->r.scratch, Instruction *, n + 1u);
    Instruction **parts = ARENA_ARRAY(st->r.scratch, Instruction *, given + 1u);
    for (uint32_t i = 0; i < n; i++)
        all[i] = computation_add_parameter(comp, i < s->inputs ? i : i + 1,
                                           f->parameters[i]->shape, NULL);
    Instruction *p = computation_add_parameter(comp, s->inputs, s->present, NULL);
    p = computation_add(comp, OP_RESHAPE, shape_scalar(m->intern, DT_PRED), 1, &p, NULL);
    Instruction *step = computation_add(comp, OP_CALL, f->root->shape, n, all, NULL);
    inst_set_computation(step, ATTR_TO_APPLY, f);
    for (uint32_t k = 0; k < given; k++) {
        parts[k] = shape_is_tuple(step->shape) ? computation_add_element(step, k) : step;
        if (k < s->outputs)
            continue;
        Instruction *old = all[s->inputs + k - s->outputs], *is_there = p;
        if (old->shape->rank > 0) {
            is_there = computation_add(comp, OP_BROADCAST,
                                       shape_with_dtype(m->intern, old->shape, DT_PRED),
                                       1, &p, NULL);
            inst_set_ints(is_there, ATTR_DIMENSIONS, NULL, 0);
        }
        Instruction *choice[3] = {is_there, parts[k], old};
        parts[k] = computation_add(comp, OP_SELECT, old->shape, 3, choice, NULL);
    }
    comp->root = shape_is_tuple(step->shape)
                     ? computation_add(comp, OP_TUPLE, step->shape, given, parts, NULL)
                     : parts[0];
    return comp;
}

/* Sizes along the scanned dimension only. */
static bool is_along(const Steps *s, Sized *const *x)
{
    for (uint32_t i = 0; i < s->inst->operand_count; i++) {
        const Shape *shape = x[i]->inst->shape;
        if (!shape_is_array(shape))
            return false;
        for (uint32_t d = 0; d < shape->rank; d++) {
            if (sized_has(x[i], d) && (i >= s->inputs || d != s->d))
                return false;
        }
    }
    return s->inputs > 0;
}

bool sized_scan(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    Rewriter *r = &st->r;
    Steps s = {.inst = inst,
               .carries = (uint32_t)inst_int(inst, ATTR_NUM_CARRIES, 0),
               .d = (uint32_t)inst_ints(inst, ATTR_DIMENSIONS).data[0]};
    s.inputs = inst->operand_count - s.carries;
    s.outputs = (uint32_t)shape_leaf_count(inst->shape) - s.carries;
    if (!is_along(&s, x))
        return false;
    Sized steps = {.sizes = sized_scratch(st, s.d + 1)};
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, s.d + 1u);
    for (uint32_t i = 0; i <= s.d; i++)
        dims[i] = 1;
    s.present = rw_shape(r, DT_PRED, s.d, dims);
    dims[s.d] = x[0]->inst->shape->dims[s.d];
    for (uint32_t i = 0; i < s.inputs; i++) {
        if (sized_has(x[i], s.d))
            steps.sizes[s.d] = x[i]->sizes[s.d];
    }
    steps.inst = rw_splat_int(r, rw_shape(r, DT_PRED, s.d + 1, dims), 1);
    Instruction **operands = sized_scratch(st, inst->operand_count + 1);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        operands[i < s.inputs ? i : i + 1] = x[i]->inst;
    Instruction *mask = sized_mask(st, &steps, NULL);
    operands[s.inputs] = mask != NULL ? mask : steps.inst;
    Instruction *all = rw_like(r, inst, dynamic_bounds(r->m->intern, inst->shape),
                               inst->operand_count + 1, operands);
    inst_set_computation(all, ATTR_TO_APPLY, step_if_present(st, &s));
    for (uint32_t k = 0; k < s.outputs + s.carries; k++) {
        out[k].inst = sized_element(st, all, k);
        if (k >= s.outputs)
            continue;
        out[k].sizes = sized_scratch(st, out[k].inst->shape->rank);
        out[k].sizes[s.d] = steps.sizes[s.d];
    }
    return true;
}
