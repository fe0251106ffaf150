/* Which parameter takes its values from where. Named inputs come first: a name is that of a parameter, or a part at
 * the beginning of several key paths, whose values an archive has. An archive without a name feeds every parameter
 * that it has an array for. Single files without a name feed what is left, in order. */
#include "runtime/gxrun/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/gxrun/names.h"

/* --- files ------------------------------------------------------------------------------- */

char *feed_path(const char *text, uint32_t device, bool *out_replaced)
{
    static const char mark[] = "{device}";
    char *out = allocate(strlen(text) * 2 + 16, 1);
    char *to = out;
    *out_replaced = false;
    while (*text) {
        if (strncmp(text, mark, sizeof mark - 1) == 0) {
            to += sprintf(to, "%u", device);
            text += sizeof mark - 1;
            *out_replaced = true;
        } else {
            *to++ = *text++;
        }
    }
    *to = 0;
    return out;
}

static const ArrayFile *open_file(FileSet *set, const char *path)
{
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->files[i]->path, path) == 0) {
            return set->files[i];
        }
    }
    char error[1024];
    ArrayFile *f = array_file_open(path, error, sizeof error);
    ArrayFile **files = f ? realloc(set->files, (set->count + 1) * sizeof *files) : NULL;
    if (!files) {
        complain(EXIT_WRONG, "%s", f ? "no memory" : error);
        array_file_close(f);
        return NULL;
    }
    files[set->count++] = f;
    set->files = files;
    return f;
}

const ArrayFile *feed_open(FileSet *set, const char *text, uint32_t device,
                           char **out_array)
{
    bool replaced;
    struct stat st;
    char *path = feed_path(text, device, &replaced);
    *out_array = NULL;
    for (char *colon = path; stat(path, &st) != 0 && (colon = strchr(colon, ':'));
         colon++) {
        *colon = 0; /* unless the name of a file has the colon */
        if (stat(path, &st) == 0) {
            *out_array = text_copy(colon + 1);
            break;
        }
        *colon = ':';
    }
    const ArrayFile *f = open_file(set, path);
    free(path);
    if (!f) {
        free(*out_array);
        *out_array = NULL;
    }
    return f;
}

void feed_close(FileSet *set)
{
    for (size_t i = 0; i < set->count; i++) {
        array_file_close(set->files[i]);
    }
    free(set->files);
    *set = (FileSet){0};
}

/* --- names ------------------------------------------------------------------------------- */

typedef struct Assign {
    const Options *options;
    const Signature *signature;
    Feed *feeds;
    char **words; /* of each parameter, without JAX's number */
    size_t fed;
} Assign;

/* "x, y, z, ..." of at most a few. */
static void add_name(char *text, size_t size, const char *name)
{
    size_t at = strlen(text);
    bool fits = at + strlen(name) + 8 < size;
    bool full = at > 4 && strcmp(text + at - 3, "...") == 0;
    if (!full) {
        snprintf(text + at, size - at, "%s%s", at ? ", " : "", fits ? name : "...");
    }
}

static const char *names_of(const Signature *s)
{
    static char text[256];
    text[0] = 0;
    for (size_t i = 0; i < s->parameter_count; i++) {
        add_name(text, sizeof text, leaf_label(&s->parameters[i]));
    }
    return s->parameter_count ? text : "none";
}

enum { NONE = -1, SEVERAL = -2 };

typedef bool (*NameTest)(const Assign *a, size_t leaf, const char *name);

static bool is_same(const Assign *a, size_t leaf, const char *name)
{
    const Leaf *l = &a->signature->parameters[leaf];
    return strcmp(l->name, name) == 0 || (l->path && strcmp(l->path, name) == 0);
}

static bool has_words(const Assign *a, size_t leaf, const char *words)
{
    return strcmp(a->words[leaf], words) == 0;
}

/* The name of the argument, the first word, may be left out. */
static bool has_last_words(const Assign *a, size_t leaf, const char *words)
{
    const char *dot = strchr(a->words[leaf], '.');
    return dot && strcmp(dot + 1, words) == 0;
}

