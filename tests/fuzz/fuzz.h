/* Fuzzing: each file is one libFuzzer target, built and run by `make fuzz`. What a target feeds
 * must never crash, leak, hang or read what it may not; a broken promise ends in abort(). */
#ifndef GXC_TESTS_FUZZ_H
#define GXC_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a target does with one input; watch.c calls it. */
void fuzz_input(const uint8_t *data, size_t size);

/* For a target whose inputs take longer than others': seconds of processor time from here on. */
void fuzz_allow(unsigned seconds);

/* "this must not be: ..." */
#define PROMISE(holds, ...)                                                              \
    do {                                                                                 \
        if (!(holds)) {                                                                  \
            fprintf(stderr, "this must not be: " __VA_ARGS__);                           \
            fputc('\n', stderr);                                                         \
            abort();                                                                     \
        }                                                                                \
    } while (0)

#endif
