/* How a block of threads carries out the tile program of a contraction: which instruction of tensor cores, which
 * thread has which element, what lies where in shared memory. Everything about the kernel but its code, so
 * that its shared memory is known without LLVM.
 *
 * Factors come through shared memory, in `stages` buffers that are filled ahead of the loop: by asynchronous
 * copies where the factor is a plain array in the instruction's type, else computed in registers and stored. What
 * only one warp needs, and is narrower in memory than it is multiplied as, goes from memory to fragments without that:
 * it is `held` in registers, and rows of the fragments are renumbered so that a thread's lie side by side in memory. Of a
 * factor that repeats a vector along its side shared memory has the vector, which all rows of the fragments read.
 * Sums stay in registers; behind the loop tiles are exchanged through shared memory, so that stores are wide. */
#ifndef GXC_IR_TILE_MAPPING_H
#define GXC_IR_TILE_MAPPING_H

#include "ir/kernel/tensor_core.h"
#include "ir/tile/tile.h"

/* Where shared memory of a tile begins, and each factor of a stage. */
enum {
    TILE_SHARED_ALIGN = 128,
    TILE_SWIZZLE_ALIGN = 1024 /* of factors of wgmma: swizzles go by address */
};

typedef struct TileFactor {
    /* the dot's operand, or the vector that it repeats along its side */
    TileOp *value;
    bool is_copied; /* asynchronously; else through registers */
    bool is_held;   /* in registers, never in shared memory */
    bool
        is_kept; /* of a chain, the same for all its steps: fragments stay in registers */
    bool is_matrix;     /* fragments are loaded by ldmatrix, ... */
    bool is_transposed; /* ... in its .trans form */
    uint32_t fast;   /* the dimension along which a thread's elements lie side by side */
    uint32_t vector; /* how many of them, as bits */
    LinearLayout copy;      /* what each thread brings to shared memory, or holds */
    LinearLayout shared;    /* where it lies */
    LinearLayout fragment;  /* what each thread needs of it */
    uint64_t offset, bytes; /* in a stage */
    uint32_t
        line; /* of wgmma: bytes of a row whose pieces are swizzled, 32, 64 or 128; 0: matrices lie side by side */
} TileFactor;

/* A result: the value is brought to the layout in which it is stored at `exchange`, an operation on the way from
 * the sums to it; before, everything is in the layout of the sums. */
typedef struct TileResult {
    TileOp *store;
    TileOp *exchange;               /* NULL: it is stored as the sums lie */
    uint32_t vector;                /* elements that a thread stores at once, as bits */
    LinearLayout layout;            /* of the stored value */
    LinearLayout shared;            /* of the exchange */
    uint64_t bytes;                 /* of shared memory */
    const struct TileMapping *sums; /* of a chain: what it is made of; NULL: rows */
} TileResult;

typedef struct TileMapping {
    const TileProgram *program;
    TileOp *loop, *dot, *final;
    const TensorCore *core;
    uint32_t row, column, term; /* dimensions: the instruction's m, n, k */
    uint32_t warps[2];          /* of the block along row and column; powers of two */
    /* Four warps that follow each other along the rows multiply together, by wgmma, factors in shared memory, as its
     * swizzles have them; 64 rows, then the same warps' next 64. In a chain of dots the outer ones' first
     * factors are in registers, and all dots are so or none. */
    bool by_warpgroup;
    uint32_t slices;       /* times so many, which share a tile's terms; a power of two */
    TileFactor factors[2]; /* a and b of the instruction */
    LinearLayout partial;  /* of the sums in the loop: each slice has its own */
    LinearLayout sums;     /* behind it: a slice has its part of all */
    uint32_t stages;
    uint64_t stage_bytes;
    uint32_t result_count;
    TileResult *results;
    uint64_t shared_bytes;
} TileMapping;

enum { TILE_CHAIN_DOTS = 2, TILE_CHAIN_STAGED = 2 * TILE_CHAIN_DOTS };

/* Dots in a loop, of which the outer ones' first factors are made of the inner ones' results: these stay in registers.
 * The inner ones' first factors lie in shared memory throughout, the others in stages; what is a factor of several
 * dots lies there once. */
