/* The verifier: what must hold of a module (section 12 of the language).
 *
 * Each rule makes its message and goes on, so that one run shows several mistakes; a module
 * whose structure is broken (operands elsewhere, cycles) is looked at no further. Everything is
 * linear in the module and without recursion over operands. */
#include "ir/verify/verify.h"

#include <stdarg.h>
#include <string.h>

#include "ir/base/bug.h"
#include "ir/verify/rules.h"

void verify_error(Verify *v, const Instruction *inst, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = arena_vprintf(v->scratch, format, args);
    va_end(args);
    diag_error(v->diag, inst->span, "%s (%s): %s", inst->name, op_info[inst->op].name,
               text);
}

const char *verify_text(Verify *v, const Shape *s)
{
    return shape_text(v->scratch, s, true);
}

bool verify_has_buffer(const Shape *s)
{
    return s
        ->has_buffer; /* tuples of tuples of ... share their parts: not looked through again */
}

/* -- structure ------------------------------------------------------------------------ */

static bool is_in(const Computation *comp, const Instruction *inst)
{
    return inst && inst->parent == comp && inst->id < comp->instruction_count &&
           comp->instructions[inst->id] == inst;
}

/* Operands and control predecessors are in the same computation; *ordered: and before it. */
static bool check_edges(Verify *v, const Computation *comp, bool *ordered)
{
    bool good = true;
    for (uint32_t i = 0; i < comp->instruction_count; i++) {
        const Instruction *inst = comp->instructions[i];
        if (!inst)
            continue;
        if (inst->id != i || !inst->shape) {
            verify_error(v, inst,
                         inst->shape ? "its id is not its index" : "has no shape");
            return false;
        }
        for (uint32_t k = 0; k < inst->operand_count + inst->control_count; k++) {
            const Instruction *from = k < inst->operand_count
                                          ? inst->operands[k]
                                          : inst->control[k - inst->operand_count];
            if (!is_in(comp, from)) {
                verify_error(v, inst,
                             "operand or control predecessor %u is not in computation %s",
                             k, comp->name);
                good = false;
            } else {
                *ordered &= from->id < i;
            }
        }
    }
    return good;
}

/* Kahn's algorithm: true if every instruction can come after what it needs. */
static bool is_acyclic(Verify *v, const Computation *comp)
{
    uint32_t n = comp->instruction_count, top = 0, done = 0, present = 0;
    uint32_t *waits = ARENA_ARRAY(v->scratch, uint32_t, n);
    uint32_t *start = ARENA_ARRAY(v->scratch, uint32_t, (size_t)n + 2);
    uint32_t *stack = ARENA_ARRAY(v->scratch, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) {
        const Instruction *inst = comp->instructions[i];
        if (!inst)
            continue;
        present++;
        waits[i] = inst->operand_count + inst->control_count;
        for (uint32_t k = 0; k < inst->operand_count; k++)
            start[inst->operands[k]->id + 2]++;
        for (uint32_t k = 0; k < inst->control_count; k++)
            start[inst->control[k]->id + 2]++;
    }
    for (uint32_t i = 1; i < n + 2; i++)
        start[i] += start[i - 1];
    uint32_t *users = ARENA_ARRAY(v->scratch, uint32_t, start[n + 1] + 1);
    for (uint32_t i = 0; i < n; i++) {
        const Instruction *inst = comp->instructions[i];
        for (uint32_t k = 0; inst && k < inst->operand_count; k++)
            users[start[inst->operands[k]->id + 1]++] = i;
        for (uint32_t k = 0; inst && k < inst->control_count; k++)
            users[start[inst->control[k]->id + 1]++] = i;
        if (inst && waits[i] == 0)
            stack[top++] = i;
    }
    while (top > 0) {
        uint32_t i = stack[--top];
        done++;
        for (uint32_t k = start[i]; k < start[i + 1]; k++)
            if (--waits[users[k]] == 0)
                stack[top++] = users[k];
    }
    return done == present;
}

static bool check_parameters(Verify *v, const Computation *comp)
{
    uint32_t found = 0;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op != OP_PARAMETER)
            continue;
        found++;
        if (inst->parameter < 0 || inst->parameter >= comp->parameter_count ||
            comp->parameters[inst->parameter] != inst) {
            verify_error(v, inst, "parameter %lld of %u of computation %s",
                         (long long)inst->parameter, comp->parameter_count, comp->name);
            return false;
        }
    }
    if (found == comp->parameter_count)
        return true;
    diag_error(v->diag, comp->span,
               "computation %s has %u parameters, but %u are defined", comp->name,
               comp->parameter_count, found);
    return false;
}

