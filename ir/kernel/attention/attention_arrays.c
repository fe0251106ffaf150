/* Which digits of the scores are batch, heads, rows and columns, and the arrays by these. See attention.h. */
#include "ir/kernel/attention/attention.h"

#include <stdlib.h>

/* One digit of the index space and its step in each array. */
typedef struct Axis {
    int64_t weight, size;
    int64_t stride[ATTENTION_ARRAYS];
    bool is_in[ATTENTION_ARRAYS];
} Axis;

typedef struct Axes {
    uint32_t count;
    Axis data[MOST_DIGITS];
} Axes;

/* Splits digits where the boundary lies inside one. */
static bool split(ElementDigits *d, int64_t boundary)
{
    for (uint32_t i = 0; i < d->count; i++) {
        ElementDigit *x = &d->data[i];
        if (boundary <= x->weight || boundary >= x->weight * x->size)
            continue;
        int64_t inner = boundary / x->weight;
        if (boundary % x->weight != 0 || x->size % inner != 0 || d->count == MOST_DIGITS)
            return false;
        d->data[d->count++] =
            (ElementDigit){boundary, x->size / inner, x->stride * inner};
        x->size = inner;
    }
    return true;
}

static bool split_all(AttentionDigits *d, const AttentionBand *band)
{
    for (uint32_t from = 0; from <= ATTENTION_ARRAYS; from++) {
        ElementDigits rows = {.count = band->rows != 0,
                              .data = {{band->row_weight, band->rows, 0}}};
        const ElementDigits *of = from < ATTENTION_ARRAYS ? &d->digits[from] : &rows;
        for (uint32_t i = 0; i < of->count; i++) {
            int64_t weight = of->data[i].weight, size = of->data[i].size;
            for (uint32_t to = 0; to < ATTENTION_ARRAYS; to++) {
                if (!split(&d->digits[to], weight) ||
                    !split(&d->digits[to], weight * size))
                    return false;
            }
        }
    }
    return true;
}

static bool gather(const AttentionDigits *d, Axes *out)
{
    out->count = 0;
    for (uint32_t a = 0; a < ATTENTION_ARRAYS; a++) {
        for (uint32_t i = 0; i < d->digits[a].count; i++) {
            const ElementDigit *x = &d->digits[a].data[i];
            uint32_t k = 0;
            while (k < out->count && out->data[k].weight != x->weight)
                k++;
            if (k == MOST_DIGITS || (k < out->count && out->data[k].size != x->size))
                return false;
            if (k == out->count)
                out->data[out->count++] = (Axis){.weight = x->weight, .size = x->size};
            out->data[k].is_in[a] = true;
            out->data[k].stride[a] = x->stride;
        }
    }
    return true;
}

/* One axis of both, the second inside; false: not of equal steps. */
static bool join(Axis *outer, const Axis *inner)
{
    for (uint32_t a = 0; a < ATTENTION_ARRAYS; a++) {
        if (outer->stride[a] != inner->stride[a] * inner->size)
            return false;
    }
    for (uint32_t a = 0; a < ATTENTION_ARRAYS; a++)
        outer->stride[a] = inner->stride[a];
    outer->weight = inner->weight;
    outer->size *= inner->size;
    return true;
}

static int by_step(const void *a, const void *b)
{
    const Axis *x = a, *y = b;
    int64_t p = x->stride[ATTENTION_Q], q = y->stride[ATTENTION_Q];
    if (p == q) {
        p = x->weight;
        q = y->weight;
    }
    return (p < q) - (p > q);
}

/* The outermost first; what steps evenly becomes one. */
static void join_all(Axes *axes)
{
    uint32_t kept = 0;
    qsort(axes->data, axes->count, sizeof *axes->data, by_step);
    for (uint32_t i = 0; i < axes->count; i++) {
        if (kept == 0 || !join(&axes->data[kept - 1], &axes->data[i]))
            axes->data[kept++] = axes->data[i];
    }
    axes->count = kept;
}

/* What each axis is for. */
typedef struct Roles {
    Axes shared, group; /* in all arrays; in q and o, not in k and v */
    Axis row, column;
} Roles;

static bool is_private(const Axis *x)
{
    return x->stride[ATTENTION_K] == 0 && x->stride[ATTENTION_V] == 0 &&
           x->is_in[ATTENTION_Q] && x->is_in[ATTENTION_O];
}

static bool is_column(const Axis *x)
{
    return x->is_in[ATTENTION_K] && x->is_in[ATTENTION_V] && !x->is_in[ATTENTION_Q] &&
           !x->is_in[ATTENTION_O];
}

/* The rows that the band is about, or the most that share k and v. */
static uint32_t find_row(const Axes *axes, const AttentionBand *band)
{
    uint32_t row = axes->count;
    for (uint32_t i = 0; i < axes->count; i++) {
        const Axis *x = &axes->data[i];
        if (!is_private(x))
            continue;
        if (band->rows != 0 ? x->weight == band->row_weight && x->size == band->rows
                            : row == axes->count || x->size > axes->data[row].size)
            row = i;
    }
    return row;
}

