/* Operations that move elements: broadcasts, slices, gathers, padding, constants. */
#include <string.h>

#include "frontend/stablehlo/functions.h"
#include "ir/dtype.h"

/* -- constants ----------------------------------------------------------------------------- */

void convert_constant(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    const MlirAttr *value = ask(c, op, NULL, "value");
    if (value == NULL || value->kind != MLIR_DENSE) {
        convert_error(c, "%s has a dense attribute, value", op->name);
        return;
    }
    const MlirType *type = op->results[0].type;
    if (value->type != NULL && value->type->shape != type->shape &&
        !shape_is_unbounded(type->shape)) {
        convert_error(c, "the value of %s is %s, but the result %s", op->name,
                      mlir_type_text(c->scratch, value->type),
                      mlir_type_text(c->scratch, type));
        return;
    }
    size_t errors = c->diag->error_count;
    const Literal *splat = mlir_splat(c->file, c->arena, value);
    if (splat != NULL)
        bind(c, op, make_broadcast(c, make_constant(c, splat), value->type->shape));
    else if (c->diag->error_count == errors)
        bind(c, op, make_constant(c, mlir_literal(c->file, c->arena, value)));
}

/* -- the same elements --------------------------------------------------------------------- */

/* A declared shape may leave sizes open where the operand knows them. */
static const Shape *known_shape(Converter *c, const Shape *said, const Shape *operand)
{
    if (!shape_is_unbounded(said))
        return said;
    return shape_with_dtype(c->intern, operand, said->dtype);
}

void convert_convert(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Instruction *from = operand_of(op, 0);
    const Shape *said = result_shape(op, 0);
    if (!shape_is_array(from->shape) || !shape_is_array(said)) {
        convert_error(c, "convert is of arrays");
        return;
    }
    const Shape *to = known_shape(c, said, from->shape);
    if (!shape_same_dims(to, from->shape)) {
        convert_error(c, "convert gives %s of %s",
                      mlir_type_text(c->scratch, op->results[0].type),
                      mlir_type_text(c->scratch, op->operands[0]->type));
        return;
    }
    bind(c, op, make_finish(c, make1(c, OP_CONVERT, to, from)));
}

void convert_reshape(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    const Shape *to = result_shape(op, 0);
    if (shape_is_unbounded(to)) {
        convert_unsupported(c, "a reshape to sizes that are not known");
        return;
    }
    bind(c, op, make_finish(c, make1(c, OP_RESHAPE, to, operand_of(op, 0))));
}

void convert_get_tuple_element(Converter *c, const MlirOp *op, const OpRow *row)
{
    convert_plain(c, op, row);
}

/* -- broadcasts ---------------------------------------------------------------------------- */

static bool are_dims(Converter *c, const char *what, Ints dims, uint32_t count,
                     uint32_t rank)
{
    bool right = dims.count == count;
    for (uint32_t i = 0; right && i < dims.count; i++) {
        right = dims.data[i] >= 0 && dims.data[i] < rank;
        for (uint32_t k = 0; right && k < i; k++)
            right = dims.data[k] != dims.data[i];
    }
    if (!right)
        convert_error(c,
                      "%s of %s must be %u different dimensions of the %u that there are",
                      what, c->op->name, count, rank);
    return right;
}

/* Dimensions of size 1 are repeated: HLO's broadcast wants them gone. */
Instruction *broadcast_in_dim(Converter *c, Instruction *inst, const Shape *shape,
                              Ints dims)
{
    if (inst == NULL)
        return NULL;
    const Shape *s = inst->shape;
    if (!are_dims(c, "broadcast_dimensions", dims, s->rank, shape->rank))
        return NULL;
    int64_t *sizes = ARENA_ARRAY(c->scratch, int64_t, s->rank + 1u);
    int64_t *kept = ARENA_ARRAY(c->scratch, int64_t, s->rank + 1u);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t to = shape->dims[dims.data[i]];
        if (s->dims[i] == 1 && to != 1)
            continue;
        if (s->dims[i] != to)
            return convert_error(c, "%s cannot be broadcast to %s",
                                 shape_text(c->scratch, s, false),
                                 shape_text(c->scratch, shape, false));
        sizes[rank] = s->dims[i];
        kept[rank++] = dims.data[i];
    }
    if (rank != s->rank)
        inst = make_reshape(c, inst, rank, sizes);
    Instruction *result = make1(c, OP_BROADCAST, shape, inst);
    inst_set_ints(result, ATTR_DIMENSIONS, kept, rank);
    return result;
}

