/* See custom_call.h. */
#include "ir/custom_call.h"

#include <stdio.h>
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/config.h"

bool custom_call_has_target(const Instruction *inst, const char *name)
{
    Bytes target = inst_bytes(inst, ATTR_CUSTOM_CALL_TARGET);
    return inst->op == OP_CUSTOM_CALL && target.length == strlen(name) &&
           memcmp(target.data, name, target.length) == 0;
}

static const Shape *unwrapped(const Shape *s)
{
    return s->dtype == DT_BUFFER ? s->elements[0] : s;
}

bool custom_call_gives_operands(const Instruction *inst)
{
    const Shape *s = inst->shape;
    if (inst->operand_count != 0 &&
        shape_compatible(unwrapped(s), unwrapped(inst->operands[0]->shape)))
        return true;
    if (!shape_is_tuple(s) || s->rank == 0 || s->rank != inst->operand_count)
        return false;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (!shape_compatible(s->elements[i], inst->operands[i]->shape))
            return false;
    }
    return true;
}

bool custom_call_is_marker(const Instruction *inst)
{
    static const char *const targets[] = {
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "LayoutConstraint",
        "MoveToHost",
        "MoveToDevice",
        "ShardBarrierFrom",
        "ShardBarrierTo",
        "PinToDevice",
        "annotate_device_placement",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
        "Pin",
        "Unpin",
        "AssumeGatherIndicesInBound",
    };
    if (inst->op != OP_CUSTOM_CALL || !custom_call_gives_operands(inst))
        return false;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        if (custom_call_has_target(inst, targets[i]))
            return true;
    }
    return false;
}

MemoryMove custom_call_move(const Instruction *inst)
{
    if (inst->op != OP_CUSTOM_CALL || !shape_is_array(inst->shape) ||
        !custom_call_is_marker(inst))
        return MOVE_NONE;
    if (custom_call_has_target(inst, "MoveToHost"))
        return MOVE_TO_HOST;
    if (custom_call_has_target(inst, "MoveToDevice"))
        return MOVE_TO_DEVICE;
    const char *place = custom_call_has_target(inst, "annotate_device_placement")
                            ? inst_frontend_attribute(inst, "_xla_buffer_placement")
                            : NULL;
    if (place == NULL)
        return MOVE_NONE;
    bool host = strcmp(place, "pinned_host") == 0 || strcmp(place, "unpinned_host") == 0;
    return host                           ? MOVE_TO_HOST
           : strcmp(place, "device") == 0 ? MOVE_TO_DEVICE
                                          : MOVE_NONE;
}

bool custom_call_is_topk(const Instruction *inst)
{
    if (!custom_call_has_target(inst, "TopK") || inst->operand_count != 1 ||
        inst->shape->dtype != DT_TUPLE || inst->shape->rank != 2)
        return false;
    const Shape *x = inst->operands[0]->shape, *values = inst->shape->elements[0],
                *positions = inst->shape->elements[1];
    if (!shape_is_array(x) || x->rank == 0 || values->dtype != x->dtype ||
        values->rank != x->rank || positions->dtype != DT_S32 ||
        positions->rank != x->rank)
        return false;
    for (uint32_t i = 0; i < x->rank; i++) {
        bool last = i + 1 == x->rank;
        if (positions->dims[i] != values->dims[i] ||
            (last ? values->dims[i] > x->dims[i] : values->dims[i] != x->dims[i]))
            return false;
    }
    return true;
}

bool custom_call_is_pad_to_static(const Instruction *inst)
{
    if (!custom_call_has_target(inst, "PadToStatic") || inst->operand_count != 1 ||
        inst->shape->dtype != DT_TUPLE)
        return false;
    const Shape *x = inst->operands[0]->shape;
    if (!shape_is_array(x) || inst->shape->rank != x->rank + 1 ||
        !shape_compatible(inst->shape->elements[0], x))
        return false;
    for (uint32_t d = 0; d < x->rank; d++) {
        const Shape *size = inst->shape->elements[d + 1];
        if (!shape_is_scalar(size) || size->dtype != DT_S32)
            return false;
    }
    return true;
}

bool custom_call_is_slice_to_dynamic(const Instruction *inst)
{
    if (!custom_call_has_target(inst, "SliceToDynamic") || !shape_is_array(inst->shape) ||
        inst->operand_count != inst->shape->rank + 1 ||
        !shape_compatible(inst->operands[0]->shape, inst->shape))
        return false;
    for (uint32_t d = 0; d < inst->shape->rank; d++) {
        const Shape *size = inst->operands[d + 1]->shape;
        if (!shape_is_scalar(size) || size->dtype != DT_S32)
            return false;
    }
    return true;
}

