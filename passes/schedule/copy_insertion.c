/* Puts copies where values that must share one buffer (ir/analysis/alias.h) would otherwise
 * live at the same time, and says where operations work in place.
 *
 *   body (p) { x = p#0  y = f(x)  z = g(x)  ROOT (y, z) }      y must lie where x lies
 *   ->  z needs x after y was made: ROOT (copy(y), z)
 *
 * A value is named by its source: the instruction and leaf that made it, seen through tuples,
 * bitcasts and loop leaves that the body hands on unchanged. Rules, each local to one
 * computation with its order fixed:
 *   in place     the operand that a kernel updates, or that a custom call says its result
 *                lies in, is dead afterwards and ours, else copied;
 *   while        an initial value is ours and dies there, else copied; a leaf that the body
 *                hands on unchanged needs nothing;
 *   loop body    the next value of a leaf is made after the last use of the present one - or
 *                by an operation that may write where it reads -, else copied;
 *   condition    nothing that the loop carries is ours: the body reads it, too;
 *   branch, call the result is a value of its own, else copied;
 *   beside it    what an asynchronous computation updates in place is dead when it is done, and ours;
 *   entry        the same, and a result aliased to a parameter follows the rule of loop bodies; one that may be
 *                aliased and is about all that the program makes gives that up rather than to be copied.
 *
 * Needs: scheduled. Keeps: the order. Ends: two sweeps over each computation. */
#include <string.h>

#include "ir/analysis/alias.h"
#include "ir/analysis/carried.h"
#include "ir/base/bug.h"
#include "ir/kernel/kind.h"
#include "passes/schedule/in_place.h"
#include "passes/schedule/schedule.h"

#define GIVEN_UP_BYTES (1 << 20)
#define GIVEN_UP_PART 8

typedef ValueSource Source;

/* What runs a computation. */
typedef enum { USE_OTHER, USE_CONDITION, USE_BODY, USE_ASYNC } CompUse;

typedef struct CopyInsertion {
    Module *m;
    Arena *scratch;
    Computation *comp;
    ValueSource *
        present; /* [leaves of the root] what each takes the buffer of; inst NULL: nothing */
    /* of the computation at hand, by instruction id: */
    uint32_t *first_leaf; /* number of leaf 0 */
    uint32_t leaf_count;
    uint32_t
        *last_use; /* [leaf_count] id of the last user, by source; UINT32_MAX: the root */
    bool *chain; /* [leaf_count] parameter leaf whose next value is made in place of it */
    uint32_t *handed;    /* [leaf_count] how often a loop gets it; 0 between loops */
    Instruction **order; /* the computation with copies inserted */
    size_t order_count, order_capacity;
    bool changed;
    uint32_t *buffer_last_use; /* [leaf_count] by the leaf where a buffer begins */
} CopyInsertion;

/* -- sources ------------------------------------------------------------------------------- */

static uint32_t leaf_of(const CopyInsertion *ci, Source s)
{
    return ci->first_leaf[s.inst->id] + (uint32_t)s.leaf;
}

static bool is_made_here(Source s)
{
    return s.inst->op != OP_PARAMETER && s.inst->op != OP_CONSTANT;
}

/* -- the computation at hand ------------------------------------------------------------------ */

static void note_use(CopyInsertion *ci, Instruction *operand, uint32_t user)
{
    for (size_t leaf = 0; leaf < shape_leaf_count(operand->shape); leaf++)
        ci->last_use[leaf_of(ci, value_source(operand, leaf))] = user;
}

