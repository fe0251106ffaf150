/* Special functions: the gamma function and its relatives, the error function's inverse and complement,
 * Bessel's i1e, next_after. Coefficients are those of Lanczos (g = 7, n = 9), of Giles, "Approximating the erfinv
 * function" (2010), and of Moshier's Cephes library. */
#include "frontend/stablehlo/math.h"
#include "ir/dtype.h"

/* -- writing formulas ----------------------------------------------------------------------- */

static Instruction *k(Math *m, double value)
{
    return make_splat(m->c, m->shape, value);
}

static Instruction *op1(Math *m, OpCode op, Instruction *a)
{
    return make1(m->c, op, m->shape, a);
}

static Instruction *op2(Math *m, OpCode op, Instruction *a, Instruction *b)
{
    return make2(m->c, op, m->shape, a, b);
}

static Instruction *add(Math *m, Instruction *a, Instruction *b)
{
    return op2(m, OP_ADD, a, b);
}

static Instruction *sub(Math *m, Instruction *a, Instruction *b)
{
    return op2(m, OP_SUBTRACT, a, b);
}

static Instruction *mul(Math *m, Instruction *a, Instruction *b)
{
    return op2(m, OP_MULTIPLY, a, b);
}

static Instruction *quotient(Math *m, Instruction *a, Instruction *b)
{
    return op2(m, OP_DIVIDE, a, b);
}

static Instruction *negative(Math *m, Instruction *a)
{
    return op1(m, OP_NEGATE, a);
}

static Instruction *is(Math *m, int64_t direction, Instruction *a, Instruction *b)
{
    const Shape *s = shape_with_dtype(m->c->intern, m->shape, DT_PRED);
    Instruction *inst = make2(m->c, OP_COMPARE, s, a, b);
    if (inst != NULL)
        inst_set_int(inst, ATTR_DIRECTION, direction);
    return inst;
}

static Instruction *both(Math *m, Instruction *a, Instruction *b)
{
    return make2(m->c, OP_AND, shape_with_dtype(m->c->intern, m->shape, DT_PRED), a, b);
}

static Instruction *choose(Math *m, Instruction *p, Instruction *a, Instruction *b)
{
    Instruction *operands[] = {p, a, b};
    return make(m->c, OP_SELECT, m->shape, 3, operands);
}

/* c[0] x^(n-1) + ... + c[n-1] */
static Instruction *polynomial(Math *m, Instruction *x, const double *c, size_t n)
{
    Instruction *sum = k(m, c[0]);
    for (size_t i = 1; i < n; i++)
        sum = add(m, mul(m, sum, x), k(m, c[i]));
    return sum;
}
#define POLYNOMIAL(m, x, c) polynomial(m, x, c, sizeof(c) / sizeof *(c))

/* Clenshaw's sum of a series of Chebyshev polynomials of x / 2, highest first. */
static Instruction *chebyshev(Math *m, Instruction *x, const double *c, size_t n)
{
    Instruction *b0 = k(m, c[0]), *b1 = k(m, 0), *b2 = b1;
    for (size_t i = 1; i < n; i++) {
        b2 = b1;
        b1 = b0;
        b0 = add(m, sub(m, mul(m, x, b1), b2), k(m, c[i]));
    }
    return mul(m, sub(m, b0, b2), k(m, 0.5));
}
#define CHEBYSHEV(m, x, c) chebyshev(m, x, c, sizeof(c) / sizeof *(c))

static bool is_wide(const Math *m)
{
    return m->shape->dtype == DT_F64;
}

static bool are_floats(Converter *c, const Instruction *a)
{
    if (a != NULL && shape_is_array(a->shape) && dtype_is_float(a->shape->dtype))
        return true;
    if (a != NULL)
        convert_unsupported(c, "%s of %s", c->op->name,
                            shape_text(c->scratch, a->shape, false));
    return false;
}

Instruction *math_unary(Converter *c, Instruction *x, UnaryMathFn *function)
{
    if (!are_floats(c, x))
        return NULL;
    DType t = x->shape->dtype, wide = t == DT_F64 ? DT_F64 : DT_F32;
    Math m = {c, shape_with_dtype(c->intern, x->shape, wide)};
    return make_convert(c, function(&m, make_convert(c, x, wide)), t);
}

