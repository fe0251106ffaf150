/* A dot of f8 that blocks along the sums were scaled before becomes cuBLASLt's, which multiplies each block's sum: on
 * Hopper, with one scale for 128 values of a row, or for 128 rows of so many. Which of the two: by what the index of a
 * scale is made of, whatever reshapes and broadcasts repeat it.
 *
 *   x = f32[64,512] multiply(convert(f8e4m3fn[64,512] a), reshape(f32[64,4,128] broadcast(s)))
 *   d = f32[64,256] dot(x, ...), y = bf16[64,256] convert(d)
 *   ->  t = f32[4,64] transpose(s)
 *       fused { ... ROOT convert(scaled-dot(p0, p1, transpose(p2), slice(p3))) }
 *       y = bf16[64,256] fusion(a, b, t, pad(r)), kind=kCustom, calls=fused, backend_config={"library":"cublaslt"}
 *
 * Programs' own scaled-dots are taken, too. See dequantised_dots.c. */
#include "passes/library/block_scales.h"

#include "ir/kernel/element_map.h"
#include "ir/kernel/matmul.h"
#include "ir/kernel/time/kernel_time.h"
#include "passes/fusion/fusion.h"
#include "passes/library/scaled.h"
#include "passes/settings.h"

enum { MOST_STEPS = 16 };

static bool is_f8(const Instruction *x)
{
    return dtype_is_ofp8(x->shape->dtype);
}

static bool is_wide(const Instruction *x)
{
    return x->shape->dtype == DT_F32 || dtype_is_half(x->shape->dtype);
}

/* What bf16 rounds is still there, what f16 makes infinite or 0 is not. */
static bool overflows(DType to, const Instruction *of)
{
    return to == DT_F16 && of->shape->dtype != DT_F16;
}

/* The same values in the same order, but for roundings to 16 bits. */
static bool is_renamed(const Instruction *x)
{
    if (!is_wide(x) || x->operand_count != 1 || !shape_is_row_major(x->shape))
        return false;
    const Instruction *of = x->operands[0];
    if (x->op == OP_CONVERT)
        return (is_f8(of) || (is_wide(of) && !overflows(x->shape->dtype, of))) &&
               shape_is_row_major(of->shape);
    return (x->op == OP_RESHAPE || x->op == OP_BITCAST) &&
           x->shape->dtype == of->shape->dtype && shape_is_row_major(of->shape);
}

static bool is_row_major_broadcast(const Instruction *x)
{
    return x->op == OP_BROADCAST && shape_is_row_major(x->shape) &&
           shape_is_row_major(x->operands[0]->shape);
}

/* What x repeats, and where in x's index space its elements belong; NULL: it is nothing that has scales. */
static Instruction *find_source(Instruction *x, ElementMap *map)
{
    Mapped m;
    if (!mapped_start(x, &m))
        return NULL;
    for (uint32_t i = 0; i < MOST_STEPS; i++) {
        if ((!is_renamed(x) && !is_row_major_broadcast(x)) || !mapped_operand(&m, 0, &m))
            break;
        x = x->operands[0];
    }
    *map = m.map;
    return dtype_is_float(x->shape->dtype) && shape_is_row_major(x->shape) ? x : NULL;
}

/* A factor of the dot, [rows][k]: f8, and one scale for each block. */
typedef struct Factor {
    Instruction *x, *scale;
    int64_t rows, k;
    MatmulScaling scaling;
    bool is_turned; /* scales of pieces lie [k / block][rows] already */
} Factor;

/* Element (i, j) of the source, seen as an array of these sizes, belongs from i * s0 + j * s1 on. */
static bool lies(const ElementMap *map, int64_t size0, int64_t size1, int64_t s0,
                 int64_t s1)
{
    ElementMap seen, wanted = {.rank = 2};
    if (size0 != 1)
        wanted.pieces[wanted.count++] = (ViewPiece){0, size0, s0};
    if (size1 != 1)
        wanted.pieces[wanted.count++] = (ViewPiece){1, size1, s1};
    return element_map_regroup(map, 2, (int64_t[2]){size0, size1}, &seen) &&
           element_map_equal(&seen, &wanted);
}

static bool find_scaling(const ElementMap *map, Factor *f)
{
    int64_t rows = f->rows, k = f->k, blocks = k / MATMUL_BLOCK;
    if (k % MATMUL_BLOCK != 0 || blocks < 2)
        return false;
    f->scaling = MATMUL_PIECES;
    f->is_turned = lies(map, blocks, rows, MATMUL_BLOCK, k);
    if (f->is_turned || lies(map, rows, blocks, k, MATMUL_BLOCK))
        return true;
    f->scaling = MATMUL_SQUARES;
    return rows % MATMUL_BLOCK == 0 &&
           lies(map, rows / MATMUL_BLOCK, blocks, MATMUL_BLOCK * k, MATMUL_BLOCK);
}

