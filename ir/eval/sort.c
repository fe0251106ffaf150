/* sort and topk.
 *
 * Keys of one comparison are sorted by radix. Any other comparator runs in batches: all rows
 * are merge-sorted from the bottom up, and each round compares one pair of every merge that
 * is under way. Both are stable. */
#include <string.h>

#include "ir/eval/apply.h"
#include "ir/eval/call.h"
#include "ir/eval/strided.h"
#include "ir/eval/topk.h"

/* -- by radix ----------------------------------------------------------------------- */

typedef struct Keyed {
    uint64_t key;
    int64_t index;
} Keyed;

/* Sorts by key, equal ones by the order they came in; gives `a` or `b`, which holds them. */
static Keyed *radix_sort(Keyed *a, Keyed *b, size_t n)
{
    for (uint32_t shift = 0; shift < 64; shift += 8) {
        size_t count[257] = {0};
        for (size_t i = 0; i < n; i++)
            count[((a[i].key >> shift) & 255) + 1]++;
        bool one = false;
        for (uint32_t i = 1; i <= 256; i++) {
            one = one || count[i] == n;
            count[i] += count[i - 1];
        }
        if (one)
            continue;
        for (size_t i = 0; i < n; i++)
            b[count[(a[i].key >> shift) & 255]++] = a[i];
        Keyed *t = a;
        a = b;
        b = t;
    }
    return a;
}

/* -- by batches of comparisons ---------------------------------------------------------- */

typedef struct Sorter {
    EvalCall *call;
    Apply *less;
    uint32_t count;      /* of operands */
    const char **rows;   /* [count] the operands as [rows][n] */
    size_t *sizes;       /* [count] of their elements */
    void **gathered;     /* [2 count] room for a batch */
    const void **inputs; /* the same */
    uint8_t *answers;
} Sorter;

typedef struct Merge {
    int64_t left, left_end, right, right_end, out;
} Merge;

#define BATCH 4096

/* answers[i] = less(right[i], left[i]), elements named by their number in all rows. */
static void compare_batch(Sorter *s, size_t n, const int64_t *left, const int64_t *right)
{
    for (uint32_t k = 0; k < s->count; k++) {
        size_t size = s->sizes[k];
        char *first = s->gathered[2 * k], *second = s->gathered[2 * k + 1];
        for (size_t i = 0; i < n; i++) {
            memcpy(first + i * size, s->rows[k] + (size_t)right[i] * size, size);
            memcpy(second + i * size, s->rows[k] + (size_t)left[i] * size, size);
        }
    }
    void *out[1] = {s->answers};
    apply_run(s->call, s->less, n, s->inputs, out);
}

static void merge_all(Sorter *s, Merge *merges, size_t n, const int64_t *from,
                      int64_t *to)
{
    int64_t left[BATCH], right[BATCH];
    while (n > 0) {
        size_t alive = 0;
        for (size_t i = 0; i < n; i++) {
            left[i] = from[merges[i].left];
            right[i] = from[merges[i].right];
        }
        compare_batch(s, n, left, right);
        for (size_t i = 0; i < n; i++) {
            Merge m = merges[i];
            if (s->answers[i])
                to[m.out++] = from[m.right++];
            else
                to[m.out++] = from[m.left++];
            if (m.left == m.left_end || m.right == m.right_end) {
                memcpy(to + m.out, from + m.left,
                       (size_t)(m.left_end - m.left) * sizeof *to);
                m.out += m.left_end - m.left;
                memcpy(to + m.out, from + m.right,
                       (size_t)(m.right_end - m.right) * sizeof *to);
            } else {
                merges[alive++] = m;
            }
        }
        n = alive;
    }
}

/* order[rows][n]: numbers of elements; gives the array that holds the sorted ones. */
static int64_t *merge_sort(Sorter *s, int64_t rows, int64_t n, int64_t *order,
                           int64_t *other)
{
    Merge *merges = eval_temp(s->call, BATCH, sizeof *merges);
    for (int64_t width = 1; width < n; width *= 2) {
        size_t waiting = 0;
        memcpy(other, order, (size_t)(rows * n) * sizeof *other);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t at = 0; at + width < n; at += 2 * width) {
                int64_t end = at + 2 * width < n ? at + 2 * width : n;
                merges[waiting++] = (Merge){r * n + at, r * n + at + width,
                                            r * n + at + width, r * n + end, r * n + at};
                if (waiting < BATCH)
                    continue;
                merge_all(s, merges, waiting, order, other);
                waiting = 0;
            }
        }
        merge_all(s, merges, waiting, order, other);
        int64_t *t = order;
        order = other;
        other = t;
    }
    return order;
}

