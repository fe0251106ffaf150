/* What programs are made of, several operations that passes and emitters know together: softmax, norms,
 * attention, running sums, rows by number, whole numbers for floats. The order is that of the programs,
 * the shapes and what stands around are random. */
#include <string.h>

#include "tests/random/value.h"

/* Ends a chain that rounds: only what moves elements may read it. */
static Value *rough(Value *v)
{
    if (is_float(v->type)) {
        v->depth = MAX_DEPTH;
        v->high = 30;
        v->grain = -2000;
        v->pure = false;
    }
    return v;
}

static Value *apply(Gen *g, const char *op, const Value *a)
{
    return rough(emit(g, a->type, a->rank, a->dims, "%s(%s)", op, a->name));
}

static Value *apply_two(Gen *g, const char *op, const Value *a, const Value *b)
{
    return rough(emit(g, a->type, a->rank, a->dims, "%s(%s, %s)", op, a->name, b->name));
}

static Value *convert(Gen *g, const Value *a, DType t)
{
    return rough(emit(g, t, a->rank, a->dims, "convert(%s)", a->name));
}

/* A scalar everywhere in an array like this one. */
static Value *everywhere(Gen *g, const Value *like, const Value *scalar)
{
    return rough(emit(g, scalar->type, like->rank, like->dims,
                      "broadcast(%s), dimensions={}", scalar->name));
}

static Value *number(Gen *g, const Value *like, double value)
{
    return everywhere(g, like, constant_scalar(g, like->type, value));
}

static Value *fold(Gen *g, const Value *a, int d, const char *op)
{
    int64_t dims[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < a->rank; i++) {
        if (i != d)
            dims[rank++] = a->dims[i];
    }
    Value *init = strcmp(op, "add") == 0 ? constant_scalar(g, a->type, 0)
                                         : emit(g, a->type, 0, NULL, "constant(-inf)");
    return rough(emit(g, a->type, rank, dims,
                      "reduce(%s, %s), dimensions={%d}, to_apply=%s", a->name, init->name,
                      d, reducer(g, a->type, op)));
}

/* What lacks dimension d, along it. */
static Value *spread(Gen *g, const Value *a, const Value *like, int d)
{
    int64_t map[MAX_RANK];
    char text[128];
    for (int i = 0; i < a->rank; i++)
        map[i] = i + (i >= d);
    return rough(emit(g, a->type, like->rank, like->dims,
                      "broadcast(%s), dimensions={%s}", a->name,
                      list(map, a->rank, text)));
}

/* Exact floats of this rank at least, none of them special, in f32 (or f64) to compute with. */
static Value *wide_floats(Gen *g, int least)
{
    Value *a = pick_rank(g, least);
    if (!is_float(a->type) || !is_arithmetic(a->type) || a->special || a->depth > 0 ||
        a->high > 5 || elements_of(a) == 0)
        return NULL;
    return a->type == DT_F64 || a->type == DT_F32 ? a : convert(g, a, DT_F32);
}

static Value *softmax(Gen *g, const Value *x, int d)
{
    Value *most = fold(g, x, d, "maximum");
    Value *e =
        apply(g, "exponential", apply_two(g, "subtract", x, spread(g, most, x, d)));
    Value *sum = fold(g, e, d, "add");
    if (chance(g, 25)) { /* its logarithm */
        Value *all = apply_two(g, "add", apply(g, "log", sum), most);
        return apply_two(g, "subtract", x, spread(g, all, x, d));
    }
    return apply_two(g, "divide", e, spread(g, sum, x, d));
}

