/* The state that lexer, grammar and actions of the HLO text parser share.
 *
 * flex (hlo.l) makes raw tokens, which are spans of the source: nothing is copied. The token
 * filter (filter.c) stands between it and bison (hlo.y): it turns array shapes into one token,
 * and reads whole attribute values and literals - their syntax depends on the attribute's kind
 * and the instruction's shape - so that the grammar is the structure of the language alone.
 * The actions (build*.c) make the module. */
#ifndef GXC_FRONTEND_HLO_PARSER_H
#define GXC_FRONTEND_HLO_PARSER_H

#include <string.h>

#include "frontend/stack.h"
#include "ir/module.h"

#define PARSE_DEPTH 8192 /* of all brackets together */

typedef struct Parser Parser;

/* A name of the source and what it means now. One table serves all scopes: leaving a nested
 * computation restores what it hid. */
typedef struct Symbol {
    const char *text; /* NUL-terminated */
    uint32_t length;
    uint32_t scope;    /* serial of the scope in which `inst` is bound; 0 = none */
    Span span;         /* where the instruction was defined */
    Instruction *inst; /* NULL although bound: its definition was wrong */
    struct Definition *computation; /* of this name; NULL: none */
} Symbol;

typedef struct Definition {
    Computation *comp; /* NULL: it was wrong */
    Span span;
} Definition;

typedef struct SymbolSlot {
    uint32_t hash;
    uint32_t number; /* of the symbol, from 1; 0: free */
} SymbolSlot;

#define SYMBOL_BLOCK 1024

/* What a nested computation hid. */
typedef struct Hidden {
    Symbol *symbol;
    uint32_t scope;
    Span span;
    Instruction *inst;
} Hidden;

/* A computation that is being read. */
typedef struct Scope {
    Computation *comp;
    uint32_t serial;
    bool is_entry;
    bool in_body;   /* behind its '{' */
    uint32_t depth; /* of brackets there */
    bool broken;    /* an instruction was lost: the computation is not made */
    bool lost_name; /* one whose name is not known: unknown names are no surprise */
    Symbol *symbol; /* of the computation's name; NULL: nested */
    Instruction *root;
    Span root_span;
    const Shape *declared_result;
    Span result_span;
    size_t hidden_mark, parameter_mark;
    /* heights of the stacks at the start of the body */
    size_t call_mark, operand_mark, shape_mark, callee_mark, int_mark;
} Scope;

typedef enum { SUGAR_NONE, SUGAR_START, SUGAR_UPDATE, SUGAR_DONE } Sugar;

/* `shape opcode(operands)` that is being read. */
typedef struct Call {
    OpCode op;          /* OP_COUNT: unknown, reported */
    Sugar sugar;        /* op is the wrapped opcode */
    const Shape *shape; /* NULL: not written */
    Span op_span, open_span;
    const Literal *literal;
    int64_t parameter; /* -1: not written */
    bool broken;       /* the literal or an operand was wrong: reported */
} Call;

/* An instruction that is being read; nested computations make a stack of them. */
typedef struct Pending {
    Symbol *symbol; /* NULL: a single instruction without a name */
    Span span;
    bool is_root;
    bool broken;
    Call call;
    uint32_t operand_count;
    size_t attr_mark, control_mark;
    Span attrs_span; /* where the attribute list starts */
    Attr attr;       /* the attribute that is being read */
    size_t callee_mark, shape_mark;
} Pending;

/* What the token filter has to read next in place of a raw token. */
typedef enum {
    WANT_TOKEN,
    WANT_START,     /* the form of the whole text */
    WANT_ATTRIBUTE, /* the value of pending.attr */
    WANT_HEADER,    /* the value of a header attribute */
    WANT_THREAD,    /* the string of execution_thread */
    WANT_LITERAL,   /* constant's literal */
    WANT_RESYNC     /* skip to where reading can go on after an error */
} Want;

typedef struct Token {
    Span span; /* first: it is read and written as one word */
    int kind;
} Token;

struct Parser {
    Arena *arena;   /* the module's */
    Arena *scratch; /* gone after parsing */
    Diag *diag;
    const char *text;
    size_t length;
    Module *m;
    Intern *intern;
    void *scanner;     /* flex */
    char *scanned;     /* its copy of the text */
    bool in_name[256]; /* the bytes of names */
    bool in_keyword
        [256]; /* the first bytes of the words that name nothing by themselves */
    bool bad;  /* the last token was wrong, and this was said */
    uint32_t table_count; /* of stack frames, those read */

    /* token filter */
    Want want;
    Token ahead[4]; /* raw tokens that were put back, last first */
    unsigned ahead_count;
    Span taken; /* the last raw token; its end is moved by what reads on by itself */
    Span last;  /* the last token given to the grammar */
    bool wants_name; /* what comes next is a name, after that token */
    uint32_t depth;
    Span header_name; /* of the header attribute that is being read */
    uint64_t header_seen;