/* Ids are positions: the computation is compact and in its order. */
static void number_leaves(CopyInsertion *ci)
{
    const Computation *comp = ci->comp;
    uint32_t count = comp->instruction_count;
    ci->first_leaf = ARENA_ARRAY(ci->scratch, uint32_t, (size_t)count + 1);
    ci->leaf_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        ci->first_leaf[i] = ci->leaf_count;
        ci->leaf_count += (uint32_t)shape_leaf_count(comp->instructions[i]->shape);
    }
    ci->last_use = ARENA_ARRAY(ci->scratch, uint32_t, (size_t)ci->leaf_count + 1);
    ci->chain = ARENA_ARRAY(ci->scratch, bool, (size_t)ci->leaf_count + 1);
    ci->handed = ARENA_ARRAY(ci->scratch, uint32_t, (size_t)ci->leaf_count + 1);
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *inst = comp->instructions[i];
        if (!alias_defines(inst) && !op_is(inst->op, OPF_CONTROL | OPF_ASYNC_DONE))
            continue;
        for (uint32_t k = 0; k < inst->operand_count; k++)
            note_use(ci, inst->operands[k], i);
        /* what was started reads until it is done */
        const Instruction *start = inst->operand_count > 0 ? inst->operands[0] : NULL;
        for (uint32_t k = 0; op_is(inst->op, OPF_ASYNC_DONE) && k < start->operand_count;
             k++)
            note_use(ci, start->operands[k], i);
    }
    note_use(ci, comp->root, UINT32_MAX);
}

static void append(CopyInsertion *ci, Instruction *inst)
{
    ci->order = arena_grow(ci->scratch, ci->order, &ci->order_capacity,
                           ci->order_count + 1, sizeof *ci->order);
    ci->order[ci->order_count++] = inst;
}

static Instruction *add_copy(CopyInsertion *ci, Instruction *of)
{
    Instruction *copy = computation_add(ci->comp, OP_COPY, of->shape, 1, &of, "copy");
    copy->span = of->span;
    append(ci, copy);
    ci->changed = true;
    return copy;
}

/* The array that is leaf `leaf` of a value, through get-tuple-elements added as needed. */
static Instruction *leaf_value(CopyInsertion *ci, Instruction *value, size_t leaf)
{
    while (shape_is_tuple(value->shape)) {
        uint32_t i = shape_leaf_element(value->shape, leaf, &leaf);
        if (value->op == OP_TUPLE) {
            value = value->operands[i];
            continue;
        }
        Instruction *element = computation_add_element(value, i);
        append(ci, element);
        value = element;
    }
    return value;
}

static Instruction *make_tuple(CopyInsertion *ci, const Shape *shape,
                               Instruction **leaves, size_t *next)
{
    if (!shape_is_tuple(shape))
        return leaves[(*next)++];
    Instruction **operands =
        ARENA_ARRAY(ci->scratch, Instruction *, (size_t)shape->rank + 1);
    for (uint32_t i = 0; i < shape->rank; i++)
        operands[i] = make_tuple(ci, shape->elements[i], leaves, next);
    Instruction *tuple =
        computation_add(ci->comp, OP_TUPLE, shape, shape->rank, operands, NULL);
    append(ci, tuple);
    return tuple;
}

/* The value with copies in the leaves that are marked; itself if none is. Those that are also
 * marked `early` (may be NULL) are copied twice: the first time before any other copy. */
