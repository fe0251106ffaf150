/* See config.h. */
#include "ir/attribute/config.h"

#include <string.h>

#define DEPTH_MOST 64 /* of brackets in a value */

typedef enum {
    WHO_FUSION,
    WHO_MADE,        /* dots, scaled or not, convolutions, and fusions of them */
    WHO_CONTRACTION, /* dots, scaled ones too, and convolutions */
    WHO_WHILE,
    WHO_COLLECTIVE, /* and transfers, and what starts or ends one */
    WHO_CUSTOM_CALL,
    WHO_ANY,
} ConfigWho;

/* Types of the keys of kernels. */
enum {
    CONFIG_SHAPE_ONE = CONFIG_TYPE_NUMBER,
    CONFIG_SHAPE_PAIR = CONFIG_TYPE_NUMBERS,
    CONFIG_SHAPE_LIST = CONFIG_TYPE_NUMBERS,
    CONFIG_SHAPE_FLAG = CONFIG_TYPE_FLAG,
};

#define TEXT(s)                                                                          \
    {                                                                                    \
        s, sizeof s - 1                                                                  \
    }
static const struct {
    Bytes group, name; /* of the object that it is in, length 0: the outermost one */
    ConfigType type;
    ConfigWho who;
} rows[] = {
#define CONFIG(id, group, name, type, who, doc)                                          \
    {TEXT(group), TEXT(name), CONFIG_TYPE_##type, WHO_##who},
#define KERNEL_KEY(id, field, shape, least, most, doc)                                   \
    {TEXT("config"), TEXT(#field), (ConfigType)CONFIG_SHAPE_##shape, WHO_FUSION},
#include "ir/attribute/config.def"
};

/* -- objects ------------------------------------------------------------------------------------ */

/* An object in a text, entry by entry. */
typedef struct Walk {
    const char *text;
    size_t at, end;
    bool is_first, is_broken;
} Walk;

typedef struct Entry {
    size_t begin;            /* of the name, with its quote */
    Bytes name;              /* without quotes */
    size_t value, value_end; /* the value; empty where the name stands alone */
} Entry;

static size_t skip_blanks(const char *text, size_t at, size_t end)
{
    while (at < end && strchr(" \t\r\n", text[at]) != NULL && text[at] != '\0')
        at++;
    return at;
}

/* Behind the string that starts with the quote at *at; false: it does not end. */
static bool skip_string(const char *text, size_t *at, size_t end)
{
    for (++*at; *at < end && text[*at] != '"'; ++*at) {
        if (text[*at] == '\\')
            ++*at;
    }
    if (*at >= end)
        return false;
    ++*at;
    return true;
}

static char closing(char c)
{
    return c == '{' ? '}' : c == '[' ? ']' : c == '(' ? ')' : c == '<' ? '>' : '\0';
}

/* Up to the comma or the brace that ends the value at *at; false: there is none. */
static bool skip_value(const char *text, size_t *at, size_t end)
{
    char open[DEPTH_MOST];
    size_t depth = 0;
    while (*at < end) {
        char c = text[*at];
        if (depth == 0 && (c == ',' || c == '}'))
            return true;
        if (c == '"') {
            if (!skip_string(text, at, end))
                return false;
            continue;
        }
        if (closing(c) != '\0') {
            if (depth == DEPTH_MOST)
                return false;
            open[depth++] = closing(c);
        } else if (c == '}' || c == ']' || c == ')' || c == '>') {
            if (depth == 0 || open[--depth] != c)
                return false;
        }
        ++*at;
    }
    return false;
}

static bool is_word_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_';
}

static bool is_name_character(char c)
{
    return is_word_character(c) || (c != '\0' && strchr(".$-", c) != NULL);
}

static bool take_name(Walk *w, Entry *out)
{
    out->begin = w->at;
    bool is_quoted = w->at < w->end && w->text[w->at] == '"';
    if (is_quoted) {
        if (!skip_string(w->text, &w->at, w->end))
            return false;
    } else {
        while (w->at < w->end && is_name_character(w->text[w->at]))
            w->at++;
    }
    size_t quote = is_quoted ? 1 : 0;
    out->name = (Bytes){w->text + out->begin + quote, w->at - out->begin - 2 * quote};
    return out->name.length != 0 || is_quoted;
}

static bool take_entry(Walk *w, Entry *out)
{
    if (!take_name(w, out))
        return false;
    w->at = skip_blanks(w->text, w->at, w->end);
    if (w->at < w->end && (w->text[w->at] == ':' || w->text[w->at] == '='))
        w->at = skip_blanks(w->text, w->at + 1, w->end);
    else if (w->at < w->end && strchr("{,}", w->text[w->at]) == NULL)
        return false;
    out->value = w->at;
    if (!skip_value(w->text, &w->at, w->end))
        return false;
    out->value_end = w->at;
    while (out->value_end > out->value &&
           strchr(" \t\r\n", w->text[out->value_end - 1]) != NULL)
        out->value_end--;
    return true;
}

/* Of what stands at `at`; broken if that is no object. */
static Walk walk_begin(const char *text, size_t at, size_t end)
{
    at = skip_blanks(text, at, end);
    bool is_open = at < end && text[at] == '{';
    return (Walk){text, at + 1, end, true, !is_open};
}

/* False: that was the last one, and w->at stands behind the brace; or the object is broken. */
static bool walk_next(Walk *w, Entry *out)
{
    if (w->is_broken)
        return false;
    w->at = skip_blanks(w->text, w->at, w->end);
    char c = w->at < w->end ? w->text[w->at] : '\0';
    if (c == '}') {
        w->at++;
        return false;
    }
    if (!w->is_first && c == ',')
        w->at = skip_blanks(w->text, w->at + 1, w->end);
    w->is_broken = (!w->is_first && c != ',') || !take_entry(w, out);
    w->is_first = false;
    return !w->is_broken;
}

/* -- values -------------------------------------------------------------------------------------- */

static bool read_number(const char *text, size_t *at, size_t end, int64_t *out)
{
    bool is_negative = *at < end && text[*at] == '-';
    size_t start = *at += is_negative;
    uint64_t n = 0;
    for (; *at < end && text[*at] >= '0' && text[*at] <= '9'; ++*at) {
        if (n > (INT64_MAX - 9) / 10)
            return false;
        n = n * 10 + (uint64_t)(text[*at] - '0');
    }
    *out = is_negative ? -(int64_t)n : (int64_t)n;
    return *at > start;
}

/* 5, "5", or 5 : i64 of MLIR. */
static bool value_number(Bytes v, int64_t *out)
{
    size_t at = 0, end = v.length;
    bool is_quoted = end >= 2 && v.data[0] == '"' && v.data[end - 1] == '"';
    at += is_quoted;
    end -= is_quoted;
    if (!read_number(v.data, &at, end, out))
        return false;
    size_t behind = skip_blanks(v.data, at, end);
    return at == end || (!is_quoted && behind < end && v.data[behind] == ':');
}

static bool value_numbers(Arena *a, Bytes v, Ints *out)
{
    uint32_t most = 1;
    for (size_t i = 0; i < v.length; i++)
        most += v.data[i] == ',';
    int64_t *numbers = ARENA_ARRAY(a, int64_t, most);
    *out = (Ints){numbers, 0};
    if (v.length < 2 || v.data[0] != '[' || v.data[v.length - 1] != ']')
        return false;
    size_t at = skip_blanks(v.data, 1, v.length), end = v.length - 1;
    while (at < end) {
        if (!read_number(v.data, &at, end, &numbers[out->count++]))
            return false;
        at = skip_blanks(v.data, at, end);
        if (at < end &&
            (v.data[at] != ',' || (at = skip_blanks(v.data, at + 1, end)) >= end))
            return false;
    }
    return true;
}

static bool bytes_are(Bytes b, const char *text)
{
    return b.length == strlen(text) && memcmp(b.data, text, b.length) == 0;
}

static ConfigEntry read_entry(Arena *a, ConfigKey key, Bytes value)
{
    ConfigEntry e = {.key = key, .text = value};
    bool is_string = value.length >= 2 && value.data[0] == '"';
    switch (rows[key].type) {
    case CONFIG_TYPE_NUMBER:
    case CONFIG_TYPE_QUOTED:
        e.is_wrong = !value_number(value, &e.i);
        break;
    case CONFIG_TYPE_FLAG:
        e.i = bytes_are(value, "true");
        e.is_wrong = e.i == 0 && !bytes_are(value, "false");
        break;
    case CONFIG_TYPE_WORD:
        e.is_wrong = !is_string;
        if (is_string)
            e.word = (Bytes){value.data + 1, value.length - 2};
        break;
    case CONFIG_TYPE_NUMBERS:
        e.is_wrong = !value_numbers(a, value, &e.numbers);
        break;
    }
    return e;
}

/* -- parsing -------------------------------------------------------------------------------------- */

static bool bytes_equal(Bytes a, Bytes b)
{
    return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

/* The key of this name in this group; CONFIG_COUNT: there is none. */
static ConfigKey find_key(Bytes group, Bytes name)
{
    for (int k = 0; k < CONFIG_COUNT; k++) {
        if (bytes_equal(rows[k].name, name) && bytes_equal(rows[k].group, group))
            return (ConfigKey)k;
    }
    return CONFIG_COUNT;
}

static bool is_group(Bytes name)
{
    for (int k = 0; k < CONFIG_COUNT && name.length != 0; k++) {
        if (bytes_equal(rows[k].group, name))
            return true;
    }
    return false;
}

typedef struct Parse {
    Arena *arena;
    Config *config;
    ConfigEntry entries[CONFIG_COUNT];
} Parse;

static void add_entry(Parse *p, Bytes group, const Entry *e)
{
    Config *c = p->config;
    Bytes value = {c->text.data + e->value, e->value_end - e->value};
    ConfigKey key = find_key(group, e->name);
    if (key == CONFIG_COUNT && bytes_are(group, "config") && c->unknown.data == NULL)
        c->unknown = e->name;
    for (uint32_t i = 0; i < c->count; i++) {
        if (p->entries[i].key == key)
            return;
    }
    if (key != CONFIG_COUNT)
        p->entries[c->count++] = read_entry(p->arena, key, value);
}

/* All entries; false: the text cannot be read. */
static bool parse_object(Parse *p)
{
    const char *text = p->config->text.data;
    size_t length = p->config->text.length;
    Walk outer = walk_begin(text, 0, length);
    Entry e, inner;
    while (walk_next(&outer, &e)) {
        add_entry(p, (Bytes){text, 0}, &e);
        if (bytes_are(e.name, "config") && text[e.value] != '{')
            p->config->no_object = (Bytes){text + e.value, e.value_end - e.value};
        if (!is_group(e.name) || e.value == e.value_end || text[e.value] != '{')
            continue;
        Walk w = walk_begin(text, e.value, e.value_end);
        while (walk_next(&w, &inner))
            add_entry(p, e.name, &inner);
        if (w.is_broken)
            return false;
    }
    return !outer.is_broken && skip_blanks(text, outer.at, length) == length;
}

const Config *config_parse(Arena *a, const char *text, size_t length)
{
    Config *c = ARENA_NEW(a, Config);
    Parse p; /* most entries stay unused, and untouched */
    p.arena = a;
    p.config = c;
    c->text = (Bytes){arena_text(a, text, length), length};
    c->is_object = parse_object(&p);
    if (!c->is_object)
        *c = (Config){.text = c->text};
    c->entries = arena_copy(a, p.entries, c->count * sizeof *p.entries);
    return c;
}

/* -- reading ------------------------------------------------------------------------------------- */

const Config *config_of(const Instruction *inst)
{
    static const Config none = {.text = {"", 0}};
    const Attr *a = inst_attr(inst, ATTR_BACKEND_CONFIG);
    return a == NULL ? &none : a->config;
}

Bytes config_text(const Instruction *inst)
{
    return config_of(inst)->text;
}

Bytes config_json(const Instruction *inst, Arena *a)
{
    Bytes text = config_text(inst);
    const char *from = text.data;
    char *out = ARENA_ARRAY(a, char, 3 * text.length);
    size_t n = 0, end;
    char before = '\0'; /* the first character of what stands before, but blanks */
    for (size_t at = 0; at < text.length; at = end) {
        const char c = from[at];
        bool is_word = is_word_character(c);
        end = c == '"' ? at : at + 1;
        if (c == '"' && !skip_string(from, &end, text.length))
            end = text.length;
        while (is_word && end < text.length && is_word_character(from[end]))
            end++;
        size_t next = c == ',' || is_word ? skip_blanks(from, end, text.length) : end;
        char follows = next < text.length ? from[next] : '\0';
        bool is_behind_entry = before != '{' && before != '[';
        if (c == ',' && is_behind_entry && (follows == '}' || follows == ']'))
            continue;
        before = skip_blanks(from, at, at + 1) == at ? c : before;
        bool is_name = is_word && follows == ':';
        if (is_name)
            out[n++] = '"';
        memcpy(out + n, from + at, end - at);
        n += end - at;
        if (is_name)
            out[n++] = '"';
    }
    return (Bytes){out, n};
}

bool config_has_text(const Instruction *inst)
{
    return config_of(inst)->text.length != 0;
}

bool config_same(const Instruction *a, const Instruction *b)
{
    Bytes x = config_text(a), y = config_text(b);
    return x.length == y.length &&
           (x.length == 0 || memcmp(x.data, y.data, x.length) == 0);
}

static bool may_have(const Instruction *inst, ConfigKey key)
{
    switch (rows[key].who) {
    case WHO_FUSION:
        return inst->op == OP_FUSION;
    case WHO_MADE:
        return inst->op == OP_DOT || inst->op == OP_SCALED_DOT ||
               inst->op == OP_CONVOLUTION || inst->op == OP_FUSION ||
               inst->op == OP_CUSTOM_CALL;
    case WHO_CONTRACTION:
        return inst->op == OP_DOT || inst->op == OP_CONVOLUTION ||
               inst->op == OP_SCALED_DOT;
    case WHO_WHILE:
        return inst->op == OP_WHILE;
    case WHO_COLLECTIVE:
        return op_is(inst->op, OPF_COLLECTIVE | OPF_ASYNC_START | OPF_ASYNC_DONE) ||
               inst->op == OP_ASYNC_UPDATE || inst->op == OP_SEND || inst->op == OP_RECV;
    case WHO_CUSTOM_CALL:
        return inst->op == OP_CUSTOM_CALL;
    case WHO_ANY:
        return true;
    }
    return false;
}

const ConfigEntry *config_entry(const Config *c, ConfigKey key)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->entries[i].key == key)
            return &c->entries[i];
    }
    return NULL;
}

