/* From kernel requests to code: a few kernels at a time, in `jobs` threads, then the assembler on
 * pieces of several kernels. What a kernel becomes depends on its request and the target only; the
 * module is read, never changed. */
#ifndef GXC_CODEGEN_BUILD_BUILD_H
#define GXC_CODEGEN_BUILD_BUILD_H

#include "codegen/codegen.h"
#include "codegen/gx/gx.h"
#include "codegen/request.h"

/* A kernel by way of CUDA Tile IR: a cubin of its own. */
typedef struct TileCode {
    const void *bytecode; /* NULL: there is none */
    size_t bytecode_bytes;
    Cubin cubin; /* data NULL: there is none */
    CubinKernel kernel;
    uint32_t blocks;
    const char
        *why; /* there is none, where it was wanted; NULL: there is one, or it was not */
} TileCode;

/* What a request became. */
typedef struct KernelCode {
    const KernelAccess *accesses; /* [arg_count] */
    const char *ptx;
    const void *object; /* of runtime/emu/abi.def; NULL unless options->emu */
    size_t object_bytes;
} KernelCode;

typedef struct Build {
    Arena *arena; /* of the calling thread */
    const CodegenOptions *options;
    const Target *target;
    const struct SourceLines *lines; /* codegen/gx/lines.h; NULL: kernels name none */
    const KernelRequest *requests;
    size_t count;
    KernelCode *codes; /* [count] */
    TileCode *tiles;   /* [count] */
    Cubin cubin;       /* of all kernels, where the stage has one */
    /* Seconds of processor time, of all threads and processes. */
    double llvm_seconds, emu_seconds, assembler_seconds;
    double assembler_wall; /* that passed while it was called */
    CacheCounts cache;
    int cache_error;       /* errno of an entry that could not be written; 0: none */
    const char **warnings; /* of the assembler's work */
    size_t warning_count;
    /* its own */
    struct Libdevice *device;
    struct BuildWorker *workers;
    uint32_t worker_count;
    struct Piece *pieces;
    size_t piece_count;
} Build;

/* Kernels are made for the host, too. */
static inline bool build_has_objects(const Build *b)
{
    return b->options->emu && b->options->stage == STAGE_ARTEFACT;
}

/* Makes `codes` and `cubin`. False: *out_error says what could not be read, or the assembler's words.
 * Throws ESCAPE_UNSUPPORTED, at the fusion, for what a kernel or the target cannot do. */
bool build_run(Build *b, const char **out_error);

/* The kernels in gx.* form, as one module's text; in the arena. */
const char *build_text(Build *b, const char **out_error);

/* The kernels that CUDA Tile IR can make, as bytecode of one module; in the arena. */
const void *build_tileir(Build *b, size_t *out_bytes);

/* PTX of all kernels, in order, as one text; in the arena. */
const char *build_ptx(Build *b);

/* An archive of all objects, as .gxc.emu holds it; in the arena. */
const void *build_objects(Build *b, size_t *out_bytes);

/* Gives back LLVM's objects and the memory of the threads: codes are gone, too. */
void build_destroy(Build *b);

#endif
