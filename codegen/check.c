/* What no kernel and no plan can be made for, by what the module says. */
#include "codegen/codegen.h"
#include "codegen/element/emit.h"
#include "ir/analysis/collective.h"
#include "ir/base/diag.h"
#include "ir/infer/infer.h"

/* -- before passes -------------------------------------------------------------------------- */

static bool takes_leaves(const Module *m, const Instruction *inst, const char *what)
{
    size_t leaves = shape_leaf_count(inst->shape);
    for (size_t leaf = 0; leaf < leaves; leaf++) {
        const Shape *s = shape_leaf(inst->shape, leaf);
        if (shape_is_array(s) || s->dtype == DT_TOKEN)
            continue;
        diag_unsupported(m->diag, inst->span, "entry %s of shape %s", what,
                         shape_text(m->arena, s, false));
        return false;
    }
    return true;
}

/* -- groups --------------------------------------------------------------------------------- */

/* The operands and results fit groups of `size` devices. */
static bool fits_group(const Instruction *inst, int64_t size)
{
    bool gathers = op_plain(inst->op) == OP_ALL_GATHER;
    Ints split = inst_ints(inst, ATTR_DIMENSIONS);
    if (inst->op == OP_ALL_TO_ALL && split.count == 0)
        return inst->operand_count == size;
    if (!gathers && inst->op != OP_ALL_TO_ALL && inst->op != OP_REDUCE_SCATTER)
        return true;
    for (uint32_t k = 0; k < inst->operand_count; k++) {
        int64_t in = inst->operands[k]->shape->dims[split.data[0]];
        int64_t out = collective_result_part(inst, k)->dims[split.data[0]];
        if (gathers                     ? in * size != out
            : inst->op == OP_ALL_TO_ALL ? in % size != 0
                                        : in != out * size)
            return false;
    }
    return true;
}

/* How many devices there are, the text may not say; groups and shapes are for a certain number. */
static bool check_groups(const Module *m, const Instruction *inst, Arena *scratch)
{
    static const char advice[] = "--partitions (or --replicas) says how many there are";
    IntLists groups = collective_groups(scratch, inst);
    int64_t devices = m->config.replica_count * m->config.num_partitions, members = 0;
    for (uint32_t g = 0; g < groups.count; g++) {
        int64_t size = groups.data[g].count;
        members += size;
        if (size == 0 || fits_group(inst, size))
            continue;
        diag_error(
            m->diag, inst->span,
            "%s of %s to %s does not fit a group of %lld devices, of the %lld that "
            "the program is compiled for: %s",
            op_info[inst->op].name, shape_text(scratch, inst->operands[0]->shape, false),
            shape_text(scratch, collective_result_part(inst, 0), false), (long long)size,
            (long long)devices, advice);
        return false;
    }
    if (members >= devices)
        return true;
    diag_error(m->diag, inst->span,
               "%s has groups of %lld devices, of the %lld that the program is compiled "
               "for: %s",
               op_info[inst->op].name, (long long)members, (long long)devices, advice);
    return false;
}

/* Groups and pairs may name devices which the program is not compiled for: its header gives no counts.
 * Passes take it that there are none such. */
static bool fits_devices(const Module *m, const Instruction *inst, Arena *scratch)
{
    static const struct {
        const char *id, *option, *other;
    } words[] = {
        [COLLECTIVE_CROSS_REPLICA] = {"replica", "--replicas", ""},
        [COLLECTIVE_CROSS_PARTITION] = {"partition", "--partitions", ""},
        [COLLECTIVE_CROSS_REPLICA_AND_PARTITION] = {"replica", "--replicas", ""},
        [COLLECTIVE_FLATTENED_ID] = {"device", "--partitions", " (or --replicas)"},
    };
    int64_t count = collective_id_count(inst), last = collective_last_id(scratch, inst);
    if (last < count)
        return true;
    CollectiveMode mode = collective_mode(inst);
    diag_error(m->diag, inst->span,
               "%s is for %s %lld, too, but the program is compiled for %lld: "
               "%s=%lld%s says how many there are",
               op_info[inst->op].name, words[mode].id, (long long)last, (long long)count,
               words[mode].option, (long long)last + 1, words[mode].other);
    return false;
}

