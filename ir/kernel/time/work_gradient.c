/* Gradients by the filter that tap_gradient.c makes. Its steps go on while the next one's begin, as those of products that keep
 * as much of wgmma busy (tile_overlap_fraction) and copy their tiles by cp.async, too. */
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/work_kinds.h"

enum { Y, X, STRIP = 0, COLUMNS = 1, PIECE_BYTES = 16, GROUP = 128 /* threads */ };

static void issue(WorkBuilder *b, double alu)
{
    work_instructions(b, (OpCost){.alu = alu, .cycles = costs.alu_cycles}, 1);
}

/* Bytes of the image that a block copies for a run. */
static double run_bytes(const TapGradientStorage *s, const KernelConfig *c)
{
    return (double)(s->strip_rows * s->row_bytes + c->tile[STRIP] * s->y_bytes);
}

static void copy(WorkBuilder *b, const TapGradientStorage *s, const KernelConfig *c)
{
    enum { PIECE = 25, STEP = 140 /* instructions: SASS of 3x3 from 64 features */ };
    double pieces = run_bytes(s, c) / (double)c->tile[STRIP] / PIECE_BYTES / b->threads;
    work_wait(b, b->rates->memory_cycles);
    work_shared(b, pieces, PIECE_BYTES, 1);
    issue(b, PIECE * pieces + STEP);
}

/* Each four warps read a row of y and a row of the image for each row of the window that they have. */
static void multiply(WorkBuilder *b, const TapGradientStorage *s, const KernelConfig *c,
                     DType type)
{
    double terms = (double)(c->tile[COLUMNS] * s->octets * WARPGROUP_PIECE),
           rows = WARPGROUP_ROWS, columns = (double)s->sum_columns,
           calls = (double)s->calls,
           percent = b->rates->async_mma * costs.tile_overlap_fraction;
    work_shared(b, calls * terms / WARPGROUP_PIECE * (rows + columns) / GROUP,
                PIECE_BYTES, 1);
    double cycles =
        work_product_cycles(b, type, 2 * calls * rows * columns * terms, percent);
    work_instructions(b, (OpCost){.tensor = cycles}, 1.0 / WARPGROUP_WARPS);
    issue(b, 2 * calls * terms / TAPS_STEP);
}

void work_gradient_end(WorkBuilder *b, const GradientPlan *p, double copied,
                       KernelWork *out)
{
    const Instruction *hero = p->of.inst;
    b->product_operations =
        2 * (double)shape_elements(hero->shape) *
        (double)(p->images * p->of.result_size[Y] * p->of.result_size[X]);
    b->operations += b->product_operations;
    b->product_type = hero->operands[0]->shape->dtype;
    work_end(b, out);
    double read = (double)shape_bytes(hero->operands[0]->shape) +
                  (double)shape_bytes(hero->operands[1]->shape),
           written = (double)shape_bytes(hero->shape);
    out->read_bytes += read;
    out->written_bytes += written;
    out->needed_bytes += read + written;
    out->l2_bytes += written + out->blocks * copied;
}

void work_tap_gradient(const KernelDesign *d, KernelWork *out)
{
    enum { SUM = 12, BESIDE = 16 };
    const GradientPlan *p = d->plan.gradient;
    const KernelConfig *c = &d->config;
    DType type = p->of.inst->operands[0]->shape->dtype;
    TapGradientStorage s;
    tap_gradient_storage(d, &s);
    WorkBuilder *b = work_begin(d);
    double sums = (double)(s.calls * s.sum_columns) / 2;
    work_registers(b, sums + BESIDE);
    work_loop_begin(b, (double)s.steps, s.steps, (double)c->stages + 1);
    copy(b, &s, c);
    work_barrier(b);
    multiply(b, &s, c, type);
    work_loop_end(b, 0);
    issue(b, SUM * sums);
    work_gradient_end(b, p, (double)s.runs * run_bytes(&s, c), out);
}
