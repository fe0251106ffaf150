/* The emulator's column of gx.def. A kernel becomes void k(gxemu_block *, const void *args)
 * for one GPU thread (runtime/emu/abi.def): indices are loads from the block, accesses are
 * checked against the extents, the rest are calls of libgxemu.
 *
 * LLVM's C interface cannot split a basic block, so a checked access is a call of a small
 * internal function with the branches in it, made once per type and inlined later. */
#include "codegen/gx/lower.h"

#include <stdio.h>
#include <string.h>

#include "ir/base/bug.h"

enum {
#define EMU_FIELD(name, type, count) EMU_##name,
#include "runtime/emu/abi.def"
    EMU_FIELD_COUNT
};

static const struct {
    char type; /* of the first letters u32, u64, ptr: '3', '6', 'p' */
    unsigned count;
} fields[EMU_FIELD_COUNT] = {
#define EMU_FIELD(name, type, count) {#type[0] == 'p' ? 'p' : #type[1], count},
#include "runtime/emu/abi.def"
};

enum {
    KIND_READ,
    KIND_WRITE,
    KIND_ATOMIC,
    KIND_ATOMIC_WRITE,
    KIND_MISALIGNED,
};

typedef struct State {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTypeRef i32, i64, ptr, none;
    LLVMTypeRef block_type;
    LLVMValueRef block;                 /* first parameter of the function at hand */
    LLVMValueRef *bases, *extents;      /* of each argument, loaded at the entry */
    LLVMValueRef shared, shared_extent; /* NULL: has none */
} State;

static LLVMTypeRef field_type(const State *s, unsigned field)
{
    LLVMTypeRef type = fields[field].type == 'p'   ? s->ptr
                       : fields[field].type == '6' ? s->i64
                                                   : s->i32;
    return fields[field].count == 1 ? type : LLVMArrayType2(type, fields[field].count);
}

static void make_types(State *s)
{
    LLVMTypeRef types[EMU_FIELD_COUNT];
    s->i32 = LLVMInt32TypeInContext(s->context);
    s->i64 = LLVMInt64TypeInContext(s->context);
    s->ptr = LLVMPointerTypeInContext(s->context, 0);
    s->none = LLVMVoidTypeInContext(s->context);
    for (unsigned i = 0; i < EMU_FIELD_COUNT; i++)
        types[i] = field_type(s, i);
    s->block_type = LLVMStructTypeInContext(s->context, types, EMU_FIELD_COUNT, 0);
}

static LLVMValueRef number(const State *s, uint64_t value)
{
    return LLVMConstInt(s->i32, value, 0);
}

/* A load that always yields the same value while the kernel runs. */
static LLVMValueRef load_constant(const State *s, LLVMBuilderRef b, LLVMTypeRef type,
                                  LLVMValueRef address)
{
    LLVMValueRef v = LLVMBuildLoad2(b, type, address, "");
    unsigned kind = LLVMGetMDKindIDInContext(s->context, "invariant.load", 14);
    LLVMMetadataRef empty = LLVMMDNodeInContext2(s->context, NULL, 0);
    LLVMSetMetadata(v, kind, LLVMMetadataAsValue(s->context, empty));
    return v;
}

static LLVMValueRef load_field(const State *s, LLVMBuilderRef b, LLVMValueRef block,
                               unsigned field, unsigned element)
{
    LLVMTypeRef type = field_type(s, field);
    LLVMValueRef p = LLVMBuildStructGEP2(b, s->block_type, block, field, "");
    if (fields[field].count > 1) {
        type = LLVMGetElementType(type);
        LLVMValueRef index = number(s, element);
        p = LLVMBuildInBoundsGEP2(b, type, p, &index, 1, "");
    }
    return load_constant(s, b, type, p);
}

/* A function of libgxemu; the block is the first argument. */
static LLVMValueRef call_engine(const State *s, LLVMBuilderRef b, const char *name,
                                LLVMTypeRef result, LLVMValueRef *args, unsigned count)
{
    LLVMValueRef f = LLVMGetNamedFunction(s->module, name);
    if (!f) {
        LLVMTypeRef types[8];
        for (unsigned i = 0; i < count; i++)
            types[i] = LLVMTypeOf(args[i]);
        f = LLVMAddFunction(s->module, name, LLVMFunctionType(result, types, count, 0));
        lower_function_attribute(f, "nounwind");
        lower_function_attribute(f, "convergent");
        lower_function_attribute(f, "nomerge");
        if (strcmp(name, "gxemu_fault") == 0) {
            lower_function_attribute(f, "noreturn");
            lower_function_attribute(f, "cold");
        }
    }
    return LLVMBuildCall2(b, LLVMGlobalGetValueType(f), f, args, count, "");
}

