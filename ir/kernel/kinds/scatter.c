/* Scatter in place: the results' buffers hold the operands already; updates are combined into them, those
 * whose window does not fit are dropped. The result never depends on the order of threads: see ScatterStrategy. */
#include <string.h>

#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

#define OWNER_THREADS 65536 /* enough to fill a GPU */
#define RUN_ITEMS 8         /* updates that a thread has under way: of windows, or */
#define RUN_FEW_ITEMS 4     /* where its neighbours read others */
#define RUN_LANES 4
#define RUN_AHEAD 4 /* updates under way behind those of a thread, at least */
#define RUN_WIDE_THREADS (1 << 17) /* parts of updates, worth wide accesses */
#define FIRST_MOST_UPDATES 1024    /* each one is compared with all others */
#define SHARED_UPDATES 256 /* fewer are not worth the positions' way to shared memory */
#define SHARED_POSITIONS_BYTES 16384
/* updates of a thread that are read before the first is put where it goes */
#define SHARED_AHEAD 4
#define SHARED_THREADS 256
#define SHARED_MOST_THREADS 1024
#define SHARED_ALL_THREADS 2048 /* of a multiprocessor */
#define RUN_THREADS (1 << 18)

/* -- legality ------------------------------------------------------------------------------------ */

/* Whether anything but the hero's operand `operand` reads the parameter that it is. */
static bool is_read_besides(const Instruction *fusion, const Instruction *hero,
                            uint32_t operand)
{
    const Computation *comp = inst_called(fusion, 0);
    const Instruction *parameter = behind_bitcasts(hero->operands[operand]);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op == OP_BITCAST)
            continue;
        for (uint32_t k = 0; k < inst->operand_count; k++)
            if (behind_bitcasts(inst->operands[k]) == parameter &&
                (inst != hero || k != operand))
                return true;
    }
    return false;
}

static ScatterPlan *make_plan(const Instruction *inst, Arena *a);

const char *illegal_scatter(FusionFacts *f, KernelKind kind)
{
    const Instruction *fusion = f->fusion;
    (void)kind;
    const char *reason = hero_root_illegal(fusion, OP_SCATTER);
    if (reason != NULL)
        return reason;
    const Instruction *hero = fusion_hero(fusion, OP_SCATTER);
    uint32_t count = hero->operand_count / 2;
    for (uint32_t i = 0; i < count; i++) {
        bool is_parameter = behind_bitcasts(hero->operands[i])->op == OP_PARAMETER;
        if (!is_parameter && make_plan(hero, f->arena)->strategy != SCATTER_SHARED)
            return "an array scattered into is no operand of the fusion";
        if (is_parameter && is_read_besides(fusion, hero, i))
            return "what is scattered into is read elsewhere, after it changed";
    }
    return NULL;
}

bool suits_scatter(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

/* -- the plan ------------------------------------------------------------------------------------ */

int64_t scatter_window_size(const ScatterPlan *p, int64_t d, int64_t *update_dim)
{
    int64_t next = 0;
    *update_dim = -1;
    if (ints_find(p->inserted, d) >= 0 || ints_find(p->batching, d) >= 0)
        return 1;
    for (int64_t i = 0; i < d; i++)
        next += ints_find(p->inserted, i) < 0 && ints_find(p->batching, i) < 0;
    *update_dim = p->window_dims.data[next];
    return p->update->dims[*update_dim];
}

/* Dimensions of the update that give the same dimension of the result whatever the indices are, and the
 * others, which are walked; among the walked ones windows count fastest. */
static void divide_dims(ScatterPlan *p, Arena *a)
{
    uint32_t *free_dims = ARENA_ARRAY(a, uint32_t, (size_t)p->update->rank + 1);
    uint32_t *walked = ARENA_ARRAY(a, uint32_t, (size_t)p->update->rank + 1);
    bool is_free[KERNEL_MOST_RANK] = {false};
    for (uint32_t d = 0; d < p->operand->rank; d++) {
        int64_t update_dim;
        scatter_window_size(p, d, &update_dim);
        if (update_dim >= 0 && ints_find(p->start_map, d) < 0)
            is_free[update_dim] = true;
    }
    /* batching dimensions of the indices: the update has them among its scatter dimensions */
    int64_t next = 0;
    for (uint32_t i = 0; i < p->update->rank; i++) {
        if (ints_find(p->window_dims, i) >= 0)
            continue;
        if (next == p->vector_dim)
            next++;
        is_free[i] = ints_find(p->index_batching, next++) >= 0;
    }
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < p->update->rank; i++) {
            bool is_window = ints_find(p->window_dims, i) >= 0;
            if (is_window != (pass == 1))
                continue;
            if (is_free[i])
                free_dims[p->free_count++] = i;
            else
                walked[p->walked_count++] = i;
        }
    }
    p->free_dims = free_dims;
    p->walked = walked;
}

