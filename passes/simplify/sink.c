/* What costs less inside a loop than before it. Slices of a transposed array that a loop leaves alone become transposed slices: the whole array is
 * not transposed beforehand.
 *
 *   before: t = transpose(w), dimensions={1,0,2}        body: s = dynamic-slice(t, i, 0, 0)
 *     =>  body: u = dynamic-slice(w, 0, i, 0)  s = transpose(u), dimensions={1,0,2}
 *
 * t would live as long as the loop beside w: for stacked weights that is as much again as the weights. Only
 * where the innermost dimension stays, so that slices are read as fast, and not for slices that products alone
 * read, which lie in one piece of t.
 *
 * A mask that is made of iotas and small arrays is made again by who reads it in the body (remade.h), which then knows
 * what it says: an attention leaves out the tiles where no score counts. JAX makes masks before a scan over layers.
 *
 * Needs: pass_loops (invariant values are read from outside). Keeps: values. Breaks: nothing; pass_loops and
 * pass_dce remove what is left. Ends: each change takes a transposition or a mask from an operand of a loop. */
#include <string.h>

#include "ir/analysis/loop.h"
#include "passes/simplify/carry.h"
#include "passes/simplify/remade.h"
#include "passes/simplify/simplify.h"

/* Nothing but products reads it, under this shape or another one. */
static bool only_products_read(const Uses *uses, const Instruction *inst)
{
    for (uint32_t i = uses->start[inst->id]; i < uses->start[inst->id + 1]; i++) {
        const Instruction *user = uses->list[i];
        if (user->op != OP_DOT &&
            (user->op != OP_RESHAPE || !only_products_read(uses, user)))
            return false;
    }
    return true;
}

/* The body only takes slices of this read of the element. */
static bool is_only_sliced(const Loop *loop, const Uses *uses, const Instruction *read)
{
    uint32_t slices = 0;
    for (uint32_t i = uses->start[read->id]; i < uses->start[read->id + 1]; i++) {
        const Instruction *user = uses->list[i];
        if (user == loop->body->root)
            continue;
        if (user->op != OP_DYNAMIC_SLICE || user->operands[0] != read ||
            !inst_has_scalar_starts(user) || user->control_count != 0 ||
            only_products_read(uses, user))
            return false;
        slices++;
    }
    return slices != 0;
}

static bool is_transposed(const Instruction *value)
{
    if (value->op != OP_TRANSPOSE || value->control_count != 0 ||
        shape_is_dynamic(value->shape))
        return false;
    Ints d = inst_ints(value, ATTR_DIMENSIONS);
    return d.count > 1 && d.data[d.count - 1] == d.count - 1;
}

/* The one instruction of the body that reads element i; NULL: there are others, or none. */
static Instruction *only_read(const Loop *loop, const Uses *uses, uint32_t i)
{
    const Instruction *p = loop->body->parameters[0];
    Instruction *found = NULL;
    for (uint32_t k = uses->start[p->id]; k < uses->start[p->id + 1]; k++) {
        if (inst_int(uses->list[k], ATTR_INDEX, 0) != i)
            continue;
        if (found != NULL)
            return NULL;
        found = uses->list[k];
    }
    return found;
}

static bool condition_reads(const Loop *loop, uint32_t i)
{
    for (const Instruction *inst = inst_first(loop->condition); inst;
         inst = inst_next(inst)) {
        if (inst->op == OP_GET_TUPLE_ELEMENT && inst_int(inst, ATTR_INDEX, 0) == i)
            return true;
    }
    return false;
}

/* slice, of transpose(whole): the same slice of whole, transposed. */
static Instruction *transposed_slice(const Instruction *slice, Instruction *whole,
                                     const Instruction *transpose)
{
    Computation *comp = slice->parent;
    Module *m = comp->module;
    uint32_t rank = whole->shape->rank;
    Ints d = inst_ints(transpose, ATTR_DIMENSIONS);
    int64_t *sizes = ARENA_ARRAY(m->arena, int64_t, rank);
    Instruction **operands = ARENA_ARRAY(m->arena, Instruction *, (size_t)rank + 1);
    operands[0] = whole;
    for (uint32_t i = 0; i < rank; i++) {
        sizes[d.data[i]] = slice->shape->dims[i];
        operands[d.data[i] + 1] = slice->operands[i + 1];
    }
    const Shape *shape = shape_with_dims(m->intern, slice->shape, rank, sizes);
    Instruction *part =
        computation_add(comp, OP_DYNAMIC_SLICE, shape, rank + 1, operands, slice->name);
    inst_set_ints(part, ATTR_DYNAMIC_SLICE_SIZES, sizes, rank);
    Instruction *t =
        computation_add(comp, OP_TRANSPOSE, slice->shape, 1, &part, slice->name);
    inst_set_ints(t, ATTR_DIMENSIONS, d.data, rank);
    return t;
}

