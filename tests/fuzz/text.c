/* HLO text: parser, verifier, printer. What verifies and is printed parses, verifies and is
 * printed the same again. */
#include "frontend/hlo/parse.h"
#include "ir/base/bug.h"
#include "ir/print/print.h"
#include "ir/verify/verify.h"
#include "tests/fuzz/fuzz.h"

static Module *read(Arena *a, const char *text, size_t size, Diag **out_diag)
{
    Diag *d = diag_create(a, "fuzz.hlo", text, size);
    *out_diag = d;
    Module *m = hlo_parse(a, d);
    PROMISE(m != NULL || d->error_count != 0, "no module and no message");
    if (m == NULL)
        return NULL;
    Arena *scratch = arena_scratch();
    bool good = module_verify(m, LEVEL_WELL_FORMED, scratch);
    arena_destroy(scratch);
    PROMISE(good == (d->error_count == 0), "verdict and messages disagree");
    return good ? m : NULL;
}

static void check(Arena *a, const char *text, size_t size)
{
    Diag *d;
    Module *m = read(a, text, size, &d);
    (void)diag_render(d, false);
    if (m == NULL)
        return;
    size_t length;
    const char *once = module_print(a, m, PRINT_DEFAULT, &length);
    (void)module_print(a, m, PRINT_LONG, NULL);
    (void)module_print(a, m, PRINT_SHORT, NULL);
    (void)module_print(a, m, PRINT_CANONICAL, NULL);
    Module *again = read(a, once, length, &d);
    PROMISE(again != NULL, "what was printed is refused: %s\n%s", diag_render(d, false),
            once);
    const char *twice = module_print(a, again, PRINT_DEFAULT, NULL);
    PROMISE(strcmp(once, twice) == 0, "printed\n%s\nthen\n%s", once, twice);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        Arena *a = arena_scratch();
        const char *text = arena_text(a, (const char *)data, size);
        check(a, text, size);
        arena_destroy(a);
    }
    escape_pop(&e);
    PROMISE(e.kind != ESCAPE_BUG, "%s", e.message);
}
