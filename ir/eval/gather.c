/* gather and scatter: for each index vector a window of the operand is copied out of it, or
 * combined into it. */
#include <string.h>

#include "ir/eval/call.h"
#include "ir/eval/fold.h"
#include "ir/eval/strided.h"

/* How index vectors and windows lie in operand, indices and the third array: gather's result
 * or scatter's updates. */
typedef struct Walk {
    const Value *indices;
    uint32_t operand_rank;
    int64_t operand_dims[EVAL_RANK_MAX], operand_strides[EVAL_RANK_MAX];
    /* One step for each index vector. */
    uint32_t batch_rank;
    int64_t batch_dims[EVAL_RANK_MAX];
    int64_t batch_index_strides[EVAL_RANK_MAX]; /* in indices */
    int64_t batch_other_strides[EVAL_RANK_MAX];
    int64_t
        batch_start[EVAL_RANK_MAX]; /* operand dimension that it starts at; -1: none */
    Ints map;                       /* operand dimension of each index component */
    int64_t component_stride;
    /* The window. */
    uint32_t window_rank;
    int64_t window_dims[EVAL_RANK_MAX], window_count;
    int64_t window_operand_strides[EVAL_RANK_MAX], window_other_strides[EVAL_RANK_MAX];
    int64_t sizes[EVAL_RANK_MAX]; /* of the window, by operand dimension */
} Walk;

typedef struct WalkNames {
    AttrId window, dropped, map, operand_batch, index_batch;
} WalkNames;

static void walk_batch(Walk *w, const Instruction *inst, const WalkNames *names,
                       Ints window, const Shape *other, const int64_t *other_strides)
{
    const Shape *s = w->indices->shape;
    int64_t strides[EVAL_RANK_MAX], vector = inst_int(inst, ATTR_INDEX_VECTOR_DIM, 0);
    strides_row_major(s->rank, s->dims, strides);
    w->component_stride = vector < s->rank ? strides[vector] : 0;
    Ints batch = inst_ints(inst, names->index_batch);
    Ints to = inst_ints(inst, names->operand_batch);
    uint32_t d = 0;
    for (uint32_t k = 0; k < other->rank; k++) {
        if (ints_contain(window, k))
            continue;
        if (d == vector)
            d++;
        int64_t at = ints_find(batch, d);
        w->batch_dims[w->batch_rank] = other->dims[k];
        w->batch_index_strides[w->batch_rank] = d < s->rank ? strides[d] : 0;
        w->batch_other_strides[w->batch_rank] = other_strides[k];
        w->batch_start[w->batch_rank++] = at >= 0 ? to.data[at] : -1;
        d++;
    }
}

static void walk_make(EvalCall *call, Walk *w, const Value *operand, const Value *indices,
                      const Shape *other, const WalkNames *names)
{
    const Instruction *inst = call->inst;
    memset(w, 0, sizeof *w);
    if (operand->shape->rank > EVAL_RANK_MAX || other->rank > EVAL_RANK_MAX ||
        indices->shape->rank >= EVAL_RANK_MAX)
        eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX);
    int64_t strides[EVAL_RANK_MAX];
    strides_row_major(other->rank, other->dims, strides);
    w->indices = indices;
    w->operand_rank = operand->shape->rank;
    for (uint32_t d = 0; d < w->operand_rank; d++)
        w->operand_dims[d] = operand->shape->dims[d];
    strides_row_major(w->operand_rank, operand->shape->dims, w->operand_strides);
    w->map = inst_ints(inst, names->map);
    Ints window = inst_ints(inst, names->window),
         dropped = inst_ints(inst, names->dropped);
    Ints batch = inst_ints(inst, names->operand_batch);
    walk_batch(w, inst, names, window, other, strides);
    w->window_count = 1;
    for (uint32_t d = 0; d < w->operand_rank; d++) {
        w->sizes[d] = 1;
        if (ints_contain(dropped, d) || ints_contain(batch, d))
            continue;
        if (w->window_rank == window.count)
            eval_fail(call, "more window dimensions are needed than are named");
        int64_t at = window.data[w->window_rank];
        w->sizes[d] = w->window_dims[w->window_rank] = other->dims[at];
        w->window_operand_strides[w->window_rank] = w->operand_strides[d];
        w->window_other_strides[w->window_rank++] = strides[at];
        w->window_count *= other->dims[at];
    }
}