Instruction *math_binary(Converter *c, Instruction *a, Instruction *b,
                         BinaryMathFn *function)
{
    if (!are_floats(c, a) || !are_floats(c, b))
        return NULL;
    if (a->shape != b->shape)
        return convert_error(c, "%s is of two arrays of one type, not %s and %s",
                             c->op->name, shape_text(c->scratch, a->shape, false),
                             shape_text(c->scratch, b->shape, false));
    DType t = a->shape->dtype, wide = t == DT_F64 ? DT_F64 : DT_F32;
    Math m = {c, shape_with_dtype(c->intern, a->shape, wide)};
    return make_convert(
        c, function(&m, make_convert(c, a, wide), make_convert(c, b, wide)), t);
}

/* -- the gamma function ---------------------------------------------------------------------- */

#define PI 3.14159265358979323846
#define LANCZOS_G 7.0
static const double lanczos[] = {
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,   -176.61502916214059906584551354,
    12.507343278686904814458936853,     -0.13857109526572011689554707,
    9.984369578019570859563e-6,         1.50563273514931155834e-7};
#define LANCZOS_BASE 0.99999999999980993227684700473478

/* x < 1/2 is reflected: z = -x, else x - 1. */
static Instruction *lanczos_argument(Math *m, Instruction *x, Instruction **reflects)
{
    *reflects = is(m, DIRECTION_LT, x, k(m, 0.5));
    return choose(m, *reflects, negative(m, x), sub(m, x, k(m, 1)));
}

/* log(z + g + 1/2), exact for small z */
static Instruction *log_shifted(Math *m, Instruction *z)
{
    double shift = LANCZOS_G + 0.5;
    Instruction *part = op1(m, OP_LOG_PLUS_ONE, quotient(m, z, k(m, shift)));
    return add(m, k(m, log(shift)), part);
}

/* (z + 1/2 - t / log t) log t + log(sqrt(2 pi) sum), t = z + g + 1/2 */
static Instruction *lgamma_above(Math *m, Instruction *z)
{
    Instruction *sum = k(m, LANCZOS_BASE);
    for (size_t i = 0; i < sizeof lanczos / sizeof *lanczos; i++)
        sum =
            add(m, sum, quotient(m, k(m, lanczos[i]), add(m, z, k(m, (double)(i + 1)))));
    Instruction *t = add(m, k(m, LANCZOS_G + 0.5), z), *log_t = log_shifted(m, z);
    Instruction *power = sub(m, add(m, z, k(m, 0.5)), quotient(m, t, log_t));
    return add(m, add(m, k(m, 0.5 * log(2 * PI)), mul(m, power, log_t)),
               op1(m, OP_LOG, sum));
}

/* log(pi / |sin(pi x)|) - lgamma(1 - x) below 1/2; at the poles the sine decides. */
Instruction *math_lgamma(Math *m, Instruction *x)
{
    Instruction *reflects, *z = lanczos_argument(m, x, &reflects);
    Instruction *above = lgamma_above(m, z);
    Instruction *size = op1(m, OP_ABS, x), *part = sub(m, size, op1(m, OP_FLOOR, size));
    part = choose(m, is(m, DIRECTION_GT, part, k(m, 0.5)), sub(m, k(m, 1), part), part);
    Instruction *sine = op1(m, OP_LOG, op1(m, OP_SINE, mul(m, k(m, PI), part)));
    Instruction *below = sub(m, sub(m, k(m, log(PI)), sine), above);
    Instruction *finite = make1(m->c, OP_IS_FINITE,
                                shape_with_dtype(m->c->intern, m->shape, DT_PRED), sine);
    below = choose(m, finite, below, negative(m, sine));
    Instruction *infinite = is(m, DIRECTION_EQ, size, k(m, (double)INFINITY));
    return choose(m, infinite, k(m, (double)INFINITY), choose(m, reflects, below, above));
}

