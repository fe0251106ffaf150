/* Links libdevice. Its bitcode is large, so the functions that kernels call, with all that these
 * call, are first cut out of it into a subset, of which each kernel's module then takes what it
 * needs. A subset grows when a kernel calls a function that it lacks. What a module gets does not
 * depend on what else a subset holds: functions keep libdevice's order in it. A program's only module takes them
 * out of the file itself.
 *
 * All functions are linkonce_odr in a subset, and it is parsed lazily, so that only those that are
 * called are read at all. */
#define _GNU_SOURCE /* memory mapping */
#include "codegen/gx/libdevice.h"

#include <errno.h>
#include <fcntl.h>
#include <llvm-c/BitReader.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Linker.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/gx/device_host.h"
#include "codegen/llvm.h"
#include "ir/base/bug.h"

typedef struct Bitcode {
    const char *data;
    size_t bytes;
} Bitcode;

typedef struct Subset {
    uint32_t sm;
    const char **names; /* sorted */
    size_t name_count, name_capacity;
    Bitcode device, host; /* host: made when first asked for, data NULL before */
    struct Subset *next;
} Subset;

struct Libdevice {
    Bitcode file; /* mapped */
    pthread_mutex_t mutex;
    Arena *arena; /* of subsets; theirs, old ones too, are read until the end */
    Subset *subsets;
    Subset
        expected; /* names only: all subsets have them from the beginning, as growing costs more */
};

static const char *const function_prefix = "__nv_";
enum { PREFIX_LENGTH = 5 };

Libdevice *libdevice_open(Arena *a, const char *path, const char **out_error)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        *out_error = arena_printf(a, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED) {
        *out_error = arena_printf(a, "%s: %s", path, strerror(errno));
        return NULL;
    }
    Libdevice *l = ARENA_NEW(a, Libdevice);
    l->file = (Bitcode){data, (size_t)info.st_size};
    l->arena = arena_create();
    pthread_mutex_init(&l->mutex, NULL);
    return l;
}

void libdevice_close(Libdevice *l)
{
    if (l == NULL)
        return;
    union {
        const char *in;
        void *out;
    } mapping = {l->file.data};
    munmap(mapping.out, l->file.bytes);
    pthread_mutex_destroy(&l->mutex);
    arena_destroy(l->arena);
}

const void *libdevice_bytes(const Libdevice *l, size_t *bytes)
{
    *bytes = l->file.bytes;
    return l->file.data;
}

/* ---- names ---- */

/* Index of `name` in the subset, or where it goes. */
static size_t find_name(const Subset *s, const char *name, bool *found)
{
    size_t low = 0, high = s->name_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(s->names[middle], name);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = false;
    return low;
}

/* The next declaration of a function of libdevice that is called from `f` on. */
static LLVMValueRef next_needed(LLVMValueRef f, const char **out_name)
{
    for (; f; f = LLVMGetNextFunction(f)) {
        size_t length;
        *out_name = LLVMGetValueName2(f, &length);
        if (LLVMIsDeclaration(f) && LLVMGetFirstUse(f) != NULL &&
            strncmp(*out_name, function_prefix, PREFIX_LENGTH) == 0)
            return f;
    }
    return NULL;
}

static void add_name(Libdevice *l, Subset *s, size_t at, const char *name)
{
    s->names = arena_grow(l->arena, s->names, &s->name_capacity, s->name_count + 1,
                          sizeof *s->names);
    memmove(s->names + at + 1, s->names + at, (s->name_count - at) * sizeof *s->names);
    s->names[at] = arena_text(l->arena, name, strlen(name));
    s->name_count++;
}

/* Adds the names of what m calls; true if there were new ones. */
static bool add_names(Libdevice *l, Subset *s, LLVMModuleRef m)
{
    bool has_grown = false;
    const char *name;
    LLVMValueRef f = next_needed(LLVMGetFirstFunction(m), &name);
    for (; f; f = next_needed(LLVMGetNextFunction(f), &name)) {
        bool found;
        size_t at = find_name(s, name, &found);
        if (found)
            continue;
        add_name(l, s, at, name);
        has_grown = true;
    }
    return has_grown;
}

