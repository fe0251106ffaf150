/* Operations that apply a region to elements, and control flow: reduce, scatter, sort, while, if, calls. */
#include <string.h>

#include "frontend/stablehlo/functions.h"
#include "ir/dtype.h"

/* -- reductions ---------------------------------------------------------------------------- */

/* Inputs, then as many init values, converted to the types that the region works on; *k = how many. NULL
 * after a message. */
static Instruction **reduction_operands(Converter *c, const MlirOp *op, uint32_t *k)
{
    const MlirRegion *region = op->regions[0];
    *k = op->operand_count / 2;
    if (*k == 0 || op->operand_count != 2 * *k || op->result_count != *k ||
        region->argument_count != 2 * *k)
        return convert_error(
            c,
            "%s has as many inputs as init values and results, its region "
            "two arguments for each",
            op->name);
    Instruction **operands = ARENA_ARRAY(c->scratch, Instruction *, op->operand_count);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const Shape *s = region->arguments[i % *k].type->shape;
        operands[i] = operand_of(op, i);
        if (s == NULL || !shape_is_scalar(s) || !shape_is_array(operands[i]->shape))
            return convert_error(c, "%s and its region are of arrays and scalars",
                                 op->name);
        operands[i] = make_convert(c, operands[i], s->dtype);
    }
    return operands;
}

void convert_reduce(Converter *c, const MlirOp *op, const OpRow *row)
{
    uint32_t k;
    Instruction **operands = reduction_operands(c, op, &k);
    if (operands == NULL)
        return;
    Instruction *inst = make_call(c, OP_REDUCE, results_shape(c, op), op->operand_count,
                                  operands, ATTR_TO_APPLY, applied_computation(c, op, 0));
    if (inst != NULL && set_row_attrs(c, op, row, inst))
        bind_elements(c, op, make_finish(c, inst));
}

/* Lists of one entry for each dimension; absent: all are `absent`. */
static bool window_list(Converter *c, const MlirOp *op, const char *name, uint32_t rank,
                        int64_t absent, Ints *out)
{
    if (!attr_ints(c, op, NULL, name, out))
        return false;
    if (out->count == 0 && rank != 0) {
        int64_t *data = ARENA_ARRAY(c->arena, int64_t, rank);
        for (uint32_t i = 0; i < rank; i++)
            data[i] = absent;
        *out = (Ints){data, rank};
    }
    if (out->count == rank)
        return true;
    convert_error(c, "%s of %s must have %u entries", name, op->name, rank);
    return false;
}

bool make_window(Converter *c, const MlirOp *op, const WindowNames *names, Ints sizes,
                 const IntLists *padding, Window *out)
{
    uint32_t rank = sizes.count;
    Ints stride, base, window, reversal = {0};
    if (!window_list(c, op, names->stride, rank, 1, &stride) ||
        !window_list(c, op, names->base_dilation, rank, 1, &base) ||
        !window_list(c, op, names->window_dilation, rank, 1, &window) ||
        !window_list(c, op, names->reversal, rank, 0, &reversal))
        return false;
    bool right = padding->count == 0 || padding->count == rank;
    for (uint32_t i = 0; right && i < padding->count; i++)
        right = padding->data[i].count == 2;
    if (!right) {
        convert_error(c, "padding of %s must be %u pairs", op->name, rank);
        return false;
    }
    WindowDim *dims = ARENA_ARRAY(c->arena, WindowDim, rank + 1u);
    for (uint32_t i = 0; i < rank; i++)
        dims[i] =
            (WindowDim){.size = sizes.data[i],
                        .stride = stride.data[i],
                        .pad_low = padding->count != 0 ? padding->data[i].data[0] : 0,
                        .pad_high = padding->count != 0 ? padding->data[i].data[1] : 0,
                        .base_dilation = base.data[i],
                        .window_dilation = window.data[i],
                        .reversal = reversal.data[i] != 0};
    *out = (Window){rank, dims};
    return true;
}

void set_window(Converter *c, Instruction *inst, const Window *window)
{
    inst_set(inst, (Attr){.id = ATTR_WINDOW,
                          .window = arena_copy(c->arena, window, sizeof *window)});
}

static bool region_window(Converter *c, const MlirOp *op, Instruction *inst)
{
    static const WindowNames names = {"window_strides", "base_dilations",
                                      "window_dilations", "window_reversal"};
    Ints sizes;
    IntLists padding;
    Window window;
    if (!attr_ints(c, op, NULL, "window_dimensions", &sizes) ||
        !ask_pairs(c, ask(c, op, NULL, "padding"), &padding) ||
        !make_window(c, op, &names, sizes, &padding, &window))
        return false;
    if (window.rank != 0)
        set_window(c, inst, &window);
    return true;
}

