/* Compiled files: opening, looking into, printing and checking a hostile one is safe. */
#include "runtime/plan/plan.h"

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

/* Gives fuzzed bytes the hashes and the length that they must have, or nothing of what stands
 * behind them would ever be read. */
static void seal(unsigned char *bytes, size_t size)
{
    PlanHeader h;
    if (size < sizeof h)
        return;
    memcpy(&h, bytes, sizeof h);
    size_t table = sizeof h + h.section_count * sizeof(PlanSection);
    if (table > size)
        return;
    for (size_t at = sizeof h; at < table; at += sizeof(PlanSection)) {
        PlanSection s;
        memcpy(&s, bytes + at, sizeof s);
        if (s.offset <= size && s.bytes <= size - s.offset)
            plan_hash(bytes + s.offset, s.bytes, s.hash);
        memcpy(bytes + at, &s, sizeof s);
    }
    h.total_bytes = size;
    memset(h.hash, 0, sizeof h.hash);
    memcpy(bytes, &h, sizeof h);
    plan_hash(bytes, table, h.hash);
    memcpy(bytes, &h, sizeof h);
}

/* A plan alone, also as one that is whole. */
static void look_at_plan(unsigned char *bytes, size_t size)
{
    char error[512];
    Plan plan;
    seal(bytes, size);
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
    (void)plan_check(&plan, error, sizeof error);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    unsigned char *copy = aligned_alloc(64, (size + 64) / 64 * 64);
    if (copy == NULL)
        return;
    memcpy(copy, data, size);
    gxrt_program *p = NULL;
    if (gxrt_program_open_memory(copy, size, &p) == GXRT_OK)
        look(p);
    gxrt_program_destroy(p);
    look_at_plan(copy, size);
    free(copy);
}
