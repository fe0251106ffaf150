/* See warn.h. */
#include "frontend/warn.h"

#include "ir/analysis/partition.h"
#include "ir/literal.h"

/* Their values are not known: what is made of them must not run. */
static void warn_of_elided(const Module *m)
{
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op == OP_CONSTANT && literal_has_elided(inst->literal))
                diag_warning(
                    m->diag, inst->span,
                    "constant %s is elided ({...}): the program compiles but will not "
                    "run; JAX prints constants with as_hlo_text(True)",
                    inst->name);
        }
    }
}

static void warn_of_one_device(const Module *m)
{
    const Instruction *inst = module_of_several(m);
    if (inst != NULL)
        diag_warning(
            m->diag, inst->span,
            "the module is for one partition, but %s is marked as one of "
            "several: it runs on one device as it stands; where it is the part "
            "of one of N devices, say --partitions=N, and to run it whole on one "
            "device, --partitions=1",
            inst->name);
}

void module_warn(const Module *m, bool partitions_given)
{
    warn_of_elided(m);
    if (!partitions_given)
        warn_of_one_device(m);
}
