/* HloModuleProto to HLO text. The message is scanned field by field; an instruction's attributes
 * are printed by its opcode's row, so what the row does not have is not looked at. Named
 * shardings of others' files are refused. */
#include <stdlib.h>

#include "frontend/proto.h"
#include "ir/dtype.h"
#include "ir/op.h"
#include "ir/print_value.h"

#define SHAPE_DEPTH 512
#define EMPTY_LITERAL_MAX (1 << 20)
#define LITERAL_MAX (INT64_C(1) << 27) /* elements: they become text */

/* All fields of one message. */
typedef struct Message {
    const Field *fields;
    size_t count;
} Message;

typedef struct Named {
    uint64_t id;
    const char *name;
    bool is_pred;    /* of an instruction: its shape is pred[] */
    Wire sequence;   /* of a computation in the schedule */
    size_t position; /* of an instruction in its computation */
} Named;

typedef struct Names {
    Named *data;
    size_t count, capacity;
} Names;

typedef struct Reader {
    Diag *d;
    Arena *a;
    Text t;
    Names computations, instructions, schedule; /* ascending by id */
    const char *trouble;                        /* the first: what cannot be read */
    uint32_t depth;
} Reader;

static bool trouble(Reader *r, const char *what)
{
    if (r->trouble == NULL)
        r->trouble = what;
    return false;
}

/* -- messages ---------------------------------------------------------------------------- */

static Message scan(Reader *r, Wire w)
{
    Field *fields = NULL;
    size_t count = 0, capacity = 0;
    Field f;
    while (wire_next(&w, &f)) {
        fields = arena_grow(r->a, fields, &capacity, count + 1, sizeof *fields);
        fields[count++] = f;
    }
    if (w.damaged)
        trouble(r, "a message of the file is damaged");
    return (Message){fields, count};
}

static const Field *find(Message m, uint32_t number)
{
    for (size_t i = m.count; i-- > 0;) {
        if (m.fields[i].number == number)
            return &m.fields[i];
    }
    return NULL;
}

static int64_t get_int(Message m, uint32_t number)
{
    const Field *f = find(m, number);
    return f == NULL ? 0 : (int64_t)f->value;
}

static Bytes get_bytes(Message m, uint32_t number)
{
    const Field *f = find(m, number);
    if (f == NULL || f->type != 2)
        return (Bytes){"", 0};
    return (Bytes){(const char *)f->bytes.at, (size_t)(f->bytes.end - f->bytes.at)};
}

static Message get_message(Reader *r, Message m, uint32_t number)
{
    const Field *f = find(m, number);
    return f == NULL || f->type != 2 ? (Message){0} : scan(r, f->bytes);
}

/* A repeated integer, packed or not. */
static Ints get_ints(Reader *r, Message m, uint32_t number)
{
    int64_t *data = NULL;
    size_t count = 0, capacity = 0;
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != number)
            continue;
        Wire w = m.fields[i].bytes;
        if (m.fields[i].type != 2) {
            data = arena_grow(r->a, data, &capacity, count + 1, sizeof *data);
            data[count++] = (int64_t)m.fields[i].value;
        }
        while (m.fields[i].type == 2 && w.at < w.end && !w.damaged) {
            data = arena_grow(r->a, data, &capacity, count + 1, sizeof *data);
            data[count++] = (int64_t)wire_take_varint(&w);
        }
        if (w.damaged)
            trouble(r, "a list of numbers is damaged");
    }
    return (Ints){data, (uint32_t)count};
}

static double get_double(Message m, uint32_t number)
{
    const Field *f = find(m, number);
    double value = 0;
    float narrow;
    uint32_t bits = f == NULL ? 0 : (uint32_t)f->value;
    if (f != NULL && f->type == 1) {
        memcpy(&value, &f->value, sizeof value);
    } else if (f != NULL) {
        memcpy(&narrow, &bits, sizeof narrow);
        value = (double)narrow;
    }
    return value;
}

/* -- names ------------------------------------------------------------------------------- */

static void names_add(Reader *r, Names *n, uint64_t id, const char *name, bool is_pred)
{
    n->data = arena_grow(r->a, n->data, &n->capacity, n->count + 1, sizeof *n->data);
    n->data[n->count++] = (Named){.id = id, .name = name, .is_pred = is_pred};
}

static int compare_named(const void *a, const void *b)
{
    const Named *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void names_sort(Names *n)
{
    if (n->count != 0)
        qsort(n->data, n->count, sizeof *n->data, compare_named);
}

static const Named *names_find(Reader *r, const Names *n, uint64_t id)
{
    Named key = {.id = id};
    const Named *found =
        n->count == 0 ? NULL
                      : bsearch(&key, n->data, n->count, sizeof *n->data, compare_named);
    if (found == NULL)
        trouble(r, "an id refers to nothing");
    return found;
}

static void put_name(Reader *r, const Names *n, uint64_t id)
{
    const Named *found = names_find(r, n, id);
    text_char(&r->t, '%');
    text_string(&r->t, found == NULL ? "missing" : found->name);
}

/* A name that the language can write. */
static const char *clean_name(Reader *r, Bytes name)
{
    char *out = arena_text(r->a, name.data, name.length);
    for (size_t i = 0; i < name.length; i++) {
        char c = out[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i != 0 && ((c >= '0' && c <= '9') || c == '.' || c == '-')))
            out[i] = '_';
    }
    return name.length == 0 ? "_" : out;
}

/* -- shapes ------------------------------------------------------------------------------ */

static DType type_of(int64_t number)
{
    DType t = DT_INVALID;
    if (number >= PROTO_DTYPE && number < PROTO_DTYPE + (int64_t)DT_TUPLE)
        return (DType)(number - PROTO_DTYPE);
    return dtype_from_proto(number, &t) ? t : DT_INVALID;
}

static void put_list(Text *t, Ints ints)
{
    for (uint32_t i = 0; i < ints.count; i++) {
        if (i != 0)
            text_char(t, ',');
        text_int(t, ints.data[i]);
    }
}

