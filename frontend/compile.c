/* The compiler as a library: gxc_compile, gxc_evaluate, gxc_signature. Sets up arena,
 * diagnostics and the escape that every early end of a compile returns to. See gxc.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "frontend/compile.h"
#include "frontend/evaluate.h"
#include "frontend/hlo/parse.h"
#include "frontend/input/container.h"
#include "frontend/input/image_gradients.h"
#include "frontend/input/library_calls.h"
#include "frontend/input/select.h"
#include "frontend/page/page.h"
#include "frontend/proto/proto.h"
#include "frontend/warn.h"
#include "ir/analysis/partition.h"
#include "ir/base/bug.h"
#include "ir/base/file.h"
#include "ir/base/limits.h"
#include "ir/base/text.h"
#include "ir/custom_call/custom_call.h"
#include "ir/kernel/candidates.h"
#include "ir/kernel/kernel.h"
#include "ir/print/print.h"
#include "passes/dynamic/dynamic.h"

typedef void CompileFn(Compile *c);

enum { CANDIDATES = 7 /* other configurations of each kernel, for a tuner */ };

/* -- stages ------------------------------------------------------------------------------------ */

static void progress(const Compile *c, const char *stage, size_t done, size_t of)
{
    if (c->options.progress != NULL)
        c->options.progress(c->options.progress_user, stage, done, of);
}

/* Text that is only checked or printed may hold what nothing could be made of. */
static Level text_level(const gxc_options *o)
{
    bool printed = o->emit != NULL && o->passes != NULL &&
                   strcmp(o->passes, "none") == 0 &&
                   (strcmp(o->emit, "hlo") == 0 || strcmp(o->emit, "pb") == 0);
    return o->verify_only || printed ? LEVEL_SKETCH : LEVEL_WELL_FORMED;
}

/* The only module of a text is the one that is asked for. */
static bool is_meant(const Compile *c, const Module *m)
{
    if (c->options.module == NULL || strcmp(c->options.module, m->name) == 0)
        return true;
    diag_error(c->diag, (Span){0, 0}, "there is no module %s here, but %s",
               c->options.module, m->name);
    return false;
}

/* The numbers of devices that the options replace; their product must fit into a plan. */
static bool set_devices(Compile *c, Module *m)
{
    const int64_t r = c->options.replicas, p = c->options.partitions;
    ModuleConfig *config = &m->config;
    if (r != 0)
        config->replica_count = r;
    if (p != 0)
        config->num_partitions = p;
    if (config->replica_count > 0 && config->num_partitions > 0 &&
        config->replica_count <= MODULE_DEVICES_MOST / config->num_partitions)
        return true;
    diag_error(c->diag, r != 0 || p != 0 ? (Span){0, 0} : config->devices_span,
               "%lld replicas of %lld partitions: a program is for 1 to %d devices",
               (long long)config->replica_count, (long long)config->num_partitions,
               MODULE_DEVICES_MOST);
    if (r != 0 || p != 0)
        c->status = GXC_USAGE;
    return false;
}

/* Text to verified module, in `a`; NULL after messages. */
static Module *read_module(Compile *c, Arena *a)
{
    progress(c, "parse", 0, 1);
    stage_begin(&c->times, "parse");
    if (!container_open(c->diag, c->options.max_unpacked_bytes))
        return NULL;
    if (proto_is_cut_off(c->diag->text, c->diag->length)) {
        diag_error(c->diag, (Span){0, 0},
                   "this is a HloModuleProto that is cut off or damaged");
        return NULL;
    }
    if (proto_is(c->diag->text, c->diag->length) && !proto_to_text(c->diag))
        return NULL;
    bool chosen; /* of several */
    if (!select_module(c->diag, c->options.module, &chosen))
        return NULL;
    Module *m = stablehlo_is(c->diag->text, c->diag->length) ? stablehlo_parse(a, c->diag)
                                                             : hlo_parse(a, c->diag);
    if (m == NULL || (!chosen && !is_meant(c, m)) || !library_calls_read(m, c->scratch))
        return NULL;
    stage_begin(&c->times, "verify");
    if (!module_verify(m, text_level(&c->options), c->scratch))
        return NULL;
    if (text_level(&c->options) != LEVEL_SKETCH)
        image_gradients_read(m);
    if ((c->options.passes == NULL || c->options.verify_only) && custom_calls_refuse(m))
        return NULL;
    arena_reset(c->scratch);
    return set_devices(c, m) ? m : NULL;
}

