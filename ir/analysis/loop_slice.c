/* See loop_slice.h. */
#include "ir/analysis/loop_slice.h"

#include "ir/analysis/alias.h"
#include "ir/analysis/loop.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/library.h"

#define DEPTH_MOST 64

typedef struct BodySlices {
    const LoopSlice **by; /* [instruction id]; NULL: none in this one */
    uint32_t count;
    bool is_counted; /* something asks how often the loop with this body went round */
} BodySlices;

struct LoopSlices {
    BodySlices *bodies; /* [computation id] */
    uint32_t count;
};

/* -- numbers that follow from another one -------------------------------------------------------------- */

/* base * scale + add. Where an index was made good that might have been negative, that index: base *
 * floor_scale + floor_add, which must be 0 or more. */
typedef struct Number {
    const Instruction *base; /* a parameter; NULL: the constant alone */
    size_t leaf;             /* of the parameter's shape */
    int64_t scale, add;
    bool has_floor;
    int64_t floor_scale, floor_add;
} Number;

static bool find_number(const Instruction *inst, size_t leaf, int depth, Number *out);

/* Numbers stay so small that products of two, and their sums, overflow nowhere. */
static bool is_small(int64_t x)
{
    return x >= -(INT64_C(1) << 31) && x <= INT64_C(1) << 31;
}

static bool find_sum(const Instruction *inst, int depth, Number *out)
{
    Number a, b;
    int64_t sign = inst->op == OP_SUBTRACT ? -1 : 1;
    if (!find_number(inst->operands[0], 0, depth, &a) ||
        !find_number(inst->operands[1], 0, depth, &b) ||
        (a.base != NULL && b.base != NULL))
        return false;
    *out = b.base != NULL ? b : a;
    out->scale *= b.base != NULL ? sign : 1;
    out->add = a.add + sign * b.add;
    return is_small(out->add);
}

/* select(x < 0, anything, x) */
static bool find_made_good(const Instruction *inst, int depth, Number *out)
{
    const Instruction *p = inst->operands[0];
    Number x, zero;
    if (p->op != OP_COMPARE ||
        inst_int(p, ATTR_DIRECTION, DIRECTION_EQ) != DIRECTION_LT ||
        !find_number(inst->operands[2], 0, depth, out) || out->has_floor ||
        !find_number(p->operands[0], 0, depth, &x) || x.base != out->base ||
        x.leaf != out->leaf || x.scale != out->scale || x.add != out->add ||
        !find_number(p->operands[1], 0, depth, &zero) || zero.base != NULL ||
        zero.add != 0)
        return false;
    out->has_floor = true;
    out->floor_scale = out->scale;
    out->floor_add = out->add;
    return true;
}

/* `inner` of a parameter that is `outer`. */
static bool compose(const Number *inner, const Number *outer, Number *out)
{
    if (inner->has_floor && outer->has_floor)
        return false;
    *out = *outer;
    out->scale = inner->scale * outer->scale;
    out->add = inner->scale * outer->add + inner->add;
    if (inner->has_floor) {
        out->has_floor = true;
        out->floor_scale = inner->floor_scale * outer->scale;
        out->floor_add = inner->floor_scale * outer->add + inner->floor_add;
    }
    return is_small(out->scale) && is_small(out->add) && is_small(out->floor_scale) &&
           is_small(out->floor_add);
}

/* What a fusion's own instruction is in terms of the fusion's operands. */
static bool find_outside(const Instruction *fusion, const Instruction *inst, size_t leaf,
                         int depth, Number *out)
{
    Number inner, outer;
    if (!find_number(inst, leaf, depth, &inner))
        return false;
    *out = inner;
    if (inner.base == NULL)
        return true;
    return find_number(fusion->operands[inner.base->parameter], inner.leaf, depth,
                       &outer) &&
           compose(&inner, &outer, out);
}

static bool find_in_tuple(const Instruction *tuple, size_t leaf, int depth, Number *out)
{
    for (uint32_t i = 0; i < tuple->operand_count; i++) {
        size_t n = shape_leaf_count(tuple->operands[i]->shape);
        if (leaf < n)
            return find_number(tuple->operands[i], leaf, depth, out);
        leaf -= n;
    }
    return false;
}

