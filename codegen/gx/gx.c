/* The emitters' side of gx.*: kernels, and the functions that write calls to the pseudo
 * functions. Each pseudo function is declared in the kernel's module when first used; what it
 * becomes is decided later, in lower_nvptx.c and lower_emu.c. */
#include "codegen/gx/gx.h"
#include "codegen/gx/call.h"
#include "codegen/gx/lower.h"

#include <llvm-c/Analysis.h>
#include <stdio.h>
#include <string.h>

#include "ir/base/bug.h"
#include "runtime/emu/abi.def"

/* ---- types and constants ---- */

LLVMTypeRef gx_int_type(Kernel *k, unsigned bits)
{
    return LLVMIntTypeInContext(k->context, bits);
}

LLVMValueRef gx_i32(Kernel *k, uint32_t value)
{
    return LLVMConstInt(LLVMInt32TypeInContext(k->context), value, 0);
}

/* Constants have been folded, and are no instructions. */
static LLVMValueRef natural(LLVMValueRef v)
{
    if (LLVMIsAInstruction(v) != NULL)
        LLVMSetNSW(v, 1);
    return v;
}

LLVMValueRef gx_add_natural(Kernel *k, LLVMValueRef x, LLVMValueRef y)
{
    return natural(LLVMBuildNUWAdd(k->builder, x, y, ""));
}

LLVMValueRef gx_mul_natural(Kernel *k, LLVMValueRef x, LLVMValueRef y)
{
    return natural(LLVMBuildNUWMul(k->builder, x, y, ""));
}

LLVMValueRef gx_i64(Kernel *k, uint64_t value)
{
    return LLVMConstInt(LLVMInt64TypeInContext(k->context), value, 0);
}

static unsigned scalar_bits(LLVMTypeRef type)
{
    switch (LLVMGetTypeKind(type)) {
    case LLVMIntegerTypeKind:
        return LLVMGetIntTypeWidth(type);
    case LLVMHalfTypeKind:
    case LLVMBFloatTypeKind:
        return 16;
    case LLVMFloatTypeKind:
        return 32;
    case LLVMDoubleTypeKind:
        return 64;
    default:
        return 0;
    }
}

static unsigned type_bits(LLVMTypeRef type)
{
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
        return LLVMGetVectorSize(type) * scalar_bits(LLVMGetElementType(type));
    return scalar_bits(type);
}

unsigned gx_type_bytes(LLVMTypeRef type)
{
    LLVMTypeRef scalar = type;
    unsigned lanes = 1;
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind) {
        lanes = LLVMGetVectorSize(type);
        scalar = LLVMGetElementType(type);
    }
    unsigned bits = scalar_bits(scalar);
    bool is_scalar_ok = bits == 8 || bits == 16 || bits == 32 || bits == 64;
    bool is_lanes_ok = lanes <= 32 && (lanes & (lanes - 1)) == 0;
    if (!is_scalar_ok || !is_lanes_ok || bits / 8 * lanes > 32)
        return 0;
    return bits / 8 * lanes;
}

/* "v4f32", "bf16": as LLVM spells types in the names of its intrinsics. */
static void type_name(LLVMTypeRef type, char *out, size_t size)
{
    char lanes[16] = "";
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind) {
        snprintf(lanes, sizeof lanes, "v%u", LLVMGetVectorSize(type));
        type = LLVMGetElementType(type);
    }
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    const char *letter = kind == LLVMIntegerTypeKind  ? "i"
                         : kind == LLVMBFloatTypeKind ? "bf"
                                                      : "f";
    snprintf(out, size, "%s%s%u", lanes, letter, scalar_bits(type));
}

/* ---- kernels ---- */

