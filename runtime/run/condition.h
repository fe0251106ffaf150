/* The kernel that sets the condition of a graph's node, for every GPU: the driver assembles it. */
#ifndef GXC_RUNTIME_RUN_CONDITION_H
#define GXC_RUNTIME_RUN_CONDITION_H

#define CONDITION_KERNEL "gxrt_condition"

/* (handle, selector, bytes, branch, branches): the condition is whether the number at `selector`
 * chooses `branch`. 1 byte: true is branch 0, false branch 1. 4 bytes: s32; out of range is the
 * last branch, and a negative number read as unsigned is out of range. */
static const char condition_ptx[] =
    ".version 7.5\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
    ".visible .entry " CONDITION_KERNEL "(.param .u64 handle, .param .u64 selector,\n"
    "    .param .u32 bytes, .param .u32 branch, .param .u32 branches)\n"
    "{\n"
    "    .reg .b64 %handle, %selector;\n"
    "    .reg .b32 %bytes, %branch, %branches, %number, %last, %value;\n"
    "    .reg .pred %is_word, %is_zero, %is_chosen;\n"
    "    ld.param.u64 %handle, [handle];\n"
    "    ld.param.u64 %selector, [selector];\n"
    "    ld.param.u32 %bytes, [bytes];\n"
    "    ld.param.u32 %branch, [branch];\n"
    "    ld.param.u32 %branches, [branches];\n"
    "    setp.ne.u32 %is_word, %bytes, 1;\n"
    "    @%is_word bra WORD;\n"
    "    ld.global.u8 %number, [%selector];\n"
    "    setp.eq.u32 %is_zero, %number, 0;\n"
    "    selp.u32 %number, 1, 0, %is_zero;\n"
    "    bra SET;\n"
    "WORD:\n"
    "    ld.global.u32 %number, [%selector];\n"
    "    sub.u32 %last, %branches, 1;\n"
    "    min.u32 %number, %number, %last;\n"
    "SET:\n"
    "    setp.eq.u32 %is_chosen, %number, %branch;\n"
    "    selp.u32 %value, 1, 0, %is_chosen;\n"
    "    {\n"
    "        .param .b64 p0;\n"
    "        .param .b32 p1;\n"
    "        st.param.b64 [p0], %handle;\n"
    "        st.param.b32 [p1], %value;\n"
    "        call.uni cudaGraphSetConditional, (p0, p1);\n"
    "    }\n"
    "    ret;\n"
    "}\n";

#endif
