/* See kernel_report.h. */
#include "frontend/report/kernel_report.h"

#include <stdlib.h>
#include <string.h>

#include "ir/analysis/loop.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/library.h"

enum {
    NESTING_MOST = 64,
    LONG_STEPS = 1000, /* of a loop: worth a word */
};

typedef struct Maker {
    Arena *arena;
    const Target *target;
    CostModel *cost;
    const CodegenCommand *commands;
    size_t command_count;
    uint32_t **first; /* [computation][instruction] number of its first command, plus 1 */
    KernelReport report;
    size_t capacity;
} Maker;

/* -- rows ------------------------------------------------------------------------------------------ */

static const CodegenCommand *command_of(const Maker *m, const Instruction *inst)
{
    const uint32_t *row = m->commands != NULL ? m->first[inst->parent->id] : NULL;
    uint32_t number = row != NULL ? row[inst->id] : 0;
    return number != 0 ? &m->commands[number - 1] : NULL;
}

static bool is_same_kernel(const KernelRow *row, const CodegenCommand *command,
                           const KernelTime *time)
{
    return command != NULL && command->kernel != NULL && row->command != NULL &&
           row->command->kernel != NULL &&
           strcmp(row->command->kernel, command->kernel) == 0 &&
           row->time.seconds == time->seconds;
}

static void add_row(Maker *m, const Instruction *inst, KernelTime time, double runs)
{
    KernelReport *r = &m->report;
    const CodegenCommand *command = command_of(m, inst);
    size_t i = 0;
    while (i < r->count && !is_same_kernel(&r->rows[i], command, &time))
        i++;
    if (i == r->count) {
        r->rows = arena_grow(m->arena, r->rows, &m->capacity, i + 1, sizeof *r->rows);
        bool has_name = command != NULL && command->kernel != NULL;
        r->rows[i] = (KernelRow){.name = has_name ? command->kernel : inst->name,
                                 .inst = inst,
                                 .command = command,
                                 .time = time};
        r->count++;
    }
    r->rows[i].launches++;
    r->rows[i].runs += runs;
    r->rows[i].seconds += runs * time.seconds;
    r->seconds += runs * time.seconds;
}

static void add_computation(Maker *m, const Computation *comp, double runs, int depth);

/* The branch that takes longest counts, as in simulate.h. */
static void add_conditional(Maker *m, const Instruction *inst, double runs, int depth)
{
    uint32_t longest = 0;
    double most = -1;
    for (uint32_t k = 0; k < inst_called_count(inst); k++) {
        double seconds = cost_program(m->cost, inst_called(inst, k));
        longest = seconds > most ? k : longest;
        most = seconds > most ? seconds : most;
    }
    for (uint32_t k = 0; k < inst_called_count(inst); k++)
        add_computation(m, inst_called(inst, k), k == longest ? runs : 0, depth + 1);
}

/* As the kernel was made in the end. */
static KernelTime time_of(const Maker *m, const Instruction *inst)
{
    KernelTime t = cost_kernel(m->cost, inst);
    const CodegenCommand *command = command_of(m, inst);
    if (!t.is_tileir || command == NULL || command->tileir_why == NULL)
        return t;
    KernelWork own;
    kernel_work_gx(inst, m->target, m->arena, &own);
    return kernel_time(&own, m->target->device);
}

static void add_instruction(Maker *m, const Instruction *inst, double runs, int depth)
{
    double transfer = cost_transfer(m->cost, inst);
    KernelTime t = time_of(m, inst);
    if (transfer > 0) {
        t = (KernelTime){.seconds = transfer, .limit = LIMIT_LINK};
    }
    if (t.seconds > 0)
        add_row(m, inst, t, runs);
    if (inst->op == OP_CONDITIONAL) {
        add_conditional(m, inst, runs, depth);
    } else if (op_is(inst->op, OPF_CONTROL) || inst->op == OP_ASYNC_START) {
        int64_t trips = inst->op == OP_WHILE ? loop_known_trip_count(inst) : 1;
        for (uint32_t k = cost_first_called(inst); k < inst_called_count(inst); k++)
            add_computation(m, inst_called(inst, k),
                            runs * (double)(trips < 0 ? 1 : trips), depth + 1);
    }
}

