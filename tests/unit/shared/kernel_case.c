/* See kernel_case.h. */
#include "tests/unit/shared/kernel_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/assembler/assemble.h"
#include "codegen/backend.h"
#include "codegen/kernel/emitters.h"
#include "frontend/hlo/parse.h"
#include "ir/eval/eval.h"
#include "runtime/emu/banks.h"
#include "runtime/emu/engine.h"
#include "runtime/emu/object.h"

static Cuda cuda;

int kernel_case_set_up(void **state)
{
    const char *error = NULL;
    *state = arena_create();
    if (cuda_find(*state, NULL, ASSEMBLER_ANY, &cuda, &error))
        return 0;
    print_error("%s\n", error);
    return 1;
}

int kernel_case_tear_down(void **state)
{
    arena_destroy(*state);
    return 0;
}

/* A case on its way. */
typedef struct Run {
    KernelCase *options;
    Arena *arena;
    Module *module;
    Instruction *fusion;
    KernelKind kind;
    uint32_t parameters, results, count; /* kernel arguments: both */
    const Literal *input[KERNEL_CASE_ARGS];
    const Shape *shape[KERNEL_CASE_ARGS];
    void *data[KERNEL_CASE_ARGS];
    Shadow shadow[KERNEL_CASE_ARGS];
} Run;

Instruction *kernel_case_fusion(Arena *a, const char *text)
{
    Diag *d = diag_create(a, "test.hlo", text, strlen(text));
    Module *m = hlo_parse(a, d);
    if (m == NULL)
        fail_msg("%s\n%s", text, diag_render(d, false));
    Computation *body = m->entry, *main = module_add_computation(m, "main");
    Instruction *operands[KERNEL_CASE_ARGS];
    for (uint32_t i = 0; i < body->parameter_count; i++)
        operands[i] =
            computation_add_parameter(main, i, body->parameters[i]->shape, NULL);
    body->is_fused = true;
    Instruction *fusion = computation_add(main, OP_FUSION, body->root->shape,
                                          body->parameter_count, operands, "fusion");
    inst_set_int(fusion, ATTR_KIND, FUSION_LOOP);
    inst_set_computation(fusion, ATTR_CALLS, body);
    main->root = fusion;
    return fusion;
}

/* -- values ---------------------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 16;
}

static const Literal *random_literal(Arena *a, const Shape *shape, uint32_t seed)
{
    Literal *l = literal_create(a, shape);
    DType t = shape->dtype;
    for (int64_t i = 0; i < l->count; i++) {
        int value = (int)(next_random(&seed) % 17) - 6;
        if (t == DT_PRED)
            literal_set_int(l, i, value & 1);
        else if (dtype_is_complex(t))
            literal_set_complex(l, i, value * 0.25,
                                (int)(next_random(&seed) % 5) * 0.5 - 1);
        else if (dtype_is_float(t))
            literal_set_double(l, i, t == DT_F8E8M0FNU ? 1 << (value & 7) : value * 0.25);
        else if (dtype_is_unsigned(t))
            literal_set_int(l, i, (value + 6) % 4);
        else
            literal_set_int(l, i, dtype_info[t].bits < 8 ? value % 2 : value);
    }
    return l;
}

static void make_arguments(Run *c)
{
    const Computation *body = c->module->entry;
    c->parameters = body->parameter_count;
    c->results = fusion_result_count(c->fusion);
    c->count = c->parameters + c->results;
    assert_true(c->count <= KERNEL_CASE_ARGS);
    for (uint32_t i = 0; i < c->count; i++) {
        bool is_result = i >= c->parameters;
        c->shape[i] = is_result ? fusion_result(c->fusion, i - c->parameters).shape
                                : body->parameters[i]->shape;
        uint64_t bytes = (uint64_t)shape_bytes(c->shape[i]);
        c->data[i] = aligned_alloc(128, (bytes / 128 + 1) * 128);
        memset(c->data[i], 0xee, bytes);
        assert_true(shadow_init(&c->shadow[i], bytes, true, true));
        if (!is_result) {
            c->input[i] = random_literal(c->arena, c->shape[i], 7 * i + 1);
            literal_to_device(c->input[i], c->shape[i], c->data[i]);
            shadow_set_written(&c->shadow[i], 0, bytes, true);
        }
    }
    for (uint32_t r = 0; r < c->results; r++) {
        int64_t from = kernel_in_place(c->fusion, c->kind, r);
        uint32_t to = c->parameters + r;
        if (from >= 0) {
            memcpy(c->data[to], c->data[from], (size_t)shape_bytes(c->shape[to]));
            shadow_set_written(&c->shadow[to], 0, (uint64_t)shape_bytes(c->shape[to]),
                               true);
        }
        /* bytes that hold several elements are changed in turn */
        if (dtype_info[c->shape[to]->dtype].bits < 8)
            shadow_set_written(&c->shadow[to], 0, (uint64_t)shape_bytes(c->shape[to]),
                               true);
    }
}

