/* See reduction.h. */
#include "ir/kernel/reduction.h"

#include <string.h>

#include "ir/base/divide.h"
#include "ir/kernel/element.h"
#include "ir/kernel/rules.h"

#define MOST_RANK 64

static bool is_reduced(const Instruction *hero, int64_t d)
{
    return ints_contain(inst_ints(hero, ATTR_DIMENSIONS), d);
}

static int64_t columns_of(const Instruction *hero)
{
    int64_t columns = 1;
    const Shape *s = hero->operands[0]->shape;
    for (uint32_t i = 0; i < s->rank; i++)
        columns *= is_reduced(hero, i) ? s->dims[i] : 1;
    return columns;
}

/* The dimension of the operand along which neighbours in memory lie is reduced. */
static bool minor_is_reduced(const Instruction *hero)
{
    const Shape *s = hero->operands[0]->shape;
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t d = s->layout->minor_to_major[i];
        if (s->dims[d] != 1)
            return is_reduced(hero, d);
    }
    return true;
}

/* -- indices ------------------------------------------------------------------------------------ */

void reduction_operand_index(IndexContext *cx, const Instruction *hero,
                             const IndexExpr *row, const IndexExpr *column,
                             const IndexExpr **out)
{
    const Shape *s = hero->operands[0]->shape;
    const IndexExpr *kept[MOST_RANK];
    index_delinear(cx, shape_leaf(hero->shape, 0), row, kept);
    uint32_t next = 0;
    for (uint32_t i = 0; i < s->rank; i++)
        out[i] = is_reduced(hero, i) ? NULL : kept[next++];
    /* columns count through the reduced dimensions as they lie in memory */
    int64_t left = columns_of(hero), stride = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t d = s->layout->minor_to_major[i], size = s->dims[d];
        if (out[d] != NULL)
            continue;
        left = size != 0 ? left / size : 0;
        const IndexExpr *x = ix_floordiv(cx, column, stride);
        out[d] = left <= 1 ? x : ix_mod(cx, x, size);
        if (size == 1)
            out[d] = ix_const(cx, 0);
        stride *= size;
    }
}

int64_t reduction_sum_blocks(const ReductionPlan *plan)
{
    return ceil_div(plan->rows, plan->sum_rows);
}

/* No other result has as many elements: visit_results. */
static bool is_sum(const ReductionPlan *plan, const Shape *shape)
{
    return plan->sum_count != 0 &&
           shape_elements(shape) == reduction_sum_blocks(plan) * plan->columns;
}

bool reduction_is_full(const ReductionPlan *plan, const Shape *shape)
{
    return plan->columns != 1 && shape_elements(shape) != plan->rows &&
           !is_sum(plan, shape);
}

bool reduction_is_row(const ReductionPlan *plan, const Shape *shape)
{
    return !reduction_is_full(plan, shape) && !is_sum(plan, shape);
}

void reduction_result_index(IndexContext *cx, const ReductionPlan *plan,
                            const Shape *shape, const IndexExpr *row,
                            const IndexExpr *column, const IndexExpr **out)
{
    const IndexExpr *linear = row;
    if (reduction_is_full(plan, shape)) {
        const IndexExpr *at[MOST_RANK];
        const Instruction *hero = plan->heroes[0];
        reduction_operand_index(cx, hero, row, column, at);
        linear = index_linear(cx, hero->operands[0]->shape, at);
    }
    index_delinear(cx, shape, linear, out);
}

/* -- the plan ------------------------------------------------------------------------------------ */

typedef struct Visit {
    const Instruction *inst;
    const IndexExpr *const *index;
} Visit;

typedef struct Analysis {
    Arena *arena;
    IndexContext *cx;
    const Computation *comp;
    ReductionPlan *plan;
    bool *is_hero;
    uint32_t *depth; /* stages that an instruction needs; 0: depends on no hero */
    const IndexExpr *row, *column;
    Visit *visits;
    size_t visit_count, visit_capacity, visit_most;
    const char *why;
} Analysis;

