/* Scheduling groups as a program may write them become ones that a schedule can keep.
 *
 *   s = start(x), {7}   a = add(y, y), {7}   d = done(s), {7}   g = fusion(y), {7}    (g holds a dot)
 *   ->  the same without a's: additions are not worth a buffer
 *
 * Members are starts, dones, and kernels that hold products; a group of one member, or of an id
 * that no asynchronous operation has, is none. What is free and lies between members joins them, and
 * so does what has the id without being worth one: passes give it to what they put there.
 * A kernel that is no member but must run between two of them is a gap, two groups that wait for
 * each other are a circle: both are errors of the program (--lenient-scheduling-groups: they are
 * no groups).
 *
 * Needs: fused, pairs made. Keeps: everything else. Ends: one sweep for each rule. */
#include "passes/schedule/groups.h"

#include <stdlib.h>
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/attribute/config.h"
#include "ir/kernel/time/work.h"
#include "passes/schedule/graph.h"
#include "passes/schedule/schedule.h"
#include "passes/settings.h"

static const char *group_name(const Instruction *inst)
{
    const char *name = inst_frontend_attribute(inst, GROUP_ATTRIBUTE);
    return name == NULL || strcmp(name, "noop") == 0 ? NULL : name;
}

typedef struct Member {
    const char *name;
    uint32_t id;
} Member;

static int by_name(const void *a, const void *b)
{
    const Member *p = a, *q = b;
    int order = strcmp(p->name, q->name);
    return order != 0 ? order : p->id < q->id ? -1 : p->id > q->id;
}

uint32_t groups_number(const Computation *comp, Arena *scratch, uint32_t *group,
                       const char *const **out_names)
{
    uint32_t n = 0, count = 0;
    size_t capacity = 0;
    Member *members = NULL;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        const char *name = group_name(inst);
        group[inst->id] = 0;
        if (name == NULL)
            continue;
        members = arena_grow(scratch, members, &capacity, (size_t)n + 1, sizeof *members);
        members[n++] = (Member){name, inst->id};
    }
    *out_names = NULL;
    if (n == 0)
        return 0;
    qsort(members, n, sizeof *members, by_name);
    uint32_t *first = ARENA_ARRAY(scratch, uint32_t, comp->instruction_count);
    for (uint32_t k = 0; k < n; k++) {
        bool begins = k == 0 || strcmp(members[k - 1].name, members[k].name) != 0;
        first[members[k].id] = begins ? members[k].id : first[members[k - 1].id];
    }
    const char **names = ARENA_ARRAY(scratch, const char *, n);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        const char *name = group_name(inst);
        if (name == NULL)
            continue;
        if (first[inst->id] == inst->id)
            names[count++] = name;
        group[inst->id] = first[inst->id] == inst->id ? count : group[first[inst->id]];
    }
    *out_names = names;
    return count;
}

static bool holds_update(const Computation *comp)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op == OP_DYNAMIC_UPDATE_SLICE ||
            (inst->op == OP_FUSION && holds_update(inst_called(inst, 0))))
            return true;
    }
    return false;
}

bool groups_is_forced_early(const Instruction *inst)
{
    if (inst->op != OP_ASYNC_START)
        return config_flag(inst, CONFIG_FORCE_EARLY);
    const Computation *work = inst_called(inst, 0);
    return config_flag(work->root, CONFIG_FORCE_EARLY) || holds_update(work);
}

/* -- members ------------------------------------------------------------------------------------- */

typedef struct Groups {
    Module *module;
    Computation *comp;
    Arena *scratch;
    bool lenient;
    bool is_own; /* fusions are ours: the program is not to blame for what is in them */
    bool changed, found;
    Member *async; /* asynchronous operations with groups, by name */
    uint32_t async_count;
    size_t async_capacity;
    uint32_t *group; /* [instructions] of comp */
    uint32_t
        *asked; /* [instructions] the group of what joins only between members; 0: none */
    uint32_t count;
    const char *const *names; /* [count] */
} Groups;

static void leave_group(Groups *g, Instruction *inst)
{
    inst_set_frontend_attribute(inst, GROUP_ATTRIBUTE, NULL);
    g->changed = true;
}

