/* See device_value.h. */
#include "ir/analysis/device_value.h"

enum { STEPS_MOST = 64 }; /* instructions looked at */

typedef struct Device {
    const Instruction *const *loops;
    int64_t replica, partition;
    int steps;
} Device;

static bool value_of(Device *d, const Instruction *inst, int64_t *out);

static bool fits(const Shape *s, int64_t value)
{
    uint32_t bits = dtype_info[s->dtype].bits;
    bool is_signed = dtype_is_signed(s->dtype);
    if (s->dtype == DT_PRED)
        return value == 0 || value == 1;
    if (!is_signed && value < 0)
        return false;
    uint32_t value_bits = is_signed ? bits - 1 : bits;
    return value_bits >= 63 ||
           (value < (INT64_C(1) << value_bits) && value >= -(INT64_C(1) << value_bits));
}

static bool compute(OpCode op, int64_t a, int64_t b, int64_t *out)
{
    const int64_t most = INT64_C(1) << 31; /* no overflow below */
    if (a > most || a < -most || b > most || b < -most)
        return false;
    switch (op) {
    case OP_ADD:
        *out = a + b;
        return true;
    case OP_SUBTRACT:
        *out = a - b;
        return true;
    case OP_MULTIPLY:
        *out = a * b;
        return true;
    case OP_DIVIDE:
        *out = b == 0 ? 0 : a / b;
        return b != 0;
    case OP_REMAINDER:
        *out = b == 0 ? 0 : a % b;
        return b != 0;
    case OP_MINIMUM:
        *out = a < b ? a : b;
        return true;
    case OP_MAXIMUM:
        *out = a > b ? a : b;
        return true;
    default:
        return false;
    }
}

/* Before its loop, the value of an element that the loop's body hands on as it is; NULL: it is
 * no such element. */
static const Instruction *before_loop(const Device *d, const Instruction *element)
{
    const Instruction *p = element->operands[0];
    const Computation *body = element->parent;
    const Instruction *loop = p->op == OP_PARAMETER ? d->loops[body->id] : NULL;
    if (loop == NULL || body->root->op != OP_TUPLE || loop->operands[0]->op != OP_TUPLE)
        return NULL;
    uint32_t i = (uint32_t)inst_int(element, ATTR_INDEX, 0);
    const Instruction *next = body->root->operands[i];
    bool same = next->op == OP_GET_TUPLE_ELEMENT && next->operands[0] == p &&
                (uint32_t)inst_int(next, ATTR_INDEX, 0) == i;
    return same ? loop->operands[0]->operands[i] : NULL;
}

/* Element `at` of a constant table or an iota. */
static bool element(Device *d, const Instruction *table, int64_t at, int64_t *out)
{
    while (table != NULL && ++d->steps <= STEPS_MOST &&
           (table->op == OP_RESHAPE || table->op == OP_COPY || table->op == OP_BITCAST ||
            table->op == OP_GET_TUPLE_ELEMENT))
        table = table->op == OP_GET_TUPLE_ELEMENT ? before_loop(d, table)
                                                  : table->operands[0];
    if (table == NULL)
        return false;
    if (table->op == OP_CONSTANT) {
        *out = literal_int(table->literal, at);
        return true;
    }
    *out = at;
    return table->op == OP_IOTA && table->shape->rank == 1;
}

/* One element of an array with one long dimension, at a computed position. */
static bool looked_up(Device *d, const Instruction *slice, int64_t *out)
{
    const Shape *s = slice->operands[0]->shape;
    int64_t at = 0;
    if (shape_elements(slice->shape) != 1 || !layout_is_default(s->layout) ||
        !inst_has_scalar_starts(slice))
        return false;
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t index;
        if (!value_of(d, slice->operands[1 + i], &index))
            return false;
        index = index < 0 ? 0 : index > s->dims[i] - 1 ? s->dims[i] - 1 : index;
        at = at * s->dims[i] + index;
    }
    return element(d, slice->operands[0], at, out);
}

static bool value_of(Device *d, const Instruction *inst, int64_t *out)
{
    DType t = inst->shape->dtype;
    bool known = shape_is_array(inst->shape) && inst->shape->dynamic == NULL &&
                 (dtype_is_integer(t) || t == DT_PRED) && ++d->steps <= STEPS_MOST &&
                 shape_elements(inst->shape) == 1;
    int64_t a, b, c;
    if (!known)
        return false;
    switch (inst->op) {
    case OP_CONSTANT:
        *out = literal_int(inst->literal, 0);
        return true;
    case OP_REPLICA_ID:
        *out = d->replica;
        return true;
    case OP_PARTITION_ID:
        *out = d->partition;
        return true;
    case OP_CONVERT:
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_COPY:
    case OP_BROADCAST:
        known = value_of(d, inst->operands[0], out) &&
                (inst->op != OP_BITCAST || inst->operands[0]->shape->dtype == t);
        break;
    case OP_DYNAMIC_SLICE:
        known = looked_up(d, inst, out);
        break;
    case OP_GET_TUPLE_ELEMENT:
        inst = before_loop(d, inst);
        return inst != NULL && value_of(d, inst, out);
    case OP_CLAMP:
        known = value_of(d, inst->operands[0], &a) &&
                value_of(d, inst->operands[1], &b) && value_of(d, inst->operands[2], &c);
        if (known)
            *out = b < a ? (a < c ? a : c) : b < c ? b : c;
        break;
    default:
        known = inst->operand_count == 2 && value_of(d, inst->operands[0], &a) &&
                value_of(d, inst->operands[1], &b) && compute(inst->op, a, b, out);
        break;
    }
    return known && fits(inst->shape, *out);
}

const Instruction *const *device_value_loops(const Module *m, Arena *scratch)
{
    const Instruction **loops =
        ARENA_ARRAY(scratch, const Instruction *, (size_t)m->computation_count + 1);
    const uint32_t *calls = module_call_counts(m, scratch);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op == OP_WHILE && calls[inst_called(inst, 1)->id] == 1)
                loops[inst_called(inst, 1)->id] = inst;
        }
    }
    return loops;
}

bool device_value(const Instruction *inst, const Instruction *const *loops,
                  int64_t replica, int64_t partition, int64_t *out)
{
    Device d = {.loops = loops, .replica = replica, .partition = partition};
    return value_of(&d, inst, out);
}
