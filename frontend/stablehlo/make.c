/* Making instructions of the operation that is being converted. */
#include <string.h>

#include "frontend/stablehlo/convert.h"
#include "ir/dtype.h"
#include "ir/infer/infer.h"

const Shape *result_shape(const MlirOp *op, uint32_t i)
{
    return op->results[i].type->shape;
}

const Shape *results_shape(Converter *c, const MlirOp *op)
{
    if (op->result_count == 1)
        return result_shape(op, 0);
    const Shape **shapes = ARENA_ARRAY(c->scratch, const Shape *, op->result_count + 1u);
    for (uint32_t i = 0; i < op->result_count; i++)
        shapes[i] = result_shape(op, i);
    return shape_tuple(c->intern, op->result_count, shapes);
}

const Shape *shape_sized(Converter *c, const Shape *like, uint32_t rank,
                         const int64_t *dims)
{
    return shape_array(c->intern, like->dtype, rank, dims, NULL, NULL);
}

bool operands_are_made(const MlirOp *op)
{
    for (uint32_t i = 0; i < op->operand_count; i++)
        if (op->operands[i]->inst == NULL)
            return false;
    return true;
}

Instruction *make(Converter *c, OpCode op, const Shape *shape, uint32_t count,
                  Instruction *const *operands)
{
    for (uint32_t i = 0; i < count; i++)
        if (operands[i] == NULL)
            return NULL;
    Instruction *inst = computation_append(c->comp, op, shape, count, operands);
    inst->name = op_info[op].name;
    if (c->op == NULL)
        return inst;
    inst->span = c->file->is_text ? c->op->span : (Span){0, 0};
    const Metadata *metadata = metadata_of(c, c->op);
    if (metadata != NULL)
        inst_set(inst, (Attr){.id = ATTR_METADATA, .metadata = metadata});
    return inst;
}

Instruction *make1(Converter *c, OpCode op, const Shape *shape, Instruction *a)
{
    return make(c, op, shape, 1, &a);
}

Instruction *make2(Converter *c, OpCode op, const Shape *shape, Instruction *a,
                   Instruction *b)
{
    Instruction *operands[] = {a, b};
    return make(c, op, shape, 2, operands);
}

static bool has_required(Converter *c, const Instruction *inst)
{
    for (const OpAttr *a = op_info[inst->op].attrs; a->id != ATTR_COUNT; a++) {
        if (a->rule != ATTR_REQUIRED || inst_has(inst, a->id))
            continue;
        convert_error(c, "%s lacks what the attribute %s of HLO's %s would be",
                      c->op != NULL ? c->op->name : "this", attr_info[a->id].name,
                      op_info[inst->op].name);
        return false;
    }
    return true;
}

static void drop_defaults(Instruction *inst)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < inst->attr_count; i++)
        if (!attr_is_default(inst, &inst->attrs[i]))
            inst->attrs[kept++] = inst->attrs[i];
    inst->attr_count = (uint16_t)kept;
}

/* Where a size is `?`, or no shape was given, it is what the opcode's rules say. */
static const Shape *find_shape(Converter *c, Instruction *inst)
{
    const Shape *said = inst->shape;
    bool open = said == NULL || shape_is_unbounded(said);
    if (inst->op == OP_CONSTANT || inst->op == OP_PARAMETER ||
        (!open && !op_is(inst->op, OPF_RECOMPUTED | OPF_ELEMENTWISE)))
        return said;
    InferContext cx = {.intern = c->intern, .arena = c->scratch, .diag = c->diag};
    if (open)
        inst->shape = NULL;
    const Shape *found = infer_shape(&cx, inst);
    if (found == NULL || open || op_is(inst->op, OPF_RECOMPUTED))
        return found;
    if (shape_compatible(found, said))
        return said;
    return convert_error(c, "%s gives %s, but its type says %s", c->op->name,
                         shape_text(c->scratch, found, false),
                         shape_text(c->scratch, said, false));
}

Instruction *make_finish(Converter *c, Instruction *inst)
{
    if (inst == NULL)
        return NULL;
    int arity = op_info[inst->op].arity;
    if (arity >= 0 && inst->operand_count != (uint32_t)arity)
        return convert_error(c, "%s has %d operands, but here are %u",
                             op_info[inst->op].name, arity, inst->operand_count);
    if (!has_required(c, inst))
        return NULL;
    drop_defaults(inst);
    inst->shape = find_shape(c, inst);
    return inst->shape != NULL ? inst : NULL;
}

/* -- small ones ---------------------------------------------------------------------------- */

Instruction *make_constant(Converter *c, const Literal *l)
{
    if (l == NULL)
        return NULL;
    Instruction *inst = make(c, OP_CONSTANT, l->shape, 0, NULL);
    inst->literal = l;
    return inst;
}

