/* See work.h. */
#include "ir/kernel/time/work.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/analysis/alias.h"
#include "ir/analysis/loop.h"
#include "ir/analysis/loop_idle.h"
#include "ir/base/text.h"
#include "ir/kernel/block_scaled.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/library.h"
#include "ir/kernel/time/costs.h"
#include "ir/print/print.h"

struct CostModel {
    const Module *module;
    const Target *target;
    const GpuModel *device;
    Arena *arena;
    double *program; /* [computations] seconds of all that it does; 0: not known */
    uint32_t count;
    struct Known *known; /* hash table of kernels */
    size_t known_count, known_capacity;
    const LoopSlices
        *slices; /* fusions that the plan turns into positions; NULL: not known yet */
    const LoopIdle *idle; /* and those that it leaves out: as well */
};

static double bytes(const Shape *s)
{
    double n = 0;
    for (size_t leaf = 0; leaf < shape_leaf_count(s); leaf++)
        n += (double)shape_bytes(shape_leaf(s, leaf));
    return n;
}

/* -- what takes no time, and what is not the kernels' stream's ------------------------------------ */

bool cost_is_free(const Instruction *inst)
{
    return inst->op == OP_PARAMETER || inst->op == OP_CONSTANT ||
           inst->op == OP_AFTER_ALL ||
           (!alias_defines(inst) && !op_is(inst->op, OPF_CONTROL | OPF_ASYNC_DONE));
}

bool cost_is_transfer(const Instruction *inst)
{
    return op_is(inst->op, OPF_ASYNC_START)
               ? cost_started_collective(inst) != NULL
               : op_is(inst->op, OPF_COLLECTIVE) && inst->op != OP_SEND_DONE &&
                     inst->op != OP_RECV_DONE;
}

const Instruction *cost_started_collective(const Instruction *start)
{
    if (start->op != OP_ASYNC_START)
        return op_is(start->op, OPF_COLLECTIVE) ? start : NULL;
    const Instruction *root = inst_called(start, 0)->root;
    return op_is(root->op, OPF_COLLECTIVE) ? root : NULL;
}

double cost_transfer(CostModel *c, const Instruction *inst)
{
    if (!cost_is_transfer(inst))
        return 0;
    bool is_start = op_is(inst->op, OPF_ASYNC_START);
    return transfer_seconds(is_start ? cost_started_collective(inst) : inst, c->device,
                            c->arena);
}

/* -- kernels, of which equal ones are looked at once --------------------------------------------------- */

/* Equal computations and configurations make kernels that take equally long. */
typedef struct Known {
    const char *key; /* NULL: free */
    size_t length;
    KernelTime time;
} Known;

static Known *known_slot(Known *table, size_t capacity, const char *key, size_t length)
{
    size_t at = XXH3_64bits(key, length) & (capacity - 1);
    while (table[at].key != NULL &&
           (table[at].length != length || memcmp(table[at].key, key, length) != 0))
        at = (at + 1) & (capacity - 1);
    return &table[at];
}

static void known_grow(CostModel *c)
{
    if (c->known_count * 2 < c->known_capacity)
        return;
    size_t capacity = c->known_capacity == 0 ? 64 : c->known_capacity * 2;
    Known *table = ARENA_ARRAY(c->arena, Known, capacity);
    for (size_t i = 0; i < c->known_capacity; i++) {
        const Known *k = &c->known[i];
        if (k->key != NULL)
            *known_slot(table, capacity, k->key, k->length) = *k;
    }
    c->known = table;
    c->known_capacity = capacity;
}

static const char *key_of(const Instruction *fusion, Arena *scratch, size_t *length)
{
    Text t;
    text_init(&t, scratch);
    size_t n;
    const char *body =
        computation_print(scratch, inst_called(fusion, 0), PRINT_CANONICAL, &n);
    text_add(&t, body, n);
    text_string(&t, kernel_kind_name(kernel_kind_of(fusion)));
    text_string(&t, kernel_config_key(scratch, fusion));
    *length = t.length;
    return t.data;
}

static KernelTime time_of_kernel(CostModel *c, const Instruction *inst, Arena *scratch)
{
    KernelWork w;
    kernel_work(inst, c->target, scratch, &w);
    return kernel_time(&w, c->device);
}

static KernelTime time_of_fusion(CostModel *c, const Instruction *fusion)
{
    size_t length;
    Arena *scratch = arena_scratch();
    const char *key = key_of(fusion, scratch, &length);
    known_grow(c);
    Known *k = known_slot(c->known, c->known_capacity, key, length);
    if (k->key == NULL) {
        *k = (Known){.key = arena_text(c->arena, key, length),
                     .length = length,
                     .time = time_of_kernel(c, fusion, scratch)};
        c->known_count++;
    }
    KernelTime time = k->time;
    arena_destroy(scratch);
    return time;
}

