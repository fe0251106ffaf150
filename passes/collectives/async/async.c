/* Collectives become pairs of a start and a done, so that other work can run between them, and
 * pairs with nothing between them become plain again.
 *
 *   r = f32[4] all-reduce(p), to_apply=add        s = f32[4] all-reduce-start(p), to_apply=add
 *                                             =>  r = f32[4] all-reduce-done(s)
 *   r = f32[2] reduce-scatter(p), ...             s = ((f32[4]), f32[2]) async-start(p), calls=c
 *                                             =>  r = f32[2] async-done(s)
 *
 * async-collectives: all-reduce, all-gather and collective-permute have pairs of their own,
 * others run in a computation that async-start calls. What came before the operation comes
 * before the start; what came after it comes after the done. Both stand where it stood.
 *
 * sync-collectives walks the schedule with the list of what is in flight; anything but an
 * alias, a constant or another start shows that those overlap, and a done whose start has not
 * been shown to is put back, in its place.
 *
 * Needs: the second one a schedule. Keeps: values, attributes, control edges, the order. Ends:
 * one sweep each. */
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/kernel/time/work.h"
#include "passes/collectives/async/pair.h"
#include "passes/collectives/collectives.h"
#include "passes/settings.h"

/* -- making pairs ----------------------------------------------------------------------------- */

static void copy_attributes(Instruction *to, const Instruction *from)
{
    for (uint32_t i = 0; i < from->attr_count; i++)
        inst_set(to, from->attrs[i]);
    to->span = from->span;
}

/* What is true of both halves of a pair: its metadata, and what the program asks for it. */
static void copy_notes(Instruction *to, const Instruction *from)
{
    static const AttrId kept[] = {ATTR_METADATA, ATTR_FRONTEND_ATTRIBUTES};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const Attr *attr = inst_attr(from, kept[i]);
        if (attr != NULL)
            inst_set(to, *attr);
    }
    to->span = from->span;
}

static const Shape *operands_shape(const Instruction *inst)
{
    Module *m = inst->parent->module;
    const Shape **shapes =
        ARENA_ARRAY(m->arena, const Shape *, (size_t)inst->operand_count + 1);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        shapes[i] = inst->operands[i]->shape;
    return shape_tuple(m->intern, inst->operand_count, shapes);
}

static const Shape *start_shape(const Instruction *inst, OpCode start)
{
    if (start == OP_ALL_REDUCE_START)
        return inst->shape;
    bool single = inst->operand_count == 1 && start != OP_ASYNC_START;
    const Shape *parts[2] = {single ? inst->operands[0]->shape : operands_shape(inst),
                             inst->shape};
    return shape_tuple(inst->parent->module->intern, 2, parts);
}

static Computation *wrapped(const Instruction *inst)
{
    Computation *comp = pair_outline(inst, "async_computation");
    comp->is_async_wrapped = true;
    return comp;
}

static Instruction *make_pair(Instruction *inst, const OpPair *pair)
{
    OpCode start_op = pair->start, done_op = pair->done;
    Computation *comp = inst->parent;
    Arena *a = comp->module->arena;
    Instruction *start =
        computation_add(comp, start_op, start_shape(inst, start_op), inst->operand_count,
                        inst->operands, arena_printf(a, "%s.start", inst->name));
    if (start_op == OP_ASYNC_START) {
        inst_set_computation(start, ATTR_CALLS, wrapped(inst));
        copy_notes(start, inst);
    } else {
        copy_attributes(start, inst);
        inst_unset(start, ATTR_ORIGIN);
    }
    start->control = inst->control;
    start->control_count = inst->control_count;
    Instruction *done = computation_add(comp, done_op, inst->shape, 1, &start,
                                        arena_printf(a, "%s.done", inst->name));
    copy_notes(done, inst);
    inst_take_origin(done, inst);
    return done;
}