static bool seen(Analysis *a, const Instruction *inst, const IndexExpr *const *index)
{
    for (size_t i = 0; i < a->visit_count; i++) {
        if (a->visits[i].inst == inst &&
            memcmp(a->visits[i].index, index, inst->shape->rank * sizeof *index) == 0)
            return true;
    }
    if (a->visit_count == a->visit_most) {
        a->why = "an element is needed at too many indices";
        return true;
    }
    a->visits = arena_grow(a->arena, a->visits, &a->visit_capacity, a->visit_count + 1,
                           sizeof *a->visits);
    a->visits[a->visit_count++] =
        (Visit){inst, arena_copy(a->arena, index, inst->shape->rank * sizeof *index)};
    return false;
}

static void visit(Analysis *a, const Instruction *inst, const IndexExpr *const *index);

static void visit_operands(Analysis *a, const Instruction *inst,
                           const IndexExpr *const *index)
{
    IndexMap *maps = index_maps(a->cx, inst, 0);
    for (uint32_t i = 0; i < inst->operand_count && a->why == NULL; i++) {
        if (a->depth[inst->operands[i]->id] == 0)
            continue;
        if (maps == NULL || maps[i].results == NULL || maps[i].symbol_count != 0) {
            a->why = "a value is combined again";
            return;
        }
        const IndexMap *m = &maps[i];
        const IndexExpr *at[MOST_RANK];
        for (uint32_t d = 0; d < m->result_count; d++)
            at[d] = ix_substitute(a->cx, m->results[d], IX_DIM, m->dim_count, index);
        visit(a, inst->operands[i], at);
    }
}

/* Every hero behind inst is reached at its own row. */
static void visit(Analysis *a, const Instruction *inst, const IndexExpr *const *index)
{
    if (a->why != NULL || a->depth[inst->id] == 0)
        return;
    if (inst->op == OP_GET_TUPLE_ELEMENT)
        inst = inst->operands[0];
    if (a->is_hero[inst->id]) {
        if (index_linear(a->cx, shape_leaf(inst->shape, 0), index) != a->row)
            a->why = "a reduced value is needed in another row";
        return;
    }
    if (!shape_is_array(inst->shape))
        a->why = "a value is combined again";
    else if (!seen(a, inst, index))
        visit_operands(a, inst, index);
}

static int64_t work_of(const Instruction *reduce)
{
    return shape_elements(reduce->operands[0]->shape);
}

static bool is_candidate(const Instruction *inst)
{
    return inst != NULL && inst->op == OP_REDUCE && inst->operand_count / 2 <= 8;
}

/* Windows of `rows` along a dimension, one behind the other from the first element on. */
static bool is_side_by_side(const WindowDim *w, int64_t elements, int64_t rows)
{
    return w->size == rows && w->stride == rows && w->pad_low == 0 &&
           w->base_dilation == 1 && w->window_dilation == 1 && !w->reversal &&
           w->pad_high == (rows - elements % rows) % rows;
}

bool reduction_is_column_sum(const Instruction *inst)
{
    if (inst->op != OP_REDUCE_WINDOW || inst->operand_count != 2)
        return false;
    const Shape *s = inst->operands[0]->shape;
    const Window *w = inst_window(inst);
    const Instruction *root = inst_called(inst, 0)->root;
    return s->rank == 2 && w->rank == 2 && shape_is_row_major(s) &&
           shape_is_row_major(inst->shape) && root->op == OP_ADD &&
           computation_is_simple(inst_called(inst, 0), 1) &&
           inst_is_constant_scalar(inst->operands[1], 0) && w->dims[0].size > 1 &&
           is_side_by_side(&w->dims[0], s->dims[0], w->dims[0].size) &&
           is_side_by_side(&w->dims[1], s->dims[1], 1);
}

static const Instruction *find_main(const Computation *comp)
{
    const Instruction *best = NULL;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (is_candidate(inst) && (best == NULL || work_of(inst) > work_of(best)))
            best = inst;
    }
    return best;
}

