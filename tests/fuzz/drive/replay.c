/* Gives a target the inputs that the repository keeps: what was found, and what reaches most of the code. Built
 * without libFuzzer, so that `make check` does this everywhere. Usage: replay-TARGET FILE...; a line of a file is
 * an input, in hexadecimal digits. */
#include "tests/fuzz/fuzz.h"

enum { INPUT_MOST = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void give_line(const char *line, size_t digits)
{
    size_t size = digits / 2;
    uint8_t *bytes = malloc(size ? size : 1); /* a sanitizer sees where it ends */
    PROMISE(bytes != NULL, "no memory");
    for (size_t i = 0; i < size; i++) {
        const char pair[3] = {line[2 * i], line[2 * i + 1], '\0'};
        char *end;
        bytes[i] = (uint8_t)strtoul(pair, &end, 16);
        PROMISE(*end == '\0', "no hexadecimal digits: %s", line);
    }
    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
}

int main(int count, char **files)
{
    static char line[2 * INPUT_MOST + 2];
    int inputs = 0;
    for (int i = 1; i < count; i++) {
        FILE *f = fopen(files[i], "r");
        PROMISE(f != NULL, "no file %s", files[i]);
        while (fgets(line, sizeof line, f) != NULL) {
            fprintf(stderr, "%s", line); /* of a crash, the last */
            give_line(line, strcspn(line, "\n"));
            inputs++;
        }
        fclose(f);
    }
    printf("%d inputs\n", inputs);
    return inputs == 0;
}
