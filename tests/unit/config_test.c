/* Texts of backend_config: what is read from which form, and what setting and removing a key leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/attribute/config.h"

typedef struct Fixture {
    Arena *arena;
    Instruction *loop, *sum, *call; /* OP_WHILE, OP_ALL_REDUCE, OP_CUSTOM_CALL */
} Fixture;

static int setup(void **state)
{
    Fixture *f = test_calloc(1, sizeof *f);
    f->arena = arena_create();
    Module *m = module_create(f->arena, diag_create(f->arena, "test", NULL, 0), "test");
    Computation *comp = m->entry = module_add_computation(m, "main");
    Instruction *p = computation_add_parameter(
        comp, 0, shape_array(m->intern, DT_F32, 1, &(int64_t){4}, NULL, NULL), "p");
    f->loop = computation_add(comp, OP_WHILE, p->shape, 1, &p, "loop");
    f->sum = computation_add(comp, OP_ALL_REDUCE, p->shape, 1, &p, "sum");
    f->call = computation_add(comp, OP_CUSTOM_CALL, p->shape, 1, &p, "call");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    Fixture *f = *state;
    arena_destroy(f->arena);
    test_free(f);
    return 0;
}

static void give(Instruction *inst, const char *text)
{
    config_set_text(inst, text, strlen(text));
}

static void check_text(const Instruction *inst, const char *expected)
{
    assert_string_equal(config_text(inst).data, expected);
}

/* One number in every form that producers write it in. */
static void forms(void **state)
{
    const Fixture *f = *state;
    static const char *const texts[] = {
        "{\"known_trip_count\":{\"n\":\"5\"}}",
        "{\"known_trip_count\":{\"n\":5}}",
        " {\t\"a\" : [1, {\"n\": 7}], \"known_trip_count\" :\n { \"n\" : \"5\" } } ",
        "{known_trip_count: {n: 5}}",
        "{known_trip_count {n: 5}}",
        "{known_trip_count = {n = 5 : i64}, b = array<i32: 1, 2>}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        give(f->loop, texts[i]);
        assert_int_equal(config_int(f->loop, CONFIG_TRIP_COUNT, -1), 5);
        check_text(f->loop, texts[i]);
    }
}

/* What cannot be read, or says something else by this name, says nothing. */
static void refused(void **state)
{
    const Fixture *f = *state;
    static const char *const texts[] = {
        "",
        "5",
        "{",
        "{\"known_trip_count\":{\"n\":\"5\"}",
        "{\"known_trip_count\":{\"n\":\"5\"}} x",
        "{\"known_trip_count\":{\"n\":\"5\"]}",
        "{\"known_trip_count\":{\"n\":\"five\"}}",
        "{\"known_trip_count\":{\"n\":5.5}}",
        "{\"known_trip_count\":{\"n\":99999999999999999999}}",
        "{\"known_trip_count\":{\"m\":{\"n\":5}}}",
        "{\"n\":5}",
        "{\"a\":\"\\\"known_trip_count\\\":{\\\"n\\\":5}\"}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        give(f->loop, texts[i]);
        assert_int_equal(config_int(f->loop, CONFIG_TRIP_COUNT, -1), -1);
        check_text(f->loop, texts[i]);
    }
    give(f->sum, "{\"known_trip_count\":{\"n\":\"5\"}}"); /* is no loop */
    assert_false(config_has(f->sum, CONFIG_TRIP_COUNT));
}

static void deep(void **state)
{
    const Fixture *f = *state;
    for (unsigned depth = 60; depth <= 70; depth += 10) {
        Text t;
        text_init(&t, f->arena);
        text_string(&t, "{\"a\":");
        for (unsigned i = 0; i < depth; i++)
            text_char(&t, '[');
        for (unsigned i = 0; i < depth; i++)
            text_char(&t, ']');
        text_string(&t, ",\"known_trip_count\":{\"n\":\"5\"}}");
        give(f->loop, t.data);
        assert_int_equal(config_has(f->loop, CONFIG_TRIP_COUNT), depth <= 64);
    }
}

static void set(void **state)
{
    const Fixture *f = *state;
    Instruction *sum = f->sum;
    config_set_flag(sum, CONFIG_IS_PIPELINED, true);
    check_text(sum, "{\"collective_backend_config\":{\"is_pipelined\":true}}");
    config_set_flag(sum, CONFIG_IS_SPMD, true);
    check_text(sum, "{\"collective_backend_config\":{\"is_pipelined\":true,"
                    "\"is_spmd_generated\":true}}");
    give(sum, "{ \"x\" : 1, \"collective_backend_config\": {\"is_pipelined\" : false}}");
    config_set_flag(sum, CONFIG_IS_PIPELINED, true);
    check_text(sum,
               "{ \"x\" : 1, \"collective_backend_config\": {\"is_pipelined\" : true}}");
    config_set_int(sum, CONFIG_QUEUE, 3);
    check_text(sum, "{ \"x\" : 1, \"collective_backend_config\": {\"is_pipelined\" : "
                    "true},\"operation_queue_id\":\"3\"}");
    give(sum, "{ \"collective_backend_config\" : { } }");
    config_set_word(sum, CONFIG_COLLECTIVES_MODE, "SYMMETRIC");
    assert_true(config_is(sum, CONFIG_COLLECTIVES_MODE, "SYMMETRIC"));
    give(sum, "bytes of somebody else");
    assert_false(config_is_open(sum));
    config_set_int(sum, CONFIG_QUEUE, 1);
    check_text(sum, "{\"operation_queue_id\":\"1\"}");
}

static void removed(void **state)
{
    const Fixture *f = *state;
    Instruction *loop = f->loop;
    give(loop, "{\"known_trip_count\":{\"n\":\"5\"},\"a\":1,"
               "\"known_init_step\":{\"init\":\"0\",\"step\":\"1\"},\"b\":2}");
    config_remove(loop, CONFIG_TRIP_COUNT);
    check_text(loop,
               "{\"a\":1,\"known_init_step\":{\"init\":\"0\",\"step\":\"1\"},\"b\":2}");
    config_remove(loop, CONFIG_LOOP_INIT);
    check_text(loop, "{\"a\":1,\"known_init_step\":{\"step\":\"1\"},\"b\":2}");
    config_remove(loop, CONFIG_LOOP_STEP);
    check_text(loop, "{\"a\":1,\"b\":2}");
    give(loop, "{\"known_trip_count\":{\"n\":\"5\"}}");
    config_remove(loop, CONFIG_TRIP_COUNT);
    assert_false(config_has_text(loop));
    assert_false(inst_has(loop, ATTR_BACKEND_CONFIG));
}

/* The first of two, and objects whole. */
static void more(void **state)
{
    const Fixture *f = *state;
    give(f->call, "{uplo = 76 : ui8, uplo = 85 : ui8, diag = 78 : ui8}");
    assert_int_equal(config_int(f->call, CONFIG_LAPACK_UPLO, 0), 'L');
    assert_int_equal(config_int(f->call, CONFIG_LAPACK_DIAG, 0), 'N');
    give(f->call, "{\"a\":1}");
    config_set_object(f->call, "config", "{\"x\":2}");
    config_set_object(f->call, "config", "{}");
    check_text(f->call, "{\"a\":1,\"config\":{}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(forms, setup, teardown),
        cmocka_unit_test_setup_teardown(refused, setup, teardown),
        cmocka_unit_test_setup_teardown(deep, setup, teardown),
        cmocka_unit_test_setup_teardown(set, setup, teardown),
        cmocka_unit_test_setup_teardown(removed, setup, teardown),
        cmocka_unit_test_setup_teardown(more, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