Kernel *kernel_create(Arena *a, LLVMModuleRef module, const char *name,
                      const KernelArg *args, uint32_t arg_count, const uint32_t block[3],
                      const uint32_t grid[3])
{
    LLVMContextRef context = LLVMGetModuleContext(module);
    Kernel *k = ARENA_NEW(a, Kernel);
    k->arena = a;
    k->name = arena_text(a, name, strlen(name));
    k->context = context;
    k->args = arena_copy(a, args, arg_count * sizeof *args);
    k->accesses = ARENA_ARRAY(a, KernelAccess, arg_count);
    k->arg_count = arg_count;
    memcpy(k->block, block, sizeof k->block);
    memcpy(k->grid, grid, sizeof k->grid);
    k->at = k->name;
    k->shared_align = 16;
    k->module = module;

    LLVMTypeRef *types = ARENA_ARRAY(a, LLVMTypeRef, arg_count);
    for (uint32_t i = 0; i < arg_count; i++)
        types[i] = args[i].is_scalar ? LLVMInt64TypeInContext(context)
                                     : LLVMPointerTypeInContext(context, 1);
    LLVMTypeRef type =
        LLVMFunctionType(LLVMVoidTypeInContext(context), types, arg_count, 0);
    k->function = LLVMAddFunction(k->module, name, type);
    k->builder = LLVMCreateBuilderInContext(context);
    LLVMPositionBuilderAtEnd(k->builder, gx_block(k, "entry"));
    return k;
}

void kernel_finish(Kernel *k)
{
    LLVMBuildRetVoid(k->builder);
    LLVMDisposeBuilder(k->builder);
    k->builder = NULL;
}

void kernel_abandon(Kernel *k)
{
    if (k->builder != NULL)
        LLVMDisposeBuilder(k->builder);
}

void kernel_check(const Kernel *k)
{
    if (LLVMVerifyFunction(k->function, LLVMReturnStatusAction) == 0)
        return;
    char *message = NULL;
    LLVMVerifyModule(k->module, LLVMReturnStatusAction, &message);
    char *text = arena_printf(k->arena, "%s", message);
    LLVMDisposeMessage(message);
    bug("kernel %s: %s", k->name, text);
}

LLVMValueRef gx_current_site(Kernel *k)
{
    for (size_t i = k->site_count; i > 0; i--)
        if (k->sites[i - 1] == k->at)
            return gx_i32(k, (uint32_t)(i - 1));
    k->sites = arena_grow(k->arena, k->sites, &k->site_capacity, k->site_count + 1,
                          sizeof *k->sites);
    k->sites[k->site_count] = k->at;
    return gx_i32(k, (uint32_t)k->site_count++);
}

/* The site of a barrier or shuffle, or of an access of shared memory: above its bits a number of its own. */
static LLVMValueRef numbered_site(Kernel *k, uint32_t *count)
{
    uint32_t number = ++*count << EMU_SITE_BITS;
    return LLVMConstAdd(gx_current_site(k), gx_i32(k, number));
}

LLVMValueRef gx_sync_site(Kernel *k)
{
    return numbered_site(k, &k->sync_count);
}

static LLVMValueRef access_site(Kernel *k, unsigned arg)
{
    return arg == GX_SHARED ? numbered_site(k, &k->access_count) : gx_current_site(k);
}

/* Calls the function `name`, declared from the types of its arguments. */
static LLVMValueRef call_function(Kernel *k, const char *name, bool is_convergent,
                                  LLVMTypeRef result, LLVMValueRef *args, unsigned count)
{
    LLVMValueRef f = LLVMGetNamedFunction(k->module, name);
    if (!f) {
        LLVMTypeRef types[GX_MOST_OPERANDS];
        for (unsigned i = 0; i < count; i++)
            types[i] = LLVMTypeOf(args[i]);
        f = LLVMAddFunction(k->module, name, LLVMFunctionType(result, types, count, 0));
        if (is_convergent)
            lower_function_attribute(f, "convergent");
    }
    return LLVMBuildCall2(k->builder, LLVMGlobalGetValueType(f), f, args, count, "");
}