static bool find_number(const Instruction *inst, size_t leaf, int depth, Number *out)
{
    if (++depth > DEPTH_MOST)
        return false;
    switch (inst->op) {
    case OP_PARAMETER:
        *out = (Number){.base = inst, .leaf = leaf, .scale = 1};
        return true;
    case OP_CONSTANT:
        if (!dtype_is_integer(inst->shape->dtype) || shape_elements(inst->shape) != 1)
            return false;
        *out = (Number){.add = literal_int(inst->literal, 0)};
        return is_small(out->add);
    case OP_GET_TUPLE_ELEMENT:
        leaf += alias_element_leaf(inst->operands[0]->shape,
                                   (uint32_t)inst_int(inst, ATTR_INDEX, 0));
        return find_number(inst->operands[0], leaf, depth, out);
    case OP_TUPLE:
        return find_in_tuple(inst, leaf, depth, out);
    case OP_COPY:
    case OP_OPT_BARRIER:
        return find_number(inst->operands[0], leaf, depth, out);
    case OP_RESHAPE:
        return find_number(inst->operands[0], 0, depth, out);
    case OP_ADD:
    case OP_SUBTRACT:
        return shape_elements(inst->shape) == 1 && find_sum(inst, depth, out);
    case OP_SELECT:
        return shape_elements(inst->shape) == 1 && find_made_good(inst, depth, out);
    case OP_FUSION:
        return find_outside(inst, inst_called(inst, 0)->root, leaf, depth, out);
    default:
        return false;
    }
}

/* -- loops ------------------------------------------------------------------------------------------ */

/* The values between these two are all of the type. */
static bool fits(DType t, int64_t a, int64_t b)
{
    unsigned bits = dtype_info[t].bits - dtype_is_signed(t);
    int64_t most = bits >= 63 ? INT64_MAX : (INT64_C(1) << bits) - 1;
    int64_t least = dtype_is_signed(t) ? -most - 1 : 0;
    return a >= least && a <= most && b >= least && b <= most;
}

/* A number of the body as one of the rounds before: n->scale each round, n->add at first. It never leaves
 * the type. */
static bool find_steps(const Instruction *loop, Number *n)
{
    const Computation *body = inst_called(loop, 1);
    int64_t trips = loop_known_trip_count(loop);
    Number first, next;
    if (n->base != body->parameters[0] || trips < 0 || !is_small(trips))
        return false;
    DType t = shape_leaf(loop->shape, n->leaf)->dtype;
    if (!dtype_is_integer(t) || !find_number(loop->operands[0], n->leaf, 0, &first) ||
        first.base != NULL || !find_number(body->root, n->leaf, 0, &next) ||
        next.base != n->base || next.leaf != n->leaf || next.scale != 1 || next.has_floor)
        return false;
    int64_t last;
    if (__builtin_mul_overflow(next.add, trips, &last) || !is_small(last += first.add) ||
        !fits(t, first.add, last))
        return false;
    int64_t sums[2] = {first.add, last - next.add};
    for (uint32_t i = 0; i < 2; i++) {
        int64_t value, floor = 0;
        if (__builtin_mul_overflow(n->scale, sums[i], &value) ||
            __builtin_add_overflow(value, n->add, &value) || !fits(t, value, value))
            return false;
        if (n->has_floor && (__builtin_mul_overflow(n->floor_scale, sums[i], &floor) ||
                             __builtin_add_overflow(floor, n->floor_add, &floor) ||
                             floor < 0 || !fits(t, floor, floor)))
            return false;
    }
    n->add += n->scale * first.add;
    n->scale *= next.add;
    return true;
}

bool loop_index(const Instruction *loop, const Instruction *number, LoopIndex *out)
{
    Number n;
    if (!find_number(number, 0, 0, &n))
        return false;
    if (n.base == NULL) {
        *out = (LoopIndex){0, n.add};
        return !n.has_floor;
    }
    bool steps = find_steps(loop, &n);
    *out = (LoopIndex){n.scale, n.add};
    return steps;
}

/* The leaf of the body's parameter that inst is, through what hands values on. */
static bool carried_leaf(const Computation *body, const Instruction *inst, size_t leaf,
                         size_t *out)
{
    while (inst->op == OP_GET_TUPLE_ELEMENT || inst->op == OP_TUPLE) {
        if (inst->op == OP_GET_TUPLE_ELEMENT) {
            leaf += alias_element_leaf(inst->operands[0]->shape,
                                       (uint32_t)inst_int(inst, ATTR_INDEX, 0));
            inst = inst->operands[0];
            continue;
        }
        uint32_t i = 0;
        for (; leaf >= shape_leaf_count(inst->operands[i]->shape); i++)
            leaf -= shape_leaf_count(inst->operands[i]->shape);
        inst = inst->operands[i];
    }
    *out = leaf;
    return inst == body->parameters[0];
}

