/* gxrun --memory: what lies in a program's memory when it needs most, and how much it needs over time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/gxrun/gxrun.h"
#include "runtime/gxrun/json.h"
#include "runtime/gxrun/names.h"

enum {
    ROWS_MOST = 40, /* of the text's chart over time */
    BAR_MOST = 40,
    LARGEST = 50 /* buffers that the text names */
};

typedef struct Use {
    const gxrt_program *program;
    size_t variant;
    gxrt_variant_info info;
    gxrt_memory_info *buffers;
    uint64_t *live; /* [step_count + 1] bytes of the device, of all buffers */
    size_t peak;    /* the first step with most */
} Use;

static void find_live(Use *u)
{
    for (size_t i = 0; i < u->info.buffer_count; i++) {
        const gxrt_memory_info *b = &u->buffers[i];
        if (!b->is_host) {
            u->live[b->first_step] += b->bytes;
            u->live[b->last_step + 1] -= b->bytes; /* wraps, and the sum wraps back */
        }
    }
    for (size_t t = 1; t < u->info.step_count; t++) {
        u->live[t] += u->live[t - 1];
        u->peak = u->live[t] > u->live[u->peak] ? t : u->peak;
    }
}

static int use_read(Use *u)
{
    u->info.struct_size = sizeof u->info;
    gxrt_status st = gxrt_program_get_variant(u->program, u->variant, &u->info);
    if (st != GXRT_OK) {
        return complain(EXIT_WRONG, "%s", gxrt_last_error());
    }
    if (u->info.step_count == 0) {
        return complain(
            EXIT_NOT_SUPPORTED,
            "the program does not say what its memory is used for: compile it "
            "again, with gxc of this version");
    }
    u->buffers = allocate(u->info.buffer_count, sizeof *u->buffers);
    u->live = allocate(u->info.step_count + 1, sizeof *u->live);
    for (size_t i = 0; i < u->info.buffer_count && st == GXRT_OK; i++) {
        u->buffers[i].struct_size = sizeof *u->buffers;
        st = gxrt_program_get_memory(u->program, u->variant, i, &u->buffers[i]);
    }
    if (st != GXRT_OK) {
        return complain(EXIT_WRONG, "%s", gxrt_last_error());
    }
    find_live(u);
    return EXIT_DONE;
}

