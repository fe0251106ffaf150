/* From scheduled modules to one artefact: a variant for each target, their constants pooled,
 * the first cubin as the host file with the sections behind it. See codegen.h. */
#include "codegen/codegen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/backend.h"
#include "codegen/build/build.h"
#include "codegen/build/emission.h"
#include "codegen/gx/lines.h"
#include "codegen/plan/variant.h"
#include "ir/analysis/memory_colour.h"
#include "ir/base/bug.h"
#include "ir/base/clock.h"
#include "ir/base/text.h"
#include "runtime/plan/elf.h"

/* A variant, with what its requests became. */
typedef struct Code {
    Variant *variant;
    Build build;
} Code;

struct Codegen {
    Arena *arena;
    CodegenOptions options;
    ConstantPool pool;
    Code *codes;
    size_t count, capacity;
    void *malloced; /* while it is copied, which may throw; NULL: nothing */
};

/* -- variants -------------------------------------------------------------------------------- */

static double now(void)
{
    return clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

void codegen_versions(FILE *out)
{
    Escape e;
    escape_push(&e);
    fprintf(out, "LLVM %s\n", backend_llvm_version());
    if (setjmp(e.target) == 0) {
        Arena *a = arena_create();
        Cuda cuda;
        const char *error = NULL;
        if (cuda_find(a, NULL, ASSEMBLER_ANY, &cuda, &error))
            fprintf(out, "%s\n", cuda.version);
        else
            fputs("no assembler found: ptxas on PATH, or --cuda=DIR\n", out);
        cuda_find_tileir(a, NULL, &cuda);
        const char *version =
            cuda.tileiras != NULL ? cuda_tileir_version(a, &cuda) : NULL;
        if (version != NULL)
            fprintf(out, "%s\n", version);
        arena_destroy(a);
    }
    escape_pop(&e);
}

Codegen *codegen_create(Arena *a, const CodegenOptions *options)
{
    Codegen *cg = ARENA_NEW(a, Codegen);
    cg->arena = a;
    cg->options = *options;
    cg->pool.arena = a;
    return cg;
}

static bool has_tileir_code(const PlanBuilder *b)
{
    for (uint32_t i = 0; i < b->images_count; i++) {
        if (b->images[i].kind == PLAN_IMAGE_CUBIN)
            return true;
    }
    return false;
}

/* "ptxas 13.0.88 with nvlink, tileiras 13.5.37" */
static const char *assemblers_text(const Variant *v)
{
    const Cuda *cuda = &v->options->cuda;
    if (!has_tileir_code(&v->plan))
        return cuda->version;
    return arena_printf(v->arena, "%s, %s", cuda->version,
                        cuda_tileir_version(v->arena, cuda));
}

static void fill_info(Variant *v)
{
    PlanBuilder *b = &v->plan;
    PlanInfo *info = &b->info[0];
    const CodegenOptions *o = v->options;
    const Module *m = v->module;
    info->module = plan_string(b, m->name);
    info->target = plan_string(b, v->target->name);
    info->sm = v->target->sm;
    info->suffix = (uint32_t)v->target->variant;
    info->gxc_version = plan_string(b, o->gxc_version);
    info->llvm_version = plan_string(b, backend_llvm_version());
    info->assembler = plan_string(b, assemblers_text(v));
    info->options = plan_string(b, o->options_text);
    info->min_driver = o->cuda.cuda / 10 * 1000;
    info->replicas = (uint32_t)m->config.replica_count;
    info->partitions = (uint32_t)m->config.num_partitions;
    memcpy(info->module_hash, o->module_hash, sizeof info->module_hash);
}

static bool fail(const Variant *v, const char *error)
{
    diag_error(v->module->diag, (Span){0, 0}, "%s", error);
    return false;
}

/* Text in place of a cubin. */
static bool set_text(Variant *v, const char *text)
{
    v->cubin.data = text;
    v->cubin.bytes = strlen(text);
    return true;
}

enum { IMAGE_ALIGNMENT = 128 };

/* Puts the image's bytes behind the others. */
static void add_image(Variant *v, Text *bytes, PlanImage m, const void *data)
{
    while (bytes->length % IMAGE_ALIGNMENT != 0)
        text_char(bytes, '\0');
    m.offset = bytes->length;
    text_add(bytes, data, m.bytes);
    plan_hash(data, m.bytes, m.hash);
    plan_add_images(&v->plan, &m, 1);
}

/* Kernels that CUDA Tile IR made, and what the driver's compiler makes code of on newer GPUs. */
static void add_images(Variant *v, Build *b)
{
    const CodegenOptions *o = v->options;
    bool is_portable = target_is_portable(v->target);
    Text bytes;
    text_init(&bytes, v->arena);
    for (size_t i = 0; i < b->count; i++) {
        const TileCode *t = &b->tiles[i];
        if (t->cubin.data == NULL)
            continue;
        PlanImage m = {.kernel = (uint32_t)i,
                       .kind = PLAN_IMAGE_CUBIN,
                       .blocks = t->blocks,
                       .threads = t->kernel.threads,
                       .registers = t->kernel.use.registers,
                       .shared_bytes = t->kernel.shared_bytes,
                       .bytes = t->cubin.bytes};
        add_image(v, &bytes, m, t->cubin.data);
        if (o->embed_tileir && is_portable)
            add_image(v, &bytes,
                      (PlanImage){.kernel = (uint32_t)i,
                                  .kind = PLAN_IMAGE_TILEIR,
                                  .blocks = t->blocks,
                                  .bytes = t->bytecode_bytes},
                      t->bytecode);
    }
    if (o->embed_ptx && is_portable) {
        const char *ptx = build_ptx(b);
        add_image(v, &bytes,
                  (PlanImage){.kernel = PLAN_NONE,
                              .kind = PLAN_IMAGE_PTX,
                              .bytes = strlen(ptx) + 1},
                  ptx);
    }
    v->images = bytes.data;
    v->image_bytes = bytes.length;
}

/* The code that the plan asks for, as far as the stage goes. */
static bool make_code(Code *c)
{
    Variant *v = c->variant;
    Build *b = &c->build;
    const char *error = NULL;
    *b = (Build){.arena = v->arena,
                 .options = v->options,
                 .target = v->target,
                 .lines = v->options->cuda.line_info
                              ? source_lines(v->arena, v->module->diag)
                              : NULL,
                 .requests = v->requests,
                 .count = v->request_count};
    CodegenStage stage = v->options->stage;
    if (stage == STAGE_PLAN)
        return true;
    if (stage == STAGE_LLVM) {
        const char *text = build_text(b, &error);
        return text != NULL ? set_text(v, text) : fail(v, error);
    }
    if (stage == STAGE_TILEIR) {
        v->cubin.data = build_tileir(b, &v->cubin.bytes);
        return true;
    }
    if (!build_run(b, &error))
        return fail(v, error);
    v->report.has_code = true;
    for (size_t i = 0; i < b->count; i++)
        emission_count(&b->requests[i], b->codes[i].accesses, &v->report);
    v->report.llvm_seconds = b->llvm_seconds;
    v->report.emu_seconds = b->emu_seconds;
    v->report.assembler_seconds = b->assembler_seconds;
    v->report.assembler_wall = b->assembler_wall;
    v->report.has_cache = v->options->cache_dir != NULL;
    v->report.cache = b->cache;
    if (b->cache_error != 0)
        diag_warning(v->module->diag, (Span){0, 0}, "cannot write to the cache %s: %s",
                     v->options->cache_dir, strerror(b->cache_error));
    for (size_t i = 0; i < b->warning_count; i++)
        diag_warning(v->module->diag, (Span){0, 0}, "%s", b->warnings[i]);
    if (stage == STAGE_PTX)
        return set_text(v, build_ptx(b));
    v->cubin = b->cubin;
    if (stage == STAGE_ARTEFACT)
        add_images(v, b);
    if (v->options->emu && stage == STAGE_ARTEFACT)
        v->emu = build_objects(b, &v->emu_bytes);
    return true;
}

static void fill_report(Variant *v)
{
    CodegenReport *r = &v->report;
    for (size_t i = 0; i < v->cubin.use_count; i++) {
        const KernelUse *u = &v->cubin.uses[i];
        r->spill_bytes += kernel_use_spills(u);
        r->lossy_kernels += u->loss != NULL;
        if (u->registers > r->registers_most)
            r->registers_most = u->registers;
    }
    r->target = v->target->name;
    r->distinct_kernels = v->request_count;
    r->host_syncs = v->plan.info[0].host_syncs;
    r->cubin_bytes = v->cubin.bytes;
    r->emu_bytes = v->emu_bytes;
}

/* Allocations, commands and kernel requests. */
static bool make_plan(Codegen *cg, Variant *v)
{
    Module *m = v->module;
    double t0 = now();
    KernelsConfigured unused;
    if (!kernel_configure_all(m, v->target, cg->options.tuning, &unused))
        return false;
    v->aliases = alias_sets_create(m, cg->arena);
    const uint32_t *colours =
        memory_colours(m, v->aliases, cg->options.collective_memory, cg->arena);
    if (colours == NULL)
        return false;
    v->loop_slices = loop_slices_create(m, cg->arena);
    v->loop_idle = loop_idle_create(m, v->loop_slices, cg->arena);
    v->buffers = buffers_assign(m, v->aliases, v->loop_slices, colours, cg->arena);
    Arena *scratch = arena_scratch();
    buffers_check(v->buffers, scratch);
    arena_destroy(scratch);
    if (!variant_make_commands(v))
        return false;
    if (v->plan.failed)
        escape_throw(ESCAPE_MEMORY, "out of memory while the plan was made");
    variant_describe(v);
    v->report.plan_seconds = now() - t0;
    return true;
}

bool codegen_add_variant(Codegen *cg, Module *m, const Target *target)
{
    Diag *d = m->diag;
    if (cg->options.cuda_error != NULL) {
        diag_error(d, (Span){0, 0}, "%s", cg->options.cuda_error);
        return false;
    }
    if (!codegen_fits(m))
        return false;
    Variant *v = ARENA_NEW(cg->arena, Variant);
    v->arena = cg->arena;
    v->options = &cg->options;
    v->target = target;
    v->module = m;
    v->pool = &cg->pool;
    cg->codes =
        arena_grow(cg->arena, cg->codes, &cg->capacity, cg->count + 1, sizeof *cg->codes);
    Code *c = &cg->codes[cg->count++];
    c->variant = v;
    plan_builder_init(&v->plan);
    if (!make_plan(cg, v) || !make_code(c))
        return false;
    fill_info(v);
    fill_report(v);
    return true;
}

/* -- the file ---------------------------------------------------------------------------------- */

/* Products that lose bits of their factors: who compares results must know. */
static bool has_tf32(const Module *m)
{
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            bool is_part = inst_ints(inst, ATTR_OPERAND_PRECISION).count != 0 &&
                           inst_ints(inst, ATTR_OPERAND_PRECISION).data[0] ==
                               PRECISION_HIGH; /* passes/library/high_products.c */
            if (inst_int(inst, ATTR_ALGORITHM, ALGORITHM_UNSET) ==
                    ALGORITHM_TF32_TF32_F32 &&
                !is_part)
                return true;
        }
    }
    return false;
}

