#include "tests/unit/shared/tile_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/eval/eval.h"
#include "ir/kernel/kind.h"
#include "tests/unit/shared/kernel_case.h"

void tile_case_check(Arena *a, const char *name, const Instruction *fusion,
                     const TileProgram *p, const char *why,
                     const Literal *const *arguments, TileCaseCompare *compare)
{
    const Computation *body = inst_called(fusion, 0);
    EvalDevice device = {body->parameter_count, arguments, NULL};
    Literal *results[KERNEL_CASE_ARGS];
    uint32_t count = fusion_result_count(fusion);
    const char *error;
    if (p == NULL)
        fail_msg("%s: %s", name, why);
    if ((why = tile_verify(p)) != NULL)
        fail_msg("%s: %s\n%s", name, why, tile_text(a, p));
    if (module_evaluate(body->module, NULL, 1, &device, a, &error) != EVAL_OK)
        fail_msg("%s: %s", name, error);
    for (uint32_t i = 0; i < count; i++)
        results[i] = literal_create(a, fusion_result(fusion, i).shape);
    if ((why = tile_interpret(p, arguments, results)) != NULL)
        fail_msg("%s: %s\n%s", name, why, tile_text(a, p));
    for (uint32_t i = 0; i < count; i++)
        compare(name, results[i],
                shape_is_tuple(device.result->shape) ? device.result->elements[i]
                                                     : device.result);
}
