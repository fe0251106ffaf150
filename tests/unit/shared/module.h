/* Modules from text that is right. */
#ifndef GXC_TESTS_UNIT_SHARED_MODULE_H
#define GXC_TESTS_UNIT_SHARED_MODULE_H

#include "ir/module.h"

/* The module lives in `a`. Text that is refused fails the test with the parser's message. */
Module *parse_module(Arena *a, const char *text);

#endif
