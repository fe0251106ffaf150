/* See loop.h. */
#include "ir/analysis/loop.h"

#include "ir/attribute/config.h"
#include "ir/base/arena.h"

enum { OFFSET_STEPS = 8 }; /* additions that are looked through */

/* -- effects ------------------------------------------------------------------------------ */

bool computation_is_pure(const Computation *comp)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (op_is(inst->op, OPF_EFFECT | OPF_CONTROL) ||
            inst_bool(inst, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT))
            return false;
        bool is_part = inst->op == OP_FUSION || inst->op == OP_ASYNC_START;
        if (is_part && inst_called_count(inst) > 0 &&
            !computation_is_pure(inst_called(inst, 0)))
            return false;
    }
    return true;
}

/* -- form --------------------------------------------------------------------------------- */

static bool reads_only_elements(const Computation *comp)
{
    const Instruction *p = comp->parameters[0];
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->operand_count; k++)
            if (inst->operands[k] == p && inst->op != OP_GET_TUPLE_ELEMENT)
                return false;
    }
    return comp->root != p;
}

/* All but `inst`. */
static bool analyse(const Instruction *inst, Loop *out)
{
    *out = (Loop){.condition = inst_called(inst, 0), .body = inst_called(inst, 1)};
    out->init = inst->operands[0];
    if (!shape_is_tuple(inst->shape) || out->init->op != OP_TUPLE ||
        out->body->root->op != OP_TUPLE || inst->control_count > 0)
        return false;
    out->count = inst->shape->rank;
    return reads_only_elements(out->condition) && reads_only_elements(out->body);
}

bool loop_analyse(Instruction *inst, Loop *out)
{
    bool good = analyse(inst, out);
    out->inst = inst;
    return good;
}

bool loop_is_invariant(const Loop *loop, uint32_t i)
{
    const Instruction *next = loop->body->root->operands[i];
    return next->op == OP_GET_TUPLE_ELEMENT &&
           next->operands[0] == loop->body->parameters[0] &&
           inst_int(next, ATTR_INDEX, -1) == i;
}

/* -- trip counts ---------------------------------------------------------------------- */

int64_t loop_element(const Computation *comp, const Instruction *inst)
{
    if (inst->op != OP_GET_TUPLE_ELEMENT || inst->operands[0] != comp->parameters[0])
        return -1;
    return inst_int(inst, ATTR_INDEX, -1);
}

static bool integer_constant(const Instruction *inst, int64_t *out)
{
    if (inst->op != OP_CONSTANT || !inst->literal || inst->literal->elided ||
        !shape_is_scalar(inst->shape) || !dtype_is_integer(inst->shape->dtype))
        return false;
    *out = literal_int(inst->literal, 0);
    return !dtype_is_unsigned(inst->shape->dtype) || *out >= 0;
}

/* A constant in the condition or body, or a value that the loop carries unchanged. */
static bool loop_constant(const Loop *loop, const Computation *comp,
                          const Instruction *inst, int64_t *out)
{
    int64_t i = loop_element(comp, inst);
    if (i < 0)
        return integer_constant(inst, out);
    return loop_is_invariant(loop, (uint32_t)i) &&
           integer_constant(loop->init->operands[i], out);
}

static int64_t mirrored(int64_t direction)
{
    switch (direction) {
    case DIRECTION_LT:
        return DIRECTION_GT;
    case DIRECTION_GT:
        return DIRECTION_LT;
    case DIRECTION_LE:
        return DIRECTION_GE;
    case DIRECTION_GE:
        return DIRECTION_LE;
    default:
        return direction;
    }
}

/* inst = an element of the loop's tuple + a constant; the offset has at most 42 bits. */
static bool find_offset(const Loop *loop, const Computation *comp,
                        const Instruction *inst, int64_t *element, int64_t *offset)
{
    const int64_t far = (int64_t)1 << 40;
    *offset = 0;
    for (int steps = 0; steps < OFFSET_STEPS; steps++) {
        *element = loop_element(comp, inst);
        if (*element >= 0)
            return true;
        if ((inst->op != OP_ADD && inst->op != OP_SUBTRACT) ||
            !shape_is_scalar(inst->shape))
            return false;
        int64_t c;
        uint32_t value = 0;
        if (!loop_constant(loop, comp, inst->operands[1], &c)) {
            value = 1;
            if (inst->op == OP_SUBTRACT ||
                !loop_constant(loop, comp, inst->operands[0], &c))
                return false;
        }
        *offset += inst->op == OP_SUBTRACT ? -c : c;
        if (c < -far || c > far || *offset < -far || *offset > far)
            return false;
        inst = inst->operands[value];
    }
    return false;
}

