/* What libdevice calls of NVIDIA's, on the host: conversions and high words of products, which no function of today's
 * libdevice needs for the operations of HLO, of constants, so that LLVM folds what takes the calls' place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>

#include "codegen/gx/device_host.h"

/* The constant that `type f() { return llvm.nvvm.CALL }` returns once it is lowered. */
static LLVMValueRef result_of(LLVMContextRef context, const char *type,
                              const char *parameters, const char *name,
                              const char *arguments)
{
    char text[512], *message = NULL;
    LLVMModuleRef m;
    snprintf(text, sizeof text,
             "declare %s @llvm.nvvm.%s(%s)\n"
             "define %s @f() {\n  %%r = call %s @llvm.nvvm.%s(%s)\n  ret %s %%r\n}\n",
             type, name, parameters, type, type, name, arguments, type);
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "test");
    if (LLVMParseIRInContext(context, buffer, &m, &message))
        fail_msg("%s: %s", name, message);
    device_lower_for_host(m);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(LLVMGetNamedFunction(m, "f"));
    LLVMValueRef value = LLVMGetOperand(LLVMGetBasicBlockTerminator(entry), 0);
    if (!LLVMIsConstant(value))
        fail_msg("%s is still called", name);
    return value;
}

static void test_products(void **state)
{
    (void)state;
    static const struct {
        const char *name, *type, *parameters, *arguments;
        uint64_t high;
    } rows[] = {
        {"mulhi.i", "i32", "i32, i32", "i32 -2, i32 3", 0xffffffff},
        {"mulhi.ui", "i32", "i32, i32", "i32 -2, i32 3", 2},
        {"mulhi.ll", "i64", "i64, i64", "i64 -2, i64 3", UINT64_MAX},
        {"mulhi.ull", "i64", "i64, i64", "i64 -2, i64 3", 2},
    };
    LLVMContextRef context = LLVMContextCreate();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        LLVMValueRef v = result_of(context, rows[i].type, rows[i].parameters,
                                   rows[i].name, rows[i].arguments);
        assert_true(LLVMConstIntGetZExtValue(v) == rows[i].high);
    }
    LLVMContextDispose(context);
}

static void test_conversions(void **state)
{
    (void)state;
    static const struct {
        const char *name, *type, *parameter, *argument;
        double value;
    } rows[] = {
        {"i2d.rn", "double", "i32", "i32 -7", -7},
        {"ui2d.rn", "double", "i32", "i32 -7", 4294967289.0},
        {"ll2d.rn", "double", "i64", "i64 -7", -7},
        {"ull2d.rn", "double", "i64", "i64 -1", 18446744073709551616.0},
        {"i2f.rn", "float", "i32", "i32 16777217", 16777216},
        {"ui2f.rn", "float", "i32", "i32 -1", 4294967296.0},
        {"ll2f.rn", "float", "i64", "i64 -7", -7},
        {"ull2f.rn", "float", "i64", "i64 -1", 18446744073709551616.0},
        {"d2f.rn", "float", "double", "double 0x3FF0000010000000", 1},
    };
    LLVMContextRef context = LLVMContextCreate();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        LLVMBool lost;
        LLVMValueRef v = result_of(context, rows[i].type, rows[i].parameter, rows[i].name,
                                   rows[i].argument);
        assert_true(LLVMConstRealGetDouble(v, &lost) == rows[i].value);
    }
    LLVMContextDispose(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products),
                                       cmocka_unit_test(test_conversions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
