/* A loop whose elements go their own ways: a thread makes all trips for one of them, what it carries in registers. */
#include "ir/kernel/kinds/element_while.h"
#include "codegen/kernel/emitters.h"
#include "ir/analysis/loop.h"

static const IndexExpr *const *index_of(Emit *e, const WhilePlan *p, uint32_t i,
                                        const IndexExpr *const *own)
{
    uint32_t rank = p->loop->shape->elements[i]->rank;
    const IndexExpr **zero = ARENA_ARRAY(e->arena, const IndexExpr *, (size_t)rank + 1);
    for (uint32_t d = 0; d < rank; d++)
        zero[d] = ix_const(e->ix, 0);
    return p->roles[i] == WHILE_ELEMENT ? own : zero;
}

/* Elements of `from`, a tuple of what is carried. Packed: without what stays as it is. */
static unsigned carried_elements(Emit *e, const WhilePlan *p, const Instruction *from,
                                 const IndexExpr *const *own, LLVMValueRef *out)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        if (while_carries(p, i))
            emit_element(e, from->operands[i], index_of(e, p, i, own), &out[count++]);
    }
    return count;
}

/* Where the values of element `i` stand among those. */
static uint32_t while_value(const WhilePlan *p, int64_t i)
{
    uint32_t before = 0;
    for (int64_t k = 0; k < i; k++)
        before += while_carries(p, k);
    return before;
}

/* Kernel arguments of the loop's tuple: those of the parameters that stay as they are. */
static const uint32_t *arguments(Emit *e, const WhilePlan *p)
{
    uint32_t *args = ARENA_ARRAY(e->arena, uint32_t, (size_t)p->count + 1);
    for (uint32_t i = 0; i < p->count; i++) {
        const Instruction *x = p->loop->operands[0]->operands[i];
        if (p->roles[i] == WHILE_UNCHANGED && x->op == OP_PARAMETER)
            args[i] = e->parameter_args[x->parameter];
    }
    return args;
}

/* What a trip writes of the arrays that the loop fills. */
static void store_pieces(Emit *e, const WhilePlan *p, const Instruction *fusion,
                         const IndexExpr *const *own)
{
    const IndexExpr *from[EMIT_MOST_RANK], *to[EMIT_MOST_RANK], *zero[EMIT_MOST_RANK];
    for (uint32_t d = 0; d < EMIT_MOST_RANK; d++)
        zero[d] = ix_const(e->ix, 0);
    for (uint32_t r = 0; r < fusion_result_count(fusion); r++) {
        FusionResult result = fusion_result(fusion, r);
        LLVMValueRef value;
        if (p->roles[result.inst_leaf] != WHILE_FILLED)
            continue;
        const Instruction *update = while_update(p, result.inst_leaf);
        while_piece_index(e->ix, p, result.inst_leaf, own, from);
        emit_element(e, update->operands[1], from, &value);
        /* the map sends index 0 to minus the start */
        emit_apply(e, emit_operand_map(e, update, 1), zero, NULL, to, NULL);
        for (uint32_t d = 0; d < result.shape->rank; d++)
            to[d] = ix_add(e->ix, from[d], ix_mul(e->ix, to[d], -1));
        emit_store(e, fusion_result_arg(fusion, r), result.shape, to, &value);
    }
}

/* The body or the condition, of which a thread knows what is carried. */
static Emit *enter(Emit *e, const WhilePlan *p, const Computation *comp,
                   const IndexExpr *linear, const LLVMValueRef *carried,
                   const IndexExpr **own)
{
    Range elements = {0, shape_elements(p->shape) - 1};
    bool is_wide = LLVMGetIntTypeWidth(e->index_type) == 64;
    Emit *in = emit_begin(e->k, comp, arguments(e, p), is_wide, 1);
    emit_delinear(in, p->shape, emit_variable(in, emit_index(e, linear, 0), elements),
                  own);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        int64_t i = loop_element(comp, inst);
        if (i >= 0 && while_carries(p, i))
            emit_preset(in, inst, &carried[while_value(p, i)]);
    }
    return in;
}

/* An element whose trip it is has not ended: what the body asks for that is not computed again, which might be rounded
 * otherwise. */
static void preset_more(Emit *in, const WhilePlan *p)
{
    LLVMValueRef yes = LLVMConstInt(LLVMInt1TypeInContext(in->k->context), 1, 0);
    for (uint32_t i = 0; p->ends_alone && i < p->count; i++) {
        if (p->roles[i] == WHILE_ELEMENT)
            emit_preset(in, while_asks(p, i), &yes);
    }
}

