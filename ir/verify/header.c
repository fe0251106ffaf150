/* The verifier's rules about the module's header: layout of the entry computation, aliases
 * between parameters and results, donated parameters (12.1 of the language). */
#include "ir/verify/rules.h"

static void header_error(Verify *v, const char *text)
{
    diag_error(v->diag, v->m->entry->span, "%s", text);
}

static bool check_entry_layout(Verify *v)
{
    const ModuleConfig *config = &v->m->config;
    const Computation *entry = v->m->entry;
    if (!config->entry_result)
        return true; /* not given */
    if (config->entry_parameter_count != entry->parameter_count) {
        header_error(
            v, arena_printf(v->scratch,
                            "entry_computation_layout has %u parameters, but %s has %u",
                            config->entry_parameter_count, entry->name,
                            entry->parameter_count));
        return false;
    }
    if (v->level == LEVEL_SKETCH) /* text that is only read may be a sketch */
        return true;
    for (uint32_t i = 0; i < entry->parameter_count; i++)
        if (!shape_compatible(config->entry_parameters[i], entry->parameters[i]->shape)) {
            verify_error(
                v, entry->parameters[i],
                "entry_computation_layout gives parameter %u as %s, but it is %s", i,
                verify_text(v, config->entry_parameters[i]),
                verify_text(v, entry->parameters[i]->shape));
            return false;
        }
    if (shape_compatible(config->entry_result, entry->root->shape))
        return true;
    verify_error(
        v, entry->root, "entry_computation_layout gives the result as %s, but it is %s",
        verify_text(v, config->entry_result), verify_text(v, entry->root->shape));
    return false;
}

static const Shape *parameter_shape(Verify *v, int64_t number)
{
    const ModuleConfig *config = &v->m->config;
    if (number < 0 || number >= v->m->entry->parameter_count)
        return NULL;
    if (config->entry_result)
        return config->entry_parameters[number];
    return v->m->entry->parameters[number]->shape;
}

static const char *index_text(Verify *v, Ints index)
{
    const char *text = "";
    for (uint32_t i = 0; i < index.count; i++)
        text = arena_printf(v->scratch, "%s%s%lld", text, i == 0 ? "" : ",",
                            (long long)index.data[i]);
    return text;
}

static const char *parameter_text(Verify *v, int64_t number)
{
    return arena_printf(v->scratch, "parameter %lld", (long long)number);
}

/* What a parameter is, or how many there are. */
static const char *parameters_text(Verify *v, int64_t number)
{
    const Shape *s = parameter_shape(v, number);
    return s ? verify_text(v, s)
             : arena_printf(v->scratch, "%u parameters", v->m->entry->parameter_count);
}

/* Marks the leaf that an index path of a parameter names; true if it was marked already.
 * taken[parameter] is made when the parameter is first named. */
static bool take_leaf(Verify *v, bool **taken, int64_t parameter, Ints index)
{
    const Shape *s = parameter_shape(v, parameter);
    if (!taken[parameter])
        taken[parameter] = ARENA_ARRAY(v->scratch, bool, shape_leaf_count(s));
    size_t leaf = 0;
    for (uint32_t i = 0; i < index.count; i++) {
        leaf += s->first_leaf[index.data[i]];
        s = s->elements[index.data[i]];
    }
    bool was = taken[parameter][leaf];
    taken[parameter][leaf] = true;
    return was;
}

static void check_alias(Verify *v, const AliasEntry *e, bool **taken)
{
    const ModuleConfig *config = &v->m->config;
    const Shape *result =
        config->entry_result ? config->entry_result : v->m->entry->root->shape;
    const Shape *in = parameter_shape(v, e->operand);
    const Shape *out = shape_part(result, e->output);
    in = in ? shape_part(in, e->input) : NULL;
    if (!in || !out || !shape_is_array(in) || !shape_is_array(out)) {
        bool result_is = out && shape_is_array(out);
        header_error(v, arena_printf(v->scratch,
                                     "input_output_alias: %s {%s} is no array of %s",
                                     result_is ? parameter_text(v, e->operand) : "output",
                                     index_text(v, result_is ? e->input : e->output),
                                     result_is ? parameters_text(v, e->operand)
                                               : verify_text(v, result)));
        return;
    }
    int64_t a, b;
    if (v->level > LEVEL_WELL_FORMED && shape_byte_count(in, &a) &&
        shape_byte_count(out, &b) && a != b)
        header_error(v, arena_printf(v->scratch,
                                     "input_output_alias: %s and %s have different sizes",
                                     verify_text(v, in), verify_text(v, out)));
    else if (e->must && (!shape_compatible(in, out) || !shape_layouts_equal(in, out) ||
                         in->layout->memory_space != out->layout->memory_space))
        header_error(v,
                     arena_printf(v->scratch,
                                  "input_output_alias: %s and %s must alias, but differ",
                                  verify_text(v, in), verify_text(v, out)));
    if (take_leaf(v, taken, e->operand, e->input))
        header_error(v,
                     arena_printf(v->scratch,
                                  "input_output_alias: parameter %lld is aliased twice",
                                  (long long)e->operand));
}

static void check_donor(Verify *v, const DonorEntry *e, bool **taken)
{
    const Shape *s = parameter_shape(v, e->parameter);
    s = s ? shape_part(s, e->index) : NULL;
    if (!s || !shape_is_array(s)) {
        header_error(
            v, arena_printf(v->scratch, "buffer_donor: %s {%s} is no array of %s",
                            parameter_text(v, e->parameter), index_text(v, e->index),
                            parameters_text(v, e->parameter)));
        return;
    }
    if (take_leaf(v, taken, e->parameter, e->index))
        header_error(v, arena_printf(v->scratch,
                                     "buffer_donor: parameter %lld is also aliased",
                                     (long long)e->parameter));
}

void verify_header(Verify *v)
{
    const ModuleConfig *config = &v->m->config;
    if (!check_entry_layout(v))
        return;
    if (config->input_output_alias.count == 0 && config->donor_count == 0)
        return;
    bool **taken = ARENA_ARRAY(v->scratch, bool *, v->m->entry->parameter_count);
    for (uint32_t i = 0; i < config->input_output_alias.count; i++)
        check_alias(v, &config->input_output_alias.entries[i], taken);
    for (uint32_t i = 0; i < config->donor_count; i++)
        check_donor(v, &config->donors[i], taken);
}
