/* See tuning.h. */
#include "frontend/tuning.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/base/file.h"
#include "ir/base/text.h"
#include "ir/kernel/kernel.h"

/* -- reading ------------------------------------------------------------------------------------- */

typedef struct Reader {
    Arena *arena;
    Diag *diag;
    Tuning *tuning;
} Reader;

static void entry_error(Reader *r, uint32_t number, const char *what)
{
    diag_error(r->diag, (Span){0, 0}, "%s: entry %u: %s", r->tuning->file, number, what);
}

/* The configuration as the text of a backend_config. */
static const Config *parse_config(Reader *r, const json_t *config)
{
    const char *text = arena_take_text(r->arena, json_dumps(config, JSON_COMPACT));
    const char *all =
        arena_printf(r->arena, "{\"config\":%s}", text != NULL ? text : "{}");
    return config_parse(r->arena, all, strlen(all));
}

/* The last two say where and how fast, for the reader. */
static bool is_member(const char *name)
{
    static const char *const names[] = {"key",    "fusion", "kind",
                                        "config", "device", "picoseconds"};
    size_t i = 0, count = sizeof names / sizeof *names;
    while (i < count && strcmp(names[i], name) != 0)
        i++;
    return i < count;
}

/* NULL, or what is wrong with an entry. */
static const char *entry_wrong(Reader *r, json_t *entry)
{
    const char *name;
    json_t *value;
    if (!json_is_object(entry))
        return "it is not an object";
    json_object_foreach(entry, name, value)
    {
        if (!is_member(name))
            return arena_printf(
                r->arena,
                "unknown \"%s\"; an entry has key, fusion, kind, config, device and "
                "picoseconds",
                name);
    }
    if (!json_is_string(json_object_get(entry, "key")))
        return "\"key\" must be a string";
    if (!json_is_string(json_object_get(entry, "kind")))
        return "\"kind\" must be a string";
    if (!json_is_object(json_object_get(entry, "config")))
        return "\"config\" must be an object";
    return NULL;
}

static bool read_hex(const char *text, uint8_t *out, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    if (text == NULL || strlen(text) != 2 * bytes || strspn(text, digits) != 2 * bytes)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        ptrdiff_t high = strchr(digits, text[2 * i]) - digits;
        ptrdiff_t low = strchr(digits, text[2 * i + 1]) - digits;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* NULL, or what is wrong with what it says of a product by cuBLASLt. */
static const char *read_algorithm(Reader *r, const json_t *config, TuningEntry *e)
{
    TuningAlgorithm *a = ARENA_NEW(r->arena, TuningAlgorithm);
    json_int_t version = json_integer_value(json_object_get(config, "version"));
    json_int_t workspace = json_integer_value(json_object_get(config, "workspace"));
    const char *text = json_string_value(json_object_get(config, "algorithm"));
    if (json_object_size(config) != 3 || !read_hex(text, a->bytes, sizeof a->bytes) ||
        version <= 0 || version > INT32_MAX || workspace < 0)
        return arena_printf(r->arena,
                            "the configuration of cublaslt has algorithm, %d digits "
                            "0-9a-f, version and workspace, numbers",
                            2 * TUNING_ALGORITHM_BYTES);
    a->version = (uint32_t)version;
    a->workspace_bytes = (uint64_t)workspace;
    e->kind = KERNEL_COUNT;
    e->algorithm = a;
    return NULL;
}

/* NULL, or what is wrong with what it says of a graph by cuDNN. */
static const char *read_configuration(Reader *r, const json_t *config, TuningEntry *e)
{
    TuningConfiguration *c = ARENA_NEW(r->arena, TuningConfiguration);
    const json_t *number = json_object_get(config, "configuration");
    const json_t *version = json_object_get(config, "version");
    json_int_t n = json_integer_value(number), v = json_integer_value(version);
    if (json_object_size(config) != 3 || !json_is_integer(number) || n < 0 ||
        n > INT32_MAX || v <= 0 || v > INT32_MAX ||
        !json_is_integer(json_object_get(config, "workspace")))
        return "the configuration of cudnn has configuration, version and workspace, "
               "numbers";
    *c = (TuningConfiguration){(uint32_t)v, (uint32_t)n};
    e->kind = KERNEL_COUNT;
    e->configuration = c;
    return NULL;
}

/* NULL, or what is wrong with what it says of a kernel. */
static const char *read_kernel(Reader *r, const json_t *json, TuningEntry *e)
{
    const char *kind = json_string_value(json_object_get(json, "kind"));
    if (strcmp(kind, "cublaslt") == 0)
        return read_algorithm(r, json_object_get(json, "config"), e);
    if (strcmp(kind, "cudnn") == 0)
        return read_configuration(r, json_object_get(json, "config"), e);
    e->kind = kernel_kind_find(kind, strlen(kind));
    if (e->kind == KERNEL_COUNT)
        return arena_printf(r->arena, "there is no kind of kernel \"%s\"", kind);
    e->config = parse_config(r, json_object_get(json, "config"));
    return kernel_config_wrong(r->arena, e->kind, e->config);
}

static void read_entry(Reader *r, json_t *json, uint32_t number)
{
    const char *wrong = entry_wrong(r, json);
    TuningEntry e = {.number = number};
    bool is_stale = false;
    if (wrong == NULL) {
        e.key =
            arena_printf(r->arena, "%s", json_string_value(json_object_get(json, "key")));
        wrong = tuning_key_wrong(r->arena, e.key, &is_stale);
    }
    if (wrong == NULL && !is_stale)
        wrong = read_kernel(r, json, &e);
    if (wrong != NULL)
        entry_error(r, number, wrong);
    else if (is_stale)
        r->tuning->stale++;
    else
        r->tuning->entries[r->tuning->count++] = e;
}

static void read_entries(Reader *r, json_t *root)
{
    size_t count = json_array_size(root);
    r->tuning->entries = ARENA_ARRAY(r->arena, TuningEntry, count + 1);
    for (size_t i = 0; i < count && r->diag->error_count == 0; i++)
        read_entry(r, json_array_get(root, i), (uint32_t)i + 1);
    if (r->tuning->stale != 0)
        diag_warning(r->diag, (Span){0, 0},
                     "%s: %zu entries are not of version " TUNING_VERSION
                     " and are left alone",
                     r->tuning->file, r->tuning->stale);
    const TuningEntry *twice = tuning_sort(r->tuning);
    if (twice != NULL)
        entry_error(r, twice->number,
                    arena_printf(r->arena, "the key %s was there before", twice->key));
}

/* Of what the file says, whatever its blanks. */
static void hash_file(Tuning *t, const json_t *root)
{
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(text, text != NULL ? strlen(text) : 0));
    memcpy(t->hash, hash.digest, sizeof t->hash);
    free(text);
}