static void norm(Gen *g, const Value *x, int d)
{
    Value like = {.type = x->type, .rank = 1, .dims = {x->dims[d]}};
    char at[16];
    Value *scale = same_shape(g, &like, x->type);
    if (scale->special || scale->depth > 0)
        return;
    Value *mean = fold(g, x, d, "add");
    mean = apply_two(g, "divide", mean, number(g, mean, (double)x->dims[d]));
    Value *centred = chance(g, 70) ? apply_two(g, "subtract", x, spread(g, mean, x, d))
                                   : apply_two(g, "add", x, number(g, x, 0));
    Value *square = fold(g, apply_two(g, "multiply", centred, centred), d, "add");
    square = apply_two(g, "divide", square, number(g, square, (double)x->dims[d]));
    Value *size = apply(g, "rsqrt", apply_two(g, "add", square, number(g, square, 0.5)));
    Value *y = apply_two(g, "multiply", centred, spread(g, size, x, d));
    snprintf(at, sizeof at, "%d", d);
    Value *s = rough(emit(g, x->type, x->rank, x->dims, "broadcast(%s), dimensions={%s}",
                          scale->name, at));
    apply_two(g, "multiply", y, s);
}

static void activation(Gen *g, const Value *x)
{
    int kind = (int)below(g, 3);
    if (kind == 0) {
        apply_two(g, "multiply", x, apply(g, "logistic", x));
    } else if (kind == 1) {
        apply_two(g, "maximum", x, number(g, x, 0));
    } else {
        Value *cube = apply_two(g, "multiply", x, apply_two(g, "multiply", x, x));
        Value *inner =
            apply_two(g, "add", x, apply_two(g, "multiply", cube, number(g, x, 0.25)));
        Value *half = apply_two(g, "multiply", x, number(g, x, 0.5));
        apply_two(g, "multiply", half,
                  apply_two(g, "add", apply(g, "tanh", inner), number(g, x, 1)));
    }
}

void gen_normalised(Gen *g)
{
    Value *x = wide_floats(g, 1);
    if (x == NULL)
        return;
    int d = chance(g, 60) ? x->rank - 1 : (int)below(g, x->rank), kind = (int)below(g, 3);
    if (kind == 0) {
        Value *y = softmax(g, x, d);
        if (chance(g, 40))
            convert(g, y, chance(g, 50) ? DT_BF16 : DT_F16);
    } else if (kind == 1) {
        norm(g, x, d);
    } else {
        activation(g, x);
    }
}

/* -- gradients of norms, losses --------------------------------------------------------------------- */

static int64_t one_of(Gen *g, const int *sizes, int64_t count)
{
    return sizes[below(g, count)];
}

/* Rows and columns of an array: of one warp, of a block, of several. */
static void choose_matrix(Gen *g, int64_t dims[2])
{
    static const int sizes[] = {1,   3,   8,   31,   33,   64,  100,
                                129, 257, 512, 1000, 1025, 2050};
    do {
        dims[0] = one_of(g, sizes, 11);
        dims[1] = one_of(g, sizes, 13);
    } while (dims[0] * dims[1] > 33000);
    if (chance(g, 10)) { /* too long to be kept by a block */
        dims[0] = 1 + below(g, 2);
        dims[1] = chance(g, 50) ? 33024 : 40000;
    }
}

static Value *mean_along(Gen *g, const Value *a, int d)
{
    Value *sum = fold(g, a, d, "add");
    return apply_two(g, "divide", sum, number(g, sum, (double)a->dims[d]));
}

/* x is what a norm has read, y what comes back to it: what goes on to x, and to its scale and bias. */
void gen_norm_gradient(Gen *g)
{
    static const DType types[] = {DT_F32, DT_F32, DT_BF16, DT_F16};
    DType t = types[below(g, 4)];
    int64_t dims[2];
    bool centres = chance(g, 50);
    if (!g->entry || g->count > 60)
        return;
    choose_matrix(g, dims);
    Value *x = small_argument(g, t, 2, dims), *y = small_argument(g, t, 2, dims),
          *scale = small_argument(g, DT_F32, 1, &dims[1]);
    x = t == DT_F32 ? x : convert(g, x, DT_F32);
    y = t == DT_F32 ? y : convert(g, y, DT_F32);
    if (centres)
        x = apply_two(g, "subtract", x, spread(g, mean_along(g, x, 1), x, 1));
    Value *square = mean_along(g, apply_two(g, "multiply", x, x), 1);
    Value *size = apply(g, "rsqrt", apply_two(g, "add", square, number(g, square, 0.5)));
    size = spread(g, size, x, 1);
    Value *unit = apply_two(g, "multiply", x, size);
    Value *back = apply_two(g, "multiply", y, spread(g, scale, x, 0));
    Value *along = mean_along(g, apply_two(g, "multiply", back, unit), 1);
    Value *dx = apply_two(g, "subtract", back,
                          apply_two(g, "multiply", unit, spread(g, along, x, 1)));
    if (centres)
        dx = apply_two(g, "subtract", dx, spread(g, mean_along(g, back, 1), x, 1));
    dx = apply_two(g, "multiply", dx, size);
    if (t != DT_F32)
        convert(g, dx, t);
    fold(g, apply_two(g, "multiply", y, unit), 0, "add");
    if (centres)
        fold(g, y, 0, "add");
}

