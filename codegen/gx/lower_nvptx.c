/* The NVPTX column of gx.def: accesses become plain loads and stores on the kernel's pointers,
 * everything else an intrinsic of LLVM. */
#include "codegen/gx/lower.h"

#include <stdio.h>
#include <string.h>

#include "ir/base/bug.h"
#include "ir/base/text.h"
#include "ir/kernel/kernel.h"

typedef struct State {
    const Target *target;
    uint32_t ptx;
    LLVMValueRef shared; /* array in address space 3, or NULL */
} State;

enum { PTX_KERNEL = 71 /* calling convention */, GLOBAL = 1, SHARED = 3 };

/* Address of operand 1 behind operand 0. */
static LLVMValueRef address(const GxCall *c, const State *s)
{
    uint64_t arg = gx_constant(c, 0);
    LLVMValueRef offset = gx_operand(c, 1), base = s->shared;
    if (arg != GX_SHARED)
        base = LLVMGetParam(c->function, (unsigned)arg);
    else if (!base)
        bug("kernel %s uses shared memory that it did not allocate", c->kernel->name);
    return LLVMBuildInBoundsGEP2(c->builder, LLVMInt8TypeInContext(c->context), base,
                                 &offset, 1, "");
}

static LLVMValueRef nvptx_load(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)intrinsic;
    LLVMValueRef load =
        LLVMBuildLoad2(c->builder, LLVMTypeOf(c->call), address(c, s), "");
    LLVMSetAlignment(load, (unsigned)gx_constant(c, 2));
    uint64_t arg = gx_constant(c, 0);
    if (arg != GX_SHARED && c->kernel->args[arg].is_read_only) {
        LLVMMetadataRef none = LLVMMDNodeInContext2(c->context, NULL, 0);
        unsigned kind = LLVMGetMDKindIDInContext(c->context, "invariant.load", 14);
        LLVMSetMetadata(load, kind, LLVMMetadataAsValue(c->context, none));
    }
    return load;
}

static LLVMValueRef nvptx_store(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)intrinsic;
    LLVMValueRef store = LLVMBuildStore(c->builder, gx_operand(c, 2), address(c, s));
    LLVMSetAlignment(store, (unsigned)gx_constant(c, 3));
    return store;
}

static unsigned scope(const GxCall *c)
{
    const char *name = gx_constant(c, 0) == GX_SHARED ? "block" : "device";
    return LLVMGetSyncScopeID(c->context, name, strlen(name));
}

static LLVMValueRef nvptx_atomic(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)intrinsic;
    return LLVMBuildAtomicRMWSyncScope(c->builder, gx_atomic_op(c), address(c, s),
                                       gx_operand(c, 2), LLVMAtomicOrderingMonotonic,
                                       scope(c));
}

static LLVMValueRef nvptx_atomic_load(const GxCall *c, const State *s,
                                      const char *intrinsic)
{
    (void)intrinsic;
    LLVMValueRef load =
        LLVMBuildLoad2(c->builder, LLVMTypeOf(c->call), address(c, s), "");
    LLVMSetAlignment(load, (unsigned)gx_constant(c, 2));
    LLVMSetOrdering(load, LLVMAtomicOrderingMonotonic);
    LLVMSetAtomicSyncScopeID(load, scope(c));
    return load;
}

static LLVMValueRef nvptx_atomic_store(const GxCall *c, const State *s,
                                       const char *intrinsic)
{
    (void)intrinsic;
    LLVMValueRef store = LLVMBuildStore(c->builder, gx_operand(c, 2), address(c, s));
    LLVMSetAlignment(store, (unsigned)gx_constant(c, 3));
    LLVMSetOrdering(store, LLVMAtomicOrderingMonotonic);
    LLVMSetAtomicSyncScopeID(store, scope(c));
    return store;
}

/* A special register that is below a known bound. */
static LLVMValueRef nvptx_index(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)s;
    LLVMValueRef v = lower_intrinsic(c->builder, c->module, intrinsic, NULL, 0, NULL, 0);
    uint64_t low = 0, high = gx_index_bound(c);
    unsigned kind = LLVMGetEnumAttributeKindForName("range", 5);
    LLVMAddCallSiteAttribute(
        v, LLVMAttributeReturnIndex,
        LLVMCreateConstantRangeAttribute(c->context, kind, 32, &low, &high));
    return v;
}

