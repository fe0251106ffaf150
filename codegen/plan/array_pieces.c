/* Launches whose kernels read one piece of an array only - a layer of stacked weights, a part of a vector. The kernel
 * takes the piece for its parameter, and the launch says where it lies: kernels that differ in that are one.
 *
 *   f(w: bf16[26,2048], x) { s = slice(w, [3:4], [0:2048]), ... }    f(w, x)
 *     =>  f(s: bf16[1,2048], x) { ... }                             f(w + 12288, x) */
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
    bool is_whole;            /* something reads another part of it, or all */
} Piece;

/* By parameter. */
static void find_pieces(const Computation *comp, Piece *out)
{
    for (const Instruction *x = inst_first(comp); x; x = inst_next(x)) {
        for (uint32_t k = 0; k < x->operand_count; k++) {
            if (x->operands[k]->op != OP_PARAMETER)
                continue;
            Piece *piece = &out[x->operands[k]->parameter];
            const Instruction *known = piece->slice;
            bool is_piece = x->op == OP_SLICE && x != comp->root &&
                            (known == NULL || attr_equal(inst_attr(known, ATTR_SLICE),
                                                         inst_attr(x, ATTR_SLICE)));
            if (is_piece)
                piece->slice = x;
            else
                piece->is_whole = true;
        }
    }
}

static bool is_written(const Variant *v, const Instruction *fusion,
                       const Instruction *operand)
{
    uint32_t place = v->buffers->sets[alias_set(v->aliases, operand, 0)].place;
    bool found = false;
    for (uint32_t r = 0; r < shape_leaf_count(fusion->shape); r++)
        found |= v->buffers->sets[alias_set(v->aliases, fusion, r)].place == place;
    return found;
}

/* Bytes from the beginning of the operand; -1: the kernel needs all of it, or its place is not as aligned as kernels
 * rely on. */
static int64_t piece_offset(const Variant *v, const Instruction *fusion, uint32_t p,
                            const Piece *piece)
{
    const Instruction *slice = piece->slice;
    const Shape *whole = fusion->operands[p]->shape;
    uint32_t bits = dtype_info[whole->dtype].bits;
    if (slice == NULL || piece->is_whole || bits % 8 != 0 ||
        shape_elements(slice->shape) == shape_elements(whole) ||
        is_written(v, fusion, fusion->operands[p]))
        return -1;
    int64_t start = piece_start(slice, whole);
    return start < 0 || start * (bits / 8) % VARIANT_ARGUMENT_ALIGNMENT != 0
               ? -1
               : start * (bits / 8);
}

/* Parameter p becomes the slice: its elements, in the parameter's order. */
static void narrow(Computation *comp, uint32_t p)
{
    Instruction *parameter = comp->parameters[p];
    const Shape *whole = parameter->shape;
    for (uint32_t i = 0; i < comp->instruction_count; i++) {
        Instruction *slice = comp->instructions[i];
        if (slice == NULL || slice->op != OP_SLICE || slice->operands[0] != parameter)
            continue;
        const Shape *s = slice->shape;
        parameter->shape = shape_array(comp->module->intern, s->dtype, s->rank, s->dims,
                                       NULL, whole->layout);
        computation_replace_one(comp, slice, parameter);
        computation_remove(comp, slice);
    }
}

static Instruction *narrowed(Variant *v, const Instruction *fusion,
                             const int64_t *offsets)
{
    uint32_t n = fusion->operand_count;
    Module *m = v->pieces;
    Computation *fused = computation_clone_into(m, inst_called(fusion, 0), NULL);
    Computation *outer = module_add_computation(m, "launch");
    Instruction **operands = ARENA_ARRAY(v->arena, Instruction *, (size_t)n + 1);
    for (uint32_t p = 0; p < n; p++) {
        if (offsets[p] >= 0)
            narrow(fused, p);
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
    Piece *pieces = ARENA_ARRAY(v->arena, Piece, (size_t)n + 1);
    bool has_pieces = false;
    find_pieces(comp, pieces);
    for (uint32_t p = 0; p < n; p++) {
        offsets[p] = piece_offset(v, fusion, p, &pieces[p]);
        has_pieces |= offsets[p] >= 0;
    }
    PieceLaunch whole = {.fusion = fusion};
    if (!has_pieces)
        return whole;
    if (v->pieces == NULL)
        v->pieces = module_create(v->arena, diag_create(v->arena, "", "", 0), "pieces");
    const Instruction *copy = narrowed(v, fusion, offsets);
    if (kernel_illegal(copy, kernel_kind_of(fusion)) != NULL)
        return whole;
    return (PieceLaunch){.fusion = copy, .offsets = offsets};
}
