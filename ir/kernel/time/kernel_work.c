/* The kinds' functions, and what is known of an operation that no kind has taken yet. See kernel_work.h. */
#include "ir/kernel/time/kernel_work.h"

#include "ir/kernel/kind.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/work_kinds.h"

static WorkFn *const functions[KERNEL_COUNT] = {
#define KERNEL(id, name, family, ...) [KERNEL_##id] = work_##family,
#include "ir/kernel/kernels.def"
};

void work_of_kind(const KernelDesign *d, KernelWork *out)
{
    functions[d->kind](d, out);
}

enum { PLAIN_THREADS = 128, PLAIN_BYTES = 16 };

static double leaf_bytes(const Shape *s)
{
    double n = 0;
    for (size_t leaf = 0; leaf < shape_leaf_count(s); leaf++)
        n += (double)shape_bytes(shape_leaf(s, leaf));
    return n;
}

/* Terms of the sum in each element of a product. */
static double contracted(const Instruction *inst)
{
    const Shape *s = inst->operands[inst->op == OP_CONVOLUTION ? 1 : 0]->shape;
    if (shape_is_tuple(s)) /* a sparse kernel: its values, and where they lie */
        s = s->elements[0];
    if (inst->op == OP_CONVOLUTION) {
        const Attr *labels = inst_attr(inst, ATTR_DIM_LABELS);
        double outputs = (double)s->dims[labels->labels->rhs_output];
        return outputs == 0 ? 0 : (double)shape_elements(s) / outputs;
    }
    Ints dims = inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS);
    double n = 1;
    for (uint32_t i = 0; i < dims.count; i++)
        n *= (double)s->dims[dims.data[i]];
    return n;
}

static bool is_product(OpCode op)
{
    return op == OP_DOT || op == OP_CONVOLUTION || op == OP_RAGGED_DOT ||
           op == OP_SCALED_DOT;
}

/* How often the operation is done. */
static double operations_of(const Instruction *inst, double elements)
{
    if (is_product(inst->op))
        return elements * contracted(inst);
    if (inst->op == OP_REDUCE || inst->op == OP_SORT || inst->op == OP_TOPK)
        return (double)shape_elements(shape_leaf(inst->operands[0]->shape, 0));
    const Window *window = inst_window(inst);
    for (uint32_t i = 0; i < window->rank; i++)
        elements *= (double)window->dims[i].size;
    return elements;
}

/* Before fusion, and after passes that were left out: each array once, and the operation by itself. */
static void plain_work(const Instruction *inst, KernelWork *out)
{
    const Shape *s = shape_leaf(inst->shape, 0);
    double elements = shape_is_array(s) ? (double)shape_elements(s) : 0;
    double written = leaf_bytes(inst->shape), read = 0;
    for (uint32_t k = 0; k < inst->operand_count; k++)
        read += leaf_bytes(inst->operands[k]->shape);
    double threads = written / PLAIN_BYTES > 1 ? written / PLAIN_BYTES : 1;
    double blocks = threads / PLAIN_THREADS > 1 ? threads / PLAIN_THREADS : 1;
    double times = operations_of(inst, elements) / TARGET_WARP / blocks;
    OpCost c = is_product(inst->op)
                   ? (OpCost){.fma = 1}
                   : op_cost(inst->op, shape_is_array(s) ? s->dtype : DT_F32);
    *out = (KernelWork){.blocks = blocks,
                        .threads = PLAIN_THREADS,
                        .read_bytes = read,
                        .written_bytes = written,
                        .l2_bytes = read + written,
                        .needed_bytes = read + written,
                        .operations = operations_of(inst, elements),
                        .product_type = DT_INVALID};
    out->counts.issued = cost_issued(c) * times;
    out->counts.unit[WORK_FMA] = c.fma * times;
    out->counts.unit[WORK_MUFU] = c.mufu * times;
    out->counts.unit[WORK_F64] = c.f64 * times;
}

/* CUDA Tile IR is asked, and may make it. */
static bool may_be_tileir(const KernelDesign *d)
{
    return d->target->has_tileir && !d->registers_only &&
           kernel_kind_is(d->kind, KERNEL_BY_TILEIR);
}

/* Ours, and CUDA Tile IR's where there is one. */
static void work_of_ways(const KernelDesign *d, KernelWork ways[KERNEL_WAYS],
                         bool has[KERNEL_WAYS])
{
    KernelWork *own = &ways[KERNEL_WAY_OWN], *other = &ways[KERNEL_WAY_TILEIR];
    functions[d->kind](d, own);
    *other = *own;
    has[KERNEL_WAY_OWN] = true;
    has[KERNEL_WAY_TILEIR] = may_be_tileir(d) && work_tileir(d, other);
}

static KernelWay best_way(const Target *t, const KernelWork *ways, const bool *has)
{
    double own = kernel_time(&ways[KERNEL_WAY_OWN], t->device).seconds,
           other = kernel_time(&ways[KERNEL_WAY_TILEIR], t->device).seconds;
    bool is_better = t->tiles == TILES_TILEIR || other < own;
    return has[KERNEL_WAY_TILEIR] && is_better ? KERNEL_WAY_TILEIR : KERNEL_WAY_OWN;
}

bool kernel_by_tileir(const KernelDesign *d)
{
    KernelWork ways[KERNEL_WAYS];
    bool has[KERNEL_WAYS];
    if (!may_be_tileir(d))
        return false;
    if (d->target->tiles == TILES_TILEIR)
        return true;
    work_of_ways(d, ways, has);
    return best_way(d->target, ways, has) == KERNEL_WAY_TILEIR;
}

/* `way`: KERNEL_WAYS for the best. */
static bool find_work(const Instruction *inst, const Target *t, Arena *scratch,
                      KernelWay way, bool registers_only, KernelWork *out)
{
    KernelDesign d;
    KernelWork ways[KERNEL_WAYS];
    bool has[KERNEL_WAYS];
    if (inst->op != OP_FUSION || kernel_kind_of(inst) == KERNEL_COUNT) {
        plain_work(inst, out);
        return way != KERNEL_WAY_TILEIR;
    }
    kernel_design(inst, t, scratch, &d);
    d.registers_only = registers_only;
    if (d.wrong != NULL || d.unsupported != NULL) {
        plain_work(inst, out);
        return way != KERNEL_WAY_TILEIR;
    }
    work_of_ways(&d, ways, has);
    way = way == KERNEL_WAYS ? best_way(t, ways, has) : way;
    *out = ways[way];
    return has[way];
}

void kernel_work(const Instruction *inst, const Target *t, Arena *scratch,
                 KernelWork *out)
{
    find_work(inst, t, scratch, KERNEL_WAYS, false, out);
}

bool kernel_work_by(const Instruction *inst, const Target *t, KernelWay way,
                    Arena *scratch, KernelWork *out)
{
    return find_work(inst, t, scratch, way, false, out);
}

uint32_t kernel_registers(const Instruction *inst, const Target *t, Arena *scratch)
{
    KernelWork w;
    find_work(inst, t, scratch, KERNEL_WAY_OWN, true, &w);
    return w.registers;
}
