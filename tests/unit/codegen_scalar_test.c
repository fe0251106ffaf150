/* Every EMIT(scalar, x) column of ops.def, for every element type that it takes: one kernel for
 * each, run by the emulator's engine on special and random numbers against the evaluator's row
 * kernels, and lowered to PTX. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/assembler/assemble.h"
#include "codegen/backend.h"
#include "codegen/element/op_emit.h"
#include "ir/base/bug.h"
#include "ir/eval/scalar.h"
#include "runtime/emu/engine.h"
#include "runtime/emu/object.h"

enum { ELEMENTS = 1024, MOST_CASES = 4096, OUT = 3 };

typedef struct Case {
    Instruction *inst;
    DType in[3], out;
    bool is_constant; /* operand 1 is emit_number(constant) */
    double constant;
    ScalarKernel want;
    Kernel *kernel;
} Case;

typedef struct Fixture {
    Arena *arena;
    Cuda cuda;
    Module *module;
    Case *cases; /* [MOST_CASES] of the operation at hand */
    size_t count;
    uint64_t random;
    char *elements[4]; /* operands in storage form, and what the kernel gave */
    char *want;
} Fixture;

static int set_up(void **state)
{
    Arena *a = arena_create();
    Fixture *f = ARENA_NEW(a, Fixture);
    const char *error = NULL;
    f->arena = a;
    if (!cuda_find(a, NULL, ASSEMBLER_ANY, &f->cuda, &error)) {
        print_error("%s\n", error);
        return 1;
    }
    f->module = module_create(a, diag_create(a, "test", "", 0), "test");
    f->cases = ARENA_ARRAY(a, Case, MOST_CASES);
    for (unsigned i = 0; i < 4; i++)
        f->elements[i] = arena_alloc(a, 16 * ELEMENTS);
    f->want = arena_alloc(a, 16 * ELEMENTS);
    f->random = 88172645463325252;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    Fixture *f = *state;
    arena_destroy(f->arena);
    return 0;
}

/* -- numbers -- */

static uint64_t next_random(Fixture *f)
{
    f->random ^= f->random << 13;
    f->random ^= f->random >> 7;
    f->random ^= f->random << 17;
    return f->random * UINT64_C(0x2545f4914f6cdd1d);
}

static const double special_floats[] = {
    0.0,    -0.0,   1,        -1,           0.5,       -0.5,      1.5,
    2.5,    -2.5,   3,        1.0 / 3,      INFINITY,  -INFINITY, NAN,
    -NAN,   0x1p-9, -0x1p-10, 100.25,       -7.75,     464,       65519,
    65520,  -448.5, 61440,    0x1.fffffep0, 0x1p-149,  -0x1p-130, 0x1.8p-127,
    0x1p31, -2.5e9, 1.8e19,   0.49999997,   16777217.0};
static const int64_t special_ints[] = {
    0,          1,         2,         3,
    4,          7,         8,         9,
    15,         16,        31,        32,
    63,         64,        -1,        -2,
    -3,         -7,        -8,        -64,
    INT8_MAX,   INT8_MIN,  INT16_MAX, INT16_MIN,
    255,        65535,     INT32_MAX, INT32_MIN,
    UINT32_MAX, INT64_MAX, INT64_MIN, 0x5555555555555555,
    16777217};
enum {
    FLOATS = sizeof special_floats / sizeof *special_floats,
    INTS = sizeof special_ints / sizeof *special_ints,
};

static void set_special(DType t, void *element, size_t i)
{
    if (dtype_is_float(t) && i == 14) { /* limits of the format */
        number_set_double(t, element, number_max_finite(t));
    } else if (dtype_is_float(t) && i == 15) {
        number_store(t, element, 1);
    } else if (dtype_is_float(t)) {
        number_set_double(t, element, special_floats[i % FLOATS]);
    } else {
        number_set_int(t, element, special_ints[i % INTS]);
    }
}

static void set_random(Fixture *f, DType t, void *element)
{
    uint64_t bits = next_random(f);
    if (t == DT_PRED)
        number_store(t, element, bits >> 40 & 1);
    else if (dtype_is_float(t) && dtype_info[t].bits > 8 && bits & 1)
        number_set_double(t, element, ((double)(bits >> 11) * 0x1p-53 - 0.5) * 20);
    else
        number_store(t, element, next_random(f));
}