const ConfigEntry *config_find(const Instruction *inst, ConfigKey key)
{
    const Attr *a = inst_attr(inst, ATTR_BACKEND_CONFIG);
    return a == NULL || !may_have(inst, key) ? NULL : config_entry(a->config, key);
}

static const ConfigEntry *find_good(const Instruction *inst, ConfigKey key)
{
    const ConfigEntry *e = config_find(inst, key);
    return e == NULL || e->is_wrong ? NULL : e;
}

bool config_has(const Instruction *inst, ConfigKey key)
{
    return find_good(inst, key) != NULL;
}

int64_t config_int(const Instruction *inst, ConfigKey key, int64_t absent)
{
    const ConfigEntry *e = find_good(inst, key);
    return e == NULL ? absent : e->i;
}

bool config_flag(const Instruction *inst, ConfigKey key)
{
    return config_int(inst, key, 0) != 0;
}

Bytes config_word(const Instruction *inst, ConfigKey key)
{
    const ConfigEntry *e = find_good(inst, key);
    return e == NULL ? (Bytes){"", 0} : e->word;
}

bool config_is(const Instruction *inst, ConfigKey key, const char *word)
{
    return bytes_are(config_word(inst, key), word);
}

bool config_has_kernel(const Instruction *inst)
{
    const Config *c = config_of(inst);
    bool has = c->unknown.data != NULL || c->no_object.data != NULL;
    for (uint32_t i = 0; i < c->count && !has; i++)
        has = c->entries[i].key >= CONFIG_KERNEL_FIRST;
    return has;
}

