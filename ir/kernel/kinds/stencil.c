/* Stencils: elements made of neighbours in dimensions that are not the fastest one. A loop's blocks lie along memory,
 * so that each fetches all neighbouring rows for itself. Here a block has several rows side by side and walks from
 * plane to plane: what a neighbour needs was just read by the same block, and is still in its L1. */
#include "ir/base/divide.h"
#include "ir/kernel/element.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

#define STENCIL_THREADS 512
#define STENCIL_VECTOR_THREADS                                                           \
    128 /* with several elements, of which each needs registers */
#define STENCIL_ROWS 4
#define STENCIL_WORD_LANES 4 /* elements of 4 bytes or more in an access */
#define STENCIL_STEPS 16
#define STENCIL_VECTOR_STEPS 4 /* what is read at once is as much */
#define STENCIL_FAR 8          /* positions; what lies farther apart is no neighbour */
#define STENCIL_ELEMENTS (1 << 22) /* fewer are read from L2, for the most part */
#define STENCIL_WAVES 4            /* blocks of each multiprocessor, at least */

/* Slices that begin at different positions close to each other: bits of the dimensions. */
static uint32_t dims_between(const Instruction *a, const Instruction *b)
{
    uint32_t rank = a->shape->rank, found = 0;
    const SliceDim *x = inst_attr(a, ATTR_SLICE)->slice->dims,
                   *y = inst_attr(b, ATTR_SLICE)->slice->dims;
    for (uint32_t d = 0; d < rank; d++) {
        int64_t by = x[d].start - y[d].start;
        if (x[d].stride != 1 || y[d].stride != 1 || by > STENCIL_FAR || by < -STENCIL_FAR)
            return 0;
        found |= by != 0 ? 1u << d : 0;
    }
    return found;
}

/* Dimensions, counted as those of the result, along which the fusion reads neighbours. */
static uint32_t neighbour_dims(const Computation *comp, uint32_t rank, Arena *a)
{
    const Instruction **slices =
        ARENA_ARRAY(a, const Instruction *, comp->instruction_count);
    uint32_t count = 0, found = 0;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op != OP_SLICE || inst->shape->rank != rank)
            continue;
        slices[count++] = inst;
        for (uint32_t i = 0; i + 1 < count; i++) {
            if (slices[i]->operands[0] == inst->operands[0])
                found |= dims_between(slices[i], inst);
        }
    }
    return found;
}

/* Of those: without the fastest one. */
static uint32_t row_dims(uint32_t dims, uint32_t rank)
{
    return dims & ((1u << (rank - 1)) - 1);
}

const char *illegal_stencil(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    const char *reason = facts_body_illegal(f);
    if (reason != NULL)
        return reason;
    if (fusion_result_count(f->fusion) != 1)
        return "there is not one result";
    const Shape *s = fusion_result(f->fusion, 0).shape;
    if (s->rank < 2 || shape_elements(s) == 0 || !shape_is_row_major(s) ||
        dtype_is_sub_byte(s->dtype))
        return "the result is no row-major array of two dimensions or more";
    return row_dims(neighbour_dims(inst_called(f->fusion, 0), s->rank, f->arena),
                    s->rank) == 0
               ? "nothing is read at neighbouring rows"
               : NULL;
}

static int64_t product(const Shape *s, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t d = from; d < to; d++)
        n *= s->dims[d];
    return n;
}

/* Of the dimensions with neighbours: steps go along the slowest, a block's rows along the fastest. */
static void find_dims(StencilPlan *p, uint32_t dims)
{
    p->step_dim = (uint32_t)__builtin_ctz(dims);
    p->row_dim = 31 - (uint32_t)__builtin_clz(dims);
    const Shape *s = p->shape;
    p->steps = s->dims[p->step_dim];
    p->rows = p->row_dim == p->step_dim ? 1 : s->dims[p->row_dim];
    p->inner = product(s, p->row_dim + 1, s->rank);
    p->between = p->row_dim == p->step_dim ? 1 : product(s, p->step_dim + 1, p->row_dim);
    p->outer = product(s, 0, p->step_dim);
}

static StencilPlan *stencil_plan(const Instruction *fusion, Arena *a)
{
    StencilPlan *p = ARENA_NEW(a, StencilPlan);
    p->shape = fusion_result(fusion, 0).shape;
    uint32_t dims = neighbour_dims(inst_called(fusion, 0), p->shape->rank, a);
    p->is_along_rows = dims != row_dims(dims, p->shape->rank);
    find_dims(p, row_dims(dims, p->shape->rank));
    return p;
}

bool suits_stencil(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    const StencilPlan *p = stencil_plan(f->fusion, f->arena);
    /* a loop's threads find neighbours of narrow elements among those that they read at once */
    bool is_for_loop = p->is_along_rows && dtype_info[p->shape->dtype].bits < 32;
    return shape_elements(p->shape) >= STENCIL_ELEMENTS && p->inner >= TARGET_WARP &&
           !is_for_loop;
}

void plan_stencil(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    d->plan.stencil = stencil_plan(d->fusion, d->arena);
}

void stencil_grid(const KernelDesign *d, StencilGrid *out)
{
    const StencilPlan *p = d->plan.stencil;
    const KernelConfig *c = &d->config;
    out->width = c->block / c->rows;
    out->lanes = c->lanes.data[0];
    out->pieces = ceil_div(p->inner, out->width * out->lanes);
    out->groups = ceil_div(p->rows, c->rows);
    out->walks = ceil_div(p->steps, c->items);
    out->blocks = out->pieces * out->groups * p->between * out->walks * p->outer;
}

/* -- heuristic ------------------------------------------------------------------------------------ */

