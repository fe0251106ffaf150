/* Runs a bundle of compiled programs through libgxrt and compares their results with the
 * expected ones; with --bench it times every command instead, and says which share of another
 * program's rate that is.
 *
 *     driver [--bench] [--device=cuda|emu] [MANIFEST]
 *
 * The manifest has one word-separated line for each thing:
 *     program NAME FILE [BYTES [CEILING]]
 *                                    BYTES: what one run reads and writes; CEILING: the program
 *                                    before it whose rate it is measured against
 *     input FILE.npy | random        of the last program, in order
 *     output FILE.npy [RTOL ATOL]    |got - want| <= atol + rtol |want|; default: by type
 * It needs nothing but a driver: a program whose libraries are missing is skipped. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ir/number/number.h"
#include "runtime/gxrt.h"

enum { VALUES_MAX = 256, COMMANDS_MAX = 512, RATES_MAX = 64, ROUNDS = 20 };

typedef struct Expected {
    char file[512];    /* "random": an input without a file */
    double rtol, atol; /* -1: what number_tolerance says */
} Expected;

typedef struct Entry {
    char name[256], file[512], ceiling[256];
    double bytes; /* of one run, 0 if unknown */
    size_t input_count, output_count;
    Expected inputs[VALUES_MAX], outputs[VALUES_MAX];
} Entry;

typedef struct Value {
    gxrt_value_info info;
    DType type;
    size_t elements;
    void *device;
} Value;

typedef struct Timing {
    char name[128], kind[32];
    double best_us;
} Timing;

typedef struct Bench {
    Timing timings[COMMANDS_MAX];
    size_t count, next;
} Bench;

typedef enum { PASSED, FAILED, SKIPPED } Outcome;

/* Bytes a microsecond, of the programs so far. */
static struct {
    char name[256];
    double rate;
} rates[RATES_MAX];
static size_t rate_count;

static double rate_of(const char *name)
{
    for (size_t i = 0; i < rate_count; i++)
        if (strcmp(rates[i].name, name) == 0)
            return rates[i].rate;
    return 0;
}

static void note_rate(const char *name, double rate)
{
    if (rate_count < RATES_MAX) {
        snprintf(rates[rate_count].name, sizeof rates[0].name, "%s", name);
        rates[rate_count++].rate = rate;
    }
}

/* Once: on what, and when. */
static void print_head(const gxrt_session *session)
{
    static bool is_printed;
    gxrt_session_info info = {.struct_size = sizeof info};
    if (is_printed || gxrt_session_get_info(session, &info) != GXRT_OK)
        return;
    char date[32];
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
    printf("on %s, %s\n", info.device_name, date);
    is_printed = true;
}

static DType type_of(const char *name)
{
    for (int t = 0; t < DT_COUNT; t++)
        if (dtype_info[t].name && strcmp(dtype_info[t].name, name) == 0)
            return (DType)t;
    return DT_INVALID;
}

/* The elements of a .npy file, behind its header; NULL if it is not what is expected. */
static void *read_npy(const char *path, size_t bytes)
{
    unsigned char head[10];
    void *data = NULL;
    FILE *f = fopen(path, "rb");
    if (f && fread(head, 1, 10, f) == 10 && memcmp(head, "\x93NUMPY\x01", 7) == 0 &&
        fseek(f, 10 + head[8] + 256 * head[9], SEEK_SET) == 0) {
        data = malloc(bytes + 1);
        if (data && fread(data, 1, bytes + 1, f) != bytes) {
            free(data);
            data = NULL;
        }
    }
    if (f)
        fclose(f);
    return data;
}

static void *random_elements(const Value *v, size_t seed)
{
    uint64_t state = 0x9e3779b97f4a7c15u * (seed + 1);
    size_t size = dtype_info[v->type].storage;
    char *data = calloc(v->elements + 1, size);
    for (size_t i = 0; data && i < v->elements; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double unit = (double)(state >> 11) / 9007199254740992.0;
        bool is_float = dtype_info[v->type].class == DTC_FLOAT;
        if (dtype_info[v->type].class != DTC_COMPLEX)
            number_set_double(v->type, data + i * size,
                              is_float ? 2 * unit - 1 : floor(2 * unit));
    }
    return data;
}

/* Where the element with row-major index i lies in the device buffer. */
static size_t offset(const gxrt_value_info *info, size_t i)
{
    size_t index[64] = {0}, offset = 0, stride = 1;
    for (uint32_t d = info->rank; d-- > 0;) {
        index[d] = i % (size_t)info->dims[d];
        i /= (size_t)info->dims[d];
    }
    for (uint32_t k = 0; k < info->rank; k++) {
        int64_t d = info->minor_to_major[k];
        offset += index[d] * stride;
        stride *= (size_t)info->dims[d];
    }
    return offset;
}

