/* libdevice on the host: rows of device.def replace what its functions use of NVIDIA's intrinsics
 * and assembly, and shifts get the results that they have there. */
#include "codegen/gx/device_host.h"

#include <string.h>

#include "codegen/gx/lower.h"
#include "ir/base/bug.h"

typedef struct DeviceCall {
    const char *name;
    LLVMBuilderRef b; /* stands before the call */
    LLVMModuleRef m;
    LLVMTypeRef type; /* result */
    LLVMValueRef args[5];
    unsigned count;
    unsigned op;
    const char *text;
} DeviceCall;

static LLVMValueRef host_binary(DeviceCall *c)
{
    return LLVMBuildBinOp(c->b, c->op, c->args[0], c->args[1], "");
}

static LLVMValueRef host_math(DeviceCall *c)
{
    return lower_math(c->b, c->m, c->text, c->args, c->count);
}

/* 1 / x, or 1 / text(x) */
static LLVMValueRef host_reciprocal(DeviceCall *c)
{
    LLVMValueRef x = c->text ? host_math(c) : c->args[0];
    return LLVMBuildFDiv(c->b, LLVMConstReal(c->type, 1.0), x, "");
}

static LLVMValueRef host_library(DeviceCall *c)
{
    LLVMTypeRef type = LLVMFunctionType(c->type, &c->type, 1, 0);
    LLVMValueRef f = LLVMGetNamedFunction(c->m, c->text);
    if (!f)
        f = LLVMAddFunction(c->m, c->text, type);
    return LLVMBuildCall2(c->b, type, f, c->args, 1, "");
}

/* The float next to x: below it, above it, or nearer to zero. x is no NaN, and not the last. */
static LLVMValueRef neighbour(DeviceCall *c, LLVMValueRef x, char direction)
{
    LLVMBuilderRef b = c->b;
    bool is_double = LLVMGetTypeKind(c->type) == LLVMDoubleTypeKind;
    unsigned width = is_double ? 64 : 32;
    LLVMTypeRef word = LLVMIntTypeInContext(LLVMGetModuleContext(c->m), width);
    LLVMValueRef one = LLVMConstInt(word, 1, 0), bits = LLVMBuildBitCast(b, x, word, "");
    LLVMValueRef less = LLVMBuildSub(b, bits, one, "");
    LLVMValueRef more = LLVMBuildAdd(b, bits, one, "");
    if (direction == 'z')
        return LLVMBuildBitCast(b, less, c->type, "");
    bool is_down = direction == 'm';
    LLVMValueRef zero = LLVMConstReal(c->type, 0.0);
    LLVMValueRef is_positive = LLVMBuildFCmp(b, LLVMRealOGT, x, zero, "");
    LLVMValueRef is_zero = LLVMBuildFCmp(b, LLVMRealOEQ, x, zero, "");
    LLVMValueRef v =
        LLVMBuildSelect(b, is_positive, is_down ? less : more, is_down ? more : less, "");
    uint64_t sign = is_down ? (uint64_t)1 << (width - 1) : 0;
    LLVMValueRef least = LLVMConstInt(word, sign | 1, 0);
    return LLVMBuildBitCast(b, LLVMBuildSelect(b, is_zero, least, v, ""), c->type, "");
}

/* fma, add or mul of f32, or add of f64, with a directed rounding. In f64 the product is exact, and the sum is
 * s + e exactly (Knuth 1969, TwoSum). The nearest f32 of s is right, or one step off where it
 * lies on the wrong side of s + e. */
