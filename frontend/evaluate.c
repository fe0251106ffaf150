/* See evaluate.h. */
#include "frontend/evaluate.h"

#include <string.h>

#include "ir/base/bug.h"

/* The argument literal of a parameter from consecutive leaves; NULL after a message. */
static Literal *argument_literal(Arena *arena, Diag *diag, const Shape *s,
                                 const gxc_array **next)
{
    if (shape_is_tuple(s)) {
        Literal *l = literal_create(arena, s);
        for (uint32_t i = 0; i < s->rank; i++) {
            l->elements[i] = argument_literal(arena, diag, s->elements[i], next);
            if (l->elements[i] == NULL)
                return NULL;
        }
        return l;
    }
    const gxc_array *a = (*next)++;
    Literal *l = literal_create(arena, s);
    if (a->dtype == NULL || (a->dims == NULL && a->rank != 0) ||
        (a->data == NULL && a->bytes != 0)) {
        diag_error(diag, (Span){0, 0}, "an input has no %s, the parameter is %s",
                   a->dtype == NULL                  ? "dtype"
                   : a->dims == NULL && a->rank != 0 ? "dims"
                                                     : "data",
                   shape_text(arena, s, false));
        return NULL;
    }
    bool fits = strcmp(a->dtype, dtype_name(s->dtype)) == 0 && a->rank == s->rank &&
                a->bytes == literal_bytes(l);
    for (uint32_t i = 0; fits && i < s->rank; i++)
        fits = a->dims[i] == s->dims[i];
    if (!fits) {
        diag_error(diag, (Span){0, 0},
                   "an input is %s with %zu bytes, the parameter is %s", a->dtype,
                   a->bytes, shape_text(arena, s, false));
        return NULL;
    }
    if (a->bytes != 0)
        memcpy(l->data, a->data, a->bytes);
    return l;
}

/* The devices with their arguments; NULL after a message. */
static EvalDevice *bind_arguments(const Module *m, const Inputs *in, const gxc_result *r,
                                  Arena *arena)
{
    if (in->devices != r->device_count || in->parameters != r->parameter_count) {
        diag_error(
            m->diag, (Span){0, 0},
            "inputs are for %zu devices and %zu parameters, the program has %zu and %zu",
            in->devices, in->parameters, r->device_count, r->parameter_count);
        return NULL;
    }
    if (in->arrays == NULL && in->devices * in->parameters != 0) {
        diag_error(m->diag, (Span){0, 0}, "inputs is NULL, but the program has %zu",
                   in->parameters);
        return NULL;
    }
    EvalDevice *devices = ARENA_ARRAY(arena, EvalDevice, in->devices + 1);
    const gxc_array *next = in->arrays;
    uint32_t count = m->entry->parameter_count;
    for (size_t d = 0; d < in->devices; d++) {
        const Literal **arguments =
            ARENA_ARRAY(arena, const Literal *, (size_t)count + 1);
        for (uint32_t p = 0; p < count; p++) {
            arguments[p] =
                argument_literal(arena, m->diag, m->entry->parameters[p]->shape, &next);
            if (arguments[p] == NULL)
                return NULL;
        }
        devices[d] = (EvalDevice){.argument_count = count, .arguments = arguments};
    }
    return devices;
}

static size_t add_output(gxc_array *out, const Literal *l)
{
    if (shape_is_tuple(l->shape)) {
        size_t n = 0;
        for (uint32_t i = 0; i < l->shape->rank; i++)
            n += add_output(out + n, l->elements[i]);
        return n;
    }
    *out = (gxc_array){.dtype = dtype_name(l->shape->dtype),
                       .rank = l->shape->rank,
                       .dims = l->shape->dims,
                       .data = l->data,
                       .bytes = shape_is_array(l->shape) ? literal_bytes(l) : 0};
    return 1;
}

bool evaluate_module(const Module *m, const EvalOptions *options, const Inputs *inputs,
                     Arena *arena, gxc_result *r)
{
    EvalDevice *devices = bind_arguments(m, inputs, r, arena);
    if (devices == NULL)
        return false;
    const char *error = NULL;
    EvalStatus st =
        module_evaluate(m, options, (uint32_t)inputs->devices, devices, arena, &error);
    if (st == EVAL_UNSUPPORTED)
        diag_unsupported(m->diag, escape_innermost()->at, "%s", error);
    else if (st != EVAL_OK)
        diag_error(m->diag, escape_innermost()->at, "%s", error);
    if (st != EVAL_OK)
        return false;
    r->outputs = ARENA_ARRAY(arena, gxc_array, r->output_count * inputs->devices + 1);
    for (size_t d = 0; d < inputs->devices; d++)
        add_output(r->outputs + d * r->output_count, devices[d].result);
    return true;
}
