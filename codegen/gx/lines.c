/* See lines.h. The line table is LLVM's debug information of the kind that only makes directives: PTX without it and
 * with it has the same instructions. */
#include "codegen/gx/lines.h"

#include <llvm-c/DebugInfo.h>
#include <string.h>

/* DICompileUnit::DebugDirectivesOnly, which the C interface passes on without a name for it. */
#define DIRECTIVES_ONLY ((LLVMDWARFEmissionKind)3)

const SourceLines *source_lines(Arena *a, const Diag *d)
{
    SourceLines *lines = ARENA_NEW(a, SourceLines);
    size_t count = 1;
    for (size_t i = 0; i < d->length; i++)
        count += d->text[i] == '\n';
    size_t *starts = ARENA_ARRAY(a, size_t, count);
    count = 1;
    for (size_t i = 0; i < d->length; i++) {
        if (d->text[i] == '\n')
            starts[count++] = i + 1;
    }
    char *file = arena_text(a, d->file, strlen(d->file));
    for (char *p = file; (p = strchr(p, '"')) != NULL;)
        *p = '\''; /* ptxas ends the name there, escaped or not */
    *lines = (SourceLines){.file = file, .starts = starts, .count = count};
    return lines;
}

uint32_t source_line(const SourceLines *lines, Span span)
{
    size_t low = 0, high = lines->count;
    if (span.end == 0)
        return 0;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (lines->starts[middle] <= span.begin)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low + 1;
}

void kernel_set_lines(Kernel *k, const SourceLines *lines, Span span)
{
    if (lines == NULL)
        return;
    static const char version[] = "Debug Info Version", producer[] = "gxc";
    LLVMMetadataRef number = LLVMValueAsMetadata(
        LLVMConstInt(LLVMInt32TypeInContext(k->context), LLVMDebugMetadataVersion(), 0));
    if (LLVMGetModuleFlag(k->module, version, sizeof version - 1) == NULL)
        LLVMAddModuleFlag(k->module, LLVMModuleFlagBehaviorWarning, version,
                          sizeof version - 1, number);
    LLVMDIBuilderRef b = LLVMCreateDIBuilder(k->module);
    LLVMMetadataRef file =
        LLVMDIBuilderCreateFile(b, lines->file, strlen(lines->file), "", 0);
    LLVMDIBuilderCreateCompileUnit(b, LLVMDWARFSourceLanguageC, file, producer,
                                   sizeof producer - 1, 1, "", 0, 0, "", 0,
                                   DIRECTIVES_ONLY, 0, 0, 0, "", 0, "", 0);
    LLVMMetadataRef type =
        LLVMDIBuilderCreateSubroutineType(b, file, NULL, 0, LLVMDIFlagZero);
    unsigned line = source_line(lines, span);
    size_t length = strlen(k->name);
    k->lines = lines;
    k->scope =
        LLVMDIBuilderCreateFunction(b, file, k->name, length, k->name, length, file, line,
                                    type, 0, 1, line, LLVMDIFlagZero, 1);
    LLVMSetSubprogram(k->function, k->scope);
    LLVMDIBuilderFinalize(b);
    LLVMDisposeDIBuilder(b);
    LLVMSetCurrentDebugLocation2(k->builder, LLVMDIBuilderCreateDebugLocation(
                                                 k->context, line, 0, k->scope, NULL));
}

LLVMMetadataRef gx_go_to(Kernel *k, Span span)
{
    if (k->lines == NULL)
        return NULL;
    LLVMMetadataRef before = LLVMGetCurrentDebugLocation2(k->builder);
    uint32_t line = source_line(k->lines, span);
    if (line != 0)
        LLVMSetCurrentDebugLocation2(
            k->builder,
            LLVMDIBuilderCreateDebugLocation(k->context, line, 0, k->scope, NULL));
    return before;
}

void gx_return_to(Kernel *k, LLVMMetadataRef location)
{
    if (k->lines != NULL)
        LLVMSetCurrentDebugLocation2(k->builder, location);
}
