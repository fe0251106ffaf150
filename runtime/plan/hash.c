/* XXH3-128, the only hash in the plan. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/plan/plan.h"

void plan_hash(const void *bytes, size_t size, uint8_t out[16])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    for (int i = 0; i < 16; i++) {
        out[i] = canonical.digest[i];
    }
}
