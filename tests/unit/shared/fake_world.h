/* Programs of collectives on the four devices of the fake driver, with the fake NCCL. */
#ifndef GXC_TESTS_UNIT_SHARED_FAKE_WORLD_H
#define GXC_TESTS_UNIT_SHARED_FAKE_WORLD_H

#include "tests/unit/shared/fake_nccl.h"
#include "tests/unit/shared/program.h"

void world_begin(Maker *m);
/* `groups` groups of devices: for each its size and its members, `count` numbers in all. */
uint32_t world_clique(Maker *m, uint32_t groups, const int64_t *numbers, uint32_t count);
uint32_t world_clique_of_all(Maker *m);
/* A collective of a new s32[n] argument into a new s32[out] result. What is returned may be changed until the next is
 * added. */
PlanCollective *world_collective(Maker *m, uint32_t kind, uint32_t on, int64_t n,
                                 int64_t out);

typedef struct FakeWorld {
    Program program;
    gxrt_session *session;
    gxrt_buffer arguments[FAKE_RANKS][4], results[FAKE_RANKS][4];
    gxrt_run runs[FAKE_RANKS];
} FakeWorld;

/* With buffers for all arguments and results; results are filled with 0x5a. */
void world_open(FakeWorld *w, Maker *m, const gxrt_session_options *options);
void world_run(FakeWorld *w);
/* `lonely`: so many communicators were closed without the others. */
void world_end(FakeWorld *w, int lonely);
void world_close(FakeWorld *w);

#endif
