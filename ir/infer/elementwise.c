/* Shape rules of elementwise operations (sections 9.1 - 9.4 and 9.7 of the language). */
#include "ir/infer/rules.h"
#include "ir/number/number.h"

typedef bool TypeTest(DType t);

static bool is_any(DType t)
{
    return dtype_is_array(t);
}
static bool is_float_complex(DType t)
{
    return dtype_is_float(t) || dtype_is_complex(t);
}
static bool is_numeric(DType t) /* all but pred */
{
    return dtype_is_integer(t) || is_float_complex(t);
}
static bool is_signed_numeric(DType t)
{
    return dtype_is_signed(t) || is_float_complex(t);
}
static bool is_pred_integer(DType t)
{
    return t == DT_PRED || dtype_is_integer(t);
}

static bool want_type(InferContext *cx, const Instruction *inst, uint32_t i,
                      TypeTest *test, const char *wanted)
{
    if (!infer_want_arrays(cx, inst, i, i + 1))
        return false;
    if (test(operand(inst, i)->dtype))
        return true;
    infer_error(cx, inst, "expects an element type that is %s, but operand %u, %s, is %s",
                wanted, i, inst->operands[i]->name, infer_text(cx, operand(inst, i)));
    return false;
}

static const Shape *unary(InferContext *cx, const Instruction *inst, TypeTest *test,
                          const char *wanted)
{
    return want_type(cx, inst, 0, test, wanted) ? operand(inst, 0) : NULL;
}

const Shape *infer_float_complex(InferContext *cx, const Instruction *inst)
{
    return unary(cx, inst, is_float_complex, "floating or complex");
}

const Shape *infer_float(InferContext *cx, const Instruction *inst)
{
    return unary(cx, inst, dtype_is_float, "floating");
}

const Shape *infer_integer(InferContext *cx, const Instruction *inst)
{
    return unary(cx, inst, dtype_is_integer, "integral");
}

const Shape *infer_negate(InferContext *cx, const Instruction *inst)
{
    return unary(cx, inst, is_numeric, "integral, floating or complex");
}

const Shape *infer_sign(InferContext *cx, const Instruction *inst)
{
    return unary(cx, inst, is_signed_numeric, "signed or complex");
}

const Shape *infer_logical_unary(InferContext *cx, const Instruction *inst)
{
    return unary(cx, inst, is_pred_integer, "pred or integral");
}

const Shape *infer_abs(InferContext *cx, const Instruction *inst)
{
    const Shape *s = unary(cx, inst, is_signed_numeric, "signed or complex");
    return s ? infer_with_dtype(cx, s, number_component(s->dtype)) : NULL;
}

const Shape *infer_complex_part(InferContext *cx, const Instruction *inst)
{
    const Shape *s = unary(cx, inst, is_float_complex, "floating or complex");
    return s ? infer_with_dtype(cx, s, number_component(s->dtype)) : NULL;
}

const Shape *infer_is_finite(InferContext *cx, const Instruction *inst)
{
    const Shape *s = unary(cx, inst, dtype_is_float, "floating");
    return s ? infer_with_dtype(cx, s, DT_PRED) : NULL;
}

const Shape *infer_reduce_precision(InferContext *cx, const Instruction *inst)
{
    int64_t exponent = inst_int(inst, ATTR_EXPONENT_BITS, 0);
    int64_t mantissa = inst_int(inst, ATTR_MANTISSA_BITS, -1);
    if (exponent < 1)
        return infer_error(cx, inst, "exponent_bits must be at least 1, but is %lld",
                           (long long)exponent);
    if (mantissa < 0)
        return infer_error(cx, inst, "mantissa_bits must not be negative, but is %lld",
                           (long long)mantissa);
    return infer_float(cx, inst);
}

const Shape *infer_convert(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 1) || !infer_want_array_shape(cx, inst))
        return NULL;
    return infer_with_dtype(cx, operand(inst, 0), inst->shape->dtype);
}

/* Sizes of a binary operation: equal, 1 beside n, or a scalar beside an array. The verifier
 * refuses all but the first; the text may still leave the shape out. */
