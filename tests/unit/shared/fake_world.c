/* See fake_world.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/fake_driver.h"
#include "tests/unit/shared/fake_world.h"

void world_begin(Maker *m)
{
    maker_init(m);
    m->b.info[0].partitions = FAKE_RANKS;
}

uint32_t world_clique(Maker *m, uint32_t groups, const int64_t *numbers, uint32_t count)
{
    PlanClique c = {.name = plan_string(&m->b, "group"),
                    .mode = PLAN_FLATTENED_ID,
                    .group_count = groups,
                    .groups = plan_add_numbers(&m->b, numbers, count),
                    .number_count = count};
    return plan_add_cliques(&m->b, &c, 1);
}

uint32_t world_clique_of_all(Maker *m)
{
    return world_clique(m, 1, (int64_t[]){4, 0, 1, 2, 3}, 5);
}

PlanCollective *world_collective(Maker *m, uint32_t kind, uint32_t on, int64_t n,
                                 int64_t out)
{
    PlanCollective op = {.kind = kind,
                         .reduction = PLAN_REDUCE_SUM,
                         .dtype = plan_string(&m->b, "s32"),
                         .clique = on,
                         .dtypes = PLAN_NONE};
    PlanArg args[2] = {reads(maker_value(m, false, n, PLAN_NONE, PLAN_ALIAS_NONE)),
                       writes(maker_value(m, true, out, PLAN_NONE, PLAN_ALIAS_NONE))};
    uint32_t index = plan_add_collectives(&m->b, &op, 1);
    maker_command(m, PLAN_COLLECTIVE, index, args, 2);
    return &m->b.collectives[index];
}

void world_open(FakeWorld *w, Maker *m, const gxrt_session_options *options)
{
    w->program = open_program(m, "", 0);
    memset(fake_nccl_log, 0, sizeof fake_nccl_log);
    if (session_create(w->program.program, options, &fake_api, NULL, &fake_nccl,
                       &w->session) != GXRT_OK)
        fail_msg("%s", gxrt_last_error());
    const Plan *p = w->session->plan;
    for (size_t d = 0; d < FAKE_RANKS; d++) {
        for (uint32_t i = 0; i < p->arguments_count; i++) {
            gxrt_buffer *b = &w->arguments[d][i];
            *b = (gxrt_buffer){.struct_size = sizeof *b, .bytes = p->arguments[i].bytes};
            assert_int_equal(gxrt_allocate(w->session, d, b->bytes, &b->data), GXRT_OK);
        }
        for (uint32_t i = 0; i < p->results_count; i++) {
            gxrt_buffer *b = &w->results[d][i];
            *b = (gxrt_buffer){.struct_size = sizeof *b, .bytes = p->results[i].bytes};
            assert_int_equal(gxrt_allocate(w->session, d, b->bytes, &b->data), GXRT_OK);
            memset(b->data, 0x5a, b->bytes);
        }
        w->runs[d] = (gxrt_run){sizeof *w->runs,    NULL,          w->arguments[d],
                                p->arguments_count, w->results[d], p->results_count};
    }
}

void world_run(FakeWorld *w)
{
    if (gxrt_execute(w->session, FAKE_RANKS, w->runs) != GXRT_OK)
        fail_msg("%s", gxrt_last_error());
}

void world_end(FakeWorld *w, int lonely)
{
    for (size_t d = 0; d < FAKE_RANKS; d++) {
        for (int i = 0; i < 4; i++) {
            gxrt_free(w->session, d, w->arguments[d][i].data);
            gxrt_free(w->session, d, w->results[d][i].data);
        }
    }
    gxrt_session_destroy(w->session);
    close_program(&w->program);
    assert_int_equal(fake_comms, 0);
    assert_int_equal(fake_nccl_lonely, lonely);
    assert_int_equal(fake_nccl_apart, 0);
    fake_nccl_lonely = 0;
    memset(w, 0, sizeof *w);
}

void world_close(FakeWorld *w)
{
    world_end(w, 0);
}
