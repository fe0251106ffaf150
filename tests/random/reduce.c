/* Shrinks a failing module: other roots, operations replaced by parameters or operands, smaller
 * dimensions, as long as the verdict stays and the message begins in the same way. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/hlo/parse.h"
#include "ir/base/bug.h"
#include "ir/print/print.h"
#include "ir/verify/verify.h"
#include "passes/simplify/simplify.h"
#include "tests/random/random.h"
#include "tests/random/tolerance.h"

typedef struct Reduction {
    char *text; /* the best so far */
    uint64_t data;
    int level;
    Verdict verdict;
    char message[64];
    int tries;
} Reduction;

enum { MOST_TRIES = 1500 };

/* Numbers and what is quoted after them differ while a module shrinks. */
static void start_of(const char *message, char out[64])
{
    size_t n = 0;
    const char *colon = strstr(message, ": error: ");
    message = colon != NULL ? colon + 9 : message;
    while (n < 63 && message[n] != '\0' && message[n] != '\n' &&
           !isdigit((unsigned char)message[n]) && message[n] != '"')
        n++;
    memcpy(out, message, n);
    out[n] = '\0';
}

/* Takes `text` (owned) if it is smaller and fails as before. */
static bool offer(Reduction *r, char *text)
{
    char message[2048];
    char start[64];
    if (text == NULL || strcmp(text, r->text) == 0 || r->tries++ > MOST_TRIES) {
        free(text);
        return false;
    }
    Verdict v = check_apart(text, r->data, r->level, 20, message, sizeof message);
    start_of(message, start);
    if (v != r->verdict || (v != VERDICT_DEAD && strcmp(start, r->message) != 0)) {
        free(text);
        return false;
    }
    free(r->text);
    r->text = text;
    return true;
}

/* -- on modules -------------------------------------------------------------------------------- */

typedef bool Change(Module *m, int number); /* false: there are fewer */

static Instruction *nth(Module *m, int number)
{
    for (uint32_t c = m->computation_count; c-- > 0;) {
        Computation *comp = m->computations[c];
        for (uint32_t i = comp ? comp->instruction_count : 0; i-- > 0;) {
            if (comp->instructions[i] != NULL && number-- == 0)
                return comp->instructions[i];
        }
    }
    return NULL;
}

static void set_entry_layout(Module *m)
{
    Computation *e = m->entry;
    const Shape **shapes = ARENA_ARRAY(m->arena, const Shape *, e->parameter_count + 1u);
    for (uint32_t i = 0; i < e->parameter_count; i++)
        shapes[i] = e->parameters[i]->shape;
    m->config.entry_parameter_count = e->parameter_count;
    m->config.entry_parameters = shapes;
    m->config.entry_result = e->root->shape;
}

static bool make_root(Module *m, int number)
{
    uint32_t n = m->entry->instruction_count;
    if ((uint32_t)number >= n)
        return false;
    Instruction *inst = m->entry->instructions[number];
    if (inst != NULL && inst->op != OP_PARAMETER && inst != m->entry->root)
        m->entry->root = inst;
    return true;
}

static bool use_parameter(Module *m, int number)
{
    Instruction *inst = nth(m, number);
    if (inst == NULL)
        return false;
    if (inst->parent != m->entry || inst->op == OP_PARAMETER ||
        !shape_is_array(inst->shape) || inst == m->entry->root)
        return true;
    Instruction *p =
        computation_add_parameter(m->entry, m->entry->parameter_count, inst->shape, "p");
    computation_replace_one(m->entry, inst, p);
    return true;
}

static bool use_operand(Module *m, int number, uint32_t which)
{
    Instruction *inst = nth(m, number);
    if (inst == NULL)
        return false;
    if (which < inst->operand_count &&
        shape_compatible(inst->operands[which]->shape, inst->shape))
        computation_replace_one(inst->parent, inst, inst->operands[which]);
    return true;
}

static bool use_operand_0(Module *m, int number)
{
    return use_operand(m, number, 0);
}

static bool use_operand_1(Module *m, int number)
{
    return use_operand(m, number, 1);
}

