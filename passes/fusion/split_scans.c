/* Cuts cumulative windows along a dimension whose rows lie side by side into pieces, so that threads enough walk, each along
 * a piece: rows alone are too few to keep a GPU busy, and blocks that take a row each would read across.
 *
 *   s = f32[8192,4096] reduce-window(x, 0), window={size=8192x1 pad=8191_0x0_0}, to_apply=add
 *   ->  b = f32[32,256,4096] bitcast(x)  p = f32[32,4096] reduce(b, 0), dimensions={1}
 *       q = reduce-window(p, 0), along 0  before = pad(q, 0), one low, the last one off
 *       c = select(the first of a piece, before + b, b)  s = bitcast(reduce-window(c, 0), along 1)
 *
 * x is read twice, for sums and for the windows. Only of a size with a fitting divisor, and as split-reductions: where the
 * initial value may join more than once; not of floats that kernels keep wider, which pieces would round.
 *
 * Needs: layouts, row-major inside. Keeps: values but for the order of sums. Ends: one sweep. */
#include "ir/kernel/kind.h"
#include "ir/kernel/plans.h"
#include "passes/fusion/fusion.h"
#include "passes/simplify/rewrite.h"

#define LEAST_ELEMENTS (1 << 20) /* fewer are not worth two more launches */
#define LEAST_SIDE 32            /* rows side by side that a warp reads together */
#define LEAST_PIECE 32           /* elements */
#define LEAST_PIECES 4
#define THREADS 1024 /* of a multiprocessor, that keep its memory busy */

typedef struct ScanCut {
    Rewriter r;
    Instruction *scan;
    const Shape *wide; /* with the pieces before the dimension */
    int64_t along, pieces;
    bool is_reverse;
} ScanCut;

/* Of equal size, and about as many as are wanted; 1: there are none. */
static int64_t choose_pieces(int64_t size, int64_t wanted)
{
    for (int64_t n = wanted; n < 2 * wanted; n++) {
        if (size % n == 0)
            return n;
    }
    for (int64_t n = wanted; n >= LEAST_PIECES; n--) {
        if (size % n == 0)
            return n;
    }
    return 1;
}

static int64_t wanted_pieces(const Instruction *scan, int64_t along, const Target *t)
{
    const Shape *s = scan->shape;
    int64_t elements = shape_elements(s), size = s->dims[along], side = 1;
    for (uint32_t d = (uint32_t)along + 1; d < s->rank; d++)
        side *= s->dims[d];
    if (elements < LEAST_ELEMENTS || side < LEAST_SIDE)
        return 1;
    int64_t wanted = (int64_t)target_multiprocessors(t) * THREADS / (elements / size);
    int64_t most = size / LEAST_PIECE;
    return wanted < most ? wanted : most;
}

/* The pieces' sums, in the place of the pieces. */
static Instruction *sum_pieces(ScanCut *c, Instruction *x)
{
    Rewriter *r = &c->r;
    uint32_t rank = c->wide->rank - 1;
    int64_t dims[KERNEL_MOST_RANK], inner = c->along + 1;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = c->scan->shape->dims[d];
    dims[c->along] = c->pieces;
    const Shape *s = shape_with_dims(r->m->intern, c->scan->shape, rank, dims);
    Instruction *sums = rw_binary(r, OP_REDUCE, s, x, c->scan->operands[1]);
    inst_set_ints(sums, ATTR_DIMENSIONS, &inner, 1);
    inst_set_computation(sums, ATTR_TO_APPLY, inst_called(c->scan, 0));
    return sums;
}

static Instruction *windows(ScanCut *c, Instruction *x, int64_t along)
{
    Instruction *initial = c->scan->operands[1];
    Instruction *w = rw_like(&c->r, c->scan, x->shape, 2, (Instruction *[]){x, initial});
    rw_set_cumulative(&c->r, w, along, c->is_reverse);
    return w;
}

