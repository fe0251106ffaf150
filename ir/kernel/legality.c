/* Which kinds of kernels a fusion can be, and which is best. See kind.h. */
#include <string.h>

#include "ir/kernel/kind.h"
#include "ir/kernel/reduction.h"
#include "ir/kernel/transposition.h"

/* Opcodes whose elements can be computed one by one, by the EMIT column. */
enum {
    ELEMENT_scalar = 1,
    ELEMENT_move = 1,
    ELEMENT_select = 1,
    ELEMENT_index = 1,
    ELEMENT_constant = 1,
    ELEMENT_reduce = 1,
    ELEMENT_contract = 1,
    ELEMENT_nothing = 1,
    ELEMENT_alias = 1,
    ELEMENT_kernel = 0,
    ELEMENT_control = 0,
    ELEMENT_collective = 0,
    ELEMENT_async = 0,
    ELEMENT_custom = 0,
    ELEMENT_fusion = 0,
    ELEMENT_device_id = 0,
    ELEMENT_expand = 0,
    ELEMENT_unsupported = 0,
};

static const bool by_element[OP_COUNT] = {
#define OP(id, ...) [OP_##id] =
#define EMIT(kind, function) ELEMENT_##kind,
#include "ir/ops.def"
};

/* Every instruction but `hero` (may be NULL) is computed by element, and no value inside is a tuple but
 * for results and what has several of them. */
static const char *body_illegal(const Instruction *fusion, const Instruction *hero)
{
    const Computation *comp = inst_called(fusion, 0);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst == hero)
            continue;
        if (!by_element[inst->op])
            return "an operation inside has no elements";
        if (shape_is_array(inst->shape))
            continue;
        bool is_tuple = inst->op == OP_TUPLE && inst == comp->root;
        bool has_several = inst->op == OP_REDUCE || inst->op == OP_REDUCE_WINDOW;
        if (!is_tuple && !has_several)
            return "a value inside is no array";
    }
    return NULL;
}

static const char *loop_illegal(const Instruction *fusion)
{
    const char *reason = body_illegal(fusion, NULL);
    uint32_t count = fusion_result_count(fusion);
    if (reason != NULL)
        return reason;
    return count == 0 ? "there is no result" : NULL;
}

/* -- operations with a kernel of their own ------------------------------------------------------- */

/* The one instruction `op`, whose leaves are the results, all of them in order. */
static const char *hero_root_illegal(const Instruction *fusion, OpCode op)
{
    const Instruction *hero = fusion_hero(fusion, op);
    if (hero == NULL)
        return "it needs exactly one such operation";
    uint32_t count = fusion_result_count(fusion);
    if (count != shape_leaf_count(hero->shape))
        return "the results are not those of the operation";
    for (uint32_t i = 0; i < count; i++) {
        FusionResult r = fusion_result(fusion, i);
        if (r.inst != hero || r.inst_leaf != i)
            return "the results are not those of the operation";
    }
    return body_illegal(fusion, hero);
}

/* The parameter that a value is, under another shape of the same bytes at most. */
static const Instruction *behind_bitcasts(const Instruction *inst)
{
    while (inst->op == OP_BITCAST)
        inst = inst->operands[0];
    return inst;
}

/* Whether anything but the hero's operand `operand` reads the parameter that it is. */
static bool is_read_besides(const Instruction *fusion, const Instruction *hero,
                            uint32_t operand)
{
    const Computation *comp = inst_called(fusion, 0);
    const Instruction *parameter = behind_bitcasts(hero->operands[operand]);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op == OP_BITCAST)
            continue;
        for (uint32_t k = 0; k < inst->operand_count; k++)
            if (behind_bitcasts(inst->operands[k]) == parameter &&
                (inst != hero || k != operand))
                return true;
    }
    return false;
}

static const char *scatter_illegal(const Instruction *fusion)
{
    const char *reason = hero_root_illegal(fusion, OP_SCATTER);
    if (reason != NULL)
        return reason;
    const Instruction *hero = fusion_hero(fusion, OP_SCATTER);
    uint32_t count = hero->operand_count / 2;
    for (uint32_t i = 0; i < count; i++) {
        if (behind_bitcasts(hero->operands[i])->op != OP_PARAMETER)
            return "an array scattered into is no operand of the fusion";
        if (is_read_besides(fusion, hero, i))
            return "what is scattered into is read elsewhere, after it changed";
    }
    return NULL;
}

