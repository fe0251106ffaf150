/* Names of the source: one hash table for all scopes. A nested computation hides what it
 * defines again; leaving it (build_computation_end) restores that. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "frontend/parser.h"
#include "ir/dtype.h"

static bool is_illegal(const char *text, size_t length)
{
    DType dtype;
    if (length >= 2 && text[0] == '_' && text[1] == '_')
        return strncmp(text, "__xla_", 6) != 0;
    return dtype_from_name(text, length, &dtype);
}

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

/* The slot of this text: its symbol's, or the free one where it belongs. */
static SymbolSlot *find_slot(SymbolSlot *slots, size_t count, const char *text,
                             size_t length, uint32_t hash)
{
    size_t at = hash & (count - 1);
    while (slots[at].symbol != NULL &&
           (slots[at].hash != hash || slots[at].length != length ||
            memcmp(slots[at].symbol->text, text, length) != 0))
        at = (at + 1) & (count - 1);
    return &slots[at];
}

static void grow(Parser *p)
{
    size_t count = p->slot_count == 0 ? 64 : p->slot_count * 2;
    while (p->slot_count == 0 &&
           count < p->length / 64) /* dense texts: 80 bytes a name */
        count *= 2;
    SymbolSlot *slots = ARENA_ARRAY(p->scratch, SymbolSlot, count);
    for (size_t i = 0; i < p->slot_count; i++) {
        if (p->slots[i].symbol == NULL)
            continue;
        size_t at = p->slots[i].hash & (count - 1);
        while (slots[at].symbol != NULL)
            at = (at + 1) & (count - 1);
        slots[at] = p->slots[i];
    }
    p->slots = slots;
    p->slot_count = count;
}

Symbol *symbol_get(Parser *p, const char *text, size_t length)
{
    if (p->symbol_count * 2 >= p->slot_count)
        grow(p);
    uint32_t hash = name_hash(text, length);
    SymbolSlot *slot = find_slot(p->slots, p->slot_count, text, length, hash);
    if (slot->symbol != NULL)
        return slot->symbol;
    Symbol *s = ARENA_NEW(p->scratch, Symbol);
    s->text = arena_text(p->arena, text, length);
    s->length = (uint32_t)length;
    s->illegal = is_illegal(s->text, length);
    *slot = (SymbolSlot){s, hash, (uint32_t)length};
    p->symbol_count++;
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
    if (!s->has_computation && !p->lost_computation)
        diag_error(p->diag, name, "computation does not exist: %s", s->text);
    return s->comp;
}
