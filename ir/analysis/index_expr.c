/* Index expressions: made unique and simplified as they are built. See index_map.h.
 *
 * Normal form: a sum is a list of terms, each a constant factor times something that is no
 * sum, ordered by the terms' ids, the constant last. Every maker gives the normal form, so
 * equal sums are the same pointer. The measure that each rule lowers: number of nodes. */
#include "ir/analysis/index_map.h"

#include <string.h>

#include "ir/base/bug.h"
#include "ir/base/divide.h"
#include "ir/base/text.h"

struct IndexContext {
    Arena *arena;
    const IndexExpr **slots; /* open addressing */
    size_t capacity, count;
};

#define MOST_TERMS 64

typedef struct Term {
    const IndexExpr *expr; /* no ADD, MUL, CONST */
    int64_t factor;
} Term;

typedef struct Sum {
    Term terms[MOST_TERMS];
    uint32_t count;
    int64_t constant;
} Sum;

IndexContext *index_context_create(Arena *a)
{
    IndexContext *cx = ARENA_NEW(a, IndexContext);
    cx->arena = a;
    return cx;
}

Arena *index_arena(IndexContext *cx)
{
    return cx->arena;
}

/* -- unique nodes ------------------------------------------------------------------- */

static uint64_t node_hash(const IndexExpr *e)
{
    uint64_t h = (uint64_t)e->kind * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)e->value;
    h = (h ^ (h >> 31)) * UINT64_C(0xbf58476d1ce4e5b9) + (e->a != NULL ? e->a->id : 0);
    h = (h ^ (h >> 31)) * UINT64_C(0x94d049bb133111eb) + (e->b != NULL ? e->b->id : 0);
    h = (h ^ (h >> 31)) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)e->range.hi;
    return h ^ (h >> 29);
}

static bool node_same(const IndexExpr *x, const IndexExpr *y)
{
    return x->kind == y->kind && x->value == y->value && x->a == y->a && x->b == y->b &&
           x->range.lo == y->range.lo && x->range.hi == y->range.hi;
}

static const IndexExpr **node_slot(const IndexExpr **slots, size_t capacity,
                                   const IndexExpr *e)
{
    size_t at = node_hash(e) & (capacity - 1);
    while (slots[at] != NULL && !node_same(slots[at], e))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static const IndexExpr *node(IndexContext *cx, IndexExpr e)
{
    if (cx->count * 2 >= cx->capacity) {
        size_t capacity = cx->capacity == 0 ? 256 : cx->capacity * 2;
        const IndexExpr **slots = ARENA_ARRAY(cx->arena, const IndexExpr *, capacity);
        for (size_t i = 0; i < cx->capacity; i++) {
            if (cx->slots[i] != NULL)
                *node_slot(slots, capacity, cx->slots[i]) = cx->slots[i];
        }
        cx->slots = slots;
        cx->capacity = capacity;
    }
    const IndexExpr **slot = node_slot(cx->slots, cx->capacity, &e);
    if (*slot == NULL) {
        e.id = (uint32_t)++cx->count;
        *slot = arena_copy(cx->arena, &e, sizeof e);
    }
    return *slot;
}

/* -- arithmetic on ranges: saturating, so that a bound never wraps ---------------------- */

static int64_t add_bound(int64_t a, int64_t b)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return r;
}

static int64_t mul_bound(int64_t a, int64_t b)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return r;
}

static int64_t floor_mod(int64_t a, int64_t b)
{
    int64_t r = a % b;
    return r < 0 ? r + b : r;
}

static bool is_empty(Range r)
{
    return r.lo > r.hi;
}

static Range range_mul(Range r, int64_t factor)
{
    int64_t x = mul_bound(r.lo, factor), y = mul_bound(r.hi, factor);
    return factor >= 0 ? (Range){x, y} : (Range){y, x};
}

/* -- sums --------------------------------------------------------------------------- */

const IndexExpr *ix_const(IndexContext *cx, int64_t value)
{
    return node(cx,
                (IndexExpr){.kind = IX_CONST, .value = value, .range = {value, value}});
}

