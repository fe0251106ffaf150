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

#include "ir/base/bug.h"

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

/* Pointers into shared memory have 32 bits: positions in tiles take half the arithmetic, and fewer registers.
 *
 * Straight-line strength reduction and reassociation of sums look for common parts of addresses, as ptxas does
 * after them, and join accesses, which emitters have joined: of 84 kernels' machine code 74 is the same byte for
 * byte without them. They are a sixth of LLVM's time, and most of it for tiles that are unrolled far.
 *
 * Common subexpressions are looked for once before selection. NVPTX would do so three times: two of them by gvn
 * where code generation is "aggressive", as nvptx_machine has it, and those are left out.
 *
 * Constants are immediate operands of PTX: the pass that hoists large ones changes no kernel.
 *
 * Equal instructions are not looked for once more after selection: ptxas finds those that are left. So it does with
 * unused ones; and the rest of the list finds nothing in NVPTX's instructions, which have no physical registers, or
 * in kernels, which call no library functions. */
static const char *const arguments[] = {
    "gxc",
    "-nvptx-short-ptr",
    "-disable-constant-hoisting",
    "-disable-machine-cse",
    "-disable-machine-dce",
    "-disable-peephole",
    "-disable-copyprop",
    "-disable-tail-duplicate",
    "-disable-ssc",
    "-disable-early-ifcvt",
    "-disable-postra-machine-licm",
    "-disable-postra-machine-sink",
    "-disable-partial-libcall-inlining",
    "-disable-mergeicmps",
    "-disable-expand-reductions",
    "-disable-select-optimize",
    "-opt-disable=slsr,nary-reassociate,load-store-vectorizer,gvn",
};

/* LLVM registers the passes of a code generator when it first makes them, under locks that an escape
 * would leave locked. So nothing at all is compiled before a machine is first used, while nobody else generates
 * code and could wait for a lock. */
static pthread_rwlock_t registry = PTHREAD_RWLOCK_INITIALIZER;

static void compile_nothing(LLVMTargetMachineRef machine, LLVMCodeGenFileType type)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef m = LLVMModuleCreateWithNameInContext("none", context);
    LLVMMemoryBufferRef code = NULL;
    char *message = NULL, *triple = LLVMGetTargetMachineTriple(machine);
    if (triple == NULL)
        escape_throw(ESCAPE_MEMORY, "out of memory in LLVM");
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetTarget(m, triple);
    LLVMSetModuleDataLayout(m, layout);
    LLVMDisposeTargetData(layout);
    LLVMDisposeMessage(triple);
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, m, type, &message, &code))
        bug("LLVM cannot compile nothing: %s", message);
    LLVMDisposeMemoryBuffer(code);
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
}

/* Why LLVM failed; empty: it has not. */
static char failure[sizeof(((Escape *)0)->message)];

static void throw_failure(void)
{
    escape_throw(ESCAPE_MEMORY, "LLVM could not be started: %s", failure);
}

/* Once for the process: LLVM itself (machine NULL), or the passes that generate code. An LLVM that has
 * started in part cannot start again, so every later compile says so. */
static void start_once(bool *has_started, LLVMTargetMachineRef machine,
                       LLVMCodeGenFileType type)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    Escape e;
    pthread_mutex_lock(&mutex);
    if (!*has_started && failure[0] == 0) {
        pthread_rwlock_wrlock(&registry);
        escape_push(&e);
        if (setjmp(e.target) != 0)
            ;
        else if (machine == NULL)
            start();
        else
            compile_nothing(machine, type);
        escape_pop(&e);
        *has_started = e.kind == ESCAPE_NONE;
        if (!*has_started)
            memcpy(failure, e.message, sizeof failure);
        pthread_rwlock_unlock(&registry);
    }
    bool has_failed = failure[0] != 0;
    pthread_mutex_unlock(&mutex);
    if (has_failed)
        throw_failure();
}

static LLVMMemoryBufferRef generate(LLVMModuleRef m, LLVMTargetMachineRef machine,
                                    LLVMCodeGenFileType type)
{
    LLVMMemoryBufferRef out;
    char *message = NULL;
    if (failure[0] != 0)
        throw_failure();
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, m, type, &message, &out)) {
        char copy[512];
        snprintf(copy, sizeof copy, "%s", message);
        LLVMDisposeMessage(message);
        bug("LLVM: %s", copy);
    }
    if (out == NULL) /* it takes its memory without LLVM's handler */
        escape_throw(ESCAPE_MEMORY, "out of memory in LLVM");
    return out;
}

LLVMMemoryBufferRef llvm_generate(LLVMModuleRef m, LLVMTargetMachineRef machine,
                                  LLVMCodeGenFileType type)
{
    static bool has_registered[2]; /* passes for assembly, for objects */
    LLVMMemoryBufferRef volatile out = NULL;
    Escape e;
    start_once(&has_registered[type == LLVMObjectFile], machine, type);
    pthread_rwlock_rdlock(&registry);
    escape_push(&e);
    if (setjmp(e.target) == 0)
        out = generate(m, machine, type);
    escape_pop(&e);
    pthread_rwlock_unlock(&registry);
    if (e.kind != ESCAPE_NONE)
        escape_throw(e.kind, "%s", e.message);
    return out;
}

LLVMContextRef llvm_context_create(void)
{
    static bool has_started;
    start_once(&has_started, NULL, LLVMAssemblyFile);
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
