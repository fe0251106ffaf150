/* Elements that combine many: reduce, reduce-window, dot and convolution inside a fusion, by
 * nested loops over the symbols of their index maps. One lane. Whoever needs these fast has an
 * emitter of its own; this is the form that fits anywhere. */
#include "codegen/element/op_emit.h"
#include "codegen/element/reducer.h"
#include "ir/base/bug.h"

SelectFn select_reduce, select_reduce_window, select_dot, select_convolution;

/* A nest of loops, one for each symbol. */
typedef struct Nest {
    GxLoop *loops;
    uint32_t count;
    const IndexExpr **symbols;
} Nest;

/* carried: in: initial values; in the innermost body: the current ones. */
static void nest_begin(Emit *e, Nest *n, const IndexMap *map, LLVMValueRef *carried,
                       unsigned carried_count)
{
    n->count = map->symbol_count;
    n->loops = ARENA_ARRAY(e->arena, GxLoop, (size_t)n->count + 1);
    n->symbols = ARENA_ARRAY(e->arena, const IndexExpr *, (size_t)n->count + 1);
    for (uint32_t i = 0; i < n->count; i++) {
        Range r = map->symbols[i];
        if (r.lo == r.hi) {
            n->symbols[i] = ix_const(e->ix, r.lo);
            continue;
        }
        GxLoop *loop = &n->loops[i];
        gx_loop_begin(e->k, loop, emit_index_constant(e, r.lo),
                      emit_index_constant(e, r.hi + 1), emit_index_constant(e, 1),
                      carried, carried_count);
        emit_scope_begin(e);
        n->symbols[i] = emit_variable(e, loop->index, r);
    }
}

static void nest_end(Emit *e, Nest *n, const IndexMap *map, LLVMValueRef *carried,
                     unsigned carried_count)
{
    LLVMValueRef next[EMIT_MOST_LEAVES];
    for (uint32_t i = n->count; i-- > 0;) {
        if (map->symbols[i].lo == map->symbols[i].hi)
            continue;
        for (unsigned c = 0; c < carried_count; c++)
            next[c] = carried[c];
        emit_scope_end(e);
        gx_loop_end(e->k, &n->loops[i], next);
    }
}

/* The next accumulators of all lanes; of one lane where there are several arrays. [array][lane]; `next` may not be
 * `carried`. */
static void combine_lanes(Emit *e, const Reducer *r, const Instruction *inst,
                          const IndexExpr *const *at, const LLVMValueRef *carried,
                          LLVMValueRef *next)
{
    uint32_t lanes = e->lanes;
    LLVMValueRef element[EMIT_MOST_LEAVES];
    for (uint32_t i = 0; i < r->count; i++) {
        emit_element(e, inst->operands[i], at, element + i * lanes);
        for (uint32_t v = 0; v < lanes; v++)
            element[i * lanes + v] = reducer_widen(r, i, element[i * lanes + v]);
    }
    for (uint32_t v = 0; v < lanes; v++)
        reducer_combine(r, carried + v, element + v, next + v);
}

bool combines_lanes(const Instruction *inst, const IndexExpr *const *index)
{
    uint32_t minor = reduced_neighbours(inst);
    for (uint32_t d = 0; d < inst->shape->rank; d++) {
        if (d != minor && !emit_is_uniform(1, &index[d]))
            return false;
    }
    return minor < inst->shape->rank;
}

/* An index outside the operand (window padding) counts as the initial value: it is left out. */
void combine_elements(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                      LLVMValueRef *out)
{
    Reducer r;
    LLVMValueRef start[REDUCER_MOST], carried[EMIT_MOST_LEAVES], next[EMIT_MOST_LEAVES];
    reducer_begin(&r, e, inst);
    reducer_start(&r, start);
    uint32_t values = r.count * e->lanes;
    for (uint32_t i = 0; i < values; i++)
        carried[i] = start[i / e->lanes];
    const IndexMap *map = emit_operand_map(e, inst, 0);
    Nest nest;
    nest_begin(e, &nest, map, carried, values);
    const IndexExpr *at[EMIT_MOST_RANK], *constraints[2 * EMIT_MOST_RANK];
    emit_apply(e, map, index, nest.symbols, at, constraints);
    LLVMValueRef ok = emit_constraints_hold(e, map, constraints);
    GxIf branch;
    emit_if_begin(e, &branch, ok);
    combine_lanes(e, &r, inst, at, carried, next);
    emit_if_end_or(e, &branch, next, carried, values);
    for (uint32_t i = 0; i < values; i++)
        carried[i] = next[i];
    nest_end(e, &nest, map, carried, values);
    for (uint32_t v = 0; v < e->lanes; v++)
        reducer_finish(&r, carried + v, out + v);
}