static long only_one(const Assign *a, NameTest test, const char *name)
{
    long found = NONE;
    for (size_t i = 0; i < a->signature->parameter_count; i++) {
        if (test(a, i, name)) {
            found = found == NONE ? (long)i : SEVERAL;
        }
    }
    return found;
}

/* The parameter that is meant: by the name as it stands, by its words, by its words but the first. */
static long find_parameter(const Assign *a, const char *name)
{
    long found = only_one(a, is_same, name);
    char *words = name_words(name);
    if (found == NONE) {
        found = only_one(a, has_words, words);
    }
    if (found == NONE) {
        free(words);
        words = name_words_unnumbered(name);
        found = only_one(a, has_words, words);
    }
    if (found == NONE) {
        found = only_one(a, has_last_words, words);
    }
    free(words);
    return found;
}

static int ambiguous(const char *what, const char *name)
{
    return complain(EXIT_WRONG,
                    "%s%s stands for several parameters that differ only in signs: name "
                    "them as `gxrun --info` does",
                    what, name);
}

static int feed_one(Assign *a, long leaf, const Source *source, const char *array,
                    const char *what)
{
    Feed *feed = &a->feeds[leaf];
    if (feed->source) {
        return complain(EXIT_WRONG, "%s: %s is given twice", what,
                        leaf_label(&a->signature->parameters[leaf]));
    }
    feed->source = source;
    if (array) {
        feed->array = text_copy(array);
    }
    a->fed++;
    return EXIT_DONE;
}

/* --- archives ---------------------------------------------------------------------------- */

/* What an input names is not taken from an archive. */
static bool is_named_elsewhere(const Feed *feed, const Source *source)
{
    return feed->source && feed->source != source && feed->source->name;
}

/* Each array of the archive to the parameter of its name behind `prefix`. */
static int feed_archive(Assign *a, const ArrayFile *f, const Source *source,
                        const char *prefix)
{
    char unused[256] = "";
    size_t before = a->fed;
    size_t left = 0;
    for (size_t i = 0; i < f->count; i++) {
        const char *array = f->arrays[i].name;
        char *name = allocate(strlen(prefix) + strlen(array) + 2, 1);
        sprintf(name, "%s%s%s", prefix, *prefix ? "." : "", array);
        long leaf = find_parameter(a, name);
        free(name);
        if (leaf == SEVERAL) {
            return ambiguous("the array ", array);
        }
        if (leaf == NONE) {
            left++;
            add_name(unused, sizeof unused, array);
        } else if (!is_named_elsewhere(&a->feeds[leaf], source)) {
            int code = feed_one(a, leaf, source, array, f->path);
            if (code != EXIT_DONE) {
                return code;
            }
        }
    }
    if (a->fed == before) {
        return complain(EXIT_WRONG,
                        "%s: none of its arrays (%s) has the name of a parameter; the "
                        "program takes %s",
                        f->path, unused, names_of(a->signature));
    }
    if (left) {
        fprintf(stderr, "gxrun: warning: %s: %zu of its arrays feed no parameter: %s\n",
                f->path, left, unused);
    }
    return EXIT_DONE;
}

static bool is_prefix(const Assign *a, const char *name)
{
    char *words = name_words(name);
    bool found = false;
    for (size_t i = 0; i < a->signature->parameter_count && *words; i++) {
        found |= name_behind(a->words[i], words) != NULL;
    }
    free(words);
    return found;
}

/* The array of an archive for one parameter that was named. */
static int feed_from(Assign *a, const ArrayFile *f, const Source *source, long leaf,
                     const char *array)
{
    const char *name = array ? array : f->count == 1 ? f->arrays[0].name : source->name;
    if (!f->is_archive && !array) {
        return feed_one(a, leaf, source, NULL, source->name);
    }
    if (!array_file_find(f, name)) {
        return complain(EXIT_WRONG, "%s: there is no array %s in it", f->path, name);
    }
    return feed_one(a, leaf, source, name, source->name ? source->name : f->path);
}

/* --- all inputs --------------------------------------------------------------------------- */

static int no_parameter(const Assign *a, const char *name)
{
    return complain(EXIT_WRONG, "--input=%s=...: the program has no parameter %s, but %s",
                    name, name, names_of(a->signature));
}

