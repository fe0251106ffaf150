/* Random operations that move elements. */
#include <string.h>

#include "tests/random/value.h"

void gen_fresh(Gen *g)
{
    int rank;
    int64_t dims[MAX_RANK];
    any_dims(g, &rank, dims);
    DType t = any_type(g);
    if (rank > 0 && chance(g, 30) && t != DT_PRED && is_arithmetic(t) &&
        dtype_info[t].bits >= 16) {
        Value *v =
            emit(g, t, rank, dims, "iota(), iota_dimension=%d", (int)below(g, rank));
        v->high = 12;
        if (dtype_info[number_component(t)].mantissa_bits < 12 && !is_int(t))
            v->depth = 0;
        return;
    }
    fresh(g, t, rank, dims);
}

void gen_broadcast(Gen *g)
{
    Value *a = pick(g);
    int64_t dims[MAX_RANK];
    int64_t map[MAX_RANK];
    int64_t n = elements_of(a);
    int rank = 0;
    for (int i = 0; i <= a->rank; i++) {
        while (rank + a->rank - i < 4 && chance(g, i == a->rank && rank == i ? 80 : 30)) {
            dims[rank] = 1 + below(g, 6);
            if (n * dims[rank] > g->shared->most_elements)
                dims[rank] = 1;
            n *= dims[rank++];
        }
        if (i < a->rank) {
            map[i] = rank;
            dims[rank++] = a->dims[i];
        }
    }
    char text[128];
    Value *v = emit(g, a->type, rank, dims, "broadcast(%s), dimensions={%s}", a->name,
                    list(map, a->rank, text));
    moved(v, a, NULL);
}

void gen_reshape(Gen *g)
{
    Value *a = pick(g);
    int64_t n = elements_of(a);
    int64_t dims[MAX_RANK];
    int rank = 0;
    if (n == 0 || chance(g, 20)) {
        dims[rank++] = n;
    } else {
        while (n > 1 && rank < 4) {
            int64_t d = 1 + below(g, n < 40 ? n : 40);
            while (n % d != 0)
                d--;
            if (rank == 3)
                d = n;
            if (d > 1 || chance(g, 20))
                dims[rank++] = d;
            n /= d;
        }
        if (n != 1)
            return;
    }
    Value *v = emit(g, a->type, rank, dims, "reshape(%s)", a->name);
    moved(v, a, NULL);
}

void gen_transpose(Gen *g)
{
    Value *a = pick_rank(g, chance(g, 90) ? 2 : 0);
    int64_t order[MAX_RANK];
    int64_t dims[MAX_RANK];
    for (int i = 0; i < a->rank; i++) {
        int at = (int)below(g, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (int i = 0; i < a->rank; i++)
        dims[i] = a->dims[order[i]];
    char text[128];
    Value *v = emit(g, a->type, a->rank, dims, "transpose(%s), dimensions={%s}", a->name,
                    list(order, a->rank, text));
    moved(v, a, NULL);
}

void gen_slice(Gen *g)
{
    Value *a = pick_rank(g, 1);
    int64_t dims[MAX_RANK];
    char text[256] = "";
    size_t at = 0;
    for (int i = 0; i < a->rank; i++) {
        int64_t start = below(g, a->dims[i] + 1);
        int64_t limit = start + below(g, a->dims[i] - start + 1);
        int64_t stride = chance(g, 60) ? 1 : 1 + below(g, 4);
        if (chance(g, 40) || (limit == start && !chance(g, 5))) {
            start = 0;
            limit = a->dims[i];
        }
        dims[i] = (limit - start + stride - 1) / stride;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s[%lld:%lld:%lld]",
                               i ? ", " : "", (long long)start, (long long)limit,
                               (long long)stride);
    }
    Value *v = emit(g, a->type, a->rank, dims, "slice(%s), slice={%s}", a->name, text);
    moved(v, a, NULL);
}

void gen_pad(Gen *g)
{
    Value *a = pick_rank(g, 1);
    Value *p = scalar(g, a->type);
    int64_t dims[MAX_RANK];
    int64_t n = 1;
    char text[256] = "";
    size_t at = 0;
    for (int i = 0; i < a->rank; i++) {
        int64_t low = chance(g, 40) ? 0 : below(g, 6) - 2;
        int64_t high = chance(g, 40) ? 0 : below(g, 6) - 2;
        int64_t inner = chance(g, 75) ? 0 : below(g, 3);
        int64_t d =
            a->dims[i] + (a->dims[i] > 1 ? (a->dims[i] - 1) * inner : 0) + low + high;
        if (d < 0) {
            low = high = inner = 0;
            d = a->dims[i];
        }
        dims[i] = d;
        n *= d;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld_%lld", i ? "x" : "",
                               (long long)low, (long long)high);
        if (inner != 0)
            at +=
                (size_t)snprintf(text + at, sizeof text - at, "_%lld", (long long)inner);
    }
    if (n > 4 * g->shared->most_elements)
        return;
    Value *v = emit(g, a->type, a->rank, dims, "pad(%s, %s), padding=%s", a->name,
                    p->name, text);
    moved(v, a, p);
}

