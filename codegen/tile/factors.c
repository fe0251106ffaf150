/* Factors of products: asynchronous copies into shared memory, and fragments from there. See lower.h. */
#include "codegen/kernel/threads.h"
#include "codegen/tile/lower.h"

enum { ROW_BITS = 128 /* of ldmatrix */ };

/* -- copies ------------------------------------------------------------------------------------ */

/* The byte offset of an expression: what differs from `first` by a constant is that one and the constant, which
 * becomes part of the access. */
static LLVMValueRef byte_offset(TileLower *l, const IndexExpr *bytes,
                                const IndexExpr *first)
{
    Emit *e = l->e;
    LLVMTypeRef i64 = gx_int_type(l->k, 64);
    const IndexExpr *distance = ix_add(e->ix, bytes, ix_mul(e->ix, first, -1));
    if (distance->kind != IX_CONST || distance->value < 0)
        distance = ix_const(e->ix, 0);
    else
        bytes = first;
    LLVMValueRef v =
        LLVMBuildIntCast2(l->k->builder, emit_index(e, bytes, 0), i64, 1, "");
    if (distance->value == 0)
        return v;
    return LLVMBuildAdd(l->k->builder, v, gx_i64(l->k, (uint64_t)distance->value), "");
}

static const IndexExpr *offset_in_bytes(TileLower *l, const TileFactor *f, uint32_t r)
{
    const TileOp *op = f->value;
    const IndexExpr *at[EMIT_MOST_RANK];
    for (uint32_t d = 0; d < op->shape->rank; d++)
        at[d] = tile_index(l, op, op->index[d], &f->copy, r, UINT32_MAX);
    return ix_mul(l->e->ix, index_linear(l->e->ix, op->shape, at),
                  dtype_info[op->dtype].bits / 8);
}

void factor_prepare(TileLower *l, const TileFactor *f)
{
    const TileOp *op = f->value;
    if (!f->is_copied)
        tile_prepare(l, op, &f->copy);
    for (uint32_t i = 0; f->is_copied && i < op->operand_count; i++)
        tile_prepare(l, op->operands[i], &f->copy);
}

void factor_copy(TileLower *l, const TileFactor *f, LLVMValueRef base)
{
    LLVMBuilderRef b = l->k->builder;
    SharedOffsets offsets =
        shared_offsets(l, &f->copy, &f->shared, f->value->dtype, base);
    LLVMValueRef own = holds_first(l, &f->copy);
    uint32_t bytes = offsets.bytes << f->vector;
    const IndexExpr *first = offset_in_bytes(l, f, 0);
    struct LoweredTile *before = l->memo;
    GxIf some;
    l->k->at = f->value->inst->name;
    emit_if_begin(l->e, &some, own);
    for (uint32_t r = 0; r < UINT32_C(1) << f->copy.in[LINEAR_REGISTER];
         r += UINT32_C(1) << f->vector) {
        LLVMValueRef ok = tile_is_there(l, f->value, &f->copy, f->value->dims, r),
                     from = byte_offset(l, offset_in_bytes(l, f, r), first),
                     to = shared_offset(l, &offsets, r), valid = NULL;
        if (ok != NULL) {
            valid = LLVMBuildSelect(b, ok, gx_i32(l->k, bytes), gx_i32(l->k, 0), "");
            from = LLVMBuildSelect(b, ok, from, gx_i64(l->k, 0), "");
        }
        gx_copy_async(l->k, l->e->parameter_args[f->value->array], from, to, bytes,
                      valid);
    }
    emit_if_end(l->e, &some, NULL, 0, NULL);
    if (own != NULL)
        l->memo = before; /* what constraints read was made there, and is there only */
}

/* -- what is computed ---------------------------------------------------------------------------- */

LLVMValueRef *factor_values(TileLower *l, const TileFactor *f)
{
    static const TileOp none = {.kind = TILE_IN_RANGE};
    LLVMValueRef *values = tile_registers(l, f->value, &f->copy);
    uint32_t summed = 0, count = UINT32_C(1) << f->copy.in[LINEAR_REGISTER];
    for (uint32_t d = 0; d < l->p->dim_count; d++) {
        if ((f->value->dims >> d & 1) != 0 && l->p->dims[d].kind != TILE_GRID &&
            !tile_is_zero_behind(f->value, d))
            summed |= UINT32_C(1) << d;
    }
    values = arena_copy(l->k->arena, values, count * sizeof *values);
    for (uint32_t r = 0; r < count; r++) {
        LLVMValueRef ok = tile_is_there(l, &none, &f->copy, summed, r);
        if (ok != NULL)
            values[r] = LLVMBuildSelect(l->k->builder, ok, values[r],
                                        LLVMConstNull(LLVMTypeOf(values[r])), "");
    }
    return values;
}

