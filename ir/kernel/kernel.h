/* The kernel that a fusion becomes: how it is made (its configuration), and what it is launched with
 * (its geometry). Pure: no LLVM, nothing is changed, the same fusion gives the same numbers.
 *
 *   kind           what the fusion's text names (kind.h)
 *   plan           the fusion as its kind sees it: rows, columns, heroes, ...
 *   configuration  the numbers that the kind's row of kernels.def has: what the text says, then the tuning file,
 *                  then the heuristic
 *   geometry       follows from all of these and the target
 *
 * Codegen writes the code that they say, and decides nothing. */
#ifndef GXC_IR_KERNEL_KERNEL_H
#define GXC_IR_KERNEL_KERNEL_H

#include "ir/attribute/config.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/tuning.h"

/* -- configuration ------------------------------------------------------------------------------- */

typedef enum {
#define KERNEL_KEY(id, ...) KERNEL_KEY_##id,
#include "ir/attribute/config.def"
    KERNEL_KEY_COUNT
} KernelKey;

/* Those that stand in the text only where they say something. */
#define KERNEL_OPTIONAL_KEYS                                                             \
    (1u << KERNEL_KEY_SLICES | 1u << KERNEL_KEY_PANEL | 1u << KERNEL_KEY_STREAM_K |      \
     1u << KERNEL_KEY_COLUMN_BLOCKS | 1u << KERNEL_KEY_BY_POSITIONS)

/* Fields are named as in the text; those that the kind of kernel does not have are 0. */
typedef struct KernelConfig {
    uint32_t set; /* bit KERNEL_KEY_x: the field has a value */
#define KERNEL_FIELD_ONE(field) int64_t field;
#define KERNEL_FIELD_FLAG(field) bool field;
#define KERNEL_FIELD_PAIR(field) int64_t field[2];
#define KERNEL_FIELD_LIST(field) Ints field;
#define KERNEL_KEY(id, field, shape, least, most, doc) KERNEL_FIELD_##shape(field)
#include "ir/attribute/config.def"
} KernelConfig;

/* {"block":128,"lanes":[4]}: the fields that are set, in the table's order. */
const char *kernel_config_text(Arena *a, const KernelConfig *c);

/* NULL, or why no kernel of the kind can have this configuration, whatever its fusion. */
const char *kernel_config_wrong(Arena *a, KernelKind kind, const Config *c);

/* -- geometry ------------------------------------------------------------------------------------ */

typedef struct KernelGeometry {
    uint32_t grid[3];      /* blocks */
    uint32_t block[3];     /* threads of each */
    uint64_t shared_bytes; /* of a block */
    /* Of device memory in which blocks tell each other how far they are: the kernel's last argument. 0: it has none. The
     * first so many of them are 0 when the kernel starts. */
    uint64_t scratch_bytes, cleared_bytes;
    /* The same of what blocks leave for the last of them, whatever it is when the kernel starts, and of what they are
     * counted in, which is 0 before and behind each launch: the last two arguments. 0: there are none. */
    uint64_t partial_bytes, ticket_bytes;
    /* Blocks that registers are to leave a multiprocessor room for; 0: as many as its threads say. */
    uint32_t resident_blocks;
    bool has_barriers; /* or shuffles: threads of a block wait for one another */
} KernelGeometry;

/* Threads of a block of 512 have 64 registers, and 128 where the kernel's code has more accesses than these. */
enum { KERNEL_FEW_ACCESSES = 8 };

/* -- both ------------------------------------------------------------------------------------------ */

typedef struct KernelDesign {
    const Instruction *fusion;
    const Target *target; /* NULL: a device of average size */
    Arena *arena;
    KernelKind kind;
    union { /* by the kind's family */
        const struct ScatterPlan *scatter;
        const struct SortPlan *sort;
        const struct RadixPlan *radix;
        const struct RngPlan *rng;
        const struct TopKPlan *topk;
        const struct FftPlan *fft;
        struct TrianglePlan *triangle;
        const struct ScanPlan *scan;
        const struct UpdatePlan *update;
        const struct ContractionPlan *contraction;
        const struct TilePlan *tile;
        const struct Attention *attention;
        const struct DotChain *chain;
        const struct ReductionPlan *reduction;
        const struct TransposePlan *transpose;
        const struct LoopPlan *loop;
        const struct WhilePlan *element_while;
        const struct StencilPlan *stencil;
        const struct ImagePlan *image;
        const struct WidePlan *wide;
        const struct GradientPlan *gradient;
    } plan;
    KernelConfig config;     /* complete */
    KernelGeometry geometry; /* only where nothing is wrong */
    const char *wrong;       /* NULL, or why the text's configuration cannot be */
    const char
        *unsupported; /* NULL, or why there is no such kernel, however it is configured */
    bool registers_only; /* of its work nothing else is asked */
} KernelDesign;

