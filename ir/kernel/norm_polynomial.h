/* Polynomials in what a norm's gradient is made of, with numbers before their terms: two ways of writing the same value have
 * the same polynomial, however sums and factors are put together. Half powers of the variance are allowed, negative ones
 * too: 1 / sqrt(v) is POLY_ROOT to the power of -1. */
#ifndef GXC_IR_KERNEL_NORM_POLYNOMIAL_H
#define GXC_IR_KERNEL_NORM_POLYNOMIAL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    POLY_X,     /* an element */
    POLY_DY,    /* the same element of the result's gradient */
    POLY_SCALE, /* that of its column */
    POLY_ROOT,  /* sqrt(variance + epsilon) of its row */
    POLY_MEAN,  /* of its row, where it is not known what of */
    POLY_SUMS,  /* sums over a row of x^a dy^b scale^c, a up to 2, b and c up to 1 */
    POLY_ATOMS = POLY_SUMS + 3 * 2 * 2,
    POLY_TERMS = 32
};

typedef struct PolyTerm {
    double factor, mass; /* mass: of the factors that were added up, without signs */
    int8_t powers[POLY_ATOMS];
} PolyTerm;

typedef struct Poly {
    uint32_t count;
    PolyTerm terms[POLY_TERMS];
} Poly;

Poly poly_number(double value);
Poly poly_atom(int atom, int power);
/* Each is false where the result has too many terms, or powers that are too large. `out` may be a factor. poly_add
 * makes a + factor * b. */
bool poly_add(const Poly *a, const Poly *b, double factor, Poly *out);
bool poly_multiply(const Poly *a, const Poly *b, Poly *out);
bool poly_divide(const Poly *a, const Poly *b, Poly *out); /* by a number or a root */
bool poly_sum(const Poly *a, int64_t columns, Poly *out);  /* over a row */
bool poly_is_of_rows(const Poly *a); /* the same for all elements of a row */
bool poly_equal(const Poly *a, const Poly *b);

#endif
