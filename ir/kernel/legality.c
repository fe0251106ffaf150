/* Which kinds of kernels a fusion can be, and which is best. See kind.h. */
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

const char *body_illegal(const Instruction *fusion, const Instruction *hero)
{
    const Computation *comp = inst_called(fusion, 0);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst == hero)
            continue;
        if (!op_has_elements(inst->op))
            return "an operation inside has no elements";
        if (shape_is_array(inst->shape))
            continue;
        bool is_tuple = inst->op == OP_TUPLE && inst == comp->root;
        bool has_several = inst->op == OP_REDUCE || inst->op == OP_REDUCE_WINDOW;
        if (!is_tuple && !has_several)
            return "a value inside is no array";
    }
    return NULL;
}

const char *hero_root_illegal(const Instruction *fusion, OpCode op)
{
    const Instruction *hero = fusion_hero(fusion, op);
    if (hero == NULL)
        return "it needs exactly one such operation";
    if (fusion_result_count(fusion) != shape_leaf_count(hero->shape))
        return "the results are not those of the operation";
    return hero_leaves_illegal(fusion, op);
}

const char *hero_leaves_illegal(const Instruction *fusion, OpCode op)
{
    const Instruction *hero = fusion_hero(fusion, op);
    int64_t last = -1;
    if (hero == NULL)
        return "it needs exactly one such operation";
    for (uint32_t i = 0; i < fusion_result_count(fusion); i++) {
        FusionResult r = fusion_result(fusion, i);
        if (r.inst != hero || r.inst_leaf <= last)
            return "the results are not those of the operation";
        last = r.inst_leaf;
    }
    return body_illegal(fusion, hero);
}

const Instruction *behind_bitcasts(const Instruction *inst)
{
    while (inst->op == OP_BITCAST)
        inst = inst->operands[0];
    return inst;
}

const char *facts_body_illegal(FusionFacts *f)
{
    if (!f->body_known)
        f->body_wrong = body_illegal(f->fusion, NULL);
    f->body_known = true;
    return f->body_wrong;
}

const char *facts_hero_illegal(FusionFacts *f, const Instruction *hero)
{
    const char *reason = facts_body_illegal(f);
    if (reason == NULL)
        reason = kernel_epilogue_illegal(f->fusion, &hero, 1);
    if (reason == NULL &&
        !shape_layouts_equal(hero->shape, fusion_result(f->fusion, 0).shape))
        reason = "the results have another layout";
    return reason;
}

/* -- kinds --------------------------------------------------------------------------------------- */

static const struct {
    IllegalFn *illegal;
    SuitsFn *suits;
} rows[KERNEL_COUNT] = {
#define KERNEL(id, name, family, ...) {illegal_##family, suits_##family},
#include "ir/kernel/kernels.def"
};

const char *facts_illegal(FusionFacts *f, KernelKind kind)
{
    OpCode hero = kernel_kind_info[kind].hero;
    if (hero != OP_COUNT && !op_set_has(&f->ops, hero))
        return "it has no such operation";
    return rows[kind].illegal(f, kind);
}

static void facts_add(FusionFacts *f, const Instruction *inst)
{
    op_set_add(&f->ops, inst->op);
    if (shape_is_array(inst->shape) && inst->shape->rank > f->rank)
        f->rank = inst->shape->rank;
}

void facts_init(FusionFacts *f, const Instruction *fusion, const Target *t, Arena *a)
{
    const Computation *comp = inst_called(fusion, 0);
    *f = (FusionFacts){.fusion = fusion, .target = t, .arena = a};
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
        facts_add(f, inst);
}

const char *kernel_illegal(const Instruction *fusion, KernelKind kind)
{
    if (kind == KERNEL_COUNT)
        return "there is no such kind of kernel";
    FusionFacts f;
    Arena *scratch = arena_scratch();
    facts_init(&f, fusion, NULL, scratch);
    const char *why = facts_illegal(&f, kind);
    arena_destroy(scratch);
    return why;
}

KernelKind kernel_kind_choose(const Instruction *fusion, const Target *target)
{
    FusionFacts f;
    Arena *scratch = arena_scratch();
    facts_init(&f, fusion, target, scratch);
    f.is_choice = true;
    KernelKind kind = 0;
    for (; kind < KERNEL_COUNT; kind++) {
        if (target_has(target, kernel_kind_info[kind].features) &&
            facts_illegal(&f, kind) == NULL && rows[kind].suits(&f, kind))
            break;
    }
    arena_destroy(scratch);
    return kind;
}
