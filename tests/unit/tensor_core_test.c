/* Every row of tensor_cores.def against the PTX ISA (matrix fragments of mma): the position of each element of
 * each lane, by the formulas of that text, and that the instruction's sizes, names and types agree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "ir/kernel/tensor_core.h"

typedef struct Position {
    uint32_t row, column;
} Position;

/* Element i of lane `lane` of A, as the PTX ISA has it for each shape and width of elements. */
static Position position_of_a(const TensorCore *t, uint32_t i, uint32_t lane)
{
    uint32_t group = lane >> 2, thread = lane % 4, bits = dtype_info[t->types[0]].bits;
    Position p = {group, 0};
    switch (bits) {
    case 4:
        if (t->m == 8) { /* m8n8k32 */
            p.column = thread * 8 + i;
        } else if (t->k == 32) {
            p.row = i < 8 ? group : group + 8;
            p.column = thread * 8 + (i & 7);
        } else { /* m16n8k64 */
            p.row = i < 8 || (16 <= i && i < 24) ? group : group + 8;
            p.column = thread * 8 + (i & 7) + (i < 16 ? 0 : 32);
        }
        return p;
    case 8:
        if (t->m == 8) { /* m8n8k16 */
            p.column = thread * 4 + i;
        } else if (t->k == 16) {
            p.row = i < 4 ? group : group + 8;
            p.column = thread * 4 + (i & 3);
        } else { /* m16n8k32 */
            p.row = i < 4 || (8 <= i && i < 12) ? group : group + 8;
            p.column = thread * 4 + (i & 3) + (i < 8 ? 0 : 16);
        }
        return p;
    case 16:
        if (t->k == 8) {
            p.row = i < 2 ? group : group + 8;
            p.column = thread * 2 + (i & 1);
        } else { /* m16n8k16 */
            p.row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
            p.column = thread * 2 + (i & 1) + (i < 4 ? 0 : 8);
        }
        return p;
    default: /* tf32 and f64: m8n8k4, m16n8k4, m16n8k8, m16n8k16 */
        if (t->m == 8) {
            p.column = thread;
        } else {
            p.row = i % 2 == 0 ? group : group + 8;
            p.column = i % 2 == 0 ? i * 2 + thread : i * 2 - 2 + thread;
        }
        return p;
    }
}

static Position position_of_b(const TensorCore *t, uint32_t i, uint32_t lane)
{
    uint32_t group = lane >> 2, thread = lane % 4, bits = dtype_info[t->types[1]].bits;
    Position p = {0, group};
    switch (bits) {
    case 4:
        p.row = thread * 8 + (i & 7) + (i < 8 ? 0 : 32);
        return p;
    case 8:
        p.row = thread * 4 + (i & 3) + (i < 4 ? 0 : 16);
        return p;
    case 16:
        p.row = thread * 2 + (i & 1) + (i < 2 ? 0 : 8);
        return p;
    default:
        p.row = thread + 4 * i;
        return p;
    }
}

static Position position_of_c(const TensorCore *t, uint32_t i, uint32_t lane)
{
    uint32_t group = lane >> 2, thread = lane % 4;
    (void)t;
    return (Position){i < 2 ? group : group + 8, thread * 2 + (i & 1)};
}

/* Elements of an operand that has `size` of them in all. */
static void check_operand(const TensorCore *t, TensorOperand operand, uint32_t rows,
                          uint32_t columns, uint32_t row_dim, uint32_t column_dim)
{
    static Position (*const positions[])(const TensorCore *, uint32_t, uint32_t) = {
        position_of_a, position_of_b, position_of_c};
    LinearLayout l = tensor_core_layout(t, operand);
    assert_int_equal(l.in[LINEAR_LANE], 5);
    assert_int_equal(UINT32_C(1) << l.out[row_dim], rows);
    assert_int_equal(UINT32_C(1) << l.out[column_dim], columns);
    assert_true(linear_is_bijective(&l));
    uint32_t elements = UINT32_C(1) << l.in[LINEAR_REGISTER];
    assert_int_equal(elements * 32, rows * columns);
    for (uint32_t lane = 0; lane < 32; lane++) {
        for (uint32_t i = 0; i < elements; i++) {
            Position p = positions[operand](t, i, lane);
            uint32_t at = linear_apply(&l, i | lane << l.in[LINEAR_REGISTER]);
            if (linear_coordinate(&l, at, row_dim) != p.row ||
                linear_coordinate(&l, at, column_dim) != p.column)
                fail_msg("%s: operand %d, lane %u, element %u", t->name, (int)operand,
                         lane, i);
        }
    }
    uint32_t bits = dtype_info[t->types[operand]].bits;
    assert_int_equal(tensor_core_registers(t, operand),
                     elements * bits / (bits == 64 ? 64 : 32));
}