void convert_reduce_window(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    uint32_t k;
    Instruction **operands = reduction_operands(c, op, &k);
    if (operands == NULL)
        return;
    Instruction *inst =
        make_call(c, OP_REDUCE_WINDOW, results_shape(c, op), op->operand_count, operands,
                  ATTR_TO_APPLY, applied_computation(c, op, 0));
    if (inst != NULL && region_window(c, op, inst))
        bind_elements(c, op, make_finish(c, inst));
}

void convert_select_and_scatter(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Instruction *operands[] = {operand_of(op, 0), operand_of(op, 1), operand_of(op, 2)};
    Computation *select = applied_computation(c, op, 0);
    Computation *scatter = applied_computation(c, op, 1);
    if (select == NULL || scatter == NULL)
        return;
    Instruction *inst = make_call(c, OP_SELECT_AND_SCATTER, result_shape(op, 0), 3,
                                  operands, ATTR_SELECT, select);
    inst_set_computation(inst, ATTR_SCATTER, scatter);
    if (region_window(c, op, inst))
        bind(c, op, make_finish(c, inst));
}

/* -- scatter, sort, map -------------------------------------------------------------------- */

static Instruction *make_applied(Converter *c, const MlirOp *op, OpCode opcode)
{
    Instruction **operands =
        ARENA_ARRAY(c->scratch, Instruction *, op->operand_count + 1u);
    for (uint32_t i = 0; i < op->operand_count; i++)
        operands[i] = operand_of(op, i);
    return make_call(c, opcode, results_shape(c, op), op->operand_count, operands,
                     ATTR_TO_APPLY, applied_computation(c, op, 0));
}

static const DimensionNumber scatter_numbers[] = {
    {"update_window_dims", ATTR_UPDATE_WINDOW_DIMS, true, true},
    {"inserted_window_dims", ATTR_INSERTED_WINDOW_DIMS, true, true},
    {"input_batching_dims", ATTR_INPUT_BATCHING_DIMS, true, false},
    {"scatter_indices_batching_dims", ATTR_SCATTER_INDICES_BATCHING_DIMS, true, false},
    {"scatter_dims_to_operand_dims", ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, true, true},
    {"index_vector_dim", ATTR_INDEX_VECTOR_DIM, false, true},
    {NULL, ATTR_COUNT, false, false}};

void convert_scatter(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    if (op->operand_count % 2 == 0 || op->operand_count < 3) {
        convert_error(c, "scatter has as many updates as inputs, and indices");
        return;
    }
    Instruction *inst = make_applied(c, op, OP_SCATTER);
    if (inst == NULL ||
        !set_dimension_numbers(c, op, "scatter_dimension_numbers", scatter_numbers, inst))
        return;
    inst_set_int(inst, ATTR_INDICES_ARE_SORTED, ask_flag(c, op, "indices_are_sorted"));
    inst_set_int(inst, ATTR_UNIQUE_INDICES, ask_flag(c, op, "unique_indices"));
    bind_elements(c, op, make_finish(c, inst));
}

void convert_sort(Converter *c, const MlirOp *op, const OpRow *row)
{
    Instruction *inst = make_applied(c, op, OP_SORT);
    if (inst == NULL || !set_row_attrs(c, op, row, inst))
        return;
    int64_t dimension = ask_int_or(c, op, "dimension", -1);
    if (dimension < 0 && op->operand_count != 0 &&
        shape_is_array(operand_of(op, 0)->shape))
        dimension += operand_of(op, 0)->shape->rank;
    inst_set_ints(inst, ATTR_DIMENSIONS, &dimension, 1);
    bind_elements(c, op, make_finish(c, inst));
}

void convert_map(Converter *c, const MlirOp *op, const OpRow *row)
{
    Instruction *inst = make_applied(c, op, OP_MAP);
    if (inst != NULL && set_row_attrs(c, op, row, inst))
        bind(c, op, make_finish(c, inst));
}

/* Inputs, then inits; the region's are elements of the inputs, then carries; results outputs, then carries. */
void convert_scan(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Ints segments;
    if (!attr_ints(c, op, NULL, "operandSegmentSizes", &segments))
        return;
    if (segments.count != 2 || segments.data[0] + segments.data[1] != op->operand_count) {
        convert_error(
            c, "scan says by operandSegmentSizes how many inputs and inits it has");
        return;
    }
    Instruction *inst = make_applied(c, op, OP_SCAN);
    if (inst == NULL)
        return;
    int64_t dimension = ask_int_or(c, op, "dimension", 0);
    inst_set_ints(inst, ATTR_DIMENSIONS, &dimension, 1);
    inst_set_int(inst, ATTR_NUM_CARRIES, segments.data[1]);
    inst_set_int(inst, ATTR_IS_REVERSE, ask_flag(c, op, "is_reverse"));
    inst_set_int(inst, ATTR_IS_ASSOCIATIVE, ask_flag(c, op, "is_associative"));
    bind_elements(c, op, make_finish(c, inst));
}

