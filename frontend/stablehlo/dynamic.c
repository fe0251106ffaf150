/* Sizes that are operands: gxc wants to know them, so they must follow from constants. */
#include <string.h>

#include "frontend/stablehlo/functions.h"
#include "ir/dtype.h"
#include "ir/eval/eval.h"
#include "ir/infer/infer.h"

enum { MAX_ELEMENTS = 4096, MAX_STEPS = 100000 };

static bool has_right_shape(Converter *c, const Instruction *inst)
{
    if (inst->op == OP_CONSTANT || inst->op == OP_PARAMETER)
        return true;
    InferContext cx = {.intern = c->intern, .arena = c->scratch, .diag = c->diag};
    const Shape *found = infer_shape(&cx, inst);
    if (found == NULL || shape_compatible(found, inst->shape))
        return found != NULL;
    return convert_error(c, "%s gives %s, but its type says %s", op_info[inst->op].name,
                         shape_text(c->scratch, found, false),
                         shape_text(c->scratch, inst->shape, false)) != NULL;
}

/* The evaluator takes only what is right, and the module has not been verified yet. `*out_too_many`: it has more
 * instructions than would be evaluated. */
static bool can_be_evaluated(Converter *c, const Instruction *inst, bool *out_too_many)
{
    STACK(const Instruction *) pending = {0};
    STACK_OPEN(c, pending);
    STACK_PUSH(c, pending, inst);
    uint32_t steps = 0;
    bool right = true;
    while (pending.count != 0 && right && ++steps < MAX_STEPS) {
        inst = pending.data[--pending.count];
        right = has_right_shape(c, inst);
        for (uint32_t i = 0; i < inst->operand_count; i++)
            STACK_PUSH(c, pending, inst->operands[i]);
        for (uint32_t i = 0; i < inst_called_count(inst); i++) {
            const Computation *called = inst_called(inst, i);
            for (const Instruction *at = inst_first(called); at; at = inst_next(at))
                STACK_PUSH(c, pending, at);
        }
    }
    *out_too_many = steps == MAX_STEPS;
    return right;
}

bool known_ints(Converter *c, const MlirOp *op, uint32_t operand, Ints *out)
{
    const Instruction *inst = operand_of(op, operand);
    DType t = shape_is_array(inst->shape) ? inst->shape->dtype : DT_INVALID;
    bool too_many = false;
    bool integers = dtype_is_integer(t) || t == DT_PRED;
    if (integers && !can_be_evaluated(c, inst, &too_many))
        return false;
    const Literal *l = integers && !too_many
                           ? evaluate_constant(c->scratch, inst, MAX_ELEMENTS, MAX_STEPS)
                           : NULL;
    if (l == NULL)
        return convert_unsupported(c, "%s, whose sizes do not follow from constants",
                                   op->name) != NULL;
    int64_t *data = ARENA_ARRAY(c->arena, int64_t, (size_t)l->count + 1);
    for (int64_t i = 0; i < l->count; i++)
        data[i] = literal_int(l, i);
    *out = (Ints){data, (uint32_t)l->count};
    return true;
}

/* The result's shape with these sizes; they fit those that its type says. NULL after a message. */
static const Shape *sized_result(Converter *c, const MlirOp *op, uint32_t operand)
{
    Ints dims;
    const Shape *said = result_shape(op, 0);
    if (!known_ints(c, op, operand, &dims))
        return NULL;
    bool right = dims.count == said->rank;
    for (uint32_t i = 0; right && i < said->rank; i++)
        right = dims.data[i] >= 0 && ((said->dynamic != NULL && said->dynamic[i]) ||
                                      said->dims[i] == dims.data[i]);
    if (!right)
        return convert_error(c,
                             "the sizes that %s computes are not those of its type, %s",
                             op->name, mlir_type_text(c->scratch, op->results[0].type));
    return shape_sized(c, said, dims.count, dims.data);
}

