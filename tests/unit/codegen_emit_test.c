/* Every emitter against the evaluator: programs over a table of shapes, layouts and element types are
 * made a fusion, compiled for the host and run by the emulator's engine, races and unwritten bytes
 * checked. Values are small quarters, so that sums are exact in any order.
 *
 * With GXC_WRITE_PROGRAMS=FOLDER it writes each program there instead, for the GPU bundle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/hlo/parse.h"
#include "ir/kernel/kind.h"
#include "ir/print/print.h"
#include "tests/unit/shared/kernel_case.h"

/* -- programs ------------------------------------------------------------------------------------ */

/* Reducers and comparators of type T are named by the operation: "add.T". */
static const char *callees(Arena *a, const char *type)
{
    static const char *const binary[] = {"add", "multiply", "maximum", "minimum"};
    const char *text = "";
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        text = arena_printf(a,
                            "%s%s { a = %s[] parameter(0) b = %s[] parameter(1) "
                            "ROOT s = %s[] %s(a, b) }\n",
                            text, binary[i], type, type, type, binary[i]);
    static const char *const compare[] = {"LT", "GT", "GE"};
    for (size_t i = 0; i < sizeof compare / sizeof *compare; i++)
        text = arena_printf(a,
                            "%s%s { a = %s[] parameter(0) b = %s[] parameter(1) "
                            "ROOT c = pred[] compare(a, b), direction=%s }\n",
                            text, compare[i], type, type, compare[i]);
    text = arena_printf(a, "%sset { a = %s[] parameter(0) ROOT b = %s[] parameter(1) }\n",
                        text, type, type);
    text =
        arena_printf(a,
                     "%sby_key { a = %s[] parameter(0) b = %s[] parameter(1) c = s32[] "
                     "parameter(2) d = s32[] parameter(3) ROOT e = pred[] compare(a, b), "
                     "direction=LT }\n",
                     text, type, type);
    text = arena_printf(a,
                        "%spair { a = %s[] parameter(0) c = %s[] parameter(1) b = %s[] "
                        "parameter(2) d = %s[] parameter(3) s = %s[] add(a, b) m = %s[] "
                        "maximum(d, c) ROOT t = (%s[], %s[]) tuple(s, m) }\n",
                        text, type, type, type, type, type, type, type, type);
    return arena_printf(
        a,
        "%sargmax { a = %s[] parameter(0) i = s32[] parameter(1) b = %s[] parameter(2) "
        "j = s32[] parameter(3) g = pred[] compare(a, b), direction=GT "
        "e = pred[] compare(a, b), direction=EQ l = pred[] compare(i, j), direction=LT "
        "el = pred[] and(e, l) t = pred[] or(g, el) v = %s[] select(t, a, b) "
        "k = s32[] select(t, i, j) ROOT r = (%s[], s32[]) tuple(v, k) }\n",
        text, type, type, type, type);
}

static const char *module_text(Arena *a, const char *type, const char *body)
{
    return arena_printf(a, "HloModule m\n%sENTRY e { %s }\n",
                        type[0] == 'c' || type[0] == 'p' ? "" : callees(a, type), body);
}

static Module *parse(Arena *a, const char *type, const char *body)
{
    const char *text = module_text(a, type, body);
    Diag *d = diag_create(a, "test.hlo", text, strlen(text));
    Module *m = hlo_parse(a, d);
    if (m == NULL)
        fail_msg("%s\n%s", body, diag_render(d, false));
    return m;
}