static LLVMValueRef nvptx_scalar(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)s, (void)intrinsic;
    return LLVMGetParam(c->function, (unsigned)gx_constant(c, 0));
}

static LLVMValueRef nvptx_barrier(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)s;
    LLVMValueRef id = LLVMConstInt(LLVMInt32TypeInContext(c->context), 0, 0);
    return lower_intrinsic(c->builder, c->module, intrinsic, NULL, 0, &id, 1);
}

/* The intrinsic with all operands but the last, the site. */
static LLVMValueRef nvptx_call(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)s;
    LLVMValueRef args[8];
    unsigned count = LLVMGetNumArgOperands(c->call) - 1;
    for (unsigned i = 0; i < count; i++)
        args[i] = gx_operand(c, i);
    return lower_intrinsic(c->builder, c->module, intrinsic, NULL, 0, args, count);
}

/* Of the first operand, by an intrinsic that is there for its type. */
static LLVMValueRef nvptx_first(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)s;
    LLVMValueRef x = gx_operand(c, 0);
    LLVMTypeRef type = LLVMTypeOf(x);
    return lower_intrinsic(c->builder, c->module, intrinsic, &type, 1, &x, 1);
}

static GXC_NORETURN void lacks(const GxCall *c, const State *s, const char *name,
                               const char *what)
{
    escape_throw(ESCAPE_UNSUPPORTED, "%s needs %s; %s with PTX %u.%u has not (kernel %s)",
                 name, what, s->target->name, s->ptx / 10, s->ptx % 10, c->kernel->name);
}

/* The intrinsic of the row takes and gives other types of the same bits for some formats. */
static LLVMValueRef nvptx_mma(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)intrinsic;
    const TensorCore *t = tensor_core_numbered((uint32_t)gx_constant(c, 0));
    char name[96];
    snprintf(name, sizeof name, "llvm.nvvm.mma.%s", t->name);
    if (!tensor_core_fits(t, s->target, s->ptx))
        lacks(c, s, name,
              arena_printf(c->kernel->arena, "sm_%u and PTX %u.%u", t->sm, t->ptx / 10,
                           t->ptx % 10));
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name)),
             count = LLVMGetNumArgOperands(c->call) - 2;
    if (id == 0)
        bug("LLVM has no %s", name);
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, id, NULL, 0), args[24];
    LLVMTypeRef type = LLVMGlobalGetValueType(f), types[24];
    if (LLVMCountParamTypes(type) != count)
        bug("%s has %u operands", name, LLVMCountParamTypes(type));
    LLVMGetParamTypes(type, types);
    for (unsigned i = 0; i < count; i++)
        args[i] = LLVMBuildBitCast(c->builder, gx_operand(c, 1 + i), types[i], "");
    return LLVMBuildCall2(c->builder, type, f, args, count, "");
}

static LLVMValueRef shared_address(const GxCall *c, const State *s, LLVMValueRef offset)
{
    if (!s->shared)
        bug("kernel %s uses shared memory that it did not allocate", c->kernel->name);
    return LLVMBuildInBoundsGEP2(c->builder, LLVMInt8TypeInContext(c->context), s->shared,
                                 &offset, 1, "");
}

/* <intrinsic>.x<count>[.trans].b16 */
static LLVMValueRef nvptx_matrix(const GxCall *c, const State *s, const char *intrinsic)
{
    char name[96];
    unsigned stored = c->row == ROW_STMATRIX ? LLVMGetNumArgOperands(c->call) - 3 : 0;
    unsigned count = stored ? stored : LLVMCountStructElementTypes(LLVMTypeOf(c->call));
    snprintf(name, sizeof name, "%s.x%u%s.b16", intrinsic, count,
             gx_constant(c, 1) != 0 ? ".trans" : "");
    LLVMValueRef args[5] = {shared_address(c, s, gx_operand(c, 0))};
    for (unsigned i = 0; i < stored; i++)
        args[1 + i] = gx_operand(c, 2 + i);
    LLVMTypeRef pointer = LLVMTypeOf(args[0]);
    LLVMValueRef v =
        lower_intrinsic(c->builder, c->module, name, &pointer, 1, args, 1 + stored);
    /* one register is no structure */
    if (stored || count > 1)
        return v;
    return LLVMBuildInsertValue(c->builder, LLVMGetUndef(LLVMTypeOf(c->call)), v, 0, "");
}

