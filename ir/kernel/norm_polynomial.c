/* See norm_polynomial.h. */
#include "ir/kernel/norm_polynomial.h"

#include <math.h>
#include <string.h>

enum { MOST_POWER = 12 };

static const double rounding = 1e-5; /* of numbers like 1 / columns, in f32 */

Poly poly_number(double value)
{
    Poly p = {.count = value != 0};
    p.terms[0] = (PolyTerm){.factor = value, .mass = fabs(value)};
    return p;
}

Poly poly_atom(int atom, int power)
{
    Poly p = poly_number(1);
    p.terms[0].powers[atom] = (int8_t)power;
    return p;
}

static bool add_term(Poly *p, const PolyTerm *t, double factor)
{
    for (uint32_t i = 0; i < p->count; i++) {
        PolyTerm *at = &p->terms[i];
        if (memcmp(at->powers, t->powers, sizeof at->powers) == 0) {
            at->factor += factor * t->factor;
            at->mass += fabs(factor) * t->mass;
            return true;
        }
    }
    if (p->count == POLY_TERMS)
        return false;
    p->terms[p->count] = *t;
    p->terms[p->count].factor *= factor;
    p->terms[p->count++].mass *= fabs(factor);
    return true;
}

/* Terms that cancel each other but for rounding go; what is too large to say so stays. */
static void prune(Poly *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const PolyTerm *t = &p->terms[i];
        if (!isfinite(t->mass) || fabs(t->factor) > rounding * t->mass)
            p->terms[n++] = *t;
    }
    p->count = n;
}

bool poly_add(const Poly *a, const Poly *b, double factor, Poly *out)
{
    Poly sum = *a;
    for (uint32_t i = 0; i < b->count; i++) {
        if (!add_term(&sum, &b->terms[i], factor))
            return false;
    }
    prune(&sum);
    *out = sum;
    return true;
}

static bool multiply_terms(const PolyTerm *a, const PolyTerm *b, int sign, PolyTerm *out)
{
    *out = (PolyTerm){.factor = a->factor * b->factor, .mass = a->mass * b->mass};
    for (int i = 0; i < POLY_ATOMS; i++) {
        int power = a->powers[i] + sign * b->powers[i];
        if (power < -MOST_POWER || power > MOST_POWER || (power < 0 && i != POLY_ROOT))
            return false;
        out->powers[i] = (int8_t)power;
    }
    return true;
}

bool poly_multiply(const Poly *a, const Poly *b, Poly *out)
{
    Poly product = {.count = 0};
    for (uint32_t i = 0; i < a->count; i++) {
        for (uint32_t k = 0; k < b->count; k++) {
            PolyTerm t;
            if (!multiply_terms(&a->terms[i], &b->terms[k], 1, &t) ||
                !add_term(&product, &t, 1))
                return false;
        }
    }
    prune(&product);
    *out = product;
    return true;
}

bool poly_divide(const Poly *a, const Poly *b, Poly *out)
{
    if (b->count != 1)
        return false;
    PolyTerm by = b->terms[0];
    by.mass = fabs(1 / by.factor);
    by.factor = 1 / by.factor;
    Poly quotient = {.count = a->count};
    for (uint32_t i = 0; i < a->count; i++) {
        if (!multiply_terms(&a->terms[i], &by, -1, &quotient.terms[i]))
            return false;
    }
    *out = quotient;
    return true;
}

bool poly_sum(const Poly *a, int64_t columns, Poly *out)
{
    Poly sum = {.count = 0};
    for (uint32_t i = 0; i < a->count; i++) {
        PolyTerm t = a->terms[i];
        int x = t.powers[POLY_X], dy = t.powers[POLY_DY], scale = t.powers[POLY_SCALE];
        if (x > 2 || dy > 1 || scale > 1)
            return false;
        t.powers[POLY_X] = t.powers[POLY_DY] = t.powers[POLY_SCALE] = 0;
        if (x + dy + scale != 0)
            t.powers[POLY_SUMS + (x * 2 + dy) * 2 + scale]++;
        if (!add_term(&sum, &t, x + dy + scale != 0 ? 1 : (double)columns))
            return false;
    }
    prune(&sum);
    *out = sum;
    return true;
}

bool poly_is_of_rows(const Poly *a)
{
    bool is_same = true;
    for (uint32_t i = 0; i < a->count; i++) {
        const int8_t *powers = a->terms[i].powers;
        is_same &= powers[POLY_X] == 0 && powers[POLY_DY] == 0 && powers[POLY_SCALE] == 0;
    }
    return is_same;
}

bool poly_equal(const Poly *a, const Poly *b)
{
    Poly difference;
    return poly_add(a, b, -1, &difference) && difference.count == 0;
}
