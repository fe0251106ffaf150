/* Which line of the input the code of a kernel is of: .file and .loc in PTX, for profilers and compute-sanitizer. */
#ifndef GXC_CODEGEN_GX_LINES_H
#define GXC_CODEGEN_GX_LINES_H

#include "codegen/gx/gx.h"
#include "ir/base/diag.h"

/* Where the lines of a text begin. */
typedef struct SourceLines {
    const char *file;
    const size_t *starts; /* [count] */
    size_t count;
} SourceLines;

/* Of the input as it was read; a HloModuleProto was made text. */
const SourceLines *source_lines(Arena *a, const Diag *d);
/* From 1; 0: the span has no line. */
uint32_t source_line(const SourceLines *lines, Span span);

/* Before any code: the kernel is said to be of this file, its code of this span until another is named. */
void kernel_set_lines(Kernel *k, const SourceLines *lines, Span span);
/* What is written now is of `span`; gives the location before, for gx_return_to. Both do nothing in a kernel without
 * lines. */
LLVMMetadataRef gx_go_to(Kernel *k, Span span);
void gx_return_to(Kernel *k, LLVMMetadataRef location);

#endif