static void put_tiles(Reader *r, Message layout)
{
    Text *t = &r->t;
    bool first = true;
    for (size_t i = 0; i < layout.count; i++) {
        if (layout.fields[i].number != 6)
            continue;
        Ints dims = get_ints(r, scan(r, layout.fields[i].bytes), 1);
        text_string(t, first ? "T(" : "(");
        first = false;
        for (uint32_t k = 0; k < dims.count; k++) {
            text_string(t, k == 0 ? "" : ",");
            if (dims.data[k] == TILE_COMBINE)
                text_char(t, '*');
            else
                text_int(t, dims.data[k]);
        }
        text_char(t, ')');
    }
}

static void put_number_property(Text *t, const char *letter, int64_t value)
{
    if (value != 0)
        text_printf(t, "%s(%lld)", letter, (long long)value);
}

static void put_layout(Reader *r, Message layout)
{
    Text *t = &r->t;
    size_t start = t->length;
    text_char(t, '{');
    put_list(t, get_ints(r, layout, 1));
    text_char(t, ':');
    size_t empty = t->length;
    put_tiles(r, layout);
    int64_t tail = get_int(layout, 16);
    put_number_property(t, "L", tail == 1 ? 0 : tail);
    if (type_of(get_int(layout, 11)) != DT_INVALID)
        text_printf(t, "#(%s)", dtype_name(type_of(get_int(layout, 11))));
    if (type_of(get_int(layout, 12)) != DT_INVALID)
        text_printf(t, "*(%s)", dtype_name(type_of(get_int(layout, 12))));
    put_number_property(t, "E", get_int(layout, 7));
    put_number_property(t, "S", get_int(layout, 8));
    bool first = true;
    for (size_t i = 0; i < layout.count; i++) {
        if (layout.fields[i].number != 17)
            continue;
        Message split = scan(r, layout.fields[i].bytes);
        text_printf(t, "%s(%lld:", first ? "SC" : "", (long long)get_int(split, 1));
        put_list(t, get_ints(r, split, 2));
        text_char(t, ')');
        first = false;
    }
    put_number_property(t, "M", get_int(layout, 15));
    if (t->length == empty)
        t->length--; /* the colon */
    text_char(t, '}');
    if (t->length == start + 2)
        t->length = start; /* {} */
}

static void put_shape(Reader *r, Message shape)
{
    Text *t = &r->t;
    int64_t type = get_int(shape, 2);
    if (++r->depth > SHAPE_DEPTH) {
        trouble(r, "maximum recursion depth exceeded");
    } else if (type == 13 || type == 34) {
        text_string(t, type == 13 ? "(" : "b(");
        bool first = true;
        for (size_t i = 0; i < shape.count; i++) {
            if (shape.fields[i].number != 4)
                continue;
            text_string(t, first ? "" : ", ");
            first = false;
            put_shape(r, scan(r, shape.fields[i].bytes));
        }
        text_char(t, ')');
    } else if (type_of(type) == DT_INVALID) {
        trouble(r, "a shape has an unknown element type");
    } else {
        Ints dims = get_ints(r, shape, 3), dynamic = get_ints(r, shape, 6);
        text_string(t, dtype_name(type_of(type)));
        text_char(t, '[');
        for (uint32_t i = 0; i < dims.count; i++) {
            text_string(t, i == 0 ? "" : ",");
            if (dims.data[i] == DIM_UNBOUNDED) {
                text_char(t, '?');
                continue;
            }
            text_string(t, i < dynamic.count && dynamic.data[i] != 0 ? "<=" : "");
            text_int(t, dims.data[i]);
        }
        text_char(t, ']');
        if (find(shape, 5) != NULL)
            put_layout(r, get_message(r, shape, 5));
    }
    r->depth--;
}

/* -- literals ------------------------------------------------------------------------------ */

typedef struct Elements {
    DType type;
    Bytes raw;    /* fixed-width data */
    Ints varints; /* or numbers */
    size_t size;  /* bytes of an element in raw; 0: varints */
    int64_t count;
} Elements;

static bool take_elements(Reader *r, Message literal, DType type, Elements *out)
{
    uint32_t field = proto_literal_field(type);
    bool varints = type == DT_S32 || type == DT_S64 || type == DT_U32 || type == DT_U64;
    *out = (Elements){.type = type};
    if (varints) {
        out->varints = get_ints(r, literal, field);
        out->count = out->varints.count;
        return true;
    }
    out->raw = get_bytes(literal, field);
    out->size = dtype_info[type].storage;
    if (out->size == 0 || out->raw.length % out->size != 0)
        return trouble(r, "a literal's data is damaged");
    out->count = (int64_t)(out->raw.length / out->size);
    return true;
}

static void put_element(Reader *r, const Elements *e, int64_t i)
{
    char element[16], text[NUMBER_TEXT_MAX];
    if (e->size == 0) {
        number_store(e->type, element, (uint64_t)e->varints.data[i]);
    } else {
        memcpy(element, e->raw.data + (size_t)i * e->size, e->size);
        if (dtype_is_sub_byte(e->type)) /* sign-extended in storage */
            number_store(e->type, element, (unsigned char)element[0]);
    }
    text_add(&r->t, text, number_print(e->type, element, true, text));
}

/* Braces of an array without elements: {} at the dimension of size 0. */
static void put_empty(Reader *r, Ints dims, uint32_t at)
{
    text_char(&r->t, '{');
    for (int64_t i = 0; i < dims.data[at]; i++) {
        text_string(&r->t, i == 0 ? "" : ",");
        put_empty(r, dims, at + 1);
    }
    text_char(&r->t, '}');
}

