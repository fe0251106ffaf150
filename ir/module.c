/* Making modules: computations and instructions. See module.h. */
#include "ir/module.h"

#include <string.h>

#include "ir/base/bug.h"
#include "ir/names.h"

Module *module_create(Arena *a, Diag *d, const char *name)
{
    Module *m = ARENA_NEW(d->arena, Module);
    m->arena = a;
    m->diag = d;
    m->intern = intern_create(a);
    m->name = intern_string(m->intern, name);
    m->instruction_names = names_create(a);
    m->computation_names = names_create(a);
    m->config.replica_count = 1;
    m->config.num_partitions = 1;
    return m;
}

const char *module_unique_name(Module *m, const char *wanted)
{
    return names_take(m->instruction_names, wanted);
}

const char *module_unique_computation_name(Module *m, const char *wanted)
{
    return names_take(m->computation_names, wanted);
}

Computation *module_add_computation(Module *m, const char *name)
{
    Computation *comp = ARENA_NEW(m->arena, Computation);
    comp->name = name == NULL ? NULL : module_unique_computation_name(m, name);
    comp->module = m;
    comp->execution_thread = "main";
    comp->id = m->computation_count;
    m->computations = arena_grow(m->arena, m->computations, &m->computation_capacity,
                                 (size_t)m->computation_count + 1, sizeof(Computation *));
    m->computations[m->computation_count++] = comp;
    return comp;
}

Instruction *computation_append(Computation *comp, OpCode op, const Shape *shape,
                                uint32_t operand_count, Instruction *const *operands)
{
    Arena *a = comp->module->arena;
    Instruction *inst = ARENA_NEW(a, Instruction);
    inst->op = op;
    op_set_add(&comp->module->ops, op);
    inst->shape = shape;
    inst->parent = comp;
    inst->operand_count = operand_count;
    if (operand_count != 0)
        inst->operands = arena_copy(a, operands, operand_count * sizeof *operands);
    for (uint32_t i = 0; i < operand_count; i++) {
        if (operands[i] == NULL || operands[i]->parent != comp)
            bug("operand %u of a new %s belongs to another computation", i,
                op_info[op].name);
    }
    inst->id = comp->instruction_count;
    comp->instructions =
        arena_grow(a, comp->instructions, &comp->instruction_capacity,
                   (size_t)comp->instruction_count + 1, sizeof(Instruction *));
    comp->instructions[comp->instruction_count++] = inst;
    return inst;
}

Instruction *computation_add(Computation *comp, OpCode op, const Shape *shape,
                             uint32_t operand_count, Instruction *const *operands,
                             const char *name)
{
    Instruction *inst = computation_append(comp, op, shape, operand_count, operands);
    inst->name = module_unique_name(comp->module, name != NULL ? name : op_info[op].name);
    return inst;
}

void computation_register_parameter(Computation *comp, Instruction *inst, int64_t number)
{
    inst->parameter = number;
    if (number < 0 || number >= INT32_MAX)
        bug("parameter number %lld", (long long)number);
    if (number >= comp->parameter_count) {
        Instruction **grown =
            ARENA_ARRAY(comp->module->arena, Instruction *, (size_t)number + 1);
        if (comp->parameter_count != 0)
            memcpy(grown, comp->parameters, comp->parameter_count * sizeof *grown);
        comp->parameters = grown;
        comp->parameter_count = (uint32_t)number + 1;
    }
    comp->parameters[number] = inst;
}

Instruction *computation_add_parameter(Computation *comp, int64_t number,
                                       const Shape *shape, const char *name)
{
    Instruction *inst = computation_add(comp, OP_PARAMETER, shape, 0, NULL, name);
    computation_register_parameter(comp, inst, number);
    return inst;
}

Instruction *computation_add_constant(Computation *comp, const Literal *l,
                                      const char *name)
{
    Instruction *inst = computation_add(comp, OP_CONSTANT, l->shape, 0, NULL, name);
    inst->literal = l;
    return inst;
}