/* What comes before each piece in the walk, spread over its elements. */
static Instruction *before_pieces(ScanCut *c, Instruction *sums)
{
    Rewriter *r = &c->r;
    const Shape *s = sums->shape;
    PaddingDim *pads = ARENA_ARRAY(r->m->arena, PaddingDim, s->rank);
    Padding *padding = ARENA_NEW(r->m->arena, Padding);
    int64_t names[KERNEL_MOST_RANK];
    pads[c->along].low = c->is_reverse ? -1 : 1;
    pads[c->along].high = -pads[c->along].low;
    *padding = (Padding){s->rank, pads};
    for (uint32_t d = 0; d < s->rank; d++)
        names[d] = d > c->along ? d + 1 : d;
    Instruction *up_to = windows(c, sums, c->along);
    Instruction *before = rw_binary(r, OP_PAD, s, up_to, c->scan->operands[1]);
    inst_set(before, (Attr){.id = ATTR_PADDING, .padding = padding});
    return rw_broadcast(r, c->wide, before, s->rank, names);
}

static Instruction *cut(ScanCut *c, Instruction *x)
{
    Rewriter *r = &c->r;
    Intern *t = r->m->intern;
    int64_t inner = c->along + 1, last = c->wide->dims[inner] - 1;
    x = rw_unary(r, OP_BITCAST, c->wide, x);
    Instruction *before = before_pieces(c, sum_pieces(c, x));
    OpCode op = inst_called(c->scan, 0)->root->op;
    Instruction *joined = rw_binary(r, op, c->wide, before, x);
    const Shape *numbers = shape_with_dtype(t, c->wide, DT_S32);
    Instruction *number = rw_add(r, OP_IOTA, numbers, 0, NULL);
    inst_set_int(number, ATTR_IOTA_DIMENSION, inner);
    Instruction *is_first = rw_compare(
        r, number, rw_splat_int(r, numbers, c->is_reverse ? last : 0), DIRECTION_EQ);
    x = rw_add(r, OP_SELECT, c->wide, 3, (Instruction *[]){is_first, joined, x});
    return rw_unary(r, OP_BITCAST, c->scan->shape, windows(c, x, inner));
}

static Instruction *try_cut(Instruction *scan, void *context)
{
    PassContext *cx = context;
    if (scan->op != OP_REDUCE_WINDOW || scan->operand_count != 2 ||
        scan->control_count != 0 || !shape_is_array(scan->shape) ||
        scan->shape->rank + 1 >= KERNEL_MOST_RANK ||
        dtype_is_sub_byte(scan->shape->dtype))
        return NULL;
    const Shape *from = scan->operands[0]->shape;
    if (!shape_is_row_major(from) || !shape_is_row_major(scan->shape) ||
        shape_is_dynamic(from) || from->dtype != scan->shape->dtype ||
        shape_elements(from) == 0 || reduction_is_kept_wider(scan) ||
        !reduction_may_join_twice(scan))
        return NULL;
    ScanCut c = {.r = {.m = scan->parent->module,
                       .comp = scan->parent,
                       .scratch = cx->scratch,
                       .cx = cx,
                       .at = scan},
                 .scan = scan};
    c.along = kernel_scan_dimension(scan, &c.is_reverse);
    int64_t wanted = c.along < 0 ? 1 : wanted_pieces(scan, c.along, cx->target);
    if (wanted < LEAST_PIECES)
        return NULL;
    c.pieces = choose_pieces(from->dims[c.along], wanted);
    if (c.pieces < LEAST_PIECES)
        return NULL;
    int64_t dims[KERNEL_MOST_RANK];
    for (uint32_t d = 0, next = 0; d < from->rank; d++) {
        if (d == c.along)
            dims[next++] = c.pieces;
        dims[next++] = d == c.along ? from->dims[d] / c.pieces : from->dims[d];
    }
    c.wide = shape_with_dims(c.r.m->intern, from, from->rank + 1, dims);
    return cut(&c, scan->operands[0]);
}

bool pass_split_scans(Module *m, PassContext *cx)
{
    return module_replace_each(m, try_cut, cx, cx->scratch) != 0;
}
