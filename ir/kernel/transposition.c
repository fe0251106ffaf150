/* See transposition.h. */
#include "ir/kernel/transposition.h"

#include <string.h>

#include "ir/kernel/element.h"
#include "ir/kernel/rules.h"

/* Dimensions of `shape` larger than 1, the slowest in memory first. */
static uint32_t memory_order(const Shape *shape, uint32_t *out)
{
    uint32_t n = 0;
    for (uint32_t i = shape->rank; i-- > 0;) {
        int64_t d = shape->layout->minor_to_major[i];
        if (shape->dims[d] != 1)
            out[n++] = (uint32_t)d;
    }
    return n;
}

/* The result's dimension that dimension d of a hero's operand is. */
static uint32_t result_dimension(const Instruction *hero, uint32_t d)
{
    if (hero->op != OP_TRANSPOSE)
        return d;
    Ints dims = inst_ints(hero, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < dims.count; i++) {
        if (dims.data[i] == d)
            return i;
    }
    return d;
}

static bool may_be_hero(const Instruction *inst)
{
    return (inst->op == OP_TRANSPOSE || inst->op == OP_COPY) &&
           shape_is_array(inst->shape) && inst->shape->rank <= TRANSPOSITION_RANK &&
           dtype_info[inst->shape->dtype].bits >= 8 &&
           inst->operands[0]->shape->dtype == inst->shape->dtype;
}

/* The operand's memory order in terms of the result's dimensions. */
static uint32_t operand_order(const Instruction *hero, uint32_t *out)
{
    uint32_t n = memory_order(hero->operands[0]->shape, out);
    for (uint32_t i = 0; i < n; i++)
        out[i] = result_dimension(hero, out[i]);
    return n;
}

/* The last dimensions of `order` that follow each other in `other` too: how many. */
static uint32_t last_group(const uint32_t *order, const uint32_t *other, uint32_t n)
{
    uint32_t count = 1, at = 0;
    while (other[at] != order[n - 1])
        at++;
    while (count < n && at > 0 && other[at - 1] == order[n - 1 - count]) {
        at--;
        count++;
    }
    return count;
}

static int64_t size_of(const Shape *shape, const uint32_t *dims, uint32_t count)
{
    int64_t size = 1;
    for (uint32_t i = 0; i < count; i++)
        size *= shape->dims[dims[i]];
    return size;
}

/* Groups of the hero's dimensions; false if both sides are contiguous along the same one. */
static bool find_groups(const Instruction *hero, const Shape *result, TransposePlan *p)
{
    uint32_t to[TRANSPOSITION_RANK], from[TRANSPOSITION_RANK];
    uint32_t n = memory_order(result, to);
    if (n < 2 || operand_order(hero, from) != n || to[n - 1] == from[n - 1])
        return false;
    p->rank = result->rank;
    p->inner_count = last_group(to, from, n);
    p->outer_count = last_group(from, to, n);
    memcpy(p->inner, to + n - p->inner_count, p->inner_count * sizeof *to);
    memcpy(p->outer, from + n - p->outer_count, p->outer_count * sizeof *from);
    p->batch_count = 0;
    for (uint32_t i = 0; i < n - p->inner_count; i++) {
        bool is_outer = false;
        for (uint32_t k = 0; k < p->outer_count; k++)
            is_outer |= p->outer[k] == to[i];
        if (!is_outer)
            p->batch[p->batch_count++] = to[i];
    }
    p->inner_size = size_of(result, p->inner, p->inner_count);
    p->outer_size = size_of(result, p->outer, p->outer_count);
    p->batch_size = size_of(result, p->batch, p->batch_count);
    return true;
}

typedef struct Search {
    const Computation *comp;
    const Shape *result;
    TransposePlan *plan;
    uint8_t *state; /* by id: 0 not seen, 1 seen */
    uint32_t
        *undone; /* by id: the last hero that comes_back asked about it for, from 1 on */
    uint32_t asked;
    bool cancels; /* something that looks like a hero is undone */
    const char *why;
} Search;

/* What a hero turns was turned before it: all arrays that it is made of are contiguous along the dimension along
 * which the result is, so that a loop reads and writes whole rows. dims: the result's dimension of each of inst's. */
static bool comes_back(Search *s, const Instruction *inst, const uint32_t *dims)
{
    if (s->undone[inst->id] == s->asked || inst->op == OP_CONSTANT ||
        inst->op == OP_BROADCAST || inst->op == OP_IOTA)
        return true; /* asked already, or small: nothing to turn */
    s->undone[inst->id] = s->asked;
    if (inst->op == OP_PARAMETER) {
        uint32_t to[TRANSPOSITION_RANK], from[TRANSPOSITION_RANK];
        uint32_t n = memory_order(s->result, to);
        return memory_order(inst->shape, from) == n && dims[from[n - 1]] == to[n - 1];
    }
    if (!op_is(inst->op, OPF_ELEMENTWISE) && !may_be_hero(inst))
        return false;
    uint32_t inner[TRANSPOSITION_RANK];
    for (uint32_t d = 0; d < inst->shape->rank; d++)
        inner[d] = dims[result_dimension(inst, d)];
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (inst->operands[i]->shape->rank == inst->shape->rank &&
            !comes_back(s, inst->operands[i], inner))
            return false;
    }
    return true;
}

