/* Scatters whose result depends on the order of updates, as steps that many threads can take, and that always
 * give the same bytes: updates are sorted by position, then each run of one position has a thread (SCATTER_RUNS).
 *
 *   r = scatter(x, i, u), to_apply=add
 *   ->  k = the position of each index vector as one number; those outside get one behind the last
 *       (s, p) = sort(k, iota)
 *       r = scatter(x, s, gather(u, p)), indices_are_sorted=true
 *
 * Runs may be as long as the list. Where the operation has an identity they are cut at every PIECE-th update:
 * what a piece has of the run of the piece before is reduced by itself, and scattered afterwards, a PIECE-th
 * as many updates, which may be cut again. So no thread walks over more than two pieces.
 * Many scalars are summed up run by run in one scan, and of each run the last one is scattered:
 *
 *   (_, t) = reduce-window(s, gather(u, p)), cumulative, (k, a), (l, b) -> (l, k = l ? a + b : b)
 *   r = scatter(x, s where the next one differs, else outside, t), unique_indices=true
 *
 * Left alone: unique indices, histograms and operations that atomics carry out, which need no order; windows that may
 * overlap in part; few updates.
 *
 * Needs: layouts, row-major. Keeps: values but for the order of sums. Ends: one sweep; what it makes is sorted. */
#include "ir/kernel/plans.h"
#include "ir/kernel/sort.h"
#include "passes/fusion/fusion.h"
#include "passes/settings.h"
#include "passes/simplify/rewrite.h"

/* Fewer are walked over by every owner of a position; or, if sums are wider than the arrays, by the first of each: */
#define LEAST_UPDATES 256
#define LEAST_ROUNDED 33
#define PIECE SCATTER_PIECE
#define SCANNED_UPDATES 16384 /* scalars: so many are worth a scan over all of them */
/* Many updates of few positions are put together in parts, in shared memory: */
#define BATCH_POSITIONS_BYTES 16384
#define BATCH_UPDATES 1024 /* that a part has at least */
#define LEAST_BATCHES 8
#define MOST_BATCHES 1056      /* several warps of a block make one, */
#define MOST_WARP_BATCHES 4224 /* or one warp */

typedef struct Split {
    Rewriter *r;
    const Instruction *inst;
    const Shape *indices;
    Ints indexed, batch, index_batch;
    uint32_t vector_dim;
    uint32_t count;  /* arrays */
    int64_t updates; /* index vectors */
    uint32_t
        key_count; /* dimensions of the arrays that keys choose, ascending: indexed, batch */
    int64_t *key_dims;
    int64_t positions; /* that they have */
    DType number;      /* of positions */
} Split;

/* -- small things ------------------------------------------------------------------------------------- */

static const Shape *vector(const Split *s, DType t, int64_t size)
{
    return rw_shape(s->r, t, 1, &size);
}

static Instruction *splat(const Split *s, const Shape *like, int64_t value)
{
    return rw_splat_int(s->r, like, value);
}

static Instruction *compare(const Split *s, Instruction *a, Instruction *b,
                            int64_t direction)
{
    return rw_compare(s->r, a, b, direction);
}

static Instruction *select(const Split *s, Instruction *condition, Instruction *a,
                           Instruction *b)
{
    Instruction *operands[3] = {condition, a, b};
    return rw_add(s->r, OP_SELECT, a->shape, 3, operands);
}

static Instruction *counted(const Split *s, const Shape *shape, int64_t dim)
{
    Instruction *iota = rw_add(s->r, OP_IOTA, shape, 0, NULL);
    inst_set_int(iota, ATTR_IOTA_DIMENSION, dim);
    return iota;
}

static Instruction *dim_slice(const Split *s, Instruction *x, uint32_t dim, SliceDim part)
{
    uint32_t rank = x->shape->rank;
    SliceDim *cut = ARENA_ARRAY(s->r->scratch, SliceDim, rank);
    int64_t *sizes = ARENA_ARRAY(s->r->scratch, int64_t, rank);
    for (uint32_t d = 0; d < rank; d++) {
        cut[d] = d == dim ? part : (SliceDim){0, x->shape->dims[d], 1};
        sizes[d] = (cut[d].limit - cut[d].start + cut[d].stride - 1) / cut[d].stride;
    }
    return rw_slice(s->r, rw_shape(s->r, x->shape->dtype, rank, sizes), x, cut);
}

