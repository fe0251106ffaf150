/* Both halves of a reduction that was split become one kernel, where that takes less time: several blocks share what a
 * result is made of, and the last of them to be done combines what all have found.
 *
 *   p = (f32[64,256], f32[64,256]) fusion(x, dy), kind=column_reduction: sums of 3136 rows each
 *   s = (f32[256], f32[256]) fusion(p#0, p#1), kind=column_reduction: the sums of those
 *   ->  s = (f32[256], f32[256]) fusion(x, dy), kind=column_reduction, column_blocks=64
 *
 * Two halves are launched one behind the other; blocks that share results have to tell each other so, which the last
 * one waits for. The model of time decides, and how many blocks there are.
 *
 * Needs: fused kernels, whose sums of columns are no results of kernels of rows any more. Keeps: values but for the order of
 * sums. Ends: each kernel is tried once. */
#include "ir/kernel/kernel.h"
#include "ir/kernel/reduction.h"
#include "ir/kernel/rules.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/kernel_work.h"
#include "passes/fusion/regroup.h"

enum { MOST_BLOCKS = 1024 }; /* for one result */

/* The kernel that both become. */
typedef struct Joined {
    Instruction *fusion;
    int32_t *first, *second; /* [results of each] where they are; -1: not wanted */
} Joined;

static bool is_candidate(const Instruction *inst)
{
    return regroup_is_reduction(inst) && !kernel_is(inst, KERNEL_BOTH_WAYS);
}

/* Nothing but `second` reads result `leaf`. */
static bool is_only_read_by(const Regroup *j, const Instruction *first, int64_t leaf,
                            const Instruction *second)
{
    bool is_tuple = shape_is_tuple(first->shape);
    for (uint32_t i = j->uses.start[first->id]; i < j->uses.start[first->id + 1]; i++) {
        const Instruction *user = j->uses.list[i];
        if (!is_tuple && user != second)
            return false;
        if (!is_tuple || inst_int(user, ATTR_INDEX, 0) != leaf)
            continue;
        if (user == j->comp->root)
            return false;
        for (uint32_t k = j->uses.start[user->id]; k < j->uses.start[user->id + 1]; k++) {
            if (j->uses.list[k] != second)
                return false;
        }
    }
    return true;
}

static Instruction *find_first(const Regroup *j, const Instruction *second)
{
    for (uint32_t k = 0; k < second->operand_count; k++) {
        Instruction *o = second->operands[k];
        int64_t leaf = 0;
        if (o->op == OP_GET_TUPLE_ELEMENT) {
            leaf = inst_int(o, ATTR_INDEX, 0);
            o = o->operands[0];
        }
        if (is_candidate(o) && o != j->comp->root &&
            fusion_result(o, (uint32_t)leaf).inst->op == OP_REDUCE &&
            regroup_may_go(j, o) && is_only_read_by(j, o, leaf, second) &&
            !fusion_leads_around(j->comp, o, second, j->brief))
            return o;
    }
    return NULL;
}

/* -- the kernel ----------------------------------------------------------------------------------------- */

/* Both begin with one value: by max, min, and, or any number may join twice, and another one would be lost. */
static bool begin_alike(const Instruction *first, const Instruction *second)
{
    const Instruction *a = first->operands[1], *b = second->operands[1];
    return a == b || (a->op == OP_CONSTANT && inst_same_operation(a, b));
}

