/* The structure of MLIR's text: operations, regions, types, attributes. No operation stands here but
 * those that define names (functions, modules, meshes) and those whose pretty form is like no other's. */
%require "3.8"
%define api.pure full
%define api.prefix {mlir_}
%define api.token.prefix {TOK_}
%define api.location.type {Span}
%define parse.error custom
%locations
%expect 0
%param {MlirReader *r}

%code requires {
#include "frontend/stablehlo/reader.h"
}
%code provides {
int mlir_lex(MLIR_STYPE *value, Span *span, MlirReader *r); /* mlir.l */
}
%code {
#include <stdio.h>
#define YYMAXDEPTH (MLIR_DEPTH * 64)
#define YYLLOC_DEFAULT(whole, part, n)                                                       \
    ((whole) = (n) != 0 ? (Span){YYRHSLOC(part, 1).begin, YYRHSLOC(part, n).end}             \
                        : (Span){YYRHSLOC(part, 0).end, YYRHSLOC(part, 0).end})
static void mlir_error(const Span *span, MlirReader *r, const char *message);
#define NO_SPAN ((Span){0, 0})
}

%union {
    const MlirAttr *attr;
    const MlirType *type;
    size_t count;
}

%token END 0      "end of text"
%token VALUE      "value"
%token SYMBOL     "symbol"
%token LABEL      "label of a block"
%token HASH       "attribute"
%token DIALECT    "attribute of a dialect"
%token BANG       "type alias"
%token INT        "integer"
%token FLOAT      "number"
%token STRING     "string"
%token ARROW      "'->'"
%token NESTED     "'::'"
%token META_OPEN  "'{-#'"
%token META_CLOSE "'#-}'"
%token OP         "operation"
%token RETURN     "'return'"
%token WORD       "word"
%token TYPE       "type"
%token DENSE      "elements"
%token RESOURCE   "resource"
%token OPAQUE     "attribute of another dialect"
%token X          "'x'"
%token INIT       "'init'"
%token APPLIES    "'applies'"
%token ACROSS     "'across'"
%token REDUCER    "'reducer'"
%token COND       "'cond'"
%token DO         "'do'"
%token ATTRIBUTES "'attributes'"
%token TRUE       "'true'"
%token FALSE      "'false'"
%token UNIT       "'unit'"
%token TUPLE      "'tuple'"
%token LOC        "'loc'"
%token CALLSITE   "'callsite'"
%token FUSED      "'fused'"
%token AT         "'at'"
%token TO         "'to'"
%token MODULE     "'module'"
%token FUNC       "'func.func'"
%token MESH       "'sdy.mesh'"
%token MANUAL     "'sdy.manual_computation'"
%token NAMED      "'sdy.named_computation'"
%token SCAN       "'chlo.scan'"
%token BAD        "character of no token"

%type <attr> attr value list dict location location_opt location_inst bare_attr
%type <type> type plain_type
%type <count> types types_opt results_of list_items entries entries_opt locations
%type <count> block_arguments function_arguments function_results function_result_list

%%

file: %empty | file top ;
top:
    op
  | HASH '=' attr                   { read_alias(r, @1, $3); }
  | BANG '=' type                   { read_alias_type(r, @1, $3); }
  | META_OPEN meta_entries META_CLOSE
  ;
meta_entries: %empty | meta_list ;
meta_list: meta | meta_list ',' meta ;
meta:
    meta_name ':' '{' meta_entries '}'
  | meta_name ':' STRING            { read_resource(r, @1, @3); }
  | meta_name ':' INT
  | meta_name ':' TRUE
  | meta_name ':' FALSE
  ;
meta_name: name | STRING ;

/* -- operations -- */

ops: %empty | ops op ;
op: { op_begin(r); } results body ;
results: %empty | result_list '=' ;
result_list: result | result_list ',' result ;
result:
    VALUE                           { op_result(r, @1, NO_SPAN); }
  | VALUE ':' INT                   { op_result(r, @1, @3); }
  ;
