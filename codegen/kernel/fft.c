/* Discrete Fourier transforms of rows in shared memory (ir/kernel/kinds/fft.c).
 *
 * Pass s has butterflies j < points / radix of each row; with `before` the product of the radices before it
 *
 *   v[r]  = x[j + r points / radix] e^(-2 pi i r (j mod before) / (before radix))
 *   x'[(j - j mod before) radix + j mod before + r before] = (transform of v)[r]
 *
 * The first pass takes x from the operand, the last one stores it; between passes it goes through shared memory,
 * where a barrier separates what is read from what is written. Real rows of even length are complex ones of half
 * the length, two numbers each; a step behind the passes, or before them for the inverse, makes the difference:
 *
 *   x[k] = e + w o, x[points - k] = conj(e - w o), w = e^(-2 pi i k / length)
 *   e = (z[k] + conj z[points - k]) / 2, o = (z[k] - conj z[points - k]) / 2i */
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/fft_butterfly.h"
#include "codegen/kernel/threads.h"

typedef struct Fft {
    const EmitterInput *in;
    const FftPlan *plan;
    Emit *e;
    int64_t rows, points; /* of a block; of a row */
    uint32_t base;        /* in shared memory */
} Fft;

/* What a thread does of a row, in one of its rounds. */
typedef struct Position {
    LLVMValueRef row, item;      /* i32: row of the block, item of the row */
    const IndexExpr *row_number; /* of all rows */
    const IndexExpr *item_number;
    /* NULL: yes. Others compute the last one again; the block has a position for rows behind the last one, too. */
    LLVMValueRef has_item, exists;
} Position;

/* -- positions -------------------------------------------------------------------------------------- */

static LLVMValueRef both(Fft *f, LLVMValueRef a, LLVMValueRef b)
{
    return a == NULL ? b : LLVMBuildAnd(f->e->k->builder, a, b, "");
}

/* Items count through each row (is_along), or through the rows first. */
static Position position_of(Fft *f, bool is_along, int64_t items, int64_t round)
{
    Emit *e = f->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    int64_t total = f->rows * items, first = round * k->block[0];
    Position p = {0};
    LLVMValueRef id = LLVMBuildAdd(b, gx_tid(k, 0), gx_i32(k, (uint32_t)first), "");
    if (first + k->block[0] > total) {
        LLVMValueRef last = gx_i32(k, (uint32_t)(total - 1));
        p.has_item = LLVMBuildICmp(b, LLVMIntULE, id, last, "");
        id = LLVMBuildSelect(b, p.has_item, id, last, "");
    }
    p.exists = p.has_item;
    LLVMValueRef by = gx_i32(k, (uint32_t)(is_along ? items : f->rows));
    LLVMValueRef slow = LLVMBuildUDiv(b, id, by, ""), fast = LLVMBuildURem(b, id, by, "");
    p.row = is_along ? slow : fast;
    p.item = is_along ? fast : slow;
    LLVMValueRef number = LLVMBuildAdd(
        b,
        LLVMBuildMul(b, to_index(e, gx_ctaid(k, 0)), emit_index_constant(e, f->rows), ""),
        to_index(e, p.row), "");
    if (f->plan->rows % f->rows != 0) {
        LLVMValueRef last = emit_index_constant(e, f->plan->rows - 1);
        LLVMValueRef is_row = LLVMBuildICmp(b, LLVMIntULE, number, last, "");
        p.exists = both(f, p.exists, is_row);
        number = LLVMBuildSelect(b, is_row, number, last, "");
    }
    p.row_number = emit_variable(e, number, (Range){0, f->plan->rows - 1});
    p.item_number = emit_variable(e, to_index(e, p.item), (Range){0, items - 1});
    return p;
}

static int64_t rounds_of(const Fft *f, int64_t items)
{
    int64_t block = f->e->k->block[0];
    return (f->rows * items + block - 1) / block;
}

/* The index of a position of the row, in the operand and in what is transformed. */
static void index_of(Fft *f, const IndexExpr *row, const IndexExpr *at,
                     const IndexExpr **out)
{
    Emit *e = f->e;
    const Shape *s = f->plan->inst->operands[0]->shape;
    for (uint32_t i = 0; i + 1 < s->rank; i++) {
        uint32_t d = f->plan->order[i];
        out[d] = i + 2 == s->rank ? row : ix_mod(e->ix, row, s->dims[d]);
        row = ix_floordiv(e->ix, row, s->dims[d]);
    }
    out[s->rank - 1] = at;
}