static LLVMValueRef host_directed(DeviceCall *c)
{
    LLVMBuilderRef b = c->b;
    LLVMTypeRef f64 = LLVMDoubleTypeInContext(LLVMGetModuleContext(c->m));
    LLVMValueRef x[3], zero = LLVMConstReal(f64, 0.0), s, e = zero;
    for (unsigned i = 0; i < c->count; i++)
        x[i] = LLVMBuildFPCast(b, c->args[i], f64, "");
    bool is_add = strncmp(c->name, "add", 3) == 0;
    LLVMValueRef p = is_add ? x[0] : LLVMBuildFMul(b, x[0], x[1], "");
    if (is_add || c->count == 3) {
        LLVMValueRef q = x[c->count - 1];
        s = LLVMBuildFAdd(b, p, q, "");
        LLVMValueRef q1 = LLVMBuildFSub(b, s, p, ""), p1 = LLVMBuildFSub(b, s, q1, "");
        e = LLVMBuildFAdd(b, LLVMBuildFSub(b, p, p1, ""), LLVMBuildFSub(b, q, q1, ""),
                          "");
    } else {
        s = p;
    }
    LLVMValueRef near = LLVMBuildFPCast(b, s, c->type, "");
    LLVMValueRef wide = LLVMBuildFPCast(b, near, f64, "");
    char direction = (char)c->op;
    if (direction == 'z') { /* compare magnitudes: turn the signs of a negative sum */
        LLVMValueRef is_negative = LLVMBuildFCmp(b, LLVMRealOLT, s, zero, "");
        s = LLVMBuildSelect(b, is_negative, LLVMBuildFNeg(b, s, ""), s, "");
        e = LLVMBuildSelect(b, is_negative, LLVMBuildFNeg(b, e, ""), e, "");
        wide = LLVMBuildSelect(b, is_negative, LLVMBuildFNeg(b, wide, ""), wide, "");
    }
    LLVMRealPredicate beyond = direction == 'p' ? LLVMRealOLT : LLVMRealOGT;
    LLVMRealPredicate behind = direction == 'p' ? LLVMRealOGT : LLVMRealOLT;
    LLVMValueRef is_wrong = LLVMBuildFCmp(b, beyond, wide, s, "");
    LLVMValueRef is_tie = LLVMBuildAnd(b, LLVMBuildFCmp(b, LLVMRealOEQ, wide, s, ""),
                                       LLVMBuildFCmp(b, behind, e, zero, ""), "");
    return LLVMBuildSelect(b, LLVMBuildOr(b, is_wrong, is_tie, ""),
                           neighbour(c, near, direction), near, "");
}

/* To [0, 1]; NaN gives 0. */
static LLVMValueRef host_saturate(DeviceCall *c)
{
    LLVMValueRef low[] = {c->args[0], LLVMConstReal(c->type, 0.0)};
    LLVMValueRef high[] = {lower_math(c->b, c->m, "llvm.maxnum", low, 2),
                           LLVMConstReal(c->type, 1.0)};
    return lower_math(c->b, c->m, "llvm.minnum", high, 2);
}

static LLVMValueRef host_to_int(DeviceCall *c)
{
    LLVMValueRef rounded = host_math(c);
    LLVMTypeRef overloads[] = {c->type, LLVMTypeOf(rounded)};
    return lower_intrinsic(c->b, c->m, c->op ? "llvm.fptosi.sat" : "llvm.fptoui.sat",
                           overloads, 2, &rounded, 1);
}

static LLVMValueRef host_cast(DeviceCall *c)
{
    return LLVMBuildCast(c->b, c->op, c->args[0], c->type, "");
}

/* The low (op 0) or high word of a double. */
static LLVMValueRef host_word(DeviceCall *c)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(LLVMGetModuleContext(c->m));
    LLVMValueRef v = LLVMBuildBitCast(c->b, c->args[0], i64, "");
    if (c->op)
        v = LLVMBuildLShr(c->b, v, LLVMConstInt(i64, 32, 0), "");
    return LLVMBuildTrunc(c->b, v, c->type, "");
}

static LLVMValueRef host_words(DeviceCall *c)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(LLVMGetModuleContext(c->m));
    LLVMValueRef low = LLVMBuildZExt(c->b, c->args[0], i64, "");
    LLVMValueRef high = LLVMBuildZExt(c->b, c->args[1], i64, "");
    high = LLVMBuildShl(c->b, high, LLVMConstInt(i64, 32, 0), "");
    return LLVMBuildBitCast(c->b, LLVMBuildOr(c->b, low, high, ""), c->type, "");
}

static LLVMValueRef host_mulhi(DeviceCall *c)
{
    unsigned bits = LLVMGetIntTypeWidth(c->type);
    LLVMTypeRef wide = LLVMIntTypeInContext(LLVMGetModuleContext(c->m), 2 * bits);
    LLVMValueRef x = LLVMBuildCast(c->b, c->op, c->args[0], wide, "");
    LLVMValueRef y = LLVMBuildCast(c->b, c->op, c->args[1], wide, "");
    LLVMValueRef v = LLVMBuildMul(c->b, x, y, "");
    v = LLVMBuildLShr(c->b, v, LLVMConstInt(wide, bits, 0), "");
    return LLVMBuildTrunc(c->b, v, c->type, "");
}

