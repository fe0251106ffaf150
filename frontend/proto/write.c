/* Modules as HloModuleProto: instructions, computations, schedule, header. Field numbers are those of
 * xla/service/hlo.proto and xla_data.proto, as the binaries of jaxlib write them; an attribute without a field goes as text. */
#include <string.h>

#include "frontend/proto/writer.h"
#include "ir/attribute/stack_frames.h"
#include "ir/print/print.h"
#include "ir/print/value.h"

Text writer_message(Writer *w)
{
    Text t;
    text_init(&t, w->arena);
    return t;
}

void writer_put_ints(Text *t, uint32_t field, Ints ints)
{
    wire_ints(t, field, ints.data, ints.count);
}

void writer_put_number(Text *t, uint32_t field, int64_t value)
{
    if (value != 0)
        wire_int(t, field, value);
}

static int64_t id_of(const Writer *w, const Instruction *inst)
{
    return w->first_id[inst->parent->id] + inst->id;
}

/* While: body, condition; the others as they count. */
static void put_callees(Text *t, const Instruction *inst)
{
    uint32_t count = inst_called_count(inst);
    int64_t *ids = ARENA_ARRAY(t->arena, int64_t, count);
    for (uint32_t i = 0; i < count; i++)
        ids[i] = inst_called(inst, inst->op == OP_WHILE ? count - 1 - i : i)->id;
    wire_ints(t, 38, ids, count);
}

static void put_instruction(Writer *w, Text *t, const Instruction *inst)
{
    Text m = writer_message(w), extra = writer_message(w);
    Gathered g = {0};
    wire_string(&m, 1, inst->name);
    wire_string(&m, 2, op_info[inst->op].name);
    writer_put_shape(w, &m, 3, inst->shape);
    if (inst->op == OP_PARAMETER)
        writer_put_number(&m, 9, inst->parameter);
    wire_int(&m, 35, id_of(w, inst));
    int64_t *ids =
        ARENA_ARRAY(w->arena, int64_t, (size_t)inst->operand_count + inst->control_count);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        ids[i] = id_of(w, inst->operands[i]);
    wire_ints(&m, 36, ids, inst->operand_count);
    for (uint32_t i = 0; i < inst->control_count; i++)
        ids[i] = id_of(w, inst->control[i]);
    wire_ints(&m, 37, ids, inst->control_count);
    put_callees(&m, inst);
    if (inst->op == OP_CONSTANT && writer_takes_literal(inst->literal))
        writer_put_literal(w, &m, 8, inst->literal);
    else if (inst->op == OP_CONSTANT)
        wire_string(&m, PROTO_LITERAL, literal_text(w->arena, inst->literal));
    for (uint32_t i = 0; i < inst->attr_count; i++) {
        const Attr *a = &inst->attrs[i];
        AttrKind kind = attr_info[a->id].kind;
        if (kind == AK_COMPUTATION || kind == AK_COMPUTATIONS ||
            writer_put_attribute(w, &m, &g, inst, a))
            continue;
        text_string(&extra, ", ");
        text_string(&extra, attr_info[a->id].name);
        text_char(&extra, '=');
        value_print(&extra, a, true);
    }
    if (inst->op == OP_TOPK) { /* there absence means false */
        if (!inst_has(inst, ATTR_IS_STABLE))
            wire_int(&m, 60, 1);
        if (!inst_has(inst, ATTR_LARGEST))
            wire_int(&m, 85, 1);
    }
    if (inst->op == OP_CUSTOM_CALL && !inst_has(inst, ATTR_API_VERSION))
        wire_int(&m, 77, 1);
    if (inst->op == OP_OUTFEED && inst->operand_count != 0 &&
        !inst_has(inst, ATTR_OUTFEED_SHAPE))
        writer_put_shape(w, &m, 29, inst->operands[0]->shape);
    if (inst->op == OP_SCAN)
        wire_int(&m, 96, inst_bool(inst, ATTR_IS_ASSOCIATIVE) ? 1 : 2);
    writer_put_gathered(w, &m, inst, &g);
    if (extra.length != 0)
        wire_message(&m, PROTO_TEXT, &extra);
    wire_message(t, 2, &m);
}

