/* What emitters write kernels with: ordinary LLVM IR through the LLVM-C builder, plus calls to
 * the pseudo functions of gx.def through the functions below.
 *
 * A kernel is written once, for no machine in particular. It is a function whose
 * parameters are pointers (that only gx_load, gx_store and gx_atomic look through, by argument
 * number and byte offset). The module is then cloned and lowered row by row of
 * gx.def, once for NVPTX and once for the host: the kernel that ships is the kernel that is
 * tested. Emitters use no NVPTX intrinsic, no inline assembly, no plain load or store, no
 * alloca that lives across a loop, no global variable.
 *
 * Types of accesses: i8 i16 i32 i64 half bfloat float double, and vectors <2|4|8|16 x T> of
 * them of at most 32 bytes. A pred is an i8 in memory; packed 4-bit types are read as bytes.
 *
 * `at` of the kernel is the name of the HLO instruction whose code is being written: emitters
 * keep it up. Every access, barrier and shuffle remembers it; the emulator's findings
 * name it.
 *
 * Mistakes of an emitter (a bad argument number, a type that no row takes) are bug(). An
 * operation that the target lacks becomes ESCAPE_UNSUPPORTED when the kernel is lowered. */
#ifndef GXC_CODEGEN_GX_GX_H
#define GXC_CODEGEN_GX_GX_H

#include <llvm-c/Core.h>
#include <stdbool.h>
#include <stdint.h>

#include "codegen/request.h"
#include "ir/base/arena.h"
#include "ir/kernel/tensor_core.h"

/* Bytes of the accesses that a kernel's code holds to one argument, and those of 16 bytes. */
typedef struct KernelAccess {
    uint64_t bytes, wide;
} KernelAccess;

typedef struct Kernel {
    Arena *arena;
    const char *name; /* [A-Za-z0-9_$], unique in the program */
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder; /* stands in the entry block after kernel_create */
    LLVMValueRef function;
    const KernelArg *args;
    KernelAccess *accesses; /* [arg_count] */
    uint32_t arg_count;
    uint32_t block[3];     /* threads: x, y, z */
    uint32_t grid[3];      /* blocks */
    uint64_t shared_bytes; /* of a block; grown by gx_shared_alloc */
    uint32_t shared_align;
    bool needs_fibres; /* uses a barrier or a shuffle: kept up by the functions below */
    bool contract;     /* a*b+c may become one fma (--fp-contract) */
    bool is_wide;      /* a thread may have all the registers that there are */
    uint32_t
        resident_blocks; /* that registers are to leave a multiprocessor room for; 0: as the block's size says */
    bool
        is_rest; /* what is written now runs for a few elements: not counted as accessed */
    const char *at; /* HLO instruction whose code is written now; outlives the kernel */
    const char **sites; /* site number -> HLO instruction */
    size_t site_count, site_capacity;
    uint32_t sync_count;   /* barriers, shuffles and the like written */
    uint32_t access_count; /* accesses of shared memory written */
    const struct SourceLines
        *lines;            /* lines.h; NULL: the code does not say of which it is */
    LLVMMetadataRef scope; /* where there are lines */
} Kernel;

/* A kernel with an empty entry block, a function of `module`: backend_module, shared by many
 * kernels. Everything lives in `a`, except the builder, which kernel_finish gives back. The
 * module's context must not be used by another thread meanwhile. */
Kernel *kernel_create(Arena *a, LLVMModuleRef module, const char *name,
                      const KernelArg *args, uint32_t arg_count, const uint32_t block[3],
                      const uint32_t grid[3]);

/* ---- who am I ---- */
/* All i32 and known to be below their bound; axis 0 x, 1 y, 2 z. Where the bound is 1 they
 * are the constant 0, and sizes are constants. */
LLVMValueRef gx_tid(Kernel *k, unsigned axis);
LLVMValueRef gx_ctaid(Kernel *k, unsigned axis);
LLVMValueRef gx_lane(Kernel *k); /* linear thread index mod 32 */

/* What launches pass for an argument that is_scalar: i64, the same for all threads. */
LLVMValueRef gx_scalar(Kernel *k, unsigned arg);

/* ---- memory ---- */
#define GX_SHARED 0xffffffffu /* as `arg`: the block's shared memory */

