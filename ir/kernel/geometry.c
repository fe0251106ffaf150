/* Grids, blocks and shared memory, as families of kernels need them. See rules.h. */
#include "ir/kernel/rules.h"

#define THREADS_BLOCK 128 /* where each thread has elements of its own */
#define AVERAGE_MULTIPROCESSORS 100

void configure_threads(KernelConfig *c, int64_t threads)
{
    if (!config_lacks(c, KERNEL_KEY_BLOCK))
        return;
    int64_t warps = (threads + TARGET_WARP - 1) / TARGET_WARP;
    bool is_few = threads < THREADS_BLOCK;
    c->block = is_few && warps > 0 ? warps * TARGET_WARP
               : is_few            ? TARGET_WARP
                                   : THREADS_BLOCK;
}

void geometry_threads(KernelDesign *d, int64_t threads)
{
    int64_t block = d->config.block, blocks = threads / block + (threads % block != 0);
    geometry_blocks(d, blocks, block, 1);
}

void geometry_blocks(KernelDesign *d, int64_t blocks, int64_t block_x, int64_t block_y)
{
    if (blocks > INT32_MAX) {
        d->unsupported = refuse_text(d, "%s needs %lld blocks; a grid has up to 2^31",
                                     d->fusion->name, (long long)blocks);
        return;
    }
    KernelGeometry *g = &d->geometry;
    g->grid[0] = blocks == 0 ? 1 : (uint32_t)blocks;
    g->block[0] = (uint32_t)block_x;
    g->block[1] = (uint32_t)block_y;
    g->grid[1] = g->grid[2] = g->block[2] = 1;
}

void geometry_shared(KernelGeometry *g, uint64_t bytes, unsigned align)
{
    g->shared_bytes = (g->shared_bytes + align - 1) / align * align + bytes;
}

uint64_t target_block_shared(const Target *t)
{
    const GpuModel *device = t != NULL ? t->device : NULL;
    return device != NULL && device->block_shared > TARGET_STATIC_SHARED
               ? device->block_shared
               : TARGET_STATIC_SHARED;
}

uint32_t target_multiprocessors(const Target *t)
{
    const GpuModel *device = t != NULL ? t->device : NULL;
    return device != NULL ? device->multiprocessors : AVERAGE_MULTIPROCESSORS;
}