/* -- keys --------------------------------------------------------------------------------------------- */

/* Where each index vector leads along key dimension `c`; *fits (NULL: not asked for) is and-ed with: it does not
 * lead outside. */
static Instruction *position_along(const Split *s, uint32_t c, Instruction **fits)
{
    Rewriter *r = s->r;
    Instruction *x = s->inst->operands[s->count];
    const Shape *list = vector(s, s->number, s->updates);
    int64_t component = ints_find(s->indexed, s->key_dims[c]);
    if (component < 0) { /* a batching dimension: its own number */
        int64_t dim = s->index_batch.data[ints_find(s->batch, s->key_dims[c])];
        uint32_t rank = s->indices->rank;
        int64_t *dims = arena_copy(r->scratch, s->indices->dims, rank * sizeof *dims);
        if (s->vector_dim < rank)
            dims[s->vector_dim] = 1; /* there may be no component */
        return rw_reshape(r, list, counted(s, rw_shape(r, s->number, rank, dims), dim));
    }
    if (s->vector_dim < s->indices->rank)
        x = dim_slice(s, x, s->vector_dim, (SliceDim){component, component + 1, 1});
    DType t = dtype_info[s->indices->dtype].bits > 32 ? DT_S64 : s->number;
    x = rw_reshape(r, vector(s, s->indices->dtype, s->updates), x);
    x = rw_convert(r, vector(s, t, s->updates), x);
    if (fits == NULL)
        return rw_convert(r, list, x);
    int64_t last = s->inst->operands[0]->shape->dims[s->key_dims[c]] - 1;
    Instruction *low = compare(s, x, splat(s, x->shape, 0), DIRECTION_GE);
    Instruction *high = compare(s, x, splat(s, x->shape, last), DIRECTION_LE);
    Instruction *inside = rw_binary(r, OP_AND, low->shape, low, high);
    *fits = *fits == NULL ? inside : rw_binary(r, OP_AND, inside->shape, *fits, inside);
    return rw_convert(r, list, x);
}

/* The number of each index vector's position; of one that leads outside: s->positions, or, if it need not be told from
 * others by its order, another number that leads outside. */
static Instruction *find_keys(const Split *s, bool is_sorted)
{
    Rewriter *r = s->r;
    const Shape *list = vector(s, s->number, s->updates);
    Instruction *key = NULL, *fits = NULL;
    if (is_sorted && s->key_count == 1 && dtype_info[s->indices->dtype].bits <= 32)
        return position_along(s, 0, NULL);
    for (uint32_t c = 0; c < s->key_count; c++) {
        Instruction *x = position_along(s, c, &fits);
        if (key != NULL) {
            int64_t size = s->inst->operands[0]->shape->dims[s->key_dims[c]];
            key = rw_binary(r, OP_MULTIPLY, list, key, splat(s, list, size));
            x = rw_binary(r, OP_ADD, list, key, x);
        }
        key = x;
    }
    return fits == NULL ? key : select(s, fits, key, splat(s, list, s->positions));
}

/* The index vectors of keys. */
static Instruction *index_vectors(const Split *s, Instruction *keys)
{
    Rewriter *r = s->r;
    int64_t n = keys->shape->dims[0], stride = s->positions;
    const Shape *one = rw_shape(r, s->number, 2, (int64_t[]){n, 1});
    Instruction **parts = ARENA_ARRAY(r->scratch, Instruction *, s->key_count);
    if (s->key_count == 1)
        return rw_reshape(r, one, keys);
    for (uint32_t c = 0; c < s->key_count; c++) {
        int64_t size = s->inst->operands[0]->shape->dims[s->key_dims[c]];
        Instruction *x = keys;
        stride /= size;
        x = rw_binary(r, OP_DIVIDE, x->shape, x, splat(s, x->shape, stride));
        if (c > 0) /* the first one of a key behind the last position leads outside */
            x = rw_binary(r, OP_REMAINDER, x->shape, x, splat(s, x->shape, size));
        parts[c] = rw_reshape(r, one, x);
    }
    Instruction *all =
        rw_add(r, OP_CONCATENATE, rw_shape(r, s->number, 2, (int64_t[]){n, s->key_count}),
               s->key_count, parts);
    inst_set_ints(all, ATTR_DIMENSIONS, &(int64_t){1}, 1);
    return all;
}

