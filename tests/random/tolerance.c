/* See tolerance.h. The coarsest type of each value, callees before callers: that of its operands and of what
 * it calls and, if it is not exact itself, its own. */
#include "tests/random/tolerance.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef struct Coarseness {
    const char
        *inexact;  /* " v1 v5" up to the end of the line; NULL: the text does not say */
    DType **types; /* [computation][instruction]; DT_INVALID: exact */
    DType *worst;  /* [computation] */
} Coarseness;

static DType coarser(DType a, DType b)
{
    if (a == DT_INVALID || b == DT_INVALID)
        return a == DT_INVALID ? b : a;
    return dtype_info[a].mantissa_bits < dtype_info[b].mantissa_bits ? a : b;
}

/* A name that the generator gives to values of which it knows whether they are exact. */
static bool is_known(const char *name)
{
    const char *number = name + strspn(name, "vsp");
    return number > name && *number != '\0' &&
           number[strspn(number, "0123456789")] == '\0';
}

static bool is_listed(const char *list, const char *name)
{
    size_t end = strcspn(list, "\n"), n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL && at < list + end;
         at++) {
        if (at[-1] == ' ' && isspace((unsigned char)at[n]))
            return true;
    }
    return false;
}

static DType type_of(const Coarseness *c, const Instruction *inst)
{
    DType t = DT_INVALID;
    bool known = c->inexact != NULL && is_known(inst->name);
    bool inexact =
        known ? is_listed(c->inexact, inst->name)
              : c->inexact == NULL && inst->op != OP_PARAMETER && inst->op != OP_CONSTANT;
    if (known && !inexact)
        return DT_INVALID;
    for (uint32_t i = 0; i < inst->operand_count; i++)
        t = coarser(t, c->types[inst->parent->id][inst->operands[i]->id]);
    for (uint32_t i = 0; i < inst_called_count(inst); i++)
        t = coarser(t, c->worst[inst_called(inst, i)->id]);
    for (size_t i = 0; inexact && i < shape_leaf_count(inst->shape); i++) {
        DType own = number_component(shape_leaf(inst->shape, i)->dtype);
        if (dtype_info[own].class == DTC_FLOAT)
            t = coarser(t, own);
    }
    return t;
}

static Tolerance tolerance_of(DType coarsest, DType t)
{
    Tolerance out = {0, 0};
    t = number_component(t);
    if (coarsest == DT_INVALID || dtype_info[t].class != DTC_FLOAT)
        return out;
    out = number_tolerance(coarsest);
    double unit = ldexp(1, -(int)dtype_info[coarsest].mantissa_bits);
    if (coarsest != t && out.rtol < unit) /* the unit of a value as large as any */
        out.rtol = unit;
    return out;
}

static Tolerance *leaves(const Coarseness *c, const Instruction *inst, const Shape *shape,
                         Tolerance *out)
{
    DType coarsest = c->types[inst->parent->id][inst->id];
    if (!shape_is_tuple(shape)) {
        *out = tolerance_of(coarsest, shape->dtype);
        return out + 1;
    }
    for (uint32_t i = 0; i < shape->rank; i++) {
        bool made_here = inst->op == OP_TUPLE && shape == inst->shape;
        out = leaves(c, made_here ? inst->operands[i] : inst, shape->elements[i], out);
    }
    return out;
}

const Tolerance *result_tolerances(const Module *m, const char *text, Arena *a)
{
    Coarseness c = {.types = ARENA_ARRAY(a, DType *, m->computation_count),
                    .worst = ARENA_ARRAY(a, DType, m->computation_count)};
    if (strncmp(text, INEXACT_LINE, strlen(INEXACT_LINE)) == 0)
        c.inexact = text + strlen(INEXACT_LINE);
    for (uint32_t k = 0; k < m->computation_count; k++) {
        const Computation *comp = m->computations[k];
        uint32_t count = 0;
        Instruction **order =
            comp != NULL ? computation_post_order(comp, a, &count) : NULL;
        c.types[k] =
            ARENA_ARRAY(a, DType, comp != NULL ? comp->instruction_count + 1u : 1);
        for (uint32_t i = 0; i < count; i++) {
            DType t = c.types[k][order[i]->id] = type_of(&c, order[i]);
            c.worst[k] = coarser(c.worst[k], t);
        }
    }
    const Instruction *root = m->entry->root;
    Tolerance *out = ARENA_ARRAY(a, Tolerance, (size_t)shape_leaf_count(root->shape) + 1);
    leaves(&c, root, root->shape, out);
    return out;
}
