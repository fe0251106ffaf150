/* The HLO modules of the tests, each with what its RUN lines tell gxc: the file programs/modules.txt beside the
 * target, which tests/fuzz/modules.py writes. */
#ifndef GXC_TESTS_FUZZ_MODULES_H
#define GXC_TESTS_FUZZ_MODULES_H

#include <stddef.h>
#include <stdint.h>

enum { MODULE_RUNS_MOST = 24 };

typedef struct TestModule {
    uint32_t key;
    const char *name; /* up to the end of the line */
    const char *text; /* not terminated */
    size_t size;
    const char *runs[MODULE_RUNS_MOST]; /* options, up to the end of the line */
    size_t run_count;
} TestModule;

/* The module with the key, or with the next one that there is. */
const TestModule *module_find(uint32_t key);

#endif
