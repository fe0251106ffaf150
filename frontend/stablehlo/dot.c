/* Products: dot, convolution, einsum, ragged_dot. */
#include <string.h>

#include "frontend/stablehlo/functions.h"
#include "ir/dtype.h"

/* -- precision ----------------------------------------------------------------------------- */

bool set_precision(Converter *c, const MlirOp *op, Instruction *inst)
{
    const MlirAttr *list = ask(c, op, NULL, "precision_config");
    if (list == NULL || list->kind != MLIR_LIST || list->list.count == 0)
        return true;
    int64_t *values = ARENA_ARRAY(c->arena, int64_t, list->list.count);
    for (uint32_t i = 0; i < list->list.count; i++) {
        const char *word = ask_word(c, list->list.items[i]);
        char lower[16] = "";
        for (size_t k = 0; word != NULL && word[k] != '\0' && k + 1 < sizeof lower; k++)
            lower[k] = (char)(word[k] | 0x20);
        if (!attr_enum_find(ATTR_OPERAND_PRECISION, lower, strlen(lower), &values[i]))
            return convert_error(c, "a precision is DEFAULT, HIGH or HIGHEST, not %s",
                                 word != NULL ? word : "this") != NULL;
    }
    inst_set_ints(inst, ATTR_OPERAND_PRECISION, values, list->list.count);
    return true;
}

/* What StableHLO says of an algorithm, as one word in HLO. */
static const struct {
    const char *lhs, *rhs, *accumulation;
    int64_t lhs_components, rhs_components, operations;
    bool imprecise;
    int64_t algorithm;
} algorithms[] = {
    {"f8", "f8", "f32", 1, 1, 1, false, ALGORITHM_ANY_F8_ANY_F8_F32},
    {"f8", "f8", "f32", 1, 1, 1, true, ALGORITHM_ANY_F8_ANY_F8_F32_FAST_ACCUM},
    {"f16", "f16", "f16", 1, 1, 1, false, ALGORITHM_F16_F16_F16},
    {"f16", "f16", "f32", 1, 1, 1, false, ALGORITHM_F16_F16_F32},
    {"bf16", "bf16", "bf16", 1, 1, 1, false, ALGORITHM_BF16_BF16_BF16},
    {"bf16", "bf16", "f32", 1, 1, 1, false, ALGORITHM_BF16_BF16_F32},
    {"bf16", "bf16", "f32", 1, 1, 3, false, ALGORITHM_BF16_BF16_F32_X3},
    {"bf16", "bf16", "f32", 1, 1, 6, false, ALGORITHM_BF16_BF16_F32_X6},
    {"bf16", "bf16", "f32", 1, 1, 9, false, ALGORITHM_BF16_BF16_F32_X9},
    {"bf16", "bf16", "f32", 2, 2, 3, false, ALGORITHM_BF16_BF16_F32_X3},
    {"bf16", "bf16", "f32", 3, 3, 6, false, ALGORITHM_BF16_BF16_F32_X6},
    {"bf16", "bf16", "f32", 3, 3, 9, false, ALGORITHM_BF16_BF16_F32_X9},
    {"tf32", "tf32", "f32", 1, 1, 1, false, ALGORITHM_TF32_TF32_F32},
    {"tf32", "tf32", "f32", 1, 1, 3, false, ALGORITHM_TF32_TF32_F32_X3},
    {"f32", "f32", "f32", 1, 1, 1, false, ALGORITHM_F32_F32_F32},
    {"f64", "f64", "f64", 1, 1, 1, false, ALGORITHM_F64_F64_F64}};

static bool is_type(const MlirAttr *a, const char *name)
{
    const char *text = a == NULL              ? ""
                       : a->kind == MLIR_WORD ? a->text.data
                       : a->kind == MLIR_TYPE && a->type->shape != NULL
                           ? dtype_name(a->type->shape->dtype)
                       : a->kind == MLIR_TYPE ? a->type->text
                                              : "";
    if (text == NULL)
        return false;
    if (strcmp(name, "f8") == 0)
        return strncmp(text, "f8", 2) == 0;
    return strcmp(text, name) == 0;
}

