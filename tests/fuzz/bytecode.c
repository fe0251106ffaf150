/* StableHLO as bytecode: what is no bytecode gets its first bytes. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/shared/stablehlo.h"

void fuzz_input(const uint8_t *data, size_t size)
{
    static const char magic[4] = {'M', 'L', '\xef', 'R'};
    if (size < sizeof magic)
        return;
    char *copy = malloc(size);
    if (copy == NULL)
        return;
    memcpy(copy, data, size);
    memcpy(copy, magic, sizeof magic);
    check_stablehlo(copy, size);
    free(copy);
}