static const IndexExpr *variable(IndexContext *cx, IxKind kind, uint32_t number,
                                 Range range)
{
    if (range.lo == range.hi)
        return ix_const(cx, range.lo);
    return node(cx, (IndexExpr){.kind = kind, .value = number, .range = range});
}

const IndexExpr *ix_dim(IndexContext *cx, uint32_t number, Range range)
{
    return variable(cx, IX_DIM, number, range);
}

const IndexExpr *ix_symbol(IndexContext *cx, uint32_t number, Range range)
{
    return variable(cx, IX_SYMBOL, number, range);
}

const IndexExpr *ix_runtime(IndexContext *cx, uint32_t number, Range range)
{
    return variable(cx, IX_RUNTIME, number, range);
}

static void sum_term(Sum *s, const IndexExpr *expr, int64_t factor)
{
    if (factor == 0)
        return;
    uint32_t at = 0;
    while (at < s->count && s->terms[at].expr->id < expr->id)
        at++;
    if (at < s->count && s->terms[at].expr == expr) {
        s->terms[at].factor += factor;
        if (s->terms[at].factor == 0) {
            memmove(s->terms + at, s->terms + at + 1,
                    (s->count - at - 1) * sizeof *s->terms);
            s->count--;
        }
        return;
    }
    if (s->count == MOST_TERMS)
        bug("an index expression has more than %d terms", MOST_TERMS);
    memmove(s->terms + at + 1, s->terms + at, (s->count - at) * sizeof *s->terms);
    s->terms[at] = (Term){expr, factor};
    s->count++;
}

static void sum_add(Sum *s, const IndexExpr *e, int64_t factor)
{
    for (; e->kind == IX_ADD; e = e->a)
        sum_add(s, e->b, factor);
    if (e->kind == IX_CONST)
        s->constant += e->value * factor;
    else if (e->kind == IX_MUL)
        sum_term(s, e->a, e->value * factor);
    else
        sum_term(s, e, factor);
}

/* m = x mod c, d = x floordiv c; where x = y floordiv b, d is y floordiv (b c). */
static bool is_quotient(const IndexExpr *d, const IndexExpr *m)
{
    if (d->a == m->a && d->value == m->value)
        return true;
    const IndexExpr *x = m->a;
    return x->kind == IX_FLOORDIV && d->a == x->a &&
           d->value == mul_bound(x->value, m->value);
}

/* k (x mod c) + k c (x floordiv c) -> k x */
static void sum_join_div_mod(Sum *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const IndexExpr *m = s->terms[i].expr;
        if (m->kind != IX_MOD)
            continue;
        for (uint32_t k = 0; k < s->count; k++) {
            const IndexExpr *d = s->terms[k].expr;
            if (d->kind != IX_FLOORDIV || !is_quotient(d, m) ||
                s->terms[k].factor != s->terms[i].factor * m->value)
                continue;
            int64_t factor = s->terms[i].factor;
            sum_term(s, m, -factor);
            sum_term(s, d, -factor * m->value);
            sum_add(s, m->a, factor);
            i = UINT32_MAX; /* start again */
            break;
        }
    }
}

static const IndexExpr *sum_expr(IndexContext *cx, Sum *s)
{
    sum_join_div_mod(s);
    const IndexExpr *e = NULL;
    for (uint32_t i = 0; i <= s->count; i++) {
        const IndexExpr *t;
        if (i == s->count) {
            if (s->constant == 0 && e != NULL)
                break;
            t = ix_const(cx, s->constant);
        } else if (s->terms[i].factor == 1) {
            t = s->terms[i].expr;
        } else {
            const IndexExpr *x = s->terms[i].expr;
            t = node(cx, (IndexExpr){.kind = IX_MUL,
                                     .value = s->terms[i].factor,
                                     .a = x,
                                     .range = range_mul(x->range, s->terms[i].factor)});
        }
        if (e == NULL) {
            e = t;
            continue;
        }
        Range r = {add_bound(e->range.lo, t->range.lo),
                   add_bound(e->range.hi, t->range.hi)};
        e = node(cx, (IndexExpr){.kind = IX_ADD, .a = e, .b = t, .range = r});
    }
    return e;
}

const IndexExpr *ix_add(IndexContext *cx, const IndexExpr *a, const IndexExpr *b)
{
    Sum s = {.count = 0};
    sum_add(&s, a, 1);
    sum_add(&s, b, 1);
    return sum_expr(cx, &s);
}