static bool set_algorithm(Converter *c, const MlirOp *op, Instruction *inst)
{
    const MlirAttr *group = ask(c, op, NULL, "algorithm");
    const MlirAttr *lhs = group != NULL ? field(c, group, "lhs_precision_type")
                                        : ask(c, op, NULL, "lhs_precision_type");
    if (lhs == NULL || lhs->kind == MLIR_UNIT || is_type(lhs, "none"))
        return true;
    const char *name = "algorithm";
    const MlirAttr *rhs = ask(c, op, name, "rhs_precision_type");
    const MlirAttr *sum = ask(c, op, name, "accumulation_type");
    int64_t lhs_components = 1, rhs_components = 1, operations = 1;
    ask_int(c, ask(c, op, name, "lhs_component_count"), &lhs_components);
    ask_int(c, ask(c, op, name, "rhs_component_count"), &rhs_components);
    ask_int(c, ask(c, op, name, "num_primitive_operations"), &operations);
    const MlirAttr *imprecise = ask(c, op, name, "allow_imprecise_accumulation");
    bool fast = imprecise != NULL && imprecise->kind == MLIR_BOOL && imprecise->i != 0;
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        if (!is_type(lhs, algorithms[i].lhs) || !is_type(rhs, algorithms[i].rhs) ||
            !is_type(sum, algorithms[i].accumulation) ||
            algorithms[i].lhs_components != lhs_components ||
            algorithms[i].rhs_components != rhs_components ||
            algorithms[i].operations != operations || algorithms[i].imprecise != fast)
            continue;
        inst_set_int(inst, ATTR_ALGORITHM, algorithms[i].algorithm);
        return true;
    }
    return convert_unsupported(c, "this algorithm of a dot") != NULL;
}

/* -- dot ----------------------------------------------------------------------------------- */

typedef struct DotDims {
    Ints lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
} DotDims;

static Instruction *make_dot(Converter *c, const MlirOp *op, const DotDims *dims,
                             const Shape *shape, Instruction *lhs, Instruction *rhs)
{
    Instruction *inst = make2(c, OP_DOT, shape, lhs, rhs);
    if (inst == NULL)
        return NULL;
    if (dims->lhs_batch.count != 0 || dims->rhs_batch.count != 0) {
        inst_set_ints(inst, ATTR_LHS_BATCH_DIMS, dims->lhs_batch.data,
                      dims->lhs_batch.count);
        inst_set_ints(inst, ATTR_RHS_BATCH_DIMS, dims->rhs_batch.data,
                      dims->rhs_batch.count);
    }
    inst_set_ints(inst, ATTR_LHS_CONTRACTING_DIMS, dims->lhs_contracting.data,
                  dims->lhs_contracting.count);
    inst_set_ints(inst, ATTR_RHS_CONTRACTING_DIMS, dims->rhs_contracting.data,
                  dims->rhs_contracting.count);
    return set_precision(c, op, inst) && set_algorithm(c, op, inst) ? make_finish(c, inst)
                                                                    : NULL;
}

void convert_dot(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Instruction *lhs = operand_of(op, 0), *rhs = operand_of(op, 1);
    if (!shape_is_array(lhs->shape) || !shape_is_array(rhs->shape) ||
        lhs->shape->rank == 0 || rhs->shape->rank == 0) {
        convert_error(c, "dot is of vectors and matrices");
        return;
    }
    int64_t last = lhs->shape->rank - 1, first = 0;
    DotDims dims = {.lhs_contracting = {&last, 1}, .rhs_contracting = {&first, 1}};
    bind(c, op, make_dot(c, op, &dims, result_shape(op, 0), lhs, rhs));
}

static bool ask_dot_dims(Converter *c, const MlirOp *op, const char *group, DotDims *out)
{
    return attr_ints(c, op, group, "lhs_batching_dimensions", &out->lhs_batch) &&
           attr_ints(c, op, group, "rhs_batching_dimensions", &out->rhs_batch) &&
           attr_ints(c, op, group, "lhs_contracting_dimensions", &out->lhs_contracting) &&
           attr_ints(c, op, group, "rhs_contracting_dimensions", &out->rhs_contracting);
}