/* Of each row the element of a number: by a gather, or by what is compared with all numbers. */
static Value *picked(Gen *g, const Value *x, const Value *labels, const Value *hit)
{
    if (chance(g, 50)) {
        Value *at =
            emit(g, DT_S32, 2, (int64_t[]){x->dims[0], 1}, "reshape(%s)", labels->name);
        return rough(emit(g, x->type, 1, x->dims,
                          "gather(%s, %s), offset_dims={}, collapsed_slice_dims={1}, "
                          "start_index_map={1}, operand_batching_dims={0}, "
                          "start_indices_batching_dims={0}, index_vector_dim=1, "
                          "slice_sizes={1,1}",
                          x->name, at->name));
    }
    Value *none = number(g, x, 0);
    Value *only = rough(emit(g, x->type, 2, x->dims, "select(%s, %s, %s)", hit->name,
                             x->name, none->name));
    return fold(g, only, 1, "add");
}

/* How much each row says that is its label's, and what comes back of it to the row. */
void gen_cross_entropy(Gen *g)
{
    static const DType types[] = {DT_F32, DT_F32, DT_BF16, DT_F16};
    DType t = types[below(g, 4)];
    int64_t dims[2];
    if (!g->entry || g->count > 60)
        return;
    choose_matrix(g, dims);
    Value *x = small_argument(g, t, 2, dims),
          *labels = small_argument(g, DT_S32, 1, &dims[0]);
    x = t == DT_F32 ? x : convert(g, x, DT_F32);
    Value *columns = emit(g, DT_S32, 2, dims, "iota(), iota_dimension=1");
    Value *wanted = spread(g, labels, columns, 1);
    Value *hit = emit(g, DT_PRED, 2, dims, "compare(%s, %s), direction=EQ", wanted->name,
                      columns->name);
    Value *most = fold(g, x, 1, "maximum");
    Value *e =
        apply(g, "exponential", apply_two(g, "subtract", x, spread(g, most, x, 1)));
    Value *sum = fold(g, e, 1, "add");
    Value *all = apply_two(g, "add", apply(g, "log", sum), most);
    Value *loss = apply_two(g, "subtract", all, picked(g, x, labels, hit));
    if (chance(g, 60))
        mean_along(g, loss, 0);
    if (chance(g, 50))
        return;
    Value *share = apply_two(g, "divide", e, spread(g, sum, x, 1));
    Value *one = number(g, x, 1), *none = number(g, x, 0);
    Value *own = rough(
        emit(g, DT_F32, 2, dims, "select(%s, %s, %s)", hit->name, one->name, none->name));
    Value *back = apply_two(g, "subtract", share, own);
    if (t != DT_F32)
        convert(g, back, t);
}

/* -- attention ----------------------------------------------------------------------------------- */

/* Of a query only those keys that are not behind it. */
static Value *masked(Gen *g, const Value *scores)
{
    Value *row = emit(g, DT_S32, 3, scores->dims, "iota(), iota_dimension=1");
    Value *column = emit(g, DT_S32, 3, scores->dims, "iota(), iota_dimension=2");
    Value *sees = emit(g, DT_PRED, 3, scores->dims, "compare(%s, %s), direction=GE",
                       row->name, column->name);
    Value *never = number(g, scores, -1e4);
    return rough(emit(g, scores->type, 3, scores->dims, "select(%s, %s, %s)", sees->name,
                      scores->name, never->name));
}

