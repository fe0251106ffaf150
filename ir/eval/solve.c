/* Calls of linear algebra that are neither factorisations nor LAPACK's: tridiagonal and sparse systems, products of a
 * matrix by its transpose, permutations, and JAX's random bits. */
#include <math.h>
#include <string.h>

#include "ir/eval/linalg.h"
#include "ir/eval/random.h"

/* -- systems ---------------------------------------------------------------------------------- */

/* x of a x = b by lu with pivots, both in place; the first pivot that is 0, counted from 1, or 0. */
static int32_t solve_general(const Matrix *a, const Matrix *b)
{
    int64_t n = a->rows;
    int32_t info = 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t p = k;
        for (int64_t i = k + 1; i < n; i++) {
            if (linalg_square(*matrix_at(a, i, k)) > linalg_square(*matrix_at(a, p, k)))
                p = i;
        }
        for (int64_t j = 0; j < n + b->columns; j++) {
            const Matrix *m = j < n ? a : b;
            Complex *x = matrix_at(m, k, j < n ? j : j - n),
                    *y = matrix_at(m, p, j < n ? j : j - n), old = *x;
            *x = *y;
            *y = old;
        }
        Complex d = *matrix_at(a, k, k);
        if (d.re == 0 && d.im == 0 && info == 0)
            info = (int32_t)k + 1;
        for (int64_t i = k + 1; i < n; i++) {
            Complex l = linalg_divide(*matrix_at(a, i, k), d);
            for (int64_t j = k; j < n; j++)
                *matrix_at(a, i, j) =
                    linalg_sub_product(*matrix_at(a, i, j), l, *matrix_at(a, k, j));
            for (int64_t j = 0; j < b->columns; j++)
                *matrix_at(b, i, j) =
                    linalg_sub_product(*matrix_at(b, i, j), l, *matrix_at(b, k, j));
        }
    }
    for (int64_t k = n; k-- > 0;) {
        for (int64_t j = 0; j < b->columns; j++) {
            Complex x = *matrix_at(b, k, j);
            for (int64_t i = k + 1; i < n; i++)
                x = linalg_sub_product(x, *matrix_at(a, k, i), *matrix_at(b, i, j));
            *matrix_at(b, k, j) = linalg_divide(x, *matrix_at(a, k, k));
        }
    }
    return info;
}

/* Rows of a tridiagonal system as elimination goes: element i of each row is the one in column k + i. */
typedef struct Band {
    Complex *at[3]; /* the diagonal, the one above it, the one above that */
    Complex *below;
} Band;

/* Row k + 1 without its element in column k; rows are swapped for the larger pivot. */
static void eliminate(const Band *t, const Matrix *b, int64_t k)
{
    Complex low[3] = {t->below[k + 1], t->at[0][k + 1], t->at[1][k + 1]};
    bool changes = linalg_square(low[0]) > linalg_square(t->at[0][k]);
    for (int i = 0; i < 3 && changes; i++) {
        Complex old = t->at[i][k];
        t->at[i][k] = low[i];
        low[i] = old;
    }
    for (int64_t j = 0; j < b->columns && changes; j++) {
        Complex old = *matrix_at(b, k, j);
        *matrix_at(b, k, j) = *matrix_at(b, k + 1, j);
        *matrix_at(b, k + 1, j) = old;
    }
    Complex l = linalg_divide(low[0], t->at[0][k]);
    t->at[0][k + 1] = linalg_sub_product(low[1], l, t->at[1][k]);
    t->at[1][k + 1] = linalg_sub_product(low[2], l, t->at[2][k]);
    for (int64_t j = 0; j < b->columns; j++)
        *matrix_at(b, k + 1, j) =
            linalg_sub_product(*matrix_at(b, k + 1, j), l, *matrix_at(b, k, j));
}

static int32_t solve_tridiagonal(const Band *t, const Matrix *b)
{
    int64_t n = b->rows;
    int32_t info = 0;
    for (int64_t k = 0; k + 1 < n; k++)
        eliminate(t, b, k);
    for (int64_t k = n; k-- > 0;) {
        if (linalg_square(t->at[0][k]) == 0)
            info = (int32_t)k + 1;
        for (int64_t j = 0; j < b->columns; j++) {
            Complex x = *matrix_at(b, k, j);
            for (int64_t i = 1; i < 3 && k + i < n; i++)
                x = linalg_sub_product(x, t->at[i][k], *matrix_at(b, k + i, j));
            *matrix_at(b, k, j) = linalg_divide(x, t->at[0][k]);
        }
    }
    return info;
}