Instruction *make_scalar(Converter *c, DType t, double value)
{
    Literal *l = literal_create(c->arena, shape_scalar(c->intern, t));
    if (dtype_is_complex(t))
        literal_set_complex(l, 0, value, 0);
    else
        literal_set_double(l, 0, value);
    return make_constant(c, l);
}

Instruction *make_int_scalar(Converter *c, DType t, int64_t value)
{
    Literal *l = literal_create(c->arena, shape_scalar(c->intern, t));
    literal_set_int(l, 0, value);
    return make_constant(c, l);
}

Instruction *make_broadcast(Converter *c, Instruction *scalar, const Shape *like)
{
    if (scalar == NULL || like->rank == 0)
        return scalar;
    const Shape *s = shape_array(c->intern, scalar->shape->dtype, like->rank, like->dims,
                                 like->dynamic, NULL);
    Instruction *inst = make1(c, OP_BROADCAST, s, scalar);
    inst_set_ints(inst, ATTR_DIMENSIONS, NULL, 0);
    return inst;
}

Instruction *make_splat(Converter *c, const Shape *like, double value)
{
    return make_broadcast(c, make_scalar(c, like->dtype, value), like);
}

Instruction *make_convert(Converter *c, Instruction *inst, DType t)
{
    if (inst == NULL || inst->shape->dtype == t)
        return inst;
    return make1(c, OP_CONVERT, shape_with_dtype(c->intern, inst->shape, t), inst);
}

Instruction *make_reshape(Converter *c, Instruction *inst, uint32_t rank,
                          const int64_t *dims)
{
    if (inst == NULL)
        return NULL;
    const Shape *s = shape_sized(c, inst->shape, rank, dims);
    return s == inst->shape ? inst : make1(c, OP_RESHAPE, s, inst);
}

Instruction *make_transpose(Converter *c, Instruction *inst, const int64_t *permutation)
{
    if (inst == NULL)
        return NULL;
    uint32_t rank = inst->shape->rank;
    int64_t *dims = ARENA_ARRAY(c->scratch, int64_t, rank + 1u);
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = inst->shape->dims[permutation[i]];
    Instruction *result =
        make1(c, OP_TRANSPOSE, shape_sized(c, inst->shape, rank, dims), inst);
    inst_set_ints(result, ATTR_DIMENSIONS, permutation, rank);
    return result;
}

Instruction *make_tuple(Converter *c, uint32_t count, Instruction *const *elements)
{
    const Shape **shapes = ARENA_ARRAY(c->scratch, const Shape *, count + 1u);
    for (uint32_t i = 0; i < count; i++) {
        if (elements[i] == NULL)
            return NULL;
        shapes[i] = elements[i]->shape;
    }
    return make(c, OP_TUPLE, shape_tuple(c->intern, count, shapes), count, elements);
}

Instruction *make_element(Converter *c, Instruction *tuple, uint32_t i)
{
    if (tuple == NULL)
        return NULL;
    Instruction *inst = make1(c, OP_GET_TUPLE_ELEMENT, tuple->shape->elements[i], tuple);
    inst_set_int(inst, ATTR_INDEX, i);
    return inst;
}

Instruction *make_call(Converter *c, OpCode op, const Shape *shape, uint32_t count,
                       Instruction *const *operands, AttrId id, Computation *callee)
{
    if (callee == NULL)
        return NULL;
    Instruction *inst = make(c, op, shape, count, operands);
    if (inst != NULL)
        inst_set_computation(inst, id, callee);
    return inst;
}

/* -- results ------------------------------------------------------------------------------- */

void bind(Converter *c, const MlirOp *op, Instruction *result)
{
    if (op->result_count == 0)
        return;
    if (result != NULL && op->results[0].name != NULL)
        result->name = op->results[0].name;
    op->results[0].inst = result;
    if (result != NULL)
        set_notes(c, op, result);
}

void bind_elements(Converter *c, const MlirOp *op, Instruction *tuple)
{
    if (tuple != NULL)
        set_notes(c, op, tuple);
    if (tuple != NULL && op->result_count != 0 && op->results[0].name != NULL)
        tuple->name = op->results[0].name;
    if (op->result_count == 1) {
        op->results[0].inst = tuple;
        return;
    }
    if (tuple != NULL && tuple->shape->rank != op->result_count) {
        convert_error(c, "%s has %u results, but %u types", op->name, tuple->shape->rank,
                      op->result_count);
        tuple = NULL;
    }
    for (uint32_t i = 0; i < op->result_count; i++)
        op->results[i].inst =
            op->results[i].uses != 0 || tuple == NULL ? make_element(c, tuple, i) : NULL;
}