const IndexExpr *ix_mul(IndexContext *cx, const IndexExpr *a, int64_t factor)
{
    Sum s = {.count = 0};
    sum_add(&s, a, factor);
    return sum_expr(cx, &s);
}

/* Splits a sum into whole multiples of c (divided by c) and the rest. */
static void sum_split(const Sum *s, int64_t c, Sum *whole, Sum *rest)
{
    *whole = (Sum){.count = 0};
    *rest = (Sum){.count = 0};
    for (uint32_t i = 0; i < s->count; i++) {
        const Term *t = &s->terms[i];
        if (t->factor % c == 0)
            sum_term(whole, t->expr, t->factor / c);
        else
            sum_term(rest, t->expr, t->factor);
    }
    whole->constant = floor_div(s->constant, c);
    rest->constant = floor_mod(s->constant, c);
}

/* The largest g that divides c and all factors of the sum (its constant aside). */
static int64_t sum_gcd(const Sum *s, int64_t c)
{
    int64_t g = c;
    for (uint32_t i = 0; i < s->count; i++)
        g = gcd(g, s->terms[i].factor);
    return g;
}

static void sum_divide(Sum *s,
                       int64_t g) /* exact for the terms, floor for the constant */
{
    for (uint32_t i = 0; i < s->count; i++)
        s->terms[i].factor /= g;
    s->constant = floor_div(s->constant, g);
}

/* Splits a sum into g times a quotient and a rest in 0 .. g - 1, for a divisor g > 1 of c; false if there
 * is none. (4 t + lane) by c = 96: g = 4, t and lane. */
static bool sum_split_small(IndexContext *cx, const Sum *s, int64_t c, Sum *quotient,
                            const IndexExpr **rest, int64_t *out_g)
{
    for (uint32_t i = 0; i < s->count; i++) {
        int64_t g = gcd(s->terms[i].factor, c);
        Sum small;
        if (g <= 1)
            continue;
        sum_split(s, g, quotient, &small);
        const IndexExpr *r = sum_expr(cx, &small);
        if (is_empty(r->range) || r->range.lo < 0 || r->range.hi >= g)
            continue;
        *rest = r;
        *out_g = g;
        return true;
    }
    return false;
}

const IndexExpr *ix_floordiv(IndexContext *cx, const IndexExpr *a, int64_t divisor)
{
    if (divisor <= 0)
        bug("index expression divided by %lld", (long long)divisor);
    if (divisor == 1)
        return a;
    Sum s = {.count = 0}, whole, rest;
    sum_add(&s, a, 1);
    sum_split(&s, divisor, &whole, &rest);
    const IndexExpr *r = sum_expr(cx, &rest), *quotient;
    int64_t lo = floor_div(r->range.lo, divisor), hi = floor_div(r->range.hi, divisor);
    if (!is_empty(r->range) && lo == hi) {
        whole.constant += lo;
        return sum_expr(cx, &whole);
    }
    /* (g q + k) floordiv (g c) -> (q + k floordiv g) floordiv c */
    int64_t g = sum_gcd(&rest, divisor);
    const IndexExpr *small;
    Sum large;
    if (g > 1) {
        sum_divide(&rest, g);
        quotient = ix_floordiv(cx, sum_expr(cx, &rest), divisor / g);
    } else if (sum_split_small(cx, &rest, divisor, &large, &small, &g)) {
        quotient = ix_floordiv(cx, sum_expr(cx, &large), divisor / g);
    } else if (r->kind ==
               IX_FLOORDIV) { /* (x floordiv a) floordiv b -> x floordiv (a b) */
        quotient = ix_floordiv(cx, r->a, mul_bound(r->value, divisor));
    } else {
        quotient = node(
            cx, (IndexExpr){
                    .kind = IX_FLOORDIV, .value = divisor, .a = r, .range = {lo, hi}});
    }
    sum_add(&whole, quotient, 1);
    return sum_expr(cx, &whole);
}

