/* Kernels of a compiled program: loaded, found by name, launched; and objects that are damaged, which are loaded
 * only, for they are machine code. */
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/elf.h"
#include "runtime/plan/plan.h"
#include "tests/fuzz/emulator/told.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/shared/folder.h"

enum { KERNELS = 32, PARAMETERS = 16, PIECE = TOLD_MEMORY / PARAMETERS };

static struct {
    Plan plan;
    PlanElfSection object;
    GxemuKernel kernels[KERNELS];
    size_t count;
} program;

static void open_program(void)
{
    char path[4200], error[512];
    snprintf(path, sizeof path, "%s/programs/memory.cubin", fuzz_folder());
    FILE *f = fopen(path, "rb");
    PROMISE(f != NULL, "no %s: tests/fuzz/run makes it", path);
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    static void *file; /* the plan and the object lie in it */
    file = aligned_alloc(64, (size + 64) / 64 * 64);
    PlanElfSection s;
    PROMISE(file != NULL && fread(file, 1, size, f) == size &&
                plan_elf_find(file, size, PLAN_ELF_PLAN, &s) &&
                plan_read(&program.plan, s.bytes, s.size, error, sizeof error) &&
                plan_elf_find(file, size, PLAN_ELF_EMU, &program.object),
            "%s is no program for the emulator", path);
    fclose(f);
    const Plan *p = &program.plan;
    for (; program.count < p->kernels_count && program.count < KERNELS; program.count++) {
        const PlanKernel *k = &p->kernels[program.count];
        program.kernels[program.count] =
            (GxemuKernel){.name = (const char *)p->strings + k->name,
                          .flags = k->flags & PLAN_KERNEL_BARRIERS ? GXEMU_BARRIERS : 0,
                          .parameter_count = k->parameter_count,
                          .static_shared_bytes = k->static_shared_bytes};
    }
}

/* --- damage -------------------------------------------------------------------------------- */

static void load_damaged(void)
{
    size_t bytes = program.object.size;
    unsigned char *copy = malloc(bytes);
    CUmodule m = NULL;
    PROMISE(copy != NULL, "no memory");
    memcpy(copy, program.object.bytes, bytes);
    /* the end has the sections' headers; elsewhere it is code, mostly */
    size_t start = told_choice(2) ? 0 : bytes - bytes / 4;
    size_t at = start + (told_choice(256) * 256u + told_choice(256)) % (bytes - start);
    for (int i = 0; i < 8; i++)
        copy[(at + (size_t)i) % bytes] =
            (unsigned char)told(copy[(at + (size_t)i) % bytes]);
    size_t cut = (size_t)told((int64_t)bytes);
    if (gxemuModuleLoad(&m, copy, cut < bytes ? cut : bytes, program.kernels,
                        program.count) == CUDA_SUCCESS)
        cuModuleUnload(m);
    free(copy);
}

/* --- launches ------------------------------------------------------------------------------ */

static const PlanCommand *find_launch(unsigned which)
{
    const Plan *p = &program.plan;
    const PlanCommand *found = NULL;
    for (uint32_t i = 0; i < p->commands_count; i++) {
        const PlanCommand *c = &p->commands[i];
        if (c->kind == PLAN_LAUNCH && c->arg_count <= PARAMETERS && c->index < KERNELS &&
            (found == NULL || which-- > 0))
            found = c;
    }
    return found;
}

static void launch(const Told *t, CUfunction f, const PlanCommand *c)
{
    const Plan *p = &program.plan;
    const PlanKernel *k = &p->kernels[c->index];
    GxemuParameter notes[PARAMETERS];
    uint64_t slots[PARAMETERS];
    void *parameters[PARAMETERS];
    for (uint32_t i = 0; i < c->arg_count; i++) {
        const PlanArg *a = &p->args[c->args + i];
        bool is_pointer = a->tag == PLAN_ARG_SLICE;
        notes[i] = (GxemuParameter){is_pointer ? GXEMU_POINTER : GXEMU_IMMEDIATE,
                                    is_pointer ? (uint32_t)told(a->access) : 0, 0};
        slots[i] = is_pointer ? told_address(t->memory + i * PIECE) : 0;
        notes[i].bytes =
            is_pointer ? (uint64_t)told((int64_t)p->slices[a->index].bytes) : 0;
        parameters[i] = told(1) ? &slots[i] : NULL;
    }
    CUlaunchAttribute attribute = {.id = (int)told(CU_LAUNCH_ATTRIBUTE_COOPERATIVE)};
    CUlaunchConfig config = {.gridDimX = (unsigned)told(k->grid[0]),
                             .gridDimY = (unsigned)told(k->grid[1]),
                             .gridDimZ = (unsigned)told(k->grid[2]),
                             .blockDimX = (unsigned)told(k->block[0]),
                             .blockDimY = (unsigned)told(k->block[1]),
                             .blockDimZ = (unsigned)told(k->block[2]),
                             .sharedMemBytes = (unsigned)told(k->shared_bytes),
                             .hStream = t->stream,
                             .attrs = &attribute,
                             .numAttrs = (unsigned)told(0) % 2};
    GxemuLaunch note = {"launched.1", notes, (uint32_t)told(c->arg_count)};
    if (note.parameter_count > PARAMETERS)
        note.parameter_count = PARAMETERS;
    DONE(gxemuLaunchKernel(told(1) ? &config : NULL, told(1) ? f : NULL,
                           told(1) ? parameters : NULL, &note));
    if (told_choice(2)) /* extents are those of the allocations */
        DONE(cuLaunchKernelEx(&config, f, parameters, told(0) ? parameters : NULL));
    DONE(cuStreamSynchronize(t->stream));
}

void tell_modules(const Told *t)
{
    CUmodule m = NULL;
    CUfunction f = NULL;
    if (program.count == 0)
        open_program();
    if (told_choice(4) == 3) {
        load_damaged();
        return;
    }
    const PlanCommand *c = find_launch(told_choice(16));
    if (told(0))
        DONE(cuModuleLoadData(told(1) ? &m : NULL, program.object.bytes));
    if (DONE(gxemuModuleLoad(told(1) ? &m : NULL, told(1) ? program.object.bytes : NULL,
                             program.object.size, program.kernels, program.count))) {
        const char *name = program.kernels[c->index].name;
        if (DONE(cuModuleGetFunction(told(1) ? &f : NULL, m, told(1) ? name : "other"))) {
            DONE(cuFuncSetAttribute(
                told(1) ? f : NULL,
                (int)told(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
                (int)told(65536)));
            launch(t, f, c);
        }
        told_calm();
        DONE(cuModuleUnload(m));
    }
}
