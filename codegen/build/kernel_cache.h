/* What --cache-dir keeps: the code of kernels by their requests, cubins by their PTX or by their bytecode of CUDA Tile
 * IR. Keys hold all that
 * decides the bytes, this very build of gxc included, so that a program comes out the same with and
 * without a cache. One changed kernel is made anew, and assembled with the others of its piece. */
#ifndef GXC_CODEGEN_BUILD_KERNEL_CACHE_H
#define GXC_CODEGEN_BUILD_KERNEL_CACHE_H

#include "codegen/build/build.h"

typedef struct KernelCache {
    const char *folder; /* NULL: nothing is kept */
    /* what keys begin with: all, those of kernels, of cubins by CUDA Tile IR */
    const char *common, *of_kernels, *of_tileir;
} KernelCache;

/* For what the build is to make; its libdevice is open. 0; or an errno, and nothing is kept. */
int kernel_cache_open(KernelCache *c, const Build *b);

/* False: it is not there. What is found lives in `a`. */
bool kernel_cache_find(const KernelCache *c, Arena *a, const KernelRequest *r,
                       KernelCode *out);
bool kernel_cache_find_cubin(const KernelCache *c, Arena *a, const char *ptx,
                             AssembleForm form, Cubin *out);

bool kernel_cache_find_tileir(const KernelCache *c, Arena *a, const void *bytecode,
                              size_t bytes, Cubin *out);

/* 0 or an errno. */
int kernel_cache_keep(const KernelCache *c, Arena *a, const KernelRequest *r,
                      const KernelCode *code);
int kernel_cache_keep_cubin(const KernelCache *c, Arena *a, const char *ptx,
                            AssembleForm form, const Cubin *cubin);
int kernel_cache_keep_tileir(const KernelCache *c, Arena *a, const void *bytecode,
                             size_t bytes, const Cubin *cubin);

#endif
