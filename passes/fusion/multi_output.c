/* Kernels into one kernel of several results: side by side, where none needs the other, and one
 * behind the other, where the second reads what the first makes at the same indices.
 *
 *   a = fusion(x), kind=loop   b = fusion(x), kind=loop   s = fusion(a), kind=row_reduction
 *   ->  t = (..) fusion(x), kind=row_reduction   a = t#0   b = t#1   s = t#2
 *
 * Loops join loops of any size, and updates in place of their size; reductions join reductions
 * with the same rows and columns, and loops over their rows or elements (column reductions those that do not need
 * them, where one sweep is cheaper than two). A launch is saved each time, and so are the bytes that both read; what
 * nobody reads any more is no longer a result.
 * A kernel that does the work of several points of the program runs at one of them, and what the others
 * read or make lives until then, or from there on: live_profile.c refuses what makes the program need
 * more memory, as kernels of different layers side by side would.
 *
 * Kernels are visited in order, so the sweep is linear in them but for the candidates it looks
 * back at, of which those that read the same come first, and of these reductions that wait for as
 * many others: tied to a later one, a reduction would keep its readers from joining what they could
 * stand beside. Paths between kernels are known over a stretch of the order.
 *
 * Needs: wrapped. Keeps: values. Ends: each kernel joins at most one other. */
#include <stdlib.h>
#include <string.h>

#include "ir/analysis/alias.h"
#include "ir/analysis/carried.h"
#include "ir/analysis/collective.h"
#include "ir/analysis/loop_slice.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/reduction.h"
#include "ir/kernel/time/costs.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/kernel_work.h"
#include "passes/fusion/fusion.h"
#include "passes/fusion/live_profile.h"
#include "passes/fusion/multi_output.h"
#include "passes/schedule/groups.h"
#include "passes/schedule/memory.h"

#define STRETCH 1024 /* instructions that are looked at together */
#define LOOK_BACK 48 /* candidates */
#define KERNEL_MOST_NODES 300
#define EXPENSIVE_NODES 12 /* what the code of a transcendental counts as */
#define REDUCE_NODES 16   /* and that of a reduction: its loop, shuffles, shared memory */
#define FEW_HEROES 4      /* reductions of a kernel that registers are not counted for */
#define MOST_REGISTERS 64 /* of a thread, where the largest blocks have 64 or 128 */
#define RARE_REGISTERS 128 /* where two kernels would take longer */
#define KERNEL_MOST_RESULTS 48
#define KERNEL_MOST_ARGS 96
/* A kernel with rows this long and fewer rows leaves most of the device idle. */
#define LONG_ROW 16384
#define FEW_ROWS 32

typedef struct Join {
    Module *m;
    Computation *comp;
    PassContext *cx;
    bool is_body;
    Uses uses;
    bool *has_successor; /* [instruction count] something must come after it */
    Paths paths;         /* of the stretch */
    uint8_t
        *side; /* [instruction count] BEFORE and BEHIND a collective; NULL: no matter */
    CarriedValues carried;
    uint32_t *depth;    /* [instruction count] of the longest way to it, in values */
    Kernel **kernel_at; /* [instruction count] the kernel that an instruction became */
    Kernel **kernels;
    size_t kernel_count, kernel_capacity;
    uint32_t *read_at; /* [instruction count] the last visit to a reader */
    uint32_t visit;
    const uint32_t *callers;  /* by computation id, when the pass began */
    const LoopSlices *slices; /* no kernels, if they stay alone */
    int64_t *called;          /* [computations] bytes that live inside */
    LiveProfile *profile;
    Arena *brief; /* for one visit */
    bool changed;
} Join;

static bool is_loop(KernelKind kind)
{
    return kernel_kind_is(kind, KERNEL_BY_ELEMENT) &&
           !kernel_kind_is(kind, KERNEL_ONE_RESULT);
}

static bool is_update(KernelKind kind)
{
    return kernel_kind_is(kind, KERNEL_UPDATES);
}

static bool is_reduction(KernelKind kind)
{
    return kernel_kind_is(kind, KERNEL_REDUCES);
}

/* Made in tiles, with what is done to each element of the result afterwards. */
static bool is_contraction(KernelKind kind)
{
    return kernel_kind_is(kind, KERNEL_CONTRACTS);
}

