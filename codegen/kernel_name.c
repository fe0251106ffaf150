/* Names of kernels: symbols in PTX and in the emulator's object. */
#include <string.h>

#include "codegen/request.h"

/* Names that PTX has, or that an emulated kernel calls. */
static bool is_taken(const char *name)
{
    static const char *const taken[] = {
        "_",
        "WARP_SZ",
#define EMU_FUNCTION(function, result, parameters) #function,
#define EMU_LIBRARY(function) #function,
#include "runtime/emu/abi.def"
    };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(name, taken[i]) == 0)
            return true;
    return false;
}

char *kernel_name(Arena *a, const char *text)
{
    char *name = arena_text(a, text, strlen(text));
    for (char *p = name; *p; p++) {
        bool is_letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        bool is_digit = *p >= '0' && *p <= '9' && p > name;
        if (!is_letter && !is_digit)
            *p = '_';
    }
    return is_taken(name) ? arena_printf(a, "kernel_%s", name) : name;
}
