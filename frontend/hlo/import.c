/* The end of reading a module: the order of the computations, unique names (section 10.2), the
 * entry, and what the header left out. */
#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parse.h"
#include "frontend/hlo/parser.h"
#include "ir/attribute/stack_frames.h"
#include "ir/names.h"

static void name_all(Module *m)
{
    for (uint32_t c = 0; c < m->computation_count; c++) {
        Computation *comp = m->computations[c];
        comp->name = names_keep(m->computation_names, comp->name);
        for (uint32_t i = 0; i < comp->instruction_count; i++) {
            Instruction *inst = comp->instructions[i];
            inst->name = names_keep(m->instruction_names, inst->name);
        }
    }
}

static void order_all(Module *m, Computation *const *order, size_t count)
{
    m->computation_count = (uint32_t)count;
    for (uint32_t c = 0; c < m->computation_count; c++) {
        m->computations[c] = order[c];
        m->computations[c]->id = c;
    }
}

static void default_layout(Module *m)
{
    ModuleConfig *config = &m->config;
    const Computation *entry = m->entry;
    const Shape **parameters =
        ARENA_ARRAY(m->arena, const Shape *, entry->parameter_count);
    for (uint32_t i = 0; i < entry->parameter_count; i++)
        parameters[i] = entry->parameters[i]->shape;
    config->entry_parameter_count = entry->parameter_count;
    config->entry_parameters = parameters;
    config->entry_result = entry->root->shape;
}

/* Every aliased output exists in the result. */
static void check_aliases(Parser *p)
{
    const Aliasing *aliasing = &p->m->config.input_output_alias;
    for (uint32_t i = 0; i < aliasing->count; i++) {
        const Shape *result = p->m->entry->root->shape;
        if (shape_part(result, aliasing->entries[i].output) == NULL)
            diag_error(
                p->diag, p->alias_span,
                "input_output_alias names an output that the result, %s, does not have",
                shape_text(p->scratch, result, false));
    }
}

void import_module(Module *m, Computation *const *order, size_t count, bool has_layout)
{
    order_all(m, order, count);
    name_all(m);
    if (!has_layout)
        default_layout(m);
}

void import_finish(Parser *p)
{
    Module *m = p->m;
    if (p->finished.count == 0) {
        diag_error(p->diag, (Span){(uint32_t)p->length, (uint32_t)p->length},
                   "a module has at least one computation");
        return;
    }
    m->entry = p->entry != NULL ? p->entry : p->finished.data[p->finished.count - 1];
    if (p->is_headerless)
        m->name =
            intern_string(p->intern, arena_printf(p->arena, "module_%s", m->entry->name));
    m->config.is_scheduled = m->config.is_scheduled || p->is_single;
    import_module(m, p->finished.data, p->finished.count, p->has_config_layout);
    check_aliases(p);
    stack_frames_compact(m);
}