static void put_program_shape(Writer *w, Text *t, uint32_t count,
                              const Shape *const *parameters, const Shape *result)
{
    Text m = writer_message(w);
    for (uint32_t i = 0; i < count; i++)
        writer_put_shape(w, &m, 1, parameters[i]);
    writer_put_shape(w, &m, 2, result);
    for (uint32_t i = 0; i < count; i++)
        wire_string(&m, 3, arena_printf(w->arena, "p%u", i));
    wire_message(t, 4, &m);
}

static void put_computation(Writer *w, Text *t, const Computation *comp)
{
    Text m = writer_message(w);
    uint32_t count;
    Instruction **order = computation_post_order(comp, w->arena, &count);
    wire_string(&m, 1, comp->name);
    for (uint32_t i = 0; i < count; i++)
        put_instruction(w, &m, order[i]);
    const Shape **shapes = ARENA_ARRAY(w->arena, const Shape *, comp->parameter_count);
    for (uint32_t i = 0; i < comp->parameter_count; i++)
        shapes[i] = comp->parameters[i]->shape;
    put_program_shape(w, &m, comp->parameter_count, shapes, comp->root->shape);
    wire_int(&m, 5, comp->id);
    wire_int(&m, 6, id_of(w, comp->root));
    if (strcmp(comp->execution_thread, "main") != 0)
        wire_string(&m, 8, comp->execution_thread);
    wire_message(t, 3, &m);
}

static void put_schedule(Writer *w, Text *t, const Module *m)
{
    Text schedule = writer_message(w);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (comp->is_fused)
            continue;
        int64_t *ids = ARENA_ARRAY(w->arena, int64_t, comp->instruction_count);
        uint32_t count = 0;
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            ids[count++] = id_of(w, inst);
        }
        Text entry = writer_message(w), sequence = writer_message(w);
        wire_int(&entry, 1, comp->id);
        wire_ints(&sequence, 1, ids, count);
        wire_message(&entry, 2, &sequence);
        wire_message(&schedule, 1, &entry);
    }
    wire_message(t, 7, &schedule);
}

static void put_frames(Writer *w, Text *t, const StackFrames *f)
{
    Text m = writer_message(w);
    for (uint32_t i = 0; i < f->file_count; i++)
        wire_bytes(&m, 1, f->files[i].data, f->files[i].length);
    for (uint32_t i = 0; i < f->function_count; i++)
        wire_bytes(&m, 2, f->functions[i].data, f->functions[i].length);
    for (uint32_t i = 0; i < f->location_count; i++) {
        const FileLocation *l = &f->locations[i];
        Text row = writer_message(w);
        wire_int(&row, 1, l->file);
        wire_int(&row, 2, l->function);
        wire_int(&row, 3, l->line);
        wire_int(&row, 4, l->column);
        wire_int(&row, 5, l->end_line);
        wire_int(&row, 6, l->end_column);
        wire_message(&m, 3, &row);
    }
    for (uint32_t i = 0; i < f->frame_count; i++) {
        Text row = writer_message(w);
        wire_int(&row, 1, f->frames[i].location);
        writer_put_number(&row, 2, f->frames[i].parent);
        wire_message(&m, 4, &row);
    }
    wire_message(t, 17, &m);
}

static void put_aliases(Writer *w, Text *t, const ModuleConfig *config)
{
    Text m = writer_message(w);
    for (uint32_t i = 0; i < config->input_output_alias.count; i++) {
        const AliasEntry *e = &config->input_output_alias.entries[i];
        Text entry = writer_message(w);
        writer_put_ints(&entry, 1, e->output);
        writer_put_number(&entry, 2, e->operand);
        writer_put_ints(&entry, 3, e->input);
        wire_int(&entry, 4, e->must ? 2 : 1);
        wire_message(&m, 1, &entry);
    }
    if (m.length != 0)
        wire_message(t, 8, &m);
    Text donors = writer_message(w);
    for (uint32_t i = 0; i < config->donor_count; i++) {
        Text entry = writer_message(w);
        writer_put_number(&entry, 1, config->donors[i].parameter);
        writer_put_ints(&entry, 2, config->donors[i].index);
        wire_message(&donors, 1, &entry);
    }
    if (donors.length != 0)
        wire_message(t, 18, &donors);
}

