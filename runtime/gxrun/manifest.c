/* The manifest that the Python package writes beside a program: what its parameters and results are called where it
 * comes from. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/file.h"
#include "runtime/gxrun/gxrun.h"
#include "runtime/gxrun/json_read.h"

static const char *text_of(const JsonValue *object, const char *key)
{
    const JsonValue *v = json_member(object, key);
    return v && v->kind == JSON_STRING ? v->text : NULL;
}

/* The path of each leaf, if the rows are those of these leaves. */
static bool read_rows(const JsonValue *rows, Leaf *leaves, size_t count)
{
    size_t i = 0;
    if (!rows || rows->kind != JSON_ARRAY) {
        return false;
    }
    for (const JsonValue *v = rows->first; v; v = v->next, i++) {
        int64_t dims[64];
        uint32_t rank;
        const char *path = text_of(v, "path");
        const char *dtype = text_of(v, "dtype");
        if (i == count || !path || !dtype ||
            strcmp(dtype, dtype_info[leaves[i].dtype].name) != 0 ||
            !json_sizes(json_member(v, "shape"), 64, dims, &rank) ||
            rank != leaves[i].rank ||
            (rank && memcmp(dims, leaves[i].dims, rank * sizeof *dims) != 0)) {
            return false;
        }
        leaves[i].path = text_copy(path);
    }
    return i == count;
}

static int check(const Options *o, const JsonValue *root, Signature *s)
{
    const JsonValue *version = json_member(root, "gxc_manifest");
    if (!version || !version->is_whole) {
        return complain(EXIT_WRONG, "%s is no manifest: it has no number gxc_manifest",
                        o->manifest);
    }
    if (version->whole != 1) {
        return complain(EXIT_NOT_SUPPORTED, "%s: a manifest of version %lld, known is 1",
                        o->manifest, (long long)version->whole);
    }
    if (!read_rows(json_member(root, "arguments"), s->parameters, s->parameter_count) ||
        !read_rows(json_member(root, "results"), s->results, s->result_count)) {
        return complain(EXIT_WRONG,
                        "%s describes another program: its arguments and results are not "
                        "those of %s",
                        o->manifest, o->program);
    }
    return EXIT_DONE;
}

int manifest_read(const Options *o, Signature *s)
{
    enum { MOST = 256 << 20 };
    void *text;
    size_t size;
    char error[256];
    int why = o->manifest ? file_read(o->manifest, MOST, &text, &size) : 0;
    if (why) {
        return complain(EXIT_WRONG, "%s: %s", o->manifest, strerror(why));
    }
    if (!o->manifest) {
        return EXIT_DONE;
    }
    Json *json = json_read(text, size, error, sizeof error);
    free(text);
    int code = json ? check(o, json_root(json), s)
                    : complain(EXIT_WRONG, "%s is no manifest: %s", o->manifest, error);
    json_destroy(json);
    return code;
}
