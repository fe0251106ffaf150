/* Dynamic-update-slices in place: the kernel writes the slices only; the rest of each result lies in its
 * buffer already. Other results have an element for each one that an update writes. */
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

#define ACCESS_BITS 128
#define LANES_MOST 8
#define RESULTS_MANY 6 /* more of them: values of many updates live at once */

const Instruction *fusion_update(const Instruction *fusion, uint32_t leaf)
{
    const Instruction *inst = behind_bitcasts(fusion_result(fusion, leaf).inst);
    return inst->op == OP_DYNAMIC_UPDATE_SLICE ? inst : NULL;
}

int64_t kernel_update_elements(const Instruction *fusion)
{
    for (uint32_t i = 0; i < fusion_result_count(fusion); i++) {
        const Instruction *update = fusion_update(fusion, i);
        if (update != NULL)
            return shape_elements(update->operands[1]->shape);
    }
    return -1;
}

/* -- legality ------------------------------------------------------------------------------------ */

/* Which instructions read one of the marked ones, themselves or through others. */
static bool *behind_marked(const Computation *comp, const bool *is_marked, Arena *scratch)
{
    bool *behind = ARENA_ARRAY(scratch, bool, (size_t)comp->instruction_count + 1);
    uint32_t count;
    Instruction **order = computation_post_order(comp, scratch, &count);
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *inst = order[i];
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            uint32_t id = inst->operands[k]->id;
            behind[inst->id] |= behind[id] || is_marked[id];
        }
    }
    return behind;
}

static bool *behind_updates(const Instruction *fusion, Arena *scratch)
{
    const Computation *comp = inst_called(fusion, 0);
    bool *is_update = ARENA_ARRAY(scratch, bool, (size_t)comp->instruction_count + 1);
    for (uint32_t i = 0; i < fusion_result_count(fusion); i++) {
        if (fusion_update(fusion, i) != NULL)
            is_update[fusion_update(fusion, i)->id] = true;
    }
    return behind_marked(comp, is_update, scratch);
}

/* The dynamic-slice of the very elements that the update replaces, read by the thread that replaces
 * them: element by element, and for no other result. */
static bool is_own_slice(const Instruction *fusion, const Instruction *inst,
                         const Instruction *update, Arena *scratch)
{
    const Computation *comp = inst_called(fusion, 0);
    if (inst->op != OP_DYNAMIC_SLICE || inst->operands[0] != update->operands[0] ||
        inst->operand_count + 1 != update->operand_count ||
        !shape_same_dims(inst->shape, update->operands[1]->shape))
        return false;
    for (uint32_t i = 1; i < inst->operand_count; i++) {
        if (inst->operands[i] != update->operands[i + 1])
            return false;
    }
    if (kernel_reach_illegal(update->operands[1], &inst, 1) != NULL)
        return false;
    bool *is_slice = ARENA_ARRAY(scratch, bool, (size_t)comp->instruction_count + 1);
    is_slice[inst->id] = true;
    const bool *behind = behind_marked(comp, is_slice, scratch);
    for (uint32_t i = 0; i < fusion_result_count(fusion); i++) {
        const Instruction *other = fusion_update(fusion, i);
        if (other == NULL)
            other = fusion_result(fusion, i).inst;
        if (other != update && (behind[other->id] || other == inst))
            return false;
    }
    return true;
}

/* One update: of an operand of the fusion that nothing else in it reads, as another thread may
 * have replaced what is read; but for its own slice. */
static const char *one_update_illegal(const Instruction *fusion,
                                      const Instruction *update, Arena *scratch)
{
    const Computation *comp = inst_called(fusion, 0);
    const Instruction *base = behind_bitcasts(update->operands[0]);
    if (base->op != OP_PARAMETER)
        return "what is updated is no operand of the fusion";
    for (const Instruction *user = inst_first(comp); user; user = inst_next(user)) {
        for (uint32_t o = 0; o < user->operand_count; o++) {
            bool is_own = user->op == OP_BITCAST || (user == update && o == 0);
            if (behind_bitcasts(user->operands[o]) == base && !is_own &&
                user->op != OP_TUPLE &&
                (o != 0 || !is_own_slice(fusion, user, update, scratch)))
                return "what is updated is also read";
        }
    }
    return NULL;
}

