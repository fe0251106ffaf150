/* The elemental core: elements of any instruction through its index maps. See emit.h. */
#include <string.h>

#include "codegen/element/memo.h"
#include "codegen/element/op_emit.h"
#include "codegen/gx/lines.h"
#include "ir/base/bug.h"

/* See emit_preset. */
typedef struct Preset {
    const LLVMValueRef *values; /* [leaf][lane]; NULL: none */
    uint32_t lanes;             /* 0: the same for all of them */
    bool has_elements;          /* instead, all elements of all leaves */
} Preset;

Emit *emit_begin(Kernel *k, const Computation *comp, const uint32_t *parameter_args,
                 bool wide_index, uint32_t lanes)
{
    Emit *e = ARENA_NEW(k->arena, Emit);
    e->k = k;
    e->arena = k->arena;
    e->ix = index_context_create(k->arena);
    e->index_type = gx_int_type(k, wide_index ? 64 : 32);
    e->lanes = lanes;
    e->comp = comp;
    e->parameter_args = parameter_args;
    e->maps = ARENA_ARRAY(k->arena, IndexMap *, comp->instruction_count);
    e->presets = ARENA_ARRAY(k->arena, Preset, comp->instruction_count);
    e->memo = memo_create(k->arena);
    return e;
}

/* -- maps --------------------------------------------------------------------------------- */

static IndexMap *maps_of(Emit *e, const Instruction *inst)
{
    if (inst->parent != e->comp)
        return index_maps(e->ix, inst, 0);
    if (e->maps[inst->id] == NULL)
        e->maps[inst->id] = index_maps(e->ix, inst, 0);
    return e->maps[inst->id];
}

const IndexMap *emit_operand_map(Emit *e, const Instruction *inst, uint32_t operand)
{
    return &maps_of(e, inst)[operand];
}

/* A start index that a map reads at run time: the value, clamped into its range. */
static const IndexExpr *bind_runtime(Emit *e, const IndexRuntime *r,
                                     const IndexExpr *const *at)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMValueRef v[EMIT_MOST_LANES];
    uint32_t lanes = e->lanes;
    e->lanes = 1;
    emit_element(e, r->source, at, v);
    e->lanes = lanes;
    DType t = r->source->shape->dtype;
    LLVMTypeRef type = LLVMTypeOf(v[0]);
    unsigned bits = LLVMGetIntTypeWidth(type);
    /* clamp in the index's own type where that can hold the bound, else the bound cannot be
     * exceeded; then to index_type */
    int64_t hi = r->range.hi;
    bool is_signed = dtype_is_signed(t);
    LLVMValueRef zero = LLVMConstInt(type, 0, 0);
    LLVMValueRef x = v[0];
    if (is_signed)
        x = gx_intrinsic(e->k, "smax", (LLVMValueRef[]){x, zero}, 2);
    unsigned value_bits = is_signed ? bits - 1 : bits;
    if (value_bits >= 63 || hi < (INT64_C(1) << value_bits) - 1) {
        LLVMValueRef bound = LLVMConstInt(type, (uint64_t)hi, 0);
        x = gx_intrinsic(e->k, is_signed ? "smin" : "umin", (LLVMValueRef[]){x, bound},
                         2);
    }
    unsigned wanted = LLVMGetIntTypeWidth(e->index_type);
    if (bits < wanted)
        x = LLVMBuildZExt(b, x, e->index_type, "");
    else if (bits > wanted)
        x = LLVMBuildTrunc(b, x, e->index_type, "");
    return emit_variable(e, x, r->range);
}

/* The map applied to an index: its runtimes bound, its symbols replaced by `symbols` (may be
 * NULL if it has none). results: [map->result_count]; constraints the same way. */
