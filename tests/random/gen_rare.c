/* Random operations that are rare in programs: scans, grouped and block-scaled dots, sorts of several
 * arrays, random numbers. */
#include <string.h>

#include "tests/random/value.h"

/* Running sums or maxima. */
void gen_scan(Gen *g)
{
    Value *a = pick_rank(g, 1);
    static const char *const ops[] = {"add", "maximum", "minimum"};
    const char *op = a->type == DT_PRED ? "xor" : ops[below(g, 3)];
    if (!can_reduce(a, op) || is_complex(a->type) || a->special || a->dims[0] > 40)
        return;
    int d = (int)below(g, a->rank), id = g->shared->next_id++;
    Value slab = {.type = a->type, .rank = a->rank - 1};
    for (int i = 0, at = 0; i < a->rank; i++) {
        if (i != d)
            slab.dims[at++] = a->dims[i];
    }
    if (a->dims[d] > 40)
        return;
    Value *start = same_shape(g, &slab, a->type);
    if (start->special || start->depth > a->depth || start->high > 8)
        return;
    char part[128], whole[128];
    shape_of(&slab, part);
    shape_of(a, whole);
    fprintf(g->shared->head,
            "step%d {\n  x = %s parameter(0)\n  c = %s parameter(1)\n  n = %s %s(x, c)\n"
            "  ROOT r = (%s, %s) tuple(n, n)\n}\n",
            id, part, part, part, op, part, part);
    say(g,
        "  t%d = (%s, %s) scan(%s, %s), dimensions={%d}, num_carries=1, is_reverse=%s, "
        "to_apply=step%d\n",
        id, whole, part, a->name, start->name, d, chance(g, 50) ? "true" : "false", id);
    Value *v = emit(g, a->type, a->rank, a->dims, "get-tuple-element(t%d), index=0", id);
    reduced(v, a, op, a->dims[d] + 4);
    v = emit(g, a->type, slab.rank, slab.dims, "get-tuple-element(t%d), index=1", id);
    reduced(v, a, op, a->dims[d] + 4);
}

static Value *matrix(Gen *g, DType t, int rank, const int64_t *dims)
{
    Value like = {.type = t, .rank = rank};
    memcpy(like.dims, dims, (size_t)rank * sizeof *dims);
    Value *v = same_shape(g, &like, t);
    return v->special || v->depth > 0 || v->high > 8 ? NULL : v;
}

/* Facts of a sum of n products. */
static void settle_products(Value *v, const Value *a, const Value *b, int64_t n)
{
    v->high = a->high + b->high + 1 + log2_up(n);
    v->grain = a->grain + b->grain;
    settle(v, 0);
}

/* Rows in groups, each with its own matrix, perhaps of several batches; or sums in groups. */
void gen_ragged_dot(Gen *g)
{
    static const DType types[] = {DT_F32, DT_F32, DT_BF16, DT_F16, DT_F64, DT_S32};
    int64_t m = 1 + below(g, 9), k = 1 + below(g, 6), n = 1 + below(g, 6),
            groups = 1 + below(g, 4), batch = 1 + below(g, 3);
    int form = (int)below(g, 3); /* 1: sums in groups, 2: with batches */
    DType t = types[below(g, 6)];
    DType to = t == DT_BF16 || t == DT_F16 ? DT_F32 : t;
    const int64_t left[][3] = {{m, k}, {m, m}, {batch, m, k}};
    const int64_t right[][4] = {{groups, k, n}, {m, n}, {groups, batch, k, n}};
    const int64_t out[][3] = {{m, n}, {groups, m, n}, {batch, m, n}};
    static const int ranks[3][3] = {{2, 3, 2}, {2, 2, 3}, {3, 4, 3}};
    static const char *const attributes[] = {
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
        "rhs_group_dims={0}",
        "lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}, "
        "rhs_group_dims={}",
        "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}"};
    Value *a = matrix(g, t, ranks[form][0], left[form]);
    Value *b = matrix(g, t, ranks[form][1], right[form]);
    if (a == NULL || b == NULL)
        return;
    char sizes[128];
    int64_t each[4], rest = m;
    for (int i = 0; i < groups; i++) {
        each[i] = below(g, rest + 1);
        rest -= each[i];
    }
    Value *s =
        emit(g, DT_S32, 1, &groups, "constant({%s})", list(each, (int)groups, sizes));
    Value *v = emit(g, to, ranks[form][2], out[form], "ragged-dot(%s, %s, %s), %s",
                    a->name, b->name, s->name, attributes[form]);
    settle_products(v, a, b, form == 1 ? m : k);
}

/* Of 8- and 4-bit floats with a power of two for each block; as a call, too, whose scales may be
 * more than are needed. */
