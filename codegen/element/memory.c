/* Loads and stores of elements: vector accesses where the lanes lie side by side, packing of
 * types below a byte, pairs for complex numbers. See emit.h. */
#include <string.h>

#include "codegen/element/emit.h"
#include "ir/base/bug.h"

#define ACCESS_MOST_BYTES 16
#define ACCESS_MOST_LANES 8

/* How an array's elements lie in memory. */
typedef struct Packing {
    LLVMTypeRef unit; /* what one access unit is loaded as */
    unsigned unit_bytes;
    unsigned units; /* units per element: 2 for complex */
    unsigned bits;  /* of an element where several share a byte, else 0 */
} Packing;

static Packing packing_of(Emit *e, DType t)
{
    Kernel *k = e->k;
    unsigned bits = dtype_info[t].bits;
    if (bits < 8)
        return (Packing){gx_int_type(k, 8), 1, 1, bits};
    if (t == DT_PRED)
        return (Packing){gx_int_type(k, 8), 1, 1, 0};
    if (dtype_is_complex(t))
        return (Packing){emit_type(k, t == DT_C64 ? DT_F32 : DT_F64), bits / 16, 2, 0};
    return (Packing){emit_type(k, t), bits / 8, 1, 0};
}

static LLVMValueRef byte_offset(Emit *e, const IndexExpr *element, const Packing *p,
                                uint32_t lane)
{
    const IndexExpr *bytes =
        p->bits != 0 ? ix_floordiv(e->ix, element, 8 / p->bits)
                     : ix_mul(e->ix, element, (int64_t)p->unit_bytes * p->units);
    return emit_index(e, bytes, lane);
}

/* i1 and i4 from bytes, and back. */
static LLVMValueRef from_unit(Emit *e, DType t, LLVMValueRef unit)
{
    LLVMBuilderRef b = e->k->builder;
    if (t == DT_PRED)
        return LLVMBuildICmp(b, LLVMIntNE, unit, LLVMConstInt(LLVMTypeOf(unit), 0, 0),
                             "");
    return unit;
}

static LLVMValueRef to_unit(Emit *e, DType t, LLVMValueRef value)
{
    if (t == DT_PRED)
        return LLVMBuildZExt(e->k->builder, value, gx_int_type(e->k, 8), "");
    return value;
}

static LLVMValueRef pair(Emit *e, DType t, LLVMValueRef re, LLVMValueRef im)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMValueRef v = LLVMGetUndef(emit_type(e->k, t));
    v = LLVMBuildInsertValue(b, v, re, 0, "");
    return LLVMBuildInsertValue(b, v, im, 1, "");
}

static LLVMValueRef lane_of(Emit *e, LLVMValueRef vector, unsigned i)
{
    if (LLVMGetTypeKind(LLVMTypeOf(vector)) != LLVMVectorTypeKind)
        return vector;
    return LLVMBuildExtractElement(e->k->builder, vector, gx_i32(e->k, i), "");
}

/* Units that one access takes: a power of two, side by side and aligned. 1: by element. */
static unsigned access_units(Emit *e, const IndexExpr *element, const Packing *p)
{
    int64_t stride;
    if (e->lanes == 1 || p->bits != 0)
        return 1;
    /* ix_stride of the lane symbol; the address of lane 0 must be aligned */
    const IndexExpr *lane = emit_lane(e);
    if (!ix_stride(element, lane->kind, (uint32_t)lane->value, &stride) || stride != 1)
        return 1;
    const IndexExpr *first =
        ix_replace(e->ix, element, lane->kind, (uint32_t)lane->value, ix_const(e->ix, 0));
    unsigned units = e->lanes * p->units;
    while (units > 1 && (units * p->unit_bytes > ACCESS_MOST_BYTES || units > 16 ||
                         !ix_is_multiple(first, units / p->units)))
        units /= 2;
    return units;
}

