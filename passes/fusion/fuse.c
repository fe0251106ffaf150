/* Producer-consumer fusion: an instruction that is cheaper to compute where it is read than to
 * write and read again moves into all its readers.
 *
 *   b = exp(a)  c = add(b, x)  d = reduce(c)
 *   ->  d = fusion(a, x), calls={exp, add, reduce}, backend_config={"emitter":"row_reduction"}
 *
 * Producers are visited from the last to the first, so that a reader is complete when the
 * producer looks at it. The model of time weighs bytes not moved and a launch not made against
 * work done more than once: how often the reader evaluates an element of the producer follows
 * from the index maps (broadcast, windows, contractions). All in integers.
 *
 * Needs: laid out. Keeps: values. Ends: each visit removes a producer or leaves it. */
#include <stdlib.h>
#include <string.h>

#include "ir/bug.h"
#include "ir/config.h"
#include "ir/divide.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/library.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/time/costs.h"
#include "ir/kernel/transposition.h"
#include "passes/fusion/fusion.h"

#define KERNEL_MOST_NODES 400 /* instructions of one fused computation */
#define KERNEL_MOST_LONG 160  /* of them where each is many instructions of the machine */
#define KERNEL_MOST_CODE 500  /* copies in the code that one producer adds */
#define KERNEL_MOST_COPIES 1000 /* of all instructions of a kernel */
#define KERNEL_MOST_OPERANDS 120
#define MOST_READERS                                                                     \
    10 /* that work is repeated in: what reads those would repeat it again */
#define LEAST_TILE 8 /* of dots: smaller ones have none */
#define TILE 64      /* their usual size */
#define FREE_DEPTH 8 /* operations that are looked through */
#define LARGE_IMAGE                                                                      \
    (1 << 20) /* bytes: below, a launch takes as long as reading it badly */

typedef struct UserList {
    Instruction **list;
    uint32_t count;
    size_t capacity;
} UserList;

typedef struct Fuse {
    Module *m;
    Computation *comp;
    PassContext *cx;
    UserList *users; /* by instruction id, as the computation was when the pass began */
    uint32_t user_count;
    bool *is_own;            /* by id: a fusion whose computation nobody else calls */
    bool *is_made;           /* by id: a fusion that this pass has put together */
    uint32_t *room;          /* by id: for fusion_merge */
    const uint32_t *callers; /* by computation id, when the pass began */
    Arena *brief;            /* for one visit */
    bool changed;
} Fuse;

/* -- users --------------------------------------------------------------------------------- */

/* Lists hold all readers, once each, and may hold some that read no more: users_of drops them. */
static void add_user(Fuse *f, const Instruction *inst, Instruction *user)
{
    if (inst->id >= f->user_count)
        bug("fusion: %s is new", inst->name);
    UserList *u = &f->users[inst->id];
    u->list = arena_grow(f->cx->scratch, u->list, &u->capacity, (size_t)u->count + 1,
                         sizeof *u->list);
    u->list[u->count++] = user;
}

static bool reads(const Instruction *user, const Instruction *inst)
{
    for (uint32_t i = 0; i < user->operand_count; i++) {
        if (user->operands[i] == inst)
            return true;
    }
    for (uint32_t i = 0; i < user->control_count; i++) {
        if (user->control[i] == inst)
            return true;
    }
    return false;
}

static UserList *users_of(Fuse *f, const Instruction *inst)
{
    UserList *u = &f->users[inst->id];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < u->count; i++) {
        Instruction *user = u->list[i];
        /* only what has been merged into may read less than before */
        if (f->comp->instructions[user->id] == user &&
            (!f->is_made[user->id] || reads(user, inst)))
            u->list[kept++] = user;
    }
    u->count = kept;
    return u;
}

/* The consumer has become a user of what it did not read before. */
static void add_new_operands(Fuse *f, Instruction *consumer, Instruction *const *old,
                             uint32_t old_count)
{
    for (uint32_t k = 0; k < consumer->operand_count; k++) {
        bool is_old = false;
        for (uint32_t i = 0; i < old_count && !is_old; i++)
            is_old = old[i] == consumer->operands[k];
        if (!is_old)
            add_user(f, consumer->operands[k], consumer);
    }
}