ConfigKey config_kernel_key(int i)
{
    return (ConfigKey)(CONFIG_KERNEL_FIRST + i);
}

bool config_is_open(const Instruction *inst)
{
    const Config *c = config_of(inst);
    return c->text.length == 0 || c->is_object;
}

/* -- changing ------------------------------------------------------------------------------------- */

void config_set_text(Instruction *inst, const char *text, size_t length)
{
    if (length == 0) {
        inst_unset(inst, ATTR_BACKEND_CONFIG);
        return;
    }
    const Config *c = config_parse(inst->parent->module->arena, text, length);
    inst_set(inst, (Attr){.id = ATTR_BACKEND_CONFIG, .config = c});
}

void config_copy(Instruction *to, const Instruction *from)
{
    const Attr *a = inst_attr(from, ATTR_BACKEND_CONFIG);
    if (a != NULL)
        inst_set(to, *a);
    else
        inst_unset(to, ATTR_BACKEND_CONFIG);
}

/* Where an entry stands in an object, or would: `begin` .. `end` is the value, or the position behind the last
 * entry where there is none. */
typedef struct Position {
    bool is_found, is_empty; /* nothing else is in the object */
    size_t begin, end;
    size_t from, to; /* with its name and one of the commas beside it */
} Position;

static Position find_position(const char *text, size_t at, size_t end, Bytes name)
{
    Walk w = walk_begin(text, at, end);
    Position p = {.begin = w.at, .end = w.at, .is_empty = true};
    size_t last = w.at;
    for (Entry e; walk_next(&w, &e);) {
        if (p.is_found) { /* the comma behind it, where it is the first one */
            p.to = p.is_empty ? e.begin : p.to;
            p.is_empty = false;
            continue;
        }
        if (bytes_equal(e.name, name))
            p = (Position){
                true,       p.is_empty, e.value, e.value_end, p.is_empty ? e.begin : last,
                e.value_end};
        else
            p = (Position){false, false, e.value_end, e.value_end, 0, 0};
        last = e.value_end;
    }
    return p;
}