static bool assign(const Axes *axes, const AttentionBand *band, Roles *r)
{
    uint32_t row = find_row(axes, band), columns = 0;
    *r = (Roles){.row = {.size = 1}};
    if (row == axes->count && band->rows != 0)
        return false;
    for (uint32_t i = 0; i < axes->count; i++) {
        const Axis *x = &axes->data[i];
        if (i == row) {
            r->row = *x;
        } else if (is_column(x)) {
            r->column = *x;
            columns++;
        } else if (is_private(x)) {
            r->group.data[r->group.count++] = *x;
        } else if (x->is_in[ATTENTION_Q] && x->is_in[ATTENTION_K] &&
                   x->is_in[ATTENTION_V] && x->is_in[ATTENTION_O]) {
            r->shared.data[r->shared.count++] = *x;
        } else {
            return false;
        }
    }
    join_all(&r->group);
    join_all(&r->shared);
    return columns == 1 && r->group.count <= 1 && r->shared.count <= 2;
}

static void set_dim(AttentionArray *a, uint32_t dim, const Axis *x, uint32_t array)
{
    a->dims[dim] = x->size;
    a->strides[dim] = x->stride[array];
}

/* Dimensions of size 1 get a step that is a multiple of what is inside. */
static void complete(AttentionArray *a)
{
    int64_t most = 1;
    for (uint32_t d = 0; d < ATTENTION_RANK; d++) {
        if (a->dims[d] != 1 && a->dims[d] * a->strides[d] > most)
            most = a->dims[d] * a->strides[d];
    }
    for (uint32_t d = 0; d < ATTENTION_RANK; d++) {
        if (a->dims[d] == 1)
            a->strides[d] = most;
    }
}

static void set_array(AttentionArray *a, const Axis *const axes[3], int64_t depth,
                      uint32_t array)
{
    for (uint32_t i = 0; i < 3; i++)
        set_dim(a, i, axes[i], array);
    a->dims[ATTENTION_DEPTH] = depth;
    complete(a);
    a->strides[ATTENTION_DEPTH] = 1;
}

/* [batch, heads, rows, columns]; 1 where it is the same for all. */
static bool set_bias(AttentionArray *a, const Axis *const axes[4])
{
    for (uint32_t i = 0; i < 4; i++) {
        set_dim(a, i, axes[i], ATTENTION_BIAS);
        if (a->strides[i] == 0)
            a->dims[i] = 1;
    }
    bool fits = a->strides[ATTENTION_DEPTH] == 1;
    complete(a);
    return fits;
}

/* Of k and v, and what has their shapes: no rows, and heads that several of q share. */
static bool is_of_columns(uint32_t array)
{
    return array == ATTENTION_K || array == ATTENTION_V || array == ATTENTION_DK ||
           array == ATTENTION_DV;
}

/* Heads of q and o; each of those of k and v is shared by a group of them. */
typedef struct Heads {
    Axis batch, all, shared;
} Heads;

static bool find_heads(const Roles *r, Heads *out)
{
    uint32_t n = r->shared.count;
    bool has_group = r->group.count > 0;
    *out = (Heads){{.size = 1}, {.size = 1}, {.size = 1}};
    if (n > 0)
        out->batch = r->shared.data[0];
    if (n < 2) {
        if (has_group)
            out->all = r->group.data[0];
        return true;
    }
    for (uint32_t i = n; i-- > 0;) { /* a group's heads are next to each other */
        out->all = out->shared = r->shared.data[i];
        out->batch = r->shared.data[1 - i];
        if (!has_group)
            return true;
        for (uint32_t a = 0; a < ATTENTION_ARRAYS; a++)
            out->all.stride[a] = is_of_columns(a) ? 0 : out->all.stride[a];
        if (join(&out->all, &r->group.data[0]))
            return true;
    }
    return false;
}

bool attention_arrange(AttentionDigits *d, const AttentionBand *band,
                       AttentionArray out[ATTENTION_ARRAYS])
{
    Axes axes;
    Roles r;
    Heads h;
    if (!split_all(d, band) || !gather(d, &axes) || !assign(&axes, band, &r) ||
        !find_heads(&r, &h))
        return false;
    for (uint32_t i = 0; i < ATTENTION_ARRAYS; i++) {
        bool has_columns = is_of_columns(i);
        out[i] = (AttentionArray){.base = d->base[i]};
        if (out[i].base != NULL && i != ATTENTION_BIAS)
            set_array(&out[i],
                      (const Axis *[]){&h.batch, has_columns ? &h.shared : &h.all,
                                       has_columns ? &r.column : &r.row},
                      d->depth[i], i);
    }
    return out[ATTENTION_BIAS].base == NULL ||
           set_bias(&out[ATTENTION_BIAS],
                    (const Axis *[]){&h.batch, &h.all, &r.row, &r.column});
}
