/* Moving a module into fresh memory: module_compact. See module.h. */
#include <string.h>

#include "ir/attribute/copier.h"
#include "ir/attribute/stack_frames.h"
#include "ir/base/bug.h"
#include "ir/names.h"

/* What the instructions of a computation need together. */
typedef struct Extent {
    size_t instructions, operands, control, attrs, text;
} Extent;

static Extent extent_of(const Computation *comp)
{
    Extent e = {0};
    for (uint32_t i = 0; i < comp->instruction_count; i++) {
        const Instruction *inst = comp->instructions[i];
        if (inst == NULL)
            continue;
        e.instructions++;
        e.operands += inst->operand_count;
        e.control += inst->control_count;
        e.attrs += inst->attr_count;
        e.text += strlen(inst->name) + 1;
    }
    return e;
}

/* A computation that is being copied: where the next of each kind goes. */
typedef struct Copies {
    Instruction **operands, **control;
    Attr *attrs;
    char *text;
} Copies;

/* The copies of instructions that one names. */
static Instruction **copy_references(Instruction **to, const Computation *comp,
                                     Instruction *const *list, uint32_t count,
                                     Instruction *const *copies)
{
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *old = list[i];
        if (old->parent != comp || comp->instructions[old->id] != old)
            bug("%s was removed and is still read", old->name);
        to[i] = copies[old->id];
    }
    return to + count;
}

static void copy_instruction(Copier *c, const Computation *from, const Instruction *old,
                             Copies *to, Instruction *const *copies)
{
    Instruction *inst = copies[old->id];
    uint32_t id = inst->id;
    Computation *parent = inst->parent;
    *inst = *old;
    op_set_add(&parent->module->ops, old->op);
    inst->id = id;
    inst->parent = parent;
    inst->shape = copy_shape(c, old->shape);
    if (old->op == OP_CONSTANT)
        inst->literal = copy_literal(c, old->literal);
    size_t bytes = strlen(old->name) + 1;
    inst->name = memcpy(to->text, old->name, bytes);
    to->text += bytes;
    inst->operands = to->operands;
    to->operands =
        copy_references(to->operands, from, old->operands, old->operand_count, copies);
    inst->control = to->control;
    to->control =
        copy_references(to->control, from, old->control, old->control_count, copies);
    inst->attrs = to->attrs;
    for (uint32_t i = 0; i < old->attr_count; i++) {
        to->attrs[i] = old->attrs[i];
        copy_attr_value(c, &to->attrs[i]);
    }
    to->attrs += old->attr_count;
}

/* *to is a copy of *from as it is, for the same module. */
static void copy_computation(Copier *c, const Computation *from, Computation *to)
{
    Arena *a = c->to;
    Extent e = extent_of(from);
    Arena *scratch = arena_scratch();
    Instruction **copies = ARENA_ARRAY(scratch, Instruction *, from->instruction_count);
    Instruction *instructions = ARENA_ARRAY(a, Instruction, e.instructions);
    Copies parts = {.operands = ARENA_ARRAY(a, Instruction *, e.operands),
                    .control = ARENA_ARRAY(a, Instruction *, e.control),
                    .attrs = ARENA_ARRAY(a, Attr, e.attrs),
                    .text = arena_alloc(a, e.text)};
    to->instruction_count = (uint32_t)e.instructions;
    to->instruction_capacity = e.instructions;
    to->instructions = ARENA_ARRAY(a, Instruction *, e.instructions);
    uint32_t n = 0;
    for (uint32_t i = 0; i < from->instruction_count; i++) {
        if (from->instructions[i] == NULL)
            continue;
        to->instructions[n] = copies[i] = &instructions[n];
        instructions[n].id = n;
        instructions[n++].parent = to;
    }
    for (uint32_t i = 0; i < from->instruction_count; i++) {
        if (from->instructions[i] != NULL)
            copy_instruction(c, from, from->instructions[i], &parts, copies);
    }
    to->name = copy_text(c, from->name);
    to->execution_thread = copy_text(c, from->execution_thread);
    to->parameters = ARENA_ARRAY(a, Instruction *, from->parameter_count);
    copy_references(to->parameters, from, from->parameters, from->parameter_count,
                    copies);
    copy_references(&to->root, from, &from->root, 1, copies);
    arena_destroy(scratch);
}

