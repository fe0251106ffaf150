/* What the functions of one compile share. Not for callers of libgxc: they include gxc.h. */
#ifndef GXC_FRONTEND_COMPILE_H
#define GXC_FRONTEND_COMPILE_H

#include "codegen/codegen.h"
#include "codegen/library/planner.h"
#include "frontend/report/report.h"
#include "frontend/result.h"
#include "frontend/tuning.h"
#include "ir/print/print.h"
#include "passes/pipeline.h"
#include "passes/settings.h"

/* One call: what was asked, and what there is so far. */
typedef struct Compile {
    Arena *arena, *scratch;
    Arena **module_arenas; /* one for each target */
    Diag *diag;
    const char *name;
    const char *input;
    size_t size;
    gxc_options options;
    gxc_result *result;
    gxc_status status; /* why it ended early */
    PipelineOptions pipeline;
    PassSettings settings;
    PrintForm print;
    Target *targets;
    size_t target_count;
    size_t variant; /* the target whose passes run */
    bool emu;
    Codegen *codegen;
    Planner *planner;     /* of cuDNN's graphs; NULL: they are not allowed */
    const Tuning *tuning; /* NULL: no file */
    size_t device_count, parameter_count; /* gxc_evaluate */
    const gxc_array *inputs;
    StageTimes times;
    PassCounts counts; /* of the first target */
} Compile;

/* An error of the caller's, without a position in the text; ends in GXC_USAGE. */
void compile_usage_error(Compile *c, const char *format, ...) GXC_FORMAT(2, 3);

bool compile_has_failed(const Compile *c);

/* Lists and sizes that the caller has made wrong; nothing else may be read then. */
void compile_check_call(Compile *c);

/* The options are the caller's struct, which may be an older and shorter one. */
void compile_copy_options(Compile *c, const gxc_options *from);

/* Sets targets, the form of text, settings, tuning and planner from the options, or says what is wrong with them. */
void compile_check_options(Compile *c);

#endif