/* Kinds that --sync-collective-kinds leaves plain, by bit. */
static bool is_left_plain(OpCode op, int64_t kinds)
{
    static const OpCode bits[] = {OP_ALL_REDUCE,       OP_ALL_GATHER,
                                  OP_REDUCE_SCATTER,   OP_COLLECTIVE_PERMUTE,
                                  OP_ALL_TO_ALL,       OP_COLLECTIVE_BROADCAST,
                                  OP_RAGGED_ALL_TO_ALL};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        if (bits[i] == op)
            return (kinds >> i & 1) != 0;
    }
    return false;
}

/* What by[] has for one of the first `count` instructions stands for it; then those of `order` are the
 * computation's, in that order. */
static void put_in_order(Computation *comp, Instruction *const *by, uint32_t count,
                         Instruction *const *order, uint32_t n, Arena *scratch)
{
    Instruction **forward =
        ARENA_ARRAY(scratch, Instruction *, (size_t)comp->instruction_count + 1);
    memcpy(forward, by, count * sizeof *forward);
    computation_replace(comp, forward);
    memset(comp->instructions, 0, comp->instruction_count * sizeof *comp->instructions);
    memcpy(comp->instructions, order, n * sizeof *order);
    comp->instruction_count = n;
    computation_compact(comp);
}

/* Pairs stand where the operations stood: a schedule stays one. */
static bool make_pairs(Computation *comp, PassContext *cx)
{
    computation_compact(comp);
    uint32_t count = comp->instruction_count, n = 0, pairs = 0;
    Instruction **done = ARENA_ARRAY(cx->scratch, Instruction *, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        const OpPair *pair = op_is(inst->op, OPF_COLLECTIVE) ? op_pair(inst->op) : NULL;
        if (pair == NULL || inst->op != pair->plain ||
            inst_has(inst, ATTR_PERMUTE_SLICE_SIZES) ||
            is_left_plain(inst->op, cx->settings->sync_collective_kinds))
            continue;
        done[i] = make_pair(inst, pair);
        pairs++;
    }
    if (pairs == 0)
        return false;
    Instruction **order =
        ARENA_ARRAY(cx->scratch, Instruction *, (size_t)count + pairs + 1);
    for (uint32_t i = 0; i < count; i++) {
        if (done[i] != NULL)
            order[n++] = done[i]->operands[0];
        order[n++] = done[i] != NULL ? done[i] : comp->instructions[i];
    }
    put_in_order(comp, done, count, order, n, cx->scratch);
    cx->counts.collectives_made_async += pairs;
    return true;
}

/* By Computation.id: what runs beside the program already. Callees come first. */
static const bool *find_asynchronous(const Module *m, Arena *scratch)
{
    bool *is_async = ARENA_ARRAY(scratch, bool, (size_t)m->computation_count + 1);
    for (const Computation *comp = comp_last(m); comp; comp = comp_previous(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (!is_async[comp->id] && inst->op != OP_ASYNC_START)
                continue;
            for (uint32_t k = 0; k < inst_called_count(inst); k++)
                is_async[inst_called(inst, k)->id] = true;
        }
    }
    return is_async;
}

bool pass_async_collectives(Module *m, PassContext *cx)
{
    Computations programs = module_programs(m, cx->scratch);
    const bool *is_async = find_asynchronous(m, cx->scratch);
    bool changed = false;
    for (uint32_t c = 0; c < programs.count; c++) {
        if (!is_async[programs.data[c]->id])
            changed |= make_pairs(programs.data[c], cx);
    }
    if (changed)
        module_sort(m);
    return changed;
}

/* -- and back ------------------------------------------------------------------------------------ */

static bool plain_of(const Instruction *start, OpCode *out)
{
    bool is_wrapped =
        start->op == OP_ASYNC_START && inst_called(start, 0)->is_async_wrapped;
    *out = is_wrapped ? inst_called(start, 0)->root->op : op_plain(start->op);
    return *out != start->op && op_is(*out, OPF_COLLECTIVE);
}

