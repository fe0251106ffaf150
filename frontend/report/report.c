/* See report.h. */
#include "frontend/report/report.h"

#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/clock.h"
#include "ir/base/text.h"

static double now(void)
{
    return clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

void stage_end(StageTimes *t)
{
    if (t->open) {
        t->stages[t->count - 1].seconds += now() - t->began;
        t->stages[t->count - 1].wall += seconds_now() - t->wall_began;
    }
    t->open = false;
}

void stage_begin(StageTimes *t, const char *name)
{
    stage_end(t);
    if (t->count < STAGES_MOST)
        t->stages[t->count++] = (struct StageTime){.name = name};
    t->open = true;
    t->began = t->part_began = now();
    t->wall_began = t->part_wall_began = seconds_now();
}

void stage_part(StageTimes *t, const char *name, bool has_run)
{
    size_t i = 0;
    while (i < t->part_count && strcmp(t->parts[i].name, name) != 0)
        i++;
    if (i == STAGE_PARTS_MOST)
        return;
    t->part_count += i == t->part_count;
    t->parts[i].name = name;
    t->parts[i].has_run |= has_run;
    t->parts[i].seconds += now() - t->part_began;
    t->parts[i].wall += seconds_now() - t->part_wall_began;
    stage_skip(t);
}

void stage_skip(StageTimes *t)
{
    t->part_began = now();
    t->part_wall_began = seconds_now();
}

/* Of this process, in MB; 0 where the kernel does not tell. rusage would also count what the process was
 * before it became this program. */
static double peak_memory(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long kb = 0;
    while (f != NULL && kb == 0 && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0)
            kb = strtoul(line + 6, NULL, 10);
    }
    if (f != NULL)
        fclose(f);
    return (double)kb / 1024;
}

static void note_stages(const StageTimes *t, Diag *d)
{
    for (size_t i = 0; i < t->count; i++)
        diag_note(d, (Span){0, 0}, "%-10s %8.1f ms of processors, %8.1f ms passed",
                  t->stages[i].name, t->stages[i].seconds * 1e3, t->stages[i].wall * 1e3);
    for (size_t i = 0; i < t->part_count; i++) {
        if (t->parts[i].has_run)
            diag_note(d, (Span){0, 0}, "  pass %-30s %8.1f ms, %8.1f ms passed",
                      t->parts[i].name, t->parts[i].seconds * 1e3,
                      t->parts[i].wall * 1e3);
        else
            diag_note(d, (Span){0, 0}, "  pass %-30s left out", t->parts[i].name);
    }
}

/* Of one variant. Of processes that the assembler is, too; what passed is the sum of its calls, of which several
 * run at once. */
static void note_code(const CodegenReport *r, Diag *d)
{
    diag_note(d, (Span){0, 0},
              "  %s: llvm %.1f ms, emulator %.1f ms, assembler %.1f ms of processors, "
              "%.1f ms passed",
              r->target, r->llvm_seconds * 1e3, r->emu_seconds * 1e3,
              r->assembler_seconds * 1e3, r->assembler_wall * 1e3);
    if (r->has_cache)
        diag_note(d, (Span){0, 0},
                  "  %s: cache: kernels: %llu hits, %llu misses; cubins: %llu hits, "
                  "%llu misses",
                  r->target, (unsigned long long)r->cache.kernel_hits,
                  (unsigned long long)r->cache.kernel_misses,
                  (unsigned long long)r->cache.cubin_hits,
                  (unsigned long long)r->cache.cubin_misses);
}

void report_timing(const StageTimes *t, const Codegen *cg, Diag *d)
{
    note_stages(t, d);
    const CodegenReport *r;
    for (size_t v = 0; cg != NULL && (r = codegen_report(cg, v)) != NULL; v++) {
        if (r->has_code)
            note_code(r, d);
    }
    double memory = peak_memory();
    if (memory > 0)
        diag_note(d, (Span){0, 0}, "memory     %8.2f MB at most", memory);
}

typedef struct Figure {
    const char *key, *text;
    uint64_t value;
} Figure;

/* Returns how many there are then. */
static size_t add_rows(Figure *out, size_t n, const Figure *rows, size_t count)
{
    memcpy(out + n, rows, count * sizeof *rows);
    return n + count;
}

