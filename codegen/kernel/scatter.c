/* Scatter in place: a thread for each element of the updates reads, combines and writes, or does so by an atomic
 * operation; or a thread owns elements of the result and walks over all index vectors in order, taking those
 * that lead to what it owns, over the run of equal ones that begins at its own, or over those that follow its own
 * (ScatterStrategy). Updates whose window does not fit are dropped. */
#include "codegen/kernel/scatter.h"
#include "codegen/element/reducer.h"
#include "ir/base/bug.h"

/* -- positions ----------------------------------------------------------------------------------------- */

void scatter_indices_position(const Scatter *s, const IndexExpr *const *update,
                              const IndexExpr **out)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < s->plan->update->rank; i++) {
        if (ints_find(s->plan->window_dims, i) >= 0)
            continue;
        if (next == s->plan->vector_dim)
            next++;
        out[next++] = update[i];
    }
}

/* A component of the index vector as an expression, and in *ok (and-ed) that it is in 0 .. most. */
static const IndexExpr *start_of(Emit *e, const Scatter *s,
                                 const IndexExpr *const *position, int64_t component,
                                 int64_t most, LLVMValueRef *ok)
{
    LLVMBuilderRef b = e->k->builder;
    const IndexExpr *at[EMIT_MOST_RANK];
    uint32_t rank = s->plan->indices->shape->rank;
    LLVMValueRef v;
    for (uint32_t i = 0; i < rank; i++)
        at[i] = i == s->plan->vector_dim ? ix_const(e->ix, component) : position[i];
    emit_element(e, s->plan->indices, at, &v);
    e->k->at = s->plan->inst->name;
    LLVMTypeRef type = LLVMTypeOf(v);
    unsigned bits = LLVMGetIntTypeWidth(type);
    bool is_signed = dtype_is_signed(s->plan->indices->shape->dtype);
    LLVMValueRef fits = NULL;
    /* as an unsigned number a negative one is beyond every bound */
    if (is_signed || bits >= 63 || most < (INT64_C(1) << bits) - 1) {
        uint64_t largest = bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
        if (is_signed)
            largest >>= 1;
        uint64_t bound = (uint64_t)most < largest ? (uint64_t)most : largest;
        fits = LLVMBuildICmp(b, LLVMIntULE, v, LLVMConstInt(type, bound, 0), "");
        *ok = *ok == NULL ? fits : LLVMBuildAnd(b, *ok, fits, "");
    }
    unsigned wanted = LLVMGetIntTypeWidth(e->index_type);
    if (bits < wanted)
        v = LLVMBuildZExt(b, v, e->index_type, "");
    else if (bits > wanted)
        v = LLVMBuildTrunc(b, v, e->index_type, "");
    return emit_variable(e, v, (Range){0, most});
}

void scatter_destination(Emit *e, const Scatter *s, const IndexExpr *const *update,
                         const IndexExpr **out, const IndexExpr **bound, LLVMValueRef *ok)
{
    const IndexExpr *position[EMIT_MOST_RANK];
    scatter_indices_position(s, update, position);
    *ok = NULL;
    *bound = ix_const(e->ix, 0);
    for (uint32_t d = 0; d < s->plan->operand->rank; d++) {
        int64_t update_dim, size = scatter_window_size(s->plan, d, &update_dim);
        int64_t component = ints_find(s->plan->start_map, d),
                batch = ints_find(s->plan->batching, d);
        out[d] = update_dim >= 0 ? update[update_dim] : ix_const(e->ix, 0);
        if (batch >= 0) {
            out[d] = position[s->plan->index_batching.data[batch]];
        } else if (component >= 0) {
            const IndexExpr *start =
                start_of(e, s, position, component, s->plan->operand->dims[d] - size, ok);
            out[d] = ix_add(e->ix, out[d], start);
            *bound =
                ix_add(e->ix, ix_mul(e->ix, *bound, s->plan->operand->dims[d]), out[d]);
        }
    }
}

/* -- combining -------------------------------------------------------------------------------------- */

GxAtomic scatter_atomic(OpCode op, DType t)
{
    bool is_unsigned = dtype_is_unsigned(t);
    switch (op) {
    case OP_ADD:
        return GX_ATOMIC_ADD;
    case OP_MAXIMUM:
        return is_unsigned ? GX_ATOMIC_UMAX : GX_ATOMIC_MAX;
    case OP_MINIMUM:
        return is_unsigned ? GX_ATOMIC_UMIN : GX_ATOMIC_MIN;
    case OP_AND:
        return GX_ATOMIC_AND;
    case OP_OR:
        return GX_ATOMIC_OR;
    case OP_XOR:
        return GX_ATOMIC_XOR;
    default:
        bug("%s is no atomic operation", op_info[op].name);
    }
}

