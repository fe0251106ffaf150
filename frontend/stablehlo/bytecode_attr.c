/* Attributes and types of bytecode: those of MLIR itself and those of VHLO. */
#include <stdio.h>
#include <string.h>

#include "frontend/stablehlo/bytecode.h"
#include "ir/dtype.h"

static Span nowhere(void)
{
    return (Span){0, 0};
}

static MlirAttr *attr_new(Bytecode *b, MlirAttrKind kind)
{
    MlirAttr *a = ARENA_NEW(b->arena, MlirAttr);
    a->kind = kind;
    a->span = nowhere();
    return a;
}

static const MlirAttr *take_attr(Bytecode *b, ByteReader *r)
{
    return bytecode_attr(b, bytes_varint(r));
}

static const MlirType *take_type(Bytecode *b, ByteReader *r)
{
    return bytecode_type(b, bytes_varint(r));
}

/* -- parts of attributes --------------------------------------------------------------------- */

static MlirAttr *text_attr(Bytecode *b, MlirAttrKind kind, Bytes text)
{
    MlirAttr *a = attr_new(b, kind);
    a->text = text;
    return a;
}

static MlirAttr *word_attr(Bytecode *b, ByteReader *r, uint32_t count,
                           const char *const *words)
{
    uint64_t value = bytes_varint(r);
    if (value >= count)
        return bytecode_error(b, "value %llu of an enumeration of %u",
                              (unsigned long long)value, count);
    return text_attr(b, MLIR_WORD, (Bytes){words[value], strlen(words[value])});
}

static MlirAttr *int_attr(Bytecode *b, int64_t value)
{
    MlirAttr *a = attr_new(b, MLIR_INT);
    a->i = value;
    return a;
}

static MlirAttr *list_attr(Bytecode *b, ByteReader *r)
{
    MlirAttr *a = attr_new(b, MLIR_LIST);
    uint32_t count = bytes_count(r);
    const MlirAttr **items = ARENA_ARRAY(b->arena, const MlirAttr *, count + 1u);
    for (uint32_t i = 0; i < count; i++) {
        items[i] = take_attr(b, r);
        if (items[i] == NULL)
            return NULL;
    }
    a->list.count = count;
    a->list.items = items;
    return a;
}

static const char *name_of(Bytecode *b, const MlirAttr *a)
{
    if (a != NULL && a->kind == MLIR_STRING)
        return intern_text(b->intern, a->text.data, strlen(a->text.data));
    return a == NULL ? NULL : bytecode_error(b, "a name in a dictionary is no string");
}

static MlirAttr *dict_attr(Bytecode *b, ByteReader *r)
{
    MlirAttr *a = attr_new(b, MLIR_DICT);
    uint32_t count = bytes_count(r);
    MlirEntry *entries = ARENA_ARRAY(b->arena, MlirEntry, count + 1u);
    for (uint32_t i = 0; i < count; i++) {
        entries[i].name = name_of(b, take_attr(b, r));
        entries[i].value = entries[i].name != NULL ? take_attr(b, r) : NULL;
        if (entries[i].value == NULL)
            return NULL;
    }
    a->dict = (MlirDict){count, entries};
    return a;
}

/* An integer of so many bits, as the value is held. */
static uint64_t take_bits(ByteReader *r, unsigned width)
{
    return width <= 8 ? bytes_byte(r) : (uint64_t)bytes_signed(r);
}

static MlirAttr *integer_attr(Bytecode *b, ByteReader *r)
{
    const MlirType *type = take_type(b, r);
    if (type == NULL)
        return NULL;
    unsigned width = type->kind == MLIR_ELEMENT ? dtype_info[type->shape->dtype].bits : 0;
    if (width == 0 || width > 64)
        return bytecode_error(b, "an integer attribute is of type %s",
                              mlir_type_text(b->scratch, type));
    uint64_t bits = take_bits(r, width);
    MlirAttr *a = int_attr(b, (int64_t)bits);
    a->type = type;
    if (type->shape->dtype == DT_PRED) {
        a->kind = MLIR_BOOL;
        a->i = (bits & 1) != 0;
    } else if (width <= 8 && dtype_is_signed(type->shape->dtype)) {
        a->i = (int64_t)(bits << (64 - width)) >> (64 - width);
    }
    return a;
}