/* The logarithmic derivative of the same sum; pi cot(pi x) less below 1/2. */
Instruction *math_digamma(Math *m, Instruction *x)
{
    Instruction *reflects, *z = lanczos_argument(m, x, &reflects);
    Instruction *sum = k(m, LANCZOS_BASE), *slope = k(m, 0);
    for (size_t i = 0; i < sizeof lanczos / sizeof *lanczos; i++) {
        Instruction *at = add(m, z, k(m, (double)(i + 1))), *c = k(m, lanczos[i]);
        slope = sub(m, slope, quotient(m, c, mul(m, at, at)));
        sum = add(m, sum, quotient(m, c, at));
    }
    Instruction *t = add(m, k(m, LANCZOS_G + 0.5), z);
    Instruction *above = add(m, log_shifted(m, z), quotient(m, slope, sum));
    above = sub(m, above, quotient(m, k(m, LANCZOS_G), t));
    Instruction *whole = op1(m, OP_ABS, op1(m, OP_FLOOR, add(m, x, k(m, 0.5))));
    Instruction *angle = mul(m, k(m, PI), add(m, x, whole));
    Instruction *cotangent =
        quotient(m, mul(m, k(m, PI), op1(m, OP_COSINE, angle)), op1(m, OP_SINE, angle));
    Instruction *y = choose(m, reflects, sub(m, above, cotangent), above);
    Instruction *pole = both(m, is(m, DIRECTION_LE, x, k(m, 0)),
                             is(m, DIRECTION_EQ, x, op1(m, OP_FLOOR, x)));
    return choose(m, pole, k(m, (double)NAN), y);
}

/* Euler and Maclaurin: sum of (q + i)^-x for i < 10, the integral from there, and corrections
 * B_2j / (2j)! x (x + 1) ... (x + 2j - 2) a^(-x - 2j + 1), a = q + 10. */
Instruction *math_zeta(Math *m, Instruction *x, Instruction *q)
{
    enum { TERMS = 10 };
    static const double factors[] = {/* (2j)! / B_2j */
                                     12.0,
                                     -720.0,
                                     30240.0,
                                     -1209600.0,
                                     47900160.0,
                                     -1.8924375803183791606e9,
                                     7.47242496e10,
                                     -2.950130727918164224e12,
                                     1.1646782814350067249e14,
                                     -4.5979787224074726105e15,
                                     1.8152105401943546773e17,
                                     -7.1661652561756670113e18};
    Instruction *exponent = negative(m, x), *sum = NULL;
    for (int i = 0; i < TERMS; i++) {
        Instruction *term = op2(m, OP_POWER, add(m, q, k(m, i)), exponent);
        sum = sum == NULL ? term : add(m, sum, term);
    }
    Instruction *a = add(m, q, k(m, TERMS)), *power = op2(m, OP_POWER, a, exponent);
    Instruction *below = sub(m, x, k(m, 1)); /* a^(1 - x) is a number where a^-x is 0 */
    Instruction *last = mul(m, k(m, is_wide(m) ? 0x1p-53 : 0x1p-24), op1(m, OP_ABS, sum));
    Instruction *settled = is(m, DIRECTION_LE, op1(m, OP_ABS, power), last);
    sum = add(m, sum, quotient(m, op2(m, OP_POWER, a, negative(m, below)), below));
    Instruction *uncorrected = sum;
    sum = add(m, sum, mul(m, k(m, 0.5), power));
    Instruction *rising = x, *term = quotient(m, power, a), *square = mul(m, a, a);
    for (size_t j = 0; j < sizeof factors / sizeof *factors; j++) {
        sum = add(m, sum, quotient(m, mul(m, rising, term), k(m, factors[j])));
        double at = 2 * (double)j;
        rising = mul(m, mul(m, rising, add(m, x, k(m, at + 1))), add(m, x, k(m, at + 2)));
        term = quotient(m, term, square);
    }
    sum = choose(m, settled, uncorrected, sum); /* else 0 times what overflows */
    Instruction *nan = k(m, (double)NAN), *zero = k(m, 0);
    Instruction *low_q = is(m, DIRECTION_LE, q, zero);
    Instruction *fraction = is(m, DIRECTION_NE, x, op1(m, OP_FLOOR, x));
    Instruction *half = mul(m, x, k(m, 0.5));
    Instruction *even = is(m, DIRECTION_EQ, half, op1(m, OP_FLOOR, half));
    Instruction *pole = both(m, low_q, is(m, DIRECTION_EQ, q, op1(m, OP_FLOOR, q)));
    sum = choose(m, both(m, low_q, fraction), nan, sum);
    sum = choose(m, pole, choose(m, even, k(m, (double)INFINITY), nan), sum);
    sum = choose(m, is(m, DIRECTION_LT, x, k(m, 1)), nan, sum);
    return choose(m, is(m, DIRECTION_EQ, x, k(m, 1)), k(m, (double)INFINITY), sum);
}