/* `offset` is in bytes, i32 or i64, never negative. `align` is the address's, in bytes. Loads
 * through an argument that is_read_only may use the non-coherent cache. */
LLVMValueRef gx_load(Kernel *k, unsigned arg, LLVMValueRef offset, LLVMTypeRef type,
                     unsigned align);
void gx_store(Kernel *k, unsigned arg, LLVMValueRef offset, LLVMValueRef value,
              unsigned align);

/* Room in the block's shared memory: returns its byte offset. `align` at most 1024. */
uint32_t gx_shared_alloc(Kernel *k, uint64_t bytes, unsigned align);

typedef enum {
    GX_ATOMIC_ADD, /* integers and floats */
    GX_ATOMIC_MIN, /* signed; floats: NaN wins, -0 < +0, as HLO's minimum */
    GX_ATOMIC_MAX,
    GX_ATOMIC_UMIN,
    GX_ATOMIC_UMAX,
    GX_ATOMIC_AND,
    GX_ATOMIC_OR,
    GX_ATOMIC_XOR,
} GxAtomic;

/* Relaxed; seen by the device (global memory) or the block (shared). Returns the old value.
 * Any scalar type of 1 to 8 bytes, naturally aligned: what the target lacks becomes a
 * compare-and-swap loop. */
LLVMValueRef gx_atomic(Kernel *k, GxAtomic op, unsigned arg, LLVMValueRef offset,
                       LLVMValueRef value);

/* What blocks tell each other while they run: an integer of 4 or 8 bytes, naturally aligned, that is read or
 * written at once, relaxed, past the caches of a multiprocessor. Other accesses are not ordered by it: what
 * is told stands in the integer itself, or before a fence (gx_fence). */
LLVMValueRef gx_atomic_load(Kernel *k, unsigned arg, LLVMValueRef offset,
                            LLVMTypeRef type);
void gx_atomic_store(Kernel *k, unsigned arg, LLVMValueRef offset, LLVMValueRef value);
/* In a loop that waits for another block. That block must have started before: blocks take tickets, for their
 * numbers say nothing about the order in which they start. */
void gx_pause(Kernel *k);
/* Orders what the thread did, and what others of its block did before a barrier in front of the fence, with an atomic
 * behind it; and an atomic in front of it with what the thread does next, and others of its block behind a barrier. */
void gx_fence(Kernel *k);

/* ---- threads together ---- */
void gx_barrier(Kernel *k);  /* all threads of the block */
void gx_syncwarp(Kernel *k); /* all threads of the warp */

typedef enum { GX_SHFL_UP, GX_SHFL_BFLY, GX_SHFL_IDX } GxShfl;

/* Any scalar or vector of a whole number of bytes; all 32 lanes take part. `width` (a power of
 * two, at most 32) splits the warp into groups; `operand` is an i32: how many lanes below, what the lane's
 * number is xored with, or (IDX) the lane of the group. A lane that would look outside its group gets its own value. */
LLVMValueRef gx_shfl(Kernel *k, GxShfl mode, LLVMValueRef value, LLVMValueRef operand,
                     unsigned width);

/* The lanes of the warp whose `vote` (i1) is true, as bits of an i32; all 32 lanes take part. */
LLVMValueRef gx_ballot(Kernel *k, LLVMValueRef vote);

/* ---- tensor cores ---- */
/* d = a b + c by all lanes of a warp. Registers of a lane as tensor_core_layout and tensor_core_registers
 * have them: those of a and b i32 with packed elements, f64 double, of f32, which are rounded to TF32, one; c and d one
 * element each. d may be c. */
void gx_mma(Kernel *k, const TensorCore *t, const LLVMValueRef *a, const LLVMValueRef *b,
            const LLVMValueRef *c, LLVMValueRef *d);

/* 1, 2 or 4 matrices of 8 rows of 16 bytes between shared memory and a register (i32) each: lane 8 j + i names
 * the offset of row i of matrix j, the others' offsets count for nothing. linear_matrix_rows says which
 * elements a lane has. stmatrix needs sm_90. */
void gx_ldmatrix(Kernel *k, LLVMValueRef offset, uint32_t count, bool is_transposed,
                 LLVMValueRef *out);
