/* Modules of host objects, and launches: every pointer argument is resolved to its allocation
 * and to the bytes that the kernel may touch. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/allocation.h"
#include "runtime/emu/banks.h"
#include "runtime/emu/context.h"
#include "runtime/emu/device.h"
#include "runtime/emu/engine.h"
#include "runtime/emu/object.h"
#include "runtime/emu/queue.h"
#include "runtime/emu/steps.h"
#include "runtime/plan/launch_limits.h"

enum { MOST_PARAMETERS = 4096, SHARED_WITHOUT_ASKING = 48 * 1024 };

struct CUfunc_st {
    char *name;
    gxemu_kernel entry;
    uint32_t parameters;
    uint32_t static_shared;
    uint32_t site_count;
    const char **sites;    /* in the object */
    unsigned most_dynamic; /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
};

struct CUmod_st {
    Object *object;
    struct CUfunc_st *functions;
    size_t count;
};

static char *text_copy(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    return copy == NULL ? NULL : memcpy(copy, text, bytes);
}

static void module_destroy(CUmodule m)
{
    if (m == NULL)
        return;
    for (size_t i = 0; i < m->count; i++) {
        free(m->functions[i].sites);
        free(m->functions[i].name);
    }
    free(m->functions);
    object_unload(m->object);
    free(m);
}

