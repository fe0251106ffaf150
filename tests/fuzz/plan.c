/* Compiled files: opening, looking into and printing a hostile one is safe. */
#include "runtime/plan.h"

#include "runtime/gxrt.h"
#include "tests/fuzz/fuzz.h"

static void look(const gxrt_program *p)
{
    gxrt_program_info info = {.struct_size = sizeof info};
    if (gxrt_program_get_info(p, &info) != GXRT_OK)
        return;
    gxrt_value_info v = {.struct_size = sizeof v};
    for (size_t i = 0; i < info.argument_count; i++)
        (void)gxrt_program_get_argument(p, i, &v);
    for (size_t i = 0; i < info.result_count; i++)
        (void)gxrt_program_get_result(p, i, &v);
    gxrt_variant_info variant = {.struct_size = sizeof variant};
    for (size_t i = 0; i < info.variant_count; i++)
        (void)gxrt_program_get_variant(p, i, &variant);
}

/* A plan alone: fuzzed bytes get past the checksums of the file there. */
static void look_at_plan(const void *bytes, size_t size)
{
    char error[512];
    Plan plan;
    if (!plan_read(&plan, bytes, size, error, sizeof error))
        return;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    plan_print(&plan, out);
    fclose(out);
    free(text);
    (void)plan_counts(&plan);
    (void)plan_sizes(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *copy = aligned_alloc(64, (size + 64) / 64 * 64);
    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    gxrt_program *p = NULL;
    if (gxrt_program_open_memory(copy, size, &p) == GXRT_OK)
        look(p);
    gxrt_program_destroy(p);
    look_at_plan(copy, size);
    free(copy);
    return 0;
}