static MlirAttr *float_attr(Bytecode *b, ByteReader *r)
{
    const MlirType *type = take_type(b, r);
    if (type == NULL)
        return NULL;
    DType t = type->kind == MLIR_ELEMENT ? type->shape->dtype : DT_INVALID;
    if (!dtype_is_float(t))
        return bytecode_error(b, "a float attribute is of type %s",
                              mlir_type_text(b->scratch, type));
    MlirAttr *a = attr_new(b, MLIR_FLOAT);
    unsigned width = dtype_info[t].bits;
    uint64_t bits = take_bits(r, width);
    if (width < 64)
        bits &= (UINT64_C(1) << width) - 1;
    a->f = number_to_double(t, bits);
    a->type = type;
    return a;
}

static double take_double(ByteReader *r)
{
    return number_to_double(DT_F64, take_bits(r, 64));
}

static MlirAttr *dense_attr(Bytecode *b, const MlirType *type, ByteReader blob)
{
    if (type == NULL)
        return NULL;
    MlirAttr *a = attr_new(b, MLIR_DENSE);
    a->type = type;
    a->text = (Bytes){(const char *)blob.at, bytes_left(&blob)};
    return a;
}

static MlirAttr *blob_attr(Bytecode *b, ByteReader *r)
{
    const MlirType *type = take_type(b, r);
    return dense_attr(b, type, bytes_take(r, bytes_varint(r)));
}

static MlirAttr *type_attr(Bytecode *b, ByteReader *r)
{
    const MlirType *type = take_type(b, r);
    if (type == NULL)
        return NULL;
    MlirAttr *a = attr_new(b, MLIR_TYPE);
    a->type = type;
    return a;
}

static MlirAttr *ints_attr(Bytecode *b, ByteReader *r)
{
    MlirAttr *a = attr_new(b, MLIR_LIST);
    uint32_t count = bytes_count(r);
    const MlirAttr **items = ARENA_ARRAY(b->arena, const MlirAttr *, count + 1u);
    for (uint32_t i = 0; i < count; i++)
        items[i] = int_attr(b, bytes_signed(r));
    a->list.count = count;
    a->list.items = items;
    return a;
}

/* A struct of fields; NULL if one of them is. */
static MlirAttr *struct_attr(Bytecode *b, const char *name, uint32_t count,
                             const MlirEntry *fields)
{
    for (uint32_t i = 0; i < count; i++)
        if (fields[i].value == NULL)
            return NULL;
    MlirAttr *a = text_attr(b, MLIR_STRUCT, (Bytes){name, strlen(name)});
    a->fields = (MlirDict){count, arena_copy(b->arena, fields, count * sizeof *fields)};
    return a;
}

/* -- locations ------------------------------------------------------------------------------- */

static MlirAttr *location(Bytecode *b, const char *kind, const MlirAttr *first,
                          const MlirAttr *second, const MlirAttr *third)
{
    const MlirEntry fields[] = {{NULL, first}, {NULL, second}, {NULL, third}};
    uint32_t count = first == NULL ? 0 : second == NULL ? 1 : third == NULL ? 2 : 3;
    return struct_attr(b, kind, count, fields);
}

static MlirAttr *file_location(Bytecode *b, ByteReader *r, bool is_range)
{
    const MlirAttr *file = take_attr(b, r);
    int64_t position[2] = {0, 0};
    if (!is_range) {
        position[0] = (int64_t)bytes_varint(r);
        position[1] = (int64_t)bytes_varint(r);
    } else {
        uint32_t count = bytes_count(r);
        for (uint32_t i = 0; i < count; i++) {
            int64_t value = (int64_t)bytes_varint(r);
            if (i < 2)
                position[i] = value;
        }
    }
    if (file == NULL)
        return NULL;
    return location(b, "file", file, int_attr(b, position[0]), int_attr(b, position[1]));
}

static MlirAttr *fused_location(Bytecode *b, ByteReader *r)
{
    MlirAttr *list = list_attr(b, r);
    if (list == NULL)
        return NULL;
    MlirAttr *a = text_attr(b, MLIR_STRUCT, (Bytes){"fused", 5});
    MlirEntry *entries = ARENA_ARRAY(b->arena, MlirEntry, list->list.count + 1u);
    for (uint32_t i = 0; i < list->list.count; i++)
        entries[i].value = list->list.items[i];
    a->fields = (MlirDict){list->list.count, entries};
    return a;
}

