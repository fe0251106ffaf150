#include "tests/unit/shared/refusing.h"

static int no_memory(void *user, int device, size_t bytes, size_t alignment, void **out)
{
    (void)user, (void)device, (void)bytes, (void)alignment, (void)out;
    return 1;
}

static void no_release(void *user, int device, void *pointer)
{
    (void)user, (void)device, (void)pointer;
}

static int no_stream(void *user, int device, int high_priority, void **out)
{
    (void)user, (void)device, (void)high_priority, (void)out;
    return 1;
}

const gxrt_allocator refusing_allocator = {
    .struct_size = sizeof(gxrt_allocator), .allocate = no_memory, .release = no_release};
const gxrt_streams refusing_streams = {
    .struct_size = sizeof(gxrt_streams), .borrow = no_stream, .give_back = no_release};
