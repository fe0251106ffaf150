/* See tensor_core.h. */
#include "ir/kernel/tensor_core.h"

#include "ir/base/bug.h"

static const TensorCore rows[] = {
#define TENSOR_CORE(number, name, m, n, k, a, b, c, sm, ptx, a_layout, b_layout,         \
                    c_layout)                                                            \
    {number, name, m,                                                                    \
     n,      k,    {DT_##a, DT_##b, DT_##c},                                             \
     sm,     ptx,  {a_layout, b_layout, c_layout}},
#include "ir/kernel/tensor_cores.def"
};

const TensorCore *tensor_core_row(uint32_t i)
{
    return i < sizeof rows / sizeof *rows ? &rows[i] : NULL;
}

const TensorCore *tensor_core_numbered(uint32_t number)
{
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].number == number)
            return &rows[i];
    }
    return NULL;
}

bool tensor_core_fits(const TensorCore *t, const Target *target, uint32_t ptx)
{
    return target->sm >= t->sm && ptx >= t->ptx;
}

const TensorCore *tensor_core_find(DType a, DType b, DType c, const Target *target,
                                   uint32_t ptx)
{
    const TensorCore *best = NULL;
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const TensorCore *t = &rows[i];
        if (t->types[TENSOR_A] != a || t->types[TENSOR_B] != b ||
            t->types[TENSOR_C] != c || !tensor_core_fits(t, target, ptx))
            continue;
        if (best == NULL || t->m * t->n * t->k > best->m * best->n * best->k)
            best = t;
    }
    return best;
}

LinearLayout tensor_core_layout(const TensorCore *t, TensorOperand operand)
{
    LinearLayout l;
    if (!linear_parse(t->layouts[operand], "mnk", &l))
        bug("%s: a layout that is none: %s", t->name, t->layouts[operand]);
    return l;
}

uint32_t tensor_core_registers(const TensorCore *t, TensorOperand operand)
{
    LinearLayout l = tensor_core_layout(t, operand);
    uint32_t bits = dtype_info[t->types[operand]].bits << l.in[LINEAR_REGISTER];
    return t->types[operand] == DT_F64 ? bits / 64 : bits / 32;
}