/* (-1)^(n+1) n! zeta(n + 1, x), digamma for 0 */
Instruction *math_polygamma(Math *m, Instruction *n, Instruction *x)
{
    Instruction *next = add(m, n, k(m, 1)), *zero = k(m, 0);
    Instruction *size = op1(m, OP_EXPONENTIAL, math_lgamma(m, next));
    Instruction *half = mul(m, n, k(m, 0.5));
    Instruction *even = is(m, DIRECTION_EQ, half, op1(m, OP_FLOOR, half));
    Instruction *sign = choose(m, even, k(m, -1), k(m, 1));
    Instruction *y = mul(m, mul(m, sign, size), math_zeta(m, next, x));
    y = choose(m, is(m, DIRECTION_NE, n, op1(m, OP_FLOOR, n)), k(m, (double)NAN), y);
    y = choose(m, is(m, DIRECTION_LT, n, zero), k(m, (double)NAN), y);
    return choose(m, is(m, DIRECTION_EQ, n, zero), math_digamma(m, x), y);
}

/* -- the error function ---------------------------------------------------------------------- */

/* x P(w), w = -log(1 - x^2); P for small w, and of its root. */
static Instruction *erf_inv_narrow(Math *m, Instruction *x, Instruction *w)
{
    static const double near[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                  -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                  -0.00417768164,  0.246640727,    1.50140941};
    static const double far[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                 -0.00367342844,  0.00573950773,  -0.0076224613,
                                 0.00943887047,   1.00167406,     2.83297682};
    Instruction *small = is(m, DIRECTION_LT, w, k(m, 5));
    Instruction *close = POLYNOMIAL(m, sub(m, w, k(m, 2.5)), near);
    Instruction *distant = POLYNOMIAL(m, sub(m, op1(m, OP_SQRT, w), k(m, 3)), far);
    return mul(m, choose(m, small, close, distant), x);
}

static Instruction *erf_inv_wide(Math *m, Instruction *x, Instruction *w)
{
    static const double near[] = {-3.6444120640178196996e-21, -1.685059138182016589e-19,
                                  1.2858480715256400167e-18,  1.115787767802518096e-17,
                                  -1.333171662854620906e-16,  2.0972767875968561637e-17,
                                  6.6376381343583238325e-15,  -4.0545662729752068639e-14,
                                  -8.1519341976054721522e-14, 2.6335093153082322977e-12,
                                  -1.2975133253453532498e-11, -5.4154120542946279317e-11,
                                  1.051212273321532285e-09,   -4.1126339803469836976e-09,
                                  -2.9070369957882005086e-08, 4.2347877827932403518e-07,
                                  -1.3654692000834678645e-06, -1.3882523362786468719e-05,
                                  0.0001867342080340571352,   -0.00074070253416626697512,
                                  -0.0060336708714301490533,  0.24015818242558961693,
                                  1.6536545626831027356};
    static const double middle[] = {
        2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
        1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
        2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
        6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
        0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
        -0.0037512085075692412107, 0.005370914553590063617,   1.0052589676941592334,
        3.0838856104922207635};
    static const double far[] = {-2.7109920616438573243e-11, -2.5556418169965252055e-10,
                                 1.5076572693500548083e-09,  -3.7894654401267369937e-09,
                                 7.6157012080783393804e-09,  -1.4960026627149240478e-08,
                                 2.9147953450901080826e-08,  -6.7711997758452339498e-08,
                                 2.2900482228026654717e-07,  -9.9298272942317002539e-07,
                                 4.5260625972231537039e-06,  -1.9681778105531670567e-05,
                                 7.5995277030017761139e-05,  -0.00021503011930044477347,
                                 -0.00013871931833623122026, 1.0103004648645343977,
                                 4.8499064014085844221};
    Instruction *root = op1(m, OP_SQRT, w);
    Instruction *a = POLYNOMIAL(m, sub(m, w, k(m, 3.125)), near);
    Instruction *b = POLYNOMIAL(m, sub(m, root, k(m, 3.25)), middle);
    Instruction *c = POLYNOMIAL(m, sub(m, root, k(m, 5)), far);
    Instruction *p = choose(m, is(m, DIRECTION_LT, w, k(m, 16)), b, c);
    return mul(m, choose(m, is(m, DIRECTION_LT, w, k(m, 6.25)), a, p), x);
}

