/* Marks the factorisations that cuSOLVER makes faster than the loops that they are expanded to: calls of linear algebra
 * by name (ir/custom_call/lapack.def), and cholesky.
 *
 *   (lu, pivots, info) = custom-call(a), target cusolver_getrf_ffi
 *   ->  t = transpose(a)
 *       (lu^T, pivots, info) = custom-call(t), the same target, backend_config={"library":"cusolver"}
 *       and the transpose of lu^T
 *
 * Arrays of marked calls are the transposes of the matrices. Where a's own factors say those of its transpose nothing
 * is transposed: a = u^H u is a^T = l l^H with l = u^T. What the library leaves open is made what the evaluator
 * says: the other triangle of a factor is 0, and vectors have the factor of size 1 that expand_jacobi.c gives them.
 *
 * Needs: calls inlined. Keeps: values. Ends: what is marked is not offered again, and no cholesky is made. */
#include <string.h>

#include "ir/attribute/config.h"
#include "ir/kernel/time/solver_time.h"
#include "passes/library/library.h"
#include "passes/settings.h"
#include "passes/simplify/columns.h"
#include "passes/simplify/expand.h"

enum { LEAST_COLUMNS = 32 }; /* of what is worth another library at run time */

/* Whether the library gains with a matrix that is `a`, factored by `how`. */
static bool is_worth_it(const Instruction *a, const LapackCall *how,
                        const PassContext *cx)
{
    SolverCall c = {.how = *how};
    if (!cx->settings->cusolver || !solver_matrices_of(a->shape, false, &c))
        return false;
    int64_t least = c.rows < c.columns ? c.rows : c.columns,
            wanted = cx->settings->library_solver_size;
    if (wanted > 0)
        return least >= wanted;
    const GpuModel *device = cx->target->device;
    return least >= LEAST_COLUMNS &&
           solver_library_seconds(&c, device) < solver_own_seconds(&c, device);
}

/* With last dimensions of other sizes, or exchanged. */
static const Shape *transposed(Rewriter *r, const Shape *s)
{
    return matrix_sized(r, s, s->dims[s->rank - 1], s->dims[s->rank - 2]);
}

static const Shape *by_rows(Rewriter *r, const Shape *s)
{
    return rw_shape(r, s->dtype, s->rank, s->dims);
}

/* The call for the library: `target` of operands and results that are transposes already. */
static Instruction *marked(Rewriter *r, const char *target, const Shape *shape,
                           uint32_t count, Instruction *const *operands)
{
    Instruction *call = rw_add(r, OP_CUSTOM_CALL, shape, count, operands);
    inst_set_bytes(call, ATTR_CUSTOM_CALL_TARGET, target, strlen(target));
    solver_set_library(call);
    return call;
}

static Instruction *tuple_of(Rewriter *r, const Shape *shape, Instruction *const *parts)
{
    Instruction **all = ARENA_ARRAY(r->scratch, Instruction *, shape->rank);
    for (uint32_t i = 0; i < shape->rank; i++)
        all[i] = matrix_given_as(r, shape->elements[i], parts[i]);
    return rw_add(r, OP_TUPLE, shape, shape->rank, all);
}

static const Shape *shapes_of(Rewriter *r, uint32_t count, const Shape *const *shapes)
{
    return shape_tuple(r->m->intern, count, shapes);
}

/* -- cholesky ----------------------------------------------------------------------------------- */

/* x, and 0 in the other triangle. */
static Instruction *one_triangle(Rewriter *r, Instruction *x, bool lower)
{
    Instruction *rows = matrix_numbers(r, x->shape, true),
                *columns = matrix_numbers(r, x->shape, false);
    Instruction *is_inside =
        rw_compare(r, rows, columns, lower ? DIRECTION_GE : DIRECTION_LE);
    return matrix_select(r, is_inside, x, rw_splat(r, x->shape, 0));
}

/* The factor of a, and info. Always by the lower triangle of what the library sees, for which it is more than twice as
 * fast: the upper one of a as it lies. */
static Instruction *factor(Rewriter *r, Instruction *a, bool lower, const Shape *info,
                           Instruction **out_info)
{
    a = matrix_by_rows(r, a);
    a = lower ? matrix_transposed(r, a) : a;
    const Shape *shapes[2] = {a->shape, info};
    Instruction *call = marked(r, "cusolver_potrf_ffi", shapes_of(r, 2, shapes), 1, &a);
    config_set_flag(call, CONFIG_CUSOLVER_LOWER, true);
    *out_info = rw_element(r, call, 1);
    Instruction *made = rw_element(r, call, 0);
    return one_triangle(r, lower ? matrix_transposed(r, made) : made, lower);
}

