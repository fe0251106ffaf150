/* Warnings about programs that compile, but may not do what their author expects. */
#ifndef GXC_FRONTEND_WARN_H
#define GXC_FRONTEND_WARN_H

#include "ir/module.h"

/* partitions_given: the user has said how many partitions there are. */
void module_warn(const Module *m, bool partitions_given);

#endif
