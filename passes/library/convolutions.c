/* Large convolutions are cuDNN's, and so are the additions behind them, where the sum would lie in memory
 * anyway. Which cuDNN has kernels for it says itself: gxc-cudnn is asked for all of a module at once. A filter gets the
 * order of the images (ir/kernel/convolution.h); where they differ among each other the convolution is ours.
 *
 *   c = bf16[8,9,9,64] convolution(x, w), ...
 *   y = bf16[8,9,9,64] add(c, bf16[8,9,9,64] broadcast(b), dimensions={3})
 *   ->  fused { ... ROOT y = add(convolution(p0, p1), broadcast(p2)) }
 *       y = bf16[8,9,9,64] fusion(x, w, b), kind=kCustom, calls=fused, backend_config={"library":"cudnn"}
 *
 * Needs: laid out. Keeps: values but for the order and the rounding of sums. Ends: one sweep. */
#include "passes/library/convolutions.h"
#include "ir/kernel/convolution.h"
#include "ir/kernel/library.h"
#include "passes/library/choice.h"
#include "passes/library/library.h"
#include "passes/settings.h"
#include "passes/simplify/simplify.h"

bool convolution_is_worth_it(const Instruction *inst, const PassContext *cx)
{
    ConvolutionShape s;
    return inst->op == OP_CONVOLUTION && convolution_has_types(inst) &&
           convolution_shape(inst, &s) &&
           convolution_work(&s) >= cx->settings->library_convolution_work;
}

typedef struct ConvolutionCandidate {
    Instruction *conv;
    Instruction *filter;     /* that it had before that was turned; NULL: it is not */
    const DimLabels *labels; /* with it */
} ConvolutionCandidate;

typedef struct ConvolutionList {
    ConvolutionCandidate *data;
    size_t count, capacity;
} ConvolutionList;

/* -- filters in the images' order ---------------------------------------------------------------- */

/* Which dimension of the filter each is to be, from major to minor. */
static void wanted_dims(const Instruction *conv, const ConvolutionShape *s,
                        ConvolutionOrder order, int64_t *out)
{
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    bool is_forward = s->kind == CONVOLUTION_FORWARD;
    uint32_t names[CONVOLUTION_RANK], n = 0, added = s->spatial - l->spatial_rank;
    convolution_filter_order(s, order, names);
    for (uint32_t i = 0; i < s->spatial + 2; i++) {
        if (names[i] == 0)
            out[n++] = is_forward ? l->rhs_output : l->rhs_input;
        else if (names[i] == 1)
            out[n++] = is_forward ? l->rhs_input : l->rhs_output;
        else if (names[i] >= 2 + added) /* a line is a plane of height 1 */
            out[n++] = l->rhs_spatial[names[i] - 2 - added];
    }
}

/* What was turned before is turned once. */
static Instruction *transposed(Instruction *x, const int64_t *wanted)
{
    uint32_t rank = x->shape->rank;
    int64_t order[CONVOLUTION_RANK], sizes[CONVOLUTION_RANK];
    bool is_turned = x->op == OP_TRANSPOSE, is_same = true;
    for (uint32_t d = 0; d < rank; d++) {
        order[d] = is_turned ? inst_ints(x, ATTR_DIMENSIONS).data[wanted[d]] : wanted[d];
        sizes[d] = x->shape->dims[wanted[d]];
        is_same &= order[d] == d;
    }
    Instruction *from = is_turned ? x->operands[0] : x;
    if (is_same)
        return from;
    const Shape *s =
        shape_array(x->parent->module->intern, x->shape->dtype, rank, sizes, NULL, NULL);
    Instruction *t = computation_add(x->parent, OP_TRANSPOSE, s, 1, &from, NULL);
    t->span = x->span;
    inst_set_ints(t, ATTR_DIMENSIONS, order, rank);
    return t;
}

/* A filter that has not the order of the images gets it. */
static ConvolutionCandidate with_filter(Instruction *conv, Arena *a)
{
    ConvolutionShape s;
    bool filter_has_it;
    int64_t wanted[CONVOLUTION_RANK];
    ConvolutionCandidate c = {.conv = conv};
    convolution_shape(conv, &s);
    ConvolutionOrder order = convolution_order(&s, &filter_has_it);
    if (filter_has_it)
        return c;
    c.filter = conv->operands[1];
    c.labels = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    wanted_dims(conv, &s, order, wanted);
    conv->operands[1] = transposed(c.filter, wanted);
    inst_set(conv, (Attr){.id = ATTR_DIM_LABELS,
                          .labels = convolution_turn_filter(
                              a, c.labels, (Ints){wanted, c.filter->shape->rank})});
    return c;
}

static void without_filter(const ConvolutionCandidate *c)
{
    if (c->filter == NULL)
        return;
    c->conv->operands[1] = c->filter;
    inst_set(c->conv, (Attr){.id = ATTR_DIM_LABELS, .labels = c->labels});
}

/* -- all ------------------------------------------------------------------------------------------ */

static ConvolutionList find_candidates(Module *m, PassContext *cx)
{
    ConvolutionList all = {0};
    Computations programs = module_programs(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++) {
        LibraryChoice choice = library_choice(programs.data[c], cx);
        for (Instruction *inst = inst_first(programs.data[c]); inst;
             inst = inst_next(inst)) {
            if (library_makes(inst) || !convolution_is_worth_it(inst, cx) ||
                !library_is_best(&choice, inst))
                continue;
            all.data = arena_grow(cx->scratch, all.data, &all.capacity, all.count + 1,
                                  sizeof *all.data);
            all.data[all.count++] = (ConvolutionCandidate){.conv = inst};
        }
    }
    return all;
}

/* Those that cuDNN cannot make are as they were. */
static bool ask(Module *m, PassContext *cx, ConvolutionList *all)
{
    bool *possible = ARENA_ARRAY(cx->scratch, bool, all->count), changed = false;
    Instruction **marked = ARENA_ARRAY(cx->scratch, Instruction *, all->count);
    for (size_t i = 0; i < all->count; i++) {
        marked[i] = all->data[i].conv;
        all->data[i] = with_filter(marked[i], m->arena);
        convolution_set_library(marked[i]);
    }
    cx->graphs->ask(cx->graphs, cx->target, marked, all->count, possible);
    for (size_t i = 0; i < all->count; i++) {
        if (!possible[i]) {
            convolution_unset_library(marked[i]);
            without_filter(&all->data[i]);
        }
        cx->counts.library_convolutions += possible[i];
        changed |= possible[i];
    }
    return changed;
}

bool pass_library_convolutions(Module *m, PassContext *cx)
{
    if (cx->graphs == NULL)
        return false;
    ConvolutionList all = find_candidates(m, cx);
    if (all.count == 0)
        return false;
    bool changed = ask(m, cx, &all);
    for (size_t i = 0; i < all.count; i++) {
        if (all.data[i].filter != NULL) { /* one of the two is read no more */
            module_sort(m);
            pass_dce(m, cx);
            break;
        }
    }
    return changed;
}
