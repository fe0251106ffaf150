/* Actions of the grammar, second half: instructions, their operands and their attributes. */
#include <stdio.h>

#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parser.h"

/* -- begin ----------------------------------------------------------------------------- */

static void check_name(Parser *p, Pending *at)
{
    Symbol *s = at->symbol;
    if (symbol_is_illegal(s)) {
        bool type = s->text[0] != '_';
        diag_error(p->diag, at->span,
                   "illegal instruction name: %s; suggest renaming to: %s%s%s", s->text,
                   type ? "" : "a_", s->text, type ? "_" : "");
        at->broken = true;
    }
    if (s->scope == scope_top(p)->serial) {
        diag_error(p->diag, at->span, "instruction already exists: %s", s->text);
        diag_note(p->diag, s->span, "instruction previously defined here");
        at->broken = true;
        at->symbol = NULL;
    }
}

bool build_instruction_begin(Parser *p, bool is_root, Span name)
{
    Pending at = {.span = name,
                  .is_root = is_root,
                  .attr_mark = p->attrs.count,
                  .control_mark = p->controls.count};
    Scope *scope = scope_top(p);
    if (name.end != name.begin) {
        at.symbol = symbol_named(p, name);
        check_name(p, &at);
    }
    if (is_root && (scope->root != NULL || scope->root_span.end != 0)) {
        diag_error(p->diag, name, "one computation should have only one ROOT");
        diag_note(p->diag, scope->root_span, "the first one is here");
        at.broken = true;
    }
    if (is_root)
        scope->root_span = name;
    STACK_PUSH(p, p->pending, at);
    return true;
}

/* Sugar of asynchronous operations: `x-start`, `x-update`, `x-done` (section 9.6). */
static OpCode find_sugar(const char *text, size_t length, Sugar *sugar)
{
    static const char *const endings[] = {
        [SUGAR_START] = "-start", [SUGAR_UPDATE] = "-update", [SUGAR_DONE] = "-done"};
    for (Sugar s = SUGAR_START; s <= SUGAR_DONE; s++) {
        size_t ending = strlen(endings[s]);
        if (length > ending && memcmp(text + length - ending, endings[s], ending) == 0) {
            *sugar = s;
            OpCode op = op_find(text, length - ending);
            return op == OP_CONSTANT || op == OP_PARAMETER ? OP_COUNT : op;
        }
    }
    return OP_COUNT;
}

bool build_call_begin(Parser *p, const Shape *shape, Span op, Span open)
{
    Call call = {.shape = shape, .op_span = op, .open_span = open, .parameter = -1};
    size_t length = op.end - op.begin;
    const char *text = p->text + op.begin;
    call.op = op_find(text, length);
    if (call.op == OP_COUNT)
        call.op = find_sugar(text, length, &call.sugar);
    if (call.op == OP_COUNT) {
        diag_error(p->diag, op,
                   "expects opcode but sees: %.*s, error: Unknown opcode: %.*s",
                   (int)length, text, (int)length, text);
        return build_lost(p);
    }
    if (call.op == OP_CONSTANT && call.sugar == SUGAR_NONE) {
        if (shape == NULL) {
            diag_error(p->diag, op, "cannot infer shape for opcode: constant");
            return build_lost(p);
        }
        p->want = WANT_LITERAL;
    }
    STACK_PUSH(p, p->calls, call);
    return true;
}

void build_argument_int(Parser *p, Span value)
{
    Call *call = &p->calls.data[p->calls.count - 1];
    if (call->op != OP_PARAMETER || call->sugar != SUGAR_NONE) {
        diag_error(p->diag, value, "expects an operand of %s, but sees '%.*s'",
                   op_info[call->op].name, (int)(value.end - value.begin),
                   p->text + value.begin);
        call->broken = true;
        return;
    }
    if (!token_int(p, (Token){value, TOK_INT}, &call->parameter)) {
        call->broken = true;
    } else if (call->parameter < 0 || call->parameter >= INT32_MAX) {
        diag_error(p->diag, value, "parameter number %lld: it must be from 0 to %d",
                   (long long)call->parameter, INT32_MAX - 1);
        call->broken = true;
    }
}

