/* Linear layouts: where the elements of a tile lie, as a linear map over bits.
 *
 * A tile has a power of two elements along each of its dimensions. A layout says which element is
 * held by which register of which lane of which warp, or at which offset of shared memory: it sends the bits
 * of those numbers to the bits of the element's coordinates, and is linear over F2, so that one column for each
 * input bit is all there is to it (Linear Layouts, arXiv 2505.23819). A fragment of a tensor core's
 * instruction, a coalesced access, a swizzle of shared memory are all such maps; conversions, vector
 * widths and conflicts of banks are equations between them.
 *
 * Coordinates are packed: dimension 0 in the lowest bits. A column of 0 means that the bit makes no difference:
 * what differs in it only holds the same element.
 *
 * As text, one letter for each dimension: "k0 m3 k3 | k1 k2 m0 m1 m2 | n0 0" are register bits, lane bits, warp
 * bits and (behind a third bar) offset bits; "k3+m0" is the sum of two, "-" a part without bits. */
#ifndef GXC_IR_ANALYSIS_LINEAR_LAYOUT_H
#define GXC_IR_ANALYSIS_LINEAR_LAYOUT_H

#include "ir/base/arena.h"

enum {
    LINEAR_MOST_BITS = 32, /* of all inputs together, and of all coordinates */
    LINEAR_MOST_RANK = 6,
};

typedef enum {
    LINEAR_REGISTER, /* number of a register of a lane; each holds one element */
    LINEAR_LANE,
    LINEAR_WARP,
    LINEAR_OFFSET, /* in elements */
    LINEAR_INPUTS
} LinearInput;

/* A linear map from in_bits to out_bits: a matrix over F2 by columns. */
typedef struct LinearMap {
    uint32_t in_bits, out_bits;
    uint32_t columns[LINEAR_MOST_BITS];
} LinearMap;

/* Two layouts are equal if their bytes are: what is not used is 0. */
typedef struct LinearLayout {
    uint32_t rank;
    uint32_t in[LINEAR_INPUTS];         /* bits of each input */
    uint32_t out[LINEAR_MOST_RANK];     /* bits of each dimension */
    uint32_t columns[LINEAR_MOST_BITS]; /* registers first, offsets last */
} LinearLayout;

/* -- layouts ------------------------------------------------------------------------------------------- */

/* No input, all dimensions of size 1: the start of a product. */
LinearLayout linear_none(uint32_t rank);
/* Dimension `dim` of 2^bits elements, one after the other along `input`. */
LinearLayout linear_along(uint32_t rank, LinearInput input, uint32_t dim, uint32_t bits);
/* 2^bits values of `input` that all hold the same. */
LinearLayout linear_copies(uint32_t rank, LinearInput input, uint32_t bits);
/* `outer` in units of `inner`: the inner's bits lie below those of the outer, in every input and dimension. */
LinearLayout linear_product(const LinearLayout *inner, const LinearLayout *outer);
/* l = linear_product(inner, out); false: it is not such a product. */
bool linear_left_divide(const LinearLayout *l, const LinearLayout *inner,
                        LinearLayout *out);
/* The same with dimension i as dimension dims[i] of `rank` ones; the others have size 1. */
LinearLayout linear_renamed(const LinearLayout *l, const uint32_t *dims, uint32_t rank);
/* Elements of 2^bits[d] along each dimension spread over a block: 2^vector of them along `fast` in registers of
 * a lane, then lanes and warps along `fast` and along the other dimensions, then registers for the rest. What of
 * lanes and warps is too much holds copies. */
LinearLayout linear_spread(uint32_t rank, const uint32_t *bits, uint32_t fast,
                           uint32_t vector, uint32_t lane_bits, uint32_t warp_bits);
/* Without dimension `dim`, whose size becomes 1: what held elements that differ in it only holds the same. */
LinearLayout linear_without(const LinearLayout *l, uint32_t dim);
/* Without all dimensions but those of the bits of `dims`. */
LinearLayout linear_projected(const LinearLayout *l, uint32_t dims);

/* The letters of `dims` are those of the dimensions; sizes are the least that the text needs. False: it is
 * not such a text. */
bool linear_parse(const char *text, const char *dims, LinearLayout *out);
const char *linear_text(Arena *a, const LinearLayout *l, const char *dims);