static int compare_buffers(const void *x, const void *y)
{
    const gxrt_memory_info *a = x, *b = y;
    if (a->bytes != b->bytes) {
        return a->bytes > b->bytes ? -1 : 1;
    }
    if (a->first_step != b->first_step) {
        return a->first_step < b->first_step ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

static bool is_at_peak(const Use *u, const gxrt_memory_info *b)
{
    return b->first_step <= u->peak && u->peak <= b->last_step;
}

/* --- text ------------------------------------------------------------------------------------- */

static void print_buffer(const gxrt_memory_info *b)
{
    printf("  %14" PRIu64 "  %-8s %6zu-%-6zu  %s", b->bytes, b->kind, b->first_step + 1,
           b->last_step + 1, plain_text(b->name));
    if (*b->op_name) {
        printf("  %s", plain_text(b->op_name));
    }
    if (*b->source_file) {
        printf("  %s:%u", plain_text(b->source_file), b->source_line);
    }
    printf("%s\n", b->is_host ? "  (host)" : "");
}

static void print_peak(const Use *u)
{
    size_t shown = 0, others = 0;
    uint64_t bytes = 0;
    printf("at step %zu of %zu, %s, most lives: %" PRIu64 " bytes on the device\n",
           u->peak + 1, u->info.step_count,
           gxrt_program_get_step(u->program, u->variant, u->peak), u->live[u->peak]);
    printf("  %14s  %-8s %-13s  %s\n", "bytes", "kind", "  steps", "value");
    for (size_t i = 0; i < u->info.buffer_count; i++) {
        if (!is_at_peak(u, &u->buffers[i])) {
            continue;
        }
        if (shown < LARGEST) {
            print_buffer(&u->buffers[i]);
            shown++;
        } else {
            bytes += u->buffers[i].bytes;
            others++;
        }
    }
    if (others) {
        printf("  %14" PRIu64 "  in %zu smaller buffers\n", bytes, others);
    }
}

/* Where there are too many steps for a row each, a row is the step of several that needs most. */
static void print_over_time(const Use *u)
{
    size_t steps = u->info.step_count;
    size_t rows = steps < ROWS_MOST ? steps : ROWS_MOST;
    uint64_t most = u->live[u->peak] ? u->live[u->peak] : 1;
    printf("bytes on the device over time\n");
    for (size_t r = 0; r < rows; r++) {
        size_t at = r * steps / rows;
        for (size_t t = at; t < (r + 1) * steps / rows; t++) {
            at = u->live[t] > u->live[at] ? t : at;
        }
        int bar = (int)((double)u->live[at] / (double)most * BAR_MOST);
        printf("  %6zu %14" PRIu64 " %.*s%*s  %s\n", at + 1, u->live[at], bar,
               "########################################", BAR_MOST - bar, "",
               gxrt_program_get_step(u->program, u->variant, at));
    }
}

static void print_text(const Use *u)
{
    const gxrt_variant_info *v = &u->info;
    printf("memory for %s: %" PRIu64 " bytes on the device, of them %" PRIu64
           " constants, %" PRIu64 " temporary; and %" PRIu64
           " for libraries and blocks, %" PRIu64 " on the host\n",
           v->target, v->peak_bytes, v->constant_bytes, v->temp_bytes, v->workspace_bytes,
           v->host_bytes);
    print_peak(u);
    print_over_time(u);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void json_buffer(const Use *u, const gxrt_memory_info *b)
{
    JsonList m = {0};
    printf("\n  {");
    json_member_text(stdout, &m, "name", b->name);
    json_member_text(stdout, &m, "kind", b->kind);
    json_member_text(stdout, &m, "op_name", b->op_name);
    json_member_text(stdout, &m, "source_file", b->source_file);
    json_member_number(stdout, &m, "source_line", b->source_line);
    json_member_number(stdout, &m, "allocation", b->allocation);
    json_member_number(stdout, &m, "offset", b->offset);
    json_member_number(stdout, &m, "bytes", b->bytes);
    json_member_number(stdout, &m, "first_step", b->first_step);
    json_member_number(stdout, &m, "last_step", b->last_step);
    json_member_bool(stdout, &m, "on_host", b->is_host);
    json_member_bool(stdout, &m, "at_peak", is_at_peak(u, b));
    printf("}");
}

static void print_json(const Use *u)
{
    const gxrt_variant_info *v = &u->info;
    JsonList m = {0}, buffers = {0}, steps = {0};
    printf("{");
    json_member_text(stdout, &m, "target", v->target);
    json_member_number(stdout, &m, "peak_bytes", v->peak_bytes);
    json_member_number(stdout, &m, "constant_bytes", v->constant_bytes);
    json_member_number(stdout, &m, "temp_bytes", v->temp_bytes);
    json_member_number(stdout, &m, "workspace_bytes", v->workspace_bytes);
    json_member_number(stdout, &m, "host_bytes", v->host_bytes);
    json_member_number(stdout, &m, "peak_step", u->peak);
    json_member_number(stdout, &m, "live_bytes", u->live[u->peak]);
    json_key(stdout, &m, "buffers");
    printf("[");
    for (size_t i = 0; i < v->buffer_count; i++) {
        json_next(stdout, &buffers);
        json_buffer(u, &u->buffers[i]);
    }
    printf("]");
    json_key(stdout, &m, "steps");
    printf("[");
    for (size_t t = 0; t < v->step_count; t++) {
        JsonList s = {0};
        json_next(stdout, &steps);
        printf("\n  {");
        json_member_text(stdout, &s, "name",
                         gxrt_program_get_step(u->program, u->variant, t));
        json_member_number(stdout, &s, "bytes", u->live[t]);
        printf("}");
    }
    printf("]}\n");
}

/* The variant that --device=emu:TARGET names; without it the first. */
static int find_variant(const Options *o, Use *u)
{
    gxrt_program_info info = {.struct_size = sizeof info};
    gxrt_variant_info v = {.struct_size = sizeof v};
    if (strncmp(o->device, "emu:", 4) != 0 ||
        gxrt_program_get_info(u->program, &info) != GXRT_OK) {
        return EXIT_DONE;
    }
    for (u->variant = 0; u->variant < info.variant_count; u->variant++) {
        if (gxrt_program_get_variant(u->program, u->variant, &v) == GXRT_OK &&
            strcmp(v.target, o->device + 4) == 0) {
            return EXIT_DONE;
        }
    }
    return complain(EXIT_WRONG, "the program has no variant for %s", o->device + 4);
}

int memory_print(const Options *o, const gxrt_program *program)
{
    Use u = {.program = program};
    int code = find_variant(o, &u);
    code = code == EXIT_DONE ? use_read(&u) : code;
    if (code == EXIT_DONE) {
        qsort(u.buffers, u.info.buffer_count, sizeof *u.buffers, compare_buffers);
        if (o->memory == FORM_JSON) {
            print_json(&u);
        } else {
            print_text(&u);
        }
    }
    free(u.buffers);
    free(u.live);
    return code;
}
