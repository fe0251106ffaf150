/* One call of a library that is read as what it means: see library_calls.h. */
#ifndef GXC_FRONTEND_INPUT_LIBRARY_CALL_H
#define GXC_FRONTEND_INPUT_LIBRARY_CALL_H

#include <jansson.h>

#include "passes/simplify/rewrite.h"

enum { CALL_MOST_RANK = 8 };

typedef struct Call {
    Rewriter r;
    Instruction *inst;
    const Shape *shape;  /* of the result, or of the first one */
    Instruction *second; /* result, where the call says that there is one */
    json_t *config;      /* the object inside of the backend_config; borrowed */
    uint32_t next;       /* operand */
    const char *trouble; /* text in the module's arena */
    bool is_unsupported; /* the trouble is gxc's */
    bool is_left;        /* a form that is not read: it stays a call by name */
} Call;

typedef Instruction *CallReadFn(Call *c); /* NULL: trouble says why */

/* Sets the trouble, if there is none yet. False. */
bool call_fail(Call *c, const char *trouble);

/* Entries of the configuration; `missing` where there is none. */
double call_number(Call *c, const char *key, double missing);
const char *call_word(const Call *c, const char *key, const char *missing);
/* There is no such entry, or it is a name; false: trouble says so. */
bool call_is_word(Call *c, const char *key);
/* A list of dimensions of `numbers`, at most CALL_MOST_RANK; false: trouble says why. */
bool call_dims(Call *c, json_t *numbers, const char *key, int64_t *out, uint32_t *count);

/* The next operand; NULL: there is none. */
Instruction *call_take(Call *c, const char *what);
Instruction *call_as(Call *c, Instruction *x, DType t);
Instruction *call_clamped(Call *c, Instruction *x, double least, double most);
Instruction *call_times(Call *c, Instruction *x, double factor);
DType call_wide(const Call *c); /* that sums of the result are made in */

/* What follows a product or a convolution. */
Instruction *call_take_matrix(Call *c); /* the next operand, for call_plus_matrix */
/* x + factor * y, of x's shape. NULL: y is, or trouble says why. */
Instruction *call_plus_matrix(Call *c, Instruction *x, double factor, Instruction *y);
/* x + the next operand, a vector along dimension `dim`; NULL: trouble says why. */
Instruction *call_plus_vector(Call *c, Instruction *x, int64_t dim);
Instruction *call_relu(Call *c, Instruction *x);

/* Results in the shapes that the call has them, and zeros for the workspace behind them. */
Instruction *call_results(Call *c, Instruction **made, uint32_t count);

/* Convolutions (library_convolution.c): the result, or the first one. */
CallReadFn call_read_convolution, call_read_bias_convolution, call_read_image_gradient,
    call_read_filter_gradient;
/* Attentions (library_attention.c): all results, as a tuple of the call's shape. */
CallReadFn call_read_attention, call_read_attention_bias, call_read_attention_gradient,
    call_read_attention_gradient_bias;
/* Layer norms and their gradients (library_norm.c), in the same form. */
CallReadFn call_read_norm;

#endif
