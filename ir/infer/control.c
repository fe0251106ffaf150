/* Shape rules of tuples, tokens, constants, calls, loops, branches, fusions and custom calls
 * (sections 9.1 - 9.4 of the language). */
#include "ir/infer/rules.h"

#include <string.h>

const Shape *infer_parameter(InferContext *cx, const Instruction *inst)
{
    if (inst->parameter < 0)
        return infer_error(cx, inst, "parameter number %lld is negative",
                           (long long)inst->parameter);
    return infer_want_shape(cx, inst) ? inst->shape : NULL;
}

const Shape *infer_constant(InferContext *cx, const Instruction *inst)
{
    if (!inst->literal)
        return infer_error(cx, inst, "has no value");
    return inst->literal->shape;
}

enum { TUPLE_LEAVES_MOST = 1 << 24 };

const Shape *infer_tuple(InferContext *cx, const Instruction *inst)
{
    uint32_t n = inst->operand_count;
    const Shape *r = inst->shape;
    bool declared = r && shape_is_tuple(r) && r->rank == n;
    for (uint32_t i = 0; declared && i < n; i++)
        declared = r->elements[i] == operand(inst, i);
    if (declared)
        return r;
    const Shape **shapes = ARENA_ARRAY(cx->arena, const Shape *, n);
    size_t leaves =
        0; /* each tuple may have its operand's twice: they are counted in 32 bits */
    for (uint32_t i = 0; i < n; i++) {
        shapes[i] = operand(inst, i);
        leaves += shape_leaf_count(shapes[i]);
        if (leaves > TUPLE_LEAVES_MOST)
            return infer_error(cx, inst, "the tuple has more than %d leaves",
                               TUPLE_LEAVES_MOST);
    }
    return shape_tuple(cx->intern, n, shapes);
}

const Shape *infer_get_tuple_element(InferContext *cx, const Instruction *inst)
{
    const Shape *s = operand(inst, 0);
    int64_t index = inst_int(inst, ATTR_INDEX, -1);
    if (!shape_is_tuple(s))
        return infer_error(cx, inst, "the operand must be a tuple, but is %s",
                           infer_text(cx, s));
    if (index < 0 || index >= s->rank)
        return infer_error(cx, inst, "index=%lld is not an element of %s",
                           (long long)index, infer_text(cx, s));
    return s->elements[index];
}

/* XLA's own tests join values that are no tokens, so any operand will do. */
const Shape *infer_after_all(InferContext *cx, const Instruction *inst)
{
    (void)inst;
    return shape_token(cx->intern);
}

const Shape *infer_add_dependency(InferContext *cx, const Instruction *inst)
{
    return infer_want_token(cx, inst, 1) ? operand(inst, 0) : NULL;
}

const Shape *infer_device_id(InferContext *cx, const Instruction *inst)
{
    (void)inst;
    return shape_scalar(cx->intern, DT_U32);
}

const Shape *infer_infeed(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_shape(cx, inst) || !infer_want_token(cx, inst, 0))
        return NULL;
    const Shape *r = inst->shape;
    if (!shape_is_tuple(r) || r->rank != 2 || r->elements[1]->dtype != DT_TOKEN)
        return infer_error(cx, inst, "must give (data, token[]), but is declared as %s",
                           infer_text(cx, r));
    return r;
}

const Shape *infer_outfeed(InferContext *cx, const Instruction *inst)
{
    const Attr *data = inst_attr(inst, ATTR_OUTFEED_SHAPE);
    if (!infer_want_token(cx, inst, 1))
        return NULL;
    if (data && !shape_compatible(data->shape, operand(inst, 0)))
        return infer_error(cx, inst, "outfeed_shape=%s, but the operand is %s",
                           infer_text(cx, data->shape), infer_text(cx, operand(inst, 0)));
    return shape_token(cx->intern);
}

const Shape *infer_copy_start(InferContext *cx, const Instruction *inst)
{
    const Shape *s = operand(inst, 0);
    const Shape *shapes[3] = {s, s, shape_scalar(cx->intern, DT_U32)};
    return shape_tuple(cx->intern, 3, shapes);
}

