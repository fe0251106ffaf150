/* The pipeline: which passes run, in which order, and why there.
 *
 * Order facts that must not be broken by moving rows stand in order[] with their reason; they
 * are checked whenever the pipeline runs. */
#include "passes/pipeline.h"

#include <string.h>

#include "ir/bug.h"
#include "passes/collectives/collectives.h"
#include "passes/dynamic/dynamic.h"
#include "passes/fusion/fusion.h"
#include "passes/kernel/kernel.h"
#include "passes/layout/layout.h"
#include "passes/library/library.h"
#include "passes/lint.h"
#include "passes/memory/memory.h"
#include "passes/schedule/schedule.h"
#include "passes/simplify/simplify.h"

enum { BY_NAME = 9 }; /* a level that nobody asks for: the pass runs when it is named */

/* clang-format off */
#define ANY                   {0, NULL}
#define FLAGS(flags)          {flags, NULL}
#define FLAGS_OPS(flags, ...) {flags, (const OpCode[]){__VA_ARGS__, OP_COUNT}}
#define OPS(...)              FLAGS_OPS(0, __VA_ARGS__)

static const Pass pipeline[] = {
    {"dynamic-interface",           pass_dynamic_interface,           ANY,                                         0,       true,  LEVEL_WELL_FORMED, "first: later passes and the evaluator rely on a fixed entry signature"},
    {"async-to-sync",               pass_async_to_sync,               FLAGS_OPS(OPF_ASYNC_DONE, OP_SEND),          0,       true,  LEVEL_WELL_FORMED, "our own pairs are made late, where they pay; as calls, asynchronous computations are inlined next"},
    {"stream-annotations",          pass_stream_annotations,          ANY,                                         0,       true,  LEVEL_WELL_FORMED, "outlines instructions for another stream before inlining and fusion can merge them with others"},
    {"annotations",                 pass_annotations,                 ANY,                                         0,       true,  LEVEL_WELL_FORMED, "calls that mean nothing to the program would stand in the way of every pass"},
    {"composites",                  pass_composites,                  ANY,                                         0,       false, LEVEL_WELL_FORMED, "what a composite stands for is not to be guessed from its body, which inline would put in its place"},
    {"inline",                      pass_inline,                      OPS(OP_CALL, OP_FUSION, OP_MAP),             0,       true,  LEVEL_WELL_FORMED, "calls are how front ends name things; nothing below wants them"},
    {"mixed-precision",             pass_mixed_precision,             ANY,                                         0,       true,  LEVEL_WELL_FORMED, "rules and kernels take it that an operation has one type; after inline, before anything computes"},
    {"random",                      pass_random,                      FLAGS_OPS(OPF_RANDOM, OP_CUSTOM_CALL),       0,       true,  LEVEL_WELL_FORMED, "draws keep their order whatever happens to what is around them; after inline, which puts calls' draws in their place"},
    {"static-shapes",               pass_static_shapes,               ANY,                                         0,       true,  LEVEL_WELL_FORMED, "nothing below knows sizes that change; after inline, which brings them together"},
    {"block-scaled",                pass_block_scaled,                ANY,                                         0,       true,  LEVEL_WELL_FORMED, "no kernel knows these calls; before simplify, which tidies what they become"},
    {"expand",                      pass_expand,                      ANY,                                         0,       true,  LEVEL_WELL_FORMED, "no kernel knows these operations; before simplify, which tidies what they become"},
    {"inline-expanded",             pass_inline,                      OPS(OP_CALL, OP_FUSION, OP_MAP),             0,       true,  LEVEL_WELL_FORMED, "expansions call the computations that they were given"},
    {"trip-counts",                 pass_trip_counts,                 OPS(OP_WHILE),                               0,       true,  LEVEL_WELL_FORMED, "loops with a known count run without asking the device; a text's own counts may be wrong"},
    {"convolution-form",            pass_convolution_form,            OPS(OP_CONVOLUTION),                         1,       false, LEVEL_WELL_FORMED, "before simplify, which moves and merges its transpositions"},
    {"simplify",                    pass_simplify,                    ANY,                                         1,       false, LEVEL_WELL_FORMED, "fewer and simpler instructions for everything below"},
    {"algebra",                     pass_algebra,                     ANY,                                         BY_NAME, false, LEVEL_WELL_FORMED, "a part of simplify, to be seen alone"},
    {"fold",                        pass_fold,                        OPS(OP_CONSTANT),                            BY_NAME, false, LEVEL_WELL_FORMED, "a part of simplify, to be seen alone"},
    {"cse",                         pass_cse,                         ANY,                                         BY_NAME, false, LEVEL_WELL_FORMED, "a part of simplify, to be seen alone"},
    {"loops",                       pass_loops,                       OPS(OP_WHILE),                               BY_NAME, false, LEVEL_WELL_FORMED, "a part of simplify, to be seen alone"},
    {"hoist",                       pass_hoist,                       OPS(OP_WHILE),                               BY_NAME, false, LEVEL_WELL_FORMED, "a part of simplify, to be seen alone"},
    {"sink",                        pass_sink,                        OPS(OP_WHILE),                               BY_NAME, false, LEVEL_WELL_FORMED, "a part of simplify"},
    {"dce",                         pass_dce,                         ANY,                                         0,       true,  LEVEL_OPTIMISED,   "what nobody reads must not reach a kernel"},
    {"flatten",                     pass_flatten,                     FLAGS(OPF_CONTROL),                          0,       true,  LEVEL_OPTIMISED,   "a computation's values lie in one place each: no two loops may share it"},
    {"collective-identities",       pass_collective_identities,       FLAGS(OPF_COLLECTIVE),                       1,       false, LEVEL_OPTIMISED,   "what does nothing is not worth moving"},
    {"collective-merges",           pass_collective_merges,           FLAGS(OPF_COLLECTIVE),                       1,       false, LEVEL_OPTIMISED,   "the fewer reductions a sum has the sooner it leaves its loop; combiners would make one of two, this makes one of half the size"},
    {"code-motion-setup",           pass_code_motion_setup,           OPS(OP_ALL_REDUCE, OP_REDUCE_SCATTER),       1,       false, LEVEL_OPTIMISED,   "brings sums of loops into the form that the next one knows"},
    {"all-reduce-code-motion",      pass_all_reduce_code_motion,      OPS(OP_ALL_REDUCE, OP_REDUCE_SCATTER),       1,       false, LEVEL_OPTIMISED,   "on loops that simplify has brought into their plain form; before collective-form, which adds conversions around the sums"},
    {"collective-pipeliner",        pass_collective_pipeliner,        OPS(OP_ALL_REDUCE, OP_ALL_GATHER, OP_REDUCE_SCATTER), 1,       false, LEVEL_OPTIMISED,   "what could not leave its loop is moved beside the next step's work; before collective-form, which wraps it"},
    {"permute-cycles",              pass_permute_cycles,              OPS(OP_COLLECTIVE_PERMUTE),                  1,       false, LEVEL_OPTIMISED,   "before permute-decomposer, which leaves rings alone"},
    {"permute-decomposer",          pass_permute_decomposer,          OPS(OP_COLLECTIVE_PERMUTE),                  1,       false, LEVEL_OPTIMISED,   "after the pipeliner, which moves whole collectives"},
    {"join-transfers",              pass_async_to_sync,               FLAGS_OPS(OPF_ASYNC_DONE, OP_SEND),          1,       false, LEVEL_OPTIMISED,   "plans have no sends of their own: the order stays, as control edges"},
    {"simplify-peeled",             pass_simplify,                    ANY,                                         2,       false, LEVEL_OPTIMISED,   "peeled steps have constant indices, loops may have no step left"},
    {"collective-form",             pass_collective_form,             FLAGS(OPF_COLLECTIVE),                       0,       true,  LEVEL_OPTIMISED,   "what NCCL can do: its transposes, conversions and reductions are then laid out and fused like others"},
    {"layout",                      pass_layout,                      ANY,                                         0,       true,  LEVEL_LAID_OUT,    "kernels must know where elements lie; after simplification, which may move them"},
    {"unread-values",               pass_unread_values,               OPS(OP_WHILE),                               1,       false, LEVEL_LAID_OUT,    "before fusion, which would join what makes them with what is needed"},
    {"host-memory",                 pass_host_memory,                 OPS(OP_CUSTOM_CALL),                         0,       true,  LEVEL_LAID_OUT,    "after unread-values: what need not hold anything before may lie there; before fusion, which must not take transfers in"},
    {"f32-products",                pass_f32_products,                OPS(OP_DOT, OP_CONVOLUTION),                 1,       false, LEVEL_LAID_OUT,    "before those that choose who makes products"},
    {"library-attentions",          pass_library_attentions,          OPS(OP_EXPONENTIAL),                         1,       false, LEVEL_LAID_OUT,    "before library-dots, which would take the two dots; before fusion"},
    {"library-dots",                pass_library_dots,                OPS(OP_DOT),                                 1,       false, LEVEL_LAID_OUT,    "before fusion, which would take the dots' operands in"},
    {"library-convolutions",        pass_library_convolutions,        OPS(OP_CONVOLUTION),                         1,       false, LEVEL_LAID_OUT,    "as library-dots"},
    {"library-epilogues",           pass_library_epilogues,           OPS(OP_DOT, OP_CONVOLUTION),                                 1,       false, LEVEL_LAID_OUT,    "when library-dots and library-convolutions have taken their own; before fusion, which would take the additions into kernels"},
    {"vector-dots",                 pass_vector_dots,                 OPS(OP_DOT),                                 1,       false, LEVEL_LAID_OUT,    "when library-dots has taken its own; before split-reductions and fusion, which the sums are left to"},
    {"scaled-dots",                 pass_scaled_dots,                 OPS(OP_SCALED_DOT),                          0,       true,  LEVEL_LAID_OUT,    "one kernel scales and multiplies: as instructions of their own, fusion might leave the scaled operands in memory; after library-dots, which would take the dots"},
    {"split-scatters",              pass_split_scatters,              OPS(OP_SCATTER),                             1,       false, LEVEL_LAID_OUT,    "updates are sorted while scatters are still instructions; before split-reductions, which looks at the sums that it makes, and fusion"},
    {"split-reductions",            pass_split_reductions,            OPS(OP_REDUCE),                              1,       false, LEVEL_LAID_OUT,    "in row-major arrays a piece of a dimension is a bitcast; before fusion, which takes what is reduced into the first half"},
    {"fuse",                        pass_fuse,                        ANY,                                         1,       false, LEVEL_LAID_OUT,    "after layouts, which index maps need; before wrap, which takes what is left"},
    {"wrap",                        pass_wrap,                        ANY,                                         0,       true,  LEVEL_FUSED,       "codegen takes kernels in one form only"},
    {"split-sorts",                 pass_split_sorts,                 OPS(OP_SORT),                                0,       true,  LEVEL_FUSED,       "after wrap, when sorts have taken in what makes their operands"},
    {"fused-groups",                pass_fused_groups,                OPS(OP_FUSION),                              2,       false, LEVEL_FUSED,       "what lies inside a kernel is not copied with it: its scheduling group must stand outside before loops are written out"},
    {"all-gather-combiner",         pass_all_gather_combiner,         OPS(OP_ALL_GATHER),                          1,       false, LEVEL_FUSED,       "after fusion, whose groups it would otherwise tie together; before multi-output, whose kernels side by side would tie them to one another"},
    {"all-reduce-combiner",         pass_all_reduce_combiner,         OPS(OP_ALL_REDUCE),                          1,       false, LEVEL_FUSED,       "as all-gather-combiner"},
    {"reduce-scatter-combiner",     pass_reduce_scatter_combiner,     OPS(OP_REDUCE_SCATTER),                      1,       false, LEVEL_FUSED,       "as all-gather-combiner"},
    {"collective-permute-combiner", pass_collective_permute_combiner, OPS(OP_COLLECTIVE_PERMUTE),                  1,       false, LEVEL_FUSED,       "the smallest messages last: what depends on a combined operation is then known"},
    {"double-buffer",               pass_double_buffer,               OPS(OP_WHILE),                               1,       false, LEVEL_FUSED,       "two steps side by side need no copies between them; after combiners, which one step is enough for, before pairs are made"},
    {"collective-groups",           pass_collective_groups,           FLAGS_OPS(OPF_COLLECTIVE, OP_CALL),          0,       true,  LEVEL_FUSED,       "what is combined already need not be grouped; marked calls must not reach codegen"},
    {"own-values",                  pass_own_values,                  ANY,                                         1,       false, LEVEL_FUSED,       "before multi-output, which joins the kernels that it makes"},
    {"multi-output",                pass_multi_output,                ANY,                                         1,       false, LEVEL_FUSED,       "kernels side by side; after wrap, when all of them are known"},
    {"async-collectives",           pass_async_collectives,           FLAGS(OPF_COLLECTIVE),                       2,       false, LEVEL_FUSED,       "pairs are fixed points for every other pass; right before schedule, which pulls them apart"},
    {"stream-calls",                pass_stream_calls,                OPS(OP_CALL),                                0,       true,  LEVEL_FUSED,       "as async-collectives, for what the text wants on another stream"},
    {"scheduling-groups",           pass_scheduling_groups,           ANY,                                         2,       false, LEVEL_FUSED,       "when all pairs are made: what the schedule could not keep together is no group"},
    {"schedule",                    pass_schedule,                    ANY,                                         0,       true,  LEVEL_SCHEDULED,   "buffers need an order of execution"},
    {"sync-collectives",            pass_sync_collectives,            FLAGS_OPS(OPF_ASYNC_DONE, OP_SEND),          2,       false, LEVEL_SCHEDULED,   "what overlaps nothing needs no stream of its own; the order decides"},
    {"copy-insertion",              pass_copy_insertion,              ANY,                                         0,       true,  LEVEL_SCHEDULED,   "values that share a buffer must not live together; needs the order"},
    {"collective-memory",           pass_collective_memory,           ANY,                                         0,       true,  LEVEL_SCHEDULED,   "which buffers are one is known now; copies of what the caller owns come last, where they disturb no overlap"},
    {"configure",                   pass_configure,                   OPS(OP_FUSION),                              0,       true,  LEVEL_SCHEDULED,   "a kernel's numbers follow from all of its code, which no pass changes any more"},
    {.name = NULL},
};
/* clang-format on */