/* A letter of a signature stands for this type. */
static bool is_of(const Kernel *k, char letter, LLVMTypeRef type, LLVMTypeRef typed)
{
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    switch (letter) {
    case 'v':
        return kind == LLVMVoidTypeKind;
    case 'b':
        return type == LLVMIntTypeInContext(k->context, 1);
    case 'h':
        return type == LLVMIntTypeInContext(k->context, 16);
    case 'i':
        return type == LLVMIntTypeInContext(k->context, 32);
    case 'l':
        return type == LLVMIntTypeInContext(k->context, 64);
    case 'f':
        return kind == LLVMFloatTypeKind;
    case 'F':
        return kind == LLVMVectorTypeKind && type_bits(type) == 64;
    case 'T':
        return type == typed;
    case 's':
        return kind == LLVMStructTypeKind;
    default:
        return false;
    }
}

static bool has_signature(const Kernel *k, const char *signature, LLVMTypeRef typed,
                          LLVMTypeRef result, LLVMValueRef *args, unsigned count)
{
    size_t letters = strlen(signature + 2); /* behind the result and the colon */
    unsigned i = 0;
    if (!is_of(k, signature[0], result, typed))
        return false;
    for (const char *at = signature + 2; *at != '\0'; at++) {
        unsigned remaining = (unsigned)(signature + 2 + letters - at) - 1;
        if (*at == '*') {
            for (; i + remaining < count; i++) {
                if (type_bits(LLVMTypeOf(args[i])) < 32)
                    return false;
            }
        } else if (i == count || !is_of(k, *at, LLVMTypeOf(args[i++]), typed)) {
            return false;
        }
    }
    return i == count;
}

LLVMValueRef gx_call(Kernel *k, GxRow row, LLVMTypeRef typed, const char *variant,
                     LLVMTypeRef result, LLVMValueRef *args, unsigned count)
{
    const GxInfo *info = &gx_info[row];
    char full[80], suffix[24];
    if (typed) {
        type_name(typed, suffix, sizeof suffix);
        variant = suffix;
    }
    snprintf(full, sizeof full, "%s%s%s", info->name, variant != NULL ? "." : "",
             variant != NULL ? variant : "");
    if (!has_signature(k, info->signature, typed, result, args, count))
        bug("kernel %s, %s: %s is not called as %s", k->name, k->at, full,
            info->signature);
    k->needs_fibres |= (info->flags & GX_NEEDS_FIBRE) != 0;
    return call_function(k, full, (info->flags & GX_CONVERGENT) != 0, result, args,
                         count);
}

/* ---- who am I ---- */

static LLVMValueRef index_of(Kernel *k, const GxRow rows[3], const uint32_t bound[3],
                             unsigned axis)
{
    if (axis > 2)
        bug("kernel %s: axis %u", k->name, axis);
    if (bound[axis] == 1)
        return gx_i32(k, 0);
    return gx_call(k, rows[axis], NULL, NULL, gx_int_type(k, 32), NULL, 0);
}

LLVMValueRef gx_tid(Kernel *k, unsigned axis)
{
    static const GxRow rows[] = {ROW_TID_X, ROW_TID_Y, ROW_TID_Z};
    return index_of(k, rows, k->block, axis);
}

LLVMValueRef gx_ctaid(Kernel *k, unsigned axis)
{
    static const GxRow rows[] = {ROW_CTAID_X, ROW_CTAID_Y, ROW_CTAID_Z};
    return index_of(k, rows, k->grid, axis);
}

LLVMValueRef gx_lane(Kernel *k)
{
    return gx_call(k, ROW_LANE, NULL, NULL, gx_int_type(k, 32), NULL, 0);
}

LLVMValueRef gx_scalar(Kernel *k, unsigned arg)
{
    if (arg >= k->arg_count || !k->args[arg].is_scalar)
        bug("kernel %s, %s: argument %u is no scalar", k->name, k->at, arg);
    LLVMValueRef args[] = {gx_i32(k, arg)};
    return gx_call(k, ROW_SCALAR, NULL, NULL, gx_int_type(k, 64), args, 1);
}

