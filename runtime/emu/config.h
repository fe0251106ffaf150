/* How the emulator behaves: read once from the environment. These are all the variables that
 * it reads:
 *
 *   GXEMU_DEVICES=n          devices; 1 to 64
 *   GXEMU_ARCH=sm_90         compute capability that the devices report
 *   GXEMU_MEMORY=bytes       memory of each device
 *   GXEMU_DRIVER_VERSION=n   as cuDriverGetVersion gives it, 13000
 *   GXEMU_SHADOW=1           report bytes that nobody wrote and that are read
 *   GXEMU_RACE=1             report conflicting accesses of two threads
 *   GXEMU_COPIES=late        asynchronous copies into shared memory are made when they are waited for;
 *                early       when they are issued
 *   GXEMU_BANKS=file         how often kernels access shared memory, and conflicts of its banks, are
 *                            appended to the file: a line for each launch and HLO instruction
 *   GXEMU_SCHEDULE=eager     work runs when it is submitted, if nothing before it waits;
 *                  threads   one thread per stream runs it;
 *                  lazy      it runs when somebody waits for it, as late as possible
 *   GXEMU_STEPS=n            threads of kernels, elements of libraries' results and operations of streams in
 *                            all, 10^12
 *   GXEMU_STREAMS=n          streams of the process at a time, 4096
 *   GXEMU_WORKERS=n          OS threads that share the blocks of a launch; all cores
 *   GXEMU_DELAY=[seed:]us    microseconds before each operation of a stream; with a seed,
 *                            a random number up to that
 *   GXEMU_FAIL_CALL=[name:]n the n-th call (of that function) of this process fails
 *   GXEMU_NCCL_VERSION=n     as ncclGetVersion gives it, 22707
 *   GXEMU_CUDNN_VERSION=n    as cudnnGetVersion gives it, 91300
 *   GXEMU_CUSOLVER_VERSION=n as cusolverGetVersion gives it, 12000
 *   GXEMU_CUDNN_WORKSPACE=n  bytes that each of its plans says it needs, 0
 *   GXEMU_LOSE_RANK=r:k      rank r of a world never does its k-th call of a communicator (once a process)
 *   GXEMU_DELAY_RANK=r:us    microseconds before each collective of rank r */
#ifndef GXC_RUNTIME_EMU_CONFIG_H
#define GXC_RUNTIME_EMU_CONFIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { CONFIG_MOST_DEVICES = 64 };

typedef enum { SCHEDULE_EAGER, SCHEDULE_THREADS, SCHEDULE_LAZY } Schedule;

typedef struct EmuConfig {
    int devices;
    bool devices_given; /* by GXEMU_DEVICES */
    int major, minor;   /* compute capability */
    uint64_t memory;
    uint64_t steps;
    unsigned streams;
    int driver_version;
    bool shadow;
    bool race;
    bool copies_early;
    const char *banks; /* NULL: not counted */
    Schedule schedule;
    int workers;
    uint32_t delay;      /* microseconds */
    uint32_t delay_seed; /* not 0: `delay` is the most of random delays */
    int nccl_version;
    int cudnn_version;
    int cusolver_version;
    int64_t cudnn_workspace;
    int lose_rank;
    uint64_t lose_call; /* 0: none is lost */
    int delay_rank;
    uint32_t delay_rank_time; /* microseconds */
    atomic_long fail_call;    /* this many calls from now; 0: none */
    char fail_name[64];       /* empty: calls of all functions count */
    char problem[200]; /* a variable that cannot be read: cuInit fails with this text */
} EmuConfig;

EmuConfig *emu_config(void);

#endif
