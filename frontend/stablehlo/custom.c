/* Custom calls: functions by name. Some names are operations of MHLO that StableHLO has no form for. */
#include <string.h>

#include "frontend/stablehlo/functions.h"
#include "ir/attribute/config.h"
#include "ir/base/text.h"

/* "mhlo.topk" with its attributes in mhlo.attributes. */
static bool convert_as_operation(Converter *c, const MlirOp *op, const char *target)
{
    const OpRow *row = strncmp(target, "mhlo.", 5) == 0 ? op_row(target) : NULL;
    if (row == NULL || row->convert == convert_custom_call)
        return false;
    MlirOp inner = *op;
    const MlirAttr *attrs = ask(c, op, NULL, "mhlo.attributes");
    inner.name = target;
    inner.attrs = attrs != NULL && attrs->kind == MLIR_DICT ? attrs->dict : (MlirDict){0};
    convert_op(c, &inner);
    return true;
}

/* A check of sizes, which jax.export leaves: known now. */
static void check_assertion(Converter *c, const MlirOp *op)
{
    Ints holds;
    const MlirAttr *message = ask(c, op, NULL, "error_message");
    if (op->result_count != 0) {
        convert_error(c, "shape_assertion gives nothing");
        return;
    }
    if (op->operand_count == 0 || !known_ints(c, op, 0, &holds))
        return;
    if (holds.count != 0 && holds.data[0] == 0)
        convert_error(c, "the program asserts: %s",
                      message != NULL && message->kind == MLIR_STRING
                          ? message->text.data
                          : "sizes do not fit");
}

const Shape *shape_of_layout(Converter *c, const Shape *s, const MlirAttr *layout)
{
    Ints order;
    if (!ask_ints(c, layout, &order))
        return NULL;
    if (!shape_is_array(s))
        return s;
    bool right = order.count == s->rank;
    uint64_t seen = 0;
    for (uint32_t i = 0; right && i < order.count; i++) {
        right = order.data[i] >= 0 && order.data[i] < s->rank && order.data[i] < 64 &&
                (seen >> order.data[i] & 1) == 0;
        seen |= right ? UINT64_C(1) << order.data[i] : 0;
    }
    if (!right)
        return convert_error(c, "a layout of %s names each dimension once",
                             shape_text(c->scratch, s, false));
    Layout l = *s->layout;
    l.minor_to_major = order.data;
    return shape_with_layout(c->intern, s, intern_layout(c->intern, &l));
}

/* Shapes with the layouts of a list; NULL after a message. */
static const Shape **laid_out(Converter *c, const MlirAttr *list, uint32_t count,
                              const Shape *const *shapes)
{
    if (list->kind != MLIR_LIST || list->list.count != count)
        return convert_error(c, "a custom_call has a layout for each operand and result");
    const Shape **out = ARENA_ARRAY(c->arena, const Shape *, count + 1u);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = shape_of_layout(c, shapes[i], list->list.items[i]);
        if (out[i] == NULL)
            return NULL;
    }
    return out;
}

/* An empty list says nothing. */
static const MlirAttr *layouts_of(Converter *c, const MlirOp *op, const char *name)
{
    const MlirAttr *list = ask(c, op, NULL, name);
    return list != NULL && list->kind == MLIR_LIST && list->list.count == 0 ? NULL : list;
}

static bool set_operand_layouts(Converter *c, const MlirOp *op, Instruction *inst)
{
    const MlirAttr *list = layouts_of(c, op, "operand_layouts");
    if (list == NULL)
        return true;
    const Shape **shapes = ARENA_ARRAY(c->scratch, const Shape *, op->operand_count + 1u);
    for (uint32_t i = 0; i < op->operand_count; i++)
        shapes[i] = operand_of(op, i)->shape;
    shapes = laid_out(c, list, op->operand_count, shapes);
    if (shapes == NULL)
        return false;
    inst_set(inst, (Attr){.id = ATTR_OPERAND_LAYOUT_CONSTRAINTS,
                          .shapes = {shapes, op->operand_count}});
    return true;
}