static void splice(Instruction *inst, size_t from, size_t to, const char *with)
{
    Bytes old = config_of(inst)->text;
    Text t;
    text_init(&t, inst->parent->module->arena);
    text_add(&t, old.data, from);
    text_string(&t, with);
    text_add(&t, old.data + to, old.length - to);
    config_set_text(inst, t.data, t.length);
}

static void put(Instruction *inst, const Position *p, Bytes name, const char *value)
{
    Arena *a = inst->parent->module->arena;
    if (!p->is_found)
        value = arena_printf(a, "%s\"%.*s\":%s", p->is_empty ? "" : ",", (int)name.length,
                             name.data, value);
    splice(inst, p->begin, p->end, value);
}

static Position open_position(Instruction *inst, Bytes name)
{
    if (!config_of(inst)->is_object)
        config_set_text(inst, "{}", 2);
    Bytes text = config_of(inst)->text;
    return find_position(text.data, 0, text.length, name);
}

static void set_value(Instruction *inst, ConfigKey key, const char *value)
{
    Bytes group = rows[key].group, own = rows[key].name;
    Bytes outer = group.length != 0 ? group : own;
    Position p = open_position(inst, outer);
    const char *text = config_of(inst)->text.data;
    if (group.length != 0 && p.is_found && text[p.begin] == '{') {
        p = find_position(text, p.begin, p.end, own);
        outer = own;
    } else if (group.length != 0) {
        value = arena_printf(inst->parent->module->arena, "{\"%s\":%s}", own.data, value);
    }
    put(inst, &p, outer, value);
}