/* ---- checked accesses ---- */

/* Parameters of an access function, in this order; the value only where the row has one. */
enum { P_BLOCK, P_BASE, P_EXTENT, P_ARG, P_ALIGN, P_SITE, P_OFFSET, P_VALUE };

static LLVMValueRef access_value(const GxCall *c, LLVMBuilderRef b, LLVMValueRef f,
                                 LLVMValueRef p, LLVMTypeRef type)
{
    LLVMValueRef v;
    switch (c->row) {
    case ROW_LOAD:
        v = LLVMBuildLoad2(b, type, p, "");
        LLVMSetAlignment(v, 1);
        return v;
    case ROW_STORE:
        v = LLVMBuildStore(b, LLVMGetParam(f, P_VALUE), p);
        LLVMSetAlignment(v, 1);
        return NULL;
    case ROW_ATOMIC_LOAD:
        v = LLVMBuildLoad2(b, type, p, "");
        LLVMSetAlignment(v, (unsigned)gx_type_bytes(type));
        LLVMSetOrdering(v, LLVMAtomicOrderingSequentiallyConsistent);
        return v;
    case ROW_ATOMIC_STORE:
        v = LLVMBuildStore(b, LLVMGetParam(f, P_VALUE), p);
        LLVMSetAlignment(v, (unsigned)gx_type_bytes(type));
        LLVMSetOrdering(v, LLVMAtomicOrderingSequentiallyConsistent);
        return NULL;
    default:
        return LLVMBuildAtomicRMW(b, gx_atomic_op(c), p, LLVMGetParam(f, P_VALUE),
                                  LLVMAtomicOrderingSequentiallyConsistent, 0);
    }
}

/* Whether base + offset … + bytes lies within extent and is aligned. Compares only what code
 * generation without optimisation selects quickly: a saturating subtraction costs twice as much. */
static LLVMValueRef access_is_good(const State *s, LLVMBuilderRef b, LLVMValueRef f,
                                   uint64_t bytes, LLVMValueRef address)
{
    LLVMValueRef extent = LLVMGetParam(f, P_EXTENT),
                 size = LLVMConstInt(s->i64, bytes, 0), zero = LLVMConstInt(s->i64, 0, 0);
    LLVMValueRef last = LLVMBuildSub(b, extent, size, "");
    LLVMValueRef fits = LLVMBuildICmp(b, LLVMIntUGE, extent, size, "");
    LLVMValueRef inside =
        LLVMBuildICmp(b, LLVMIntULE, LLVMGetParam(f, P_OFFSET), last, "");
    LLVMValueRef align = LLVMBuildZExt(b, LLVMGetParam(f, P_ALIGN), s->i64, "");
    LLVMValueRef low =
        LLVMBuildAnd(b, LLVMBuildPtrToInt(b, address, s->i64, ""),
                     LLVMBuildSub(b, align, LLVMConstInt(s->i64, 1, 0), ""), "");
    LLVMValueRef aligned = LLVMBuildICmp(b, LLVMIntEQ, low, zero, "");
    return LLVMBuildAnd(b, LLVMBuildAnd(b, fits, inside, ""), aligned, "");
}

