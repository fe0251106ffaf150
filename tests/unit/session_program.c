/* Files of several variants, and sessions of several devices: which of them agree, and which one's failure is told. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/run/select.h"
#include "tests/unit/shared/artefact.h"
#include "tests/unit/shared/fake_driver.h"
#include "tests/unit/shared/limits.h"
#include "tests/unit/shared/program.h"

enum { N = 4 };

/* Two arguments, the second of which result 1 takes, and two results. */
static void make(PlanBuilder *out)
{
    Maker m;
    maker_init(&m);
    maker_value(&m, false, N, PLAN_NONE, PLAN_ALIAS_NONE);
    maker_value(&m, false, N, 1, PLAN_ALIAS_MAY);
    maker_value(&m, true, N, PLAN_NONE, PLAN_ALIAS_NONE);
    maker_value(&m, true, N, 1, PLAN_ALIAS_MAY);
    plan_string(&m.b, "f32");
    *out = m.b;
}

/* A file of two variants, whose plans are done with; the second one's cubin is the empty one. */
static void *variants(PlanBuilder *first, PlanBuilder *second, size_t *size)
{
    unsigned char elf[EMPTY_ELF_BYTES];
    void *plan;
    size_t plan_size;
    empty_elf(elf);
    assert_true(plan_write(second, &plan, &plan_size));
    const PlanElfSection sections[] = {{PLAN_ELF_PLAN ".1", plan, plan_size},
                                       {PLAN_ELF_CUBIN ".1", elf, sizeof elf}};
    void *file = artefact_make(first, sections, 2, size);
    free(plan);
    plan_builder_deinit(second);
    return file;
}

/* The first one is what make() makes. */
static void *two_variants(PlanBuilder *second, size_t *size)
{
    PlanBuilder first;
    make(&first);
    return variants(&first, second, size);
}

/* NULL: the file is opened. */
static const char *opens(const void *file, size_t size)
{
    gxrt_program *program;
    if (gxrt_program_open_memory(file, size, &program) != GXRT_OK)
        return gxrt_last_error();
    gxrt_program_destroy(program);
    return NULL;
}

static void change(PlanBuilder *b, int number)
{
    switch (number) {
    case 1: /* another shape of as many bytes */
        b->arguments[0].rank = 2;
        b->arguments[0].dims = plan_add_numbers(b, (int64_t[]){2, 2, 1, 0}, 4);
        break;
    case 2:
        b->arguments[0].dtype = plan_string(b, "f32");
        break;
    case 3:
        b->arguments[0].donated = 1;
        break;
    case 4:
        b->arguments[0].element_bits = 31;
        break;
    case 5:
        b->arguments[0].size_of = 1;
        break;
    case 6:
        b->results[0].size_of = 0;
        break;
    case 7:
        b->arguments[1].alias_kind = b->results[1].alias_kind = PLAN_ALIAS_MUST;
        break;
    case 8:
        b->results[0].dtype = plan_string(b, "f32");
        break;
    case 9:
        b->info[0].replicas = 2;
        break;
    case 10:
        b->info[0].partitions = 2;
        break;
    case 11: /* one argument more, or one result */
    case 12: {
        Maker m = {.b = *b};
        maker_value(&m, number == 12, N, PLAN_NONE, PLAN_ALIAS_NONE);
        *b = m.b;
        break;
    }
    default:
        break;
    }
}

/* Every number of a signature: callers look at that of the first variant only. */
static void test_signatures(void **state)
{
    (void)state;
    for (int number = 0; number <= 12; number++) {
        PlanBuilder b;
        size_t size;
        make(&b);
        change(&b, number);
        void *file = two_variants(&b, &size);
        const char *why = opens(file, size);
        if (number ? !why || !strstr(why, "its variants are different programs")
                   : why != NULL)
            fail_msg("change %d: %s", number, why ? why : "opened");
        free(file);
    }
}

/* Two arguments, each of which one of two results takes. */
static void make_aliases(PlanBuilder *out, bool crossed)
{
    Maker m;
    maker_init(&m);
    for (uint32_t i = 0; i < 4; i++)
        maker_value(&m, i >= 2, N, crossed ? 1 - i % 2 : i % 2, PLAN_ALIAS_MAY);
    *out = m.b;
}

static void test_aliases(void **state)
{
    (void)state;
    for (int crossed = 0; crossed < 2; crossed++) {
        PlanBuilder a, b;
        size_t size;
        make_aliases(&a, false);
        make_aliases(&b, crossed);
        void *file = variants(&a, &b, &size);
        const char *why = opens(file, size);
        if (crossed ? !why || !strstr(why, "its variants are different programs")
                    : why != NULL)
            fail_msg("%d: %s", crossed, why ? why : "opened");
        free(file);
    }
}

