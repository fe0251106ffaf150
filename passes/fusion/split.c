/* Splits reductions that would leave most of the GPU idle: few results, each of many elements. They are
 * reduced in two kernels, the first of which makes as many partial results as keep it busy.
 *
 *   s = f32[] reduce(f32[16777216] x, 0), dimensions={0}
 *   ->  b = f32[1024,16384] bitcast(x)  p = f32[1024] reduce(b, 0), dimensions={1}
 *       s = f32[] reduce(p, 0), dimensions={0}
 *
 * Only where the initial value may join more than once, and partial results lose nothing: sums of
 * narrow floats, which kernels keep in f32, are left whole.
 *
 * Needs: layouts, row-major inside. Keeps: values but for the order of sums. Ends: one sweep. */
#include "passes/fusion/fusion.h"

#define LEAST_ELEMENTS (1 << 20)
#define BLOCKS 1024      /* that keep a GPU busy */
#define ROW_BLOCK 4096   /* elements that a block should have of a row */
#define COLUMN_WIDTH 32  /* results of a block that reduces columns */
#define COLUMN_BLOCK 512 /* elements that a column of it should have */

/* One operation for which f(init, f(init, x)) is f(init, x). */
static bool may_join_twice(const Instruction *reduce)
{
    const Instruction *root = inst_called(reduce, 0)->root,
                      *initial = reduce->operands[1];
    DType t = reduce->shape->dtype;
    bool is_narrow = dtype_is_float(t) && dtype_info[t].bits < 32;
    if (inst_called(reduce, 0)->parameter_count != 2 || root->operand_count != 2 ||
        root->operands[0]->op != OP_PARAMETER || root->operands[1]->op != OP_PARAMETER ||
        root->operands[0] == root->operands[1] || root->shape->dtype != t)
        return false;
    switch (root->op) {
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_AND:
    case OP_OR:
        return true;
    case OP_ADD:
        return !is_narrow && (inst_is_constant_scalar(initial, 0) ||
                              inst_is_constant_scalar(initial, -0.0));
    case OP_MULTIPLY:
        return !is_narrow && inst_is_constant_scalar(initial, 1);
    default:
        return false;
    }
}

/* How many pieces the reduction wants: 1 if it is well as it is. */
static int64_t wanted_pieces(const Instruction *reduce)
{
    const Shape *from = reduce->operands[0]->shape;
    int64_t elements = shape_elements(from), rows = shape_elements(reduce->shape);
    if (rows == 0 || elements < LEAST_ELEMENTS)
        return 1;
    int64_t columns = elements / rows;
    bool by_rows = true;
    for (uint32_t d = from->rank; d-- > 0;) {
        if (from->dims[d] == 1)
            continue;
        by_rows = ints_contain(inst_ints(reduce, ATTR_DIMENSIONS), d);
        break;
    }
    int64_t blocks = by_rows ? rows : (rows + COLUMN_WIDTH - 1) / COLUMN_WIDTH;
    int64_t most = columns / (by_rows ? ROW_BLOCK : COLUMN_BLOCK);
    int64_t wanted = BLOCKS / blocks;
    return wanted < most ? wanted : most;
}

/* A divisor of n near `wanted`; 1 if there is none of use. */
static int64_t pieces_of(int64_t n, int64_t wanted)
{
    for (int64_t pieces = wanted; pieces >= 4; pieces--) {
        if (n % pieces == 0)
            return pieces;
    }
    for (int64_t pieces = wanted + 1; pieces <= 4 * wanted && pieces < n; pieces++) {
        if (n % pieces == 0)
            return pieces;
    }
    return 1;
}

/* Reduces dimension `along` of the operand in `pieces` pieces; gives the new reduction. */
static Instruction *split(Instruction *reduce, uint32_t along, int64_t pieces,
                          Arena *scratch)
{
    Computation *comp = reduce->parent;
    Intern *t = comp->module->intern;
    const Shape *from = reduce->operands[0]->shape;
    int64_t *dims = ARENA_ARRAY(scratch, int64_t, (size_t)from->rank + 1);
    int64_t *kept = ARENA_ARRAY(scratch, int64_t, (size_t)from->rank + 1);
    int64_t *inner = ARENA_ARRAY(scratch, int64_t, (size_t)from->rank + 1);
    uint32_t rank = 0, kept_rank = 0, inner_count = 0;
    int64_t piece_dim = 0;
    for (uint32_t d = 0; d < from->rank; d++) {
        if (d == along) {
            piece_dim = kept_rank;
            kept[kept_rank++] = dims[rank++] = pieces;
        } else if (!ints_contain(inst_ints(reduce, ATTR_DIMENSIONS), d)) {
            kept[kept_rank++] = from->dims[d];
        }
        if (ints_contain(inst_ints(reduce, ATTR_DIMENSIONS), d))
            inner[inner_count++] = rank;
        dims[rank++] = d == along ? from->dims[d] / pieces : from->dims[d];
    }
    const Shape *wide = shape_with_dims(t, from, rank, dims);
    const Shape *partial = shape_with_dims(t, reduce->shape, kept_rank, kept);
    Instruction *cast =
        computation_add(comp, OP_BITCAST, wide, 1, reduce->operands, NULL);
    Instruction *first = computation_add_like(
        comp, reduce, partial, 2, (Instruction *[]){cast, reduce->operands[1]});
    inst_set_ints(first, ATTR_DIMENSIONS, inner, inner_count);
    Instruction *second = computation_add_like(
        comp, reduce, reduce->shape, 2, (Instruction *[]){first, reduce->operands[1]});
    inst_set_ints(second, ATTR_DIMENSIONS, &piece_dim, 1);
    return second;
}

static Instruction *try_split(Instruction *reduce, void *context)
{
    const PassContext *cx = context;
    if (reduce->op != OP_REDUCE || reduce->operand_count != 2 ||
        reduce->control_count != 0 || !shape_is_array(reduce->shape) ||
        dtype_is_sub_byte(reduce->shape->dtype))
        return NULL;
    const Shape *from = reduce->operands[0]->shape;
    if (!shape_is_row_major(from) || !shape_is_row_major(reduce->shape) ||
        shape_is_dynamic(from) || from->dtype != reduce->shape->dtype ||
        !may_join_twice(reduce))
        return NULL;
    int64_t wanted = wanted_pieces(reduce);
    if (wanted < 4)
        return NULL;
    uint32_t along = from->rank;
    for (uint32_t d = 0; d < from->rank; d++) {
        if (ints_contain(inst_ints(reduce, ATTR_DIMENSIONS), d) &&
            (along == from->rank || from->dims[d] > from->dims[along]))
            along = d;
    }
    if (along == from->rank)
        return NULL;
    int64_t pieces = pieces_of(from->dims[along], wanted);
    return pieces < 4 ? NULL : split(reduce, along, pieces, cx->scratch);
}

bool pass_split_reductions(Module *m, PassContext *cx)
{
    return module_replace_each(m, try_split, cx, cx->scratch) != 0;
}
