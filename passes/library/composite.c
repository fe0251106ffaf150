/* Composites that stand for an operation of the language become it; the others stay calls, which
 * inlining takes apart.
 *
 *   d = bf16[8,16] call(l, r, ls, rs), to_apply=f, is_composite=true,
 *       frontend_attributes={composite.name="xla.scaled_dot",
 *                            composite.attributes={dimension_numbers=[[[1],[1]],[[],[]]]}}
 *   ->  d = bf16[8,16] scaled-dot(l, r, ls, rs), lhs_contracting_dims={1}, rhs_contracting_dims={1}
 *
 * Taken are operands of e4m3fn, e5m2 and e2m1 with scales of e8m0, of which each stands for a
 * multiple of 32 contracted elements, and bf16 operands whose scale is 1.
 *
 * Needs: calls not inlined. Keeps: what the composite means. Ends: one call less each time. */
#include <string.h>

#include "passes/library/library.h"
#include "passes/simplify/rewrite.h"

static Bytes attribute(const Instruction *inst, const char *key)
{
    const Attr *a = inst_attr(inst, ATTR_FRONTEND_ATTRIBUTES);
    for (uint32_t i = 0; a != NULL && i < a->dict->count; i++)
        if (strcmp(a->dict->entries[i].key, key) == 0)
            return a->dict->entries[i].value;
    return (Bytes){0};
}

/* -- dimension numbers ------------------------------------------------------------------------- */

enum { LISTS = 4, MOST_DIMS = 8 };

typedef struct DimLists {
    int64_t dims[LISTS][MOST_DIMS]; /* contracted of lhs, rhs; batch of lhs, rhs */
    uint32_t count[LISTS];
} DimLists;

/* [[[1],[1]],[[0],[0]]]: numbers in the lists at depth 3, in their order. A type may follow a
 * number: 1 : i64. */
static bool parse_dims(const char *p, const char *end, DimLists *out)
{
    int depth = 0, list = -1;
    *out = (DimLists){0};
    for (; p < end; p++) {
        if (*p == '[') {
            list += ++depth == 3;
            if (depth > 3 || list >= LISTS)
                return false;
        } else if (*p == ']') {
            if (--depth == 0)
                return list == LISTS - 1;
        } else if (*p >= '0' && *p <= '9') {
            if (depth != 3 || out->count[list] == MOST_DIMS)
                return false;
            int64_t value = 0;
            for (; p < end && *p >= '0' && *p <= '9' && value < MOST_DIMS; p++)
                value = value * 10 + (*p - '0');
            out->dims[list][out->count[list]++] = value;
            while (p < end && *p != ',' && *p != ']')
                p++;
            p--;
        } else if (*p != ',' && *p != ' ') {
            return false;
        }
    }
    return false;
}

static bool find_dims(Bytes attributes, DimLists *out)
{
    static const char key[] = "dimension_numbers";
    const char *end = attributes.data + attributes.length;
    for (const char *p = attributes.data; p != NULL && p + sizeof key - 1 < end; p++) {
        if (memcmp(p, key, sizeof key - 1) != 0)
            continue;
        const char *list = memchr(p, '[', (size_t)(end - p));
        return list != NULL && parse_dims(list, end, out);
    }
    return false;
}

/* -- legality ------------------------------------------------------------------------------------ */

static bool is_ones(const Instruction *x)
{
    return rw_is_splat(x, 1) ||
           (x->op == OP_CONSTANT && x->literal != NULL && literal_is_all(x->literal, 1));
}

static bool is_unscaled(const Instruction *x, const Instruction *scale)
{
    return x->shape->dtype == DT_BF16 && is_ones(scale);
}

static bool is_small_float(DType t)
{
    return dtype_is_ofp8(t) || t == DT_F4E2M1FN;
}

static bool is_scaled_by(const Shape *x, const Shape *scale, int64_t contracted)
{
    if (!is_small_float(x->dtype) || scale->dtype != DT_F8E8M0FNU ||
        scale->rank != x->rank)
        return false;
    for (uint32_t i = 0; i < x->rank; i++)
        if (scale->dims[i] == 0 || x->dims[i] % scale->dims[i] != 0)
            return false;
    return x->dims[contracted] / scale->dims[contracted] % 32 == 0;
}

