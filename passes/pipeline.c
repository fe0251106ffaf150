/* The pipeline: which passes run, in which order, and why there.
 *
 * Order facts that must not be broken by moving rows stand in order[] with their reason; they
 * are checked whenever the pipeline runs. */
#include "passes/pipeline.h"

#include <string.h>

#include "ir/base/bug.h"
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
    {"async-to-sync",               pass_async_to_sync,               FLAGS_OPS(OPF_ASYNC_DONE, OP_SEND),          0,       true,  LEVEL_WELL_FORMED, "asynchronous pairs are created late, where they pay off; asynchronous computations become calls, which inline takes next"},
    {"stream-annotations",          pass_stream_annotations,          ANY,                                         0,       true,  LEVEL_WELL_FORMED, "outlines instructions for another stream before inlining and fusion can merge them with others"},
    {"annotations",                 pass_annotations,                 ANY,                                         0,       true,  LEVEL_WELL_FORMED, "calls without a meaning for the program would block every other pass"},
    {"composites",                  pass_composites,                  ANY,                                         0,       false, LEVEL_WELL_FORMED, "must see a composite by name, before inline replaces it by its body"},
    {"inline",                      pass_inline,                      OPS(OP_CALL, OP_FUSION, OP_MAP),             0,       true,  LEVEL_WELL_FORMED, "front ends name things by calls; no later pass handles calls"},
    {"mixed-precision",             pass_mixed_precision,             ANY,                                         0,       true,  LEVEL_WELL_FORMED, "later passes and kernels assume that an operation has one type; after inline, before anything computes"},
    {"random",                      pass_random,                      FLAGS_OPS(OPF_RANDOM, OP_CUSTOM_CALL),       0,       true,  LEVEL_WELL_FORMED, "fixes the order of random draws before other passes move code; after inline, which exposes the draws of callees"},
    {"static-shapes",               pass_static_shapes,               ANY,                                         0,       true,  LEVEL_WELL_FORMED, "no later pass handles dynamic sizes; after inline, which brings sizes and their users together"},
    {"block-scaled",                pass_block_scaled,                ANY,                                         0,       true,  LEVEL_WELL_FORMED, "no kernel implements these calls; before simplify, which cleans up the result"},
    {"library-solvers",             pass_library_solvers,             OPS(OP_CUSTOM_CALL, OP_CHOLESKY),            1,       false, LEVEL_WELL_FORMED, "before expand, which makes loops of factorisations"},
    {"expand",                      pass_expand,                      ANY,                                         0,       true,  LEVEL_WELL_FORMED, "no kernel implements these operations; before simplify, which cleans up the result"},
    {"inline-expanded",             pass_inline,                      OPS(OP_CALL, OP_FUSION, OP_MAP),             0,       true,  LEVEL_WELL_FORMED, "expansions call the computations of the original operations"},
    {"trip-counts",                 pass_trip_counts,                 OPS(OP_WHILE),                               0,       true,  LEVEL_WELL_FORMED, "loops with a known trip count run without reading back from the device; counts written in the text may be wrong"},
    {"convolutions",                pass_convolutions,                OPS(OP_CONVOLUTION),                         1,       false, LEVEL_WELL_FORMED, "before convolution-form, which prepares convolutions for cuDNN, and simplify, for what it makes"},
    {"convolution-form",            pass_convolution_form,            OPS(OP_CONVOLUTION),                         1,       false, LEVEL_WELL_FORMED, "before simplify, which moves and merges the transpositions it creates"},
    {"simplify",                    pass_simplify,                    ANY,                                         1,       false, LEVEL_WELL_FORMED, "fewer and simpler instructions for all later passes"},
    {"algebra",                     pass_algebra,                     ANY,                                         BY_NAME, false, LEVEL_WELL_FORMED, "a part of simplify, to be seen alone"},
    {"fold",                        pass_fold,                        OPS(OP_CONSTANT),                            BY_NAME, false, LEVEL_WELL_FORMED, "a part of simplify, to be seen alone"},
    {"cse",                         pass_cse,                         ANY,                                         BY_NAME, false, LEVEL_WELL_FORMED, "a part of simplify, to be seen alone"},
    {"loops",                       pass_loops,                       OPS(OP_WHILE),                               BY_NAME, false, LEVEL_WELL_FORMED, "a part of simplify, to be seen alone"},
    {"hoist",                       pass_hoist,                       OPS(OP_WHILE),                               BY_NAME, false, LEVEL_WELL_FORMED, "a part of simplify, to be seen alone"},
    {"sink",                        pass_sink,                        OPS(OP_WHILE),                               BY_NAME, false, LEVEL_WELL_FORMED, "a part of simplify"},
    {"dce",                         pass_dce,                         ANY,                                         0,       true,  LEVEL_OPTIMISED,   "unused instructions must not become kernels"},
    {"flatten",                     pass_flatten,                     FLAGS(OPF_CONTROL),                          0,       true,  LEVEL_OPTIMISED,   "values of a computation have one buffer each, so no two loops may share a body"},
    {"collective-identities",       pass_collective_identities,       FLAGS(OPF_COLLECTIVE),                       1,       false, LEVEL_OPTIMISED,   "removes collectives without effect before others move them"},
    {"collective-merges",           pass_collective_merges,           FLAGS(OPF_COLLECTIVE),                       1,       false, LEVEL_OPTIMISED,   "fewer reductions leave a loop sooner; combiners would join two into one of twice the size, this makes one of the same size"},
    {"code-motion-setup",           pass_code_motion_setup,           OPS(OP_ALL_REDUCE, OP_REDUCE_SCATTER),       1,       false, LEVEL_OPTIMISED,   "brings sums of loops into the form that all-reduce-code-motion recognizes"},
    {"all-reduce-code-motion",      pass_all_reduce_code_motion,      OPS(OP_ALL_REDUCE, OP_REDUCE_SCATTER),       1,       false, LEVEL_OPTIMISED,   "needs loops in simplify's canonical form; before collective-form, which adds conversions around the sums"},
    {"collective-pipeliner",        pass_collective_pipeliner,        OPS(OP_ALL_REDUCE, OP_ALL_GATHER, OP_REDUCE_SCATTER), 1,       false, LEVEL_OPTIMISED,   "moves what could not leave its loop beside the next iteration's work; before collective-form, which wraps it"},
    {"permute-cycles",              pass_permute_cycles,              OPS(OP_COLLECTIVE_PERMUTE),                  1,       false, LEVEL_OPTIMISED,   "before permute-decomposer, which does not handle cycles"},
    {"permute-decomposer",          pass_permute_decomposer,          OPS(OP_COLLECTIVE_PERMUTE),                  1,       false, LEVEL_OPTIMISED,   "after the pipeliner, which moves whole collectives"},
    {"join-transfers",              pass_async_to_sync,               FLAGS_OPS(OPF_ASYNC_DONE, OP_SEND),          1,       false, LEVEL_OPTIMISED,   "plans have no separate sends; control edges keep the order"},
    {"simplify-peeled",             pass_simplify,                    ANY,                                         2,       false, LEVEL_OPTIMISED,   "peeled iterations have constant indices, and loops may have no iteration left"},
    {"masks",                       pass_masks,                       OPS(OP_MAXIMUM, OP_MINIMUM),                 1,       false, LEVEL_OPTIMISED,   "after simplify, which makes equal bounds one; before fusion, which takes a relu that is read once into its reader"},
    {"collective-form",             pass_collective_form,             FLAGS(OPF_COLLECTIVE),                       0,       true,  LEVEL_OPTIMISED,   "legalizes collectives for NCCL; the transposes, conversions and reductions this adds are then laid out and fused"},
    {"layout",                      pass_layout,                      ANY,                                         0,       true,  LEVEL_LAID_OUT,    "kernels need physical layouts; after simplification, which may still change them"},
    {"unread-values",               pass_unread_values,               OPS(OP_WHILE),                               1,       false, LEVEL_LAID_OUT,    "before fusion, which would merge unused values with used ones"},
    {"host-memory",                 pass_host_memory,                 OPS(OP_CUSTOM_CALL),                         0,       true,  LEVEL_LAID_OUT,    "after unread-values, so that only values that are used are moved; before fusion, which must not absorb transfers"},
    {"f32-products",                pass_f32_products,                OPS(OP_DOT, OP_CONVOLUTION),                 1,       false, LEVEL_LAID_OUT,    "before those that choose who makes products"},
    {"dequantised-dots",            pass_dequantised_dots,            OPS(OP_DOT, OP_SCALED_DOT),                  1,       false, LEVEL_LAID_OUT,    "before library-dots, which would take them as they are; after layout, which knows what lies as cuBLASLt wants it"},
    {"library-attentions",          pass_library_attentions,          OPS(OP_EXPONENTIAL),                         1,       false, LEVEL_LAID_OUT,    "before library-dots, which would take the two dots; before fusion"},
    {"library-norms",               pass_library_norms,               OPS(OP_RSQRT, OP_SQRT),                      1,       false, LEVEL_LAID_OUT,    "before fusion, which would take the norm apart"},
    {"fuse-attentions",             pass_fuse_attentions,             OPS(OP_DOT),                                 1,       false, LEVEL_LAID_OUT,    "before library-dots, which would take each of the two dots"},
    {"high-products",               pass_high_products,               OPS(OP_DOT),                                 1,       false, LEVEL_LAID_OUT,    "after fuse-attentions, which looks for one dot; before library-dots, which takes the three"},
    {"library-dots",                pass_library_dots,                OPS(OP_DOT),                                 1,       false, LEVEL_LAID_OUT,    "before fusion, which would absorb the producers of the operands"},
    {"convolution-results",         pass_convolution_results,         OPS(OP_CONVOLUTION),                         1,       false, LEVEL_LAID_OUT,    "before library-convolutions, which takes what it leaves; after simplify, which moves transpositions"},
    {"library-convolutions",        pass_library_convolutions,        OPS(OP_CONVOLUTION),                         1,       false, LEVEL_LAID_OUT,    "as library-dots"},
    {"library-epilogues",           pass_library_epilogues,           OPS(OP_DOT, OP_CONVOLUTION),                                 1,       false, LEVEL_LAID_OUT,    "after library-dots and library-convolutions; before fusion, which would absorb the additions"},
    {"library-bias-gradients",      pass_library_bias_gradients,      OPS(OP_DOT),                                 1,       false, LEVEL_LAID_OUT,    "after library-epilogues, whose products it takes; before fusion, which would absorb the sums"},
    {"library-pieces",              pass_library_pieces,              OPS(OP_TRANSPOSE),                           1,       false, LEVEL_LAID_OUT,    "after library-epilogues and library-bias-gradients, which take products without batch only; before fusion, which would absorb the transpositions"},
    {"vector-dots",                 pass_vector_dots,                 OPS(OP_DOT),                                 1,       false, LEVEL_LAID_OUT,    "after library-dots; before split-reductions and fusion, which handle the sums it creates"},
    {"split-products",              pass_split_products,              OPS(OP_DOT, OP_CONVOLUTION),                 1,       false, LEVEL_LAID_OUT,    "after those that choose who makes products; before split-reductions and fusion, for its sums and what makes the operands"},
    {"ragged-dots",                 pass_ragged_dots,                 OPS(OP_RAGGED_DOT),                          0,       true,  LEVEL_LAID_OUT,    "outlines what expand has left, before fusion, which takes no ragged-dot"},
    {"scaled-dots",                 pass_scaled_dots,                 OPS(OP_SCALED_DOT),                          0,       true,  LEVEL_LAID_OUT,    "outlines scaling and product as one kernel before fusion can separate them; after library-dots, which would take the dots"},
    {"split-scatters",              pass_split_scatters,              OPS(OP_SCATTER),                             1,       false, LEVEL_LAID_OUT,    "updates are sorted while scatters are still instructions; before split-reductions, which looks at the sums that it makes, and fusion"},
    {"split-exponentials",          pass_split_exponentials,          OPS(OP_EXPONENTIAL),                         1,       false, LEVEL_LAID_OUT,    "after fuse-attentions, which takes whole softmaxes; before split-reductions, which would split the two reductions separately"},
    {"split-scans",                 pass_split_scans,                 OPS(OP_REDUCE_WINDOW),                       1,       false, LEVEL_LAID_OUT,    "in row-major arrays a part of a dimension is a bitcast; before split-reductions, for its sums, and fusion, which merges producers into both readers"},
    {"one-pass-variances",          pass_one_pass_variances,          OPS(OP_REDUCE),                              1,       false, LEVEL_LAID_OUT,    "before split-reductions, which would split the two sums separately"},
    {"split-reductions",            pass_split_reductions,            OPS(OP_REDUCE),                              1,       false, LEVEL_LAID_OUT,    "in row-major arrays a part of a dimension is a bitcast; before fusion, which merges producers into the first half"},
    {"element-whiles",              pass_element_whiles,              OPS(OP_WHILE),                               1,       false, LEVEL_LAID_OUT,    "after unread-values, which finds what loops fill; before fusion, which would make kernels of each trip"},
    {"fuse",                        pass_fuse,                        ANY,                                         1,       false, LEVEL_LAID_OUT,    "needs layouts for its index maps; before wrap, which takes the rest"},
    {"wrap",                        pass_wrap,                        ANY,                                         0,       true,  LEVEL_FUSED,       "codegen accepts kernels only as fusions"},
    {"needed-results",              pass_needed_results,              OPS(OP_SORT, OP_REDUCE_WINDOW),              1,       false, LEVEL_FUSED,       "after wrap, when each sort and scan is a kernel whose readers are known"},
    {"split-sorts",                 pass_split_sorts,                 OPS(OP_SORT),                                0,       true,  LEVEL_FUSED,       "after wrap, when sorts have absorbed the producers of their operands"},
    {"fused-groups",                pass_fused_groups,                OPS(OP_FUSION),                              2,       false, LEVEL_FUSED,       "instructions inside a kernel are not copied with their scheduling group: it must be outside before loops are unrolled"},
    {"all-gather-combiner",         pass_all_gather_combiner,         OPS(OP_ALL_GATHER),                          1,       false, LEVEL_FUSED,       "after fusion, whose kernels it would otherwise tie together; before multi-output, which would tie collectives to one another"},
    {"all-reduce-combiner",         pass_all_reduce_combiner,         OPS(OP_ALL_REDUCE),                          1,       false, LEVEL_FUSED,       "as all-gather-combiner"},
    {"reduce-scatter-combiner",     pass_reduce_scatter_combiner,     OPS(OP_REDUCE_SCATTER),                      1,       false, LEVEL_FUSED,       "as all-gather-combiner"},
    {"collective-permute-combiner", pass_collective_permute_combiner, OPS(OP_COLLECTIVE_PERMUTE),                  1,       false, LEVEL_FUSED,       "last of the combiners, as its messages are the smallest: what depends on a combined operation is then known"},
    {"double-buffer",               pass_double_buffer,               OPS(OP_WHILE),                               1,       false, LEVEL_FUSED,       "two iterations side by side need no copies between them; after combiners, which need to see one iteration only; before async pairs are created"},
    {"collective-groups",           pass_collective_groups,           FLAGS_OPS(OPF_COLLECTIVE, OP_CALL),          0,       true,  LEVEL_FUSED,       "combined collectives need no group; marked calls must not reach codegen"},
    {"own-values",                  pass_own_values,                  ANY,                                         1,       false, LEVEL_FUSED,       "before multi-output, which joins the kernels it creates"},
    {"multi-output",                pass_multi_output,                ANY,                                         1,       false, LEVEL_FUSED,       "joins independent kernels; after wrap, when all kernels are known"},
    {"two-way-reductions",          pass_two_way_reductions,          OPS(OP_REDUCE),                              1,       false, LEVEL_FUSED,       "after multi-output, when reductions of the same rows, and of the same columns, are one kernel each"},
    {"join-reductions",             pass_join_reductions,             OPS(OP_REDUCE),                              1,       false, LEVEL_FUSED,       "after two-way-reductions, which makes other first halves of some"},
    {"async-collectives",           pass_async_collectives,           FLAGS(OPF_COLLECTIVE),                       2,       false, LEVEL_FUSED,       "pairs are barriers for most passes; right before schedule, which separates start and done"},
    {"stream-calls",                pass_stream_calls,                OPS(OP_CALL),                                0,       true,  LEVEL_FUSED,       "as async-collectives, for calls annotated with a stream"},
    {"scheduling-groups",           pass_scheduling_groups,           ANY,                                         2,       false, LEVEL_FUSED,       "needs all async pairs; drops groups that the schedule cannot keep together"},
    {"schedule",                    pass_schedule,                    ANY,                                         0,       true,  LEVEL_SCHEDULED,   "buffer assignment needs an execution order"},
    {"sync-collectives",            pass_sync_collectives,            FLAGS_OPS(OPF_ASYNC_DONE, OP_SEND),          2,       false, LEVEL_SCHEDULED,   "a pair that overlaps nothing needs no stream of its own; needs the order"},
    {"copy-insertion",              pass_copy_insertion,              ANY,                                         0,       true,  LEVEL_SCHEDULED,   "values that share a buffer must not be live at the same time; needs the order"},
    {"collective-memory",           pass_collective_memory,           ANY,                                         0,       true,  LEVEL_SCHEDULED,   "which values share a buffer is known now; copies of the caller's arrays come last, where they do not break overlap"},
    {"configure",                   pass_configure,                   OPS(OP_FUSION),                              0,       true,  LEVEL_SCHEDULED,   "a kernel's configuration depends on its final code"},
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
    {"library-solvers", "expand", "what the library makes is no loop"},
    {"block-scaled", "expand", "it makes reductions of small floats"},
    {"fuse-attentions", "high-products", "an attention is of single dots"},
    {"high-products", "library-dots", "the library makes the parts"},
    {"f32-products", "library-dots", "it has kernels for TF32"},
    {"f32-products", "library-convolutions", "as library-dots"},
    {"dequantised-dots", "library-dots", "a dot that is marked stays as it is"},
    {"library-attentions", "library-dots", "the dots of an attention stay with it"},
    {"fuse-attentions", "library-dots", "a dot that is marked stays one"},
    {"library-dots", "scaled-dots", "the dot inside stays with the kernel that scales"},
    {"library-dots", "library-epilogues", "it adds to dots that are marked"},
    {"library-convolutions", "library-epilogues", "as library-dots"},
    {"library-epilogues", "library-bias-gradients", "a product has one second result"},
    {"library-bias-gradients", "library-pieces", "a batch has no second result"},
    {"library-pieces", "fuse", "a transposition that is a kernel is no operand any more"},
    {"convolutions", "convolution-form",
     "what becomes something else needs no form for a library"},
    {"convolution-form", "simplify", "transpositions that cancel each other go"},
    {"library-convolutions", "fuse", "what a library makes is no part of a kernel"},
    {"library-dots", "vector-dots", "a dot that is marked stays one"},
    {"vector-dots", "split-reductions", "its sums may have few results"},
    {"fuse-attentions", "split-exponentials", "it takes whole softmaxes"},
    {"split-exponentials", "split-reductions",
     "a sum that is split is none of a row any more"},
    {"one-pass-variances", "split-reductions",
     "a sum that is split is none of the whole array any more"},
    {"split-exponentials", "fuse", "a piece is kept by the kernel that reads it"},
    {"vector-dots", "split-products", "it looks for dots that are sums of their own"},
    {"library-convolutions", "split-products", "a library splits what it makes itself"},
    {"split-scans", "split-reductions", "its sums may have few results"},
    {"split-products", "fuse", "pieces read what makes the operands, sums what follows"},
    {"ragged-dots", "fuse", "fusion takes no ragged-dot"},
    {"scaled-dots", "fuse", "fusion takes no scaled-dot"},
    {"inline", "expand", "what a call or a foreign fusion hides is expanded, too"},
    {"expand", "inline-expanded", "a scan becomes a loop that calls its computation"},
    {"expand", "simplify", "an expanded graph has constants to fold"},
    {"expand", "fuse", "only what a kernel knows can be fused"},
    {"multi-output", "two-way-reductions",
     "kernels of rows and of columns have all their results"},
    {"two-way-reductions", "configure", "a block's rows are part of the fusion"},
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