/* -- shared memory --------------------------------------------------------------------------------- */

/* Bytes from the start of it, of number at + more: an empty position after every 16 keeps the writes of a pass, whose
 * threads lie a radix apart, in different banks. All that lie whole sixteens apart, or in one (is_within), have one
 * address and constants. */
static LLVMValueRef shared_offset(Fft *f, LLVMValueRef row, LLVMValueRef at, int64_t more,
                                  bool is_within)
{
    Kernel *k = f->e->k;
    LLVMBuilderRef b = k->builder;
    int64_t known = 0;
    if (is_within || more % 16 == 0) {
        known = more + (is_within ? 0 : more / 16);
        more = 0;
    }
    at = LLVMBuildAdd(b, at, gx_i32(k, (uint32_t)more), "");
    LLVMValueRef start =
        LLVMBuildMul(b, row, gx_i32(k, (uint32_t)fft_stride(f->points)), "");
    LLVMValueRef padding = LLVMBuildLShr(b, at, gx_i32(k, 4), "");
    LLVMValueRef slot = LLVMBuildAdd(b, start, LLVMBuildAdd(b, at, padding, ""), "");
    unsigned bytes = f->plan->row.bytes;
    return element_offset(f->e, f->base + (uint32_t)known * bytes, slot, bytes);
}

static FftValue load_shared_at(Fft *f, LLVMValueRef row, LLVMValueRef at, int64_t more)
{
    Kernel *k = f->e->k;
    LLVMTypeRef pair = LLVMVectorType(emit_type(k, f->plan->row.part), 2);
    LLVMValueRef v = gx_load(k, GX_SHARED, shared_offset(f, row, at, more, false), pair,
                             f->plan->row.bytes);
    return (FftValue){LLVMBuildExtractElement(k->builder, v, gx_i32(k, 0), ""),
                      LLVMBuildExtractElement(k->builder, v, gx_i32(k, 1), "")};
}

static FftValue load_shared(Fft *f, LLVMValueRef row, LLVMValueRef at)
{
    return load_shared_at(f, row, at, 0);
}

static void store_shared_at(Fft *f, LLVMValueRef offset, FftValue v)
{
    Kernel *k = f->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef pair = LLVMVectorType(emit_type(k, f->plan->row.part), 2);
    LLVMValueRef both =
        LLVMBuildInsertElement(b, LLVMGetUndef(pair), v.re, gx_i32(k, 0), "");
    both = LLVMBuildInsertElement(b, both, v.im, gx_i32(k, 1), "");
    gx_store(k, GX_SHARED, offset, both, f->plan->row.bytes);
}

static void store_shared(Fft *f, LLVMValueRef row, LLVMValueRef at, FftValue v)
{
    store_shared_at(f, shared_offset(f, row, at, 0, false), v);
}

/* -- operand and result ------------------------------------------------------------------------------ */

/* The operand's element; real: with an imaginary part of 0. */
static FftValue load_element(Fft *f, const Position *p, const IndexExpr *at)
{
    Emit *e = f->e;
    const Instruction *x = f->plan->inst->operands[0];
    const IndexExpr *index[EMIT_MOST_RANK];
    LLVMValueRef v;
    index_of(f, p->row_number, at, index);
    emit_element(e, x, index, &v);
    e->k->at = f->plan->inst->name;
    if (!dtype_is_complex(x->shape->dtype))
        return (FftValue){v, LLVMConstNull(LLVMTypeOf(v))};
    return (FftValue){LLVMBuildExtractValue(e->k->builder, v, 0, ""),
                      LLVMBuildExtractValue(e->k->builder, v, 1, "")};
}

/* Imaginary parts that the result's being real rules out are taken as 0. */
static FftValue as_real(Fft *f, FftValue v, LLVMValueRef is_real)
{
    v.im = LLVMBuildSelect(f->e->k->builder, is_real, LLVMConstNull(LLVMTypeOf(v.im)),
                           v.im, "");
    return v;
}

