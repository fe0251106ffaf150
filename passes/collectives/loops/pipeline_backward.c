/* Pipelining of collectives backwards: what a step of a loop gathers, of arrays that the loop only
 * reads, the step before gathers, while it computes.
 *
 *   body (p) { g = all-gather(dynamic-slice(p#w, i))  y = f(p, g)  ROOT (i + 1, .., y) }
 *   ->  before the loop:  g0 = all-gather(dynamic-slice(w, 0))
 *       body (p) { y = f(p, p#g)  g = all-gather(dynamic-slice(p#w, i + 1))
 *                  ROOT (i + 1, .., y, g) }, one step less
 *       after the loop the last step, without the gather
 *
 * The chain of operands reaches only elements that the loop does not change, its counters and
 * constants, and nobody else reads what it makes of arrays: that would be made twice. An
 * opt-barrier in the chain keeps the collective in its step, and so does a transfer's end. What
 * is only handed on to the next step runs ahead already.
 *
 * Needs, keeps, ends: pipeline.c. */
#include "ir/analysis/collective.h"
#include "passes/collectives/loops/pipeline.h"
#include "passes/settings.h"

enum { CHAIN_MOST = 64 };

typedef struct Backward {
    PipelineLoop *p;
    Instruction **chosen; /* collectives */
    uint32_t count;
    bool *in_chain;     /* by id: of a chosen one, it included */
    uint32_t *visited;  /* by id: by which candidate, + 1 */
    uint32_t candidate; /* that is being looked at */
    Instruction *chain[CHAIN_MOST];
    uint32_t chain_count;
} Backward;

static bool is_invariant(const Backward *b, const Instruction *inst)
{
    int64_t element = loop_element(b->p->loop.body, inst);
    return element >= 0 && loop_is_invariant(&b->p->loop, (uint32_t)element);
}

/* The loop's counter, or another: its next value is known in every step. */
static bool is_counter(const Backward *b, const Instruction *inst)
{
    int64_t element = loop_element(b->p->loop.body, inst);
    return element >= 0 && (element == b->p->induction.index ||
                            loop_counts(&b->p->loop, (uint32_t)element));
}

/* May be made once more without cost that matters. */
static bool is_cheap(const Instruction *inst)
{
    return shape_is_scalar(inst->shape) || inst->op == OP_CONSTANT ||
           inst->op == OP_IOTA ||
           (inst->op == OP_BROADCAST && inst->operands[0]->op == OP_CONSTANT);
}

static bool may_precede(const Backward *b, const Instruction *inst)
{
    return inst->control_count == 0 && !b->p->has_successor[inst->id] &&
           shape_is_array(inst->shape) && inst->op != OP_PARAMETER &&
           inst->op != OP_GET_TUPLE_ELEMENT && inst->op != OP_OPT_BARRIER &&
           !op_is(inst->op, OPF_EFFECT | OPF_RANDOM | OPF_CONTROL | OPF_ASYNC_START |
                                OPF_ASYNC_DONE) &&
           !inst_bool(inst, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT);
}

/* What a collective is made of, in b->chain; false if a step does not have it before it begins. */
static bool find_chain(Backward *b, Instruction *collective)
{
    b->candidate++;
    b->chain_count = 0;
    b->chain[b->chain_count++] = collective;
    b->visited[collective->id] = b->candidate;
    for (uint32_t next = 0; next < b->chain_count; next++) {
        const Instruction *inst = b->chain[next];
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            Instruction *x = inst->operands[k];
            if (b->visited[x->id] == b->candidate || is_invariant(b, x) ||
                is_counter(b, x))
                continue;
            if (!may_precede(b, x) || b->chain_count == CHAIN_MOST)
                return false;
            b->visited[x->id] = b->candidate;
            b->chain[b->chain_count++] = x;
        }
    }
    return true;
}