/* "7", "7:2" or "7:-1", the group below 2^63 - 1 (copies of it get numbers of their own) */
static bool is_well_formed(const char *name)
{
    size_t digits = strspn(name, "0123456789"), more = 1;
    const char *suffix = name + digits;
    if (*suffix == ':') {
        suffix += suffix[1] == '-' ? 2 : 1;
        suffix += more = strspn(suffix, "0123456789");
    }
    return digits != 0 && more != 0 && *suffix == '\0' &&
           strtoll(name, NULL, 10) < INT64_MAX;
}

static bool is_product(OpCode op)
{
    return op == OP_DOT || op == OP_SCALED_DOT || op == OP_RAGGED_DOT ||
           op == OP_CONVOLUTION;
}

static bool holds_product(const Instruction *inst)
{
    if (inst->op != OP_FUSION)
        return is_product(inst->op) || inst->op == OP_CUSTOM_CALL;
    const Computation *comp = inst_called(inst, 0);
    for (const Instruction *inside = inst_first(comp); inside;
         inside = inst_next(inside)) {
        if (is_product(inside->op))
            return true;
    }
    return false;
}

bool groups_may_hold(const Instruction *inst)
{
    return op_is(inst->op, OPF_COLLECTIVE | OPF_ASYNC_START | OPF_ASYNC_DONE) ||
           inst->op == OP_CALL || holds_product(inst);
}

/* The id that products inside a fusion have becomes the fusion's; of one without products, what others have. */
static void take_from_inside(Groups *g, Instruction *fusion)
{
    Computation *comp = inst_called(fusion, 0);
    const char *name = group_name(fusion), *other = NULL;
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        const char *inner = group_name(inst);
        if (inner == NULL)
            continue;
        leave_group(g, inst);
        if (!is_product(inst->op)) {
            other = inner;
            continue;
        }
        if (name != NULL && strcmp(name, inner) != 0) {
            (g->is_own ? diag_warning : diag_error)(
                g->module->diag, inst->span,
                "%s of scheduling group %s was fused with operations of group %s",
                inst->name, inner, name);
            continue;
        }
        name = inner;
        inst_set_frontend_attribute(fusion, GROUP_ATTRIBUTE, name);
    }
    if (name == NULL && other != NULL && !holds_product(fusion))
        inst_set_frontend_attribute(fusion, GROUP_ATTRIBUTE, other);
}

static bool is_async(const Instruction *inst)
{
    return op_is(inst->op, OPF_ASYNC_START | OPF_ASYNC_DONE);
}

static void visit_member(Groups *g, Instruction *inst)
{
    const char *name = group_name(inst);
    if (name == NULL)
        return;
    g->found = true;
    if (!is_well_formed(name)) {
        diag_error(g->module->diag, inst->span,
                   GROUP_ATTRIBUTE "=\"%s\" names no scheduling group: a number, two "
                                   "numbers N:ITERATION, or noop are expected",
                   name);
        leave_group(g, inst);
    } else if (is_async(inst)) {
        g->async = arena_grow(g->scratch, g->async, &g->async_capacity,
                              (size_t)g->async_count + 1, sizeof *g->async);
        g->async[g->async_count++] = (Member){name, 0};
    }
}

static bool is_asynchronous(const Groups *g, const char *name)
{
    Member key = {name, 0};
    return g->async_count != 0 &&
           bsearch(&key, g->async, g->async_count, sizeof key, by_name) != NULL;
}

/* What is not worth a group is no member, unless it lies between some. */
static void set_aside(Groups *g)
{
    g->asked = ARENA_ARRAY(g->scratch, uint32_t, (size_t)g->comp->instruction_count + 1);
    for (const Instruction *inst = inst_first(g->comp); inst; inst = inst_next(inst)) {
        if (is_async(inst) || holds_product(inst))
            continue;
        g->asked[inst->id] = g->group[inst->id];
        g->group[inst->id] = 0;
    }
}

