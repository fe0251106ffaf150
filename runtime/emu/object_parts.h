/* The loader's working state, shared by object.c and relocate.c. */
#ifndef GXC_RUNTIME_EMU_OBJECT_PARTS_H
#define GXC_RUNTIME_EMU_OBJECT_PARTS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stub stands for an external function or address: code that jumps to the address, which
 * lies in its last 8 bytes. */
enum { RELOCATE_STUB_BYTES = 24, RELOCATE_STUB_ADDRESS = 16 };

#if defined(__x86_64__)
#define RELOCATE_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define RELOCATE_MACHINE EM_AARCH64
#else
#error "the emulator loads objects for x86-64 and aarch64"
#endif

typedef struct Loader {
    const unsigned char *data;
    size_t bytes;
    char *reason;
    bool failed;
    Elf64_Ehdr header;
    Elf64_Shdr *sections;
    size_t section_count;
    struct {
        uint64_t offset; /* in memory */
        bool is_loaded;
    } * loaded;
    Elf64_Sym *symbols;
    size_t symbol_count;
    size_t symbol_section;
    uint64_t *stubs; /* for each symbol the offset of its stub, 0: none yet */
    unsigned char *memory;
    uint64_t memory_bytes;
    uint64_t code_bytes; /* the executable part, with the stubs at its end */
    uint64_t stub_offset;
    uint64_t stub_end;
} Loader;

/* Sets the reason; the first one stays. */
void loader_fail(Loader *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *loader_symbol_name(const Loader *l, const Elf64_Sym *symbol);
/* False: the symbol lies outside or is unknown. */
bool loader_symbol_address(Loader *l, size_t index, uintptr_t *out);

/* Applies one relocation of the loaded section `target`. False: refused. */
bool relocate(Loader *l, size_t target, const Elf64_Rela *r, size_t symbol);

#endif
