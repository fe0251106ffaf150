/* What is added to a product of cuBLASLt's is added by it, before the only rounding, where the sum would lie
 * in memory anyway: a matrix of the product's shape, a bias along its last dimensions, or both.
 *
 *   d = f32[64,512] dot(a, b), ..., backend_config={"library":"cublaslt"}
 *   s = f32[64,512] add(d, f32[64,512] broadcast(v), dimensions={1})
 *   y = f32[64,512] add(x, s)
 *   ->  fused { ... ROOT y = add(p3, add(dot(p0, p1), broadcast(p2))) }
 *       y = f32[64,512] fusion(a, b, v, x), kind=kCustom, calls=fused, backend_config={"library":"cublaslt"}
 *
 * A sum that one kernel reads is left to that kernel, and so is what would have to be stored only for the
 * library. So is relu: the library's makes 0 of NaN, a maximum keeps it. A bias of f64 the library does
 * not have.
 *
 * Needs: laid out. Keeps: values but for the order and the rounding of sums. Ends: one sweep. */
#include "ir/kernel/matmul.h"
#include "passes/fusion/fusion.h"
#include "passes/library/library.h"
#include "passes/settings.h"

typedef struct Epilogues {
    Uses uses;
    const bool *is_waited_for; /* something that need not read it waits for it */
    uint32_t count;            /* instructions that were there before */
    Instruction **forward;     /* [count] what stands for an addition now */
    PassContext *cx;
} Epilogues;

/* A dot and the additions behind it: the most that there are, of a bias and of a matrix. */
typedef struct Chain {
    Instruction *dot, *last, *bias; /* bias: the broadcast, or NULL */
    Instruction *sums[2];
    uint32_t sum_count;
    bool has_addend;
} Chain;

static const Instruction *through_renaming(const Instruction *x)
{
    while (x->op == OP_BITCAST || fusion_is_renaming(x))
        x = x->operands[0];
    return x;
}

/* No kernel has to be made that stores it. */
static bool is_in_memory(const Epilogues *e, const Instruction *x)
{
    x = through_renaming(x);
    return x->op == OP_PARAMETER || x->op == OP_GET_TUPLE_ELEMENT ||
           x->op == OP_CONSTANT || x->op == OP_CUSTOM_CALL ||
           op_is(x->op, OPF_COLLECTIVE | OPF_ASYNC_DONE) || matmul_is_library(x) ||
           (x->id < e->count && e->forward[x->id] != NULL);
}

/* Readers that take the code of their operands in. */
static bool is_kernel_code(const Instruction *inst)
{
    return op_is(inst->op, OPF_ELEMENTWISE | OPF_MOVES) || inst->op == OP_REDUCE ||
           inst->op == OP_REDUCE_WINDOW || inst->op == OP_SCATTER ||
           inst->op == OP_CONVOLUTION || (inst->op == OP_DOT && !matmul_is_library(inst));
}

/* The only reader; NULL: none, or several. */
static Instruction *sole_reader(const Epilogues *e, const Instruction *inst)
{
    return inst->parent->root != inst ? uses_only(&e->uses, inst) : NULL;
}

/* A sum lies in memory unless all that reads it is one kernel. */
static bool is_stored(const Epilogues *e, const Instruction *inst)
{
    const Instruction *user = sole_reader(e, inst);
    if (user == NULL)
        return true;
    return user->op == OP_BITCAST || fusion_is_renaming(user) ? is_stored(e, user)
                                                              : !is_kernel_code(user);
}

/* A vector that is added to each row of the result, the library's column. */
static bool is_bias(const Epilogues *e, const Chain *c, const Instruction *x)
{
    return x->op == OP_BROADCAST && c->bias == NULL && sole_reader(e, x) != NULL &&
           x->control_count == 0 && !e->is_waited_for[x->id] &&
           matmul_bias_fits(c->dot, x) && is_in_memory(e, x->operands[0]);
}

static bool is_addend(const Epilogues *e, const Chain *c, const Instruction *x)
{
    return !c->has_addend && shape_layouts_equal(x->shape, c->dot->shape) &&
           is_in_memory(e, x);
}

/* One more addition. */
static bool grow(const Epilogues *e, Chain *c)
{
    Instruction *sum = sole_reader(e, c->last);
    if (sum == NULL || e->is_waited_for[c->last->id] || sum->op != OP_ADD ||
        sum->control_count != 0 || c->sum_count == 2 || e->forward[sum->id] != NULL)
        return false;
    Instruction *x = sum->operands[sum->operands[0] == c->last ? 1 : 0];
    if (is_bias(e, c, x))
        c->bias = x;
    else if (is_addend(e, c, x))
        c->has_addend = true;
    else
        return false;
    c->sums[c->sum_count++] = sum;
    c->last = sum;
    return true;
}

/* Innermost last, as operands of what is there already. */
static Instruction *fused(const Chain *c, Arena *scratch)
{
    uint32_t room = 0;
    Instruction *fusion = fusion_wrap(c->last);
    for (uint32_t i = c->sum_count; i-- > 1;)
        fusion_merge(fusion, c->sums[i - 1], true, &room, scratch);
    if (c->bias != NULL)
        fusion_merge(fusion, c->bias, true, &room, scratch);
    fusion_merge(fusion, c->dot, true, &room, scratch);
    inst_set_int(fusion, ATTR_KIND, FUSION_CUSTOM);
    matmul_set_library(fusion);
    return fusion;
}

static bool add_epilogue(Epilogues *e, Instruction *dot)
{
    Chain c = {.dot = dot, .last = dot};
    while (grow(e, &c))
        continue;
    if (c.sum_count == 0 || !is_stored(e, c.last))
        return false;
    Instruction *fusion = fused(&c, e->cx->scratch);
    for (uint32_t i = 0; i < c.sum_count; i++)
        e->forward[c.sums[i]->id] = fusion;
    e->forward[dot->id] = fusion;
    if (c.bias != NULL)
        e->forward[c.bias->id] = fusion;
    e->cx->counts.library_epilogues++;
    return true;
}

static const bool *waited_for(const Computation *comp, Arena *a)
{
    bool *is = ARENA_ARRAY(a, bool, comp->instruction_count);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (uint32_t i = 0; i < inst->control_count; i++)
            is[inst->control[i]->id] = true;
    }
    return is;
}

static bool visit(Computation *comp, PassContext *cx)
{
    bool changed = false;
    uint32_t n;
    Arena *a = cx->scratch;
    Instruction **order = computation_post_order(comp, a, &n);
    Epilogues e = {.uses = uses_compute(comp, a),
                   .is_waited_for = waited_for(comp, a),
                   .count = comp->instruction_count,
                   .forward = ARENA_ARRAY(a, Instruction *, comp->instruction_count),
                   .cx = cx};
    for (uint32_t i = 0; i < n; i++) {
        if (order[i]->op == OP_DOT && order[i]->control_count == 0 &&
            matmul_is_library(order[i]))
            changed |= add_epilogue(&e, order[i]);
    }
    if (changed)
        computation_supersede(comp, e.forward, e.count);
    return changed;
}

bool pass_library_epilogues(Module *m, PassContext *cx)
{
    bool changed = false;
    if (cx->settings->library_dot_epilogues == 0)
        return false;
    Computations programs = module_programs(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++)
        changed |= visit(programs.data[c], cx);
    if (changed) {
        fusion_name_all(m);
        module_sort(m);
    }
    return changed;
}
