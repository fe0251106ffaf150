/* Values of attributes that other formats hold as text of the HLO language. */
#ifndef GXC_FRONTEND_HLO_FRAGMENT_H
#define GXC_FRONTEND_HLO_FRAGMENT_H

#include "ir/attribute/sharding.h"

/* `{devices=[2,1]<=[2]}`; NULL: *wrong says what is wrong. Both in `a`. */
const Sharding *fragment_sharding(Arena *a, Bytes text, const char **wrong);

#endif
