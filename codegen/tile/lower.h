/* Tile programs as kernels: code on gx operations for what a mapping (ir/tile/mapping.h) says. A tile in registers
 * is a value for each register of its layout, an element each; every operation is made in whatever layout
 * it is asked for. */
#ifndef GXC_CODEGEN_TILE_LOWER_H
#define GXC_CODEGEN_TILE_LOWER_H

#include "codegen/kernel/emitters.h"
#include "ir/kernel/plans.h"
#include "ir/tile/mapping.h"
#include "ir/tile/panels.h"

/* What stands behind the loop is computed for so many registers of a thread after the other, so that what it reads
 * does not lie in registers beside all the sums. A multiple of what a vector has. */
enum { TILE_WINDOW = 16 };

typedef struct TileLower {
    const EmitterInput *in;
    Kernel *k;
    Emit *e;
    const TileMapping *m;
    const TileProgram *p;
    LLVMValueRef lane, warp;               /* i32 */
    const IndexExpr *tile[TILE_MOST_DIMS]; /* number of the tile at hand, by dimension */
    struct LoweredTile *memo;
    struct HeldTile *held; /* by tile_hold */
    LinearLayout reduced;  /* of what reductions take */
    uint32_t
        pair; /* bit of the numbers of registers that become one word; 0: see pairs.c */
    LLVMValueRef
        inside; /* i1: predicates that are known of tiles inside a band hold; NULL: nothing is known */
    const TileResult *result; /* what is stored now; NULL: nothing yet */
    uint32_t
        until; /* tiles are made in windows, up to this register now; 0: all of them */
    uint32_t shared;        /* offset of its shared memory */
    LLVMValueRef entry_end; /* what is made before it may be used anywhere behind */
    struct KnownCoordinates *coordinates;
    LLVMValueRef groups[GROUP_USED + 1]; /* i32, by TileGroup */
    struct {                             /* by parts_begin */
        uint32_t count;            /* blocks that share a tile's loop; 0, 1: none do */
        LLVMValueRef tile, number; /* i32: the tile's; the block's among them */
    } parts;
    struct {                     /* by stream_begin */
        TileStream of;           /* blocks 0: every tile has a block */
        LLVMValueRef number;     /* i32: the block's among those that share tiles */
        LLVMValueRef begin, end; /* i32: of its run, in steps of all tiles */
    } stream;
    TilePanels panels; /* panel 0, 1: blocks count through the tiles of the grid */
} TileLower;

/* -- coordinates.c: which element a register has, and where it lies ---------------------------------- */

/* Packed coordinates that registers of a layout have in common: those of the lane and the warp, i32. */
LLVMValueRef offset_of_thread(TileLower *l, const LinearLayout *layout,
                              const LinearMap *map);
/* sum (NULL: 0) and the columns of the bits of `number`, which are bits first .. first + count - 1 of the map's
 * input, added without carry; NULL: none has a column. */
LLVMValueRef offset_of_bits(TileLower *l, const LinearMap *map, uint32_t first,
                            uint32_t count, LLVMValueRef number, LLVMValueRef sum);
/* The coordinate along `dim` of register `r`, in the whole problem. */
const IndexExpr *register_coordinate(TileLower *l, const LinearLayout *layout,
                                     uint32_t dim, uint32_t r);
/* i1: the coordinates of register `r` along the dimensions `dims` lie within the extents, and the constraints
 * hold; NULL: always. */
LLVMValueRef tile_is_there(TileLower *l, const TileOp *op, const LinearLayout *layout,
                           uint32_t dims, uint32_t r);
/* An expression of an operation, for register `r`; lanes: emit_lane is added along dimension `fast`. */
const IndexExpr *tile_index(TileLower *l, const TileOp *op, const IndexExpr *expr,
                            const LinearLayout *layout, uint32_t r, uint32_t fast);
/* i1: this thread is the first of those that hold the same; NULL: each holds something else. */
LLVMValueRef holds_first(TileLower *l, const LinearLayout *layout);

/* -- registers.c: values ------------------------------------------------------------------------ */

/* The registers of an operation's tile in a layout. */
LLVMValueRef *tile_registers(TileLower *l, const TileOp *op, const LinearLayout *layout);
/* Makes what does not change in the loop and is needed for `op` in this layout. */
void tile_prepare(TileLower *l, const TileOp *op, const LinearLayout *layout);
/* Forgets what was made in the loop: it belonged to another tile. */
void tile_forget(TileLower *l);
/* Loads of the loop that `op` needs are made now, where `condition` (i1, NULL: always) holds. */
void tile_load_ahead(TileLower *l, const TileOp *op, const LinearLayout *layout,
                     LLVMValueRef condition);

