/* See tune.h. The file is a list of entries, one a line, in the order of their keys: frontend/tuning.h. */
#include "runtime/gxrun/tune.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/file.h"
#include "runtime/gxrun/json.h"
#include "runtime/gxrun/json_read.h"
#include "runtime/gxrun/names.h"

/* --- measuring ----------------------------------------------------------------------------------- */

typedef struct Tuner {
    const Options *options;
    FILE *entries; /* of this process */
    FILE *all;     /* of all ranks */
    char device[256];
    bool has_tf32;
    gxrt_trial own; /* of the kernel that is being reported: its numbers only */
    size_t tried, kernels, changed;
} Tuner;

/* Orders of summing differ by a few roundings of the largest terms, for which the size of the whole array stands. */
enum { ROUNDINGS = 8 };
#define TF32_RTOL 1e-3

static double size_of(DType dtype, const char *at)
{
    double z[2] = {0, 0};
    if (dtype_info[dtype].class == DTC_COMPLEX) {
        number_get_complex(dtype, at, z);
    } else {
        z[0] = number_get_double(dtype, at);
    }
    return hypot(z[0], z[1]);
}

static double root_mean_square(DType dtype, const char *data, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double x = size_of(dtype, data + i * dtype_info[dtype].storage);
        sum += isfinite(x) ? x * x : 0;
    }
    return n ? sqrt(sum / (double)n) : 0;
}

static bool is_close(double got, double want, double allowed)
{
    if (!isfinite(got) || !isfinite(want)) {
        return (isnan(got) && isnan(want)) || got == want;
    }
    return fabs(got - want) <= allowed;
}

static bool element_agrees(DType dtype, const char *x, const char *y, double allowed)
{
    double a[2] = {0, 0}, b[2] = {0, 0};
    if (dtype_info[dtype].class == DTC_COMPLEX) {
        number_get_complex(dtype, x, a);
        number_get_complex(dtype, y, b);
    } else {
        a[0] = number_get_double(dtype, x);
        b[0] = number_get_double(dtype, y);
    }
    return is_close(a[0], b[0], allowed) && is_close(a[1], b[1], allowed);
}

static bool arrays_agree(const Tuner *t, DType dtype, const char *x, const char *y,
                         size_t n)
{
    Tolerance tolerance = number_tolerance(dtype);
    double rtol = dtype == DT_F32 && t->has_tf32 ? TF32_RTOL : tolerance.rtol;
    double size = root_mean_square(dtype, x, n);
    for (size_t i = 0; i < n; i++) {
        const char *a = x + i * dtype_info[dtype].storage;
        const char *b = y + i * dtype_info[dtype].storage;
        double own = size_of(dtype, a), scale = isfinite(own) ? fmax(own, size) : size;
        if (!element_agrees(dtype, a, b, ROUNDINGS * (tolerance.atol + rtol * scale))) {
            return false;
        }
    }
    return true;
}

static int agree(void *user, const char *dtype, const void *wanted, const void *found,
                 size_t bytes)
{
    if (memcmp(wanted, found, bytes) == 0) {
        return true;
    }
    DType type = DT_INVALID;
    for (int i = DT_INVALID + 1; i < DT_TUPLE; i++) {
        if (strcmp(dtype_info[i].name, dtype) == 0) {
            type = (DType)i;
        }
    }
    bool is_rounded = type != DT_INVALID && (dtype_info[type].class == DTC_FLOAT ||
                                             dtype_info[type].class == DTC_COMPLEX);
    if (!is_rounded) {
        return false;
    }
    size_t n = bytes * 8 / dtype_info[type].bits;
    char *x = allocate(n, dtype_info[type].storage);
    char *y = allocate(n, dtype_info[type].storage);
    number_unpack(type, x, wanted, n);
    number_unpack(type, y, found, n);
    bool same = arrays_agree(user, type, x, y, n);
    free(x);
    free(y);
    return same;
}

static void write_entry(const Tuner *t, const gxrt_trial *trial)
{
    fprintf(t->entries, "{\"key\": \"%s\", \"fusion\": ", trial->key);
    json_text(t->entries, trial->name);
    fprintf(t->entries, ", \"kind\": \"%s\", \"config\": %s, \"device\": ", trial->kind,
            trial->config);
    json_text(t->entries, t->device);
    fprintf(t->entries, ", \"picoseconds\": %" PRIu64 "}\n", trial->picoseconds);
}

static void take_trial(void *user, const gxrt_trial *trial)
{
    Tuner *t = user;
    bool prints = !t->options->quiet;
    t->tried++;
    t->kernels += trial->is_own != 0;
    if (trial->is_own && prints) {
        printf("%s, %s:\n", plain_text(trial->name), plain_text(trial->key));
    }
    if (trial->failure && prints) {
        printf("  %s %s: %s\n", plain_text(trial->kind), plain_text(trial->config),
               plain_text(trial->failure));
    } else if (prints) {
        printf("  %s %s: %.3f us%s%s\n", plain_text(trial->kind),
               plain_text(trial->config), 1e-6 * (double)trial->picoseconds,
               trial->is_own ? ", the program's" : "",
               trial->is_chosen ? ", chosen" : "");
    }
    if (trial->is_chosen) {
        t->changed += !trial->is_own;
        write_entry(t, trial);
    }
}