/* -- MLIR's own ------------------------------------------------------------------------------ */

static MlirAttr *symbol_attr(Bytecode *b, ByteReader *r)
{
    const char *name = name_of(b, take_attr(b, r));
    return name != NULL ? text_attr(b, MLIR_SYMBOL, (Bytes){name, strlen(name)}) : NULL;
}

static MlirAttr *resource_attr(Bytecode *b, ByteReader *r)
{
    const MlirType *type = take_type(b, r);
    uint64_t number = bytes_varint(r);
    if (number >= b->blob_count)
        return bytecode_error(b, "there is no resource %llu", (unsigned long long)number);
    const unsigned char *data = (const unsigned char *)b->blobs[number].data;
    return dense_attr(b, type, (ByteReader){data, data + b->blobs[number].length, false});
}

static MlirAttr *array_attr(Bytecode *b, ByteReader *r)
{
    const MlirType *element = take_type(b, r);
    int64_t size = (int64_t)bytes_varint(r);
    ByteReader blob = bytes_take(r, bytes_varint(r));
    if (element == NULL || size < 0 || (uint64_t)size > bytes_left(&blob))
        return element != NULL ? bytecode_error(b, "an array is longer than its bytes")
                               : NULL;
    const MlirType *type = mlir_tensor(b->arena, b->intern, element, 1, &size, NULL);
    if (type == NULL)
        return bytecode_error(b, "an array of %s", mlir_type_text(b->scratch, element));
    return dense_attr(b, type, blob);
}

static const MlirAttr *builtin_attr(Bytecode *b, ByteReader *r)
{
    const MlirAttr *first;
    switch (bytes_varint(r)) {
    case 0:
        return list_attr(b, r);
    case 1:
        return dict_attr(b, r);
    case 2:
    case 3: /* with a type, which means nothing here */
        return text_attr(b, MLIR_STRING, bytecode_string(b, r));
    case 4:
    case 5: /* nested: no operation here refers into a function */
        return symbol_attr(b, r);
    case 6:
        return type_attr(b, r);
    case 7:
        return attr_new(b, MLIR_UNIT);
    case 8:
        return integer_attr(b, r);
    case 9:
        return float_attr(b, r);
    case 10:
        first = take_attr(b, r);
        return first != NULL ? location(b, "callsite", first, NULL, NULL) : NULL;
    case 11:
        return file_location(b, r, false);
    case 12:
    case 13:
        return fused_location(b, r);
    case 14:
        first = take_attr(b, r);
        return first != NULL ? location(b, "name", first, take_attr(b, r), NULL) : NULL;
    case 15:
        return location(b, "unknown", NULL, NULL, NULL);
    case 16:
        return resource_attr(b, r);
    case 17:
        return array_attr(b, r);
    case 18:
        return blob_attr(b, r);
    case 22:
        return file_location(b, r, true);
    default: /* strings in tensors, sparse elements: nothing here has them */
        return text_attr(b, MLIR_OPAQUE, (Bytes){"", 0});
    }
}

static const MlirType *element_type(Bytecode *b, DType t)
{
    return t == DT_INVALID ? mlir_other(b->arena, "?", 1)
                           : mlir_element(b->arena, b->intern, t, false);
}

/* A list of types; NULL after a message. */
static const MlirType **take_types(Bytecode *b, ByteReader *r, uint32_t *count)
{
    *count = bytes_count(r);
    const MlirType **types = ARENA_ARRAY(b->arena, const MlirType *, *count + 1u);
    for (uint32_t i = 0; i < *count; i++) {
        types[i] = take_type(b, r);
        if (types[i] == NULL)
            return NULL;
    }
    return types;
}

static const MlirType *function_type(Bytecode *b, ByteReader *r)
{
    uint32_t inputs, results;
    const MlirType **in = take_types(b, r, &inputs);
    const MlirType **out = in != NULL ? take_types(b, r, &results) : NULL;
    return out != NULL ? mlir_function(b->arena, inputs, in, results, out) : NULL;
}