const Shape *infer_copy_done(InferContext *cx, const Instruction *inst)
{
    const Shape *s = operand(inst, 0);
    if (!shape_is_tuple(s) || s->rank < 2)
        return infer_error(cx, inst, "the operand must be a copy-start, but is %s",
                           infer_text(cx, s));
    return s->elements[0];
}

/* -- called computations ------------------------------------------------------------- */

static bool want_argument(InferContext *cx, const Instruction *inst,
                          const Computation *comp, uint32_t parameter,
                          const Shape *argument)
{
    const Shape *p = comp->parameters[parameter]->shape;
    if (p == argument || shape_compatible(p, argument))
        return true;
    infer_error(cx, inst, "parameter %u of %s is %s, but is given %s", parameter,
                comp->name, infer_text(cx, p), infer_text(cx, argument));
    return false;
}

static bool is_number(Bytes text)
{
    for (size_t k = 0; k < text.length; k++)
        if (text.data[k] < '0' || text.data[k] > '9')
            return false;
    return text.length != 0;
}

/* A composite names the operation that it stands for in its frontend attributes. */
static bool want_composite(InferContext *cx, const Instruction *inst)
{
    const Attr *a = inst_attr(inst, ATTR_FRONTEND_ATTRIBUTES);
    Bytes name = {"", 0}, version = {"0", 1};
    for (uint32_t i = 0; a && i < a->dict->count; i++) {
        const DictEntry *e = &a->dict->entries[i];
        if (strcmp(e->key, "composite.name") == 0)
            name = e->value;
        if (strcmp(e->key, "composite.version") == 0)
            version = e->value;
    }
    if (name.length != 0 && is_number(version))
        return true;
    infer_error(
        cx, inst,
        "a composite needs frontend_attributes composite.name, which is \"%.*s\", "
        "and a number as composite.version, which is \"%.*s\"",
        (int)name.length, name.data, (int)version.length, version.data);
    return false;
}

const Shape *infer_call(InferContext *cx, const Instruction *inst)
{
    const Computation *comp = infer_callee(inst, ATTR_TO_APPLY);
    if (!comp || !comp->root)
        return infer_error(cx, inst, "has no called computation");
    if (comp->parameter_count != inst->operand_count)
        return infer_error(cx, inst,
                           "called computation %s has %u parameters, but %u operands are "
                           "given",
                           comp->name, comp->parameter_count, inst->operand_count);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        if (!want_argument(cx, inst, comp, i, operand(inst, i)))
            return NULL;
    if (inst_bool(inst, ATTR_IS_COMPOSITE) && !want_composite(cx, inst))
        return NULL;
    return infer_callee_result(comp);
}

const Shape *infer_while(InferContext *cx, const Instruction *inst)
{
    const Shape *s = operand(inst, 0);
    const Computation *condition = infer_callee(inst, ATTR_CONDITION);
    const Computation *body = infer_callee(inst, ATTR_BODY);
    if (!infer_want_parameters(cx, inst, condition, "the condition", 1) ||
        !infer_want_parameters(cx, inst, body, "the body", 1))
        return NULL;
    const Shape *goes_on = infer_callee_result(condition),
                *next = infer_callee_result(body);
    if (!shape_is_scalar(goes_on) || goes_on->dtype != DT_PRED)
        return infer_error(cx, inst, "condition %s must give pred[], but gives %s",
                           condition->name, infer_text(cx, goes_on));
    if (!want_argument(cx, inst, condition, 0, s) || !want_argument(cx, inst, body, 0, s))
        return NULL;
    if (next != s && !shape_compatible(next, s))
        return infer_error(cx, inst, "body %s must give %s, but gives %s", body->name,
                           infer_text(cx, s), infer_text(cx, next));
    return s;
}

