/* See lapack.h. */
#include "ir/custom_call/lapack.h"

#include <stdio.h>
#include <string.h>

#include "ir/attribute/config.h"
#include "ir/custom_call/custom_call.h"
#include "ir/number/number.h"

typedef enum Order { ANY, ROWS, COLUMNS } Order;

static const struct {
    const char *real, *complex, *cuda, *operands, *results;
    Order layout;
} rows[] = {
#define LAPACK(id, function, real, complex, cuda, operands, results, layout, doc)        \
    [LAPACK_##id] = {real, complex, cuda, operands, results, layout},
#include "ir/custom_call/lapack.def"
};

/* -- names ------------------------------------------------------------------------------------ */

/* The letter of the type in LAPACK's names; 0: it has none. */
static char letter_of(DType t)
{
    static const char letters[] = {
        [DT_F32] = 's', [DT_F64] = 'd', [DT_C64] = 'c', [DT_C128] = 'z'};
    return t < sizeof letters ? letters[t] : 0;
}

static char type_letter(const Instruction *inst)
{
    return inst->operand_count ? letter_of(inst->operands[0]->shape->dtype) : 0;
}

bool lapack_has_type(DType t)
{
    return letter_of(t) != 0;
}

static bool is_named(const Instruction *inst, LapackKind kind)
{
    char target[40], letter = type_letter(inst);
    const char *name =
        letter == 'c' || letter == 'z' ? rows[kind].complex : rows[kind].real;
    snprintf(target, sizeof target, "lapack_%c%s_ffi", letter, name);
    if (letter != 0 && *name != '\0' && custom_call_has_target(inst, target))
        return true;
    Bytes called = inst_bytes(inst, ATTR_CUSTOM_CALL_TARGET);
    for (const char *at = rows[kind].cuda; *at != '\0';) {
        size_t length = strcspn(at, " ");
        if (called.length == length && memcmp(called.data, at, length) == 0)
            return true;
        at += length + strspn(at + length, " ");
    }
    return false;
}

/* -- operands and results ----------------------------------------------------------------------- */

/* What the letters of a row stand for, as far as they are known. */
typedef struct Match {
    DType type;
    uint32_t batches;
    const int64_t *batch;
    int64_t sizes[26]; /* -1: not known yet */
    Order layout;
    bool is_transposed;
} Match;

static bool is_type(const Match *m, char letter, DType t)
{
    return t == (letter == 'i'   ? DT_S32
                 : letter == 'u' ? DT_U32
                 : letter == 'r' ? number_component(m->type)
                                 : m->type);
}

static bool is_size(Match *m, char letter, int64_t size)
{
    int64_t *known = &m->sizes[letter - 'a'], rows_ = m->sizes['m' - 'a'],
            columns = m->sizes['n' - 'a'];
    if (letter == 'k')
        *known = rows_ < columns ? rows_ : columns;
    else if (letter == 'e')
        *known = columns > 0 ? columns - 1 : 0;
    else if (letter == 'o' && columns < 0)
        m->sizes['n' - 'a'] = size - 1;
    else if (letter == 'o')
        *known = columns + 1;
    if (*known < 0)
        *known = size;
    return *known == size;
}

/* The last two dimensions are the minor ones: COLUMNS, the rows' the most. */
static bool lies(const Shape *s, Order layout)
{
    int64_t minor = (int64_t)s->rank - (layout == COLUMNS ? 2 : 1);
    return layout == ANY ||
           (s->layout->minor_to_major[0] == minor &&
            s->layout->minor_to_major[1] == 2 * (int64_t)s->rank - 3 - minor);
}

/* One term of a row, its type's letter first, and what stands in the call; laid: with the layout that it is given. */
static bool is_term(Match *m, const char *term, size_t length, const Shape *s,
                    const Shape *laid)
{
    uint32_t own = (uint32_t)length - 1;
    if (!shape_is_array(s) || shape_is_dynamic(s) || !is_type(m, *term, s->dtype))
        return false;
    if (*term == 's')
        return s->rank == 0;
    if (s->rank != m->batches + own)
        return false;
    for (uint32_t i = 0; i < m->batches; i++) {
        if (s->dims[i] != m->batch[i])
            return false;
    }
    for (uint32_t i = 0; i < own; i++) {
        uint32_t letter = m->is_transposed && own == 2 ? 1 - i : i;
        if (!is_size(m, term[letter + 1], s->dims[m->batches + i]))
            return false;
    }
    return own < 2 || m->layout == ANY || m->is_transposed ||
           (laid != NULL && lies(laid, m->layout));
}

static bool are_operands(Match *m, const char *terms, const Instruction *inst)
{
    const Attr *layouts = inst_attr(inst, ATTR_OPERAND_LAYOUT_CONSTRAINTS);
    uint32_t n = 0;
    for (; *terms != '\0'; n++) {
        size_t length = strcspn(terms, ",");
        if (n == inst->operand_count)
            return false;
        const Shape *s = inst->operands[n]->shape;
        if (!is_term(m, terms, length, s, layouts ? layouts->shapes.data[n] : NULL))
            return false;
        terms += length + (terms[length] == ',');
    }
    return n == inst->operand_count;
}

static bool are_results(Match *m, const char *terms, const Shape *s)
{
    bool is_one = strchr(terms, ',') == NULL;
    uint32_t n = 0, count = is_one ? 1 : s->rank;
    if (is_one == shape_is_tuple(s))
        return false;
    for (; *terms != '\0'; n++) {
        size_t length = strcspn(terms, ",");
        if (n == count)
            return false;
        const Shape *part = is_one ? s : s->elements[n];
        if (!is_term(m, terms, length, part, part))
            return false;
        terms += length + (terms[length] == ',');
    }
    return n == count;
}

/* Rules that letters do not say. */
static bool fits(const Match *m, const LapackCall *call)
{
    int64_t rows_ = m->sizes['m' - 'a'], columns = m->sizes['n' - 'a'],
            factors = m->sizes['j' - 'a'], u = m->sizes['u' - 'a'],
            v = m->sizes['v' - 'a'], p = m->sizes['p' - 'a'], q = m->sizes['q' - 'a'];
    int64_t least = rows_ < columns ? rows_ : columns;
    switch (call->kind) {
    case LAPACK_TRSM:
        return columns == (call->left ? p : q);
    case LAPACK_ORGQR:
        return factors <= columns && columns <= rows_;
    case LAPACK_ORMQR:
        return factors <= columns && factors <= rows_ && rows_ == (call->left ? p : q);
    case LAPACK_GESDD:
    case LAPACK_GESVD:
    case LAPACK_GESVD_T:
    case LAPACK_GESVDJ:
        return (u == rows_ && v == columns) || (u == least && v == least);
    case LAPACK_CSRLSVQR:
        return m->batches == 0 && dtype_is_float(m->type);
    case LAPACK_PIVOTS:
        return factors <= p;
    case LAPACK_UPDATE:
        return dtype_is_float(m->type);
    default:
        return true;
    }
}

static bool matches(const Instruction *inst, const LapackCall *call)
{
    const char *operands = rows[call->kind].operands;
    if (inst->operand_count == 0 || !shape_is_array(inst->operands[0]->shape))
        return false;
    const Shape *first = inst->operands[0]->shape;
    uint32_t own = (uint32_t)strcspn(operands, ",") - 1;
    if (first->rank < own)
        return false;
    Match m = {.type = first->dtype,
               .batches = first->rank - own,
               .batch = first->dims,
               .layout = rows[call->kind].layout,
               .is_transposed = call->is_transposed};
    for (size_t i = 0; i < sizeof m.sizes / sizeof *m.sizes; i++)
        m.sizes[i] = -1;
    return are_operands(&m, operands, inst) &&
           are_results(&m, rows[call->kind].results, inst->shape) && fits(&m, call);
}

/* -- what the call says --------------------------------------------------------------------------- */

static int64_t transpose_of(int64_t letter)
{
    return letter == 'N'   ? TRANSPOSE_NO
           : letter == 'T' ? TRANSPOSE_YES
           : letter == 'C' ? TRANSPOSE_ADJOINT
                           : TRANSPOSE_INVALID;
}

/* False: what it must say is missing, or is none of what there is. */
static bool read_options(const Instruction *inst, LapackCall *out)
{
    bool is_cpu =
        strncmp(inst_bytes(inst, ATTR_CUSTOM_CALL_TARGET).data, "lapack_", 7) == 0;
    int64_t uplo = config_int(inst, CONFIG_LAPACK_UPLO, 0),
            side = config_int(inst, CONFIG_LAPACK_SIDE, 0),
            diag = config_int(inst, CONFIG_LAPACK_DIAG, 0),
            mode = config_int(inst, CONFIG_LAPACK_MODE, 0);
    if (!is_cpu)
        uplo = config_flag(inst, CONFIG_CUSOLVER_LOWER) ? 'L' : 'U';
    out->lower = uplo == 'L';
    bool has_triangle = uplo == 'L' || uplo == 'U';
    switch (out->kind) {
    case LAPACK_POTRF:
    case LAPACK_SYTRD:
        return has_triangle;
    case LAPACK_SYEVD:
        return has_triangle && (!is_cpu || mode == 'V' || mode == 'N');
    case LAPACK_TRSM:
        out->left = side == 'L';
        out->unit_diagonal = diag == 'U';
        out->transpose = transpose_of(config_int(inst, CONFIG_LAPACK_TRANS, 0));
        return has_triangle && (side == 'L' || side == 'R') &&
               (diag == 'U' || diag == 'N') && out->transpose != TRANSPOSE_INVALID;
    case LAPACK_ORMQR:
        out->left = config_flag(inst, CONFIG_LAPACK_LEFT);
        out->transpose =
            config_flag(inst, CONFIG_LAPACK_TRANSPOSE) ? TRANSPOSE_ADJOINT : TRANSPOSE_NO;
        return true;
    case LAPACK_GESDD:
    case LAPACK_GESVD:
    case LAPACK_GESVD_T:
    case LAPACK_GESVDJ:
        out->has_vectors = is_cpu ? mode != 'N' : config_flag(inst, CONFIG_CUSOLVER_UV);
        return !is_cpu || mode == 'A' || mode == 'S' || mode == 'N';
    case LAPACK_SYRK:
        return !config_flag(inst, CONFIG_LAPACK_TRANSPOSE);
    default:
        return true;
    }
}

bool custom_call_lapack(const Instruction *inst, LapackCall *out)
{
    if (inst->op != OP_CUSTOM_CALL)
        return false;
    bool is_marked = config_is(inst, CONFIG_LIBRARY, LAPACK_LIBRARY);
    for (LapackKind kind = 0; kind < LAPACK_COUNT; kind++) {
        *out = (LapackCall){.kind = kind,
                            .is_transposed = is_marked && rows[kind].layout == COLUMNS};
        if (is_named(inst, kind) && read_options(inst, out) && matches(inst, out))
            return true;
    }
    return false;
}

bool lapack_is_matrix(LapackKind kind, bool is_result, uint32_t i)
{
    const char *terms = is_result ? rows[kind].results : rows[kind].operands;
    for (; i > 0; i--)
        terms += strcspn(terms, ",") + 1;
    return strcspn(terms, ",") == 3;
}