/* -- what may move ---------------------------------------------------------------------------- */

static bool is_plain_code(const Instruction *inst)
{
    return op_is(inst->op, OPF_ELEMENTWISE | OPF_MOVES) || inst->op == OP_IOTA;
}

static bool may_be_producer(const Instruction *inst)
{
    if (!shape_is_array(inst->shape) || inst->control_count != 0)
        return false;
    if (inst->op == OP_FUSION)
        return kernel_is(inst, KERNEL_BY_ELEMENT) &&
               inst_int(inst, ATTR_KIND, 0) != FUSION_CUSTOM;
    if (inst->op == OP_BITCAST) /* one between types has no index map */
        return inst->operands[0]->shape->dtype == inst->shape->dtype;
    if (inst->op == OP_COPY)
        return true;
    return is_plain_code(inst);
}

/* A reader that could take its operands' code in. */
static bool may_be_consumer(const Instruction *inst)
{
    if (inst->op == OP_FUSION)
        return inst_int(inst, ATTR_KIND, 0) != FUSION_CUSTOM &&
               kernel_kind_of(inst) != KERNEL_COUNT;
    if (inst->op == OP_BITCAST || inst->op == OP_CONSTANT || library_makes(inst) ||
        fusion_is_renaming(inst))
        return false;
    return is_plain_code(inst) || inst->op == OP_REDUCE || inst->op == OP_SCATTER ||
           inst->op == OP_DOT || inst->op == OP_CONVOLUTION ||
           inst->op == OP_REDUCE_WINDOW || inst->op == OP_FFT || inst->op == OP_SORT;
}

static bool transposes(const Instruction *producer)
{
    if (producer->op != OP_FUSION)
        return producer->op == OP_TRANSPOSE;
    const Computation *comp = inst_called(producer, 0);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op == OP_TRANSPOSE)
            return true;
    }
    return false;
}

/* A sort reads an element once if a block sorts whole rows, and then by rows as they lie in memory. */
static bool sort_takes(const Instruction *consumer, const Instruction *producer,
                       const Target *target)
{
    const Instruction *sort =
        consumer->op == OP_FUSION ? fusion_hero(consumer, OP_SORT) : consumer;
    if (sort == NULL || sort->op != OP_SORT)
        return true;
    return sort_fits(sort, target_block_shared(target)) && !transposes(producer);
}

/* -- how often elements are computed ------------------------------------------------------------- */

/* The indices that the kernel computes elements of an instruction at: the code holds a copy for
 * each. They are known by numbers, made of the ways from the root to the instruction. */
typedef struct Indices {
    const uint64_t *data; /* ascending; the first KERNEL_MOST_CODE + 1 of more */
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
           inst->op == OP_TUPLE || inst->op == OP_REDUCE;
}

static bool is_single(const Shape *s)
{
    for (uint32_t i = 0; i < s->rank; i++) {
        if (s->dims[i] != 1)
            return false;
    }
    return true;
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
    if (most > KERNEL_MOST_CODE + 1)
        most = KERNEL_MOST_CODE + 1;
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

/* Instructions of one element. */
static int64_t producer_work(const Instruction *producer)
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

/* Two of one element count as one: each is computed once for all lanes of a thread. Constants are no code. */
static uint32_t node_count(const Instruction *inst)
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

static int64_t read_bytes(const Instruction *inst)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (shape_is_array(inst->operands[i]->shape))
            n += source_bytes(inst->operands[i]);
    }
    return n;
}

/* A producer inside a consumer. */
typedef struct Inside {
    int64_t evaluations; /* of its elements */
    int64_t copies;      /* of its code */
    int64_t others;      /* copies of all else in the consumer */
    int64_t idle;        /* picoseconds that the consumer's arithmetic waits for memory */
} Inside;

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

/* Heavy readers take only what costs nothing to compute again. */
static bool is_heavy(const Instruction *consumer)
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

static Inside weight_inside(const Instruction *producer, const Instruction *consumer,
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
    sum.idle = is_heavy(consumer) ? 0 : idle_time(&effort, device);
    return sum;
}

