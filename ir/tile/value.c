/* See value.h. */
#include "ir/tile/value.h"

#include <string.h>

#include "ir/kernel/kind.h"

typedef struct TileMemo {
    struct TileMemo *next;
    const IndexExpr *const *index;
    const TileGuard *guard;
    TileOp *value;
} TileMemo;

void tile_builder_init(TileBuilder *b, TileProgram *p)
{
    const Computation *comp = inst_called(p->fusion, 0);
    *b = (TileBuilder){.p = p, .comp = comp};
    b->memo = ARENA_ARRAY(p->arena, TileMemo *, comp->instruction_count);
    b->forced = ARENA_ARRAY(p->arena, const IndexExpr *const *, comp->instruction_count);
}

/* -- expressions ------------------------------------------------------------------------------- */

/* A start that a map reads at run time, clamped into its range. */
static const IndexExpr *runtime_value(TileBuilder *b, const IndexRuntime *r,
                                      const IndexExpr *const *at, const TileGuard *guard)
{
    TileOp *v = tile_value(b, r->source, at, guard);
    if (v == NULL)
        return NULL;
    DType t = v->dtype;
    uint32_t bits = dtype_info[t].bits - dtype_is_signed(t);
    if (dtype_is_signed(t))
        v = tile_apply(b, OP_MAXIMUM, t, 2, (TileOp *[]){v, tile_number(b, t, 0)});
    /* a bound that the type does not have cannot be exceeded */
    if (bits >= 63 || r->range.hi < (INT64_C(1) << bits) - 1)
        v = tile_apply(b, OP_MINIMUM, t, 2,
                       (TileOp *[]){v, tile_number(b, t, (double)r->range.hi)});
    v = tile_convert(b, v, r->range.hi <= INT32_MAX ? DT_S32 : DT_S64);
    return ix_runtime(b->p->ix, v->id, r->range);
}

/* The map applied to an index; false: a number that it reads is none. */
static bool apply_map(TileBuilder *b, const IndexMap *map, const IndexExpr *const *index,
                      const TileGuard *guard, const IndexExpr **results,
                      IndexConstraint *constraints)
{
    IndexContext *ix = b->p->ix;
    const IndexExpr *runtimes[KERNEL_MOST_RANK];
    for (uint32_t i = 0; i < map->runtime_count; i++) {
        const IndexRuntime *r = &map->runtimes[i];
        uint32_t rank = r->source->shape->rank;
        const IndexExpr **at =
            ARENA_ARRAY(b->p->arena, const IndexExpr *, (size_t)rank + 1);
        for (uint32_t d = 0; d < rank; d++)
            at[d] = ix_substitute(ix, r->index[d], IX_DIM, map->dim_count, index);
        runtimes[i] = runtime_value(b, r, at, guard);
        if (runtimes[i] == NULL)
            return false;
    }
    for (uint32_t i = 0; i < map->result_count + map->constraint_count; i++) {
        const IndexExpr *x = i < map->result_count
                                 ? map->results[i]
                                 : map->constraints[i - map->result_count].expr;
        x = ix_substitute(ix, x, IX_RUNTIME, map->runtime_count, runtimes);
        x = ix_substitute(ix, x, IX_DIM, map->dim_count, index);
        if (i < map->result_count)
            results[i] = x;
        else
            constraints[i - map->result_count] =
                (IndexConstraint){x, map->constraints[i - map->result_count].range};
    }
    return true;
}

void tile_spread(const TileProgram *p, const int64_t *sizes, const uint32_t *dims,
                 uint32_t count, int64_t fastest, const IndexExpr *number,
                 const IndexExpr **index)
{
    if (fastest >= 0) {
        index[fastest] = ix_mod(p->ix, number, sizes[fastest]);
        number = ix_floordiv(p->ix, number, sizes[fastest]);
    }
    for (uint32_t i = count; i-- > 0;) {
        if (dims[i] == fastest)
            continue;
        index[dims[i]] = ix_mod(p->ix, number, sizes[dims[i]]);
        number = ix_floordiv(p->ix, number, sizes[dims[i]]);
    }
}

/* -- instructions ------------------------------------------------------------------------------ */

static bool is_inside(const IndexExpr *e, int64_t size,
                      const IndexConstraint *constraints, uint32_t count)
{
    bool inside = e->range.lo >= 0 && e->range.hi < size;
    for (uint32_t i = 0; i < count && !inside; i++)
        inside = constraints[i].expr == e && constraints[i].range.lo >= 0 &&
                 constraints[i].range.hi < size;
    return inside;
}

