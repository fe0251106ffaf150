/* wide_convolution's products by tcgen05: see ir/kernel/kinds/wide_tensor.c. Thread 0 issues those of a tap and commits
 * them to one of two mbarriers, in turn; a tap later all threads wait for it, and fill the stage that it has read. */
#include "codegen/kernel/threads.h"
#include "codegen/kernel/wide.h"

/* Bytes behind `control`. */
enum { SLOT = 0, MBARRIERS = 8, MBARRIER_BYTES = 8, LANES = 32, HALF = 16 };

static LLVMValueRef control(const Wide *w, uint32_t at)
{
    return number(w->k, w->shared + w->storage.tensor.control + at);
}

/* Warp 0, which alone has to do with the memory itself. */
static void first_warp_begin(const Wide *w, GxIf *first)
{
    gx_if_begin(w->k, first, is_below(w->k, w->thread, LANES));
}

void wide_tensor_begin(Wide *w)
{
    GxIf some;
    LLVMValueRef none = number(w->k, 0);
    w->group[FEATURES] = w->group[ROWS] = none; /* all of the block's tile is one */
    first_warp_begin(w, &some);
    gx_tensor_alloc(w->k, control(w, SLOT), w->storage.tensor.taken);
    gx_if_end(w->k, &some, NULL, 0, NULL);
    gx_if_begin(w->k, &some, LLVMBuildICmp(w->b, LLVMIntEQ, w->thread, none, ""));
    for (uint32_t i = 0; i < 2; i++)
        gx_mbarrier_init(w->k, control(w, MBARRIERS + i * MBARRIER_BYTES));
    gx_if_end(w->k, &some, NULL, 0, NULL);
    gx_barrier(w->k);
    w->address = gx_load(w->k, GX_SHARED, control(w, SLOT), gx_int_type(w->k, 32), SUMS);
    w->adds = none;
}

void wide_tensor_end(const Wide *w)
{
    GxIf first;
    first_warp_begin(w, &first);
    gx_tensor_free(w->k, w->address, w->storage.tensor.taken);
    gx_if_end(w->k, &first, NULL, 0, NULL);
}

/* -- products ---------------------------------------------------------------------------------- */

static LLVMValueRef mbarrier_of(const Wide *w, LLVMValueRef at)
{
    LLVMValueRef which = LLVMBuildAnd(w->b, at, number(w->k, 1), "");
    return add(w->k, control(w, MBARRIERS), times(w->k, which, MBARRIER_BYTES));
}

void wide_tensor_issue_begin(const Wide *w, GxIf *one)
{
    gx_if_begin(w->k, one,
                LLVMBuildICmp(w->b, LLVMIntEQ, w->thread, number(w->k, 0), ""));
}

void wide_tensor_issue_end(const Wide *w, GxIf *one, LLVMValueRef at)
{
    gx_tensor_commit(w->k, mbarrier_of(w, at));
    gx_if_end(w->k, one, NULL, 0, NULL);
}

/* Of number -1 the phase before an mbarrier's first, which has ended. */
void wide_tensor_finish(const Wide *w, LLVMValueRef at)
{
    LLVMValueRef phase = LLVMBuildLShr(w->b, at, number(w->k, 1), "");
    gx_mbarrier_wait(w->k, mbarrier_of(w, at),
                     LLVMBuildAnd(w->b, phase, number(w->k, 1), ""));
}

/* From row or column `first`, a multiple of 8, on. */
static GxMatrices from(const Wide *w, const GxMatrices *x, int64_t first)
{
    GxMatrices part = *x;
    part.offset = add(w->k, x->offset, number(w->k, first / WARPGROUP_PIECE * x->stride));
    return part;
}