typedef struct Sunk {
    Instruction *read, *transpose;
} Sunk;

static bool sink(Loop *loop, Arena *scratch)
{
    Uses uses = uses_compute(loop->body, scratch);
    Sunk *sunk = ARENA_ARRAY(scratch, Sunk, (size_t)loop->count + 1);
    Instruction **inits = ARENA_ARRAY(scratch, Instruction *, (size_t)loop->count + 1);
    Instruction **reads = ARENA_ARRAY(scratch, Instruction *, (size_t)loop->count + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < loop->count; i++) {
        Instruction *init = loop->init->operands[i];
        if (!is_transposed(init) || !loop_is_invariant(loop, i) ||
            condition_reads(loop, i))
            continue;
        Instruction *read = only_read(loop, &uses, i);
        if (read == NULL || !is_only_sliced(loop, &uses, read))
            continue;
        sunk[n] = (Sunk){read, init};
        inits[n++] = init->operands[0];
    }
    if (n == 0 || !carry_is_possible(loop))
        return false;
    uint32_t count = loop->body->instruction_count;
    carry_values(loop, n, inits, reads, scratch);
    Instruction **forward = ARENA_ARRAY(
        scratch, Instruction *, (size_t)loop->body->instruction_count + 3u * count + 1);
    for (uint32_t i = 0; i < n; i++) {
        const Instruction *read = sunk[i].read;
        for (uint32_t k = uses.start[read->id]; k < uses.start[read->id + 1]; k++) {
            const Instruction *user = uses.list[k];
            if (user->op == OP_DYNAMIC_SLICE)
                forward[user->id] = transposed_slice(user, reads[i], sunk[i].transpose);
        }
    }
    computation_replace(loop->body, forward);
    return true;
}

/* -- masks ----------------------------------------------------------------------------------------- */

enum { MOST_MOVES = 4 };

/* Kernels of elementwise operations make it in passing. `root` only passes it on. */
static bool is_read_elementwise(const Uses *uses, const Instruction *inst,
                                const Instruction *root, int depth)
{
    bool is_read = false;
    for (uint32_t i = uses->start[inst->id]; i < uses->start[inst->id + 1]; i++) {
        const Instruction *user = uses->list[i];
        bool is_moved = user->op == OP_BROADCAST || user->op == OP_RESHAPE ||
                        user->op == OP_TRANSPOSE || user->op == OP_BITCAST;
        if (user == root)
            continue;
        if (!op_is(user->op, OPF_ELEMENTWISE) &&
            (!is_moved || depth == 0 ||
             !is_read_elementwise(uses, user, root, depth - 1)))
            return false;
        is_read = true;
    }
    return is_read;
}

typedef struct Mask {
    Instruction *read, *value;
    Remade made;
    uint32_t first; /* of its sources, among all that are carried */
} Mask;

static bool remake(Loop *loop, Arena *scratch)
{
    Uses uses = uses_compute(loop->body, scratch);
    Mask *masks = ARENA_ARRAY(scratch, Mask, (size_t)loop->count + 1);
    size_t most = (size_t)loop->count * REMADE_SOURCES + 1;
    Instruction **inits = ARENA_ARRAY(scratch, Instruction *, most),
                **reads = ARENA_ARRAY(scratch, Instruction *, most);
    uint32_t n = 0, sources = 0;
    for (uint32_t i = 0; i < loop->count; i++) {
        Mask *x = &masks[n];
        x->value = loop->init->operands[i];
        if (!loop_is_invariant(loop, i) || condition_reads(loop, i) ||
            !remade_find(x->value, &x->made))
            continue;
        x->read = only_read(loop, &uses, i);
        if (x->read == NULL || x->read->shape != x->value->shape ||
            !is_read_elementwise(&uses, x->read, loop->body->root, MOST_MOVES))
            continue;
        x->first = sources;
        for (uint32_t k = 0; k < x->made.count; k++)
            inits[sources++] = x->made.sources[k];
        n++;
    }
    if (n == 0 || !carry_is_possible(loop))
        return false;
    Instruction *root = loop->body->root;
    carry_values(loop, sources, inits, reads, scratch);
    for (uint32_t i = 0; i < n; i++) {
        const Instruction *read = masks[i].read;
        Instruction *value = remade_again(loop->body, masks[i].value, &masks[i].made,
                                          &reads[masks[i].first], scratch);
        for (uint32_t k = uses.start[read->id]; k < uses.start[read->id + 1]; k++) {
            Instruction *user = uses.list[k];
            for (uint32_t o = 0; user != root && o < user->operand_count; o++) {
                if (user->operands[o] == read)
                    user->operands[o] = value;
            }
        }
    }
    computation_sort(loop->body);
    return true;
}

bool pass_sink(Module *m, PassContext *cx)
{
    bool changed = carry_each_loop(m, sink, cx);
    return carry_each_loop(m, remake, cx) || changed;
}
