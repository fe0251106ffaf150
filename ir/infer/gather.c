/* Shape rules of gather and scatter (section 9.10 of the language). */
#include "ir/infer/rules.h"

/* Rank of the indices with the implied last dimension of 1 where index_vector_dim names it. */
static int64_t expanded_rank(const Shape *indices, int64_t vector_dim)
{
    return (int64_t)indices->rank + (vector_dim == indices->rank);
}

static bool want_index_vector(InferContext *cx, const Instruction *inst,
                              const Shape *indices, int64_t vector_dim, Ints map,
                              const char *map_name, int64_t operand_rank)
{
    if (!dtype_is_integer(indices->dtype)) {
        infer_error(cx, inst, "indices must be integral, but are %s",
                    infer_text(cx, indices));
        return false;
    }
    if (vector_dim < 0 || vector_dim > indices->rank) {
        infer_error(cx, inst,
                    "index_vector_dim=%lld is not in 0 .. %u of the indices, %s",
                    (long long)vector_dim, indices->rank, infer_text(cx, indices));
        return false;
    }
    int64_t length = vector_dim == indices->rank ? 1 : indices->dims[vector_dim];
    if (!infer_same_size(length, map.count)) {
        infer_error(
            cx, inst,
            "%s=%s must have %lld entries, the size of dimension %lld of the indices, %s",
            map_name, infer_ints_text(cx, map), (long long)length, (long long)vector_dim,
            infer_text(cx, indices));
        return false;
    }
    return infer_want_dims(cx, inst, map_name, map, operand_rank, false);
}

/* Batching dimensions pair dimensions of the operand with dimensions of the indices. */
static bool want_batching(InferContext *cx, const Instruction *inst, const Shape *s,
                          const Shape *indices, int64_t vector_dim, AttrId of_operand,
                          AttrId of_indices, Ints collapsed)
{
    Ints a = inst_ints(inst, of_operand), b = inst_ints(inst, of_indices);
    const char *a_name = attr_info[of_operand].name, *b_name = attr_info[of_indices].name;
    if (!infer_want_dims(cx, inst, a_name, a, s->rank, true) ||
        !infer_want_dims(cx, inst, b_name, b, expanded_rank(indices, vector_dim), false))
        return false;
    if (a.count != b.count) {
        infer_error(cx, inst, "%s=%s and %s=%s must have equally many entries", a_name,
                    infer_ints_text(cx, a), b_name, infer_ints_text(cx, b));
        return false;
    }
    for (uint32_t i = 0; i < a.count; i++) {
        if (ints_contain(collapsed, a.data[i])) {
            infer_error(cx, inst,
                        "dimension %lld of %s is batching and collapsed dimension",
                        (long long)a.data[i], infer_text(cx, s));
            return false;
        }
        if (b.data[i] == vector_dim ||
            !infer_same_size(s->dims[a.data[i]], indices->dims[b.data[i]])) {
            infer_error(
                cx, inst,
                "batching dimension %lld of %s does not fit dimension %lld of the "
                "indices, %s",
                (long long)a.data[i], infer_text(cx, s), (long long)b.data[i],
                infer_text(cx, indices));
            return false;
        }
    }
    return true;
}

static bool want_slice_sizes(InferContext *cx, const Instruction *inst, const Shape *s,
                             Ints sizes, Ints offset, Ints collapsed, Ints batching)
{
    if (sizes.count != s->rank ||
        (uint64_t)offset.count + collapsed.count + batching.count != s->rank) {
        infer_error(
            cx, inst,
            "slice_sizes=%s, and together offset_dims=%s, collapsed_slice_dims=%s and "
            "operand_batching_dims=%s, must have an entry per dimension of %s",
            infer_ints_text(cx, sizes), infer_ints_text(cx, offset),
            infer_ints_text(cx, collapsed), infer_ints_text(cx, batching),
            infer_text(cx, s));
        return false;
    }
    for (uint32_t i = 0; i < s->rank; i++) {
        bool vanishes = ints_contain(collapsed, i) || ints_contain(batching, i);
        if (sizes.data[i] >= 0 &&
            (s->dims[i] == DIM_UNBOUNDED || sizes.data[i] <= s->dims[i]) &&
            (!vanishes || sizes.data[i] <= 1))
            continue;
        infer_error(cx, inst,
                    "slice_sizes=%s: size %lld does not fit %sdimension %u of %s",
                    infer_ints_text(cx, sizes), (long long)sizes.data[i],
                    vanishes ? "the collapsed " : "", i, infer_text(cx, s));
        return false;
    }
    return true;
}

