/* Configurations of kernels that come from a file beside the program: the tuning file. It is read by
 * frontend/tuning.c; here is how a kernel is named in it, whatever program it stands in. */
#ifndef GXC_IR_KERNEL_TUNING_H
#define GXC_IR_KERNEL_TUNING_H

#include "ir/config.h"
#include "ir/kernel/kind.h"

typedef struct TuningEntry {
    const char *key;
    uint32_t number;      /* in the file, from 1 */
    const Config *config; /* of a text {"config":{...}} */
} TuningEntry;

typedef struct Tuning {
    const char *file; /* as it was named, for messages */
    uint8_t hash[16]; /* of the file's bytes */
    size_t count;
    TuningEntry *entries; /* by key, each once, once tuning_sort was called */
} Tuning;

/* "h100/row_reduction/0123456789abcdef0123456789abcdef": device, kind of kernel, hash of the canonical text of the
 * fused computation. */
const char *kernel_tuning_key(Arena *a, const Instruction *fusion, const Target *t);
/* NULL, or what is wrong with a key; *kind is the kind in a good one. */
const char *tuning_key_wrong(Arena *a, const char *key, KernelKind *kind);

/* NULL, or the second one of two entries with one key. */
const TuningEntry *tuning_sort(Tuning *t);
/* NULL: there is none. A tuning NULL has none. */
const TuningEntry *tuning_find(const Tuning *t, const char *key);

#endif