static void drop_aside(Groups *g)
{
    for (Instruction *inst = inst_first(g->comp); inst; inst = inst_next(inst)) {
        if (g->asked[inst->id] != 0 && g->group[inst->id] == 0)
            leave_group(g, inst);
    }
}

/* Groups of one, and groups with nothing asynchronous. */
static void drop_empty(Groups *g)
{
    uint32_t *members = ARENA_ARRAY(g->scratch, uint32_t, (size_t)g->count + 1);
    for (const Instruction *inst = inst_first(g->comp); inst; inst = inst_next(inst))
        members[g->group[inst->id]]++;
    for (Instruction *inst = inst_first(g->comp); inst; inst = inst_next(inst)) {
        uint32_t k = g->group[inst->id];
        if (k == 0 || (members[k] > 1 && is_asynchronous(g, g->names[k - 1])))
            continue;
        leave_group(g, inst);
        g->group[inst->id] = 0;
    }
}

static void dissolve(Groups *g, uint32_t k)
{
    for (Instruction *inst = inst_first(g->comp); inst; inst = inst_next(inst)) {
        if (g->group[inst->id] != k)
            continue;
        leave_group(g, inst);
        g->group[inst->id] = 0;
    }
}

/* -- gaps ---------------------------------------------------------------------------------------- */

static uint32_t predecessor_count(const Instruction *inst)
{
    return inst->operand_count + inst->control_count;
}

static uint32_t predecessor(const Instruction *inst, uint32_t k)
{
    return k < inst->operand_count ? inst->operands[k]->id
                                   : inst->control[k - inst->operand_count]->id;
}

/* What lies on a way from a member of group k to another: what is free joins, another instruction
 * is returned. Members are among first .. last; `after` and `before` are all false there. */
static const Instruction *find_gap(Groups *g, uint32_t k, uint32_t first, uint32_t last,
                                   bool *after, bool *before)
{
    Instruction **list = g->comp->instructions;
    const Instruction *gap = NULL;
    for (uint32_t i = first; i <= last; i++) {
        for (uint32_t p = 0; p < predecessor_count(list[i]); p++) {
            uint32_t x = predecessor(list[i], p);
            after[i] |= x >= first && (after[x] || g->group[x] == k);
        }
    }
    for (uint32_t i = last + 1; i-- > first;) {
        for (uint32_t p = 0;
             p < predecessor_count(list[i]) && (before[i] || g->group[i] == k); p++) {
            uint32_t x = predecessor(list[i], p);
            before[x] |= x >= first;
        }
        if (!after[i] || !before[i] || g->group[i] == k)
            continue;
        if (g->group[i] == 0 && (cost_is_free(list[i]) || g->asked[i] == k)) {
            g->group[i] = k;
            inst_set_frontend_attribute(list[i], GROUP_ATTRIBUTE, g->names[k - 1]);
            g->changed = true;
        } else {
            gap = list[i];
        }
    }
    return gap;
}

static void close_gaps(Groups *g)
{
    uint32_t n = g->comp->instruction_count;
    bool *after = ARENA_ARRAY(g->scratch, bool, (size_t)n + 1);
    bool *before = ARENA_ARRAY(g->scratch, bool, (size_t)n + 1);
    uint32_t *first = ARENA_ARRAY(g->scratch, uint32_t, (size_t)g->count + 1);
    uint32_t *last = ARENA_ARRAY(g->scratch, uint32_t, (size_t)g->count + 1);
    for (uint32_t i = n; i-- > 0;)
        first[g->group[i]] = i;
    for (uint32_t i = 0; i < n; i++)
        last[g->group[i]] = i;
    for (uint32_t k = 1; k <= g->count; k++) {
        if (g->group[first[k]] != k)
            continue; /* it was dropped */
        memset(after + first[k], 0, last[k] - first[k] + 1);
        memset(before + first[k], 0, last[k] - first[k] + 1);
        const Instruction *gap = find_gap(g, k, first[k], last[k], after, before);
        if (gap == NULL)
            continue;
        if (!g->lenient)
            diag_error(g->module->diag, gap->span,
                       "scheduling group %s has a gap: %s is not of it but must run "
                       "between two of its operations",
                       g->names[k - 1], gap->name);
        dissolve(g, k);
    }
}

