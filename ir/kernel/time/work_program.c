/* What the work of kernels of tile programs has in common, whoever makes them. See work_kinds.h. */
#include "ir/kernel/time/work_kinds.h"

void work_tile_begin(TileWork *w, WorkBuilder *b, const TileProgram *p, uint32_t together)
{
    int64_t inner = together;
    *w = (TileWork){.b = b, .p = p, .together = together};
    b->ix = p->ix; /* its expressions are put together with those of threads and blocks */
    for (uint32_t d = p->dim_count; d-- > 0;) {
        const TileDim *dim = &p->dims[d];
        w->first[d] = ix_const(b->ix, 0);
        if (dim->kind != TILE_GRID)
            continue;
        w->first[d] = work_coordinate(b,
                                      (WorkCoordinate){.block_div = inner,
                                                       .block_mod = tile_count(dim),
                                                       .block_mul = dim->size},
                                      tile_count(dim) * dim->size);
        inner *= tile_count(dim);
    }
}

/* Where a tile begins that an offset of the program's own says does not change how its elements lie: 0 stands for each. Their
 * numbers are those of operations, not of variables of the work. */
static const IndexExpr *without_offsets(WorkBuilder *b, const TileOp *op,
                                        const IndexExpr *e)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->operand_count; i++)
        count = op->operands[i]->id >= count ? op->operands[i]->id + 1 : count;
    const IndexExpr **zeros = ARENA_ARRAY(b->arena, const IndexExpr *, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++)
        zeros[i] = ix_const(b->ix, 0);
    return ix_substitute(b->ix, e, IX_RUNTIME, count, zeros);
}

void work_tile_move(const TileWork *w, const TileOp *op, uint32_t array, uint32_t fast,
                    int64_t lanes)
{
    WorkBuilder *b = w->b;
    IndexContext *ix = b->ix;
    const IndexExpr *at[TILE_MOST_DIMS],
        **index = ARENA_ARRAY(b->arena, const IndexExpr *, (size_t)op->shape->rank + 1);
    int64_t along = w->p->dims[fast].size, all = tile_elements(w->p, op->dims);
    lanes = lanes < along ? lanes : along;
    int64_t per_row = along / lanes, others = all / along,
            at_once = b->threads / per_row < 1 ? 1 : b->threads / per_row;
    double trips = (double)all / (double)lanes / b->threads / w->together;
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
        index[i] = ix_substitute(ix, without_offsets(b, op, op->index[i]), IX_DIM,
                                 w->p->dim_count, at);
    if (op->kind == TILE_STORE)
        work_store(b, array, op->shape, index);
    else
        work_load(b, array, op->shape, index);
    work_instructions(b, (OpCost){.alu = 3, .cycles = costs.alu_cycles}, 1);
    work_loop_end(b, 0);
    work_set_lanes(b, 1);
}

static bool depends_on(const TileOp *loop, uint32_t dim)
{
    return ix_depends(loop->begin, IX_SYMBOL, dim) ||
           ix_depends(loop->end, IX_SYMBOL, dim) ||
           (loop->inside_begin != NULL &&
            (ix_depends(loop->inside_begin, IX_SYMBOL, dim) ||
             ix_depends(loop->inside_end, IX_SYMBOL, dim)));
}

static int64_t bound_at(const TileProgram *p, const IndexExpr *e,
                        const IndexExpr *const *at, int64_t least, int64_t most)
{
    int64_t v = ix_substitute(p->ix, e, IX_SYMBOL, p->dim_count, at)->range.lo;
    return v < least ? least : v > most ? most : v;
}

/* Tiles of the loop, or those inside, on the average of the blocks. */
static double mean_trips(const TileProgram *p, const TileOp *loop, bool inside)
{
    uint32_t along = p->dim_count;
    for (uint32_t d = 0; d < p->dim_count; d++) {
        if (p->dims[d].kind == TILE_GRID && depends_on(loop, d))
            along = d;
    }
    int64_t tiles = along < p->dim_count ? tile_count(&p->dims[along]) : 1, sum = 0;
    for (int64_t i = 0; i < tiles; i++) {
        const IndexExpr *at[TILE_MOST_DIMS];
        for (uint32_t d = 0; d < p->dim_count; d++)
            at[d] = ix_const(p->ix, d == along ? i : 0);
        int64_t most = tile_count(&p->dims[loop->dim]),
                begin = bound_at(p, loop->begin, at, 0, most),
                end = bound_at(p, loop->end, at, begin, most);
        if (inside) {
            begin = bound_at(p, loop->inside_begin, at, begin, end);
            end = bound_at(p, loop->inside_end, at, begin, end);
        }
        sum += end - begin;
    }
    return (double)sum / (double)tiles;
}

double work_tile_trips(const TileProgram *p, const TileOp *loop)
{
    return mean_trips(p, loop, false);
}

double work_tile_edges(const TileProgram *p, const TileOp *loop)
{
    double all = loop->inside_begin == NULL ? 0 : mean_trips(p, loop, false);
    return all == 0 ? 1 : 1 - mean_trips(p, loop, true) / all;
}

bool work_is_of_edges(const TileOp *op)
{
    return op->known != 0 || tile_known_choice(op) != NULL;
}

/* A power of two is one instruction, and a product that is part of a sum none (SASS, sm_90a). */
OpCost work_tile_cost(const TileOp *op)
{
    if (op->is_fused)
        return (OpCost){0};
    if (tile_is_exp2(op))
        return (OpCost){.mufu = 1, .cycles = costs.mufu_cycles};
    return op->inst->op == OP_CONVERT ? convert_cost(op->operands[0]->dtype, op->dtype)
                                      : op_cost(op->inst->op, op->dtype);
}