static Value *dot(Gen *g, DType t, const int64_t *dims, const Value *a, const Value *b,
                  int left, int right)
{
    return rough(emit(g, t, 3, dims,
                      "dot(%s, %s), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                      "lhs_contracting_dims={%d}, rhs_contracting_dims={%d}",
                      a->name, b->name, left, right));
}

void gen_attention(Gen *g)
{
    static const DType types[] = {DT_F32, DT_F32, DT_BF16, DT_F16};
    DType t = types[below(g, generate_plain ? 1 : 4)];
    int64_t b = 1 + below(g, 3), n = 1 + below(g, 20),
            m = chance(g, 50) ? n : 1 + below(g, 20), k = 1 + below(g, 12);
    Value like[2] = {{.type = t, .rank = 3, .dims = {b, n, k}},
                     {.type = t, .rank = 3, .dims = {b, m, k}}};
    Value *in[3];
    for (int i = 0; i < 3; i++) {
        in[i] = same_shape(g, &like[i > 0], t);
        if (in[i]->special || in[i]->depth > 0 || in[i]->high > 5)
            return;
    }
    Value *scores = dot(g, DT_F32, (int64_t[]){b, n, m}, in[0], in[1], 2, 2);
    if (chance(g, 50))
        scores = apply_two(g, "multiply", scores, number(g, scores, 0.5));
    if (chance(g, 50))
        scores = masked(g, scores);
    Value *weights = softmax(g, scores, 2);
    if (t != DT_F32)
        weights = convert(g, weights, t);
    dot(g, DT_F32, (int64_t[]){b, n, k}, weights, in[2], 2, 1);
}

/* -- rows -------------------------------------------------------------------------------------- */

/* Running sums or maxima, as a window over all that came before. */
static void running(Gen *g, const Value *a)
{
    const char *op = chance(g, 60) ? "add" : "maximum";
    int d = (int)below(g, a->rank);
    bool back = chance(g, 30);
    char size[64] = "", pad[64] = "";
    if (!is_int(a->type) && (!is_float(a->type) || a->special))
        return;
    if (!can_reduce(a, op) || a->dims[d] == 0 || a->dims[d] > 300)
        return;
    for (int i = 0; i < a->rank; i++) {
        int n = i == d ? (int)a->dims[i] : 1;
        sprintf(size + strlen(size), "%s%d", i ? "x" : "", n);
        sprintf(pad + strlen(pad), "%s%d_%d", i ? "x" : "", back ? 0 : n - 1,
                back ? n - 1 : 0);
    }
    Value *init = constant_scalar(g, a->type, 0);
    Value *v = emit(g, a->type, a->rank, a->dims,
                    "reduce-window(%s, %s), window={size=%s pad=%s}, to_apply=%s",
                    a->name, init->name, size, pad, reducer(g, a->type, op));
    reduced(v, a, op, a->dims[d]);
}