/* reduce(reduce(x, a), b) -> reduce(x, a + b), where the initial value may join twice; or NULL. */
static Instruction *join_reduces(const Regroup *j, Instruction *second)
{
    Instruction *first = second->operands[0];
    if (second->op != OP_REDUCE || first->op != OP_REDUCE || second->operand_count != 2 ||
        first->operand_count != 2 || !reduction_may_join_twice(first) ||
        !reduction_may_join_twice(second) || !begin_alike(first, second) ||
        reduction_is_kept_wider(first) ||
        inst_called(first, 0)->root->op != inst_called(second, 0)->root->op)
        return NULL;
    const Shape *from = first->operands[0]->shape;
    Ints inner = inst_ints(first, ATTR_DIMENSIONS),
         outer = inst_ints(second, ATTR_DIMENSIONS);
    int64_t *dims = ARENA_ARRAY(j->brief, int64_t, from->rank);
    uint32_t count = 0;
    int64_t kept = 0;
    for (int64_t d = 0; d < from->rank; d++) {
        bool is_inner = ints_contain(inner, d);
        if (is_inner || ints_contain(outer, kept))
            dims[count++] = d;
        kept += !is_inner;
    }
    Instruction *operands[2] = {first->operands[0], second->operands[1]};
    Instruction *joined =
        computation_append(second->parent, OP_REDUCE, second->shape, 2, operands);
    inst_set_ints(joined, ATTR_DIMENSIONS, dims, count);
    inst_set_computation(joined, ATTR_TO_APPLY, inst_called(second, 0));
    return joined;
}

/* False: there are none. */
static bool join_all_reduces(const Regroup *j, Computation *own, Instruction **results,
                             uint32_t count)
{
    uint32_t n = own->instruction_count;
    Instruction **now = ARENA_ARRAY(j->brief, Instruction *, n);
    bool found = false;
    for (uint32_t i = 0; i < n; i++) {
        if (own->instructions[i] != NULL && own->instructions[i]->op == OP_REDUCE)
            now[i] = join_reduces(j, own->instructions[i]);
        found |= now[i] != NULL;
    }
    for (Instruction *inst = inst_first(own); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            if (inst->operands[k]->id < n && now[inst->operands[k]->id] != NULL)
                inst->operands[k] = now[inst->operands[k]->id];
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (results[i]->id < n && now[results[i]->id] != NULL)
            results[i] = now[results[i]->id];
    }
    return found;
}

static bool join(const Regroup *j, const Instruction *first, Instruction *second,
                 Joined *out)
{
    uint32_t of_first = fusion_result_count(first),
             of_second = fusion_result_count(second), count = 0;
    Instruction *fusion = out->fusion = regroup_copy(j->comp, first);
    Computation *own = inst_called(fusion, 0);
    Instruction **results =
        ARENA_ARRAY(j->brief, Instruction *, (size_t)of_first + of_second);
    Instruction *made = regroup_bring_in(j, fusion, first, second);
    out->first = ARENA_ARRAY(j->brief, int32_t, of_first);
    out->second = ARENA_ARRAY(j->brief, int32_t, of_second);
    for (uint32_t i = 0; i < of_first; i++) {
        out->first[i] = is_only_read_by(j, first, i, second) ? -1 : (int32_t)count;
        if (out->first[i] >= 0)
            results[count++] = own->root->operands[i];
    }
    for (uint32_t i = 0; i < of_second; i++) {
        out->second[i] = (int32_t)count;
        results[count++] = made->op == OP_TUPLE ? made->operands[i] : made;
    }
    if (!join_all_reduces(j, own, results, count))
        return false;
    fusion_set_results(fusion, results, count);
    fusion_drop_unread(fusion, j->brief);
    fusion->shape = own->root->shape;
    if (second == j->comp->root && fusion->shape != second->shape)
        return false;
    KernelKind kind = kernel_kind_choose(fusion, j->cx->target);
    if (kind == KERNEL_COUNT || !kernel_kind_is(kind, KERNEL_REDUCES) ||
        (kernel_kind_info[kind].keys & 1u << KERNEL_KEY_COLUMN_BLOCKS) == 0)
        return false;
    kernel_kind_set(fusion, kind);
    return true;
}

/* -- the choice ------------------------------------------------------------------------------------------ */

static void set_blocks(const Regroup *j, Instruction *fusion, int64_t blocks)
{
    KernelConfig c = {.set = 1u << KERNEL_KEY_COLUMN_BLOCKS, .column_blocks = blocks};
    config_set_object(fusion, "config", kernel_config_text(j->brief, &c));
}