/* Arrays of the chain are made for nothing else. */
static bool is_closed(const Backward *b)
{
    const Uses *uses = &b->p->uses;
    for (uint32_t i = 1; i < b->chain_count; i++) {
        const Instruction *inst = b->chain[i];
        for (uint32_t u = uses->start[inst->id];
             u < uses->start[inst->id + 1] && !is_cheap(inst); u++) {
            if (b->visited[uses->list[u]->id] != b->candidate)
                return false;
        }
    }
    return true;
}

static bool is_read_in_step(const Backward *b, const Instruction *collective)
{
    const Uses *uses = &b->p->uses;
    for (uint32_t u = uses->start[collective->id]; u < uses->start[collective->id + 1];
         u++) {
        if (uses->list[u] != b->p->loop.body->root)
            return true;
    }
    return false;
}

static void try_collective(Backward *b, Instruction *collective)
{
    if (!is_read_in_step(b, collective) || !find_chain(b, collective) || !is_closed(b) ||
        !pipeline_take(b->p, shape_bytes(collective->shape)))
        return;
    b->chosen[b->count++] = collective;
    for (uint32_t i = 0; i < b->chain_count; i++)
        b->in_chain[b->chain[i]->id] = true;
}

/* -- the rewrite ------------------------------------------------------------------------------- */

/* All chains, in the order of the body. */
static uint32_t list_chains(const Backward *b, Instruction **list)
{
    const Computation *body = b->p->loop.body;
    uint32_t n = 0;
    for (Instruction *inst = inst_first(body); inst; inst = inst_next(inst)) {
        if (b->in_chain[inst->id])
            list[n++] = inst;
    }
    return n;
}

/* The chains once more in `to`, over `made`; what the collectives are there. */
static Instruction **make_chains(Backward *b, Computation *to, Instruction **made,
                                 Instruction *const *list, uint32_t n, int64_t step)
{
    StepCopy copy = {.from = b->p->loop.body,
                     .to = to,
                     .made = made,
                     .ids = b->p->ids,
                     .groups = STEP_GROUPS_DROPPED,
                     .step = step};
    step_copy(&copy, list, n);
    Instruction **out = ARENA_ARRAY(b->p->scratch, Instruction *, (size_t)b->count + 1);
    for (uint32_t i = 0; i < b->count; i++) {
        out[i] = made[b->chosen[i]->id];
        collective_set_pipelined(out[i]);
    }
    return out;
}

/* What the body gathers for the next step. */
static Instruction **gather_next(Backward *b, Instruction *const *list, uint32_t n)
{
    PipelineLoop *p = b->p;
    Computation *body = p->loop.body;
    Instruction **made =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)body->instruction_count + 1);
    for (Instruction *inst = inst_first(body); inst; inst = inst_next(inst)) {
        if (is_invariant(b, inst))
            made[inst->id] = inst;
        else if (is_counter(b, inst))
            made[inst->id] = body->root->operands[inst_int(inst, ATTR_INDEX, 0)];
    }
    return make_chains(b, body, made, list, n, -1);
}

/* The last step, behind the loop: what its results are. */
static void peel_last(Backward *b)
{
    PipelineLoop *p = b->p;
    const Computation *body = p->loop.body;
    Instruction **elements =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)p->loop.count + 1);
    for (uint32_t i = 0; i < p->loop.count; i++)
        elements[i] = computation_add_element(p->loop.inst, i);
    Instruction **made = pipeline_with_elements(p, elements);
    for (uint32_t i = 0; i < b->count; i++)
        made[b->chosen[i]->id] = computation_add_element(p->loop.inst, p->loop.count + i);
    Instruction **list =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)body->instruction_count + 1);
    uint32_t n = 0;
    for (Instruction *inst = inst_first(body); inst; inst = inst_next(inst)) {
        if (inst != body->root && inst->op != OP_PARAMETER)
            list[n++] = inst;
    }
    StepCopy copy = {.from = body,
                     .to = p->caller,
                     .made = made,
                     .ids = p->ids,
                     .groups = STEP_GROUPS_RENUMBERED,
                     .step = p->trips - 1};
    step_copy(&copy, list, n);
    step_order_behind(&copy, list, n, p->loop.inst);
    p->values = ARENA_ARRAY(p->scratch, Instruction *, (size_t)p->loop.count + 1);
    for (uint32_t i = 0; i < p->loop.count; i++)
        p->values[i] = made[body->root->operands[i]->id];
}