void libdevice_expect(Libdevice *l, const char *name)
{
    char full[64];
    bool found;
    snprintf(full, sizeof full, "%s%s", function_prefix, name);
    size_t at = find_name(&l->expected, full, &found);
    if (!found)
        add_name(l, &l->expected, at, full);
}

/* ---- cutting out ---- */

/* is_lazy: a function's body is read when it is linked, and not seen before. */
static LLVMModuleRef read_bitcode(LLVMContextRef context, Bitcode code, bool is_lazy)
{
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRange(code.data, code.bytes, "libdevice", 0);
    LLVMModuleRef m;
    LLVMBool failed = is_lazy ? LLVMGetBitcodeModuleInContext2(context, buffer, &m)
                              : LLVMParseBitcodeInContext2(context, buffer, &m);
    if (failed || !is_lazy) /* a lazy module owns its buffer */
        LLVMDisposeMemoryBuffer(buffer);
    if (failed)
        bug("libdevice is no bitcode of this LLVM");
    return m;
}

static Bitcode write_bitcode(Arena *a, LLVMModuleRef m)
{
    LLVMMemoryBufferRef buffer = LLVMWriteBitcodeToMemoryBuffer(m);
    if (buffer == NULL) /* it takes its memory without LLVM's handler */
        escape_throw(ESCAPE_MEMORY, "out of memory while libdevice was cut");
    size_t bytes = LLVMGetBufferSize(buffer);
    Bitcode code = {arena_copy(a, LLVMGetBufferStart(buffer), bytes), bytes};
    LLVMDisposeMemoryBuffer(buffer);
    return code;
}

/* The text that __nvvm_reflect is asked for, NULL if it is no constant. */
static const char *reflect_text(LLVMValueRef call)
{
    LLVMValueRef v = LLVMGetOperand(call, 0);
    if (!LLVMIsAGlobalVariable(v) || !(v = LLVMGetInitializer(v)))
        return NULL;
    size_t length;
    return LLVMIsConstantString(v) ? LLVMGetAsString(v, &length) : NULL;
}

static void resolve_reflect(LLVMModuleRef m, uint32_t sm)
{
    LLVMValueRef f = LLVMGetNamedFunction(m, "__nvvm_reflect");
    LLVMUseRef use, next;
    for (use = f ? LLVMGetFirstUse(f) : NULL; use; use = next) {
        next = LLVMGetNextUse(use);
        LLVMValueRef call = LLVMGetUser(use);
        const char *text = reflect_text(call);
        unsigned value = 0; /* __CUDA_FTZ */
        if (text && strcmp(text, "__CUDA_ARCH") == 0)
            value = sm * 10;
        else if (text && strncmp(text, "__CUDA_PREC_", 12) == 0)
            value = 1;
        LLVMReplaceAllUsesWith(call, LLVMConstInt(LLVMTypeOf(call), value, 0));
        LLVMInstructionEraseFromParent(call);
    }
    if (f)
        LLVMDeleteFunction(f);
}

static void make_linkonce(LLVMModuleRef m)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            LLVMSetLinkage(f, LLVMLinkOnceODRLinkage);
}

/* The functions of the subset, and what they call, out of libdevice's file. */
static void cut_subset(Libdevice *l, Subset *s)
{
    LLVMContextRef context = llvm_context_create();
    LLVMModuleRef all = read_bitcode(context, l->file, true);
    LLVMModuleRef m = LLVMModuleCreateWithNameInContext("libdevice", context);
    LLVMSetTarget(m, LLVMGetTarget(all));
    LLVMSetDataLayout(m, LLVMGetDataLayoutStr(all));
    for (size_t i = 0; i < s->name_count; i++) {
        LLVMValueRef f = LLVMGetNamedFunction(all, s->names[i]);
        if (f == NULL)
            bug("libdevice lacks %s, which a kernel calls", s->names[i]);
        LLVMAddFunction(m, s->names[i], LLVMGlobalGetValueType(f));
    }
    make_linkonce(all);
    if (LLVMLinkModules2(m, all))
        bug("libdevice does not link");
    resolve_reflect(m, s->sm);
    s->device = write_bitcode(l->arena, m);
    s->host.data = NULL;
    LLVMDisposeModule(m);
    LLVMContextDispose(context);
}