/* Into the arena; the original is given back, also if the arena has no memory. */
static void *copy_malloced(Codegen *cg, void *bytes, size_t size)
{
    cg->malloced = bytes;
    void *copy = arena_copy(cg->arena, bytes, size);
    cg->malloced = NULL;
    free(bytes);
    return copy;
}

/* The plan's bytes, read back: what a reader would refuse, or streams that race, is a bug of
 * ours. */
static void write_plan(Codegen *cg, size_t i, Plan *plan, const void **out,
                       size_t *out_size)
{
    Variant *v = cg->codes[i].variant;
    PlanInfo *info = &v->plan.info[0];
    info->constant_bytes = cg->pool.size;
    if (has_tf32(v->module))
        info->flags |= PLAN_TF32;
    plan_hash(cg->pool.data, cg->pool.size, info->constant_hash);
    if (cg->options.stage != STAGE_PLAN) {
        info->cubin_bytes = v->cubin.bytes;
        plan_hash(v->cubin.data, v->cubin.bytes, info->cubin_hash);
        if (v->emu != NULL)
            plan_hash(v->emu, v->emu_bytes, info->emu_hash);
        if (i == 0 && v->cubin.bytes >= sizeof info->elf_header)
            memcpy(info->elf_header, v->cubin.data, sizeof info->elf_header);
    }
    void *bytes;
    size_t size;
    if (!plan_write(&v->plan, &bytes, &size))
        escape_throw(ESCAPE_MEMORY, "out of memory while the plan was written");
    *out = copy_malloced(cg, bytes, size);
    *out_size = size;
    char error[512];
    bool is_read = plan_read(plan, *out, *out_size, error, sizeof error);
    bool is_checked = is_read && plan_check(plan, error, sizeof error);
    if (!is_checked && plan_lacked_memory(error))
        escape_throw(ESCAPE_MEMORY, "%s", error);
    if (!is_read)
        bug("the plan is not well formed: %s", error);
    if (!is_checked)
        bug("the plan's streams race: %s", error);
    PlanCounts counts = plan_counts(plan);
    PlanSizes sizes = plan_sizes(plan);
    PlanCapture capture = plan_capture(plan);
    CodegenReport *r = &v->report;
    r->not_captured = capture.refused;
    r->captured_nodes = capture.refused ? 0 : capture.nodes;
    r->captured_conditionals = capture.refused ? 0 : capture.conditionals;
    r->launches = counts.launches;
    r->copies = counts.copies;
    r->collectives = counts.collectives;
    r->host_calls = counts.host_calls;
    r->bytes_accessed = counts.bytes_accessed;
    r->bytes_accessed_once = counts.bytes_accessed_once;
    r->argument_bytes = sizes.arguments;
    r->result_bytes = sizes.results;
    r->aliased_bytes = sizes.aliased;
    r->constant_bytes = sizes.constants;
    r->temp_bytes = sizes.temp;
    r->workspace_bytes = sizes.workspace;
    r->graphs = plan->graphs_count;
    for (uint32_t g = 0; g < plan->graphs_count; g++)
        r->graph_configurations += plan->graphs[g].configurations;
    r->host_bytes = sizes.host;
    r->peak_bytes = sizes.peak;
}

