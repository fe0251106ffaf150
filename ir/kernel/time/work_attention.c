/* What a kernel of an attention does: two products for each tile of columns, and the softmax between them. */
#include "ir/base/divide.h"
#include "ir/kernel/attention/attention.h"
#include "ir/kernel/time/work_kinds.h"
#include "ir/tile/mapping.h"

enum { SLOW, FAST, COPY_BYTES = 16 };

typedef struct AttentionWork {
    WorkBuilder *b;
    const Attention *a;
    const TileChainMapping *m;
    int64_t rows, columns; /* of a tile */
    int64_t parts;         /* blocks that share a tile's columns */
    const IndexExpr *batch, *head, *row;
} AttentionWork;

/* A tile of rows of an array from memory to shared memory, or back: 16 bytes at a time. */
static void move_tile(const AttentionWork *w, const AttentionArray *x, uint32_t array,
                      const IndexExpr *head, const IndexExpr *first, int64_t rows,
                      bool is_store)
{
    WorkBuilder *b = w->b;
    IndexContext *ix = b->ix;
    int64_t bytes = dtype_info[x->base->shape->dtype].bits / 8,
            lanes = COPY_BYTES / bytes,
            per_row = ceil_div(x->dims[ATTENTION_DEPTH], lanes);
    double trips = (double)(rows * per_row) / b->threads;
    int64_t size = shape_elements(x->base->shape), steps = trips < 1 ? 1 : (int64_t)trips;
    Shape flat = {.dtype = x->base->shape->dtype,
                  .rank = 1,
                  .dims = arena_copy(b->arena, &size, sizeof size),
                  .layout = index_row_major(b->arena, 1)};
    work_set_lanes(b, (uint32_t)lanes);
    const IndexExpr *step = work_loop_begin(b, trips, steps, (double)steps);
    int64_t rows_at_once = b->threads / per_row < 1 ? 1 : b->threads / per_row;
    const IndexExpr *column = work_coordinate(
        b, (WorkCoordinate){.thread_div = 1, .thread_mod = per_row}, per_row);
    const IndexExpr *row = ix_add(
        ix, work_coordinate(b, (WorkCoordinate){.thread_div = per_row}, rows_at_once),
        ix_mul(ix, step, rows_at_once));
    column = ix_add(ix, ix_mul(ix, column, lanes), work_lane(b));
    const IndexExpr *at =
        ix_mul(ix, ix_add(ix, first, row), x->strides[ATTENTION_POSITIONS]);
    at = ix_add(ix, at, ix_mul(ix, w->batch, x->strides[ATTENTION_BATCH]));
    at = ix_add(ix, at, ix_mul(ix, head, x->strides[ATTENTION_HEADS]));
    at = ix_add(ix, at, column);
    const Shape *shape = arena_copy(b->arena, &flat, sizeof flat);
    const IndexExpr **index = ARENA_NEW(b->arena, const IndexExpr *);
    *index = at;
    if (is_store)
        work_store(b, array, shape, index);
    else
        work_load(b, array, shape, index);
    work_instructions(b, (OpCost){.alu = 3, .cycles = costs.alu_cycles}, 1);
    work_loop_end(b, 0);
    work_set_lanes(b, 1);
}

static double registers_of(const LinearLayout *layout)
{
    return (double)(UINT32_C(1) << layout->in[LINEAR_REGISTER]);
}

/* Scaled, masked, their maximum, less it, its power of two, their sum, rounded. */
static void soften(const AttentionWork *w)
{
    const Attention *a = w->a;
    double each = registers_of(&w->m->inner[0].sums), alu = 2.5, fma = 3, mufu = 1;
    double edges = w->m->has_edges ? work_tile_edges(w->m->program, w->m->loop) : 1;
    alu += 2.0 * (a->band.rows != 0) * edges + 6.0 * a->mask_count;
    if (a->bias.base != NULL) {
        fma += 2;
        alu += 4;
    }
    if (a->cap != 0) {
        mufu += 2;
        fma += 6;
    }
    work_instructions(
        w->b,
        (OpCost){.alu = alu, .fma = fma, .mufu = mufu, .cycles = 2 * costs.alu_cycles},
        each);
    work_instructions(w->b, (OpCost){.fma = 1, .cycles = costs.alu_cycles},
                      registers_of(&w->m->outer[0].sums));
    work_shuffles(w->b, 8, 4);
}

/* An element of the bias for each score. */
static void read_bias(const AttentionWork *w, const IndexExpr *first)
{
    const AttentionArray *x = &w->a->bias;
    if (x->base == NULL)
        return;
    AttentionArray part = *x; /* rows of columns */
    part.dims[ATTENTION_DEPTH] = w->columns;
    (void)first;
    move_tile(w, &part, (uint32_t)x->base->parameter, w->head, w->row,
              x->dims[ATTENTION_POSITIONS] == 1 ? 1 : w->rows, false);
}