static int64_t product(const ScatterPlan *p, const uint32_t *dims, uint32_t count)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < count; i++)
        n *= p->update->dims[dims[i]];
    return n;
}

/* The atomic operation that combines elements of type t by `op`; OP_COUNT: there is none. Elements of pred are
 * bytes, 0 or 1. */
static OpCode atomic_of(OpCode op, DType t, bool any_order)
{
    bool is_byte = dtype_info[t].bits >= 8;
    bool is_integer = dtype_is_integer(t) && is_byte, is_pred = t == DT_PRED;
    bool is_number = is_integer || dtype_is_half(t) || t == DT_F32 || t == DT_F64;
    switch (op) {
    case OP_ADD:
        if (is_pred)
            return OP_OR;
        return is_integer || (any_order && is_number) ? OP_ADD : OP_COUNT;
    case OP_MAXIMUM:
        return is_pred ? OP_OR : is_number ? op : OP_COUNT;
    case OP_MINIMUM:
        return is_pred ? OP_AND : is_number ? op : OP_COUNT;
    case OP_AND:
    case OP_OR:
    case OP_XOR:
        return is_integer || is_pred ? op : OP_COUNT;
    default:
        return OP_COUNT;
    }
}

static const char any_order_key[] = "scatters_in_any_order";

static bool has_any_order(const Instruction *scatter)
{
    const Attr *a = inst_attr(scatter, ATTR_FRONTEND_ATTRIBUTES);
    for (uint32_t i = 0; a != NULL && i < a->dict->count; i++) {
        if (strcmp(a->dict->entries[i].key, any_order_key) == 0)
            return true;
    }
    return false;
}

void scatter_set_any_order(Instruction *scatter)
{
    Arena *a = scatter->parent->module->arena;
    DictEntry *entry = ARENA_NEW(a, DictEntry);
    *entry = (DictEntry){.key = any_order_key, .value = {"true", 4}};
    Dict *dict = ARENA_NEW(a, Dict);
    *dict = (Dict){1, entry};
    inst_set(scatter, (Attr){.id = ATTR_FRONTEND_ATTRIBUTES, .dict = dict});
}

/* No two index vectors can lead to one position. */
static bool is_one_window(const ScatterPlan *p)
{
    for (uint32_t i = 0; i < p->walked_count; i++) {
        if (ints_find(p->window_dims, p->walked[i]) < 0 &&
            p->update->dims[p->walked[i]] != 1)
            return false;
    }
    return true;
}

/* Windows too large for the operand never fit. */
static bool has_updates(const ScatterPlan *p)
{
    bool fits = shape_elements(p->update) != 0;
    for (uint32_t d = 0; d < p->operand->rank; d++) {
        int64_t update_dim;
        fits &= scatter_window_size(p, d, &update_dim) <= p->operand->dims[d];
    }
    return fits;
}

/* Sorted index vectors that are equal stand side by side. Batching dimensions are counted beside them. */
static bool has_runs(const ScatterPlan *p)
{
    return inst_bool(p->inst, ATTR_INDICES_ARE_SORTED) && p->index_batching.count == 0 &&
           scatter_has_small_windows(p->inst);
}

/* Sums and products, of which parts may be put together first; or what atomics do. */
static bool may_regroup(const ScatterPlan *p)
{
    OpCode op = computation_operation(inst_called(p->inst, 0));
    return p->count == 1 && !dtype_is_sub_byte(p->operand->dtype) &&
           p->inst->operands[2]->shape->dtype == p->operand->dtype &&
           (p->operation != OP_COUNT ||
            ((op == OP_ADD || op == OP_MULTIPLY) && p->operand->dtype != DT_PRED));
}

/* Each batch has many updates of few positions. */
static bool fits_shared(const ScatterPlan *p)
{
    unsigned bytes = shared_bytes(p->accumulator);
    return p->index_batching.count != 0 && p->free_count == p->index_batching.count &&
           p->steps >= SHARED_UPDATES && p->positions <= SHARED_POSITIONS_BYTES / bytes &&
           scatter_has_small_windows(p->inst) && may_regroup(p);
}

