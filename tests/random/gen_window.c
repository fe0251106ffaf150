/* Random operations with windows: reductions, selections, convolutions. */
#include <string.h>

#include "tests/random/value.h"

typedef struct Win {
    int rank;
    int64_t size[MAX_RANK], stride[MAX_RANK], low[MAX_RANK], high[MAX_RANK];
    int64_t base[MAX_RANK], spread[MAX_RANK]; /* dilations */
    bool turned[MAX_RANK];
    int64_t dims[MAX_RANK]; /* of the result */
    int64_t elements;       /* of one window */
    int64_t total;
} Win;

typedef enum { WINDOW_PLAIN, WINDOW_DILATED, WINDOW_TURNED } WindowKind;

static void choose_dimension(Gen *g, Win *w, int i, int64_t n, WindowKind kind)
{
    int64_t size = n == 0 || chance(g, 40) ? 1 : 1 + below(g, 4);
    if (chance(g, 8))
        size = n > 0 ? n : 1;
    w->size[i] = size;
    w->stride[i] = 1 + (chance(g, 30) ? below(g, 3) : 0);
    w->low[i] = chance(g, 60) ? 0 : below(g, size);
    w->high[i] = chance(g, 60) ? 0 : below(g, size);
    w->spread[i] = kind != WINDOW_PLAIN && chance(g, 20) ? 2 : 1;
    w->base[i] = kind != WINDOW_PLAIN && chance(g, 20) ? 2 : 1;
    w->turned[i] = kind == WINDOW_TURNED && chance(g, 15);
    if (kind != WINDOW_PLAIN && chance(g, 8)) { /* what is cut off, or all of the way */
        w->low[i] = n > 2 ? -1 : 2 * size;
        w->high[i] = chance(g, 50) ? 0 : 2 * size;
    }
    int64_t padded = (n > 0 ? (n - 1) * w->base[i] + 1 : 0) + w->low[i] + w->high[i];
    int64_t span = (size - 1) * w->spread[i] + 1;
    w->dims[i] = padded < span ? 0 : (padded - span) / w->stride[i] + 1;
}

/* Windows on an array of these dimensions. */
static bool choose_window(Gen *g, int rank, const int64_t *dims, WindowKind kind, Win *w)
{
    *w = (Win){.rank = rank, .elements = 1, .total = 1};
    for (int i = 0; i < rank; i++) {
        choose_dimension(g, w, i, dims[i], kind);
        w->elements *= w->size[i];
        w->total *= w->dims[i] * w->size[i];
    }
    return w->total <= 4 * g->shared->most_elements;
}

static int print_numbers(char *to, const char *name, const int64_t *numbers, int n)
{
    int at = sprintf(to, "%s=", name);
    for (int i = 0; i < n; i++)
        at += sprintf(to + at, "%s%lld", i ? "x" : "", (long long)numbers[i]);
    return at;
}

/* " window={...}," or nothing for a point. */
static const char *window_text(const Win *w, char out[512])
{
    int at = 0;
    int64_t turned[MAX_RANK];
    bool any_turned = false;
    out[0] = '\0';
    if (w->rank == 0)
        return out;
    at += sprintf(out, " window={");
    at += print_numbers(out + at, "size", w->size, w->rank);
    at += print_numbers(out + at, " stride", w->stride, w->rank);
    at += sprintf(out + at, " pad=");
    for (int i = 0; i < w->rank; i++) {
        at += sprintf(out + at, "%s%lld_%lld", i ? "x" : "", (long long)w->low[i],
                      (long long)w->high[i]);
        turned[i] = w->turned[i];
        any_turned = any_turned || turned[i];
    }
    at += print_numbers(out + at, " lhs_dilate", w->base, w->rank);
    at += print_numbers(out + at, " rhs_dilate", w->spread, w->rank);
    if (any_turned)
        at += print_numbers(out + at, " rhs_reversal", turned, w->rank);
    sprintf(out + at, "},");
    return out;
}

void gen_reduce_window(Gen *g)
{
    Value *a = pick_rank(g, chance(g, 95) ? 1 : 0);
    Win w;
    Value *init;
    char text[512];
    const char *op = choose_reduction(g, a, &init);
    if (!can_reduce(a, op) || !choose_window(g, a->rank, a->dims, WINDOW_DILATED, &w))
        return;
    Value *v = emit(g, a->type, a->rank, w.dims, "reduce-window(%s, %s),%s to_apply=%s",
                    a->name, init->name, window_text(&w, text), reducer(g, a->type, op));
    reduced(v, a, op, w.elements);
}

