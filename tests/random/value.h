/* What the generator knows of a value that it made. Floats are tracked so that every module has
 * an answer that does not depend on how a compiler rounds: exact values are multiples of
 * 2^grain below 2^high; arithmetic that could round makes a value inexact, and what jumps
 * (comparisons, conversions to integers, sorting) never reads inexact values. */
#ifndef GXC_TESTS_RANDOM_VALUE_H
#define GXC_TESTS_RANDOM_VALUE_H

#include <stdio.h>

#include "tests/random/random.h"

enum { MAX_RANK = 6, MAX_VALUES = 512, MAX_DEPTH = 5 };

typedef struct Value {
    char name[24];
    DType type;
    int rank;
    int64_t dims[MAX_RANK];
    int depth;       /* roundings on the way here; 0: exact */
    int high, grain; /* log2 bounds; exact floats only use `grain` */
    bool special;    /* may hold NaN, infinities, anything */
    bool pure;       /* bits are those of an input: -0 and NaN payloads are known */
    bool used;
    int parameter;   /* its number + 1; 0: none */
    char layout[24]; /* as written, minor to major; empty: the default */
} Value;

typedef struct Shared {
    Random random;
    FILE *head;    /* finished computations */
    FILE *inexact; /* names of values, for tolerance.h */
    int next_id;
    char reducers[64][40]; /* made so far */
    int reducer_count;
    bool has_special;
    bool other_words;      /* sums as differences, ... */
    char aliases[512];     /* of results with parameters, as in the header */
    int64_t most_elements; /* of an array; most modules are small */
    int replicas, partitions;
    int channels; /* used so far */
} Shared;

/* One computation in the making. */
typedef struct Gen {
    Shared *shared;
    FILE *body;
    Value values[MAX_VALUES];
    int count;
    int parameters;
    bool entry;
    bool uniform; /* all devices run it, equally often */
    int nesting;
    char last_draw[24]; /* what drew random numbers last */
} Gen;

int64_t below(Gen *g, int64_t n);
bool chance(Gen *g, int percent);

/* Types */
bool is_float(DType t);
bool is_complex(DType t);
bool is_int(DType t);
bool is_arithmetic(DType t); /* all but e8m0 */
int max_depth(DType t);

/* Values; NULL: there is no room or the operation would not have a sure answer. */
int64_t elements_of(const Value *v);
Value *pick(Gen *g); /* any value; makes one if there is none */
Value *pick_type(Gen *g, DType t);
Value *pick_class(Gen *g, const char *classes); /* letters of p s u f c */
Value *pick_rank(Gen *g, int least);
Value *same_shape(Gen *g, const Value *like, DType t); /* another of this shape */
Value *scalar(Gen *g, DType t);
Value *index_vector(Gen *g, int rank, const int64_t *dims, int bound);
Value *fresh(Gen *g, DType t, int rank,
             const int64_t *dims); /* parameter, constant, iota */
/* A parameter of the entry, all of whose elements are small and exact. */
Value *small_argument(Gen *g, DType t, int rank, const int64_t *dims);
Value *constant_scalar(Gen *g, DType t, double value);
DType any_type(Gen *g);
void any_dims(Gen *g, int *rank, int64_t *dims);

/* Adds "name = type[dims] text"; the value starts exact and small. */
Value *emit(Gen *g, DType t, int rank, const int64_t *dims, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void say(Gen *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *shape_of(const Value *v, char out[128]);
const char *list(const int64_t *items, int count, char out[128]);
/* Facts of v: those of a and b (NULL: none) together, as of an operation that only moves. */
void moved(Value *v, const Value *a, const Value *b);
/* After high and grain are set from operands of this depth: exact if the type can hold it. */
void settle(Value *v, int depth);
bool may_round(const Value *v);          /* one more rounding is allowed */
bool jumps(const Value *v);              /* a jumping operation may read it */
bool is_short(const Value *v, int bits); /* exact, and no longer than so many bits */

const char *reducer(Gen *g, DType t,
                    const char *op); /* binary computation of an opcode */
Gen *begin(Gen *outer);              /* a called computation */
const char *finish(Gen *g, const Value *root, const char *prefix, char out[24]);
void finish_entry(Gen *g);
void grow(Gen *g, int instructions);         /* adds random instructions */
void grow_fusible(Gen *g, int instructions); /* what may stand in a fusion */

/* One file for each group of operations; a function adds one, or nothing. */
typedef void GenFn(Gen *g);
GenFn gen_unary, gen_binary, gen_mixed, gen_compare, gen_select, gen_convert, gen_bits,
    gen_complex;
GenFn gen_broadcast, gen_reshape, gen_transpose, gen_slice, gen_pad, gen_concatenate,
    gen_reverse, gen_dynamic_slice, gen_dynamic_update, gen_gather, gen_scatter, gen_copy,
    gen_fresh, gen_tuple_parameter;
GenFn gen_reduce, gen_reduce_pair, gen_reduce_ordered, gen_reduce_window_ordered,
    gen_reduce_window, gen_reduce_window_pair, gen_select_and_scatter, gen_dot,
    gen_convolution, gen_sort, gen_topk, gen_fft, gen_cholesky, gen_spectrum, gen_norm,
    gen_random_bits;
/* May an operation of a reduction - "add", "maximum" - read a, and what its result is of n of them. */
bool can_reduce(const Value *a, const char *op);
void reduced(Value *v, const Value *a, const char *op, int64_t n);
/* Adds an operation that combines arrays like `first`, of integers, by an associative computation for which the
 * order counts; of one of them indices along dimension `counted` (-1: none) may be known. */
void combine_ordered(Gen *g, Value *first, int counted, const char *op,
                     const char *attributes, int rank, const int64_t *dims);
/* One that this type has, and its starting value. */
const char *choose_reduction(Gen *g, const Value *a, Value **init);
int log2_up(int64_t n);
GenFn gen_collective, gen_device_id, gen_async;
GenFn gen_dynamic;
GenFn gen_scan, gen_ragged_dot, gen_scaled_dot, gen_sort_many, gen_rng, gen_rounding,
    gen_wrapped, gen_norm_others;
GenFn gen_normalised, gen_attention, gen_rows, gen_quantised, gen_moments,
    gen_sort_floats, gen_norm_gradient, gen_cross_entropy;
GenFn gen_long, gen_stencil; /* of several tiles */
GenFn gen_product;           /* on tensor cores */
void grow_products(Gen *g);  /* a module of them */
GenFn gen_while, gen_walk, gen_trips, gen_conditional, gen_call, gen_map, gen_tuple,
    gen_fusion;

#endif
