/* Random reductions, contractions, sorts and what else computes across elements. */
#include <stdlib.h>
#include <string.h>

#include "tests/random/value.h"

const char *reducer(Gen *g, DType t, const char *op)
{
    Shared *s = g->shared;
    char name[40];
    snprintf(name, sizeof name, "%s_%s", op, dtype_info[t].name);
    for (int i = 0; i < s->reducer_count; i++) {
        if (strcmp(s->reducers[i], name) == 0)
            return s->reducers[i];
    }
    char *kept = s->reducers[s->reducer_count < 63 ? s->reducer_count++ : 63];
    memcpy(kept, name, sizeof name);
    const char *type = dtype_info[t].name;
    fprintf(s->head,
            "%s {\n  a = %s[] parameter(0)\n  b = %s[] parameter(1)\n"
            "  ROOT r = %s[] %s(a, b)\n}\n",
            kept, type, type, type, op);
    return kept;
}

static int log2_up(int64_t n)
{
    int bits = 0;
    while (bits < 40 && (INT64_C(1) << bits) < n)
        bits++;
    return bits;
}

/* An operation that reduces this type, and its starting value as a scalar. */
static const char *choose_reduction(Gen *g, const Value *a, Value **init)
{
    static const char *const ints[] = {"add", "add", "maximum", "minimum",
                                       "and", "or",  "xor",     "multiply"};
    static const char *const floats[] = {"add", "add", "maximum", "minimum"};
    static const char *const preds[] = {"and", "or", "xor"};
    const char *op = a->type == DT_PRED  ? preds[below(g, 3)]
                     : is_int(a->type)   ? ints[below(g, 8)]
                     : is_float(a->type) ? floats[below(g, 4)]
                                         : "add";
    bool starts_well = strstr(op, "imum") == NULL && (!is_int(a->type) || op[1] != 'n');
    if (generate_plain && !starts_well) /* the first value has to be neutral */
        op = is_int(a->type) ? "or" : "add";
    double start = strcmp(op, "and") == 0 || strcmp(op, "multiply") == 0 ? 1 : 0;
    *init = constant_scalar(g, a->type, !generate_plain && chance(g, 10) ? 2 : start);
    return op;
}

/* Facts of a value that combines up to n elements of a. False: its answer is not sure. */
bool can_reduce(const Value *a, const char *op)
{
    bool sums = strcmp(op, "add") == 0;
    if (generate_plain && sums && is_float(a->type) &&
        dtype_info[a->type].mantissa_bits < 20)
        return false; /* XLA:CPU sums short floats in short floats */
    if (!is_arithmetic(a->type) || (sums && (a->special || !may_round(a))))
        return is_int(a->type) || a->type == DT_PRED;
    if (is_float(a->type) && a->special)
        return a->depth == 0;
    /* short formats: sums of inexact values lose all digits */
    return !sums || a->depth == 0 ||
           dtype_info[number_component(a->type)].mantissa_bits > 20;
}

void reduced(Value *v, const Value *a, const char *op, int64_t n)
{
    moved(v, a, NULL);
    v->pure = is_int(v->type) || v->type == DT_PRED;
    v->high = v->high < 2 ? 2 : v->high;
    if (strcmp(op, "add") == 0 && !v->pure) {
        v->high += log2_up(n + 1);
        v->grain = v->grain > 0 ? 0 : v->grain;
        settle(v, a->depth);
    }
}

static int choose_dims(Gen *g, const Value *a, int64_t *reduced_dims, int64_t *kept,
                       int *kept_count, int64_t *n)
{
    int count = 0;
    *kept_count = 0;
    *n = 1;
    for (int i = 0; i < a->rank; i++) {
        if (chance(g, 55)) {
            reduced_dims[count++] = i;
            *n *= a->dims[i];
        } else {
            kept[(*kept_count)++] = a->dims[i];
        }
    }
    return count;
}

