/* See dense.h. */
#include "ir/eval/dense.h"

#include <string.h>

#include "ir/eval/strided.h"
#include "ir/infer/infer.h"

bool dense_has_sizes(const EvalCall *call)
{
    for (uint32_t i = 0; i < call->inst->operand_count; i++) {
        const Value *x = call->operands[i];
        if (x->sizes != NULL &&
            memcmp(x->sizes, x->shape->dims, x->shape->rank * sizeof *x->sizes) != 0)
            return true;
    }
    return false;
}

/* An array's elements that are there, side by side. */
static Value *packed(EvalCall *call, const Value *x)
{
    uint32_t rank = x->shape->rank;
    if (rank > EVAL_RANK_MAX)
        eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX);
    int64_t sizes[EVAL_RANK_MAX], from[EVAL_RANK_MAX], to[EVAL_RANK_MAX];
    for (uint32_t d = 0; d < rank; d++)
        sizes[d] = value_size(x, d);
    const Shape *s =
        shape_array(eval_intern(call), x->shape->dtype, rank, sizes, NULL, NULL);
    Value *v = eval_array(call, s);
    strides_row_major(rank, x->shape->dims, from);
    strides_row_major(rank, sizes, to);
    strided_copy(value_element_bytes(x), rank, sizes, v->data, to, x->data, from);
    return v;
}

/* The shape of a result that the opcode's rules do not give: of an operand with other elements. */
static const Shape *as_operand(EvalCall *call, const Value *x)
{
    const Shape *s = call->inst->shape;
    int64_t dims[EVAL_RANK_MAX];
    for (uint32_t d = 0; d < s->rank && d < EVAL_RANK_MAX; d++)
        dims[d] = d < x->shape->rank ? x->shape->dims[d] : s->dims[d];
    return shape_array(eval_intern(call), s->dtype, s->rank, dims, NULL, NULL);
}

/* With the element types that are declared. */
static const Shape *declared(EvalCall *call, const Shape *s, const Shape *as)
{
    Intern *t = eval_intern(call);
    if (!shape_is_tuple(s))
        return shape_with_dtype(t, s, as->dtype);
    const Shape **elements = ARENA_ARRAY(call->scratch, const Shape *, s->rank + 1u);
    for (uint32_t i = 0; i < s->rank; i++)
        elements[i] = declared(call, s->elements[i], as->elements[i]);
    return shape_tuple(t, s->rank, elements);
}

static const Shape *result_shape(EvalCall *call, const Instruction *inst)
{
    if (!op_is(inst->op, OPF_INFERABLE))
        return as_operand(call, call->operands[0]);
    Diag *diag = diag_create(call->scratch, "", NULL, 0);
    InferContext cx = {.intern = eval_intern(call),
                       .arena = call->scratch,
                       .diag = diag,
                       .mixed_precision = true};
    const Shape *s = infer_shape(&cx, inst);
    if (s == NULL)
        eval_fail(call, "its operands have sizes that do not fit: %s",
                  diag->first != NULL ? diag->first->text : "");
    return declared(call, s, inst->shape);
}

/* Elements and sizes to where they lie at the bounds. */
static void spread(EvalCall *call, const Value *x, Value *v)
{
    int64_t from[EVAL_RANK_MAX], to[EVAL_RANK_MAX];
    if (x->shape->dtype == DT_TUPLE) {
        for (uint32_t i = 0; i < x->shape->rank; i++)
            spread(call, x->elements[i], v->elements[i]);
        return;
    }
    for (uint32_t d = 0; d < x->shape->rank; d++) {
        if (x->shape->dims[d] > v->shape->dims[d])
            eval_fail(call, "its result has more than %lld elements in dimension %u",
                      (long long)v->shape->dims[d], d);
        value_set_size(v, d, x->shape->dims[d]);
    }
    strides_row_major(x->shape->rank, x->shape->dims, from);
    strides_row_major(x->shape->rank, v->shape->dims, to);
    strided_copy(value_element_bytes(v), x->shape->rank, x->shape->dims, v->data, to,
                 x->data, from);
}

void dense_run(EvalCall *call, EvalFn *fn)
{
    uint32_t n = call->inst->operand_count;
    Instruction inst = *call->inst;
    Instruction *operands = ARENA_ARRAY(call->scratch, Instruction, n + 1u);
    EvalCall inner = *call;
    inner.inst = &inst;
    inner.operands = ARENA_ARRAY(call->scratch, Value *, n + 1u);
    inst.operands = ARENA_ARRAY(call->scratch, Instruction *, n + 1u);
    for (uint32_t i = 0; i < n; i++) {
        inner.operands[i] = packed(call, call->operands[i]);
        operands[i] = *call->inst->operands[i];
        operands[i].shape = inner.operands[i]->shape;
        inst.operands[i] = &operands[i];
    }
    inst.shape = result_shape(&inner, &inst);
    fn(&inner);
    call->result = value_zero(&call->eval->heap, call->inst->shape);
    spread(call, inner.result, call->result);
    value_release(inner.result);
    for (uint32_t i = 0; i < n; i++)
        value_release(inner.operands[i]);
}
