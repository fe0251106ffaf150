/* What holds a plan together: header, table of sections and strings, each damage under hashes that are right; and
 * the ELF file around it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/artefact.h"
#include "tests/unit/shared/limits.h"
#include "tests/unit/shared/program.h"

enum { MOST_SECTIONS = 1024 };

typedef struct Bytes {
    unsigned char *data;
    size_t size;
} Bytes;

static Bytes plan_bytes(void)
{
    Bytes b;
    Maker m;
    void *data;
    maker_init(&m);
    maker_value(&m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    assert_true(plan_write(&m.b, &data, &b.size));
    plan_builder_deinit(&m.b);
    b.data = data;
    return b;
}

static PlanHeader *header_of(Bytes b)
{
    return (PlanHeader *)(void *)b.data;
}

static PlanSection *section_of(Bytes b, uint32_t i)
{
    return (PlanSection *)(void *)(b.data + sizeof(PlanHeader)) + i;
}

/* NULL: it is read. */
static const char *verdict(Bytes b, Plan *p)
{
    static char error[512];
    return plan_read(p, b.data, b.size, error, sizeof error) ? NULL : error;
}

/* says NULL: it is read; frees the bytes. */
static void expect(Bytes b, const char *says)
{
    Plan p;
    plan_seal(header_of(b));
    const char *said = verdict(b, &p);
    if ((said == NULL) != (says == NULL) || (says && !strstr(said, says)))
        fail_msg("expected '%s', got '%s'", says ? says : "read", said ? said : "read");
    free(b.data);
}

static void test_header(void **state)
{
    (void)state;
    Bytes b = plan_bytes();
    expect(b, NULL);
    b = plan_bytes();
    b.data[7] ^= 1;
    expect(b, "this is not a plan of gxc");
    b = plan_bytes();
    header_of(b)->minor++;
    expect(b, NULL);
    for (int change = -1; change <= 1; change += 2) {
        b = plan_bytes();
        header_of(b)->total_bytes += change;
        expect(b, "bytes, its header says");
    }
    b = plan_bytes();
    b.data[sizeof(PlanHeader) - 1] ^= 1; /* the hash */
    Plan p;
    assert_non_null(strstr(verdict(b, &p), "header is damaged: its hash"));
    free(b.data);
    b = plan_bytes();
    unsigned char *moved = malloc(b.size + 4);
    memcpy(moved + 4, b.data, b.size);
    assert_non_null(strstr(verdict((Bytes){moved + 4, b.size}, &p), "multiple of 8"));
    free(moved);
    free(b.data);
}

/* A plan and no more: its first bytes, whatever they are, are not read as a table. */
static void test_cut(void **state)
{
    Plan p;
    Bytes b = plan_bytes();
    size_t table = sizeof(PlanHeader) + PLAN_SECTION_COUNT * sizeof(PlanSection);
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        static const char *const says[] = {"cut off: ", "section table is cut off",
                                           "section table is cut off", "its header says"};
        const size_t sizes[] = {sizeof(PlanHeader) - 1, sizeof(PlanHeader), table - 1,
                                table};
        unsigned char *cut = malloc(sizes[i]); /* no byte more, for the sanitizer */
        memcpy(cut, b.data, sizes[i]);
        const char *said = verdict((Bytes){cut, sizes[i]}, &p);
        if (said == NULL || strstr(said, says[i]) == NULL)
            fail_msg("%zu bytes: '%s' lacks '%s'", sizes[i], said ? said : "", says[i]);
        free(cut);
    }
    free(b.data);
}

/* Records are counted by 32 bits: of a plan that is longer nothing is read. */
static void test_long(void **state)
{
    (void)state;
    Plan p;
    Bytes b = plan_bytes();
    free(b.data);
    b = plan_bytes();
    size_t size = b.size;
    b.size = UINT32_MAX;
    assert_non_null(strstr(verdict(b, &p), "has 4294967295 bytes, its header says"));
    b.size = (size_t)UINT32_MAX + 1;
    assert_string_equal(verdict(b, &p),
                        "the plan has 4294967296 bytes, more than 4294967295");
    b.size = size;
    expect(b, NULL);
}

/* A string for which the section has one byte too few. */
static void test_many_strings(void **state)
{
    (void)state;
    PlanBuilder b;
    plan_builder_init(&b);
    uint32_t count = b.strings_count, capacity = b.strings_capacity;
    b.strings_count = b.strings_capacity = PLAN_NONE - 1 - 3;
    assert_int_equal(plan_string(&b, "abc"), 0);
    assert_true(b.failed);
    assert_int_equal(b.strings_count, PLAN_NONE - 1 - 3);
    assert_int_equal(plan_string(&b, "x"), 0);
    b.strings_count = count;
    b.strings_capacity = capacity;
    plan_builder_deinit(&b);
}

