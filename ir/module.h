/* The module: the one intermediate representation, whose text form is the input language.
 *
 * Ownership: everything lives in the module's arena. An instruction belongs to one
 * computation; operands are instructions of the same computation. Instruction.id is its
 * index in Computation.instructions, so a pass keeps facts in arrays of instruction_count.
 * New instructions go to the end; removed ones leave a NULL until computation_compact.
 * The order of Computation.instructions is the schedule of a scheduled module; otherwise it
 * means nothing until computation_sort made it a topological order. There are no use lists:
 * uses_compute makes one. Not thread-safe. */
#ifndef GXC_IR_MODULE_H
#define GXC_IR_MODULE_H

#include "ir/attribute/attribute.h"
#include "ir/base/diag.h"
#include "ir/intern.h"
#include "ir/literal.h"
#include "ir/op.h"
#include "ir/shape.h"

typedef struct Module Module;

/* Sweeps over large modules read memory and do little else: what they ask stands together, and
 * nothing is wider than it must be. */
struct Instruction {
    uint32_t id;
    uint16_t op; /* OpCode */
    uint16_t attr_count;
    uint32_t operand_count;
    uint32_t control_count;
    Computation *parent;
    Instruction **operands; /* [operand_count] */
    Instruction **control;  /* [control_count] control predecessors */
    Attr *attrs;            /* [attr_count] ascending by AttrId */
    const Shape *shape;
    union {
        const Literal *literal; /* OP_CONSTANT */
        int64_t parameter;      /* OP_PARAMETER: its number */
    };
    const char *name; /* unique in the module */
    Span span;        /* of the name in the source */
};

struct Computation {
    const char *name; /* unique in the module */
    Module *module;
    uint32_t id; /* index in Module.computations */
    Instruction **instructions;
    uint32_t instruction_count; /* entries, NULLs of removed ones included */
    size_t instruction_capacity;
    Instruction *root;
    uint32_t parameter_count;
    Instruction **parameters;     /* [parameter_count] by number */
    const char *execution_thread; /* "main" unless said otherwise */
    bool is_fused;                /* called by a fusion */
    bool is_async_wrapped;        /* made by async sugar: printed as sugar again */
    Span span;
};

typedef struct DonorEntry {
    int64_t parameter;
    Ints index;
} DonorEntry;

typedef struct StackFrames StackFrames; /* ir/attribute/stack_frames.h */

typedef struct ModuleConfig {
    bool is_scheduled;
    int64_t replica_count, num_partitions;
    Span devices_span; /* of the number of the two that the source says last */
    Aliasing
        input_output_alias; /* AliasEntry.operand = parameter number; sorted by output */
    uint32_t donor_count;
    const DonorEntry *donors; /* sorted */
    bool alias_passthrough_params;
    uint32_t entry_parameter_count;
    const Shape *const *entry_parameters; /* entry_computation_layout */
    const Shape *entry_result;
    Ints propagate_to_parameters, propagate_to_output; /* count 0 = {false} */
    const Dict *frontend_attributes;
    Bytes origin_recovery_table,
        debug_attributes;            /* text as printed, without the braces */
    const StackFrames *stack_frames; /* NULL if none */
} ModuleConfig;

struct Module {
    Arena *arena;
    Intern *intern;
    const char *name;
    Computation **computations; /* callees before callers; NULL for removed ones */
    uint32_t computation_count;
    size_t computation_capacity;
    Computation *entry;
    OpSet ops; /* of every instruction; some may have been removed since module_compact */
    ModuleConfig config;
    Diag *diag; /* for messages about this module; positions refer to its source */
    struct Names *instruction_names, *computation_names; /* in use (ir/names.h) */
};

/* -- making modules ---------------------------------------------------------------- */

/* The module takes no ownership of arena or diag; both must outlive it. The Module itself lies in
 * the Diag's arena, all that belongs to it in `a`. */
Module *module_create(Arena *a, Diag *d, const char *name);
/* Where the module has an arena to itself - not its Diag's -: moves it into fresh memory without
 * what was removed, renumbered (no NULLs are left), the instructions of a computation and what
 * belongs to them in a row, equal lists once, and frees the old memory. The Module stays where it
 * is; every other pointer into it is invalid afterwards. Names in use stay so. */
void module_compact(Module *m);
Computation *module_add_computation(Module *m,
                                    const char *name); /* name is made unique */
/* A new computation: `op` of two scalars; and their sum. */
Computation *module_add_reducer(Module *m, OpCode op, DType t);
Computation *module_add_adder(Module *m, DType t);
/* A name not yet used by an instruction (computation) of the module, by the rule of section
 * 10.2 of the language: "x", "x.1", ... The name counts as used afterwards. */
const char *module_unique_name(Module *m, const char *wanted);
const char *module_unique_computation_name(Module *m, const char *wanted);

/* Adds an instruction at the end. Operands are copied. computation_append leaves the name
 * NULL (until the caller sets one): for the front end, which names all instructions at the end.
 * computation_add: name NULL gives one from the opcode. */