/* Element i of operand `which`: small types all codes, others pairs of specials, then random. */
static void set_element(Fixture *f, DType t, unsigned which, size_t i, void *element)
{
    size_t specials = dtype_is_float(t) ? FLOATS : INTS;
    if (dtype_is_complex(t)) {
        DType part = number_component(t);
        char *im = (char *)element + dtype_storage_bytes(part);
        number_set_double(part, element,
                          ((double)(next_random(f) >> 11) * 0x1p-53 - 0.5) * 9);
        number_set_double(part, im, ((double)(next_random(f) >> 11) * 0x1p-53 - 0.5) * 9);
        if (i < 81) {
            static const double simple[] = {0, -0.0, 1, -1, 2, 0.5, -3, 1e-3, 10};
            number_set_double(part, element, simple[which == 0 ? i / 9 : i % 7]);
            number_set_double(part, im, simple[which == 0 ? i % 9 : i % 5]);
        }
    } else if (which == 0 && dtype_info[t].bits <= 8 && t != DT_PRED) {
        number_store(t, element, i);
    } else if (which < 2 && i < specials * specials && t != DT_PRED &&
               dtype_info[t].bits > 8) {
        set_special(t, element, which == 0 ? i / specials : i % specials);
    } else {
        set_random(f, t, element);
    }
}

/* -- cases -- */

static Instruction *make(Fixture *f, OpCode op, const DType in[3], uint32_t arity,
                         DType out)
{
    Computation *comp = module_add_computation(f->module, "case");
    Instruction *operands[3];
    for (uint32_t i = 0; i < arity; i++)
        operands[i] = computation_add_parameter(
            comp, i, shape_scalar(f->module->intern, in[i]), NULL);
    return computation_add(comp, op, shape_scalar(f->module->intern, out), arity,
                           operands, NULL);
}

static Case *add_case(Fixture *f, OpCode op, DType t, DType out)
{
    Case *c = &f->cases[f->count];
    *c = (Case){.in = {t, t, t}, .out = out};
    if (!scalar_kernel(op, t, out, false, &c->want))
        return NULL;
    if (op == OP_SELECT)
        c->in[0] = DT_PRED;
    if (op == OP_STOCHASTIC_CONVERT) {
        unsigned bits = dtype_info[t].bits;
        c->in[1] = bits == 4    ? DT_U4
                   : bits == 8  ? DT_U8
                   : bits == 16 ? DT_U16
                   : bits == 32 ? DT_U32
                                : DT_U64;
    }
    c->inst = make(f, op, c->in, c->want.arity, out);
    f->count++;
    return c;
}

static void set_attribute(Case *c, AttrId id, int64_t value)
{
    inst_set(c->inst, (Attr){.id = id, .i = value});
}

static void add_compares(Fixture *f, DType t)
{
    bool is_complex = dtype_is_complex(t);
    for (int64_t d = DIRECTION_EQ; d <= (is_complex ? DIRECTION_NE : DIRECTION_LT); d++) {
        for (int total = 0; total <= (dtype_is_float(t) ? 1 : 0); total++) {
            Case *c = add_case(f, OP_COMPARE, t, DT_PRED);
            c->want.direction = d;
            c->want.total_order = total;
            set_attribute(c, ATTR_DIRECTION, d);
            if (total)
                set_attribute(c, ATTR_TYPE, COMPARE_TOTALORDER);
        }
    }
}

static void add_reduce_precisions(Fixture *f, DType t)
{
    static const int64_t formats[][2] = {{5, 10},  {8, 7}, {2, 1},
                                         {11, 52}, {4, 3}, {1, 0}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        Case *c = add_case(f, OP_REDUCE_PRECISION, t, t);
        if (c == NULL)
            return;
        c->want.exponent_bits = formats[i][0];
        c->want.mantissa_bits = formats[i][1];
        set_attribute(c, ATTR_EXPONENT_BITS, formats[i][0]);
        set_attribute(c, ATTR_MANTISSA_BITS, formats[i][1]);
    }
}

static bool is_kernel_type(DType t)
{
    return dtype_is_array(t) && !dtype_info[t].text_only;
}

static bool goes_to_any_type(OpCode op)
{
    return op == OP_CONVERT || op == OP_STOCHASTIC_CONVERT || op == OP_BITCAST_CONVERT ||
           op == OP_COMPLEX;
}

static void add_cases(Fixture *f, OpCode op)
{
    for (DType t = DT_PRED; t < DT_TUPLE; t++) {
        if (!is_kernel_type(t))
            continue;
        if (op == OP_COMPARE) {
            add_compares(f, t);
        } else if (op == OP_REDUCE_PRECISION) {
            add_reduce_precisions(f, t);
        } else if (goes_to_any_type(op)) {
            for (DType out = DT_PRED; out < DT_TUPLE; out++) {
                bool fits = op != OP_BITCAST_CONVERT ||
                            dtype_info[t].bits == dtype_info[out].bits;
                /* a byte that is neither 0 nor 1 is no pred */
                fits &= op != OP_BITCAST_CONVERT || out != DT_PRED;
                if (is_kernel_type(out) && fits)
                    add_case(f, op, t, out);
            }
        } else {
            DType outs[] = {t, DT_PRED, number_component(t)};
            for (unsigned i = 0; i < 3; i++) {
                if (add_case(f, op, t, outs[i]) != NULL)
                    break;
            }
        }
    }
}