/* The bits of a key that differ: a sort by digits need not look at the others. */
static Instruction *low_bits(const Split *s, Computation *by, Instruction *key)
{
    Module *m = s->r->m;
    DType t = s->number == DT_S64 ? DT_U64 : DT_U32;
    int64_t mask = 1;
    while (mask < s->positions) /* keys go up to s->positions */
        mask = 2 * mask + 1;
    const Shape *scalar = shape_scalar(m->intern, t);
    Literal *bits = literal_create(m->arena, scalar);
    literal_set_int(bits, 0, mask);
    Instruction *operands[2] = {computation_add(by, OP_CONVERT, scalar, 1, &key, NULL),
                                computation_add_constant(by, bits, NULL)};
    return computation_add(by, OP_AND, scalar, 2, operands, NULL);
}

/* Sorts keys; gives where each was. */
static Instruction *sort_keys(const Split *s, Instruction **keys)
{
    Rewriter *r = s->r;
    Intern *t = r->m->intern;
    int64_t n = (*keys)->shape->dims[0];
    DType position = n > INT32_MAX ? DT_S64 : DT_S32;
    Computation *by = module_add_computation(r->m, "by_position");
    const Shape *scalars[2] = {shape_scalar(t, s->number), shape_scalar(t, position)};
    Instruction *p[4];
    for (uint32_t i = 0; i < 4; i++)
        p[i] = computation_add_parameter(by, i, scalars[i / 2], NULL);
    by->root = computation_add(by, OP_COMPARE, shape_scalar(t, DT_PRED), 2, p, NULL);
    inst_set_int(by->root, ATTR_DIRECTION, DIRECTION_LT);
    const Shape *lists[2] = {(*keys)->shape, vector(s, position, n)};
    Instruction *operands[2] = {*keys, counted(s, lists[1], 0)};
    Instruction *sort = rw_add(r, OP_SORT, shape_tuple(t, 2, lists), 2, operands);
    inst_set_ints(sort, ATTR_DIMENSIONS, &(int64_t){0}, 1);
    inst_set_int(sort, ATTR_IS_STABLE, 1);
    inst_set_computation(sort, ATTR_TO_APPLY, by);
    if (!sort_is_in_block(sort, r->cx->target)) {
        for (uint32_t i = 0; i < 2; i++)
            by->root->operands[i] = low_bits(s, by, p[i]);
        computation_sort(by);
    }
    *keys = rw_element(r, sort, 0);
    return rw_element(r, sort, 1);
}

/* -- updates ------------------------------------------------------------------------------------------ */

/* Updates of array `i`: one dimension of index vectors, in their order, then the window's. */
static Instruction *update_list(const Split *s, uint32_t i)
{
    Rewriter *r = s->r;
    Instruction *x = s->inst->operands[s->count + 1 + i];
    Ints window = inst_ints(s->inst, ATTR_UPDATE_WINDOW_DIMS);
    uint32_t rank = x->shape->rank, n = 0, out = 1;
    int64_t *order = ARENA_ARRAY(r->scratch, int64_t, rank + 1u);
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, rank + 1u);
    for (uint32_t d = 0; d < rank; d++) {
        if (!ints_contain(window, d))
            order[n++] = d;
    }
    for (uint32_t w = 0; w < window.count; w++)
        order[n++] = window.data[w];
    if (!rw_is_identity(order, rank))
        x = rw_in_order(r, x, order);
    sizes[0] = s->updates;
    for (uint32_t w = 0; w < window.count; w++)
        sizes[out++] = x->shape->dims[rank - window.count + w];
    return rw_reshape(r, rw_shape(r, x->shape->dtype, out, sizes), x);
}

/* Rows 0 … n - 1 of x, which may have fewer: what stands behind them nobody asks for. */
static Instruction *first_rows(const Split *s, Instruction *x, int64_t n)
{
    Instruction *fill = rw_splat(s->r, shape_scalar(s->r->m->intern, x->shape->dtype), 0);
    return rw_fill_up(s->r, x, fill, 0, n - x->shape->dims[0]);
}