static uint32_t word_at(const unsigned char *data)
{
    uint32_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

/* The names of K.sites (runtime/emu/abi.def). An object without them says nothing of its accesses. */
static CUresult sites_read(struct CUfunc_st *f, const Object *o, const char *kernel)
{
    size_t bytes = 0, length = strlen(kernel) + sizeof ".sites";
    char *name = malloc(length);
    if (name == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    snprintf(name, length, "%s.sites", kernel);
    const unsigned char *data = object_data(o, name, &bytes);
    free(name);
    if (data == NULL)
        return CUDA_SUCCESS;
    uint32_t count = bytes < 4 ? 0 : word_at(data);
    if (bytes < 4 || count > bytes / 4 - 1)
        return emu_refuse(CUDA_ERROR_INVALID_IMAGE,
                          "the sites of kernel %s are damaged: %zu bytes", kernel, bytes);
    f->sites = calloc((size_t)count + 1, sizeof *f->sites);
    if (f->sites == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = word_at(data + 4 + 4 * (size_t)i);
        if (at >= bytes || memchr(data + at, 0, bytes - at) == NULL)
            return emu_refuse(CUDA_ERROR_INVALID_IMAGE,
                              "site %u of kernel %s lies outside", i, kernel);
        f->sites[i] = (const char *)data + at;
    }
    f->site_count = count;
    return CUDA_SUCCESS;
}

static CUresult function_init(struct CUfunc_st *f, const Object *o, const GxemuKernel *k)
{
    if (k->name == NULL || k->parameter_count > MOST_PARAMETERS)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE, "a kernel with %u parameters",
                          k->parameter_count);
    f->entry = object_kernel(o, k->name);
    if (f->entry == NULL)
        return emu_refuse(CUDA_ERROR_INVALID_IMAGE,
                          "the emulator object has no kernel %s", k->name);
    f->parameters = k->parameter_count;
    f->static_shared = k->static_shared_bytes;
    f->most_dynamic = SHARED_WITHOUT_ASKING;
    f->name = text_copy(k->name);
    return f->name == NULL ? CUDA_ERROR_OUT_OF_MEMORY : sites_read(f, o, k->name);
}

CUresult gxemuModuleLoad(CUmodule *out, const void *object, size_t bytes,
                         const GxemuKernel *kernels, size_t kernel_count)
{
    CUcontext c;
    char reason[OBJECT_REASON_BYTES] = "";
    CUresult r = emu_enter("gxemuModuleLoad", &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (out == NULL || object == NULL || (kernels == NULL && kernel_count != 0))
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    CUmodule m = calloc(1, sizeof *m);
    if (m == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->object = object_load(object, bytes, reason);
    if (m->object == NULL) {
        free(m);
        return emu_refuse(CUDA_ERROR_INVALID_IMAGE,
                          "the emulator object cannot be loaded: %s", reason);
    }
    m->functions = calloc(kernel_count + 1, sizeof *m->functions);
    if (m->functions == NULL)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < kernel_count && r == CUDA_SUCCESS; i++) {
        m->count = i + 1;
        r = function_init(&m->functions[i], m->object, &kernels[i]);
    }
    if (r != CUDA_SUCCESS) {
        module_destroy(m);
        return r;
    }
    *out = m;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CUcontext c;
    CUresult r = emu_enter("cuModuleLoadData", &c);
    if (r != CUDA_SUCCESS)
        return r;
    (void)image;
    if (module != NULL)
        *module = NULL;
    return emu_refuse(CUDA_ERROR_INVALID_IMAGE,
                      "the emulator runs host objects (gxc --target=emu), not cubins");
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values)
{
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(module, image);
}

CUresult cuModuleUnload(CUmodule module)
{
    CUcontext c;
    CUresult r = emu_enter("cuModuleUnload", &c);
    if (c == NULL)
        return r;
    if (module == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    queue_synchronize_all(c);
    module_destroy(module);
    return r;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CUcontext c;
    CUresult r = emu_enter("cuModuleGetFunction", &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (function == NULL || module == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < module->count; i++) {
        if (strcmp(module->functions[i].name, name) == 0) {
            *function = &module->functions[i];
            return CUDA_SUCCESS;
        }
    }
    return emu_refuse(CUDA_ERROR_NOT_FOUND, "the module has no kernel %s", name);
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    CUcontext c;
    CUresult r = emu_enter("cuFuncSetAttribute", &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (function == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
        return CUDA_SUCCESS;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "the emulator does not know function attribute %d", attribute);
    if (value < 0 || value + (int64_t)function->static_shared > device_most_shared())
        return emu_refuse(
            CUDA_ERROR_INVALID_VALUE,
            "kernel %s: %d bytes of shared memory; a block of this device has at "
            "most %d",
            function->name, value, device_most_shared());
    function->most_dynamic = (unsigned)value;
    return CUDA_SUCCESS;
}

/* A launch in a queue; the arrays lie behind it in the same piece of memory. */
typedef struct Launch {
    Operation operation;
    CUcontext context;
    CUfunction function;
    EngineLaunch engine;
    GxemuParameter *notes; /* what the caller said of the parameters */
    bool has_notes;
    char *title;
} Launch;

/* Sites of one HLO instruction are one line. False: an errno. */
static bool banks_write(const EngineLaunch *l, const char *path)
{
    FILE *out = fopen(path, "a");
    if (out == NULL)
        return false;
    for (uint32_t i = 0; i <= l->site_count; i++) {
        const char *name = i < l->site_count && l->sites != NULL ? l->sites[i] : "?";
        uint64_t phases = l->banks[i].phases, conflicts = l->banks[i].conflicts;
        if (phases != 0)
            fprintf(out,
                    "%s: %s: %" PRIu64 " phases of shared memory, %" PRIu64
                    " conflicts\n",
                    l->name, name, phases, conflicts);
    }
    bool failed = ferror(out) != 0;
    return fclose(out) == 0 && !failed;
}

static bool launch_run(Operation *op, Finding *out)
{
    Launch *l = (Launch *)(void *)op;
    const char *banks = emu_config()->banks;
    bool checked = l->engine.check_written || l->engine.check_races || banks != NULL;
    if (banks != NULL)
        l->engine.banks = calloc((size_t)l->engine.site_count + 1, sizeof(BankCount));
    /* The shadow of the device's memory is for one launch at a time. */
    if (checked)
        pthread_mutex_lock(&l->context->launching);
    bool done =
        steps_take_threads(l->engine.grid, l->engine.block, l->engine.name, out) &&
        engine_run(&l->engine, out);
    if (l->engine.banks != NULL && !banks_write(&l->engine, banks) && done) {
        finding_set(out, FINDING_INVALID, "GXEMU_BANKS=%s: cannot be written: %s", banks,
                    strerror(errno));
        done = false;
    }
    if (checked)
        pthread_mutex_unlock(&l->context->launching);
    free(l->engine.banks);
    l->engine.banks = NULL;
    return done;
}

static CUresult config_check(const CUlaunchConfig *c, CUfunction f)
{
    const uint32_t grid[3] = {c->gridDimX, c->gridDimY, c->gridDimZ};
    const uint32_t block[3] = {c->blockDimX, c->blockDimY, c->blockDimZ};
    if (!launch_sizes_fit(grid, block))
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "kernel %s: a grid of %ux%ux%u blocks of %ux%ux%u threads",
                          f->name, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX,
                          c->blockDimY, c->blockDimZ);
    uint64_t shared = (uint64_t)c->sharedMemBytes + f->static_shared;
    if (c->sharedMemBytes > f->most_dynamic || shared > (uint64_t)device_most_shared())
        return emu_refuse(
            CUDA_ERROR_INVALID_VALUE,
            "kernel %s: %u bytes of dynamic shared memory, %u were asked for, a "
            "block of this device has at most %d",
            f->name, c->sharedMemBytes, f->most_dynamic, device_most_shared());
    return CUDA_SUCCESS;
}

/* Sets argument i from the pointer in `slot`. `p` NULL: as far as the allocation goes, and a
 * slot that is no device address is an immediate. */
static CUresult argument_set(uint64_t slot, const GxemuParameter *p, uint32_t i,
                             const char *name, uint64_t *extent, EngineArgument *argument)
{
    char what[200];
    Finding finding = {0};
    Allocation *a;
    if (p == NULL) {
        a = allocation_at(slot);
        if (a == NULL)
            return CUDA_SUCCESS;
    } else {
        if (p->bytes == 0)
            return CUDA_SUCCESS;
        snprintf(what, sizeof what, "argument %u of %.100s", i, name);
        a = allocation_find(slot, p->bytes, what, &finding);
        if (a == NULL)
            return emu_refuse_finding(&finding);
    }
    argument->shadow = &a->shadow;
    argument->offset = slot - a->base;
    argument->is_read_only = p != NULL && p->access == 1;
    *extent = p != NULL ? p->bytes : a->bytes - argument->offset;
    return CUDA_SUCCESS;
}

/* Memory for a launch with its arrays: args, extents, arguments, notes, name. */
static Launch *launch_create(uint32_t parameters, const char *name)
{
    size_t n = parameters, name_bytes = strlen(name) + 1;
    size_t bytes = sizeof(Launch) +
                   n * (8 + 8 + sizeof(EngineArgument) + sizeof(GxemuParameter)) +
                   name_bytes;
    Launch *l = calloc(1, bytes);
    if (l == NULL)
        return NULL;
    EngineArgument *arguments = (EngineArgument *)(void *)(l + 1);
    uint64_t *slots = (uint64_t *)(void *)(arguments + n);
    l->engine.arguments = arguments;
    l->engine.args = slots;
    l->engine.extents = slots + n;
    l->notes = (GxemuParameter *)(void *)(slots + 2 * n);
    l->title = (char *)l + bytes - name_bytes;
    memcpy(l->title, name, name_bytes);
    return l;
}

/* The memory behind the pointers among the arguments. */
static CUresult arguments_bind(Launch *l)
{
    EngineArgument *arguments = (EngineArgument *)(void *)(l + 1);
    uint64_t *slots = (uint64_t *)(void *)(arguments + l->engine.parameters);
    uint64_t *extents = slots + l->engine.parameters;
    for (uint32_t i = 0; i < l->engine.parameters; i++) {
        const GxemuParameter *p = l->has_notes ? &l->notes[i] : NULL;
        if (p == NULL || p->kind == GXEMU_POINTER) {
            CUresult r =
                argument_set(slots[i], p, i, l->title, &extents[i], &arguments[i]);
            if (r != CUDA_SUCCESS)
                return r;
        }
    }
    return CUDA_SUCCESS;
}

static CUresult arguments_fill(Launch *l, void **parameters, const GxemuLaunch *launch)
{
    EngineArgument *arguments = (EngineArgument *)(void *)(l + 1);
    uint64_t *slots = (uint64_t *)(void *)(arguments + l->engine.parameters);
    l->has_notes = launch != NULL;
    for (uint32_t i = 0; i < l->engine.parameters; i++) {
        if (parameters[i] == NULL)
            return emu_refuse(CUDA_ERROR_INVALID_VALUE, "argument %u of %s is missing", i,
                              l->title);
        memcpy(&slots[i], parameters[i], 8);
        if (launch != NULL)
            l->notes[i] = launch->parameters[i];
    }
    return arguments_bind(l);
}

static bool launch_bind(Operation *op, Finding *out)
{
    Launch *l = (Launch *)(void *)op;
    if (arguments_bind(l) == CUDA_SUCCESS)
        return true;
    finding_set(out, FINDING_MEMORY,
                "kernel %s: an argument of a graph lies in no allocation any more",
                l->title);
    return false;
}

static CUresult launch_again(const Operation *old, const CUgraphNodeParams *p,
                             Operation **out);

static CUresult launch_make(CUcontext c, const CUlaunchConfig *config, CUfunction f,
                            void **parameters, const GxemuLaunch *launch, Launch **out)
{
    CUresult r = config_check(config, f);
    if (r != CUDA_SUCCESS)
        return r;
    const char *name = launch != NULL && launch->name != NULL ? launch->name : f->name;
    Launch *l = launch_create(f->parameters, name);
    if (l == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->operation =
        (Operation){.run = launch_run, .bind = launch_bind, .again = launch_again};
    l->context = c;
    l->function = f;
    l->engine.entry = f->entry;
    l->engine.name = l->title;
    l->engine.parameters = f->parameters;
    l->engine.sites = f->sites;
    l->engine.site_count = f->site_count;
    l->engine.grid[0] = config->gridDimX;
    l->engine.grid[1] = config->gridDimY;
    l->engine.grid[2] = config->gridDimZ;
    l->engine.block[0] = config->blockDimX;
    l->engine.block[1] = config->blockDimY;
    l->engine.block[2] = config->blockDimZ;
    l->engine.shared_bytes = (uint64_t)f->static_shared + config->sharedMemBytes;
    l->engine.check_written = emu_config()->shadow;
    l->engine.check_races = emu_config()->race;
    l->engine.copies_early = emu_config()->copies_early;
    r = arguments_fill(l, parameters, launch);
    if (r != CUDA_SUCCESS) {
        free(l);
        return r;
    }
    *out = l;
    return CUDA_SUCCESS;
}

static CUresult launch_again(const Operation *old, const CUgraphNodeParams *p,
                             Operation **out)
{
    const Launch *before = (const Launch *)(const void *)old;
    const CUDA_KERNEL_NODE_PARAMS_v3 *k = &p->kernel;
    CUfunction f = before->function;
    if (p->type != CU_GRAPH_NODE_TYPE_KERNEL || k->func != f || k->extra != NULL ||
        (k->kernelParams == NULL && f->parameters != 0))
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "a node of a graph becomes another kind of operation");
    CUlaunchConfig config = {.gridDimX = k->gridDimX,
                             .gridDimY = k->gridDimY,
                             .gridDimZ = k->gridDimZ,
                             .blockDimX = k->blockDimX,
                             .blockDimY = k->blockDimY,
                             .blockDimZ = k->blockDimZ,
                             .sharedMemBytes = k->sharedMemBytes};
    GxemuLaunch launch = {before->title, before->notes, f->parameters};
    Launch *l = NULL;
    CUresult r = launch_make(before->context, &config, f, k->kernelParams,
                             before->has_notes ? &launch : NULL, &l);
    if (r == CUDA_SUCCESS)
        *out = &l->operation;
    return r;
}

static CUresult launch_submit(const char *caller, const CUlaunchConfig *config,
                              CUfunction f, void **parameters, const GxemuLaunch *launch)
{
    CUcontext c;
    Launch *l = NULL;
    CUresult r = emu_enter(caller, &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (config == NULL || f == NULL || (parameters == NULL && f->parameters != 0))
        return emu_refuse(CUDA_ERROR_INVALID_VALUE, "%s: an argument is NULL", caller);
    if (launch != NULL && launch->parameter_count != f->parameters)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE, "kernel %s has %u parameters, not %u",
                          f->name, f->parameters, launch->parameter_count);
    r = launch_make(c, config, f, parameters, launch, &l);
    return r == CUDA_SUCCESS ? queue_submit(c, config->hStream, &l->operation) : r;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                          void **parameters, void **extra)
{
    if (extra != NULL)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "cuLaunchKernelEx: `extra` is not supported");
    return launch_submit("cuLaunchKernelEx", config, function, parameters, NULL);
}

CUresult gxemuLaunchKernel(const CUlaunchConfig *config, CUfunction function,
                           void **parameters, const GxemuLaunch *launch)
{
    return launch_submit("gxemuLaunchKernel", config, function, parameters, launch);
}
