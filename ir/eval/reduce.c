/* reduce: a fast path for one operand of a real type and a simple reducer, which walks the
 * operand in memory order, and a general one, which folds rows of independent results. */
#include <math.h>
#include <string.h>

#include "ir/eval/call.h"
#include "ir/eval/fold.h"
#include "ir/eval/strided.h"

/* The operand's dimensions: which are reduced, how far they go, and the strides of operand
 * and result (0 where reduced). */
typedef struct Reduction {
    uint32_t rank;
    int64_t dims[EVAL_RANK_MAX];
    bool reduced[EVAL_RANK_MAX];
    int64_t in[EVAL_RANK_MAX], out[EVAL_RANK_MAX];
    int64_t results, length; /* elements of a result; elements folded into each */
} Reduction;

static void reduction_make(EvalCall *call, Reduction *r)
{
    const Value *x = call->operands[0];
    Ints dims = inst_ints(call->inst, ATTR_DIMENSIONS);
    if (x->shape->rank > EVAL_RANK_MAX)
        eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX);
    r->rank = x->shape->rank;
    r->results = r->length = 1;
    strides_row_major(r->rank, x->shape->dims, r->in);
    for (uint32_t d = r->rank; d-- > 0;) {
        r->reduced[d] = ints_contain(dims, d);
        r->dims[d] = r->reduced[d] ? value_size(x, d) : x->shape->dims[d];
        r->out[d] = r->reduced[d] ? 0 : r->results;
        if (r->reduced[d])
            r->length *= r->dims[d];
        else
            r->results *= r->dims[d];
    }
}

/* Neighbouring dimensions of one kind that memory order walks as one become one. */
static void reduction_merge(Reduction *r)
{
    uint32_t top = 0;
    for (uint32_t d = 0; d < r->rank; d++) {
        if (r->dims[d] == 1)
            continue;
        if (top > 0 && r->reduced[top - 1] == r->reduced[d] &&
            r->in[top - 1] == r->in[d] * r->dims[d]) {
            r->dims[top - 1] *= r->dims[d];
            r->in[top - 1] = r->in[d];
            r->out[top - 1] = r->out[d];
            continue;
        }
        r->dims[top] = r->dims[d];
        r->reduced[top] = r->reduced[d];
        r->in[top] = r->in[d];
        r->out[top++] = r->out[d];
    }
    if (top == 0) {
        r->dims[0] = 1;
        r->reduced[0] = false;
        r->in[0] = r->out[0] = 1;
        top = 1;
    } else if (r->in[top - 1] != 1) { /* one element is left of a dynamic dimension */
        r->dims[top] = 1;
        r->reduced[top] = true;
        r->in[top] = 1;
        r->out[top++] = 0;
    }
    r->rank = top;
}

/* -- fast: one operand, simple reducer ------------------------------------------------ */

#define MAX_F64(x, y) ((x) > (y) || (x) != (x) || ((x) == (y) && !signbit(x)) ? (x) : (y))
#define MIN_F64(x, y) ((x) < (y) || (x) != (x) || ((x) == (y) && signbit(x)) ? (x) : (y))
#define MAX_INT(x, y) ((x) > (y) ? (x) : (y))
#define MIN_INT(x, y) ((x) < (y) ? (x) : (y))
#define ADD(x, y) ((x) + (y))
#define MULTIPLY(x, y) ((x) * (y))
#define AND(x, y) ((x) & (y))
#define OR(x, y) ((x) | (y))
#define XOR(x, y) ((x) ^ (y))

/* Along a row: four lanes, joined in a fixed order. Across: element by element. */
#define ROW(name, type, f)                                                               \
    static void name##_along(void *acc, const void *row, int64_t n)                      \
    {                                                                                    \
        type *restrict a = acc;                                                          \
        const type *restrict x = row;                                                    \
        int64_t i = 0;                                                                   \
        if (n >= 8) {                                                                    \
            type s0 = x[0], s1 = x[1], s2 = x[2], s3 = x[3];                             \
            for (i = 4; i + 4 <= n; i += 4) {                                            \
                s0 = f(s0, x[i]);                                                        \
                s1 = f(s1, x[i + 1]);                                                    \
                s2 = f(s2, x[i + 2]);                                                    \
                s3 = f(s3, x[i + 3]);                                                    \
            }                                                                            \
            s0 = f(s0, s1);                                                              \
            s2 = f(s2, s3);                                                              \
            s0 = f(s0, s2);                                                              \
            *a = f(*a, s0);                                                              \
        }                                                                                \
        for (; i < n; i++)                                                               \
            *a = f(*a, x[i]);                                                            \
    }                                                                                    \
    static void name##_across(void *acc, const void *row, int64_t n)                     \
    {                                                                                    \
        type *restrict a = acc;                                                          \
        const type *restrict x = row;                                                    \
        for (int64_t i = 0; i < n; i++)                                                  \
            a[i] = f(a[i], x[i]);                                                        \
    }
