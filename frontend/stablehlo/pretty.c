/* Pretty forms: the items between an operation's name and its types become the attributes of the generic
 * form, types that are not written are found. pretty.def says which item is which attribute; what is more than
 * another name has a function here. */
#include <stdlib.h>

#include "frontend/stablehlo/reader.h"

static const struct {
    const char *op, *item, *attribute;
} renamed[] = {
#define ITEM(op, item, attribute) {op, item, attribute},
#include "frontend/stablehlo/pretty.def"
};

/* The name without the dialects whose operations are ours. */
static const char *plain_name(const char *name)
{
    static const char *const ours[] = {"stablehlo.", "mhlo.", "chlo."};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strncmp(name, ours[i], strlen(ours[i])) == 0)
            return name + strlen(ours[i]);
    return name;
}

static const char *attribute_name(MlirReader *r, const char *op, const char *item)
{
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (strcmp(renamed[i].item, item) == 0 && strcmp(renamed[i].op, op) == 0)
            return intern_string(r->intern, renamed[i].attribute);
    return item;
}

static void entry(MlirReader *r, const char *name, const MlirAttr *value)
{
    read_entry(r, intern_string(r->intern, name), value);
}

static const MlirAttr *int_attr(MlirReader *r, Span at, int64_t value)
{
    MlirAttr *a = ARENA_NEW(r->arena, MlirAttr);
    *a = (MlirAttr){.kind = MLIR_INT, .span = at, .i = value};
    return a;
}

static void wrong_item(MlirReader *r, const MlirItem *item, const char *wanted)
{
    diag_error(r->diag, item->value->span, "expects %s", wanted);
}

/* -- operations whose items are more than attributes ---------------------------------------- */

/* [0:4, 2:8:2] */
static void slice_ranges(MlirReader *r, const MlirItem *item)
{
    static const char *const names[] = {"start_indices", "limit_indices", "strides"};
    const MlirAttr *list = item->value;
    bool right = list->kind == MLIR_LIST;
    for (uint32_t i = 0; right && i < list->list.count; i++)
        right = list->list.items[i]->kind == MLIR_LIST;
    if (!right) {
        wrong_item(r, item, "[start:limit:stride, ...]");
        return;
    }
    for (uint32_t part = 0; part < 3; part++) {
        for (uint32_t i = 0; i < list->list.count; i++) {
            const MlirAttr *range = list->list.items[i];
            STACK_PUSH(r, r->attrs,
                       part < range->list.count ? range->list.items[part]
                                                : int_attr(r, range->span, 1));
        }
        entry(r, names[part], read_list(r, list->span, list->list.count));
    }
}

/* contracting_dims = [1] x [0] */
static void dot_dims(MlirReader *r, const MlirItem *item)
{
    bool batch = strcmp(item->name, "batching_dims") == 0;
    const MlirAttr *lists = item->value;
    if (lists->kind != MLIR_LIST || lists->list.count != 2 ||
        lists->list.items[0]->kind != MLIR_LIST) {
        wrong_item(r, item, "[...] x [...]");
        return;
    }
    entry(r, batch ? "lhs_batching_dimensions" : "lhs_contracting_dimensions",
          lists->list.items[0]);
    entry(r, batch ? "rhs_batching_dimensions" : "rhs_contracting_dimensions",
          lists->list.items[1]);
}

