/* See stablehlo.h. */
#include "tests/fuzz/shared/stablehlo.h"

#include "frontend/hlo/parse.h"
#include "ir/base/bug.h"
#include "ir/print/print.h"
#include "ir/verify/verify.h"
#include "tests/fuzz/fuzz.h"

static void check(Arena *a, const char *data, size_t size)
{
    Diag *d = diag_create(a, "fuzz.mlir", data, size);
    Module *m = stablehlo_parse(a, d);
    PROMISE(m != NULL || d->error_count != 0, "refused without a message");
    Arena *scratch = arena_scratch();
    bool good = m != NULL && module_verify(m, LEVEL_WELL_FORMED, scratch);
    (void)diag_render(d, false);
    if (good) {
        size_t length;
        const char *text = module_print(a, m, PRINT_DEFAULT, &length);
        Diag *again = diag_create(a, "fuzz.hlo", text, length);
        Module *same = hlo_parse(a, again);
        PROMISE(same != NULL && module_verify(same, LEVEL_WELL_FORMED, scratch),
                "what was printed is refused: %s\n%s", diag_render(again, false), text);
    }
    arena_destroy(scratch);
}

void check_stablehlo(const char *data, size_t size)
{
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        Arena *a = arena_scratch();
        check(a, arena_text(a, data, size), size);
        arena_destroy(a);
    }
    escape_pop(&e);
    PROMISE(e.kind != ESCAPE_BUG, "%s", e.message);
}
