/* See cost.h. */
#include "ir/kernel/work.h"

#include "ir/analysis/alias.h"
#include "ir/analysis/collective.h"
#include "ir/analysis/loop.h"
#include "ir/kernel/block_scaled.h"
#include "ir/kernel/matmul.h"

/* What kernels reach of the data sheet's numbers, about. */
#define OF_MEMORY 0.85
#define OF_LIBRARY 0.7
#define OF_OWN_DOT 0.4
#define OF_LINKS 0.8
#define KERNEL_START 2e-6     /* seconds */
#define COLLECTIVE_START 4e-6 /* seconds */
#define EXPENSIVE_WORK 10     /* additions in an exponential */

struct CostModel {
    const Module *module;
    const GpuModel *device;
    Arena *arena;
    double *program; /* [computations] seconds of all that it does; 0: not known */
    double *fused;   /* [computations] the same, as one kernel */
    uint32_t count;
};

/* -- what there is to do ------------------------------------------------------------------------ */

static double elements(const Shape *s)
{
    double n = 0;
    for (size_t leaf = 0; leaf < shape_leaf_count(s); leaf++) {
        const Shape *part = shape_leaf(s, leaf);
        n += shape_is_array(part) ? (double)shape_elements(part) : 0;
    }
    return n;
}

static double bytes(const Shape *s)
{
    double n = 0;
    for (size_t leaf = 0; leaf < shape_leaf_count(s); leaf++)
        n += (double)shape_bytes(shape_leaf(s, leaf));
    return n;
}

static double operand_bytes(const Instruction *inst)
{
    double n = 0;
    for (uint32_t k = 0; k < inst->operand_count; k++)
        n += bytes(inst->operands[k]->shape);
    return n;
}

/* Terms of the sum in each element of a product. */
static double contracted(const Instruction *inst)
{
    const Shape *s = inst->operands[inst->op == OP_CONVOLUTION ? 1 : 0]->shape;
    double n = 1;
    if (shape_is_tuple(s)) /* a sparse kernel: its values, and where they lie */
        s = s->elements[0];
    if (inst->op == OP_CONVOLUTION) {
        const Attr *labels = inst_attr(inst, ATTR_DIM_LABELS);
        double outputs = (double)s->dims[labels->labels->rhs_output];
        return outputs == 0 ? 0 : elements(s) / outputs;
    }
    Ints dims = inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS);
    for (uint32_t i = 0; i < dims.count; i++)
        n *= (double)s->dims[dims.data[i]];
    return n;
}

static bool is_product(OpCode op)
{
    return op == OP_DOT || op == OP_CONVOLUTION || op == OP_RAGGED_DOT ||
           op == OP_SCALED_DOT;
}

static double additions_per_second(const GpuModel *d)
{
    return (double)d->lanes * d->multiprocessors * d->mhz * 1e6;
}

/* Multiplications and additions a second of a product of this type. */
static double product_peak(const CostModel *c, const Instruction *inst)
{
    double plain = 2 * additions_per_second(c->device);
    double tensor = c->device->tensor_teraflops * 1e12;
    DType t = inst->operands[0]->shape->dtype;
    int64_t algorithm = inst_int(inst, ATTR_ALGORITHM, ALGORITHM_UNSET);
    if (!matmul_is_library(inst))
        return (t == DT_F64 ? 0.5 : 1) * plain * OF_OWN_DOT;
    if (t == DT_F16 || t == DT_BF16 ||
        (t == DT_F32 && algorithm == ALGORITHM_BF16_BF16_F32))
        return tensor * OF_LIBRARY;
    if (t == DT_F32 && algorithm == ALGORITHM_TF32_TF32_F32)
        return tensor / 2 * OF_LIBRARY;
    return (t == DT_F64 ? 0.5 : 1) * plain * OF_LIBRARY;
}

/* cuBLASLt's product of [b,M,K] and [b,N,K] in blocks: tensor cores take twice as many bytes, four
 * times as many half bytes, as they take 16-bit numbers. */
static double block_scaled(const CostModel *c, const Instruction *inst)
{
    const Shape *lhs = inst->operands[0]->shape;
    double tensor = c->device->tensor_teraflops * 1e12 * OF_LIBRARY;
    double k = (double)lhs->dims[lhs->rank - 1];
    return 2 * elements(inst->shape) * k / (tensor * 16 / dtype_info[lhs->dtype].bits);
}

