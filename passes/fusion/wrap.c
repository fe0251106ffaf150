/* Wraps what is still alone into fusions of one instruction, so that codegen meets kernels in
 * one form only.
 *
 *   y = f32[8] sort(x), to_apply=less
 *   ->  fused { p0 = f32[8] parameter(0)  ROOT y = f32[8] sort(p0), to_apply=less }
 *       y = f32[8] fusion(x), kind=kInput, calls=fused, backend_config={"emitter":"sort"}
 *
 * A reshape that moves nothing in memory becomes a bitcast.
 *
 * Needs: layouts. Keeps: everything else. Breaks: nothing. Ends: one sweep. */
#include "passes/fusion/fusion.h"

#include "ir/kernel/kind.h"
#include "ir/kernel/library.h"

/* Instructions that become no kernel: aliases, commands of the plan, constants. A copy that
 * keeps the layout is a command; one that changes it is a kernel. */
static bool stays(const Instruction *inst)
{
    switch (inst->op) {
    case OP_PARAMETER:
    case OP_CONSTANT:
    case OP_TUPLE:
    case OP_GET_TUPLE_ELEMENT:
    case OP_BITCAST:
    case OP_OPT_BARRIER:
    case OP_DOMAIN:
    case OP_ADD_DEPENDENCY:
    case OP_AFTER_ALL:
    case OP_FUSION:
    case OP_CUSTOM_CALL:
    case OP_PARTITION_ID:
    case OP_REPLICA_ID:
    case OP_COPY_START:
    case OP_COPY_DONE:
        return true;
    case OP_RNG_GET_AND_UPDATE_STATE:
        return false; /* a kernel, though it has an effect */
    case OP_DOT:
    case OP_CONVOLUTION:
        return library_makes(inst);
    case OP_COPY:
        return !shape_is_array(inst->shape) ||
               shape_layouts_equal(inst->shape, inst->operands[0]->shape);
    default:
        return op_is(inst->op, OPF_CONTROL | OPF_COLLECTIVE | OPF_ASYNC_START |
                                   OPF_ASYNC_DONE | OPF_EFFECT);
    }
}

bool fusion_is_renaming(const Instruction *inst)
{
    if (inst->op != OP_RESHAPE || inst->control_count != 0)
        return false;
    const Shape *to = inst->shape, *from = inst->operands[0]->shape;
    return !shape_is_dynamic(to) && !shape_is_dynamic(from) &&
           !dtype_is_sub_byte(to->dtype) && shape_is_row_major(to) &&
           shape_is_row_major(from) &&
           to->layout->memory_space == from->layout->memory_space;
}

Instruction *fusion_wrap(Instruction *inst)
{
    Computation *comp = inst->parent;
    Module *m = comp->module;
    Computation *fused = module_add_computation(m, "fused");
    fused->is_fused = true;
    Instruction **operands =
        ARENA_ARRAY(m->arena, Instruction *, (size_t)inst->operand_count + 1);
    Instruction **inner =
        ARENA_ARRAY(m->arena, Instruction *, (size_t)inst->operand_count + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        Instruction *operand = inst->operands[i];
        uint32_t k = 0;
        while (k < i && (inst->operands[k] != operand || inst->op == OP_SCATTER))
            k++;
        if (k <
            i) { /* the same operand twice is one parameter, unless one is written to */
            inner[i] = inner[k];
            continue;
        }
        if (operand->op == OP_CONSTANT && operand->shape->rank == 0) {
            inner[i] = computation_add_constant(fused, operand->literal, NULL);
            continue;
        }
        inner[i] = computation_add_parameter(fused, n, operand->shape, NULL);
        operands[n++] = operand;
    }
    Instruction *copy =
        computation_add_like(fused, inst, inst->shape, inst->operand_count, inner);
    fused->root = copy;
    Instruction *fusion =
        computation_add(comp, OP_FUSION, inst->shape, n, operands, inst->name);
    fusion->span = inst->span;
    const Attr *metadata = inst_attr(inst, ATTR_METADATA);
    if (metadata != NULL)
        inst_set(fusion, *metadata);
    fusion->control_count = inst->control_count;
    fusion->control = inst->control;
    inst_set_int(fusion, ATTR_KIND, FUSION_LOOP);
    inst_set_computation(fusion, ATTR_CALLS, fused);
    return fusion;
}

void fusion_wrap_in_place(Instruction *inst)
{
    uint32_t id = inst->id;
    Instruction *fusion = fusion_wrap(inst);
    inst->parent->instructions[fusion->id] = NULL;
    Instruction kept = *fusion;
    kept.id = id;
    kept.name = inst->name;
    *inst = kept;
}

static Instruction *wrapped(Instruction *inst, void *context)
{
    const PassContext *cx = context;
    if (stays(inst))
        return NULL;
    if (fusion_is_renaming(inst))
        return computation_add(inst->parent, OP_BITCAST, inst->shape, 1, inst->operands,
                               inst->name);
    Instruction *fusion = fusion_wrap(inst);
    kernel_kind_set(fusion, kernel_kind_choose(fusion, cx->target));
    return fusion;
}

bool pass_wrap(Module *m, PassContext *cx)
{
    bool changed = module_replace_each(m, wrapped, cx, cx->scratch) != 0;
    if (changed)
        module_sort(m);
    return changed;
}