/* -- kernels: elements in storage form -- */

static LLVMValueRef load(Kernel *k, unsigned arg, LLVMValueRef index, DType t)
{
    LLVMBuilderRef b = k->builder;
    unsigned bytes = (unsigned)dtype_storage_bytes(t);
    LLVMValueRef at = LLVMBuildMul(b, index, gx_i32(k, bytes), "");
    if (dtype_is_complex(t)) {
        DType part = number_component(t);
        LLVMTypeRef type = emit_type(k, part);
        LLVMValueRef im = LLVMBuildAdd(b, at, gx_i32(k, bytes / 2), "");
        LLVMValueRef v = LLVMGetUndef(emit_type(k, t));
        v = LLVMBuildInsertValue(b, v, gx_load(k, arg, at, type, bytes / 2), 0, "");
        return LLVMBuildInsertValue(b, v, gx_load(k, arg, im, type, bytes / 2), 1, "");
    }
    if (t != DT_PRED && dtype_info[t].bits >= 8)
        return gx_load(k, arg, at, emit_type(k, t), bytes);
    LLVMValueRef v = gx_load(k, arg, at, gx_int_type(k, 8), 1);
    return LLVMBuildTrunc(b, v, emit_type(k, t), "");
}

static void store(Kernel *k, LLVMValueRef index, DType t, LLVMValueRef v)
{
    LLVMBuilderRef b = k->builder;
    unsigned bytes = (unsigned)dtype_storage_bytes(t);
    LLVMValueRef at = LLVMBuildMul(b, index, gx_i32(k, bytes), "");
    if (LLVMTypeOf(v) != emit_type(k, t))
        fail_msg("%s gives another type than %s", k->at, dtype_name(t));
    if (dtype_is_complex(t)) {
        LLVMValueRef im = LLVMBuildAdd(b, at, gx_i32(k, bytes / 2), "");
        gx_store(k, OUT, at, LLVMBuildExtractValue(b, v, 0, ""), bytes / 2);
        gx_store(k, OUT, im, LLVMBuildExtractValue(b, v, 1, ""), bytes / 2);
        return;
    }
    LLVMTypeRef i8 = gx_int_type(k, 8);
    if (t == DT_PRED || dtype_info[t].bits < 8)
        v = dtype_is_signed(t) ? LLVMBuildSExt(b, v, i8, "")
                               : LLVMBuildZExt(b, v, i8, "");
    gx_store(k, OUT, at, v, bytes);
}

static void make_kernel(Fixture *f, Backend *backend, Case *c, size_t number)
{
    static const uint32_t block[3] = {ELEMENTS, 1, 1}, grid[3] = {1, 1, 1};
    KernelArg args[4];
    for (unsigned i = 0; i < 4; i++)
        args[i] =
            (KernelArg){.align = 16, .bytes = 16 * ELEMENTS, .is_read_only = i < OUT};
    const char *name = arena_printf(f->arena, "k%zu", number);
    Kernel *k =
        kernel_create(f->arena, backend_module(backend), name, args, 4, block, grid);
    k->at = c->inst->name;
    LLVMValueRef index = gx_tid(k, 0), operands[3];
    for (unsigned i = 0; i < c->want.arity; i++)
        operands[i] = i == 1 && c->is_constant ? emit_number(k, c->in[i], c->constant)
                                               : load(k, i, index, c->in[i]);
    store(k, index, c->out, op_emit[c->inst->op].scalar(k, c->inst, operands));
    kernel_finish(k);
    c->kernel = k;
}

static void run(Fixture *f, const Object *object, const Case *c)
{
    uint64_t args[4];
    const uint64_t extents[4] = {16 * ELEMENTS, 16 * ELEMENTS, 16 * ELEMENTS,
                                 16 * ELEMENTS};
    const EngineArgument arguments[4] = {{0}};
    for (unsigned i = 0; i < 4; i++)
        args[i] = (uintptr_t)f->elements[i];
    EngineLaunch launch = {.entry = object_kernel(object, c->kernel->name),
                           .name = c->kernel->name,
                           .parameters = 4,
                           .args = args,
                           .extents = extents,
                           .arguments = arguments,
                           .sites = c->kernel->sites,
                           .site_count = (uint32_t)c->kernel->site_count,
                           .grid = {1, 1, 1},
                           .block = {ELEMENTS, 1, 1}};
    Finding finding;
    assert_non_null(launch.entry);
    assert_true(engine_run(&launch, &finding));
}