const Shape *infer_gather(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 2))
        return NULL;
    const Shape *s = operand(inst, 0), *indices = operand(inst, 1);
    Ints offset = inst_ints(inst, ATTR_OFFSET_DIMS);
    Ints collapsed = inst_ints(inst, ATTR_COLLAPSED_SLICE_DIMS);
    Ints map = inst_ints(inst, ATTR_START_INDEX_MAP);
    Ints sizes = inst_ints(inst, ATTR_SLICE_SIZES);
    Ints batching = inst_ints(inst, ATTR_OPERAND_BATCHING_DIMS);
    int64_t vector_dim = inst_int(inst, ATTR_INDEX_VECTOR_DIM, 0);
    if (!want_index_vector(cx, inst, indices, vector_dim, map, "start_index_map",
                           s->rank) ||
        !infer_want_dims(cx, inst, "collapsed_slice_dims", collapsed, s->rank, true) ||
        !want_batching(cx, inst, s, indices, vector_dim, ATTR_OPERAND_BATCHING_DIMS,
                       ATTR_START_INDICES_BATCHING_DIMS, collapsed))
        return NULL;
    uint32_t rank = (uint32_t)(expanded_rank(indices, vector_dim) - 1) + offset.count;
    if (!infer_want_dims(cx, inst, "offset_dims", offset, rank, true) ||
        !want_slice_sizes(cx, inst, s, sizes, offset, collapsed, batching))
        return NULL;
    int64_t stack[INFER_STACK];
    int64_t *dims = infer_dims_array(cx, stack, rank);
    bool *dynamic =
        indices->dynamic || s->dynamic ? ARENA_ARRAY(cx->arena, bool, rank) : NULL;
    uint32_t from_slice = 0, from_indices = 0, next_offset = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (next_offset < offset.count && offset.data[next_offset] == i) {
            while (ints_contain(collapsed, from_slice) ||
                   ints_contain(batching, from_slice))
                from_slice++;
            dims[i] = sizes.data[from_slice];
            if (dynamic && s->dynamic)
                dynamic[i] = s->dynamic[from_slice] && dims[i] == s->dims[from_slice];
            from_slice++;
            next_offset++;
            continue;
        }
        from_indices += from_indices == vector_dim;
        dims[i] = indices->dims[from_indices];
        if (dynamic && indices->dynamic)
            dynamic[i] = indices->dynamic[from_indices];
        from_indices++;
    }
    return infer_array(cx, inst, s->dtype, rank, dims, dynamic);
}

/* Sizes of one update: window dimensions fit the operand, the others are those of indices. */
static bool want_update(InferContext *cx, const Instruction *inst, const Shape *s,
                        const Shape *indices, const Shape *u, int64_t vector_dim,
                        Ints window, Ints inserted, Ints batching)
{
    int64_t rank = expanded_rank(indices, vector_dim) - 1 + window.count;
    if (u->rank != rank) {
        infer_error(
            cx, inst,
            "updates must have rank %lld (update_window_dims=%s, indices %s), but are %s",
            (long long)rank, infer_ints_text(cx, window), infer_text(cx, indices),
            infer_text(cx, u));
        return false;
    }
    for (uint32_t i = 1; i < window.count; i++)
        if (window.data[i - 1] > window.data[i])
            return true; /* in a sketch: which is which is for a pass to say */
    uint32_t from_operand = 0, from_indices = 0, next_window = 0;
    for (uint32_t i = 0; i < u->rank; i++) {
        if (next_window < window.count && window.data[next_window] == i) {
            while (ints_contain(inserted, from_operand) ||
                   ints_contain(batching, from_operand))
                from_operand++;
            int64_t limit = s->dims[from_operand];
            if (u->dims[i] > limit && limit != DIM_UNBOUNDED) {
                infer_error(cx, inst,
                            "updates, %s, are larger than the operand, %s, in its "
                            "dimension %u",
                            infer_text(cx, u), infer_text(cx, s), from_operand);
                return false;
            }
            from_operand++;
            next_window++;
            continue;
        }
        from_indices += from_indices == vector_dim;
        if (!infer_same_size(u->dims[i], indices->dims[from_indices])) {
            infer_error(
                cx, inst,
                "dimension %u of the updates, %s, must have the size of dimension %u of "
                "the indices, %s",
                i, infer_text(cx, u), from_indices, infer_text(cx, indices));
            return false;
        }
        from_indices++;
    }
    return true;
}