/* Where the window of one index vector starts, by operand dimension, and its position in the
 * third array. */
static void walk_start(const Walk *w, const int64_t *batch, int64_t *start,
                       int64_t *other)
{
    int64_t at = 0;
    *other = 0;
    memset(start, 0, w->operand_rank * sizeof *start);
    for (uint32_t i = 0; i < w->batch_rank; i++) {
        at += batch[i] * w->batch_index_strides[i];
        *other += batch[i] * w->batch_other_strides[i];
        if (w->batch_start[i] >= 0)
            start[w->batch_start[i]] = batch[i];
    }
    for (uint32_t c = 0; c < w->map.count; c++) {
        int64_t index = value_int(w->indices, at + c * w->component_stride);
        if (index < 0 && w->indices->shape->dtype == DT_U64)
            index = INT64_MAX;
        start[w->map.data[c]] = index;
    }
}

static bool is_empty(uint32_t rank, const int64_t *dims)
{
    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] == 0)
            return true;
    return false;
}

/* Run-time sizes of the result: those of the indices, and of operand dimensions taken whole. */
static void gather_sizes(EvalCall *call, Value *v)
{
    const Instruction *inst = call->inst;
    const Value *x = call->operands[0], *indices = call->operands[1];
    Ints offset = inst_ints(inst, ATTR_OFFSET_DIMS),
         sizes = inst_ints(inst, ATTR_SLICE_SIZES);
    Ints collapsed = inst_ints(inst, ATTR_COLLAPSED_SLICE_DIMS);
    Ints batch = inst_ints(inst, ATTR_OPERAND_BATCHING_DIMS);
    uint32_t d = 0, window = 0;
    for (uint32_t k = 0; indices->sizes != NULL && k < v->shape->rank; k++) {
        if (ints_contain(offset, k))
            continue;
        d += d == inst_int(inst, ATTR_INDEX_VECTOR_DIM, 0);
        if (d < indices->shape->rank)
            value_set_size(v, k, indices->sizes[d]);
        d++;
    }
    for (d = 0; x->sizes != NULL && d < x->shape->rank; d++) {
        if (ints_contain(collapsed, d) || ints_contain(batch, d))
            continue;
        if (sizes.data[d] == x->shape->dims[d])
            value_set_size(v, (uint32_t)offset.data[window], x->sizes[d]);
        window++;
    }
}

