/* Literals of every type: read, printed, and the same again to the bit. The first two bytes
 * choose the shape, the others are the literal's text. */
#include "frontend/hlo/parse.h"
#include "ir/base/bug.h"
#include "tests/fuzz/fuzz.h"

static const Literal *read(Arena *a, const char *shape, const char *text)
{
    const char *module = arena_printf(
        a, "HloModule m\nENTRY e {\n  ROOT c = %s constant(%s)\n}\n", shape, text);
    Module *m = hlo_parse(a, diag_create(a, "literal", module, strlen(module)));
    return m == NULL ? NULL : m->entry->root->literal;
}

static void check(Arena *a, const uint8_t *data, size_t size)
{
    static const char *const dims[] = {"[]",    "[1]",     "[3]",   "[0]",
                                       "[2,2]", "[2,1,3]", "[2,0]", "[4]"};
    DType t = (DType)(1 + data[0] % (DT_COUNT - 1));
    const char *shape = arena_printf(a, "%s%s", dtype_info[t].name, dims[data[1] % 8]);
    if ((data[1] & 64) != 0)
        shape = arena_printf(a, "(%s, s32[2])", shape);
    const char *text = arena_text(a, (const char *)data + 2, size - 2);
    const Literal *l = read(a, shape, text);
    if (l == NULL || l->shape->dtype == DT_TOKEN || literal_has_elided(l))
        return;
    const char *once = literal_text(a, l);
    const Literal *again = read(a, shape, once);
    PROMISE(again != NULL, "%s constant(%s) is printed as %s, which is refused", shape,
            text, once);
    PROMISE(literal_equal(l, again), "%s constant(%s), then %s", shape, once,
            literal_text(a, again));
}

void fuzz_input(const uint8_t *data, size_t size)
{
    if (size < 3 || memchr(data + 2, 0, size - 2) != NULL)
        return;
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        Arena *a = arena_scratch();
        check(a, data, size);
        arena_destroy(a);
    }
    escape_pop(&e);
    PROMISE(e.kind != ESCAPE_BUG, "%s", e.message);
}