/* -- sort --------------------------------------------------------------------------- */

/* The rows of an operand side by side, the sorted dimension innermost. */
typedef struct Rows {
    uint32_t rank;
    int64_t dims[EVAL_RANK_MAX], strides[EVAL_RANK_MAX], dense[EVAL_RANK_MAX];
    int64_t rows, n;
} Rows;

/* Of a dynamic dimension only the elements that are there. */
static void rows_make(EvalCall *call, Rows *r, const Value *x, int64_t d)
{
    const Shape *s = x->shape;
    if (s->rank > EVAL_RANK_MAX)
        eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX);
    int64_t strides[EVAL_RANK_MAX];
    strides_row_major(s->rank, s->dims, strides);
    r->rank = 0;
    r->rows = 1;
    for (uint32_t k = 0; k < s->rank; k++) {
        if (k == d)
            continue;
        r->dims[r->rank] = s->dims[k];
        r->strides[r->rank++] = strides[k];
        r->rows *= s->dims[k];
    }
    r->n = r->dims[r->rank] = value_size(x, (uint32_t)d);
    r->strides[r->rank++] = strides[d];
    strides_row_major(r->rank, r->dims, r->dense);
}

/* A comparator that is `p(2i) < p(2i + 1)` or `>` of real numbers without NaN, -1: another. */
static int64_t simple_key(const Instruction *inst, const Value *const *operands,
                          bool *larger, bool *zeros_equal)
{
    const Instruction *root = inst_called(inst, 0)->root;
    if (root->op != OP_COMPARE || root->operands[0]->op != OP_PARAMETER ||
        root->operands[1]->op != OP_PARAMETER)
        return -1;
    int64_t a = root->operands[0]->parameter, b = root->operands[1]->parameter;
    int64_t direction = inst_int(root, ATTR_DIRECTION, DIRECTION_EQ);
    if (a / 2 != b / 2 || a == b ||
        (direction != DIRECTION_LT && direction != DIRECTION_GT))
        return -1;
    const Value *x = operands[a / 2];
    DType t = x->shape->dtype;
    if (root->operands[0]->shape->dtype != t || dtype_is_complex(t))
        return -1;
    bool total = inst_int(root, ATTR_TYPE, COMPARE_FLOAT) == COMPARE_TOTALORDER;
    if (dtype_is_float(t) && !total) {
        if (dtype_info[t].special == SPECIAL_FNUZ ||
            dtype_info[t].special == SPECIAL_E8M0)
            return -1;
        const char *data = x->data;
        for (int64_t i = 0; i < x->count; i++)
            if (number_is_nan(t, data + (size_t)i * dtype_info[t].storage))
                return -1;
    }
    *larger = (direction == DIRECTION_GT) != (a > b);
    *zeros_equal = dtype_is_float(t) && !total;
    return a / 2;
}

static int64_t *sort_by_key(EvalCall *call, const Rows *r, DType t, const char *keys,
                            bool larger, bool zeros_equal)
{
    size_t n = (size_t)r->n, size = dtype_info[t].storage;
    uint64_t minus_zero = ((uint64_t)1 << (dtype_info[t].bits - 1)) - 1;
    Keyed *a = eval_temp(call, n, sizeof *a), *b = eval_temp(call, n, sizeof *b);
    int64_t *order = eval_temp(call, (size_t)(r->rows * r->n), sizeof *order);
    for (int64_t row = 0; row < r->rows; row++) {
        int64_t first = row * r->n;
        for (size_t i = 0; i < n; i++) {
            uint64_t key = number_rank(t, keys + ((size_t)first + i) * size);
            key += zeros_equal && key == minus_zero;
            a[i] = (Keyed){larger ? ~key : key, first + (int64_t)i};
        }
        const Keyed *sorted = radix_sort(a, b, n);
        for (size_t i = 0; i < n; i++)
            order[(size_t)first + i] = sorted[i].index;
    }
    return order;
}

