/* module_compact: the same text from fresh memory, without what was removed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/hlo/parse.h"
#include "ir/base/bug.h"
#include "ir/print/print.h"
#include "tests/unit/shared/module.h"

static const char forms[] =
    "HloModule forms, input_output_alias={ {0}: (0, {}, may-alias) }, buffer_donor={ (1, "
    "{}) }, "
    "frontend_attributes={k=\"v\"}, num_partitions=8\n\n"
    "FileNames\n1 \"a.py\"\n2 \"b.py\"\n\nFunctionNames\n1 \"f\"\n2 "
    "\"g\"\n\nFileLocations\n"
    "1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=4 end_column=5}\n"
    "2 {file_name_id=2 function_name_id=2 line=7 end_line=7 column=8 end_column=9}\n\n"
    "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n"
    "2 {file_location_id=2 parent_frame_id=1}\n\n\n"
    "add {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
    "  ROOT s = f32[] add(x, y)\n}\n\n"
    "one {\n  p = f32[8,8] parameter(0)\n  ROOT n = f32[8,8] negate(p)\n}\n\n"
    "two {\n  p = f32[8,8] parameter(0)\n  ROOT n = f32[8,8] abs(p)\n}\n\n"
    "ENTRY e {\n"
    "  a = f32[8,8]{0,1} parameter(0), sharding={mesh['x'=2,'y'=4], [{'x'}, {'y':(2)2, "
    "?}]}\n"
    "  b = f32[8,8]{1,0:T(8,128)S(1)} parameter(1), sharding={devices=[2,4]<=[8]}\n"
    "  i = s32[] parameter(2), sharding={replicated}\n"
    "  z = f32[] constant(0)\n  f = f32[] constant(1.5)\n"
    "  l = s32[2,2]{0,1} constant({{1, 2}, {3, 4}})\n  k = f32[3,3,2,2] constant({...})\n"
    "  u = (f32[], (s32[2])) constant((1, ({2, 3})))\n"
    "  c = f32[8,8] copy(b), metadata={op_type=\"t\" op_name=\"n\" source_file=\"a.py\" "
    "source_line=3 stack_frame_id=2}, origin={{\"c\"}}\n"
    "  g = f32[8,8] all-to-all(c), channel_id=1, replica_groups=mesh['x'=2,'y'=4] {'x'}, "
    "dimensions={0}, control-predecessors={l}\n"
    "  h = f32[8,8] all-reduce(g), channel_id=2, replica_groups=[4,2]<=[2,4]T(1,0), "
    "use_global_device_ids=true, to_apply=add\n"
    "  j = f32[8,8] collective-permute(h), channel_id=3, "
    "source_target_pairs={{0,1},{1,0}}\n"
    "  m = f32[8,8] conditional(i, j, j), branch_computations={one, two}\n"
    "  q = f32[8] reduce(m, z), dimensions={1}, to_apply=add\n"
    "  w = f32[1,4,8,2] reshape(m)\n"
    "  v = f32[1,4,8,2] convolution(w, k), window={size=3x3 pad=1_1x1_1}, "
    "dim_labels=b01f_01io->b01f\n"
    "  o = f32[10,8] pad(m, z), padding=1_1x0_0\n"
    "  r = f32[4,8] slice(o), slice={[0:8:2], [0:8]}, "
    "frontend_attributes={a=\"1\",b=\"2\"}\n"
    "  s = f32[8,8] custom-call(r), custom_call_target=\"t\", "
    "operand_layout_constraints={f32[4,8]{1,0}}, backend_config=\"text\", "
    "output_to_operand_aliasing={}\n"
    "  d = f32[8,8] domain(s), domain={kind=\"sharding\", entry={maximal device=0}, "
    "exit={maximal device=1}}\n"
    "  x = f32[8,8] dot(d, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "operand_precision={high,default}, statistics={visualizing_index=0,graph=0.5}\n"
    "  y = f32[8,8] exponential(x), "
    "result_accuracy={tolerance={atol=0.5,rtol=0,ulps=1}}\n"
    "  ROOT t = (f32[8,8], f32[8], f32[1,4,8,2], s32[2,2]{0,1}, (f32[], (s32[2])), "
    "f32[]) "
    "tuple(y, q, v, l, u, f)\n}\n";

typedef struct Fixture {
    Arena *diag, *arena;
    Module *m;
} Fixture;

static Fixture read_text(const char *text)
{
    Fixture f = {.diag = arena_create(), .arena = arena_create()};
    Diag *d = diag_create(f.diag, "test", text, strlen(text));
    f.m = hlo_parse(f.arena, d);
    if (f.m == NULL)
        fail_msg("%s", diag_render(d, false));
    return f;
}

static void finish(Fixture f)
{
    arena_destroy(f.arena);
    arena_destroy(f.diag);
}

static const char *print(const Fixture *f)
{
    size_t length;
    return module_print(f->diag, f->m, PRINT_LONG, &length);
}

static void every_form_is_kept(void **state)
{
    (void)state;
    Fixture f = read_text(forms);
    const char *before = print(&f);
    module_compact(f.m);
    assert_string_equal(print(&f), before);
    module_compact(f.m);
    assert_string_equal(print(&f), before);
    finish(f);
}

static Instruction *find(const Fixture *f, const char *name)
{
    const Computation *comp = f->m->entry;
    for (uint32_t i = 0; i < comp->instruction_count; i++) {
        if (strcmp(comp->instructions[i]->name, name) == 0)
            return comp->instructions[i];
    }
    fail_msg("no %s", name);
    return NULL;
}

static void what_was_removed_goes_and_names_stay_taken(void **state)
{
    (void)state;
    Fixture f = read_text("HloModule m\nENTRY e {\n  a = f32[4] parameter(0)\n"
                          "  b = f32[4] negate(a)\n  c = f32[4] negate(b)\n"
                          "  ROOT d = f32[4] add(a, a)\n}\n");
    for (int i = 0; i < 10000; i++)
        computation_remove(f.m->entry, computation_add_like(f.m->entry, find(&f, "b"),
                                                            find(&f, "b")->shape, 1,
                                                            f.m->entry->parameters));
    computation_remove(f.m->entry, find(&f, "c"));
    Instruction *b = find(&f, "b");
    computation_remove(f.m->entry, b);
    size_t bytes = arena_bytes(f.arena);
    module_compact(f.m);
    assert_in_range(arena_bytes(f.arena), 1, bytes / 20);
    const Computation *comp = f.m->entry;
    assert_int_equal(comp->instruction_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(comp->instructions[i]->id, i);
        assert_ptr_equal(comp->instructions[i], comp->instructions[0] + i);
    }
    assert_ptr_equal(comp->root->operands[1], comp->parameters[0]);
    assert_ptr_equal(comp->parameters[0]->shape, comp->root->shape);
    assert_string_equal(module_unique_name(f.m, "b"), "b.10001");
    assert_string_equal(module_unique_name(f.m, "b.77"), "b.10002");
    assert_string_equal(module_unique_computation_name(f.m, "e"), "e.1");
    finish(f);
}

static void large_literals_are_handed_over(void **state)
{
    (void)state;
    Fixture f = read_text("HloModule m\nENTRY e {\n  ROOT a = f32[1] constant({1})\n}\n");
    Module *m = f.m;
    const Shape *s = shape_array(m->intern, DT_F32, 1, (int64_t[]){1000000}, NULL, NULL);
    Literal *l = literal_create(m->arena, s);
    literal_set_double(l, 999999, 3);
    Instruction *a = computation_add_constant(m->entry, l, "large");
    Instruction *b = computation_add_constant(m->entry, l, "again");
    const void *data = l->data;
    computation_remove(m->entry, m->entry->root);
    m->entry->root = a;
    module_compact(m);
    a = find(&f, "large");
    b = find(&f, "again");
    assert_ptr_equal(a->literal, b->literal);
    assert_ptr_equal(a->literal->data, data);
    assert_true(literal_double(a->literal, 999999) > 2);
    finish(f);
}

static void a_module_in_its_diags_arena_stays(void **state)
{
    (void)state;
    Arena *a = arena_create();
    const char *text = "HloModule m\nENTRY e {\n  ROOT a = f32[4] parameter(0)\n}\n";
    Module *m = parse_module(a, text);
    const Instruction *root = m->entry->root;
    module_compact(m);
    assert_ptr_equal(m->entry->root, root);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_kept),
        cmocka_unit_test(what_was_removed_goes_and_names_stay_taken),
        cmocka_unit_test(large_literals_are_handed_over),
        cmocka_unit_test(a_module_in_its_diags_arena_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
