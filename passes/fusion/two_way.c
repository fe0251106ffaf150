/* Reductions of rows and sums of columns of the same arrays become one kernel that reads them once: gradients of layer
 * norms and RMS norms, whose results are one of the input and sums over all rows for scale and bias.
 *
 *   r = (..) fusion(x, dy), kind=row_reduction
 *   p = f32[8,4096] fusion(x, dy, r#0), kind=column_reduction: sums over pieces of 1024 rows
 *   s = f32[4096] fusion(p), kind=column_reduction: the sum of the pieces
 *   ->  t = (.., f32[256,4096]) fusion(x, dy), kind=two_way_reduction: sums of 32 rows each, one piece for a block
 *       s = f32[4096] fusion(t#1), kind=column_reduction
 *
 * How many rows a block walks over is what the model of time likes best; nothing changes where it finds three kernels
 * faster. Sums of few rows are left alone: those are no pieces, and what they read is in L2.
 *
 * Needs: fused kernels. Keeps: values but for the order of sums. Ends: each kernel of pieces is tried once. */
#include "ir/analysis/index_map.h"
#include "ir/base/divide.h"
#include "ir/kernel/element.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/reduction.h"
#include "ir/kernel/rules.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/kernel_work.h"
#include "passes/fusion/regroup.h"

enum { MOST_SUMS = 8, MOST_READERS = 16, MOST_WAVES = 4 };

/* A kernel whose results are all sums in pieces, which only `readers` read. */
typedef struct Pieces {
    Instruction *sums;
    int64_t rows, columns; /* of what is summed */
    uint32_t count;        /* results */
    Instruction *readers[MOST_READERS];
    uint32_t reader_count;
    Instruction *by[MOST_SUMS]; /* [count] the kernel of rows that is to make it */
} Pieces;

static bool is_by_columns(const Instruction *inst)
{
    return regroup_is_reduction(inst) && !kernel_is(inst, KERNEL_BY_ROWS);
}

static bool is_by_rows(const Instruction *inst)
{
    return regroup_is_reduction(inst) && kernel_is(inst, KERNEL_BY_ROWS) &&
           !kernel_is(inst, KERNEL_BOTH_WAYS);
}

/* -- pieces ----------------------------------------------------------------------------------------- */

/* Elements of the dimensions behind the last one that is summed; 0: a dimension before them stays, besides the first
 * of the result. */
static int64_t columns_of(const Instruction *reduce)
{
    const Shape *s = reduce->operands[0]->shape;
    Ints reduced = inst_ints(reduce, ATTR_DIMENSIONS);
    int64_t columns = 1;
    uint32_t d = s->rank, behind = 0;
    for (; d > 0 && !ints_contain(reduced, d - 1); d--, behind++)
        columns *= s->dims[d - 1];
    return reduce->shape->rank == behind + 1 ? columns : 0;
}

/* Rows of zeros among those of x->operands[0], all of which stay. */
static bool adds_zeros(const Instruction *x, int64_t columns)
{
    if (x->op != OP_PAD || !inst_is_constant_scalar(x->operands[1], 0) ||
        !shape_is_row_major(x->shape))
        return false;
    const Padding *padding = inst_attr(x, ATTR_PADDING)->padding;
    int64_t tail = 1;
    for (uint32_t d = padding->rank; d-- > 0;) {
        const PaddingDim *p = &padding->dims[d];
        bool is_column = tail < columns;
        if (p->low < 0 || p->high < 0 ||
            (is_column && p->low + p->high + p->interior != 0))
            return false;
        if (is_column)
            tail *= x->shape->dims[d];
    }
    return tail == columns;
}

/* What a piece is summed of: without what only fills up its last rows, of other dimensions perhaps. */
static Instruction *summed_array(const Instruction *reduce)
{
    Instruction *x = reduce->operands[0];
    while (x->op == OP_BITCAST)
        x = x->operands[0];
    return adds_zeros(x, columns_of(reduce)) ? x->operands[0] : x;
}

static bool is_sum(const Instruction *reduce)
{
    return reduce->op == OP_REDUCE && reduce->operand_count == 2 &&
           inst_called(reduce, 0)->root->op == OP_ADD &&
           computation_is_simple(inst_called(reduce, 0), 1);
}

