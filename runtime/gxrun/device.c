/* Running a compiled program by libgxrt. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/file.h"
#include "runtime/gxrun/measure.h"
#include "runtime/gxrun/names.h"
#include "runtime/gxrun/sandbox.h"
#include "runtime/gxrun/tune.h"

static int gxrt_failed(gxrt_status status)
{
    return complain(status == GXRT_UNSUPPORTED ? EXIT_NOT_SUPPORTED : EXIT_WRONG, "%s",
                    gxrt_last_error());
}

/* MiB. */
static size_t most_memory(const Options *o)
{
    static size_t here; /* asked for once: in the sandbox nobody may */
    if (!here) {
        long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
        here = pages > 0 && page > 0 ? ((size_t)pages * (size_t)page) >> 20 : 65536;
    }
    return o->most_memory ? o->most_memory : here;
}

static bool is_emulated(const Options *o)
{
    char target[32] = "";
    return strncmp(o->device, "emu", 3) == 0 ||
           (gxrt_device_target(o->device, target, sizeof target) == GXRT_OK &&
            strcmp(target, "emu") == 0);
}

static size_t bytes_of(const Leaf *leaves, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes = leaves[i].bytes < SIZE_MAX - bytes ? bytes + leaves[i].bytes : SIZE_MAX;
    }
    return bytes;
}

int device_check_memory(const Options *o, const Signature *s)
{
    size_t most = most_memory(o), inputs = bytes_of(s->parameters, s->parameter_count),
           results = bytes_of(s->results, s->result_count);
    size_t each = inputs < SIZE_MAX - results ? inputs + results : SIZE_MAX;
    if (o->no_sandbox || !is_emulated(o) || each <= (most << 20) / s->devices) {
        return EXIT_DONE;
    }
    return complain(EXIT_WRONG,
                    "parameters and results have %zu bytes on each of %zu devices, more "
                    "than %zu MiB; --max-memory=MIB allows more",
                    each, s->devices, most);
}

/* What fails behind the limit of memory may have failed because of it. */
static int run_failed(const Options *o, bool is_sandboxed, gxrt_status status)
{
    int code = gxrt_failed(status);
    if (status == GXRT_OUT_OF_MEMORY && is_sandboxed) {
        fprintf(stderr,
                "gxrun: note: the emulated program may take %zu MiB; "
                "--max-memory=MIB and GXEMU_MEMORY, in bytes for each device, allow "
                "more\n",
                most_memory(o));
    }
    return code;
}

static void print_log(void *user, int level, const char *text)
{
    (void)user;
    fprintf(stderr, "gxrun: %s%s\n", level ? "warning: " : "", plain_text(text));
}

/* --- signature ---------------------------------------------------------------------------------- */

typedef gxrt_status (*ValueQuery)(const gxrt_program *, size_t, gxrt_value_info *);

static int read_leaves(const gxrt_program *program, ValueQuery query, Leaf *leaves,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gxrt_value_info v = {.struct_size = sizeof v};
        gxrt_status st = query(program, i, &v);
        if (st != GXRT_OK) {
            return gxrt_failed(st);
        }
        Leaf *leaf = &leaves[i];
        if (!leaf_set(leaf, v.name, v.dtype, v.rank, v.dims) ||
            number_packed_bytes(leaf->dtype, leaf->elements) != v.bytes) {
            return complain(EXIT_WRONG, "%s has a type that gxrun does not know: %s",
                            v.name, v.dtype);
        }
    }
    return EXIT_DONE;
}