void gen_reduce(Gen *g)
{
    Value *a = pick_rank(g, 1);
    int64_t which[MAX_RANK];
    int64_t dims[MAX_RANK];
    int rank;
    int64_t n;
    int count = choose_dims(g, a, which, dims, &rank, &n);
    Value *init;
    const char *op = choose_reduction(g, a, &init);
    if (!can_reduce(a, op))
        return;
    char text[128];
    Value *v =
        emit(g, a->type, rank, dims, "reduce(%s, %s), dimensions={%s}, to_apply=%s",
             a->name, init->name, list(which, count, text), reducer(g, a->type, op));
    reduced(v, a, op, n);
}

/* Two results: the largest element and its least index. */
void gen_reduce_pair(Gen *g)
{
    Value *a = pick_rank(g, 1);
    if (a->depth > 0 || is_complex(a->type) || a->special || a->type == DT_PRED)
        return;
    int64_t which[MAX_RANK];
    int64_t dims[MAX_RANK];
    char text[128];
    char shape[128];
    int rank;
    int64_t n;
    int count = choose_dims(g, a, which, dims, &rank, &n);
    if (count == 0)
        return;
    Value *index = emit(g, DT_S32, a->rank, a->dims, "iota(), iota_dimension=%d",
                        (int)which[count - 1]);
    Value *least = constant_scalar(g, a->type, 0);
    Value *zero = constant_scalar(g, DT_S32, 0);
    const char *t = dtype_info[a->type].name;
    int id = g->shared->next_id++;
    fprintf(g->shared->head,
            "argmax%d {\n  a = %s[] parameter(0)\n  i = s32[] parameter(1)\n  b = %s[] "
            "parameter(2)\n  j = s32[] parameter(3)\n  gt = pred[] compare(a, b), "
            "direction=GT\n  eq = pred[] compare(a, b), direction=EQ\n  lt = pred[] "
            "compare(i, j), direction=LT\n  tie = pred[] and(eq, lt)\n  first = pred[] "
            "or(gt, "
            "tie)\n  x = %s[] select(first, a, b)\n  k = s32[] select(first, i, j)\n  "
            "ROOT r = "
            "(%s[], s32[]) tuple(x, k)\n}\n",
            id, t, t, t, t);
    Value like = {.type = a->type, .rank = rank};
    memcpy(like.dims, dims, sizeof dims);
    like.type = DT_S32;
    char second[128];
    shape_of(&like, second);
    like.type = a->type;
    int pair = g->shared->next_id++;
    say(g,
        "  t%d = (%s, %s) reduce(%s, %s, %s, %s), dimensions={%s}, to_apply=argmax%d\n",
        pair, shape_of(&like, shape), second, a->name, index->name, least->name,
        zero->name, list(which, count, text), id);
    Value *v = emit(g, a->type, rank, dims, "get-tuple-element(t%d), index=0", pair);
    moved(v, a, NULL);
    v->pure = is_int(a->type);
    emit(g, DT_S32, rank, dims, "get-tuple-element(t%d), index=1", pair);
}

typedef struct Win {
    char text[320];
    int64_t dims[MAX_RANK];
    int64_t elements; /* of one window */
    int64_t total;
} Win;

static bool choose_window(Gen *g, const Value *a, bool dilate, Win *w)
{
    char part[5][128] = {"", "", "", "", ""};
    int at[5] = {0};
    w->elements = w->total = 1;
    for (int i = 0; i < a->rank; i++) {
        int64_t size = a->dims[i] == 0 || chance(g, 40) ? 1 : 1 + below(g, 4);
        if (chance(g, 8))
            size = a->dims[i] > 0 ? a->dims[i] : 1;
        int64_t stride = 1 + (chance(g, 30) ? below(g, 3) : 0);
        int64_t low = chance(g, 60) ? 0 : below(g, size);
        int64_t high = chance(g, 60) ? 0 : below(g, size);
        int64_t spread = dilate && chance(g, 20) ? 2 : 1;
        int64_t base = dilate && chance(g, 20) ? 2 : 1;
        int64_t padded = (a->dims[i] > 0 ? (a->dims[i] - 1) * base + 1 : 0) + low + high;
        int64_t span = (size - 1) * spread + 1;
        w->dims[i] = padded < span ? 0 : (padded - span) / stride + 1;
        const char *x = i ? "x" : "";
        int64_t numbers[5] = {size, stride, 0, base, spread};
        for (int k = 0; k < 5; k++) {
            if (k == 2)
                at[k] += snprintf(part[k] + at[k], 30, "%s%lld_%lld", x, (long long)low,
                                  (long long)high);
            else
                at[k] +=
                    snprintf(part[k] + at[k], 20, "%s%lld", x, (long long)numbers[k]);
        }
        w->elements *= size;
        w->total *= w->dims[i] * size;
    }
    snprintf(
        w->text, sizeof w->text,
        "window={size=%.50s stride=%.50s pad=%.50s lhs_dilate=%.50s rhs_dilate=%.50s}",
        part[0], part[1], part[2], part[3], part[4]);
    return w->total <= 4 * g->shared->most_elements;
}