/* Running values along dimension d, from the front or the back. */
static bool choose_running(Gen *g, const Value *a, int d, Win *w)
{
    int64_t n = a->dims[d];
    *w = (Win){.rank = a->rank, .elements = n};
    for (int i = 0; i < a->rank; i++) {
        w->size[i] = w->stride[i] = w->base[i] = w->spread[i] = 1;
        w->dims[i] = a->dims[i];
    }
    w->size[d] = n;
    *(chance(g, 50) ? &w->low[d] : &w->high[d]) = n - 1;
    return n > 0;
}

void gen_reduce_window_ordered(Gen *g)
{
    Value *a = pick_rank(g, 1);
    Win w;
    char text[512];
    if (!is_int(a->type))
        return;
    if (chance(g, 60) ? choose_running(g, a, (int)below(g, a->rank), &w)
                      : choose_window(g, a->rank, a->dims, WINDOW_DILATED, &w))
        combine_ordered(g, a, -1, "reduce-window", window_text(&w, text), a->rank,
                        w.dims);
}

/* Two arrays at once: the sums of one, the largest elements of the other. */
void gen_reduce_window_pair(Gen *g)
{
    Value *a = pick_rank(g, 1);
    Win w;
    char text[512], shapes[2][128];
    if (!can_reduce(a, "maximum") || is_complex(a->type) || a->special ||
        !choose_window(g, a->rank, a->dims, WINDOW_DILATED, &w))
        return;
    Value *b = same_shape(g, a, chance(g, 50) ? DT_S32 : DT_F32);
    Value *start[2] = {constant_scalar(g, a->type, 0), constant_scalar(g, b->type, 0)};
    if (!can_reduce(b, "add") || b->special)
        return;
    const char *t = dtype_info[a->type].name, *u = dtype_info[b->type].name;
    int id = g->shared->next_id++;
    fprintf(g->shared->head,
            "both%d {\n  a = %s[] parameter(0)\n  b = %s[] parameter(1)\n"
            "  c = %s[] parameter(2)\n  d = %s[] parameter(3)\n"
            "  m = %s[] %s(a, c)\n  s = %s[] add(b, d)\n"
            "  ROOT r = (%s[], %s[]) tuple(m, s)\n}\n",
            id, t, u, t, u, t, a->type == DT_PRED ? "or" : "maximum", u, t, u);
    Value facts[2] = {*a, *b};
    for (int i = 0; i < 2; i++) {
        memcpy(facts[i].dims, w.dims, sizeof w.dims);
        shape_of(&facts[i], shapes[i]);
    }
    say(g, "  t%d = (%s, %s) reduce-window(%s, %s, %s, %s),%s to_apply=both%d\n", id,
        shapes[0], shapes[1], a->name, b->name, start[0]->name, start[1]->name,
        window_text(&w, text), id);
    for (int i = 0; i < 2; i++) {
        Value *v = emit(g, facts[i].type, a->rank, w.dims,
                        "get-tuple-element(t%d), index=%d", id, i);
        reduced(v, &facts[i], i == 0 ? "maximum" : "add", w.elements);
    }
}

void gen_select_and_scatter(Gen *g)
{
    static const char *const directions[] = {"GE", "GE", "LE", "GT", "LT"};
    Value *a = pick_rank(g, 1);
    Win w;
    char text[512];
    if (a->depth > 0 || a->special || is_complex(a->type) || !is_arithmetic(a->type) ||
        a->type == DT_PRED || !choose_window(g, a->rank, a->dims, WINDOW_PLAIN, &w))
        return;
    Value like = *a;
    memcpy(like.dims, w.dims, sizeof like.dims);
    Value *source = same_shape(g, &like, a->type);
    if (source->special || !may_round(source))
        return;
    Value *init = constant_scalar(g, a->type, 0);
    const char *t = dtype_info[a->type].name;
    int id = g->shared->next_id++;
    fprintf(g->shared->head,
            "choice%d {\n  a = %s[] parameter(0)\n  b = %s[] parameter(1)\n"
            "  ROOT r = pred[] compare(a, b), direction=%s\n}\n",
            id, t, t, directions[below(g, 5)]);
    Value *v = emit(g, a->type, a->rank, a->dims,
                    "select-and-scatter(%s, %s, %s),%s select=choice%d, scatter=%s",
                    a->name, source->name, init->name, window_text(&w, text), id,
                    reducer(g, a->type, "add"));
    reduced(v, source, "add", w.elements);
}

/* -- convolutions ------------------------------------------------------------------------------ */

typedef struct Conv {
    int spatial;
    int64_t batch, in, out, groups, batch_groups;
    Win w;
    int64_t image[3]; /* spatial dimensions of the left operand */
    char labels[3][MAX_RANK + 1];
} Conv;

