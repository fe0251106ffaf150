/* The pipeline: one table of passes, run in its order. See pipeline.c. */
#ifndef GXC_PASSES_PIPELINE_H
#define GXC_PASSES_PIPELINE_H

#include "passes/pass.h"

typedef enum {
    PASS_LEFT_OUT, /* it would have changed nothing */
    PASS_CHANGED_NOTHING,
    PASS_CHANGED,
} PassResult;

typedef struct PipelineOptions {
    const char *only; /* comma-separated names: just these; "none"; NULL: the level's */
    const char *skip; /* comma-separated names */
    bool verify_each; /* verify after every pass (tests), else at each change of level */
    /* called after each pass; number counts from 1 */
    void (*after)(void *user, unsigned number, const char *pass, PassResult result,
                  const Module *m);
    void *user;
    const char *current; /* out: the pass that runs, for reports of bugs */
} PipelineOptions;

/* Runs the passes. False: the verifier found that a pass broke the module; m->diag says so. */
bool pipeline_run(Module *m, PassContext *cx, PipelineOptions *options);

/* The first name of a list that is no pass, or NULL. It points into the list. */
const char *pipeline_unknown_name(const char *list);

/* Row i of the table: NULL if there are fewer. */
const Pass *pipeline_row(size_t i);

#endif