void select_reduce(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                   LLVMValueRef *out)
{
    if (shape_is_tuple(inst->shape))
        bug("%s has several results: it is no element", inst->name);
    combine_elements(e, inst, index, out);
}

void select_reduce_window(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                          LLVMValueRef *out)
{
    select_reduce(e, inst, index, out);
}

/* -- sums of products ---------------------------------------------------------------------- */

LLVMValueRef multiply_add(Emit *e, DType t, LLVMValueRef x, LLVMValueRef y,
                          LLVMValueRef sum)
{
    LLVMBuilderRef b = e->k->builder;
    if (dtype_is_complex(t)) {
        LLVMValueRef xr = LLVMBuildExtractValue(b, x, 0, ""),
                     xi = LLVMBuildExtractValue(b, x, 1, "");
        LLVMValueRef yr = LLVMBuildExtractValue(b, y, 0, ""),
                     yi = LLVMBuildExtractValue(b, y, 1, "");
        LLVMValueRef sr = LLVMBuildExtractValue(b, sum, 0, ""),
                     si = LLVMBuildExtractValue(b, sum, 1, "");
        LLVMValueRef re = gx_float_op(e->k, LLVMFSub, gx_float_op(e->k, LLVMFMul, xr, yr),
                                      gx_float_op(e->k, LLVMFMul, xi, yi));
        LLVMValueRef im = gx_float_op(e->k, LLVMFAdd, gx_float_op(e->k, LLVMFMul, xr, yi),
                                      gx_float_op(e->k, LLVMFMul, xi, yr));
        sum = LLVMBuildInsertValue(b, sum, gx_float_op(e->k, LLVMFAdd, sr, re), 0, "");
        return LLVMBuildInsertValue(b, sum, gx_float_op(e->k, LLVMFAdd, si, im), 1, "");
    }
    if (dtype_is_float(t))
        return gx_intrinsic(e->k, "fma", (LLVMValueRef[]){x, y, sum}, 3);
    if (t == DT_PRED)
        return LLVMBuildOr(b, sum, LLVMBuildAnd(b, x, y, ""), "");
    return LLVMBuildAdd(b, sum, LLVMBuildMul(b, x, y, ""), "");
}

static void contract(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                     LLVMValueRef *out)
{
    DType result = inst->shape->dtype, t = contract_accumulator(inst);
    LLVMValueRef sum = emit_number(e->k, t, 0);
    const IndexMap *lhs = emit_operand_map(e, inst, 0),
                   *rhs = emit_operand_map(e, inst, 1);
    Nest nest;
    nest_begin(e, &nest, lhs, &sum, 1);
    const IndexExpr *at[EMIT_MOST_RANK], *constraints[2 * EMIT_MOST_RANK];
    emit_apply(e, lhs, index, nest.symbols, at, constraints);
    LLVMValueRef ok = emit_constraints_hold(e, lhs, constraints), x, y;
    GxIf branch;
    emit_if_begin(e, &branch, ok);
    emit_element(e, inst->operands[0], at, &x);
    x = scalar_convert_value(e->k, x, inst->operands[0]->shape->dtype, t);
    LLVMValueRef zero = LLVMConstNull(emit_type(e->k, t));
    emit_if_end_or(e, &branch, &x, &zero, 1); /* which infinite weights make NaN */
    emit_apply(e, rhs, index, nest.symbols, at, NULL);
    emit_element(e, inst->operands[1], at, &y);
    y = scalar_convert_value(e->k, y, inst->operands[1]->shape->dtype, t);
    sum = multiply_add(e, t, x, y, sum);
    nest_end(e, &nest, lhs, &sum, 1);
    out[0] = scalar_convert_value(e->k, sum, t, result);
}

void select_dot(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                LLVMValueRef *out)
{
    contract(e, inst, index, out);
}

void select_convolution(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                        LLVMValueRef *out)
{
    contract(e, inst, index, out);
}