static void locate_block(AttentionWork *w)
{
    WorkBuilder *b = w->b;
    int64_t parts = w->parts,
            tiles = ceil_div(w->a->q.dims[ATTENTION_POSITIONS], w->rows),
            heads = w->a->q.dims[ATTENTION_HEADS], batch = w->a->q.dims[ATTENTION_BATCH];
    w->row = work_coordinate(
        b, (WorkCoordinate){.block_div = parts, .block_mod = tiles, .block_mul = w->rows},
        tiles * w->rows);
    w->head = work_coordinate(
        b,
        (WorkCoordinate){.block_div = parts * tiles, .block_mod = heads, .block_mul = 1},
        heads);
    w->batch = work_coordinate(b,
                               (WorkCoordinate){.block_div = parts * tiles * heads,
                                                .block_mod = batch,
                                                .block_mul = 1},
                               batch);
}

/* A tree: a block gives what it has or, at each level, takes up as much, which was on its way to L2 and back. */
static void merge_parts(const AttentionWork *w)
{
    WorkBuilder *b = w->b;
    double words = tile_carried_registers(w->m), levels = 0;
    if (w->parts == 1)
        return;
    for (int64_t n = w->parts; n > 1; n /= 2)
        levels++;
    work_atomics(b, 1); /* the ticket */
    work_wait(b, costs.atomic_cycles);
    work_loop_begin(b, levels, (int64_t)levels, 1);
    work_instructions(b, (OpCost){.alu = 3, .fma = 2, .cycles = costs.alu_cycles}, words);
    work_wait(b, 2 * costs.atomic_cycles);
    work_loop_end(b, 0);
}

void work_attention(const KernelDesign *d, KernelWork *out)
{
    const char *why;
    AttentionWork w = {.b = work_begin(d),
                       .a = d->plan.attention,
                       .m = kernel_attention_mapping(d, d->arena, &why),
                       .rows = d->config.tile[SLOW],
                       .columns = d->config.tile[FAST],
                       .parts = d->config.column_blocks};
    const Attention *a = w.a;
    WorkBuilder *b = w.b;
    locate_block(&w);
    work_registers(b,
                   registers_of(&w.m->outer[0].sums) + registers_of(&w.m->inner[0].sums));
    move_tile(&w, &a->q, (uint32_t)a->q.base->parameter, w.head, w.row, w.rows, false);
    double trips = work_tile_trips(w.m->program, w.m->loop);
    int64_t steps =
        ceil_div(ceil_div(a->k.dims[ATTENTION_POSITIONS], w.columns), w.parts);
    const IndexExpr *step =
        work_loop_begin(b, trips / (double)w.parts, steps, (double)w.m->stages);
    const IndexExpr *part = work_coordinate(
        b, (WorkCoordinate){.block_div = 1, .block_mod = w.parts, .block_mul = steps},
        w.parts * steps);
    const IndexExpr *first = ix_mul(b->ix, ix_add(b->ix, part, step), w.columns),
                    *head = ix_floordiv(b->ix, w.head,
                                        a->q.dims[ATTENTION_HEADS] /
                                            a->k.dims[ATTENTION_HEADS]);
    move_tile(&w, &a->k, (uint32_t)a->k.base->parameter, head, first, w.columns, false);
    move_tile(&w, &a->v, (uint32_t)a->v.base->parameter, head, first, w.columns, false);
    work_barrier(b);
    work_chain_dot(b, &w.m->inner[0], !w.m->inner[0].factors[0].is_kept);
    read_bias(&w, first);
    soften(&w);
    work_chain_dot(b, &w.m->outer[0], false);
    work_loop_end(b, 0);
    merge_parts(&w);
    work_shared(b, 2 * (double)w.m->results[0].bytes / b->threads / COPY_BYTES,
                COPY_BYTES, 1);
    move_tile(&w, &a->o, b->fusion->operand_count, w.head, w.row, w.rows, true);
    const int64_t *q = a->q.dims;
    b->product_operations = 2.0 * (double)(q[ATTENTION_BATCH] * q[ATTENTION_HEADS]) *
                            (double)(ceil_div(q[ATTENTION_POSITIONS], w.rows) * w.rows) *
                            trips * (double)w.columns *
                            (double)(q[ATTENTION_DEPTH] + a->v.dims[ATTENTION_DEPTH]);
    b->operations += b->product_operations;
    DType t = a->q.base->shape->dtype, other = a->v.base->shape->dtype;
    b->product_type = dtype_info[other].bits < dtype_info[t].bits ? other : t; /* least */
    work_end(b, out);
}