static void find_heroes(Analysis *a, const Instruction *main)
{
    uint32_t count;
    ReductionPlan *p = a->plan;
    Instruction **order = computation_post_order(a->comp, a->arena, &count);
    p->rows = shape_elements(shape_leaf(main->shape, 0));
    p->columns = columns_of(main);
    p->minor_reduced = minor_is_reduced(main);
    p->heroes = ARENA_ARRAY(a->arena, const Instruction *, count);
    p->stage = ARENA_ARRAY(a->arena, uint32_t, count);
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *inst = order[i];
        uint32_t depth = 0, stage;
        for (uint32_t o = 0; o < inst->operand_count; o++) {
            uint32_t d = a->depth[inst->operands[o]->id];
            depth = d > depth ? d : depth;
        }
        stage = depth;
        if (is_candidate(inst) && columns_of(inst) == p->columns &&
            shape_elements(shape_leaf(inst->shape, 0)) == p->rows &&
            minor_is_reduced(inst) == p->minor_reduced) {
            a->is_hero[inst->id] = true;
            depth++;
            uint32_t at = p->hero_count++;
            for (; at > 0 && p->stage[at - 1] > stage; at--) {
                p->stage[at] = p->stage[at - 1];
                p->heroes[at] = p->heroes[at - 1];
            }
            p->stage[at] = stage;
            p->heroes[at] = inst;
        }
        a->depth[inst->id] = depth;
    }
}

static void visit_heroes(Analysis *a)
{
    const IndexExpr *at[MOST_RANK];
    for (uint32_t h = 0; h < a->plan->hero_count; h++) {
        const Instruction *hero = a->plan->heroes[h];
        uint32_t half = hero->operand_count / 2;
        reduction_operand_index(a->cx, hero, a->row, a->column, at);
        for (uint32_t i = 0; i < half && a->why == NULL; i++) {
            if (!shape_layouts_equal(hero->operands[i]->shape, hero->operands[0]->shape))
                a->why = "arrays reduced together differ in layout";
            if (a->depth[hero->operands[half + i]->id] != 0)
                a->why = "an initial value is a reduced value";
            visit(a, hero->operands[i], at);
        }
        for (uint32_t i = 1; i < half; i++) {
            if (!shape_layouts_equal(shape_leaf(hero->shape, i),
                                     shape_leaf(hero->shape, 0)))
                a->why = "results reduced together differ in layout";
        }
    }
}

static void find_sums(Analysis *a, const Instruction *fusion)
{
    ReductionPlan *p = a->plan;
    uint32_t count = fusion_result_count(fusion);
    p->sums = ARENA_ARRAY(a->arena, const Instruction *, count);
    p->sum_results = ARENA_ARRAY(a->arena, uint32_t, count);
    for (uint32_t i = 0; i < count && p->minor_reduced && p->columns > 1; i++) {
        const Instruction *inst = fusion_result(fusion, i).inst;
        if (!reduction_is_column_sum(inst) ||
            inst->operands[0]->shape->dims[0] != p->rows ||
            inst->operands[0]->shape->dims[1] != p->columns)
            continue;
        int64_t rows = inst_window(inst)->dims[0].size;
        if (p->sum_count != 0 && rows != p->sum_rows)
            a->why = "sums of columns are of different rows";
        p->sum_rows = rows;
        p->sum_results[p->sum_count] = i;
        p->sums[p->sum_count++] = inst;
    }
    if (p->sum_count != 0 && reduction_sum_blocks(p) * p->columns == p->rows)
        a->why = "sums of columns have as many elements as there are rows";
}

static void visit_sums(Analysis *a)
{
    const IndexExpr *at[2] = {a->row, a->column};
    for (uint32_t i = 0; i < a->plan->sum_count && a->why == NULL; i++)
        visit(a, a->plan->sums[i]->operands[0], at);
}

