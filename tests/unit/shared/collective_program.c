/* See collective_program.h. */
#include "tests/unit/shared/collective_program.h"

#include <stdio.h>

#include "tests/unit/shared/artefact.h"

static uint32_t value(CollectiveMaker *m, bool result, int64_t n)
{
    uint32_t index = result ? m->b.results_count : m->b.arguments_count;
    uint64_t bytes = (uint64_t)n * 4;
    PlanAllocation a = {.kind = result ? PLAN_RESULT : PLAN_ARGUMENT,
                        .index = index,
                        .alignment = 16,
                        .bytes = bytes};
    PlanSlice s = {.allocation = plan_add_allocations(&m->b, &a, 1), .bytes = bytes};
    PlanValue v = {.name = plan_string(&m->b, "v"),
                   .dtype = plan_string(&m->b, "f32"),
                   .element_bits = 32,
                   .rank = 1,
                   .dims = plan_add_numbers(&m->b, (int64_t[]){n, 0}, 2),
                   .slice = plan_add_slices(&m->b, &s, 1),
                   .alias = PLAN_NONE,
                   .size_of = PLAN_NONE,
                   .bytes = bytes};
    if (result)
        plan_add_results(&m->b, &v, 1);
    else
        plan_add_arguments(&m->b, &v, 1);
    return v.slice;
}

void collectives_init(CollectiveMaker *m, const char *module, uint32_t devices, int64_t n)
{
    plan_builder_init(&m->b);
    m->b.info[0].target = plan_string(&m->b, "sm_90a");
    m->b.info[0].module = plan_string(&m->b, module);
    m->b.info[0].sm = 90;
    m->b.info[0].suffix = 'a';
    m->b.info[0].partitions = devices;
    m->in = value(m, false, n);
}

uint32_t collectives_clique(CollectiveMaker *m, const char *name, uint32_t groups,
                            const int64_t *numbers, uint32_t count)
{
    PlanClique c = {.name = plan_string(&m->b, name),
                    .mode = PLAN_FLATTENED_ID,
                    .group_count = groups,
                    .groups = plan_add_numbers(&m->b, numbers, count),
                    .number_count = count};
    return plan_add_cliques(&m->b, &c, 1);
}

PlanCollective *collectives_add(CollectiveMaker *m, uint32_t kind, const char *name,
                                uint32_t clique, int64_t n)
{
    PlanCollective op = {.kind = kind,
                         .reduction = PLAN_REDUCE_SUM,
                         .dtype = plan_string(&m->b, "f32"),
                         .clique = clique,
                         .dtypes = PLAN_NONE};
    PlanArg args[2] = {{PLAN_ARG_SLICE, PLAN_READ, m->in, 0},
                       {PLAN_ARG_SLICE, PLAN_WRITE, value(m, true, n), 0}};
    PlanCommand c = {.kind = PLAN_COLLECTIVE,
                     .name = plan_string(&m->b, name),
                     .signal = PLAN_NONE,
                     .index = plan_add_collectives(&m->b, &op, 1)};
    plan_command(&m->b, &c, args, 2);
    return &m->b.collectives[c.index];
}

gxrt_program *collectives_open(CollectiveMaker *m, void **out_file)
{
    size_t size;
    gxrt_program *program = NULL;
    *out_file = artefact_make(&m->b, NULL, 0, &size);
    if (gxrt_program_open_memory(*out_file, size, &program) != GXRT_OK)
        fprintf(stderr, "%s\n", gxrt_last_error());
    return program;
}
