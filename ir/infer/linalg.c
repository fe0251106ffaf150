/* Shape rules of what is expanded into simpler operations: cholesky, triangular-solve, fft,
 * batch normalisation, random numbers (sections 9.3 and 9.4 of the language). */
#include "ir/infer/rules.h"

static bool is_square(const Shape *s)
{
    return s->rank >= 2 && infer_same_size(s->dims[s->rank - 1], s->dims[s->rank - 2]);
}

static bool is_float_complex(DType t)
{
    return dtype_is_float(t) || dtype_is_complex(t);
}

const Shape *infer_cholesky(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 1))
        return NULL;
    const Shape *a = operand(inst, 0);
    if (!is_square(a) || !is_float_complex(a->dtype))
        return infer_error(cx, inst, "expects square matrices of floats, but has %s",
                           infer_text(cx, a));
    return a;
}

const Shape *infer_triangular_solve(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 2))
        return NULL;
    const Shape *a = operand(inst, 0), *b = operand(inst, 1);
    if (!is_square(a) || !is_float_complex(a->dtype))
        return infer_error(cx, inst,
                           "operand 0 must be square matrices of floats, but is %s",
                           infer_text(cx, a));
    if (inst_int(inst, ATTR_TRANSPOSE_A, TRANSPOSE_INVALID) == TRANSPOSE_INVALID)
        return infer_error(cx, inst, "attribute transpose_a must be set");
    bool fits = a->rank == b->rank && infer_same_type(a->dtype, b->dtype);
    for (uint32_t i = 0; fits && i + 2 < a->rank; i++)
        fits = infer_same_size(a->dims[i], b->dims[i]);
    uint32_t solved = a->rank - (inst_bool(inst, ATTR_LEFT_SIDE) ? 2 : 1);
    if (!fits || !infer_same_size(a->dims[a->rank - 1], b->dims[solved]))
        return infer_error(cx, inst, "operands %s and %s do not fit each other",
                           infer_text(cx, a), infer_text(cx, b));
    return b;
}

const Shape *infer_fft(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 1))
        return NULL;
    const Shape *s = operand(inst, 0);
    Ints length = inst_ints(inst, ATTR_FFT_LENGTH);
    int64_t type = inst_int(inst, ATTR_FFT_TYPE, FFT_FFT);
    if (length.count < 1 || length.count > 3 || length.count > s->rank)
        return infer_error(cx, inst, "fft_length=%s must have 1 to 3 entries that fit %s",
                           infer_ints_text(cx, length), infer_text(cx, s));
    bool real = type == FFT_RFFT;
    if (real ? s->dtype != DT_F32 && s->dtype != DT_F64 : !dtype_is_complex(s->dtype))
        return infer_error(cx, inst,
                           "fft_type=%s expects %s elements, but the operand is %s",
                           attr_info[ATTR_FFT_TYPE].names[type],
                           real ? "f32 or f64" : "complex", infer_text(cx, s));
    int64_t stack[INFER_STACK];
    int64_t *dims = infer_dims_array(cx, stack, s->rank);
    for (uint32_t i = 0; i < s->rank; i++)
        dims[i] = s->dims[i];
    for (uint32_t i = 0; i < length.count; i++) {
        uint32_t d = s->rank - length.count + i;
        bool last = i + 1 == length.count;
        int64_t n = length.data[i];
        int64_t wanted = last && type == FFT_IRFFT && n > 0 ? n / 2 + 1 : n;
        bool is_nothing = /* sums of no elements, whatever there is */
            n == 0 && (type == FFT_FFT || type == FFT_IFFT);
        if (n < 0 || (!is_nothing && !infer_same_size(s->dims[d], wanted)))
            return infer_error(cx, inst, "fft_length=%s does not fit dimension %u of %s",
                               infer_ints_text(cx, length), d, infer_text(cx, s));
        if (last && type == FFT_RFFT)
            dims[d] = n == 0 ? 0 : n / 2 + 1;
        if (last && type == FFT_IRFFT)
            dims[d] = n;
    }
    DType dtype = s->dtype;
    if (type == FFT_RFFT)
        dtype = dtype_complex_of(dtype);
    if (type == FFT_IRFFT)
        dtype = dtype == DT_C128 ? DT_F64 : DT_F32;
    return infer_array(cx, inst, dtype, s->rank, dims, s->dynamic);
}

/* The feature dimension of operand 0; the operands numbered begin .. end - 1 are vectors with
 * an element for each feature. -1 after a message. */
