/* Plan, session, execution, on the emulator: a program of the folder `programs` beside this one, its plan edited
 * and given the hashes that it must have. Whatever the plan says, a run of it ends with a status. The kernels
 * are never edited: they are machine code.
 *
 * An input is the number of the program, how it is run (RunBits), and edits (shared/edit.h). */
#include "runtime/gxrt.h"
#include "runtime/library/library.h"
#include "runtime/plan/builder.h"
#include "runtime/plan/elf.h"
#include "runtime/plan/plan.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/shared/edit.h"
#include "tests/fuzz/shared/folder.h"
#include "tests/fuzz/shared/look.h"
#include "tests/fuzz/shared/values.h"
#include "tests/unit/shared/artefact.h"

static const char *const names[] = {
    "loop",           "branches",     "collectives", "products",
    "calls",          "solvers",      "transfers",   "narrow",
    "graphs",         "memory",       "tuned",       "attention-gradients",
    "norm-gradients", "block-scaled", "chosen",      "tuned-products"};
/* Gradients of attentions on two devices take 20 s where libFuzzer counts each comparison. */
enum { PROGRAMS = sizeof names / sizeof *names, SECONDS = 60 };

typedef enum RunBits {
    RUN_GRAPHS = 1,    /* as graphs of CUDA */
    RUN_PROFILE = 2,   /* the last execution is timed */
    RUN_NEVER = 4,     /* looked into, not run */
    RUN_REPLICAS = 8,  /* on two devices, if the program is for one */
    RUN_NO_CALLS = 16, /* the host has no functions */
    RUN_TUNE = 32,     /* other kernels are tried */
    RUN_MOVED = 64,    /* the last execution is with other buffers */
    RUN_FAIL = 128     /* a call of the driver fails: the first edit says which */
} RunBits;

static struct {
    void *file;
    size_t size;
    Plan plan;
    PlanElfSection sections[3];
    size_t section_count;
} programs[PROGRAMS];

/* --- the programs -------------------------------------------------------------------------- */

static void load(int i)
{
    static const char *const kept[] = {PLAN_ELF_CONST, PLAN_ELF_EMU, PLAN_ELF_IMAGES};
    char error[512];
    PlanElfSection s;
    programs[i].file = look_read(names[i], &programs[i].size);
    PROMISE(plan_elf_find(programs[i].file, programs[i].size, PLAN_ELF_PLAN, &s) &&
                plan_read(&programs[i].plan, s.bytes, s.size, error, sizeof error),
            "%s: no plan", names[i]);
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
        if (plan_elf_find(programs[i].file, programs[i].size, kept[k], &s))
            programs[i].sections[programs[i].section_count++] =
                (PlanElfSection){kept[k], s.bytes, s.size};
    }
}

static void set_up(void)
{
    setenv("GXEMU_SHADOW", "1", 1);
    setenv("GXEMU_MEMORY", "100000000", 1);
    setenv("GXEMU_WORKERS", "1", 1);
    for (int i = 0; i < PROGRAMS; i++)
        load(i);
}

/* --- one run ------------------------------------------------------------------------------- */

/* How long it would take, in commands and pages; loops that the device ends have no bound. */
static uint64_t work_of(const Plan *p)
{
    uint64_t work = 0, times[PLAN_MAX_DEPTH] = {1}, most = 1000000;
    uint32_t ends[PLAN_MAX_DEPTH] = {p->commands_count};
    size_t depth = 0;
    for (uint32_t i = 0; i < p->commands_count; i++) {
        const PlanCommand *c = &p->commands[i];
        while (depth > 0 && i >= ends[depth])
            depth--;
        uint64_t blocks = 0;
        if (c->kind == PLAN_LAUNCH) {
            const PlanKernel *k = &p->kernels[c->index];
            uint64_t threads = (uint64_t)k->block[0] * k->block[1] * k->block[2];
            blocks = (uint64_t)k->grid[0] * k->grid[1] % most * k->grid[2] *
                     (1 + threads / 16);
        }
        uint64_t one = 1 + plan_command_bytes(p, c) / 4096 + blocks;
        work += one < most ? one * times[depth] : most;
        if (c->subtree > 1 && depth + 1 < PLAN_MAX_DEPTH) {
            uint64_t trips = 1;
            if (c->kind == PLAN_WHILE)
                trips = p->loops[c->index].trip_count >= 0
                            ? (uint64_t)p->loops[c->index].trip_count
                            : most;
            uint64_t all = trips < most ? trips * times[depth] : most;
            times[++depth] = all < most ? all : most;
            ends[depth] = i + c->subtree;
        }
        if (work > most)
            return work;
    }
    return work;
}