/* Sums and products of narrow floats, which would be rounded at each update if they were kept in the arrays. */
static bool rounds(const ScatterPlan *p)
{
    const Computation *comp = inst_called(p->inst, 0);
    bool is_wide = false;
    for (uint32_t i = 0; i < p->count && computation_is_simple(comp, p->count); i++)
        is_wide |= computation_sums_wide(comp, i);
    return is_wide;
}

/* Few enough that each looks at all others. */
static bool has_first(const ScatterPlan *p)
{
    return p->operation == OP_COUNT && p->steps <= FIRST_MOST_UPDATES && rounds(p) &&
           scatter_has_small_windows(p->inst);
}

static ScatterStrategy strategy_of(const ScatterPlan *p)
{
    if (!has_updates(p))
        return SCATTER_NOTHING;
    if (inst_bool(p->inst, ATTR_UNIQUE_INDICES) || is_one_window(p))
        return SCATTER_UNIQUE;
    if (has_runs(p))
        return SCATTER_RUNS;
    if (fits_shared(p))
        return SCATTER_SHARED;
    if (has_first(p))
        return SCATTER_FIRST;
    return p->operation != OP_COUNT ? SCATTER_ATOMIC : SCATTER_OWNERS;
}

static ScatterPlan scatter_described(const Instruction *inst)
{
    uint32_t count = inst->operand_count / 2;
    return (ScatterPlan){.inst = inst,
                         .count = count,
                         .indices = inst->operands[count],
                         .operand = inst->operands[0]->shape,
                         .update = inst->operands[count + 1]->shape,
                         .window_dims = inst_ints(inst, ATTR_UPDATE_WINDOW_DIMS),
                         .inserted = inst_ints(inst, ATTR_INSERTED_WINDOW_DIMS),
                         .start_map = inst_ints(inst, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS),
                         .batching = inst_ints(inst, ATTR_INPUT_BATCHING_DIMS),
                         .index_batching =
                             inst_ints(inst, ATTR_SCATTER_INDICES_BATCHING_DIMS),
                         .vector_dim = inst_int(inst, ATTR_INDEX_VECTOR_DIM, 0),
                         .operation = scatter_atomic_operation(inst)};
}

OpCode scatter_atomic_operation(const Instruction *scatter)
{
    if (scatter->operand_count != 3)
        return OP_COUNT;
    return atomic_of(computation_operation(inst_called(scatter, 0)),
                     scatter->operands[0]->shape->dtype, has_any_order(scatter));
}

bool scatter_has_small_windows(const Instruction *scatter)
{
    ScatterPlan p = scatter_described(scatter);
    for (uint32_t i = 0; i < p.start_map.count; i++) {
        int64_t update_dim;
        if (scatter_window_size(&p, p.start_map.data[i], &update_dim) != 1)
            return false;
    }
    return true;
}

static ScatterPlan *make_plan(const Instruction *inst, Arena *a)
{
    ScatterPlan *p = ARENA_NEW(a, ScatterPlan);
    *p = scatter_described(inst);
    divide_dims(p, a);
    p->free_positions = product(p, p->free_dims, p->free_count);
    p->steps = product(p, p->walked, p->walked_count);
    p->positions = p->most_lanes = 1;
    for (uint32_t i = 0; i < p->start_map.count; i++)
        p->positions *= p->operand->dims[p->start_map.data[i]];
    p->accumulator =
        p->count == 1
            ? computation_accumulator(inst_called(inst, 0), 0,
                                      computation_is_simple(inst_called(inst, 0), 1))
            : p->operand->dtype;
    p->strategy = strategy_of(p);
    return p;
}

bool scatter_reads_once(const Instruction *scatter)
{
    Arena *scratch = arena_scratch();
    const ScatterPlan *p = make_plan(scatter, scratch);
    int64_t vectors = 1;
    for (uint32_t d = 0; d < p->indices->shape->rank; d++)
        vectors *= d == p->vector_dim ? 1 : p->indices->shape->dims[d];
    bool once = p->strategy != SCATTER_OWNERS && p->strategy != SCATTER_FIRST &&
                vectors == shape_elements(p->update);
    arena_destroy(scratch);
    return once;
}