static const MlirType *tuple_type(Bytecode *b, ByteReader *r)
{
    uint32_t count;
    const MlirType **types = take_types(b, r, &count);
    return types != NULL ? mlir_tuple(b->arena, b->intern, count, types) : NULL;
}

static const MlirType *complex_type(Bytecode *b, ByteReader *r)
{
    const MlirType *part = take_type(b, r);
    if (part == NULL)
        return NULL;
    DType t = part->kind == MLIR_ELEMENT ? part->shape->dtype : DT_INVALID;
    if (t != DT_F32 && t != DT_F64)
        return bytecode_error(b, "a complex type of %s",
                              mlir_type_text(b->scratch, part));
    return element_type(b, t == DT_F32 ? DT_C64 : DT_C128);
}

static const MlirType *tensor_type(Bytecode *b, ByteReader *r, bool has_encoding)
{
    const MlirAttr *encoding = has_encoding ? take_attr(b, r) : NULL;
    uint32_t rank = bytes_count(r);
    int64_t *dims = ARENA_ARRAY(b->scratch, int64_t, rank + 1u);
    int64_t *bounds = ARENA_ARRAY(b->scratch, int64_t, rank + 1u);
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = bytes_signed(r);
        if (dims[i] < 0 && dims[i] != DIM_UNBOUNDED)
            return bytecode_error(b, "a tensor's dimension of size %lld",
                                  (long long)dims[i]);
    }
    const MlirType *element = take_type(b, r);
    if (element == NULL || (has_encoding && encoding == NULL))
        return NULL;
    bool bounded =
        encoding != NULL && encoding->kind == MLIR_LIST && encoding->list.count == rank;
    for (uint32_t i = 0; bounded && i < rank; i++)
        bounds[i] = encoding->list.items[i]->kind == MLIR_INT ? encoding->list.items[i]->i
                                                              : DIM_UNBOUNDED;
    const MlirType *type = rank <= 64 ? mlir_tensor(b->arena, b->intern, element, rank,
                                                    dims, bounded ? bounds : NULL)
                                      : NULL;
    return type != NULL
               ? type
               : bytecode_error(b, "a tensor of %s", mlir_type_text(b->scratch, element));
}

static const MlirType *builtin_type(Bytecode *b, ByteReader *r)
{
    static const DType floats[] = {DT_BF16, DT_F16, DT_F32, DT_F64};
    uint64_t code = bytes_varint(r);
    if (code >= 3 && code <= 6)
        return element_type(b, floats[code - 3]);
    switch (code) {
    case 0: {
        uint64_t width = bytes_varint(r);
        char name[24];
        bool is_index;
        int n = snprintf(name, sizeof name, "%si%llu", (width & 3) == 2 ? "u" : "",
                         (unsigned long long)(width >> 2));
        return element_type(b, mlir_dtype(name, (size_t)n, &is_index));
    }
    case 1:
        return mlir_element(b->arena, b->intern, DT_S64, true);
    case 2:
        return function_type(b, r);
    case 9:
        return complex_type(b, r);
    case 12:
        return mlir_other(b->arena, "none", 4);
    case 13:
    case 14:
        return tensor_type(b, r, code == 14);
    case 15:
        return tuple_type(b, r);
    default:
        return mlir_other(b->arena, "a type of MLIR", strlen("a type of MLIR"));
    }
}

/* -- VHLO's ---------------------------------------------------------------------------------- */

static const MlirAttr *accuracy_attr(Bytecode *b, ByteReader *r)
{
    MlirAttr *atol = attr_new(b, MLIR_FLOAT), *rtol = attr_new(b, MLIR_FLOAT);
    atol->f = take_double(r);
    rtol->f = take_double(r);
    int64_t ulps = bytes_signed(r);
    const MlirEntry fields[] = {{"atol", atol},
                                {"rtol", rtol},
                                {"ulps", int_attr(b, ulps)},
                                {"mode", take_attr(b, r)}};
    return struct_attr(b, "result_accuracy", 4, fields);
}

