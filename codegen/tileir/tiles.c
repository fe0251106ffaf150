/* Operations on tiles that the lowering is made of. See lower.h. */
#include <math.h>
#include <string.h>

#include "codegen/tileir/lower.h"
#include "ir/number/number.h"

uint32_t tileir_scalar_bits(TileIrScalar t)
{
    static const uint8_t bits[TILEIR_SCALARS] = {1,  8,  16, 32, 64, 16,
                                                 16, 32, 32, 64, 8,  8};
    return bits[t];
}

bool tileir_type_of(DType t, bool is_memory, TileIrScalar *out)
{
    static const uint8_t types[] = {
        [DT_PRED] = TILEIR_I1 + 1,       [DT_S8] = TILEIR_I8 + 1,
        [DT_U8] = TILEIR_I8 + 1,         [DT_S16] = TILEIR_I16 + 1,
        [DT_U16] = TILEIR_I16 + 1,       [DT_S32] = TILEIR_I32 + 1,
        [DT_U32] = TILEIR_I32 + 1,       [DT_S64] = TILEIR_I64 + 1,
        [DT_U64] = TILEIR_I64 + 1,       [DT_F16] = TILEIR_F16 + 1,
        [DT_BF16] = TILEIR_BF16 + 1,     [DT_F32] = TILEIR_F32 + 1,
        [DT_F64] = TILEIR_F64 + 1,       [DT_F8E4M3FN] = TILEIR_F8E4M3FN + 1,
        [DT_F8E5M2] = TILEIR_F8E5M2 + 1, [DT_F8E8M0FNU] = TILEIR_I8 + 1, /* its bits */
    };
    if (t >= sizeof types || types[t] == 0)
        return false;
    *out = (TileIrScalar)(types[t] - 1);
    if (*out == TILEIR_I1 && is_memory)
        *out = TILEIR_I8;
    return true;
}

uint32_t tileir_type(TileIrLower *l, TileIrScalar element, uint32_t rank,
                     const int64_t *sizes)
{
    return bytecode_tile(l->m, bytecode_scalar(l->m, element), rank, sizes);
}

const TileIrTile *tileir_tile_of(TileIrLower *l, const TileIrOp *op, uint32_t result,
                                 TileIrScalar element, uint32_t rank,
                                 const int64_t *sizes)
{
    TileIrTile *t = ARENA_NEW(l->arena, TileIrTile);
    t->value = bytecode_result(op, result);
    t->element = element;
    t->rank = rank;
    if (rank != 0)
        memcpy(t->sizes, sizes, rank * sizeof *sizes);
    return t;
}

static const TileIrTile *make_shaped(TileIrLower *l, TileIrOpcode op,
                                     TileIrScalar element, const char *attributes,
                                     uint32_t count, const TileIrTile *const *in,
                                     uint32_t rank, const int64_t *sizes)
{
    for (uint32_t i = 0; i < count; i++) {
        if (in[i] == NULL)
            return NULL;
    }
    uint32_t type = tileir_type(l, element, rank, sizes);
    TileIrOp *o = bytecode_op(l->m, op, 1, &type, attributes);
    for (uint32_t i = 0; i < count; i++)
        bytecode_operand(o, in[i]->value);
    bytecode_append(l->at, o);
    return tileir_tile_of(l, o, 0, element, rank, sizes);
}

const TileIrTile *tileir_make(TileIrLower *l, TileIrOpcode op, TileIrScalar element,
                              const char *attributes, uint32_t count,
                              const TileIrTile *const *in)
{
    return in[0] == NULL ? NULL
                         : make_shaped(l, op, element, attributes, count, in, in[0]->rank,
                                       in[0]->sizes);
}

const TileIrTile *tileir_unary(TileIrLower *l, TileIrOpcode op, const TileIrTile *x)
{
    return x == NULL ? NULL : tileir_make(l, op, x->element, NULL, 1, &x);
}

const TileIrTile *tileir_binary(TileIrLower *l, TileIrOpcode op, const TileIrTile *x,
                                const TileIrTile *y)
{
    const TileIrTile *in[] = {x, y};
    return x == NULL ? NULL : tileir_make(l, op, x->element, NULL, 2, in);
}

const TileIrTile *tileir_resize(TileIrLower *l, const TileIrTile *x, TileIrScalar to,
                                bool is_signed)
{
    uint32_t have = tileir_scalar_bits(x->element), want = tileir_scalar_bits(to);
    if (have == want)
        return x;
    if (have > want)
        return tileir_make(l, TILEIR_TRUNCI, to, NULL, 1, &x);
    return tileir_make(l, TILEIR_EXTI, to, is_signed ? "\1" : "\0", 1, &x);
}

