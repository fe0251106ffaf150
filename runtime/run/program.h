/* A file in memory: its variants, read and validated. */
#ifndef GXC_RUNTIME_RUN_PROGRAM_H
#define GXC_RUNTIME_RUN_PROGRAM_H

#include "runtime/gxrt.h"
#include "runtime/plan/elf.h"
#include "runtime/plan/plan.h"

typedef struct Variant {
    Plan plan;
    void *plan_copy;       /* the plan's bytes, where they were not aligned in the file */
    PlanElfSection cubin;  /* variant 0: the start of the file itself */
    PlanElfSection emu;    /* bytes NULL: no emulator object */
    PlanElfSection images; /* of the plan; size 0: there are none */
} Variant;

struct gxrt_program {
    const void *bytes;
    size_t size;
    int mapped; /* `bytes` is a mapping of ours */
    char *path; /* for messages; "" if it came from memory */
    Variant *variants;
    size_t variant_count;
    PlanElfSection constants;
    PlanElfSection hlo;
};

/* The variant's cubin as the assembler made it, to be freed; NULL without memory. */
void *program_cubin(const Variant *v);

/* The bytes of an image, and that which is PTX of all kernels; NULL: the variant has none. */
const char *program_image(const Variant *v, const PlanImage *m);
const PlanImage *program_ptx(const Variant *v);

/* "sm_90a, sm_100a": the targets in the file. */
void program_targets(const gxrt_program *program, char *text, size_t size);

/* Answers a query: copies what the caller's older or newer struct has room for. */
void program_give(void *to, const void *from, size_t size);
gxrt_status program_bad_query(const char *function);

#endif
