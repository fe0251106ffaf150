/* Objects in one mapping each, which holds everything of one: executable sections and the table of external addresses
 * first, read-only data behind them. Nothing in it is writable once it is relocated, and an
 * object with writable data is refused: blocks, streams and devices run side by side.
 * See object.h. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "runtime/emu/object.h"

#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/emu/object_parts.h"

enum { OBJECT_MOST_BYTES = 1 << 30 };

/* One ELF object. */
typedef struct Part {
    unsigned char *memory;
    size_t bytes;
    char *strings;
} Part;

struct Object {
    Part *parts;
    size_t part_count, part_capacity;
    size_t name_count, name_capacity;
    struct ObjectName {
        const char *name; /* in the part's strings */
        uintptr_t address;
        uint64_t bytes;
        bool is_code;
    } * names; /* sorted */
};

void loader_fail(Loader *l, const char *format, ...)
{
    if (l->failed)
        return;
    l->failed = true;
    va_list args;
    va_start(args, format);
    vsnprintf(l->reason, OBJECT_REASON_BYTES, format, args);
    va_end(args);
}

static bool range_inside(const Loader *l, uint64_t offset, uint64_t bytes)
{
    return offset <= l->bytes && bytes <= l->bytes - offset;
}

static bool header_read(Loader *l)
{
    if (l->bytes < sizeof l->header) {
        loader_fail(l, "it is too short for an ELF object");
        return false;
    }
    memcpy(&l->header, l->data, sizeof l->header);
    const Elf64_Ehdr *h = &l->header;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_type != ET_REL) {
        loader_fail(l, "it is not a relocatable little-endian 64-bit ELF object");
        return false;
    }
    if (h->e_machine != RELOCATE_MACHINE) {
        loader_fail(l, "it is for machine %u, this one is %u", h->e_machine,
                    (unsigned)RELOCATE_MACHINE);
        return false;
    }
    if (h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shnum == 0 ||
        !range_inside(l, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr))) {
        loader_fail(l, "its section table lies outside");
        return false;
    }
    return true;
}

/* gxc compiles kernels for x86-64-v3. */
static bool machine_check(Loader *l)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi2")) {
        loader_fail(l, "this machine lacks AVX2, FMA or BMI2 (x86-64-v3)");
        return false;
    }
#else
    (void)l;
#endif
    return true;
}

static bool sections_read(Loader *l)
{
    size_t count = l->header.e_shnum;
    l->section_count = count;
    l->sections = calloc(count, sizeof *l->sections);
    l->loaded = calloc(count, sizeof *l->loaded);
    if (l->sections == NULL || l->loaded == NULL) {
        loader_fail(l, "no memory");
        return false;
    }
    memcpy(l->sections, l->data + l->header.e_shoff, count * sizeof *l->sections);
    for (size_t i = 0; i < count; i++) {
        const Elf64_Shdr *s = &l->sections[i];
        if (s->sh_type != SHT_NOBITS && !range_inside(l, s->sh_offset, s->sh_size)) {
            loader_fail(l, "its section %zu lies outside", i);
            return false;
        }
        if (s->sh_addralign > 4096 || (s->sh_addralign & (s->sh_addralign - 1)) != 0) {
            loader_fail(l, "its section %zu has a bad alignment", i);
            return false;
        }
        if (s->sh_size > OBJECT_MOST_BYTES) {
            loader_fail(l, "its section %zu is too large", i);
            return false;
        }
        if (s->sh_type == SHT_SYMTAB) {
            if (l->symbol_section != 0) {
                loader_fail(l, "it has two symbol tables");
                return false;
            }
            l->symbol_section = i;
        }
    }
    return true;
}

/* A string of a string table, or NULL. */
static const char *string_at(const Loader *l, size_t section, uint64_t offset)
{
    if (section == 0 || section >= l->section_count)
        return NULL;
    const Elf64_Shdr *s = &l->sections[section];
    if (s->sh_type != SHT_STRTAB || offset >= s->sh_size)
        return NULL;
    const char *text = (const char *)l->data + s->sh_offset + offset;
    return memchr(text, 0, s->sh_size - offset) != NULL ? text : NULL;
}

static const char *section_name(const Loader *l, size_t i)
{
    const char *name = string_at(l, l->header.e_shstrndx, l->sections[i].sh_name);
    return name != NULL ? name : "?";
}

