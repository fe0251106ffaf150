/* The wire format of protocol buffers: varints and length-delimited bytes. Nothing recurses
 * here; nothing is trusted. See proto.h. */
#include <string.h>

#include "frontend/proto/proto.h"

uint64_t wire_take_varint(Wire *w)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (w->at >= w->end)
            break;
        unsigned char byte = *w->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    w->damaged = true;
    return 0;
}

static uint64_t take_fixed(Wire *w, size_t bytes)
{
    uint64_t value = 0;
    if ((size_t)(w->end - w->at) < bytes) {
        w->damaged = true;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)w->at[i] << (8 * i);
    w->at += bytes;
    return value;
}

bool wire_next(Wire *w, Field *out)
{
    if (w->damaged || w->at >= w->end)
        return false;
    uint64_t tag = wire_take_varint(w);
    *out = (Field){.number = (uint32_t)(tag >> 3), .type = (uint32_t)(tag & 7)};
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX / 8)
        w->damaged = true;
    switch (out->type) {
    case 0:
        out->value = wire_take_varint(w);
        break;
    case 1:
        out->value = take_fixed(w, 8);
        break;
    case 5:
        out->value = take_fixed(w, 4);
        break;
    case 2: {
        uint64_t length = wire_take_varint(w);
        if (length > (uint64_t)(w->end - w->at)) {
            w->damaged = true;
            break;
        }
        out->bytes = (Wire){w->at, w->at + length, false};
        w->at += length;
        break;
    }
    default:
        w->damaged = true;
    }
    return !w->damaged;
}

void wire_varint(Text *t, uint64_t value)
{
    char bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value != 0);
    text_add(t, bytes, n);
}

static void wire_tag(Text *t, uint32_t field, uint32_t type)
{
    wire_varint(t, (uint64_t)field << 3 | type);
}

void wire_int(Text *t, uint32_t field, int64_t value)
{
    wire_tag(t, field, 0);
    wire_varint(t, (uint64_t)value);
}

void wire_flag(Text *t, uint32_t field, bool value)
{
    if (value)
        wire_int(t, field, 1);
}

void wire_bytes(Text *t, uint32_t field, const char *data, size_t length)
{
    wire_tag(t, field, 2);
    wire_varint(t, length);
    text_add(t, data, length);
}

void wire_string(Text *t, uint32_t field, const char *s)
{
    wire_bytes(t, field, s, strlen(s));
}

void wire_message(Text *t, uint32_t field, const Text *message)
{
    wire_bytes(t, field, message->data, message->length);
}

static void add_fixed(Text *t, uint64_t bits, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        text_char(t, (char)(bits >> (8 * i)));
}

void wire_float(Text *t, uint32_t field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    wire_tag(t, field, 5);
    add_fixed(t, bits, 4);
}

void wire_ints(Text *t, uint32_t field, const int64_t *data, size_t count)
{
    if (count == 0)
        return;
    Text packed;
    text_init(&packed, t->arena);
    for (size_t i = 0; i < count; i++)
        wire_varint(&packed, (uint64_t)data[i]);
    wire_message(t, field, &packed);
}

uint32_t proto_literal_field(DType t)
{
    switch (t) {
    case DT_PRED:
        return 2;
    case DT_U8:
        return 3;
    case DT_S32:
        return 4;
    case DT_S64:
        return 5;
    case DT_U32:
        return 6;
    case DT_U64:
        return 7;
    case DT_F32:
        return 8;
    case DT_F64:
        return 9;
    case DT_F16:
        return 11;
    case DT_C64:
        return 12;
    case DT_BF16:
        return 13;
    case DT_S8:
        return 15;
    case DT_U16:
        return 16;
    case DT_S16:
        return 17;
    case DT_C128:
        return 18;
    default: /* the newer types have the number of the type itself */
        return dtype_info[t].proto >= 19 ? dtype_info[t].proto : 0;
    }
}

