/* Kinds of kernels: names, and the kind of a fusion in its backend_config. See kind.h. */
#include "ir/kernel/kind.h"

#include <string.h>

#include "ir/bug.h"
#include "ir/text.h"

static const char *const names[] = {
#define KERNEL(id, name, doc) #name,
#include "ir/kernel/kernels.def"
};

const char *kernel_kind_name(KernelKind kind)
{
    return kind < KERNEL_COUNT ? names[kind] : "none";
}

KernelKind kernel_kind_find(const char *name, size_t length)
{
    for (unsigned i = 0; i < KERNEL_COUNT; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0)
            return (KernelKind)i;
    }
    return KERNEL_COUNT;
}

/* -- backend_config --------------------------------------------------------------------------- */

static size_t skip_blank(Bytes b, size_t at)
{
    while (at < b.length && strchr(" \t\r\n", b.data[at]) != NULL)
        at++;
    return at;
}

/* The place behind the string that starts at `at` with its quote. */
static size_t skip_string(Bytes b, size_t at)
{
    for (at++; at < b.length && b.data[at] != '"'; at++) {
        if (b.data[at] == '\\')
            at++;
    }
    return at < b.length ? at + 1 : b.length;
}

/* Where the string value of the outermost key "emitter" stands: its quotes included. */
static bool find_value(Bytes b, size_t *begin, size_t *end)
{
    unsigned depth = 0;
    for (size_t at = 0; at < b.length;) {
        char c = b.data[at];
        if (c == '{' || c == '[')
            depth++;
        if ((c == '}' || c == ']') && depth > 0)
            depth--;
        if (c != '"') {
            at++;
            continue;
        }
        size_t start = at, length;
        at = skip_string(b, at);
        length = at - start;
        size_t next = skip_blank(b, at);
        if (depth != 1 || length != 9 || memcmp(b.data + start, "\"emitter\"", 9) != 0 ||
            next >= b.length || b.data[next] != ':')
            continue;
        *begin = skip_blank(b, next + 1);
        if (*begin >= b.length || b.data[*begin] != '"')
            return false;
        *end = skip_string(b, *begin);
        return true;
    }
    return false;
}

KernelKind kernel_kind_of(const Instruction *fusion)
{
    size_t begin, end;
    Bytes b = inst_bytes(fusion, ATTR_BACKEND_CONFIG);
    if (b.data == NULL || !find_value(b, &begin, &end) || end - begin < 2)
        return KERNEL_COUNT;
    return kernel_kind_find(b.data + begin + 1, end - begin - 2);
}

void kernel_kind_set(Instruction *fusion, KernelKind kind)
{
    size_t begin, end;
    Arena *a = fusion->parent->module->arena;
    Bytes b = inst_bytes(fusion, ATTR_BACKEND_CONFIG);
    const char *name = kernel_kind_name(kind), *text;
    if (b.data == NULL)
        b = (Bytes){"", 0};
    size_t open = skip_blank(b, 0);
    if (find_value(b, &begin, &end)) {
        text = arena_printf(a, "%.*s\"%s\"%s", (int)begin, b.data, name, b.data + end);
    } else if (open < b.length && b.data[open] == '{') {
        size_t rest = skip_blank(b, open + 1);
        bool is_empty = rest < b.length && b.data[rest] == '}';
        text = arena_printf(a, "{\"emitter\":\"%s\"%s%s", name, is_empty ? "" : ",",
                            b.data + rest);
    } else {
        text = arena_printf(a, "{\"emitter\":\"%s\"}", name);
    }
    inst_set_bytes(fusion, ATTR_BACKEND_CONFIG, text, strlen(text));
}

/* -- results ------------------------------------------------------------------------------------ */

uint32_t fusion_result_count(const Instruction *fusion)
{
    return (uint32_t)shape_leaf_count(inst_called(fusion, 0)->root->shape);
}

/* The tuple element of `inst` that holds its leaf `leaf`; *leaf becomes the leaf inside it. */
static uint32_t element_of_leaf(const Shape *tuple, uint32_t *leaf)
{
    for (uint32_t i = 0; i < tuple->rank; i++) {
        uint32_t count = (uint32_t)shape_leaf_count(tuple->elements[i]);
        if (*leaf < count)
            return i;
        *leaf -= count;
    }
    bug("a tuple has no such leaf");
}

FusionResult fusion_result(const Instruction *fusion, uint32_t leaf)
{
    const Instruction *inst = inst_called(fusion, 0)->root;
    const Shape *shape = shape_leaf(inst->shape, leaf);
    for (;;) {
        if (inst->op == OP_TUPLE) {
            inst = inst->operands[element_of_leaf(inst->shape, &leaf)];
        } else if (inst->op == OP_GET_TUPLE_ELEMENT) {
            int64_t index = inst_int(inst, ATTR_INDEX, 0);
            inst = inst->operands[0];
            for (int64_t i = 0; i < index; i++)
                leaf += (uint32_t)shape_leaf_count(inst->shape->elements[i]);
        } else {
            return (FusionResult){inst, leaf, shape};
        }
    }
}

const Instruction *fusion_hero(const Instruction *fusion, OpCode op)
{
    const Computation *comp = inst_called(fusion, 0);
    const Instruction *hero = NULL;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op != op)
            continue;
        if (hero != NULL)
            return NULL;
        hero = inst;
    }
    return hero;
}