static const Shape *call_shape(Converter *c, const MlirOp *op)
{
    const MlirAttr *list = layouts_of(c, op, "result_layouts");
    if (list == NULL)
        return results_shape(c, op);
    if (op->result_count == 1 && shape_is_tuple(result_shape(op, 0))) {
        const Shape *tuple = result_shape(op, 0); /* a layout for each of its elements */
        const Shape **laid = laid_out(c, list, tuple->rank, tuple->elements);
        return laid != NULL ? shape_tuple(c->intern, tuple->rank, laid) : NULL;
    }
    const Shape **shapes = ARENA_ARRAY(c->scratch, const Shape *, op->result_count + 1u);
    for (uint32_t i = 0; i < op->result_count; i++)
        shapes[i] = result_shape(op, i);
    shapes = laid_out(c, list, op->result_count, shapes);
    return shapes == NULL          ? NULL
           : op->result_count == 1 ? shapes[0]
                                   : shape_tuple(c->intern, op->result_count, shapes);
}

static bool set_aliases(Converter *c, const MlirOp *op, Instruction *inst)
{
    const MlirAttr *list = ask(c, op, NULL, "output_operand_aliases");
    if (list == NULL || list->kind != MLIR_LIST || list->list.count == 0)
        return true;
    Aliasing *aliasing = ARENA_NEW(c->arena, Aliasing);
    AliasEntry *entries = ARENA_ARRAY(c->arena, AliasEntry, list->list.count);
    for (uint32_t i = 0; i < list->list.count; i++) {
        const MlirAttr *a = list->list.items[i];
        if (!ask_ints(c, field(c, a, "output_tuple_indices"), &entries[i].output) ||
            !ask_ints(c, field(c, a, "operand_tuple_indices"), &entries[i].input) ||
            !ask_int(c, field(c, a, "operand_index"), &entries[i].operand))
            return convert_error(c, "an alias names an output and an operand") != NULL;
    }
    *aliasing = (Aliasing){list->list.count, entries};
    inst_set(inst, (Attr){.id = ATTR_OUTPUT_TO_OPERAND_ALIASING, .aliasing = aliasing});
    return true;
}

/* A string, or for the typed interface a dictionary, which may stand in an attribute of its own. */
static const MlirAttr *find_config(Converter *c, const MlirOp *op)
{
    const MlirAttr *a = ask(c, op, NULL, "backend_config");
    bool empty = a == NULL || (a->kind == MLIR_DICT && a->dict.count == 0) ||
                 (a->kind == MLIR_STRING && a->text.length == 0);
    return empty ? ask(c, op, NULL, "mhlo.backend_config") : a;
}

static void put_config(Converter *c, const MlirOp *op, Instruction *inst)
{
    const MlirAttr *a = find_config(c, op);
    if (a == NULL)
        return;
    Bytes text = a->kind == MLIR_STRING ? a->text : attribute_text(c, a);
    if (text.length != 0)
        config_set_text(inst, text.data, text.length);
}

/* NULL after a message. */
static Computation *called_by_symbol(Converter *c, const MlirAttr *a)
{
    const char *symbol = ask_word(c, a);
    return symbol != NULL ? function_computation(c, symbol)
                          : convert_error(c, "called_computations are symbols");
}

static bool set_called(Converter *c, const MlirOp *op, Instruction *inst)
{
    const MlirAttr *list = ask(c, op, NULL, "called_computations");
    if (list == NULL || list->kind != MLIR_LIST || list->list.count == 0)
        return true;
    Computation **called = ARENA_ARRAY(c->arena, Computation *, list->list.count);
    for (uint32_t i = 0; i < list->list.count; i++) {
        called[i] = called_by_symbol(c, list->list.items[i]);
        if (called[i] == NULL)
            return false;
    }
    inst_set(inst, (Attr){.id = ATTR_CALLED_COMPUTATIONS,
                          .computations = {called, list->list.count}});
    return true;
}

static void set_version(Converter *c, const MlirOp *op, Instruction *inst)
{
    static const char *const words[] = {
        "API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
        "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"};
    const MlirAttr *a = ask(c, op, NULL, "api_version"), *config = find_config(c, op);
    const char *word = a != NULL && a->kind != MLIR_INT ? ask_word(c, a) : NULL;
    int64_t value, version = a != NULL && a->kind == MLIR_INT ? a->i : 1;
    if (config != NULL && config->kind == MLIR_DICT)
        word = words[4]; /* no other has a dictionary */
    else if (word == NULL && version >= 0 && version < 5)
        word = words[version];
    if (word != NULL && attr_enum_find(ATTR_API_VERSION, word, strlen(word), &value))
        inst_set_int(inst, ATTR_API_VERSION, value);
}

