/* gxc_explain: the row of an opcode, its shapes and types, and an example. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/gxc.h"
#include "ir/op_functions.h"

static const struct {
    InferFn *infer;
    const char *operands, *result;
} rules[] = {
#define RULE(infer, operands, result) {infer_##infer, operands, result},
#include "frontend/report/explain.def"
};

static const char *const examples[OP_COUNT] = {
#define EXAMPLE(id, text) [OP_##id] = text,
#include "frontend/report/explain.def"
};

static void explain_attribute(FILE *f, const OpAttr *a)
{
    static const char *const kinds[] = {[ATTR_REQUIRED] = "required",
                                        [ATTR_OPTIONAL] = "optional",
                                        [ATTR_SHOWN] = "optional",
                                        [ATTR_ACCEPTED] = "accepted and dropped"};
    const AttrInfo *info = &attr_info[a->id];
    fprintf(f, "  %-30s %-10s %s\n", info->name, kinds[a->rule], info->doc);
    for (size_t i = 0; info->names != NULL && info->names[i] != NULL; i++)
        fprintf(f, "%s%s", i == 0 ? "      one of " : ", ", info->names[i]);
    if (info->names != NULL)
        fputc('\n', f);
}

static void explain_shapes(FILE *f, const OpInfo *info)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].infer != info->infer)
            continue;
        fprintf(f, "types and shapes: %s\n", rules[i].operands);
        fprintf(f, "result: %s\n", rules[i].result);
    }
}

char *gxc_explain(const char *opcode)
{
    OpCode op = opcode != NULL ? op_find(opcode, strlen(opcode)) : OP_COUNT;
    char *text = NULL;
    size_t size;
    FILE *f = op == OP_COUNT ? NULL : open_memstream(&text, &size);
    if (f == NULL)
        return NULL;
    const OpInfo *info = &op_info[op];
    fprintf(f, "%s: %s\n", info->name, info->doc);
    if (info->arity >= 0)
        fprintf(f, "operands: %d\n", info->arity);
    else
        fprintf(f, "operands: any number\n");
    explain_shapes(f, info);
    fprintf(f, "result shape: %s%s\n",
            op_is(op, OPF_INFERABLE) ? "may be left out" : "must be written",
            op_is(op, OPF_RECOMPUTED)
                ? "; what follows from the operands is taken from them"
                : "");
    if (info->attrs[0].id != ATTR_COUNT)
        fprintf(f, "attributes:\n");
    for (const OpAttr *a = info->attrs; a->id != ATTR_COUNT; a++)
        explain_attribute(f, a);
    fprintf(f, "example:\n\n%s", examples[op]);
    fclose(f);
    return text;
}