/* Copies elements between row-major order and the buffer's order. */
static void reorder(const Value *v, char *to, const char *from, bool to_device)
{
    size_t size = dtype_info[v->type].storage;
    for (size_t i = 0; i < v->elements; i++) {
        size_t p = offset(&v->info, i);
        memcpy(to + (to_device ? p : i) * size, from + (to_device ? i : p) * size, size);
    }
}

static gxrt_status describe(const gxrt_program *program, bool is_result, size_t index,
                            gxrt_session *session, Value *out)
{
    *out = (Value){.info = {.struct_size = sizeof out->info}};
    gxrt_status st = is_result ? gxrt_program_get_result(program, index, &out->info)
                               : gxrt_program_get_argument(program, index, &out->info);
    if (st != GXRT_OK)
        return st;
    out->type = type_of(out->info.dtype);
    out->elements = 1;
    for (uint32_t d = 0; d < out->info.rank; d++)
        out->elements *= (size_t)out->info.dims[d];
    return gxrt_allocate(session, 0, out->info.bytes, &out->device);
}

/* The file's (or random) elements, packed and in the buffer's order, to the device. */
static const char *upload(gxrt_session *session, const Value *v, const Expected *from,
                          size_t seed)
{
    size_t bytes = v->elements * dtype_info[v->type].storage;
    char *elements = strcmp(from->file, "random") == 0 ? random_elements(v, seed)
                                                       : read_npy(from->file, bytes);
    char *ordered = calloc(1, bytes + 1), *packed = calloc(1, v->info.bytes + 1);
    const char *error = "an input file does not fit";
    if (elements && ordered && packed) {
        reorder(v, ordered, elements, true);
        number_pack(v->type, packed, ordered, v->elements);
        error =
            gxrt_copy_to_device(session, 0, v->device, packed, v->info.bytes) == GXRT_OK
                ? NULL
                : gxrt_last_error();
    }
    free(elements);
    free(ordered);
    free(packed);
    return error;
}

/* So that an element which nothing writes is not right by what was there before. */
static gxrt_status poison(gxrt_session *session, const Value *v)
{
    char *bytes = malloc(v->info.bytes + 1);
    if (!bytes)
        return GXRT_OK;
    memset(bytes, 0xa5, v->info.bytes);
    gxrt_status st = gxrt_copy_to_device(session, 0, v->device, bytes, v->info.bytes);
    free(bytes);
    return st;
}

static bool is_close(double got, double want, const Expected *e)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got))
        return got == want;
    return fabs(got - want) <= e->atol + e->rtol * fabs(want);
}

static bool element_is_close(DType t, const char *got, const char *want,
                             const Expected *e)
{
    if (dtype_info[t].class == DTC_FLOAT)
        return is_close(number_get_double(t, got), number_get_double(t, want), e);
    if (dtype_info[t].class == DTC_COMPLEX) {
        double g[2], w[2];
        number_get_complex(t, got, g);
        number_get_complex(t, want, w);
        return is_close(g[0], w[0], e) && is_close(g[1], w[1], e);
    }
    double distance = (double)number_get_int(t, got) - (double)number_get_int(t, want);
    return memcmp(got, want, dtype_info[t].storage) == 0 ||
           (e->atol >= 1 && fabs(distance) <= e->atol);
}

/* NULL, or what differs (static text). */
static const char *compare(gxrt_session *session, const Value *v, size_t index,
                           const Expected *e)
{
    static char text[512];
    size_t size = dtype_info[v->type].storage, bytes = v->elements * size, wrong = 0,
           first = 0;
    char *want = read_npy(e->file, bytes), *packed = calloc(1, v->info.bytes + 1);
    char *ordered = calloc(1, bytes + 1), *got = calloc(1, bytes + 1);
    const char *error = "an expected result's file does not fit";
    if (want && packed && ordered && got) {
        error = NULL;
        if (gxrt_copy_to_host(session, 0, packed, v->device, v->info.bytes) != GXRT_OK)
            error = gxrt_last_error();
        number_unpack(v->type, ordered, packed, v->elements);
        reorder(v, got, ordered, false);
        for (size_t i = v->elements; i-- > 0;)
            if (!element_is_close(v->type, got + i * size, want + i * size, e)) {
                wrong++;
                first = i;
            }
    }
    if (!error && wrong) {
        char a[NUMBER_TEXT_MAX], b[NUMBER_TEXT_MAX];
        number_print(v->type, got + first * size, false, a);
        number_print(v->type, want + first * size, false, b);
        snprintf(text, sizeof text,
                 "result %zu: %zu of %zu elements differ, element %zu is %s, not %s",
                 index, wrong, v->elements, first, a, b);
        error = text;
    }
    free(want);
    free(packed);
    free(ordered);
    free(got);
    return error;
}

