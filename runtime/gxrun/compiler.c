/* libgxc, found when HLO has to be compiled or evaluated. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/gxc.h"
#include "runtime/gxrun/gxrun.h"

/* The functions of gxc.h that gxrun calls. */
#define COMPILER_FUNCTIONS(F)                                                            \
    F(gxc_status, gxc_compile,                                                           \
      (const char *, const void *, size_t, const gxc_options *, gxc_result **))          \
    F(gxc_status, gxc_evaluate,                                                          \
      (const char *, const void *, size_t, const gxc_options *, size_t, size_t,          \
       const gxc_array *, gxc_result **))                                                \
    F(gxc_status, gxc_signature,                                                         \
      (const char *, const void *, size_t, const gxc_options *, gxc_result **))          \
    F(const void *, gxc_result_bytes, (const gxc_result *, size_t *))                    \
    F(const char *, gxc_result_diagnostics, (const gxc_result *))                        \
    F(size_t, gxc_result_output_count, (const gxc_result *))                             \
    F(size_t, gxc_result_parameter_count, (const gxc_result *))                          \
    F(size_t, gxc_result_device_count, (const gxc_result *))                             \
    F(int64_t, gxc_result_partition_count, (const gxc_result *))                         \
    F(gxc_array, gxc_result_output, (const gxc_result *, size_t, size_t))                \
    F(gxc_array, gxc_result_parameter, (const gxc_result *, size_t))                     \
    F(const char *, gxc_result_parameter_name, (const gxc_result *, size_t))             \
    F(const char *, gxc_result_output_name, (const gxc_result *, size_t))                \
    F(void, gxc_result_module_hash, (const gxc_result *, uint8_t *))                     \
    F(void, gxc_result_destroy, (gxc_result *))

typedef struct Compiler {
#define F(Result, name, parameters) Result(*name) parameters;
    COMPILER_FUNCTIONS(F)
#undef F
    bool loaded;
} Compiler;

static void *open_beside(const char *suffix)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    if (n <= 0) {
        return NULL;
    }
    path[n] = 0;
    char *slash = strrchr(path, '/');
    if (!slash) {
        return NULL;
    }
    strcpy(slash, suffix);
    return access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static int load(Compiler *c)
{
    static const char *const names[] = {"/libgxc.so", "/../lib/libgxc.so",
                                        "/libgxc" GXC_SO, "/../lib/libgxc" GXC_SO};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++) {
        library = open_beside(names[i]);
    }
    library = library ? library : dlopen("libgxc" GXC_SO, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return complain(EXIT_WRONG,
                        "libgxc.so was not found (%s): HLO needs the compiler",
                        dlerror());
    }