/* Windows whose fastest dimension is that of the arrays, too: its elements lie side by side in both. */
static bool has_minor_windows(const ScatterPlan *p)
{
    int64_t update_dim, minor = (int64_t)p->operand->rank - 1;
    if (p->free_count == 0 || !shape_is_row_major(p->operand) ||
        !shape_is_row_major(p->update) || p->update->rank == 0 || minor < 0)
        return false;
    scatter_window_size(p, minor, &update_dim);
    return update_dim == (int64_t)p->update->rank - 1 &&
           p->free_dims[p->free_count - 1] == update_dim;
}

/* Straight-line code makes the updates; that of index vectors is no matter, as lanes share it. */
static bool has_plain_updates(const ScatterPlan *p, const Computation *comp, Arena *a)
{
    uint32_t count;
    Instruction **order = computation_post_order(comp, a, &count);
    bool *is_used = ARENA_ARRAY(a, bool, (size_t)comp->instruction_count + 1);
    is_used[p->inst->operands[2]->id] = true;
    for (uint32_t i = count; i-- > 0;) {
        if (!is_used[order[i]->id])
            continue;
        if (!inst_is_plain(order[i]))
            return false;
        /* where a gather reads does not differ by lane either */
        uint32_t used = order[i]->op == OP_GATHER ? 1 : order[i]->operand_count;
        for (uint32_t k = 0; k < used; k++)
            is_used[order[i]->operands[k]->id] = true;
    }
    return true;
}

/* Accesses of several lanes: of one array, whose sums stay in registers. */
static int64_t most_run_lanes(const ScatterPlan *p, const Computation *comp, Arena *a)
{
    const Shape *arrays[2] = {p->operand, p->update};
    if (p->strategy != SCATTER_RUNS || p->count != 1 || !has_minor_windows(p) ||
        dtype_is_sub_byte(p->operand->dtype) || dtype_is_sub_byte(p->update->dtype) ||
        p->operand->dtype == DT_PRED || !has_plain_updates(p, comp, a))
        return 1;
    int64_t lanes = access_lanes(arrays, 2), size = p->update->dims[p->update->rank - 1];
    while (lanes > 1 && size % lanes != 0)
        lanes /= 2;
    return lanes;
}

void plan_scatter(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    ScatterPlan *p = make_plan(fusion_hero(d->fusion, OP_SCATTER), d->arena);
    p->most_lanes = most_run_lanes(p, inst_called(d->fusion, 0), d->arena);
    d->plan.scatter = p;
    if (p->count > KERNEL_MOST_VALUES)
        d->unsupported = refuse_text(d, "%s scatters %u arrays; kernels handle %d",
                                     p->inst->name, p->count, KERNEL_MOST_VALUES);
}

/* -- design --------------------------------------------------------------------------------------- */

/* Positions that the indices choose among, if windows have one element there, so that a position has one owner; else 1. */
static int64_t positions_to_own(const ScatterPlan *p)
{
    int64_t positions = 1;
    for (uint32_t d = 0; d < p->operand->rank; d++) {
        int64_t update_dim, size = scatter_window_size(p, d, &update_dim);
        if (ints_find(p->start_map, d) < 0)
            continue;
        if (size != 1)
            return 1;
        positions *= p->operand->dims[d];
    }
    return positions;
}

static int64_t choose_owners(const ScatterPlan *p)
{
    int64_t positions = positions_to_own(p), owners = 1;
    while (p->strategy == SCATTER_OWNERS && owners * 2 <= p->steps &&
           owners * 2 <= positions && owners * 2 * p->free_positions <= OWNER_THREADS)
        owners *= 2;
    return owners;
}

/* Where there are threads enough with them. */
static int64_t choose_lanes(const ScatterPlan *p)
{
    int64_t lanes = p->most_lanes < RUN_LANES ? p->most_lanes : RUN_LANES;
    while (lanes > 1 && p->free_positions / lanes * p->steps < RUN_WIDE_THREADS)
        lanes /= 2;
    return lanes;
}

static int64_t choose_items(const ScatterPlan *p, int64_t lanes)
{
    int64_t items = 1, most = p->free_positions < RUN_ITEMS ? RUN_FEW_ITEMS : RUN_ITEMS;
    int64_t parts = p->free_positions < lanes ? 1 : p->free_positions / lanes;
    while (p->strategy == SCATTER_RUNS && items < most &&
           p->steps / (2 * items) >= RUN_THREADS / parts)
        items *= 2;
    return items;
}

