/* Opening a compiled file: map it, find its sections, validate every plan. No CUDA here. */
#include "runtime/run/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/run/status.h"

enum { MAX_VARIANTS = 64 };

static const char *shown_path(const gxrt_program *program)
{
    return program->path[0] ? program->path : "the program in memory";
}

/* Section NAME of variant 0, NAME.N of variant N. */
static bool find_section(const gxrt_program *program, const char *name, size_t variant,
                         PlanElfSection *out)
{
    char full[64];
    if (variant == 0) {
        snprintf(full, sizeof full, "%s", name);
    } else {
        snprintf(full, sizeof full, "%s.%zu", name, variant);
    }
    return plan_elf_find(program->bytes, program->size, full, out);
}

static gxrt_status read_plan(gxrt_program *program, Variant *v, PlanElfSection section)
{
    const void *bytes = section.bytes;
    if ((uintptr_t)bytes % 16 != 0) {
        v->plan_copy = malloc(section.size ? section.size : 1);
        if (!v->plan_copy) {
            return status_set(GXRT_OUT_OF_MEMORY, "%s: no memory for its plan",
                              shown_path(program));
        }
        memcpy(v->plan_copy, bytes, section.size);
        bytes = v->plan_copy;
    }
    char error[512];
    if (!plan_read(&v->plan, bytes, section.size, error, sizeof error)) {
        if (plan_lacked_memory(error)) {
            return status_set(GXRT_OUT_OF_MEMORY, "%s: %s", shown_path(program), error);
        }
        bool newer = strstr(error, "newer libgxrt") != NULL;
        return status_set(newer ? GXRT_UNSUPPORTED : GXRT_INVALID_FILE, "%s: %s%s",
                          shown_path(program), error,
                          newer ? "" : "; compile or copy it again");
    }
    return GXRT_OK;
}

/* CUDA's loader is given no size. */
static bool image_is_whole(const Variant *v, const PlanImage *m)
{
    if (m->offset > v->images.size || m->bytes > v->images.size - m->offset) {
        return false;
    }
    const char *bytes = program_image(v, m);
    switch ((PlanImageKind)m->kind) {
    case PLAN_IMAGE_CUBIN:
        return plan_elf_is_whole(bytes, m->bytes, bytes);
    case PLAN_IMAGE_TILEIR:
        return m->bytes >= sizeof PLAN_TILEIR_MAGIC &&
               memcmp(bytes, PLAN_TILEIR_MAGIC, sizeof PLAN_TILEIR_MAGIC) == 0;
    case PLAN_IMAGE_PTX:
        return m->bytes != 0 && memchr(bytes, 0, m->bytes) == bytes + m->bytes - 1;
    case PLAN_IMAGE_KINDS:
        break;
    }
    return false;
}

static gxrt_status read_variant(gxrt_program *program, size_t index,
                                PlanElfSection section)
{
    Variant *v = &program->variants[index];
    program->variant_count = index + 1;
    gxrt_status st = read_plan(program, v, section);
    if (st != GXRT_OK) {
        return st;
    }
    const PlanInfo *info = v->plan.info;
    const char *target = plan_text(&v->plan, info->target);
    if (index == 0) {
        v->cubin = (PlanElfSection){"cubin", program->bytes, info->cubin_bytes};
    } else if (!find_section(program, PLAN_ELF_CUBIN, index, &v->cubin)) {
        return status_set(GXRT_INVALID_FILE, "%s: the cubin for %s is missing",
                          shown_path(program), target);
    }
    bool has_header =
        index == 0 || plan_elf_is(info->elf_header, sizeof info->elf_header);
    if (v->cubin.size > program->size ||
        !plan_elf_is_whole(v->cubin.bytes, v->cubin.size,
                           has_header ? info->elf_header : v->cubin.bytes)) {
        return status_set(GXRT_INVALID_FILE, "%s: the cubin for %s is cut off",
                          shown_path(program), target);
    }
    find_section(program, PLAN_ELF_EMU, index, &v->emu);
    find_section(program, PLAN_ELF_IMAGES, index, &v->images);
    uint64_t rest =
        v->images.size; /* images that shared bytes would be looked at again and again */
    for (uint32_t i = 0; i < v->plan.images_count; i++) {
        const PlanImage *m = &v->plan.images[i];
        if (m->bytes > rest) {
            return status_set(GXRT_INVALID_FILE, "%s: images for %s share their bytes",
                              shown_path(program), target);
        }
        if (!image_is_whole(v, m)) {
            return status_set(GXRT_INVALID_FILE, "%s: an image for %s is cut off",
                              shown_path(program), target);
        }
        rest -= m->bytes;
    }
    if (info->constant_bytes > program->constants.size) {
        return status_set(GXRT_INVALID_FILE, "%s: its constants are cut off",
                          shown_path(program));
    }
    return GXRT_OK;
}