static const Kernel *kernel_of(const Join *j, const Instruction *inst)
{
    return j->kernel_at[inst->id];
}

/* -- what may join -------------------------------------------------------------------------- */

/* Size of the fusion's code, in plain instructions: a transcendental is a whole function, a reduction a loop. The
 * assembler's time grows faster than a kernel's size, so many middling kernels compile sooner
 * than a few huge ones. */
static uint32_t nodes_of(const Instruction *fusion)
{
    const Computation *comp = inst_called(fusion, 0);
    uint32_t size = 0;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        size += op_is(inst->op, OPF_EXPENSIVE) ? EXPENSIVE_NODES
                : inst->op == OP_REDUCE        ? REDUCE_NODES
                                               : 1;
    }
    return size;
}

static bool has_heavy_code(const Instruction *fusion)
{
    static const OpCode heavy[] = {OP_DOT, OP_CONVOLUTION, OP_REDUCE, OP_REDUCE_WINDOW};
    const Computation *comp = inst_called(fusion, 0);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (size_t h = 0; h < sizeof heavy / sizeof *heavy; h++) {
            if (inst->op == heavy[h])
                return true;
        }
    }
    return false;
}

static uint32_t count_reduces(const Instruction *fusion)
{
    const Computation *comp = inst_called(fusion, 0);
    uint32_t n = 0;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
        n += inst->op == OP_REDUCE;
    return n;
}

/* Fills in rows and columns; false: a reduction that something else is hidden in. */
static bool describe_reduction(Kernel *k, Arena *scratch)
{
    const char *why;
    const ReductionPlan *plan = reduction_plan(k->fusion, scratch, &why);
    if (plan == NULL || plan->hero_count != count_reduces(k->fusion))
        return false;
    k->rows = plan->rows;
    k->columns = plan->columns;
    k->minor_reduced = plan->minor_reduced;
    k->heroes = plan->hero_count;
    return !plan->has_full || plan->rows >= FEW_ROWS || plan->columns <= LONG_ROW;
}

static Kernel *describe(Join *j, Instruction *inst)
{
    if (inst->op != OP_FUSION || !shape_is_array(inst->shape) ||
        inst->control_count != 0 || shape_elements(inst->shape) == 0 ||
        loop_slice_of(j->slices, inst) != NULL)
        return NULL;
    Kernel *k = ARENA_NEW(j->cx->scratch, Kernel);
    k->fusion = inst;
    k->kind = kernel_kind_of(inst);
    k->depth = j->depth[inst->id];
    k->elements = shape_elements(inst->shape);
    k->is_heavy = has_heavy_code(inst);
    k->nodes = nodes_of(inst);
    k->is_own = j->callers[inst_called(inst, 0)->id] == 1;
    k->leaves.users_see =
        ARENA_ARRAY(j->cx->scratch, Instruction *, KERNEL_MOST_RESULTS + 1);
    k->leaves.inside =
        ARENA_ARRAY(j->cx->scratch, Instruction *, KERNEL_MOST_RESULTS + 1);
    k->leaves.users_see[0] = inst;
    k->leaves.inside[0] = inst_called(inst, 0)->root;
    k->leaves.count = 1;
    if (is_reduction(k->kind))
        return describe_reduction(k, j->brief) ? k : NULL;
    if (is_update(k->kind)) {
        k->elements = kernel_update_elements(inst);
        return k;
    }
    return is_loop(k->kind) || is_contraction(k->kind) ? k : NULL;
}

/* Marks what b reads, but for single elements. */
static void mark_operands(Join *j, const Instruction *b)
{
    j->visit++;
    for (uint32_t k = 0; k < b->operand_count; k++) {
        if (shape_elements(b->operands[k]->shape) > 1)
            j->read_at[b->operands[k]->id] = j->visit;
    }
}

static bool shares_operand(const Join *j, const Kernel *a)
{
    for (uint32_t i = 0; i < a->fusion->operand_count; i++) {
        if (j->read_at[a->fusion->operands[i]->id] == j->visit)
            return true;
    }
    return false;
}

/* Fits the reduction's rows or its elements. */
static bool loop_fits(const Kernel *reduction, const Kernel *loop)
{
    return loop->elements == reduction->rows ||
           loop->elements == reduction->rows * reduction->columns;
}

