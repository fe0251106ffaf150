/* Drives LLVM: passes and code generation. */
#include "codegen/backend.h"

#include <llvm-c/DebugInfo.h>
#include <stdio.h>
#include <string.h>

#include "codegen/gx/host_bf16.h"
#include "codegen/gx/lower.h"
#include "codegen/gx/repeat.h"
#include "codegen/llvm.h"
#include "ir/base/bug.h"

enum { LLVM_HIGHEST_PTX = 90 };

struct Backend {
    Arena *arena;
    Libdevice *device;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetMachineRef nvptx, host; /* NULL: not needed yet */
    char nvptx_name[32];              /* target and PTX version of the machine */
    bool is_only;                     /* no module comes after this one */
};

/* ---- set-up ---- */

Backend *backend_create(Arena *a, Libdevice *device)
{
    Backend *b = ARENA_NEW(a, Backend);
    b->arena = a;
    b->device = device;
    b->context = llvm_context_create();
    b->module = LLVMModuleCreateWithNameInContext("gxc", b->context);
    return b;
}

void backend_destroy(Backend *b)
{
    if (!b)
        return;
    LLVMDisposeModule(b->module);
    if (b->nvptx)
        LLVMDisposeTargetMachine(b->nvptx);
    if (b->host)
        LLVMDisposeTargetMachine(b->host);
    LLVMContextDispose(b->context);
}

void backend_expect_no_other(Backend *b, bool is_only)
{
    b->is_only = is_only;
}

void backend_reset(Backend *b)
{
    LLVMDisposeModule(b->module);
    b->module = LLVMModuleCreateWithNameInContext("gxc", b->context);
}

LLVMModuleRef backend_module(Backend *b)
{
    return b->module;
}

const char *backend_text(Backend *b)
{
    char *text = LLVMPrintModuleToString(b->module);
    if (text == NULL) /* its last copy is by strdup */
        escape_throw(ESCAPE_MEMORY, "out of memory while LLVM's text was printed");
    char *copy = arena_text(b->arena, text, strlen(text));
    LLVMDisposeMessage(text);
    return copy;
}

const char *backend_llvm_version(void)
{
    static char text[32];
    if (!text[0]) {
        unsigned major, minor, patch;
        LLVMGetVersion(&major, &minor, &patch);
        snprintf(text, sizeof text, "%u.%u.%u", major, minor, patch);
    }
    return text;
}

/* ---- passes and code ---- */

static LLVMTargetMachineRef create_machine(const char *triple, const char *cpu,
                                           const char *features, LLVMRelocMode reloc,
                                           LLVMCodeGenOptLevel level)
{
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &message))
        bug("LLVM has no target %s: %s", triple, message);
    return LLVMCreateTargetMachine(target, triple, cpu, features, level, reloc,
                                   LLVMCodeModelDefault);
}

static void set_target(LLVMModuleRef m, LLVMTargetMachineRef machine, const char *triple)
{
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetTarget(m, triple);
    LLVMSetModuleDataLayout(m, layout);
    LLVMDisposeTargetData(layout);
}

/* "Aggressive" changes nothing but which passes look for common subexpressions: see `arguments` in llvm.c. */
static LLVMTargetMachineRef nvptx_machine(Backend *b, const Target *target, uint32_t ptx)
{
    char name[sizeof b->nvptx_name], features[16];
    snprintf(name, sizeof name, "%s %u", target->name, ptx);
    if (b->nvptx && strcmp(b->nvptx_name, name) == 0)
        return b->nvptx;
    if (b->nvptx)
        LLVMDisposeTargetMachine(b->nvptx);
    memcpy(b->nvptx_name, name, sizeof name);
    snprintf(features, sizeof features, "+ptx%u", ptx);
    b->nvptx = create_machine(NVPTX_TRIPLE, target->name, features, LLVMRelocDefault,
                              LLVMCodeGenLevelAggressive);
    return b->nvptx;
}

/* At -O0 code generation takes a quarter of the time, and its code still makes hundreds of
 * millions of checked accesses a second. */
static LLVMTargetMachineRef host_machine(Backend *b)
{
    if (!b->host)
        b->host =
            create_machine(HOST_TRIPLE, HOST_CPU, "", LLVMRelocPIC, LLVMCodeGenLevelNone);
    return b->host;
}