/* Inline assembly, for LLVM has no intrinsic. */
static LLVMValueRef assembly(const GxCall *c, LLVMTypeRef result, const char *text,
                             const char *constraints, LLVMValueRef *args, unsigned count)
{
    LLVMTypeRef *types = ARENA_ARRAY(c->kernel->arena, LLVMTypeRef, count + 1);
    for (unsigned i = 0; i < count; i++)
        types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef type = LLVMFunctionType(result, types, count, 0);
    LLVMValueRef f =
        LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints), 1, 0,
                         LLVMInlineAsmDialectATT, 0);
    LLVMValueRef v = LLVMBuildCall2(c->builder, type, f, args, count, "");
    unsigned kind = LLVMGetEnumAttributeKindForName("convergent", 10);
    LLVMAddCallSiteAttribute(v, LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(c->context, kind, 0));
    return v;
}

enum { PIECE_LOG2 = 4 }; /* descriptors count in pieces of 16 bytes */

/* PTX ISA, "Matrix Descriptor Format": where matrices begin, and how far apart they are. swizzle: as the form has it. */
static LLVMValueRef descriptor(const GxCall *c, const State *s, unsigned operand,
                               unsigned swizzle)
{
    enum { ADDRESS = 0x3ffff, LEAD = 16, STRIDE = 32, SWIZZLE = 62 };
    static const uint64_t modes[GX_WGMMA_LINES] = {0, 3, 2, 1};
    LLVMTypeRef wide = LLVMInt64TypeInContext(c->context);
    uint64_t apart = gx_constant(c, operand + 1) >> PIECE_LOG2 << LEAD |
                     gx_constant(c, operand + 2) >> PIECE_LOG2 << STRIDE |
                     modes[swizzle] << SWIZZLE;
    LLVMValueRef at = LLVMBuildPtrToInt(
        c->builder, shared_address(c, s, gx_operand(c, operand)), wide, "");
    at = LLVMBuildAnd(c->builder, at, LLVMConstInt(wide, ADDRESS, 0), "");
    at = LLVMBuildLShr(c->builder, at, LLVMConstInt(wide, PIECE_LOG2, 0), "");
    return LLVMBuildOr(c->builder, at, LLVMConstInt(wide, apart, 0), "");
}

/* The operands of gx.wgmma. */
enum { WGMMA_LEFT = 2, WGMMA_RIGHT = 5, WGMMA_REST = 8 };

/* $first to $first + count - 1 */
static void text_operands(Text *t, unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        text_printf(t, "%s$%u", i == 0 ? "{" : ", ", first + i);
    text_string(t, "}");
}

/* Of gx.wgmma's left or right factor. */
static unsigned swizzle_of(const GxCall *c, bool is_right)
{
    uint64_t form = gx_constant(c, 0);
    return (unsigned)(form / (is_right ? GX_WGMMA_RIGHT_LINE : GX_WGMMA_LINE) %
                      GX_WGMMA_LINES);
}

/* How far a step of 16 terms begins behind the first one, in pieces of 16 bytes. */
static unsigned step_pieces(const GxCall *c, bool is_right, unsigned step)
{
    unsigned operand = is_right ? WGMMA_RIGHT : WGMMA_LEFT,
             swizzle = swizzle_of(c, is_right), pieces = 1u << swizzle;
    uint64_t lead = gx_constant(c, operand + 1) >> PIECE_LOG2,
             stride = gx_constant(c, operand + 2) >> PIECE_LOG2,
             transposed = is_right ? GX_WGMMA_RIGHT_TRANSPOSED : GX_WGMMA_TRANSPOSED;
    if (swizzle == 0)
        return (unsigned)(2 * step * lead);
    if ((gx_constant(c, 0) & transposed) != 0)
        return (unsigned)(2 * step * stride);
    return (unsigned)(2 * step / pieces * lead + 2 * step % pieces);
}

