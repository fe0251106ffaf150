/* The rows of gx.def. */
#ifndef GXC_CODEGEN_GX_ROW_H
#define GXC_CODEGEN_GX_ROW_H

#include <stdint.h>

#include "ir/analysis/target.h"

typedef enum {
#define GX(id, ...) ROW_##id,
#include "codegen/gx/gx.def"
    ROW_COUNT
} GxRow;

enum { GX_CONVERGENT = 1, GX_NEEDS_FIBRE = 2, GX_OPTIONAL = 4 };

typedef struct GxInfo {
    const char *name, *signature;
    uint32_t features, flags;
} GxInfo;

extern const GxInfo gx_info[ROW_COUNT];

#endif
