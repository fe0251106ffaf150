/* Producer-consumer fusion: an instruction that is cheaper to compute where it is read than to
 * write and read again moves into all its readers.
 *
 *   b = exp(a)  c = add(b, x)  d = reduce(c)
 *   ->  d = fusion(a, x), calls={exp, add, reduce}, backend_config={"emitter":"row_reduction"}
 *
 * Producers are visited from the last to the first, so that a reader is complete when the
 * producer looks at it. fuse_cost.c says whether the move is worth it.
 *
 * Needs: laid out. Keeps: values. Ends: each visit removes a producer or leaves it. */
#include "ir/attribute/config.h"
#include "ir/base/bug.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/library.h"
#include "ir/kernel/matmul.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/time/costs.h"
#include "ir/kernel/transposition.h"
#include "passes/fusion/fuse_cost.h"
#include "passes/fusion/fusion.h"

#define KERNEL_MOST_NODES 400 /* instructions of one fused computation */
#define KERNEL_MOST_LONG 160  /* of them where each is many instructions of the machine */
#define KERNEL_MOST_COPIES 1000 /* of all instructions of a kernel */
#define KERNEL_MOST_OPERANDS 120
#define TOPK_MOST_NODES 50 /* its kernel has the code of up to 32 elements */
#define FEW_ROWS_WORK 8 /* instructions of an element that a block makes of a whole row */
#define MOST_READERS                                                                     \
    10 /* that work is repeated in: what reads those would repeat it again */
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
    uint32_t *spare;         /* by id: for fusion_merge */
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
           inst->op == OP_REDUCE_WINDOW || inst->op == OP_FFT || inst->op == OP_SORT ||
           inst->op == OP_TOPK;
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

/* Indices along a dimension, turned or spread. */
static bool is_counted(const Instruction *producer)
{
    while (producer->op == OP_BROADCAST || producer->op == OP_REVERSE)
        producer = producer->operands[0];
    return producer->op == OP_IOTA ||
           (producer->op == OP_FUSION && producer->operand_count == 0);
}

/* A topk reads each element once, rows as they lie in memory; a block has a row, so that few of them make what is much
 * work in few multiprocessors. */
static bool topk_takes(const Instruction *consumer, const Instruction *topk,
                       const Instruction *producer, const Target *target)
{
    const Shape *s = topk->operands[0]->shape;
    int64_t work = fuse_work(producer);
    if (consumer != topk)
        work += fuse_work(consumer) - cost_instructions(topk);
    int64_t size = s->dims[s->rank - 1];
    bool is_few = size == 0 || shape_elements(s) / size < target_multiprocessors(target);
    return !transposes(producer) && (work <= FEW_ROWS_WORK || !is_few) &&
           fuse_nodes(producer) + fuse_nodes(consumer) <= TOPK_MOST_NODES;
}

/* A sort reads an element once if a block sorts whole rows, and then by rows as they lie in memory. A longer one is
 * sorted in steps: the keys are read to count their digits, too, and all but the first step read what was written; what
 * reads nothing is computed in the first. */
static bool sort_takes(const Instruction *sort, const Instruction *producer,
                       const Target *target)
{
    return sort_is_in_block(sort, target) ? !transposes(producer) : is_counted(producer);
}