/* A reduction of columns, which keeps no elements for a second sweep. */
static bool is_by_columns(KernelKind kind)
{
    return is_reduction(kind) && !kernel_kind_is(kind, KERNEL_BY_ROWS);
}

/* A reduction and a loop over its elements. */
static bool adds_elements(const Kernel *a, const Kernel *b)
{
    const Kernel *r = is_reduction(a->kind) ? a : b, *l = r == a ? b : a;
    return is_reduction(r->kind) && is_loop(l->kind) && l->elements != r->rows;
}

static bool kinds_fit(const Kernel *a, const Kernel *b, bool reads, bool shares)
{
    if (is_contraction(b->kind))
        return false;
    if (is_contraction(a->kind)) /* an epilogue */
        return reads && is_loop(b->kind) && !b->is_heavy && a->elements == b->elements;
    bool updates = is_update(a->kind) || is_update(b->kind);
    if (updates && (is_reduction(a->kind) || is_reduction(b->kind)))
        return false;
    if (updates) /* the others have an element for each one that is written */
        return a->elements == b->elements &&
               (reads || (!a->is_heavy && !b->is_heavy) || shares);
    if (is_reduction(a->kind) && is_reduction(b->kind))
        return a->kind == b->kind && a->rows == b->rows && a->columns == b->columns &&
               a->minor_reduced == b->minor_reduced;
    if (is_reduction(a->kind) || is_reduction(b->kind)) {
        const Kernel *r = is_reduction(a->kind) ? a : b, *l = r == a ? b : a;
        if (reads && l == b && is_by_columns(r->kind) && adds_elements(a, b))
            return false;
        return !l->is_heavy && loop_fits(r, l) && (reads || shares);
    }
    if (reads) /* at the same indices: what is read is made once */
        return a->elements == b->elements;
    /* a heavy loop among others makes those wait */
    if (a->is_heavy || b->is_heavy)
        return a->is_heavy == b->is_heavy && a->elements == b->elements && shares;
    return true;
}

/* Loops read a joined one's results only where they are made. */
static bool reads_fit(const Join *j, const Kernel *a, const Kernel *b)
{
    if (is_reduction(a->kind) || is_reduction(b->kind))
        return true; /* the kind's legality says it */
    for (uint32_t k = 0; k < b->fusion->operand_count; k++) {
        if (kernel_of(j, b->fusion->operands[k]) == a &&
            (shape_elements(b->fusion->operands[k]->shape) != b->elements ||
             !kernel_reads_at_results(b->fusion, k, b->elements)))
            return false;
    }
    return true;
}

/* b needs a, but for reading it: through something that stays between them. */
static bool is_behind(const Join *j, const Kernel *a, const Kernel *b, bool *reads)
{
    *reads = false;
    for (uint32_t k = 0; k < b->fusion->operand_count; k++) {
        const Instruction *o = b->fusion->operands[k];
        if (kernel_of(j, o) == a) {
            *reads = true;
            continue;
        }
        if (paths_lead(&j->paths, a->fusion, o))
            return true;
    }
    return false;
}

static bool sizes_fit(const Kernel *a, const Kernel *b)
{
    uint32_t args = a->fusion->operand_count + b->fusion->operand_count +
                    a->leaves.count + b->leaves.count;
    return a->nodes + b->nodes <= 2 * KERNEL_MOST_NODES &&
           a->leaves.count + b->leaves.count <= KERNEL_MOST_RESULTS &&
           args <= KERNEL_MOST_ARGS;
}

/* -- joining -------------------------------------------------------------------------------- */

enum { BEFORE = 1, BEHIND = 2 };

/* Of a scheduling group: a kernel with others would be none, and so perhaps a gap in it. */
static bool is_member(const Instruction *inst)
{
    const char *name = inst_frontend_attribute(inst, GROUP_ATTRIBUTE);
    return name != NULL && strcmp(name, "noop") != 0;
}

static bool has_sides(const Instruction *inst)
{
    return op_is(inst->op, OPF_COLLECTIVE) || is_member(inst);
}

/* Where collectives are to run beside kernels, one that they wait for must not be tied to one
 * that could run meanwhile; nor one that members of scheduling groups wait for to one that waits for them. */