static void on_event(void *user, const gxrt_event *event)
{
    Bench *b = user;
    if (b->next == COMMANDS_MAX)
        return;
    Timing *t = &b->timings[b->next++];
    if (b->next > b->count) {
        b->count = b->next;
        snprintf(t->name, sizeof t->name, "%s", event->name);
        snprintf(t->kind, sizeof t->kind, "%s", event->kind);
        t->best_us = event->duration_us;
    } else if (event->duration_us < t->best_us) {
        t->best_us = event->duration_us;
    }
}

/* Prints the best time of every command, and the rate beside that of the ceiling. */
static const char *bench(gxrt_session *session, const Entry *e, const gxrt_run *run)
{
    static Bench b;
    memset(&b, 0, sizeof b);
    for (int round = 0; round < ROUNDS; round++) {
        b.next = 0;
        if (gxrt_profile(session, 1, run, on_event, &b) != GXRT_OK)
            return gxrt_last_error();
    }
    double total = 0;
    for (size_t i = 0; i < b.count; i++)
        total += b.timings[i].best_us;
    double rate = total > 0 ? e->bytes / total : 0;
    double most = rate_of(e->ceiling);
    note_rate(e->name, rate);
    printf("%-40s %10.1f us", e->name, total);
    if (rate > 0)
        printf(" %9.1f GB/s", rate / 1e3);
    if (rate > 0 && most > 0)
        printf(" %6.1f %% of %s", 100 * rate / most, e->ceiling);
    printf("\n");
    for (size_t i = 0; i < b.count && b.count > 1; i++)
        printf("    %-8s %-27s %10.1f us\n", b.timings[i].kind, b.timings[i].name,
               b.timings[i].best_us);
    return NULL;
}

/* Uploads, runs, compares or times. NULL, or what went wrong. */
static const char *run_entry(const Entry *e, const gxrt_program *program,
                             gxrt_session *session, Value *arguments, Value *results,
                             bool is_bench)
{
    gxrt_buffer in[VALUES_MAX] = {{0}}, out[VALUES_MAX] = {{0}};
    for (size_t i = 0; i < e->input_count; i++) {
        if (describe(program, false, i, session, &arguments[i]) != GXRT_OK)
            return gxrt_last_error();
        const char *error = upload(session, &arguments[i], &e->inputs[i], i);
        if (error)
            return error;
        in[i] = (gxrt_buffer){.struct_size = sizeof in[i],
                              .data = arguments[i].device,
                              .bytes = arguments[i].info.bytes};
    }
    for (size_t i = 0; i < e->output_count; i++) {
        if (describe(program, true, i, session, &results[i]) != GXRT_OK ||
            poison(session, &results[i]) != GXRT_OK)
            return gxrt_last_error();
        out[i] = (gxrt_buffer){.struct_size = sizeof out[i],
                               .data = results[i].device,
                               .bytes = results[i].info.bytes};
        if (results[i].info.alias >= 0 && results[i].info.must_alias)
            out[i].data = in[results[i].info.alias].data;
    }
    gxrt_run run = {.struct_size = sizeof run,
                    .arguments = in,
                    .argument_count = e->input_count,
                    .results = out,
                    .result_count = e->output_count};
    if (is_bench)
        return bench(session, e, &run);
    if (gxrt_execute(session, 1, &run) != GXRT_OK ||
        gxrt_synchronize(session, 0) != GXRT_OK)
        return gxrt_last_error();
    for (size_t i = 0; i < e->output_count; i++) {
        Value v = results[i];
        v.device = out[i].data;
        Expected expected = e->outputs[i];
        Tolerance t = number_tolerance(v.type);
        if (expected.rtol < 0)
            expected = (Expected){.rtol = t.rtol, .atol = t.atol};
        memcpy(expected.file, e->outputs[i].file, sizeof expected.file);
        const char *error = compare(session, &v, i, &expected);
        if (error)
            return error;
    }
    return NULL;
}