static void put_array_literal(Reader *r, Message literal, Message shape)
{
    Ints dims = get_ints(r, shape, 3);
    Elements e;
    int64_t count = 1, outer = 1;
    bool empty = false;
    for (uint32_t i = 0; i < dims.count; i++) {
        empty = empty || dims.data[i] == 0;
        if (dims.data[i] < 0 ||
            (dims.data[i] != 0 && count > LITERAL_MAX / dims.data[i])) {
            trouble(r, "a literal is too large");
            return;
        }
        outer = empty ? outer : outer * dims.data[i];
        count *= dims.data[i];
    }
    if (type_of(get_int(shape, 2)) == DT_INVALID ||
        !take_elements(r, literal, type_of(get_int(shape, 2)), &e))
        return;
    if (e.count != count || (empty && outer > EMPTY_LITERAL_MAX)) {
        trouble(r, "a literal does not have the elements of its shape");
        return;
    }
    if (count == 0) {
        put_empty(r, dims, 0);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t inner = count;
        text_string(&r->t, i == 0 ? "" : ",");
        for (uint32_t d = 0; d < dims.count; d++) {
            if (i % inner == 0)
                text_char(&r->t, '{');
            inner /= dims.data[d];
        }
        put_element(r, &e, i);
        inner = 1;
        for (uint32_t d = dims.count; d-- > 0;) {
            inner *= dims.data[d];
            if ((i + 1) % inner == 0)
                text_char(&r->t, '}');
        }
    }
}

/* `typed`: every array behind its shape, as in the literal of a custom-call. */
static void put_literal(Reader *r, Message literal, bool typed)
{
    Message shape = get_message(r, literal, 1);
    if (++r->depth > SHAPE_DEPTH) {
        trouble(r, "maximum recursion depth exceeded");
    } else if (get_int(shape, 2) == 13) {
        text_char(&r->t, '(');
        bool first = true;
        for (size_t i = 0; i < literal.count; i++) {
            if (literal.fields[i].number != 10)
                continue;
            text_string(&r->t, first ? "" : ", ");
            first = false;
            put_literal(r, scan(r, literal.fields[i].bytes), typed);
        }
        text_char(&r->t, ')');
    } else {
        if (typed)
            put_shape(r, shape);
        text_string(&r->t, typed ? " " : "");
        put_array_literal(r, literal, shape);
    }
    r->depth--;
}

/* -- attributes with messages of their own --------------------------------------------------- */

static void put_window(Reader *r, Message window)
{
    static const struct {
        const char *name;
        uint32_t field, second; /* pad has two */
    } parts[] = {{"size=", 1, 0},        {" stride=", 2, 0},
                 {" pad=", 3, 4},        {" lhs_dilate=", 6, 0},
                 {" rhs_dilate=", 5, 0}, {" rhs_reversal=", 7, 0}};
    Text *t = &r->t;
    text_char(t, '{');
    for (size_t k = 0; window.count != 0 && k < sizeof parts / sizeof *parts; k++) {
        text_string(t, parts[k].name);
        bool first = true;
        for (size_t i = 0; i < window.count; i++) {
            if (window.fields[i].number != 1)
                continue;
            Message dim = scan(r, window.fields[i].bytes);
            text_string(t, first ? "" : "x");
            first = false;
            text_int(t, get_int(dim, parts[k].field));
            if (parts[k].second != 0)
                text_printf(t, "_%lld", (long long)get_int(dim, parts[k].second));
        }
    }
    text_char(t, '}');
}

static void put_label(Reader *r, Message m, const char *letters, uint32_t first,
                      uint32_t second, uint32_t spatial)
{
    enum { RANK_MAX = 32 };
    Ints places = get_ints(r, m, spatial);
    char text[RANK_MAX + 1];
    size_t rank = 0;
    bool fits = places.count <= 10;
    memset(text, '?', sizeof text); /* a dimension that nothing names */
    for (uint32_t i = 0; fits && i < places.count + 2; i++) {
        int64_t at = i == 0   ? get_int(m, first)
                     : i == 1 ? get_int(m, second)
                              : places.data[i - 2];
        fits = at >= 0 && at < RANK_MAX && text[at] == '?';
        if (!fits)
            break;
        text[at] = i < 2 ? letters[i] : "0123456789"[i - 2];
        rank = (size_t)at >= rank ? (size_t)at + 1 : rank;
    }
    if (!fits)
        trouble(r, "the dimension numbers of a convolution are wrong");
    text_add(&r->t, text, rank);
}

static void put_labels(Reader *r, Message m)
{
    put_label(r, m, "bf", 7, 8, 11);
    text_char(&r->t, '_');
    put_label(r, m, "io", 3, 4, 6);
    text_string(&r->t, "->");
    put_label(r, m, "bf", 9, 10, 12);
}

static Metadata read_metadata(Reader *r, Message m)
{
    return (Metadata){.op_type = get_bytes(m, 1),
                      .op_name = get_bytes(m, 2),
                      .source_file = get_bytes(m, 3),
                      .source_line = get_int(m, 4),
                      .profile_types = get_ints(r, m, 5),
                      .deduplicated_name = get_bytes(m, 12),
                      .stack_frame_id = get_int(m, 15),
                      .scheduling_name = get_bytes(m, 16),
                      .source_end_line = get_int(m, 17),
                      .source_column = get_int(m, 18),
                      .source_end_column = get_int(m, 19)};
}

static void put_sharding_metadata(Reader *r, Message s)
{
    bool first = true;
    for (size_t i = 0; i < s.count; i++) {
        if (s.fields[i].number != 7)
            continue;
        Metadata metadata = read_metadata(r, scan(r, s.fields[i].bytes));
        text_string(&r->t, first ? " metadata={{" : ", {");
        metadata_print(&r->t, &metadata);
        text_char(&r->t, '}');
        first = false;
    }
    text_string(&r->t, first ? "" : "}");
}

static void put_attribute_name(Reader *r, AttrId id)
{
    text_string(&r->t, ", ");
    text_string(&r->t, attr_info[id].name);
    text_char(&r->t, '=');
}

/* One list after the other, as many numbers each as the result has dimensions. */
static void put_permute_sizes(Reader *r, Message inst)
{
    Ints sizes = get_ints(r, inst, 20);
    Message shape = get_message(r, inst, 3);
    if (get_int(shape, 2) == 13)
        shape = get_message(r, shape, 4);
    uint32_t rank = get_ints(r, shape, 3).count;
    if (sizes.count == 0)
        return;
    if (rank == 0 || sizes.count % rank != 0)
        rank = sizes.count;
    put_attribute_name(r, ATTR_PERMUTE_SLICE_SIZES);
    for (uint32_t i = 0; i < sizes.count; i += rank) {
        text_string(&r->t, i == 0 ? "{{" : ",{");
        put_list(&r->t, (Ints){sizes.data + i, rank});
        text_char(&r->t, '}');
        if (sizes.count - i <= rank)
            break;
    }
    text_char(&r->t, '}');
}

