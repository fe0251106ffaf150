/* See kernel_time.h. */
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/tensor_core.h"

#include "ir/base/extremes.h"
#include "ir/kernel/time/costs.h"

static const char *const words[] = {
#define LIMIT(id, word) word,
    KERNEL_LIMITS(LIMIT)
#undef LIMIT
};

const char *kernel_limit_word(KernelLimit limit)
{
    return words[limit];
}

/* The least whole number that is not below x; x is no more than 2^53. */
static double rounded_up(double x)
{
    double down = (double)(int64_t)x;
    return down < x ? down + 1 : down;
}

static double rounded_down(double x)
{
    return larger((double)(int64_t)x, 1);
}

double kernel_resident(const KernelWork *w, const GpuModel *d)
{
    double warps = ((double)w->threads + TARGET_WARP - 1) / TARGET_WARP;
    double threads = rounded_down(warps) * TARGET_WARP;
    double shared = (double)w->shared_bytes + TARGET_RESERVED_SHARED;
    double n = rounded_down(d->multiprocessor_threads / threads);
    n = smaller(n, rounded_down(d->multiprocessor_shared / shared));
    n = smaller(n, d->multiprocessor_blocks);
    if (w->tensor_columns != 0)
        n = smaller(n, rounded_down((double)TENSOR_COLUMNS / w->tensor_columns));
    if (w->registers != 0)
        n = smaller(n, rounded_down(TARGET_REGISTERS / (w->registers * threads)));
    return n;
}

double work_integer_cycles(const WorkCounts *c, const GpuRates *r)
{
    double all = c->unit[WORK_ALU] + c->unit[WORK_IMUL] + c->unit[WORK_ADD];
    return all * TARGET_WARP / (r->alu + r->imul);
}

double plain_peak(DType type, const GpuModel *d)
{
    const GpuRates *r = gpu_rates(d);
    uint32_t lanes = type == DT_F64 || type == DT_C128 ? r->f64 : d->lanes;
    return 2.0 * lanes * d->multiprocessors * d->mhz * 1e6;
}

double product_peak(DType type, const GpuModel *d)
{
    const GpuRates *r = gpu_rates(d);
    double tensor = 0;
    switch (type) {
    case DT_F16:
    case DT_BF16:
        tensor = d->tensor_teraflops;
        break;
    case DT_F32:
        tensor = r->tf32;
        break;
    case DT_F64:
        tensor = r->f64_tensor;
        break;
    case DT_S8:
    case DT_U8:
    case DT_S4:
    case DT_U4:
        tensor = r->s8;
        break;
    case DT_F4E2M1FN:
        tensor = r->f4;
        break;
    default:
        if (dtype_is_float(type) && dtype_info[type].bits <= 8)
            tensor = r->f8 != 0 ? r->f8 : d->tensor_teraflops;
        break;
    }
    double plain = plain_peak(type, d);
    return tensor * 1e12 > plain ? tensor * 1e12 : plain;
}

double product_mma_percent(const GpuRates *r, DType factor)
{
    if (dtype_info[factor].bits > 8)
        return r->mma;
    return dtype_is_float(factor) ? r->mma_f8 : r->mma_s8;
}

/* The longest so far. */
typedef struct Longest {
    double seconds, share_seconds; /* share_seconds: at the data sheet's rate */
    KernelLimit limit;
} Longest;

static void consider(Longest *l, KernelLimit limit, double seconds, double at_peak)
{
    if (seconds > l->seconds)
        *l = (Longest){seconds, at_peak, limit};
}

/* A loop whose trips come one after the other takes most of a block's time. */
static bool is_chain(const KernelWork *w)
{
    return w->serial_steps >= costs.chain_steps &&
           w->serial_cycles * 2 >= w->block_cycles;
}

/* The blocks that share work begin in slots that the others leave free. */
static double stream_rounds(const KernelWork *w, double slots)
{
    double whole = w->blocks - w->stream.blocks, each = w->stream.blocks / w->stream.by,
           full = rounded_up(whole / slots), free = full * slots - whole,
           beside = each < 1 ? free * rounded_down(1 / each) : free,
           left = larger(w->stream.by - beside, 0), longer = larger(each - 1, 0);
    return full + (left > 0 ? rounded_up(left / slots) * each : free > 0 ? longer : 0);
}

/* How many blocks after the other the busiest of `slots` has. Blocks that are not alike end one by one, within the time
 * of a longest one: the last half of that behind the average (Graham 1966, "Bounds for certain multiprocessing anomalies",
 * has all of it at worst). */
static double rounds(const KernelWork *w, double slots)
{
    double even = w->blocks / slots;
    if (w->stream.by != 0)
        return stream_rounds(w, slots);
    return w->longest == 0 ? rounded_up(even) : larger(even + w->longest / 2, w->longest);
}