static bool check_computation_structure(Verify *v, const Computation *comp)
{
    bool ordered = true;
    if (!is_in(comp, comp->root)) {
        diag_error(v->diag, comp->span, "computation %s has no root", comp->name);
        return false;
    }
    if (!check_edges(v, comp, &ordered) || !check_parameters(v, comp))
        return false;
    if (!ordered && v->m->config.is_scheduled) {
        diag_error(
            v->diag, comp->span,
            "computation %s is scheduled, but an instruction comes before what it needs",
            comp->name);
        return false;
    }
    if (!ordered && !is_acyclic(v, comp)) {
        diag_error(v->diag, comp->span, "the instructions of computation %s form a cycle",
                   comp->name);
        return false;
    }
    return true;
}

/* Computations call only computations of the module, and none calls itself. */
static bool check_calls(Verify *v)
{
    Module *m = v->m;
    uint32_t n = m->computation_count, top = 0, done = 0, present = 0;
    uint32_t *waits = ARENA_ARRAY(v->scratch, uint32_t, n); /* calls not yet done */
    uint32_t *first = ARENA_ARRAY(v->scratch, uint32_t, (size_t)n + 2);
    uint32_t *stack = ARENA_ARRAY(v->scratch, uint32_t, n);
    bool ordered = true;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        present++;
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            uint32_t calls = inst_called_count(inst);
            for (uint32_t k = 0; k < calls; k++) {
                const Computation *callee = inst_called(inst, k);
                if (!callee || callee->id >= n || m->computations[callee->id] != callee) {
                    verify_error(v, inst,
                                 "calls a computation that is not in the module");
                    return false;
                }
                waits[comp->id]++;
                first[callee->id + 2]++;
                ordered &= callee->id < comp->id;
            }
        }
    }
    if (ordered)
        return true;
    for (uint32_t i = 1; i < n + 2; i++)
        first[i] += first[i - 1];
    uint32_t *callers = ARENA_ARRAY(v->scratch, uint32_t, first[n + 1] + 1);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            uint32_t calls = inst_called_count(inst);
            for (uint32_t k = 0; k < calls; k++)
                callers[first[inst_called(inst, k)->id + 1]++] = comp->id;
        }
        if (waits[comp->id] == 0)
            stack[top++] = comp->id;
    }
    while (top > 0) {
        uint32_t c = stack[--top];
        done++;
        for (uint32_t k = first[c]; k < first[c + 1]; k++)
            if (--waits[callers[k]] == 0)
                stack[top++] = callers[k];
    }
    if (done == present)
        return true;
    diag_error(v->diag, (Span){0}, "computations call each other in a cycle");
    return false;
}

/* Neighbours in memory have neighbouring slots. */
static size_t pointer_hash(const void *p)
{
    uint64_t at = (uintptr_t)p, run = at >> 11, in_run = at >> 7 & 15;
    return (size_t)((run * UINT64_C(0x9e3779b97f4a7c15) >> 24) * 16 + in_run);
}

/* Each name was given once (ir/names.h): no pointer may occur twice. */
static void check_names(Verify *v)
{
    Module *m = v->m;
    size_t total = 0, size = 16;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        total += comp->instruction_count;
    while (size < total * 2)
        size *= 2;
    const char **table = ARENA_ARRAY(v->scratch, const char *, size);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            size_t at = pointer_hash(inst->name) & (size - 1);
            while (table[at] && table[at] != inst->name)
                at = (at + 1) & (size - 1);
            if (table[at])
                verify_error(v, inst, "its name is not unique in the module");
            table[at] = inst->name;
        }
    }
}

static bool check_structure(Verify *v)
{
    Module *m = v->m;
    bool good = true;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        good &= check_computation_structure(v, comp);
    if (!m->entry || m->entry->id >= m->computation_count ||
        m->computations[m->entry->id] != m->entry) {
        diag_error(v->diag, (Span){0}, "module %s has no entry computation", m->name);
        return false;
    }
    if (m->entry->is_fused)
        diag_error(v->diag, m->entry->span, "the entry computation %s is fused",
                   m->entry->name);
    return good && check_calls(v);
}

/* -- computations ------------------------------------------------------------------------ */

static bool is_async(const Instruction *inst)
{
    return inst->op == OP_ASYNC_START || inst->op == OP_ASYNC_UPDATE ||
           inst->op == OP_ASYNC_DONE;
}