/* From one leaf of an origin's tree to the next, by their places; NULL: the begin, the end. */
static void put_origin_step(Reader *r, const Ints *from, const Ints *to)
{
    uint32_t common = 0, up = from != NULL ? from->count : 0,
             down = to != NULL ? to->count : 0;
    if (from != NULL && to != NULL) {
        while (common < up && common < down && from->data[common] == to->data[common])
            common++;
        if (common == up || common == down) {
            trouble(r, "the leaves of an origin are in no order");
            return;
        }
        common++;
    }
    for (; up > common; up--)
        text_char(&r->t, ')');
    text_string(&r->t, from != NULL && to != NULL ? ", " : "");
    for (; down > common; down--)
        text_char(&r->t, '(');
}

static void put_origin(Reader *r, Message origin)
{
    Ints last = {0};
    bool first = true;
    if (get_int(origin, 2) != 0) {
        text_string(&r->t, "{[synthetic_call]}");
        return;
    }
    text_char(&r->t, '{');
    for (size_t i = 0; i < origin.count; i++) {
        if (origin.fields[i].number != 1)
            continue;
        Message leaf = scan(r, origin.fields[i].bytes), array = get_message(r, leaf, 2);
        Ints place = get_ints(r, leaf, 1), index = get_ints(r, array, 2);
        put_origin_step(r, first ? NULL : &last, &place);
        text_char(&r->t, '{');
        if (find(leaf, 2) != NULL)
            escaped_print(&r->t, get_bytes(array, 1));
        if (index.count != 0) {
            text_string(&r->t, " {");
            put_list(&r->t, index);
            text_char(&r->t, '}');
        }
        text_char(&r->t, '}');
        last = place;
        first = false;
    }
    if (!first)
        put_origin_step(r, &last, NULL);
    text_char(&r->t, '}');
}

static void put_sparsity_side(Reader *r, Message side, const char *name)
{
    if (side.count != 0)
        text_printf(&r->t, "%s={sparsity=%lldx%lld dimension=%lld stride=%lld} ", name,
                    (long long)get_int(side, 1), (long long)get_int(side, 2),
                    (long long)get_int(side, 3), (long long)get_int(side, 4));
}

static void put_sharding(Reader *r, Message s)
{
    Text *t = &r->t;
    int64_t type = get_int(s, 1);
    text_char(t, '{');
    if (find(s, 14) != NULL) {
        trouble(r, "named shardings of other writers are not read");
    } else if (type == 2) {
        bool first = true;
        for (size_t i = 0; i < s.count; i++) {
            if (s.fields[i].number != 5)
                continue;
            Message element = scan(r, s.fields[i].bytes);
            text_string(t, first ? "" : ", ");
            first = false;
            if (get_int(element, 1) == 2)
                trouble(r, "a sharding holds tuples in tuples");
            else
                put_sharding(r, element);
        }
    } else if (type == 3) {
        static const char *const kinds[] = {"replicated", "maximal", "",         "",
                                            "manual",     "",        "unreduced"};
        Ints devices = get_ints(r, s, 4), reshape = get_ints(r, s, 9),
             order = get_ints(r, s, 10);
        Ints last = get_ints(r, s, 8);
        text_string(t, "devices=[");
        put_list(t, get_ints(r, s, 3));
        text_string(t, reshape.count != 0 ? "]<=[" : "]");
        put_list(t, reshape.count != 0 ? reshape : devices);
        if (reshape.count != 0)
            text_char(t, ']');
        if (reshape.count > 1) {
            text_string(t, "T(");
            put_list(t, order);
            text_char(t, ')');
        }
        text_string(t, get_int(s, 6) != 0 ? " last_tile_dim_replicate" : "");
        for (uint32_t i = 0; i < last.count; i++) {
            bool known = last.data[i] >= 0 && last.data[i] <= 6;
            text_printf(t, "%s%s", i == 0 ? " last_tile_dims={" : ", ",
                        known ? kinds[last.data[i]] : "");
        }
        text_string(t, last.count != 0 ? "}" : "");
    } else {
        static const char *const kinds[] = {
            "replicated", "maximal device=", "", "", "manual", "unknown", "unreduced"};
        if (type < 0 || type > 6)
            trouble(r, "a sharding is of an unknown kind");
        else
            text_string(t, kinds[type]);
        if (type == 1)
            put_list(t, get_ints(r, s, 4));
    }
    if (get_int(s, 11) != 0)
        text_printf(t, " %s %lld", get_int(s, 13) == 0 ? "shard_as" : "shard_like",
                    (long long)get_int(s, 12));
    put_sharding_metadata(r, s);
    text_char(t, '}');
}

static void put_pairs(Reader *r, Message inst)
{
    bool first = true;
    text_char(&r->t, '{');
    for (size_t i = 0; i < inst.count; i++) {
        if (inst.fields[i].number != 52)
            continue;
        Message pair = scan(r, inst.fields[i].bytes);
        text_printf(&r->t, "%s{%lld,%lld}", first ? "" : ",", (long long)get_int(pair, 1),
                    (long long)get_int(pair, 2));
        first = false;
    }
    text_char(&r->t, '}');
}

static void put_group_lists(Reader *r, Message m, uint32_t field)
{
    bool first = true;
    text_char(&r->t, '{');
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != field)
            continue;
        text_string(&r->t, first ? "{" : ",{");
        put_list(&r->t, get_ints(r, scan(r, m.fields[i].bytes), 1));
        text_char(&r->t, '}');
        first = false;
    }
    text_char(&r->t, '}');
}