/* -- scatters ----------------------------------------------------------------------------------------- */

/* Keys of which equal ones that lead to a position stand side by side. */
static Instruction *scatter_runs(const Split *s, Instruction *const *arrays,
                                 Instruction *keys, Instruction *const *updates)
{
    Rewriter *r = s->r;
    uint32_t n = 2 * s->count + 1;
    Instruction **operands = ARENA_ARRAY(r->scratch, Instruction *, n);
    for (uint32_t i = 0; i < s->count; i++) {
        operands[i] = arrays[i];
        operands[s->count + 1 + i] = updates[i];
    }
    operands[s->count] = index_vectors(s, keys);
    Instruction *out = rw_like(r, s->inst, s->inst->shape, n, operands);
    uint32_t window = updates[0]->shape->rank - 1;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, window + 1u);
    for (uint32_t w = 0; w < window; w++)
        dims[w] = (int64_t)w + 1;
    Ints inserted = inst_ints(s->inst, ATTR_INSERTED_WINDOW_DIMS);
    int64_t *all = ARENA_ARRAY(r->scratch, int64_t, inserted.count + s->batch.count + 1u);
    uint32_t count = 0;
    for (int64_t d = 0; d < arrays[0]->shape->rank; d++) {
        if (ints_contain(inserted, d) || ints_contain(s->batch, d))
            all[count++] = d;
    }
    inst_set_ints(out, ATTR_UPDATE_WINDOW_DIMS, dims, window);
    inst_set_ints(out, ATTR_INSERTED_WINDOW_DIMS, all, count);
    inst_set_ints(out, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, s->key_dims, s->key_count);
    inst_set_ints(out, ATTR_INPUT_BATCHING_DIMS, NULL, 0);
    inst_set_ints(out, ATTR_SCATTER_INDICES_BATCHING_DIMS, NULL, 0);
    inst_set_int(out, ATTR_INDEX_VECTOR_DIM, 1);
    inst_set_int(out, ATTR_INDICES_ARE_SORTED, 1);
    return out;
}

/* Of every piece: whether its first updates belong to the run of the piece before, by update. */
static Instruction *continues(const Split *s, Instruction *keys)
{
    Rewriter *r = s->r;
    int64_t pieces = keys->shape->dims[0];
    Instruction *before = dim_slice(s, keys, 1, (SliceDim){PIECE - 1, PIECE, 1});
    before = dim_slice(s, before, 0, (SliceDim){0, pieces - 1, 1});
    before = rw_reshape(r, vector(s, s->number, pieces - 1), before);
    Instruction *first[2] = {splat(s, vector(s, s->number, 1), -1), before};
    before = rw_add(r, OP_CONCATENATE, vector(s, s->number, pieces), 2, first);
    inst_set_ints(before, ATTR_DIMENSIONS, &(int64_t){0}, 1);
    before = rw_broadcast(r, keys->shape, before, 1, &(int64_t){0});
    return compare(s, keys, before, DIRECTION_EQ);
}

/* Sums of the updates of each piece that `belong` to the run of the piece before; what they read is row `at` of x
 * (NULL: their own). */
static Instruction *sum_heads(const Split *s, Instruction *x, Instruction *at,
                              Instruction *belong)
{
    Rewriter *r = s->r;
    uint32_t rank = x->shape->rank;
    int64_t pieces = belong->shape->dims[0], *sizes;
    if (at != NULL) { /* the others read a row that is near */
        const Shape *list = at->shape;
        at =
            rw_reshape(r, shape_with_dtype(r->m->intern, belong->shape, list->dtype), at);
        at = select(s, belong, at, splat(s, at->shape, 0));
        x = rw_rows(s->r, x, rw_reshape(r, list, at));
    } else {
        x = first_rows(s, x, pieces * PIECE);
    }
    sizes = ARENA_ARRAY(r->scratch, int64_t, rank + 1u);
    sizes[0] = pieces;
    sizes[1] = PIECE;
    for (uint32_t d = 1; d < rank; d++)
        sizes[d + 1] = x->shape->dims[d];
    x = rw_reshape(r, rw_shape(r, x->shape->dtype, rank + 1, sizes), x);
    const Shape *pred = shape_with_dtype(r->m->intern, x->shape, DT_PRED);
    belong = rw_broadcast(r, pred, belong, 2, (int64_t[]){0, 1});
    bool is_product = rw_reducer_op(inst_called(s->inst, 0)) == OP_MULTIPLY;
    double none = is_product ? 1 : 0;
    x = select(s, belong, x, rw_splat(r, x->shape, none));
    for (uint32_t d = 1; d < rank; d++)
        sizes[d] = x->shape->dims[d + 1];
    const Shape *scalar = shape_scalar(r->m->intern, x->shape->dtype);
    Instruction *sums = rw_binary(r, OP_REDUCE, rw_shape(r, x->shape->dtype, rank, sizes),
                                  x, rw_splat(r, scalar, none));
    inst_set_ints(sums, ATTR_DIMENSIONS, &(int64_t){1}, 1);
    inst_set_computation(sums, ATTR_TO_APPLY, inst_called(s->inst, 0));
    return sums;
}

