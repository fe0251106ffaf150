/* The opcode table, made from ops.def; a row whose function is missing fails to link. */
#include "ir/op.h"

#include <pthread.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/op_functions.h"

/* `none` in a column: the table holds NULL. */
#define eval_none NULL
#define index_none NULL

#define R(id) {ATTR_##id, ATTR_REQUIRED},
#define O(id) {ATTR_##id, ATTR_OPTIONAL},
#define S(id) {ATTR_##id, ATTR_SHOWN},
#define I(id) {ATTR_##id, ATTR_ACCEPTED},
#define NONE
#define OP(id, name, arity, infer, eval, index, flags, attributes, doc)                  \
    static const OpAttr attrs_##id[] = {attributes{ATTR_COUNT, ATTR_OPTIONAL}};
#include "ir/ops.def"
#undef R
#undef O
#undef S
#undef I
#undef NONE

enum {
    ELEMENTWISE = OPF_ELEMENTWISE,
    COMMUTATIVE = OPF_COMMUTATIVE,
    ASSOCIATIVE = OPF_ASSOCIATIVE,
    EFFECT = OPF_EFFECT,
    COLLECTIVE = OPF_COLLECTIVE,
    ASYNC_START = OPF_ASYNC_START,
    ASYNC_DONE = OPF_ASYNC_DONE,
    CONTROL = OPF_CONTROL,
    INFERABLE = OPF_INFERABLE,
    RECOMPUTED = OPF_RECOMPUTED,
    EXPENSIVE = OPF_EXPENSIVE,
    MOVES = OPF_MOVES,
    RANDOM = OPF_RANDOM,
    BOUNDARY = OPF_BOUNDARY,
    ACCURACY = OPF_ACCURACY,
    SIZES = OPF_SIZES,
    DENSE = OPF_DENSE,
};

const OpInfo op_info[OP_COUNT] = {
#define OP(id, name, arity, infer, eval, index, flags, attributes, doc)                  \
    [OP_##id] = {name,          doc,         arity,         flags,                       \
                 infer_##infer, eval_##eval, index_##index, attrs_##id},
#include "ir/ops.def"
};

static const OpPair pairs[] = {
#define PAIR(plain, start, done) {OP_##plain, OP_##start, OP_##done},
#include "ir/ops.def"
};

const OpPair *op_pair(OpCode op)
{
    if (op == OP_ASYNC_START || op == OP_ASYNC_DONE)
        return NULL;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (pairs[i].plain == op || pairs[i].start == op || pairs[i].done == op)
            return &pairs[i];
    }
    return NULL;
}

OpCode op_plain(OpCode op)
{
    const OpPair *pair = op_is(op, OPF_ASYNC_START | OPF_ASYNC_DONE) ? op_pair(op) : NULL;
    return pair != NULL ? pair->plain : op;
}

/* Rows are sorted by spelling in ops.def or not: the look-up does not rely on it. It hashes
 * spellings into a table that is filled at first use (the same on every thread). */
#define FIND_SLOTS 512
_Static_assert(OP_COUNT * 2 < FIND_SLOTS, "the look-up table must stay sparse");

static uint32_t spelling_hash(const char *name, size_t length)
{
    return (uint32_t)XXH3_64bits(name, length);
}

static uint16_t find_table[FIND_SLOTS]; /* opcode + 1; 0 = free */
static pthread_once_t find_once = PTHREAD_ONCE_INIT;

static void find_fill(void)
{
    for (uint32_t op = 0; op < OP_COUNT; op++) {
        const char *name = op_info[op].name;
        uint32_t at = spelling_hash(name, strlen(name)) % FIND_SLOTS;
        while (find_table[at] != 0)
            at = (at + 1) % FIND_SLOTS;
        find_table[at] = (uint16_t)(op + 1);
    }
}

OpCode op_find(const char *name, size_t length)
{
    pthread_once(&find_once, find_fill);
    uint32_t at = spelling_hash(name, length) % FIND_SLOTS;
    for (; find_table[at] != 0; at = (at + 1) % FIND_SLOTS) {
        uint32_t op = find_table[at] - 1u;
        if (strncmp(op_info[op].name, name, length) == 0 &&
            op_info[op].name[length] == '\0')
            return (OpCode)op;
    }
    return OP_COUNT;
}

static bool spelled(AttrId id, const char *name, size_t length)
{
    return strncmp(attr_info[id].name, name, length) == 0 &&
           attr_info[id].name[length] == '\0';
}

const OpAttr *op_attr(OpCode op, const char *name, size_t length)
{
    static const OpAttr shared[] = {
#define SHARED(id) {ATTR_##id, ATTR_OPTIONAL},
#define OWN(id)
#define ATTR(id, name, kind, shared, names, doc) shared(id)
#include "ir/attribute/attrs.def"
#undef SHARED
#undef OWN
    };
    for (const OpAttr *a = op_info[op].attrs; a->id != ATTR_COUNT; a++) {
        if (spelled(a->id, name, length))
            return a;
    }
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        if (spelled(shared[i].id, name, length))
            return &shared[i];
    }
    return NULL;
}
