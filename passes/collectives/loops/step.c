/* See step.h. */
#include "passes/collectives/loops/step.h"

#include <stdlib.h>
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/base/text.h"

static const char group_key[] = "_scheduling_group_id";
static const char validation_key[] = "_xla_send_recv_validation";

/* "N" or "N:iteration"; false: none, or "noop". */
static bool group_of(const Instruction *inst, int64_t *number, const char **suffix)
{
    const char *text =
        inst->attr_count != 0 ? inst_frontend_attribute(inst, group_key) : NULL;
    if (text == NULL || *text < '0' || *text > '9')
        return false;
    char *end;
    *number = strtoll(text, &end, 10);
    *suffix = end;
    return *number < INT64_MAX; /* that stands for all larger ones */
}

/* Numbers from `next` on are not used, those far above it apart: no module needs that many. */
static bool step_over(int64_t *next, int64_t used)
{
    if (used < *next || used - *next > INT64_C(1) << 32)
        return false;
    *next = used + 1;
    return true;
}

static bool step_over_all(const Computation *comp, FreshIds *ids)
{
    bool changed = false;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        int64_t number;
        const char *suffix;
        changed |= step_over(&ids->channel, inst_int(inst, ATTR_CHANNEL_ID, 0));
        if (group_of(inst, &number, &suffix))
            changed |= step_over(&ids->group, number);
    }
    return changed;
}

FreshIds fresh_ids(const Module *m)
{
    FreshIds ids = {1, 0};
    bool again = true;
    while (again) {
        again = false;
        for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp))
            again |= step_over_all(comp, &ids);
    }
    return ids;
}

static bool is_transfer(const Instruction *inst)
{
    return inst->op == OP_SEND || inst->op == OP_SEND_DONE || inst->op == OP_RECV ||
           inst->op == OP_RECV_DONE;
}

bool step_may_copy(const Computation *body, const bool *effects, uint32_t effect_count)
{
    for (const Instruction *inst = inst_first(body); inst; inst = inst_next(inst)) {
        if (is_transfer(inst))
            continue;
        if (op_is(inst->op, OPF_EFFECT | OPF_RANDOM | OPF_ASYNC_START | OPF_ASYNC_DONE) ||
            inst_bool(inst, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT))
            return false;
        uint32_t calls = inst_called_count(inst);
        for (uint32_t k = 0; k < calls; k++) {
            uint32_t id = inst_called(inst, k)->id;
            if (id >= effect_count || effects[id])
                return false;
        }
    }
    return true;
}

/* -- copies ------------------------------------------------------------------------------- */

static void own_called(Instruction *inst, FreshIds *ids);

/* A copy of a computation, with copies of those that only it may call. */
static Computation *clone_whole(Computation *comp, FreshIds *ids)
{
    Computation *clone = computation_clone(comp, NULL);
    for (Instruction *inst = inst_first(clone); inst; inst = inst_next(inst))
        own_called(inst, ids);
    return clone;
}

/* What a copied instruction must not share with the one that it was made from. */
static void own_called(Instruction *inst, FreshIds *ids)
{
    if (op_is(inst->op, OPF_COLLECTIVE) && !is_transfer(inst) &&
        inst_has(inst, ATTR_CHANNEL_ID))
        inst_set_int(inst, ATTR_CHANNEL_ID, ids->channel++);
    if (op_is(inst->op, OPF_COLLECTIVE) ||
        (!op_is(inst->op, OPF_CONTROL) && inst->op != OP_FUSION))
        return;
    inst_own_called(inst);
    for (uint32_t k = 0; k < inst_called_count(inst); k++)
        inst_put_called(inst, k, clone_whole(inst_called(inst, k), ids));
}

/* Number i of those in order becomes first + i. */
typedef struct Renumbering {
    int64_t *numbers, first;
    size_t count, capacity;
} Renumbering;

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void add_number(Renumbering *r, int64_t number, Arena *scratch)
{
    r->numbers =
        arena_grow(scratch, r->numbers, &r->capacity, r->count + 1, sizeof *r->numbers);
    r->numbers[r->count++] = number;
}

