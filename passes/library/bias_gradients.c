/* What a factor of a product of cuBLASLt's gives when it is added up along what the product sums is the product's
 * second result, the gradients of a dense layer's weights and of its bias.
 *
 *   w = bf16[32,16] dot(x, dy), lhs_contracting_dims={0}, rhs_contracting_dims={0}, backend_config={"library":"cublaslt"}
 *   b = bf16[16] reduce(dy, 0), dimensions={0}, to_apply=add
 *   ->  fused { ... ROOT t = tuple(dot(p0, p1), reduce(p1, 0)) }
 *       t = (bf16[32,16], bf16[16]) fusion(x, dy), kind=kCustom, calls=fused, backend_config={"library":"cublaslt"}
 *
 * The product reads the factor anyway, and takes longer: it pays where two kernels of a reduction would take more, or
 * the second of them where a kernel makes the factor and adds it up on the way. The library adds in f32 and rounds to the
 * product's type.
 *
 * Needs: laid out. Keeps: values but for the order and the rounding of sums. Ends: one sweep. */
#include "ir/kernel/library.h"
#include "ir/kernel/matmul.h"
#include "ir/kernel/time/kernel_time.h"
#include "passes/fusion/fusion.h"
#include "passes/library/choice.h"
#include "passes/library/graphs.h"
#include "passes/library/library.h"
#include "passes/settings.h"
#include "passes/simplify/simplify.h"

typedef struct Gradients {
    GraphScope in;
    Instruction **forward; /* [in.count] what stands for them now */
    PassContext *cx;
} Gradients;

static bool is_widening(const Instruction *x)
{
    return x->op == OP_CONVERT && dtype_is_half(x->operands[0]->shape->dtype);
}

/* What a sum is rounded to by its only reader; else itself. */
static Instruction *rounded(const Gradients *g, Instruction *reduce)
{
    Instruction *user =
        reduce->parent->root != reduce ? uses_only(&g->in.uses, reduce) : NULL;
    return user != NULL && user->op == OP_CONVERT ? user : reduce;
}

/* Through what stands for instructions now. */
static bool needs(const Gradients *g, const Instruction *x, const Instruction *sought,
                  bool *is_known)
{
    if (x == sought)
        return true;
    if (x->id < g->in.count && g->forward[x->id] != NULL)
        x = g->forward[x->id];
    if (is_known[x->id])
        return false;
    is_known[x->id] = true;
    bool found = false;
    for (uint32_t i = 0; i < x->operand_count && !found; i++)
        found = needs(g, x->operands[i], sought, is_known);
    for (uint32_t i = 0; i < x->control_count && !found; i++)
        found = needs(g, x->control[i], sought, is_known);
    return found;
}

/* The product takes no longer for it than kernels would. */
static bool pays(const Gradients *g, const Instruction *dot, MatmulSecond second,
                 const Instruction *factor)
{
    const GpuModel *d = g->cx->target->device;
    double bytes = (double)shape_bytes(factor->shape), last = copy_time(0, d).seconds;
    double kernels =
        library_lies_in_memory(factor) ? copy_time(bytes, d).seconds + last : last;
    return library_second_seconds(dot, second, d) < kernels;
}

/* The product has no second result yet, and the sum is one of its factors'. */
static bool fits(const Gradients *g, const Instruction *product,
                 const Instruction *factor, const Instruction *sum)
{
    MatmulCall call;
    if (!matmul_call_of(product, &call) || call.second != MATMUL_NO_SECOND ||
        call.activation != ACTIVATION_NONE || call.bias != NULL ||
        product->control_count != 0)
        return false;
    bool is_lhs =
        call.lhs == factor && matmul_sum_fits(call.dot, 0, factor, sum, call.type);
    bool is_rhs =
        call.rhs == factor && matmul_sum_fits(call.dot, 1, factor, sum, call.type);
    return (is_lhs || is_rhs) &&
           pays(g, call.dot, is_lhs ? MATMUL_SUMS_LHS : MATMUL_SUMS_RHS, factor);
}

static void take(Gradients *g, Instruction *product, Instruction *reduce,
                 Instruction *sum)
{
    Computation *comp = g->in.comp;
    Instruction *both[2] = {product, sum}, *widened = reduce->operands[0];
    const Shape *shapes[2] = {product->shape, sum->shape};
    uint32_t spare = 0;
    Instruction *tuple =
        computation_add(comp, OP_TUPLE, shape_tuple(comp->module->intern, 2, shapes), 2,
                        both, product->name);
    Instruction *fusion = fusion_wrap(tuple);
    fusion_merge(fusion, sum, true, &spare, g->in.scratch);
    if (sum != reduce)
        fusion_merge(fusion, reduce, true, &spare, g->in.scratch);
    if (is_widening(widened))
        fusion_merge(fusion, widened, false, &spare, g->in.scratch);
    fusion_merge(fusion, product, true, &spare, g->in.scratch);
    computation_remove(comp, tuple);
    inst_set_int(fusion, ATTR_KIND, FUSION_CUSTOM);
    matmul_set_library(fusion);
    g->forward[reduce->id] = fusion;
    g->forward[product->id] = computation_add_element(fusion, 0);
    g->forward[sum->id] = computation_add_element(fusion, 1);
    g->cx->counts.library_epilogues++;
}

static bool visit_sum(Gradients *g, Instruction *reduce)
{
    Instruction *sum = rounded(g, reduce), *factor = reduce->operands[0];
    if (is_widening(factor))
        factor = factor->operands[0];
    if (sum->control_count != 0 || reduce->control_count != 0)
        return false;
    for (uint32_t i = g->in.uses.start[factor->id]; i < g->in.uses.start[factor->id + 1];
         i++) {
        Instruction *product = g->in.uses.list[i];
        if (g->forward[product->id] != NULL || !fits(g, product, factor, sum))
            continue;
        bool *is_known = ARENA_ARRAY(g->in.scratch, bool, g->in.comp->instruction_count);
        if (!needs(g, product, reduce, is_known)) {
            take(g, product, reduce, sum);
            return true;
        }
    }
    return false;
}

static bool visit(Computation *comp, PassContext *cx)
{
    Gradients g = {.cx = cx, .in = graphs_scope(comp, cx)};
    bool changed = false;
    g.forward = ARENA_ARRAY(cx->scratch, Instruction *, g.in.count);
    for (uint32_t i = 0; i < g.in.order_count; i++) {
        Instruction *inst = g.in.order[i];
        if (inst->op == OP_REDUCE && inst->operand_count == 2)
            changed |= visit_sum(&g, inst);
    }
    if (changed)
        computation_substitute(comp, g.forward, g.in.count);
    return changed;
}

bool pass_library_bias_gradients(Module *m, PassContext *cx)
{
    bool changed = false;
    if (cx->settings->library_bias_gradients == 0)
        return false;
    Computations programs = module_programs(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++)
        changed |= visit(programs.data[c], cx);
    if (changed) {
        fusion_name_all(m);
        module_sort(m);
        pass_dce(m, cx); /* what only the sums read */
    }
    return changed;
}
