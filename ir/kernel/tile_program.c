/* The programs of tiles that gxc's own kernels are: of a product, an attention, a chain of dots. */
#include "ir/kernel/kernel.h"
#include "ir/kernel/kind.h"
#include "ir/tile/mapping.h"

const struct TileProgram *kernel_tile_program(const KernelDesign *d, Arena *a,
                                              const char **why)
{
    const KernelKindInfo *info = &kernel_kind_info[d->kind];
    if (kernel_kind_is(d->kind, KERNEL_CONTRACTS)) {
        const TileMapping *m = kernel_tile_mapping(d, a, why);
        return m != NULL ? m->program : NULL;
    }
    const TileChainMapping *m = info->hero == OP_DOT
                                    ? kernel_chain_mapping(d, a, why)
                                    : kernel_attention_mapping(d, a, why);
    return m != NULL ? m->program : NULL;
}
