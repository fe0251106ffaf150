/* What a plan says for those who look at it, not for running: where its commands and buffers come from, how long
 * commands take by the model of time, and when buffers live. See plan.h: ORIGINS, STEPS, BUFFERS. */
#include "codegen/plan/variant.h"
#include "ir/attribute/stack_frames.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/time/work.h"

static const Metadata *metadata_of(const Instruction *inst)
{
    const Attr *a = inst_attr(inst, ATTR_METADATA);
    return a != NULL ? a->metadata : NULL;
}

/* A fusion without metadata is where its root is from, or else the first of its instructions that says so. */
static const Metadata *find_metadata(const Instruction *inst)
{
    const Metadata *m = metadata_of(inst);
    if (m != NULL || inst->op != OP_FUSION)
        return m;
    const Computation *comp = inst_called(inst, 0);
    m = metadata_of(comp->root);
    for (const Instruction *i = inst_first(comp); i != NULL && m == NULL;
         i = inst_next(i))
        m = metadata_of(i);
    return m;
}

static uint32_t line_number(int64_t line)
{
    return line > 0 && line < UINT32_MAX ? (uint32_t)line : 0;
}

/* The location that a stack frame names, in metadata whose own file is empty. */
static void find_frame(const StackFrames *f, int64_t id, CodegenSource *out)
{
    if (f == NULL || id < 1 || id > f->frame_count)
        return;
    int64_t at = f->frames[id - 1].location;
    if (at < 1 || at > f->location_count)
        return;
    const FileLocation *l = &f->locations[at - 1];
    if (l->file < 1 || l->file > f->file_count)
        return;
    out->file = f->files[l->file - 1].data;
    out->line = line_number(l->line);
}

CodegenSource codegen_source(const Module *m, const Instruction *inst)
{
    const Metadata *metadata = find_metadata(inst);
    CodegenSource s = {"", "", 0};
    if (metadata == NULL)
        return s;
    s.op_name = metadata->op_name.length != 0 ? metadata->op_name.data : "";
    s.file = metadata->source_file.length != 0 ? metadata->source_file.data : "";
    s.line = line_number(metadata->source_line);
    if (*s.file == '\0')
        find_frame(m->config.stack_frames, metadata->stack_frame_id, &s);
    return s;
}

static PlanSource source_of(Variant *v, const Instruction *inst)
{
    CodegenSource s = codegen_source(v->module, inst);
    return (PlanSource){.op_name = plan_string(&v->plan, s.op_name),
                        .file = plan_string(&v->plan, s.file),
                        .line = s.line};
}

/* Of fills and copies beside an instruction's own command nothing is known. */
static uint64_t modelled(const Variant *v, CostModel *cost, const VariantCommand *c)
{
    double seconds = cost_transfer(cost, c->inst);
    const KernelDesign *d = c->kind == PLAN_LAUNCH ? v->requests[c->index].design : NULL;
    if (d != NULL && d->fusion == c->inst)
        seconds = cost_designed(cost, d).seconds;
    else if (seconds == 0 && c->kind != PLAN_FILL && c->kind != PLAN_COLLECTIVE)
        seconds = cost_kernel(cost, c->inst).seconds;
    return seconds > 0 && seconds < 1e6 ? (uint64_t)(seconds * 1e12) : 0;
}

static void add_origins(Variant *v)
{
    CostModel *cost = cost_create_alone(v->module, v->target, v->arena);
    uint64_t *of_kernel = ARENA_ARRAY(v->arena, uint64_t, v->request_count + 1);
    for (uint32_t i = 0; i < v->plan.commands_count; i++) {
        const VariantCommand *c = &v->commands[i];
        PlanOrigin o = {.source = source_of(v, c->inst)};
        uint64_t *known = c->kind == PLAN_LAUNCH ? &of_kernel[c->index] : NULL;
        if (known != NULL && *known != 0)
            o.modelled = *known; /* equal kernels take equal times */
        else if (plan_command_works(c->kind))
            o.modelled = modelled(v, cost, c);
        if (known != NULL)
            *known = o.modelled;
        plan_add_origins(&v->plan, &o, 1);
    }
}

/* What holds a result: the value that the root's tuple takes. */
static const Instruction *owner_of(const Buffer *b)
{
    const Instruction *owner = b->owner;
    bool picks = b->kind == BUFFER_RESULT && owner->op == OP_TUPLE &&
                 b->index < owner->operand_count &&
                 shape_is_array(owner->operands[b->index]->shape);
    return picks ? owner->operands[b->index] : owner;
}

static void add_buffers(Variant *v)
{
    const Buffers *all = v->buffers;
    for (uint32_t set = 0; set < all->set_count; set++) {
        const Buffer *b = &all->sets[set];
        if (v->slices[set] == PLAN_NONE || b->owner == NULL || b->bytes == 0)
            continue;
        bool whole = b->kind != BUFFER_TEMP && b->kind != BUFFER_NONE;
        const PlanSlice *s = &v->plan.slices[v->slices[set]];
        const Instruction *owner = owner_of(b);
        PlanBuffer p = {.name = plan_string(&v->plan, owner->name),
                        .allocation = s->allocation,
                        .first = whole ? 0 : b->begin - 1,
                        .last = whole ? all->end - 1 : b->end - 1,
                        .offset = s->offset,
                        .bytes = b->bytes,
                        .source = source_of(v, owner)};
        plan_add_buffers(&v->plan, &p, 1);
    }
}

void variant_describe(Variant *v)
{
    const Buffers *b = v->buffers;
    for (uint32_t i = 0; i < b->end; i++) { /* the last: the results are there */
        const Instruction *inst = i + 1 < b->end ? b->steps[i] : v->module->entry->root;
        uint32_t name = plan_string(&v->plan, inst->name);
        plan_add_steps(&v->plan, &name, 1);
    }
    add_origins(v);
    add_buffers(v);
}