/* {stride = [1, 1], pad = [[0, 0], [1, 1]], lhs_dilate = ..., rhs_dilate = ..., reverse = [false, true]} */
static void convolution_window(MlirReader *r, const MlirItem *item)
{
    static const struct {
        const char *item, *attribute;
    } parts[] = {{"stride", "window_strides"},
                 {"pad", "padding"},
                 {"lhs_dilate", "lhs_dilation"},
                 {"rhs_dilate", "rhs_dilation"},
                 {"reverse", "window_reversal"}};
    if (item->value->kind != MLIR_DICT) {
        wrong_item(r, item, "{stride = ..., pad = ..., ...}");
        return;
    }
    const MlirDict *dict = &item->value->dict;
    for (uint32_t i = 0; i < dict->count; i++) {
        size_t k = 0, count = sizeof parts / sizeof *parts;
        while (k < count && (dict->entries[i].name == NULL ||
                             strcmp(parts[k].item, dict->entries[i].name) != 0))
            k++;
        if (k == count)
            diag_error(r->diag, dict->entries[i].value->span,
                       "a window has stride, pad, lhs_dilate, rhs_dilate, reverse");
        else
            entry(r, parts[k].attribute, dict->entries[i].value);
    }
}

/* e5m10 */
static void precision_format(MlirReader *r, const MlirItem *item)
{
    const MlirAttr *a = item->value;
    const char *s = a->kind == MLIR_WORD ? a->text.data : "", *m = strchr(s, 'm');
    if (*s != 'e' || m == NULL || m - s > 4 || strlen(m) > 4 ||
        strspn(s + 1, "0123456789") != (size_t)(m - s - 1) || m - s < 2 ||
        strspn(m + 1, "0123456789") != strlen(m + 1) || m[1] == '\0') {
        wrong_item(r, item, "eEXPONENT_BITSmMANTISSA_BITS");
        return;
    }
    entry(r, "exponent_bits", int_attr(r, a->span, atoi(s + 1)));
    entry(r, "mantissa_bits", int_attr(r, a->span, atoi(m + 1)));
}

/* %t[1] */
static void element_index(MlirReader *r, const MlirItem *item)
{
    const MlirAttr *list = item->value;
    if (list->kind == MLIR_LIST && list->list.count == 1)
        entry(r, "index", list->list.items[0]);
    else
        wrong_item(r, item, "[index]");
}

static MlirOp *region_op(MlirReader *r, const char *name, Span at, MlirValue *operands,
                         uint32_t count)
{
    MlirOp *op = ARENA_NEW(r->arena, MlirOp);
    op->name = name;
    op->span = at;
    op->operand_count = count;
    op->operands = ARENA_ARRAY(r->arena, MlirValue *, count + 1u);
    for (uint32_t i = 0; i < count; i++)
        op->operands[i] = &operands[i];
    return op;
}

/* `applies stablehlo.add`: the region that adds two scalars of the first init value's type. */
static void applied_region(MlirReader *r, const MlirItem *item)
{
    const MlirForm *form = form_top(r);
    Span at = item->value->span;
    if (r->inits.count != form->init_mark + 1) {
        diag_error(r->diag, at,
                   "only a reduction of one array can be written with 'applies'");
        return;
    }
    const MlirType *type = r->inits.data[form->init_mark]->type;
    MlirRegion *region = ARENA_NEW(r->arena, MlirRegion);
    region->argument_count = 2;
    region->arguments = ARENA_ARRAY(r->arena, MlirValue, 3);
    for (uint32_t i = 0; i < 2; i++)
        region->arguments[i] =
            (MlirValue){.type = type, .region = region, .index = i, .uses = 1};
    MlirOp *op = region_op(r, item->value->text.data, at, region->arguments, 2);
    op->result_count = 1;
    op->results = ARENA_NEW(r->arena, MlirValue);
    *op->results = (MlirValue){.type = type, .region = region, .op = op, .uses = 1};
    region->op_count = 2;
    region->ops = ARENA_ARRAY(r->arena, MlirOp *, 2);
    region->ops[0] = op;
    region->ops[1] = region_op(r, "stablehlo.return", at, op->results, 1);
    region->span = at;
    STACK_PUSH(r, r->regions, region);
}

