/* See fragment.h. The text gets a parser of its own, whose messages become one sentence. */
#include "frontend/hlo/fragment.h"

#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parser.h"

const Sharding *fragment_sharding(Arena *a, Bytes text, const char **wrong)
{
    Arena *scratch = arena_scratch();
    Parser *p = ARENA_NEW(scratch, Parser);
    *p = (Parser){.arena = a,
                  .scratch = scratch,
                  .diag = diag_create(a, "sharding", text.data, text.length),
                  .text = text.data,
                  .length = text.length};
    STACK_OPEN(p, p->ints);
    p->m = module_create(a, p->diag, "_");
    p->intern = p->m->intern;
    const Diag *d = p->diag;
    const Sharding *s = NULL;
    lexer_open(p);
    bool right = value_sharding(p, &s);
    Token end = right ? take(p) : (Token){0};
    if (right && end.kind != TOK_END)
        right = token_wrong(p, end, "unexpected text behind the sharding");
    arena_destroy(scratch);
    *wrong = d->first != NULL ? d->first->text : "this is no sharding";
    return right ? s : NULL;
}
