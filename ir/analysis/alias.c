/* Union-find over the leaves of all instructions. See alias.h. */
#include "ir/analysis/alias.h"

#include "ir/base/bug.h"

struct AliasSets {
    const Module *module;
    uint32_t **first; /* [computation id][instruction id]: position of leaf 0 */
    uint32_t *parent; /* [positions] */
    uint32_t *number; /* [positions] of the root: its set's number */
    uint32_t position_count, set_count;
};

size_t alias_element_leaf(const Shape *tuple, uint32_t i)
{
    return tuple->first_leaf[i];
}

static uint32_t find(uint32_t *parent, uint32_t x)
{
    while (parent[x] != x) {
        parent[x] = parent[parent[x]];
        x = parent[x];
    }
    return x;
}

static uint32_t alias_position(const AliasSets *s, const Instruction *inst, size_t leaf)
{
    return s->first[inst->parent->id][inst->id] + (uint32_t)leaf;
}

static void join(AliasSets *s, const Instruction *a, size_t a_leaf, const Instruction *b,
                 size_t b_leaf, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t x = find(s->parent, alias_position(s, a, a_leaf + i));
        uint32_t y = find(s->parent, alias_position(s, b, b_leaf + i));
        if (x < y)
            s->parent[y] = x;
        else
            s->parent[x] = y;
    }
}

static void join_all(AliasSets *s, const Instruction *a, const Instruction *b)
{
    size_t n = shape_leaf_count(a->shape);
    if (n != shape_leaf_count(b->shape))
        bug("%s and %s cannot share buffers: their shapes differ", a->name, b->name);
    join(s, a, 0, b, 0, n);
}

size_t alias_index_leaf(const Shape *shape, Ints index)
{
    size_t leaf = 0;
    for (uint32_t i = 0; i < index.count; i++) {
        leaf += alias_element_leaf(shape, (uint32_t)index.data[i]);
        shape = shape->elements[index.data[i]];
    }
    return leaf;
}

static void join_declared(AliasSets *s, const Instruction *inst)
{
    const Attr *attr = inst_attr(inst, ATTR_OUTPUT_TO_OPERAND_ALIASING);
    for (uint32_t i = 0; attr != NULL && i < attr->aliasing->count; i++) {
        const AliasEntry *e = &attr->aliasing->entries[i];
        const Instruction *operand = inst->operands[e->operand];
        join(s, inst, alias_index_leaf(inst->shape, e->output), operand,
             alias_index_leaf(operand->shape, e->input), 1);
    }
}

static void join_while(AliasSets *s, const Instruction *inst)
{
    const Computation *condition = inst_called(inst, 0), *body = inst_called(inst, 1);
    join_all(s, inst, inst->operands[0]);
    join_all(s, inst, condition->parameters[0]);
    join_all(s, inst, body->parameters[0]);
    join_all(s, inst, body->root);
}

static void join_call(AliasSets *s, const Instruction *inst, const Computation *callee,
                      uint32_t first_operand)
{
    for (uint32_t i = 0; i < callee->parameter_count; i++)
        join_all(s, callee->parameters[i], inst->operands[first_operand + i]);
    join_all(s, inst, callee->root);
}

size_t async_result_leaf(const Instruction *start)
{
    return start->op == OP_ALL_REDUCE_START ? 0
                                            : shape_leaf_count(start->shape->elements[0]);
}

/* (operands, results): the operands themselves; what runs inside reads and writes the same. */
static void join_start(AliasSets *s, const Instruction *inst)
{
    size_t leaf = 0, result = async_result_leaf(inst);
    for (uint32_t i = 0; i < inst->operand_count && result != 0; i++) {
        size_t n = shape_leaf_count(inst->operands[i]->shape);
        join(s, inst, leaf, inst->operands[i], 0, n);
        leaf += n;
    }
    if (inst->op != OP_ASYNC_START)
        return;
    const Computation *callee = inst_called(inst, 0);
    for (uint32_t i = 0; i < callee->parameter_count; i++)
        join_all(s, callee->parameters[i], inst->operands[i]);
    join(s, inst, result, callee->root, 0, shape_leaf_count(callee->root->shape));
}

