/* The plan as text. */
#include <inttypes.h>
#include <string.h>

#include "runtime/plan/walk.h"

static const char *const command_names[] = {
#define COMMAND(id, name, ...) [PLAN_##id] = name,
#include "runtime/plan/commands.def"
};

static const char *const allocation_names[] = {"argument",  "result",   "temp",
                                               "workspace", "constant", "state"};
static const char *const collective_names[] = {"all-reduce",         "all-gather",
                                               "reduce-scatter",     "all-to-all",
                                               "collective-permute", "broadcast"};
static const char *const reduction_names[] = {"none", "sum", "product", "min", "max"};
static const char *const mode_names[] = {"cross_replica", "cross_partition",
                                         "cross_replica_and_partition", "flattened_id"};
static const char *const stream_names[] = {"compute", "collective"};

const char *plan_command_name(uint32_t kind)
{
    return kind < PLAN_COMMAND_KINDS ? command_names[kind] : "?";
}

const char *plan_collective_name(uint32_t kind)
{
    return kind < PLAN_COLLECTIVE_KINDS ? collective_names[kind] : "?";
}

const char *plan_allocation_name(uint32_t kind)
{
    return kind < PLAN_ALLOCATION_KINDS ? allocation_names[kind] : "?";
}

static void print_hash(FILE *out, const uint8_t hash[16])
{
    for (int i = 0; i < 16; i++) {
        fprintf(out, "%02x", hash[i]);
    }
}

static void print_info(const Plan *p, FILE *out)
{
    const PlanInfo *info = p->info;
    fprintf(out, "plan %s\n", plan_text(p, info->module));
    fprintf(out, "  target %s, driver >= %u.%u\n", plan_text(p, info->target),
            info->min_driver / 1000, info->min_driver % 1000 / 10);
    fprintf(out, "  made by gxc %s, LLVM %s, %s\n", plan_text(p, info->gxc_version),
            plan_text(p, info->llvm_version), plan_text(p, info->assembler));
    if (p->strings[info->options]) {
        fprintf(out, "  options %s\n", plan_text(p, info->options));
    }
    fprintf(out, "  module hash ");
    print_hash(out, info->module_hash);
    fprintf(out,
            "\n  replicas %u, partitions %u, signals %u, async slots %u, counters %u, "
            "host syncs %u%s%s\n",
            info->replicas, info->partitions, info->signal_count, info->async_count,
            info->counter_count, info->host_syncs,
            info->flags & PLAN_ELIDED ? ", elided constants" : "",
            info->flags & PLAN_TF32 ? ", TF32" : "");
    if (info->min_cublaslt || info->min_cudnn || info->min_nccl) {
        fprintf(out, "  libraries cublaslt >= %u, cudnn >= %u, nccl >= %u\n",
                info->min_cublaslt, info->min_cudnn, info->min_nccl);
    }
    if (info->min_cusolver) {
        fprintf(out, "  library cusolver >= %u\n", info->min_cusolver);
    }
}

static void print_value(const Plan *p, const PlanValue *v, const char *what, uint32_t i,
                        FILE *out)
{
    const int64_t *dims = p->numbers + v->dims;
    fprintf(out, "%s %u %s %s[", what, i, plan_text(p, v->name), plan_text(p, v->dtype));
    for (uint32_t j = 0; j < v->rank; j++) {
        fprintf(out, "%s%" PRId64, j ? "," : "", dims[j]);
    }
    fprintf(out, "]{");
    for (uint32_t j = 0; j < v->rank; j++) {
        fprintf(out, "%s%" PRId64, j ? "," : "", dims[v->rank + j]);
    }
    fprintf(out, "} bytes=%" PRIu64, v->bytes);
    if (v->alias != PLAN_NONE) {
        fprintf(out, " %s-alias=%u", v->alias_kind == PLAN_ALIAS_MUST ? "must" : "may",
                v->alias);
    }
    if (v->donated) {
        fprintf(out, " donated");
    }
    if (v->size_of != PLAN_NONE) {
        fprintf(out, " size-of=%u.%u", v->size_of, v->size_dimension);
    }
    fprintf(out, "\n");
}