static void print_plan(Codegen *cg, const Plan *plan, const void **out, size_t *out_size)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, out_size);
    if (f == NULL)
        escape_throw(ESCAPE_MEMORY, "out of memory while the plan was printed");
    plan_print(plan, f);
    bool is_whole = !ferror(f); /* without a first buffer it is empty, and no error */
    if (fclose(f) != 0 || !is_whole || *out_size == 0) {
        free(text);
        escape_throw(ESCAPE_MEMORY, "out of memory while the plan was printed");
    }
    *out = copy_malloced(cg, text, *out_size + 1);
}

static const char *section_name(Codegen *cg, const char *name, size_t variant)
{
    return variant == 0 ? name : arena_printf(cg->arena, "%s.%zu", name, variant);
}

bool codegen_finish(Codegen *cg, Diag *d, const void **out, size_t *out_size)
{
    const CodegenOptions *o = &cg->options;
    const Variant *first = cg->codes[0].variant;
    if (o->stage == STAGE_LLVM || o->stage == STAGE_PTX || o->stage == STAGE_CUBIN ||
        o->stage == STAGE_TILEIR) {
        /* a thread's memory, which the build gives back */
        *out = arena_copy(cg->arena, first->cubin.data, first->cubin.bytes);
        *out_size = first->cubin.bytes;
        return true;
    }
    PlanElfSection *sections = ARENA_ARRAY(cg->arena, PlanElfSection, cg->count * 4 + 2);
    size_t n = 0;
    for (size_t i = 0; i < cg->count; i++) {
        const Variant *v = cg->codes[i].variant;
        Plan plan;
        const void *bytes;
        size_t size;
        write_plan(cg, i, &plan, &bytes, &size);
        if (o->stage == STAGE_PLAN) {
            print_plan(cg, &plan, out, out_size);
            return true;
        }
        sections[n++] = (PlanElfSection){section_name(cg, PLAN_ELF_PLAN, i), bytes, size};
        if (i != 0)
            sections[n++] = (PlanElfSection){section_name(cg, PLAN_ELF_CUBIN, i),
                                             v->cubin.data, v->cubin.bytes};
        if (v->emu != NULL)
            sections[n++] =
                (PlanElfSection){section_name(cg, PLAN_ELF_EMU, i), v->emu, v->emu_bytes};
        if (v->image_bytes != 0)
            sections[n++] = (PlanElfSection){section_name(cg, PLAN_ELF_IMAGES, i),
                                             v->images, v->image_bytes};
    }
    sections[n++] = (PlanElfSection){PLAN_ELF_CONST, cg->pool.data, cg->pool.size};
    if (o->hlo != NULL)
        sections[n++] = (PlanElfSection){PLAN_ELF_HLO, o->hlo, o->hlo_length};
    void *file;
    const char *error = NULL;
    if (!plan_elf_append(first->cubin.data, first->cubin.bytes, sections, n, &file,
                         out_size, &error)) {
        diag_error(d, (Span){0, 0}, "cannot make the artefact: %s", error);
        return false;
    }
    *out = arena_take(cg->arena, file, *out_size);
    return true;
}