static Instruction *with_copies(CopyInsertion *ci, Instruction *value, const bool *copied,
                                const bool *early)
{
    size_t n = shape_leaf_count(value->shape), marked = 0, next = 0;
    for (size_t i = 0; i < n; i++)
        marked += copied[i];
    if (marked == 0)
        return value;
    Instruction **leaves = ARENA_ARRAY(ci->scratch, Instruction *, n);
    for (size_t i = 0; i < n; i++) {
        leaves[i] = leaf_value(ci, value, i);
        if (early != NULL && early[i])
            leaves[i] = add_copy(ci, leaves[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (copied[i])
            leaves[i] = add_copy(ci, leaves[i]);
    }
    return make_tuple(ci, value->shape, leaves, &next);
}

static bool carried(const CopyInsertion *ci, size_t leaf, Source *present)
{
    *present = ci->present[leaf];
    return present->inst != NULL;
}

/* -- rules -------------------------------------------------------------------------------------- */

/* The fusion reads this value only where it writes result `leaf`. */
static bool may_write_where_it_reads(const Instruction *fusion, size_t leaf,
                                     Source operand)
{
    if (fusion->op != OP_FUSION)
        return false;
    for (uint32_t i = 0; i < fusion->operand_count; i++) {
        Source s = value_source(fusion->operands[i], 0);
        if (value_source_is(s, operand) &&
            !kernel_writes_where_it_reads(fusion, (uint32_t)leaf, i))
            return false;
    }
    return true;
}

/* Leaf `leaf` of the root may lie in the buffer of the value `present` (a parameter's leaf):
 * the next value is made after the last use of the present one. */
static bool follows(const CopyInsertion *ci, Source next, Source present)
{
    if (next.inst == present.inst && next.leaf == present.leaf)
        return true;
    if (!is_made_here(next))
        return false;
    Source origin = in_place_origin(next, true);
    if (origin.inst == present.inst && origin.leaf == present.leaf)
        return true;
    if (origin.inst->op == OP_PARAMETER)
        return false;
    uint32_t last = ci->buffer_last_use[leaf_of(ci, present)];
    /* what was made in place began where its first value was made */
    uint32_t made = origin.inst->id;
    if (last < made)
        return true;
    return last == made && may_write_where_it_reads(origin.inst, origin.leaf, present);
}

static void set_in_place(Instruction *fusion, uint32_t leaf, uint32_t operand)
{
    Arena *a = fusion->parent->module->arena;
    const Attr *attr = inst_attr(fusion, ATTR_OUTPUT_TO_OPERAND_ALIASING);
    uint32_t n = attr != NULL ? attr->aliasing->count : 0;
    AliasEntry *entries = ARENA_ARRAY(a, AliasEntry, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++)
        entries[i] = attr->aliasing->entries[i];
    int64_t *index = ARENA_NEW(a, int64_t);
    *index = leaf;
    bool tuple = shape_is_tuple(fusion->shape);
    entries[n] = (AliasEntry){.output = {index, tuple ? 1 : 0}, .operand = operand};
    Aliasing *aliasing = ARENA_NEW(a, Aliasing);
    *aliasing = (Aliasing){n + 1, entries};
    inst_set(fusion, (Attr){.id = ATTR_OUTPUT_TO_OPERAND_ALIASING, .aliasing = aliasing});
}

/* Its buffer may be written: it was made here, or its next value lies there. */
static bool is_ours(const CopyInsertion *ci, Source s)
{
    return is_made_here(s) || (s.inst->op == OP_PARAMETER && ci->chain[leaf_of(ci, s)]);
}

/* `user` may write where leaf `leaf` of its operand `k` lies: nobody reads it after `last` - the user
 * itself, or what waits for it -, `user` takes it once, and it is no argument's. */
static bool may_overwrite(const CopyInsertion *ci, const Instruction *user, uint32_t last,
                          uint32_t k, size_t leaf)
{
    Source s = value_source(user->operands[k], leaf);
    bool free = is_ours(ci, s) && ci->last_use[leaf_of(ci, s)] == last;
    for (uint32_t i = 0; i < user->operand_count && free; i++) {
        size_t n = shape_leaf_count(user->operands[i]->shape);
        for (size_t l = 0; l < n; l++) {
            Source other = value_source(user->operands[i], l);
            free &= (i == k && l == leaf) || !value_source_is(other, s);
        }
    }
    return free;
}

static void visit_custom_call(CopyInsertion *ci, Instruction *call)
{
    const Attr *attr = inst_attr(call, ATTR_OUTPUT_TO_OPERAND_ALIASING);
    if (attr == NULL)
        return;
    bool **copied = ARENA_ARRAY(ci->scratch, bool *, (size_t)call->operand_count + 1);
    for (uint32_t i = 0; i < attr->aliasing->count; i++) {
        const AliasEntry *e = &attr->aliasing->entries[i];
        uint32_t k = (uint32_t)e->operand;
        const Shape *shape = call->operands[k]->shape;
        size_t leaf = alias_index_leaf(shape, e->input);
        if (copied[k] == NULL)
            copied[k] = ARENA_ARRAY(ci->scratch, bool, shape_leaf_count(shape) + 1);
        copied[k][leaf] = !may_overwrite(ci, call, call->id, k, leaf);
    }
    for (uint32_t k = 0; k < call->operand_count; k++) {
        if (copied[k] != NULL)
            call->operands[k] = with_copies(ci, call->operands[k], copied[k], NULL);
    }
}

static void visit_in_place(CopyInsertion *ci, Instruction *fusion)
{
    /* what the text says of a fusion's buffers holds for its author's kernel, not for ours */
    inst_unset(fusion, ATTR_OUTPUT_TO_OPERAND_ALIASING);
    KernelKind kind = kernel_kind_of(fusion);
    if (kind == KERNEL_COUNT)
        return;
    uint32_t leaves = (uint32_t)shape_leaf_count(fusion->shape);
    for (uint32_t leaf = 0; leaf < leaves; leaf++) {
        int64_t operand = kernel_in_place(fusion, kind, leaf);
        if (operand < 0)
            continue;
        if (!may_overwrite(ci, fusion, fusion->id, (uint32_t)operand, 0))
            fusion->operands[operand] = add_copy(ci, fusion->operands[operand]);
        set_in_place(fusion, leaf, (uint32_t)operand);
    }
}

static uint32_t done_of(const CopyInsertion *ci, const Instruction *start)
{
    uint32_t i = start->id;
    do
        i++;
    while (!op_is(ci->comp->instructions[i]->op, OPF_ASYNC_DONE) ||
           ci->comp->instructions[i]->operands[0] != start);
    return i;
}

/* The program reads the value while what `start` began may write over it. */
static bool is_read_beside(const CopyInsertion *ci, const Instruction *start,
                           uint32_t done, Source s)
{
    bool reads = false;
    for (uint32_t i = start->id + 1; i < done && !reads; i++) {
        const Instruction *inst = ci->comp->instructions[i];
        bool ends =
            op_is(inst->op, OPF_ASYNC_DONE); /* what was started reads until it is done */
        const Instruction *reader = ends ? inst->operands[0] : inst;
        if (!alias_defines(inst) && !op_is(inst->op, OPF_CONTROL) && !ends)
            continue;
        for (uint32_t k = 0; k < reader->operand_count && !reads; k++) {
            for (size_t leaf = 0; leaf < shape_leaf_count(reader->operands[k]->shape);
                 leaf++)
                reads |= value_source_is(value_source(reader->operands[k], leaf), s);
        }
    }
    return reads;
}

static void visit_async(CopyInsertion *ci, Instruction *start)
{
    const Computation *comp = inst_called(start, 0);
    bool **copied = ARENA_ARRAY(ci->scratch, bool *, (size_t)start->operand_count + 1);
    for (size_t leaf = 0; leaf < shape_leaf_count(comp->root->shape); leaf++) {
        Source argument;
        if (!in_place_argument(comp, leaf, &argument))
            continue;
        uint32_t k = (uint32_t)argument.inst->parameter;
        if (copied[k] == NULL)
            copied[k] = ARENA_ARRAY(ci->scratch, bool,
                                    shape_leaf_count(start->operands[k]->shape) + 1);
        uint32_t done = done_of(ci, start);
        copied[k][argument.leaf] =
            !may_overwrite(ci, start, done, k, argument.leaf) ||
            is_read_beside(ci, start, done,
                           value_source(start->operands[k], argument.leaf));
    }
    for (uint32_t k = 0; k < start->operand_count; k++) {
        if (copied[k] != NULL)
            start->operands[k] = with_copies(ci, start->operands[k], copied[k], NULL);
    }
}

static void visit_while(CopyInsertion *ci, Instruction *loop)
{
    Instruction *init = loop->operands[0];
    size_t n = shape_leaf_count(init->shape);
    bool *copied = ARENA_ARRAY(ci->scratch, bool, n + 1);
    for (size_t i = 0; i < n; i++)
        ci->handed[leaf_of(ci, value_source(init, i))]++;
    for (size_t i = 0; i < n; i++) {
        if (loop_hands_on(loop, i) || !shape_is_array(shape_leaf(init->shape, i)))
            continue;
        Source s = value_source(init, i);
        uint32_t id = leaf_of(ci, s);
        copied[i] = !is_ours(ci, s) || ci->last_use[id] != loop->id || ci->handed[id] > 1;
    }
    for (size_t i = 0; i < n; i++)
        ci->handed[leaf_of(ci, value_source(init, i))] = 0;
    loop->operands[0] = with_copies(ci, init, copied, NULL);
}

/* The copies take place one after the other: (a, b) -> (copy(b), copy(a)) would give b twice,
 * since the first one writes where a lies. Which leaves read what a copy before them writes. */
static const bool *overwritten(const CopyInsertion *ci, const bool *copied)
{
    Instruction *root = ci->comp->root;
    size_t n = shape_leaf_count(root->shape);
    bool *writes = ARENA_ARRAY(ci->scratch, bool, (size_t)ci->leaf_count + 1);
    bool *early = ARENA_ARRAY(ci->scratch, bool, n + 1);
    for (size_t i = 0; i < n; i++) {
        Source present;
        if (!copied[i])
            continue;
        early[i] = writes[leaf_of(ci, in_place_origin(value_source(root, i), true))];
        if (carried(ci, i, &present))
            writes[leaf_of(ci, present)] = true;
    }
    return early;
}

/* The last use of anything that lies in the buffer of a value: of itself, and of what was
 * updated in place there. */
static void note_buffer_uses(CopyInsertion *ci)
{
    const Computation *comp = ci->comp;
    ci->buffer_last_use = ARENA_ARRAY(ci->scratch, uint32_t, (size_t)ci->leaf_count + 1);
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        size_t n = shape_leaf_count(inst->shape);
        for (size_t leaf = 0; leaf < n; leaf++) {
            Source s = value_source(inst, leaf);
            uint32_t used = ci->last_use[leaf_of(ci, s)];
            uint32_t *last = &ci->buffer_last_use[leaf_of(ci, in_place_origin(s, true))];
            *last = used > *last ? used : *last;
        }
    }
}

/* Bytes of the arrays that the computation makes, `but` and what lies in arguments left out. */
static int64_t made_bytes(const CopyInsertion *ci, Source but)
{
    int64_t sum = 0;
    for (Instruction *inst = inst_first(ci->comp); inst; inst = inst_next(inst)) {
        for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++) {
            Source s = value_source(inst, leaf);
            if (s.inst == inst && is_made_here(s) && !value_source_is(s, but) &&
                in_place_origin(s, true).inst->op != OP_PARAMETER)
                sum += shape_bytes(shape_leaf(inst->shape, leaf));
        }
    }
    return sum;
}