/* -- operands -------------------------------------------------------------------------- */

bool build_path(Parser *p, Span index)
{
    int64_t value;
    if (!token_int(p, (Token){index, TOK_INT}, &value))
        return build_lost(p);
    STACK_PUSH(p, p->ints, value);
    return true;
}

/* `%t#1#0`: the element, through get-tuple-elements that are made once per computation. */
static Instruction *follow_path(Parser *p, const Symbol *base, Instruction *inst,
                                Span span, const int64_t *path, size_t length)
{
    const char *key = base->text, *name = base->text;
    for (size_t i = 0; i < length; i++) {
        if (!shape_is_tuple(inst->shape) || path[i] < 0 || path[i] >= inst->shape->rank) {
            diag_error(p->diag, span, "%s of shape %s has no tuple element %lld", key,
                       shape_text(p->scratch, inst->shape, false), (long long)path[i]);
            return NULL;
        }
        key = arena_printf(p->scratch, "%s#%lld", key, (long long)path[i]);
        name = arena_printf(p->arena, "%s_%lld", name, (long long)path[i]);
        Symbol *symbol = symbol_get(p, key, strlen(key));
        bool known;
        Instruction *element = symbol_instruction(p, symbol, &known);
        if (!known) {
            Computation *comp = scope_top(p)->comp;
            element = computation_append(comp, OP_GET_TUPLE_ELEMENT,
                                         inst->shape->elements[path[i]], 1, &inst);
            element->name = name;
            element->span = span;
            inst_set_int(element, ATTR_INDEX, path[i]);
            symbol_bind(p, symbol, element, span);
        }
        inst = element;
    }
    return inst;
}

static void check_operand_shape(Parser *p, const Shape *declared, Span span,
                                Instruction **inst)
{
    if (declared == NULL || *inst == NULL || declared == (*inst)->shape ||
        shape_compatible(declared, (*inst)->shape))
        return;
    diag_error(
        p->diag, span,
        "The declared operand shape %s is not compatible with the shape of the operand "
        "instruction %s.",
        shape_text(p->scratch, declared, true),
        shape_text(p->scratch, (*inst)->shape, true));
    if ((*inst)->span.end != 0)
        diag_note(p->diag, (*inst)->span, "%s is defined here", (*inst)->name);
    *inst = NULL;
}

/* A single instruction's operand that was not seen before becomes a parameter. */
static Instruction *make_parameter(Parser *p, const Shape *shape, Span span,
                                   Symbol *symbol)
{
    Scope *scope = scope_top(p);
    if (shape == NULL) {
        diag_error(p->diag, span, "an operand of a single instruction needs a shape");
        return NULL;
    }
    Instruction *inst = computation_append(scope->comp, OP_PARAMETER, shape, 0, NULL);
    inst->name = symbol != NULL ? symbol->text
                                : arena_printf(p->arena, "_%u", (unsigned)p->anonymous++);
    inst->span = span;
    inst->parameter = (int64_t)(p->parameters.count - scope->parameter_mark);
    STACK_PUSH(p, p->parameters, inst);
    if (symbol != NULL)
        symbol_bind(p, symbol, inst, span);
    return inst;
}

void build_operand(Parser *p, const Shape *shape, Span shape_span, Span name,
                   bool has_name, size_t path)
{
    Instruction *inst = NULL;
    bool known = false;
    p->ints.count -= path;
    if (!has_name) {
        if (p->is_single)
            inst = make_parameter(p, shape, name, NULL);
        else
            diag_error(p->diag, name, "expects the name of an operand behind its shape");
        STACK_PUSH(p, p->operands, inst);
        return;
    }
    Symbol *symbol = symbol_named(p, name);
    inst = symbol_instruction(p, symbol, &known);
    if (!known && p->is_single) {
        inst = make_parameter(p, shape, name, symbol);
    } else if (!known && !scope_top(p)->lost_name && !p->bad) {
        diag_error(p->diag, name, "instruction does not exist: %s", symbol->text);
    }
    if (inst != NULL && path != 0)
        inst = follow_path(p, symbol, inst, name, p->ints.data + p->ints.count, path);
    check_operand_shape(p, shape, shape_span, &inst);
    STACK_PUSH(p, p->operands, inst);
}

