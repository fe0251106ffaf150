/* Whether a module is one that a partitioner has to work on first. */
#ifndef GXC_IR_ANALYSIS_PARTITION_H
#define GXC_IR_ANALYSIS_PARTITION_H

#include "ir/module.h"

/* An instruction that only a partitioner can make sense of; NULL: none. A module needs one if a
 * call gives a part of its operand, or the whole; one for several partitions also if nothing in it
 * asks for the partition's number, and either a call marks where whole and part meet, or
 * nothing talks to other devices and values are marked to be spread over them. A scheduled
 * module was compiled, and so partitioned, before; one whose entry is called ..._spmd comes from
 * XLA's partitioner. */
const Instruction *module_unpartitioned(const Module *m);

/* The same the other way round: an instruction by which a module for one device looks like one for
 * several; NULL: none. */
const Instruction *module_of_several(const Module *m);

/* Reports it at that instruction, with what to do. */
void module_report_unpartitioned(const Module *m, const Instruction *inst);

#endif