body:
    generic location_opt            { op_end_generic(r, $2); }
  | pretty location_opt             { op_end_pretty(r, $2); }
  ;

generic:
    STRING                          { op_name(r, @1); }
        '(' uses ')' properties regions attributes_opt ':' type
                                    { STACK_PUSH(r, r->types, $10); op_types(r, 0, 1, true); }
  ;
uses: %empty | use_list ;
use_list: use | use_list ',' use ;
use: VALUE                          { op_operand(r, @1); } ;
properties: %empty | '<' dict '>'   { op_attributes(r, $2); } ;
regions: %empty | '(' region_list ')' ;
region_list: plain_region | region_list ',' plain_region ;
plain_region: { region_begin(r, @$, REGION_LABELLED); } region ;
attributes_opt: %empty | dict       { op_attributes(r, $1); } ;

region: '{' blocks '}'              { region_end(r); } ;
blocks: block | blocks label block ;
block: ops | ops terminator ;
terminator:
    RETURN                          { op_begin(r); op_name(r, @1); }
        uses attributes_opt return_types location_opt
                                    { op_end_pretty(r, $6); }
  ;
return_types: %empty | ':' types    { op_types(r, 0, $2, false); } ;
label:
    LABEL ':'                       { region_block(r, @1); }
  | LABEL '(' block_arguments ')' ':'
                                    { region_block(r, @1); }
  ;
block_arguments: %empty { $$ = 0; } | argument_list { $$ = 0; } ;
argument_list: argument | argument_list ',' argument ;
argument: VALUE ':' type location_opt { op_argument(r, @1, $3, $4); } ;

pretty:
    pretty_name items types_tail trailer
  | MODULE                          { op_name(r, @1); }
        symbol_opt module_attributes
                                    { region_begin(r, @$, REGION_GIVEN); }
        region
  | FUNC                            { op_name(r, @1); }
        visibility SYMBOL           { op_item(r, "sym_name", read_text_attr(r, MLIR_STRING, @4)); }
        '(' function_arguments ')' function_results
                                    { op_function_type(r, $7, $9); }
        module_attributes function_body
  | MESH                            { op_name(r, @1); }
        SYMBOL '=' bare_attr        { op_item(r, "sym_name", read_text_attr(r, MLIR_STRING, @3));
                                      op_item(r, "mesh", $5); }
        attributes_opt
  | manual parens clauses '(' block_arguments ')'
                                    { region_begin(r, @4, REGION_GIVEN); }
        region types_tail
  | SCAN                            { op_name(r, @1); }
        parens                      { op_scanned(r); }
        WORD parens                 { op_scan_inits(r, @5); }
        item_name '=' value         { op_item(r, read_name(r, @8), $10); }
        module_attributes           { region_begin(r, @$, REGION_LABELLED); }
        region types_tail
  ;
pretty_name: OP                     { op_pretty(r, @1); } ;
manual:
    MANUAL                          { op_name(r, @1); }
  | NAMED                           { op_name(r, @1); }
        bare_attr                   { op_item(r, "name", $3); }
  ;
symbol_opt: %empty | SYMBOL         { op_item(r, "sym_name", read_text_attr(r, MLIR_STRING, @1)); } ;
module_attributes: %empty | ATTRIBUTES dict { op_attributes(r, $2); } ;
visibility: %empty | WORD           { op_item(r, "sym_visibility", read_text_attr(r, MLIR_STRING, @1)); } ;
function_arguments:
    %empty                          { $$ = 0; }
  | function_argument               { $$ = 1; }
  | function_arguments ',' function_argument
                                    { $$ = $1 + 1; }
  ;
function_argument:
    VALUE ':' type argument_attrs location_opt
                                    { op_argument(r, @1, $3, $5); STACK_PUSH(r, r->types, $3); }
  | type argument_attrs             { STACK_PUSH(r, r->types, $1); }
  ;