static void find_sides(Join *j)
{
    const Computation *comp = j->comp;
    uint32_t count = comp->instruction_count;
    j->side = ARENA_ARRAY(j->cx->scratch, uint8_t, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *inst = comp->instructions[i];
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            const Instruction *o = inst->operands[k];
            j->side[i] |= has_sides(o) ? BEHIND : j->side[o->id] & BEHIND;
        }
    }
    for (uint32_t i = count; i-- > 0;) {
        const Instruction *inst = comp->instructions[i];
        bool before = has_sides(inst) || (j->side[i] & BEFORE) != 0;
        for (uint32_t k = 0; before && k < inst->operand_count; k++)
            j->side[inst->operands[k]->id] |= BEFORE;
    }
}

/* A computation that nobody else calls. */
static void own_computation(Kernel *k)
{
    if (k->is_own)
        return;
    k->is_own = true;
    Computation *own = computation_clone(inst_called(k->fusion, 0), NULL);
    own->is_fused = true;
    inst_set_called(k->fusion, 0, own);
    k->leaves.inside[0] = own->root;
}

static double seconds_of(Join *j, const Instruction *fusion)
{
    KernelWork w;
    const Target *t = j->cx->target;
    kernel_work_gx(fusion, t, j->brief, &w);
    return kernel_time(&w, t->device).seconds;
}

/* What reductions side by side found stays in registers until all are done: few of those are left to hide that
 * memory is far, and too many are spilled. `apart`: seconds that two kernels take. */
static bool fits_registers(Join *j, const Kernel *k, double apart)
{
    if (k->heroes <= FEW_HEROES || kernel_kind_of(k->fusion) != k->kind)
        return true;
    uint32_t registers = kernel_registers(k->fusion, j->cx->target, j->brief);
    return registers <= MOST_REGISTERS ||
           (registers <= RARE_REGISTERS && seconds_of(j, k->fusion) < apart);
}

/* The fusion a with b's code and result in it; false, and a is as before: no kernel makes that. */
static bool try_join(Join *j, Kernel *a, Kernel *b)
{
    if (j->side != NULL && (j->side[a->fusion->id] != j->side[b->fusion->id] ||
                            is_member(a->fusion) || is_member(b->fusion)))
        return false;
    Instruction *fusion = a->fusion;
    own_computation(a);
    bool is_sweep =
        adds_elements(a, b) && (is_by_columns(a->kind) || is_by_columns(b->kind));
    double apart = is_sweep || a->heroes + b->heroes > FEW_HEROES
                       ? seconds_of(j, fusion) + seconds_of(j, b->fusion)
                       : 0;
    Kernel was = *a;
    Instruction **inside =
        arena_copy(j->brief, a->leaves.inside, a->leaves.count * sizeof *inside);
    SavedFusion *saved = fusion_save(fusion, j->brief);
    Instruction *result =
        fusion_bring_in(fusion, &a->leaves, b->fusion, b->is_own, &a->spare, j->brief);
    a->leaves.inside[a->leaves.count] = result;
    a->leaves.users_see[a->leaves.count++] = b->fusion;
    fusion_set_results(fusion, a->leaves.inside, a->leaves.count);
    computation_compact(inst_called(fusion, 0));
    bool wants_reduction = is_reduction(was.kind) || is_reduction(b->kind);
    KernelKind wanted = is_loop(was.kind) ? b->kind : was.kind;
    /* what both make is made once */
    a->nodes = nodes_of(fusion);
    bool good = a->nodes <= KERNEL_MOST_NODES &&
                kernel_kind_choose(fusion, j->cx->target) == wanted;
    if (good && wants_reduction)
        good = describe_reduction(a, j->brief) && a->heroes == was.heroes + b->heroes &&
               fits_registers(j, a, apart);
    if (good && is_sweep) /* a launch alone is no reason to have fewer threads */
        good = seconds_of(j, fusion) + (double)cost_ps_of_launch() * 1e-12 < apart;
    if (good) {
        a->kind = wanted;
        a->is_heavy |= b->is_heavy;
        a->elements = a->elements > b->elements ? a->elements : b->elements;
        a->depth = a->depth > b->depth ? a->depth : b->depth;
        return true;
    }
    fusion_restore(saved);
    memcpy(was.leaves.inside, inside, was.leaves.count * sizeof *inside);
    *a = was;
    return false;
}