void emit_apply(Emit *e, const IndexMap *map, const IndexExpr *const *index,
                const IndexExpr *const *symbols, const IndexExpr **results,
                const IndexExpr **constraints)
{
    IndexContext *ix = e->ix;
    const IndexExpr **runtimes =
        ARENA_ARRAY(e->arena, const IndexExpr *, (size_t)map->runtime_count + 1);
    for (uint32_t i = 0; i < map->runtime_count; i++) {
        const IndexRuntime *r = &map->runtimes[i];
        uint32_t rank = r->source->shape->rank;
        const IndexExpr *at[EMIT_MOST_RANK];
        for (uint32_t d = 0; d < rank; d++) {
            at[d] = ix_substitute(ix, r->index[d], IX_DIM, map->dim_count, index);
            at[d] = ix_substitute(ix, at[d], IX_SYMBOL, map->symbol_count, symbols);
        }
        runtimes[i] = bind_runtime(e, r, at);
    }
    index_map_apply(ix, map, index, symbols, runtimes, results, constraints);
}

/* -- elements ------------------------------------------------------------------------------- */

static void splat(uint32_t lanes, LLVMValueRef *out)
{
    for (uint32_t v = 1; v < lanes; v++)
        out[v] = out[0];
}

static void element_scalar(Emit *e, const Instruction *inst,
                           const IndexExpr *const *index, LLVMValueRef *out)
{
    uint32_t n = inst->operand_count, lanes = e->lanes;
    LLVMValueRef *values = ARENA_ARRAY(e->arena, LLVMValueRef, (size_t)n * lanes + 1);
    const IndexMap *maps = maps_of(e, inst);
    const IndexExpr *at[EMIT_MOST_RANK];
    for (uint32_t i = 0; i < n; i++) {
        emit_apply(e, &maps[i], index, NULL, at, NULL);
        emit_element(e, inst->operands[i], at, values + (size_t)i * lanes);
    }
    DType from = n != 0 ? inst->operands[0]->shape->dtype : DT_INVALID;
    if (inst->op == OP_CONVERT && dtype_is_array(from) &&
        dtype_is_array(inst->shape->dtype)) {
        e->k->at = inst->name;
        scalar_convert_lanes(e->k, from, inst->shape->dtype, lanes, values, out);
        return;
    }
    for (uint32_t v = 0; v < lanes; v++) {
        LLVMValueRef operands[8];
        if (n > 8)
            bug("%s has %u operands", inst->name, n);
        for (uint32_t i = 0; i < n; i++)
            operands[i] = values[(size_t)i * lanes + v];
        e->k->at = inst->name;
        out[v] = op_emit[inst->op].scalar(e->k, inst, operands);
    }
}

static bool is_regrouping(const Instruction *inst)
{
    return inst->op == OP_BITCAST_CONVERT &&
           dtype_info[inst->shape->dtype].bits !=
               dtype_info[inst->operands[0]->shape->dtype].bits;
}

/* gather and dynamic-slice may read another start for each lane; where starts do not depend
 * on it, neighbours stay neighbours. */
static bool runtimes_uniform(Emit *e, const IndexMap *map, const IndexExpr *const *index)
{
    for (uint32_t i = 0; i < map->runtime_count; i++) {
        const IndexRuntime *r = &map->runtimes[i];
        for (uint32_t d = 0; d < r->source->shape->rank; d++) {
            const IndexExpr *x =
                ix_substitute(e->ix, r->index[d], IX_DIM, map->dim_count, index);
            if (!emit_is_uniform(1, &x))
                return false;
        }
    }
    return true;
}

static bool element_move(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                         LLVMValueRef *out)
{
    const IndexMap *map = &maps_of(e, inst)[0];
    if (map->results == NULL)
        bug("%s (%s) has no index map", inst->name, op_info[inst->op].name);
    if (e->lanes > 1 && !runtimes_uniform(e, map, index))
        return false;
    const IndexExpr *at[EMIT_MOST_RANK];
    emit_apply(e, map, index, NULL, at, NULL);
    emit_element(e, inst->operands[0], at, out);
    return true;
}