void gen_reduce_window(Gen *g)
{
    Value *a = pick_rank(g, 1);
    Win w;
    Value *init;
    const char *op = choose_reduction(g, a, &init);
    if (!can_reduce(a, op) || !choose_window(g, a, true, &w))
        return;
    Value *v = emit(g, a->type, a->rank, w.dims, "reduce-window(%s, %s), %s, to_apply=%s",
                    a->name, init->name, w.text, reducer(g, a->type, op));
    reduced(v, a, op, w.elements);
}

void gen_select_and_scatter(Gen *g)
{
    Value *a = pick_rank(g, 1);
    Win w;
    if (a->depth > 0 || a->special || is_complex(a->type) || !is_arithmetic(a->type) ||
        a->type == DT_PRED || !choose_window(g, a, false, &w))
        return;
    Value like = *a;
    memcpy(like.dims, w.dims, sizeof like.dims);
    Value *source = same_shape(g, &like, a->type);
    if (source->special || !may_round(source))
        return;
    Value *init = constant_scalar(g, a->type, 0);
    const char *t = dtype_info[a->type].name;
    char *dilate = strstr(w.text, " lhs_dilate");
    memcpy(dilate, "}", 2);
    int id = g->shared->next_id++;
    fprintf(g->shared->head,
            "ge%d {\n  a = %s[] parameter(0)\n  b = %s[] parameter(1)\n  ROOT r = pred[] "
            "compare(a, b), direction=GE\n}\n",
            id, t, t);
    Value *v =
        emit(g, a->type, a->rank, a->dims,
             "select-and-scatter(%s, %s, %s), %s, select=ge%d, scatter=%s", a->name,
             source->name, init->name, w.text, id, reducer(g, a->type, "add"));
    reduced(v, source, "add", w.elements);
}

