/* reduce-window and select-and-scatter: all windows at once, one position of the window after
 * the other, so that a reducer runs over many independent elements. */
#include "ir/eval/window.h"

#include <string.h>

#include "ir/eval/dynamic.h"
#include "ir/eval/fold.h"
#include "ir/eval/strided.h"

WindowRange window_range(const WindowDim *w, int64_t in, int64_t out, int64_t position)
{
    WindowRange r = {.step = 1};
    int64_t base = position * w->window_dilation - w->pad_low; /* of window 0 */
    int64_t span = in == 0 ? 0 : (in - 1) * w->base_dilation + 1;
    r.first = base >= 0 ? 0 : (-base + w->stride - 1) / w->stride;
    while (r.first < out && (r.first * w->stride + base) % w->base_dilation != 0 &&
           r.step <= w->base_dilation) {
        r.first++;
        r.step++;
    }
    int64_t at = r.first * w->stride + base;
    if (r.first >= out || at >= span || at % w->base_dilation != 0)
        return (WindowRange){.step = 1};
    r.step = 1;
    while (r.step * w->stride % w->base_dilation != 0)
        r.step++;
    int64_t last = (span - 1 - base) / w->stride;
    last = last > out - 1 ? out - 1 : last;
    r.count = (last - r.first) / r.step + 1;
    r.in_first = at / w->base_dilation;
    r.in_step = r.step * w->stride / w->base_dilation;
    return r;
}

/* A window over all dimensions of an array. */
typedef struct Slide {
    uint32_t rank;
    WindowDim dims[EVAL_RANK_MAX];
    int64_t sizes[EVAL_RANK_MAX]; /* of the window */
    int64_t in[EVAL_RANK_MAX], out[EVAL_RANK_MAX];
    int64_t in_strides[EVAL_RANK_MAX], out_strides[EVAL_RANK_MAX];
} Slide;

/* The block of windows that have an element at one position. */
typedef struct Block {
    int64_t dims[EVAL_RANK_MAX], count;
    int64_t in, in_strides[EVAL_RANK_MAX];
    int64_t out, out_strides[EVAL_RANK_MAX];
} Block;

static void slide_make(EvalCall *call, Slide *s, const Shape *in, const Shape *out)
{
    const Window *w = inst_window(call->inst);
    if (in->rank > EVAL_RANK_MAX)
        eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX);
    s->rank = in->rank;
    for (uint32_t d = 0; d < s->rank; d++) {
        s->dims[d] =
            d < w->rank
                ? w->dims[d]
                : (WindowDim){
                      .size = 1, .stride = 1, .base_dilation = 1, .window_dilation = 1};
        s->sizes[d] = s->dims[d].size;
        s->in[d] = in->dims[d];
        s->out[d] = out->dims[d];
    }
    strides_row_major(s->rank, s->in, s->in_strides);
    strides_row_major(s->rank, s->out, s->out_strides);
}

static bool slide_block(const Slide *s, const int64_t *position, Block *b)
{
    b->count = 1;
    b->in = b->out = 0;
    for (uint32_t d = 0; d < s->rank; d++) {
        WindowRange r = window_range(&s->dims[d], s->in[d], s->out[d], position[d]);
        b->dims[d] = r.count;
        b->count *= r.count;
        b->in += r.in_first * s->in_strides[d];
        b->out += r.first * s->out_strides[d];
        b->in_strides[d] = r.in_step * s->in_strides[d];
        b->out_strides[d] = r.step * s->out_strides[d];
    }
    return b->count > 0;
}

/* -- reduce-window -------------------------------------------------------------------- */

/* What a reduce-window works with: operands and results of the fold, side by side. */
typedef struct Windows {
    Slide slide;
    Fold fold;
    uint32_t count;
    char **acc;     /* [count] results so far */
    const char **x; /* [count] operands */
    void **some;    /* [count] room for some elements of acc, and of x */
    void **row;
    const void **next; /* the same as row */
} Windows;

/* The dimension of a running sum: each window ends at its own element and goes back to the
 * first (forward), or starts there and goes on to the last. -1: it is another window. */
static int64_t running_dim(const Slide *s, bool *forward)
{
    int64_t found = -1;
    for (uint32_t d = 0; d < s->rank; d++) {
        const WindowDim *w = &s->dims[d];
        if (w->size == 1 && w->stride == 1 && w->pad_low == 0 && w->pad_high == 0 &&
            w->base_dilation == 1)
            continue;
        bool back = w->pad_low == w->size - 1 && w->pad_high == 0;
        bool on = w->pad_high == w->size - 1 && w->pad_low == 0;
        if (found >= 0 || w->stride != 1 || w->base_dilation != 1 ||
            w->window_dilation != 1 || w->size < s->in[d] || (!back && !on))
            return -1;
        found = d;
        *forward = back;
    }
    return found;
}

/* some = f(some, row) as the windows go on; backward some = f(row, some), at first just row: the initial value
 * stands before all of the window. */
