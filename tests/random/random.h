/* Random testing: modules made from a seed, checked in every way that must agree, shrunk when
 * they do not. See main.c. */
#ifndef GXC_TESTS_RANDOM_H
#define GXC_TESTS_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/base/arena.h"
#include "ir/number/number.h"

/* splitmix64 (Steele, Lea, Flood 2014) */
typedef struct Random {
    uint64_t state;
} Random;

uint64_t random_bits(Random *r);
int64_t random_below(Random *r, int64_t n); /* 0 .. n - 1 */
bool random_chance(Random *r, int percent);

/* Text of a valid module, the same for the same seed; to be freed. Parameters whose name
 * is "sp" and a number are to be fed any bit pattern, all others small values (check.c). */
char *generate(uint64_t seed);

/* Only what XLA:CPU has, too, and defines in the same way: for make check-xla. */
extern bool generate_plain;
/* Products of matrices with what stands around them. Such a module is known by its name: it is compiled for tensor
 * cores wherever it may be (check.c). */
extern bool generate_products;
#define PRODUCTS_NAME "products_"

/* The text of a scheduled module in which kernels have other configurations, as far as they may on the target (NULL:
 * sm_90a); NULL: the text cannot be read. */
const char *change_kernels(Arena *a, const char *text, const char *target, uint64_t seed);

typedef enum {
    VERDICT_GOOD,
    VERDICT_UNSUPPORTED, /* gxc says so */
    VERDICT_INVALID,     /* refused by parser or verifier: the generator is wrong */
    VERDICT_FORM,        /* print and parse do not agree */
    VERDICT_PASS,        /* a pass changed what the module computes, or broke it */
    VERDICT_BUG,         /* the compiler says that it is broken */
    VERDICT_RUN,         /* the emulator refuses the artefact */
    VERDICT_DIFFERENT,   /* the emulator computes something else */
    VERDICT_DEAD,        /* the process died or took too long */
    VERDICT_COUNT
} Verdict;

extern const char *random_emulator_folder; /* where libgxemu lies */
extern const char *const verdict_names[VERDICT_COUNT];

/* How a module is checked. NULL and 0 are the defaults. */
typedef struct CheckOptions {
    uint64_t data;      /* seeds arguments, settings, configurations */
    int level;          /* of optimisation */
    const char *skip;   /* passes that are left out, as --skip */
    const char *target; /* that is assembled; NULL: sm_90a's kernels, which are not */
    const char *tiles, *libraries; /* as the options of gxc */
    int64_t replicas, partitions;  /* instead of the module's */
    const char *const *settings;   /* "name=value", besides those that `data` chooses */
    size_t setting_count;
    uint64_t
        most_work; /* of one evaluation, roughly in elements; more is unsupported; 0: any */
    bool
        allows_rounding; /* a result may differ that rounding moves, as the evaluator shows */
} CheckOptions;

/* Checks one module. message: what was found, [size]. */
Verdict check_module_as(const char *text, const CheckOptions *options, char *message,
                        size_t size);
/* With data and an optimisation level only. */
Verdict check_module(const char *text, uint64_t data, int level, char *message,
                     size_t size);

/* check_module in a process of its own, ended after `seconds` of processor time. */
Verdict check_apart(const char *text, uint64_t data, int level, int seconds,
                    char *message, size_t size);

/* A smaller module with the same verdict and the same start of the message; to be freed. */
char *reduce_module(const char *text, uint64_t data, int level, Verdict verdict,
                    const char *message);

#endif