typedef struct OrderFact {
    const char *first, *then, *why;
} OrderFact;

static const OrderFact order[] = {
    {"dynamic-interface", "static-shapes", "parameters get the sizes that this hands on"},
    {"inline", "static-shapes", "what lies in calls is looked at where it is called"},
    {"static-shapes", "inline-expanded", "its reducers call those that were there"},
    {"composites", "inline", "a composite is a call with a name"},
    {"inline", "block-scaled", "what a call or a foreign fusion hides is rewritten, too"},
    {"block-scaled", "expand", "it makes reductions of small floats"},
    {"f32-products", "library-dots", "it has kernels for TF32"},
    {"f32-products", "library-convolutions", "as library-dots"},
    {"library-attentions", "library-dots", "the dots of an attention stay with it"},
    {"library-dots", "scaled-dots", "the dot inside stays with the kernel that scales"},
    {"library-dots", "library-epilogues", "it adds to dots that are marked"},
    {"library-convolutions", "library-epilogues", "as library-dots"},
    {"convolution-form", "simplify", "transpositions that cancel each other go"},
    {"library-convolutions", "fuse", "what a library makes is no part of a kernel"},
    {"library-dots", "vector-dots", "a dot that is marked stays one"},
    {"vector-dots", "split-reductions", "its sums may have few results"},
    {"scaled-dots", "fuse", "fusion takes no scaled-dot"},
    {"inline", "expand", "what a call or a foreign fusion hides is expanded, too"},
    {"expand", "inline-expanded", "a scan becomes a loop that calls its computation"},
    {"expand", "simplify", "an expanded graph has constants to fold"},
    {"expand", "fuse", "only what a kernel knows can be fused"},
    {"multi-output", "configure", "results that join a kernel change its numbers"},
    {"split-sorts", "configure", "a step of a sort is a kernel of its own"},
    {"copy-insertion", "collective-memory",
     "a buffer has one colour: it must be known what shares it"},
    {"schedule", "copy-insertion", "whether a value is still live depends on the order"},
    {"async-to-sync", "inline", "asynchronous computations become calls"},
    {"collective-merges", "all-reduce-code-motion",
     "the sum of two reductions is no reduction's sum"},
    {"code-motion-setup", "all-reduce-code-motion",
     "what lies between a reduction and its sum decides whether it can be moved"},
    {"all-reduce-code-motion", "collective-pipeliner",
     "one reduction after the loop is better than one in each step"},
    {"collective-pipeliner", "collective-form",
     "stages are recognised by what stands in the text"},
    {"all-reduce-code-motion", "collective-form",
     "an all-reduce is recognised by its one addition"},
    {"collective-permute-combiner", "async-collectives",
     "combiners know plain operations only"},
    {"stream-annotations", "inline", "a call that asks for a stream is not inlined"},
    {"collective-permute-combiner", "collective-groups",
     "groups are of whatever is left"},
    {"collective-groups", "async-collectives", "it makes pairs of plain operations"},
    {"stream-calls", "schedule", "the schedule puts work between start and done"},
    {"async-collectives", "schedule", "the schedule puts work between start and done"},
    {"async-collectives", "scheduling-groups",
     "groups are of starts, dones and products"},
    {"wrap", "fused-groups", "then all kernels are known"},
    {"fused-groups", "double-buffer", "copies of kernels are of groups of their own"},
    {"scheduling-groups", "schedule", "groups stand together in the schedule"},
    {"schedule", "sync-collectives", "whether anything overlaps depends on the order"},
    {"collective-form", "all-gather-combiner",
     "pieces must lie along the first dimension"},
    {"double-buffer", "async-collectives", "steps of plain operations are copied"},
    {"collective-permute-combiner", "multi-output",
     "kernels put side by side make one operation wait for the operands of the other"},
    {"collective-form", "layout", "it adds instructions in default layouts"},
    {NULL, NULL, NULL},
};

