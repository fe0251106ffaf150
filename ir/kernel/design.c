/* From a fusion to what is known of its kernel: plan, configuration, geometry. See kernel.h. */
#include <string.h>

#include "ir/bug.h"
#include "ir/kernel/rules.h"

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
    if (d->config.set != keys)
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

void kernel_design(const Instruction *fusion, const Target *t, Arena *a,
                   KernelDesign *out)
{
    KernelDesign *d = out;
    *d = (KernelDesign){
        .fusion = fusion, .target = t, .arena = a, .kind = kernel_kind_of(fusion)};
    if (d->kind == KERNEL_COUNT) {
        d->unsupported = refuse_text(d, "%s: no kind of kernel", fusion->name);
        return;
    }
    if (!find_plan(d))
        return;
    d->wrong = config_read(d);
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

void kernel_geometry(const Instruction *fusion, const Target *t, Arena *a,
                     KernelGeometry *out)
{
    KernelDesign d;
    kernel_design(fusion, t, a, &d);
    bool good = d.wrong == NULL && d.unsupported == NULL;
    *out = good ? d.geometry : (KernelGeometry){.shared_bytes = 0};
}

void kernel_wrong(const KernelDesign *d)
{
    diag_error(d->fusion->parent->module->diag, d->fusion->span, "%s, kernel %s: %s",
               d->fusion->name, kernel_kind_name(d->kind), d->wrong);
}

/* What is not supported is said when a kernel is asked for: one without elements is not. */
static bool configure(Instruction *fusion, const Target *t, Arena *scratch, bool *changed)
{
    KernelKind kind = kernel_kind_of(fusion);
    if (kind == KERNEL_COUNT || config_is_complete(fusion, kind))
        return true;
    KernelDesign d;
    kernel_design(fusion, t, scratch, &d);
    if (d.wrong != NULL)
        kernel_wrong(&d);
    if (d.wrong == NULL && d.unsupported == NULL) {
        config_set_object(fusion, "config", kernel_config_text(scratch, &d.config));
        *changed = true;
    }
    return d.wrong == NULL;
}

bool kernel_configure_all(Module *m, const Target *t, bool *changed)
{
    bool good = true, unused;
    Arena *list = arena_scratch(), *scratch = arena_scratch();
    Computations programs = module_programs(m, list);
    for (uint32_t i = 0; i < programs.count; i++) {
        Computation *comp = programs.data[i];
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op == OP_FUSION &&
                !configure(inst, t, scratch, changed != NULL ? changed : &unused))
                good = false;
            arena_reset(scratch);
        }
    }
    arena_destroy(scratch);
    arena_destroy(list);
    return good;
}