const TileIrTile *tileir_bits(TileIrLower *l, TileIrScalar t, uint64_t bits,
                              uint32_t rank, const int64_t *sizes)
{
    uint8_t bytes[8];
    uint32_t count = (tileir_scalar_bits(t) + 7) / 8,
             type = tileir_type(l, t, rank, sizes);
    if (t == TILEIR_I1 && bits != 0)
        bits =
            UINT8_MAX; /* of a byte each bit is an element, if they are not all the same */
    for (uint32_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(bits >> 8 * i);
    TileIrOp *op = bytecode_op(l->m, TILEIR_CONSTANT, 1, &type, NULL);
    bytecode_attribute(op, bytecode_constant(l->m, bytes, count));
    bytecode_append(l->at, op);
    return tileir_tile_of(l, op, 0, t, rank, sizes);
}

const TileIrTile *tileir_number(TileIrLower *l, double value, const TileIrTile *like)
{
    if (like == NULL)
        return NULL;
    uint64_t bits = 0;
    float single = (float)value;
    if (like->element == TILEIR_F64)
        memcpy(&bits, &value, sizeof value);
    else if (like->element == TILEIR_F32)
        memcpy(&bits, &single, sizeof single);
    else
        bits = (uint64_t)(int64_t)value;
    return tileir_bits(l, like->element, bits, like->rank, like->sizes);
}

static bool same_sizes(const TileIrTile *x, uint32_t rank, const int64_t *sizes)
{
    return x->rank == rank && memcmp(x->sizes, sizes, rank * sizeof *sizes) == 0;
}

const TileIrTile *tileir_reshape(TileIrLower *l, const TileIrTile *x, uint32_t rank,
                                 const int64_t *sizes)
{
    if (x == NULL || same_sizes(x, rank, sizes))
        return x;
    return make_shaped(l, TILEIR_RESHAPE, x->element, NULL, 1, &x, rank, sizes);
}

const TileIrTile *tileir_part(TileIrLower *l, const TileIrTile *x, const int64_t *sizes,
                              uint32_t dim, int64_t number)
{
    if (x == NULL)
        return NULL;
    uint32_t type = tileir_type(l, x->element, x->rank, sizes);
    TileIrOp *o = bytecode_op_counted(l->m, TILEIR_EXTRACT, 1, &type);
    const TileIrTile *at[TILEIR_MOST_RANK];
    for (uint32_t i = 0; i < x->rank; i++)
        at[i] = tileir_bits(l, TILEIR_I32, i == dim ? (uint64_t)number : 0, 0, NULL);
    bytecode_operand_count(o, 1 + x->rank);
    bytecode_operand(o, x->value);
    for (uint32_t i = 0; i < x->rank; i++)
        bytecode_operand(o, at[i]->value);
    bytecode_append(l->at, o);
    return tileir_tile_of(l, o, 0, x->element, x->rank, sizes);
}

const TileIrTile *tileir_spread(TileIrLower *l, const TileIrTile *x, const int64_t *sizes)
{
    if (x == NULL || same_sizes(x, x->rank, sizes))
        return x;
    return make_shaped(l, TILEIR_BROADCAST, x->element, NULL, 1, &x, x->rank, sizes);
}

static const TileIrTile *permute(TileIrLower *l, const TileIrTile *x,
                                 const uint32_t *order)
{
    int64_t sizes[TILEIR_MOST_RANK];
    bool is_same = true;
    for (uint32_t i = 0; i < x->rank; i++) {
        sizes[i] = x->sizes[order[i]];
        is_same &= order[i] == i;
    }
    if (is_same)
        return x;
    uint32_t type = tileir_type(l, x->element, x->rank, sizes);
    TileIrOp *op = bytecode_op(l->m, TILEIR_PERMUTE, 1, &type, NULL);
    bytecode_attribute(op, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) {
        const uint8_t position[] = {(uint8_t)order[i], 0, 0, 0};
        bytecode_attribute_bytes(op, position, sizeof position);
    }
    bytecode_operand(op, x->value);
    bytecode_append(l->at, op);
    return tileir_tile_of(l, op, 0, x->element, x->rank, sizes);
}

const TileIrTile *tileir_arrange(TileIrLower *l, const TileIrTile *x,
                                 const TileOrder *from, const TileOrder *to)
{
    uint32_t order[TILE_MOST_DIMS], count = 0;
    int64_t kept[TILE_MOST_DIMS], sizes[TILE_MOST_DIMS];
    if (x == NULL)
        return NULL;
    for (uint32_t i = 0; i < to->rank; i++) {
        sizes[i] = l->p->dims[to->dims[i]].size;
        kept[i] = 1;
        for (uint32_t j = 0; j < from->rank; j++) {
            if (from->dims[j] != to->dims[i])
                continue;
            order[count++] = j;
            kept[i] = sizes[i];
        }
    }
    if (count != from->rank)
        return tileir_lacks(l, "a tile is needed with fewer dimensions than it has");
    x = permute(l, x, order);
    return tileir_spread(l, tileir_reshape(l, x, to->rank, kept), sizes);
}

const TileIrTile *tileir_combine(TileIrLower *l, TileIrOpcode op, const char *attributes,
                                 const TileIrTile *x, const TileIrTile *y)
{
    int64_t sizes[TILEIR_MOST_RANK];
    if (x == NULL || y == NULL)
        return NULL;
    for (uint32_t i = 0; i < x->rank; i++)
        sizes[i] = x->sizes[i] > y->sizes[i] ? x->sizes[i] : y->sizes[i];
    const TileIrTile *in[] = {tileir_spread(l, x, sizes), tileir_spread(l, y, sizes)};
    return tileir_make(l, op, x->element, attributes, 2, in);
}

const TileIrTile *tileir_both(TileIrLower *l, const TileIrTile *x, const TileIrTile *y)
{
    if (x == NULL || y == NULL)
        return x == NULL ? y : x;
    return tileir_combine(l, TILEIR_ANDI, NULL, x, y);
}
