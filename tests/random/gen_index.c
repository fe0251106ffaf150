/* Random gathers and scatters: index vectors anywhere, batching dimensions, several operands. */
#include <string.h>

#include "tests/random/value.h"

/* What the indices choose of an operand, and how the windows lie in the result (the updates). */
typedef struct Windows {
    int64_t map[MAX_RANK];            /* operand dimensions that index vectors go to */
    int64_t collapsed[MAX_RANK];      /* operand dimensions that windows lack */
    int64_t batching[MAX_RANK];       /* operand dimensions that belong to ... */
    int64_t index_batching[MAX_RANK]; /* ... these of the indices */
    int64_t offset[MAX_RANK];         /* result dimensions of the window */
    int64_t sizes[MAX_RANK];          /* of the window, by operand dimension */
    int64_t indices[MAX_RANK];        /* dimensions of the indices */
    int64_t dims[MAX_RANK];           /* of the result */
    int mapped, dropped, batched, offsets, rank, index_rank, vector_dim;
    int64_t positions; /* windows in all */
} Windows;

static void shuffle(Gen *g, int64_t *items, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int at = (int)below(g, i + 1);
        int64_t x = items[i];
        items[i] = items[at];
        items[at] = x;
    }
}

/* Roles of the operand's dimensions; kept: those of the windows. */
static void choose_roles(Gen *g, const Value *a, Windows *w, int64_t *kept)
{
    bool map_all = chance(g, 30), batches = chance(g, 25);
    for (int i = 0; i < a->rank; i++) {
        bool is_batch = batches && chance(g, 40);
        bool chosen = !is_batch && (map_all || chance(g, 50));
        bool drop = chosen && chance(g, 70) && a->dims[i] > 0;
        if (is_batch)
            w->batching[w->batched++] = i;
        if (chosen)
            w->map[w->mapped++] = i;
        w->sizes[i] = is_batch || drop  ? (a->dims[i] > 0)
                      : a->dims[i] == 0 ? 0
                      : chance(g, 50)   ? a->dims[i]
                                        : 1 + below(g, a->dims[i]);
        if (drop)
            w->collapsed[w->dropped++] = i;
        else if (!is_batch)
            kept[w->offsets++] = i;
    }
    if (chance(g, 30))
        shuffle(g, w->map, w->mapped);
}

/* The indices: batch dimensions in any order, others, and one of index vectors. */
static void choose_indices(Gen *g, const Value *a, Windows *w)
{
    int64_t order[MAX_RANK];
    /* one dimension at least is mapped, so that there is room for that of the vectors */
    int room = MAX_RANK - 1 - w->batched, others = (int)below(g, 3);
    int n = w->batched + (others < room ? others : room);
    w->vector_dim = chance(g, 60) ? n : (int)below(g, n + 1);
    bool implicit = w->mapped == 1 && chance(g, 40);
    for (int i = 0; i < n; i++)
        order[i] = i;
    shuffle(g, order, n);
    if (implicit)
        w->vector_dim = n;
    w->index_rank = implicit ? n : n + 1;
    if (!implicit)
        w->indices[w->vector_dim] = w->mapped;
    w->positions = 1;
    for (int i = 0; i < n; i++) {
        int at = (int)order[i] + (order[i] >= w->vector_dim);
        bool is_batch = i < w->batched;
        if (is_batch)
            w->index_batching[i] = at;
        w->indices[at] = is_batch       ? a->dims[w->batching[i]]
                         : chance(g, 3) ? 0
                                        : 1 + below(g, 9);
        w->positions *= w->indices[at];
    }
}

