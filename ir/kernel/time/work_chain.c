/* What a kernel of a chain of dots does: for each tile of columns the inner dots, what is made of them, and the outer
 * dots. */
#include "ir/kernel/dot_chain.h"
#include "ir/kernel/time/work_kinds.h"
#include "ir/tile/mapping.h"

enum { COPY_BYTES = 16 };

typedef struct ChainWork {
    WorkBuilder *b;
    const TileChainMapping *m;
    TileWork t;
} ChainWork;

/* Lanes of 16 bytes along `fast`. */
static void move_tile(const ChainWork *w, const TileOp *op, uint32_t array, uint32_t fast)
{
    work_tile_move(&w->t, op, array, fast, COPY_BYTES * 8 / dtype_info[op->dtype].bits);
}

static double registers_of(const LinearLayout *layout)
{
    return (double)(UINT32_C(1) << layout->in[LINEAR_REGISTER]);
}

static void move_loads(const ChainWork *w, const TileOp *op, const TileFactor *f,
                       bool *is_seen)
{
    if (is_seen[op->id])
        return;
    is_seen[op->id] = true;
    if (op->kind == TILE_LOAD)
        move_tile(w, op, op->array, f->fast);
    for (uint32_t i = 0; i < op->operand_count; i++)
        move_loads(w, op->operands[i], f, is_seen);
}

/* The loads that a factor is made of, and what those read. */
static void bring(const ChainWork *w, const TileProgram *p, const TileFactor *f)
{
    move_loads(w, f->value, f, ARENA_ARRAY(p->arena, bool, p->op_count));
}

double work_chain_dot(WorkBuilder *b, const TileMapping *m, bool loads_a)
{
    double times = 1;
    if (m->by_warpgroup) {
        const TileDim *d = m->program->dims;
        double cycles = work_async_products(b, m, loads_a, false, &times);
        work_instructions(b, (OpCost){.alu = 2, .tensor = cycles}, 1.0 / m->warps[0]);
        return 2.0 * (double)d[m->row].size * (double)d[m->column].size *
               (double)d[m->term].size;
    }
    const uint32_t dims[] = {m->row, m->column, m->term};
    const uint32_t sizes[] = {m->core->m, m->core->n, m->core->k};
    for (int i = loads_a ? 0 : 1; i < 2; i++) {
        const TileFactor *f = &m->factors[i];
        double each = dtype_info[f->value->dtype].bits / 8.0,
               width = f->is_matrix ? COPY_BYTES : each;
        work_shared(b, registers_of(&f->fragment) * each / width, width, 1);
    }
    for (int i = 0; i < 3; i++)
        times *= (double)m->program->dims[dims[i]].size / sizes[i];
    work_instructions(b, (OpCost){.alu = 1, .tensor = work_core_cycles(b, m->core)},
                      times / m->warps[0]);
    return 2 * times * sizes[0] * sizes[1] * sizes[2];
}

/* What stands between the dots, for each register of the scores. */
static void compute(const ChainWork *w)
{
    const TileBlock *body = &w->m->loop->body;
    double scores = registers_of(&w->m->inner[0].sums);
    uint32_t rows = w->m->inner[0].row, columns = w->m->inner[0].column;
    uint32_t all = UINT32_C(1) << rows | UINT32_C(1) << columns;
    double edges = w->m->has_edges ? work_tile_edges(w->m->program, w->m->loop) : 1;
    for (uint32_t i = 0; i < body->count; i++) {
        const TileOp *op = body->ops[i];
        double each = op->dims == all ? scores : registers_of(&w->m->rows);
        each *= work_is_of_edges(op) ? edges : 1;
        if (op->kind == TILE_APPLY)
            work_instructions(w->b, work_tile_cost(op), each);
        else if (op->kind == TILE_IN_RANGE)
            work_instructions(w->b, (OpCost){.alu = 2, .cycles = costs.alu_cycles}, each);
        else if (op->kind == TILE_LOAD && (op->dims & ~all) == 0)
            move_tile(w, op, op->array, op->dims >> columns & 1 ? columns : rows);
    }
}

void work_dot_chain(const KernelDesign *d, KernelWork *out)
{
    const char *why;
    ChainWork w = {.b = work_begin(d), .m = kernel_chain_mapping(d, d->arena, &why)};
    const TileChainMapping *m = w.m;
    WorkBuilder *b = w.b;
    double registers = m->inner_count * registers_of(&m->inner[0].sums), operations = 0;
    work_tile_begin(&w.t, b, m->program, 1);
    for (uint32_t i = 0; i < m->outer_count; i++)
        registers += registers_of(&m->outer[i].sums);
    work_registers(b, registers);
    for (uint32_t i = 0; i < m->inner_count; i++)
        bring(&w, m->program, &m->inner[i].factors[0]);
    const TileDim *along = &m->program->dims[m->loop->dim];
    double trips = work_tile_trips(m->program, m->loop);
    const IndexExpr *step =
        work_loop_begin(b, trips, tile_count(along), (double)m->stages);
    w.t.first[m->loop->dim] = ix_mul(b->ix, step, along->size);
    for (uint32_t i = 0; i < m->staged_count; i++)
        bring(&w, m->program, m->staged[i]);
    work_barrier(b);
    for (uint32_t i = 0; i < m->inner_count; i++)
        operations += work_chain_dot(b, &m->inner[i], !m->inner[i].factors[0].is_kept);
    compute(&w);
    for (uint32_t i = 0; i < m->outer_count; i++)
        operations += work_chain_dot(b, &m->outer[i], false);
    work_loop_end(b, 0);
    for (uint32_t i = 0; i < m->result_count; i++) {
        const TileResult *r = &m->results[i];
        uint32_t fast = r->sums != NULL ? r->sums->column : m->inner[0].row;
        work_shared(b, 2 * (double)r->bytes / b->threads / COPY_BYTES, COPY_BYTES, 1);
        move_tile(&w, r->store, b->fusion->operand_count + r->store->array, fast);
    }
    b->product_operations = operations * trips * (double)tile_blocks(m->program);
    b->operations += b->product_operations;
    b->product_type = d->plan.chain->factor;
    work_end(b, out);
}
