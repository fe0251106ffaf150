/* Loops: one thread computes a few neighbouring elements of every result, in their order in memory. Results of
 * several sizes share the launch: each size has as many of the threads as it needs. */
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

#define WIDE_WORK 160 /* operations of an element up to which accesses are what counts */
#define WORK_EXPENSIVE 20
#define UNEVEN_LANES 4     /* of narrow elements, where a boundary runs between them */
#define FEW_ELEMENTS 16384 /* so few do not fill a device even one by one */

const char *illegal_loop(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    const char *reason = facts_body_illegal(f);
    if (reason != NULL)
        return reason;
    return fusion_result_count(f->fusion) == 0 ? "there is no result" : NULL;
}

bool suits_loop(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

void plan_loop(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    uint32_t results = fusion_result_count(d->fusion);
    int64_t *sizes = ARENA_ARRAY(d->arena, int64_t, results);
    LoopPlan *p = ARENA_NEW(d->arena, LoopPlan);
    p->sizes = sizes;
    for (uint32_t i = 0; i < results; i++) {
        int64_t size = shape_elements(fusion_result(d->fusion, i).shape);
        if (size != 0 && ints_find((Ints){sizes, p->count}, size) < 0)
            sizes[p->count++] = size;
    }
    d->plan.loop = p;
}

/* -- lanes ---------------------------------------------------------------------------------------- */

/* Instructions that the results of this size are made of, by id. */
static bool *code_of(const KernelDesign *d, int64_t size)
{
    const Computation *comp = inst_called(d->fusion, 0);
    uint32_t count;
    Instruction **order = computation_post_order(comp, d->arena, &count);
    bool *is_used = ARENA_ARRAY(d->arena, bool, (size_t)comp->instruction_count + 1);
    for (uint32_t i = 0; i < fusion_result_count(d->fusion); i++) {
        FusionResult r = fusion_result(d->fusion, i);
        is_used[r.inst->id] |= shape_elements(r.shape) == size;
    }
    instructions_mark_operands(order, count, is_used);
    return is_used;
}

/* Bits of the narrowest of the results of this size, 64 at most. */
static unsigned narrowest(const Instruction *fusion, int64_t size)
{
    unsigned least = 64;
    for (uint32_t i = 0; i < fusion_result_count(fusion); i++) {
        const Shape *s = fusion_result(fusion, i).shape;
        if (shape_elements(s) == size && dtype_info[s->dtype].bits < least)
            least = dtype_info[s->dtype].bits;
    }
    return least;
}

/* Elements that a transposition leaves side by side, in which accesses of this many must end; most: any. */
static int64_t most_in_row(const Instruction *inst, int64_t most)
{
    if (inst->op != OP_TRANSPOSE || inst->shape->rank == 0)
        return most;
    uint32_t last = inst->shape->rank - 1;
    if (inst_ints(inst, ATTR_DIMENSIONS).data[last] != last)
        return most;
    int64_t row = inst->shape->dims[last], lanes = most;
    while (lanes > 1 && row % lanes != 0)
        lanes /= 2;
    return lanes > 1 ? lanes : most;
}

/* Enough for wide accesses; 1 where an element is no straight-line code, or so much of it that accesses do not
 * matter. */
static int64_t choose_lanes(const KernelDesign *d, int64_t size)
{
    const Computation *comp = inst_called(d->fusion, 0);
    const bool *is_used = code_of(d, size);
    uint32_t results = fusion_result_count(d->fusion), arrays = 0;
    const Shape **array =
        ARENA_ARRAY(d->arena, const Shape *, comp->instruction_count + results);
    unsigned work = 0;
    bool is_plain = true, is_even = true;
    int64_t row = 64;    /* no access has more */
    int64_t reduced = 0; /* sizes of dimensions along which windows are apart, or-ed */
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (!is_used[inst->id])
            continue;
        uint32_t minor = reduced_neighbours(inst);
        bool is_wide = inst_is_plain(inst) || minor != UINT32_MAX;
        reduced |= minor != UINT32_MAX ? inst->shape->dims[minor] : 0;
        is_plain = is_plain && (is_wide || inst->op == OP_PAD);
        is_even = is_even && is_wide;
        row = most_in_row(inst, row);
        bool is_one = shape_is_array(inst->shape) && shape_elements(inst->shape) == 1;
        if (!is_one) /* else it is computed once for all lanes */
            work += op_is(inst->op, OPF_EXPENSIVE) ? WORK_EXPENSIVE : 1;
        if (inst->op == OP_PARAMETER && shape_elements(inst->shape) > 1)
            array[arrays++] = inst->shape;
    }
    for (uint32_t i = 0; i < results; i++) {
        const Shape *s = fusion_result(d->fusion, i).shape;
        if (shape_elements(s) == size)
            array[arrays++] = s;
    }
    int64_t lanes = access_lanes(array, arrays);
    if (is_even && row < lanes)
        lanes = row;
    if (!is_plain || work > WIDE_WORK || size < 2 * lanes)
        lanes = 1;
    if (!is_even) /* of words, a warp reads a line as it is */
        lanes = lanes > UNEVEN_LANES ? UNEVEN_LANES : 1;
    while (reduced % lanes != 0)
        lanes /= 2;
    /* a tail doubles the code */
    while (lanes > 1 && size < FEW_ELEMENTS && size % lanes != 0)
        lanes /= 2;
    /* threads write whole bytes */
    while (lanes * narrowest(d->fusion, size) < 8)
        lanes *= 2;
    return lanes;
}

/* -- design --------------------------------------------------------------------------------------- */

static int64_t threads_of(const KernelDesign *d, const KernelConfig *c)
{
    int64_t threads = 0;
    for (uint32_t i = 0; i < d->plan.loop->count && i < c->lanes.count; i++) {
        int64_t lanes = c->lanes.data[i], size = d->plan.loop->sizes[i];
        int64_t needed = size / lanes + (size % lanes != 0);
        threads = needed > threads ? needed : threads;
    }
    return threads;
}

void configure_loop(const KernelDesign *d, KernelConfig *c)
{
    uint32_t count = d->plan.loop->count;
    if (config_lacks(c, KERNEL_KEY_LANES)) {
        int64_t *lanes = ARENA_ARRAY(d->arena, int64_t, count);
        for (uint32_t i = 0; i < count; i++)
            lanes[i] = choose_lanes(d, d->plan.loop->sizes[i]);
        c->lanes = (Ints){lanes, count};
    }
    configure_threads(c, threads_of(d, c));
}

const char *refuse_loop(const KernelDesign *d)
{
    const char *wrong = lanes_refused(d, d->plan.loop->count);
    for (uint32_t i = 0; i < d->plan.loop->count && wrong == NULL; i++) {
        unsigned bits = narrowest(d->fusion, d->plan.loop->sizes[i]);
        int64_t lanes = d->config.lanes.data[i];
        if (lanes * bits < 8)
            wrong = refuse_text(d, "\"lanes\" %lld of %u bits are no whole byte",
                                (long long)lanes, bits);
    }
    return wrong != NULL ? wrong : block_refused(d);
}

void geometry_loop(KernelDesign *d)
{
    geometry_threads(d, threads_of(d, &d->config));
}
