/* See element_map.h. */
#include "ir/kernel/element_map.h"

static bool add_piece(ElementMap *m, uint32_t dim, int64_t size, int64_t stride)
{
    ViewPiece *last = m->count > 0 ? &m->pieces[m->count - 1] : NULL;
    if (size == 1)
        return true;
    if (last != NULL && last->dim == dim && last->stride == size * stride) {
        last->size *= size;
        last->stride = stride;
        return true;
    }
    if (m->count == VIEW_PIECES)
        return false;
    m->pieces[m->count++] = (ViewPiece){dim, size, stride};
    return true;
}

const ViewPiece *view_pieces_of(const ViewPiece *pieces, uint32_t count, uint32_t dim,
                                uint32_t *n)
{
    uint32_t first = 0;
    while (first < count && pieces[first].dim != dim)
        first++;
    *n = 0;
    while (first + *n < count && pieces[first + *n].dim == dim)
        ++*n;
    return pieces + first;
}

bool mapped_start(const Instruction *inst, Mapped *out)
{
    int64_t stride = 1;
    *out = (Mapped){.inst = inst};
    if (!shape_is_array(inst->shape) || inst->shape->rank > VIEW_RANK ||
        shape_elements(inst->shape) == 0)
        return false;
    out->map.rank = inst->shape->rank;
    stride = shape_elements(inst->shape);
    for (uint32_t d = 0; d < out->map.rank; d++) {
        stride /= inst->shape->dims[d];
        if (inst->shape->dims[d] != 1)
            out->map.pieces[out->map.count++] =
                (ViewPiece){d, inst->shape->dims[d], stride};
    }
    return true;
}

bool element_map_choose(const ElementMap *m, uint32_t rank, const int64_t *to,
                        ElementMap *out)
{
    *out = (ElementMap){.rank = rank};
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t n;
        const ViewPiece *p = view_pieces_of(m->pieces, m->count, (uint32_t)to[d], &n);
        for (uint32_t i = 0; i < n; i++) {
            if (!add_piece(out, d, p[i].size, p[i].stride))
                return false;
        }
    }
    return true;
}

/* The same pieces: inner ones first, so they come out backwards. */
bool element_map_regroup(const ElementMap *m, uint32_t rank, const int64_t *dims,
                         ElementMap *out)
{
    ViewPiece backwards[2 * VIEW_PIECES];
    uint32_t n = 0, next = m->count;
    ViewPiece piece = {.size = 1};
    for (uint32_t d = rank; d-- > 0;) {
        for (int64_t size = dims[d]; size > 1;) {
            if (piece.size == 1 && next == 0)
                return false;
            if (piece.size == 1)
                piece = m->pieces[--next];
            int64_t here = piece.size < size ? piece.size : size;
            if (piece.size % here != 0 || size % here != 0 || n == 2 * VIEW_PIECES)
                return false;
            backwards[n++] = (ViewPiece){d, here, piece.stride};
            piece.size /= here;
            piece.stride *= here;
            size /= here;
        }
    }
    *out = (ElementMap){.rank = rank};
    while (n-- > 0) {
        if (!add_piece(out, backwards[n].dim, backwards[n].size, backwards[n].stride))
            return false;
    }
    return true;
}

static bool is_array(const Instruction *inst)
{
    return shape_is_array(inst->shape) && inst->shape->rank <= VIEW_RANK;
}

bool mapped_operand(const Mapped *m, uint32_t operand, Mapped *out)
{
    const Instruction *inst = m->inst, *x;
    int64_t to[VIEW_RANK];
    if (operand >= inst->operand_count || inst->control_count != 0)
        return false;
    x = inst->operands[operand];
    if (!is_array(x))
        return false;
    Mapped next = {.inst = x};
    switch (inst->op) {
    case OP_COPY:
        next.map = m->map;
        break;
    case OP_TRANSPOSE:
        for (uint32_t d = 0; d < m->map.rank; d++)
            to[inst_ints(inst, ATTR_DIMENSIONS).data[d]] = d;
        if (!element_map_choose(&m->map, m->map.rank, to, &next.map))
            return false;
        break;
    case OP_BROADCAST:
        if (!element_map_choose(&m->map, x->shape->rank,
                                inst_ints(inst, ATTR_DIMENSIONS).data, &next.map))
            return false;
        break;
    case OP_BITCAST:
        if (x->shape->dtype != inst->shape->dtype || !shape_is_row_major(x->shape) ||
            !shape_is_row_major(inst->shape))
            return false; /* fallthrough */
    case OP_RESHAPE:
        if (!element_map_regroup(&m->map, x->shape->rank, x->shape->dims, &next.map))
            return false;
        break;
    default:
        if (!op_is(inst->op, OPF_ELEMENTWISE) || x->shape->rank != inst->shape->rank)
            return false;
        next.map = m->map;
    }
    *out = next;
    return true;
}

bool conversion_is_close(const Instruction *inst)
{
    enum { LEAST_BITS = 16 };
    DType from = inst->operands[0]->shape->dtype, to = inst->shape->dtype;
    return dtype_is_float(from) && dtype_is_float(to) &&
           (dtype_info[to].bits >= LEAST_BITS ||
            dtype_info[to].bits > dtype_info[from].bits || to == from);
}

void mapped_peel(Mapped *m)
{
    for (;;) {
        OpCode op = m->inst->op;
        bool is_move = op == OP_COPY || op == OP_TRANSPOSE || op == OP_RESHAPE ||
                       op == OP_BITCAST ||
                       (op == OP_CONVERT && conversion_is_close(m->inst));
        if (!is_move || !mapped_operand(m, 0, m))
            return;
    }
}

bool mapped_insert(const ElementMap *m, uint32_t dim, int64_t size, int64_t stride,
                   ElementMap *out)
{
    *out = (ElementMap){.rank = m->rank + 1};
    for (uint32_t d = 0; d < m->rank + 1; d++) {
        uint32_t n;
        if (d == dim) {
            if (!add_piece(out, d, size, stride))
                return false;
            continue;
        }
        const ViewPiece *p = view_pieces_of(m->pieces, m->count, d - (d > dim), &n);
        for (uint32_t i = 0; i < n; i++) {
            if (!add_piece(out, d, p[i].size, p[i].stride))
                return false;
        }
    }
    return true;
}

bool element_map_equal(const ElementMap *a, const ElementMap *b)
{
    if (a->rank != b->rank || a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const ViewPiece *x = &a->pieces[i], *y = &b->pieces[i];
        if (x->dim != y->dim || x->size != y->size || x->stride != y->stride)
            return false;
    }
    return true;
}

bool element_digits_add(ElementDigits *out, const ViewPiece *space, uint32_t space_count,
                        const ViewPiece *other, uint32_t other_count)
{
    ViewPiece a = {.size = 1}, b = {.size = 1};
    for (;;) {
        if (a.size == 1 && space_count > 0)
            a = space[--space_count];
        if (b.size == 1 && other_count > 0)
            b = other[--other_count];
        if (a.size == 1 || b.size == 1)
            return a.size == b.size;
        int64_t here = a.size < b.size ? a.size : b.size;
        if (a.size % here != 0 || b.size % here != 0 || out->count == MOST_DIGITS)
            return false;
        out->data[out->count++] = (ElementDigit){a.stride, here, b.stride};
        a.size /= here;
        a.stride *= here;
        b.size /= here;
        b.stride *= here;
    }
}
