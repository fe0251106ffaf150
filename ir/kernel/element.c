/* See element.h. */
#include "ir/kernel/element.h"

#define ACCESS_MOST_BYTES 16
#define ACCESS_MOST_LANES 8
#define ACCESS_SMALL_PART 4 /* arrays below this part of the largest do not matter */

/* The column has lower-case names, from which codegen makes those of functions. */
enum {
    KIND_nothing = ELEMENT_NOTHING,
    KIND_scalar = ELEMENT_SCALAR,
    KIND_move = ELEMENT_MOVE,
    KIND_select = ELEMENT_SELECT,
    KIND_index = ELEMENT_INDEX,
    KIND_constant = ELEMENT_CONSTANT,
    KIND_alias = ELEMENT_ALIAS,
    KIND_reduce = ELEMENT_REDUCE,
    KIND_contract = ELEMENT_CONTRACT,
    KIND_kernel = ELEMENT_KERNEL,
    KIND_control = ELEMENT_CONTROL,
    KIND_collective = ELEMENT_COLLECTIVE,
    KIND_async = ELEMENT_ASYNC,
    KIND_custom = ELEMENT_CUSTOM,
    KIND_fusion = ELEMENT_FUSION,
    KIND_device_id = ELEMENT_DEVICE_ID,
    KIND_expand = ELEMENT_EXPAND,
    KIND_unsupported = ELEMENT_UNSUPPORTED,
};

const ElementKind element_kind[OP_COUNT] = {
#define OP(id, ...) [OP_##id] =
#define EMIT(kind, function) (ElementKind) KIND_##kind,
#include "ir/ops.def"
};

bool op_has_elements(OpCode op)
{
    return element_kind[op] <= ELEMENT_CONTRACT;
}

/* A pad, concatenate or dynamic-update-slice whose boundaries no access of 8 neighbours crosses. */
static bool boundaries_are_even(const Instruction *inst)
{
    const Shape *s = inst->shape;
    if (s->rank == 0)
        return false;
    int64_t minor = s->layout->minor_to_major[0];
    if (s->dims[minor] % 8 != 0)
        return false;
    if (inst->op == OP_PAD) {
        const PaddingDim *p = &inst_attr(inst, ATTR_PADDING)->padding->dims[minor];
        return p->interior == 0 && p->low % 8 == 0 && p->high % 8 == 0;
    }
    if (inst->op == OP_DYNAMIC_UPDATE_SLICE)
        return inst->operands[1]->shape->dims[minor] == s->dims[minor];
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (inst->operands[i]->shape->dims[minor] % 8 != 0)
            return false;
    }
    return inst->op == OP_CONCATENATE;
}

bool inst_is_plain(const Instruction *inst)
{
    ElementKind kind = element_kind[inst->op];
    if (kind == ELEMENT_SELECT)
        return boundaries_are_even(inst);
    return kind != ELEMENT_REDUCE && kind != ELEMENT_CONTRACT;
}

uint32_t reduced_neighbours(const Instruction *inst)
{
    const Shape *s = inst->shape;
    if (inst->op != OP_REDUCE_WINDOW || inst->operand_count != 2 || s->rank == 0 ||
        s->layout == NULL || !computation_is_simple(inst_called(inst, 0), 1))
        return UINT32_MAX;
    uint32_t minor = (uint32_t)s->layout->minor_to_major[0];
    WindowDim w = inst_window(inst)->dims[minor];
    bool is_alone = w.size == 1 && w.stride == 1 && w.base_dilation == 1 &&
                    w.pad_low == 0 && w.pad_high == 0;
    return is_alone ? minor : UINT32_MAX;
}

/* Its elements are the same for all neighbours along the fastest dimension. */
static bool repeats_minor(const Instruction *inst)
{
    const Shape *s = inst->shape;
    return inst->op == OP_BROADCAST && s->rank != 0 && s->layout != NULL &&
           s->dims[s->layout->minor_to_major[0]] % 8 == 0 &&
           !ints_contain(inst_ints(inst, ATTR_DIMENSIONS), s->layout->minor_to_major[0]);
}

static bool is_one_of(const Instruction *inst, const Instruction *const *some,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (some[i] == inst)
            return true;
    }
    return false;
}