/* The program as a file of its own, named by its text: the compiler chooses the emitter. */
static void write_program(const char *folder, const char *type, const char *body)
{
    Arena *a = arena_create();
    const char *text = module_print(a, parse(a, type, body), PRINT_DEFAULT, NULL);
    uint32_t name = 0;
    for (const char *c = text; *c != '\0'; c++)
        name = name * 31 + (unsigned char)*c;
    FILE *f = fopen(arena_printf(a, "%s/emit-%08x.hlo", folder, name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    arena_destroy(a);
}

/* The program with the emitter of this name; NULL: the one that is chosen. */
static void check(const char *emitter, const char *type, const char *body)
{
    Arena *a = arena_create();
    const char *folder = getenv("GXC_WRITE_PROGRAMS");
    KernelCase c = {.name = body, .text = module_text(a, type, body), .kind = emitter};
    if (folder != NULL)
        write_program(folder, type, body);
    else
        kernel_case_check(&c);
    arena_destroy(a);
}

#define CHECK(emitter, type, ...)                                                        \
    do {                                                                                 \
        Arena *text_arena = arena_create();                                              \
        check(emitter, type, arena_printf(text_arena, __VA_ARGS__));                     \
        arena_destroy(text_arena);                                                       \
    } while (0)

/* -- reductions -------------------------------------------------------------------------------------- */

typedef struct ReduceShape {
    const char *operand, *layout, *dims, *result;
} ReduceShape;

static const ReduceShape reduce_shapes[] = {
    {"37,100", "", "1", "37"},
    {"37,100", "", "0", "100"},
    {"37,100", "{0,1}", "1", "37"},
    {"37,100", "{0,1}", "0", "100"},
    {"100", "", "0", ""},
    {"20001", "", "0", ""},
    {"1", "", "0", ""},
    {"5,0", "", "1", "5"},
    {"0,40", "", "0", "40"},
    {"3,5,7", "", "0,2", "5"},
    {"3,5,7", "", "1", "3,7"},
    {"9,640", "", "1", "9"},
    {"640,33", "", "0", "33"},
    {"2,3,4,5,6,7", "", "1,3,5", "2,4,6"},
    {"2,3,4,5,6,7", "{1,3,5,0,2,4}", "0,2,4", "3,5,7"},
    {"1000,3", "", "1", "1000"},
    {"3,1000", "", "0", "1000"},
    {"4,1,4", "", "1", "4,4"},
    {"17,33,20", "", "0,2", "33"},
    {"", "", "", ""},
};

static void rows_and_columns_are_reduced(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof reduce_shapes / sizeof *reduce_shapes; i++) {
        const ReduceShape *s = &reduce_shapes[i];
        static const char *const emitters[] = {NULL, "row_reduction", "loop"};
        bool is_empty =
            strchr(s->operand, '0') == s->operand || strstr(s->operand, ",0") != NULL;
        for (size_t e = 0; e < 3; e += is_empty ? 2 : 1) /* of nothing: by element */
            CHECK(emitters[e], "f32",
                  "p = f32[%s]%s parameter(0) z = f32[] constant(1.5) ROOT r = f32[%s] "
                  "reduce(p, z), dimensions={%s}, to_apply=add",
                  s->operand, s->layout, s->result, s->dims);
    }
}

static void every_type_is_reduced(void **state)
{
    (void)state;
    static const char *const types[] = {"s8",  "s16", "s32",  "s64", "u8", "u32",
                                        "u64", "f16", "bf16", "f64", "s4"};
    static const char *const operations[] = {"add", "maximum", "minimum"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (size_t o = 0; o < 3; o++) {
            const char *type = types[t];
            CHECK("row_reduction", type,
                  "p = %s[6,70] parameter(0) z = %s[] constant(1) ROOT r = %s[6] "
                  "reduce(p, z), "
                  "dimensions={1}, to_apply=%s",
                  type, type, type, operations[o]);
            CHECK("column_reduction", type,
                  "p = %s[35,24] parameter(0) z = %s[] constant(1) ROOT r = %s[24] "
                  "reduce(p, "
                  "z), dimensions={0}, to_apply=%s",
                  type, type, type, operations[o]);
        }
    }
}

static void reductions_fuse(void **state)
{
    (void)state;
    static const char *const sizes[] = {"3,5", "7,64", "40,700", "2,2048", "33,8"};
    static const char *const rows[] = {"3", "7", "40", "2", "33"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *n = sizes[i], *r = rows[i];
        CHECK("row_reduction", "f32",
              "p = f32[%s] parameter(0) n = f32[] constant(-inf) z = f32[] constant(0) "
              "m = f32[%s] reduce(p, n), dimensions={1}, to_apply=maximum "
              "mb = f32[%s] broadcast(m), dimensions={0} d = f32[%s] subtract(p, mb) "
              "e = f32[%s] exponential(d) s = f32[%s] reduce(e, z), dimensions={1}, "
              "to_apply=add "
              "sb = f32[%s] broadcast(s), dimensions={0} q = f32[%s] divide(e, sb) "
              "l = f32[%s] log(s) ROOT t = (f32[%s], f32[%s], f32[%s]) tuple(q, l, m)",
              n, r, n, n, n, r, n, n, r, n, r, r);
        /* the initial values join once */
        CHECK(NULL, "f32",
              "p = f32[%s] parameter(0) q = f32[%s] parameter(1) y = f32[] parameter(2) "
              "ROOT r = (f32[%s], f32[%s]) reduce(p, q, y, y), dimensions={1}, "
              "to_apply=pair",
              n, n, r, r);
        CHECK(NULL, "f32",
              "p = f32[%s] parameter(0) i = s32[%s] iota(), iota_dimension=1 "
              "n = f32[] constant(-inf) z = s32[] constant(0) "
              "ROOT r = (f32[%s], s32[%s]) reduce(p, i, n, z), dimensions={1}, "
              "to_apply=argmax",
              n, n, r, r);
    }
    static const char *const columns[] = {"50,64", "3,40", "100,16", "17,33", "1,20"};
    static const char *const across[] = {"64", "40", "16", "33", "20"};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        const char *n = columns[i], *r = across[i];
        CHECK("column_reduction", "f32",
              "p = f32[%s] parameter(0) n = f32[] constant(-inf) z = f32[] constant(0) "
              "m = f32[%s] reduce(p, n), dimensions={0}, to_apply=maximum "
              "mb = f32[%s] broadcast(m), dimensions={1} d = f32[%s] subtract(p, mb) "
              "e = f32[%s] exponential(d) s = f32[%s] reduce(e, z), dimensions={0}, "
              "to_apply=add "
              "sb = f32[%s] broadcast(s), dimensions={1} q = f32[%s] divide(e, sb) "
              "l = f32[%s] log(s) ROOT t = (f32[%s], f32[%s], f32[%s]) tuple(q, l, m)",
              n, r, n, n, n, r, n, n, r, n, r, r);
    }
    CHECK(NULL, "f32",
          "p = f32[50,64] parameter(0) i = s32[50,64] iota(), iota_dimension=0 "
          "n = f32[] constant(-inf) z = s32[] constant(0) a = (f32[64], s32[64]) "
          "reduce(p, i, n, z), dimensions={0}, to_apply=argmax y = f32[] constant(0) "
          "s = f32[64] reduce(p, y), dimensions={0}, to_apply=add g = f32[64] "
          "get-tuple-element(a), index=0 k = s32[64] get-tuple-element(a), index=1 "
          "h = f32[64] negate(g) ROOT t = (f32[64], s32[64], f32[64]) tuple(h, k, s)");
}

