/* Attributes and called computations of instructions. See module.h. */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/base/bug.h"
#include "ir/module.h"

const Attr *inst_attr(const Instruction *inst, AttrId id)
{
    for (uint32_t i = 0; i < inst->attr_count; i++) {
        if (inst->attrs[i].id == id)
            return &inst->attrs[i];
    }
    return NULL;
}

bool inst_has(const Instruction *inst, AttrId id)
{
    return inst_attr(inst, id) != NULL;
}

void inst_set(Instruction *inst, Attr attr)
{
    uint32_t at = 0;
    while (at < inst->attr_count && inst->attrs[at].id < attr.id)
        at++;
    if (at < inst->attr_count && inst->attrs[at].id == attr.id) {
        inst->attrs[at] = attr;
        return;
    }
    Attr *grown =
        ARENA_ARRAY(inst->parent->module->arena, Attr, (size_t)inst->attr_count + 1);
    if (at != 0)
        memcpy(grown, inst->attrs, at * sizeof *grown);
    grown[at] = attr;
    if (at != inst->attr_count)
        memcpy(grown + at + 1, inst->attrs + at, (inst->attr_count - at) * sizeof *grown);
    inst->attrs = grown;
    inst->attr_count++;
}

void inst_unset(Instruction *inst, AttrId id)
{
    for (uint32_t i = 0; i < inst->attr_count; i++) {
        if (inst->attrs[i].id == id) {
            memmove(inst->attrs + i, inst->attrs + i + 1,
                    (inst->attr_count - i - 1) * sizeof *inst->attrs);
            inst->attr_count--;
            return;
        }
    }
}

void inst_forget_shape_facts(Instruction *inst)
{
    inst_unset(inst, ATTR_SHARDING);
    inst_unset(inst, ATTR_ORIGIN);
    inst_unset(inst, ATTR_PARAMETER_REPLICATION);
}

void inst_take_origin(Instruction *to, const Instruction *value)
{
    const Attr *origin = inst_attr(value, ATTR_ORIGIN);
    if (origin != NULL)
        inst_set(to, *origin);
    else
        inst_unset(to, ATTR_ORIGIN);
}

int64_t inst_int(const Instruction *inst, AttrId id, int64_t absent)
{
    const Attr *a = inst_attr(inst, id);
    return a == NULL ? absent : a->i;
}

bool inst_bool(const Instruction *inst, AttrId id)
{
    return inst_int(inst, id, 0) != 0;
}

double inst_float(const Instruction *inst, AttrId id, double absent)
{
    const Attr *a = inst_attr(inst, id);
    return a == NULL ? absent : a->f;
}

Ints inst_ints(const Instruction *inst, AttrId id)
{
    const Attr *a = inst_attr(inst, id);
    return a == NULL ? (Ints){0} : a->ints;
}

IntLists inst_int_lists(const Instruction *inst, AttrId id)
{
    const Attr *a = inst_attr(inst, id);
    return a == NULL ? (IntLists){0} : a->lists;
}

Bytes inst_bytes(const Instruction *inst, AttrId id)
{
    const Attr *a = inst_attr(inst, id);
    return a == NULL ? (Bytes){.data = "", .length = 0} : a->bytes;
}

const Window *inst_window(const Instruction *inst)
{
    static const Window none = {0};
    const Attr *a = inst_attr(inst, ATTR_WINDOW);
    return a == NULL ? &none : a->window;
}

void inst_set_int(Instruction *inst, AttrId id, int64_t value)
{
    inst_set(inst, (Attr){.id = id, .i = value});
}

void inst_set_ints(Instruction *inst, AttrId id, const int64_t *data, uint32_t count)
{
    const int64_t *copy =
        arena_copy(inst->parent->module->arena, data, count * sizeof *data);
    inst_set(inst, (Attr){.id = id, .ints = {copy, count}});
}

void inst_set_bytes(Instruction *inst, AttrId id, const char *data, size_t length)
{
    const char *copy = arena_text(inst->parent->module->arena, data, length);
    inst_set(inst, (Attr){.id = id, .bytes = {copy, length}});
}

void inst_set_slice(Instruction *inst, const SliceDim *dims, uint32_t rank)
{
    Arena *a = inst->parent->module->arena;
    SliceSpec *slice = ARENA_NEW(a, SliceSpec);
    *slice = (SliceSpec){rank, arena_copy(a, dims, rank * sizeof *dims)};
    inst_set(inst, (Attr){.id = ATTR_SLICE, .slice = slice});
}

void inst_set_computation(Instruction *inst, AttrId id, Computation *callee)
{
    Computation **data = ARENA_NEW(inst->parent->module->arena, Computation *);
    *data = callee;
    inst_set(inst, (Attr){.id = id, .computations = {data, 1}});
}

static bool holds_computations(const Attr *a)
{
    AttrKind kind = attr_info[a->id].kind;
    return kind == AK_COMPUTATION || kind == AK_COMPUTATIONS;
}