/* One lane after the other. */
static void element_by_lane(Emit *e, const Instruction *inst,
                            const IndexExpr *const *index, LLVMValueRef *out)
{
    uint32_t lanes = e->lanes;
    const IndexExpr *at[EMIT_MOST_RANK];
    for (uint32_t v = 0; v < lanes; v++) {
        emit_at_lane(e, inst->shape->rank, index, v, at);
        e->lanes = 1;
        e->lane = v;
        emit_element(e, inst, at, &out[v]);
        e->lanes = lanes;
        e->lane = 0;
    }
}

static void element_constant(Emit *e, const Instruction *inst,
                             const IndexExpr *const *index, LLVMValueRef *out)
{
    int64_t element = 0, stride = 1;
    for (uint32_t i = inst->shape->rank; i-- > 0;) {
        if (index[i]->kind != IX_CONST)
            bug("constant %s of a fusion is no scalar", inst->name);
        element += index[i]->value * stride;
        stride *= inst->shape->dims[i];
    }
    out[0] = emit_constant(e->k, inst->shape->dtype, inst->literal, element);
}

void emit_preset(Emit *e, const Instruction *inst, const LLVMValueRef *leaves)
{
    size_t count = shape_leaf_count(inst->shape);
    e->presets[inst->id] =
        (Preset){.values = arena_copy(e->arena, leaves, count * sizeof *leaves)};
}

void emit_preset_lanes(Emit *e, const Instruction *inst, const LLVMValueRef *values)
{
    e->presets[inst->id] = (Preset){
        .values = arena_copy(e->arena, values,
                             shape_leaf_count(inst->shape) * e->lanes * sizeof *values),
        .lanes = e->lanes};
}

void emit_preset_elements(Emit *e, const Instruction *inst, const LLVMValueRef *values)
{
    e->presets[inst->id] = (Preset){.values = values, .has_elements = true};
}

static const Preset *preset_of(const Emit *e, const Instruction *inst)
{
    if (inst->parent != e->comp || e->presets[inst->id].values == NULL)
        return NULL;
    return &e->presets[inst->id];
}

/* Of the array that `values` holds, the element at an index. */
static LLVMValueRef held_element(Emit *e, const Shape *s, const LLVMValueRef *values,
                                 const IndexExpr *const *index)
{
    LLVMBuilderRef b = e->k->builder;
    const IndexExpr *number = ix_const(e->ix, 0);
    for (uint32_t d = 0; d < s->rank; d++)
        number = ix_add(e->ix, ix_mul(e->ix, number, s->dims[d]), index[d]);
    int64_t count = shape_elements(s);
    LLVMValueRef out = count > 0 ? values[0] : LLVMConstNull(emit_type(e->k, s->dtype));
    if (number->kind == IX_CONST) /* outside: in code that is never reached */
        return number->value >= 0 && number->value < count ? values[number->value] : out;
    LLVMValueRef at = emit_index(e, number, 0);
    for (int64_t i = 1; i < count; i++) {
        LLVMValueRef is_it =
            LLVMBuildICmp(b, LLVMIntEQ, at, emit_index_constant(e, i), "");
        out = LLVMBuildSelect(b, is_it, values[i], out, "");
    }
    return out;
}

static void preset_values(Emit *e, const Instruction *inst, uint32_t leaf,
                          const IndexExpr *const *index, LLVMValueRef *out)
{
    const Preset *p = preset_of(e, inst);
    if (p->has_elements) {
        const LLVMValueRef *values = p->values;
        for (uint32_t i = 0; i < leaf; i++)
            values += shape_elements(shape_leaf(inst->shape, i));
        out[0] = held_element(e, shape_leaf(inst->shape, leaf), values, index);
        return;
    }
    for (uint32_t v = 0; v < e->lanes; v++) {
        uint32_t lane = e->lanes > 1 ? v : e->lane;
        out[v] = p->values[p->lanes == 0 ? leaf : leaf * p->lanes + lane];
    }
}