/* Scatters rows `at` of x (NULL: all) into the array, where `keys` say, PIECE by PIECE. */
static Instruction *scatter_pieces(const Split *s, Instruction *array, Instruction *keys,
                                   Instruction *x, Instruction *at)
{
    Rewriter *r = s->r;
    int64_t n = keys->shape->dims[0], pieces = n / PIECE;
    Instruction *rows = at != NULL ? rw_rows(s->r, x, at) : first_rows(s, x, n);
    if (n <= 2 * PIECE || n % PIECE != 0)
        return scatter_runs(s, &array, keys, &rows);
    Instruction *by_piece =
        rw_reshape(r, rw_shape(r, s->number, 2, (int64_t[]){pieces, PIECE}), keys);
    Instruction *belong = continues(s, by_piece);
    Instruction *nowhere = splat(s, by_piece->shape, s->positions);
    Instruction *own = rw_reshape(r, keys->shape, select(s, belong, nowhere, by_piece));
    array = scatter_runs(s, &array, own, &rows);
    Instruction *heads = sum_heads(s, x, at, belong);
    Instruction *head_keys = select(s, belong, by_piece, nowhere);
    head_keys = dim_slice(s, head_keys, 1, (SliceDim){0, 1, 1});
    head_keys = rw_reshape(r, vector(s, s->number, pieces), head_keys);
    int64_t more = pieces > 2 * PIECE ? (PIECE - pieces % PIECE) % PIECE : 0;
    head_keys = rw_fill_up(r, head_keys,
                           splat(s, shape_scalar(r->m->intern, s->number), s->positions),
                           0, more);
    return scatter_pieces(s, array, head_keys, heads, NULL);
}

/* The type that the updates of one position are summed in. */
static DType wide_type(const Split *s)
{
    return computation_accumulator(inst_called(s->inst, 0), 0, s->count == 1);
}

/* -- many scalars ------------------------------------------------------------------------------------- */

/* (k, a), (l, b) -> (l, k = l ? a + b : b): sums of runs of equal keys, one after the other. */
static Computation *run_step(const Split *s, DType t)
{
    Intern *types = s->r->m->intern;
    Computation *step = module_add_computation(s->r->m, "of_run");
    const Shape *key = shape_scalar(types, s->number), *value = shape_scalar(types, t);
    Instruction *p[4];
    for (uint32_t i = 0; i < 4; i++)
        p[i] = computation_add_parameter(step, i, i % 2 == 0 ? key : value, NULL);
    Instruction *keys[2] = {p[0], p[2]}, *values[2] = {p[1], p[3]};
    Instruction *goes_on =
        computation_add(step, OP_COMPARE, shape_scalar(types, DT_PRED), 2, keys, NULL);
    inst_set_int(goes_on, ATTR_DIRECTION, DIRECTION_EQ);
    OpCode op = rw_reducer_op(inst_called(s->inst, 0));
    Instruction *sum = computation_add(step, op, value, 2, values, NULL);
    Instruction *chosen[3] = {goes_on, sum, p[3]};
    Instruction *last = computation_add(step, OP_SELECT, value, 3, chosen, NULL);
    step->root = computation_add(step, OP_TUPLE,
                                 shape_tuple(types, 2, (const Shape *[]){key, value}), 2,
                                 (Instruction *[]){p[2], last}, NULL);
    return step;
}