void convert_dot_general(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    DotDims dims;
    if (ask_dot_dims(c, op, "dot_dimension_numbers", &dims))
        bind(c, op,
             make_dot(c, op, &dims, result_shape(op, 0), operand_of(op, 0),
                      operand_of(op, 1)));
}

void convert_ragged_dot(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    static const char group[] = "ragged_dot_dimension_numbers";
    MlirOp flat = *op;
    const MlirAttr *nested = field(c, ask(c, op, NULL, group), "dot_dimension_numbers");
    const MlirEntry entry = {group, nested};
    if (nested != NULL) /* MHLO's form */
        flat.attrs = (MlirDict){1, &entry};
    DotDims dims;
    Ints ragged, groups;
    if (!ask_dot_dims(c, &flat, group, &dims) ||
        !attr_ints(c, op, group, "lhs_ragged_dimensions", &ragged) ||
        !attr_ints(c, op, group, "rhs_group_dimensions", &groups))
        return;
    Instruction *operands[] = {operand_of(op, 0), operand_of(op, 1), operand_of(op, 2)};
    Instruction *inst = make(c, OP_RAGGED_DOT, result_shape(op, 0), 3, operands);
    const struct {
        AttrId id;
        Ints list;
    } lists[] = {{ATTR_LHS_BATCH_DIMS, dims.lhs_batch},
                 {ATTR_RHS_BATCH_DIMS, dims.rhs_batch},
                 {ATTR_LHS_CONTRACTING_DIMS, dims.lhs_contracting},
                 {ATTR_RHS_CONTRACTING_DIMS, dims.rhs_contracting},
                 {ATTR_LHS_RAGGED_DIMS, ragged},
                 {ATTR_RHS_GROUP_DIMS, groups}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i].list.count != 0)
            inst_set_ints(inst, lists[i].id, lists[i].list.data, lists[i].list.count);
    if (set_precision(c, op, inst))
        bind(c, op, make_finish(c, inst));
}

/* -- convolution --------------------------------------------------------------------------- */

/* A side of [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]: where the two named dimensions and each spatial one are. */
static bool read_side(const MlirAttr *list, char first, char second, int64_t *at_first,
                      int64_t *at_second, int64_t *spatial, uint32_t rank)
{
    *at_first = *at_second = -1;
    if (list->kind != MLIR_LIST || list->list.count != rank + 2)
        return false;
    for (uint32_t i = 0; i < rank; i++)
        spatial[i] = -1;
    for (uint32_t i = 0; i < list->list.count; i++) {
        const MlirAttr *a = list->list.items[i];
        bool word = a->kind == MLIR_WORD && a->text.length == 1;
        int64_t *slot = word && a->text.data[0] == first                  ? at_first
                        : word && a->text.data[0] == second               ? at_second
                        : a->kind == MLIR_INT && a->i >= 0 && a->i < rank ? &spatial[a->i]
                                                                          : NULL;
        if (slot == NULL || *slot >= 0)
            return false;
        *slot = i;
    }
    return true;
}

typedef struct Sides {
    uint32_t rank;
    int64_t first[3], second[3];
    int64_t *spatial[3];
} Sides;

static bool read_labels(Converter *c, const MlirAttr *labels, Sides *out)
{
    static const char names[3][2] = {{'b', 'f'}, {'i', 'o'}, {'b', 'f'}};
    if (labels->kind == MLIR_STRUCT && labels->fields.count == 1)
        labels = labels->fields.entries[0].value;
    if (labels->kind != MLIR_LIST || labels->list.count != 3 ||
        labels->list.items[0]->kind != MLIR_LIST || labels->list.items[0]->list.count < 2)
        return false;
    out->rank = labels->list.items[0]->list.count - 2;
    for (int i = 0; i < 3; i++) {
        out->spatial[i] = ARENA_ARRAY(c->arena, int64_t, out->rank + 1u);
        if (!read_side(labels->list.items[i], names[i][0], names[i][1], &out->first[i],
                       &out->second[i], out->spatial[i], out->rank))
            return false;
    }
    return true;
}

