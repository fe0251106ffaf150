/* See solver_time.h. Both ways take one step after the other, of which most only wait: the library's columns and our
 * launches have a time that was measured on an H100, with f32 matrices of 32 to 2048 columns. */
#include "ir/kernel/time/solver_time.h"

#include "ir/kernel/time/costs.h"
#include "ir/kernel/time/kernel_time.h"

typedef struct SolverCosts {
    double start, column; /* of the library: microseconds */
    double cubes;         /* its operations at solver_fraction, by columns^2 rows */
    double steps, step;   /* ours: so many for each column; microseconds at least */
} SolverCosts;

static SolverCosts costs_of(LapackKind kind)
{
    switch (kind) {
    case LAPACK_POTRF:
        return (SolverCosts){90, 0.26, 0.03, 1, 0.8};
    case LAPACK_GETRF:
        return (SolverCosts){10, 1.75, 2.0 / 3, 1, 19.4};
    case LAPACK_GEQRF:
        return (SolverCosts){400, 2.5, 4.0 / 3, 1, 20};
    case LAPACK_ORGQR:
        return (SolverCosts){150, 1.1, 4.0 / 3, 1, 12};
    case LAPACK_SYEVD:
        return (SolverCosts){350, 8.4, 9, 8, 11.5};
    default:
        return (SolverCosts){100, 92, 21, 8, 19};
    }
}

static double least_size(const SolverCall *c)
{
    return (double)(c->rows < c->columns ? c->rows : c->columns);
}

double solver_library_seconds(const SolverCall *c, const GpuModel *d)
{
    SolverCosts k = costs_of(c->how.kind);
    double n = least_size(c), m = (double)(c->rows < c->columns ? c->columns : c->rows);
    double operations = k.cubes * n * n * m * (dtype_is_complex(c->type) ? 4 : 1);
    double one =
        (k.start + k.column * n) * 1e-6 +
        operations / (plain_peak(number_component(c->type), d) * costs.solver_fraction);
    return (double)c->batch * one;
}

/* A blocked cholesky reads the matrix a few times, the others in each step. */
double solver_own_seconds(const SolverCall *c, const GpuModel *d)
{
    SolverCosts k = costs_of(c->how.kind);
    double bytes = 2.0 * dtype_info[c->type].storage * (double)c->batch *
                   (double)c->rows * (double)c->columns;
    double moved = bytes / (d->gigabytes_per_second * 1e9), step = k.step * 1e-6;
    if (c->how.kind == LAPACK_POTRF)
        moved /= costs.solver_block;
    return least_size(c) * k.steps * (moved > step ? moved : step);
}