static void print_allocation(const Plan *p, uint32_t i, FILE *out)
{
    const PlanAllocation *a = &p->allocations[i];
    fprintf(out, "allocation a%u %s", i, allocation_names[a->kind]);
    if (a->kind == PLAN_ARGUMENT || a->kind == PLAN_RESULT) {
        fprintf(out, " %u", a->index);
    }
    fprintf(out, " bytes=%" PRIu64 " align=%u", a->bytes, a->alignment);
    if (a->colour) {
        fprintf(out, " colour=%u", a->colour);
    }
    if (a->kind == PLAN_CONSTANT) {
        fprintf(out, " offset=%" PRIu64 " %s%s", a->offset, plan_text(p, a->name),
                a->elided ? " elided" : "");
    }
    fprintf(out, "\n");
}

static void print_kernel_record(const Plan *p, const PlanKernel *k, FILE *out)
{
    fprintf(out, "kernel %s grid=%u,%u,%u block=%u,%u,%u", plan_text(p, k->name),
            k->grid[0], k->grid[1], k->grid[2], k->block[0], k->block[1], k->block[2]);
    if (k->cluster[0] * k->cluster[1] * k->cluster[2] != 1) {
        fprintf(out, " cluster=%u,%u,%u", k->cluster[0], k->cluster[1], k->cluster[2]);
    }
    fprintf(out, " shared=%u+%u parameters=%u", k->static_shared_bytes, k->shared_bytes,
            k->parameter_count);
    fprintf(out, "%s%s\n", k->flags & PLAN_KERNEL_BARRIERS ? " barriers" : "",
            k->flags & PLAN_KERNEL_COOPERATIVE ? " cooperative" : "");
}

static void print_image(const Plan *p, const PlanImage *m, FILE *out)
{
    if (m->kind == PLAN_IMAGE_PTX) {
        fprintf(out, "image of all kernels: PTX bytes=%" PRIu64 "\n", m->bytes);
        return;
    }
    const char *name = plan_text(p, p->kernels[m->kernel].name);
    if (m->kind == PLAN_IMAGE_TILEIR) {
        fprintf(out, "image of %s: Tile IR blocks=%u bytes=%" PRIu64 "\n", name,
                m->blocks, m->bytes);
        return;
    }
    fprintf(out,
            "image of %s: cubin blocks=%u threads=%u registers=%u shared=%" PRIu64
            " bytes=%" PRIu64 "\n",
            name, m->blocks, m->threads, m->registers, m->shared_bytes, m->bytes);
}

static void print_matrix(const char *name, const PlanMatrix *m, FILE *out)
{
    fprintf(out,
            " %s={type %u, %c, %" PRIu64 "x%" PRIu64 ", ld %" PRId64 ", stride %" PRId64,
            name, m->type, "NTC"[m->transpose], m -> rows, m -> columns, m -> ld,
            m -> batch_stride);
    if (m->scale_mode) {
        fprintf(out, ", scale %u", m->scale_mode);
    }
    fprintf(out, "}");
}

static void print_matmul_record(const PlanMatmul *m, uint32_t i, FILE *out)
{
    fprintf(out, "matmul m%u batch=%u compute=%u scale=%u epilogue=%u alpha=%g beta=%g",
            i, m->batch, m->compute, m->scale_type, m->epilogue, m->alpha, m->beta);
    print_matrix("a", &m->a, out);
    print_matrix("b", &m->b, out);
    print_matrix("c", &m->c, out);
    print_matrix("d", &m->d, out);
    fprintf(out, "%s%s workspace=%" PRIu64 "\n",
            m->device_factors ? " device-factors" : "",
            m->fast_accumulation ? " fast-accumulation" : "", m->workspace_bytes);
}

