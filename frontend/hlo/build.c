/* Actions of the grammar, first half: module, computations and shapes. Mistakes that leave the
 * syntax whole are reported and reading goes on: what was defined wrongly is bound to NULL, and
 * whoever uses it stays silent. */
#include <stdio.h>

#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parse.h"
#include "frontend/hlo/parser.h"
#include "ir/base/bug.h"
#include "ir/dtype.h"

bool build_lost(Parser *p)
{
    p->want = WANT_RESYNC;
    return false;
}

/* Names of modules and computations are made clean silently (section 8.5). */
static const char *sanitised(Parser *p, const char *text, size_t length)
{
    DType dtype;
    if (dtype_from_name(text, length, &dtype))
        return arena_printf(p->arena, "%.*s_", (int)length, text);
    if (length >= 2 && text[0] == '_' && text[1] == '_')
        return arena_printf(p->arena, "a_%.*s", (int)length, text);
    return arena_text(p->arena, text, length);
}

/* -- the module ------------------------------------------------------------------------ */

void build_module_name(Parser *p, Span name)
{
    size_t length;
    const char *text = name_text(p, name, &length);
    p->m->name = intern_string(p->intern, sanitised(p, text, length));
}

void build_header_attribute(Parser *p, Span name)
{
    p->header_name = name;
    p->want = WANT_HEADER;
}

bool build_header_layout(Parser *p, size_t parameters, const Shape *result)
{
    ModuleConfig *config = &p->m->config;
    if (p->has_config_layout) {
        diag_error(p->diag, p->header_name,
                   "attribute entry_computation_layout already exists");
        return build_lost(p);
    }
    p->has_config_layout = true;
    p->shapes.count -= parameters;
    config->entry_parameter_count = (uint32_t)parameters;
    config->entry_parameters =
        parameters == 0 ? NULL
                        : arena_copy(p->arena, p->shapes.data + p->shapes.count,
                                     parameters * sizeof(const Shape *));
    config->entry_result = result;
    return true;
}

void build_single_begin(Parser *p)
{
    build_computation_begin(p, true, (Span){0}, false);
    build_body(p);
}

/* -- shapes ---------------------------------------------------------------------------- */

const Shape *build_tuple(Parser *p, size_t count)
{
    p->shapes.count -= count;
    return shape_tuple(p->intern, (uint32_t)count, p->shapes.data + p->shapes.count);
}

const Shape *build_buffer(Parser *p, const Shape *inner, Span at)
{
    if (shape_is_array(inner))
        return shape_buffer(p->intern, inner);
    diag_error(p->diag, at, "a buffer holds an array, not %s",
               shape_text(p->scratch, inner, false));
    build_lost(p);
    return NULL;
}

/* -- computations ---------------------------------------------------------------------- */

void build_computation_begin(Parser *p, bool is_entry, Span name, bool nested)
{
    Scope scope = {.serial = ++p->next_serial,
                   .is_entry = is_entry,
                   .hidden_mark = p->hidden.count,
                   .parameter_mark = p->parameters.count};
    scope.comp = module_add_computation(p->m, NULL);
    scope.comp->span = name;
    if (nested || p->is_single) {
        scope.comp->name = "_";
    } else {
        scope.symbol = symbol_named(p, name);
        scope.comp->name = sanitised(p, scope.symbol->text, scope.symbol->length);
        if (scope.symbol->computation != NULL) {
            diag_error(p->diag, name, "computation already exists: %s",
                       scope.symbol->text);
            diag_note(p->diag, scope.symbol->computation->span,
                      "computation previously defined here");
        }
    }
    if (is_entry && p->entry != NULL) {
        diag_error(p->diag, name, "expects only one ENTRY");
        diag_note(p->diag, p->entry_span, "the first one is here");
    } else if (is_entry) {
        p->entry = scope.comp;
        p->entry_span = name;
    }
    STACK_PUSH(p, p->scopes, scope);
    if (nested)
        build_body(p);
}

void build_signature(Parser *p, const Shape *result, Span span)
{
    scope_top(p)->declared_result = result;
    scope_top(p)->result_span = span;
}

void build_body(Parser *p)
{
    Scope *scope = scope_top(p);
    scope->in_body = true;
    scope->depth = p->depth;
    scope->call_mark = p->calls.count;
    scope->operand_mark = p->operands.count;
    scope->shape_mark = p->shapes.count;
    scope->callee_mark = p->callees.count;
    scope->int_mark = p->ints.count;
}

/* Gives the computation its parameters, 0 to n - 1 each once. */
static bool take_parameters(Parser *p, Scope *scope)
{
    Computation *comp = scope->comp;
    size_t count = p->parameters.count - scope->parameter_mark;
    Instruction **from = p->parameters.data + scope->parameter_mark;
    p->parameters.count = scope->parameter_mark;
    comp->parameter_count = (uint32_t)count;
    comp->parameters = ARENA_ARRAY(p->arena, Instruction *, count);
    bool right = true;
    for (size_t i = 0; i < count; i++) {
        int64_t number = from[i]->parameter;
        if (number >= (int64_t)count) {
            diag_error(
                p->diag, from[i]->span,
                "parameter number %lld of a computation with %zu parameters: the numbers "
                "are 0 to %zu",
                (long long)number, count, count - 1);
            right = false;
        } else if (comp->parameters[number] != NULL) {
            diag_error(p->diag, from[i]->span, "parameter number %lld is defined twice",
                       (long long)number);
            diag_note(p->diag, comp->parameters[number]->span, "it is defined here too");
            right = false;
        } else {
            comp->parameters[number] = from[i];
        }
    }
    return right;
}

