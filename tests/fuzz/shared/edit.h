/* Edits of a plan: what a structured fuzzer changes, so that most of what it makes is still read. */
#ifndef GXC_TESTS_FUZZ_EDIT_H
#define GXC_TESTS_FUZZ_EDIT_H

#include "runtime/plan/builder.h"
#include "runtime/plan/plan.h"

enum { EDIT_BYTES = 6 };

/* The builder holds the plan's records. */
void edit_open(PlanBuilder *b, const Plan *plan);

/* One edit for EDIT_BYTES bytes of `data`: of which section (byte 0), record (1) and field (2), what
 * (3: EditKind and width), with which number (4 and 5). */
void edit_apply(PlanBuilder *b, const uint8_t *data, size_t size);

#endif
