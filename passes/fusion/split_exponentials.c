/* Sums of exponentials less the largest of a long row are made of pieces of it, each less its own largest: the row
 * is read once. A kernel that reduces a whole row reads it twice, as the largest must be known before the first
 * exponential and the row fits into no block's registers; a piece does.
 * Where no piece divides the row, the last piece is filled up with -inf. Exponentials of bf16 that are added in f32 are
 * made of bf16 in a piece, too, and the pieces' factors in f32.
 *
 *   m = f32[8] reduce(f32[8,131072] x, -inf), maximum    s = f32[8] reduce(exp(x - m), 0), add
 *   ->  b = f32[8,16,8192] bitcast(x)    p = f32[8,16] reduce(b, -inf), maximum    c = p, made finite
 *       q = f32[8,16] reduce(exp(b - c), 0), add
 *       m = f32[8] reduce(p, -inf), maximum    s = f32[8] reduce(q * exp(c - m), 0), add
 *
 * Sums of products with x are made of their pieces', too, so that they need no other kernel that reads it.
 *
 * In m's place may stand what is 0 where m is not finite. A piece of which all is -inf has the sum 0, as it would
 * have less any number, so c is the least number there; one with inf has inf, and c is the largest: then the
 * factors, and with them s, are 0, inf or NaN as those of the row.
 *
 * Needs: layouts, row-major inside. Keeps: values but for the order of sums. Ends: one sweep. */
#include <float.h>
#include <math.h>

#include "ir/base/divide.h"
#include "passes/fusion/fusion.h"
#include "passes/simplify/rewrite.h"

#define HELD_ROW 16384   /* more elements are not kept in registers by one block */
#define CACHED_ROW 65536 /* more bytes are not found in the first cache when read again */
#define PIECE_MOST 8192  /* elements of a piece */
#define PIECE_LEAST                                                                      \
    1024 /* where few rows would leave the GPU idle, otherwise, or sizes have no other divisor */
#define BLOCKS 1024 /* that keep a GPU busy */
#define ACCESS 8    /* elements that a thread loads at once */
#define BF16_MAX 0x1.FEp127

typedef struct Parts {
    Instruction *x, *largest;
    Instruction
        *shift; /* what x is made less by: `largest`, or 0 where that is not finite */
} Parts;

/* Of the pieces of rows: the finite numbers nearest to their largest, their sums less those. */
typedef struct Pieces {
    Instruction *finite, *sums; /* NULL: not made */
} Pieces;

/* In the making. */
typedef struct Split {
    PassContext *cx;
    Instruction **forward; /* [instruction id] what stands for it */
    Pieces *pieces;        /* [instruction id] of a maximum */
    int64_t *piece; /* [instruction id] elements of one of its rows; 0: it is not cut */
    bool *waits;    /* [instruction id] for the largest of a row that is cut */
    uint32_t count; /* of instructions that were there before */
    bool changed;
} Split;

static bool reduces_rows(const Instruction *inst, OpCode op, double initial)
{
    if (inst->op != OP_REDUCE || inst->operand_count != 2 || inst->control_count != 0 ||
        rw_reducer_op(inst_called(inst, 0)) != op ||
        !inst_is_constant_scalar(inst->operands[1], initial))
        return false;
    const Shape *from = inst->operands[0]->shape;
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    DType t = inst->shape->dtype;
    return (t == DT_F32 || t == DT_F64 || t == DT_BF16) && dims.count == 1 &&
           dims.data[0] == (int64_t)from->rank - 1 && rw_is_static(from) &&
           shape_is_row_major(from) && shape_is_row_major(inst->shape);
}

/* A number for each row, all along it. */
static bool is_along_rows(const Instruction *spread)
{
    if (spread->op != OP_BROADCAST)
        return false;
    Ints dims = inst_ints(spread, ATTR_DIMENSIONS);
    for (size_t i = 0; i < dims.count; i++) {
        if (dims.data[i] != (int64_t)i)
            return false;
    }
    return dims.count + 1 == spread->shape->rank;
}

/* Exponentials of bf16 are added in f32. */
static const Instruction *exponentials(const Instruction *sum)
{
    const Instruction *x = sum->operands[0];
    bool is_wide = x->op == OP_CONVERT && x->operands[0]->shape->dtype == DT_BF16 &&
                   x->shape->dtype == DT_F32;
    return is_wide ? x->operands[0] : x;
}

