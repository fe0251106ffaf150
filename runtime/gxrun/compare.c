/* What the results look like, and how far they are from what was wanted. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/gxrun/gxrun.h"
#include "runtime/gxrun/names.h"

static void print_type(const Leaf *leaf)
{
    printf("%s[", dtype_info[leaf->dtype].name);
    for (uint32_t i = 0; i < leaf->rank; i++) {
        printf("%s%" PRId64, i ? "," : "", leaf->dims[i]);
    }
    printf("]");
}

/* Of a complex number its modulus. */
static double modulus(DType dtype, const char *at)
{
    double c[2];
    if (dtype_info[dtype].class != DTC_COMPLEX) {
        return fabs(number_get_double(dtype, at));
    }
    number_get_complex(dtype, at, c);
    return hypot(c[0], c[1]);
}

static void print_range(const Leaf *leaf, const char *data)
{
    const DTypeInfo *info = &dtype_info[leaf->dtype];
    double low = INFINITY;
    double high = -INFINITY;
    size_t nans = 0;
    for (size_t i = 0; i < leaf->elements; i++) {
        const char *at = data + i * info->storage;
        if (number_is_nan(leaf->dtype, at)) {
            nans++;
            continue;
        }
        double x = info->class == DTC_COMPLEX ? modulus(leaf->dtype, at)
                                              : number_get_double(leaf->dtype, at);
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    if (low <= high) {
        printf("  %s%.6g ... %.6g", info->class == DTC_COMPLEX ? "modulus " : "", low,
               high);
    }
    if (nans) {
        printf("  %zu NaN", nans);
    }
}

void compare_summary(const Options *o, const Signature *s, void *const *outputs)
{
    for (size_t d = 0; d < s->devices && !o->quiet; d++) {
        for (size_t i = 0; i < s->result_count; i++) {
            const Leaf *leaf = &s->results[i];
            const char *data = outputs[d * s->result_count + i];
            if (s->replicas * s->partitions > 1) {
                printf("device %zu ", s->first + d);
            }
            printf("result %s ", plain_text(leaf->name));
            print_type(leaf);
            print_range(leaf, data);
            for (size_t k = 0; k < leaf->elements && k < 4; k++) {
                char text[NUMBER_TEXT_MAX];
                number_print(leaf->dtype, data + k * dtype_info[leaf->dtype].storage,
                             true, text);
                printf("%s%s", k ? ", " : leaf->elements > 4 ? "  first " : "  ", text);
            }
            printf("%s\n", leaf->elements > 4 ? ", ..." : "");
        }
    }
}

/* --- comparing -------------------------------------------------------------------------------- */

typedef struct Worst {
    size_t wrong; /* elements beyond the tolerance */
    size_t at;    /* the worst of them, or of all */
    double difference;
    double excess; /* difference / allowed */
} Worst;

/* NaN meets NaN, infinity the same infinity; else |got - want| <= allowed. */
static bool component_close(double got, double want, double allowed,
                            double *out_difference, double *out_excess)
{
    *out_difference = 0;
    *out_excess = 0;
    if (isnan(want) || isnan(got) || isinf(want) || isinf(got)) {
        bool same = (isnan(want) && isnan(got)) || want == got;
        *out_difference = same ? 0 : INFINITY;
        *out_excess = *out_difference;
        return same || isinf(allowed);
    }
    *out_difference = fabs(got - want);
    *out_excess = *out_difference == 0 ? 0
                  : allowed > 0        ? *out_difference / allowed
                                       : INFINITY;
    return *out_difference <= allowed;
}

/* Of numbers that a double may not tell apart: the difference of their bits is that of the integers. */
static double integer_difference(DType dtype, const char *got, const char *want)
{
    uint64_t g, w;
    memcpy(&g, got, sizeof g);
    memcpy(&w, want, sizeof w);
    bool is_above = dtype_info[dtype].class == DTC_SINT ? (int64_t)g > (int64_t)w : g > w;
    return (double)(is_above ? g - w : w - g);
}

/* `more`: what is allowed beside the tolerance. */
static bool element_close(DType dtype, const char *got, const char *want, Tolerance t,
                          double more, double *out_difference, double *out_excess)
{
    const DTypeInfo *info = &dtype_info[dtype];
    if (info->class == DTC_COMPLEX) {
        double g[2];
        double w[2];
        double other[2];
        number_get_complex(dtype, got, g);
        number_get_complex(dtype, want, w);
        double scale = hypot(isfinite(w[0]) ? w[0] : 0, isfinite(w[1]) ? w[1] : 0);
        double allowed = t.atol + t.rtol * scale + more;
        bool re = component_close(g[0], w[0], allowed, out_difference, out_excess);
        bool im = component_close(g[1], w[1], allowed, &other[0], &other[1]);
        *out_difference = fmax(*out_difference, other[0]);
        *out_excess = fmax(*out_excess, other[1]);
        return re && im;
    }
    double g = number_get_double(dtype, got);
    double w = number_get_double(dtype, want);
    double allowed = t.atol + t.rtol * (isfinite(w) ? fabs(w) : 0) + more;
    if (info->class != DTC_FLOAT) {
        bool same = memcmp(got, want, info->storage) == 0;
        *out_difference = info->storage == sizeof(uint64_t)
                              ? integer_difference(dtype, got, want)
                              : fabs(g - w);
        *out_excess = same ? 0 : INFINITY;
        return same || *out_difference <= allowed;
    }
    return component_close(g, w, allowed, out_difference, out_excess);
}

/* --- what rounding does ------------------------------------------------------------------------ */

/* Times the largest move that was seen: of few roundings, and with the reference's sums, which
 * keep more digits than a GPU's. */
enum { MOVES_ALLOWED = 8 };

double **compare_moves(const Signature *s)
{
    size_t count = s->devices * s->result_count;
    double **moves = allocate(count, sizeof *moves);
    for (size_t i = 0; i < count; i++) {
        moves[i] = allocate(s->results[i % s->result_count].elements, sizeof **moves);
    }
    return moves;
}

/* How far two numbers are apart: infinitely far where one is not finite and the other another. */
static double distance(DType dtype, const char *x, const char *y)
{
    double difference = 0;
    double excess = 0;
    element_close(dtype, x, y, (Tolerance){0}, 0, &difference, &excess);
    return difference;
}

void compare_add_moves(const Signature *s, double **moves, void *const *wanted,
                       void *const *other)
{
    for (size_t k = 0; k < s->devices * s->result_count; k++) {
        const Leaf *leaf = &s->results[k % s->result_count];
        size_t size = dtype_info[leaf->dtype].storage;
        for (size_t i = 0; i < leaf->elements; i++) {
            double d = distance(leaf->dtype, (const char *)wanted[k] + i * size,
                                (const char *)other[k] + i * size);
            moves[k][i] = fmax(moves[k][i], d);
        }
    }
}

/* Of the whole array: an element that has not moved by chance may move as far as the others. */
static double root_mean_square(const double *moves, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += isfinite(moves[i]) ? moves[i] * moves[i] : 0;
    }
    return n ? sqrt(sum / (double)n) : 0;
}

