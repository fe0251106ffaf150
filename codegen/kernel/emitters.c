/* The table of emitters, and what they share. See emitters.h. */
#include "codegen/kernel/emitters.h"
#include "codegen/gx/lines.h"
#include "codegen/gx/sincos.h"

#include <math.h>

#include "codegen/kernel/threads.h"
#include "ir/base/bug.h"

static EmitterFn *const functions[KERNEL_COUNT] = {
#define KERNEL(id, name, family, ...) [KERNEL_##id] = emitter_##family,
#include "ir/kernel/kernels.def"
};

EmitterFn *emitter_function(KernelKind kind)
{
    return functions[kind];
}

uint32_t fusion_result_arg(const Instruction *fusion, uint32_t i)
{
    return inst_called(fusion, 0)->parameter_count + i;
}

uint32_t emitter_scratch_arg(const EmitterInput *in)
{
    return in->arg_count - 1;
}

uint32_t emitter_partials_arg(const EmitterInput *in)
{
    return in->arg_count - 2;
}

uint32_t emitter_tickets_arg(const EmitterInput *in)
{
    return in->arg_count - 1;
}

uint32_t emitter_scalar_arg(const EmitterInput *in)
{
    for (uint32_t i = 0; i < in->arg_count; i++) {
        if (in->args[i].is_scalar)
            return i;
    }
    bug("%s: no argument is a scalar", in->fusion->name);
}

/* [parameter_count] 0, 1, 2, ...: the arguments of the parameters. */
static const uint32_t *fusion_parameter_args(Arena *a, const Computation *comp)
{
    uint32_t *args = ARENA_ARRAY(a, uint32_t, (size_t)comp->parameter_count + 1);
    for (uint32_t i = 0; i < comp->parameter_count; i++)
        args[i] = i;
    return args;
}

/* Indices are computed in between that lie far outside every array: those of windows in the padding, and
 * what slices and pads divide by. */
static bool indices_fit_32_bits(const Instruction *inst)
{
    const double most = INT32_MAX / 2;
    double dims = 1; /* the largest dimension at hand */
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Shape *s = inst->operands[i]->shape;
        for (uint32_t d = 0; shape_is_array(s) && d < s->rank; d++)
            dims = fmax(dims, (double)s->dims[d]);
    }
    const Shape *result = shape_leaf(inst->shape, 0);
    for (uint32_t d = 0; shape_is_array(result) && d < result->rank; d++)
        dims = fmax(dims, (double)result->dims[d]);
    const Window *w = inst_window(inst);
    for (uint32_t d = 0; d < w->rank; d++) {
        const WindowDim *x = &w->dims[d];
        if (dims * (double)x->stride + (double)x->size * (double)x->window_dilation +
                dims * (double)x->base_dilation + fabs((double)x->pad_low) +
                fabs((double)x->pad_high) >
            most)
            return false;
    }
    const Attr *padding = inst_attr(inst, ATTR_PADDING),
               *slice = inst_attr(inst, ATTR_SLICE);
    for (uint32_t d = 0; padding != NULL && d < padding->padding->rank; d++) {
        const PaddingDim *x = &padding->padding->dims[d];
        if (dims * ((double)x->interior + 1) + fabs((double)x->low) > most)
            return false;
    }
    for (uint32_t d = 0; slice != NULL && d < slice->slice->rank; d++) {
        if ((double)slice->slice->dims[d].stride > most)
            return false;
    }
    return true;
}

bool computation_fits_32_bits(const Computation *comp)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++) {
            const Shape *s = shape_leaf(inst->shape, leaf);
            /* elements count too: a broadcast's index may be large without any memory */
            if (shape_is_array(s) &&
                (shape_bytes(s) > INT32_MAX / 2 || shape_elements(s) > INT32_MAX / 2))
                return false;
        }
        if (!indices_fit_32_bits(inst))
            return false;
    }
    return true;
}

Emit *emitter_begin(const EmitterInput *in)
{
    const Computation *comp = inst_called(in->fusion, 0);
    const KernelGeometry *g = &in->design->geometry;
    Kernel *k = kernel_create(in->arena, in->module, in->name, in->args, in->arg_count,
                              g->block, g->grid);
    if (in->begun != NULL)
        *in->begun = k;
    k->contract = in->contract;
    k->resident_blocks = g->resident_blocks;
    k->at = in->fusion->name;
    kernel_set_lines(k, in->lines, in->fusion->span);
    return emit_begin(k, comp, fusion_parameter_args(in->arena, comp),
                      !computation_fits_32_bits(comp), 1);
}

Kernel *emitter_finish(const EmitterInput *in, Emit *e)
{
    const KernelGeometry *g = &in->design->geometry;
    Kernel *k = e->k;
    gx_join_sines(k);
    kernel_finish(k);
    if (k->shared_bytes != g->shared_bytes || k->needs_fibres != g->has_barriers)
        bug("%s: shared memory %llu instead of %llu, threads that %swait", k->name,
            (unsigned long long)k->shared_bytes, (unsigned long long)g->shared_bytes,
            k->needs_fibres ? "" : "do not ");
    return k;
}

void emit_result(Emit *e, const Instruction *fusion, uint32_t leaf,
                 const IndexExpr *const *index)
{
    FusionResult r = fusion_result(fusion, leaf);
    LLVMValueRef values[EMIT_MOST_LANES];
    emit_leaf(e, r.inst, r.inst_leaf, index, values);
    emit_store(e, fusion_result_arg(fusion, leaf), r.shape, index, values);
}

void emit_results(Emit *e, const EmitterInput *in, ResultIndexFn *where, const void *user)
{
    const IndexExpr *index[EMIT_MOST_RANK];
    uint32_t count = fusion_result_count(in->fusion);
    LLVMValueRef **held = ARENA_ARRAY(e->arena, LLVMValueRef *, count);
    for (uint32_t i = 0; i < count; i++) {
        FusionResult r = fusion_result(in->fusion, i);
        uint32_t arg = fusion_result_arg(in->fusion, i);
        if (!where(e, user, r.shape, index))
            continue;
        held[i] = ARENA_ARRAY(e->arena, LLVMValueRef, EMIT_MOST_LANES);
        emit_leaf(e, r.inst, r.inst_leaf, index, held[i]);
        if (in->args[arg].is_noalias)
            emit_store(e, arg, r.shape, index, held[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t arg = fusion_result_arg(in->fusion, i);
        const Shape *shape = fusion_result(in->fusion, i).shape;
        if (!in->args[arg].is_noalias && where(e, user, shape, index))
            emit_store(e, arg, shape, index, held[i]);
    }
}

LLVMValueRef emit_thread_number(Emit *e)
{
    Kernel *k = e->k;
    LLVMValueRef block = to_index(e, gx_ctaid(k, 0)), thread = to_index(e, gx_tid(k, 0));
    block = gx_mul_natural(k, block, emit_index_constant(e, k->block[0]));
    return gx_add_natural(k, block, thread);
}
