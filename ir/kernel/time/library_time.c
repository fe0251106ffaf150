/* Products that a library makes: its tiles in waves over the multiprocessors, at the share of the tensor
 * cores' rate that it attains, or its operands' way through memory. See kernel_time.h. */
#include "ir/base/extremes.h"
#include "ir/kernel/attention/attention_call.h"
#include "ir/kernel/block_scaled.h"
#include "ir/kernel/convolution.h"
#include "ir/kernel/matmul.h"
#include "ir/kernel/norm.h"
#include "ir/kernel/time/costs.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/solver_time.h"

static double rounded_up(double x)
{
    double down = (double)(int64_t)x;
    return down < x ? down + 1 : down;
}

/* batch products of [m, k] and [k, n]. */
typedef struct Product {
    double batch, m, n, k;
    DType type;  /* as it is multiplied */
    double rate; /* operations a second that the library attains */
    bool by_tensor_cores;
    double bytes;   /* read and written */
    double exposed; /* seconds of what stands between the products, and nothing hides */
    double transposed; /* bytes, of what is written in another order before and behind */
    double kept;       /* bytes, of what is written and read again on the way */
    bool is_even;      /* its sums are so long that they are cut to measure */
    double counted;    /* operations of the program; 0: all that are made */
} Product;

static double bytes_of(const Shape *s)
{
    double n = 0;
    for (size_t leaf = 0; leaf < shape_leaf_count(s); leaf++)
        n += (double)shape_bytes(shape_leaf(s, leaf));
    return n;
}

static void set_rate(Product *p, const GpuModel *d)
{
    double peak = product_peak(p->type, d), plain = plain_peak(p->type, d);
    double share = costs.library_bf16;
    if (p->type == DT_F32)
        share = costs.library_tf32;
    else if (p->type == DT_F64)
        share = costs.library_f64;
    else if (dtype_is_integer(p->type))
        share = costs.library_s8;
    else if (dtype_info[p->type].bits <= 8)
        share = costs.library_f8;
    p->by_tensor_cores = peak > plain;
    p->rate = peak * share;
}

/* Which numbers the library multiplies for the dot or convolution: tf32 only where its algorithm says so. */
static void choose_units(Product *p, const Instruction *dot, const GpuModel *d)
{
    int64_t algorithm = inst_int(dot, ATTR_ALGORITHM, ALGORITHM_UNSET);
    p->type = dot->operands[0]->shape->dtype;
    if (p->type == DT_F32 && algorithm == ALGORITHM_BF16_BF16_F32)
        p->type = DT_BF16;
    bool by_fma = p->type == DT_F32 && algorithm != ALGORITHM_TF32_TF32_F32;
    set_rate(p, d);
    if (by_fma) {
        p->by_tensor_cores = false;
        p->rate = plain_peak(DT_F32, d) * gpu_rates(d)->mhz / d->mhz * costs.library_f32;
    }
}

/* The library takes channels in blocks, with zeros behind the last. */
static double in_blocks(double channels)
{
    return rounded_up(channels / costs.library_channels) * costs.library_channels;
}

/* Tensor cores take channels that lie side by side: others are brought there and back, read and written. */
static double transposed_bytes(const ConvolutionArray *a)
{
    double n = 2.0 * dtype_info[a->type].bits / 8;
    for (uint32_t i = 0; i < CONVOLUTION_RANK; i++)
        n *= larger((double)a->dims[i], 1);
    return a->dims[1] > 1 && a->strides[1] != 1 ? n : 0;
}

/* Of the rate of a quarter of library_many_channels: as much for each time that there are twice as many. */
static double many_share(double channels)
{
    double half = (costs.library_many_fraction - 1) / 2,
           many = costs.library_many_channels;
    return 1 + (channels >= many / 2 ? half : 0) + (channels >= many ? half : 0);
}

