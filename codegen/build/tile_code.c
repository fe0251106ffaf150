/* Kernels by way of CUDA Tile IR. See build.h. */
#include "codegen/build/tile_code.h"

#include "codegen/tileir/tileir.h"
#include "ir/base/bug.h"
#include "ir/tile/tile.h"

/* Adds a request's kernel to a module. */
static bool add_kernel(TileIrModule *m, Arena *a, const Target *target,
                       const KernelRequest *r, TileCode *out)
{
    TileIrHints hints;
    TileProgram *p = kernel_tileir_program(r->design, a, &hints, &out->why);
    hints.panel = kernel_tileir_panel(r->design);
    if (p == NULL || !tileir_lower(m, p, kernel_tileir_piece(r->design, a, &hints), r,
                                   target, &hints, &out->why))
        return false;
    out->blocks = (uint32_t)tile_blocks(p);
    return true;
}

bool tile_code_make(Arena *a, const Target *target, const KernelRequest *r, TileCode *out)
{
    TileIrModule *m = bytecode_create(a);
    *out = (TileCode){0};
    if (!add_kernel(m, a, target, r, out))
        return false;
    out->bytecode = bytecode_write(m, &out->bytecode_bytes);
    return true;
}

void tile_code_assemble(Arena *a, const Cuda *cuda, const Target *target,
                        const char *name, TileCode *out)
{
    if (!assemble_tileir(a, cuda, target, out->bytecode, out->bytecode_bytes, &out->cubin,
                         &out->why))
        out->cubin.data = NULL;
    else if (!cubin_kernel(a, &out->cubin, name, &out->kernel))
        bug("the cubin of %s has no such kernel", name);
}

const void *build_tileir(Build *b, size_t *out_bytes)
{
    TileIrModule *all = bytecode_create(b->arena);
    for (size_t i = 0; i < b->count; i++) {
        TileCode code;
        const KernelRequest *r = &b->requests[i];
        if (tile_code_make(b->arena, b->target, r, &code))
            add_kernel(all, b->arena, b->target, r, &code);
    }
    return bytecode_write(all, out_bytes);
}
