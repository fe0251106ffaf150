/* What it costs to move an instruction into its readers, and what that saves: bytes not moved and a launch not made
 * against work done more than once. How often the reader evaluates an element of the producer follows from the index
 * maps (broadcast, windows, contractions). All in integers. */
#include "passes/fusion/fuse_cost.h"

#include <stdlib.h>
#include <string.h>

#include "ir/analysis/sources.h"
#include "ir/base/divide.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/time/costs.h"

#define LEAST_TILE 8 /* of dots: smaller ones have none */
#define TILE 64      /* their usual size */
#define FREE_DEPTH 8 /* operations that are looked through */

/* -- how often elements are computed ------------------------------------------------------------- */

/* The indices that the kernel computes elements of an instruction at: the code holds a copy for
 * each. They are known by numbers, made of the ways from the root to the instruction. */
typedef struct Indices {
    const uint64_t *data; /* ascending; the first FUSE_MOST_CODE + 1 of more */
    uint32_t count;
} Indices;

typedef struct Weight {
    int64_t evaluations; /* of elements, in the whole kernel */
    Indices indices;
} Weight;

static const uint64_t root_index =
    1; /* of the kernel's own elements, and of single ones */

static int64_t saturating_mul(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX / 4 : r;
}

/* A dot on tensor cores reads an element of an operand once for so many of the other's. */
static int64_t tile_side(const Instruction *dot, const Instruction *operand)
{
    int64_t all = shape_elements(dot->shape), own = shape_elements(operand->shape);
    Ints sums = inst_ints(dot, ATTR_LHS_CONTRACTING_DIMS);
    for (uint32_t i = 0; i < sums.count && own > 0; i++)
        own /= dot->operands[0]->shape->dims[sums.data[i]];
    int64_t side = own > 0 ? all / own : 1;
    if (side < LEAST_TILE || dtype_info[operand->shape->dtype].bits > 16)
        return 1;
    return side < TILE ? side : TILE;
}

/* Elements of an operand that one element of inst reads. */
static int64_t reads_per_element(const Instruction *inst, const Instruction *operand)
{
    int64_t n = 1;
    bool is_reverse;
    if (inst->op == OP_REDUCE_WINDOW && kernel_scan_dimension(inst, &is_reverse) >= 0)
        return 1; /* cumulative: each is read once, and handed on */
    if (inst->op == OP_REDUCE) {
        Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
        for (uint32_t i = 0; i < dims.count && operand->shape->rank != 0; i++)
            n = saturating_mul(n, operand->shape->dims[dims.data[i]]);
    } else if (inst->op == OP_DOT) {
        Ints dims = inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS);
        for (uint32_t i = 0; i < dims.count; i++)
            n = saturating_mul(n, inst->operands[0]->shape->dims[dims.data[i]]);
        n = ceil_div(n, tile_side(inst, operand));
    } else if (inst->op == OP_REDUCE_WINDOW || inst->op == OP_CONVOLUTION) {
        const Window *w = inst_window(inst);
        for (uint32_t i = 0; i < w->rank; i++)
            n = saturating_mul(n, w->dims[i].size);
        if (inst->op == OP_CONVOLUTION) {
            const DimLabels *labels = inst_attr(inst, ATTR_DIM_LABELS)->labels;
            n = saturating_mul(n, inst->operands[1]->shape->dims[labels->rhs_input]);
        }
    }
    return n;
}

static bool reads_same_index(const Instruction *inst)
{
    return op_is(inst->op, OPF_ELEMENTWISE) || inst->op == OP_COPY ||
           inst->op == OP_TUPLE || inst->op == OP_REDUCE ||
           inst->op == OP_GET_TUPLE_ELEMENT || inst->op == OP_WHILE;
}

/* An array of one element. */
static bool is_single(const Shape *s)
{
    bool single = shape_is_array(s);
    for (uint32_t i = 0; single && i < s->rank; i++)
        single = s->dims[i] == 1;
    return single;
}

