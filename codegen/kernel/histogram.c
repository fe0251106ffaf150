/* Integers summed up in few places: each block's in shared memory first. See ir/kernel/kinds/histogram.c. */
#include "codegen/kernel/scatter.h"

typedef struct Histogram {
    Scatter s;
    uint32_t room;
    unsigned bytes; /* of a place */
    int64_t places, threads, accesses;
    LLVMTypeRef type;
} Histogram;

/* For each place of the block, a thread: body(place, its byte offset). */
static void for_places(Emit *e, const Histogram *h,
                       void (*body)(Emit *e, const Histogram *h, LLVMValueRef at))
{
    Kernel *k = e->k;
    GxLoop loop;
    gx_loop_begin(k, &loop, gx_tid(k, 0), gx_i32(k, (uint32_t)h->places),
                  gx_i32(k, k->block[0]), NULL, 0);
    body(e, h, LLVMBuildMul(k->builder, loop.index, gx_i32(k, h->bytes), ""));
    gx_loop_end(k, &loop, NULL);
}

static void clear_place(Emit *e, const Histogram *h, LLVMValueRef at)
{
    LLVMValueRef to = LLVMBuildAdd(e->k->builder, at, gx_i32(e->k, h->room), "");
    gx_store(e->k, GX_SHARED, to, LLVMConstNull(h->type), h->bytes);
}

static void add_place(Emit *e, const Histogram *h, LLVMValueRef at)
{
    Kernel *k = e->k;
    GxIf some;
    LLVMValueRef from = LLVMBuildAdd(k->builder, at, gx_i32(k, h->room), "");
    LLVMValueRef v = gx_load(k, GX_SHARED, from, h->type, h->bytes);
    gx_if_begin(k, &some,
                LLVMBuildICmp(k->builder, LLVMIntNE, v, LLVMConstNull(h->type), ""));
    gx_atomic(k, GX_ATOMIC_ADD, fusion_result_arg(h->s.in->fusion, 0), at, v);
    gx_if_end(k, &some, NULL, 0, NULL);
}

static void count_update(Emit *e, const Histogram *h, const IndexExpr *linear)
{
    const Scatter *s = &h->s;
    const IndexExpr *update[EMIT_MOST_RANK], *to[EMIT_MOST_RANK], *bound;
    LLVMValueRef ok, v;
    GxIf guard;
    emit_delinear(e, s->plan->update, linear, update);
    scatter_destination(e, s, update, to, &bound, &ok);
    emit_if_begin(e, &guard, ok);
    emit_element(e, s->plan->inst->operands[2], update, &v);
    e->k->at = s->plan->inst->name;
    const IndexExpr *place = index_linear(e->ix, s->plan->operand, to);
    LLVMValueRef at = emit_index(e, ix_mul(e->ix, place, h->bytes), 0);
    at = LLVMBuildTrunc(e->k->builder, at, gx_int_type(e->k, 32), "");
    gx_atomic(e->k, GX_ATOMIC_ADD, GX_SHARED,
              LLVMBuildAdd(e->k->builder, at, gx_i32(e->k, h->room), ""), v);
    emit_if_end(e, &guard, NULL, 0, NULL);
}

static void count_updates(Emit *e, const Histogram *h)
{
    Kernel *k = e->k;
    GxLoop loop;
    int64_t groups = shape_elements(h->s.plan->update) / h->accesses;
    gx_loop_begin(k, &loop, emit_thread_number(e), emit_index_constant(e, groups),
                  emit_index_constant(e, h->threads), NULL, 0);
    emit_scope_begin(e);
    const IndexExpr *group = emit_variable(e, loop.index, (Range){0, groups - 1});
    for (int64_t a = 0; a < h->accesses; a++)
        count_update(
            e, h, ix_add(e->ix, ix_mul(e->ix, group, h->accesses), ix_const(e->ix, a)));
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
                   .places = shape_elements(p->operand),
                   .threads = (int64_t)k->grid[0] * k->block[0],
                   .accesses = in->design->config.accesses,
                   .type = emit_type(k, p->operand->dtype)};
    h.room = gx_shared_alloc(k, (uint64_t)h.places * h.bytes, h.bytes);
    for_places(e, &h, clear_place);
    gx_barrier(k);
    count_updates(e, &h);
    gx_barrier(k);
    for_places(e, &h, add_place);
    return emitter_finish(in, e);
}
