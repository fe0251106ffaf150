/* What a kernel by CUDA Tile IR does: its tile program, operation by operation. How tileiras lays it out is not known;
 * counted is what it cannot leave out - each tile's bytes once, each element's arithmetic once, products at the rate
 * of the instructions that fit the tile - and one block a multiprocessor, as its factors fill shared memory. */
#include "ir/kernel/kind.h"
#include "ir/kernel/time/work_kinds.h"

enum {
    COPY_BYTES = 16,
    RAGGED_PANEL = 8 /* which rows have columns in common only the sizes of groups say */
};

enum { BATCH, SLOW, FAST }; /* dimensions of a product's program (ir/tile/build.c) */

typedef struct ProgramWork {
    TileWork t;
    const KernelDesign *d;
    double
        edges; /* the part of the loop's tiles in which a band's predicates are computed */
    double dots; /* cycles of the products in the loop at hand */
    uint32_t dot_count;
} ProgramWork;

static void walk(ProgramWork *w, const TileBlock *block);

static double each(const ProgramWork *w, uint32_t dims)
{
    return (double)tile_elements(w->t.p, dims) / w->t.b->threads / w->t.together;
}

/* -- memory --------------------------------------------------------------------------------------- */

/* The number of the array's element at coordinate 0, or at 1 along a dimension. */
static int64_t element_at(const TileProgram *p, const IndexExpr *element, uint32_t dim)
{
    const IndexExpr *at[TILE_MOST_DIMS];
    for (uint32_t d = 0; d < p->dim_count; d++)
        at[d] = ix_const(p->ix, d == dim);
    return ix_substitute(p->ix, element, IX_DIM, p->dim_count, at)->range.lo;
}

/* The dimension along which elements lie side by side. */
static uint32_t fast_dim(const TileProgram *p, const TileOp *op)
{
    const IndexExpr *element = index_linear(p->ix, op->shape, op->index);
    int64_t first = element_at(p, element, p->dim_count);
    uint32_t other = 0;
    for (uint32_t d = p->dim_count; d-- > 0;) {
        if ((op->dims >> d & 1) == 0 || !tile_has_coordinate(p, d))
            continue;
        if (element_at(p, element, d) == first + 1)
            return d;
        other = d;
    }
    return other;
}

/* 16 bytes at a time, of a view or by addresses, which tileiras finds side by side. */
static void move(const ProgramWork *w, const TileOp *op, uint32_t array)
{
    int64_t lanes = COPY_BYTES * 8 / dtype_info[op->dtype].bits;
    work_tile_move(&w->t, op, array, fast_dim(w->t.p, op), lanes);
}

static void store(const ProgramWork *w, const TileOp *op)
{
    double bytes = each(w, op->dims) * dtype_info[op->dtype].bits / 8;
    work_shared(w->t.b, 2 * bytes / COPY_BYTES, COPY_BYTES, 1);
    move(w, op, w->t.b->fusion->operand_count + op->array);
}

/* -- products ------------------------------------------------------------------------------------- */

/* A factor lies in shared memory as asynchronous products read it: just as it was loaded, of 16 bits, or of 8 with its terms
 * side by side. Others go through registers; so does f32, which is rounded to tf32. */
static bool is_ready(const TileProgram *p, const TileOp *factor, uint32_t over)
{
    uint32_t bits = dtype_info[factor->dtype].bits;
    while (factor->kind == TILE_BROADCAST)
        factor = factor->operands[0];
    return factor->kind == TILE_LOAD &&
           (bits == 16 || (bits == 8 && over >> fast_dim(p, factor) & 1));
}

/* Fragments that mma.sync takes from registers: of both factors, as often as warps lie side by side along the
 * other. */
static void read_fragments(const ProgramWork *w, const TileOp *op, int64_t rows)
{
    enum { FRAGMENT = 16 };
    WorkBuilder *b = w->t.b;
    double down = (double)(rows / FRAGMENT), warps = b->warps;
    down = down < 1 ? 1 : down > warps ? warps : down;
    double across = warps / down, bytes = 0;
    for (int i = 0; i < 2; i++)
        bytes += each(w, op->operands[i]->dims) *
                 dtype_info[op->operands[i]->dtype].bits / 8 * (i == 0 ? across : down);
    work_shared(b, bytes / COPY_BYTES, COPY_BYTES, 1);
}

