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

PassFn pass_annotations, pass_async_to_sync, pass_collective_form, pass_code_motion_setup,
    pass_all_reduce_code_motion, pass_collective_pipeliner, pass_double_buffer,
    pass_permute_cycles, pass_permute_decomposer, pass_async_collectives,
    pass_stream_annotations, pass_stream_calls, pass_collective_memory,
    pass_sync_collectives;
PassFn pass_all_gather_combiner, pass_all_reduce_combiner, pass_reduce_scatter_combiner,
    pass_collective_permute_combiner, pass_collective_groups, pass_collective_identities,
    pass_collective_merges;

#endif
