/* Kernels of a program: a request for each distinct fusion. Two fusions are equal if the canonical
 * texts of their computations, their kinds of kernels, configurations and the classes of their arguments (which are
 * the same buffer, which are written) are; a hash finds candidates, the text decides. */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codegen/plan/variant.h"
#include "ir/base/bug.h"
#include "ir/base/text.h"
#include "ir/kernel/alternatives.h"
#include "ir/kernel/kind.h"
#include "ir/print/print.h"

typedef struct FusionArgs {
    uint32_t count, parameters;
    uint32_t *holders; /* which set has the memory that each argument lies in */
    KernelArg *args;
} FusionArgs;

/* Parameters by number, then result leaves, then the program's random state if it is asked for, then the scalar of
 * a kernel that has one. There is room for one more. `like` is the launch's own fusion. */
static FusionArgs fusion_args(const Variant *v, const PieceLaunch *launch,
                              const Instruction *like, bool has_scalar)
{
    const Instruction *fusion = launch->fusion;
    FusionArgs f = {.parameters = fusion->operand_count};
    uint32_t results = (uint32_t)shape_leaf_count(fusion->shape);
    f.count = f.parameters + results;
    f.holders = ARENA_ARRAY(v->arena, uint32_t, (size_t)f.count + 5);
    f.args = ARENA_ARRAY(v->arena, KernelArg, (size_t)f.count + 5);
    for (uint32_t i = 0; i < f.count; i++) {
        bool is_result = i >= f.parameters;
        const Instruction *inst = is_result ? fusion : fusion->operands[i];
        const Instruction *in = is_result ? like : like->operands[i];
        size_t leaf = is_result ? i - f.parameters : 0;
        const Buffer *b = &v->buffers->sets[alias_set(v->aliases, in, leaf)];
        f.holders[i] = b->holder;
        f.args[i] =
            (KernelArg){.align = VARIANT_ARGUMENT_ALIGNMENT,
                        .bytes = (uint64_t)shape_bytes(shape_leaf(inst->shape, leaf)),
                        .is_read_only = true,
                        .is_noalias = true};
        if (!is_result && launch->bytes != NULL)
            f.args[i].bytes = launch->bytes[i];
    }
    if (fusion_hero(fusion, OP_RNG_GET_AND_UPDATE_STATE) != NULL) {
        f.holders[f.count] = PLAN_NONE;
        f.args[f.count++] = (KernelArg){
            .align = BUFFER_ALIGNMENT, .bytes = VARIANT_STATE_BYTES, .is_noalias = true};
    }
    for (uint32_t r = f.parameters; r < f.count; r++) {
        f.args[r].is_read_only = false;
        for (uint32_t i = 0; i < f.count; i++) {
            if (i == r || f.holders[i] != f.holders[r])
                continue;
            f.args[i].is_read_only = false;
            f.args[i].is_noalias = false;
            f.args[r].is_noalias = false;
        }
    }
    if (has_scalar) {
        f.holders[f.count] = PLAN_NONE;
        f.args[f.count++] = (KernelArg){.is_scalar = true, .align = 1};
    }
    return f;
}

static void add_classes(Text *t, const FusionArgs *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t same = 0;
        while (f->holders[same] != f->holders[i])
            same++;
        text_printf(t, " %u:%u:%d%s", same, f->args[i].align, f->args[i].is_read_only,
                    f->args[i].is_scalar ? ":scalar" : "");
    }
}

static const char *kernel_key(const Variant *v, const Instruction *fusion,
                              const KernelScalar *scalar, const FusionArgs *f,
                              size_t *length)
{
    Text t;
    text_init(&t, v->arena);
    size_t n;
    const char *body = computation_print_unvalued(v->arena, inst_called(fusion, 0),
                                                  scalar->constants, scalar->count, &n);
    text_add(&t, body, n);
    text_string(&t, kernel_kind_name(kernel_kind_of(fusion)));
    text_string(&t, kernel_config_key(v->arena, fusion));
    add_classes(&t, f);
    *length = t.length;
    return t.data;
}

static uint32_t *table_slot(Variant *v, const char *key, size_t length)
{
    size_t at = XXH3_64bits(key, length) & (v->request_slots - 1);
    for (; v->request_table[at] != 0; at = (at + 1) & (v->request_slots - 1)) {
        const KernelRequest *e = &v->requests[v->request_table[at] - 1];
        if (e->key_length == length && memcmp(e->key, key, length) == 0)
            break;
    }
    return &v->request_table[at];
}