static void multiply(ProgramWork *w, const TileOp *op)
{
    WorkBuilder *b = w->t.b;
    const TileProgram *p = w->t.p;
    DType factor = op->operands[0]->dtype;
    int64_t rows = tile_elements(p, op->operands[0]->dims & ~op->over),
            columns = tile_elements(p, op->operands[1]->dims & ~op->over);
    bool is_async = product_is_async(w->d->target, rows, factor);
    double operations = 2.0 * (double)(rows * columns) / w->t.together *
                        (double)tile_elements(p, op->over & op->operands[0]->dims),
           cycles = work_product_cycles(b, factor, operations,
                                        product_percent(w->d->target, rows, factor));
    if (work_reads_windows(op->inst))
        cycles /= costs.tileir_window_fraction;
    if (!is_async)
        read_fragments(w, op, rows);
    for (int i = 0; i < 2; i++) {
        double bytes =
            each(w, op->operands[i]->dims) * dtype_info[op->operands[i]->dtype].bits / 8;
        if (is_async && !is_ready(p, op->operands[i], op->over))
            work_shared(b, 2 * bytes / COPY_BYTES, COPY_BYTES, 1);
    }
    work_instructions(b, (OpCost){.tensor = cycles}, 1.0 / b->warps);
    w->dots += cycles;
    w->dot_count++;
}

/* -- all ------------------------------------------------------------------------------------------ */

static void reduce(const ProgramWork *w, const TileOp *op)
{
    enum { LANES = 4, STEPS = 2 }; /* of a warp that share a row of a fragment */
    double rows = each(w, op->dims) * LANES;
    work_instructions(w->t.b, op_cost(op->combine, op->dtype),
                      each(w, op->operands[0]->dims));
    work_shuffles(w->t.b, STEPS * rows, 4);
}

/* Of a loop whose products depend on each other what stands between them is hidden in part only. */
static double carried_cycles(const ProgramWork *w, const WorkLoop *l)
{
    WorkCounts others = l->counts;
    others.unit[WORK_TENSOR] = 0;
    return w->dot_count < 2 ? 0
                            : w->dots + costs.attention_exposed *
                                            work_cycles(w->t.b->rates, w->t.b->device,
                                                        &others, w->t.b->warps);
}

/* Tiles of the terms that a ragged product does not need it does not read. */
static double trips_of(const ProgramWork *w, const TileOp *loop)
{
    if (loop->most == NULL || !kernel_kind_is(w->d->kind, KERNEL_CONTRACTS))
        return work_tile_trips(w->t.p, loop);
    return work_tile_steps(w->d->plan.tile->contraction, w->t.p->dims[loop->dim].size);
}

/* Of the blocks those that have something to do. */
static double busy(const KernelDesign *d, const TileProgram *p)
{
    if (!kernel_kind_is(d->kind, KERNEL_CONTRACTS))
        return 1;
    return contraction_busy(d->plan.tile->contraction, p->dims[SLOW].size,
                            p->dims[FAST].size);
}

static void loop(ProgramWork *w, const TileOp *op)
{
    WorkBuilder *b = w->t.b;
    const TileDim *along = &w->t.p->dims[op->dim];
    double trips = trips_of(w, op);
    const IndexExpr *step =
        work_loop_begin(b, trips, tile_count(along), costs.tileir_stages);
    w->t.first[op->dim] = ix_mul(b->ix, step, along->size);
    w->dots = 0;
    w->dot_count = 0;
    w->edges = work_tile_edges(w->t.p, op);
    walk(w, &op->body);
    work_loop_end(b, carried_cycles(w, work_loop_at(b, b->loop)));
    if (op->inside_begin != NULL) /* a loop of its own on each side begins with loads */
        work_wait(b, b->rates->l2_cycles *
                         ((op->inside_begin != op->begin) + (op->inside_end != op->end)));
}

