/* A product of what was gathered along a dimension that is kept, but not the slowest one, reads the pieces as they lie:
 * NCCL has put them one after the other, and to the library each is a matrix of a batch, whose results stand side by side.
 *
 *   g = bf16[8,4096,1376] all-gather(w)   t = bf16[4096,8,1376] transpose(g), dimensions={1,0,2}
 *   b = bf16[4096,11008] bitcast(t)       d = bf16[512,11008] dot(x, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 *   ->  p = bf16[512,8,1376] dot(x, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}    d = bf16[512,11008] bitcast(p)
 *
 * Needs: laid out. Keeps: values. Ends: one sweep, a product is taken once for each of its operands. */
#include "ir/kernel/matmul.h"
#include "ir/kernel/time/costs.h"
#include "ir/kernel/time/kernel_time.h"
#include "passes/library/choice.h"
#include "passes/library/library.h"
#include "passes/simplify/rewrite.h"

static const AttrId sum_dims[2] = {ATTR_LHS_CONTRACTING_DIMS, ATTR_RHS_CONTRACTING_DIMS};

/* An operand as its pieces lie. */
typedef struct Pieces {
    Instruction *x;
    const int64_t *
        sums; /* its dimensions that are contracted, in the order of the product's attribute */
} Pieces;

/* The dimensions of `from` that dimension `dim` of `to` consists of, [*first, *end). False: `to` cuts one of them, or joins
 * them otherwise. Neither is empty. */
static bool parts_of(const Shape *from, const Shape *to, uint32_t dim, uint32_t *first,
                     uint32_t *end)
{
    uint32_t at = 0;
    for (uint32_t d = 0; d <= dim; d++) {
        int64_t size = 1;
        for (*first = at; at < from->rank && size < to->dims[d]; at++)
            size *= from->dims[at];
        if (size != to->dims[d])
            return false;
    }
    *end = at;
    return true;
}

static bool is_plain(const Shape *s)
{
    bool has_ones = false;
    for (uint32_t d = 0; d < s->rank; d++)
        has_ones |= s->dims[d] <= 1;
    return shape_is_row_major(s) && !has_ones;
}

/* The transposition that makes the operand, if nothing else needs it. */
static Instruction *turned_operand(Rewriter *r, Instruction *x)
{
    const Uses *uses = rw_uses(r);
    if ((x->op == OP_BITCAST || x->op == OP_RESHAPE) && x->id < r->known &&
        uses_count(uses, x) == 1)
        x = x->operands[0];
    return x->op == OP_TRANSPOSE && x->id < r->known && uses_count(uses, x) == 1 &&
                   x->control_count == 0 && library_lies_in_memory(x->operands[0])
               ? x
               : NULL;
}

/* Each contracted dimension is one of the pieces' own; what is kept keeps its order. */
static bool find_pieces(Rewriter *r, const Instruction *dot, uint32_t side, Pieces *out)
{
    Instruction *x = dot->operands[side], *t = turned_operand(r, x);
    if (t == NULL || !is_plain(x->shape) || !is_plain(t->shape))
        return false;
    Ints sums = inst_ints(dot, sum_dims[side]), from = inst_ints(t, ATTR_DIMENSIONS);
    int64_t *to = ARENA_ARRAY(r->scratch, int64_t, sums.count + 1),
            *kept = ARENA_ARRAY(r->scratch, int64_t, from.count + 1);
    uint32_t kept_count = 0;
    for (uint32_t d = 0; d < x->shape->rank; d++) {
        uint32_t first, end;
        if (!parts_of(t->shape, x->shape, d, &first, &end))
            return false;
        int64_t pair = ints_find(sums, d);
        if (pair >= 0 && end - first != 1)
            return false;
        if (pair >= 0)
            to[pair] = from.data[first];
        for (; pair < 0 && first < end; first++)
            kept[kept_count++] = from.data[first];
    }
    *out = (Pieces){t->operands[0], to};
    return ints_ascend((Ints){kept, kept_count}) && shape_is_row_major(out->x->shape);
}

/* With that operand: kept dimensions of the first one come before those of the second. */
static Instruction *product_of(Rewriter *r, const Instruction *dot, uint32_t side,
                               const Pieces *pieces)
{
    Instruction *operands[2] = {dot->operands[0], dot->operands[1]};
    operands[side] = pieces->x;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t,
                                operands[0]->shape->rank + operands[1]->shape->rank + 1u);
    uint32_t rank = 0, count = inst_ints(dot, sum_dims[side]).count;
    for (uint32_t i = 0; i < 2; i++) {
        Ints sums = i == side ? (Ints){.data = pieces->sums, .count = count}
                              : inst_ints(dot, sum_dims[i]);
        const Shape *s = operands[i]->shape;
        for (uint32_t d = 0; d < s->rank; d++) {
            if (!ints_contain(sums, d))
                dims[rank++] = s->dims[d];
        }
    }
    Instruction *p =
        rw_like(r, dot, rw_shape(r, dot->shape->dtype, rank, dims), 2, operands);
    inst_set_ints(p, sum_dims[side], pieces->sums, count);
    return p;
}

/* Tiles of narrow pieces read more for each operation than those of the whole: all of the other factor for each piece. That
 * costs nothing where it is no more than what comes from memory meanwhile, or all of it takes no time. */
static bool fills_tiles(const Instruction *product, uint32_t side, const KernelTime *t)
{
    MatmulShape s;
    if (!matmul_shape(product, &s))
        return false;
    int64_t rows = side == 0 ? s.m : s.n, others = side == 0 ? s.n : s.m;
    return t->limit == LIMIT_LAUNCH || (t->limit == LIMIT_MEMORY && others <= rows) ||
           (double)rows >= costs.library_tile;
}

/* The library makes it, in less time than it makes the other one from what is copied for it. */
static bool gains(const Instruction *product, const Instruction *dot, uint32_t side,
                  const PassContext *cx)
{
    const GpuModel *d = cx->target->device;
    MatmulCall call;
    KernelTime in_pieces, whole;
    double bytes = 2 * (double)shape_bytes(dot->operands[side]->shape);
    return matmul_call_of(product, &call) &&
           library_product_time(product, d, &in_pieces) &&
           library_product_time(dot, d, &whole) &&
           fills_tiles(product, side, &in_pieces) &&
           in_pieces.seconds <
               whole.seconds + cost_seconds_of_bytes(d, bytes) + costs.launch_seconds;
}

static Instruction *product_of_pieces(Rewriter *r, Instruction *dot)
{
    Pieces pieces;
    if (!matmul_is_library(dot) || dot->control_count != 0 ||
        inst_ints(dot, ATTR_LHS_BATCH_DIMS).count != 0 || !is_plain(dot->shape))
        return NULL;
    for (uint32_t side = 0; side < 2; side++) {
        if (!find_pieces(r, dot, side, &pieces))
            continue;
        Instruction *p = product_of(r, dot, side, &pieces);
        if (gains(p, dot, side, r->cx))
            return shape_same_dims(p->shape, dot->shape)
                       ? p
                       : rw_unary(r, OP_BITCAST, dot->shape, p);
        computation_remove(r->comp, p);
    }
    return NULL;
}

bool pass_library_pieces(Module *m, PassContext *cx)
{
    static const Rule rules[] = {{OP_DOT, "product_of_pieces", product_of_pieces}, {0}};
    return rewrite_module(m, cx, (const Rule *[]){rules}, 1);
}