/* What only broadcasts along the fastest dimension read is computed once for all lanes. */
bool fusion_is_plain(const Computation *comp, const Instruction *const *heroes,
                     uint32_t count)
{
    Arena *scratch = arena_scratch();
    uint32_t all;
    Instruction **order = computation_post_order(comp, scratch, &all);
    bool *is_used = ARENA_ARRAY(scratch, bool, (size_t)comp->instruction_count + 1);
    bool is_plain = true;
    is_used[comp->root->id] = true;
    for (uint32_t i = all; i-- > 0 && is_plain;) {
        const Instruction *inst = order[i];
        if (!is_used[inst->id])
            continue;
        is_plain = is_one_of(inst, heroes, count) || inst_is_plain(inst);
        for (uint32_t k = 0; k < inst->operand_count && !repeats_minor(inst); k++)
            is_used[inst->operands[k]->id] = true;
    }
    arena_destroy(scratch);
    return is_plain;
}

uint32_t access_lanes(const Shape *const *arrays, uint32_t count)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = shape_bytes(arrays[i]) > most ? shape_bytes(arrays[i]) : most;
    unsigned narrowest = 8 * ACCESS_MOST_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        unsigned bits = dtype_info[arrays[i]->dtype].bits;
        if (shape_bytes(arrays[i]) < most / ACCESS_SMALL_PART)
            continue;
        narrowest = bits < narrowest ? bits : narrowest;
    }
    uint32_t lanes = 8 * ACCESS_MOST_BYTES / narrowest;
    return lanes < ACCESS_MOST_LANES ? lanes : ACCESS_MOST_LANES;
}

unsigned shared_bytes(DType t)
{
    unsigned bits = dtype_info[t].bits;
    return t == DT_PRED || bits < 8 ? 1 : bits / 8;
}

/* -- what is combined ------------------------------------------------------------------------------ */

const Instruction *computation_component(const Computation *comp, uint32_t i)
{
    const Instruction *root = comp->root;
    uint32_t count = comp->parameter_count / 2;
    if (root->op == OP_TUPLE)
        root = root->operands[i];
    if (root->operand_count != 2 || !shape_is_array(root->shape) ||
        root->operands[0]->op != OP_PARAMETER || root->operands[1]->op != OP_PARAMETER ||
        root->operands[0]->shape->dtype != root->shape->dtype)
        return NULL;
    int64_t a = root->operands[0]->parameter, b = root->operands[1]->parameter;
    if ((a != i || b != (int64_t)i + count) && (b != i || a != (int64_t)i + count))
        return NULL;
    switch (root->op) {
    case OP_ADD:
    case OP_MULTIPLY:
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_AND:
    case OP_OR:
    case OP_XOR:
        return root;
    default:
        return NULL;
    }
}

OpCode computation_operation(const Computation *comp)
{
    const Instruction *root =
        comp->parameter_count == 2 ? computation_component(comp, 0) : NULL;
    return root != NULL ? root->op : OP_COUNT;
}

bool computation_is_simple(const Computation *comp, uint32_t count)
{
    bool is_simple = comp->parameter_count == 2 * count;
    for (uint32_t i = 0; i < count && is_simple; i++)
        is_simple = computation_component(comp, i) != NULL;
    return is_simple;
}

bool computation_sums_wide(const Computation *comp, uint32_t i)
{
    DType t = shape_leaf(comp->root->shape, i)->dtype;
    OpCode op = computation_component(comp, i)->op;
    return dtype_is_float(t) && dtype_info[t].bits < 32 &&
           (op == OP_ADD || op == OP_MULTIPLY);
}

DType computation_accumulator(const Computation *comp, uint32_t i, bool is_simple)
{
    DType t = shape_leaf(comp->root->shape, i)->dtype;
    bool is_wide = is_simple && dtype_is_float(t) &&
                   (dtype_info[t].bits < 16 || computation_sums_wide(comp, i));
    return is_wide ? DT_F32 : t;
}

DType contract_accumulator(const Instruction *inst)
{
    DType result = inst->shape->dtype, x = inst->operands[0]->shape->dtype,
          y = inst->operands[1]->shape->dtype;
    if (dtype_is_float(result))
        return result == DT_F64 ? DT_F64 : DT_F32;
    if (!dtype_is_complex(result) && (dtype_is_float(x) || dtype_is_float(y)))
        return x == DT_F64 || y == DT_F64 ? DT_F64 : DT_F32;
    return result;
}