/* -- ApproxTopK ------------------------------------------------------------------------------ */

/* Whether a result begins as the operand does, but for the one dimension. */
static bool is_beginning(const Shape *from, const Shape *to, int64_t dimension)
{
    bool right = shape_is_array(from) && shape_is_array(to) && from->dtype == to->dtype &&
                 from->rank == to->rank && dimension >= 0 && dimension < from->rank;
    for (uint32_t i = 0; right && i < from->rank; i++)
        right = i == dimension || from->dims[i] == to->dims[i];
    return right;
}

/* Arrays, then as many scalars for what is none; the results are arrays of the top ones. */
static bool read_approx_top_k(Converter *c, const MlirOp *op, int64_t *dimension)
{
    const MlirAttr *config = find_config(c, op);
    uint32_t n = op->result_count;
    bool right = n != 0 && op->operand_count == 2 * n && config != NULL &&
                 config->kind == MLIR_DICT &&
                 ask_int(c, field(c, config, "reduction_dim"), dimension);
    if (right && *dimension < 0 && shape_is_array(operand_of(op, 0)->shape))
        *dimension += operand_of(op, 0)->shape->rank;
    for (uint32_t i = 0; right && i < n; i++)
        right = is_beginning(operand_of(op, i)->shape, result_shape(op, i), *dimension);
    return right || convert_error(c, "ApproxTopK takes n arrays and n scalars, gives n "
                                     "arrays, and says its reduction_dim") != NULL;
}

static Instruction *slice_to(Converter *c, Instruction *inst, const Shape *shape)
{
    SliceDim *dims = ARENA_ARRAY(c->arena, SliceDim, shape->rank + 1u);
    for (uint32_t i = 0; i < shape->rank; i++)
        dims[i] = (SliceDim){0, shape->dims[i], 1};
    Instruction *slice = make1(c, OP_SLICE, shape, inst);
    inst_set_slice(slice, dims, shape->rank);
    return make_finish(c, slice);
}

/* Of jax.lax.approx_max_k: the exact ones, which any recall allows. */
static void convert_approx_top_k(Converter *c, const MlirOp *op)
{
    const MlirAttr *called = ask(c, op, NULL, "called_computations");
    int64_t dimension;
    uint32_t n = op->result_count;
    if (!read_approx_top_k(c, op, &dimension))
        return;
    if (called == NULL || called->kind != MLIR_LIST || called->list.count != 1) {
        convert_error(c, "ApproxTopK has one of called_computations, its comparator");
        return;
    }
    Instruction **parts = ARENA_ARRAY(c->scratch, Instruction *, n);
    const Shape **shapes = ARENA_ARRAY(c->scratch, const Shape *, n);
    for (uint32_t i = 0; i < n; i++) {
        parts[i] = operand_of(op, i);
        shapes[i] = parts[i]->shape;
    }
    const Shape *all = n == 1 ? shapes[0] : shape_tuple(c->intern, n, shapes);
    Instruction *sort = make_call(c, OP_SORT, all, n, parts, ATTR_TO_APPLY,
                                  called_by_symbol(c, called->list.items[0]));
    if (sort == NULL)
        return;
    inst_set_ints(sort, ATTR_DIMENSIONS, &dimension, 1);
    inst_set_int(sort, ATTR_IS_STABLE, 1);
    sort = make_finish(c, sort);
    for (uint32_t i = 0; sort != NULL && i < n; i++)
        parts[i] =
            slice_to(c, n == 1 ? sort : make_element(c, sort, i), result_shape(op, i));
    if (sort != NULL)
        bind_elements(c, op, n == 1 ? parts[0] : make_tuple(c, n, parts));
}

/* -- operations whose sizes are operands, as jax.export writes them --------------------------- */