static void join_row(Windows *w, size_t n, bool forward, bool first)
{
    if (!forward) {
        for (uint32_t i = 0; i < w->count; i++) {
            void *t = w->row[i];
            w->row[i] = w->some[i];
            w->some[i] = t;
            w->next[i] = w->row[i];
        }
    }
    if (forward || !first)
        fold_run(&w->fold, n, w->some, w->next);
}

/* One step along dimension d after the other, all other elements at once. */
static void run_along(EvalCall *call, Windows *w, int64_t d, bool forward)
{
    const Slide *s = &w->slide;
    int64_t dims[EVAL_RANK_MAX], dense[EVAL_RANK_MAX], n = s->in[d], each = 1;
    for (uint32_t k = 0; k < s->rank; k++) {
        dims[k] = k == d ? 1 : s->in[k];
        each *= dims[k];
    }
    strides_row_major(s->rank, dims, dense);
    void **out = ARENA_ARRAY(call->scratch, void *, w->count);
    for (uint32_t i = 0; i < w->count; i++) { /* the initial values are in acc */
        size_t size = dtype_info[w->fold.types[i]].storage;
        memcpy(w->some[i], w->acc[i], (size_t)each * size);
        out[i] = forward ? NULL : eval_temp(call, (size_t)each, size);
    }
    for (int64_t step = 0; step < n; step++) {
        int64_t at = (forward ? step : n - 1 - step) * s->in_strides[d];
        for (uint32_t i = 0; i < w->count; i++) {
            size_t size = dtype_info[w->fold.types[i]].storage;
            strided_copy(size, s->rank, dims, w->row[i], dense,
                         w->x[i] + at * (int64_t)size, s->in_strides);
            if (!forward)
                strided_copy(size, s->rank, dims, out[i], dense,
                             w->acc[i] + at * (int64_t)size, s->in_strides);
        }
        join_row(w, (size_t)each, forward, step == 0);
        if (!forward)
            fold_run(&w->fold, (size_t)each, out, (const void *const *)w->some);
        for (uint32_t i = 0; i < w->count; i++) {
            size_t size = dtype_info[w->fold.types[i]].storage;
            strided_copy(size, s->rank, dims, w->acc[i] + at * (int64_t)size,
                         s->in_strides, forward ? w->some[i] : out[i], dense);
        }
    }
}

static void run_positions(Windows *w)
{
    const Slide *s = &w->slide;
    int64_t position[EVAL_RANK_MAX] = {0}, dense[EVAL_RANK_MAX];
    Block b;
    do {
        if (!slide_block(s, position, &b))
            continue;
        strides_row_major(s->rank, b.dims, dense);
        for (uint32_t i = 0; i < w->count; i++) {
            size_t size = dtype_info[w->fold.types[i]].storage;
            strided_copy(size, s->rank, b.dims, w->some[i], dense,
                         w->acc[i] + b.out * (int64_t)size, b.out_strides);
            strided_copy(size, s->rank, b.dims, w->row[i], dense,
                         w->x[i] + b.in * (int64_t)size, b.in_strides);
        }
        fold_run(&w->fold, (size_t)b.count, w->some, w->next);
        for (uint32_t i = 0; i < w->count; i++) {
            size_t size = dtype_info[w->fold.types[i]].storage;
            strided_copy(size, s->rank, b.dims, w->acc[i] + b.out * (int64_t)size,
                         b.out_strides, w->some[i], dense);
        }
    } while (index_next(s->rank, s->sizes, position));
}

/* Windows that begin within the sizes and end within the padding behind them. */
static void window_result_sizes(EvalCall *call, const Slide *s, Value *v)
{
    const Value *x = call->operands[0];
    for (uint32_t d = 0; x->sizes != NULL && d < s->rank; d++) {
        const WindowDim *w = &s->dims[d];
        int64_t n = x->sizes[d] > 0 ? (x->sizes[d] - 1) * w->base_dilation + 1 : 0;
        int64_t span = (w->size - 1) * w->window_dilation + 1;
        n += w->pad_low + w->pad_high;
        if (x->sizes[d] != x->shape->dims[d])
            value_set_size(v, d, n < span ? 0 : (n - span) / w->stride + 1);
    }
}

/* Beyond the sizes lies what the reduction starts from. */
static const void *window_input(EvalCall *call, uint32_t i, uint32_t count)
{
    const Value *in = call->operands[i], *init = call->operands[count + i];
    if (in->sizes == NULL)
        return in->data;
    void *fill = eval_temp(call, 1, value_element_bytes(in));
    number_convert(in->shape->dtype, fill, init->shape->dtype, init->data, 1);
    void *filled = eval_temp(call, (size_t)in->count, value_element_bytes(in));
    dynamic_fill(in, fill, filled);
    return filled;
}