const IndexExpr *ix_mod(IndexContext *cx, const IndexExpr *a, int64_t divisor)
{
    if (divisor <= 0)
        bug("index expression modulo %lld", (long long)divisor);
    if (divisor == 1)
        return ix_const(cx, 0);
    Sum s = {.count = 0}, whole, rest;
    sum_add(&s, a, 1);
    sum_split(&s, divisor, &whole, &rest);
    const IndexExpr *r = sum_expr(cx, &rest);
    if (!is_empty(r->range) &&
        floor_div(r->range.lo, divisor) == floor_div(r->range.hi, divisor))
        return ix_add(cx, r, ix_const(cx, -floor_div(r->range.lo, divisor) * divisor));
    /* (g q + k) mod (g c) -> g ((q + k floordiv g) mod c) + k mod g */
    int64_t g = sum_gcd(&rest, divisor);
    if (g > 1) {
        int64_t left = floor_mod(rest.constant, g);
        sum_divide(&rest, g);
        const IndexExpr *m = ix_mod(cx, sum_expr(cx, &rest), divisor / g);
        return ix_add(cx, ix_mul(cx, m, g), ix_const(cx, left));
    }
    const IndexExpr *small;
    Sum large;
    if (sum_split_small(cx, &rest, divisor, &large, &small, &g)) {
        const IndexExpr *m = ix_mod(cx, sum_expr(cx, &large), divisor / g);
        return ix_add(cx, ix_mul(cx, m, g), small);
    }
    if (r->kind == IX_MOD && r->value % divisor == 0) /* (x mod k c) mod c -> x mod c */
        return ix_mod(cx, r->a, divisor);
    return node(
        cx,
        (IndexExpr){.kind = IX_MOD, .value = divisor, .a = r, .range = {0, divisor - 1}});
}

/* -- questions ------------------------------------------------------------------------ */

bool ix_depends(const IndexExpr *e, IxKind kind, uint32_t number)
{
    if (e->kind == kind && e->value == number)
        return true;
    return (e->a != NULL && ix_depends(e->a, kind, number)) ||
           (e->b != NULL && ix_depends(e->b, kind, number));
}

bool ix_stride(const IndexExpr *e, IxKind kind, uint32_t number, int64_t *stride)
{
    *stride = 0;
    if (!ix_depends(e, kind, number))
        return true;
    int64_t x, y;
    switch (e->kind) {
    case IX_ADD:
        if (!ix_stride(e->a, kind, number, &x) || !ix_stride(e->b, kind, number, &y))
            return false;
        *stride = x + y;
        return true;
    case IX_MUL:
        if (!ix_stride(e->a, kind, number, &x))
            return false;
        *stride = x * e->value;
        return true;
    case IX_FLOORDIV:
    case IX_MOD:
        return false;
    case IX_CONST:
    case IX_DIM:
    case IX_SYMBOL:
    case IX_RUNTIME:
        *stride = 1;
        return true;
    }
    return false;
}

/* What becomes of a variable: NULL leaves it alone. */
typedef const IndexExpr *ReplaceFn(const void *user, const IndexExpr *variable);

static const IndexExpr *rewrite(IndexContext *cx, const IndexExpr *e, ReplaceFn *replace,
                                const void *user)
{
    switch (e->kind) {
    case IX_CONST:
        return e;
    case IX_DIM:
    case IX_SYMBOL:
    case IX_RUNTIME: {
        const IndexExpr *by = replace(user, e);
        return by != NULL ? by : e;
    }
    case IX_ADD:
        return ix_add(cx, rewrite(cx, e->a, replace, user),
                      rewrite(cx, e->b, replace, user));
    case IX_MUL:
        return ix_mul(cx, rewrite(cx, e->a, replace, user), e->value);
    case IX_FLOORDIV:
        return ix_floordiv(cx, rewrite(cx, e->a, replace, user), e->value);
    case IX_MOD:
        return ix_mod(cx, rewrite(cx, e->a, replace, user), e->value);
    }
    bug("an index expression of kind %d", (int)e->kind);
}

typedef struct Numbered {
    IxKind kind;
    uint32_t first, count;
    const IndexExpr *const *by;
} Numbered;

static const IndexExpr *replace_numbered(const void *user, const IndexExpr *variable)
{
    const Numbered *n = user;
    uint64_t at = (uint64_t)variable->value - n->first;
    return variable->kind == n->kind && at < n->count ? n->by[at] : NULL;
}