/* As a product: of all positions under the kernel with the filter, or of all images with each other. */
static void describe_convolution(const Instruction *conv, const GpuModel *d, Product *p)
{
    ConvolutionShape s;
    convolution_shape(conv, &s);
    double positions = (double)s.y.dims[0], window = 1;
    for (uint32_t i = 2; i < s.spatial + 2; i++) {
        positions *= (double)s.y.dims[i];
        window *= (double)s.w.dims[i];
    }
    p->batch = (double)(s.x.dims[1] / s.w.dims[1]);
    double in = (double)s.w.dims[1], out = (double)s.w.dims[0] / p->batch;
    double side = larger(s.kind == CONVOLUTION_DATA ? in : out, costs.library_channels);
    bool is_few = smaller(in, out) < costs.library_few_channels && p->batch == 1;
    choose_units(p, conv, d);
    if (p->by_tensor_cores) {
        p->counted = 2 * p->batch * positions * window * in * out;
        in = in_blocks(in);
        out = p->batch > 1 ? out
                           : in_blocks(out); /* groups have their features in one tile */
        p->rate *= costs.library_convolution *
                   smaller(side / costs.library_full_channels, 1) *
                   (is_few ? costs.library_few_fraction : 1);
        if (s.kind != CONVOLUTION_FILTER && p->batch == 1)
            p->rate *= many_share(smaller(in, out));
    }
    p->is_even = s.kind == CONVOLUTION_FILTER;
    p->m = s.kind == CONVOLUTION_FILTER ? out : positions;
    p->n = s.kind == CONVOLUTION_FORWARD ? out
           : s.kind == CONVOLUTION_DATA  ? in
                                         : in * window;
    p->k = s.kind == CONVOLUTION_FORWARD ? in * window
           : s.kind == CONVOLUTION_DATA  ? out * window
                                         : positions;
    if (p->by_tensor_cores) {
        p->transposed = transposed_bytes(&s.x) + transposed_bytes(&s.y);
    }
}

/* As one product of the scores that count with q and k, and with v, which are summed over side by side. */
static void describe_attention(const Attention *a, const GpuModel *d, Product *p)
{
    p->batch = (double)a->q.dims[ATTENTION_BATCH] * (double)a->q.dims[ATTENTION_HEADS];
    p->m = (double)a->q.dims[ATTENTION_POSITIONS];
    p->n = attention_scores_counted(a) / (p->batch * p->m);
    p->k = (double)(a->q.dims[ATTENTION_DEPTH] + a->v.dims[ATTENTION_DEPTH]);
    p->type = a->q.base->shape->dtype;
    set_rate(p, d);
    p->rate = product_peak(p->type, d) * costs.attention_products;
    const GpuRates *r = gpu_rates(d);
    double cycles = d->multiprocessors * r->mhz * 1e6; /* a second, of all */
    double issued = costs.schedulers * TARGET_WARP * costs.issue_fraction;
    double each = 1.0 / r->mufu + costs.attention_instructions / issued;
    p->exposed = attention_scores_counted(a) * each / cycles * costs.attention_exposed;
}

/* A gradient whose sums have one order writes those of all scores to memory, whether they count or not, and reads them
 * again: an H100 takes 705 us for a causal attention of 64 heads of 128 and 2048 positions and its gradient, where products
 * at their rate take 400. */
static double kept_scores(const Attention *a)
{
    double bytes = dtype_info[a->q.base->shape->dtype].bits / 8.0;
    return 2 * bytes * (double)a->q.dims[ATTENTION_BATCH] *
           (double)a->q.dims[ATTENTION_HEADS] * (double)a->q.dims[ATTENTION_POSITIONS] *
           (double)a->k.dims[ATTENTION_POSITIONS];
}

static void add_bytes(const Instruction *inst, Product *p)
{
    p->bytes = bytes_of(inst->shape);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        p->bytes += bytes_of(inst->operands[i]->shape);
}

static bool describe_dot(const Instruction *dot, const GpuModel *d, Product *p)
{
    MatmulShape s;
    if (!matmul_shape(dot, &s))
        return false;
    p->batch = (double)s.batch;
    p->m = (double)s.m;
    p->n = (double)s.n;
    p->k = (double)s.k;
    choose_units(p, dot, d);
    return true;
}

static double arithmetic_seconds(const Product *p, const GpuModel *d, double *waves);