/* A plan need not begin at a multiple of 16: the file is where the caller has it. */
static void test_unaligned(void **state)
{
    (void)state;
    for (size_t offset = 0; offset <= 16; offset++) {
        PlanBuilder b;
        size_t size;
        make(&b);
        void *file = two_variants(&b, &size);
        char *room = malloc(size + offset);
        memcpy(room + offset, file, size);
        const char *why = opens(room + offset, size);
        if (why)
            fail_msg("offset %zu: %s", offset, why);
        free(room);
        free(file);
    }
}

/* A cubin as large as the file, and one byte larger. */
static void test_cubin_bytes(void **state)
{
    (void)state;
    for (int more = 0; more <= 1; more++) {
        Maker m;
        size_t size;
        maker_init(&m);
        void *file = artefact(&m, NULL, 0, &size);
        gxrt_program *program;
        assert_int_equal(gxrt_program_open_memory(file, size, &program), GXRT_OK);
        /* the plan's bytes are this test's own, and were allocated; their hashes are made right below */
        PlanElfSection section;
        assert_true(plan_elf_find(file, size, PLAN_ELF_PLAN, &section));
        gxrt_program_destroy(program);
        char *plan = (char *)(uintptr_t)section.bytes;
        PlanHeader *header = (PlanHeader *)(void *)plan;
        PlanSection *info = (PlanSection *)(void *)(header + 1);
        PlanInfo *facts = (PlanInfo *)(void *)(plan + info->offset);
        facts->cubin_bytes = size + (size_t)more;
        plan_hash(facts, info->bytes, info->hash);
        plan_seal(header);
        const char *why = opens(file, size);
        if (more ? !why || !strstr(why, "the cubin for sm_90a is cut off") : why != NULL)
            fail_msg("%d more: %s", more, why ? why : "opened");
        free(file);
    }
}

/* The original header of a cubin is put back where the plan has one. */
static void test_cubin(void **state)
{
    (void)state;
    for (int has = 0; has <= 1; has++) {
        PlanBuilder b;
        size_t size;
        unsigned char elf[EMPTY_ELF_BYTES];
        gxrt_program *program;
        make(&b);
        empty_elf(elf);
        if (has) {
            elf[16] = 2; /* e_type */
            memcpy(b.info[0].elf_header, elf, 64);
        }
        void *file = two_variants(&b, &size);
        assert_int_equal(gxrt_program_open_memory(file, size, &program), GXRT_OK);
        assert_int_equal(program->variant_count, 2);
        void *cubin = program_cubin(&program->variants[1]);
        assert_memory_equal(cubin, elf, sizeof elf);
        free(cubin);
        gxrt_program_destroy(program);
        free(file);
    }
}

/* Of two variants that run on a GPU the one for the newer architecture, or for just this one, is taken, wherever it stands
 * in the file. */
static void test_best_variant(void **state)
{
    (void)state;
    typedef struct Target {
        const char *name;
        uint32_t sm, suffix;
    } Target;
    static const struct {
        int gpu;
        Target both[2];
    } rows[] = {{89, {{"sm_80", 80, 0}, {"sm_86", 86, 0}}},
                {89, {{"sm_86", 86, 0}, {"sm_89", 89, 0}}},
                {90, {{"sm_90", 90, 0}, {"sm_90a", 90, 'a'}}},
                {90, {{"sm_100a", 100, 'a'}, {"sm_90", 90, 0}}}};
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        PlanBuilder b[2];
        gxrt_program *program;
        gxrt_session *s;
        size_t size;
        for (size_t v = 0; v < 2; v++) {
            const Target *t = &rows[i / 2].both[(v + i) % 2];
            make(&b[v]);
            b[v].info[0].target = plan_string(&b[v], t->name);
            b[v].info[0].sm = t->sm;
            b[v].info[0].suffix = t->suffix;
            unsigned char elf[EMPTY_ELF_BYTES];
            empty_elf(elf);
            plan_hash(elf, sizeof elf, b[v].info[0].cubin_hash);
            plan_hash("", 0, b[v].info[0].constant_hash);
        }
        void *file = variants(&b[0], &b[1], &size);
        fake_sm = rows[i / 2].gpu;
        assert_int_equal(gxrt_program_open_memory(file, size, &program), GXRT_OK);
        if (session_create(program, NULL, &fake_api, NULL, NULL, &s) != GXRT_OK)
            fail_msg("row %zu: %s", i, gxrt_last_error());
        fake_sm = 90;
        assert_string_equal(plan_text(s->plan, s->plan->info->target),
                            rows[i / 2].both[1].name);
        gxrt_session_destroy(s);
        gxrt_program_destroy(program);
        free(file);
    }
}