/* -- circles ------------------------------------------------------------------------------------- */

/* Takes away what waits for nothing, groups as a whole; what is left waits for itself. Returns the
 * number of a group in a circle, 0 if there is none. */
static uint32_t find_circle(const Groups *g)
{
    const Computation *comp = g->comp;
    uint32_t n = comp->instruction_count, all = n + g->count + 1, ready_count = 0;
    Edges *after = ARENA_ARRAY(g->scratch, Edges, all);
    uint32_t *waiting = ARENA_ARRAY(g->scratch, uint32_t, all);
    uint32_t *ready = ARENA_ARRAY(g->scratch, uint32_t, all);
    for (uint32_t i = 0; i < n; i++) {
        const Instruction *inst = comp->instructions[i];
        uint32_t to = g->group[i] != 0 ? n + g->group[i] : i;
        for (uint32_t k = 0; k < predecessor_count(inst); k++) {
            uint32_t x = predecessor(inst, k);
            uint32_t from = g->group[x] != 0 ? n + g->group[x] : x;
            if (from == to)
                continue;
            edges_add(g->scratch, &after[from], to);
            waiting[to]++;
        }
    }
    for (uint32_t x = 0; x < all; x++) {
        if (waiting[x] == 0)
            ready[ready_count++] = x;
    }
    for (uint32_t done = 0; done < ready_count; done++) {
        const Edges *e = &after[ready[done]];
        for (uint32_t k = 0; k < e->count; k++) {
            if (--waiting[e->list[k]] == 0)
                ready[ready_count++] = e->list[k];
        }
    }
    for (uint32_t k = 1; k <= g->count; k++) {
        if (waiting[n + k] != 0)
            return k;
    }
    return 0;
}

static void break_circles(Groups *g)
{
    uint32_t k;
    while (g->count > 1 && (k = find_circle(g)) != 0) {
        uint32_t i = 0;
        while (g->group[i] != k)
            i++;
        if (!g->lenient)
            diag_error(g->module->diag, g->comp->instructions[i]->span,
                       "scheduling group %s and others wait for each other",
                       g->names[k - 1]);
        dissolve(g, k);
    }
}

/* -- the pass ------------------------------------------------------------------------------------ */

static void visit(Groups *g, Computation *comp)
{
    g->comp = comp;
    computation_sort(comp);
    g->group = ARENA_ARRAY(g->scratch, uint32_t, (size_t)comp->instruction_count + 1);
    g->count = groups_number(comp, g->scratch, g->group, &g->names);
    if (g->count == 0)
        return;
    set_aside(g);
    drop_empty(g);
    close_gaps(g);
    break_circles(g);
    drop_aside(g);
}

static void visit_fusions(Groups *g, Computations programs)
{
    for (uint32_t c = 0; c < programs.count; c++) {
        const Computation *comp = programs.data[c];
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op == OP_FUSION)
                take_from_inside(g, inst);
        }
    }
}

bool pass_fused_groups(Module *m, PassContext *cx)
{
    Groups g = {.module = m, .scratch = cx->scratch, .is_own = true};
    visit_fusions(&g, module_programs(m, cx->scratch));
    return g.changed;
}

bool pass_scheduling_groups(Module *m, PassContext *cx)
{
    if (m->config.is_scheduled)
        return false;
    Computations programs = module_programs(m, cx->scratch);
    Groups g = {.module = m,
                .scratch = cx->scratch,
                .lenient = cx->settings->lenient_scheduling_groups != 0};
    visit_fusions(&g, programs);
    for (uint32_t c = 0; c < programs.count; c++) {
        const Computation *comp = programs.data[c];
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            visit_member(&g, inst);
        }
    }
    if (g.async_count != 0)
        qsort(g.async, g.async_count, sizeof *g.async, by_name);
    for (uint32_t c = 0; c < programs.count && g.found; c++) {
        visit(&g, programs.data[c]);
        cx->counts.scheduling_groups += g.count;
    }
    return g.changed;
}