static void visit_results(Analysis *a, const Instruction *fusion)
{
    ReductionPlan *p = a->plan;
    uint32_t count = fusion_result_count(fusion), sums = 0;
    const IndexExpr *at[MOST_RANK];
    p->is_early = ARENA_ARRAY(a->arena, bool, count);
    for (uint32_t i = 0; i < count && a->why == NULL; i++) {
        FusionResult r = fusion_result(fusion, i);
        if (sums < p->sum_count && p->sum_results[sums] == i) {
            sums++;
            continue;
        }
        bool is_full = reduction_is_full(p, r.shape);
        if (is_sum(p, r.shape) ||
            shape_elements(r.shape) != (is_full ? p->rows * p->columns : p->rows)) {
            a->why =
                "a result has neither an element for each row nor one for each column";
            return;
        }
        p->has_full |= is_full;
        p->is_early[i] = is_full && a->depth[r.inst->id] == 0;
        p->has_late |= is_full && !p->is_early[i];
        reduction_result_index(a->cx, p, r.shape, a->row, a->column, at);
        visit(a, r.inst, at);
    }
}

const ReductionPlan *reduction_plan(const Instruction *fusion, Arena *arena,
                                    const char **why)
{
    const Computation *comp = inst_called(fusion, 0);
    const Instruction *main = find_main(comp);
    *why = "it has no reduction";
    if (main == NULL)
        return NULL;
    uint32_t n = comp->instruction_count;
    Analysis a = {.arena = arena, .comp = comp, .visit_most = 8 * (size_t)n + 64};
    for (uint32_t i = 0; i < n; i++) {
        const Instruction *inst = comp->instructions[i];
        if (inst != NULL && shape_is_array(inst->shape) &&
            inst->shape->rank > MOST_RANK) {
            *why = "a value has too many dimensions";
            return NULL;
        }
    }
    a.cx = index_context_create(arena);
    a.plan = ARENA_NEW(arena, ReductionPlan);
    a.is_hero = ARENA_ARRAY(arena, bool, n);
    a.depth = ARENA_ARRAY(arena, uint32_t, n);
    find_heroes(&a, main);
    *why = "it reduces nothing";
    if (a.plan->rows == 0 || a.plan->columns == 0) /* only initial values */
        return NULL;
    a.row = ix_dim(a.cx, 0, (Range){0, a.plan->rows - 1});
    a.column =
        ix_dim(a.cx, 1, (Range){0, a.plan->columns == 0 ? 0 : a.plan->columns - 1});
    find_sums(&a, fusion);
    visit_heroes(&a);
    visit_sums(&a);
    visit_results(&a, fusion);
    *why = a.why;
    return a.why == NULL ? a.plan : NULL;
}

/* -- for families ------------------------------------------------------------------------------- */

const char *facts_reduction_illegal(FusionFacts *f)
{
    if (!f->reduction_known)
        f->reduction = reduction_plan(f->fusion, f->arena, &f->reduction_wrong);
    f->reduction_known = true;
    return f->reduction_wrong;
}

uint32_t reduction_stage(const ReductionPlan *p, uint32_t first, int64_t carried,
                         uint32_t *values)
{
    uint32_t n = 0;
    *values = 0;
    while (first + n < p->hero_count && p->stage[first + n] == p->stage[first]) {
        uint32_t more = p->heroes[first + n]->operand_count / 2;
        if (n > 0 && *values + more > carried)
            break;
        *values += more;
        n++;
    }
    return n;
}

uint64_t reduction_partial_offset(const ReductionPlan *p, int64_t blocks, uint32_t value)
{
    enum { ALIGN = 16 };
    uint64_t bytes = 0;
    for (uint32_t h = 0; h < p->hero_count; h++) {
        const Computation *comp = inst_called(p->heroes[h], 0);
        uint32_t count = p->heroes[h]->operand_count / 2;
        bool is_simple = computation_is_simple(comp, count);
        for (uint32_t i = 0; i < count && value > 0; i++, value--) {
            unsigned one = shared_bytes(computation_accumulator(comp, i, is_simple));
            bytes += (uint64_t)(p->rows * blocks) * one;
            bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
        }
    }
    return bytes;
}

static uint64_t partial_bytes(const ReductionPlan *p, int64_t blocks)
{
    return reduction_partial_offset(p, blocks, UINT32_MAX);
}