/* Opening keeps no file open, whether it goes well or not. */
static void test_descriptors(void **state)
{
    (void)state;
    Maker m;
    size_t size;
    char path[] = "/tmp/gxc-program-XXXXXX", empty[] = "/tmp/gxc-program-XXXXXX";
    gxrt_program *program;
    maker_init(&m);
    void *file = artefact(&m, NULL, 0, &size);
    int out = mkstemp(path), none = mkstemp(empty);
    assert_int_equal(write(out, file, size), size);
    close(none);
    assert_int_equal(gxrt_program_open(path, &program), GXRT_OK);
    gxrt_program_destroy(program);
    assert_int_equal(gxrt_program_open(empty, &program), GXRT_INVALID_FILE);
    assert_non_null(strstr(gxrt_last_error(), "the file is empty"));
    assert_int_equal(gxrt_program_open("/", &program), GXRT_INVALID_FILE);
    assert_non_null(strstr(gxrt_last_error(), "/: Is a directory"));
    int next = open("/dev/null", O_RDONLY);
    assert_int_equal(next, none);
    close(next);
    close(out);
    unlink(path);
    unlink(empty);
    free(file);
}

/* Devices of one program are alike. */
static void test_unequal_devices(void **state)
{
    (void)state;
    for (int unequal = 0; unequal <= 1; unequal++) {
        Maker m;
        gxrt_session *s;
        maker_init(&m);
        m.b.info[0].replicas = 3;
        Program p = open_program(&m, "", 0);
        fake_other_sm = unequal ? 89 : 0;
        gxrt_status st = session_create(p.program, NULL, &fake_api, NULL, NULL, &s);
        fake_other_sm = 0;
        assert_int_equal(st, unequal ? GXRT_WRONG_DEVICE : GXRT_OK);
        if (unequal)
            assert_non_null(
                strstr(gxrt_last_error(), "CUDA device 0 is sm_90, device 1 is sm_89"));
        gxrt_session_destroy(s);
        close_program(&p);
    }
}

/* Any call of any device fails while all run: the run fails. */
static void test_one_fails(void **state)
{
    enum { DEVICES = 3 };
    (void)state;
    Maker m;
    maker_init(&m);
    maker_add(&m, maker_value(&m, false, N, PLAN_NONE, PLAN_ALIAS_NONE),
              maker_value(&m, true, N, PLAN_NONE, PLAN_ALIAS_NONE), N, immediate(1));
    m.b.info[0].replicas = DEVICES;
    Program p = open_program(&m, "", 0);
    bool failed = true;
    for (int k = 1; failed; k++) {
        gxrt_session *s;
        gxrt_buffer a[DEVICES], r[DEVICES];
        gxrt_run runs[DEVICES];
        assert_int_equal(session_create(p.program, NULL, &fake_api, NULL, NULL, &s),
                         GXRT_OK);
        for (size_t d = 0; d < DEVICES; d++) {
            a[d] = r[d] = (gxrt_buffer){.struct_size = sizeof *a, .bytes = 4 * N};
            assert_int_equal(gxrt_allocate(s, d, 4 * N, &a[d].data), GXRT_OK);
            assert_int_equal(gxrt_allocate(s, d, 4 * N, &r[d].data), GXRT_OK);
            memset(a[d].data, 0, 4 * N);
            runs[d] = (gxrt_run){sizeof *runs, NULL, &a[d], 1, &r[d], 1};
        }
        assert_int_equal(gxrt_execute(s, DEVICES, runs), GXRT_OK);
        fake_calls = 0;
        fake_fail_at = k;
        gxrt_status st = gxrt_execute(s, DEVICES, runs);
        failed = fake_calls >= k;
        fake_fail_at = 0;
        assert_int_equal(st != GXRT_OK, failed);
        if (failed)
            assert_true(strlen(gxrt_last_error()) > 10);
        for (size_t d = 0; d < DEVICES; d++) {
            gxrt_free(s, d, a[d].data);
            gxrt_free(s, d, r[d].data);
        }
        gxrt_session_destroy(s);
    }
    close_program(&p);
}