static bool find_parts(const Instruction *sum, Parts *out)
{
    if (!reduces_rows(sum, OP_ADD, 0) || sum->shape->dtype == DT_BF16 ||
        exponentials(sum)->op != OP_EXPONENTIAL)
        return false;
    const Instruction *less = exponentials(sum)->operands[0];
    if (less->op != OP_SUBTRACT || !is_along_rows(less->operands[1]))
        return false;
    Instruction *shift = less->operands[1]->operands[0], *largest = shift;
    if (shift->op == OP_SELECT && shift->operands[0]->op == OP_IS_FINITE &&
        shift->operands[0]->operands[0] == shift->operands[1] &&
        rw_is_splat(shift->operands[2], 0))
        largest = shift->operands[1];
    *out = (Parts){less->operands[0], largest, shift};
    return reduces_rows(largest, OP_MAXIMUM, -INFINITY) &&
           largest->operands[0] == out->x && shape_same_dims(largest->shape, sum->shape);
}

/* Bytes of a row as it lies in memory: a conversion is made as it is read. */
static int64_t row_bytes(const Instruction *x)
{
    int64_t columns = x->shape->dims[x->shape->rank - 1];
    while (x->op == OP_CONVERT)
        x = x->operands[0];
    return columns * dtype_info[x->shape->dtype].bits / 8;
}

/* Elements of a piece of rows of `columns`: a divisor, as large as leaves no block of the GPU idle; 0: none. */
static int64_t piece_of(int64_t rows, int64_t columns, int64_t access)
{
    int64_t best = 0;
    for (int64_t n = PIECE_MOST; n >= PIECE_LEAST; n--) {
        if (columns % n != 0 || n % access != 0)
            continue;
        if (best == 0 || rows * (columns / best) < BLOCKS)
            best = n;
    }
    return best;
}

/* Elements of a piece where the last one is filled up. */
static int64_t filled_piece_of(int64_t rows, int64_t columns)
{
    int64_t pieces = ceil_div(columns, PIECE_MOST);
    while (rows * pieces < BLOCKS && columns / (2 * pieces) >= PIECE_LEAST)
        pieces *= 2;
    int64_t piece = ceil_div(columns, pieces);
    return ceil_div(piece, ACCESS) * ACCESS;
}

static int64_t choose_piece(int64_t rows, int64_t columns)
{
    int64_t piece = piece_of(rows, columns, ACCESS);
    if (piece == 0)
        piece = piece_of(rows, columns, 1);
    return piece == 0 ? filled_piece_of(rows, columns) : piece;
}

static Instruction *reduced(Rewriter *r, const Instruction *like, Instruction *x,
                            const Shape *shape, uint32_t along)
{
    Instruction *out =
        rw_like(r, like, shape, 2, (Instruction *[]){x, like->operands[1]});
    int64_t dim = along;
    inst_set_ints(out, ATTR_DIMENSIONS, &dim, 1);
    return out;
}

/* The nearest finite number of each element. */
static Instruction *made_finite(Rewriter *r, Instruction *p)
{
    DType t = p->shape->dtype;
    double most = t == DT_BF16 ? BF16_MAX : t == DT_F32 ? (double)FLT_MAX : DBL_MAX;
    Instruction *low =
        rw_binary(r, OP_MAXIMUM, p->shape, p, rw_splat(r, p->shape, -most));
    return rw_binary(r, OP_MINIMUM, p->shape, low, rw_splat(r, p->shape, most));
}

static Instruction *exponential_less(Rewriter *r, Instruction *x, Instruction *less)
{
    uint32_t count = less->shape->rank;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++)
        dims[i] = i;
    Instruction *along = rw_broadcast(r, x->shape, less, count, dims);
    return rw_unary(r, OP_EXPONENTIAL, x->shape,
                    rw_binary(r, OP_SUBTRACT, x->shape, x, along));
}

/* [rows, columns] as [rows, pieces, piece], filled up with `fill`. */
static Instruction *cut(Rewriter *r, Instruction *x, Instruction *fill, int64_t piece)
{
    uint32_t along = x->shape->rank - 1;
    int64_t columns = x->shape->dims[along];
    x = rw_fill_up(r, x, fill, along, ceil_div(columns, piece) * piece - columns);
    const Shape *from = x->shape;
    const int64_t *dims = rw_cut_dims(r, from, from->dims[from->rank - 1] / piece);
    return rw_unary(r, OP_BITCAST,
                    shape_with_dims(r->m->intern, from, from->rank + 1, dims), x);
}

static void make_pieces(Split *s, Rewriter *r, const Parts *p, int64_t piece)
{
    const Instruction *sum = r->at;
    uint32_t along = p->x->shape->rank - 1;
    Instruction *x = cut(r, p->x, p->largest->operands[1], piece);
    s->piece[p->x->id] = piece;
    const Shape *shape =
        shape_with_dims(r->m->intern, x->shape, along + 1, x->shape->dims);
    Instruction *largest = reduced(r, p->largest, x, shape, along + 1);
    s->forward[p->largest->id] =
        reduced(r, p->largest, largest, p->largest->shape, along);
    Pieces *made = &s->pieces[p->largest->id];
    made->finite = made_finite(r, largest);
    Instruction *e =
        rw_in_type(r, exponential_less(r, x, made->finite), sum->shape->dtype);
    shape = shape_with_dtype(r->m->intern, shape, sum->shape->dtype);
    made->sums = reduced(r, sum, e, shape, along + 1);
}

