/* Reports: time by stage, and the numbers of a compile as text and as JSON. */
#ifndef GXC_FRONTEND_REPORT_REPORT_H
#define GXC_FRONTEND_REPORT_REPORT_H

#include "codegen/codegen.h"
#include "frontend/report/kernel_report.h"
#include "frontend/result.h"
#include "ir/analysis/simulate.h"
#include "passes/pass.h"

#define STAGES_MOST 32
#define STAGE_PARTS_MOST 96

typedef struct StageTimes {
    struct StageTime {
        const char *name;
        double seconds; /* processor time of the process */
        double wall;
        bool has_run;
    } stages[STAGES_MOST], parts[STAGE_PARTS_MOST]; /* parts: passes, of all targets */
    size_t count, part_count;
    double began, wall_began;           /* of the open stage */
    double part_began, part_wall_began; /* when the last part of it ended */
    bool open;
} StageTimes;

/* Ends the open stage and begins another; a name that was there before goes on adding. */
void stage_begin(StageTimes *t, const char *name);
void stage_end(StageTimes *t);
/* The time since the last part ended, or the stage began, goes to the part of this name, which has
 * run or was left out. */
void stage_part(StageTimes *t, const char *name, bool has_run);
void stage_skip(StageTimes *t); /* that time goes to none */

/* What the model of time says of a scheduled program; all 0 if it was not asked. */
typedef struct ModelReport {
    Simulation simulation;
    KernelReport kernels;
} ModelReport;

/* --timing: a note for each stage, and what making code took. cg: NULL if no plan was made. */
void report_timing(const StageTimes *t, const Codegen *cg, Diag *d);

/* Sets report_text and report_json. cg: NULL if no plan was made; counts: of the passes for the
 * first target; model: of its schedule; without_cudnn: why it was asked for nothing, NULL if it was not
 * wanted, or is there. */
void report_make(gxc_result *r, const Codegen *cg, const StageTimes *times,
                 const PassCounts *counts, const ModelReport *model,
                 const char *without_cudnn);

/* tiles.c: the program of tiles (ir/tile/tile.h) of each kernel that is one, as gxc's own code has it (CUDA Tile IR may
 * be given another), as text in `a`, for kernels that have their configurations; one line where there is none. */
const char *report_tiles(Arena *a, const Module *m, const Target *target, size_t *length);

#endif
