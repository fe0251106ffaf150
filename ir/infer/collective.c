/* Shape rules of collectives, of asynchronous pairs and of send and recv (sections 9.3, 9.5,
 * 9.6 of the language). Which devices form the groups is checked by the verifier, which knows
 * how many there are. */
#include "ir/infer/rules.h"

static bool want_collective(InferContext *cx, const Instruction *inst)
{
    if (inst_bool(inst, ATTR_USE_GLOBAL_DEVICE_IDS) && !inst_has(inst, ATTR_CHANNEL_ID)) {
        infer_error(cx, inst,
                    "Cannot have use_global_device_ids=true without channel_id");
        return false;
    }
    return infer_want_count(cx, inst, 1);
}

const Shape *infer_all_reduce(InferContext *cx, const Instruction *inst)
{
    if (!want_collective(cx, inst) ||
        !infer_want_arrays(cx, inst, 0, inst->operand_count))
        return NULL;
    return infer_tuple_of(cx, inst, 0, inst->operand_count);
}

/* The declared shape of result i of n: an array. NULL after a message. */
static const Shape *declared_result(InferContext *cx, const Instruction *inst,
                                    const Shape *declared, uint32_t i)
{
    uint32_t n = inst->operand_count;
    const Shape *r = declared;
    if (n > 1)
        r = shape_is_tuple(r) && r->rank == n ? r->elements[i] : NULL;
    if (r && shape_is_array(r))
        return r;
    return infer_error(cx, inst, "has %u operands, but is declared as %s", n,
                       infer_text(cx, declared));
}

/* Results whose dimension d is a multiple of the operand's (or the other way round). */
static bool want_shards(InferContext *cx, const Instruction *inst, const Shape *declared,
                        bool gathers)
{
    int64_t factor = 0;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Shape *s = operand(inst, i), *r = declared_result(cx, inst, declared, i);
        int64_t d = infer_one_dim(cx, inst, s);
        if (!r || d < 0)
            return false;
        const Shape *whole = gathers ? r : s, *shard = gathers ? s : r;
        bool fits = r->rank == s->rank && infer_same_type(r->dtype, s->dtype);
        for (uint32_t k = 0; fits && k < s->rank; k++)
            fits = k == d || infer_same_size(r->dims[k], s->dims[k]);
        int64_t f = factor;
        if (fits && shard->dims[d] > 0 && whole->dims[d] != DIM_UNBOUNDED) {
            f = whole->dims[d] / shard->dims[d];
            fits = f > 0 && whole->dims[d] % shard->dims[d] == 0;
        } else if (fits && shard->dims[d] == 0) {
            fits = whole->dims[d] == 0;
        }
        if (!fits || (factor && f && f != factor)) {
            infer_error(cx, inst, "operand %u, %s, cannot give %s along dimension %lld",
                        i, infer_text(cx, s), infer_text(cx, r), (long long)d);
            return false;
        }
        factor = f;
    }
    return true;
}

const Shape *infer_all_gather(InferContext *cx, const Instruction *inst)
{
    if (!want_collective(cx, inst) || !infer_want_shape(cx, inst) ||
        !infer_want_arrays(cx, inst, 0, inst->operand_count))
        return NULL;
    return want_shards(cx, inst, inst->shape, true) ? inst->shape : NULL;
}

const Shape *infer_reduce_scatter(InferContext *cx, const Instruction *inst)
{
    if (!want_collective(cx, inst) || !infer_want_shape(cx, inst) ||
        !infer_want_arrays(cx, inst, 0, inst->operand_count))
        return NULL;
    return want_shards(cx, inst, inst->shape, false) ? inst->shape : NULL;
}

const Shape *infer_all_gather_start(InferContext *cx, const Instruction *inst)
{
    if (!want_collective(cx, inst) || !infer_want_shape(cx, inst) ||
        !infer_want_arrays(cx, inst, 0, inst->operand_count))
        return NULL;
    const Shape *r = inst->shape;
    if (cx->sketch && shape_is_array(r)) /* without its input */
        return want_shards(cx, inst, r, true) ? r : NULL;
    if (!shape_is_tuple(r) || r->rank != 2)
        return infer_error(cx, inst, "must give (inputs, outputs), but is declared as %s",
                           infer_text(cx, r));
    if (!want_shards(cx, inst, r->elements[1], true))
        return NULL;
    const Shape *shapes[2] = {infer_tuple_of(cx, inst, 0, inst->operand_count),
                              r->elements[1]};
    return shape_tuple(cx->intern, 2, shapes);
}

const Shape *infer_collective_done(InferContext *cx, const Instruction *inst)
{
    const Shape *s = operand(inst, 0);
    if (cx->sketch && shape_is_array(s))
        return s;
    if (!shape_is_tuple(s) || s->rank < 2)
        return infer_error(cx, inst, "the operand must give (inputs, outputs), but is %s",
                           infer_text(cx, s));
    return s->elements[1];
}

