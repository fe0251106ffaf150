/* What is known of while loops. */
#ifndef GXC_IR_ANALYSIS_LOOP_H
#define GXC_IR_ANALYSIS_LOOP_H

#include "ir/module.h"

/* The trip count that the loop's backend_config records, {"known_trip_count":{"n":"5"}}; -1
 * if it records none. */
int64_t loop_known_trip_count(const Instruction *loop);
void loop_set_known_trip_count(Instruction *loop, int64_t count);

#endif