static void put_groups(Reader *r, Message inst)
{
    Message list = get_message(r, inst, 87);
    Message iota =
        find(inst, 92) != NULL ? get_message(r, inst, 92) : get_message(r, list, 2);
    if (iota.count != 0) {
        Ints reshape = get_ints(r, iota, 3);
        text_printf(&r->t, "[%lld,%lld]<=[", (long long)get_int(iota, 1),
                    (long long)get_int(iota, 2));
        put_list(&r->t, reshape);
        text_char(&r->t, ']');
        if (reshape.count > 1) {
            text_string(&r->t, "T(");
            put_list(&r->t, get_ints(r, iota, 4));
            text_char(&r->t, ')');
        }
        return;
    }
    if (list.count != 0)
        put_group_lists(r, list, 1);
    else
        put_group_lists(r, inst, 49);
}

static void put_rows(Reader *r, Message m, uint32_t field, const char *open,
                     const char *join, const char *close, const char *format)
{
    bool first = true;
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != field)
            continue;
        Message row = scan(r, m.fields[i].bytes);
        text_string(&r->t, first ? "" : join);
        text_string(&r->t, open);
        for (uint32_t k = 1; k <= 3; k++) {
            text_string(&r->t, k == 1 ? "" : format);
            text_int(&r->t, get_int(row, k));
        }
        text_string(&r->t, close);
        first = false;
    }
}

static void put_aliasing(Reader *r, Message m, uint32_t field, bool kinds)
{
    bool first = true;
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != field)
            continue;
        Message e = scan(r, m.fields[i].bytes);
        text_string(&r->t, first ? "{" : ", {");
        put_list(&r->t, get_ints(r, e, 1));
        text_printf(&r->t, "}: (%lld, {", (long long)get_int(e, 2));
        put_list(&r->t, get_ints(r, e, 3));
        text_string(&r->t, !kinds               ? "})"
                           : get_int(e, 4) == 2 ? "}, must-alias)"
                                                : "}, may-alias)");
        first = false;
    }
}

static void put_dict(Reader *r, Message m)
{
    bool first = true;
    text_char(&r->t, '{');
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != 1)
            continue;
        Message entry = scan(r, m.fields[i].bytes);
        Bytes key = get_bytes(entry, 1);
        text_string(&r->t, first ? "" : ",");
        text_add(&r->t, key.data, key.length);
        text_char(&r->t, '=');
        config_print(&r->t, get_bytes(entry, 2));
        first = false;
    }
    text_char(&r->t, '}');
}

/* -- attributes by the opcode's row ------------------------------------------------------------ */

static void put_enum(Reader *r, AttrId id, int64_t value)
{
    int64_t count = 0;
    while (attr_info[id].names[count] != NULL)
        count++;
    if (value < 0 || value >= count)
        trouble(r, "an enumeration has an unknown value");
    else
        text_string(&r->t, attr_info[id].names[value]);
}

/* An attribute that is one number, list or string in field `number` of `m`. */
static void put_plain(Reader *r, AttrId id, Message m, uint32_t number, int64_t minus)
{
    put_attribute_name(r, id);
    int64_t value = get_int(m, number) - minus;
    switch (attr_info[id].kind) {
    case AK_BOOL:
        text_string(&r->t, value != 0 ? "true" : "false");
        break;
    case AK_ENUM:
        put_enum(r, id, value);
        break;
    case AK_INTS:
        ints_print(&r->t, get_ints(r, m, number));
        break;
    case AK_ENUMS: {
        Ints values = get_ints(r, m, number);
        for (uint32_t i = 0; i < values.count; i++) {
            text_string(&r->t, i == 0 ? "{" : ",");
            put_enum(r, id, values.data[i]);
        }
        text_string(&r->t, values.count == 0 ? "{}" : "}");
        break;
    }
    case AK_STRING:
        escaped_print(&r->t, get_bytes(m, number));
        break;
    case AK_CONFIG:
        config_print(&r->t, get_bytes(m, number));
        break;
    default:
        text_int(&r->t, value);
        break;
    }
}

static void put_algorithm(Reader *r, Message precision)
{
    static const int64_t ours[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 9};
    int64_t number = get_int(precision, 2);
    if (number < 0 || number > 13)
        trouble(r, "a dot has an unknown algorithm");
    else if (number != 0)
        text_printf(&r->t, ", algorithm=%s",
                    attr_info[ATTR_ALGORITHM].names[ours[number]]);
}

/* Attributes whose field is in a message of several. */
static bool put_nested(Reader *r, OpCode op, const OpAttr *row, Message inst)
{
    uint32_t message, field;
    if (!proto_nested_field(op, row->id, &message, &field))
        return false;
    Message m = get_message(r, inst, message);
    if (message == 90 && field <= 4)
        m = get_message(r, m, 1);
    else if (message == 90)
        field -= 3;
    if (row->id == ATTR_ALGORITHM) {
        put_algorithm(r, m);
        return true;
    }
    if (find(m, field) != NULL || row->rule == ATTR_REQUIRED)
        put_plain(r, row->id, m, field, 0);
    return true;
}

/* `name=` and a value that put_x prints, if the message has the field. */
static void put_with(Reader *r, AttrId id, Message inst, uint32_t number,
                     void (*put)(Reader *r, Message m))
{
    if (find(inst, number) == NULL)
        return;
    put_attribute_name(r, id);
    put(r, get_message(r, inst, number));
}

