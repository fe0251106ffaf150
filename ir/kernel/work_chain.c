/* What a kernel of a chain of dots does: for each tile of columns the inner dots, what is made of them, and the outer
 * dots. */
#include "ir/kernel/dot_chain.h"
#include "ir/kernel/work_kinds.h"
#include "ir/tile/mapping.h"

enum { COPY_BYTES = 16 };

typedef struct ChainWork {
    WorkBuilder *b;
    const TileChainMapping *m;
    const TileProgram *p;
    const IndexExpr *first[TILE_MOST_DIMS]; /* of the block's tile */
} ChainWork;

static double registers_of(const LinearLayout *layout)
{
    return (double)(UINT32_C(1) << layout->in[LINEAR_REGISTER]);
}

/* A block's number as its tile along each dimension of the grid, the last fastest. */
static void place_block(ChainWork *w)
{
    int64_t inner = 1;
    for (uint32_t d = w->p->dim_count; d-- > 0;) {
        const TileDim *dim = &w->p->dims[d];
        w->first[d] = ix_const(w->b->ix, 0);
        if (dim->kind != TILE_GRID)
            continue;
        w->first[d] = work_coordinate(w->b,
                                      (WorkCoordinate){.block_div = inner,
                                                       .block_mod = tile_count(dim),
                                                       .block_mul = dim->size},
                                      tile_count(dim) * dim->size);
        inner *= tile_count(dim);
    }
}

/* A tile between memory and the block's threads: lanes of 16 bytes along `fast`, then along the other dimension. */
static void move_tile(const ChainWork *w, const TileOp *op, uint32_t array, uint32_t fast)
{
    WorkBuilder *b = w->b;
    IndexContext *ix = b->ix;
    const IndexExpr *at[TILE_MOST_DIMS],
        **index = ARENA_ARRAY(b->arena, const IndexExpr *, (size_t)op->shape->rank + 1);
    int64_t lanes = COPY_BYTES * 8 / dtype_info[op->dtype].bits,
            along = w->p->dims[fast].size, all = tile_elements(w->p, op->dims);
    lanes = lanes < along ? lanes : along;
    int64_t per_row = along / lanes, others = all / along,
            at_once = b->threads / per_row < 1 ? 1 : b->threads / per_row;
    double trips = (double)all / (double)lanes / b->threads;
    int64_t steps = trips < 1 ? 1 : (int64_t)trips;
    work_set_lanes(b, (uint32_t)lanes);
    const IndexExpr *step = work_loop_begin(b, trips, steps, (double)steps);
    const IndexExpr *column = work_coordinate(
        b, (WorkCoordinate){.thread_div = 1, .thread_mod = per_row}, per_row);
    const IndexExpr *row =
        ix_add(ix,
               work_coordinate(b, (WorkCoordinate){.thread_div = per_row},
                               at_once < others ? at_once : others),
               ix_mul(ix, step, at_once));
    for (uint32_t d = 0; d < w->p->dim_count; d++) {
        at[d] = w->first[d];
        if (d == fast)
            at[d] =
                ix_add(ix, at[d], ix_add(ix, ix_mul(ix, column, lanes), work_lane(b)));
        else if (op->dims >> d & 1)
            at[d] = ix_add(ix, at[d], row);
    }
    for (uint32_t i = 0; i < op->shape->rank; i++)
        index[i] = ix_substitute(ix, op->index[i], IX_DIM, w->p->dim_count, at);
    if (op->kind == TILE_STORE)
        work_store(b, array, op->shape, index);
    else
        work_load(b, array, op->shape, index);
    work_instructions(b, (OpCost){.alu = 3, .cycles = costs.alu_cycles}, 1);
    work_loop_end(b, 0);
    work_set_lanes(b, 1);
}

/* The loads that a factor is made of. */
static void bring(const ChainWork *w, const TileOp *op, const TileFactor *f)
{
    if (op->kind == TILE_LOAD)
        move_tile(w, op, op->array, f->fast);
    for (uint32_t i = 0; i < op->operand_count; i++)
        bring(w, op->operands[i], f);
}

