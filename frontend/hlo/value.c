/* Values of attributes, each by the kind of its attribute (section 8.6). All read raw tokens
 * and are flat: what nests - shapes, computations - is the grammar's business. */
#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parser.h"
#include "ir/attribute/config.h"

static const char *enum_names(Parser *p, AttrId id)
{
    const char *text = "";
    for (const char *const *n = attr_info[id].names; *n != NULL; n++)
        text = arena_printf(p->scratch, "%s%s%s", text, text[0] != '\0' ? ", " : "", *n);
    return text;
}

static bool parse_enum(Parser *p, AttrId id, int64_t *out)
{
    Token t = take(p);
    size_t length;
    const char *text = token_text(p, t, &length);
    if (attr_enum_find(id, text, length, out))
        return true;
    return token_unknown(p, t, "value", enum_names(p, id));
}

static bool parse_enums(Parser *p, AttrId id, Ints *out)
{
    size_t mark = p->ints.count;
    List l = list_open(p, '{', '}');
    while (list_next(p, &l)) {
        int64_t value;
        if (!parse_enum(p, id, &value))
            return false;
        STACK_PUSH(p, p->ints, value);
    }
    *out = ints_take(p, mark);
    return l.right;
}

static bool parse_bools(Parser *p, Ints *out)
{
    size_t mark = p->ints.count;
    List l = list_open(p, '{', '}');
    while (list_next(p, &l)) {
        bool value;
        if (!expect_bool(p, &value))
            return false;
        STACK_PUSH(p, p->ints, value);
    }
    *out = ints_take(p, mark);
    return l.right;
}

static bool parse_controls(Parser *p)
{
    if (!expect(p, '{', NULL))
        return false;
    do {
        Token t = take(p);
        if (t.kind != TOK_NAME && t.kind != TOK_IDENT)
            return token_wrong(p, t, "expects the name of an instruction");
        bool known;
        Symbol *symbol = symbol_named(p, t.span);
        Instruction *inst = symbol_instruction(p, symbol, &known);
        if (!known && !scope_top(p)->lost_name)
            diag_error(p->diag, t.span, "instruction does not exist: %s", symbol->text);
        if (inst != NULL)
            STACK_PUSH(p, p->controls, inst);
        else
            pending_top(p)->broken = true;
    } while (accept_token(p, ',', NULL));
    return expect(p, '}', NULL);
}

/* { {oi}: (operand, {pi} [, may-alias]), ... } */
bool value_aliasing(Parser *p, bool header, Aliasing *out)
{
    STACK(AliasEntry) entries = {0};
    if (!expect(p, '{', NULL))
        return false;
    while (peek(p).kind == '{') {
        AliasEntry e = {0};
        Token t = peek(p);
        if (!expect_ints(p, &e.output) || !expect(p, ':', NULL) ||
            !expect(p, '(', NULL) || !expect_int(p, &e.operand) ||
            !expect(p, ',', NULL) || !expect_ints(p, &e.input))
            return false;
        if (header && accept_token(p, ',', NULL)) {
            t = take(p);
            e.must = token_is(p, t, "must-alias");
            if (!e.must && !token_is(p, t, "may-alias"))
                return token_unknown(p, t, "kind of alias", "may-alias or must-alias");
        }
        if (!expect(p, ')', NULL))
            return false;
        STACK_PUSH(p, entries, e);
        if (!accept_token(p, ',', NULL))
            break;
    }
    out->count = (uint32_t)entries.count;
    out->entries = STACK_KEEP(p, entries);
    return expect(p, '}', NULL);
}

static bool parse_domain(Parser *p, const Domain **out)
{
    Domain *domain = ARENA_NEW(p->arena, Domain);
    Token t;
    if (!expect(p, '{', NULL))
        return false;
    while (!accept_token(p, '}', NULL)) {
        if (!expect(p, TOK_ATTR, &t))
            return false;
        bool right = true;
        if (token_is(p, t, "kind")) {
            Bytes kind;
            Token value = peek(p);
            if (!expect_string(p, &kind))
                return false;
            if (strcmp(kind.data, "sharding") != 0)
                return token_wrong(p, value, "the kind of a domain is \"sharding\"");
        } else if (token_is(p, t, "entry")) {
            right = value_sharding(p, &domain->entry);
        } else if (token_is(p, t, "exit")) {
            right = value_sharding(p, &domain->exit);
        } else {
            right = token_unknown(p, t, "item of a domain", "kind, entry or exit");
        }
        if (!right)
            return false;
        accept_token(p, ',', NULL);
    }
    if (domain->entry == NULL || domain->exit == NULL) {
        diag_error(p->diag, pending_top(p)->attr.span,
                   "a domain has an entry and an exit");
        return false;
    }
    *out = domain;
    return true;
}

