/* Integers summed up in few positions: each block's in shared memory first. See ir/kernel/kinds/histogram.c. */
#include "codegen/kernel/scatter.h"

typedef struct Histogram {
    Scatter s;
    uint32_t base;
    unsigned bytes; /* of a position */
    int64_t positions, threads, accesses;
    LLVMTypeRef type;
} Histogram;

/* For each position of the block, a thread: body(position, its byte offset). */
static void for_positions(Emit *e, const Histogram *h,
                          void (*body)(Emit *e, const Histogram *h, LLVMValueRef at))
{
    Kernel *k = e->k;
    GxLoop loop;
    gx_loop_begin(k, &loop, gx_tid(k, 0), gx_i32(k, (uint32_t)h->positions),
                  gx_i32(k, k->block[0]), NULL, 0);
    body(e, h, LLVMBuildMul(k->builder, loop.index, gx_i32(k, h->bytes), ""));
    gx_loop_end(k, &loop, NULL);
}

static void clear_position(Emit *e, const Histogram *h, LLVMValueRef at)
{
    LLVMValueRef to = LLVMBuildAdd(e->k->builder, at, gx_i32(e->k, h->base), "");
    gx_store(e->k, GX_SHARED, to, LLVMConstNull(h->type), h->bytes);
}

static void add_position(Emit *e, const Histogram *h, LLVMValueRef at)
{
    Kernel *k = e->k;
    GxIf some;
    LLVMValueRef from = LLVMBuildAdd(k->builder, at, gx_i32(k, h->base), "");
    LLVMValueRef v = gx_load(k, GX_SHARED, from, h->type, h->bytes);
    gx_if_begin(k, &some,
                LLVMBuildICmp(k->builder, LLVMIntNE, v, LLVMConstNull(h->type), ""));
    gx_atomic(k, GX_ATOMIC_ADD, fusion_result_arg(h->s.in->fusion, 0), at, v);
    gx_if_end(k, &some, NULL, 0, NULL);
}

/* An update: whether it goes to a position (NULL: it does), the position's bytes in shared memory, what is added. */
typedef struct Update {
    LLVMValueRef ok, to, v;
} Update;

static void read_update(Emit *e, const Histogram *h, const IndexExpr *linear, Update *out)
{
    const Scatter *s = &h->s;
    const IndexExpr *update[EMIT_MOST_RANK], *to[EMIT_MOST_RANK], *bound;
    LLVMBuilderRef b = e->k->builder;
    emit_delinear(e, s->plan->update, linear, update);
    scatter_destination(e, s, update, to, &bound, &out->ok);
    emit_element(e, s->plan->inst->operands[2], update, &out->v);
    e->k->at = s->plan->inst->name;
    const IndexExpr *position = index_linear(e->ix, s->plan->operand, to);
    LLVMValueRef at = emit_index(e, ix_mul(e->ix, position, h->bytes), 0);
    at = LLVMBuildTrunc(b, at, gx_int_type(e->k, 32), "");
    out->to = LLVMBuildAdd(b, at, gx_i32(e->k, h->base), "");
}

/* All are read before the first is added: loads do not wait for the atomic operations. */
static void count_updates(Emit *e, const Histogram *h)
{
    Kernel *k = e->k;
    GxLoop loop;
    GxIf guard;
    Update *updates = ARENA_ARRAY(e->arena, Update, (size_t)h->accesses);
    int64_t groups = shape_elements(h->s.plan->update) / h->accesses;
    gx_loop_begin(k, &loop, emit_thread_number(e), emit_index_constant(e, groups),
                  emit_index_constant(e, h->threads), NULL, 0);
    emit_scope_begin(e);
    const IndexExpr *group = emit_variable(e, loop.index, (Range){0, groups - 1});
    bool is_near = histogram_takes_neighbours(h->s.plan->update);
    const IndexExpr *first = is_near ? ix_mul(e->ix, group, h->accesses) : group;
    for (int64_t a = 0; a < h->accesses; a++) {
        const IndexExpr *further = ix_const(e->ix, is_near ? a : a * groups);
        read_update(e, h, ix_add(e->ix, first, further), &updates[a]);
    }
    for (int64_t a = 0; a < h->accesses; a++) {
        emit_if_begin(e, &guard, updates[a].ok);
        gx_atomic(k, GX_ATOMIC_ADD, GX_SHARED, updates[a].to, updates[a].v);
        emit_if_end(e, &guard, NULL, 0, NULL);
    }
    emit_scope_end(e);
    gx_loop_end(k, &loop, NULL);
}

Kernel *emitter_histogram(const EmitterInput *in)
{
    const ScatterPlan *p = in->design->plan.scatter;
    Emit *e = emitter_begin(in);
    Kernel *k = e->k;
    Histogram h = {.s = {.in = in, .plan = p, .owners = 1},
                   .bytes = dtype_info[p->operand->dtype].bits / 8,
                   .positions = shape_elements(p->operand),
                   .threads = (int64_t)k->grid[0] * k->block[0],
                   .accesses = in->design->config.accesses,
                   .type = emit_type(k, p->operand->dtype)};
    h.base = gx_shared_alloc(k, (uint64_t)h.positions * h.bytes, h.bytes);
    for_positions(e, &h, clear_position);
    gx_barrier(k);
    count_updates(e, &h);
    gx_barrier(k);
    for_positions(e, &h, add_position);
    return emitter_finish(in, e);
}
