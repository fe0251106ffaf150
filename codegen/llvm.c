/* Starts LLVM and turns its ways of failing into escapes. See llvm.h. */
#include "codegen/llvm.h"

#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ir/bug.h"

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

/* LLVM and libstdc++ have no C interface to these. Both handlers leave LLVM as it is: what it held is
 * lost, and the objects that were at work are not touched again. */
typedef void OnNoMemory(void *user, const char *reason, bool crash);
typedef void OnNoNew(void);
extern void install_bad_alloc_error_handler(OnNoMemory *handler, void *user) __asm__(
    "_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_");
extern OnNoNew *set_new_handler(OnNoNew *handler) __asm__("_ZSt15set_new_handlerPFvvE");

static void on_no_memory(void *user, const char *reason, bool crash)
{
    (void)user, (void)crash;
    escape_throw(ESCAPE_MEMORY, "out of memory in LLVM: %s", reason);
}

/* Outside of the library's calls nobody waits for an escape: operator new throws. */
static void on_no_new(void)
{
    if (escape_innermost() == NULL)
        set_new_handler(NULL);
    else
        escape_throw(ESCAPE_MEMORY, "out of memory in LLVM");
}

/* LLVM's constructors, where a program was linked with llvm.ld; elsewhere there are none here, for
 * they have run. */
typedef void Constructor(void);
extern Constructor *const gxc_llvm_init_begin[] __attribute__((weak));
extern Constructor *const gxc_llvm_init_end[] __attribute__((weak));

/* Pointers into shared memory have 32 bits: places in tiles take half the arithmetic, and fewer registers.
 *
 * Straight-line strength reduction and reassociation of sums look for common parts of addresses, as ptxas does
 * after them, and join accesses, which emitters have joined: of 84 kernels' machine code 74 is the same byte for
 * byte without them. They are a sixth of LLVM's time, and most of it for tiles that are unrolled far. */
static const char *const arguments[] = {
    "gxc", "-nvptx-short-ptr",
    "-opt-disable=slsr,nary-reassociate,load-store-vectorizer"};

/* LLVM registers the passes of a code generator when it first makes them, under locks that an escape
 * would leave locked. So nothing at all is compiled, before anybody else can wait for a lock. */
static void register_passes(const char *triple, LLVMCodeGenOptLevel level,
                            LLVMCodeGenFileType type)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef m = LLVMModuleCreateWithNameInContext("none", context);
    LLVMTargetRef target = NULL;
    LLVMMemoryBufferRef code = NULL;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &message))
        bug("LLVM has no target %s", triple);
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
        target, triple, "", "", level, LLVMRelocPIC, LLVMCodeModelDefault);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetTarget(m, triple);
    LLVMSetModuleDataLayout(m, layout);
    LLVMDisposeTargetData(layout);
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, m, type, &message, &code))
        bug("LLVM compiles nothing for %s", triple);
    LLVMDisposeMemoryBuffer(code);
    LLVMDisposeTargetMachine(machine);
    LLVMDisposeModule(m);
    LLVMContextDispose(context);
}

static void start(void)
{
    install_bad_alloc_error_handler(on_no_memory, NULL);
    set_new_handler(on_no_new);
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
    LLVMParseCommandLineOptions(sizeof arguments / sizeof *arguments, arguments, NULL);
    LLVMInstallFatalErrorHandler(on_fatal_error);
    register_passes(NVPTX_TRIPLE, LLVMCodeGenLevelDefault, LLVMAssemblyFile);
    register_passes(HOST_TRIPLE, LLVMCodeGenLevelNone, LLVMObjectFile);
}

/* Once for the process. An LLVM that has started in part cannot start again, so every later
 * compile says so. */
static void start_once(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static enum { NOT_STARTED, STARTED, FAILED } state;
    static char why[sizeof(((Escape *)0)->message)];
    Escape e;
    pthread_mutex_lock(&mutex);
    escape_push(&e);
    if (state == NOT_STARTED && setjmp(e.target) == 0)
        start();
    escape_pop(&e);
    if (state == NOT_STARTED) {
        state = e.kind == ESCAPE_NONE ? STARTED : FAILED;
        memcpy(why, e.message, sizeof why);
    }
    bool has_failed = state == FAILED;
    pthread_mutex_unlock(&mutex);
    if (has_failed)
        escape_throw(ESCAPE_MEMORY, "LLVM could not be started: %s", why);
}

LLVMContextRef llvm_context_create(void)
{
    start_once();
    LLVMContextRef context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(context, on_diagnostic, NULL);
    LLVMContextSetDiscardValueNames(context, 1);
    return context;
}

void llvm_run_passes(LLVMModuleRef m, LLVMTargetMachineRef machine, const char *passes)
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