void convert_broadcast_in_dim(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Ints dims;
    if (!attr_ints(c, op, NULL, "broadcast_dimensions", &dims))
        return;
    bind(c, op,
         make_finish(c,
                     broadcast_in_dim(c, operand_of(op, 0), result_shape(op, 0), dims)));
}

/* New dimensions before those of the operand. */
void convert_broadcast(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Ints sizes;
    const Shape *s = operand_of(op, 0)->shape;
    if (!attr_ints(c, op, NULL, "broadcast_sizes", &sizes) || !shape_is_array(s))
        return;
    int64_t *dims = ARENA_ARRAY(c->scratch, int64_t, s->rank + 1u);
    for (uint32_t i = 0; i < s->rank; i++)
        dims[i] = sizes.count + i;
    bind(c, op,
         make_finish(c, broadcast_in_dim(c, operand_of(op, 0), result_shape(op, 0),
                                         (Ints){dims, s->rank})));
}

/* -- slices and padding -------------------------------------------------------------------- */

static bool same_counts(Converter *c, Ints a, Ints b, Ints d, uint32_t rank)
{
    if (a.count == rank && b.count == rank && d.count == rank)
        return true;
    convert_error(c, "the lists of %s must have one entry for each of the %u dimensions",
                  c->op->name, rank);
    return false;
}

void convert_slice(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Ints start, limit, stride;
    uint32_t rank = operand_of(op, 0)->shape->rank;
    if (!attr_ints(c, op, NULL, "start_indices", &start) ||
        !attr_ints(c, op, NULL, "limit_indices", &limit) ||
        !attr_ints(c, op, NULL, "strides", &stride) ||
        !same_counts(c, start, limit, stride, rank))
        return;
    SliceDim *dims = ARENA_ARRAY(c->arena, SliceDim, rank + 1u);
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = (SliceDim){start.data[i], limit.data[i], stride.data[i]};
    Instruction *inst = make1(c, OP_SLICE, result_shape(op, 0), operand_of(op, 0));
    inst_set_slice(inst, dims, rank);
    bind(c, op, make_finish(c, inst));
}

void set_padding(Converter *c, Instruction *inst, Ints low, Ints high, Ints interior)
{
    PaddingDim *dims = ARENA_ARRAY(c->arena, PaddingDim, low.count + 1u);
    for (uint32_t i = 0; i < low.count; i++)
        dims[i] = (PaddingDim){low.data[i], high.data[i], interior.data[i]};
    Padding *padding = ARENA_NEW(c->arena, Padding);
    *padding = (Padding){low.count, dims};
    inst_set(inst, (Attr){.id = ATTR_PADDING, .padding = padding});
}

void convert_pad(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Ints low, high, interior;
    if (!attr_ints(c, op, NULL, "edge_padding_low", &low) ||
        !attr_ints(c, op, NULL, "edge_padding_high", &high) ||
        !attr_ints(c, op, NULL, "interior_padding", &interior) ||
        !same_counts(c, low, high, interior, operand_of(op, 0)->shape->rank))
        return;
    Instruction *inst =
        make2(c, OP_PAD, result_shape(op, 0), operand_of(op, 0), operand_of(op, 1));
    set_padding(c, inst, low, high, interior);
    bind(c, op, make_finish(c, inst));
}

/* -- gathers ------------------------------------------------------------------------------- */

