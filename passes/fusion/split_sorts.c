/* Sorts of rows that no block's shared memory holds, or that are long and few: by digits where the key is a number
 * (radix_sorts.c), else runs first, then merges of two runs each.
 *
 *   s = fusion(x), calls={sort of f32[100000]}
 *     =>  a = fusion(x), calls={sort, sorts_runs=4096}
 *         b = fusion(a), calls={sort, merges_runs=8192}
 *         ...
 *         s = fusion(e), calls={sort, merges_runs=131072}
 *
 * n elements take n log n steps in each of log2(n / run) kernels - n log^2 n where the comparator may
 * contradict itself (merges_runs_of_any_order). Each step says that it sorts everything, which is what
 * all of them together do (ir/kernel/sort.h).
 *
 * By several keys, one after the other, they are sorted by each of them, the last one first, where that is faster.
 *
 * Needs: wrapped. Keeps: values, but where NaN goes if the comparator does not say. Ends: what it makes fits. */
#include "ir/kernel/kind.h"
#include "ir/kernel/rules.h"
#include "ir/kernel/sort.h"
#include "passes/fusion/fusion.h"

typedef struct Split {
    Module *m;
    Computation *comp;
    PassContext *cx;
    const Instruction *sort; /* as it was */
    bool trusts;             /* its comparator */
} Split;

/* Another sort of what `before` made. */
static Instruction *add_sort(Split *s, Instruction *before, const char *name)
{
    uint32_t n = s->sort->operand_count;
    Computation *fused = module_add_computation(s->m, name);
    Instruction **outer = ARENA_ARRAY(s->cx->scratch, Instruction *, n);
    Instruction **inner = ARENA_ARRAY(s->cx->scratch, Instruction *, n);
    fused->is_fused = true;
    for (uint32_t i = 0; i < n; i++) {
        const Shape *leaf = shape_leaf(before->shape, i);
        outer[i] =
            shape_is_tuple(before->shape) ? computation_add_element(before, i) : before;
        inner[i] = computation_add_parameter(fused, i, leaf, NULL);
    }
    fused->root = computation_add_like(fused, s->sort, s->sort->shape, n, inner);
    Instruction *fusion =
        computation_add(s->comp, OP_FUSION, before->shape, n, outer, before->name);
    fusion->span = before->span;
    inst_set_int(fusion, ATTR_KIND, FUSION_LOOP);
    inst_set_computation(fusion, ATTR_CALLS, fused);
    kernel_kind_set(fusion, KERNEL_SORT);
    return fusion;
}

/* A merge of what `before` made. */
static Instruction *add_merge(Split *s, Instruction *before, int64_t run)
{
    Instruction *fusion = add_sort(s, before, "merge");
    sort_set_step(inst_called(fusion, 0)->root, (SortStep){run, true, s->trusts});
    return fusion;
}

/* -- NaN ------------------------------------------------------------------------------------------- */

static bool asks_for_less(const Instruction *c)
{
    if (c == NULL || c->op != OP_COMPARE ||
        !dtype_is_float(c->operands[0]->shape->dtype) ||
        inst_int(c, ATTR_TYPE, COMPARE_FLOAT) == COMPARE_TOTALORDER)
        return false;
    int64_t d = inst_int(c, ATTR_DIRECTION, DIRECTION_EQ);
    return d != DIRECTION_EQ && d != DIRECTION_NE;
}

static Instruction *compare(Instruction *a, Instruction *b, const Shape *pred,
                            int64_t direction)
{
    Instruction *operands[2] = {a, b};
    Instruction *c = computation_add(a->parent, OP_COMPARE, pred, 2, operands, NULL);
    inst_set_int(c, ATTR_DIRECTION, direction);
    return c;
}

static Instruction *both(Instruction *a, Instruction *b, OpCode op)
{
    Instruction *operands[2] = {a, b};
    return computation_add(a->parent, op, a->shape, 2, operands, NULL);
}