Instruction *math_erf_inv(Math *m, Instruction *x)
{
    Instruction *w = negative(m, op1(m, OP_LOG_PLUS_ONE, mul(m, x, negative(m, x))));
    Instruction *y = is_wide(m) ? erf_inv_wide(m, x, w) : erf_inv_narrow(m, x, w);
    Instruction *end = is(m, DIRECTION_EQ, op1(m, OP_ABS, x), k(m, 1));
    return choose(m, end, mul(m, x, k(m, (double)INFINITY)), y);
}

/* exp(-x^2) / |x| P(1 / x^2) */
static Instruction *erfc_narrow(Math *m, Instruction *size, Instruction *e)
{
    static const double near[] = {
        +2.326819970068386e-2, -1.387039388740657e-1, +3.687424674597105e-1,
        -5.824733027278666e-1, +6.210004621745983e-1, -4.944515323274145e-1,
        +3.404879937665872e-1, -2.741127028184656e-1, +5.638259427386472e-1};
    static const double far[] = {-1.047766399936249e+1, +1.297719955372516e+1,
                                 -7.495518717768503e+0, +2.921019019210786e+0,
                                 -1.015265279202700e+0, +4.218463358204948e-1,
                                 -2.820767439740514e-1, +5.641895067754075e-1};
    Instruction *inverse = quotient(m, k(m, 1), mul(m, size, size));
    Instruction *p = choose(m, is(m, DIRECTION_LT, size, k(m, 2)),
                            POLYNOMIAL(m, inverse, near), POLYNOMIAL(m, inverse, far));
    return mul(m, mul(m, e, quotient(m, k(m, 1), size)), p);
}

/* exp(-x^2) P(|x|) / Q(|x|) */
static Instruction *erfc_wide(Math *m, Instruction *size, Instruction *e)
{
    static const double p[] = {
        2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0,
        4.86371970985681366614e1,   1.96520832956077098242e2,  5.26445194995477358631e2,
        9.34528527171957607540e2,   1.02755188689515710272e3,  5.57535335369399327526e2};
    static const double q[] = {
        1.00000000000000000000e0, 1.32281951154744992508e1, 8.67072140885989742329e1,
        3.54937778887819891062e2, 9.75708501743205489753e2, 1.82390916687909736289e3,
        2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2};
    static const double r[] = {5.64189583547755073984e-1, 1.27536670759978104416e0,
                               5.01905042251180477414e0,  6.16021097993053585195e0,
                               7.40974269950448939160e0,  2.97886665372100240670e0};
    static const double s[] = {1.00000000000000000000e0, 2.26052863220117276590e0,
                               9.39603524938001434673e0, 1.20489539808096656605e1,
                               1.70814450747565897222e1, 9.60896809063285878198e0,
                               3.36907645100081516050e0};
    Instruction *near =
        quotient(m, mul(m, e, POLYNOMIAL(m, size, p)), POLYNOMIAL(m, size, q));
    Instruction *far =
        quotient(m, mul(m, e, POLYNOMIAL(m, size, r)), POLYNOMIAL(m, size, s));
    return choose(m, is(m, DIRECTION_LT, size, k(m, 8)), near, far);
}

