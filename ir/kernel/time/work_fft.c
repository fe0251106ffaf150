/* Transforms of rows in shared memory: passes of butterflies, each with its roots. */
#include "ir/kernel/time/work_kinds.h"

typedef struct FftWork {
    WorkBuilder *b;
    const KernelDesign *d;
    const FftPlan *p;
    double items; /* complex numbers of a thread */
} FftWork;

/* Additions and products of numbers, of the row's type. */
static double arithmetic(const FftWork *w, double adds, double products)
{
    double times = adds + products;
    OpCost c = {.cycles = costs.alu_cycles};
    if (w->p->row.part == DT_F64)
        c.f64 = 1;
    else
        c.fma = 1;
    return work_instructions(w->b, c, times) / (times > 0 ? times : 1);
}

static double log_of(uint32_t radix)
{
    return work_log2(radix);
}

/* A butterfly's instructions for each of its numbers. */
static double small_cost(uint32_t radix)
{
    if ((radix & (radix - 1)) == 0)
        return 2 * log_of(radix) + (radix >= 8 ? 1.5 : 0);
    return 2.0 * (radix - 1) * (radix - 1) / radix + 4;
}

/* Roots: one by polynomials, with what finds its angle, the others by multiplication; then the products. */
static double root_cost(uint32_t radix)
{
    return (24 + 8.0 * (radix - 1)) / radix;
}

/* The elements of a thread, read (or written) one by one: all of them are under way at once. */
static void elements(const FftWork *w, bool stores)
{
    WorkBuilder *b = w->b;
    const FftPlan *p = w->p;
    const Shape *s = stores ? p->inst->shape : p->inst->operands[0]->shape;
    const IndexExpr *index[KERNEL_MOST_RANK], *position[KERNEL_MOST_RANK];
    int64_t size = s->dims[s->rank - 1], rows = w->d->config.rows;
    int64_t threads = b->threads / rows > 0 ? b->threads / rows : 1;
    bool is_along = stores ? p->writes_along : p->reads_along;
    double trips = (double)size / (double)threads;
    const IndexExpr *step =
        work_loop_begin(b, trips > 1 ? trips : 1, trips > 1 ? (int64_t)trips : 1, 8);
    WorkCoordinate in_row = {.thread_div = is_along ? 1 : rows, .thread_mod = threads};
    WorkCoordinate of_block = {.block_div = 1,
                               .block_mul = rows,
                               .thread_div = is_along ? threads : 1,
                               .thread_mod = rows};
    const IndexExpr *row = work_coordinate(b, of_block, p->rows);
    const IndexExpr *at =
        ix_add(b->ix, work_coordinate(b, in_row, threads < size ? threads : size),
               ix_mul(b->ix, step, threads));
    for (uint32_t i = 0; i + 1 < s->rank; i++) {
        uint32_t d = p->order[i];
        index[d] = i + 2 == s->rank ? row : ix_mod(b->ix, row, s->dims[d]);
        row = ix_floordiv(b->ix, row, s->dims[d]);
    }
    index[s->rank - 1] = at;
    WorkPart part = work_part_begin(b, trips < 1 ? trips : 1);
    if (stores) {
        work_preset(b, p->inst);
        for (uint32_t d = 0; d < s->rank; d++)
            position[p->position[d]] = index[d];
        work_result(b, 0, position);
    } else {
        work_element(b, p->inst->operands[0], index);
    }
    work_part_end(b, part);
    work_loop_end(b, 0);
}

static void exchange(const FftWork *w, bool stores)
{
    work_shared(w->b, w->items, w->p->row.bytes, stores ? 1.5 : 1);
    work_instructions(w->b, (OpCost){.alu = 1, .cycles = costs.alu_cycles}, 3 * w->items);
    if (!stores)
        work_wait(w->b, costs.shared_cycles);
    work_barrier(w->b);
}

static void passes(const FftWork *w)
{
    const FftRow *row = &w->p->row;
    for (uint32_t i = 0; i < row->passes; i++) {
        if (i > 0 || (row->is_packed && w->p->is_inverse))
            exchange(w, false);
        double each = small_cost(row->radix[i]) + (i > 0 ? root_cost(row->radix[i]) : 0);
        double cycles = arithmetic(w, each * w->items, 0);
        work_wait(w->b, cycles * (2 * log_of(row->radix[i]) + (i > 0 ? 16 : 0)));
        if (i + 1 < row->passes || (row->is_packed && !w->p->is_inverse))
            exchange(w, true);
    }
}

void work_fft(const KernelDesign *d, KernelWork *out)
{
    const FftPlan *p = d->plan.fft;
    WorkBuilder *b = work_begin(d);
    FftWork w = {.b = b, .d = d, .p = p};
    w.items = (double)(d->config.rows * p->row.points) / b->threads;
    work_registers(b, w.items * p->row.bytes / 4);
    elements(&w, false);
    work_wait(b, 0);
    if (p->row.is_packed && p->is_inverse) {
        arithmetic(&w, 16 * w.items, 0);
        exchange(&w, true);
    }
    passes(&w);
    if (p->row.is_packed && !p->is_inverse) {
        exchange(&w, false);
        arithmetic(&w, 16 * w.items, 0);
    }
    elements(&w, true);
    work_end(b, out);
}
