/* See matmul.h. */
#include "ir/analysis/matmul.h"

#include <string.h>

static const char mark[] = "{\"library\":\"cublaslt\"}";

static bool is_row_major(const Shape *s)
{
    for (uint32_t i = 0; i < s->rank; i++) {
        if (s->layout->minor_to_major[i] != (int64_t)s->rank - 1 - i)
            return false;
    }
    return true;
}

/* Dimensions first, first + 1, ... */
static bool is_run(Ints dims, int64_t first)
{
    for (uint32_t i = 0; i < dims.count; i++) {
        if (dims.data[i] != first + i)
            return false;
    }
    return true;
}

static int64_t product(const Shape *s, int64_t first, int64_t count)
{
    int64_t n = 1;
    for (int64_t i = first; i < first + count; i++)
        n *= s->dims[i];
    return n;
}

/* Batch dimensions first, then the contracted ones before or behind the others. */
static bool describe_side(const Shape *s, Ints batch, Ints contracted, int64_t *kept,
                          bool *k_first)
{
    int64_t batches = batch.count, sums = contracted.count;
    int64_t others = (int64_t)s->rank - batches - sums;
    if (!is_row_major(s) || !is_run(batch, 0) || sums == 0)
        return false;
    *k_first = is_run(contracted, batches);
    if (!*k_first && !is_run(contracted, batches + others))
        return false;
    *kept = product(s, *k_first ? batches + sums : batches, others);
    return true;
}

bool matmul_shape(const Instruction *dot, MatmulShape *out)
{
    const Shape *l = dot->operands[0]->shape, *r = dot->operands[1]->shape;
    Ints batch = inst_ints(dot, ATTR_LHS_BATCH_DIMS);
    Ints contracted = inst_ints(dot, ATTR_LHS_CONTRACTING_DIMS);
    if (!is_row_major(dot->shape) ||
        !describe_side(l, batch, contracted, &out->m, &out->lhs_k_first) ||
        !describe_side(r, inst_ints(dot, ATTR_RHS_BATCH_DIMS),
                       inst_ints(dot, ATTR_RHS_CONTRACTING_DIMS), &out->n,
                       &out->rhs_k_first))
        return false;
    out->batch = product(l, 0, batch.count);
    out->k = product(l, contracted.data[0], contracted.count);
    return true;
}

bool matmul_is_library(const Instruction *inst)
{
    Bytes config = inst_bytes(inst, ATTR_BACKEND_CONFIG);
    return inst->op == OP_DOT && config.length == sizeof mark - 1 &&
           memcmp(config.data, mark, sizeof mark - 1) == 0;
}

void matmul_set_library(Instruction *dot)
{
    inst_set_bytes(dot, ATTR_BACKEND_CONFIG, mark, sizeof mark - 1);
}