static void put_special(Reader *r, const OpAttr *row, Message inst)
{
    Text *t = &r->t;
    switch (row->id) {
    case ATTR_IOTA_DIMENSION:
    case ATTR_INFERRED_DIMENSION: {
        Ints dims = get_ints(r, inst, 14);
        if (dims.count != 0)
            text_printf(t, ", %s=%lld", attr_info[row->id].name, (long long)dims.data[0]);
        break;
    }
    case ATTR_IS_ASSOCIATIVE: /* 1 true, 2 false */
        text_printf(t, ", is_associative=%s", get_int(inst, 96) == 1 ? "true" : "false");
        break;
    case ATTR_WINDOW:
        put_with(r, row->id, inst, 15, put_window);
        break;
    case ATTR_DIM_LABELS:
        put_with(r, row->id, inst, 16, put_labels);
        break;
    case ATTR_SLICE:
        put_attribute_name(r, row->id);
        text_char(t, '{');
        put_rows(r, inst, 17, "[", ", ", "]", ":");
        text_char(t, '}');
        break;
    case ATTR_PADDING: {
        Message config = get_message(r, inst, 21);
        put_attribute_name(r, row->id);
        put_rows(r, config, 1, "", "x", "", "_");
        text_string(t, config.count == 0 ? "\"\"" : "");
        break;
    }
    case ATTR_EPSILON: {
        char digits[NUMBER_TEXT_MAX];
        put_attribute_name(r, row->id);
        text_add(t, digits, number_print_double(get_double(inst, 24), 9, digits));
        break;
    }
    case ATTR_OUTFEED_SHAPE:
        put_with(r, row->id, inst, 29, put_shape);
        break;
    case ATTR_KIND:
    case ATTR_DIRECTION:
    case ATTR_TYPE: {
        uint32_t field = row->id == ATTR_KIND ? 11 : row->id == ATTR_DIRECTION ? 63 : 72;
        Bytes name = get_bytes(inst, field);
        if (name.length != 0)
            text_printf(t, ", %s=%.*s", attr_info[row->id].name, (int)name.length,
                        name.data);
        break;
    }
    case ATTR_REPLICA_GROUPS:
        if (find(inst, 87) == NULL && find(inst, 92) == NULL && find(inst, 49) == NULL)
            break;
        put_attribute_name(r, row->id);
        put_groups(r, inst);
        break;
    case ATTR_SOURCE_TARGET_PAIRS:
        put_attribute_name(r, row->id);
        put_pairs(r, inst);
        break;
    case ATTR_DOMAIN:
        if (find(inst, 54) == NULL)
            break;
        text_string(t, ", domain={kind=\"sharding\", entry=");
        put_sharding(r, get_message(r, inst, 55));
        text_string(t, ", exit=");
        put_sharding(r, get_message(r, inst, 54));
        text_char(t, '}');
        break;
    case ATTR_OUTPUT_TO_OPERAND_ALIASING:
        if (find(inst, 74) == NULL)
            break;
        put_attribute_name(r, row->id);
        text_char(t, '{');
        put_aliasing(r, inst, 74, false);
        text_char(t, '}');
        break;
    case ATTR_OPERAND_LAYOUT_CONSTRAINTS: {
        bool first = true;
        if (get_int(inst, 56) == 0)
            break;
        put_attribute_name(r, row->id);
        text_char(t, '{');
        for (size_t i = 0; i < inst.count; i++) {
            if (inst.fields[i].number != 57)
                continue;
            text_string(t, first ? "" : ", ");
            first = false;
            put_shape(r, scan(r, inst.fields[i].bytes));
        }
        text_char(t, '}');
        break;
    }
    case ATTR_LITERAL:
        if (find(inst, 8) == NULL)
            break;
        put_attribute_name(r, row->id);
        put_literal(r, get_message(r, inst, 8), true);
        break;
    case ATTR_PERMUTE_SLICE_SIZES:
        put_permute_sizes(r, inst);
        break;
    case ATTR_SPARSITY_CONFIG: {
        Message m = get_message(r, inst, 98);
        if (m.count == 0)
            break;
        put_attribute_name(r, row->id);
        text_char(t, '{');
        put_sparsity_side(r, get_message(r, m, 1), "lhs");
        put_sparsity_side(r, get_message(r, m, 2), "rhs");
        text_char(t, '}');
        break;
    }
    case ATTR_RESULT_ACCURACY: {
        Message m = get_message(r, inst, 91), tolerance = get_message(r, m, 2);
        if (get_int(m, 1) == 1)
            text_string(t, ", result_accuracy={mode=highest}");
        if (tolerance.count != 0)
            text_printf(t,
                        ", result_accuracy={tolerance={atol=%.9g,rtol=%.9g,ulps=%lld}}",
                        get_double(tolerance, 1), get_double(tolerance, 2),
                        (long long)get_int(tolerance, 3));
        break;
    }
    default:
        break; /* stands in the extra text, if anywhere */
    }
}

static void put_own(Reader *r, OpCode op, const OpAttr *row, Message inst)
{
    uint32_t field;
    int64_t plus;
    if (row->rule == ATTR_ACCEPTED || (row->id == ATTR_DIMENSIONS && op == OP_MAP))
        return;
    if (proto_plain_field(row->id, &field, &plus)) {
        bool zero = find(inst, field) == NULL;
        if (row->id == ATTR_CONSTRAIN_LAYOUT && op == OP_CUSTOM_CALL)
            return;
        if (!zero || row->rule == ATTR_REQUIRED || row->rule == ATTR_SHOWN)
            put_plain(r, row->id, inst, field, zero ? 0 : plus);
    } else if (!put_nested(r, op, row, inst)) {
        put_special(r, row, inst);
    }
}

static void put_callees(Reader *r, OpCode op, Message inst, bool by_pred)
{
    Ints ids = get_ints(r, inst, 38);
    uint32_t next = 0;
    if (op == OP_WHILE && ids.count == 2) {
        text_string(&r->t, ", condition=");
        put_name(r, &r->computations, (uint64_t)ids.data[1]);
        text_string(&r->t, ", body=");
        put_name(r, &r->computations, (uint64_t)ids.data[0]);
        return;
    }
    for (const OpAttr *row = op_info[op].attrs; row->id != ATTR_COUNT; row++) {
        AttrKind kind = attr_info[row->id].kind;
        bool other =
            op == OP_CONDITIONAL && by_pred == (row->id == ATTR_BRANCH_COMPUTATIONS);
        if (row->rule == ATTR_ACCEPTED || other || next >= ids.count)
            continue;
        if (kind == AK_COMPUTATION) {
            put_attribute_name(r, row->id);
            put_name(r, &r->computations, (uint64_t)ids.data[next++]);
        } else if (kind == AK_COMPUTATIONS) {
            put_attribute_name(r, row->id);
            text_char(&r->t, '{');
            for (bool first = true; next < ids.count; first = false) {
                text_string(&r->t, first ? "" : ", ");
                put_name(r, &r->computations, (uint64_t)ids.data[next++]);
            }
            text_char(&r->t, '}');
        }
    }
}