/* -- comparing -- */

/* Units in the last place that a result may differ by: 0 unless computed by libdevice. Results
 * of narrow types are rounded again. */
static double allowed_units(const Case *c)
{
    OpCode op = c->inst->op;
    DType t = c->out;
    bool is_narrow = t != DT_F32 && t != DT_F64;
    if (op == OP_ABS && dtype_is_complex(c->in[0]))
        return 3;
    if (!op_is(op, OPF_EXPENSIVE) && op != OP_LOGISTIC && op != OP_RSQRT)
        return 0;
    if (op == OP_SQRT || op == OP_DIVIDE || op == OP_REMAINDER)
        return 0;
    if (is_narrow)
        return 1;
    return op == OP_POWER ? 8 : 4;
}

static double units_between(DType t, double a, double b)
{
    if (a == b)
        return 0;
    int exponent;
    int least = 2 - dtype_info[t].bias;
    frexp(fabs(a) < fabs(b) ? b : a, &exponent);
    exponent = exponent < least ? least : exponent;
    return fabs(a - b) / ldexp(1, exponent - 1 - dtype_info[t].mantissa_bits);
}

static bool is_near_real(DType t, const void *got, const void *want, double most)
{
    if (number_load(t, got) == number_load(t, want))
        return true;
    if (!dtype_is_float(t))
        return false;
    if (number_is_nan(t, got) || number_is_nan(t, want))
        return number_is_nan(t, got) && number_is_nan(t, want);
    double a = number_get_double(t, got), b = number_get_double(t, want);
    if (most == 0)
        return false;
    if (fabs(a) < 0x1p-126 && fabs(b) < 0x1p-126 && t != DT_F64)
        return true; /* libdevice is not exact on denormal numbers */
    if (isinf(a) != isinf(b)) {
        double limit = number_max_finite(t) * (1 - 0x1p-6);
        return fabs(a) > limit && fabs(b) > limit;
    }
    return units_between(t, a, b) <= most;
}

static bool is_exact_complex(OpCode op)
{
    return op_is(op, OPF_MOVES) || !op_is(op, OPF_ACCURACY | OPF_EXPENSIVE);
}

static bool is_near_complex(OpCode op, DType t, const void *got, const void *want)
{
    double a[2], b[2];
    number_get_complex(t, got, a);
    number_get_complex(t, want, b);
    if (!isfinite(b[0]) || !isfinite(b[1]))
        return op != OP_DIVIDE ||
               (isnan(b[0]) == isnan(a[0]) && isnan(b[1]) == isnan(a[1]) &&
                isinf(b[0]) == isinf(a[0]) && isinf(b[1]) == isinf(a[1]));
    double size = hypot(b[0], b[1]), unit = t == DT_C64 ? 0x1p-24 : 0x1p-53;
    return hypot(a[0] - b[0], a[1] - b[1]) <= 60 * unit * (size + 1);
}

static void describe(const Case *c, const Fixture *f, size_t i, char *out, size_t size)
{
    char text[NUMBER_TEXT_MAX];
    size_t n = 0;
    for (unsigned j = 0; j < c->want.arity; j++) {
        const char *e = f->elements[j] + i * dtype_storage_bytes(c->in[j]);
        number_print(c->in[j], e, false, text);
        n += (size_t)snprintf(out + n, size - n, "%s%s", j ? ", " : "", text);
    }
    number_print(c->out, f->elements[OUT] + i * dtype_storage_bytes(c->out), false, text);
    n += (size_t)snprintf(out + n, size - n, ") gave %s, not ", text);
    number_print(c->out, f->want + i * dtype_storage_bytes(c->out), false, text);
    snprintf(out + n, size - n, "%s", text);
}

