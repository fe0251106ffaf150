/* The structure of the HLO text language. It knows no opcode and no attribute: those come from
 * the tables in ir/. The token filter (filter.c) reads as one token what has a grammar of its
 * own: an array shape, a constant's literal, the value of an attribute, a table. Where a value
 * holds shapes or computations, the filter says so with an AS_ token and the grammar goes on. */
%require "3.8"
%define api.pure full
%define api.prefix {hlo_text_}
%define api.token.prefix {TOK_}
%define api.location.type {Span}
%define parse.error custom
%locations
%expect 0
%param {Parser *p}

%code requires {
#include "frontend/hlo/parser.h"
}
%code provides {
int hlo_text_lex(HLO_TEXT_STYPE *value, Span *span, Parser *p); /* filter.c */
}
%code {
#include <stdio.h>
#define YYMAXDEPTH (PARSE_DEPTH * 8)
#define YYLLOC_DEFAULT(whole, part, n)                                                       \
    ((whole) = (n) != 0 ? (Span){YYRHSLOC(part, 1).begin, YYRHSLOC(part, n).end}             \
                        : (Span){YYRHSLOC(part, 0).end, YYRHSLOC(part, 0).end})
static void hlo_text_error(const Span *span, Parser *p, const char *message);
}

%union {
    const Shape *shape;
    size_t count;
    bool is;
}

%token END 0      "end of text"
%token HLO_MODULE "'HloModule'"
%token ENTRY      "'ENTRY'"
%token ROOT       "'ROOT'"
%token IDENT      "name"
%token NAME       "name with '%' or ':'"
%token ATTR       "attribute name"
%token INT        "integer"
%token FLOAT      "number"
%token STRING     "string"
%token TRUE       "'true'"
%token FALSE      "'false'"
%token DIM_LABELS "dimension labels"
%token DXD        "sizes such as 2x3"
%token PAD        "padding such as 0_1x0_0"
%token DOTS       "'...'"
%token LEQ        "'<='"
%token ARROW      "'->'"
%token PRIM       "element type"
%token ARRAY      "array shape"
%token TABLE      "table of stack frames"
%token SHARDING   "word of a sharding"
%token BUFFER     "buffer shape"
%token BAD        "character of no token"
%token JSON       "dictionary"
/* made by the filter */
%token <shape> SHAPE "shape"
%token VALUE      "value of an attribute"
%token LITERAL    "literal"
%token AS_COMPUTATION "computation"
%token AS_COMPUTATIONS "computations"
%token AS_SHAPE "shape of an attribute"
%token AS_SHAPES "shapes of an attribute"
%token AS_LAYOUT "layout of the entry"
%token START_COMPUTATIONS "start of computations"
%token START_NAMED "start of a named instruction"
%token START_SINGLE "start of an instruction"
%token RESYNC "point to go on"
%token RESYNC_COMPUTATION "next computation"

%type <shape> shape typed
%type <count> shapes operands arguments path
%type <is> entry_opt

%%

text:
    HLO_MODULE name                 { build_module_name(p, @2); }
        header_attributes tables computations
  | START_COMPUTATIONS computations
  | START_NAMED                     { build_single_begin(p); }
        instruction
  | START_SINGLE                    { build_single_begin(p);
                                      build_instruction_begin(p, true, (Span){0}); }
        body                        { build_instruction_end(p); }
  ;
name: IDENT | NAME ;

header_attributes: %empty | header_attributes ',' header_attribute ;
header_attribute: header_name header_value | error RESYNC_COMPUTATION { yyerrok; } ;
header_name: ATTR                   { build_header_attribute(p, @1); } ;
header_value:
    VALUE
  | AS_LAYOUT '{' '(' ')' ARROW shape '}'
                                    { if (!build_header_layout(p, 0, $6)) YYERROR; }
  | AS_LAYOUT '{' '(' shapes ')' ARROW shape '}'
                                    { if (!build_header_layout(p, $4, $7)) YYERROR; }
  ;
tables: %empty | TABLE TABLE TABLE TABLE ; /* table_parse wants them in their order */

computations: computation | computations computation ;
computation:
    entry_opt computation_name      { build_computation_begin(p, $1, @2, false); }
        signature '{'               { build_body(p); }
        instructions '}'            { build_computation_end(p, @8); }
        thread
  | error RESYNC_COMPUTATION        { build_lost_computation(p); yyerrok; }
  ;
computation_name: IDENT | NAME | BUFFER ;
entry_opt: %empty { $$ = false; } | ENTRY { $$ = true; } ;
thread: %empty | ',' thread_name VALUE ;
thread_name: ATTR                   { build_thread(p, @1); } ;

signature:
    %empty
  | '(' ')' ARROW shape             { build_signature(p, $4, @4); }
  | '(' parameters ')' ARROW shape  { build_signature(p, $5, @5); }
  ;
parameters: parameter | parameters ',' parameter ;
parameter: name shape ;

shape:
    SHAPE
  | '(' ')'                         { $$ = build_tuple(p, 0); }
  | '(' shapes ')'                  { $$ = build_tuple(p, $2); }
  | BUFFER '(' shape ')'            { $$ = build_buffer(p, $3, @3); if ($$ == NULL) YYERROR; }
  ;
shapes:
    shape                           { STACK_PUSH(p, p->shapes, $1); $$ = 1; }
  | shapes ',' shape                { STACK_PUSH(p, p->shapes, $3); $$ = $1 + 1; }
  ;