static bool is_undone(Search *s, const Instruction *hero)
{
    uint32_t same[TRANSPOSITION_RANK];
    for (uint32_t d = 0; d < hero->shape->rank; d++)
        same[d] = d;
    s->asked++;
    bool is_undone = comes_back(s, hero, same);
    s->cancels |= is_undone;
    return is_undone;
}

/* Heroes that are read at the results' own index. */
static void find_heroes(Search *s, const Instruction *inst)
{
    if (s->state[inst->id] != 0 || s->why != NULL)
        return;
    s->state[inst->id] = 1;
    if (may_be_hero(inst) && shape_same_dims(inst->shape, s->result)) {
        TransposePlan other, *p = s->plan;
        bool is_first = p->hero_count == 0;
        if (find_groups(inst, s->result, is_first ? p : &other) && !is_undone(s, inst)) {
            bool fits =
                is_first || (p->hero_count < TRANSPOSITION_HEROES &&
                             other.inner_count == p->inner_count &&
                             other.outer_count == p->outer_count &&
                             memcmp(other.inner, p->inner, p->inner_count * 4) == 0 &&
                             memcmp(other.outer, p->outer, p->outer_count * 4) == 0);
            if (fits)
                p->heroes[p->hero_count++] = inst;
            return;
        }
    }
    if (!op_is(inst->op, OPF_ELEMENTWISE) && !may_be_hero(inst))
        return;
    if (inst->op == OP_TRANSPOSE)
        return;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (shape_same_dims(inst->operands[i]->shape, s->result))
            find_heroes(s, inst->operands[i]);
    }
}

static bool has_hero(const Computation *comp)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (may_be_hero(inst))
            return true;
    }
    return false;
}

/* Of which *cancels is set if a hero was left out as what it turns was turned before it. */
static bool make_plan(const Instruction *fusion, TransposePlan *out, bool *cancels,
                      const char **why)
{
    const Computation *comp = inst_called(fusion, 0);
    uint32_t count = fusion_result_count(fusion);
    *out = (TransposePlan){.hero_count = 0};
    *why = "it has no transpose at the results' index";
    if (count == 0 || !has_hero(comp))
        return false;
    Search s = {.comp = comp, .result = fusion_result(fusion, 0).shape, .plan = out};
    Arena *scratch = arena_scratch();
    s.state = ARENA_ARRAY(scratch, uint8_t, (size_t)comp->instruction_count + 1);
    s.undone = ARENA_ARRAY(scratch, uint32_t, (size_t)comp->instruction_count + 1);
    const char *reason =
        s.result->rank > TRANSPOSITION_RANK ? "too many dimensions" : NULL;
    for (uint32_t i = 0; i < count && reason == NULL; i++) {
        FusionResult r = fusion_result(fusion, i);
        if (!shape_same_dims(r.shape, s.result) ||
            !shape_layouts_equal(r.shape, s.result) || !shape_is_array(r.inst->shape) ||
            dtype_info[r.shape->dtype].bits < 8)
            reason = "the results differ in shape, or have less than a byte";
        else
            find_heroes(&s, r.inst);
    }
    if (reason == NULL)
        reason = kernel_epilogue_illegal(fusion, out->heroes, out->hero_count);
    arena_destroy(scratch);
    *cancels = s.cancels;
    if (reason == NULL && out->hero_count == 0)
        return false;
    *why = reason;
    return reason == NULL;
}

bool transpose_plan(const Instruction *fusion, TransposePlan *out, const char **why)
{
    bool cancels;
    return make_plan(fusion, out, &cancels, why);
}

bool transposes_cancel(const Instruction *fusion)
{
    TransposePlan plan;
    const char *why;
    bool cancels = false;
    return !make_plan(fusion, &plan, &cancels, &why) && plan.hero_count == 0 && cancels;
}

bool transpose_is_large(const TransposePlan *p)
{
    int64_t least = p->inner_size < p->outer_size ? p->inner_size : p->outer_size;
    return least >= 16 || (least >= 8 && p->inner_size * p->outer_size >= 8192);
}

/* -- the kernel ------------------------------------------------------------------------------------ */

#define TRANSPOSE_THREADS 256
#define TRANSPOSE_TILE 32
#define TRANSPOSE_NARROW_TILE 64 /* of few narrow elements */
#define TRANSPOSE_LANES 8

enum { OUTER, INNER };       /* the sides of a tile */
enum { READ, WRITE, LANES }; /* the numbers of lanes */

