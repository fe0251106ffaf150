/* See carried.h. */
#include "ir/analysis/carried.h"

#include "ir/analysis/alias.h"

ValueSource value_source(Instruction *inst, size_t leaf)
{
    for (;;) {
        switch (inst->op) {
        case OP_TUPLE:
            inst = inst->operands[shape_leaf_element(inst->shape, leaf, &leaf)];
            break;
        case OP_GET_TUPLE_ELEMENT:
            leaf += alias_element_leaf(inst->operands[0]->shape,
                                       (uint32_t)inst_int(inst, ATTR_INDEX, 0));
            inst = inst->operands[0];
            break;
        case OP_BITCAST:
        case OP_OPT_BARRIER:
        case OP_DOMAIN:
        case OP_ADD_DEPENDENCY:
            inst = inst->operands[0];
            break;
        case OP_ALL_REDUCE_DONE:
        case OP_ALL_GATHER_DONE:
        case OP_COLLECTIVE_PERMUTE_DONE:
        case OP_ASYNC_DONE:
            inst = inst->operands[0];
            leaf += async_result_leaf(inst);
            break;
        case OP_ALL_GATHER_START:
        case OP_COLLECTIVE_PERMUTE_START:
        case OP_ASYNC_START: {
            uint32_t i = 0;
            size_t n;
            if (leaf >= async_result_leaf(inst))
                return (ValueSource){inst, leaf};
            for (; (n = shape_leaf_count(inst->operands[i]->shape)) <= leaf; i++)
                leaf -= n;
            inst = inst->operands[i];
            break;
        }
        case OP_WHILE:
            if (!loop_hands_on(inst, leaf))
                return (ValueSource){inst, leaf};
            inst = inst->operands[0];
            break;
        default:
            return (ValueSource){inst, leaf};
        }
    }
}

bool value_source_is(ValueSource a, ValueSource b)
{
    return a.inst == b.inst && a.leaf == b.leaf;
}

bool loop_hands_on(const Instruction *loop, size_t leaf)
{
    const Computation *body = inst_called(loop, 1);
    ValueSource s = value_source(body->root, leaf);
    return s.inst == body->parameters[0] && s.leaf == leaf;
}

bool *module_loop_bodies(const Module *m, Arena *scratch)
{
    bool *is_body = ARENA_ARRAY(scratch, bool, (size_t)m->computation_count + 1);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op == OP_WHILE)
                is_body[inst_called(inst, 1)->id] = true;
        }
    }
    return is_body;
}

ValueSource *carried_presents(const Computation *comp, bool is_body, Arena *scratch)
{
    size_t leaves = shape_leaf_count(comp->root->shape);
    ValueSource *present = ARENA_ARRAY(scratch, ValueSource, leaves + 1);
    const Module *m = comp->module;
    for (size_t leaf = 0; is_body && leaf < leaves; leaf++)
        present[leaf] = (ValueSource){comp->parameters[0], leaf};
    if (is_body || comp != m->entry)
        return present;
    const Aliasing *aliasing = &m->config.input_output_alias;
    for (uint32_t i = 0; i < aliasing->count; i++) {
        const AliasEntry *e = &aliasing->entries[i];
        Instruction *parameter = comp->parameters[e->operand];
        present[alias_index_leaf(comp->root->shape, e->output)] =
            (ValueSource){parameter, alias_index_leaf(parameter->shape, e->input)};
    }
    return present;
}