const CodegenReport *codegen_report(const Codegen *cg, size_t i)
{
    return i < cg->count ? &cg->codes[i].variant->report : NULL;
}

/* What the assembler's log says of a kernel; all 0 if there is none. */
static KernelUse use_of_kernel(const Variant *v, const char *name)
{
    for (size_t i = 0; i < v->cubin.use_count; i++) {
        if (strcmp(v->cubin.uses[i].name, name) == 0)
            return v->cubin.uses[i];
    }
    return (KernelUse){.name = name};
}

/* As CUDA Tile IR has it, or why it has not. */
static void describe_tile_code(const TileCode *t, CodegenCommand *out)
{
    out->tileir_why = t->why;
    if (t->cubin.data == NULL)
        return;
    out->is_tileir = true;
    memcpy(out->grid, (const uint32_t[]){t->blocks, 1, 1}, sizeof out->grid);
    memcpy(out->block, (const uint32_t[]){t->kernel.threads, 1, 1}, sizeof out->block);
    out->shared_bytes = t->kernel.shared_bytes;
    out->registers = t->kernel.use.registers;
    out->spill_bytes = kernel_use_spills(&t->kernel.use);
    out->loss = t->kernel.use.loss;
}

/* By request. */
static CodegenCommand *describe_kernels(const Code *code, Arena *a)
{
    const Variant *v = code->variant;
    CodegenCommand *out = ARENA_ARRAY(a, CodegenCommand, v->request_count + 1);
    for (size_t i = 0; i < v->request_count; i++) {
        const PlanKernel *k = &v->plan.kernels[i];
        KernelUse use = use_of_kernel(v, v->requests[i].name);
        out[i] =
            (CodegenCommand){.kernel = v->requests[i].name,
                             .grid = {k->grid[0], k->grid[1], k->grid[2]},
                             .block = {k->block[0], k->block[1], k->block[2]},
                             .shared_bytes = k->shared_bytes + k->static_shared_bytes,
                             .registers = use.registers,
                             .spill_bytes = kernel_use_spills(&use),
                             .loss = use.loss};
        if (code->build.tiles != NULL)
            describe_tile_code(&code->build.tiles[i], &out[i]);
    }
    return out;
}

