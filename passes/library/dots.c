/* Marks the dots that cuBLASLt makes: those of f16, bf16, f32 and f64 that are large enough to
 * gain and lie in memory as it wants them.
 *
 *   d = f32[512,512] dot(a, b), ...
 *   ->  d = f32[512,512] dot(a, b), ..., backend_config={"library":"cublaslt"}
 *
 * The sums are made in f32 (f64 for f64), or in what `algorithm` asks for: TF32 and bf16 products
 * of f32 operands only where it names them. Algorithms that the library lacks stay with our own
 * kernels.
 *
 * Needs: laid out. Keeps: everything. Ends: one sweep. */
#include "ir/analysis/matmul.h"
#include "passes/library/library.h"
#include "passes/settings.h"

static bool types_fit(const Instruction *dot)
{
    DType a = dot->operands[0]->shape->dtype, b = dot->operands[1]->shape->dtype;
    DType d = dot->shape->dtype;
    if (a != b)
        return false;
    if (a == DT_F16 || a == DT_BF16)
        return d == a || d == DT_F32;
    return (a == DT_F32 || a == DT_F64) && d == a;
}

static bool algorithm_fits(const Instruction *dot)
{
    DType a = dot->operands[0]->shape->dtype;
    switch (inst_int(dot, ATTR_ALGORITHM, ALGORITHM_UNSET)) {
    case ALGORITHM_UNSET:
        return true;
    case ALGORITHM_F16_F16_F32:
        return a == DT_F16;
    case ALGORITHM_BF16_BF16_F32:
        return a == DT_BF16 || a == DT_F32;
    case ALGORITHM_TF32_TF32_F32:
    case ALGORITHM_F32_F32_F32:
        return a == DT_F32;
    case ALGORITHM_F64_F64_F64:
        return a == DT_F64;
    default:
        return false;
    }
}

static bool is_worth_it(const Instruction *dot, const PassContext *cx)
{
    MatmulShape s;
    if (!matmul_shape(dot, &s) || s.batch > INT32_MAX || s.m < 8 || s.n < 8 || s.k < 8)
        return false;
    int64_t work;
    if (__builtin_mul_overflow(s.m, s.n, &work) ||
        __builtin_mul_overflow(work, s.k, &work) ||
        __builtin_mul_overflow(work, s.batch, &work))
        return true;
    return work >= cx->settings->library_dot_work;
}

bool pass_library_dots(Module *m, PassContext *cx)
{
    if (cx->settings->cublaslt == 0)
        return false;
    bool changed = false;
    const bool *is_program = module_programs(m, cx->scratch);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (!is_program[comp->id])
            continue;
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op != OP_DOT || !types_fit(inst) || !algorithm_fits(inst) ||
                !is_worth_it(inst, cx))
                continue;
            matmul_set_library(inst);
            changed = true;
        }
    }
    return changed;
}
