/* Library rewrites: what a library makes better than kernels of our own. */
#ifndef GXC_PASSES_LIBRARY_LIBRARY_H
#define GXC_PASSES_LIBRARY_LIBRARY_H

#include "passes/pass.h"

PassFn pass_library_dots;           /* large dots: cuBLASLt */
PassFn pass_library_epilogues;      /* what is added to those */
PassFn pass_library_bias_gradients; /* what their factors give when they are added up */
PassFn pass_library_pieces;         /* of what was gathered in pieces */
PassFn pass_library_solvers;        /* large factorisations: cuSOLVER */
PassFn pass_dequantised_dots;       /* of f8: cuBLASLt */
PassFn pass_f32_products;           /* TF32 where it is left open */
PassFn pass_high_products;          /* three by TF32 where more is asked for */
PassFn pass_convolution_form;       /* orders of dimensions that cuDNN wants */
PassFn pass_convolution_results;    /* what only turns them is left out */
PassFn pass_library_convolutions;   /* large convolutions: cuDNN */
PassFn pass_library_attentions;     /* attentions: cuDNN */
PassFn pass_library_norms;          /* norms and their gradients, if asked for: cuDNN */
PassFn pass_vector_dots;            /* of a matrix and a vector: sums, tiles */
PassFn pass_split_products;         /* those of few tiles: in pieces along their sums */
PassFn
    pass_block_scaled; /* block-scaled custom calls; their dots, where cuBLASLt has them */
PassFn pass_composites;  /* calls that stand for a scaled-dot */
PassFn pass_ragged_dots; /* ragged-dots: kernels whose tiles are in groups */
PassFn pass_scaled_dots; /* scaled-dots: dots that scale as they read */

#endif
