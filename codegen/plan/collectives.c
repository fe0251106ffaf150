/* Collectives in the plan: one command each, with the groups of devices (cliques) that it
 * works in. They come here in the form that libgxrt carries out: split and joined along the
 * first dimension, reducing by sum, product, minimum or maximum of a type that NCCL adds
 * (passes/collectives/form.c sees to that). */
#include <string.h>

#include "codegen/plan/variant.h"
#include "ir/analysis/collective.h"

/* -- cliques ------------------------------------------------------------------------------ */

/* Groups as the plan's numbers: for each its size, then its devices. */
static int64_t *group_numbers(Arena *a, IntLists groups, uint32_t *count)
{
    size_t n = 0;
    for (uint32_t g = 0; g < groups.count; g++)
        n += groups.data[g].count + 1;
    int64_t *numbers = ARENA_ARRAY(a, int64_t, n + 1);
    uint32_t at = 0;
    for (uint32_t g = 0; g < groups.count; g++) {
        numbers[at++] = groups.data[g].count;
        for (uint32_t i = 0; i < groups.data[g].count; i++)
            numbers[at++] = groups.data[g].data[i];
    }
    *count = at;
    return numbers;
}

/* The clique with these groups: an equal one that exists, or a new one. */
static uint32_t add_clique(Variant *v, const Instruction *inst)
{
    PlanBuilder *b = &v->plan;
    IntLists groups = collective_groups(v->arena, inst);
    uint32_t n;
    int64_t *numbers = group_numbers(v->arena, groups, &n);
    for (uint32_t i = 0; i < b->cliques_count; i++) {
        const PlanClique *c = &b->cliques[i];
        if (c->group_count == groups.count && c->number_count == n &&
            memcmp(b->numbers + c->groups, numbers, n * sizeof *numbers) == 0)
            return i;
    }
    PlanClique c = {
        .name = plan_string(b, arena_printf(v->arena, "clique%u", b->cliques_count)),
        .mode = (uint32_t)collective_mode(inst),
        .group_count = groups.count,
        .groups = plan_add_numbers(b, numbers, n),
        .number_count = n};
    return plan_add_cliques(b, &c, 1);
}

_Static_assert((int)COLLECTIVE_CROSS_REPLICA == (int)PLAN_CROSS_REPLICA &&
                   (int)COLLECTIVE_CROSS_PARTITION == (int)PLAN_CROSS_PARTITION &&
                   (int)COLLECTIVE_CROSS_REPLICA_AND_PARTITION ==
                       (int)PLAN_CROSS_REPLICA_AND_PARTITION &&
                   (int)COLLECTIVE_FLATTENED_ID == (int)PLAN_FLATTENED_ID,
               "the plan numbers group modes as the module does");

/* -- operations ----------------------------------------------------------------------------- */

static bool kind_of(const Instruction *inst, PlanCollectiveKind *out)
{
    switch (op_plain(inst->op)) {
    case OP_ALL_REDUCE:
        *out = PLAN_ALL_REDUCE;
        return true;
    case OP_ALL_GATHER:
        *out = PLAN_ALL_GATHER;
        return true;
    case OP_REDUCE_SCATTER:
        *out = PLAN_REDUCE_SCATTER;
        return true;
    case OP_ALL_TO_ALL:
        *out = PLAN_ALL_TO_ALL;
        return true;
    case OP_COLLECTIVE_PERMUTE:
        *out = PLAN_COLLECTIVE_PERMUTE;
        return !inst_has(inst, ATTR_PERMUTE_SLICE_SIZES);
    case OP_COLLECTIVE_BROADCAST:
        *out = PLAN_BROADCAST;
        return !inst_bool(inst, ATTR_HAS_DYNAMIC_ROOT);
    default:
        return false;
    }
}

static PlanReduction reduction_of(const Instruction *inst)
{
    switch (collective_reduction(inst_called(inst, 0))) {
    case OP_ADD:
        return PLAN_REDUCE_SUM;
    case OP_MULTIPLY:
        return PLAN_REDUCE_PRODUCT;
    case OP_MINIMUM:
        return PLAN_REDUCE_MIN;
    case OP_MAXIMUM:
        return PLAN_REDUCE_MAX;
    default:
        return PLAN_REDUCE_NONE;
    }
}

/* Elements whose number of bytes is what matters: types that NCCL does not know move as u8. */
static const char *type_name(const Shape *s)
{
    return dtype_is_sub_byte(s->dtype) ? "u8" : dtype_name(s->dtype);
}

