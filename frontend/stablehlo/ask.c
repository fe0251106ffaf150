/* Asking the attributes of an operation: text in its generic form, VHLO's and StableHLO's own forms say
 * the same in different ways, of which those who ask know nothing. */
#include <string.h>

#include "frontend/stablehlo/convert.h"
#include "ir/dtype.h"

const MlirAttr *field(Converter *c, const MlirAttr *a, const char *name)
{
    a = mlir_resolve(c->file, a);
    if (a == NULL || (a->kind != MLIR_DICT && a->kind != MLIR_STRUCT))
        return NULL;
    return mlir_resolve(c->file,
                        mlir_find(a->kind == MLIR_DICT ? a->dict : a->fields, name));
}

const MlirAttr *ask(Converter *c, const MlirOp *op, const char *group, const char *name)
{
    const MlirAttr *own = mlir_resolve(c->file, mlir_find(op->attrs, name));
    if (own != NULL || group == NULL)
        return own;
    return field(c, mlir_find(op->attrs, group), name);
}

static bool wrong(Converter *c, const MlirAttr *a, const char *wanted)
{
    if (c->file->is_text && a->span.end != 0)
        diag_error(c->diag, a->span, "expects %s", wanted);
    else
        convert_error(c, "an attribute of %s should be %s", c->op->name, wanted);
    return false;
}

bool ask_int(Converter *c, const MlirAttr *a, int64_t *out)
{
    a = mlir_resolve(c->file, a);
    if (a == NULL)
        return false;
    DType t =
        a->type != NULL && a->type->kind == MLIR_ELEMENT ? a->type->shape->dtype : DT_S64;
    if ((a->kind == MLIR_INT && dtype_info[t].bits >= 32) || a->kind == MLIR_BOOL) {
        *out = a->i;
        return true;
    }
    return wrong(c, a, "an integer of 32 or 64 bits");
}

int64_t ask_int_or(Converter *c, const MlirOp *op, const char *name, int64_t absent)
{
    int64_t value = absent;
    const MlirAttr *a = ask(c, op, NULL, name);
    if (a != NULL)
        ask_int(c, a, &value);
    return value;
}

bool ask_flag(Converter *c, const MlirOp *op, const char *name)
{
    const MlirAttr *a = ask(c, op, NULL, name);
    return a != NULL && (a->kind == MLIR_UNIT || (a->kind == MLIR_BOOL && a->i != 0));
}

static bool list_ints(Converter *c, const MlirAttr *list, Ints *out)
{
    int64_t *data = ARENA_ARRAY(c->arena, int64_t, list->list.count + 1u);
    for (uint32_t i = 0; i < list->list.count; i++)
        if (!ask_int(c, list->list.items[i], &data[i]))
            return false;
    *out = (Ints){data, list->list.count};
    return true;
}

/* One number can stand for as many as a type says: those of an attribute are fewer. */
enum { INTS_MOST = 1 << 22 };

static bool literal_ints(Converter *c, const MlirAttr *a, Ints *out)
{
    int64_t count;
    if (a->type != NULL && a->type->kind == MLIR_TENSOR &&
        (!shape_element_count(a->type->shape, &count) || count > INTS_MOST))
        return wrong(c, a, "integers, not so many");
    const Literal *l = mlir_literal(c->file, c->scratch, a);
    if (l == NULL)
        return false;
    DType t = l->shape->dtype;
    if (l->elided || (t != DT_S64 && t != DT_S32 && t != DT_PRED))
        return wrong(c, a, "integers");
    int64_t *data = ARENA_ARRAY(c->arena, int64_t, (size_t)l->count + 1);
    for (int64_t i = 0; i < l->count; i++)
        data[i] = literal_int(l, i);
    *out = (Ints){data, (uint32_t)l->count};
    return true;
}

bool ask_ints(Converter *c, const MlirAttr *a, Ints *out)
{
    *out = (Ints){0};
    if (a == NULL)
        return true;
    const MlirAttr *found = mlir_resolve(c->file, a);
    if (found == NULL)
        return wrong(c, a, "integers, but there is no such attribute");
    if (found->kind == MLIR_LIST)
        return list_ints(c, found, out);
    if (found->kind == MLIR_DENSE)
        return literal_ints(c, found, out);
    return wrong(c, found, "a list of integers");
}

bool attr_ints(Converter *c, const MlirOp *op, const char *group, const char *name,
               Ints *out)
{
    return ask_ints(c, ask(c, op, group, name), out);
}

/* [[2, 1], [0, 3]] as a list, or the rows of a matrix. */
bool ask_pairs(Converter *c, const MlirAttr *a, IntLists *out)
{
    *out = (IntLists){0};
    a = mlir_resolve(c->file, a);
    if (a == NULL)
        return true;
    if (a->kind == MLIR_LIST) {
        Ints *rows = ARENA_ARRAY(c->arena, Ints, a->list.count + 1u);
        for (uint32_t i = 0; i < a->list.count; i++)
            if (!ask_ints(c, a->list.items[i], &rows[i]))
                return false;
        *out = (IntLists){rows, a->list.count};
        return true;
    }
    Ints all;
    if (a->kind != MLIR_DENSE || a->type == NULL || a->type->kind != MLIR_TENSOR ||
        a->type->shape->rank != 2)
        return wrong(c, a, "a matrix of integers");
    if (!ask_ints(c, a, &all))
        return false;
    uint32_t count = (uint32_t)a->type->shape->dims[0],
             width = (uint32_t)a->type->shape->dims[1];
    if (a->type->shape->dims[0] > UINT32_MAX / 2 ||
        a->type->shape->dims[1] > UINT32_MAX / 2)
        return wrong(c, a, "a smaller matrix of integers");
    Ints *rows = ARENA_ARRAY(c->arena, Ints, count + 1u);
    for (uint32_t i = 0; i < count; i++)
        rows[i] = (Ints){all.data + (size_t)i * width, width};
    *out = (IntLists){rows, count};
    return true;
}

/* #stablehlo<comparison_direction EQ>, EQ, "EQ" */
const char *ask_word(Converter *c, const MlirAttr *a)
{
    a = mlir_resolve(c->file, a);
    if (a == NULL)
        return NULL;
    if (a->kind == MLIR_STRING || a->kind == MLIR_WORD || a->kind == MLIR_SYMBOL)
        return a->text.data;
    if (a->kind != MLIR_STRUCT || a->fields.count != 1)
        return NULL;
    const MlirAttr *value = a->fields.entries[0].value;
    if (a->fields.entries[0].name == NULL && strchr(a->text.data, '.') == NULL)
        return NULL; /* #stablehlo<precision HIGHEST> says what it is of */
    return value->kind == MLIR_WORD || value->kind == MLIR_STRING ? value->text.data
                                                                  : NULL;
}

const char *ask_symbol(Converter *c, const MlirOp *op, const char *name)
{
    const MlirAttr *a = ask(c, op, NULL, name);
    if (a != NULL && (a->kind == MLIR_SYMBOL || a->kind == MLIR_STRING))
        return a->text.data;
    return convert_error(c, "%s lacks the attribute %s", op->name, name);
}