void gen_dot(Gen *g)
{
    Value *a = pick_rank(g, 1);
    if (!is_arithmetic(a->type) || a->type == DT_PRED || a->special || !may_round(a) ||
        (a->depth > 0 && dtype_info[number_component(a->type)].mantissa_bits < 20))
        return;
    int64_t lists[4][MAX_RANK];
    int contracting = 0;
    int batches = 0;
    int64_t bdims[MAX_RANK] = {0};
    int64_t out[MAX_RANK];
    int rank = 0;
    char role[MAX_RANK];
    int64_t n = 1;
    int64_t work = 1;
    for (int i = 0; i < a->rank; i++)
        role[i] = chance(g, 40) ? 'c' : chance(g, 35) ? 'b' : 'f';
    int b_rank = 0;
    int free_at = (int)below(g, 3); /* where the free dimension of b stands */
    int64_t free_size = chance(g, 20) ? 1 : 1 + below(g, 17);
    int shared = 0;
    for (int i = 0; i < a->rank; i++)
        shared += role[i] != 'f';
    bool has_free = shared < 4 && chance(g, 80);
    free_at = free_at < shared ? free_at : shared;
    for (int i = 0; i < a->rank; i++) {
        if (role[i] == 'f')
            continue;
        if (has_free && b_rank == free_at)
            bdims[b_rank++] = free_size;
        bdims[b_rank] = a->dims[i];
        int *count = role[i] == 'c' ? &contracting : &batches;
        lists[role[i] == 'c' ? 0 : 2][*count] = i;
        lists[role[i] == 'c' ? 1 : 3][*count] = b_rank++;
        (*count)++;
        if (role[i] == 'c')
            n *= a->dims[i];
    }
    if (has_free && b_rank <= free_at)
        bdims[b_rank++] = free_size;
    for (int i = 0; i < batches; i++)
        out[rank++] = a->dims[lists[2][i]];
    for (int i = 0; i < a->rank; i++) {
        if (role[i] == 'f')
            out[rank++] = a->dims[i];
    }
    if (has_free)
        out[rank++] = free_size;
    for (int i = 0; i < rank; i++)
        work *= out[i];
    if (work * (n + 1) > 16 * g->shared->most_elements || rank > MAX_RANK)
        return;
    Value like = {.rank = b_rank};
    memcpy(like.dims, bdims, sizeof like.dims);
    Value *b = same_shape(g, &like, a->type);
    if (b->special || !may_round(b) ||
        (b->depth > 0 && a->depth == 0 && max_depth(a->type) < 4))
        return;
    DType t = a->type;
    if ((t == DT_BF16 || t == DT_F16) && chance(g, 30))
        t = DT_F32;
    else if (t == DT_S8 && chance(g, 70))
        t = DT_S32;
    else if (dtype_info[t].class == DTC_FLOAT && dtype_info[t].bits <= 8)
        t = chance(g, 70) ? DT_F32 : DT_BF16;
    char text[4][128];
    Value *v = emit(g, t, rank, out,
                    "dot(%s, %s), lhs_contracting_dims={%s}, rhs_contracting_dims={%s}, "
                    "lhs_batch_dims={%s}, rhs_batch_dims={%s}",
                    a->name, b->name, list(lists[0], contracting, text[0]),
                    list(lists[1], contracting, text[1]),
                    list(lists[2], batches, text[2]), list(lists[3], batches, text[3]));
    v->high = a->high + b->high + log2_up(n) + is_complex(t);
    v->grain = a->grain + b->grain;
    settle(v, a->depth > b->depth ? a->depth : b->depth);
}

void gen_convolution(Gen *g)
{
    static const DType types[] = {DT_F32, DT_F32, DT_BF16, DT_F16, DT_F64, DT_S32, DT_S8};
    int spatial = 1 + (int)below(g, 2);
    DType t = types[below(g, 7)];
    int64_t groups = chance(g, 30) ? 2 : 1;
    int64_t in = (1 + below(g, 3)) * groups;
    int64_t out = (1 + below(g, 3)) * groups;
    Value left = {.rank = spatial + 2, .dims = {1 + below(g, 3)}};
    Value right = {.rank = spatial + 2};
    Value window = {.rank = spatial};
    for (int i = 0; i < spatial; i++)
        window.dims[i] = left.dims[i + 1] = 1 + below(g, 8);
    Win w;
    if (!choose_window(g, &window, true, &w))
        return;
    left.dims[spatial + 1] = in;
    const char *size = strstr(w.text, "size=") + 5;
    for (int i = 0; i < spatial; i++) {
        right.dims[i] = strtoll(size, NULL, 10);
        size = strpbrk(size, "x ") + 1;
    }
    right.dims[spatial] = in / groups;
    right.dims[spatial + 1] = out;
    Value *a = same_shape(g, &left, t);
    Value *b = same_shape(g, &right, t);
    if (a->special || b->special || !may_round(a) || !may_round(b) ||
        (a->depth + b->depth > 0 && max_depth(t) < 4))
        return;
    int64_t dims[MAX_RANK] = {left.dims[0]};
    for (int i = 0; i < spatial; i++)
        dims[i + 1] = w.dims[i];
    dims[spatial + 1] = out;
    Value *v = emit(g, t, spatial + 2, dims,
                    "convolution(%s, %s), %s, dim_labels=%s, feature_group_count=%d",
                    a->name, b->name, w.text,
                    spatial == 1 ? "b0f_0io->b0f" : "b01f_01io->b01f", (int)groups);
    v->high = a->high + b->high + log2_up(in * w.elements);
    v->grain = a->grain + b->grain;
    settle(v, a->depth > b->depth ? a->depth : b->depth);
}

