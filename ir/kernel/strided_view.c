/* See strided_view.h. */
#include "ir/kernel/strided_view.h"

static bool add_piece(StridedView *v, uint32_t dim, int64_t size, int64_t stride)
{
    ViewPiece *last = v->count > 0 ? &v->pieces[v->count - 1] : NULL;
    if (size == 1)
        return true;
    bool goes_on = last != NULL && last->dim == dim && last->stride == size * stride;
    if (goes_on) { /* one piece with what stands before it */
        last->size *= size;
        last->stride = stride;
        return true;
    }
    if (v->count == VIEW_PIECES)
        return false;
    v->pieces[v->count++] = (ViewPiece){dim, size, stride};
    return true;
}

bool view_start(const Instruction *inst, StridedView *out)
{
    int64_t strides[VIEW_RANK];
    *out = (StridedView){.base = inst};
    if (!shape_is_array(inst->shape) || inst->shape->rank > VIEW_RANK)
        return false;
    shape_strides(inst->shape, strides);
    for (uint32_t d = 0; d < inst->shape->rank; d++)
        add_piece(out, d, inst->shape->dims[d], strides[d]);
    return true;
}

/* A piece over the memory of an array with these dimensions, as pieces of single dimensions; each element of
 * dimension d then lies to[d] further. */
static bool move_piece(StridedView *out, const ViewPiece *p, const Shape *s,
                       const int64_t *from, const int64_t *to)
{
    int64_t size = p->size, stride = p->stride;
    ViewPiece inner[VIEW_RANK];
    uint32_t n = 0;
    if (stride == 0)
        return add_piece(out, p->dim, size, 0);
    while (size > 1) {
        uint32_t d = s->rank; /* the dimension that the piece walks along */
        for (uint32_t i = 0; i < s->rank; i++) {
            if (s->dims[i] != 1 && from[i] <= stride &&
                (d == s->rank || from[i] > from[d]))
                d = i;
        }
        if (d == s->rank || stride % from[d] != 0)
            return false;
        int64_t step = stride / from[d], steps = s->dims[d] / step;
        if (step >= s->dims[d] || s->dims[d] % step != 0 || n == VIEW_RANK)
            return false;
        int64_t here = size < steps ? size : steps;
        if (size % here != 0)
            return false;
        inner[n++] = (ViewPiece){p->dim, here, step * to[d]};
        size /= here;
        stride *= here;
    }
    while (n > 0) {
        const ViewPiece *q = &inner[--n];
        if (!add_piece(out, q->dim, q->size, q->stride))
            return false;
    }
    return true;
}

static bool move(StridedView *v, const Instruction *base, const Shape *s,
                 const int64_t *from, const int64_t *to)
{
    StridedView moved = {.base = base};
    for (uint32_t i = 0; i < v->count; i++) {
        if (!move_piece(&moved, &v->pieces[i], s, from, to))
            return false;
    }
    *v = moved;
    return true;
}

static bool is_fit(const Shape *s)
{
    return shape_is_array(s) && s->rank <= VIEW_RANK && dtype_info[s->dtype].bits >= 8;
}

bool view_step(StridedView *v)
{
    const Instruction *b = v->base;
    if (b->operand_count == 0 || !is_fit(b->shape) || !is_fit(b->operands[0]->shape) ||
        b->control_count != 0)
        return false;
    const Instruction *x = b->operands[0];
    int64_t from[VIEW_RANK], inside[VIEW_RANK], to[VIEW_RANK] = {0};
    shape_strides(b->shape, from);
    shape_strides(x->shape, inside);
    switch (b->op) {
    case OP_RESHAPE:
    case OP_BITCAST:
        if (!shape_is_row_major(b->shape) || !shape_is_row_major(x->shape) ||
            b->shape->dtype != x->shape->dtype)
            return false;
        v->base = x;
        return true;
    case OP_COPY:
        return move(v, x, b->shape, from, inside);
    case OP_TRANSPOSE:
        for (uint32_t d = 0; d < b->shape->rank; d++)
            to[d] = inside[inst_ints(b, ATTR_DIMENSIONS).data[d]];
        return move(v, x, b->shape, from, to);
    case OP_BROADCAST:
        for (uint32_t d = 0; d < x->shape->rank; d++)
            to[inst_ints(b, ATTR_DIMENSIONS).data[d]] = inside[d];
        return move(v, x, b->shape, from, to);
    default:
        return false;
    }
}

bool view_step_same(StridedView *v, uint32_t operand)
{
    const Instruction *b = v->base, *x = b->operands[operand];
    int64_t from[VIEW_RANK], inside[VIEW_RANK];
    if (!is_fit(b->shape) || !is_fit(x->shape) || x->shape->rank != b->shape->rank ||
        b->control_count != 0)
        return false;
    shape_strides(b->shape, from);
    shape_strides(x->shape, inside);
    return move(v, x, b->shape, from, inside);
}

bool view_step_out(StridedView *v, const Instruction *reader)
{
    const Instruction *b = v->base;
    int64_t from[VIEW_RANK], outside[VIEW_RANK], to[VIEW_RANK] = {0};
    if (!is_fit(b->shape) || !is_fit(reader->shape) || reader->control_count != 0)
        return false;
    shape_strides(b->shape, from);
    shape_strides(reader->shape, outside);
    switch (reader->op) {
    case OP_RESHAPE:
    case OP_BITCAST:
        if (!shape_is_row_major(b->shape) || !shape_is_row_major(reader->shape) ||
            b->shape->dtype != reader->shape->dtype)
            return false;
        v->base = reader;
        return true;
    case OP_COPY:
        return move(v, reader, b->shape, from, outside);
    case OP_TRANSPOSE:
        for (uint32_t d = 0; d < b->shape->rank; d++)
            to[inst_ints(reader, ATTR_DIMENSIONS).data[d]] = outside[d];
        return move(v, reader, b->shape, from, to);
    default:
        return op_is(reader->op, OPF_ELEMENTWISE) &&
               reader->shape->rank == b->shape->rank &&
               move(v, reader, b->shape, from, outside);
    }
}