/* A sum that may be made in other pieces. */
static bool is_piece(const Instruction *reduce)
{
    if (!is_sum(reduce) || !shape_is_row_major(reduce->shape) ||
        !shape_is_row_major(reduce->operands[0]->shape))
        return false;
    const Instruction *x = summed_array(reduce);
    DType t = reduce->shape->dtype;
    int64_t columns = columns_of(reduce), tail = 1;
    for (uint32_t d = x->shape->rank; d > 0 && tail < columns; d--)
        tail *= x->shape->dims[d - 1];
    return columns > 1 && tail == columns && shape_is_row_major(x->shape) &&
           x->shape->dtype == t && inst_is_constant_scalar(reduce->operands[1], 0) &&
           !(dtype_is_float(t) && dtype_info[t].bits < 32);
}

/* It only sums the pieces that this parameter is. */
static bool adds_pieces(const Instruction *reader, uint32_t parameter)
{
    const Computation *comp = inst_called(reader, 0);
    const Instruction *p = comp->parameters[parameter];
    bool is_read = false;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            if (inst->operands[k] != p)
                continue;
            Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
            if (!is_sum(inst) || dims.count != 1 || dims.data[0] != 0)
                return false;
            is_read = true;
        }
    }
    return is_read && comp->root != p;
}

static bool add_reader(Pieces *p, Instruction *reader, const Instruction *piece)
{
    if (!is_by_columns(reader))
        return false;
    for (uint32_t k = 0; k < reader->operand_count; k++) {
        if (reader->operands[k] == piece && !adds_pieces(reader, k))
            return false;
    }
    for (uint32_t i = 0; i < p->reader_count; i++) {
        if (p->readers[i] == reader)
            return true;
    }
    if (p->reader_count == MOST_READERS)
        return false;
    p->readers[p->reader_count++] = reader;
    return true;
}

/* Everything that reads a result of the kernel's. */
static bool find_readers(const Regroup *t, Pieces *p, const Instruction *value)
{
    if (value == t->comp->root)
        return false;
    for (uint32_t i = t->uses.start[value->id]; i < t->uses.start[value->id + 1]; i++) {
        Instruction *user = t->uses.list[i];
        bool is_leaf = user->op == OP_GET_TUPLE_ELEMENT && value == p->sums;
        if (is_leaf ? !find_readers(t, p, user) : !add_reader(p, user, value))
            return false;
    }
    return true;
}

static bool find_pieces(const Regroup *t, Instruction *inst, Pieces *p)
{
    *p = (Pieces){.sums = inst};
    if (!is_by_columns(inst) || !regroup_may_go(t, inst))
        return false;
    p->count = fusion_result_count(inst);
    for (uint32_t i = 0; i < p->count; i++) {
        const Instruction *reduce = fusion_result(inst, i).inst;
        if (p->count > MOST_SUMS || !is_piece(reduce))
            return false;
        int64_t columns = columns_of(reduce),
                rows = shape_elements(summed_array(reduce)->shape) / columns;
        if (i > 0 && (rows != p->rows || columns != p->columns))
            return false;
        p->rows = rows;
        p->columns = columns;
    }
    return find_readers(t, p, inst) && p->reader_count > 0;
}

/* -- the two kernels ----------------------------------------------------------------------------------- */

static bool rows_fit(const Regroup *t, const Instruction *rows, const Pieces *p)
{
    const char *why;
    if (!is_by_rows(rows) || rows == t->comp->root || !regroup_may_go(t, rows))
        return false;
    const ReductionPlan *plan = reduction_plan(rows, t->brief, &why);
    return plan != NULL && plan->minor_reduced && plan->rows == p->rows &&
           plan->columns == p->columns &&
           !fusion_leads_around(t->comp, p->sums, rows, t->brief);
}

/* [operand of the kernel] what result `leaf` is made of. */
static bool *operands_of(const Regroup *t, const Instruction *kernel, uint32_t leaf)
{
    const Computation *comp = inst_called(kernel, 0);
    bool *is_read = ARENA_ARRAY(t->brief, bool, (size_t)kernel->operand_count + 1);
    bool *is_seen = ARENA_ARRAY(t->brief, bool, comp->instruction_count);
    const Instruction **stack =
        ARENA_ARRAY(t->brief, const Instruction *, comp->instruction_count);
    uint32_t top = 0;
    stack[top++] = fusion_result(kernel, leaf).inst;
    while (top > 0) {
        const Instruction *inst = stack[--top];
        if (inst->op == OP_PARAMETER)
            is_read[inst->parameter] = true;
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            if (!is_seen[inst->operands[k]->id])
                stack[top++] = inst->operands[k];
            is_seen[inst->operands[k]->id] = true;
        }
    }
    return is_read;
}