/* Guards keep a load inside its array; what is read where they do not hold is not chosen. One of further dimensions than
 * the load's own would make it read the same for each of their elements: it is dropped where the others suffice. */
static uint32_t needed_constraints(TileBuilder *b, const Instruction *inst,
                                   const IndexExpr *const *index, IndexConstraint *all,
                                   uint32_t count)
{
    IndexConstraint *kept = ARENA_ARRAY(b->p->arena, IndexConstraint, (size_t)count + 1);
    uint32_t dims = 0, kept_count = 0;
    bool inside = true;
    for (uint32_t i = 0; i < inst->shape->rank; i++)
        dims |= tile_dims_of(b, index[i]);
    for (uint32_t i = 0; i < count; i++) {
        if ((tile_dims_of(b, all[i].expr) & ~dims) == 0)
            kept[kept_count++] = all[i];
    }
    for (uint32_t i = 0; i < inst->shape->rank; i++)
        inside &= is_inside(index[i], inst->shape->dims[i], kept, kept_count);
    if (!inside)
        return count;
    memcpy(all, kept, kept_count * sizeof *all);
    return kept_count;
}

static TileOp *value_load(TileBuilder *b, const Instruction *inst,
                          const IndexExpr *const *index, const TileGuard *guard)
{
    uint32_t count = 0;
    for (const TileGuard *g = guard; g != NULL; g = g->outer)
        count += g->count;
    IndexConstraint *all = ARENA_ARRAY(b->p->arena, IndexConstraint, count);
    uint32_t first = count;
    for (const TileGuard *g = guard; g != NULL; g = g->outer) {
        first -= g->count;
        memcpy(all + first, g->constraints, g->count * sizeof *all);
    }
    count = needed_constraints(b, inst, index, all, count);
    TileAccess access = {inst->shape, inst->shape->rank, index, count, all};
    TileOp *op = tile_make_at(b, TILE_LOAD, inst->shape->dtype, NULL, &access);
    if (op != NULL) {
        op->array = (uint32_t)inst->parameter;
        op->inst = inst;
    }
    return op;
}

static TileOp *value_iota(TileBuilder *b, const Instruction *inst,
                          const IndexExpr *const *index)
{
    const IndexExpr *along = index[inst_int(inst, ATTR_IOTA_DIMENSION, 0)];
    TileAccess access = {.index_count = 1, .index = &along};
    DType t = along->range.hi <= INT32_MAX ? DT_S32 : DT_S64;
    TileOp *op = tile_make_at(b, TILE_INDEX, t, NULL, &access);
    return op == NULL ? NULL : tile_convert(b, op, inst->shape->dtype);
}

static bool is_same(uint32_t rank, const IndexExpr *const *x, const IndexExpr *const *y)
{
    for (uint32_t i = 0; i < rank; i++) {
        if (x[i] != y[i])
            return false;
    }
    return true;
}

/* Operand `from` at index `at`, which is this index of the instruction. */
static TileOp *value_at(TileBuilder *b, const Instruction *inst, const Instruction *from,
                        const IndexExpr *const *index, const IndexExpr *const *at,
                        const TileGuard *guard)
{
    const IndexExpr *const *forced = b->forced[from->id];
    if (forced == NULL)
        return tile_value(b, from, at, guard);
    /* on the way to what is given, its index is known: expressions need not show it */
    bool is_moved = inst->operand_count == 1 && b->forced[inst->id] != NULL &&
                    is_same(inst->shape->rank, index, b->forced[inst->id]);
    return tile_value(
        b, from, is_moved || is_same(from->shape->rank, at, forced) ? forced : at, guard);
}

/* Operand `operand` at the index that its map gives. */
static TileOp *operand_value(TileBuilder *b, const Instruction *inst, uint32_t operand,
                             const IndexMap *map, const IndexExpr *const *index,
                             const TileGuard *guard)
{
    const Instruction *from = inst->operands[operand];
    const IndexExpr **at =
        ARENA_ARRAY(b->p->arena, const IndexExpr *, (size_t)map->result_count + 1);
    if (map->results == NULL)
        return tile_refuse(b, "an operand is not read by an index map");
    if (!apply_map(b, map, index, guard, at, NULL))
        return NULL;
    if (map->result_count != from->shape->rank)
        return tile_value(b, from, at, guard);
    return value_at(b, inst, from, index, at, guard);
}

