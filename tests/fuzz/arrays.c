/* .npz and .safetensors files: arrays of the shape asked for, or a message. */
#include "runtime/gxrun/array_file.h"

#include <unistd.h>

#include "tests/fuzz/fuzz.h"

void fuzz_input(const uint8_t *data, size_t size)
{
    static const int64_t dims[] = {2, 3};
    static const DType types[] = {DT_F32, DT_BF16, DT_PRED, DT_S4, DT_C64, DT_S64};
    char path[64];
    char error[1024] = "";
    snprintf(path, sizeof path, "/dev/shm/gxc-fuzz-%d.arrays", (int)getpid());
    FILE *f = fopen(path, "wb");
    if (f == NULL || size < 1)
        return;
    fwrite(data + 1, 1, size - 1, f);
    fclose(f);
    ArrayFile *file = array_file_open(path, error, sizeof error);
    PROMISE(file != NULL || error[0] != '\0', "no file and no message");
    for (size_t i = 0; file != NULL && i < file->count; i++) {
        void *out, *owned;
        error[0] = '\0';
        if (data[0] & 8)
            file->arrays[i].has_crc = false; /* what stands behind it is reached, too */
        bool good = stored_array_read(file, &file->arrays[i], types[data[0] % 6],
                                      (data[0] >> 4) % 3, dims, &out, &owned, error,
                                      sizeof error);
        PROMISE(good || error[0] != '\0', "no array and no message");
        free(owned);
    }
    array_file_close(file);
    remove(path);
}