/* Each number of the section of numbers, and what is said of it. */
static void test_sections(void **state)
{
    static const char range[] = "section numbers of the plan overlaps another or lies",
                      records[] = "section numbers of the plan has records of the wrong";
    static const struct {
        size_t at, width;
        int64_t change;
        const char *says;
    } cases[] = {
#define MEMBER(m) offsetof(PlanSection, m), sizeof(((PlanSection *)0)->m)
        {MEMBER(offset), 8, range},
        {MEMBER(offset), -16, range}, /* into the section before */
        {MEMBER(offset), INT32_MAX - 15, range},
        {MEMBER(bytes), INT32_MAX, range},
        {MEMBER(bytes), -16, "section numbers of the plan is damaged: its hash"},
        {MEMBER(hash), 1, "section numbers of the plan is damaged: its hash"},
        {MEMBER(record_bytes), 1, records},
        {MEMBER(record_bytes), -1, records},
        {MEMBER(optional), 1, NULL},
        {MEMBER(id), -1, "section strings of the plan is there twice"},
        {MEMBER(id), PLAN_SECTION_COUNT, "the plan has section"},
#undef MEMBER
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes b = plan_bytes();
        char *member = (char *)section_of(b, PLAN_SECTION_NUMBERS) + cases[i].at;
        int64_t value = 0;
        size_t width = cases[i].width > 8 ? 8 : cases[i].width;
        memcpy(&value, member, width);
        value += cases[i].change;
        memcpy(member, &value, width);
        expect(b, cases[i].says);
    }
}

/* Half a record, under the right hash. */
static void test_half_record(void **state)
{
    (void)state;
    Bytes b = plan_bytes();
    PlanSection *s = section_of(b, PLAN_SECTION_NUMBERS);
    s->bytes -= 4;
    plan_hash(b.data + s->offset, s->bytes, s->hash);
    expect(b, "section numbers of the plan has records of the wrong size");
}

/* A section that this reader does not know is skipped if it may be, but lies in the plan, too. */
static void test_unknown_section(void **state)
{
    (void)state;
    for (uint32_t id = PLAN_SECTION_COUNT; id <= PLAN_SECTION_COUNT + 1; id++) {
        Bytes b = plan_bytes();
        PlanSection *last = section_of(b, PLAN_SECTION_COUNT - 1);
        last->id = id;
        last->optional = 1;
        expect(b, NULL);
        b = plan_bytes();
        last = section_of(b, PLAN_SECTION_COUNT - 1);
        last->id = id;
        last->optional = 0;
        expect(b, "it needs a newer libgxrt");
        b = plan_bytes();
        last = section_of(b, PLAN_SECTION_COUNT - 1);
        last->id = id;
        last->offset += 8;
        expect(b, "section ? of the plan overlaps another");
    }
}

/* A section that is not there is an empty one, at an address. */
static void test_missing_section(void **state)
{
    Plan p;
    (void)state;
    Bytes b = plan_bytes();
    section_of(b, PLAN_SECTION_GRAPHS)->id = PLAN_SECTION_COUNT;
    section_of(b, PLAN_SECTION_GRAPHS)->optional = 1;
    plan_seal(header_of(b));
    assert_null(verdict(b, &p));
    assert_int_equal(p.graphs_count, 0);
    assert_non_null(p.graphs);
    assert_ptr_equal(p.bytes, b.data);
    assert_int_equal(p.size, b.size);
    free(b.data);
}

/* As many sections as a plan may have, and one more: all but the real ones empty and unknown. */
static void test_section_count(void **state)
{
    (void)state;
    for (uint32_t more = 0; more <= 1; more++) {
        Bytes b = plan_bytes();
        size_t head = sizeof(PlanHeader) + PLAN_SECTION_COUNT * sizeof(PlanSection);
        size_t added = (MOST_SECTIONS + more - PLAN_SECTION_COUNT) * sizeof(PlanSection);
        Bytes large = {calloc(1, b.size + added), b.size + added};
        memcpy(large.data, b.data, head);
        memcpy(large.data + head + added, b.data + head, b.size - head);
        header_of(large)->section_count = MOST_SECTIONS + more;
        header_of(large)->total_bytes = large.size;
        for (uint32_t i = 0; i < MOST_SECTIONS + more; i++) {
            PlanSection *s = section_of(large, i);
            if (i < PLAN_SECTION_COUNT)
                s->offset += added;
            else
                *s = (PlanSection){
                    .id = PLAN_SECTION_COUNT, .optional = 1, .offset = large.size};
        }
        free(b.data);
        expect(large, more ? "section table is cut off or damaged" : NULL);
    }
}

