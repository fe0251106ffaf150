/* The programs of tiles of a module's kernels: gxc --emit=tile. */
#include "frontend/report/report.h"
#include "ir/base/text.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/kind.h"
#include "ir/tile/tile.h"

static void add_program(Text *t, Arena *a, const Instruction *fusion,
                        const Target *target)
{
    KernelDesign d;
    kernel_design(fusion, target, a, &d);
    if (d.wrong != NULL) {
        kernel_wrong(&d);
        return;
    }
    const char *why = d.unsupported;
    const TileProgram *p = why == NULL ? kernel_tile_program(&d, a, &why) : NULL;
    if (p != NULL)
        text_string(t, tile_text(a, p));
    else
        text_printf(t, "no tiles of %s: %s\n", fusion->name, why);
}

const char *report_tiles(Arena *a, const Module *m, const Target *target, size_t *length)
{
    Text t;
    text_init(&t, a);
    Computations programs = module_programs(m, a);
    for (uint32_t i = 0; i < programs.count; i++) {
        for (const Instruction *inst = inst_first(programs.data[i]); inst;
             inst = inst_next(inst)) {
            if (inst->op == OP_FUSION && kernel_kind_of(inst) != KERNEL_COUNT &&
                kernel_kind_is(kernel_kind_of(inst), KERNEL_BY_TILEIR))
                add_program(&t, a, inst, target);
        }
    }
    if (t.length == 0)
        text_string(&t, "no kernel is a program of tiles\n");
    *length = t.length;
    return t.data;
}
