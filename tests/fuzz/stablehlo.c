/* StableHLO as text. */
#include "tests/fuzz/shared/stablehlo.h"
#include "frontend/hlo/parse.h"
#include "tests/fuzz/fuzz.h"

void fuzz_input(const uint8_t *data, size_t size)
{
    if (stablehlo_is((const char *)data, size) && data[0] != 'M')
        check_stablehlo((const char *)data, size);
}
