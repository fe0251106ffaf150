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

#include "runtime/session.h"

enum { DEVICES = 4, N = 8 };

char emulator_folder[512];

/* --- the program -------------------------------------------------------------------------- */

typedef struct Maker {
    PlanBuilder b;
    uint32_t all, pairs; /* cliques */
    uint32_t in;
} Maker;

static uint32_t value(Maker *m, bool result, int64_t n)
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

static uint32_t clique(Maker *m, const char *name, uint32_t groups,
                       const int64_t *numbers, uint32_t count)
{
    PlanClique c = {.name = plan_string(&m->b, name),
                    .mode = PLAN_FLATTENED_ID,
                    .group_count = groups,
                    .groups = plan_add_numbers(&m->b, numbers, count),
                    .number_count = count};
    return plan_add_cliques(&m->b, &c, 1);
}

/* One collective of the argument into a new result of n elements. */
static PlanCollective *collective(Maker *m, uint32_t kind, const char *name, uint32_t on,
                                  int64_t n)
{
    PlanCollective op = {.kind = kind,
                         .reduction = PLAN_REDUCE_SUM,
                         .dtype = plan_string(&m->b, "f32"),
                         .clique = on,
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

static gxrt_program *make_program(void **out_file, bool other)
{
    Maker m;
    plan_builder_init(&m.b);
    m.b.info[0].target = plan_string(&m.b, "sm_90a");
    m.b.info[0].module = plan_string(&m.b, other ? "other" : "collectives");
    m.b.info[0].sm = 90;
    m.b.info[0].suffix = 'a';
    m.b.info[0].partitions = DEVICES;
    m.in = value(&m, false, N);
    m.all = clique(&m, "all", 1, (int64_t[]){4, 0, 1, 2, 3}, 5);
    m.pairs = clique(&m, "pairs", 2, (int64_t[]){2, 3, 0, 2, 1, 2}, 6);
    collective(&m, PLAN_ALL_REDUCE, "all-reduce.1", m.all, N);
    collective(&m, PLAN_ALL_GATHER, "all-gather.2", m.pairs, 2 * N);
    collective(&m, PLAN_REDUCE_SCATTER, "reduce-scatter.3", m.all, N / 4)->flags =
        PLAN_COLLECTIVE_JOINED; /* one NCCL group with the next */
    collective(&m, PLAN_ALL_TO_ALL, "all-to-all.4", m.all, N);
    PlanCollective *permute =
        collective(&m, PLAN_COLLECTIVE_PERMUTE, "permute.5", m.all, N);
    permute->pair_count = 2; /* 0 to 1, 1 to 3: 0 and 2 get zeros */
    permute->pairs = plan_add_numbers(&m.b, (int64_t[]){0, 1, 1, 3}, 4);
    unsigned char elf[64 + 2 * 64 + 16] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    const uint64_t layout[3] = {64, 192, 1};
    memcpy(elf + 40, &layout[0], 8);
    elf[58] = 64;
    elf[60] = 2;
    elf[62] = 1;
    memcpy(elf + 128 + 24, &layout[1], 8);
    memcpy(elf + 128 + 32, &layout[2], 8);
    memcpy(m.b.info[0].elf_header, elf, 64);
    m.b.info[0].cubin_bytes = sizeof elf;
    PlanElfSection section = {PLAN_ELF_PLAN, NULL, 0};
    void *plan;
    size_t size;
    const char *error;
    gxrt_program *program = NULL;
    plan_write(&m.b, &plan, &section.size);
    plan_builder_deinit(&m.b);
    section.bytes = plan;
    plan_elf_append(elf, sizeof elf, &section, 1, out_file, &size, &error);
    free(plan);
    if (gxrt_program_open_memory(*out_file, size, &program) != GXRT_OK)
        fprintf(stderr, "%s\n", gxrt_last_error());
    return program;
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