/* ---- memory ---- */

static LLVMValueRef as_offset(Kernel *k, LLVMValueRef offset)
{
    unsigned bits = scalar_bits(LLVMTypeOf(offset));
    if (bits == 64)
        return offset;
    if (bits != 32)
        bug("kernel %s: a byte offset of %u bits", k->name, bits);
    LLVMValueRef wide = LLVMBuildZExt(k->builder, offset, gx_int_type(k, 64), "");
    if (LLVMIsAZExtInst(wide))
        LLVMSetNNeg(wide, 1);
    return wide;
}

static void check_access(Kernel *k, unsigned arg, LLVMTypeRef type, unsigned align)
{
    if (arg != GX_SHARED && (arg >= k->arg_count || k->args[arg].is_scalar))
        bug("kernel %s, %s: argument %u is no pointer", k->name, k->at, arg);
    if (gx_type_bytes(type) == 0)
        bug("kernel %s, %s: access of a type that no row takes", k->name, k->at);
    if (align == 0 || (align & (align - 1)) != 0)
        bug("kernel %s, %s: alignment %u", k->name, k->at, align);
}

static void count_access(Kernel *k, unsigned arg, LLVMTypeRef type)
{
    if (arg == GX_SHARED || k->is_rest)
        return;
    uint64_t bytes = gx_type_bytes(type);
    k->accesses[arg].bytes += bytes;
    k->accesses[arg].wide += bytes >= 16 ? bytes : 0;
}

LLVMValueRef gx_load(Kernel *k, unsigned arg, LLVMValueRef offset, LLVMTypeRef type,
                     unsigned align)
{
    check_access(k, arg, type, align);
    count_access(k, arg, type);
    LLVMValueRef args[] = {gx_i32(k, arg), as_offset(k, offset), gx_i32(k, align),
                           access_site(k, arg)};
    return gx_call(k, ROW_LOAD, type, NULL, type, args, 4);
}

void gx_store(Kernel *k, unsigned arg, LLVMValueRef offset, LLVMValueRef value,
              unsigned align)
{
    LLVMTypeRef type = LLVMTypeOf(value);
    check_access(k, arg, type, align);
    count_access(k, arg, type);
    LLVMValueRef args[] = {gx_i32(k, arg), as_offset(k, offset), value, gx_i32(k, align),
                           access_site(k, arg)};
    gx_call(k, ROW_STORE, type, NULL, LLVMVoidTypeInContext(k->context), args, 5);
}

uint32_t gx_shared_alloc(Kernel *k, uint64_t bytes, unsigned align)
{
    if (align == 0 || (align & (align - 1)) != 0 || align > 1024)
        bug("kernel %s: shared memory aligned to %u", k->name, align);
    uint64_t at = (k->shared_bytes + align - 1) & ~(uint64_t)(align - 1);
    if (bytes > UINT32_MAX || at + bytes > UINT32_MAX)
        bug("kernel %s: more than 4 GiB of shared memory", k->name);
    k->shared_bytes = at + bytes;
    if (k->shared_align < align)
        k->shared_align = align;
    return (uint32_t)at;
}

static void check_atomic(Kernel *k, LLVMTypeRef type)
{
    unsigned bits = scalar_bits(type);
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
        bug("kernel %s, %s: atomic of a type that no row takes", k->name, k->at);
}

