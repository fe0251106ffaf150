/* ragged-all-to-all by what NCCL and kernels have. Each device gets the rows of all and, by an
 * all-to-all, the part of the senders' offsets and sizes that is about it; then row r of the
 * result is found by asking every piece whether it covers r:
 *
 *   covers(q, r) = to[q] <= r < to[q] + size[q]
 *   source(r)    = max over q of covers(q, r) ? sender(q) * rows + from[q] + r - to[q] : -1
 *   result[r]    = source(r) >= 0 ? gathered[source(r)] : output[r]
 *
 * Moves more than it must, but needs no sizes on the host. */
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/attribute/replica_groups.h"
#include "passes/collectives/form.h"

typedef struct Ragged {
    Form *f;
    const Shape *pieces; /* s64[pieces] */
    const Shape *table;  /* s64[pieces, result rows] */
    const Shape *flags;  /* pred of the same sizes */
} Ragged;

static Instruction *binary(OpCode op, const Shape *s, Instruction *x, Instruction *y)
{
    Instruction *operands[2] = {x, y};
    return computation_add(x->parent, op, s, 2, operands, NULL);
}

static Instruction *compare(const Shape *s, Instruction *x, Instruction *y,
                            int64_t direction)
{
    Instruction *c = binary(OP_COMPARE, s, x, y);
    inst_set_int(c, ATTR_DIRECTION, direction);
    return c;
}

static Instruction *select(Instruction *p, Instruction *x, Instruction *y)
{
    Instruction *operands[3] = {p, x, y};
    return computation_add(x->parent, OP_SELECT, x->shape, 3, operands, NULL);
}

static Instruction *iota(Form *f, const Shape *s, int64_t dimension)
{
    Instruction *i = computation_add(f->comp, OP_IOTA, s, 0, NULL, NULL);
    inst_set_int(i, ATTR_IOTA_DIMENSION, dimension);
    return i;
}

static Instruction *broadcast(const Shape *s, Instruction *x, const int64_t *dims)
{
    Instruction *b = form_unary(OP_BROADCAST, s, x);
    inst_set_ints(b, ATTR_DIMENSIONS, dims, x->shape->rank);
    return b;
}

static Instruction *splat(Form *f, const Shape *s, int64_t value)
{
    Instruction *c = computation_add_scalar(f->comp, s->dtype, (double)value);
    return s->rank == 0 ? c : broadcast(s, c, NULL);
}

/* The senders' entries that are about this device, one behind the other, along dimension 0 of
 * the table. */
static Instruction *entries(Ragged *r, const Instruction *inst, uint32_t operand,
                            int64_t groups)
{
    Form *f = r->f;
    int64_t n = r->pieces->dims[0];
    int64_t dims[2] = {groups, n / groups};
    Instruction *x = form_convert(f, inst->operands[operand], DT_S64);
    const Shape *wide = form_array(f, DT_S64, 2, dims);
    x = form_reshape(wide, x);
    Instruction *moved;
    form_collective(f, inst, OP_ALL_TO_ALL, 1, &x, &wide, &moved);
    inst_set_ints(moved, ATTR_DIMENSIONS, &(int64_t){0}, 1);
    return broadcast(r->table, form_reshape(r->pieces, moved), &(int64_t){0});
}

/* s64[result rows]: which of all gathered rows comes here, or -1. */
static Instruction *sources(Ragged *r, const Instruction *inst, int64_t groups)
{
    Form *f = r->f;
    int64_t n = r->pieces->dims[0], rows = inst->operands[0]->shape->dims[0];
    Instruction *from = entries(r, inst, 2, groups), *size = entries(r, inst, 3, groups);
    Instruction *to = entries(r, inst, 4, groups);
    Instruction *row = iota(f, r->table, 1);
    Instruction *end = binary(OP_ADD, r->table, to, size);
    Instruction *covers =
        binary(OP_AND, r->flags, compare(r->flags, row, to, DIRECTION_GE),
               compare(r->flags, row, end, DIRECTION_LT));
    Instruction *sender =
        binary(OP_DIVIDE, r->table, iota(f, r->table, 0), splat(f, r->table, n / groups));
    Instruction *at = binary(OP_MULTIPLY, r->table, sender, splat(f, r->table, rows));
    at = binary(OP_ADD, r->table, at, from);
    at = binary(OP_ADD, r->table, at, binary(OP_SUBTRACT, r->table, row, to));
    at = select(covers, at, splat(f, r->table, -1));
    Instruction *operands[2] = {at, computation_add_scalar(f->comp, DT_S64, -1)};
    Instruction *most =
        computation_add(f->comp, OP_REDUCE, form_array(f, DT_S64, 1, r->table->dims + 1),
                        2, operands, NULL);
    inst_set_ints(most, ATTR_DIMENSIONS, &(int64_t){0}, 1);
    inst_set_computation(most, ATTR_TO_APPLY, form_reducer(f, OP_MAXIMUM, DT_S64));
    return most;
}

