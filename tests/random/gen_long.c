/* Random operations on arrays of more than one tile, block or radix digit: sizes beside powers of two, rows that
 * several blocks share, updates that are sorted before they are added. Operands are made for them, as few random
 * arrays are so long. */
#include <string.h>

#include "tests/random/value.h"

/* About a power of two, or what tiles end behind. */
static int64_t long_size(Gen *g, int64_t most)
{
    static const int sizes[] = {255,  256,  257,   511,   513,   1000,  1023,  1024, 1025,
                                2047, 2049, 3000,  4095,  4096,  4097,  5000,  8191, 8192,
                                8193, 9999, 12289, 16383, 16384, 16385, 20000, 32769};
    int64_t n;
    do
        n = sizes[below(g, sizeof sizes / sizeof *sizes)];
    while (n > most);
    return n;
}

static Value *spread_number(Gen *g, const Value *like, int number)
{
    Value *s = emit(g, like->type, 0, NULL, "constant(%d)", number);
    return emit(g, like->type, like->rank, like->dims, "broadcast(%s), dimensions={}",
                s->name);
}

static bool may_be_long(const Gen *g)
{
    return g->entry && g->count < 60;
}

static int64_t rows_of(Gen *g, int64_t n, int64_t most_elements, int64_t most)
{
    return 1 + below(g, most_elements / n < most ? most_elements / n : most);
}

/* -- scatters ---------------------------------------------------------------------------------------- */

/* Positions of n updates among `positions`: rising, the same few, or all over the array; some are outside. */
static Value *update_positions(Gen *g, int64_t n, int64_t positions, bool *rises)
{
    Value *i = emit(g, DT_S32, 1, &n, "iota(), iota_dimension=0");
    int kind = (int)below(g, 4);
    *rises = kind == 0;
    if (kind == 0) {
        Value *k = spread_number(g, i, (int)(1 + n / positions));
        return emit(g, DT_S32, 1, &n, "divide(%s, %s)", i->name, k->name);
    }
    Value *p = small_argument(g, DT_S32, 1, &n);
    if (kind == 1) /* few, and below 0 */
        return p;
    Value *x = spread_number(g, i, kind == 2 ? 17 : 7919);
    x = emit(g, DT_S32, 1, &n, "multiply(%s, %s)", i->name, x->name);
    x = emit(g, DT_S32, 1, &n, "add(%s, %s)", x->name, p->name);
    x = emit(g, DT_S32, 1, &n, "abs(%s)", x->name);
    Value *m = spread_number(g, i, (int)(positions + below(g, 3)));
    return emit(g, DT_S32, 1, &n, "remainder(%s, %s)", x->name, m->name);
}

/* Sums of segments, histograms, largest elements of groups: many updates of rows of an array. */
static void scatter_many(Gen *g)
{
    static const DType types[] = {DT_F32, DT_F32, DT_S32, DT_S32, DT_F64,
                                  DT_S64, DT_U8,  DT_U32, DT_BF16};
    DType t = types[below(g, 9)];
    int64_t width = chance(g, 70) ? 1 : 1 + below(g, 9), n = long_size(g, 40000 / width),
            positions = chance(g, 50) ? 1 + below(g, 40) : long_size(g, 8193);
    const char *op = is_int(t)       ? chance(g, 70) ? "add" : "maximum"
                     : t == DT_BF16  ? "minimum"
                     : chance(g, 70) ? "add"
                                     : "maximum";
    bool rises, has_width = width > 1;
    Value *at = update_positions(g, n, positions, &rises);
    Value *updates =
        chance(g, 30) && is_int(t)
            ? emit(g, t, 1 + has_width, (int64_t[]){n, width},
                   "broadcast(%s), dimensions={}", constant_scalar(g, t, 1)->name)
            : small_argument(g, t, 1 + has_width, (int64_t[]){n, width});
    Value *into = small_argument(g, t, 1 + has_width, (int64_t[]){positions, width});
    Value *column = emit(g, DT_S32, 2, (int64_t[]){n, 1}, "reshape(%s)", at->name);
    Value *v = emit(g, t, into->rank, into->dims,
                    "scatter(%s, %s, %s), update_window_dims={%s}, "
                    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                    "index_vector_dim=1%s, to_apply=%s",
                    into->name, column->name, updates->name, has_width ? "1" : "",
                    rises && chance(g, 50) ? ", indices_are_sorted=true" : "",
                    reducer(g, t, op));
    reduced(v, into, op, n + 1);
}