/* Frequency `at` of a real row's inverse: those above the half mirror the others. */
static FftValue load_mirrored(Fft *f, const Position *p, LLVMValueRef at)
{
    Emit *e = f->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    int64_t n = f->plan->length;
    LLVMValueRef other = LLVMBuildSub(b, gx_i32(k, (uint32_t)n), at, "");
    LLVMValueRef is_behind = LLVMBuildICmp(b, LLVMIntULT, other, at, "");
    LLVMValueRef from = LLVMBuildSelect(b, is_behind, other, at, "");
    FftValue v =
        load_element(f, p, emit_variable(e, to_index(e, from), (Range){0, n / 2}));
    v.im = LLVMBuildSelect(b, is_behind, LLVMBuildFNeg(b, v.im, ""), v.im, "");
    LLVMValueRef is_real = LLVMBuildICmp(b, LLVMIntEQ, from, gx_i32(k, 0), "");
    LLVMValueRef is_middle = LLVMBuildICmp(b, LLVMIntEQ, other, at, "");
    return as_real(f, v, LLVMBuildOr(b, is_real, is_middle, ""));
}

/* Number item + offset of a row that is transformed. */
static FftValue load_point(Fft *f, const Position *p, int64_t offset)
{
    Emit *e = f->e;
    const FftPlan *plan = f->plan;
    const IndexExpr *at = ix_add(e->ix, p->item_number, ix_const(e->ix, offset));
    if (plan->row.is_packed) {
        const IndexExpr *twice = ix_mul(e->ix, at, 2);
        FftValue first = load_element(f, p, twice);
        FftValue second = load_element(f, p, ix_add(e->ix, twice, ix_const(e->ix, 1)));
        return (FftValue){first.re, second.re};
    }
    if (plan->type != FFT_IRFFT)
        return load_element(f, p, at);
    return load_mirrored(
        f, p, LLVMBuildAdd(e->k->builder, p->item, gx_i32(e->k, (uint32_t)offset), ""));
}

/* The position of the result where what is transformed stands at `at`. */
static void store_element(Fft *f, const Position *p, const IndexExpr *at, LLVMValueRef v)
{
    Emit *e = f->e;
    uint32_t rank = f->plan->inst->shape->rank;
    const IndexExpr *own[EMIT_MOST_RANK], *index[EMIT_MOST_RANK];
    index_of(f, p->row_number, at, own);
    for (uint32_t d = 0; d < rank; d++)
        index[f->plan->position[d]] = own[d];
    emit_preset(e, f->plan->inst, &v);
    emit_result(e, f->in->fusion, 0, index);
    e->k->at = f->plan->inst->name;
}

static LLVMValueRef complex_of(Fft *f, FftValue v)
{
    Kernel *k = f->e->k;
    LLVMValueRef c = LLVMGetUndef(emit_type(k, f->plan->inst->shape->dtype));
    c = LLVMBuildInsertValue(k->builder, c, v.re, 0, "");
    return LLVMBuildInsertValue(k->builder, c, v.im, 1, "");
}

static LLVMValueRef scaled(Fft *f, LLVMValueRef x)
{
    if (!f->plan->is_inverse)
        return x;
    double scale = 1.0 / (double)f->plan->length;
    return gx_float_op(f->e->k, LLVMFMul, x, LLVMConstReal(LLVMTypeOf(x), scale));
}

/* Number item + offset of a transformed row. */
static void store_point(Fft *f, const Position *p, int64_t offset, FftValue v)
{
    Emit *e = f->e;
    Kernel *k = e->k;
    const FftPlan *plan = f->plan;
    const IndexExpr *at = ix_add(e->ix, p->item_number, ix_const(e->ix, offset));
    v = (FftValue){scaled(f, v.re), scaled(f, v.im)};
    if (plan->type == FFT_IRFFT && plan->row.is_packed) {
        const IndexExpr *twice = ix_mul(e->ix, at, 2);
        store_element(f, p, twice, v.re);
        store_element(f, p, ix_add(e->ix, twice, ix_const(e->ix, 1)), v.im);
    } else if (plan->type == FFT_IRFFT) {
        store_element(f, p, at, v.re);
    } else if (plan->type == FFT_RFFT) { /* the first half */
        GxIf guard;
        LLVMValueRef number =
            LLVMBuildAdd(k->builder, p->item, gx_i32(k, (uint32_t)offset), "");
        LLVMValueRef last = gx_i32(k, (uint32_t)(plan->length / 2));
        LLVMValueRef from = LLVMBuildSelect(
            k->builder, LLVMBuildICmp(k->builder, LLVMIntULE, number, last, ""), number,
            last, "");
        emit_if_begin(e, &guard, LLVMBuildICmp(k->builder, LLVMIntULE, number, last, ""));
        at = emit_variable(e, to_index(e, from), (Range){0, plan->length / 2});
        store_element(f, p, at, complex_of(f, v));
        emit_if_end(e, &guard, NULL, 0, NULL);
    } else {
        store_element(f, p, at, complex_of(f, v));
    }
}