static const MlirAttr *alias_attr(Bytecode *b, ByteReader *r)
{
    const MlirAttr *output = ints_attr(b, r);
    const MlirAttr *operand = int_attr(b, bytes_signed(r));
    const MlirEntry fields[] = {{"output_tuple_indices", output},
                                {"operand_index", operand},
                                {"operand_tuple_indices", ints_attr(b, r)}};
    return struct_attr(b, "output_operand_alias", 3, fields);
}

static const MlirAttr *axis_attr(Bytecode *b, ByteReader *r)
{
    MlirEntry fields[2] = {{"name", take_attr(b, r)}, {"sub_axis_info", NULL}};
    bool part = bytes_varint(r) != 0;
    if (part)
        fields[1].value = take_attr(b, r);
    return struct_attr(b, "axis_ref", part ? 2 : 1, fields);
}

static const MlirAttr *mesh_attr(Bytecode *b, ByteReader *r)
{
    MlirEntry fields[2] = {{"axes", take_attr(b, r)}, {"device_ids", NULL}};
    bool devices;
    uint64_t number = bytes_flagged(r, &devices);
    if (devices)
        fields[1].value = bytecode_attr(b, number);
    return struct_attr(b, "mesh", devices ? 2 : 1, fields);
}

static const MlirAttr *pair_attr(Bytecode *b, const char *name, const char *first,
                                 const MlirAttr *a, const char *second, const MlirAttr *c)
{
    const MlirEntry fields[] = {{first, a}, {second, c}};
    return struct_attr(b, name, 2, fields);
}

#define WORDS(...)                                                                       \
    word_attr(b, r, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *),   \
              (const char *const[]){__VA_ARGS__})

static const MlirAttr *vhlo_attr(Bytecode *b, ByteReader *r)
{
    const MlirAttr *first;
    int64_t number;
    MlirAttr *made;
    uint64_t code = bytes_varint(r);
    switch (code) {
    case 1:
        return list_attr(b, r);
    case 2:
        made = attr_new(b, MLIR_BOOL);
        made->i = bytes_varint(r) != 0;
        return made;
    case 3:
        return WORDS("EQ", "NE", "GE", "GT", "LE", "LT");
    case 4:
        return WORDS("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED");
    case 5:
        return WORDS("API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL",
                     "API_VERSION_STATUS_RETURNING",
                     "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI");
    case 6:
        return dict_attr(b, r);
    case 7:
        return WORDS("FFT", "IFFT", "RFFT", "IRFFT");
    case 8:
        return float_attr(b, r);
    case 9:
        return integer_attr(b, r);
    case 10:
        return alias_attr(b, r);
    case 11:
        return WORDS("DEFAULT", "HIGH", "HIGHEST");
    case 12:
        return WORDS("DEFAULT", "THREE_FRY", "PHILOX");
    case 13:
        return WORDS("INVALID", "UNIFORM", "NORMAL");
    case 14:
        return text_attr(b, MLIR_STRING, bytecode_string(b, r));
    case 15:
        return blob_attr(b, r);
    case 16:
        return WORDS("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT");
    case 17:
        return type_attr(b, r);
    case 18:
        return ints_attr(b, r);
    case 19:
        return WORDS("DEFAULT", "HIGHEST", "TOLERANCE");
    case 20:
        return accuracy_attr(b, r);
    case 21:
        number = bytes_signed(r);
        return pair_attr(b, "sub_axis_info", "pre_size", int_attr(b, number), "size",
                         int_attr(b, bytes_signed(r)));
    case 22:
        return axis_attr(b, r);
    case 23:
        first = take_attr(b, r);
        return first == NULL ? NULL
                             : pair_attr(b, "replica_group_mesh_axes", "mesh", first,
                                         "axes", take_attr(b, r));
    case 24:
        first = take_attr(b, r);
        return first == NULL ? NULL
                             : pair_attr(b, "mesh_axis", "name", first, "size",
                                         int_attr(b, bytes_signed(r)));
    case 25:
        return mesh_attr(b, r);
    default:
        return bytecode_error(
            b, "attribute %llu of VHLO is of a version that is newer than gxc",
            (unsigned long long)code);
    }
}

/* MLIR's own integers have no sign: they are read as signed. */
static DType unsigned_of(DType t)
{
    char name[8];
    DType made;
    int length = snprintf(name, sizeof name, "u%s", dtype_name(t) + 1);
    return dtype_from_name(name, (size_t)length, &made) ? made : t;
}

