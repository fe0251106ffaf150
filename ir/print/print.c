/* The printed form of modules and computations (sections 10.1 to 10.5); the text is what the
 * parser reads. */
#include "ir/print/print.h"

#include "ir/attribute/stack_frames.h"
#include "ir/names.h"
#include "ir/print/printer.h"
#include "ir/print/value.h"

static void printer_init(Printer *p, Arena *a, PrintForm form)
{
    *p = (Printer){.scratch = arena_scratch(),
                   .form = form,
                   .percent = form == PRINT_LONG || form == PRINT_DEFAULT,
                   .signature = form == PRINT_LONG || form == PRINT_DEFAULT,
                   .operand_shapes = form == PRINT_LONG,
                   .metadata = form == PRINT_LONG || form == PRINT_DEFAULT,
                   .control = form != PRINT_SHORT,
                   .index_comments = form == PRINT_LONG || form == PRINT_DEFAULT};
    text_init(&p->text, a);
}

static const char *printer_done(Printer *p, size_t *length)
{
    arena_destroy(p->scratch);
    if (length != NULL)
        *length = p->text.length;
    return p->text.data;
}

void print_name(Printer *p, const char *name)
{
    if (p->percent || name_is_keyword(name))
        text_char(&p->text, '%');
    text_string(&p->text, name);
}

/* -- computations ------------------------------------------------------------------------- */

static void print_signature(Printer *p, const Computation *comp)
{
    Text *t = &p->text;
    text_char(t, '(');
    for (uint32_t i = 0; i < comp->parameter_count; i++) {
        if (i != 0)
            text_string(t, ", ");
        text_string(t, comp->parameters[i]->name);
        text_string(t, ": ");
        shape_print(t, comp->parameters[i]->shape, false);
    }
    text_string(t, ") -> ");
    shape_print(t, comp->root->shape, false);
    text_char(t, ' ');
}

void print_computation(Printer *p, const Computation *comp)
{
    Text *t = &p->text;
    uint32_t count;
    Instruction **order = print_instruction_order(p, comp, &count);
    const uint32_t *outer = p->numbers;
    if (p->form == PRINT_CANONICAL) {
        uint32_t *numbers = ARENA_ARRAY(p->scratch, uint32_t, comp->instruction_count);
        for (uint32_t i = 0; i < count; i++)
            numbers[order[i]->id] = i;
        p->numbers = numbers;
    } else {
        if (comp == comp->module->entry)
            text_string(t, "ENTRY ");
        print_name(p, comp->name);
        text_char(t, ' ');
    }
    if (p->signature && comp->root != NULL)
        print_signature(p, comp);
    text_string(t, "{\n");
    for (uint32_t i = 0; i < count; i++) {
        text_string(t, order[i] == comp->root ? "  ROOT " : "  ");
        print_instruction(p, order[i]);
        text_char(t, '\n');
    }
    text_char(t, '}');
    if (strcmp(comp->execution_thread, "main") != 0) {
        text_string(t, ", execution_thread=");
        escaped_print(t, (Bytes){comp->execution_thread, strlen(comp->execution_thread)});
    }
    p->numbers = outer;
}

/* -- the header --------------------------------------------------------------------------- */

static void print_layout(Printer *p, const ModuleConfig *config)
{
    Text *t = &p->text;
    text_string(t, ", entry_computation_layout={(");
    for (uint32_t i = 0; i < config->entry_parameter_count; i++) {
        if (i != 0)
            text_string(t, ", ");
        if (i != 0 && i % 5 == 0)
            text_printf(t, "/*index=%u*/", i);
        shape_print(t, config->entry_parameters[i], true);
    }
    text_string(t, ")->");
    shape_print(t, config->entry_result, true);
    text_char(t, '}');
}

static void print_bools(Printer *p, const char *name, Ints bools)
{
    if (bools.count == 0)
        return;
    text_string(&p->text, name);
    for (uint32_t i = 0; i < bools.count; i++) {
        text_string(&p->text, i == 0 ? "" : ",");
        text_string(&p->text, bools.data[i] != 0 ? "true" : "false");
    }
    text_char(&p->text, '}');
}

static void print_donors(Printer *p, const ModuleConfig *config)
{
    Text *t = &p->text;
    if (config->donor_count == 0)
        return;
    text_string(t, ", buffer_donor={ ");
    for (uint32_t i = 0; i < config->donor_count; i++) {
        text_string(t, i == 0 ? "(" : ", (");
        text_int(t, config->donors[i].parameter);
        text_string(t, ", ");
        ints_print(t, config->donors[i].index);
        text_char(t, ')');
    }
    text_string(t, " }");
}