/* The operands of a call, popped; false if one of them was wrong. */
static bool pop_operands(Parser *p, size_t count)
{
    bool right = true;
    p->operands.count -= count;
    for (size_t i = 0; i < count; i++)
        right = right && p->operands.data[p->operands.count + i] != NULL;
    return right;
}

void build_nested(Parser *p, size_t operand_count)
{
    Call call = p->calls.data[--p->calls.count];
    Instruction *inst = NULL;
    if (pop_operands(p, operand_count) && !call.broken) {
        if (call.sugar != SUGAR_NONE)
            diag_error(p->diag, call.op_span,
                       "an asynchronous operation cannot be nested");
        else
            inst = build_instruction(p, &call, (uint32_t)operand_count,
                                     p->operands.data + p->operands.count, 0, NULL,
                                     call.op_span, call.op_span);
    }
    if (inst != NULL)
        inst->name = arena_printf(p->arena, "%s.anon", op_info[call.op].name);
    STACK_PUSH(p, p->operands, inst);
}

/* -- attributes ------------------------------------------------------------------------ */

void build_attributes_begin(Parser *p, size_t operand_count, Span at)
{
    Pending *pending = pending_top(p);
    pending->call = p->calls.data[--p->calls.count];
    pending->operand_count = (uint32_t)operand_count;
    pending->attrs_span = at;
}

static void report_unexpected(Parser *p, OpCode op, Token name)
{
    size_t length;
    const char *text = token_text(p, name, &length);
    char allowed[1024];
    size_t at = 0;
    allowed[0] = '\0';
    for (const OpAttr *a = op_info[op].attrs; a->id != ATTR_COUNT; a++) {
        int n = snprintf(allowed + at, sizeof allowed - at, "%s%s", at == 0 ? "" : ", ",
                         attr_info[a->id].name);
        if (n > 0 && (size_t)n < sizeof allowed - at)
            at += (size_t)n;
    }
    diag_error(p->diag, name.span,
               "unexpected attribute \"%.*s\". Allowed attributes: %s%sthose of every "
               "instruction",
               (int)length, text, allowed, at == 0 ? "" : ", and ");
}

/* The row of an attribute of the pending call; a start by sugar has those of the wrapped
 * opcode and those of async-start. */
static const OpAttr *find_attribute(const Call *call, const char *text, size_t length)
{
    if (call->sugar == SUGAR_UPDATE)
        return op_attr(OP_ASYNC_UPDATE, text, length);
    if (call->sugar == SUGAR_DONE)
        return op_attr(OP_ASYNC_DONE, text, length);
    const OpAttr *found = op_attr(call->op, text, length);
    if (found == NULL && call->sugar == SUGAR_START)
        found = op_attr(OP_ASYNC_START, text, length);
    return found;
}

bool build_attribute_begin(Parser *p, Span name)
{
    Pending *at = pending_top(p);
    Token token = {name, TOK_ATTR};
    size_t length;
    const char *text = token_text(p, token, &length);
    const OpAttr *found = find_attribute(&at->call, text, length);
    if (found == NULL) {
        report_unexpected(p, at->call.op, token);
        return build_lost(p);
    }
    for (size_t i = at->attr_mark; i < p->attrs.count; i++) {
        if (p->attrs.data[i].id == found->id) {
            diag_error(p->diag, name, "attribute %.*s already exists", (int)length, text);
            diag_note(p->diag, p->attrs.data[i].span, "it stands here");
            return build_lost(p);
        }
    }
    at->attr = (Attr){.id = found->id, .span = name};
    at->callee_mark = p->callees.count;
    at->shape_mark = p->shapes.count;
    p->want = WANT_ATTRIBUTE;
    return true;
}

void build_callee(Parser *p, Span name)
{
    Computation *comp = symbol_computation(p, name);
    STACK_PUSH(p, p->callees, comp);
}

