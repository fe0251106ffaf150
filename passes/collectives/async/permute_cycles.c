/* The cycle decomposer: a collective-permute round a ring becomes one along the ring and one over
 * the edge that closes it, so that neither has a cycle and both can be sent and received.
 *
 *   c = collective-permute(x), source_target_pairs={{0,1},{1,2},{2,0}}
 *   ->  b = collective-permute(x), source_target_pairs={{2,0}}
 *       f = collective-permute(x), source_target_pairs={{0,1},{1,2}}
 *       c = select(broadcast(partition-id() == 0), b, f)
 *
 * Rings go up or down: sorted by source, each target is the next, or the one before. Only results
 * of at least collective-permute-decomposer-threshold bytes are taken, none by default. The steps
 * in which pairs are valid (_xla_send_recv_validation) go with their pairs; with pipelined-p2p the
 * two are marked: "0" over the closing edge, "1" along the ring.
 *
 * Needs: plain collectives. Keeps: values, control edges, metadata. Ends: one sweep; what is made
 * has no cycle. */
#include <stdlib.h>
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/base/text.h"
#include "passes/collectives/collectives.h"
#include "passes/collectives/loops/step.h"
#include "passes/settings.h"

static const char validation_key[] = "_xla_send_recv_validation";

typedef struct Edge {
    int64_t source, target;
    uint32_t number; /* among the pairs as written */
} Edge;

static int by_source(const void *a, const void *b)
{
    const Edge *x = a, *y = b;
    return (x->source > y->source) - (x->source < y->source);
}

/* Sorted edges; *closing is the one that closes the ring. */
static bool find_ring(IntLists pairs, Edge *edges, uint32_t *closing)
{
    uint32_t n = pairs.count;
    bool up = n >= 2, down = n >= 2;
    for (uint32_t i = 0; i < n; i++)
        edges[i] = (Edge){pairs.data[i].data[0], pairs.data[i].data[1], i};
    qsort(edges, n, sizeof *edges, by_source);
    for (uint32_t i = 0; i < n; i++) {
        up = up && edges[i].target == edges[(i + 1) % n].source;
        down = down && edges[i].target == edges[(i + n - 1) % n].source;
    }
    *closing = up ? n - 1 : 0;
    return up || down;
}

/* The pairs as written, all but one, or that one. */
static void set_pairs(Instruction *inst, IntLists pairs, uint32_t one, bool only)
{
    Arena *a = inst->parent->module->arena;
    Ints *kept = ARENA_ARRAY(a, Ints, (size_t)pairs.count + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < pairs.count; i++) {
        if ((i == one) == only)
            kept[n++] = pairs.data[i];
    }
    inst_set(inst, (Attr){.id = ATTR_SOURCE_TARGET_PAIRS, .lists = {kept, n}});
}

/* {{a,b},{c,d}} likewise; a text that is no list of intervals stays. */
static void set_validation(Instruction *inst, uint32_t one, bool only)
{
    const char *text = inst_frontend_attribute(inst, validation_key);
    if (text == NULL)
        return;
    Text t;
    text_init(&t, inst->parent->module->arena);
    uint32_t i = 0;
    const char *at = *text == '{' ? strchr(text + 1, '{') : NULL;
    for (; at != NULL; at = strchr(at + 1, '{'), i++) {
        size_t length = strcspn(at, "}");
        if (at[length] == '\0')
            return;
        if ((i == one) != only)
            continue;
        text_string(&t, t.length == 0 ? "{" : ",");
        text_add(&t, at, length + 1);
    }
    if (t.length == 0)
        return;
    text_char(&t, '}');
    inst_set_frontend_attribute(inst, validation_key, t.data);
}

static Instruction *add_part(Instruction *inst, IntLists pairs, uint32_t one, bool only,
                             bool mark)
{
    Instruction *part =
        computation_add_like(inst->parent, inst, inst->shape, 1, inst->operands);
    set_pairs(part, pairs, one, only);
    set_validation(part, one, only);
    if (mark)
        inst_set_frontend_attribute(part, "_xla_send_recv_pipeline", only ? "0" : "1");
    part->control = inst->control;
    part->control_count = inst->control_count;
    return part;
}

/* pred of the result's dimensions: this device is the target. */
static Instruction *is_target(Instruction *inst, int64_t target)
{
    Computation *comp = inst->parent;
    Intern *intern = comp->module->intern;
    bool partitions = collective_mode(inst) == COLLECTIVE_CROSS_PARTITION;
    Instruction *operands[2] = {
        computation_add(comp, partitions ? OP_PARTITION_ID : OP_REPLICA_ID,
                        shape_scalar(intern, DT_U32), 0, NULL, NULL),
        computation_add_scalar(comp, DT_U32, (double)target)};
    Instruction *same = computation_add(comp, OP_COMPARE, shape_scalar(intern, DT_PRED),
                                        2, operands, NULL);
    inst_set_int(same, ATTR_DIRECTION, DIRECTION_EQ);
    if (shape_is_scalar(inst->shape))
        return same;
    Instruction *all =
        computation_add(comp, OP_BROADCAST,
                        shape_with_dtype(intern, inst->shape, DT_PRED), 1, &same, NULL);
    inst_set_ints(all, ATTR_DIMENSIONS, NULL, 0);
    return all;
}

/* The ring in two parts; NULL: it is none. */
typedef struct Decomposer {
    PassContext *cx;
    FreshIds ids;
} Decomposer;

static Instruction *decompose(Instruction *inst, void *context)
{
    Decomposer *d = context;
    PassContext *cx = d->cx;
    if (inst->op != OP_COLLECTIVE_PERMUTE || !shape_is_array(inst->shape) ||
        inst_has(inst, ATTR_PERMUTE_SLICE_SIZES) ||
        shape_bytes(inst->shape) < cx->settings->collective_permute_decomposer_threshold)
        return NULL;
    IntLists pairs = inst_int_lists(inst, ATTR_SOURCE_TARGET_PAIRS);
    Edge *edges = ARENA_ARRAY(cx->scratch, Edge, (size_t)pairs.count + 1);
    uint32_t closing;
    if (!find_ring(pairs, edges, &closing))
        return NULL;
    bool mark = cx->settings->pipelined_p2p != 0;
    uint32_t one = edges[closing].number;
    Instruction *operands[3] = {is_target(inst, edges[closing].target),
                                add_part(inst, pairs, one, true, mark),
                                add_part(inst, pairs, one, false, mark)};
    if (inst_has(inst, ATTR_CHANNEL_ID))
        inst_set_int(operands[1], ATTR_CHANNEL_ID, d->ids.channel++);
    cx->counts.permute_cycles_broken++;
    Instruction *chosen =
        computation_add(inst->parent, OP_SELECT, inst->shape, 3, operands, inst->name);
    chosen->span = inst->span;
    return chosen;
}

bool pass_permute_cycles(Module *m, PassContext *cx)
{
    if (cx->settings->collective_permute_decomposer_threshold == INT64_MAX ||
        m->config.is_scheduled)
        return false;
    Decomposer d = {cx, fresh_ids(m)};
    uint32_t n = 0;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        n += computation_replace_each(comp, decompose, &d, cx->scratch);
    if (n != 0)
        module_sort(m);
    return n != 0;
}
