/* Attentions become one kernel each, which keeps the scores off memory.
 *
 *   s = dot(q, k) ... w = exp(s - max) / sum ... o = dot(w, v)
 *   ->  fused { ... all of it ... }
 *       o = bf16[8,32,4096,128] fusion(q, k, v), calls=fused, backend_config={"emitter":"attention"}
 *
 * What masks are made of goes in as well, as far as it is computed by element. An attention of which something else
 * than the result is read is fused where that is its gradient (attention_gradient.c), else it stays as it is.
 *
 * Needs: layouts. Keeps: values but for the order and the rounding of sums. Ends: each fusion takes two dots. */
#include "passes/fusion/attention.h"

#include "ir/kernel/kind.h"
#include "ir/kernel/library.h"
#include "passes/fusion/fusion.h"
#include "passes/simplify/rewrite.h"
#include "passes/simplify/simplify.h"

enum { MOST_INSIDE = 256 };

typedef struct AttentionRegion Region;
struct AttentionRegion {
    const Attention *a;
    Instruction *last;
    uint32_t ids; /* of the computation */
    Instruction *inside[MOST_INSIDE], *operands[MOST_INSIDE];
    uint32_t count, operand_count;
    bool *is_inside;    /* by id */
    bool *is_of_scores; /* by id: made of the products */
    bool is_too_large;
};

bool attention_is_move(const Instruction *x)
{
    return x->op == OP_CONVERT || x->op == OP_COPY || x->op == OP_TRANSPOSE ||
           x->op == OP_RESHAPE;
}

const Instruction *attention_without_moves(const Instruction *x)
{
    while (attention_is_move(x))
        x = x->operands[0];
    return x;
}

static bool is_base(const Region *r, const Instruction *inst)
{
    const Attention *a = r->a;
    return inst == a->q.base || inst == a->k.base || inst == a->v.base ||
           inst == a->bias.base;
}

static bool is_part(const Region *r, const Instruction *inst)
{
    const AttentionParts *p = &r->a->parts;
    return inst == p->scores.inst || inst == p->output || inst == p->maxima ||
           inst == p->sums;
}

bool attention_takes_inside(const Instruction *inst)
{
    if (inst->control_count != 0 || !shape_is_array(inst->shape) || library_makes(inst))
        return false;
    switch (inst->op) {
    case OP_DOT:
    case OP_REDUCE:
        return true;
    case OP_CONSTANT:
        return inst->shape->rank == 0;
    case OP_BITCAST:
    case OP_BROADCAST:
    case OP_COPY:
    case OP_IOTA:
    case OP_RESHAPE:
    case OP_SLICE:
    case OP_TRANSPOSE:
        return true;
    default:
        return op_is(inst->op, OPF_ELEMENTWISE) && !op_is(inst->op, OPF_EFFECT);
    }
}

static bool belongs_inside(const Region *r, const Instruction *inst)
{
    bool is_large = inst->op == OP_DOT || inst->op == OP_REDUCE;
    return attention_takes_inside(inst) && (!is_large || is_part(r, inst));
}

static void add_operand(Region *r, Instruction *inst)
{
    for (uint32_t i = 0; i < r->operand_count; i++) {
        if (r->operands[i] == inst)
            return;
    }
    r->is_too_large |= r->operand_count == MOST_INSIDE;
    if (!r->is_too_large)
        r->operands[r->operand_count++] = inst;
}

static void collect(Region *r, Instruction *inst)
{
    if (r->is_too_large || r->is_inside[inst->id])
        return;
    if (is_base(r, inst) || !belongs_inside(r, inst)) {
        add_operand(r, inst);
        return;
    }
    r->is_inside[inst->id] = true;
    r->is_of_scores[inst->id] = inst == r->a->parts.scores.inst;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        collect(r, inst->operands[i]);
        r->is_of_scores[inst->id] |= r->is_of_scores[inst->operands[i]->id];
    }
    r->is_too_large |= r->count == MOST_INSIDE;
    if (!r->is_too_large)
        r->inside[r->count++] = inst;
}

bool attention_region_is_closed(const AttentionRegion *r)
{
    const Computation *comp = r->last->parent;
    if (r->is_too_large || !r->is_inside[r->last->id] ||
        !r->is_inside[r->a->parts.scores.inst->id])
        return false;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (r->is_inside[inst->id] && r->is_of_scores[inst->id])
            continue;
        for (uint32_t i = 0; i < inst->operand_count; i++) {
            const Instruction *x = inst->operands[i];
            if (x != r->last && r->is_of_scores[x->id])
                return false;
        }
    }
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->is_of_scores[r->inside[i]->id] && r->inside[i] == comp->root &&
            r->inside[i] != r->last)
            return false;
    }
    return true;
}