/* Everything about the kernel of a fusion that names a kind. `a` keeps the plan. Look at `wrong`, then at
 * `unsupported`, before the rest. */
void kernel_design(const Instruction *fusion, const Target *t, Arena *a,
                   KernelDesign *out);

/* The mapping of a tiled kernel (ir/tile/mapping.h), made in `a`; NULL: *why says what is wrong, as static text. */
struct TileMapping *kernel_tile_mapping(const KernelDesign *d, Arena *a,
                                        const char **why);
/* The same, made in the design's arena, and only once for a configuration. */
const struct TileMapping *design_tile_mapping(const KernelDesign *d, const char **why);

/* The same of an attention, of a chain of dots. */
struct TileChainMapping *kernel_attention_mapping(const KernelDesign *d, Arena *a,
                                                  const char **why);
struct TileChainMapping *kernel_chain_mapping(const KernelDesign *d, Arena *a,
                                              const char **why);

/* The program of tiles of a kernel of KERNEL_BY_TILEIR as gxc's own code has it, made in `a`; NULL: *why, as above. */
const struct TileProgram *kernel_tile_program(const KernelDesign *d, Arena *a,
                                              const char **why);

/* What is asked of CUDA Tile IR's assembler besides a program. */
typedef struct TileIrHints {
    uint32_t warps;  /* that shall multiply, of each block; 0: any number */
    uint32_t blocks; /* of a cluster, which makes a tile together */
    int64_t
        columns; /* what stands behind the loop is made for so many at a time; 0: all */
    int64_t
        panel; /* of the order of a product's tiles (ir/tile/panels.h); by kernel_tileir_panel */
    const struct TileConfig *tile; /* of the product that is made so, in the arena */
} TileIrHints;

/* The program of a tiled kernel for CUDA Tile IR, with tiles of its own, made in `a`. NULL: *why says what is in the
 * way, as static text. */
struct TileProgram *kernel_tileir_program(const KernelDesign *d, Arena *a,
                                          TileIrHints *hints, const char **why);

/* The same with tiles of hints->columns columns; NULL: all are made at a time. */
struct TileProgram *kernel_tileir_piece(const KernelDesign *d, Arena *a,
                                        const TileIrHints *hints);

/* The panel of its tiles that reads least of memory; 1: rows of tiles, one after the other. */
int64_t kernel_tileir_panel(const KernelDesign *d);

/* CUDA Tile IR shall make it: its assembler is at hand, and either the model of time finds its kernel faster than
 * ours or nothing else is wanted. */
bool kernel_by_tileir(const KernelDesign *d);

/* A constant of a kernel that its launches pass: fusions that differ in nothing else have one kernel. */
typedef struct KernelScalar {
    const Instruction *constants[2]; /* those that are nothing but it */
    uint32_t count;
    uint64_t value;
} KernelScalar;

/* False: the fusion's kernel has none. */
bool kernel_scalar(const Instruction *fusion, KernelScalar *out);

/* A message to the module's diagnostics of what is wrong. */
void kernel_wrong(const KernelDesign *d);
/* What the text of a fusion says of its configuration; equal texts: equal configurations. */
const char *kernel_config_key(Arena *a, const Instruction *fusion);

typedef struct KernelsConfigured {
    uint64_t count; /* of fusions whose texts were completed */
    uint64_t tuned; /* of those: by the tuning file */
} KernelsConfigured;

/* Completes the configurations in the texts of all fusions that name a kind: those that are complete stay as they
 * are. False after messages to the module's diagnostics: what a text or the tuning file (NULL: there is none) says
 * cannot be. */
bool kernel_configure_all(Module *m, const Target *t, const Tuning *tuning,
                          KernelsConfigured *out);
#endif
