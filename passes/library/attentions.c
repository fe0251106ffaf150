/* Attentions are cuDNN's, which keeps the scores out of memory: softmax(q k') v with scale, cap, bias and
 * a band of scores that count, in any order of dimensions. Which cuDNN has kernels for it says itself: gxc-cudnn
 * is asked for all of a computation at once.
 *
 *   s = f32[8,64,64] dot(q, k), ...
 *   ...
 *   o = bf16[8,64,128] dot(w, v), ...
 *   ->  fused { s = dot(p0, p1) ... ROOT o = dot(w, p2) }
 *       o = bf16[8,64,128] fusion(q, k, v), kind=kCustom, calls=fused, backend_config={"library":"cudnn"}
 *
 * An attention whose scores are read by nothing but its gradient becomes two fusions: the attention, which also gives
 * the logarithm of each row's sum, and the gradient (passes/fusion/attention_gradient.c). Where something else reads
 * them it is left: they would lie in memory anyway.
 *
 * Needs: laid out. Keeps: values but for the order and the rounding of sums; the weights are rounded to v's
 * type. Ends: one sweep. */
#include "ir/kernel/attention/attention_call.h"
#include "ir/kernel/library.h"
#include "passes/fusion/attention.h"
#include "passes/fusion/fusion.h"
#include "passes/library/graphs.h"
#include "passes/library/library.h"
#include "passes/settings.h"

enum { MOST_READERS = 16, LEAST_POSITIONS = 2 };

/* An attention, or one with its gradient. */
typedef struct Candidate {
    Instruction *last, *fusion;
    const LibraryGradient *gradient; /* NULL: alone */
} Candidate;

typedef struct Attentions {
    PassContext *cx;
    GraphScope in;
    Candidate *candidates;
    size_t candidate_count, capacity;
    bool wrapped; /* computations were made for cuDNN to look at */
} Attentions;

/* -- what is inside ------------------------------------------------------------------------------- */

static bool is_possible_inside(const Instruction *inst)
{
    return inst->control_count == 0 && inst->op != OP_PARAMETER &&
           inst->op != OP_FUSION && inst->op != OP_GET_TUPLE_ELEMENT &&
           shape_is_array(inst->shape) && !library_makes(inst) &&
           !op_is(inst->op, OPF_CONTROL | OPF_COLLECTIVE | OPF_ASYNC_START |
                                OPF_ASYNC_DONE | OPF_EFFECT);
}

/* What depends on the scores is read by nothing else; nothing inside would lie in memory anyway. */
static bool is_closed(const Attentions *s, const Attention *a, const Instruction *last,
                      const bool *inside)
{
    bool *depends = ARENA_ARRAY(s->cx->scratch, bool, s->in.count);
    for (uint32_t i = 0; i < s->in.order_count; i++) {
        const Instruction *inst = s->in.order[i];
        if (!inside[inst->id])
            continue;
        if (!is_possible_inside(inst))
            return false;
        bool is_scores = inst == a->parts.scores.inst;
        for (uint32_t k = 0; k < inst->operand_count; k++)
            is_scores |= depends[inst->operands[k]->id];
        depends[inst->id] = is_scores;
        if (is_scores && inst != last && graphs_is_read_outside(&s->in, inst, inside))
            return false;
    }
    return true;
}

/* -- wrapping -------------------------------------------------------------------------------------- */

static bool is_worth_it(const Attentions *s, const Attention *a)
{
    double work = attention_scores_counted(a) * (double)a->q.dims[ATTENTION_DEPTH];
    return a->q.dims[ATTENTION_POSITIONS] >= LEAST_POSITIONS &&
           work >= (double)s->cx->settings->library_attention_work;
}

static void add(Attentions *s, Candidate c)
{
    s->candidates = arena_grow(s->cx->scratch, s->candidates, &s->capacity,
                               s->candidate_count + 1, sizeof *s->candidates);
    s->candidates[s->candidate_count++] = c;
}

/* What cuDNN cannot be asked for is nobody's operand and goes away with dead code. */
static bool add_gradient(Attentions *s, Instruction *last, const Attention *a)
{
    const LibraryGradient *g = library_gradient_wrap(a, last, s->cx);
    s->wrapped = true;
    if (g == NULL)
        return false;
    add(s, (Candidate){.last = last, .gradient = g});
    return true;
}