static void print_solver_record(const PlanSolver *s, uint32_t i, FILE *out)
{
    fprintf(out, "solver f%u %s type=%u batch=%u rows=%" PRIu64 " columns=%" PRIu64 " %s",
            i, plan_solver_name(s->kind), s->type, s->batch, s->rows, s->columns,
            s->fill == CUBLAS_FILL_MODE_LOWER ? "lower" : "upper");
    fprintf(out, " vectors=%" PRIu64 "\n", s->vectors);
}

static void print_clique(const Plan *p, uint32_t i, FILE *out)
{
    const PlanClique *c = &p->cliques[i];
    const int64_t *numbers = p->numbers + c->groups;
    fprintf(out, "clique c%u %s %s {", i, plan_text(p, c->name), mode_names[c->mode]);
    for (uint32_t g = 0, at = 0; g < c->group_count; g++) {
        uint32_t end = at + 1 + (uint32_t)numbers[at];
        fprintf(out, "%s{", g ? "," : "");
        for (uint32_t j = ++at; at < end; at++) {
            fprintf(out, "%s%" PRId64, at > j ? "," : "", numbers[at]);
        }
        fprintf(out, "}");
    }
    fprintf(out, "}\n");
}

static void print_term(const PlanTerm *t, FILE *out)
{
    fprintf(out, "clamp(i%u*%" PRId64 "%+" PRId64 ",%" PRId64 ",%" PRId64 ")*%" PRId64,
            t->counter, t->scale, t->bias, t->low, t->high, t->stride);
}

static void print_slice(const Plan *p, uint32_t i, FILE *out)
{
    const PlanSlice *s = &p->slices[i];
    fprintf(out, "a%u[%" PRIu64, s->allocation, s->offset);
    for (uint32_t j = 0; j < s->term_count; j++) {
        fprintf(out, "+");
        print_term(&p->terms[s->terms + j], out);
    }
    fprintf(out, ",%" PRIu64 "]", s->bytes);
}

static void print_arg(const Plan *p, const PlanArg *a, FILE *out)
{
    static const char *const access[] = {"", "r:", "w:", "rw:"};
    switch ((PlanArgTag)a->tag) {
    case PLAN_ARG_NONE:
        fprintf(out, "none");
        break;
    case PLAN_ARG_SLICE:
        fprintf(out, "%s", access[a->access]);
        print_slice(p, a->index, out);
        if (a->value) {
            fprintf(out, "/%" PRIu64, a->value);
        }
        break;
    case PLAN_ARG_IMMEDIATE:
        fprintf(out, "0x%" PRIx64, a->value);
        break;
    case PLAN_ARG_PARTITION:
        fprintf(out, "partition-id");
        break;
    case PLAN_ARG_REPLICA:
        fprintf(out, "replica-id");
        break;
    case PLAN_ARG_TAGS:
        break;
    }
}

/* --- between a command's name and its args: column `print` of commands.def --------------- */

static void print_nothing(const Plan *p, const PlanCommand *c, FILE *out)
{
    (void)p;
    (void)c;
    (void)out;
}

static void print_subject(const Plan *p, const PlanCommand *c, FILE *out)
{
    fprintf(out, " %s", plan_command_subject(p, c));
}

static void print_pattern(const Plan *p, const PlanCommand *c, FILE *out)
{
    (void)p;
    fprintf(out, " pattern=%u", c->count);
}

static void print_matmul(const Plan *p, const PlanCommand *c, FILE *out)
{
    (void)p;
    fprintf(out, " m%u", c->index);
}

static void print_solver(const Plan *p, const PlanCommand *c, FILE *out)
{
    fprintf(out, " f%u %s", c->index, plan_command_subject(p, c));
}

static void print_graph(const Plan *p, const PlanCommand *c, FILE *out)
{
    (void)p;
    fprintf(out, " g%u", c->index);
}

