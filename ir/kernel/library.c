/* See library.h. */
#include "ir/kernel/library.h"

#include "ir/kernel/attention/attention_call.h"
#include "ir/kernel/block_scaled.h"
#include "ir/kernel/convolution.h"
#include "ir/kernel/matmul.h"
#include "ir/kernel/norm.h"
#include "ir/kernel/norm_gradient.h"
#include "ir/kernel/solver.h"

bool library_is_graph(const Instruction *inst)
{
    return convolution_is_library(inst) || attention_is_library(inst) ||
           norm_is_library(inst) || norm_gradient_is_library(inst) ||
           block_scaled_is_graph(inst);
}

bool library_makes(const Instruction *inst)
{
    return matmul_is_library(inst) || library_is_graph(inst) || solver_is_library(inst);
}