Instruction *computation_append(Computation *comp, OpCode op, const Shape *shape,
                                uint32_t operand_count, Instruction *const *operands);
/* Attributes are added afterwards with inst_set. Parameters: use computation_add_parameter. */
Instruction *computation_add(Computation *comp, OpCode op, const Shape *shape,
                             uint32_t operand_count, Instruction *const *operands,
                             const char *name);
Instruction *computation_add_parameter(Computation *comp, int64_t number,
                                       const Shape *shape, const char *name);
/* For the front end: makes an OP_PARAMETER added by computation_append parameter `number`. */
void computation_register_parameter(Computation *comp, Instruction *inst, int64_t number);
Instruction *computation_add_constant(Computation *comp, const Literal *l,
                                      const char *name);
Instruction *computation_add_scalar(Computation *comp, DType dtype, double value);
/* Element i of a tuple, beside it. */
Instruction *computation_add_element(Instruction *tuple, uint32_t i);
/* Same opcode and attributes as `like`, new operands (in comp): keeps attributes, metadata
 * and span; control edges are not copied. */
Instruction *computation_add_like(Computation *comp, const Instruction *like,
                                  const Shape *shape, uint32_t operand_count,
                                  Instruction *const *operands);
/* The same with the shape and the very name of `like`, which the caller removes. */
Instruction *computation_add_moved(Computation *comp, const Instruction *like,
                                   Instruction *const *operands);
/* A copy of the whole computation under a new unique name, called computations shared. */
Computation *computation_clone(Computation *comp, const char *name);
/* The same in another module, which lives no longer than the first one. */
Computation *computation_clone_into(Module *m, const Computation *comp, const char *name);

/* -- changing modules --------------------------------------------------------------- */

/* Marks for removal; it must have no users when the pass ends. */
void computation_remove(Computation *comp, Instruction *inst);
/* All that were added since there were `first`: whoever gives up leaves nothing behind. */
void computation_remove_from(Computation *comp, uint32_t first);
/* One more control predecessor, if it is none yet. */
void inst_add_control(Instruction *inst, Instruction *before);
/* The same for those of `from`, but not for itself. */
void inst_add_controls(Instruction *inst, const Instruction *from);
/* Of control predecessors that have become the same the first stays. */
void inst_drop_double_controls(Instruction *inst);
/* forward[id] != NULL: all uses of instruction id become uses of forward[id] (followed
 * transitively), the root and control edges included. forward has instruction_count
 * entries. The replaced instructions stay, for dead-code elimination to remove. What stands
 * for them gets their metadata and span if it has none. */
void computation_replace(Computation *comp, Instruction *const *forward);
/* The same for the first `count` instructions, of which forward has as many entries - what was
 * added since stays -, and the replaced are marked for removal. */
void computation_substitute(Computation *comp, Instruction *const *forward,
                            uint32_t count);
/* Every instruction that is there at the call becomes what `by` says, added to comp; NULL: it stays.
 * How many did not. What was added is for computation_sort, or module_sort, to put in place. */
typedef Instruction *RemakeFn(Instruction *inst, void *context);
uint32_t computation_replace_each(Computation *comp, RemakeFn *by, void *context,
                                  Arena *scratch);
/* The same in all programs (module_programs) that are there at the call. */
uint32_t module_replace_each(Module *m, RemakeFn *by, void *context, Arena *scratch);
void computation_replace_one(Computation *comp, Instruction *from,
                             Instruction *to); /* O(n) */
void computation_compact(Computation *comp);   /* drops NULLs, renumbers ids */
void computation_sort(
    Computation *comp); /* compacts; stable topological order, control too */
void module_sort(
    Module *m); /* compacts computations, callees first; sorts each computation
                                unless the module is scheduled */
void module_remove_dead_computations(Module *m); /* those that the entry does not reach */

/* -- asking ------------------------------------------------------------------------- */

/* Walks over what is there, removed ones left out, in order of id:
 *
 *   for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
 *
 * Meanwhile anything may be added, which is visited too, or removed, `inst` itself included;
 * who renumbers (computation_compact, computation_sort, module_sort) ends the walk. */
static inline Instruction *inst_at_or_after(const Computation *comp, uint32_t id)
{
    while (id < comp->instruction_count && comp->instructions[id] == NULL)
        id++;
    return id < comp->instruction_count ? comp->instructions[id] : NULL;
}

static inline Instruction *inst_first(const Computation *comp)
{
    return inst_at_or_after(comp, 0);
}

static inline Instruction *inst_next(const Instruction *inst)
{
    return inst_at_or_after(inst->parent, inst->id + 1);
}

static inline Computation *comp_at_or_after(const Module *m, uint32_t id)
{
    while (id < m->computation_count && m->computations[id] == NULL)
        id++;
    return id < m->computation_count ? m->computations[id] : NULL;
}

static inline Computation *comp_first(const Module *m)
{
    return comp_at_or_after(m, 0);
}

static inline Computation *comp_next(const Computation *comp)
{
    return comp_at_or_after(comp->module, comp->id + 1);
}