static int64_t *sort_by_batches(EvalCall *call, const Rows *r, uint32_t count,
                                const char **rows, size_t *sizes)
{
    Sorter s = {.call = call, .count = count, .rows = rows, .sizes = sizes};
    s.less = apply_of(call, inst_called(call->inst, 0));
    s.gathered = ARENA_ARRAY(call->scratch, void *, 2 * (size_t)count);
    s.inputs = ARENA_ARRAY(call->scratch, const void *, 2 * (size_t)count);
    for (uint32_t k = 0; k < 2 * count; k++)
        s.inputs[k] = s.gathered[k] = eval_temp(call, BATCH, sizes[k / 2]);
    s.answers = eval_temp(call, BATCH, 1);
    size_t total = (size_t)(r->rows * r->n);
    int64_t *order = eval_temp(call, total, sizeof *order);
    int64_t *other = eval_temp(call, total, sizeof *other);
    for (size_t i = 0; i < total; i++)
        order[i] = (int64_t)i;
    return merge_sort(&s, r->rows, r->n, order, other);
}

void eval_sort(EvalCall *call)
{
    const Instruction *inst = call->inst;
    uint32_t count = inst->operand_count;
    Value *v = eval_result(call);
    Value **results = v->shape->dtype == DT_TUPLE ? v->elements : &v;
    for (uint32_t k = 0; k < count; k++) {
        value_copy_sizes(results[k], call->operands[k]);
        memcpy(results[k]->data, call->operands[k]->data, results[k]->bytes);
    }
    if (call->operands[0]->shape->rank == 0 || results[0]->count == 0)
        return;
    Rows r;
    rows_make(call, &r, call->operands[0], inst_ints(inst, ATTR_DIMENSIONS).data[0]);
    const char **rows = ARENA_ARRAY(call->scratch, const char *, count);
    const Value **operands = ARENA_ARRAY(call->scratch, const Value *, count);
    size_t *sizes = ARENA_ARRAY(call->scratch, size_t, count),
           total = (size_t)(r.rows * r.n);
    for (uint32_t k = 0; k < count; k++) {
        operands[k] = call->operands[k];
        sizes[k] = value_element_bytes(operands[k]);
        char *copy = eval_temp(call, total, sizes[k]);
        strided_copy(sizes[k], r.rank, r.dims, copy, r.dense, operands[k]->data,
                     r.strides);
        rows[k] = copy;
    }
    bool larger = false, zeros_equal = false;
    int64_t key = simple_key(inst, operands, &larger, &zeros_equal);
    const int64_t *order = key >= 0 ? sort_by_key(call, &r, operands[key]->shape->dtype,
                                                  rows[key], larger, zeros_equal)
                                    : sort_by_batches(call, &r, count, rows, sizes);
    for (uint32_t k = 0; k < count; k++) {
        char *copy = eval_temp(call, total, sizes[k]);
        for (size_t i = 0; i < total; i++)
            memcpy(copy + i * sizes[k], rows[k] + (size_t)order[i] * sizes[k], sizes[k]);
        strided_copy(sizes[k], r.rank, r.dims, results[k]->data, r.strides, copy,
                     r.dense);
    }
}

/* -- topk --------------------------------------------------------------------------- */

void topk_rows(EvalCall *call, const Value *x, bool largest, Value *values,
               Value *positions)
{
    DType t = x->shape->dtype;
    if (dtype_is_complex(t) || x->shape->rank == 0)
        eval_unsupported(call, "the largest of %s",
                         shape_text(call->scratch, x->shape, false));
    size_t size = value_element_bytes(x);
    int64_t n = x->shape->dims[x->shape->rank - 1];
    int64_t k = values->shape->dims[values->shape->rank - 1];
    Keyed *a = eval_temp(call, (size_t)n, sizeof *a),
          *b = eval_temp(call, (size_t)n, sizeof *b);
    for (int64_t row = 0; n > 0 && row < x->count / n; row++) {
        const char *in = (const char *)x->data + (size_t)(row * n) * size;
        for (int64_t i = 0; i < n; i++) {
            uint64_t key = number_rank(t, in + (size_t)i * size);
            a[i] = (Keyed){largest ? ~key : key, i};
        }
        const Keyed *sorted = radix_sort(a, b, (size_t)n);
        for (int64_t i = 0; i < k; i++) {
            memcpy((char *)values->data + (size_t)(row * k + i) * size,
                   in + (size_t)sorted[i].index * size, size);
            number_set_int(positions->shape->dtype,
                           (char *)positions->data +
                               (size_t)(row * k + i) * value_element_bytes(positions),
                           sorted[i].index);
        }
    }
}

void eval_topk(EvalCall *call)
{
    const Attr *largest = inst_attr(call->inst, ATTR_LARGEST);
    Value *v = eval_result(call);
    topk_rows(call, call->operands[0], largest == NULL || largest->i != 0, v->elements[0],
              v->elements[1]);
}