/* -- slices ----------------------------------------------------------------------------------------- */

static bool is_row_major(const Shape *s)
{
    return shape_is_row_major(s) && s->layout->tile_count == 0;
}

static const Instruction *through_reshapes(const Instruction *inst)
{
    while ((inst->op == OP_RESHAPE || inst->op == OP_BITCAST) &&
           inst->operands[0]->shape->dtype == inst->shape->dtype &&
           is_row_major(inst->shape))
        inst = inst->operands[0];
    return inst;
}

/* Behind the first dimension with more than one element all are whole. */
static bool is_one_piece(const Shape *part, const Shape *whole)
{
    bool is_inside = false;
    for (uint32_t d = 0; d < part->rank; d++) {
        if (is_inside && part->dims[d] != whole->dims[d])
            return false;
        is_inside |= part->dims[d] != 1;
    }
    return true;
}

typedef struct Search {
    const Instruction *loop, *fusion; /* loop NULL: none */
    const Instruction *start; /* of the computation that has the fusion; NULL: the body */
    LoopSlice *out;
} Search;

/* A fusion's number in terms of the loop's body. */
static bool find_in_loop(const Search *s, const Instruction *number, Number *out)
{
    Number outer;
    if (!find_outside(s->fusion, number, 0, 0, out))
        return false;
    if (s->start == NULL || out->base == NULL)
        return true;
    Number inner = *out;
    return find_number(s->start->operands[inner.base->parameter], inner.leaf, 0,
                       &outer) &&
           compose(&inner, &outer, out);
}

/* One dimension's start, `stride` bytes each. */
static bool add_start(Search *s, const Instruction *start, int64_t high, int64_t stride)
{
    LoopSlice *out = s->out;
    Number n;
    if (!find_in_loop(s, start, &n))
        return false;
    if (n.base == NULL) {
        out->offset += (n.add < 0 ? 0 : n.add > high ? high : n.add) * stride;
        return !n.has_floor && out->offset % LOOP_SLICE_ALIGNMENT == 0;
    }
    if (s->loop == NULL || !find_steps(s->loop, &n) ||
        out->term_count == LOOP_SLICE_TERMS || stride % LOOP_SLICE_ALIGNMENT != 0)
        return false;
    out->terms[out->term_count++] = (LoopSliceTerm){n.scale, n.add, high, stride};
    return true;
}

/* `first`: the operand that is the start in dimension 0. */
static bool add_starts(Search *s, const Instruction *slice, const Shape *part,
                       uint32_t first)
{
    const Shape *whole = slice->operands[0]->shape;
    int64_t stride = dtype_info[whole->dtype].bits / 8;
    for (uint32_t d = whole->rank; d-- > 0; stride *= whole->dims[d]) {
        int64_t high = whole->dims[d] - part->dims[d];
        if (high != 0 && !add_start(s, slice->operands[d + first], high, stride))
            return false;
    }
    return true;
}

/* What the fusion is a slice of. */
static bool find_slice(const Instruction *loop, const Instruction *fusion, LoopSlice *out)
{
    const Computation *body = inst_called(loop, 1);
    if (!kernel_is(fusion, KERNEL_BY_ELEMENT) || !shape_is_array(fusion->shape) ||
        !is_row_major(fusion->shape))
        return false;
    const Instruction *slice = through_reshapes(inst_called(fusion, 0)->root);
    if (slice->op != OP_DYNAMIC_SLICE || dtype_info[slice->shape->dtype].bits % 8 != 0 ||
        !inst_has_scalar_starts(slice) || !is_row_major(slice->operands[0]->shape) ||
        !is_row_major(slice->shape) || shape_elements(slice->shape) == 0 ||
        !is_one_piece(slice->shape, slice->operands[0]->shape))
        return false;
    const Instruction *array = through_reshapes(slice->operands[0]);
    if (array->op != OP_PARAMETER || !is_row_major(array->shape))
        return false;
    size_t leaf, after;
    *out = (LoopSlice){.inst = fusion, .source = body->parameters[0], .body = body};
    if (!carried_leaf(body, fusion->operands[array->parameter], 0, &leaf) ||
        !carried_leaf(body, body->root, leaf, &after) || after != leaf)
        return false;
    out->leaf = leaf;
    Search s = {loop, fusion, NULL, out};
    return add_starts(&s, slice, slice->shape, 1) && out->term_count > 0;
}