static size_t figures(const CodegenReport *r, Figure *out)
{
    const Figure planned[] = {
        {"launches", "launches (kernels and library calls)", r->launches},
        {"copies", "copies and fills", r->copies},
        {"collectives", "collectives", r->collectives},
        {"graphs", "different graphs of cuDNN", r->graphs},
        {"graph_configurations", "configurations that it had for them",
         r->graph_configurations},
        {"host_calls", "host calls", r->host_calls},
        {"host_syncs", "waits for the device", r->host_syncs},
        {"captured_nodes", "nodes of the CUDA graph that it can be", r->captured_nodes},
        {"captured_conditionals", "of them loops and branches", r->captured_conditionals},
        {"distinct_kernels", "distinct kernels", r->distinct_kernels},
        {"bytes_accessed", "bytes accessed", r->bytes_accessed},
        {"bytes_accessed_once", "the same, loops once", r->bytes_accessed_once},
        {"argument_bytes", "argument bytes", r->argument_bytes},
        {"result_bytes", "result bytes", r->result_bytes},
        {"aliased_bytes", "aliased bytes", r->aliased_bytes},
        {"constant_bytes", "constant bytes", r->constant_bytes},
        {"temp_bytes", "temporary bytes", r->temp_bytes},
        {"workspace_bytes", "library workspace bytes", r->workspace_bytes},
        {"peak_bytes", "peak bytes", r->peak_bytes},
        {"host_bytes", "bytes in memory of the host", r->host_bytes},
    };
    const Figure of_code[] = {
        {"loop_bytes", "bytes of loops and row reductions", r->loop_bytes},
        {"loop_bytes_wide", "of them by 16-byte accesses", r->loop_bytes_wide},
        {"registers_most", "registers of the largest kernel", r->registers_most},
        {"spill_bytes", "spilled bytes", r->spill_bytes},
        {"lossy_kernels", "kernels of which the assembler says that they lose time",
         r->lossy_kernels},
        {"cubin_bytes", "cubin bytes", r->cubin_bytes},
        {"emulator_bytes", "emulator object bytes", r->emu_bytes},
    };
    const Figure of_cache[] = {
        {"cache_kernel_hits", "kernels from the cache", r->cache.kernel_hits},
        {"cache_kernel_misses", "kernels made", r->cache.kernel_misses},
        {"cache_cubin_hits", "cubins from the cache", r->cache.cubin_hits},
        {"cache_cubin_misses", "cubins made", r->cache.cubin_misses},
    };
    size_t n = add_rows(out, 0, planned, sizeof planned / sizeof *planned);
    if (r->has_code)
        n = add_rows(out, n, of_code, sizeof of_code / sizeof *of_code);
    if (r->has_code && r->has_cache)
        n = add_rows(out, n, of_cache, sizeof of_cache / sizeof *of_cache);
    return n;
}

/* What the schedule costs by the cost model. */
typedef struct Modelled {
    const char *key, *text;
    double seconds;
} Modelled;
enum { MODELLED_COUNT = 4 };

static void modelled(const Simulation *s, Modelled *out)
{
    const Modelled rows[MODELLED_COUNT] = {
        {"step_us", "one run", s->step},
        {"compute_us", "computation", s->compute},
        {"communication_us", "communication", s->communication},
        {"exposed_communication_us", "communication that is waited for", s->exposed},
    };
    memcpy(out, rows, sizeof rows);
}

static void add_modelled(Text *t, const Simulation *s)
{
    Modelled rows[MODELLED_COUNT];
    modelled(s, rows);
    text_printf(t, "modelled microseconds\n");
    for (size_t i = 0; i < MODELLED_COUNT; i++)
        text_printf(t, "  %-38s %12.1f\n", rows[i].text, rows[i].seconds * 1e6);
}

static json_t *modelled_json(const Simulation *s)
{
    Modelled rows[MODELLED_COUNT];
    modelled(s, rows);
    json_t *out = json_object();
    for (size_t i = 0; i < MODELLED_COUNT; i++)
        json_object_set_new(out, rows[i].key, json_real(rows[i].seconds * 1e6));
    return out;
}

/* What the passes did. */
static const struct {
    size_t offset;
    const char *key, *text;
} rewrites[] = {
#define COUNT(field, key, text) {offsetof(PassCounts, field), key, text},
#include "passes/counts.def"
};
#define REWRITE_COUNT (sizeof rewrites / sizeof *rewrites)

