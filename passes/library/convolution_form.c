/* Convolutions in the orders of dimensions that cuDNN has kernels for: images [n, spatial, features] or [n, features,
 * spatial], filters alike; and gradients by the data that read the filter itself, backwards, instead of a reversed one.
 * Tensor cores sum over features that lie side by side, so that numbers of 16 bits have them last for kernels of our own,
 * too; between convolutions nothing is turned there and back. An image that a kernel reads as it is, and faster, is left so.
 *
 *   c = f32[8,9,9,64] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f
 *   ->  v = f32[64,3,3,16] transpose(w), dimensions={3,0,1,2}
 *       c = f32[8,9,9,64] convolution(x, v), window={size=3x3}, dim_labels=b01f_o01i->b01f
 *
 * Needs: well formed, row-major. Keeps: values. Ends: what is in form is left alone. */
#include <string.h>

#include "ir/kernel/convolution.h"
#include "ir/kernel/kind.h"
#include "passes/library/convolutions.h"
#include "passes/library/library.h"
#include "passes/simplify/rewrite.h"

/* An array of a convolution: its dimensions, by what the library calls them. */
typedef struct Array {
    const Shape *shape;
    int64_t first, second; /* image or output of a filter; feature or input */
    const int64_t *spatial;
} Array;

static Array array_of(const Instruction *conv, ConvolutionKind kind, uint32_t i)
{
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    bool swaps = kind == CONVOLUTION_FILTER;
    switch (i) {
    case 0:
        return (Array){conv->operands[0]->shape, swaps ? l->lhs_feature : l->lhs_batch,
                       swaps ? l->lhs_batch : l->lhs_feature, l->lhs_spatial};
    case 1:
        swaps = kind != CONVOLUTION_FORWARD;
        return (Array){conv->operands[1]->shape, swaps ? l->rhs_input : l->rhs_output,
                       swaps ? l->rhs_output : l->rhs_input, l->rhs_spatial};
    default:
        return (Array){conv->shape, swaps ? l->out_feature : l->out_batch,
                       swaps ? l->out_batch : l->out_feature, l->out_spatial};
    }
}

/* The wanted order, from major to minor. */
static void wanted_order(const Array *a, bool features_last, int64_t *out)
{
    uint32_t n = 0, spatial_rank = a->shape->rank - 2;
    out[n++] = a->first;
    if (!features_last)
        out[n++] = a->second;
    for (uint32_t i = 0; i < spatial_rank; i++)
        out[n++] = a->spatial[i];
    if (features_last)
        out[n++] = a->second;
}

static bool is_narrow_float(const Shape *s)
{
    return dtype_is_half(s->dtype);
}

/* Other images with the features before all spatial dimensions are left so: the library turns them itself, but takes half as long
 * again as a kernel of ours for it. */
static bool has_features_last(const Array *x)
{
    if (x->first != 0 || is_narrow_float(x->shape))
        return true;
    for (uint32_t i = 0; i + 2 < x->shape->rank; i++) {
        if (x->spatial[i] < x->second)
            return true;
    }
    return false;
}

/* -- labels ------------------------------------------------------------------------------------ */

typedef struct Part {
    int64_t first, second;
    int64_t *spatial;
    char *text;
} Part;

/* The numbers of the dimensions after the transposition. */
static Part part_of(Arena *a, const Array *x, const int64_t *order, const char *letters)
{
    uint32_t rank = x->shape->rank;
    Ints dims = {order, rank};
    Part p = {.first = ints_find(dims, x->first),
              .second = ints_find(dims, x->second),
              .spatial = ARENA_ARRAY(a, int64_t, rank),
              .text = ARENA_ARRAY(a, char, rank + 1u)};
    p.text[p.first] = letters[0];
    p.text[p.second] = letters[1];
    for (uint32_t k = 0; k + 2 < rank; k++) {
        p.spatial[k] = ints_find(dims, x->spatial[k]);
        p.text[p.spatial[k]] = (char)('0' + k);
    }
    return p;
}