static void lower_subset(Libdevice *l, Subset *s)
{
    LLVMContextRef context = llvm_context_create();
    LLVMModuleRef m = read_bitcode(context, s->device, false);
    /* Branches that reflected constants decided go first: what they guard has no rows. */
    llvm_run_passes(m, NULL, "function(early-cse,simplifycfg)");
    device_lower_for_host(m);
    s->host = write_bitcode(l->arena, m);
    LLVMDisposeModule(m);
    LLVMContextDispose(context);
}

static Bitcode find_subset(Libdevice *l, LLVMModuleRef m, uint32_t sm, bool for_host)
{
    Subset *s = l->subsets;
    while (s != NULL && s->sm != sm)
        s = s->next;
    if (s == NULL) {
        s = ARENA_NEW(l->arena, Subset);
        *s = (Subset){.sm = sm, .next = l->subsets};
        for (size_t i = 0; i < l->expected.name_count; i++)
            add_name(l, s, i, l->expected.names[i]);
        l->subsets = s;
    }
    if (add_names(l, s, m) || s->device.data == NULL)
        cut_subset(l, s);
    if (!for_host)
        return s->device;
    if (s->host.data == NULL)
        lower_subset(l, s);
    return s->host;
}

/* find_subset for one thread at a time. */
static Bitcode take_subset(Libdevice *l, LLVMModuleRef m, uint32_t sm, bool for_host)
{
    volatile Bitcode code = {0};
    Escape e;
    pthread_mutex_lock(&l->mutex);
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        Bitcode found = find_subset(l, m, sm, for_host);
        code.data = found.data;
        code.bytes = found.bytes;
    }
    escape_pop(&e);
    pthread_mutex_unlock(&l->mutex);
    if (e.kind != ESCAPE_NONE)
        escape_throw(e.kind, "%s", e.message);
    return (Bitcode){code.data, code.bytes};
}

/* Everything that libdevice brought in becomes this module's own. */
static void internalise(LLVMModuleRef m)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
        if (LLVMGetLinkage(f) == LLVMLinkOnceODRLinkage)
            LLVMSetLinkage(f, LLVMInternalLinkage);
    for (LLVMValueRef g = LLVMGetFirstGlobal(m); g; g = LLVMGetNextGlobal(g)) {
        size_t length;
        if (strncmp(LLVMGetValueName2(g, &length), "__cudart_", 9) == 0)
            LLVMSetGlobalConstant(g, 1);
    }
}

/* `from` is used up. */
static void link_from(LLVMModuleRef m, LLVMModuleRef from)
{
    LLVMSetTarget(from, LLVMGetTarget(m));
    LLVMSetDataLayout(from, LLVMGetDataLayoutStr(m));
    if (LLVMLinkModules2(m, from))
        bug("functions of libdevice do not link");
}

void libdevice_link_only(Libdevice *l, LLVMModuleRef m, uint32_t sm)
{
    const char *name;
    if (next_needed(LLVMGetFirstFunction(m), &name) == NULL)
        return;
    LLVMModuleRef all = read_bitcode(LLVMGetModuleContext(m), l->file, true);
    make_linkonce(all);
    link_from(m, all);
    if (next_needed(LLVMGetFirstFunction(m), &name) != NULL)
        bug("libdevice lacks %s, which a kernel calls", name);
    resolve_reflect(m, sm);
    internalise(m);
}

void libdevice_link(Libdevice *l, LLVMModuleRef m, uint32_t sm, bool for_host)
{
    const char *name;
    if (next_needed(LLVMGetFirstFunction(m), &name) == NULL)
        return;
    LLVMModuleRef subset =
        read_bitcode(LLVMGetModuleContext(m), take_subset(l, m, sm, for_host), true);
    link_from(m, subset);
    internalise(m);
}
