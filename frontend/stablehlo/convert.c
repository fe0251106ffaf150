/* The rows of ops.def, and what they do with an operation. */
#include "frontend/stablehlo/convert.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/stablehlo/functions.h"
#include "ir/dtype.h"

enum { ANY = -1 };

#define NONE
#define INT(name, id) {FORM_INT, name, ATTR_##id, NULL, false},
#define BOOL(name, id) {FORM_BOOL, name, ATTR_##id, NULL, false},
#define FLOAT(name, id) {FORM_FLOAT, name, ATTR_##id, NULL, false},
#define INTS(name, id) {FORM_INTS, name, ATTR_##id, NULL, false},
#define DIMS(name, id) {FORM_DIMS, name, ATTR_##id, NULL, false},
#define WORD(name, id) {FORM_ENUM, name, ATTR_##id, "", false},
#define ENUM(name, id, prefix) {FORM_ENUM, name, ATTR_##id, prefix, true},
#define ROW(name, op, function, operands, results, regions, attributes)                  \
    {name,                                                                               \
     OP_##op,                                                                            \
     convert_##function,                                                                 \
     operands,                                                                           \
     results,                                                                            \
     regions,                                                                            \
     (const AttrRow[]){attributes{FORM_END, NULL, ATTR_COUNT, NULL, false}}},
