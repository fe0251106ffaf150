#ifndef GXC_TESTS_FUZZ_FOLDER_H
#define GXC_TESTS_FUZZ_FOLDER_H

/* Where this program lies; beside it are libgxemu and `programs`, what tests/fuzz/inputs were compiled to. */
const char *fuzz_folder(void);

#endif
