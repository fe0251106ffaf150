/* See partition.h. */
#include "ir/analysis/partition.h"

#include <string.h>

#include "ir/attribute/sharding.h"
#include "ir/custom_call/custom_call.h"

/* Its result is a part of its operand, or the other way round. */
static bool is_boundary(const Instruction *inst)
{
    static const char *const targets[] = {
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
    };
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        if (custom_call_has_target(inst, targets[i]))
            return true;
    }
    return false;
}

/* Made by a function that the partitioner has to ask. */
static bool is_asked(const Instruction *inst)
{
    return custom_call_has_target(inst, "CustomSPMDPartitioning");
}

static bool changes_size(const Instruction *inst)
{
    return inst->operand_count != 0 && !custom_call_gives_operands(inst);
}

static bool is_on_several(const Sharding *s)
{
    return s->kind == SHARDING_NAMED && mesh_device_count(s->mesh) > 1;
}

/* Of a tuple an element. */
static bool has_mesh_of_several(const Sharding *s)
{
    for (uint32_t i = 0; i < s->element_count; i++) {
        if (has_mesh_of_several(s->elements[i]))
            return true;
    }
    return is_on_several(s);
}

static bool spreads(const Sharding *s)
{
    for (uint32_t i = 0; i < s->element_count; i++) {
        if (spreads(s->elements[i]))
            return true;
    }
    for (uint32_t i = 0; is_on_several(s) && i < s->dim_count; i++) {
        if (s->dim_shardings[i].axes.count != 0)
            return true;
    }
    for (uint32_t i = 0; s->kind == SHARDING_TILED && i < s->rank; i++) {
        bool subgroup = i >= s->rank - s->subgroup_count - s->replicate_last;
        if (!subgroup && s->dims[i] > 1)
            return true;
    }
    return false;
}

static bool is_spread(const Instruction *inst)
{
    const Attr *attr = inst_attr(inst, ATTR_SHARDING);
    return custom_call_has_target(inst, "Sharding") ||
           (attr != NULL && spreads(attr->sharding));
}

/* JAX marks values of programs for one device, too: by a mesh without axes, or as replicated. */
static bool is_for_several(const Instruction *inst)
{
    const Attr *attr = inst_attr(inst, ATTR_SHARDING);
    return attr != NULL &&
           (spreads(attr->sharding) || has_mesh_of_several(attr->sharding));
}

/* XLA's partitioner leaves the shardings of parameters and adds this to the entry's name. */
static bool has_partitioned_name(const Module *m)
{
    static const char suffix[] = "_spmd";
    size_t length = strlen(m->entry->name), n = sizeof suffix - 1;
    return length >= n && memcmp(m->entry->name + length - n, suffix, n) == 0;
}

const Instruction *module_unpartitioned(const Module *m)
{
    const Instruction *boundary = NULL, *spread = NULL;
    bool talks = false, numbered = false, several = m->config.num_partitions > 1;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            numbered |= inst->op == OP_PARTITION_ID;
            talks |= op_is(inst->op, OPF_COLLECTIVE);
            bool marks = is_boundary(inst) || (several && is_asked(inst));
            if (marks && changes_size(inst))
                return inst;
            if (boundary == NULL && marks)
                boundary = inst;
            if (several && spread == NULL && is_spread(inst))
                spread = inst;
        }
    }
    if (numbered || !several)
        return NULL;
    bool marked = !talks && !m->config.is_scheduled && !has_partitioned_name(m);
    return boundary != NULL ? boundary : marked ? spread : NULL;
}

const Instruction *module_of_several(const Module *m)
{
    if (m->config.num_partitions > 1 || m->config.replica_count > 1)
        return NULL;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (is_for_several(inst))
                return inst;
        }
    }
    return has_partitioned_name(m) ? m->entry->root : NULL;
}

void module_report_unpartitioned(const Module *m, const Instruction *inst)
{
    if (is_boundary(inst) && changes_size(inst)) {
        diag_unsupported(
            m->diag, inst->span,
            "the module was not partitioned: %s goes between a whole array and the "
            "part of one device; gxc has no partitioner: take the text that JAX "
            "gives after its own, jax.jit(f).lower(...).compile().as_text()",
            inst->name);
        return;
    }
    diag_unsupported(
        m->diag, inst->span,
        "the module is for %lld partitions, but was not partitioned: %s is marked "
        "to be spread over them, and nothing says what each one does; gxc has no "
        "partitioner: take the text that JAX gives after its own, "
        "jax.jit(f).lower(...).compile().as_text(), or say --partitions=1 to run "
        "it whole on one device",
        (long long)m->config.num_partitions, inst->name);
}