static const Shape *merge(InferContext *cx, const Instruction *inst, const Shape *a,
                          const Shape *b, DType dtype)
{
    if (a == b)
        return infer_with_dtype(cx, a, dtype);
    if (a->rank != b->rank) {
        if (a->rank != 0 && b->rank != 0)
            return infer_error(cx, inst,
                               "shapes must be of equal rank, but are %s and %s",
                               infer_text(cx, a), infer_text(cx, b));
        return infer_with_dtype(cx, a->rank ? a : b, dtype);
    }
    if (shape_same_dims(a, b) && !a->dynamic && !b->dynamic)
        return infer_with_dtype(cx, a, dtype);
    bool *dynamic = ARENA_ARRAY(cx->arena, bool, a->rank);
    int64_t *dims = ARENA_ARRAY(cx->arena, int64_t, a->rank);
    bool any = false;
    for (uint32_t i = 0; i < a->rank; i++) {
        int64_t x = a->dims[i], y = b->dims[i];
        if (!infer_same_size(x, y) && x != 1 && y != 1)
            return infer_error(cx, inst,
                               "sizes of dimension %u differ: operands are %s and %s", i,
                               infer_text(cx, a), infer_text(cx, b));
        bool first = x == y || y == 1 || (x != 1 && x != DIM_UNBOUNDED);
        dims[i] = first ? x : y;
        dynamic[i] = (a->dynamic && a->dynamic[i]) || (b->dynamic && b->dynamic[i]);
        any |= dynamic[i];
    }
    return shape_array(cx->intern, dtype, a->rank, dims, any ? dynamic : NULL, a->layout);
}

static const Shape *binary(InferContext *cx, const Instruction *inst, TypeTest *test,
                           const char *wanted)
{
    if (!want_type(cx, inst, 0, test, wanted) || !want_type(cx, inst, 1, test, wanted))
        return NULL;
    const Shape *a = operand(inst, 0), *b = operand(inst, 1);
    if (!infer_same_type(a->dtype, b->dtype))
        return infer_error(cx, inst, "element types of the operands differ: %s and %s",
                           infer_text(cx, a), infer_text(cx, b));
    return merge(cx, inst, a, b, infer_binary_dtype(a->dtype, b->dtype));
}

const Shape *infer_binary(InferContext *cx, const Instruction *inst)
{
    return binary(cx, inst, is_any, "that of an array");
}

const Shape *infer_arithmetic(InferContext *cx, const Instruction *inst)
{
    return binary(cx, inst, is_numeric, "integral, floating or complex");
}

const Shape *infer_logical(InferContext *cx, const Instruction *inst)
{
    return binary(cx, inst, is_pred_integer, "pred or integral");
}

const Shape *infer_integer_binary(InferContext *cx, const Instruction *inst)
{
    return binary(cx, inst, dtype_is_integer, "integral");
}

const Shape *infer_float_complex_binary(InferContext *cx, const Instruction *inst)
{
    return binary(cx, inst, is_float_complex, "floating or complex");
}

const Shape *infer_complex(InferContext *cx, const Instruction *inst)
{
    const Shape *s = binary(cx, inst, dtype_is_float, "f32 or f64");
    if (!s)
        return NULL;
    if (operand(inst, 0)->dtype != operand(inst, 1)->dtype ||
        (s->dtype != DT_F32 && s->dtype != DT_F64))
        return infer_error(
            cx, inst, "expects two operands of f32 or of f64, but has %s and %s",
            infer_text(cx, operand(inst, 0)), infer_text(cx, operand(inst, 1)));
    return infer_with_dtype(cx, s, dtype_complex_of(s->dtype));
}

static bool compare_type_fits(DType t, int64_t type)
{
    switch (type) {
    case COMPARE_FLOAT:
        return is_float_complex(t);
    case COMPARE_TOTALORDER: /* accepted on any type: without effect on integers */
        return true;
    case COMPARE_SIGNED:
        return dtype_is_signed(t);
    default:
        return t == DT_PRED || dtype_is_unsigned(t);
    }
}