static bool choose_windows(Gen *g, const Value *a, Windows *w)
{
    int64_t kept[MAX_RANK];
    memset(w, 0, sizeof *w);
    choose_roles(g, a, w, kept);
    if (w->mapped == 0)
        return false;
    choose_indices(g, a, w);
    int batch = w->index_rank - (w->vector_dim < w->index_rank);
    w->rank = w->offsets + batch;
    if (w->rank > MAX_RANK)
        return false;
    int form = (int)below(g, 3); /* windows first, last, or anywhere */
    int64_t n = 1;
    int offsets = 0;
    for (int at = 0, next = 0; at < w->rank; at++) {
        int left = w->offsets - offsets;
        bool is_window = left > 0 && (form == 0 || w->rank - at == left ||
                                      (form == 2 && chance(g, 50)));
        if (is_window) {
            w->dims[at] = w->sizes[kept[offsets]];
            w->offset[offsets++] = at;
        } else {
            next += next == w->vector_dim;
            w->dims[at] = w->indices[next++];
        }
        n *= w->dims[at];
    }
    return n <= g->shared->most_elements && w->positions <= g->shared->most_elements;
}

static bool find_windows(Gen *g, const Value *a, Windows *w)
{
    for (int i = 0; i < 10; i++) {
        if (choose_windows(g, a, w))
            return true;
    }
    return false;
}

void gen_gather(Gen *g)
{
    Value *a = pick_rank(g, 1);
    Windows w;
    char text[6][128];
    if (!find_windows(g, a, &w))
        return;
    Value *indices = index_vector(g, w.index_rank, w.indices, 8);
    Value *v = emit(
        g, a->type, w.rank, w.dims,
        "gather(%s, %s), offset_dims={%s}, collapsed_slice_dims={%s}, "
        "start_index_map={%s}, operand_batching_dims={%s}, "
        "start_indices_batching_dims={%s}, index_vector_dim=%d, slice_sizes={%s}",
        a->name, indices->name, list(w.offset, w.offsets, text[0]),
        list(w.collapsed, w.dropped, text[1]), list(w.map, w.mapped, text[2]),
        list(w.batching, w.batched, text[3]), list(w.index_batching, w.batched, text[4]),
        w.vector_dim, list(w.sizes, a->rank, text[5]));
    moved(v, a, NULL);
}

/* Indices of which no two are the same: of one dimension, in rising order. */
static Value *rising(Gen *g, const Windows *w)
{
    Value *line = emit(g, DT_S32, 1, &w->positions, "iota(), iota_dimension=0");
    return emit(g, DT_S32, w->index_rank, w->indices, "reshape(%s)", line->name);
}

static const char *choose_combiner(Gen *g, const Value *a, bool may_add)
{
    static const char *const ints[] = {"add",      "add", "maximum", "minimum",
                                       "multiply", "and", "or",      "xor"};
    static const char *const preds[] = {"or", "and", "xor"};
    if (a->type == DT_PRED)
        return preds[below(g, 3)];
    if (is_int(a->type))
        return ints[below(g, 8)];
    return may_add && chance(g, 60) ? "add" : chance(g, 50) ? "maximum" : "minimum";
}

/* How one operand is updated; NULL name: it has no sure answer. */
typedef struct Update {
    Value *from, *updates;
    const char *combiner; /* an opcode, or "take" */
} Update;

/* Facts of an array of which each element is updated at most `times`. */
static void settle_update(Value *v, const Value *a, const Value *updates,
                          const char *combiner, int64_t times)
{
    moved(v, a, updates);
    if (strcmp(combiner, "take") == 0)
        return;
    if (is_float(v->type) && strcmp(combiner, "add") == 0) {
        v->high += log2_up(times + 1);
        settle(v, a->depth > updates->depth ? a->depth : updates->depth);
    }
    v->pure = !is_float(v->type);
}

static bool choose_update(Gen *g, Value *a, const Windows *w, bool alone, Update *out)
{
    Value like = {.rank = w->rank};
    if (is_complex(a->type) || !is_arithmetic(a->type) || !may_round(a))
        return false;
    memcpy(like.dims, w->dims, sizeof like.dims);
    *out = (Update){.from = a, .updates = same_shape(g, &like, a->type)};
    Value sum = {.type = a->type};
    settle_update(&sum, a, out->updates, "add", w->positions);
    /* the kernel rounds each sum to the type, the evaluator the last one: in the shortest
     * formats many small updates of one element are lost */
    bool rounds =
        is_float(a->type) && dtype_info[a->type].mantissa_bits < 10 && sum.depth > 0;
    bool sums = !rounds && !a->special && !out->updates->special;
    out->combiner = alone && chance(g, 60) ? "take" : choose_combiner(g, a, sums);
    return may_round(out->updates);
}

