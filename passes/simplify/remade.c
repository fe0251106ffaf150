/* See remade.h. */
#include "passes/simplify/remade.h"

enum {
    LEAST_BYTES = 1 << 16, /* less is in a cache */
    LEAST_RATIO = 64,      /* its bytes, by those of a source */
    MOST_STEPS = 48,       /* what is needed twice counts twice */
    MOST_OPERANDS = 3
};

typedef struct Search {
    int64_t bytes; /* of the value */
    uint32_t steps;
    Remade *out;
} Search;

/* Exact however it is fused. */
static bool is_step(const Instruction *inst)
{
    if (inst->control_count != 0 || !shape_is_array(inst->shape) ||
        shape_is_dynamic(inst->shape))
        return false;
    switch (inst->op) {
    case OP_CONSTANT:
        return shape_is_scalar(inst->shape) && inst->literal != NULL &&
               !inst->literal->elided;
    case OP_IOTA:
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_COPY:
    case OP_SELECT:
    case OP_CONVERT:
        return true;
    default:
        return op_is(inst->op, OPF_ELEMENTWISE) && inst->operand_count <= MOST_OPERANDS &&
               !op_is(inst->op, OPF_EXPENSIVE | OPF_RANDOM | OPF_BOUNDARY | OPF_EFFECT) &&
               !dtype_is_float(inst->shape->dtype) &&
               !dtype_is_complex(inst->shape->dtype);
    }
}

static bool is_small(const Search *s, const Instruction *inst)
{
    return shape_is_array(inst->shape) && !shape_is_dynamic(inst->shape) &&
           shape_bytes(inst->shape) <= s->bytes / LEAST_RATIO;
}

static bool add_source(Remade *out, Instruction *inst)
{
    for (uint32_t i = 0; i < out->count; i++) {
        if (out->sources[i] == inst)
            return true;
    }
    if (out->count == REMADE_SOURCES)
        return false;
    out->sources[out->count++] = inst;
    return true;
}

static bool search(Search *s, Instruction *inst)
{
    if (inst->op != OP_CONSTANT && inst->op != OP_IOTA && is_small(s, inst))
        return add_source(s->out, inst);
    if (s->steps++ == MOST_STEPS || !is_step(inst))
        return false;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (!search(s, inst->operands[i]))
            return false;
    }
    return true;
}

bool remade_find(Instruction *value, Remade *out)
{
    if (!shape_is_array(value->shape) || shape_is_dynamic(value->shape))
        return false;
    Search s = {.bytes = shape_bytes(value->shape), .out = out};
    out->count = 0;
    return s.bytes >= LEAST_BYTES && search(&s, value);
}

typedef struct Maker {
    Computation *comp;
    Instruction **made; /* by id */
} Maker;

static Instruction *again(Maker *m, Instruction *inst)
{
    if (m->made[inst->id] != NULL)
        return m->made[inst->id];
    Instruction *operands[MOST_OPERANDS];
    for (uint32_t i = 0; i < inst->operand_count; i++)
        operands[i] = again(m, inst->operands[i]);
    Instruction *out = inst->op == OP_CONSTANT
                           ? computation_add_constant(m->comp, inst->literal, NULL)
                           : computation_add_like(m->comp, inst, inst->shape,
                                                  inst->operand_count, operands);
    m->made[inst->id] = out;
    return out;
}

Instruction *remade_again(Computation *comp, Instruction *value, const Remade *r,
                          Instruction *const *sources, Arena *scratch)
{
    Maker m = {comp,
               ARENA_ARRAY(scratch, Instruction *, value->parent->instruction_count)};
    for (uint32_t i = 0; i < r->count; i++)
        m.made[r->sources[i]->id] = sources[i];
    return again(&m, value);
}