const Shape *infer_compare(InferContext *cx, const Instruction *inst)
{
    const Shape *s = binary(cx, inst, is_any, "that of an array");
    if (!s)
        return NULL;
    const Attr *type = inst_attr(inst, ATTR_TYPE);
    DType t = operand(inst, 0)->dtype;
    if (type && !compare_type_fits(t, type->i))
        return infer_error(cx, inst, "type=%s does not fit operands of %s",
                           attr_info[ATTR_TYPE].names[type->i], dtype_name(t));
    int64_t direction = inst_int(inst, ATTR_DIRECTION, 0);
    if (dtype_is_complex(t) && direction != DIRECTION_EQ && direction != DIRECTION_NE)
        return infer_error(cx, inst, "complex values have no order: direction=%s of %s",
                           attr_info[ATTR_DIRECTION].names[direction],
                           infer_text(cx, operand(inst, 0)));
    return infer_with_dtype(cx, s, DT_PRED);
}

const Shape *infer_select(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 3))
        return NULL;
    const Shape *p = operand(inst, 0), *t = operand(inst, 1), *f = operand(inst, 2);
    if (p->dtype != DT_PRED)
        return infer_error(cx, inst, "operand 0 must have pred elements, but is %s",
                           infer_text(cx, p));
    if (!infer_same_sizes(t, f) || !infer_same_type(t->dtype, f->dtype))
        return infer_error(cx, inst,
                           "operands 1 and 2 must have equal shapes, but are %s and %s",
                           infer_text(cx, t), infer_text(cx, f));
    if (p->rank != 0 && !infer_same_sizes(p, t))
        return infer_error(
            cx, inst,
            "operand 0 must be a scalar or have the sizes of operand 1, but they "
            "are %s and %s",
            infer_text(cx, p), infer_text(cx, t));
    return merge(cx, inst, t, f, infer_binary_dtype(t->dtype, f->dtype));
}

const Shape *infer_clamp(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 3))
        return NULL;
    const Shape *x = operand(inst, 1);
    for (uint32_t i = 0; i < 3; i += 2) {
        const Shape *bound = operand(inst, i);
        if (!infer_same_type(bound->dtype, x->dtype) ||
            (bound->rank != 0 && !infer_same_sizes(bound, x)))
            return infer_error(
                cx, inst,
                "operand %u must be a scalar of, or have the shape of, operand 1, "
                "but they are %s and %s",
                i, infer_text(cx, bound), infer_text(cx, x));
    }
    return x;
}

const Shape *infer_stochastic_convert(InferContext *cx, const Instruction *inst)
{
    if (!want_type(cx, inst, 0, dtype_is_float, "floating") ||
        !want_type(cx, inst, 1, cx->sketch ? dtype_is_integer : dtype_is_unsigned,
                   cx->sketch ? "integral" : "unsigned") ||
        !infer_want_array_shape(cx, inst))
        return NULL;
    const Shape *x = operand(inst, 0), *random = operand(inst, 1);
    if (!infer_same_sizes(x, random) ||
        dtype_info[x->dtype].bits != dtype_info[random->dtype].bits)
        return infer_error(
            cx, inst,
            "the random bits must have the width and sizes of the value, but the "
            "operands are %s and %s",
            infer_text(cx, x), infer_text(cx, random));
    return infer_with_dtype(cx, x, inst->shape->dtype);
}

/* -- mixed precision ------------------------------------------------------------------------- */

OperandRange infer_like_operands(const Instruction *inst)
{
    uint32_t first = inst->op == OP_SELECT && inst->operand_count > 1 ? 1 : 0;
    uint32_t end = inst->op == OP_STOCHASTIC_CONVERT ? 1 : inst->operand_count;
    return (OperandRange){first, end};
}

DType infer_computing_type(const Instruction *inst)
{
    OperandRange like = infer_like_operands(inst);
    DType t = inst->operands[like.first]->shape->dtype, result = inst->shape->dtype;
    for (uint32_t i = like.first + 1; i < like.end; i++)
        t = infer_binary_dtype(t, inst->operands[i]->shape->dtype);
    bool both = dtype_is_float(t) && dtype_is_float(result) && inst->op != OP_CONVERT;
    return both ? infer_binary_dtype(t, result) : t;
}

DType infer_computed_result(const Instruction *inst)
{
    DType t = infer_computing_type(inst), result = inst->shape->dtype;
    if (!dtype_is_float(result) || inst->op == OP_CONVERT)
        return result;
    return dtype_is_complex(t) ? number_component(t) : dtype_is_float(t) ? t : result;
}