static void write_dump(Compile *c, const char *name, const char *text, size_t length)
{
    char *path = arena_printf(c->arena, "%s/%s", c->options.dump_dir, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL && errno == ENOENT && mkdir(c->options.dump_dir, 0777) == 0)
        f = fopen(path, "wb");
    bool ok = f != NULL && fwrite(text, 1, length, f) == length;
    ok &= f != NULL && fclose(f) == 0;
    if (!ok)
        diag_error(c->diag, (Span){0, 0}, "cannot write %s: %s", path, strerror(errno));
}

static void after_pass(void *user, unsigned number, const char *pass, PassResult result,
                       const Module *m)
{
    Compile *c = user;
    const gxc_options *o = &c->options;
    static const char *const notes[] = {[PASS_LEFT_OUT] = " (left out)",
                                        [PASS_CHANGED_NOTHING] = " (no change)",
                                        [PASS_CHANGED] = ""};
    stage_part(&c->times, pass, result != PASS_LEFT_OUT);
    progress(c, pass, number, 0);
    bool print = o->print_after != NULL && (strcmp(o->print_after, "all") == 0 ||
                                            strcmp(o->print_after, pass) == 0);
    if (!print && (o->dump_dir == NULL || result != PASS_CHANGED))
        return;
    size_t length;
    const char *text = module_print(c->arena, m, PRINT_DEFAULT, &length);
    if (print)
        diag_note(c->diag, (Span){0, 0}, "after %s%s:\n%s", pass, notes[result], text);
    if (o->dump_dir != NULL) {
        const char *variant = /* of the second target and others: beside the first's */
            c->variant == 0 ? "" : arena_printf(c->arena, ".target%zu", c->variant + 1);
        write_dump(c, arena_printf(c->arena, "%03u-%s%s.hlo", number, pass, variant),
                   text, length);
    }
    stage_skip(&c->times);
}

/* An instruction whose size nobody can know; NULL: there is none. */
static const Instruction *find_unbounded(const Module *m)
{
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (shape_is_unbounded(inst->shape))
                return inst;
        }
    }
    return NULL;
}

static bool run_passes(Compile *c, Module *m, const Target *target)
{
    const gxc_options *o = &c->options;
    bool none = o->passes != NULL && strcmp(o->passes, "none") == 0;
    const Instruction *unbounded = find_unbounded(m);
    if (!none && unbounded != NULL) { /* passes count elements */
        diag_unsupported(m->diag, unbounded->span, "%s is of a size without a bound: %s",
                         unbounded->name, shape_text(m->arena, unbounded->shape, false));
        return false;
    }
    PassContext cx = {.scratch = c->scratch,
                      .target = target,
                      .settings = &c->settings,
                      .graphs = c->planner != NULL ? planner_interface(c->planner) : NULL,
                      .tuning = c->tuning,
                      .products = candidate_memo_create(c->arena),
                      .opt_level = (int)c->settings.level,
                      .lint = o->lint != 0};
    c->pipeline =
        (PipelineOptions){.only = o->passes,
                          .skip = o->skip,
                          .verify_each = o->print_after != NULL || o->dump_dir != NULL,
                          .after = after_pass,
                          .user = c};
    c->variant = (size_t)(target - c->targets);
    stage_begin(&c->times, "passes");
    bool ok = pipeline_run(m, &cx, &c->pipeline);
    if (target != &c->targets[0])
        return ok;
    c->counts = cx.counts;
    arena_reset(c->scratch);
    return ok;
}

static void hash_module(Compile *c, const Module *m)
{
    size_t length;
    const char *text = module_print(c->arena, m, PRINT_CANONICAL, &length);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(text, length));
    memcpy(c->result->module_hash, canonical.digest, 16);
}

static void emit_hlo(Compile *c, Module *m)
{
    stage_begin(&c->times, "print");
    c->result->bytes = module_print(c->arena, m, c->print, &c->result->size);
}

static bool has_candidates(const gxc_options *o)
{
    return o->emit != NULL && strcmp(o->emit, "candidates") == 0;
}