/* The maxima in the order of the sums. */
static Instruction *add_maxima(Computation *fused, const AttentionParts *p,
                               Instruction *const *now, PassContext *cx)
{
    Instruction *maxima = now[p->maxima->id];
    Rewriter r = {.m = fused->module,
                  .comp = fused,
                  .scratch = cx->scratch,
                  .cx = cx,
                  .at = maxima};
    const Shape *s = maxima->shape;
    int64_t order[VIEW_RANK], dims[VIEW_RANK];
    attention_maxima_order(p, order);
    for (uint32_t d = 0; d < s->rank; d++)
        dims[d] = s->dims[order[d]];
    if (!rw_is_identity(order, s->rank))
        maxima = rw_transpose(&r, rw_shape(&r, s->dtype, s->rank, dims), maxima, order);
    const Shape *sums = p->sums->shape;
    maxima = rw_reshape(&r, rw_shape(&r, s->dtype, sums->rank, sums->dims), maxima);
    return s->dtype == sums->dtype ? maxima : rw_convert(&r, sums, maxima);
}

/* The logarithm of the sum of a row's exponentials, and the maxima, or both together: how many. */
static uint32_t add_statistics(Computation *fused, const AttentionParts *p,
                               Instruction *const *now, AttentionKeeps keeps,
                               PassContext *cx, Instruction *out[2])
{
    Instruction *sums = now[p->sums->id];
    out[0] = computation_add(fused, OP_LOG, sums->shape, 1, &sums, "log");
    if (p->maxima == NULL)
        return 1;
    out[1] = add_maxima(fused, p, now, cx);
    if (keeps == ATTENTION_KEEPS_MAXIMA)
        return 2;
    Instruction *both[] = {out[1], out[0]};
    out[0] = computation_add(fused, OP_ADD, sums->shape, 2, both, "statistics");
    return 1;
}

Instruction *attention_region_fuse(const AttentionRegion *r, AttentionKeeps keeps,
                                   PassContext *cx)
{
    Computation *comp = r->last->parent;
    Module *m = comp->module;
    Computation *fused = module_add_computation(m, "attention");
    fused->is_fused = true;
    Instruction **now = ARENA_ARRAY(cx->scratch, Instruction *, r->ids);
    for (uint32_t i = 0; i < r->operand_count; i++)
        now[r->operands[i]->id] =
            computation_add_parameter(fused, i, r->operands[i]->shape, NULL);
    for (uint32_t i = 0; i < r->count; i++) {
        const Instruction *inst = r->inside[i];
        Instruction **operands =
            ARENA_ARRAY(cx->scratch, Instruction *, (size_t)inst->operand_count + 1);
        for (uint32_t k = 0; k < inst->operand_count; k++)
            operands[k] = now[inst->operands[k]->id];
        now[inst->id] =
            computation_add_like(fused, inst, inst->shape, inst->operand_count, operands);
    }
    fused->root = now[r->last->id];
    if (keeps != ATTENTION_KEEPS_NOTHING) {
        Instruction *leaves[3] = {fused->root};
        const Shape *shapes[3];
        uint32_t n = 1 + add_statistics(fused, &r->a->parts, now, keeps, cx, &leaves[1]);
        for (uint32_t i = 0; i < n; i++)
            shapes[i] = leaves[i]->shape;
        fused->root = computation_add(fused, OP_TUPLE, shape_tuple(m->intern, n, shapes),
                                      n, leaves, NULL);
    }
    Instruction *fusion = computation_add(comp, OP_FUSION, fused->root->shape,
                                          r->operand_count, r->operands, r->last->name);
    fusion->span = r->last->span;
    const Attr *metadata = inst_attr(r->last, ATTR_METADATA);
    if (metadata != NULL)
        inst_set(fusion, *metadata);
    inst_set_int(fusion, ATTR_KIND, FUSION_LOOP);
    inst_set_computation(fusion, ATTR_CALLS, fused);
    return fusion;
}

AttentionRegion *attention_region(const Attention *a, Instruction *last, PassContext *cx)
{
    Region *r = ARENA_NEW(cx->scratch, Region);
    *r = (Region){.a = a, .last = last, .ids = last->parent->instruction_count};
    r->is_inside = ARENA_ARRAY(cx->scratch, bool, r->ids);
    r->is_of_scores = ARENA_ARRAY(cx->scratch, bool, r->ids);
    collect(r, last);
    return r->is_too_large ? NULL : r;
}

