/* What every command of a plan is made of: slices of allocations, and the record itself. See variant.h. */
#include "codegen/plan/variant.h"

/* The array that is leaf `*leaf` of a literal; NULL: it lies behind, and *leaf counts on. */
static const Literal *leaf_of(const Literal *l, size_t *leaf)
{
    if (!shape_is_tuple(l->shape))
        return (*leaf)-- == 0 ? l : NULL;
    const Literal *found = NULL;
    for (uint32_t i = 0; i < l->shape->rank && found == NULL; i++)
        found = leaf_of(l->elements[i], leaf);
    return found;
}

static uint32_t add_allocation(Variant *v, const Buffer *b)
{
    PlanAllocation p = {.index = b->index, .bytes = b->bytes, .alignment = 16};
    switch (b->kind) {
    case BUFFER_ARGUMENT:
    case BUFFER_RESULT:
        p.kind = b->kind == BUFFER_ARGUMENT ? PLAN_ARGUMENT : PLAN_RESULT;
        p.colour = b->colour == PLAN_HOST_MEMORY ? b->colour : PLAN_DEVICE_MEMORY;
        break;
    case BUFFER_CONSTANT: {
        size_t leaf = b->index;
        const Literal *l = leaf_of(b->constant->literal, &leaf);
        unsigned char *packed = ARENA_ARRAY(v->arena, unsigned char, b->bytes + 1);
        if (l->elided) {
            p.elided = 1;
            v->plan.info[0].flags |= PLAN_ELIDED;
        } else {
            literal_to_device(l, shape_leaf(b->constant->shape, b->index), packed);
        }
        p.kind = PLAN_CONSTANT;
        p.index = 0;
        p.alignment = PLAN_CONSTANT_ALIGNMENT;
        p.offset = constant_pool_add(v->pool, packed, b->bytes);
        p.name = plan_string(&v->plan, b->constant->name);
        break;
    }
    case BUFFER_TEMP:
    case BUFFER_NONE:
        p.kind = PLAN_TEMP;
        p.index = 0;
        p.bytes = v->buffers->temp_bytes[b->colour];
        p.colour = b->colour;
        p.alignment = 256;
        break;
    }
    return plan_add_allocations(&v->plan, &p, 1);
}

uint32_t variant_set_slice(Variant *v, uint32_t set)
{
    if (v->slices[set] != PLAN_NONE)
        return v->slices[set];
    const Buffer *b = &v->buffers->sets[set];
    PlanSlice s = {.bytes = b->bytes};
    if (b->kind == BUFFER_TEMP || b->kind == BUFFER_NONE) {
        uint32_t *temp = &v->temp_allocation[b->colour];
        if (*temp == PLAN_NONE)
            *temp = add_allocation(v, b);
        s.allocation = *temp;
        s.offset = b->offset;
    } else {
        s.allocation = add_allocation(v, b);
    }
    v->slices[set] = plan_add_slices(&v->plan, &s, 1);
    return v->slices[set];
}

/* A part of an alias set's slice, at an offset that depends on the loop's counter. */
static uint32_t add_loop_slice(Variant *v, const LoopSlice *l, uint32_t set,
                               uint64_t bytes)
{
    PlanTerm terms[LOOP_SLICE_TERMS] = {0};
    for (uint32_t i = 0; i < l->term_count; i++)
        terms[i] = (PlanTerm){.counter = v->counters[l->body->id],
                              .scale = l->terms[i].scale,
                              .bias = l->terms[i].bias,
                              .high = l->terms[i].high,
                              .stride = l->terms[i].stride};
    uint32_t whole = variant_set_slice(v, set); /* first: it may move the table */
    PlanSlice s = v->plan.slices[whole];
    s.offset += (uint64_t)l->offset;
    s.bytes = bytes;
    s.terms = plan_add_terms(&v->plan, terms, l->term_count);
    s.term_count = l->term_count;
    return plan_add_slices(&v->plan, &s, 1);
}

PlanArg variant_piece_arg(Variant *v, const LoopSlice *transfer, uint64_t bytes,
                          uint16_t access)
{
    uint32_t set = alias_set(v->aliases, transfer->source, transfer->leaf);
    return (PlanArg){.tag = PLAN_ARG_SLICE,
                     .access = access,
                     .index = add_loop_slice(v, transfer, set, bytes)};
}

uint32_t variant_slice(Variant *v, const Instruction *inst, size_t leaf)
{
    const LoopSlice *l = loop_slice_of(v->loop_slices, inst);
    if (l != NULL)
        return add_loop_slice(v, l, alias_set(v->aliases, l->source, l->leaf),
                              (uint64_t)shape_bytes(inst->shape));
    return variant_set_slice(v, alias_set(v->aliases, inst, leaf));
}