static void split(Split *s, Instruction *sum, const Parts *p, int64_t piece)
{
    Rewriter r = {.m = sum->parent->module,
                  .comp = sum->parent,
                  .scratch = s->cx->scratch,
                  .cx = s->cx,
                  .at = sum};
    Pieces *pieces = &s->pieces[p->largest->id];
    if (pieces->sums == NULL)
        make_pieces(s, &r, p, piece);
    const Shape *shape = pieces->sums->shape;
    Instruction *weight =
        exponential_less(&r, rw_in_type(&r, pieces->finite, shape->dtype),
                         rw_in_type(&r, p->shift, shape->dtype));
    Instruction *part = rw_binary(&r, OP_MULTIPLY, shape, pieces->sums, weight);
    s->forward[sum->id] = reduced(&r, sum, part, sum->shape, p->x->shape->rank - 1);
    s->changed = true;
}

/* A sum of products with rows that are cut is made of their pieces', which one kernel reads with the others. */
static void split_product(Split *s, Instruction *sum)
{
    if (!reduces_rows(sum, OP_ADD, 0) || sum->operands[0]->op != OP_MULTIPLY)
        return;
    Instruction *product = sum->operands[0], *zero = sum->operands[1];
    int64_t piece = s->piece[product->operands[0]->id];
    if (piece == 0)
        piece = s->piece[product->operands[1]->id];
    if (piece == 0 || s->waits[product->id])
        return;
    Rewriter r = {.m = sum->parent->module,
                  .comp = sum->parent,
                  .scratch = s->cx->scratch,
                  .cx = s->cx,
                  .at = sum};
    uint32_t along = product->shape->rank - 1;
    Instruction *x = cut(&r, product, zero, piece);
    if (sum->shape->dtype == DT_BF16) /* as it is added by a kernel: rounded once */
        x = rw_in_type(&r, x, DT_F32);
    const Shape *shape =
        shape_with_dims(r.m->intern, x->shape, along + 1, x->shape->dims);
    const Shape *of_rows = shape_with_dtype(r.m->intern, sum->shape, x->shape->dtype);
    int64_t dims[2] = {along + 1, along};
    Instruction *parts = rw_sum(&r, shape, x, 1, &dims[0]);
    Instruction *total = rw_sum(&r, of_rows, parts, 1, &dims[1]);
    s->forward[sum->id] = rw_convert(&r, sum->shape, total);
}

static void split_products(Split *s, Computation *comp)
{
    uint32_t count;
    Instruction **order = computation_post_order(comp, s->cx->scratch, &count);
    s->waits = ARENA_ARRAY(s->cx->scratch, bool, (size_t)comp->instruction_count + 1);
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *inst = order[i];
        bool waits = inst->id < s->count && s->forward[inst->id] != NULL;
        for (uint32_t k = 0; k < inst->operand_count; k++)
            waits |= s->waits[inst->operands[k]->id];
        s->waits[inst->id] = waits;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        if (comp->instructions[i] != NULL)
            split_product(s, comp->instructions[i]);
    }
}

static void visit(Split *s, Instruction *sum)
{
    Parts p;
    if (!find_parts(sum, &p))
        return;
    int64_t columns = p.x->shape->dims[p.x->shape->rank - 1];
    int64_t rows = shape_elements(sum->shape);
    if (columns > HELD_ROW && row_bytes(p.x) > CACHED_ROW && rows != 0)
        split(s, sum, &p, choose_piece(rows, columns));
}

static bool visit_program(Computation *comp, PassContext *cx)
{
    uint32_t count = comp->instruction_count;
    Split s = {.cx = cx,
               .count = count,
               .forward = ARENA_ARRAY(cx->scratch, Instruction *, count + 1u),
               .pieces = ARENA_ARRAY(cx->scratch, Pieces, count + 1u),
               .piece = ARENA_ARRAY(cx->scratch, int64_t, count + 1u)};
    for (uint32_t i = 0; i < count; i++) {
        if (comp->instructions[i] != NULL)
            visit(&s, comp->instructions[i]);
    }
    if (!s.changed)
        return false;
    split_products(&s, comp);
    computation_substitute(comp, s.forward, count);
    return true;
}

bool pass_split_exponentials(Module *m, PassContext *cx)
{
    return rewrite_programs(m, cx, visit_program);
}