/* Storage and expressed type, a scale and a zero point, or as many as the axis is long. */
static const MlirType *quantized_type(Bytecode *b, ByteReader *r, bool per_axis)
{
    Quantized *q = ARENA_NEW(b->arena, Quantized);
    bool is_signed = (bytes_varint(r) & 1) != 0; /* flags: the type does not say it */
    const MlirType *storage = take_type(b, r), *expressed = take_type(b, r);
    if (storage == NULL || expressed == NULL)
        return NULL;
    if (storage->kind != MLIR_ELEMENT || expressed->kind != MLIR_ELEMENT ||
        !dtype_is_integer(storage->shape->dtype) ||
        !dtype_is_float(expressed->shape->dtype))
        return bytecode_error(b, "a quantised type stores integers for floats");
    DType stored = storage->shape->dtype;
    int64_t least, most;
    if (!is_signed)
        stored = unsigned_of(stored);
    if (!mlir_storage_range(stored, &least, &most))
        return bytecode_error(b, "a quantised type stores integers of at most 32 bits");
    *q = (Quantized){
        .storage = stored, .expressed = expressed->shape->dtype, .axis = -1, .count = 1};
    double *scales = ARENA_NEW(b->arena, double);
    int64_t *zeros = ARENA_NEW(b->arena, int64_t);
    if (per_axis) {
        q->axis = (int64_t)(bytes_varint(r) & 63);
        q->min = bytes_signed(r);
        q->max = bytes_signed(r);
        q->count = bytes_count(r);
        scales = ARENA_ARRAY(b->arena, double, q->count + 1u);
        zeros = ARENA_ARRAY(b->arena, int64_t, q->count + 1u);
    }
    for (uint32_t i = 0; i < q->count; i++)
        scales[i] = take_double(r);
    uint32_t zero_count = per_axis ? bytes_count(r) : 1;
    for (uint32_t i = 0; i < zero_count && i < q->count; i++)
        zeros[i] = bytes_signed(r);
    if (!per_axis) {
        q->min = bytes_signed(r);
        q->max = bytes_signed(r);
    }
    if (zero_count != q->count)
        return bytecode_error(b, "a quantised type has a zero point for each scale");
    if (q->min < least || q->max > most || q->min >= q->max)
        return bytecode_error(b, "a quantised type stores numbers that %s does not hold",
                              dtype_name(stored));
    q->scales = scales;
    q->zero_points = zeros;
    return mlir_quantized(b->arena, b->intern, q);
}

static const DType vhlo_elements[] = {[0] = DT_PRED,        [2] = DT_BF16,
                                      [3] = DT_F16,         [4] = DT_F32,
                                      [5] = DT_F64,         [6] = DT_F8E4M3FN,
                                      [7] = DT_F8E5M2,      [10] = DT_S4,
                                      [11] = DT_S8,         [12] = DT_S16,
                                      [13] = DT_S32,        [14] = DT_S64,
                                      [15] = DT_U4,         [16] = DT_U8,
                                      [17] = DT_U16,        [18] = DT_U32,
                                      [19] = DT_U64,        [27] = DT_F8E4M3FNUZ,
                                      [28] = DT_F8E5M2FNUZ, [29] = DT_F8E4M3B11FNUZ,
                                      [31] = DT_S2,         [32] = DT_U2,
                                      [35] = DT_F8E4M3,     [36] = DT_F8E3M4,
                                      [37] = DT_F4E2M1FN,   [38] = DT_F6E2M3FN,
                                      [39] = DT_F6E3M2FN,   [40] = DT_F8E8M0FNU};

