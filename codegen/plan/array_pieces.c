/* Launches whose kernels read one piece of an array only - a layer of stacked weights, a part of a vector. The kernel
 * takes the piece for its parameter, and the launch says where it lies: kernels that differ in that are one.
 *
 *   f(w: bf16[26,2048], x) { s = slice(w, [3:4], [0:2048]), ... }    f(w, x)
 *     =>  f(s: bf16[1,2048], x) { ... }                             f(w + 12288, x)
 *
 * Of pieces whose elements do not lie side by side, and of several of one array, the launch says where the first begins:
 *
 *   f(w: bf16[41,8960]) { s = slice(w, [0:41], [512:768]), ... }     f(w)
 *     =>  f(w) { s = slice(w, [0:41], [0:256]), ... }               f(w + 1024) */
#include "codegen/plan/variant.h"
#include "ir/kernel/kind.h"

/* Elements from the array's first to the slice's; -1: they do not lie side by side, all of them, or the slice's own
 * layout has them in another order, on which a bitcast of it may count. */
static int64_t piece_start(const Instruction *slice, const Shape *whole)
{
    const SliceSpec *spec = inst_attr(slice, ATTR_SLICE)->slice;
    const int64_t *own = slice->shape->layout->minor_to_major;
    int64_t start = 0, stride = 1;
    uint32_t next = 0;   /* in the slice's layout */
    bool is_cut = false; /* dimensions that change faster are not whole */
    for (uint32_t i = 0; i < whole->rank; i++) {
        int64_t d = whole->layout->minor_to_major[i];
        const SliceDim *dim = &spec->dims[d];
        int64_t size = slice->shape->dims[d];
        if (size == 0)
            return -1;
        if (size > 1) {
            while (slice->shape->dims[own[next]] == 1)
                next++;
            if (is_cut || dim->stride != 1 || own[next++] != d)
                return -1;
        }
        is_cut |= size != whole->dims[d];
        start += dim->start * stride;
        stride *= whole->dims[d];
    }
    return start;
}

/* What is read of a parameter. */
typedef struct Piece {
    const Instruction *slice; /* the first that reads it; NULL: none does */
    int64_t *first;           /* [rank] where the first slice of each dimension begins */
    bool is_one;              /* all slices are of the same elements, in one order */
    bool is_whole;            /* something else reads it */
} Piece;

static void add_slice(const Variant *v, Piece *piece, const Instruction *slice)
{
    const Attr *attr = inst_attr(slice, ATTR_SLICE);
    if (piece->slice == NULL) {
        *piece = (Piece){slice, ARENA_ARRAY(v->arena, int64_t, attr->slice->rank), true,
                         false};
        for (uint32_t d = 0; d < attr->slice->rank; d++)
            piece->first[d] = INT64_MAX;
    }
    piece->is_one &= attr_equal(inst_attr(piece->slice, ATTR_SLICE), attr) &&
                     shape_layouts_equal(piece->slice->shape, slice->shape);
    for (uint32_t d = 0; d < attr->slice->rank; d++) {
        int64_t start = attr->slice->dims[d].start;
        piece->first[d] = start < piece->first[d] ? start : piece->first[d];
    }
}

/* By parameter. */
static void find_pieces(const Variant *v, const Computation *comp, Piece *out)
{
    for (const Instruction *x = inst_first(comp); x; x = inst_next(x)) {
        for (uint32_t k = 0; k < x->operand_count; k++) {
            if (x->operands[k]->op != OP_PARAMETER)
                continue;
            Piece *piece = &out[x->operands[k]->parameter];
            if (x->op == OP_SLICE && x != comp->root && !piece->is_whole &&
                shape_elements(x->shape) != 0)
                add_slice(v, piece, x);
            else
                piece->is_whole = true;
        }
    }
}

static bool is_written(const Variant *v, const Instruction *fusion,
                       const Instruction *operand)
{
    uint32_t holder = v->buffers->sets[alias_set(v->aliases, operand, 0)].holder;
    bool found = false;
    for (uint32_t r = 0; r < shape_leaf_count(fusion->shape); r++)
        found |= v->buffers->sets[alias_set(v->aliases, fusion, r)].holder == holder;
    return found;
}

/* Elements from the array's first to the one at `index`. */
static int64_t element_at(const Shape *s, const int64_t *index)
{
    int64_t at = 0, strides[KERNEL_MOST_RANK];
    shape_strides(s, strides);
    for (uint32_t d = 0; d < s->rank; d++)
        at += index[d] * strides[d];
    return at;
}

/* Bytes from the beginning of the operand; -1: the kernel needs all of it, or its offset is not as aligned as kernels
 * rely on. What does not lie side by side is no piece, but where its slices begin is the launch's matter, too. */
