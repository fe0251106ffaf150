/* Opcodes: the table made from ops.def, and what its columns mean.
 *
 * All that is true of an opcode stands in its row; parser, printer, verifier, evaluator and
 * passes ask the table. A pass that lists opcodes lists those that it transforms. */
#ifndef GXC_IR_OP_H
#define GXC_IR_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/attribute/attribute.h"

typedef enum {
#define OP(id, ...) OP_##id,
#include "ir/ops.def"
    OP_COUNT
} OpCode;

/* A set of opcodes. */
typedef struct OpSet {
    uint64_t words[(OP_COUNT + 63) / 64];
} OpSet;

static inline void op_set_add(OpSet *s, OpCode op)
{
    s->words[op / 64] |= UINT64_C(1) << op % 64;
}

static inline bool op_set_has(const OpSet *s, OpCode op)
{
    return (s->words[op / 64] >> op % 64 & 1) != 0;
}

/* Flags of an opcode. */
#define OPF_ELEMENTWISE                                                                  \
    (1u << 0) /* result element i depends on element i of each operand;
                                     scalars may stand for arrays in clamp and select */
#define OPF_COMMUTATIVE (1u << 1)
#define OPF_ASSOCIATIVE (1u << 2)
#define OPF_EFFECT (1u << 3)     /* must not be removed, merged or reordered */
#define OPF_COLLECTIVE (1u << 4) /* talks to other devices */
#define OPF_ASYNC_START (1u << 5)
#define OPF_ASYNC_DONE (1u << 6)
#define OPF_CONTROL                                                                      \
    (1u << 7) /* runs called computations as a program: call, while, ... */
#define OPF_INFERABLE (1u << 8) /* the text may leave out the result shape */
#define OPF_RECOMPUTED                                                                   \
    (1u << 9) /* the parser takes the inferred shape, not the declared one */
#define OPF_EXPENSIVE (1u << 10) /* costs much more than an addition per element */
#define OPF_MOVES (1u << 11)     /* only moves or selects elements: exact on any type */
#define OPF_RANDOM (1u << 12)    /* two equal ones may give different results */
#define OPF_BOUNDARY (1u << 13)  /* no value crosses it by fusion or code motion */
#define OPF_ACCURACY (1u << 14)  /* may have result_accuracy */
#define OPF_SIZES                                                                        \
    (1u << 15) /* has a meaning on arrays with run-time sizes, as elementwise ones have */
#define OPF_DENSE                                                                        \
    (1u << 16) /* arrays with run-time sizes mean arrays of just those sizes */

typedef struct InferContext InferContext; /* ir/infer/infer.h */
typedef struct EvalCall EvalCall;         /* ir/eval/eval.h */
typedef struct IndexContext IndexContext; /* ir/analysis/index_map.h */
typedef struct IndexMap IndexMap;

/* The shape that the operation gives, from operands, attributes and - where the opcode is
 * not inferable - the declared shape; checks all rules of the opcode on the way. NULL after
 * a message (section 9 of the language). */
typedef const Shape *InferFn(InferContext *cx, const Instruction *inst);
/* One step of the reference evaluator: reads operand values, makes the result. */
typedef void EvalFn(EvalCall *call);
/* The INDEX column: for leaf `leaf` of the result, maps[i] = the index map of operand i as a
 * function of the result index; an operand that is not read gets no results. */
typedef void IndexFn(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                     IndexMap *maps);

/* How an opcode's row treats one attribute. */
typedef enum {
    ATTR_REQUIRED,
    ATTR_OPTIONAL, /* printed when present (and not the default) */
    ATTR_SHOWN,    /* optional, but always printed */
    ATTR_ACCEPTED, /* parsed and dropped */
} AttrRule;

typedef struct OpAttr {
    AttrId id;
    AttrRule rule;
} OpAttr;

typedef struct OpInfo {
    const char *name;
    const char *doc;
    int arity; /* -1: any number of operands */
    uint32_t flags;
    InferFn *infer;
    EvalFn *eval;        /* NULL: the evaluator does not know it yet ("not supported") */
    IndexFn *index;      /* NULL: no index map */
    const OpAttr *attrs; /* in printed order; ended by ATTR_COUNT */
} OpInfo;

extern const OpInfo op_info[OP_COUNT];

/* The PAIR column. */
typedef struct OpPair {
    OpCode plain, start, done;
} OpPair;

/* The pair that `op` is the start, the done or the plain form of; NULL if it is of none, and for
 * async-start and async-done, which serve several. */
const OpPair *op_pair(OpCode op);
/* What a start or a done is the half of; other opcodes are themselves. */
OpCode op_plain(OpCode op);

/* The opcode with this spelling; OP_COUNT if there is none. */
OpCode op_find(const char *name, size_t length);
static inline bool op_is(OpCode op, uint32_t flags)
{
    return (op_info[op].flags & flags) != 0;
}
/* The op's own attribute with this spelling (spellings may be shared by two AttrIds with
 * different kinds, such as `algorithm`), or a shared one; NULL if it may not have it. */
const OpAttr *op_attr(OpCode op, const char *name, size_t length);

#endif
