/* Computations inside a kernel: reducers, comparators, combiners and what they call, inlined.
 *
 * Every value is held in registers, all elements of all its leaves one after the other in row-major order, so
 * that a body may hold small arrays: a step on arrays goes through the elemental core (element.c), which
 * finds its operands there. A while becomes a loop of LLVM. */
#include <string.h>

#include "codegen/element/op_emit.h"
#include "ir/base/bug.h"

#define NESTED_MOST 1024         /* elements of an array */
#define NESTED_MOST_CHOICES 2048 /* of elements, for those that a loop reads */

typedef struct Nested {
    Emit *e; /* of whoever inlines the computation */
    Emit
        *inside; /* emits elements of the computation's own instructions; NULL: not yet */
    const Computation *comp;
    const LLVMValueRef *args; /* of all parameters, one after the other */
    LLVMValueRef **values;    /* by instruction id */
} Nested;

/* -- values ------------------------------------------------------------------------------------ */

static size_t leaf_values(const Shape *s)
{
    return shape_is_array(s) ? (size_t)shape_elements(s) : 0;
}

/* Values before leaf `leaf`. */
static size_t values_before(const Shape *s, size_t leaf)
{
    size_t count = 0;
    for (size_t i = 0; i < leaf; i++)
        count += leaf_values(shape_leaf(s, i));
    return count;
}

static size_t value_count(const Shape *s)
{
    return values_before(s, shape_leaf_count(s));
}

GXC_NORETURN static void unsupported(const Instruction *inst, const char *why)
{
    if (inst->span.end > inst->span.begin)
        escape_innermost()->at = inst->span;
    escape_throw(ESCAPE_UNSUPPORTED, "%s (%s) in the computation %s of a kernel%s",
                 inst->name, op_info[inst->op].name, inst->parent->name, why);
}

static void check_size(Nested *n, const Instruction *inst)
{
    for (size_t i = 0; i < shape_leaf_count(inst->shape); i++) {
        const Shape *s = shape_leaf(inst->shape, i);
        if (shape_is_array(s) && shape_elements(s) > NESTED_MOST)
            unsupported(
                inst, arena_printf(n->e->arena, ": more than %d elements", NESTED_MOST));
    }
}

/* -- control ----------------------------------------------------------------------------------- */

static bool has_loop(const Computation *comp)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op == OP_WHILE)
            return true;
        for (uint32_t k = 0; op_is(inst->op, OPF_CONTROL) && k < inst_called_count(inst);
             k++) {
            if (has_loop(inst_called(inst, k)))
                return true;
        }
    }
    return false;
}

static void branch_values(Nested *n, const Instruction *inst, uint32_t branch,
                          LLVMValueRef *out)
{
    emit_computation(n->e, inst_called(inst, branch),
                     n->values[inst->operands[branch + 1]->id], out);
}

/* i1: the conditional takes this branch, which is not its last. */
static LLVMValueRef takes_branch(Nested *n, const Instruction *inst, uint32_t branch)
{
    const Instruction *index = inst->operands[0];
    LLVMValueRef value = n->values[index->id][0];
    bool is_pred = index->shape->dtype == DT_PRED;
    LLVMValueRef number =
        LLVMConstInt(LLVMTypeOf(value), is_pred ? branch == 0 : branch, 0);
    return LLVMBuildICmp(n->e->k->builder, LLVMIntEQ, value, number, "");
}

/* The branches from `first` on, one of which runs. */
static void run_branch(Nested *n, const Instruction *inst, uint32_t first,
                       LLVMValueRef *out)
{
    if (first + 1 == inst_called_count(inst)) {
        branch_values(n, inst, first, out);
        return;
    }
    unsigned count = (unsigned)value_count(inst->shape);
    LLVMValueRef *other = ARENA_ARRAY(n->e->arena, LLVMValueRef, count + 1);
    GxIf s;
    emit_if_begin(n->e, &s, takes_branch(n, inst, first));
    branch_values(n, inst, first, out);
    emit_if_else(n->e, &s, out, count);
    run_branch(n, inst, first + 1, other);
    emit_if_end(n->e, &s, other, count, out);
}

/* All branches, which have no effects, then the chosen one's values. An index out of range takes the
 * last. */
static void choose_branch(Nested *n, const Instruction *inst, LLVMValueRef *out)
{
    size_t count = value_count(inst->shape);
    uint32_t last = inst_called_count(inst) - 1;
    LLVMValueRef *branch = ARENA_ARRAY(n->e->arena, LLVMValueRef, count + 1);
    branch_values(n, inst, last, out);
    for (uint32_t i = last; i-- > 0;) {
        branch_values(n, inst, i, branch);
        LLVMValueRef takes = takes_branch(n, inst, i);
        for (size_t k = 0; k < count; k++)
            out[k] = LLVMBuildSelect(n->e->k->builder, takes, branch[k], out[k], "");
    }
}