void gx_stmatrix(Kernel *k, LLVMValueRef offset, uint32_t count, bool is_transposed,
                 const LLVMValueRef *values);

/* Matrices of 8 rows of 16 bytes, one row behind the other, in shared memory: those that follow each other along the
 * summed dimension are `lead` bytes apart, along the other one `stride`. Rows of a matrix are of the other dimension; of
 * a transposed factor they are terms. The left factor may lie in registers instead: a warp has 16 of the rows, as the
 * factor a of m16n8k16.
 *
 * With `line`, swizzled: matrices beside each other have their rows together, `line` bytes, whose pieces of 16 bytes are
 * xor'ed with bits 7 and up of their address; 8 such rows are `stride` bytes from the next ones below, the next column
 * of rows is `lead` bytes away. What begins at a multiple of 1024 bytes begins a column. */
typedef struct GxMatrices {
    LLVMValueRef offset; /* i32, a multiple of 16 */
    uint32_t lead, stride;
    uint32_t line; /* 32, 64, 128; 0: not swizzled. Of gx_wgmma only */
    bool is_transposed;
    const LLVMValueRef
        *words; /* i32, GX_WGMMA_WORDS of each step; NULL: in shared memory */
} GxMatrices;
enum {
    GX_WGMMA_TRANSPOSED = 512,
    GX_WGMMA_F16 = 1024,
    GX_WGMMA_RIGHT_TRANSPOSED = 2048,
    GX_WGMMA_REGISTERS = 4096,
    GX_TENSOR_TALL = 8192,
    GX_WGMMA_GOES_ON = 16384,
    GX_WGMMA_INDEX = 65536,
    GX_WGMMA_MOST_INDEX = 256, /* below */
    GX_WGMMA_LINE = 1 << 24,
    GX_WGMMA_RIGHT_LINE = 1 << 26,
    GX_WGMMA_LINES = 4,
    GX_WGMMA_WORDS = 4
};

/* sums += a b, of 64 rows and `columns` columns (a multiple of 8, 256 at most), and 16 terms in each of `steps`, by four
 * warps that stand together: thread t has of rows 16 (t / 32) + t % 32 / 4 and 8 below it columns 8 i + 2 (t % 4) and
 * the next one, as sums 4 i to 4 i + 3. bf16 or f16; sums of f32. What it reads is written before gx_proxy_fence by
 * who wrote it, and a barrier; it is read when this returns. */
void gx_wgmma(Kernel *k, DType type, uint32_t columns, uint32_t steps,
              const GxMatrices *a, const GxMatrices *b, LLVMValueRef *sums);
/* The same of factors in shared memory, which goes on when this returns: until gx_wgmma_wait nobody writes what it reads,
 * and the sums are given to further ones only, of as many columns. `index`: of its sums among those that the wait gets. */
void gx_wgmma_begin(Kernel *k, DType type, uint32_t columns, uint32_t steps,
                    const GxMatrices *a, const GxMatrices *b, uint32_t index,
                    LLVMValueRef *sums);
/* Until `left` of those that were begun last go on at most; all `count` sums of the thread. */
void gx_wgmma_wait(Kernel *k, uint32_t left, uint32_t count, LLVMValueRef *sums);
void gx_proxy_fence(Kernel *k);

/* ---- tensor memory: tensor_memory.c ---- */
/* 128 lanes by 512 columns of 32 bits; an address (i32) is a column, + GX_TENSOR_LANE for each lane. A warp asks for
 * columns (32 to 512, a power of two), whose address is written to shared memory; the same one gives them back. Other
 * blocks wait for them meanwhile. */
enum { GX_TENSOR_LANE = 65536 };
void gx_tensor_alloc(Kernel *k, LLVMValueRef slot, uint32_t columns);
void gx_tensor_free(Kernel *k, LLVMValueRef address, uint32_t columns);
/* One thread issues: sums at `address` (+)= a b, of `rows` rows, 64 or 128, and `columns` columns (a multiple of 8 or 16,
 * 256 at most), 16 terms in each of `steps`. `adds`: i32, 1 or 0. 128 rows are the lanes; of 64, each warp's first
 * 16 lanes have 16. Factors as gx_wgmma's, in shared memory. What they read is written before gx_proxy_fence by who
 * wrote it, and a barrier; it may be written again, and the sums read, once the commit's mbarrier was waited for. */
