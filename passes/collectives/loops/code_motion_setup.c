/* Brings reductions of loops into the form that all-reduce-code-motion knows.
 *
 *   s = reduce-scatter(transpose(x))      =>  s = transpose(reduce-scatter(x))
 *   a = add(convert(all-reduce(x)), acc)  =>  a = add(all-reduce(convert(x)), acc)
 *
 * The first lets transposes sink to the accumulator, where they meet others; it is done where
 * reduce-scatters are moved at all. The second adds in the wide type, and moves more bytes as
 * long as the reduction stays in the loop: it has a switch of its own. Both look at bodies of
 * loops only, and at reductions of one operand.
 *
 * Needs: nothing. Keeps: values, sums in a wider type aside; attributes and control edges.
 * Ends: transposes move down, conversions up, each once. */
#include "ir/analysis/carried.h"
#include "ir/analysis/collective.h"
#include "passes/collectives/loops/code_motion.h"
#include "passes/settings.h"

typedef struct Setup {
    Computation *comp;
    Arena *scratch;
    const PassSettings *settings;
    Uses uses;
    Instruction **forward; /* [count] by old id */
    uint32_t count;
} Setup;

static bool is_reduction(const Instruction *inst)
{
    return (inst->op == OP_ALL_REDUCE || inst->op == OP_REDUCE_SCATTER) &&
           inst->operand_count == 1 && inst->shape->dynamic == NULL &&
           !inst_bool(inst, ATTR_CONSTRAIN_LAYOUT);
}

/* The reduction on another operand, giving another shape; what came before it still does. */
static Instruction *reduce_like(Setup *s, const Instruction *reduce, const Shape *shape,
                                Instruction *operand)
{
    Instruction *made = computation_add_like(s->comp, reduce, shape, 1, &operand);
    inst_unset(made, ATTR_SHARDING);
    made->control = reduce->control;
    made->control_count = reduce->control_count;
    return made;
}

/* reduce-scatter(transpose(x, p), d) -> transpose(reduce-scatter(x, p[d]), p) */
static Instruction *sink_transpose(Setup *s, Instruction *reduce)
{
    Instruction *turn = reduce->operands[0];
    if (reduce->op != OP_REDUCE_SCATTER || turn->op != OP_TRANSPOSE ||
        turn->control_count != 0 || uses_only(&s->uses, turn) == NULL)
        return NULL;
    int64_t d = inst_ints(reduce, ATTR_DIMENSIONS).data[0];
    int64_t from = inst_ints(turn, ATTR_DIMENSIONS).data[d];
    const Shape *x = turn->operands[0]->shape;
    int64_t *dims = arena_copy(s->scratch, x->dims, x->rank * sizeof *dims);
    dims[from] = reduce->shape->dims[d];
    const Shape *cut = shape_with_dims(s->comp->module->intern, x, x->rank, dims);
    Instruction *made = reduce_like(s, reduce, cut, turn->operands[0]);
    inst_set_ints(made, ATTR_DIMENSIONS, &from, 1);
    return computation_add_like(s->comp, turn, reduce->shape, 1, &made);
}

/* add(convert(reduce(x)), y) -> add(reduce(convert(x)), y), adding floats in the wider type */
static Instruction *lift_convert(Setup *s, Instruction *reduce)
{
    Module *m = s->comp->module;
    Instruction *wide = uses_only(&s->uses, reduce);
    if (wide == NULL || wide->op != OP_CONVERT || wide->control_count != 0)
        return NULL;
    const Instruction *add = uses_only(&s->uses, wide);
    DType from = reduce->shape->dtype, to = wide->shape->dtype;
    if (add == NULL || add->op != OP_ADD || !dtype_is_float(from) ||
        !motion_widens(reduce->shape, wide->shape) ||
        reduce->operands[0]->shape->dtype != from ||
        collective_reduction(inst_called(reduce, 0)) != OP_ADD)
        return NULL;
    Instruction *x = reduce->operands[0];
    Instruction *operand = computation_add_like(
        s->comp, wide, shape_with_dtype(m->intern, x->shape, to), 1, &x);
    Instruction *made = reduce_like(s, reduce, wide->shape, operand);
    inst_set_computation(made, ATTR_TO_APPLY, module_add_adder(m, to));
    s->forward[wide->id] = made;
    return made;
}

static bool visit(Setup *s)
{
    bool changed = false;
    for (uint32_t i = 0; i < s->count; i++) {
        Instruction *inst = s->comp->instructions[i];
        if (inst == NULL || !is_reduction(inst))
            continue;
        Instruction *made = NULL;
        if (s->settings->reorder_convert_reduce_add)
            made = lift_convert(s, inst);
        if (made == NULL && s->settings->reduce_scatter_code_motion)
            made = sink_transpose(s, inst);
        if (made == NULL)
            continue;
        s->forward[i] = made;
        changed = true;
    }
    return changed;
}

static bool visit_body(Computation *comp, PassContext *cx)
{
    Setup s = {.comp = comp,
               .scratch = cx->scratch,
               .settings = cx->settings,
               .count = comp->instruction_count};
    bool any = false;
    for (uint32_t i = 0; i < s.count; i++)
        any |= comp->instructions[i] != NULL && is_reduction(comp->instructions[i]);
    if (!any)
        return false;
    s.uses = uses_compute(comp, cx->scratch);
    s.forward = ARENA_ARRAY(cx->scratch, Instruction *, (size_t)s.count + 1);
    if (!visit(&s))
        return false;
    computation_substitute(comp, s.forward, s.count);
    computation_sort(comp);
    return true;
}

bool pass_code_motion_setup(Module *m, PassContext *cx)
{
    if (!cx->settings->reduce_scatter_code_motion &&
        !cx->settings->reorder_convert_reduce_add)
        return false;
    const bool *is_body = module_loop_bodies(m, cx->scratch);
    bool changed = false;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (is_body[comp->id])
            changed |= visit_body(comp, cx);
    }
    if (changed)
        module_sort(m);
    return changed;
}