const char *illegal_transpose(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    const char *reason = facts_body_illegal(f);
    if (reason != NULL)
        return reason;
    TransposePlan *p = ARENA_NEW(f->arena, TransposePlan);
    if (transpose_plan(f->fusion, p, &reason))
        f->transpose = p;
    return reason;
}

bool suits_transpose(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    return transpose_is_large(f->transpose);
}

void plan_transpose(KernelDesign *d, const FusionFacts *f)
{
    d->plan.transpose = f->transpose;
}

static int64_t widest_hero(const TransposePlan *p)
{
    int64_t widest = 1;
    for (uint32_t h = 0; h < p->hero_count; h++) {
        int64_t bytes = dtype_info[p->heroes[h]->shape->dtype].bits / 8;
        widest = bytes > widest ? bytes : widest;
    }
    return widest;
}

static int64_t widest_result(const Instruction *fusion)
{
    int64_t widest = 1;
    for (uint32_t i = 0; i < fusion_result_count(fusion); i++) {
        int64_t bytes = dtype_info[fusion_result(fusion, i).shape->dtype].bits / 8;
        widest = bytes > widest ? bytes : widest;
    }
    return widest;
}

/* Elements of an access along a side: up to 16 bytes, as long as accesses do not cross its end. */
static int64_t choose_lanes(int64_t bytes, int64_t size)
{
    int64_t lanes = 16 / bytes;
    if (lanes > TRANSPOSE_LANES)
        lanes = TRANSPOSE_LANES;
    while (lanes > 1 && size % lanes != 0)
        lanes /= 2;
    return lanes == 0 ? 1 : lanes;
}

static void configure_lanes(const KernelDesign *d, KernelConfig *c)
{
    const TransposePlan *p = d->plan.transpose;
    int64_t read = widest_hero(p), write = widest_result(d->fusion);
    int64_t lanes[LANES] = {choose_lanes(read, p->outer_size),
                            choose_lanes(read > write ? read : write, p->inner_size)};
    if (!fusion_is_plain(inst_called(d->fusion, 0), p->heroes, p->hero_count))
        lanes[READ] = lanes[WRITE] = 1;
    c->lanes = (Ints){arena_copy(d->arena, lanes, sizeof lanes), LANES};
}

void configure_transpose(const KernelDesign *d, KernelConfig *c)
{
    const TransposePlan *p = d->plan.transpose;
    bool is_narrow = widest_hero(p) <= 2 && p->hero_count <= 2;
    if (config_lacks(c, KERNEL_KEY_TILE))
        c->tile[OUTER] = c->tile[INNER] =
            is_narrow ? TRANSPOSE_NARROW_TILE : TRANSPOSE_TILE;
    if (config_lacks(c, KERNEL_KEY_LANES))
        configure_lanes(d, c);
    if (config_lacks(c, KERNEL_KEY_BLOCK))
        c->block = TRANSPOSE_THREADS;
}

static void add_shared(KernelGeometry *g, const KernelDesign *d)
{
    const TransposePlan *p = d->plan.transpose;
    const int64_t *tile = d->config.tile;
    for (uint32_t h = 0; h < p->hero_count; h++) {
        unsigned bytes = shared_bytes(p->heroes[h]->shape->dtype);
        geometry_shared(
            g, (uint64_t)(bytes * tile[INNER] * transpose_stride(tile[OUTER])), bytes);
    }
}

static const char *refuse_side(const KernelDesign *d, int64_t lanes, int64_t tile,
                               int64_t size)
{
    return tile % lanes == 0 && size % lanes == 0
               ? NULL
               : refuse_text(d,
                             "\"lanes\" %lld must divide the tile's %lld and the array's "
                             "%lld elements",
                             (long long)lanes, (long long)tile, (long long)size);
}

const char *refuse_transpose(const KernelDesign *d)
{
    const TransposePlan *p = d->plan.transpose;
    const KernelConfig *c = &d->config;
    const char *wrong = lanes_refused(d, LANES);
    if (wrong == NULL)
        wrong = refuse_side(d, c->lanes.data[READ], c->tile[OUTER], p->outer_size);
    if (wrong == NULL)
        wrong = refuse_side(d, c->lanes.data[WRITE], c->tile[INNER], p->inner_size);
    if (wrong == NULL)
        wrong = block_refused(d);
    KernelGeometry g = {.shared_bytes = 0};
    add_shared(&g, d);
    return wrong != NULL ? wrong : shared_refused(d, g.shared_bytes);
}

void geometry_transpose(KernelDesign *d)
{
    const TransposePlan *p = d->plan.transpose;
    const KernelConfig *c = &d->config;
    int64_t inner = (p->inner_size + c->tile[INNER] - 1) / c->tile[INNER];
    int64_t outer = (p->outer_size + c->tile[OUTER] - 1) / c->tile[OUTER];
    geometry_blocks(d, inner * outer * p->batch_size, c->block, 1);
    add_shared(&d->geometry, d);
    d->geometry.has_barriers = true;
}