/* The lanes of a type below a byte, side by side and filling whole bytes. */
static bool lanes_fill_bytes(Emit *e, const IndexExpr *element, const Packing *p)
{
    int64_t stride;
    const IndexExpr *lane = emit_lane(e);
    if (p->bits == 0 || e->lanes == 1 || e->lanes * p->bits % 8 != 0 ||
        !ix_stride(element, lane->kind, (uint32_t)lane->value, &stride) || stride != 1)
        return false;
    const IndexExpr *first =
        ix_replace(e->ix, element, lane->kind, (uint32_t)lane->value, ix_const(e->ix, 0));
    return ix_is_multiple(first, e->lanes);
}

static unsigned packed_align(Emit *e, unsigned bytes)
{
    (void)e;
    return bytes & (0u - bytes);
}

static void load_packed(Emit *e, uint32_t arg, const Packing *p, const IndexExpr *element,
                        LLVMValueRef *out)
{
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef type = gx_int_type(k, p->bits);
    if (lanes_fill_bytes(e, element, p)) {
        /* words, from which others may be made again */
        unsigned bits = e->lanes * p->bits, word = bits < 32 ? bits : 32;
        unsigned count = bits / word, each = word / p->bits;
        LLVMTypeRef whole = gx_int_type(k, word),
                    all = count > 1 ? LLVMVectorType(whole, count) : whole;
        LLVMValueRef v = gx_load(k, arg, byte_offset(e, element, p, 0), all,
                                 packed_align(e, bits / 8));
        for (uint32_t i = 0; i < e->lanes; i++) {
            LLVMValueRef shift = LLVMConstInt(whole, (uint64_t)(i % each * p->bits), 0),
                         x = count > 1
                                 ? LLVMBuildExtractElement(b, v, gx_i32(k, i / each), "")
                                 : v;
            out[i] = LLVMBuildTrunc(b, LLVMBuildLShr(b, x, shift, ""), type, "");
        }
        return;
    }
    for (uint32_t i = 0; i < e->lanes; i++) {
        LLVMTypeRef i8 = gx_int_type(k, 8);
        LLVMValueRef at = byte_offset(e, element, p, i);
        LLVMValueRef byte =
            e->shares_bytes ? gx_atomic(k, GX_ATOMIC_OR, arg, at, LLVMConstInt(i8, 0, 0))
                            : gx_load(k, arg, at, i8, 1);
        const IndexExpr *bit =
            ix_mul(e->ix, ix_mod(e->ix, element, 8 / p->bits), (int64_t)p->bits);
        LLVMValueRef shift =
            LLVMBuildTrunc(b, emit_index(e, bit, i), gx_int_type(k, 8), "");
        out[i] = LLVMBuildTrunc(b, LLVMBuildLShr(b, byte, shift, ""), type, "");
    }
}

void emit_load(Emit *e, uint32_t arg, const Shape *shape, const IndexExpr *const *index,
               LLVMValueRef *out)
{
    Kernel *k = e->k;
    DType t = shape->dtype;
    Packing p = packing_of(e, t);
    const IndexExpr *element = index_linear(e->ix, shape, index);
    if (p.bits != 0) {
        load_packed(e, arg, &p, element, out);
        return;
    }
    unsigned width = access_units(e, element, &p), total = e->lanes * p.units;
    LLVMTypeRef type = width > 1 ? LLVMVectorType(p.unit, width) : p.unit;
    LLVMValueRef units[2 * EMIT_MOST_LANES];
    for (unsigned u = 0; u < total; u += width) {
        LLVMValueRef offset = byte_offset(e, element, &p, u / p.units);
        if (u % p.units != 0)
            offset = LLVMBuildAdd(k->builder, offset,
                                  emit_index_constant(e, p.unit_bytes), "");
        LLVMValueRef v = gx_load(k, arg, offset, type, width * p.unit_bytes);
        for (unsigned i = 0; i < width; i++)
            units[u + i] = lane_of(e, v, i);
    }
    for (uint32_t i = 0; i < e->lanes; i++)
        out[i] = p.units == 2 ? pair(e, t, units[2 * i], units[2 * i + 1])
                              : from_unit(e, t, units[i]);
}

