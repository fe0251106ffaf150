/* Artefacts around the plans that tests make. */
#ifndef GXC_TESTS_UNIT_SHARED_ARTEFACT_H
#define GXC_TESTS_UNIT_SHARED_ARTEFACT_H

#include "runtime/plan/builder.h"
#include "runtime/plan/elf.h"
#include "runtime/plan/plan.h"

enum { EMPTY_ELF_BYTES = 64 + 2 * 64 + 16 };

/* An ELF file of a header, no section and a table of no names: a cubin with nothing in it. */
void empty_elf(unsigned char elf[EMPTY_ELF_BYTES]);

/* The bytes of an artefact with an empty cubin, the caller's to free: the plan and `count` other
 * sections. The builder is done with. */
void *artefact_make(PlanBuilder *b, const PlanElfSection *sections, size_t count,
                    size_t *out_size);

/* The hash of a plan's header and table of sections, after a change to them. */
void plan_seal(PlanHeader *h);

#endif