argument_attrs: %empty              { op_argument_attrs(r, NULL); }
  | dict                            { op_argument_attrs(r, $1); } ;
function_results:
    %empty                          { $$ = 0; }
  | ARROW plain_type                { STACK_PUSH(r, r->types, $2); op_argument_attrs(r, NULL); $$ = 1; }
  | ARROW '(' ')'                   { $$ = 0; }
  | ARROW '(' function_result_list ')'
                                    { $$ = $3; }
  ;
function_result_list:
    function_result                 { $$ = 1; }
  | function_result_list ',' function_result
                                    { $$ = $1 + 1; }
  ;
function_result: type argument_attrs { STACK_PUSH(r, r->types, $1); } ;
function_body: %empty | { region_begin(r, @$, REGION_GIVEN); } region ;

clauses: %empty | clauses item_name '=' value { op_item(r, read_name(r, @2), $4); } ;
items: %empty | items item ;
item:
    ','                             { form_top(r)->after_value = false; form_top(r)->comma = @1; }
  | VALUE                           { op_separated(r, @1); op_operand(r, @1); form_top(r)->after_value = true; }
  | item_name '=' value             { op_item(r, read_name(r, @1), $3); }
  | bare_attr                       { op_item(r, NULL, $1); }
  | STRING                          { op_item(r, NULL, read_text_attr(r, MLIR_STRING, @1)); }
  | WORD                            { op_separated(r, @1); op_item(r, NULL, read_text_attr(r, MLIR_WORD, @1)); }
  | symbol                          { op_item(r, NULL, read_text_attr(r, MLIR_SYMBOL, @1)); }
  | DENSE                           { op_item(r, NULL, read_dense(r, @1, NULL)); }
  | RESOURCE                        { op_item(r, NULL, read_dense(r, @1, NULL)); }
  | FLOAT                           { op_item(r, NULL, read_float(r, @1, NULL)); }
  | dict                            { op_attributes(r, $1); }
  | parens
  | APPLIES OP                      { op_item(r, "applies", read_text_attr(r, MLIR_WORD, @2)); }
  | ACROSS item_name '=' list       { op_item(r, "dimensions", $4); }
  ;
bare_attr:
    list
  | '<' entries_opt '>'                 { $$ = read_struct(r, @$, NO_SPAN, $2); }
  ;
item_name: WORD | TYPE ;
parens: '(' ')' | '(' paren_list ')' ;
paren_list: paren | paren_list ',' paren ;
paren:
    VALUE                           { op_operand(r, @1); }
  | VALUE INIT ':' VALUE            { op_operand(r, @1); STACK_PUSH(r, r->inits, read_value(r, @4)); }
  | VALUE '=' VALUE                 { op_operand(r, @3); op_loop_argument(r, @1); }
  | item_name '=' value             { op_item(r, read_name(r, @1), $3); }
  ;
symbol: SYMBOL | symbol NESTED SYMBOL ;

types_tail:
    ':' types                       { op_types(r, 0, $2, false); }
  | ':' types ARROW results_of      { op_types(r, $2, $4, true); }
  ;
trailer:
    %empty
  | module_attributes_given loop
  | loop
  | reducer_arguments               { region_begin(r, @1, REGION_PAIRS); }
        region
  ;
module_attributes_given: ATTRIBUTES dict { op_attributes(r, $2); } ;
loop: COND { region_begin(r, @1, REGION_GIVEN); } region DO { region_begin(r, @4, REGION_GIVEN); } region ;
reducer_arguments: REDUCER '(' pair ')' | reducer_arguments '(' pair ')' ;
pair: argument ',' argument ;

/* -- types -- */

types: type { STACK_PUSH(r, r->types, $1); $$ = 1; }
  | types ',' type                  { STACK_PUSH(r, r->types, $3); $$ = $1 + 1; } ;
types_opt: %empty { $$ = 0; } | types ;
type:
    plain_type
  | '(' types_opt ')' ARROW results_of
                                    { $$ = read_function(r, $2, $5); }
  ;