static bool find_stage(Compile *c, CodegenStage *out)
{
    static const struct {
        const char *name;
        CodegenStage stage;
    } stages[] = {{"llvm", STAGE_LLVM},     {"ptx", STAGE_PTX},   {"cubin", STAGE_CUBIN},
                  {"tileir", STAGE_TILEIR}, {"plan", STAGE_PLAN}, {"html", STAGE_PTX}};
    *out = STAGE_ARTEFACT;
    if (c->options.emit == NULL || has_candidates(&c->options))
        return true;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        if (strcmp(c->options.emit, stages[i].name) == 0) {
            *out = stages[i].stage;
            return true;
        }
    }
    compile_usage_error(
        c,
        "unknown --emit form \"%s\"; forms are hlo, pb, dot, html, tile, llvm, ptx, "
        "cubin, tileir, plan, tuning, candidates",
        c->options.emit);
    return false;
}

/* As an option, for the plan's record. */
static const char *libraries_text(const Compile *c)
{
    const char *names[] = {c->settings.cublaslt ? ",cublaslt" : "",
                           c->planner != NULL ? ",cudnn" : "",
                           c->settings.cusolver ? ",cusolver" : ""};
    if (*names[0] != '\0' && *names[1] != '\0' && *names[2] != '\0')
        return "";
    const char *list = arena_printf(c->arena, "%s%s%s", names[0], names[1], names[2]);
    return arena_printf(c->arena, " --libraries=%s", *list != '\0' ? list + 1 : "none");
}

static const char *tiles_text(const Compile *c)
{
    const char *tiles = c->options.tiles;
    bool is_default = tiles == NULL || strcmp(tiles, "auto") == 0;
    return is_default ? "" : arena_printf(c->arena, " --tiles=%s", tiles);
}

/* The passes that are not those of the level. */
static const char *passes_text(const Compile *c)
{
    const char *only = c->options.passes, *skip = c->options.skip;
    return arena_printf(c->arena, "%s%s%s%s", only != NULL ? " --passes=" : "",
                        only != NULL ? only : "", skip != NULL ? " --skip=" : "",
                        skip != NULL ? skip : "");
}

static const char *embed_text(const gxc_options *o)
{
    return o->embed_tileir ? " --embed-tileir" : o->embed_ptx ? " --embed-ptx" : "";
}

static bool codegen_options(Compile *c, CodegenOptions *o)
{
    const gxc_options *given = &c->options;
    size_t length = settings_text(&c->settings, NULL, 0) + 1;
    char *settings = arena_alloc(c->arena, length);
    settings_text(&c->settings, settings, length);
    *o = (CodegenOptions){
        .emu = c->emu,
        .contract = !given->fp_contract_off,
        .candidates = has_candidates(given) ? CANDIDATES : 0,
        .jobs = (uint32_t)given->jobs,
        .compute_streams = (uint32_t)c->settings.num_compute_streams,
        .communication_streams = (uint32_t)c->settings.num_communication_streams,
        .collective_memory = c->settings.collective_memory != 0,
        .planner = c->planner,
        .cache_dir = given->cache_dir,
        .tuning = c->tuning,
        .options_text = arena_printf(
            c->arena, "-O%lld%s%s%s%s%s%s%s%s%s", (long long)c->settings.level,
            passes_text(c), given->line_info ? " --lineinfo" : "", embed_text(given),
            given->fp_contract_off ? " --fp-contract=off" : "",
            c->settings.tf32 ? "" : " --f32-dots=f32", libraries_text(c), tiles_text(c),
            tuning_option(c->arena, c->tuning), settings),
        .progress = given->progress,
        .progress_user = given->progress_user,
        .gxc_version = GXC_VERSION,
        .embed_ptx = given->embed_ptx != 0 || given->embed_tileir != 0,
        .embed_tileir = given->embed_tileir != 0,
        .hlo = given->embed_hlo ? c->input : NULL,
        .hlo_length = c->size};
    if (given->embed_hlo && given->module != NULL) { /* the one that was chosen */
        o->hlo = c->diag->text;
        o->hlo_length = c->diag->length;
    }
    memcpy(o->module_hash, c->result->module_hash, sizeof o->module_hash);
    AssemblerKind kind = ASSEMBLER_ANY;
    if (given->assembler != NULL && strcmp(given->assembler, "nvjitlink") == 0)
        kind = ASSEMBLER_NVJITLINK;
    else if (given->assembler != NULL && strcmp(given->assembler, "ptxas") == 0)
        kind = ASSEMBLER_PTXAS;
    else if (given->assembler != NULL)
        compile_usage_error(c,
                            "unknown assembler \"%s\"; assemblers are nvjitlink, ptxas",
                            given->assembler);
    if (!cuda_find(c->arena, given->cuda, kind, &o->cuda, &o->cuda_error) &&
        o->cuda_error == NULL)
        o->cuda_error = "CUDA's parts were not found";
    cuda_find_tileir(c->arena, given->cuda, &o->cuda);
    o->cuda.line_info = given->line_info != 0;
    o->cuda.most_seconds = given->max_assembler_seconds != 0
                               ? given->max_assembler_seconds
                               : ASSEMBLER_SECONDS;
    return find_stage(c, &o->stage) && !compile_has_failed(c);
}