static int64_t threads_of(const ScatterPlan *p, const KernelConfig *c)
{
    switch (p->strategy) {
    case SCATTER_NOTHING:
        return 1;
    case SCATTER_UNIQUE:
    case SCATTER_ATOMIC:
        return shape_elements(p->update);
    case SCATTER_SHARED:
        return p->free_positions * c->block;
    case SCATTER_RUNS:
        return p->free_positions / c->lanes.data[0] *
               ((p->steps + c->items - 1) / c->items);
    case SCATTER_FIRST:
        return p->free_positions * p->steps;
    case SCATTER_OWNERS:
        break;
    }
    return p->free_positions * c->owners;
}

/* Updates of a thread under way at once: SCATTER_SHARED; SCATTER_RUNS, behind the thread's own. */
static int64_t choose_unroll(const ScatterPlan *p, const KernelConfig *c)
{
    if (p->strategy == SCATTER_RUNS)
        return c->items < RUN_AHEAD ? RUN_AHEAD : c->items;
    bool has_many =
        p->strategy == SCATTER_SHARED && p->steps >= 2 * SHARED_AHEAD * c->block;
    return has_many ? SHARED_AHEAD : 1;
}

/* SCATTER_SHARED: of a block. A warp where the order matters; more where blocks are too few to keep loads under way. */
static int64_t shared_threads(const KernelDesign *d)
{
    const ScatterPlan *p = d->plan.scatter;
    int64_t block = SHARED_THREADS;
    int64_t threads = (int64_t)target_multiprocessors(d->target) * SHARED_ALL_THREADS;
    if (p->operation == OP_COUNT)
        return TARGET_WARP;
    while (2 * block <= SHARED_MOST_THREADS && 2 * block * p->free_positions <= threads &&
           2 * block * SHARED_AHEAD <= p->steps)
        block *= 2;
    return block;
}

void configure_scatter(const KernelDesign *d, KernelConfig *c)
{
    if (config_lacks(c, KERNEL_KEY_OWNERS))
        c->owners = choose_owners(d->plan.scatter);
    if (config_lacks(c, KERNEL_KEY_LANES))
        config_set_lanes(d->arena, c, choose_lanes(d->plan.scatter));
    if (config_lacks(c, KERNEL_KEY_ITEMS))
        c->items = choose_items(d->plan.scatter, c->lanes.data[0]);
    if (d->plan.scatter->strategy == SCATTER_SHARED && config_lacks(c, KERNEL_KEY_BLOCK))
        c->block = shared_threads(d);
    configure_threads(c, threads_of(d->plan.scatter, c));
    if (config_lacks(c, KERNEL_KEY_UNROLL))
        c->unroll = choose_unroll(d->plan.scatter, c);
}

const char *refuse_scatter(const KernelDesign *d)
{
    const ScatterPlan *p = d->plan.scatter;
    int64_t owners = d->config.owners;
    const char *wrong = lanes_refused(d, 1);
    if (wrong != NULL)
        return wrong;
    if (d->config.lanes.data[0] > p->most_lanes)
        return refuse_text(
            d, "\"lanes\" %lld are more than the %lld that a thread can take at once",
            (long long)d->config.lanes.data[0], (long long)p->most_lanes);
    if (owners != 1 && p->strategy != SCATTER_OWNERS)
        return "\"owners\" must be 1: no position has several updates that wait for one "
               "another";
    if (d->config.items != 1 && p->strategy != SCATTER_RUNS)
        return "\"items\" must be 1: updates of one position do not stand side by side";
    if (d->config.unroll != 1 && p->strategy != SCATTER_SHARED &&
        p->strategy != SCATTER_RUNS)
        return "\"unroll\" must be 1: each update goes where it belongs by itself";
    if (p->strategy == SCATTER_SHARED && p->operation == OP_COUNT &&
        d->config.block != TARGET_WARP)
        return refuse_text(d, "\"block\" must be %d: sums are those of one warp",
                           TARGET_WARP);
    if (owners > positions_to_own(p))
        return refuse_text(d, "\"owners\" %lld are more than the %lld positions",
                           (long long)owners, (long long)positions_to_own(p));
    return block_refused(d);
}

void geometry_scatter(KernelDesign *d)
{
    const ScatterPlan *p = d->plan.scatter;
    if (p->strategy == SCATTER_SHARED) {
        unsigned bytes = shared_bytes(p->accumulator);
        geometry_blocks(d, p->free_positions, d->config.block, 1);
        geometry_shared(&d->geometry, (uint64_t)(p->positions * bytes), bytes);
        d->geometry.has_barriers = true;
        return;
    }
    geometry_threads(d, threads_of(p, &d->config));
}
