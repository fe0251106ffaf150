/* See told.h. */
#include "tests/fuzz/emulator/told.h"

#include "runtime/emu/config.h"
#include "tests/fuzz/fuzz.h"

static struct {
    const uint8_t *data;
    size_t size, choice;
    size_t at;     /* of the next pair */
    size_t left;   /* numbers before the one that it changes */
    bool may_fail; /* something has been changed, or will be */
} input;

static void next_pair(void)
{
    bool is_there = input.at + 2 <= input.size;
    input.left = is_there ? input.data[input.at] : SIZE_MAX;
}

void told_begin(const uint8_t *data, size_t size, bool may_fail)
{
    input.data = data;
    input.size = size;
    input.choice = 0;
    input.at = TOLD_CHOICES;
    input.may_fail = may_fail || size >= TOLD_CHOICES + 2;
    next_pair();
}

unsigned told_choice(unsigned count)
{
    bool is_there = input.choice < TOLD_CHOICES && input.choice < input.size;
    return is_there ? input.data[input.choice++] % count : 0;
}

/* The byte that says what becomes of this number; 0: it stays. */
static uint8_t change(void)
{
    if (input.left == SIZE_MAX || input.left-- != 0)
        return 0;
    uint8_t what = input.data[input.at + 1];
    input.at += 2;
    next_pair();
    return what;
}

int64_t told(int64_t right)
{
    static const int64_t edges[] = {0,
                                    -1,
                                    1,
                                    2,
                                    INT32_MAX,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT64_C(1) << 32,
                                    INT64_C(1) << 61,
                                    1 << 20,
                                    1 << 12,
                                    100};
    enum { EDGES = sizeof edges / sizeof *edges, NEAR = 4 };
    uint8_t what = change();
    if (what == 0)
        return right;
    if (what <= EDGES)
        return edges[what - 1];
    what = (uint8_t)(what - EDGES - 1);
    if (what < 2 * NEAR) { /* with a bound of its own, a size does not wrap */
        int64_t by = what < NEAR ? what + 1 : NEAR - what - 1;
        return (int64_t)((uint64_t)right + (uint64_t)by);
    }
    return what - 2 * NEAR;
}

CUdeviceptr told_address(CUdeviceptr right)
{
    static char host[64];
    uint8_t what = change();
    switch (what) {
    case 0:
        return right;
    case 1:
        return 0;
    case 2:
        return (uintptr_t)host;
    case 3:
        return right + TOLD_MEMORY;
    case 4:
        return UINT64_MAX - 7;
    default:
        return right + what - 4;
    }
}

void *told_pointer(void *right)
{
    return (void *)(uintptr_t)told_address((uintptr_t)right);
}

bool told_done(int status, const char *call)
{
    char said[200] = "";
    if (status != 0 && !input.may_fail)
        gxemuGetLastError(said, sizeof said);
    PROMISE(status == 0 || input.may_fail, "%s: status %d, %s", call, status, said);
    return status == 0;
}

void told_calm(void)
{
    emu_config()->fail_call = 0;
}