/* -- running values ---------------------------------------------------------------------------------- */

/* Along rows of several tiles: a window over all that came before, or behind. */
static void running_long(Gen *g)
{
    static const DType types[] = {DT_F32, DT_S32, DT_S32, DT_F64, DT_U8, DT_S64, DT_U16};
    DType t = types[below(g, 7)];
    int64_t n = long_size(g, 32769), rows = rows_of(g, n, 40000, 5);
    int d = (int)below(g, 2);
    bool back = chance(g, 40);
    int64_t dims[2] = {d == 0 ? n : rows, d == 0 ? rows : n};
    char attributes[200];
    Value *a = small_argument(g, t, 2, dims);
    snprintf(attributes, sizeof attributes,
             d == 0 ? " window={size=%lldx1 pad=%lld_%lldx0_0},"
                    : " window={size=1x%lld pad=0_0x%lld_%lld},",
             (long long)n, (long long)(back ? 0 : n - 1), (long long)(back ? n - 1 : 0));
    if (is_int(t) && chance(g, 50)) {
        combine_ordered(g, a, -1, "reduce-window", attributes, 2, dims);
        return;
    }
    const char *op = is_int(t) && chance(g, 20) ? "xor"
                     : chance(g, 70)            ? "add"
                                                : "maximum";
    Value *init = constant_scalar(g, t, 0);
    Value *v = emit(g, t, 2, dims, "reduce-window(%s, %s),%s to_apply=%s", a->name,
                    init->name, attributes, reducer(g, t, op));
    reduced(v, a, op, n);
}

/* -- reductions --------------------------------------------------------------------------------------- */

/* Few rows that blocks share, or many columns. */
static void reduce_long(Gen *g)
{
    static const DType types[] = {DT_F32, DT_F32, DT_BF16, DT_S32, DT_F64, DT_U8, DT_F16};
    int64_t n = long_size(g, 32769), rows = rows_of(g, n, 40000, 9);
    int d = (int)below(g, 2);
    int64_t dims[2] = {d == 0 ? n : rows, d == 0 ? rows : n};
    Value *a = small_argument(g, types[below(g, 7)], 2, dims), *init;
    const char *op = choose_reduction(g, a, &init);
    if (!can_reduce(a, op))
        return;
    Value *v = emit(g, a->type, 1, &rows, "reduce(%s, %s), dimensions={%d}, to_apply=%s",
                    a->name, init->name, d, reducer(g, a->type, op));
    reduced(v, a, op, n);
}

/* -- sorts --------------------------------------------------------------------------------------------- */

/* One key or two, each rising or falling; the second decides where the first is the same. */
static void print_order(Gen *g, int id, Value *const *a, int n, int keys)
{
    FILE *f = g->shared->head;
    fprintf(f, "keys%d {\n", id);
    for (int i = 0; i < 2 * n; i++)
        fprintf(f, "  p%d = %s[] parameter(%d)\n", i, dtype_info[a[i / 2]->type].name, i);
    for (int i = 0; i < keys; i++)
        fprintf(f,
                "  l%d = pred[] compare(p%d, p%d), direction=%s\n"
                "  e%d = pred[] compare(p%d, p%d), direction=EQ\n",
                i, 2 * i, 2 * i + 1, chance(g, 50) ? "LT" : "GT", i, 2 * i, 2 * i + 1);
    const char *last = keys == 1 ? "l0" : keys == 2 ? "l1" : "l2";
    if (keys == 3)
        fprintf(f, "  b1 = pred[] and(e1, l2)\n  o1 = pred[] or(l1, b1)\n");
    if (keys >= 2)
        fprintf(f, "  b0 = pred[] and(e0, %s)\n  ROOT r = pred[] or(l0, b0)\n}\n",
                keys == 3 ? "o1" : last);
    else
        fprintf(f, "  ROOT r = pred[] copy(l0)\n}\n");
}