void gen_scaled_dot(Gen *g)
{
    static const DType types[] = {DT_F8E4M3FN, DT_F8E5M2, DT_F4E2M1FN, DT_BF16};
    DType t = types[below(g, 4)];
    bool call = chance(g, 50);
    int64_t m = 1 + below(g, 6), n = 1 + below(g, 6), blocks = 1 + below(g, 3),
            block = chance(g, 20) ? 32 : 1 + below(g, 8);
    int64_t k = blocks * block - (call ? below(g, block) : 0),
            more = call ? below(g, 3) : 0;
    Value *a = matrix(g, t, 2, (int64_t[]){m, k});
    Value *b = matrix(g, t, 2, (int64_t[]){n, k});
    Value *x = matrix(g, DT_F8E8M0FNU, 2, (int64_t[]){m + more, blocks + more});
    Value *y = matrix(g, DT_F8E8M0FNU, 2, (int64_t[]){n, blocks});
    if (a == NULL || b == NULL || x == NULL || y == NULL)
        return;
    Value *v;
    if (call)
        v = emit(
            g, DT_F32, 2, (int64_t[]){m, n},
            "custom-call(%s, %s, %s, %s), custom_call_target=\"__op$block_scaled_dot\", "
            "backend_config={\"block_scaled_dot_backend_config\":{\"block_size\":"
            "\"%lld\"}}",
            a->name, b->name, x->name, y->name, (long long)block);
    else
        v = emit(g, DT_F32, 2, (int64_t[]){m, n},
                 "scaled-dot(%s, %s, %s, %s), lhs_contracting_dims={1}, "
                 "rhs_contracting_dims={1}",
                 a->name, b->name, x->name, y->name);
    v->depth = MAX_DEPTH;
    v->high = 60;
}

/* By a first key and, where it is the same, by a second one; others move along. */
void gen_sort_many(Gen *g)
{
    Value *a[5];
    int n = 2 + (int)below(g, 4);
    a[0] = pick_rank(g, 1);
    if (!is_int(a[0]->type) || elements_of(a[0]) > 2000)
        return;
    a[1] = same_shape(g, a[0], DT_S32);
    for (int i = 2; i < n; i++)
        a[i] = same_shape(g, a[0], any_type(g));
    int d = (int)below(g, a[0]->rank), id = g->shared->next_id++;
    fprintf(g->shared->head, "order%d {\n", id);
    for (int i = 0; i < 2 * n; i++)
        fprintf(g->shared->head, "  p%d = %s[] parameter(%d)\n", i,
                dtype_info[a[i / 2]->type].name, i);
    fprintf(g->shared->head, "  l = pred[] compare(p0, p1), direction=LT\n"
                             "  e = pred[] compare(p0, p1), direction=EQ\n"
                             "  m = pred[] compare(p2, p3), direction=GT\n"
                             "  b = pred[] and(e, m)\n  ROOT r = pred[] or(l, b)\n}\n");
    say(g, "  t%d = (", id);
    char shape[128];
    for (int i = 0; i < n; i++)
        say(g, "%s%s", i ? ", " : "", shape_of(a[i], shape));
    say(g, ") sort(");
    for (int i = 0; i < n; i++)
        say(g, "%s%s", i ? ", " : "", a[i]->name);
    say(g, "), dimensions={%d}, is_stable=true, to_apply=order%d\n", d, id);
    Value facts[5];
    for (int i = 0; i < n; i++)
        facts[i] = *a[i];
    for (int i = 0; i < n; i++) {
        Value *v = emit(g, facts[i].type, facts[i].rank, facts[i].dims,
                        "get-tuple-element(t%d), index=%d", id, i);
        moved(v, &facts[i], NULL);
    }
}

/* Draws follow one another: their order in the text is no order once they are printed again. */
void gen_rng(Gen *g)
{
    static const DType types[] = {DT_F32, DT_F32, DT_F64, DT_BF16, DT_F16,
                                  DT_S32, DT_U8,  DT_S64, DT_PRED};
    DType t = types[below(g, 9)];
    int rank;
    int64_t dims[MAX_RANK] = {2};
    char after[64] = "";
    if (!g->entry)
        return;
    if (g->last_draw[0] != '\0')
        snprintf(after, sizeof after, ", control-predecessors={%s}", g->last_draw);
    if (chance(g, 10)) {
        Value *v = emit(g, DT_U64, 1, dims, "rng-get-and-update-state(), delta=%d%s",
                        (int)below(g, 20), after);
        memcpy(g->last_draw, v->name, sizeof g->last_draw);
        return;
    }
    any_dims(g, &rank, dims);
    Value *low = constant_scalar(g, t, t == DT_PRED ? 0 : 1);
    Value *high = constant_scalar(g, t, t == DT_PRED ? 1 : 2 + (double)below(g, 9));
    bool normal = is_float(t) && chance(g, 40);
    Value *v = emit(g, t, rank, dims, "rng(%s, %s), distribution=%s%s", low->name,
                    high->name, normal ? "rng_normal" : "rng_uniform", after);
    memcpy(g->last_draw, v->name, sizeof g->last_draw);
    v->high = 6;
    v->pure = !is_float(t);
    v->depth = is_float(t) ? MAX_DEPTH : 0;
}

