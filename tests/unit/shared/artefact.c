/* See artefact.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/artefact.h"

enum { SECTIONS_MOST = 4 };

void empty_elf(unsigned char elf[EMPTY_ELF_BYTES])
{
    static const unsigned char ident[7] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    const uint64_t table = 64, names = 192, names_bytes = 1;
    memset(elf, 0, EMPTY_ELF_BYTES);
    memcpy(elf, ident, sizeof ident);
    memcpy(elf + 40, &table, 8); /* e_shoff */
    elf[58] = 64;                /* e_shentsize */
    elf[60] = 2;                 /* e_shnum */
    elf[62] = 1;                 /* e_shstrndx */
    memcpy(elf + 128 + 24, &names, 8);
    memcpy(elf + 128 + 32, &names_bytes, 8);
}

/* The hashes of what the plan names but does not hold. */
static void hash_parts(PlanInfo *info, const unsigned char elf[EMPTY_ELF_BYTES],
                       const PlanElfSection *sections, size_t count)
{
    plan_hash("", 0, info->constant_hash);
    plan_hash(elf, EMPTY_ELF_BYTES, info->cubin_hash);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(sections[i].name, PLAN_ELF_CONST) == 0)
            plan_hash(sections[i].bytes, sections[i].size, info->constant_hash);
        if (strcmp(sections[i].name, PLAN_ELF_EMU) == 0)
            plan_hash(sections[i].bytes, sections[i].size, info->emu_hash);
    }
}

void *artefact_make(PlanBuilder *b, const PlanElfSection *sections, size_t count,
                    size_t *out_size)
{
    unsigned char elf[EMPTY_ELF_BYTES];
    PlanElfSection all[SECTIONS_MOST] = {{PLAN_ELF_PLAN, NULL, 0}};
    void *plan, *file;
    const char *error;
    empty_elf(elf);
    memcpy(b->info[0].elf_header, elf, 64);
    b->info[0].cubin_bytes = sizeof elf;
    hash_parts(&b->info[0], elf, sections, count);
    assert_true(count < SECTIONS_MOST);
    for (size_t i = 0; i < count; i++)
        all[i + 1] = sections[i];
    assert_true(plan_write(b, &plan, &all[0].size));
    all[0].bytes = plan;
    assert_true(
        plan_elf_append(elf, sizeof elf, all, count + 1, &file, out_size, &error));
    free(plan);
    plan_builder_deinit(b);
    return file;
}

void plan_seal(PlanHeader *h)
{
    memset(h->hash, 0, sizeof h->hash);
    plan_hash(h, sizeof *h + h->section_count * sizeof(PlanSection), h->hash);
}