static const MlirType *vhlo_type(Bytecode *b, ByteReader *r)
{
    uint64_t code = bytes_varint(r);
    if (code < sizeof vhlo_elements / sizeof *vhlo_elements &&
        vhlo_elements[code] != DT_INVALID)
        return element_type(b, vhlo_elements[code]);
    switch (code) {
    case 1:
        return complex_type(b, r);
    case 8:
        return function_type(b, r);
    case 9:
        return mlir_element(b->arena, b->intern, DT_S64, true);
    case 20:
    case 21:
        return tensor_type(b, r, code == 21);
    case 22:
        return mlir_token(b->arena, b->intern);
    case 23:
        return tuple_type(b, r);
    case 24:
    case 30:
        return quantized_type(b, r, code == 30);
    case 25:
        return mlir_other(b->arena, "tensor<*>", strlen("tensor<*>"));
    case 33:
        return mlir_other(b->arena, "none", 4);
    case 34:
        return mlir_other(b->arena, "tf32", 4);
    default:
        return mlir_other(b->arena, "a type of VHLO", strlen("a type of VHLO"));
    }
}

/* -- looking up ------------------------------------------------------------------------------ */

/* Opened for reading; NULL after a message, or with the value known already. */
static BytecodeEntry *open_entry(Bytecode *b, BytecodeEntry *table, uint32_t count,
                                 uint64_t number, const char *what)
{
    if (b->failed)
        return NULL;
    if (number >= count)
        return bytecode_error(b, "there is no %s %llu: the file has %u", what,
                              (unsigned long long)number, count);
    BytecodeEntry *e = &table[number];
    if (e->value != NULL)
        return e;
    if (e->is_open || b->depth >= MLIR_DEPTH)
        return bytecode_error(b, "%ss are nested deeper than %d levels, or in themselves",
                              what, MLIR_DEPTH);
    return e;
}

static bool is_dialect(const Bytecode *b, const BytecodeEntry *e, const char *name)
{
    return e->dialect < b->dialect_count && strcmp(b->dialects[e->dialect], name) == 0;
}

static Bytes entry_text(const BytecodeEntry *e)
{
    Bytes text = {(const char *)e->bytes.at, bytes_left(&e->bytes)};
    while (text.length != 0 && text.data[text.length - 1] == '\0')
        text.length--;
    return text;
}

const MlirAttr *bytecode_attr(Bytecode *b, uint64_t number)
{
    BytecodeEntry *e = open_entry(b, b->attrs, b->attr_count, number, "attribute");
    if (e == NULL || e->value != NULL)
        return e != NULL ? e->value : NULL;
    ByteReader r = e->bytes;
    Bytes text = {"", 0};
    e->is_open = true;
    b->depth++;
    if (e->is_text && (text = entry_text(e)).length < INT32_MAX / 2)
        e->value = mlir_read_attribute(b->arena, b->intern, text);
    if (e->is_text)
        e->value = e->value != NULL ? e->value : text_attr(b, MLIR_OPAQUE, text);
    else if (is_dialect(b, e, "builtin"))
        e->value = builtin_attr(b, &r);
    else if (is_dialect(b, e, "vhlo"))
        e->value = vhlo_attr(b, &r);
    else if (is_dialect(b, e, "sdy"))
        e->value = bytecode_sdy_attr(b, &r);
    else
        e->value = text_attr(b, MLIR_OPAQUE, (Bytes){"", 0});
    b->depth--;
    e->is_open = false;
    if (r.damaged)
        return bytecode_error(b, "attribute %llu is damaged", (unsigned long long)number);
    return e->value;
}

const MlirType *bytecode_type(Bytecode *b, uint64_t number)
{
    BytecodeEntry *e = open_entry(b, b->types, b->type_count, number, "type");
    if (e == NULL || e->value != NULL)
        return e != NULL ? e->value : NULL;
    ByteReader r = e->bytes;
    e->is_open = true;
    b->depth++;
    if (e->is_text) {
        Bytes text = entry_text(e);
        e->value = mlir_parse_type(b->arena, b->intern, text.data, text.length);
        if (e->value == NULL)
            e->value = mlir_other(b->arena, text.data, text.length);
    } else if (is_dialect(b, e, "builtin")) {
        e->value = builtin_type(b, &r);
    } else if (is_dialect(b, e, "vhlo")) {
        e->value = vhlo_type(b, &r);
    } else {
        const char *name = e->dialect < b->dialect_count ? b->dialects[e->dialect] : "?";
        e->value = mlir_other(b->arena, name, strlen(name));
    }
    b->depth--;
    e->is_open = false;
    if (r.damaged)
        return bytecode_error(b, "type %llu is damaged", (unsigned long long)number);
    return e->value;
}
