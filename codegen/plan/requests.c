/* Kernels of a program: one for each distinct fusion. Two fusions are equal if the canonical
 * texts of their computations, their emitters and the classes of their arguments (which are
 * the same buffer, which are written) are; a hash finds candidates, the text decides. */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codegen/kernel/emitters.h"
#include "codegen/plan/variant.h"
#include "ir/bug.h"
#include "ir/kernel/kind.h"
#include "ir/print.h"
#include "ir/text.h"

#define ARGUMENT_ALIGNMENT 16 /* that libgxrt asks of the caller's buffers */

typedef struct FusionArgs {
    uint32_t count, parameters;
    uint32_t *sets; /* alias set of each argument */
    KernelArg *args;
} FusionArgs;

static uint32_t alignment_of(const Buffer *b)
{
    switch (b->kind) {
    case BUFFER_ARGUMENT:
    case BUFFER_RESULT:
        return ARGUMENT_ALIGNMENT;
    default:
        return BUFFER_ALIGNMENT;
    }
}

/* Parameters by number, then result leaves, then the program's random state if it is asked for. */
static FusionArgs fusion_args(const Variant *v, const Instruction *fusion)
{
    FusionArgs f = {.parameters = fusion->operand_count};
    uint32_t results = (uint32_t)shape_leaf_count(fusion->shape);
    f.count = f.parameters + results;
    f.sets = ARENA_ARRAY(v->arena, uint32_t, (size_t)f.count + 2);
    f.args = ARENA_ARRAY(v->arena, KernelArg, (size_t)f.count + 2);
    for (uint32_t i = 0; i < f.count; i++) {
        bool is_result = i >= f.parameters;
        const Instruction *inst = is_result ? fusion : fusion->operands[i];
        size_t leaf = is_result ? i - f.parameters : 0;
        f.sets[i] = alias_set(v->aliases, inst, leaf);
        const Buffer *b = &v->buffers->sets[f.sets[i]];
        f.args[i] =
            (KernelArg){.align = alignment_of(b),
                        .bytes = (uint64_t)shape_bytes(shape_leaf(inst->shape, leaf)),
                        .is_read_only = true,
                        .is_noalias = true};
    }
    if (fusion_hero(fusion, OP_RNG_GET_AND_UPDATE_STATE) != NULL) {
        f.sets[f.count] = PLAN_NONE;
        f.args[f.count++] = (KernelArg){
            .align = BUFFER_ALIGNMENT, .bytes = VARIANT_STATE_BYTES, .is_noalias = true};
    }
    for (uint32_t r = f.parameters; r < f.count; r++) {
        f.args[r].is_read_only = false;
        for (uint32_t i = 0; i < f.count; i++) {
            if (i == r || f.sets[i] != f.sets[r])
                continue;
            f.args[i].is_read_only = false;
            f.args[i].is_noalias = false;
            f.args[r].is_noalias = false;
        }
    }
    return f;
}

static void add_classes(Text *t, const FusionArgs *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t same = 0;
        while (f->sets[same] != f->sets[i])
            same++;
        text_printf(t, " %u:%u:%d", same, f->args[i].align, f->args[i].is_read_only);
    }
}

static const char *kernel_key(const Variant *v, const Instruction *fusion,
                              const FusionArgs *f, size_t *length)
{
    Text t;
    text_init(&t, v->arena);
    size_t n;
    const char *body =
        computation_print(v->arena, inst_called(fusion, 0), PRINT_CANONICAL, &n);
    text_add(&t, body, n);
    text_string(&t, kernel_kind_name(kernel_kind_of(fusion)));
    add_classes(&t, f);
    *length = t.length;
    return t.data;
}

static uint32_t *table_slot(Variant *v, const char *key, size_t length)
{
    size_t at = XXH3_64bits(key, length) & (v->kernel_slots - 1);
    for (; v->kernel_table[at] != 0; at = (at + 1) & (v->kernel_slots - 1)) {
        const KernelEntry *e = &v->kernels[v->kernel_table[at] - 1];
        if (e->key_length == length && memcmp(e->key, key, length) == 0)
            break;
    }
    return &v->kernel_table[at];
}

