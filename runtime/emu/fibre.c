/* Stacks come in slabs of 32, each stack below a guard page. See fibre.h. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "runtime/emu/fibre.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBRE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBRE_ASAN 1
#endif
#endif
#ifndef FIBRE_ASAN
#define FIBRE_ASAN 0
#endif

#if FIBRE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

enum {
    STACK_BYTES = 256 * 1024, /* reserved; touched only as far as a kernel goes */
    SLAB_FIBRES = 32,
};

typedef struct FibreSlab {
    struct FibreSlab *next;
    unsigned char *memory;
    size_t bytes;
    Fibre fibres[SLAB_FIBRES];
} FibreSlab;

/* Saves the callee-saved registers on the current stack, stores its pointer to *save, and
 * takes up the stack `to`. */
void gxemu_context_switch(void **save, void *to);
void gxemu_context_start(void);

#if defined(__x86_64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden gxemu_context_switch\n"
        ".globl gxemu_context_switch\n"
        ".type gxemu_context_switch,@function\n"
        "gxemu_context_switch:\n"
        "  pushq %rbp\n"
        "  pushq %rbx\n"
        "  pushq %r12\n"
        "  pushq %r13\n"
        "  pushq %r14\n"
        "  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n"
        "  popq %r14\n"
        "  popq %r13\n"
        "  popq %r12\n"
        "  popq %rbx\n"
        "  popq %rbp\n"
        "  ret\n"
        ".size gxemu_context_switch,.-gxemu_context_switch\n"
        ".hidden gxemu_context_start\n"
        ".globl gxemu_context_start\n"
        ".type gxemu_context_start,@function\n"
        "gxemu_context_start:\n"
        "  movq %r12, %rdi\n"
        "  xorl %ebp, %ebp\n"
        "  call *%r13\n"
        "  ud2\n"
        ".size gxemu_context_start,.-gxemu_context_start\n");

static void *stack_prepare(unsigned char *top, FibreBody body, void *argument)
{
    /* Popped in this order: r15 r14 r13 r12 rbx rbp, return address. */
    uintptr_t *sp = (uintptr_t *)(void *)top - 7;
    sp[0] = sp[1] = sp[4] = sp[5] = 0;
    sp[2] = (uintptr_t)body;
    sp[3] = (uintptr_t)argument;
    sp[6] = (uintptr_t)gxemu_context_start;
    return sp;
}
#elif defined(__aarch64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden gxemu_context_switch\n"
        ".globl gxemu_context_switch\n"
        ".type gxemu_context_switch,%function\n"
        "gxemu_context_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n"
        "  stp x21, x22, [sp, #16]\n"
        "  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n"
        "  stp x27, x28, [sp, #64]\n"
        "  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n"
        "  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n"
        "  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n"
        "  str x9, [x0]\n"
        "  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n"
        "  ldp x21, x22, [sp, #16]\n"
        "  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n"
        "  ldp x27, x28, [sp, #64]\n"
        "  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n"
        "  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n"
        "  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".size gxemu_context_switch,.-gxemu_context_switch\n"
        ".hidden gxemu_context_start\n"
        ".globl gxemu_context_start\n"
        ".type gxemu_context_start,%function\n"
        "gxemu_context_start:\n"
        "  mov x0, x19\n"
        "  mov x29, #0\n"
        "  blr x20\n"
        "  brk #1\n"
        ".size gxemu_context_start,.-gxemu_context_start\n");

static void *stack_prepare(unsigned char *top, FibreBody body, void *argument)
{
    uintptr_t *sp = (uintptr_t *)(void *)top - 20; /* as saved by gxemu_context_switch */
    for (int i = 0; i < 20; i++)
        sp[i] = 0;
    sp[0] = (uintptr_t)argument;
    sp[1] = (uintptr_t)body;
    sp[11] = (uintptr_t)gxemu_context_start;
    return sp;
}
#else
#error "the emulator needs a context switch for this processor"
#endif

/* Tells the address sanitizer whose stack is current now. */
static void switch_finished(FibrePool *pool)
{
#if FIBRE_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(pool->running->fake_stack, &bottom, &bytes);
    if (pool->previous->stack == NULL)
        pool->previous->stack_bytes = bytes;
    if (pool->previous->stack == NULL) {
        uintptr_t home = (uintptr_t)bottom;
        pool->previous->stack = (unsigned char *)home;
    }
#else
    (void)pool;
#endif
}

static void fibre_start(void *argument)
{
    FibrePool *pool = argument;
    switch_finished(pool);
    pool->body(pool->argument);
}

void fibre_pool_init(FibrePool *pool, Fibre *home, FibreBody body, void *argument)
{
    *home = (Fibre){0};
    *pool = (FibrePool){
        .running = home, .previous = home, .body = body, .argument = argument};
}

void fibre_pool_deinit(FibrePool *pool)
{
    while (pool->slabs != NULL) {
        FibreSlab *next = pool->slabs->next;
#if FIBRE_ASAN /* what is mapped there next must not inherit the marks of these stacks */
        __asan_unpoison_memory_region(pool->slabs->memory, pool->slabs->bytes);
#endif
        munmap(pool->slabs->memory, pool->slabs->bytes);
        free(pool->slabs);
        pool->slabs = next;
    }
    pool->idle = pool->all = NULL;
}

static void fibre_renew(FibrePool *pool, Fibre *f)
{
#if FIBRE_ASAN
    __asan_unpoison_memory_region(f->stack, f->stack_bytes);
#endif
    f->fake_stack = NULL;
    f->sp = stack_prepare(f->stack + f->stack_bytes, fibre_start, pool);
}

static bool slab_create(FibrePool *pool)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t each = STACK_BYTES + page;
    FibreSlab *slab = calloc(1, sizeof *slab);
    if (slab == NULL)
        return false;
    slab->bytes = each * SLAB_FIBRES;
    void *memory = mmap(NULL, slab->bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        free(slab);
        return false;
    }
    slab->memory = memory;
    for (size_t i = 0; i < SLAB_FIBRES; i++) {
        if (mprotect(slab->memory + i * each, page, PROT_NONE) != 0) {
            munmap(slab->memory, slab->bytes);
            free(slab);
            return false;
        }
    }
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (size_t i = SLAB_FIBRES; i-- > 0;) {
        Fibre *f = &slab->fibres[i];
        f->stack = slab->memory + i * each + page;
        f->stack_bytes = STACK_BYTES;
        f->all = pool->all;
        pool->all = f;
        fibre_renew(pool, f);
        fibre_release(pool, f);
    }
    return true;
}

Fibre *fibre_acquire(FibrePool *pool)
{
    if (pool->idle == NULL && !slab_create(pool))
        return NULL;
    Fibre *f = pool->idle;
    pool->idle = f->next;
    return f;
}

void fibre_release(FibrePool *pool, Fibre *f)
{
    f->next = pool->idle;
    pool->idle = f;
}

void fibre_reset_all(FibrePool *pool)
{
    pool->idle = NULL;
    for (Fibre *f = pool->all; f != NULL; f = f->all) {
        fibre_renew(pool, f);
        fibre_release(pool, f);
    }
}

void fibre_switch(FibrePool *pool, Fibre *to)
{
    Fibre *from = pool->running;
    if (from == to)
        return;
    pool->running = to;
    pool->previous = from;
#if FIBRE_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
#endif
    gxemu_context_switch(&from->sp, to->sp);
    switch_finished(pool);
}