ROW(add_f64, double, ADD)
ROW(multiply_f64, double, MULTIPLY)
ROW(maximum_f64, double, MAX_F64)
ROW(minimum_f64, double, MIN_F64)
ROW(add_u64, uint64_t, ADD)
ROW(multiply_u64, uint64_t, MULTIPLY)
ROW(and_u64, uint64_t, AND)
ROW(or_u64, uint64_t, OR)
ROW(xor_u64, uint64_t, XOR)
ROW(maximum_u64, uint64_t, MAX_INT)
ROW(minimum_u64, uint64_t, MIN_INT)
ROW(maximum_s64, int64_t, MAX_INT)
ROW(minimum_s64, int64_t, MIN_INT)

typedef void RowFn(void *acc, const void *row, int64_t n);
typedef struct RowFns {
    RowFn *along, *across;
} RowFns;

#define FNS(name)                                                                        \
    {                                                                                    \
        name##_along, name##_across                                                      \
    }
static const RowFns rows_f64[] = {
    [SIMPLE_ADD] = FNS(add_f64),         [SIMPLE_MULTIPLY] = FNS(multiply_f64),
    [SIMPLE_MAXIMUM] = FNS(maximum_f64), [SIMPLE_MINIMUM] = FNS(minimum_f64),
    [SIMPLE_SECOND] = {NULL, NULL},
};
static const RowFns rows_s64[] = {
    [SIMPLE_ADD] = FNS(add_u64),         [SIMPLE_MULTIPLY] = FNS(multiply_u64),
    [SIMPLE_MAXIMUM] = FNS(maximum_s64), [SIMPLE_MINIMUM] = FNS(minimum_s64),
    [SIMPLE_AND] = FNS(and_u64),         [SIMPLE_OR] = FNS(or_u64),
    [SIMPLE_XOR] = FNS(xor_u64),         [SIMPLE_SECOND] = {NULL, NULL},
};
static const RowFns rows_u64[] = {
    [SIMPLE_ADD] = FNS(add_u64),         [SIMPLE_MULTIPLY] = FNS(multiply_u64),
    [SIMPLE_MAXIMUM] = FNS(maximum_u64), [SIMPLE_MINIMUM] = FNS(minimum_u64),
    [SIMPLE_AND] = FNS(and_u64),         [SIMPLE_OR] = FNS(or_u64),
    [SIMPLE_XOR] = FNS(xor_u64),         [SIMPLE_SECOND] = {NULL, NULL},
};

/* pred counts as 0 and 1: or is the maximum. */
static SimpleKind pred_kind(SimpleKind kind)
{
    if (kind == SIMPLE_ADD)
        return SIMPLE_OR;
    return kind == SIMPLE_MULTIPLY ? SIMPLE_AND : kind;
}

#define ROW_MOST 2048

static void reduce_row(const Reduction *r, const RowFns *fns, DType t, DType from,
                       const char *in, char *acc)
{
    uint32_t last = r->rank - 1;
    size_t size = dtype_info[from].storage;
    int64_t n = r->dims[last];
    uint64_t row[ROW_MOST];
    for (int64_t at = 0; at < n; at += ROW_MOST) {
        int64_t part = n - at < ROW_MOST ? n - at : ROW_MOST;
        const void *x = in + (size_t)at * size;
        if (from != t) {
            number_convert(t, row, from, x, (size_t)part);
            x = row;
        }
        if (r->reduced[last])
            fns->along(acc, x, part);
        else
            fns->across(acc + at * 8, x, part);
    }
}

static bool reduce_fast(EvalCall *call, Reduction *r, const Computation *comp, Value *v)
{
    const Value *x = call->operands[0], *init = call->operands[1];
    SimpleKind kind = apply_simple(comp, 0);
    DType from = x->shape->dtype, t = DT_F64;
    const RowFns *table = rows_f64;
    if (dtype_is_signed(from)) {
        t = DT_S64;
        table = rows_s64;
    } else if (dtype_is_unsigned(from) || from == DT_PRED) {
        t = DT_U64;
        table = rows_u64;
        if (from == DT_PRED)
            kind = pred_kind(kind);
    } else if (!dtype_is_float(from)) {
        return false;
    }
    if (kind == SIMPLE_NONE || kind >= SIMPLE_FIRST || r->rank == 0 ||
        (t == DT_F64 && kind > SIMPLE_MINIMUM) || comp->root->shape->dtype != from)
        return false;
    const RowFns *fns = &table[kind];
    uint64_t start = 0;
    number_convert(t, &start, init->shape->dtype, init->data, 1);
    char *acc = eval_temp(call, (size_t)r->results, 8);
    strided_fill(8, acc, &start, r->results);
    reduction_merge(r);
    if (r->length != 0 && r->results != 0) {
        int64_t index[EVAL_RANK_MAX] = {0};
        do {
            int64_t in = 0, out = 0;
            for (uint32_t d = 0; d + 1 < r->rank; d++) {
                in += index[d] * r->in[d];
                out += index[d] * r->out[d];
            }
            reduce_row(r, fns, t, from,
                       (const char *)x->data + in * (int64_t)dtype_info[from].storage,
                       acc + out * 8);
        } while (index_next(r->rank - 1, r->dims, index));
    }
    number_convert(v->shape->dtype, v->data, t, acc, (size_t)r->results);
    return true;
}