/* Units of the multiprocessor that has most blocks. */
static void consider_units(const KernelWork *w, const GpuModel *d, Longest *l)
{
    const GpuRates *r = gpu_rates(d);
    double clock = r->mhz * 1e6;
    double even = w->blocks / d->multiprocessors, blocks = rounds(w, d->multiprocessors);
    /* with most multiprocessors idle it is the loop of the others that takes the time */
    bool is_idle = even * 2 <= 1 && is_chain(w);
    const struct {
        KernelLimit limit;
        double cycles;
    } units[] = {
        {LIMIT_ISSUE, w->counts.issued / costs.schedulers},
        {LIMIT_ALU, w->counts.unit[WORK_ALU] * TARGET_WARP / r->alu},
        {LIMIT_ALU, work_integer_cycles(&w->counts, r)},
        {LIMIT_FMA, w->counts.unit[WORK_FMA] * TARGET_WARP / d->lanes},
        {LIMIT_INT, w->counts.unit[WORK_IMUL] * TARGET_WARP / r->imul},
        {LIMIT_MUFU, w->counts.unit[WORK_MUFU] * TARGET_WARP / r->mufu},
        {LIMIT_F64, w->counts.unit[WORK_F64] * TARGET_WARP / r->f64},
        {LIMIT_TENSOR, w->counts.unit[WORK_TENSOR]},
        {LIMIT_SHARED, w->counts.shared},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        consider(l, is_idle ? LIMIT_CHAIN : units[i].limit,
                 units[i].cycles * blocks / clock / costs.issue_fraction,
                 is_idle ? -1 : units[i].cycles * even / clock);
}

static void consider_memory(const KernelWork *w, const GpuModel *d, Longest *l)
{
    const GpuRates *r = gpu_rates(d);
    double clock = r->mhz * 1e6;
    double at_peak = (w->read_bytes + w->written_bytes) / (d->gigabytes_per_second * 1e9);
    consider(l, LIMIT_MEMORY, at_peak / costs.memory_fraction, at_peak);
    double even = w->l2_bytes / (r->l2_bytes * clock);
    double busiest = rounds(w, d->multiprocessors) / larger(w->blocks, 1);
    double one = w->l2_bytes * busiest / (costs.multiprocessor_bytes * clock);
    consider(l, LIMIT_L2, larger(even, one), even);
    double atomics = w->l2_atomics * costs.atomic_slice_bytes / (r->l2_bytes * clock);
    consider(l, LIMIT_ATOMICS, atomics, atomics);
}

static double least_seconds(const KernelWork *w, const GpuModel *d)
{
    double least = w->needed_bytes / (d->gigabytes_per_second * 1e9);
    double other = w->operations - w->product_operations;
    if (w->product_operations > 0)
        least = larger(least, w->product_operations / product_peak(w->product_type, d));
    return larger(least, other / (2.0 * d->lanes * d->multiprocessors * d->mhz * 1e6));
}

/* That blocks which share work take beside `seconds` of everything: memory is cleared before, and they may wait for
 * memory while others have none to read. */
static double stream_seconds(const KernelWork *w, const GpuModel *d, double seconds)
{
    double slots = kernel_resident(w, d) * d->multiprocessors,
           full = rounded_up((w->blocks - w->stream.blocks) / slots),
           own = seconds * (1 - full / larger(stream_rounds(w, slots), full)),
           read =
               w->stream.bytes / (d->gigabytes_per_second * 1e9) / costs.memory_fraction;
    return costs.launch_seconds + w->stream.cycles / (gpu_rates(d)->mhz * 1e6) +
           larger(read - own, 0);
}

KernelTime kernel_time(const KernelWork *w, const GpuModel *d)
{
    Longest l = {.limit = LIMIT_NONE};
    double clock = gpu_rates(d)->mhz * 1e6, resident = kernel_resident(w, d);
    double waves = w->blocks / (resident * d->multiprocessors);
    consider_units(w, d, &l);
    consider_memory(w, d, &l);
    consider(&l, is_chain(w) ? LIMIT_CHAIN : LIMIT_LATENCY,
             rounds(w, resident * d->multiprocessors) * w->block_cycles / clock, -1);
    if (w->stream.by != 0)
        l.seconds += stream_seconds(w, d, l.seconds);
    l.seconds += w->tail_cycles / clock;
    KernelTime t = {.seconds = l.seconds + costs.launch_seconds,
                    .limit = l.limit,
                    .waves = waves,
                    .least_seconds = least_seconds(w, d),
                    .bytes = w->read_bytes + w->written_bytes,
                    .operations = w->operations,
                    .needed_bytes = w->needed_bytes,
                    .l2_bytes = w->l2_bytes,
                    .blocks = w->blocks,
                    .steps = w->serial_steps,
                    .instructions = w->counts.issued * TARGET_WARP * w->blocks,
                    .product_type =
                        w->counts.unit[WORK_TENSOR] > 0 ? DT_INVALID : w->product_type,
                    .is_tileir = w->is_tileir};
    if (costs.launch_seconds > l.seconds)
        t.limit = LIMIT_LAUNCH;
    bool is_rate = t.limit == l.limit && l.share_seconds >= 0;
    t.share = smaller((is_rate ? l.share_seconds : t.least_seconds) / t.seconds, 1);
    return t;
}

KernelTime copy_time(double bytes, const GpuModel *d)
{
    double at_peak = bytes / (d->gigabytes_per_second * 1e9);
    double seconds = at_peak / costs.copy_fraction + costs.launch_seconds;
    bool is_short = at_peak / costs.copy_fraction < costs.launch_seconds;
    return (KernelTime){.seconds = seconds,
                        .limit = is_short ? LIMIT_LAUNCH : LIMIT_MEMORY,
                        .share = at_peak / seconds,
                        .least_seconds = at_peak,
                        .bytes = bytes,
                        .needed_bytes = bytes,
                        .product_type = DT_INVALID};
}
