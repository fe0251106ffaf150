/* The functions of CUDA's driver, cuBLASLt, cuDNN, cuSOLVER and NCCL as the emulator has them: each as it should be
 * called, and with other numbers. Whatever it is given, a call ends with a status or the device with a finding.
 *
 * An input is how the emulator behaves (ConfigByte), which calls are made, then what emulator/told.h says. */
#include "runtime/emu/config.h"
#include "runtime/emu/steps.h"
#include "tests/fuzz/emulator/told.h"
#include "tests/fuzz/fuzz.h"

typedef enum ConfigByte {
    CONFIG_ORDER, /* OrderBits */
    CONFIG_FAIL,  /* the n-th call of the driver fails; 0: none */
    CONFIG_LIMIT, /* LimitBits */
    CONFIG_CALLS,
    CONFIG_BYTES
} ConfigByte;

typedef enum OrderBits {
    ORDER_SCHEDULE = 3,
    ORDER_SHADOW = 4,
    ORDER_RACE = 8,
    ORDER_EARLY = 16,
    ORDER_DELAY = 32
} OrderBits;

typedef enum LimitBits {
    LIMIT_MEMORY = 1,
    LIMIT_STEPS = 2,
    LIMIT_STREAMS = 4,
    LIMIT_DEVICES = 8, /* a setting that cannot be read */
    LIMIT_VERSIONS = 16,
    LIMIT_WORKSPACE = 32 /* not a limit: what cuDNN's plans need */
} LimitBits;

static void configure(const uint8_t *data)
{
    EmuConfig *c = emu_config();
    uint8_t order = data[CONFIG_ORDER], limit = data[CONFIG_LIMIT];
    c->schedule = (Schedule)((order & ORDER_SCHEDULE) % 3);
    c->shadow = order & ORDER_SHADOW;
    c->race = order & ORDER_RACE;
    c->copies_early = order & ORDER_EARLY;
    c->delay = order & ORDER_DELAY ? 10 : 0;
    c->delay_seed = order & ORDER_DELAY ? 1u + order / 64 : 0;
    c->workers = 1;
    c->fail_call = data[CONFIG_FAIL];
    c->memory = limit & LIMIT_MEMORY ? 100000 : 1 << 28;
    c->steps = steps_taken() + (limit & LIMIT_STEPS ? 20 : 1 << 16);
    c->streams = limit & LIMIT_STREAMS ? 2 : 4096;
    c->cudnn_workspace = limit & LIMIT_WORKSPACE ? 256 : 0;
    c->driver_version = limit & LIMIT_VERSIONS ? 11000 : 13000;
    snprintf(c->problem, sizeof c->problem, "%s",
             limit & LIMIT_DEVICES ? "GXEMU_DEVICES=x: expected a number" : "");
}

/* Numbers that are small in every format. */
static void fill(const Told *t)
{
    static unsigned char bytes[TOLD_MEMORY];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = i % 4 == 3 ? 0x3e : (unsigned char)(i * 7 % 64);
    DONE(cuMemcpyHtoDAsync_v2(t->memory, bytes, sizeof bytes, t->stream));
    DONE(cuStreamSynchronize(t->stream));
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static ToldCalls *const calls[] = {tell_products, tell_graphs,  tell_solvers,
                                       tell_memory,   tell_streams, tell_captures,
                                       tell_modules,  tell_ranks};
    if (size < CONFIG_BYTES)
        return;
    fuzz_allow(10);
    configure(data);
    bool may_fail = data[CONFIG_FAIL] != 0 || data[CONFIG_LIMIT] % LIMIT_WORKSPACE != 0;
    told_begin(data + CONFIG_BYTES, size - CONFIG_BYTES, may_fail);
    Told t = {0};
    if (DONE(cuInit(0)) && DONE(gxemuSetDeviceCount(2, 1)) &&
        DONE(cuDevicePrimaryCtxRetain(&t.context, 0))) {
        if (DONE(cuCtxPushCurrent_v2(t.context))) {
            if (DONE(cuStreamCreateWithPriority(&t.stream, CU_STREAM_NON_BLOCKING, 0)) &&
                DONE(cuMemAlloc_v2(&t.memory, TOLD_MEMORY))) {
                fill(&t);
                calls[data[CONFIG_CALLS] % (sizeof calls / sizeof *calls)](&t);
                DONE(cuStreamSynchronize(t.stream));
            }
            told_calm();
            DONE(cuCtxPopCurrent_v2(NULL));
        }
        told_calm();
        DONE(cuDevicePrimaryCtxRelease_v2(0));
    }
    told_calm();
}
