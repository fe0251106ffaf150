/* Cholesky factors and triangular solves of matrices whose rows fit a thread's registers. Factors: a block has a
 * matrix, a thread a row; each step shows a column to all through shared memory. Solves: the matrix lies in shared
 * memory, a thread has one column (or row) of the unknown. */
#include "ir/kernel/kinds/triangle.h"

#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

#define ROW_BYTES 256
#define SOLVE_THREADS 64

int64_t triangle_most(DType t)
{
    bool has_kernel = t == DT_F32 || t == DT_F64 || t == DT_C64 || t == DT_C128;
    return has_kernel ? ROW_BYTES / shared_bytes(t) : 0;
}

Substitution substitution_of(const Instruction *solve)
{
    const Attr *side = inst_attr(solve, ATTR_LEFT_SIDE),
               *lower = inst_attr(solve, ATTR_LOWER),
               *unit = inst_attr(solve, ATTR_UNIT_DIAGONAL);
    int64_t op = inst_int(solve, ATTR_TRANSPOSE_A, TRANSPOSE_NO);
    Substitution s = {.is_left = side != NULL && side->i != 0,
                      .is_conjugate = op == TRANSPOSE_ADJOINT,
                      .is_unit = unit != NULL && unit->i != 0};
    bool is_op = op == TRANSPOSE_YES || op == TRANSPOSE_ADJOINT;
    /* x op(a) = b is op(a)^T x^T = b^T */
    s.is_turned = is_op != !s.is_left;
    s.is_forward = (lower != NULL && lower->i != 0) != s.is_turned;
    return s;
}

static void plan_of(KernelDesign *d, OpCode op)
{
    const Instruction *inst = fusion_hero(d->fusion, op);
    const Shape *s = inst->operands[0]->shape;
    TrianglePlan *p = ARENA_NEW(d->arena, TrianglePlan);
    *p = (TrianglePlan){.inst = inst, .size = s->dims[s->rank - 1], .matrices = 1};
    for (uint32_t i = 0; i + 2 < s->rank; i++) {
        p->batch[p->batch_count++] = i;
        p->matrices *= s->dims[i];
    }
    d->plan.triangle = p;
    if (p->size > triangle_most(s->dtype))
        d->unsupported =
            refuse_text(d, "%s: a matrix of %lld rows of %s in one kernel", inst->name,
                        (long long)p->size, dtype_info[s->dtype].name);
    else if (shape_elements(inst->shape) == 0)
        d->unsupported = refuse_text(d, "%s has no elements", inst->name);
}

static void geometry_of(KernelDesign *d, int64_t blocks)
{
    const TrianglePlan *p = d->plan.triangle;
    unsigned bytes = shared_bytes(p->inst->shape->dtype);
    geometry_blocks(d, blocks, d->config.block, 1);
    geometry_shared(&d->geometry, (uint64_t)(p->size * p->size) * bytes, 16);
    d->geometry.has_barriers = true;
}

static int64_t in_warps(int64_t threads)
{
    return (threads + TARGET_WARP - 1) / TARGET_WARP * TARGET_WARP;
}

/* -- cholesky ------------------------------------------------------------------------------------ */

const char *illegal_cholesky(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    const char *why = hero_root_illegal(f->fusion, OP_CHOLESKY);
    const Instruction *hero = fusion_hero(f->fusion, OP_CHOLESKY);
    const Attr *lower = hero != NULL ? inst_attr(hero, ATTR_LOWER) : NULL;
    if (why == NULL && (lower == NULL || lower->i == 0))
        return "its factor is not a lower triangle";
    return why;
}

bool suits_cholesky(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

void plan_cholesky(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    plan_of(d, OP_CHOLESKY);
}

void configure_cholesky(const KernelDesign *d, KernelConfig *c)
{
    if (config_lacks(c, KERNEL_KEY_BLOCK))
        c->block = in_warps(d->plan.triangle->size);
}

const char *refuse_cholesky(const KernelDesign *d)
{
    int64_t size = d->plan.triangle->size;
    if (d->config.block < size)
        return refuse_text(d,
                           "\"block\" %lld has fewer threads than the matrix rows, %lld",
                           (long long)d->config.block, (long long)size);
    return block_refused(d);
}

void geometry_cholesky(KernelDesign *d)
{
    geometry_of(d, d->plan.triangle->matrices);
}

/* -- triangular-solve ------------------------------------------------------------------------------ */

const char *illegal_triangular_solve(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    return hero_root_illegal(f->fusion, OP_TRIANGULAR_SOLVE);
}

bool suits_triangular_solve(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

void plan_triangular_solve(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    plan_of(d, OP_TRIANGULAR_SOLVE);
    TrianglePlan *p = d->plan.triangle;
    const Shape *b = p->inst->shape;
    p->how = substitution_of(p->inst);
    p->columns = b->dims[b->rank - (p->how.is_left ? 1 : 2)];
}

void configure_triangular_solve(const KernelDesign *d, KernelConfig *c)
{
    int64_t threads = in_warps(d->plan.triangle->columns);
    if (config_lacks(c, KERNEL_KEY_BLOCK))
        c->block = threads < SOLVE_THREADS ? threads : SOLVE_THREADS;
}

const char *refuse_triangular_solve(const KernelDesign *d)
{
    return block_refused(d);
}

void geometry_triangular_solve(KernelDesign *d)
{
    const TrianglePlan *p = d->plan.triangle;
    int64_t block = d->config.block, parts = (p->columns + block - 1) / block;
    geometry_of(d, p->matrices * parts);
}