const Shape *infer_conditional(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_count(cx, inst, 1))
        return NULL;
    const Shape *index = operand(inst, 0);
    uint32_t branches = inst_called_count(inst);
    if (!shape_is_scalar(index) || (index->dtype != DT_PRED && index->dtype != DT_S32))
        return infer_error(cx, inst,
                           "the first operand must be pred[] or s32[], but is %s",
                           infer_text(cx, index));
    if (branches == 0 || (index->dtype == DT_PRED && branches != 2))
        return infer_error(cx, inst, "has %u branches for an index of %s", branches,
                           infer_text(cx, index));
    if (inst->operand_count != branches + 1)
        return infer_error(cx, inst,
                           "expects an index and an operand for each of %u branches, "
                           "but has %u operands",
                           branches, inst->operand_count);
    const Shape *first = NULL;
    for (uint32_t i = 0; i < branches; i++) {
        const Computation *comp = inst_called(inst, i);
        if (!infer_want_parameters(cx, inst, comp, "branch", 1) ||
            !want_argument(cx, inst, comp, 0, operand(inst, i + 1)))
            return NULL;
        const Shape *result = infer_callee_result(comp);
        if (!first)
            first = result;
        else if (first != result && !shape_compatible(first, result))
            return infer_error(cx, inst, "branch %s gives %s, but branch %s gives %s",
                               inst_called(inst, 0)->name, infer_text(cx, first),
                               comp->name, infer_text(cx, result));
        if (shape_is_dynamic(result))
            first = result;
    }
    return first;
}

/* -- aliasing ------------------------------------------------------------------------- */

static const Shape *inside_buffer(const Shape *s)
{
    return s->dtype == DT_BUFFER ? s->elements[0] : s;
}

/* Where a result or operand of an async-start is bound only later, its computation knows. */
static const Shape *aliased_result(const Instruction *inst, Ints index)
{
    const Computation *comp = infer_callee(inst, ATTR_CALLS);
    if (inst->op == OP_ASYNC_START && comp && comp->root && index.count > 0 &&
        index.data[0] == 1)
        return shape_part(comp->root->shape, (Ints){index.data + 1, index.count - 1});
    return shape_part(inst->shape, index);
}

static const Shape *aliased_operand(const Instruction *inst, int64_t number, Ints index)
{
    const Computation *comp = infer_callee(inst, ATTR_CALLS);
    if (number < 0)
        return NULL;
    if (number < inst->operand_count)
        return shape_part(operand(inst, (uint32_t)number), index);
    if (inst->op == OP_ASYNC_START && comp && number < comp->parameter_count)
        return shape_part(comp->parameters[number]->shape, index);
    return NULL;
}

/* Takes the leaves below an index path that exists; false if one was taken before. *taken, a flag
 * for each leaf, is made when it is first asked for. */
static bool take_leaves(InferContext *cx, bool **taken, const Shape *s, Ints index)
{
    if (!*taken)
        *taken = ARENA_ARRAY(cx->arena, bool, shape_leaf_count(s) + 1);
    bool *leaf = *taken;
    for (uint32_t i = 0; i < index.count && shape_is_tuple(s); i++) {
        leaf += s->first_leaf[index.data[i]];
        s = s->elements[index.data[i]];
    }
    for (size_t n = shape_leaf_count(s); n > 0; n--, leaf++) {
        if (*leaf)
            return false;
        *leaf = true;
    }
    return true;
}

/* A buffer has one value at the end: no two results of a call share an operand, no result shares
 * two. (In a fusion the aliases only say what may be done.) */
static bool want_one_to_one(InferContext *cx, const Instruction *call,
                            const Aliasing *aliasing)
{
    bool *results = NULL;
    bool **operands = ARENA_ARRAY(cx->arena, bool *, call->operand_count + 1);
    for (uint32_t i = 0; i < aliasing->count; i++) {
        const AliasEntry *e = &aliasing->entries[i];
        if (!take_leaves(cx, &results, call->shape, e->output)) {
            infer_error(cx, call,
                        "output_to_operand_aliasing: result %s shares two operands",
                        infer_ints_text(cx, e->output));
            return false;
        }
        if (!take_leaves(cx, &operands[e->operand], operand(call, (uint32_t)e->operand),
                         e->input)) {
            infer_error(cx, call,
                        "output_to_operand_aliasing: two results share operand %lld %s",
                        (long long)e->operand, infer_ints_text(cx, e->input));
            return false;
        }
    }
    return true;
}