/* The index as elementwise operations hand it on: along dimensions of size 1 there is only one number. */
static const IndexExpr *const *without_ones(TileBuilder *b, const Shape *s,
                                            const IndexExpr *const *index)
{
    const IndexExpr **at = NULL, *zero = ix_const(b->p->ix, 0);
    for (uint32_t i = 0; i < s->rank; i++) {
        if (s->dims[i] != 1 || index[i] == zero)
            continue;
        if (at == NULL)
            at = arena_copy(b->p->arena, index, s->rank * sizeof *at);
        at[i] = zero;
    }
    return at != NULL ? at : index;
}

/* Of an elementwise operation: at the same index, a scalar at none. */
static TileOp *value_apply(TileBuilder *b, const Instruction *inst,
                           const IndexExpr *const *index, const TileGuard *guard)
{
    TileOp *operands[8];
    if (inst->operand_count > sizeof operands / sizeof *operands)
        return tile_refuse(b, "an operation has too many operands");
    const IndexExpr *const *at = without_ones(b, inst->shape, index);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        operands[i] = value_at(b, inst, inst->operands[i], index, at, guard);
        if (operands[i] == NULL)
            return NULL;
    }
    if (b->has_powers && inst->op == OP_EXPONENTIAL && inst->shape->dtype == DT_F32)
        return tile_exponential(b, operands[0]);
    return tile_apply_to(b, inst, inst->operand_count, operands);
}

typedef enum { ALWAYS, NEVER, SOMETIMES } Holds;

/* Keeps the constraints that ranges do not prove. */
static Holds simplify(IndexConstraint *constraints, uint32_t *count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count; i++) {
        const IndexExpr *e = constraints[i].expr;
        Range r = constraints[i].range;
        if (e->range.hi < r.lo || e->range.lo > r.hi)
            return NEVER;
        if (e->range.lo < r.lo || e->range.hi > r.hi)
            constraints[kept++] = constraints[i];
    }
    *count = kept;
    return kept == 0 ? ALWAYS : SOMETIMES;
}

/* Operand `operand` where its constraints hold, else `otherwise`; NULL: it is known that they do. */
static TileOp *value_choice(TileBuilder *b, const Instruction *inst, uint32_t operand,
                            const IndexMap *map, const IndexExpr *const *index,
                            const TileGuard *guard, TileOp *otherwise)
{
    Arena *a = b->p->arena;
    const IndexExpr **at =
        ARENA_ARRAY(a, const IndexExpr *, (size_t)map->result_count + 1);
    IndexConstraint *constraints =
        ARENA_ARRAY(a, IndexConstraint, (size_t)map->constraint_count + 1);
    if (!apply_map(b, map, index, guard, at, constraints))
        return NULL;
    uint32_t count = map->constraint_count;
    Holds holds = simplify(constraints, &count);
    if (holds == NEVER && otherwise != NULL)
        return otherwise;
    if (holds != SOMETIMES)
        return tile_value(b, inst->operands[operand], at, guard);
    TileGuard *inner = ARENA_NEW(a, TileGuard);
    *inner = (TileGuard){guard, count, constraints};
    TileAccess access = {.constraint_count = count, .constraints = constraints};
    TileOp *inside = tile_value(b, inst->operands[operand], at, inner);
    if (otherwise == NULL || inside == NULL)
        return inside;
    TileOp *whether = tile_make_at(b, TILE_IN_RANGE, DT_PRED, NULL, &access);
    if (whether == NULL)
        return NULL;
    return tile_apply(b, OP_SELECT, inside->dtype, 3,
                      (TileOp *[]){whether, inside, otherwise});
}

/* pad, concatenate, dynamic-update-slice: one of the operands, by the constraints of their maps. */
static TileOp *value_select(TileBuilder *b, const Instruction *inst,
                            const IndexExpr *const *index, const TileGuard *guard)
{
    const IndexMap *maps = index_maps(b->p->ix, inst, 0);
    TileOp *value = NULL;
    switch (inst->op) {
    case OP_PAD:
        value = operand_value(b, inst, 1, &maps[1], index, guard);
        return value == NULL ? NULL
                             : value_choice(b, inst, 0, &maps[0], index, guard, value);
    case OP_DYNAMIC_UPDATE_SLICE:
        value = operand_value(b, inst, 0, &maps[0], index, guard);
        return value == NULL ? NULL
                             : value_choice(b, inst, 1, &maps[1], index, guard, value);
    default: /* concatenate: where no other one is, the last one is */
        for (uint32_t i = inst->operand_count; i-- > 0;) {
            if (shape_elements(inst->operands[i]->shape) == 0)
                continue;
            value = value_choice(b, inst, i, &maps[i], index, guard, value);
            if (value == NULL)
                return NULL;
        }
        return value;
    }
}