/* NULL after a message. Jansson would take a folder for an empty file. */
static json_t *load_file(Diag *d, const char *path)
{
    void *text;
    size_t size;
    json_error_t e;
    int error = file_read(path, (size_t)FILE_MOST_MIB << 20, &text, &size);
    if (error != 0) {
        diag_error(d, (Span){0, 0}, "cannot read %s: %s", path, strerror(error));
        return NULL;
    }
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &e);
    free(text);
    if (root == NULL)
        diag_error(d, (Span){0, 0}, "%s:%d:%d: %s", path, e.line, e.column, e.text);
    return root;
}

const Tuning *tuning_read(Arena *a, Diag *d, const char *path, bool is_complete)
{
    Tuning *t = ARENA_NEW(a, Tuning);
    Reader r = {a, d, t};
    size_t errors = d->error_count;
    t->file = path;
    t->is_complete = is_complete;
    json_t *root = load_file(d, path);
    if (root != NULL && !json_is_array(root))
        diag_error(d, (Span){0, 0}, "%s: a list of entries is expected", path);
    else if (root != NULL)
        read_entries(&r, root);
    if (root != NULL)
        hash_file(t, root);
    json_decref(root);
    return d->error_count == errors ? t : NULL;
}

const char *tuning_option(Arena *a, const Tuning *t)
{
    uint64_t hash = 0;
    for (int i = 0; t != NULL && i < 8; i++)
        hash = hash << 8 | t->hash[i];
    return t == NULL ? ""
                     : arena_printf(a, " --tuning=%016llx", (unsigned long long)hash);
}

/* -- writing ------------------------------------------------------------------------------------- */

typedef struct Line {
    const char *key;
    const Instruction *fusion;
    size_t number;
} Line;

static int compare_lines(const void *a, const void *b)
{
    const Line *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

/* All kernels; equal ones more than once. */
static size_t collect(Arena *a, const Module *m, const Target *t, Line **out)
{
    size_t count = 0, capacity = 0;
    Computations programs = module_programs(m, a);
    for (uint32_t i = 0; i < programs.count; i++) {
        const Computation *comp = programs.data[i];
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op != OP_FUSION || kernel_kind_of(inst) == KERNEL_COUNT)
                continue;
            *out = arena_grow(a, *out, &capacity, count + 1, sizeof **out);
            (*out)[count] = (Line){kernel_tuning_key(a, inst, t), inst, count};
            count++;
        }
    }
    return count;
}

const char *tuning_print(Arena *a, const Module *m, const Target *t, size_t *length)
{
    Line *lines = NULL;
    size_t count = collect(a, m, t, &lines);
    Text text;
    text_init(&text, a);
    text_char(&text, '[');
    if (count != 0)
        qsort(lines, count, sizeof *lines, compare_lines);
    for (size_t i = 0; i < count; i++) {
        if (i != 0 && strcmp(lines[i - 1].key, lines[i].key) == 0)
            continue;
        text_printf(&text,
                    "%s\n{\"key\": \"%s\", \"fusion\": \"%s\", \"kind\": \"%s\", "
                    "\"config\": %s}",
                    i != 0 ? "," : "", lines[i].key, lines[i].fusion->name,
                    kernel_kind_name(kernel_kind_of(lines[i].fusion)),
                    kernel_config_key(a, lines[i].fusion));
    }
    text_string(&text, "\n]\n");
    *length = text.length;
    return text.data;
}