/* A fusion may see its operand through bitcasts: the same elements in other dimensions. */
static bool may_share(const Instruction *inst, const Shape *out, const Shape *in)
{
    if (shape_compatible(out, in))
        return inst->op != OP_ASYNC_START || shape_layouts_equal(out, in);
    int64_t made, given;
    return inst->op == OP_FUSION && shape_is_array(out) && shape_is_array(in) &&
           dtype_info[out->dtype].bits == dtype_info[in->dtype].bits &&
           shape_element_count(out, &made) && shape_element_count(in, &given) &&
           made == given;
}

bool infer_want_aliasing(InferContext *cx, const Instruction *inst)
{
    const Attr *a = inst_attr(inst, ATTR_OUTPUT_TO_OPERAND_ALIASING);
    for (uint32_t i = 0; a && i < a->aliasing->count; i++) {
        const AliasEntry *e = &a->aliasing->entries[i];
        const Shape *out = aliased_result(inst, e->output);
        const Shape *in = aliased_operand(inst, e->operand, e->input);
        if (cx->sketch && inst->parent->is_async_wrapped && inst->op == OP_CUSTOM_CALL &&
            inst->operand_count == 0)
            continue; /* what async sugar wraps gets its operands later */
        if (!out || !in) {
            infer_error(
                cx, inst,
                "output_to_operand_aliasing: result %s and operand %lld %s do not exist",
                infer_ints_text(cx, e->output), (long long)e->operand,
                infer_ints_text(cx, e->input));
            return false;
        }
        out = inside_buffer(out);
        in = inside_buffer(in);
        if (!may_share(inst, out, in)) {
            infer_error(cx, inst, "output_to_operand_aliasing: result %s cannot share %s",
                        shape_text(cx->arena, out, true),
                        shape_text(cx->arena, in, true));
            return false;
        }
    }
    return !a || inst->op != OP_CUSTOM_CALL || inst->operand_count == 0 ||
           want_one_to_one(cx, inst, a->aliasing);
}

const Shape *infer_fusion(InferContext *cx, const Instruction *inst)
{
    const Computation *comp = infer_callee(inst, ATTR_CALLS);
    if (!infer_want_shape(cx, inst))
        return NULL;
    if (!comp || !comp->root)
        return infer_error(cx, inst, "has no fused computation");
    if (comp->parameter_count > inst->operand_count)
        return infer_error(cx, inst,
                           "fused computation %s has %u parameters, but %u operands are "
                           "given",
                           comp->name, comp->parameter_count, inst->operand_count);
    for (uint32_t i = 0; i < comp->parameter_count; i++)
        if (!want_argument(cx, inst, comp, i, operand(inst, i)))
            return NULL;
    const Shape *result = infer_callee_result(comp);
    if (!result || !shape_compatible(result, inst->shape))
        return infer_error(cx, inst, "is %s, but fused computation %s gives %s",
                           infer_text(cx, inst->shape), comp->name,
                           result ? infer_text(cx, result) : "nothing");
    return infer_want_aliasing(cx, inst) ? inst->shape : NULL;
}

const Shape *infer_custom_call(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_shape(cx, inst))
        return NULL;
    const Attr *layouts = inst_attr(inst, ATTR_OPERAND_LAYOUT_CONSTRAINTS);
    if (layouts && layouts->shapes.count != inst->operand_count)
        return infer_error(cx, inst, "has %u operand_layout_constraints for %u operands",
                           layouts->shapes.count, inst->operand_count);
    for (uint32_t i = 0; layouts && i < inst->operand_count; i++)
        if (!shape_compatible(layouts->shapes.data[i], operand(inst, i)))
            return infer_error(cx, inst,
                               "operand_layout_constraints: %s for operand %u, %s",
                               infer_text(cx, layouts->shapes.data[i]), i,
                               infer_text(cx, operand(inst, i)));
    return infer_want_aliasing(cx, inst) ? inst->shape : NULL;
}