static bool parse_tolerance(Parser *p, Accuracy *a)
{
    Token t;
    a->tolerance = true;
    if (!expect(p, '{', NULL))
        return false;
    do {
        if (!expect(p, TOK_ATTR, &t))
            return false;
        Token value = peek(p);
        bool right;
        if (token_is(p, t, "atol"))
            right = expect_number(p, &a->atol);
        else if (token_is(p, t, "rtol"))
            right = expect_number(p, &a->rtol);
        else if (token_is(p, t, "ulps"))
            right = expect_int(p, &a->ulps);
        else
            right = token_unknown(p, t, "tolerance", "atol, rtol or ulps");
        if (!right)
            return false;
        if (a->atol < 0 || a->rtol < 0 || a->ulps < 0)
            return token_wrong(p, value, "a tolerance is not negative");
    } while (accept_token(p, ',', NULL));
    return expect(p, '}', NULL);
}

static bool parse_accuracy(Parser *p, const Accuracy **out)
{
    Accuracy *a = ARENA_NEW(p->arena, Accuracy);
    Token t;
    if (!expect(p, '{', NULL) || !expect(p, TOK_ATTR, &t))
        return false;
    if (token_is(p, t, "tolerance")) {
        if (!parse_tolerance(p, a))
            return false;
    } else if (token_is(p, t, "mode")) {
        t = take(p);
        a->highest = token_is(p, t, "highest") || token_is(p, t, "HIGHEST");
        if (!a->highest && !token_is(p, t, "default") && !token_is(p, t, "DEFAULT"))
            return token_unknown(p, t, "mode", "default or highest");
    } else {
        return token_unknown(p, t, "accuracy", "mode or tolerance");
    }
    *out = a;
    return expect(p, '}', NULL);
}

/* -- by kind ----------------------------------------------------------------------------- */

static bool parse_flag(Parser *p, int64_t *out)
{
    bool value;
    if (!expect_bool(p, &value))
        return false;
    *out = value;
    return true;
}

static bool parse_aliasing(Parser *p, const Aliasing **out)
{
    Aliasing *aliasing = ARENA_NEW(p->arena, Aliasing);
    *out = aliasing;
    return value_aliasing(p, false, aliasing);
}

static bool parse_config(Parser *p, const Config **out)
{
    Bytes text;
    if (!(peek(p).kind == '{' ? expect_json(p, &text) : expect_string(p, &text)))
        return false;
    *out = config_parse(p->arena, text.data, text.length);
    return true;
}

bool value_parse(Parser *p, Pending *at)
{
    Attr *a = &at->attr;
    switch (attr_info[a->id].kind) {
    case AK_INT:
        return expect_int(p, &a->i);
    case AK_BOOL:
        return parse_flag(p, &a->i);
    case AK_FLOAT: /* a float in the proto, and so for XLA in text, too */
        if (!expect_number(p, &a->f))
            return false;
        a->f = (float)a->f;
        return true;
    case AK_STRING:
        return expect_string(p, &a->bytes);
    case AK_CONFIG:
        return parse_config(p, &a->config);
    case AK_ENUM:
        return parse_enum(p, a->id, &a->i);
    case AK_INTS:
        return expect_ints(p, &a->ints);
    case AK_INTSS:
        return expect_int_lists(p, &a->lists);
    case AK_BOOLS:
        return parse_bools(p, &a->ints);
    case AK_ENUMS:
        return parse_enums(p, a->id, &a->ints);
    case AK_INSTRUCTIONS:
        return parse_controls(p);
    case AK_WINDOW:
        return value_window(p, &a->window);
    case AK_DIM_LABELS:
        return value_labels(p, &a->labels);
    case AK_PADDING:
        return value_padding(p, &a->padding);
    case AK_SLICE:
        return value_slice(p, &a->slice);
    case AK_ALIASING:
        return parse_aliasing(p, &a->aliasing);
    case AK_LITERAL:
        return literal_parse_typed(p, &a->literal);
    case AK_SHARDING:
        return value_sharding(p, &a->sharding);
    case AK_REPLICA_GROUPS:
        return value_replica_groups(p, &a->groups);
    case AK_DOMAIN:
        return parse_domain(p, &a->domain);
    case AK_SPARSITY:
        return value_sparsity(p, &a->sparsity);
    case AK_METADATA:
        return value_metadata(p, &a->metadata);
    case AK_DICT:
        return value_dict(p, &a->dict);
    case AK_STATISTICS:
        return value_statistics(p, &a->statistics);
    case AK_ACCURACY:
        return parse_accuracy(p, &a->accuracy);
    case AK_ORIGIN:
        return value_origin(p, &a->origin);
    case AK_COMPUTATION:
    case AK_COMPUTATIONS:
    case AK_SHAPE:
    case AK_SHAPES:
        break; /* read by the grammar */
    }
    return false;
}
