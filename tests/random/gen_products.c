/* Products on tensor cores with what stands around them in a kernel: factors that are converted, scaled, shifted or
 * turned, any number of batches, sizes that fill some tiles and leave a rest, and what becomes of the sums. Whole
 * modules of them are made by random -w. */
#include <string.h>

#include "tests/random/value.h"

enum { MOST_PRODUCTS = 1 << 20 };

/* What is read, what is multiplied, what comes out. */
static const struct {
    DType read[2], factor[2], sum;
} types[] = {
    {{DT_BF16, DT_BF16}, {DT_BF16, DT_BF16}, DT_F32},
    {{DT_BF16, DT_BF16}, {DT_BF16, DT_BF16}, DT_BF16},
    {{DT_F16, DT_F16}, {DT_F16, DT_F16}, DT_F32},
    {{DT_F16, DT_F16}, {DT_F16, DT_F16}, DT_F16},
    {{DT_F32, DT_F32}, {DT_F32, DT_F32}, DT_F32},
    {{DT_F64, DT_F64}, {DT_F64, DT_F64}, DT_F64},
    {{DT_S8, DT_S8}, {DT_S8, DT_S8}, DT_S32},
    {{DT_U8, DT_U8}, {DT_U8, DT_U8}, DT_U32},
    {{DT_S4, DT_S8}, {DT_S8, DT_S8}, DT_S32},
    {{DT_S8, DT_S8}, {DT_S32, DT_S32}, DT_S32},
    {{DT_F8E4M3FN, DT_F8E4M3FN}, {DT_F8E4M3FN, DT_F8E4M3FN}, DT_F32},
    {{DT_F8E4M3FN, DT_F8E5M2}, {DT_F8E4M3FN, DT_F8E5M2}, DT_F32},
    {{DT_F8E4M3FN, DT_BF16}, {DT_BF16, DT_BF16}, DT_F32},
    {{DT_BF16, DT_S8}, {DT_BF16, DT_BF16}, DT_F32},
    {{DT_BF16, DT_S4}, {DT_BF16, DT_BF16}, DT_F32},
    {{DT_F16, DT_U4}, {DT_F16, DT_F16}, DT_F16},
    {{DT_BF16, DT_F32}, {DT_BF16, DT_BF16}, DT_F32},
    {{DT_F32, DT_BF16}, {DT_F32, DT_F32}, DT_F32},
};

enum { TYPES = sizeof types / sizeof *types };

/* Below a tile, about one, or some of them. */
static int64_t side(Gen *g)
{
    static const int64_t usual[] = {8, 16, 32, 64, 96, 128};
    return chance(g, 30)   ? usual[below(g, 6)]
           : chance(g, 60) ? 3 + below(g, 30)
                           : 1 + below(g, 150);
}

static Value *emit_like(Gen *g, const Value *a, const char *op, const Value *b)
{
    return emit(g, a->type, a->rank, a->dims, "%s(%s, %s)", op, a->name, b->name);
}

/* Numbers along some of the dimensions, for all positions along the others. */
static Value *along(Gen *g, const Value *like)
{
    int64_t dims[MAX_RANK], from[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < like->rank; i++) {
        if (chance(g, 40)) {
            from[rank] = i;
            dims[rank++] = like->dims[i];
        }
    }
    char text[128];
    Value *a = fresh(g, like->type, rank, dims);
    Value *v = emit(g, like->type, like->rank, like->dims,
                    "broadcast(%s), dimensions={%s}", a->name, list(from, rank, text));
    moved(v, a, NULL);
    return v;
}

static Value *converted(Gen *g, const Value *a, DType t)
{
    if (a->type == t)
        return NULL;
    Value *v = emit(g, t, a->rank, a->dims, "convert(%s)", a->name);
    moved(v, a, NULL);
    if (is_int(a->type)) {
        v->high = dtype_info[a->type].bits;
        v->grain = 0;
    }
    settle(v, a->depth);
    return v;
}

/* a op b, if its bits are sure or nearly so. */
static Value *combined(Gen *g, const char *op, const Value *a, const Value *b)
{
    bool is_product = strcmp(op, "multiply") == 0, is_sum = strcmp(op, "add") == 0;
    bool is_coarse = dtype_info[a->type].mantissa_bits < 20;
    if (a->special || b->special ||
        (is_float(a->type) && (!may_round(a) || !may_round(b) ||
                               (is_sum && is_coarse && a->depth + b->depth > 0))))
        return NULL;
    Value *v = emit_like(g, a, op, b);
    moved(v, a, b);
    if (is_product) {
        v->high = a->high + b->high;
        v->grain = a->grain + b->grain;
    } else if (is_sum) {
        v->high++;
    } else {
        v->pure = !is_float(a->type); /* a maximum */
        return v;
    }
    settle(v, a->depth > b->depth ? a->depth : b->depth);
    return v;
}

