/* What a cubin says of its kernels: attributes in its sections .nv.info. See assemble.h. */
#include <elf.h>
#include <string.h>

#include "codegen/assembler/assemble.h"
#include "runtime/plan/elf.h"
#include "runtime/plan/plan.h"

enum { /* NVIDIA's: an attribute's form, and which it is */
       FORM_BYTES = 4,
       ATTRIBUTE_THREADS = 0x10,   /* three numbers */
       ATTRIBUTE_FRAME = 0x11,     /* symbol, bytes */
       ATTRIBUTE_REGISTERS = 0x2f, /* symbol, number */
};

static uint32_t number_at(const uint8_t *data)
{
    uint32_t n;
    memcpy(&n, data, sizeof n);
    return n;
}

/* The numbers of the first such attribute of a section; false: it has none. */
static bool find_attribute(const PlanElfSection *s, uint32_t attribute, uint32_t count,
                           uint32_t *numbers)
{
    const uint8_t *at = s->bytes, *end = at + s->size;
    while (end - at >= 4) {
        uint32_t form = at[0], which = at[1], bytes = at[2] | (uint32_t)at[3] << 8;
        at += 4;
        if (form != FORM_BYTES)
            continue;
        if (bytes > (size_t)(end - at))
            return false;
        for (uint32_t i = 0; which == attribute && i < count && 4 * i + 4 <= bytes; i++)
            numbers[i] = number_at(at + 4 * (size_t)i);
        if (which == attribute)
            return bytes >= 4 * count;
        at += bytes;
    }
    return false;
}

/* What its instructions write to local memory and read back. An instruction has 16 bytes, its lowest 12 bits say which
 * it is, and three of the upper half how much it moves (nvdisasm -hex, sm_80 to sm_120). The frame that a cubin states
 * may be of the function without what the assembler spills: that of tileiras 13.5 is 0 beside hundreds of spills. */
static void count_local(const PlanElfSection *code, KernelUse *use)
{
    enum { BYTES = 16, CODE = 0xfff, STORE = 0x387, LOAD = 0x983, SIZE = 9, SIZES = 7 };
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 8, 16, 0};
    for (size_t at = 0; at + BYTES <= code->size; at += BYTES) {
        const uint8_t *instruction = (const uint8_t *)code->bytes + at;
        uint32_t which = number_at(instruction) & CODE,
                 bytes = sizes[number_at(instruction + 8) >> SIZE & SIZES];
        use->spill_stores += which == STORE ? bytes : 0;
        use->spill_loads += which == LOAD ? bytes : 0;
    }
}

/* The size of a section that has no bytes in the file. */
static uint64_t empty_section_bytes(const void *cubin, size_t bytes, const char *name)
{
    Elf64_Ehdr h;
    PlanElfSection names;
    if (bytes < sizeof h || !plan_elf_find(cubin, bytes, ".shstrtab", &names))
        return 0;
    memcpy(&h, cubin, sizeof h);
    for (size_t i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr s;
        memcpy(&s, (const char *)cubin + h.e_shoff + i * sizeof s, sizeof s);
        if (s.sh_type == SHT_NOBITS && s.sh_name < names.size &&
            names.size - s.sh_name > strlen(name) &&
            strcmp((const char *)names.bytes + s.sh_name, name) == 0)
            return s.sh_size;
    }
    return 0;
}

bool cubin_kernel(Arena *a, const Cubin *cubin, const char *kernel, CubinKernel *out)
{
    PlanElfSection all, own, code;
    uint32_t pair[2], threads[3];
    *out = (CubinKernel){.use.name = kernel};
    for (size_t i = 0; i < cubin->use_count; i++) {
        if (strcmp(cubin->uses[i].name, kernel) == 0)
            out->use.loss = cubin->uses[i].loss;
    }
    if (!plan_elf_is_whole(cubin->data, cubin->bytes, cubin->data) ||
        !plan_elf_find(cubin->data, cubin->bytes, ".nv.info", &all) ||
        !plan_elf_find(cubin->data, cubin->bytes, arena_printf(a, ".nv.info.%s", kernel),
                       &own))
        return false;
    if (find_attribute(&own, ATTRIBUTE_THREADS, 3, threads))
        out->threads = threads[0] * threads[1] * threads[2];
    if (find_attribute(&all, ATTRIBUTE_REGISTERS, 2, pair))
        out->use.registers = pair[1];
    if (find_attribute(&all, ATTRIBUTE_FRAME, 2, pair))
        out->use.stack = pair[1];
    if (plan_elf_find(cubin->data, cubin->bytes, arena_printf(a, ".text.%s", kernel),
                      &code))
        count_local(&code, &out->use);
    out->shared_bytes = empty_section_bytes(cubin->data, cubin->bytes,
                                            arena_printf(a, ".nv.shared.%s", kernel));
    return true;
}
