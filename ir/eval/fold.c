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

void fold_init(Fold *f, EvalCall *call, const Computation *comp, uint32_t count)
{
    memset(f, 0, sizeof *f);
    f->call = call;
    f->count = count;
    if (comp->parameter_count != 2 * count)
        eval_fail(call, "computation '%s' has %u parameters, not %u", comp->name,
                  comp->parameter_count, 2 * count);
    f->types = ARENA_ARRAY(call->scratch, DType, count);
    for (uint32_t i = 0; i < count; i++)
        f->types[i] = comp->parameters[i]->shape->dtype;
    f->simple = count == 1 ? apply_simple(comp) : SIMPLE_NONE;
    if (f->simple != SIMPLE_NONE && f->simple != SIMPLE_FIRST &&
        f->simple != SIMPLE_SECOND) {
        DType t = f->types[0];
        if (dtype_is_float(t) &&
            (f->simple == SIMPLE_ADD || f->simple == SIMPLE_MULTIPLY))
            t = DT_F64;
        if (t == DT_C64)
            t = DT_C128;
        if (scalar_kernel(opcode_of(f->simple), t, t, false, &f->kernel))
            f->types[0] = t;
        else
            f->simple = SIMPLE_NONE;
    }
    if (f->simple != SIMPLE_NONE &&
        comp->parameters[1]->shape->dtype != comp->parameters[0]->shape->dtype)
        f->simple = SIMPLE_NONE;
    f->apply = apply_of(call, comp);
    f->inputs = ARENA_ARRAY(call->scratch, const void *, 2 * (size_t)count);
}

static void run_simple(Fold *f, size_t n, void *acc, const void *x)
{
    size_t size = dtype_info[f->types[0]].storage;
    if (f->simple == SIMPLE_FIRST)
        return;
    if (f->simple == SIMPLE_SECOND) {
        memcpy(acc, x, n * size);
        return;
    }
    uint64_t rows[2 * FOLD_ROWS];
    for (size_t at = 0; at < n; at += FOLD_ROWS) {
        size_t part = n - at < FOLD_ROWS ? n - at : FOLD_ROWS;
        const void *in[2] = {(char *)acc + at * size, (const char *)x + at * size};
        f->kernel.run(rows, in, part, &f->kernel);
        memcpy((char *)acc + at * size, rows, part * size);
    }
}

void fold_run(Fold *f, size_t n, void *const *acc, const void *const *x)
{
    if (f->simple != SIMPLE_NONE) {
        run_simple(f, n, acc[0], x[0]);
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
