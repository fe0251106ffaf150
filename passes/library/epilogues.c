/* What is added to a product of a library's is added by it, before the only rounding, where the sum would
 * lie in memory anyway: an array of the product's shape, a bias along the last dimensions of cuBLASLt's
 * dots or the features of cuDNN's convolutions, or both. cuDNN says what it has kernels for.
 *
 *   d = f32[64,512] dot(a, b), ..., backend_config={"library":"cublaslt"}
 *   s = f32[64,512] add(d, f32[64,512] broadcast(v), dimensions={1})
 *   y = f32[64,512] add(x, s)
 *   ->  fused { ... ROOT y = add(p3, add(dot(p0, p1), broadcast(p2))) }
 *       y = f32[64,512] fusion(a, b, v, x), kind=kCustom, calls=fused, backend_config={"library":"cublaslt"}
 *
 * cuBLASLt multiplies products of f8 with one or two numbers, or on Hopper with one for each row of both factors, and
 * rounds them to 16 bits.
 *
 * A gelu, or a relu, of such a sum is computed by cuBLASLt, too, in f32: it rounds its result only, and keeps NaN (seen
 * with 13.1 on an H100: relu of NaN is NaN, gelu of NaN and of -inf is NaN, as tanh has it). A sum that others read, too
 * - gradients do -, it stores beside its gelu where that takes less time than a kernel that makes the gelu.
 * Gradients of the two (DRELU, DGELU, and the bit mask of RELU_AUX that DRELU reads) stay kernels: nothing that NVIDIA
 * publishes says what they make of NaN, and a mask of bits cannot hold it.
 *
 * cuDNN multiplies a convolution with a vector along its features, too, before anything is added, and ends in a relu
 * that keeps NaN (codegen/library/graph.c): its own may make 0 of it.
 *
 * A sum that one kernel reads is left to that kernel, and so is what would have to be stored only for the
 * library. A bias of f64 cuBLASLt does not have.
 *
 * Needs: laid out. Keeps: values but for the order and the rounding of sums. Ends: one sweep. */
#include "ir/analysis/collective.h"
#include "ir/kernel/activation.h"
#include "ir/kernel/convolution.h"
#include "ir/kernel/library.h"
#include "ir/kernel/matmul.h"
#include "ir/kernel/time/kernel_time.h"
#include "passes/fusion/fusion.h"
#include "passes/library/choice.h"
#include "passes/library/library.h"
#include "passes/settings.h"
#include "passes/simplify/simplify.h"

enum {
    MOST_SCALED = 8, /* a dot and what it is multiplied with */
    MOST_STEPS = 4,
    LEAST_HIDDEN =
        1 << 20 /* bytes of a collective that is worth a pass over the product to hide */
};

typedef struct Epilogues {
    Uses uses;
    const bool *is_waited_for; /* something that need not read it waits for it */
    uint32_t count;            /* instructions that were there before */
    Instruction **forward;     /* [count] what stands for an addition now */
    const uint32_t *
        collectives; /* [count] one behind the other up to there; NULL: they do not matter */
    PassContext *cx;
} Epilogues;

/* A dot or convolution and what stands behind it: the most that there are, additions of a bias and of
 * an array, then a relu. */
typedef struct Chain {
    Instruction *product, *last;
    Instruction *scale, *bias, *zero; /* broadcasts, or NULL: of relu's 0 the last */
    Instruction *steps[MOST_STEPS];
    uint32_t step_count;
    bool has_addend;
    Instruction
        *behind[ACTIVATION_STEPS]; /* of an activation of `last`, operands first */
    uint32_t behind_count;
    bool keeps_argument; /* others than the activation read `last` */
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
    return library_lies_in_memory(x) || (x->id < e->count && e->forward[x->id] != NULL);
}