const Shape *infer_all_to_all(InferContext *cx, const Instruction *inst)
{
    uint32_t n = inst->operand_count;
    if (!want_collective(cx, inst) || !infer_want_arrays(cx, inst, 0, n))
        return NULL;
    if (inst_has(inst, ATTR_DIMENSIONS)) {
        if (n != 1)
            return infer_error(cx, inst,
                               "with dimensions expects one operand, but has %u", n);
        return infer_one_dim(cx, inst, operand(inst, 0)) < 0 ? NULL : operand(inst, 0);
    }
    for (uint32_t i = 1; i < n; i++)
        if (!shape_compatible(operand(inst, i), operand(inst, 0)))
            return infer_error(
                cx, inst, "operands must have equal shapes, but are %s and %s",
                infer_text(cx, operand(inst, 0)), infer_text(cx, operand(inst, i)));
    if (n == 1 && inst->shape && shape_is_array(inst->shape))
        return operand(inst, 0);
    const Shape **shapes = ARENA_ARRAY(cx->arena, const Shape *, n);
    for (uint32_t i = 0; i < n; i++)
        shapes[i] = operand(inst, i);
    return shape_tuple(cx->intern, n, shapes);
}

const Shape *infer_ragged_all_to_all(InferContext *cx, const Instruction *inst)
{
    if (!want_collective(cx, inst) || !infer_want_arrays(cx, inst, 0, 6))
        return NULL;
    const Shape *offsets = operand(inst, 2);
    if (offsets->rank < 1 || offsets->rank > 2 || !dtype_is_integer(offsets->dtype))
        return infer_error(cx, inst,
                           "offsets and sizes must be integral of rank 1 or 2, but are "
                           "%s",
                           infer_text(cx, offsets));
    for (uint32_t i = 3; i < 6; i++)
        if (!shape_compatible(operand(inst, i), offsets))
            return infer_error(cx, inst,
                               "operands 2 to 5 must have equal shapes, but are %s and "
                               "%s",
                               infer_text(cx, offsets), infer_text(cx, operand(inst, i)));
    const Shape *in = operand(inst, 0), *out = operand(inst, 1);
    bool fits = in->dtype == out->dtype && in->rank == out->rank && in->rank > 0;
    for (uint32_t k = 1; fits && k < in->rank; k++)
        fits = in->dims[k] == out->dims[k];
    if (!fits)
        return infer_error(cx, inst,
                           "input %s and output %s must agree but for dimension 0",
                           infer_text(cx, in), infer_text(cx, out));
    return out;
}

const Shape *infer_collective_broadcast(InferContext *cx, const Instruction *inst)
{
    if (!want_collective(cx, inst))
        return NULL;
    if (inst_bool(inst, ATTR_HAS_DYNAMIC_ROOT) && inst->operand_count > 1)
        return infer_tuple_of(cx, inst, 0, inst->operand_count - 1);
    return infer_tuple_of(cx, inst, 0, inst->operand_count);
}

/* In-place form: (input, output, input offsets, output offsets) with slice_sizes. */
static bool is_in_place(const Instruction *inst)
{
    return inst_has(inst, ATTR_PERMUTE_SLICE_SIZES);
}

static bool want_permute(InferContext *cx, const Instruction *inst)
{
    IntLists pairs = inst_int_lists(inst, ATTR_SOURCE_TARGET_PAIRS);
    if (!infer_want_count(cx, inst, 1))
        return false;
    for (uint32_t i = 0; i < pairs.count; i++)
        if (pairs.data[i].count != 2 || pairs.data[i].data[0] < 0 ||
            pairs.data[i].data[1] < 0) {
            infer_error(cx, inst, "source_target_pairs: %s is no pair of device numbers",
                        infer_ints_text(cx, pairs.data[i]));
            return false;
        }
    if (is_in_place(inst) && inst->operand_count != 4) {
        infer_error(cx, inst, "with slice_sizes expects 4 operands, but has %u",
                    inst->operand_count);
        return false;
    }
    return true;
}

static const Shape *permuted(InferContext *cx, const Instruction *inst)
{
    if (is_in_place(inst))
        return operand(inst, 1);
    return infer_tuple_of(cx, inst, 0, inst->operand_count);
}

const Shape *infer_collective_permute(InferContext *cx, const Instruction *inst)
{
    return want_permute(cx, inst) ? permuted(cx, inst) : NULL;
}

const Shape *infer_collective_permute_start(InferContext *cx, const Instruction *inst)
{
    if (!want_permute(cx, inst) || !infer_want_shape(cx, inst))
        return NULL;
    const Shape *r = inst->shape;
    if (cx->sketch && shape_is_array(r)) /* without its input */
        return permuted(cx, inst);
    if (!shape_is_tuple(r) || r->rank < 2)
        return infer_error(cx, inst,
                           "must give (input, output, ...), but is declared as %s",
                           infer_text(cx, r));
    const Shape **shapes = ARENA_ARRAY(cx->arena, const Shape *, r->rank);
    for (uint32_t i = 2; i < r->rank; i++)
        shapes[i] = r->elements[i];
    shapes[0] = is_in_place(inst) ? r->elements[0] : permuted(cx, inst);
    shapes[1] = permuted(cx, inst);
    return shape_tuple(cx->intern, r->rank, shapes);
}