/* -- legality ------------------------------------------------------------------------------------------ */

/* Functions of f64 and of complex numbers are long: the assembler's work grows faster than the code. */
static uint32_t most_nodes(const Instruction *consumer)
{
    DType t = consumer->shape->dtype;
    return dtype_is_complex(t) || t == DT_F64 ? KERNEL_MOST_LONG : KERNEL_MOST_NODES;
}

static bool has_reduction(const Instruction *inst)
{
    if (inst->op != OP_FUSION)
        return inst->op == OP_REDUCE || inst->op == OP_REDUCE_WINDOW;
    return kernel_is(inst, KERNEL_REDUCES);
}

/* A control successor that does not read the producer cannot take it in; one that does would
 * keep an edge to itself. */
static bool reads_only(const Instruction *consumer, const Instruction *producer)
{
    for (uint32_t i = 0; i < consumer->control_count; i++) {
        if (consumer->control[i] == producer)
            return false;
    }
    for (uint32_t i = 0; i < consumer->operand_count; i++) {
        if (consumer->operands[i] == producer)
            return true;
    }
    return false;
}

static bool concatenates(const Instruction *producer)
{
    if (producer->op != OP_FUSION)
        return producer->op == OP_CONCATENATE;
    return fusion_hero(producer, OP_CONCATENATE) != NULL;
}

/* What puts the pieces of a cut sum side by side for a filter, and leaves its last dimension in place: each of the
 * kernel's blocks has one piece. */
static bool arranges_pieces(const Instruction *producer, const Instruction *consumer,
                            const Instruction *conv)
{
    if (!config_has(conv, CONFIG_SPLIT_K) || producer->op == OP_FUSION)
        return false;
    const Instruction *x = conv->operands[1];
    bool is_turned = false;
    if (consumer->op != OP_FUSION)
        return x == producer && conv->operands[0] != producer;
    for (; op_is(x->op, OPF_MOVES) && x->operand_count == 1; x = x->operands[0])
        is_turned |= x->op == OP_TRANSPOSE;
    if (x->op != OP_PARAMETER || consumer->operands[x->parameter] != producer)
        return false;
    return producer->op == OP_RESHAPE || (producer->op == OP_TRANSPOSE && !is_turned);
}

/* A window reads each element of its image many times, and several at once where they lie side by side: turned as it
 * is read, each would be fetched alone. So would those of a filter, if more than its dimensions are turned, or joined. */
static bool turns_image(const Instruction *producer, const Instruction *consumer)
{
    const Instruction *conv =
        consumer->op == OP_FUSION ? fusion_hero(consumer, OP_CONVOLUTION) : consumer;
    if (conv == NULL || conv->op != OP_CONVOLUTION)
        return false;
    if (arranges_pieces(producer, consumer, conv))
        return false;
    bool joins = producer->op == OP_RESHAPE &&
                 producer->operands[0]->shape->rank > conv->shape->rank;
    bool turns = transposes(producer) && (shape_bytes(producer->shape) >= LARGE_IMAGE ||
                                          shape_bytes(conv->shape) >= LARGE_IMAGE ||
                                          producer->shape->rank > conv->shape->rank);
    if (!joins && !turns && !concatenates(producer))
        return false;
    const Window *w = inst_window(conv);
    for (uint32_t i = 0; i < w->rank; i++) {
        if (w->dims[i].size > 1)
            return true;
    }
    return false;
}

static bool consumer_takes(Fuse *f, Instruction *producer, Instruction *consumer,
                           Inside *inside)
{
    if (!may_be_consumer(consumer) || consumer->parent != f->comp ||
        !reads_only(consumer, producer) || !sort_takes(consumer, producer, f->cx->target))
        return false;
    if ((producer_work(producer) > 4 && is_heavy(consumer)) ||
        turns_image(producer, consumer))
        return false;
    if (node_count(producer) + node_count(consumer) > most_nodes(consumer) ||
        producer->operand_count + consumer->operand_count > KERNEL_MOST_OPERANDS)
        return false;
    *inside = weight_inside(producer, consumer, f->cx->target->device, f->brief);
    int64_t added = inside->copies * node_count(producer);
    return added + node_count(consumer) <= KERNEL_MOST_CODE &&
           added + inside->others <= KERNEL_MOST_COPIES;
}

