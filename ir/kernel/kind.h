/* Kinds of kernels, as the middle of the compiler sees them: which one a fusion becomes, and
 * whether it can. The kind stands in the fusion's backend_config, {"emitter":"row_reduction"}, so that
 * text shows it and may ask for it. Pure: no LLVM; the code is in codegen/kernel.
 *
 * A fusion with one operation of any kind that has a kernel is always legal for one. Its results
 * are the leaves of the fused computation's root. */
#ifndef GXC_IR_KERNEL_KIND_H
#define GXC_IR_KERNEL_KIND_H

#include "ir/analysis/target.h"
#include "ir/module.h"

/* Arguments that a kernel gets without asking how many fit: before PTX 8.1 they may have 4352 bytes; since
 * then 32764. */
#define KERNEL_MOST_ARRAYS 500
/* Dimensions of an array in a kernel. */
#define KERNEL_MOST_RANK 64
/* Neighbouring elements that a thread makes at once. */
#define KERNEL_MOST_LANES 16
/* Values that are reduced, scattered or sorted together. */
#define KERNEL_MOST_VALUES 64

typedef enum {
#define KERNEL(id, ...) KERNEL_##id,
#include "ir/kernel/kernels.def"
    KERNEL_COUNT
} KernelKind;

/* What passes and codegen ask of a kind. */
enum {
    KERNEL_REDUCES = 1 << 0, /* groups of threads combine rows or columns */
    KERNEL_BY_ROWS =
        1 << 1, /* a result may have an element for each of what is reduced */
    KERNEL_CONTRACTS = 1 << 2, /* sums products */
    KERNEL_IN_PLACE = 1 << 3,  /* changes part of an operand, in its buffer */
    KERNEL_UPDATES =
        1 << 4, /* that part is one slice, read and written element by element */
    KERNEL_BY_TILES =
        1 << 5, /* makes tiles in shared memory, and stores them with what follows */
    KERNEL_BY_ELEMENT = 1 << 6, /* each element by itself: any code may join */
    KERNEL_OWN_ELEMENTS =
        1 << 7, /* a thread reads and writes the same elements, several results at once */
    KERNEL_COUNTED =
        1 << 8, /* is bound by its accesses: the report counts how wide they are */
    KERNEL_ON_TENSOR_CORES = 1 << 9,
    KERNEL_BY_TILEIR = 1 << 10, /* CUDA Tile IR can make it: kernel_tileir_program */
    KERNEL_ONE_RESULT =
        1
        << 11, /* has one, whose position decides what its blocks read: others do not join */
    KERNEL_BY_DIGIT = 1 << 12, /* launches pass which digit of the key: kernel_scalar */
    KERNEL_AS_IMAGES =
        1 << 13, /* reads images with features before positions as they are */
    KERNEL_EARLY_RESULTS =
        1 << 14, /* results of what is reduced are stored as that is read */
    KERNEL_BOTH_WAYS = 1 << 15, /* beside rows, sums of their columns */
};

typedef struct KernelKindInfo {
    const char *name, *doc;
    OpCode hero;       /* OP_COUNT: any */
    uint32_t flags;    /* KERNEL_REDUCES, ... */
    uint32_t features; /* of the target that it needs */
    uint32_t keys;     /* bit KERNEL_KEY_x: its configuration has this field */
} KernelKindInfo;

extern const KernelKindInfo kernel_kind_info[KERNEL_COUNT];

/* The kind has one of the flags; false of KERNEL_COUNT. */
bool kernel_kind_is(KernelKind kind, uint32_t flags);
/* The same of what the fusion's text names; false if `inst` is no fusion. */
bool kernel_is(const Instruction *inst, uint32_t flags);

/* The opcode that a kernel of this kind is made for; OP_COUNT: none, or no kind. */
OpCode kernel_hero(const Instruction *fusion);

/* "row_reduction" */
const char *kernel_kind_name(KernelKind kind);
/* KERNEL_COUNT: no kind has this name. */
KernelKind kernel_kind_find(const char *name, size_t length);

