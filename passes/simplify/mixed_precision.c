/* Mixed precision becomes explicit: where a text gives operands and result different float types,
 * and leaves it to the compiler to convert them, conversions say so.
 *
 *   r = f32[8] add(a, b), a: bf16[8], b: f32[8]   =>  c = f32[8] convert(a)   r = f32[8] add(c, b)
 *   r = bf16[8] exponential(b), b: f32[8]         =>  e = f32[8] exponential(b)   r = bf16[8] convert(e)
 *   r = f32[8,4] transpose(a), a: bf16[4,8]       =>  c = f32[4,8] convert(a) r = f32[8,4] transpose(c)
 *   r = bf16[8] all-reduce(b), b: f32[8], sum: f32 =>  s = f32[8] all-reduce(b) r = bf16[8] convert(s)
 *
 * Needs: nothing. Keeps: values. Ends: one sweep. Runs at every level: kernels and rules below take
 * it that what is added, or moved, is of one type. */
#include "ir/analysis/collective.h"
#include "ir/infer/infer.h"
#include "passes/simplify/rewrite.h"
#include "passes/simplify/simplify.h"

typedef struct Mixed {
    Rewriter r;
    Instruction **forward; /* [count] by old id */
    uint32_t count;
} Mixed;

/* -- what is mixed -------------------------------------------------------------------------- */

static bool is_elementwise(const Instruction *inst)
{
    return op_is(inst->op, OPF_ELEMENTWISE) && inst->operand_count > 0 &&
           shape_is_array(inst->shape);
}

/* Gives floats that it is given: all of one type. */
static bool moves_floats(const Instruction *inst)
{
    bool as_bits = inst->op == OP_BITCAST || inst->op == OP_BITCAST_CONVERT;
    return op_is(inst->op, OPF_MOVES) && !as_bits && shape_is_array(inst->shape) &&
           dtype_is_float(inst->shape->dtype);
}

/* Gives what a computation makes of the operands: of k arrays and, behind them, their k start values,
 * or of what is scattered to. */
static const Computation *applied(const Instruction *inst)
{
    switch (inst->op) {
    case OP_REDUCE:
    case OP_REDUCE_WINDOW:
    case OP_SCATTER:
        return inst_called(inst, 0);
    case OP_SELECT_AND_SCATTER:
        return inst_called(inst, 1);
    default:
        return NULL;
    }
}

/* Leaf i of a tuple, or the array that there is. */
static const Shape *part(const Shape *s, uint32_t i)
{
    return shape_is_tuple(s) ? s->elements[i] : s;
}

static const Shape *in_type(Intern *intern, const Shape *s, DType t)
{
    return s->dtype == t ? s : shape_with_dtype(intern, s, t);
}

/* -- collectives: those that reduce do it in the reducer's type, the others move what they give -- */

/* Among a group; send and recv have their type from the same text. */
static bool is_among_group(const Instruction *inst)
{
    return op_is(inst->op, OPF_COLLECTIVE) && inst->op != OP_SEND &&
           inst->op != OP_SEND_DONE && inst->op != OP_RECV && inst->op != OP_RECV_DONE;
}

static bool has_other_type(const Instruction *inst, uint32_t k)
{
    DType from = inst->operands[k]->shape->dtype;
    DType to = collective_result_part(inst, k)->dtype;
    return from != to && dtype_is_float(from) && dtype_is_float(to);
}

/* The type in which operand k goes to the other devices, where it comes out in another than it is given. */
static DType transferred(const Instruction *inst, uint32_t k)
{
    OpCode op = op_plain(inst->op);
    bool reduces = op == OP_ALL_REDUCE || op == OP_REDUCE_SCATTER;
    return reduces ? inst_called(inst, 0)->root->shape->dtype
                   : collective_result_part(inst, k)->dtype;
}

/* Operands (or results) of a collective, one or a tuple, as they go to the other devices. */
static const Shape *transferred_shape(const Instruction *inst, const Shape *s,
                                      bool is_operands, Intern *intern, Arena *scratch)
{
    if (!shape_is_tuple(s)) {
        DType t = has_other_type(inst, 0) ? transferred(inst, 0)
                  : is_operands           ? inst->operands[0]->shape->dtype
                                          : s->dtype;
        return in_type(intern, s, t);
    }
    const Shape **elements = ARENA_ARRAY(scratch, const Shape *, s->rank + 1u);
    for (uint32_t k = 0; k < s->rank; k++) {
        DType t = has_other_type(inst, k) ? transferred(inst, k)
                  : is_operands           ? inst->operands[k]->shape->dtype
                                          : s->elements[k]->dtype;
        elements[k] = in_type(intern, s->elements[k], t);
    }
    return shape_tuple(intern, s->rank, elements);
}

static const Shape *collective_computed(const Instruction *inst, Intern *intern,
                                        Arena *scratch)
{
    const Shape *s = inst->shape, *result = collective_result(inst);
    if (result == s)
        return transferred_shape(inst, s, false, intern, scratch);
    const Shape **elements = arena_copy(scratch, s->elements, s->rank * sizeof *elements);
    for (uint32_t i = 0; i < 2; i++)
        elements[i] = transferred_shape(inst, s->elements[i], i == 0, intern, scratch);
    return shape_tuple(intern, s->rank, elements);
}