/* A computation that updates n elements at once. */
static void print_combiner(Gen *g, int id, const Update *u, int n)
{
    FILE *f = g->shared->head;
    fprintf(f, "update%d {\n", id);
    for (int i = 0; i < 2 * n; i++)
        fprintf(f, "  p%d = %s[] parameter(%d)\n", i,
                dtype_info[u[i % n].from->type].name, i);
    for (int i = 0; i < n; i++) {
        const char *t = dtype_info[u[i].from->type].name;
        bool takes = strcmp(u[i].combiner, "take") == 0;
        if (takes)
            fprintf(f, "  %sr%d = %s[] copy(p%d)\n", n == 1 ? "ROOT " : "", i, t, n + i);
        else
            fprintf(f, "  %sr%d = %s[] %s(p%d, p%d)\n", n == 1 ? "ROOT " : "", i, t,
                    u[i].combiner, i, n + i);
    }
    if (n == 2)
        fprintf(f, "  ROOT r = (%s[], %s[]) tuple(r0, r1)\n",
                dtype_info[u[0].from->type].name, dtype_info[u[1].from->type].name);
    fprintf(f, "}\n");
}

void gen_scatter(Gen *g)
{
    Value *a = pick_rank(g, 1);
    Windows w;
    Update u[2];
    char text[5][128], attributes[600], shapes[2][128];
    if (!find_windows(g, a, &w))
        return;
    bool is_rising = w.mapped == 1 && w.batched == 0 && w.offsets == a->rank - 1 &&
                     w.dropped == 1 && chance(g, 50);
    bool alone = is_rising || w.positions <= 1;
    int n = chance(g, 20) ? 2 : 1, id = g->shared->next_id++;
    if (!choose_update(g, a, &w, alone, &u[0]) ||
        (n == 2 && !choose_update(g, same_shape(g, a, any_type(g)), &w, alone, &u[1])))
        return;
    Value *indices =
        is_rising ? rising(g, &w) : index_vector(g, w.index_rank, w.indices, 8);
    print_combiner(g, id, u, n);
    snprintf(attributes, sizeof attributes,
             "update_window_dims={%s}, inserted_window_dims={%s}, "
             "scatter_dims_to_operand_dims={%s}, input_batching_dims={%s}, "
             "scatter_indices_batching_dims={%s}, index_vector_dim=%d%s%s, "
             "to_apply=update%d",
             list(w.offset, w.offsets, text[0]), list(w.collapsed, w.dropped, text[1]),
             list(w.map, w.mapped, text[2]), list(w.batching, w.batched, text[3]),
             list(w.index_batching, w.batched, text[4]), w.vector_dim,
             alone && chance(g, 50) ? ", unique_indices=true" : "",
             alone && chance(g, 30) ? ", indices_are_sorted=true" : "", id);
    Value old[2] = {*u[0].from, n == 2 ? *u[1].from : *a};
    if (n == 1) {
        Value *v = emit(g, a->type, a->rank, a->dims, "scatter(%s, %s, %s), %s", a->name,
                        indices->name, u[0].updates->name, attributes);
        settle_update(v, &old[0], u[0].updates, u[0].combiner, w.positions);
        return;
    }
    say(g, "  t%d = (%s, %s) scatter(%s, %s, %s, %s, %s), %s\n", id,
        shape_of(&old[0], shapes[0]), shape_of(&old[1], shapes[1]), old[0].name,
        old[1].name, indices->name, u[0].updates->name, u[1].updates->name, attributes);
    for (int i = 0; i < 2; i++) {
        Value *v = emit(g, old[i].type, a->rank, a->dims,
                        "get-tuple-element(t%d), index=%d", id, i);
        settle_update(v, &old[i], u[i].updates, u[i].combiner, w.positions);
    }
}
