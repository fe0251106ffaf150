/* Scatter in place: the results' buffers hold the operands already; updates are combined into them, those
 * whose window does not fit are dropped. The result never depends on the order of threads:
 *  - unique indices: a thread for each element of the updates reads, combines and writes;
 *  - integers (and minimum, maximum of floats) under one associative operation: atomics;
 *  - else a thread owns elements of the result and walks over all index vectors in order, taking those
 *    that lead to what it owns. */
#include "codegen/element/reducer.h"
#include "codegen/kernel/emitters.h"
#include "ir/bug.h"

#define OWNER_THREADS 65536 /* enough to fill a GPU */

typedef struct Scatter {
    const EmitterInput *in;
    const Instruction *inst;
    const Instruction *indices;
    const Shape *operand, *update;
    uint32_t count; /* arrays */
    Ints window_dims, inserted, start_map, batching, index_batching;
    int64_t vector_dim;
    bool is_atomic;
    GxAtomic atomic;
    int64_t owners;                    /* threads that share the places of one walk */
    uint32_t free_count, walked_count; /* dimensions of the update */
    const uint32_t *free_dims, *walked;
} Scatter;

/* -- places ----------------------------------------------------------------------------------------- */

/* The size of the window along dimension d of the operand; *update_dim: where the update counts it, -1:
 * it is inserted or batching. */
static int64_t window_size(const Scatter *s, int64_t d, int64_t *update_dim)
{
    int64_t next = 0;
    *update_dim = -1;
    if (ints_find(s->inserted, d) >= 0 || ints_find(s->batching, d) >= 0)
        return 1;
    for (int64_t i = 0; i < d; i++)
        next += ints_find(s->inserted, i) < 0 && ints_find(s->batching, i) < 0;
    *update_dim = s->window_dims.data[next];
    return s->update->dims[*update_dim];
}

/* The index vector's place from an update's index: all but the vector's own dimension. */
static void indices_place(const Scatter *s, const IndexExpr *const *update,
                          const IndexExpr **out)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < s->update->rank; i++) {
        if (ints_find(s->window_dims, i) >= 0)
            continue;
        if (next == s->vector_dim)
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
    uint32_t rank = s->indices->shape->rank;
    LLVMValueRef v;
    for (uint32_t i = 0; i < rank; i++)
        at[i] = i == s->vector_dim ? ix_const(e->ix, component) : place[i];
    emit_element(e, s->indices, at, &v);
    e->k->at = s->inst->name;
    LLVMTypeRef type = LLVMTypeOf(v);
    unsigned bits = LLVMGetIntTypeWidth(type);
    bool is_signed = dtype_is_signed(s->indices->shape->dtype);
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
    for (uint32_t d = 0; d < s->operand->rank; d++) {
        int64_t update_dim, size = window_size(s, d, &update_dim);
        int64_t component = ints_find(s->start_map, d), batch = ints_find(s->batching, d);
        out[d] = update_dim >= 0 ? update[update_dim] : ix_const(e->ix, 0);
        if (batch >= 0) {
            out[d] = place[s->index_batching.data[batch]];
        } else if (component >= 0) {
            const IndexExpr *start =
                start_of(e, s, place, component, s->operand->dims[d] - size, ok);
            out[d] = ix_add(e->ix, out[d], start);
            *bound = ix_add(e->ix, ix_mul(e->ix, *bound, s->operand->dims[d]), out[d]);
        }
    }
}

/* -- combining -------------------------------------------------------------------------------------- */

/* The updates of all arrays at an index of the update, combined into their places. */
static void combine(Emit *e, const Scatter *s, const IndexExpr *const *update,
                    const IndexExpr *const *to)
{
    LLVMValueRef args[2 * EMIT_MOST_LEAVES], out[EMIT_MOST_LEAVES];
    for (uint32_t i = 0; i < s->count; i++)
        emit_element(e, s->inst->operands[s->count + 1 + i], update, &args[s->count + i]);
    e->k->at = s->inst->name;
    uint32_t first = fusion_result_arg(s->in->fusion, 0);
    if (s->is_atomic) {
        const IndexExpr *linear = index_linear(e->ix, s->operand, to);
        DType t = s->operand->dtype;
        unsigned bytes = t == DT_PRED ? 1 : dtype_info[t].bits / 8;
        LLVMValueRef v = args[1];
        if (t == DT_PRED)
            v = LLVMBuildZExt(e->k->builder, v, gx_int_type(e->k, 8), "");
        gx_atomic(e->k, s->atomic, first, emit_index(e, ix_mul(e->ix, linear, bytes), 0),
                  v);
        return;
    }
    e->shares_bytes = true;
    for (uint32_t i = 0; i < s->count; i++)
        emit_load(e, first + i, s->inst->operands[i]->shape, to, &args[i]);
    e->shares_bytes = false;
    emit_computation(e, inst_called(s->inst, 0), args, out);
    for (uint32_t i = 0; i < s->count; i++)
        emit_store(e, first + i, s->inst->operands[i]->shape, to, &out[i]);
}