/* A load that was made ahead: which of the words are its own. */
typedef struct TileAhead {
    struct TileAhead *next;
    const TileOp *op;
    LinearLayout layout;
    uint32_t first, count;
} TileAhead;

/* What was loaded ahead, *count words, to be carried to where it is needed; forgets what was made in the loop. */
LLVMValueRef *tile_take_ahead(TileLower *l, TileAhead **which, uint32_t *count);
/* Those of an operation, all of whose registers differ; NULL: it was not loaded ahead, or not so. */
const LLVMValueRef *tile_words(TileLower *l, const TileOp *op,
                               const LinearLayout *layout);
/* These words were loaded for the tile at hand. */
void tile_give_ahead(TileLower *l, const TileAhead *which, LLVMValueRef *words);

/* From here on these are the registers of an operation that a loop makes, in a layout of its own; in another one it
 * is asked for only where registers of the same thread have it. */
void tile_hold(TileLower *l, const TileOp *op, const LinearLayout *layout,
               LLVMValueRef *registers);
/* The same elements in another layout of the same threads. */
LLVMValueRef *tile_renamed(TileLower *l, const LinearLayout *from,
                           LLVMValueRef *registers, const LinearLayout *to);

/* -- pairs.c: two numbers at once ----------------------------------------------------------------- */

/* An elementwise operation by pairs of registers; false: it is done one by one. */
bool pairs_apply(TileLower *l, const TileOp *op, const LinearLayout *layout,
                 LLVMValueRef *out);

/* -- exchange.c: tiles in shared memory --------------------------------------------------------- */

/* Bytes of shared memory from `base` (i32) on; vectors of 2^vector registers: first .. first + count - 1. */
void tile_to_shared(TileLower *l, const LLVMValueRef *registers, DType t,
                    const LinearLayout *layout, const LinearLayout *shared,
                    uint32_t vector, LLVMValueRef base, uint32_t first, uint32_t count);
/* Where registers of a layout lie. */
typedef struct SharedOffsets {
    LinearMap offsets;  /* of registers, lanes, warps, in bytes */
    uint32_t registers; /* bits of a register's number */
    uint32_t bytes;     /* of an element */
    uint32_t joined;   /* bits of offsets to which more than the register's number adds */
    LLVMValueRef at;   /* the thread's, ... */
    LLVMValueRef base; /* ... to which this comes behind the xor; NULL: it has come */
    LLVMValueRef apart; /* and this of the step; NULL: nothing */
} SharedOffsets;

/* base: a multiple of TILE_SHARED_ALIGN, which no swizzle within so many bytes touches, so that all registers' offsets
 * are one value and constants. */
SharedOffsets shared_offsets(TileLower *l, const LinearLayout *layout,
                             const LinearLayout *shared, DType t, LLVMValueRef base);
/* The highest bits of a register's number are the value `step` from now on, and 0 in what is asked for. */
void shared_step(TileLower *l, SharedOffsets *p, uint32_t bits, LLVMValueRef step);
/* Of register `r`: a byte offset, which a swizzle makes an xor of what the thread and what the register has. Other
 * bits are added last, to be a constant of the access: few offsets are different ones. */
LLVMValueRef shared_offset(TileLower *l, const SharedOffsets *p, uint32_t r);
void tile_from_shared(TileLower *l, DType t, const SharedOffsets *offsets,
                      uint32_t vector, uint32_t first, uint32_t count,
                      LLVMValueRef *registers);

/* -- factors.c: from device memory to fragments -------------------------------------------------- */

/* Of a factor that is computed, in the layout `copy`. Dots leave out what lies behind an extent, so it is zero there;
 * no dot sums over dimensions of the grid. */
LLVMValueRef *factor_values(TileLower *l, const TileFactor *f);
/* Makes what does not change in the loop and is needed for the factor: of one that is copied, what its index reads. */
void factor_prepare(TileLower *l, const TileFactor *f);
/* Issues asynchronous copies of the tile at hand into the stage at `base`. */
void factor_copy(TileLower *l, const TileFactor *f, LLVMValueRef base);
/* Where its fragments lie; of one that is held: not used. */
SharedOffsets factor_offsets(TileLower *l, const TileFactor *f, LLVMValueRef base);
/* Their words at a step of the instruction along the sums; in a loop step 0 behind shared_step. */
void factor_fragments(TileLower *l, const TileFactor *f, uint32_t step,
                      const SharedOffsets *offsets, LLVMValueRef *words);
/* How many a step has. */
uint32_t factor_words(const TileLower *l, const TileFactor *f);

/* -- products.c ------------------------------------------------------------------------------------ */

/* A factor of l->m's dot as it is multiplied: fragments of shared memory from `base` on, or words in registers, of
 * all steps. */