static void put_shared(Reader *r, Message inst)
{
    Text *t = &r->t;
    put_with(r, ATTR_SHARDING, inst, 40, put_sharding);
    if (get_message(r, inst, 68).count != 0)
        put_with(r, ATTR_FRONTEND_ATTRIBUTES, inst, 68, put_dict);
    Ints controls = get_ints(r, inst, 37);
    for (uint32_t i = 0; i < controls.count; i++) {
        text_string(t, i == 0 ? ", control-predecessors={" : ", ");
        put_name(r, &r->instructions, (uint64_t)controls.data[i]);
    }
    text_string(t, controls.count != 0 ? "}" : "");
    Ints replication = get_ints(r, get_message(r, inst, 61), 1);
    for (uint32_t i = 0; i < replication.count; i++)
        text_printf(t, "%s%s", i == 0 ? ", parameter_replication={" : ",",
                    replication.data[i] != 0 ? "true" : "false");
    text_string(t, replication.count != 0 ? "}" : "");
    if (get_message(r, inst, 88).count != 0)
        put_with(r, ATTR_ORIGIN, inst, 88, put_origin);
    Metadata metadata = read_metadata(r, get_message(r, inst, 7));
    if (metadata_is_shown(&metadata)) {
        text_string(t, ", metadata={");
        metadata_print(t, &metadata);
        text_char(t, '}');
    }
    Bytes config = get_bytes(inst, 43), extra = get_bytes(inst, PROTO_TEXT);
    if (config.length != 0) {
        text_string(t, ", backend_config=");
        config_print(t, config);
    }
    text_add(t, extra.data, extra.length);
}

/* -- instructions, computations, modules ------------------------------------------------------- */

static void put_operands(Reader *r, OpCode op, Message inst)
{
    Text *t = &r->t;
    Bytes text = get_bytes(inst, PROTO_LITERAL);
    Ints operands = get_ints(r, inst, 36);
    if (op == OP_PARAMETER) {
        text_int(t, get_int(inst, 9));
    } else if (op == OP_CONSTANT && text.length != 0) {
        text_add(t, text.data, text.length);
    } else if (op == OP_CONSTANT) {
        put_literal(r, get_message(r, inst, 8), false);
    } else {
        for (uint32_t i = 0; i < operands.count; i++) {
            text_string(t, i == 0 ? "" : ", ");
            put_name(r, &r->instructions, (uint64_t)operands.data[i]);
        }
    }
}

static void put_instruction(Reader *r, Message inst, bool is_root)
{
    Text *t = &r->t;
    Bytes spelling = get_bytes(inst, 2);
    OpCode op = op_find(spelling.data, spelling.length);
    if (op == OP_COUNT) {
        trouble(r, arena_printf(r->d->arena, "unknown opcode '%.*s'",
                                (int)spelling.length, spelling.data));
        return;
    }
    text_string(t, is_root ? "  ROOT " : "  ");
    put_name(r, &r->instructions, (uint64_t)get_int(inst, 35));
    text_string(t, " = ");
    put_shape(r, get_message(r, inst, 3));
    text_char(t, ' ');
    text_string(t, op_info[op].name);
    text_char(t, '(');
    put_operands(r, op, inst);
    text_char(t, ')');
    Ints operands = get_ints(r, inst, 36);
    const Named *index = op == OP_CONDITIONAL && operands.count != 0
                             ? names_find(r, &r->instructions, (uint64_t)operands.data[0])
                             : NULL;
    for (const OpAttr *row = op_info[op].attrs; row->id != ATTR_COUNT; row++)
        put_own(r, op, row, inst);
    put_callees(r, op, inst, index != NULL && index->is_pred);
    put_shared(r, inst);
    text_char(t, '\n');
}

static void take_schedule(Reader *r, Message schedule)
{
    for (size_t i = 0; i < schedule.count; i++) {
        if (schedule.fields[i].number != 1 || schedule.fields[i].type != 2)
            continue;
        Message entry = scan(r, schedule.fields[i].bytes);
        const Field *sequence = find(entry, 2);
        names_add(r, &r->schedule, (uint64_t)get_int(entry, 1), "", false);
        if (sequence != NULL && sequence->type == 2)
            r->schedule.data[r->schedule.count - 1].sequence = sequence->bytes;
    }
    names_sort(&r->schedule);
}

/* The instructions of a computation in the order of its schedule, if it has one. */
static Ints find_sequence(Reader *r, uint64_t computation)
{
    Named key = {.id = computation};
    const Named *found = r->schedule.count == 0
                             ? NULL
                             : bsearch(&key, r->schedule.data, r->schedule.count,
                                       sizeof key, compare_named);
    if (found == NULL)
        return (Ints){0};
    return get_ints(r, scan(r, found->sequence), 1);
}

static void put_computation(Reader *r, Message comp, bool is_entry)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < comp.count; i++)
        count += comp.fields[i].number == 2;
    Message *all = ARENA_ARRAY(r->a, Message, count);
    r->instructions.count = 0;
    for (size_t i = 0; i < comp.count; i++) {
        if (comp.fields[i].number != 2)
            continue;
        Message inst = all[at++] = scan(r, comp.fields[i].bytes);
        Message shape = get_message(r, inst, 3);
        names_add(r, &r->instructions, (uint64_t)get_int(inst, 35),
                  clean_name(r, get_bytes(inst, 1)), get_int(shape, 2) == 1);
        r->instructions.data[at - 1].position = at - 1;
    }
    names_sort(&r->instructions);
    text_string(&r->t, is_entry ? "ENTRY %" : "%");
    text_string(&r->t, clean_name(r, get_bytes(comp, 1)));
    text_string(&r->t, " {\n");
    int64_t root = get_int(comp, 6);
    Ints sequence = find_sequence(r, (uint64_t)get_int(comp, 5));
    for (size_t i = 0; i < count && sequence.count != count; i++)
        put_instruction(r, all[i], get_int(all[i], 35) == root);
    for (uint32_t i = 0; i < sequence.count && sequence.count == count; i++) {
        const Named *n = names_find(r, &r->instructions, (uint64_t)sequence.data[i]);
        if (n != NULL)
            put_instruction(r, all[n->position], sequence.data[i] == root);
    }
    text_char(&r->t, '}');
    Bytes thread = get_bytes(comp, 8);
    if (thread.length != 0) {
        text_string(&r->t, ", execution_thread=");
        escaped_print(&r->t, thread);
    }
    text_string(&r->t, "\n\n");
}