/* Rows of a table by number: a gather, or a dot with ones where the numbers are. */
static void rows(Gen *g, const Value *table)
{
    int64_t n = 1 + below(g, 12), dims[] = {n, table->dims[1]},
            sizes[] = {n, table->dims[0]};
    Value like = {.type = DT_S32, .rank = 1, .dims = {n}};
    Value *numbers = same_shape(g, &like, DT_S32);
    if (chance(g, 50)) {
        Value *columns = emit(g, DT_S32, 2, sizes, "iota(), iota_dimension=1");
        Value *wanted =
            emit(g, DT_S32, 2, sizes, "broadcast(%s), dimensions={0}", numbers->name);
        Value *hit = emit(g, DT_PRED, 2, sizes, "compare(%s, %s), direction=EQ",
                          wanted->name, columns->name);
        Value *ones = emit(g, table->type, 2, sizes, "convert(%s)", hit->name);
        Value *v = emit(g, table->type, 2, dims,
                        "dot(%s, %s), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                        ones->name, table->name);
        moved(v, table, NULL);
        v->pure = is_int(v->type);
        return;
    }
    Value *v = emit(g, table->type, 2, dims,
                    "gather(%s, %s), offset_dims={1}, collapsed_slice_dims={0}, "
                    "start_index_map={0}, index_vector_dim=1, slice_sizes={1,%d}",
                    table->name, numbers->name, (int)table->dims[1]);
    moved(v, table, NULL);
}

/* Tiles of an image side by side. */
static void patches(Gen *g, const Value *a)
{
    int64_t x = a->dims[0], y = a->dims[1], p = 1 + below(g, 4), q = 1 + below(g, 4);
    if (x % p != 0 || y % q != 0)
        return;
    Value *v =
        emit(g, a->type, 4, (int64_t[]){x / p, p, y / q, q}, "reshape(%s)", a->name);
    moved(v, a, NULL);
    Value *t = emit(g, a->type, 4, (int64_t[]){x / p, y / q, p, q},
                    "transpose(%s), dimensions={0,2,1,3}", v->name);
    moved(t, a, NULL);
    v = emit(g, a->type, 2, (int64_t[]){x / p * (y / q), p * q}, "reshape(%s)", t->name);
    moved(v, a, NULL);
}

void gen_rows(Gen *g)
{
    Value *a = pick_rank(g, 1);
    int kind = (int)below(g, 3);
    bool exact = is_int(a->type) ? dtype_info[a->type].bits >= 8
                                 : is_float(a->type) && dtype_info[a->type].bits >= 16;
    if (kind == 0)
        running(g, a);
    else if (kind == 1 && a->rank == 2 && exact && !a->special && a->depth == 0 &&
             a->dims[0] > 0)
        rows(g, a);
    else if (kind == 2 && a->rank == 2)
        patches(g, a);
}

/* -- whole numbers ------------------------------------------------------------------------------ */

static Value *quantised(Gen *g, const Value *a)
{
    Value *scale = constant_scalar(g, a->type, 4);
    Value *x =
        emit(g, a->type, a->rank, a->dims, "broadcast(%s), dimensions={}", scale->name);
    x = emit(g, a->type, a->rank, a->dims, "multiply(%s, %s)", a->name, x->name);
    x = emit(g, a->type, a->rank, a->dims, "round-nearest-even(%s)", x->name);
    Value *low = constant_scalar(g, a->type, -128),
          *high = constant_scalar(g, a->type, 127);
    x = emit(g, a->type, a->rank, a->dims, "clamp(%s, %s, %s)", low->name, x->name,
             high->name);
    rough(x);
    return emit(g, DT_S8, a->rank, a->dims, "convert(%s)", x->name);
}

/* Floats as whole numbers of a step, multiplied as these, and made floats again. */
void gen_quantised(Gen *g)
{
    Value *a = pick_type(g, DT_F32);
    if (a->rank != 2 || a->special || a->depth > 0 || a->high > 10 ||
        elements_of(a) > 1000)
        return;
    int64_t n = 1 + below(g, 8), dims[] = {a->dims[0], n};
    Value like = {.type = DT_F32, .rank = 2, .dims = {a->dims[1], n}};
    Value *b = same_shape(g, &like, DT_F32);
    if (b->special || b->depth > 0 || b->high > 10)
        return;
    Value *left = quantised(g, a), *right = quantised(g, b);
    Value *sum = emit(g, DT_S32, 2, dims,
                      "dot(%s, %s), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                      left->name, right->name);
    Value *back = convert(g, sum, DT_F32);
    apply_two(g, "multiply", back, number(g, back, 0.0625));
}

/* Mean and squares about it of values, by combining counts, means and squares. */
void gen_moments(Gen *g)
{
    Value *a = pick_type(g, DT_F32);
    if (a->rank == 0 || a->special || a->depth > 0 || a->high > 5 || elements_of(a) == 0)
        return;
    int d = (int)below(g, a->rank), id = g->shared->next_id++, rank = 0;
    int64_t dims[MAX_RANK];
    char small[128];
    for (int i = 0; i < a->rank; i++) {
        if (i != d)
            dims[rank++] = a->dims[i];
    }
    Value part = {.type = DT_F32, .rank = rank};
    memcpy(part.dims, dims, sizeof dims);
    shape_of(&part, small);
    fprintf(g->shared->head,
            "moments%d {\n  m = f32[] parameter(0)\n  s = f32[] parameter(1)\n"
            "  n = f32[] parameter(2)\n  m2 = f32[] parameter(3)\n"
            "  other_s = f32[] parameter(4)\n  n2 = f32[] parameter(5)\n"
            "  all = f32[] add(n, n2)\n  one = f32[] constant(1)\n"
            "  by = f32[] maximum(all, one)\n  d = f32[] subtract(m2, m)\n"
            "  w = f32[] divide(n2, by)\n  dw = f32[] multiply(d, w)\n"
            "  mean = f32[] add(m, dw)\n  dd = f32[] multiply(d, dw)\n"
            "  q = f32[] multiply(dd, n)\n  ss = f32[] add(s, other_s)\n"
            "  sum = f32[] add(ss, q)\n"
            "  ROOT r = (f32[], f32[], f32[]) tuple(mean, sum, all)\n}\n",
            id);
    Value *zero = constant_scalar(g, DT_F32, 0);
    Value *none = number(g, a, 0), *ones = number(g, a, 1);
    say(g,
        "  t%d = (%s, %s, %s) reduce(%s, %s, %s, %s, %s, %s), dimensions={%d}, "
        "to_apply=moments%d\n",
        id, small, small, small, a->name, none->name, ones->name, zero->name, zero->name,
        zero->name, d, id);
    for (int i = 0; i < 3; i++)
        rough(emit(g, DT_F32, rank, dims, "get-tuple-element(t%d), index=%d", id, i));
}

/* Floats in an order that NaN and both zeros belong to, as programs compare them. */
void gen_sort_floats(Gen *g)
{
    Value *a = pick_class(g, "f");
    if (a->rank == 0 || a->depth > 0 || !is_arithmetic(a->type) ||
        (a->special && !a->pure) || dtype_info[a->type].bits < 16)
        return;
    int d = (int)below(g, a->rank), id = g->shared->next_id++;
    const char *t = dtype_info[a->type].name;
    char shape[128], whole[128];
    fprintf(g->shared->head, "floats%d {\n", id);
    for (int i = 0; i < 4; i++)
        fprintf(g->shared->head, "  p%d = %s[] parameter(%d)\n", i, i < 2 ? t : "s32", i);
    fprintf(g->shared->head, "  z = %s[] constant(0)\n  n = %s[] constant(nan)\n", t, t);
    for (int i = 0; i < 2; i++)
        fprintf(g->shared->head,
                "  e%d = pred[] compare(p%d, z), direction=EQ\n"
                "  y%d = %s[] select(e%d, z, p%d)\n"
                "  x%d = pred[] compare(p%d, p%d), direction=NE\n"
                "  w%d = %s[] select(x%d, n, y%d)\n",
                i, i, i, t, i, i, i, i, i, i, t, i, i);
    fprintf(g->shared->head,
            "  ROOT r = pred[] compare(w0, w1), direction=%s, type=TOTALORDER\n}\n",
            chance(g, 50) ? "LT" : "GT");
    Value *index = emit(g, DT_S32, a->rank, a->dims, "iota(), iota_dimension=%d", d);
    Value like = *index;
    say(g,
        "  t%d = (%s, %s) sort(%s, %s), dimensions={%d}, is_stable=true, "
        "to_apply=floats%d\n",
        id, shape_of(a, whole), shape_of(&like, shape), a->name, index->name, d, id);
    Value *v = emit(g, a->type, a->rank, a->dims, "get-tuple-element(t%d), index=0", id);
    moved(v, a, NULL);
    emit(g, DT_S32, a->rank, a->dims, "get-tuple-element(t%d), index=1", id);
}