/* Operands are what is below the diagonal, with its first element unused, the diagonal, what is above, b. */
void eval_gtsv(EvalCall *call, const LapackCall *how)
{
    Value *out = eval_result(call);
    const Value *y = call->operands[3];
    int64_t count;
    Complex *below = linalg_read(call, call->operands[0]),
            *d = linalg_read(call, call->operands[1]),
            *above = linalg_read(call, call->operands[2]), *all = linalg_read(call, y);
    Matrix b = matrix_of(y, all, &count);
    int64_t n = b.rows;
    bool has_info = how->kind == LAPACK_GTSV;
    for (int i = 0; i < 3 && has_info; i++)
        memcpy(out->elements[i]->data, call->operands[i]->data,
               (size_t)out->elements[i]->count * value_element_bytes(out->elements[i]));
    for (int64_t k = 0; k < count; k++) {
        Matrix last = matrix_create(call, 1, n), one = matrix_next(b, k);
        if (n > 0)
            above[k * n + n - 1] = (Complex){0, 0};
        Band t = {{d + k * n, above + k * n, last.a}, below + k * n};
        int32_t info = solve_tridiagonal(&t, &one);
        if (has_info)
            ((int32_t *)out->elements[4]->data)[k] = info;
    }
    linalg_store(all, has_info ? out->elements[3] : out);
}

/* Elements of one position are added. Where the rows begin must rise; columns outside are nowhere. */
void eval_csrlsvqr(EvalCall *call, const LapackCall *how)
{
    (void)how;
    const Complex *x = linalg_read(call, call->operands[0]);
    const int32_t *columns = call->operands[1]->data, *begins = call->operands[2]->data;
    Complex *y = linalg_read(call, call->operands[3]);
    int64_t n = call->operands[3]->count, count = call->operands[0]->count;
    Matrix a = matrix_create(call, n, n), b = {.a = y, .rows = n, .columns = 1};
    for (int64_t k = 0, row = -1; k < count; k++) {
        while (row + 1 < n && begins[row + 1] <= k)
            row++;
        if (row < 0 || k >= begins[n] || columns[k] < 0 || columns[k] >= n)
            continue;
        Complex *at = matrix_at(&a, row, columns[k]);
        *at = (Complex){at->re + x[k].re, at->im + x[k].im};
    }
    solve_general(&a, &b);
    linalg_store(y, eval_result(call));
}

/* -- others ----------------------------------------------------------------------------------- */

void eval_syrk(EvalCall *call, const LapackCall *how)
{
    (void)how;
    int64_t count;
    const Complex *alpha = linalg_read(call, call->operands[2]),
                  *beta = linalg_read(call, call->operands[3]);
    Complex *of_a = linalg_read(call, call->operands[0]),
            *of_c = linalg_read(call, call->operands[1]);
    Matrix a = matrix_of(call->operands[0], of_a, &count),
           c = matrix_of(call->operands[1], of_c, &count);
    for (int64_t k = 0; k < count; k++) {
        Matrix from = matrix_next(a, k), to = matrix_next(c, k);
        for (int64_t i = 0; i < to.rows; i++) {
            for (int64_t j = 0; j < to.rows; j++) {
                Complex sum = linalg_product(*beta, *matrix_at(&to, i, j));
                for (int64_t p = 0; p < from.columns; p++) {
                    Complex by = linalg_product(*alpha, *matrix_at(&from, i, p));
                    by = (Complex){-by.re, -by.im};
                    sum = linalg_sub_product(sum, by, *matrix_at(&from, j, p));
                }
                *matrix_at(&to, i, j) = sum;
            }
        }
    }
    linalg_store(of_c, eval_result(call));
}

/* Exchanges beyond the end are none. */
void eval_pivots(EvalCall *call, const LapackCall *how)
{
    (void)how;
    const Value *x = call->operands[0];
    Value *out = eval_result(call);
    int64_t steps = x->shape->dims[x->shape->rank - 1],
            n = out->shape->dims[out->shape->rank - 1];
    const int32_t *pivots = x->data;
    int32_t *order = out->data;
    for (int64_t b = 0; n > 0 && b < out->count / n; b++) {
        for (int64_t i = 0; i < n; i++)
            order[b * n + i] = (int32_t)i;
        for (int64_t i = 0; i < steps; i++) {
            int64_t p = pivots[b * steps + i];
            if (p < 0 || p >= n)
                continue;
            int32_t old = order[b * n + i];
            order[b * n + i] = order[b * n + p];
            order[b * n + p] = old;
        }
    }
}

void eval_threefry(EvalCall *call, const LapackCall *how)
{
    (void)how;
    const uint32_t *in[4];
    for (int k = 0; k < 4; k++)
        in[k] = call->operands[k]->data;
    Value *out = eval_result(call);
    for (int64_t i = 0; i < out->elements[0]->count; i++) {
        uint32_t words[2];
        random_threefry(in[0][i] | (uint64_t)in[1][i] << 32,
                        in[2][i] | (uint64_t)in[3][i] << 32, words);
        for (int k = 0; k < 2; k++)
            ((uint32_t *)out->elements[k]->data)[i] = words[k];
    }
}
