/* bitcast-convert between types of different widths, by the loop emitter: in memory the bytes
 * stay what they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/assembler/assemble.h"
#include "codegen/backend.h"
#include "codegen/kernel/emitters.h"
#include "runtime/emu/engine.h"
#include "runtime/emu/object.h"

enum { WIDEST = 37 }; /* elements of the wider type */

static const Shape *shape_of(Module *m, DType t, int64_t parts)
{
    int64_t dims[] = {WIDEST, parts};
    return shape_array(m->intern, t, parts > 1 ? 2 : 1, dims, NULL, NULL);
}

/* fusion(p) { bitcast-convert(p) } */
static Instruction *make_fusion(Module *m, DType from, DType to)
{
    unsigned a = dtype_info[from].bits, b = dtype_info[to].bits;
    const Shape *in = shape_of(m, from, a < b ? b / a : 1);
    const Shape *out = shape_of(m, to, a > b ? a / b : 1);
    Computation *fused = module_add_computation(m, "fused");
    Instruction *p = computation_add_parameter(fused, 0, in, NULL);
    fused->root = computation_add(fused, OP_BITCAST_CONVERT, out, 1, &p, NULL);
    fused->is_fused = true;
    Computation *entry = module_add_computation(m, "entry");
    Instruction *q = computation_add_parameter(entry, 0, in, NULL);
    Instruction *fusion = computation_add(entry, OP_FUSION, out, 1, &q, NULL);
    inst_set_computation(fusion, ATTR_CALLS, fused);
    return fusion;
}

static void run(const Kernel *k, const Object *object, const void *in, void *out,
                uint64_t bytes)
{
    const uint64_t args[] = {(uintptr_t)in, (uintptr_t)out}, extents[] = {bytes, bytes};
    const EngineArgument arguments[2] = {{0}};
    EngineLaunch launch = {.entry = object_kernel(object, k->name),
                           .name = k->name,
                           .parameters = 2,
                           .args = args,
                           .extents = extents,
                           .arguments = arguments,
                           .sites = k->sites,
                           .site_count = (uint32_t)k->site_count};
    Finding finding;
    memcpy(launch.grid, k->grid, sizeof launch.grid);
    memcpy(launch.block, k->block, sizeof launch.block);
    assert_non_null(launch.entry);
    assert_true(engine_run(&launch, &finding));
}

static void check(Arena *a, const Cuda *cuda, DType from, DType to)
{
    Module *m = module_create(a, diag_create(a, "test", "", 0), "test");
    unsigned wider = dtype_info[from].bits < dtype_info[to].bits ? dtype_info[to].bits
                                                                 : dtype_info[from].bits;
    uint64_t bytes = WIDEST * wider / 8;
    const char *error = NULL;
    char reason[OBJECT_REASON_BYTES];
    size_t size;
    unsigned char in[1024], out[1024] = {0};
    Libdevice *device = libdevice_open(a, cuda->libdevice, &error);
    Backend *b = backend_create(a, device);
    const KernelArg args[] = {
        {.align = 16, .bytes = bytes, .is_read_only = true, .is_noalias = true},
        {.align = 16, .bytes = bytes, .is_noalias = true}};
    KernelDesign design;
    Instruction *fusion = make_fusion(m, from, to);
    kernel_kind_set(fusion, KERNEL_LOOP);
    kernel_design(fusion, NULL, a, &design);
    assert_null(design.wrong);
    assert_null(design.unsupported);
    EmitterInput input = {.arena = a,
                          .module = backend_module(b),
                          .fusion = fusion,
                          .design = &design,
                          .name = "bitcast",
                          .args = args,
                          .arg_count = 2};
    Kernel *k = emitter_function(design.kind)(&input);
    const void *data = backend_host_object(b, &k, 1, 90, &size);
    Object *object = object_load(data, size, reason);
    assert_non_null(object);
    for (size_t i = 0; i < bytes; i++)
        in[i] = (unsigned char)(i * 41 + 7);
    run(k, object, in, out, bytes);
    if (memcmp(in, out, bytes) != 0)
        fail_msg("from %s to %s", dtype_name(from), dtype_name(to));
    object_unload(object);
    backend_destroy(b);
    libdevice_close(device);
}

static void bytes_stay(void **state)
{
    (void)state;
    static const DType pairs[][2] = {
        {DT_U32, DT_U8}, {DT_U8, DT_U32},      {DT_F64, DT_U16}, {DT_U16, DT_F64},
        {DT_S4, DT_U32}, {DT_U64, DT_U4},      {DT_C64, DT_U32}, {DT_U32, DT_C64},
        {DT_U4, DT_S8},  {DT_S8, DT_F4E2M1FN}, {DT_C128, DT_U8}, {DT_BF16, DT_C128},
    };
    Arena *a = arena_create();
    Cuda cuda;
    const char *error = NULL;
    assert_true(cuda_find(a, NULL, ASSEMBLER_ANY, &cuda, &error));
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        check(a, &cuda, pairs[i][0], pairs[i][1]);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
