/* Arrays with run-time sizes: what becomes of them before kernels see them. */
#ifndef GXC_PASSES_DYNAMIC_DYNAMIC_H
#define GXC_PASSES_DYNAMIC_DYNAMIC_H

#include "ir/custom_call/custom_call.h"
#include "passes/pass.h"
#include "passes/simplify/rewrite.h"

/* Parameters and results of the entry; also for the evaluator, which then takes and gives the
 * same arrays as the compiled program. */
PassFn pass_dynamic_interface;
PassFn pass_static_shapes; /* everything else */

/* The same array, all dimensions static; tuples: each array inside. */
const Shape *dynamic_bounds(Intern *t, const Shape *s);

#endif