/* Seconds of arithmetic in one operation, without its memory. */
static double arithmetic(const CostModel *c, const Instruction *inst)
{
    double work = elements(inst->shape);
    if (block_op(inst) == BLOCK_MATMUL)
        return block_scaled(c, inst);
    if (is_product(inst->op))
        return 2 * work * contracted(inst) / product_peak(c, inst);
    if (inst->op == OP_REDUCE || inst->op == OP_SORT || inst->op == OP_TOPK)
        work = elements(inst->operands[0]->shape);
    if (inst->op == OP_DYNAMIC_UPDATE_SLICE)
        work = elements(inst->operands[1]->shape);
    const Window *window = inst_window(inst);
    for (uint32_t i = 0; i < window->rank; i++)
        work *= (double)window->dims[i].size;
    if (op_is(inst->op, OPF_EXPENSIVE))
        work *= EXPENSIVE_WORK;
    return work / additions_per_second(c->device);
}

static double memory_seconds(const CostModel *c, double n)
{
    return n / (c->device->gigabytes_per_second * 1e9 * OF_MEMORY);
}

/* -- kernels -------------------------------------------------------------------------------------- */

/* Bytes that an operation reads of operand k. */
static double bytes_read(const Instruction *inst, uint32_t k)
{
    if (k == 0 && inst->op == OP_DYNAMIC_UPDATE_SLICE)
        return 0; /* written in place */
    if (k == 0 &&
        (inst->op == OP_DYNAMIC_SLICE || inst->op == OP_SLICE || inst->op == OP_GATHER))
        return bytes(inst->shape);
    return bytes(inst->operands[k]->shape);
}

static double bytes_written(const Instruction *inst)
{
    if (inst->op == OP_DYNAMIC_UPDATE_SLICE)
        return bytes(inst->operands[1]->shape);
    return bytes(inst->shape);
}

/* One kernel that computes all of a fused computation: each parameter is read once, and of what
 * only slices are taken no more is computed. */
static double fused_seconds(const CostModel *c, const Computation *comp)
{
    double *needed = ARENA_ARRAY(c->arena, double, (size_t)comp->instruction_count + 1);
    const Instruction *root = comp->root;
    double work = 0, memory = 0;
    needed[root->id] = 1;
    for (uint32_t k = 0; k < root->operand_count && root->op == OP_TUPLE; k++)
        memory += bytes_written(root->operands[k]);
    memory += root->op == OP_TUPLE ? 0 : bytes_written(root);
    for (uint32_t i = comp->instruction_count; i-- > 0;) {
        const Instruction *inst = comp->instructions[i];
        if (inst == NULL || inst->op == OP_CONSTANT)
            continue;
        if (inst->op == OP_PARAMETER)
            memory += needed[i] * bytes(inst->shape);
        else if (alias_defines(inst))
            work += needed[i] * arithmetic(c, inst);
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            const Instruction *operand = inst->operands[k];
            double all = bytes(operand->shape);
            double part = all == 0 ? 0 : needed[i] * bytes_read(inst, k) / all;
            if (part > needed[operand->id])
                needed[operand->id] = part;
        }
    }
    double traffic = memory_seconds(c, memory);
    return KERNEL_START + (work > traffic ? work : traffic);
}

static double kernel_seconds(const CostModel *c, const Instruction *inst)
{
    double work = arithmetic(c, inst), memory = bytes_written(inst);
    for (uint32_t k = 0; k < inst->operand_count; k++)
        memory += bytes_read(inst, k);
    double traffic = memory_seconds(c, memory);
    return KERNEL_START + (work > traffic ? work : traffic);
}

/* -- collectives ---------------------------------------------------------------------------------- */

bool cost_is_free(const Instruction *inst)
{
    return inst->op == OP_PARAMETER || inst->op == OP_CONSTANT ||
           inst->op == OP_AFTER_ALL ||
           (!alias_defines(inst) && !op_is(inst->op, OPF_CONTROL | OPF_ASYNC_DONE));
}

bool cost_is_transfer(const Instruction *inst)
{
    return op_is(inst->op, OPF_ASYNC_START)
               ? cost_started_collective(inst) != NULL
               : op_is(inst->op, OPF_COLLECTIVE) && inst->op != OP_SEND_DONE &&
                     inst->op != OP_RECV_DONE;
}

const Instruction *cost_started_collective(const Instruction *start)
{
    if (start->op != OP_ASYNC_START)
        return op_is(start->op, OPF_COLLECTIVE) ? start : NULL;
    const Instruction *root = inst_called(start, 0)->root;
    return op_is(root->op, OPF_COLLECTIVE) ? root : NULL;
}

/* Whether all devices of each list are joined by links. */
static bool is_linked(const CostModel *c, IntLists lists)
{
    int64_t n = c->device->linked_devices;
    for (uint32_t i = 0; i < lists.count; i++) {
        for (uint32_t k = 1; k < lists.data[i].count; k++) {
            if (lists.data[i].data[k] / n != lists.data[i].data[0] / n)
                return false;
        }
    }
    return true;
}

