/* Kernels of a program: a request for each distinct fusion. Two fusions are equal if the canonical
 * texts of their computations, their kinds of kernels, configurations and the classes of their arguments (which are
 * the same buffer, which are written) are; a hash finds candidates, the text decides. */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codegen/plan/variant.h"
#include "ir/bug.h"
#include "ir/kernel/kind.h"
#include "ir/print.h"
#include "ir/text.h"

#define ARGUMENT_ALIGNMENT 16 /* that libgxrt asks of the caller's buffers */

typedef struct FusionArgs {
    uint32_t count, parameters;
    uint32_t *places; /* which set has the place that each argument lies in */
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

/* Parameters by number, then result leaves, then the program's random state if it is asked for. There is room for
 * one more. */
static FusionArgs fusion_args(const Variant *v, const Instruction *fusion)
{
    FusionArgs f = {.parameters = fusion->operand_count};
    uint32_t results = (uint32_t)shape_leaf_count(fusion->shape);
    f.count = f.parameters + results;
    f.places = ARENA_ARRAY(v->arena, uint32_t, (size_t)f.count + 2);
    f.args = ARENA_ARRAY(v->arena, KernelArg, (size_t)f.count + 2);
    for (uint32_t i = 0; i < f.count; i++) {
        bool is_result = i >= f.parameters;
        const Instruction *inst = is_result ? fusion : fusion->operands[i];
        size_t leaf = is_result ? i - f.parameters : 0;
        const Buffer *b = &v->buffers->sets[alias_set(v->aliases, inst, leaf)];
        f.places[i] = b->place;
        f.args[i] =
            (KernelArg){.align = alignment_of(b),
                        .bytes = (uint64_t)shape_bytes(shape_leaf(inst->shape, leaf)),
                        .is_read_only = true,
                        .is_noalias = true};
    }
    if (fusion_hero(fusion, OP_RNG_GET_AND_UPDATE_STATE) != NULL) {
        f.places[f.count] = PLAN_NONE;
        f.args[f.count++] = (KernelArg){
            .align = BUFFER_ALIGNMENT, .bytes = VARIANT_STATE_BYTES, .is_noalias = true};
    }
    for (uint32_t r = f.parameters; r < f.count; r++) {
        f.args[r].is_read_only = false;
        for (uint32_t i = 0; i < f.count; i++) {
            if (i == r || f.places[i] != f.places[r])
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
        while (f->places[same] != f->places[i])
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

static const KernelDesign *design(const Variant *v, const Instruction *fusion)
{
    KernelDesign *d = ARENA_NEW(v->arena, KernelDesign);
    kernel_design(fusion, v->target, v->arena, d);
    escape_innermost()->at = fusion->span;
    if (d->unsupported != NULL)
        escape_throw(ESCAPE_UNSUPPORTED, "%s", d->unsupported);
    escape_innermost()->at = (Span){0, 0};
    if (d->wrong == NULL)
        return d;
    kernel_wrong(d);
    return NULL;
}

static void add_scratch(const Variant *v, KernelRequest *r, FusionArgs *f)
{
    uint64_t bytes = r->design->geometry.scratch_bytes;
    if (bytes == 0)
        return;
    f->args[f->count++] =
        (KernelArg){.align = BUFFER_ALIGNMENT, .bytes = bytes, .is_noalias = true};
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

uint32_t variant_kernel(Variant *v, const Instruction *fusion)
{
    FusionArgs f = fusion_args(v, fusion);
    size_t length;
    const char *key = kernel_key(v, fusion, &f, &length);
    table_grow(v);
    uint32_t *slot = table_slot(v, key, length);
    if (*slot != 0)
        return *slot - 1;
    KernelRequest r = {.key = key,
                       .key_length = length,
                       .name = unique_kernel_name(v, fusion),
                       .fusion = fusion,
                       .design = design(v, fusion),
                       .args = f.args,
                       .arg_count = f.count,
                       .moved = ARENA_ARRAY(v->arena, uint64_t, f.count)};
    if (r.design == NULL)
        return PLAN_NONE;
    add_scratch(v, &r, &f);
    PlanKernel p = plan_kernel(v, &r);
    v->requests = arena_grow(v->arena, v->requests, &v->request_capacity,
                             v->request_count + 1, sizeof *v->requests);
    v->requests[v->request_count++] = r;
    *slot = (uint32_t)v->request_count;
    return plan_add_kernels(&v->plan, &p, 1);
}