static bool find_step(const Loop *loop, Induction *v)
{
    int64_t element;
    return find_offset(loop, loop->body, loop->body->root->operands[v->index], &element,
                       &v->step) &&
           element == v->index && v->step != 0;
}

bool loop_counts(const Loop *loop, uint32_t element)
{
    Induction v = {.index = element};
    return find_step(loop, &v);
}

/* How often `value direction limit` holds for value = init, init + step, ...; -1: unknown. */
static int64_t trips(int64_t init, int64_t step, int64_t limit, int64_t direction)
{
    const int64_t far = (int64_t)1 << 40;
    if (init < -far || init > far || limit < -far || limit > far)
        return -1;
    if (direction == DIRECTION_LE) {
        limit++;
        direction = DIRECTION_LT;
    } else if (direction == DIRECTION_GE) {
        limit--;
        direction = DIRECTION_GT;
    }
    switch (direction) {
    case DIRECTION_LT:
        if (init >= limit)
            return 0;
        return step > 0 ? (limit - init + step - 1) / step : -1;
    case DIRECTION_GT:
        if (init <= limit)
            return 0;
        return step < 0 ? (init - limit - step - 1) / -step : -1;
    case DIRECTION_NE:
        if ((limit - init) % step != 0 || (limit - init) / step < 0)
            return -1;
        return (limit - init) / step;
    default:
        return init == limit ? 1 : 0; /* step != 0: the second value differs */
    }
}

static bool is_in_range(DType dtype, int64_t value)
{
    int bits = dtype_info[dtype].bits;
    if (bits >= 64)
        return !dtype_is_unsigned(dtype) || value >= 0;
    int64_t least = dtype_is_unsigned(dtype) ? 0 : -((int64_t)1 << (bits - 1));
    return value >= least && value < least + ((int64_t)1 << bits);
}

/* The last value that is compared must not wrap around. */
static bool stays_in_range(const Induction *v, int64_t offset, DType dtype)
{
    if (v->trips > (int64_t)1 << 20 && v->step > (int64_t)1 << 20)
        return false;
    int64_t last = v->init + v->step * v->trips;
    return is_in_range(dtype, last) && is_in_range(dtype, last + offset) &&
           is_in_range(dtype, v->init + offset);
}

bool loop_induction(const Loop *loop, Induction *v)
{
    const Instruction *c = loop->condition->root;
    if (c->op != OP_COMPARE || !computation_is_pure(loop->condition))
        return false;
    const Instruction *a = c->operands[0], *b = c->operands[1];
    int64_t direction = inst_int(c, ATTR_DIRECTION, 0);
    for (int side = 0; side < 2; side++) {
        int64_t i, offset, limit;
        if (dtype_is_integer(a->shape->dtype) && shape_is_scalar(a->shape) &&
            loop_constant(loop, loop->condition, b, &limit) &&
            find_offset(loop, loop->condition, a, &i, &offset)) {
            v->index = (uint32_t)i;
            if (integer_constant(loop->init->operands[i], &v->init) &&
                find_step(loop, v)) {
                v->trips = trips(v->init + offset, v->step, limit, direction);
                return v->trips >= 0 && stays_in_range(v, offset, a->shape->dtype);
            }
        }
        const Instruction *swap = a;
        a = b;
        b = swap;
        direction = mirrored(direction);
    }
    return false;
}

bool loop_counts_as_known(const Instruction *inst)
{
    Loop loop;
    Induction v;
    return analyse(inst, &loop) && loop_induction(&loop, &v) &&
           v.trips == loop_known_trip_count(inst);
}

void loop_set_induction(Instruction *loop, const Induction *v)
{
    config_set_int(loop, CONFIG_TRIP_COUNT, v->trips);
    config_set_int(loop, CONFIG_LOOP_INIT, v->init);
    config_set_int(loop, CONFIG_LOOP_STEP, v->step);
    config_set_int(loop, CONFIG_LOOP_INDEX, v->index);
}

/* -- what is recorded --------------------------------------------------------------------- */

int64_t loop_known_trip_count(const Instruction *loop)
{
    int64_t n = config_int(loop, CONFIG_TRIP_COUNT, -1);
    return n < 0 || !computation_is_pure(inst_called(loop, 0)) ? -1 : n;
}

void loop_set_known_trip_count(Instruction *loop, int64_t count)
{
    loop_forget_induction(loop);
    config_set_int(loop, CONFIG_TRIP_COUNT, count);
}

void loop_forget_induction(Instruction *loop)
{
    config_remove(loop, CONFIG_TRIP_COUNT);
    config_remove(loop, CONFIG_LOOP_INIT);
    config_remove(loop, CONFIG_LOOP_STEP);
    config_remove(loop, CONFIG_LOOP_INDEX);
}
