/* See costs.h. */
#include "ir/kernel/time/costs.h"

const Costs costs = {
#define COST(name, value, doc) .name = (value),
#include "ir/kernel/time/costs.def"
};

typedef struct OpRow {
    bool is_known;
    OpCost cost;
} OpRow;

#define WIDTH_32 0
#define WIDTH_64 1
static const OpRow rows[OP_COUNT][2] = {
#define INSTRUCTIONS(op, width, alu, fma, imul, mufu, f64, cycles)                       \
    [OP_##op][WIDTH_##width] = {true, {alu, fma, imul, mufu, f64, 0, cycles}},
#include "ir/kernel/time/costs.def"
};

static OpCost times(OpCost c, double n)
{
    return (OpCost){c.alu * n, c.fma * n,    c.imul * n, c.mufu * n,
                    c.f64 * n, c.tensor * n, c.cycles,   c.add * n};
}

/* 64-bit integers: each half by itself, products by three. */
static OpCost long_cost(OpCode op)
{
    if (op == OP_MULTIPLY)
        return (OpCost){.alu = 1, .imul = 3, .cycles = 14};
    if (op == OP_DIVIDE || op == OP_REMAINDER)
        return (OpCost){.alu = 44, .imul = 36, .mufu = 4, .cycles = 500};
    return (OpCost){.alu = 2, .cycles = 9};
}

static OpCost integer_cost(OpCode op, DType type)
{
    if (dtype_info[type].bits == 64)
        return long_cost(op);
    if (op == OP_MULTIPLY)
        return (OpCost){.imul = 1, .cycles = costs.alu_cycles};
    if (op == OP_ADD || op == OP_SUBTRACT)
        return (OpCost){.add = 1, .cycles = costs.alu_cycles};
    if (op == OP_DIVIDE || op == OP_REMAINDER)
        return (OpCost){.alu = 19, .imul = 12, .mufu = 3, .cycles = 140};
    if (op == OP_POPCNT || op == OP_COUNT_LEADING_ZEROS || op == OP_SIGN)
        return rows[op][0].cost;
    return (OpCost){.alu = 1, .cycles = costs.alu_cycles};
}

OpCost op_cost(OpCode op, DType type)
{
    if (dtype_is_complex(type)) {
        DType part = type == DT_C64 ? DT_F32 : DT_F64;
        return times(op_cost(op, part), op_is(op, OPF_EXPENSIVE) ? 4 : 2);
    }
    if (!dtype_is_float(type))
        return integer_cost(op, type);
    const OpRow *row = &rows[op][type == DT_F64];
    if (row->is_known)
        return row->cost;
    if (op_is(op, OPF_EXPENSIVE))
        return type == DT_F64 ? rows[OP_TAN][1].cost : rows[OP_TAN][0].cost;
    return (OpCost){.alu = 1, .cycles = costs.alu_cycles};
}

static bool is_small_float(DType t)
{
    return dtype_is_float(t) && dtype_info[t].bits <= 8;
}

OpCost convert_cost(DType from, DType to)
{
    OpCost alu = {.alu = 1, .cycles = costs.alu_cycles};
    OpCost special = {.alu = 1, .mufu = 1, .cycles = costs.mufu_cycles};
    bool is_real = dtype_is_float(from) && dtype_is_float(to);
    if (from == to)
        return (OpCost){0};
    if (is_small_float(to)) /* rounded and clamped by hand */
        return (OpCost){.alu = 12, .mufu = 1, .cycles = 40};
    /* One instruction makes two f16, one more an f32 of each (SASS, sm_90a). CUDA C++ Programming Guide, "Arithmetic
     * Instructions": 64 conversions a cycle, four times as many as special functions. */
    if (is_small_float(from))
        return (OpCost){.alu = 0.5, .fma = 1, .mufu = 0.125, .cycles = 30};
    if (from == DT_F64 || to == DT_F64)
        return special;
    if (is_real) /* one instruction packs two; bf16 is the upper half of f32 */
        return (OpCost){.alu = dtype_info[to].bits == 16 ? 0.5 : 0.75,
                        .fma = dtype_info[to].bits == 16 ? 0 : 0.25,
                        .cycles = costs.alu_cycles};
    if (dtype_is_integer(from) && dtype_info[from].bits <= 8 && dtype_is_float(to))
        return (OpCost){.alu = dtype_info[to].bits == 16 ? 2.5 : 2,
                        .fma = 1,
                        .cycles = costs.alu_cycles};
    if (dtype_is_float(from) != dtype_is_float(to) && from != DT_PRED && to != DT_PRED)
        return special;
    return alu;
}

double cost_issued(OpCost c)
{
    return c.alu + c.fma + c.imul + c.mufu + c.f64 + c.add;
}

int64_t cost_instructions(const Instruction *inst)
{
    if (inst->op == OP_PARAMETER || inst->op == OP_CONSTANT || op_is(inst->op, OPF_MOVES))
        return 0;
    if (!op_is(inst->op, OPF_ELEMENTWISE) || inst->operand_count == 0)
        return 1;
    DType from = inst->operands[0]->shape->dtype;
    OpCost c = inst->op == OP_CONVERT
                   ? convert_cost(from, inst->shape->dtype)
                   : op_cost(inst->op, inst->op == OP_SELECT ? inst->shape->dtype : from);
    double n = cost_issued(c);
    return n > 1 ? (int64_t)n : 1;
}

double cost_seconds_of_bytes(const GpuModel *device, double bytes)
{
    return bytes / (device->gigabytes_per_second * 1e9 * costs.memory_fraction);
}

static int64_t picoseconds(double n, double a_second)
{
    double ps = n / a_second * 1e12;
    return ps < (double)(INT64_MAX / 4) ? (int64_t)ps : INT64_MAX / 4;
}

int64_t cost_ps_of_instructions(const GpuModel *device, int64_t instructions)
{
    double cycle = costs.schedulers * TARGET_WARP * device->multiprocessors;
    return picoseconds((double)instructions,
                       cycle * gpu_rates(device)->mhz * 1e6 * costs.issue_fraction);
}

int64_t cost_ps_of_bytes(const GpuModel *device, int64_t bytes)
{
    return picoseconds(cost_seconds_of_bytes(device, (double)bytes), 1);
}

int64_t cost_ps_of_launch(void)
{
    return picoseconds(costs.launch_seconds, 1);
}
