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

void kernel_design_work(const KernelDesign *d, KernelWork backends[KERNEL_BACKENDS],
                        bool has[KERNEL_BACKENDS])
{
    KernelWork *own = &backends[KERNEL_BACKEND_GX],
               *other = &backends[KERNEL_BACKEND_TILEIR];
    functions[d->kind](d, own);
    *other = *own;
    has[KERNEL_BACKEND_GX] = true;
    has[KERNEL_BACKEND_TILEIR] = may_be_tileir(d) && work_tileir(d, other);
}

static KernelBackend best_backend(const Target *t, const KernelWork *backends,
                                  const bool *has)
{
    double own = kernel_time(&backends[KERNEL_BACKEND_GX], t->device).seconds,
           other = kernel_time(&backends[KERNEL_BACKEND_TILEIR], t->device).seconds;
    bool is_better = t->tiles == TILES_TILEIR || other < own;
    return has[KERNEL_BACKEND_TILEIR] && is_better ? KERNEL_BACKEND_TILEIR
                                                   : KERNEL_BACKEND_GX;
}

bool kernel_by_tileir(const KernelDesign *d)
{
    KernelWork backends[KERNEL_BACKENDS];
    bool has[KERNEL_BACKENDS];
    if (!may_be_tileir(d))
        return false;
    if (d->target->tiles == TILES_TILEIR)
        return true;
    kernel_design_work(d, backends, has);
    return best_backend(d->target, backends, has) == KERNEL_BACKEND_TILEIR;
}

void kernel_designed_work(const KernelDesign *d, KernelWork *out)
{
    KernelWork backends[KERNEL_BACKENDS];
    bool has[KERNEL_BACKENDS];
    kernel_design_work(d, backends, has);
    *out = backends[best_backend(d->target, backends, has)];
}

/* False: nothing but plain_work is known of it. */
static bool designed(const Instruction *inst, const Target *t, Arena *scratch,
                     KernelDesign *d)
{
    if (inst->op != OP_FUSION || kernel_kind_of(inst) == KERNEL_COUNT)
        return false;
    kernel_design(inst, t, scratch, d);
    return d->wrong == NULL && d->unsupported == NULL;
}

void kernel_work(const Instruction *inst, const Target *t, Arena *scratch,
                 KernelWork *out)
{
    KernelDesign d;
    if (designed(inst, t, scratch, &d))
        kernel_designed_work(&d, out);
    else
        plain_work(inst, out);
}

static void gx_work(const Instruction *inst, const Target *t, Arena *scratch,
                    bool registers_only, KernelWork *out)
{
    KernelDesign d;
    if (!designed(inst, t, scratch, &d)) {
        plain_work(inst, out);
        return;
    }
    d.registers_only = registers_only;
    functions[d.kind](&d, out);
}

void kernel_work_gx(const Instruction *inst, const Target *t, Arena *scratch,
                    KernelWork *out)
{
    gx_work(inst, t, scratch, false, out);
}

uint32_t kernel_registers(const Instruction *inst, const Target *t, Arena *scratch)
{
    KernelWork w;
    gx_work(inst, t, scratch, true, &w);
    return w.registers;
}
