/* Passes about collectives.
 *
 *   combine/  fewer of them: combiners, groups, identities and merges
 *   loops/    those of loops: code motion, the pipeliner, double buffering
 *   async/    start and done, permutes as sends and receives, streams
 *
 * Here: what NCCL and kernels cannot do as it stands (form, ragged), the memory of their
 * buffers, and calls that are notes to a partitioner. */
#ifndef GXC_PASSES_COLLECTIVES_COLLECTIVES_H
#define GXC_PASSES_COLLECTIVES_COLLECTIVES_H

#include "passes/pass.h"

PassFn pass_annotations;       /* calls that only say where a value should lie */
PassFn pass_collective_form;   /* what NCCL carries out */
PassFn pass_collective_memory; /* copies around memory of the caller's or the file's */

PassFn pass_collective_identities; /* those that do nothing */
PassFn pass_collective_merges;     /* one of two */
PassFn pass_all_gather_combiner, pass_all_reduce_combiner, pass_reduce_scatter_combiner,
    pass_collective_permute_combiner; /* one call of many */
PassFn pass_collective_groups;        /* what the program wants carried out together */

PassFn pass_code_motion_setup;      /* reductions, in the form that the next one knows */
PassFn pass_all_reduce_code_motion; /* those that only feed accumulators, behind */
PassFn pass_collective_pipeliner;   /* to the step before or behind */
PassFn pass_double_buffer;          /* two steps at a time */

PassFn pass_permute_cycles;     /* a ring: along it, and the edge that closes it */
PassFn pass_permute_decomposer; /* in loops: sends and recvs */
PassFn pass_async_to_sync;      /* pairs of the text: plain operations */
PassFn pass_async_collectives;  /* plain operations: pairs */
PassFn pass_sync_collectives;   /* pairs that overlap nothing: plain operations */
PassFn pass_stream_annotations,
    pass_stream_calls; /* work that the text wants elsewhere */

#endif