static void sort_long(Gen *g)
{
    static const DType types[] = {DT_S32, DT_U8, DT_F32, DT_S64, DT_U16, DT_F64, DT_BF16};
    int64_t n = long_size(g, 9999), rows = rows_of(g, n, 12000, 4), dims[2] = {rows, n};
    int keys = 1 + (int)below(g, 3), count = keys + (int)below(g, 3),
        id = g->shared->next_id++;
    Value *a[6], facts[6];
    for (int i = 0; i < count; i++) {
        a[i] = i == keys && chance(g, 50)
                   ? emit(g, DT_S32, 2, dims, "iota(), iota_dimension=1")
                   : small_argument(g, types[below(g, 7)], 2, dims);
    }
    for (int i = 0; i < count; i++)
        facts[i] = *a[i];
    print_order(g, id, a, count, keys);
    char shape[128];
    if (count == 1) {
        moved(emit(g, facts[0].type, 2, dims,
                   "sort(%s), dimensions={1}, is_stable=true, to_apply=keys%d",
                   facts[0].name, id),
              &facts[0], NULL);
        return;
    }
    say(g, "  t%d = (", id);
    for (int i = 0; i < count; i++)
        say(g, "%s%s", i ? ", " : "", shape_of(&facts[i], shape));
    say(g, ") sort(");
    for (int i = 0; i < count; i++)
        say(g, "%s%s", i ? ", " : "", facts[i].name);
    say(g, "), dimensions={1}, is_stable=true, to_apply=keys%d\n", id);
    for (int i = 0; i < count; i++)
        moved(emit(g, facts[i].type, 2, dims, "get-tuple-element(t%d), index=%d", id, i),
              &facts[i], NULL);
}

/* -- transforms ---------------------------------------------------------------------------------------- */

