/* Actions of the grammar of MLIR's text, second half: operations and their regions. */
#include <stdarg.h>
#include <string.h>

#include "frontend/stablehlo/convert.h"
#include "frontend/stablehlo/reader.h"
#include "ir/base/text.h"

#include "frontend/stablehlo/mlir.tab.h"

MlirForm *form_top(MlirReader *r)
{
    return &r->forms.data[r->forms.count - 1];
}

static MlirScope *scope_last(MlirReader *r)
{
    return &r->scopes.data[r->scopes.count - 1];
}

/* -- parts of an operation ----------------------------------------------------------------- */

void op_begin(MlirReader *r)
{
    MlirForm form = {.operand_mark = r->operands.count,
                     .init_mark = r->inits.count,
                     .item_mark = r->items.count,
                     .entry_mark = r->entries.count,
                     .region_mark = r->regions.count,
                     .argument_mark = r->arguments.count,
                     .result_mark = r->results.count,
                     .type_mark = r->types.count,
                     .function_mark = r->function_attrs.count};
    STACK_PUSH(r, r->forms, form);
}

void op_name(MlirReader *r, Span name)
{
    form_top(r)->name = name;
}

void op_pretty(MlirReader *r, Span name)
{
    op_name(r, name);
    form_top(r)->is_pretty = true;
}

void op_error(MlirReader *r, Span at, const char *format, ...)
{
    for (size_t i = 0; i < r->forms.count && !r->is_refused; i++) {
        const MlirForm *form = &r->forms.data[i];
        const char *name = form->is_pretty ? read_name(r, form->name) : NULL;
        r->is_refused = name != NULL && op_row(name) == NULL;
        if (r->is_refused)
            diag_unsupported(r->diag, form->name, "the operation %s", name);
    }
    if (r->is_refused)
        return;
    va_list args;
    va_start(args, format);
    diag_error(r->diag, at, "%s", arena_vprintf(r->scratch, format, args));
    va_end(args);
}

void op_item(MlirReader *r, const char *name, const MlirAttr *value)
{
    STACK_PUSH(r, r->items, ((MlirItem){name, value}));
}

void op_operand(MlirReader *r, Span at)
{
    MlirValue *value = read_value(r, at);
    STACK_PUSH(r, r->operands, value);
}

void op_separated(MlirReader *r, Span at)
{
    if (form_top(r)->after_value)
        op_error(r, at, "expects ',' before this");
}

void op_result(MlirReader *r, Span name, Span count)
{
    MlirResult result = {name, 1};
    if (count.end != count.begin) {
        int64_t n = read_integer(r, count, NULL)->i;
        if (n < 1 || n > 1 << 20) {
            diag_error(r->diag, count, "%lld results: an operation has 1 to %d",
                       (long long)n, 1 << 20);
            n = 1;
        }
        result.count = (uint32_t)n;
    }
    STACK_PUSH(r, r->results, result);
}

void op_argument(MlirReader *r, Span name, const MlirType *type, const MlirAttr *location)
{
    STACK_PUSH(r, r->arguments, ((MlirArgument){name, type, location}));
}

/* %x = %init: an operand, and an argument of the regions. */
void op_loop_argument(MlirReader *r, Span name)
{
    op_argument(r, name, r->operands.data[r->operands.count - 1]->type, NULL);
}

static size_t operands_so_far(MlirReader *r)
{
    return r->operands.count - form_top(r)->operand_mark;
}

void op_scanned(MlirReader *r)
{
    form_top(r)->scanned = operands_so_far(r);
}

/* (%inputs) inits (%inits): the generic form says how many of both. */
void op_scan_inits(MlirReader *r, Span word)
{
    const size_t counts[] = {form_top(r)->scanned,
                             operands_so_far(r) - form_top(r)->scanned};
    if (strcmp(read_name(r, word), "inits") != 0)
        op_error(r, word, "expects inits");
    for (size_t i = 0; i < 2; i++) {
        MlirAttr *a = ARENA_NEW(r->arena, MlirAttr);
        *a = (MlirAttr){.kind = MLIR_INT, .span = word, .i = (int64_t)counts[i]};
        STACK_PUSH(r, r->attrs, a);
    }
    op_item(r, "operandSegmentSizes", read_list(r, word, 2));
}

