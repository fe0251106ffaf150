/* The file of a compiled program: an ELF file, the GPU's own, with plans, host code and constants as sections behind
 * what the GPU's loader reads. */
#ifndef GXC_RUNTIME_PLAN_ELF_H
#define GXC_RUNTIME_PLAN_ELF_H

#include <stdbool.h>
#include <stddef.h>

#define PLAN_ELF_PLAN ".gxc.plan"     /* of variant 0; variant N: ".gxc.plan.N" */
#define PLAN_ELF_EMU ".gxc.emu"       /* host object of variant 0; ".gxc.emu.N" */
#define PLAN_ELF_CUBIN ".gxc.cubin"   /* only ".gxc.cubin.N", N >= 1 */
#define PLAN_ELF_IMAGES ".gxc.images" /* of variant 0; ".gxc.images.N" */
#define PLAN_ELF_CONST ".gxc.const"   /* constants of all variants */
#define PLAN_ELF_HLO ".gxc.hlo"       /* with --embed-hlo */

typedef struct PlanElfSection {
    const char *name;
    const void *bytes;
    size_t size;
} PlanElfSection;

/* Finds a section of a 64-bit little-endian ELF file by name, reading nothing outside
 * [file, file + size). False if the file is no such ELF or has no such section. */
bool plan_elf_find(const void *file, size_t size, const char *name, PlanElfSection *out);
bool plan_elf_is(const void *file, size_t size); /* starts like such an ELF file */

/* Whether all that `header`, the original header of this ELF file, names lies in the file: CUDA's
 * loader is given no size. */
bool plan_elf_is_whole(const void *file, size_t size, const void *header);

/* `cubin` with the sections behind it: its bytes stay where they are, only the ELF header
 * changes. Sections start at multiples of PLAN_CONSTANT_ALIGNMENT. The result is the
 * caller's to free. False, and *error says why, if `cubin` is no ELF or memory ran out. */
bool plan_elf_append(const void *cubin, size_t size, const PlanElfSection *sections,
                     size_t count, void **out_bytes, size_t *out_size,
                     const char **error);

#endif