void gx_tensor_mma(Kernel *k, DType type, uint32_t rows, uint32_t columns, uint32_t steps,
                   const GxMatrices *a, const GxMatrices *b, LLVMValueRef address,
                   LLVMValueRef adds);
void gx_tensor_commit(Kernel *k, LLVMValueRef mbarrier);
/* Of 16 lanes of those that belong to the warp (32 of its number by 4): lane t has of rows t / 4 and 8 below it the
 * columns that gx_wgmma gives it. `columns`: 8 times a power of two, 64 at most. */
void gx_tensor_load(Kernel *k, LLVMValueRef address, uint32_t columns,
                    LLVMValueRef *sums);
/* 8 bytes of shared memory; one thread makes it, a barrier before others use it. Waiting for phase n (the n-th commit,
 * from 0 on) has parity n % 2; the next but one must not end meanwhile. Threads may come alone. */
void gx_mbarrier_init(Kernel *k, LLVMValueRef offset);
void gx_mbarrier_wait(Kernel *k, LLVMValueRef offset, LLVMValueRef parity);

/* ---- asynchronous copies ---- */
/* 4, 8 or 16 bytes, aligned to as many on both sides, into shared memory; `valid` (i32, at most `bytes`; NULL: all)
 * of them are read and the rest become zeros. A thread's copies make up groups; gx_copy_wait waits
 * until at most `left` of its latest groups are under way. Others see the bytes behind a barrier. */
void gx_copy_async(Kernel *k, unsigned arg, LLVMValueRef offset, LLVMValueRef to,
                   unsigned bytes, LLVMValueRef valid);
void gx_copy_commit(Kernel *k);
void gx_copy_wait(Kernel *k, unsigned left);

/* ---- arithmetic that is the same on both back ends ---- */
/* libdevice's __nv_<name>: "expf", "pow", "atan2f", … Scalars only; the result has the type of
 * args[0]. */
LLVMValueRef gx_libdevice(Kernel *k, const char *name, LLVMValueRef *args,
                          unsigned count);
/* 2^x of an f32 as the GPU's instruction has it, with a relative error of up to 2^-22; what would be denormal is 0. */
LLVMValueRef gx_power_of_two(Kernel *k, LLVMValueRef x);
/* 1 / sqrt(x) of an f32 as the GPU's instruction has it, with a relative error of up to 2^-22.9, of denormals too. */
LLVMValueRef gx_reciprocal_root(Kernel *k, LLVMValueRef x);
/* sqrt(x) of an f32 as the GPU's instruction has it, with a relative error of up to 2^-23, of denormals too. */
LLVMValueRef gx_near_root(Kernel *k, LLVMValueRef x);
/* x / y of f32 as the GPU's short instruction has it, at most 2 units in the last place off, of denormals too. */
LLVMValueRef gx_near_quotient(Kernel *k, LLVMValueRef x, LLVMValueRef y);
/* An overloaded intrinsic of LLVM that both back ends have in hardware or expand inline, on
 * scalars or vectors, overloaded on the type of args[0]: fabs copysign floor ceil trunc
 * roundeven sqrt fma minimum maximum minnum maxnum, smin smax umin umax abs ctpop ctlz cttz
 * bswap bitreverse fshl fshr, fptosi.sat (see gx_float_to_int). */
LLVMValueRef gx_intrinsic(Kernel *k, const char *name, LLVMValueRef *args,
                          unsigned count);
/* Saturating; NaN gives 0. */
LLVMValueRef gx_float_to_int(Kernel *k, LLVMValueRef value, LLVMTypeRef type,
                             bool is_signed);
/* Floating add, sub, mul, div with the kernel's contraction flag: op is LLVMFAdd, … */
LLVMValueRef gx_float_op(Kernel *k, LLVMOpcode op, LLVMValueRef a, LLVMValueRef b);

/* ---- floats of 8 bits and less ---- */
/* Formats that some GPUs convert in hardware, two numbers at a time: e4m3fn, e5m2, e2m1fn, e8m0
 * (to f32 only). */