/* The same as numbers: input_batch_dimension = 0, ... */
static bool read_numbers(Converter *c, const MlirOp *op, Sides *out)
{
    static const char group[] = "dimension_numbers";
    static const char *const names[3][3] = {
        {"input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"},
        {"kernel_input_feature_dimension", "kernel_output_feature_dimension",
         "kernel_spatial_dimensions"},
        {"output_batch_dimension", "output_feature_dimension",
         "output_spatial_dimensions"}};
    for (int i = 0; i < 3; i++) {
        Ints spatial;
        if (!ask_int(c, ask(c, op, group, names[i][0]), &out->first[i]) ||
            !ask_int(c, ask(c, op, group, names[i][1]), &out->second[i]) ||
            !attr_ints(c, op, group, names[i][2], &spatial))
            return false;
        if (i != 0 && spatial.count != out->rank)
            return false;
        out->rank = spatial.count;
        out->spatial[i] = ARENA_ARRAY(c->arena, int64_t, spatial.count + 1u);
        for (uint32_t k = 0; k < spatial.count; k++)
            out->spatial[i][k] = spatial.data[k];
    }
    return true;
}

/* "b01f": the letter of each dimension. */
static const char *label_text(Converter *c, const Sides *s, int side)
{
    char *text = arena_alloc(c->arena, s->rank + 3u);
    static const char letters[3][2] = {{'b', 'f'}, {'i', 'o'}, {'b', 'f'}};
    int64_t all = s->rank + 2;
    for (int64_t i = -2; i < s->rank; i++) {
        int64_t at = i == -2   ? s->first[side]
                     : i == -1 ? s->second[side]
                               : s->spatial[side][i];
        if (at < 0 || at >= all || text[at] != '\0' || i > 9)
            return NULL;
        text[at] = i < 0 ? letters[side][i + 2] : (char)('0' + i);
    }
    return text;
}

static bool set_labels(Converter *c, const MlirOp *op, Instruction *inst, uint32_t *rank)
{
    Sides s = {0};
    const MlirAttr *labels = ask(c, op, NULL, "dimension_numbers");
    bool right =
        (labels != NULL && (labels->kind == MLIR_LIST || labels->kind == MLIR_STRUCT) &&
         field(c, labels, "input_batch_dimension") == NULL)
            ? read_labels(c, labels, &s)
            : read_numbers(c, op, &s);
    DimLabels *out = ARENA_NEW(c->arena, DimLabels);
    if (right)
        *out = (DimLabels){.spatial_rank = s.rank,
                           .lhs_batch = s.first[0],
                           .lhs_feature = s.second[0],
                           .rhs_input = s.first[1],
                           .rhs_output = s.second[1],
                           .out_batch = s.first[2],
                           .out_feature = s.second[2],
                           .lhs_spatial = s.spatial[0],
                           .rhs_spatial = s.spatial[1],
                           .out_spatial = s.spatial[2],
                           .lhs_text = label_text(c, &s, 0),
                           .rhs_text = label_text(c, &s, 1),
                           .out_text = label_text(c, &s, 2)};
    if (!right || out->lhs_text == NULL || out->rhs_text == NULL || out->out_text == NULL)
        return convert_error(
                   c, "the dimension numbers of %s do not name each dimension once",
                   op->name) != NULL;
    inst_set(inst, (Attr){.id = ATTR_DIM_LABELS, .labels = out});
    *rank = s.rank;
    return true;
}