/* The updates of all arrays at an index of the update, combined into their positions. */
static void combine(Emit *e, const Scatter *s, const IndexExpr *const *update,
                    const IndexExpr *const *to)
{
    LLVMValueRef args[2 * EMIT_MOST_LEAVES], out[EMIT_MOST_LEAVES];
    for (uint32_t i = 0; i < s->plan->count; i++)
        emit_element(e, s->plan->inst->operands[s->plan->count + 1 + i], update,
                     &args[s->plan->count + i]);
    e->k->at = s->plan->inst->name;
    uint32_t first = fusion_result_arg(s->in->fusion, 0);
    if (s->plan->strategy == SCATTER_ATOMIC) {
        const IndexExpr *linear = index_linear(e->ix, s->plan->operand, to);
        DType t = s->plan->operand->dtype;
        unsigned bytes = t == DT_PRED ? 1 : dtype_info[t].bits / 8;
        LLVMValueRef v = args[1];
        if (t == DT_PRED)
            v = LLVMBuildZExt(e->k->builder, v, gx_int_type(e->k, 8), "");
        gx_atomic(e->k, scatter_atomic(s->plan->operation, t), first,
                  emit_index(e, ix_mul(e->ix, linear, bytes), 0), v);
        return;
    }
    e->shares_bytes = true;
    for (uint32_t i = 0; i < s->plan->count; i++)
        emit_load(e, first + i, s->plan->inst->operands[i]->shape, to, &args[i]);
    e->shares_bytes = false;
    emit_computation(e, inst_called(s->plan->inst, 0), args, out);
    for (uint32_t i = 0; i < s->plan->count; i++)
        emit_store(e, first + i, s->plan->inst->operands[i]->shape, to, &out[i]);
}

static void scatter_element(Emit *e, const void *user, const IndexExpr *linear)
{
    const Scatter *s = user;
    const IndexExpr *update[EMIT_MOST_RANK], *to[EMIT_MOST_RANK], *bound;
    LLVMValueRef ok;
    GxIf guard;
    emit_delinear(e, s->plan->update, linear, update);
    scatter_destination(e, s, update, to, &bound, &ok);
    emit_if_begin(e, &guard, ok);
    combine(e, s, update, to);
    emit_if_end(e, &guard, NULL, 0, NULL);
}

/* -- walking in order --------------------------------------------------------------------------------- */

/* A thread: one position along the update's dimensions that lead straight to the result's, and one owner. */
static void walk(Emit *e, const void *user, const IndexExpr *linear)
{
    const Scatter *s = user;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    const IndexExpr *update[EMIT_MOST_RANK], *to[EMIT_MOST_RANK], *bound;
    int64_t free_positions = s->plan->free_positions, steps = s->plan->steps;
    const IndexExpr *owner = ix_floordiv(e->ix, linear, free_positions);
    emit_spread(e, s->plan->update, s->plan->free_dims, s->plan->free_count,
                ix_mod(e->ix, linear, free_positions), update);
    GxLoop loop;
    gx_loop_begin(k, &loop, emit_index_constant(e, 0), emit_index_constant(e, steps),
                  emit_index_constant(e, 1), NULL, 0);
    emit_scope_begin(e);
    const IndexExpr *step = emit_variable(e, loop.index, (Range){0, steps - 1});
    emit_spread(e, s->plan->update, s->plan->walked, s->plan->walked_count, step, update);
    LLVMValueRef ok;
    GxIf guard;
    scatter_destination(e, s, update, to, &bound, &ok);
    if (s->owners > 1) {
        LLVMValueRef position = emit_index(e, ix_mod(e->ix, bound, s->owners), 0);
        LLVMValueRef is_mine =
            LLVMBuildICmp(b, LLVMIntEQ, position, emit_index(e, owner, 0), "");
        ok = ok == NULL ? is_mine : LLVMBuildAnd(b, ok, is_mine, "");
    }
    emit_if_begin(e, &guard, ok);
    combine(e, s, update, to);
    emit_if_end(e, &guard, NULL, 0, NULL);
    emit_scope_end(e);
    gx_loop_end(k, &loop, NULL);
}

/* -- walking over runs -------------------------------------------------------------------------------- */