bool attention_set_kind(Instruction *fusion, PassContext *cx)
{
    KernelKind kind = kernel_kind_choose(fusion, cx->target);
    if (kernel_kind_is(kind, KERNEL_ON_TENSOR_CORES)) {
        kernel_kind_set(fusion, kind);
        return true;
    }
    computation_remove(fusion->parent, fusion);
    return false;
}

/* The attention that ends here is a fusion from now on; false: there is none, or no kernel makes it. */
static bool fuse_at(Instruction *last, PassContext *cx, bool *is_tried)
{
    Attention a;
    if (!attention_match(last, &a))
        return false;
    const Region *r = attention_region(&a, last, cx);
    if (r == NULL)
        return false;
    *is_tried = true;
    if (!attention_region_is_closed(r))
        return fuse_attention_gradient(&a, last, cx);
    Instruction *fusion = attention_region_fuse(r, ATTENTION_KEEPS_NOTHING, cx);
    if (!attention_set_kind(fusion, cx))
        return false;
    computation_replace_one(last->parent, last, fusion);
    return true;
}

static bool may_end(const Instruction *inst)
{
    switch (inst->op) {
    case OP_BITCAST:
    case OP_CONVERT:
    case OP_COPY:
    case OP_DIVIDE:
    case OP_DOT:
    case OP_MULTIPLY:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
        return inst->control_count == 0;
    default:
        return false;
    }
}

static bool has_two_dots(const Computation *comp)
{
    uint32_t dots = 0;
    for (const Instruction *i = inst_first(comp); i != NULL; i = inst_next(i))
        dots += i->op == OP_DOT;
    return dots > 1;
}

/* From the end on: what stands behind the second dot belongs to it. */
static bool fuse_in(Computation *comp, PassContext *cx, bool *is_tried)
{
    bool changed = false;
    uint32_t count = comp->instruction_count;
    bool *is_taken = ARENA_ARRAY(cx->scratch, bool, count);
    for (uint32_t i = count; i-- > 0;) {
        Instruction *last = comp->instructions[i];
        if (last == NULL || is_taken[i] || !may_end(last))
            continue;
        if (!fuse_at(last, cx, is_tried))
            continue;
        for (Instruction *x = last; x->op != OP_PARAMETER; x = x->operands[0]) {
            is_taken[x->id] = true;
            if (x->op == OP_DOT)
                break;
        }
        changed = true;
    }
    return changed;
}

/* Gradients under a checkpoint, which compute the weights again but not the result. */
static bool fuse_again_in(Computation *comp, PassContext *cx, bool *is_tried)
{
    bool changed = false;
    uint32_t count = comp->instruction_count;
    /* each may get a result, which is a dot, too */
    AttentionDots dots = {.ids = ARENA_ARRAY(cx->scratch, uint32_t, 2 * (size_t)count)};
    for (const Instruction *x = inst_first(comp); x; x = inst_next(x)) {
        if (x->op == OP_DOT)
            dots.ids[dots.count++] = x->id;
    }
    for (uint32_t i = 0, found = dots.count; i < found; i++) {
        Instruction *dot = comp->instructions[dots.ids[i]];
        Instruction *o = dot != NULL ? attention_result_again(dot, &dots, cx) : NULL;
        if (o == NULL)
            continue;
        dots.ids[dots.count++] = o->id;
        changed |= fuse_at(o, cx, is_tried);
        *is_tried = true;
    }
    return changed;
}

bool pass_fuse_attentions(Module *m, PassContext *cx)
{
    Computations programs = module_programs(m, cx->scratch);
    bool may_change = false, is_tried = false;
    for (uint32_t i = 0; cx->target != NULL && i < programs.count; i++)
        may_change |= has_two_dots(programs.data[i]);
    bool changed = may_change && pass_dce(m, cx); /* nobody reads what is dead */
    for (uint32_t i = 0; may_change && i < programs.count; i++) {
        if (!has_two_dots(programs.data[i]))
            continue;
        changed |= fuse_in(programs.data[i], cx, &is_tried);
        changed |= fuse_again_in(programs.data[i], cx, &is_tried);
    }
    if (is_tried) { /* what no kernel makes is gone */
        module_sort(m);
        pass_dce(m, cx);
        module_remove_dead_computations(m);
        fusion_name_all(m);
    }
    return changed;
}
