/* See tuning.h. A candidate is a kernel of the plan, an algorithm of cuBLASLt or a configuration of cuDNN's. */
#include <stdlib.h>
#include <string.h>

#include "runtime/run/tuning.h"

enum { ALGORITHMS_MOST = 8 /* of a library, by its own order */ };
_Static_assert((int)GRAPH_TRIALS_MOST <= (int)ALGORITHMS_MOST,
               "trials have room for them");

/* The candidates that the plan has. */
static void add_kernels(Tuning *t)
{
    const Plan *p = t->device->session->plan;
    for (uint32_t i = 0; i < t->trial_count; i++) {
        const PlanCandidate *c = &p->candidates[t->tunable->candidates + i];
        t->trials[i] = (Trial){.kind = plan_text(p, c->kind),
                               .config = plan_text(p, c->config),
                               .kernel = c->kernel,
                               .modelled = c->modelled};
    }
}

/* {"algorithm":"0123...","version":130100,"workspace":0} */
static void describe_algorithm(Trial *trial, size_t version)
{
    unsigned char bytes[sizeof trial->algorithm];
    memcpy(bytes, &trial->algorithm, sizeof bytes);
    char *text = trial->algorithm_config;
    int n = snprintf(text, TUNING_ALGORITHM_TEXT, "{\"algorithm\":\"");
    for (size_t i = 0; i < sizeof bytes; i++) {
        n += snprintf(text + n, TUNING_ALGORITHM_TEXT - (size_t)n, "%02x", bytes[i]);
    }
    snprintf(text + n, TUNING_ALGORITHM_TEXT - (size_t)n,
             "\",\"version\":%zu,\"workspace\":%llu}", version,
             (unsigned long long)trial->workspace_bytes);
}

/* The one that the program has first, then those of the library's heuristic. */
static gxrt_status add_algorithms(Tuning *t)
{
    const Device *d = t->device;
    cublasLtMatmulHeuristicResult_t found[ALGORITHMS_MOST];
    int count = 0;
    cublasStatus_t r =
        matmul_heuristic(d, t->command->index, ALGORITHMS_MOST, found, &count);
    const Plan *p = d->session->plan;
    uint32_t number = (uint32_t)(t->command - p->commands);
    if (r != 0) {
        return status_set(GXRT_DEVICE_FAILED,
                          "cublasLtMatmulAlgoGetHeuristic: cuBLASLt status %d for %s", r,
                          plan_text(p, t->command->name));
    }
    const cublasLtMatmulAlgo_t *own = &d->matmuls[t->command->index].algorithm;
    for (int i = 1; i < count; i++) {
        if (memcmp(&found[i].algo, own, sizeof *own) == 0) {
            cublasLtMatmulHeuristicResult_t first = found[0];
            found[0] = found[i];
            found[i] = first;
        }
    }
    for (int i = 0; i < count; i++) {
        Trial *trial = &t->trials[t->trial_count];
        *trial = (Trial){
            .kind = "cublaslt",
            .config = trial->algorithm_config,
            .kernel = PLAN_NONE,
            .algorithm = found[i].algo,
            .workspace_bytes = found[i].workspaceSize,
            .modelled = p->origins_count ? p->origins[number].modelled : 0,
        };
        describe_algorithm(trial, d->session->cublaslt->version());
        t->trial_count += found[i].state == 0;
    }
    return GXRT_OK;
}

/* {"configuration":0,"version":91900,"workspace":0}: the program's own first. */
static gxrt_status add_configurations(Tuning *t)
{
    Device *d = t->device;
    const Plan *p = d->session->plan;
    uint32_t count, own, number = (uint32_t)(t->command - p->commands);
    gxrt_status st = graph_trials_make(d, t->command->index, &t->graphs, &count, &own);
    for (uint32_t i = 0; i < count && st == GXRT_OK; i++) {
        Trial *trial = &t->trials[t->trial_count++];
        uint32_t which = i == 0 ? own : i == own ? 0 : i, configuration;
        *trial = (Trial){
            .kind = "cudnn",
            .config = trial->algorithm_config,
            .kernel = PLAN_NONE,
            .configuration = which,
            .modelled = p->origins_count ? p->origins[number].modelled : 0,
        };
        graph_trial_describe(t->graphs, which, &configuration, &trial->workspace_bytes);
        snprintf(trial->algorithm_config, sizeof trial->algorithm_config,
                 "{\"configuration\":%u,\"version\":%zu,\"workspace\":%llu}",
                 configuration, d->session->cudnn->version(),
                 (unsigned long long)trial->workspace_bytes);
    }
    return st;
}