/* One trip: the values of the next one. */
static void trip(Emit *e, const EmitterInput *input, const IndexExpr *linear,
                 const LLVMValueRef *carried, LLVMValueRef *next)
{
    const WhilePlan *p = input->design->plan.element_while;
    const IndexExpr *own[EMIT_MOST_RANK];
    Emit *in = enter(e, p, p->body, linear, carried, own);
    preset_more(in, p);
    carried_elements(in, p, p->body->root, own, next);
    store_pieces(in, p, input->fusion, own);
}

/* Whether there is another one: an i1. */
static LLVMValueRef goes_on(Emit *e, const WhilePlan *p, const IndexExpr *linear,
                            const LLVMValueRef *carried)
{
    const IndexExpr *own[EMIT_MOST_RANK], *zero[EMIT_MOST_RANK];
    Emit *in = enter(e, p, inst_called(p->loop, 0), linear, carried, own);
    LLVMValueRef more;
    for (uint32_t d = 0; d < EMIT_MOST_RANK; d++)
        zero[d] = ix_const(in->ix, 0);
    emit_element(in, p->more, p->ends_alone ? own : zero, &more);
    return more;
}

/* All trips; what is carried becomes what it is after the last one. */
static void make_trips(Emit *e, const EmitterInput *in, const IndexExpr *linear,
                       LLVMValueRef *carried, unsigned count)
{
    const WhilePlan *p = in->design->plan.element_while;
    LLVMValueRef *next = ARENA_ARRAY(e->arena, LLVMValueRef, (size_t)p->count + 1);
    GxLoop loop;
    bool is_counted = p->trips >= 0;
    if (is_counted)
        gx_loop_begin(e->k, &loop, emit_index_constant(e, 0),
                      emit_index_constant(e, p->trips), emit_index_constant(e, 1),
                      carried, count);
    else
        gx_while_begin(e->k, &loop, carried, count);
    emit_scope_begin(e);
    if (!is_counted)
        gx_while_body(e->k, &loop, goes_on(e, p, linear, carried));
    trip(e, in, linear, carried, next);
    emit_scope_end(e);
    if (is_counted)
        gx_loop_end(e->k, &loop, next);
    else
        gx_while_end(e->k, &loop, next);
}

/* What several threads have the first of them stores. */
static void store(Emit *e, const WhilePlan *p, uint32_t arg, const Shape *shape,
                  const IndexExpr *const *own, const LLVMValueRef *value)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMValueRef is_first = NULL;
    GxIf s;
    for (uint32_t d = shape->rank; d < p->shape->rank; d++) {
        LLVMValueRef zero = LLVMBuildICmp(b, LLVMIntEQ, emit_index(e, own[d], 0),
                                          emit_index_constant(e, 0), "");
        is_first = is_first == NULL ? zero : LLVMBuildAnd(b, is_first, zero, "");
    }
    if (is_first != NULL)
        gx_if_begin(e->k, &s, is_first);
    emit_scope_begin(e);
    emit_store(e, arg, shape, own, value);
    emit_scope_end(e);
    if (is_first != NULL)
        gx_if_end(e->k, &s, NULL, 0, NULL);
}

static void emit_trips(Emit *e, const void *user, const IndexExpr *linear)
{
    const EmitterInput *in = user;
    const WhilePlan *p = in->design->plan.element_while;
    const IndexExpr *own[EMIT_MOST_RANK];
    LLVMValueRef *carried = ARENA_ARRAY(e->arena, LLVMValueRef, (size_t)p->count + 1);
    emit_delinear(e, p->shape, linear, own);
    unsigned count = carried_elements(e, p, p->loop->operands[0], own, carried);
    make_trips(e, in, linear, carried, count);
    for (uint32_t r = 0; r < fusion_result_count(in->fusion); r++) {
        FusionResult result = fusion_result(in->fusion, r);
        if (p->roles[result.inst_leaf] == WHILE_ELEMENT)
            store(e, p, fusion_result_arg(in->fusion, r), result.shape, own,
                  &carried[while_value(p, result.inst_leaf)]);
    }
}

Kernel *emitter_element_while(const EmitterInput *in)
{
    int64_t elements = shape_elements(in->design->plan.element_while->shape);
    return emitter_finish(in, emit_for_elements(in, elements, 1, emit_trips, in));
}