void eval_gather(EvalCall *call)
{
    static const WalkNames names = {ATTR_OFFSET_DIMS, ATTR_COLLAPSED_SLICE_DIMS,
                                    ATTR_START_INDEX_MAP, ATTR_OPERAND_BATCHING_DIMS,
                                    ATTR_START_INDICES_BATCHING_DIMS};
    const Value *x = call->operands[0];
    Value *v = eval_result(call);
    Walk w;
    walk_make(call, &w, x, call->operands[1], v->shape, &names);
    size_t size = value_element_bytes(v);
    int64_t batch[EVAL_RANK_MAX] = {0}, start[EVAL_RANK_MAX], other;
    if (v->count == 0 || is_empty(w.batch_rank, w.batch_dims))
        return;
    Ints sizes = inst_ints(call->inst, ATTR_SLICE_SIZES);
    if (is_empty(sizes.count, sizes.data)) { /* nothing to take: zeros */
        memset(v->data, 0, (size_t)v->count * size);
        gather_sizes(call, v);
        return;
    }
    const char *data = x->data;
    if (x->shape->dtype != v->shape->dtype) { /* programs may mix float types */
        void *same = eval_temp(call, (size_t)x->count, size);
        number_convert(v->shape->dtype, same, x->shape->dtype, x->data, (size_t)x->count);
        data = same;
    }
    do {
        walk_start(&w, batch, start, &other);
        int64_t from = 0;
        for (uint32_t d = 0; d < w.operand_rank; d++) {
            int64_t most = w.operand_dims[d] - w.sizes[d];
            int64_t i = start[d] > most ? most : start[d];
            from += (i < 0 ? 0 : i) * w.operand_strides[d];
        }
        char *out = (char *)v->data + other * (int64_t)size;
        const char *in = data + from * (int64_t)size;
        if (w.window_count == 1)
            memcpy(out, in, size);
        else
            strided_copy(size, w.window_rank, w.window_dims, out, w.window_other_strides,
                         in, w.window_operand_strides);
    } while (index_next(w.batch_rank, w.batch_dims, batch));
    gather_sizes(call, v);
}

/* -- scatter ------------------------------------------------------------------------ */

typedef struct Scatter {
    Walk walk;
    Fold fold;
    uint32_t count;
    char **acc;           /* [count] the operands, in the fold's types */
    const char **updates; /* [count] */
    void **window;        /* [count] room for one window of acc, and of updates */
    const void **update;
} Scatter;

static void scatter_window(Scatter *s, int64_t to, int64_t other)
{
    const Walk *w = &s->walk;
    int64_t dense[EVAL_RANK_MAX];
    strides_row_major(w->window_rank, w->window_dims, dense);
    for (uint32_t i = 0; i < s->count; i++) {
        size_t size = dtype_info[s->fold.types[i]].storage;
        const char *from = s->updates[i] + other * (int64_t)size;
        char *at = s->acc[i] + to * (int64_t)size;
        if (s->fold.simple[0] == SIMPLE_SECOND) {
            strided_copy(size, w->window_rank, w->window_dims, at,
                         w->window_operand_strides, from, w->window_other_strides);
            return;
        }
        if (w->window_count == 1) {
            s->window[i] = at;
            s->update[i] = from;
            continue;
        }
        strided_copy(size, w->window_rank, w->window_dims, s->window[i], dense, at,
                     w->window_operand_strides);
        void *copy = s->window[s->count + i];
        strided_copy(size, w->window_rank, w->window_dims, copy, dense, from,
                     w->window_other_strides);
        s->update[i] = copy;
    }
    fold_run(&s->fold, (size_t)w->window_count, s->window, s->update);
    for (uint32_t i = 0; i < s->count && w->window_count != 1; i++) {
        size_t size = dtype_info[s->fold.types[i]].storage;
        strided_copy(size, w->window_rank, w->window_dims, s->acc[i] + to * (int64_t)size,
                     w->window_operand_strides, s->window[i], dense);
    }
}

/* A window that does not lie inside the operand as a whole is dropped. */
static void scatter_all(Scatter *s)
{
    const Walk *w = &s->walk;
    int64_t batch[EVAL_RANK_MAX] = {0}, start[EVAL_RANK_MAX], other;
    if (w->window_count == 0 || is_empty(w->batch_rank, w->batch_dims))
        return;
    do {
        walk_start(w, batch, start, &other);
        int64_t to = 0;
        bool inside = true;
        for (uint32_t d = 0; d < w->operand_rank && inside; d++) {
            inside = start[d] >= 0 && start[d] <= w->operand_dims[d] - w->sizes[d];
            to += inside ? start[d] * w->operand_strides[d] : 0;
        }
        if (inside)
            scatter_window(s, to, other);
    } while (index_next(w->batch_rank, w->batch_dims, batch));
}