static const Instruction *update_of(const Instruction *fusion, uint32_t leaf)
{
    const Instruction *inst = behind_bitcasts(fusion_result(fusion, leaf).inst);
    return inst->op == OP_DYNAMIC_UPDATE_SLICE ? inst : NULL;
}

int64_t kernel_update_elements(const Instruction *fusion)
{
    for (uint32_t i = 0; i < fusion_result_count(fusion); i++) {
        const Instruction *update = update_of(fusion, i);
        if (update != NULL)
            return shape_elements(update->operands[1]->shape);
    }
    return -1;
}

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
        if (update_of(fusion, i) != NULL)
            is_update[update_of(fusion, i)->id] = true;
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
        const Instruction *other = update_of(fusion, i);
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
        const Instruction *update = update_of(fusion, i);
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
            const Instruction *other = update_of(fusion, k);
            if (other != NULL && behind_bitcasts(other->operands[0]) ==
                                     behind_bitcasts(update->operands[0]))
                return "two updates of one operand";
        }
    }
    return NULL;
}

/* Results that are dynamic-update-slices of operands of the fusion, and others with an element for
 * each one that an update writes. */
static const char *update_slice_illegal(const Instruction *fusion)
{
    if (kernel_update_elements(fusion) < 0)
        return "no result is a dynamic-update-slice";
    Arena *scratch = arena_scratch();
    const char *reason = update_results_illegal(fusion, scratch);
    arena_destroy(scratch);
    return reason != NULL ? reason : body_illegal(fusion, NULL);
}

int64_t kernel_scan_dimension(const Instruction *inst, bool *is_reverse)
{
    const Shape *from = inst->operands[0]->shape;
    const Window *window = inst_window(inst);
    int64_t along = -1;
    for (uint32_t d = 0; d < from->rank && d < window->rank; d++) {
        const WindowDim *w = &window->dims[d];
        if (w->stride != 1 || w->base_dilation != 1 || w->window_dilation != 1)
            return -1;
        if (w->size == 1 && w->pad_low == 0 && w->pad_high == 0)
            continue;
        bool is_forward = w->pad_low == w->size - 1 && w->pad_high == 0;
        bool is_backward = w->pad_high == w->size - 1 && w->pad_low == 0;
        if (along >= 0 || w->size != from->dims[d] || (!is_forward && !is_backward))
            return -1;
        *is_reverse = is_backward;
        along = d;
    }
    return along;
}

static const char *window_scan_illegal(const Instruction *fusion)
{
    bool is_reverse;
    const char *reason = hero_root_illegal(fusion, OP_REDUCE_WINDOW);
    if (reason != NULL)
        return reason;
    const Instruction *hero = fusion_hero(fusion, OP_REDUCE_WINDOW);
    if (hero->operand_count / 2 > 8)
        return "too many arrays are reduced together";
    return kernel_scan_dimension(hero, &is_reverse) < 0 ? "the windows are not cumulative"
                                                        : NULL;
}

/* One dot or convolution, with any epilogue by element. */
static const char *contraction_illegal(const Instruction *fusion, OpCode op)
{
    const Instruction *hero = fusion_hero(fusion, op);
    if (hero == NULL)
        return "it needs exactly one such operation";
    const char *reason = body_illegal(fusion, NULL);
    if (reason == NULL)
        reason = kernel_epilogue_illegal(fusion, &hero, 1);
    if (reason == NULL &&
        !shape_layouts_equal(hero->shape, fusion_result(fusion, 0).shape))
        reason = "the results have another layout";
    return reason;
}

/* Elements of the result, by operand: how many share one of its elements. */
static bool contraction_is_large(const Instruction *hero)
{
    const Shape *lhs = hero->operands[0]->shape, *rhs = hero->operands[1]->shape;
    int64_t elements = shape_elements(hero->shape), batch = 1;
    if (elements == 0)
        return false;
    if (hero->op == OP_CONVOLUTION) {
        const DimLabels *n = inst_attr(hero, ATTR_DIM_LABELS)->labels;
        int64_t groups = inst_int(hero, ATTR_FEATURE_GROUP_COUNT, 1) *
                         inst_int(hero, ATTR_BATCH_GROUP_COUNT, 1);
        int64_t features = hero->shape->dims[n->out_feature];
        return features / groups >= 16 && elements / features >= 16;
    }
    Ints batch_dims = inst_ints(hero, ATTR_LHS_BATCH_DIMS);
    Ints contracted = inst_ints(hero, ATTR_LHS_CONTRACTING_DIMS);
    for (uint32_t i = 0; i < batch_dims.count; i++)
        batch *= lhs->dims[batch_dims.data[i]];
    int64_t depth = 1;
    for (uint32_t i = 0; i < contracted.count; i++)
        depth *= lhs->dims[contracted.data[i]];
    if (depth < 8)
        return false;
    return shape_elements(lhs) / batch / depth >= 16 &&
           shape_elements(rhs) / batch / depth >= 16;
}