static bool add_candidate(Attentions *s, Instruction *last)
{
    Attention a;
    if (!attention_match(last, &a) || !attention_has_types(&a) || !is_worth_it(s, &a))
        return false;
    const Instruction *arrays[4] = {a.q.base, a.k.base, a.v.base, a.bias.base};
    const bool *inside = graphs_inside(&s->in, last, arrays, 4);
    if (!is_closed(s, &a, last, inside))
        return add_gradient(s, last, &a);
    Instruction *fusion = graphs_wrap(&s->in, last, inside);
    attention_set_library(fusion);
    s->wrapped = true;
    if (!attention_is_library(fusion)) { /* its operands are not the bases */
        computation_remove(s->in.comp, fusion);
        return false;
    }
    add(s, (Candidate){.last = last, .fusion = fusion});
    return true;
}

static bool moves_on(const Instruction *inst)
{
    return inst->op == OP_CONVERT || inst->op == OP_COPY || inst->op == OP_TRANSPOSE ||
           inst->op == OP_RESHAPE || inst->op == OP_BITCAST || inst->op == OP_DIVIDE ||
           inst->op == OP_MULTIPLY;
}

/* With as much of what moves or rounds the dot's result as there is. */
static void try_dot(Attentions *s, Instruction *dot)
{
    Instruction *readers[MOST_READERS];
    uint32_t n = 0;
    for (Instruction *x = dot; n < MOST_READERS; x = uses_only(&s->in.uses, x)) {
        readers[n++] = x;
        const Instruction *next = uses_only(&s->in.uses, x);
        if (next == NULL || s->in.comp->root == x || !moves_on(next))
            break;
    }
    while (n > 0 && !add_candidate(s, readers[n - 1]))
        n--;
}

/* The fusions of a candidate. */
static uint32_t fusions_of(const Candidate *c, Instruction *out[2])
{
    if (c->gradient != NULL)
        return library_gradient_fusions(c->gradient, out);
    out[0] = c->fusion;
    return 1;
}

/* Of an attention with its gradient cuDNN makes both or the attention, whose gradient is then ours: cuDNN may have none
 * that adds in one order, or need too much memory for it. */
static void take(Attentions *s, const Candidate *c, uint32_t possible,
                 Instruction **forward)
{
    if (c->gradient != NULL && possible == 2) {
        library_gradient_forward(c->gradient, forward);
        s->cx->counts.library_attentions += 2;
    } else if (c->gradient != NULL && possible == 1) {
        s->cx->counts.library_attentions +=
            library_gradient_attention_only(c->gradient, s->cx);
    } else if (c->gradient == NULL && possible == 1) {
        forward[c->last->id] = c->fusion;
        s->cx->counts.library_attentions++;
    } else if (c->gradient == NULL) {
        computation_remove(s->in.comp, c->fusion);
    }
}

static bool ask(Attentions *s)
{
    Arena *a = s->cx->scratch;
    Instruction **fusions = ARENA_ARRAY(a, Instruction *, 2 * s->candidate_count);
    Instruction **forward = ARENA_ARRAY(a, Instruction *, s->in.count);
    bool *is_possible = ARENA_ARRAY(a, bool, 2 * s->candidate_count);
    uint64_t before = s->cx->counts.library_attentions;
    size_t n = 0;
    for (size_t i = 0; i < s->candidate_count; i++)
        n += fusions_of(&s->candidates[i], &fusions[n]);
    s->cx->graphs->ask(s->cx->graphs, s->cx->target, fusions, n, is_possible);
    n = 0;
    for (size_t i = 0; i < s->candidate_count; i++) {
        uint32_t count = fusions_of(&s->candidates[i], &fusions[n]), possible = 0;
        while (possible < count && is_possible[n + possible])
            possible++;
        take(s, &s->candidates[i], possible, forward);
        n += count;
    }
    computation_substitute(s->in.comp, forward, s->in.count);
    return s->cx->counts.library_attentions != before;
}

static bool visit(Computation *comp, PassContext *cx, bool *wrapped)
{
    Attentions s = {.cx = cx, .in = graphs_scope(comp, cx)};
    for (uint32_t i = 0; i < s.in.order_count; i++) {
        if (s.in.order[i]->op == OP_DOT && !library_makes(s.in.order[i]))
            try_dot(&s, s.in.order[i]);
    }
    *wrapped |= s.wrapped;
    return s.candidate_count != 0 && ask(&s);
}

bool pass_library_attentions(Module *m, PassContext *cx)
{
    return graphs_make(m, cx, visit);
}