const Pass *pipeline_row(size_t i)
{
    size_t n = 0;
    while (n <= i && pipeline[n].name != NULL)
        n++;
    return n > i ? &pipeline[i] : NULL;
}

static size_t row_of(const char *name)
{
    for (size_t i = 0; pipeline[i].name != NULL; i++) {
        if (strcmp(pipeline[i].name, name) == 0)
            return i;
    }
    bug("order fact about %s, which is no pass", name);
}

static void check_order(void)
{
    for (size_t i = 0; order[i].first != NULL; i++) {
        if (row_of(order[i].first) >= row_of(order[i].then))
            bug("pass %s must stand before %s: %s", order[i].first, order[i].then,
                order[i].why);
    }
}

static bool list_has(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
        if (*at == '\0')
            break;
    }
    return false;
}

const char *pipeline_unknown_name(const char *list)
{
    if (list == NULL || strcmp(list, "none") == 0)
        return NULL;
    for (const char *at = list; *at != '\0';) {
        size_t length = strcspn(at, ",");
        bool known = length == 0;
        for (size_t i = 0; pipeline[i].name != NULL && !known; i++)
            known = strlen(pipeline[i].name) == length &&
                    strncmp(pipeline[i].name, at, length) == 0;
        if (!known)
            return at;
        at += length + (at[length] == ',');
    }
    return NULL;
}