/* What an async-start calls may be one call, to the thread that it is for. */
static bool is_async_root(const Verify *v, const Instruction *inst)
{
    const Instruction *caller = v->fusion_of[inst->parent->id];
    return caller && caller->op == OP_ASYNC_START && inst == inst->parent->root;
}

/* A callee runs on the caller's thread; an asynchronous one on the thread that is named. */
static void check_threads(Verify *v, const Instruction *inst)
{
    uint32_t calls = inst_called_count(inst);
    const char *thread = inst->parent->execution_thread;
    if (is_async(inst) && calls > 0) {
        Bytes named = inst_bytes(inst, ATTR_ASYNC_EXECUTION_THREAD);
        thread = named.length ? named.data : "main";
    }
    for (uint32_t i = 0; i < calls; i++) {
        const Computation *callee = inst_called(inst, i);
        if (callee->execution_thread == thread || !callee->execution_thread || !thread ||
            strcmp(callee->execution_thread, "main") == 0 ||
            inst->parent->is_async_wrapped || is_async_root(v, inst) ||
            strcmp(callee->execution_thread, thread) == 0)
            continue;
        verify_error(v, inst, "computation %s is of execution thread \"%s\", not \"%s\"",
                     callee->name, callee->execution_thread, thread);
    }
}

/* A fused or asynchronous computation is called once, and by nothing else. */
static void check_sole_caller(Verify *v, const Instruction *inst)
{
    if (inst->op != OP_FUSION && inst->op != OP_ASYNC_START)
        return;
    for (uint32_t i = 0; i < inst_called_count(inst); i++) {
        const Computation *callee = inst_called(inst, i);
        const Instruction *other = v->fusion_of[callee->id];
        if (other)
            verify_error(v, inst, "computation %s is called by more than one %s: %s",
                         callee->name, inst->op == OP_FUSION ? "fusion" : "async op",
                         other->name);
        v->fusion_of[callee->id] = inst;
    }
}

/* All that a fusion computes is used; its root is used by nothing inside. */
static void check_fused(Verify *v, const Computation *comp, Uses uses)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        bool used = uses.start[inst->id + 1] > uses.start[inst->id];
        if (inst == comp->root && used)
            verify_error(v, inst, "is the root of fused computation %s, but has users",
                         comp->name);
        if (v->level > LEVEL_WELL_FORMED && inst != comp->root && !used &&
            inst->op != OP_PARAMETER && !op_is(inst->op, OPF_EFFECT) &&
            !inst_bool(inst, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT))
            verify_error(v, inst, "has no users in fused computation %s", comp->name);
    }
}

static void check_computation(Verify *v, const Computation *comp)
{
    bool pairs = false, buffers = false;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (!op_set_has(&v->m->ops, inst->op))
            bug("%s is not in its module's set of opcodes", op_info[inst->op].name);
        verify_instruction(v, inst);
        if (inst_called_count(inst) > 0) {
            check_threads(v, inst);
            check_sole_caller(v, inst);
        }
        pairs |= op_is(inst->op, OPF_ASYNC_START | OPF_ASYNC_DONE) ||
                 inst->op == OP_SEND || inst->op == OP_RECV || inst->op == OP_SEND_DONE ||
                 inst->op == OP_RECV_DONE || inst->op == OP_ASYNC_UPDATE;
        buffers |= verify_has_buffer(inst->shape);
    }
    const Instruction *caller = v->fusion_of[comp->id];
    bool fused = caller && caller->op == OP_FUSION;
    if (!pairs && !buffers && !fused)
        return;
    Uses uses = uses_compute(comp, v->scratch);
    if (pairs)
        verify_pairs(v, comp, uses);
    if (buffers)
        verify_buffers(v, comp, uses);
    if (fused)
        check_fused(v, comp, uses);
}

bool module_verify(Module *m, Level level, Arena *scratch)
{
    size_t before = m->diag->error_count;
    Verify v = {.m = m, .diag = m->diag, .scratch = scratch, .level = level};
    v.infer = (InferContext){.intern = m->intern,
                             .arena = scratch,
                             .diag = m->diag,
                             .mixed_precision = true,
                             .sketch = level == LEVEL_SKETCH};
    v.fusion_of = ARENA_ARRAY(scratch, const Instruction *, m->computation_count);
    if (!check_structure(&v))
        return false;
    check_names(&v);
    for (const Computation *comp = comp_last(m); comp; comp = comp_previous(comp))
        check_computation(&v, comp); /* callers first */
    verify_transfers(&v);
    verify_header(&v);
    if (level > LEVEL_WELL_FORMED && m->diag->error_count == before)
        verify_level(&v);
    return m->diag->error_count == before;
}