/* All steps as one group; unless it goes on it is waited for: nothing may touch the sums' registers before. Of 64 rows, 128
 * threads have a sum each for two columns. words: of the left factor in registers; 0: it has a descriptor. */
static const char *wgmma_text(const GxCall *c, unsigned sums, unsigned words)
{
    uint64_t form = gx_constant(c, 0), steps = gx_constant(c, 1);
    const char *type = (form & GX_WGMMA_F16) != 0 ? "f16" : "bf16";
    unsigned right = sums + (words != 0 ? words : 1);
    Text t;
    text_init(&t, c->kernel->arena);
    text_string(&t, "{\n.reg .pred add;\n.reg .b64 left, right;\n"
                    "setp.eq.u32 add, 0, 0;\nwgmma.fence.sync.aligned;\n");
    for (uint64_t step = 0; step < steps; step++) {
        if (words == 0)
            text_printf(&t, "add.s64 left, $%u, %u;\n", sums,
                        step_pieces(c, false, (unsigned)step));
        text_printf(&t, "add.s64 right, $%u, %u;\n", right,
                    step_pieces(c, true, (unsigned)step));
        text_printf(&t, "wgmma.mma_async.sync.aligned.m64n%uk16.f32.%s.%s ", 2 * sums,
                    type, type);
        text_operands(&t, 0, sums);
        text_string(&t, ", ");
        if (words == 0)
            text_printf(&t, "left, right, add, 1, 1, %d",
                        (form & GX_WGMMA_TRANSPOSED) != 0);
        else {
            text_operands(&t, sums + (unsigned)step * GX_WGMMA_WORDS, GX_WGMMA_WORDS);
            text_string(&t, ", right, add, 1, 1");
        }
        text_printf(&t, ", %d;\n", (form & GX_WGMMA_RIGHT_TRANSPOSED) != 0);
    }
    text_string(&t, "wgmma.commit_group.sync.aligned;\n");
    if ((form & GX_WGMMA_GOES_ON) == 0)
        text_string(&t, "wgmma.wait_group.sync.aligned 0;\n");
    text_string(&t, "}");
    return t.data;
}

static LLVMValueRef nvptx_wgmma(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)intrinsic;
    unsigned sums = LLVMCountStructElementTypes(LLVMTypeOf(c->call)), count = 0,
             first_sum = LLVMGetNumArgOperands(c->call) - 1 - sums,
             words = first_sum - WGMMA_REST;
    LLVMValueRef *args = ARENA_ARRAY(c->kernel->arena, LLVMValueRef, sums + words + 2);
    Text constraints;
    text_init(&constraints, c->kernel->arena);
    for (unsigned i = 0; i < sums; i++)
        text_string(&constraints, "=f,");
    for (unsigned i = 0; i < words; i++) {
        args[count++] = gx_operand(c, WGMMA_REST + i);
        text_string(&constraints, "r,");
    }
    if (words == 0) {
        args[count++] = descriptor(c, s, WGMMA_LEFT, swizzle_of(c, false));
        text_string(&constraints, "l,");
    }
    args[count++] = descriptor(c, s, WGMMA_RIGHT, swizzle_of(c, true));
    text_string(&constraints, "l");
    for (unsigned i = 0; i < sums; i++) {
        args[count++] = gx_operand(c, first_sum + i);
        text_printf(&constraints, ",%u", i);
    }
    text_string(&constraints, ",~{memory}");
    return assembly(c, LLVMTypeOf(c->call), wgmma_text(c, sums, words), constraints.data,
                    args, count);
}

/* The sums pass through it, so that nobody takes them before. */
static LLVMValueRef nvptx_wgmma_wait(const GxCall *c, const State *s,
                                     const char *intrinsic)
{
    (void)s;
    (void)intrinsic;
    unsigned sums = LLVMCountStructElementTypes(LLVMTypeOf(c->call));
    LLVMValueRef *args = ARENA_ARRAY(c->kernel->arena, LLVMValueRef, sums);
    Text constraints;
    text_init(&constraints, c->kernel->arena);
    for (unsigned i = 0; i < sums; i++)
        text_string(&constraints, "=f,");
    for (unsigned i = 0; i < sums; i++) {
        args[i] = gx_operand(c, 1 + i);
        text_printf(&constraints, "%u,", i);
    }
    text_string(&constraints, "~{memory}");
    return assembly(c, LLVMTypeOf(c->call),
                    arena_printf(c->kernel->arena, "wgmma.wait_group.sync.aligned %u;",
                                 (unsigned)gx_constant(c, 0)),
                    constraints.data, args, sums);
}