static const OpRow rows[] = {
#include "frontend/stablehlo/ops.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

/* -- messages ------------------------------------------------------------------------------ */

/* Bytecode has no text to point at: the user's own source then says where. */
static const char *location_of(Converter *c)
{
    if (c->op == NULL || c->file->is_text)
        return "";
    const Metadata *m = metadata_of(c, c->op);
    if (m == NULL || m->source_file.length == 0)
        return arena_printf(c->scratch, " (in %s)", c->op->name);
    return arena_printf(c->scratch, " (in %s of %s:%lld)", c->op->name,
                        m->source_file.data, (long long)m->source_line);
}

/* Of text there is always one: of nothing in particular, the beginning. */
static Span span_of(const Converter *c)
{
    const MlirRegion *top = c->file->top;
    const MlirOp *op = c->op != NULL ? c->op : top->op_count != 0 ? top->ops[0] : NULL;
    if (!c->file->is_text)
        return (Span){0, 0};
    return op != NULL ? op->span : (Span){0, 1};
}

void *convert_error(Converter *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = arena_vprintf(c->scratch, format, args);
    va_end(args);
    diag_error(c->diag, span_of(c), "%s%s", text, location_of(c));
    return NULL;
}

void *convert_unsupported(Converter *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = arena_vprintf(c->scratch, format, args);
    va_end(args);
    diag_unsupported(c->diag, span_of(c), "%s%s", text, location_of(c));
    return NULL;
}

/* -- rows ---------------------------------------------------------------------------------- */

static int row_order(const void *key, const void *row)
{
    return strcmp(key, ((const OpRow *)row)->name);
}

static const OpRow *find_row(const char *name)
{
    return bsearch(name, rows, ROWS, sizeof *rows, row_order);
}

const OpRow *op_row(const char *name)
{
    if (strncmp(name, "stablehlo.", 10) == 0) {
        const OpRow *row = find_row(name + 10);
        if (row != NULL || strlen(name) > 100)
            return row;
        char mhlo[128] = "mhlo.";
        return find_row(strcat(mhlo, name + 10));
    }
    const OpRow *row = find_row(name);
    if (row == NULL && strncmp(name, "mhlo.", 5) == 0)
        row = find_row(name + 5);
    if (row == NULL && strcmp(name, "call") == 0)
        row = find_row("func.call");
    return row != NULL && (strchr(name, '.') != NULL || strcmp(name, "call") == 0) ? row
                                                                                   : NULL;
}

static bool has_number(Converter *c, const char *what, uint32_t is, int wanted)
{
    if (wanted == ANY || is == (uint32_t)wanted)
        return true;
    convert_error(c, "%s has %d %s%s, but here are %u", c->op->name, wanted, what,
                  wanted == 1 ? "" : "s", is);
    return false;
}

static bool has_types(Converter *c, const MlirOp *op)
{
    for (uint32_t i = 0; i < op->result_count; i++) {
        const MlirType *type = op->results[i].type;
        if (type->shape != NULL && type->kind != MLIR_ELEMENT)
            continue;
        convert_unsupported(c, "a result of type %s", mlir_type_text(c->scratch, type));
        return false;
    }
    return true;
}

/* Whether its function reads sizes of operands and results: they are arrays. Of the others the rules of HLO say it. */
static bool is_of_arrays(const OpRow *row)
{
    static ConvertFn *const functions[] = {
        convert_broadcast,          convert_broadcast_in_dim,
        convert_dequantize,         convert_dot,
        convert_dot_general,        convert_dynamic_broadcast_in_dim,
        convert_dynamic_conv,       convert_dynamic_gather,
        convert_dynamic_iota,       convert_dynamic_pad,
        convert_dynamic_reshape,    convert_einsum,
        convert_get_dimension_size, convert_quantize,
        convert_real_dynamic_slice, convert_rng,
        convert_torch_index_select, convert_unary_einsum};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (row->convert == functions[i])
            return true;
    return strncmp(row->name, "chlo.", 5) == 0;
}

static bool has_arrays(Converter *c, const MlirOp *op, const OpRow *row)
{
    const MlirType *other = NULL;
    if (!is_of_arrays(row))
        return true;
    for (uint32_t i = 0; i < op->operand_count; i++)
        if (!shape_is_array(operand_of(op, i)->shape))
            other = op->operands[i]->type;
    for (uint32_t i = 0; i < op->result_count; i++)
        if (!shape_is_array(result_shape(op, i)))
            other = op->results[i].type;
    if (other == NULL)
        return true;
    convert_error(c, "%s takes and gives arrays, not %s", op->name,
                  mlir_type_text(c->scratch, other));
    return false;
}

/* What means nothing to a program of one device and is left out. */
static bool is_empty(const MlirOp *op)
{
    return op->result_count == 0 && strcmp(op->name, "sdy.sharding_group") == 0;
}

/* What was made is what the types of the results say, where they say all. The values of a manual computation are
 * parts of what its types say. */
static void check_results(Converter *c, const MlirOp *op, const OpRow *row)
{
    for (uint32_t i = 0; i < op->result_count; i++) {
        const Instruction *inst = op->results[i].inst;
        const Shape *said = result_shape(op, i);
        if (inst == NULL || inst->shape == NULL || row->convert == convert_sdy_manual ||
            shape_is_dynamic(said) || shape_is_dynamic(inst->shape) ||
            shape_compatible(inst->shape, said))
            continue;
        convert_error(c, "%s gives %s, but its type says %s", op->name,
                      shape_text(c->scratch, inst->shape, false),
                      mlir_type_text(c->scratch, op->results[i].type));
        op->results[i].inst = NULL;
    }
}

void convert_op(Converter *c, const MlirOp *op)
{
    const MlirOp *outer = c->op;
    c->op = op;
    const OpRow *row = op_row(op->name);
    for (uint32_t i = 0; i < op->result_count; i++)
        op->results[i].inst = NULL; /* of another call in place, perhaps */
    if (row == NULL) {
        convert_unsupported(c, "the operation %s", op->name);
    } else if (has_number(c, "operand", op->operand_count, row->operands) &&
               has_number(c, "result", op->result_count, row->results) &&
               has_number(c, "region", op->region_count, row->regions) &&
               has_types(c, op) && operands_are_made(op) && has_arrays(c, op, row) &&
               !is_empty(op)) {
        if (is_quantized(op) && quantized_needs_floats(row))
            convert_by_floats(c, op, row);
        else
            row->convert(c, op, row);
        check_results(c, op, row);
    }
    c->op = outer;
}

void convert_ops(Converter *c, const MlirRegion *region)
{
    for (uint32_t i = 0; i + 1 < region->op_count; i++)
        convert_op(c, region->ops[i]);
}

/* -- attributes of rows -------------------------------------------------------------------- */

static bool set_enum(Converter *c, const MlirAttr *a, const AttrRow *row,
                     Instruction *inst)
{
    const char *word = ask_word(c, a);
    char text[64];
    size_t length = word != NULL ? strlen(word) : 0, prefix = strlen(row->prefix);
    int64_t value;
    if (row->id == ATTR_TYPE && word != NULL && strcmp(word, "NOTYPE") == 0)
        return true;
    if (length != 0 && length + prefix < sizeof text) {
        memcpy(text, row->prefix, prefix);
        for (size_t i = 0; i <= length; i++)
            text[prefix + i] = row->lower && word[i] >= 'A' && word[i] <= 'Z'
                                   ? (char)(word[i] - 'A' + 'a')
                                   : word[i];
        if (attr_enum_find(row->id, text, prefix + length, &value)) {
            inst_set_int(inst, row->id, value);
            return true;
        }
    }
    convert_error(c, "%s of %s has no value %s", row->name, c->op->name,
                  word != NULL ? word : "of this form");
    return false;
}

static bool set_attr(Converter *c, const MlirAttr *a, const AttrRow *row,
                     Instruction *inst)
{
    int64_t value = 0;
    Ints ints;
    switch (row->form) {
    case FORM_INT:
        if (!ask_int(c, a, &value))
            return false;
        inst_set_int(inst, row->id, value);
        return true;
    case FORM_DIMS:
        if (!ask_int(c, a, &value))
            return false;
        inst_set_ints(inst, row->id, &value, 1);
        return true;
    case FORM_BOOL:
        inst_set_int(inst, row->id,
                     a->kind == MLIR_UNIT || (a->kind == MLIR_BOOL && a->i != 0));
        return true;
    case FORM_FLOAT:
        if (a->kind != MLIR_FLOAT)
            return convert_error(c, "%s of %s is no number", row->name, c->op->name) !=
                   NULL;
        inst_set(inst, (Attr){.id = row->id, .f = (double)(float)a->f}); /* all are f32 */
        return true;
    case FORM_INTS:
        if (!ask_ints(c, a, &ints))
            return false;
        inst_set_ints(inst, row->id, ints.data, ints.count);
        return true;
    case FORM_ENUM:
        return set_enum(c, a, row, inst);
    case FORM_END:
        break;
    }
    return false;
}

bool set_row_attrs(Converter *c, const MlirOp *op, const OpRow *row, Instruction *inst)
{
    for (const AttrRow *a = row->attrs; a->form != FORM_END; a++) {
        const MlirAttr *value = ask(c, op, NULL, a->name);
        if (value != NULL && !set_attr(c, value, a, inst))
            return false;
    }
    return true;
}

/* #stablehlo.result_accuracy<atol = 1.0e-5, rtol = 0.0, ulps = 1, mode = TOLERANCE> */
static void set_accuracy(Converter *c, const MlirOp *op, Instruction *inst)
{
    const MlirAttr *a = ask(c, op, NULL, "result_accuracy");
    const char *mode = a != NULL ? ask_word(c, field(c, a, "mode")) : NULL;
    if (mode == NULL || strcmp(mode, "DEFAULT") == 0 || !op_is(inst->op, OPF_ACCURACY))
        return;
    Accuracy *accuracy = ARENA_NEW(c->arena, Accuracy);
    accuracy->highest = strcmp(mode, "HIGHEST") == 0;
    accuracy->tolerance = !accuracy->highest;
    const MlirAttr *atol = field(c, a, "atol"), *rtol = field(c, a, "rtol");
    if (accuracy->tolerance) {
        accuracy->atol = atol != NULL && atol->kind == MLIR_FLOAT ? atol->f : 0;
        accuracy->rtol = rtol != NULL && rtol->kind == MLIR_FLOAT ? rtol->f : 0;
        ask_int(c, field(c, a, "ulps"), &accuracy->ulps);
        if (accuracy->atol < 0 || accuracy->rtol < 0 || accuracy->ulps < 0) {
            convert_error(c, "a tolerance of %s is not negative", op->name);
            return;
        }
    }
    inst_set(inst, (Attr){.id = ATTR_RESULT_ACCURACY, .accuracy = accuracy});
}

/* An operation that is an opcode: the same operands, the same result. */
void convert_plain(Converter *c, const MlirOp *op, const OpRow *row)
{
    Instruction **operands =
        ARENA_ARRAY(c->scratch, Instruction *, op->operand_count + 1u);
    for (uint32_t i = 0; i < op->operand_count; i++)
        operands[i] = operand_of(op, i);
    const Shape *shape = results_shape(c, op);
    Instruction *inst = make(c, row->op, shape, op->operand_count, operands);
    if (inst == NULL || !set_row_attrs(c, op, row, inst))
        return;
    set_accuracy(c, op, inst);
    bind_elements(c, op, make_finish(c, inst));
}

/* Its result is its operand. */
void convert_same(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)c;
    (void)row;
    if (op->result_count != 0) /* sdy.sharding_group has none */
        op->results[0].inst = operand_of(op, 0);
}
