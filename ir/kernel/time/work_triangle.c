/* Cholesky factors and triangular solves in one kernel: a chain of steps, each of which waits for the one
 * before. */
#include "ir/kernel/time/work_kinds.h"

/* Products of numbers of the type, added up. */
static void products(WorkBuilder *b, DType t, double times)
{
    OpCost c = {.cycles = costs.alu_cycles};
    if (t == DT_F64 || t == DT_C128)
        c.f64 = 1;
    else
        c.fma = 1;
    work_instructions(b, c, dtype_is_complex(t) ? 4 * times : times);
}

/* The steps: a column from shared memory, `divisions` one behind the other, half of the row's numbers on average;
 * the next step needs the first one of them. */
static void steps(WorkBuilder *b, const TrianglePlan *p, double divisions,
                  bool has_barrier)
{
    DType t = p->inst->shape->dtype;
    double n = (double)p->size, bytes = shared_bytes(t);
    OpCost division = op_cost(OP_DIVIDE, t);
    work_loop_begin(b, n, p->size, 1);
    if (has_barrier) {
        work_shared(b, 1, bytes, 1);
        work_barrier(b);
    }
    work_shared(b, n / 2 * bytes / 16, 16, 1);
    work_instructions(b, division, divisions);
    products(b, t, n / 2);
    work_loop_end(b, division.cycles * divisions + 4 * costs.alu_cycles +
                         (has_barrier ? costs.barrier_cycles + costs.shared_cycles : 0));
}

/* A row or column of every thread, read or written. */
static void lines(WorkBuilder *b, const TrianglePlan *p, const Instruction *from,
                  const IndexExpr *matrix, const IndexExpr *line, bool is_row)
{
    const IndexExpr *index[KERNEL_MOST_RANK];
    const Shape *s = from != NULL ? from->shape : p->inst->shape;
    const IndexExpr *at = work_loop_begin(b, (double)p->size, p->size, 8);
    work_spread(b, s, p->batch, p->batch_count, matrix, index);
    index[s->rank - 2] = is_row ? line : at;
    index[s->rank - 1] = is_row ? at : line;
    if (from != NULL)
        work_element(b, from, index);
    else
        work_store(b, b->comp->parameter_count, s, index);
    work_loop_end(b, 0);
}

void work_cholesky(const KernelDesign *d, KernelWork *out)
{
    const TrianglePlan *p = d->plan.triangle;
    WorkBuilder *b = work_begin(d);
    WorkCoordinate of_block = {.block_div = 1, .block_mul = 1};
    WorkCoordinate of_thread = {.thread_div = 1, .thread_mod = p->size};
    const IndexExpr *matrix = work_coordinate(b, of_block, p->matrices);
    const IndexExpr *row = work_coordinate(b, of_thread, p->size);
    work_registers(b, (double)p->size * shared_bytes(p->inst->shape->dtype) / 4);
    lines(b, p, p->inst->operands[0], matrix, row, true);
    work_wait(b, 0);
    steps(b, p, 3, true); /* the root is like a division */
    lines(b, p, NULL, matrix, row, true);
    work_end(b, out);
}

/* The matrix, into shared memory. */
static void load_matrix(WorkBuilder *b, const TrianglePlan *p, const IndexExpr *matrix)
{
    const IndexExpr *index[KERNEL_MOST_RANK];
    const Instruction *a = p->inst->operands[0];
    double trips = (double)(p->size * p->size) / b->threads;
    int64_t count = trips > 1 ? (int64_t)trips : 1;
    const IndexExpr *step = work_loop_begin(b, trips > 1 ? trips : 1, count, 4);
    WorkCoordinate of_thread = {.thread_div = 1, .thread_mod = p->size * p->size};
    const IndexExpr *at = ix_add(b->ix, work_coordinate(b, of_thread, b->threads),
                                 ix_mul(b->ix, step, b->threads));
    WorkPart part = work_part_begin(b, trips < 1 ? trips : 1);
    work_spread(b, a->shape, p->batch, p->batch_count, matrix, index);
    index[a->shape->rank - 2] = ix_mod(b->ix, ix_floordiv(b->ix, at, p->size), p->size);
    index[a->shape->rank - 1] = ix_mod(b->ix, at, p->size);
    work_element(b, a, index);
    work_shared(b, 1, shared_bytes(a->shape->dtype), 1);
    work_part_end(b, part);
    work_loop_end(b, 0);
    work_barrier(b);
}

void work_triangular_solve(const KernelDesign *d, KernelWork *out)
{
    const TrianglePlan *p = d->plan.triangle;
    WorkBuilder *b = work_begin(d);
    int64_t parts = (p->columns + b->threads - 1) / b->threads;
    WorkCoordinate of_matrix = {.block_div = parts, .block_mul = 1};
    WorkCoordinate of_line = {.block_div = 1,
                              .block_mod = parts,
                              .block_mul = b->threads,
                              .thread_div = 1,
                              .thread_mod = b->threads};
    const IndexExpr *matrix = work_coordinate(b, of_matrix, p->matrices);
    const IndexExpr *line = work_coordinate(b, of_line, p->columns);
    work_registers(b, (double)p->size * shared_bytes(p->inst->shape->dtype) / 4);
    load_matrix(b, p, matrix);
    lines(b, p, p->inst->operands[1], matrix, line, !p->how.is_left);
    work_wait(b, 0);
    steps(b, p, p->how.is_unit ? 0 : 1, false);
    lines(b, p, NULL, matrix, line, !p->how.is_left);
    work_end(b, out);
}
