/* Small programs, made record by record, and running them on the fake driver. */
#ifndef GXC_TESTS_UNIT_SHARED_PROGRAM_H
#define GXC_TESTS_UNIT_SHARED_PROGRAM_H

#include "runtime/plan/builder.h"
#include "runtime/plan/plan.h"
#include "runtime/run/session.h"

/* A plan for sm_90a with the kernels of the fake driver: add(in, out, n, number), less(in, out,
 * limit). */
typedef struct Maker {
    PlanBuilder b;
    uint32_t add, less; /* kernels */
} Maker;

void maker_init(Maker *m);
uint32_t maker_slice(Maker *m, uint32_t allocation, uint64_t offset, uint64_t bytes);
uint32_t maker_allocation(Maker *m, uint32_t kind, uint32_t index, uint64_t bytes);
/* An s32[n] argument or result; returns its slice. */
uint32_t maker_value(Maker *m, bool result, int64_t n, uint32_t alias,
                     uint32_t alias_kind);
uint32_t maker_command(Maker *m, uint32_t kind, uint32_t index, const PlanArg *args,
                       uint32_t count);
uint32_t maker_add(Maker *m, uint32_t in, uint32_t out, uint64_t n, PlanArg what);

/* Of matrices of f32 with so many rows and columns; without workspace. */
PlanMatmul square_product(uint32_t n);

PlanArg reads(uint32_t s);
PlanArg writes(uint32_t s);
PlanArg immediate(uint64_t n);

/* The bytes of an artefact around the plan, the caller's to free. */
void *artefact(Maker *m, const void *constants, size_t constant_bytes, size_t *out_size);

typedef struct Program {
    void *file;
    gxrt_program *program;
} Program;

Program open_program(Maker *m, const void *constants, size_t bytes);
void close_program(Program *p); /* and nothing has leaked */
gxrt_session *open_session(const Program *p);

/* Runs on one device: arguments and results are s32 arrays; result i takes the buffer of
 * argument shared[i] if that is not -1. */
gxrt_status run_program(gxrt_session *s, size_t n, int32_t *const *in,
                        const size_t *in_count, size_t results, int32_t *const *out,
                        const size_t *out_count, const int *shared);

/* Of a tuner to which all results are right and that keeps nothing of the trials. */
int accept_results(void *user, const char *dtype, const void *wanted, const void *found,
                   size_t bytes);
void ignore_trial(void *user, const gxrt_trial *trial);

/* A loop over the layers of an s32[3,4] argument, a copy from a constant, a fill. */
Program loop_program(void);
Program image_program(bool is_damaged);
/* The bytes of an artefact for sm_80: out = in + 5, with PTX, and by CUDA Tile IR with 7 blocks as a cubin, 9 as
 * bytecode. */
void *portable_file(const char *ptx, size_t ptx_bytes, size_t *out_size);
/* out = in + 10 in a loop of so many trips, in the argument's memory. */
Program trips_program(int64_t trips);
/* A loop with a predicate on the device, then a conditional; an aliased argument. */
Program predicate_program(void);

#endif