static void table_grow(Variant *v)
{
    if ((v->kernel_count + 1) * 2 < v->kernel_slots)
        return;
    v->kernel_slots = v->kernel_slots == 0 ? 64 : v->kernel_slots * 2;
    v->kernel_table = ARENA_ARRAY(v->arena, uint32_t, v->kernel_slots);
    for (size_t i = 0; i < v->kernel_count; i++)
        *table_slot(v, v->kernels[i].key, v->kernels[i].key_length) = (uint32_t)i + 1;
}

static const char *unique_kernel_name(const Variant *v, const Instruction *fusion)
{
    const char *base = kernel_name(v->arena, fusion->name), *name = base;
    for (unsigned n = 1;; n++) {
        bool taken = false;
        for (size_t i = 0; i < v->kernel_count && !taken; i++)
            taken = strcmp(v->kernels[i].kernel->name, name) == 0;
        if (!taken)
            return name;
        name = arena_printf(v->arena, "%s_%u", base, n);
    }
}

static uint32_t add_plan_kernel(Variant *v, const Kernel *k)
{
    bool is_dynamic = k->shared_bytes > TARGET_STATIC_SHARED;
    PlanKernel p = {.name = plan_string(&v->plan, k->name),
                    .flags = k->needs_fibres ? PLAN_KERNEL_BARRIERS : 0,
                    .grid = {k->grid[0], k->grid[1], k->grid[2]},
                    .block = {k->block[0], k->block[1], k->block[2]},
                    .cluster = {1, 1, 1},
                    .shared_bytes = is_dynamic ? (uint32_t)k->shared_bytes : 0,
                    .static_shared_bytes = is_dynamic ? 0 : (uint32_t)k->shared_bytes,
                    .parameter_count = k->arg_count,
                    .site_count = (uint32_t)k->site_count};
    uint32_t *sites = ARENA_ARRAY(v->arena, uint32_t, k->site_count + 1);
    for (size_t i = 0; i < k->site_count; i++)
        sites[i] = plan_string(&v->plan, k->sites[i]);
    p.sites = plan_add_refs(&v->plan, sites, (uint32_t)k->site_count);
    return plan_add_kernels(&v->plan, &p, 1);
}

uint32_t variant_kernel(Variant *v, const Instruction *fusion)
{
    FusionArgs f = fusion_args(v, fusion);
    size_t length;
    const char *key = kernel_key(v, fusion, &f, &length);
    table_grow(v);
    uint32_t *slot = table_slot(v, key, length);
    if (*slot != 0)
        return v->kernels[*slot - 1].plan_index;
    EmitterInput in = {.arena = v->arena,
                       .module = backend_module(v->backend),
                       .target = v->target,
                       .fusion = fusion,
                       .name = unique_kernel_name(v, fusion),
                       .args = f.args,
                       .arg_count = f.count,
                       .contract = v->options->contract};
    KernelEntry e = {.key = key, .key_length = length};
    EmitterFn *emitter = emitter_function(kernel_kind_of(fusion));
    if (emitter == NULL)
        escape_throw(ESCAPE_UNSUPPORTED, "%s: no emitter for its kind of kernel yet",
                     fusion->name);
    Escape *escape = escape_innermost();
    escape->at = fusion->span;
    e.kernel = emitter(&in);
    escape->at = (Span){0, 0};
    e.plan_index = add_plan_kernel(v, e.kernel);
    v->kernels = arena_grow(v->arena, v->kernels, &v->kernel_capacity,
                            v->kernel_count + 1, sizeof *v->kernels);
    v->kernels[v->kernel_count++] = e;
    *slot = (uint32_t)v->kernel_count;
    return e.plan_index;
}