/* Of an instruction and of what is the same under another shape. */
static bool only_products_read(const Uses *uses, const Instruction *inst)
{
    uint32_t first = uses->start[inst->id], end = uses->start[inst->id + 1];
    for (uint32_t i = first; i < end; i++) {
        const Instruction *user = uses->list[i];
        if (!library_makes(user) &&
            (user->op != OP_BITCAST || !only_products_read(uses, user)))
            return false;
    }
    return end > first && inst->parent->root != inst;
}

static void note(BodySlices *own, const Uses *uses, const Instruction *inst,
                 const LoopSlice *found, Arena *a)
{
    LoopSlice *slice = arena_copy(a, found, sizeof *found);
    slice->inst = inst;
    own->by[inst->id] = slice;
    for (uint32_t i = uses->start[inst->id]; i < uses->start[inst->id + 1]; i++) {
        if (uses->list[i]->op == OP_BITCAST)
            note(own, uses, uses->list[i], found, a);
    }
}

/* -- transfers -------------------------------------------------------------------------------------- */

static bool is_whole_parameter(const Instruction *inst)
{
    const Instruction *array = through_reshapes(inst);
    return array->op == OP_PARAMETER && is_row_major(inst->shape) &&
           is_row_major(array->shape);
}

static const Instruction *put_by(const Instruction *fusion, const Instruction *update)
{
    return fusion->operands[through_reshapes(update->operands[1])->parameter];
}

/* What the fusion, the only one in what `start` starts, takes a piece of, or puts one into. */
static bool find_transfer(const Instruction *loop, const Instruction *start,
                          LoopSlice *out)
{
    const Instruction *fusion = inst_called(start, 0)->root;
    if (fusion->op != OP_FUSION || !shape_is_array(fusion->shape) ||
        !is_row_major(fusion->shape))
        return false;
    const Instruction *move = through_reshapes(inst_called(fusion, 0)->root);
    bool puts = move->op == OP_DYNAMIC_UPDATE_SLICE;
    if ((!puts && move->op != OP_DYNAMIC_SLICE) ||
        dtype_info[move->shape->dtype].bits % 8 != 0 || !inst_has_scalar_starts(move) ||
        (puts && move != inst_called(fusion, 0)->root) || !is_row_major(move->shape) ||
        !is_whole_parameter(move->operands[0]) ||
        (puts && !is_whole_parameter(move->operands[1])))
        return false;
    const Shape *part = puts ? move->operands[1]->shape : move->shape;
    if (shape_elements(part) == 0 || !is_one_piece(part, move->operands[0]->shape))
        return false;
    const Instruction *array = through_reshapes(move->operands[0]);
    *out = (LoopSlice){.inst = fusion,
                       .source = fusion->operands[array->parameter],
                       .piece = puts ? put_by(fusion, move) : fusion,
                       .body = loop != NULL ? inst_called(loop, 1) : NULL};
    Search s = {loop, fusion, start, out};
    return add_starts(&s, move, part, puts ? 2 : 1);
}

static void find_transfers(LoopSlices *all, const Instruction *loop,
                           const Computation *comp, Arena *a)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        LoopSlice found;
        if (inst->op != OP_ASYNC_START || !find_transfer(loop, inst, &found))
            continue;
        const Computation *callee = inst_called(inst, 0);
        BodySlices *own = &all->bodies[callee->id];
        own->count = callee->instruction_count;
        own->by = ARENA_ARRAY(a, const LoopSlice *, own->count + 1u);
        own->by[found.inst->id] = arena_copy(a, &found, sizeof found);
        if (found.term_count != 0)
            all->bodies[found.body->id].is_counted = true;
    }
}