static bool is_wanted(const Pass *p, const PassContext *cx, const PipelineOptions *o)
{
    if (o->only != NULL)
        return list_has(o->only, p->name);
    if (o->skip != NULL && list_has(o->skip, p->name))
        return false;
    return p->required || cx->opt_level >= p->least_level;
}

/* -- what is left out ------------------------------------------------------------------- */

/* What passes found. A pass is a function of the module: one that changed nothing changes nothing
 * until another does. */
struct PassMemory {
    uint64_t changes; /* how often passes have changed the module */
    uint64_t idle_at[sizeof pipeline / sizeof *pipeline]; /* by the first row of its
                 function: changes + 1 when the pass last changed nothing */
};

static size_t row_with(PassFn *function)
{
    for (size_t i = 0; pipeline[i].name != NULL; i++) {
        if (pipeline[i].function == function)
            return i;
    }
    bug("a pass that has no row is run");
}

static bool module_has(const Module *m, const PassTrigger *s)
{
    bool has = s->flags == 0 && s->ops == NULL;
    for (const OpCode *op = s->ops; !has && op != NULL && *op != OP_COUNT; op++)
        has = op_set_has(&m->ops, *op);
    for (int op = 0; !has && s->flags != 0 && op < OP_COUNT; op++)
        has = op_is((OpCode)op, s->flags) && op_set_has(&m->ops, (OpCode)op);
    return has;
}

