/* From a fusion to what is known of its kernel: plan, configuration, geometry. See kernel.h. */
#include <string.h>

#include "ir/base/bug.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/work_kinds.h"
#include "ir/print/print.h"

static const struct {
    PlanFn *plan;
    ConfigureFn *configure;
    RefuseFn *refuse;
    GeometryFn *geometry;
} rows[KERNEL_COUNT] = {
#define KERNEL(id, name, family, ...)                                                    \
    {plan_##family, configure_##family, refuse_##family, geometry_##family},
#include "ir/kernel/kernels.def"
};

/* The heuristic for what the text leaves open. */
static void complete(KernelDesign *d)
{
    uint32_t keys = kernel_kind_info[d->kind].keys;
    if ((d->config.set & keys) == keys)
        return;
    rows[d->kind].configure(d, &d->config);
    if (((d->config.set ^ keys) & ~KERNEL_OPTIONAL_KEYS) != 0)
        bug("the heuristic of %s left something open", kernel_kind_name(d->kind));
}

/* False: d->wrong or d->unsupported says why. */
static bool find_plan(KernelDesign *d)
{
    FusionFacts f;
    facts_init(&f, d->fusion, d->target, d->arena);
    uint32_t features = kernel_kind_info[d->kind].features;
    if (f.rank > KERNEL_MOST_RANK)
        d->unsupported = refuse_text(d, "an array of %u dimensions in a kernel", f.rank);
    else if (!target_has(d->target, features))
        d->unsupported = refuse_text(d, "%s has no %s", d->target->name,
                                     target_lacks(d->target, UINT32_MAX, features));
    else
        d->wrong = facts_illegal(&f, d->kind);
    if (d->wrong != NULL || d->unsupported != NULL)
        return false;
    rows[d->kind].plan(d, &f);
    return d->unsupported == NULL;
}

/* What the text leaves open is first asked of `tuned`, NULL or an entry of the tuning file. */
static void design(const Instruction *fusion, const Target *t, const Config *tuned,
                   Arena *a, KernelDesign *d)
{
    *d = (KernelDesign){
        .fusion = fusion, .target = t, .arena = a, .kind = kernel_kind_of(fusion)};
    if (d->kind == KERNEL_COUNT) {
        d->unsupported = refuse_text(d, "%s: no kind of kernel", fusion->name);
        return;
    }
    if (!find_plan(d))
        return;
    d->wrong = config_read(d, config_of(fusion));
    if (d->wrong == NULL && tuned != NULL)
        d->wrong = config_read(d, tuned);
    if (d->wrong != NULL)
        return;
    bool is_ours = d->config.set == 0;
    complete(d);
    d->wrong = rows[d->kind].refuse(d);
    if (d->wrong == NULL)
        rows[d->kind].geometry(d);
    if (d->wrong != NULL && is_ours) { /* however it is made */
        d->unsupported = d->wrong;
        d->wrong = NULL;
    }
}

bool design_seconds(const KernelDesign *d, const KernelConfig *config, double *seconds)
{
    Arena *a = arena_scratch();
    KernelDesign trial = *d;
    KernelWork work;
    trial.arena = a;
    trial.config = *config;
    bool good = rows[d->kind].refuse(&trial) == NULL;
    if (good) {
        rows[d->kind].geometry(&trial);
        work_of_kind(&trial, &work);
        *seconds = kernel_time(&work, d->target->device).seconds;
        good = trial.unsupported == NULL;
    }
    arena_destroy(a);
    return good;
}

void kernel_design(const Instruction *fusion, const Target *t, Arena *a,
                   KernelDesign *out)
{
    design(fusion, t, NULL, a, out);
}

bool kernel_scalar(const Instruction *fusion, KernelScalar *out)
{
    return kernel_is(fusion, KERNEL_BY_DIGIT) &&
           (radix_scalar(fusion, out) || radix_count_scalar(fusion, out));
}

void kernel_wrong(const KernelDesign *d)
{
    diag_error(d->fusion->parent->module->diag, d->fusion->span, "%s, kernel %s: %s",
               d->fusion->name, kernel_kind_name(d->kind), d->wrong);
}

/* Of a body. */
typedef struct Configured {
    const char *key, *text; /* text NULL: not known yet, or not possible */
    KernelKind kind;
} Configured;

typedef struct Configure {
    const Target *target;
    const Tuning *tuning;
    Arena *scratch, *list; /* of one fusion; of all */
    KernelsConfigured *done;
    Configured *equal;
    size_t equal_count, equal_capacity;
} Configure;

static const TuningEntry *find_tuned(const Configure *c, const Instruction *fusion)
{
    return c->tuning == NULL
               ? NULL
               : tuning_find(c->tuning, kernel_tuning_key(c->scratch, fusion, c->target));
}

/* The text's mistake, or that of the tuning file: without it, the fusion's kind would be `kind`. */
static void report_wrong(const Configure *c, Instruction *fusion, KernelKind kind,
                         const KernelDesign *d, const TuningEntry *e)
{
    KernelDesign alone;
    if (kernel_kind_of(fusion) != kind)
        kernel_kind_set(fusion, kind);
    kernel_design(d->fusion, c->target, c->scratch, &alone);
    if (e == NULL || alone.wrong != NULL)
        kernel_wrong(d);
    else
        diag_error(d->fusion->parent->module->diag, d->fusion->span,
                   "%s, kernel %s: %s, by entry %u of %s", d->fusion->name,
                   kernel_kind_name(d->kind), d->wrong, e->number, c->tuning->file);
}

/* What the heuristic of a kind that asks the model of time said of an equal fusion; NULL: it has no other. */
static Configured *find_equal(Configure *c, const Instruction *fusion, KernelKind kind)
{
    if (!kernel_kind_is(kind, KERNEL_ON_TENSOR_CORES))
        return NULL;
    size_t length;
    const char *body =
        computation_print(c->scratch, inst_called(fusion, 0), PRINT_CANONICAL, &length);
    const char *key = arena_printf(
        c->list, "%s %.*s", kernel_config_key(c->scratch, fusion), (int)length, body);
    for (size_t i = 0; i < c->equal_count; i++) {
        if (c->equal[i].kind == kind && strcmp(c->equal[i].key, key) == 0)
            return &c->equal[i];
    }
    c->equal = arena_grow(c->list, c->equal, &c->equal_capacity, c->equal_count + 1,
                          sizeof *c->equal);
    c->equal[c->equal_count] = (Configured){.key = key, .kind = kind};
    return &c->equal[c->equal_count++];
}

/* What the text says of its kernel's configuration stays, and is of its kind; else the file may choose another. */
static const TuningEntry *take_kind(const Configure *c, Instruction *fusion)
{
    const TuningEntry *e = find_tuned(c, fusion);
    if (e == NULL || e->kind == kernel_kind_of(fusion))
        return e;
    if (config_has_kernel(fusion) || e->kind == KERNEL_COUNT)
        return NULL;
    kernel_kind_set(fusion, e->kind);
    return e;
}

/* What is not supported is said when a kernel is asked for: one without elements is not. */
static bool configure(Instruction *fusion, Configure *c)
{
    KernelKind kind = kernel_kind_of(fusion);
    if (kind == KERNEL_COUNT || config_is_complete(fusion, kind))
        return true;
    KernelDesign d;
    const TuningEntry *e = take_kind(c, fusion);
    Configured *equal = e == NULL ? find_equal(c, fusion, kind) : NULL;
    if (equal != NULL && equal->text != NULL) {
        config_set_object(fusion, "config", equal->text);
        c->done->count++;
        return true;
    }
    design(fusion, c->target, e != NULL ? e->config : NULL, c->scratch, &d);
    if (d.wrong != NULL)
        report_wrong(c, fusion, kind, &d, e);
    if (d.wrong == NULL && d.unsupported == NULL) {
        const char *text = kernel_config_text(c->list, &d.config);
        config_set_object(fusion, "config", text);
        if (equal != NULL)
            equal->text = text;
        c->done->count++;
        c->done->tuned += e != NULL;
    }
    return d.wrong == NULL;
}

bool kernel_configure_all(Module *m, const Target *t, const Tuning *tuning,
                          KernelsConfigured *out)
{
    bool good = true;
    Arena *list = arena_scratch(), *scratch = arena_scratch();
    Configure c = {
        .target = t, .tuning = tuning, .scratch = scratch, .list = list, .done = out};
    *out = (KernelsConfigured){0};
    Computations programs = module_programs(m, list);
    for (uint32_t i = 0; i < programs.count; i++) {
        Computation *comp = programs.data[i];
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op == OP_FUSION && !configure(inst, &c))
                good = false;
            arena_reset(scratch);
        }
    }
    arena_destroy(scratch);
    arena_destroy(list);
    return good;
}