static void put_program_shape(Reader *r, Message program)
{
    bool first = true;
    text_string(&r->t, ", entry_computation_layout={(");
    for (size_t i = 0; i < program.count; i++) {
        if (program.fields[i].number != 1)
            continue;
        text_string(&r->t, first ? "" : ", ");
        first = false;
        put_shape(r, scan(r, program.fields[i].bytes));
    }
    text_string(&r->t, ")->");
    put_shape(r, get_message(r, program, 2));
    text_char(&r->t, '}');
}

static void put_donors(Reader *r, Message m)
{
    bool first = true;
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != 1)
            continue;
        Message e = scan(r, m.fields[i].bytes);
        text_printf(&r->t, "%s(%lld, {", first ? ", buffer_donor={ " : ", ",
                    (long long)get_int(e, 1));
        put_list(&r->t, get_ints(r, e, 2));
        text_string(&r->t, "})");
        first = false;
    }
    text_string(&r->t, first ? "" : " }");
}

static void put_texts(Reader *r, const char *title, Message m, uint32_t field)
{
    int number = 0;
    text_string(&r->t, title);
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != field || m.fields[i].type != 2)
            continue;
        Wire w = m.fields[i].bytes;
        text_printf(&r->t, "%d ", ++number);
        escaped_print(&r->t, (Bytes){(const char *)w.at, (size_t)(w.end - w.at)});
        text_char(&r->t, '\n');
    }
}

static void put_frames(Reader *r, Message m)
{
    if (m.count == 0)
        return;
    int number = 0;
    put_texts(r, "\n\nFileNames\n", m, 1);
    put_texts(r, "\nFunctionNames\n", m, 2);
    text_string(&r->t, "\nFileLocations\n");
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != 3)
            continue;
        Message l = scan(r, m.fields[i].bytes);
        text_printf(&r->t,
                    "%d {file_name_id=%lld function_name_id=%lld line=%lld end_line=%lld "
                    "column=%lld end_column=%lld}\n",
                    ++number, (long long)get_int(l, 1), (long long)get_int(l, 2),
                    (long long)get_int(l, 3), (long long)get_int(l, 5),
                    (long long)get_int(l, 4), (long long)get_int(l, 6));
    }
    text_string(&r->t, "\nStackFrames\n");
    number = 0;
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != 4)
            continue;
        Message f = scan(r, m.fields[i].bytes);
        text_printf(&r->t, "%d {file_location_id=%lld parent_frame_id=%lld}\n", ++number,
                    (long long)get_int(f, 1), (long long)get_int(f, 2) + 1);
    }
}

static void put_header(Reader *r, Message m)
{
    text_string(&r->t, "HloModule ");
    text_string(&r->t, clean_name(r, get_bytes(m, 1)));
    const Field *schedule = find(m, 7);
    if (schedule != NULL && schedule->type == 2 &&
        schedule->bytes.at < schedule->bytes.end) {
        take_schedule(r, scan(r, schedule->bytes));
        text_string(&r->t, ", is_scheduled=true");
    }
    Message aliases = get_message(r, m, 8);
    if (aliases.count != 0) {
        text_string(&r->t, ", input_output_alias={ ");
        put_aliasing(r, aliases, 1, true);
        text_string(&r->t, " }");
    }
    put_donors(r, get_message(r, m, 18));
    if (find(m, 4) != NULL)
        put_program_shape(r, get_message(r, m, 4));
    Message attributes = get_message(r, m, 19);
    if (attributes.count != 0) {
        text_string(&r->t, ", frontend_attributes=");
        put_dict(r, attributes);
    }
    Bytes extra = get_bytes(m, PROTO_TEXT);
    text_add(&r->t, extra.data, extra.length);
    put_frames(r, get_message(r, m, 17));
    text_string(&r->t, "\n\n");
}

static bool has_module_fields(Wire w)
{
    Field f;
    bool computations = false;
    while (wire_next(&w, &f))
        computations = computations || (f.number == 3 && f.type == 2);
    return !w.damaged && computations;
}

/* The module inside of HloProto (its field 1), or the bytes themselves. */
static Wire find_module(Wire w)
{
    Wire scan_at = w;
    Field f;
    while (wire_next(&scan_at, &f)) {
        if (f.number == 1 && f.type == 2 && has_module_fields(f.bytes))
            return f.bytes;
    }
    return w;
}

bool proto_is(const char *data, size_t length)
{
    Wire w = {(const unsigned char *)data, (const unsigned char *)data + length, false};
    return length > 2 && data[0] == '\n' && has_module_fields(find_module(w));
}

bool proto_to_text(Diag *d)
{
    const unsigned char *data = (const unsigned char *)d->text;
    Reader r = {.d = d, .a = arena_create()};
    text_init(&r.t, d->arena);
    Message m = scan(&r, find_module((Wire){data, data + d->length, false}));
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != 3)
            continue;
        Message comp = scan(&r, m.fields[i].bytes);
        names_add(&r, &r.computations, (uint64_t)get_int(comp, 5),
                  clean_name(&r, get_bytes(comp, 1)), false);
    }
    names_sort(&r.computations);
    put_header(&r, m);
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != 3)
            continue;
        Message comp = scan(&r, m.fields[i].bytes);
        put_computation(&r, comp, get_int(comp, 5) == get_int(m, 6));
    }
    arena_destroy(r.a);
    d->text = r.t.data;
    d->length = r.t.length;
    if (r.trouble != NULL)
        diag_error(d, (Span){(uint32_t)r.t.length, (uint32_t)r.t.length},
                   "this HloModuleProto cannot be read: %s", r.trouble);
    return r.trouble == NULL;
}