static void add_computation(Maker *m, const Computation *comp, double runs, int depth)
{
    for (const Instruction *inst = inst_first(comp); inst != NULL && depth < NESTING_MOST;
         inst = inst_next(inst))
        add_instruction(m, inst, runs, depth);
}

/* Longest first; of equal ones what the program names first. */
static int compare_rows(const void *x, const void *y)
{
    const KernelRow *a = x, *b = y;
    if (a->seconds != b->seconds)
        return a->seconds > b->seconds ? -1 : 1;
    if (a->inst->parent->id != b->inst->parent->id)
        return a->inst->parent->id < b->inst->parent->id ? -1 : 1;
    return a->inst->id < b->inst->id ? -1 : a->inst->id > b->inst->id;
}

static void find_commands(Maker *m, const Module *module)
{
    size_t computations = (size_t)module->computation_count + 1;
    m->first = ARENA_ARRAY(m->arena, uint32_t *, computations);
    for (size_t i = m->command_count; i-- > 0;) {
        const Instruction *inst = m->commands[i].inst;
        const Computation *comp = inst->parent;
        if (m->first[comp->id] == NULL)
            m->first[comp->id] =
                ARENA_ARRAY(m->arena, uint32_t, (size_t)comp->instruction_count + 1);
        /* scratch memory is filled before the kernel that the instruction is */
        uint32_t *first = &m->first[comp->id][inst->id];
        if (*first == 0 || m->commands[i].kernel != NULL ||
            m->commands[*first - 1].kernel == NULL)
            *first = (uint32_t)i + 1;
    }
}

/* -- reasons ----------------------------------------------------------------------------------------- */

static const char *waiting_reason(Arena *a, const KernelTime *t, const GpuModel *d)
{
    if (t->limit == LIMIT_CHAIN)
        return arena_printf(a,
                            "%.0f steps one after the other, in %.0f blocks for %u "
                            "multiprocessors",
                            t->steps, t->blocks, d->multiprocessors);
    return arena_printf(a, "threads wait for loads: %.0f blocks are %.2f waves",
                        t->blocks, t->waves);
}

/* Memory or L2 moves more than the arrays have; else NULL. */
static const char *traffic_reason(Arena *a, const KernelTime *t)
{
    double moved = t->limit == LIMIT_L2 ? t->l2_bytes : t->bytes;
    double times = t->needed_bytes > 0 ? moved / t->needed_bytes : 1;
    if (times < 1.5)
        return NULL;
    return arena_printf(a, "%s moves %.1f times the bytes that its arrays have",
                        t->limit == LIMIT_L2 ? "L2" : "memory", times);
}

static const char *units_reason(Arena *a, const KernelTime *t, const GpuModel *d)
{
    bool is_product = t->product_type != DT_INVALID;
    double gain = is_product
                      ? product_peak(t->product_type, d) / plain_peak(t->product_type, d)
                      : 1;
    if (gain > 1)
        return arena_printf(a,
                            "multiplies %s without tensor cores, which are %.0f times "
                            "as fast",
                            dtype_name(t->product_type), gain);
    const char *steps = t->steps >= LONG_STEPS
                            ? arena_printf(a, ", %.0f steps in each thread", t->steps)
                            : "";
    return arena_printf(a, "%.1f instructions for each byte of its arrays%s",
                        t->instructions / (t->needed_bytes > 1 ? t->needed_bytes : 1),
                        steps);
}

/* Why a kernel takes more than twice of what the device needs at least. */
static const char *reason_of(Arena *a, const KernelRow *row, const GpuModel *d)
{
    const KernelTime *t = &row->time;
    const char *traffic;
    switch (t->limit) {
    case LIMIT_NONE:
    case LIMIT_LINK:
        return NULL;
    case LIMIT_HOST:
        return "the host reads a value of the device, or does it";
    case LIMIT_LAUNCH:
        return row->runs > 1
                   ? arena_printf(a, "%.0f starts take longer than its work", row->runs)
                   : "its start takes longer than its work";
    case LIMIT_CHAIN:
    case LIMIT_LATENCY:
        return waiting_reason(a, t, d);
    case LIMIT_ATOMICS:
        return "updates of the same positions wait for each other";
    case LIMIT_MEMORY:
    case LIMIT_L2:
        traffic = traffic_reason(a, t);
        return traffic != NULL ? traffic
                               : "operations in between take longer than memory";
    default:
        return units_reason(a, t, d);
    }
}