/* The kernel has all of it already: reads or makes it. */
static bool has_operands(const Instruction *rows, const Instruction *sums,
                         const bool *is_read)
{
    for (uint32_t k = 0; k < sums->operand_count; k++) {
        bool has = !is_read[k] || fusion_is_result_of(sums->operands[k], rows);
        for (uint32_t i = 0; i < rows->operand_count && !has; i++)
            has = rows->operands[i] == sums->operands[k];
        if (!has)
            return false;
    }
    return true;
}

/* The kernel that reduces the rows of an array that result `leaf` is made of, or of which it reads what that found.
 * is_read NULL: of all results, and the kernel may need more. */
static Instruction *find_rows(const Regroup *t, const Pieces *p, const bool *is_read)
{
    for (uint32_t k = 0; k < p->sums->operand_count; k++) {
        Instruction *o = p->sums->operands[k];
        if (is_read != NULL && !is_read[k])
            continue;
        Instruction *made = o->op == OP_GET_TUPLE_ELEMENT ? o->operands[0] : o;
        uint32_t first = t->uses.start[o->id], count = uses_count(&t->uses, o);
        bool is_full =
            shape_is_array(o->shape) && shape_elements(o->shape) == p->rows * p->columns;
        for (uint32_t i = 0; i < (is_full ? count : 0) + 1; i++) {
            Instruction *rows = i == 0 ? made : t->uses.list[first + i - 1];
            bool has =
                is_by_rows(rows) &&
                (is_read == NULL ? !fusion_leads_around(t->comp, rows, p->sums, t->brief)
                                 : has_operands(rows, p->sums, is_read));
            if (has && rows_fit(t, rows, p))
                return rows;
        }
    }
    return NULL;
}

/* Each of the sums by a kernel that needs nothing else for it; where there is none, all by one that may wait for what
 * they need. */
static bool find_all_rows(const Regroup *t, Pieces *p)
{
    bool found = true;
    for (uint32_t i = 0; i < p->count && found; i++) {
        p->by[i] = find_rows(t, p, operands_of(t, p->sums, i));
        found = p->by[i] != NULL;
    }
    if (found)
        return true;
    Instruction *rows = find_rows(t, p, NULL);
    for (uint32_t i = 0; i < p->count; i++)
        p->by[i] = rows;
    return rows != NULL;
}

/* It is the first sum that this kernel is to make. */
static bool is_first_of(const Pieces *p, uint32_t sum)
{
    for (uint32_t i = 0; i < sum; i++) {
        if (p->by[i] == p->by[sum])
            return false;
    }
    return true;
}

/* -- one kernel ---------------------------------------------------------------------------------------- */

/* The kernel of rows and their sums as it would be. */
typedef struct Combined {
    Instruction *rows, *fusion;
    uint32_t kept;    /* results of the rows that are still wanted: then come the sums */
    int32_t *indices; /* [results of the rows] where they are; -1: not wanted */
} Combined;

typedef struct Trial {
    Combined kernels[MOST_SUMS];
    uint32_t count;
    Instruction *sums[MOST_SUMS]; /* what the pieces become */
    Instruction *readers[MOST_READERS];
} Trial;

/* Sums of so many rows each, of all that a reduction in pieces sums. */
static Instruction *sum_rows(const Regroup *t, Computation *comp, Instruction *reduce,
                             const Pieces *p, int64_t each)
{
    Instruction *x = summed_array(reduce);
    Intern *intern = t->m->intern;
    DType type = reduce->shape->dtype;
    int64_t blocks = ceil_div(p->rows, each);
    const Shape *from = shape_array(intern, type, 2, (int64_t[]){p->rows, p->columns},
                                    NULL, NULL),
                *to = shape_array(intern, type, 2, (int64_t[]){blocks, p->columns}, NULL,
                                  NULL);
    if (!shape_same_dims(x->shape, from))
        x = computation_append(comp, OP_BITCAST, from, 1, &x);
    Instruction *sum = computation_append(comp, OP_REDUCE_WINDOW, to, 2,
                                          (Instruction *[]){x, reduce->operands[1]});
    WindowDim *dims = ARENA_ARRAY(t->m->arena, WindowDim, 2);
    Window *window = ARENA_NEW(t->m->arena, Window);
    dims[0] = (WindowDim){.size = each,
                          .stride = each,
                          .pad_high = blocks * each - p->rows,
                          .base_dilation = 1,
                          .window_dilation = 1};
    dims[1] =
        (WindowDim){.size = 1, .stride = 1, .base_dilation = 1, .window_dilation = 1};
    *window = (Window){2, dims};
    inst_set(sum, (Attr){.id = ATTR_WINDOW, .window = window});
    inst_set_computation(sum, ATTR_TO_APPLY, inst_called(reduce, 0));
    return sum;
}

