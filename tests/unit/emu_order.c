/* The emulated driver's legacy default stream, on the schedule that does nothing before it is waited for: work of a stream
 * that blocks is done before what is queued behind it on the default stream, and the other way round. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/emulator.h"

static CUcontext context;

static int setup(void **state)
{
    (void)state;
    setenv("GXEMU_SCHEDULE", "lazy", 1);
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxPushCurrent_v2(context));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ok(cuCtxPopCurrent_v2(NULL));
    ok(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}

/* Two writes, then a read: only the stream of the read is waited for. */
static void write_and_read(CUstream first, CUstream second, uint32_t wanted)
{
    CUdeviceptr a, b;
    uint32_t one = 1, two = 2, read = 0;
    ok(cuMemAlloc_v2(&a, 4));
    ok(cuMemAlloc_v2(&b, 4));
    ok(cuMemcpyHtoDAsync_v2(b, &one, 4, second));
    ok(cuStreamSynchronize(second));
    ok(cuMemcpyHtoDAsync_v2(a, &two, 4, first));
    ok(cuMemcpyDtoDAsync_v2(b, a, 4, first));
    ok(cuMemcpyDtoHAsync_v2(&read, b, 4, second));
    ok(cuStreamSynchronize(second));
    assert_int_equal(read, wanted);
    ok(cuCtxSynchronize());
    ok(cuMemFree_v2(a));
    ok(cuMemFree_v2(b));
}

static void test_legacy_stream(void **state)
{
    (void)state;
    CUstream blocking, beside;
    ok(cuStreamCreateWithPriority(&blocking, 0, 0));
    ok(cuStreamCreateWithPriority(&beside, CU_STREAM_NON_BLOCKING, 0));
    write_and_read(blocking, NULL, 2);
    write_and_read(NULL, blocking, 2);
    write_and_read(beside, blocking, 1); /* as late as possible: not yet */
    write_and_read(beside, NULL, 1);
    ok(cuStreamDestroy_v2(blocking));
    ok(cuStreamDestroy_v2(beside));
}

/* Memory so large that its addresses are given back at once: the next may have them. */
static void test_addresses_again(void **state)
{
    (void)state;
    enum { BYTES = 65 << 20 };
    CUdeviceptr before = 0;
    for (int i = 0; i < 3; i++) {
        CUdeviceptr p;
        uint32_t word = 7, read = 0;
        ok(cuMemAlloc_v2(&p, BYTES));
        if (before != 0 && before != p)
            EXPECT(cuMemFree_v2(before), CUDA_ERROR_INVALID_VALUE, NULL);
        ok(cuMemcpyHtoDAsync_v2(p + BYTES - 4, &word, 4, NULL));
        ok(cuMemcpyDtoHAsync_v2(&read, p + BYTES - 4, 4, NULL));
        ok(cuCtxSynchronize());
        assert_int_equal(read, 7);
        ok(cuMemFree_v2(p));
        EXPECT(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE, NULL);
        before = p;
    }
}

/* A wait is for the recording that there was, though the event is recorded again behind it. */
static void test_recorded_again(void **state)
{
    (void)state;
    CUstream first, second;
    CUevent event;
    CUdeviceptr a;
    uint32_t read = 0;
    ok(cuStreamCreateWithPriority(&first, CU_STREAM_NON_BLOCKING, 0));
    ok(cuStreamCreateWithPriority(&second, CU_STREAM_NON_BLOCKING, 0));
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ok(cuMemAlloc_v2(&a, 4));
    ok(cuMemsetD32Async(a, 7, 1, first));
    ok(cuEventRecord(event, first));
    ok(cuStreamWaitEvent(second, event, 0));
    ok(cuEventRecord(event, second));
    ok(cuMemcpyDtoHAsync_v2(&read, a, 4, second));
    ok(cuStreamSynchronize(second));
    assert_int_equal(read, 7);
    ok(cuMemFree_v2(a));
    ok(cuEventDestroy_v2(event));
    ok(cuStreamDestroy_v2(first));
    ok(cuStreamDestroy_v2(second));
}

/* One call fails, counted from when it is said. */
static void test_failing_call(void **state)
{
    (void)state;
    int version = 0, count = 0;
    ok(gxemuFailCall(2));
    ok(cuDeviceGetCount(&count));
    assert_int_not_equal(cuDeviceGetCount(&count), CUDA_SUCCESS);
    ok(cuDeviceGetCount(&count));
    ok(cuDriverGetVersion(&version));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_legacy_stream), cmocka_unit_test(test_recorded_again),
        cmocka_unit_test(test_failing_call), cmocka_unit_test(test_addresses_again)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
