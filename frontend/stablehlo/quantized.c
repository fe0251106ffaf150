/* Quantised types: values are their stored integers. Operations that move elements move those; operations
 * that compute do it on the numbers that are meant, and quantise the result, as the specification defines them. */
#include "frontend/stablehlo/functions.h"
#include "ir/dtype.h"

bool is_quantized(const MlirOp *op)
{
    for (uint32_t i = 0; i < op->operand_count; i++)
        if (op->operands[i]->type->quantized != NULL)
            return true;
    for (uint32_t i = 0; i < op->result_count; i++)
        if (op->results[i].type->quantized != NULL)
            return true;
    return false;
}

bool quantized_needs_floats(const OpRow *row)
{
    if (row->convert == convert_dot || row->convert == convert_dot_general ||
        row->convert == convert_convolution || row->convert == convert_dynamic_conv ||
        row->convert == convert_einsum || row->convert == convert_ragged_dot ||
        row->convert == convert_chlo_broadcast || row->op == OP_IOTA)
        return true;
    return row->convert == convert_plain && row->op != OP_COUNT &&
           (op_is(row->op, OPF_ELEMENTWISE) || row->op == OP_BATCH_NORM_INFERENCE ||
            row->op == OP_BATCH_NORM_TRAINING || row->op == OP_BATCH_NORM_GRAD) &&
           row->op != OP_SELECT;
}

/* A number for each element: one for all, or for each position of the axis. */
static Instruction *spread_numbers(Converter *c, const Quantized *q, const Shape *shape,
                                   DType t, bool scales)
{
    uint32_t count = q->axis < 0 ? 1 : q->count;
    int64_t size = count;
    const Shape *s = q->axis < 0 ? shape_scalar(c->intern, t)
                                 : shape_array(c->intern, t, 1, &size, NULL, NULL);
    Literal *l = literal_create(c->arena, s);
    for (uint32_t i = 0; i < count; i++) {
        if (scales)
            literal_set_double(l, i, q->scales[i]);
        else
            literal_set_int(l, i, q->zero_points[i]);
    }
    const Shape *to = shape_with_dtype(c->intern, shape, t);
    if (q->axis < 0)
        return make_broadcast(c, make_constant(c, l), to);
    if (q->axis >= shape->rank || shape->dims[q->axis] != size)
        return convert_error(c, "a quantised type has %u scales for dimension %lld of %s",
                             count, (long long)q->axis,
                             shape_text(c->scratch, shape, false));
    return broadcast_in_dim(c, make_constant(c, l), to, (Ints){&q->axis, 1});
}

/* (stored - zero_point) * scale */
static Instruction *to_floats(Converter *c, Instruction *stored, const Quantized *q)
{
    if (stored == NULL || !shape_is_array(stored->shape))
        return NULL;
    const Shape *wide = shape_with_dtype(c->intern, stored->shape, DT_S32);
    const Shape *real = shape_with_dtype(c->intern, stored->shape, q->expressed);
    Instruction *zero = spread_numbers(c, q, stored->shape, DT_S32, false);
    Instruction *scale = spread_numbers(c, q, stored->shape, q->expressed, true);
    Instruction *moved =
        make2(c, OP_SUBTRACT, wide, make_convert(c, stored, DT_S32), zero);
    return make2(c, OP_MULTIPLY, real, make_convert(c, moved, q->expressed), scale);
}

/* real / scale + zero_point, kept within the stored numbers, rounded last: a half goes to the even stored one */
static Instruction *to_stored(Converter *c, Instruction *real, const Quantized *q)
{
    if (real == NULL || !shape_is_array(real->shape))
        return NULL;
    real = make_convert(c, real, q->expressed);
    const Shape *s = real->shape;
    Instruction *scale = spread_numbers(c, q, s, q->expressed, true);
    Instruction *zero = spread_numbers(c, q, s, DT_S32, false);
    Instruction *steps = make2(c, OP_DIVIDE, s, real, scale);
    DType sum = q->expressed == DT_F64 ? DT_F64 : DT_F32;
    const Shape *wide = shape_with_dtype(c->intern, s, sum);
    Instruction *moved =
        make2(c, OP_ADD, wide, make_convert(c, steps, sum), make_convert(c, zero, sum));
    Instruction *clamp[] = {make_splat(c, wide, (double)q->min), moved,
                            make_splat(c, wide, (double)q->max)};
    Instruction *kept = make(c, OP_CLAMP, wide, 3, clamp);
    return make_convert(c, make1(c, OP_ROUND_NEAREST_EVEN, wide, kept), q->storage);
}

void convert_quantize(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    const Quantized *to = op->results[0].type->quantized,
                    *from = op->operands[0]->type->quantized;
    Instruction *x = operand_of(op, 0);
    if (to == NULL) {
        convert_error(c, "uniform_quantize gives a quantised type");
        return;
    }
    bind(c, op, to_stored(c, from != NULL ? to_floats(c, x, from) : x, to));
}

void convert_dequantize(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    const Quantized *from = op->operands[0]->type->quantized;
    if (from == NULL) {
        convert_error(c, "uniform_dequantize is of a quantised type");
        return;
    }
    bind(c, op,
         make_convert(c, to_floats(c, operand_of(op, 0), from),
                      result_shape(op, 0)->dtype));
}

static const MlirType *real_type(Converter *c, const MlirType *type)
{
    if (type->quantized == NULL)
        return type;
    MlirType *real = arena_copy(c->scratch, type, sizeof *type);
    real->shape = shape_with_dtype(c->intern, type->shape, type->quantized->expressed);
    real->quantized = NULL;
    return real;
}

/* The same operation on the numbers that are meant. */
void convert_by_floats(Converter *c, const MlirOp *op, const OpRow *row)
{
    MlirOp inner = *op;
    MlirValue *operands = ARENA_ARRAY(c->scratch, MlirValue, op->operand_count + 1u);
    inner.operands = ARENA_ARRAY(c->scratch, MlirValue *, op->operand_count + 1u);
    inner.results = ARENA_ARRAY(c->scratch, MlirValue, op->result_count + 1u);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const Quantized *q = op->operands[i]->type->quantized;
        operands[i] = *op->operands[i];
        operands[i].type = real_type(c, operands[i].type);
        operands[i].inst =
            q != NULL ? to_floats(c, operand_of(op, i), q) : operand_of(op, i);
        inner.operands[i] = &operands[i];
        if (operands[i].inst == NULL)
            return;
    }
    for (uint32_t i = 0; i < op->result_count; i++) {
        inner.results[i] = op->results[i];
        inner.results[i].type = real_type(c, op->results[i].type);
    }
    row->convert(c, &inner, row);
    for (uint32_t i = 0; i < op->result_count; i++) {
        const Quantized *q = op->results[i].type->quantized;
        Instruction *real = inner.results[i].inst;
        op->results[i].inst = q != NULL ? to_stored(c, real, q) : real;
    }
}