/* What each run of keys came to, up to each of its updates. */
static Instruction *scan_runs(const Split *s, Instruction *keys, Instruction *updates)
{
    Rewriter *r = s->r;
    DType t = updates->shape->dtype;
    double none = rw_reducer_op(inst_called(s->inst, 0)) == OP_MULTIPLY ? 1 : 0;
    Instruction *operands[4] = {keys, updates,
                                splat(s, shape_scalar(r->m->intern, s->number), -1),
                                rw_splat(r, shape_scalar(r->m->intern, t), none)};
    const Shape *lists[2] = {keys->shape, updates->shape};
    Instruction *scan =
        rw_add(r, OP_REDUCE_WINDOW, shape_tuple(r->m->intern, 2, lists), 4, operands);
    rw_set_cumulative(r, scan, 0, false);
    inst_set_computation(scan, ATTR_TO_APPLY, run_step(s, t));
    return rw_element(r, scan, 1);
}

/* Only the last update of each run, which has the whole sum, goes anywhere. */
static Instruction *scatter_sums(const Split *s, Instruction *keys, Instruction *updates)
{
    Rewriter *r = s->r;
    int64_t n = keys->shape->dims[0];
    updates = rw_in_type(r, updates, wide_type(s));
    Instruction *sums =
        rw_in_type(r, scan_runs(s, keys, updates), s->inst->operands[0]->shape->dtype);
    Instruction *next[2] = {dim_slice(s, keys, 0, (SliceDim){1, n, 1}),
                            splat(s, vector(s, s->number, 1), -1)};
    Instruction *after = rw_add(r, OP_CONCATENATE, keys->shape, 2, next);
    inst_set_ints(after, ATTR_DIMENSIONS, &(int64_t){0}, 1);
    Instruction *ends = compare(s, keys, after, DIRECTION_NE);
    keys = select(s, ends, keys, splat(s, keys->shape, s->positions));
    Instruction *array = s->inst->operands[0];
    Instruction *out = scatter_runs(s, &array, keys, &sums);
    inst_set_int(out, ATTR_INDICES_ARE_SORTED, 0);
    inst_set_int(out, ATTR_UNIQUE_INDICES, 1);
    return out;
}

/* -- few positions --------------------------------------------------------------------------------------- */

/* Sums and products, whose parts may be made one by one. */
static bool has_identity(const Split *s)
{
    OpCode op = rw_reducer_op(inst_called(s->inst, 0));
    DType t = s->inst->operands[0]->shape->dtype;
    return s->count == 1 && (op == OP_ADD || op == OP_MULTIPLY) && t != DT_PRED &&
           s->inst->operands[2]->shape->dtype == t;
}

/* Sums of integers, which one kernel makes: blocks have all positions in shared memory. */
static bool is_histogram(const Split *s)
{
    DType t = s->inst->operands[0]->shape->dtype;
    return rw_reducer_op(inst_called(s->inst, 0)) == OP_ADD && dtype_is_integer(t) &&
           dtype_info[t].bits >= 32 &&
           inst_ints(s->inst, ATTR_UPDATE_WINDOW_DIMS).count == 0;
}

/* Many scalars for few positions: each of `batches` parts has positions of its own, which lie in shared memory. */
static int64_t count_batches(const Split *s)
{
    const Shape *x = s->inst->operands[0]->shape,
                *update = s->inst->operands[s->count + 1]->shape;
    if (!has_identity(s) || s->batch.count != 0 || shape_elements(x) != s->positions ||
        s->positions > BATCH_POSITIONS_BYTES / shared_bytes(wide_type(s)) ||
        shape_elements(update) != s->updates || is_histogram(s))
        return 0;
    bool by_atomics = scatter_atomic_operation(s->inst) != OP_COUNT;
    int64_t most = by_atomics ? MOST_BATCHES : MOST_WARP_BATCHES,
            batches = s->updates / BATCH_UPDATES, few = s->updates / (3 * s->positions);
    batches = batches < few ? batches : few; /* positions are read, too */
    return batches < most ? batches : most;
}

