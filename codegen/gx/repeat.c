/* See repeat.h. A comment in the loop's block says how often it runs; behind LLVM the block's text is written so
 * many times, without the jump back. Registers of PTX may be assigned many times, so no name changes. A block that
 * LLVM made something else of stays the loop that it is. */
#include "codegen/gx/repeat.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/gx/call.h"
#include "ir/base/text.h"

void gx_repeat_begin(Kernel *k, GxRepeat *r, uint32_t count, LLVMValueRef *carried,
                     unsigned carried_count)
{
    LLVMBuilderRef b = k->builder;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMValueRef first = gx_i32(k, 0), args[] = {gx_i32(k, count)};
    *r = (GxRepeat){.carried = carried,
                    .carried_count = carried_count,
                    .count = count,
                    .phi = ARENA_ARRAY(k->arena, LLVMValueRef, carried_count + 1),
                    .body = gx_block(k, "repeat")};
    LLVMBuildBr(b, r->body);
    LLVMPositionBuilderAtEnd(b, r->body);
    r->index = LLVMBuildPhi(b, LLVMTypeOf(first), "i");
    LLVMAddIncoming(r->index, &first, &before, 1);
    for (unsigned i = 0; i < carried_count; i++) {
        r->phi[i] = LLVMBuildPhi(b, LLVMTypeOf(carried[i]), "");
        LLVMAddIncoming(r->phi[i], &carried[i], &before, 1);
        carried[i] = r->phi[i];
    }
    gx_call(k, ROW_REPEAT, NULL, NULL, LLVMVoidTypeInContext(k->context), args, 1);
}

void gx_repeat_end(Kernel *k, GxRepeat *r, const LLVMValueRef *next)
{
    LLVMBuilderRef b = k->builder;
    LLVMBasicBlockRef done = gx_block(k, "done");
    LLVMValueRef index = gx_hide_step(k, LLVMBuildNSWAdd(b, r->index, gx_i32(k, 1), ""));
    LLVMAddIncoming(r->index, &index, &r->body, 1);
    for (unsigned i = 0; i < r->carried_count; i++) {
        LLVMValueRef value = next[i];
        LLVMAddIncoming(r->phi[i], &value, &r->body, 1);
        r->carried[i] = value;
    }
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, index, gx_i32(k, r->count), ""),
                    r->body, done);
    LLVMPositionBuilderAtEnd(b, done);
}

/* -- text -------------------------------------------------------------------------------------------- */

static const char label[] = "$L__BB", mark[] = "\t// repeat ";

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static const char *next_line(const char *p)
{
    p += strcspn(p, "\n");
    return p + (*p == '\n');
}

static bool is_jump(const char *line)
{
    const char *end = next_line(line), *jump = strstr(line, "bra");
    return *line == '\t' && jump != NULL && jump < end;
}

/* The jump that ends the block whose label is at `head`, to which it goes if its condition holds; NULL: the block
 * ends otherwise. */
static const char *jump_back(const char *head, const char *line)
{
    size_t length = strcspn(head, ":");
    while (*line != '\0' && !starts_with(line, "$L__") && !is_jump(line))
        line = next_line(line);
    if (!starts_with(line, "\t@%"))
        return NULL;
    const char *to = strstr(line, label), *end = next_line(line);
    bool is_back =
        to != NULL && to < end && strncmp(to, head, length) == 0 && to[length] == ';';
    return is_back ? line : NULL;
}

/* The line of the label before `p`, which lies behind `first`; NULL: there is none. */
static const char *label_before(const char *first, const char *p)
{
    while (p > first) {
        for (p--; p > first && p[-1] != '\n';)
            p--;
        if (starts_with(p, label))
            return p;
    }
    return NULL;
}

const char *ptx_write_out(Arena *a, const char *ptx)
{
    static const char before[] = "\t// begin inline asm\n",
                      behind[] = "\t// end inline asm\n";
    const char *from = ptx;
    Text t;
    text_init(&t, a);
    for (const char *p = ptx; (p = strstr(p, mark)) != NULL;) {
        const char *head = label_before(from, p), *first = p - (sizeof before - 1),
                   *rest = next_line(p) + (sizeof behind - 1);
        unsigned long count = strtoul(p + sizeof mark - 1, NULL, 10);
        const char *end = head != NULL ? jump_back(head, rest) : NULL;
        p = rest;
        if (end == NULL)
            continue;
        const char *body = next_line(head);
        text_add(&t, from, (size_t)(body - from));
        for (unsigned long i = 0; i < count; i++) {
            text_add(&t, body, (size_t)(first - body));
            text_add(&t, rest, (size_t)(end - rest));
        }
        p = from = next_line(end);
    }
    if (from == ptx)
        return ptx;
    text_string(&t, from);
    return t.data;
}