/* -- running ----------------------------------------------------------------------------------------- */

static const char *name_of(const Run *c);

/* Memory whose beginning is 0 when the kernel starts, as its argument behind all arrays; NULL: it has none. */
static void *scratch_create(const Run *c, const KernelGeometry *g, Shadow *shadow)
{
    uint64_t bytes = g->scratch_bytes;
    if (bytes == 0)
        return NULL;
    assert_true(c->count < KERNEL_CASE_ARGS);
    void *data = aligned_alloc(128, (bytes / 128 + 1) * 128);
    memset(data, 0xff, bytes);
    memset(data, 0, g->cleared_bytes);
    assert_true(shadow_init(shadow, bytes, true, true));
    shadow_set_written(shadow, 0, g->cleared_bytes, true);
    return data;
}

static void describe_arrays(Run *c, KernelArg *args, uint64_t *slots, uint64_t *extents,
                            EngineArgument *arguments)
{
    for (uint32_t i = 0; i < c->count; i++) {
        uint64_t bytes = (uint64_t)shape_bytes(c->shape[i]);
        args[i] = (KernelArg){.align = 128,
                              .bytes = bytes,
                              .is_read_only = i < c->parameters,
                              .is_noalias = true};
        slots[i] = (uintptr_t)c->data[i];
        extents[i] = bytes;
        arguments[i] = (EngineArgument){&c->shadow[i], 0, i < c->parameters};
    }
}

static void run_kernel(Run *c, const Target *target)
{
    KernelArg args[KERNEL_CASE_ARGS];
    uint64_t slots[KERNEL_CASE_ARGS], extents[KERNEL_CASE_ARGS];
    EngineArgument arguments[KERNEL_CASE_ARGS];
    uint32_t count = c->count;
    Shadow shadow;
    const char *error = NULL;
    describe_arrays(c, args, slots, extents, arguments);
    Libdevice *device = libdevice_open(c->arena, cuda.libdevice, &error);
    Backend *backend = backend_create(c->arena, device);
    assert_non_null(backend);
    KernelDesign design;
    kernel_design(c->fusion, target, c->arena, &design);
    if (design.wrong != NULL || design.unsupported != NULL)
        fail_msg("%s: %s", name_of(c),
                 design.wrong != NULL ? design.wrong : design.unsupported);
    uint64_t bytes = design.geometry.scratch_bytes;
    void *scratch = scratch_create(c, &design.geometry, &shadow);
    if (scratch != NULL) {
        args[count] = (KernelArg){.align = 128, .bytes = bytes};
        slots[count] = (uintptr_t)scratch;
        extents[count] = bytes;
        arguments[count++] = (EngineArgument){&shadow, 0, false};
    }
    EmitterInput in = {.arena = c->arena,
                       .module = backend_module(backend),
                       .fusion = c->fusion,
                       .design = &design,
                       .name = "k",
                       .args = args,
                       .arg_count = count};
    Kernel *k = emitter_function(c->kind)(&in);
    char reason[OBJECT_REASON_BYTES];
    size_t size;
    const void *object_bytes = backend_host_object(backend, &k, 1, 90, &size);
    Object *object = object_load(object_bytes, size, reason);
    if (object == NULL)
        fail_msg("%s: %s", name_of(c), reason);
    BankCount *banks = arena_array(c->arena, k->site_count + 1, sizeof *banks);
    EngineLaunch launch = {.entry = object_kernel(object, "k"),
                           .name = "k",
                           .parameters = count,
                           .args = slots,
                           .extents = extents,
                           .arguments = arguments,
                           .sites = k->sites,
                           .site_count = (uint32_t)k->site_count,
                           .shared_bytes = k->shared_bytes,
                           .check_written = true,
                           .check_races = true,
                           .copies_early = c->options->copies_early,
                           .banks = banks};
    memcpy(launch.grid, k->grid, sizeof launch.grid);
    memcpy(launch.block, k->block, sizeof launch.block);
    Finding finding;
    if (!engine_run(&launch, &finding))
        fail_msg("%s: %s", name_of(c), finding.text);
    c->options->conflicts = 0;
    for (size_t i = 0; i <= k->site_count; i++)
        c->options->conflicts += banks[i].conflicts;
    object_unload(object);
    backend_destroy(backend);
    libdevice_close(device);
    free(scratch);
    if (scratch != NULL)
        shadow_deinit(&shadow);
}

