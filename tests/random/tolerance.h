/* How far a result may lie from the evaluator's: an exact value not at all, any other as far as the coarsest
 * type that it went through allows. A softmax that is rounded to f16 and summed in f32 is as good as an f16:
 * where its exponentials differ in the last bit, a rounding may go the other way.
 *
 * Which values are exact only the generator knows. It says so in the first line of a module,
 * "// inexact: v1 v5", of the values that it named: v, p or sp and a number. */
#ifndef GXC_TESTS_RANDOM_TOLERANCE_H
#define GXC_TESTS_RANDOM_TOLERANCE_H

#include "ir/module.h"
#include "ir/number/number.h"

#define INEXACT_LINE "// inexact:"

/* Of the arrays of the entry's result, in order. `text` is the module's; without the line none but
 * parameters and constants are exact. Lives in `a`. */
const Tolerance *result_tolerances(const Module *m, const char *text, Arena *a);

#endif
