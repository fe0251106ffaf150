/* Which results may lie where an operand lies. See kind.h. */
#include "ir/kernel/kind.h"
#include "ir/kernel/library.h"
#include "ir/kernel/matmul.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/reduction.h"
#include "ir/kernel/rules.h"

typedef enum { READS_NOTHING, READS_SAME, READS_OTHER } Reads;

/* Element number i in memory is the same element of both. */
static bool same_order(const Shape *a, const Shape *b)
{
    if (!shape_is_array(a) || !shape_is_array(b))
        return false;
    if (shape_same_dims(a, b))
        return shape_layouts_equal(a, b);
    return shape_elements(a) == shape_elements(b) && shape_is_row_major(a) &&
           shape_is_row_major(b);
}

/* Both have the same elements in the same positions of memory. */
static bool same_positions(const Shape *a, const Shape *b)
{
    return same_order(a, b) && dtype_info[a->dtype].bits == dtype_info[b->dtype].bits;
}

/* A broadcast that only adds dimensions of size 1. */
static bool repeats_nothing(const Instruction *broadcast)
{
    Ints dims = inst_ints(broadcast, ATTR_DIMENSIONS);
    for (uint32_t i = 1; i < dims.count; i++) {
        if (dims.data[i] < dims.data[i - 1])
            return false;
    }
    return true; /* the sizes are the same */
}

static bool same_index(const Instruction *inst, const Instruction *operand)
{
    if (!shape_is_array(inst->shape) || !same_order(inst->shape, operand->shape))
        return false;
    if (inst->op == OP_BROADCAST)
        return repeats_nothing(inst);
    if (inst->op == OP_RESHAPE || inst->op == OP_BITCAST)
        return dtype_info[inst->shape->dtype].bits ==
               dtype_info[operand->shape->dtype].bits;
    if (!shape_same_dims(inst->shape, operand->shape))
        return false;
    return inst->op == OP_COPY ||
           (op_is(inst->op, OPF_ELEMENTWISE) && inst->op != OP_MAP);
}

/* An update that is made in place is written where its slice is read, an element of it as the same
 * element of the slice. */
static Reads reads_of_update(const Instruction *inst, const Reads *by_id)
{
    Reads r = by_id[inst->operands[1]->id];
    for (uint32_t k = 0; k < inst->operand_count; k++) {
        if (k != 1 && by_id[inst->operands[k]->id] != READS_NOTHING)
            return READS_OTHER;
    }
    return r;
}

static Reads reads_of(const Instruction *inst, bool is_updating, const Reads *by_id)
{
    if (is_updating && inst->op == OP_DYNAMIC_UPDATE_SLICE)
        return reads_of_update(inst, by_id);
    Reads r = READS_NOTHING;
    for (uint32_t k = 0; k < inst->operand_count; k++) {
        Reads o = by_id[inst->operands[k]->id];
        if (o == READS_NOTHING)
            continue;
        if (o == READS_OTHER || !same_index(inst, inst->operands[k]))
            return READS_OTHER;
        r = READS_SAME;
    }
    return r;
}

/* What a reduction combines is read when the results at the same elements have not been written yet. */
static Reads reads_of_hero(const Instruction *hero, int64_t elements, const Reads *by_id)
{
    for (uint32_t k = 0; k < hero->operand_count; k++) {
        Reads r = by_id[hero->operands[k]->id];
        if (r == READS_OTHER ||
            (r == READS_SAME && shape_elements(hero->operands[k]->shape) != elements))
            return READS_OTHER;
    }
    return READS_NOTHING;
}

static bool is_hero(const ReductionPlan *p, const Instruction *inst)
{
    for (uint32_t h = 0; p != NULL && h < p->hero_count; h++) {
        if (p->heroes[h] == inst)
            return true;
    }
    return false;
}

/* kernel_reads_at_results; where `early` is given, its heroes read before results are written. */
static bool reads_at_results(const Instruction *fusion, uint32_t operand,
                             int64_t elements, const ReductionPlan *early, Arena *scratch)
{
    const Computation *comp = inst_called(fusion, 0);
    uint32_t count;
    Instruction **order = computation_post_order(comp, scratch, &count);
    Reads *by_id = ARENA_ARRAY(scratch, Reads, (size_t)comp->instruction_count + 1);
    bool good = true, is_updating = kernel_is(fusion, KERNEL_UPDATES);
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *inst = order[i];
        if (inst == comp->parameters[operand])
            by_id[inst->id] = READS_SAME;
        else if (is_hero(early, inst))
            by_id[inst->id] = reads_of_hero(inst, elements, by_id);
        else if (inst->op != OP_TUPLE)
            by_id[inst->id] = reads_of(inst, is_updating, by_id);
    }
    for (uint32_t r = 0; r < fusion_result_count(fusion) && good; r++) {
        FusionResult result = fusion_result(fusion, r);
        const Instruction *inst = result.inst;
        while (inst->op == OP_BITCAST)
            inst = inst->operands[0];
        bool is_update = is_updating && inst->op == OP_DYNAMIC_UPDATE_SLICE;
        Reads reads = by_id[is_update ? inst->id : result.inst->id];
        const Shape *made = is_update ? inst->operands[1]->shape : result.shape;
        good = reads == READS_NOTHING ||
               (reads == READS_SAME && shape_elements(made) == elements);
    }
    return good;
}