/* The dimension numbers, in a group of their own or, in VHLO, on the operation. */
bool set_dimension_numbers(Converter *c, const MlirOp *op, const char *group,
                           const DimensionNumber *list, Instruction *inst)
{
    for (; list->name != NULL; list++) {
        Ints ints;
        int64_t number = 0;
        const MlirAttr *a = ask(c, op, group, list->name);
        if (list->is_list) {
            if (!ask_ints(c, a, &ints))
                return false;
            if (ints.count != 0 || list->is_required)
                inst_set_ints(inst, list->id, ints.data, ints.count);
        } else {
            if (a != NULL && !ask_int(c, a, &number))
                return false;
            inst_set_int(inst, list->id, number);
        }
    }
    return true;
}

static const DimensionNumber gather_numbers[] = {
    {"offset_dims", ATTR_OFFSET_DIMS, true, true},
    {"collapsed_slice_dims", ATTR_COLLAPSED_SLICE_DIMS, true, true},
    {"operand_batching_dims", ATTR_OPERAND_BATCHING_DIMS, true, false},
    {"start_indices_batching_dims", ATTR_START_INDICES_BATCHING_DIMS, true, false},
    {"start_index_map", ATTR_START_INDEX_MAP, true, true},
    {"index_vector_dim", ATTR_INDEX_VECTOR_DIM, false, true},
    {NULL, ATTR_COUNT, false, false}};

void finish_gather(Converter *c, const MlirOp *op, Ints sizes)
{
    Instruction *inst =
        make2(c, OP_GATHER, result_shape(op, 0), operand_of(op, 0), operand_of(op, 1));
    if (!set_dimension_numbers(c, op, "dimension_numbers", gather_numbers, inst))
        return;
    inst_set_ints(inst, ATTR_SLICE_SIZES, sizes.data, sizes.count);
    inst_set_int(inst, ATTR_INDICES_ARE_SORTED, ask_flag(c, op, "indices_are_sorted"));
    bind(c, op, make_finish(c, inst));
}

void convert_gather(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Ints sizes;
    if (attr_ints(c, op, NULL, "slice_sizes", &sizes))
        finish_gather(c, op, sizes);
}

/* result[batch.., rest.., index.., more..]: operand's dimension `dim` is looked up. */
void convert_torch_index_select(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Instruction *operand = operand_of(op, 0), *index = operand_of(op, 1);
    const Shape *s = operand->shape, *r = result_shape(op, 0);
    int64_t dim = ask_int_or(c, op, "dim", 0), batch = ask_int_or(c, op, "batch_dims", 0);
    if (!shape_is_array(s) || !shape_is_array(index->shape) || dim < 0 ||
        dim >= s->rank || batch < 0 || batch > dim || batch > index->shape->rank) {
        convert_error(c,
                      "dim and batch_dims of torch_index_select must fit its operands");
        return;
    }
    uint32_t own = index->shape->rank - (uint32_t)batch;
    int64_t *offsets = ARENA_ARRAY(c->scratch, int64_t, s->rank + 1u);
    int64_t *sizes = ARENA_ARRAY(c->scratch, int64_t, s->rank + 1u);
    int64_t *batches = ARENA_ARRAY(c->scratch, int64_t, s->rank + 1u);
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->rank; i++) {
        sizes[i] = i < batch || i == dim ? 1 : s->dims[i];
        batches[i] = i;
        if (i >= batch && i != dim)
            offsets[count++] = i < dim ? i : i - 1 + own;
    }
    Instruction *inst = make2(c, OP_GATHER, r, operand, index);
    inst_set_ints(inst, ATTR_OFFSET_DIMS, offsets, count);
    inst_set_ints(inst, ATTR_COLLAPSED_SLICE_DIMS, &dim, 1);
    inst_set_ints(inst, ATTR_START_INDEX_MAP, &dim, 1);
    inst_set_ints(inst, ATTR_OPERAND_BATCHING_DIMS, batches, (uint32_t)batch);
    inst_set_ints(inst, ATTR_START_INDICES_BATCHING_DIMS, batches, (uint32_t)batch);
    inst_set_int(inst, ATTR_INDEX_VECTOR_DIM, index->shape->rank);
    inst_set_ints(inst, ATTR_SLICE_SIZES, sizes, s->rank);
    bind(c, op, make_finish(c, inst));
}
