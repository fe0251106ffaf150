/* The parts of gxrun. Arrays on the host are row-major in storage form (ir/number/number.h), one for
 * each device and leaf: array[device x count + leaf]. */
#ifndef GXC_RUNTIME_GXRUN_GXRUN_H
#define GXC_RUNTIME_GXRUN_GXRUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/number/number.h"
#include "runtime/gxrt.h"

enum {
    EXIT_DONE = 0,
    EXIT_WRONG = 1,
    EXIT_USAGE = 2,
    EXIT_BUG = 3,
    EXIT_NOT_SUPPORTED = 4
};

/* An argument of --input, --output or --compare. */
typedef struct Source {
    const char *name; /* parameter name, or NULL: by order */
    const char *file; /* NULL: random */
    uint64_t seed;
    bool has_seed;
} Source;

/* How something is printed. */
typedef enum { FORM_NONE, FORM_TEXT, FORM_JSON } Form;

typedef struct Options {
    const char *program; /* file of the cubin or the HLO; "-": standard input */
    const char *device;  /* auto cuda emu emu:TARGET ref */
    size_t devices;      /* 0: not given, as the next two */
    uint32_t replicas, partitions;
    bool has_rank;
    uint32_t timeout; /* seconds; 0: libgxrt's */
    uint32_t rank, world;
    Source *inputs;
    size_t input_count;
    Source *outputs;
    size_t output_count;
    const char *all_outputs; /* a folder, .npz or .safetensors for all results; NULL */
    const char *manifest;
    Source *compare; /* files */
    size_t compare_count;
    bool compare_ref;
    const char *hlo;
    size_t most_mib; /* of HLO; 0: not given */
    size_t most_devices;
    size_t most_memory;    /* MiB, of an emulated program; 0: what the machine has */
    uint32_t most_seconds; /* of a run; 0: any number */
    bool has_rtol, has_atol;
    double rtol, atol;
    bool graphs;
    uint32_t runs; /* 0: one */
    const char *profile;
    const char *tune;         /* the tuning file; NULL: nothing is measured for it */
    Form info, memory, bench; /* NONE: not asked for */
    bool quiet;
    bool no_sandbox;
    const char *of_emulator; /* a given option that only the emulator knows, or NULL */
} Options;

/* Reads the command line; ends the process for --help, --version and wrong usage. */
void options_parse(Options *o, int argc, char **argv);
void options_free(Options *o);

/* One parameter or result. */
typedef struct Leaf {
    char *name;
    char *path; /* JAX's key path, from a manifest, or NULL */
    DType dtype;
    uint32_t rank;
    int64_t *dims;
    size_t elements;
    size_t bytes; /* in storage form */
} Leaf;

typedef struct Signature {
    Leaf *parameters;
    size_t parameter_count;
    Leaf *results;
    size_t result_count;
    uint32_t first;                /* number of this process's first device */
    size_t devices;                /* of this process */
    uint32_t replicas, partitions; /* of the program as it is run */
    bool has_tf32;                 /* products lose bits of their factors */
    bool has_hash;
    uint8_t hash[16]; /* of the module */
} Signature;

bool leaf_set(Leaf *leaf, const char *name, const char *dtype, uint32_t rank,
              const int64_t *dims);
/* Its key path where it is known, else its name. */
const char *leaf_label(const Leaf *leaf);

/* A run of bytes: a file, or what the compiler made. */
typedef struct Bytes {
    void *data; /* freed with free() */
    size_t size;
} Bytes;

/* Prints "gxrun: error: ..." and returns `code`. */
int complain(int code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
void *allocate(size_t count, size_t size); /* zeroed; ends the process without memory */
char *text_copy(const char *text);         /* likewise; to be freed */
void free_arrays(void **arrays, size_t count);

/* --- compiler.c: libgxc, loaded when it is needed. All return an exit code. */
int compiler_compile(const Options *o, const char *path, const Bytes *hlo, Bytes *out);
int compiler_signature(const Options *o, const char *path, const Bytes *hlo,
                       Signature *out);
/* `rounding` as in gxc_options; where it is not 0, a failure is not reported: devices may part
 * where a condition hangs on rounding. */
int compiler_evaluate(const Options *o, const char *path, const Bytes *hlo,
                      const Signature *s, uint32_t rounding, void *const *inputs,
                      void **outputs);

/* --- device.c: libgxrt. */
int device_signature(const Options *o, const gxrt_program *program, Signature *out);
/* Whether an emulated program's parameters and results fit into what --max-memory allows, before any is made. */
int device_check_memory(const Options *o, const Signature *s);
int device_run(const Options *o, const gxrt_program *program, const Signature *s,
               void *const *inputs, void **outputs);

/* --- info.c, memory.c: describe a program instead of running it */
int info_print(const Options *o, const gxrt_program *program);
int memory_print(const Options *o, const gxrt_program *program);

/* --- manifest.c */
/* Reads --manifest, where it is given: the key paths of parameters and results. */
int manifest_read(const Options *o, Signature *s);

/* --- data.c */
/* Fills inputs from files and random numbers. An input may lie in one of the files, which must stay open, or is freed
 * by `owned`. */
struct FileSet;
int data_inputs(const Options *o, const Signature *s, struct FileSet *files,
                void **inputs, void **owned);
int compare_files(const Options *o, const Signature *s, void *const *outputs);

/* --- outputs.c */
/* Before the run: there are so many results, each device has a file of its own, and none replaces another or what is run;
 * a profile and what is tuned count as results. */
int data_check_outputs(const Options *o, const Signature *s);
int data_outputs(const Options *o, const Signature *s, void *const *outputs);
/* What each result is called in files: the words of its key path, or its index in the tuple. Freed by free_arrays(). */
char **output_names(const Signature *s);

/* --- data.c */
/* Whether an array on the host is as the device has it: row-major, nothing packed. */
bool data_is_device_form(const Leaf *leaf, const int64_t *minor_to_major);
/* Row-major storage form to the dense device form of this layout, packed, and back. */
void data_to_device(const Leaf *leaf, const int64_t *minor_to_major, const void *from,
                    void *to);
void data_from_device(const Leaf *leaf, const int64_t *minor_to_major, const void *from,
                      void *to);

/* --- compare.c */
void compare_summary(const Options *o, const Signature *s, void *const *outputs);
/* How far each element of the results moves when the reference is rounded otherwise, by device and
 * result: doubles, of complex numbers moduli. Zeroed; grows with each other result of the reference. */
double **compare_moves(const Signature *s);
void compare_add_moves(const Signature *s, double **moves, void *const *wanted,
                       void *const *other);
/* Whether all results are within their tolerance, widened by `moves` (NULL: not). With `prints`
 * the worst difference of each is printed. */
bool compare_results(const Options *o, const Signature *s, void *const *outputs,
                     void *const *wanted, double *const *moves, bool prints);

#endif
