/* Printed forms of attribute values, by kind. Internal to the printer and its neighbours. */
#ifndef GXC_IR_PRINT_VALUE_H
#define GXC_IR_PRINT_VALUE_H

#include "ir/attribute/attribute.h"
#include "ir/base/text.h"

void ints_print(Text *t, Ints ints);      /* {1,2} */
void escaped_print(Text *t, Bytes bytes); /* with its quotes */
void config_print(Text *t,
                  Bytes bytes); /* raw if it is one JSON dictionary, else escaped */
/* `op_type="" source_line=1 ...`: in braces behind metadata= of instructions and shardings. */
void metadata_print(Text *t, const Metadata *m);
bool metadata_is_shown(const Metadata *m);
/* {0}: (1, {}), ...; `kinds`: with may-alias or must-alias, as in a module's header. */
void aliasing_print(Text *t, const Aliasing *a, bool kinds);
void dict_print(Text *t, const Dict *d); /* {k="v",k2={...}} */
/* The value of an attribute that holds no computations and no instructions. */
void value_print(Text *t, const Attr *a, bool metadata);

#endif