/* -- asynchronous computations -------------------------------------------------------- */

/* Shape ((operands...), result, context...). */
static bool is_async_shape(const Shape *s)
{
    return s && shape_is_tuple(s) && s->rank >= 2 && shape_is_tuple(s->elements[0]);
}

/* Operands begin .. continue the bound operands `first` .. of the shape's element 0. */
static bool want_bound(InferContext *cx, const Instruction *inst, uint32_t begin,
                       uint32_t first)
{
    const Shape *bound = inst->shape->elements[0];
    bool fits = bound->rank == first + (inst->operand_count - begin);
    for (uint32_t i = begin; fits && i < inst->operand_count; i++)
        fits = shape_compatible(bound->elements[first + i - begin], operand(inst, i));
    if (!fits)
        infer_error(cx, inst, "the operands do not fit element 0 of its shape, %s",
                    infer_text(cx, inst->shape));
    return fits;
}

const Shape *infer_async_start(InferContext *cx, const Instruction *inst)
{
    if (!is_async_shape(inst->shape))
        return infer_error(cx, inst,
                           "must give ((operands), result, ...), but is declared as %s",
                           inst->shape ? infer_text(cx, inst->shape) : "nothing");
    return want_bound(cx, inst, 0, 0) && infer_want_aliasing(cx, inst) ? inst->shape
                                                                       : NULL;
}

const Shape *infer_async_update(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_count(cx, inst, 1))
        return NULL;
    const Shape *s = operand(inst, 0);
    if (!is_async_shape(inst->shape) || !is_async_shape(s))
        return infer_error(
            cx, inst,
            "operand and result must be ((operands), result, ...), but are %s and "
            "%s",
            infer_text(cx, s), inst->shape ? infer_text(cx, inst->shape) : "none");
    const Shape *bound = s->elements[0], *now = inst->shape->elements[0];
    bool fits = true;
    for (uint32_t i = 0; fits && i < bound->rank; i++)
        fits = i < now->rank && shape_compatible(bound->elements[i], now->elements[i]);
    if (!fits)
        return infer_error(cx, inst, "continues %s, but is declared as %s",
                           infer_text(cx, s), infer_text(cx, inst->shape));
    return want_bound(cx, inst, 1, bound->rank) ? inst->shape : NULL;
}

/* A result that is a tuple may be bound in parts: the verifier compares it with the root. */
const Shape *infer_async_done(InferContext *cx, const Instruction *inst)
{
    const Shape *s = operand(inst, 0);
    if (!is_async_shape(s))
        return infer_error(cx, inst,
                           "the operand must be ((operands), result, ...), but is %s",
                           infer_text(cx, s));
    return shape_is_tuple(s->elements[1]) && inst->shape ? inst->shape : s->elements[1];
}

/* -- send and recv ---------------------------------------------------------------------- */

static const Shape *transfer(InferContext *cx, const Shape *data)
{
    const Shape *shapes[3] = {data, shape_scalar(cx->intern, DT_U32),
                              shape_token(cx->intern)};
    return shape_tuple(cx->intern, 3, shapes);
}

/* XLA's own tests hand the token over first, too: the shape follows operand 0 whatever it is. */
const Shape *infer_send(InferContext *cx, const Instruction *inst)
{
    const Shape *data = operand(inst, 0);
    return transfer(cx, data->dtype == DT_TOKEN ? operand(inst, 1) : data);
}

const Shape *infer_recv(InferContext *cx, const Instruction *inst)
{
    const Shape *r = inst->shape;
    if (!infer_want_token(cx, inst, 0) || !infer_want_shape(cx, inst))
        return NULL;
    if (!shape_is_tuple(r) || r->rank < 1)
        return infer_error(cx, inst,
                           "must give (data, u32[], token[]), but is declared as %s",
                           infer_text(cx, r));
    return transfer(cx, r->elements[0]);
}

static bool want_transfer(InferContext *cx, const Instruction *inst)
{
    const Shape *s = operand(inst, 0);
    if (shape_is_tuple(s) && s->rank == 3 && s->elements[2]->dtype == DT_TOKEN)
        return true;
    infer_error(cx, inst, "the operand must be (data, u32[], token[]), but is %s",
                infer_text(cx, s));
    return false;
}

const Shape *infer_send_done(InferContext *cx, const Instruction *inst)
{
    return want_transfer(cx, inst) ? shape_token(cx->intern) : NULL;
}

const Shape *infer_recv_done(InferContext *cx, const Instruction *inst)
{
    if (!want_transfer(cx, inst))
        return NULL;
    const Shape *shapes[2] = {operand(inst, 0)->elements[0], shape_token(cx->intern)};
    return shape_tuple(cx->intern, 2, shapes);
}