/* Patterns of one, two and four bytes, and a device's ids: each fills its slice and nothing beside it. */
static void test_fills(void **state)
{
    static const struct {
        uint32_t pattern;
        uint16_t tag;
        uint64_t value;
        unsigned char first[4];
    } rows[] = {{1, PLAN_ARG_IMMEDIATE, 0x12345678, {0x78, 0x78, 0x78, 0x78}},
                {2, PLAN_ARG_IMMEDIATE, 0x12345678, {0x78, 0x56, 0x78, 0x56}},
                {4, PLAN_ARG_IMMEDIATE, 0x12345678, {0x78, 0x56, 0x34, 0x12}},
                {4, PLAN_ARG_REPLICA, 9, {0, 0, 0, 0}},
                {4, PLAN_ARG_PARTITION, 9, {0, 0, 0, 0}}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Maker m;
        maker_init(&m);
        uint32_t out = maker_value(&m, true, N, PLAN_NONE, PLAN_ALIAS_NONE);
        uint32_t part = maker_slice(&m, m.b.slices[out].allocation, 4, 8);
        uint32_t nothing = maker_slice(&m, m.b.slices[out].allocation, 0, 0);
        const PlanArg all[] = {writes(out), immediate(0xaaaaaaaa)};
        const PlanArg some[] = {writes(part),
                                {.tag = rows[i].tag, .value = rows[i].value}};
        const PlanArg none[] = {writes(nothing), immediate(1)};
        const PlanArg *const fills[] = {all, some, none};
        for (int k = 0; k < 3; k++) {
            uint32_t fill = maker_command(&m, PLAN_FILL, 0, fills[k], 2);
            m.b.commands[fill].count = k == 1 ? rows[i].pattern : 4;
        }
        Program p = open_program(&m, "", 0);
        gxrt_session *s = open_session(&p);
        int32_t y[N] = {0};
        const size_t count = N;
        assert_int_equal(run_program(s, 0, NULL, NULL, 1, (int32_t *[]){y}, &count, NULL),
                         GXRT_OK);
        assert_memory_equal(&y[1], rows[i].first, 4);
        assert_memory_equal(&y[2], rows[i].first, 4);
        assert_int_equal((uint32_t)y[0], 0xaaaaaaaa);
        assert_int_equal((uint32_t)y[3], 0xaaaaaaaa);
        gxrt_session_destroy(s);
        close_program(&p);
    }
}

static int take_dirty(void *user, int device, size_t bytes, size_t alignment, void **out)
{
    (void)user, (void)device;
    *out = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    memset(*out, 0xa5, bytes);
    return 0;
}

static void give_dirty(void *user, int device, void *memory)
{
    (void)user, (void)device;
    free(memory);
}

/* What a program keeps from run to run begins as zeros, all of it, and is kept. */
static void test_state(void **state)
{
    enum { WORDS = 35 };
    (void)state;
    Maker m;
    maker_init(&m);
    uint32_t kept =
        maker_slice(&m, maker_allocation(&m, PLAN_STATE, 0, 4 * WORDS), 0, 4 * WORDS);
    uint32_t out = maker_value(&m, true, WORDS, PLAN_NONE, PLAN_ALIAS_NONE);
    maker_add(&m, kept, out, WORDS, immediate(3));
    const PlanArg copy[] = {writes(kept), reads(out)};
    maker_command(&m, PLAN_COPY, 0, copy, 2);
    Program p = open_program(&m, "", 0);
    gxrt_allocator allocator = {sizeof allocator, NULL, take_dirty, give_dirty};
    gxrt_session_options options = {.struct_size = sizeof options,
                                    .allocator = &allocator};
    gxrt_session *s;
    assert_int_equal(session_create(p.program, &options, &fake_api, NULL, NULL, &s),
                     GXRT_OK);
    assert_int_equal(s->devices[0].base[0] % 256, 0);
    for (int run = 1; run <= 2; run++) {
        int32_t y[WORDS] = {0};
        const size_t count = WORDS;
        assert_int_equal(run_program(s, 0, NULL, NULL, 1, (int32_t *[]){y}, &count, NULL),
                         GXRT_OK);
        for (int i = 0; i < WORDS; i++)
            assert_int_equal(y[i], 3 * run);
    }
    gxrt_session_destroy(s);
    close_program(&p);
}

/* However much there is of it, the device clears it by one call. */
static void test_large_state(void **state)
{
    static const uint64_t bytes[] = {64, 1 << 20};
    int calls[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        Maker m;
        maker_init(&m);
        maker_allocation(&m, PLAN_STATE, 0, bytes[i]);
        Program p = open_program(&m, "", 0);
        gxrt_session *s;
        fake_calls = 0;
        assert_int_equal(session_create(p.program, NULL, &fake_api, NULL, NULL, &s),
                         GXRT_OK);
        calls[i] = fake_calls;
        gxrt_session_destroy(s);
        close_program(&p);
    }
    assert_int_equal(calls[0], calls[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signatures),  cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_unaligned),   cmocka_unit_test(test_cubin_bytes),
        cmocka_unit_test(test_cubin),       cmocka_unit_test(test_best_variant),
        cmocka_unit_test(test_descriptors), cmocka_unit_test(test_unequal_devices),
        cmocka_unit_test(test_one_fails),   cmocka_unit_test(test_fills),
        cmocka_unit_test(test_state),       cmocka_unit_test(test_large_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