LLVMValueRef gx_atomic(Kernel *k, GxAtomic op, unsigned arg, LLVMValueRef offset,
                       LLVMValueRef value)
{
    static const GxRow rows[] = {
        [GX_ATOMIC_ADD] = ROW_ATOMIC_ADD,   [GX_ATOMIC_MIN] = ROW_ATOMIC_MIN,
        [GX_ATOMIC_MAX] = ROW_ATOMIC_MAX,   [GX_ATOMIC_UMIN] = ROW_ATOMIC_UMIN,
        [GX_ATOMIC_UMAX] = ROW_ATOMIC_UMAX, [GX_ATOMIC_AND] = ROW_ATOMIC_AND,
        [GX_ATOMIC_OR] = ROW_ATOMIC_OR,     [GX_ATOMIC_XOR] = ROW_ATOMIC_XOR,
    };
    LLVMTypeRef type = LLVMTypeOf(value);
    check_atomic(k, type);
    unsigned align = gx_type_bytes(type);
    check_access(k, arg, type, align);
    LLVMValueRef args[] = {gx_i32(k, arg), as_offset(k, offset), value, gx_i32(k, align),
                           gx_current_site(k)};
    return gx_call(k, rows[op], type, NULL, type, args, 5);
}

LLVMValueRef gx_atomic_load(Kernel *k, unsigned arg, LLVMValueRef offset,
                            LLVMTypeRef type)
{
    unsigned align = gx_type_bytes(type);
    check_atomic(k, type);
    check_access(k, arg, type, align);
    LLVMValueRef args[] = {gx_i32(k, arg), as_offset(k, offset), gx_i32(k, align),
                           gx_current_site(k)};
    return gx_call(k, ROW_ATOMIC_LOAD, type, NULL, type, args, 4);
}

void gx_atomic_store(Kernel *k, unsigned arg, LLVMValueRef offset, LLVMValueRef value)
{
    LLVMTypeRef type = LLVMTypeOf(value);
    unsigned align = gx_type_bytes(type);
    check_atomic(k, type);
    check_access(k, arg, type, align);
    LLVMValueRef args[] = {gx_i32(k, arg), as_offset(k, offset), value, gx_i32(k, align),
                           gx_current_site(k)};
    gx_call(k, ROW_ATOMIC_STORE, type, NULL, LLVMVoidTypeInContext(k->context), args, 5);
}

void gx_pause(Kernel *k)
{
    enum { NANOSECONDS = 20 };
    LLVMValueRef args[] = {gx_i32(k, NANOSECONDS), gx_current_site(k)};
    gx_call(k, ROW_PAUSE, NULL, NULL, LLVMVoidTypeInContext(k->context), args, 2);
}

void gx_fence(Kernel *k)
{
    LLVMValueRef site = gx_current_site(k);
    gx_call(k, ROW_FENCE, NULL, NULL, LLVMVoidTypeInContext(k->context), &site, 1);
}

/* ---- threads together ---- */

void gx_barrier(Kernel *k)
{
    LLVMValueRef site = gx_sync_site(k);
    gx_call(k, ROW_BARRIER, NULL, NULL, LLVMVoidTypeInContext(k->context), &site, 1);
}

void gx_syncwarp(Kernel *k)
{
    LLVMValueRef args[] = {gx_i32(k, UINT32_MAX), gx_sync_site(k)};
    gx_call(k, ROW_SYNCWARP, NULL, NULL, LLVMVoidTypeInContext(k->context), args, 2);
}

static LLVMValueRef shfl_word(Kernel *k, GxShfl mode, LLVMValueRef word,
                              LLVMValueRef operand, unsigned width)
{
    static const GxRow rows[] = {ROW_SHFL_UP, ROW_SHFL_BFLY, ROW_SHFL_IDX};
    /* PTX: bits 8..12 the lanes' bits that must not change, bits 0..4 the last lane. */
    uint32_t clamp = (32 - width) << 8 | (mode == GX_SHFL_UP ? 0 : 31);
    LLVMValueRef args[] = {gx_i32(k, UINT32_MAX), word, operand, gx_i32(k, clamp),
                           gx_sync_site(k)};
    return gx_call(k, rows[mode], NULL, NULL, gx_int_type(k, 32), args, 5);
}

