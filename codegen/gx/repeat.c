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

static const char label[] = "$L__BB", mark[] = "\t// begin inline asm\n\t// repeat ",
                  mark_end[] = "\t// end inline asm\n";

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static const char *next_line(const char *p)
{
    p += strcspn(p, "\n");
    return p + (*p == '\n');
}

/* "bra" as an opcode, behind a predicate or not: names may have these letters, too. */
static bool is_jump(const char *line)
{
    if (*line++ != '\t')
        return false;
    if (*line == '@')
        line += strcspn(line, " \n");
    line += *line == ' ';
    return starts_with(line, "bra") && strchr(".\t ", line[3]) != NULL;
}

/* The first label, jump or mark from `line` on, or the end. */
static const char *block_end(const char *line)
{
    while (*line != '\0' && !starts_with(line, "$L__") && !is_jump(line) &&
           !starts_with(line, mark))
        line = next_line(line);
    return line;
}

/* The jump that ends the block whose label is at `head`, to which it goes if its condition holds, when the mark at `at` is
 * the only one in it; NULL: the block is another one. */
static const char *jump_back(const char *head, const char *at, const char *after)
{
    size_t length = strcspn(head, ":");
    if (block_end(next_line(head)) != at)
        return NULL;
    const char *line = block_end(after);
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
    const char *from = ptx;
    Text t;
    text_init(&t, a);
    for (const char *p = ptx; (p = strstr(p, mark)) != NULL;) {
        const char *head = label_before(from, p), *at = p,
                   *after = next_line(next_line(p));
        unsigned long count = strtoul(p + sizeof mark - 1, NULL, 10);
        p = after;
        if (head == NULL || !starts_with(after, mark_end))
            continue;
        p = after = next_line(after);
        const char *end = jump_back(head, at, after);
        if (end == NULL)
            continue;
        const char *body = next_line(head);
        text_add(&t, from, (size_t)(body - from));
        for (unsigned long i = 0; i < count; i++) {
            text_add(&t, body, (size_t)(at - body));
            text_add(&t, after, (size_t)(end - after));
        }
        p = from = next_line(end);
    }
    if (from == ptx)
        return ptx;
    text_string(&t, from);
    return t.data;
}
