/* HloModuleProto: whatever the bytes are, a module or a message. What becomes a module that
 * verifies is written and read again. */
#include "frontend/proto/proto.h"

#include "frontend/hlo/parse.h"
#include "ir/base/bug.h"
#include "ir/print/print.h"
#include "ir/verify/verify.h"
#include "tests/fuzz/fuzz.h"

static Module *read(Arena *a, const char *bytes, size_t size, Diag **out_diag)
{
    Diag *d = diag_create(a, "fuzz.pb", bytes, size);
    *out_diag = d;
    if (!proto_to_text(d)) {
        PROMISE(d->error_count != 0, "refused without a message");
        return NULL;
    }
    Module *m = hlo_parse(a, d);
    Arena *scratch = arena_scratch();
    bool good = m != NULL && module_verify(m, LEVEL_WELL_FORMED, scratch);
    arena_destroy(scratch);
    (void)diag_render(d, false);
    return good ? m : NULL;
}

static void check(Arena *a, const char *bytes, size_t size)
{
    Diag *d;
    Module *m = read(a, bytes, size, &d);
    if (m == NULL)
        return;
    size_t length;
    const char *written = proto_print(a, m, &length);
    Module *again = read(a, written, length, &d);
    PROMISE(again != NULL, "what was written is refused: %s\n%s", diag_render(d, false),
            module_print(a, m, PRINT_DEFAULT, NULL));
}

void fuzz_input(const uint8_t *data, size_t size)
{
    if (!proto_is((const char *)data, size))
        return;
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        Arena *a = arena_scratch();
        check(a, arena_text(a, (const char *)data, size), size);
        arena_destroy(a);
    }
    escape_pop(&e);
    PROMISE(e.kind != ESCAPE_BUG, "%s", e.message);
}