/* -- tensor memory: PTX ISA, "TensorCore 5th Generation Family Instructions" -------------------- */

static LLVMValueRef shared_word(const GxCall *c, const State *s, unsigned operand)
{
    return LLVMBuildPtrToInt(c->builder, shared_address(c, s, gx_operand(c, operand)),
                             LLVMInt32TypeInContext(c->context), "");
}

/* The block asks once: others may go on asking. */
static LLVMValueRef nvptx_tensor_alloc(const GxCall *c, const State *s,
                                       const char *intrinsic)
{
    (void)intrinsic;
    LLVMValueRef args[] = {shared_word(c, s, 0), gx_operand(c, 1)};
    return assembly(c, LLVMVoidTypeInContext(c->context),
                    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [$0], $1;\n"
                    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
                    "tcgen05.fence::before_thread_sync;",
                    "r,r,~{memory}", args, 2);
}

static LLVMValueRef nvptx_tensor_free(const GxCall *c, const State *s,
                                      const char *intrinsic)
{
    (void)s, (void)intrinsic;
    LLVMValueRef args[] = {gx_operand(c, 0), gx_operand(c, 1)};
    return assembly(c, LLVMVoidTypeInContext(c->context),
                    "tcgen05.fence::after_thread_sync;\n"
                    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 $0, $1;",
                    "r,r,~{memory}", args, 2);
}

/* "Instruction descriptor": f32 sums; types, orders and sizes of the factors. */
static uint32_t instruction_descriptor(uint64_t form)
{
    enum { F32_SUMS = 1 << 4, BF16_A = 1 << 7, BF16_B = 1 << 10 };
    enum { TRANSPOSED_A = 1 << 15, TRANSPOSED_B = 1 << 16, N = 17, M = 24 };
    enum { N_UNIT_LOG2 = 3, M_UNIT_LOG2 = 4, COLUMNS = 512, LEAST = 64, MOST = 128 };
    uint32_t rows = (form & GX_TENSOR_TALL) != 0 ? MOST : LEAST,
             columns = (uint32_t)form % COLUMNS;
    return F32_SUMS | ((form & GX_WGMMA_F16) != 0 ? 0 : BF16_A | BF16_B) |
           ((form & GX_WGMMA_TRANSPOSED) != 0 ? TRANSPOSED_A : 0) |
           ((form & GX_WGMMA_RIGHT_TRANSPOSED) != 0 ? TRANSPOSED_B : 0) |
           columns >> N_UNIT_LOG2 << N | rows >> M_UNIT_LOG2 << M;
}

/* "Shared memory descriptor": that of wgmma, and a number that stands there always. */
static LLVMValueRef tensor_descriptor(const GxCall *c, const State *s, unsigned operand)
{
    const uint64_t version = UINT64_C(1) << 46;
    return LLVMBuildOr(c->builder, descriptor(c, s, operand, 0),
                       LLVMConstInt(LLVMInt64TypeInContext(c->context), version, 0), "");
}