/* Sizes of dynamic updates limit the index vectors that are used. */
static void scatter_limit(Scatter *s, const Instruction *inst, const Value *updates)
{
    Ints window = inst_ints(inst, ATTR_UPDATE_WINDOW_DIMS);
    uint32_t at = 0;
    for (uint32_t k = 0; updates->sizes != NULL && k < updates->shape->rank; k++)
        if (!ints_contain(window, k))
            s->walk.batch_dims[at++] = updates->sizes[k];
    int64_t vector = inst_int(inst, ATTR_INDEX_VECTOR_DIM, 0);
    const Value *indices = s->walk.indices;
    at = 0;
    for (uint32_t d = 0; indices->sizes != NULL && d < indices->shape->rank; d++) {
        if (d == vector)
            continue;
        if (indices->sizes[d] < s->walk.batch_dims[at])
            s->walk.batch_dims[at] = indices->sizes[d];
        at++;
    }
}

void eval_scatter(EvalCall *call)
{
    static const WalkNames names = {ATTR_UPDATE_WINDOW_DIMS, ATTR_INSERTED_WINDOW_DIMS,
                                    ATTR_SCATTER_DIMS_TO_OPERAND_DIMS,
                                    ATTR_INPUT_BATCHING_DIMS,
                                    ATTR_SCATTER_INDICES_BATCHING_DIMS};
    const Instruction *inst = call->inst;
    Scatter *s = ARENA_NEW(call->scratch, Scatter);
    s->count = inst->operand_count / 2;
    uint32_t first = s->count + 1;
    walk_make(call, &s->walk, call->operands[0], call->operands[s->count],
              call->operands[first]->shape, &names);
    fold_init(&s->fold, call, inst_called(inst, 0), s->count);
    scatter_limit(s, inst, call->operands[first]);
    s->acc = ARENA_ARRAY(call->scratch, char *, s->count);
    s->updates = ARENA_ARRAY(call->scratch, const char *, s->count);
    s->window = ARENA_ARRAY(call->scratch, void *, 2 * (size_t)s->count);
    s->update = ARENA_ARRAY(call->scratch, const void *, s->count);
    Value **taken = ARENA_ARRAY(call->scratch, Value *, s->count);
    for (uint32_t i = 0; i < s->count; i++) {
        const Value *update = call->operands[first + i];
        DType t = s->fold.types[i];
        size_t n = (size_t)s->walk.window_count;
        taken[i] = eval_take(call, i);
        s->acc[i] = taken[i]->data;
        if (taken[i]->shape->dtype != t) {
            s->acc[i] = eval_temp(call, (size_t)taken[i]->count, dtype_info[t].storage);
            number_convert(t, s->acc[i], taken[i]->shape->dtype, taken[i]->data,
                           (size_t)taken[i]->count);
        }
        s->updates[i] = fold_input(&s->fold, i, update->shape->dtype, update->data,
                                   (size_t)update->count);
        s->window[i] = eval_temp(call, n, dtype_info[t].storage);
        s->window[s->count + i] = eval_temp(call, n, dtype_info[t].storage);
    }
    scatter_all(s);
    for (uint32_t i = 0; i < s->count; i++) {
        const Shape *wanted =
            inst->shape->dtype == DT_TUPLE ? inst->shape->elements[i] : inst->shape;
        Value *out = taken[i];
        if (wanted->dtype != out->shape->dtype) { /* of mixed precision */
            out = eval_array(call, wanted);
            value_copy_sizes(out, taken[i]);
        }
        if (s->acc[i] != out->data)
            fold_output(&s->fold, i, wanted->dtype, out->data, s->acc[i],
                        (size_t)out->count);
        if (out != taken[i])
            value_release(taken[i]);
        taken[i] = out;
    }
    if (inst->shape->dtype != DT_TUPLE) {
        call->result = taken[0];
        return;
    }
    call->result = value_tuple(&call->eval->heap, inst->shape);
    memcpy(call->result->elements, taken, s->count * sizeof *taken);
}