/* Products and graphs of libraries take time by their sizes. */
static bool is_small(const Plan *p)
{
    enum { MOST = 1 << 16 };
    for (uint32_t i = 0; i < p->matmuls_count; i++) {
        const PlanMatmul *m = &p->matmuls[i];
        if (m->a.rows > 64 || m->a.columns > 64 || m->d.rows > 64 || m->d.columns > 64 ||
            m->batch > 4 || m->workspace_bytes > MOST)
            return false;
    }
    for (uint32_t i = 0; i < p->graph_tensors_count; i++) {
        uint64_t elements = 1;
        for (int k = 0; k < PLAN_GRAPH_RANK; k++)
            elements *=
                p->graph_tensors[i].dims[k] > 0 && p->graph_tensors[i].dims[k] < MOST
                    ? (uint64_t)p->graph_tensors[i].dims[k]
                    : MOST;
        if (elements > MOST)
            return false;
    }
    return true;
}

static int host_function(void *user, const gxrt_host_arguments *a)
{
    (void)user;
    return a->buffer_count > 8 && a->bytes[0] % 2; /* some fail */
}

static void on_event(void *user, const gxrt_event *event)
{
    size_t *count = user;
    PROMISE(event->name != NULL && event->kind != NULL, "an event without a name");
    ++*count;
}

static int on_results(void *user, const char *dtype, const void *wanted,
                      const void *found, size_t bytes)
{
    (void)user;
    PROMISE(dtype != NULL && (bytes == 0 || (wanted != NULL && found != NULL)),
            "results that are not there");
    return 1;
}

static void on_trial(void *user, const gxrt_trial *trial)
{
    (void)user;
    PROMISE(trial->name != NULL && trial->key != NULL && trial->config != NULL,
            "a trial without a name");
}

/* Runs three times; the status of the first call that failed. */
static gxrt_status run(const gxrt_program *p, gxrt_session *s, unsigned bits)
{
    static Values values, others;
    gxrt_session_info info = {.struct_size = sizeof info};
    gxrt_status st = gxrt_session_get_info(s, &info);
    memset(&values, 0, sizeof values);
    memset(&others, 0, sizeof others);
    bool ok = st == GXRT_OK && info.device_count <= VALUES_DEVICES;
    for (size_t d = 0; ok && d < info.device_count; d++)
        ok = values_make(p, s, d, &values) &&
             (!(bits & RUN_MOVED) || values_make(p, s, d, &others));
    for (int i = 0; ok && i < 3 && st == GXRT_OK; i++)
        st = gxrt_execute(s, info.device_count, values.runs);
    if (ok && st == GXRT_OK && (bits & RUN_MOVED))
        st = gxrt_execute(s, info.device_count, others.runs);
    size_t events = 0;
    if (ok && st == GXRT_OK && (bits & RUN_PROFILE))
        st = gxrt_profile(s, info.device_count, values.runs, on_event, &events);
    gxrt_tuner tuner = {
        .struct_size = sizeof tuner, .agree = on_results, .trial = on_trial};
    if (ok && st == GXRT_OK && (bits & RUN_TUNE))
        st = gxrt_tune(s, info.device_count, values.runs, &tuner);
    for (size_t d = 0; d < info.device_count && d < VALUES_DEVICES; d++) {
        gxrt_status done = gxrt_synchronize(s, d);
        st = st == GXRT_OK ? done : st;
        values_free(s, d, &values);
        values_free(s, d, &others);
    }
    return st;
}