/* Bytes that b reads and the kernel reads or makes, too; 0: little of all that b reads. */
static int64_t shared_bytes(const Join *j, const Kernel *a, int64_t read)
{
    int64_t shared = 0;
    for (uint32_t i = 0; i < a->fusion->operand_count; i++) {
        const Instruction *o = a->fusion->operands[i];
        shared += j->read_at[o->id] == j->visit ? shape_bytes(o->shape) : 0;
    }
    for (uint32_t i = 0; i < a->leaves.count; i++) {
        const Instruction *o = a->leaves.users_see[i];
        shared += j->read_at[o->id] == j->visit ? shape_bytes(o->shape) : 0;
    }
    return shared >= read / 4 ? shared : 0;
}

typedef struct Candidate {
    Kernel *kernel;
    int64_t shared; /* bytes */
    uint32_t
        behind; /* steps of the longest way between the two, were they side by side */
} Candidate;

static bool is_better(const Candidate *a, const Candidate *b)
{
    if (a->shared != b->shared)
        return a->shared > b->shared;
    return a->behind < b->behind;
}

/* The last kernels, those first that share most of what b reads, then those of its depth, then those that came
 * last. */
static uint32_t find_candidates(const Join *j, const Kernel *kernel, Candidate *out)
{
    const Instruction *b = kernel->fusion;
    int64_t read = 1;
    uint32_t count = 0;
    for (uint32_t k = 0; k < b->operand_count; k++)
        read += shape_is_array(b->operands[k]->shape) ? shape_bytes(b->operands[k]->shape)
                                                      : 0;
    for (size_t i = j->kernel_count; i-- > 0 && count < LOOK_BACK; count++) {
        Kernel *a = j->kernels[i];
        Candidate c = {.kernel = a, .shared = shared_bytes(j, a, read)};
        if (is_reduction(kernel->kind) && is_reduction(a->kind))
            c.behind = a->depth > kernel->depth ? a->depth - kernel->depth
                                                : kernel->depth - a->depth;
        uint32_t at = count;
        for (; at > 0 && is_better(&c, &out[at - 1]); at--)
            out[at] = out[at - 1];
        out[at] = c;
    }
    return count;
}

/* As one kernel they do not make elements where what those are made of lies: a reduction reads that, too. */
static bool writes_apart(const Kernel *a, const Kernel *b, bool reads)
{
    return adds_elements(a, b) && (is_by_columns(a->kind) || is_by_columns(b->kind) ||
                                   (reads && is_reduction(b->kind)));
}

/* Something that it makes is to lie where something else lay. */
static bool replaces(const Join *j, const Kernel *k)
{
    for (uint32_t i = 0; i < k->leaves.count; i++) {
        if (j->carried.replaced[k->leaves.users_see[i]->id] != NULL)
            return true;
    }
    return false;
}

static bool join(Join *j, Kernel *a, Kernel *b)
{
    bool reads;
    if (!sizes_fit(a, b) || is_behind(j, a, b, &reads) ||
        !kinds_fit(a, b, reads, shares_operand(j, a)) || (reads && !reads_fit(j, a, b)))
        return false;
    /* what a needs may have come to be behind b by joining */
    if (paths_lead(&j->paths, b->fusion, a->fusion))
        return false;
    if (writes_apart(a, b, reads) && (replaces(j, a) || replaces(j, b)))
        return false;
    if (carried_copies(&j->carried, &j->paths, a, b) >
        carried_copies(&j->carried, &j->paths, a, NULL) +
            carried_copies(&j->carried, &j->paths, b, NULL))
        return false;
    if (!live_profile_join(j->profile, a->fusion->id, b->fusion->id))
        return false;
    if (!try_join(j, a, b)) {
        live_profile_undo(j->profile);
        return false;
    }
    paths_join(&j->paths, a->leaves.users_see, a->leaves.count, j->brief);
    j->kernel_at[b->fusion->id] = a;
    j->changed = true;
    return true;
}