/* Arithmetic that is done again is free while its reader waits for memory. */
static int64_t hidden_time(const Fuse *f, const Instruction *producer,
                           const Inside *inside)
{
    int64_t all = cost_ps_of_instructions(
        f->cx->target->device,
        saturating_mul(inside->evaluations, producer_work(producer)));
    return all < inside->idle ? all : inside->idle;
}

static bool is_worth_it(const Fuse *f, const Instruction *producer, int64_t evaluations,
                        int64_t hidden, uint32_t consumers)
{
    const GpuModel *device = f->cx->target->device;
    int64_t elements = shape_elements(producer->shape),
            bytes = shape_bytes(producer->shape);
    int64_t extra = evaluations - elements;
    int64_t cost = 0;
    if (extra > 0)
        cost = cost_ps_of_instructions(device,
                                       saturating_mul(extra, producer_work(producer)));
    cost = cost > hidden ? cost - hidden : 0;
    if (consumers > 1)
        cost += cost_ps_of_bytes(device, read_bytes(producer) * (consumers - 1));
    int64_t saved =
        cost_ps_of_launch() + cost_ps_of_bytes(device, bytes * (1 + (int64_t)consumers));
    return cost < saved;
}

/* No work and no memory: repeated anywhere. */
static bool is_free(const Instruction *producer)
{
    for (uint32_t i = 0; i < producer->operand_count; i++) {
        if (producer->operands[i]->shape->rank != 0)
            return op_is(producer->op, OPF_MOVES);
    }
    return producer_work(producer) <= 2;
}

/* -- the sweep ------------------------------------------------------------------------------------------ */

static Instruction *as_fusion(Fuse *f, Instruction *inst)
{
    if (inst->op == OP_FUSION)
        return inst;
    fusion_wrap_in_place(inst);
    f->is_own[inst->id] = f->is_made[inst->id] = true;
    kernel_kind_set(inst, kernel_kind_choose(inst, f->cx->target));
    return inst;
}

/* Makes the fusion's computation its own. */
static void own_computation(Fuse *f, Instruction *fusion)
{
    if (f->is_own[fusion->id])
        return;
    f->is_own[fusion->id] = true;
    inst_set_called(fusion, 0, computation_clone(inst_called(fusion, 0), NULL));
}

/* The consumer with the producer in it; false, and it is as before, if no kernel makes that, or
 * only a worse one. */
static bool try_merge(Fuse *f, Instruction *producer, Instruction *consumer)
{
    KernelKind before = kernel_kind_of(consumer);
    bool is_moved = f->users[producer->id].count == 1 &&
                    (producer->op != OP_FUSION || f->is_own[producer->id]);
    uint32_t *room = &f->room[consumer->id], room_before = *room;
    own_computation(f, consumer);
    bool was_loop = kernel_kind_is(before, KERNEL_BY_ELEMENT);
    if (was_loop && f->is_made[consumer->id] && producer->op != OP_FFT) {
        /* always legal; whether another kind is better is asked when all is in it */
        fusion_merge(consumer, producer, is_moved, room, f->brief);
        return true;
    }
    bool was_reduction = has_reduction(consumer);
    SavedFusion *saved = fusion_save(consumer, f->brief);
    fusion_merge(consumer, producer, is_moved, room, f->brief);
    KernelKind after = kernel_kind_choose(consumer, f->cx->target);
    bool good = after != KERNEL_COUNT && (after == before || !was_reduction);
    /* a loop is worse, but where tiles would only turn what is turned back */
    if (!was_loop && kernel_kind_is(after, KERNEL_BY_ELEMENT))
        good = kernel_kind_is(before, KERNEL_BY_TILES) &&
               !kernel_kind_is(before, KERNEL_CONTRACTS) && transposes_cancel(consumer);
    f->is_made[consumer->id] |= good;
    if (!good) {
        fusion_restore(saved);
        *room = room_before;
    } else {
        kernel_kind_set(consumer, after);
    }
    return good;
}

