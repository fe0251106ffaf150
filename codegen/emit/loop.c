/* The loop emitter: one thread computes a few neighbouring elements of every result. For all
 * that is elementwise, moves or selects. Threads follow the physical order of the first
 * result, so that stores are contiguous. */
#include "codegen/emit/emitters.h"
#include "ir/bug.h"

#define LOOP_THREADS 128
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

/* All results at the elements number `first` + lane of the first result's physical order. */
static void emit_results(Emit *e, const Instruction *fusion, const IndexExpr *first)
{
    const IndexExpr *linear = ix_add(e->ix, first, emit_lane(e));
    for (uint32_t i = 0; i < emitter_result_count(fusion); i++) {
        const IndexExpr *index[EMIT_MOST_RANK];
        emit_delinear(e, emitter_result(fusion, i).shape, linear, index);
        emit_result(e, fusion, i, index);
    }
}

/* The last thread's elements where the count is no multiple of the lanes. */
static void emit_tail(Emit *e, const Instruction *fusion, const IndexExpr *first,
                      int64_t elements)
{
    uint32_t lanes = e->lanes;
    GxLoop loop;
    gx_loop_begin(e->k, &loop, emit_index(e, first, 0), emit_index_constant(e, elements),
                  emit_index_constant(e, 1), NULL, 0);
    emit_scope_begin(e);
    e->lanes = 1;
    emit_results(e, fusion, emit_variable(e, loop.index, (Range){0, elements - 1}));
    e->lanes = lanes;
    emit_scope_end(e);
    gx_loop_end(e->k, &loop, NULL);
}

Kernel *emitter_loop(const EmitterInput *in)
{
    int64_t elements = shape_elements(emitter_result(in->fusion, 0).shape);
    uint32_t lanes = choose_lanes(in->fusion, elements);
    int64_t threads = (elements + lanes - 1) / lanes;
    uint32_t per_block =
        threads < LOOP_THREADS ? (uint32_t)((threads + 31) / 32 * 32) : LOOP_THREADS;
    int64_t blocks = (threads + per_block - 1) / per_block;
    if (blocks > INT32_MAX)
        escape_throw(ESCAPE_UNSUPPORTED,
                     "%s has %lld elements; kernels handle up to 2^38", in->fusion->name,
                     (long long)elements);
    Kernel *k = kernel_create(in->arena, in->module, in->name, in->args, in->arg_count,
                              (uint32_t[3]){per_block, 1, 1},
                              (uint32_t[3]){(uint32_t)blocks, 1, 1});
    Emit *e = emitter_begin(in, k, lanes);
    LLVMBuilderRef b = k->builder;
    LLVMValueRef id = emit_thread_number(e);
    GxIf guard;
    bool guarded = blocks * per_block != threads;
    if (guarded) {
        LLVMValueRef inside =
            LLVMBuildICmp(b, LLVMIntULT, id, emit_index_constant(e, threads), "");
        gx_if_begin(k, &guard, inside);
    }
    const IndexExpr *thread = emit_variable(e, id, (Range){0, threads - 1});
    const IndexExpr *first = ix_mul(e->ix, thread, lanes);
    if (elements % lanes != 0) {
        GxIf whole;
        LLVMValueRef fits = emit_in_range(e, thread, (Range){0, threads - 2}, 0);
        gx_if_begin(k, &whole, fits);
        emit_scope_begin(e);
        /* in this branch the thread is not the last one, so that its lanes stay in bounds */
        const IndexExpr *inner = emit_variable(e, id, (Range){0, threads - 2});
        emit_results(e, in->fusion, ix_mul(e->ix, inner, lanes));
        emit_scope_end(e);
        gx_if_else(k, &whole, NULL, 0);
        emit_tail(e, in->fusion, first, elements);
        gx_if_end(k, &whole, NULL, 0, NULL);
    } else {
        emit_results(e, in->fusion, first);
    }
    if (guarded)
        gx_if_end(k, &guard, NULL, 0, NULL);
    kernel_finish(k);
    return k;
}
