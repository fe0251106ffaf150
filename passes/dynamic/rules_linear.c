/* Rules of static-shapes for linear algebra and normalisations: what lies beyond the sizes becomes what
 * adds nothing, zeros or the unit matrix. */
#include "passes/dynamic/sized.h"
#include "passes/simplify/expand.h"

static bool has_any(const Sized *x, uint32_t first, uint32_t end)
{
    for (uint32_t d = first; d < end; d++) {
        if (sized_has(x, d))
            return true;
    }
    return false;
}

/* -- convolution ---------------------------------------------------------------------------------- */

/* Zero beyond the sizes of what is summed, in place of x[side]. */
static void zero_summed(Statics *st, Sized *const *x, uint32_t side, const DimLabels *l,
                        Sized *out)
{
    const int64_t *spatial = side == 0 ? l->lhs_spatial : l->rhs_spatial;
    int64_t *dims = ARENA_ARRAY(st->r.scratch, int64_t, l->spatial_rank + 1u);
    for (uint32_t i = 0; i < l->spatial_rank; i++)
        dims[i] = spatial[i];
    dims[l->spatial_rank] = side == 0 ? l->lhs_feature : l->rhs_input;
    Ints summed = {dims, l->spatial_rank + 1u};
    *out = *x[side];
    out->inst = sized_masked(st, x[side], &summed, sized_zero(st, x[side]->inst->shape));
}

bool sized_convolution(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    const DimLabels *l = inst_attr(inst, ATTR_DIM_LABELS)->labels;
    const Window *w = inst_window(inst);
    Sized masked[2], *operands[2] = {&masked[0], &masked[1]};
    bool has_groups = inst_int(inst, ATTR_FEATURE_GROUP_COUNT, 1) > 1 ||
                      inst_int(inst, ATTR_BATCH_GROUP_COUNT, 1) > 1;
    if (has_groups && (sized_has(x[0], (uint32_t)l->lhs_feature) ||
                       sized_has(x[0], (uint32_t)l->lhs_batch) ||
                       sized_has(x[1], (uint32_t)l->rhs_input) ||
                       sized_has(x[1], (uint32_t)l->rhs_output)))
        return false; /* the groups would be others */
    out->sizes = sized_scratch(st, inst->shape->rank);
    for (uint32_t i = 0; i < l->spatial_rank; i++) {
        uint32_t d = (uint32_t)l->lhs_spatial[i];
        if (i >= w->rank || sized_has(x[1], (uint32_t)l->rhs_spatial[i]))
            return false; /* its windows would be others */
        if (sized_has(x[0], d))
            out->sizes[l->out_spatial[i]] =
                sized_window_count(st, x[0]->sizes[d], &w->dims[i]);
    }
    if (sized_has(x[0], (uint32_t)l->lhs_batch))
        out->sizes[l->out_batch] = x[0]->sizes[l->lhs_batch];
    if (sized_has(x[1], (uint32_t)l->rhs_output))
        out->sizes[l->out_feature] = x[1]->sizes[l->rhs_output];
    zero_summed(st, x, 0, l, &masked[0]);
    zero_summed(st, x, 1, l, &masked[1]);
    out->inst = sized_again(st, inst, operands);
    return true;
}

/* -- matrices ------------------------------------------------------------------------------------- */

/* The matrix with the unit matrix beyond its sizes; false: only one of its dimensions has one. */
static bool with_unit(Statics *st, const Sized *x, Sized *out)
{
    const Shape *s = x->inst->shape;
    uint32_t row = s->rank - 2u;
    *out = *x;
    if (!has_any(x, row, s->rank))
        return true;
    if (!sized_has(x, row) || !sized_has(x, row + 1))
        return false;
    Rewriter *r = &st->r;
    Intern *t = r->m->intern;
    Instruction *at[2];
    for (uint32_t i = 0; i < 2; i++) {
        at[i] = rw_add(r, OP_IOTA, shape_with_dtype(t, s, DT_S32), 0, NULL);
        inst_set_int(at[i], ATTR_IOTA_DIMENSION, row + i);
    }
    Instruction *diagonal = rw_compare(r, at[0], at[1], DIRECTION_EQ);
    int64_t dims[2] = {row, row + 1};
    Instruction *parts[3] = {sized_mask(st, x, &(Ints){dims, 2}), x->inst,
                             rw_convert(r, s, diagonal)};
    out->inst = rw_add(r, OP_SELECT, s, 3, parts);
    return true;
}

bool sized_cholesky(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    Sized a, *operands[1] = {&a};
    if (!with_unit(st, x[0], &a))
        return false;
    out->inst = sized_again(st, inst, operands);
    out->sizes = x[0]->sizes;
    return true;
}

bool sized_triangular_solve(Statics *st, const Instruction *inst, Sized *const *x,
                            Sized *out)
{
    Sized a, b = *x[1], *operands[2] = {&a, &b};
    if (!with_unit(st, x[0], &a))
        return false;
    int64_t along = inst->shape->rank - (inst_bool(inst, ATTR_LEFT_SIDE) ? 2 : 1);
    b.inst = sized_masked(st, x[1], &(Ints){&along, 1}, sized_zero(st, b.inst->shape));
    out->inst = sized_again(st, inst, operands);
    out->sizes = x[1]->sizes;
    return true;
}

/* Along the transformed dimensions every element counts. */
bool sized_fft(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    uint32_t rank = inst->shape->rank, n = inst_ints(inst, ATTR_FFT_LENGTH).count;
    if (n > rank || has_any(x[0], rank - n, rank))
        return false;
    out->inst = sized_again(st, inst, x);
    out->sizes = x[0]->sizes;
    return true;
}

/* -- batch normalisation --------------------------------------------------------------------------- */

/* Elements of a feature, in the type that is computed in. */
static Instruction *feature_count(Statics *st, const Sized *x, uint32_t feature)
{
    Rewriter *r = &st->r;
    DType t = x->inst->shape->dtype;
    const Shape *s = shape_scalar(r->m->intern, dtype_info[t].bits < 32 ? DT_F32 : t);
    Instruction *count = rw_splat(r, s, 1);
    for (uint32_t d = 0; d < x->inst->shape->rank; d++) {
        if (d != feature)
            count = rw_binary(r, OP_MULTIPLY, s, count,
                              rw_convert(r, s, sized_size(st, x, d)));
    }
    return count;
}

bool sized_batch_norm(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    uint32_t feature = (uint32_t)inst_int(inst, ATTR_FEATURE_INDEX, 0);
    Instruction *again = sized_again(st, inst, x);
    Instruction *mask = sized_mask(st, x[0], NULL);
    Instruction *by =
        expand_batch_norm(&st->r, again, mask, feature_count(st, x[0], feature));
    out[0].inst = by;
    out[0].sizes = x[0]->sizes;
    for (uint32_t i = 0; i < 3 && shape_is_tuple(by->shape); i++) {
        out[i].inst = by->operands[i];
        if (i == 0 || !sized_has(x[0], feature))
            continue;
        out[i].sizes = sized_scratch(st, 1);
        out[i].sizes[0] = x[0]->sizes[feature];
    }
    return true;
}