bool custom_call_is_new_buffer(const Instruction *inst)
{
    return inst->op == OP_CUSTOM_CALL && inst->operand_count == 0 &&
           shape_is_array(unwrapped(inst->shape)) &&
           (custom_call_has_target(inst, "AllocateBuffer") ||
            custom_call_has_target(inst, "CreateBuffer"));
}

bool custom_call_is_seed(const Instruction *inst)
{
    return custom_call_has_target(inst, "GetRngSeed") && inst->operand_count == 0 &&
           shape_is_scalar(inst->shape) && inst->shape->dtype == DT_U64;
}

static bool is_half_of(const Shape *half, const Shape *whole)
{
    if (!shape_is_array(half) || !shape_is_array(whole) || shape_is_dynamic(whole) ||
        !shape_same_dims(half, whole))
        return false;
    if (whole->dtype == DT_F64)
        return half->dtype == DT_F32;
    return (whole->dtype == DT_U64 || whole->dtype == DT_S64) &&
           (half->dtype == DT_U32 || half->dtype == DT_S32);
}

X64Part custom_call_x64(const Instruction *inst)
{
    static const struct {
        const char *target;
        X64Part part;
    } parts[] = {{"X64SplitLow", X64_LOW},
                 {"X64SplitHigh", X64_HIGH},
                 {"X64Combine", X64_COMBINE}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool combines = parts[i].part == X64_COMBINE;
        if (!custom_call_has_target(inst, parts[i].target) ||
            inst->operand_count != (combines ? 2 : 1))
            continue;
        const Shape *s = inst->operands[0]->shape;
        bool fits = combines ? is_half_of(s, inst->shape) &&
                                   is_half_of(inst->operands[1]->shape, inst->shape)
                             : is_half_of(inst->shape, s);
        return fits ? parts[i].part : X64_NONE;
    }
    return X64_NONE;
}

/* The last two dimensions of an array are the minor ones, the rows' the most. */
static bool is_by_columns(const Shape *s)
{
    return shape_is_array(s) && s->rank >= 2 &&
           s->layout->minor_to_major[0] == (int64_t)s->rank - 2 &&
           s->layout->minor_to_major[1] == (int64_t)s->rank - 1;
}

static bool lie_by_columns(const Instruction *inst, const Shape *result)
{
    const Attr *layouts = inst_attr(inst, ATTR_OPERAND_LAYOUT_CONSTRAINTS);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (!layouts || !is_by_columns(layouts->shapes.data[i]))
            return false;
    }
    return is_by_columns(result);
}

static bool is_square(const Shape *s)
{
    return s->dims[s->rank - 1] == s->dims[s->rank - 2];
}

/* The letter of the type in LAPACK's names; 0: it has none. */
static char lapack_letter(const Instruction *inst)
{
    static const char letters[] = {
        [DT_F32] = 's', [DT_F64] = 'd', [DT_C64] = 'c', [DT_C128] = 'z'};
    DType t = inst->operand_count ? inst->operands[0]->shape->dtype : DT_COUNT;
    return t < sizeof letters ? letters[t] : 0;
}

/* For the CPU lapack_?NAME_ffi, ? the letter of the type; for CUDA cusolver_NAME_ffi, of any type, and of batches
 * cublas_NAME_batched_ffi: operands and results are the same. */
static bool is_lapack(const Instruction *inst, const char *name)
{
    char target[40], letter = lapack_letter(inst);
    if (letter == 0)
        return false;
    snprintf(target, sizeof target, "lapack_%c%s_ffi", letter, name);
    if (custom_call_has_target(inst, target))
        return true;
    snprintf(target, sizeof target, "cusolver_%s_ffi", name);
    if (custom_call_has_target(inst, target))
        return true;
    snprintf(target, sizeof target, "cublas_%s_batched_ffi", name);
    return custom_call_has_target(inst, target);
}

/* Of t[batch] for each of so many of a matrix's rows or columns; count -1: for each matrix. */
static bool is_of_batch(const Shape *s, DType t, const Shape *matrix, int64_t count)
{
    if (!shape_is_array(s) || s->dtype != t ||
        s->rank + (count < 0 ? 2u : 1u) != matrix->rank)
        return false;
    for (uint32_t i = 0; i + 2 < matrix->rank; i++) {
        if (s->dims[i] != matrix->dims[i])
            return false;
    }
    return count < 0 || s->dims[s->rank - 1] == count;
}