/* if (!good || block->checks) gxemu_access(…); access */
static void write_access(const GxCall *c, const State *s, LLVMValueRef f,
                         LLVMTypeRef type, unsigned kind)
{
    LLVMBuilderRef b = LLVMCreateBuilderInContext(s->context);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(s->context, f, "entry");
    LLVMBasicBlockRef slow = LLVMAppendBasicBlockInContext(s->context, f, "slow");
    LLVMBasicBlockRef access = LLVMAppendBasicBlockInContext(s->context, f, "access");
    uint64_t bytes = gx_type_bytes(type);

    LLVMPositionBuilderAtEnd(b, entry);
    LLVMValueRef offset = LLVMGetParam(f, P_OFFSET), block = LLVMGetParam(f, P_BLOCK);
    LLVMValueRef address = LLVMBuildGEP2(b, LLVMInt8TypeInContext(s->context),
                                         LLVMGetParam(f, P_BASE), &offset, 1, "");
    LLVMValueRef good = access_is_good(s, b, f, bytes, address);
    LLVMValueRef checks = load_field(s, b, block, EMU_checks, 0);
    LLVMValueRef quiet = LLVMBuildICmp(b, LLVMIntEQ, checks, number(s, 0), "");
    LLVMBuildCondBr(b, LLVMBuildAnd(b, good, quiet, ""), access, slow);

    LLVMPositionBuilderAtEnd(b, slow);
    LLVMValueRef args[] = {block,
                           LLVMGetParam(f, P_ARG),
                           offset,
                           number(s, bytes),
                           LLVMGetParam(f, P_ALIGN),
                           LLVMGetParam(f, P_SITE),
                           number(s, kind)};
    call_engine(s, b, "gxemu_access", s->none, args, 7);
    LLVMBuildBr(b, access);

    LLVMPositionBuilderAtEnd(b, access);
    LLVMValueRef value = access_value(c, b, f, address, type);
    if (value)
        LLVMBuildRet(b, value);
    else
        LLVMBuildRetVoid(b);
    LLVMDisposeBuilder(b);
}

/* gx.<access>(argument, offset, [value,] align, site), in the name the type. */
static LLVMValueRef emu_access(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    unsigned count = LLVMGetNumArgOperands(c->call), values = count - 4;
    uint64_t arg = gx_constant(c, 0);
    bool is_shared = arg == GX_SHARED;
    if (is_shared && !s->shared)
        bug("kernel %s uses shared memory that it did not allocate", c->kernel->name);
    LLVMValueRef args[P_VALUE + 1] = {
        [P_BLOCK] = s->block,
        [P_BASE] = is_shared ? s->shared : s->bases[arg],
        [P_EXTENT] = is_shared ? s->shared_extent : s->extents[arg],
        [P_ARG] = gx_operand(c, 0),
        [P_ALIGN] = gx_operand(c, count - 2),
        [P_SITE] = gx_operand(c, count - 1),
        [P_OFFSET] = gx_operand(c, 1),
    };
    if (values != 0)
        args[P_VALUE] = gx_operand(c, 2);

    char name[80];
    size_t length;
    const char *callee = LLVMGetValueName2(LLVMGetCalledValue(c->call), &length);
    snprintf(name, sizeof name, "emu.%s", callee + 3);
    LLVMValueRef f = LLVMGetNamedFunction(s->module, name);
    if (!f) {
        LLVMTypeRef types[P_VALUE + 1],
            type = values ? LLVMTypeOf(args[P_VALUE]) : LLVMTypeOf(c->call);
        unsigned kind = c->row == ROW_LOAD           ? KIND_READ
                        : c->row == ROW_STORE        ? KIND_WRITE
                        : c->row == ROW_ATOMIC_STORE ? KIND_ATOMIC_WRITE
                                                     : KIND_ATOMIC;
        for (unsigned i = 0; i < P_VALUE + values; i++)
            types[i] = LLVMTypeOf(args[i]);
        f = LLVMAddFunction(
            s->module, name,
            LLVMFunctionType(LLVMTypeOf(c->call), types, P_VALUE + values, 0));
        LLVMSetLinkage(f, LLVMInternalLinkage);
        lower_function_attribute(f, "alwaysinline");
        lower_function_attribute(f, "nounwind");
        write_access(c, s, f, type, kind);
    }
    return LLVMBuildCall2(c->builder, LLVMGlobalGetValueType(f), f, args,
                          P_VALUE + values, "");
}

/* ---- the other rows ---- */

static LLVMValueRef emu_scalar(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    return LLVMBuildPtrToInt(c->builder, s->bases[gx_constant(c, 0)], s->i64, "");
}

static LLVMValueRef emu_index(const GxCall *c, const State *s, unsigned field)
{
    LLVMValueRef v = load_field(s, c->builder, s->block, field, gx_index_axis(c));
    LLVMMetadataRef range[] = {LLVMValueAsMetadata(number(s, 0)),
                               LLVMValueAsMetadata(number(s, gx_index_bound(c)))};
    unsigned kind = LLVMGetMDKindIDInContext(c->context, "range", 5);
    LLVMSetMetadata(
        v, kind,
        LLVMMetadataAsValue(c->context, LLVMMDNodeInContext2(c->context, range, 2)));
    return v;
}