/* Names of what is no kernel get the kernel's in front: PTX of several modules is put together. A
 * kernel's own name has no '$'. */
static void qualify_names(Backend *b, LLVMModuleRef m, Kernel *const *kernels,
                          size_t count)
{
    size_t length;
    for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f)) {
        const char *name = LLVMGetValueName2(f, &length);
        bool is_kernel = LLVMIsDeclaration(f);
        for (size_t i = 0; i < count && !is_kernel; i++)
            is_kernel = strcmp(kernels[i]->name, name) == 0;
        if (is_kernel)
            continue;
        name = arena_printf(b->arena, "%s$%s", kernels[0]->name, name);
        LLVMSetValueName2(f, name, strlen(name));
    }
    for (LLVMValueRef g = LLVMGetFirstGlobal(m); g; g = LLVMGetNextGlobal(g)) {
        const char *name = LLVMGetValueName2(g, &length);
        if (strchr(name, '$') != NULL)
            continue;
        name = arena_printf(b->arena, "%s$%s", kernels[0]->name, name);
        LLVMSetValueName2(g, name, strlen(name));
    }
}

/* Takes the module, whose kernels become NVPTX's. */
static const char *module_ptx(Backend *b, LLVMModuleRef m, Kernel *const *kernels,
                              size_t count, const Target *target, uint32_t ptx)
{
    if (ptx > LLVM_HIGHEST_PTX)
        ptx = LLVM_HIGHEST_PTX;
    LLVMTargetMachineRef machine = nvptx_machine(b, target, ptx);
    lower_nvptx(m, kernels, count, target, ptx);
    set_target(m, machine, NVPTX_TRIPLE);
    if (b->is_only)
        libdevice_link_only(b->device, m, target->sm);
    else
        libdevice_link(b->device, m, target->sm, false);
    llvm_run_passes(m, machine,
                    "always-inline,function(simplifycfg,early-cse,instcombine<no-"
                    "verify-fixpoint>,"
                    "simplifycfg),globaldce");
    lower_nvptx_narrow(m, target);
    qualify_names(b, m, kernels, count);
    LLVMMemoryBufferRef text = llvm_generate(m, machine, LLVMAssemblyFile);
    char *copy = arena_text(b->arena, LLVMGetBufferStart(text), LLVMGetBufferSize(text));
    LLVMDisposeMemoryBuffer(text);
    return ptx_write_out(b->arena, copy);
}

const char *backend_ptx(Backend *b, Kernel *const *kernels, size_t count,
                        const Target *target, uint32_t ptx)
{
    for (size_t i = 0; i < count; i++)
        kernel_check(kernels[i]);
    LLVMModuleRef m = LLVMCloneModule(b->module);
    const char *text = module_ptx(b, m, kernels, count, target, ptx);
    LLVMDisposeModule(m);
    return text;
}

const char *backend_last_ptx(Backend *b, Kernel *const *kernels, size_t count,
                             const Target *target, uint32_t ptx)
{
    const char *text = module_ptx(b, b->module, kernels, count, target, ptx);
    backend_reset(b);
    return text;
}

const void *backend_host_object(Backend *b, Kernel *const *kernels, size_t count,
                                uint32_t sm, size_t *out_bytes)
{
    LLVMTargetMachineRef machine = host_machine(b);
    LLVMModuleRef m = b->module;
    LLVMStripModuleDebugInfo(m);
    lower_emu(m, kernels, count);
    set_target(m, machine, HOST_TRIPLE);
    libdevice_link(b->device, m, sm, true);
    /* Vectors become scalars because LLVM's fast instruction selection takes no vectors. */
    llvm_run_passes(
        m, machine,
        "always-inline,function(scalarizer<load-store>,early-cse,simplifycfg),"
        "globaldce");
    host_keep_bf16_bits(m);
    LLVMMemoryBufferRef object = llvm_generate(m, machine, LLVMObjectFile);
    *out_bytes = LLVMGetBufferSize(object);
    void *copy = arena_copy(b->arena, LLVMGetBufferStart(object), *out_bytes);
    LLVMDisposeMemoryBuffer(object);
    backend_reset(b);
    return copy;
}