static KernelTime time_of_plain(CostModel *c, const Instruction *inst)
{
    Arena *scratch = arena_scratch();
    KernelTime time = time_of_kernel(c, inst, scratch);
    arena_destroy(scratch);
    return time;
}

/* -- kernels, libraries, copies ---------------------------------------------------------------------- */

/* Nothing is launched for arrays without elements, for slices that are positions in a loop's array, and for counters
 * that nobody reads. */
static bool is_no_launch(const CostModel *c, const Instruction *inst)
{
    return bytes(inst->shape) == 0 ||
           (c->slices != NULL &&
            (loop_slice_of(c->slices, inst) != NULL || loop_idle_has(c->idle, inst)));
}

/* The host reads a predicate or an index and goes on with the loop or the branch; calls functions of its own. */
static bool waits_for_host(const Instruction *inst)
{
    return inst->op == OP_CONDITIONAL || inst->op == OP_CUSTOM_CALL ||
           (inst->op == OP_WHILE && loop_known_trip_count(inst) < 0);
}

KernelTime cost_kernel(CostModel *c, const Instruction *inst)
{
    bool is_library = library_makes(inst) || block_op(inst) == BLOCK_MATMUL;
    if (!is_library && waits_for_host(inst))
        return (KernelTime){.seconds = costs.host_seconds, .limit = LIMIT_HOST};
    if (cost_is_free(inst) || cost_is_transfer(inst) ||
        op_is(inst->op, OPF_ASYNC_DONE | OPF_ASYNC_START | OPF_CONTROL) ||
        inst->op == OP_ASYNC_UPDATE || is_no_launch(c, inst))
        return (KernelTime){0};
    if (is_library)
        return library_time(inst, c->device);
    if (inst->op == OP_FUSION)
        return time_of_fusion(c, inst);
    if (inst->op == OP_COPY || inst->op == OP_PARTITION_ID || inst->op == OP_REPLICA_ID)
        return copy_time((inst->op == OP_COPY ? 2 : 1) * bytes(inst->shape), c->device);
    return time_of_plain(c, inst);
}

KernelTime cost_designed(const CostModel *c, const KernelDesign *d)
{
    Arena *scratch = arena_scratch();
    KernelDesign own = *d;
    KernelWork w;
    own.arena = scratch;
    KernelTime time = {0};
    if (!is_no_launch(c, d->fusion)) {
        kernel_designed_work(&own, &w);
        time = kernel_time(&w, c->device);
    }
    arena_destroy(scratch);
    return time;
}

double cost_program(const CostModel *c, const Computation *comp)
{
    return comp->id < c->count ? c->program[comp->id] : 0;
}

uint32_t cost_first_called(const Instruction *inst)
{
    return inst->op == OP_WHILE && loop_known_trip_count(inst) >= 0;
}

/* Branches: the longest one. Loops: condition and body, as often as is known. */
static double called_seconds(const CostModel *c, const Instruction *inst)
{
    double sum = 0, most = 0;
    for (uint32_t k = cost_first_called(inst); k < inst_called_count(inst); k++) {
        double n = cost_program(c, inst_called(inst, k));
        sum += n;
        most = n > most ? n : most;
    }
    int64_t trips = inst->op == OP_WHILE ? loop_known_trip_count(inst) : 1;
    return inst->op == OP_CONDITIONAL ? most : sum * (double)(trips < 0 ? 1 : trips);
}

double cost_compute(CostModel *c, const Instruction *inst)
{
    double seconds = op_is(inst->op, OPF_CONTROL) ? called_seconds(c, inst) : 0;
    return seconds + cost_kernel(c, inst).seconds;
}

double cost_started(CostModel *c, const Instruction *start)
{
    double moved = 0;
    if (cost_is_transfer(start))
        return cost_transfer(c, start);
    if (start->op == OP_ASYNC_START)
        return called_seconds(c, start);
    for (uint32_t k = 0; k < start->operand_count; k++)
        moved += 2 * bytes(start->operands[k]->shape);
    return copy_time(moved, c->device).seconds;
}

CostModel *cost_create_alone(const Module *m, const Target *t, Arena *a)
{
    CostModel *c = ARENA_NEW(a, CostModel);
    *c = (CostModel){.module = m,
                     .target = t,
                     .device = t->device,
                     .arena = a,
                     .count = m->computation_count};
    c->program = ARENA_ARRAY(a, double, (size_t)c->count + 1);
    if (m->config.is_scheduled) {
        c->slices = loop_slices_create(m, a);
        c->idle = loop_idle_create(m, c->slices, a);
    }
    return c;
}

CostModel *cost_create(const Module *m, const Target *t, Arena *a)
{
    CostModel *c = cost_create_alone(m, t, a);
    Computations programs = module_programs(m, a);
    for (uint32_t i = 0; i < programs.count; i++) {
        const Computation *comp = programs.data[i];
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
            c->program[comp->id] += cost_compute(c, inst) + cost_transfer(c, inst);
    }
    return c;
}