static LLVMValueRef emu_barrier(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    LLVMValueRef args[] = {s->block, gx_operand(c, 0)};
    return call_engine(s, c->builder, "gxemu_barrier", s->none, args, 2);
}

static LLVMValueRef emu_ballot(const GxCall *c, const State *s, unsigned mode)
{
    LLVMValueRef vote = LLVMBuildZExt(c->builder, gx_operand(c, 1), s->i32, "");
    LLVMValueRef args[] = {s->block,     number(s, mode), gx_operand(c, 0), vote,
                           number(s, 0), number(s, 0),    gx_operand(c, 2)};
    return call_engine(s, c->builder, "gxemu_shfl", s->i32, args, 7);
}

static LLVMValueRef emu_pause(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    LLVMValueRef args[] = {s->block, gx_operand(c, 1)};
    return call_engine(s, c->builder, "gxemu_pause", s->none, args, 2);
}

static LLVMValueRef emu_shfl(const GxCall *c, const State *s, unsigned mode)
{
    LLVMValueRef args[7] = {s->block, number(s, mode)};
    for (unsigned i = 0; i < 5; i++)
        args[2 + i] = gx_operand(c, i);
    return call_engine(s, c->builder, "gxemu_shfl", s->i32, args, 7);
}

static LLVMValueRef emu_syncwarp(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    LLVMValueRef args[] = {s->block, gx_operand(c, 0), gx_operand(c, 1)};
    return call_engine(s, c->builder, "gxemu_syncwarp", s->none, args, 3);
}

/* Memory of the function for registers that libgxemu reads and writes. */
static LLVMValueRef registers_memory(const GxCall *c, const State *s)
{
    enum {
        MOST_PAIRS =
            100 /* gx.wgmma: 8 words, 64 of a factor, 128 sums; gx.wait.wgmma: 192 sums */
    };
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(c->function);
    LLVMValueRef first = LLVMGetFirstInstruction(entry);
    if (LLVMIsAAllocaInst(first))
        return first;
    LLVMBuilderRef b = LLVMCreateBuilderInContext(s->context);
    LLVMPositionBuilderBefore(b, first);
    LLVMValueRef v = LLVMBuildAlloca(b, LLVMArrayType2(s->i64, MOST_PAIRS), "registers");
    LLVMDisposeBuilder(b);
    return v;
}

static LLVMValueRef at_word(const GxCall *c, const State *s, LLVMValueRef p,
                            unsigned word)
{
    LLVMValueRef index = number(s, word);
    return LLVMBuildInBoundsGEP2(c->builder, s->i32, p, &index, 1, "");
}

/* Stores operands [first, last) one behind the other; returns the number of words. */
static unsigned store_registers(const GxCall *c, const State *s, LLVMValueRef p,
                                unsigned first, unsigned last)
{
    unsigned words = 0;
    for (unsigned i = first; i < last; i++) {
        LLVMValueRef store =
            LLVMBuildStore(c->builder, gx_operand(c, i), at_word(c, s, p, words));
        LLVMSetAlignment(store, 4);
        words += gx_type_bytes(LLVMTypeOf(gx_operand(c, i))) / 4;
    }
    return words;
}

/* The call's structure from the words at `word`. */
static LLVMValueRef load_registers(const GxCall *c, const State *s, LLVMValueRef p,
                                   unsigned word)
{
    LLVMTypeRef type = LLVMTypeOf(c->call);
    LLVMValueRef result = LLVMGetUndef(type);
    for (unsigned i = 0; i < LLVMCountStructElementTypes(type); i++) {
        LLVMTypeRef element = LLVMStructGetTypeAtIndex(type, i);
        LLVMValueRef v = LLVMBuildLoad2(c->builder, element, at_word(c, s, p, word), "");
        LLVMSetAlignment(v, 4);
        result = LLVMBuildInsertValue(c->builder, result, v, i, "");
        word += gx_type_bytes(element) / 4;
    }
    return result;
}

/* The sums are the last registers; before them stand factors, or where a warpgroup's factors lie, and the left one's
 * words if it has any. */
