/* The part of an array that is a device's own, by its rank in its group of a collective:
 *
 *   groups {0,2},{1,3}: ranks = s32[4] constant({0, 0, 1, 1})
 *   rank = ranks[replica * partitions + partition]      part = dynamic-slice(x, rank * size)
 */
#include <string.h>

#include "ir/analysis/collective.h"
#include "passes/collectives/form.h"

static Instruction *binary(OpCode op, Instruction *x, Instruction *y)
{
    Instruction *operands[2] = {x, y};
    return computation_add(x->parent, op, x->shape, 2, operands, NULL);
}

static Instruction *device_number(Form *f)
{
    const ModuleConfig *c = &f->m->config;
    const Shape *u32 = shape_scalar(f->m->intern, DT_U32);
    Instruction *replica = computation_add(f->comp, OP_REPLICA_ID, u32, 0, NULL, NULL);
    Instruction *partition =
        computation_add(f->comp, OP_PARTITION_ID, u32, 0, NULL, NULL);
    Instruction *count =
        computation_add_scalar(f->comp, DT_U32, (double)c->num_partitions);
    replica = binary(OP_MULTIPLY, replica, count);
    return form_convert(f, binary(OP_ADD, replica, partition), DT_S32);
}

static Instruction *dynamic_slice(Form *f, Instruction *x, const Shape *s,
                                  Instruction *const *starts)
{
    Instruction **operands = ARENA_ARRAY(f->scratch, Instruction *, (size_t)s->rank + 1);
    operands[0] = x;
    memcpy(operands + 1, starts, s->rank * sizeof *starts);
    Instruction *slice =
        computation_add(f->comp, OP_DYNAMIC_SLICE, s, s->rank + 1, operands, NULL);
    inst_set_ints(slice, ATTR_DYNAMIC_SLICE_SIZES, s->dims, s->rank);
    return slice;
}

/* s32[]: of a table by device number the device's own entry. */
static Instruction *own_entry(Form *f, const Literal *entries)
{
    Instruction *table = computation_add_constant(f->comp, entries, NULL);
    Instruction *number = device_number(f);
    Instruction *one =
        dynamic_slice(f, table, form_array(f, DT_S32, 1, &(int64_t){1}), &number);
    return form_reshape(shape_scalar(f->m->intern, DT_S32), one);
}

/* An entry for each device of the groups. */
static Literal *table_of(Form *f, IntLists groups)
{
    int64_t devices = 1;
    for (uint32_t g = 0; g < groups.count; g++) {
        for (uint32_t i = 0; i < groups.data[g].count; i++) {
            int64_t n = groups.data[g].data[i] + 1;
            devices = n > devices ? n : devices;
        }
    }
    return literal_create(f->m->arena, form_array(f, DT_S32, 1, &devices));
}

/* s32[]: the device's rank in its group. */
static Instruction *own_rank(Form *f, const Instruction *inst)
{
    IntLists groups = collective_groups(f->scratch, inst);
    Literal *ranks = table_of(f, groups);
    for (uint32_t g = 0; g < groups.count; g++) {
        for (uint32_t i = 0; i < groups.data[g].count; i++)
            literal_set_int(ranks, groups.data[g].data[i], i);
    }
    return own_entry(f, ranks);
}

Instruction *form_own_part(Form *f, const Instruction *inst, Instruction *x, uint32_t d,
                           const Shape *part)
{
    Instruction **starts = ARENA_ARRAY(f->scratch, Instruction *, part->rank);
    Instruction *size = computation_add_scalar(f->comp, DT_S32, (double)part->dims[d]);
    for (uint32_t i = 0; i < part->rank; i++)
        starts[i] = i == d ? binary(OP_MULTIPLY, own_rank(f, inst), size)
                           : computation_add_scalar(f->comp, DT_S32, 0);
    return dynamic_slice(f, x, part, starts);
}

static int64_t rank_of(IntLists groups, int64_t device)
{
    for (uint32_t g = 0; g < groups.count; g++) {
        int64_t at = ints_find(groups.data[g], device);
        if (at >= 0)
            return at;
    }
    return 0;
}

Instruction *form_member_row(Form *f, const Instruction *inst, Instruction *rows,
                             int64_t i)
{
    IntLists groups = collective_groups(f->scratch, inst);
    IntLists all = collective_groups(f->scratch, rows);
    Literal *table = table_of(f, groups);
    for (uint32_t g = 0; g < groups.count; g++) {
        const Ints *group = &groups.data[g];
        for (uint32_t k = 0; k < group->count; k++)
            literal_set_int(table, group->data[k],
                            rank_of(all, group->data[i < group->count ? i : 0]));
    }
    const Shape *row = form_with_front(f, rows->shape, 1);
    Instruction **starts = ARENA_ARRAY(f->scratch, Instruction *, row->rank);
    starts[0] = own_entry(f, table);
    for (uint32_t d = 1; d < row->rank; d++)
        starts[d] = computation_add_scalar(f->comp, DT_S32, 0);
    return dynamic_slice(f, rows, row, starts);
}

Instruction *form_has_member(Form *f, const Instruction *inst, int64_t i)
{
    IntLists groups = collective_groups(f->scratch, inst);
    Literal *table = table_of(f, groups);
    for (uint32_t g = 0; g < groups.count; g++) {
        for (uint32_t k = 0; k < groups.data[g].count; k++)
            literal_set_int(table, groups.data[g].data[k], i < groups.data[g].count);
    }
    return form_convert(f, own_entry(f, table), DT_PRED);
}