static bool is_apply(const Instruction *inst)
{
    if (inst->op == OP_BITCAST_CONVERT)
        return dtype_info[inst->shape->dtype].bits ==
               dtype_info[inst->operands[0]->shape->dtype].bits;
    return op_is(inst->op, OPF_ELEMENTWISE);
}

static TileOp *value_constant(TileBuilder *b, const Instruction *inst)
{
    const Literal *l = inst->literal;
    if (l->elided || l->count < 1)
        return tile_refuse(b, "a constant is not known");
    size_t bytes = dtype_info[l->shape->dtype].storage;
    for (int64_t i = 1; i < l->count; i++) {
        if (memcmp((const char *)l->data + (size_t)i * bytes, l->data, bytes) != 0)
            return tile_refuse(b, "a constant has several numbers");
    }
    Literal *one =
        literal_create(b->p->arena, tile_scalar_shape(b->p->arena, l->shape->dtype));
    memcpy(one->data, l->data, bytes);
    return tile_constant(b, one);
}

static TileOp *value_of(TileBuilder *b, const Instruction *inst,
                        const IndexExpr *const *index, const TileGuard *guard)
{
    if (!shape_is_array(inst->shape) || dtype_is_complex(inst->shape->dtype))
        return tile_refuse(b, "a value inside is no array of real numbers");
    for (uint32_t i = 0; i < b->given_count; i++) {
        if (inst == b->given[i].inst)
            return is_same(inst->shape->rank, index, b->given[i].index)
                       ? b->given[i].value
                       : tile_refuse(b, "the products are needed at several indices");
    }
    if (inst->op == OP_DOT && b->dot != NULL)
        return guard == NULL ? b->dot(b, inst, index)
                             : tile_refuse(b, "products are padded");
    if (is_apply(inst))
        return value_apply(b, inst, index, guard);
    switch (inst->op) {
    case OP_PARAMETER:
        return value_load(b, inst, index, guard);
    case OP_CONSTANT:
        return value_constant(b, inst);
    case OP_IOTA:
        return value_iota(b, inst, index);
    case OP_PAD:
    case OP_CONCATENATE:
    case OP_DYNAMIC_UPDATE_SLICE:
        return value_select(b, inst, index, guard);
    case OP_BITCAST:
    case OP_BROADCAST:
    case OP_COPY:
    case OP_DYNAMIC_SLICE:
    case OP_GATHER:
    case OP_RESHAPE:
    case OP_REVERSE:
    case OP_SLICE:
    case OP_TRANSPOSE:
        return operand_value(b, inst, 0, &index_maps(b->p->ix, inst, 0)[0], index, guard);
    default:
        return tile_refuse(b, "an operation inside has no tiles");
    }
}

TileOp *tile_value(TileBuilder *b, const Instruction *inst, const IndexExpr *const *index,
                   const TileGuard *guard)
{
    if (b->why != NULL)
        return NULL;
    uint32_t rank = shape_is_array(inst->shape) ? inst->shape->rank : 0;
    for (TileMemo *m = b->memo[inst->id]; m != NULL; m = m->next) {
        if (m->guard == guard && is_same(rank, m->index, index) &&
            (m->value->depth == 0 || b->loop != NULL))
            return m->value;
    }
    TileOp *value = value_of(b, inst, index, guard);
    if (value == NULL)
        return NULL;
    TileMemo *m = ARENA_NEW(b->p->arena, TileMemo);
    *m = (TileMemo){b->memo[inst->id], index, guard, value};
    b->memo[inst->id] = m;
    return value;
}

const IndexExpr *const *tile_index_of(const TileBuilder *b, const Instruction *inst)
{
    const TileMemo *m = b->memo[inst->id];
    while (m != NULL && m->next != NULL)
        m = m->next;
    return m != NULL ? m->index : NULL;
}

/* A load that is zero where one of the constraints does not hold. */
static bool is_zero_outside(const TileOp *op, const IndexConstraint *constraints,
                            uint32_t count)
{
    bool is_zero = op->kind == TILE_LOAD;
    for (uint32_t i = 0; i < count && is_zero; i++) {
        const IndexConstraint *c = &constraints[i];
        uint32_t k = 0;
        while (k < op->constraint_count && (op->constraints[k].expr != c->expr ||
                                            op->constraints[k].range.lo != c->range.lo ||
                                            op->constraints[k].range.hi != c->range.hi))
            k++;
        is_zero = k < op->constraint_count;
    }
    return is_zero;
}