static bool ends_collective(const Instruction *inst)
{
    return op_is(inst->op, OPF_ASYNC_DONE) && op_is(op_plain(inst->op), OPF_COLLECTIVE);
}

/* The type that operand i is to have; its own where the opcode does not say. */
static DType wanted(const Instruction *inst, uint32_t i)
{
    const Shape *s = inst->operands[i]->shape;
    const Computation *by = applied(inst);
    if (!shape_is_array(s) || !dtype_is_float(s->dtype))
        return s->dtype;
    if (by != NULL) {
        uint32_t results = shape_is_tuple(by->root->shape) ? by->root->shape->rank : 1;
        bool is_update = inst->op == OP_SCATTER && i > results; /* behind the indices */
        return part(by->root->shape, (is_update ? i - 1 : i) % results)->dtype;
    }
    if (is_among_group(inst))
        return has_other_type(inst, i) ? transferred(inst, i) : s->dtype;
    if (is_elementwise(inst)) {
        OperandRange like = infer_like_operands(inst);
        return i >= like.first && i < like.end ? infer_computing_type(inst) : s->dtype;
    }
    return moves_floats(inst) ? inst->shape->dtype : s->dtype;
}

/* The shape that it gives when its operands have those types. */
static const Shape *computed(const Instruction *inst, Intern *intern, Arena *scratch)
{
    const Computation *by = applied(inst);
    const Shape *s = inst->shape;
    if (is_elementwise(inst))
        return in_type(intern, s, infer_computed_result(inst));
    if (is_among_group(inst))
        return collective_computed(inst, intern, scratch);
    if (ends_collective(inst) && is_among_group(inst->operands[0])) {
        Instruction start = *inst->operands[0];
        start.shape = collective_computed(inst->operands[0], intern, scratch);
        const Shape *ended = collective_result(&start);
        return shape_compatible(ended, s) ? s : ended;
    }
    if (inst->op == OP_COPY && shape_is_tuple(s))
        return shape_compatible(inst->operands[0]->shape, s) ? s
                                                             : inst->operands[0]->shape;
    if (by == NULL)
        return s;
    if (!shape_is_tuple(s))
        return in_type(intern, s, part(by->root->shape, 0)->dtype);
    const Shape **elements = ARENA_ARRAY(scratch, const Shape *, s->rank);
    for (uint32_t i = 0; i < s->rank; i++)
        elements[i] = in_type(intern, s->elements[i], part(by->root->shape, i)->dtype);
    return shape_tuple(intern, s->rank, elements);
}

static bool is_mixed(const Instruction *inst, Intern *intern, Arena *scratch)
{
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (wanted(inst, i) != inst->operands[i]->shape->dtype)
            return true;
    }
    return computed(inst, intern, scratch) != inst->shape;
}

/* -- what becomes of it ------------------------------------------------------------------------ */

/* What `wide` gives, in the types that were declared. */
static Instruction *as_declared(Mixed *x, const Shape *s, Instruction *wide)
{
    if (shape_is_array(s))
        return rw_convert(&x->r, s, wide);
    if (!shape_is_tuple(s))
        return wide;
    Instruction **parts = ARENA_ARRAY(x->r.scratch, Instruction *, s->rank);
    for (uint32_t i = 0; i < s->rank; i++)
        parts[i] = as_declared(x, s->elements[i], rw_element(&x->r, wide, i));
    return rw_add(&x->r, OP_TUPLE, s, s->rank, parts);
}

static void make_explicit(Mixed *x, Instruction *inst)
{
    Intern *intern = x->r.m->intern;
    const Shape *s = computed(inst, intern, x->r.scratch);
    x->r.at = inst;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        Instruction *a = inst->operands[i];
        DType t = wanted(inst, i);
        if (t != a->shape->dtype)
            inst->operands[i] = rw_in_type(&x->r, a, t);
    }
    if (s == inst->shape)
        return;
    if (op_is(inst->op, OPF_ASYNC_START)) { /* its end converts */
        inst->shape = s;
        return;
    }
    Instruction *wide = rw_like(&x->r, inst, s, inst->operand_count, inst->operands);
    wide->control = inst->control;
    wide->control_count = inst->control_count;
    x->forward[inst->id] = as_declared(x, inst->shape, wide);
}

static bool sweep(Module *m, Computation *comp, PassContext *cx)
{
    Mixed x = {.r = {.m = m, .comp = comp, .scratch = cx->scratch, .cx = cx},
               .count = comp->instruction_count};
    for (uint32_t i = 0; i < x.count; i++) {
        Instruction *inst = comp->instructions[i];
        if (inst == NULL || !is_mixed(inst, m->intern, cx->scratch))
            continue;
        if (x.forward == NULL)
            x.forward = ARENA_ARRAY(cx->scratch, Instruction *, x.count);
        make_explicit(&x, inst);
    }
    if (x.forward != NULL)
        computation_substitute(comp, x.forward, x.count);
    return x.forward != NULL;
}

bool pass_mixed_precision(Module *m, PassContext *cx)
{
    bool changed = false;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        changed |= sweep(m, comp, cx);
    if (changed)
        module_sort(m);
    return changed;
}