bool kernel_reads_at_results(const Instruction *fusion, uint32_t operand,
                             int64_t elements)
{
    Arena *scratch = arena_create();
    bool good = reads_at_results(fusion, operand, elements, NULL, scratch);
    arena_destroy(scratch);
    return good;
}

int64_t kernel_in_place(const Instruction *fusion, KernelKind kind, uint32_t leaf)
{
    const Instruction *base = NULL;
    if (!kernel_kind_is(kind, KERNEL_IN_PLACE))
        return -1;
    if (!kernel_kind_is(kind, KERNEL_UPDATES))
        base = fusion_hero(fusion, kernel_kind_info[kind].hero)->operands[leaf];
    else if (fusion_update(fusion, leaf) != NULL)
        base = fusion_update(fusion, leaf)->operands[0];
    base = base == NULL ? NULL : behind_bitcasts(base);
    return base == NULL || base->op != OP_PARAMETER ? -1 : base->parameter;
}

/* Results of whole rows, which come last, have as many elements as those of single ones. */
static bool reduces_nothing(const Instruction *fusion)
{
    const Computation *comp = inst_called(fusion, 0);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op == OP_REDUCE && shape_elements(inst->operands[0]->shape) ==
                                         shape_elements(shape_leaf(inst->shape, 0)))
            return true;
    }
    return false;
}

static bool reduces_alike(const Instruction *x, const Instruction *y)
{
    Ints a = inst_ints(x, ATTR_DIMENSIONS), b = inst_ints(y, ATTR_DIMENSIONS);
    if (a.count != b.count || !same_order(x->operands[0]->shape, y->operands[0]->shape) ||
        !shape_same_dims(x->operands[0]->shape, y->operands[0]->shape))
        return false;
    for (uint32_t i = 0; i < a.count; i++) {
        if (a.data[i] != b.data[i])
            return false;
    }
    return true;
}

/* Result `leaf`, and no other, is stored by the only walk over what is reduced: each element by the thread that reads it
 * for all reductions. */
static bool is_stored_as_read(const Instruction *fusion, uint32_t leaf,
                              const ReductionPlan *p)
{
    if (p == NULL || p->has_late || p->stage[p->hero_count - 1] != 0 ||
        !p->is_early[leaf])
        return false;
    for (uint32_t h = 1; h < p->hero_count; h++) {
        if (!reduces_alike(p->heroes[0], p->heroes[h]))
            return false;
    }
    for (uint32_t i = 0; i < fusion_result_count(fusion); i++) {
        if (i != leaf && p->is_early[i])
            return false;
    }
    return true;
}

static bool stores_where_it_reduces(const Instruction *fusion, uint32_t leaf,
                                    uint32_t operand)
{
    const char *why;
    Arena *scratch = arena_create();
    const ReductionPlan *p = reduction_plan(fusion, scratch, &why);
    bool good = is_stored_as_read(fusion, leaf, p) &&
                same_positions(fusion_result(fusion, leaf).shape,
                               inst_called(fusion, 0)->parameters[operand]->shape) &&
                reads_at_results(fusion, operand, p->rows * p->columns, p, scratch);
    arena_destroy(scratch);
    return good;
}

bool kernel_writes_where_it_reads(const Instruction *fusion, uint32_t leaf,
                                  uint32_t operand)
{
    if (library_is_graph(fusion))
        return false;
    if (matmul_is_library(fusion))
        return leaf == 0 && matmul_adds_in_place(fusion, operand);
    if (kernel_is(fusion, KERNEL_EARLY_RESULTS))
        return dtype_info[fusion_result(fusion, leaf).shape->dtype].bits >= 8 &&
               stores_where_it_reduces(fusion, leaf, operand);
    /* what is done to an element made in a tile is done by the thread that stores it, which
     * reads for one result after the other */
    if (!kernel_is(fusion, KERNEL_OWN_ELEMENTS) &&
        !(kernel_is(fusion, KERNEL_BY_TILES) && fusion_result_count(fusion) == 1))
        return false;
    if (kernel_is(fusion, KERNEL_REDUCES) && reduces_nothing(fusion))
        return false;
    const Shape *result = fusion_result(fusion, leaf).shape;
    const Shape *read = inst_called(fusion, 0)->parameters[operand]->shape;
    return same_positions(result, read) && dtype_info[result->dtype].bits >= 8 &&
           kernel_reads_at_results(fusion, operand, shape_elements(result));
}