void wide_tensor_multiply(Wide *w, const GxMatrices *filter, const GxMatrices *patch,
                          uint32_t steps)
{
    const WideTensor *t = &w->storage.tensor;
    bool turned = w->p->positions_are_rows;
    DType type = w->p->inst->operands[0]->shape->dtype;
    for (int64_t i = 0; i < t->tiles; i++) {
        int64_t position = i % t->across, feature = i / t->across;
        GxMatrices f = from(w, filter, feature * TENSOR_ROWS),
                   p = from(w, patch, position * (turned ? TENSOR_ROWS : t->columns));
        gx_tensor_mma(w->k, type, TENSOR_ROWS, (uint32_t)t->columns, steps,
                      turned ? &p : &f, turned ? &f : &p,
                      add(w->k, w->address, number(w->k, i * t->columns)), w->adds);
    }
    w->adds = number(w->k, 1);
}

/* -- results ----------------------------------------------------------------------------------- */

/* Sums of 16 rows from `row` on, of tile `tile`, and `count` columns from `column` on. */
static void store_sums(const Wide *w, LLVMValueRef tile, LLVMValueRef row,
                       LLVMValueRef column, uint32_t count, const LLVMValueRef *sums)
{
    const WideTensor *t = &w->storage.tensor;
    LLVMValueRef features = tile, positions = split(w->k, &features, t->across);
    if (!w->p->positions_are_rows) {
        wide_share_block(w, false, add(w->k, times(w->k, positions, t->columns), column),
                         add(w->k, times(w->k, features, TENSOR_ROWS), row), count, sums);
        return;
    }
    if (w->p->by_term) /* parts of a row, and the rows */
        row = add(w->k, row, times(w->k, split(w->k, &positions, t->parts), TENSOR_ROWS));
    int64_t apart = w->p->by_term ? w->storage.pitch : TENSOR_ROWS;
    wide_share_block(w, true, add(w->k, times(w->k, positions, apart), row), column,
                     count, sums);
}

/* Rows of a part of a row of results may have none of its positions. */
static LLVMValueRef has_position(const Wide *w, LLVMValueRef tile, LLVMValueRef row)
{
    LLVMValueRef part = split(w->k, &tile, w->storage.tensor.parts);
    LLVMValueRef position = add(w->k, times(w->k, part, TENSOR_ROWS), row);
    return is_below(w->k, position, w->storage.pitch);
}

/* Each four warps take some of the columns, each warp its 32 lanes of them. */
void wide_tensor_share(const Wide *w)
{
    enum { MOST_PART = 32, PART = 16, GROUP_LOG2 = 7 };
    const WideTensor *t = &w->storage.tensor;
    uint32_t part = t->columns % MOST_PART == 0 ? MOST_PART : PART;
    bool has_spare =
        w->p->by_term && w->p->positions_are_rows && w->storage.pitch % TENSOR_ROWS != 0;
    GxLoop loop;
    gx_loop_begin(w->k, &loop,
                  LLVMBuildLShr(w->b, w->thread, number(w->k, GROUP_LOG2), ""),
                  number(w->k, t->tiles * t->columns / part),
                  number(w->k, w->k->block[0] >> GROUP_LOG2), NULL, 0);
    LLVMValueRef column = times(w->k, loop.index, part), tile = column,
                 in = split(w->k, &tile, t->columns);
    for (uint32_t half = 0; half < 2; half++) {
        LLVMValueRef sums[MOST_PART / 2],
            row = add(w->k, times(w->k, w->warp, LANES), number(w->k, half * HALF));
        LLVMValueRef at =
            add(w->k, add(w->k, w->address, column), times(w->k, row, GX_TENSOR_LANE));
        GxIf there;
        if (has_spare)
            gx_if_begin(w->k, &there, has_position(w, tile, row));
        gx_tensor_load(w->k, at, part, sums);
        store_sums(w, tile, row, in, part, sums);
        if (has_spare)
            gx_if_end(w->k, &there, NULL, 0, NULL);
    }
    gx_loop_end(w->k, &loop, NULL);
}