static LLVMValueRef nvptx_tensor_mma(const GxCall *c, const State *s,
                                     const char *intrinsic)
{
    (void)intrinsic;
    enum { ADDRESS = WGMMA_REST, ADDS };
    uint64_t steps = gx_constant(c, 1),
             lead[2] = {gx_constant(c, WGMMA_LEFT + 1) >> PIECE_LOG2,
                        gx_constant(c, WGMMA_RIGHT + 1) >> PIECE_LOG2};
    LLVMTypeRef word = LLVMInt32TypeInContext(c->context);
    LLVMValueRef args[] = {
        gx_operand(c, ADDRESS), tensor_descriptor(c, s, WGMMA_LEFT),
        tensor_descriptor(c, s, WGMMA_RIGHT),
        LLVMConstInt(word, instruction_descriptor(gx_constant(c, 0)), 0),
        gx_operand(c, ADDS)};
    Text t;
    text_init(&t, c->kernel->arena);
    text_string(&t, "{\n.reg .pred add;\n.reg .b64 left, right;\n"
                    "setp.ne.u32 add, $4, 0;\ntcgen05.fence::after_thread_sync;\n");
    for (uint64_t step = 0; step < steps; step++) {
        text_printf(&t, "add.s64 left, $1, %u;\nadd.s64 right, $2, %u;\n",
                    (unsigned)(2 * step * lead[0]), (unsigned)(2 * step * lead[1]));
        text_string(&t, "tcgen05.mma.cta_group::1.kind::f16 [$0], left, right, $3, "
                        "add;\n");
        if (step == 0 && steps > 1)
            text_string(&t, "setp.eq.u32 add, 0, 0;\n");
    }
    text_string(&t, "}");
    return assembly(c, LLVMVoidTypeInContext(c->context), t.data, "r,l,l,r,r,~{memory}",
                    args, 5);
}

static LLVMValueRef nvptx_tensor_commit(const GxCall *c, const State *s,
                                        const char *intrinsic)
{
    (void)intrinsic;
    LLVMValueRef at = shared_word(c, s, 0);
    return assembly(c, LLVMVoidTypeInContext(c->context),
                    "tcgen05.commit.cta_group::1.mbarrier::arrive::one"
                    ".shared::cluster.b64 [$0];",
                    "r,~{memory}", &at, 1);
}

/* Ends with the fence that the barrier needs which others go on behind. */
static LLVMValueRef nvptx_tensor_load(const GxCall *c, const State *s,
                                      const char *intrinsic)
{
    (void)s, (void)intrinsic;
    enum { SUMS = 4 /* of eight columns */ };
    unsigned sums = LLVMCountStructElementTypes(LLVMTypeOf(c->call));
    LLVMValueRef address = gx_operand(c, 0);
    Text t, constraints;
    text_init(&t, c->kernel->arena);
    text_init(&constraints, c->kernel->arena);
    text_printf(&t,
                "tcgen05.fence::after_thread_sync;\n"
                "tcgen05.ld.sync.aligned.16x256b.x%u.b32 ",
                sums / SUMS);
    text_operands(&t, 0, sums);
    text_printf(&t,
                ", [$%u];\ntcgen05.wait::ld.sync.aligned;\n"
                "tcgen05.fence::before_thread_sync;",
                sums);
    for (unsigned i = 0; i < sums; i++)
        text_string(&constraints, "=f,");
    text_string(&constraints, "r,~{memory}");
    return assembly(c, LLVMTypeOf(c->call), t.data, constraints.data, &address, 1);
}

static LLVMValueRef nvptx_mbarrier_init(const GxCall *c, const State *s,
                                        const char *intrinsic)
{
    (void)intrinsic;
    LLVMValueRef at = shared_word(c, s, 0);
    return assembly(c, LLVMVoidTypeInContext(c->context),
                    "mbarrier.init.shared::cta.b64 [$0], 1;\n"
                    "fence.mbarrier_init.release.cluster;",
                    "r,~{memory}", &at, 1);
}

static LLVMValueRef nvptx_mbarrier_wait(const GxCall *c, const State *s,
                                        const char *intrinsic)
{
    (void)intrinsic;
    LLVMValueRef args[] = {shared_word(c, s, 0), gx_operand(c, 1)};
    return assembly(c, LLVMVoidTypeInContext(c->context),
                    "{\n.reg .pred done;\nagain:\n"
                    "mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n"
                    "@!done bra again;\n}",
                    "r,r,~{memory}", args, 2);
}

static LLVMValueRef nvptx_fence(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)s, (void)intrinsic;
    unsigned device = LLVMGetSyncScopeID(c->context, "device", strlen("device"));
    return LLVMBuildFenceSyncScope(c->builder, LLVMAtomicOrderingAcquireRelease, device,
                                   "");
}

