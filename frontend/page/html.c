/* --emit=html: the data of the page as JSON, in front of the page that shows it (page.html). See page.h. */
#include <jansson.h>
#include <string.h>

#include "frontend/page/page.h"
#include "frontend/report/kernel_report.h"
#include "ir/base/text.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/time/work.h"
#include "ir/print/print.h"

/* The text of page.html, which the build makes a C array; the data goes where the mark stands. */
extern const char page_template[];
#define PAGE_MARK "@DATA@"

/* Text of files and names may be no UTF-8, which JSON must be. */
static json_t *text_json(Arena *a, const char *text, size_t length)
{
    json_t *out = json_stringn(text, length);
    if (out != NULL)
        return out;
    char *plain = ARENA_ARRAY(a, char, length + 1);
    for (size_t i = 0; i < length; i++)
        plain[i] = (unsigned char)text[i] < 0x80 && text[i] != '\0' ? text[i] : '?';
    return json_stringn(plain, length);
}

static json_t *string_json(Arena *a, const char *text)
{
    return text_json(a, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

static json_t *id_json(const Instruction *inst)
{
    return json_sprintf("%u.%u", inst->parent->id, inst->id);
}

/* -- instructions ------------------------------------------------------------------------------ */

static void add_metadata(Arena *a, json_t *node, const Module *m, const Instruction *inst)
{
    CodegenSource s = codegen_source(m, inst);
    if (*s.op_name != '\0')
        json_object_set_new(node, "op_name", string_json(a, s.op_name));
    if (*s.file != '\0') {
        json_object_set_new(node, "file", string_json(a, s.file));
        json_object_set_new(node, "line", json_integer(s.line));
    }
}

/* What it calls: a fusion its HLO, others the computations, which are graphs of their own. */
static void add_called(Arena *a, json_t *node, const Instruction *inst)
{
    json_t *called = json_array();
    for (uint32_t k = 0; k < inst_called_count(inst); k++) {
        const Computation *callee = inst_called(inst, k);
        if (!callee->is_fused)
            json_array_append_new(called, json_integer(callee->id));
    }
    json_object_set_new(node, "called", called);
    if (inst->op == OP_FUSION) {
        size_t length;
        const char *text =
            computation_print(a, inst_called(inst, 0), PRINT_DEFAULT, &length);
        json_object_set_new(node, "fused", text_json(a, text, length));
    }
}

static json_t *node_json(Arena *a, CostModel *cost, const Module *m,
                         const Instruction *inst)
{
    KernelTime time = cost_kernel(cost, inst);
    double transfer = cost_transfer(cost, inst);
    KernelKind kind = kernel_kind_of(inst);
    json_t *node = json_object(), *operands = json_array();
    for (uint32_t i = 0; i < inst->operand_count; i++)
        json_array_append_new(operands, id_json(inst->operands[i]));
    json_object_set_new(node, "id", id_json(inst));
    json_object_set_new(node, "name", string_json(a, inst->name));
    json_object_set_new(node, "op", json_string(op_info[inst->op].name));
    if (kind != KERNEL_COUNT)
        json_object_set_new(node, "kind", json_string(kernel_kind_name(kind)));
    json_object_set_new(node, "shape", string_json(a, shape_text(a, inst->shape, true)));
    json_object_set_new(node, "operands", operands);
    if (time.seconds > 0 || transfer > 0) {
        KernelLimit limit = transfer > 0 ? LIMIT_LINK : time.limit;
        json_object_set_new(node, "us",
                            json_real((transfer > 0 ? transfer : time.seconds) * 1e6));
        json_object_set_new(node, "limit", json_string(kernel_limit_word(limit)));
        json_object_set_new(node, "bytes", json_real(time.bytes));
    }
    add_metadata(a, node, m, inst);
    add_called(a, node, inst);
    return node;
}

static json_t *computations_json(Arena *a, CostModel *cost, const Module *m)
{
    json_t *all = json_array();
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (comp->is_fused)
            continue;
        json_t *nodes = json_array();
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
            json_array_append_new(nodes, node_json(a, cost, m, inst));
        json_array_append_new(all, json_pack("{s:i, s:o, s:b, s:o}", "id", (int)comp->id,
                                             "name", string_json(a, comp->name), "entry",
                                             comp == m->entry, "nodes", nodes));
    }
    return all;
}

/* -- commands and memory ------------------------------------------------------------------------ */

static json_t *commands_json(Arena *a, const PageSource *s)
{
    size_t count;
    const CodegenCommand *commands = codegen_commands(s->codegen, 0, &count);
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++) {
        const CodegenCommand *c = &commands[i];
        json_t *row = json_pack("{s:o}", "node", id_json(c->inst));
        if (c->kernel != NULL) {
            json_object_set_new(row, "kernel", string_json(a, c->kernel));
            json_object_set_new(
                row, "grid",
                json_pack("[i,i,i]", (int)c->grid[0], (int)c->grid[1], (int)c->grid[2]));
            json_object_set_new(row, "block",
                                json_pack("[i,i,i]", (int)c->block[0], (int)c->block[1],
                                          (int)c->block[2]));
            json_object_set_new(row, "shared", json_integer((json_int_t)c->shared_bytes));
        }
        json_array_append_new(all, row);
    }
    return all;
}

