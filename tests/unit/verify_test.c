/* The verifier finds what no text can say: modules that a pass has broken, each in one way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/verify/verify.h"
#include "tests/unit/shared/module.h"

static const char text[] = "HloModule m\n"
                           "f {\n  p = f32[4] parameter(0)\n"
                           "  ROOT q = f32[4] negate(p)\n}\n"
                           "g {\n  s = f32[4] parameter(0)\n"
                           "  ROOT t = f32[4] call(s), to_apply=f\n}\n"
                           "ENTRY e {\n  a = f32[4] parameter(0)\n"
                           "  b = f32[4] negate(a)\n"
                           "  c = f32[4] abs(b)\n"
                           "  ROOT d = f32[4] call(c), to_apply=g\n}\n";

static Computation *computation(Module *m, const char *name)
{
    for (uint32_t i = 0; i < m->computation_count; i++)
        if (m->computations[i] != NULL && strcmp(m->computations[i]->name, name) == 0)
            return m->computations[i];
    fail_msg("no computation %s", name);
    return NULL;
}

static Instruction *instruction(Module *m, const char *name)
{
    for (uint32_t i = 0; i < m->computation_count; i++) {
        Computation *comp = m->computations[i];
        for (uint32_t k = 0; comp != NULL && k < comp->instruction_count; k++)
            if (comp->instructions[k] != NULL &&
                strcmp(comp->instructions[k]->name, name) == 0)
                return comp->instructions[k];
    }
    fail_msg("no instruction %s", name);
    return NULL;
}

static void wrong_id(Module *m)
{
    instruction(m, "b")->id = 7;
}

static void no_shape(Module *m)
{
    instruction(m, "b")->shape = NULL;
}

static void other_computation(Module *m)
{
    instruction(m, "c")->operands[0] = instruction(m, "p");
}

static void wrong_parameter(Module *m)
{
    instruction(m, "a")->parameter = 3;
}

static void more_parameters(Module *m)
{
    computation(m, "f")->parameter_count = 2;
}

static void no_root(Module *m)
{
    computation(m, "f")->root = NULL;
}

static void operands_later(Module *m)
{
    instruction(m, "b")->operands[0] = instruction(m, "c");
    instruction(m, "c")->operands[0] = instruction(m, "a");
    m->config.is_scheduled = true;
}

static void cycle(Module *m)
{
    instruction(m, "b")->operands[0] = instruction(m, "c");
}

static void removed_callee(Module *m)
{
    m->computations[computation(m, "f")->id] = NULL;
}

static void calls_in_a_cycle(Module *m)
{
    inst_set_called(instruction(m, "t"), 0, computation(m, "g"));
}

static void one_name(Module *m)
{
    instruction(m, "b")->name = instruction(m, "q")->name;
}

static void no_entry(Module *m)
{
    m->entry = NULL;
}

static const struct {
    void (*damage)(Module *m);
    const char *words;
} cases[] = {
    {wrong_id, "b (negate): its id is not its index"},
    {no_shape, "b (negate): has no shape"},
    {other_computation, "operand or control predecessor 0 is not in computation e"},
    {wrong_parameter, "a (parameter): parameter 3 of 1 of computation e"},
    {more_parameters, "computation f has 2 parameters, but 1 are defined"},
    {no_root, "computation f has no root"},
    {operands_later,
     "computation e is scheduled, but an instruction comes before what it needs"},
    {cycle, "the instructions of computation e form a cycle"},
    {removed_callee, "t (call): calls a computation that is not in the module"},
    {calls_in_a_cycle, "computations call each other in a cycle"},
    {one_name, "its name is not unique in the module"},
    {no_entry, "module m has no entry computation"},
};

static void test_broken(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_create(), *scratch = arena_create();
        Module *m = parse_module(a, text);
        assert_true(module_verify(m, LEVEL_WELL_FORMED, scratch));
        cases[i].damage(m);
        assert_false(module_verify(m, LEVEL_WELL_FORMED, scratch));
        const char *said = m->diag->first->text;
        if (strstr(said, cases[i].words) == NULL)
            fail_msg("'%s' does not say '%s'", said, cases[i].words);
        arena_destroy(scratch);
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_broken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
