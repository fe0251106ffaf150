/* The loop emitter: one thread computes a few neighbouring elements of every result. For all
 * that is elementwise, moves or selects. Threads follow the physical order of the first
 * result, so that stores are contiguous. */
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

static void emit_all(Emit *e, const void *user, const IndexExpr *linear)
{
    const Instruction *fusion = user;
    for (uint32_t i = 0; i < emitter_result_count(fusion); i++) {
        const IndexExpr *index[EMIT_MOST_RANK];
        emit_delinear(e, emitter_result(fusion, i).shape, linear, index);
        emit_result(e, fusion, i, index);
    }
}

Kernel *emitter_loop(const EmitterInput *in)
{
    int64_t elements = shape_elements(emitter_result(in->fusion, 0).shape);
    Emit *e = emit_for_elements(in, elements, choose_lanes(in->fusion, elements),
                                emit_all, in->fusion);
    kernel_finish(e->k);
    return e->k;
}
