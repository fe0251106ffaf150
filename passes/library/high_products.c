/* Products of f32 that ask for more than TF32 and less than f32 (operand_precision high, algorithm
 * dot_tf32_tf32_f32_x3 or dot_bf16_bf16_f32_x3) become three products by TF32 where tensor cores are so much faster:
 *
 *   d = f32[4096,4096] dot(a, b), ..., operand_precision={high,high}
 *   ->  ah = a without its last 13 bits     al = a - ah     and the same of b
 *       low = dot(ah, bl) + dot(al, bh)     d = dot(ah, bh) + (low is NaN ? 0 : low)
 *
 * Both parts have as many bits as TF32 keeps, so that only al * bl and the last bit of each low part are lost: 2^-21 of
 * each product. ah is cut off, not rounded: no number overflows, and infinities and NaNs stay in dot(ah, bh), beside
 * which low means nothing. Algorithms of several parts that gain nothing so are made in f32, which keeps all bits.
 *
 * Needs: laid out. Keeps: values but for those bits. Ends: what it makes has another algorithm. */
#include "ir/kernel/time/costs.h"
#include "ir/kernel/time/kernel_time.h"
#include "passes/library/library.h"
#include "passes/settings.h"
#include "passes/simplify/rewrite.h"

static const int64_t kept_bits =
    0xffffe000; /* sign, exponent and the first 10 of the significand */

static int64_t algorithm_of(const Instruction *dot)
{
    return inst_int(dot, ATTR_ALGORITHM, ALGORITHM_UNSET);
}

/* Of several parts. */
static bool has_parts(int64_t algorithm)
{
    return algorithm == ALGORITHM_TF32_TF32_F32_X3 ||
           algorithm == ALGORITHM_BF16_BF16_F32_X3 ||
           algorithm == ALGORITHM_BF16_BF16_F32_X6 ||
           algorithm == ALGORITHM_BF16_BF16_F32_X9;
}

static bool is_high(const Instruction *dot)
{
    Ints precision = inst_ints(dot, ATTR_OPERAND_PRECISION);
    bool high = false;
    for (uint32_t i = 0; i < precision.count; i++) {
        if (precision.data[i] == PRECISION_HIGHEST)
            return false;
        high |= precision.data[i] == PRECISION_HIGH;
    }
    return high;
}

static bool asks_for_three(const Instruction *dot)
{
    int64_t algorithm = algorithm_of(dot);
    return algorithm == ALGORITHM_TF32_TF32_F32_X3 ||
           algorithm == ALGORITHM_BF16_BF16_F32_X3 ||
           (algorithm == ALGORITHM_UNSET && is_high(dot));
}

/* Of the library, by another algorithm; false: it has none. */
static bool seconds_by(Instruction *dot, int64_t algorithm, const GpuModel *d,
                       double *seconds)
{
    KernelTime t;
    int64_t before = algorithm_of(dot);
    inst_set_int(dot, ATTR_ALGORITHM, algorithm);
    bool known = library_product_time(dot, d, &t);
    inst_set_int(dot, ATTR_ALGORITHM, before);
    *seconds = t.seconds;
    return known;
}

/* Each factor is read once and written in two parts, and the sums are added twice. */
static bool gains(Instruction *dot, const PassContext *cx)
{
    const GpuModel *d = cx->target->device;
    double full, part, bytes = 6.0 * (double)shape_bytes(dot->shape);
    if (!cx->settings->tf32 || !target_has(cx->target, FEATURE_TF32) ||
        !seconds_by(dot, ALGORITHM_F32_F32_F32, d, &full) ||
        !seconds_by(dot, ALGORITHM_TF32_TF32_F32, d, &part))
        return false;
    for (uint32_t i = 0; i < 2; i++)
        bytes += 3.0 * (double)shape_bytes(dot->operands[i]->shape);
    double three = 3 * part + cost_seconds_of_bytes(d, bytes) + 3 * costs.launch_seconds;
    return three * 100 < full * (double)cx->settings->high_products;
}

/* `value` where x is a number, else `otherwise`. */
static Instruction *unless_nan(Rewriter *r, Instruction *x, Instruction *value,
                               Instruction *otherwise)
{
    Instruction *is_number = rw_compare(r, x, x, DIRECTION_EQ);
    return rw_add(r, OP_SELECT, x->shape, 3,
                  (Instruction *[]){is_number, value, otherwise});
}

static Instruction *high_part(Rewriter *r, Instruction *x)
{
    const Shape *bits = shape_with_dtype(r->m->intern, x->shape, DT_U32);
    Instruction *kept =
        rw_binary(r, OP_AND, bits, rw_unary(r, OP_BITCAST_CONVERT, bits, x),
                  rw_splat_int(r, bits, kept_bits));
    kept = rw_unary(r, OP_BITCAST_CONVERT, x->shape, kept);
    return unless_nan(r, x, kept, x);
}

static Instruction *part_of(Rewriter *r, const Instruction *dot, Instruction *lhs,
                            Instruction *rhs)
{
    static const int64_t high[2] = {PRECISION_HIGH, PRECISION_HIGH};
    Instruction *both[2] = {lhs, rhs};
    Instruction *part = rw_like(r, dot, dot->shape, 2, both);
    inst_set_int(part, ATTR_ALGORITHM, ALGORITHM_TF32_TF32_F32);
    inst_set_ints(part, ATTR_OPERAND_PRECISION, high, 2);
    return part;
}

static Instruction *three_products(Rewriter *r, Instruction *dot)
{
    Instruction *high[2], *low[2];
    for (uint32_t i = 0; i < 2; i++) {
        Instruction *x = dot->operands[i];
        high[i] = high_part(r, x);
        low[i] = rw_binary(r, OP_SUBTRACT, x->shape, x, high[i]);
    }
    Instruction *sum = rw_binary(r, OP_ADD, dot->shape, part_of(r, dot, high[0], low[1]),
                                 part_of(r, dot, low[0], high[1]));
    sum = unless_nan(r, sum, sum, rw_splat(r, dot->shape, 0));
    r->cx->counts.high_products++;
    return rw_binary(r, OP_ADD, dot->shape, part_of(r, dot, high[0], high[1]), sum);
}

static Instruction *high_product(Rewriter *r, Instruction *dot)
{
    bool is_f32 = dot->operand_count == 2 && dot->shape->dtype == DT_F32 &&
                  dot->operands[0]->shape->dtype == DT_F32 &&
                  dot->operands[1]->shape->dtype == DT_F32;
    if (!is_f32 || (!asks_for_three(dot) && !has_parts(algorithm_of(dot))))
        return NULL;
    if (asks_for_three(dot) && gains(dot, r->cx))
        return three_products(r, dot);
    if (!has_parts(algorithm_of(dot)))
        return NULL;
    Instruction *full = rw_like(r, dot, dot->shape, 2, dot->operands);
    inst_set_int(full, ATTR_ALGORITHM, ALGORITHM_F32_F32_F32);
    return full;
}

bool pass_high_products(Module *m, PassContext *cx)
{
    static const Rule rules[] = {{OP_DOT, "high_product", high_product}, {0}};
    return rewrite_module(m, cx, (const Rule *[]){rules}, 1);
}