static void visit(Join *j, Instruction *inst)
{
    Kernel *b = describe(j, inst);
    Candidate candidates[LOOK_BACK];
    if (b == NULL)
        return;
    mark_operands(j, inst);
    uint32_t count = find_candidates(j, b, candidates);
    for (uint32_t i = 0; i < count; i++) {
        if (join(j, candidates[i].kernel, b))
            return;
    }
    j->kernel_at[inst->id] = b;
    j->kernels = arena_grow(j->cx->scratch, j->kernels, &j->kernel_capacity,
                            j->kernel_count + 1, sizeof(Kernel *));
    j->kernels[j->kernel_count++] = b;
}

/* -- the result ------------------------------------------------------------------------------- */

static bool is_needed_outside(const Join *j, const Kernel *k, const Instruction *member)
{
    if (member == j->comp->root || j->has_successor[member->id])
        return true;
    for (uint32_t i = j->uses.start[member->id]; i < j->uses.start[member->id + 1]; i++) {
        if (kernel_of(j, j->uses.list[i]) != k)
            return true;
    }
    return false;
}

/* One instruction for a kernel of several; forward[] gets what its members become. */
static void make_fusion(Join *j, Kernel *k, Instruction **forward)
{
    Instruction *old = k->fusion;
    uint32_t n = 0;
    Instruction **inside = ARENA_ARRAY(j->cx->scratch, Instruction *, k->leaves.count);
    Instruction **members = ARENA_ARRAY(j->cx->scratch, Instruction *, k->leaves.count);
    for (uint32_t i = 0; i < k->leaves.count; i++) {
        if (!is_needed_outside(j, k, k->leaves.users_see[i]))
            continue;
        inside[n] = k->leaves.inside[i];
        members[n++] = k->leaves.users_see[i];
    }
    if (n == 0)
        return;
    fusion_set_results(old, inside, n);
    fusion_drop_unread(old, j->cx->scratch);
    Computation *fused = inst_called(old, 0);
    Instruction *fusion = computation_add(j->comp, OP_FUSION, fused->root->shape,
                                          old->operand_count, old->operands, old->name);
    fusion->span = old->span;
    const Attr *metadata = inst_attr(old, ATTR_METADATA);
    if (metadata != NULL)
        inst_set(fusion, *metadata);
    inst_set_int(fusion, ATTR_KIND, inst_int(old, ATTR_KIND, FUSION_LOOP));
    inst_set_computation(fusion, ATTR_CALLS, fused);
    /* the result that it was chosen for may be one that nobody reads */
    kernel_kind_set(fusion, n == k->leaves.count
                                ? k->kind
                                : kernel_kind_choose(fusion, j->cx->target));
    for (uint32_t i = 0; i < n; i++) {
        Instruction *member = members[i];
        forward[member->id] = fusion;
        if (n == 1)
            continue;
        forward[member->id] = computation_add(j->comp, OP_GET_TUPLE_ELEMENT,
                                              member->shape, 1, &fusion, member->name);
        inst_set_int(forward[member->id], ATTR_INDEX, i);
    }
}

static bool *find_successors(const Computation *comp, Arena *scratch)
{
    bool *has = ARENA_ARRAY(scratch, bool, (size_t)comp->instruction_count + 1);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->control_count; k++)
            has[inst->control[k]->id] = true;
    }
    return has;
}

static uint32_t *find_depths(const Computation *comp, Arena *scratch)
{
    uint32_t *depth = ARENA_ARRAY(scratch, uint32_t, (size_t)comp->instruction_count + 1);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->operand_count + inst->control_count; k++) {
            const Instruction *o = k < inst->operand_count
                                       ? inst->operands[k]
                                       : inst->control[k - inst->operand_count];
            uint32_t to = depth[o->id] + alias_defines(o);
            depth[inst->id] = to > depth[inst->id] ? to : depth[inst->id];
        }
    }
    return depth;
}

/* An order that needs little memory, which joins are to leave so. */
static void find_profile(Join *j)
{
    Graph *g = ARENA_NEW(j->cx->scratch, Graph);
    *g = (Graph){.scratch = j->cx->scratch,
                 .comp = j->comp,
                 .is_body = j->is_body,
                 .slices = j->slices,
                 .called = j->called,
                 .most_steps = GRAPH_STEPS};
    graph_make(g);
    uint32_t *order = ARENA_ARRAY(g->scratch, uint32_t, (size_t)g->count + 1);
    j->called[j->comp->id] = memory_order(g, order);
    j->profile = live_profile_create(g, order);
}

