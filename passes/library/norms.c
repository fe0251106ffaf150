/* Layer and RMS norms of as many elements as --set=library-norm-elements says are cuDNN's. By itself none is: a
 * kernel of ours reads and writes each element once as well, and takes in what stands before and behind the norm. Which
 * norms cuDNN has kernels for it says itself: gxc-cudnn is asked for all of a computation at once.
 *
 *   m = f32[8] multiply(reduce(x, 0), 1/64)  ...
 *   y = f32[8,64] add(multiply(multiply(subtract(x, m), inverse), scale), bias)
 *   ->  fused { ... ROOT y = add(...) }
 *       y = f32[8,64] fusion(x, scale, bias), kind=kCustom, calls=fused, backend_config={"library":"cudnn"}
 *
 * Where others read the mean or the inverse deviation of rows, they are results of the fusion, too. Where others
 * read anything else inside, or make the scale or the bias of those results, the norm is left.
 *
 * Needs: laid out. Keeps: values but for the order and the rounding of sums. Ends: one sweep. */
#include "passes/library/norms.h"
#include "ir/kernel/library.h"
#include "ir/kernel/norm.h"
#include "passes/fusion/fusion.h"
#include "passes/library/graphs.h"
#include "passes/library/library.h"
#include "passes/settings.h"

typedef struct Candidate {
    Instruction *last, *fusion;
    Norm norm;
    bool *parts; /* what is made of x, up to `last` */
} Candidate;

typedef struct Norms {
    PassContext *cx;
    GraphScope in;
    bool *taken; /* part of a candidate */
    Candidate *candidates;
    size_t candidate_count, capacity;
} Norms;

/* -- what is inside ---------------------------------------------------------------------------------- */

/* Nobody else reads what is made of x, but for x in f32 and the statistics of rows. */
static bool is_closed(const Norms *s, const Candidate *c, const bool *inside,
                      bool *keeps_statistics)
{
    *keeps_statistics = false;
    for (uint32_t i = 0; i < s->in.order_count; i++) {
        const Instruction *inst = s->in.order[i];
        if (!inside[inst->id])
            continue;
        if (inst->control_count != 0 || inst->op == OP_PARAMETER)
            return false;
        for (uint32_t k = 0; k < inst->operand_count; k++)
            c->parts[inst->id] |=
                inst->operands[k] == c->norm.x || c->parts[inst->operands[k]->id];
        bool is_x = inst->op == OP_CONVERT && inst->operands[0] == c->norm.x;
        if (!c->parts[inst->id] || is_x || inst == c->last)
            continue;
        if (s->taken[inst->id])
            return false;
        if (!graphs_is_read_outside(&s->in, inst, inside))
            continue;
        if (norm_statistic(&c->norm, inst) == 0)
            return false;
        *keeps_statistics = true;
    }
    return true;
}

/* The scale or the bias is made of a norm's parts: of this one's, or of one that is a candidate. If those parts are
 * results of fusions that take the scale or the bias, the fusions depend on themselves. */
static bool is_made_of_parts(const Norms *s, const Candidate *c)
{
    const Norm *n = &c->norm;
    bool *needed = ARENA_ARRAY(s->cx->scratch, bool, s->in.count);
    needed[n->scale->id] = true;
    if (n->bias != NULL)
        needed[n->bias->id] = true;
    instructions_mark_operands(s->in.order, s->in.order_count, needed);
    for (uint32_t i = 0; i < s->in.order_count; i++) {
        uint32_t id = s->in.order[i]->id;
        if (needed[id] && (c->parts[id] || s->taken[id]))
            return true;
    }
    return false;
}

/* -- wrapping ------------------------------------------------------------------------------------------ */

/* y with the mean and the inverse deviation, for a fusion of them. */
static Instruction *add_results(const Norms *s, const Candidate *c)
{
    Instruction *results[3] = {c->last};
    const Shape *shapes[3];
    uint32_t n = 1;
    const Instruction *const statistics[2] = {c->norm.mean, c->norm.inverse};
    for (uint32_t i = 0; i < 2; i++) {
        if (statistics[i] != NULL)
            results[n++] = s->in.comp->instructions[statistics[i]->id];
    }
    for (uint32_t i = 0; i < n; i++)
        shapes[i] = results[i]->shape;
    return computation_add(s->in.comp, OP_TUPLE,
                           shape_tuple(s->in.comp->module->intern, n, shapes), n, results,
                           c->last->name);
}