static bool result_matches(Parser *p, const Scope *scope)
{
    const Computation *comp = scope->comp;
    if (scope->declared_result == NULL ||
        shape_compatible(scope->declared_result, comp->root->shape))
        return true;
    diag_error(p->diag, scope->result_span,
               "Shape of computation %s, %s, is not compatible with that of its root "
               "instruction %s, %s",
               comp->name, shape_text(p->scratch, scope->declared_result, false),
               comp->root->name, shape_text(p->scratch, comp->root->shape, false));
    return false;
}

static void leave_scope(Parser *p)
{
    Scope *scope = scope_top(p);
    while (p->hidden.count > scope->hidden_mark) {
        const Hidden *h = &p->hidden.data[--p->hidden.count];
        h->symbol->scope = h->scope;
        h->symbol->inst = h->inst;
        h->symbol->span = h->span;
    }
    p->parameters.count = scope->parameter_mark;
    p->scopes.count--;
}

Computation *build_computation_end(Parser *p, Span close)
{
    Scope *scope = scope_top(p);
    Computation *comp = scope->comp;
    if (!scope->broken && comp->instruction_count != 0) {
        comp->root = scope->root != NULL
                         ? scope->root
                         : comp->instructions[comp->instruction_count - 1];
        scope->broken = !take_parameters(p, scope) || !result_matches(p, scope);
    } else if (!scope->broken) {
        diag_error(p->diag, close, "a computation has at least one instruction");
        scope->broken = true;
    }
    if (scope->symbol != NULL)
        symbol_define(p, scope->symbol, scope->broken ? NULL : comp, comp->span);
    Computation *result = scope->broken ? NULL : comp;
    STACK_PUSH(p, p->finished, comp);
    leave_scope(p);
    return result;
}

void build_lost_computation(Parser *p)
{
    p->lost_computation = true;
    while (p->scopes.count != 0) {
        Symbol *symbol = scope_top(p)->symbol;
        if (symbol != NULL)
            symbol_define(p, symbol, NULL, (Span){0});
        leave_scope(p);
    }
    p->pending.count = p->calls.count = p->operands.count = p->attrs.count = 0;
    p->shapes.count = p->callees.count = p->ints.count = p->controls.count = 0;
}

void build_thread(Parser *p, Span name)
{
    if (!token_is(p, (Token){name, TOK_ATTR}, "execution_thread"))
        diag_error(p->diag, name,
                   "unexpected attribute \"%.*s\". Allowed attributes: execution_thread",
                   (int)(name.end - name.begin - 1), p->text + name.begin);
    p->want = WANT_THREAD;
}

/* -- the whole ------------------------------------------------------------------------- */

static bool begins(const Diag *d, size_t at, const char *word)
{
    size_t length = strlen(word);
    return d->length - at >= length && memcmp(d->text + at, word, length) == 0;
}

/* Other things that people hand to a compiler of HLO: say what they are. */
static bool is_other_input(Diag *d)
{
    size_t at = 0;
    while (at < d->length && strchr(" \t\r\n", d->text[at]) != NULL &&
           d->text[at] != '\0')
        at++;
    Span here = {(uint32_t)at, (uint32_t)(at < d->length ? at + 1 : at)};
    if (d->length > UINT32_MAX - 8) {
        diag_error(d, (Span){0}, "the text is larger than 4 GiB");
    } else if (at == d->length) {
        diag_error(d, (Span){0, 1}, "the input is empty: expects an HLO module");
    } else if (begins(d, at, "\xef\xbb\xbf")) {
        diag_error(d, (Span){(uint32_t)at, (uint32_t)at + 3},
                   "the text begins with a byte-order mark of UTF-8: HLO text has none; "
                   "save it without");
    } else if (begins(d, at, "\xff\xfe") || begins(d, at, "\xfe\xff")) {
        diag_error(d, (Span){(uint32_t)at, (uint32_t)at + 2},
                   "this is UTF-16: HLO text is ASCII or UTF-8");
    } else if (begins(d, at,
                      "\x7f"
                      "ELF")) {
        diag_error(d, here, "this is an ELF file (a compiled program?), not HLO text");
    } else {
        return false;
    }
    return true;
}

Module *hlo_parse(Arena *a, Diag *d)
{
    if (is_other_input(d))
        return NULL;
    Arena *scratch = arena_scratch();
    Parser *p = ARENA_NEW(scratch, Parser);
    *p = (Parser){
        .arena = a, .scratch = scratch, .diag = d, .text = d->text, .length = d->length};
    STACK_OPEN(p, p->operands);
    STACK_OPEN(p, p->attrs);
    STACK_OPEN(p, p->controls);
    STACK_OPEN(p, p->parameters);
    STACK_OPEN(p, p->shapes);
    STACK_OPEN(p, p->callees);
    STACK_OPEN(p, p->ints);
    p->m = module_create(a, d, "_");
    p->intern = p->m->intern;
    size_t errors = d->error_count;
    lexer_open(p);
    p->want = WANT_START;
    hlo_text_parse(p);
    Module *m = p->m;
    if (d->error_count == errors)
        import_finish(p);
    arena_destroy(scratch);
    return d->error_count == errors ? m : NULL;
}
