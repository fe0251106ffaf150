/* Random bits: ThreeFry 2x32 with 20 rounds and Philox 4x32 with 10 (Salmon et al., SC 2011). Each thread
 * computes the block of the counter that its elements' words come from. */
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/threads.h"

typedef struct Rng {
    const EmitterInput *in;
    const Instruction *inst;
    const RngPlan *plan;
} Rng;

/* The state as 64-bit words. */
static void load_state(Emit *e, const Rng *g, LLVMValueRef *out)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMTypeRef i64 = gx_int_type(e->k, 64);
    const Instruction *state = g->inst->operands[0];
    unsigned bits = dtype_info[state->shape->dtype].bits;
    uint32_t lanes = e->lanes;
    e->lanes = 1;
    for (uint32_t w = 0; w < g->plan->state_words; w++) {
        out[w] = gx_i64(e->k, 0);
        for (uint32_t i = 0; i < 64 / bits; i++) {
            Shape flat = *state->shape;
            const IndexExpr *at[EMIT_MOST_RANK];
            LLVMValueRef v;
            emit_delinear(e, &flat, ix_const(e->ix, w * (64 / bits) + i), at);
            emit_element(e, state, at, &v);
            v = LLVMBuildBitCast(b, v, gx_int_type(e->k, bits), "");
            v = LLVMBuildZExt(b, v, i64, "");
            v = LLVMBuildShl(b, v, gx_i64(e->k, (uint64_t)i * bits), "");
            out[w] = LLVMBuildOr(b, out[w], v, "");
        }
    }
    e->lanes = lanes;
}

static LLVMValueRef half_word(Emit *e, LLVMValueRef word, bool high)
{
    LLVMBuilderRef b = e->k->builder;
    if (high)
        word = LLVMBuildLShr(b, word, gx_i64(e->k, 32), "");
    return LLVMBuildTrunc(b, word, gx_int_type(e->k, 32), "");
}

static void threefry(Emit *e, LLVMValueRef key, LLVMValueRef counter, LLVMValueRef *out)
{
    static const uint8_t rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef ks[3] = {half_word(e, key, false), half_word(e, key, true), NULL};
    ks[2] = LLVMBuildXor(b, gx_i32(k, 0x1bd11bda), LLVMBuildXor(b, ks[0], ks[1], ""), "");
    LLVMValueRef x0 = LLVMBuildAdd(b, half_word(e, counter, false), ks[0], "");
    LLVMValueRef x1 = LLVMBuildAdd(b, half_word(e, counter, true), ks[1], "");
    for (uint32_t group = 0; group < 5; group++) {
        for (uint32_t i = 0; i < 4; i++) {
            x0 = LLVMBuildAdd(b, x0, x1, "");
            LLVMValueRef by = gx_i32(k, rotations[group % 2][i]);
            x1 = gx_intrinsic(k, "fshl", (LLVMValueRef[]){x1, x1, by}, 3);
            x1 = LLVMBuildXor(b, x1, x0, "");
        }
        x0 = LLVMBuildAdd(b, x0, ks[(group + 1) % 3], "");
        x1 = LLVMBuildAdd(b, x1, ks[(group + 2) % 3], "");
        x1 = LLVMBuildAdd(b, x1, gx_i32(k, group + 1), "");
    }
    out[0] = x0;
    out[1] = x1;
}

static void philox(Emit *e, LLVMValueRef key, const LLVMValueRef *counter,
                   LLVMValueRef *x)
{
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef i64 = gx_int_type(k, 64);
    LLVMValueRef k0 = half_word(e, key, false), k1 = half_word(e, key, true);
    for (unsigned i = 0; i < 4; i++)
        x[i] = half_word(e, counter[i / 2], i % 2 != 0);
    for (uint32_t round = 0; round < 10; round++) {
        LLVMValueRef m =
            LLVMBuildMul(b, gx_i64(k, 0xd2511f53), LLVMBuildZExt(b, x[0], i64, ""), "");
        LLVMValueRef n =
            LLVMBuildMul(b, gx_i64(k, 0xcd9e8d57), LLVMBuildZExt(b, x[2], i64, ""), "");
        LLVMValueRef y0 = LLVMBuildXor(b, half_word(e, n, true), x[1], "");
        LLVMValueRef y2 = LLVMBuildXor(b, half_word(e, m, true), x[3], "");
        x[0] = LLVMBuildXor(b, y0, k0, "");
        x[1] = half_word(e, n, false);
        x[2] = LLVMBuildXor(b, y2, k1, "");
        x[3] = half_word(e, m, false);
        k0 = LLVMBuildAdd(b, k0, gx_i32(k, 0x9e3779b9), "");
        k1 = LLVMBuildAdd(b, k1, gx_i32(k, 0xbb67ae85), "");
    }
}

/* 128-bit counter + n. */
static void counter_add(Emit *e, LLVMValueRef *counter, LLVMValueRef n)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMValueRef low = LLVMBuildAdd(b, counter[0], n, "");
    LLVMValueRef carry = LLVMBuildICmp(b, LLVMIntULT, low, n, "");
    counter[1] = LLVMBuildAdd(b, counter[1],
                              LLVMBuildZExt(b, carry, gx_int_type(e->k, 64), ""), "");
    counter[0] = low;
}