/* -- passes ------------------------------------------------------------------------------------------- */

typedef struct Pass {
    uint32_t radix;
    int64_t before, items;        /* butterflies of a row */
    bool is_along, loads, stores; /* from the operand, to the result */
} Pass;

/* x e^(-2 pi i r at / (before radix)) for all r; powers of the first root: w^r = w^(r/2) w^(r - r/2). */
static void turn(Fft *f, const Pass *s, LLVMValueRef item, FftValue *x)
{
    Kernel *k = f->e->k;
    FftValue w[FFT_LARGEST_RADIX];
    if (s->before == 1)
        return;
    LLVMValueRef at = LLVMBuildURem(k->builder, item, gx_i32(k, (uint32_t)s->before), "");
    w[1] = fft_root(k, f->plan->row.part, f->plan->is_inverse, at, s->before - 1,
                    s->before * s->radix);
    for (uint32_t r = 1; r < s->radix; r++) {
        if (r > 1)
            w[r] = fft_multiply(k, w[r / 2], w[r - r / 2]);
        x[r] = fft_multiply(k, x[r], w[r]);
    }
}

static void load_pass(Fft *f, const Pass *s, const Position *p, FftValue *x)
{
    for (uint32_t r = 0; r < s->radix; r++) {
        int64_t offset = r * s->items;
        x[r] = s->loads ? load_point(f, p, offset)
                        : load_shared_at(f, p->row, p->item, offset);
    }
}

static void store_pass(Fft *f, const Pass *s, const Position *p, const FftValue *x)
{
    Emit *e = f->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef before = gx_i32(k, (uint32_t)s->before);
    LLVMValueRef inside = LLVMBuildURem(b, p->item, before, "");
    LLVMValueRef first =
        LLVMBuildMul(b, LLVMBuildSub(b, p->item, inside, ""), gx_i32(k, s->radix), "");
    first = LLVMBuildAdd(b, first, inside, "");
    bool is_within = 16 % (s->before * s->radix) == 0; /* groups of so many are aligned */
    GxIf guard;
    emit_if_begin(e, &guard, s->stores ? p->exists : p->has_item);
    for (uint32_t r = 0; r < s->radix; r++) {
        if (s->stores)
            store_point(f, p, r * s->items, x[r]);
        else
            store_shared_at(f, shared_offset(f, p->row, first, r * s->before, is_within),
                            x[r]);
    }
    emit_if_end(e, &guard, NULL, 0, NULL);
}

static void run_pass(Fft *f, const Pass *s)
{
    Kernel *k = f->e->k;
    int64_t rounds = rounds_of(f, s->items);
    Position *p = ARENA_ARRAY(f->e->arena, Position, (size_t)rounds);
    FftValue *x = ARENA_ARRAY(f->e->arena, FftValue, (size_t)rounds * s->radix);
    for (int64_t i = 0; i < rounds; i++) {
        p[i] = position_of(f, s->is_along, s->items, i);
        load_pass(f, s, &p[i], &x[i * s->radix]);
    }
    if (!s->loads && !s->stores)
        gx_barrier(k); /* all is read before it is written over */
    for (int64_t i = 0; i < rounds; i++) {
        FftValue *mine = &x[i * s->radix];
        turn(f, s, p[i].item, mine);
        fft_small(k, f->plan->is_inverse, s->radix, mine);
        store_pass(f, s, &p[i], mine);
    }
    if (!s->stores)
        gx_barrier(k);
}

/* -- real rows ------------------------------------------------------------------------------------------ */

/* The two that go together: items 0 … points / 2, and points - item. */
typedef struct Mirror {
    LLVMValueRef other, is_first; /* i32; item is 0: there is no other */
    FftValue root;                /* e^(2 pi i item / length) */
} Mirror;

static Mirror mirror_of(Fft *f, const Position *p)
{
    Kernel *k = f->e->k;
    LLVMBuilderRef b = k->builder;
    return (Mirror){.other = LLVMBuildSub(b, gx_i32(k, (uint32_t)f->points), p->item, ""),
                    .is_first = LLVMBuildICmp(b, LLVMIntEQ, p->item, gx_i32(k, 0), ""),
                    .root = fft_root(k, f->plan->row.part, true, p->item, f->points / 2,
                                     f->plan->length)};
}

static const IndexExpr *other_number(Fft *f, const Position *p)
{
    Emit *e = f->e;
    return ix_add(e->ix, ix_const(e->ix, f->points), ix_mul(e->ix, p->item_number, -1));
}