/* Where values come from that only change their type and shape. */
static Instruction *origin(Instruction *x)
{
    for (uint32_t i = 0; i < MOST_STEPS; i++) {
        bool is_moved = is_f8(x) && (x->op == OP_RESHAPE || x->op == OP_BITCAST) &&
                        is_f8(x->operands[0]) && shape_is_row_major(x->shape) &&
                        x->operands[0]->shape->dtype == x->shape->dtype &&
                        shape_is_row_major(x->operands[0]->shape);
        if (!is_renamed(x) && !is_moved)
            break;
        x = x->operands[0];
    }
    return x;
}

static bool describe_dequantised(Instruction *operand, Factor *f)
{
    Instruction *product = origin(operand);
    if (product->op != OP_MULTIPLY || product->shape->dtype == DT_F16 ||
        !shape_is_row_major(product->shape))
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        Instruction *x = origin(product->operands[i]);
        ElementMap map;
        if (!is_f8(x) || !shape_is_row_major(x->shape))
            continue;
        f->scale = find_source(product->operands[!i], &map);
        if (f->scale != NULL && find_scaling(&map, f)) {
            f->x = x;
            return true;
        }
    }
    return false;
}

/* A factor of a program's scaled-dot. */
static bool describe_scaled(const Instruction *dot, uint32_t i, Factor *f)
{
    const Shape *s = dot->operands[2 + i]->shape, *x = dot->operands[i]->shape;
    f->x = dot->operands[i];
    f->scale = dot->operands[2 + i];
    if (!is_f8(f->x) || x->rank != 2 || f->k < 2 * MATMUL_BLOCK || s->rank != 2 ||
        s->dtype != DT_F32 || s->dims[1] * MATMUL_BLOCK != f->k || !shape_is_row_major(s))
        return false;
    f->scaling = s->dims[0] == f->rows ? MATMUL_PIECES : MATMUL_SQUARES;
    return f->scaling == MATMUL_PIECES || s->dims[0] * MATMUL_BLOCK == f->rows;
}

/* Also where f32-products has left f32 to TF32: values of f8 lose nothing that they would keep there. */
static bool is_left_open(const Instruction *dot)
{
    int64_t algorithm = inst_int(dot, ATTR_ALGORITHM, ALGORITHM_UNSET);
    return inst_has_default_precision(dot) &&
           (algorithm == ALGORITHM_UNSET || algorithm == ALGORITHM_TF32_TF32_F32);
}

/* Both factors of one product, rows with rows. */
static bool describe(Instruction *dot, Factor factors[2])
{
    MatmulShape s;
    if (dot->control_count != 0 || !is_left_open(dot) || !matmul_shape(dot, &s) ||
        s.batch != 1 || s.lhs.k_first || s.rhs.k_first || s.lhs.ld != s.k ||
        s.rhs.ld != s.k ||
        (dot->shape->dtype != DT_F32 && !dtype_is_half(dot->shape->dtype)))
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        factors[i] = (Factor){.rows = i == 0 ? s.m : s.n, .k = s.k};
        if (factors[i].rows == 0 || factors[i].rows % 16 != 0 ||
            !(dot->op == OP_SCALED_DOT
                  ? describe_scaled(dot, i, &factors[i])
                  : describe_dequantised(dot->operands[i], &factors[i])))
            return false;
    }
    return factors[0].scaling == MATMUL_PIECES || factors[1].scaling == MATMUL_PIECES;
}

static Instruction *shaped(Rewriter *r, Instruction *x, int64_t rows, int64_t columns)
{
    int64_t sizes[2] = {rows, columns};
    return rw_reshape(r, rw_shape(r, x->shape->dtype, 2, sizes), x);
}

static Instruction *turned(Rewriter *r, Instruction *x)
{
    static const int64_t order[2] = {1, 0};
    return rw_in_order(r, x, order);
}

/* The scales as the library wants them, *stored, and as a scaled-dot has them, *read. */
static void make_scales(Rewriter *r, const Factor *f, Instruction **stored,
                        Instruction **read)
{
    int64_t blocks = f->k / MATMUL_BLOCK, rows = f->rows;
    Instruction *x = rw_in_type(r, f->scale, DT_F32);
    if (f->scaling == MATMUL_PIECES) {
        *stored = f->is_turned ? shaped(r, x, blocks, rows)
                               : turned(r, shaped(r, x, rows, blocks));
        *read = turned(r, *stored);
        return;
    }
    int64_t sizes[2] = {rows / MATMUL_BLOCK, matmul_padded_blocks(blocks)};
    x = shaped(r, x, sizes[0], blocks);
    *stored = scaled_resize(r, x, sizes);
    sizes[1] = blocks;
    *read = scaled_resize(r, *stored, sizes);
}