static Instruction *combine(const Split *s, Instruction *a, Instruction *b)
{
    return rw_binary(s->r, rw_reducer_op(inst_called(s->inst, 0)), a->shape, a, b);
}

static Instruction *scatter_batches(const Split *s, int64_t batches)
{
    Rewriter *r = s->r;
    Instruction *x = s->inst->operands[0], *keys = find_keys(s, true);
    DType t = x->shape->dtype;
    int64_t size = (s->updates + batches - 1) / batches;
    Instruction *outside = splat(s, shape_scalar(r->m->intern, s->number), s->positions);
    keys = rw_fill_up(r, keys, outside, 0, size * batches - s->updates);
    keys = rw_reshape(r, rw_shape(r, s->number, 3, (int64_t[]){batches, size, 1}), keys);
    Instruction *updates = rw_reshape(r, vector(s, t, s->updates), update_list(s, 0));
    updates = rw_reshape(r, rw_shape(r, t, 2, (int64_t[]){batches, size}),
                         first_rows(s, updates, size * batches));
    double none = rw_reducer_op(inst_called(s->inst, 0)) == OP_MULTIPLY ? 1 : 0;
    const Shape *parts = rw_shape(r, t, 2, (int64_t[]){batches, s->positions});
    Instruction *operands[3] = {rw_splat(r, parts, none), keys, updates};
    Instruction *sums = rw_like(r, s->inst, parts, 3, operands);
    inst_set_ints(sums, ATTR_UPDATE_WINDOW_DIMS, NULL, 0);
    inst_set_ints(sums, ATTR_INSERTED_WINDOW_DIMS, &(int64_t){1}, 1);
    inst_set_ints(sums, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, &(int64_t){1}, 1);
    inst_set_ints(sums, ATTR_INPUT_BATCHING_DIMS, &(int64_t){0}, 1);
    inst_set_ints(sums, ATTR_SCATTER_INDICES_BATCHING_DIMS, &(int64_t){0}, 1);
    inst_set_int(sums, ATTR_INDEX_VECTOR_DIM, 2);
    inst_set_int(sums, ATTR_INDICES_ARE_SORTED, 0);
    Instruction *all = rw_binary(r, OP_REDUCE, vector(s, t, s->positions), sums,
                                 rw_splat(r, shape_scalar(r->m->intern, t), none));
    inst_set_ints(all, ATTR_DIMENSIONS, &(int64_t){0}, 1);
    inst_set_computation(all, ATTR_TO_APPLY, inst_called(s->inst, 0));
    return combine(s, x, rw_reshape(r, x->shape, all));
}

/* -- the pass ----------------------------------------------------------------------------------------- */

/* The program's user does not mind the order of sums. */
static Instruction *scatter_in_any_order(const Split *s)
{
    Instruction *again =
        rw_like(s->r, s->inst, s->inst->shape, s->inst->operand_count, s->inst->operands);
    scatter_set_any_order(again);
    return again;
}

static bool is_scanned(const Split *s)
{
    const Shape *update = s->inst->operands[s->count + 1]->shape;
    return has_identity(s) && s->updates >= SCANNED_UPDATES &&
           inst_ints(s->inst, ATTR_UPDATE_WINDOW_DIMS).count == 0 &&
           shape_elements(update) == s->updates;
}

static Instruction *split(const Split *s)
{
    Rewriter *r = s->r;
    int64_t batches = count_batches(s);
    if (batches >= LEAST_BATCHES)
        return scatter_batches(s, batches);
    DType type = s->inst->operands[0]->shape->dtype;
    if (r->cx->settings->scatter_atomics && has_identity(s) &&
        rw_reducer_op(inst_called(s->inst, 0)) == OP_ADD && dtype_is_float(type) &&
        dtype_info[type].bits >= 16 && !inst_bool(s->inst, ATTR_INDICES_ARE_SORTED))
        return scatter_in_any_order(s);
    bool is_sorted =
        inst_bool(s->inst, ATTR_INDICES_ARE_SORTED) && s->index_batch.count == 0;
    bool scans = is_scanned(s), cuts = has_identity(s) && !scans;
    Instruction *keys = find_keys(s, is_sorted);
    Instruction *outside = splat(s, shape_scalar(r->m->intern, s->number), s->positions);
    if (cuts && s->updates > 2 * PIECE)
        keys = rw_fill_up(r, keys, outside, 0, (PIECE - s->updates % PIECE) % PIECE);
    Instruction *at = is_sorted ? NULL : sort_keys(s, &keys);
    if (scans) {
        Instruction *list = update_list(s, 0);
        return scatter_sums(s, keys, at == NULL ? list : rw_rows(r, list, at));
    }
    if (cuts)
        return scatter_pieces(s, s->inst->operands[0], keys, update_list(s, 0), at);
    Instruction **rows = ARENA_ARRAY(r->scratch, Instruction *, s->count);
    for (uint32_t i = 0; i < s->count; i++)
        rows[i] = at != NULL ? rw_rows(s->r, update_list(s, i), at) : update_list(s, i);
    return scatter_runs(s, s->inst->operands, keys, rows);
}

