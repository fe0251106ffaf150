/* Whether a convolution's image and result keep features before positions: there is a kernel that reads them so
 * (ir/kernel/kinds/image_convolution.c), and it takes less time than the best one that wants features last with the
 * transpositions before and behind it. Between convolutions nothing has to be turned, so that those leave no choice. */
#include <string.h>

#include "ir/kernel/candidates.h"
#include "ir/kernel/time/costs.h"
#include "passes/library/choice.h"
#include "passes/library/convolutions.h"

enum { NEAR_MOST = 32 /* operations that are looked through for another convolution */ };

/* Looked through: a convolution may have got another form before. */
static bool is_between(const Instruction *x)
{
    return op_is(x->op, OPF_ELEMENTWISE) || x->op == OP_TRANSPOSE;
}

static bool comes_from_convolution(const Instruction *x, uint32_t *left)
{
    if (x->op == OP_CONVOLUTION || *left == 0)
        return true;
    --*left;
    for (uint32_t i = 0; is_between(x) && i < x->operand_count; i++) {
        if (comes_from_convolution(x->operands[i], left))
            return true;
    }
    return false;
}

/* What this sweep made is read by nothing yet. */
static bool goes_to_convolution(Rewriter *r, const Instruction *x, const Instruction *but,
                                uint32_t *left)
{
    const Uses *uses = rw_uses(r);
    if (x->id >= r->known)
        return false;
    for (uint32_t i = uses->start[x->id]; i < uses->start[x->id + 1]; i++) {
        const Instruction *user = uses->list[i];
        if (user == but)
            continue;
        if (user->op == OP_CONVOLUTION || *left == 0)
            return true;
        --*left;
        if (is_between(user) && goes_to_convolution(r, user, but, left))
            return true;
    }
    return false;
}

bool convolution_has_others_near(Rewriter *r, const Instruction *conv)
{
    uint32_t left = NEAR_MOST;
    return comes_from_convolution(conv->operands[0], &left) ||
           goes_to_convolution(r, conv->operands[0], conv, &left) ||
           goes_to_convolution(r, conv, NULL, &left);
}

/* It was left so before: its neighbours were looked at then, and what it replaced may still stand among them. */
static bool has_form(const Instruction *conv, const ConvolutionForm *form)
{
    return shape_same_dims(conv->operands[1]->shape, form->shapes[1]) &&
           strcmp(inst_attr(conv, ATTR_DIM_LABELS)->labels->rhs_text,
                  form->labels->rhs_text) == 0;
}

/* It, with arrays in this form. */
static Instruction *in_form(const Instruction *conv, const ConvolutionForm *form,
                            Arena *a)
{
    Module *m = module_create(a, diag_create(a, "", "", 0), "form");
    Computation *comp = module_add_computation(m, "main");
    Instruction *operands[2];
    for (uint32_t i = 0; i < 2; i++)
        operands[i] = computation_add_parameter(comp, i, form->shapes[i], NULL);
    Instruction *c = computation_add_like(comp, conv, form->shapes[2], 2, operands);
    inst_set(c, (Attr){.id = ATTR_DIM_LABELS, .labels = form->labels});
    return c;
}

/* A kernel that reads images in either order takes less time than a library. */
static bool is_faster(const Instruction *conv, const Candidates *all,
                      const PassContext *cx)
{
    const Candidate *own = candidates_by(all, CANDIDATE_TILE),
                    *library = candidates_by(all, CANDIDATE_LIBRARY);
    return own != NULL && kernel_kind_is(own->kind, KERNEL_AS_IMAGES) &&
           (library == NULL || cx->graphs == NULL ||
            own->seconds <= library_most_seconds(conv, library->seconds, cx));
}

/* With the transpositions: a kernel of ours writes its result in any order. */
static bool formed_seconds(const Candidates *all, const ConvolutionForm *form,
                           const PassContext *cx, double *seconds)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const Candidate *best = &all->list[i];
        bool is_library = best->maker == CANDIDATE_LIBRARY;
        if (is_library && cx->graphs == NULL)
            continue;
        double bytes = 2 * (double)shape_bytes(form->shapes[0]);
        if (is_library)
            bytes += 2 * (double)shape_bytes(form->shapes[2]);
        *seconds = best->seconds + (is_library ? 2 : 1) * costs.launch_seconds +
                   cost_seconds_of_bytes(cx->target->device, bytes);
        return true;
    }
    return false;
}

bool convolution_keeps_filter(Rewriter *r, const Instruction *conv)
{
    const PassContext *cx = r->cx;
    Candidates all;
    if (cx->target->tiles == TILES_NONE || !wide_convolution_fits(conv, cx->target))
        return false;
    KnownUses known = {.uses = *rw_uses(r), .count = r->known};
    candidates_find(conv, &known, cx->target, cx->products, &all);
    return is_faster(conv, &all, cx);
}

bool convolution_keeps_images(Rewriter *r, const Instruction *conv,
                              const ConvolutionForm *kept, const ConvolutionForm *formed)
{
    const PassContext *cx = r->cx;
    Candidates all;
    double seconds, least = 0;
    if (cx->target->tiles == TILES_NONE)
        return false;
    Arena *a = arena_scratch();
    Instruction *c = in_form(conv, kept, a);
    bool has_kept = has_form(conv, kept),
         keeps = (image_convolution_fits(c) || wide_convolution_fits(c, cx->target)) &&
                 (has_kept || !convolution_has_others_near(r, conv));
    if (keeps) {
        candidates_find(c, NULL, cx->target, cx->products, &all);
        keeps = is_faster(c, &all, cx);
        least = keeps ? candidates_by(&all, CANDIDATE_TILE)->seconds : 0;
    }
    if (keeps && !has_kept) {
        candidates_find(in_form(conv, formed, a), NULL, cx->target, cx->products, &all);
        keeps = !formed_seconds(&all, formed, cx, &seconds) ||
                least <= seconds * costs.kernel_gain;
    }
    arena_destroy(a);
    return keeps;
}