static void take_callees(Parser *p, Pending *at)
{
    uint32_t count = (uint32_t)(p->callees.count - at->callee_mark);
    p->callees.count = at->callee_mark;
    Computation **from = p->callees.data + at->callee_mark;
    for (uint32_t i = 0; i < count; i++)
        at->broken = at->broken || from[i] == NULL;
    at->attr.computations.count = count;
    if (count != 0)
        at->attr.computations.data = arena_copy(p->arena, from, count * sizeof *from);
}

void build_attribute_end(Parser *p)
{
    Pending *at = pending_top(p);
    AttrKind kind = attr_info[at->attr.id].kind;
    if (kind == AK_COMPUTATION || kind == AK_COMPUTATIONS) {
        take_callees(p, at);
    } else if (kind == AK_SHAPE) {
        at->attr.shape = p->shapes.data[--p->shapes.count];
    } else if (kind == AK_SHAPES) {
        uint32_t count = (uint32_t)(p->shapes.count - at->shape_mark);
        p->shapes.count = at->shape_mark;
        at->attr.shapes.count = count;
        if (count != 0)
            at->attr.shapes.data = arena_copy(p->arena, p->shapes.data + at->shape_mark,
                                              count * sizeof(const Shape *));
    }
    /* Control predecessors are edges, not a value; the entry only tells that it was there. */
    STACK_PUSH(p, p->attrs, at->attr);
}

/* -- end ------------------------------------------------------------------------------- */

static void take_controls(Parser *p, Pending *at, Instruction *inst)
{
    uint32_t count = 0;
    Instruction **from = p->controls.data + at->control_mark;
    size_t all = p->controls.count - at->control_mark;
    for (size_t i = 0; i < all; i++) {
        uint32_t k = 0;
        while (k < count && from[k] != from[i])
            k++;
        if (k == count)
            from[count++] = from[i];
    }
    inst->control_count = count;
    inst->control = arena_copy(p->arena, from, count * sizeof *from);
}

/* Takes the pending instruction off all stacks; what it was bound to is `inst`. */
static void pop_pending(Parser *p, Instruction *inst)
{
    Pending *at = pending_top(p);
    Scope *scope = scope_top(p);
    if (at->symbol != NULL)
        symbol_bind(p, at->symbol, inst, at->span);
    if (inst == NULL)
        scope->broken = true;
    else if (at->is_root)
        scope->root = inst;
    p->attrs.count = at->attr_mark;
    p->controls.count = at->control_mark;
    p->pending.count--;
}

void build_instruction_end(Parser *p)
{
    Pending *at = pending_top(p);
    Instruction *inst = NULL;
    bool right = pop_operands(p, at->operand_count) && !at->call.broken && !at->broken;
    if (right && at->call.sugar != SUGAR_NONE) {
        inst = build_async(p, at, p->operands.data + p->operands.count);
    } else if (right) {
        inst = build_instruction(
            p, &at->call, at->operand_count, p->operands.data + p->operands.count,
            (uint32_t)(p->attrs.count - at->attr_mark), p->attrs.data + at->attr_mark,
            at->symbol != NULL ? at->span : at->call.op_span, at->attrs_span);
    }
    if (inst != NULL) {
        inst->name = at->symbol != NULL ? at->symbol->text : "_";
        if (p->controls.count != at->control_mark)
            take_controls(p, at, inst);
    }
    pop_pending(p, inst);
    if (p->is_single && p->scopes.count == 1)
        build_computation_end(p, at->span);
}

/* After a syntax error inside an instruction: forget what was read of it. */
void build_lost_instruction(Parser *p)
{
    if (p->pending.count < p->scopes.count)
        scope_top(p)->lost_name = true;
    while (p->pending.count >= p->scopes.count)
        pop_pending(p, NULL);
    Scope *scope = scope_top(p);
    scope->broken = true;
    p->calls.count = scope->call_mark;
    p->operands.count = scope->operand_mark;
    p->shapes.count = scope->shape_mark;
    p->callees.count = scope->callee_mark;
    p->ints.count = scope->int_mark;
}