/* Cuts the value into 32-bit words, the last one filled with zeros. */
LLVMValueRef gx_shfl(Kernel *k, GxShfl mode, LLVMValueRef value, LLVMValueRef operand,
                     unsigned width)
{
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef type = LLVMTypeOf(value), i32 = gx_int_type(k, 32);
    unsigned bits = type_bits(type), words = (bits + 31) / 32;
    if (bits == 0)
        bug("kernel %s, %s: shuffle of a type that no row takes", k->name, k->at);
    LLVMTypeRef exact = gx_int_type(k, bits), padded = gx_int_type(k, words * 32);
    LLVMValueRef raw = LLVMBuildBitCast(b, value, exact, "");
    raw = LLVMBuildZExt(b, raw, padded, "");
    if (words == 1) {
        raw = shfl_word(k, mode, raw, operand, width);
    } else {
        LLVMTypeRef vector = LLVMVectorType(i32, words);
        LLVMValueRef in = LLVMBuildBitCast(b, raw, vector, ""),
                     out = LLVMGetUndef(vector);
        for (unsigned i = 0; i < words; i++) {
            LLVMValueRef word = LLVMBuildExtractElement(b, in, gx_i32(k, i), "");
            word = shfl_word(k, mode, word, operand, width);
            out = LLVMBuildInsertElement(b, out, word, gx_i32(k, i), "");
        }
        raw = LLVMBuildBitCast(b, out, padded, "");
    }
    raw = LLVMBuildTrunc(b, raw, exact, "");
    return LLVMBuildBitCast(b, raw, type, "");
}

LLVMValueRef gx_ballot(Kernel *k, LLVMValueRef vote)
{
    LLVMValueRef args[] = {gx_i32(k, UINT32_MAX), vote, gx_sync_site(k)};
    return gx_call(k, ROW_BALLOT, NULL, NULL, gx_int_type(k, 32), args, 3);
}

/* ---- asynchronous copies ---- */

void gx_copy_async(Kernel *k, unsigned arg, LLVMValueRef offset, LLVMValueRef to,
                   unsigned bytes, LLVMValueRef valid)
{
    if (arg >= k->arg_count || (bytes != 4 && bytes != 8 && bytes != 16))
        bug("kernel %s, %s: an asynchronous copy of %u bytes of argument %u", k->name,
            k->at, bytes, arg);
    if (!k->is_rest) {
        k->accesses[arg].bytes += bytes;
        k->accesses[arg].wide += bytes >= 16 ? bytes : 0;
    }
    LLVMValueRef args[] = {gx_i32(k, arg),
                           as_offset(k, offset),
                           to,
                           gx_i32(k, bytes),
                           valid != NULL ? valid : gx_i32(k, bytes),
                           numbered_site(k, &k->access_count)};
    gx_call(k, ROW_COPY_ASYNC, NULL, NULL, LLVMVoidTypeInContext(k->context), args, 6);
}

void gx_copy_commit(Kernel *k)
{
    LLVMValueRef site = gx_current_site(k);
    gx_call(k, ROW_COPY_COMMIT, NULL, NULL, LLVMVoidTypeInContext(k->context), &site, 1);
}

void gx_copy_wait(Kernel *k, unsigned left)
{
    LLVMValueRef args[] = {gx_i32(k, left), gx_current_site(k)};
    gx_call(k, ROW_COPY_WAIT, NULL, NULL, LLVMVoidTypeInContext(k->context), args, 2);
}

/* ---- floats of 8 bits and less ---- */

LLVMValueRef gx_encode_pair(Kernel *k, GxNarrow format, LLVMValueRef low,
                            LLVMValueRef high, LLVMValueRef otherwise)
{
    static const GxRow rows[] = {[GX_E4M3] = ROW_ENCODE_E4M3,
                                 [GX_E5M2] = ROW_ENCODE_E5M2,
                                 [GX_E2M1] = ROW_ENCODE_E2M1};
    LLVMValueRef args[] = {low, high, otherwise};
    if (format > GX_E2M1)
        bug("kernel %s, %s: nothing encodes format %d", k->name, k->at, (int)format);
    return gx_call(k, rows[format], NULL, NULL, gx_int_type(k, 16), args, 3);
}