static int64_t feature_dim(InferContext *cx, const Instruction *inst, uint32_t begin,
                           uint32_t end)
{
    if (!infer_want_arrays(cx, inst, 0, inst->operand_count))
        return -1;
    const Shape *s = operand(inst, 0);
    int64_t d = inst_int(inst, ATTR_FEATURE_INDEX, -1);
    if (d < 0 || d >= s->rank || !dtype_is_float(s->dtype)) {
        infer_error(cx, inst,
                    "feature_index=%lld does not fit %s, or that is not of floats",
                    (long long)d, infer_text(cx, s));
        return -1;
    }
    for (uint32_t i = begin; i < end; i++) {
        const Shape *v = operand(inst, i);
        if (v->rank == 1 && dtype_is_float(v->dtype) &&
            infer_same_size(v->dims[0], s->dims[d]))
            continue;
        infer_error(cx, inst,
                    "operand %u must have an element for each feature of %s, but is %s",
                    i, infer_text(cx, s), infer_text(cx, v));
        return -1;
    }
    return d;
}

static const Shape *with_features(InferContext *cx, const Instruction *inst, int64_t d)
{
    const Shape *s = operand(inst, 0);
    const Shape *f = shape_array(cx->intern, s->dtype, 1, &s->dims[d], NULL, NULL);
    const Shape *shapes[3] = {s, f, f};
    return shape_tuple(cx->intern, 3, shapes);
}

const Shape *infer_batch_norm_training(InferContext *cx, const Instruction *inst)
{
    int64_t d = feature_dim(cx, inst, 1, 3);
    return d < 0 ? NULL : with_features(cx, inst, d);
}

const Shape *infer_batch_norm_inference(InferContext *cx, const Instruction *inst)
{
    return feature_dim(cx, inst, 1, 5) < 0 ? NULL : operand(inst, 0);
}

const Shape *infer_batch_norm_grad(InferContext *cx, const Instruction *inst)
{
    int64_t d = feature_dim(cx, inst, 1, 4);
    if (d < 0)
        return NULL;
    if (!infer_same_sizes(operand(inst, 0), operand(inst, 4)) ||
        !infer_same_type(operand(inst, 0)->dtype, operand(inst, 4)->dtype))
        return infer_error(
            cx, inst, "operands 0 and 4 must have equal shapes, but are %s and %s",
            infer_text(cx, operand(inst, 0)), infer_text(cx, operand(inst, 4)));
    return with_features(cx, inst, d);
}

const Shape *infer_rng(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_count(cx, inst, 2) || !infer_want_arrays(cx, inst, 0, 2) ||
        !infer_want_array_shape(cx, inst))
        return NULL;
    const Shape *a = operand(inst, 0), *b = operand(inst, 1), *r = inst->shape;
    if (a->rank != 0 || b->rank != 0 || a->dtype != b->dtype || a->dtype != r->dtype)
        return infer_error(
            cx, inst,
            "expects two scalars of the result's element type, but has %s and %s "
            "for %s",
            infer_text(cx, a), infer_text(cx, b), infer_text(cx, r));
    int64_t distribution = inst_int(inst, ATTR_DISTRIBUTION, RNG_INVALID);
    bool fits = distribution == RNG_NORMAL
                    ? dtype_is_float(r->dtype)
                    : distribution == RNG_UNIFORM && !dtype_is_complex(r->dtype);
    if (!fits)
        return infer_error(cx, inst, "distribution=%s cannot give %s",
                           attr_info[ATTR_DISTRIBUTION].names[distribution],
                           infer_text(cx, r));
    return r;
}

const Shape *infer_rng_bit_generator(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 1) || !infer_want_shape(cx, inst))
        return NULL;
    const Shape *state = operand(inst, 0), *r = inst->shape;
    const Shape *bits = r;
    if (!dtype_is_integer(state->dtype))
        return infer_error(cx, inst, "the state must be integers, but is %s",
                           infer_text(cx, state));
    if (shape_is_tuple(r)) {
        if (r->rank != 2 || !shape_compatible(r->elements[0], state))
            return infer_error(cx, inst,
                               "expects to give (%s, bits), but is declared as %s",
                               infer_text(cx, state), infer_text(cx, r));
        bits = r->elements[1];
    }
    if (!shape_is_array(bits) || !dtype_is_integer(bits->dtype))
        return infer_error(cx, inst,
                           "random bits must be integers, but are declared as %s",
                           infer_text(cx, bits));
    return r;
}

const Shape *infer_rng_get_and_update_state(InferContext *cx, const Instruction *inst)
{
    int64_t two = 2;
    return infer_array(cx, inst, DT_U64, 1, &two, NULL);
}