static Instruction *make_plain(Instruction *start, Instruction *done, OpCode op)
{
    Computation *comp = start->parent;
    const Instruction *like =
        start->op == OP_ASYNC_START ? inst_called(start, 0)->root : start;
    Instruction *inst = computation_add(comp, op, done->shape, start->operand_count,
                                        start->operands, like->name);
    copy_attributes(inst, like);
    if (like == start)
        inst_take_origin(inst, done);
    const char *group = inst_frontend_attribute(start, "_scheduling_group_id");
    if (group != NULL) /* said of the pair, not of what it calls */
        inst_set_frontend_attribute(inst, "_scheduling_group_id", group);
    inst_set_frontend_attribute(inst, "async_collective_name", start->name);
    inst->control_count = 0;
    inst_add_controls(inst, start);
    for (uint32_t i = 0; i < done->control_count; i++) {
        if (done->control[i] != start)
            inst_add_control(inst, done->control[i]);
    }
    return inst;
}

/* For each done, by id: its start, if nothing runs between them; else NULL. */
static Instruction **find_idle(const Computation *comp, Arena *scratch)
{
    Instruction **idle =
        ARENA_ARRAY(scratch, Instruction *, (size_t)comp->instruction_count + 1);
    bool *in_flight = ARENA_ARRAY(scratch, bool, (size_t)comp->instruction_count + 1);
    uint32_t *open = ARENA_ARRAY(scratch, uint32_t, (size_t)comp->instruction_count + 1);
    uint32_t n = 0;
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        OpCode op;
        if (op_is(inst->op, OPF_ASYNC_START) && plain_of(inst, &op)) {
            in_flight[inst->id] = true;
            open[n++] = inst->id;
        } else if (op_is(inst->op, OPF_ASYNC_DONE)) {
            if (in_flight[inst->operands[0]->id])
                idle[inst->id] = inst->operands[0];
        } else if (!cost_is_free(inst)) {
            while (n > 0)
                in_flight[open[--n]] = false;
        }
    }
    return idle;
}

/* The program asked for an overlap that there is not. */
static void warn_of_group(const Instruction *start)
{
    const char *group = inst_frontend_attribute(start, "_scheduling_group_id");
    if (group != NULL && strcmp(group, "noop") != 0)
        diag_warning(start->parent->module->diag, start->span,
                     "%s overlaps nothing, although it is of scheduling group %s",
                     start->name, group);
}

static bool undo_pairs(Computation *comp, PassContext *cx)
{
    Arena *scratch = cx->scratch;
    computation_compact(comp);
    uint32_t count = comp->instruction_count, n = 0;
    Instruction **idle = find_idle(comp, scratch);
    Instruction **order = ARENA_ARRAY(scratch, Instruction *, (size_t)count + 1);
    Instruction **plain = ARENA_ARRAY(scratch, Instruction *, (size_t)count + 1);
    bool changed = false;
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        OpCode op;
        if (idle[i] != NULL && plain_of(idle[i], &op)) {
            warn_of_group(idle[i]);
            plain[i] = plain[idle[i]->id] = make_plain(idle[i], inst, op);
            cx->counts.collectives_made_sync++;
            changed = true;
        }
    }
    if (!changed)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        if (plain[i] == NULL)
            order[n++] = inst;
        else if (idle[i] != NULL)
            order[n++] = plain[i];
    }
    put_in_order(comp, plain, count, order, n, scratch);
    return true;
}

bool pass_sync_collectives(Module *m, PassContext *cx)
{
    if (!m->config.is_scheduled)
        return false;
    Computations programs = module_programs(m, cx->scratch);
    bool changed = false;
    for (uint32_t c = 0; c < programs.count; c++)
        changed |= undo_pairs(programs.data[c], cx);
    if (changed)
        module_remove_dead_computations(m);
    return changed;
}
