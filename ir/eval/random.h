/* Random bits in the evaluator. */
#ifndef GXC_IR_EVAL_RANDOM_H
#define GXC_IR_EVAL_RANDOM_H

#include <stdint.h>

/* Encrypts the 64-bit counter by ThreeFry 2x32 of 20 rounds, low words first. */
void random_threefry(uint64_t key, uint64_t counter, uint32_t out[2]);

#endif