double work_chain_dot(WorkBuilder *b, const TileMapping *m, bool loads_a)
{
    double bytes = 0, times = 1;
    const uint32_t dims[] = {m->row, m->column, m->term};
    const uint32_t sizes[] = {m->core->m, m->core->n, m->core->k};
    for (int i = loads_a ? 0 : 1; i < 2; i++)
        bytes += registers_of(&m->factors[i].fragment) *
                 dtype_info[m->factors[i].value->dtype].bits / 8;
    work_shared(b, bytes / COPY_BYTES, COPY_BYTES, 1);
    for (int i = 0; i < 3; i++)
        times *= (double)m->program->dims[dims[i]].size / sizes[i];
    work_instructions(b, (OpCost){.alu = 1, .tensor = work_core_cycles(b, m->core)},
                      times / m->warps[0]);
    return 2 * times * sizes[0] * sizes[1] * sizes[2];
}

static OpCost cost_of(const TileOp *op)
{
    return op->inst->op == OP_CONVERT ? convert_cost(op->operands[0]->dtype, op->dtype)
                                      : op_cost(op->inst->op, op->dtype);
}

/* What stands between the dots, for each register of the scores. */
static void compute(const ChainWork *w)
{
    const TileBlock *body = &w->m->loop->body;
    double scores = registers_of(&w->m->inner[0].sums);
    uint32_t rows = w->m->inner[0].row, columns = w->m->inner[0].column;
    uint32_t all = UINT32_C(1) << rows | UINT32_C(1) << columns;
    for (uint32_t i = 0; i < body->count; i++) {
        const TileOp *op = body->ops[i];
        double each = op->dims == all ? scores : registers_of(&w->m->rows);
        if (op->kind == TILE_APPLY)
            work_instructions(w->b, cost_of(op), each);
        else if (op->kind == TILE_IN_RANGE)
            work_instructions(w->b, (OpCost){.alu = 2, .cycles = costs.alu_cycles}, each);
        else if (op->kind == TILE_LOAD && (op->dims & ~all) == 0)
            move_tile(w, op, op->array, op->dims >> columns & 1 ? columns : rows);
    }
}

double work_chain_trips(const TileChainMapping *m)
{
    const TileProgram *p = m->program;
    const TileOp *loop = m->loop;
    IndexContext *ix = p->ix;
    uint32_t rows = m->inner[0].row;
    int64_t tiles = tile_count(&p->dims[rows]), most = tile_count(&p->dims[loop->dim]),
            sum = 0;
    for (int64_t i = 0; i < tiles; i++) {
        const IndexExpr *at[TILE_MOST_DIMS];
        for (uint32_t d = 0; d < p->dim_count; d++)
            at[d] = ix_const(ix, d == rows ? i : 0);
        int64_t begin =
            ix_substitute(ix, loop->begin, IX_SYMBOL, p->dim_count, at)->range.lo;
        int64_t end = ix_substitute(ix, loop->end, IX_SYMBOL, p->dim_count, at)->range.lo;
        begin = begin < 0 ? 0 : begin;
        end = end > most ? most : end;
        sum += end > begin ? end - begin : 0;
    }
    return (double)sum / (double)tiles;
}

void work_dot_chain(const KernelDesign *d, KernelWork *out)
{
    const char *why;
    ChainWork w = {.b = work_begin(d), .m = kernel_chain_mapping(d, d->arena, &why)};
    const TileChainMapping *m = w.m;
    WorkBuilder *b = w.b;
    double registers = m->inner_count * registers_of(&m->inner[0].sums), operations = 0;
    w.p = m->program;
    b->ix =
        w.p->ix; /* its expressions are put together with those of threads and blocks */
    place_block(&w);
    for (uint32_t i = 0; i < m->outer_count; i++)
        registers += registers_of(&m->outer[i].sums);
    work_registers(b, registers);
    for (uint32_t i = 0; i < m->inner_count; i++)
        bring(&w, m->inner[i].factors[0].value, &m->inner[i].factors[0]);
    const TileDim *along = &w.p->dims[m->loop->dim];
    double trips = work_chain_trips(m);
    const IndexExpr *step =
        work_loop_begin(b, trips, tile_count(along), (double)m->stages);
    w.first[m->loop->dim] = ix_mul(b->ix, step, along->size);
    for (uint32_t i = 0; i < m->staged_count; i++)
        bring(&w, m->staged[i]->value, m->staged[i]);
    work_barrier(b);
    for (uint32_t i = 0; i < m->inner_count; i++)
        operations += work_chain_dot(b, &m->inner[i], true);
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
    b->product_operations = operations * trips * (double)tile_blocks(w.p);
    b->operations += b->product_operations;
    b->product_type = d->plan.chain->factor;
    work_end(b, out);
}