/* What the second result adds to the product, which nothing hides. */
static double second_seconds(const Product *p, const Instruction *dot,
                             MatmulSecond second, const GpuModel *d)
{
    double bandwidth = d->gigabytes_per_second * 1e9, waves;
    if (second == MATMUL_NO_SECOND)
        return 0;
    if (second == MATMUL_ARGUMENT)
        return bytes_of(dot->shape) / (bandwidth * costs.library_argument);
    const Instruction *factor = dot->operands[second == MATMUL_SUMS_RHS];
    return larger(arithmetic_seconds(p, d, &waves) * costs.library_sums,
                  bytes_of(factor->shape) / (bandwidth * costs.library_sums_bytes));
}

static bool describe(const Instruction *inst, const GpuModel *d, Product *p)
{
    MatmulCall call;
    ConvolutionCall convolution;
    Attention attention;
    AttentionGradientCall gradient;
    if (block_op(inst) == BLOCK_MATMUL) {
        const Shape *lhs = inst->operands[0]->shape, *out = shape_leaf(inst->shape, 0);
        p->batch = lhs->rank > 2 ? (double)lhs->dims[0] : 1;
        p->m = (double)lhs->dims[lhs->rank - 2];
        p->n = (double)out->dims[out->rank - 1];
        p->k = (double)lhs->dims[lhs->rank - 1];
        p->type = lhs->dtype;
        set_rate(p, d);
    } else if (matmul_call_of(inst, &call)) {
        if (!describe_dot(call.dot, d, p))
            return false;
        p->exposed = second_seconds(p, call.dot, call.second, d);
    } else if (convolution_call_of(inst, &convolution)) {
        describe_convolution(convolution.conv, d, p);
    } else if (attention_call_of(inst, &attention)) {
        describe_attention(&attention, d, p);
    } else if (attention_gradient_call_of(inst, &gradient)) {
        describe_attention(&gradient.attention, d, p);
        p->k *= 2.5; /* five products instead of two */
        p->kept = kept_scores(&gradient.attention);
    } else {
        return false;
    }
    add_bytes(inst, p);
    return true;
}

/* The largest tile that a library takes along a side of this size. */
static double tile_side(double size, double most)
{
    double tile = 16;
    while (tile < size && tile < most)
        tile *= 2;
    return tile;
}

/* Seconds of arithmetic by tiles of at most so many rows and columns; *waves of them. Smaller tiles read more for
 * each operation; parts of the sums may be made side by side, which another kernel adds up. */
static double tiled_seconds(const Product *p, const GpuModel *d, double most,
                            double *waves)
{
    double tile_m = tile_side(p->m, most), tile_n = tile_side(p->n, most);
    double tiles = p->batch * rounded_up(p->m / tile_m) * rounded_up(p->n / tile_n);
    double parts = larger(rounded_up(p->k / costs.library_split), 1);
    *waves = tiles / d->multiprocessors;
    double half = costs.library_half_tile, full = costs.library_tile;
    double share = (full + half) / full * (most / (most + half));
    double all_busy = 2 * tiles * tile_m * tile_n * p->k / (p->rate * share);
    double busy = smaller(*waves / rounded_up(*waves), 1); /* of the multiprocessors */
    double tail = p->is_even ? 1 : costs.library_tail;
    double split = smaller(larger(busy, smaller(*waves * parts, tail)), 1);
    return smaller(all_busy / busy, all_busy / split + costs.launch_seconds);
}

static double arithmetic_seconds(const Product *p, const GpuModel *d, double *waves)
{
    double best = tiled_seconds(p, d, costs.library_tile, waves), other;
    for (double most = costs.library_tile / 2; most >= 16; most /= 2) {
        double seconds = tiled_seconds(p, d, most, &other);
        if (seconds < best) {
            best = seconds;
            *waves = other;
        }
    }
    return best;
}