/* -- moving ------------------------------------------------------------------------------------------ */

static void transposes_turn_tiles(void **state)
{
    (void)state;
    static const struct {
        const char *type, *from, *dims, *to;
    } cases[] = {
        {"f32", "64,96", "1,0", "96,64"},
        {"f32", "37,101", "1,0", "101,37"},
        {"bf16", "72,130", "1,0", "130,72"},
        {"f64", "20,33", "1,0", "33,20"},
        {"c64", "20,16", "1,0", "16,20"},
        {"pred", "33,70", "1,0", "70,33"},
        {"s8", "64,80", "1,0", "80,64"},
        {"f32", "2,17,3,20", "0,3,2,1", "2,20,3,17"},
        {"f32", "3,16,7,9", "0,2,3,1", "3,7,9,16"},
        {"f32", "8,9,10", "2,0,1", "10,8,9"},
        {"c128", "5,1,40", "2,1,0", "40,1,5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK("transpose", cases[i].type,
              "p = %s[%s] parameter(0) ROOT t = %s[%s] transpose(p), dimensions={%s}",
              cases[i].type, cases[i].from, cases[i].type, cases[i].to, cases[i].dims);
    CHECK("transpose", "f32",
          "p = f32[40,48] parameter(0) q = f32[48,40] parameter(1) n = f32[40,48] "
          "negate(p) "
          "t = f32[48,40] transpose(n), dimensions={1,0} a = f32[48,40] add(t, q) "
          "h = bf16[48,40] convert(a) ROOT r = (f32[48,40], bf16[48,40]) tuple(a, h)");
    CHECK("transpose", "f32",
          "p = f32[40,48]{0,1} parameter(0) ROOT c = f32[40,48] copy(p)");
}

static void slices_are_updated_in_place(void **state)
{
    (void)state;
    static const char *const types[] = {"f32", "bf16", "s4", "pred", "c64", "f64"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        CHECK(
            "update_slice", types[i],
            "p = %s[12,40] parameter(0) u = %s[3,7] parameter(1) i = s32[] parameter(2) "
            "j = s32[] parameter(3) ROOT r = %s[12,40] dynamic-update-slice(p, u, i, j)",
            types[i], types[i], types[i]);
    CHECK("update_slice", "f32",
          "p = f32[12,40] parameter(0) q = f32[8,40] parameter(1) i = u8[] parameter(2) "
          "z = s32[] constant(0) u = f32[4,40] slice(q), slice={[2:6], [0:40]} "
          "n = f32[4,40] negate(u) j = s32[] convert(i) "
          "ROOT r = f32[12,40] dynamic-update-slice(p, n, j, z)");
}

#define OWN_SLICE                                                                        \
    "p = f32[12,40] parameter(0) q = f32[3,8] parameter(1) i = s32[] parameter(2) "      \
    "j = s32[] parameter(3) s = f32[3,8] dynamic-slice(p, i, j), "                       \
    "dynamic_slice_sizes={3,8} "                                                         \
    "a = f32[3,8] %s ROOT r = f32[12,40] dynamic-update-slice(p, a, %s, j)"

static void slices_are_read_where_they_are_updated(void **state)
{
    (void)state;
    CHECK("update_slice", "f32", OWN_SLICE, "add(s, q)", "i");
    /* elsewhere, or moved: another thread may have replaced it */
    Arena *a = arena_create();
    static const char *const bad[][2] = {{"add(s, q)", "j"},
                                         {"reverse(s), dimensions={0}", "i"}};
    for (size_t n = 0; n < 2; n++) {
        const char *body = arena_printf(a, OWN_SLICE, bad[n][0], bad[n][1]);
        Instruction *fusion = kernel_case_fusion(a, module_text(a, "f32", body));
        assert_non_null(kernel_illegal(fusion, KERNEL_UPDATE_SLICE));
        assert_int_equal(kernel_kind_choose(fusion, NULL), KERNEL_LOOP);
    }
    arena_destroy(a);
}

static void updates_are_scattered(void **state)
{
    (void)state;
    static const struct {
        const char *operand, *update, *indices, *attributes;
    } cases[] = {
        {"10,16", "30,16", "30,1", "{1}, {0}, {0}, index_vector_dim=1"},
        {"10,16", "30,16", "30", "{1}, {0}, {0}, index_vector_dim=1"},
        {"12,16", "30,3,16", "30,1", "{1,2}, {}, {0}, index_vector_dim=1"},
        {"6,7", "5,4", "5,4,2", "{}, {0,1}, {1,0}, index_vector_dim=2"},
        {"10", "", "1", "{}, {0}, {0}, index_vector_dim=0"},
        {"10", "0", "0,1", "{}, {0}, {0}, index_vector_dim=1"},
        {"4,7,8", "4,5,8", "4,5,1",
         "{2}, {1}, {1}, index_vector_dim=2, input_batching_dims={0}, "
         "scatter_indices_batching_dims={0}"},
    };
    static const char *const types[] = {"f32", "s32", "bf16", "u8", "s4"};
    static const char *const combiners[] = {"add", "maximum", "set", "minimum"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char attributes[384], one[32], two[32], three[32], rest[160];
        assert_int_equal(sscanf(cases[i].attributes, "%31[^ ] %31[^ ] %31[^ ] %159[^\n]",
                                one, two, three, rest),
                         4);
        snprintf(attributes, sizeof attributes,
                 "update_window_dims=%s inserted_window_dims=%s "
                 "scatter_dims_to_operand_dims=%s %s",
                 one, two, three, rest);
        for (size_t t = 0; t < 5; t++) {
            for (size_t k = 0; k < 4; k++)
                CHECK("scatter", types[t],
                      "p = %s[%s] parameter(0) i = %s[%s] parameter(1) u = %s[%s] "
                      "parameter(2) "
                      "ROOT r = %s[%s] scatter(p, i, u), %s, to_apply=%s",
                      types[t], cases[i].operand, k % 2 == 0 ? "s32" : "u8",
                      cases[i].indices, types[t], cases[i].update, types[t],
                      cases[i].operand, attributes, combiners[k]);
        }
    }
}

/* -- order ------------------------------------------------------------------------------------------- */

static void rows_are_sorted(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        int dimension;
    } cases[] = {{"37", 0}, {"5,33", 1}, {"33,5", 0},    {"3,700", 1},
                 {"1", 0},  {"4,1", 1},  {"2,3,40,2", 2}};
    static const char *const types[] = {"f32", "s8", "bf16", "u64"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t t = 0; t < 4; t++)
            CHECK(
                "sort", types[t],
                "p = %s[%s] parameter(0) v = s32[%s] iota(), iota_dimension=%d ROOT s = "
                "(%s[%s], s32[%s]) sort(p, v), dimensions={%d}, is_stable=true, "
                "to_apply=by_key",
                types[t], cases[i].shape, cases[i].shape, cases[i].dimension, types[t],
                cases[i].shape, cases[i].shape, cases[i].dimension);
    }
}