TileOp *tile_padded(TileBuilder *b, const Instruction *inst,
                    const IndexExpr *const *index, IndexConstraint *constraints,
                    uint32_t count)
{
    Holds holds = simplify(constraints, &count);
    if (holds == ALWAYS)
        return tile_value(b, inst, index, NULL);
    if (holds == NEVER)
        return tile_number(b, inst->shape->dtype, 0);
    TileGuard *guard = ARENA_NEW(b->p->arena, TileGuard);
    *guard = (TileGuard){NULL, count, constraints};
    TileAccess access = {.constraint_count = count, .constraints = constraints};
    TileOp *value = tile_value(b, inst, index, guard);
    if (value == NULL || is_zero_outside(value, constraints, count))
        return value;
    TileOp *whether = tile_make_at(b, TILE_IN_RANGE, DT_PRED, NULL, &access);
    if (whether == NULL)
        return NULL;
    return tile_apply(b, OP_SELECT, value->dtype, 3,
                      (TileOp *[]){whether, value, tile_number(b, value->dtype, 0)});
}

/* -- from what is given to the results --------------------------------------------------------- */

/* The index of `inst` at which it needs its operand at `index`; NULL: it has no such index. */
static const IndexExpr *const *index_of_user(TileBuilder *b, const Instruction *inst,
                                             uint32_t operand,
                                             const IndexExpr *const *index)
{
    IndexContext *ix = b->p->ix;
    Arena *a = b->p->arena;
    const Instruction *from = inst->operands[operand];
    const IndexExpr **out =
        ARENA_ARRAY(a, const IndexExpr *, (size_t)inst->shape->rank + 1);
    Ints dims;
    switch (inst->op) {
    case OP_COPY:
        return index;
    case OP_TRANSPOSE:
        dims = inst_ints(inst, ATTR_DIMENSIONS);
        for (uint32_t i = 0; i < inst->shape->rank; i++)
            out[i] = index[dims.data[i]];
        return out;
    case OP_REVERSE:
        dims = inst_ints(inst, ATTR_DIMENSIONS);
        for (uint32_t i = 0; i < inst->shape->rank; i++)
            out[i] = ints_find(dims, i) < 0
                         ? index[i]
                         : ix_add(ix, ix_mul(ix, index[i], -1),
                                  ix_const(ix, inst->shape->dims[i] - 1));
        return out;
    case OP_RESHAPE:
    case OP_BITCAST: {
        Shape x = *from->shape, y = *inst->shape;
        if (inst->op == OP_RESHAPE) {
            x.layout = index_row_major(a, x.rank);
            y.layout = index_row_major(a, y.rank);
        }
        index_delinear(ix, &y, index_linear(ix, &x, index), out);
        return x.dtype == y.dtype ? out : NULL;
    }
    default:
        return is_apply(inst) && from->shape->rank == inst->shape->rank ? index : NULL;
    }
}

void tile_force(TileBuilder *b)
{
    bool changed = true;
    for (uint32_t i = 0; i < b->given_count; i++)
        b->forced[b->given[i].inst->id] = b->given[i].index;
    while (changed) {
        changed = false;
        for (const Instruction *inst = inst_first(b->comp); inst;
             inst = inst_next(inst)) {
            if (b->forced[inst->id] != NULL || !shape_is_array(inst->shape))
                continue;
            for (uint32_t i = 0; i < inst->operand_count; i++) {
                const IndexExpr *const *at = b->forced[inst->operands[i]->id];
                if (at != NULL && b->forced[inst->id] == NULL)
                    b->forced[inst->id] = index_of_user(b, inst, i, at);
            }
            changed |= b->forced[inst->id] != NULL;
        }
    }
}

bool tile_store_results(TileBuilder *b)
{
    const Instruction *fusion = b->p->fusion;
    tile_force(b);
    for (uint32_t leaf = 0; leaf < fusion_result_count(fusion); leaf++) {
        FusionResult r = fusion_result(fusion, leaf);
        const IndexExpr *const *index = b->forced[r.inst->id];
        if (index == NULL || r.inst_leaf != 0) {
            b->why = "a result has not the products' elements";
            return false;
        }
        TileOp *value = tile_value(b, r.inst, index, b->stored);
        TileAccess access = {
            .shape = r.shape, .index_count = r.shape->rank, .index = index};
        if (b->stored != NULL) {
            access.constraint_count = b->stored->count;
            access.constraints = b->stored->constraints;
        }
        TileOp *store = value == NULL
                            ? NULL
                            : tile_make_at(b, TILE_STORE, value->dtype, value, &access);
        if (store == NULL)
            return false;
        store->array = leaf;
        store->inst = r.inst;
    }
    return true;
}