/* The comparison where NaN is greater than every number. */
static Instruction *with_nan_last(const Instruction *c)
{
    Instruction *a = c->operands[0], *b = c->operands[1];
    int64_t direction = inst_int(c, ATTR_DIRECTION, DIRECTION_EQ);
    bool is_greater = direction == DIRECTION_GT || direction == DIRECTION_GE;
    Instruction *more = is_greater ? a : b, *less = is_greater ? b : a;
    Instruction *decides = compare(more, more, c->shape, DIRECTION_NE);
    if (direction == DIRECTION_LT || direction == DIRECTION_GT)
        decides = both(decides, compare(less, less, c->shape, DIRECTION_EQ), OP_AND);
    return both(compare(a, b, c->shape, direction), decides, OP_OR);
}

/* Merges look for positions by halving, which loses elements where NaN is neither less nor greater than
 * anything: in the comparators of the steps it is greater. */
static void order_nan(Split *s, Instruction *sort)
{
    Computation *comp = inst_called(sort, 0);
    uint32_t count = comp->instruction_count, found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += asks_for_less(comp->instructions[i]);
    if (found == 0)
        return;
    comp = computation_clone(comp, comp->name);
    count = comp->instruction_count;
    Instruction **by = ARENA_ARRAY(s->cx->scratch, Instruction *, count);
    for (uint32_t i = 0; i < count; i++) {
        if (asks_for_less(comp->instructions[i]))
            by[i] = with_nan_last(comp->instructions[i]);
    }
    computation_substitute(comp, by, count);
    computation_sort(comp);
    inst_set_computation(sort, ATTR_TO_APPLY, comp);
}

/* -- steps ----------------------------------------------------------------------------------------- */

static Instruction *hero(const Instruction *fusion)
{
    const Computation *comp = inst_called(fusion, 0);
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op == OP_SORT)
            return inst;
    }
    return NULL;
}

/* Runs first, then merges of two. */
static Instruction *by_merges(Split *s, Instruction *fusion)
{
    Instruction *sort = hero(fusion);
    const Shape *x = sort->operands[0]->shape;
    int64_t size = x->dims[inst_ints(sort, ATTR_DIMENSIONS).data[0]];
    int64_t run = sort_slots(sort, TARGET_STATIC_SHARED);
    run = run < SORT_MOST_RUN ? run : SORT_MOST_RUN;
    s->sort = sort;
    s->trusts = sort_has_order(sort);
    if (s->trusts)
        order_nan(s, sort);
    sort_set_step(sort, (SortStep){run, false, false});
    Instruction *last = fusion;
    for (; run < size; run *= 2)
        last = add_merge(s, last, 2 * run);
    return last;
}

/* -- several keys ---------------------------------------------------------------------------------- */

enum { MOST_KEYS = 8 };

typedef struct Keys {
    const Computation *comparator; /* by all of them */
    const Instruction *less[MOST_KEYS];
    uint32_t count;
} Keys;

/* `inst` and what it is computed from, in a computation that has the parameters already. */
static Instruction *copied(Computation *to, const Instruction *inst, Instruction **made,
                           Arena *scratch)
{
    if (made[inst->id] != NULL)
        return made[inst->id];
    if (inst->op == OP_CONSTANT)
        return made[inst->id] = computation_add_constant(to, inst->literal, NULL);
    Instruction **operands =
        ARENA_ARRAY(scratch, Instruction *, inst->operand_count + 1u);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        operands[i] = copied(to, inst->operands[i], made, scratch);
    return made[inst->id] =
               computation_add_like(to, inst, inst->shape, inst->operand_count, operands);
}

/* The sort goes by one key only; equals stay in their order. */
static void set_key(Split *s, Instruction *sort, const Keys *keys, uint32_t which)
{
    const Computation *from = keys->comparator;
    Computation *comp = module_add_computation(s->m, "key");
    Instruction **made =
        ARENA_ARRAY(s->cx->scratch, Instruction *, from->instruction_count + 1u);
    for (uint32_t i = 0; i < from->parameter_count; i++) {
        const Instruction *p = from->parameters[i];
        made[p->id] = computation_add_parameter(comp, i, p->shape, NULL);
    }
    comp->root = copied(comp, keys->less[which], made, s->cx->scratch);
    inst_set_computation(sort, ATTR_TO_APPLY, comp);
    inst_set_int(sort, ATTR_IS_STABLE, 1);
}