static bool use_constant(Module *m, int number)
{
    Instruction *inst = nth(m, number);
    if (inst == NULL)
        return false;
    if (inst->op == OP_PARAMETER || inst->op == OP_CONSTANT ||
        !shape_is_array(inst->shape) || inst->shape->rank != 0)
        return true;
    Instruction *one = computation_add_scalar(inst->parent, inst->shape->dtype, 1);
    computation_replace_one(inst->parent, inst, one);
    return true;
}

/* Parameters of the entry that nobody reads go, the others are numbered again. */
static void drop_parameters(Module *m)
{
    Computation *e = m->entry;
    Uses uses = uses_compute(e, m->arena);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < e->parameter_count; i++) {
        Instruction *p = e->parameters[i];
        if (uses.start[p->id] == uses.start[p->id + 1] && p != e->root) {
            computation_remove(e, p);
            continue;
        }
        p->parameter = kept;
        e->parameters[kept++] = p;
    }
    e->parameter_count = kept;
}

/* What the generator says of values: its length. */
static size_t first_line(const char *text)
{
    if (strncmp(text, INEXACT_LINE, strlen(INEXACT_LINE)) != 0)
        return 0;
    return strcspn(text, "\n") + 1;
}

static char *changed_text(const char *text, Change *change, int number, bool *more)
{
    char *volatile out = NULL;
    *more = false;
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        Arena *a = arena_scratch();
        Diag *d = diag_create(a, "reduced.hlo", text, strlen(text));
        Module *m = hlo_parse(a, d);
        if (m != NULL && change(m, number)) {
            *more = true;
            PassContext cx = {.scratch = a};
            pass_dce(m, &cx);
            computation_compact(m->entry);
            drop_parameters(m);
            computation_compact(m->entry);
            module_sort(m);
            set_entry_layout(m);
            out = strdup(arena_printf(a, "%.*s%s", (int)first_line(text), text,
                                      module_print(a, m, PRINT_DEFAULT, NULL)));
        }
        arena_destroy(a);
    }
    escape_pop(&e);
    return out;
}

static bool try_changes(Reduction *r, Change *change)
{
    bool any = false;
    bool more = true;
    for (int i = 0; more && r->tries < MOST_TRIES; i++) {
        char *text = changed_text(r->text, change, i, &more);
        if (offer(r, text)) {
            any = true;
            i = i > 0 ? i - 1 : -1;
        }
    }
    return any;
}

/* -- on text ----------------------------------------------------------------------------------- */

/* Every whole number `from` becomes `to`. */
static char *renumbered(const char *text, int64_t from, int64_t to)
{
    size_t size = strlen(text);
    char *out = malloc(size * 2 + 1);
    char *at = out;
    for (const char *s = text; *s != '\0';) {
        bool starts = isdigit((unsigned char)*s) &&
                      (s == text ||
                       (!isalnum((unsigned char)s[-1]) && s[-1] != '.' && s[-1] != '_'));
        starts |= isdigit((unsigned char)*s) && s > text && s[-1] == 'x';
        if (!starts) {
            *at++ = *s++;
            continue;
        }
        char *end;
        int64_t n = strtoll(s, &end, 10);
        if (n == from && !isalpha((unsigned char)*end) && *end != '.')
            at += sprintf(at, "%lld", (long long)to);
        else
            at += sprintf(at, "%.*s", (int)(end - s), s);
        s = end;
    }
    *at = '\0';
    return out;
}

static bool shrink_dims(Reduction *r)
{
    bool any = false;
    for (int64_t n = 64; n > 1; n--) {
        int64_t smaller[] = {1, 2, n / 2, n - 1};
        for (int i = 0; i < 4 && r->tries < MOST_TRIES; i++) {
            if (smaller[i] < n && offer(r, renumbered(r->text, n, smaller[i]))) {
                any = true;
                break;
            }
        }
    }
    return any;
}

char *reduce_module(const char *text, uint64_t data, int level, Verdict verdict,
                    const char *message)
{
    static Change *const changes[] = {make_root, use_parameter, use_operand_0,
                                      use_operand_1, use_constant};
    Reduction r = {
        .text = strdup(text), .data = data, .level = level, .verdict = verdict};
    start_of(message, r.message);
    bool any = true;
    while (any && r.tries < MOST_TRIES) {
        any = false;
        for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
            any |= try_changes(&r, changes[i]);
        any |= shrink_dims(&r);
    }
    return r.text;
}