static void print_header(Printer *p, const Module *m)
{
    Text *t = &p->text;
    const ModuleConfig *config = &m->config;
    text_string(t, "HloModule ");
    if (p->form != PRINT_CANONICAL && name_is_keyword(m->name))
        text_char(t, '%');
    text_string(t, p->form == PRINT_CANONICAL ? "m" : m->name);
    if (config->is_scheduled)
        text_string(t, ", is_scheduled=true");
    if (config->input_output_alias.count != 0) {
        text_string(t, ", input_output_alias={ ");
        aliasing_print(t, &config->input_output_alias, true);
        text_string(t, " }");
    }
    print_donors(p, config);
    if (config->alias_passthrough_params)
        text_string(t, ", alias_passthrough_params=true");
    print_layout(p, config);
    print_bools(p, ", allow_spmd_sharding_propagation_to_parameters={",
                config->propagate_to_parameters);
    print_bools(p, ", allow_spmd_sharding_propagation_to_output={",
                config->propagate_to_output);
    if (config->replica_count != 1)
        text_printf(t, ", replica_count=%lld", (long long)config->replica_count);
    if (config->num_partitions != 1)
        text_printf(t, ", num_partitions=%lld", (long long)config->num_partitions);
    if (config->frontend_attributes != NULL && config->frontend_attributes->count != 0) {
        text_string(t, ", frontend_attributes=");
        dict_print(t, config->frontend_attributes);
    }
    if (config->origin_recovery_table.length != 0) {
        text_string(t, ", origin_recovery_table={\n");
        text_add(t, config->origin_recovery_table.data,
                 config->origin_recovery_table.length);
        text_string(t, "}\n");
    }
    if (config->debug_attributes.length != 0) {
        text_string(t, ",\ndebug_attributes={\n");
        text_add(t, config->debug_attributes.data, config->debug_attributes.length);
        text_char(t, '}');
    }
    const StackFrames *frames =
        p->frames != NULL ? stack_frames_kept(p->frames) : config->stack_frames;
    if (p->metadata && frames != NULL) {
        text_string(t, "\n\n");
        stack_frames_print(t, frames);
    }
    text_string(t, "\n\n");
}

/* Bytes that a line has at least, mostly: so large texts do not grow by copies. */
#define LINE_LEAST 64

/* The reader numbers frames in the order in which it meets them; so does the printer, after
 * passes, too. */
static void number_frames(Printer *p, const Module *m, const Computation *const *order,
                          uint32_t count)
{
    p->frames = stack_frame_map(p->scratch, m->config.stack_frames);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n;
        Instruction **list = print_instruction_order(p, order[i], &n);
        for (uint32_t k = 0; k < n; k++) {
            const Attr *attr = inst_attr(list[k], ATTR_METADATA);
            if (attr != NULL)
                stack_frame_keep(p->frames, attr->metadata->stack_frame_id);
        }
    }
}

/* -- entry points ---------------------------------------------------------------------------- */

const char *module_print(Arena *a, const Module *m, PrintForm form, size_t *length)
{
    Printer p;
    printer_init(&p, a, form);
    uint32_t count;
    p.orders = ARENA_ARRAY(p.scratch, PrintOrder, m->computation_count);
    const Computation **order = print_computation_order(&p, m, &count);
    if (form == PRINT_DEFAULT && m->config.stack_frames != NULL)
        number_frames(&p, m, order, count);
    print_header(&p, m);
    for (uint32_t i = 0; i < count; i++) {
        text_reserve(&p.text, (size_t)order[i]->instruction_count * LINE_LEAST);
        if (form == PRINT_CANONICAL)
            text_printf(&p.text, "%sc%u ", order[i] == m->entry ? "ENTRY " : "",
                        order[i]->id);
        print_computation(&p, order[i]);
        text_string(&p.text, "\n\n");
    }
    return printer_done(&p, length);
}

const char *computation_print(Arena *a, const Computation *comp, PrintForm form,
                              size_t *length)
{
    Printer p;
    printer_init(&p, a, form);
    p.inline_callees = form == PRINT_CANONICAL;
    print_computation(&p, comp);
    return printer_done(&p, length);
}

const char *computation_print_unvalued(Arena *a, const Computation *comp,
                                       const Instruction *const *constants,
                                       uint32_t count, size_t *length)
{
    Printer p;
    printer_init(&p, a, PRINT_CANONICAL);
    p.inline_callees = true;
    p.unvalued = constants;
    p.unvalued_count = count;
    print_computation(&p, comp);
    return printer_done(&p, length);
}