Instruction *math_erfc(Math *m, Instruction *x)
{
    double least = is_wide(m) ? -7.09782712893383996843e2 : -88.72283905206835;
    Instruction *size = op1(m, OP_ABS, x), *z = negative(m, mul(m, x, x));
    Instruction *e = op1(m, OP_EXPONENTIAL, z);
    Instruction *y = is_wide(m) ? erfc_wide(m, size, e) : erfc_narrow(m, size, e);
    y = choose(m, is(m, DIRECTION_LT, z, k(m, least)), k(m, 0), y);
    y = choose(m, is(m, DIRECTION_LT, x, k(m, 0)), sub(m, k(m, 2), y), y);
    Instruction *inner = sub(m, k(m, 1), op1(m, OP_ERF, x));
    return choose(m, is(m, DIRECTION_LT, size, k(m, 1)), inner, y);
}

/* -- Bessel ---------------------------------------------------------------------------------- */

static Instruction *bessel_parts(Math *m, Instruction *size, Instruction *near,
                                 Instruction *far)
{
    return choose(m, is(m, DIRECTION_LE, size, k(m, 8)), mul(m, size, near),
                  quotient(m, far, op1(m, OP_SQRT, size)));
}

static Instruction *i1e_narrow(Math *m, Instruction *size, Instruction *low,
                               Instruction *high)
{
    static const double near[] = {9.38153738649577178388e-9, -4.44505912879632808065e-8,
                                  2.00329475355213526229e-7, -8.56872026469545474066e-7,
                                  3.47025130813767847674e-6, -1.32731636560394358279e-5,
                                  4.78156510755005422638e-5, -1.61760815825896745588e-4,
                                  5.12285956168575772895e-4, -1.51357245063125314899e-3,
                                  4.15642294431288815669e-3, -1.05640848946261981558e-2,
                                  2.47264490306265168283e-2, -5.29459812080949914269e-2,
                                  1.02643658689847095384e-1, -1.76416518357834055153e-1,
                                  2.52587186443633654823e-1};
    static const double far[] = {-3.83538038596423702205e-9, -2.63146884688951950684e-8,
                                 -2.51223623787020892529e-7, -3.88256480887769039346e-6,
                                 -1.10588938762623716291e-4, -9.76109749136146840777e-3,
                                 7.78576235018280120474e-1};
    return bessel_parts(m, size, CHEBYSHEV(m, low, near), CHEBYSHEV(m, high, far));
}

static Instruction *i1e_wide(Math *m, Instruction *size, Instruction *low,
                             Instruction *high)
{
    static const double near[] = {2.77791411276104639959e-18, -2.11142121435816608115e-17,
                                  1.55363195773620046921e-16, -1.10559694773538630805e-15,
                                  7.60068429473540693410e-15, -5.04218550472791168711e-14,
                                  3.22379336594557470981e-13, -1.98397439776494371520e-12,
                                  1.17361862988909016308e-11, -6.66348972350202774223e-11,
                                  3.62559028155211703701e-10, -1.88724975172282928790e-9,
                                  9.38153738649577178388e-9,  -4.44505912879632808065e-8,
                                  2.00329475355213526229e-7,  -8.56872026469545474066e-7,
                                  3.47025130813767847674e-6,  -1.32731636560394358279e-5,
                                  4.78156510755005422638e-5,  -1.61760815825896745588e-4,
                                  5.12285956168575772895e-4,  -1.51357245063125314899e-3,
                                  4.15642294431288815669e-3,  -1.05640848946261981558e-2,
                                  2.47264490306265168283e-2,  -5.29459812080949914269e-2,
                                  1.02643658689847095384e-1,  -1.76416518357834055153e-1,
                                  2.52587186443633654823e-1};
    static const double far[] = {7.51729631084210481353e-18,  4.41434832307170791151e-18,
                                 -4.65030536848935832153e-17, -3.20952592199342395980e-17,
                                 2.96262899764595013876e-16,  3.30820231092092828324e-16,
                                 -1.88035477551078244854e-15, -3.81440307243700780478e-15,
                                 1.04202769841288027642e-14,  4.27244001671195135429e-14,
                                 -2.10154184277266431302e-14, -4.08355111109219731823e-13,
                                 -7.19855177624590851209e-13, 2.03562854414708950722e-12,
                                 1.41258074366137813316e-11,  3.25260358301548823856e-11,
                                 -1.89749581235054123450e-11, -5.58974346219658380687e-10,
                                 -3.83538038596423702205e-9,  -2.63146884688951950684e-8,
                                 -2.51223623787020892529e-7,  -3.88256480887769039346e-6,
                                 -1.10588938762623716291e-4,  -9.76109749136146840777e-3,
                                 7.78576235018280120474e-1};
    return bessel_parts(m, size, CHEBYSHEV(m, low, near), CHEBYSHEV(m, high, far));
}