static Value *some_step(Gen *g, Value *a)
{
    static const char *const ops[] = {"multiply", "add", "maximum"};
    Value *b = chance(g, 60) ? along(g, a) : same_shape(g, a, a->type);
    Value *v = b->special ? NULL : combined(g, ops[below(g, 3)], a, b);
    return v != NULL ? v : a;
}

/* The same elements, from an array of other dimensions or another order of them. */
static Value *read_factor(Gen *g, DType t, int rank, const int64_t *dims)
{
    int64_t other[MAX_RANK], order[MAX_RANK];
    char text[128];
    Value *a;
    memcpy(other, dims, sizeof *dims * (size_t)rank);
    if (chance(g, 25)) { /* transposed */
        for (int i = 0; i < rank; i++) {
            int at = (int)below(g, i + 1);
            order[i] = order[at];
            order[at] = i;
        }
        for (int i = 0; i < rank; i++)
            other[order[i]] = dims[i];
        a = fresh(g, t, rank, other);
        Value *v = emit(g, t, rank, dims, "transpose(%s), dimensions={%s}", a->name,
                        list(order, rank, text));
        moved(v, a, NULL);
        return v;
    }
    int64_t d = below(g, rank), more = 1 + below(g, 5);
    if (chance(g, 12) && dims[d] > more) { /* with an edge */
        other[d] -= more;
        a = fresh(g, t, rank, other);
        Value *zero = constant_scalar(g, t, 0);
        int64_t low = below(g, more + 1);
        char edges[256] = "";
        for (int i = 0; i < rank; i++)
            sprintf(edges + strlen(edges), "%s%d_%d", i ? "x" : "", i == d ? (int)low : 0,
                    i == d ? (int)(more - low) : 0);
        Value *v =
            emit(g, t, rank, dims, "pad(%s, %s), padding=%s", a->name, zero->name, edges);
        moved(v, a, NULL);
        return v;
    }
    if (chance(g, 15)) { /* a part */
        other[d] += more;
        a = fresh(g, t, rank, other);
        int64_t low = below(g, more + 1);
        char parts[256] = "";
        for (int i = 0; i < rank; i++)
            sprintf(parts + strlen(parts), "%s[%d:%d]", i ? ", " : "",
                    i == d ? (int)low : 0, (int)(i == d ? low + dims[i] : dims[i]));
        Value *v = emit(g, t, rank, dims, "slice(%s), slice={%s}", a->name, parts);
        moved(v, a, NULL);
        return v;
    }
    if (chance(g, 10) && rank > 1) { /* two dimensions were one */
        other[0] *= other[1];
        memmove(other + 1, other + 2, sizeof *other * (size_t)(rank - 2));
        a = fresh(g, t, rank - 1, other);
        Value *v = emit(g, t, rank, dims, "reshape(%s)", a->name);
        moved(v, a, NULL);
        return v;
    }
    return fresh(g, t, rank, other);
}

static Value *make_factor(Gen *g, DType read, DType factor, int rank, const int64_t *dims)
{
    Value *a = read_factor(g, read, rank, dims);
    if (a->special)
        return NULL;
    if (chance(g, 15))
        a = some_step(g, a);
    Value *b = converted(g, a, factor);
    a = b != NULL ? b : a;
    for (int n = chance(g, 30) ? 1 + (int)below(g, 2) : 0; n > 0; n--)
        a = some_step(g, a);
    /* f32 is multiplied as TF32 */
    return a->special || !may_round(a) || (factor == DT_F32 && !is_short(a, 10)) ||
                   (a->depth > 0 && dtype_info[factor].mantissa_bits < 20)
               ? NULL
               : a;
}

/* What becomes of the sums: each element by itself, another order, sums of sums. */
static void go_on(Gen *g, Value *v)
{
    static const DType narrow[] = {DT_BF16, DT_F16, DT_F32};
    for (int n = (int)below(g, 4); n > 0; n--)
        v = some_step(g, v);
    if (is_float(v->type) && chance(g, 30)) {
        DType t = narrow[below(g, 3)];
        bool is_finer = dtype_info[t].mantissa_bits > dtype_info[v->type].mantissa_bits;
        if (v->depth < max_depth(t) && !(is_finer && v->depth > 0)) {
            Value *to = converted(g, v, t);
            v = to != NULL ? to : v;
        }
    }
    if (chance(g, 50))
        grow_fusible(g, g->count + 1 + (int)below(g, 3));
}

