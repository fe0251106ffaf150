/* See lint.h. Instructions are told apart by their address: those that stay are the same
 * object before and after. */
#include "passes/lint.h"

#include <stdlib.h>
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/attribute/config.h"
#include "ir/base/bug.h"
#include "ir/print/print.h"

/* What an instruction had. Attributes and edges are copies: passes change both in place. */
typedef struct Record {
    const Instruction *inst;
    const char *name;
    OpCode op;
    bool is_collective;
    Metadata metadata; /* op_name only */
    bool has_metadata, has_config;
    const Dict *frontend;
    const Instruction **control;
    uint32_t control_count;
} Record;

struct Lint {
    Arena *a;
    const Instruction **all; /* sorted by address */
    size_t count, capacity;
    Record *records;
    size_t record_count, record_capacity;
};

/* What passes may take away: a mark that means nothing where it stands, or has been obeyed. */
typedef struct Exception {
    const char *pass, *key;
} Exception;

static const Exception exceptions[] = {
    {"stream-annotations", "_xla_stream_annotation"},
    {"stream-calls", "_xla_stream_annotation"},
    {"collective-pipeliner",
     "_scheduling_group_id"}, /* behind its loop it is of no step */
    {"fused-groups", "_scheduling_group_id"},
    {"scheduling-groups", "_scheduling_group_id"},
    {"async-to-sync", "_xla_send_recv_source_target_pairs"}, /* source_target_pairs */
    {"async-to-sync", "_xla_send_recv_validation"},
    {"async-to-sync", "_xla_send_recv_pipeline"}, /* of its own for each of the two */
    {"join-transfers", "_xla_send_recv_pipeline"},
    {"join-transfers", "_xla_send_recv_source_target_pairs"},
    {"join-transfers", "_xla_send_recv_validation"},
    {"trip-counts", "backend_config"}, /* whose count was wrong */
};

/* Passes that make copies of collectives, which have all that these have, and drop what nobody
 * reads: what is gone has not been replaced by what was made. */
static const char *const copiers[] = {"inline",   "inline-expanded", "expand",
                                      "simplify", "loops",           "simplify-peeled"};

static bool is_communication(const Instruction *inst)
{
    if (inst->op == OP_ASYNC_START)
        return op_is(inst_called(inst, 0)->root->op, OPF_COLLECTIVE);
    return op_is(inst->op, OPF_COLLECTIVE) ||
           (op_is(inst->op, OPF_ASYNC_START) && inst->op != OP_COPY_START);
}

/* It may stand for a collective: that, a part of a pair, or a call of one. */
static bool stands_for_one(const Instruction *inst)
{
    return is_communication(inst) || op_is(inst->op, OPF_ASYNC_DONE) ||
           inst->op == OP_CALL;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (const Instruction *const *)a,
              y = (uintptr_t) * (const Instruction *const *)b;
    return x < y ? -1 : x > y;
}

static bool holds(const Lint *l, const Instruction *inst)
{
    return l->count != 0 && bsearch(&inst, l->all, l->count, sizeof *l->all, by_address);
}

static void add_record(Lint *l, const Instruction *inst)
{
    const Attr *metadata = inst_attr(inst, ATTR_METADATA);
    const Attr *frontend = inst_attr(inst, ATTR_FRONTEND_ATTRIBUTES);
    bool has_config = config_has_text(inst);
    if (metadata == NULL && frontend == NULL && !has_config && inst->control_count == 0 &&
        !is_communication(inst))
        return;
    Record r = {.inst = inst,
                .name = inst->name,
                .op = inst->op,
                .is_collective = is_communication(inst),
                .has_metadata = metadata != NULL && metadata->metadata->op_name.length,
                .has_config = has_config,
                .frontend = frontend == NULL ? NULL : frontend->dict,
                .control_count = inst->control_count};
    if (r.has_metadata)
        r.metadata = *metadata->metadata;
    r.control = ARENA_ARRAY(l->a, const Instruction *, (size_t)r.control_count + 1);
    for (uint32_t i = 0; i < r.control_count; i++)
        r.control[i] = inst->control[i];
    l->records = arena_grow(l->a, l->records, &l->record_capacity, l->record_count + 1,
                            sizeof *l->records);
    l->records[l->record_count++] = r;
}