static bool is_plain(const Instruction *inst)
{
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Shape *shape = inst->operands[i]->shape;
        if (!rw_is_static(shape) || !shape_is_row_major(shape) ||
            dtype_is_sub_byte(shape->dtype))
            return false;
    }
    return inst->control_count == 0;
}

/* Fewer updates are left to one kernel. */
static int64_t least_updates(const Split *s)
{
    bool is_rounded =
        has_identity(s) && wide_type(s) != s->inst->operands[0]->shape->dtype;
    return is_rounded ? LEAST_ROUNDED : LEAST_UPDATES;
}

/* False: it needs no order, or cannot be made so. */
static bool describe(Split *s)
{
    const Instruction *inst = s->inst;
    const Shape *x = inst->operands[0]->shape;
    uint32_t taken = 0;
    s->count = inst->operand_count / 2;
    s->indices = inst->operands[s->count]->shape;
    s->indexed = inst_ints(inst, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
    s->batch = inst_ints(inst, ATTR_INPUT_BATCHING_DIMS);
    s->index_batch = inst_ints(inst, ATTR_SCATTER_INDICES_BATCHING_DIMS);
    s->vector_dim = (uint32_t)inst_int(inst, ATTR_INDEX_VECTOR_DIM, 0);
    s->key_count = s->indexed.count + s->batch.count;
    s->key_dims = ARENA_ARRAY(s->r->scratch, int64_t, s->key_count + 1u);
    s->positions = s->updates = 1;
    for (int64_t d = 0; d < x->rank; d++) {
        if (ints_contain(s->indexed, d) || ints_contain(s->batch, d))
            s->key_dims[taken++] = d;
    }
    for (uint32_t i = 0; i < s->key_count; i++)
        s->positions *= x->dims[s->key_dims[i]];
    for (uint32_t d = 0; d < s->indices->rank; d++)
        s->updates *= d == s->vector_dim ? 1 : s->indices->dims[d];
    s->number = s->positions >= INT32_MAX ? DT_S64 : DT_S32;
    bool is_sorted = inst_bool(inst, ATTR_INDICES_ARE_SORTED) && s->batch.count == 0;
    return s->updates >= least_updates(s) && s->updates <= INT32_MAX - PIECE &&
           s->key_count > 0 && shape_elements(x) > 0 &&
           shape_elements(inst->operands[s->count + 1]->shape) > 0 &&
           !inst_bool(inst, ATTR_UNIQUE_INDICES) &&
           (is_sorted || scatter_atomic_operation(inst) == OP_COUNT ||
            count_batches(s) >= LEAST_BATCHES) &&
           scatter_has_small_windows(inst) &&
           inst->operands[s->count + 1]->shape->rank + 2 <= KERNEL_MOST_RANK;
}

static Instruction *try_split(Instruction *inst, void *context)
{
    PassContext *cx = context;
    if (inst->op != OP_SCATTER || !is_plain(inst))
        return NULL;
    Rewriter r = {.m = inst->parent->module,
                  .comp = inst->parent,
                  .scratch = cx->scratch,
                  .cx = cx,
                  .at = inst};
    Split s = {.r = &r, .inst = inst};
    return describe(&s) ? split(&s) : NULL;
}

bool pass_split_scatters(Module *m, PassContext *cx)
{
    return module_replace_each(m, try_split, cx, cx->scratch) != 0;
}
