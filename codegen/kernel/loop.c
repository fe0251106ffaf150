/* The loop emitter: one thread computes a few neighbouring elements of every result. For all
 * that is elementwise, moves or selects. Threads follow the physical order of the results, so
 * that stores are contiguous. Results of several sizes share the launch: each size has as many
 * of the threads as it needs. */
#include "codegen/kernel/emitters.h"
#include "ir/bug.h"

#define LOOP_WIDE_WORK                                                                   \
    160 /* operations of an element up to which accesses are what counts */
#define LOOP_FEW_ELEMENTS 16384 /* so few do not fill a device even one by one */

/* The results with so many elements are a group: the same threads make them. */
typedef struct Group {
    const EmitterInput *in;
    int64_t elements;
} Group;

static bool in_group(const Group *g, uint32_t leaf)
{
    return shape_elements(fusion_result(g->in->fusion, leaf).shape) == g->elements;
}

/* Instructions that the group's results are made of, by id. */
static bool *group_code(const Group *g)
{
    const Computation *comp = inst_called(g->in->fusion, 0);
    uint32_t count;
    Instruction **order = computation_post_order(comp, g->in->arena, &count);
    bool *is_used = ARENA_ARRAY(g->in->arena, bool, (size_t)comp->instruction_count + 1);
    for (uint32_t i = 0; i < fusion_result_count(g->in->fusion); i++) {
        if (in_group(g, i))
            is_used[fusion_result(g->in->fusion, i).inst->id] = true;
    }
    for (uint32_t i = count; i-- > 0;) {
        for (uint32_t k = 0; k < order[i]->operand_count && is_used[order[i]->id]; k++)
            is_used[order[i]->operands[k]->id] = true;
    }
    return is_used;
}

/* How many elements a thread takes: enough for wide accesses; 1
 * where an element is no straight-line code, or so much of it that accesses do not matter. */
static uint32_t choose_lanes(const Group *g)
{
    const Instruction *fusion = g->in->fusion;
    const Computation *comp = inst_called(fusion, 0);
    const bool *is_used = group_code(g);
    uint32_t results = fusion_result_count(fusion), arrays = 0;
    const Shape **array =
        ARENA_ARRAY(g->in->arena, const Shape *, comp->instruction_count + results);
    unsigned narrowest = 64, work = 0;
    bool plain = true;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (!is_used[inst->id])
            continue;
        plain = plain && inst_is_plain(inst);
        work += op_is(inst->op, OPF_EXPENSIVE) ? 20 : 1;
        if (inst->op == OP_PARAMETER && shape_elements(inst->shape) > 1)
            array[arrays++] = inst->shape;
    }
    for (uint32_t i = 0; i < results; i++) {
        const Shape *s = fusion_result(fusion, i).shape;
        if (!in_group(g, i))
            continue;
        array[arrays++] = s;
        unsigned bits = dtype_info[s->dtype].bits;
        narrowest = bits < narrowest ? bits : narrowest;
    }
    uint32_t lanes = emit_access_lanes(array, arrays);
    if (!plain || work > LOOP_WIDE_WORK || g->elements < 2 * (int64_t)lanes)
        lanes = 1;
    /* a rest doubles the code */
    while (lanes > 1 && g->elements < LOOP_FEW_ELEMENTS && g->elements % lanes != 0)
        lanes /= 2;
    /* threads write whole bytes */
    while (narrowest < 8 && lanes * narrowest < 8)
        lanes *= 2;
    return lanes == 0 ? 1 : lanes;
}

/* Results that may lie where an operand lies are stored when everything was read. */
static void emit_group(Emit *e, const void *user, const IndexExpr *linear)
{
    const Group *g = user;
    const Instruction *fusion = g->in->fusion;
    uint32_t count = fusion_result_count(fusion);
    const IndexExpr *index[EMIT_MOST_RANK];
    LLVMValueRef **held = ARENA_ARRAY(e->arena, LLVMValueRef *, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!in_group(g, i))
            continue;
        FusionResult r = fusion_result(fusion, i);
        uint32_t arg = fusion_result_arg(fusion, i);
        held[i] = ARENA_ARRAY(e->arena, LLVMValueRef, EMIT_MOST_LANES);
        emit_delinear(e, r.shape, linear, index);
        emit_leaf(e, r.inst, r.inst_leaf, index, held[i]);
        if (g->in->args[arg].is_noalias)
            emit_store(e, arg, r.shape, index, held[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t arg = fusion_result_arg(fusion, i);
        if (!in_group(g, i) || g->in->args[arg].is_noalias)
            continue;
        const Shape *shape = fusion_result(fusion, i).shape;
        emit_delinear(e, shape, linear, index);
        emit_store(e, arg, shape, index, held[i]);
    }
}

Kernel *emitter_loop(const EmitterInput *in)
{
    uint32_t count = fusion_result_count(in->fusion), groups = 0;
    Group *group = ARENA_ARRAY(in->arena, Group, count);
    uint32_t *lanes = ARENA_ARRAY(in->arena, uint32_t, count);
    int64_t threads = 0;
    for (uint32_t i = 0; i < count; i++) {
        Group g = {in, shape_elements(fusion_result(in->fusion, i).shape)};
        bool done = g.elements == 0;
        for (uint32_t j = 0; j < i && !done; j++)
            done = in_group(&g, j);
        if (done)
            continue;
        group[groups] = g;
        lanes[groups] = choose_lanes(&g);
        int64_t needed = (g.elements + lanes[groups] - 1) / lanes[groups];
        threads = needed > threads ? needed : threads;
        groups++;
    }
    Emit *e = emit_grid(in, threads);
    LLVMValueRef id = emit_thread_number(e);
    for (uint32_t i = 0; i < groups; i++)
        emit_elements(e, id, group[i].elements, lanes[i], emit_group, &group[i]);
    kernel_finish(e->k);
    return e->k;
}
