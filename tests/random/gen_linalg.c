/* Random linear algebra and Fourier transforms. */
#include <string.h>

#include "tests/random/value.h"

static bool is_empty(const Value *a)
{
    return elements_of(a) == 0;
}

/* Of the innermost dimensions, of complex numbers or between them and real ones. */
void gen_fft(Gen *g)
{
    static const char *const names[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
    int kind = (int)below(g, 4);
    DType part = chance(g, 70) ? DT_F32 : DT_F64;
    DType whole = part == DT_F32 ? DT_C64 : DT_C128;
    Value *a = pick_type(g, kind == 2 ? part : whole);
    int n = 1 + (int)below(g, a->rank < 3 ? a->rank : 3);
    if (a->rank < 1 || a->special || !may_round(a) || is_empty(a))
        return;
    int64_t dims[MAX_RANK], *lengths = dims + a->rank - n, all = 1;
    char text[128];
    memcpy(dims, a->dims, sizeof dims);
    if (kind == 3) /* of either parity */
        dims[a->rank - 1] =
            2 * (dims[a->rank - 1] - 1) + (dims[a->rank - 1] == 1 || chance(g, 50));
    for (int i = 0; i < n; i++) {
        if (lengths[i] > 512) /* of a large prime it is a matrix */
            return;
        all *= lengths[i];
    }
    list(lengths, n, text);
    if (kind == 2)
        dims[a->rank - 1] = dims[a->rank - 1] / 2 + 1;
    Value *v = emit(g, kind == 3 ? part : whole, a->rank, dims,
                    "fft(%s), fft_type=%s, fft_length={%s}", a->name, names[kind], text);
    v->high = a->high + log2_up(all) + 1;
    v->grain = -2000;
    settle(v, a->depth);
    v->depth = MAX_DEPTH;
}

/* A batch of matrices that are sure to be positive definite: n I + a a^T. */
static Value *definite(Gen *g, Value *a, int rank, const int64_t *dims)
{
    DType t = a->type;
    int64_t n = dims[rank - 1];
    int64_t batch[MAX_RANK] = {0, 1, 2, 3};
    char text[128];
    list(batch, rank - 2, text);
    Value *square =
        emit(g, t, rank, dims,
             "dot(%s, %s), lhs_contracting_dims={%d}, rhs_contracting_dims={%d}, "
             "lhs_batch_dims={%s}, rhs_batch_dims={%s}",
             a->name, a->name, rank - 1, rank - 1, text, text);
    Value *row = emit(g, DT_S32, rank, dims, "iota(), iota_dimension=%d", rank - 2);
    Value *column = emit(g, DT_S32, rank, dims, "iota(), iota_dimension=%d", rank - 1);
    Value *diagonal = emit(g, DT_PRED, rank, dims, "compare(%s, %s), direction=EQ",
                           row->name, column->name);
    Value *size = is_complex(t) ? emit(g, t, 0, NULL, "constant((%lld, 0))", (long long)n)
                                : constant_scalar(g, t, (double)n);
    Value *all = emit(g, t, rank, dims, "broadcast(%s), dimensions={}", size->name);
    Value *more = emit(g, t, rank, dims, "add(%s, %s)", square->name, all->name);
    Value *matrix = emit(g, t, rank, dims, "select(%s, %s, %s)", diagonal->name,
                         more->name, square->name);
    square->high = more->high = matrix->high = all->high = 9;
    square->grain = more->grain = matrix->grain = -4;
    return matrix;
}

static void solve(Gen *g, Value *factor, bool lower)
{
    static const char *const forms[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
    bool left = chance(g, 50), unit = chance(g, 30);
    Value like = *factor;
    like.dims[left ? like.rank - 1 : like.rank - 2] = 1 + below(g, 5);
    Value *b = same_shape(g, &like, factor->type);
    if (b->special || b->depth > 0)
        return;
    Value *x =
        emit(g, b->type, b->rank, b->dims,
             "triangular-solve(%s, %s), left_side=%s, lower=%s, unit_diagonal=%s, "
             "transpose_a=%s",
             factor->name, b->name, left ? "true" : "false", lower ? "true" : "false",
             unit ? "true" : "false", forms[below(g, 3)]);
    x->depth = MAX_DEPTH;
    x->high = 60;
}

/* The same, of any type and sizes; NULL: there is no room. */
static Value *any_definite(Gen *g)
{
    static const DType types[] = {DT_F32, DT_F32, DT_F64, DT_C64, DT_C128};
    int rank = chance(g, 70) ? 2 : 3;
    int64_t n = 1 + below(g, 7);
    int64_t dims[3] = {1 + below(g, 3), n, n};
    const int64_t *own = rank == 2 ? dims + 1 : dims;
    Value *a = fresh(g, types[below(g, 5)], rank, own);
    if (a->special || (is_complex(a->type) && n > 4))
        return NULL;
    if (!is_complex(a->type))
        return definite(g, a, rank, own);
    /* a real one, of complex numbers */
    DType part = number_component(a->type);
    Value *real = emit(g, part, rank, own, "real(%s)", a->name);
    Value *square = definite(g, real, rank, own);
    Value *matrix = emit(g, a->type, rank, own, "convert(%s)", square->name);
    matrix->high = 9;
    return matrix;
}

/* What the other triangle holds is not said: it is taken away. */
void gen_cholesky(Gen *g)
{
    Value *matrix = any_definite(g);
    if (matrix == NULL)
        return;
    bool lower = chance(g, 60);
    Value *factor =
        emit(g, matrix->type, matrix->rank, matrix->dims, "cholesky(%s), lower=%s",
             matrix->name, lower ? "true" : "false");
    factor->depth = MAX_DEPTH;
    factor->high = 60;
    if (chance(g, 60))
        solve(g, factor, lower);
}

/* Eigenvalues or singular values, by JAX's calls; vectors of equal ones are not said. */
void gen_spectrum(Gen *g)
{
    Value *a = any_definite(g);
    if (a == NULL)
        return;
    bool is_eigen = chance(g, 50);
    const char *minor = a->rank == 2 ? "{0,1}" : "{1,2,0}";
    Value values = *a, info = *a;
    values.type = is_complex(a->type) ? number_component(a->type) : a->type;
    values.rank = a->rank - 1;
    info.type = DT_S32;
    info.rank = a->rank - 2;
    char of_a[128], of_values[128], of_info[128];
    shape_of(a, of_a);
    shape_of(&values, of_values);
    shape_of(&info, of_info);
    int id = g->shared->next_id++;
    if (is_eigen)
        say(g,
            "  t%d = (%s%s, %s, %s) custom-call(%s), "
            "custom_call_target=\"cusolver_syevd_ffi\", "
            "operand_layout_constraints={%s%s}, "
            "api_version=API_VERSION_TYPED_FFI, backend_config={lower = %s}\n",
            id, of_a, minor, of_values, of_info, a->name, of_a, minor,
            chance(g, 50) ? "true" : "false");
    else
        say(g,
            "  t%d = (%s%s, %s, %s%s, %s%s, %s) custom-call(%s), "
            "custom_call_target=\"cusolver_gesvdj_ffi\", "
            "operand_layout_constraints={%s%s}, api_version=API_VERSION_TYPED_FFI, "
            "backend_config={compute_uv = %s}\n",
            id, of_a, minor, of_values, of_a, minor, of_a, minor, of_info, a->name, of_a,
            minor, chance(g, 50) ? "true" : "false");
    Value *v = emit(g, values.type, values.rank, values.dims,
                    "get-tuple-element(t%d), index=1", id);
    v->depth = MAX_DEPTH;
    v->high = 60;
}