typedef enum { GX_E4M3, GX_E5M2, GX_E2M1, GX_E8M0 } GxNarrow;

/* Two f32 to two codes in an i16, the first in the low bits (bytes; e2m1: nibbles of the low
 * byte), and back to a <2 x float>. `otherwise` is the same result as plain code computes it:
 * it stays where the target has no such instruction, and is dropped where it has. */
LLVMValueRef gx_encode_pair(Kernel *k, GxNarrow format, LLVMValueRef low,
                            LLVMValueRef high, LLVMValueRef otherwise);
LLVMValueRef gx_decode_pair(Kernel *k, GxNarrow format, LLVMValueRef codes,
                            LLVMValueRef otherwise);

/* ---- small things that every emitter needs ---- */
LLVMTypeRef gx_int_type(Kernel *k, unsigned bits);
LLVMValueRef gx_i32(Kernel *k, uint32_t value);
/* Of integers that are not negative, as what they make is not: LLVM is told, as it looks far for that otherwise. */
LLVMValueRef gx_add_natural(Kernel *k, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef gx_mul_natural(Kernel *k, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef gx_i64(Kernel *k, uint64_t value);
unsigned gx_type_bytes(LLVMTypeRef type); /* 0: not one that an access takes */
LLVMBasicBlockRef gx_block(Kernel *k, const char *name); /* appended to the function */

/* for (i = start; i < end; i += step) { body }: begin leaves the builder in the body, end
 * behind the loop. start, end and step have one integer type; signed compare. Values carried
 * round the loop: set `carried` to the initial ones; in the body they are the current ones;
 * give the next ones to gx_loop_end, after which `carried` holds the final ones. */
typedef struct GxLoop {
    LLVMValueRef index;
    LLVMValueRef *carried;
    unsigned carried_count;
    bool
        keeps_addresses; /* of few steps or much code, see gx_loop_end; to set behind gx_loop_begin */
    bool
        is_rolled; /* LLVM and the assembler do not repeat its body; to set behind gx_loop_begin */
    LLVMValueRef step, *phi; /* its own */
    LLVMBasicBlockRef header, exit;
} GxLoop;
void gx_loop_begin(Kernel *k, GxLoop *loop, LLVMValueRef start, LLVMValueRef end,
                   LLVMValueRef step, LLVMValueRef *carried, unsigned carried_count);
void gx_loop_end(Kernel *k, GxLoop *loop, LLVMValueRef *next);
/* The next value of a loop's variable, so that LLVM's loop strength reduction leaves the loop alone. */
LLVMValueRef gx_hide_step(Kernel *k, LLVMValueRef index);

/* while (condition) { body }: begin leaves the builder where the condition's code goes, body behind the
 * test of it; carried values as those of GxLoop, right from gx_while_begin on. `index` and `step` stay
 * unused. */
void gx_while_begin(Kernel *k, GxLoop *loop, LLVMValueRef *carried,
                    unsigned carried_count);
void gx_while_body(Kernel *k, GxLoop *loop, LLVMValueRef condition);
void gx_while_end(Kernel *k, GxLoop *loop, const LLVMValueRef *next);

/* if (condition) { then } else { otherwise }, with values that both sides yield:
 *   GxIf s; gx_if_begin(k, &s, c); …; gx_if_else(k, &s, yields, n); …; gx_if_end(k, &s, yields, n, out);
 * gx_if_else may be left out when n is 0. */
typedef struct GxIf {
    LLVMValueRef *yields; /* its own */
    LLVMBasicBlockRef then_end, otherwise, end;
    bool has_else;
} GxIf;
void gx_if_begin(Kernel *k, GxIf *s, LLVMValueRef condition);
void gx_if_else(Kernel *k, GxIf *s, const LLVMValueRef *yields, unsigned count);
void gx_if_end(Kernel *k, GxIf *s, const LLVMValueRef *yields, unsigned count,
               LLVMValueRef *out);

/* Ends the function; needed before lowering. */
void kernel_finish(Kernel *k);
/* Gives back the builder of one that is not finished, for its emitter was left by an escape. */
void kernel_abandon(Kernel *k);
/* LLVM's rules hold for the function: else an emitter has made a mistake. */
void kernel_check(const Kernel *k);

#endif