/* -- all together -------------------------------------------------------------------------------- */

const char *kernel_illegal(const Instruction *fusion, KernelKind kind)
{
    switch (kind) {
    case KERNEL_LOOP:
        return loop_illegal(fusion);
    case KERNEL_ROW_REDUCTION:
    case KERNEL_COLUMN_REDUCTION: {
        const char *reason = body_illegal(fusion, NULL);
        return reason != NULL
                   ? reason
                   : reduction_illegal(fusion, kind == KERNEL_COLUMN_REDUCTION);
    }
    case KERNEL_TRANSPOSE: {
        TransposePlan plan;
        const char *reason = body_illegal(fusion, NULL);
        if (reason == NULL)
            transpose_plan(fusion, &plan, &reason);
        return reason;
    }
    case KERNEL_UPDATE_SLICE:
        return update_slice_illegal(fusion);
    case KERNEL_SCATTER:
        return scatter_illegal(fusion);
    case KERNEL_SORT:
        return hero_root_illegal(fusion, OP_SORT);
    case KERNEL_SELECT_AND_SCATTER:
        return hero_root_illegal(fusion, OP_SELECT_AND_SCATTER);
    case KERNEL_RNG:
        return fusion_hero(fusion, OP_RNG_GET_AND_UPDATE_STATE) != NULL
                   ? hero_root_illegal(fusion, OP_RNG_GET_AND_UPDATE_STATE)
                   : hero_root_illegal(fusion, OP_RNG_BIT_GENERATOR);
    case KERNEL_TOPK:
        return hero_root_illegal(fusion, OP_TOPK);
    case KERNEL_WINDOW_SCAN:
        return window_scan_illegal(fusion);
    case KERNEL_DOT:
        return contraction_illegal(fusion, OP_DOT);
    case KERNEL_CONVOLUTION:
        return contraction_illegal(fusion, OP_CONVOLUTION);
    case KERNEL_COUNT:
        break;
    }
    return "there is no such kind of kernel";
}

KernelKind kernel_kind_choose(const Instruction *fusion, const Target *target)
{
    (void)target;
    static const KernelKind own[] = {
        KERNEL_SCATTER, KERNEL_SORT,        KERNEL_SELECT_AND_SCATTER, KERNEL_RNG,
        KERNEL_TOPK,    KERNEL_WINDOW_SCAN, KERNEL_UPDATE_SLICE};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (kernel_illegal(fusion, own[i]) == NULL)
            return own[i];
    }
    static const struct {
        OpCode op;
        KernelKind kind;
    } contractions[] = {{OP_DOT, KERNEL_DOT}, {OP_CONVOLUTION, KERNEL_CONVOLUTION}};
    for (size_t i = 0; i < sizeof contractions / sizeof *contractions; i++) {
        const Instruction *hero = fusion_hero(fusion, contractions[i].op);
        if (hero != NULL && contraction_is_large(hero) &&
            kernel_illegal(fusion, contractions[i].kind) == NULL)
            return contractions[i].kind;
    }
    if (body_illegal(fusion, NULL) != NULL)
        return KERNEL_COUNT;
    KernelKind reduction = reduction_choose(fusion);
    if (reduction != KERNEL_COUNT)
        return reduction;
    TransposePlan plan;
    const char *why;
    if (transpose_plan(fusion, &plan, &why) && transpose_is_large(&plan))
        return KERNEL_TRANSPOSE;
    return loop_illegal(fusion) == NULL ? KERNEL_LOOP : KERNEL_COUNT;
}

int64_t kernel_in_place(const Instruction *fusion, KernelKind kind, uint32_t leaf)
{
    const Instruction *base = NULL;
    if (kind == KERNEL_SCATTER)
        base = fusion_hero(fusion, OP_SCATTER)->operands[leaf];
    else if (kind == KERNEL_UPDATE_SLICE && update_of(fusion, leaf) != NULL)
        base = update_of(fusion, leaf)->operands[0];
    return base == NULL ? -1 : behind_bitcasts(base)->parameter;
}