static double message_seconds(const CostModel *c, bool linked, double messages,
                              double sent)
{
    const GpuModel *d = c->device;
    double rate = linked ? d->link_gigabytes_per_second : d->network_gigabytes_per_second;
    double latency = linked ? d->link_nanoseconds : d->network_nanoseconds;
    return COLLECTIVE_START + messages * latency * 1e-9 + sent / (rate * 1e9 * OF_LINKS);
}

static double transfer_seconds(const CostModel *c, const Instruction *inst)
{
    bool is_permute = op_plain(inst->op) == OP_COLLECTIVE_PERMUTE;
    double size = operand_bytes(inst);
    if (inst->op == OP_SEND || inst->op == OP_RECV)
        return message_seconds(c, true, 1,
                               bytes(inst->op == OP_SEND ? inst->operands[0]->shape
                                                         : inst->shape->elements[0]));
    IntLists lists =
        is_permute ? collective_pairs(c->arena, inst) : collective_groups(c->arena, inst);
    bool linked = is_linked(c, lists);
    double n = lists.count == 0 ? 1 : lists.data[0].count;
    double others = n - 1, part = n == 0 ? 0 : others / n;
    switch (op_plain(inst->op)) {
    case OP_ALL_REDUCE: /* a ring: scattered, then gathered */
        return message_seconds(c, linked, 2 * others, 2 * size * part);
    case OP_ALL_GATHER:
        return message_seconds(c, linked, others, size * others);
    case OP_REDUCE_SCATTER:
        return message_seconds(c, linked, others, size * part);
    case OP_ALL_TO_ALL:
    case OP_RAGGED_ALL_TO_ALL:
        return message_seconds(c, linked, 1, size * part);
    default:
        return message_seconds(c, linked, 1, size);
    }
}

/* -- the calls ------------------------------------------------------------------------------------- */

double cost_transfer(CostModel *c, const Instruction *inst)
{
    if (!cost_is_transfer(inst))
        return 0;
    return transfer_seconds(
        c, op_is(inst->op, OPF_ASYNC_START) ? cost_started_collective(inst) : inst);
}

/* Branches: the longest one. Loops: condition and body, as often as is known. */
static double called_seconds(const CostModel *c, const Instruction *inst)
{
    double sum = 0, most = 0;
    for (uint32_t k = 0; k < inst_called_count(inst); k++) {
        uint32_t id = inst_called(inst, k)->id;
        double n = id < c->count ? c->program[id] : 0;
        sum += n;
        most = n > most ? n : most;
    }
    int64_t trips = inst->op == OP_WHILE ? loop_known_trip_count(inst) : 1;
    return inst->op == OP_CONDITIONAL ? most : sum * (double)(trips < 0 ? 1 : trips);
}

double cost_compute(CostModel *c, const Instruction *inst)
{
    if (cost_is_free(inst) || cost_is_transfer(inst) ||
        op_is(inst->op, OPF_ASYNC_DONE | OPF_ASYNC_START) || inst->op == OP_ASYNC_UPDATE)
        return 0;
    if (op_is(inst->op, OPF_CONTROL))
        return called_seconds(c, inst);
    if (inst->op != OP_FUSION)
        return kernel_seconds(c, inst);
    uint32_t id = inst_called(inst, 0)->id;
    if (id >= c->count)
        return fused_seconds(c, inst_called(inst, 0));
    if (c->fused[id] == 0)
        c->fused[id] = fused_seconds(c, inst_called(inst, 0));
    return c->fused[id];
}

double cost_started(CostModel *c, const Instruction *start)
{
    if (cost_is_transfer(start))
        return cost_transfer(c, start);
    if (start->op == OP_ASYNC_START)
        return called_seconds(c, start);
    return KERNEL_START + memory_seconds(c, 2 * operand_bytes(start));
}

CostModel *cost_create(const Module *m, const Target *t, Arena *a)
{
    CostModel *c = ARENA_NEW(a, CostModel);
    *c = (CostModel){
        .module = m, .device = t->device, .arena = a, .count = m->computation_count};
    c->program = ARENA_ARRAY(a, double, (size_t)c->count + 1);
    c->fused = ARENA_ARRAY(a, double, (size_t)c->count + 1);
    Computations programs = module_programs(m, a);
    for (uint32_t i = 0; i < programs.count; i++) {
        const Computation *comp = programs.data[i];
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
            c->program[comp->id] += cost_compute(c, inst) + cost_transfer(c, inst);
    }
    return c;
}