const char *column_blocks_refused(const KernelDesign *d, int64_t least)
{
    const ReductionPlan *p = d->plan.reduction;
    const KernelConfig *c = &d->config;
    uint32_t values;
    if (least * c->column_blocks > p->columns)
        return refuse_text(
            d,
            "\"column_blocks\" %lld of %lld columns at least have more than "
            "the %lld columns",
            (long long)c->column_blocks, (long long)least, (long long)p->columns);
    if (p->has_late || reduction_stage(p, 0, c->carried, &values) != p->hero_count)
        return refuse_text(d,
                           "\"column_blocks\" %lld, and the columns are walked over "
                           "more than once",
                           (long long)c->column_blocks);
    for (uint32_t h = 0; h < p->hero_count; h++) {
        if (!computation_is_simple(inst_called(p->heroes[h], 0),
                                   p->heroes[h]->operand_count / 2))
            return refuse_text(d,
                               "\"column_blocks\" %lld, and %s may ask for its "
                               "elements in order",
                               (long long)c->column_blocks, p->heroes[h]->name);
    }
    if (partial_bytes(p, c->column_blocks) > INT32_MAX)
        return refuse_text(d, "\"column_blocks\" %lld leave more than 2 GiB",
                           (long long)c->column_blocks);
    return NULL;
}

void geometry_column_blocks(KernelDesign *d, int64_t groups)
{
    KernelGeometry *g = &d->geometry;
    geometry_shared(g, 4, 4); /* the ticket */
    g->has_barriers = true;
    g->partial_bytes = partial_bytes(d->plan.reduction, d->config.column_blocks);
    g->ticket_bytes = (uint64_t)groups * REDUCTION_TICKET_BYTES;
}

uint32_t reduction_splits_together(uint32_t splits, uint32_t values)
{
    enum { HELD = 8 }; /* values */
    uint32_t n = 1;
    while (splits % (2 * n) == 0 && 2 * n * values <= HELD)
        n *= 2;
    return n;
}

/* -- accesses of several columns -------------------------------------------------------------------- */

/* The last of them that may be one is left out where rows begin at their latest. */
int64_t reduction_accesses(const ReductionPlan *p, int64_t lanes)
{
    int64_t left = p->columns % lanes;
    return p->columns / lanes - (left != 0 && left != lanes - 1);
}

int64_t reduction_ends(const ReductionPlan *p, int64_t lanes)
{
    return p->columns - reduction_accesses(p, lanes) * lanes;
}

/* Columns before a row's first access: row * columns and they are a multiple of `lanes`. */
static const IndexExpr *columns_before(IndexContext *cx, const ReductionPlan *p,
                                       int64_t lanes, const IndexExpr *row)
{
    int64_t more = (lanes - p->columns % lanes) % lanes;
    return ix_mod(cx, ix_mul(cx, row, more), lanes);
}

const IndexExpr *reduction_access_column(IndexContext *cx, const ReductionPlan *p,
                                         int64_t lanes, const IndexExpr *row,
                                         const IndexExpr *access)
{
    return ix_add(cx, columns_before(cx, p, lanes, row), ix_mul(cx, access, lanes));
}

/* Those that do not stand before the accesses stand behind them. */
const IndexExpr *reduction_end_column(IndexContext *cx, const ReductionPlan *p,
                                      int64_t lanes, const IndexExpr *row,
                                      const IndexExpr *end)
{
    const IndexExpr *before = columns_before(cx, p, lanes, row);
    const IndexExpr *beyond = ix_add(cx, end, ix_mul(cx, before, -1));
    const IndexExpr *is_behind = ix_floordiv(
        cx, ix_add(cx, beyond, ix_const(cx, 2 * lanes)), 2 * lanes); /* 0 or 1 */
    int64_t between = reduction_accesses(p, lanes) * lanes;
    return ix_add(cx, end, ix_mul(cx, is_behind, between));
}

bool reduction_may_have_ends(const ReductionPlan *p)
{
    for (uint32_t h = 0; h < p->hero_count; h++) {
        const Instruction *hero = p->heroes[h];
        if (!computation_is_simple(inst_called(hero, 0), hero->operand_count / 2))
            return false;
    }
    return p->sum_count == 0;
}