/* Result leaf of operand k. */
static size_t result_leaf(const Instruction *inst, uint32_t k)
{
    bool starts = op_is(inst->op, OPF_ASYNC_START) && inst->op != OP_ALL_REDUCE_START;
    return starts ? shape_leaf_count(inst->shape->elements[0]) + k : k;
}

/* The dimension that devices split or join along is the first one that matters. */
static bool is_first_dimension(const Instruction *inst)
{
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    for (uint32_t k = 0; dims.count == 1 && k < inst->operand_count; k++) {
        const Shape *s = inst->operands[k]->shape;
        for (int64_t i = 0; i < dims.data[0]; i++) {
            if (s->dims[i] != 1)
                return false;
        }
    }
    return true;
}

static bool reduces_types(const Variant *v, const Instruction *inst)
{
    for (uint32_t k = 0; k < inst->operand_count; k++) {
        DType t = inst->operands[k]->shape->dtype;
        if (collective_reduces(t, v->target))
            continue;
        diag_unsupported(v->module->diag, inst->span,
                         "%s of %s on %s without the pass "
                         "collective-form",
                         op_info[inst->op].name, dtype_name(t), v->target->name);
        return false;
    }
    return true;
}

static bool check(const Variant *v, const Instruction *inst, PlanCollective *out)
{
    Diag *d = v->module->diag;
    const char *name = op_info[inst->op].name;
    PlanCollectiveKind kind;
    if (!kind_of(inst, &kind) || !is_first_dimension(inst)) {
        diag_unsupported(d, inst->span, "%s of this form in compiled programs", name);
        return false;
    }
    out->kind = kind;
    if (kind != PLAN_ALL_REDUCE && kind != PLAN_REDUCE_SCATTER)
        return true;
    out->reduction = reduction_of(inst);
    if (out->reduction == PLAN_REDUCE_NONE) {
        diag_unsupported(d, inst->span, "%s by the computation %s", name,
                         inst_called(inst, 0)->name);
        return false;
    }
    return reduces_types(v, inst);
}

static void add_pairs(Variant *v, const Instruction *inst, PlanCollective *c)
{
    IntLists pairs = collective_pairs(v->arena, inst);
    c->pairs = v->plan.numbers_count;
    c->pair_count = pairs.count;
    for (uint32_t i = 0; i < pairs.count; i++)
        plan_add_numbers(&v->plan, pairs.data[i].data, 2);
}

/* Args and types of all buffers that hold anything; how many. */
static uint32_t add_buffers(Variant *v, const Instruction *inst, PlanCollective *c,
                            PlanArg *args)
{
    uint32_t n = 0;
    uint32_t *types = ARENA_ARRAY(v->arena, uint32_t, (size_t)inst->operand_count + 1);
    bool mixed = false;
    for (uint32_t k = 0; k < inst->operand_count; k++) {
        const Shape *s = inst->operands[k]->shape;
        size_t leaf = result_leaf(inst, k);
        bool empty =
            shape_bytes(s) == 0 || shape_bytes(shape_leaf(inst->shape, leaf)) == 0;
        if (empty && (c->flags & PLAN_COLLECTIVE_TUPLE) == 0)
            continue;
        args[2 * n] = variant_slice_arg(v, inst->operands[k], 0, PLAN_READ);
        args[2 * n + 1] = variant_slice_arg(v, inst, leaf, PLAN_WRITE);
        types[n] = plan_string(&v->plan, type_name(s));
        mixed |= types[n] != types[0];
        n++;
    }
    c->dtype = n == 0 ? 0 : types[0];
    c->dtypes = mixed ? plan_add_refs(&v->plan, types, n) : PLAN_NONE;
    return n;
}

bool variant_collective_command(Variant *v, const Instruction *inst)
{
    PlanCollective c = {.dtypes = PLAN_NONE,
                        .channel = inst_int(inst, ATTR_CHANNEL_ID, 0)};
    if (!check(v, inst, &c))
        return false;
    if (c.kind == PLAN_ALL_TO_ALL && !inst_has(inst, ATTR_DIMENSIONS))
        c.flags |= PLAN_COLLECTIVE_TUPLE;
    PlanArg *args = ARENA_ARRAY(v->arena, PlanArg, (size_t)inst->operand_count * 2 + 2);
    uint32_t n = add_buffers(v, inst, &c, args);
    if (n == 0)
        return true; /* nothing to move, on every device */
    if (c.kind == PLAN_COLLECTIVE_PERMUTE)
        add_pairs(v, inst, &c);
    c.clique = add_clique(v, inst);
    uint32_t index = plan_add_collectives(&v->plan, &c, 1);
    variant_command(v, PLAN_COLLECTIVE, inst, index, args, 2 * n);
    return true;
}