/* -- general ------------------------------------------------------------------------ */

/* Operand i as [length][results], in the fold's type. */
static const char *reduced_first(EvalCall *call, const Reduction *r, Fold *f, uint32_t i)
{
    const Value *x = call->operands[i];
    size_t size = value_element_bytes(x), total = (size_t)(r->length * r->results);
    int64_t dims[EVAL_RANK_MAX], in[EVAL_RANK_MAX], to[EVAL_RANK_MAX];
    uint32_t rank = 0;
    for (int kept = 0; kept < 2; kept++) {
        for (uint32_t d = 0; d < r->rank; d++) {
            if (r->reduced[d] == kept)
                continue;
            dims[rank] = r->dims[d];
            in[rank++] = r->in[d];
        }
    }
    void *out = eval_temp(call, total, size);
    strides_row_major(rank, dims, to);
    strided_copy(size, rank, dims, out, to, x->data, in);
    return fold_input(f, i, x->shape->dtype, out, total);
}

#define LANES_LENGTH 1024 /* from this length on, few results are folded in lanes */
#define LANES 64

/* With few results, LANES stretches of the operand are folded side by side, each from its
 * first element on, and then into the result one after the other. Gives how many elements
 * of each result are done. */
static int64_t fold_lanes(EvalCall *call, const Reduction *r, Fold *f,
                          const char *const *x, void *const *acc)
{
    if (r->length < LANES_LENGTH || r->results >= LANES)
        return 0;
    int64_t each = r->length / LANES, n = LANES * r->results;
    void **lanes = ARENA_ARRAY(call->scratch, void *, f->count);
    void **row = ARENA_ARRAY(call->scratch, void *, f->count);
    const void **next = ARENA_ARRAY(call->scratch, const void *, f->count);
    for (uint32_t i = 0; i < f->count; i++) {
        lanes[i] = eval_temp(call, (size_t)n, dtype_info[f->types[i]].storage);
        row[i] = eval_temp(call, (size_t)n, dtype_info[f->types[i]].storage);
        next[i] = row[i];
    }
    int64_t dims[2] = {LANES, r->results}, in[2] = {each * r->results, 1};
    int64_t to[2] = {r->results, 1};
    for (int64_t s = 0; s < each; s++) {
        for (uint32_t i = 0; i < f->count; i++) {
            size_t size = dtype_info[f->types[i]].storage;
            strided_copy(size, 2, dims, s == 0 ? lanes[i] : row[i], to,
                         x[i] + (size_t)(s * r->results) * size, in);
        }
        if (s > 0)
            fold_run(f, (size_t)n, lanes, next);
    }
    for (int64_t l = 0; l < LANES; l++) {
        for (uint32_t i = 0; i < f->count; i++)
            next[i] = (char *)lanes[i] +
                      (size_t)(l * r->results) * dtype_info[f->types[i]].storage;
        fold_run(f, (size_t)r->results, acc, next);
    }
    return each * LANES;
}

static void reduce_general(EvalCall *call, const Reduction *r, const Computation *comp,
                           uint32_t count, Value *const *results)
{
    Fold f;
    fold_init(&f, call, comp, count);
    const char **x = ARENA_ARRAY(call->scratch, const char *, count);
    const void **row = ARENA_ARRAY(call->scratch, const void *, count);
    void **acc = ARENA_ARRAY(call->scratch, void *, count);
    for (uint32_t i = 0; i < count; i++) {
        const Value *init = call->operands[count + i];
        size_t size = dtype_info[f.types[i]].storage;
        x[i] = reduced_first(call, r, &f, i);
        acc[i] = eval_temp(call, (size_t)r->results, size);
        strided_fill(size, acc[i], fold_input(&f, i, init->shape->dtype, init->data, 1),
                     r->results);
    }
    for (int64_t l = fold_lanes(call, r, &f, x, acc); l < r->length; l++) {
        for (uint32_t i = 0; i < count; i++)
            row[i] = x[i] + (size_t)(l * r->results) * dtype_info[f.types[i]].storage;
        fold_run(&f, (size_t)r->results, acc, row);
    }
    for (uint32_t i = 0; i < count; i++)
        fold_output(&f, i, results[i]->shape->dtype, results[i]->data, acc[i],
                    (size_t)r->results);
}

void eval_reduce(EvalCall *call)
{
    const Instruction *inst = call->inst;
    const Computation *comp = inst_called(inst, 0);
    uint32_t count = inst->operand_count / 2;
    Reduction r;
    reduction_make(call, &r);
    Value *v = eval_result(call);
    Value **results = v->shape->dtype == DT_TUPLE ? v->elements : &v;
    for (uint32_t i = 0; i < count; i++) {
        const Value *x = call->operands[i];
        uint32_t at = 0;
        for (uint32_t d = 0; d < x->shape->rank && x->sizes != NULL; d++)
            if (!r.reduced[d])
                value_set_size(results[i], at++, x->sizes[d]);
    }
    if (count == 1 && reduce_fast(call, &r, comp, results[0]))
        return;
    reduce_general(call, &r, comp, count, results);
}