/* Something but the pieces reads result `leaf` of the rows. */
static bool is_wanted(const Regroup *t, const Instruction *value, const Instruction *rows,
                      int64_t leaf, const Instruction *sums)
{
    if (value == t->comp->root)
        return true;
    for (uint32_t i = t->uses.start[value->id]; i < t->uses.start[value->id + 1]; i++) {
        const Instruction *user = t->uses.list[i];
        if (value == rows && user->op == OP_GET_TUPLE_ELEMENT) {
            if (inst_int(user, ATTR_INDEX, 0) == leaf &&
                is_wanted(t, user, rows, leaf, sums))
                return true;
        } else if (user != sums) {
            return true;
        }
    }
    return false;
}

/* Adds the time that the kernel takes; seconds NULL: it is known that it can be made. */
static bool is_made(const Regroup *t, const Instruction *fusion, double *seconds)
{
    KernelDesign d;
    KernelWork w;
    if (seconds == NULL)
        return true;
    if (kernel_illegal(fusion, kernel_kind_of(fusion)) != NULL)
        return false;
    kernel_design(fusion, t->cx->target, t->brief, &d);
    if (d.wrong != NULL || d.unsupported != NULL)
        return false;
    kernel_designed_work(&d, &w);
    *seconds += kernel_time(&w, t->cx->target->device).seconds;
    return true;
}

static bool combine_rows(const Regroup *t, Instruction *rows, const Pieces *p,
                         int64_t each, Combined *c, double *seconds)
{
    Instruction *fusion = regroup_copy(t->comp, rows);
    Computation *own = inst_called(fusion, 0);
    uint32_t count = fusion_result_count(rows), n;
    Instruction **results =
        ARENA_ARRAY(t->brief, Instruction *, (size_t)count + p->count);
    Instruction *made = regroup_bring_in(t, fusion, rows, p->sums);
    *c = (Combined){
        .rows = rows, .fusion = fusion, .indices = ARENA_ARRAY(t->brief, int32_t, count)};
    for (uint32_t i = 0; i < count; i++) {
        bool wanted = is_wanted(t, rows, rows, i, p->sums);
        c->indices[i] = wanted ? (int32_t)c->kept : -1;
        if (wanted)
            results[c->kept++] =
                shape_is_tuple(rows->shape) ? own->root->operands[i] : own->root;
    }
    n = c->kept;
    for (uint32_t i = 0; i < p->count; i++) {
        Instruction *piece = made->op == OP_TUPLE ? made->operands[i] : made;
        if (p->by[i] == rows)
            results[n++] = sum_rows(t, own, piece, p, each);
    }
    fusion_set_results(fusion, results, n);
    fusion_drop_unread(fusion, t->brief);
    fusion->shape = own->root->shape;
    KernelKind kind = kernel_kind_choose(fusion, t->cx->target);
    if (kind == KERNEL_COUNT || !kernel_kind_is(kind, KERNEL_BOTH_WAYS))
        return false;
    kernel_kind_set(fusion, kind);
    return is_made(t, fusion, seconds);
}

/* The sum of other pieces: their number is the only thing that changes. */
static Instruction *read_sums(const Regroup *t, const Instruction *reader,
                              const Pieces *p, const Trial *trial)
{
    Instruction *copy = regroup_copy(t->comp, reader);
    for (uint32_t k = 0; k < copy->operand_count; k++) {
        Instruction *o = copy->operands[k];
        if (!fusion_is_result_of(o, p->sums))
            continue;
        int64_t leaf = o == p->sums ? 0 : inst_int(o, ATTR_INDEX, 0);
        Instruction *sum = trial->sums[leaf];
        int64_t *dims =
            arena_copy(t->brief, o->shape->dims, o->shape->rank * sizeof *o->shape->dims);
        dims[0] = sum->shape->dims[0];
        const Shape *shape =
            shape_with_dims(t->m->intern, o->shape, o->shape->rank, dims);
        if (!shape_same_dims(shape, sum->shape))
            sum = computation_add(t->comp, OP_BITCAST, shape, 1, &sum, NULL);
        copy->operands[k] = sum;
        inst_called(copy, 0)->parameters[k]->shape = shape;
    }
    return copy;
}