plain_type:
    TYPE                            { $$ = read_type(r, @1); }
  | BANG                            { $$ = read_type_alias(r, @1); }
  | TUPLE '<' types_opt '>'         { $$ = read_tuple(r, $3); }
  ;
results_of:
    plain_type                      { STACK_PUSH(r, r->types, $1); $$ = 1; }
  | '(' types_opt ')'               { $$ = $2; }
  ;

/* -- attributes -- */

attr:
    value
  | INT ':' type                    { $$ = read_integer(r, @1, $3); }
  | FLOAT ':' type                  { $$ = read_float(r, @1, $3); }
  | STRING ':' type                 { $$ = read_text_attr(r, MLIR_STRING, @1); }
  | DENSE ':' type                  { $$ = read_dense(r, @1, $3); }
  | RESOURCE ':' type               { $$ = read_dense(r, @1, $3); }
  ;
value:
    INT                             { $$ = read_integer(r, @1, NULL); }
  | FLOAT                           { $$ = read_float(r, @1, NULL); }
  | STRING                          { $$ = read_text_attr(r, MLIR_STRING, @1); }
  | DENSE                           { $$ = read_dense(r, @1, NULL); }
  | TRUE                            { $$ = read_bool(r, @1, true); }
  | FALSE                           { $$ = read_bool(r, @1, false); }
  | UNIT                            { $$ = read_attr(r, MLIR_UNIT, @1); }
  | symbol                          { $$ = read_text_attr(r, MLIR_SYMBOL, @1); }
  | WORD                            { $$ = read_text_attr(r, MLIR_WORD, @1); }
  | type                            { $$ = read_type_attr(r, @1, $1); }
  | OPAQUE                          { $$ = read_text_attr(r, MLIR_OPAQUE, @1); }
  | HASH                            { $$ = read_text_attr(r, MLIR_ALIAS, @1); }
  | DIALECT '<' entries_opt '>'            { $$ = read_struct(r, @$, @1, $3); }
  | '<' entries_opt '>'                 { $$ = read_struct(r, @$, NO_SPAN, $2); }
  | dict
  | list
  | list X list                     { STACK_PUSH(r, r->attrs, $1); STACK_PUSH(r, r->attrs, $3);
                                      $$ = read_lists(r, @$, 2); }
  | list X list ARROW list          { STACK_PUSH(r, r->attrs, $1); STACK_PUSH(r, r->attrs, $3);
                                      STACK_PUSH(r, r->attrs, $5); $$ = read_lists(r, @$, 3); }
  | '(' INT ')' INT                 { $$ = read_range(r, @$, @2, @4, NULL); }
  | location
  ;
list:
    '[' ']'                         { $$ = read_list(r, @$, 0); }
  | '[' list_items ']'              { $$ = read_list(r, @$, $2); }
  ;
list_items: list_item { $$ = 1; } | list_items ',' list_item { $$ = $1 + 1; } ;
list_item:
    attr                            { STACK_PUSH(r, r->attrs, $1); }
  | '?'                             { STACK_PUSH(r, r->attrs, read_text_attr(r, MLIR_WORD, @1)); }
  | INT ':' INT                     { STACK_PUSH(r, r->attrs, read_range(r, @$, @1, @3, NULL)); }
  | INT ':' INT ':' INT             { STACK_PUSH(r, r->attrs, read_range(r, @$, @1, @3, &@5)); }
  | STRING '=' INT                  { read_entry(r, read_name(r, @1), read_integer(r, @3, NULL));
                                      STACK_PUSH(r, r->attrs, read_dict(r, @$, 1)); }
  | dict WORD                       { STACK_PUSH(r, r->attrs, $1); /* {"x"}p0: a priority of sdy's */ }
  ;
dict: '{' '}'                       { $$ = read_dict(r, @$, 0); }
  | '{' entries '}'                 { $$ = read_dict(r, @$, $2); } ;
