/* Finds GPUs in the rows of targets.def. */
#include "ir/analysis/target.h"

#include <string.h>
#include <strings.h> /* strcasecmp */

#include "ir/base/bug.h"
#include "ir/base/divide.h"

static const GpuModel devices[] = {
#define MODEL(name, sm, variant, text, sms, lanes, mhz, gbs, l2, block_shared,           \
              sm_shared, threads, blocks, tflops, gib, link, link_ns, linked, net,       \
              net_ns)                                                                    \
    {name, text, sm,           (variant)[0], sms,     lanes,  mhz,                       \
     gbs,  l2,   block_shared, sm_shared,    threads, blocks, tflops,                    \
     gib,  link, link_ns,      linked,       net,     net_ns},
#include "ir/analysis/targets.def"
};
enum { DEVICE_COUNT = sizeof devices / sizeof *devices };

static const GpuRates rates[] = {
#define RATES(name, mhz, alu, imul, mufu, f64, l2, l2_cycles, memory_cycles, tf32, f8,   \
              s8, f4, f64_tensor, mma, mma_f8, mma_s8, async_mma)                        \
    {name, mhz, alu, imul, mufu,       f64, l2,     l2_cycles, memory_cycles,            \
     tf32, f8,  s8,  f4,   f64_tensor, mma, mma_f8, mma_s8,    async_mma},
#include "ir/analysis/targets.def"
};
_Static_assert(sizeof rates / sizeof *rates == DEVICE_COUNT, "a model lacks its rates");

const GpuRates *gpu_rates(const GpuModel *device)
{
    for (int i = 0; i < DEVICE_COUNT; i++)
        if (strcmp(rates[i].name, device->name) == 0)
            return &rates[i];
    bug("%s has no rates", device->name);
}

typedef struct Row {
    const char *name, *model;
    uint32_t sm;
    char variant;
    uint32_t ptx, cuda, features;
} Row;

#define F(id) FEATURE_##id

static const Row rows[] = {
#define TARGET(sm, variant, ptx, cuda, features, model)                                  \
    {"sm_" #sm variant, model, sm, (variant)[0], ptx, cuda, features},
#include "ir/analysis/targets.def"
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

static const GpuModel *find_device(const char *name)
{
    for (int i = 0; i < DEVICE_COUNT; i++)
        if (strcasecmp(devices[i].name, name) == 0)
            return &devices[i];
    return NULL;
}

bool target_find(const char *name, Target *out)
{
    bool is_gpu = strncasecmp(name, "gpu_", 4) == 0; /* as configurations call devices */
    const GpuModel *device = find_device(is_gpu ? name + 4 : name);
    if (is_gpu && device == NULL)
        return false;
    for (int i = 0; i < ROW_COUNT; i++) {
        const Row *r = &rows[i];
        bool is_it = device ? r->sm == device->sm && r->variant == device->variant
                            : strcasecmp(r->name, name) == 0;
        if (!is_it)
            continue;
        *out = (Target){r->name,
                        r->sm,
                        r->variant,
                        r->ptx,
                        r->cuda,
                        r->features,
                        device ? device : find_device(r->model),
                        TILES_AUTO,
                        false,
                        false};
        return true;
    }
    return false;
}

/* -- registers -------------------------------------------------------------------------------------- */

/* They are given to warps in pieces, and each quarter of a multiprocessor has as many warps of a block as the others
 * (CUDA's occupancy calculator: allocation unit 256, granularity of warps 4; ptxas goes by the same numbers). */
int64_t target_thread_registers(int64_t threads)
{
    enum { GRANULE = 8, QUARTERS = 4 };
    int64_t rounded = round_up(threads, (int64_t)TARGET_WARP * QUARTERS),
            most = TARGET_REGISTERS / rounded / GRANULE * GRANULE;
    return most < TARGET_THREAD_REGISTERS ? most : TARGET_THREAD_REGISTERS;
}

/* -- features ------------------------------------------------------------------------------------ */

static const struct {
    const char *doc;
    uint32_t ptx;
} features_known[] = {
#define FEATURE(id, ptx, doc) {doc, ptx},
#include "ir/analysis/targets.def"
};

static const struct {
    uint32_t sm, feature, ptx;
} later[] = {
#define LATER(sm, id, ptx) {sm, FEATURE_##id, ptx},
#include "ir/analysis/targets.def"
};

bool target_has(const Target *t, uint32_t features)
{
    return features == 0 || (t != NULL && (t->features & features) == features);
}

static uint32_t ptx_needed(const Target *t, int feature)
{
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (later[i].sm == t->sm && later[i].feature == 1u << feature)
            return later[i].ptx;
    return features_known[feature].ptx;
}

bool target_can(const Target *t, uint32_t ptx, uint32_t features)
{
    bool can = target_has(t, features);
    for (int i = 0; i < FEATURE_COUNT && can; i++)
        can = (features & 1u << i) == 0 || ptx >= ptx_needed(t, i);
    return can;
}

const char *target_lacks(const Target *t, uint32_t ptx, uint32_t features)
{
    for (int i = 0; i < FEATURE_COUNT; i++)
        if (!target_can(t, ptx, features & 1u << i))
            return features_known[i].doc;
    return NULL;
}

/* -- lists --------------------------------------------------------------------------------------- */

void target_list(FILE *out)
{
    for (int i = 0; i < ROW_COUNT; i++) {
        const Row *r = &rows[i];
        fprintf(out, "%-13s PTX %u.%u, CUDA %u.%u, costs of %s\n", r->name, r->ptx / 10,
                r->ptx % 10, r->cuda / 10, r->cuda % 10, find_device(r->model)->text);
    }
    for (int i = 0; i < DEVICE_COUNT; i++) {
        const GpuModel *d = &devices[i];
        fprintf(out, "%-13s %s: sm_%u%.1s, %u multiprocessors, %u GB/s\n", d->name,
                d->text, d->sm, &d->variant, d->multiprocessors, d->gigabytes_per_second);
    }
    fprintf(out, "%-13s the emulator, beside the GPU targets or alone (then sm_90a)\n",
            "emu");
}

const char *target_names(void)
{
    return ""
#define TARGET(sm, variant, ptx, cuda, features, model) "sm_" #sm variant ", "
#include "ir/analysis/targets.def"
#define MODEL(name, ...) name ", "
#include "ir/analysis/targets.def"
           "emu";
}

uint32_t target_ptx_of_cuda(uint32_t cuda)
{
    if (cuda >= 130)
        return 90 + cuda % 10;
    if (cuda >= 127)
        return cuda - 41; /* 12.7 … 12.9: 8.6 … 8.8 */
    if (cuda >= 120)
        return cuda >= 125 ? 85 : cuda - 40; /* 12.5 and 12.6: 8.5 */
    if (cuda >= 110)
        return cuda - 40; /* 11.0 … 11.8: 7.0 … 7.8 */
    return 65;
}
