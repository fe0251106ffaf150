/* See emulated.h. */
#include "tests/unit/shared/emulated.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/shared/collective_program.h"

enum { DEVICES = 4, N = 8 };

char emulator_folder[512];

/* --- the program -------------------------------------------------------------------------- */

static gxrt_program *make_program(void **out_file, bool other)
{
    CollectiveMaker m;
    collectives_init(&m, other ? "other" : "collectives", DEVICES, N);
    uint32_t all = collectives_clique(&m, "all", 1, (int64_t[]){4, 0, 1, 2, 3}, 5);
    uint32_t pairs = collectives_clique(&m, "pairs", 2, (int64_t[]){2, 3, 0, 2, 1, 2}, 6);
    collectives_add(&m, PLAN_ALL_REDUCE, "all-reduce.1", all, N);
    collectives_add(&m, PLAN_ALL_GATHER, "all-gather.2", pairs, 2 * N);
    collectives_add(&m, PLAN_REDUCE_SCATTER, "reduce-scatter.3", all, N / 4)->flags =
        PLAN_COLLECTIVE_JOINED; /* one NCCL group with the next */
    collectives_add(&m, PLAN_ALL_TO_ALL, "all-to-all.4", all, N);
    PlanCollective *permute =
        collectives_add(&m, PLAN_COLLECTIVE_PERMUTE, "permute.5", all, N);
    permute->pair_count = 2; /* 0 to 1, 1 to 3: 0 and 2 get zeros */
    permute->pairs = plan_add_numbers(&m.b, (int64_t[]){0, 1, 1, 3}, 4);
    return collectives_open(&m, out_file);
}

/* Result i of `device`, where device d's argument is 100 d + index. */
static float wanted(size_t i, size_t k, uint32_t device)
{
    static const uint32_t first[DEVICES] = {3, 2, 2, 3}; /* of each pair, in rank order */
    static const uint32_t second[DEVICES] = {0, 1, 1, 0};
    switch (i) {
    case 0:
        return 600 + 4 * (float)k;
    case 1: /* the groups are {3,0} and {1,2} */
        if (device == 1 || device == 2)
            return (k < N ? 100 : 200) + (float)(k % N);
        return (k < N ? 100 * (float)first[device] : 100 * (float)second[device]) +
               (float)(k % N);
    case 2:
        return 600 + 4 * (float)(device * 2 + k);
    case 3:
        return 100 * (float)(k / 2) + (float)(device * 2 + k % 2);
    default:
        return device == 1 ? (float)k : device == 3 ? 100 + (float)k : 0;
    }
}

static int check(gxrt_session *s, size_t local, uint32_t device, gxrt_buffer *results)
{
    static const size_t counts[5] = {N, 2 * N, N / 4, N, N};
    for (size_t i = 0; i < 5; i++) {
        float got[2 * N];
        if (gxrt_copy_to_host(s, local, got, results[i].data, 4 * counts[i]) != GXRT_OK)
            return 1;
        for (size_t k = 0; k < counts[i]; k++) {
            if (got[k] != wanted(i, k, device)) {
                fprintf(stderr, "device %u, result %zu[%zu]: %g, wanted %g\n", device, i,
                        k, (double)got[k], (double)wanted(i, k, device));
                return 1;
            }
        }
    }
    return 0;
}

/* Opens a session, runs `times` times, checks; 0, or 1 after printing the error. */
int run_all(gxrt_world *world, int times, double timeout, bool other)
{
    static const size_t counts[5] = {N, 2 * N, N / 4, N, N};
    void *file;
    gxrt_program *program = make_program(&file, other);
    gxrt_session_options options = {.struct_size = sizeof options,
                                    .device = "emu",
                                    .allow_native = 1,
                                    .world = world,
                                    .library_path = emulator_folder,
                                    .timeout_seconds = timeout};
    gxrt_session *s = NULL;
    gxrt_session_info info = {.struct_size = sizeof info};
    gxrt_buffer arguments[DEVICES] = {{0}};
    gxrt_buffer results[DEVICES][5] = {{{0}}};
    gxrt_run runs[DEVICES];
    gxrt_status st = gxrt_session_create(program, &options, &s);
    size_t n = 0;
    if (st == GXRT_OK) {
        gxrt_session_get_info(s, &info);
        n = info.device_count;
    }
    for (size_t d = 0; d < n && st == GXRT_OK; d++) {
        float in[N];
        for (size_t k = 0; k < N; k++)
            in[k] = 100 * (float)(info.first_device + d) + (float)k;
        arguments[d] =
            (gxrt_buffer){.struct_size = sizeof *arguments, .bytes = sizeof in};
        st = gxrt_allocate(s, d, sizeof in, &arguments[d].data);
        st = st == GXRT_OK ? gxrt_copy_to_device(s, d, arguments[d].data, in, sizeof in)
                           : st;
        for (size_t i = 0; i < 5; i++) {
            results[d][i] =
                (gxrt_buffer){.struct_size = sizeof *arguments, .bytes = 4 * counts[i]};
            st = st == GXRT_OK ? gxrt_allocate(s, d, 4 * counts[i], &results[d][i].data)
                               : st;
        }
        runs[d] = (gxrt_run){sizeof *runs, NULL, &arguments[d], 1, results[d], 5};
    }
    for (int i = 0; i < times && st == GXRT_OK; i++)
        st = gxrt_execute(s, n, runs);
    for (size_t d = 0; d < n && st == GXRT_OK; d++)
        st = gxrt_synchronize(s, d);
    int wrong = st != GXRT_OK;
    if (wrong)
        fprintf(stderr, "%s: %s\n", gxrt_status_name(st), gxrt_last_error());
    for (size_t d = 0; d < n && !wrong; d++)
        wrong = check(s, d, info.first_device + (uint32_t)d, results[d]);
    for (size_t d = 0; d < n; d++) {
        gxrt_free(s, d, arguments[d].data);
        for (size_t i = 0; i < 5; i++)
            gxrt_free(s, d, results[d][i].data);
    }
    gxrt_session_destroy(s);
    gxrt_program_destroy(program);
    free(file);
    return wrong;
}

/* --- processes ---------------------------------------------------------------------------- */

Child child_start(int (*body)(int), int argument)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    Child c = {fork(), ends[0]};
    if (c.pid == 0) {
        dup2(ends[1], 2);
        alarm(60);
        _exit(body(argument));
    }
    close(ends[1]);
    return c;
}

/* The exit code, and what the child has said. */
int child_finish(Child c, char *text, size_t size)
{
    int status;
    size_t at = 0;
    for (ssize_t n; at + 1 < size && (n = read(c.out, text + at, size - at - 1)) > 0;)
        at += (size_t)n;
    text[at] = 0;
    close(c.out);
    waitpid(c.pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

void expect_exit(int (*body)(int), int code, const char *says)
{
    char text[4096];
    int got = child_finish(child_start(body, 0), text, sizeof text);
    if (got != code || (says && !strstr(text, says)))
        fail_msg("exit %d: %s", got, text);
}

/* libgxemu.so lies two folders above the unit tests. */
int find_emulator(void **state)
{
    (void)state;
    const char *given = getenv("GXC_LIBRARIES");
    ssize_t n = readlink("/proc/self/exe", emulator_folder, sizeof emulator_folder - 16);
    if (given) {
        snprintf(emulator_folder, sizeof emulator_folder, "%s", given);
        return 0;
    }
    if (n <= 0)
        return 1;
    emulator_folder[n] = 0;
    strcpy(strrchr(emulator_folder, '/'), "/../..");
    return 0;
}