typedef struct TileChainMapping {
    const TileProgram *program;
    TileOp *loop;
    uint32_t inner_count, outer_count, staged_count, result_count;
    TileMapping inner[TILE_CHAIN_DOTS], outer[TILE_CHAIN_DOTS];
    const TileFactor *staged[TILE_CHAIN_STAGED];
    TileResult *results;
    LinearLayout rows; /* of what there is one of for each row: as the scores lie */
    uint32_t stages;   /* of what is staged */
    uint64_t stage_offset, stage_bytes, shared_bytes; /* behind what stays */
    /* Predicates that are known inside a band are computed in tiles at its edges only: takes registers. */
    bool has_edges;
    /* The last of what the loop carries waits in shared memory, from rows_offset on: registers are scarce. */
    bool shares_rows;
    uint64_t rows_offset;
} TileChainMapping;

/* Whether 2^vector coordinates along `dim`, from a multiple of that on, are neighbours in the array of a load or
 * store, aligned, and there or not there together. */
bool tile_is_vector(const TileProgram *p, const TileOp *op, uint32_t dim,
                    uint32_t vector);

/* How many coordinates along `dim`, as bits, from a multiple of that on read the same element, and are there or not
 * there together; at most 2^most. */
uint32_t tile_same_run(const TileProgram *p, const TileOp *op, uint32_t dim,
                       uint32_t most);

/* Warps of the block. */
uint32_t tile_warps(const TileMapping *m);
/* The factor's value is a vector, which it repeats along its side. */
bool tile_is_repeated(const TileMapping *m, const TileFactor *f);
/* Which elements in shared memory each thread's fragment is made of. */
LinearLayout tile_read_layout(const TileFactor *f);
/* Steps of the instruction along the terms of a tile that a warp makes. */
uint32_t tile_core_steps(const TileMapping *m);

/* warps: along the program's m and n, and slices. NULL: *why says what is in the way, as static text. */
TileMapping *tile_map(Arena *a, const TileProgram *p, const uint32_t warps[3],
                      uint32_t stages, const Target *target, const char **why);

/* Times 64 rows that four warps multiply by wgmma. */
uint32_t tile_warpgroup_times(const TileMapping *m);
/* Of stages and factors, in bytes. */
uint32_t tile_shared_align(const TileMapping *m);
/* Products of a step go on while the next one's begin: one more stage is read meanwhile. */
bool tile_steps_overlap(const TileMapping *m);
/* Steps from the one that is multiplied to the one whose factors are brought meanwhile; 0: they are its own stage. */
uint32_t tile_stages_ahead(const TileMapping *m);

/* Of a side of a product by wgmma, row or column: so many coordinates at a time are left out behind the end of a group. */
uint32_t tile_warpgroup_step(const TileMapping *m, uint32_t dim);

/* The layout in which the loop of a chain carries what its operand `op` begins. */
const LinearLayout *tile_carried_layout(const TileChainMapping *m, const TileOp *op);
/* Bits of a register's number that make a difference: others only repeat. */
uint32_t tile_distinct_bits(const LinearLayout *layout);
/* Of those of a chain's rows, without repetitions. */
uint32_t tile_row_registers(const TileChainMapping *m);
/* Registers of a thread that the loop of a chain carries, without repetitions. */
uint32_t tile_carried_registers(const TileChainMapping *m);

/* Those of its sums and of one dot's scores: what no assembler can do without. */
uint32_t tile_least_registers(const TileChainMapping *m);
/* About how many registers a thread has in the loop of a chain, for its sums and what is there of each score. */
uint32_t tile_chain_registers(const TileChainMapping *m);

/* Decides what registers have room for: factors that are kept, edges of a band. */
void tile_use_registers(TileChainMapping *m);

/* Registers of a thread that sums and addresses have all through its loop. */
uint32_t tile_sum_registers(const TileMapping *m);
/* About how many it needs there, with what it loads ahead. */
uint32_t tile_thread_registers(const TileMapping *m, const Target *target);

/* Of a program of tile_build_attention or tile_build_chain; the warps are along rows. */
TileChainMapping *tile_map_chain(Arena *a, const TileProgram *p, uint32_t warps,
                                 uint32_t stages, const Target *target, const char **why);

#endif