/* -- fragments --------------------------------------------------------------------------------- */

static uint32_t log2_of(uint32_t n)
{
    uint32_t bits = 0;
    while (n >> (bits + 1) != 0)
        bits++;
    return bits;
}

uint32_t factor_words(const TileLower *l, const TileFactor *f)
{
    uint32_t steps = tile_core_steps(l->m), bits = dtype_info[f->value->dtype].bits;
    uint32_t elements = (UINT32_C(1) << f->fragment.in[LINEAR_REGISTER]) / steps;
    return bits < 32 ? elements * bits / 32 : elements;
}

/* Words of a fragment that one ldmatrix loads. */
static uint32_t matrices_at_once(const TileLower *l, const TileFactor *f)
{
    uint32_t words = factor_words(l, f);
    return words < 4 ? words : 4;
}

SharedOffsets factor_offsets(TileLower *l, const TileFactor *f, LLVMValueRef base)
{
    if (f->is_held)
        return (SharedOffsets){0};
    DType t = f->value->dtype;
    LinearLayout read = tile_read_layout(f), layout = read;
    if (f->is_matrix)
        linear_matrix_rows(&read, dtype_info[t].bits, log2_of(matrices_at_once(l, f)),
                           f->is_transposed, &layout);
    return shared_offsets(l, &layout, &f->shared, t, base);
}

/* By ldmatrix: up to four matrices of the instruction and its repetitions at once. */
static void load_matrices(TileLower *l, const TileFactor *f, uint32_t step,
                          const SharedOffsets *offsets, LLVMValueRef *words)
{
    uint32_t count = factor_words(l, f), matrices = matrices_at_once(l, f),
             in_row = ROW_BITS / dtype_info[f->value->dtype].bits;
    for (uint32_t i = 0; i < count; i += matrices) {
        uint32_t later = (step * count + i) / matrices;
        gx_ldmatrix(l->k, shared_offset(l, offsets, later * in_row), matrices,
                    f->is_transposed, &words[i]);
    }
}

/* Elements of a fragment as words. */
static void pack_elements(TileLower *l, const TileFactor *f, const LLVMValueRef *values,
                          uint32_t count, LLVMValueRef *words)
{
    LLVMBuilderRef b = l->k->builder;
    uint32_t bits = dtype_info[f->value->dtype].bits, word = bits < 32 ? 32 / bits : 1;
    for (uint32_t i = 0; i < count; i += word) {
        LLVMValueRef v = values[i];
        if (word > 1) {
            v = LLVMGetUndef(LLVMVectorType(LLVMTypeOf(v), word));
            for (uint32_t j = 0; j < word; j++)
                v = LLVMBuildInsertElement(b, v, values[i + j], gx_i32(l->k, j), "");
        }
        words[i / word] =
            bits == 64 ? v : LLVMBuildBitCast(b, v, gx_int_type(l->k, 32), "");
    }
}

static void load_elements(TileLower *l, const TileFactor *f, uint32_t first,
                          uint32_t count, const SharedOffsets *offsets,
                          LLVMValueRef *words)
{
    LLVMValueRef *values = ARENA_ARRAY(l->k->arena, LLVMValueRef, count);
    tile_from_shared(l, f->value->dtype, offsets, 0, first, count, values);
    pack_elements(l, f, values, count, words);
}

static void pack_held(TileLower *l, const TileFactor *f, uint32_t first, uint32_t count,
                      LLVMValueRef *words)
{
    for (uint32_t i = 0; i < f->copy.in[LINEAR_REGISTER]; i++) {
        if (f->copy.columns[i] == f->fragment.columns[0])
            l->pair = UINT32_C(1) << i;
    }
    LLVMValueRef *values = tile_renamed(l, &f->copy, factor_values(l, f), &f->fragment);
    l->pair = 0;
    pack_elements(l, f, values + first, count, words);
}

void factor_fragments(TileLower *l, const TileFactor *f, uint32_t step,
                      const SharedOffsets *offsets, LLVMValueRef *words)
{
    uint32_t count =
        (UINT32_C(1) << f->fragment.in[LINEAR_REGISTER]) / tile_core_steps(l->m);
    l->k->at = f->value->inst != NULL ? f->value->inst->name : l->m->dot->inst->name;
    if (f->is_held)
        pack_held(l, f, step * count, count, words);
    else if (f->is_matrix)
        load_matrices(l, f, step, offsets, words);
    else
        load_elements(l, f, step * count, count, offsets, words);
}