/* R x P as this command line asks for; a program for one device runs as N replicas. */
static int set_devices(const Options *o, Signature *s)
{
    if ((o->replicas && o->replicas != s->replicas && s->replicas * s->partitions > 1) ||
        (o->partitions && o->partitions != s->partitions)) {
        return complain(
            EXIT_WRONG,
            "the program was compiled for %u replicas x %u partitions: compile it "
            "with gxc --replicas= --partitions=",
            s->replicas, s->partitions);
    }
    if (s->replicas * s->partitions == 1) {
        s->replicas = o->replicas ? o->replicas : o->devices ? (uint32_t)o->devices : 1;
    }
    size_t all = (size_t)s->replicas * s->partitions;
    if (o->devices && o->devices != all) {
        return complain(
            EXIT_WRONG,
            "--devices=%zu: the program is for %u replicas x %u partitions, %zu "
            "devices",
            o->devices, s->replicas, s->partitions, all);
    }
    size_t ranks = o->has_rank ? o->world : 1;
    if (all % ranks != 0) {
        return complain(EXIT_WRONG, "--world=%u: %zu devices cannot be shared equally",
                        o->world, all);
    }
    s->devices = all / ranks;
    s->first = o->has_rank ? (uint32_t)(o->rank * s->devices) : 0;
    return EXIT_DONE;
}

int device_signature(const Options *o, const gxrt_program *program, Signature *out)
{
    gxrt_program_info info = {.struct_size = sizeof info};
    gxrt_status st = gxrt_program_get_info(program, &info);
    if (st != GXRT_OK) {
        return gxrt_failed(st);
    }
    memset(out, 0, sizeof *out);
    out->parameter_count = info.argument_count;
    out->result_count = info.result_count;
    out->parameters = allocate(info.argument_count, sizeof(Leaf));
    out->results = allocate(info.result_count, sizeof(Leaf));
    out->replicas = info.replicas;
    out->partitions = info.partitions;
    out->has_tf32 = info.has_tf32;
    out->has_hash = true;
    memcpy(out->hash, info.module_hash, sizeof out->hash);
    int code = read_leaves(program, gxrt_program_get_argument, out->parameters,
                           info.argument_count);
    if (code == EXIT_DONE) {
        code = read_leaves(program, gxrt_program_get_result, out->results,
                           info.result_count);
    }
    return code == EXIT_DONE ? set_devices(o, out) : code;
}

/* --- buffers -------------------------------------------------------------------------------------- */

typedef struct Job {
    const Options *options;
    const gxrt_program *program;
    const Signature *signature;
    void *const *inputs;
    void **outputs;
    bool is_sandboxed; /* and `outputs` are shared with the parent */
    gxrt_session *session;
    gxrt_run *runs;          /* by device */
    gxrt_buffer **arguments; /* by device */
    gxrt_buffer **results;
    gxrt_world *world;
    FILE *trace; /* of --profile and --tune: what its file will have */
} Job;

static gxrt_status make_buffer(Job *j, size_t device, const Leaf *leaf, gxrt_buffer *b)
{
    *b = (gxrt_buffer){.struct_size = sizeof *b,
                       .bytes = number_packed_bytes(leaf->dtype, leaf->elements)};
    return gxrt_allocate(j->session, device, b->bytes, &b->data);
}

static gxrt_status upload(Job *j, size_t device, size_t i, const void *from)
{
    const Leaf *leaf = &j->signature->parameters[i];
    gxrt_value_info v = {.struct_size = sizeof v};
    gxrt_status st = gxrt_program_get_argument(j->program, i, &v);
    if (st != GXRT_OK) {
        return st;
    }
    gxrt_buffer *b = &j->arguments[device][i];
    if (data_is_device_form(leaf, v.minor_to_major)) {
        return gxrt_copy_to_device(j->session, device, b->data, from, b->bytes);
    }
    void *packed = allocate(b->bytes, 1);
    data_to_device(leaf, v.minor_to_major, from, packed);
    st = gxrt_copy_to_device(j->session, device, b->data, packed, b->bytes);
    free(packed);
    return st;
}

static gxrt_status upload_all(Job *j)
{
    const Signature *s = j->signature;
    gxrt_status st = GXRT_OK;
    for (size_t d = 0; d < s->devices; d++) {
        for (size_t i = 0; i < s->parameter_count && st == GXRT_OK; i++) {
            st = upload(j, d, i, j->inputs[d * s->parameter_count + i]);
        }
    }
    return st;
}