static json_t *memory_json(Arena *a, const Codegen *cg)
{
    json_t *buffers = json_array(), *steps = json_array();
    CodegenBuffer b;
    const char *name;
    for (size_t i = 0; codegen_buffer(cg, 0, i, &b); i++)
        json_array_append_new(
            buffers,
            json_pack("{s:o, s:s, s:i, s:i, s:i, s:I, s:I}", "name",
                      string_json(a, b.name), "kind", b.kind, "allocation",
                      (int)b.allocation, "first", (int)b.first, "last", (int)b.last,
                      "offset", (json_int_t)b.offset, "bytes", (json_int_t)b.bytes));
    for (size_t i = 0; (name = codegen_step(cg, 0, i)) != NULL; i++)
        json_array_append_new(steps, string_json(a, name));
    return json_pack("{s:o, s:o}", "buffers", buffers, "steps", steps);
}

static json_t *page_json(Arena *a, const PageSource *s)
{
    const Module *m = s->module;
    CostModel *cost = cost_create(m, s->target, a);
    size_t count, length;
    const CodegenCommand *commands = codegen_commands(s->codegen, 0, &count);
    KernelReport report = kernel_report_make(m, s->target, cost, commands, count, a);
    const char *text = module_print(a, m, PRINT_DEFAULT, &length);
    json_t *root = json_object();
    json_object_set_new(root, "module", string_json(a, m->name));
    json_object_set_new(root, "target", json_string(s->target->name));
    json_object_set_new(root, "gxc", json_string(GXC_VERSION));
    json_object_set_new(root, "us", json_real(report.seconds * 1e6));
    json_object_set_new(root, "computations", computations_json(a, cost, m));
    json_object_set_new(root, "kernels", kernel_report_json(&report));
    json_object_set_new(root, "commands", commands_json(a, s));
    json_object_set_new(root, "memory", memory_json(a, s->codegen));
    if (s->input != NULL)
        json_object_set_new(root, "input", text_json(a, s->input, s->input_size));
    json_object_set_new(root, "hlo", text_json(a, text, length));
    json_object_set_new(root, "ptx", text_json(a, s->ptx, s->ptx_size));
    return root;
}

/* A script ends at "</script>" and begins a comment at "<!--", whatever it holds. */
static void add_escaped(Text *t, const char *json)
{
    for (; *json != '\0'; json++) {
        if (*json == '<')
            text_string(t, "\\u003c");
        else
            text_char(t, *json);
    }
}

const char *page_html(Arena *a, const PageSource *source, size_t *size)
{
    json_t *root = page_json(a, source);
    char *text = json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(root);
    const char *json = arena_take_text(a, text);
    if (json == NULL)
        return NULL;
    const char *mark = strstr(page_template, PAGE_MARK);
    Text t;
    text_init(&t, a);
    text_add(&t, page_template, (size_t)(mark - page_template));
    add_escaped(&t, json);
    text_string(&t, mark + strlen(PAGE_MARK));
    *size = t.length;
    return t.data;
}