/* Its fusion holds it and what brings scales into order. */
static Instruction *wrapped(Rewriter *r, Instruction *root, Instruction *dot,
                            Instruction *const stored[2])
{
    uint32_t spare = 0;
    matmul_set_library(dot);
    Instruction *fusion = fusion_wrap(root);
    if (root != dot)
        fusion_merge(fusion, dot, true, &spare, r->scratch);
    for (uint32_t i = 0; i < 2; i++) {
        if (dot->operands[2 + i] != stored[i])
            fusion_merge(fusion, dot->operands[2 + i], true, &spare, r->scratch);
    }
    inst_set_int(fusion, ATTR_KIND, FUSION_CUSTOM);
    matmul_set_library(fusion);
    return fusion;
}

static Instruction *make(Rewriter *r, const Factor factors[2], const Shape *result)
{
    static const int64_t last = 1;
    int64_t sizes[2] = {factors[0].rows, factors[1].rows};
    Instruction *operands[4], *stored[2];
    for (uint32_t i = 0; i < 2; i++) {
        operands[i] = shaped(r, factors[i].x, factors[i].rows, factors[i].k);
        make_scales(r, &factors[i], &stored[i], &operands[2 + i]);
    }
    Instruction *dot =
        rw_add(r, OP_SCALED_DOT, rw_shape(r, DT_F32, 2, sizes), 4, operands);
    inst_set_ints(dot, ATTR_LHS_CONTRACTING_DIMS, &last, 1);
    inst_set_ints(dot, ATTR_RHS_CONTRACTING_DIMS, &last, 1);
    Instruction *root = dot;
    if (result->dtype != DT_F32)
        root = rw_convert(r, rw_shape(r, result->dtype, 2, sizes), dot);
    return rw_reshape(r, result, wrapped(r, root, dot, stored));
}

/* Seconds of the same product without scales, which stand for those with them: nothing public tells the two apart. */
static double library_seconds(const LibraryChoice *choice, const Instruction *dot,
                              const Factor factors[2])
{
    Computation *comp = dot->parent;
    int64_t a[2] = {factors[0].rows, factors[0].k},
            b[2] = {factors[1].rows, factors[1].k}, d[2] = {a[0], b[0]}, last = 1;
    Intern *names = comp->module->intern;
    Instruction *pair[2];
    for (uint32_t i = 0; i < 2; i++) {
        const Shape *s =
            shape_array(names, factors[i].x->shape->dtype, 2, i == 0 ? a : b, NULL, NULL);
        pair[i] = computation_add(comp, OP_BITCAST, s, 1, &factors[i].x, NULL);
    }
    Instruction *plain = computation_add(
        comp, OP_DOT, shape_array(names, DT_F32, 2, d, NULL, NULL), 2, pair, NULL);
    inst_set_ints(plain, ATTR_LHS_CONTRACTING_DIMS, &last, 1);
    inst_set_ints(plain, ATTR_RHS_CONTRACTING_DIMS, &last, 1);
    MatmulShape s;
    KernelTime t;
    bool fits = matmul_types_fit(plain) && matmul_shape(plain, &s) &&
                library_product_time(plain, choice->cx->target->device, &t);
    computation_remove(comp, plain);
    computation_remove(comp, pair[0]);
    computation_remove(comp, pair[1]);
    return fits ? t.seconds : -1;
}

static bool is_best(const LibraryChoice *choice, const Instruction *dot,
                    const Factor factors[2])
{
    double work =
        (double)factors[0].rows * (double)factors[1].rows * (double)factors[0].k;
    if (work < (double)choice->cx->settings->library_dot_work)
        return false;
    double seconds = library_seconds(choice, dot, factors);
    if (seconds < 0)
        return false;
    Candidates all;
    candidates_find(dot, &choice->uses, choice->cx->target, choice->cx->products, &all);
    return all.count == 0 || seconds <= all.list[0].seconds;
}

Instruction *block_scaled_product(const LibraryChoice *choice, PassContext *cx,
                                  Instruction *dot, Instruction **replaced)
{
    Factor factors[2];
    if (!describe(dot, factors) || !is_best(choice, dot, factors))
        return NULL;
    Instruction *reader = uses_only(&choice->uses.uses, dot);
    bool is_rounded = reader != NULL && dot->parent->root != dot &&
                      reader->op == OP_CONVERT && reader->control_count == 0 &&
                      dot->shape->dtype == DT_F32 && dtype_is_half(reader->shape->dtype);
    *replaced = is_rounded ? reader : dot;
    Rewriter r = {.m = dot->parent->module,
                  .comp = dot->parent,
                  .scratch = cx->scratch,
                  .cx = cx,
                  .at = dot};
    return make(&r, factors, (*replaced)->shape);
}
