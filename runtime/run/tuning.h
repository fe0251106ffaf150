/* One command being tuned: the memory that its candidates write, the candidates, and what each of them did. */
#ifndef GXC_RUNTIME_RUN_TUNING_H
#define GXC_RUNTIME_RUN_TUNING_H

#include "runtime/run/tune.h"

enum {
    TUNING_SAMPLES = 7,
    TUNING_REGIONS_MOST = 64,
    TUNING_FAILURE_TEXT = 256,
    TUNING_ALGORITHM_TEXT = 256
};

/* Memory that the launch writes, and where candidates write instead. */
typedef struct Region {
    CUdeviceptr at;
    size_t bytes;
    bool is_read;      /* before it is written: its contents matter */
    CUdeviceptr block; /* zone, bytes, zone */
} Region;

/* What one candidate did. */
typedef struct Trial {
    const char *kind, *config;
    uint32_t kernel; /* of the plan; PLAN_NONE: a library's algorithm */
    cublasLtMatmulAlgo_t algorithm;
    uint32_t configuration; /* of a graph: which of Tuning.graphs */
    char algorithm_config[TUNING_ALGORITHM_TEXT];
    uint64_t workspace_bytes, modelled;
    char failure[TUNING_FAILURE_TEXT]; /* "": none */
    unsigned char *results; /* of all regions; the first of a cluster keeps them */
    size_t cluster;         /* number of its first trial */
    unsigned batch;         /* launches of a sample */
    double samples[TUNING_SAMPLES]; /* microseconds of a launch */
    uint64_t picoseconds;           /* the sample in the middle */
} Trial;

typedef struct Tuning {
    Device *device;
    const PlanTunable *tunable;
    const PlanCommand *command;
    CUstream stream;
    Region regions[TUNING_REGIONS_MOST];
    size_t region_count, result_bytes;
    uint64_t *slots; /* by arg */
    void **parameters;
    GxemuParameter *touches; /* of the emulator */
    GraphTrials *graphs;     /* of a command of cuDNN's, or NULL */
    Trial *trials;
    uint32_t trial_count;
} Tuning;

/* False: the driver refused `call`; *st says so. */
bool tuning_driver_ok(const Tuning *t, CUresult r, const char *call, gxrt_status *st);
gxrt_status tuning_wait(const Tuning *t);

/* -- tuning_memory.c: what the command writes, and where its candidates write instead -- */

const PlanArg *tuning_arg(const Tuning *t, uint32_t i);
/* Where the command writes, and which of it it reads. False: an operand lies partly in it, or there is too much. */
bool tuning_find_regions(Tuning *t);
gxrt_status tuning_allocate_regions(Tuning *t);
/* As the command finds them. */
gxrt_status tuning_fill_regions(const Tuning *t);
/* Where operand `i` is: in the tuner's memory, if the command writes it. */
uint64_t tuning_address(Tuning *t, uint32_t i);
/* The trial's results; it fails if it wrote beside them. */
gxrt_status tuning_download(const Tuning *t, Trial *trial);
/* The caller's function finds the results of both to be equal. */
bool tuning_agrees(const Tuning *t, const Trial *x, const Trial *y);

/* -- tuning_trials.c: candidates -- */

gxrt_status tuning_add_trials(Tuning *t);
/* The command's arguments, with the tuner's memory in place of what it writes. */
gxrt_status tuning_make_parameters(Tuning *t);
/* Queues it. What the driver or the library refuses is the candidate's failure. */
bool tuning_launch(const Tuning *t, Trial *trial);

#endif