/* Sections behind a file of any size: each begins at a multiple of 256, and none lies in another. */
static void test_appended(void **state)
{
    unsigned char elf[EMPTY_ELF_BYTES + 256];
    (void)state;
    for (size_t size = 0; size <= 257; size++) {
        unsigned char first[257], second[3] = {1, 2, 3};
        PlanElfSection add[2] = {{".a", first, size}, {".b", second, sizeof second}},
                       found[2];
        void *out;
        size_t out_size, cubin = EMPTY_ELF_BYTES + size % 256;
        const char *error;
        memset(elf, 0, sizeof elf);
        memset(first, 7, sizeof first);
        empty_elf(elf);
        assert_true(plan_elf_append(elf, cubin, add, 2, &out, &out_size, &error));
        for (int i = 0; i < 2; i++) {
            assert_true(plan_elf_find(out, out_size, add[i].name, &found[i]));
            assert_int_equal(((const char *)found[i].bytes - (const char *)out) % 256, 0);
            assert_int_equal(found[i].size, add[i].size);
            assert_memory_equal(found[i].bytes, add[i].bytes, add[i].size);
        }
        assert_true((const char *)found[0].bytes >= (const char *)out + cubin);
        assert_true((const char *)found[1].bytes >= (const char *)found[0].bytes + size);
        free(out);
    }
}

/* As many sections as such a file may have. */
static void test_most_sections(void **state)
{
    enum { MOST = 0xff00 }; /* from here on numbers of sections mean something else */
    const size_t size = 64 + MOST * 64;
    unsigned char *elf = calloc(1, size);
    (void)state;
    for (int count = 1; count <= 2; count++) {
        const PlanElfSection add[2] = {{".a", "", 0}, {".b", "", 0}};
        const uint16_t sections = MOST - 2;
        void *out;
        size_t out_size;
        const char *error = "";
        empty_elf(elf);
        memcpy(elf + 60, &sections, 2);
        bool good =
            plan_elf_append(elf, size, add, (size_t)count, &out, &out_size, &error);
        assert_int_equal(good, count == 1);
        if (!good)
            assert_string_equal(error, "the cubin has too many sections");
        free(out);
    }
    free(elf);
}

/* Many strings: each is there once, found again, and none is another. */
static void test_strings(void **state)
{
    enum { STRINGS = 1000 };
    PlanBuilder b;
    uint32_t at[STRINGS];
    char text[16];
    (void)state;
    plan_builder_init(&b);
    assert_int_equal(plan_string(&b, NULL), 0);
    assert_int_equal(plan_string(&b, ""), 0);
    assert_int_equal(b.strings_count, 1);
    size_t bytes = 1;
    for (int i = 0; i < STRINGS; i++) {
        bytes += (size_t)snprintf(text, sizeof text, "s%d", i) + 1;
        at[i] = plan_string(&b, text);
        assert_int_equal(b.strings_count, bytes);
    }
    for (int i = 0; i < STRINGS; i++) {
        snprintf(text, sizeof text, "s%d", i);
        assert_string_equal(b.strings + at[i], text);
        assert_int_equal(plan_string(&b, text), at[i]);
    }
    assert_int_equal(b.strings_count, bytes);
    assert_false(b.failed);
    plan_builder_deinit(&b);
    assert_null(b.strings);
    assert_null(b.string_table);
    assert_int_equal(b.strings_count, 0);
}

/* More records than a plan can have: the builder has failed, and writes nothing. */
static void test_too_many(void **state)
{
    PlanBuilder b;
    void *bytes = &b;
    size_t size = 1;
    (void)state;
    plan_builder_init(&b);
    plan_add_numbers(&b, NULL, PLAN_NONE);
    assert_true(b.failed);
    assert_int_equal(plan_string(&b, "x"), 0);
    assert_false(plan_write(&b, &bytes, &size));
    assert_null(bytes);
    assert_int_equal(size, 0);
    plan_builder_deinit(&b);
}

/* Records are zero where none are given, and each is where its index says. */
static void test_records(void **state)
{
    PlanBuilder b;
    (void)state;
    plan_builder_init(&b);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(plan_add_numbers(&b, &(int64_t){i + 1}, 1), 2 * i);
        assert_int_equal(plan_add_numbers(&b, NULL, 1), 2 * i + 1);
    }
    for (uint32_t i = 0; i < 200; i++)
        assert_int_equal(b.numbers[i], i % 2 ? 0 : i / 2 + 1);
    assert_int_equal(b.numbers_count, 200);
    plan_builder_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_many_strings),
        cmocka_unit_test(test_sections),
        cmocka_unit_test(test_half_record),
        cmocka_unit_test(test_unknown_section),
        cmocka_unit_test(test_missing_section),
        cmocka_unit_test(test_section_count),
        cmocka_unit_test(test_appended),
        cmocka_unit_test(test_most_sections),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