void config_set_int(Instruction *inst, ConfigKey key, int64_t value)
{
    const char *quote = rows[key].type == CONFIG_TYPE_QUOTED ? "\"" : "";
    set_value(inst, key,
              arena_printf(inst->parent->module->arena, "%s%lld%s", quote,
                           (long long)value, quote));
}

void config_set_flag(Instruction *inst, ConfigKey key, bool value)
{
    set_value(inst, key, value ? "true" : "false");
}

void config_set_word(Instruction *inst, ConfigKey key, const char *word)
{
    set_value(inst, key, arena_printf(inst->parent->module->arena, "\"%s\"", word));
}

void config_set_object(Instruction *inst, const char *name, const char *text)
{
    Bytes outer = {name, strlen(name)};
    Position p = open_position(inst, outer);
    put(inst, &p, outer, text);
}

static void cut_out(Instruction *inst, const Position *p)
{
    if (p->is_empty)
        inst_unset(inst, ATTR_BACKEND_CONFIG);
    else
        splice(inst, p->from, p->to, "");
}

void config_remove_object(Instruction *inst, const char *name)
{
    Bytes text = config_of(inst)->text;
    if (!config_of(inst)->is_object)
        return;
    Position p = find_position(text.data, 0, text.length, (Bytes){name, strlen(name)});
    if (p.is_found)
        cut_out(inst, &p);
}

void config_remove(Instruction *inst, ConfigKey key)
{
    Bytes group = rows[key].group, own = rows[key].name, text = config_of(inst)->text;
    if (config_find(inst, key) == NULL)
        return;
    Position p =
        find_position(text.data, 0, text.length, group.length != 0 ? group : own);
    if (group.length != 0) {
        Position inner = find_position(text.data, p.begin, p.end, own);
        if (!inner.is_empty) /* others stay in the group, and so it does */
            p = inner;
    }
    cut_out(inst, &p);
}
