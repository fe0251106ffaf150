/* Kinds and configurations of kernels that come from a file beside the program: the tuning file. It is read by
 * frontend/tuning.c; here is how a fusion is named in it, whatever program it stands in, and whatever kind of
 * kernel it became there. */
#ifndef GXC_IR_KERNEL_TUNING_H
#define GXC_IR_KERNEL_TUNING_H

#include "ir/attribute/config.h"
#include "ir/kernel/kind.h"

/* What a configuration means: another number, and what was measured says nothing any more. */
#define TUNING_VERSION "v1"

enum { TUNING_ALGORITHM_BYTES = 64 };

/* Of a matrix product by cuBLASLt: what its version and no other understands. */
typedef struct TuningAlgorithm {
    uint32_t version;
    uint64_t workspace_bytes;
    uint8_t bytes[TUNING_ALGORITHM_BYTES];
} TuningAlgorithm;

/* Of a graph by cuDNN: a number that its version and no other understands. */
typedef struct TuningConfiguration {
    uint32_t version, number;
} TuningConfiguration;

typedef struct TuningEntry {
    const char *key;
    uint32_t number;                          /* in the file, from 1 */
    KernelKind kind;                          /* KERNEL_COUNT: a library makes it */
    const Config *config;                     /* of a kernel, a text {"config":{...}} */
    const TuningAlgorithm *algorithm;         /* of a product, or NULL */
    const TuningConfiguration *configuration; /* of a graph, or NULL */
} TuningEntry;

typedef struct Tuning {
    const char *file; /* as it was named, for messages */
    uint8_t hash[16]; /* of the file's bytes */
    size_t count;
    TuningEntry *entries; /* by key, each once, once tuning_sort was called */
    size_t stale;         /* entries of another version, which are not among them */
    bool is_complete;     /* a kernel that it does not know is an error */
} Tuning;

/* "h100/v1/0123456789abcdef0123456789abcdef": device, version, hash of the canonical text of the fused computation. */
const char *kernel_tuning_key(Arena *a, const Instruction *fusion, const Target *t);
/* The same of what describes a library's call. */
const char *tuning_key(Arena *a, const void *bytes, size_t size, const Target *t);
/* NULL, or what is wrong with a key; *is_stale: it is good, and of another version. */
const char *tuning_key_wrong(Arena *a, const char *key, bool *is_stale);

/* NULL, or the second one of two entries with one key. */
const TuningEntry *tuning_sort(Tuning *t);
/* NULL: there is none. A tuning NULL has none. */
const TuningEntry *tuning_find(const Tuning *t, const char *key);

#endif
