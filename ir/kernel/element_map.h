/* Where the elements of one array belong in the index space of another one: each dimension as pieces,
 * each of which steps through the other's elements, counted in row-major order, at equal distances. It
 * follows an index through elementwise operations and through what moves or repeats elements; memory is no
 * matter here. */
#ifndef GXC_IR_KERNEL_ELEMENT_MAP_H
#define GXC_IR_KERNEL_ELEMENT_MAP_H

#include "ir/kernel/strided_view.h"

/* Pieces as in StridedView, of an array of this rank. */
typedef struct ElementMap {
    uint32_t rank, count;
    ViewPiece pieces[VIEW_PIECES];
} ElementMap;

/* An array and its elements' positions. */
typedef struct Mapped {
    const Instruction *inst;
    ElementMap map;
} Mapped;

/* Of an array in its own index space. False: too many dimensions. */
bool mapped_start(const Instruction *inst, Mapped *out);
/* To an operand, of whose elements each is read for those of the same positions. False: inst reads it otherwise. */
bool mapped_operand(const Mapped *m, uint32_t operand, Mapped *out);
/* A conversion between floating-point types that rounds to no fewer than 16 bits: kernels that keep wider values are
 * within the tolerance of results. What is rounded to f8 and widened again is meant to be rounded. */
bool conversion_is_close(const Instruction *inst);
/* Past close conversions and what only moves elements. */
void mapped_peel(Mapped *m);
/* With one more dimension of a single piece. */
bool mapped_insert(const ElementMap *m, uint32_t dim, int64_t size, int64_t stride,
                   ElementMap *out);
/* Of an array whose dimension d is dimension to[d] of this one. */
bool element_map_choose(const ElementMap *m, uint32_t rank, const int64_t *to,
                        ElementMap *out);
/* Of an array of the same elements in these dimensions. False: pieces do not fit into them. */
bool element_map_regroup(const ElementMap *m, uint32_t rank, const int64_t *dims,
                         ElementMap *out);
bool element_map_equal(const ElementMap *a, const ElementMap *b);

/* Digits of an index: `size` of them, each `weight` apart in the index space and `stride` apart in something else. */
typedef struct ElementDigit {
    int64_t weight, size, stride;
} ElementDigit;

enum { MOST_DIGITS = 16 };
typedef struct ElementDigits {
    uint32_t count;
    ElementDigit data[MOST_DIGITS];
} ElementDigits;

/* One dimension, given by pieces in the index space and by pieces in something else, in common digits, added to
 * `out`. */
bool element_digits_add(ElementDigits *out, const ViewPiece *space, uint32_t space_count,
                        const ViewPiece *other, uint32_t other_count);
/* Pieces of one dimension: the first, and how many. */
const ViewPiece *view_pieces_of(const ViewPiece *pieces, uint32_t count, uint32_t dim,
                                uint32_t *n);
#endif
