/* Tiles in registers: each operation in the layout that is asked for. See lower.h. */
#include <math.h>
#include <string.h>

#include "codegen/element/op_emit.h"
#include "codegen/tile/lower.h"
#include "ir/base/bug.h"

enum { CONVERT_MOST = 4, MOST_LANES = EMIT_MOST_LANES };

typedef struct LoweredTile {
    struct LoweredTile *next;
    const TileOp *op;
    LinearLayout layout;
    LLVMValueRef *registers; /* NULL: they are packed */
    LLVMValueRef *words;     /* of tile_load_ahead */
    uint32_t word_count;
    uint32_t made; /* so many registers, the first ones */
} LoweredTile;

/* Registers first .. end - 1 of a tile are made now. */
typedef struct RegisterWindow {
    uint32_t first, end;
} RegisterWindow;

static void unpack(TileLower *l, LoweredTile *t);

static LoweredTile *known(TileLower *l, const TileOp *op, const LinearLayout *layout)
{
    for (LoweredTile *t = l->memo; t != NULL; t = t->next) {
        if (t->op != op || !linear_equal(&t->layout, layout))
            continue;
        if (t->registers == NULL)
            unpack(l, t);
        return t;
    }
    return NULL;
}

static LoweredTile *remember(TileLower *l, const TileOp *op, const LinearLayout *layout,
                             LLVMValueRef *registers, LLVMValueRef *words,
                             uint32_t word_count)
{
    LoweredTile *t = ARENA_NEW(l->k->arena, LoweredTile);
    *t = (LoweredTile){l->memo, op, *layout, registers, words, word_count, 0};
    l->memo = t;
    return t;
}

