/* Operations that talk to other devices or to the host. */
#include <stdlib.h>
#include <string.h>

#include "frontend/stablehlo/functions.h"
#include "ir/base/text.h"
#include "ir/dtype.h"

/* The handle's number becomes the channel: it says that partitions take part, not replicas alone. */
static bool set_channel(Converter *c, const MlirOp *op, Instruction *inst)
{
    const MlirAttr *handle = ask(c, op, NULL, "channel_handle");
    int64_t number = 0;
    if (handle == NULL)
        ask_int(c, ask(c, op, NULL, "channel_id"), &number);
    else if (!ask_int(c, field(c, handle, "handle"), &number))
        return convert_error(c, "a channel_handle has a handle, a number") != NULL;
    if (number > 0)
        inst_set_int(inst, ATTR_CHANNEL_ID, number);
    return true;
}

static bool set_groups(Converter *c, const MlirOp *op, Instruction *inst)
{
    const ReplicaGroups *groups = ask_groups(c, op);
    if (groups == NULL)
        return false;
    inst_set(inst, (Attr){.id = ATTR_REPLICA_GROUPS, .groups = groups});
    return true;
}

static bool set_global_ids(Converter *c, const MlirOp *op, Instruction *inst)
{
    if (!ask_flag(c, op, "use_global_device_ids"))
        return true;
    if (!inst_has(inst, ATTR_CHANNEL_ID))
        return convert_error(c, "use_global_device_ids needs a channel_handle above 0") !=
               NULL;
    inst_set_int(inst, ATTR_USE_GLOBAL_DEVICE_IDS, 1);
    return true;
}

static Instruction *make_all(Converter *c, const MlirOp *op, OpCode opcode)
{
    if (op->operand_count == 0 || op->operand_count != op->result_count)
        return convert_error(c, "%s has as many results as operands, at least one",
                             op->name);
    Instruction **operands = ARENA_ARRAY(c->scratch, Instruction *, op->operand_count);
    for (uint32_t i = 0; i < op->operand_count; i++)
        operands[i] = operand_of(op, i);
    return make(c, opcode, results_shape(c, op), op->operand_count, operands);
}

static bool set_reducer(Converter *c, const MlirOp *op, Instruction *inst)
{
    Computation *reducer = applied_computation(c, op, 0);
    if (reducer == NULL)
        return false;
    inst_set_computation(inst, ATTR_TO_APPLY, reducer);
    return true;
}

void convert_all_gather(Converter *c, const MlirOp *op, const OpRow *row)
{
    Instruction *inst = make_all(c, op, row->op);
    if (inst == NULL || !set_channel(c, op, inst) || !set_groups(c, op, inst) ||
        !set_global_ids(c, op, inst))
        return;
    int64_t dimension = ask_int_or(c, op, "all_gather_dim", 0);
    inst_set_ints(inst, ATTR_DIMENSIONS, &dimension, 1);
    bind_elements(c, op, make_finish(c, inst));
}

void convert_all_reduce(Converter *c, const MlirOp *op, const OpRow *row)
{
    Instruction *inst = make_all(c, op, row->op);
    if (inst != NULL && set_reducer(c, op, inst) && set_channel(c, op, inst) &&
        set_groups(c, op, inst) && set_global_ids(c, op, inst))
        bind_elements(c, op, make_finish(c, inst));
}

void convert_cross_replica_sum(Converter *c, const MlirOp *op, const OpRow *row)
{
    Instruction *inst = make_all(c, op, row->op);
    if (inst == NULL || !shape_is_array(inst->shape) || !set_groups(c, op, inst))
        return;
    Computation *adder = module_add_adder(c->m, inst->shape->dtype);
    STACK_PUSH(c, c->finished, adder);
    inst_set_computation(inst, ATTR_TO_APPLY, adder);
    bind(c, op, make_finish(c, inst));
}

void convert_reduce_scatter(Converter *c, const MlirOp *op, const OpRow *row)
{
    Instruction *inst = make_all(c, op, row->op);
    if (inst == NULL || !set_reducer(c, op, inst) || !set_channel(c, op, inst) ||
        !set_groups(c, op, inst) || !set_global_ids(c, op, inst))
        return;
    int64_t dimension = ask_int_or(c, op, "scatter_dimension", 0);
    inst_set_ints(inst, ATTR_DIMENSIONS, &dimension, 1);
    bind_elements(c, op, make_finish(c, inst));
}