static void scatter_element(Emit *e, const void *user, const IndexExpr *linear)
{
    const Scatter *s = user;
    const IndexExpr *update[EMIT_MOST_RANK], *to[EMIT_MOST_RANK], *bound;
    LLVMValueRef ok;
    GxIf guard;
    emit_delinear(e, s->update, linear, update);
    destination(e, s, update, to, &bound, &ok);
    emit_if_begin(e, &guard, ok);
    combine(e, s, update, to);
    emit_if_end(e, &guard, NULL, 0, NULL);
}

/* -- walking in order --------------------------------------------------------------------------------- */

static int64_t product(const Scatter *s, const uint32_t *dims, uint32_t count)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < count; i++)
        n *= s->update->dims[dims[i]];
    return n;
}

/* A thread: one place along the update's dimensions that lead straight to the result's, and one owner. */
static void walk(Emit *e, const void *user, const IndexExpr *linear)
{
    const Scatter *s = user;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    const IndexExpr *update[EMIT_MOST_RANK], *to[EMIT_MOST_RANK], *bound;
    int64_t free_places = product(s, s->free_dims, s->free_count);
    int64_t steps = product(s, s->walked, s->walked_count);
    const IndexExpr *owner = ix_floordiv(e->ix, linear, free_places);
    emit_spread(e, s->update, s->free_dims, s->free_count,
                ix_mod(e->ix, linear, free_places), update);
    GxLoop loop;
    gx_loop_begin(k, &loop, emit_index_constant(e, 0), emit_index_constant(e, steps),
                  emit_index_constant(e, 1), NULL, 0);
    emit_scope_begin(e);
    const IndexExpr *step = emit_variable(e, loop.index, (Range){0, steps - 1});
    emit_spread(e, s->update, s->walked, s->walked_count, step, update);
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

/* Dimensions of the update that give the same dimension of the result whatever the indices are, and the
 * others, which are walked; among the walked ones windows count fastest. */
static void divide_dims(Scatter *s)
{
    Arena *a = s->in->arena;
    uint32_t *free_dims = ARENA_ARRAY(a, uint32_t, (size_t)s->update->rank + 1);
    uint32_t *walked = ARENA_ARRAY(a, uint32_t, (size_t)s->update->rank + 1);
    bool is_free[EMIT_MOST_RANK] = {false};
    for (uint32_t d = 0; d < s->operand->rank; d++) {
        int64_t update_dim;
        window_size(s, d, &update_dim);
        if (update_dim >= 0 && ints_find(s->start_map, d) < 0)
            is_free[update_dim] = true;
    }
    /* batching dimensions of the indices: the update has them among its scatter dimensions */
    int64_t next = 0;
    for (uint32_t i = 0; i < s->update->rank; i++) {
        if (ints_find(s->window_dims, i) >= 0)
            continue;
        if (next == s->vector_dim)
            next++;
        is_free[i] = ints_find(s->index_batching, next++) >= 0;
    }
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < s->update->rank; i++) {
            bool is_window = ints_find(s->window_dims, i) >= 0;
            if (is_window != (pass == 1))
                continue;
            if (is_free[i])
                free_dims[s->free_count++] = i;
            else
                walked[s->walked_count++] = i;
        }
    }
    s->free_dims = free_dims;
    s->walked = walked;
}

/* Windows of one element along the dimensions that indices choose: a place has one owner. */
static int64_t choose_owners(const Scatter *s)
{
    int64_t places = 1, owners = 1;
    for (uint32_t d = 0; d < s->operand->rank; d++) {
        int64_t update_dim, size = window_size(s, d, &update_dim);
        if (ints_find(s->start_map, d) < 0)
            continue;
        if (size != 1)
            return 1;
        places *= s->operand->dims[d];
    }
    int64_t steps = product(s, s->walked, s->walked_count),
            free_places = product(s, s->free_dims, s->free_count);
    while (owners * 2 <= steps && owners * 2 <= places &&
           owners * 2 * free_places <= OWNER_THREADS)
        owners *= 2;
    return owners;
}