/* exp(-|x|) I1(x) */
Instruction *math_bessel_i1e(Math *m, Instruction *x)
{
    Instruction *size = op1(m, OP_ABS, x);
    Instruction *low = sub(m, mul(m, k(m, 0.5), size), k(m, 2));
    Instruction *high = sub(m, quotient(m, k(m, 32), size), k(m, 2));
    Instruction *y =
        is_wide(m) ? i1e_wide(m, size, low, high) : i1e_narrow(m, size, low, high);
    return mul(m, op1(m, OP_SIGN, x), y);
}

/* -- neighbours ------------------------------------------------------------------------------ */

/* The codes of floats of one sign are in the order of their sizes: one more or less is the neighbour. */
Instruction *math_next_after(Converter *c, Instruction *x, Instruction *y)
{
    if (!are_floats(c, x) || !are_floats(c, y))
        return NULL;
    if (x->shape != y->shape)
        return convert_error(c, "next_after is of two arrays of one type");
    DType t = x->shape->dtype;
    unsigned bits = dtype_info[t].bits;
    DType code = bits == 64   ? DT_S64
                 : bits == 32 ? DT_S32
                 : bits == 16 ? DT_S16
                              : DT_INVALID;
    if (code == DT_INVALID)
        return convert_unsupported(c, "next_after of %s", dtype_name(t));
    Math f = {c, x->shape}, i = {c, shape_with_dtype(c->intern, x->shape, code)};
    int64_t sign = bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1));
    Instruction *sign_bit = make_broadcast(c, make_int_scalar(c, code, sign), i.shape);
    Instruction *others = make_broadcast(c, make_int_scalar(c, code, ~sign), i.shape);
    Instruction *a = make1(c, OP_BITCAST_CONVERT, i.shape, x);
    Instruction *b = make1(c, OP_BITCAST_CONVERT, i.shape, y);
    Instruction *size_a = op2(&i, OP_AND, a, others),
                *size_b = op2(&i, OP_AND, b, others);
    Instruction *sign_a = op2(&i, OP_AND, a, sign_bit),
                *sign_b = op2(&i, OP_AND, b, sign_bit);
    Instruction *smaller =
        make2(c, OP_OR, shape_with_dtype(c->intern, x->shape, DT_PRED),
              is(&i, DIRECTION_GT, size_a, size_b), is(&i, DIRECTION_NE, sign_a, sign_b));
    Instruction *next = add(&i, a, choose(&i, smaller, k(&i, -1), k(&i, 1)));
    Instruction *zero = k(&i, 0);
    Instruction *from_zero = choose(&i, is(&i, DIRECTION_EQ, size_b, zero), b,
                                    op2(&i, OP_OR, sign_b, k(&i, 1)));
    next = choose(&i, is(&i, DIRECTION_EQ, size_a, zero), from_zero, next);
    next = choose(&i, is(&f, DIRECTION_EQ, x, y), b, next);
    Instruction *nan = make2(c, OP_OR, shape_with_dtype(c->intern, x->shape, DT_PRED),
                             is(&f, DIRECTION_NE, x, x), is(&f, DIRECTION_NE, y, y));
    next = make1(c, OP_BITCAST_CONVERT, f.shape, next);
    return choose(&f, nan, k(&f, (double)NAN), next);
}