/* -- all-to-all ---------------------------------------------------------------------------- */

static Instruction *exchange(Converter *c, const MlirOp *op, Instruction *operand,
                             int64_t dimension)
{
    Instruction *inst = make1(c, OP_ALL_TO_ALL, operand->shape, operand);
    if (!set_channel(c, op, inst) || !set_groups(c, op, inst))
        return NULL;
    inst_set_ints(inst, ATTR_DIMENSIONS, &dimension, 1);
    return make_finish(c, inst);
}

/* HLO's splits and concatenates along one dimension: the parts get a dimension of their own, which then goes
 * where they are concatenated.
 *   x[.., s, .., k, ..] -> [.., n, s / n, .., k, ..] -> all-to-all -> [.., s / n, .., n, k, ..] -> [.., n k, ..] */
static Instruction *exchange_apart(Converter *c, const MlirOp *op, Instruction *x,
                                   int64_t split, int64_t concat, int64_t parts)
{
    uint32_t rank = x->shape->rank + 1;
    int64_t *dims = ARENA_ARRAY(c->scratch, int64_t, rank);
    int64_t *order = ARENA_ARRAY(c->scratch, int64_t, rank);
    int64_t *merged = ARENA_ARRAY(c->scratch, int64_t, rank);
    for (uint32_t i = 0, at = 0; i < x->shape->rank; i++) {
        if (i == split)
            dims[at++] = parts;
        dims[at++] = i == split ? x->shape->dims[i] / parts : x->shape->dims[i];
    }
    x = exchange(c, op, make_reshape(c, x, rank, dims), split);
    if (x == NULL)
        return NULL;
    for (int64_t i = 0, at = 0; i + 1 < rank; i++) { /* i: of the operand */
        if (i == concat)
            order[at++] = split;
        order[at++] = i < split ? i : i + 1;
        merged[i] = dims[i < split ? i : i + 1] * (i == concat ? parts : 1);
    }
    return make_reshape(c, make_transpose(c, x, order), rank - 1, merged);
}

void convert_all_to_all(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    int64_t split = ask_int_or(c, op, "split_dimension", -1);
    int64_t concat = ask_int_or(c, op, "concat_dimension", -1);
    int64_t parts = ask_int_or(c, op, "split_count", 0);
    if (op->operand_count != op->result_count) {
        convert_error(c, "all_to_all has as many results as operands");
        return;
    }
    for (uint32_t i = 0; i < op->operand_count; i++) {
        Instruction *x = operand_of(op, i);
        const Shape *s = x->shape;
        if (!shape_is_array(s) || split < 0 || split >= s->rank || concat < 0 ||
            concat >= s->rank || parts <= 0 || s->dims[split] % parts != 0) {
            convert_error(
                c, "all_to_all splits a dimension of %s into split_count equal parts",
                shape_text(c->scratch, s, false));
            return;
        }
        op->results[i].inst = split == concat
                                  ? exchange(c, op, x, split)
                                  : exchange_apart(c, op, x, split, concat, parts);
    }
}

/* Of jax.lax.ragged_all_to_all: the call's configuration has the channel and the groups. */
void convert_ragged_all_to_all(Converter *c, const MlirOp *op, const MlirAttr *config)
{
    if (op->operand_count != 6 || op->result_count != 1 || config == NULL ||
        config->kind != MLIR_DICT) {
        convert_error(c, "ragged_all_to_all takes six arrays, gives one, and has its "
                         "replica_groups in backend_config");
        return;
    }
    MlirOp inner = *op;
    inner.attrs = config->dict;
    Instruction *operands[6];
    for (uint32_t i = 0; i < 6; i++)
        operands[i] = operand_of(op, i);
    Instruction *inst = make(c, OP_RAGGED_ALL_TO_ALL, result_shape(op, 0), 6, operands);
    if (inst != NULL && set_channel(c, &inner, inst) && set_groups(c, &inner, inst))
        bind(c, op, make_finish(c, inst));
}

/* -- permute, broadcast -------------------------------------------------------------------- */