/* Arrays, initial values, then sizes, strides, base and window dilations, and pairs of padding. */
static void convert_dynamic_reduce_window(Converter *c, const MlirOp *op)
{
    const MlirAttr *called = ask(c, op, NULL, "called_computations");
    uint32_t k = op->result_count;
    if (k == 0 || op->operand_count != 2 * k + 5 || called == NULL ||
        called->kind != MLIR_LIST || called->list.count != 1) {
        convert_error(c, "stablehlo.dynamic_reduce_window takes n arrays, n scalars and "
                         "five arrays of integers, and has one of called_computations");
        return;
    }
    Ints lists[5];
    for (uint32_t i = 0; i < 5; i++)
        if (!known_ints(c, op, 2 * k + i, &lists[i]))
            return;
    uint32_t rank = lists[0].count;
    if (lists[1].count != rank || lists[2].count != rank || lists[3].count != rank ||
        lists[4].count != 2 * rank) {
        convert_error(c, "the lists of stablehlo.dynamic_reduce_window must have one "
                         "entry for each dimension, that of padding two");
        return;
    }
    WindowDim *dims = ARENA_ARRAY(c->arena, WindowDim, rank + 1u);
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = (WindowDim){.size = lists[0].data[i],
                              .stride = lists[1].data[i],
                              .pad_low = lists[4].data[2 * i],
                              .pad_high = lists[4].data[2 * i + 1],
                              .base_dilation = lists[2].data[i],
                              .window_dilation = lists[3].data[i]};
    Instruction **operands = ARENA_ARRAY(c->scratch, Instruction *, 2 * k);
    for (uint32_t i = 0; i < 2 * k; i++)
        operands[i] = operand_of(op, i);
    Instruction *inst =
        make_call(c, OP_REDUCE_WINDOW, results_shape(c, op), 2 * k, operands,
                  ATTR_TO_APPLY, called_by_symbol(c, called->list.items[0]));
    if (inst == NULL)
        return;
    if (rank != 0)
        set_window(c, inst, &(Window){rank, dims});
    bind_elements(c, op, make_finish(c, inst));
}

static void convert_dynamic_top_k(Converter *c, const MlirOp *op)
{
    Ints k;
    if (op->operand_count != 2 || op->result_count != 2) {
        convert_error(c, "stablehlo.dynamic_top_k takes an array and k, and gives two");
        return;
    }
    if (!known_ints(c, op, 1, &k))
        return;
    if (k.count != 1) {
        convert_error(c, "k of stablehlo.dynamic_top_k is one number");
        return;
    }
    Instruction *inst = make1(c, OP_TOPK, results_shape(c, op), operand_of(op, 0));
    inst_set_int(inst, ATTR_K, k.data[0]);
    inst_set_int(inst, ATTR_LARGEST, 1);
    inst_set_int(inst, ATTR_IS_STABLE, 1);
    bind_elements(c, op, make_finish(c, inst));
}

static bool convert_dynamic_call(Converter *c, const MlirOp *op, const char *target)
{
    if (strcmp(target, "stablehlo.dynamic_reduce_window") == 0)
        convert_dynamic_reduce_window(c, op);
    else if (strcmp(target, "stablehlo.dynamic_top_k") == 0)
        convert_dynamic_top_k(c, op);
    else if (strncmp(target, "stablehlo.dynamic_", 18) == 0)
        convert_unsupported(c, "custom_call @%s", target);
    else
        return false;
    return true;
}

void convert_custom_call(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    const char *target = ask_symbol(c, op, "call_target_name");
    if (target == NULL || convert_as_operation(c, op, target) ||
        convert_dynamic_call(c, op, target))
        return;
    if (strcmp(target, "shape_assertion") == 0) {
        check_assertion(c, op);
        return;
    }
    if (strcmp(target, "ApproxTopK") == 0) {
        convert_approx_top_k(c, op);
        return;
    }
    if (strcmp(target, "ragged_all_to_all") == 0) {
        convert_ragged_all_to_all(c, op, find_config(c, op));
        return;
    }
    Instruction **operands =
        ARENA_ARRAY(c->scratch, Instruction *, op->operand_count + 1u);
    for (uint32_t i = 0; i < op->operand_count; i++)
        operands[i] = operand_of(op, i);
    const Shape *shape = call_shape(c, op);
    if (shape == NULL)
        return;
    Instruction *inst = make(c, OP_CUSTOM_CALL, shape, op->operand_count, operands);
    inst_set_bytes(inst, ATTR_CUSTOM_CALL_TARGET, target, strlen(target));
    inst_set_int(inst, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT,
                 ask_flag(c, op, "has_side_effect"));
    put_config(c, op, inst);
    set_version(c, op, inst);
    if (set_operand_layouts(c, op, inst) && set_aliases(c, op, inst) &&
        set_called(c, op, inst))
        bind_elements(c, op, make_finish(c, inst));
}