LLVMValueRef gx_decode_pair(Kernel *k, GxNarrow format, LLVMValueRef codes,
                            LLVMValueRef otherwise)
{
    static const GxRow rows[] = {[GX_E4M3] = ROW_DECODE_E4M3,
                                 [GX_E5M2] = ROW_DECODE_E5M2,
                                 [GX_E2M1] = ROW_DECODE_E2M1,
                                 [GX_E8M0] = ROW_DECODE_E8M0};
    LLVMValueRef args[] = {codes, otherwise};
    return gx_call(k, rows[format], NULL, NULL, LLVMTypeOf(otherwise), args, 2);
}

/* ---- arithmetic ---- */

LLVMValueRef gx_libdevice(Kernel *k, const char *name, LLVMValueRef *args, unsigned count)
{
    char full[64];
    snprintf(full, sizeof full, "__nv_%s", name);
    return call_function(k, full, false, LLVMTypeOf(args[0]), args, count);
}

static LLVMValueRef intrinsic(Kernel *k, const char *name, LLVMTypeRef *overloads,
                              unsigned overload_count, LLVMValueRef *args, unsigned count)
{
    char full[64];
    snprintf(full, sizeof full, "llvm.%s", name);
    unsigned id = LLVMLookupIntrinsicID(full, strlen(full));
    if (id == 0)
        bug("kernel %s: LLVM has no %s", k->name, full);
    LLVMValueRef f =
        LLVMGetIntrinsicDeclaration(k->module, id, overloads, overload_count);
    return LLVMBuildCall2(k->builder, LLVMGlobalGetValueType(f), f, args, count, "");
}

LLVMValueRef gx_power_of_two(Kernel *k, LLVMValueRef x)
{
    LLVMValueRef args[] = {x, gx_libdevice(k, "exp2f", &x, 1)};
    return gx_call(k, ROW_EX2, NULL, NULL, LLVMTypeOf(x), args, 2);
}

LLVMValueRef gx_reciprocal_root(Kernel *k, LLVMValueRef x)
{
    LLVMValueRef root = gx_intrinsic(k, "sqrt", &x, 1);
    LLVMValueRef one = LLVMConstReal(LLVMTypeOf(x), 1);
    LLVMValueRef args[] = {x, LLVMBuildFDiv(k->builder, one, root, "")};
    return gx_call(k, ROW_RSQRT, NULL, NULL, LLVMTypeOf(x), args, 2);
}

LLVMValueRef gx_near_root(Kernel *k, LLVMValueRef x)
{
    LLVMValueRef args[] = {x, gx_intrinsic(k, "sqrt", &x, 1)};
    return gx_call(k, ROW_SQRT, NULL, NULL, LLVMTypeOf(x), args, 2);
}

LLVMValueRef gx_near_quotient(Kernel *k, LLVMValueRef x, LLVMValueRef y)
{
    LLVMValueRef args[] = {x, y, gx_float_op(k, LLVMFDiv, x, y)};
    return gx_call(k, ROW_DIVIDE, NULL, NULL, LLVMTypeOf(x), args, 3);
}

LLVMValueRef gx_intrinsic(Kernel *k, const char *name, LLVMValueRef *args, unsigned count)
{
    LLVMTypeRef type = LLVMTypeOf(args[0]);
    return intrinsic(k, name, &type, 1, args, count);
}

LLVMValueRef gx_float_to_int(Kernel *k, LLVMValueRef value, LLVMTypeRef type,
                             bool is_signed)
{
    LLVMTypeRef overloads[] = {type, LLVMTypeOf(value)};
    return intrinsic(k, is_signed ? "fptosi.sat" : "fptoui.sat", overloads, 2, &value, 1);
}

LLVMValueRef gx_float_op(Kernel *k, LLVMOpcode op, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef v = LLVMBuildBinOp(k->builder, op, a, b, "");
    if (k->contract && LLVMIsAInstruction(v))
        LLVMSetFastMathFlags(v, LLVMFastMathAllowContract);
    return v;
}