/* A schedule is more than its instructions: there are passes that drop it. */
static bool is_idle(const Pass *p, const Module *m, const PassContext *cx)
{
    const struct PassMemory *memory = cx->memory;
    return memory->idle_at[row_with(p->function)] == memory->changes + 1 ||
           (!m->config.is_scheduled && !module_has(m, &p->trigger));
}

typedef bool Runner(const char *name, PassFn *pass, Module *m, PassContext *cx);

/* Runs the row's pass, or leaves it out. One that ran others has their changes counted already. */
static PassResult run_unless_idle(const Pass *p, Runner *run, Module *m, PassContext *cx)
{
    struct PassMemory *memory = cx->memory;
    if (is_idle(p, m, cx)) {
        lint_idle(p->name, p->function, m, cx);
        return PASS_LEFT_OUT;
    }
    uint64_t before = memory->changes;
    bool changed = run(p->name, p->function, m, cx);
    if (!changed)
        memory->idle_at[row_with(p->function)] = memory->changes + 1;
    else if (memory->changes == before)
        memory->changes++;
    return changed ? PASS_CHANGED : PASS_CHANGED_NOTHING;
}

/* Within another pass, which the lint looks at as a whole. */
static bool run_part(const char *name, PassFn *pass, Module *m, PassContext *cx)
{
    (void)name;
    return pass(m, cx);
}