/* A tuple of so many, the first of them with the operand's dimensions. */
static bool gives_factors(const Instruction *inst, uint32_t parts)
{
    const Shape *s = inst->shape;
    return inst->operand_count == 1 && s->dtype == DT_TUPLE && s->rank == parts &&
           lie_by_columns(inst, s->elements[0]) &&
           shape_compatible(s->elements[0], inst->operands[0]->shape);
}

static int64_t shorter_side(const Shape *s)
{
    int64_t rows = s->dims[s->rank - 2], columns = s->dims[s->rank - 1];
    return rows < columns ? rows : columns;
}

static bool is_factorisation(const Instruction *inst, LapackCall *out)
{
    const Shape *s = inst->shape;
    if (is_lapack(inst, "getrf")) {
        out->kind = LAPACK_GETRF;
        return gives_factors(inst, 3) &&
               is_of_batch(s->elements[1], DT_S32, s->elements[0],
                           shorter_side(s->elements[0])) &&
               is_of_batch(s->elements[2], DT_S32, s->elements[0], -1);
    }
    if (is_lapack(inst, "geqrf")) {
        out->kind = LAPACK_GEQRF;
        return gives_factors(inst, 2) &&
               is_of_batch(s->elements[1], s->elements[0]->dtype, s->elements[0],
                           shorter_side(s->elements[0]));
    }
    bool is_complex = shape_is_array(s) && dtype_is_complex(s->dtype),
         is_cuda = custom_call_has_target(inst, "cusolver_orgqr_ffi");
    if (!is_lapack(inst, is_complex && !is_cuda ? "ungqr" : "orgqr") ||
        inst->operand_count != 2)
        return false;
    const Attr *layouts = inst_attr(inst, ATTR_OPERAND_LAYOUT_CONSTRAINTS);
    const Shape *a = inst->operands[0]->shape, *t = inst->operands[1]->shape;
    out->kind = LAPACK_ORGQR;
    return layouts != NULL && is_by_columns(layouts->shapes.data[0]) &&
           is_by_columns(s) && shape_compatible(s, a) && shape_is_array(t) &&
           t->rank > 0 && t->dims[t->rank - 1] <= s->dims[s->rank - 1] &&
           s->dims[s->rank - 1] <= s->dims[s->rank - 2] &&
           is_of_batch(t, s->dtype, s, t->dims[t->rank - 1]);
}

bool custom_call_lapack(const Instruction *inst, LapackCall *out)
{
    if (inst->op != OP_CUSTOM_CALL)
        return false;
    int64_t uplo = config_int(inst, CONFIG_LAPACK_UPLO, 0),
            side = config_int(inst, CONFIG_LAPACK_SIDE, 0),
            diag = config_int(inst, CONFIG_LAPACK_DIAG, 0),
            trans = config_int(inst, CONFIG_LAPACK_TRANS, 0);
    const Shape *s = inst->shape;
    if (custom_call_has_target(inst, "cusolver_potrf_ffi"))
        uplo = config_flag(inst, CONFIG_CUSOLVER_LOWER) ? 'L' : 'U';
    *out = (LapackCall){.kind = LAPACK_POTRF, .lower = uplo == 'L'};
    if (is_factorisation(inst, out))
        return true;
    if (uplo != 'L' && uplo != 'U')
        return false;
    if (is_lapack(inst, "potrf"))
        return inst->operand_count == 1 && s->dtype == DT_TUPLE && s->rank == 2 &&
               lie_by_columns(inst, s->elements[0]) && is_square(s->elements[0]) &&
               shape_compatible(s->elements[0], inst->operands[0]->shape) &&
               is_of_batch(s->elements[1], DT_S32, s->elements[0], -1);
    if (!is_lapack(inst, "trsm") || inst->operand_count != 2 ||
        (side != 'L' && side != 'R') || (diag != 'U' && diag != 'N') ||
        !lie_by_columns(inst, s))
        return false;
    const Shape *a = inst->operands[0]->shape;
    out->kind = LAPACK_TRSM;
    out->left = side == 'L';
    out->unit_diagonal = diag == 'U';
    out->transpose = trans == 'N'   ? TRANSPOSE_NO
                     : trans == 'T' ? TRANSPOSE_YES
                     : trans == 'C' ? TRANSPOSE_ADJOINT
                                    : TRANSPOSE_INVALID;
    return out->transpose != TRANSPOSE_INVALID && a->rank == s->rank && is_square(a) &&
           a->dims[a->rank - 1] == s->dims[s->rank - (out->left ? 2 : 1)] &&
           shape_compatible(s, inst->operands[1]->shape);
}