static LLVMValueRef emu_mma(const GxCall *c, const State *s, unsigned is_warpgroup)
{
    unsigned last = LLVMGetNumArgOperands(c->call) - 1;
    LLVMTypeRef type = LLVMTypeOf(c->call);
    unsigned sums = LLVMCountStructElementTypes(type) *
                    (gx_type_bytes(LLVMStructGetTypeAtIndex(type, 0)) / 4);
    LLVMValueRef p = registers_memory(c, s);
    unsigned words = store_registers(c, s, p, is_warpgroup ? 0 : 1, last);
    LLVMValueRef args[] = {s->block, gx_operand(c, 0), p, gx_operand(c, last)};
    call_engine(s, c->builder, is_warpgroup ? "gxemu_wgmma" : "gxemu_mma", s->none, args,
                4);
    return load_registers(c, s, p, words - sums);
}

static LLVMValueRef emu_wgmma_wait(const GxCall *c, const State *s, unsigned detail)
{
    unsigned last = LLVMGetNumArgOperands(c->call) - 1;
    LLVMValueRef p = registers_memory(c, s);
    (void)detail;
    store_registers(c, s, p, 1, last);
    LLVMValueRef args[] = {s->block, gx_operand(c, 0), p, gx_operand(c, last)};
    call_engine(s, c->builder, "gxemu_wgmma_wait", s->none, args, 4);
    return load_registers(c, s, p, 0);
}

static LLVMValueRef emu_nothing(const GxCall *c, const State *s, unsigned detail)
{
    (void)c;
    (void)s;
    (void)detail;
    return NULL;
}

static LLVMValueRef call_at_site(const GxCall *c, const State *s, const char *name)
{
    LLVMValueRef args[] = {s->block, gx_operand(c, 0)};
    return call_engine(s, c->builder, name, s->none, args, 2);
}

static LLVMValueRef emu_proxy_fence(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    return call_at_site(c, s, "gxemu_proxy_fence");
}

static LLVMValueRef emu_fence(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    return call_at_site(c, s, "gxemu_fence");
}

static LLVMValueRef in_64_bits(const GxCall *c, const State *s, unsigned operand)
{
    return LLVMBuildZExt(c->builder, gx_operand(c, operand), s->i64, "");
}

static LLVMValueRef emu_tensor_alloc(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    LLVMValueRef args[] = {s->block, in_64_bits(c, s, 0), gx_operand(c, 1),
                           gx_operand(c, 2)};
    return call_engine(s, c->builder, "gxemu_tensor_alloc", s->none, args, 4);
}

static LLVMValueRef emu_tensor_free(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    LLVMValueRef args[] = {s->block, gx_operand(c, 0), gx_operand(c, 1),
                           gx_operand(c, 2)};
    return call_engine(s, c->builder, "gxemu_tensor_free", s->none, args, 4);
}

static LLVMValueRef emu_tensor_mma(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    unsigned last = LLVMGetNumArgOperands(c->call) - 1;
    LLVMValueRef p = registers_memory(c, s);
    store_registers(c, s, p, 1, last);
    LLVMValueRef args[] = {s->block, gx_operand(c, 0), p, gx_operand(c, last)};
    return call_engine(s, c->builder, "gxemu_tensor_mma", s->none, args, 4);
}

static LLVMValueRef emu_tensor_commit(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    LLVMValueRef args[] = {s->block, in_64_bits(c, s, 0), gx_operand(c, 1)};
    return call_engine(s, c->builder, "gxemu_tensor_commit", s->none, args, 3);
}

static LLVMValueRef emu_tensor_load(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    LLVMValueRef p = registers_memory(c, s);
    unsigned sums = LLVMCountStructElementTypes(LLVMTypeOf(c->call));
    LLVMValueRef args[] = {s->block, number(s, (uint64_t)sums * 2), gx_operand(c, 0), p,
                           gx_operand(c, 1)};
    call_engine(s, c->builder, "gxemu_tensor_load", s->none, args, 5);
    return load_registers(c, s, p, 0);
}

static LLVMValueRef emu_mbarrier_init(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    LLVMValueRef args[] = {s->block, in_64_bits(c, s, 0), gx_operand(c, 1)};
    return call_engine(s, c->builder, "gxemu_mbarrier_init", s->none, args, 3);
}

static LLVMValueRef emu_mbarrier_wait(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    LLVMValueRef args[] = {s->block, in_64_bits(c, s, 0), gx_operand(c, 1),
                           gx_operand(c, 2)};
    return call_engine(s, c->builder, "gxemu_mbarrier_wait", s->none, args, 4);
}