static KernelTime time_of(Product p, const GpuModel *d)
{
    KernelTime t = {.seconds = costs.launch_seconds, .limit = LIMIT_LAUNCH};
    double arithmetic = arithmetic_seconds(&p, d, &t.waves) + p.exposed;
    double at_peak = p.bytes / (d->gigabytes_per_second * 1e9);
    double memory = at_peak / costs.memory_fraction;
    t.bytes = t.needed_bytes = p.bytes;
    t.product_type = p.by_tensor_cores ? DT_INVALID : p.type;
    t.operations = p.counted != 0 ? p.counted : 2 * p.batch * p.m * p.n * p.k;
    double least = t.operations / product_peak(p.type, d);
    t.least_seconds = larger(least, at_peak);
    bool is_memory = memory > arithmetic;
    double longest = larger(memory, arithmetic);
    t.seconds += longest +
                 (p.transposed / costs.library_turn_fraction + p.kept) / p.bytes * memory;
    if (longest > costs.launch_seconds)
        t.limit = is_memory           ? LIMIT_MEMORY
                  : p.by_tensor_cores ? LIMIT_TENSOR
                  : p.type == DT_F64  ? LIMIT_F64
                                      : LIMIT_FMA;
    double own = p.by_tensor_cores ? least : t.operations / plain_peak(p.type, d);
    bool is_rate = t.limit != LIMIT_LAUNCH && !is_memory;
    t.share = smaller((is_memory ? at_peak
                       : is_rate ? own
                                 : t.least_seconds) /
                          t.seconds,
                      1);
    return t;
}

/* It waits for one column after the other. */
static KernelTime time_of_solver(const Instruction *inst, const SolverCall *c,
                                 const GpuModel *d)
{
    double moved = bytes_of(inst->shape) + bytes_of(inst->operands[0]->shape);
    double seconds = solver_library_seconds(c, d);
    return (KernelTime){.seconds = seconds,
                        .limit = LIMIT_CHAIN,
                        .share = 1,
                        .waves = 1,
                        .least_seconds = seconds,
                        .bytes = moved,
                        .needed_bytes = moved,
                        .product_type = DT_INVALID};
}

/* Each element is read and written once. */
static KernelTime time_of_norm(const Instruction *inst, const GpuModel *d)
{
    double moved = bytes_of(inst->shape);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        moved += bytes_of(inst->operands[i]->shape);
    double least = moved / (d->gigabytes_per_second * 1e9);
    double memory = least / costs.memory_fraction;
    double seconds = costs.launch_seconds + memory;
    return (KernelTime){.seconds = seconds,
                        .limit =
                            memory > costs.launch_seconds ? LIMIT_MEMORY : LIMIT_LAUNCH,
                        .share = least / seconds,
                        .waves = 1,
                        .least_seconds = least,
                        .bytes = moved,
                        .needed_bytes = moved,
                        .product_type = DT_INVALID};
}

KernelTime library_time(const Instruction *inst, const GpuModel *d)
{
    Product p = {0};
    SolverCall solver;
    if (norm_is_library(inst))
        return time_of_norm(inst, d);
    if (describe(inst, d, &p))
        return time_of(p, d);
    if (solver_call_of(inst, &solver))
        return time_of_solver(inst, &solver, d);
    return (KernelTime){.seconds = costs.launch_seconds,
                        .limit = LIMIT_LAUNCH,
                        .waves = 1,
                        .product_type = DT_INVALID};
}

double library_second_seconds(const Instruction *dot, MatmulSecond second,
                              const GpuModel *d)
{
    Product p = {0};
    return describe_dot(dot, d, &p) ? second_seconds(&p, dot, second, d) : 0;
}

bool library_product_time(const Instruction *product, const GpuModel *d, KernelTime *out)
{
    Product p = {0};
    ConvolutionShape convolution;
    if (product->op == OP_DOT) {
        if (!matmul_types_fit(product) || !describe_dot(product, d, &p) || p.rate == 0)
            return false;
    } else if (convolution_has_types(product) &&
               convolution_shape(product, &convolution) &&
               convolution_order_fits(&convolution)) {
        describe_convolution(product, d, &p);
    } else {
        return false;
    }
    add_bytes(product, &p);
    *out = time_of(p, d);
    return true;
}