/* -- control flow -------------------------------------------------------------------------- */

/* Results are the first parts of a state, or the whole of it. */
static void bind_state(Converter *c, const MlirOp *op, const LoopState *state,
                       Instruction *inst)
{
    set_notes(c, op, inst);
    for (uint32_t i = 0; i < op->result_count; i++)
        op->results[i].inst = state->count == 1          ? inst
                              : op->results[i].uses != 0 ? make_element(c, inst, i)
                                                         : NULL;
}

void convert_while(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    if (op->result_count != op->operand_count) {
        convert_error(c, "while has as many results as operands");
        return;
    }
    LoopState state;
    loop_state(c, op, 0, &state);
    Computation *condition = state_computation(c, op, 0, &state, false);
    Computation *body = state_computation(c, op, 1, &state, true);
    if (condition == NULL || body == NULL)
        return;
    Instruction *inst =
        make_call(c, OP_WHILE, state.shape, 1, &state.init, ATTR_CONDITION, condition);
    inst_set_computation(inst, ATTR_BODY, body);
    inst = make_finish(c, inst);
    if (inst != NULL)
        bind_state(c, op, &state, inst);
}

/* Each branch takes what any of them uses of outside. */
static void convert_branches(Converter *c, const MlirOp *op, bool by_pred)
{
    LoopState state;
    loop_state(c, op, 1, &state);
    if (state.init == NULL)
        return;
    uint32_t count = op->region_count;
    Instruction **operands = ARENA_ARRAY(c->scratch, Instruction *, count + 1u);
    Computation **branches = ARENA_ARRAY(c->arena, Computation *, count + 1u);
    operands[0] = operand_of(op, 0);
    for (uint32_t i = 0; i < count; i++) {
        operands[i + 1] = state.init;
        branches[i] = state_computation(c, op, i, &state, false);
        if (branches[i] == NULL)
            return;
    }
    Instruction *inst =
        make(c, OP_CONDITIONAL, results_shape(c, op), count + 1, operands);
    if (by_pred) {
        inst_set_computation(inst, ATTR_TRUE_COMPUTATION, branches[0]);
        inst_set_computation(inst, ATTR_FALSE_COMPUTATION, branches[1]);
    } else {
        inst_set(inst, (Attr){.id = ATTR_BRANCH_COMPUTATIONS,
                              .computations = {branches, count}});
    }
    bind_elements(c, op, make_finish(c, inst));
}

static bool is_index(Converter *c, const MlirOp *op, DType wanted)
{
    const Shape *s = operand_of(op, 0)->shape;
    if (shape_is_scalar(s) && s->dtype == wanted)
        return true;
    convert_error(c, "the operand of %s is a tensor<%s>, but here is %s", op->name,
                  wanted == DT_PRED ? "i1" : "i32",
                  mlir_type_text(c->scratch, op->operands[0]->type));
    return false;
}

void convert_if(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    if (is_index(c, op, DT_PRED))
        convert_branches(c, op, true);
}

void convert_case(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    if (op->region_count == 0)
        convert_error(c, "case has at least one branch");
    else if (is_index(c, op, DT_S32))
        convert_branches(c, op, false);
}

/* -- calls --------------------------------------------------------------------------------- */

static Instruction *make_function_call(Converter *c, const MlirOp *op, const char *symbol)
{
    Computation *callee = symbol != NULL ? function_computation(c, symbol) : NULL;
    if (callee == NULL)
        return NULL;
    Instruction **operands =
        ARENA_ARRAY(c->scratch, Instruction *, op->operand_count + 1u);
    for (uint32_t i = 0; i < op->operand_count; i++)
        operands[i] = operand_of(op, i);
    return make_call(c, OP_CALL, callee->root->shape, op->operand_count, operands,
                     ATTR_TO_APPLY, callee);
}

/* A function for sizes that are not known is not one for all calls: its body comes in place of the call. */
static bool is_open(const MlirType *type)
{
    bool open = false;
    for (uint32_t i = 0; type != NULL && i < type->input_count; i++)
        open |=
            type->inputs[i]->shape != NULL && shape_is_unbounded(type->inputs[i]->shape);
    for (uint32_t i = 0; type != NULL && i < type->result_count; i++)
        open |= type->results[i]->shape != NULL &&
                shape_is_unbounded(type->results[i]->shape);
    return open;
}