void convert_get_dimension_size(Converter *c, const MlirOp *op, const OpRow *row)
{
    const Shape *s = operand_of(op, 0)->shape;
    int64_t dimension = ask_int_or(c, op, "dimension", -1);
    if (!shape_is_array(s) || dimension < 0 || dimension >= s->rank) {
        convert_error(c, "dimension %lld of %s", (long long)dimension,
                      shape_text(c->scratch, s, false));
        return;
    }
    if (s->dynamic != NULL && s->dynamic[dimension])
        convert_plain(c, op, row);
    else
        bind(c, op, make_int_scalar(c, result_shape(op, 0)->dtype, s->dims[dimension]));
}

void convert_dynamic_broadcast_in_dim(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Ints dims;
    const Shape *shape = sized_result(c, op, 1);
    if (shape != NULL && attr_ints(c, op, NULL, "broadcast_dimensions", &dims))
        bind(c, op, make_finish(c, broadcast_in_dim(c, operand_of(op, 0), shape, dims)));
}

void convert_dynamic_reshape(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    const Shape *shape = sized_result(c, op, 1);
    if (shape != NULL)
        bind(c, op, make_finish(c, make1(c, OP_RESHAPE, shape, operand_of(op, 0))));
}

void convert_dynamic_iota(Converter *c, const MlirOp *op, const OpRow *row)
{
    const Shape *shape = sized_result(c, op, 0);
    if (shape == NULL)
        return;
    Instruction *inst = make(c, OP_IOTA, shape, 0, NULL);
    if (set_row_attrs(c, op, row, inst))
        bind(c, op, make_finish(c, inst));
}

static bool three_lists(Converter *c, const MlirOp *op, uint32_t first, Ints lists[3])
{
    const Shape *s = operand_of(op, 0)->shape;
    for (uint32_t i = 0; i < 3; i++) {
        if (!known_ints(c, op, first + i, &lists[i]))
            return false;
        if (!shape_is_array(s) || lists[i].count != s->rank)
            return convert_error(c, "%s has one size for each dimension of its operand",
                                 op->name) != NULL;
    }
    return true;
}

/* What the opcode's rules say, where the type leaves it open. */
static const Shape *known_result(const MlirOp *op)
{
    return shape_is_unbounded(result_shape(op, 0)) ? NULL : result_shape(op, 0);
}

void convert_dynamic_pad(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Ints lists[3];
    if (!three_lists(c, op, 2, lists))
        return;
    Instruction *inst =
        make2(c, OP_PAD, known_result(op), operand_of(op, 0), operand_of(op, 1));
    set_padding(c, inst, lists[0], lists[1], lists[2]);
    bind(c, op, make_finish(c, inst));
}

void convert_real_dynamic_slice(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Ints lists[3];
    if (!three_lists(c, op, 1, lists))
        return;
    SliceDim *dims = ARENA_ARRAY(c->arena, SliceDim, lists[0].count + 1u);
    for (uint32_t i = 0; i < lists[0].count; i++)
        dims[i] = (SliceDim){lists[0].data[i], lists[1].data[i], lists[2].data[i]};
    Instruction *inst = make1(c, OP_SLICE, known_result(op), operand_of(op, 0));
    inst_set_slice(inst, dims, lists[0].count);
    bind(c, op, make_finish(c, inst));
}

void convert_dynamic_gather(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Ints sizes;
    if (known_ints(c, op, 2, &sizes))
        finish_gather(c, op, sizes);
}

void convert_dynamic_conv(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Ints all;
    const Shape *s = operand_of(op, 2)->shape;
    if (!shape_is_array(s) || s->rank != 2 || s->dims[1] != 2) {
        convert_error(c, "the padding of dynamic_conv is a pair for each dimension");
        return;
    }
    if (!known_ints(c, op, 2, &all))
        return;
    Ints *rows = ARENA_ARRAY(c->arena, Ints, all.count / 2 + 1);
    for (uint32_t i = 0; i < all.count / 2; i++)
        rows[i] = (Ints){all.data + 2 * (size_t)i, 2};
    IntLists padding = {rows, all.count / 2};
    make_convolution(c, op, &padding);
}