static LLVMValueRef nvptx_proxy_fence(const GxCall *c, const State *s,
                                      const char *intrinsic)
{
    (void)s, (void)intrinsic;
    return assembly(c, LLVMVoidTypeInContext(c->context),
                    "fence.proxy.async.shared::cta;", "~{memory}", NULL, 0);
}

/* What ptx_write_out finds. */
static LLVMValueRef nvptx_repeat(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)s, (void)intrinsic;
    const char *text =
        arena_printf(c->kernel->arena, "// repeat %u", (unsigned)gx_constant(c, 0));
    return assembly(c, LLVMVoidTypeInContext(c->context), text, "", NULL, 0);
}

static LLVMValueRef nvptx_copy(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)intrinsic;
    char name[64];
    uint64_t bytes = gx_constant(c, 3);
    LLVMValueRef valid = gx_operand(c, 4);
    bool is_whole = LLVMIsAConstantInt(valid) && LLVMConstIntGetZExtValue(valid) == bytes;
    /* 16 bytes pass by the first-level cache */
    snprintf(name, sizeof name, "llvm.nvvm.cp.async.%s.shared.global.%u%s",
             bytes == 16 ? "cg" : "ca", (unsigned)bytes, is_whole ? "" : ".s");
    LLVMValueRef args[] = {shared_address(c, s, gx_operand(c, 2)), address(c, s), valid};
    return lower_intrinsic(c->builder, c->module, name, NULL, 0, args, is_whole ? 2 : 3);
}

static LLVMValueRef nvptx_encode(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)s;
    LLVMValueRef args[] = {gx_operand(c, 1), gx_operand(c, 0)}; /* upper half first */
    return narrow_encode(
        c, lower_intrinsic(c->builder, c->module, intrinsic, NULL, 0, args, 2));
}

static LLVMValueRef nvptx_decode(const GxCall *c, const State *s, const char *intrinsic)
{
    (void)s;
    LLVMValueRef codes = gx_operand(c, 0);
    return narrow_decode(
        c, lower_intrinsic(c->builder, c->module, intrinsic, NULL, 0, &codes, 1));
}

static const struct {
    LLVMValueRef (*lower)(const GxCall *c, const State *s, const char *intrinsic);
    const char *intrinsic;
} rows[ROW_COUNT] = {
#define GX(id, name, signature, features, flags, nvptx, intrinsic, emu, detail)          \
    [ROW_##id] = {nvptx_##nvptx, intrinsic},
#include "codegen/gx/gx.def"
};

static LLVMValueRef lower_call(const GxCall *c, void *user)
{
    const State *s = user;
    const GxInfo *row = &gx_info[c->row];
    if (target_can(s->target, s->ptx, row->features))
        return rows[c->row].lower(c, s, rows[c->row].intrinsic);
    if ((row->flags & GX_OPTIONAL) != 0)
        return gx_operand(c, LLVMGetNumArgOperands(c->call) - 1);
    lacks(c, s, row->name, target_lacks(s->target, s->ptx, row->features));
}

static void set_text_attribute(LLVMValueRef f, const char *name, const char *value)
{
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(f));
    LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(context, name,
                                                      (unsigned)strlen(name), value,
                                                      (unsigned)strlen(value)));
}

static void set_argument_attribute(LLVMValueRef f, unsigned arg, const char *name,
                                   uint64_t value)
{
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(f));
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(f, arg + 1, LLVMCreateEnumAttribute(context, kind, value));
}

static void set_attributes(const Kernel *k, LLVMValueRef f)
{
    char text[64];
    snprintf(text, sizeof text, "%u,%u,%u", k->block[0], k->block[1], k->block[2]);
    LLVMSetFunctionCallConv(f, PTX_KERNEL);
    lower_function_attribute(f, "nounwind");
    set_text_attribute(f, "nvvm.reqntid", text);
    /* 64 registers a thread, 128 where there is much code: left alone, the assembler would rather spill than give a
     * large block more than the fewest */
    uint32_t threads = k->block[0] * k->block[1] * k->block[2];
    if (k->is_wide ? k->resident_blocks != 0 : threads >= 256) {
        uint32_t blocks =
            threads == 512 && k->site_count > KERNEL_FEW_ACCESSES ? 1 : 1024 / threads;
        snprintf(text, sizeof text, "%u",
                 k->resident_blocks != 0 ? k->resident_blocks : blocks);
        set_text_attribute(f, "nvvm.minctasm", text);
    }
    for (unsigned i = 0; i < k->arg_count; i++) {
        const KernelArg *arg = &k->args[i];
        if (arg->is_scalar)
            continue;
        if (arg->align > 1)
            set_argument_attribute(f, i, "align", arg->align);
        if (arg->is_noalias)
            set_argument_attribute(f, i, "noalias", 0);
        if (arg->is_read_only)
            set_argument_attribute(f, i, "readonly", 0);
    }
}

