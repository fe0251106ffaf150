/* Values of the evaluator: reference-counted, counted against a memory limit.
 *
 * Arrays are row-major in storage form, as in ir/literal.h, at the bounds of their shape;
 * `sizes` holds the run-time sizes of an array with dynamic dimensions. A buffer b(S) is the
 * array S itself. */
#ifndef GXC_IR_EVAL_VALUE_H
#define GXC_IR_EVAL_VALUE_H

#include "ir/literal.h"

typedef struct Value Value;

/* All values of one evaluation, so that an early end frees them. */
typedef struct ValueHeap {
    Value *first;
    struct Temp *temps;
    size_t bytes, limit;
} ValueHeap;

struct Value {
    ValueHeap *heap;
    Value *previous, *next;
    const Shape *shape;
    int64_t references;
    int64_t count;     /* arrays: elements */
    size_t bytes;      /* owned bytes of data */
    void *data;        /* arrays */
    void *owned;       /* what to free; NULL if data is borrowed */
    int64_t *sizes;    /* [rank] run-time sizes; NULL: the bounds */
    Value *elements[]; /* tuples: [shape->rank], NULL where not yet known */
};

Value *value_array(ValueHeap *heap, const Shape *shape); /* data not initialised */
Value *value_zero(ValueHeap *heap, const Shape *shape);  /* any shape, all zero */
Value *value_tuple(ValueHeap *heap, const Shape *shape); /* elements NULL */
Value *value_token(ValueHeap *heap, const Shape *shape);
Value *value_borrow(ValueHeap *heap, const Literal *l); /* the literal must outlive it */
Value *value_retain(Value *v);
void value_release(Value *v); /* NULL is fine */
void value_set_size(Value *v, uint32_t dimension, int64_t size);
int64_t value_size(const Value *v, uint32_t dimension); /* run-time size */
void value_copy_sizes(Value *to, const Value *from);    /* same rank */
size_t value_element_bytes(const Value *v);
Literal *value_literal(Arena *a, const Value *v); /* a copy */

/* Room that value_heap_release gives back; not initialised. */
void *value_heap_temp(ValueHeap *heap, size_t bytes);
/* A mark for value_heap_release, which frees what value_heap_temp made since. */
struct Temp *value_heap_mark(const ValueHeap *heap);
void value_heap_release(ValueHeap *heap, struct Temp *mark);
void value_heap_clear(ValueHeap *heap); /* frees all, whatever their counts */

/* One element of an array of integers or pred, by row-major number. */
int64_t value_int(const Value *v, int64_t index);

#endif
