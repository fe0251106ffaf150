/* See result.h. */
#include "frontend/result.h"

#include <string.h>

/* A buffer is what it holds. */
static gxc_array array_of(Arena *a, const Shape *s)
{
    if (s->dtype == DT_BUFFER)
        s = s->elements[0];
    return (gxc_array){.dtype = dtype_name(s->dtype),
                       .rank = s->rank,
                       .dims = arena_copy(a, s->dims, s->rank * sizeof *s->dims)};
}

/* `name` NULL: leaves are called by their positions alone. */
static size_t add_leaves(Arena *a, const Shape *s, const char *name, gxc_array *out,
                         const char **names)
{
    size_t n = shape_leaf_count(s);
    for (size_t i = 0; i < n; i++) {
        const char *position = shape_leaf_path(a, s, i);
        out[i] = array_of(a, shape_leaf(s, i));
        names[i] = name == NULL ? position
                   : n == 1     ? arena_printf(a, "%s", name)
                                : arena_printf(a, "%s.%s", name, position);
    }
    return n;
}

void result_set_signature(gxc_result *r, const Module *m, const EvalOptions *grid)
{
    const Computation *entry = m->entry;
    size_t n = 0;
    for (uint32_t i = 0; i < entry->parameter_count; i++)
        n += shape_leaf_count(entry->parameters[i]->shape);
    r->parameters = ARENA_ARRAY(r->arena, gxc_array, n + 1);
    r->parameter_names = ARENA_ARRAY(r->arena, const char *, n + 1);
    r->parameter_count = n;
    n = 0;
    for (uint32_t i = 0; i < entry->parameter_count; i++)
        n += add_leaves(r->arena, entry->parameters[i]->shape, entry->parameters[i]->name,
                        r->parameters + n, r->parameter_names + n);
    r->output_count = shape_leaf_count(entry->root->shape);
    r->outputs = ARENA_ARRAY(r->arena, gxc_array, r->output_count + 1);
    r->output_names = ARENA_ARRAY(r->arena, const char *, r->output_count + 1);
    add_leaves(r->arena, entry->root->shape, NULL, r->outputs, r->output_names);
    r->device_count = (size_t)eval_device_count(m, grid);
    r->partition_count =
        grid->partitions != 0 ? grid->partitions : m->config.num_partitions;
}

/* A result that is NULL, as when there was no memory for it, has nothing. */
const void *gxc_result_bytes(const gxc_result *r, size_t *size)
{
    if (size != NULL)
        *size = r != NULL ? r->size : 0;
    return r != NULL ? r->bytes : NULL;
}

const char *gxc_result_diagnostics(const gxc_result *r)
{
    return r != NULL && r->diagnostics != NULL ? r->diagnostics : "";
}

const char *gxc_result_report(const gxc_result *r, const char *form)
{
    bool is_json = form != NULL && strcmp(form, "json") == 0;
    if (form == NULL || (!is_json && strcmp(form, "text") != 0))
        return NULL;
    const char *report = r == NULL ? NULL : is_json ? r->report_json : r->report_text;
    return report != NULL ? report : "";
}

size_t gxc_result_output_count(const gxc_result *r)
{
    return r != NULL ? r->output_count : 0;
}

size_t gxc_result_parameter_count(const gxc_result *r)
{
    return r != NULL ? r->parameter_count : 0;
}

size_t gxc_result_device_count(const gxc_result *r)
{
    return r != NULL ? r->device_count : 0;
}

int64_t gxc_result_partition_count(const gxc_result *r)
{
    return r != NULL ? r->partition_count : 0;
}

gxc_array gxc_result_output(const gxc_result *r, size_t device, size_t i)
{
    if (r == NULL || i >= r->output_count || device >= r->device_count)
        return (gxc_array){0};
    return r->outputs[r->evaluated ? device * r->output_count + i : i];
}

gxc_array gxc_result_parameter(const gxc_result *r, size_t i)
{
    return r != NULL && i < r->parameter_count ? r->parameters[i] : (gxc_array){0};
}

const char *gxc_result_parameter_name(const gxc_result *r, size_t i)
{
    return r != NULL && i < r->parameter_count ? r->parameter_names[i] : NULL;
}

const char *gxc_result_output_name(const gxc_result *r, size_t i)
{
    return r != NULL && i < r->output_count ? r->output_names[i] : NULL;
}

void gxc_result_module_hash(const gxc_result *r, uint8_t out[16])
{
    for (int i = 0; out != NULL && i < 16; i++)
        out[i] = r != NULL ? r->module_hash[i] : 0;
}
