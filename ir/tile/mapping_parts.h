/* What the mappings of contractions and of chains of dots share. */
#ifndef GXC_IR_TILE_MAPPING_PARTS_H
#define GXC_IR_TILE_MAPPING_PARTS_H

#include "ir/base/divide.h"
#include "ir/tile/mapping.h"

enum { TILE_MOST_VECTOR = 128 /* bits of an access */ };

static inline uint64_t tile_aligned(const TileMapping *m, uint64_t bytes)
{
    return (uint64_t)round_up((int64_t)bytes, tile_shared_align(m));
}

static inline uint32_t tile_log2(int64_t n)
{
    uint32_t bits = 0;
    while (n >> (bits + 1) != 0)
        bits++;
    return bits;
}

static inline uint32_t tile_bits(const TileOp *op)
{
    return dtype_info[op->dtype].bits;
}

/* The number of the only dimension among these bits. */
uint32_t tile_only_dim(uint32_t dims);
/* Each warp has a part of the tile of its own; a fragment's registers are those of the instruction, then those of its
 * repetitions along the tile, then along the sums. */
void tile_lay_out(TileMapping *m);
/* Coordinates along `dim` with bit i at position[i]. */
void tile_renumber(LinearLayout *l, uint32_t dim, const uint32_t *position);
/* How a factor comes to shared memory: along which dimension, so many at once, copied or through registers. */
void tile_choose_way(TileMapping *m, TileFactor *f, const Target *target);
/* Where the factor lies in shared memory: as ldmatrix needs it if it can, without conflicts of banks. */
void tile_lay_out_factor(TileMapping *m, TileFactor *f);
/* The same for wgmma, which has its factors so. */
void tile_lay_out_warpgroup(TileMapping *m, TileFactor *f);
/* How a result is brought from the sums to where it is stored, in at most so much shared memory. */
void tile_lay_out_result(const TileMapping *m, TileResult *r, uint64_t most_shared);

#endif