static void the_largest_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *type, *from, *to;
        int k;
    } cases[] = {{"f32", "13,100", "13,7", 7},
                 {"f32", "3,5000", "3,5", 5},
                 {"u8", "200", "3", 3},
                 {"s32", "2,3,40", "2,3,40", 40},
                 {"bf16", "1", "1", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int largest = 0; largest < 2; largest++)
            CHECK("topk", cases[i].type,
                  "p = %s[%s] parameter(0) ROOT r = (%s[%s], s32[%s]) topk(p), k=%d, "
                  "largest=%s",
                  cases[i].type, cases[i].from, cases[i].type, cases[i].to, cases[i].to,
                  cases[i].k, largest ? "true" : "false");
    }
}

/* -- windows ----------------------------------------------------------------------------------------- */

static void windows_are_scanned(void **state)
{
    (void)state;
    static const struct {
        const char *shape, *size, *pad;
    } cases[] = {{"37", "37", "36_0"},
                 {"700", "700", "0_699"},
                 {"3,300", "1x300", "0_0x299_0"},
                 {"300,5", "300x1", "299_0x0_0"},
                 {"2,50,3", "1x50x1", "0_0x0_49x0_0"},
                 {"5000,20", "1x20", "0_0x19_0"},
                 {"1", "1", "0_0"}};
    static const char *const types[] = {"f32", "s32", "bf16"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *emitter =
            i + 1 == sizeof cases / sizeof *cases ? NULL : "window_scan";
        for (size_t t = 0; t < 3; t++)
            CHECK(emitter, types[t],
                  "p = %s[%s] parameter(0) z = %s[] constant(2) ROOT r = %s[%s] "
                  "reduce-window(p, z), window={size=%s pad=%s}, to_apply=%s",
                  types[t], cases[i].shape, types[t], types[t], cases[i].shape,
                  cases[i].size, cases[i].pad, t == 1 ? "maximum" : "add");
    }
}