/* The types lie on the stack: operands', then results', or a function type alone. */
void op_types(MlirReader *r, size_t inputs, size_t results, bool has_arrow)
{
    MlirForm *form = form_top(r);
    form->has_types = true;
    form->has_arrow = has_arrow;
    form->input_count = (uint32_t)inputs;
    form->type_count = (uint32_t)results;
    const MlirType *const *types = r->types.data + r->types.count - (inputs + results);
    if (inputs + results != 1 || types[0]->kind != MLIR_FUNCTION)
        return;
    const MlirType *function = types[0];
    r->types.count--;
    for (uint32_t i = 0; i < function->input_count; i++)
        STACK_PUSH(r, r->types, function->inputs[i]);
    for (uint32_t i = 0; i < function->result_count; i++)
        STACK_PUSH(r, r->types, function->results[i]);
    form->has_arrow = true;
    form->input_count = function->input_count;
    form->type_count = function->result_count;
}

void op_attributes(MlirReader *r, const MlirAttr *dict)
{
    for (uint32_t i = 0; i < dict->dict.count; i++)
        STACK_PUSH(r, r->entries, dict->dict.entries[i]);
}

void op_argument_attrs(MlirReader *r, const MlirAttr *dict)
{
    STACK_PUSH(r, r->function_attrs, dict);
}

static void add_dicts(MlirReader *r, const char *name, size_t first, size_t count)
{
    bool any = false;
    for (size_t i = first; i < first + count; i++) {
        const MlirAttr *dict = r->function_attrs.data[i];
        any |= dict != NULL;
        STACK_PUSH(r, r->attrs, dict != NULL ? dict : read_dict(r, (Span){0, 0}, 0));
    }
    const MlirAttr *list = read_list(r, (Span){0, 0}, count);
    if (any)
        op_item(r, name, list);
}

void op_function_type(MlirReader *r, size_t arguments, size_t results)
{
    MlirForm *form = form_top(r);
    const MlirType *type = read_function(r, arguments, results);
    op_item(r, "function_type", read_type_attr(r, form->name, type));
    add_dicts(r, "arg_attrs", form->function_mark, arguments);
    add_dicts(r, "res_attrs", form->function_mark + arguments, results);
    r->function_attrs.count = form_top(r)->function_mark;
}

/* -- regions ------------------------------------------------------------------------------- */

static void take_arguments(MlirReader *r, MlirRegion *region, size_t mark)
{
    size_t count = r->arguments.count - mark;
    region->argument_count = (uint32_t)count;
    region->arguments = ARENA_ARRAY(r->arena, MlirValue, count + 1);
    for (size_t i = 0; i < count; i++) {
        const MlirArgument *from = &r->arguments.data[mark + i];
        region->arguments[i] = (MlirValue){.type = from->type,
                                           .location = from->location,
                                           .region = region,
                                           .index = (uint32_t)i};
        read_define(r, from->name, &region->arguments[i], 1);
    }
}

/* (%a, %b) (%c, %d): the left ones come first. */
static void order_pairs(MlirReader *r, size_t mark)
{
    size_t half = (r->arguments.count - mark) / 2;
    MlirArgument *from = r->arguments.data + mark;
    MlirArgument *copy = arena_copy(r->scratch, from, 2 * half * sizeof *from);
    for (size_t i = 0; i < half; i++) {
        from[i] = copy[2 * i];
        from[half + i] = copy[2 * i + 1];
    }
}