/* Rows below half of what is possible that take more than a hundredth of the time. */
static void find_reasons(KernelReport *r, const GpuModel *d, Arena *a)
{
    for (size_t i = 0; i < r->count; i++) {
        KernelRow *row = &r->rows[i];
        bool is_far = row->time.least_seconds * 2 < row->time.seconds;
        if (is_far && row->seconds * 100 > r->seconds)
            row->reason = reason_of(a, row, d);
    }
}

KernelReport kernel_report_make(const Module *m, const Target *t, CostModel *cost,
                                const CodegenCommand *commands, size_t command_count,
                                Arena *a)
{
    Maker maker = {.arena = a,
                   .target = t,
                   .cost = cost,
                   .commands = commands,
                   .command_count = command_count};
    if (commands != NULL)
        find_commands(&maker, m);
    add_computation(&maker, m->entry, 1, 0);
    KernelReport *r = &maker.report;
    if (r->count > 1)
        qsort(r->rows, r->count, sizeof *r->rows, compare_rows);
    find_reasons(r, t->device, a);
    for (size_t i = 0; i < r->count; i++)
        candidates_find(r->rows[i].inst, NULL, t, NULL, &r->rows[i].candidates);
    return *r;
}

/* The kind of kernel, or the library. */
static const char *maker_name(const KernelRow *row)
{
    const Candidate *library = candidates_by(&row->candidates, CANDIDATE_LIBRARY);
    if (library != NULL && library_makes(row->inst))
        return library->name;
    KernelKind kind = kernel_kind_of(row->inst);
    if (row->time.is_tileir)
        return "tileir";
    return kind != KERNEL_COUNT ? kernel_kind_name(kind) : "none";
}

/* -- text -------------------------------------------------------------------------------------------- */

static void add_row_text(const KernelReport *r, const KernelRow *row, Text *t)
{
    const CodegenCommand *c = row->command;
    char shape[32] = "-", registers[16] = "-";
    if (c != NULL && c->kernel != NULL)
        snprintf(shape, sizeof shape, "%llu x %u",
                 (unsigned long long)c->grid[0] * c->grid[1] * c->grid[2],
                 c->block[0] * c->block[1] * c->block[2]);
    if (c != NULL && c->registers != 0)
        snprintf(registers, sizeof registers, "%u", c->registers);
    text_printf(
        t,
        "  %-32.32s %8.0f %16s %5s %7.2f %10.2f %10.2f %-8s %10.1f %5.0f%% "
        "%5.1f%%\n",
        row->name, row->runs, shape, registers, row->time.waves,
        row->time.bytes * row->runs * 1e-6, row->time.operations * row->runs * 1e-6,
        kernel_limit_word(row->time.limit), row->seconds * 1e6, row->time.share * 100,
        r->seconds > 0 ? row->seconds / r->seconds * 100 : 0);
}

static void add_tileir_text(const KernelRow *row, Text *t)
{
    const CodegenCommand *c = row->command;
    if (c != NULL && c->is_tileir)
        text_printf(t, "  %s: by CUDA Tile IR, %llu bytes of shared memory, %u spilled\n",
                    row->name, (unsigned long long)c->shared_bytes, c->spill_bytes);
    else if (c != NULL && c->tileir_why != NULL)
        text_printf(t, "  %s: not by CUDA Tile IR: %s\n", row->name, c->tileir_why);
}

/* Who could make a product, and how long that would take. */
static void add_candidates_text(const KernelRow *row, Text *t)
{
    text_printf(t, "  %s:", row->name);
    for (uint32_t i = 0; i < row->candidates.count; i++) {
        const Candidate *c = &row->candidates.list[i];
        text_printf(t, "%s %s %.1f us", i == 0 ? "" : ",", c->name, c->seconds * 1e6);
    }
    text_printf(t, "; chosen: %s\n", maker_name(row));
}