static void fragments_are_those_of_the_isa(void **state)
{
    (void)state;
    uint32_t rows = 0;
    for (const TensorCore *t; (t = tensor_core_row(rows)) != NULL; rows++) {
        char shape[32];
        int length =
            snprintf(shape, sizeof shape, "m%un%uk%u.row.col.", t->m, t->n, t->k);
        assert_memory_equal(t->name, shape, (size_t)length);
        check_operand(t, TENSOR_A, t->m, t->k, 0, 2);
        check_operand(t, TENSOR_B, t->k, t->n, 2, 1);
        check_operand(t, TENSOR_C, t->m, t->n, 0, 1);
        for (uint32_t j = 0; j < rows; j++) {
            assert_int_not_equal(tensor_core_row(j)->number, t->number);
            assert_string_not_equal(tensor_core_row(j)->name, t->name);
        }
    }
    assert_int_equal(rows, 38);
}

/* Types as the intrinsic's name spells them. */
static void names_have_the_types(void **state)
{
    (void)state;
    static const struct {
        DType type;
        const char *name;
    } spelled[] = {{DT_F16, "f32.f32"}, {DT_BF16, "bf16"},     {DT_F32, "tf32"},
                   {DT_F64, "f64"},     {DT_F8E4M3FN, "e4m3"}, {DT_F8E5M2, "e5m2"},
                   {DT_S8, "s8"},       {DT_U8, "u8"},         {DT_S4, "s4"},
                   {DT_U4, "u4"}};
    const TensorCore *t;
    for (uint32_t i = 0; (t = tensor_core_row(i)) != NULL; i++) {
        const char *a = NULL, *b = NULL;
        for (size_t j = 0; j < sizeof spelled / sizeof *spelled; j++) {
            a = spelled[j].type == t->types[0] ? spelled[j].name : a;
            b = spelled[j].type == t->types[1] ? spelled[j].name : b;
        }
        assert_true(a != NULL && b != NULL);
        char types[64];
        bool is_f8 = dtype_info[t->types[0]].bits == 8 && t->types[2] == DT_F32;
        if (is_f8)
            snprintf(types, sizeof types, "f32.%s.%s.f32", a, b);
        else
            snprintf(types, sizeof types, "%s%s%s", a, a == b ? "" : ".",
                     a == b ? "" : b);
        assert_string_equal(strstr(t->name, ".col.") + 5, types);
    }
}

static const char *found(DType a, DType b, DType c, const char *target)
{
    Target t;
    assert_true(target_find(target, &t));
    const TensorCore *core = tensor_core_find(a, b, c, &t, 90);
    return core == NULL ? "none" : core->name;
}

static void targets_have_what_they_have(void **state)
{
    (void)state;
    assert_string_equal(found(DT_F16, DT_F16, DT_F32, "sm_75"),
                        "m16n8k8.row.col.f32.f32");
    assert_string_equal(found(DT_F16, DT_F16, DT_F32, "sm_80"),
                        "m16n8k16.row.col.f32.f32");
    assert_string_equal(found(DT_BF16, DT_BF16, DT_F32, "sm_75"), "none");
    assert_string_equal(found(DT_BF16, DT_BF16, DT_F32, "sm_121a"),
                        "m16n8k16.row.col.bf16");
    assert_string_equal(found(DT_F32, DT_F32, DT_F32, "sm_86"), "m16n8k8.row.col.tf32");
    assert_string_equal(found(DT_F8E4M3FN, DT_F8E5M2, DT_F32, "sm_80"), "none");
    assert_string_equal(found(DT_F8E4M3FN, DT_F8E5M2, DT_F32, "sm_89"),
                        "m16n8k32.row.col.f32.e4m3.e5m2.f32");
    assert_string_equal(found(DT_S8, DT_S8, DT_S32, "sm_75"), "m8n8k16.row.col.s8");
    assert_string_equal(found(DT_S8, DT_U8, DT_S32, "sm_90a"), "m16n8k32.row.col.s8.u8");
    assert_string_equal(found(DT_F64, DT_F64, DT_F64, "sm_80"), "m8n8k4.row.col.f64");
    assert_string_equal(found(DT_F64, DT_F64, DT_F64, "sm_90"), "m16n8k16.row.col.f64");
    assert_string_equal(found(DT_F16, DT_BF16, DT_F32, "sm_90"), "none");
    Target old;
    assert_true(target_find("sm_89", &old));
    assert_null(tensor_core_find(DT_F8E5M2, DT_F8E5M2, DT_F32, &old, 83));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragments_are_those_of_the_isa),
        cmocka_unit_test(names_have_the_types),
        cmocka_unit_test(targets_have_what_they_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