/* Elements that share a byte: whole bytes where the lanes fill them; otherwise each element
 * is put into its byte by compare-and-swap, as its neighbours belong to other threads. */
static void store_packed(Emit *e, uint32_t arg, const Packing *p,
                         const IndexExpr *element, const LLVMValueRef *values)
{
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    if (lanes_fill_bytes(e, element, p)) {
        unsigned bits = e->lanes * p->bits;
        LLVMTypeRef whole = gx_int_type(k, bits);
        LLVMValueRef v = LLVMConstInt(whole, 0, 0);
        for (uint32_t i = 0; i < e->lanes; i++) {
            LLVMValueRef x = LLVMBuildZExt(b, values[i], whole, "");
            x = LLVMBuildShl(b, x, LLVMConstInt(whole, (uint64_t)i * p->bits, 0), "");
            v = LLVMBuildOr(b, v, x, "");
        }
        gx_store(k, arg, byte_offset(e, element, p, 0), v, packed_align(e, bits / 8));
        return;
    }
    LLVMTypeRef byte = gx_int_type(k, 8);
    for (uint32_t i = 0; i < e->lanes; i++) {
        const IndexExpr *bit =
            ix_mul(e->ix, ix_mod(e->ix, element, 8 / p->bits), (int64_t)p->bits);
        LLVMValueRef shift = LLVMBuildTrunc(b, emit_index(e, bit, i), byte, "");
        LLVMValueRef offset = byte_offset(e, element, p, i);
        LLVMValueRef ones = LLVMConstInt(byte, (1u << p->bits) - 1, 0);
        LLVMValueRef keep = LLVMBuildNot(b, LLVMBuildShl(b, ones, shift, ""), "");
        LLVMValueRef set =
            LLVMBuildShl(b, LLVMBuildZExt(b, values[i], byte, ""), shift, "");
        gx_atomic(k, GX_ATOMIC_AND, arg, offset, keep);
        gx_atomic(k, GX_ATOMIC_OR, arg, offset, set);
    }
}

void emit_store(Emit *e, uint32_t arg, const Shape *shape, const IndexExpr *const *index,
                const LLVMValueRef *values)
{
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    DType t = shape->dtype;
    Packing p = packing_of(e, t);
    const IndexExpr *element = index_linear(e->ix, shape, index);
    if (p.bits != 0) {
        store_packed(e, arg, &p, element, values);
        return;
    }
    unsigned width = access_units(e, element, &p), total = e->lanes * p.units;
    LLVMValueRef units[2 * EMIT_MOST_LANES];
    for (uint32_t i = 0; i < e->lanes; i++) {
        if (p.units == 2) {
            units[2 * i] = LLVMBuildExtractValue(b, values[i], 0, "");
            units[2 * i + 1] = LLVMBuildExtractValue(b, values[i], 1, "");
        } else {
            units[i] = to_unit(e, t, values[i]);
        }
    }
    LLVMTypeRef type = LLVMVectorType(p.unit, width > 1 ? width : 2);
    for (unsigned u = 0; u < total; u += width) {
        LLVMValueRef offset = byte_offset(e, element, &p, u / p.units);
        if (u % p.units != 0)
            offset = LLVMBuildAdd(b, offset, emit_index_constant(e, p.unit_bytes), "");
        LLVMValueRef v = units[u];
        if (width > 1) {
            v = LLVMGetUndef(type);
            for (unsigned i = 0; i < width; i++)
                v = LLVMBuildInsertElement(b, v, units[u + i], gx_i32(k, i), "");
        }
        gx_store(k, arg, offset, v, width * p.unit_bytes);
    }
}