static bool has(const DimLists *l, int list, int64_t d)
{
    for (uint32_t i = 0; i < l->count[list]; i++)
        if (l->dims[list][i] == d)
            return true;
    return false;
}

/* Every number a dimension of its side, none twice. */
static bool are_dims(const DimLists *l, int side, const Shape *s)
{
    for (int list = side; list < LISTS; list += 2)
        for (uint32_t i = 0; i < l->count[list]; i++) {
            int64_t d = l->dims[list][i];
            bool again = list == 2 + side && has(l, side, d);
            for (uint32_t k = 0; k < i; k++)
                again |= l->dims[list][k] == d;
            if (again || d >= (int64_t)s->rank)
                return false;
        }
    return true;
}

/* The result has the batch, then what is free of lhs, then of rhs. */
static bool result_fits(const DimLists *l, const Shape *a, const Shape *b,
                        const Shape *result)
{
    uint32_t n = 0, rank = a->rank + b->rank - l->count[2] - 2;
    if (!rw_is_static(result) || result->rank != rank || l->count[2] != l->count[3] ||
        a->dims[l->dims[0][0]] != b->dims[l->dims[1][0]])
        return false;
    for (uint32_t i = 0; i < l->count[2]; i++, n++)
        if (a->dims[l->dims[2][i]] != b->dims[l->dims[3][i]] ||
            a->dims[l->dims[2][i]] != result->dims[n])
            return false;
    for (int side = 0; side < 2; side++) {
        const Shape *s = side == 0 ? a : b;
        for (uint32_t d = 0; d < s->rank; d++)
            if (!has(l, side, d) && !has(l, 2 + side, d) &&
                s->dims[d] != result->dims[n++])
                return false;
    }
    return true;
}

static Instruction *scaled_dot(Rewriter *r, Instruction *inst)
{
    static const char name[] = "xla.scaled_dot";
    Bytes is = attribute(inst, "composite.name");
    DimLists l;
    if (!inst_bool(inst, ATTR_IS_COMPOSITE) || is.length != sizeof name - 1 ||
        memcmp(is.data, name, sizeof name - 1) != 0 || inst->operand_count != 4 ||
        !find_dims(attribute(inst, "composite.attributes"), &l))
        return NULL;
    Instruction *operands[4];
    bool unscaled[2];
    for (int i = 0; i < 4; i++) {
        operands[i] = inst->operands[i];
        if (!rw_is_static(operands[i]->shape))
            return NULL;
    }
    for (int i = 0; i < 2; i++) {
        const Shape *s = operands[i]->shape;
        if (l.count[i] != 1 || !are_dims(&l, i, s))
            return NULL;
        unscaled[i] = is_unscaled(operands[i], operands[2 + i]);
        if (!unscaled[i] && !is_scaled_by(s, operands[2 + i]->shape, l.dims[i][0]))
            return NULL;
    }
    if ((unscaled[0] && unscaled[1]) ||
        !result_fits(&l, operands[0]->shape, operands[1]->shape, inst->shape))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (unscaled[i]) /* how a scaled-dot is told that there is none */
            operands[2 + i] = rw_splat(r, shape_scalar(r->m->intern, DT_BF16), 1);
    Instruction *dot = rw_add(r, OP_SCALED_DOT, inst->shape, 4, operands);
    inst_set_ints(dot, ATTR_LHS_CONTRACTING_DIMS, l.dims[0], 1);
    inst_set_ints(dot, ATTR_RHS_CONTRACTING_DIMS, l.dims[1], 1);
    if (l.count[2] != 0) {
        inst_set_ints(dot, ATTR_LHS_BATCH_DIMS, l.dims[2], l.count[2]);
        inst_set_ints(dot, ATTR_RHS_BATCH_DIMS, l.dims[3], l.count[3]);
    }
    r->cx->counts.composites_recognised++;
    return dot;
}

static const Rule rules_composite[] = {{OP_CALL, "composite_scaled_dot", scaled_dot},
                                       {0}};

bool pass_composites(Module *m, PassContext *cx)
{
    static const Rule *const tables[] = {rules_composite};
    bool changed = rewrite_module(m, cx, tables, 1);
    if (changed)
        module_sort(m);
    return changed;
}
