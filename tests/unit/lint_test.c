/* What passes must keep: the lint finds each loss, and nothing where nothing is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/attribute/config.h"
#include "ir/base/bug.h"
#include "passes/lint.h"

/* p; first = negate(p); sum = all-reduce(p) after first; last = negate(p) after sum. */
typedef struct Fixture {
    Arena *arena;
    Module *module;
    Computation *comp;
    Instruction *p, *first, *sum, *last;
} Fixture;

static Bytes text(const char *s)
{
    return (Bytes){s, strlen(s)};
}

static void note(Instruction *inst, const char *name, const char *key)
{
    Arena *a = inst->parent->module->arena;
    Metadata *m = ARENA_NEW(a, Metadata);
    m->op_name = text(name);
    inst_set(inst, (Attr){.id = ATTR_METADATA, .metadata = m});
    DictEntry *entry = ARENA_NEW(a, DictEntry);
    *entry = (DictEntry){.key = key, .value = text("1")};
    Dict *dict = ARENA_NEW(a, Dict);
    *dict = (Dict){1, entry};
    inst_set(inst, (Attr){.id = ATTR_FRONTEND_ATTRIBUTES, .dict = dict});
    config_set_text(inst, "{}", 2);
}

static void wait_for(Instruction *inst, Instruction *before)
{
    inst->control = ARENA_ARRAY(inst->parent->module->arena, Instruction *, 1);
    inst->control[0] = before;
    inst->control_count = 1;
}

static Instruction *add(Fixture *f, OpCode op, const char *name)
{
    return computation_add(f->comp, op, f->p->shape, 1, &f->p, name);
}

static void setup(Fixture *f)
{
    f->arena = arena_create();
    f->module = module_create(f->arena, diag_create(f->arena, "test", NULL, 0), "test");
    f->comp = f->module->entry = module_add_computation(f->module, "main");
    f->p = computation_add_parameter(
        f->comp, 0, shape_array(f->module->intern, DT_F32, 1, &(int64_t){4}, NULL, NULL),
        "p");
    f->first = add(f, OP_NEGATE, "first");
    f->sum = add(f, OP_ALL_REDUCE, "sum");
    f->last = add(f, OP_NEGATE, "last");
    f->comp->root = f->last;
    note(f->sum, "net/sum", "mark");
    wait_for(f->sum, f->first);
    wait_for(f->last, f->sum);
}

/* Another all-reduce in the place of `sum`. */
static Instruction *replace(Fixture *f, bool keeps_notes, bool keeps_before,
                            bool keeps_after)
{
    Instruction *made = add(f, OP_ALL_REDUCE, "made");
    if (keeps_notes)
        note(made, "all/of/sum", "mark");
    if (keeps_before)
        wait_for(made, f->first);
    f->last->control_count = 0;
    if (keeps_after)
        wait_for(f->last, made);
    computation_remove(f->comp, f->sum);
    return made;
}

/* The message of the lint after `change`; "": none. */
static const char *lint_after(void (*change)(Fixture *f))
{
    static char message[2048];
    Fixture f;
    setup(&f);
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        Lint *before = lint_begin(f.module, f.arena);
        change(&f);
        lint_check(before, f.module, "test");
    }
    escape_pop(&e);
    strcpy(message, e.kind == ESCAPE_NONE ? "" : e.message);
    arena_destroy(f.arena);
    return message;
}

static void nothing(Fixture *f)
{
    (void)f;
}

static void all_kept(Fixture *f)
{
    replace(f, true, true, true);
}

static void removed(Fixture *f)
{
    f->last->control_count = 0;
    computation_remove(f->comp, f->sum);
}

/* The edge goes by way of another instruction. */
static void longer_way(Fixture *f)
{
    Instruction *between = add(f, OP_NEGATE, "between");
    wait_for(between, f->first);
    wait_for(f->sum, between);
}

static void no_metadata(Fixture *f)
{
    inst_unset(f->sum, ATTR_METADATA);
}

static void no_config(Fixture *f)
{
    config_set_text(f->sum, "", 0);
}

static void no_mark(Fixture *f)
{
    inst_unset(f->sum, ATTR_FRONTEND_ATTRIBUTES);
}

static void no_edge(Fixture *f)
{
    f->sum->control_count = 0;
}

static void no_notes(Fixture *f)
{
    replace(f, false, true, true);
}

static void no_mark_of_new(Fixture *f)
{
    inst_unset(replace(f, true, true, true), ATTR_FRONTEND_ATTRIBUTES);
}

static void too_early(Fixture *f)
{
    replace(f, true, false, true);
}

static void not_waited_for(Fixture *f)
{
    Instruction *made = replace(f, true, true, false);
    (void)made;
    wait_for(f->last, f->sum);
}

/* rows: collectives.D3 */
static void kept(void **state)
{
    (void)state;
    assert_string_equal(lint_after(nothing), "");
    assert_string_equal(lint_after(all_kept), "");
    assert_string_equal(lint_after(removed), "");
    assert_string_equal(lint_after(longer_way), "");
}

/* rows: collectives.D3 (edge: each thing that may be lost) */
static void lost(void **state)
{
    (void)state;
    assert_non_null(strstr(lint_after(no_metadata), "took the metadata of sum away"));
    assert_non_null(strstr(lint_after(no_config), "took the backend_config of sum away"));
    assert_non_null(
        strstr(lint_after(no_mark), "took the frontend attribute mark of sum away"));
    assert_non_null(strstr(lint_after(no_edge), "sum need no longer wait for first"));
    assert_non_null(strstr(lint_after(no_notes), "nothing has the op_name of sum"));
    assert_non_null(
        strstr(lint_after(no_mark_of_new), "nothing has the frontend attribute mark"));
    assert_non_null(strstr(lint_after(too_early), "made of sum does not wait for first"));
    assert_non_null(
        strstr(lint_after(not_waited_for), "last waits for nothing that test made of"));
}

/* -- what is left out ------------------------------------------------------------------------ */

static bool says_nothing(Module *m, PassContext *cx)
{
    (void)m;
    (void)cx;
    return false;
}

static bool says_changed(Module *m, PassContext *cx)
{
    (void)m;
    (void)cx;
    return true;
}

static bool changes_in_silence(Module *m, PassContext *cx)
{
    (void)cx;
    inst_unset(m->entry->root->operands[0], ATTR_TO_APPLY);
    m->entry->root->op = OP_ABS;
    return false;
}

static bool counts_in_silence(Module *m, PassContext *cx)
{
    (void)m;
    cx->counts.scaled_dots_fused++;
    return false;
}

static bool refuses(Module *m, PassContext *cx)
{
    (void)cx;
    diag_error(m->diag, (Span){0, 0}, "no");
    return false;
}

/* Whether the lint objects to leaving the pass out. */
static bool objects_to(PassFn *pass)
{
    Fixture f;
    setup(&f);
    f.module->config.entry_result = f.last->shape;
    PassContext cx = {.scratch = f.arena, .lint = true};
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0)
        lint_idle("test", pass, f.module, &cx);
    escape_pop(&e);
    bool found =
        e.kind != ESCAPE_NONE && strstr(e.message, "test is left out, and would") != NULL;
    arena_destroy(f.arena);
    return found;
}

static void left_out(void **state)
{
    (void)state;
    assert_false(objects_to(says_nothing));
    assert_true(objects_to(says_changed));
    assert_true(objects_to(changes_in_silence));
    assert_true(objects_to(counts_in_silence));
    assert_true(objects_to(refuses));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept), cmocka_unit_test(lost),
                                       cmocka_unit_test(left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