static bool symbols_read(Loader *l)
{
    if (l->symbol_section == 0) {
        loader_fail(l, "it has no symbols");
        return false;
    }
    const Elf64_Shdr *s = &l->sections[l->symbol_section];
    if (s->sh_entsize != sizeof(Elf64_Sym) || s->sh_size % sizeof(Elf64_Sym) != 0) {
        loader_fail(l, "its symbol table is damaged");
        return false;
    }
    l->symbol_count = s->sh_size / sizeof(Elf64_Sym);
    l->symbols = calloc(l->symbol_count + 1, sizeof *l->symbols);
    l->stubs = calloc(l->symbol_count + 1, sizeof *l->stubs);
    if (l->symbols == NULL || l->stubs == NULL) {
        loader_fail(l, "no memory");
        return false;
    }
    memcpy(l->symbols, l->data + s->sh_offset, s->sh_size);
    return true;
}

const char *loader_symbol_name(const Loader *l, const Elf64_Sym *symbol)
{
    const char *name =
        string_at(l, l->sections[l->symbol_section].sh_link, symbol->st_name);
    return name != NULL ? name : "?";
}

/* Is this section part of the running program? Unwind tables are not: nothing unwinds. */
static bool section_is_loaded(const Loader *l, size_t i)
{
    const Elf64_Shdr *s = &l->sections[i];
    if ((s->sh_flags & SHF_ALLOC) == 0 || s->sh_size == 0)
        return false;
    if (strcmp(section_name(l, i), ".eh_frame") == 0)
        return false;
    return true;
}

static bool section_check(Loader *l, size_t i)
{
    const Elf64_Shdr *s = &l->sections[i];
    const char *name = section_name(l, i);
    if (s->sh_type != SHT_PROGBITS && s->sh_type != SHT_NOTE) {
        loader_fail(l, "its section %.60s of type %u cannot be loaded", name, s->sh_type);
        return false;
    }
    if ((s->sh_flags & SHF_TLS) != 0 ||
        ((s->sh_flags & SHF_WRITE) != 0 && strncmp(name, ".data.rel.ro", 12) != 0)) {
        loader_fail(l, "its section %.60s is writable; kernels keep no data of their own",
                    name);
        return false;
    }
    return true;
}

static bool sections_load_kind(Loader *l, bool executable, uint64_t *at)
{
    for (size_t i = 1; i < l->section_count; i++) {
        const Elf64_Shdr *s = &l->sections[i];
        if (!section_is_loaded(l, i) ||
            ((s->sh_flags & SHF_EXECINSTR) != 0) != executable)
            continue;
        if (!section_check(l, i))
            return false;
        uint64_t align = s->sh_addralign == 0 ? 1 : s->sh_addralign;
        *at = (*at + align - 1) & ~(align - 1);
        l->loaded[i].offset = *at;
        l->loaded[i].is_loaded = true;
        *at += s->sh_size;
        if (*at > OBJECT_MOST_BYTES) {
            loader_fail(l, "it is too large");
            return false;
        }
    }
    return true;
}

/* Fixes the offsets of all parts and copies the sections into fresh writable memory. */
static bool sections_load(Loader *l)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t at = 0;
    if (!sections_load_kind(l, true, &at))
        return false;
    at = (at + 15) & ~UINT64_C(15);
    l->stub_offset = at;
    at += l->symbol_count * RELOCATE_STUB_BYTES;
    if (at > OBJECT_MOST_BYTES) {
        loader_fail(l, "it has too many symbols");
        return false;
    }
    l->stub_end = at;
    at = (at + page - 1) & ~(page - 1);
    l->code_bytes = at;
    if (!sections_load_kind(l, false, &at))
        return false;
    l->memory_bytes = (at + page - 1) & ~(page - 1);
    if (l->memory_bytes == 0)
        l->memory_bytes = page;
    void *memory = mmap(NULL, l->memory_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        loader_fail(l, "no memory");
        return false;
    }
    l->memory = memory;
    for (size_t i = 1; i < l->section_count; i++)
        if (l->loaded[i].is_loaded)
            memcpy(l->memory + l->loaded[i].offset, l->data + l->sections[i].sh_offset,
                   l->sections[i].sh_size);
    return true;
}

bool loader_symbol_address(Loader *l, size_t index, uintptr_t *out)
{
    const Elf64_Sym *symbol = &l->symbols[index];
    if (symbol->st_shndx == SHN_UNDEF) {
        const char *name = loader_symbol_name(l, symbol);
        *out = export_find(name);
        if (*out == 0)
            loader_fail(l, "it calls %.100s, which the emulator does not have", name);
        return *out != 0;
    }
    size_t section = symbol->st_shndx;
    if (section >= l->section_count || !l->loaded[section].is_loaded ||
        symbol->st_value > l->sections[section].sh_size) {
        loader_fail(l, "its symbol %.100s lies outside", loader_symbol_name(l, symbol));
        return false;
    }
    *out = (uintptr_t)l->memory + l->loaded[section].offset + symbol->st_value;
    return true;
}