/* Rows `at` of x; those below 0 may be any. */
static Instruction *rows_at(Form *f, Instruction *x, Instruction *at, const Shape *shape)
{
    Instruction *operands[2] = {x, at};
    Instruction *g = computation_add(f->comp, OP_GATHER, shape, 2, operands, NULL);
    int64_t *dims = ARENA_ARRAY(f->scratch, int64_t, (size_t)shape->rank + 1);
    for (uint32_t i = 1; i < shape->rank; i++)
        dims[i - 1] = i;
    inst_set_ints(g, ATTR_OFFSET_DIMS, dims, shape->rank - 1);
    inst_set_ints(g, ATTR_COLLAPSED_SLICE_DIMS, &(int64_t){0}, 1);
    inst_set_ints(g, ATTR_START_INDEX_MAP, &(int64_t){0}, 1);
    inst_set_int(g, ATTR_INDEX_VECTOR_DIM, 1);
    memcpy(dims, shape->dims, shape->rank * sizeof *dims);
    dims[0] = 1;
    inst_set_ints(g, ATTR_SLICE_SIZES, dims, shape->rank);
    return g;
}

/* The rows of all devices of a group, one behind the other. */
static Instruction *gather_rows(Form *f, const Instruction *inst, Instruction *input,
                                int64_t groups)
{
    const Shape *all = form_with_front(f, input->shape, input->shape->dims[0] * groups);
    Instruction *gathered;
    form_collective(f, inst, OP_ALL_GATHER, 1, &input, &all, &gathered);
    inst_set_ints(gathered, ATTR_DIMENSIONS, &(int64_t){0}, 1);
    if (!inst_has(inst, ATTR_CHANNEL_ID))
        return gathered;
    /* a channel of inst means partitions; of an all-gather, whatever it says */
    ReplicaGroups *devices = ARENA_NEW(f->m->arena, ReplicaGroups);
    devices->form = GROUPS_LISTS;
    devices->lists = collective_groups(f->m->arena, inst);
    inst_set(gathered, (Attr){.id = ATTR_REPLICA_GROUPS, .groups = devices});
    inst_set_int(gathered, ATTR_USE_GLOBAL_DEVICE_IDS, true);
    return gathered;
}

Instruction *form_ragged(Form *f, const Instruction *inst)
{
    const Shape *in = inst->operands[0]->shape, *out = inst->operands[1]->shape;
    int64_t groups = collective_group_size(f->scratch, inst);
    int64_t n = shape_elements(inst->operands[2]->shape);
    bool plain = !shape_is_dynamic(in) && !shape_is_dynamic(out) && in->rank > 0 &&
                 groups > 0 && n > 0 && n % groups == 0;
    if (!plain)
        return NULL;
    if (shape_elements(in) == 0 || shape_elements(out) == 0)
        return inst->operands[1];
    DType own = in->dtype, t = form_carrier(own);
    Instruction *output = form_convert(f, inst->operands[1], t);
    out = output->shape;
    int64_t dims[2] = {n, out->dims[0]};
    Ragged r = {.f = f,
                .pieces = form_array(f, DT_S64, 1, dims),
                .table = form_array(f, DT_S64, 2, dims),
                .flags = form_array(f, DT_PRED, 2, dims)};
    Instruction *gathered =
        gather_rows(f, inst, form_convert(f, inst->operands[0], t), groups);
    Instruction *at = sources(&r, inst, groups);
    Instruction *rows = rows_at(f, gathered, at, out);
    const Shape *one = form_array(f, DT_PRED, 1, out->dims);
    Instruction *is_sent = compare(one, at, splat(f, at->shape, 0), DIRECTION_GE);
    is_sent =
        broadcast(shape_with_dtype(f->m->intern, out, DT_PRED), is_sent, &(int64_t){0});
    return form_convert(f, select(is_sent, rows, output), own);
}