    /* symbols */
    SymbolSlot *slots; /* open addressing; at most half full */
    size_t slot_count, symbol_count;
    STACK(Symbol *) symbols; /* blocks of SYMBOL_BLOCK */
    STACK(Hidden) hidden;

    /* memory of shapes by their text */
    struct ShapeMemo *shape_memo;
    size_t memo_capacity, memo_count;

    /* actions */
    STACK(Scope) scopes;
    STACK(Pending) pending;
    STACK(Call) calls;
    STACK(Instruction *) operands;
    STACK(Attr) attrs;
    STACK(Instruction *) controls;
    STACK(Instruction *) parameters; /* of the open scopes */
    STACK(const Shape *) shapes;
    STACK(Computation *) callees;
    STACK(int64_t) ints;
    STACK(Computation *) open_async; /* wrapped by a start that leaves operands open */
    uint32_t next_serial;
    STACK(Computation *) finished; /* in the order in which they were finished */
    Computation *entry;
    Span entry_span;
    bool is_single, is_headerless, lost_computation;
    bool has_config_layout;
    Span alias_span;
    uint32_t anonymous; /* nameless operands of a single instruction */
};

/* -- hlo.l ---------------------------------------------------------------------------- */
void lexer_open(Parser *p);
Token lexer_next(Parser *p);               /* raw; kind TOK_BAD after a message */
void lexer_seek(Parser *p, size_t offset); /* goes on reading there */

/* -- token.c: helpers for those who read raw tokens --------------------------------------- */
Token take(Parser *p); /* the next raw token */
Token peek(Parser *p); /* the same, and leaves it */
void put_back(Parser *p, Token t);
bool accept_token(Parser *p, int kind, Token *out);
bool accept_word(Parser *p, const char *word); /* an identifier that spells so */
bool expect(Parser *p, int kind, Token *out); /* out may be NULL; false after a message */
bool expect_int(Parser *p, int64_t *out);
bool expect_number(Parser *p, double *out); /* integer, float, inf, nan */
bool expect_bool(Parser *p, bool *out);
bool expect_string(Parser *p, Bytes *out); /* unescaped, in the module's arena */
bool expect_json(Parser *p, Bytes *out);   /* raw, with its braces */
bool expect_ints(Parser *p, Ints *out);    /* { i, ... } */
bool expect_ints_between(Parser *p, int open, int close, Ints *out); /* other brackets */
bool expect_int_lists(Parser *p, IntLists *out); /* { { i, ... }, ... } */
const char *token_text(const Parser *p, Token t,
                       size_t *length); /* without % : = quotes */
bool token_is(const Parser *p, Token t, const char *word);
bool token_int(Parser *p, Token t, int64_t *out);
bool enter(Parser *p, Span at); /* one level deeper; false after a message */
void leave(Parser *p);
bool parse_array_shape(Parser *p, Token first, const Shape **out); /* array_shape.c */
Ints ints_take(Parser *p,
               size_t mark); /* ints above the mark, moved to the module's arena */

/* Messages; none where the lexer has said already what is wrong. All return false. */
bool token_unexpected(Parser *p, Token t, const char *wanted); /* expects ..., but sees */
bool token_unknown(Parser *p, Token t, const char *what,
                   const char *allowed); /* unexpected WHAT ...; expects ALLOWED */
bool token_wrong(Parser *p, Token t, const char *message);

/* `{ item, item, ... }`, in other brackets, too; it may be empty:
 *   List l = list_open(p, '{', '}');
 *   while (list_next(p, &l)) read one item;
 *   return l.right; */
typedef struct List {
    int close;
    bool right; /* false: a message was made */
    bool begun;
} List;
List list_open(Parser *p, int open, int close);
bool list_next(Parser *p, List *l);

/* -- header.c --------------------------------------------------------------------------- */
bool header_value(Parser *p);               /* of the header attribute header_name */
bool table_parse(Parser *p, Token keyword); /* FileNames ... StackFrames */

/* -- value.c: values of attributes ------------------------------------------------------ */
bool value_parse(Parser *p, Pending *at); /* into at->attr */
bool value_aliasing(Parser *p, bool header, Aliasing *out);
/* value_window.c */
bool value_window(Parser *p, const Window **out);
bool value_padding(Parser *p, const Padding **out);
bool value_labels(Parser *p, const DimLabels **out);
bool value_slice(Parser *p, const SliceSpec **out);
bool value_sparsity(Parser *p, const Sparsity **out);
/* value_sharding.c */
bool value_sharding(Parser *p, const Sharding **out);
bool value_replica_groups(Parser *p, const ReplicaGroups **out);
/* value_notes.c */
bool value_metadata(Parser *p, const Metadata **out);
bool value_dict(Parser *p, const Dict **out);
bool value_statistics(Parser *p, const Statistics **out);
/* value_origin.c */
bool value_origin(Parser *p, const Origin **out);
bool value_origin_table(Parser *p, Bytes *out);
bool value_debug_attributes(Parser *p, Bytes *out);