static LLVMValueRef emu_matrix(const GxCall *c, const State *s, unsigned is_store)
{
    unsigned last = LLVMGetNumArgOperands(c->call) - 1;
    unsigned count =
        is_store ? last - 2 : LLVMCountStructElementTypes(LLVMTypeOf(c->call));
    LLVMValueRef p = registers_memory(c, s);
    LLVMValueRef form = number(s, count + (gx_constant(c, 1) != 0 ? 8 : 0));
    LLVMValueRef offset = LLVMBuildZExt(c->builder, gx_operand(c, 0), s->i64, "");
    LLVMValueRef args[] = {s->block, form, offset, p, gx_operand(c, last)};
    store_registers(c, s, p, 2, last);
    call_engine(s, c->builder, is_store ? "gxemu_stmatrix" : "gxemu_ldmatrix", s->none,
                args, 5);
    return is_store ? NULL : load_registers(c, s, p, 0);
}

static LLVMValueRef emu_copy(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    LLVMValueRef args[7] = {s->block};
    for (unsigned i = 0; i < 6; i++)
        args[1 + i] = gx_operand(c, i);
    args[3] = LLVMBuildZExt(c->builder, args[3], s->i64, "");
    return call_engine(s, c->builder, "gxemu_copy_async", s->none, args, 7);
}

static LLVMValueRef emu_commit(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    LLVMValueRef args[] = {s->block, gx_operand(c, 0)};
    return call_engine(s, c->builder, "gxemu_copy_commit", s->none, args, 2);
}

static LLVMValueRef emu_wait(const GxCall *c, const State *s, unsigned detail)
{
    (void)detail;
    LLVMValueRef args[] = {s->block, gx_operand(c, 0), gx_operand(c, 1)};
    return call_engine(s, c->builder, "gxemu_copy_wait", s->none, args, 3);
}

static LLVMValueRef emu_encode(const GxCall *c, const State *s, unsigned detail)
{
    (void)s;
    (void)detail;
    return narrow_encode_emulated(c);
}

/* What other means compute: the last operand. */
static LLVMValueRef emu_otherwise(const GxCall *c, const State *s, unsigned detail)
{
    (void)s;
    (void)detail;
    return gx_operand(c, (unsigned)LLVMGetNumArgOperands(c->call) - 1);
}

static const struct {
    LLVMValueRef (*lower)(const GxCall *c, const State *s, unsigned detail);
    unsigned detail;
} rows[ROW_COUNT] = {
#define GX(id, name, signature, features, flags, nvptx, intrinsic, emu, detail)          \
    [ROW_##id] = {emu_##emu, detail},
#include "codegen/gx/gx.def"
};

static LLVMValueRef lower_call(const GxCall *c, void *user)
{
    return rows[c->row].lower(c, user, rows[c->row].detail);
}

/* ---- functions ---- */

static void load_arguments(State *s, const Kernel *k, LLVMValueRef args)
{
    LLVMBuilderRef b = s->builder;
    LLVMValueRef extents = load_field(s, b, s->block, EMU_extents, 0);
    s->bases = ARENA_ARRAY(k->arena, LLVMValueRef, k->arg_count);
    s->extents = ARENA_ARRAY(k->arena, LLVMValueRef, k->arg_count);
    for (unsigned i = 0; i < k->arg_count; i++) {
        LLVMValueRef index = LLVMConstInt(s->i64, i, 0);
        LLVMValueRef slot = LLVMBuildInBoundsGEP2(b, s->i64, args, &index, 1, "");
        s->bases[i] = load_constant(s, b, s->ptr, slot);
        slot = LLVMBuildInBoundsGEP2(b, s->i64, extents, &index, 1, "");
        s->extents[i] = load_constant(s, b, s->i64, slot);
    }
    s->shared = NULL;
    if (k->shared_bytes) {
        s->shared = load_field(s, b, s->block, EMU_shared, 0);
        s->shared_extent = load_field(s, b, s->block, EMU_shared_bytes, 0);
    }
}

/* Where accesses are reported, first looks whether arguments are aligned as the kernel's types say: LLVM may
 * have made wide accesses of narrow ones from it. Then on to `first`. */
static void check_alignment(State *s, const Kernel *k, LLVMValueRef f,
                            LLVMBasicBlockRef first)
{
    LLVMBuilderRef b = s->builder;
    LLVMBasicBlockRef look = LLVMAppendBasicBlockInContext(s->context, f, "look");
    LLVMBasicBlockRef fault = LLVMAppendBasicBlockInContext(s->context, f, "fault");
    LLVMValueRef checks = load_field(s, b, s->block, EMU_checks, 0);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, checks, number(s, 0), ""), first,
                    look);

    LLVMPositionBuilderAtEnd(b, look);
    LLVMValueRef which = number(s, k->arg_count); /* the first that is not */
    for (uint32_t i = k->arg_count; i-- > 0;) {
        LLVMValueRef low =
            LLVMBuildAnd(b, LLVMBuildPtrToInt(b, s->bases[i], s->i64, ""),
                         LLVMConstInt(s->i64, k->args[i].align - 1, 0), "");
        LLVMValueRef is_bad =
            LLVMBuildICmp(b, LLVMIntNE, low, LLVMConstInt(s->i64, 0, 0), "");
        which = LLVMBuildSelect(b, is_bad, number(s, i), which, "");
    }
    LLVMValueRef is_good =
        LLVMBuildICmp(b, LLVMIntEQ, which, number(s, k->arg_count), "");
    LLVMBuildCondBr(b, is_good, first, fault);

    LLVMPositionBuilderAtEnd(b, fault);
    LLVMValueRef args[] = {s->block,     which,        LLVMConstInt(s->i64, 0, 0),
                           number(s, 0), number(s, 0), number(s, KIND_MISALIGNED)};
    call_engine(s, b, "gxemu_fault", s->none, args, 6);
    LLVMBuildUnreachable(b);
}