/* The condition asks about the next step: counter + step where it read the counter. */
static void ask_for_next(PipelineLoop *p)
{
    Computation *condition = p->loop.condition;
    uint32_t n = condition->instruction_count;
    Instruction **sums = ARENA_ARRAY(p->scratch, Instruction *, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++) {
        Instruction *inst = condition->instructions[i];
        if (loop_element(condition, inst) != p->induction.index)
            continue;
        Instruction *again =
            computation_add_element(condition->parameters[0], p->induction.index);
        int64_t step = p->induction.step; /* unsigned counters may run down */
        Literal *size = literal_create(p->m->arena, again->shape);
        literal_set_int(size, 0, step < 0 ? -step : step);
        Instruction *operands[2] = {again,
                                    computation_add_constant(condition, size, NULL)};
        sums[i] = computation_add(condition, step < 0 ? OP_SUBTRACT : OP_ADD,
                                  again->shape, 2, operands, NULL);
    }
    computation_substitute(condition, sums, n);
    computation_sort(condition);
}

/* The body reads what was gathered for it, and gathers for the next. */
static void change_body(Backward *b, Instruction *const *next)
{
    PipelineLoop *p = b->p;
    Computation *body = p->loop.body;
    pipeline_extend_body(p, next, b->count);
    Instruction **ready = ARENA_ARRAY(p->scratch, Instruction *, (size_t)b->count + 1);
    for (uint32_t i = 0; i < b->count; i++)
        ready[i] = computation_add_element(body->parameters[0], p->loop.count + i);
    Instruction **forward =
        ARENA_ARRAY(p->scratch, Instruction *, (size_t)body->instruction_count + 1);
    for (uint32_t i = 0; i < b->count; i++)
        forward[b->chosen[i]->id] = ready[i];
    computation_substitute(body, forward, body->instruction_count);
    computation_sort(body);
}

static void rewrite(Backward *b)
{
    PipelineLoop *p = b->p;
    Instruction **list = ARENA_ARRAY(p->scratch, Instruction *,
                                     (size_t)p->loop.body->instruction_count + 1);
    uint32_t n = list_chains(b, list);
    Instruction **first = make_chains(
        b, p->caller, pipeline_with_elements(p, p->loop.init->operands), list, n, 0);
    Instruction *init =
        pipeline_longer_tuple(p, p->loop.init->operands, p->loop.count, first, b->count);
    pipeline_renew_loop(p, init, 0, p->trips - 1);
    peel_last(b);
    change_body(b, gather_next(b, list, n));
    ask_for_next(p);
}

bool pipeline_backward(PipelineLoop *p)
{
    const Computation *body = p->loop.body;
    uint32_t n = body->instruction_count, candidates = 0;
    if (p->induction.trips < 1)
        return false;
    for (uint32_t i = 0; i < n; i++)
        candidates += op_is(body->instructions[i]->op, OPF_COLLECTIVE);
    Backward b = {
        .p = p,
        .chosen = ARENA_ARRAY(p->scratch, Instruction *, (size_t)candidates + 1),
        .in_chain = ARENA_ARRAY(p->scratch, bool, (size_t)n + 1),
        .visited = ARENA_ARRAY(p->scratch, uint32_t, (size_t)n + 1),
    };
    for (uint32_t i = n;
         i-- > 0;) { /* users first: what they take along is in a chain then */
        Instruction *inst = body->instructions[i];
        if (inst->op == OP_ALL_GATHER && !b.in_chain[i] &&
            pipeline_is_candidate(p, inst, p->cx->settings->pipeline_all_gather))
            try_collective(&b, inst);
    }
    if (b.count == 0)
        return false;
    p->cx->counts.collectives_pipelined_backward += b.count;
    p->cx->counts.bytes_pipelined_backward += (uint64_t)p->bytes;
    rewrite(&b);
    return true;
}