gxrt_status tuning_add_trials(Tuning *t)
{
    uint32_t count = t->tunable->candidate_count;
    t->trials = calloc((size_t)count + ALGORITHMS_MOST, sizeof *t->trials);
    if (!t->trials) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_tune: no memory");
    }
    if (t->command->kind == PLAN_MATMUL) {
        return add_algorithms(t);
    }
    if (t->command->kind == PLAN_GRAPH) {
        return add_configurations(t);
    }
    t->trial_count = count;
    add_kernels(t);
    return GXRT_OK;
}

/* The command's arguments, with the tuner's memory in place of what it writes. */
gxrt_status tuning_make_parameters(Tuning *t)
{
    const Device *d = t->device;
    uint32_t n = t->command->arg_count;
    t->slots = calloc((size_t)n + 1, sizeof *t->slots);
    t->parameters = calloc((size_t)n + 1, sizeof *t->parameters);
    t->touches = calloc((size_t)n + 1, sizeof *t->touches);
    if (!t->slots || !t->parameters || !t->touches) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_tune: no memory");
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t arg = t->command->args + i;
        t->slots[i] = tuning_arg(t, i)->tag == PLAN_ARG_SLICE ? tuning_address(t, i)
                      : t->command->kind == PLAN_LAUNCH       ? d->slots[arg]
                                                              : 0;
        t->parameters[i] = &t->slots[i];
        if (d->emu_parameters) {
            t->touches[i] = d->emu_parameters[arg];
        }
    }
    return GXRT_OK;
}

static bool launch_algorithm(const Tuning *t, Trial *trial)
{
    void *at[PLAN_MATMUL_ARGS] = {NULL};
    for (uint32_t i = 0; i < t->command->arg_count; i++) {
        at[i] = (void *)(uintptr_t)t->slots[i];
    }
    cublasStatus_t r =
        matmul_queue(t->device, t->command, at, &trial->algorithm, t->stream);
    if (r != 0) {
        snprintf(trial->failure, sizeof trial->failure,
                 "it does not start: cuBLASLt status %d", r);
    }
    return r == 0;
}

static bool launch_configuration(const Tuning *t, Trial *trial)
{
    const char *failure = graph_trial_queue(t->device, t->command, t->graphs,
                                            trial->configuration, t->slots, t->stream);
    if (failure) {
        snprintf(trial->failure, sizeof trial->failure, "it does not start: %s", failure);
    }
    return !failure;
}

static bool launch_kernel(const Tuning *t, Trial *trial)
{
    Device *d = t->device;
    const CudaApi *cuda = d->session->cuda;
    CUlaunchConfig *config = &d->launches[trial->kernel].config;
    config->hStream = t->stream;
    CUresult r;
    if (cuda->emulated) {
        GxemuLaunch note = {plan_text(d->session->plan, t->command->name), t->touches,
                            t->command->arg_count};
        r = cuda->emu_launch(config, d->functions[trial->kernel], t->parameters, &note);
    } else {
        r = cuda->launch(config, d->functions[trial->kernel], t->parameters, NULL);
    }
    if (r != CUDA_SUCCESS) {
        const char *name = NULL;
        char words[TUNING_FAILURE_TEXT / 2] = "";
        cuda->error_name(r, &name);
        if (cuda->emulated) {
            cuda->emu_last_error(words, sizeof words);
        }
        snprintf(trial->failure, sizeof trial->failure, "it does not start: %s%s%s",
                 name ? name : "an unknown error", *words ? ": " : "", words);
    }
    return r == CUDA_SUCCESS;
}

/* Queues it. What the driver or the library refuses is the candidate's failure. */
bool tuning_launch(const Tuning *t, Trial *trial)
{
    return trial->kernel != PLAN_NONE ? launch_kernel(t, trial)
           : t->graphs                ? launch_configuration(t, trial)
                                      : launch_algorithm(t, trial);
}