/* Results take the buffers of the arguments that they alias. */
static gxrt_status make_results(Job *j, size_t device)
{
    const Signature *s = j->signature;
    for (size_t i = 0; i < s->result_count; i++) {
        gxrt_value_info v = {.struct_size = sizeof v};
        gxrt_status st = gxrt_program_get_result(j->program, i, &v);
        if (st != GXRT_OK) {
            return st;
        }
        if (v.alias >= 0) {
            j->results[device][i] = j->arguments[device][v.alias];
            continue;
        }
        st = make_buffer(j, device, &s->results[i], &j->results[device][i]);
        if (st != GXRT_OK) {
            return st;
        }
    }
    return GXRT_OK;
}

static gxrt_status make_buffers(Job *j)
{
    const Signature *s = j->signature;
    j->runs = allocate(s->devices, sizeof *j->runs);
    j->arguments = allocate(s->devices, sizeof *j->arguments);
    j->results = allocate(s->devices, sizeof *j->results);
    for (size_t d = 0; d < s->devices; d++) {
        j->arguments[d] = allocate(s->parameter_count, sizeof(gxrt_buffer));
        j->results[d] = allocate(s->result_count, sizeof(gxrt_buffer));
        for (size_t i = 0; i < s->parameter_count; i++) {
            gxrt_status st = make_buffer(j, d, &s->parameters[i], &j->arguments[d][i]);
            if (st != GXRT_OK) {
                return st;
            }
        }
        gxrt_status st = make_results(j, d);
        if (st != GXRT_OK) {
            return st;
        }
        j->runs[d] = (gxrt_run){.struct_size = sizeof *j->runs,
                                .arguments = j->arguments[d],
                                .argument_count = s->parameter_count,
                                .results = j->results[d],
                                .result_count = s->result_count};
    }
    return upload_all(j);
}

static void free_buffers(Job *j)
{
    const Signature *s = j->signature;
    for (size_t d = 0; j->arguments && d < s->devices; d++) {
        for (size_t i = 0; j->results[d] && i < s->result_count; i++) {
            void *data = j->results[d][i].data;
            for (size_t k = 0; k < s->parameter_count && data; k++) {
                if (j->arguments[d][k].data == data) {
                    data = NULL; /* freed with the argument */
                }
            }
            gxrt_free(j->session, d, data);
        }
        for (size_t i = 0; j->arguments[d] && i < s->parameter_count; i++) {
            gxrt_free(j->session, d, j->arguments[d][i].data);
        }
        free(j->arguments[d]);
        free(j->results[d]);
    }
    free(j->arguments);
    free(j->results);
    free(j->runs);
}

static gxrt_status download(Job *j, size_t device, size_t i, void *to)
{
    const Leaf *leaf = &j->signature->results[i];
    const gxrt_buffer *b = &j->results[device][i];
    gxrt_value_info v = {.struct_size = sizeof v};
    gxrt_status st = gxrt_program_get_result(j->program, i, &v);
    if (st != GXRT_OK) {
        return st;
    }
    if (data_is_device_form(leaf, v.minor_to_major)) {
        return gxrt_copy_to_host(j->session, device, to, b->data, b->bytes);
    }
    void *packed = allocate(b->bytes, 1);
    st = gxrt_copy_to_host(j->session, device, packed, b->data, b->bytes);
    if (st == GXRT_OK) {
        data_from_device(leaf, v.minor_to_major, packed, to);
    }
    free(packed);
    return st;
}

static gxrt_status download_all(Job *j)
{
    const Signature *s = j->signature;
    for (size_t d = 0; d < s->devices; d++) {
        gxrt_status st = gxrt_synchronize(j->session, d);
        for (size_t i = 0; i < s->result_count && st == GXRT_OK; i++) {
            void **to = &j->outputs[d * s->result_count + i];
            *to = *to ? *to : allocate(s->results[i].bytes, 1);
            st = download(j, d, i, *to);
        }
        if (st != GXRT_OK) {
            return st;
        }
    }
    return GXRT_OK;
}

/* --- running --------------------------------------------------------------------------------------- */

/* A process that cannot open files writes the events here; the other one copies them. */
static int open_trace(Job *j)
{
    bool wants = j->options->profile || j->options->tune;
    j->trace = wants ? tmpfile() : NULL;
    return j->trace || !wants
               ? EXIT_DONE
               : complain(EXIT_WRONG, "no temporary file: %s", strerror(errno));
}