static int number_order(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool are_different(Converter *c, IntLists pairs, int side)
{
    int64_t *all = ARENA_ARRAY(c->scratch, int64_t, pairs.count + 1u);
    for (uint32_t i = 0; i < pairs.count; i++)
        all[i] = pairs.data[i].data[side];
    qsort(all, pairs.count, sizeof *all, number_order);
    for (uint32_t i = 1; i < pairs.count; i++)
        if (all[i - 1] == all[i])
            return false;
    return true;
}

/* Each device sends once at most, and receives once. */
static bool are_pairs(Converter *c, IntLists pairs)
{
    bool right = true;
    for (uint32_t i = 0; right && i < pairs.count; i++)
        right = pairs.data[i].count == 2;
    if (right && are_different(c, pairs, 0) && are_different(c, pairs, 1))
        return true;
    return convert_error(
               c, "source_target_pairs are pairs, in which each device is a source once "
                  "and a target once") != NULL;
}

void convert_collective_permute(Converter *c, const MlirOp *op, const OpRow *row)
{
    IntLists pairs;
    Instruction *inst = make_all(c, op, row->op);
    if (inst == NULL || !ask_pairs(c, ask(c, op, NULL, "source_target_pairs"), &pairs) ||
        !set_channel(c, op, inst))
        return;
    if (!are_pairs(c, pairs))
        return;
    inst_set(inst, (Attr){.id = ATTR_SOURCE_TARGET_PAIRS, .lists = pairs});
    bind_elements(c, op, make_finish(c, inst));
}

void convert_collective_broadcast(Converter *c, const MlirOp *op, const OpRow *row)
{
    Instruction *inst = make_all(c, op, row->op);
    if (inst != NULL && set_channel(c, op, inst) && set_groups(c, op, inst))
        bind_elements(c, op, make_finish(c, inst));
}

/* -- the host and single devices ------------------------------------------------------------ */

/* All results but the last, a token, as one value. */
static const Shape *data_shape(Converter *c, const MlirOp *op)
{
    if (op->result_count == 2)
        return result_shape(op, 0);
    const Shape **shapes = ARENA_ARRAY(c->scratch, const Shape *, op->result_count);
    for (uint32_t i = 0; i + 1 < op->result_count; i++)
        shapes[i] = result_shape(op, i);
    return shape_tuple(c->intern, op->result_count - 1, shapes);
}

static void bind_data(Converter *c, const MlirOp *op, Instruction *pair)
{
    if (pair == NULL)
        return;
    Instruction *data = make_element(c, pair, 0);
    op->results[op->result_count - 1].inst = make_element(c, pair, 1);
    for (uint32_t i = 0; i + 1 < op->result_count; i++)
        op->results[i].inst = op->result_count == 2 ? data : make_element(c, data, i);
}

static const Shape *with_token(Converter *c, const Shape *data, bool number)
{
    const Shape *parts[] = {data, number ? shape_scalar(c->intern, DT_U32) : NULL,
                            shape_token(c->intern)};
    if (!number)
        parts[1] = parts[2];
    return shape_tuple(c->intern, number ? 3 : 2, parts);
}

static bool gives_token(Converter *c, const MlirOp *op)
{
    if (op->result_count != 0 &&
        op->results[op->result_count - 1].type->kind == MLIR_TOKEN)
        return true;
    convert_error(c, "the last result of %s is a token", op->name);
    return false;
}

static void set_bytes(Converter *c, const MlirOp *op, const char *name, Instruction *inst,
                      AttrId id)
{
    const MlirAttr *a = ask(c, op, NULL, name);
    if (a != NULL && a->kind == MLIR_STRING && a->text.length != 0)
        inst_set_bytes(inst, id, a->text.data, a->text.length);
}

void convert_infeed(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    if (!gives_token(c, op))
        return;
    Instruction *inst =
        make1(c, OP_INFEED, with_token(c, data_shape(c, op), false), operand_of(op, 0));
    set_bytes(c, op, "infeed_config", inst, ATTR_INFEED_CONFIG);
    bind_data(c, op, make_finish(c, inst));
}

/* All operands but the last, a token, as one value. */
static Instruction *given_data(Converter *c, const MlirOp *op)
{
    uint32_t count = op->operand_count;
    if (count == 0 || op->operands[count - 1]->type->kind != MLIR_TOKEN)
        return convert_error(c, "the last operand of %s is a token", op->name);
    if (count == 2)
        return operand_of(op, 0);
    Instruction **parts = ARENA_ARRAY(c->scratch, Instruction *, count);
    for (uint32_t i = 0; i + 1 < count; i++)
        parts[i] = operand_of(op, i);
    return make_tuple(c, count - 1, parts);
}

void convert_outfeed(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Instruction *data = given_data(c, op);
    if (data == NULL)
        return;
    Instruction *inst = make2(c, OP_OUTFEED, shape_token(c->intern), data,
                              operand_of(op, op->operand_count - 1));
    inst_set(inst, (Attr){.id = ATTR_OUTFEED_SHAPE, .shape = data->shape});
    set_bytes(c, op, "outfeed_config", inst, ATTR_OUTFEED_CONFIG);
    bind(c, op, make_finish(c, inst));
}

/* StableHLO's source_target_pairs are a frontend attribute of HLO's. */
static bool set_pairs(Converter *c, const MlirOp *op, Instruction *inst)
{
    IntLists pairs;
    const MlirAttr *a = mlir_resolve(c->file, ask(c, op, NULL, "source_target_pairs"));
    bool empty = a == NULL || (a->kind == MLIR_DENSE && a->type != NULL &&
                               a->type->kind == MLIR_TENSOR &&
                               a->type->shape->rank != 0 && a->type->shape->dims[0] == 0);
    if (empty)
        return true;
    if (!ask_pairs(c, a, &pairs) || !are_pairs(c, pairs))
        return false;
    Text t;
    text_init(&t, c->arena);
    for (uint32_t i = 0; i < pairs.count; i++)
        text_printf(&t, "%s{%lld,%lld}", i == 0 ? "{" : ",",
                    (long long)pairs.data[i].data[0], (long long)pairs.data[i].data[1]);
    text_string(&t, pairs.count == 0 ? "{}" : "}");
    add_frontend_attribute(c, inst, "_xla_send_recv_source_target_pairs",
                           (Bytes){t.data, t.length});
    return true;
}

static Instruction *finish_transfer(Converter *c, const MlirOp *op, Instruction *start,
                                    OpCode done, const Shape *shape)
{
    if (start == NULL || !set_channel(c, op, start))
        return NULL;
    bool host = ask_flag(c, op, "is_host_transfer");
    inst_set_int(start, ATTR_IS_HOST_TRANSFER, host);
    set_notes(c, op, start);
    if (!set_pairs(c, op, start))
        return NULL;
    Instruction *end = make1(c, done, shape, make_finish(c, start));
    if (end == NULL || !set_channel(c, op, end))
        return NULL;
    inst_set_int(end, ATTR_IS_HOST_TRANSFER, host);
    return make_finish(c, end);
}

void convert_send(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Instruction *data = given_data(c, op);
    if (data == NULL)
        return;
    Instruction *start = make2(c, OP_SEND, with_token(c, data->shape, true), data,
                               operand_of(op, op->operand_count - 1));
    bind(c, op, finish_transfer(c, op, start, OP_SEND_DONE, shape_token(c->intern)));
}

void convert_recv(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    if (!gives_token(c, op))
        return;
    const Shape *data = data_shape(c, op);
    Instruction *start = make1(c, OP_RECV, with_token(c, data, true), operand_of(op, 0));
    bind_data(c, op,
              finish_transfer(c, op, start, OP_RECV_DONE, with_token(c, data, false)));
}

/* -- random numbers ------------------------------------------------------------------------ */

/* The third operand says the sizes, which the type says, too. */
void convert_rng(Converter *c, const MlirOp *op, const OpRow *row)
{
    const Shape *shape = result_shape(op, 0);
    if (shape_is_unbounded(shape)) {
        Ints dims;
        if (!known_ints(c, op, 2, &dims))
            return;
        shape = shape_sized(c, shape, dims.count, dims.data);
    }
    Instruction *inst = make2(c, OP_RNG, shape, operand_of(op, 0), operand_of(op, 1));
    if (set_row_attrs(c, op, row, inst))
        bind(c, op, make_finish(c, inst));
}