/* A sort by each key, the last one first; those that are equal by a key stay in the order of the later ones. NULL: a key
 * has no digits, and the fusion has changed. */
static Instruction *sort_by_all(Split *s, Instruction *fusion, const Keys *keys)
{
    Instruction *last = fusion;
    s->sort = hero(fusion);
    for (uint32_t k = keys->count; k-- > 0 && last != NULL;) {
        if (last != fusion || k + 1 != keys->count)
            last = add_sort(s, last, "sort");
        set_key(s, hero(last), keys, k);
        last = sort_by_digits(s->m, s->cx, s->comp, last);
    }
    return last;
}

static Instruction *add_copy(Split *s, Instruction *fusion)
{
    Instruction *copy = computation_add_like(s->comp, fusion, fusion->shape,
                                             fusion->operand_count, fusion->operands);
    inst_set_computation(copy, ATTR_CALLS,
                         computation_clone(inst_called(fusion, 0), "sort"));
    return copy;
}

/* Digits of one key after the other; NULL: it has no such keys, or merges are faster. */
static Instruction *by_keys(Split *s, Instruction *fusion)
{
    Instruction *sort = hero(fusion);
    Keys keys = {.comparator = inst_called(sort, 0)};
    uint32_t first = s->comp->instruction_count;
    keys.count = sort_comparisons(sort, keys.less, MOST_KEYS);
    if (keys.count < 2)
        return NULL;
    bool has_digits = sort_by_all(s, add_copy(s, fusion), &keys) != NULL;
    double seconds = has_digits ? kernels_seconds(s->cx, s->comp, first) : 0;
    computation_remove_from(s->comp, first);
    if (!has_digits)
        return NULL;
    by_merges(s, add_copy(s, fusion));
    double merged = kernels_seconds(s->cx, s->comp, first);
    computation_remove_from(s->comp, first);
    return seconds < merged ? sort_by_all(s, fusion, &keys) : NULL;
}

/* The last step; NULL: rows fit as they are. */
static Instruction *split(Split *s, Instruction *fusion)
{
    if (fusion->op != OP_FUSION || kernel_hero(fusion) != OP_SORT)
        return NULL;
    Instruction *sort = hero(fusion);
    if (sort_is_in_block(sort, s->cx->target) ||
        shape_elements(sort->operands[0]->shape) == 0 || sort_step(sort).run != 0)
        return NULL;
    Instruction *sorted = sort_by_digits(s->m, s->cx, s->comp, fusion);
    if (sorted == NULL)
        sorted = by_keys(s, fusion);
    return sorted != NULL ? sorted : by_merges(s, fusion);
}

static bool split_all(Split *s)
{
    uint32_t count = s->comp->instruction_count;
    bool changed = false;
    Instruction **by = ARENA_ARRAY(s->cx->scratch, Instruction *, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = s->comp->instructions[i];
        by[i] = inst != NULL ? split(s, inst) : NULL;
        changed |= by[i] != NULL;
    }
    /* readers take the last step: new instructions, which read the others, do not change */
    for (uint32_t i = 0; changed && i < count; i++) {
        Instruction *inst = s->comp->instructions[i];
        for (uint32_t k = 0; inst != NULL && k < inst->operand_count; k++) {
            uint32_t id = inst->operands[k]->id;
            if (id < count && by[id] != NULL)
                inst->operands[k] = by[id];
        }
        for (uint32_t k = 0; inst != NULL && k < inst->control_count; k++) {
            uint32_t id = inst->control[k]->id;
            if (id < count && by[id] != NULL)
                inst->control[k] = by[id];
        }
    }
    if (changed && s->comp->root->id < count && by[s->comp->root->id] != NULL)
        s->comp->root = by[s->comp->root->id];
    return changed;
}

bool pass_split_sorts(Module *m, PassContext *cx)
{
    Split s = {.m = m, .cx = cx};
    Computations programs = module_programs(m, cx->scratch);
    bool changed = false;
    for (uint32_t c = 0; c < programs.count; c++) {
        s.comp = programs.data[c];
        changed |= split_all(&s);
    }
    if (changed)
        module_sort(m);
    return changed;
}