void eval_reduce_window(EvalCall *call)
{
    const Instruction *inst = call->inst;
    Arena *a = call->scratch;
    Windows *w = ARENA_NEW(a, Windows);
    w->count = inst->operand_count / 2;
    Value *v = eval_result(call);
    Value **results = v->shape->dtype == DT_TUPLE ? v->elements : &v;
    slide_make(call, &w->slide, call->operands[0]->shape, results[0]->shape);
    fold_init(&w->fold, call, inst_called(inst, 0), w->count);
    size_t n = (size_t)results[0]->count;
    w->acc = ARENA_ARRAY(a, char *, w->count);
    w->x = ARENA_ARRAY(a, const char *, w->count);
    w->some = ARENA_ARRAY(a, void *, w->count);
    w->row = ARENA_ARRAY(a, void *, w->count);
    w->next = ARENA_ARRAY(a, const void *, w->count);
    for (uint32_t i = 0; i < w->count; i++) {
        const Value *in = call->operands[i], *init = call->operands[w->count + i];
        size_t size = dtype_info[w->fold.types[i]].storage;
        w->x[i] = fold_input(&w->fold, i, in->shape->dtype,
                             window_input(call, i, w->count), (size_t)in->count);
        w->acc[i] = eval_temp(call, n, size);
        w->some[i] = eval_temp(call, n, size);
        w->next[i] = w->row[i] = eval_temp(call, n, size);
        strided_fill(size, w->acc[i],
                     fold_input(&w->fold, i, init->shape->dtype, init->data, 1),
                     (int64_t)n);
    }
    bool forward = false;
    int64_t running = n > 0 ? running_dim(&w->slide, &forward) : -1;
    if (running >= 0)
        run_along(call, w, running, forward);
    else
        run_positions(w);
    for (uint32_t i = 0; i < w->count; i++) {
        fold_output(&w->fold, i, results[i]->shape->dtype, results[i]->data, w->acc[i],
                    n);
        window_result_sizes(call, &w->slide, results[i]);
    }
}

/* -- select-and-scatter ----------------------------------------------------------------- */

/* For each window the number of the operand's element that it selects; -1: it has none. The
 * first element is taken, and replaced by a later one x where select(taken, x) is false. */
static int64_t *select_elements(EvalCall *call, const Slide *s, const Value *x,
                                int64_t windows)
{
    const Computation *by = inst_attr(call->inst, ATTR_SELECT)->computations.data[0];
    Apply *select = apply_of(call, by);
    DType type = by->parameters[0]->shape->dtype; /* programs may mix float types */
    size_t size = dtype_info[type].storage, n = (size_t)windows;
    const char *data = eval_data_as(call, x, type);
    int64_t *taken = eval_temp(call, n, sizeof *taken),
            *numbers = eval_temp(call, (size_t)x->count, 8);
    int64_t *old = eval_temp(call, n, sizeof *old),
            *new = eval_temp(call, n, sizeof *new);
    char *left = eval_temp(call, n, size), *right = eval_temp(call, n, size);
    uint8_t *keep = eval_temp(call, n, 1);
    for (size_t i = 0; i < n; i++)
        taken[i] = -1;
    for (int64_t i = 0; i < x->count; i++)
        numbers[i] = i;
    int64_t position[EVAL_RANK_MAX] = {0}, dense[EVAL_RANK_MAX];
    Block b;
    do {
        if (!slide_block(s, position, &b))
            continue;
        strides_row_major(s->rank, b.dims, dense);
        strided_copy(8, s->rank, b.dims, old, dense, taken + b.out, b.out_strides);
        strided_copy(8, s->rank, b.dims, new, dense, numbers + b.in, b.in_strides);
        for (int64_t i = 0; i < b.count; i++) {
            memcpy(left + i * (int64_t)size,
                   data + (old[i] < 0 ? new[i] : old[i]) * (int64_t)size, size);
            memcpy(right + i * (int64_t)size, data + new[i] * (int64_t)size, size);
        }
        const void *in[2] = {left, right};
        void *out[1] = {keep};
        apply_run(call, select, (size_t)b.count, in, out);
        for (int64_t i = 0; i < b.count; i++)
            if (old[i] < 0 || !keep[i])
                old[i] = new[i];
        strided_copy(8, s->rank, b.dims, taken + b.out, b.out_strides, old, dense);
    } while (index_next(s->rank, s->sizes, position));
    return taken;
}

void eval_select_and_scatter(EvalCall *call)
{
    const Value *x = call->operands[0], *source = call->operands[1],
                *init = call->operands[2];
    Slide *s = ARENA_NEW(call->scratch, Slide);
    slide_make(call, s, x->shape, source->shape);
    int64_t *taken = select_elements(call, s, x, source->count);
    Fold f;
    fold_init(&f, call, inst_attr(call->inst, ATTR_SCATTER)->computations.data[0], 1);
    size_t size = dtype_info[f.types[0]].storage;
    Value *v = eval_result(call);
    char *acc = eval_temp(call, (size_t)v->count, size);
    strided_fill(size, acc, fold_input(&f, 0, init->shape->dtype, init->data, 1),
                 v->count);
    const char *from =
        fold_input(&f, 0, source->shape->dtype, source->data, (size_t)source->count);
    for (int64_t i = 0; i < source->count; i++) {
        if (taken[i] < 0)
            continue;
        void *at[1] = {acc + taken[i] * (int64_t)size};
        const void *in[1] = {from + i * (int64_t)size};
        fold_run(&f, 1, at, in);
    }
    fold_output(&f, 0, v->shape->dtype, v->data, acc, (size_t)v->count);
}