/* -- the calls ----------------------------------------------------------------------------------- */

/* Of the first target's module, when its passes have run. */
static void make_report(Compile *c, const Module *m)
{
    ModelReport model = {0};
    const CodegenCommand *commands = NULL;
    size_t count = 0;
    if (c->codegen != NULL)
        commands = codegen_commands(c->codegen, 0, &count);
    if (c->options.report && m->config.is_scheduled && find_unbounded(m) == NULL) {
        CostModel *cost = cost_create(m, &c->targets[0], c->arena);
        model.simulation = simulate(m, cost, c->arena);
        model.kernels =
            kernel_report_make(m, &c->targets[0], cost, commands, count, c->arena);
    }
    report_make(c->result, c->codegen, &c->times, &c->counts, &model,
                c->planner != NULL ? planner_trouble(c->planner) : NULL);
}

/* Of the kernels' PTX, which codegen has made. */
static void make_page(Compile *c, const Module *m)
{
    gxc_result *r = c->result;
    PageSource s = {.module = m,
                    .target = &c->targets[0],
                    .codegen = c->codegen,
                    .input = c->diag->text,
                    .input_size = c->diag->length,
                    .ptx = r->bytes,
                    .ptx_size = r->size};
    if (!compile_has_failed(c) && (r->bytes = page_html(c->arena, &s, &r->size)) == NULL)
        escape_throw(ESCAPE_MEMORY, "out of memory while the page was made");
}

/* After some passes alone, nobody has looked at what a text that was edited by hand says. */
static bool is_fused(Compile *c, Module *m)
{
    if (c->options.passes == NULL)
        return true;
    stage_begin(&c->times, "verify");
    bool good = module_verify(m, LEVEL_FUSED, c->scratch);
    arena_reset(c->scratch);
    return good;
}

static void add_variants(Compile *c, Module *first, const CodegenOptions *o)
{
    c->codegen = codegen_create(c->arena, o);
    for (size_t i = 0; i < c->target_count; i++) {
        /* passes change the module in place: further variants start from the text again */
        Module *m = i == 0 ? first : read_module(c, c->module_arenas[i]);
        if (m == NULL || !run_passes(c, m, &c->targets[i]) || !is_fused(c, m))
            return;
        stage_begin(&c->times, "codegen");
        if (!codegen_add_variant(c->codegen, m, &c->targets[i]) || compile_has_failed(c))
            return;
    }
    stage_begin(&c->times, "artefact");
    codegen_finish(c->codegen, c->diag, &c->result->bytes, &c->result->size);
    if (c->options.emit != NULL && strcmp(c->options.emit, "html") == 0)
        make_page(c, first);
    stage_end(&c->times);
    make_report(c, first);
}

/* What would give wrong results silently. */
static bool is_partitioned(const Module *m)
{
    const Instruction *inst = module_unpartitioned(m);
    if (inst != NULL)
        module_report_unpartitioned(m, inst);
    return inst == NULL;
}

static void compile_variants(Compile *c, Module *first)
{
    CodegenOptions o;
    if (!is_partitioned(first) || !codegen_takes(first))
        return;
    module_warn(first, c->options.partitions != 0);
    hash_module(c, first);
    if (codegen_options(c, &o))
        add_variants(c, first, &o);
}

static void emit_proto(Compile *c, Module *m)
{
    c->result->bytes = proto_print(c->arena, m, &c->result->size);
}