void emit_leaf(Emit *e, const Instruction *inst, uint32_t leaf,
               const IndexExpr *const *index, LLVMValueRef *out)
{
    if (shape_is_array(inst->shape)) {
        emit_element(e, inst, index, out);
        return;
    }
    if (preset_of(e, inst) != NULL) {
        preset_values(e, inst, leaf, index, out);
        return;
    }
    if (inst->op == OP_PARAMETER) { /* of a loop's body: each array is an argument */
        emit_load(e, e->parameter_args[leaf], shape_leaf(inst->shape, leaf), index, out);
        return;
    }
    if (inst->op != OP_REDUCE && inst->op != OP_REDUCE_WINDOW)
        bug("%s inside a fusion is no array", inst->name);
    /* all leaves are computed together: the first that is asked for leaves them in the memo */
    uint32_t rank = shape_leaf(inst->shape, 0)->rank, lanes = e->lanes;
    uint32_t leaves = (uint32_t)shape_leaf_count(inst->shape);
    e->lanes = 1;
    for (uint32_t v = 0; v < lanes; v++) {
        const IndexExpr *at[EMIT_MOST_RANK];
        LLVMValueRef values[EMIT_MOST_LEAVES];
        emit_at_lane(e, rank, index, v, at);
        MemoEntry *m = memo_find(e, inst, rank, at, 1);
        if (m == NULL) {
            combine_elements(e, inst, at, values);
            memo_add(e, inst, rank, at, 1, values, leaves);
        }
        out[v] = m != NULL ? m->values[leaf] : values[leaf];
    }
    e->lanes = lanes;
}

void emit_element(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                  LLVMValueRef *out)
{
    uint32_t rank = inst->shape->rank, lanes = e->lanes;
    if (preset_of(e, inst) != NULL) {
        preset_values(e, inst, 0, index, out);
        return;
    }
    if (lanes > 1 && emit_is_uniform(rank, index)) {
        e->lanes = 1;
        emit_element(e, inst, index, out);
        e->lanes = lanes;
        splat(lanes, out);
        return;
    }
    MemoEntry *m = memo_find(e, inst, rank, index, lanes);
    if (m != NULL) {
        memcpy(out, m->values, lanes * sizeof *out);
        return;
    }
    const char *outer = e->k->at;
    LLVMMetadataRef outer_location = gx_go_to(e->k, inst->span);
    e->k->at = inst->name;
    switch (element_kind[inst->op]) {
    case ELEMENT_SCALAR:
        if (!is_regrouping(inst))
            element_scalar(e, inst, index, out);
        else if (lanes > 1)
            element_by_lane(e, inst, index, out);
        else
            element_regrouped(e, inst, index, out);
        break;
    case ELEMENT_MOVE:
        if (!element_move(e, inst, index, out))
            element_by_lane(e, inst, index, out);
        break;
    case ELEMENT_CONSTANT:
        if (lanes > 1)
            element_by_lane(e, inst, index, out);
        else
            element_constant(e, inst, index, out);
        break;
    case ELEMENT_SELECT:
        if (lanes > 1 && !select_is_uniform(e, inst, index))
            element_by_lane(e, inst, index, out);
        else
            op_emit[inst->op].select(e, inst, index, out);
        break;
    case ELEMENT_INDEX:
    case ELEMENT_REDUCE:
    case ELEMENT_CONTRACT:
        if (lanes > 1 && !combines_lanes(inst, index))
            element_by_lane(e, inst, index, out);
        else
            op_emit[inst->op].select(e, inst, index, out);
        break;
    case ELEMENT_NOTHING:
        if (inst->op != OP_PARAMETER)
            bug("%s has no value", inst->name);
        emit_load(e, e->parameter_args[inst->parameter], inst->shape, index, out);
        break;
    case ELEMENT_ALIAS:
        if (inst->op == OP_GET_TUPLE_ELEMENT)
            emit_leaf(e, inst->operands[0], (uint32_t)inst_int(inst, ATTR_INDEX, 0),
                      index, out);
        else
            emit_element(e, inst->operands[0], index, out);
        break;
    default:
        bug("%s (%s) cannot be emitted by element", inst->name, op_info[inst->op].name);
    }
    e->k->at = outer;
    gx_return_to(e->k, outer_location);
    memo_add(e, inst, rank, index, lanes, out, lanes);
}