static void compare(Run *c, uint32_t result, const Literal *want)
{
    const Shape *shape = c->shape[c->parameters + result];
    DType t = shape->dtype;
    size_t n = (size_t)want->count, step = dtype_storage_bytes(t);
    char *bytes = arena_alloc(c->arena, (size_t)shape_bytes(shape) + 1);
    char *got = arena_alloc(c->arena, n * step + 16),
         *wanted = arena_alloc(c->arena, n * step + 16);
    literal_to_device(want, shape, bytes);
    number_unpack(t, wanted, bytes, n);
    number_unpack(t, got, c->data[c->parameters + result], n);
    for (size_t i = 0; i < n; i++) {
        double a[2] = {0}, b[2] = {0};
        if (dtype_is_complex(t)) {
            number_get_complex(t, got + i * step, a);
            number_get_complex(t, wanted + i * step, b);
        } else {
            a[0] = number_get_double(t, got + i * step);
            b[0] = number_get_double(t, wanted + i * step);
        }
        for (int p = 0; p < 2; p++) {
            bool is_same = a[p] == b[p] || (isnan(a[p]) && isnan(b[p]));
            bool is_narrow = dtype_info[t].bits <= 16 && dtype_is_float(t);
            double most = (is_narrow || c->options->is_tf32) && c->options->tolerance != 0
                              ? c->options->tolerance
                              : 1e-5;
            if (!is_same &&
                !(fabs(a[p] - b[p]) <= most * fmax(fabs(b[p]), c->options->least)))
                fail_msg("%s: result %u, element %zu in memory is %.9g, not %.9g",
                         name_of(c), result, i, a[p], b[p]);
        }
    }
}

static const char *name_of(const Run *c)
{
    return arena_printf(c->arena, "%s [%s%s]", c->options->name,
                        kernel_kind_name(c->kind),
                        c->options->config != NULL ? c->options->config : "");
}

void kernel_case_check(KernelCase *options)
{
    Run c = {.options = options, .arena = arena_create()};
    EvalDevice device = {.arguments = c.input};
    const char *error = NULL;
    Target target;
    const char *name = options->target != NULL ? options->target : "sm_75";
    assert_true(target_find(name, &target));
    c.fusion = kernel_case_fusion(c.arena, options->text);
    c.module = c.fusion->parent->module;
    c.kind = kernel_kind_choose(c.fusion, options->target != NULL ? &target : NULL);
    if (options->kind != NULL)
        c.kind = kernel_kind_find(options->kind, strlen(options->kind));
    assert_true(c.kind < KERNEL_COUNT);
    kernel_kind_set(c.fusion, c.kind);
    if (options->config != NULL)
        config_set_object(c.fusion, "config", options->config);
    const char *illegal = kernel_illegal(c.fusion, c.kind);
    if (illegal != NULL)
        fail_msg("%s: %s", name_of(&c), illegal);
    make_arguments(&c);
    device.argument_count = c.parameters;
    if (module_evaluate(c.module, NULL, 1, &device, c.arena, &error) != EVAL_OK)
        fail_msg("%s: %s", options->name, error);
    run_kernel(&c, &target);
    for (uint32_t r = 0; r < c.results; r++) {
        const Literal *want = device.result;
        if (shape_is_tuple(want->shape))
            want = want->elements[r];
        compare(&c, r, want);
    }
    for (uint32_t i = 0; i < c.count; i++) {
        free(c.data[i]);
        shadow_deinit(&c.shadow[i]);
    }
    arena_destroy(c.arena);
}

const char *kernel_case_tf32(Arena *a, const char *text)
{
    static const char terms[] = "rhs_contracting_dims={";
    Text t;
    text_init(&t, a);
    for (const char *at; (at = strstr(text, terms)) != NULL;) {
        const char *end = strchr(at, '}') + 1;
        text_printf(&t, "%.*s, algorithm=dot_tf32_tf32_f32", (int)(end - text), text);
        text = end;
    }
    text_string(&t, text);
    return t.data;
}