typedef struct TileSide {
    const TileFactor *factor;
    LLVMValueRef base, *words; /* words NULL: in shared memory, or held */
} TileSide;

/* The words of all steps, to stay in registers. */
LLVMValueRef *tile_words_of_steps(TileLower *l, const TileSide *s);
/* sums += products of l->m's dot for a tile of terms. */
void tile_multiply(TileLower *l, const TileSide sides[2], LLVMValueRef *sums);

/* -- warpgroup.c: four warps together ------------------------------------------------------------------- */

/* sums += products of l->m's dot for a tile of terms; the first factor may be in registers. */
void tile_multiply_warpgroup(TileLower *l, const TileSide sides[2], LLVMValueRef *sums);
/* The same, which goes on until it is waited for; until that of at most so many steps does. */
void tile_begin_warpgroup(TileLower *l, const TileSide sides[2], LLVMValueRef *sums);
void tile_wait_warpgroup(TileLower *l, uint32_t steps, LLVMValueRef *sums);

/* -- slices.c: warps that share the terms of a tile ------------------------------------------------ */

/* Adds up what the slices have summed, of the layout m->partial: each has m->sums of it. */
LLVMValueRef *tile_add_slices(TileLower *l, LLVMValueRef *partial);

/* -- fill.c: stages ------------------------------------------------------------------------------- */

/* What is brought to a stage, tile by tile along dimension `dim`. */
typedef struct TileFill {
    const TileFactor *factors[TILE_CHAIN_STAGED];
    uint32_t count, dim;
} TileFill;

/* Some of it by asynchronous copies. */
bool fill_copies(const TileFill *f);
/* Where the factor lies in a stage, in bytes of shared memory. */
LLVMValueRef factor_base(TileLower *l, const TileFactor *f, LLVMValueRef stage);
/* Begins to bring tile `tile` into a stage, if `condition` (NULL: always) holds: copies are issued, what goes
 * through registers is loaded. */
void fill_begin(TileLower *l, const TileFill *f, const IndexExpr *tile,
                LLVMValueRef stage, LLVMValueRef condition);
/* What was loaded is computed and stored. */
void fill_end(TileLower *l, const TileFill *f, const IndexExpr *tile, LLVMValueRef stage,
              LLVMValueRef condition);

/* -- groups.c ------------------------------------------------------------------------------------- */

/* Finds the values of the program's TILE_GROUP operations. */
void tile_find_groups(TileLower *l);

/* -- chain.c -------------------------------------------------------------------------------------- */

/* What the loop carries of its operand `op` to `out`: how many. */
uint32_t chain_pack(const TileChainMapping *m, const TileOp *op, LLVMValueRef *registers,
                    LLVMValueRef *out);
/* All registers of that, from carried[*at] on, which is moved behind it. */
LLVMValueRef *chain_unpack(TileLower *l, const TileChainMapping *m, const TileOp *op,
                           LLVMValueRef *carried, uint32_t *at);

/* -- parts.c: blocks that share the columns of an attention ----------------------------------------- */

/* Which tile and which part of it the block has. */
void parts_begin(TileLower *l);
/* The block's own of the loop's tiles begin .. end - 1, of index_type. */
void parts_bounds(TileLower *l, LLVMValueRef *begin, LLVMValueRef *end);
/* i1, the same for all threads: this block's is the last part, and `carried` is now what the loop over all tiles
 * would have carried. */
LLVMValueRef parts_merge(TileLower *l, const TileChainMapping *m, LLVMValueRef *carried);

/* -- stream.c: blocks that share the steps of tiles ------------------------------------------------- */

/* Which steps the block has. */
void stream_begin(TileLower *l);
/* Gives sums, of the layout m->sums, to the block that has the tile's last step. */
void stream_tell(TileLower *l, const LLVMValueRef *sums);
/* Adds to sums of steps `from` on, i32, those of the tile's steps from tile_begin on. */
void stream_hear(TileLower *l, LLVMValueRef tile_begin, LLVMValueRef from,
                 LLVMValueRef *sums);

/* -- contraction.c -------------------------------------------------------------------------------- */

/* A kernel with nothing in it yet but which tile the block makes. */
void tile_lower_begin(TileLower *l, uint64_t shared_bytes);
/* The stage behind `stage`, by its offset in bytes. */
LLVMValueRef tile_next_stage(TileLower *l, LLVMValueRef stage, uint32_t bytes,
                             uint32_t stages);
/* The stage before it, which was read last, so that nobody reads it: it is filled next. */
LLVMValueRef tile_free_stage(TileLower *l, LLVMValueRef stage, uint32_t bytes,
                             uint32_t stages);
/* Behind the loop: what is made of the number of the warp is made anew from here on. */
void tile_begin_results(TileLower *l);
void tile_store_result(TileLower *l, const TileResult *r);

#endif
