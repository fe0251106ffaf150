/* Drives LLVM: set-up, passes, code generation. */
#include "codegen/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/gx/host_bf16.h"
#include "codegen/gx/libdevice.h"
#include "codegen/gx/lower.h"
#include "ir/bug.h"

enum { LLVM_HIGHEST_PTX = 90 };

#if defined(__aarch64__)
#define HOST_TRIPLE "aarch64-unknown-linux-gnu"
#define HOST_CPU "generic"
#else
#define HOST_TRIPLE "x86_64-unknown-linux-gnu"
#define HOST_CPU "x86-64-v3"
#endif
#define NVPTX_TRIPLE "nvptx64-nvidia-cuda"

struct Backend {
    Arena *arena;
    LLVMContextRef context;
    LLVMModuleRef module;
    const char *libdevice; /* mapped */
    size_t libdevice_bytes;
};

/* ---- set-up ---- */

static void on_fatal_error(const char *reason)
{
    bug("LLVM: %s", reason);
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user)
{
    (void)user;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError)
        return;
    char *text = LLVMGetDiagInfoDescription(info), copy[1024];
    snprintf(copy, sizeof copy, "%s", text);
    LLVMDisposeMessage(text);
    bug("LLVM: %s", copy);
}

/* LLVM's constructors, where a program was linked with llvm.ld; elsewhere there are none here, for
 * they have run. */
typedef void Constructor(void);
extern Constructor *const gxc_llvm_init_begin[] __attribute__((weak));
extern Constructor *const gxc_llvm_init_end[] __attribute__((weak));

static void initialise_llvm(void)
{
    for (Constructor *const *c = gxc_llvm_init_begin; c != gxc_llvm_init_end; c++)
        (*c)();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
#if defined(__aarch64__)
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
#else
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
#endif
    LLVMInstallFatalErrorHandler(on_fatal_error);
}

static bool map_libdevice(Backend *b, const char *path, const char **out_error)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        *out_error = arena_printf(b->arena, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    b->libdevice_bytes = (size_t)info.st_size;
    void *data = mmap(NULL, b->libdevice_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED) {
        *out_error = arena_printf(b->arena, "%s: %s", path, strerror(errno));
        return false;
    }
    b->libdevice = data;
    return true;
}

Backend *backend_create(Arena *a, const char *libdevice, const char **out_error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    Backend *b = ARENA_NEW(a, Backend);
    b->arena = a;
    if (!map_libdevice(b, libdevice, out_error))
        return NULL;
    pthread_once(&once, initialise_llvm);
    b->context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(b->context, on_diagnostic, NULL);
    LLVMContextSetDiscardValueNames(b->context, 1);
    b->module = LLVMModuleCreateWithNameInContext("gxc", b->context);
    return b;
}

void backend_destroy(Backend *b)
{
    if (!b)
        return;
    LLVMDisposeModule(b->module);
    LLVMContextDispose(b->context);
    union {
        const char *in;
        void *out;
    } mapping = {b->libdevice};
    munmap(mapping.out, b->libdevice_bytes);
}

LLVMModuleRef backend_module(Backend *b)
{
    return b->module;
}

const char *backend_text(Backend *b)
{
    char *text = LLVMPrintModuleToString(b->module);
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

static void run_passes(LLVMModuleRef m, LLVMTargetMachineRef machine, const char *passes)
{
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(m, passes, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error) {
        char *text = LLVMGetErrorMessage(error), copy[512];
        snprintf(copy, sizeof copy, "%s", text);
        LLVMDisposeErrorMessage(text);
        bug("LLVM's passes: %s", copy);
    }
}

static LLVMMemoryBufferRef emit(LLVMModuleRef m, LLVMTargetMachineRef machine,
                                LLVMCodeGenFileType type)
{
    LLVMMemoryBufferRef out;
    char *message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, m, type, &message, &out)) {
        char copy[512];
        snprintf(copy, sizeof copy, "%s", message);
        LLVMDisposeMessage(message);
        bug("LLVM: %s", copy);
    }
    return out;
}

static void link_libdevice(Backend *b, LLVMModuleRef m, uint32_t sm)
{
    if (!libdevice_link(m, b->libdevice, b->libdevice_bytes, sm))
        bug("libdevice lacks a function that a kernel calls, or is no bitcode of this "
            "LLVM");
}

const char *backend_ptx(Backend *b, Kernel *const *kernels, size_t count,
                        const Target *target, uint32_t ptx)
{
    char features[16];
    if (ptx > LLVM_HIGHEST_PTX)
        ptx = LLVM_HIGHEST_PTX;
    snprintf(features, sizeof features, "+ptx%u", ptx);
    LLVMModuleRef m = lower_nvptx(b->module, kernels, count, target, ptx);
    LLVMTargetMachineRef machine = create_machine(
        NVPTX_TRIPLE, target->name, features, LLVMRelocDefault, LLVMCodeGenLevelDefault);
    set_target(m, machine, NVPTX_TRIPLE);
    link_libdevice(b, m, target->sm);
    run_passes(m, machine,
               "always-inline,function(simplifycfg,early-cse<memssa>,instcombine<no-"
               "verify-fixpoint>,"
               "simplifycfg),globaldce");
    lower_nvptx_narrow(m, target->sm);
    LLVMMemoryBufferRef text = emit(m, machine, LLVMAssemblyFile);
    char *copy = arena_text(b->arena, LLVMGetBufferStart(text), LLVMGetBufferSize(text));
    LLVMDisposeMemoryBuffer(text);
    LLVMDisposeModule(m);
    LLVMDisposeTargetMachine(machine);
    return copy;
}

const void *backend_host_object(Backend *b, Kernel *const *kernels, size_t count,
                                uint32_t sm, size_t *out_bytes)
{
    LLVMModuleRef m = lower_emu(b->module, kernels, count);
    /* At -O0 code generation takes a quarter of the time, and its code still makes hundreds of
     * millions of checked accesses a second. */
    LLVMTargetMachineRef machine =
        create_machine(HOST_TRIPLE, HOST_CPU, "", LLVMRelocPIC, LLVMCodeGenLevelNone);
    set_target(m, machine, HOST_TRIPLE);
    link_libdevice(b, m, sm);
    /* Branches that the reflected constants decided go first: what they guard has no rows. */
    run_passes(m, machine, "function(early-cse,simplifycfg),globaldce");
    libdevice_lower_for_host(m);
    run_passes(m, machine,
               "always-inline,function(early-cse<memssa>,simplifycfg),globaldce");
    host_keep_bf16_bits(m);
    LLVMMemoryBufferRef object = emit(m, machine, LLVMObjectFile);
    *out_bytes = LLVMGetBufferSize(object);
    void *copy = arena_copy(b->arena, LLVMGetBufferStart(object), *out_bytes);
    LLVMDisposeMemoryBuffer(object);
    LLVMDisposeModule(m);
    LLVMDisposeTargetMachine(machine);
    return copy;
}
