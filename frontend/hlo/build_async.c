/* Sugar of asynchronous operations (section 9.6): `x-start(a, b), attributes of x` stands for an
 * async-start of a computation that holds one x; `x-update` and `x-done` follow it. */
#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parser.h"

static bool stays_outside(AttrId id)
{
    return id == ATTR_ASYNC_EXECUTION_THREAD || id == ATTR_SHARDING ||
           id == ATTR_CONTROL_PREDECESSORS || id == ATTR_STATISTICS;
}

/* Attributes of the start (or update, done) itself. */
static bool is_of_outer(AttrId id)
{
    return id == ATTR_ASYNC_EXECUTION_THREAD || attr_info[id].shared;
}

static uint32_t split_attributes(Parser *p, const Pending *at, bool outer, Attr *out)
{
    uint32_t n = 0;
    for (size_t i = at->attr_mark; i < p->attrs.count; i++) {
        AttrId id = p->attrs.data[i].id;
        if (outer ? is_of_outer(id) : !stays_outside(id))
            out[n++] = p->attrs.data[i];
    }
    return n;
}

/* Later updates bring more operands: there are fewer than the opcode takes, or none and no
 * result yet. */
static bool leaves_open(OpCode op, uint32_t operand_count, const Shape *result)
{
    bool empty = shape_is_tuple(result) && result->rank == 0;
    int arity = op_info[op].arity;
    return arity >= 0 ? operand_count < (uint32_t)arity : operand_count == 0 && empty;
}

/* The computation around the wrapped operation; NULL after a message. */
static Computation *wrap(Parser *p, const Pending *at, const Shape *shape,
                         const char *thread)
{
    const Shape *inputs = shape->elements[0];
    Attr *attrs = ARENA_ARRAY(p->scratch, Attr, p->attrs.count - at->attr_mark + 1);
    uint32_t attr_count = split_attributes(p, at, false, attrs);
    Call call = at->call;
    Span span = at->span, attrs_span = at->attrs_span;
    build_computation_begin(p, false, span, true);
    Computation *comp = scope_top(p)->comp;
    comp->name = "async_wrapped";
    comp->execution_thread = thread;
    comp->is_async_wrapped = true;
    Instruction **operands = ARENA_ARRAY(p->scratch, Instruction *, inputs->rank + 1u);
    for (uint32_t i = 0; i < inputs->rank; i++) {
        operands[i] =
            computation_append(comp, OP_PARAMETER, inputs->elements[i], 0, NULL);
        operands[i]->name = "async_param";
        operands[i]->span = span;
        operands[i]->parameter = i;
        STACK_PUSH(p, p->parameters, operands[i]);
    }
    call.shape = shape->elements[1];
    call.sugar = SUGAR_NONE;
    bool open = leaves_open(call.op, inputs->rank, call.shape);
    Instruction *root =
        open ? build_open(p, &call, inputs->rank, operands, attr_count, attrs, span)
             : build_instruction(p, &call, inputs->rank, operands, attr_count, attrs,
                                 span, attrs_span);
    if (open)
        STACK_PUSH(p, p->open_async, comp);
    if (root != NULL)
        root->name = "async_op";
    else
        scope_top(p)->broken = true;
    return build_computation_end(p, span);
}

static Instruction *build_start(Parser *p, Pending *at, Instruction **operands)
{
    const Shape *shape = at->call.shape;
    if (!async_is_shape(shape)) {
        diag_error(p->diag, at->call.op_span,
                   "the shape of an asynchronous start is ((operands...), result, ...)");
        return NULL;
    }
    const char *thread = "main";
    Attr *attrs = ARENA_ARRAY(p->scratch, Attr, p->attrs.count - at->attr_mark + 2);
    uint32_t count = split_attributes(p, at, true, attrs);
    for (uint32_t i = 0; i < count; i++) {
        if (attrs[i].id == ATTR_ASYNC_EXECUTION_THREAD)
            thread = attrs[i].bytes.data;
    }
    /* the stacks may move: remember the operands */
    Instruction **kept =
        arena_copy(p->scratch, operands, at->operand_count * sizeof *operands);
    Call call = at->call;
    Span span = at->span, attrs_span = at->attrs_span;
    uint32_t operand_count = at->operand_count;
    Computation *comp = wrap(p, at, shape, thread);
    if (comp == NULL)
        return NULL;
    Computation **callee = ARENA_NEW(p->arena, Computation *);
    *callee = comp;
    attrs[count++] = (Attr){.id = ATTR_CALLS, .computations = {callee, 1}};
    call.op = OP_ASYNC_START;
    return build_instruction(p, &call, operand_count, kept, count, attrs, span,
                             attrs_span);
}

/* What a follower by sugar tells of the operation; false after a message. */
static bool update_wrapped(Parser *p, Pending *at, Computation *comp)
{
    const Shape *s = at->call.shape;
    if (!comp->is_async_wrapped || s == NULL)
        return true;
    bool done = at->call.sugar == SUGAR_DONE;
    if (!done && (!async_is_shape(s) || s->elements[0]->rank < comp->parameter_count))
        return true; /* the verifier's business */
    bool open = false;
    for (size_t i = 0; i < p->open_async.count; i++)
        open = open || p->open_async.data[i] == comp;
    if (!open && !done && s->elements[0]->rank > comp->parameter_count) {
        open = true;
        STACK_PUSH(p, p->open_async, comp);
    }
    const Shape *result = comp->root->shape;
    if (done && shape_is_tuple(result) && result->rank == 0)
        comp->root->shape = s; /* the start did not know it */
    if (open)
        async_bind(p, comp, done ? NULL : s->elements[0], done ? s : s->elements[1]);
    return !done || !open || build_complete(p, comp->root, at->call.op_span);
}

static Instruction *build_follower(Parser *p, Pending *at, Instruction **operands)
{
    Call call = at->call;
    const char *name = op_info[call.op].name;
    const Instruction *start =
        at->operand_count != 0 ? async_start_of(operands[0]) : NULL;
    if (start == NULL) {
        diag_error(
            p->diag, call.op_span,
            "%s-%s expects the result of %s-start or %s-update as its first operand",
            name, call.sugar == SUGAR_DONE ? "done" : "update", name, name);
        return NULL;
    }
    const Computation *comp = inst_called(start, 0);
    if (comp->root == NULL || comp->root->op != call.op) {
        diag_error(p->diag, call.op_span, "%s-%s belongs to %s-start, but %s starts %s",
                   name, call.sugar == SUGAR_DONE ? "done" : "update", name, start->name,
                   comp->root == NULL ? "computation" : op_info[comp->root->op].name);
        diag_note(p->diag, start->span, "%s is defined here", start->name);
        return NULL;
    }
    if (!update_wrapped(p, at, inst_called(start, 0)))
        return NULL;
    Attr *attrs = ARENA_ARRAY(p->scratch, Attr, p->attrs.count - at->attr_mark + 1);
    uint32_t count = split_attributes(p, at, true, attrs);
    call.op = call.sugar == SUGAR_DONE ? OP_ASYNC_DONE : OP_ASYNC_UPDATE;
    return build_instruction(p, &call, at->operand_count, operands, count, attrs,
                             at->span, at->attrs_span);
}

Instruction *build_async(Parser *p, Pending *at, Instruction **operands)
{
    return at->call.sugar == SUGAR_START ? build_start(p, at, operands)
                                         : build_follower(p, at, operands);
}