instructions: instruction | instructions instruction ;
instruction:
    left body                       { build_instruction_end(p); }
  | error RESYNC                    { build_lost_instruction(p); yyerrok; }
  ;
left:
    name '='                        { build_instruction_begin(p, false, @1); }
  | ROOT name '='                   { build_instruction_begin(p, true, @2); }
  ;
body:
    head ')'                        { build_attributes_begin(p, 0, @2); }
  | head arguments ')'              { build_attributes_begin(p, $2, @3); }
  | body ',' attribute_name VALUE   { build_attribute_end(p); }
  | body ',' attribute_name structure { build_attribute_end(p); }
  ;
head:
    typed IDENT '('                 { if (!build_call_begin(p, $1, @2, @3)) YYERROR; }
  | IDENT '('                       { if (!build_call_begin(p, NULL, @1, @2)) YYERROR; }
  ;
typed: shape ; /* a name comes next: without it, that is what is missing */
arguments:
    INT                             { build_argument_int(p, @1); $$ = 0; }
  | LITERAL                         { $$ = 0; }
  | operands
  ;
operands:
    operand                         { $$ = 1; }
  | operands ',' operand            { $$ = $1 + 1; }
  ;
operand:
    name                            { build_operand(p, NULL, @1, @1, true, 0); }
  | name path                       { build_operand(p, NULL, @1, @1, true, $2); }
  | typed name                      { build_operand(p, $1, @1, @2, true, 0); }
  | typed name path                 { build_operand(p, $1, @1, @2, true, $3); }
  | shape                           { build_operand(p, $1, @1, @1, false, 0); }
  | head ')'                        { build_nested(p, 0); }
  | head arguments ')'              { build_nested(p, $2); }
  ;
path:
    '#' INT                         { if (!build_path(p, @2)) YYERROR; $$ = 1; }
  | path '#' INT                    { if (!build_path(p, @3)) YYERROR; $$ = $1 + 1; }
  ;

attribute_name: ATTR                { if (!build_attribute_begin(p, @1)) YYERROR; } ;
structure:
    AS_COMPUTATION callee
  | AS_COMPUTATIONS '{' '}'
  | AS_COMPUTATIONS '{' callees '}'
  | AS_SHAPE shape                  { STACK_PUSH(p, p->shapes, $2); }
  | AS_SHAPES '{' '}'
  | AS_SHAPES '{' shapes '}'
  ;
callees: callee | callees ',' callee ;
callee:
    name                            { build_callee(p, @1); }
  | '{'                             { build_computation_begin(p, false, @1, true); }
        instructions '}'            { Computation *comp = build_computation_end(p, @4);
                                      STACK_PUSH(p, p->callees, comp); }
  ;

%%

/* "expects A, B or C, but sees X" */
static int yyreport_syntax_error(const yypcontext_t *cx, Parser *p)
{
    enum { SHOWN = 4 };
    int kind = yypcontext_token(cx);
    p->want = WANT_RESYNC;
    if (kind == YYSYMBOL_BAD)
        return 0; /* the lexer or the filter has said it */
    const Span *span = yypcontext_location(cx);
    yysymbol_kind_t expected[YYNTOKENS];
    int count = yypcontext_expected_tokens(cx, expected, YYNTOKENS);
    char text[512];
    size_t length = 0;
    text[0] = '\0';
    int kept = 0;
    bool shape = false, name = false;
    for (int i = 0; i < count; i++) {
        shape = shape || expected[i] == YYSYMBOL_SHAPE;
        name = name || expected[i] == YYSYMBOL_IDENT;
    }
    for (int i = 0; i < count && count <= SHOWN; i++) {
        if (expected[i] != YYSYMBOL_NAME) /* "name" says it */
            expected[kept++] = expected[i];
    }
    if (shape && name) { /* the name behind a shape that may be left out */
        expected[0] = YYSYMBOL_IDENT;
        kept = 1;
    }
    count = kept;
    for (int i = 0; i < count; i++) {
        const char *join = i == 0 ? "" : i == count - 1 ? " or " : ", ";
        int n = snprintf(text + length, sizeof text - length, "%s%s", join,
                         yysymbol_name(expected[i]));
        if (n > 0 && (size_t)n < sizeof text - length)
            length += (size_t)n;
    }
    char seen[64];
    size_t seen_length = span->end - span->begin;
    if (kind == YYSYMBOL_YYEOF || seen_length == 0)
        snprintf(seen, sizeof seen, "the end of the text");
    else
        snprintf(seen, sizeof seen, "'%.*s%s'", (int)(seen_length < 40 ? seen_length : 40),
                 p->text + span->begin, seen_length > 40 ? "..." : "");
    if (length != 0)
        diag_error(p->diag, *span, "expects %s, but sees %s", text, seen);
    else
        diag_error(p->diag, *span, "unexpected %s", seen);
    if (kind == YYSYMBOL_ATTR)
        diag_note(p->diag, *span, "if this is a name, write a space between it and '='");
    else if (kind == YYSYMBOL_ENTRY && p->scopes.count != 0)
        diag_note(p->diag, scope_top(p)->comp->span, "is the '}' of this computation missing?");
    return 0;
}

static void hlo_text_error(const Span *span, Parser *p, const char *message)
{
    (void)message; /* bison's own only complaint: its stack is full */
    diag_error(p->diag, *span, "maximum recursion depth exceeded");
}