/* What the fusion's backend_config asks for; KERNEL_COUNT if it names no kind (that we know). */
KernelKind kernel_kind_of(const Instruction *fusion);
/* Of a fusion that was made or has changed: writes the kind into the backend_config, and drops the
 * configuration, which is that of the kernel it was. What else stands there stays. */
void kernel_kind_set(Instruction *fusion, KernelKind kind);

/* The best legal kind for the fused computation; KERNEL_COUNT if none can make it. `target` may
 * be NULL. */
KernelKind kernel_kind_choose(const Instruction *fusion, const Target *target);
/* NULL, or why this kind of kernel cannot be the fusion: static text. */
const char *kernel_illegal(const Instruction *fusion, KernelKind kind);

/* The fusion's operand whose value must lie in the buffer of result `leaf` when the kernel starts
 * (the kernel changes only part of it): the result is an alias of that operand or a copy of it was
 * made there. -1: the kernel writes all of the result. */
int64_t kernel_in_place(const Instruction *fusion, KernelKind kind, uint32_t leaf);

/* The kernel reads operand `operand` only at the elements of result `leaf` that the same thread
 * writes afterwards, so that both may lie in one buffer. */
bool kernel_writes_where_it_reads(const Instruction *fusion, uint32_t leaf,
                                  uint32_t operand);

/* Results that depend on operand `operand` have `elements` elements and read it at their own index
 * only. */
bool kernel_reads_at_results(const Instruction *fusion, uint32_t operand,
                             int64_t elements);

/* Elements that each update of an update_slice kernel writes; -1: it has none. */
int64_t kernel_update_elements(const Instruction *fusion);

/* -- results of a fused computation ------------------------------------------------------------ */

/* What leaf `leaf` of the root's shape is: instruction `inst`, of which it is leaf `inst_leaf` (0 of
 * an array). Tuples and get-tuple-elements are looked through. */
typedef struct FusionResult {
    const Instruction *inst;
    uint32_t inst_leaf;
    const Shape *shape; /* of the leaf */
} FusionResult;
uint32_t fusion_result_count(const Instruction *fusion);
FusionResult fusion_result(const Instruction *fusion, uint32_t leaf);

/* The dimension along which a reduce-window is cumulative - window i holds all elements up to i (from i
 * on: *is_reverse) - and whose other dimensions it leaves alone; -1: it is none. */
int64_t kernel_scan_dimension(const Instruction *inst, bool *is_reverse);

/* NULL if the results and the heroes have the same dimensions, the results one layout, and every way from a
 * result to a hero leads through elementwise operations: heroes are needed at the results' own index only.
 * Else the reason. */
const char *kernel_epilogue_illegal(const Instruction *fusion,
                                    const Instruction *const *heroes,
                                    uint32_t hero_count);

/* NULL if every way from `from` to a hero leads through elementwise operations of its dimensions. */
const char *kernel_reach_illegal(const Instruction *from,
                                 const Instruction *const *heroes, uint32_t hero_count);

/* The kind image_convolution is made for this convolution, on a target that has it. */
bool image_convolution_fits(const Instruction *conv);
/* The same of the kind wide_convolution. */
bool wide_convolution_fits(const Instruction *conv, const Target *t);
/* The same if the filter's dimensions were in an order that it takes. */
bool wide_convolution_takes(const Instruction *conv, const Target *t);
/* And the image has few channels: wide_rows.c. */
bool wide_convolution_takes_rows(const Instruction *conv, const Target *t);

/* The kind row_gradient is made for this gradient by the filter. */
bool row_gradient_fits(const Instruction *conv, const Target *t);
/* The same of the kind tap_gradient, if it has enough blocks. */
bool tap_gradient_fits(const Instruction *conv, const Target *t);

/* The only instruction of this opcode in the fused computation; NULL if there is none or several. */
const Instruction *fusion_hero(const Instruction *fusion, OpCode op);

#endif