/* The result takes a buffer of its own rather than that of the argument, into which it would have to be copied as a
 * whole: by its size, both ways need as much memory, since hardly anything else is made. */
static bool gives_up(const CopyInsertion *ci, const AliasEntry *e, size_t leaf)
{
    const Shape *shape = shape_leaf(ci->comp->root->shape, leaf);
    Source next = value_source(ci->comp->root, leaf), present;
    if (e->must || !carried(ci, leaf, &present) || !shape_is_array(shape) ||
        shape_is_dynamic(shape) || next.inst->op != OP_FUSION ||
        in_place_origin(next, true).inst != next.inst)
        return false;
    int64_t bytes = shape_bytes(shape);
    return bytes >= GIVEN_UP_BYTES && made_bytes(ci, next) <= bytes / GIVEN_UP_PART &&
           !follows(ci, next, present);
}

/* Drops aliases of the entry that would only cost a copy. */
static void give_up_aliases(CopyInsertion *ci)
{
    Aliasing *all = &ci->m->config.input_output_alias;
    AliasEntry *kept = ARENA_ARRAY(ci->m->arena, AliasEntry, (size_t)all->count + 1);
    uint32_t count = 0;
    for (uint32_t i = 0; i < all->count && ci->comp == ci->m->entry; i++) {
        const AliasEntry *e = &all->entries[i];
        size_t leaf = alias_index_leaf(ci->comp->root->shape, e->output);
        if (gives_up(ci, e, leaf))
            ci->present[leaf] = (Source){NULL, 0};
        else
            kept[count++] = *e;
    }
    if (ci->comp == ci->m->entry && count != all->count) {
        *all = (Aliasing){.entries = kept, .count = count};
        ci->changed = true;
    }
}