static void table_grow(Variant *v)
{
    if ((v->request_count + 1) * 2 < v->request_slots)
        return;
    v->request_slots = v->request_slots == 0 ? 64 : v->request_slots * 2;
    v->request_table = ARENA_ARRAY(v->arena, uint32_t, v->request_slots);
    for (size_t i = 0; i < v->request_count; i++)
        *table_slot(v, v->requests[i].key, v->requests[i].key_length) = (uint32_t)i + 1;
}

static const char *unique_kernel_name(const Variant *v, const Instruction *fusion)
{
    const char *base = kernel_name(v->arena, variant_name(v, fusion)), *name = base;
    for (unsigned n = 1;; n++) {
        bool taken = false;
        for (size_t i = 0; i < v->request_count && !taken; i++)
            taken = strcmp(v->requests[i].name, name) == 0;
        if (!taken)
            return name;
        name = arena_printf(v->arena, "%s_%u", base, n);
    }
}

/* NULL: it cannot be, which is an error, after a message, of the program's own fusion. */
static const KernelDesign *design(const Variant *v, const Instruction *fusion,
                                  bool is_own)
{
    KernelDesign *d = ARENA_NEW(v->arena, KernelDesign);
    kernel_design(fusion, v->target, v->arena, d);
    if (!is_own)
        return d->wrong == NULL && d->unsupported == NULL ? d : NULL;
    escape_innermost()->at = fusion->span;
    if (d->unsupported != NULL)
        escape_throw(ESCAPE_UNSUPPORTED, "%s", d->unsupported);
    escape_innermost()->at = (Span){0, 0};
    if (d->wrong == NULL)
        return d;
    kernel_wrong(d);
    return NULL;
}

/* What blocks leave there is for others. */
static void add_memory(const Variant *v, KernelRequest *r, FusionArgs *f, uint64_t bytes)
{
    if (bytes == 0)
        return;
    f->args[f->count++] = (KernelArg){.align = BUFFER_ALIGNMENT, .bytes = bytes};
    r->arg_count = f->count;
    r->moved = ARENA_ARRAY(v->arena, uint64_t, f->count);
}

static PlanKernel plan_kernel(Variant *v, const KernelRequest *r)
{
    const KernelGeometry *g = &r->design->geometry;
    bool is_dynamic = g->shared_bytes > TARGET_STATIC_SHARED;
    PlanKernel p = {.name = plan_string(&v->plan, r->name),
                    .flags = g->has_barriers ? PLAN_KERNEL_BARRIERS : 0,
                    .cluster = {1, 1, 1},
                    .shared_bytes = is_dynamic ? (uint32_t)g->shared_bytes : 0,
                    .static_shared_bytes = is_dynamic ? 0 : (uint32_t)g->shared_bytes,
                    .parameter_count = r->arg_count};
    memcpy(p.grid, g->grid, sizeof p.grid);
    memcpy(p.block, g->block, sizeof p.block);
    return p;
}

/* The kernel of a launch with the arguments that `like` has in the program. */
static uint32_t find_kernel(Variant *v, const PieceLaunch *launch,
                            const Instruction *like)
{
    const Instruction *fusion = launch->fusion;
    KernelScalar scalar = {.count = 0};
    bool has_scalar = kernel_scalar(fusion, &scalar);
    FusionArgs f = fusion_args(v, launch, like, has_scalar);
    size_t length;
    const char *key = kernel_key(v, fusion, &scalar, &f, &length);
    table_grow(v);
    uint32_t *slot = table_slot(v, key, length);
    if (*slot != 0)
        return *slot - 1;
    KernelRequest r = {.key = key,
                       .key_length = length,
                       .name = unique_kernel_name(v, like),
                       .fusion = fusion,
                       .design = design(v, fusion, fusion == like),
                       .args = f.args,
                       .arg_count = f.count,
                       .moved = ARENA_ARRAY(v->arena, uint64_t, f.count)};
    if (r.design == NULL)
        return PLAN_NONE;
    add_memory(v, &r, &f, r.design->geometry.scratch_bytes);
    add_memory(v, &r, &f, r.design->geometry.partial_bytes);
    add_memory(v, &r, &f, r.design->geometry.ticket_bytes);
    PlanKernel p = plan_kernel(v, &r);
    v->requests = arena_grow(v->arena, v->requests, &v->request_capacity,
                             v->request_count + 1, sizeof *v->requests);
    v->requests[v->request_count++] = r;
    *slot = (uint32_t)v->request_count;
    return plan_add_kernels(&v->plan, &p, 1);
}

