/* Algebraic simplification: all tables of rules, to a fixpoint.
 *
 *   a = f32[4] negate(x)
 *   b = f32[4] negate(a)
 *   c = f32[4] exponential(b)      =>      c = f32[4] exponential(x)
 *
 * Needs: nothing. Keeps: shapes and layouts of all values that stay. Breaks: nothing.
 * Ends because every rule lowers its table's measure (rules_*.c); the driver is rewrite.c. */
#include "passes/simplify/rewrite.h"
#include "passes/simplify/simplify.h"

bool pass_algebra(Module *m, PassContext *cx)
{
    static const Rule *const tables[] = {
        rules_tuple,   rules_arithmetic, rules_logic,  rules_move,     rules_slice,
        rules_scatter, rules_stencil,    rules_reduce, rules_contract, rules_control,
        rules_softmax, rules_one_hot,    rules_topk,   rules_sort};
    return rewrite_module(m, cx, tables, sizeof tables / sizeof *tables);
}