const CodegenCommand *codegen_commands(const Codegen *cg, size_t i, size_t *count)
{
    const Variant *v = cg->codes[i].variant;
    const CodegenCommand *kernels = describe_kernels(&cg->codes[i], cg->arena);
    CodegenCommand *out = ARENA_ARRAY(cg->arena, CodegenCommand, v->command_count + 1);
    for (size_t k = 0; k < v->command_count; k++) {
        const VariantCommand *c = &v->commands[k];
        if (c->kind == PLAN_LAUNCH)
            out[k] = kernels[c->index];
        out[k].inst = c->inst;
    }
    *count = v->command_count;
    return out;
}

bool codegen_buffer(const Codegen *cg, size_t i, size_t k, CodegenBuffer *out)
{
    const PlanBuilder *p = &cg->codes[i].variant->plan;
    if (k >= p->buffers_count)
        return false;
    const PlanBuffer *b = &p->buffers[k];
    *out =
        (CodegenBuffer){.name = p->strings + b->name,
                        .kind = plan_allocation_name(p->allocations[b->allocation].kind),
                        .allocation = b->allocation,
                        .first = b->first,
                        .last = b->last,
                        .offset = b->offset,
                        .bytes = b->bytes};
    return true;
}

const char *codegen_step(const Codegen *cg, size_t i, size_t k)
{
    const PlanBuilder *p = &cg->codes[i].variant->plan;
    return k < p->steps_count ? p->strings + p->steps[k] : NULL;
}

void codegen_destroy(Codegen *cg)
{
    if (cg == NULL)
        return;
    for (size_t i = 0; i < cg->count; i++) {
        build_destroy(&cg->codes[i].build);
        plan_builder_deinit(&cg->codes[i].variant->plan);
    }
    free(cg->malloced);
}