static void print_collective(const Plan *p, const PlanCommand *command, FILE *out)
{
    const PlanCollective *c = &p->collectives[command->index];
    fprintf(out, " %s", collective_names[c->kind]);
    if (c->reduction) {
        fprintf(out, " %s", reduction_names[c->reduction]);
    }
    fprintf(out, " %s c%u", plan_text(p, c->dtype), c->clique);
    if (c->channel) {
        fprintf(out, " channel=%" PRId64, c->channel);
    }
    if (c->flags & PLAN_COLLECTIVE_JOINED) {
        fprintf(out, " joined");
    }
    for (uint32_t i = 0; i < c->pair_count; i++) {
        fprintf(out, "%s{%" PRId64 ",%" PRId64 "}", i ? "," : " ",
                p->numbers[c->pairs + 2 * i], p->numbers[c->pairs + 2 * i + 1]);
    }
}

static void print_loop(const Plan *p, const PlanCommand *c, FILE *out)
{
    const PlanLoop *l = &p->loops[c->index];
    if (l->trip_count >= 0) {
        fprintf(out, " trip=%" PRId64, l->trip_count);
    }
    if (l->counter != PLAN_NONE) {
        fprintf(out, " counter=i%u", l->counter);
    }
}

static void print_slot(const Plan *p, const PlanCommand *c, FILE *out)
{
    (void)p;
    fprintf(out, " slot=%u", c->index);
}

static void (*const print_middle[])(const Plan *, const PlanCommand *, FILE *) = {
#define COMMAND(id, name, counts, read, print, ...) [PLAN_##id] = print_##print,
#include "runtime/plan/commands.def"
};

/* --- what a command works on: column `subject` ------------------------------------------- */

static const char *subject_none(const Plan *p, const PlanCommand *c)
{
    (void)p;
    (void)c;
    return "";
}

static const char *subject_kernel(const Plan *p, const PlanCommand *c)
{
    return plan_text(p, p->kernels[c->index].name);
}

static const char *subject_collective(const Plan *p, const PlanCommand *c)
{
    return plan_collective_name(p->collectives[c->index].kind);
}

static const char *subject_function(const Plan *p, const PlanCommand *c)
{
    return plan_text(p, c->index);
}

static const char *subject_graph(const Plan *p, const PlanCommand *c)
{
    return plan_text(p, p->graphs[c->index].name);
}

static const char *subject_solver(const Plan *p, const PlanCommand *c)
{
    return plan_solver_name(p->solvers[c->index].kind);
}

