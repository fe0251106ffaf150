/* Work that the text wants on another stream than the one of its computation.
 *
 *   m = f32[8] multiply(a, b), backend_config={"operation_queue_id":"1"}
 *   =>  m = f32[8] call(a, b), to_apply=f, frontend_attributes={_xla_stream_annotation="1",
 *                                                               inlineable="false"}
 *   =>  s = ((f32[8], f32[8]), f32[8]) async-start(a, b), calls=f, frontend_attributes=
 *           {_xla_stream_annotation="1"}
 *       m = f32[8] async-done(s), the same attributes
 *
 * stream-annotations makes the calls, so that every pass below sees their work as that of any
 * computation; stream-calls makes them asynchronous when all else is done, also those that the
 * text has. What is inside asks for no stream of its own. "parallel" stands for any compute
 * stream: async-to-sync gives it to computations of the thread of that name.
 *
 * Needs: nothing. Keeps: values, metadata, control edges. Ends: one sweep each. */
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/attribute/config.h"
#include "passes/collectives/async/pair.h"
#include "passes/collectives/collectives.h"

static const char annotation[] = "_xla_stream_annotation";
static const char group_key[] = "_scheduling_group_id";

/* The number of the queue that an instruction's configuration names; 0: none. */
static long queue_of(const Instruction *inst)
{
    if (op_is(inst->op, OPF_ASYNC_START | OPF_ASYNC_DONE | OPF_COLLECTIVE) ||
        inst->op == OP_PARAMETER || inst->op == OP_GET_TUPLE_ELEMENT)
        return 0;
    return (long)config_int(inst, CONFIG_QUEUE, 0);
}

static Computation *outlined(const Instruction *inst)
{
    Computation *comp = pair_outline(inst, "stream_computation");
    config_remove(comp->root, CONFIG_QUEUE); /* the rest says what a call does */
    config_remove_object(comp->root, "wait_on_operation_queues");
    return comp;
}

static void copy_metadata(Instruction *to, const Instruction *from)
{
    const Attr *metadata = inst_attr(from, ATTR_METADATA);
    if (metadata != NULL)
        inst_set(to, *metadata);
    to->span = from->span;
}

/* The pair is of the scheduling group that its operation was of. */
static void copy_group(Instruction *to, const Instruction *from)
{
    const char *group = inst_frontend_attribute(from, group_key);
    if (group != NULL)
        inst_set_frontend_attribute(to, group_key, group);
}

static Instruction *make_call(Instruction *inst, long queue)
{
    Computation *comp = inst->parent;
    Instruction *call = computation_add(comp, OP_CALL, inst->shape, inst->operand_count,
                                        inst->operands, inst->name);
    inst_set_computation(call, ATTR_TO_APPLY, outlined(inst));
    copy_metadata(call, inst);
    copy_group(call, inst);
    inst_set_frontend_attribute(call, annotation,
                                arena_printf(comp->module->arena, "%ld", queue));
    inst_set_frontend_attribute(call, "inlineable", "false");
    call->control = inst->control;
    call->control_count = inst->control_count;
    return call;
}

static void clear_annotations(const Computation *comp)
{
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        inst_set_frontend_attribute(inst, annotation, NULL);
    }
}

static Instruction *make_pair(Instruction *call)
{
    const char *stream = inst_frontend_attribute(call, annotation);
    Instruction *done = pair_make(call->parent, inst_called(call, 0), call->operand_count,
                                  call->operands, call->name);
    Instruction *start = done->operands[0];
    Instruction *pair[2] = {start, done};
    clear_annotations(inst_called(call, 0));
    for (int i = 0; i < 2; i++) {
        copy_metadata(pair[i], call);
        copy_group(pair[i], call);
        if (strcmp(stream, "parallel") != 0)
            inst_set_frontend_attribute(pair[i], annotation, stream);
    }
    start->control = call->control;
    start->control_count = call->control_count;
    return done;
}

static Instruction *call_of(Instruction *inst, void *context)
{
    (void)context;
    long queue = queue_of(inst);
    return queue != 0 ? make_call(inst, queue) : NULL;
}

static Instruction *pair_of(Instruction *inst, void *context)
{
    (void)context;
    return inst->op == OP_CALL && inst_frontend_attribute(inst, annotation) != NULL
               ? make_pair(inst)
               : NULL;
}

static uint32_t replace_all(Module *m, RemakeFn *make, Arena *scratch)
{
    if (m->config.is_scheduled)
        return 0;
    uint32_t n = module_replace_each(m, make, NULL, scratch);
    if (n != 0)
        module_sort(m);
    return n;
}

bool pass_stream_annotations(Module *m, PassContext *cx)
{
    return replace_all(m, call_of, cx->scratch) != 0;
}

bool pass_stream_calls(Module *m, PassContext *cx)
{
    uint32_t n = replace_all(m, pair_of, cx->scratch);
    cx->counts.stream_calls += n;
    return n != 0;
}