static void on_log(void *user, int level, const char *text)
{
    (void)user;
    PROMISE(level <= 1 && text[0] != '\0', "a line of the log without words");
}

static gxrt_status open_and_run(const gxrt_program *p, unsigned bits)
{
    static const gxrt_host_call calls[] = {
        {.struct_size = sizeof *calls, .name = "clip", .described = host_function}};
    gxrt_session_options options = {.struct_size = sizeof options,
                                    .device = "emu",
                                    .allow_native = 1,
                                    .library_path = fuzz_folder(),
                                    .host_calls = calls,
                                    .host_call_count = bits & RUN_NO_CALLS ? 0 : 1,
                                    .exact_emulated_devices = VALUES_DEVICES,
                                    .replicas = bits & RUN_REPLICAS ? 2 : 0,
                                    .log = on_log,
                                    .timeout_seconds = 1,
                                    .graphs = bits & RUN_GRAPHS ? 1 : 0};
    gxrt_session *s;
    gxrt_status st = gxrt_session_create(p, &options, &s);
    PROMISE((st == GXRT_OK) == (s != NULL), "status %s", gxrt_status_name(st));
    if (s == NULL)
        return st;
    st = run(p, s, bits);
    gxrt_session_destroy(s);
    return st;
}

static void print(const Plan *plan)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    PROMISE(out != NULL, "no memory");
    plan_print(plan, out);
    fclose(out);
    PROMISE(length != 0, "a plan without words");
    free(text);
}

/* Of the emulated driver, from now on; 0: none. */
static void fail_call(long number)
{
    char error[512];
    const CudaApi *cuda = library_cuda(true, fuzz_folder(), error, sizeof error);
    PROMISE(cuda != NULL, "%s", error);
    cuda->emu_fail(number);
    CUcontext context;
    while (cuda->context_pop(&context) == CUDA_SUCCESS) {
        /* what failed may have been to leave one */
    }
}

void fuzz_input(const uint8_t *data, size_t size)
{
    char error[512];
    if (programs[0].file == NULL)
        set_up();
    if (size < 2)
        return;
    fuzz_allow(SECONDS);
    int which = data[0] % PROGRAMS;
    unsigned bits = data[1];
    bool is_edited = size >= 2 + EDIT_BYTES, fails = is_edited && (bits & RUN_FAIL);
    size_t edits = 2 + (fails ? EDIT_BYTES : 0);
    PlanBuilder b;
    edit_open(&b, &programs[which].plan);
    edit_apply(&b, data + edits, size - edits);
    if (b.failed || b.info_count == 0) {
        plan_builder_deinit(&b);
        return;
    }
    size_t bytes;
    void *file = artefact_make(&b, programs[which].sections,
                               programs[which].section_count, &bytes);
    gxrt_program *p;
    gxrt_status st = gxrt_program_open_memory(file, bytes, &p);
    PROMISE(is_edited || st == GXRT_OK, "%s: %s", names[which], gxrt_last_error());
    PROMISE(st == GXRT_OK || gxrt_last_error()[0] != '\0', "refused without a word");
    PlanElfSection section;
    Plan plan;
    if (st == GXRT_OK && plan_elf_find(file, bytes, PLAN_ELF_PLAN, &section) &&
        plan_read(&plan, section.bytes, section.size, error, sizeof error)) {
        print(&plan);
        look_program(p);
        bool runs = !(bits & RUN_NEVER) &&
                    (!is_edited || (work_of(&plan) < 20000 && is_small(&plan)));
        fail_call(fails ? data[2] | data[3] << 8 : 0);
        st = runs ? open_and_run(p, bits) : GXRT_OK;
        fail_call(0);
        bool may_fail = is_edited || getenv("GXEMU_LOSE_RANK") != NULL ||
                        (bits & (RUN_NO_CALLS | RUN_REPLICAS)) ||
                        ((bits & RUN_GRAPHS) && (bits & RUN_TUNE));
        PROMISE(may_fail || st == GXRT_OK, "%s: %s", names[which], gxrt_last_error());
    }
    gxrt_program_destroy(p);
    free(file);
}
