/* A scaled-dot becomes a kernel that scales what it reads and multiplies it, so that the scaled
 * operands never lie in memory.
 *
 *   d = f32[8,8] scaled-dot(l, r, ls, rs)                         l: f8e4m3fn[8,64], ls: f8e8m0fnu[8,2]
 *   ->  fused { x = multiply(convert(l), reshape(broadcast(convert(ls), [8,1,2,32])))
 *               ROOT d = f32[8,8] dot(x, ...) }
 *       d = f32[8,8] fusion(l, r, ls, rs), calls=fused, backend_config={"emitter":"dot"}
 *
 * All is done in f32 (f64 if the dot has some), which holds the products of small floats and
 * their scales exactly.
 *
 * Needs: laid out. Keeps: values. Ends: one sweep. */
#include "ir/base/bug.h"
#include "ir/kernel/kind.h"
#include "passes/fusion/fusion.h"
#include "passes/library/library.h"

static const Shape *array(Computation *comp, DType t, uint32_t rank, const int64_t *dims)
{
    return shape_array(comp->module->intern, t, rank, dims, NULL, NULL);
}

static Instruction *convert(Instruction *x, DType t)
{
    if (x->shape->dtype == t)
        return x;
    return computation_add(x->parent, OP_CONVERT,
                           array(x->parent, t, x->shape->rank, x->shape->dims), 1, &x,
                           NULL);
}

/* x times its scale, of which each element stands for a block of x; a scalar is no scale. */
static Instruction *scaled(Instruction *x, Instruction *scale, DType t, Arena *scratch)
{
    Computation *comp = x->parent;
    uint32_t rank = x->shape->rank;
    x = convert(x, t);
    if (scale->shape->rank == 0)
        return x;
    int64_t *blocks = ARENA_ARRAY(scratch, int64_t, (size_t)rank * 2);
    int64_t *dims = ARENA_ARRAY(scratch, int64_t, rank);
    uint32_t n = 0;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t count = scale->shape->dims[i];
        int64_t block = count == 0 ? 1 : x->shape->dims[i] / count;
        dims[i] = n;
        blocks[n++] = count;
        if (block != 1)
            blocks[n++] = block;
    }
    scale = convert(scale, t);
    if (n != rank) {
        scale = computation_add(comp, OP_BROADCAST, array(comp, t, n, blocks), 1, &scale,
                                NULL);
        inst_set_ints(scale, ATTR_DIMENSIONS, dims, rank);
        scale = computation_add(comp, OP_RESHAPE, x->shape, 1, &scale, NULL);
    }
    Instruction *pair[2] = {x, scale};
    return computation_add(comp, OP_MULTIPLY, x->shape, 2, pair, NULL);
}

/* The scaled-dot of a fusion of its own as operations that its kernel knows. */
static void open_up(Instruction *fusion, Arena *scratch)
{
    static const AttrId kept[] = {ATTR_LHS_BATCH_DIMS, ATTR_LHS_CONTRACTING_DIMS,
                                  ATTR_RHS_BATCH_DIMS, ATTR_RHS_CONTRACTING_DIMS};
    Computation *comp = inst_called(fusion, 0);
    Instruction *inst = comp->root;
    bool is_wide = inst->shape->dtype == DT_F64;
    for (uint32_t i = 0; i < inst->operand_count; i++)
        is_wide |= inst->operands[i]->shape->dtype == DT_F64;
    DType t = is_wide ? DT_F64 : DT_F32, result = inst->shape->dtype;
    Instruction *pair[2];
    for (int i = 0; i < 2; i++)
        pair[i] = scaled(inst->operands[i], inst->operands[2 + i], t, scratch);
    const Shape *s = inst->shape;
    if (!dtype_is_float(result)) /* the sum is rounded once, not its terms */
        s = array(comp, t, s->rank, s->dims);
    Instruction *dot = computation_add(comp, OP_DOT, s, 2, pair, NULL);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (inst_has(inst, kept[i]))
            inst_set(dot, *inst_attr(inst, kept[i]));
    dot->span = inst->span;
    comp->root = dot;
    if (s != inst->shape)
        comp->root = computation_add(comp, OP_CONVERT, inst->shape, 1, &dot, NULL);
    fusion_drop_unread(fusion, scratch);
}

static Instruction *fused(Instruction *inst, void *context)
{
    PassContext *cx = context;
    if (inst->op != OP_SCALED_DOT || shape_is_dynamic(inst->operands[0]->shape) ||
        shape_is_dynamic(inst->operands[1]->shape))
        return NULL;
    Instruction *fusion = fusion_wrap(inst);
    open_up(fusion, cx->scratch);
    kernel_kind_set(fusion, kernel_kind_choose(fusion, cx->target));
    return fusion;
}

bool pass_scaled_dots(Module *m, PassContext *cx)
{
    uint32_t n = module_replace_each(m, fused, cx, cx->scratch);
    cx->counts.scaled_dots_fused += n;
    if (n != 0)
        module_sort(m);
    return n != 0;
}