static bool spatial_sizes(Converter *c, const Instruction *inst, uint32_t rank, Ints *out)
{
    const DimLabels *labels = inst_attr(inst, ATTR_DIM_LABELS)->labels;
    const Shape *kernel = inst->operands[1]->shape;
    if (!shape_is_array(kernel) || kernel->rank != rank + 2)
        return convert_error(c, "the kernel of a convolution has %u dimensions, not %s",
                             rank + 2, shape_text(c->scratch, kernel, false)) != NULL;
    int64_t *sizes = ARENA_ARRAY(c->arena, int64_t, rank + 1u);
    for (uint32_t i = 0; i < rank; i++)
        sizes[i] = kernel->dims[labels->rhs_spatial[i]];
    *out = (Ints){sizes, rank};
    return true;
}

void make_convolution(Converter *c, const MlirOp *op, const IntLists *padding)
{
    static const WindowNames names = {"window_strides", "lhs_dilation", "rhs_dilation",
                                      "window_reversal"};
    uint32_t rank = 0;
    Ints sizes;
    Window window;
    Instruction *inst = make2(c, OP_CONVOLUTION, result_shape(op, 0), operand_of(op, 0),
                              operand_of(op, 1));
    if (!set_labels(c, op, inst, &rank) || !spatial_sizes(c, inst, rank, &sizes) ||
        !make_window(c, op, &names, sizes, padding, &window) ||
        !set_precision(c, op, inst))
        return;
    if (rank != 0)
        set_window(c, inst, &window);
    inst_set_int(inst, ATTR_FEATURE_GROUP_COUNT,
                 ask_int_or(c, op, "feature_group_count", 1));
    inst_set_int(inst, ATTR_BATCH_GROUP_COUNT, ask_int_or(c, op, "batch_group_count", 1));
    bind(c, op, make_finish(c, inst));
}

void convert_convolution(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    IntLists padding;
    if (ask_pairs(c, ask(c, op, NULL, "padding"), &padding))
        make_convolution(c, op, &padding);
}

/* -- einsum -------------------------------------------------------------------------------- */

/* The sum of an operand over the letters that neither the other one nor the result has, its dimensions as
 * `kept` has their letters. */
static Instruction *sum_letters(Converter *c, Instruction *inst, const char *letters,
                                const char *keep, char *kept)
{
    const Shape *s = inst->shape;
    int64_t *gone = ARENA_ARRAY(c->scratch, int64_t, s->rank + 1u);
    int64_t *dims = ARENA_ARRAY(c->scratch, int64_t, s->rank + 1u);
    uint32_t gone_count = 0, rank = 0;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (strchr(keep, letters[i]) == NULL) {
            gone[gone_count++] = i;
            continue;
        }
        kept[rank] = letters[i];
        dims[rank++] = s->dims[i];
    }
    kept[rank] = '\0';
    if (gone_count == 0)
        return inst;
    Instruction *operands[] = {inst, make_scalar(c, s->dtype, 0)};
    Computation *adder = module_add_adder(c->m, s->dtype);
    STACK_PUSH(c, c->finished, adder);
    Instruction *sum = make_call(c, OP_REDUCE, shape_sized(c, s, rank, dims), 2, operands,
                                 ATTR_TO_APPLY, adder);
    inst_set_ints(sum, ATTR_DIMENSIONS, gone, gone_count);
    return make_finish(c, sum);
}

/* ab,bc->ac: letters only, none twice in one operand; *rhs is NULL for one operand. */
static bool split_einsum(Converter *c, const MlirOp *op, char **lhs, char **rhs,
                         char **out)
{
    const MlirAttr *a = ask(c, op, NULL, "einsum_config");
    char *text = a != NULL && a->kind == MLIR_STRING
                     ? arena_text(c->scratch, a->text.data, a->text.length)
                     : arena_text(c->scratch, "", 0);
    char *arrow = strstr(text, "->"), *comma = strchr(text, ',');
    *lhs = text;
    *rhs = comma != NULL && arrow != NULL && comma < arrow ? comma + 1 : NULL;
    *out = arrow != NULL ? arrow + 2 : NULL;
    bool right = arrow != NULL && (*rhs != NULL) == (op->operand_count == 2);
    if (comma != NULL)
        *comma = '\0';
    if (arrow != NULL)
        *arrow = '\0';
    const char *parts[] = {*lhs, *rhs != NULL ? *rhs : "", *out != NULL ? *out : ""};
    for (int p = 0; p < 3; p++)
        for (const char *s = parts[p]; *s != '\0'; s++)
            right = right && ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z')) &&
                    strchr(s + 1, *s) == NULL;
    for (const char *s = parts[2]; right && *s != '\0'; s++)
        right = strchr(parts[0], *s) != NULL || strchr(parts[1], *s) != NULL;
    for (uint32_t i = 0; right && i < op->operand_count; i++)
        right = shape_is_array(operand_of(op, i)->shape) &&
                operand_of(op, i)->shape->rank == strlen(parts[i]);
    if (!right)
        convert_unsupported(c,
                            "this einsum_config: letters, each once in an operand, as in "
                            "\"ab,bc->ac\"");
    return right;
}