entries_opt: %empty { $$ = 0; } | entries ;
entries: entry { $$ = 1; } | entries ',' entry { $$ = $1 + 1; } ;
entry:
    name '=' attr                   { read_entry(r, read_name(r, @1), $3); }
  | STRING '=' attr                 { read_entry(r, read_name(r, @1), $3); }
  | attr                            { read_entry(r, NULL, $1); }
  | unit_name                       { read_entry(r, NULL, read_text_attr(r, MLIR_WORD, @1)); }
  | WORD word_list                  { read_entry(r, read_name(r, @1), read_text_attr(r, MLIR_WORD, @2)); }
  | STRING ':' '(' INT ')' INT      { read_entry(r, read_name(r, @1), read_range(r, @$, @4, @6, NULL)); }
  | '?'                             { read_entry(r, NULL, read_text_attr(r, MLIR_WORD, @1)); }
  ;
word_list: WORD | word_list WORD ;
unit_name: OP | RETURN | X | INIT | APPLIES | ACROSS | REDUCER | COND | DO | ATTRIBUTES | CALLSITE | FUSED
  | AT | TO | MODULE | FUNC | MESH | MANUAL | NAMED | SCAN ;
name: WORD | TYPE | TUPLE | LOC | UNIT | TRUE | FALSE | unit_name ;

/* -- locations -- */

location_opt: %empty { $$ = NULL; } | location ;
location: LOC '(' location_inst ')' { $$ = $3; } ;
location_inst:
    STRING                          { $$ = read_location(r, @1, "name", 0); }
  | STRING '(' location_inst ')'    { STACK_PUSH(r, r->attrs, $3); $$ = read_location(r, @1, "name", 1); }
  | STRING ':' INT ':' INT range    { STACK_PUSH(r, r->attrs, read_integer(r, @3, NULL));
                                      STACK_PUSH(r, r->attrs, read_integer(r, @5, NULL));
                                      $$ = read_location(r, @1, "file", 2); }
  | HASH                            { $$ = read_text_attr(r, MLIR_ALIAS, @1); }
  | WORD                            { $$ = read_text_attr(r, MLIR_WORD, @1); /* unknown */ }
  | CALLSITE '(' location_inst AT location_inst ')'
                                    { STACK_PUSH(r, r->attrs, $3); $$ = read_location(r, NO_SPAN, "callsite", 1); }
  | FUSED '[' locations ']'         { $$ = read_location(r, NO_SPAN, "fused", $3); }
  | FUSED '<' attr '>' '[' locations ']'
                                    { $$ = read_location(r, NO_SPAN, "fused", $6); }
  ;
range: %empty | TO ':' INT | TO INT ':' INT ;
locations: location_item { $$ = 1; } | locations ',' location_item { $$ = $1 + 1; } ;
location_item: location_inst { STACK_PUSH(r, r->attrs, $1); } | location { STACK_PUSH(r, r->attrs, $1); } ;

%%

/* A message of what was expected instead, if that is not nearly everything. */
static int yyreport_syntax_error(const yypcontext_t *cx, MlirReader *r)
{
    enum { SHOWN = 6 };
    yysymbol_kind_t kind = yypcontext_token(cx);
    if (kind == YYSYMBOL_BAD)
        return 0; /* the lexer has said it */
    const Span *span = yypcontext_location(cx);
    yysymbol_kind_t expected[YYNTOKENS];
    int count = yypcontext_expected_tokens(cx, expected, YYNTOKENS);
    char text[256];
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < count && count <= SHOWN; i++) {
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
                 r->text + span->begin, seen_length > 40 ? "..." : "");
    if (length != 0)
        op_error(r, *span, "expects %s, but sees %s", text, seen);
    else
        op_error(r, *span, "unexpected %s", seen);
    return 0;
}

static void mlir_error(const Span *span, MlirReader *r, const char *message)
{
    (void)message; /* bison's own only complaint: its stack is full */
    diag_error(r->diag, *span, "maximum recursion depth exceeded");
}
