/* Types of MLIR and what they are in HLO. */
#include <stdlib.h>
#include <string.h>

#include "frontend/stablehlo/mlir.h"
#include "ir/base/text.h"
#include "ir/dtype.h"

/* -- making -------------------------------------------------------------------------------- */

static MlirType *type_new(Arena *a, MlirTypeKind kind, const Shape *shape)
{
    MlirType *type = ARENA_NEW(a, MlirType);
    type->kind = kind;
    type->shape = shape;
    return type;
}

const MlirType *mlir_element(Arena *a, Intern *t, DType dtype, bool is_index)
{
    MlirType *type = type_new(a, MLIR_ELEMENT, shape_scalar(t, dtype));
    type->is_index = is_index;
    return type;
}

const MlirType *mlir_quantized(Arena *a, Intern *t, const Quantized *q)
{
    MlirType *type = type_new(a, MLIR_ELEMENT, shape_scalar(t, q->storage));
    type->quantized = q;
    return type;
}

bool mlir_storage_range(DType storage, int64_t *least, int64_t *most)
{
    unsigned bits = dtype_info[storage].bits;
    if (!dtype_is_integer(storage) || bits > 32)
        return false;
    *least = dtype_is_signed(storage) ? -(INT64_C(1) << (bits - 1)) : 0;
    *most = *least + (INT64_C(1) << bits) - 1;
    return true;
}

const MlirType *mlir_token(Arena *a, Intern *t)
{
    return type_new(a, MLIR_TOKEN, shape_token(t));
}

const MlirType *mlir_other(Arena *a, const char *text, size_t length)
{
    MlirType *type = type_new(a, MLIR_OTHER, NULL);
    type->text = arena_text(a, text, length);
    return type;
}

const MlirType *mlir_tensor(Arena *a, Intern *t, const MlirType *element, uint32_t rank,
                            const int64_t *dims, const int64_t *bounds)
{
    if (element->kind != MLIR_ELEMENT)
        return NULL;
    int64_t *sizes = ARENA_ARRAY(a, int64_t, rank + 1u);
    bool *dynamic = ARENA_ARRAY(a, bool, rank + 1u);
    bool any = false;
    for (uint32_t i = 0; i < rank; i++) {
        sizes[i] = dims[i];
        dynamic[i] = dims[i] == DIM_UNBOUNDED;
        if (dynamic[i] && bounds != NULL)
            sizes[i] = bounds[i];
        any |= dynamic[i];
    }
    MlirType *type = type_new(
        a, MLIR_TENSOR,
        shape_array(t, element->shape->dtype, rank, sizes, any ? dynamic : NULL, NULL));
    type->is_index = element->is_index;
    type->quantized = element->quantized;
    return type;
}

const MlirType *mlir_tuple(Arena *a, Intern *t, uint32_t count,
                           const MlirType *const *elements)
{
    const Shape **shapes = ARENA_ARRAY(a, const Shape *, count + 1u);
    for (uint32_t i = 0; i < count; i++) {
        shapes[i] = elements[i]->shape;
        if (shapes[i] == NULL)
            return mlir_other(a, "tuple", strlen("tuple"));
    }
    MlirType *type = type_new(a, MLIR_TUPLE, shape_tuple(t, count, shapes));
    type->input_count = count;
    type->inputs = arena_copy(a, elements, count * sizeof *elements);
    return type;
}

const MlirType *mlir_function(Arena *a, uint32_t input_count,
                              const MlirType *const *inputs, uint32_t result_count,
                              const MlirType *const *results)
{
    MlirType *type = type_new(a, MLIR_FUNCTION, NULL);
    type->input_count = input_count;
    type->result_count = result_count;
    type->inputs = arena_copy(a, inputs, input_count * sizeof *inputs);
    type->results = arena_copy(a, results, result_count * sizeof *results);
    return type;
}

/* -- names --------------------------------------------------------------------------------- */

/* i32, si32, ui32: the digits behind the letters; 0: it is none. */
static unsigned width_of(const char *name, size_t length, size_t letters)
{
    unsigned width = 0;
    if (length == letters || length > letters + 3)
        return 0;
    for (size_t i = letters; i < length; i++) {
        if (name[i] < '0' || name[i] > '9')
            return 0;
        width = width * 10 + (unsigned)(name[i] - '0');
    }
    return width;
}

static DType integer_type(bool is_unsigned, unsigned width)
{
    if (width == 1)
        return is_unsigned ? DT_INVALID : DT_PRED;
    char name[8];
    DType t;
    name[0] = is_unsigned ? 'u' : 's';
    size_t length = 1;
    if (width >= 10)
        name[length++] = (char)('0' + width / 10 % 10);
    name[length++] = (char)('0' + width % 10);
    return width < 100 && dtype_from_name(name, length, &t) ? t : DT_INVALID;
}