bool pass_run(PassFn *pass, Module *m, PassContext *cx)
{
    if (cx->memory == NULL)
        return pass(m, cx);
    return run_unless_idle(&pipeline[row_with(pass)], run_part, m, cx) == PASS_CHANGED;
}

/* -- the run ----------------------------------------------------------------------------- */

/* Where the pipeline stands. */
typedef struct Run {
    Module *m;
    PassContext *cx;
    PipelineOptions *options;
    Level level;     /* that the last pass belongs to */
    bool is_changed; /* since the module was copied last */
    unsigned number; /* of passes so far */
} Run;

static bool verify(const Run *r)
{
    Level level = r->options->only != NULL ? LEVEL_WELL_FORMED : r->level;
    bool good = module_verify(r->m, level, r->cx->scratch);
    arena_reset(r->cx->scratch);
    return good;
}

/* All passes of a level have run. */
static bool finish_level(Run *r)
{
    if (!verify(r))
        return false;
    if (r->is_changed)
        module_compact(r->m);
    r->is_changed = false;
    return true;
}

static bool run_pass(Run *r, const Pass *p)
{
    Module *m = r->m;
    PipelineOptions *o = r->options;
    o->current = p->name;
    PassResult result = run_unless_idle(p, lint_run, m, r->cx);
    arena_reset(r->cx->scratch);
    if (m->diag->error_count != 0)
        return false; /* something that is not supported */
    r->number++;
    if (o->after != NULL)
        o->after(o->user, r->number, p->name, result, m);
    r->is_changed |= result == PASS_CHANGED;
    r->level = p->yields;
    return result != PASS_CHANGED || !(o->verify_each || r->cx->lint) || verify(r);
}

static bool run_passes(Run *r)
{
    for (size_t i = 0; pipeline[i].name != NULL; i++) {
        const Pass *p = &pipeline[i];
        if (!is_wanted(p, r->cx, r->options))
            continue;
        bool is_next_level = r->number != 0 && p->yields != r->level;
        if ((is_next_level && !finish_level(r)) || !run_pass(r, p))
            return false;
    }
    return true;
}

bool pipeline_run(Module *m, PassContext *cx, PipelineOptions *options)
{
    check_order();
    struct PassMemory memory = {0};
    cx->memory = &memory;
    Run r = {.m = m, .cx = cx, .options = options};
    bool good = run_passes(&r);
    if (good)
        options->current = NULL;
    cx->memory = NULL;
    return good;
}