/* Adds the time of all kernels; seconds NULL: it is known that they can be made. */
static bool combine(Regroup *t, const Pieces *p, int64_t each, Trial *trial,
                    double *seconds)
{
    t->tried = true;
    trial->count = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        if (!is_first_of(p, i))
            continue;
        Combined *c = &trial->kernels[trial->count++];
        if (!combine_rows(t, p->by[i], p, each, c, seconds))
            return false;
        for (uint32_t k = i, n = c->kept; k < p->count; k++) {
            if (p->by[k] == p->by[i])
                trial->sums[k] = fusion_result_value(c->fusion, n++);
        }
    }
    for (uint32_t i = 0; i < p->reader_count; i++) {
        trial->readers[i] = read_sums(t, p->readers[i], p, trial);
        if (!is_made(t, trial->readers[i], seconds))
            return false;
    }
    return true;
}

/* -- the choice ---------------------------------------------------------------------------------------- */

static double seconds_now(const Regroup *t, const Pieces *p)
{
    double seconds = regroup_seconds(t, p->sums);
    for (uint32_t i = 0; i < p->count; i++)
        seconds += is_first_of(p, i) ? regroup_seconds(t, p->by[i]) : 0;
    for (uint32_t i = 0; i < p->reader_count; i++)
        seconds += regroup_seconds(t, p->readers[i]);
    return seconds;
}

/* Rows of a block with which all take the shortest time: the grid fills the device so many times. 0: as they are, they
 * take less. */
static int64_t choose_rows(Regroup *t, const Pieces *p)
{
    uint32_t first = t->comp->instruction_count;
    double best = seconds_now(t, p);
    int64_t chosen = 0, last = 0;
    for (int64_t waves = 1; waves <= MOST_WAVES; waves++) {
        int64_t blocks = waves * (int64_t)target_multiprocessors(t->cx->target),
                each = ceil_div(p->rows, blocks);
        Trial trial;
        if (each == last || each < 2)
            continue;
        last = each;
        double seconds = 0;
        bool fits = combine(t, p, each, &trial, &seconds);
        computation_remove_from(t->comp, first);
        if (!fits || seconds >= best) {
            if (chosen != 0)
                break; /* more blocks have more pieces to add */
            continue;
        }
        best = seconds;
        chosen = each;
    }
    return chosen;
}

/* -- the result ---------------------------------------------------------------------------------------- */

/* Results of a kernel that is no more: forward[] gets what they become. */
static void replace_results(const Regroup *t, Instruction *kernel, const Combined *c,
                            Instruction **forward)
{
    for (uint32_t i = t->uses.start[kernel->id]; i < t->uses.start[kernel->id + 1]; i++) {
        Instruction *user = t->uses.list[i];
        if (user->op != OP_GET_TUPLE_ELEMENT)
            continue;
        int64_t leaf = inst_int(user, ATTR_INDEX, 0);
        if (c != NULL && c->indices[leaf] >= 0)
            forward[user->id] =
                fusion_result_value(c->fusion, (uint32_t)c->indices[leaf]);
        else
            computation_remove(t->comp, user);
    }
    if (c != NULL && !shape_is_tuple(kernel->shape) && c->indices[0] >= 0)
        forward[kernel->id] = fusion_result_value(c->fusion, 0);
    else
        computation_remove(t->comp, kernel);
}

static void replace(Regroup *t, const Pieces *p, int64_t each)
{
    uint32_t count = t->comp->instruction_count;
    Instruction **forward = ARENA_ARRAY(t->brief, Instruction *, count);
    Trial trial;
    combine(t, p, each, &trial, NULL);
    for (uint32_t i = 0; i < p->reader_count; i++)
        forward[p->readers[i]->id] = trial.readers[i];
    for (uint32_t i = 0; i < trial.count; i++)
        replace_results(t, trial.kernels[i].rows, &trial.kernels[i], forward);
    replace_results(t, p->sums, NULL, forward);
    computation_substitute(t->comp, forward, count);
    regroup_take_graph(t);
}

static bool try_kernel(Regroup *t, Instruction *inst)
{
    Pieces p;
    if (!find_pieces(t, inst, &p) || !find_all_rows(t, &p))
        return false;
    int64_t each = choose_rows(t, &p);
    if (each != 0)
        replace(t, &p, each);
    return each != 0;
}

bool pass_two_way_reductions(Module *m, PassContext *cx)
{
    return regroup_run(m, cx, is_by_columns, try_kernel);
}
