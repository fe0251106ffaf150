/* The part of a report that says where the time goes: the program's kernels, library calls, copies and
 * collectives by the model of time (ir/kernel/time/work.h), longest first. */
#ifndef GXC_FRONTEND_REPORT_KERNEL_REPORT_H
#define GXC_FRONTEND_REPORT_KERNEL_REPORT_H

#include <jansson.h>

#include "codegen/codegen.h"
#include "ir/base/text.h"
#include "ir/kernel/candidates.h"
#include "ir/kernel/time/work.h"

typedef struct KernelRow {
    const char *name;        /* of the kernel; of what launches none the instruction's */
    const Instruction *inst; /* the first that it stands for */
    uint64_t launches;       /* in the program, loops or not */
    double runs; /* trips of loops counted; of conditionals the longest branch's */
    const CodegenCommand *command; /* NULL: no code was made */
    KernelTime time;               /* of one */
    double seconds;                /* of all runs */
    const char *reason; /* why it is far from what the device could do; NULL: it is not */
    Candidates candidates; /* of a product: who could make it */
} KernelRow;

typedef struct KernelReport {
    KernelRow *rows;
    size_t count;
    double seconds; /* of all rows */
} KernelReport;

/* Of a scheduled module and the commands made from it (none: NULL). All in `a`. */
KernelReport kernel_report_make(const Module *m, const Target *t, CostModel *cost,
                                const CodegenCommand *commands, size_t command_count,
                                Arena *a);
void kernel_report_text(const KernelReport *r, Text *t);
json_t *kernel_report_json(const KernelReport *r);

#endif