static bool section_relocate(Loader *l, size_t index)
{
    const Elf64_Shdr *s = &l->sections[index];
    size_t target = s->sh_info;
    if (target >= l->section_count || !l->loaded[target].is_loaded)
        return true; /* of debug information or unwind tables */
    if (s->sh_entsize != sizeof(Elf64_Rela) || s->sh_link != l->symbol_section) {
        loader_fail(l, "its relocations in section %zu are damaged", index);
        return false;
    }
    for (uint64_t i = 0; i < s->sh_size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;
        memcpy(&r, l->data + s->sh_offset + i * sizeof r, sizeof r);
        size_t symbol = ELF64_R_SYM(r.r_info);
        if (symbol >= l->symbol_count) {
            loader_fail(l, "a relocation of section %zu names no symbol", index);
            return false;
        }
        if (!relocate(l, target, &r, symbol))
            return false;
    }
    return true;
}

static bool sections_relocate(Loader *l)
{
    for (size_t i = 1; i < l->section_count; i++) {
        if (l->sections[i].sh_type == SHT_REL &&
            l->sections[i].sh_info < l->section_count &&
            l->loaded[l->sections[i].sh_info].is_loaded) {
            loader_fail(l, "its section %zu has relocations without addends", i);
            return false;
        }
        if (l->sections[i].sh_type == SHT_RELA && !section_relocate(l, i))
            return false;
    }
    return true;
}