static bool order_takes(const Instruction *consumer, const Instruction *producer,
                        const Target *target)
{
    bool is_fusion = consumer->op == OP_FUSION;
    const Instruction *sort = is_fusion ? fusion_hero(consumer, OP_SORT) : consumer;
    const Instruction *topk = is_fusion ? fusion_hero(consumer, OP_TOPK) : consumer;
    if (topk != NULL && topk->op == OP_TOPK)
        return topk_takes(consumer, topk, producer, target);
    return sort == NULL || sort->op != OP_SORT || sort_takes(sort, producer, target);
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

static bool is_vector(const Instruction *dot, uint32_t side)
{
    const Shape *s = dot->operands[side]->shape;
    int64_t batch = inst_ints(dot, ATTR_LHS_BATCH_DIMS).count;
    bool is = true;
    for (uint32_t d = 0; d < s->rank && is; d++)
        is = s->dims[d] == 1 || dot_result_dim(dot, side, d) < batch;
    return is;
}

/* A kernel on tensor cores copies a vector to shared memory while it multiplies; for what it has to compute of it, it
 * would wait in each step. */
static bool stops_copies(const Instruction *producer, const Instruction *consumer)
{
    bool computes = producer->op == OP_FUSION || op_is(producer->op, OPF_ELEMENTWISE);
    if (!computes || consumer->op != OP_FUSION ||
        !kernel_is(consumer, KERNEL_ON_TENSOR_CORES))
        return false;
    const Instruction *dot = fusion_hero(consumer, OP_DOT);
    bool stops = false;
    for (uint32_t i = 0; dot != NULL && i < 2 && !stops; i++) {
        const Instruction *x = dot->operands[i];
        while (op_is(x->op, OPF_MOVES) && x->operand_count == 1)
            x = x->operands[0];
        stops = is_vector(dot, i) && x->op == OP_PARAMETER &&
                consumer->operands[x->parameter] == producer;
    }
    return stops;
}

static bool consumer_takes(Fuse *f, Instruction *producer, Instruction *consumer,
                           Inside *inside)
{
    if (!may_be_consumer(consumer) || consumer->parent != f->comp ||
        !reads_only(consumer, producer) ||
        !order_takes(consumer, producer, f->cx->target))
        return false;
    if ((fuse_work(producer) > 4 && fuse_is_heavy(consumer)) ||
        turns_image(producer, consumer) || stops_copies(producer, consumer))
        return false;
    if (fuse_nodes(producer) + fuse_nodes(consumer) > most_nodes(consumer) ||
        producer->operand_count + consumer->operand_count > KERNEL_MOST_OPERANDS)
        return false;
    *inside = fuse_inside(producer, consumer, f->cx->target->device, f->brief);
    int64_t added = inside->copies * fuse_nodes(producer);
    return added + fuse_nodes(consumer) <= FUSE_MOST_CODE &&
           added + inside->others <= KERNEL_MOST_COPIES;
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
    uint32_t *spare = &f->spare[consumer->id], spare_before = *spare;
    own_computation(f, consumer);
    bool was_loop = kernel_kind_is(before, KERNEL_BY_ELEMENT);
    if (was_loop && f->is_made[consumer->id] && producer->op != OP_FFT) {
        /* always legal; whether another kind is better is asked when all is in it */
        fusion_merge(consumer, producer, is_moved, spare, f->brief);
        return true;
    }
    bool was_reduction = has_reduction(consumer);
    SavedFusion *saved = fusion_save(consumer, f->brief);
    fusion_merge(consumer, producer, is_moved, spare, f->brief);
    KernelKind after = kernel_kind_choose(consumer, f->cx->target);
    bool good = after != KERNEL_COUNT && (after == before || !was_reduction);
    /* a loop is worse, but where tiles would only turn what is turned back */
    if (!was_loop && kernel_kind_is(after, KERNEL_BY_ELEMENT))
        good = kernel_kind_is(before, KERNEL_BY_TILES) &&
               !kernel_kind_is(before, KERNEL_CONTRACTS) && transposes_cancel(consumer);
    /* what wants its operands in memory was chosen so, and with the kernels that make them */
    good &= after == before || !kernel_kind_is(before, KERNEL_AS_IMAGES);
    f->is_made[consumer->id] |= good;
    if (!good) {
        fusion_restore(saved);
        *spare = spare_before;
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
        fuse_nodes(user) < most_nodes(user) && merge_into(f, transform, user))
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
    if (users->count == 0 || (users->count > MOST_READERS && !fuse_is_free(producer)))
        return;
    Inside sum = {.evaluations = 0};
    for (uint32_t i = 0; i < users->count; i++) {
        Inside inside;
        if (!consumer_takes(f, producer, users->list[i], &inside))
            return;
        fuse_inside_add(&sum, &inside);
    }
    if (!fuse_is_worth_it(producer, &sum, users->list, users->count,
                          f->cx->target->device))
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
    f->spare = ARENA_ARRAY(f->cx->scratch, uint32_t, (size_t)count + 1);
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
