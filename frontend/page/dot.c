/* --emit=dot. See page.h. */
#include "frontend/page/page.h"
#include "ir/base/text.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/time/work.h"

enum { LABEL_MOST = 60 }; /* characters of a shape */

static void add_quoted(Text *t, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            text_char(t, '\\');
        text_char(t, *text);
    }
}

static void add_id(Text *t, const Instruction *inst)
{
    text_printf(t, "n%u_%u", inst->parent->id, inst->id);
}

static void add_node(Text *t, Arena *a, CostModel *cost, const Instruction *inst)
{
    KernelKind kind = kernel_kind_of(inst);
    double us = (cost_transfer(cost, inst) + cost_kernel(cost, inst).seconds) * 1e6;
    bool works = us > 0;
    text_string(t, "    ");
    add_id(t, inst);
    text_string(t, " [label=\"");
    add_quoted(t, inst->name);
    text_printf(t, "\\n%s\\n%.*s",
                kind != KERNEL_COUNT ? kernel_kind_name(kind) : op_info[inst->op].name,
                LABEL_MOST, shape_text(a, inst->shape, false));
    if (works)
        text_printf(t, "\\n%.2f us", us);
    text_printf(t, "\"%s];\n", works ? ", style=filled, fillcolor=\"#cfe3f7\"" : "");
}

static void add_edges(Text *t, const Instruction *inst)
{
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        text_string(t, "    ");
        add_id(t, inst->operands[i]);
        text_string(t, " -> ");
        add_id(t, inst);
        text_string(t, ";\n");
    }
    for (uint32_t k = 0; inst->op != OP_FUSION && k < inst_called_count(inst); k++) {
        const Computation *callee = inst_called(inst, k);
        if (callee->is_fused || callee->root == NULL)
            continue;
        text_string(t, "    ");
        add_id(t, callee->root);
        text_string(t, " -> ");
        add_id(t, inst);
        text_string(t, " [style=dashed];\n");
    }
}

const char *page_dot(Arena *a, const Module *m, const Target *target, size_t *size)
{
    Text t;
    CostModel *cost = cost_create(m, target, a);
    text_init(&t, a);
    text_string(&t, "digraph \"");
    add_quoted(&t, m->name);
    text_string(&t, "\" {\n  node [shape=box, fontname=\"monospace\", fontsize=10];\n");
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (comp->is_fused)
            continue;
        text_printf(&t, "  subgraph cluster_%u {\n    label=\"", comp->id);
        add_quoted(&t, comp->name);
        text_string(&t, "\";\n");
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
            add_node(&t, a, cost, inst);
        text_string(&t, "  }\n");
    }
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst && !comp->is_fused;
             inst = inst_next(inst))
            add_edges(&t, inst);
    }
    text_string(&t, "}\n");
    *size = t.length;
    return t.data;
}