static bool merge_into(Fuse *f, Instruction *producer, Instruction *user)
{
    Instruction *consumer = as_fusion(f, user);
    uint32_t old_count = consumer->operand_count;
    Instruction **old = arena_copy(f->brief, consumer->operands, old_count * sizeof *old);
    if (!try_merge(f, producer, consumer))
        return false;
    add_new_operands(f, consumer, old, old_count);
    f->changed = true;
    return true;
}

/* A transform's only reader, if a kernel can make both: it transposes, and computes element by element. */
static void visit_transform(Fuse *f, Instruction *transform, const UserList *users)
{
    if (users->count != 1 || transform->control_count != 0)
        return;
    Instruction *user = users->list[0];
    if (may_be_consumer(user) && user->parent == f->comp && user->op != OP_FFT &&
        shape_is_array(user->shape) && reads_only(user, transform) &&
        node_count(user) < most_nodes(user) && merge_into(f, transform, user))
        computation_remove(f->comp, transform);
}

static void visit(Fuse *f, Instruction *producer)
{
    bool is_transform = producer->op == OP_FFT;
    if (producer == f->comp->root || !(is_transform || may_be_producer(producer)))
        return;
    const UserList *users = users_of(f, producer);
    if (is_transform) {
        visit_transform(f, producer, users);
        return;
    }
    if (users->count == 0 || (users->count > MOST_READERS && !is_free(producer)))
        return;
    int64_t evaluations = 0, hidden = 0;
    for (uint32_t i = 0; i < users->count; i++) {
        Inside inside;
        if (!consumer_takes(f, producer, users->list[i], &inside))
            return;
        evaluations += inside.evaluations;
        hidden = saturating_add(hidden, hidden_time(f, producer, &inside));
    }
    if (!is_worth_it(f, producer, evaluations, hidden, users->count))
        return;
    uint32_t done = 0;
    while (done < users->count && merge_into(f, producer, users->list[done]))
        done++;
    if (done == users->count)
        computation_remove(f->comp, producer);
}

static bool *find_own(const Fuse *f)
{
    uint32_t count = f->comp->instruction_count;
    bool *is_own = ARENA_ARRAY(f->cx->scratch, bool, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *inst = f->comp->instructions[i];
        is_own[i] = inst->op == OP_FUSION && f->callers[inst_called(inst, 0)->id] == 1;
    }
    return is_own;
}

static void fuse_computation(Fuse *f)
{
    Computation *comp = f->comp;
    computation_sort(comp);
    uint32_t count = comp->instruction_count;
    f->user_count = count;
    f->users = ARENA_ARRAY(f->cx->scratch, UserList, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        for (uint32_t k = 0; k < inst->operand_count + inst->control_count; k++) {
            const Instruction *o = k < inst->operand_count
                                       ? inst->operands[k]
                                       : inst->control[k - inst->operand_count];
            const UserList *u = &f->users[o->id];
            if (u->count == 0 || u->list[u->count - 1] != inst)
                add_user(f, o, inst);
        }
    }
    f->is_own = find_own(f);
    f->is_made = ARENA_ARRAY(f->cx->scratch, bool, (size_t)count + 1);
    f->room = ARENA_ARRAY(f->cx->scratch, uint32_t, (size_t)count + 1);
    for (uint32_t i = count; i-- > 0;) {
        visit(f, comp->instructions[i]);
        arena_reset(f->brief);
    }
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        if (inst != NULL && f->is_made[i] && kernel_is(inst, KERNEL_BY_ELEMENT))
            kernel_kind_set(inst, kernel_kind_choose(inst, f->cx->target));
    }
    computation_compact(comp);
}

bool pass_fuse(Module *m, PassContext *cx)
{
    Fuse f = {.m = m, .cx = cx, .brief = arena_scratch()};
    Computations programs = module_programs(m, cx->scratch);
    f.callers = module_call_counts(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++) {
        f.comp = programs.data[c];
        fuse_computation(&f);
    }
    arena_destroy(f.brief);
    fusion_name_all(m);
    if (f.changed)
        module_remove_dead_computations(m);
    return f.changed;
}