static const DimLabels *labels_of(Arena *a, ConvolutionKind kind, const Array *arrays,
                                  int64_t *const *orders)
{
    DimLabels *l = ARENA_NEW(a, DimLabels);
    bool filter = kind == CONVOLUTION_FILTER, forward = kind == CONVOLUTION_FORWARD;
    Part lhs = part_of(a, &arrays[0], orders[0], filter ? "fb" : "bf");
    Part rhs = part_of(a, &arrays[1], orders[1], forward ? "oi" : "io");
    Part out = part_of(a, &arrays[2], orders[2], filter ? "fb" : "bf");
    *l = (DimLabels){.spatial_rank = arrays[0].shape->rank - 2,
                     .lhs_batch = filter ? lhs.second : lhs.first,
                     .lhs_feature = filter ? lhs.first : lhs.second,
                     .rhs_input = forward ? rhs.second : rhs.first,
                     .rhs_output = forward ? rhs.first : rhs.second,
                     .out_batch = filter ? out.second : out.first,
                     .out_feature = filter ? out.first : out.second,
                     .lhs_spatial = lhs.spatial,
                     .rhs_spatial = rhs.spatial,
                     .out_spatial = out.spatial,
                     .lhs_text = lhs.text,
                     .rhs_text = rhs.text,
                     .out_text = out.text};
    return l;
}

static bool has_library(const PassContext *cx)
{
    return cx->graphs != NULL && cx->graphs->is_there(cx->graphs);
}

/* Without a library, kernels of our own take any order, but are slow where features are not last. */
static bool is_wanted(const Rewriter *r, const Instruction *conv)
{
    if (!convolution_is_worth_it(conv, r->cx))
        return false;
    if (has_library(r->cx) || wide_convolution_takes_rows(conv, r->cx->target))
        return true;
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    const Shape *x = conv->operands[0]->shape;
    bool is_last = l->lhs_feature + 1 == x->rank || l->lhs_batch + 1 == x->rank;
    return !is_last && is_narrow_float(x) && r->cx->target->tiles != TILES_NONE;
}

/* -- rules ------------------------------------------------------------------------------------- */

static Instruction *transposed(Rewriter *r, Instruction *x, const int64_t *order)
{
    return rw_is_identity(order, x->shape->rank) ? x : rw_in_order(r, x, order);
}

static ConvolutionForm form_of(Rewriter *r, const Instruction *conv, ConvolutionKind kind,
                               const Array *arrays, int64_t *const *orders)
{
    ConvolutionForm f = {.labels = labels_of(r->m->arena, kind, arrays, orders)};
    for (uint32_t i = 0; i < 3; i++) {
        const Shape *s = i < 2 ? conv->operands[i]->shape : conv->shape;
        f.shapes[i] = rw_shape_in_order(r, s, orders[i]);
    }
    return f;
}

/* Only the filter is turned where image and result are better left as they are. */
static void keep_images(Rewriter *r, const Instruction *conv, ConvolutionKind kind,
                        const Array *arrays, int64_t **orders)
{
    int64_t *kept[3] = {NULL, orders[1], NULL};
    if (kind != CONVOLUTION_FORWARD || !is_narrow_float(arrays[0].shape))
        return;
    for (uint32_t i = 0; i < 3; i += 2) {
        kept[i] = ARENA_ARRAY(r->scratch, int64_t, conv->shape->rank);
        for (uint32_t d = 0; d < conv->shape->rank; d++)
            kept[i][d] = d;
    }
    ConvolutionForm with = form_of(r, conv, kind, arrays, orders),
                    without = form_of(r, conv, kind, arrays, kept);
    if (!convolution_keeps_images(r, conv, &without, &with))
        return;
    orders[0] = kept[0];
    orders[2] = kept[2];
}

/* An image of few channels is read as it is, in either order, by a kernel that wants features last in the filter; its
 * result has the order that convolutions near it have. */
