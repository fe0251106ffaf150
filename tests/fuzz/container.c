/* Programs in whatever they come in - gzip, what jax.export writes, snapshots, several in a text -: a module or a
 * message. */
#include "frontend/input/container.h"

#include "frontend/hlo/parse.h"
#include "frontend/input/select.h"
#include "frontend/proto/proto.h"
#include "ir/base/bug.h"
#include "ir/verify/verify.h"
#include "tests/fuzz/fuzz.h"

static Module *read(Arena *a, Diag *d)
{
    bool chosen;
    if (!container_open(d, 0) || (proto_is(d->text, d->length) && !proto_to_text(d)) ||
        !select_module(d, d->length % 2 != 0 ? "one" : NULL, &chosen))
        return NULL;
    Module *m =
        stablehlo_is(d->text, d->length) ? stablehlo_parse(a, d) : hlo_parse(a, d);
    Arena *scratch = arena_scratch();
    bool good = m != NULL && module_verify(m, LEVEL_WELL_FORMED, scratch);
    arena_destroy(scratch);
    return good ? m : NULL;
}

void fuzz_input(const uint8_t *data, size_t size)
{
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        Arena *a = arena_scratch();
        Diag *d = diag_create(a, "fuzz", arena_text(a, (const char *)data, size), size);
        PROMISE((read(a, d) == NULL) == (d->error_count != 0),
                "no module and no message");
        (void)diag_render(d, false);
        arena_destroy(a);
    }
    escape_pop(&e);
    PROMISE(e.kind != ESCAPE_BUG, "%s", e.message);
}