#define F(Result, name, parameters)                                                      \
    {                                                                                    \
        void *function = dlsym(library, #name);                                          \
        memcpy(&c->name, &function, sizeof function);                                    \
        c->loaded = function != NULL && (c->loaded || #name[4] == 'c');                  \
    }
    COMPILER_FUNCTIONS(F)
#undef F
    return c->loaded ? EXIT_DONE
                     : complain(EXIT_WRONG, "libgxc.so is another version than gxrun");
}

static int code_of(gxc_status status)
{
    switch (status) {
    case GXC_OK:
        return EXIT_DONE;
    case GXC_INVALID:
    case GXC_NO_MEMORY:
        return EXIT_WRONG;
    case GXC_USAGE:
        return EXIT_USAGE;
    case GXC_BUG:
        return EXIT_BUG;
    case GXC_UNSUPPORTED:
        return EXIT_NOT_SUPPORTED;
    }
    return EXIT_BUG;
}

/* Prints the diagnostics and, where the call failed, forgets the result. */
static int finish(const Compiler *c, gxc_status status, gxc_result **result)
{
    if (*result) {
        fputs(c->gxc_result_diagnostics(*result), stderr);
    } else {
        complain(EXIT_WRONG, "the compiler has no memory");
    }
    if (status != GXC_OK) {
        c->gxc_result_destroy(*result);
        *result = NULL;
    }
    return code_of(status);
}

static gxc_options compiler_options(const Options *o)
{
    return (gxc_options){.struct_size = sizeof(gxc_options),
                         .replicas = o->replicas,
                         .partitions = o->partitions,
                         .max_unpacked_bytes = o->most_mib << 20,
                         .colour = isatty(STDERR_FILENO)};
}

static int read_signature(const Compiler *c, const gxc_result *r, Signature *out)
{
    out->parameter_count = c->gxc_result_parameter_count(r);
    out->result_count = c->gxc_result_output_count(r);
    out->parameters = allocate(out->parameter_count, sizeof(Leaf));
    out->results = allocate(out->result_count, sizeof(Leaf));
    out->devices = c->gxc_result_device_count(r);
    if (out->devices == 0) {
        return complain(EXIT_NOT_SUPPORTED,
                        "not supported: the program is for more devices than the "
                        "evaluator has");
    }
    out->partitions = (uint32_t)c->gxc_result_partition_count(r);
    out->replicas = (uint32_t)(out->devices / out->partitions);
    out->has_hash = true;
    c->gxc_result_module_hash(r, out->hash);
    for (size_t i = 0; i < out->parameter_count; i++) {
        gxc_array a = c->gxc_result_parameter(r, i);
        if (!leaf_set(&out->parameters[i], c->gxc_result_parameter_name(r, i), a.dtype,
                      a.rank, a.dims)) {
            return complain(EXIT_NOT_SUPPORTED,
                            "not supported: the type of parameter %zu", i);
        }
    }
    for (size_t i = 0; i < out->result_count; i++) {
        gxc_array a = c->gxc_result_output(r, 0, i);
        if (!leaf_set(&out->results[i], c->gxc_result_output_name(r, i), a.dtype, a.rank,
                      a.dims)) {
            return complain(EXIT_NOT_SUPPORTED, "not supported: the type of result %zu",
                            i);
        }
    }
    return EXIT_DONE;
}

/* The device count of a module that says nothing is --devices; another must agree. */
static int with_devices(const Compiler *c, const Options *o, const char *path,
                        const Bytes *hlo, gxc_options *options, gxc_result **out)
{
    int code = finish(c, c->gxc_signature(path, hlo->data, hlo->size, options, out), out);
    if (code != EXIT_DONE || !o->devices) {
        return code;
    }
    size_t devices = c->gxc_result_device_count(*out);
    if (devices == o->devices) {
        return EXIT_DONE;
    }
    c->gxc_result_destroy(*out);
    *out = NULL;
    if (devices != 1) {
        return complain(EXIT_WRONG, "--devices=%zu: the program is for %zu devices",
                        o->devices, devices);
    }
    options->replicas = (int64_t)o->devices;
    return finish(c, c->gxc_signature(path, hlo->data, hlo->size, options, out), out);
}

int compiler_signature(const Options *o, const char *path, const Bytes *hlo,
                       Signature *out)
{
    Compiler c = {.loaded = false};
    gxc_options options = compiler_options(o);
    gxc_result *result = NULL;
    memset(out, 0, sizeof *out);
    int code = load(&c);
    code = code == EXIT_DONE ? with_devices(&c, o, path, hlo, &options, &result) : code;
    if (code == EXIT_DONE) {
        code = read_signature(&c, result, out);
        c.gxc_result_destroy(result);
    }
    return code;
}

int compiler_compile(const Options *o, const char *path, const Bytes *hlo, Bytes *out)
{
    Compiler c = {.loaded = false};
    gxc_options options = compiler_options(o);
    const char *targets[2] = {"emu", "emu"};
    gxc_result *result = NULL;
    int code = load(&c);
    char target[32] = "emu";
    const char *colon = strchr(o->device, ':');
    if (colon) {
        targets[0] = colon + 1;
    } else if (gxrt_device_target(o->device, target, sizeof target) == GXRT_OK) {
        targets[0] = target;
    }
    options.targets = targets;
    options.target_count = colon ? 2 : 1;
    if (code == EXIT_DONE && o->devices) {
        gxc_result *signature = NULL;
        code = with_devices(&c, o, path, hlo, &options, &signature);
        if (code == EXIT_DONE) {
            c.gxc_result_destroy(signature);
        }
    }
    if (code == EXIT_DONE) {
        code = finish(&c, c.gxc_compile(path, hlo->data, hlo->size, &options, &result),
                      &result);
    }
    if (code == EXIT_DONE) {
        const void *bytes = c.gxc_result_bytes(result, &out->size);
        out->data = allocate(out->size, 1);
        memcpy(out->data, bytes, out->size);
        c.gxc_result_destroy(result);
    }
    return code;
}

/* The outputs of a result, each as large as the signature says. */
static int take_outputs(const Compiler *c, const gxc_result *result, const Signature *s,
                        void **outputs)
{
    for (size_t d = 0; d < s->devices; d++) {
        for (size_t i = 0; i < s->result_count; i++) {
            const Leaf *leaf = &s->results[i];
            gxc_array a = c->gxc_result_output(result, s->first + d, i);
            if (a.bytes != leaf->bytes || !a.data ||
                strcmp(a.dtype, dtype_info[leaf->dtype].name) != 0) {
                return complain(EXIT_WRONG,
                                "the HLO gives another result %zu than the program", i);
            }
            void *to = allocate(leaf->bytes, 1);
            memcpy(to, a.data, leaf->bytes);
            outputs[d * s->result_count + i] = to;
        }
    }
    return EXIT_DONE;
}

int compiler_evaluate(const Options *o, const char *path, const Bytes *hlo,
                      const Signature *s, uint32_t rounding, void *const *inputs,
                      void **outputs)
{
    Compiler c = {.loaded = false};
    gxc_options options = compiler_options(o);
    options.replicas = s->replicas;
    options.partitions = s->partitions;
    options.rounding = rounding;
    options.rounding_tf32 = s->has_tf32;
    if (s->devices != (size_t)s->replicas * s->partitions) {
        return complain(EXIT_WRONG,
                        "the reference evaluator runs all devices in one process: "
                        "leave out --rank and --world");
    }
    size_t count = s->devices * s->parameter_count;
    gxc_array *arrays = allocate(count, sizeof *arrays);
    for (size_t i = 0; i < count; i++) {
        const Leaf *leaf = &s->parameters[i % s->parameter_count];
        arrays[i] = (gxc_array){dtype_info[leaf->dtype].name, leaf->rank, leaf->dims,
                                inputs[i], leaf->bytes};
    }
    gxc_result *result = NULL;
    int code = load(&c);
    if (code == EXIT_DONE) {
        gxc_status status =
            c.gxc_evaluate(path, hlo->data, hlo->size, &options, s->devices,
                           s->parameter_count, arrays, &result);
        code = rounding ? code_of(status) : finish(&c, status, &result);
    }
    if (code == EXIT_DONE) {
        code = take_outputs(&c, result, s, outputs);
    }
    if (c.loaded) {
        c.gxc_result_destroy(result);
    }
    free(arrays);
    return code;
}