void gen_concatenate(Gen *g)
{
    Value *a = pick_rank(g, 1);
    Value *parts[4] = {a};
    int n = 1 + (int)below(g, 4);
    int d = (int)below(g, a->rank);
    int64_t dims[MAX_RANK];
    memcpy(dims, a->dims, sizeof dims);
    for (int i = 1; i < n; i++) {
        Value like = *a;
        if (chance(g, 60))
            like.dims[d] = chance(g, 5) ? 0 : 1 + below(g, 9);
        parts[i] = same_shape(g, &like, a->type);
        dims[d] += parts[i]->dims[d];
    }
    char text[128] = "";
    size_t at = 0;
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? ", " : "",
                               parts[i]->name);
    Value *v =
        emit(g, a->type, a->rank, dims, "concatenate(%s), dimensions={%d}", text, d);
    moved(v, a, NULL);
    for (int i = 1; i < n; i++) {
        Value facts = *v;
        moved(v, &facts, parts[i]);
    }
    if (elements_of(v) > 4 * g->shared->most_elements)
        v->depth = MAX_DEPTH;
}

void gen_reverse(Gen *g)
{
    Value *a = pick_rank(g, 1);
    int64_t dims[MAX_RANK];
    int n = 0;
    char text[128];
    for (int i = 0; i < a->rank; i++) {
        if (chance(g, 60))
            dims[n++] = i;
    }
    Value *v = emit(g, a->type, a->rank, a->dims, "reverse(%s), dimensions={%s}", a->name,
                    list(dims, n, text));
    moved(v, a, NULL);
}

void gen_copy(Gen *g)
{
    Value *a = pick(g);
    if (chance(g, 30)) {
        Value *v = emit(g, a->type, a->rank, a->dims, "opt-barrier(%s)", a->name);
        moved(v, a, NULL);
        return;
    }
    Value *v = emit(g, a->type, a->rank, a->dims, "copy(%s)", a->name);
    moved(v, a, NULL);
}

static Value *index_scalars(Gen *g, const Value *a, char *text, size_t size)
{
    Value *first = NULL;
    size_t at = 0;
    text[0] = '\0';
    DType t = DT_S32;
    for (int i = 0; i < a->rank; i++) {
        Value *v = i == 0 ? index_vector(g, 0, NULL, (int)a->dims[i]) : scalar(g, t);
        t = v->type;
        first = i == 0 ? v : first;
        at += (size_t)snprintf(text + at, size - at, ", %s", v->name);
    }
    return first;
}

void gen_dynamic_slice(Gen *g)
{
    Value *a = pick_rank(g, 1);
    char text[256];
    char sizes[128];
    int64_t dims[MAX_RANK];
    for (int i = 0; i < a->rank; i++)
        dims[i] = chance(g, 40)     ? a->dims[i]
                  : a->dims[i] == 0 ? 0
                                    : 1 + below(g, a->dims[i]);
    index_scalars(g, a, text, sizeof text);
    Value *v =
        emit(g, a->type, a->rank, dims, "dynamic-slice(%s%s), dynamic_slice_sizes={%s}",
             a->name, text, list(dims, a->rank, sizes));
    moved(v, a, NULL);
}

void gen_dynamic_update(Gen *g)
{
    Value *a = pick_rank(g, 1);
    Value like = *a;
    char text[256];
    for (int i = 0; i < a->rank; i++) {
        if (chance(g, 60) && like.dims[i] > 0)
            like.dims[i] = 1 + below(g, like.dims[i]);
    }
    Value *update = same_shape(g, &like, a->type);
    index_scalars(g, a, text, sizeof text);
    Value *v = emit(g, a->type, a->rank, a->dims, "dynamic-update-slice(%s, %s%s)",
                    a->name, update->name, text);
    moved(v, a, update);
}
