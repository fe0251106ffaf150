/* A matrix of stops: 24 collectives on 8 emulated devices, and for every device and every
 * operation one run in which that device never does it. Each run ends within its timeout and
 * names device and operation, and the next one in the same process works. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/gxrt.h"
#include "tests/unit/shared/collective_program.h"
#include "tests/unit/shared/emulated.h"

enum { DEVICES = 8, N = 8, OPERATIONS = 24, AT_ONCE = 8 };

/* In turn; with the calls of NCCL that each is on every device. */
static const struct {
    uint32_t kind;
    int64_t elements; /* of the result */
    int calls;
} kinds[] = {
    {PLAN_ALL_REDUCE, N, 1},
    {PLAN_ALL_GATHER, N *DEVICES, 1},
    {PLAN_REDUCE_SCATTER, N / DEVICES, 1},
    {PLAN_ALL_TO_ALL, N, 2 * DEVICES},
    {PLAN_COLLECTIVE_PERMUTE, N, 2},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static gxrt_program *make_program(void **out_file)
{
    CollectiveMaker m;
    int64_t numbers[DEVICES + 1] = {DEVICES}, pairs[2 * DEVICES];
    for (int i = 0; i < DEVICES; i++) {
        numbers[i + 1] = i;
        pairs[2 * i] = i;
        pairs[2 * i + 1] = (i + 1) % DEVICES;
    }
    collectives_init(&m, "stops", DEVICES, N);
    uint32_t all = collectives_clique(&m, "all", 1, numbers, DEVICES + 1);
    uint32_t ring = plan_add_numbers(&m.b, pairs, 2 * DEVICES);
    for (int i = 0; i < OPERATIONS; i++) {
        char name[32];
        snprintf(name, sizeof name, "op.%d", i);
        PlanCollective *op = collectives_add(&m, kinds[i % KINDS].kind, name, all,
                                             kinds[i % KINDS].elements);
        if (op->kind == PLAN_COLLECTIVE_PERMUTE) {
            op->pairs = ring;
            op->pair_count = DEVICES;
        }
    }
    return collectives_open(&m, out_file);
}

static gxrt_status execute(gxrt_session *s, gxrt_buffer *arguments,
                           gxrt_buffer (*results)[OPERATIONS])
{
    gxrt_run runs[DEVICES];
    gxrt_status st = GXRT_OK;
    for (size_t d = 0; d < DEVICES && st == GXRT_OK; d++) {
        const float in[N] = {1, 2, 3, 4, 5, 6, 7, 8};
        arguments[d] =
            (gxrt_buffer){.struct_size = sizeof *arguments, .bytes = sizeof in};
        st = gxrt_allocate(s, d, sizeof in, &arguments[d].data);
        st = st == GXRT_OK ? gxrt_copy_to_device(s, d, arguments[d].data, in, sizeof in)
                           : st;
        for (size_t i = 0; i < OPERATIONS && st == GXRT_OK; i++) {
            gxrt_buffer *r = &results[d][i];
            *r = (gxrt_buffer){.struct_size = sizeof *r,
                               .bytes = 4 * (uint64_t)kinds[i % KINDS].elements};
            st = gxrt_allocate(s, d, r->bytes, &r->data);
        }
        runs[d] =
            (gxrt_run){sizeof *runs, NULL, &arguments[d], 1, results[d], OPERATIONS};
    }
    st = st == GXRT_OK ? gxrt_execute(s, DEVICES, runs) : st;
    for (size_t d = 0; d < DEVICES && st == GXRT_OK; d++) {
        float sums[N] = {0};
        st = gxrt_copy_to_host(s, d, sums, results[d][0].data, sizeof sums);
        if (st == GXRT_OK && sums[7] != 64)
            fprintf(stderr, "wrong sum %g\n", (double)sums[7]);
    }
    return st;
}

static gxrt_status run_once(const gxrt_program *program, double timeout)
{
    gxrt_session_options options = {.struct_size = sizeof options,
                                    .device = "emu",
                                    .allow_native = 1,
                                    .library_path = emulator_folder,
                                    .timeout_seconds = timeout};
    static gxrt_buffer arguments[DEVICES];
    static gxrt_buffer results[DEVICES][OPERATIONS];
    gxrt_session *s = NULL;
    memset(arguments, 0, sizeof arguments);
    memset(results, 0, sizeof results);
    gxrt_status st = gxrt_session_create(program, &options, &s);
    st = st == GXRT_OK ? execute(s, arguments, results) : st;
    for (size_t d = 0; s && d < DEVICES; d++) {
        gxrt_free(s, d, arguments[d].data);
        for (size_t i = 0; i < OPERATIONS; i++)
            gxrt_free(s, d, results[d][i].data);
    }
    gxrt_session_destroy(s);
    return st;
}

/* Stops device `number % DEVICES` at operation `number / DEVICES`; 0 if all is as it should. */
static int stop(int number)
{
    int device = number % DEVICES;
    int operation = number / DEVICES;
    int call = 0;
    char text[64];
    char want[2][64];
    void *file;
    for (int i = 0; i <= operation; i++)
        call += kinds[i % KINDS].calls;
    snprintf(text, sizeof text, "%d:%d", device, call);
    setenv("GXEMU_LOSE_RANK", text, 1);
    gxrt_program *program = make_program(&file);
    gxrt_status st = run_once(program, 1);
    snprintf(want[0], sizeof want[0], " op.%d (command %d) among devices 0, 1", operation,
             operation);
    snprintf(want[1], sizeof want[1], "NCCL: rank %d of this communicator did not",
             device);
    int wrong = st != GXRT_WORLD_FAILED || !strstr(gxrt_last_error(), want[0]) ||
                !strstr(gxrt_last_error(), want[1]);
    if (wrong)
        fprintf(stderr, "device %d, operation %d: %s: %s\n", device, operation,
                gxrt_status_name(st), gxrt_last_error());
    if (!wrong && run_once(program, 20) != GXRT_OK) {
        fprintf(stderr, "device %d, operation %d, the next run: %s\n", device, operation,
                gxrt_last_error());
        wrong = 1;
    }
    gxrt_program_destroy(program);
    free(file);
    return wrong;
}

static void test_stops(void **state)
{
    (void)state;
    Child running[AT_ONCE];
    for (int first = 0; first < DEVICES * OPERATIONS; first += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++)
            running[i] = child_start(stop, first + i);
        for (int i = 0; i < AT_ONCE; i++) {
            char text[4096];
            int code = child_finish(running[i], text, sizeof text);
            if (code != 0 || text[0])
                fail_msg("exit %d: %s", code, text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stops)};
    return cmocka_run_group_tests(tests, find_emulator, NULL);
}