static void take_entries(void *user, uint32_t rank, const void *bytes, size_t size)
{
    Tuner *t = user;
    (void)rank;
    if (size) {
        fwrite(bytes, 1, size, t->all);
    }
}

/* What all ranks have found, to all of them. */
static gxrt_status share(Tuner *t, gxrt_world *world, char **text, size_t *size)
{
    enum { SECONDS = 600 }; /* others may have had more to do */
    gxrt_status st = GXRT_OK;
    if (fclose(t->entries) == 0 && *text) {
        st = gxrt_world_gather(world, *text, *size, SECONDS, take_entries, t);
    }
    free(*text);
    return st;
}

gxrt_status tune_run(const Options *o, const Measured *m, gxrt_world *world,
                     FILE *entries, int *code)
{
    Tuner t = {.options = o, .all = entries};
    char *text = NULL;
    size_t size = 0;
    gxrt_session_info info = {.struct_size = sizeof info};
    gxrt_program_info program = {.struct_size = sizeof program};
    gxrt_status st = gxrt_session_get_info(m->session, &info);
    st = st == GXRT_OK ? gxrt_program_get_info(m->program, &program) : st;
    if (st != GXRT_OK) {
        return st;
    }
    snprintf(t.device, sizeof t.device, "%s", info.device_name);
    t.has_tf32 = program.has_tf32;
    t.entries = open_memstream(&text, &size);
    if (!t.entries) {
        *code = complain(EXIT_WRONG, "no memory for what is tuned");
        return GXRT_OK;
    }
    gxrt_tuner tuner = {.struct_size = sizeof tuner,
                        .shard = o->has_rank ? o->rank : 0,
                        .shards = o->has_rank ? o->world : 0,
                        .agree = agree,
                        .trial = take_trial,
                        .user = &t};
    st = gxrt_tune(m->session, m->devices, m->runs, &tuner);
    if (st == GXRT_OK) {
        st = share(&t, world, &text, &size);
    } else {
        fclose(t.entries);
        free(text);
    }
    if (st == GXRT_OK && (fflush(entries) != 0 || ferror(entries))) {
        *code =
            complain(EXIT_WRONG, "what was tuned cannot be written: %s", strerror(errno));
    }
    if (st == GXRT_OK && !o->quiet) {
        printf(
            "tuned %zu kernels, of %zu candidates; %zu are others than the program's\n",
            t.kernels, t.tried, t.changed);
    }
    return st;
}

/* --- the file ------------------------------------------------------------------------------------- */

typedef struct Entry {
    const char *key, *line;
    char *owned; /* the line, if it was made */
    size_t length;
    bool is_new;
} Entry;

typedef struct Entries {
    Entry *data;
    size_t count, capacity;
} Entries;

static void add_entry(Entries *e, Entry entry)
{
    if (e->count == e->capacity) {
        e->capacity = e->capacity ? 2 * e->capacity : 64;
        Entry *more = realloc(e->data, e->capacity * sizeof *more);
        if (!more) {
            exit(complain(EXIT_WRONG, "no memory for the tuning file"));
        }
        e->data = more;
    }
    e->data[e->count++] = entry;
}

/* What is inside of an entry's values has no spaces. */
static void print_value(FILE *out, const JsonValue *v, bool is_inside)
{
    switch (v->kind) {
    case JSON_NULL:
        fputs("null", out);
        return;
    case JSON_BOOL:
        fputs(v->whole ? "true" : "false", out);
        return;
    case JSON_NUMBER:
        fprintf(out, "%" PRId64, v->whole);
        return;
    case JSON_STRING:
        json_text(out, v->text);
        return;
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    }
    fputc(v->kind == JSON_ARRAY ? '[' : '{', out);
    for (const JsonValue *member = v->first; member; member = member->next) {
        if (member != v->first) {
            fputs(is_inside ? "," : ", ", out);
        }
        if (v->kind == JSON_OBJECT) {
            json_text(out, member->key);
            fputs(is_inside ? ":" : ": ", out);
        }
        print_value(out, member, true);
    }
    fputc(v->kind == JSON_ARRAY ? ']' : '}', out);
}

static bool is_whole(const JsonValue *v)
{
    bool whole = v->kind != JSON_NUMBER || v->is_whole;
    for (const JsonValue *member = v->first; member && whole; member = member->next) {
        whole = is_whole(member);
    }
    return whole;
}

