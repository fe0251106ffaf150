/* The ELF file around a plan: finding sections with every access bounded, and appending
 * sections to a cubin without moving a byte of it. Only 64-bit little-endian ELF. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/elf.h"
#include "runtime/plan/plan.h"

static bool in_file(uint64_t offset, uint64_t bytes, size_t size)
{
    return offset <= size && bytes <= size - offset;
}

bool plan_elf_is(const void *file, size_t size)
{
    const unsigned char *e = file;
    return size >= sizeof(Elf64_Ehdr) && memcmp(e, ELFMAG, SELFMAG) == 0 &&
           e[EI_CLASS] == ELFCLASS64 && e[EI_DATA] == ELFDATA2LSB;
}

static Elf64_Shdr section_at(const void *file, uint64_t table, size_t index)
{
    Elf64_Shdr s;
    memcpy(&s, (const char *)file + table + index * sizeof s, sizeof s);
    return s;
}

/* Reads the header and finds the section table and the names; false if any is out of bounds. */
static bool read_tables(const void *file, size_t size, Elf64_Ehdr *header,
                        Elf64_Shdr *names)
{
    if (!plan_elf_is(file, size)) {
        return false;
    }
    memcpy(header, file, sizeof *header);
    if (header->e_shentsize != sizeof(Elf64_Shdr) ||
        header->e_shstrndx >= header->e_shnum ||
        !in_file(header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr), size)) {
        return false;
    }
    *names = section_at(file, header->e_shoff, header->e_shstrndx);
    return in_file(names->sh_offset, names->sh_size, size);
}

bool plan_elf_find(const void *file, size_t size, const char *name, PlanElfSection *out)
{
    Elf64_Ehdr header;
    Elf64_Shdr names;
    if (!read_tables(file, size, &header, &names)) {
        return false;
    }
    size_t length = strlen(name) + 1;
    for (size_t i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr s = section_at(file, header.e_shoff, i);
        if (s.sh_type == SHT_NOBITS || s.sh_name > names.sh_size ||
            length > names.sh_size - s.sh_name ||
            !in_file(s.sh_offset, s.sh_size, size) ||
            memcmp((const char *)file + names.sh_offset + s.sh_name, name, length) != 0) {
            continue;
        }
        *out = (PlanElfSection){name, (const char *)file + s.sh_offset, s.sh_size};
        return true;
    }
    return false;
}

bool plan_elf_is_whole(const void *file, size_t size, const void *header)
{
    Elf64_Ehdr h;
    if (!plan_elf_is(file, size) || !plan_elf_is(header, sizeof h)) {
        return false;
    }
    memcpy(&h, header, sizeof h);
    if ((h.e_shnum && h.e_shentsize != sizeof(Elf64_Shdr)) ||
        (h.e_phnum && h.e_phentsize != sizeof(Elf64_Phdr)) ||
        !in_file(h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr), size) ||
        !in_file(h.e_phoff, (uint64_t)h.e_phnum * sizeof(Elf64_Phdr), size)) {
        return false;
    }
    for (size_t i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr s = section_at(file, h.e_shoff, i);
        if (s.sh_type != SHT_NOBITS && !in_file(s.sh_offset, s.sh_size, size)) {
            return false;
        }
    }
    for (size_t i = 0; i < h.e_phnum; i++) {
        Elf64_Phdr p;
        memcpy(&p, (const char *)file + h.e_phoff + i * sizeof p, sizeof p);
        if (!in_file(p.p_offset, p.p_filesz, size)) {
            return false;
        }
    }
    return true;
}

static size_t align_to(size_t n, size_t alignment)
{
    return (n + alignment - 1) & ~(alignment - 1);
}

/* Where everything goes in the appended file. */
typedef struct Appended {
    size_t names_at, names_size; /* the larger name table */
    size_t table_at;             /* the larger section table */
    size_t total;
} Appended;

static Appended plan_appended(size_t size, const Elf64_Ehdr *header,
                              const Elf64_Shdr *names, const PlanElfSection *sections,
                              size_t count)
{
    Appended a = {.total = size, .names_size = names->sh_size};
    for (size_t i = 0; i < count; i++) {
        a.total = align_to(a.total, PLAN_CONSTANT_ALIGNMENT) + sections[i].size;
        a.names_size += strlen(sections[i].name) + 1;
    }
    a.names_at = a.total;
    a.table_at = align_to(a.names_at + a.names_size, 16);
    a.total = a.table_at + (header->e_shnum + count) * sizeof(Elf64_Shdr);
    return a;
}

bool plan_elf_append(const void *cubin, size_t size, const PlanElfSection *sections,
                     size_t count, void **out_bytes, size_t *out_size, const char **error)
{
    Elf64_Ehdr header;
    Elf64_Shdr names;
    *out_bytes = NULL;
    *out_size = 0;
    if (!read_tables(cubin, size, &header, &names)) {
        *error = "the cubin is not an ELF file with a section table";
        return false;
    }
    if (header.e_shnum + count >= SHN_LORESERVE) {
        *error = "the cubin has too many sections";
        return false;
    }
    Appended a = plan_appended(size, &header, &names, sections, count);
    char *out = calloc(1, a.total);
    if (!out) {
        *error = "no memory for the file";
        return false;
    }
    memcpy(out, cubin, size);
    memcpy(out + a.names_at, (const char *)cubin + names.sh_offset, names.sh_size);
    memcpy(out + a.table_at, (const char *)cubin + header.e_shoff,
           header.e_shnum * sizeof(Elf64_Shdr));
    size_t at = size;
    size_t name_at = names.sh_size;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(sections[i].name) + 1;
        at = align_to(at, PLAN_CONSTANT_ALIGNMENT);
        Elf64_Shdr s = {.sh_name = (Elf64_Word)name_at,
                        .sh_type = SHT_PROGBITS,
                        .sh_offset = at,
                        .sh_size = sections[i].size,
                        .sh_addralign = PLAN_CONSTANT_ALIGNMENT};
        if (sections[i].size) {
            memcpy(out + at, sections[i].bytes, sections[i].size);
        }
        memcpy(out + a.names_at + name_at, sections[i].name, length);
        memcpy(out + a.table_at + (header.e_shnum + i) * sizeof s, &s, sizeof s);
        at += sections[i].size;
        name_at += length;
    }
    names.sh_offset = a.names_at;
    names.sh_size = a.names_size;
    memcpy(out + a.table_at + header.e_shstrndx * sizeof names, &names, sizeof names);
    header.e_shoff = a.table_at;
    header.e_shnum = (Elf64_Half)(header.e_shnum + count);
    memcpy(out, &header, sizeof header);
    *out_bytes = out;
    *out_size = a.total;
    return true;
}
