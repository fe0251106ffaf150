/* The EMIT(scalar, x) columns of ops.def: which code each class of types gets, and what is the
 * same for all of them. */
#include "codegen/scalar/scalar.h"

#include "ir/base/bug.h"

/* -- types and constants -- */

LLVMTypeRef emit_type(Kernel *k, DType t)
{
    const DTypeInfo *info = &dtype_info[t];
    switch (t) {
    case DT_PRED:
        return gx_int_type(k, 1);
    case DT_F16:
        return LLVMHalfTypeInContext(k->context);
    case DT_BF16:
        return LLVMBFloatTypeInContext(k->context);
    case DT_F32:
        return LLVMFloatTypeInContext(k->context);
    case DT_F64:
        return LLVMDoubleTypeInContext(k->context);
    case DT_C64:
    case DT_C128: {
        LLVMTypeRef part = emit_type(k, number_component(t));
        LLVMTypeRef parts[] = {part, part};
        return LLVMStructTypeInContext(k->context, parts, 2, 0);
    }
    default:
        break;
    }
    if (!dtype_is_array(t))
        bug("a kernel has no elements of type %s", info->name);
    return gx_int_type(k, info->bits == 6 ? 8 : info->bits);
}

/* A number in storage form as a constant. */
static LLVMValueRef scalar_constant(Kernel *k, DType t, const void *element)
{
    LLVMTypeRef type = emit_type(k, t);
    if (dtype_is_complex(t)) {
        DType part = number_component(t);
        const char *im = (const char *)element + dtype_storage_bytes(part);
        LLVMValueRef parts[] = {scalar_constant(k, part, element),
                                scalar_constant(k, part, im)};
        return LLVMConstStructInContext(k->context, parts, 2, 0);
    }
    uint64_t bits = number_load(t, element);
    if (t == DT_PRED)
        return LLVMConstInt(type, bits != 0, 0);
    if (LLVMGetTypeKind(type) == LLVMIntegerTypeKind)
        return LLVMConstInt(type, bits, 0);
    LLVMValueRef same = LLVMConstInt(gx_int_type(k, dtype_info[t].bits), bits, 0);
    return LLVMConstBitCast(same, type);
}

LLVMValueRef emit_constant(Kernel *k, DType t, const Literal *l, int64_t element)
{
    if (l->data == NULL)
        escape_throw(ESCAPE_UNSUPPORTED,
                     "kernel %s needs the value of an elided constant", k->name);
    const char *data = l->data;
    return scalar_constant(k, t, data + (size_t)element * dtype_storage_bytes(t));
}

LLVMValueRef emit_number(Kernel *k, DType t, double value)
{
    unsigned char element[16];
    number_set_double(t, element, value);
    return scalar_constant(k, t, element);
}

/* -- running a row -- */

void scalar_unsupported(const Instruction *inst)
{
    DType t = inst->operand_count ? inst->operands[0]->shape->dtype : inst->shape->dtype;
    escape_throw(ESCAPE_UNSUPPORTED, "%s: %s of %s elements", inst->name,
                 op_info[inst->op].name, dtype_name(t));
}

static DType common_type(const Instruction *inst)
{
    DType t = inst->operands[0]->shape->dtype;
    for (uint32_t i = 1; i < inst->operand_count; i++) {
        DType other = inst->operands[i]->shape->dtype;
        t = t == other ? t : dtype_higher_precision(t, other);
    }
    return t;
}

static ScalarCode *code_of(const ScalarRow *row, DType t)
{
    switch (dtype_info[t].class) {
    case DTC_PRED:
        return row->pred;
    case DTC_SINT:
    case DTC_UINT:
        return row->integer;
    case DTC_FLOAT:
        return row->real;
    case DTC_COMPLEX:
        return row->complex;
    case DTC_OTHER:
        break;
    }
    return NULL;
}

static LLVMValueRef scalar_run(Kernel *k, const Instruction *inst,
                               const LLVMValueRef *operands, const ScalarRow *row)
{
    ScalarCall c = {
        .k = k, .inst = inst, .type = common_type(inst), .operands = operands};
    ScalarCode *code = code_of(row, c.type);
    if (code == NULL || inst->operand_count > 3)
        scalar_unsupported(inst);
    bool is_float = dtype_is_float(c.type);
    if (is_float && c.type != DT_F64)
        c.type = DT_F32;
    for (uint32_t i = 0; i < inst->operand_count; i++)
        c.x[i] =
            scalar_convert_value(k, operands[i], inst->operands[i]->shape->dtype, c.type);
    LLVMValueRef r = code(&c);
    if (is_float && LLVMTypeOf(r) == emit_type(k, c.type))
        r = scalar_convert_value(k, r, c.type, inst->shape->dtype);
    return r;
}

#define SCALAR(name, ...)                                                                \
    ScalarFn scalar_##name;                                                              \
    LLVMValueRef scalar_##name(Kernel *k, const Instruction *inst,                       \
                               const LLVMValueRef *operands)                             \
    {                                                                                    \
        static const ScalarRow row = {__VA_ARGS__};                                      \
        return scalar_run(k, inst, operands, &row);                                      \
    }