static Instruction *cholesky(Rewriter *r, Instruction *inst)
{
    const Shape *s = inst->shape;
    Instruction *info;
    if (!is_worth_it(inst, &(LapackCall){.kind = LAPACK_POTRF}, r->cx))
        return NULL;
    const Shape *infos = rw_shape(r, DT_S32, s->rank - 2, s->dims);
    return matrix_given_as(
        r, s, factor(r, inst->operands[0], inst_bool(inst, ATTR_LOWER), infos, &info));
}

static Instruction *solve_potrf(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    Instruction *parts[2];
    parts[0] =
        factor(r, inst->operands[0], how->lower, inst->shape->elements[1], &parts[1]);
    return tuple_of(r, inst->shape, parts);
}

/* -- lu and qr ---------------------------------------------------------------------------------- */

static Instruction *solve_general(Rewriter *r, Instruction *inst, const char *target)
{
    const Shape *s = inst->shape;
    Instruction *operands[2] = {
        matrix_transposed(r, matrix_by_rows(r, inst->operands[0]))};
    for (uint32_t i = 1; i < inst->operand_count; i++)
        operands[i] = inst->operands[i];
    if (shape_is_array(s)) {
        Instruction *q =
            marked(r, target, transposed(r, s), inst->operand_count, operands);
        return matrix_given_as(r, s, matrix_transposed(r, q));
    }
    const Shape *shapes[3] = {transposed(r, s->elements[0])};
    for (uint32_t i = 1; i < s->rank; i++)
        shapes[i] = s->elements[i];
    Instruction *call =
        marked(r, target, shapes_of(r, s->rank, shapes), inst->operand_count, operands);
    Instruction *parts[3] = {matrix_transposed(r, rw_element(r, call, 0))};
    for (uint32_t i = 1; i < s->rank; i++)
        parts[i] = rw_element(r, call, i);
    return tuple_of(r, s, parts);
}

/* -- eigenvalues and singular values ---------------------------------------------------------------- */

/* By which each of the first `count` rows is multiplied; 1 for those behind: [.., rows]. */
static Instruction *factors_of(Rewriter *r, Instruction *x, int64_t count)
{
    const Shape *s = x->shape;
    int64_t rows = s->dims[s->rank - 2], columns = s->dims[s->rank - 1], batch = 1;
    for (uint32_t d = 0; d + 2 < s->rank; d++)
        batch *= s->dims[d];
    x = rw_reshape(r, rw_shape(r, s->dtype, 3, (int64_t[]){batch, rows, columns}), x);
    if (count < rows)
        x = rw_slice(r, rw_shape(r, s->dtype, 3, (int64_t[]){batch, count, columns}), x,
                     (SliceDim[]){{0, batch, 1}, {0, count, 1}, {0, columns, 1}});
    Instruction *by = expand_phases(r, x);
    if (count < rows)
        by = rw_fill_up(r, by, rw_splat(r, shape_scalar(r->m->intern, s->dtype), 1), 1,
                        rows - count);
    return rw_reshape(r, rw_shape(r, s->dtype, s->rank - 1, s->dims), by);
}

/* Rows of x multiplied by the first factors. */
static Instruction *scaled(Rewriter *r, Instruction *x, Instruction *by)
{
    const Shape *s = x->shape;
    uint32_t rank = s->rank - 1;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, rank);
    SliceDim *cut = ARENA_ARRAY(r->scratch, SliceDim, rank);
    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = d;
        cut[d] = (SliceDim){0, s->dims[d], 1};
    }
    if (by->shape->dims[rank - 1] != s->dims[rank - 1])
        by = rw_slice(r, rw_shape(r, s->dtype, rank, s->dims), by, cut);
    return rw_binary(r, OP_MULTIPLY, s, x, rw_broadcast(r, s, by, rank, dims));
}

/* a's transpose is its conjugate, and has the conjugates of its vectors: rows of what the call gives. */
static Instruction *solve_syevd(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    Instruction *a = matrix_by_rows(r, inst->operands[0]);
    const Shape *const *s = inst->shape->elements;
    const Shape *shapes[3] = {a->shape, s[1], s[2]};
    Instruction *call = marked(r, "cusolver_syevd_ffi", shapes_of(r, 3, shapes), 1, &a);
    config_set_flag(call, CONFIG_CUSOLVER_LOWER, !how->lower);
    Instruction *v = matrix_conjugate(r, rw_element(r, call, 0));
    v = scaled(r, v, factors_of(r, v, v->shape->dims[v->shape->rank - 2]));
    Instruction *parts[3] = {matrix_transposed(r, v), rw_element(r, call, 1),
                             rw_element(r, call, 2)};
    return tuple_of(r, inst->shape, parts);
}

/* A singular value decomposition whose matrix m has as many rows as columns at least. */
typedef struct Decomposition {
    Instruction *s, *info;
    Instruction *u, *v; /* by rows: u^T and v^T; NULL: not wanted */
} Decomposition;