/* Takes from `next` as many numbers as there are different ones. */
static void choose_numbers(Renumbering *r, int64_t *next)
{
    size_t n = 0;
    if (r->count != 0)
        qsort(r->numbers, r->count, sizeof *r->numbers, by_number);
    for (size_t i = 0; i < r->count; i++) {
        if (n == 0 || r->numbers[n - 1] != r->numbers[i])
            r->numbers[n++] = r->numbers[i];
    }
    r->count = n;
    r->first = *next;
    *next += (int64_t)n;
}

static int64_t new_number(const Renumbering *r, int64_t number)
{
    const int64_t *at =
        bsearch(&number, r->numbers, r->count, sizeof *r->numbers, by_number);
    return r->first + (at - r->numbers);
}

static Renumbering renumber_groups(FreshIds *ids, Instruction *const *list,
                                   uint32_t count, Arena *scratch)
{
    Renumbering r = {0};
    int64_t number;
    const char *suffix;
    for (uint32_t i = 0; i < count; i++) {
        if (group_of(list[i], &number, &suffix))
            add_number(&r, number, scratch);
    }
    choose_numbers(&r, &ids->group);
    return r;
}

static Renumbering renumber_transfers(FreshIds *ids, Instruction *const *list,
                                      uint32_t count, Arena *scratch)
{
    Renumbering r = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (is_transfer(list[i]))
            add_number(&r, inst_int(list[i], ATTR_CHANNEL_ID, 0), scratch);
    }
    choose_numbers(&r, &ids->channel);
    return r;
}

static void set_group(Instruction *inst, const Renumbering *r)
{
    int64_t number;
    const char *suffix;
    if (group_of(inst, &number, &suffix))
        inst_set_frontend_attribute(inst, group_key,
                                    arena_printf(inst->parent->module->arena, "%lld%s",
                                                 (long long)new_number(r, number),
                                                 suffix));
}

static void drop_group(Instruction *inst)
{
    int64_t number;
    const char *suffix;
    if (group_of(inst, &number, &suffix))
        inst_set_frontend_attribute(inst, group_key, NULL);
}

bool step_has_groups(Instruction *const *list, uint32_t count)
{
    int64_t number;
    const char *suffix;
    bool has = false;
    for (uint32_t i = 0; i < count && !has; i++)
        has = list[i] != NULL && group_of(list[i], &number, &suffix);
    return has;
}

void step_renumber_groups(FreshIds *ids, Instruction *const *list, uint32_t count)
{
    Arena *scratch = arena_scratch();
    Renumbering groups = renumber_groups(ids, list, count, scratch);
    for (uint32_t i = 0; i < count; i++)
        set_group(list[i], &groups);
    arena_destroy(scratch);
}

/* {{from,to},...} -> the i < trips for which first + i * stride is in them; {1,0} is none. */
static void map_intervals(Instruction *inst, int64_t first, int64_t stride, int64_t trips)
{
    const char *text =
        inst->attr_count != 0 ? inst_frontend_attribute(inst, validation_key) : NULL;
    if (text == NULL)
        return;
    Text t;
    text_init(&t, inst->parent->module->arena);
    int64_t pair[2];
    int n = 0;
    for (const char *at = text; *at != '\0';) {
        if (*at < '0' || *at > '9') {
            at++;
            continue;
        }
        char *end;
        pair[n++] = strtoll(at, &end, 10);
        at = end;
        if (n < 2)
            continue;
        n = 0;
        int64_t from = pair[0] > first ? (pair[0] - first + stride - 1) / stride : 0;
        int64_t to = pair[1] >= first ? (pair[1] - first) / stride : -1;
        to = to < trips ? to : trips - 1;
        text_printf(&t, "%s{%lld,%lld}", t.length == 0 ? "{" : ",",
                    (long long)(from <= to ? from : 1), (long long)(from <= to ? to : 0));
    }
    text_string(&t, t.length == 0 ? "{}" : "}");
    inst_set_frontend_attribute(inst, validation_key, t.data);
}