/* An update of those that a thread walks over. */
typedef struct Update {
    const IndexExpr *to[EMIT_MOST_RANK];
    LLVMValueRef
        key; /* the position that its index vector chooses; -1: none, or there is no such update */
} Update;

typedef struct Runs {
    Emit *e;
    const Scatter *s;
    Reducer reducer;
    const IndexExpr
        *position;     /* along the dimensions that lead straight to the result's */
    LLVMValueRef last; /* index: number of the last update */
    LLVMValueRef
        anchor; /* index: one that exists, read in place of those that are not wanted */
} Runs;

static LLVMValueRef index_number(const Runs *r, int64_t n)
{
    return LLVMConstInt(r->e->index_type, (uint64_t)n, 1);
}

/* Free positions side by side that a thread takes at once. */
static uint32_t run_lanes(const Scatter *s)
{
    return (uint32_t)s->in->design->config.lanes.data[0];
}

/* Values of an update: of each array as many as a thread has lanes. */
static uint32_t value_count(const Runs *r)
{
    return r->s->plan->count * run_lanes(r->s);
}

/* The index of update number `step` (of index_type, and it exists). */
static void update_index(const Runs *r, LLVMValueRef step, const IndexExpr **out)
{
    const ScatterPlan *p = r->s->plan;
    Emit *e = r->e;
    emit_spread(e, p->update, p->free_dims, p->free_count, r->position, out);
    emit_spread(e, p->update, p->walked, p->walked_count,
                emit_variable(e, step, (Range){0, p->steps - 1}), out);
}

/* Update number `step`, which may be behind the last one. */
static void find_update(const Runs *r, LLVMValueRef step, Update *out)
{
    Emit *e = r->e;
    LLVMBuilderRef b = e->k->builder;
    const IndexExpr *update[EMIT_MOST_RANK], *bound;
    LLVMValueRef exists = LLVMBuildICmp(b, LLVMIntSLE, step, r->last, ""), ok;
    update_index(r, LLVMBuildSelect(b, exists, step, r->last, ""), update);
    e->lanes = 1; /* index vectors do not differ by lane */
    scatter_destination(e, r->s, update, out->to, &bound, &ok);
    e->lanes = run_lanes(r->s);
    ok = ok == NULL ? exists : LLVMBuildAnd(b, ok, exists, "");
    out->key = LLVMBuildSelect(b, ok, emit_index(e, bound, 0), index_number(r, -1), "");
}

/* The values of update number `step` where it is wanted, else any. */
static void read_update(const Runs *r, LLVMValueRef step, LLVMValueRef wanted,
                        LLVMValueRef *out)
{
    const ScatterPlan *p = r->s->plan;
    Emit *e = r->e;
    const IndexExpr *update[EMIT_MOST_RANK];
    update_index(r, LLVMBuildSelect(e->k->builder, wanted, step, r->anchor, ""), update);
    for (uint32_t i = 0; i < p->count; i++) {
        LLVMValueRef *values = &out[i * e->lanes];
        emit_element(e, p->inst->operands[p->count + 1 + i], update, values);
        for (uint32_t lane = 0; lane < e->lanes; lane++)
            values[lane] = reducer_widen(&r->reducer, i, values[lane]);
    }
    e->k->at = p->inst->name;
}

/* sums = f(sums, values) where `wanted`. */
static void add_update(const Runs *r, LLVMValueRef wanted, const LLVMValueRef *values,
                       LLVMValueRef *sums)
{
    const ScatterPlan *p = r->s->plan;
    LLVMValueRef sum[EMIT_MOST_LEAVES], value[EMIT_MOST_LEAVES], out[EMIT_MOST_LEAVES];
    uint32_t lanes = run_lanes(r->s);
    for (uint32_t lane = 0; lane < lanes; lane++) {
        for (uint32_t i = 0; i < p->count; i++) {
            sum[i] = sums[i * lanes + lane];
            value[i] = values[i * lanes + lane];
        }
        reducer_combine(&r->reducer, sum, value, out);
        for (uint32_t i = 0; i < p->count; i++) {
            LLVMValueRef *to = &sums[i * lanes + lane];
            *to = LLVMBuildSelect(r->e->k->builder, wanted, out[i], *to, "");
        }
    }
}