static void visit_root(CopyInsertion *ci)
{
    note_buffer_uses(ci);
    give_up_aliases(ci);
    Instruction *root = ci->comp->root;
    size_t n = shape_leaf_count(root->shape);
    bool *copied = ARENA_ARRAY(ci->scratch, bool, n + 1);
    bool *taken = ARENA_ARRAY(ci->scratch, bool, (size_t)ci->leaf_count + 1);
    for (size_t i = 0; i < n; i++) {
        if (!shape_is_array(shape_leaf(root->shape, i)))
            continue;
        Source s = value_source(root, i), present;
        Source origin = in_place_origin(s, true);
        if (carried(ci, i, &present))
            copied[i] = !follows(ci, s, present);
        else
            copied[i] = !is_made_here(s) || origin.inst->op == OP_PARAMETER;
        /* one buffer cannot be two results */
        copied[i] |= taken[leaf_of(ci, origin)];
        if (!copied[i])
            taken[leaf_of(ci, origin)] = true;
    }
    ci->comp->root = with_copies(ci, root, copied, overwritten(ci, copied));
}

/* Which parameter leaves are updated in place: of a loop body, step after step, of the entry, by the call.
 * A loop inside updates what it starts from. */
static void find_chains(CopyInsertion *ci)
{
    for (size_t i = 0; i < shape_leaf_count(ci->comp->root->shape); i++) {
        Source present;
        if (!carried(ci, i, &present))
            continue;
        Source origin = in_place_origin(value_source(ci->comp->root, i), true);
        if (value_source_is(origin, present))
            ci->chain[leaf_of(ci, present)] = true;
    }
}

