/* What a plan says of its commands and of its memory, for those who look into a program. */
#include "runtime/run/program.h"
#include "runtime/run/status.h"

static const Plan *plan_of(const gxrt_program *program, size_t variant)
{
    return program && variant < program->variant_count ? &program->variants[variant].plan
                                                       : NULL;
}

gxrt_status gxrt_program_get_command(const gxrt_program *program, size_t variant,
                                     size_t index, gxrt_command_info *info)
{
    const Plan *p = plan_of(program, variant);
    if (!p || !info || info->struct_size < sizeof(size_t) || index >= p->commands_count) {
        return program_bad_query("gxrt_program_get_command");
    }
    const PlanCommand *c = &p->commands[index];
    gxrt_command_info all = {.name = plan_text(p, c->name),
                             .kind = plan_command_name(c->kind),
                             .what = plan_command_subject(p, c),
                             .op_name = "",
                             .source_file = "",
                             .tuning_key = "",
                             .stream = c->stream,
                             .bytes = plan_command_bytes(p, c),
                             .subtree = c->subtree};
    if (p->origins_count) {
        const PlanOrigin *o = &p->origins[index];
        all.op_name = plan_text(p, o->source.op_name);
        all.source_file = plan_text(p, o->source.file);
        all.source_line = o->source.line;
        all.modelled_us = 1e-6 * (double)o->modelled;
    }
    if (c->kind == PLAN_COLLECTIVE) {
        const PlanClique *clique = &p->cliques[p->collectives[c->index].clique];
        all.group_count = clique->group_count;
        all.group_size = clique->group_count ? (uint32_t)p->numbers[clique->groups] : 0;
    }
    for (uint32_t i = 0; i < p->tunables_count; i++) {
        if (p->tunables[i].command == index) {
            all.tuning_key = plan_text(p, p->tunables[i].key);
            all.candidate_count = p->tunables[i].candidate_count;
        }
    }
    program_give(info, &all, sizeof all);
    return GXRT_OK;
}

gxrt_status gxrt_program_get_memory(const gxrt_program *program, size_t variant,
                                    size_t index, gxrt_memory_info *info)
{
    const Plan *p = plan_of(program, variant);
    if (!p || !info || info->struct_size < sizeof(size_t) || index >= p->buffers_count) {
        return program_bad_query("gxrt_program_get_memory");
    }
    const PlanBuffer *b = &p->buffers[index];
    const PlanAllocation *a = &p->allocations[b->allocation];
    gxrt_memory_info all = {.name = plan_text(p, b->name),
                            .kind = plan_allocation_name(a->kind),
                            .op_name = plan_text(p, b->source.op_name),
                            .source_file = plan_text(p, b->source.file),
                            .source_line = b->source.line,
                            .allocation = b->allocation,
                            .offset = b->offset,
                            .bytes = b->bytes,
                            .first_step = b->first,
                            .last_step = b->last,
                            .is_host = a->colour == PLAN_HOST_MEMORY};
    program_give(info, &all, sizeof all);
    return GXRT_OK;
}

const char *gxrt_program_get_step(const gxrt_program *program, size_t variant,
                                  size_t index)
{
    const Plan *p = plan_of(program, variant);
    return p && index < p->steps_count ? plan_text(p, p->steps[index]) : NULL;
}