static bool same_values(const Plan *p, const PlanValue *a, const Plan *q,
                        const PlanValue *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (a[i].rank != b[i].rank || a[i].bytes != b[i].bytes ||
            a[i].element_bits != b[i].element_bits || a[i].alias != b[i].alias ||
            a[i].alias_kind != b[i].alias_kind || a[i].donated != b[i].donated ||
            a[i].size_of != b[i].size_of || a[i].size_dimension != b[i].size_dimension ||
            strcmp(plan_text(p, a[i].dtype), plan_text(q, b[i].dtype)) != 0 ||
            memcmp(p->numbers + a[i].dims, q->numbers + b[i].dims,
                   2 * a[i].rank * sizeof(int64_t)) != 0) {
            return false;
        }
    }
    return true;
}

/* All variants are the same program, so callers need to look at one signature only. */
static bool same_signature(const Plan *p, const Plan *q)
{
    return p->arguments_count == q->arguments_count &&
           p->results_count == q->results_count &&
           p->info->replicas == q->info->replicas &&
           p->info->partitions == q->info->partitions &&
           same_values(p, p->arguments, q, q->arguments, p->arguments_count) &&
           same_values(p, p->results, q, q->results, p->results_count);
}

static gxrt_status read_program(gxrt_program *program)
{
    PlanElfSection section;
    if (!plan_elf_is(program->bytes, program->size)) {
        return status_set(
            GXRT_INVALID_FILE,
            "%s: not a file that gxc made (no ELF file); give the cubin that "
            "`gxc prog.hlo -o prog.cubin` writes",
            shown_path(program));
    }
    if (!plan_elf_is_whole(program->bytes, program->size, program->bytes)) {
        return status_set(
            GXRT_INVALID_FILE,
            "%s: the file is cut off or damaged: what its ELF header names lies "
            "beyond its %zu bytes; compile or copy it again",
            shown_path(program), program->size);
    }
    if (!find_section(program, PLAN_ELF_PLAN, 0, &section)) {
        return status_set(GXRT_INVALID_FILE,
                          "%s: no plan of gxc inside: it was damaged, or made by another "
                          "compiler",
                          shown_path(program));
    }
    find_section(program, PLAN_ELF_CONST, 0, &program->constants);
    find_section(program, PLAN_ELF_HLO, 0, &program->hlo);
    program->variants = calloc(MAX_VARIANTS, sizeof(Variant));
    if (!program->variants) {
        return status_set(GXRT_OUT_OF_MEMORY, "%s: no memory", shown_path(program));
    }
    for (size_t i = 0; i < MAX_VARIANTS; i++) {
        if (!find_section(program, PLAN_ELF_PLAN, i, &section)) {
            break;
        }
        gxrt_status st = read_variant(program, i, section);
        if (st != GXRT_OK) {
            return st;
        }
        if (!same_signature(&program->variants[0].plan, &program->variants[i].plan)) {
            return status_set(GXRT_INVALID_FILE,
                              "%s: its variants are different programs",
                              shown_path(program));
        }
    }
    return GXRT_OK;
}

static gxrt_program *new_program(const char *path)
{
    gxrt_program *program = calloc(1, sizeof *program);
    char *copy = malloc(strlen(path) + 1);
    if (!program || !copy) {
        free(program);
        free(copy);
        return NULL;
    }
    strcpy(copy, path);
    program->path = copy;
    return program;
}

static gxrt_status finish(gxrt_program *program, gxrt_program **out)
{
    gxrt_status st = read_program(program);
    if (st != GXRT_OK) {
        gxrt_program_destroy(program);
        return st;
    }
    *out = program;
    return GXRT_OK;
}