void step_set_validation(Instruction *const *list, uint32_t count, int64_t first,
                         int64_t stride, int64_t trips)
{
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] != NULL)
            map_intervals(list[i], first, stride, trips);
    }
}

static void copy_controls(const StepCopy *c, Instruction *to, const Instruction *from)
{
    if (from->control_count == 0)
        return;
    to->control = ARENA_ARRAY(c->to->module->arena, Instruction *, from->control_count);
    for (uint32_t i = 0; i < from->control_count; i++) {
        Instruction *before = c->made[from->control[i]->id];
        if (before != NULL && before != to)
            to->control[to->control_count++] = before;
    }
}

void step_order_before(const StepCopy *c, Instruction *const *list, uint32_t count,
                       Instruction *loop)
{
    for (uint32_t i = 0; i < count; i++) {
        if (list[i]->op == OP_SEND_DONE || list[i]->op == OP_RECV_DONE)
            inst_add_control(loop, c->made[list[i]->id]);
    }
}

void step_order_behind(const StepCopy *c, Instruction *const *list, uint32_t count,
                       Instruction *loop)
{
    for (uint32_t i = 0; i < count; i++) {
        if (list[i]->op == OP_SEND || list[i]->op == OP_RECV)
            inst_add_control(c->made[list[i]->id], loop);
    }
}

void step_copy(StepCopy *c, Instruction *const *list, uint32_t count)
{
    Arena *scratch = arena_scratch();
    bool *is_new = ARENA_ARRAY(scratch, bool, (size_t)count + 1);
    bool keeps_groups = c->groups != STEP_GROUPS_DROPPED;
    Renumbering groups = {0}, transfers = {0};
    if (keeps_groups)
        groups = renumber_groups(c->ids, list, count, scratch);
    if (c->renews_transfers)
        transfers = renumber_transfers(c->ids, list, count, scratch);
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *from = list[i];
        if (c->made[from->id] != NULL)
            continue;
        Instruction **operands =
            ARENA_ARRAY(scratch, Instruction *, (size_t)from->operand_count + 1);
        for (uint32_t k = 0; k < from->operand_count; k++)
            operands[k] = c->made[from->operands[k]->id];
        Instruction *to =
            computation_add_like(c->to, from, from->shape, from->operand_count, operands);
        own_called(to, c->ids);
        if (keeps_groups)
            set_group(to, &groups);
        else
            drop_group(to);
        if (c->renews_transfers && is_transfer(to))
            inst_set_int(to, ATTR_CHANNEL_ID,
                         new_number(&transfers, inst_int(to, ATTR_CHANNEL_ID, 0)));
        if (c->step >= 0)
            map_intervals(to, c->step, 1, 1);
        c->made[from->id] = to;
        is_new[i] = true;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (is_new[i])
            copy_controls(c, c->made[list[i]->id], list[i]);
    }
    arena_destroy(scratch);
}

/* -- tuples ------------------------------------------------------------------------------- */

void step_replace_loops(Computation *caller, Instruction **const *values, uint32_t count,
                        Arena *scratch)
{
    Instruction **tuples = ARENA_ARRAY(scratch, Instruction *, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++) {
        Instruction *old = values[i] != NULL ? caller->instructions[i] : NULL;
        if (old != NULL)
            tuples[i] = computation_add(caller, OP_TUPLE, old->shape, old->shape->rank,
                                        values[i], NULL);
    }
    Instruction **forward = ARENA_ARRAY(scratch, Instruction *, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = caller->instructions[i];
        if (inst == NULL)
            continue;
        if (values[i] != NULL)
            forward[i] = tuples[i];
        else if (inst->op == OP_GET_TUPLE_ELEMENT && inst->operands[0]->id < count &&
                 values[inst->operands[0]->id] != NULL)
            forward[i] = values[inst->operands[0]->id][inst_int(inst, ATTR_INDEX, 0)];
    }
    computation_substitute(caller, forward, count);
    computation_sort(caller);
}