static void philox_counter(const Rng *g, const LLVMValueRef *state, LLVMValueRef *counter)
{
    counter[0] = state[1];
    counter[1] = g->plan->state_words == 3 ? state[2] : state[0];
}

static LLVMValueRef wide(Emit *e, const IndexExpr *x, uint32_t lane)
{
    LLVMValueRef v = emit_index(e, x, lane);
    LLVMTypeRef i64 = gx_int_type(e->k, 64);
    return LLVMTypeOf(v) == i64 ? v : LLVMBuildZExt(e->k->builder, v, i64, "");
}

/* -- ThreeFry's order -------------------------------------------------------------------------------- */

/* The even and odd elements of one dimension are the two words of a counter: the first dimension of
 * even size, else the largest. */
static void threefry_split(const Shape *s, int64_t *outer, int64_t *size, int64_t *inner)
{
    uint32_t best = 0;
    while (best < s->rank && s->dims[best] % 2 != 0)
        best++;
    if (best == s->rank) {
        best = 0;
        for (uint32_t d = 1; d < s->rank; d++)
            best = s->dims[d] > s->dims[best] ? d : best;
    }
    *outer = *size = *inner = 1;
    for (uint32_t d = 0; d < s->rank; d++)
        *(d < best ? outer : d == best ? size : inner) *= s->dims[d];
}

/* Words of the element with the row-major number `element`: [0], and [1] of 64 bits. */
static void threefry_element(Emit *e, const Rng *g, const LLVMValueRef *state,
                             const IndexExpr *element, LLVMValueRef *out)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMValueRef words[2];
    if (g->plan->width == 64) {
        threefry(e, state[0], LLVMBuildAdd(b, state[1], wide(e, element, 0), ""), out);
        return;
    }
    int64_t outer, size, inner;
    threefry_split(g->plan->bits, &outer, &size, &inner);
    int64_t half = (size + 1) / 2;
    const IndexExpr *along = ix_mod(e->ix, ix_floordiv(e->ix, element, inner), size);
    const IndexExpr *n = ix_add(
        e->ix, ix_mul(e->ix, ix_floordiv(e->ix, element, inner * size), half * inner),
        ix_add(e->ix, ix_mul(e->ix, ix_floordiv(e->ix, along, 2), inner),
               ix_mod(e->ix, element, inner)));
    threefry(e, state[0], LLVMBuildAdd(b, state[1], wide(e, n, 0), ""), words);
    LLVMValueRef odd = emit_index(e, ix_mod(e->ix, along, 2), 0);
    LLVMValueRef is_odd = LLVMBuildICmp(b, LLVMIntNE, odd, emit_index_constant(e, 0), "");
    out[0] = LLVMBuildSelect(b, is_odd, words[1], words[0], "");
}

/* -- elements ----------------------------------------------------------------------------------------- */

/* An element from its words. */
static LLVMValueRef to_element(Emit *e, const Rng *g, LLVMValueRef low, LLVMValueRef high)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMTypeRef type = emit_type(e->k, g->plan->bits->dtype), i64 = gx_int_type(e->k, 64);
    LLVMValueRef v = low;
    if (g->plan->width == 64) {
        v = LLVMBuildShl(b, LLVMBuildZExt(b, high, i64, ""), gx_i64(e->k, 32), "");
        v = LLVMBuildOr(b, v, LLVMBuildZExt(b, low, i64, ""), "");
    } else if (g->plan->width < 32) {
        v = LLVMBuildTrunc(b, v, gx_int_type(e->k, g->plan->width), "");
    }
    return LLVMBuildBitCast(b, v, type, "");
}

/* The values of the elements with the row-major numbers `element`. */
static void random_elements(Emit *e, const Rng *g, const LLVMValueRef *state,
                            const IndexExpr *element, LLVMValueRef *out)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMValueRef words[4], counter[2];
    if (g->plan->is_threefry) {
        threefry_element(e, g, state, element, words);
        out[0] = to_element(e, g, words[0], words[1]);
        return;
    }
    uint32_t per_element = g->plan->width == 64 ? 2 : 1, per_block = 4 / per_element;
    const IndexExpr *first = ix_replace(
        e->ix, element, IX_SYMBOL, (uint32_t)emit_lane(e)->value, ix_const(e->ix, 0));
    if (e->lanes == 1)
        first = element;
    philox_counter(g, state, counter);
    counter_add(e, counter, wide(e, ix_floordiv(e->ix, first, per_block), 0));
    philox(e, state[0], counter, words);
    if (e->lanes == per_block) {
        for (uint32_t v = 0; v < e->lanes; v++)
            out[v] = to_element(e, g, words[v * per_element],
                                words[v * per_element + per_element - 1]);
        return;
    }
    LLVMValueRef which = emit_index(e, ix_mod(e->ix, first, per_block), 0), v[2];
    for (uint32_t i = 0; i < per_element; i++) {
        v[i] = words[i];
        for (uint32_t n = 1; n < per_block; n++) {
            LLVMValueRef is_this =
                LLVMBuildICmp(b, LLVMIntEQ, which, emit_index_constant(e, n), "");
            v[i] = LLVMBuildSelect(b, is_this, words[n * per_element + i], v[i], "");
        }
    }
    out[0] = to_element(e, g, v[0], v[per_element - 1]);
}