/* Of lengths that one block has no room for, with large prime factors, and what lies beside those. */
static void transform_long(Gen *g)
{
    static const int lengths[] = {521,  1024, 1331, 2000, 2039,
                                  2048, 3600, 4096, 4099, 8192};
    static const char *const kinds[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
    int64_t n = lengths[below(g, 10)], rows = 1 + below(g, 3);
    int kind = (int)below(g, 4);
    int64_t in[2] = {rows, kind == 3 ? n / 2 + 1 : n},
            out[2] = {rows, kind == 2 ? n / 2 + 1 : n};
    Value *a = small_argument(g, kind == 2 ? DT_F32 : DT_C64, 2, in);
    Value *v = emit(g, kind == 3 ? DT_F32 : DT_C64, 2, out,
                    "fft(%s), fft_type=%s, fft_length={%lld}", a->name, kinds[kind],
                    (long long)n);
    v->depth = MAX_DEPTH;
    v->high = 40;
}

/* -- neighbours ----------------------------------------------------------------------------------------- */

static const char *slice_text(int rank, const int64_t *dims, int d, int64_t move,
                              char out[200])
{
    int at = sprintf(out, "slice={");
    for (int i = 0; i < rank; i++) {
        int64_t from = 1 + (i == d ? move : 0);
        at += sprintf(out + at, "%s[%lld:%lld]", i ? ", " : "", (long long)from,
                      (long long)(from + dims[i] - 2));
    }
    sprintf(out + at, "}");
    return out;
}

/* The inside of an array made of neighbours, written back by a scatter of one window, by an update, or padded;
 * once or twice. */
static Value *stencil_step(Gen *g, Value *a)
{
    int64_t inner[MAX_RANK], ones[MAX_RANK];
    char text[200], lists[2][128];
    for (int i = 0; i < a->rank; i++) {
        inner[i] = a->dims[i] - 2;
        ones[i] = i;
    }
    Value *sum = emit(g, a->type, a->rank, inner, "slice(%s), %s", a->name,
                      slice_text(a->rank, a->dims, -1, 0, text));
    for (int k = 0; k < 2 * a->rank; k++) {
        Value *x = emit(g, a->type, a->rank, inner, "slice(%s), %s", a->name,
                        slice_text(a->rank, a->dims, k / 2, k % 2 ? 1 : -1, text));
        sum = emit(g, a->type, a->rank, inner, "%s(%s, %s)",
                   chance(g, 70) ? "add" : "maximum", sum->name, x->name);
        sum->high = a->high + 4;
    }
    int kind = (int)below(g, 3);
    Value *v, *one = constant_scalar(g, DT_S32, 1);
    if (kind == 0) {
        int64_t rank = a->rank;
        Value *at = emit(g, DT_S32, 1, &rank, "broadcast(%s), dimensions={}", one->name);
        int take = g->shared->next_id++;
        const char *t = dtype_info[a->type].name;
        fprintf(g->shared->head,
                "take%d {\n  a = %s[] parameter(0)\n  ROOT b = %s[] parameter(1)\n}\n",
                take, t, t);
        v = emit(g, a->type, a->rank, a->dims,
                 "scatter(%s, %s, %s), update_window_dims={%s}, inserted_window_dims={}, "
                 "scatter_dims_to_operand_dims={%s}, index_vector_dim=0, "
                 "indices_are_sorted=true, unique_indices=true, to_apply=take%d",
                 a->name, at->name, sum->name, list(ones, a->rank, lists[0]),
                 list(ones, a->rank, lists[1]), take);
    } else if (kind == 1) {
        text[0] = '\0';
        for (int i = 0; i < a->rank; i++)
            sprintf(text + strlen(text), ", %s", one->name);
        v = emit(g, a->type, a->rank, a->dims, "dynamic-update-slice(%s, %s%s)", a->name,
                 sum->name, text);
    } else {
        char pad[64] = "";
        for (int i = 0; i < a->rank; i++)
            sprintf(pad + strlen(pad), "%s1_1", i ? "x" : "");
        v = emit(g, a->type, a->rank, a->dims, "pad(%s, %s), padding=%s", sum->name,
                 constant_scalar(g, a->type, 0)->name, pad);
    }
    v->high = a->high + 4;
    v->grain = a->grain;
    settle(v, 0);
    v->pure = false;
    return v;
}

void gen_stencil(Gen *g)
{
    static const DType types[] = {DT_F32, DT_F32, DT_F64, DT_S32};
    static const int sizes[] = {3, 4, 8, 17, 31, 33, 40, 64, 65, 130};
    int64_t dims[3], n = 1;
    int rank = 1 + (int)below(g, 3);
    if (!may_be_long(g))
        return;
    for (int i = 0; i < rank; i++) {
        dims[i] = rank == 1 ? long_size(g, 4097) : sizes[below(g, rank == 3 ? 7 : 10)];
        n *= dims[i];
    }
    if (n > 40000)
        return;
    Value *a = small_argument(g, types[below(g, 4)], rank, dims);
    for (int64_t k = 1 + below(g, 3); k > 0; k--)
        a = stencil_step(g, a);
}

void gen_long(Gen *g)
{
    static GenFn *const kinds[] = {scatter_many,  scatter_many, running_long,
                                   running_long,  reduce_long,  sort_long,
                                   transform_long};
    if (may_be_long(g))
        kinds[below(g, sizeof kinds / sizeof *kinds)](g);
}