/* Operations in place of calls, in all: each function may call the next one twice. */
enum { IN_PLACE_MOST = 1 << 22 };

static void convert_in_place(Converter *c, const MlirOp *op, Function *f)
{
    MlirRegion *body = f->op->region_count == 1 ? f->op->regions[0] : NULL;
    const MlirOp *last =
        body != NULL && body->op_count != 0 ? body->ops[body->op_count - 1] : NULL;
    if (f->state == FUNCTION_OPEN || c->depth >= MLIR_DEPTH || last == NULL ||
        body->argument_count != op->operand_count ||
        last->operand_count != op->result_count) {
        convert_error(c, "the call of @%s does not fit it, or it calls itself", f->name);
        return;
    }
    for (uint32_t i = 0; i < op->operand_count; i++) {
        if (mlir_type_equal(op->operands[i]->type, body->arguments[i].type))
            continue;
        convert_error(c, "argument %u of @%s is %s, but is given %s", i, f->name,
                      mlir_type_text(c->scratch, body->arguments[i].type),
                      mlir_type_text(c->scratch, op->operands[i]->type));
        return;
    }
    c->in_place += body->op_count;
    if (c->in_place > IN_PLACE_MOST) {
        convert_unsupported(
            c, "calls of functions of unknown sizes that are more than %d operations",
            IN_PLACE_MOST);
        return;
    }
    f->state = FUNCTION_OPEN;
    c->depth++;
    for (uint32_t i = 0; i < op->operand_count; i++)
        body->arguments[i].inst = operand_of(op, i);
    body->is_open = true; /* its own regions use what it defines */
    convert_ops(c, body);
    body->is_open = false;
    for (uint32_t i = 0; i < op->result_count; i++)
        op->results[i].inst = operand_of(last, i);
    c->depth--;
    f->state = FUNCTION_NEW;
}

void convert_call(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    const char *symbol = ask_symbol(c, op, "callee");
    Function *f = symbol != NULL ? find_function(c, symbol) : NULL;
    if (f == NULL)
        return;
    if (is_open(f->type))
        convert_in_place(c, op, f);
    else
        bind_elements(c, op, make_finish(c, make_function_call(c, op, symbol)));
}

/* One of an operation that has a row here is that operation; others are calls of what they stand for, by the
 * name and the attributes that HLO keeps of them. */
void convert_composite(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    const char *name = ask_symbol(c, op, "name");
    const OpRow *known =
        name != NULL && strncmp(name, "chlo.", 5) == 0 ? op_row(name) : NULL;
    if (name == NULL)
        return;
    if (known != NULL && op->region_count == 0 && known->regions == 0 &&
        known->operands == (int)op->operand_count &&
        known->results == (int)op->result_count) {
        MlirOp inner = *op;
        const MlirAttr *attrs = ask(c, op, NULL, "composite_attributes");
        inner.name = name;
        inner.attrs =
            attrs != NULL && attrs->kind == MLIR_DICT ? attrs->dict : (MlirDict){0};
        convert_op(c, &inner);
        return;
    }
    const char *symbol = ask_symbol(c, op, "decomposition");
    Function *f = symbol != NULL ? find_function(c, symbol) : NULL;
    if (f == NULL)
        return;
    if (is_open(f->type)) {
        convert_in_place(c, op, f);
        return;
    }
    Instruction *inst = make_function_call(c, op, symbol);
    if (inst != NULL)
        set_composite(c, op, inst);
    bind_elements(c, op, make_finish(c, inst));
}

void convert_optimization_barrier(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    if (op->result_count != op->operand_count || op->operand_count == 0) {
        convert_error(c, "optimization_barrier gives each of its operands");
        return;
    }
    Instruction **operands = ARENA_ARRAY(c->scratch, Instruction *, op->operand_count);
    for (uint32_t i = 0; i < op->operand_count; i++)
        operands[i] = operand_of(op, i);
    Instruction *all =
        op->operand_count == 1 ? operands[0] : make_tuple(c, op->operand_count, operands);
    bind_elements(c, op, make_finish(c, make1(c, OP_OPT_BARRIER, all->shape, all)));
}

void convert_top_k(Converter *c, const MlirOp *op, const OpRow *row)
{
    Instruction *inst = make1(c, OP_TOPK, results_shape(c, op), operand_of(op, 0));
    inst_set_int(inst, ATTR_LARGEST, 1);
    inst_set_int(inst, ATTR_IS_STABLE, 1);
    if (set_row_attrs(c, op, row, inst))
        bind_elements(c, op, make_finish(c, inst));
}