/* Backwards: callers before callees where module_sort has been. */
static inline Computation *comp_at_or_before(const Module *m, uint32_t end)
{
    while (end > 0 && m->computations[end - 1] == NULL)
        end--;
    return end > 0 ? m->computations[end - 1] : NULL;
}

static inline Computation *comp_last(const Module *m)
{
    return comp_at_or_before(m, m->computation_count);
}

static inline Computation *comp_previous(const Computation *comp)
{
    return comp_at_or_before(comp->module, comp->id);
}

/* Users of each instruction of a computation, in order of id; a user that has the operand
 * twice is listed twice. users of i: list[start[i]] .. list[start[i + 1] - 1]. */
typedef struct Uses {
    const uint32_t *start;
    Instruction **list;
} Uses;
Uses uses_compute(const Computation *comp, Arena *scratch);

static inline uint32_t uses_count(const Uses *u, const Instruction *inst)
{
    return u->start[inst->id + 1] - u->start[inst->id];
}

/* The only one; NULL: there are none, or several. */
static inline Instruction *uses_only(const Uses *u, const Instruction *inst)
{
    return uses_count(u, inst) == 1 ? u->list[u->start[inst->id]] : NULL;
}

/* Instructions in a topological order (operands and control predecessors first); the order
 * of Computation.instructions where that is one already. *count = how many. */
Instruction **computation_post_order(const Computation *comp, Arena *scratch,
                                     uint32_t *count);
/* Marks, by id, what marked instructions are made of, too; operands come first in `order`. */
void instructions_mark_operands(Instruction *const *order, uint32_t count,
                                bool *is_marked);

/* Called computations, in the order of the opcode's row (section 10.3). */
uint32_t inst_count_called(const Instruction *inst); /* for inst_called_count */
static inline uint32_t inst_called_count(const Instruction *inst)
{
    return inst->attr_count == 0 ? 0 : inst_count_called(inst);
}
Computation *inst_called(const Instruction *inst, uint32_t i);
void inst_set_called(Instruction *inst, uint32_t i, Computation *callee);
/* The same for several, which are as many as a text says: copied instructions share their lists, so
 * that the first one gives the instruction its own, once. */
void inst_own_called(Instruction *inst);
void inst_put_called(Instruction *inst, uint32_t i, Computation *callee);
/* Callers of each computation: how often a computation is called, by Computation.id. */
uint32_t *module_call_counts(const Module *m, Arena *scratch);

/* The computations that run as programs, in their order - the entry, and what calls, loops,
 * branches and asynchronous operations of those run -, not fused ones, reducers, comparators.
 * What is added later is not in the list. The module must have callees before callers. */
Computations module_programs(const Module *m, Arena *scratch);

const Attr *inst_attr(const Instruction *inst, AttrId id); /* NULL if absent */
void inst_set(Instruction *inst, Attr attr);               /* adds or replaces */
void inst_unset(Instruction *inst, AttrId id);
/* Its shape becomes another: attributes that are trees of the one it had go. */
void inst_forget_shape_facts(Instruction *inst);
/* `to` stands for `value`: it says what that says of where it comes from. */
void inst_take_origin(Instruction *to, const Instruction *value);
bool inst_has(const Instruction *inst, AttrId id);

/* Typed access: the value, or what absence means (section 9's defaults: 0, false, {} or as
 * documented in attrs.def). */
int64_t inst_int(const Instruction *inst, AttrId id, int64_t absent);
bool inst_bool(const Instruction *inst, AttrId id);
double inst_float(const Instruction *inst, AttrId id, double absent);
Ints inst_ints(const Instruction *inst, AttrId id);
IntLists inst_int_lists(const Instruction *inst, AttrId id);
Bytes inst_bytes(const Instruction *inst, AttrId id);
const Window *inst_window(const Instruction *inst); /* absent: rank 0 */
void inst_set_int(Instruction *inst, AttrId id, int64_t value);
void inst_set_ints(Instruction *inst, AttrId id, const int64_t *data, uint32_t count);
void inst_set_bytes(Instruction *inst, AttrId id, const char *data, size_t length);
void inst_set_slice(Instruction *inst, const SliceDim *dims, uint32_t rank);
void inst_set_computation(Instruction *inst, AttrId id, Computation *callee);

/* Same opcode, shape, attributes (metadata, origin, sharding, statistics aside) and called
 * computations by pointer; operands are not compared. For CSE. */
bool inst_same_operation(const Instruction *a, const Instruction *b);
/* The same, but of called computations only the number is compared. */
bool inst_same_but_callees(const Instruction *a, const Instruction *b);
uint64_t inst_operation_hash(const Instruction *inst);

/* A dynamic-slice or -update-slice has a scalar for each start index, not one array with all of them. */
bool inst_has_scalar_starts(const Instruction *inst);
/* No operand of the product asks for more than the default precision. */
bool inst_has_default_precision(const Instruction *inst);
bool inst_is_constant_scalar(const Instruction *inst,
                             double value); /* also a broadcast of one */

#endif