Lint *lint_begin(const Module *m, Arena *a)
{
    Lint *l = ARENA_NEW(a, Lint);
    l->a = a;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            l->all = arena_grow(a, l->all, &l->capacity, l->count + 1, sizeof *l->all);
            l->all[l->count++] = inst;
            add_record(l, inst);
        }
    }
    if (l->count != 0)
        qsort(l->all, l->count, sizeof *l->all, by_address);
    return l;
}

/* -- order ------------------------------------------------------------------------------------ */

/* Whether `after` needs `before`, by data or by control; both of one computation. */
static bool depends(const Instruction *after, const Instruction *before)
{
    Arena *scratch = arena_scratch();
    uint32_t count = after->parent->instruction_count, n = 0;
    bool *seen = ARENA_ARRAY(scratch, bool, (size_t)count + 1), found = after == before;
    const Instruction **stack =
        ARENA_ARRAY(scratch, const Instruction *, (size_t)count + 1);
    stack[n++] = after;
    while (n > 0 && !found) {
        const Instruction *inst = stack[--n];
        for (uint32_t i = 0; i < inst->operand_count + inst->control_count; i++) {
            const Instruction *next = i < inst->operand_count
                                          ? inst->operands[i]
                                          : inst->control[i - inst->operand_count];
            found |= next == before;
            if (!seen[next->id]) {
                seen[next->id] = true;
                stack[n++] = next;
            }
        }
    }
    arena_destroy(scratch);
    return found;
}

/* A schedule is an order, too. */
static bool comes_after(const Instruction *after, const Instruction *before)
{
    if (after->parent != before->parent)
        return true; /* moved to another computation: its caller's edges count */
    return (after->parent->module->config.is_scheduled && before->id < after->id) ||
           depends(after, before);
}

/* -- checks ------------------------------------------------------------------------------------- */

static bool is_excepted(const char *pass, const char *key)
{
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++) {
        if (strcmp(exceptions[i].pass, pass) == 0 && strcmp(exceptions[i].key, key) == 0)
            return true;
    }
    return false;
}

static void check_kept(const Record *r, const Lint *after, const char *pass)
{
    const Instruction *inst = r->inst;
    if (r->has_metadata && !inst_has(inst, ATTR_METADATA))
        bug("lint: %s took the metadata of %s away", pass, inst->name);
    bool same = inst->op == r->op; /* else a kernel, with the operation inside */
    if (r->has_config && same && !config_has_text(inst) &&
        !is_excepted(pass, "backend_config"))
        bug("lint: %s took the backend_config of %s away", pass, inst->name);
    for (uint32_t i = 0; same && r->frontend != NULL && i < r->frontend->count; i++) {
        const char *key = r->frontend->entries[i].key;
        if (inst_frontend_attribute(inst, key) == NULL && !is_excepted(pass, key))
            bug("lint: %s took the frontend attribute %s of %s away", pass, key,
                inst->name);
    }
    for (uint32_t i = 0; i < r->control_count; i++) {
        if (holds(after, r->control[i]) && !comes_after(inst, r->control[i]))
            bug("lint: %s need no longer wait for %s after %s", inst->name,
                r->control[i]->name, pass);
    }
}

/* What the pass made that may stand for collectives. */
static const Instruction **find_new(const Lint *before, const Lint *after, size_t *count)
{
    const Instruction **made =
        ARENA_ARRAY(after->a, const Instruction *, after->count + 1);
    *count = 0;
    for (size_t i = 0; i < after->count; i++) {
        if (stands_for_one(after->all[i]) && !holds(before, after->all[i]))
            made[(*count)++] = after->all[i];
    }
    return made;
}

static bool contains(Bytes text, Bytes part)
{
    for (size_t at = 0; at + part.length <= text.length; at++) {
        if (memcmp(text.data + at, part.data, part.length) == 0)
            return true;
    }
    return false;
}

/* Names that share their beginning are joined by commas: the end of each is found. */
static Bytes last_part(Bytes name)
{
    size_t at = name.length;
    while (at > 0 && name.data[at - 1] != '/')
        at--;
    return (Bytes){name.data + at, name.length - at};
}

static bool any_named(const Instruction *const *made, size_t count, Bytes name)
{
    for (size_t i = 0; i < count; i++) {
        const Attr *attr = inst_attr(made[i], ATTR_METADATA);
        if (attr != NULL && contains(attr->metadata->op_name, name))
            return true;
    }
    return false;
}

