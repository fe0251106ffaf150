/* What a program says of itself: its variants, their targets and images; and cubins that are cut off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/artefact.h"
#include "tests/unit/shared/fake_driver.h"
#include "tests/unit/shared/program.h"

/* An image of each kind. */
static void test_images(void **state)
{
    static const char ptx[] = ".version 9.0";
    (void)state;
    size_t size;
    Program p = {.file = portable_file(ptx, sizeof ptx, &size)};
    gxrt_variant_info info = {.struct_size = sizeof info};
    assert_int_equal(gxrt_program_open_memory(p.file, size, &p.program), GXRT_OK);
    assert_int_equal(gxrt_program_get_variant(p.program, 0, &info), GXRT_OK);
    assert_string_equal(info.target, "sm_80");
    assert_int_equal(info.tileir_cubins, 1);
    assert_int_equal(info.tileir_bytecodes, 1);
    assert_int_equal(info.ptx_bytes, sizeof ptx);
    assert_int_equal(info.launch_count, 1);
    assert_int_equal(info.command_count, 1);
    assert_int_equal(info.has_emulator, 0);
    assert_int_equal(info.constant_bytes, 0);
    assert_int_equal(info.peak_bytes, 8);
    close_program(&p);
}

/* A file of two variants for targets of six letters; the second has a cubin of so many bytes, and its header in the
 * plan if `has_header`. */
static void *two_targets(size_t cubin_bytes, bool has_header, size_t *size)
{
    Maker first, second;
    unsigned char elf[EMPTY_ELF_BYTES];
    void *plan;
    size_t plan_size;
    maker_init(&first);
    maker_init(&second);
    empty_elf(elf);
    if (has_header)
        memcpy(second.b.info[0].elf_header, elf, sizeof second.b.info[0].elf_header);
    assert_true(plan_write(&second.b, &plan, &plan_size));
    const PlanElfSection sections[] = {{PLAN_ELF_PLAN ".1", plan, plan_size},
                                       {PLAN_ELF_CUBIN ".1", elf, cubin_bytes}};
    void *file = artefact_make(&first.b, sections, 2, size);
    free(plan);
    plan_builder_deinit(&second.b);
    return file;
}

/* All of them in a row, as far as there is room. */
static void test_targets(void **state)
{
    static const char all[] = "sm_90a, sm_90a";
    (void)state;
    size_t size;
    Program p = {.file = two_targets(EMPTY_ELF_BYTES, false, &size)};
    assert_int_equal(gxrt_program_open_memory(p.file, size, &p.program), GXRT_OK);
    for (size_t room = 1; room <= sizeof all + 1; room++) {
        char text[sizeof all + 1], want[sizeof all + 1];
        memset(text, 'x', sizeof text);
        snprintf(want, room, "%s", all);
        program_targets(p.program, text, room);
        assert_string_equal(text, want);
    }
    close_program(&p);
}

/* Its table of sections is not there, which its header names, wherever that stands. */
static void test_cut_cubins(void **state)
{
    (void)state;
    for (int number = 0; number < 4; number++) {
        size_t size;
        gxrt_program *program = NULL;
        size_t cut = number % 2 ? 64 : 0;
        void *file = two_targets(EMPTY_ELF_BYTES - cut, number >= 2, &size);
        gxrt_status st = gxrt_program_open_memory(file, size, &program);
        assert_int_equal(st, cut ? GXRT_INVALID_FILE : GXRT_OK);
        if (cut)
            assert_non_null(strstr(gxrt_last_error(), "the cubin for sm_90a is cut off"));
        gxrt_program_destroy(program);
        free(file);
    }
}

/* PTX that begins or ends behind the section of images: what follows it in the
 * file is not looked at, whatever it is. */
static void test_cut_images(void **state)
{
    enum { BYTES = 32, MOST = 256 };
    static const char section_bytes[BYTES] = ".version 9.0";
    (void)state;
    for (uint64_t offset = 0; offset <= MOST; offset += 16) {
        Maker m;
        size_t size;
        gxrt_program *program = NULL;
        maker_init(&m);
        PlanImage image = {.kernel = PLAN_NONE,
                           .kind = PLAN_IMAGE_PTX,
                           .offset = offset,
                           .bytes = offset == 0 ? sizeof ".version 9.0" : 1};
        plan_add_images(&m.b, &image, 1);
        PlanElfSection section = {PLAN_ELF_IMAGES, section_bytes, BYTES};
        void *file = artefact_make(&m.b, &section, 1, &size);
        gxrt_status st = gxrt_program_open_memory(file, size, &program);
        if ((st == GXRT_OK) != (offset < BYTES) ||
            (st != GXRT_OK &&
             !strstr(gxrt_last_error(), "an image for sm_90a is cut off")))
            fail_msg("at %d: %s", (int)offset,
                     st == GXRT_OK ? "opened" : gxrt_last_error());
        gxrt_program_destroy(program);
        free(file);
    }
}

/* Images of the same bytes, which would be looked at again for each. */
static void test_shared_images(void **state)
{
    enum { IMAGE_BYTES = 16 };
    static const char section_bytes[2 * IMAGE_BYTES] = PLAN_TILEIR_MAGIC;
    (void)state;
    for (size_t count = 1; count <= 3; count++) {
        Maker m;
        size_t size;
        gxrt_program *program = NULL;
        maker_init(&m);
        const PlanImage image = {.kernel = m.add,
                                 .kind = PLAN_IMAGE_TILEIR,
                                 .blocks = 1,
                                 .bytes = IMAGE_BYTES};
        for (size_t i = 0; i < count; i++)
            plan_add_images(&m.b, &image, 1);
        PlanElfSection section = {PLAN_ELF_IMAGES, section_bytes, sizeof section_bytes};
        void *file = artefact_make(&m.b, &section, 1, &size);
        gxrt_status st = gxrt_program_open_memory(file, size, &program);
        assert_int_equal(st, count <= 2 ? GXRT_OK : GXRT_INVALID_FILE);
        if (st != GXRT_OK)
            assert_non_null(
                strstr(gxrt_last_error(), "images for sm_90a share their bytes"));
        gxrt_program_destroy(program);
        free(file);
    }
}

/* A session with memory of the host: each call fails once, and nothing is left; where it is the host's memory, the
 * message says how much. */
static void test_host_memory(void **state)
{
    enum { BYTES = 4096 };
    (void)state;
    Maker m;
    maker_init(&m);
    uint32_t at = maker_allocation(&m, PLAN_TEMP, 0, BYTES);
    m.b.allocations[at].colour = PLAN_HOST_MEMORY;
    m.b.allocations[at].alignment = 256;
    Program p = open_program(&m, "", 0);
    int pinned = 0;
    bool failed = true;
    for (int k = 1; failed; k++) {
        gxrt_session *s = NULL;
        fake_calls = 0;
        fake_fail_at = k;
        gxrt_status st = session_create(p.program, NULL, &fake_api, NULL, NULL, &s);
        failed = fake_calls >= k;
        fake_fail_at = 0;
        assert_int_equal(st != GXRT_OK, failed);
        if (st == GXRT_OUT_OF_MEMORY &&
            strstr(gxrt_last_error(), "the host has no 4096 bytes to pin"))
            pinned++;
        gxrt_session_destroy(s);
        assert_int_equal(fake_live, 0);
    }
    assert_int_equal(pinned, 1);
    close_program(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images),        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_cut_cubins),    cmocka_unit_test(test_cut_images),
        cmocka_unit_test(test_shared_images), cmocka_unit_test(test_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