const IndexExpr *ix_substitute(IndexContext *cx, const IndexExpr *e, IxKind kind,
                               uint32_t count, const IndexExpr *const *by)
{
    Numbered n = {kind, 0, count, by};
    return count == 0 ? e : rewrite(cx, e, replace_numbered, &n);
}

const IndexExpr *ix_replace(IndexContext *cx, const IndexExpr *e, IxKind kind,
                            uint32_t number, const IndexExpr *by)
{
    Numbered n = {kind, number, 1, &by};
    return rewrite(cx, e, replace_numbered, &n);
}

/* A term of the sum that is x mod c, some multiple of it, where that differs from the same multiple of x by a multiple
 * of `of`; NULL: none. */
static const Term *sum_remainder(const Sum *s, int64_t of)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const Term *t = &s->terms[i];
        if (t->expr->kind == IX_MOD && mul_bound(t->factor, t->expr->value) % of == 0)
            return t;
    }
    return NULL;
}

bool ix_is_multiple(const IndexExpr *e, int64_t of)
{
    Sum s = {.count = 0};
    sum_add(&s, e, 1);
    for (const Term *t = sum_remainder(&s, of); t != NULL; t = sum_remainder(&s, of)) {
        Term whole = *t;
        sum_term(&s, whole.expr, -whole.factor);
        sum_add(&s, whole.expr->a, whole.factor);
    }
    bool is_multiple = s.constant % of == 0;
    for (uint32_t i = 0; i < s.count; i++)
        is_multiple &= s.terms[i].factor % of == 0;
    return is_multiple;
}

/* -- memory order ------------------------------------------------------------------------ */

const IndexExpr *index_linear(IndexContext *cx, const Shape *shape,
                              const IndexExpr *const *index)
{
    Sum s = {.count = 0};
    int64_t stride = 1;
    for (uint32_t i = 0; i < shape->rank; i++) {
        int64_t d = shape->layout->minor_to_major[i];
        sum_add(&s, index[d], stride);
        stride = mul_bound(stride, shape->dims[d]);
    }
    return sum_expr(cx, &s);
}

void index_delinear(IndexContext *cx, const Shape *shape, const IndexExpr *linear,
                    const IndexExpr **index)
{
    int64_t stride = 1;
    for (uint32_t i = 0; i < shape->rank; i++) {
        int64_t d = shape->layout->minor_to_major[i], size = shape->dims[d];
        if (size <= 1) {
            index[d] = ix_const(cx, 0);
            continue;
        }
        const IndexExpr *e = ix_floordiv(cx, linear, stride);
        index[d] = ix_mod(cx, e, size);
        stride = mul_bound(stride, size);
    }
}

/* -- text --------------------------------------------------------------------------------- */

static void add_expr(Text *t, const IndexExpr *e)
{
    static const char letters[] = {[IX_DIM] = 'd', [IX_SYMBOL] = 's', [IX_RUNTIME] = 'r'};
    switch (e->kind) {
    case IX_CONST:
        text_int(t, e->value);
        break;
    case IX_DIM:
    case IX_SYMBOL:
    case IX_RUNTIME:
        text_char(t, letters[e->kind]);
        text_int(t, e->value);
        break;
    case IX_ADD:
        add_expr(t, e->a);
        text_string(t, " + ");
        add_expr(t, e->b);
        break;
    case IX_MUL:
    case IX_FLOORDIV:
    case IX_MOD: {
        bool paren = e->a->kind == IX_ADD || e->kind != IX_MUL;
        text_string(t, paren ? "(" : "");
        add_expr(t, e->a);
        if (e->a->kind != IX_ADD && paren && e->kind == IX_MUL)
            text_char(t, ' ');
        text_string(t, e->kind == IX_MUL        ? (paren ? ") * " : " * ")
                       : e->kind == IX_FLOORDIV ? ") floordiv "
                                                : ") mod ");
        text_int(t, e->value);
        break;
    }
    }
}

const char *ix_text(Arena *a, const IndexExpr *e)
{
    Text t;
    text_init(&t, a);
    add_expr(&t, e);
    return t.data;
}