/* -- the kernel ------------------------------------------------------------------------------------------ */

static bool atomic_of(OpCode op, DType t, GxAtomic *out)
{
    bool is_number =
        dtype_info[t].bits >= 8 && (dtype_is_integer(t) || t == DT_F16 || t == DT_BF16 ||
                                    t == DT_F32 || t == DT_F64);
    bool is_integer = dtype_is_integer(t) && is_number,
         is_unsigned = dtype_is_unsigned(t);
    switch (op) {
    case OP_ADD:
        *out = t == DT_PRED ? GX_ATOMIC_OR : GX_ATOMIC_ADD;
        return is_integer || t == DT_PRED;
    case OP_MAXIMUM:
        *out = t == DT_PRED ? GX_ATOMIC_OR : is_unsigned ? GX_ATOMIC_UMAX : GX_ATOMIC_MAX;
        return is_number || t == DT_PRED;
    case OP_MINIMUM:
        *out = t == DT_PRED  ? GX_ATOMIC_AND
               : is_unsigned ? GX_ATOMIC_UMIN
                             : GX_ATOMIC_MIN;
        return is_number || t == DT_PRED;
    case OP_AND:
        *out = GX_ATOMIC_AND;
        return is_integer || t == DT_PRED;
    case OP_OR:
        *out = GX_ATOMIC_OR;
        return is_integer || t == DT_PRED;
    case OP_XOR:
        *out = GX_ATOMIC_XOR;
        return is_integer || t == DT_PRED;
    default:
        return false;
    }
}

static Scatter describe(const EmitterInput *in)
{
    const Instruction *inst = fusion_hero(in->fusion, OP_SCATTER);
    uint32_t count = inst->operand_count / 2;
    Scatter s = {.in = in,
                 .inst = inst,
                 .count = count,
                 .indices = inst->operands[count],
                 .operand = inst->operands[0]->shape,
                 .update = inst->operands[count + 1]->shape,
                 .window_dims = inst_ints(inst, ATTR_UPDATE_WINDOW_DIMS),
                 .inserted = inst_ints(inst, ATTR_INSERTED_WINDOW_DIMS),
                 .start_map = inst_ints(inst, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS),
                 .batching = inst_ints(inst, ATTR_INPUT_BATCHING_DIMS),
                 .index_batching = inst_ints(inst, ATTR_SCATTER_INDICES_BATCHING_DIMS),
                 .vector_dim = inst_int(inst, ATTR_INDEX_VECTOR_DIM, 0),
                 .owners = 1};
    s.is_atomic = count == 1 && atomic_of(computation_operation(inst_called(inst, 0)),
                                          s.operand->dtype, &s.atomic);
    divide_dims(&s);
    return s;
}

/* No two index vectors can lead to one place. */
static bool is_one_window(const Scatter *s)
{
    for (uint32_t i = 0; i < s->walked_count; i++) {
        if (ints_find(s->window_dims, s->walked[i]) < 0 &&
            s->update->dims[s->walked[i]] != 1)
            return false;
    }
    return true;
}

Kernel *emitter_scatter(const EmitterInput *in)
{
    Scatter s = describe(in);
    if (s.count > EMIT_MOST_LEAVES)
        escape_throw(ESCAPE_UNSUPPORTED, "%s scatters %u arrays; kernels handle %d",
                     s.inst->name, s.count, EMIT_MOST_LEAVES);
    int64_t elements = shape_elements(s.update);
    bool is_unique = inst_bool(s.inst, ATTR_UNIQUE_INDICES) || is_one_window(&s);
    Emit *e;
    /* windows too large for the operand never fit */
    for (uint32_t d = 0; d < s.operand->rank; d++) {
        int64_t update_dim;
        if (window_size(&s, d, &update_dim) > s.operand->dims[d])
            elements = 0;
    }
    if (elements == 0) {
        Kernel *k =
            kernel_create(in->arena, in->module, in->name, in->args, in->arg_count,
                          (uint32_t[3]){32, 1, 1}, (uint32_t[3]){1, 1, 1});
        kernel_finish(k);
        return k;
    }
    if (is_unique || s.is_atomic) {
        s.is_atomic &= !is_unique;
        e = emit_for_elements(in, elements, 1, scatter_element, &s);
    } else {
        s.owners = choose_owners(&s);
        e = emit_for_elements(in, product(&s, s.free_dims, s.free_count) * s.owners, 1,
                              walk, &s);
    }
    kernel_finish(e->k);
    return e->k;
}