/* The two words of v, low first, as a value of the call's type. */
static LLVMValueRef pair_of(DeviceCall *c, LLVMValueRef v, LLVMTypeRef word)
{
    LLVMValueRef low = LLVMBuildTrunc(c->b, v, word, "");
    LLVMValueRef bits = LLVMConstInt(LLVMTypeOf(v), LLVMGetIntTypeWidth(word), 0);
    LLVMValueRef high = LLVMBuildTrunc(c->b, LLVMBuildLShr(c->b, v, bits, ""), word, "");
    LLVMValueRef pair = LLVMBuildInsertValue(c->b, LLVMGetUndef(c->type), low, 0, "");
    return LLVMBuildInsertValue(c->b, pair, high, 1, "");
}

static LLVMTypeRef twice_as_wide(DeviceCall *c)
{
    unsigned bits = LLVMGetIntTypeWidth(LLVMTypeOf(c->args[0]));
    return LLVMIntTypeInContext(LLVMGetModuleContext(c->m), 2 * bits);
}

static LLVMValueRef host_mad_wide(DeviceCall *c)
{
    LLVMTypeRef wide = twice_as_wide(c);
    LLVMValueRef x[3] = {0};
    for (unsigned i = 0; i < c->count; i++)
        x[i] = LLVMBuildZExt(c->b, c->args[i], wide, "");
    LLVMValueRef v = LLVMBuildMul(c->b, x[0], x[1], "");
    if (c->count == 3)
        v = LLVMBuildAdd(c->b, v, x[2], "");
    return pair_of(c, v, LLVMTypeOf(c->args[0]));
}

static LLVMValueRef host_wide_binary(DeviceCall *c)
{
    LLVMTypeRef wide = twice_as_wide(c);
    LLVMValueRef bits = LLVMConstInt(wide, LLVMGetIntTypeWidth(wide) / 2, 0), x[2];
    for (int i = 0; i < 2; i++) {
        LLVMValueRef low = LLVMBuildZExt(c->b, c->args[2 * i], wide, "");
        LLVMValueRef high = LLVMBuildZExt(c->b, c->args[2 * i + 1], wide, "");
        x[i] = LLVMBuildOr(c->b, low, LLVMBuildShl(c->b, high, bits, ""), "");
    }
    return pair_of(c, LLVMBuildBinOp(c->b, c->op, x[0], x[1], ""),
                   LLVMTypeOf(c->args[0]));
}

/* x == y, or one of them is NaN, ? args[2] : args[3] */
static LLVMValueRef host_select_equal(DeviceCall *c)
{
    LLVMValueRef is_equal = LLVMBuildFCmp(c->b, LLVMRealUEQ, c->args[0], c->args[1], "");
    return LLVMBuildSelect(c->b, is_equal, c->args[2], c->args[3], "");
}

static const struct {
    const char *name;
    bool is_asm;
    LLVMValueRef (*lower)(DeviceCall *c);
    unsigned op;
    const char *text;
} rows[] = {
#define DEVICE(name, host, op, text) {name, false, host_##host, op, text},
#define DEVICE_ASM(name, host, op, text) {name, true, host_##host, op, text},
#include "codegen/gx/device.def"
};
enum { ROW_COUNT_DEVICE = sizeof rows / sizeof *rows };

/* x, or a zero of its sign where it is denormal. */
static LLVMValueRef flush(DeviceCall *c, LLVMValueRef x)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    bool is_double = LLVMGetTypeKind(type) == LLVMDoubleTypeKind;
    LLVMValueRef least = LLVMConstReal(type, is_double ? 0x1p-1022 : 0x1p-126);
    LLVMValueRef signed_zero[] = {LLVMConstReal(type, 0.0), x};
    LLVMValueRef magnitude = lower_math(c->b, c->m, "llvm.fabs", &x, 1);
    LLVMValueRef zero = lower_math(c->b, c->m, "llvm.copysign", signed_zero, 2);
    LLVMValueRef is_denormal = LLVMBuildFCmp(c->b, LLVMRealOLT, magnitude, least, "");
    return LLVMBuildSelect(c->b, is_denormal, zero, x, "");
}