/* The sums of each lane, as the arrays have them. */
static void round_sums(const Runs *r, const LLVMValueRef *sums, LLVMValueRef *out)
{
    LLVMValueRef of_lane[EMIT_MOST_LEAVES];
    uint32_t lanes = r->e->lanes, count = r->s->plan->count;
    for (uint32_t lane = 0; lane < lanes; lane++) {
        for (uint32_t i = 0; i < count; i++)
            of_lane[i] = sums[i * lanes + lane];
        reducer_finish(&r->reducer, of_lane, of_lane);
        for (uint32_t i = 0; i < count; i++)
            out[i * lanes + lane] = of_lane[i];
    }
}

/* The arrays hold the sums at a position. */
static void store_sums(const Runs *r, const Update *at, const LLVMValueRef *sums)
{
    const ScatterPlan *p = r->s->plan;
    Emit *e = r->e;
    LLVMValueRef rounded[EMIT_MOST_LEAVES];
    uint32_t first = fusion_result_arg(r->s->in->fusion, 0);
    round_sums(r, sums, rounded);
    e->shares_bytes = true;
    for (uint32_t i = 0; i < p->count; i++)
        emit_store(e, first + i, p->inst->operands[i]->shape, at->to,
                   &rounded[i * e->lanes]);
    e->shares_bytes = false;
}

/* The sums begin with what the arrays hold at a position. */
static void load_sums(const Runs *r, const Update *at, LLVMValueRef *sums)
{
    const ScatterPlan *p = r->s->plan;
    Emit *e = r->e;
    uint32_t first = fusion_result_arg(r->s->in->fusion, 0);
    e->shares_bytes = true;
    for (uint32_t i = 0; i < p->count; i++) {
        LLVMValueRef *of_array = &sums[i * e->lanes];
        emit_load(e, first + i, p->inst->operands[i]->shape, at->to, of_array);
        for (uint32_t lane = 0; lane < e->lanes; lane++)
            of_array[lane] = reducer_widen(&r->reducer, i, of_array[lane]);
    }
    e->shares_bytes = false;
}

static LLVMValueRef has_position(const Runs *r, const Update *u)
{
    return LLVMBuildICmp(r->e->k->builder, LLVMIntSGE, u->key, index_number(r, 0), "");
}

/* A run begins with u: the sums of the one before, if it was the thread's, are done. */
static void begin_run(const Runs *r, const Update *before, LLVMValueRef is_mine,
                      const Update *u, LLVMValueRef begins, LLVMValueRef *sums)
{
    Emit *e = r->e;
    LLVMValueRef old[EMIT_MOST_LEAVES], new[EMIT_MOST_LEAVES];
    GxIf start, ends, some;
    uint32_t count = value_count(r);
    for (uint32_t i = 0; i < count; i++)
        old[i] = new[i] = sums[i];
    emit_if_begin(e, &start, begins);
    if (before != NULL) {
        emit_if_begin(e, &ends, is_mine);
        store_sums(r, before, sums);
        emit_if_end(e, &ends, NULL, 0, NULL);
    }
    emit_if_begin(e, &some, has_position(r, u));
    load_sums(r, u, new);
    emit_if_end_or(e, &some, new, old, count);
    emit_if_end_or(e, &start, new, old, count);
    for (uint32_t i = 0; i < count; i++)
        sums[i] = new[i];
}