static void emit_dot(Compile *c, Module *m)
{
    c->result->bytes = page_dot(c->arena, m, &c->targets[0], &c->result->size);
}

/* What kernels are by their configurations: those that no pass configured are so now. */
static void emit_kernels(Compile *c, Module *m,
                         const char *(*print)(Arena *, const Module *, const Target *,
                                              size_t *length))
{
    KernelsConfigured unused;
    if (is_fused(c, m) && kernel_configure_all(m, &c->targets[0], c->tuning, &unused))
        c->result->bytes = print(c->arena, m, &c->targets[0], &c->result->size);
}

static void emit_tuning(Compile *c, Module *m)
{
    emit_kernels(c, m, tuning_print);
}

static void emit_tile(Compile *c, Module *m)
{
    emit_kernels(c, m, report_tiles);
}

/* Forms that are made of the module, for the first target; NULL: code is needed. */
static void (*module_form(const gxc_options *o))(Compile *c, Module *m)
{
    static const struct {
        const char *name;
        void (*emit)(Compile *c, Module *m);
    } forms[] = {{"hlo", emit_hlo},
                 {"pb", emit_proto},
                 {"dot", emit_dot},
                 {"tile", emit_tile},
                 {"tuning", emit_tuning}};
    for (size_t i = 0; o->emit != NULL && i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(o->emit, forms[i].name) == 0)
            return forms[i].emit;
    }
    return NULL;
}

static void do_compile(Compile *c)
{
    CodegenStage stage;
    void (*emit)(Compile * c, Module * m) = module_form(&c->options);
    if (emit == NULL && !find_stage(c, &stage))
        return;
    Module *m = read_module(c, c->module_arenas[0]);
    if (m == NULL || c->options.verify_only)
        return;
    result_set_signature(c->result, m, &(EvalOptions){0});
    if (emit == NULL) {
        compile_variants(c, m);
        return;
    }
    if (!run_passes(c, m, &c->targets[0]))
        return;
    emit(c, m);
    stage_end(&c->times);
    make_report(c, m);
}

/* Sizes that change are arguments and results of their own, as in the compiled program. */
static void fix_interface(Compile *c, Module *m)
{
    PassContext cx = {.scratch = c->scratch};
    pass_dynamic_interface(m, &cx);
    arena_reset(c->scratch);
}

static void do_signature(Compile *c)
{
    Module *m = read_module(c, c->arena);
    if (m == NULL)
        return;
    EvalOptions grid = {.replicas = c->options.replicas,
                        .partitions = c->options.partitions};
    hash_module(c, m);
    fix_interface(c, m);
    result_set_signature(c->result, m, &grid);
}

static void do_evaluate(Compile *c)
{
    Module *m = read_module(c, c->arena);
    if (m == NULL || !is_partitioned(m))
        return;
    gxc_result *r = c->result;
    EvalOptions options = {.replicas = c->options.replicas,
                           .partitions = c->options.partitions,
                           .rounding = c->options.rounding,
                           .rounding_tf32 = c->options.rounding_tf32 != 0};
    hash_module(c, m);
    fix_interface(c, m);
    result_set_signature(r, m, &options);
    stage_begin(&c->times, "evaluate");
    const Inputs inputs = {c->inputs, c->device_count, c->parameter_count};
    r->evaluated = evaluate_module(m, &options, &inputs, c->arena, r);
}

/* -- entry and early ends ---------------------------------------------------------------------------- */

/* Keeps the input for whoever looks into a bug; the name is made from the input. */
static const char *write_replay(Compile *c, const char *message)
{
    uint64_t hash = XXH3_64bits(c->input, c->size);
    const char *dir = c->options.replay_dir != NULL ? c->options.replay_dir : ".";
    const char *path = arena_printf(c->arena, "%s/gxc-replay-%016llx.hlo", dir,
                                    (unsigned long long)hash);
    const char *pass = c->pipeline.current != NULL ? c->pipeline.current : "none";
    const char *head = arena_printf(
        c->arena, "// bug in gxc %s, in pass %s: %s\n// replay: gxc -O%lld %s\n",
        GXC_VERSION, pass, message, (long long)c->settings.level, path);
    FilePart parts[] = {{head, strlen(head)}, {c->input, c->size}};
    return file_replace(path, parts, 2) == 0 ? path : NULL;
}

