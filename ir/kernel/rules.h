/* What a family of kernels consists of (kernels.def), and what families share. Of ir/kernel only. */
#ifndef GXC_IR_KERNEL_RULES_H
#define GXC_IR_KERNEL_RULES_H

#include "ir/kernel/kernel.h"

/* What is known of a fusion when its kind is looked for; found when it is asked for first. */
typedef struct FusionFacts {
    const Instruction *fusion;
    const Target *target; /* NULL: any */
    Arena *arena;
    OpSet ops;      /* that are inside */
    uint32_t rank;  /* the largest of an array inside */
    bool is_choice; /* a kind is looked for: one that does not suit need not be legal */
    bool body_known, reduction_known;
    const char *body_wrong; /* why not all of it is computed by element; NULL */
    const struct ReductionPlan *reduction; /* NULL: it is none, because of: */
    const char *reduction_wrong;
    const struct TransposePlan *transpose; /* once it was found legal */
} FusionFacts;

/* NULL, or why the fusion is no such kernel: static text. */
typedef const char *IllegalFn(FusionFacts *f, KernelKind kind);
/* It is legal; whether it is good, too. */
typedef bool SuitsFn(FusionFacts *f, KernelKind kind);
/* Sets d->plan, and d->unsupported; the fusion was found legal. */
typedef void PlanFn(KernelDesign *d, const FusionFacts *f);
/* The heuristic: gives fields a value that have none (config_lacks). */
typedef void ConfigureFn(const KernelDesign *d, KernelConfig *c);
/* NULL, or why the configuration, whose numbers are within the bounds of config.def, cannot be. */
typedef const char *RefuseFn(const KernelDesign *d);
/* Sets the geometry, and d->unsupported where it is too large. */
typedef void GeometryFn(KernelDesign *d);

#define KERNEL(id, name, family, ...)                                                    \
    IllegalFn illegal_##family;                                                          \
    SuitsFn suits_##family;                                                              \
    PlanFn plan_##family;                                                                \
    ConfigureFn configure_##family;                                                      \
    RefuseFn refuse_##family;                                                            \
    GeometryFn geometry_##family;
#include "ir/kernel/kernels.def"

/* The least power of two from `least` on, itself one, that is n or more; `most`, one too, where that is less. */
static inline int64_t power_of_two(int64_t n, int64_t least, int64_t most)
{
    int64_t p = least;
    while (p < n && p < most)
        p *= 2;
    return p;
}

/* -- legality.c ---------------------------------------------------------------------------------- */

/* Every instruction but `hero` (may be NULL) is computed by element, and no value inside is a tuple but
 * for results and what has several of them. */
const char *body_illegal(const Instruction *fusion, const Instruction *hero);
void facts_init(FusionFacts *f, const Instruction *fusion, const Target *t, Arena *a);
/* kernel_illegal. */
const char *facts_illegal(FusionFacts *f, KernelKind kind);
/* body_illegal without a hero. */
const char *facts_body_illegal(FusionFacts *f);
/* The same of a kernel that makes `hero` and stores it with what stands behind it. */
const char *facts_hero_illegal(FusionFacts *f, const Instruction *hero);
/* Why the fusion is no reduction of rows; NULL: f->reduction is it. */
const char *facts_reduction_illegal(FusionFacts *f);
/* The one instruction `op`, whose leaves are the results, all of them in order. */
const char *hero_root_illegal(const Instruction *fusion, OpCode op);
/* The same, but some of its leaves may be missing. */
const char *hero_leaves_illegal(const Instruction *fusion, OpCode op);
/* What a value is under another shape of the same bytes at most. */
const Instruction *behind_bitcasts(const Instruction *inst);

/* -- design.c ------------------------------------------------------------------------------------ */

/* What the model says of a configuration without open fields; false: it is refused, or its grid is too large. */
bool design_seconds(const KernelDesign *d, const KernelConfig *config, double *seconds);

/* -- config.c ------------------------------------------------------------------------------------ */

/* What a text says, into those fields of d->config that have no value yet; NULL, or what is wrong with it. */
const char *config_read(KernelDesign *d, const Config *c);
/* The text has all keys of the kind. */
bool config_is_complete(const Instruction *fusion, KernelKind kind);

/* True, and from now on false: the field has no value yet. */
bool config_lacks(KernelConfig *c, KernelKey key);
/* Of a key's numbers: a heuristic that chooses more writes what would not be read again. */
int64_t config_most(KernelKey key);
void config_set_lanes(Arena *a, KernelConfig *c, int64_t lanes);
const char *refuse_text(const KernelDesign *d, const char *format, ...) GXC_FORMAT(2, 3);
/* Not one number of lanes, or not a power of two: the reason. */
const char *lanes_refused(const KernelDesign *d, uint32_t count);
const char *block_refused(const KernelDesign *d);
/* More threads than a block has, as "warps" ask for: the reason. */
const char *warps_refused(const KernelDesign *d, int64_t threads);
/* Not a power of two: the reason. */
const char *power_refused(const KernelDesign *d, const char *key, int64_t value);
/* More registers of a thread than it has in a block of so many, as the model counts them: the assembler would spill
 * them. */
const char *registers_refused(const KernelDesign *d, const char *what, int64_t registers,
                              int64_t threads);
/* tile_attention.c: tile and warps are not those of warps that each have rows of their own. */
const char *rows_of_warps_refused(const KernelDesign *d);
/* Of a mapping, NULL if there is none because of `why`; `beside`: bytes of shared memory beside its own. */
const char *chain_refused(const KernelDesign *d, const struct TileChainMapping *m,
                          uint64_t beside, const char *why);
void geometry_chain(KernelDesign *d, int64_t blocks, uint64_t shared_bytes);

/* -- reduction.c: where config.column_blocks is more than 1 --------------------------------------- */

/* Of a row, each block has `least` columns or more. */
const char *column_blocks_refused(const KernelDesign *d, int64_t least);
/* Memory for what they leave. `groups`: of blocks that have the same rows. */
void geometry_column_blocks(KernelDesign *d, int64_t groups);

/* -- geometry.c ---------------------------------------------------------------------------------- */

/* Threads of a block where each of `threads` has its own elements, and the grid of them. */
void configure_threads(KernelConfig *c, int64_t threads);
void geometry_threads(KernelDesign *d, int64_t threads);
/* A grid of so many blocks; too many are not supported. */
void geometry_blocks(KernelDesign *d, int64_t blocks, int64_t block_x, int64_t block_y);

/* Room in shared memory, as gx_shared_alloc gives it. */
void geometry_shared(KernelGeometry *g, uint64_t bytes, unsigned align);
const char *shared_refused(const KernelDesign *d, uint64_t bytes);
/* Bytes of shared memory that a block may have. */
uint64_t target_block_shared(const Target *t);
uint32_t target_multiprocessors(const Target *t);

#endif