static void conditional(Nested *n, const Instruction *inst, LLVMValueRef *out)
{
    bool loops = false; /* one that is not taken might not end */
    for (uint32_t i = 0; i < inst_called_count(inst) && !loops; i++)
        loops = has_loop(inst_called(inst, i));
    if (loops)
        run_branch(n, inst, 0, out);
    else
        choose_branch(n, inst, out);
}

static void loop(Nested *n, const Instruction *inst, LLVMValueRef *out)
{
    Kernel *k = n->e->k;
    const Instruction *init = inst->operands[0];
    unsigned count = (unsigned)value_count(inst->shape);
    LLVMValueRef *next = ARENA_ARRAY(n->e->arena, LLVMValueRef, count + 1), more;
    memcpy(out, n->values[init->id], count * sizeof *out);
    GxLoop w;
    gx_while_begin(k, &w, out, count);
    emit_scope_begin(n->e);
    emit_computation(n->e, inst_called(inst, 0), out, &more);
    gx_while_body(k, &w, more);
    emit_computation(n->e, inst_called(inst, 1), out, next);
    emit_scope_end(n->e);
    gx_while_end(k, &w, next);
}

static void call(Nested *n, const Instruction *inst, LLVMValueRef *out)
{
    size_t count = 0;
    for (uint32_t i = 0; i < inst->operand_count; i++)
        count += value_count(inst->operands[i]->shape);
    LLVMValueRef *args = ARENA_ARRAY(n->e->arena, LLVMValueRef, count + 1), *at = args;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        size_t part = value_count(inst->operands[i]->shape);
        memcpy(at, n->values[inst->operands[i]->id], part * sizeof *at);
        at += part;
    }
    emit_computation(n->e, inst_called(inst, 0), args, out);
}

/* -- steps ------------------------------------------------------------------------------------- */

/* The emitter of the computation's own elements, which knows what is there of inst's operands. */
static Emit *inside(Nested *n, const Instruction *inst)
{
    if (n->inside == NULL)
        n->inside =
            emit_begin(n->e->k, n->comp, NULL, !computation_fits_32_bits(n->comp), 1);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Instruction *x = inst->operands[i];
        emit_preset_elements(n->inside, x, n->values[x->id]);
    }
    return n->inside;
}

static void index_of(Emit *e, const Shape *s, int64_t element, const IndexExpr **out)
{
    for (uint32_t d = s->rank; d-- > 0; element /= s->dims[d])
        out[d] = ix_const(e->ix, element % s->dims[d]);
}

/* An array by its elements. */
static void array(Nested *n, const Instruction *inst, LLVMValueRef *out)
{
    Emit *e = inside(n, inst);
    const IndexExpr *index[EMIT_MOST_RANK];
    for (int64_t i = 0; i < shape_elements(inst->shape); i++) {
        index_of(e, inst->shape, i, index);
        emit_element(e, inst, index, &out[i]);
    }
}

/* The leaves of a reduction are combined together. */
static void reduction(Nested *n, const Instruction *inst, LLVMValueRef *out)
{
    Emit *e = inside(n, inst);
    const Shape *s = shape_leaf(inst->shape, 0);
    size_t leaves = shape_leaf_count(inst->shape);
    LLVMValueRef *element = ARENA_ARRAY(e->arena, LLVMValueRef, leaves + 1);
    const IndexExpr *index[EMIT_MOST_RANK];
    for (int64_t i = 0; i < shape_elements(s); i++) {
        index_of(e, s, i, index);
        combine_elements(e, inst, index, element);
        for (size_t k = 0; k < leaves; k++)
            out[(int64_t)k * shape_elements(s) + i] = element[k];
    }
}

static bool is_one(const Instruction *inst)
{
    return shape_is_array(inst->shape) && shape_elements(inst->shape) == 1;
}

/* A step on single elements, without an index; false if it is none. */
static bool scalar(Nested *n, const Instruction *inst, LLVMValueRef *out)
{
    const OpEmit *emit = &op_emit[inst->op];
    LLVMValueRef operands[8];
    if (!is_one(inst) || inst->operand_count > 8)
        return false;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (!is_one(inst->operands[i]))
            return false;
        operands[i] = n->values[inst->operands[i]->id][0];
    }
    if (element_kind[inst->op] == ELEMENT_SCALAR)
        out[0] = emit->scalar(n->e->k, inst, operands);
    else if (element_kind[inst->op] == ELEMENT_MOVE &&
             inst->operands[0]->shape->dtype == inst->shape->dtype)
        out[0] = operands[0];
    else if (inst->op == OP_BITCAST)
        out[0] = op_emit[OP_BITCAST_CONVERT].scalar(n->e->k, inst, operands);
    else
        return false;
    return true;
}

