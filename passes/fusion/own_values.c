/* Values that need a buffer of their own are made by kernels of their own, which can be joined
 * with others: what a loop starts from, and what a loop body or the program hands on although it
 * did not make it. Otherwise copy insertion would make each a copy.
 *
 *   z = fusion(), calls={0 broadcast}   loop = while(tuple(0, z, z, p))
 *   ->  c = fusion(), calls={0}   z1 = z   z2 = z (again)   q = fusion(p), calls={copy}
 *       loop = while(tuple(c, z1, z2, q))
 *
 * Needs: wrapped. Keeps: values. Ends: one sweep over the operands of loops, and the roots. */
#include "ir/analysis/carried.h"
#include "ir/kernel/kind.h"
#include "passes/fusion/fusion.h"

#define FREE_MOST_NODES 6         /* of a kernel that is rather run again than copied */
#define COPY_MOST_BYTES (1 << 20) /* more are copied as well by the copy engine */

typedef struct Own {
    Module *m;
    Computation *comp;
    PassContext *cx;
    Uses uses;
    uint32_t count; /* instructions when the pass began */
    bool changed;
} Own;

static bool is_made_here(const Instruction *inst)
{
    return inst->op != OP_PARAMETER && inst->op != OP_CONSTANT;
}

static bool is_free(const Instruction *inst)
{
    if (!kernel_is(inst, KERNEL_BY_ELEMENT) || !shape_is_array(inst->shape) ||
        inst_called(inst, 0)->instruction_count > FREE_MOST_NODES)
        return false;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (inst->operands[i]->shape->rank != 0)
            return false;
    }
    return true;
}

static bool is_shared(const Own *o, const Instruction *inst)
{
    return inst->id < o->count &&
           o->uses.start[inst->id + 1] - o->uses.start[inst->id] > 1;
}

/* The same kernel once more. */
static Instruction *again(Own *o, const Instruction *fusion)
{
    Instruction *copy = computation_add_like(o->comp, fusion, fusion->shape,
                                             fusion->operand_count, fusion->operands);
    inst_set_called(copy, 0, computation_clone(inst_called(fusion, 0), NULL));
    return copy;
}

static Instruction *copy_kernel(Own *o, Instruction *value)
{
    Instruction *copy =
        computation_add(o->comp, OP_COPY, value->shape, 1, &value, value->name);
    Instruction *fusion = fusion_wrap(copy);
    kernel_kind_set(fusion, KERNEL_LOOP);
    computation_remove(o->comp, copy);
    return fusion;
}

/* A value for the buffer, or NULL: this one may lie there, or copy insertion knows better. */
static Instruction *own_value(Own *o, Instruction *value)
{
    if (!shape_is_array(value->shape) || shape_elements(value->shape) == 0)
        return NULL;
    ValueSource s = value_source(value, 0);
    if (!is_made_here(s.inst))
        return shape_bytes(value->shape) <= COPY_MOST_BYTES ? copy_kernel(o, value)
                                                            : NULL;
    if (s.inst != value)
        return NULL;
    return is_free(value) && is_shared(o, value) ? again(o, value) : NULL;
}

/* `tuple` with values of its own where wanted; itself if there is nothing to do. */
static Instruction *own_tuple(Own *o, Instruction *tuple, const bool *wanted)
{
    Instruction **operands =
        ARENA_ARRAY(o->cx->scratch, Instruction *, (size_t)tuple->operand_count + 1);
    bool changed = false;
    for (uint32_t i = 0; i < tuple->operand_count; i++) {
        Instruction *own = wanted[i] ? own_value(o, tuple->operands[i]) : NULL;
        operands[i] = own != NULL ? own : tuple->operands[i];
        changed |= own != NULL;
    }
    if (!changed)
        return tuple;
    o->changed = true;
    return computation_add_like(o->comp, tuple, tuple->shape, tuple->operand_count,
                                operands);
}

static void visit_while(Own *o, Instruction *loop)
{
    Instruction *init = loop->operands[0];
    if (init->op != OP_TUPLE)
        return;
    bool *wanted = ARENA_ARRAY(o->cx->scratch, bool, (size_t)init->operand_count + 1);
    size_t leaf = 0;
    for (uint32_t i = 0; i < init->operand_count; i++) {
        wanted[i] =
            shape_is_array(init->operands[i]->shape) && !loop_hands_on(loop, leaf);
        leaf += shape_leaf_count(init->operands[i]->shape);
    }
    loop->operands[0] = own_tuple(o, init, wanted);
}

static void visit_root(Own *o, bool is_body)
{
    Instruction *root = o->comp->root;
    if (root->op != OP_TUPLE)
        return;
    bool *wanted = ARENA_ARRAY(o->cx->scratch, bool, (size_t)root->operand_count + 1);
    const ValueSource *present = carried_presents(o->comp, is_body, o->cx->scratch);
    size_t leaf = 0;
    for (uint32_t i = 0; i < root->operand_count; i++) {
        const Shape *s = root->operands[i]->shape;
        if (shape_is_array(s)) {
            wanted[i] =
                present[leaf].inst == NULL ||
                !value_source_is(value_source(root->operands[i], 0), present[leaf]);
        }
        leaf += shape_leaf_count(s);
    }
    o->comp->root = own_tuple(o, root, wanted);
}

/* Kernels that only loops read, each its own by now. */
static void remove_unused(Own *o)
{
    Uses uses = uses_compute(o->comp, o->cx->scratch);
    bool *is_awaited = ARENA_ARRAY(o->cx->scratch, bool, o->comp->instruction_count + 1u);
    for (const Instruction *inst = inst_first(o->comp); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->control_count; k++)
            is_awaited[inst->control[k]->id] = true;
    }
    for (uint32_t i = o->count; i-- > 0;) {
        Instruction *inst = o->comp->instructions[i];
        bool is_ours = inst != NULL && (inst->op == OP_TUPLE || is_free(inst));
        if (is_ours && inst != o->comp->root && uses.start[i] == uses.start[i + 1] &&
            inst->control_count == 0 && !is_awaited[i]) {
            computation_remove(o->comp, inst);
            uses = uses_compute(o->comp, o->cx->scratch);
        }
    }
}

bool pass_own_values(Module *m, PassContext *cx)
{
    Own o = {.m = m, .cx = cx};
    Computations programs = module_programs(m, cx->scratch);
    const bool *is_body = module_loop_bodies(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++) {
        o.comp = programs.data[c];
        bool in_loop = is_body[o.comp->id];
        computation_compact(o.comp);
        bool changed = o.changed;
        o.changed = false;
        o.count = o.comp->instruction_count;
        o.uses = uses_compute(o.comp, cx->scratch);
        for (uint32_t i = 0; i < o.count; i++) {
            if (o.comp->instructions[i]->op == OP_WHILE)
                visit_while(&o, o.comp->instructions[i]);
        }
        if (in_loop || o.comp == m->entry)
            visit_root(&o, in_loop);
        if (o.changed)
            remove_unused(&o);
        o.changed |= changed;
    }
    if (o.changed) {
        module_remove_dead_computations(m);
        module_sort(m);
    }
    return o.changed;
}