static int64_t lanes_of(const KernelDesign *d)
{
    return d->config.lanes.count != 0 ? d->config.lanes.data[0] : 1;
}

/* With so many blocks for each result. False: that cannot be, or leaves more multiprocessors idle than the first half, or
 * reads less at an access: of that the model sees too little. */
static bool seconds_with(const Regroup *j, Instruction *fusion, int64_t blocks,
                         const KernelDesign *first, double *seconds)
{
    KernelDesign d;
    KernelWork w;
    uint32_t least = target_multiprocessors(j->cx->target);
    least = first->geometry.grid[0] < least ? first->geometry.grid[0] : least;
    set_blocks(j, fusion, blocks);
    kernel_design(fusion, j->cx->target, j->brief, &d);
    if (d.wrong != NULL || d.unsupported != NULL || d.geometry.grid[0] < least ||
        lanes_of(&d) < lanes_of(first))
        return false;
    kernel_designed_work(&d, &w);
    *seconds = kernel_time(&w, j->cx->target->device).seconds;
    return true;
}

/* Blocks for each result with which the kernel takes the shortest time, less than `best`; 0: none. */
static int64_t choose_blocks(const Regroup *j, Instruction *fusion,
                             const Instruction *first, double best)
{
    int64_t chosen = 0;
    double seconds;
    KernelDesign d;
    kernel_design(first, j->cx->target, j->brief, &d);
    for (int64_t blocks = 2; blocks <= MOST_BLOCKS; blocks *= 2) {
        if (seconds_with(j, fusion, blocks, &d, &seconds) && seconds < best) {
            best = seconds;
            chosen = blocks;
        }
    }
    return chosen;
}

/* -- the graph -------------------------------------------------------------------------------------------- */

static void replace_results(const Regroup *j, Instruction *kernel, const int32_t *indices,
                            Instruction *fusion, Instruction **forward)
{
    bool is_tuple = shape_is_tuple(kernel->shape);
    for (uint32_t i = j->uses.start[kernel->id];
         i < j->uses.start[kernel->id + 1] && is_tuple; i++) {
        Instruction *user = j->uses.list[i];
        int32_t at = indices[inst_int(user, ATTR_INDEX, 0)];
        if (at >= 0)
            forward[user->id] = fusion_result_value(fusion, (uint32_t)at);
        else
            computation_remove(j->comp, user);
    }
    if (is_tuple && kernel == j->comp->root)
        forward[kernel->id] = fusion;
    else if (!is_tuple && indices[0] >= 0)
        forward[kernel->id] = fusion_result_value(fusion, (uint32_t)indices[0]);
    else
        computation_remove(j->comp, kernel);
}

static bool try_kernel(Regroup *j, Instruction *second)
{
    uint32_t count = j->comp->instruction_count;
    Instruction *first = regroup_may_go(j, second) ? find_first(j, second) : NULL;
    Joined joined;
    if (first == NULL)
        return false;
    j->tried = true;
    int64_t blocks = 0;
    if (join(j, first, second, &joined))
        blocks = choose_blocks(j, joined.fusion, first,
                               regroup_seconds(j, first) + regroup_seconds(j, second));
    if (blocks == 0) {
        computation_remove_from(j->comp, count);
        return false;
    }
    set_blocks(j, joined.fusion, blocks);
    Instruction **forward = ARENA_ARRAY(j->brief, Instruction *, count);
    replace_results(j, second, joined.second, joined.fusion, forward);
    replace_results(j, first, joined.first, joined.fusion, forward);
    computation_substitute(j->comp, forward, count);
    regroup_take_graph(j);
    return true;
}

bool pass_join_reductions(Module *m, PassContext *cx)
{
    return cx->target->device != NULL && regroup_run(m, cx, is_candidate, try_kernel);
}