Computation *module_add_reducer(Module *m, OpCode op, DType t)
{
    Computation *comp = module_add_computation(m, op_info[op].name);
    const Shape *s = shape_scalar(m->intern, t);
    Instruction *pair[2] = {computation_add_parameter(comp, 0, s, NULL),
                            computation_add_parameter(comp, 1, s, NULL)};
    comp->root = computation_add(comp, op, s, 2, pair, NULL);
    return comp;
}

Computation *module_add_adder(Module *m, DType t)
{
    return module_add_reducer(m, OP_ADD, t);
}

Instruction *computation_add_element(Instruction *tuple, uint32_t i)
{
    Instruction *e = computation_add(tuple->parent, OP_GET_TUPLE_ELEMENT,
                                     tuple->shape->elements[i], 1, &tuple, NULL);
    inst_set_int(e, ATTR_INDEX, i);
    return e;
}

Instruction *computation_add_scalar(Computation *comp, DType dtype, double value)
{
    Module *m = comp->module;
    Literal *l = literal_create(m->arena, shape_scalar(m->intern, dtype));
    literal_set_double(l, 0, value);
    return computation_add_constant(comp, l, NULL);
}

/* What a copied instruction takes along: all but operands, control edges and position. */
static void copy_facts(Instruction *to, const Instruction *from)
{
    Arena *a = to->parent->module->arena;
    to->attr_count = from->attr_count;
    if (from->attr_count != 0)
        to->attrs = arena_copy(a, from->attrs, from->attr_count * sizeof *from->attrs);
    if (from->op == OP_CONSTANT)
        to->literal = from->literal;
    to->span = from->span;
    if (from->op == OP_PARAMETER)
        computation_register_parameter(to->parent, to, from->parameter);
}

Instruction *computation_add_like(Computation *comp, const Instruction *like,
                                  const Shape *shape, uint32_t operand_count,
                                  Instruction *const *operands)
{
    Instruction *inst =
        computation_add(comp, like->op, shape, operand_count, operands, like->name);
    copy_facts(inst, like);
    if (shape_is_tuple(shape) != shape_is_tuple(like->shape) ||
        shape_leaf_count(shape) != shape_leaf_count(like->shape))
        inst_unset(inst, ATTR_ORIGIN); /* it has the shape's leaves */
    return inst;
}

Instruction *computation_add_moved(Computation *comp, const Instruction *like,
                                   Instruction *const *operands)
{
    Instruction *inst =
        computation_append(comp, like->op, like->shape, like->operand_count, operands);
    inst->name = like->name;
    inst->attr_count = like->attr_count;
    inst->attrs = like->attrs;
    if (like->op == OP_CONSTANT)
        inst->literal = like->literal;
    inst->span = like->span;
    return inst;
}

Computation *computation_clone(Computation *comp, const char *name)
{
    return computation_clone_into(comp->module, comp, name);
}

Computation *computation_clone_into(Module *m, const Computation *comp, const char *name)
{
    Computation *clone = module_add_computation(m, name != NULL ? name : comp->name);
    Instruction **map = ARENA_ARRAY(m->arena, Instruction *, comp->instruction_count);
    Arena *scratch = arena_scratch();
    uint32_t count;
    Instruction **order = computation_post_order(comp, scratch, &count);
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *from = order[i];
        Instruction *to = computation_append(clone, from->op, from->shape, 0, NULL);
        to->name = module_unique_name(m, from->name);
        copy_facts(to, from);
        to->operand_count = from->operand_count;
        to->operands = ARENA_ARRAY(m->arena, Instruction *, from->operand_count);
        for (uint32_t k = 0; k < from->operand_count; k++)
            to->operands[k] = map[from->operands[k]->id];
        to->control_count = from->control_count;
        to->control = ARENA_ARRAY(m->arena, Instruction *, from->control_count);
        for (uint32_t k = 0; k < from->control_count; k++)
            to->control[k] = map[from->control[k]->id];
        map[from->id] = to;
    }
    arena_destroy(scratch);
    clone->root = map[comp->root->id];
    clone->execution_thread = comp->execution_thread;
    clone->is_fused = comp->is_fused;
    clone->is_async_wrapped = comp->is_async_wrapped;
    clone->span = comp->span;
    return clone;
}
