/* Calls that only say where a value should lie become the value itself.
 *
 *   y = f32[8] custom-call(x), custom_call_target="Sharding", sharding={devices=[2]0,1}  =>  x
 *
 * Sharding means something to a partitioner, which has run already: a module for one partition
 * needs none, and a partitioned one says what each partition does. One that was not partitioned
 * (ir/analysis/partition.h), which is refused before it is compiled or run, keeps its calls.
 *
 * Moves between the memories of device and host stay for pass_host_memory; they have no effect.
 *
 * Buffers - b(f32[8]), what Pin and CreateBuffer give - are arrays: each has one writer, so that
 * values say the same.
 *
 * Needs: nothing. Keeps: values. Ends: one sweep. */
#include <string.h>

#include "ir/analysis/partition.h"
#include "ir/custom_call/custom_call.h"
#include "passes/collectives/collectives.h"

static Instruction *annotated(Instruction *inst, void *context)
{
    (void)context;
    if (!custom_call_is_marker(inst) || custom_call_move(inst) != MOVE_NONE)
        return NULL; /* moves are for pass_host_memory */
    const Instruction *first = inst->operands[0];
    bool same = shape_compatible(inst->shape, first->shape);
    if (shape_is_tuple(inst->shape) && !same)
        return computation_add(inst->parent, OP_TUPLE, inst->shape, inst->operand_count,
                               inst->operands, NULL);
    if (!same) /* a buffer of a value */
        return NULL;
    if (shape_layouts_equal(inst->shape, first->shape))
        return inst->operands[0];
    /* LayoutConstraint: bitcasts behind it see where elements lie */
    return computation_add(inst->parent, OP_COPY, inst->shape, 1, inst->operands, NULL);
}

static const Shape *without_buffers(Intern *intern, Arena *scratch, const Shape *s)
{
    if (s->dtype == DT_BUFFER)
        return without_buffers(intern, scratch, s->elements[0]);
    if (!shape_is_tuple(s) || s->rank == 0)
        return s;
    const Shape **elements = ARENA_ARRAY(scratch, const Shape *, s->rank);
    bool changed = false;
    for (uint32_t i = 0; i < s->rank; i++) {
        elements[i] = without_buffers(intern, scratch, s->elements[i]);
        changed |= elements[i] != s->elements[i];
    }
    return changed ? shape_tuple(intern, s->rank, elements) : s;
}

static bool unwrap_buffers(Module *m, Arena *scratch)
{
    bool changed = false;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            const Shape *s = without_buffers(m->intern, scratch, inst->shape);
            if (s == inst->shape)
                continue;
            if (custom_call_is_new_buffer(inst)) /* the one that gives an array */
                inst_set_bytes(inst, ATTR_CUSTOM_CALL_TARGET, "AllocateBuffer",
                               strlen("AllocateBuffer"));
            inst->shape = s;
            changed = true;
        }
    }
    return changed;
}

/* A move may be left out, and one that nobody reads goes away. */
static bool clear_effects(Module *m)
{
    bool changed = false;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (custom_call_move(inst) == MOVE_NONE ||
                !inst_has(inst, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT))
                continue;
            inst_unset(inst, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT);
            changed = true;
        }
    }
    return changed;
}

bool pass_annotations(Module *m, PassContext *cx)
{
    if (module_unpartitioned(m) != NULL)
        return false;
    bool changed = unwrap_buffers(m, cx->scratch);
    changed |= clear_effects(m);
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        changed |= computation_replace_each(comp, annotated, NULL, cx->scratch) != 0;
    if (changed)
        module_sort(m);
    return changed;
}
