/* Shapes and layouts of values. Both are immutable and interned (ir/intern.h): two shapes of
 * one module are equal, layouts included, exactly if their pointers are.
 *
 * Reference: the HLO text language, sections "shapes and layouts". */
#ifndef GXC_IR_SHAPE_H
#define GXC_IR_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/base/arena.h"
#include "ir/dtype.h"

typedef struct Shape Shape;
typedef struct Layout Layout;
typedef struct Intern Intern;
typedef struct Text Text; /* ir/base/text.h */

#define DIM_UNBOUNDED INT64_MIN /* the size of a dimension written `?` */
#define TILE_COMBINE                                                                     \
    INT64_MIN /* the entry `*` of a tile: combine with the next dimension */

typedef struct Tile {
    uint32_t rank;
    const int64_t *dims;
} Tile;

typedef struct SplitConfig {
    int64_t dimension;
    uint32_t count;
    const int64_t *indices;
} SplitConfig;

struct Layout {
    uint32_t rank;
    const int64_t *minor_to_major; /* [rank] dimension numbers, fastest varying first */
    uint32_t tile_count;
    const Tile *tiles;
    uint32_t split_count;
    const SplitConfig *splits;
    int64_t tail_padding_alignment; /* elements; 1 = none */
    int64_t element_bits;           /* E(n); 0 = the type's own size */
    int64_t memory_space;           /* S(n); 0 device, 1 collective memory, 5 host */
    int64_t metadata_prefix_bytes;  /* M(n) */
    DType index_type;               /* #(t); DT_INVALID = none */
    DType pointer_type;             /* *(t); DT_INVALID = none */
};

struct Shape {
    DType dtype;         /* an element type, DT_TUPLE, DT_BUFFER, DT_TOKEN, DT_OPAQUE */
    uint32_t rank;       /* arrays: dimensions; tuples: elements; buffers: 1 */
    const int64_t *dims; /* [rank] arrays: size, its bound if dynamic, or DIM_UNBOUNDED */
    const bool *dynamic; /* [rank] arrays: `<=n` or `?`; NULL = all static */
    const Layout *layout;         /* arrays: never NULL; else NULL */
    const Shape *const *elements; /* [rank] tuples; buffers: the one array shape inside */
    const size_t *first_leaf; /* [rank + 1] tuples: leaves before each element, and all */
    bool has_buffer;          /* is a buffer, or a tuple with one somewhere inside */
};

/* Makers; all in the table's arena. A NULL layout means the default, {rank-1, ..., 0}. */
const Shape *shape_array(Intern *t, DType dtype, uint32_t rank, const int64_t *dims,
                         const bool *dynamic, const Layout *layout);
const Shape *shape_scalar(Intern *t, DType dtype);
const Shape *shape_tuple(Intern *t, uint32_t count, const Shape *const *elements);
const Shape *shape_buffer(Intern *t, const Shape *array);
const Shape *shape_token(Intern *t);
const Shape *shape_opaque(Intern *t);
const Layout *layout_default(Intern *t, uint32_t rank);
const Shape *shape_with_layout(Intern *t, const Shape *array, const Layout *layout);
const Shape *shape_with_dtype(Intern *t, const Shape *array, DType dtype);
const Shape *shape_with_dims(Intern *t, const Shape *array, uint32_t rank,
                             const int64_t *dims); /* default layout, static */

bool shape_is_array(const Shape *s);
bool shape_is_tuple(const Shape *s);
bool shape_is_scalar(const Shape *s);    /* array of rank 0 */
bool shape_is_dynamic(const Shape *s);   /* any dynamic dimension anywhere */
bool shape_is_unbounded(const Shape *s); /* any dimension `?` anywhere */
bool layout_is_default(const Layout *l); /* descending and without properties */

/* Number of elements of an array (bounds count); false if it does not fit int64_t or a
 * dimension is unbounded. */
bool shape_element_count(const Shape *s, int64_t *out);
int64_t shape_elements(
    const Shape *s); /* the same for shapes known to be checked; bug() if not */
/* Bytes of an array in device memory: packed for 1-, 2- and 4-bit types; false if its bits do not
 * fit int64_t. */
bool shape_byte_count(const Shape *s, int64_t *out);
int64_t shape_bytes(
    const Shape *s); /* the same of checked shapes; tuples: 0 (they are no buffers) */
size_t shape_leaf_count(const Shape *s); /* non-tuple shapes inside, depth first */
const Shape *shape_leaf(const Shape *s, size_t leaf);
const char *shape_leaf_path(Arena *a, const Shape *s,
                            size_t leaf); /* "1.0"; of an array "0" */
/* The element of a tuple that holds the leaf, and which of that element's leaves it is. */
uint32_t shape_leaf_element(const Shape *tuple, size_t leaf, size_t *out_leaf);

/* Equality notions of the language, section 6.3; tuples are compared element by element. */
bool shape_compatible(const Shape *a, const Shape *b); /* types and sizes, no layouts */
bool shape_fp_compatible(const Shape *a,
                         const Shape *b); /* any two float types count as equal */
bool shape_same_dims(const Shape *a, const Shape *b);     /* sizes only */
bool shape_layouts_equal(const Shape *a, const Shape *b); /* minor_to_major only */
bool shape_is_row_major(const Shape *s); /* an array; minor_to_major only */
/* Elements from one index of a dimension to the next, [rank]: of an array that is dense, by its layout. */
void shape_strides(const Shape *s, int64_t *out);

/* Text as the language writes it: f32[2,<=3]{1,0:T(8,128)}. */
const char *shape_text(Arena *a, const Shape *s, bool layouts);
void shape_print(Text *t, const Shape *s, bool layouts); /* appends it */

#endif
