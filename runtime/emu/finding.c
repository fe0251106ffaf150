/* See finding.h. */
#include "runtime/emu/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void finding_set(Finding *f, FindingKind kind, const char *format, ...)
{
    if (f->kind != FINDING_NONE)
        return;
    f->kind = kind;
    va_list args;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
}

void finding_add(Finding *f, const char *format, ...)
{
    size_t used = strlen(f->text);
    va_list args;
    va_start(args, format);
    vsnprintf(f->text + used, sizeof f->text - used, format, args);
    va_end(args);
}