static bool want_scatter_dims(InferContext *cx, const Instruction *inst, const Shape *s,
                              const Shape *indices, int64_t vector_dim)
{
    Ints window = inst_ints(inst, ATTR_UPDATE_WINDOW_DIMS);
    Ints inserted = inst_ints(inst, ATTR_INSERTED_WINDOW_DIMS);
    Ints map = inst_ints(inst, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
    Ints batching = inst_ints(inst, ATTR_INPUT_BATCHING_DIMS);
    if (!want_index_vector(cx, inst, indices, vector_dim, map,
                           "scatter_dims_to_operand_dims", s->rank) ||
        !infer_want_dims(cx, inst, "inserted_window_dims", inserted, s->rank, true) ||
        !want_batching(cx, inst, s, indices, vector_dim, ATTR_INPUT_BATCHING_DIMS,
                       ATTR_SCATTER_INDICES_BATCHING_DIMS, inserted) ||
        !infer_want_dims(cx, inst, "update_window_dims", window,
                         expanded_rank(indices, vector_dim) - 1 + window.count,
                         !cx->sketch))
        return false;
    if ((uint64_t)window.count + inserted.count + batching.count == s->rank)
        return true;
    infer_error(
        cx, inst,
        "update_window_dims=%s, inserted_window_dims=%s and input_batching_dims=%s "
        "together must have an entry per dimension of %s",
        infer_ints_text(cx, window), infer_ints_text(cx, inserted),
        infer_ints_text(cx, batching), infer_text(cx, s));
    return false;
}

const Shape *infer_scatter(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_count(cx, inst, 3) ||
        !infer_want_arrays(cx, inst, 0, inst->operand_count))
        return NULL;
    if (inst->operand_count % 2 != 1)
        return infer_error(
            cx, inst, "expects k operands, indices, and k updates, but has %u operands",
            inst->operand_count);
    uint32_t k = inst->operand_count / 2;
    const Shape *first = operand(inst, 0), *indices = operand(inst, k);
    int64_t vector_dim = inst_int(inst, ATTR_INDEX_VECTOR_DIM, 0);
    if (!want_scatter_dims(cx, inst, first, indices, vector_dim))
        return NULL;
    for (uint32_t i = 0; i < k; i++) {
        const Shape *s = operand(inst, i), *u = operand(inst, k + 1 + i);
        if (!infer_same_sizes(s, first) || !infer_same_sizes(u, operand(inst, k + 1)))
            return infer_error(
                cx, inst,
                "operands must have equal sizes, and updates too, but %u are %s "
                "and %s, 0 are %s and %s",
                i, infer_text(cx, s), infer_text(cx, u), infer_text(cx, first),
                infer_text(cx, operand(inst, k + 1)));
        if (!infer_same_type(s->dtype, u->dtype))
            return infer_error(cx, inst,
                               "operand, %s, and update, %s, differ in element type",
                               infer_text(cx, s), infer_text(cx, u));
        if (!want_update(cx, inst, s, indices, u, vector_dim,
                         inst_ints(inst, ATTR_UPDATE_WINDOW_DIMS),
                         inst_ints(inst, ATTR_INSERTED_WINDOW_DIMS),
                         inst_ints(inst, ATTR_INPUT_BATCHING_DIMS)))
            return NULL;
    }
    if (!infer_reducer(cx, inst, infer_callee(inst, ATTR_TO_APPLY), k,
                       inst->operands + k + 1, inst->operands))
        return NULL;
    return infer_tuple_of(cx, inst, 0, k);
}