static void take_rows(Rewriter *r, const Instruction *conv, const Array *filter,
                      int64_t **orders)
{
    uint32_t rank = conv->shape->rank;
    int64_t *filters = orders[1];
    bool is_near = convolution_has_others_near(r, conv);
    for (uint32_t d = 0; d < rank; d++) {
        orders[0][d] = d;
        if (!is_near)
            orders[2][d] = d;
        filters[d] = d + 2 < rank    ? filter->spatial[d]
                     : d + 1 == rank ? filter->first
                                     : filter->second;
    }
}

static bool is_in_form(int64_t *const *orders, const Instruction *conv)
{
    for (uint32_t i = 0; i < 3; i++) {
        if (!rw_is_identity(orders[i], conv->shape->rank))
            return false;
    }
    return true;
}

static Instruction *in_form(Rewriter *r, Instruction *conv)
{
    ConvolutionShape s;
    if (!is_wanted(r, conv) || !convolution_shape(conv, &s))
        return NULL;
    Array arrays[3];
    int64_t *orders[3];
    for (uint32_t i = 0; i < 3; i++) {
        arrays[i] = array_of(conv, s.kind, i);
        orders[i] = ARENA_ARRAY(r->scratch, int64_t, conv->shape->rank);
        wanted_order(&arrays[i], has_features_last(&arrays[0]), orders[i]);
    }
    uint32_t rank = conv->shape->rank;
    bool takes_rows = wide_convolution_takes_rows(conv, r->cx->target);
    if (takes_rows && wide_convolution_fits(conv, r->cx->target))
        return NULL;
    if (rw_is_identity(orders[0], rank) && rw_is_identity(orders[2], rank) &&
        !rw_is_identity(orders[1], rank) && convolution_keeps_filter(r, conv))
        return NULL;
    if (takes_rows)
        take_rows(r, conv, &arrays[1], orders);
    else if (!is_in_form(orders, conv))
        keep_images(r, conv, s.kind, arrays, orders);
    if (is_in_form(orders, conv))
        return NULL;
    Instruction *operands[2];
    for (uint32_t i = 0; i < 2; i++)
        operands[i] = transposed(r, conv->operands[i], orders[i]);
    Instruction *c =
        rw_like(r, conv, rw_shape_in_order(r, conv->shape, orders[2]), 2, operands);
    inst_set(c, (Attr){.id = ATTR_DIM_LABELS,
                       .labels = labels_of(r->m->arena, s.kind, arrays, orders)});
    int64_t *back = ARENA_ARRAY(r->scratch, int64_t, conv->shape->rank);
    for (uint32_t i = 0; i < conv->shape->rank; i++)
        back[orders[2][i]] = i;
    return rw_in_layout(r, conv->shape, transposed(r, c, back));
}

/* All spatial dimensions of a filter are reversed, and nothing else. */
static bool reverses_spatial(const Instruction *reverse, const DimLabels *l)
{
    Ints dims = inst_ints(reverse, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < dims.count; i++) {
        if ((dims.data[i] == l->rhs_input || dims.data[i] == l->rhs_output) &&
            reverse->shape->dims[dims.data[i]] != 1)
            return false;
    }
    for (uint32_t i = 0; i < l->spatial_rank; i++) {
        if (reverse->shape->dims[l->rhs_spatial[i]] != 1 &&
            !ints_contain(dims, l->rhs_spatial[i]))
            return false;
    }
    return true;
}

/* convolution(x, reverse(w)) -> convolution(x, w) that reads w backwards */
static Instruction *reversed_filter(Rewriter *r, Instruction *conv)
{
    Instruction *reverse = conv->operands[1];
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    const Window *w = inst_window(conv);
    if (reverse->op != OP_REVERSE || w->rank != l->spatial_rank ||
        !reverses_spatial(reverse, l) || !convolution_is_worth_it(conv, r->cx) ||
        !has_library(r->cx))
        return NULL;
    Window *window = ARENA_NEW(r->m->arena, Window);
    WindowDim *dims = ARENA_ARRAY(r->m->arena, WindowDim, (size_t)w->rank + 1);
    for (uint32_t i = 0; i < w->rank; i++) {
        dims[i] = w->dims[i];
        dims[i].reversal = !dims[i].reversal && dims[i].size != 1;
    }
    *window = (Window){.rank = w->rank, .dims = dims};
    Instruction *operands[2] = {conv->operands[0], reverse->operands[0]};
    Instruction *c = rw_like(r, conv, conv->shape, 2, operands);
    inst_set(c, (Attr){.id = ATTR_WINDOW, .window = window});
    return c;
}