/* z[k] = s + i w d, z[points - k] = conj s + i conj(w d), s and d = x[k] +- conj x[points - k]. */
static void unmirror(Fft *f)
{
    Emit *e = f->e;
    Kernel *k = e->k;
    int64_t items = f->points / 2 + 1, rounds = rounds_of(f, items);
    for (int64_t i = 0; i < rounds; i++) {
        Position p = position_of(f, f->plan->reads_along, items, i);
        Mirror m = mirror_of(f, &p);
        FftValue x = as_real(f, load_element(f, &p, p.item_number), m.is_first);
        FftValue y = as_real(f, load_element(f, &p, other_number(f, &p)), m.is_first);
        y = fft_conjugate(k, y);
        FftValue s = fft_add(k, x, y);
        FftValue d = fft_multiply(k, fft_subtract(k, x, y), m.root);
        GxIf guard, has_other;
        emit_if_begin(e, &guard, p.has_item);
        store_shared(f, p.row, p.item, fft_add(k, s, fft_times_i(k, d)));
        emit_if_begin(e, &has_other, LLVMBuildNot(k->builder, m.is_first, ""));
        FftValue z = fft_times_i(k, fft_conjugate(k, d));
        store_shared(f, p.row, m.other, fft_add(k, fft_conjugate(k, s), z));
        emit_if_end(e, &has_other, NULL, 0, NULL);
        emit_if_end(e, &guard, NULL, 0, NULL);
    }
    gx_barrier(k);
}

static void mirror(Fft *f)
{
    Emit *e = f->e;
    Kernel *k = e->k;
    int64_t items = f->points / 2 + 1, rounds = rounds_of(f, items);
    LLVMValueRef half = LLVMConstReal(emit_type(k, f->plan->row.part), 0.5);
    FftValue by = {half, LLVMConstNull(LLVMTypeOf(half))};
    for (int64_t i = 0; i < rounds; i++) {
        Position p = position_of(f, f->plan->writes_along, items, i);
        Mirror m = mirror_of(f, &p);
        LLVMValueRef other =
            LLVMBuildSelect(k->builder, m.is_first, gx_i32(k, 0), m.other, "");
        FftValue x = load_shared(f, p.row, p.item);
        FftValue y = fft_conjugate(k, load_shared(f, p.row, other));
        FftValue even = fft_add(k, x, y), odd = fft_subtract(k, x, y);
        even = (FftValue){gx_float_op(k, LLVMFMul, even.re, by.re),
                          gx_float_op(k, LLVMFMul, even.im, by.re)};
        odd = (FftValue){
            gx_float_op(k, LLVMFMul, odd.im, by.re),
            LLVMBuildFNeg(k->builder, gx_float_op(k, LLVMFMul, odd.re, by.re), "")};
        odd = fft_multiply(k, odd, fft_conjugate(k, m.root));
        GxIf guard;
        emit_if_begin(e, &guard, p.exists);
        store_element(f, &p, p.item_number, complex_of(f, fft_add(k, even, odd)));
        FftValue difference = fft_conjugate(k, fft_subtract(k, even, odd));
        store_element(f, &p, other_number(f, &p), complex_of(f, difference));
        emit_if_end(e, &guard, NULL, 0, NULL);
    }
}

Kernel *emitter_fft(const EmitterInput *in)
{
    const FftPlan *plan = in->design->plan.fft;
    const FftRow *row = &plan->row;
    Emit *e = emitter_begin(in);
    Fft f = {.in = in,
             .plan = plan,
             .e = e,
             .rows = in->design->config.rows,
             .points = row->points};
    bool mirrors_first = row->is_packed && plan->is_inverse,
         mirrors_last = row->is_packed && !plan->is_inverse;
    e->k->at = plan->inst->name;
    if (row->passes > 1 || row->is_packed)
        f.base = gx_shared_alloc(
            e->k, (uint64_t)(f.rows * fft_stride(f.points)) * row->bytes, row->bytes);
    if (mirrors_first)
        unmirror(&f);
    Pass s = {.before = 1};
    for (uint32_t i = 0; i < row->passes; i++) {
        s.radix = row->radix[i];
        s.items = f.points / s.radix;
        s.loads = i == 0 && !mirrors_first;
        s.stores = i + 1 == row->passes && !mirrors_last;
        s.is_along = s.stores && !s.loads ? plan->writes_along : plan->reads_along;
        run_pass(&f, &s);
        s.before *= s.radix;
    }
    if (mirrors_last)
        mirror(&f);
    return emitter_finish(in, e);
}