static const char *update_results_illegal(const Instruction *fusion, Arena *scratch)
{
    int64_t elements = kernel_update_elements(fusion);
    const bool *behind = behind_updates(fusion, scratch);
    for (uint32_t i = 0; i < fusion_result_count(fusion); i++) {
        const Instruction *update = fusion_update(fusion, i);
        FusionResult r = fusion_result(fusion, i);
        const Shape *s = update != NULL ? update->operands[1]->shape : r.shape;
        if (shape_elements(s) != elements)
            return "the updates differ in size";
        if (update == NULL && dtype_info[s->dtype].bits < 8)
            return "a result beside the updates is packed";
        if (update == NULL ? behind[r.inst->id] : behind[update->id])
            return "a result depends on an update";
        const char *reason =
            update != NULL ? one_update_illegal(fusion, update, scratch) : NULL;
        if (reason != NULL)
            return reason;
        for (uint32_t k = 0; update != NULL && k < i; k++) {
            const Instruction *other = fusion_update(fusion, k);
            if (other != NULL && behind_bitcasts(other->operands[0]) ==
                                     behind_bitcasts(update->operands[0]))
                return "two updates of one operand";
        }
    }
    return NULL;
}

/* Results that are dynamic-update-slices of operands of the fusion, and others with an element for
 * each one that an update writes. */
const char *illegal_update_slice(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    if (kernel_update_elements(f->fusion) < 0)
        return "no result is a dynamic-update-slice";
    const char *reason = update_results_illegal(f->fusion, f->arena);
    return reason != NULL ? reason : facts_body_illegal(f);
}

bool suits_update_slice(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

/* -- design --------------------------------------------------------------------------------------- */

void plan_update_slice(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    UpdatePlan *p = ARENA_NEW(d->arena, UpdatePlan);
    uint32_t results = fusion_result_count(d->fusion);
    p->elements = kernel_update_elements(d->fusion);
    p->updates = ARENA_ARRAY(d->arena, const Instruction *, results);
    for (uint32_t i = 0; i < results; i++) {
        const Instruction *update = fusion_update(d->fusion, i);
        if (update != NULL)
            p->updates[p->count++] = update;
    }
    d->plan.update = p;
}

static int64_t choose_lanes(const KernelDesign *d)
{
    const UpdatePlan *p = d->plan.update;
    uint32_t results = fusion_result_count(d->fusion);
    unsigned bits = 8;
    for (uint32_t i = 0; i < results; i++) {
        unsigned own =
            dtype_info[behind_bitcasts(fusion_result(d->fusion, i).inst)->shape->dtype]
                .bits;
        bits = own > bits ? own : bits;
    }
    int64_t lanes = ACCESS_BITS / bits;
    if (lanes > LANES_MOST)
        lanes = LANES_MOST;
    if (!fusion_is_plain(inst_called(d->fusion, 0), p->updates, p->count))
        lanes = 1;
    if (lanes > 2 && results > RESULTS_MANY)
        lanes = 2;
    while (lanes > 1 && p->elements % lanes != 0)
        lanes /= 2;
    return lanes == 0 ? 1 : lanes;
}

static int64_t threads_of(const KernelDesign *d, const KernelConfig *c)
{
    return d->plan.update->elements / c->lanes.data[0];
}

void configure_update_slice(const KernelDesign *d, KernelConfig *c)
{
    if (config_lacks(c, KERNEL_KEY_LANES))
        config_set_lanes(d->arena, c, choose_lanes(d));
    configure_threads(c, threads_of(d, c));
}

const char *refuse_update_slice(const KernelDesign *d)
{
    const char *wrong = lanes_refused(d, 1);
    if (wrong != NULL)
        return wrong;
    int64_t lanes = d->config.lanes.data[0];
    if (d->plan.update->elements % lanes != 0)
        return refuse_text(d, "\"lanes\" %lld must divide the %lld elements of an update",
                           (long long)lanes, (long long)d->plan.update->elements);
    return block_refused(d);
}

void geometry_update_slice(KernelDesign *d)
{
    geometry_threads(d, threads_of(d, &d->config));
}