PlanArg variant_slice_arg(Variant *v, const Instruction *inst, size_t leaf,
                          uint16_t access)
{
    return (PlanArg){
        .tag = PLAN_ARG_SLICE, .access = access, .index = variant_slice(v, inst, leaf)};
}

PlanArg variant_part_arg(Variant *v, const Instruction *inst, uint64_t offset,
                         uint64_t bytes, uint16_t access)
{
    uint32_t slice = variant_slice(v, inst, 0); /* first: it may move the table */
    PlanSlice s = v->plan.slices[slice];
    s.offset += offset;
    s.bytes = bytes;
    return (PlanArg){.tag = PLAN_ARG_SLICE,
                     .access = access,
                     .index = plan_add_slices(&v->plan, &s, 1)};
}

uint32_t variant_state_slice(Variant *v)
{
    if (v->state_slice == PLAN_NONE) {
        PlanAllocation a = {.kind = PLAN_STATE,
                            .bytes = VARIANT_STATE_BYTES,
                            .alignment = BUFFER_ALIGNMENT,
                            .name = plan_string(&v->plan, "random")};
        PlanSlice s = {.allocation = plan_add_allocations(&v->plan, &a, 1),
                       .bytes = VARIANT_STATE_BYTES};
        v->state_slice = plan_add_slices(&v->plan, &s, 1);
    }
    return v->state_slice;
}

const char *variant_name(const Variant *v, const Instruction *inst)
{
    bool is_all = v->started != NULL && inst_called(v->started, 0)->root == inst;
    return is_all ? v->started->name : inst->name;
}

uint32_t variant_workspace_slice(Variant *v, uint64_t bytes)
{
    if (v->workspace_slice == PLAN_NONE) {
        PlanAllocation a = {
            .kind = PLAN_WORKSPACE, .bytes = bytes, .alignment = BUFFER_ALIGNMENT};
        PlanSlice s = {.allocation = plan_add_allocations(&v->plan, &a, 1),
                       .bytes = bytes};
        v->workspace_slice = plan_add_slices(&v->plan, &s, 1);
    }
    PlanSlice *s = &v->plan.slices[v->workspace_slice];
    if (s->bytes < bytes)
        s->bytes = v->plan.allocations[s->allocation].bytes = bytes;
    return v->workspace_slice;
}

static uint32_t scratch_allocation(Variant *v)
{
    for (size_t i = 0; i < v->scratch_count; i++) {
        if (v->scratch[i].stream == v->stream)
            return v->scratch[i].allocation;
    }
    PlanAllocation a = {.kind = PLAN_WORKSPACE, .alignment = BUFFER_ALIGNMENT};
    v->scratch = arena_grow(v->arena, v->scratch, &v->scratch_capacity,
                            v->scratch_count + 1, sizeof *v->scratch);
    struct Scratch *s = &v->scratch[v->scratch_count++];
    *s = (struct Scratch){v->stream, plan_add_allocations(&v->plan, &a, 1)};
    return s->allocation;
}

uint32_t variant_ticket_slice(Variant *v, uint64_t bytes)
{
    if (v->ticket_allocation == PLAN_NONE) {
        PlanAllocation a = {.kind = PLAN_STATE,
                            .alignment = BUFFER_ALIGNMENT,
                            .name = plan_string(&v->plan, "tickets")};
        v->ticket_allocation = plan_add_allocations(&v->plan, &a, 1);
    }
    PlanAllocation *a = &v->plan.allocations[v->ticket_allocation];
    PlanSlice s = {
        .allocation = v->ticket_allocation, .offset = a->bytes, .bytes = bytes};
    a->bytes += (bytes + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
    return plan_add_slices(&v->plan, &s, 1);
}

uint32_t variant_scratch_slice(Variant *v, uint64_t bytes)
{
    PlanSlice s = {.allocation = scratch_allocation(v), .bytes = bytes};
    PlanAllocation *a = &v->plan.allocations[s.allocation];
    if (a->bytes < bytes)
        a->bytes = bytes;
    return plan_add_slices(&v->plan, &s, 1);
}

uint32_t variant_command(Variant *v, PlanCommandKind kind, const Instruction *inst,
                         uint32_t index, const PlanArg *args, uint32_t arg_count)
{
    v->commands = arena_grow(v->arena, v->commands, &v->command_capacity,
                             v->command_count + 1, sizeof *v->commands);
    v->commands[v->command_count++] = (VariantCommand){inst, kind, index};
    PlanCommand c = {.kind = (uint16_t)kind,
                     .name = plan_string(&v->plan, variant_name(v, inst)),
                     .stream = v->stream,
                     .signal = PLAN_NONE,
                     .index = index};
    return plan_command(&v->plan, &c, args, arg_count);
}