DType mlir_dtype(const char *name, size_t length, bool *is_index)
{
    *is_index = length == 5 && memcmp(name, "index", 5) == 0;
    if (*is_index)
        return DT_S64;
    bool is_unsigned = length > 1 && name[0] == 'u' && name[1] == 'i';
    size_t letters =
        is_unsigned || (length > 1 && name[0] == 's' && name[1] == 'i') ? 2 : 1;
    if (length != 0 && name[letters - 1] == 'i')
        return integer_type(is_unsigned, width_of(name, length, letters));
    char lower[16];
    if (length < 3 || length >= sizeof lower || (name[0] != 'f' && name[0] != 'b'))
        return DT_INVALID;
    for (size_t i = 0; i < length; i++)
        lower[i] =
            name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
    DType t;
    return dtype_from_name(lower, length, &t) && dtype_is_float(t) ? t : DT_INVALID;
}

static void print_element(Text *out, const MlirType *type)
{
    DType t = type->shape->dtype;
    const char *name = dtype_name(t);
    if (type->quantized != NULL) {
        text_printf(out, "!quant.uniform<%c%u:%s>", dtype_is_unsigned(t) ? 'u' : 'i',
                    dtype_info[t].bits, dtype_name(type->quantized->expressed));
    } else if (type->is_index) {
        text_string(out, "index");
    } else if (t == DT_PRED) {
        text_string(out, "i1");
    } else if (dtype_info[t].class == DTC_SINT) {
        text_printf(out, "i%s", name + 1);
    } else if (dtype_info[t].class == DTC_UINT) {
        text_printf(out, "ui%s", name + 1);
    } else if (dtype_info[t].class == DTC_COMPLEX) {
        text_printf(out, "complex<%s>", dtype_name(number_component(t)));
    } else {
        for (size_t i = 0; name[i] != '\0'; i++) /* f8E4M3FN */
            text_char(out, i > 1 && name[i] >= 'a' && name[i] <= 'z' && name[0] == 'f'
                               ? (char)(name[i] - 'a' + 'A')
                               : name[i]);
    }
}

static void print_type(Text *out, const MlirType *type);

static void print_types(Text *out, uint32_t count, const MlirType *const *types)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i != 0)
            text_string(out, ", ");
        print_type(out, types[i]);
    }
}

static void print_tensor(Text *out, const MlirType *type)
{
    const Shape *s = type->shape;
    text_string(out, "tensor<");
    for (uint32_t i = 0; i < s->rank; i++) {
        if (s->dynamic != NULL && s->dynamic[i])
            text_string(out, "?x");
        else
            text_printf(out, "%lldx", (long long)s->dims[i]);
    }
    print_element(out, type);
    text_char(out, '>');
}

static void print_type(Text *out, const MlirType *type)
{
    switch (type->kind) {
    case MLIR_TENSOR:
        print_tensor(out, type);
        break;
    case MLIR_ELEMENT:
        print_element(out, type);
        break;
    case MLIR_TUPLE:
        text_string(out, "tuple<");
        print_types(out, type->input_count, type->inputs);
        text_char(out, '>');
        break;
    case MLIR_TOKEN:
        text_string(out, "!stablehlo.token");
        break;
    case MLIR_FUNCTION:
        text_char(out, '(');
        print_types(out, type->input_count, type->inputs);
        text_string(out, ") -> (");
        print_types(out, type->result_count, type->results);
        text_char(out, ')');
        break;
    case MLIR_OTHER:
        text_string(out, type->text);
        break;
    }
}

const char *mlir_type_text(Arena *a, const MlirType *type)
{
    Text out;
    text_init(&out, a);
    print_type(&out, type);
    return out.data;
}

static bool quantized_equal(const Quantized *a, const Quantized *b)
{
    if (a == b)
        return true;
    if (a == NULL || b == NULL || a->storage != b->storage ||
        a->expressed != b->expressed || a->min != b->min || a->max != b->max ||
        a->axis != b->axis || a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->scales[i] != b->scales[i] || a->zero_points[i] != b->zero_points[i])
            return false;
    return true;
}

static bool types_equal(uint32_t count, const MlirType *const *a,
                        const MlirType *const *b)
{
    for (uint32_t i = 0; i < count; i++)
        if (!mlir_type_equal(a[i], b[i]))
            return false;
    return true;
}

bool mlir_type_equal(const MlirType *a, const MlirType *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || a->shape != b->shape || a->is_index != b->is_index ||
        a->input_count != b->input_count || a->result_count != b->result_count)
        return false;
    if (a->kind == MLIR_OTHER)
        return strcmp(a->text, b->text) == 0;
    return quantized_equal(a->quantized, b->quantized) &&
           types_equal(a->input_count, a->inputs, b->inputs) &&
           types_equal(a->result_count, a->results, b->results);
}