/* From dimensions in the order of `letters` to that of `wanted`, a permutation of them. */
static Instruction *order_letters(Converter *c, Instruction *inst, const char *letters,
                                  const char *wanted)
{
    if (inst == NULL || strcmp(letters, wanted) == 0)
        return inst;
    int64_t *order = ARENA_ARRAY(c->scratch, int64_t, strlen(wanted) + 1);
    for (size_t i = 0; wanted[i] != '\0'; i++)
        order[i] = strchr(letters, wanted[i]) - letters;
    return make_transpose(c, inst, order);
}

void convert_einsum(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    char *lhs, *rhs, *out;
    if (!split_einsum(c, op, &lhs, &rhs, &out))
        return;
    char *a = arena_alloc(c->scratch, strlen(lhs) + 1),
         *b = arena_alloc(c->scratch, strlen(rhs) + 1);
    Instruction *x = sum_letters(c, operand_of(op, 0), lhs,
                                 arena_printf(c->scratch, "%s%s", rhs, out), a);
    Instruction *y = sum_letters(c, operand_of(op, 1), rhs,
                                 arena_printf(c->scratch, "%s%s", lhs, out), b);
    if (x == NULL || y == NULL)
        return;
    int64_t lists[4][52];
    uint32_t counts[2] = {0, 0}, rank = 0;
    char *have = arena_alloc(c->scratch, strlen(a) + strlen(b) + 1);
    int64_t dims[104];
    for (size_t i = 0; a[i] != '\0'; i++) {
        const char *other = strchr(b, a[i]);
        bool batch = other != NULL && strchr(out, a[i]) != NULL;
        if (other != NULL) {
            uint32_t *count = &counts[batch ? 0 : 1];
            lists[batch ? 0 : 2][*count] = (int64_t)i;
            lists[batch ? 1 : 3][(*count)++] = other - b;
        }
        if (batch) {
            dims[rank] = x->shape->dims[i];
            have[rank++] = a[i];
        }
    }
    for (size_t i = 0; a[i] != '\0'; i++)
        if (strchr(b, a[i]) == NULL) {
            dims[rank] = x->shape->dims[i];
            have[rank++] = a[i];
        }
    for (size_t i = 0; b[i] != '\0'; i++)
        if (strchr(a, b[i]) == NULL) {
            dims[rank] = y->shape->dims[i];
            have[rank++] = b[i];
        }
    DotDims d = {{lists[0], counts[0]},
                 {lists[1], counts[0]},
                 {lists[2], counts[1]},
                 {lists[3], counts[1]}};
    Instruction *dot =
        make_dot(c, op, &d, shape_sized(c, result_shape(op, 0), rank, dims), x, y);
    bind(c, op, order_letters(c, dot, have, out));
}

void convert_unary_einsum(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    char *lhs, *rhs, *out;
    if (!split_einsum(c, op, &lhs, &rhs, &out))
        return;
    char *kept = arena_alloc(c->scratch, strlen(lhs) + 1);
    Instruction *sum = sum_letters(c, operand_of(op, 0), lhs, out, kept);
    if (sum != NULL && strlen(kept) == strlen(out))
        bind(c, op, order_letters(c, sum, kept, out));
}