static LLVMValueRef shared_array(const Kernel *k, LLVMModuleRef m)
{
    if (k->shared_bytes == 0)
        return NULL;
    bool is_static = k->shared_bytes <= TARGET_STATIC_SHARED;
    uint64_t bytes = is_static ? k->shared_bytes : 0;
    LLVMTypeRef i8 = LLVMInt8TypeInContext(LLVMGetModuleContext(m));
    LLVMTypeRef type = LLVMArrayType2(i8, bytes);
    const char *name = arena_printf(k->arena, "%s$shared", k->name);
    LLVMValueRef v = LLVMAddGlobalInAddressSpace(m, type, name, SHARED);
    LLVMSetAlignment(v, k->shared_align);
    if (is_static) {
        LLVMSetLinkage(v, LLVMInternalLinkage);
        LLVMSetInitializer(v, LLVMGetUndef(type));
    }
    return v;
}

void lower_nvptx(LLVMModuleRef m, Kernel *const *kernels, size_t count,
                 const Target *target, uint32_t ptx)
{
    lower_only(m, kernels, count);
    for (size_t i = 0; i < count; i++) {
        const Kernel *k = kernels[i];
        LLVMValueRef f = LLVMGetNamedFunction(m, k->name);
        State s = {target, ptx, shared_array(k, m)};
        lower_calls(k, f, lower_call, &s);
        set_attributes(k, f);
    }
}

/* The integer is one that an f64 holds: others were not joined. */
static LLVMValueRef split_conversion(LLVMBuilderRef b, LLVMValueRef inst)
{
    LLVMValueRef x = LLVMGetOperand(inst, 0);
    LLVMContextRef context = LLVMGetTypeContext(LLVMTypeOf(inst));
    LLVMTypeRef exact = LLVMGetIntTypeWidth(LLVMTypeOf(x)) <= 16
                            ? LLVMFloatTypeInContext(context)
                            : LLVMDoubleTypeInContext(context);
    LLVMValueRef wide = LLVMBuildCast(b, LLVMGetInstructionOpcode(inst), x, exact, "");
    return LLVMBuildFPTrunc(b, wide, LLVMTypeOf(inst), "");
}

/* What the instruction becomes; NULL: it stays. Arithmetic is made anew without flags, of which LLVM-C takes
 * none away. */
static LLVMValueRef narrow_form(LLVMBuilderRef b, LLVMValueRef inst, const Target *target)
{
    LLVMTypeKind kind = LLVMGetTypeKind(LLVMTypeOf(inst));
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    if (kind != LLVMHalfTypeKind && kind != LLVMBFloatTypeKind)
        return NULL;
    LLVMPositionBuilderBefore(b, inst);
    switch (op) {
    case LLVMSIToFP:
    case LLVMUIToFP:
        return kind == LLVMBFloatTypeKind && !target_has(target, FEATURE_BF16_CVT)
                   ? split_conversion(b, inst)
                   : NULL;
    case LLVMFAdd:
    case LLVMFSub:
    case LLVMFMul:
        return LLVMBuildBinOp(b, op, LLVMGetOperand(inst, 0), LLVMGetOperand(inst, 1),
                              "");
    default:
        return NULL;
    }
}

static void narrow(LLVMBuilderRef b, LLVMValueRef inst, const void *user)
{
    LLVMValueRef form = narrow_form(b, inst, user);
    if (form == NULL)
        return;
    LLVMReplaceAllUsesWith(inst, form);
    LLVMInstructionEraseFromParent(inst);
}

void lower_nvptx_narrow(LLVMModuleRef m, const Target *target)
{
    lower_each(m, narrow, target);
}