typedef struct Slot {
    uint32_t slot, id;
    Instruction *inst;
} Slot;

static int by_slot(const void *x, const void *y)
{
    const Slot *a = x, *b = y;
    if (a->slot != b->slot)
        return a->slot < b->slot ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* The order that the joins were made for: what became of the first instructions stands where those did. */
static void take_order(Join *j, uint32_t count, Instruction *const *forward)
{
    Computation *comp = j->comp;
    uint32_t all = comp->instruction_count, n = 0;
    Slot *slots = ARENA_ARRAY(j->cx->scratch, Slot, (size_t)all + 1);
    uint32_t *slot = ARENA_ARRAY(j->cx->scratch, uint32_t, (size_t)all + 1);
    for (uint32_t i = 0; i < count; i++) {
        slot[i] = live_profile_slot(j->profile, i);
        for (const Instruction *to = forward[i]; to != NULL;
             to = to->op == OP_GET_TUPLE_ELEMENT ? to->operands[0] : NULL)
            slot[to->id] = slot[i];
    }
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
        slots[n++] = (Slot){slot[inst->id], inst->id, inst};
    qsort(slots, n, sizeof *slots, by_slot);
    memset(comp->instructions, 0, all * sizeof *comp->instructions);
    for (uint32_t i = 0; i < n; i++)
        comp->instructions[i] = slots[i].inst;
    computation_compact(comp);
    computation_sort(comp);
}

static void join_computation(Join *j)
{
    Computation *comp = j->comp;
    computation_sort(comp);
    uint32_t count = comp->instruction_count;
    j->uses = uses_compute(comp, j->cx->scratch);
    j->has_successor = find_successors(comp, j->cx->scratch);
    j->depth = find_depths(comp, j->cx->scratch);
    j->carried = carried_find(j->comp, j->is_body, j->cx->scratch);
    find_profile(j);
    if (j->cx->opt_level >= 2)
        find_sides(j);
    j->read_at = ARENA_ARRAY(j->cx->scratch, uint32_t, (size_t)count + 1);
    j->kernel_at = ARENA_ARRAY(j->cx->scratch, Kernel *, (size_t)count + 1);
    Instruction **forward =
        ARENA_ARRAY(j->cx->scratch, Instruction *, (size_t)count * 4 + 1);
    bool changed = j->changed;
    j->changed = false;
    for (uint32_t first = 0, n; first < count; first += n) {
        n = count - first < STRETCH ? count - first : STRETCH;
        j->kernel_count = 0;
        j->paths = paths_find(comp, first, n, j->cx->scratch);
        for (uint32_t i = 0; i < n; i++) {
            visit(j, comp->instructions[first + i]);
            arena_reset(j->brief);
        }
        for (size_t i = 0; i < j->kernel_count; i++) {
            if (j->kernels[i]->leaves.count > 1)
                make_fusion(j, j->kernels[i], forward);
        }
    }
    if (j->changed) {
        computation_replace(comp, forward);
        for (uint32_t i = 0; i < count; i++) {
            const Kernel *k = j->kernel_at[i];
            if (k != NULL && k->leaves.count > 1)
                computation_remove(comp, comp->instructions[i]);
        }
        take_order(j, count, forward);
    }
    j->changed |= changed;
}

bool pass_multi_output(Module *m, PassContext *cx)
{
    Join j = {.m = m, .cx = cx, .brief = arena_scratch()};
    Computations programs = module_programs(m, cx->scratch);
    const bool *is_body = module_loop_bodies(m, cx->scratch);
    j.callers = module_call_counts(m, cx->scratch);
    j.slices = loop_slices_create(m, cx->scratch);
    j.called = ARENA_ARRAY(cx->scratch, int64_t, (size_t)m->computation_count + 1);
    for (uint32_t c = 0; c < programs.count; c++) {
        j.comp = programs.data[c];
        j.is_body = is_body[j.comp->id];
        join_computation(&j);
    }
    arena_destroy(j.brief);
    fusion_name_all(m);
    if (j.changed) {
        module_remove_dead_computations(m);
        module_sort(m);
    }
    return j.changed;
}
