/* gxrun --bench and --profile: how long one run takes, and where its time goes. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/clock.h"
#include "runtime/gxrun/json.h"
#include "runtime/gxrun/measure.h"

/* --- how long ----------------------------------------------------------------------------------- */

enum { SAMPLES_LEAST = 5, SAMPLES_MOST = 1000, BATCH_MOST = 1 << 20 };
#define BATCH_SECONDS                                                                    \
    0.005 /* of a batch of runs, so that its clock and waits do not count */
#define BENCH_SECONDS 0.5 /* of all samples together, where so many runs take less */

typedef struct Bench {
    size_t batch; /* runs of a sample, without a wait between them */
    size_t warm_up;
    size_t count;
    double samples[SAMPLES_MOST]; /* microseconds of one run */
} Bench;

static gxrt_status run_batch(const Measured *m, size_t times, double *seconds)
{
    double start = seconds_now();
    gxrt_status st = GXRT_OK;
    for (size_t i = 0; i < times && st == GXRT_OK; i++) {
        st = gxrt_execute(m->session, m->devices, m->runs);
    }
    for (size_t d = 0; d < m->devices && st == GXRT_OK; d++) {
        st = gxrt_synchronize(m->session, d);
    }
    *seconds = seconds_now() - start;
    return st;
}

/* The first run loads and allocates; then batches double until one is long enough. */
static gxrt_status warm_up(const Measured *m, Bench *b)
{
    double seconds = 0;
    gxrt_status st = run_batch(m, 1, &seconds);
    b->warm_up = 1;
    for (b->batch = 1; st == GXRT_OK; b->batch *= 2) {
        st = run_batch(m, b->batch, &seconds);
        b->warm_up += b->batch;
        if (seconds >= BATCH_SECONDS || b->batch >= BATCH_MOST) {
            break;
        }
    }
    return st;
}

static gxrt_status take_samples(const Measured *m, Bench *b)
{
    gxrt_status st = GXRT_OK;
    double all = 0;
    while (st == GXRT_OK && b->count < SAMPLES_MOST &&
           (b->count < SAMPLES_LEAST || all < BENCH_SECONDS)) {
        double seconds = 0;
        st = run_batch(m, b->batch, &seconds);
        b->samples[b->count++] = 1e6 * seconds / (double)b->batch;
        all += seconds;
    }
    return st;
}

