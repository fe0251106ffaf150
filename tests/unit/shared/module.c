/* See module.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/hlo/parse.h"
#include "tests/unit/shared/module.h"

Module *parse_module(Arena *a, const char *text)
{
    Diag *d = diag_create(a, "test", text, strlen(text));
    Module *m = hlo_parse(a, d);
    if (m == NULL)
        fail_msg("%s", diag_render(d, false));
    return m;
}