static int feed_named(Assign *a, FileSet *set, const Source *source)
{
    long leaf = find_parameter(a, source->name);
    if (leaf == SEVERAL) {
        return ambiguous("--input=", source->name);
    }
    if (!source->file) {
        return leaf == NONE ? no_parameter(a, source->name)
                            : feed_one(a, leaf, source, NULL, "--input");
    }
    char *array;
    const ArrayFile *f = feed_open(set, source->file, a->signature->first, &array);
    if (!f) {
        return EXIT_WRONG;
    }
    int code = EXIT_DONE;
    if (leaf != NONE) {
        code = feed_from(a, f, source, leaf, array);
    } else if (f->is_archive && !array && is_prefix(a, source->name)) {
        code = feed_archive(a, f, source, source->name);
    } else {
        code = no_parameter(a, source->name);
    }
    free(array);
    return code;
}

static bool has_archive(const FileSet *set)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->files[i]->is_archive) {
            return true;
        }
    }
    return false;
}

/* Of inputs without a name: archives by their names, then single arrays by order. */
static int feed_unnamed(Assign *a, FileSet *set, bool archives, size_t *next)
{
    const Options *o = a->options;
    int code = EXIT_DONE;
    for (size_t i = 0; i < o->input_count && code == EXIT_DONE; i++) {
        const Source *source = &o->inputs[i];
        char *array = NULL;
        const ArrayFile *f = NULL;
        if (source->name) {
            continue;
        }
        if (source->file) {
            f = feed_open(set, source->file, a->signature->first, &array);
            if (!f) {
                return EXIT_WRONG;
            }
        }
        bool whole = f && f->is_archive && !array;
        if (whole && archives) {
            code = feed_archive(a, f, source, "");
        } else if (!whole && !archives) {
            while (*next < a->signature->parameter_count && a->feeds[*next].source) {
                ++*next;
            }
            if (*next == a->signature->parameter_count) {
                code = !source->file && has_archive(set)
                           ? EXIT_DONE
                           : complain(EXIT_WRONG,
                                      "%zu inputs were given; the program takes %zu",
                                      o->input_count, a->signature->parameter_count);
            } else {
                code = f ? feed_from(a, f, source, (long)*next, array)
                         : feed_one(a, (long)*next, source, NULL, "--input");
            }
        }
        free(array);
    }
    return code;
}

/* Weights that were forgotten would be random: said where an archive shows that names are meant. */
static void warn_of_random(const Assign *a, const FileSet *set)
{
    char missing[256] = "";
    size_t count = 0;
    for (size_t i = 0; i < a->options->input_count; i++) {
        if (!a->options->inputs[i].file) {
            return; /* the user knows */
        }
    }
    for (size_t i = 0; i < a->signature->parameter_count && has_archive(set); i++) {
        if (!a->feeds[i].source) {
            count++;
            add_name(missing, sizeof missing, leaf_label(&a->signature->parameters[i]));
        }
    }
    if (count) {
        fprintf(stderr, "gxrun: warning: no array was given for %s: random values\n",
                missing);
    }
}

int feed_assign(const Options *o, const Signature *s, FileSet *set, Feed *feeds)
{
    Assign a = {.options = o, .signature = s, .feeds = feeds};
    size_t next = 0;
    int code = EXIT_DONE;
    a.words = allocate(s->parameter_count, sizeof *a.words);
    for (size_t i = 0; i < s->parameter_count; i++) {
        const Leaf *leaf = &s->parameters[i];
        a.words[i] =
            leaf->path ? name_words(leaf->path) : name_words_unnumbered(leaf->name);
    }
    for (size_t i = 0; i < o->input_count && code == EXIT_DONE; i++) {
        if (o->inputs[i].name) {
            code = feed_named(&a, set, &o->inputs[i]);
        }
    }
    code = code == EXIT_DONE ? feed_unnamed(&a, set, true, &next) : code;
    code = code == EXIT_DONE ? feed_unnamed(&a, set, false, &next) : code;
    if (code == EXIT_DONE) {
        warn_of_random(&a, set);
    }
    free_arrays((void **)a.words, s->parameter_count);
    return code;
}

void feed_free(Feed *feeds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(feeds[i].array);
    }
    free(feeds);
}