static void windows_select(void **state)
{
    (void)state;
    CHECK("select_and_scatter", "f32",
          "p = f32[2,10,12,3] parameter(0) s = f32[2,5,6,3] parameter(1) z = f32[] "
          "constant(0) "
          "ROOT r = f32[2,10,12,3] select-and-scatter(p, s, z), "
          "window={size=1x2x2x1 stride=1x2x2x1}, select=GE, scatter=add");
    CHECK("select_and_scatter", "bf16",
          "p = bf16[2,10,12] parameter(0) s = bf16[2,5,6] parameter(1) z = bf16[] "
          "constant(0.5) "
          "ROOT r = bf16[2,10,12] select-and-scatter(p, s, z), "
          "window={size=1x3x3 stride=1x2x2 pad=0_0x1_0x0_1}, select=GE, scatter=add");
}

/* -- products ---------------------------------------------------------------------------------------- */

static void tiles_are_multiplied(void **state)
{
    (void)state;
    static const struct {
        const char *type, *lhs, *rhs, *out_type, *result, *attributes;
    } cases[] = {
        {"f32", "64,64", "64,64", "f32", "64,64",
         "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
        {"f32", "70,33", "33,50", "f32", "70,50",
         "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
        {"f32", "33,70", "50,33", "f32", "70,50",
         "lhs_contracting_dims={0}, rhs_contracting_dims={1}"},
        {"bf16", "3,40,24", "3,24,36", "bf16", "3,40,36",
         "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_batch_dims={0}, "
         "rhs_batch_dims={0}"},
        {"s8", "40,24", "24,36", "s32", "40,36",
         "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
        {"f64", "20,24", "24,36", "f64", "20,36",
         "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
        {"c64", "20,24", "24,36", "c64", "20,36",
         "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
        {"f16", "5,6,7", "7,6,9", "f32", "5,9",
         "lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}"},
        {"f32", "20,24", "24,36", "f32", "20,36",
         "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
        {"f32", "20,0", "0,36", "f32", "20,36",
         "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const emitters[] = {"dot", "loop"};
        for (size_t e = 0; e < 2; e++)
            CHECK(emitters[e], cases[i].type,
                  "p = %s[%s] parameter(0) q = %s[%s] parameter(1) ROOT r = %s[%s] "
                  "dot(p, q), %s",
                  cases[i].type, cases[i].lhs, cases[i].type, cases[i].rhs,
                  cases[i].out_type, cases[i].result, cases[i].attributes);
    }
    CHECK("dot", "f32",
          "p = f32[64,48] parameter(0) q = f32[48,96] parameter(1) c = f32[96] "
          "parameter(2) "
          "n = f32[64,48] negate(p) d = f32[64,96] dot(n, q), lhs_contracting_dims={1}, "
          "rhs_contracting_dims={0} b = f32[64,96] broadcast(c), dimensions={1} "
          "ROOT a = f32[64,96] add(d, b)");
}

static void convolutions_slide(void **state)
{
    (void)state;
    static const struct {
        const char *lhs, *rhs, *result, *window, *attributes;
    } cases[] = {
        {"2,8,8,8", "3,3,8,20", "2,8,8,20", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"},
        {"2,8,8,8", "20,8,3,3", "2,20,8,8", "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"},
        {"2,9,7,6", "3,3,6,20", "2,4,3,20", "size=3x3 stride=2x2", "b01f_01io->b01f"},
        {"2,9,7,8", "3,3,4,40", "2,7,5,40", "size=3x3",
         "b01f_01io->b01f, feature_group_count=2"},
        {"2,6,6,8", "3,3,8,16", "2,12,12,16", "size=3x3 pad=1_2x1_2 lhs_dilate=2x2",
         "b01f_01io->b01f"},
        {"2,8,8,8", "3,3,8,16", "2,4,4,16", "size=3x3 rhs_dilate=2x2 rhs_reversal=1x1",
         "b01f_01io->b01f"},
        {"4,8,8,8", "3,3,8,32", "2,6,6,32", "size=3x3",
         "b01f_01io->b01f, batch_group_count=2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const emitters[] = {"convolution", "loop"};
        for (size_t e = 0; e < 2; e++)
            CHECK(emitters[e], "f32",
                  "p = f32[%s] parameter(0) q = f32[%s] parameter(1) ROOT r = f32[%s] "
                  "convolution(p, q), window={%s}, dim_labels=%s",
                  cases[i].lhs, cases[i].rhs, cases[i].result, cases[i].window,
                  cases[i].attributes);
    }
}

static void bits_are_random(void **state)
{
    (void)state;
    static const struct {
        const char *algorithm, *state;
    } generators[] = {{"rng_three_fry", "u64[2]"},
                      {"rng_philox", "u64[2]"},
                      {"rng_philox", "u64[3]"},
                      {"rng_philox", "u32[4]"}};
    static const char *const bits[] = {"u32[100]", "u32[5,7,3]", "u64[33]",
                                       "u8[6,10]", "u16[7,3]",   "u32[]"};
    for (size_t g = 0; g < sizeof generators / sizeof *generators; g++) {
        for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
            CHECK("rng", "u32",
                  "s = %s parameter(0) ROOT r = (%s, %s) rng-bit-generator(s), "
                  "algorithm=%s",
                  generators[g].state, generators[g].state, bits[i],
                  generators[g].algorithm);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_columns_are_reduced),
        cmocka_unit_test(every_type_is_reduced),
        cmocka_unit_test(reductions_fuse),
        cmocka_unit_test(transposes_turn_tiles),
        cmocka_unit_test(slices_are_updated_in_place),
        cmocka_unit_test(slices_are_read_where_they_are_updated),
        cmocka_unit_test(updates_are_scattered),
        cmocka_unit_test(rows_are_sorted),
        cmocka_unit_test(the_largest_are_found),
        cmocka_unit_test(windows_are_scanned),
        cmocka_unit_test(windows_select),
        cmocka_unit_test(tiles_are_multiplied),
        cmocka_unit_test(convolutions_slide),
        cmocka_unit_test(bits_are_random),
    };
    return cmocka_run_group_tests(tests, kernel_case_set_up, kernel_case_tear_down);
}
