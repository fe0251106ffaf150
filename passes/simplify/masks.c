/* What is asked of a value before a maximum is asked of the maximum, so that the value itself need not be kept.
 *
 *   m = maximum(x, c)  p = compare(x, c), direction=GT     =>  p = compare(m, c), direction=GT
 *
 * The gradient of a relu asks where its operand was positive, long after the forward pass; the relu's result, which
 * the gradient of the next layer's weights needs, says the same: x > c where max(x, c) > c, and x <= c where
 * max(x, c) <= c, NaN (neither) included. min with < and >= alike. Without it both arrays live from one pass to the
 * other. Only where nothing else reads x and a product reads m, which is in memory then; and not where x is made
 * again in passing: of one array, without much work, where what asks computes with that array, too, as the gradient of
 * a norm in front of the relu does.
 *
 * Needs: pass_cse (the bounds are one instruction). Keeps: values. Ends: one sweep. */
#include "ir/analysis/sources.h"
#include "passes/simplify/simplify.h"

enum {
    LOOK_THROUGH =
        4, /* operations between an array and the product that it is a factor of */
    LOOK_AHEAD = 6 /* until what asks meets the array */
};

static bool is_moved_only(OpCode op)
{
    return op == OP_RESHAPE || op == OP_TRANSPOSE || op == OP_BITCAST || op == OP_COPY ||
           op == OP_CONVERT;
}

static bool is_factor(const Uses *uses, const Instruction *inst, int depth)
{
    for (uint32_t i = uses->start[inst->id]; i < uses->start[inst->id + 1]; i++) {
        const Instruction *user = uses->list[i];
        if (user->op == OP_DOT || user->op == OP_CONVOLUTION)
            return true;
        if (depth > 0 && is_moved_only(user->op) && is_factor(uses, user, depth - 1))
            return true;
    }
    return false;
}

/* The bound of an operation on x and a bound. */
static Instruction *bound_of(const Instruction *inst, const Instruction *x)
{
    return inst->operands[0] == x ? inst->operands[1] : inst->operands[0];
}

/* Whether x is greater than c (or not): true for `asks` of maxima, or the same of minima. */
static bool is_answered(const Instruction *asks, const Instruction *x,
                        const Instruction *bounded)
{
    if (asks->op != OP_COMPARE || asks->operands[0] == asks->operands[1] ||
        bound_of(asks, x) != bound_of(bounded, x) ||
        inst_int(asks, ATTR_TYPE, COMPARE_FLOAT) == COMPARE_TOTALORDER)
        return false;
    int64_t d = inst_int(asks, ATTR_DIRECTION, DIRECTION_EQ);
    bool is_first = asks->operands[0] == x;
    bool above = d == (is_first ? DIRECTION_GT : DIRECTION_LT) ||
                 d == (is_first ? DIRECTION_LE : DIRECTION_GE);
    bool below = d == (is_first ? DIRECTION_LT : DIRECTION_GT) ||
                 d == (is_first ? DIRECTION_GE : DIRECTION_LE);
    return bounded->op == OP_MAXIMUM ? above : below;
}

/* The maximum or minimum that answers all else that is asked of x; NULL: there is none, or nothing is. */
static Instruction *find_bounded(const Uses *uses, const Instruction *x)
{
    Instruction *bounded = NULL;
    uint32_t first = uses->start[x->id], end = uses->start[x->id + 1];
    for (uint32_t i = first; i < end; i++) {
        Instruction *user = uses->list[i];
        if ((user->op == OP_MAXIMUM || user->op == OP_MINIMUM) &&
            user->operands[0] != user->operands[1] && bounded == NULL)
            bounded = user;
    }
    /* it may wait for what is to read it */
    if (bounded == NULL || bounded->control_count != 0 || end - first < 2 ||
        !is_factor(uses, bounded, LOOK_THROUGH))
        return NULL;
    for (uint32_t i = first; i < end; i++) {
        const Instruction *user = uses->list[i];
        if (user != bounded && !is_answered(user, x, bounded))
            return NULL;
    }
    return bounded;
}

/* Which walk met an instruction last. */
typedef struct Marks {
    const Uses *uses;
    uint32_t *walk; /* by instruction; 0: none */
    uint32_t count; /* of walks */
} Marks;

/* What cheap operations make of inst, but for what they make of `but`, gets the mark of a new walk. true: it met what
 * walk `wanted` has met, and ended there. */
static bool mark_made_of(Marks *m, const Instruction *inst, const Instruction *but,
                         int depth, uint32_t wanted)
{
    for (uint32_t i = m->uses->start[inst->id]; i < m->uses->start[inst->id + 1]; i++) {
        const Instruction *user = m->uses->list[i];
        if (user == but || !(inst_is_cheap(user) || sources_see_through(user)) ||
            m->walk[user->id] == m->count)
            continue;
        if (wanted != 0 && m->walk[user->id] == wanted)
            return true;
        m->walk[user->id] = m->count;
        if (depth > 0 && mark_made_of(m, user, but, depth - 1, wanted))
            return true;
    }
    return false;
}

/* All that asks something of x computes with what x is made of. */
static bool is_made_again(Marks *m, const Instruction *x, const Instruction *bounded)
{
    Sources sources = {0};
    sources_find(&sources, x, shape_elements(x->shape));
    if (sources.count != 1 || sources.list[0] == x)
        return false;
    uint32_t of_source = ++m->count;
    mark_made_of(m, sources.list[0], x, LOOK_AHEAD, 0);
    for (uint32_t i = m->uses->start[x->id]; i < m->uses->start[x->id + 1]; i++) {
        const Instruction *asks = m->uses->list[i];
        if (asks == bounded)
            continue;
        m->count++;
        if (!mark_made_of(m, asks, bounded, LOOK_AHEAD, of_source))
            return false;
    }
    return true;
}

static bool is_kept_anyway(const Computation *comp, const Instruction *x)
{
    return x == comp->root || !shape_is_array(x->shape) || x->op == OP_PARAMETER ||
           x->op == OP_CONSTANT || x->op == OP_GET_TUPLE_ELEMENT || x->op == OP_BROADCAST;
}

static bool ask_bounded(Computation *comp, Arena *scratch)
{
    Uses uses = uses_compute(comp, scratch);
    Marks marks = {
        .uses = &uses,
        .walk = ARENA_ARRAY(scratch, uint32_t, (size_t)comp->instruction_count + 1)};
    bool changed = false;
    for (const Instruction *x = inst_first(comp); x; x = inst_next(x)) {
        Instruction *bounded = is_kept_anyway(comp, x) ? NULL : find_bounded(&uses, x);
        if (bounded != NULL && is_made_again(&marks, x, bounded))
            continue;
        for (uint32_t i = uses.start[x->id]; bounded != NULL && i < uses.start[x->id + 1];
             i++) {
            Instruction *user = uses.list[i];
            if (user != bounded)
                user->operands[user->operands[1] == x] = bounded;
            changed = true;
        }
    }
    return changed;
}

bool pass_masks(Module *m, PassContext *cx)
{
    Computations programs = module_programs(m, cx->scratch);
    bool changed = false;
    for (uint32_t c = 0; c < programs.count; c++)
        changed |= ask_bounded(programs.data[c], cx->scratch);
    if (changed)
        module_sort(m);
    return changed;
}
