/* Code for index expressions: the kernel's variables, indices, and the conditions that they are in range. */
#include "codegen/element/memo.h"
#include "ir/base/bug.h"

/* The kernel's variables and the lane are numbered above all variables of index maps, so that
 * substituting a map's own variables never touches them. */
#define VARIABLE_BASE (1u << 24)

const IndexExpr *emit_variable(Emit *e, LLVMValueRef value, Range range)
{
    if (e->variable_count >= VARIABLE_BASE)
        bug("a kernel has too many variables");
    e->variables = arena_grow(e->arena, e->variables, &e->variable_capacity,
                              e->variable_count + 1, sizeof *e->variables);
    e->variables[e->variable_count] = value;
    return ix_runtime(e->ix, VARIABLE_BASE + (uint32_t)e->variable_count++, range);
}

const IndexExpr *emit_lane(Emit *e)
{
    return ix_symbol(e->ix, VARIABLE_BASE, (Range){0, (int64_t)e->lanes - 1});
}

static bool depends_on_lane(const IndexExpr *x)
{
    return ix_depends(x, IX_SYMBOL, VARIABLE_BASE);
}

LLVMValueRef emit_index_constant(Emit *e, int64_t value)
{
    return LLVMConstInt(e->index_type, (uint64_t)value, 1);
}

/* A sum or a product: it fits. */
static LLVMValueRef sum_code(Emit *e, const IndexExpr *x, uint32_t lane)
{
    LLVMBuilderRef b = e->k->builder;
    bool is_sum = x->kind == IX_ADD;
    LLVMValueRef p = emit_index(e, x->a, lane),
                 q = is_sum ? emit_index(e, x->b, lane)
                            : emit_index_constant(e, x->value);
    if (is_sum && LLVMIsAConstantInt(q) != NULL && LLVMConstIntGetZExtValue(q) == 0)
        return p; /* the first lane */
    if (x->a->range.lo >= 0 && (is_sum ? x->b->range.lo : x->value) >= 0)
        return is_sum ? gx_add_natural(e->k, p, q) : gx_mul_natural(e->k, p, q);
    return is_sum ? LLVMBuildNSWAdd(b, p, q, "") : LLVMBuildNSWMul(b, p, q, "");
}

static LLVMValueRef index_code(Emit *e, const IndexExpr *x, uint32_t lane)
{
    LLVMBuilderRef b = e->k->builder;
    switch (x->kind) {
    case IX_CONST:
        return emit_index_constant(e, x->value);
    case IX_SYMBOL:
        if (x->value != VARIABLE_BASE)
            bug("an index expression holds the free symbol s%lld", (long long)x->value);
        return emit_index_constant(e, lane);
    case IX_RUNTIME:
        if (x->value < VARIABLE_BASE)
            bug("an index expression holds the free variable r%lld", (long long)x->value);
        return e->variables[x->value - VARIABLE_BASE];
    case IX_DIM:
        bug("an index expression holds the free dimension d%lld", (long long)x->value);
    case IX_ADD:
    case IX_MUL:
        return sum_code(e, x, lane);
    case IX_FLOORDIV:
    case IX_MOD: {
        LLVMValueRef a = emit_index(e, x->a, lane), c = emit_index_constant(e, x->value);
        bool mod = x->kind == IX_MOD;
        if (x->a->range.lo >= 0)
            return mod ? LLVMBuildURem(b, a, c, "") : LLVMBuildUDiv(b, a, c, "");
        /* floor, not truncation, of a value that may be negative */
        LLVMValueRef zero = emit_index_constant(e, 0);
        LLVMValueRef r = LLVMBuildSRem(b, a, c, "");
        LLVMValueRef negative = LLVMBuildICmp(b, LLVMIntSLT, r, zero, "");
        if (mod)
            return LLVMBuildAdd(b, r, LLVMBuildSelect(b, negative, c, zero, ""), "");
        LLVMValueRef q = LLVMBuildSDiv(b, a, c, "");
        return LLVMBuildAdd(
            b, q, LLVMBuildSelect(b, negative, emit_index_constant(e, -1), zero, ""), "");
    }
    }
    bug("an index expression of kind %d", (int)x->kind);
}

LLVMValueRef emit_index(Emit *e, const IndexExpr *expr, uint32_t lane)
{
    if (!depends_on_lane(expr))
        lane = 0;
    MemoEntry *m = memo_find(e, NULL, 1, &expr, lane);
    if (m != NULL)
        return m->values[0];
    LLVMValueRef v = index_code(e, expr, lane);
    memo_add(e, NULL, 1, &expr, lane, &v, 1);
    return v;
}

LLVMValueRef emit_in_range(Emit *e, const IndexExpr *expr, Range range, uint32_t lane)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMValueRef v = emit_index(e, expr, lane), ok = NULL;
    if (expr->range.lo < range.lo)
        ok = LLVMBuildICmp(b, LLVMIntSGE, v, emit_index_constant(e, range.lo), "");
    if (expr->range.hi > range.hi) {
        LLVMValueRef below =
            LLVMBuildICmp(b, LLVMIntSLE, v, emit_index_constant(e, range.hi), "");
        ok = ok == NULL ? below : LLVMBuildAnd(b, ok, below, "");
    }
    return ok != NULL ? ok : LLVMConstInt(gx_int_type(e->k, 1), 1, 0);
}

void emit_delinear(Emit *e, const Shape *shape, const IndexExpr *linear,
                   const IndexExpr **index)
{
    index_delinear(e->ix, shape, linear, index);
}

void emit_spread(Emit *e, const Shape *shape, const uint32_t *dims, uint32_t count,
                 const IndexExpr *number, const IndexExpr **index)
{
    for (uint32_t i = count; i-- > 0;) {
        int64_t size = shape->dims[dims[i]];
        index[dims[i]] = i == 0 ? number : ix_mod(e->ix, number, size);
        number = ix_floordiv(e->ix, number, size);
    }
}

bool emit_is_uniform(uint32_t rank, const IndexExpr *const *index)
{
    for (uint32_t i = 0; i < rank; i++) {
        if (depends_on_lane(index[i]))
            return false;
    }
    return true;
}

void emit_at_lane(Emit *e, uint32_t rank, const IndexExpr *const *index, uint32_t lane,
                  const IndexExpr **out)
{
    const IndexExpr *value = ix_const(e->ix, lane);
    for (uint32_t i = 0; i < rank; i++)
        out[i] = ix_replace(e->ix, index[i], IX_SYMBOL, VARIABLE_BASE, value);
}

LLVMValueRef emit_constraints_hold(Emit *e, const IndexMap *map,
                                   const IndexExpr *const *constraints)
{
    LLVMValueRef ok = NULL;
    for (uint32_t i = 0; i < map->constraint_count; i++) {
        LLVMValueRef c = emit_in_range(e, constraints[i], map->constraints[i].range, 0);
        ok = ok == NULL ? c : LLVMBuildAnd(e->k->builder, ok, c, "");
    }
    return ok;
}