/* Letters in any order, "b" and "f" of arrays or "i" and "o" of kernels among digits. */
static void choose_labels(Gen *g, int spatial, const char *letters, char *out)
{
    int n = 0;
    for (int i = 0; i < spatial; i++)
        out[n++] = (char)('0' + i);
    out[n++] = letters[0];
    out[n++] = letters[1];
    out[n] = '\0';
    for (int i = n - 1; i > 0 && chance(g, 80); i--) {
        int at = (int)below(g, i + 1);
        char c = out[i];
        out[i] = out[at];
        out[at] = c;
    }
}

static bool choose_conv(Gen *g, Conv *c)
{
    int64_t few = 1 + below(g, 3);
    *c = (Conv){.spatial = chance(g, 8) ? 0 : chance(g, 10) ? 3 : 1 + (int)below(g, 2)};
    c->groups = chance(g, 25) ? 2 : 1;
    c->batch_groups = c->groups == 1 && chance(g, 20) ? 2 : 1;
    int64_t most = generate_products ? 40 : 3; /* features */
    c->in = (1 + below(g, most)) * c->groups;
    c->out = (1 + below(g, most)) * c->groups * c->batch_groups;
    c->batch = few * c->batch_groups;
    for (int i = 0; i < c->spatial; i++)
        c->image[i] = 1 + below(g, c->spatial == 3 ? 4 : 8);
    choose_labels(g, c->spatial, "bf", c->labels[0]);
    choose_labels(g, c->spatial, "io", c->labels[1]);
    choose_labels(g, c->spatial, "bf", c->labels[2]);
    return choose_window(g, c->spatial, c->image, WINDOW_TURNED, &c->w);
}

/* Dimensions of an operand or the result (part 0, 1, 2) by its labels. */
static void conv_dims(const Conv *c, int part, int64_t *dims)
{
    const int64_t *spatial = part == 0 ? c->image : part == 1 ? c->w.size : c->w.dims;
    for (int i = 0; i < c->spatial + 2; i++) {
        char l = c->labels[part][i];
        dims[i] = l == 'b'   ? (part == 0 ? c->batch : c->batch / c->batch_groups)
                  : l == 'f' ? (part == 0 ? c->in : c->out)
                  : l == 'i' ? c->in / c->groups
                  : l == 'o' ? c->out
                             : spatial[l - '0'];
    }
}

static DType choose_result(Gen *g, DType t)
{
    const DTypeInfo *i = &dtype_info[t];
    if (is_float(t) && i->bits <= 8)
        return chance(g, 70) ? DT_F32 : DT_BF16;
    if ((t == DT_BF16 || t == DT_F16 || t == DT_S8) && chance(g, 30))
        return t == DT_S8 ? DT_S32 : DT_F32;
    return t;
}

void gen_convolution(Gen *g)
{
    static const DType types[] = {DT_F32, DT_F32, DT_BF16, DT_F16, DT_F64,
                                  DT_S32, DT_S8,  DT_C64,  DT_U8,  DT_F8E5M2};
    DType t = types[below(g, generate_plain ? 7 : 10)];
    Conv c;
    char window[512], counts[80] = "";
    if (!choose_conv(g, &c))
        return;
    Value left = {.rank = c.spatial + 2}, right = left;
    int64_t dims[MAX_RANK];
    conv_dims(&c, 0, left.dims);
    conv_dims(&c, 1, right.dims);
    conv_dims(&c, 2, dims);
    Value *a = same_shape(g, &left, t);
    Value *b = same_shape(g, &right, t);
    bool is_tf32 = generate_products && t == DT_F32;
    if (a->special || b->special || !may_round(a) || !may_round(b) ||
        (is_tf32 && (!is_short(a, 10) || !is_short(b, 10))) ||
        (a->depth + b->depth > 0 && max_depth(t) < 4))
        return;
    if (c.groups > 1 || chance(g, 20))
        sprintf(counts, ", feature_group_count=%d", (int)c.groups);
    if (c.batch_groups > 1)
        sprintf(counts + strlen(counts), ", batch_group_count=%d", (int)c.batch_groups);
    Value *v =
        emit(g, generate_plain ? t : choose_result(g, t), c.spatial + 2, dims,
             "convolution(%s, %s),%s dim_labels=%s_%s->%s%s", a->name, b->name,
             window_text(&c.w, window), c.labels[0], c.labels[1], c.labels[2], counts);
    v->high = a->high + b->high + log2_up(c.in * c.batch * c.w.elements) + is_complex(t);
    v->grain = a->grain + b->grain;
    settle(v, a->depth > b->depth ? a->depth : b->depth);
}