void gen_sort(Gen *g)
{
    Value *a = pick_rank(g, 1);
    if (a->depth > 0 || is_complex(a->type) || (a->special && !a->pure))
        return;
    int d = (int)below(g, a->rank);
    const char *t = dtype_info[a->type].name;
    const char *direction = chance(g, 50) ? "LT" : "GT";
    const char *total = is_float(a->type) ? ", type=TOTALORDER" : "";
    if (is_float(a->type) && !a->pure)
        total = "";
    Value *b = chance(g, 50) ? same_shape(g, a, any_type(g)) : NULL;
    int id = g->shared->next_id++;
    fprintf(g->shared->head,
            "less%d {\n  a = %s[] parameter(0)\n  b = %s[] parameter(1)\n", id, t, t);
    if (b != NULL)
        fprintf(g->shared->head, "  c = %s[] parameter(2)\n  d = %s[] parameter(3)\n",
                dtype_info[b->type].name, dtype_info[b->type].name);
    fprintf(g->shared->head, "  ROOT r = pred[] compare(a, b), direction=%s%s\n}\n",
            direction, total);
    if (b == NULL) {
        Value *v = emit(g, a->type, a->rank, a->dims,
                        "sort(%s), dimensions={%d}, is_stable=true, to_apply=less%d",
                        a->name, d, id);
        moved(v, a, NULL);
        return;
    }
    char first[128];
    char second[128];
    int pair = g->shared->next_id++;
    say(g,
        "  t%d = (%s, %s) sort(%s, %s), dimensions={%d}, is_stable=true, "
        "to_apply=less%d\n",
        pair, shape_of(a, first), shape_of(b, second), a->name, b->name, d, id);
    Value *v =
        emit(g, a->type, a->rank, a->dims, "get-tuple-element(t%d), index=0", pair);
    moved(v, a, NULL);
    v = emit(g, b->type, b->rank, b->dims, "get-tuple-element(t%d), index=1", pair);
    moved(v, b, NULL);
}

void gen_topk(Gen *g)
{
    Value *a = pick_rank(g, 1);
    if (a->depth > 0 || a->special || is_complex(a->type) || a->rank > 2 ||
        a->type == DT_PRED || !is_arithmetic(a->type) || a->dims[a->rank - 1] == 0)
        return;
    int64_t dims[MAX_RANK];
    memcpy(dims, a->dims, sizeof dims);
    dims[a->rank - 1] = 1 + below(g, dims[a->rank - 1]);
    Value like = {.type = a->type, .rank = a->rank};
    memcpy(like.dims, dims, sizeof dims);
    char first[128];
    char second[128];
    shape_of(&like, first);
    like.type = DT_S32;
    int pair = g->shared->next_id++;
    say(g, "  t%d = (%s, %s) topk(%s), k=%d, largest=%s\n", pair, first,
        shape_of(&like, second), a->name, (int)dims[a->rank - 1],
        chance(g, 50) ? "true" : "false");
    Value *v = emit(g, a->type, a->rank, dims, "get-tuple-element(t%d), index=0", pair);
    moved(v, a, NULL);
    emit(g, DT_S32, a->rank, dims, "get-tuple-element(t%d), index=1", pair);
}

void gen_fft(Gen *g)
{
    DType t = chance(g, 70) ? DT_C64 : DT_C128;
    Value *a = pick_type(g, t);
    if (a->rank < 1 || a->special || !may_round(a) || a->dims[a->rank - 1] == 0 ||
        a->dims[a->rank - 1] > 512) /* of a large prime it is a matrix */
        return;
    Value *v =
        emit(g, t, a->rank, a->dims, "fft(%s), fft_type=%s, fft_length={%lld}", a->name,
             chance(g, 50) ? "FFT" : "IFFT", (long long)a->dims[a->rank - 1]);
    v->high = a->high + log2_up(a->dims[a->rank - 1]);
    v->grain = -2000;
    settle(v, a->depth);
    v->depth = MAX_DEPTH;
}

