/* Names of the source: one hash table for all scopes. A nested computation hides what it
 * defines again; leaving it (build_computation_end) restores that. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "frontend/hlo/parser.h"
#include "ir/dtype.h"

uint32_t text_hash(const char *text, size_t length)
{
    return (uint32_t)XXH3_64bits(text, length);
}

/* Names with numbers in a row lie in a row: mostly they are defined and used together. */
static uint32_t name_hash(const char *text, size_t length)
{
    enum { RUN = 16 };
    uint32_t last = length != 0 ? (unsigned char)text[length - 1] : 0;
    return text_hash(text, length != 0 ? length - 1 : 0) * RUN + last % RUN;
}

static Symbol *symbol_at(const Parser *p, uint32_t number)
{
    uint32_t i = number - 1;
    return &p->symbols.data[i / SYMBOL_BLOCK][i % SYMBOL_BLOCK];
}

static void grow(Parser *p)
{
    size_t count = p->slot_count == 0 ? 64 : p->slot_count * 2;
    while (p->slot_count == 0 &&
           count < p->length / 32) /* dense texts: 64 bytes a name */
        count *= 2;
    SymbolSlot *slots = ARENA_ARRAY(p->scratch, SymbolSlot, count);
    for (size_t i = 0; i < p->slot_count; i++) {
        if (p->slots[i].number == 0)
            continue;
        size_t at = p->slots[i].hash & (count - 1);
        while (slots[at].number != 0)
            at = (at + 1) & (count - 1);
        slots[at] = p->slots[i];
    }
    arena_drop(p->scratch, p->slots, p->slot_count * sizeof *p->slots);
    p->slots = slots;
    p->slot_count = count;
}

static Symbol *add(Parser *p, const char *text, size_t length)
{
    if (p->symbol_count % SYMBOL_BLOCK == 0) {
        Symbol *block = ARENA_ARRAY(p->scratch, Symbol, SYMBOL_BLOCK);
        STACK_PUSH(p, p->symbols, block);
    }
    Symbol *s = symbol_at(p, (uint32_t)++p->symbol_count);
    s->text = arena_text(p->arena, text, length);
    s->length = (uint32_t)length;
    return s;
}

Symbol *symbol_get(Parser *p, const char *text, size_t length)
{
    if (p->symbol_count * 2 >= p->slot_count)
        grow(p);
    uint32_t hash = name_hash(text, length);
    size_t mask = p->slot_count - 1, at = hash & mask;
    for (; p->slots[at].number != 0; at = (at + 1) & mask) {
        if (p->slots[at].hash != hash)
            continue;
        Symbol *s = symbol_at(p, p->slots[at].number);
        if (s->length == length && memcmp(s->text, text, length) == 0)
            return s;
    }
    Symbol *s = add(p, text, length);
    p->slots[at] = (SymbolSlot){hash, (uint32_t)p->symbol_count};
    return s;
}

const char *name_text(const Parser *p, Span name, size_t *length)
{
    const char *text = p->text + name.begin;
    *length = name.end - name.begin;
    if (text[0] == '%') {
        text++;
        *length -= 1;
    } else if (*length != 0 && text[*length - 1] == ':') {
        *length -= 1;
    }
    return text;
}

bool symbol_is_illegal(const Symbol *s)
{
    DType dtype;
    const char *text = s->text;
    if (s->length >= 2 && text[0] == '_' && text[1] == '_')
        return strncmp(text, "__xla_", 6) != 0;
    return dtype_from_name(text, s->length, &dtype);
}

void symbol_define(Parser *p, Symbol *s, Computation *comp, Span span)
{
    if (s->computation != NULL)
        return;
    s->computation = ARENA_NEW(p->scratch, Definition);
    *s->computation = (Definition){comp, span};
}

Symbol *symbol_named(Parser *p, Span name)
{
    size_t length;
    const char *text = name_text(p, name, &length);
    return symbol_get(p, text, length);
}

Instruction *symbol_instruction(Parser *p, const Symbol *s, bool *known)
{
    *known = s->scope == scope_top(p)->serial;
    return *known ? s->inst : NULL;
}

void symbol_bind(Parser *p, Symbol *s, Instruction *inst, Span span)
{
    Scope *scope = scope_top(p);
    if (p->scopes.count > 1 && s->scope != 0 && s->scope != scope->serial) {
        Hidden hidden = {s, s->scope, s->span, s->inst};
        STACK_PUSH(p, p->hidden, hidden);
    }
    s->scope = scope->serial;
    s->inst = inst;
    s->span = span;
}

Computation *symbol_computation(Parser *p, Span name)
{
    Symbol *s = symbol_named(p, name);
    if (s->computation != NULL)
        return s->computation->comp;
    if (!p->lost_computation)
        diag_error(p->diag, name, "computation does not exist: %s", s->text);
    return NULL;
}