static void walk(ProgramWork *w, const TileBlock *block)
{
    WorkBuilder *b = w->t.b;
    for (uint32_t i = 0; i < block->count; i++) {
        const TileOp *op = block->ops[i];
        double part = work_is_of_edges(op) ? w->edges : 1;
        switch (op->kind) {
        case TILE_LOAD:
            move(w, op, op->array);
            break;
        case TILE_STORE:
            store(w, op);
            break;
        case TILE_APPLY:
            work_instructions(b, work_tile_cost(op), part * each(w, op->dims));
            break;
        case TILE_INDEX:
        case TILE_IN_RANGE:
            work_instructions(b, (OpCost){.alu = 2, .cycles = costs.alu_cycles},
                              part * each(w, op->dims));
            break;
        case TILE_REDUCE:
            reduce(w, op);
            break;
        case TILE_DOT:
            multiply(w, op);
            break;
        case TILE_LOOP:
            loop(w, op);
            break;
        case TILE_GROUP:
        case TILE_CONSTANT:
        case TILE_BROADCAST:
        case TILE_CARRIED:
        case TILE_FINAL:
            break;
        }
    }
}

/* Bytes of the tiles that a block's loops load, as often as they are under way. */
static double loaded_bytes(const TileProgram *p, const TileBlock *block, double times)
{
    double bytes = 0;
    for (uint32_t i = 0; i < block->count; i++) {
        const TileOp *op = block->ops[i];
        if (op->kind == TILE_LOAD)
            bytes += times * (double)tile_elements(p, op->dims) *
                     dtype_info[op->dtype].bits / 8;
        bytes += loaded_bytes(p, &op->body, costs.tileir_stages);
    }
    return bytes;
}

static double sum_words(const TileProgram *p, const TileBlock *block)
{
    double most = 0;
    for (uint32_t i = 0; i < block->count; i++) {
        const TileOp *op = block->ops[i];
        double words = op->kind == TILE_DOT ? (double)tile_elements(p, op->dims) *
                                                  dtype_info[op->dtype].bits / 32
                                            : sum_words(p, &op->body);
        most = words > most ? words : most;
    }
    return most;
}

static bool is_ragged(const KernelDesign *d)
{
    return d->plan.tile->contraction->ragged.mode != RAGGED_NONE;
}

bool work_tileir(const KernelDesign *d, KernelWork *out)
{
    TileIrHints hints;
    const char *why;
    const TileProgram *p = kernel_tileir_program(d, d->arena, &hints, &why);
    if (p == NULL)
        return false;
    KernelDesign own = *d;
    double shared = loaded_bytes(p, &p->body, 1) / hints.blocks,
           most = d->target->device->block_shared;
    uint32_t threads =
        TARGET_WARP * (hints.warps != 0 ? hints.warps : (uint32_t)costs.tileir_warps);
    own.geometry =
        (KernelGeometry){.grid = {(uint32_t)tile_blocks(p) * hints.blocks, 1, 1},
                         .block = {threads, 1, 1},
                         .shared_bytes = (uint64_t)(shared < most ? shared : most)};
    ProgramWork w = {.d = d};
    WorkBuilder *b = work_begin(&own);
    b->blocks *= busy(d, p);
    work_tile_begin(&w.t, b, p, hints.blocks);
    if (!target_has(d->target,
                    FEATURE_TCGEN05)) /* else sums are in memory of their own */
        work_registers(b, sum_words(p, &p->body) / threads);
    if (kernel_kind_is(d->kind, KERNEL_CONTRACTS)) {
        TilePanels panels = tile_panels(p, is_ragged(d) ? RAGGED_PANEL : 0);
        b->matrix = (WorkMatrix){.panels = panels,
                                 .batch = w.t.first[BATCH],
                                 .origin = {w.t.first[SLOW], w.t.first[FAST]},
                                 .groups = 1,
                                 .together = hints.blocks};
    }
    walk(&w, &p->body);
    b->operations = out->operations;
    b->product_operations = out->product_operations;
    b->product_type = out->product_type;
    work_end(b, out);
    out->is_tileir = true;
    return true;
}

int64_t kernel_tileir_panel(const KernelDesign *d)
{
    KernelWork w = {.product_type = DT_INVALID};
    KernelDesign own = *d;
    own.arena =
        arena_scratch(); /* kernels are made side by side, and designs share an arena */
    bool is_known = work_tileir(&own, &w);
    arena_destroy(own.arena);
    return is_known && w.panel > 1 ? w.panel : 1;
}