void gen_rounding(Gen *g)
{
    Value *a = pick_class(g, "f");
    if (!is_arithmetic(a->type) || a->special || a->depth > 0 ||
        dtype_info[a->type].bits < 16)
        return;
    if (chance(g, 50)) {
        Value *v = emit(g, a->type, a->rank, a->dims,
                        "reduce-precision(%s), exponent_bits=%d, mantissa_bits=%d",
                        a->name, 3 + (int)below(g, 5), (int)below(g, 8));
        moved(v, a, NULL);
        v->pure = false;
        v->grain = -2000;
        v->depth = MAX_DEPTH;
        return;
    }
    int bits = dtype_info[a->type].bits;
    DType t = bits == 64 ? DT_U64 : bits == 32 ? DT_U32 : DT_U16;
    Value *r = same_shape(g, a, t);
    DType to = chance(g, 50) ? DT_S32 : chance(g, 50) ? DT_S16 : DT_S8;
    Value *v =
        emit(g, to, a->rank, a->dims, "stochastic-convert(%s, %s)", a->name, r->name);
    v->high = a->high + 1;
}

/* What hands a value on. */
void gen_wrapped(Gen *g)
{
    Value *a = pick(g), *v;
    int id = g->shared->next_id++,
        kind = (int)below(g, g->shared->partitions > 1 ? 3 : 4);
    if (kind == 0) {
        say(g, "  t%d = token[] after-all()\n", id);
        v = emit(g, a->type, a->rank, a->dims, "add-dependency(%s, t%d)", a->name, id);
        if (v->layout[0] == '\0') /* that of the operand */
            memcpy(v->layout, a->layout, sizeof v->layout);
    } else if (kind == 1) {
        int64_t n = elements_of(a);
        if (chance(g, 50)) /* as it lies in memory */
            v = emit(g, a->type, 1, &n, "bitcast(%s)", a->name);
        else
            v = emit(g, a->type, a->rank, a->dims, "bitcast(%s)", a->name);
    } else if (kind == 2) {
        v = emit(g, a->type, a->rank, a->dims,
                 "domain(%s), domain={kind=\"sharding\", entry={replicated}, "
                 "exit={maximal device=0}}",
                 a->name);
    } else {
        static const char *const targets[] = {
            "Sharding\", sharding={replicated}",
            "MoveToHost\"",
            "MoveToDevice\"",
            "LayoutConstraint\"",
            "PinToDevice\"",
            "annotate_device_placement\", "
            "frontend_attributes={_xla_buffer_placement=\"device\"}"};
        v = emit(g, a->type, a->rank, a->dims, "custom-call(%s), custom_call_target=\"%s",
                 a->name, targets[below(g, 6)]);
    }
    moved(v, a, NULL);
}

/* The other batch normalisations. */
void gen_norm_others(Gen *g)
{
    Value *a = pick_type(g, DT_F32);
    if (a->rank < 2 || a->depth > 0 || a->special)
        return;
    int f = (int)below(g, a->rank);
    Value like = {.type = DT_F32, .rank = 1, .dims = {a->dims[f]}};
    Value *x[4];
    for (int i = 0; i < 4; i++) {
        x[i] = same_shape(g, i == 3 ? a : &like, DT_F32);
        if (x[i]->special || x[i]->depth > 0)
            return;
    }
    /* a variance is not negative */
    Value *variance =
        emit(g, DT_F32, 1, like.dims, "multiply(%s, %s)", x[2]->name, x[2]->name);
    variance->depth = MAX_DEPTH;
    if (chance(g, 50)) {
        Value *v = emit(g, DT_F32, a->rank, a->dims,
                        "batch-norm-inference(%s, %s, %s, %s, %s), epsilon=0.5, "
                        "feature_index=%d",
                        a->name, x[0]->name, x[1]->name, x[0]->name, variance->name, f);
        v->depth = MAX_DEPTH;
        v->high = 60;
        return;
    }
    char full[128], small[128];
    int id = g->shared->next_id++;
    shape_of(&like, small);
    say(g,
        "  t%d = (%s, %s, %s) batch-norm-grad(%s, %s, %s, %s, %s), epsilon=0.5, "
        "feature_index=%d\n",
        id, shape_of(a, full), small, small, a->name, x[0]->name, x[1]->name,
        variance->name, x[3]->name, f);
    for (int i = 0; i < 3; i++) {
        Value *v = emit(g, DT_F32, i ? 1 : a->rank, i ? like.dims : a->dims,
                        "get-tuple-element(t%d), index=%d", id, i);
        v->depth = MAX_DEPTH;
        v->high = 60;
    }
}
