/* Marks the dots that cuBLASLt makes: those of f16, bf16, f32, f64, s8 and (where the GPU has them) f8 that are large enough to
 * gain and lie in memory as it wants them. Where an operand lies otherwise - the heads of an attention
 * stand between its positions and features - it is transposed first, if that is little work beside
 * the products. So are operands in pieces (ir/kernel/matmul.h): a product of one piece takes what is added to it, and
 * library-pieces takes the pieces as they lie where nothing is.
 *
 *   d = f32[512,512] dot(a, b), ...
 *   ->  d = f32[512,512] dot(a, b), ..., backend_config={"library":"cublaslt"}
 *
 * The sums are made in f32 (f64 for f64), or in what `algorithm` asks for: TF32 and bf16 products
 * of f32 operands only where it names them. Algorithms that the library lacks stay with our own
 * kernels.
 *
 * Needs: laid out. Keeps: values. Ends: one sweep. */
#include "ir/kernel/matmul.h"
#include "passes/library/choice.h"
#include "passes/library/library.h"
#include "passes/settings.h"

enum { LEAST_ROWS = 2 /* one row is a sum of products: vector_dots.c */ };

static bool is_large(int64_t batch, int64_t m, int64_t n, int64_t k,
                     const PassContext *cx)
{
    int64_t work;
    if (batch > INT32_MAX || m < LEAST_ROWS || n < 8 || k < 8)
        return false;
    return __builtin_mul_overflow(m, n, &work) ||
           __builtin_mul_overflow(work, k, &work) ||
           __builtin_mul_overflow(work, batch, &work) ||
           work >= cx->settings->library_dot_work;
}

static bool is_worth_it(const Instruction *dot, const PassContext *cx)
{
    MatmulShape s;
    return matmul_shape(dot, &s) && is_large(s.batch, s.m, s.n, s.k, cx);
}

/* -- transposing ---------------------------------------------------------------------------------- */

static const AttrId batch_dims[2] = {ATTR_LHS_BATCH_DIMS, ATTR_RHS_BATCH_DIMS};
static const AttrId sum_dims[2] = {ATTR_LHS_CONTRACTING_DIMS, ATTR_RHS_CONTRACTING_DIMS};

static int64_t product(const Shape *s, Ints dims)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < dims.count; i++)
        n *= s->dims[dims.data[i]];
    return n;
}

/* The numbers of the contracted pairs in the order in which they lie in operand `side`. */
static void pair_order(const Instruction *dot, uint32_t side, uint32_t *out)
{
    Ints sums = inst_ints(dot, sum_dims[side]);
    for (uint32_t i = 0; i < sums.count; i++) {
        uint32_t at = i;
        for (; at > 0 && sums.data[out[at - 1]] > sums.data[i]; at--)
            out[at] = out[at - 1];
        out[at] = i;
    }
}

/* Operand `side` as batch dimensions, kept ones, contracted ones in the order of `pairs`. */
static void transpose_side(Instruction *dot, uint32_t side, const uint32_t *pairs,
                           Arena *a)
{
    Instruction *x = dot->operands[side];
    Ints batch = inst_ints(dot, batch_dims[side]), sums = inst_ints(dot, sum_dims[side]);
    uint32_t rank = x->shape->rank, n = 0;
    int64_t *order = ARENA_ARRAY(a, int64_t, rank),
            *sizes = ARENA_ARRAY(a, int64_t, rank);
    bool *is_kept = ARENA_ARRAY(a, bool, rank);
    for (uint32_t d = 0; d < rank; d++)
        is_kept[d] = true;
    for (uint32_t i = 0; i < sums.count; i++)
        is_kept[sums.data[i]] = false;
    for (uint32_t i = 0; i < batch.count; i++) {
        is_kept[batch.data[i]] = false;
        order[n++] = batch.data[i];
    }
    for (uint32_t d = 0; d < rank; d++) {
        if (is_kept[d])
            order[n++] = d;
    }
    int64_t *to = ARENA_ARRAY(a, int64_t, rank);
    for (uint32_t i = 0; i < sums.count; i++) {
        to[pairs[i]] = n;
        order[n++] = sums.data[pairs[i]];
    }
    for (uint32_t i = 0; i < rank; i++)
        sizes[i] = x->shape->dims[order[i]];
    const Shape *s =
        shape_array(x->parent->module->intern, x->shape->dtype, rank, sizes, NULL, NULL);
    Instruction *t = computation_add(x->parent, OP_TRANSPOSE, s, 1, &x, NULL);
    t->span = dot->span;
    inst_set_ints(t, ATTR_DIMENSIONS, order, rank);
    dot->operands[side] = t;
    inst_set_ints(dot, sum_dims[side], to, sums.count);
    for (uint32_t i = 0; i < batch.count; i++)
        to[i] = i;
    if (batch.count > 0)
        inst_set_ints(dot, batch_dims[side], to, batch.count);
}

/* Makes operands lie as the library wants them. False: it does not pay, and nothing has changed. */
static bool transpose(Instruction *dot, const PassContext *cx)
{
    const Shape *s[2] = {dot->operands[0]->shape, dot->operands[1]->shape};
    Ints sums = inst_ints(dot, sum_dims[0]);
    int64_t batch = product(s[0], inst_ints(dot, batch_dims[0])), kept[2];
    int64_t k = product(s[0], sums);
    bool fits[2];
    if (batch == 0 || k == 0)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        kept[i] = shape_elements(s[i]) / batch / k;
        fits[i] = matmul_side_fits(dot, i);
    }
    if (fits[0] && fits[1]) /* only the order of what is summed differs */
        fits[kept[0] < kept[1] ? 0 : 1] = false;
    for (uint32_t i = 0; i < 2; i++) {
        if (!fits[i] && kept[!i] < cx->settings->library_dot_transpose)
            return false;
    }
    if (!is_large(batch, kept[0], kept[1], k, cx))
        return false;
    uint32_t *pairs = ARENA_ARRAY(cx->scratch, uint32_t, sums.count + 1u);
    pair_order(dot, fits[1] ? 1 : 0, pairs);
    for (uint32_t i = 0; i < 2; i++) {
        if (!fits[i])
            transpose_side(dot, i, pairs, cx->scratch);
    }
    return true;
}

bool pass_library_dots(Module *m, PassContext *cx)
{
    bool changed = false, moved = false;
    if (cx->settings->cublaslt == 0)
        return false;
    Computations programs = module_programs(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++) {
        const Computation *comp = programs.data[c];
        LibraryChoice choice = library_choice(comp, cx);
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op != OP_DOT || !matmul_types_fit(inst) ||
                !matmul_target_has(inst, cx->target))
                continue;
            MatmulShape s;
            bool fits = matmul_shape(inst, &s);
            if (fits && (!is_worth_it(inst, cx) || !library_is_best(&choice, inst)))
                continue;
            bool is_moved = (!fits || s.is_in_pieces) && transpose(inst, cx);
            if (!fits && !is_moved)
                continue;
            matmul_set_library(inst);
            changed = true;
            moved |= is_moved;
        }
    }
    if (moved)
        module_sort(m);
    return changed;
}
