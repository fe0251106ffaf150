/* What a call of the library gives back: gxc_result, and how it is made. */
#ifndef GXC_FRONTEND_RESULT_H
#define GXC_FRONTEND_RESULT_H

#include "frontend/gxc.h"
#include "ir/eval/eval.h"
#include "ir/module.h"

struct gxc_result {
    Arena *arena; /* everything below */
    const void *bytes;
    size_t size;
    const char *diagnostics;
    const char *report_text, *report_json;
    size_t parameter_count, output_count, device_count;
    int64_t partition_count;
    gxc_array *parameters; /* [parameter_count], no data */
    const char **parameter_names, **output_names;
    gxc_array
        *outputs; /* [output_count] shapes; evaluated: [device_count * output_count] */
    bool evaluated;
    uint8_t module_hash[16];
};

/* Fills parameters, outputs and counts from the entry computation. */
void result_set_signature(gxc_result *r, const Module *m, const EvalOptions *grid);

#endif