static Worst compare_leaf(const Leaf *leaf, const char *got, const char *want,
                          Tolerance t, const double *moves)
{
    Worst worst = {0};
    const DTypeInfo *info = &dtype_info[leaf->dtype];
    bool is_whole = info->class != DTC_FLOAT && info->class != DTC_COMPLEX;
    double least = moves && !is_whole ? root_mean_square(moves, leaf->elements) : 0;
    for (size_t i = 0; i < leaf->elements; i++) {
        double difference;
        double excess;
        double more = !moves     ? 0
                      : is_whole ? moves[i]
                                 : fmax(MOVES_ALLOWED * moves[i], least);
        bool ok = element_close(leaf->dtype, got + i * info->storage,
                                want + i * info->storage, t, more, &difference, &excess);
        if ((!ok && worst.wrong == 0) ||
            (excess > worst.excess && (!ok || !worst.wrong))) {
            worst.at = i;
            worst.difference = difference;
            worst.excess = excess;
        }
        worst.wrong += !ok;
    }
    return worst;
}

static void print_index(const Leaf *leaf, size_t at)
{
    int64_t index[64];
    for (uint32_t k = leaf->rank; k-- > 0;) {
        index[k] = (int64_t)(at % (size_t)leaf->dims[k]);
        at /= (size_t)leaf->dims[k];
    }
    printf("[");
    for (uint32_t k = 0; k < leaf->rank; k++) {
        printf("%s%" PRId64, k ? "," : "", index[k]);
    }
    printf("]");
}