uint32_t inst_count_called(const Instruction *inst)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < inst->attr_count; i++) {
        if (holds_computations(&inst->attrs[i]))
            n += inst->attrs[i].computations.count;
    }
    return n;
}

/* Where the i-th called computation stands. Attributes are sorted by AttrId, and attrs.def lists
 * those that hold computations in the order in which they count as called. */
static Computation **called_slot(const Instruction *inst, uint32_t i)
{
    for (uint32_t k = 0; k < inst->attr_count; k++) {
        const Attr *a = &inst->attrs[k];
        if (!holds_computations(a))
            continue;
        if (i < a->computations.count)
            return &a->computations.data[i];
        i -= a->computations.count;
    }
    bug("instruction %s calls fewer computations", inst->name);
}

Computation *inst_called(const Instruction *inst, uint32_t i)
{
    return *called_slot(inst, i);
}

void inst_own_called(Instruction *inst)
{
    for (uint32_t k = 0; k < inst->attr_count; k++) {
        Attr *a = &inst->attrs[k];
        if (holds_computations(a) && a->computations.count != 0)
            a->computations.data =
                arena_copy(inst->parent->module->arena, a->computations.data,
                           a->computations.count * sizeof(Computation *));
    }
}

void inst_put_called(Instruction *inst, uint32_t i, Computation *callee)
{
    *called_slot(inst, i) = callee;
}

void inst_set_called(Instruction *inst, uint32_t i, Computation *callee)
{
    inst_own_called(inst);
    inst_put_called(inst, i, callee);
}

/* Attributes that say nothing about what is computed. */
static bool is_annotation(AttrId id)
{
    return id == ATTR_METADATA || id == ATTR_ORIGIN || id == ATTR_STATISTICS;
}

/* The next attribute from `i` on that says something about what is computed. */
static uint32_t next_attr(const Instruction *inst, uint32_t i)
{
    while (i < inst->attr_count && is_annotation(inst->attrs[i].id))
        i++;
    return i;
}

static bool same_attr(const Attr *a, const Attr *b, bool callees)
{
    if (!callees && a->id == b->id && holds_computations(a))
        return a->computations.count == b->computations.count;
    return attr_equal(a, b);
}

static bool same_operation(const Instruction *a, const Instruction *b, bool callees)
{
    if (a->op != b->op || a->shape != b->shape)
        return false;
    if (a->op == OP_PARAMETER && a->parameter != b->parameter)
        return false;
    if (a->op == OP_CONSTANT && !literal_equal(a->literal, b->literal))
        return false;
    uint32_t i = 0, k = 0;
    for (;; i++, k++) {
        i = next_attr(a, i);
        k = next_attr(b, k);
        if (i == a->attr_count || k == b->attr_count)
            return i == a->attr_count && k == b->attr_count;
        if (!same_attr(&a->attrs[i], &b->attrs[k], callees))
            return false;
    }
}

bool inst_same_operation(const Instruction *a, const Instruction *b)
{
    return same_operation(a, b, true);
}

bool inst_same_but_callees(const Instruction *a, const Instruction *b)
{
    return same_operation(a, b, false);
}

uint64_t inst_operation_hash(const Instruction *inst)
{
    uint64_t h = (uint64_t)inst->op * UINT64_C(0x9e3779b97f4a7c15);
    h ^= (uint64_t)(uintptr_t)inst->shape;
    if (inst->op == OP_PARAMETER)
        h += (uint64_t)inst->parameter;
    if (inst->op == OP_CONSTANT && inst->literal->data != NULL)
        h ^= XXH3_64bits(inst->literal->data, literal_bytes(inst->literal));
    for (uint32_t i = 0; i < inst->attr_count; i++) {
        if (!is_annotation(inst->attrs[i].id))
            h = (h ^ attr_hash(&inst->attrs[i])) * UINT64_C(0xff51afd7ed558ccd);
    }
    return h ^ (h >> 32);
}

bool inst_has_default_precision(const Instruction *inst)
{
    Ints precision = inst_ints(inst, ATTR_OPERAND_PRECISION);
    for (uint32_t i = 0; i < precision.count; i++) {
        if (precision.data[i] != PRECISION_DEFAULT)
            return false;
    }
    return true;
}

bool inst_has_scalar_starts(const Instruction *inst)
{
    uint32_t first = inst->op == OP_DYNAMIC_SLICE ? 1 : 2;
    return inst->operand_count == first || inst->operands[first]->shape->rank == 0;
}

bool inst_is_constant_scalar(const Instruction *inst, double value)
{
    while (inst->op == OP_BROADCAST)
        inst = inst->operands[0];
    return inst->op == OP_CONSTANT && shape_is_array(inst->shape) &&
           inst->literal->count > 0 && literal_is_all(inst->literal, value);
}