static bool any_marked(const Instruction *const *made, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++) {
        if (inst_frontend_attribute(made[i], key) != NULL)
            return true;
    }
    return false;
}

static bool makes_copies(const char *pass)
{
    bool found = false;
    for (size_t i = 0; i < sizeof copiers / sizeof *copiers; i++)
        found = found || strcmp(copiers[i], pass) == 0;
    return found;
}

/* It waited for a part of a pair that is gone, and what was made stands before it: the pair became one operation,
 * which cannot be before and behind what was to run in between. */
static bool was_between(const Instruction *inst, const Lint *before, const Lint *after,
                        const Instruction *made)
{
    for (size_t i = 0; i < before->record_count; i++) {
        const Record *r = &before->records[i];
        for (uint32_t k = 0; r->inst == inst && k < r->control_count; k++) {
            if (holds(before, r->control[k]) && !holds(after, r->control[k]) &&
                comes_after(inst, made))
                return true;
        }
    }
    return false;
}

/* A collective is gone and others were made: those have what it had. */
static void check_replaced(const Record *r, const Lint *before, const Lint *after,
                           const char *pass, const Instruction *const *made, size_t count)
{
    bool copies = makes_copies(pass);
    if (r->has_metadata && !copies &&
        !any_named(made, count, last_part(r->metadata.op_name)))
        bug("lint: after %s nothing has the op_name of %s", pass, r->name);
    for (uint32_t i = 0; r->frontend != NULL && !copies && i < r->frontend->count; i++) {
        const char *key = r->frontend->entries[i].key;
        if (!is_excepted(pass, key) && !any_marked(made, count, key))
            bug("lint: after %s nothing has the frontend attribute %s of %s", pass, key,
                r->name);
    }
    for (uint32_t i = 0; i < r->control_count; i++) {
        bool waits = !holds(after, r->control[i]);
        for (size_t k = 0; k < count && !waits; k++)
            waits = comes_after(made[k], r->control[i]) ||
                    was_between(r->control[i], before, after, made[k]);
        if (!waits)
            bug("lint: what %s made of %s does not wait for %s", pass, r->name,
                r->control[i]->name);
    }
}

/* Somebody who waited for a collective that is gone waits for what was made of it. */
static void check_successor(const Record *r, const Lint *after, const Lint *before,
                            const char *pass, const Instruction *const *made,
                            size_t count)
{
    for (uint32_t i = 0; i < r->control_count; i++) {
        const Instruction *gone = r->control[i];
        if (holds(after, gone) || !holds(before, gone) || !is_communication(gone))
            continue;
        bool waits = false;
        for (size_t k = 0; k < count && !waits; k++)
            waits = comes_after(r->inst, made[k]);
        if (!waits)
            bug("lint: %s waits for nothing that %s made of %s", r->inst->name, pass,
                gone->name);
    }
}

void lint_check(const Lint *before, const Module *m, const char *pass)
{
    const Lint *after = lint_begin(m, before->a);
    size_t count;
    const Instruction *const *made = find_new(before, after, &count);
    for (size_t i = 0; i < before->record_count; i++) {
        const Record *r = &before->records[i];
        if (holds(after, r->inst)) {
            check_kept(r, after, pass);
            if (count != 0)
                check_successor(r, after, before, pass, made, count);
        } else if (count != 0 && r->is_collective) {
            check_replaced(r, before, after, pass, made, count);
        }
    }
}

bool lint_run(const char *name, PassFn *pass, Module *m, PassContext *cx)
{
    if (!cx->lint)
        return pass(m, cx);
    Arena *a = arena_scratch();
    Lint *before = lint_begin(m, a);
    bool changed = pass(m, cx);
    lint_check(before, m, name);
    arena_destroy(a);
    return changed;
}

void lint_idle(const char *name, PassFn *pass, Module *m, PassContext *cx)
{
    if (!cx->lint)
        return;
    Arena *a = arena_scratch();
    const char *before = module_print(a, m, PRINT_DEFAULT, NULL);
    PassCounts counts = cx->counts;
    size_t errors = m->diag->error_count;
    if (pass(m, cx) || m->diag->error_count != errors ||
        memcmp(&counts, &cx->counts, sizeof counts) != 0 ||
        strcmp(before, module_print(a, m, PRINT_DEFAULT, NULL)) != 0)
        bug("lint: %s is left out, and would have changed something", name);
    arena_destroy(a);
}
