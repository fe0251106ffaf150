/* Rounding at random: evaluated so several times, a program shows how far its results depend on
 * how values are rounded, which no tolerance by type can know: sums whose terms cancel, values
 * near the edge between two numbers of a narrow type. Monte Carlo arithmetic: Parker 1997.
 *
 * Where EvalOptions.rounding is not 0, what arithmetic gives, and what is summed, moves by a few
 * units in the last place. Not moved: whole numbers, which are mostly counts and exact; results of
 * operations that do not round (minimum, select, conversions), which programs compare for
 * equality; types of 8 bits and fewer. All devices move equal values alike, so they stay in step. */
#ifndef GXC_IR_EVAL_ROUNDING_H
#define GXC_IR_EVAL_ROUNDING_H

#include "ir/eval/call.h"

/* Before the operation: operands that it sums are replaced by moved copies. */
void rounding_move_operands(EvalCall *call);
/* After it: releases the copies, and moves what was computed. */
void rounding_move_result(EvalCall *call, Value *const *values);

#endif
