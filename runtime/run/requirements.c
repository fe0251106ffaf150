/* Whether a session may and can run its variant, before it has devices: machine code is allowed, all parts are there
 * and undamaged, and so are the libraries. */
#include <stdlib.h>
#include <string.h>

#include "runtime/run/session.h"

/* The emulator's kernels are code of this CPU: nothing keeps them from what the process may do. */
static gxrt_status check_native(const gxrt_session *s)
{
    if (!s->cuda->emulated || s->plan->kernels_count == 0 || s->options.allow_native) {
        return GXRT_OK;
    }
    return status_set(
        GXRT_INVALID_ARGUMENT,
        "gxrt_session_create: on the emulator %s runs as machine code with all "
        "rights of this process: set allow_native in the session's options if "
        "it may",
        s->program->path[0] ? s->program->path : "the program");
}

static gxrt_status check_program(const gxrt_session *s)
{
    const Plan *p = s->plan;
    if (p->info->flags & PLAN_ELIDED) {
        for (uint32_t i = 0; i < p->allocations_count; i++) {
            if (p->allocations[i].elided) {
                return status_set(GXRT_INVALID_FILE,
                                  "the program cannot run: its text had the constant %s "
                                  "as {...}; print "
                                  "it with constants (JAX: "
                                  "as_hlo_text(print_large_constants=True); XLA: "
                                  "--xla_dump_large_constants) and compile again",
                                  plan_text(p, p->allocations[i].name));
            }
        }
        return status_set(GXRT_INVALID_FILE,
                          "the program cannot run: its text had a constant as {...}");
    }
    return GXRT_OK;
}

static gxrt_status check_hash(const void *bytes, size_t size, const uint8_t wanted[16],
                              const char *what)
{
    uint8_t hash[16];
    plan_hash(bytes, size, hash);
    return memcmp(hash, wanted, sizeof hash) == 0
               ? GXRT_OK
               : status_set(GXRT_INVALID_FILE,
                            "the program's %s damaged: their hash does not match; "
                            "compile or copy it again",
                            what);
}

/* What the plan does not hold itself, but names by its hash. */
static gxrt_status check_parts(const gxrt_session *s)
{
    const PlanInfo *info = s->plan->info;
    gxrt_status st = check_hash(s->program->constants.bytes, info->constant_bytes,
                                info->constant_hash, "constants are");
    if (st != GXRT_OK || s->plan->kernels_count == 0) {
        return st;
    }
    if (s->cuda->emulated) {
        return check_hash(s->variant->emu.bytes, s->variant->emu.size, info->emu_hash,
                          "kernels for the emulator are");
    }
    void *cubin = program_cubin(s->variant);
    st = cubin
             ? check_hash(cubin, s->variant->cubin.size, info->cubin_hash, "kernels are")
             : status_set(GXRT_OUT_OF_MEMORY,
                          "gxrt_session_create: no memory for the cubin");
    free(cubin);
    for (uint32_t i = 0; i < s->plan->images_count && st == GXRT_OK; i++) {
        const PlanImage *m = &s->plan->images[i];
        st = check_hash(program_image(s->variant, m), m->bytes, m->hash,
                        "images of kernels are");
    }
    return st;
}

/* --- libraries ---------------------------------------------------------------------------- */

static gxrt_status missing_library(const char *library, const char *error)
{
    return status_set(GXRT_MISSING_LIBRARY, "the program calls %s: %s", library, error);
}

/* `otherwise`: what else than installing a newer one helps. */
static gxrt_status check_version(const char *library, long long version, uint32_t least,
                                 const char *otherwise)
{
    return version >= least
               ? GXRT_OK
               : status_set(GXRT_MISSING_LIBRARY,
                            "the program needs %s %u or newer, this one is %lld: install "
                            "a newer one%s",
                            library, least, version, otherwise);
}

static gxrt_status need_cublaslt(gxrt_session *s)
{
    char error[512];
    if (s->plan->matmuls_count == 0) {
        return GXRT_OK;
    }
    if (!s->cublaslt) {
        s->cublaslt = library_cublaslt(s->cuda->emulated, s->options.library_path, error,
                                       sizeof error);
    }
    if (!s->cublaslt) {
        return missing_library("cuBLASLt", error);
    }
    return s->cuda->emulated
               ? GXRT_OK
               : check_version("cuBLASLt", (long long)s->cublaslt->version(),
                               s->plan->info->min_cublaslt, "");
}

static gxrt_status need_cudnn(gxrt_session *s)
{
    char error[512];
    if (s->plan->graphs_count == 0) {
        return GXRT_OK;
    }
    s->cudnn =
        library_cudnn(s->cuda->emulated, s->options.library_path, error, sizeof error);
    return s->cudnn ? check_version("cuDNN", (long long)s->cudnn->version(),
                                    s->plan->info->min_cudnn,
                                    ", or compile with --libraries=cublaslt")
                    : missing_library("cuDNN", error);
}

static gxrt_status need_cusolver(gxrt_session *s)
{
    char error[512];
    int version = 0;
    if (s->plan->solvers_count == 0) {
        return GXRT_OK;
    }
    s->cusolver =
        library_cusolver(s->cuda->emulated, s->options.library_path, error, sizeof error);
    if (!s->cusolver) {
        return missing_library("cuSOLVER", error);
    }
    s->cusolver->version(&version);
    return check_version("cuSOLVER", version, s->plan->info->min_cusolver,
                         ", or compile with --libraries=cublaslt,cudnn");
}

gxrt_status requirements_check(gxrt_session *s)
{
    gxrt_status st = check_native(s);
    st = st == GXRT_OK ? check_program(s) : st;
    st = st == GXRT_OK ? check_parts(s) : st;
    st = st == GXRT_OK ? need_cublaslt(s) : st;
    st = st == GXRT_OK ? need_cudnn(s) : st;
    return st == GXRT_OK ? need_cusolver(s) : st;
}
