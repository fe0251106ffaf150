/* libgxc: the compiler as a library. HLO text or proto in; artefact bytes, text or
 * diagnostics out.
 *
 * Thread rule: every function may be called from any thread at any time; a gxc_result must
 * not be used by two threads at once. The process must not ignore SIGCHLD, nor wait for just any
 * child: the end of ptxas would be lost to gxc. No call ever ends the process or prints: what went
 * wrong - the user's mistake, a bug of the compiler, no memory, a fatal error inside LLVM -
 * comes back as a status with text. Strings that a result hands out live as long as it does.
 *
 * Any pointer may be NULL: where something is needed it is GXC_USAGE (without a text if it is
 * `out`), a result that is NULL has nothing in it, and a name that is NULL is "input". Of
 * gxc_evaluate inputs that are NULL, or do not fit the program, are GXC_INVALID.
 *
 * Arrays that cross this interface are logical and row-major whatever the layouts in the
 * program, in one storage unit per element: pred, 8-bit and narrower types one byte (narrow
 * ones sign- or zero-extended), bf16 and f16 two bytes of raw bits, complex real then
 * imaginary. These are the contents of the .npy files of gxrun. */
#ifndef GXC_H
#define GXC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GXC_API __attribute__((visibility("default")))
#else
#define GXC_API
#endif

#define GXC_VERSION "0.1.0"

/* Also the exit codes of the program gxc, which ends with 1 for GXC_NO_MEMORY. */
typedef enum gxc_status {
    GXC_OK = 0,
    GXC_INVALID = 1,     /* the input is wrong: show the diagnostics, mend the input */
    GXC_USAGE = 2,       /* an option is wrong: show the diagnostics */
    GXC_BUG = 3,         /* the compiler is wrong: report it with the replay file */
    GXC_UNSUPPORTED = 4, /* the input is right, the compiler cannot do it yet */
    GXC_NO_MEMORY = 5, /* the system has no memory, or no process or file: try again; what
                            LLVM held may be lost to this process */
} gxc_status;

/* Zero means the default in every other field; struct_size must be sizeof(gxc_options). */
typedef struct gxc_options {
    size_t struct_size;
    const char *const
        *targets; /* names of `gxc --list-targets`, and "emu"; default sm_90a, emu */
    size_t target_count;
    int opt_level; /* 0, 1 or 2; use opt_level_set to ask for 0 */
    int opt_level_set;
    const char *
        emit; /* of the first target, but for "candidates". NULL the artefact; "hlo" "pb" "dot" "html" "tile" "llvm" "ptx" "cubin" "tileir" "plan" "tuning"
              "candidates" */
    const char *print;            /* form of hlo: NULL or "default", "long", "short" */
    int verify_only;              /* parse and verify, make nothing */
    int64_t replicas, partitions; /* replace the header's where not 0 */
    int jobs; /* threads; 0: one a processor. Never changes the bytes */
    const char
        *passes;      /* comma-separated: only these; "none"; NULL the level's pipeline */
    const char *skip; /* comma-separated: without these */
    const char *print_after; /* a pass, or "all": its result goes to the diagnostics */
    const char *dump_dir;    /* the module after each pass that changes it: a file here */
    /* "all" (default), "none", or a list of cublaslt, cudnn, cusolver */
    const char *libraries;
    const char
        *tiles; /* "auto" (default), "gx", "tileir", "none": products on tensor cores */
    const char *assembler;       /* NULL: what is there; "nvjitlink" or "ptxas" */
    const char *cuda;            /* folder of a CUDA toolkit or of its wheels */
    const char *cache_dir;       /* keep compiled kernels there; NULL: no cache */
    int embed_hlo;               /* put the text into the artefact */
    int fp_contract_off;         /* never fuse a * b + c */
    const char *const *settings; /* "name=value": the switches and thresholds of passes */
    size_t setting_count;
    const char
        *replay_dir; /* where a bug's replay file goes; NULL: the working directory */
    int timing;      /* time by stage goes to the diagnostics */
    int colour;      /* diagnostics with terminal colours */
    /* Called before each stage and pass, and when a kernel is made (`done` of `of`), by the calling thread
     * or one of gxc's own, never by two at once; `of` 0: how many are not known. */
    void (*progress)(void *user, const char *stage, size_t done, size_t of);
    void *progress_user;
    int lint;   /* check after each pass that it kept what it must, and verify */
    int report; /* gxc_result_report says how long kernels take, by the model of time */
    /* gxc_evaluate: not 0: values are rounded at random, by this seed. Where results of two seeds
     * differ they depend on rounding, and that far no other order of computing can be wrong. */
    uint32_t rounding;
    int rounding_tf32;    /* and products of f32 lose bits to TF32 */
    const char *f32_dots; /* "tf32" (default): products of f32 may lose bits; "f32" */
    const char *module;   /* of a text of several modules, this one */
    const char
        *tuning; /* file of configurations of kernels, as emit "tuning" writes it */
    int require_tuning; /* 1: a kernel that the file does not know is an error */
    int line_info;      /* 1: kernels name the lines of the input that their code is of */
    /* 1: the artefact also has what the driver's compiler makes code of for GPUs newer than a target, which must
     * be one without a suffix: PTX; embed_tileir: bytecode of CUDA Tile IR, too, and PTX */
    int embed_ptx, embed_tileir;
    /* Most processor time that a call of ptxas or another of CUDA's programs may take; 0: 600 s. Kernels at which ptxas
     * does not end within it are assembled at -O1, with a warning. */
    uint32_t max_assembler_seconds;
    size_t max_unpacked_bytes; /* of an input that is compressed; 0: 4 GiB */
} gxc_options;