static void join_instruction(AliasSets *s, const Instruction *inst)
{
    switch (inst->op) {
    case OP_ALL_GATHER_START:
    case OP_COLLECTIVE_PERMUTE_START:
    case OP_ASYNC_START:
        join_start(s, inst);
        break;
    case OP_ALL_REDUCE_DONE:
    case OP_ALL_GATHER_DONE:
    case OP_COLLECTIVE_PERMUTE_DONE:
    case OP_ASYNC_DONE:
        join(s, inst, 0, inst->operands[0], async_result_leaf(inst->operands[0]),
             shape_leaf_count(inst->shape));
        break;
    case OP_TUPLE:
        for (uint32_t i = 0; i < inst->operand_count; i++)
            join(s, inst, alias_element_leaf(inst->shape, i), inst->operands[i], 0,
                 shape_leaf_count(inst->operands[i]->shape));
        break;
    case OP_GET_TUPLE_ELEMENT:
        join(s, inst, 0, inst->operands[0],
             alias_element_leaf(inst->operands[0]->shape,
                                (uint32_t)inst_int(inst, ATTR_INDEX, 0)),
             shape_leaf_count(inst->shape));
        break;
    case OP_BITCAST:
    case OP_OPT_BARRIER:
    case OP_DOMAIN:
    case OP_ADD_DEPENDENCY:
        join_all(s, inst, inst->operands[0]);
        break;
    case OP_WHILE:
        join_while(s, inst);
        break;
    case OP_CALL:
        join_call(s, inst, inst_called(inst, 0), 0);
        break;
    case OP_CONDITIONAL:
        for (uint32_t i = 0; i < inst_called_count(inst); i++)
            join_call(s, inst, inst_called(inst, i), i + 1);
        break;
    default:
        break;
    }
    join_declared(s, inst);
}

static void join_entry(AliasSets *s, const Module *m)
{
    const Aliasing *aliasing = &m->config.input_output_alias;
    for (uint32_t i = 0; i < aliasing->count; i++) {
        const AliasEntry *e = &aliasing->entries[i];
        const Instruction *root = m->entry->root,
                          *parameter = m->entry->parameters[e->operand];
        join(s, root, alias_index_leaf(root->shape, e->output), parameter,
             alias_index_leaf(parameter->shape, e->input), 1);
    }
}

bool alias_defines(const Instruction *inst)
{
    switch (inst->op) {
    case OP_TUPLE:
    case OP_GET_TUPLE_ELEMENT:
    case OP_BITCAST:
    case OP_OPT_BARRIER:
    case OP_DOMAIN:
    case OP_ADD_DEPENDENCY:
    case OP_WHILE:
    case OP_CALL:
    case OP_CONDITIONAL:
    case OP_ALL_REDUCE_DONE:
    case OP_ALL_GATHER_DONE:
    case OP_COLLECTIVE_PERMUTE_DONE:
    case OP_ASYNC_DONE:
        return false;
    default:
        return true;
    }
}

AliasSets *alias_sets_create(const Module *m, Arena *a)
{
    AliasSets *s = ARENA_NEW(a, AliasSets);
    s->module = m;
    s->first = ARENA_ARRAY(a, uint32_t *, m->computation_count);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (comp->is_fused)
            continue;
        s->first[comp->id] = ARENA_ARRAY(a, uint32_t, comp->instruction_count);
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            s->first[comp->id][inst->id] = s->position_count;
            s->position_count += (uint32_t)shape_leaf_count(inst->shape);
        }
    }
    s->parent = ARENA_ARRAY(a, uint32_t, s->position_count);
    s->number = ARENA_ARRAY(a, uint32_t, s->position_count);
    for (uint32_t i = 0; i < s->position_count; i++)
        s->parent[i] = i;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (s->first[comp->id] == NULL)
            continue;
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            join_instruction(s, inst);
        }
    }
    join_entry(s, m);
    for (uint32_t i = 0; i < s->position_count; i++) {
        uint32_t root = find(s->parent, i);
        if (root == i)
            s->number[i] = s->set_count++;
        else
            s->number[i] = s->number[root]; /* roots are the smallest of their set */
    }
    return s;
}

uint32_t alias_set(const AliasSets *s, const Instruction *inst, size_t leaf)
{
    return s->number[alias_position(s, inst, leaf)];
}

uint32_t alias_set_count(const AliasSets *s)
{
    return s->set_count;
}