/* Positions of the dimensions of a factor, in any order: 'b' batch, 's' summed, 'f' its own. */
typedef struct Factor {
    int rank;
    int64_t dims[MAX_RANK], batch[2], sum[2];
    int64_t own[2];
} Factor;

static Factor factor_of(Gen *g, const int64_t *batch, int batches, const int64_t *sum,
                        int sums, const int64_t *own, int owns)
{
    struct {
        char role;
        int number;
        int64_t size;
    } all[MAX_RANK], kept;
    Factor f = {0};
    for (int i = 0; i < batches; i++, f.rank++)
        all[f.rank].role = 'b', all[f.rank].number = i, all[f.rank].size = batch[i];
    for (int i = 0; i < owns; i++, f.rank++)
        all[f.rank].role = 'f', all[f.rank].number = i, all[f.rank].size = own[i];
    for (int i = 0; i < sums; i++, f.rank++)
        all[f.rank].role = 's', all[f.rank].number = i, all[f.rank].size = sum[i];
    for (int i = f.rank; i > 1 && chance(g, 85);) {
        int at = (int)below(g, i--);
        kept = all[i];
        all[i] = all[at];
        all[at] = kept;
    }
    for (int i = 0, n = 0; i < f.rank; i++) {
        f.dims[i] = all[i].size;
        if (all[i].role == 'f') /* the result has them in this order */
            f.own[n++] = all[i].size;
        else
            (all[i].role == 'b' ? f.batch : f.sum)[all[i].number] = i;
    }
    return f;
}

static int64_t product_of(const int64_t *n, int count)
{
    int64_t all = 1;
    for (int i = 0; i < count; i++)
        all *= n[i];
    return all;
}

void gen_product(Gen *g)
{
    int t = (int)below(g, TYPES), batches = chance(g, 35) ? 1 + (int)below(g, 2) : 0;
    int owns[2] = {chance(g, 15) ? 2 : 1, chance(g, 15) ? 2 : 1};
    int sums = chance(g, 15) ? 2 : 1, rank = 0;
    int64_t batch[2] = {1 + below(g, 4), 1 + below(g, 3)}, own[2][2], out[MAX_RANK];
    int64_t sum[2] = {chance(g, 50) ? 16 << below(g, 5) : 1 + below(g, 300),
                      1 + below(g, 12)};
    for (int i = 0; i < 2; i++) {
        own[i][0] = side(g);
        own[i][1] = 1 + below(g, 6);
    }
    int64_t terms = product_of(sum, sums), left = product_of(own[0], owns[0]),
            right = product_of(own[1], owns[1]), times = product_of(batch, batches);
    if (left * right * terms * times > MOST_PRODUCTS)
        return;
    Value *x[2];
    Factor f[2];
    for (int i = 0; i < 2; i++) {
        f[i] = factor_of(g, batch, batches, sum, sums, own[i], owns[i]);
        x[i] = make_factor(g, types[t].read[i], types[t].factor[i], f[i].rank, f[i].dims);
        if (x[i] == NULL)
            return;
    }
    for (int i = 0; i < batches; i++)
        out[rank++] = batch[i];
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < owns[i]; k++)
            out[rank++] = f[i].own[k];
    }
    char text[4][128];
    Value *v = emit(g, types[t].sum, rank, out,
                    "dot(%s, %s), lhs_contracting_dims={%s}, rhs_contracting_dims={%s}, "
                    "lhs_batch_dims={%s}, rhs_batch_dims={%s}",
                    x[0]->name, x[1]->name, list(f[0].sum, sums, text[0]),
                    list(f[1].sum, sums, text[1]), list(f[0].batch, batches, text[2]),
                    list(f[1].batch, batches, text[3]));
    v->high = x[0]->high + x[1]->high + log2_up(terms);
    v->grain = x[0]->grain + x[1]->grain;
    settle(v, x[0]->depth > x[1]->depth ? x[0]->depth : x[1]->depth);
    go_on(g, v);
}

void grow_products(Gen *g)
{
    static GenFn *const others[] = {gen_convolution, gen_convolution, gen_attention,
                                    gen_ragged_dot,  gen_scaled_dot,  gen_quantised};
    int64_t wanted = chance(g, 70) ? 1 : 2;
    for (int n = 0; n < 40 && wanted > 0; n++) {
        int before = g->count;
        if (chance(g, 70))
            gen_product(g);
        else
            others[below(g, 6)](g);
        wanted -= g->count > before + 2;
    }
}