bool proto_plain_field(AttrId id, uint32_t *field, int64_t *plus)
{
    static const struct {
        AttrId id;
        uint32_t field;
        int64_t plus;
    } rows[] = {{ATTR_INDEX, 13, 0},
                {ATTR_DIMENSIONS, 14, 0},
                {ATTR_EXPONENT_BITS, 18, 0},
                {ATTR_MANTISSA_BITS, 19, 0},
                {ATTR_DYNAMIC_SLICE_SIZES, 20, 0},
                {ATTR_OUTFEED_CONFIG, 22, 0},
                {ATTR_DISTRIBUTION, 23, 0},
                {ATTR_FEATURE_INDEX, 25, 0},
                {ATTR_CHANNEL_ID, 26, 0},
                {ATTR_INFEED_CONFIG, 27, 0},
                {ATTR_CUSTOM_CALL_TARGET, 28, 0},
                {ATTR_FFT_TYPE, 31, 0},
                {ATTR_FFT_LENGTH, 32, 0},
                {ATTR_SLICE_SIZES, 34, 0},
                {ATTR_BACKEND_CONFIG, 43, 0},
                {ATTR_IS_HOST_TRANSFER, 47, 0},
                {ATTR_FEATURE_GROUP_COUNT, 50, 0},
                {ATTR_BATCH_GROUP_COUNT, 58, 0},
                {ATTR_CONSTRAIN_LAYOUT, 56, 0},
                {ATTR_IS_STABLE, 60, 0},
                {ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, 65, 0},
                {ATTR_DELTA, 66, 0},
                {ATTR_INDICES_ARE_SORTED, 67, 0},
                {ATTR_UNIQUE_INDICES, 69, 0},
                {ATTR_RNG_ALGORITHM, 70, 0},
                {ATTR_USE_GLOBAL_DEVICE_IDS, 71, 0},
                {ATTR_PADDING_TYPE, 75, 0},
                {ATTR_SCHEDULE, 76, 0},
                {ATTR_API_VERSION, 77, 1},
                {ATTR_ASYNC_EXECUTION_THREAD, 79, 0},
                {ATTR_CROSS_PROGRAM_PREFETCH_INDEX, 80, 0},
                {ATTR_K, 81, 0},
                {ATTR_IS_REVERSE, 94, 0},
                {ATTR_NUM_CARRIES, 95, 0},
                {ATTR_LARGEST, 85, 0},
                {ATTR_IS_COMPOSITE, 89, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].id == id) {
            *field = rows[i].field;
            *plus = rows[i].plus;
            return true;
        }
    }
    return false;
}

bool proto_nested_field(OpCode op, AttrId id, uint32_t *message, uint32_t *field)
{
    static const struct {
        AttrId id;
        uint32_t message, field;
    } rows[] = {{ATTR_OPERAND_PRECISION, 51, 1},
                {ATTR_ALGORITHM, 51, 2},
                {ATTR_LHS_CONTRACTING_DIMS, 30, 1},
                {ATTR_RHS_CONTRACTING_DIMS, 30, 2},
                {ATTR_LHS_BATCH_DIMS, 30, 3},
                {ATTR_RHS_BATCH_DIMS, 30, 4},
                {ATTR_LHS_RAGGED_DIMS, 90, 5},
                {ATTR_RHS_GROUP_DIMS, 90, 6},
                {ATTR_OFFSET_DIMS, 33, 1},
                {ATTR_COLLAPSED_SLICE_DIMS, 33, 2},
                {ATTR_START_INDEX_MAP, 33, 3},
                {ATTR_INDEX_VECTOR_DIM, 33, 4},
                {ATTR_OPERAND_BATCHING_DIMS, 33, 5},
                {ATTR_START_INDICES_BATCHING_DIMS, 33, 6},
                {ATTR_UPDATE_WINDOW_DIMS, 48, 1},
                {ATTR_INSERTED_WINDOW_DIMS, 48, 2},
                {ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, 48, 3},
                {ATTR_INPUT_BATCHING_DIMS, 48, 5},
                {ATTR_SCATTER_INDICES_BATCHING_DIMS, 48, 6},
                {ATTR_LEFT_SIDE, 59, 1},
                {ATTR_LOWER, 59, 2},
                {ATTR_UNIT_DIAGONAL, 59, 3},
                {ATTR_TRANSPOSE_A, 59, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].id != id)
            continue;
        *message = rows[i].message;
        *field = rows[i].field;
        if (op == OP_SCATTER && *message == 33)
            *message = 48;
        if (op == OP_RAGGED_DOT && *message == 30)
            *message = 90;
        if (op == OP_CHOLESKY) {
            *message = 62;
            *field = 1;
        }
        return true;
    }
    return false;
}
