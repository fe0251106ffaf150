/* Copies around memory for collectives: what the caller or the file owns is ordinary memory.
 *
 *   ROOT r = f32[4] all-reduce(p)   =>   c = f32[4] copy(p)
 *                                        a = f32[4] all-reduce(c)
 *                                        ROOT r = f32[4] copy(a)
 *
 * A parameter of the program or a constant whose buffer would have to be in memory for
 * collectives gets one copy, which all its readers read; so does a result. codegen gives the
 * buffers their colours, by the same analysis.
 *
 * Needs: scheduled, copies inserted. Keeps: the order, values. Ends: one sweep. */
#include <string.h>

#include "ir/analysis/memory_colour.h"
#include "passes/collectives/collectives.h"
#include "passes/settings.h"

typedef struct Memory {
    Computation *comp;
    const AliasSets *sets;
    const uint32_t *colours;
    Instruction **order; /* the new list of instructions */
    uint32_t count;
    Instruction **forward; /* by old id */
    uint32_t copies;
} Memory;

static bool is_coloured(const Memory *x, const Instruction *inst)
{
    bool found = false;
    for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape) && !found; leaf++)
        found = x->colours[alias_set(x->sets, inst, leaf)] == MEMORY_COLLECTIVE;
    return found;
}

static Instruction *copy_of(Memory *x, Instruction *inst)
{
    Instruction *copy =
        computation_add(x->comp, OP_COPY, inst->shape, 1, &inst, "collective_copy");
    copy->span = inst->span;
    x->copies++;
    return copy;
}

/* The results in ordinary memory; copies are appended to the order. */
static void copy_results(Memory *x, Instruction *root)
{
    for (uint32_t i = 0; root->op == OP_TUPLE && i < root->operand_count; i++) {
        if (root->operands[i]->op == OP_COPY || !is_coloured(x, root->operands[i]))
            continue;
        Instruction *source = root->operands[i];
        Instruction *made = x->forward[source->id];
        made = copy_of(x, made != NULL ? made : source);
        x->order[x->count++] = made;
        root->operands[i] = made;
    }
}

static void visit(Memory *x, bool is_entry, Arena *scratch)
{
    Computation *comp = x->comp;
    computation_compact(comp);
    uint32_t count = comp->instruction_count;
    uint32_t extra = count + (is_entry ? comp->root->operand_count : 0) + 2;
    x->order = ARENA_ARRAY(scratch, Instruction *, (size_t)count + extra);
    x->forward = ARENA_ARRAY(scratch, Instruction *, (size_t)count + extra);
    Instruction *root = comp->root;
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        if (is_entry && inst == root && root->op == OP_TUPLE)
            copy_results(x, root);
        x->order[x->count++] = inst;
        bool is_owned = inst->op == OP_CONSTANT || (is_entry && inst->op == OP_PARAMETER);
        if (is_owned && is_coloured(x, inst)) {
            x->forward[i] = copy_of(x, inst);
            x->order[x->count++] = x->forward[i];
        }
    }
    if (is_entry && root->op != OP_TUPLE && root->op != OP_COPY &&
        x->forward[root->id] == NULL && is_coloured(x, root)) {
        x->order[x->count++] = copy_of(x, root);
        comp->root = x->order[x->count - 1];
    }
}

/* Readers of what was copied read the copy; the copy itself does not. */
static void finish(Memory *x)
{
    Computation *comp = x->comp;
    for (uint32_t i = 0; i < x->count; i++) {
        Instruction *inst = x->order[i];
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            Instruction *to = x->forward[inst->operands[k]->id];
            if (to != NULL && to != inst)
                inst->operands[k] = to;
        }
    }
    memset(comp->instructions, 0, comp->instruction_count * sizeof *comp->instructions);
    memcpy(comp->instructions, x->order, x->count * sizeof *comp->instructions);
    comp->instruction_count = x->count;
    computation_compact(comp);
}

bool pass_collective_memory(Module *m, PassContext *cx)
{
    if (!m->config.is_scheduled)
        return false;
    const AliasSets *sets = alias_sets_create(m, cx->scratch);
    const uint32_t *colours =
        memory_colours(m, sets, cx->settings->collective_memory != 0, cx->scratch);
    if (colours == NULL)
        return false;
    Computations programs = module_programs(m, cx->scratch);
    uint32_t copies = 0;
    for (uint32_t c = 0; c < programs.count; c++) {
        Memory x = {.comp = programs.data[c], .sets = sets, .colours = colours};
        visit(&x, x.comp == m->entry, cx->scratch);
        if (x.copies != 0)
            finish(&x);
        copies += x.copies;
    }
    cx->counts.collective_copies += copies;
    return copies != 0;
}
