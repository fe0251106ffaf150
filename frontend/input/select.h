/* Which of several modules is meant. */
#ifndef GXC_FRONTEND_INPUT_SELECT_H
#define GXC_FRONTEND_INPUT_SELECT_H

#include "ir/base/diag.h"

/* In a text of several modules - HLO, or MLIR in parts divided by lines of `// -----` - leaves the one called
 * `name` and blanks the others out, so that positions stay. name NULL: the text has one. False after a message.
 * What has one module at most stays as it is, and out_chosen is false: its name shows when it is read. */
bool select_module(Diag *d, const char *name, bool *out_chosen);

#endif
