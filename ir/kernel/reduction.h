/* Reductions inside a fusion, for the kernels that give a group of threads to each result: rows
 * (elements of the results of the reductions) and columns (what each of them combines).
 *
 * All reductions of a fusion with as many rows and columns as the largest one are its heroes. They
 * are made in stages: a hero whose operand depends on another hero comes later. A result of the
 * fusion has one element for each row, or one for each row and column (softmax and the like). It is
 * legal if every way from a result or a later hero to a hero reaches it at its own row.
 *
 * Sums of columns may be results beside those of rows: a reduce-window of all that the heroes reduce, whose
 * windows are so many rows each, one behind the other. They are partial sums, one row of them for a block. */
#ifndef GXC_IR_KERNEL_REDUCTION_H
#define GXC_IR_KERNEL_REDUCTION_H

#include "ir/analysis/index_map.h"
#include "ir/kernel/kind.h"

typedef struct ReductionPlan {
    int64_t rows, columns;
    uint32_t hero_count;
    const Instruction **heroes; /* by stage */
    uint32_t *stage;            /* [hero_count] ascending from 0 */
    bool minor_reduced;         /* neighbours in memory belong to one row */
    bool has_full;              /* a result has an element for each row and column */
    bool has_late;              /* and one of those needs a hero */
    bool *is_early;             /* [results] one of those that needs none */
    uint32_t sum_count;         /* results that are sums of columns */
    int64_t sum_rows;           /* that are summed for one of their elements */
    const Instruction **sums;   /* [sum_count] */
    uint32_t *sum_results;      /* [sum_count] which results they are, ascending */
} ReductionPlan;

/* NULL, and the reason in *why: the fusion is no such reduction. Lives in `a`. */
const ReductionPlan *reduction_plan(const Instruction *fusion, Arena *a,
                                    const char **why);

/* Index of a hero's operand 0 (all its arrays have the same shape) at a row and a column; of a hero's
 * result; of result `leaf` of the fusion (`column` is not used where it has one element a row). */
void reduction_operand_index(IndexContext *cx, const Instruction *hero,
                             const IndexExpr *row, const IndexExpr *column,
                             const IndexExpr **out);
void reduction_result_index(IndexContext *cx, const ReductionPlan *plan,
                            const Shape *shape, const IndexExpr *row,
                            const IndexExpr *column, const IndexExpr **out);
bool reduction_is_full(const ReductionPlan *plan, const Shape *shape);
/* A result of this shape has an element for each row. */
bool reduction_is_row(const ReductionPlan *plan, const Shape *shape);
/* Rows of partial sums of columns. */
int64_t reduction_sum_blocks(const ReductionPlan *plan);
/* An array of rows and columns summed over so many rows each: the last of them may be fewer. */
bool reduction_is_column_sum(const Instruction *inst);

/* Accesses of `lanes` columns, side by side. Where they do not divide the columns, they begin at the first column whose
 * element lies at a multiple of `lanes`, which differs from row to row; the columns before and behind them are ends,
 * always as many, at most 2 (lanes - 1), and read one by one. */
int64_t reduction_accesses(const ReductionPlan *p, int64_t lanes);
int64_t reduction_ends(const ReductionPlan *p, int64_t lanes);
/* The first column of an access; the column of an end. */
const IndexExpr *reduction_access_column(IndexContext *cx, const ReductionPlan *p,
                                         int64_t lanes, const IndexExpr *row,
                                         const IndexExpr *access);
const IndexExpr *reduction_end_column(IndexContext *cx, const ReductionPlan *p,
                                      int64_t lanes, const IndexExpr *row,
                                      const IndexExpr *end);
/* Accesses may leave out ends: no reduction asks for its elements in order. */
bool reduction_may_have_ends(const ReductionPlan *p);

/* How many heroes from `first` on are made together: those of its stage, as long as their accumulators, in
 * *values, are no more than `carried`; at least one. */
uint32_t reduction_stage(const ReductionPlan *p, uint32_t first, int64_t carried,
                         uint32_t *values);
/* Of what the blocks that share a row's columns leave in memory, one value for each of them and each row, those of
 * each accumulator together: where those of accumulator `value` begin, counted over all reductions; of so many, all
 * bytes. */
uint64_t reduction_partial_offset(const ReductionPlan *p, int64_t blocks, uint32_t value);
enum { REDUCTION_TICKET_BYTES = 4 }; /* of each blocks' results */

/* How many of the splits of a column that meet in shared memory a thread loads before it adds them, with so many values
 * each: what divides them, and leaves registers. */
uint32_t reduction_splits_together(uint32_t splits, uint32_t values);

#endif