static void add_bools(Text *t, const char *name, Ints bools)
{
    for (uint32_t i = 0; i < bools.count; i++)
        text_printf(t, "%s%s", i == 0 ? name : ",",
                    bools.data[i] != 0 ? "true" : "false");
    text_string(t, bools.count != 0 ? "}" : "");
}

/* What stands in the header of the text and has no field. */
static void put_header(Writer *w, Text *t, const ModuleConfig *config)
{
    Text extra = writer_message(w);
    if (config->replica_count != 1)
        text_printf(&extra, ", replica_count=%lld", (long long)config->replica_count);
    if (config->num_partitions != 1)
        text_printf(&extra, ", num_partitions=%lld", (long long)config->num_partitions);
    if (config->alias_passthrough_params)
        text_string(&extra, ", alias_passthrough_params=true");
    add_bools(&extra, ", allow_spmd_sharding_propagation_to_parameters={",
              config->propagate_to_parameters);
    add_bools(&extra, ", allow_spmd_sharding_propagation_to_output={",
              config->propagate_to_output);
    if (config->origin_recovery_table.length != 0)
        text_printf(&extra, ", origin_recovery_table={\n%s}",
                    config->origin_recovery_table.data);
    if (config->debug_attributes.length != 0)
        text_printf(&extra, ", debug_attributes={\n%s}", config->debug_attributes.data);
    if (extra.length != 0)
        wire_message(t, PROTO_TEXT, &extra);
}

/* A computation whose callees are looked through: those of `inst` from `callee` on are left. */
typedef struct Caller {
    const Computation *comp;
    const Instruction *inst;
    uint32_t callee;
} Caller;

/* The next one that it calls; NULL: there is none left. */
static const Computation *next_callee(Caller *c)
{
    while (c->inst != NULL && c->callee == inst_called_count(c->inst))
        *c = (Caller){c->comp, inst_next(c->inst), 0};
    return c->inst != NULL ? inst_called(c->inst, c->callee++) : NULL;
}

/* A reader wants callees before their callers; passes and library calls add some at the end of the list. */
static const Computation **callees_first(Writer *w, const Module *m, uint32_t *count)
{
    uint32_t n = m->computation_count, depth = 0;
    const Computation **order = ARENA_ARRAY(w->arena, const Computation *, n);
    Caller *callers = ARENA_ARRAY(w->arena, Caller, n);
    bool *seen = ARENA_ARRAY(w->arena, bool, n);
    *count = 0;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        const Computation *next = comp;
        while (next != NULL || depth != 0) {
            if (next != NULL && !seen[next->id]) {
                seen[next->id] = true;
                callers[depth++] = (Caller){next, inst_first(next), 0};
            }
            next = depth != 0 ? next_callee(&callers[depth - 1]) : NULL;
            if (next == NULL && depth != 0)
                order[(*count)++] = callers[--depth].comp;
        }
    }
    return order;
}

const char *proto_print(Arena *a, const Module *m, size_t *length)
{
    Arena *scratch = arena_create();
    Writer w = {.arena = scratch};
    Text t;
    text_init(&t, a);
    w.first_id = ARENA_ARRAY(scratch, int64_t, m->computation_count);
    int64_t next = 0;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        w.first_id[comp->id] = next;
        next += comp->instruction_count;
    }
    wire_string(&t, 1, m->name);
    wire_string(&t, 2, m->entry->name);
    uint32_t count;
    const Computation **order = callees_first(&w, m, &count);
    for (uint32_t i = 0; i < count; i++)
        put_computation(&w, &t, order[i]);
    put_program_shape(&w, &t, m->config.entry_parameter_count, m->config.entry_parameters,
                      m->config.entry_result);
    wire_int(&t, 6, m->entry->id);
    if (m->config.is_scheduled)
        put_schedule(&w, &t, m);
    put_aliases(&w, &t, &m->config);
    if (m->config.stack_frames != NULL)
        put_frames(&w, &t, m->config.stack_frames);
    if (m->config.frontend_attributes != NULL)
        writer_put_dict(&w, &t, 19, m->config.frontend_attributes);
    put_header(&w, &t, &m->config);
    arena_destroy(scratch);
    *length = t.length;
    return t.data;
}
