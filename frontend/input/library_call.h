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
    bool is_left;        /* a form that is not read: it stays a call by name */
} Call;

typedef Instruction *CallReadFn(Call *c); /* NULL: trouble says why */

/* Entries of the configuration; `missing` where there is none. */
double call_number(Call *c, const char *key, double missing);
const char *call_word(const Call *c, const char *key, const char *missing);
/* A list of dimensions of `numbers`, at most CALL_MOST_RANK; false: trouble says why. */
bool call_dims(Call *c, json_t *numbers, const char *key, int64_t *out, uint32_t *count);

/* The next operand; NULL: there is none. */
Instruction *call_take(Call *c, const char *what);
Instruction *call_as(Call *c, Instruction *x, DType t);
Instruction *call_times(Call *c, Instruction *x, double factor);

/* Results in the shapes that the call has them, and zeros for the workspace behind them. */
Instruction *call_results(Call *c, Instruction **made, uint32_t count);

/* Attentions (library_attention.c): all results, as a tuple of the call's shape. */
CallReadFn call_read_attention, call_read_attention_bias, call_read_attention_gradient,
    call_read_attention_gradient_bias;
/* Layer norms and their gradients (library_norm.c), in the same form. */
CallReadFn call_read_norm;

#endif
