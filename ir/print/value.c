/* Printed forms of attribute values. See value.h; the forms are section 10 of the language. */
#include "ir/print/value.h"

#include <string.h>

#include "ir/attribute/config.h"
#include "ir/attribute/origin.h"
#include "ir/attribute/replica_groups.h"
#include "ir/attribute/sharding.h"
#include "ir/number/number.h"

/* -- strings and metadata --------------------------------------------------------------- */

void escaped_print(Text *t, Bytes bytes)
{
    text_char(t, '"');
    for (size_t i = 0; i < bytes.length; i++) {
        unsigned char c = (unsigned char)bytes.data[i];
        size_t plain = i;
        while (plain < bytes.length && (unsigned char)bytes.data[plain] >= 0x20 &&
               (unsigned char)bytes.data[plain] < 0x7f && bytes.data[plain] != '"' &&
               bytes.data[plain] != '\'' && bytes.data[plain] != '\\')
            plain++;
        if (plain > i) {
            text_add(t, bytes.data + i, plain - i);
            i = plain - 1;
            continue;
        }
        static const char special[] = "\n\r\t\"'\\", letters[] = "nrt\"'\\";
        const char *found = c != '\0' ? strchr(special, c) : NULL;
        text_char(t, '\\');
        if (found != NULL)
            text_char(t, letters[found - special]);
        else
            text_printf(t, "%03o", c);
    }
    text_char(t, '"');
}

static void print_string(Text *t, const char *name, Bytes bytes, bool *first)
{
    if (bytes.length == 0)
        return;
    text_string(t, *first ? "" : " ");
    text_string(t, name);
    text_char(t, '=');
    escaped_print(t, bytes);
    *first = false;
}

static void print_number(Text *t, const char *name, int64_t value, bool *first)
{
    if (value == 0)
        return;
    text_string(t, *first ? "" : " ");
    text_string(t, name);
    text_char(t, '=');
    text_int(t, value);
    *first = false;
}

void metadata_print(Text *t, const Metadata *m)
{
    bool first = true;
    print_string(t, "op_type", m->op_type, &first);
    print_string(t, "op_name", m->op_name, &first);
    print_string(t, "source_file", m->source_file, &first);
    print_number(t, "source_line", m->source_line, &first);
    print_number(t, "source_end_line", m->source_end_line, &first);
    print_number(t, "source_column", m->source_column, &first);
    print_number(t, "source_end_column", m->source_end_column, &first);
    if (m->profile_types.count != 0) {
        text_string(t, first ? "profile_type={" : " profile_type={");
        for (uint32_t i = 0; i < m->profile_types.count; i++) {
            if (i != 0)
                text_char(t, ',');
            text_int(t, m->profile_types.data[i]);
        }
        text_char(t, '}');
        first = false;
    }
    print_string(t, "deduplicated_name", m->deduplicated_name, &first);
    print_string(t, "scheduling_name", m->scheduling_name, &first);
    print_number(t, "stack_frame_id", m->stack_frame_id, &first);
    print_string(t, "metadata_payload", m->payload, &first);
}

bool metadata_is_shown(const Metadata *m)
{
    return m->op_type.length != 0 || m->op_name.length != 0 ||
           m->source_file.length != 0 || m->scheduling_name.length != 0 ||
           m->stack_frame_id != 0 || m->payload.length != 0;
}

