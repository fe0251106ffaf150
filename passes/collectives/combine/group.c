/* Collectives that are to be carried out as one group: together on a communication stream.
 *
 *   a = f32[8] all-gather(p), .., frontend_attributes={collective_group_key="k"}
 *   b = f32[2] reduce-scatter(q), .., frontend_attributes={collective_group_key="k"}
 *   ->  s = ((f32[4], f32[4]), (f32[8], f32[2])) async-start(p, q), calls=_collectives_group
 *       d = (f32[8], f32[2]) async-done(s)   a = get-tuple-element(d), index=0   b = ...
 *
 * Those of one key that do not need one another become one computation, of whatever kinds they
 * are; one that is left alone stays as it is, and those of different scheduling groups, or for
 * different streams, stay apart. A call that the text marks with the frontend
 * attribute _collectives_group becomes such a pair as well; passes before leave it a call.
 *
 * Needs: combiners have made one of what can be one. Keeps: values, metadata, attributes,
 * control edges. Ends: each key is swept once. */
#include "ir/analysis/collective.h"
#include "ir/attribute/config.h"
#include "passes/collectives/async/pair.h"
#include "passes/collectives/combine/independent.h"
#include "passes/collectives/combine/merged_attributes.h"
#include "passes/settings.h"

static const char mark[] = "_collectives_group";

static const char *key_of(const Join *j, const Instruction *inst)
{
    const char *key = inst_frontend_attribute(inst, "collective_group_key");
    bool plain = op_is(inst->op, OPF_COLLECTIVE) &&
                 !op_is(inst->op, OPF_ASYNC_START | OPF_ASYNC_DONE) &&
                 inst->op != OP_SEND && inst->op != OP_RECV &&
                 !inst_has(inst, ATTR_PERMUTE_SLICE_SIZES);
    if (key == NULL || !plain)
        return NULL;
    const char *group = inst_frontend_attribute(inst, "_scheduling_group_id");
    const char *stream = inst_frontend_attribute(inst, "_xla_send_recv_pipeline");
    const char *asked = inst_frontend_attribute(inst, "_xla_stream_annotation");
    return intern_string(j->m->intern, arena_printf(j->scratch, "%s;%s;%s;%s", key,
                                                    group == NULL ? "" : group,
                                                    stream == NULL ? "" : stream,
                                                    asked == NULL ? "" : asked));
}

/* After what else was said of them. */
static void mark_pair(Instruction *done)
{
    Instruction *pair[2] = {done->operands[0], done};
    for (int i = 0; i < 2; i++) {
        inst_set_frontend_attribute(pair[i], mark, "");
        if (inst_frontend_attribute(pair[i], "_xla_stream_annotation") == NULL)
            inst_set_frontend_attribute(pair[i], "_xla_stream_annotation", "collective");
    }
}

/* A computation of all members on parameters of its own, and the operands to call it with. */
static Computation *outlined(Join *j, Instruction *const *members, uint32_t count,
                             Instruction ***out_operands, uint32_t *out_count)
{
    Computation *work = module_add_computation(j->m, mark);
    work->execution_thread = j->comp->execution_thread;
    uint32_t most = 0, n = 0;
    for (uint32_t i = 0; i < count; i++)
        most += members[i]->operand_count;
    Instruction **given = ARENA_ARRAY(j->scratch, Instruction *, (size_t)most + 1);
    Instruction **results = ARENA_ARRAY(j->scratch, Instruction *, (size_t)count + 1);
    const Shape **shapes = ARENA_ARRAY(j->scratch, const Shape *, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t operands = members[i]->operand_count;
        Instruction **own = ARENA_ARRAY(j->scratch, Instruction *, (size_t)operands + 1);
        for (uint32_t k = 0; k < operands; k++) {
            given[n] = members[i]->operands[k];
            own[k] = computation_add_parameter(work, n, given[n]->shape, NULL);
            n++;
        }
        shapes[i] = members[i]->shape;
        results[i] =
            computation_add_like(work, members[i], members[i]->shape, operands, own);
    }
    work->root = computation_add(work, OP_TUPLE, shape_tuple(j->m->intern, count, shapes),
                                 count, results, NULL);
    *out_operands = given;
    *out_count = n;
    return work;
}

static void join(Join *j, Instruction *const *members, uint32_t count,
                 Instruction **forward, Instruction **edges)
{
    Instruction **operands;
    uint32_t n;
    Computation *work = outlined(j, members, count, &operands, &n);
    Instruction *done = pair_make(j->comp, work, n, operands, members[0]->name);
    Instruction *start = done->operands[0];
    merge_attributes(start, members, count);
    config_set_text(start, "", 0); /* each has its own */
    mark_pair(done);
    const char *group = inst_frontend_attribute(start, "_scheduling_group_id");
    if (group != NULL) /* of which the done is a member, too */
        inst_set_frontend_attribute(done, "_scheduling_group_id", group);
    done->span = start->span;
    for (uint32_t i = 0; i < count; i++) {
        forward[members[i]->id] = computation_add_element(done, i);
        edges[members[i]->id] = done;
    }
    j->counts->collectives_grouped += count;
    j->counts->collective_groups++;
}

/* -- groups that the text makes ------------------------------------------------------------- */

static Instruction *start_call(Instruction *call, void *context)
{
    (void)context;
    if (call->op != OP_CALL || inst_frontend_attribute(call, mark) == NULL)
        return NULL;
    Instruction *done = pair_make(call->parent, inst_called(call, 0), call->operand_count,
                                  call->operands, call->name);
    Instruction *start = done->operands[0];
    const Attr *said = inst_attr(call, ATTR_FRONTEND_ATTRIBUTES);
    const Attr *metadata = inst_attr(call, ATTR_METADATA);
    inst_set(start, *said);
    inst_set(done, *said);
    if (metadata != NULL)
        inst_set(start, *metadata);
    mark_pair(done);
    start->span = done->span = call->span;
    start->control = call->control;
    start->control_count = call->control_count;
    return done;
}

bool pass_collective_groups(Module *m, PassContext *cx)
{
    Join j = {.m = m,
              .scratch = cx->scratch,
              .most_bytes = INT64_MAX,
              .most_count = INT64_MAX,
              .key = key_of,
              .join = join,
              .counts = &cx->counts};
    uint32_t started = module_replace_each(m, start_call, NULL, cx->scratch);
    if (started != 0)
        module_sort(m);
    cx->counts.collective_groups += started;
    bool changed = started != 0;
    if (cx->settings->group_collectives)
        changed |= independent_join(&j);
    if (changed)
        module_sort(m);
    return changed;
}