/* Readers that take the code of their operands in. */
static bool is_kernel_code(const Instruction *inst)
{
    return op_is(inst->op, OPF_ELEMENTWISE | OPF_MOVES) || inst->op == OP_REDUCE ||
           inst->op == OP_REDUCE_WINDOW || inst->op == OP_SCATTER ||
           ((inst->op == OP_CONVOLUTION || inst->op == OP_DOT) && !library_makes(inst));
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

static bool bias_fits(const Instruction *product, const Instruction *broadcast)
{
    return product->op == OP_DOT ? matmul_bias_fits(product, broadcast)
                                 : convolution_bias_fits(product, broadcast);
}

/* A vector along one dimension of the result. */
static bool is_vector(const Epilogues *e, const Chain *c, const Instruction *x)
{
    return x->op == OP_BROADCAST && sole_reader(e, x) != NULL && x->control_count == 0 &&
           !e->is_waited_for[x->id] && bias_fits(c->product, x) &&
           is_in_memory(e, x->operands[0]);
}

/* What is added along it. */
static bool is_bias(const Epilogues *e, const Chain *c, const Instruction *x)
{
    return c->bias == NULL && is_vector(e, c, x);
}

/* What a convolution is multiplied by, before anything is added. */
static bool is_scale(const Epilogues *e, const Chain *c, const Instruction *x)
{
    return c->product->op == OP_CONVOLUTION && c->step_count == 0 &&
           e->cx->target->compiles_graphs && is_vector(e, c, x);
}

static bool is_addend(const Epilogues *e, const Chain *c, const Instruction *x)
{
    return !c->has_addend && shape_layouts_equal(x->shape, c->product->shape) &&
           is_in_memory(e, x);
}

/* The 0 of a relu. */
static bool is_zero(const Epilogues *e, const Chain *c, const Instruction *x)
{
    return c->product->op == OP_CONVOLUTION && e->cx->settings->library_relu != 0 &&
           e->cx->target->compiles_graphs && x->op == OP_BROADCAST &&
           inst_is_constant_scalar(x, 0);
}

/* One more step. */
static bool grow(const Epilogues *e, Chain *c)
{
    Instruction *next = sole_reader(e, c->last);
    if (next == NULL || e->is_waited_for[c->last->id] || next->control_count != 0 ||
        c->zero != NULL || c->step_count == MOST_STEPS || e->forward[next->id] != NULL ||
        (next->op != OP_ADD && next->op != OP_MAXIMUM && next->op != OP_MULTIPLY))
        return false;
    Instruction *x = next->operands[next->operands[0] == c->last ? 1 : 0];
    if (e->collectives != NULL && e->collectives[x->id] > e->collectives[c->product->id])
        return false;
    if (next->op == OP_MAXIMUM && is_zero(e, c, x))
        c->zero = x;
    else if (next->op == OP_MULTIPLY && is_scale(e, c, x))
        c->scale = x;
    else if (next->op == OP_ADD && is_bias(e, c, x))
        c->bias = x;
    else if (next->op == OP_ADD && is_addend(e, c, x))
        c->has_addend = true;
    else
        return false;
    c->steps[c->step_count++] = next;
    c->last = next;
    return true;
}

static void shrink(Chain *c)
{
    const Instruction *gone = c->steps[--c->step_count];
    c->last = c->step_count > 0 ? c->steps[c->step_count - 1] : c->product;
    if (gone->op == OP_MAXIMUM)
        c->zero = NULL;
    else if (gone->op == OP_MULTIPLY)
        c->scale = NULL;
    else if (gone->operands[0] == c->bias || gone->operands[1] == c->bias)
        c->bias = NULL;
    else
        c->has_addend = false;
}

static bool is_behind(const Chain *c, const Instruction *inst)
{
    for (uint32_t i = 0; i < c->behind_count; i++) {
        if (c->behind[i] == inst)
            return true;
    }
    return false;
}

/* Only the activation reads `inst`, and nothing waits for it. */
static bool is_inside(const Epilogues *e, const Chain *c, const Instruction *inst)
{
    bool inside = inst->parent->root != inst && !e->is_waited_for[inst->id] &&
                  e->forward[inst->id] == NULL;
    for (uint32_t i = e->uses.start[inst->id]; i < e->uses.start[inst->id + 1]; i++)
        inside = inside && is_behind(c, e->uses.list[i]);
    return inside;
}

static void take_behind(Chain *c, const ActivationForm *f, Instruction *inst)
{
    bool is_step = false;
    for (uint32_t i = 0; i < f->step_count; i++)
        is_step |= f->steps[i] == inst;
    if (!is_step || is_behind(c, inst))
        return;
    for (uint32_t i = 0; i < inst->operand_count; i++)
        take_behind(c, f, inst->operands[i]);
    c->behind[c->behind_count++] = inst;
}

/* Steps may be read outside of an activation whose argument is stored: they are made of that again. */
static bool may_take(const Epilogues *e, const Chain *c, const Instruction *step)
{
    if (step->control_count != 0 || e->is_waited_for[step->id])
        return false;
    return c->keeps_argument ? e->forward[step->id] == NULL : is_inside(e, c, step);
}

/* The library stores the argument sooner than a kernel reads it and writes its gelu. */
static bool argument_pays(const Epilogues *e, const Instruction *dot)
{
    const GpuModel *d = e->cx->target->device;
    double bytes = (double)shape_bytes(dot->shape);
    return library_second_seconds(dot, MATMUL_ARGUMENT, d) <
           copy_time(2 * bytes, d).seconds;
}

/* Its argument is stored for others, and by the library. */
static bool keeps_argument(const Epilogues *e, const Chain *c, const ActivationForm *f)
{
    return f->activation == ACTIVATION_GELU && matmul_argument_fits(c->product) &&
           c->last->parent->root != c->last && !e->is_waited_for[c->last->id] &&
           e->forward[c->last->id] == NULL && argument_pays(e, c->product);
}

/* The activation that y is of the chain, if the library may compute it. */
static bool take_activation(const Epilogues *e, Chain *c, Instruction *y)
{
    ActivationForm f = activation_of(y);
    bool wanted = f.activation == ACTIVATION_RELU ||
                  (f.activation == ACTIVATION_GELU && e->cx->settings->library_gelu != 0);
    if (!wanted || f.argument != c->last ||
        !shape_layouts_equal(y->shape, c->last->shape))
        return false;
    take_behind(c, &f, y);
    bool is_alone = is_inside(e, c, c->last);
    c->keeps_argument = !is_alone && keeps_argument(e, c, &f);
    bool good = (is_alone || c->keeps_argument) && is_stored(e, y);
    for (uint32_t i = 0; i < c->behind_count; i++) {
        const Instruction *step = c->behind[i];
        good = good && (step == y ? step->control_count == 0 : may_take(e, c, step));
    }
    c->behind_count = good ? c->behind_count : 0;
    c->keeps_argument &= good;
    return good;
}

/* The last reader in which an activation may end: each is tried. */
static void find_activation(const Epilogues *e, Chain *c)
{
    if (c->product->op != OP_DOT || !matmul_activation_fits(c->product))
        return;
    const Uses *u = &e->uses;
    for (uint32_t i = u->start[c->last->id]; i < u->start[c->last->id + 1]; i++) {
        Instruction *reader = u->list[i], *next = uses_only(u, reader);
        if (take_activation(e, c, reader) ||
            (next != NULL && take_activation(e, c, next)))
            return;
    }
}

/* Splats of an activation. */
static void merge_numbers(Instruction *fusion, uint32_t *spare, Arena *scratch)
{
    for (uint32_t i = 0; i < fusion->operand_count; i++) {
        Instruction *x = fusion->operands[i];
        if (x->op == OP_BROADCAST && x->operands[0]->op == OP_CONSTANT)
            fusion_merge(fusion, fusion->operands[i--], false, spare, scratch);
    }
}

/* The activation's argument becomes a second result. */
static void add_argument(Instruction *fusion)
{
    Computation *comp = inst_called(fusion, 0);
    Instruction *results[2] = {comp->root, inst_first(comp)};
    while (results[1] != activation_of(comp->root).argument)
        results[1] = inst_next(results[1]);
    fusion_set_results(fusion, results, 2);
    fusion->shape = comp->root->shape;
}

/* Innermost last, as operands of what is there already. */
static Instruction *fused(const Chain *c, Arena *scratch)
{
    uint32_t spare = 0, steps = c->step_count;
    Instruction *fusion;
    if (c->behind_count > 0) {
        fusion = fusion_wrap(c->behind[c->behind_count - 1]);
        for (uint32_t i = c->behind_count - 1; i-- > 0;)
            fusion_merge(fusion, c->behind[i], !c->keeps_argument, &spare, scratch);
        merge_numbers(fusion, &spare, scratch);
    } else {
        fusion = fusion_wrap(c->steps[--steps]);
    }
    for (uint32_t i = steps; i-- > 0;)
        fusion_merge(fusion, c->steps[i], true, &spare, scratch);
    if (c->bias != NULL)
        fusion_merge(fusion, c->bias, true, &spare, scratch);
    if (c->scale != NULL)
        fusion_merge(fusion, c->scale, true, &spare, scratch);
    if (c->zero != NULL)
        fusion_merge(fusion, c->zero, false, &spare, scratch);
    fusion_merge(fusion, c->product, true, &spare, scratch);
    if (c->keeps_argument)
        add_argument(fusion);
    inst_set_int(fusion, ATTR_KIND, FUSION_CUSTOM);
    if (c->product->op == OP_DOT)
        matmul_set_library(fusion);
    else
        convolution_set_library(fusion);
    return fusion;
}

/* What cuDNN has kernels for: of all steps, or of the first few. */
static Instruction *fused_as_possible(const Epilogues *e, Chain *c)
{
    while (c->step_count + c->behind_count > 0) {
        bool possible = true;
        Instruction *fusion = fused(c, e->cx->scratch);
        if (c->product->op == OP_CONVOLUTION)
            e->cx->graphs->ask(e->cx->graphs, e->cx->target, &fusion, 1, &possible);
        if (possible)
            return fusion;
        computation_remove(fusion->parent, fusion);
        shrink(c);
    }
    return NULL;
}

static bool add_epilogue(Epilogues *e, Instruction *product)
{
    Chain c = {.product = product, .last = product};
    while (grow(e, &c))
        continue;
    find_activation(e, &c);
    if (c.behind_count == 0 && (c.step_count == 0 || !is_stored(e, c.last)))
        return false;
    Instruction *fusion = fused_as_possible(e, &c);
    if (fusion == NULL)
        return false;
    for (uint32_t i = 0; i < c.step_count; i++)
        e->forward[c.steps[i]->id] = fusion;
    e->forward[product->id] = fusion;
    for (uint32_t i = 0; i < c.behind_count && !c.keeps_argument; i++)
        e->forward[c.behind[i]->id] = fusion;
    if (c.keeps_argument) {
        e->forward[c.behind[c.behind_count - 1]->id] = computation_add_element(fusion, 0);
        e->forward[c.last->id] = computation_add_element(fusion, 1);
    }
    if (c.bias != NULL)
        e->forward[c.bias->id] = fusion;
    if (c.scale != NULL)
        e->forward[c.scale->id] = fusion;
    if (c.zero != NULL && sole_reader(e, c.zero) != NULL)
        e->forward[c.zero->id] = fusion;
    e->cx->counts.library_epilogues++;
    return true;
}

/* The only reader, if nothing but its reading ties the two. */
static Instruction *free_reader(const Epilogues *e, const Instruction *inst)
{
    Instruction *next = sole_reader(e, inst);
    bool is_free = next != NULL && !e->is_waited_for[inst->id] &&
                   next->control_count == 0 && e->forward[next->id] == NULL;
    return is_free ? next : NULL;
}

static bool is_rounded(const Instruction *x)
{
    return x->op == OP_CONVERT && dtype_is_half(x->shape->dtype);
}

/* What stands behind a product of f8, all but the last. */
typedef struct Scaled {
    Instruction *dot, *last;
    Instruction *inside[MOST_SCALED]; /* operands first */
    uint32_t count, numbers;
    bool by_rows[2]; /* of rhs, of lhs */
} Scaled;

/* The library needs scales of both factors, or numbers alone. */
static bool is_whole(const Scaled *s)
{
    return s->by_rows[0] == s->by_rows[1] && !(s->by_rows[0] && s->numbers > 0);
}

static bool take_scale(const Epilogues *e, Scaled *s, Instruction *x)
{
    if (s->count == MOST_SCALED || x->control_count != 0 || e->is_waited_for[x->id])
        return false;
    MatmulScale scale = matmul_scale_of(s->dot, x);
    if (scale == MATMUL_NO_SCALE)
        return false;
    if (scale == MATMUL_BY_NUMBER) {
        bool is_constant = x->operands[0]->op == OP_CONSTANT;
        s->numbers += !is_constant;
        s->inside[s->count++] = x;
        return s->numbers <= 2;
    }
    bool *has = &s->by_rows[scale == MATMUL_BY_ROWS_OF_LHS];
    if (*has || !target_has(e->cx->target, FEATURE_F8_ROW_SCALES))
        return false;
    *has = true;
    s->inside[s->count++] = x;
    return true;
}

/* A broadcast, or the product of two that nothing else reads. */
static bool take_factor(const Epilogues *e, Scaled *s, Instruction *x)
{
    if (x->op != OP_MULTIPLY)
        return take_scale(e, s, x);
    if (sole_reader(e, x) == NULL || e->is_waited_for[x->id] || x->control_count != 0 ||
        e->forward[x->id] != NULL || x->operands[0] == x->operands[1] ||
        !take_scale(e, s, x->operands[0]) || !take_scale(e, s, x->operands[1]) ||
        s->count == MOST_SCALED)
        return false;
    s->inside[s->count++] = x;
    return true;
}

/* One more step; false: there is none that the library makes. */
static bool grow_scaled(const Epilogues *e, Scaled *s)
{
    Instruction *next = free_reader(e, s->last);
    if (next == NULL || s->count == MOST_SCALED || is_rounded(s->last))
        return false;
    s->inside[s->count++] = s->last;
    if (next->op == OP_MULTIPLY && next->operands[0] != next->operands[1]) {
        if (!take_factor(e, s, next->operands[next->operands[0] == s->last]))
            return false;
    } else if (!is_rounded(next) || !is_whole(s)) {
        return false;
    }
    s->last = next;
    return true;
}

/* Products of f8 are multiplied and rounded by cuBLASLt. */
static bool add_scales(Epilogues *e, Instruction *dot)
{
    Scaled next = {.dot = dot, .last = dot}, s = next;
    uint32_t spare = 0;
    if (dot->shape->dtype != DT_F32)
        return false;
    while (grow_scaled(e, &next)) {
        if (is_whole(&next))
            s = next;
    }
    if (s.last == dot)
        return false;
    Instruction *fusion = fusion_wrap(s.last);
    for (uint32_t i = s.count; i-- > 0;)
        fusion_merge(fusion, s.inside[i], s.inside[i]->op != OP_BROADCAST, &spare,
                     e->cx->scratch);
    inst_set_int(fusion, ATTR_KIND, FUSION_CUSTOM);
    matmul_set_library(fusion);
    for (uint32_t i = 0; i < s.count; i++) {
        if (s.inside[i]->op != OP_BROADCAST || sole_reader(e, s.inside[i]) != NULL)
            e->forward[s.inside[i]->id] = fusion;
    }
    e->forward[s.last->id] = fusion;
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

/* What is asked to overlap may be of any size. */
static bool has_scheduling_groups(Instruction *const *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (inst_frontend_attribute(order[i], "_scheduling_group_id") != NULL)
            return true;
    }
    return false;
}

/* By id: how many collectives that are worth hiding lie one behind the other up to there. A product that has fewer of
 * them before it than what would be added to it can run beside one. */
static uint32_t *count_collectives(Instruction *const *order, uint32_t n,
                                   const Computation *comp, Arena *a)
{
    uint32_t *before = ARENA_ARRAY(a, uint32_t, comp->instruction_count);
    int64_t least = has_scheduling_groups(order, n) ? 0 : LEAST_HIDDEN;
    for (uint32_t i = 0; i < n; i++) {
        const Instruction *inst = order[i];
        uint32_t most = 0;
        for (uint32_t k = 0; k < inst->operand_count; k++)
            most = before[inst->operands[k]->id] > most ? before[inst->operands[k]->id]
                                                        : most;
        bool is_worth =
            op_is(inst->op, OPF_COLLECTIVE) && shape_bytes(inst->shape) >= least;
        before[inst->id] = most + is_worth;
    }
    return before;
}

/* *tries: there are products, for which computations may have been made in vain. */
static bool visit(Computation *comp, PassContext *cx, bool *tries)
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
    if (cx->opt_level >= 2)
        e.collectives = count_collectives(order, n, comp, a);
    for (uint32_t i = 0; i < n; i++) {
        bool is_product = order[i]->op == OP_DOT || order[i]->op == OP_CONVOLUTION;
        is_product = is_product && (order[i]->op == OP_DOT || cx->graphs != NULL);
        if (!is_product || order[i]->control_count != 0 || !library_makes(order[i]))
            continue;
        *tries = true;
        if (order[i]->op == OP_CONVOLUTION || !matmul_is_8_bit(order[i]))
            changed |= add_epilogue(&e, order[i]);
        else if (order[i]->operands[0]->shape->dtype != DT_S8)
            changed |= add_scales(&e, order[i]);
    }
    if (changed)
        computation_substitute(comp, e.forward, e.count);
    return changed;
}

bool pass_library_epilogues(Module *m, PassContext *cx)
{
    bool changed = false, tries = false;
    if (cx->settings->library_dot_epilogues == 0)
        return false;
    Computations programs = module_programs(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++)
        changed |= visit(programs.data[c], cx, &tries);
    if (tries)
        module_remove_dead_computations(m); /* of what cuDNN could not do */
    if (changed) {
        fusion_name_all(m);
        module_sort(m);
        pass_dce(m, cx); /* repetitions of numbers that several products had */
    }
    return changed;
}