static unsigned find_row(const char *name, bool is_asm)
{
    for (unsigned i = 0; i < ROW_COUNT_DEVICE; i++)
        if (rows[i].is_asm == is_asm && (is_asm ? strstr(name, rows[i].name) != NULL
                                                : strcmp(name, rows[i].name) == 0))
            return i;
    bug("device.def has no row for %s", name);
}

static LLVMValueRef lower_device_call(LLVMValueRef call, LLVMBuilderRef b,
                                      LLVMModuleRef m, const char *name)
{
    unsigned row = find_row(name, LLVMIsAInlineAsm(LLVMGetCalledValue(call)) != NULL);
    DeviceCall c = {.name = name, .b = b, .m = m, .type = LLVMTypeOf(call)};
    c.op = rows[row].op;
    c.text = rows[row].text;
    c.count = LLVMGetNumArgOperands(call);
    bool is_ftz = strstr(name, ".ftz") != NULL;
    for (unsigned i = 0; i < c.count; i++) {
        c.args[i] = LLVMGetOperand(call, i);
        if (is_ftz)
            c.args[i] = flush(&c, c.args[i]);
    }
    LLVMValueRef v = rows[row].lower(&c);
    return is_ftz ? flush(&c, v) : v;
}

/* What NVIDIA's own thing `inst` calls: the name of a row, or NULL. */
static const char *device_name(LLVMValueRef inst)
{
    if (LLVMGetInstructionOpcode(inst) != LLVMCall)
        return NULL;
    LLVMValueRef callee = LLVMGetCalledValue(inst);
    size_t length;
    if (LLVMIsAInlineAsm(callee))
        return LLVMGetInlineAsmAsmString(callee, &length);
    if (!LLVMIsAFunction(callee))
        return NULL;
    const char *name = LLVMGetValueName2(callee, &length);
    return strncmp(name, "llvm.nvvm.", 10) == 0 ? name + 10 : NULL;
}

static bool is_variable_shift(LLVMValueRef inst)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    return (op == LLVMShl || op == LLVMLShr || op == LLVMAShr) &&
           LLVMGetTypeKind(LLVMTypeOf(inst)) == LLVMIntegerTypeKind &&
           !LLVMIsConstant(LLVMGetOperand(inst, 1));
}

/* What PTX gives: by the width or more, all bits leave. __nv_pow has such amounts; LLVM has no result for them, x86 takes
 * them modulo the width. */
static LLVMValueRef lower_shift(LLVMValueRef inst, LLVMBuilderRef b)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    LLVMValueRef x = LLVMGetOperand(inst, 0), amount = LLVMGetOperand(inst, 1);
    LLVMTypeRef type = LLVMTypeOf(inst);
    LLVMValueRef last = LLVMConstInt(type, LLVMGetIntTypeWidth(type) - 1, 0);
    LLVMValueRef leaves_some = LLVMBuildICmp(b, LLVMIntULE, amount, last, "");
    amount = LLVMBuildSelect(b, leaves_some, amount, last, "");
    LLVMValueRef v = LLVMBuildBinOp(b, op, x, amount, "");
    return op == LLVMAShr ? v
                          : LLVMBuildSelect(b, leaves_some, v, LLVMConstNull(type), "");
}

static void lower_block(LLVMBasicBlockRef block, LLVMBuilderRef b, LLVMModuleRef m)
{
    LLVMValueRef inst = LLVMGetFirstInstruction(block), next;
    for (; inst; inst = next) {
        next = LLVMGetNextInstruction(inst);
        const char *name = device_name(inst);
        if (!name && !is_variable_shift(inst))
            continue;
        LLVMPositionBuilderBefore(b, inst);
        LLVMReplaceAllUsesWith(inst, name ? lower_device_call(inst, b, m, name)
                                          : lower_shift(inst, b));
        LLVMInstructionEraseFromParent(inst);
    }
}

void device_lower_for_host(LLVMModuleRef m)
{
    LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetModuleContext(m));
    for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f)) {
        LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f);
        for (; block; block = LLVMGetNextBasicBlock(block))
            lower_block(block, b, m);
    }
    LLVMDisposeBuilder(b);
}