static int compare_doubles(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

typedef struct Summary {
    double least, median, mean, deviation, most;
} Summary;

static Summary summarise(Bench *b)
{
    Summary s = {0};
    double squares = 0;
    size_t n = b->count;
    qsort(b->samples, n, sizeof *b->samples, compare_doubles);
    for (size_t i = 0; i < n; i++) {
        s.mean += b->samples[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        squares += (b->samples[i] - s.mean) * (b->samples[i] - s.mean);
    }
    s.least = b->samples[0];
    s.most = b->samples[n - 1];
    s.median = (b->samples[(n - 1) / 2] + b->samples[n / 2]) / 2;
    s.deviation = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
    return s;
}

static void print_bench(const Bench *b, const Summary *s, Form form)
{
    if (form == FORM_JSON) {
        printf("{\"runs\": %zu, \"samples\": %zu, \"warm_up_runs\": %zu, \"least_us\": "
               "%.3f, "
               "\"median_us\": %.3f, \"mean_us\": %.3f, \"deviation_us\": %.3f, "
               "\"most_us\": %.3f}\n",
               b->count * b->batch, b->count, b->warm_up, s->least, s->median, s->mean,
               s->deviation, s->most);
        return;
    }
    printf("time of one run: %.3f us (median of %zu; least %.3f, mean %.3f, deviation "
           "%.3f, most %.3f; %zu %s each, after %zu to warm up)\n",
           s->median, b->count, s->least, s->mean, s->deviation, s->most, b->batch,
           b->batch == 1 ? "run" : "runs", b->warm_up);
}

gxrt_status measure_bench(const Measured *m, Form form)
{
    Bench *b = allocate(1, sizeof *b);
    gxrt_status st = warm_up(m, b);
    st = st == GXRT_OK ? take_samples(m, b) : st;
    if (st == GXRT_OK) {
        Summary s = summarise(b);
        print_bench(b, &s, form);
    }
    free(b);
    return st;
}

/* --- where -------------------------------------------------------------------------------------- */

/* The trace: an array of events in the format of Chrome's tracing, which Perfetto reads. A
 * device is a process and a stream a thread; the model's times are a process of their own
 * beside it, one command behind the other. */
enum { MODEL_PROCESSES = 1000000 };

typedef struct Track {
    uint32_t device, stream;
    double modelled; /* microseconds so far */
} Track;

typedef struct Trace {
    const Measured *measured;
    FILE *file;
    JsonList events;
    Track *tracks;
    size_t track_count;
    double measured_us, modelled_us;
} Trace;

static void begin_event(Trace *t, const char *phase, const char *name, uint32_t process,
                        uint32_t thread)
{
    fputs(t->events.count ? ",\n" : "\n", t->file);
    t->events.count++;
    fprintf(t->file, "{\"ph\": \"%s\", \"name\": ", phase);
    json_text(t->file, name);
    fprintf(t->file, ", \"pid\": %u, \"tid\": %u", process, thread);
}

static void name_track(Trace *t, const char *what, uint32_t process, uint32_t thread,
                       const char *kind, const char *more)
{
    char text[64];
    snprintf(text, sizeof text, "%s %u%s", kind,
             strcmp(kind, "stream") == 0 ? thread : process % MODEL_PROCESSES, more);
    begin_event(t, "M", what, process, thread);
    fputs(", \"args\": {\"name\": ", t->file);
    json_text(t->file, text);
    fputs("}}", t->file);
}

static Track *find_track(Trace *t, uint32_t device, uint32_t stream)
{
    for (size_t i = 0; i < t->track_count; i++) {
        if (t->tracks[i].device == device && t->tracks[i].stream == stream) {
            return &t->tracks[i];
        }
    }
    Track *tracks = realloc(t->tracks, (t->track_count + 1) * sizeof *tracks);
    if (!tracks) {
        exit(complain(EXIT_WRONG, "no memory for a trace"));
    }
    t->tracks = tracks;
    tracks[t->track_count] = (Track){.device = device, .stream = stream};
    uint32_t model = MODEL_PROCESSES + device;
    name_track(t, "process_name", device, stream, "device", "");
    name_track(t, "thread_name", device, stream, "stream", "");
    name_track(t, "process_name", model, stream, "device", ", modelled");
    name_track(t, "thread_name", model, stream, "stream", "");
    return &t->tracks[t->track_count++];
}

static void write_slice(Trace *t, const gxrt_event *e, const gxrt_command_info *c,
                        uint32_t process, double start, double duration)
{
    begin_event(t, "X", e->name, process, e->stream);
    fprintf(t->file, ", \"cat\": \"%s\", \"ts\": %.3f, \"dur\": %.3f, \"args\": {",
            e->kind, start, duration);
    JsonList m = {0};
    json_member_number(t->file, &m, "command", e->command);
    json_member_number(t->file, &m, "bytes", c->bytes);
    if (*c->what) {
        json_member_text(t->file, &m, "does", c->what);
    }
    if (*c->op_name) {
        json_member_text(t->file, &m, "op_name", c->op_name);
    }
    if (*c->source_file) {
        json_member_text(t->file, &m, "source_file", c->source_file);
        json_member_number(t->file, &m, "source_line", c->source_line);
    }
    json_key(t->file, &m, "measured_us");
    fprintf(t->file, "%.3f", e->duration_us);
    if (c->modelled_us > 0) {
        json_key(t->file, &m, "modelled_us");
        fprintf(t->file, "%.3f", c->modelled_us);
    }
    fputs("}}", t->file);
}

static void write_event(void *user, const gxrt_event *e)
{
    Trace *t = user;
    gxrt_command_info c = {.struct_size = sizeof c};
    if (gxrt_program_get_command(t->measured->program, t->measured->variant, e->command,
                                 &c) != GXRT_OK) {
        return;
    }
    Track *track = find_track(t, e->device, e->stream);
    write_slice(t, e, &c, e->device, e->start_us, e->duration_us);
    t->measured_us += e->duration_us;
    t->modelled_us += c.modelled_us;
    if (c.modelled_us > 0) {
        write_slice(t, e, &c, MODEL_PROCESSES + e->device, track->modelled,
                    c.modelled_us);
        track->modelled += c.modelled_us;
    }
}

gxrt_status measure_profile(const Measured *m, FILE *file, int *code)
{
    Trace t = {.measured = m, .file = file};
    *code = EXIT_DONE;
    double seconds = 0; /* of the first run, which loads libraries and allocates */
    gxrt_status st = run_batch(m, 1, &seconds);
    if (st != GXRT_OK) {
        return st;
    }
    fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [", file);
    st = gxrt_profile(m->session, m->devices, m->runs, write_event, &t);
    fprintf(file,
            "],\n\"otherData\": {\"program\": \"gxrun " GXC_VERSION
            "\", \"measured_us\": \"%.3f\", \"modelled_us\": \"%.3f\"}}\n",
            t.measured_us, t.modelled_us);
    free(t.tracks);
    if (st == GXRT_OK && (fflush(file) != 0 || ferror(file))) {
        *code = complain(EXIT_WRONG, "the trace cannot be written: %s", strerror(errno));
    }
    return st;
}