static int compare_indices(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static Indices unite(Indices a, Indices b, Arena *scratch)
{
    if (a.count == 0 || a.data == b.data)
        return b;
    if (a.count == b.count && memcmp(a.data, b.data, a.count * sizeof *a.data) == 0)
        return a;
    uint32_t most = a.count + b.count, i = 0, k = 0, count = 0;
    if (most > FUSE_MOST_CODE + 1)
        most = FUSE_MOST_CODE + 1;
    uint64_t *all = ARENA_ARRAY(scratch, uint64_t, most);
    while ((i < a.count || k < b.count) && count < most) {
        uint64_t next = k == b.count || (i < a.count && a.data[i] < b.data[k])
                            ? a.data[i]
                            : b.data[k];
        i += i < a.count && a.data[i] == next;
        k += k < b.count && b.data[k] == next;
        all[count++] = next;
    }
    return (Indices){all, count};
}

/* Elements are only renumbered: what reads the same ones by the same operation shares their code. Others read
 * at indices that are found at run time, or behind a branch, where each has code of its own. */
static bool renumbers(const Instruction *inst)
{
    return inst->op == OP_BROADCAST || inst->op == OP_RESHAPE || inst->op == OP_REVERSE ||
           inst->op == OP_SLICE || inst->op == OP_TRANSPOSE;
}

/* Where inst reads operand k if its own elements are computed at these. */
static Indices indices_behind(const Instruction *inst, uint32_t k, Indices at,
                              Arena *scratch)
{
    if (is_single(inst->operands[k]->shape))
        return (Indices){&root_index, 1};
    if (reads_same_index(inst))
        return at;
    uint64_t *data = ARENA_ARRAY(scratch, uint64_t, (size_t)at.count + 1);
    uint64_t own = (uint64_t)inst->id << 32;
    uint64_t way = (renumbers(inst) ? inst_operation_hash(inst) : own) + k + 1;
    for (uint32_t i = 0; i < at.count; i++) {
        uint64_t h = (at.data[i] ^ way) * UINT64_C(0x9e3779b97f4a7c15);
        data[i] = h ^ (h >> 32);
    }
    qsort(data, at.count, sizeof *data, compare_indices);
    return (Indices){data, at.count};
}

static void weigh_operand(Weight *o, const Instruction *inst, const Weight *w, uint32_t k,
                          Arena *scratch)
{
    const Instruction *operand = inst->operands[k];
    int64_t reads = w->evaluations;
    if (is_single(operand->shape))
        reads = 1; /* computed once a thread, which is cheap enough */
    else if (!op_is(inst->op, OPF_ELEMENTWISE))
        reads = saturating_mul(reads, reads_per_element(inst, operand));
    if (!reads_same_index(inst))
        o->evaluations += reads;
    else if (reads > o->evaluations)
        o->evaluations = reads;
    o->indices = unite(o->indices, indices_behind(inst, k, w->indices, scratch), scratch);
}

/* Weights by instruction id of a fused computation, which is left in order. */
static Weight *weigh(Computation *comp, Arena *scratch)
{
    computation_sort(comp);
    Weight *w = ARENA_ARRAY(scratch, Weight, (size_t)comp->instruction_count + 1);
    for (uint32_t i = comp->instruction_count; i-- > 0;) {
        const Instruction *inst = comp->instructions[i];
        if (inst == comp->root) {
            w[inst->id].indices = (Indices){&root_index, 1};
            if (shape_is_array(inst->shape))
                w[inst->id].evaluations = shape_elements(inst->shape);
            else
                w[inst->id].evaluations = shape_elements(shape_leaf(inst->shape, 0));
        }
        for (uint32_t k = 0; k < inst->operand_count; k++)
            weigh_operand(&w[inst->operands[k]->id], inst, &w[inst->id], k, scratch);
    }
    return w;
}

/* -- cost ------------------------------------------------------------------------------------------- */

int64_t fuse_work(const Instruction *producer)
{
    if (producer->op != OP_FUSION)
        return cost_instructions(producer);
    const Computation *comp = inst_called(producer, 0);
    int64_t work = 0;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        work += cost_instructions(inst);
    }
    return work;
}

uint32_t fuse_nodes(const Instruction *inst)
{
    if (inst->op != OP_FUSION)
        return 1;
    const Computation *comp = inst_called(inst, 0);
    uint32_t halves = 0;
    for (const Instruction *i = inst_first(comp); i; i = inst_next(i)) {
        bool is_one = shape_is_array(i->shape) && is_single(i->shape);
        halves += !is_one ? 2 : i->op != OP_CONSTANT;
    }
    return (halves + 1) / 2;
}

