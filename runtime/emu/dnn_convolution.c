/* Convolutions and their gradients. The three are one walk over (image, position of y, position in the
 * kernel): there y, w and x meet, with features side by side; what is computed of what differs.
 * See dnn.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/dnn.h"
#include "runtime/emu/element.h"

/* A tensor [first, features, positions] as [first][positions][features]. */
typedef struct Channels {
    int64_t first, features, positions;
    double *data;
} Channels;

static bool channels_make(Channels *c, const DnnTensor *t)
{
    c->first = t->dims[0];
    c->features = t->dims[1];
    c->positions = 1;
    for (uint32_t d = 2; d < t->rank; d++)
        c->positions *= t->dims[d];
    c->data = calloc((size_t)(c->first * c->features * c->positions), sizeof *c->data);
    return c->data != NULL;
}

static void channels_load(Channels *c, const double *from, bool rounds)
{
    for (int64_t i = 0; i < c->first; i++)
        for (int64_t f = 0; f < c->features; f++)
            for (int64_t p = 0; p < c->positions; p++) {
                double value = *from++;
                c->data[(i * c->positions + p) * c->features + f] =
                    rounds ? (double)element_round_tf32((float)value) : value;
            }
}

static void channels_store(const Channels *c, double *to)
{
    for (int64_t i = 0; i < c->first; i++)
        for (int64_t f = 0; f < c->features; f++)
            for (int64_t p = 0; p < c->positions; p++)
                *to++ = c->data[(i * c->positions + p) * c->features + f];
}

typedef struct Convolution {
    cudnnBackendDescriptorType_t kind;
    Channels x, w, y;
    int64_t groups;
} Convolution;

/* What one position of the kernel has to do with one position of y: features of a group of x lie at
 * `x`, those of w of all its outputs from `w` on. */
static void meet(const Convolution *c, double *x, double *w, double *y)
{
    int64_t in = c->w.features, out = c->y.features / c->groups;
    int64_t w_step = c->w.positions * in;
    for (int64_t g = 0; g < c->groups; g++, x += in)
        for (int64_t o = 0; o < out; o++, w += w_step, y++)
            switch (c->kind) {
            case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
                for (int64_t i = 0; i < in; i++)
                    *y += x[i] * w[i];
                break;
            case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
                for (int64_t i = 0; i < in; i++)
                    x[i] += *y * w[i];
                break;
            default:
                for (int64_t i = 0; i < in; i++)
                    w[i] += *y * x[i];
            }
}

/* The position of x under position `k` of the kernel for position `p` of y; false: it is padding. */
static bool position_under(const DnnNode *n, const DnnTensor *x, const DnnTensor *w,
                           const DnnTensor *y, int64_t p, int64_t k, int64_t *out)
{
    int64_t position = 0, step = 1;
    for (uint32_t d = n->spatial; d-- > 0;) {
        int64_t at_y = p % y->dims[d + 2], at_w = k % w->dims[d + 2];
        p /= y->dims[d + 2];
        k /= w->dims[d + 2];
        if (n->mode == CUDNN_CONVOLUTION)
            at_w = w->dims[d + 2] - 1 - at_w;
        int64_t at_x = at_y * n->stride[d] + at_w * n->dilation[d] - n->before[d];
        if (at_x < 0 || at_x >= x->dims[d + 2])
            return false;
        position += at_x * step;
        step *= x->dims[d + 2];
    }
    *out = position;
    return true;
}

static void walk(Convolution *c, const DnnNode *n, const DnnTensor *x, const DnnTensor *w,
                 const DnnTensor *y)
{
    for (int64_t p = 0; p < c->y.positions; p++)
        for (int64_t k = 0; k < c->w.positions; k++) {
            int64_t at;
            if (!position_under(n, x, w, y, p, k, &at))
                continue;
            for (int64_t i = 0; i < c->x.first; i++)
                meet(c, c->x.data + (i * c->x.positions + at) * c->x.features,
                     c->w.data + k * c->w.features,
                     c->y.data + (i * c->y.positions + p) * c->y.features);
        }
}

bool dnn_convolution(DnnRun *run, const DnnNode *n)
{
    const DnnTensor *x = dnn_tensor(run, n, DNN_X), *w = dnn_tensor(run, n, DNN_W);
    const DnnTensor *y = dnn_tensor(run, n, DNN_Y);
    Convolution c = {.kind = n->kind, .groups = x->dims[1] / w->dims[1]};
    Channels *all[3] = {&c.x, &c.w, &c.y};
    const DnnTensor *tensors[3] = {x, w, y};
    static const int ports[3] = {DNN_X, DNN_W, DNN_Y};
    int made = n->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ? 2
               : n->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
                   ? 0
                   : 1;
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        ok = ok && channels_make(all[i], tensors[i]);
        if (ok && i != made)
            channels_load(all[i], dnn_input(run, n, ports[i]),
                          run->program->rounds_tf32 && tensors[i]->type == DT_F32 &&
                              !tensors[i]->is_virtual);
    }
    if (ok) {
        walk(&c, n, x, w, y);
        channels_store(all[made], dnn_output(run, n, ports[made]));
    }
    for (int i = 0; i < 3; i++)
        free(all[i]->data);
    return ok;
}