/* The thread's own updates from `first` on; gives the last one, and whether its run is the thread's. */
static LLVMValueRef walk_own(const Runs *r, LLVMValueRef first, uint32_t count,
                             Update *last, LLVMValueRef *sums)
{
    Emit *e = r->e;
    LLVMBuilderRef b = e->k->builder;
    Update *u = ARENA_ARRAY(e->arena, Update, count);
    LLVMValueRef *begins = ARENA_ARRAY(e->arena, LLVMValueRef, count);
    LLVMValueRef *mine = ARENA_ARRAY(e->arena, LLVMValueRef, count);
    LLVMValueRef **values = ARENA_ARRAY(e->arena, LLVMValueRef *, count);
    Update before;
    GxIf has_before;
    LLVMValueRef none = index_number(r, -2), seen = NULL;
    emit_if_begin(e, &has_before,
                  LLVMBuildICmp(b, LLVMIntSGT, first, index_number(r, 0), ""));
    find_update(r, LLVMBuildSub(b, first, index_number(r, 1), ""), &before);
    emit_if_end_or(e, &has_before, &before.key, &none, 1);
    for (uint32_t i = 0; i < count; i++) {
        find_update(r, LLVMBuildAdd(b, first, index_number(r, i), ""), &u[i]);
        begins[i] =
            LLVMBuildICmp(b, LLVMIntNE, u[i].key, i == 0 ? before.key : u[i - 1].key, "");
        seen = seen == NULL ? begins[i] : LLVMBuildOr(b, seen, begins[i], "");
        mine[i] = LLVMBuildAnd(b, seen, has_position(r, &u[i]), "");
    }
    for (uint32_t i = 0; i < count; i++) {
        values[i] = ARENA_ARRAY(e->arena, LLVMValueRef, value_count(r));
        read_update(r, LLVMBuildAdd(b, first, index_number(r, i), ""), mine[i],
                    values[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        begin_run(r, i == 0 ? NULL : &u[i - 1], i == 0 ? NULL : mine[i - 1], &u[i],
                  begins[i], sums);
        add_update(r, mine[i], values[i], sums);
    }
    *last = u[count - 1];
    return mine[count - 1];
}

/* What follows of the last run, a few updates at a time. */
static void walk_on(const Runs *r, LLVMValueRef from, uint32_t count, const Update *last,
                    LLVMValueRef *sums)
{
    Emit *e = r->e;
    LLVMBuilderRef b = e->k->builder;
    uint32_t leaves = value_count(r);
    LLVMValueRef *carried = ARENA_ARRAY(e->arena, LLVMValueRef, leaves + 2u);
    LLVMValueRef *same = ARENA_ARRAY(e->arena, LLVMValueRef, count);
    LLVMValueRef **values = ARENA_ARRAY(e->arena, LLVMValueRef *, count);
    for (uint32_t i = 0; i < leaves; i++)
        carried[i] = sums[i];
    carried[leaves] = from;
    carried[leaves + 1] = LLVMConstInt(LLVMInt1TypeInContext(e->k->context), 1, 0);
    GxLoop loop;
    gx_while_begin(e->k, &loop, carried, leaves + 2);
    gx_while_body(e->k, &loop, carried[leaves + 1]);
    emit_scope_begin(e);
    for (uint32_t i = 0; i < count; i++) {
        Update u;
        find_update(r, LLVMBuildAdd(b, carried[leaves], index_number(r, i), ""), &u);
        LLVMValueRef equal = LLVMBuildICmp(b, LLVMIntEQ, u.key, last->key, "");
        same[i] = i == 0 ? equal : LLVMBuildAnd(b, same[i - 1], equal, "");
    }
    for (uint32_t i = 0; i < count; i++) {
        values[i] = ARENA_ARRAY(e->arena, LLVMValueRef, leaves);
        read_update(r, LLVMBuildAdd(b, carried[leaves], index_number(r, i), ""), same[i],
                    values[i]);
    }
    LLVMValueRef *next = ARENA_ARRAY(e->arena, LLVMValueRef, leaves + 2u);
    for (uint32_t i = 0; i < leaves; i++)
        next[i] = carried[i];
    for (uint32_t i = 0; i < count; i++)
        add_update(r, same[i], values[i], next);
    next[leaves] = LLVMBuildAdd(b, carried[leaves], index_number(r, count), "");
    next[leaves + 1] = same[count - 1];
    emit_scope_end(e);
    gx_while_end(e->k, &loop, next);
    for (uint32_t i = 0; i < leaves; i++)
        sums[i] = carried[i];
}

/* A thread: one position along the dimensions that lead straight to the result's, and a few updates. It walks over
 * the runs that begin with one of them, each from what the array holds on. */
static void walk_runs(Emit *e, const void *user, const IndexExpr *linear)
{
    const Scatter *s = user;
    const ScatterPlan *p = s->plan;
    uint32_t items = (uint32_t)s->in->design->config.items, lanes = run_lanes(s);
    int64_t parts = p->free_positions / lanes;
    e->lanes = lanes;
    const IndexExpr *position = ix_mul(e->ix, ix_mod(e->ix, linear, parts), lanes);
    Runs r = {.e = e,
              .s = s,
              .position = lanes == 1 ? position : ix_add(e->ix, position, emit_lane(e)),
              .last = emit_index_constant(e, p->steps - 1)};
    const IndexExpr *share = ix_floordiv(e->ix, linear, parts);
    LLVMValueRef first = emit_index(e, ix_mul(e->ix, share, items), 0), goes_on;
    LLVMValueRef sums[EMIT_MOST_LEAVES];
    Update last;
    GxIf run;
    r.anchor = first;
    reducer_begin_updates(&r.reducer, e, p->inst);
    for (uint32_t i = 0; i < value_count(&r); i++)
        sums[i] = LLVMConstNull(emit_type(e->k, r.reducer.accumulator[i / lanes]));
    goes_on = walk_own(&r, first, items, &last, sums);
    emit_if_begin(e, &run, goes_on);
    walk_on(&r, LLVMBuildAdd(e->k->builder, first, index_number(&r, items), ""),
            (uint32_t)s->in->design->config.unroll, &last, sums);
    store_sums(&r, &last, sums);
    emit_if_end(e, &run, NULL, 0, NULL);
    e->lanes = 1;
}

/* -- the first of each position ----------------------------------------------------------------------- */

/* Whether none of the updates before number `own` leads where it leads. */
static LLVMValueRef is_first(const Runs *r, const Update *u, LLVMValueRef own)
{
    Kernel *k = r->e->k;
    GxLoop loop;
    LLVMValueRef alone = LLVMConstInt(gx_int_type(k, 1), 1, 0), next;
    Update other;
    gx_loop_begin(k, &loop, index_number(r, 0), own, index_number(r, 1), &alone, 1);
    emit_scope_begin(r->e);
    find_update(r, loop.index, &other);
    LLVMValueRef differs = LLVMBuildICmp(k->builder, LLVMIntNE, other.key, u->key, "");
    next = LLVMBuildAnd(k->builder, alone, differs, "");
    emit_scope_end(r->e);
    gx_loop_end(k, &loop, &next);
    return alone;
}

/* A thread: one position along the dimensions that lead straight to the result's, and one update. */
static void sum_from_first(Emit *e, const void *user, const IndexExpr *linear)
{
    const Scatter *s = user;
    const ScatterPlan *p = s->plan;
    Kernel *k = e->k;
    Runs r = {.e = e,
              .s = s,
              .position = ix_mod(e->ix, linear, p->free_positions),
              .last = emit_index_constant(e, p->steps - 1)};
    LLVMValueRef own = emit_index(e, ix_floordiv(e->ix, linear, p->free_positions), 0);
    LLVMValueRef sums[EMIT_MOST_LEAVES], next[EMIT_MOST_LEAVES], values[EMIT_MOST_LEAVES];
    Update u, other;
    GxIf leads, first;
    GxLoop loop;
    r.anchor = own;
    reducer_begin_updates(&r.reducer, e, p->inst);
    find_update(&r, own, &u);
    emit_if_begin(e, &leads, has_position(&r, &u));
    emit_if_begin(e, &first, is_first(&r, &u, own));
    load_sums(&r, &u, sums);
    gx_loop_begin(k, &loop, own, index_number(&r, p->steps), index_number(&r, 1), sums,
                  p->count);
    emit_scope_begin(e);
    find_update(&r, loop.index, &other);
    LLVMValueRef equal = LLVMBuildICmp(k->builder, LLVMIntEQ, other.key, u.key, "");
    read_update(&r, loop.index, equal, values);
    for (uint32_t i = 0; i < p->count; i++)
        next[i] = sums[i];
    add_update(&r, equal, values, next);
    emit_scope_end(e);
    gx_loop_end(k, &loop, next);
    store_sums(&r, &u, sums);
    emit_if_end(e, &first, NULL, 0, NULL);
    emit_if_end(e, &leads, NULL, 0, NULL);
}

/* -- the kernel ------------------------------------------------------------------------------------------ */

Kernel *emitter_scatter(const EmitterInput *in)
{
    const ScatterPlan *p = in->design->plan.scatter;
    Scatter s = {.in = in, .plan = p, .owners = in->design->config.owners};
    int64_t elements = shape_elements(p->update);
    switch (p->strategy) {
    case SCATTER_NOTHING:
        return emitter_finish(in, emitter_begin(in));
    case SCATTER_UNIQUE:
    case SCATTER_ATOMIC:
        return emitter_finish(in,
                              emit_for_elements(in, elements, 1, scatter_element, &s));
    case SCATTER_SHARED:
        return emit_scatter_shared(&s);
    case SCATTER_RUNS: {
        int64_t items = in->design->config.items, shares = (p->steps + items - 1) / items;
        return emitter_finish(
            in, emit_for_elements(in, p->free_positions / run_lanes(&s) * shares, 1,
                                  walk_runs, &s));
    }
    case SCATTER_FIRST:
        return emitter_finish(in, emit_for_elements(in, p->free_positions * p->steps, 1,
                                                    sum_from_first, &s));
    case SCATTER_OWNERS:
        break;
    }
    return emitter_finish(
        in, emit_for_elements(in, p->free_positions * s.owners, 1, walk, &s));
}