/* What reading a value moves: what it is made of for nothing moves in with its reader. */
static int64_t source_bytes(const Instruction *inst)
{
    int64_t bytes = shape_bytes(inst->shape);
    for (int depth = 0; depth < FREE_DEPTH; depth++) {
        if (inst->op == OP_IOTA)
            return 0;
        if (inst->op != OP_BROADCAST && inst->op != OP_CONVERT &&
            inst->op != OP_RESHAPE && inst->op != OP_BITCAST)
            break;
        inst = inst->operands[0];
        bytes = shape_bytes(inst->shape) < bytes ? shape_bytes(inst->shape) : bytes;
    }
    return bytes;
}

/* Of an operand: no more of it than an instruction's elements ask for. */
static int64_t operand_bytes(const Instruction *inst, const Instruction *operand)
{
    if (!shape_is_array(operand->shape))
        return 0;
    int64_t all = source_bytes(operand);
    if (inst->op == OP_FUSION || !shape_is_array(inst->shape))
        return all;
    int64_t asked =
        saturating_mul(shape_elements(inst->shape), reads_per_element(inst, operand));
    asked = saturating_mul(asked, dtype_info[operand->shape->dtype].bits) / 8;
    return asked < all ? asked : all;
}

static int64_t read_bytes(const Instruction *inst)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < inst->operand_count; i++)
        n += operand_bytes(inst, inst->operands[i]);
    return n;
}

/* Instructions of a consumer by itself, and bytes that it moves. */
typedef struct Effort {
    int64_t instructions, bytes;
} Effort;

static int64_t saturating_add(int64_t a, int64_t b)
{
    return a > INT64_MAX / 4 - b ? INT64_MAX / 4 : a + b;
}

static void add_effort(Effort *e, const Instruction *inst, int64_t evaluations)
{
    if (inst->operand_count == 0)
        return;
    int64_t n = saturating_mul(evaluations, cost_instructions(inst));
    n = saturating_mul(n, reads_per_element(inst, inst->operands[0]));
    e->instructions = saturating_add(e->instructions, n);
}

/* No more of an array than is asked for. */
static void add_read(Effort *e, const Instruction *source, int64_t evaluations)
{
    if (!shape_is_array(source->shape))
        return;
    int64_t all = source_bytes(source);
    int64_t read = saturating_mul(evaluations, dtype_info[source->shape->dtype].bits) / 8;
    e->bytes = saturating_add(e->bytes, read < all ? read : all);
}

/* Memory keeps a consumer that much longer than its arithmetic does. */
static int64_t idle_time(const Effort *e, const GpuModel *device)
{
    int64_t idle = cost_ps_of_bytes(device, e->bytes) -
                   cost_ps_of_instructions(device, e->instructions);
    return idle > 0 ? idle : 0;
}

bool fuse_is_heavy(const Instruction *consumer)
{
    OpCode heavy[] = {OP_DOT, OP_CONVOLUTION};
    bool is_fusion = consumer->op == OP_FUSION;
    for (size_t i = 0; i < sizeof heavy / sizeof *heavy; i++) {
        if (consumer->op == heavy[i])
            return true;
        if (is_fusion && fusion_hero(consumer, heavy[i]) != NULL)
            return true;
    }
    const Instruction *scatter = is_fusion ? fusion_hero(consumer, OP_SCATTER) : consumer;
    return scatter != NULL && scatter->op == OP_SCATTER && !scatter_reads_once(scatter);
}

/* Arithmetic that is done again is free while its reader waits for memory. */
static int64_t hidden_time(const Instruction *producer, const Instruction *consumer,
                           int64_t evaluations, const Effort *e, const GpuModel *device)
{
    int64_t idle = fuse_is_heavy(consumer) ? 0 : idle_time(e, device);
    int64_t all =
        cost_ps_of_instructions(device, saturating_mul(evaluations, fuse_work(producer)));
    return all < idle ? all : idle;
}