static Decomposition decompose(Rewriter *r, Instruction *m_transposed,
                               const Shape *values, const Shape *info, int64_t wide,
                               bool has_vectors)
{
    const Shape *s = m_transposed->shape;
    int64_t n = s->dims[s->rank - 2], m = s->dims[s->rank - 1];
    const Shape *shapes[5] = {s, values, matrix_sized(r, s, wide, m),
                              matrix_sized(r, s, n, n), info};
    Instruction *call =
        marked(r, "cusolver_gesvd_ffi", shapes_of(r, 5, shapes), 1, &m_transposed);
    config_set_flag(call, CONFIG_CUSOLVER_UV, has_vectors);
    Decomposition d = {.s = rw_element(r, call, 1), .info = rw_element(r, call, 4)};
    if (has_vectors) {
        Instruction *u = rw_element(r, call, 2);
        Instruction *by = factors_of(r, u, n);
        d.u = scaled(r, u, by);
        /* v^H's transpose is v's conjugate, whose columns are v's */
        Instruction *v =
            matrix_transposed(r, matrix_conjugate(r, rw_element(r, call, 3)));
        d.v = scaled(r, v, by);
    }
    return d;
}

/* a of more columns than rows is decomposed as its transpose: a^T = conj(v) s u^T. */
static Instruction *solve_gesvd(Rewriter *r, Instruction *inst, const LapackCall *how)
{
    const Shape *const *s = inst->shape->elements;
    Instruction *a = matrix_by_rows(r, inst->operands[0]);
    bool v_first = how->kind == LAPACK_GESVD_T, wants_v = how->kind == LAPACK_GESVDJ;
    const Shape *of_u = s[v_first ? 3 : 2], *of_v = s[v_first ? 2 : 3];
    int64_t rows = a->shape->dims[a->shape->rank - 2],
            columns = a->shape->dims[a->shape->rank - 1];
    bool is_wide = rows < columns;
    int64_t wide = of_u->dims[of_u->rank - 1];
    if (is_wide)
        wide = of_v->dims[of_v->rank - (wants_v ? 1 : 2)];
    Decomposition d = decompose(r, is_wide ? a : matrix_transposed(r, a), s[1], s[4],
                                wide, how->has_vectors);
    Instruction *u = rw_splat(r, by_rows(r, of_u), 0),
                *v = rw_splat(r, by_rows(r, of_v), 0);
    if (how->has_vectors) {
        /* u^T and v^T of a's transpose are conj(v)^T = v^H and u^H's conjugate, u^T */
        Instruction *u_rows = is_wide ? matrix_conjugate(r, d.v) : d.u,
                    *v_rows = is_wide ? matrix_conjugate(r, d.u) : d.v;
        u = matrix_transposed(r, u_rows);
        v = wants_v ? matrix_transposed(r, v_rows) : matrix_conjugate(r, v_rows);
    }
    Instruction *parts[5] = {a, d.s, v_first ? v : u, v_first ? u : v, d.info};
    return tuple_of(r, inst->shape, parts);
}

/* -- the rule ----------------------------------------------------------------------------------- */

static Instruction *lapack(Rewriter *r, Instruction *inst)
{
    LapackCall how;
    if (solver_is_library(inst) || !custom_call_lapack(inst, &how) ||
        !is_worth_it(inst->operands[0], &how, r->cx))
        return NULL;
    switch (how.kind) {
    case LAPACK_POTRF:
        return solve_potrf(r, inst, &how);
    case LAPACK_GETRF:
        return solve_general(r, inst, "cusolver_getrf_ffi");
    case LAPACK_GEQRF:
        return solve_general(r, inst, "cusolver_geqrf_ffi");
    case LAPACK_ORGQR: {
        const Shape *factors = inst->operands[1]->shape;
        return factors->dims[factors->rank - 1] > 0
                   ? solve_general(r, inst, "cusolver_orgqr_ffi")
                   : NULL;
    }
    case LAPACK_SYEVD:
        return solve_syevd(r, inst, &how);
    case LAPACK_GESDD:
    case LAPACK_GESVD:
    case LAPACK_GESVD_T:
    case LAPACK_GESVDJ:
        return solve_gesvd(r, inst, &how);
    default:
        return NULL;
    }
}

static const Rule rules[] = {
    {OP_CUSTOM_CALL, "solver", lapack},
    {OP_CHOLESKY, "solver_cholesky", cholesky},
    {0},
};

bool pass_library_solvers(Module *m, PassContext *cx)
{
    static const Rule *const tables[] = {rules};
    bool changed = rewrite_all(m, cx, tables, sizeof tables / sizeof *tables);
    if (changed)
        module_sort(m);
    return changed;
}