typedef struct gxc_array {
    const char *dtype; /* HLO's name: "f32", "bf16", "s4", "pred" */
    uint32_t rank;
    const int64_t *dims;
    const void *data;
    size_t bytes; /* of data */
} gxc_array;

typedef struct gxc_result gxc_result;

/* Compiles `size` bytes of HLO text, HloModuleProto or StableHLO (text or bytecode, also as jax.export
 * writes it), compressed with gzip or not. `name` is the input's name in
 * diagnostics; NULL options are the defaults. *out is always set (destroy it), except to
 * NULL when there is no memory for it (GXC_NO_MEMORY). */
GXC_API gxc_status gxc_compile(const char *name, const void *input, size_t size,
                               const gxc_options *options, gxc_result **out);

/* Runs the program on the reference evaluator. inputs[device * parameter_count + p] is
 * parameter leaf p (tuples flattened) of device replica * partitions + partition;
 * device_count must be replicas * partitions of the program (after options). */
GXC_API gxc_status gxc_evaluate(const char *name, const void *input, size_t size,
                                const gxc_options *options, size_t device_count,
                                size_t parameter_count, const gxc_array *inputs,
                                gxc_result **out);

/* The path of the file that is to be compiled of a folder that --xla_dump_to filled, of its module of this
 * name (NULL: it has one); the caller frees it with gxc_free. NULL: *message, freed likewise, says why. */
GXC_API char *gxc_folder_program(const char *folder, const char *module, char **message);

/* The signature only: parameters and results as arrays without data, for gxrun. */
GXC_API gxc_status gxc_signature(const char *name, const void *input, size_t size,
                                 const gxc_options *options, gxc_result **out);

/* What the call made: artefact or text; NULL and 0 if nothing. */
GXC_API const void *gxc_result_bytes(const gxc_result *r, size_t *size);
/* Warnings and errors as text, "" if none. */
GXC_API const char *gxc_result_diagnostics(const gxc_result *r);
/* gxc --report: "text" or "json"; NULL for another form. "" unless something was compiled; how long kernels take
 * only with the option `report`. */
GXC_API const char *gxc_result_report(const gxc_result *r, const char *form);
/* Number of leaves of the result (of parameters) of the program, and of devices. */
GXC_API size_t gxc_result_output_count(const gxc_result *r);
GXC_API size_t gxc_result_parameter_count(const gxc_result *r);
GXC_API size_t gxc_result_device_count(const gxc_result *r);
GXC_API int64_t gxc_result_partition_count(const gxc_result *r);
/* Leaf i of device d; data is NULL after gxc_signature. */
GXC_API gxc_array gxc_result_output(const gxc_result *r, size_t device, size_t i);
/* Shape of parameter leaf i; data is NULL. */
GXC_API gxc_array gxc_result_parameter(const gxc_result *r, size_t i);
/* Its name in the program, of a leaf of a tuple with its position: "x", "state.0". Outputs have their position, "0" or
 * "1.2". NULL if there is no such leaf. */
GXC_API const char *gxc_result_parameter_name(const gxc_result *r, size_t i);
GXC_API const char *gxc_result_output_name(const gxc_result *r, size_t i);
/* XXH3-128 of the canonical text of the input module, as an artefact records it. */
GXC_API void gxc_result_module_hash(const gxc_result *r, uint8_t out[16]);
GXC_API void gxc_result_destroy(gxc_result *r); /* NULL is fine */

/* Lists as text, one a line: "passes" "ops" "targets" "unsupported" "settings" "version"; with
 * ".json" behind the word as a JSON array of objects with name, text and what else is known.
 * Constant memory, or NULL for another word. */
GXC_API const char *gxc_list(const char *what);
/* What the op table says of an opcode, with an example that compiles; the caller frees it
 * with gxc_free. NULL if there is no such opcode. */
GXC_API char *gxc_explain(const char *opcode);
GXC_API void gxc_free(void *p);

#ifdef __cplusplus
}
#endif

#endif