static const struct {
    const char *op, *item; /* NULL: an item without a name */
    void (*take)(MlirReader *r, const MlirItem *item);
} special[] = {{"slice", NULL, slice_ranges},
               {"dot_general", "batching_dims", dot_dims},
               {"dot_general", "contracting_dims", dot_dims},
               {"convolution", "window", convolution_window},
               {"dynamic_conv", "window", convolution_window},
               {"reduce_precision", "format", precision_format},
               {"get_tuple_element", NULL, element_index},
               {"reduce", "applies", applied_region}};

static bool take_special(MlirReader *r, const char *op, const MlirItem *item)
{
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        bool named = special[i].item != NULL;
        if (named != (item->name != NULL) ||
            (named && strcmp(special[i].item, item->name) != 0) ||
            strcmp(special[i].op, op) != 0)
            continue;
        special[i].take(r, item);
        return true;
    }
    return false;
}

/* -- types and the whole ------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *ending)
{
    size_t length = strlen(name), wanted = strlen(ending);
    return length >= wanted && strcmp(name + length - wanted, ending) == 0;
}

/* One type is that of all operands and the result but where the operands' follow from the result's. */
static bool has_one_type(const char *name)
{
    static const char *const others[] = {"complex", "tuple", "after_all"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], name) == 0)
            return false;
    return true;
}

/* Types without an arrow: those of all results, or the last one is the result's. */
static void find_types(MlirReader *r, const char *name)
{
    MlirForm *form = form_top(r);
    if (form->has_arrow || !form->has_types)
        return;
    if (ends_with(name, "return") || ends_with(name, "sharding_group")) {
        form->has_arrow = true;
        form->input_count = form->type_count;
        form->type_count = 0;
    } else if (strcmp(name, "while") == 0 || strcmp(name, "optimization_barrier") == 0) {
        form->has_arrow = true; /* as many operands of the same types */
        form->input_count = form->type_count;
        for (uint32_t i = 0; i < form->input_count; i++)
            STACK_PUSH(r, r->types, r->types.data[form->type_mark + i]);
    } else if (strcmp(name, "select") == 0 && form->type_count == 2) {
        STACK_PUSH(r, r->types, r->types.data[form->type_mark + 1]);
        STACK_PUSH(r, r->types, r->types.data[form->type_mark + 1]);
        form->has_arrow = true;
        form->input_count = 3;
        form->type_count = 1;
    } else if (form->type_count == 1 && has_one_type(name)) {
        form->has_arrow = true;
        form->input_count = (uint32_t)(r->operands.count - form->operand_mark);
        for (uint32_t i = 0; i < form->input_count; i++)
            STACK_PUSH(r, r->types, r->types.data[form->type_mark]);
    } else if (form->type_count != 1) {
        op_error(r, form->name, "expects one type, or (operands) -> results");
    }
}

static const MlirAttr *typed(MlirReader *r, const MlirAttr *value)
{
    const MlirForm *form = form_top(r);
    if (value->kind != MLIR_DENSE || value->type != NULL || value->text.data[0] == 'a' ||
        form->type_count == 0)
        return value;
    MlirAttr *a = arena_copy(r->arena, value, sizeof *value);
    a->type = r->types.data[form->type_mark + form->input_count];
    return a;
}

void pretty_finish(MlirReader *r)
{
    MlirForm *form = form_top(r);
    const char *name = plain_name(read_name(r, form->name));
    find_types(r, name);
    for (size_t i = form->init_mark; i < r->inits.count; i++)
        STACK_PUSH(r, r->operands, r->inits.data[i]);
    size_t position = 0;
    for (size_t i = form->item_mark; i < r->items.count; i++) {
        MlirItem item = r->items.data[i];
        if (take_special(r, name, &item))
            continue;
        const char *key =
            item.name != NULL ? item.name : arena_printf(r->scratch, "%zu", position++);
        const char *attribute = attribute_name(r, name, key);
        if (item.name == NULL && attribute == key)
            op_error(r, item.value->span, "unexpected in the pretty form of %s", name);
        else
            read_entry(r, attribute, typed(r, item.value));
    }
}