static void print_worst(const Leaf *leaf, const char *got, const char *want,
                        const Worst *w, Tolerance t, const double *moves)
{
    size_t size = dtype_info[leaf->dtype].storage;
    printf("%s", w->wrong ? "DIFFERS" : "equal");
    if (t.rtol != 0 || t.atol != 0) {
        printf(" within rtol %g, atol %g%s", t.rtol, t.atol,
               moves ? " and what rounding does" : "");
    }
    if (w->wrong) {
        printf(": %zu of %zu elements", w->wrong, leaf->elements);
    }
    if (w->difference > 0) {
        char a[NUMBER_TEXT_MAX];
        char b[NUMBER_TEXT_MAX];
        number_print(leaf->dtype, got + w->at * size, true, a);
        number_print(leaf->dtype, want + w->at * size, true, b);
        printf("; worst at ");
        print_index(leaf, w->at);
        printf(": %s, wanted %s, difference %.3g", a, b, w->difference);
        if (moves) {
            printf(", allowed %.3g", w->difference / w->excess);
        }
    }
    printf("\n");
}

/* How far the array is from what was wanted, over all its elements; nothing if they are the same. */
static void print_statistics(const Leaf *leaf, const char *got, const char *want)
{
    size_t size = dtype_info[leaf->dtype].storage;
    size_t other = 0, finite = 0;
    double sum = 0, squares = 0, wanted = 0, most = 0;
    for (size_t i = 0; i < leaf->elements; i++) {
        const char *w = want + i * size;
        double d = distance(leaf->dtype, got + i * size, w);
        double magnitude = modulus(leaf->dtype, w);
        other += d != 0;
        if (!isfinite(d) || !isfinite(magnitude)) {
            continue;
        }
        finite++;
        sum += d;
        squares += d * d;
        wanted += magnitude * magnitude;
        most = magnitude > 0 ? fmax(most, d / magnitude) : most;
    }
    if (other == 0) {
        return;
    }
    printf("  %zu of %zu elements are other numbers", other, leaf->elements);
    if (finite) {
        printf("; difference: mean %.3g, root mean square %.3g", sum / (double)finite,
               sqrt(squares / (double)finite));
        if (wanted > 0) {
            printf(" (%.3g of the array's), relative at most %.3g",
                   sqrt(squares / wanted), most);
        }
    }
    printf("\n");
}

bool compare_results(const Options *o, const Signature *s, void *const *outputs,
                     void *const *wanted, double *const *moves, bool prints)
{
    bool equal = true;
    for (size_t d = 0; d < s->devices; d++) {
        for (size_t i = 0; i < s->result_count; i++) {
            const Leaf *leaf = &s->results[i];
            const char *got = outputs[d * s->result_count + i];
            const char *want = wanted[d * s->result_count + i];
            const double *move = moves ? moves[d * s->result_count + i] : NULL;
            if (!want) {
                continue;
            }
            Tolerance t = number_tolerance(leaf->dtype);
            t.rtol = o->has_rtol ? o->rtol : t.rtol;
            t.atol = o->has_atol ? o->atol : t.atol;
            Worst worst = compare_leaf(leaf, got, want, t, move);
            equal &= worst.wrong == 0;
            if (!prints) {
                continue;
            }
            if (s->replicas * s->partitions > 1) {
                printf("device %zu ", s->first + d);
            }
            printf("compare %s ", plain_text(leaf->name));
            print_type(leaf);
            printf(": ");
            print_worst(leaf, got, want, &worst, t, move);
            print_statistics(leaf, got, want);
        }
    }
    return equal;
}