bool linear_equal(const LinearLayout *a, const LinearLayout *b);
uint32_t linear_in_bits(const LinearLayout *l);
uint32_t linear_out_bits(const LinearLayout *l);
/* The number of the input's first column. */
uint32_t linear_first(const LinearLayout *l, LinearInput input);
/* By how much dimension `dim` is shifted in packed coordinates. */
uint32_t linear_shift(const LinearLayout *l, uint32_t dim);
/* Packed inputs to packed coordinates. */
uint32_t linear_apply(const LinearLayout *l, uint32_t inputs);
/* The coordinate along `dim`. */
uint32_t linear_coordinate(const LinearLayout *l, uint32_t packed, uint32_t dim);
/* Every element is held somewhere; and nowhere twice. */
bool linear_is_surjective(const LinearLayout *l);
bool linear_is_bijective(const LinearLayout *l);

/* -- maps ---------------------------------------------------------------------------------------------- */

LinearMap linear_map(const LinearLayout *l);
uint32_t map_apply(const LinearMap *m, uint32_t in);
uint32_t map_rank(const LinearMap *m);
/* outer(inner(x)) */
LinearMap map_compose(const LinearMap *outer, const LinearMap *inner);
/* A map that gives for each value of `m` an input that has it, with the lowest input bits that will do;
 * false: some value has none. */
bool map_invert(const LinearMap *m, LinearMap *out);

/* Independent values, each with a highest bit of its own, and the inputs that have them. */
typedef struct LinearBasis {
    uint32_t values[LINEAR_MOST_BITS]; /* by highest bit; 0: none */
    uint32_t inputs[LINEAR_MOST_BITS];
} LinearBasis;

/* What is left of `value`, 0 if the basis spans it; *input is xored with the input of what was taken away. */
uint32_t basis_reduce(const LinearBasis *b, uint32_t value, uint32_t *input);
void basis_add(LinearBasis *b, uint32_t value, uint32_t input);
bool basis_spans(const LinearBasis *b, uint32_t value);

/* -- conversions --------------------------------------------------------------------------------------- */

typedef enum {
    CONVERT_NOTHING,   /* every register has its element already */
    CONVERT_REGISTERS, /* registers of a lane are permuted */
    CONVERT_LANES,     /* elements go to other lanes of the warp: shuffles */
    CONVERT_WARPS,     /* and to other warps: through shared memory */
} ConversionKind;

typedef struct LinearConversion {
    ConversionKind kind;
    LinearMap
        from; /* packed inputs of `to` to packed inputs of `from` that hold the same element */
} LinearConversion;

/* How values in layout `from` come into layout `to`, of the same dimensions and without offsets; `from` holds
 * every element of `to`. Of several positions that hold an element the nearest is taken. */
LinearConversion linear_convert(const LinearLayout *from, const LinearLayout *to);

/* -- shared memory ------------------------------------------------------------------------------------- */

/* Packed inputs of `values` (registers, lanes, warps) to the offset at which `shared` keeps the element. */
LinearMap linear_offsets(const LinearLayout *values, const LinearLayout *shared);

/* The most registers, a power of two, that lie side by side: the lowest bits of the registers' numbers are
 * the lowest bits of the offset, and no other bit changes those. */
uint32_t linear_vector(const LinearLayout *values, const LinearMap *offsets);

/* How often more than needed a warp's access of `vector` registers at once, of elements of `bits` bits, goes
 * to the banks: 0 is free of conflicts. Lanes 0.. of warp 0, registers 0..: by linearity all are alike. */
uint32_t linear_conflicts(const LinearLayout *values, const LinearMap *offsets,
                          uint32_t bits, uint32_t vector);

/* One access of shared memory by all lanes: 2^vector registers, the first ones, at once. */
typedef struct LinearAccess {
    const LinearLayout *layout;
    uint32_t vector;
} LinearAccess;

/* A layout of shared memory for tiles of elements of `bits` bits that are written and read so: both find their
 * vectors side by side, and have no conflicts of banks where a permutation of whole vectors can avoid them. The
 * first registers of one are those of the other, as far as both vectors go. */
LinearLayout linear_swizzle(LinearAccess write, LinearAccess read, uint32_t bits);

/* What ldmatrix and stmatrix read and write for these values (bits: of an element), as accesses in which each
 * lane has one row of a matrix, 16 bytes: registers number the elements of the row, lanes the rows, then the
 * matrices of an instruction. The instructions move the values if linear_vector of the rows is all of 16
 * bytes. 2^matrices of them at once; the registers behind are those of further instructions. False: there are
 * too few lanes or registers. The .trans forms are for elements of 16 bits. */
bool linear_matrix_rows(const LinearLayout *values, uint32_t bits, uint32_t matrices,
                        bool is_transposed, LinearLayout *out);

#endif
