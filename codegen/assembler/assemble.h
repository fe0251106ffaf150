/* CUDA's parts that a compile needs: libdevice and an assembler, either nvJitLink in this process
 * or ptxas in another, which assembles large programs in pieces if nvlink lies beside it. They are
 * looked for in the folder of --cuda; else where the ptxas on PATH lies; else beside this library
 * (cuda, ../cuda, ../lib/gxc/cuda). No fixed path and no variable besides PATH. */
#ifndef GXC_CODEGEN_ASSEMBLER_ASSEMBLE_H
#define GXC_CODEGEN_ASSEMBLER_ASSEMBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/analysis/target.h"
#include "ir/base/arena.h"

typedef enum { ASSEMBLER_ANY, ASSEMBLER_NVJITLINK, ASSEMBLER_PTXAS } AssemblerKind;

typedef struct Cuda {
    AssemblerKind kind;    /* the one that will be used; never ASSEMBLER_ANY */
    const char *assembler; /* path of libnvJitLink.so or ptxas */
    const char *linker;    /* path of the nvlink beside ptxas, NULL: there is none */
    const char *libdevice; /* path of libdevice.10.bc */
    const char *
        version; /* "ptxas 13.0.88 with nvlink", "nvJitLink 13.0": for plan and --version */
    uint32_t cuda, ptx;      /* of the assembler: 13.0 is 130; highest PTX: 9.0 is 90 */
    void *library;           /* nvJitLink, loaded */
    const char *tileiras;    /* path of CUDA Tile IR's assembler; NULL: there is none */
    const char *tileir_home; /* the folder of what it needs */
    bool line_info;          /* cubins keep what PTX says of lines */
    uint32_t most_seconds; /* of processor time for each call of a program; 0: no limit */
} Cuda;

/* No program takes so long: what does never ends. */
enum { ASSEMBLER_SECONDS = 600 };

/* The folder of the file that this code is in: libgxc.so, or a program. NULL: not known. */
const char *cuda_own_folder(Arena *a);

/* `folder` is --cuda or NULL. False: *out_error says what was not found and where it was looked
 * for. Texts live in `a`. The library stays loaded to the end of the process. */
bool cuda_find(Arena *a, const char *folder, AssemblerKind wanted, Cuda *out,
               const char **out_error);

/* What the assembler's log says of one kernel, or its cubin. */
typedef struct KernelUse {
    const char *name;
    uint32_t registers, stack, spill_stores, spill_loads; /* bytes, but for registers */
    const char *
        loss; /* what it calls a potential loss of performance: wgmma that is serialized, setmaxnreg that is
                         ignored; NULL: none */
} KernelUse;

/* Bytes that a thread of the kernel spills, stores and loads together. */
uint32_t kernel_use_spills(const KernelUse *use);

/* Why there is no cubin. */
typedef enum {
    ASSEMBLER_REFUSED,     /* it does not take the text */
    ASSEMBLER_OUT_OF_TIME, /* more than cuda->most_seconds */
    ASSEMBLER_LOST /* it did not run, or was ended: another time it may make one */
} AssembleFailure;

typedef struct Cubin {
    const void *data;
    size_t bytes;
    const KernelUse *
        uses; /* in the order of the log; of tileiras, those only of which it says something */
    size_t use_count;
    double seconds; /* of processor time that another process took */
    AssembleFailure failure;
} Cubin;

/* What is assembled: all of a program, or a piece of it that assemble_link takes; either with fewer registers than
 * ptxas would use for its fastest code, or simply: at -O1, which ends where -O3 does not. nvJitLink, in this process,
 * cannot be ended, and is not asked for simple code. */
typedef enum {
    ASSEMBLE_WHOLE = 0,
    ASSEMBLE_PIECE = 1 << 0,
    ASSEMBLE_SPARING = 1 << 1,
    ASSEMBLE_SIMPLE = 1 << 2
} AssembleForm;

/* With `threads` where the assembler can use them (ptxas from CUDA 13 on, 2 to 9); 0: one a
 * processor. The flags are fixed, as the assembler writes them into the cubin: the same text gives
 * the same bytes, whatever `threads` is. False: *out_error has the assembler's words, out->failure says
 * what they are worth. A piece needs cuda->linker. */
bool assemble(Arena *a, const Cuda *cuda, const Target *target, const char *ptx,
              AssembleForm form, uint32_t threads, Cubin *out, const char **out_error);

/* One cubin of a module of CUDA Tile IR; needs cuda->tileiras. */
bool assemble_tileir(Arena *a, const Cuda *cuda, const Target *target,
                     const void *bytecode, size_t bytes, Cubin *out,
                     const char **out_error);

/* Finds cuda->tileiras: in the folder of --cuda, or where the ptxas on PATH lies, or beside this library (tileir,
 * ../tileir, ../lib/gxc/tileir). */
void cuda_find_tileir(Arena *a, const char *folder, Cuda *out);
/* "tileiras 13.5.37"; NULL: it does not run. */
const char *cuda_tileir_version(Arena *a, const Cuda *cuda);

/* What a cubin of one kernel says of it. */
typedef struct CubinKernel {
    KernelUse use;
    uint32_t threads; /* of a block */
    uint64_t shared_bytes;
} CubinKernel;
/* False: it has no such kernel. */
bool cubin_kernel(Arena *a, const Cubin *cubin, const char *kernel, CubinKernel *out);

/* One cubin of several pieces, whose code it holds as it is. */
bool assemble_link(Arena *a, const Cuda *cuda, const Target *target, const Cubin *pieces,
                   size_t count, Cubin *out, const char **out_error);

#endif