void region_begin(MlirReader *r, Span at, RegionArguments arguments)
{
    MlirRegion *region = ARENA_NEW(r->arena, MlirRegion);
    region->span = at;
    MlirScope scope = {.hidden_mark = r->hidden.count,
                       .op_mark = r->ops.count,
                       .argument_mark = r->arguments.count,
                       .region = region};
    STACK_PUSH(r, r->scopes, scope);
    if (arguments == REGION_LABELLED)
        return;
    size_t mark = form_top(r)->argument_mark;
    if (arguments == REGION_PAIRS)
        order_pairs(r, mark);
    take_arguments(r, region, mark);
}

void region_block(MlirReader *r, Span label)
{
    MlirScope *scope = scope_last(r);
    if (scope->block_count++ != 0 || r->ops.count != scope->op_mark) {
        diag_unsupported(r->diag, label, "regions of several blocks");
        r->arguments.count = scope->argument_mark;
        return;
    }
    take_arguments(r, scope->region, scope->argument_mark);
    r->arguments.count = scope->argument_mark;
}

void region_end(MlirReader *r)
{
    MlirScope *scope = scope_last(r);
    MlirRegion *region = scope->region;
    size_t count = r->ops.count - scope->op_mark;
    region->op_count = (uint32_t)count;
    region->ops =
        arena_copy(r->arena, r->ops.data + scope->op_mark, count * sizeof(MlirOp *));
    r->ops.count = scope->op_mark;
    read_forget(r, scope->hidden_mark);
    r->scopes.count--;
    STACK_PUSH(r, r->regions, region);
}

/* -- the whole operation ------------------------------------------------------------------- */

static const MlirType *top_types(const MlirReader *r, const MlirForm *form, uint32_t i)
{
    return r->types.data[form->type_mark + i];
}

static void check_operands(MlirReader *r, const MlirForm *form, const MlirOp *op)
{
    if (op->operand_count != form->input_count) {
        op_error(r, op->span, "%s has %u operands, but %u types of operands", op->name,
                 op->operand_count, form->input_count);
        return;
    }
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const MlirType *said = top_types(r, form, i), *is = op->operands[i]->type;
        if (mlir_type_equal(said, is) || op->operands[i]->region == NULL)
            continue;
        op_error(r, op->span, "operand %u of %s is %s, but was defined as %s", i,
                 op->name, mlir_type_text(r->scratch, said),
                 mlir_type_text(r->scratch, is));
    }
}

static void take_results(MlirReader *r, MlirForm *form, MlirOp *op)
{
    op->results = ARENA_ARRAY(r->arena, MlirValue, op->result_count + 1u);
    for (uint32_t i = 0; i < op->result_count; i++)
        op->results[i] = (MlirValue){
            .type = top_types(r, form, form->input_count + i),
            .region = r->scopes.count != 0 ? scope_last(r)->region : r->file->top,
            .op = op,
            .index = i};
    uint32_t named = 0;
    for (size_t i = form->result_mark; i < r->results.count; i++) {
        const MlirResult *result = &r->results.data[i];
        if (named + result->count > op->result_count) {
            op_error(r, result->name, "%s has %u results, but here are names for %u",
                     op->name, op->result_count, named + result->count);
            break;
        }
        read_define(r, result->name, &op->results[named], result->count);
        named += result->count;
    }
}

static void take_regions(MlirReader *r, const MlirForm *form, MlirOp *op)
{
    op->region_count = (uint32_t)(r->regions.count - form->region_mark);
    op->regions = arena_copy(r->arena, r->regions.data + form->region_mark,
                             op->region_count * sizeof(MlirRegion *));
}

static void take_attrs(MlirReader *r, const MlirForm *form, MlirOp *op)
{
    size_t count = r->entries.count - form->entry_mark;
    op->attrs.count = (uint32_t)count;
    op->attrs.entries = arena_copy(r->arena, r->entries.data + form->entry_mark,
                                   count * sizeof(MlirEntry));
    for (size_t i = 0; i < count; i++)
        if (op->attrs.entries[i].name == NULL)
            diag_error(r->diag, op->attrs.entries[i].value->span,
                       "an attribute of an operation has a name");
}