static gxrt_status map_file(gxrt_program *program, const char *path)
{
    int file =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* of a pipe it would wait */
    struct stat about;
    if (file < 0 || fstat(file, &about) != 0) {
        int e = errno;
        if (file >= 0) {
            close(file);
        }
        return status_set(GXRT_INVALID_FILE, "%s: %s", path, strerror(e));
    }
    if (!S_ISREG(about.st_mode)) {
        close(file);
        return status_set(GXRT_INVALID_FILE, "%s: %s", path,
                          S_ISDIR(about.st_mode) ? strerror(EISDIR)
                                                 : "this is no plain file");
    }
    if (about.st_size == 0) {
        close(file);
        return status_set(GXRT_INVALID_FILE, "%s: the file is empty", path);
    }
    program->size = (size_t)about.st_size;
    void *bytes = mmap(NULL, program->size, PROT_READ, MAP_PRIVATE, file, 0);
    int e = errno;
    close(file);
    if (bytes == MAP_FAILED) {
        return status_set(GXRT_INVALID_FILE, "%s: cannot be mapped: %s", path,
                          strerror(e));
    }
    program->bytes = bytes;
    program->mapped = 1;
    return GXRT_OK;
}

gxrt_status gxrt_program_open(const char *path, gxrt_program **out)
{
    if (!path || !out) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_program_open: NULL path or result");
    }
    *out = NULL;
    gxrt_program *program = new_program(path);
    if (!program) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_program_open: no memory");
    }
    gxrt_status st = map_file(program, path);
    if (st != GXRT_OK) {
        gxrt_program_destroy(program);
        return st;
    }
    return finish(program, out);
}

gxrt_status gxrt_program_open_memory(const void *bytes, size_t size, gxrt_program **out)
{
    if (!bytes || !out) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_program_open_memory: NULL bytes or result");
    }
    *out = NULL;
    gxrt_program *program = new_program("");
    if (!program) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_program_open_memory: no memory");
    }
    program->bytes = bytes;
    program->size = size;
    return finish(program, out);
}

void gxrt_program_destroy(gxrt_program *program)
{
    if (!program) {
        return;
    }
    for (size_t i = 0; i < program->variant_count; i++) {
        free(program->variants[i].plan_copy);
    }
    if (program->mapped) {
        /* munmap() asks for a pointer to what is not const, and changes nothing behind it */
        munmap((void *)(uintptr_t)program->bytes, program->size);
    }
    free(program->variants);
    free(program->path);
    free(program);
}

const char *program_image(const Variant *v, const PlanImage *m)
{
    return (const char *)v->images.bytes + m->offset;
}

const PlanImage *program_ptx(const Variant *v)
{
    for (uint32_t i = 0; i < v->plan.images_count; i++) {
        if (v->plan.images[i].kind == PLAN_IMAGE_PTX) {
            return &v->plan.images[i];
        }
    }
    return NULL;
}

void *program_cubin(const Variant *v)
{
    void *image = malloc(v->cubin.size ? v->cubin.size : 1);
    if (!image) {
        return NULL;
    }
    memcpy(image, v->cubin.bytes, v->cubin.size);
    const PlanInfo *info = v->plan.info;
    if (plan_elf_is(info->elf_header, sizeof info->elf_header) &&
        v->cubin.size >= sizeof info->elf_header) {
        memcpy(image, info->elf_header, sizeof info->elf_header);
    }
    return image;
}

void program_targets(const gxrt_program *program, char *text, size_t size)
{
    size_t at = 0;
    text[0] = 0;
    for (size_t i = 0; i < program->variant_count && at + 1 < size; i++) {
        const Plan *p = &program->variants[i].plan;
        int n = snprintf(text + at, size - at, "%s%s", i ? ", " : "",
                         plan_text(p, p->info->target));
        at += n > 0 ? (size_t)n : 0;
    }
}

/* --- queries ----------------------------------------------------------------------------- */

void program_give(void *to, const void *from, size_t size)
{
    size_t wanted = *(const size_t *)to;
    size_t n = wanted < size ? wanted : size;
    memcpy((char *)to + sizeof(size_t), (const char *)from + sizeof(size_t),
           n - sizeof(size_t));
}

gxrt_status program_bad_query(const char *function)
{
    return status_set(GXRT_INVALID_ARGUMENT,
                      "%s: NULL, struct_size not set, or no such index", function);
}

gxrt_status gxrt_program_get_info(const gxrt_program *program, gxrt_program_info *info)
{
    if (!program || !info || info->struct_size < sizeof(size_t)) {
        return program_bad_query("gxrt_program_get_info");
    }
    const Plan *p = &program->variants[0].plan;
    gxrt_program_info all = {.module = plan_text(p, p->info->module),
                             .gxc_version = plan_text(p, p->info->gxc_version),
                             .argument_count = p->arguments_count,
                             .result_count = p->results_count,
                             .replicas = p->info->replicas,
                             .partitions = p->info->partitions,
                             .variant_count = program->variant_count,
                             .hlo = program->hlo.bytes,
                             .hlo_size = program->hlo.size};
    for (size_t i = 0; i < program->variant_count; i++) {
        all.tunable_count += i == 0 ? program->variants[i].plan.tunables_count : 0;
        all.has_tf32 |= (program->variants[i].plan.info->flags & PLAN_TF32) != 0;
    }
    memcpy(all.module_hash, p->info->module_hash, sizeof all.module_hash);
    program_give(info, &all, sizeof all);
    return GXRT_OK;
}

