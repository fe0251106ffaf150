/* The loop emitter: one thread computes a few neighbouring elements of every result. For all
 * that is elementwise, moves or selects. Threads follow the physical order of the results, so
 * that stores are contiguous. Results of several sizes share the launch: each size has as many
 * of the threads as it needs. */
#include "codegen/emit/emitters.h"
#include "ir/bug.h"

#define LOOP_ACCESS_BYTES 16

/* How many elements a thread takes: as many as fill a 16-byte access of the widest array; 1
 * where an element is no straight-line code. */
static uint32_t choose_lanes(const Instruction *fusion, int64_t elements)
{
    const Computation *comp = inst_called(fusion, 0);
    unsigned widest = 1, narrowest = 64;
    bool plain = fusion_is_plain(comp, NULL, 0);
    for (uint32_t i = 0; i < comp->instruction_count; i++) {
        const Instruction *inst = comp->instructions[i];
        if (inst == NULL)
            continue;
        if (inst->op == OP_PARAMETER && shape_elements(inst->shape) > 1) {
            unsigned bits = dtype_info[inst->shape->dtype].bits;
            widest = bits / 8 > widest ? bits / 8 : widest;
        }
    }
    for (uint32_t i = 0; i < emitter_result_count(fusion); i++) {
        unsigned bits = dtype_info[emitter_result(fusion, i).shape->dtype].bits;
        widest = bits / 8 > widest ? bits / 8 : widest;
        narrowest = bits < narrowest ? bits : narrowest;
    }
    uint32_t lanes = LOOP_ACCESS_BYTES / widest;
    if (lanes > 8)
        lanes = 8;
    if (!plain || elements < 2 * (int64_t)lanes)
        lanes = 1;
    /* threads write whole bytes */
    while (narrowest < 8 && lanes * narrowest < 8)
        lanes *= 2;
    return lanes == 0 ? 1 : lanes;
}

/* The results with so many elements are a group: the same threads make them. */
typedef struct Group {
    const EmitterInput *in;
    int64_t elements;
} Group;

static bool in_group(const Group *g, uint32_t leaf)
{
    return shape_elements(emitter_result(g->in->fusion, leaf).shape) == g->elements;
}

/* Results that may lie where an operand lies are stored when everything was read. */
static void emit_group(Emit *e, const void *user, const IndexExpr *linear)
{
    const Group *g = user;
    const Instruction *fusion = g->in->fusion;
    uint32_t count = emitter_result_count(fusion);
    const IndexExpr *index[EMIT_MOST_RANK];
    LLVMValueRef **held = ARENA_ARRAY(e->arena, LLVMValueRef *, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!in_group(g, i))
            continue;
        FusionResult r = emitter_result(fusion, i);
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
        const Shape *shape = emitter_result(fusion, i).shape;
        emit_delinear(e, shape, linear, index);
        emit_store(e, arg, shape, index, held[i]);
    }
}

Kernel *emitter_loop(const EmitterInput *in)
{
    const Instruction *fusion = in->fusion;
    uint32_t count = emitter_result_count(fusion);
    int64_t threads = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t elements = shape_elements(emitter_result(fusion, i).shape);
        uint32_t lanes = choose_lanes(fusion, elements);
        int64_t needed = (elements + lanes - 1) / lanes;
        threads = needed > threads ? needed : threads;
    }
    Emit *e = emit_grid(in, threads);
    LLVMValueRef id = emit_thread_number(e);
    for (uint32_t i = 0; i < count; i++) {
        Group g = {in, shape_elements(emitter_result(fusion, i).shape)};
        bool done = g.elements == 0;
        for (uint32_t j = 0; j < i && !done; j++)
            done = in_group(&g, j);
        if (!done)
            emit_elements(e, id, g.elements, choose_lanes(fusion, g.elements), emit_group,
                          &g);
    }
    kernel_finish(e->k);
    return e->k;
}