static void find_in_body(LoopSlices *all, const Instruction *loop, Arena *a)
{
    const Computation *body = inst_called(loop, 1);
    Uses uses = {0};
    for (const Instruction *inst = inst_first(body); inst; inst = inst_next(inst)) {
        LoopSlice found;
        if (!find_slice(loop, inst, &found))
            continue;
        if (uses.start == NULL)
            uses = uses_compute(body, a);
        if (!only_products_read(&uses, inst))
            continue;
        BodySlices *own = &all->bodies[body->id];
        if (own->by == NULL) {
            own->count = body->instruction_count;
            own->by = ARENA_ARRAY(a, const LoopSlice *, own->count + 1u);
        }
        note(own, &uses, inst, &found, a);
        own->is_counted = true;
    }
}

const LoopSlices *loop_slices_create(const Module *m, Arena *a)
{
    LoopSlices *all = ARENA_NEW(a, LoopSlices);
    all->count = m->computation_count;
    all->bodies = ARENA_ARRAY(a, BodySlices, all->count + 1u);
    Computations programs = module_programs(m, a);
    const uint32_t *callers = module_call_counts(m, a);
    const Instruction **loops = ARENA_ARRAY(a, const Instruction *, all->count + 1u);
    for (uint32_t c = 0; c < programs.count; c++) {
        const Computation *comp = programs.data[c];
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op != OP_WHILE || callers[inst_called(inst, 1)->id] != 1)
                continue;
            loops[inst_called(inst, 1)->id] = inst;
            find_in_body(all, inst, a);
        }
    }
    for (uint32_t c = 0; c < programs.count; c++)
        find_transfers(all, loops[programs.data[c]->id], programs.data[c], a);
    return all;
}

static const LoopSlice *entry_of(const LoopSlices *s, const Instruction *inst)
{
    uint32_t comp = inst->parent->id;
    if (comp >= s->count || inst->id >= s->bodies[comp].count)
        return NULL;
    const LoopSlice *slice = s->bodies[comp].by[inst->id];
    return slice != NULL && slice->inst == inst ? slice : NULL;
}

const LoopSlice *loop_slice_of(const LoopSlices *s, const Instruction *inst)
{
    const LoopSlice *slice = entry_of(s, inst);
    return slice != NULL && slice->body == inst->parent ? slice : NULL;
}

const LoopSlice *loop_transfer_of(const LoopSlices *s, const Instruction *fusion)
{
    const LoopSlice *slice = entry_of(s, fusion);
    return slice != NULL && slice->body != fusion->parent ? slice : NULL;
}

bool loop_slices_has(const LoopSlices *s, const Computation *body)
{
    return s->bodies[body->id].is_counted;
}

/* -- arrays that a loop fills ---------------------------------------------------------------------- */

/* All rounds together write all of the array. */
static bool covers(const Instruction *loop, const Instruction *update)
{
    const Shape *whole = update->shape, *part = update->operands[1]->shape;
    int64_t trips = loop_known_trip_count(loop);
    uint32_t stepped = 0;
    if (trips <= 0 || shape_is_dynamic(whole) || !inst_has_scalar_starts(update))
        return false;
    for (uint32_t d = 0; d < whole->rank; d++) {
        int64_t size = part->dims[d], high = whole->dims[d] - size;
        LoopIndex index;
        if (high == 0)
            continue;
        if (stepped++ != 0 || size == 0 || whole->dims[d] % size != 0 ||
            trips != whole->dims[d] / size ||
            !loop_index(loop, update->operands[d + 2], &index))
            return false;
        bool up = index.bias == 0 && index.scale == size;
        bool down = index.bias == high && index.scale == -size;
        if (!up && !down)
            return false;
    }
    return true;
}

/* The array is read by its update only, and what that makes is only handed on. */
static bool is_only_written(const Computation *comp, const Instruction *update,
                            uint32_t element)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            const Instruction *x = inst->operands[k];
            bool is_read = loop_element(comp, x) == element && (inst != update || k != 0);
            bool is_used = x == update && (inst != comp->root || k != element);
            if (is_read || is_used)
                return false;
        }
    }
    return true;
}

bool loop_fills(const Instruction *loop, uint32_t element)
{
    const Computation *condition = inst_called(loop, 0), *body = inst_called(loop, 1);
    if (body->root->op != OP_TUPLE)
        return false;
    const Instruction *update = body->root->operands[element];
    return update->op == OP_DYNAMIC_UPDATE_SLICE &&
           loop_element(body, update->operands[0]) == element && covers(loop, update) &&
           is_only_written(body, update, element) &&
           is_only_written(condition, NULL, element);
}