static void emit_bits(Emit *e, const void *user, const IndexExpr *linear)
{
    const Rng *g = user;
    LLVMValueRef state[3], values[EMIT_MOST_LANES];
    const IndexExpr *at[EMIT_MOST_RANK];
    if (shape_elements(g->plan->bits) == 0)
        return; /* only the state is written */
    load_state(e, g, state);
    emit_delinear(e, g->plan->bits, linear, at);
    /* the order is that of the logical index */
    const IndexExpr *element = ix_const(e->ix, 0);
    for (uint32_t d = 0; d < g->plan->bits->rank; d++)
        element = ix_add(e->ix, ix_mul(e->ix, element, g->plan->bits->dims[d]), at[d]);
    random_elements(e, g, state, element, values);
    emit_store(e, fusion_result_arg(g->in->fusion, g->plan->bits_leaf), g->plan->bits, at,
               values);
}

/* -- the next state ------------------------------------------------------------------------------------- */

static uint64_t counters_used(const Rng *g)
{
    int64_t outer, size, inner, n = shape_elements(g->plan->bits);
    if (!g->plan->is_threefry)
        return (uint64_t)(g->plan->width == 64 ? (n + 1) / 2 : (n + 3) / 4);
    if (g->plan->width == 64)
        return (uint64_t)n;
    threefry_split(g->plan->bits, &outer, &size, &inner);
    return (uint64_t)(outer * ((size + 1) / 2) * inner);
}

static void next_state(Emit *e, const Rng *g, LLVMValueRef *state)
{
    LLVMValueRef used = gx_i64(e->k, counters_used(g)), counter[2];
    if (g->plan->is_threefry) {
        state[1] = LLVMBuildAdd(e->k->builder, state[1], used, "");
        return;
    }
    philox_counter(g, state, counter);
    counter_add(e, counter, used);
    state[1] = counter[0];
    state[2] = counter[1];
}

static void store_state(Emit *e, const Rng *g)
{
    LLVMBuilderRef b = e->k->builder;
    const Shape *shape = g->inst->operands[0]->shape;
    unsigned bits = dtype_info[shape->dtype].bits;
    LLVMValueRef state[3];
    e->lanes = 1;
    load_state(e, g, state);
    next_state(e, g, state);
    for (uint32_t i = 0; i < g->plan->state_words * (64 / bits); i++) {
        LLVMValueRef v = state[i * bits / 64];
        v = LLVMBuildLShr(b, v, gx_i64(e->k, i * bits % 64), "");
        v = LLVMBuildTrunc(b, v, gx_int_type(e->k, bits), "");
        v = LLVMBuildBitCast(b, v, emit_type(e->k, shape->dtype), "");
        const IndexExpr *at[EMIT_MOST_RANK];
        emit_delinear(e, shape, ix_const(e->ix, i), at);
        emit_store(e, fusion_result_arg(g->in->fusion, 0), shape, at, &v);
    }
}

/* -- the program's state -------------------------------------------------------------------------------- */

/* The 128-bit counter that lies behind the last argument: what it was, and more by `delta`. */
static void advance_counter(Emit *e, const void *user, const IndexExpr *linear)
{
    const EmitterInput *in = user;
    const Instruction *inst = fusion_hero(in->fusion, OP_RNG_GET_AND_UPDATE_STATE);
    Kernel *k = e->k;
    LLVMTypeRef i64 = gx_int_type(k, 64);
    unsigned state = in->arg_count - 1;
    LLVMValueRef counter[2];
    (void)linear;
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef at = gx_i32(k, 8 * i);
        counter[i] = gx_load(k, state, at, i64, 8);
        gx_store(k, fusion_result_arg(in->fusion, 0), at, counter[i], 8);
    }
    counter_add(e, counter, gx_i64(k, (uint64_t)inst_int(inst, ATTR_DELTA, 0)));
    for (unsigned i = 0; i < 2; i++)
        gx_store(k, state, gx_i32(k, 8 * i), counter[i], 8);
}

Kernel *emitter_rng(const EmitterInput *in)
{
    const RngPlan *p = in->design->plan.rng;
    if (p->inst == NULL)
        return emitter_finish(in, emit_for_elements(in, 1, 1, advance_counter, in));
    Rng g = {.in = in, .inst = p->inst, .plan = p};
    Emit *e = emit_for_elements(
        in, p->elements, (uint32_t)in->design->config.lanes.data[0], emit_bits, &g);
    if (p->has_state) {
        GxIf first;
        LLVMValueRef is_first =
            LLVMBuildICmp(e->k->builder, LLVMIntEQ, emit_thread_number(e),
                          emit_index_constant(e, 0), "");
        gx_if_begin(e->k, &first, is_first);
        store_state(e, &g);
        gx_if_end(e->k, &first, NULL, 0, NULL);
    }
    return emitter_finish(in, e);
}
