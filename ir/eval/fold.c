/* Folding with a called computation. */
#include "ir/eval/fold.h"

#include <string.h>

#define FOLD_ROWS 512

static OpCode opcode_of(SimpleKind kind)
{
    static const OpCode codes[] = {
        [SIMPLE_ADD] = OP_ADD,         [SIMPLE_MULTIPLY] = OP_MULTIPLY,
        [SIMPLE_MAXIMUM] = OP_MAXIMUM, [SIMPLE_MINIMUM] = OP_MINIMUM,
        [SIMPLE_AND] = OP_AND,         [SIMPLE_OR] = OP_OR,
        [SIMPLE_XOR] = OP_XOR,
    };
    return codes[kind];
}

static bool is_operation(SimpleKind kind)
{
    return kind != SIMPLE_NONE && kind != SIMPLE_FIRST && kind != SIMPLE_SECOND;
}

/* The kernel of component i, and the type that it accumulates in; false: there is none. */
static bool find_kernel(Fold *f, uint32_t i)
{
    SimpleKind kind = f->simple[i];
    DType t = f->types[i];
    if (dtype_is_float(t) && (kind == SIMPLE_ADD || kind == SIMPLE_MULTIPLY))
        t = DT_F64;
    if (t == DT_C64)
        t = DT_C128;
    f->types[i] = t;
    return scalar_kernel(opcode_of(kind), t, t, false, &f->kernels[i]);
}

/* All components are simple; of several, each an operation. */
static bool find_components(Fold *f, const Computation *comp)
{
    bool is_simple = true;
    for (uint32_t i = 0; i < f->count && is_simple; i++) {
        f->simple[i] = apply_simple(comp, i);
        is_simple = f->simple[i] != SIMPLE_NONE &&
                    comp->parameters[f->count + i]->shape->dtype == f->types[i];
        if (is_operation(f->simple[i]))
            is_simple = is_simple && find_kernel(f, i);
        else
            is_simple = is_simple && f->count == 1;
    }
    return is_simple;
}

void fold_init(Fold *f, EvalCall *call, const Computation *comp, uint32_t count)
{
    memset(f, 0, sizeof *f);
    f->call = call;
    f->count = count;
    if (comp->parameter_count != 2 * count)
        eval_fail(call, "computation '%s' has %u parameters, not %u", comp->name,
                  comp->parameter_count, 2 * count);
    f->types = ARENA_ARRAY(call->scratch, DType, count);
    f->simple = ARENA_ARRAY(call->scratch, SimpleKind, count);
    f->kernels = ARENA_ARRAY(call->scratch, ScalarKernel, count);
    for (uint32_t i = 0; i < count; i++)
        f->types[i] = comp->parameters[i]->shape->dtype;
    if (!find_components(f, comp)) {
        for (uint32_t i = 0; i < count; i++) {
            f->types[i] = comp->parameters[i]->shape->dtype;
            f->simple[i] = SIMPLE_NONE;
        }
    }
    f->apply = apply_of(call, comp);
    f->inputs = ARENA_ARRAY(call->scratch, const void *, 2 * (size_t)count);
}

static void run_simple(const Fold *f, uint32_t i, size_t n, void *acc, const void *x)
{
    size_t size = dtype_info[f->types[i]].storage;
    if (f->simple[i] == SIMPLE_FIRST)
        return;
    if (f->simple[i] == SIMPLE_SECOND) {
        memcpy(acc, x, n * size);
        return;
    }
    uint64_t rows[2 * FOLD_ROWS];
    for (size_t at = 0; at < n; at += FOLD_ROWS) {
        size_t part = n - at < FOLD_ROWS ? n - at : FOLD_ROWS;
        const void *in[2] = {(char *)acc + at * size, (const char *)x + at * size};
        f->kernels[i].run(rows, in, part, &f->kernels[i]);
        memcpy((char *)acc + at * size, rows, part * size);
    }
}

void fold_run(Fold *f, size_t n, void *const *acc, const void *const *x)
{
    if (f->count != 0 && f->simple[0] != SIMPLE_NONE) {
        for (uint32_t i = 0; i < f->count; i++)
            run_simple(f, i, n, acc[i], x[i]);
        return;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        f->inputs[i] = acc[i];
        f->inputs[f->count + i] = x[i];
    }
    apply_run(f->call, f->apply, n, f->inputs, acc);
}

const void *fold_input(Fold *f, uint32_t i, DType from, const void *data, size_t n)
{
    if (from == f->types[i])
        return data;
    void *out = eval_temp(f->call, n, dtype_info[f->types[i]].storage);
    number_convert(f->types[i], out, from, data, n);
    return out;
}

void fold_output(const Fold *f, uint32_t i, DType to, void *out, const void *acc,
                 size_t n)
{
    number_convert(to, out, f->types[i], acc, n);
}
