/* Starts LLVM and turns its ways of failing into escapes. See llvm.h. */
#include "codegen/llvm.h"

#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdio.h>

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

static void start(void)
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
    LLVMParseCommandLineOptions(sizeof arguments / sizeof *arguments, arguments, NULL);
    LLVMInstallFatalErrorHandler(on_fatal_error);
}

LLVMContextRef llvm_context_create(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
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