/* -- between convolutions ---------------------------------------------------------------------- */

enum { BETWEEN_MOST = 24 /* operations between two convolutions */ };

/* Operations element by element that only lead to one transposition, and what they read. */
typedef struct Between {
    Rewriter *r;
    const Instruction *turn; /* the transposition behind them */
    const Uses *uses;        /* of r->known instructions */
    const Instruction *from[BETWEEN_MOST];
    Instruction *to[BETWEEN_MOST];
    uint32_t count;
    bool is_turned; /* something that they read is */
} Between;

/* A transposition that the one behind undoes. */
static bool is_undone(const Between *b, const Instruction *x)
{
    if (x->op != OP_TRANSPOSE || x->operands[0]->op != OP_CONVOLUTION)
        return false;
    Ints first = inst_ints(x, ATTR_DIMENSIONS),
         then = inst_ints(b->turn, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < then.count; i++) {
        if (first.data[then.data[i]] != i)
            return false;
    }
    return true;
}

/* NULL: something would have to be turned that is not. */
static Instruction *turned(Between *b, Instruction *x)
{
    Rewriter *r = b->r;
    Ints order = inst_ints(b->turn, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->from[i] == x)
            return b->to[i];
    }
    if (is_undone(b, x)) {
        b->is_turned = true;
        return x->operands[0];
    }
    if (x->op == OP_BROADCAST)
        return rw_in_order(r, x, order.data);
    if (!op_is(x->op, OPF_ELEMENTWISE) || x->operand_count == 0 ||
        x->control_count != 0 || x->id >= r->known || uses_count(b->uses, x) != 1 ||
        b->count == BETWEEN_MOST)
        return NULL;
    uint32_t at = b->count++;
    b->from[at] = NULL;
    Instruction **operands = ARENA_ARRAY(r->scratch, Instruction *, x->operand_count);
    for (uint32_t i = 0; i < x->operand_count; i++) {
        if (!shape_same_dims(x->operands[i]->shape, x->shape) ||
            (operands[i] = turned(b, x->operands[i])) == NULL)
            return NULL;
    }
    b->to[at] = rw_like(r, x, rw_shape_in_order(r, x->shape, order.data),
                        x->operand_count, operands);
    b->from[at] = x;
    return b->to[at];
}

/* convolution(transpose(f(transpose(convolution))), w) -> convolution(f(convolution), w) */
static Instruction *turned_back(Rewriter *r, Instruction *conv)
{
    Instruction *turn = conv->operands[0];
    if (turn->op != OP_TRANSPOSE || !is_narrow_float(turn->shape) ||
        !op_is(turn->operands[0]->op, OPF_ELEMENTWISE))
        return NULL;
    Between b = {.r = r, .turn = turn, .uses = rw_uses(r)};
    Instruction *x = turned(&b, turn->operands[0]);
    if (x == NULL || !b.is_turned)
        return NULL;
    return rw_like(r, conv, conv->shape, 2, (Instruction *[]){x, conv->operands[1]});
}

bool pass_convolution_form(Module *m, PassContext *cx)
{
    static const Rule rules[] = {{OP_CONVOLUTION, "reversed_filter", reversed_filter},
                                 {OP_CONVOLUTION, "convolution_form", in_form},
                                 {OP_CONVOLUTION, "turned_back", turned_back},
                                 {0}};
    return rewrite_module(m, cx, (const Rule *[]){rules}, 1);
}