static void take_order(CopyInsertion *ci)
{
    Computation *comp = ci->comp;
    uint32_t n = (uint32_t)ci->order_count;
    memset(comp->instructions, 0, comp->instruction_count * sizeof *comp->instructions);
    memcpy(comp->instructions, ci->order, n * sizeof *ci->order);
    comp->instruction_count = n;
    computation_compact(comp);
    ci->order = NULL;
    ci->order_count = ci->order_capacity = 0;
}

/* Arguments that an asynchronous computation updates in place are given up to it. */
static void find_given_up(CopyInsertion *ci)
{
    for (size_t i = 0; i < shape_leaf_count(ci->comp->root->shape); i++) {
        Source argument;
        if (in_place_argument(ci->comp, i, &argument))
            ci->present[i] = argument;
    }
}

static void visit_computation(CopyInsertion *ci, CompUse use)
{
    Computation *comp = ci->comp;
    computation_compact(comp);
    ci->present = carried_presents(comp, use == USE_BODY, ci->scratch);
    if (use == USE_ASYNC)
        find_given_up(ci);
    number_leaves(ci);
    find_chains(ci);
    uint32_t count = comp->instruction_count;
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        if (inst->op == OP_FUSION)
            visit_in_place(ci, inst);
        else if (inst->op == OP_CUSTOM_CALL)
            visit_custom_call(ci, inst);
        else if (inst->op == OP_ASYNC_START)
            visit_async(ci, inst);
        else if (inst->op == OP_WHILE)
            visit_while(ci, inst);
        append(ci, inst);
    }
    take_order(ci);
    if (use == USE_CONDITION)
        return; /* its result is read where it lies, and takes nobody's buffer */
    number_leaves(ci);
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
        append(ci, inst);
    visit_root(ci);
    take_order(ci);
}

/* By computation: what runs it. */
static CompUse *find_uses(const Module *m, Arena *scratch)
{
    CompUse *use = ARENA_ARRAY(scratch, CompUse, (size_t)m->computation_count + 1);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op == OP_WHILE) {
                use[inst_called(inst, 0)->id] = USE_CONDITION;
                use[inst_called(inst, 1)->id] = USE_BODY;
            } else if (inst->op == OP_ASYNC_START) {
                use[inst_called(inst, 0)->id] = USE_ASYNC;
            }
        }
    }
    return use;
}

bool pass_copy_insertion(Module *m, PassContext *cx)
{
    CopyInsertion ci = {.m = m, .scratch = cx->scratch};
    Computations programs = module_programs(m, cx->scratch);
    const CompUse *use = find_uses(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++) {
        ci.comp = programs.data[c];
        visit_computation(&ci, use[ci.comp->id]);
    }
    return ci.changed;
}
