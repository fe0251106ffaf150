/* kernel_epilogue_illegal: what stands behind the heroes of a fusion. See kind.h. */
#include "ir/kernel/kind.h"

typedef struct Epilogue {
    const Shape *result;
    const Instruction *const *heroes;
    uint32_t hero_count;
    uint8_t
        *state; /* by id: SEEN and REACHES at the result's index, SEEN_ELSEWHERE if not */
    const char *why;
} Epilogue;

enum { SEEN = 1, REACHES = 2, SEEN_ELSEWHERE = 4 };

static bool reaches_hero(Epilogue *x, const Instruction *inst, bool at_own_index)
{
    for (uint32_t h = 0; h < x->hero_count; h++) {
        if (x->heroes[h] != inst)
            continue;
        if (!at_own_index)
            x->why = "its value is needed at another index";
        return true;
    }
    uint8_t *state = &x->state[inst->id];
    if ((*state & (at_own_index ? SEEN : SEEN_ELSEWHERE)) != 0 || x->why != NULL)
        return at_own_index && (*state & REACHES) != 0;
    *state |= at_own_index ? SEEN : SEEN_ELSEWHERE;
    bool reaches = false;
    bool keeps = op_is(inst->op, OPF_ELEMENTWISE) || inst->op == OP_COPY;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Instruction *operand = inst->operands[i];
        bool is_same = keeps && at_own_index && shape_is_array(operand->shape) &&
                       shape_same_dims(operand->shape, x->result);
        reaches |= reaches_hero(x, operand, is_same);
    }
    if (reaches && at_own_index)
        *state |= REACHES;
    return reaches;
}

const char *kernel_reach_illegal(const Instruction *from,
                                 const Instruction *const *heroes, uint32_t hero_count)
{
    Epilogue x = {.result = from->shape, .heroes = heroes, .hero_count = hero_count};
    Arena *scratch = arena_scratch();
    x.state = ARENA_ARRAY(scratch, uint8_t, (size_t)from->parent->instruction_count + 1);
    reaches_hero(&x, from, true);
    arena_destroy(scratch);
    return x.why;
}

const char *kernel_epilogue_illegal(const Instruction *fusion,
                                    const Instruction *const *heroes, uint32_t hero_count)
{
    const Computation *comp = inst_called(fusion, 0);
    uint32_t count = fusion_result_count(fusion);
    Epilogue x = {.heroes = heroes, .hero_count = hero_count};
    for (uint32_t i = 0; i < count; i++) {
        FusionResult r = fusion_result(fusion, i);
        if (i == 0)
            x.result = r.shape;
        if (!shape_is_array(r.inst->shape) || !shape_same_dims(r.shape, x.result) ||
            !shape_layouts_equal(r.shape, x.result))
            return "the results differ in shape";
    }
    for (uint32_t h = 0; h < hero_count; h++) {
        if (count == 0 || !shape_same_dims(heroes[h]->shape, x.result))
            return "the results have another shape than what they are made from";
    }
    Arena *scratch = arena_scratch();
    x.state = ARENA_ARRAY(scratch, uint8_t, (size_t)comp->instruction_count + 1);
    for (uint32_t i = 0; i < count && x.why == NULL; i++)
        reaches_hero(&x, fusion_result(fusion, i).inst, true);
    arena_destroy(scratch);
    return x.why;
}