/* -- literal.c -------------------------------------------------------------------------- */
/* Reads a literal of this shape from the source at `offset`, which it moves behind it. */
bool literal_parse(Parser *p, const Shape *shape, size_t *offset, const Literal **out);
bool literal_parse_typed(Parser *p,
                         const Literal **out); /* shapes are written before arrays */

/* -- symbol.c --------------------------------------------------------------------------- */
uint32_t text_hash(const char *text, size_t length);
Symbol *symbol_get(Parser *p, const char *text, size_t length);
const char *name_text(const Parser *p, Span name, size_t *length); /* without % and : */
Symbol *symbol_named(Parser *p, Span name);
/* The instruction of this name in the innermost scope; *known is false where there is none. */
Instruction *symbol_instruction(Parser *p, const Symbol *s, bool *known);
void symbol_bind(Parser *p, Symbol *s, Instruction *inst, Span span);
bool symbol_is_illegal(const Symbol *s); /* as the name of an instruction */
/* The first definition counts; comp is NULL if it is wrong. */
void symbol_define(Parser *p, Symbol *s, Computation *comp, Span span);
/* The computation of this name, NULL after a message (or if its definition was wrong). */
Computation *symbol_computation(Parser *p, Span name);

/* -- build*.c: actions of the grammar; those that return bool: false = read on at the next
 *    instruction, a message was made ---------------------------------------------------- */
bool build_lost(Parser *p); /* always false */
static inline Scope *scope_top(const Parser *p)
{
    return &p->scopes.data[p->scopes.count - 1];
}
static inline Pending *pending_top(const Parser *p)
{
    return &p->pending.data[p->pending.count - 1];
}
void build_module_name(Parser *p, Span name);
void build_header_attribute(Parser *p, Span name);
bool build_header_layout(Parser *p, size_t parameters, const Shape *result);
void build_computation_begin(Parser *p, bool is_entry, Span name, bool nested);
void build_body(Parser *p);
void build_lost_computation(Parser *p);
void build_signature(Parser *p, const Shape *result, Span span);
Computation *build_computation_end(Parser *p, Span close);
void build_thread(Parser *p, Span name);
bool build_instruction_begin(Parser *p, bool is_root, Span name);
bool build_call_begin(Parser *p, const Shape *shape, Span op, Span open);
void build_argument_int(Parser *p, Span value);
bool build_path(Parser *p, Span index);
void build_operand(Parser *p, const Shape *shape, Span shape_span, Span name,
                   bool has_name, size_t path);
void build_nested(Parser *p, size_t operand_count);
void build_attributes_begin(Parser *p, size_t operand_count, Span at);
bool build_attribute_begin(Parser *p, Span name);
void build_attribute_end(Parser *p);
void build_callee(Parser *p, Span name);
void build_instruction_end(Parser *p);
/* Makes the instruction from a call whose operands and attributes are complete, with the rules
 * that the text has to keep (build_rules.c); NULL after a message. */
Instruction *build_instruction(Parser *p, const Call *call, uint32_t operand_count,
                               Instruction *const *operands, uint32_t attr_count,
                               const Attr *attrs, Span span, Span attrs_span);
Instruction *build_open(Parser *p, const Call *call, uint32_t operand_count,
                        Instruction *const *operands, uint32_t attr_count,
                        const Attr *attrs, Span span);
bool build_complete(Parser *p, Instruction *inst, Span at);
void build_lost_instruction(Parser *p);
void build_single_begin(Parser *p);
const Shape *build_tuple(Parser *p, size_t count);
const Shape *build_buffer(Parser *p, const Shape *inner, Span at);

/* -- async_rules.c ---------------------------------------------------------------------- */
bool async_is_shape(const Shape *s); /* ((operands...), result, contexts...) */
/* Of a start or what follows it; NULL: something else. */
const Instruction *async_start_of(const Instruction *inst);
/* Gives the wrapped computation the parameters and the result that an update or done knows. */
void async_bind(Parser *p, Computation *comp, const Shape *inputs, const Shape *result);
/* What async-update and async-done say of the computation must agree with the start, and is not
 * kept: the start says it. False after a message. */
bool async_rules(Parser *p, Instruction *inst);

/* -- build_async.c, import.c ------------------------------------------------------------ */
Instruction *build_async(Parser *p, Pending *at, Instruction **operands);
void import_finish(Parser *p); /* names, order, entry, configuration */

#endif