/* An errno, or 0; what goes wrong with standard output is said at the end of the program. */
static int write_profile(const char *path, const char *text, size_t size)
{
    if (strcmp(path, "-") != 0) {
        return file_write(path, &(FilePart){text, size}, 1);
    }
    fwrite(text, 1, size, stdout);
    return 0;
}

static int write_trace(const Job *j)
{
    const Options *o = j->options;
    long size = fseek(j->trace, 0, SEEK_END) == 0 ? ftell(j->trace) : -1;
    char *text = allocate(size > 0 ? (size_t)size : 0, 1);
    rewind(j->trace);
    bool good = size >= 0 && fread(text, 1, (size_t)size, j->trace) == (size_t)size;
    int code = EXIT_DONE, failed = good ? 0 : EIO;
    if (good && o->tune && (!o->has_rank || o->rank == 0)) {
        code = tune_write(o, text, (size_t)size);
    } else if (good && o->profile) {
        failed = write_profile(o->profile, text, (size_t)size);
    }
    free(text);
    return failed ? complain(EXIT_WRONG, "%s: cannot be written: %s",
                             o->tune ? o->tune : o->profile, strerror(failed))
                  : code;
}

static gxrt_status run_once(Job *j)
{
    gxrt_status st = gxrt_execute(j->session, j->signature->devices, j->runs);
    for (size_t d = 0; d < j->signature->devices && st == GXRT_OK; d++) {
        st = gxrt_synchronize(j->session, d);
    }
    return st;
}

/* The same inputs each time; every second run gets other buffers, as a caller's may be. */
static gxrt_status run_again(Job *j)
{
    gxrt_status st = run_once(j);
    for (uint32_t i = 1; i < j->options->runs && st == GXRT_OK; i++) {
        if (i % 2 == 0) {
            Job old = *j;
            st = make_buffers(j);
            free_buffers(&old);
        } else {
            st = upload_all(j);
        }
        st = st == GXRT_OK ? run_once(j) : st;
    }
    return st;
}

static int run_job(Job *j)
{
    gxrt_status st = make_buffers(j);
    gxrt_session_info info = {.struct_size = sizeof info};
    st = st == GXRT_OK ? gxrt_session_get_info(j->session, &info) : st;
    Measured m = {.program = j->program,
                  .session = j->session,
                  .variant = info.variant,
                  .devices = j->signature->devices,
                  .runs = j->runs};
    int code = EXIT_DONE;
    if (st == GXRT_OK && j->options->profile) {
        st = measure_profile(&m, j->trace, &code);
    } else if (st == GXRT_OK && j->options->tune) {
        st = tune_run(j->options, &m, j->world, j->trace, &code);
    } else if (st == GXRT_OK && j->options->bench) {
        st = measure_bench(&m, j->options->bench);
    }
    if (code != EXIT_DONE) {
        return code;
    }
    if (st == GXRT_OK && (j->options->profile || j->options->bench)) {
        st = upload_all(j); /* measured runs may have written what aliases a result */
        st = st == GXRT_OK ? run_once(j) : st;
    } else if (st == GXRT_OK) {
        st = run_again(j);
    }
    st = st == GXRT_OK ? download_all(j) : st;
    return st == GXRT_OK ? EXIT_DONE : run_failed(j->options, j->is_sandboxed, st);
}

static void print_session(const Job *j)
{
    gxrt_session_info info = {.struct_size = sizeof info};
    gxrt_variant_info variant = {.struct_size = sizeof variant};
    if (!j->options->quiet && gxrt_session_get_info(j->session, &info) == GXRT_OK &&
        gxrt_program_get_variant(j->program, info.variant, &variant) == GXRT_OK) {
        printf(
            "%zu device%s: %s, kernels for %s; %zu launches, %zu copies, %llu bytes of "
            "temporary memory\n",
            info.device_count, info.device_count > 1 ? "s" : "", info.device_name,
            plain_text(variant.target), variant.launch_count, variant.copy_count,
            (unsigned long long)variant.temp_bytes);
    }
}