static uint64_t rewrite_count(const PassCounts *counts, size_t i)
{
    uint64_t value;
    memcpy(&value, (const char *)counts + rewrites[i].offset, sizeof value);
    return value;
}

static void add_rewrites(Text *t, const PassCounts *counts)
{
    text_printf(t, "rewrites\n");
    for (size_t i = 0; i < REWRITE_COUNT; i++) {
        uint64_t value = rewrite_count(counts, i);
        if (value != 0)
            text_printf(t, "  %-38s %12llu\n", rewrites[i].text,
                        (unsigned long long)value);
    }
}

static void add_figures(json_t *root, const CodegenReport *r)
{
    Figure rows[32];
    size_t n = figures(r, rows);
    json_object_set_new(root, "target", json_string(r->target));
    for (size_t i = 0; i < n; i++)
        json_object_set_new(root, rows[i].key, json_integer((json_int_t)rows[i].value));
    if (r->not_captured != NULL)
        json_object_set_new(root, "not_captured", json_string(r->not_captured));
}

/* A stage of each target has the same name. */
static void add_seconds(json_t *stages, const char *name, double seconds)
{
    seconds += json_real_value(json_object_get(stages, name));
    json_object_set_new(stages, name, json_real(seconds));
}

static json_t *report_json(const CodegenReport *r, const StageTimes *times,
                           const PassCounts *counts, const ModelReport *model,
                           const char *without_cudnn)
{
    json_t *root = json_object(), *stages = json_object(), *done = json_object();
    if (r != NULL)
        add_figures(root, r);
    for (size_t i = 0; i < REWRITE_COUNT; i++)
        json_object_set_new(done, rewrites[i].key,
                            json_integer((json_int_t)rewrite_count(counts, i)));
    json_object_set_new(root, "rewrites", done);
    if (without_cudnn != NULL)
        json_object_set_new(root, "without_cudnn", json_string(without_cudnn));
    if (model->simulation.step > 0)
        json_object_set_new(root, "modelled", modelled_json(&model->simulation));
    json_object_set_new(root, "modelled_seconds", json_real(model->simulation.step));
    json_object_set_new(root, "kernels", kernel_report_json(&model->kernels));
    for (size_t i = 0; i < times->count; i++)
        add_seconds(stages, times->stages[i].name, times->stages[i].seconds);
    if (r != NULL) {
        json_object_set_new(stages, "llvm", json_real(r->llvm_seconds));
        json_object_set_new(stages, "assembler", json_real(r->assembler_seconds));
        json_object_set_new(stages, "emulator", json_real(r->emu_seconds));
    }
    json_object_set_new(root, "seconds", stages);
    json_t *passed = json_object();
    for (size_t i = 0; i < times->count; i++)
        add_seconds(passed, times->stages[i].name, times->stages[i].wall);
    if (r != NULL)
        json_object_set_new(passed, "assembler", json_real(r->assembler_wall));
    json_object_set_new(root, "wall_seconds", passed);
    return root;
}

void report_make(gxc_result *result, const Codegen *cg, const StageTimes *times,
                 const PassCounts *counts, const ModelReport *model,
                 const char *without_cudnn)
{
    Text t;
    text_init(&t, result->arena);
    const CodegenReport *r;
    for (size_t v = 0; cg != NULL && (r = codegen_report(cg, v)) != NULL; v++) {
        Figure rows[32];
        size_t n = figures(r, rows);
        text_printf(&t, "%s\n", r->target);
        for (size_t i = 0; i < n; i++)
            text_printf(&t, "  %-38s %12llu\n", rows[i].text,
                        (unsigned long long)rows[i].value);
        if (r->not_captured != NULL)
            text_printf(&t, "  no CUDA graph: %s\n", r->not_captured);
    }
    if (without_cudnn != NULL)
        text_printf(&t, "no convolution or attention is left to cuDNN: %s\n",
                    without_cudnn);
    add_rewrites(&t, counts);
    if (model->simulation.step > 0)
        add_modelled(&t, &model->simulation);
    kernel_report_text(&model->kernels, &t);
    result->report_text = t.data;
    json_t *root = report_json(cg != NULL ? codegen_report(cg, 0) : NULL, times, counts,
                               model, without_cudnn);
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    json_decref(root);
    result->report_json = arena_take_text(result->arena, text);
}