/* False after a message: the tuning file has to be complete, and lacks this kernel. */
static bool is_tuned(const Variant *v, const Instruction *fusion)
{
    const Tuning *t = v->options->tuning;
    if (t == NULL || !t->is_complete)
        return true;
    const char *key = kernel_tuning_key(v->arena, fusion, v->target);
    if (tuning_find(t, key) != NULL)
        return true;
    diag_error(v->module->diag, fusion->span,
               "%s, kernel %s: no entry of %s has its key %s", fusion->name,
               kernel_kind_name(kernel_kind_of(fusion)), t->file, key);
    return false;
}

uint32_t variant_kernel(Variant *v, const Instruction *fusion, PieceLaunch *launch)
{
    if (!is_tuned(v, fusion))
        return PLAN_NONE;
    if (launch->offsets != NULL) {
        uint32_t kernel = find_kernel(v, launch, fusion);
        if (kernel != PLAN_NONE)
            return kernel;
        *launch = (PieceLaunch){.fusion = fusion};
    }
    return find_kernel(v, launch, fusion);
}

/* -- candidates ---------------------------------------------------------------------------------- */

static uint64_t picoseconds(double seconds)
{
    return seconds > 0 && seconds < 1e6 ? (uint64_t)(seconds * 1e12) : 0;
}

static void add_candidate(Variant *v, uint32_t kernel, double seconds)
{
    const KernelDesign *d = v->requests[kernel].design;
    PlanCandidate c = {
        .kernel = kernel,
        .kind = plan_string(&v->plan, kernel_kind_name(d->kind)),
        .config = plan_string(&v->plan, kernel_config_text(v->arena, &d->config)),
        .modelled = picoseconds(seconds)};
    plan_add_candidates(&v->plan, &c, 1);
}

/* What each argument is made of, where a tuner compares it: of the results. */
static uint32_t add_dtypes(Variant *v, const Instruction *fusion, uint32_t arg_count)
{
    uint32_t n = fusion->operand_count;
    uint32_t *names = ARENA_ARRAY(v->arena, uint32_t, (size_t)arg_count + 1);
    for (uint32_t r = 0; r < shape_leaf_count(fusion->shape); r++)
        names[n + r] =
            plan_string(&v->plan, dtype_info[shape_leaf(fusion->shape, r)->dtype].name);
    return plan_add_refs(&v->plan, names, arg_count);
}

static bool has_room(uint64_t has, uint64_t needs)
{
    return (has == 0) == (needs == 0) && needs <= has;
}

/* It can stand in the launch of `own`: its memory to work in is there, and not more. */
static bool takes_arguments(const KernelDesign *other, const KernelDesign *own)
{
    KernelScalar unused;
    const KernelGeometry *has = &own->geometry, *needs = &other->geometry;
    return has_room(has->scratch_bytes, needs->scratch_bytes) &&
           needs->cleared_bytes <= has->cleared_bytes &&
           has_room(has->partial_bytes, needs->partial_bytes) &&
           has_room(has->ticket_bytes, needs->ticket_bytes) &&
           kernel_scalar(other->fusion, &unused) == kernel_scalar(own->fusion, &unused);
}

void variant_add_candidates(Variant *v, const Instruction *fusion,
                            const PieceLaunch *launch, uint32_t command)
{
    uint32_t kernel = v->plan.commands[command].index;
    uint32_t count = v->requests[kernel].arg_count;
    PlanTunable t = {
        .command = command,
        .key = plan_string(&v->plan, kernel_tuning_key(v->arena, fusion, v->target)),
        .candidates = v->plan.candidates_count};
    for (uint32_t i = 0; i < v->plan.tunables_count; i++) {
        if (v->plan.tunables[i].key == t.key)
            return;
    }
    const Instruction *called = launch->fusion;
    uint32_t arrays = called->operand_count + (uint32_t)shape_leaf_count(called->shape);
    bool shares_buffers = false;
    for (uint32_t i = 0; i < arrays; i++)
        shares_buffers |= !v->requests[kernel].args[i].is_noalias;
    Alternatives others = kernel_alternatives(launch->fusion, v->target, shares_buffers,
                                              v->options->candidates, v->arena);
    add_candidate(v, kernel, others.own_seconds);
    for (size_t i = 0; i < others.count; i++) {
        const Alternative *a = &others.data[i];
        PieceLaunch other = {a->fusion, launch->offsets, launch->bytes};
        if (takes_arguments(a->design, v->requests[kernel].design))
            add_candidate(v, find_kernel(v, &other, fusion), a->seconds);
    }
    t.candidate_count = v->plan.candidates_count - t.candidates;
    t.dtypes = add_dtypes(v, fusion, count);
    plan_add_tunables(&v->plan, &t, 1);
}
