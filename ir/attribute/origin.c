/* Origins. See origin.h. Trees are no deeper than the parser's limit. */
#include "ir/attribute/origin.h"

#include <string.h>

#include "ir/print/value.h"

size_t origin_leaf_count(const Origin *o)
{
    if (o->kind != ORIGIN_TUPLE)
        return 1;
    size_t n = 0;
    for (uint32_t i = 0; i < o->count; i++)
        n += origin_leaf_count(o->elements[i]);
    return n;
}

static void print_tree(Text *t, const Origin *o)
{
    switch (o->kind) {
    case ORIGIN_EMPTY:
        text_string(t, "{}");
        break;
    case ORIGIN_SYNTHETIC_CALL:
        text_string(t, "[synthetic_call]");
        break;
    case ORIGIN_LEAF:
        text_char(t, '{');
        escaped_print(t, o->name);
        if (o->index.count != 0) {
            text_string(t, " {");
            for (uint32_t i = 0; i < o->index.count; i++) {
                if (i != 0)
                    text_char(t, ',');
                text_int(t, o->index.data[i]);
            }
            text_char(t, '}');
        }
        text_char(t, '}');
        break;
    case ORIGIN_TUPLE:
        text_char(t, '(');
        for (uint32_t i = 0; i < o->count; i++) {
            if (i != 0)
                text_string(t, ", ");
            print_tree(t, o->elements[i]);
        }
        text_char(t, ')');
        break;
    }
}

void origin_print(Text *t, const Origin *o)
{
    text_char(t, '{');
    print_tree(t, o);
    text_char(t, '}');
}
