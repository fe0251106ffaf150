/* The relocations that position-independent code of LLVM has, for x86-64 and aarch64. */
#include <inttypes.h>
#include <string.h>

#include "runtime/emu/object_parts.h"

/* The stub of a symbol, made when first asked for. */
static bool stub_find(Loader *l, size_t symbol, uintptr_t *out)
{
    if (l->stubs[symbol] == 0) {
        uintptr_t address;
        if (!loader_symbol_address(l, symbol, &address))
            return false;
        if (l->stub_end - l->stub_offset < RELOCATE_STUB_BYTES) {
            loader_fail(l, "it has too many external calls");
            return false;
        }
        unsigned char *stub = l->memory + l->stub_offset;
#if defined(__x86_64__)
        static const unsigned char code[RELOCATE_STUB_ADDRESS] = {
            0xff, 0x25, 0x0a, 0, 0, 0, /* jmp *10(%rip) */
        };
        memcpy(stub, code, sizeof code);
#else
        static const uint32_t code[RELOCATE_STUB_ADDRESS / 4] = {
            0x58000090, /* ldr x16, +16 */
            0xd61f0200, /* br x16 */
        };
        memcpy(stub, code, sizeof code);
#endif
        memcpy(stub + RELOCATE_STUB_ADDRESS, &address, sizeof address);
        l->stubs[symbol] = l->stub_offset + 1; /* + 1: 0 means none */
        l->stub_offset += RELOCATE_STUB_BYTES;
    }
    *out = (uintptr_t)l->memory + l->stubs[symbol] - 1;
    return true;
}

static bool refuse(Loader *l, const char *what, size_t target, const Elf64_Rela *r)
{
    loader_fail(l,
                "%s: relocation of type %u at 0x%" PRIx64 " of section %zu, symbol %.80s",
                what, (unsigned)ELF64_R_TYPE(r->r_info), (uint64_t)r->r_offset, target,
                loader_symbol_name(l, &l->symbols[ELF64_R_SYM(r->r_info)]));
    return false;
}

/* The bytes to change, or NULL if they do not lie in the section. */
static unsigned char *field_of(Loader *l, size_t target, const Elf64_Rela *r,
                               uint64_t bytes)
{
    uint64_t size = l->sections[target].sh_size;
    if (r->r_offset > size || bytes > size - r->r_offset)
        return NULL;
    return l->memory + l->loaded[target].offset + r->r_offset;
}

static bool fits_s32(int64_t value)
{
    return value >= INT32_MIN && value <= INT32_MAX;
}

#if defined(__x86_64__)

static bool is_call(const Loader *l, size_t symbol)
{
    return l->symbols[symbol].st_shndx == SHN_UNDEF;
}

bool relocate(Loader *l, size_t target, const Elf64_Rela *r, size_t symbol)
{
    uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info);
    uintptr_t s;
    if (type == R_X86_64_NONE)
        return true;
    uint64_t bytes = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
    unsigned char *field = field_of(l, target, r, bytes);
    if (field == NULL)
        return refuse(l, "outside its section", target, r);
    int64_t p = (int64_t)(uintptr_t)field, value;
    switch (type) {
    case R_X86_64_64:
        if (!loader_symbol_address(l, symbol, &s))
            return false;
        value = (int64_t)((uint64_t)s + (uint64_t)r->r_addend);
        memcpy(field, &value, 8);
        return true;
    case R_X86_64_PC64:
        if (!loader_symbol_address(l, symbol, &s))
            return false;
        value = (int64_t)((uint64_t)s + (uint64_t)r->r_addend - (uint64_t)p);
        memcpy(field, &value, 8);
        return true;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
        if (is_call(l, symbol) ? !stub_find(l, symbol, &s)
                               : !loader_symbol_address(l, symbol, &s))
            return false;
        break;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        if (!stub_find(l, symbol, &s))
            return false;
        s += RELOCATE_STUB_ADDRESS;
        break;
    default:
        return refuse(l, "not supported", target, r);
    }
    value = (int64_t)((uint64_t)s + (uint64_t)r->r_addend - (uint64_t)p);
    if (!fits_s32(value))
        return refuse(l, "too far", target, r);
    int32_t narrow = (int32_t)value;
    memcpy(field, &narrow, 4);
    return true;
}

