/* What no kernel and no plan can be made for, by what the module says. */
#include "codegen/codegen.h"
#include "codegen/emit/emit.h"
#include "ir/diag.h"

/* -- before passes -------------------------------------------------------------------------- */

static bool takes_leaves(const Module *m, const Instruction *inst, const char *what)
{
    size_t leaves = shape_leaf_count(inst->shape);
    for (size_t leaf = 0; leaf < leaves; leaf++) {
        const Shape *s = shape_leaf(inst->shape, leaf);
        if (shape_is_array(s))
            continue;
        diag_unsupported(m->diag, inst->span, "entry %s of shape %s", what,
                         shape_text(m->arena, s, false));
        return false;
    }
    return true;
}

/* The operand that a collective gives in another type, or NULL: text may mix float types, but
 * collectives move and reduce one. */
static const Instruction *mixed_operand(const Instruction *inst)
{
    bool many = shape_is_tuple(inst->shape) && inst->shape->rank == inst->operand_count;
    if (!op_is(inst->op, OPF_COLLECTIVE) || (!many && inst->operand_count != 1))
        return NULL;
    for (uint32_t k = 0; k < inst->operand_count; k++) {
        const Shape *to = many ? inst->shape->elements[k] : inst->shape;
        const Instruction *a = inst->operands[k];
        if (shape_is_array(to) && shape_is_array(a->shape) &&
            to->dtype != a->shape->dtype)
            return a;
    }
    return NULL;
}

static bool takes(const Module *m, const Instruction *inst)
{
    const Instruction *mixed = mixed_operand(inst);
    if (inst_has(inst, ATTR_SPARSITY_CONFIG))
        diag_unsupported(m->diag, inst->span, "structured sparsity (sparsity_config)");
    else if (mixed != NULL)
        diag_unsupported(m->diag, inst->span, "%s of %s to %s", op_info[inst->op].name,
                         shape_text(m->arena, mixed->shape, false),
                         shape_text(m->arena, inst->shape, false));
    return mixed == NULL && !inst_has(inst, ATTR_SPARSITY_CONFIG);
}

bool codegen_takes(const Module *m)
{
    bool good = takes_leaves(m, m->entry->root, "result");
    for (uint32_t p = 0; good && p < m->entry->parameter_count; p++)
        good = takes_leaves(m, m->entry->parameters[p], "parameter");
    for (const Computation *comp = comp_first(m); good && comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); good && inst;
             inst = inst_next(inst))
            good = takes(m, inst);
    }
    return good;
}

/* -- after passes ----------------------------------------------------------------------------- */

/* Emitters and plan keep indices in arrays of EMIT_MOST_RANK and know no sizes but these. */
static const char *misfit(Arena *a, const Shape *s)
{
    if (shape_is_array(s) && s->rank > EMIT_MOST_RANK)
        return arena_printf(a, "an array of more than %d dimensions", EMIT_MOST_RANK);
    if (shape_is_array(s) && s->dynamic != NULL)
        return "an array of dynamic size";
    const char *why = NULL;
    for (uint32_t i = 0; s->elements != NULL && i < s->rank && why == NULL; i++)
        why = misfit(a, s->elements[i]);
    return why;
}

bool codegen_fits(const Module *m)
{
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            const char *why = misfit(m->arena, inst->shape);
            if (why == NULL)
                continue;
            diag_unsupported(m->diag, inst->span, "%s has %s", inst->name, why);
            return false;
        }
    }
    return true;
}