static void constant(Nested *n, const Instruction *inst, LLVMValueRef *out)
{
    for (int64_t i = 0; i < shape_elements(inst->shape); i++)
        out[i] = emit_constant(n->e->k, inst->shape->dtype, inst->literal, i);
}

/* A loop that sums up chooses among all elements of its operands, for each element of the result. */
static void check_choices(Nested *n, const Instruction *inst)
{
    int64_t choices = 0;
    for (uint32_t i = 0; i < inst->operand_count; i++)
        choices += shape_elements(inst->operands[i]->shape);
    if (choices * shape_elements(shape_leaf(inst->shape, 0)) > NESTED_MOST_CHOICES)
        unsupported(inst, arena_printf(n->e->arena, ": more than %d choices of elements",
                                       NESTED_MOST_CHOICES));
}

static void step(Nested *n, const Instruction *inst, LLVMValueRef *out)
{
    switch (element_kind[inst->op]) {
    case ELEMENT_SCALAR:
    case ELEMENT_MOVE:
        if (scalar(n, inst, out))
            return;
        if (inst->op == OP_DYNAMIC_SLICE || inst->op == OP_DYNAMIC_UPDATE_SLICE ||
            inst->op == OP_GATHER)
            check_choices(n, inst);
        array(n, inst, out);
        return;
    case ELEMENT_CONSTANT:
        constant(n, inst, out);
        return;
    case ELEMENT_REDUCE:
        check_choices(n, inst);
        reduction(n, inst, out);
        return;
    case ELEMENT_CONTRACT:
        check_choices(n, inst);
        array(n, inst, out);
        return;
    case ELEMENT_SELECT:
    case ELEMENT_INDEX:
        array(n, inst, out);
        return;
    default:
        unsupported(inst, "");
    }
}

static void run(Nested *n, const Instruction *inst, LLVMValueRef *out)
{
    size_t at = 0;
    switch (inst->op) {
    case OP_CONDITIONAL:
        conditional(n, inst, out);
        return;
    case OP_WHILE:
        loop(n, inst, out);
        return;
    case OP_CALL:
        call(n, inst, out);
        return;
    case OP_TUPLE:
        for (uint32_t i = 0; i < inst->operand_count; i++) {
            size_t count = value_count(inst->operands[i]->shape);
            memcpy(out + at, n->values[inst->operands[i]->id], count * sizeof *out);
            at += count;
        }
        return;
    default:
        step(n, inst, out);
    }
}

/* What parameter i's values stand behind. */
static size_t parameter_index(const Computation *comp, int64_t parameter)
{
    size_t at = 0;
    for (int64_t i = 0; i < parameter; i++)
        at += value_count(comp->parameters[i]->shape);
    return at;
}

static LLVMValueRef *values_of(Nested *n, const Instruction *inst)
{
    const Instruction *x = inst->operand_count != 0 ? inst->operands[0] : NULL;
    size_t count = value_count(inst->shape);
    check_size(n, inst);
    if (inst->op == OP_PARAMETER)
        return arena_copy(n->e->arena,
                          n->args + parameter_index(n->comp, inst->parameter),
                          count * sizeof *n->args);
    if (inst->op == OP_GET_TUPLE_ELEMENT) {
        size_t leaf = x->shape->first_leaf[inst_int(inst, ATTR_INDEX, 0)];
        return n->values[x->id] + values_before(x->shape, leaf);
    }
    if (element_kind[inst->op] == ELEMENT_ALIAS && inst->op != OP_TUPLE)
        return n->values[x->id];
    LLVMValueRef *out = ARENA_ARRAY(n->e->arena, LLVMValueRef, count + 1);
    run(n, inst, out);
    return out;
}

static void emit_value_of(Emit *e, const Instruction *inst, const LLVMValueRef *args,
                          LLVMValueRef *out)
{
    const Computation *comp = inst->parent;
    uint32_t count;
    Instruction **order = computation_post_order(comp, e->arena, &count);
    Nested n = {.e = e,
                .comp = comp,
                .args = args,
                .values =
                    ARENA_ARRAY(e->arena, LLVMValueRef *, comp->instruction_count + 1)};
    for (uint32_t i = 0; i < count; i++)
        n.values[order[i]->id] = values_of(&n, order[i]);
    memcpy(out, n.values[inst->id], value_count(inst->shape) * sizeof *out);
}

void emit_computation(Emit *e, const Computation *comp, const LLVMValueRef *args,
                      LLVMValueRef *out)
{
    emit_value_of(e, comp->root, args, out);
}

LLVMValueRef emit_inside(Emit *e, const Instruction *inst, const LLVMValueRef *args)
{
    LLVMValueRef out;
    emit_value_of(e, inst, args, &out);
    return out;
}