static bool takes_devices(const Module *m, const Instruction *inst)
{
    bool has_groups = op_attr(inst->op, "replica_groups", 14) != NULL;
    if (!has_groups && op_plain(inst->op) != OP_COLLECTIVE_PERMUTE)
        return true;
    Arena *scratch = arena_scratch();
    bool good =
        fits_devices(m, inst, scratch) &&
        (!has_groups || inst->operand_count == 0 || check_groups(m, inst, scratch));
    arena_destroy(scratch);
    return good;
}

enum { CONSTANT_MOST = 1 << 30 }; /* bytes: the artefact is made in memory */

/* Elided constants, which text of any size may have, too: their position is kept. */
static bool takes_constant(const Module *m, const Instruction *inst)
{
    int64_t bytes;
    if (inst->op != OP_CONSTANT || !shape_is_array(inst->shape) ||
        (shape_byte_count(inst->shape, &bytes) && bytes <= CONSTANT_MOST))
        return true;
    diag_unsupported(m->diag, inst->span,
                     "a constant of shape %s: an artefact holds constants of at most %d "
                     "bytes; pass it as a parameter",
                     shape_text(m->arena, inst->shape, false), CONSTANT_MOST);
    return false;
}

static bool takes(const Module *m, const Instruction *inst)
{
    if (infer_is_compressed(inst)) {
        diag_unsupported(m->diag, inst->span, "structured sparsity (sparsity_config)");
        return false;
    }
    if (infer_is_gradient(inst)) {
        diag_unsupported(m->diag, inst->span, "a gradient (convolution_kind)");
        return false;
    }
    if (!infer_applies_to_one_type(inst)) {
        diag_unsupported(m->diag, inst->span,
                         "%s applies a computation to elements of several float types",
                         op_info[inst->op].name);
        return false;
    }
    return takes_constant(m, inst) && takes_devices(m, inst);
}

bool codegen_takes(const Module *m)
{
    bool good = takes_leaves(m, m->entry->root, "result");
    for (uint32_t p = 0; good && p < m->entry->parameter_count; p++)
        good = takes_leaves(m, m->entry->parameters[p], "parameter");
    for (const Computation *comp = comp_first(m); good && comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); good && inst;
             inst = inst_next(inst))
            good = takes(m, inst);
    }
    return good;
}

/* -- after passes ----------------------------------------------------------------------------- */

/* An element neither fills bytes nor divides one. */
static bool crosses_bytes(DType t)
{
    uint32_t bits = dtype_info[t].bits;
    return bits % 8 != 0 && 8 % bits != 0;
}

/* Emitters and plan keep indices in arrays of EMIT_MOST_RANK and know no sizes but these; inside of
 * kernels there is any type. */
static const char *misfit(Arena *a, const Shape *s, bool in_memory)
{
    if (shape_is_array(s) && s->rank > EMIT_MOST_RANK)
        return arena_printf(a, "an array of more than %d dimensions", EMIT_MOST_RANK);
    if (shape_is_array(s) && s->dynamic != NULL)
        return "an array of dynamic size";
    if (shape_is_array(s) && in_memory && crosses_bytes(s->dtype))
        return arena_printf(a, "elements of %s in memory", dtype_name(s->dtype));
    const char *why = NULL;
    for (uint32_t i = 0; s->elements != NULL && i < s->rank && why == NULL; i++)
        why = misfit(a, s->elements[i], in_memory);
    return why;
}

bool codegen_fits(const Module *m)
{
    Arena *scratch = arena_scratch();
    bool *in_memory = ARENA_ARRAY(scratch, bool, m->computation_count + 1u);
    Computations programs = module_programs(m, scratch);
    for (uint32_t i = 0; i < programs.count; i++)
        in_memory[programs.data[i]->id] = true;
    const Instruction *found = NULL; /* the first with a position, if any has one */
    const char *why = NULL;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (found != NULL && (found->span.end != 0 || inst->span.end == 0))
                continue;
            const char *misfits = misfit(m->arena, inst->shape, in_memory[comp->id]);
            found = misfits != NULL ? inst : found;
            why = misfits != NULL ? misfits : why;
        }
    }
    arena_destroy(scratch);
    if (why != NULL)
        diag_unsupported(m->diag, found->span, "%s has %s", found->name, why);
    return why == NULL;
}