static void finish_escape(Compile *c, const Escape *e)
{
    if (e->kind == ESCAPE_UNSUPPORTED) {
        diag_unsupported(c->diag, e->at, "%s", e->message);
        return;
    }
    if (e->kind == ESCAPE_LATE) {
        diag_error(c->diag, (Span){0, 0}, "%s", e->message);
        return;
    }
    c->status = e->kind == ESCAPE_MEMORY ? GXC_NO_MEMORY : GXC_BUG;
    if (e->kind == ESCAPE_MEMORY) {
        diag_error(c->diag, (Span){0, 0}, "%s", e->message);
        return;
    }
    const char *replay = write_replay(c, e->message);
    diag_error(c->diag, (Span){0, 0}, "internal error in %s: %s",
               c->pipeline.current != NULL ? c->pipeline.current : "gxc", e->message);
    diag_note(c->diag, (Span){0, 0}, "this is a bug of gxc; please report it%s%s",
              replay != NULL ? " with " : "", replay != NULL ? replay : "");
}

static gxc_status status_of(const Compile *c)
{
    if (c->status != GXC_OK)
        return c->status;
    if (c->diag->error_count == 0)
        return GXC_OK;
    return c->diag->unsupported_count == c->diag->error_count ? GXC_UNSUPPORTED
                                                              : GXC_INVALID;
}

static gxc_status run(const char *name, const void *input, size_t size,
                      const gxc_options *options, CompileFn *work, Compile *c,
                      gxc_result **out)
{
    if (out == NULL) /* there is nowhere to put a message */
        return GXC_USAGE;
    *out = NULL;
    Escape setup;
    escape_push(&setup);
    if (setjmp(setup.target) == 0) {
        c->arena = arena_create();
        c->scratch = arena_create();
        c->result = ARENA_NEW(c->arena, gxc_result);
        c->result->arena = c->arena;
        c->name = name != NULL ? name : "input";
        c->input = input;
        c->size = size;
        c->diag = diag_create(c->arena, c->name, input != NULL ? input : "",
                              input != NULL ? size : 0);
        Escape e;
        escape_push(&e);
        if (setjmp(e.target) == 0) {
            compile_copy_options(c, options);
            compile_check_call(c);
            if (!compile_has_failed(c))
                compile_check_options(c);
            if (!compile_has_failed(c))
                work(c);
        }
        escape_pop(&e);
        if (e.kind != ESCAPE_NONE)
            finish_escape(c, &e);
        stage_end(&c->times);
        if (c->options.timing)
            report_timing(&c->times, c->codegen, c->diag);
        c->result->diagnostics = diag_render(c->diag, c->options.colour != 0);
        *out = c->result;
    } else {
        c->status = setup.kind == ESCAPE_MEMORY ? GXC_NO_MEMORY : GXC_BUG;
    }
    escape_pop(&setup);
    arena_destroy(c->scratch);
    codegen_destroy(c->codegen);
    planner_destroy(c->planner);
    for (size_t i = 0; c->module_arenas != NULL && i < c->target_count; i++)
        arena_destroy(c->module_arenas[i]);
    if (*out == NULL) {
        arena_destroy(c->arena);
        return c->status;
    }
    gxc_status st = status_of(c);
    if (st != GXC_OK) { /* nothing half made leaves the library */
        c->result->bytes = NULL;
        c->result->size = 0;
    }
    return st;
}

gxc_status gxc_compile(const char *name, const void *input, size_t size,
                       const gxc_options *options, gxc_result **out)
{
    Compile c = {.status = GXC_OK};
    return run(name, input, size, options, do_compile, &c, out);
}

gxc_status gxc_signature(const char *name, const void *input, size_t size,
                         const gxc_options *options, gxc_result **out)
{
    Compile c = {.status = GXC_OK};
    return run(name, input, size, options, do_signature, &c, out);
}

gxc_status gxc_evaluate(const char *name, const void *input, size_t size,
                        const gxc_options *options, size_t device_count,
                        size_t parameter_count, const gxc_array *inputs, gxc_result **out)
{
    Compile c = {.status = GXC_OK,
                 .device_count = device_count,
                 .parameter_count = parameter_count,
                 .inputs = inputs};
    return run(name, input, size, options, do_evaluate, &c, out);
}

void gxc_result_destroy(gxc_result *r)
{
    if (r != NULL)
        arena_destroy(r->arena);
}