void kernel_report_text(const KernelReport *r, Text *t)
{
    if (r->count == 0)
        return;
    text_printf(t, "kernels by modelled time\n");
    text_printf(t, "  %-32s %8s %16s %5s %7s %10s %10s %-8s %10s %6s %6s\n", "kernel",
                "runs", "grid x block", "regs", "waves", "MB", "Mops", "limit", "us",
                "share", "time");
    for (size_t i = 0; i < r->count; i++)
        add_row_text(r, &r->rows[i], t);
    for (size_t i = 0; i < r->count; i++) {
        const KernelRow *row = &r->rows[i];
        if (row->reason != NULL)
            text_printf(t, "  %s: %s\n", row->name, row->reason);
    }
    for (size_t i = 0; i < r->count; i++)
        add_tileir_text(&r->rows[i], t);
    for (size_t i = 0; i < r->count; i++) {
        const CodegenCommand *c = r->rows[i].command;
        if (c != NULL && c->loss != NULL)
            text_printf(t, "  %s: the assembler says: %s\n", r->rows[i].name, c->loss);
    }
    bool has_products = false;
    for (size_t i = 0; i < r->count; i++)
        has_products |= r->rows[i].candidates.count > 0;
    if (has_products)
        text_printf(t, "who could make products, by modelled time of one run\n");
    for (size_t i = 0; i < r->count; i++) {
        if (r->rows[i].candidates.count > 0)
            add_candidates_text(&r->rows[i], t);
    }
}

/* -- JSON -------------------------------------------------------------------------------------------- */

static json_t *three(const uint32_t n[3])
{
    json_t *out = json_array();
    for (int i = 0; i < 3; i++)
        json_array_append_new(out, json_integer(n[i]));
    return out;
}

static json_t *candidates_json(const Candidates *all)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < all->count; i++)
        json_array_append_new(out, json_pack("{s:s, s:f}", "by", all->list[i].name, "us",
                                             all->list[i].seconds * 1e6));
    return out;
}

static json_t *row_json(const KernelRow *row)
{
    static const uint32_t none[3] = {0, 0, 0};
    const CodegenCommand *c = row->command;
    json_t *out = json_object();
    json_object_set_new(out, "name", json_string(row->name));
    json_object_set_new(out, "hlo", json_string(row->inst->name));
    json_object_set_new(out, "launches", json_integer((json_int_t)row->launches));
    json_object_set_new(out, "runs", json_real(row->runs));
    json_object_set_new(out, "grid", three(c != NULL ? c->grid : none));
    json_object_set_new(out, "block", three(c != NULL ? c->block : none));
    json_object_set_new(out, "registers", json_integer(c != NULL ? c->registers : 0));
    json_object_set_new(out, "spill_bytes", json_integer(c != NULL ? c->spill_bytes : 0));
    json_object_set_new(out, "shared_bytes",
                        json_integer(c != NULL ? (json_int_t)c->shared_bytes : 0));
    json_object_set_new(out, "tileir", json_boolean(c != NULL && c->is_tileir));
    json_object_set_new(out, "waves", json_real(row->time.waves));
    json_object_set_new(out, "bytes", json_real(row->time.bytes * row->runs));
    json_object_set_new(out, "ops", json_real(row->time.operations * row->runs));
    json_object_set_new(out, "limit", json_string(kernel_limit_word(row->time.limit)));
    json_object_set_new(out, "us", json_real(row->seconds * 1e6));
    json_object_set_new(out, "share", json_real(row->time.share));
    json_object_set_new(out, "least_us",
                        json_real(row->time.least_seconds * row->runs * 1e6));
    if (c != NULL && c->loss != NULL)
        json_object_set_new(out, "loss", json_string(c->loss));
    if (row->reason != NULL)
        json_object_set_new(out, "reason", json_string(row->reason));
    if (row->candidates.count > 0) {
        json_object_set_new(out, "by", json_string(maker_name(row)));
        json_object_set_new(out, "candidates", candidates_json(&row->candidates));
    }
    return out;
}

json_t *kernel_report_json(const KernelReport *r)
{
    json_t *out = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_array_append_new(out, row_json(&r->rows[i]));
    return out;
}