static void op_end(MlirReader *r, const MlirAttr *location)
{
    MlirForm *form = form_top(r);
    MlirOp *op = ARENA_NEW(r->arena, MlirOp);
    op->name = read_name(r, form->name);
    op->span = form->name;
    op->location = location;
    op->operand_count = (uint32_t)(r->operands.count - form->operand_mark);
    op->operands = arena_copy(r->arena, r->operands.data + form->operand_mark,
                              op->operand_count * sizeof(MlirValue *));
    op->result_count = form->type_count;
    if (form->has_arrow)
        check_operands(r, form, op);
    take_regions(r, form, op);
    take_attrs(r, form, op);
    take_results(r, form, op);
    r->operands.count = form->operand_mark;
    r->inits.count = form->init_mark;
    r->items.count = form->item_mark;
    r->entries.count = form->entry_mark;
    r->regions.count = form->region_mark;
    r->arguments.count = form->argument_mark;
    r->results.count = form->result_mark;
    r->types.count = form->type_mark;
    r->forms.count--;
    STACK_PUSH(r, r->ops, op);
}

void op_end_generic(MlirReader *r, const MlirAttr *location)
{
    op_end(r, location);
}

void op_end_pretty(MlirReader *r, const MlirAttr *location)
{
    pretty_finish(r);
    op_end(r, location);
}

/* -- the file ------------------------------------------------------------------------------ */

static void file_finish(MlirReader *r)
{
    MlirFile *file = r->file;
    file->top->op_count = (uint32_t)r->ops.count;
    file->top->ops = STACK_KEEP(r, r->ops);
    mlir_set_aliases(file, r->aliases.count, r->aliases.data);
    file->resource_count = (uint32_t)r->resources.count;
    file->resources = STACK_KEEP(r, r->resources);
}

static MlirReader *reader_open(Arena *a, Arena *scratch, Intern *t, Diag *d)
{
    MlirReader *r = ARENA_NEW(scratch, MlirReader);
    *r = (MlirReader){.arena = a,
                      .scratch = scratch,
                      .intern = t,
                      .diag = d,
                      .text = d->text,
                      .length = d->length};
    r->file = ARENA_NEW(a, MlirFile);
    *r->file = (MlirFile){.arena = a, .intern = t, .diag = d, .is_text = true};
    r->file->top = ARENA_NEW(a, MlirRegion);
    STACK_OPEN(r, r->types);
    STACK_OPEN(r, r->operands);
    STACK_OPEN(r, r->entries);
    STACK_OPEN(r, r->items);
    STACK_OPEN(r, r->regions);
    STACK_OPEN(r, r->attrs);
    STACK_OPEN(r, r->ops);
    STACK_OPEN(r, r->aliases);
    STACK_OPEN(r, r->arguments);
    STACK_OPEN(r, r->resources);
    STACK_OPEN(r, r->type_aliases);
    STACK_OPEN(r, r->inits);
    STACK_OPEN(r, r->function_attrs);
    mlir_lexer_open(r);
    return r;
}

MlirFile *mlir_read_text(Arena *a, Intern *t, Diag *d)
{
    Arena *scratch = arena_scratch();
    size_t errors = d->error_count;
    MlirReader *r = reader_open(a, scratch, t, d);
    mlir_parse(r);
    MlirFile *file = r->file;
    if (d->error_count == errors)
        file_finish(r);
    arena_destroy(scratch);
    return d->error_count == errors ? file : NULL;
}

const MlirAttr *mlir_read_attribute(Arena *a, Intern *t, Bytes text)
{
    Arena *scratch = arena_scratch();
    Text file; /* of any bytes, NULs too */
    text_init(&file, a);
    text_string(&file, "#a = ");
    text_add(&file, text.data, text.length);
    Diag *d = diag_create(scratch, "attribute", file.data, file.length);
    MlirReader *r = reader_open(a, scratch, t, d);
    mlir_parse(r);
    const MlirAttr *value =
        d->error_count == 0 && r->aliases.count == 1 ? r->aliases.data[0].value : NULL;
    arena_destroy(scratch);
    return value;
}
