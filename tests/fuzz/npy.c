/* .npy files: an array of the shape asked for, or a message. */
#include "runtime/gxrun/npy.h"

#include <unistd.h>

#include "tests/fuzz/fuzz.h"

void fuzz_input(const uint8_t *data, size_t size)
{
    static const int64_t dims[] = {2, 3};
    static const DType types[] = {DT_F32, DT_BF16, DT_PRED, DT_S4, DT_C64, DT_S64};
    char path[64];
    char error[512] = "";
    snprintf(path, sizeof path, "/dev/shm/gxc-fuzz-%d.npy", (int)getpid());
    FILE *f = fopen(path, "wb");
    if (f == NULL || size < 1)
        return;
    fwrite(data + 1, 1, size - 1, f);
    fclose(f);
    void *out = NULL;
    bool good = npy_read(path, types[data[0] % 6], (data[0] >> 4) % 3, dims, &out, error,
                         sizeof error);
    PROMISE(good || error[0] != '\0', "no array and no message");
    if (good)
        free(out);
    remove(path);
}
