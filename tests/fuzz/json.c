/* JSON, as manifests and the heads of .safetensors files have it: a tree or a message. */
#include "runtime/gxrun/json_read.h"

#include "tests/fuzz/fuzz.h"

static size_t visit(const JsonValue *v)
{
    int64_t sizes[8];
    uint32_t count;
    size_t nodes = 1;
    PROMISE((v->kind == JSON_STRING) == (v->text != NULL), "a text that is no string");
    (void)json_member(v, "path");
    if (json_sizes(v, 8, sizes, &count))
        PROMISE(v->kind == JSON_ARRAY && count <= 8, "sizes of no array");
    for (const JsonValue *part = v->first; part != NULL; part = part->next) {
        PROMISE((v->kind == JSON_OBJECT) == (part->key != NULL), "a key in no object");
        nodes += visit(part);
    }
    return nodes;
}

void fuzz_input(const uint8_t *data, size_t size)
{
    char error[256] = "";
    Json *json = json_read((const char *)data, size, error, sizeof error);
    PROMISE((json == NULL) == (error[0] != '\0'), "no tree and no message, or both");
    if (json != NULL)
        PROMISE(visit(json_root(json)) <= size, "more values than bytes");
    json_destroy(json);
}