static Outcome run_program(const Entry *e, const char *device, bool is_bench)
{
    static Value arguments[VALUES_MAX], results[VALUES_MAX];
    memset(arguments, 0, sizeof arguments);
    memset(results, 0, sizeof results);
    gxrt_program *program = NULL;
    gxrt_session *session = NULL;
    gxrt_program_info info = {.struct_size = sizeof info};
    gxrt_session_options options = {
        .struct_size = sizeof options, .device = device, .allow_native = 1};
    const char *error = NULL;
    gxrt_status st = gxrt_program_open(e->file, &program);
    if (st == GXRT_OK)
        st = gxrt_program_get_info(program, &info);
    if (st == GXRT_OK && !is_bench &&
        (info.argument_count != e->input_count || info.result_count != e->output_count))
        error = "the manifest and the signature differ";
    if (st == GXRT_OK && !error)
        st = gxrt_session_create(program, &options, &session);
    if (st != GXRT_OK)
        error = gxrt_last_error();
    if (session)
        print_head(session);
    Entry entry = *e;
    if (is_bench) {
        entry.output_count = info.result_count;
        for (size_t i = e->input_count; i < info.argument_count && i < VALUES_MAX; i++)
            strcpy(entry.inputs[i].file, "random");
        entry.input_count = info.argument_count;
    }
    if (!error)
        error = run_entry(&entry, program, session, arguments, results, is_bench);
    if (error)
        printf("%s %s: %s\n", st == GXRT_MISSING_LIBRARY ? "skipped" : "FAILED", e->name,
               error);
    else if (!is_bench)
        printf("ok %s: %zu results\n", e->name, e->output_count);
    for (size_t i = 0; session && i < VALUES_MAX; i++) {
        gxrt_free(session, 0, arguments[i].device);
        gxrt_free(session, 0, results[i].device);
    }
    /* The device's context lives while a session does: making it anew takes a second. */
    static gxrt_session *first;
    if (first == NULL) {
        first = session;
    } else {
        gxrt_session_destroy(session);
        gxrt_program_destroy(program);
    }
    fflush(stdout);
    return !error ? PASSED : st == GXRT_MISSING_LIBRARY ? SKIPPED : FAILED;
}

/* Reads the manifest's next program with its inputs and outputs; false at the end. The line
 * that ends it is kept in `line` for the next call. */
static bool read_entry(FILE *f, char *line, size_t size, Entry *e)
{
    memset(e, 0, sizeof *e);
    while (line[0] || fgets(line, (int)size, f)) {
        Expected x = {{0}, -1, -1};
        if (strncmp(line, "program ", 8) == 0) {
            if (e->name[0])
                return true;
            sscanf(line, "program %255s %511s %lf %255s", e->name, e->file, &e->bytes,
                   e->ceiling);
        } else if (sscanf(line, "input %511s", x.file) == 1 &&
                   e->input_count < VALUES_MAX) {
            e->inputs[e->input_count++] = x;
        } else if (sscanf(line, "output %511s %lf %lf", x.file, &x.rtol, &x.atol) >= 1 &&
                   e->output_count < VALUES_MAX) {
            e->outputs[e->output_count++] = x;
        }
        line[0] = 0;
    }
    return e->name[0] != 0;
}

/* What a child process tells of the programs that it runs. */
typedef struct Progress {
    size_t next; /* program of the manifest */
    size_t count[3];
    char name[256]; /* of the one that runs */
} Progress;

enum { SECONDS_MOST = 60 /* for one program */ };

static void run_from(FILE *f, Progress *p, const char *device, bool is_bench)
{
    static Entry entry;
    char line[2048] = "";
    size_t at = 0;
    rewind(f);
    while (read_entry(f, line, sizeof line, &entry)) {
        if (at++ < p->next)
            continue;
        memcpy(p->name, entry.name, sizeof p->name);
        alarm(SECONDS_MOST);
        p->next = at;
        Outcome o = run_program(&entry, device, is_bench);
        p->count[o]++;
        if (o == FAILED &&
            !is_bench) /* nothing may be left of what it did to the device */
            _exit(0);
    }
    p->next = SIZE_MAX;
    _exit(0);
}

/* In a process of its own, so that a kernel that faults or does not end fails alone. */
static void run_all(FILE *f, Progress *p, const char *device, bool is_bench)
{
    while (p->next != SIZE_MAX) {
        int status = 0;
        size_t before = p->next;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            run_from(f, p, device, is_bench);
        if (child < 0 || waitpid(child, &status, 0) < 0) {
            perror("driver");
            exit(2);
        }
        if (status != 0) {
            printf("FAILED %s: %s\n", p->name,
                   WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it ended");
            p->count[FAILED]++;
        }
        if (p->next == before) /* nor will another child begin one */
            exit(2);
    }
}

int main(int argc, char **argv)
{
    char folder[2048];
    const char *device = "cuda", *manifest = "manifest.txt";
    bool is_bench = false;
    Progress *p =
        mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("driver");
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0)
            is_bench = true;
        else if (strncmp(argv[i], "--device=", 9) == 0)
            device = argv[i] + 9;
        else
            manifest = argv[i];
    }
    FILE *f = fopen(manifest, "r");
    const char *slash = strrchr(manifest, '/');
    if (slash) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - manifest), manifest);
        if (chdir(folder) != 0)
            f = NULL;
    }
    if (!f) {
        fprintf(stderr, "driver: cannot read %s\n", manifest);
        return 2;
    }
    run_all(f, p, device, is_bench);
    fclose(f);
    printf("%zu passed, %zu failed, %zu skipped\n", p->count[PASSED], p->count[FAILED],
           p->count[SKIPPED]);
    return p->count[FAILED] != 0 || p->count[PASSED] == 0;
}