/* Gives the kernel's code to a function of the emulator's type, and lowers it there. */
static void lower_kernel(State *s, const Kernel *k)
{
    LLVMValueRef old = LLVMGetNamedFunction(s->module, k->name);
    LLVMSetValueName2(old, "", 0);
    LLVMTypeRef types[] = {s->ptr, s->ptr};
    LLVMValueRef f =
        LLVMAddFunction(s->module, k->name, LLVMFunctionType(s->none, types, 2, 0));
    lower_function_attribute(f, "nounwind");
    s->block = LLVMGetParam(f, 0);

    LLVMBasicBlockRef first = LLVMGetFirstBasicBlock(old), block, next, last;
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(s->context, f, "arguments");
    LLVMPositionBuilderAtEnd(s->builder, entry);
    load_arguments(s, k, LLVMGetParam(f, 1));
    last = entry;
    for (block = first; block; block = next) {
        next = LLVMGetNextBasicBlock(block);
        LLVMMoveBasicBlockAfter(block, last);
        last = block;
    }
    check_alignment(s, k, f, first);
    LLVMDeleteFunction(old);
    lower_calls(k, f, lower_call, s);
}

static void put32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

/* The data K.sites of runtime/emu/abi.def. */
static void add_sites(State *s, const Kernel *k)
{
    size_t names = 4 + 4 * k->site_count, size = names;
    for (size_t i = 0; i < k->site_count; i++)
        size += strlen(k->sites[i]) + 1;
    unsigned char *data = arena_alloc(k->arena, size);
    put32(data, (uint32_t)k->site_count);
    for (size_t i = 0; i < k->site_count; i++) {
        size_t length = strlen(k->sites[i]) + 1;
        put32(data + 4 + 4 * i, (uint32_t)names);
        memcpy(data + names, k->sites[i], length);
        names += length;
    }
    LLVMValueRef value =
        LLVMConstStringInContext2(s->context, (const char *)data, size, 1);
    LLVMValueRef v = LLVMAddGlobal(s->module, LLVMTypeOf(value),
                                   arena_printf(k->arena, "%s.sites", k->name));
    LLVMSetInitializer(v, value);
    LLVMSetGlobalConstant(v, 1);
    LLVMSetAlignment(v, 8);
}

void lower_emu(LLVMModuleRef m, Kernel *const *kernels, size_t count)
{
    State s = {.context = LLVMGetModuleContext(m), .module = m};
    lower_only(m, kernels, count);
    make_types(&s);
    s.builder = LLVMCreateBuilderInContext(s.context);
    for (size_t i = 0; i < count; i++) {
        lower_kernel(&s, kernels[i]);
        add_sites(&s, kernels[i]);
    }
    LLVMDisposeBuilder(s.builder);
}