Inside fuse_inside(const Instruction *producer, const Instruction *consumer,
                   const GpuModel *device, Arena *scratch)
{
    const Shape *result = shape_leaf(consumer->shape, 0);
    Effort effort = {0, shape_bytes(result)};
    Inside sum = {0, 0, 0, 0};
    if (consumer->op != OP_FUSION) {
        Weight in = {0, {NULL, 0}}, w = {shape_elements(result), {&root_index, 1}};
        for (uint32_t i = 0; i < consumer->operand_count; i++) {
            if (consumer->operands[i] == producer)
                weigh_operand(&in, consumer, &w, i, scratch);
        }
        add_effort(&effort, consumer, w.evaluations);
        effort.bytes = saturating_add(effort.bytes, read_bytes(consumer));
        sum = (Inside){in.evaluations, in.indices.count, 1, 0};
    } else {
        const Computation *comp = inst_called(consumer, 0);
        const Weight *w = weigh(inst_called(consumer, 0), scratch);
        for (uint32_t i = 0; i < comp->instruction_count; i++) {
            sum.others += w[i].indices.count;
            add_effort(&effort, comp->instructions[i], w[i].evaluations);
        }
        for (uint32_t i = 0; i < consumer->operand_count; i++) {
            const Weight *p = &w[comp->parameters[i]->id];
            add_read(&effort, consumer->operands[i], p->evaluations);
            if (consumer->operands[i] != producer)
                continue;
            sum.evaluations += p->evaluations;
            sum.copies += p->indices.count;
        }
    }
    sum.hidden = hidden_time(producer, consumer, sum.evaluations, &effort, device);
    return sum;
}

void fuse_inside_add(Inside *sum, const Inside *one)
{
    sum->evaluations += one->evaluations;
    sum->copies += one->copies;
    sum->others += one->others;
    sum->hidden = saturating_add(sum->hidden, one->hidden);
}

/* Bytes that the consumer has to read for the producer: nothing for an operand that is made of what the consumer
 * reads anyway. */
static int64_t bytes_more(const Instruction *producer, const Instruction *consumer)
{
    int64_t elements = shape_elements(producer->shape), bytes = 0;
    Sources has = {0};
    for (uint32_t i = 0; i < consumer->operand_count; i++) {
        if (consumer->operands[i] == producer)
            continue;
        sources_add(&has, consumer->operands[i]);
        sources_find(&has, consumer->operands[i], elements);
    }
    for (uint32_t i = 0; i < producer->operand_count; i++) {
        const Instruction *operand = producer->operands[i];
        Sources needs = {0};
        bool all = sources_have(&has, operand);
        if (!all) {
            sources_find(&needs, operand, elements);
            all = true;
        }
        for (uint32_t k = 0; k < needs.count && all; k++)
            all = sources_have(&has, needs.list[k]);
        if (!all)
            bytes += operand_bytes(producer, operand);
    }
    return bytes;
}

/* Bytes that are read in addition if all consumers do the producer's work. */
static int64_t bytes_again(const Instruction *producer, Instruction *const *consumers,
                           uint32_t count)
{
    int64_t bytes = -read_bytes(producer);
    for (uint32_t i = 0; i < count; i++)
        bytes += bytes_more(producer, consumers[i]);
    return bytes > 0 ? bytes : 0;
}

bool fuse_is_worth_it(const Instruction *producer, const Inside *inside,
                      Instruction *const *consumers, uint32_t count,
                      const GpuModel *device)
{
    int64_t elements = shape_elements(producer->shape),
            bytes = shape_bytes(producer->shape);
    int64_t extra = inside->evaluations - elements;
    int64_t cost = 0;
    if (extra > 0)
        cost =
            cost_ps_of_instructions(device, saturating_mul(extra, fuse_work(producer)));
    cost = cost > inside->hidden ? cost - inside->hidden : 0;
    int64_t saved =
        cost_ps_of_launch() + cost_ps_of_bytes(device, bytes * (1 + (int64_t)count));
    if (count <= 1 || cost >= saved)
        return cost < saved;
    int64_t again = cost_ps_of_bytes(device, read_bytes(producer) * (count - 1));
    return cost + again < saved ||
           cost + cost_ps_of_bytes(device, bytes_again(producer, consumers, count)) <
               saved;
}

bool fuse_is_free(const Instruction *producer)
{
    for (uint32_t i = 0; i < producer->operand_count; i++) {
        if (producer->operands[i]->shape->rank != 0)
            return op_is(producer->op, OPF_MOVES);
    }
    return fuse_work(producer) <= 2;
}