static int name_compare(const void *a, const void *b)
{
    const struct ObjectName *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* A function that can be launched, or the data that tells of one. */
static bool symbol_is_kept(const Loader *l, const Elf64_Sym *s)
{
    if (s->st_shndx == SHN_UNDEF || s->st_shndx >= l->section_count ||
        !l->loaded[s->st_shndx].is_loaded)
        return false;
    const Elf64_Shdr *section = &l->sections[s->st_shndx];
    if ((section->sh_flags & SHF_EXECINSTR) != 0)
        return ELF64_ST_TYPE(s->st_info) == STT_FUNC;
    return ELF64_ST_TYPE(s->st_info) == STT_OBJECT && s->st_value <= section->sh_size &&
           s->st_size <= section->sh_size - s->st_value;
}

/* An array with room for `needed` elements of `size` bytes; false: no memory. */
static bool array_reserve(Loader *l, void **array, size_t *capacity, size_t needed,
                          size_t size)
{
    if (needed <= *capacity)
        return true;
    size_t more = needed > 2 * *capacity ? needed : 2 * *capacity;
    void *p = realloc(*array, more * size);
    if (p == NULL) {
        loader_fail(l, "no memory");
        return false;
    }
    *array = p;
    *capacity = more;
    return true;
}

static bool names_reserve(Loader *l, Object *o, Part *part)
{
    size_t text = 0, count = 0;
    for (size_t i = 1; i < l->symbol_count; i++) {
        const Elf64_Sym *s = &l->symbols[i];
        if (!symbol_is_kept(l, s))
            continue;
        count++;
        text += strlen(loader_symbol_name(l, s)) + 1;
    }
    void *names = o->names;
    bool done = array_reserve(l, &names, &o->name_capacity, o->name_count + count,
                              sizeof *o->names);
    o->names = names;
    part->strings = malloc(text + 1);
    if (part->strings == NULL)
        loader_fail(l, "no memory");
    return done && part->strings != NULL;
}

static bool names_collect(Loader *l, Object *o, Part *part)
{
    if (!names_reserve(l, o, part))
        return false;
    char *at = part->strings;
    for (size_t i = 1; i < l->symbol_count; i++) {
        const Elf64_Sym *s = &l->symbols[i];
        uintptr_t address;
        if (!symbol_is_kept(l, s))
            continue;
        if (!loader_symbol_address(l, i, &address))
            return false;
        const char *name = loader_symbol_name(l, s);
        size_t bytes = strlen(name) + 1;
        memcpy(at, name, bytes);
        o->names[o->name_count++] =
            (struct ObjectName){.name = at,
                                .address = address,
                                .bytes = s->st_size,
                                .is_code = ELF64_ST_TYPE(s->st_info) == STT_FUNC};
        at += bytes;
    }
    return true;
}

static bool memory_protect(Loader *l)
{
#if defined(__aarch64__)
    __builtin___clear_cache((char *)l->memory, (char *)l->memory + l->code_bytes);
#endif
    if ((l->code_bytes != 0 &&
         mprotect(l->memory, l->code_bytes, PROT_READ | PROT_EXEC) != 0) ||
        (l->memory_bytes != l->code_bytes &&
         mprotect(l->memory + l->code_bytes, l->memory_bytes - l->code_bytes,
                  PROT_READ) != 0)) {
        loader_fail(l, "its memory cannot be made executable");
        return false;
    }
    return true;
}

static bool part_load(Object *o, const unsigned char *data, size_t bytes, char *reason)
{
    Loader l = {.data = data, .bytes = bytes, .reason = reason};
    void *parts = o->parts;
    bool done =
        array_reserve(&l, &parts, &o->part_capacity, o->part_count + 1, sizeof *o->parts);
    o->parts = parts;
    if (!done)
        return false;
    Part *part = &o->parts[o->part_count++];
    *part = (Part){0};
    done = header_read(&l) && sections_read(&l) && symbols_read(&l) &&
           sections_load(&l) && sections_relocate(&l) && names_collect(&l, o, part) &&
           memory_protect(&l);
    free(l.sections);
    free(l.loaded);
    free(l.symbols);
    free(l.stubs);
    part->memory = l.memory;
    part->bytes = l.memory_bytes;
    return done;
}

/* -- archives, in the form of ar ---------------------------------------------------------------- */

static const char archive_magic[] = "!<arch>\n";
enum {
    ARCHIVE_MAGIC_BYTES = sizeof archive_magic - 1,
    MEMBER_HEADER_BYTES = 60,
    MEMBER_SIZE_AT = 48, /* decimal, blanks behind it */
    MEMBER_SIZE_DIGITS = 10
};

/* The size in a member's header; SIZE_MAX: it is none. */
static size_t member_size(const unsigned char *header)
{
    size_t bytes = 0;
    int i = 0;
    for (; i < MEMBER_SIZE_DIGITS; i++) {
        unsigned char c = header[MEMBER_SIZE_AT + i];
        if (c < '0' || c > '9')
            break;
        bytes = bytes * 10 + (size_t)(c - '0');
    }
    return i == 0 || memcmp(header + MEMBER_HEADER_BYTES - 2, "`\n", 2) != 0 ? SIZE_MAX
                                                                             : bytes;
}

static bool archive_load(Object *o, const unsigned char *data, size_t bytes, char *reason)
{
    for (size_t at = ARCHIVE_MAGIC_BYTES; at < bytes;) {
        Loader l = {.reason = reason};
        size_t left = bytes - at;
        size_t size = left < MEMBER_HEADER_BYTES ? SIZE_MAX : member_size(data + at);
        if (size > left - MEMBER_HEADER_BYTES) {
            loader_fail(&l, "its member at byte %zu is damaged", at);
            return false;
        }
        at += MEMBER_HEADER_BYTES;
        if (!part_load(o, data + at, size, reason))
            return false;
        at += size + (size & 1);
    }
    return true;
}

Object *object_load(const void *data, size_t bytes, char reason[OBJECT_REASON_BYTES])
{
    Loader l = {.reason = reason};
    Object *o = calloc(1, sizeof *o);
    if (o == NULL)
        loader_fail(&l, "no memory");
    bool is_archive = bytes >= ARCHIVE_MAGIC_BYTES &&
                      memcmp(data, archive_magic, ARCHIVE_MAGIC_BYTES) == 0;
    bool done = o != NULL && machine_check(&l) &&
                (is_archive ? archive_load(o, data, bytes, reason)
                            : part_load(o, data, bytes, reason));
    if (!done) {
        object_unload(o);
        return NULL;
    }
    if (o->name_count != 0)
        qsort(o->names, o->name_count, sizeof *o->names, name_compare);
    return o;
}

void object_unload(Object *o)
{
    if (o == NULL)
        return;
    for (size_t i = 0; i < o->part_count; i++) {
        if (o->parts[i].memory != NULL)
            munmap(o->parts[i].memory, o->parts[i].bytes);
        free(o->parts[i].strings);
    }
    free(o->parts);
    free(o->names);
    free(o);
}

static const struct ObjectName *find_name(const Object *o, const char *name)
{
    struct ObjectName key = {.name = name};
    return o->name_count == 0
               ? NULL
               : bsearch(&key, o->names, o->name_count, sizeof *o->names, name_compare);
}

gxemu_kernel object_kernel(const Object *o, const char *name)
{
    const struct ObjectName *found = find_name(o, name);
    return found == NULL || !found->is_code ? NULL : (gxemu_kernel)found->address;
}

const unsigned char *object_data(const Object *o, const char *name, size_t *out_bytes)
{
    const struct ObjectName *found = find_name(o, name);
    if (found == NULL || found->is_code)
        return NULL;
    *out_bytes = found->bytes;
    return (const unsigned char *)found->address;
}