static void set_number(const char *name, unsigned value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    setenv(name, text, 1);
}

/* All that needs no file once the session is there: until then nothing of the program has run. */
static int run_session(void *context)
{
    Job *j = context;
    const Options *o = j->options;
    gxrt_world *world = NULL;
    gxrt_status st = GXRT_OK;
    if (o->has_rank) {
        set_number("GXRT_RANK", o->rank);
        set_number("GXRT_WORLD_SIZE", o->world);
        st = gxrt_world_from_environment(&world);
    }
    gxrt_session_options options = {.struct_size = sizeof options,
                                    .device = o->device,
                                    .world = world,
                                    .log = print_log,
                                    .exact_emulated_devices =
                                        o->devices ? (int)j->signature->devices : 0,
                                    .replicas = j->signature->replicas,
                                    .timeout_seconds = o->timeout,
                                    .allow_native = 1,
                                    .graphs = o->graphs};
    st = st == GXRT_OK ? gxrt_session_create(j->program, &options, &j->session) : st;
    if (st != GXRT_OK) {
        gxrt_world_destroy(world);
        return gxrt_failed(st);
    }
    j->world = world;
    print_session(j);
    int code = EXIT_DONE;
    if (j->is_sandboxed) {
        code = sandbox_enter(j->trace ? fileno(j->trace) : -1, most_memory(o));
    } else {
        sandbox_end_after(o->most_seconds);
    }
    code = code == EXIT_DONE ? run_job(j) : code;
    free_buffers(j);
    gxrt_session_destroy(j->session);
    sandbox_end_after(0);
    gxrt_world_destroy(world);
    return code;
}

/* --- sandbox --------------------------------------------------------------------------------------- */

/* What the user asks of the emulator, and what takes files or the network while it runs. */
static int check_sandbox(const Options *o)
{
    if (o->has_rank && o->world > 1) {
        return complain(
            EXIT_WRONG,
            "a world of %u processes meets over files or the network, which the "
            "sandbox of emulated programs forbids; --no-sandbox allows it",
            o->world);
    }
    static const char *const variables[] = {"GXEMU_BANKS", "NVTX_INJECTION64_PATH"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *text = getenv(variables[i]);
        if (text && *text) {
            return complain(EXIT_WRONG,
                            "%s needs files while the program runs, which the sandbox of "
                            "emulated programs forbids; --no-sandbox allows it",
                            variables[i]);
        }
    }
    return EXIT_DONE;
}

/* The job in a child; its results are copied when the child is gone. */
static int run_sandboxed(Job *j)
{
    const Signature *s = j->signature;
    size_t count = s->devices * s->result_count;
    int code = check_sandbox(j->options);
    if (code != EXIT_DONE) {
        return code;
    }
    for (size_t i = 0; i < count; i++) {
        j->outputs[i] = sandbox_allocate(s->results[i % s->result_count].bytes);
    }
    j->is_sandboxed = true;
    code = sandbox_run(run_session, j, j->options->most_seconds);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = s->results[i % s->result_count].bytes;
        void *shared = j->outputs[i];
        j->outputs[i] = code == EXIT_DONE ? allocate(bytes, 1) : NULL;
        if (code == EXIT_DONE) {
            memcpy(j->outputs[i], shared, bytes);
        }
        sandbox_free(shared, bytes);
    }
    return code;
}

int device_run(const Options *o, const gxrt_program *program, const Signature *s,
               void *const *inputs, void **outputs)
{
    Job j = {.options = o,
             .program = program,
             .signature = s,
             .inputs = inputs,
             .outputs = outputs};
    int code = o->tune ? tune_check(o, program) : EXIT_DONE;
    code = code == EXIT_DONE ? open_trace(&j) : code;
    if (code == EXIT_DONE) {
        code = !o->no_sandbox && is_emulated(o) ? run_sandboxed(&j) : run_session(&j);
    }
    if (j.trace && code == EXIT_DONE) {
        code = write_trace(&j);
    }
    if (j.trace) {
        fclose(j.trace);
    }
    return code;
}