static int64_t piece_offset(const Variant *v, const Instruction *fusion, uint32_t p,
                            Piece *piece)
{
    const Instruction *slice = piece->slice;
    const Shape *whole = fusion->operands[p]->shape;
    uint32_t bits = dtype_info[whole->dtype].bits;
    if (slice == NULL || piece->is_whole || bits % 8 != 0 ||
        shape_elements(slice->shape) == shape_elements(whole) ||
        is_written(v, fusion, fusion->operands[p]))
        return -1;
    int64_t start = piece->is_one ? piece_start(slice, whole) : -1;
    piece->is_one = start >= 0;
    if (start < 0)
        start = element_at(whole, piece->first);
    bool is_moved = start != 0 || piece->is_one;
    return !is_moved || start * (bits / 8) % VARIANT_ARGUMENT_ALIGNMENT != 0
               ? -1
               : start * (bits / 8);
}

/* The slice becomes the parameter. */
static void narrow(Computation *comp, Instruction *parameter, Instruction *slice)
{
    const Shape *s = slice->shape, *whole = parameter->shape;
    parameter->shape = shape_array(comp->module->intern, s->dtype, s->rank, s->dims, NULL,
                                   whole->layout);
    computation_replace_one(comp, slice, parameter);
    computation_remove(comp, slice);
}

/* The slice begins so much earlier; its last element in memory. */
static int64_t move_slice(Instruction *slice, const int64_t *first)
{
    const SliceSpec *was = inst_attr(slice, ATTR_SLICE)->slice;
    Arena *a = slice->parent->module->arena;
    SliceDim *dims = arena_copy(a, was->dims, was->rank * sizeof *dims);
    int64_t *last = ARENA_ARRAY(a, int64_t, was->rank);
    for (uint32_t d = 0; d < was->rank; d++) {
        dims[d].start -= first[d];
        dims[d].limit -= first[d];
        last[d] = dims[d].start + (slice->shape->dims[d] - 1) * dims[d].stride;
    }
    inst_set_slice(slice, dims, was->rank);
    return element_at(slice->operands[0]->shape, last);
}

/* Parameter p becomes its piece: the bytes up to its last element. */
static int64_t take_piece(Computation *comp, uint32_t p, const Piece *piece)
{
    Instruction *parameter = comp->parameters[p];
    int64_t last = -1;
    for (uint32_t i = 0; i < comp->instruction_count; i++) {
        Instruction *slice = comp->instructions[i];
        if (slice == NULL || slice->op != OP_SLICE || slice->operands[0] != parameter)
            continue;
        if (piece->is_one) {
            narrow(comp, parameter, slice);
            continue;
        }
        int64_t end = move_slice(slice, piece->first);
        last = end > last ? end : last;
    }
    return piece->is_one ? shape_bytes(parameter->shape)
                         : (last + 1) * (dtype_info[parameter->shape->dtype].bits / 8);
}

static const Instruction *with_pieces(Variant *v, const Instruction *fusion,
                                      const Piece *pieces, const int64_t *offsets,
                                      uint64_t *bytes)
{
    uint32_t n = fusion->operand_count;
    Module *m = v->pieces;
    Computation *fused = computation_clone_into(m, inst_called(fusion, 0), NULL);
    Computation *outer = module_add_computation(m, "launch");
    Instruction **operands = ARENA_ARRAY(v->arena, Instruction *, (size_t)n + 1);
    for (uint32_t p = 0; p < n; p++) {
        bytes[p] = (uint64_t)(offsets[p] >= 0 ? take_piece(fused, p, &pieces[p])
                                              : shape_bytes(fused->parameters[p]->shape));
        operands[p] =
            computation_add_parameter(outer, p, fused->parameters[p]->shape, NULL);
    }
    computation_sort(fused);
    Instruction *copy = computation_add_like(outer, fusion, fusion->shape, n, operands);
    copy->name = fusion->name;
    inst_set_computation(copy, ATTR_CALLS, fused);
    return copy;
}

PieceLaunch variant_pieces(Variant *v, const Instruction *fusion)
{
    uint32_t n = fusion->operand_count;
    const Computation *comp = inst_called(fusion, 0);
    int64_t *offsets = ARENA_ARRAY(v->arena, int64_t, (size_t)n + 1);
    uint64_t *bytes = ARENA_ARRAY(v->arena, uint64_t, (size_t)n + 1);
    Piece *pieces = ARENA_ARRAY(v->arena, Piece, (size_t)n + 1);
    bool has_pieces = false;
    find_pieces(v, comp, pieces);
    for (uint32_t p = 0; p < n; p++) {
        offsets[p] = piece_offset(v, fusion, p, &pieces[p]);
        has_pieces |= offsets[p] >= 0;
    }
    PieceLaunch whole = {.fusion = fusion};
    if (!has_pieces)
        return whole;
    if (v->pieces == NULL)
        v->pieces = module_create(v->arena, diag_create(v->arena, "", "", 0), "pieces");
    const Instruction *copy = with_pieces(v, fusion, pieces, offsets, bytes);
    if (kernel_illegal(copy, kernel_kind_of(fusion)) != NULL)
        return whole;
    return (PieceLaunch){.fusion = copy, .offsets = offsets, .bytes = bytes};
}