/* A step is a whole one of the walk's memory, and the last one waits for nobody: few blocks walk less far. */
static int64_t choose_steps(const KernelDesign *d, const KernelConfig *c)
{
    KernelDesign tried = *d;
    StencilGrid g;
    tried.config = *c;
    tried.config.items = c->lanes.data[0] > 1 ? STENCIL_VECTOR_STEPS : STENCIL_STEPS;
    for (;; tried.config.items /= 2) {
        stencil_grid(&tried, &g);
        if (tried.config.items == 1 ||
            (g.blocks >= STENCIL_WAVES * target_multiprocessors(d->target) &&
             tried.config.items <= d->plan.stencil->steps))
            return tried.config.items;
    }
}

/* Narrow elements are read several at once, where rows are whole vectors. Those of a word fill a line by a warp as
 * they are. */
static int64_t choose_lanes(const KernelDesign *d)
{
    const Computation *comp = inst_called(d->fusion, 0);
    const StencilPlan *p = d->plan.stencil;
    const Shape **arrays =
        ARENA_ARRAY(d->arena, const Shape *, (size_t)comp->parameter_count + 1);
    uint32_t count = 0;
    arrays[count++] = p->shape;
    for (uint32_t i = 0; i < comp->parameter_count; i++)
        arrays[count++] = comp->parameters[i]->shape;
    int64_t lanes = access_lanes(arrays, count);
    if (lanes <= STENCIL_WORD_LANES || !fusion_is_plain(comp, NULL, 0))
        return 1;
    while (p->inner % lanes != 0)
        lanes /= 2;
    return lanes;
}

/* Threads along a row, and rows of a block. */
static void choose_block(const KernelDesign *d, KernelConfig *c)
{
    const StencilPlan *p = d->plan.stencil;
    int64_t lanes = c->lanes.data[0];
    int64_t most = lanes > 1 ? STENCIL_VECTOR_THREADS : STENCIL_THREADS;
    int64_t width = lanes > 1 ? 1 : TARGET_WARP;
    bool lacks_rows = config_lacks(c, KERNEL_KEY_ROWS),
         lacks_block = config_lacks(c, KERNEL_KEY_BLOCK);
    if (lacks_rows) {
        c->rows = 1;
        while (c->rows < STENCIL_ROWS && c->rows < p->rows)
            c->rows *= 2;
    }
    while (width * lanes < p->inner && width * c->rows < most)
        width *= 2;
    while (lanes > 1 && lacks_rows && c->rows < p->rows && width * c->rows < most)
        c->rows *= 2;
    while (width * c->rows < TARGET_WARP)
        width *= 2;
    if (lacks_block)
        c->block = width * c->rows;
}

static bool is_open(const KernelConfig *c, KernelKey key)
{
    return (c->set & 1u << key) == 0;
}

/* What the text leaves open of c: so many elements at once, and so many times the rows of a block of as many threads. */
static KernelConfig completed(const KernelDesign *d, KernelConfig c, int64_t lanes,
                              int64_t times)
{
    bool lacks_rows = is_open(&c, KERNEL_KEY_ROWS);
    if (config_lacks(&c, KERNEL_KEY_LANES))
        config_set_lanes(d->arena, &c, lanes);
    choose_block(d, &c);
    if (lacks_rows)
        c.rows *= times;
    if (config_lacks(&c, KERNEL_KEY_ITEMS))
        c.items = choose_steps(d, &c);
    return c;
}

static bool has_room(const KernelDesign *d, const KernelConfig *c)
{
    return c->block % c->rows == 0 && c->rows < 2 * d->plan.stencil->rows;
}

/* Of narrow elements fewer at once, and more rows of a narrower piece, leave more of what neighbours share in L1: the
 * model of time says what that is worth. */
void configure_stencil(const KernelDesign *d, KernelConfig *c)
{
    enum { LEAST_LANES = 2, MOST_TIMES = 4 };
    KernelConfig given = *c;
    int64_t most = choose_lanes(d);
    bool is_free = is_open(c, KERNEL_KEY_LANES) && is_open(c, KERNEL_KEY_ROWS) &&
                   is_open(c, KERNEL_KEY_BLOCK);
    double best, seconds;
    *c = completed(d, given, most, 1);
    if (most < LEAST_LANES || !is_free || d->target == NULL ||
        !design_seconds(d, c, &best))
        return;
    for (int64_t lanes = most; lanes >= LEAST_LANES; lanes /= 2) {
        for (int64_t times = 1; times <= MOST_TIMES; times *= 2) {
            KernelConfig tried = completed(d, given, lanes, times);
            if (has_room(d, &tried) && design_seconds(d, &tried, &seconds) &&
                seconds < best) {
                *c = tried;
                best = seconds;
            }
        }
    }
}

const char *refuse_stencil(const KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    const char *wrong = lanes_refused(d, 1);
    if (wrong != NULL)
        return wrong;
    if (d->plan.stencil->inner % c->lanes.data[0] != 0)
        return refuse_text(d, "\"lanes\" %lld must divide rows of %lld elements",
                           (long long)c->lanes.data[0],
                           (long long)d->plan.stencil->inner);
    if (c->block % c->rows != 0)
        return refuse_text(d, "\"rows\" %lld must divide the block of %lld threads",
                           (long long)c->rows, (long long)c->block);
    if (c->rows > 1 && d->plan.stencil->row_dim == d->plan.stencil->step_dim)
        return refuse_text(
            d, "\"rows\" must be 1 where neighbours lie along one dimension, found %lld",
            (long long)c->rows);
    return block_refused(d);
}

void geometry_stencil(KernelDesign *d)
{
    StencilGrid g;
    stencil_grid(d, &g);
    geometry_blocks(d, g.blocks, d->config.block, 1);
}