/* Of a matrix that is sure to be positive definite: n I + a a^T. */
void gen_cholesky(Gen *g)
{
    int64_t n = 1 + below(g, 7);
    int64_t dims[] = {n, n};
    DType t = chance(g, 70) ? DT_F32 : DT_F64;
    Value *a = fresh(g, t, 2, dims);
    if (a->special)
        return;
    Value *square = emit(
        g, t, 2, dims, "dot(%s, %s), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        a->name, a->name);
    Value *row = emit(g, DT_S32, 2, dims, "iota(), iota_dimension=0");
    Value *column = emit(g, DT_S32, 2, dims, "iota(), iota_dimension=1");
    Value *diagonal = emit(g, DT_PRED, 2, dims, "compare(%s, %s), direction=EQ",
                           row->name, column->name);
    Value *size = constant_scalar(g, t, (double)n);
    Value *all = emit(g, t, 2, dims, "broadcast(%s), dimensions={}", size->name);
    Value *more = emit(g, t, 2, dims, "add(%s, %s)", square->name, all->name);
    Value *matrix = emit(g, t, 2, dims, "select(%s, %s, %s)", diagonal->name, more->name,
                         square->name);
    Value *factor = emit(g, t, 2, dims, "cholesky(%s), lower=true", matrix->name);
    square->high = more->high = matrix->high = all->high = 9;
    square->grain = more->grain = matrix->grain = -4;
    factor->depth = MAX_DEPTH;
    factor->high = 60;
    if (chance(g, 50)) {
        Value *b = same_shape(g, a, t);
        Value *x = emit(g, t, 2, dims,
                        "triangular-solve(%s, %s), left_side=%s, lower=true, "
                        "unit_diagonal=false, transpose_a=%s",
                        factor->name, b->name, chance(g, 50) ? "true" : "false",
                        chance(g, 50) ? "NO_TRANSPOSE" : "TRANSPOSE");
        x->depth = MAX_DEPTH;
        x->high = 60;
    }
}

void gen_norm(Gen *g)
{
    Value *a = pick_type(g, DT_F32);
    if (a->rank < 2 || a->depth > 1 || a->special)
        return;
    int f = (int)below(g, a->rank);
    int64_t dims[] = {a->dims[f]};
    Value like = {.rank = 1, .dims = {a->dims[f]}};
    Value *scale = same_shape(g, &like, DT_F32);
    Value *offset = same_shape(g, &like, DT_F32);
    if (scale->special || offset->special || scale->depth > 1 || offset->depth > 1)
        return;
    (void)dims;
    char full[128];
    char small[128];
    like.type = DT_F32;
    shape_of(&like, small);
    int id = g->shared->next_id++;
    say(g,
        "  t%d = (%s, %s, %s) batch-norm-training(%s, %s, %s), epsilon=0.5, "
        "feature_index=%d\n",
        id, shape_of(a, full), small, small, a->name, scale->name, offset->name, f);
    for (int i = 0; i < 3; i++) {
        Value *v = emit(g, DT_F32, i ? 1 : a->rank, i ? like.dims : a->dims,
                        "get-tuple-element(t%d), index=%d", id, i);
        v->depth = MAX_DEPTH;
        v->high = 60;
    }
}

void gen_random_bits(Gen *g)
{
    bool philox = chance(g, 50);
    int64_t two[] = {philox ? 3 : 2};
    Value *state = index_vector(g, 1, two, 10);
    Value *wide = emit(g, DT_U64, 1, two, "convert(%s)", state->name);
    DType t = chance(g, 60) ? DT_U32 : chance(g, 50) ? DT_U64 : DT_U16;
    int rank;
    Value like = {.type = t};
    any_dims(g, &rank, like.dims);
    like.rank = rank;
    char shape[128];
    int id = g->shared->next_id++;
    say(g, "  t%d = (u64[%d], %s) rng-bit-generator(%s), algorithm=%s\n", id, (int)two[0],
        shape_of(&like, shape), wide->name, philox ? "rng_philox" : "rng_three_fry");
    emit(g, DT_U64, 1, two, "get-tuple-element(t%d), index=0", id);
    emit(g, t, rank, like.dims, "get-tuple-element(t%d), index=1", id);
}