static const Bytes *copy_strings(Copier *c, const Bytes *strings, uint32_t count)
{
    Bytes *copy = arena_copy(c->to, strings, count * sizeof *copy);
    for (uint32_t i = 0; i < count; i++)
        copy[i] = copy_bytes(c, copy[i]);
    return copy;
}

static const StackFrames *copy_stack_frames(Copier *c, const StackFrames *f)
{
    if (f == NULL)
        return NULL;
    StackFrames *copy = arena_copy(c->to, f, sizeof *f);
    copy->files = copy_strings(c, f->files, f->file_count);
    copy->functions = copy_strings(c, f->functions, f->function_count);
    copy->locations =
        copy_array(c, f->locations, f->location_count, sizeof *f->locations);
    copy->frames = copy_array(c, f->frames, f->frame_count, sizeof *f->frames);
    return copy;
}

static void copy_config(Copier *c, ModuleConfig *config)
{
    config->input_output_alias = copy_aliasing(c, config->input_output_alias);
    DonorEntry *donors =
        arena_copy(c->to, config->donors, config->donor_count * sizeof *donors);
    for (uint32_t i = 0; i < config->donor_count; i++)
        donors[i].index = copy_ints(c, donors[i].index);
    config->donors = donors;
    Shapes parameters = {config->entry_parameters, config->entry_parameter_count};
    config->entry_parameters = copy_shapes(c, parameters).data;
    config->entry_result = copy_shape(c, config->entry_result);
    config->propagate_to_parameters = copy_ints(c, config->propagate_to_parameters);
    config->propagate_to_output = copy_ints(c, config->propagate_to_output);
    config->frontend_attributes = copy_dict(c, config->frontend_attributes);
    config->origin_recovery_table = copy_bytes(c, config->origin_recovery_table);
    config->debug_attributes = copy_bytes(c, config->debug_attributes);
    config->stack_frames = copy_stack_frames(c, config->stack_frames);
}

static void copy_computations(Copier *c, Module *m)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < m->computation_count; i++)
        live += m->computations[i] != NULL;
    Computation **old = m->computations;
    Computation *fresh = ARENA_ARRAY(c->to, Computation, live);
    Computation **list = ARENA_ARRAY(c->to, Computation *, live);
    Computation **by_id = ARENA_ARRAY(c->scratch, Computation *, m->computation_count);
    c->computations = by_id;
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->computation_count; i++) {
        if (old[i] == NULL)
            continue;
        fresh[n] = *old[i];
        fresh[n].id = n;
        by_id[i] = list[n] = &fresh[n];
        n++;
    }
    for (uint32_t i = 0; i < m->computation_count; i++) {
        if (old[i] != NULL)
            copy_computation(c, old[i], by_id[i]);
    }
    m->entry = by_id[m->entry->id];
    m->computations = list;
    m->computation_count = live;
    m->computation_capacity = live;
}

void module_compact(Module *m)
{
    if (m->arena == m->diag->arena)
        return;
    Arena *old = arena_move(m->arena);
    Copier c = {.from = old,
                .to = m->arena,
                .scratch = arena_scratch(),
                .intern = intern_create(m->arena)};
    m->intern = c.intern;
    m->name = copy_text(&c, m->name);
    m->ops = (OpSet){{0}};
    copy_computations(&c, m);
    copy_config(&c, &m->config);
    m->instruction_names = names_copy(m->arena, m->instruction_names);
    m->computation_names = names_copy(m->arena, m->computation_names);
    arena_destroy(c.scratch);
    arena_destroy(old);
}