/* Returns the number of elements that are wrong; prints the first. */
static size_t compare(const Case *c, const Fixture *f)
{
    OpCode op = c->inst->op;
    double most = allowed_units(c);
    size_t wrong = 0, step = dtype_storage_bytes(c->out);
    for (size_t i = 0; i < ELEMENTS; i++) {
        const char *got = f->elements[OUT] + i * step, *want = f->want + i * step;
        bool is_good;
        if (!dtype_is_complex(c->out)) {
            is_good = is_near_real(c->out, got, want, most);
        } else if (is_exact_complex(op) && op != OP_SIGN && op != OP_DIVIDE) {
            DType part = number_component(c->out);
            is_good = is_near_real(part, got, want, 0) &&
                      is_near_real(part, got + step / 2, want + step / 2, 0);
        } else {
            is_good = is_near_complex(op, c->out, got, want);
        }
        if (is_good || wrong++ != 0)
            continue;
        char text[512];
        describe(c, f, i, text, sizeof text);
        print_error("%s(%s -> %s) direction %d total %d bits %d %d: (%s\n",
                    op_info[op].name, dtype_name(c->in[c->want.arity > 2]),
                    dtype_name(c->out), (int)c->want.direction, c->want.total_order,
                    (int)c->want.exponent_bits, (int)c->want.mantissa_bits, text);
    }
    return wrong;
}

static size_t check_case(Fixture *f, const Object *object, const Case *c)
{
    const void *in[3] = {f->elements[0], f->elements[1], f->elements[2]};
    for (unsigned j = 0; j < c->want.arity; j++) {
        size_t step = dtype_storage_bytes(c->in[j]);
        for (size_t i = 0; i < ELEMENTS; i++)
            set_element(f, c->in[j], j, i, f->elements[j] + i * step);
    }
    for (size_t i = 0; c->is_constant && i < ELEMENTS; i++)
        number_set_double(c->in[1], f->elements[1] + i * dtype_storage_bytes(c->in[1]),
                          c->constant);
    c->want.run(f->want, in, ELEMENTS, &c->want);
    run(f, object, c);
    return compare(c, f);
}

static const char *const targets[] = {"sm_75", "sm_90a"};

static size_t check_cases(Fixture *f)
{
    const char *error = NULL;
    char reason[OBJECT_REASON_BYTES];
    size_t bytes, wrong = 0;
    Libdevice *device = libdevice_open(f->arena, f->cuda.libdevice, &error);
    Backend *backend = backend_create(f->arena, device);
    Kernel **kernels = ARENA_ARRAY(f->arena, Kernel *, f->count);
    for (size_t i = 0; i < f->count; i++) {
        make_kernel(f, backend, &f->cases[i], i);
        kernels[i] = f->cases[i].kernel;
    }
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        Target target;
        assert_true(target_find(targets[i], &target));
        const char *ptx = backend_ptx(backend, kernels, f->count, &target, f->cuda.ptx);
        assert_non_null(strstr(ptx, ".entry"));
        assert_null(strstr(ptx, ".extern .func"));
    }
    const void *data = backend_host_object(backend, kernels, f->count, 90, &bytes);
    Object *object = object_load(data, bytes, reason);
    if (object == NULL)
        fail_msg("%s", reason);
    for (size_t i = 0; i < f->count; i++)
        wrong += check_case(f, object, &f->cases[i]);
    object_unload(object);
    backend_destroy(backend);
    libdevice_close(device);
    return wrong;
}

/* add: makes the cases. */
static size_t check_op(Fixture *f, OpCode op, void add(Fixture *f, OpCode op))
{
    Escape e;
    volatile size_t wrong = 1;
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        f->count = 0;
        add(f, op);
        if (f->count != 0)
            wrong = check_cases(f);
    } else {
        print_error("%s: %s\n", op_info[op].name, e.message);
    }
    escape_pop(&e);
    return wrong;
}

static void every_scalar_operation(void **state)
{
    Fixture *f = *state;
    size_t wrong = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        if (element_kind[op] == ELEMENT_SCALAR)
            wrong += check_op(f, (OpCode)op, add_cases);
    }
    assert_int_equal(wrong, 0);
}

/* Code that is written at once for an operand that is known. */
static void add_constants(Fixture *f, OpCode op)
{
    static const double numbers[] = {0, 1, 2, 3, 5, -1, -2, -3, 7, 31, 32, 64};
    for (DType t = DT_PRED; t < DT_TUPLE; t++) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            bool fits = is_kernel_type(t) && dtype_is_integer(t);
            Case *c = fits ? add_case(f, op, t, t) : NULL;
            if (c == NULL)
                break;
            c->is_constant = true;
            c->constant = numbers[i];
        }
    }
}

static void constant_operands(void **state)
{
    static const OpCode ops[] = {OP_POWER,     OP_DIVIDE,
                                 OP_REMAINDER, OP_SHIFT_LEFT,
                                 OP_MAXIMUM,   OP_SHIFT_RIGHT_LOGICAL,
                                 OP_MULTIPLY,  OP_SHIFT_RIGHT_ARITHMETIC};
    Fixture *f = *state;
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        wrong += check_op(f, ops[i], add_constants);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scalar_operation),
        cmocka_unit_test(constant_operands),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