/* clang-format off */
/*     name                    pred         integer                     real                     complex */
SCALAR(add,                    pred_or,     int_add,                    real_add,                complex_add)
SCALAR(subtract,               NULL,        int_subtract,               real_subtract,           complex_subtract)
SCALAR(multiply,               pred_and,    int_multiply,               real_multiply,           complex_multiply)
SCALAR(divide,                 NULL,        int_divide,                 real_divide,             complex_divide)
SCALAR(remainder,              NULL,        int_remainder,              real_remainder,          NULL)
SCALAR(power,                  NULL,        int_power,                  real_function,           complex_power)
SCALAR(mulhi,                  NULL,        int_mulhi,                  NULL,                    NULL)
SCALAR(and,                    pred_and,    int_and,                    NULL,                    NULL)
SCALAR(or,                     pred_or,     int_or,                     NULL,                    NULL)
SCALAR(xor,                    int_xor,     int_xor,                    NULL,                    NULL)
SCALAR(not,                    int_not,     int_not,                    NULL,                    NULL)
SCALAR(maximum,                pred_or,     int_maximum,                real_maximum,            NULL)
SCALAR(minimum,                pred_and,    int_minimum,                real_minimum,            NULL)
SCALAR(clamp,                  int_clamp,   int_clamp,                  real_clamp,              NULL)
SCALAR(compare,                int_compare, int_compare,                real_compare,            complex_compare)
SCALAR(shift_left,             NULL,        int_shift_left,             NULL,                    NULL)
SCALAR(shift_right_logical,    NULL,        int_shift_right_logical,    NULL,                    NULL)
SCALAR(shift_right_arithmetic, NULL,        int_shift_right_arithmetic, NULL,                    NULL)
SCALAR(popcnt,                 NULL,        int_popcnt,                 NULL,                    NULL)
SCALAR(count_leading_zeros,    NULL,        int_count_leading_zeros,    NULL,                    NULL)
SCALAR(abs,                    NULL,        int_abs,                    real_abs,                complex_abs)
SCALAR(negate,                 NULL,        int_negate,                 real_negate,             complex_negate)
SCALAR(sign,                   NULL,        int_sign,                   real_sign,               complex_sign)
SCALAR(floor,                  NULL,        NULL,                       real_floor,              NULL)
SCALAR(ceil,                   NULL,        NULL,                       real_ceil,               NULL)
SCALAR(round_nearest_afz,      NULL,        NULL,                       real_round_nearest_afz,  NULL)
SCALAR(round_nearest_even,     NULL,        NULL,                       real_round_nearest_even, NULL)
SCALAR(is_finite,              NULL,        NULL,                       real_is_finite,          NULL)
SCALAR(complex,                NULL,        NULL,                       real_complex,            NULL)
SCALAR(real,                   NULL,        NULL,                       real_same,               complex_real)
SCALAR(imag,                   NULL,        NULL,                       real_zero,               complex_imag)
SCALAR(sqrt,                   NULL,        NULL,                       real_sqrt,               complex_sqrt)
SCALAR(rsqrt,                  NULL,        NULL,                       real_rsqrt,              complex_rsqrt)
SCALAR(cbrt,                   NULL,        NULL,                       real_function,           NULL)
SCALAR(erf,                    NULL,        NULL,                       real_function,           NULL)
SCALAR(exponential,            NULL,        NULL,                       real_function,           complex_exponential)
SCALAR(exponential_minus_one,  NULL,        NULL,                       real_function,           complex_exponential_minus_one)
SCALAR(log,                    NULL,        NULL,                       real_function,           complex_log)
SCALAR(log_plus_one,           NULL,        NULL,                       real_function,           complex_log_plus_one)
SCALAR(logistic,               NULL,        NULL,                       real_logistic,           complex_logistic)
SCALAR(sine,                   NULL,        NULL,                       real_function,           complex_sine)
SCALAR(cosine,                 NULL,        NULL,                       real_function,           complex_cosine)
SCALAR(tan,                    NULL,        NULL,                       real_function,           complex_tan)
SCALAR(asin,                   NULL,        NULL,                       real_function,           complex_asin)
SCALAR(acos,                   NULL,        NULL,                       real_function,           complex_acos)
SCALAR(sinh,                   NULL,        NULL,                       real_function,           complex_sinh)
SCALAR(cosh,                   NULL,        NULL,                       real_function,           complex_cosh)
SCALAR(tanh,                   NULL,        NULL,                       real_function,           complex_tanh)
SCALAR(asinh,                  NULL,        NULL,                       real_function,           complex_asinh)
SCALAR(acosh,                  NULL,        NULL,                       real_function,           complex_acosh)
SCALAR(atanh,                  NULL,        NULL,                       real_function,           complex_atanh)
SCALAR(atan2,                  NULL,        NULL,                       real_function,           complex_atan2)
/* clang-format on */
