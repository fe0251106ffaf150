/* The emulated kernel's view of its thread, and the functions it may call: abi.def as C. */
#ifndef GXC_RUNTIME_EMU_ABI_H
#define GXC_RUNTIME_EMU_ABI_H

#include <stdint.h>

#define EMU_TYPE_u32 uint32_t
#define EMU_TYPE_u64 uint64_t
#define EMU_TYPE_ptr void *

typedef struct gxemu_block {
#define EMU_FIELD(name, type, count) EMU_ARRAY_##count(EMU_TYPE_##type, name);
#define EMU_ARRAY_1(type, name) type name
#define EMU_ARRAY_3(type, name) type name[3]
#include "runtime/emu/abi.def"
} gxemu_block;

typedef void (*gxemu_kernel)(gxemu_block *block, const void *args);

#define GXEMU_SHARED UINT32_MAX /* `argument` of an access to shared memory */

/* ATOMIC: reads, and may write; ATOMIC_WRITE: writes only */
enum { GXEMU_READ, GXEMU_WRITE, GXEMU_ATOMIC, GXEMU_ATOMIC_WRITE, GXEMU_MISALIGNED };
enum { GXEMU_SHFL_UP, GXEMU_SHFL_BFLY, GXEMU_SHFL_IDX, GXEMU_BALLOT };

/* The rows of EMU_FUNCTION; abi.c checks that none is missing. */
void gxemu_fault(gxemu_block *b, uint32_t argument, uint64_t offset, uint32_t bytes,
                 uint32_t site, uint32_t kind) __attribute__((noreturn));
void gxemu_access(gxemu_block *b, uint32_t argument, uint64_t offset, uint32_t bytes,
                  uint32_t align, uint32_t site, uint32_t kind);
void gxemu_barrier(gxemu_block *b, uint32_t site);
void gxemu_syncwarp(gxemu_block *b, uint32_t mask, uint32_t site);
void gxemu_pause(gxemu_block *b, uint32_t site);
void gxemu_fence(gxemu_block *b, uint32_t site);
uint32_t gxemu_shfl(gxemu_block *b, uint32_t mode, uint32_t mask, uint32_t value,
                    uint32_t operand, uint32_t clamp, uint32_t site);
void gxemu_mma(gxemu_block *b, uint32_t number, void *registers, uint32_t site);
void gxemu_wgmma(gxemu_block *b, uint32_t form, void *registers, uint32_t site);
void gxemu_wgmma_wait(gxemu_block *b, uint32_t left, void *sums, uint32_t site);
void gxemu_tensor_alloc(gxemu_block *b, uint64_t offset, uint32_t columns, uint32_t site);
void gxemu_tensor_free(gxemu_block *b, uint32_t address, uint32_t columns, uint32_t site);
void gxemu_tensor_mma(gxemu_block *b, uint32_t form, void *words, uint32_t site);
void gxemu_tensor_commit(gxemu_block *b, uint64_t offset, uint32_t site);
void gxemu_tensor_load(gxemu_block *b, uint32_t columns, uint32_t address,
                       void *registers, uint32_t site);
void gxemu_mbarrier_init(gxemu_block *b, uint64_t offset, uint32_t site);
void gxemu_mbarrier_wait(gxemu_block *b, uint64_t offset, uint32_t parity, uint32_t site);
void gxemu_proxy_fence(gxemu_block *b, uint32_t site);
void gxemu_ldmatrix(gxemu_block *b, uint32_t form, uint64_t offset, void *registers,
                    uint32_t site);
void gxemu_stmatrix(gxemu_block *b, uint32_t form, uint64_t offset, void *registers,
                    uint32_t site);
void gxemu_copy_async(gxemu_block *b, uint32_t argument, uint64_t offset, uint64_t to,
                      uint32_t bytes, uint32_t valid, uint32_t site);
void gxemu_copy_commit(gxemu_block *b, uint32_t site);
void gxemu_copy_wait(gxemu_block *b, uint32_t left, uint32_t site);

#endif