#else

/* Puts `count` bits of value, from bit `from`, into the instruction at bit `at`. */
static void insert(unsigned char *field, uint64_t value, unsigned from, unsigned count,
                   unsigned at)
{
    uint32_t word, mask = (uint32_t)((UINT64_C(1) << count) - 1);
    memcpy(&word, field, 4);
    word = (word & ~(mask << at)) | ((uint32_t)(value >> from) & mask) << at;
    memcpy(field, &word, 4);
}

static bool insert_page(unsigned char *field, uint64_t address)
{
    int64_t pages = (int64_t)((address >> 12) - ((uint64_t)(uintptr_t)field >> 12));
    if (pages < -(1 << 20) || pages >= 1 << 20)
        return false;
    insert(field, (uint64_t)pages, 0, 2, 29);
    insert(field, (uint64_t)pages, 2, 19, 5);
    return true;
}

static unsigned load_shift(uint32_t type)
{
    switch (type) {
    case R_AARCH64_LDST16_ABS_LO12_NC:
        return 1;
    case R_AARCH64_LDST32_ABS_LO12_NC:
        return 2;
    case R_AARCH64_LDST64_ABS_LO12_NC:
        return 3;
    case R_AARCH64_LDST128_ABS_LO12_NC:
        return 4;
    default:
        return 0;
    }
}

bool relocate(Loader *l, size_t target, const Elf64_Rela *r, size_t symbol)
{
    uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info);
    uintptr_t s;
    if (type == R_AARCH64_NONE)
        return true;
    bool wide = type == R_AARCH64_ABS64 || type == R_AARCH64_PREL64;
    unsigned char *field = field_of(l, target, r, wide ? 8 : 4);
    if (field == NULL)
        return refuse(l, "outside its section", target, r);
    bool got = type == R_AARCH64_ADR_GOT_PAGE || type == R_AARCH64_LD64_GOT_LO12_NC;
    bool call = type == R_AARCH64_CALL26 || type == R_AARCH64_JUMP26;
    bool external = l->symbols[symbol].st_shndx == SHN_UNDEF;
    if (got || (call && external) ? !stub_find(l, symbol, &s)
                                  : !loader_symbol_address(l, symbol, &s))
        return false;
    if (got)
        s += RELOCATE_STUB_ADDRESS;
    uint64_t value = (uint64_t)s + (got ? 0 : (uint64_t)r->r_addend);
    int64_t distance = (int64_t)(value - (uint64_t)(uintptr_t)field);
    switch (type) {
    case R_AARCH64_ABS64:
        memcpy(field, &value, 8);
        return true;
    case R_AARCH64_PREL64:
        memcpy(field, &distance, 8);
        return true;
    case R_AARCH64_PREL32: {
        int32_t narrow = (int32_t)distance;
        memcpy(field, &narrow, 4);
        return fits_s32(distance) || refuse(l, "too far", target, r);
    }
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
        if (distance < -(1 << 27) || distance >= 1 << 27)
            return refuse(l, "too far", target, r);
        insert(field, (uint64_t)distance, 2, 26, 0);
        return true;
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADR_GOT_PAGE:
        return insert_page(field, value) || refuse(l, "too far", target, r);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
    case R_AARCH64_LDST16_ABS_LO12_NC:
    case R_AARCH64_LDST32_ABS_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LDST128_ABS_LO12_NC:
        insert(field, value & 0xfff, load_shift(type), 12 - load_shift(type), 10);
        return true;
    case R_AARCH64_LD64_GOT_LO12_NC:
        insert(field, value & 0xfff, 3, 9, 10);
        return true;
    default:
        return refuse(l, "not supported", target, r);
    }
}

#endif
