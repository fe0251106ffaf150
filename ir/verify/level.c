/* What the verifier's levels above LEVEL_WELL_FORMED add: predicates that the stages of the
 * compiler leave behind and later ones rely on. Each level includes those before it.
 * LEVEL_OPTIMISED adds no predicate of its own here: from it on, the rules that a text may
 * break as long as it is only read are checked, where they stand. */
#include "ir/verify/rules.h"

/* Opcodes that may give a value another layout than their operand's. */
static bool may_change_layout(const Instruction *inst)
{
    switch (inst->op) {
    case OP_COPY:
    case OP_COPY_START:
    case OP_COPY_DONE:
    case OP_BITCAST:
    case OP_BITCAST_CONVERT:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_BROADCAST:
    case OP_IOTA:
    case OP_RNG:
    case OP_RNG_BIT_GENERATOR:
    case OP_DOT:
    case OP_CONVOLUTION:
    case OP_GATHER:
    case OP_CUSTOM_CALL:
    case OP_FUSION:
    case OP_CALL:
    case OP_GET_TUPLE_ELEMENT:
    case OP_SCAN:
        return true;
    default:
        return false;
    }
}

/* Laid out: operands have the layout of the result, but where an opcode exists to change
 * it; types of less than a byte say so in their layout. */
static void check_laid_out(Verify *v, const Instruction *inst)
{
    const Shape *r = inst->shape;
    if (!shape_is_array(r) || may_change_layout(inst))
        return;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Shape *s = inst->operands[i]->shape;
        if (shape_is_array(s) && s->rank == r->rank && s->rank > 1 &&
            !shape_layouts_equal(s, r) && op_is(inst->op, OPF_ELEMENTWISE)) {
            verify_error(v, inst, "operand %u, %s, has not the layout of the result, %s",
                         i, verify_text(v, s), verify_text(v, r));
            return;
        }
    }
}

/* What a value passed to, or returned from, a called computation is in memory both sides know by their own layout. */
static void wrong_layout(Verify *v, const Instruction *inst, const Computation *callee,
                         const Shape *outside, const Shape *inside, const char *what)
{
    verify_error(v, inst, "%s of %s, %s, has not the layout of what it is here, %s", what,
                 callee->name, verify_text(v, inside), verify_text(v, outside));
}

/* Laid out: computations share the memory of those who call them. Those that are applied to elements have none. */
static void check_called_layouts(Verify *v, const Instruction *inst)
{
    bool is_loop = inst->op == OP_WHILE, is_branch = inst->op == OP_CONDITIONAL;
    if (inst->op != OP_FUSION && inst->op != OP_CALL && !is_loop && !is_branch)
        return;
    for (uint32_t i = 0; i < inst_called_count(inst); i++) {
        const Computation *callee = inst_called(inst, i);
        uint32_t first = is_branch ? i + 1 : 0;
        for (uint32_t p = 0; p < callee->parameter_count; p++) {
            const Shape *outside = inst->operands[first + p]->shape,
                        *inside = callee->parameters[p]->shape;
            if (shape_layouts_equal(outside, inside))
                continue;
            wrong_layout(v, inst, callee, outside, inside,
                         arena_printf(v->scratch, "parameter %u", p));
            return;
        }
        bool is_condition = is_loop && i == 0;
        if (!is_condition && !shape_layouts_equal(inst->shape, callee->root->shape)) {
            wrong_layout(v, inst, callee, inst->shape, callee->root->shape, "the result");
            return;
        }
    }
}

/* Fused: fused computations are called by fusions only and hold no control flow but a loop that is a kernel, and
 * no effect but that of a kernel that advances the random state. */
static void check_fused(Verify *v, const Instruction *inst)
{
    if (inst->parent->is_fused && inst->op != OP_RNG_GET_AND_UPDATE_STATE &&
        inst->op != OP_WHILE &&
        op_is(inst->op, OPF_CONTROL | OPF_COLLECTIVE | OPF_EFFECT))
        verify_error(v, inst, "cannot stand in a fusion");
}

void verify_level(Verify *v)
{
    for (const Computation *comp = comp_first(v->m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (v->level >= LEVEL_LAID_OUT) {
                check_laid_out(v, inst);
                check_called_layouts(v, inst);
            }
            if (v->level >= LEVEL_FUSED)
                check_fused(v, inst);
        }
    }
    if (v->level >= LEVEL_SCHEDULED && !v->m->config.is_scheduled)
        diag_error(v->diag, v->m->entry->span, "the module is not scheduled");
}