static const char *(*const subject_of[])(const Plan *, const PlanCommand *) = {
#define COMMAND(id, name, counts, read, print, subject, ...)                             \
    [PLAN_##id] = subject_##subject,
#include "runtime/plan/commands.def"
};

const char *plan_command_subject(const Plan *p, const PlanCommand *c)
{
    return subject_of[c->kind](p, c);
}

/* --- commands ---------------------------------------------------------------------------- */

static void print_command(const Plan *p, const PlanCommand *c, FILE *out)
{
    fprintf(out, "%s", command_names[c->kind]);
    print_middle[c->kind](p, c, out);
    fprintf(out, "(");
    for (uint32_t i = 0; i < c->arg_count; i++) {
        fprintf(out, "%s", i ? ", " : "");
        print_arg(p, &p->args[c->args + i], out);
    }
    fprintf(out, ")");
    if (c->stream) {
        fprintf(out, " stream=%u", c->stream);
    }
    for (uint32_t i = 0; i < c->wait_count; i++) {
        fprintf(out, "%s%u", i ? "," : " wait=", p->refs[c->waits + i]);
    }
    if (c->signal != PLAN_NONE) {
        fprintf(out, " signal=%u", c->signal);
    }
    if (p->strings[c->name]) {
        fprintf(out, "  ; %s", plan_text(p, c->name));
    }
    fprintf(out, "\n");
}

static void print_region(const PlanWalk *w, FILE *out)
{
    const Plan *p = w->plan;
    const PlanFrame *o = &w->open[w->depth - 1];
    const PlanCommand *c = &p->commands[o->command];
    int indent = (int)(2 * w->depth - 1);
    switch (plan_regions(c)) {
    case PLAN_REGIONS_LOOP:
        if (plan_region_size(p, c, o->region)) {
            fprintf(out, "%*s%s:\n", indent, "",
                    o->region == PLAN_LOOP_BODY ? "body" : "condition");
        }
        break;
    case PLAN_REGIONS_BRANCHES:
        fprintf(out, "%*sbranch %u:\n", indent, "", o->region);
        break;
    case PLAN_REGIONS_NONE:
    case PLAN_REGIONS_ONE:
        break;
    }
}

static void print_commands(const Plan *p, FILE *out)
{
    PlanWalk w = {.plan = p};
    for (uint32_t i = 0; i < p->commands_count; i++) {
        while (plan_walk_next_region(&w, i)) {
            print_region(&w, out);
        }
        const PlanCommand *c = &p->commands[i];
        fprintf(out, "%*s", (int)(2 * w.depth), "");
        print_command(p, c, out);
        if (c->subtree > 1) {
            plan_walk_open(&w, i);
            print_region(&w, out);
        }
    }
}

static void print_tunable(const Plan *p, const PlanTunable *t, FILE *out)
{
    fprintf(out, "tunable %s key=%s\n", plan_text(p, p->commands[t->command].name),
            plan_text(p, t->key));
    for (uint32_t i = 0; i < t->candidate_count; i++) {
        const PlanCandidate *c = &p->candidates[t->candidates + i];
        fprintf(out, "  %s %s %s %llu ps\n", plan_text(p, p->kernels[c->kernel].name),
                plan_text(p, c->kind), plan_text(p, c->config),
                (unsigned long long)c->modelled);
    }
}

void plan_print(const Plan *p, FILE *out)
{
    print_info(p, out);
    for (uint32_t i = 0; i < p->arguments_count; i++) {
        print_value(p, &p->arguments[i], "argument", i, out);
    }
    for (uint32_t i = 0; i < p->results_count; i++) {
        print_value(p, &p->results[i], "result", i, out);
    }
    for (uint32_t i = 0; i < p->allocations_count; i++) {
        print_allocation(p, i, out);
    }
    for (uint32_t i = 1; i < p->streams_count; i++) {
        fprintf(out, "stream %u %s priority=%u\n", i, stream_names[p->streams[i].kind],
                p->streams[i].priority);
    }
    for (uint32_t i = 0; i < p->kernels_count; i++) {
        print_kernel_record(p, &p->kernels[i], out);
    }
    for (uint32_t i = 0; i < p->images_count; i++) {
        print_image(p, &p->images[i], out);
    }
    for (uint32_t i = 0; i < p->matmuls_count; i++) {
        print_matmul_record(&p->matmuls[i], i, out);
    }
    for (uint32_t i = 0; i < p->algorithms_count; i++) {
        const PlanAlgorithm *a = &p->algorithms[i];
        fprintf(out, "algorithm of m%u version=%u workspace=%" PRIu64 "\n", a->matmul,
                a->version, a->workspace_bytes);
    }
    for (uint32_t i = 0; i < p->solvers_count; i++) {
        print_solver_record(&p->solvers[i], i, out);
    }
    for (uint32_t i = 0; i < p->graphs_count; i++) {
        plan_print_graph(p, i, out);
    }
    for (uint32_t i = 0; i < p->choices_count; i++) {
        const PlanChoice *c = &p->choices[i];
        fprintf(out, "configuration of g%u version=%u number=%u\n", c->graph, c->version,
                c->configuration);
    }
    for (uint32_t i = 0; i < p->cliques_count; i++) {
        print_clique(p, i, out);
    }
    print_commands(p, out);
    for (uint32_t i = 0; i < p->tunables_count; i++) {
        print_tunable(p, &p->tunables[i], out);
    }
}
