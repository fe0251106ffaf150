/* Reports: time by stage, and the numbers of a compile as text and as JSON. */
#ifndef GXC_FRONTEND_REPORT_H
#define GXC_FRONTEND_REPORT_H

#include "codegen/codegen.h"
#include "frontend/result.h"
#include "ir/analysis/simulate.h"
#include "passes/pass.h"

#define STAGES_MOST 32

typedef struct StageTimes {
    struct {
        const char *name;
        double seconds; /* processor time of the process */
    } stages[STAGES_MOST];
    size_t count;
    double began; /* of the open stage */
    bool open;
} StageTimes;

/* Ends the open stage and begins another; a name that was there before goes on adding. */
void stage_begin(StageTimes *t, const char *name);
void stage_end(StageTimes *t);
void stage_notes(const StageTimes *t, Diag *d); /* --timing */

/* Sets report_text and report_json. cg: NULL if no plan was made; counts: of the passes for the
 * first target; simulation: of its schedule, step 0 if there is none. */
void report_make(gxc_result *r, const Codegen *cg, const StageTimes *times,
                 const PassCounts *counts, const Simulation *simulation);

#endif