/* Those of the file `from`, so that it loses none, or what was measured. */
static int read_entries(const char *from, const Json *json, bool is_new, Entries *e)
{
    const JsonValue *root = json_root(json);
    if (root->kind != JSON_ARRAY) {
        return complain(EXIT_WRONG, "%s: a list of entries is expected", from);
    }
    size_t number = 1;
    for (const JsonValue *v = root->first; v; v = v->next, number++) {
        const JsonValue *key = json_member(v, "key");
        if (!key || key->kind != JSON_STRING || !is_whole(v)) {
            return complain(EXIT_WRONG,
                            "%s: entry %zu: an object with \"key\", a string, and whole "
                            "numbers is expected",
                            from, number);
        }
        Entry entry = {.key = key->text, .is_new = is_new};
        FILE *line = open_memstream(&entry.owned, &entry.length);
        if (!line) {
            return complain(EXIT_WRONG, "no memory for %s", from);
        }
        print_value(line, v, false);
        if (fclose(line) != 0) {
            return complain(EXIT_WRONG, "no memory for %s", from);
        }
        entry.line = entry.owned;
        add_entry(e, entry);
    }
    return EXIT_DONE;
}

/* A line for each. They come from the program's process, which may have written anything: what is no entry does
 * not get into the file. */
static int read_measured(const char *lines, size_t size, Json **json, Entries *e)
{
    static const char from[] = "what was measured";
    char error[256];
    char *text = allocate(size + 2, 1); /* as an array */
    text[0] = '[';
    memcpy(text + 1, lines, size);
    size_t end = size + (size == 0 || lines[size - 1] != '\n');
    for (size_t i = 1; i < end; i++) {
        text[i] = text[i] == '\n' ? ',' : text[i];
    }
    text[end] = ']';
    *json = json_read(text, end + 1, error, sizeof error);
    free(text);
    return *json ? read_entries(from, *json, true, e)
                 : complain(EXIT_WRONG, "%s: %s", from, error);
}

/* New ones first. */
static int compare_entries(const void *x, const void *y)
{
    const Entry *a = x, *b = y;
    int order = strcmp(a->key, b->key);
    return order != 0 ? order : (int)b->is_new - (int)a->is_new;
}

static void free_entries(Entries *e)
{
    for (size_t i = 0; i < e->count; i++) {
        free(e->data[i].owned);
    }
    free(e->data);
}

static int write_entries(const char *path, const Entries *e)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        return complain(EXIT_WRONG, "no memory for %s", path);
    }
    fputc('[', out);
    for (size_t i = 0, written = 0; i < e->count; i++) {
        if (i && strcmp(e->data[i - 1].key, e->data[i].key) == 0) {
            continue;
        }
        fputs(written++ ? ",\n" : "\n", out);
        fwrite(e->data[i].line, 1, e->data[i].length, out);
    }
    fputs("\n]\n", out);
    int failed = fclose(out) == 0 ? file_write(path, &(FilePart){text, size}, 1) : ENOMEM;
    free(text);
    return failed
               ? complain(EXIT_WRONG, "%s: cannot be written: %s", path, strerror(failed))
               : EXIT_DONE;
}

/* NULL: there is no such file, or *code says that it is none of ours. */
static Json *read_file(const char *path, int *code)
{
    enum { MOST = 256 << 20 };
    void *text = NULL;
    size_t size = 0;
    char error[256];
    int failed = file_read(path, MOST, &text, &size);
    Json *json = failed ? NULL : json_read(text, size, error, sizeof error);
    free(text);
    if (failed && failed != ENOENT) {
        *code = complain(EXIT_WRONG, "%s: %s", path, strerror(failed));
    } else if (!failed && !json) {
        *code = complain(EXIT_WRONG, "%s: %s", path, error);
    }
    return json;
}

int tune_write(const Options *o, const char *lines, size_t size)
{
    int code = EXIT_DONE;
    Entries e = {0};
    Json *json = read_file(o->tune, &code);
    Json *measured = NULL;
    if (code == EXIT_DONE) {
        code = read_measured(lines, size, &measured, &e);
    }
    if (json && code == EXIT_DONE) {
        code = read_entries(o->tune, json, false, &e);
    }
    if (code == EXIT_DONE) {
        qsort(e.data, e.count, sizeof *e.data, compare_entries);
        code = write_entries(o->tune, &e);
    }
    free_entries(&e);
    json_destroy(measured);
    json_destroy(json);
    return code;
}

int tune_check(const Options *o, const gxrt_program *program)
{
    gxrt_program_info info = {.struct_size = sizeof info};
    if (gxrt_program_get_info(program, &info) != GXRT_OK) {
        return complain(EXIT_WRONG, "%s", gxrt_last_error());
    }
    int code = EXIT_DONE;
    Entries e = {0};
    Json *json = read_file(o->tune, &code); /* before anything is measured */
    if (json) {
        code = read_entries(o->tune, json, false, &e);
    }
    free_entries(&e);
    json_destroy(json);
    if (code == EXIT_DONE && info.tunable_count == 0) {
        code = complain(EXIT_WRONG,
                        "%s has no kernels to choose from: compile it with gxc "
                        "--emit=candidates",
                        o->program);
    }
    return code;
}