void tile_forget(TileLower *l)
{
    LoweredTile **at = &l->memo;
    while (*at != NULL) {
        if ((*at)->op->depth != 0)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
}

static uint32_t register_count(const LinearLayout *layout)
{
    return UINT32_C(1) << layout->in[LINEAR_REGISTER];
}

/* The layout of an operand with fewer dimensions: registers keep their numbers. */
static LinearLayout layout_of(const TileOp *op, const LinearLayout *layout)
{
    return linear_projected(layout, op->dims);
}

/* Bits of a register's number that make no difference. */
static uint32_t same_bits(const LinearLayout *layout)
{
    return (register_count(layout) - 1) & ~tile_distinct_bits(layout);
}

/* -- loads ------------------------------------------------------------------------------------- */

/* How many of the first registers, as bits, lie side by side along one dimension, *fast, and are there or not
 * there together. */
static uint32_t load_vector(const TileLower *l, const TileOp *op,
                            const LinearLayout *layout, uint32_t *fast)
{
    uint32_t bits = 0;
    *fast = UINT32_MAX;
    for (uint32_t d = 0; d < layout->rank; d++) {
        uint32_t n = 0;
        while (n < layout->in[LINEAR_REGISTER] && UINT32_C(1) << n < MOST_LANES &&
               layout->columns[n] == UINT32_C(1) << (linear_shift(layout, d) + n) &&
               n < layout->out[d])
            n++;
        while (n > bits && !tile_is_vector(l->p, op, d, n))
            n--;
        if (n > bits) {
            bits = n;
            *fast = d;
        }
    }
    return bits;
}

/* Bits of a register's number that make no difference to what is loaded. */
static uint32_t same_bits_of_load(const TileLower *l, const TileOp *op,
                                  const LinearLayout *layout)
{
    uint32_t same = same_bits(layout);
    for (uint32_t d = 0; d < layout->rank; d++) {
        uint32_t run = tile_same_run(l->p, op, d, layout->out[d]);
        for (uint32_t i = 0; i < layout->in[LINEAR_REGISTER]; i++) {
            uint32_t coordinate = linear_coordinate(layout, layout->columns[i], d);
            bool is_only = coordinate << linear_shift(layout, d) == layout->columns[i];
            if (is_only && coordinate >> run == 0)
                same |= UINT32_C(1) << i;
        }
    }
    return same;
}

/* Registers [r, r + lanes) of a load; zeros where it is not there. is_there: it is, whatever extents and constraints say. */
static void load_lanes(TileLower *l, const TileOp *op, const LinearLayout *layout,
                       uint32_t fast, uint32_t lanes, uint32_t r, bool is_there,
                       LLVMValueRef *out)
{
    Emit *e = l->e;
    const IndexExpr *at[EMIT_MOST_RANK];
    LLVMValueRef ok = is_there ? NULL : tile_is_there(l, op, layout, op->dims, r),
                 zeros[MOST_LANES];
    for (uint32_t i = 0; i < lanes; i++)
        zeros[i] = LLVMConstNull(emit_type(l->k, op->dtype));
    GxIf inside;
    uint32_t outer =
        e->lanes; /* an index that is read makes loads while those of its reader are made */
    e->lanes = lanes;
    for (uint32_t d = 0; d < op->shape->rank; d++)
        at[d] = tile_index(l, op, op->index[d], layout, r, fast);
    emit_if_begin(e, &inside, ok);
    emit_load(e, op->array, op->shape, at, out);
    emit_if_end_or(e, &inside, out, zeros, lanes);
    e->lanes = outer;
}

static void make_load(TileLower *l, const TileOp *op, const LinearLayout *layout,
                      RegisterWindow w, bool is_there, LLVMValueRef *out)
{
    uint32_t fast, lanes = UINT32_C(1) << load_vector(l, op, layout, &fast),
                   same = same_bits_of_load(l, op, layout);
    for (uint32_t r = w.first; r < w.end; r += lanes) {
        if ((r & same) == 0)
            load_lanes(l, op, layout, fast, lanes, r, is_there, &out[r]);
        else
            memcpy(&out[r], &out[r & ~same], lanes * sizeof *out);
    }
}

/* -- the other operations ---------------------------------------------------------------------- */

/* 2^x, which is an instruction. */
static bool is_power_of_two(const TileOp *op)
{
    return op->dtype == DT_F32 && tile_is_exp2(op);
}

typedef struct Conversion {
    DType from, to;
    LLVMValueRef inputs[CONVERT_MOST];
    uint32_t numbers[CONVERT_MOST], count;
} Conversion;

/* Several at once: some instructions convert two. */
static void convert_all(TileLower *l, Conversion *c, LLVMValueRef *out)
{
    LLVMValueRef outputs[CONVERT_MOST];
    bool is_power = (c->count & (c->count - 1)) == 0;
    if (c->count != 0 && is_power)
        scalar_convert_lanes(l->k, c->from, c->to, c->count, c->inputs, outputs);
    for (uint32_t i = 0; i < c->count; i++)
        out[c->numbers[i]] =
            is_power ? outputs[i]
                     : scalar_convert_value(l->k, c->inputs[i], c->from, c->to);
    c->count = 0;
}

/* A choice that is known inside a band: all threads compute it in tiles at the edges only. */
static bool make_choice(TileLower *l, const TileOp *op, const LinearLayout *layout,
                        LLVMValueRef *out)
{
    const TileOp *known = l->inside != NULL ? tile_known_choice(op) : NULL;
    uint32_t count = register_count(layout), same = same_bits(layout);
    LLVMBuilderRef b = l->k->builder;
    GxIf edge;
    if (known == NULL || l->until != 0)
        return false;
    LLVMValueRef *x = tile_registers(l, op->operands[1], layout),
                 *y = tile_registers(l, op->operands[2], layout);
    emit_if_begin(l->e, &edge, LLVMBuildNot(b, l->inside, ""));
    LoweredTile *before = l->memo;
    LLVMValueRef *p = tile_registers(l, op->operands[0], layout);
    for (uint32_t r = 0; r < count; r++)
        out[r] =
            (r & same) != 0 ? out[r & ~same] : LLVMBuildSelect(b, p[r], x[r], y[r], "");
    l->memo = before; /* what was made there is there only */
    emit_if_end_or(l->e, &edge, out, known == op->operands[1] ? x : y, count);
    return true;
}

static void make_apply(TileLower *l, const TileOp *op, const LinearLayout *layout,
                       RegisterWindow w, LLVMValueRef *out)
{
    LLVMValueRef *operands[8], in[8];
    uint32_t same = same_bits(layout);
    Conversion c = {.from = op->operands[0]->dtype, .to = op->dtype};
    bool is_all = w.first == 0 && w.end == register_count(layout);
    if (is_all && (pairs_apply(l, op, layout, out) || make_choice(l, op, layout, out)))
        return;
    for (uint32_t i = 0; i < op->operand_count; i++)
        operands[i] = tile_registers(l, op->operands[i], layout);
    l->k->at = op->inst->name;
    for (uint32_t r = w.first; r < w.end; r++) {
        if ((r & same) != 0)
            continue;
        if (is_power_of_two(op)) {
            out[r] = gx_power_of_two(l->k, operands[1][r]);
            continue;
        }
        if (op->inst->op != OP_CONVERT) {
            for (uint32_t i = 0; i < op->operand_count; i++)
                in[i] = operands[i][r];
            out[r] = op_emit[op->inst->op].scalar(l->k, op->inst, in);
            continue;
        }
        c.inputs[c.count] = operands[0][r];
        c.numbers[c.count++] = r;
        if (c.count == CONVERT_MOST)
            convert_all(l, &c, out);
    }
    convert_all(l, &c, out);
    for (uint32_t r = w.first; r < w.end; r++)
        out[r] = out[r & ~same];
}

static void make_index(TileLower *l, const TileOp *op, const LinearLayout *layout,
                       RegisterWindow w, LLVMValueRef *out)
{
    LLVMBuilderRef b = l->k->builder;
    uint32_t same = same_bits(layout);
    for (uint32_t r = w.first; r < w.end; r++) {
        if ((r & same) != 0) {
            out[r] = out[r & ~same];
        } else if (op->kind == TILE_IN_RANGE) {
            out[r] = tile_is_there(l, op, layout, 0, r);
            if (out[r] == NULL)
                out[r] = LLVMConstInt(gx_int_type(l->k, 1), 1, 0);
        } else {
            const IndexExpr *e = tile_index(l, op, op->index[0], layout, r, UINT32_MAX);
            out[r] = LLVMBuildIntCast2(b, emit_index(l->e, e, 0),
                                       emit_type(l->k, op->dtype), 1, "");
        }
    }
}

/* All of it, in the layout of the sums. */
static void exchange_sums(TileLower *l, const TileOp *op, const TileResult *r,
                          uint32_t vector)
{
    const LinearLayout *sums = &l->m->sums;
    uint32_t count = register_count(sums), outer = l->until;
    l->result = NULL; /* what comes is in the layout of the sums */
    gx_barrier(l->k); /* the bytes were something else's */
    for (uint32_t first = 0; first < count; first = l->until) {
        l->until = first + TILE_WINDOW < count ? first + TILE_WINDOW : count;
        tile_to_shared(l, tile_registers(l, op, sums), op->dtype, sums, &r->shared,
                       vector, gx_i32(l->k, l->shared), first, l->until - first);
    }
    gx_barrier(l->k);
    l->until = outer;
    l->result = r;
}

/* From the layout of the sums to that in which the result is stored. */
static void make_exchange(TileLower *l, const TileOp *op, const TileResult *r,
                          RegisterWindow w, LLVMValueRef *out)
{
    uint32_t bits = dtype_info[op->dtype].bits, most = 0;
    while ((bits << (most + 1)) <= 128)
        most++;
    uint32_t both = 0;
    while (both < most && both < l->m->sums.in[LINEAR_REGISTER] &&
           both < r->layout.in[LINEAR_REGISTER] &&
           l->m->sums.columns[both] == r->layout.columns[both])
        both++;
    if (w.first == 0)
        exchange_sums(l, op, r, both);
    SharedOffsets offsets =
        shared_offsets(l, &r->layout, &r->shared, op->dtype, gx_i32(l->k, l->shared));
    tile_from_shared(l, op->dtype, &offsets, r->vector < most ? r->vector : most, w.first,
                     w.end - w.first, &out[w.first]);
}

/* -- loops ------------------------------------------------------------------------------------- */

typedef struct HeldTile {
    struct HeldTile *next;
    const TileOp *op;
    LinearLayout layout;
    LLVMValueRef *registers;
} HeldTile;

void tile_hold(TileLower *l, const TileOp *op, const LinearLayout *layout,
               LLVMValueRef *registers)
{
    HeldTile *h = l->held;
    while (h != NULL && h->op != op)
        h = h->next;
    if (h == NULL) {
        h = ARENA_NEW(l->k->arena, HeldTile);
        h->op = op;
        h->next = l->held;
        l->held = h;
    }
    h->layout = *layout;
    h->registers = registers;
}

LLVMValueRef *tile_renamed(TileLower *l, const LinearLayout *from,
                           LLVMValueRef *registers, const LinearLayout *to)
{
    LinearConversion c = linear_convert(from, to);
    uint32_t count = register_count(to);
    LLVMValueRef *out = ARENA_ARRAY(l->k->arena, LLVMValueRef, count);
    if (c.kind > CONVERT_REGISTERS)
        bug("%s: a tile is needed where other threads have it", l->k->name);
    for (uint32_t r = 0; r < count; r++)
        out[r] = registers[map_apply(&c.from, r) & (register_count(from) - 1)];
    return out;
}

static void make_held(TileLower *l, const TileOp *op, const LinearLayout *layout,
                      LLVMValueRef *out)
{
    const HeldTile *h = l->held;
    while (h != NULL && h->op != op)
        h = h->next;
    if (h == NULL)
        bug("%s: operation %%%u is needed before it was made", l->k->name, op->id);
    LLVMValueRef *in = h->registers;
    if (!linear_equal(layout, &h->layout))
        in = tile_renamed(l, &h->layout, in, layout);
    memcpy(out, in, register_count(layout) * sizeof *out);
}

/* Nothing to what is combined. */
static LLVMValueRef neutral(TileLower *l, const TileOp *op)
{
    LLVMTypeRef type = emit_type(l->k, op->dtype);
    return op->combine == OP_MAXIMUM ? LLVMConstReal(type, -(double)INFINITY)
                                     : LLVMConstNull(type);
}

static LLVMValueRef combined(TileLower *l, const TileOp *op, LLVMValueRef x,
                             LLVMValueRef y)
{
    LLVMValueRef in[] = {x, y};
    return op->combine == OP_MAXIMUM ? gx_intrinsic(l->k, "maxnum", in, 2)
                                     : gx_float_op(l->k, LLVMFAdd, x, y);
}

/* Over registers, then over lanes: those that differ in nothing but what is reduced. */
static LLVMValueRef reduce_register(TileLower *l, const TileOp *op,
                                    const LinearLayout *from, LLVMValueRef *values,
                                    uint32_t kept, uint32_t over)
{
    LLVMValueRef sum = NULL;
    for (uint32_t part = 0;; part = (part - over) & over) {
        LLVMValueRef v = values[kept | part];
        LLVMValueRef ok = tile_is_there(l, op, from, op->over, kept | part);
        if (ok != NULL)
            v = LLVMBuildSelect(l->k->builder, ok, v, neutral(l, op), "");
        sum = sum == NULL ? v : combined(l, op, sum, v);
        if (part == over)
            break;
    }
    uint32_t first = linear_first(from, LINEAR_LANE);
    for (uint32_t i = 0; i < from->in[LINEAR_LANE]; i++) {
        uint32_t column = from->columns[first + i], along = 0;
        for (uint32_t d = 0; d < from->rank; d++)
            along |= op->over >> d & 1 ? linear_coordinate(from, column, d) : 0;
        if (along == 0)
            continue;
        LLVMValueRef other =
            gx_shfl(l->k, GX_SHFL_BFLY, sum, gx_i32(l->k, UINT32_C(1) << i), 32);
        sum = combined(l, op, sum, other);
    }
    return sum;
}

/* Of the layout in which the loop's first product lies: warps have rows of their own. */
static void make_reduce(TileLower *l, const TileOp *op, const LinearLayout *layout,
                        LLVMValueRef *out)
{
    const LinearLayout *from = &l->reduced;
    uint32_t until = l->until;
    l->until = 0;
    LLVMValueRef *values = tile_registers(l, op->operands[0], from);
    l->until = until;
    LinearLayout kept = linear_projected(from, ~op->over);
    uint32_t count = register_count(from), over = same_bits(&kept) & ~same_bits(from);
    LLVMValueRef *sums = ARENA_ARRAY(l->k->arena, LLVMValueRef, count);
    for (uint32_t r = 0; r < count; r++) {
        uint32_t first = r & ~same_bits(&kept);
        sums[r] =
            r == first ? reduce_register(l, op, from, values, r, over) : sums[first];
    }
    if (!linear_equal(&kept, layout))
        sums = tile_renamed(l, &kept, sums, layout);
    memcpy(out, sums, register_count(layout) * sizeof *out);
}

static void make(TileLower *l, const TileOp *op, const LinearLayout *layout,
                 RegisterWindow w, LLVMValueRef *out)
{
    LLVMValueRef *in;
    if (l->result != NULL && l->result->exchange == op &&
        linear_equal(layout, &l->result->layout) && !linear_equal(layout, &l->m->sums)) {
        make_exchange(l, op, l->result, w, out);
        return;
    }
    switch (op->kind) {
    case TILE_LOAD:
        make_load(l, op, layout, w, false, out);
        return;
    case TILE_INDEX:
    case TILE_IN_RANGE:
        make_index(l, op, layout, w, out);
        return;
    case TILE_CONSTANT:
        for (uint32_t r = w.first; r < w.end; r++)
            out[r] = emit_constant(l->k, op->dtype, op->literal, 0);
        return;
    case TILE_APPLY:
        make_apply(l, op, layout, w, out);
        return;
    case TILE_BROADCAST: {
        LinearLayout own = layout_of(op->operands[0], layout);
        in = tile_registers(l, op->operands[0], &own);
        memcpy(&out[w.first], &in[w.first], (w.end - w.first) * sizeof *out);
        return;
    }
    case TILE_GROUP:
        for (uint32_t r = w.first; r < w.end; r++)
            out[r] = l->groups[op->number];
        return;
    case TILE_REDUCE:
        make_reduce(l, op, layout, out);
        return;
    case TILE_CARRIED:
    case TILE_DOT:
    case TILE_FINAL:
        make_held(l, op, layout, out);
        return;
    default:
        bug("%s: no tile of operation %%%u", l->k->name, op->id);
    }
}

LLVMValueRef *tile_registers(TileLower *l, const TileOp *op, const LinearLayout *layout)
{
    uint32_t count = register_count(layout);
    RegisterWindow w = {0, l->until != 0 && l->until < count ? l->until : count};
    LoweredTile *t = known(l, op, layout);
    if (t == NULL)
        t = remember(l, op, layout, ARENA_ARRAY(l->k->arena, LLVMValueRef, count), NULL,
                     0);
    if (t->made >= w.end)
        return t->registers;
    const char *outer = l->k->at;
    if (op->inst != NULL)
        l->k->at = op->inst->name;
    w.first = t->made;
    t->made = w.end;
    make(l, op, layout, w, t->registers);
    l->k->at = outer;
    return t->registers;
}

/* The layout that each operation was last seen in, by id: what several read is not walked for each of them. */
typedef const LinearLayout **SeenLayouts;

static SeenLayouts no_layouts(const TileLower *l)
{
    return ARENA_ARRAY(l->k->arena, const LinearLayout *, l->p->op_count);
}

static bool is_seen(const TileLower *l, SeenLayouts seen, const TileOp *op,
                    const LinearLayout *layout)
{
    if (seen[op->id] != NULL && linear_equal(seen[op->id], layout))
        return true;
    LinearLayout *copy = ARENA_NEW(l->k->arena, LinearLayout);
    *copy = *layout;
    seen[op->id] = copy;
    return false;
}

static void prepare(TileLower *l, const TileOp *op, const LinearLayout *layout,
                    SeenLayouts seen)
{
    LinearLayout own = layout_of(op, layout);
    if (is_seen(l, seen, op, &own))
        return;
    if (op->depth == 0) {
        tile_registers(l, op, &own);
        return;
    }
    if (op->kind == TILE_REDUCE)
        own = l->reduced;
    for (uint32_t i = 0; i < op->operand_count && op->kind != TILE_DOT; i++)
        prepare(l, op->operands[i], &own, seen);
}

void tile_prepare(TileLower *l, const TileOp *op, const LinearLayout *layout)
{
    prepare(l, op, layout, no_layouts(l));
}

/* -- loads ahead of their use ------------------------------------------------------------------- */

/* How many elements of a type a word holds; 1: they stay apart. */
static uint32_t per_word(DType t)
{
    uint32_t bits = dtype_info[t].bits;
    return t == DT_PRED || bits >= 32 || 32 % bits != 0 ? 1 : 32 / bits;
}

/* What registers of a tile make a difference, where bits `same` of their numbers make none: *numbers, and how many. */
static uint32_t distinct_registers(const TileLower *l, const LinearLayout *layout,
                                   uint32_t same, uint32_t **numbers)
{
    uint32_t n = 0;
    *numbers = ARENA_ARRAY(l->k->arena, uint32_t, register_count(layout));
    for (uint32_t r = 0; r < register_count(layout); r++) {
        if ((r & same) == 0)
            (*numbers)[n++] = r;
    }
    return n;
}

static LLVMValueRef pack_word(TileLower *l, DType t, const LLVMValueRef *values,
                              const uint32_t *numbers, uint32_t count)
{
    LLVMBuilderRef b = l->k->builder;
    LLVMTypeRef type = emit_type(l->k, t);
    uint32_t all = per_word(t);
    LLVMValueRef v = LLVMConstNull(LLVMVectorType(type, all));
    for (uint32_t i = 0; i < count; i++)
        v = LLVMBuildInsertElement(b, v, values[numbers[i]], gx_i32(l->k, i), "");
    return LLVMBuildBitCast(b, v, gx_int_type(l->k, 32), "");
}

/* Element `i` of a word: by shifts, which go where two of them are converted at once. */
static LLVMValueRef unpack_element(TileLower *l, DType t, LLVMValueRef word, uint32_t i)
{
    LLVMBuilderRef b = l->k->builder;
    uint32_t bits = dtype_info[t].bits;
    LLVMValueRef v = LLVMBuildLShr(b, word, gx_i32(l->k, i * bits), "");
    v = LLVMBuildTrunc(b, v, gx_int_type(l->k, bits), "");
    return LLVMBuildBitCast(b, v, emit_type(l->k, t), "");
}

static void unpack(TileLower *l, LoweredTile *t)
{
    uint32_t *numbers, all = per_word(t->op->dtype),
                       same = same_bits_of_load(l, t->op, &t->layout);
    uint32_t count = distinct_registers(l, &t->layout, same, &numbers);
    t->registers = ARENA_ARRAY(l->k->arena, LLVMValueRef, register_count(&t->layout));
    t->made = register_count(&t->layout);
    for (uint32_t i = 0; i < count; i++)
        t->registers[numbers[i]] =
            all == 1 ? t->words[i]
                     : unpack_element(l, t->op->dtype, t->words[i / all], i % all);
    for (uint32_t r = 0; r < register_count(&t->layout); r++)
        t->registers[r] = t->registers[r & ~same];
}

/* i1: all that a load's registers name is there; NULL: always. */
static LLVMValueRef all_is_there(TileLower *l, const TileOp *op,
                                 const LinearLayout *layout)
{
    uint32_t fast, lanes = UINT32_C(1) << load_vector(l, op, layout, &fast),
                   same = same_bits_of_load(l, op, layout);
    LLVMValueRef all = NULL;
    for (uint32_t r = 0; r < register_count(layout); r += lanes) {
        LLVMValueRef ok =
            (r & same) == 0 ? tile_is_there(l, op, layout, op->dims, r) : NULL;
        if (ok != NULL)
            all = all == NULL ? ok : LLVMBuildAnd(l->k->builder, all, ok, "");
    }
    return all;
}

/* Loads a tile; narrow elements become whole words at once: apart, each would take a register until it is used. */
static void load_words(TileLower *l, const TileOp *op, const LinearLayout *layout,
                       const uint32_t *numbers, uint32_t count, bool is_there,
                       LLVMValueRef *words)
{
    uint32_t all = per_word(op->dtype);
    LLVMValueRef *values = ARENA_ARRAY(l->k->arena, LLVMValueRef, register_count(layout));
    make_load(l, op, layout, (RegisterWindow){0, register_count(layout)}, is_there,
              values);
    for (uint32_t i = 0; i < count; i += all) {
        uint32_t left = count - i < all ? count - i : all;
        words[i / all] = all == 1 ? values[numbers[i]]
                                  : pack_word(l, op->dtype, values, &numbers[i], left);
    }
}

/* All loads stand in one branch: where each has its own, it is waited for before the next one begins. Only where some are
 * not there do they have one each. */
static void load_ahead(TileLower *l, const TileOp *op, const LinearLayout *layout,
                       LLVMValueRef condition)
{
    Arena *a = l->k->arena;
    uint32_t *numbers, all = per_word(op->dtype), same = same_bits_of_load(l, op, layout),
                       count = distinct_registers(l, layout, same, &numbers),
                       n = (count + all - 1) / all;
    LLVMValueRef *words = ARENA_ARRAY(a, LLVMValueRef, n),
                 *some = ARENA_ARRAY(a, LLVMValueRef, n),
                 *zeros = ARENA_ARRAY(a, LLVMValueRef, n);
    for (uint32_t i = 0; i < n; i++)
        zeros[i] =
            LLVMConstNull(all == 1 ? emit_type(l->k, op->dtype) : gx_int_type(l->k, 32));
    /* what an index reads is made before the branch, where all may use it */
    for (uint32_t i = 0; i < op->operand_count; i++) {
        LinearLayout own = layout_of(op->operands[i], layout);
        tile_registers(l, op->operands[i], &own);
    }
    GxIf inside, whole;
    emit_if_begin(l->e, &inside, condition);
    LLVMValueRef there = all_is_there(l, op, layout);
    emit_if_begin(l->e, &whole, there);
    load_words(l, op, layout, numbers, count, true, words);
    if (there != NULL) {
        emit_if_else(l->e, &whole, words, n);
        load_words(l, op, layout, numbers, count, false, some);
        emit_if_end(l->e, &whole, some, n, words);
    }
    emit_if_end_or(l->e, &inside, words, zeros, n);
    remember(l, op, layout, NULL, words, n);
}

static void load_all_ahead(TileLower *l, const TileOp *op, const LinearLayout *layout,
                           LLVMValueRef condition, SeenLayouts seen)
{
    LinearLayout own = layout_of(op, layout);
    if (op->depth == 0 || is_seen(l, seen, op, &own) || known(l, op, &own) != NULL)
        return;
    for (uint32_t i = 0; i < op->operand_count; i++)
        load_all_ahead(l, op->operands[i], &own, condition, seen);
    if (op->kind != TILE_LOAD)
        return;
    const char *outer = l->k->at;
    l->k->at = op->inst->name;
    load_ahead(l, op, &own, condition);
    l->k->at = outer;
}

void tile_load_ahead(TileLower *l, const TileOp *op, const LinearLayout *layout,
                     LLVMValueRef condition)
{
    load_all_ahead(l, op, layout, condition, no_layouts(l));
}

const LLVMValueRef *tile_words(TileLower *l, const TileOp *op, const LinearLayout *layout)
{
    const LoweredTile *t = l->memo;
    while (t != NULL && (t->op != op || !linear_equal(&t->layout, layout)))
        t = t->next;
    bool has_all = t != NULL && t->words != NULL && per_word(op->dtype) > 1 &&
                   same_bits_of_load(l, op, layout) == 0;
    return has_all ? t->words : NULL;
}

LLVMValueRef *tile_take_ahead(TileLower *l, TileAhead **which, uint32_t *count)
{
    Arena *a = l->k->arena;
    *count = 0;
    *which = NULL;
    for (const LoweredTile *t = l->memo; t != NULL; t = t->next)
        *count += t->word_count;
    LLVMValueRef *words = ARENA_ARRAY(a, LLVMValueRef, *count);
    uint32_t n = 0;
    for (const LoweredTile *t = l->memo; t != NULL; t = t->next) {
        if (t->word_count == 0)
            continue;
        TileAhead *x = ARENA_NEW(a, TileAhead);
        *x = (TileAhead){*which, t->op, t->layout, n, t->word_count};
        *which = x;
        memcpy(words + n, t->words, t->word_count * sizeof *words);
        n += t->word_count;
    }
    tile_forget(l);
    return words;
}

void tile_give_ahead(TileLower *l, const TileAhead *which, LLVMValueRef *words)
{
    for (; which != NULL; which = which->next)
        remember(l, which->op, &which->layout, NULL, words + which->first, which->count);
}