static Instruction *wrap(const Norms *s, const Candidate *c, const bool *inside,
                         bool keeps_statistics)
{
    Instruction *root = keeps_statistics ? add_results(s, c) : c->last;
    Instruction *fusion = graphs_wrap(&s->in, root, inside);
    if (root != c->last)
        computation_remove(s->in.comp, root);
    norm_set_library(fusion);
    return fusion;
}

static void add_candidate(Norms *s, Instruction *last)
{
    Candidate c = {.last = last, .parts = ARENA_ARRAY(s->cx->scratch, bool, s->in.count)};
    bool keeps_statistics;
    if (!norm_match(last, &c.norm) || !norm_has_types(&c.norm, last) ||
        shape_elements(last->shape) < s->cx->settings->library_norm_elements)
        return;
    const Instruction *arrays[3] = {c.norm.x, c.norm.scale, c.norm.bias};
    const bool *inside = graphs_inside(&s->in, last, arrays, 3);
    if (!is_closed(s, &c, inside, &keeps_statistics) ||
        (keeps_statistics && is_made_of_parts(s, &c)))
        return;
    c.fusion = wrap(s, &c, inside, keeps_statistics);
    if (!norm_is_library(c.fusion)) { /* its operands are not the arrays */
        computation_remove(s->in.comp, c.fusion);
        return;
    }
    for (uint32_t i = 0; i < s->in.count; i++)
        s->taken[i] |= c.parts[i];
    s->candidates = arena_grow(s->cx->scratch, s->candidates, &s->capacity,
                               s->candidate_count + 1, sizeof *s->candidates);
    s->candidates[s->candidate_count++] = c;
}

/* -- the library's answer ------------------------------------------------------------------------------- */

static Instruction *result_of(Instruction *fusion, uint32_t leaf, const Shape *shape)
{
    Instruction *x = computation_add_element(fusion, leaf);
    return shape_same_dims(x->shape, shape)
               ? x
               : computation_add(fusion->parent, OP_RESHAPE, shape, 1, &x, NULL);
}

static void take(const Norms *s, const Candidate *c, Instruction **forward)
{
    bool is_tuple = shape_is_tuple(c->fusion->shape);
    forward[c->last->id] = is_tuple ? result_of(c->fusion, 0, c->last->shape) : c->fusion;
    for (uint32_t i = 0; i < s->in.order_count && is_tuple; i++) {
        const Instruction *inst = s->in.order[i];
        uint32_t leaf = s->taken[inst->id] ? norm_statistic(&c->norm, inst) : 0;
        if (leaf != 0)
            forward[inst->id] = result_of(c->fusion, leaf, inst->shape);
    }
    s->cx->counts.library_norms++;
}

static bool ask(const Norms *s)
{
    Arena *a = s->cx->scratch;
    Instruction **fusions = ARENA_ARRAY(a, Instruction *, s->candidate_count);
    Instruction **forward = ARENA_ARRAY(a, Instruction *, s->in.count);
    bool *possible = ARENA_ARRAY(a, bool, s->candidate_count);
    uint64_t before = s->cx->counts.library_norms;
    for (size_t i = 0; i < s->candidate_count; i++)
        fusions[i] = s->candidates[i].fusion;
    s->cx->graphs->ask(s->cx->graphs, s->cx->target, fusions, s->candidate_count,
                       possible);
    for (size_t i = 0; i < s->candidate_count; i++) {
        if (possible[i])
            take(s, &s->candidates[i], forward);
        else
            computation_remove(s->in.comp, fusions[i]);
    }
    computation_substitute(s->in.comp, forward, s->in.count);
    return s->cx->counts.library_norms != before;
}

static bool visit(Computation *comp, PassContext *cx, bool *wrapped)
{
    Norms s = {.cx = cx, .in = graphs_scope(comp, cx)};
    s.taken = ARENA_ARRAY(cx->scratch, bool, s.in.count);
    for (uint32_t i = s.in.order_count; i-- > 0;) {
        if (!s.taken[s.in.order[i]->id])
            add_candidate(&s, s.in.order[i]);
    }
    *wrapped |= s.candidate_count != 0;
    return s.candidate_count != 0 && ask(&s);
}

bool pass_library_norms(Module *m, PassContext *cx)
{
    if (cx->settings->library_norm_elements == INT64_MAX)
        return false;
    bool changed = graphs_make(m, cx, norm_gradients_visit);
    return graphs_make(m, cx, visit) || changed;
}