static void give_value(const Plan *p, const PlanValue *v, gxrt_value_info *info)
{
    bool sizes = v->size_of != PLAN_NONE;
    gxrt_value_info all = {.name = plan_text(p, v->name),
                           .dtype = plan_text(p, v->dtype),
                           .element_bits = v->element_bits,
                           .rank = v->rank,
                           .dims = p->numbers + v->dims,
                           .minor_to_major = p->numbers + v->dims + v->rank,
                           .bytes = v->bytes,
                           .alignment =
                               p->allocations[p->slices[v->slice].allocation].alignment,
                           .alias = v->alias == PLAN_NONE ? -1 : (int64_t)v->alias,
                           .must_alias = v->alias_kind == PLAN_ALIAS_MUST,
                           .size_of = sizes ? (int64_t)v->size_of : -1,
                           .size_dimension = sizes ? (int64_t)v->size_dimension : -1,
                           .donated = v->donated != 0};
    program_give(info, &all, sizeof all);
}

gxrt_status gxrt_program_get_argument(const gxrt_program *program, size_t index,
                                      gxrt_value_info *info)
{
    if (!program || !info || info->struct_size < sizeof(size_t) ||
        index >= program->variants[0].plan.arguments_count) {
        return program_bad_query("gxrt_program_get_argument");
    }
    const Plan *p = &program->variants[0].plan;
    give_value(p, &p->arguments[index], info);
    return GXRT_OK;
}

gxrt_status gxrt_program_get_result(const gxrt_program *program, size_t index,
                                    gxrt_value_info *info)
{
    if (!program || !info || info->struct_size < sizeof(size_t) ||
        index >= program->variants[0].plan.results_count) {
        return program_bad_query("gxrt_program_get_result");
    }
    const Plan *p = &program->variants[0].plan;
    give_value(p, &p->results[index], info);
    return GXRT_OK;
}

gxrt_status gxrt_program_get_variant(const gxrt_program *program, size_t index,
                                     gxrt_variant_info *info)
{
    if (!program || !info || info->struct_size < sizeof(size_t) ||
        index >= program->variant_count) {
        return program_bad_query("gxrt_program_get_variant");
    }
    const Plan *p = &program->variants[index].plan;
    PlanSizes sizes = plan_sizes(p);
    PlanCounts counts = plan_counts(p);
    gxrt_variant_info all = {.target = plan_text(p, p->info->target),
                             .assembler = plan_text(p, p->info->assembler),
                             .minimum_driver = p->info->min_driver,
                             .has_emulator = program->variants[index].emu.bytes != NULL,
                             .constant_bytes = sizes.constants,
                             .temp_bytes = sizes.temp,
                             .workspace_bytes = sizes.workspace,
                             .peak_bytes = sizes.peak,
                             .host_bytes = sizes.host,
                             .launch_count = counts.launches,
                             .copy_count = counts.copies,
                             .collective_count = counts.collectives,
                             .host_syncs = p->info->host_syncs,
                             .command_count = p->commands_count,
                             .buffer_count = p->buffers_count,
                             .step_count = p->steps_count,
                             .least_cublaslt = p->info->min_cublaslt,
                             .least_cudnn = p->info->min_cudnn,
                             .least_nccl = p->info->min_nccl,
                             .least_cusolver = p->info->min_cusolver,
                             .llvm_version = plan_text(p, p->info->llvm_version),
                             .options = plan_text(p, p->info->options)};
    for (uint32_t i = 0; i < p->images_count; i++) {
        const PlanImage *m = &p->images[i];
        all.tileir_cubins += m->kind == PLAN_IMAGE_CUBIN;
        all.tileir_bytecodes += m->kind == PLAN_IMAGE_TILEIR;
        all.ptx_bytes += m->kind == PLAN_IMAGE_PTX ? m->bytes : 0;
    }
    PlanHeader header;
    memcpy(&header, p->bytes, sizeof header);
    all.plan_major = header.major;
    all.plan_minor = header.minor;
    program_give(info, &all, sizeof all);
    return GXRT_OK;
}