/* Does the text consist of one JSON dictionary and nothing else? Braces in strings do not count. */
static bool is_dictionary(Bytes b)
{
    size_t depth = 0;
    bool quoted = false;
    if (b.length == 0 || b.data[0] != '{')
        return false;
    for (size_t i = 0; i < b.length; i++) {
        char c = b.data[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{') {
            depth++;
        } else if (c == '\0' || (c == '}' && --depth == 0)) {
            return c == '}' && i + 1 == b.length;
        }
    }
    return false;
}

void config_print(Text *t, Bytes bytes)
{
    if (is_dictionary(bytes))
        text_add(t, bytes.data, bytes.length);
    else
        escaped_print(t, bytes);
}

void dict_print(Text *t, const Dict *d)
{
    text_char(t, '{');
    for (uint32_t i = 0; i < d->count; i++) {
        if (i != 0)
            text_char(t, ',');
        text_string(t, d->entries[i].key);
        text_char(t, '=');
        config_print(t, d->entries[i].value);
    }
    text_char(t, '}');
}

/* -- lists ------------------------------------------------------------------------------- */

void ints_print(Text *t, Ints ints)
{
    text_char(t, '{');
    for (uint32_t i = 0; i < ints.count; i++) {
        if (i != 0)
            text_char(t, ',');
        text_int(t, ints.data[i]);
    }
    text_char(t, '}');
}

static void print_lists(Text *t, IntLists lists)
{
    text_char(t, '{');
    for (uint32_t i = 0; i < lists.count; i++) {
        if (i != 0)
            text_char(t, ',');
        ints_print(t, lists.data[i]);
    }
    text_char(t, '}');
}

/* Words for numbers: true and false, or the names of an enum. */
static void print_words(Text *t, Ints ints, const char *const *names)
{
    static const char *const bools[] = {"false", "true"};
    text_char(t, '{');
    for (uint32_t i = 0; i < ints.count; i++) {
        if (i != 0)
            text_char(t, ',');
        text_string(t, (names != NULL ? names : bools)[ints.data[i]]);
    }
    text_char(t, '}');
}

static void print_shapes(Text *t, Shapes shapes)
{
    text_char(t, '{');
    for (uint32_t i = 0; i < shapes.count; i++) {
        if (i != 0)
            text_string(t, ", ");
        shape_print(t, shapes.data[i], true);
    }
    text_char(t, '}');
}

void aliasing_print(Text *t, const Aliasing *a, bool kinds)
{
    for (uint32_t i = 0; i < a->count; i++) {
        const AliasEntry *e = &a->entries[i];
        if (i != 0)
            text_string(t, ", ");
        ints_print(t, e->output);
        text_string(t, ": (");
        text_int(t, e->operand);
        text_string(t, ", ");
        ints_print(t, e->input);
        if (kinds)
            text_string(t, e->must ? ", must-alias" : ", may-alias");
        text_char(t, ')');
    }
}

/* -- windows and other numbers per dimension ---------------------------------------------- */

enum { W_SIZE, W_STRIDE, W_PAD, W_LHS_DILATE, W_RHS_DILATE, W_REVERSAL, W_COUNT };

static bool window_differs(const WindowDim *d, int which)
{
    switch (which) {
    case W_STRIDE:
        return d->stride != 1;
    case W_PAD:
        return d->pad_low != 0 || d->pad_high != 0;
    case W_LHS_DILATE:
        return d->base_dilation != 1;
    case W_RHS_DILATE:
        return d->window_dilation != 1;
    case W_REVERSAL:
        return d->reversal;
    default:
        return true;
    }
}

static void print_window_number(Text *t, const WindowDim *d, int which)
{
    switch (which) {
    case W_SIZE:
        text_int(t, d->size);
        break;
    case W_STRIDE:
        text_int(t, d->stride);
        break;
    case W_PAD:
        text_int(t, d->pad_low);
        text_char(t, '_');
        text_int(t, d->pad_high);
        break;
    case W_LHS_DILATE:
        text_int(t, d->base_dilation);
        break;
    case W_RHS_DILATE:
        text_int(t, d->window_dilation);
        break;
    default:
        text_int(t, d->reversal);
        break;
    }
}

static void print_window(Text *t, const Window *w)
{
    static const char *const names[W_COUNT] = {
        "size=", " stride=", " pad=", " lhs_dilate=", " rhs_dilate=", " rhs_reversal="};
    text_char(t, '{');
    for (int which = 0; w->rank != 0 && which < W_COUNT; which++) {
        bool shown = false;
        for (uint32_t i = 0; i < w->rank; i++)
            shown = shown || window_differs(&w->dims[i], which);
        if (!shown)
            continue;
        text_string(t, names[which]);
        for (uint32_t i = 0; i < w->rank; i++) {
            if (i != 0)
                text_char(t, 'x');
            print_window_number(t, &w->dims[i], which);
        }
    }
    text_char(t, '}');
}

static void print_padding(Text *t, const Padding *p)
{
    bool interior = false;
    for (uint32_t i = 0; i < p->rank; i++)
        interior = interior || p->dims[i].interior != 0;
    for (uint32_t i = 0; i < p->rank; i++) {
        const PaddingDim *d = &p->dims[i];
        if (i != 0)
            text_char(t, 'x');
        text_int(t, d->low);
        text_char(t, '_');
        text_int(t, d->high);
        if (interior) {
            text_char(t, '_');
            text_int(t, d->interior);
        }
    }
    if (p->rank == 0)
        text_string(t, "\"\"");
}

static void print_slice(Text *t, const SliceSpec *s)
{
    bool strides = false;
    for (uint32_t i = 0; i < s->rank; i++)
        strides = strides || s->dims[i].stride != 1;
    text_char(t, '{');
    for (uint32_t i = 0; i < s->rank; i++) {
        text_string(t, i == 0 ? "[" : ", [");
        text_int(t, s->dims[i].start);
        text_char(t, ':');
        text_int(t, s->dims[i].limit);
        if (strides) {
            text_char(t, ':');
            text_int(t, s->dims[i].stride);
        }
        text_char(t, ']');
    }
    text_char(t, '}');
}

/* -- structures ---------------------------------------------------------------------------- */

static void print_double(Text *t, double value)
{
    char digits[NUMBER_TEXT_MAX];
    text_add(t, digits, number_print_double(value, 6, digits));
}

/* Literals of custom-calls: every array behind its shape. */
static void print_typed_literal(Text *t, const Literal *l)
{
    if (!shape_is_tuple(l->shape)) {
        shape_print(t, l->shape, true);
        text_char(t, ' ');
        literal_print(t, l);
        return;
    }
    text_string(t, "( ");
    for (uint32_t i = 0; i < l->shape->rank; i++) {
        if (i != 0)
            text_string(t, ", ");
        print_typed_literal(t, l->elements[i]);
    }
    text_string(t, " )");
}

static void print_sparsity_side(Text *t, const char *name, const SparsitySide *s)
{
    if (s->present)
        text_printf(t, "%s={sparsity=%lldx%lld dimension=%lld stride=%lld}", name,
                    (long long)s->n, (long long)s->m, (long long)s->dimension,
                    (long long)s->stride);
}

static void print_sparsity(Text *t, const Sparsity *s)
{
    text_char(t, '{');
    print_sparsity_side(t, "lhs", &s->lhs);
    if (s->lhs.present && s->rhs.present)
        text_char(t, ' ');
    print_sparsity_side(t, "rhs", &s->rhs);
    text_char(t, '}');
}

static void print_statistics(Text *t, const Statistics *s)
{
    text_string(t, "{visualizing_index=");
    text_int(t, s->visualizing_index);
    for (uint32_t i = 0; i < s->count; i++) {
        text_char(t, ',');
        text_string(t, s->entries[i].name);
        text_char(t, '=');
        print_double(t, s->entries[i].value);
    }
    text_char(t, '}');
}

static void print_accuracy(Text *t, const Accuracy *a)
{
    if (!a->tolerance) {
        text_string(t, a->highest ? "{mode=highest}" : "{mode=default}");
        return;
    }
    text_string(t, "{tolerance={atol=");
    print_double(t, a->atol);
    text_string(t, ",rtol=");
    print_double(t, a->rtol);
    text_string(t, ",ulps=");
    text_int(t, a->ulps);
    text_string(t, "}}");
}

static void print_labels(Text *t, const DimLabels *l)
{
    text_string(t, l->lhs_text);
    text_char(t, '_');
    text_string(t, l->rhs_text);
    text_string(t, "->");
    text_string(t, l->out_text);
}

static void print_domain(Text *t, const Domain *d, bool metadata)
{
    text_string(t, "{kind=\"sharding\", entry=");
    sharding_print(t, d->entry, metadata);
    text_string(t, ", exit=");
    sharding_print(t, d->exit, metadata);
    text_char(t, '}');
}

static void print_structure(Text *t, const Attr *a, bool metadata)
{
    switch (attr_info[a->id].kind) {
    case AK_WINDOW:
        print_window(t, a->window);
        break;
    case AK_DIM_LABELS:
        print_labels(t, a->labels);
        break;
    case AK_PADDING:
        print_padding(t, a->padding);
        break;
    case AK_SLICE:
        print_slice(t, a->slice);
        break;
    case AK_ALIASING:
        text_char(t, '{');
        aliasing_print(t, a->aliasing, false);
        text_char(t, '}');
        break;
    case AK_SHARDING:
        sharding_print(t, a->sharding, metadata);
        break;
    case AK_REPLICA_GROUPS:
        replica_groups_print(t, a->groups);
        break;
    case AK_DOMAIN:
        print_domain(t, a->domain, metadata);
        break;
    case AK_SPARSITY:
        print_sparsity(t, a->sparsity);
        break;
    case AK_METADATA:
        text_char(t, '{');
        metadata_print(t, a->metadata);
        text_char(t, '}');
        break;
    case AK_DICT:
        dict_print(t, a->dict);
        break;
    case AK_STATISTICS:
        print_statistics(t, a->statistics);
        break;
    case AK_ACCURACY:
        print_accuracy(t, a->accuracy);
        break;
    case AK_ORIGIN:
        origin_print(t, a->origin);
        break;
    default: /* computations and instructions: names are the printer's business */
        break;
    }
}

void value_print(Text *t, const Attr *a, bool metadata)
{
    switch (attr_info[a->id].kind) {
    case AK_INT:
        text_int(t, a->i);
        break;
    case AK_BOOL:
        text_string(t, a->i != 0 ? "true" : "false");
        break;
    case AK_FLOAT:
        print_double(t, a->f);
        break;
    case AK_STRING:
        escaped_print(t, a->bytes);
        break;
    case AK_CONFIG:
        config_print(t, a->config->text);
        break;
    case AK_ENUM:
        text_string(t, attr_info[a->id].names[a->i]);
        break;
    case AK_INTS:
        ints_print(t, a->ints);
        break;
    case AK_INTSS:
        print_lists(t, a->lists);
        break;
    case AK_BOOLS:
    case AK_ENUMS:
        print_words(t, a->ints, attr_info[a->id].names);
        break;
    case AK_SHAPE:
        shape_print(t, a->shape, true);
        break;
    case AK_SHAPES:
        print_shapes(t, a->shapes);
        break;
    case AK_LITERAL:
        print_typed_literal(t, a->literal);
        break;
    default:
        print_structure(t, a, metadata);
        break;
    }
}
