/* Gives a target the inputs that stand in files: what was found, and what reaches most of the code. Built
 * without libFuzzer, so that `make check` does this everywhere. Usage: replay-TARGET FOLDER... */
#include <dirent.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void give_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    PROMISE(f != NULL, "%s cannot be read", path);
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(size ? size : 1); /* a sanitizer sees where it ends */
    PROMISE(bytes != NULL && fread(bytes, 1, size, f) == size, "%s", path);
    fclose(f);
    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
}

int main(int count, char **folders)
{
    int inputs = 0;
    for (int i = 1; i < count; i++) {
        struct dirent **names;
        int n = scandir(folders[i], &names, NULL, alphasort);
        PROMISE(n >= 0, "no folder %s", folders[i]);
        for (int k = 0; k < n; k++) {
            char path[4200];
            snprintf(path, sizeof path, "%s/%s", folders[i], names[k]->d_name);
            if (names[k]->d_name[0] != '.') {
                fprintf(stderr, "%s\n", names[k]->d_name); /* of a crash, the last */
                give_file(path);
                inputs++;
            }
            free(names[k]);
        }
        free(names);
    }
    printf("%d inputs\n", inputs);
    return inputs == 0;
}
