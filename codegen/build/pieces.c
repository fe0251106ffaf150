/* Cuts the list of kernels into pieces of about 16. See pieces.h. */
#include "codegen/build/pieces.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { PIECE_LEAST = 8, PIECE_MOST = 24 };

/* One kernel of eight ends its piece. */
static bool is_last(const KernelRequest *r)
{
    return XXH3_64bits(r->key, r->key_length) % 8 == 0;
}

Pieces pieces_cut(Arena *a, const KernelRequest *requests, size_t count, bool is_linkable)
{
    Pieces p = {ARENA_ARRAY(a, size_t, count / PIECE_LEAST + 2), 1};
    for (size_t i = 0; is_linkable && i < count; i++) {
        size_t size = i + 1 - p.first[p.count - 1];
        bool ends = size >= PIECE_MOST || (size >= PIECE_LEAST && is_last(&requests[i]));
        if (ends && count - i > PIECE_LEAST)
            p.first[p.count++] = i + 1;
    }
    p.first[p.count] = count;
    return p;
}
