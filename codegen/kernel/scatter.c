/* Scatter in place: a thread for each element of the updates reads, combines and writes, or does so by an atomic
 * operation; or a thread owns elements of the result and walks over all index vectors in order, taking those
 * that lead to what it owns (ScatterWay). Updates whose window does not fit are dropped. */
#include "codegen/element/reducer.h"
#include "codegen/kernel/emitters.h"
#include "ir/bug.h"

typedef struct Scatter {
    const EmitterInput *in;
    const ScatterPlan *plan;
    int64_t owners; /* threads that share the places of one walk */
} Scatter;

/* -- places ----------------------------------------------------------------------------------------- */

/* The index vector's place from an update's index: all but the vector's own dimension. */
static void indices_place(const Scatter *s, const IndexExpr *const *update,
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
static const IndexExpr *start_of(Emit *e, const Scatter *s, const IndexExpr *const *place,
                                 int64_t component, int64_t most, LLVMValueRef *ok)
{
    LLVMBuilderRef b = e->k->builder;
    const IndexExpr *at[EMIT_MOST_RANK];
    uint32_t rank = s->plan->indices->shape->rank;
    LLVMValueRef v;
    for (uint32_t i = 0; i < rank; i++)
        at[i] = i == s->plan->vector_dim ? ix_const(e->ix, component) : place[i];
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

/* Where an update's element goes, and whether its window fits (NULL: always). `bound`: the same of the
 * operand's dimensions that the index vector chooses, as one number. */
static void destination(Emit *e, const Scatter *s, const IndexExpr *const *update,
                        const IndexExpr **out, const IndexExpr **bound, LLVMValueRef *ok)
{
    const IndexExpr *place[EMIT_MOST_RANK];
    indices_place(s, update, place);
    *ok = NULL;
    *bound = ix_const(e->ix, 0);
    for (uint32_t d = 0; d < s->plan->operand->rank; d++) {
        int64_t update_dim, size = scatter_window_size(s->plan, d, &update_dim);
        int64_t component = ints_find(s->plan->start_map, d),
                batch = ints_find(s->plan->batching, d);
        out[d] = update_dim >= 0 ? update[update_dim] : ix_const(e->ix, 0);
        if (batch >= 0) {
            out[d] = place[s->plan->index_batching.data[batch]];
        } else if (component >= 0) {
            const IndexExpr *start =
                start_of(e, s, place, component, s->plan->operand->dims[d] - size, ok);
            out[d] = ix_add(e->ix, out[d], start);
            *bound =
                ix_add(e->ix, ix_mul(e->ix, *bound, s->plan->operand->dims[d]), out[d]);
        }
    }
}

/* -- combining -------------------------------------------------------------------------------------- */

static GxAtomic atomic_of(OpCode op, DType t)
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

/* The updates of all arrays at an index of the update, combined into their places. */
static void combine(Emit *e, const Scatter *s, const IndexExpr *const *update,
                    const IndexExpr *const *to)
{
    LLVMValueRef args[2 * EMIT_MOST_LEAVES], out[EMIT_MOST_LEAVES];
    for (uint32_t i = 0; i < s->plan->count; i++)
        emit_element(e, s->plan->inst->operands[s->plan->count + 1 + i], update,
                     &args[s->plan->count + i]);
    e->k->at = s->plan->inst->name;
    uint32_t first = fusion_result_arg(s->in->fusion, 0);
    if (s->plan->way == SCATTER_ATOMIC) {
        const IndexExpr *linear = index_linear(e->ix, s->plan->operand, to);
        DType t = s->plan->operand->dtype;
        unsigned bytes = t == DT_PRED ? 1 : dtype_info[t].bits / 8;
        LLVMValueRef v = args[1];
        if (t == DT_PRED)
            v = LLVMBuildZExt(e->k->builder, v, gx_int_type(e->k, 8), "");
        gx_atomic(e->k, atomic_of(s->plan->operation, t), first,
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
    destination(e, s, update, to, &bound, &ok);
    emit_if_begin(e, &guard, ok);
    combine(e, s, update, to);
    emit_if_end(e, &guard, NULL, 0, NULL);
}

/* -- walking in order --------------------------------------------------------------------------------- */

/* A thread: one place along the update's dimensions that lead straight to the result's, and one owner. */
static void walk(Emit *e, const void *user, const IndexExpr *linear)
{
    const Scatter *s = user;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    const IndexExpr *update[EMIT_MOST_RANK], *to[EMIT_MOST_RANK], *bound;
    int64_t free_places = s->plan->free_places, steps = s->plan->steps;
    const IndexExpr *owner = ix_floordiv(e->ix, linear, free_places);
    emit_spread(e, s->plan->update, s->plan->free_dims, s->plan->free_count,
                ix_mod(e->ix, linear, free_places), update);
    GxLoop loop;
    gx_loop_begin(k, &loop, emit_index_constant(e, 0), emit_index_constant(e, steps),
                  emit_index_constant(e, 1), NULL, 0);
    emit_scope_begin(e);
    const IndexExpr *step = emit_variable(e, loop.index, (Range){0, steps - 1});
    emit_spread(e, s->plan->update, s->plan->walked, s->plan->walked_count, step, update);
    LLVMValueRef ok;
    GxIf guard;
    destination(e, s, update, to, &bound, &ok);
    if (s->owners > 1) {
        LLVMValueRef place = emit_index(e, ix_mod(e->ix, bound, s->owners), 0);
        LLVMValueRef is_mine =
            LLVMBuildICmp(b, LLVMIntEQ, place, emit_index(e, owner, 0), "");
        ok = ok == NULL ? is_mine : LLVMBuildAnd(b, ok, is_mine, "");
    }
    emit_if_begin(e, &guard, ok);
    combine(e, s, update, to);
    emit_if_end(e, &guard, NULL, 0, NULL);
    emit_scope_end(e);
    gx_loop_end(k, &loop, NULL);
}

/* -- the kernel ------------------------------------------------------------------------------------------ */

Kernel *emitter_scatter(const EmitterInput *in)
{
    const ScatterPlan *p = in->design->plan.scatter;
    Scatter s = {.in = in, .plan = p, .owners = in->design->config.owners};
    int64_t elements = shape_elements(p->update);
    switch (p->way) {
    case SCATTER_NOTHING:
        return emitter_finish(in, emitter_begin(in));
    case SCATTER_UNIQUE:
    case SCATTER_ATOMIC:
        return emitter_finish(in,
                              emit_for_elements(in, elements, 1, scatter_element, &s));
    case SCATTER_OWNERS:
        break;
    }
    return emitter_finish(in,
                          emit_for_elements(in, p->free_places * s.owners, 1, walk, &s));
}
