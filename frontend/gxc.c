/* The program gxc: options, files, exit codes. The compiler itself is libgxc (gxc.h). */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/gxc.h"
#include "ir/base/file.h"

static void print_version(FILE *out, struct argp_state *state)
{
    (void)state;
    const char *text = gxc_list("version");
    fputs(text != NULL ? text : "gxc " GXC_VERSION "\n", out);
}

void (*argp_program_version_hook)(FILE *out, struct argp_state *state) = print_version;

enum {
    KEY_TARGET = 256,
    KEY_EMIT,
    KEY_VERIFY,
    KEY_PRINT,
    KEY_REPLICAS,
    KEY_PARTITIONS,
    KEY_JOBS,
    KEY_PASSES,
    KEY_SKIP,
    KEY_LINT,
    KEY_PRINT_AFTER,
    KEY_DUMP_DIR,
    KEY_LIST,
    KEY_EXPLAIN,
    KEY_REPORT,
    KEY_TIMING,
    KEY_LIBRARIES,
    KEY_TILES,
    KEY_F32_DOTS,
    KEY_ASSEMBLER,
    KEY_CUDA,
    KEY_CACHE_DIR,
    KEY_EMBED_HLO,
    KEY_EMBED_PTX,
    KEY_EMBED_TILEIR,
    KEY_LINEINFO,
    KEY_FP_CONTRACT,
    KEY_SET,
    KEY_MODULE,
    KEY_TUNING,
    KEY_REQUIRE_TUNING,
    KEY_LIST_PASSES,
    KEY_LIST_OPS,
    KEY_LIST_TARGETS,
    KEY_LIST_UNSUPPORTED,
    KEY_LIST_SETTINGS,
    KEY_MAX_INPUT,
    KEY_MAX_ASSEMBLER_SECONDS,
    KEY_JSON,
};

static const struct argp_option rows[] = {
    {NULL, 0, NULL, 0, "What to make", 1},
    {"output", 'o', "FILE", 0, "Write to FILE (- is standard output)", 0},
    {"target", KEY_TARGET, "T", 0, "GPU (sm_90a, h100) or emu; may be repeated", 0},
    {NULL, 'O', "LEVEL", 0, "Optimisation: 0, 1 (default), 2", 0},
    {"emit", KEY_EMIT, "FORM", 0,
     "hlo, pb, dot, html, tile, llvm, ptx, cubin, tileir, plan, tuning or candidates "
     "instead of the artefact",
     0},
    {"module", KEY_MODULE, "NAME", 0,
     "Of several modules in a text or a folder, this one", 0},
    {"verify", KEY_VERIFY, NULL, 0, "Parse and verify only", 0},
    {"print", KEY_PRINT, "FORM", 0, "Form of hlo: default, long, short", 0},
    {"replicas", KEY_REPLICAS, "N", 0, "Replace the header's replica_count", 0},
    {"partitions", KEY_PARTITIONS, "N", 0, "Replace the header's num_partitions", 0},
    {"embed-hlo", KEY_EMBED_HLO, NULL, 0, "Put the text into the artefact", 0},
    {"embed-ptx", KEY_EMBED_PTX, NULL, 0,
     "Add PTX, of which the driver makes code on GPUs newer than the target", 0},
    {"embed-tileir", KEY_EMBED_TILEIR, NULL, 0,
     "The same, and bytecode of the kernels by CUDA Tile IR", 0},
    {"lineinfo", KEY_LINEINFO, NULL, 0,
     "Kernels name the input's lines, for profilers and compute-sanitizer", 0},
    {NULL, 0, NULL, 0, "How to make it", 2},
    {"jobs", KEY_JOBS, "N", 0, "Threads; never changes the result", 0},
    {"tuning", KEY_TUNING, "FILE", 0,
     "Configurations of kernels, as gxrun --tune and --emit=tuning write them", 0},
    {"require-tuning", KEY_REQUIRE_TUNING, NULL, 0,
     "A kernel that the file of --tuning does not know is an error", 0},
    {"libraries", KEY_LIBRARIES, "LIST", 0, "all, none, or of cublaslt,cudnn,cusolver",
     0},
    {"tiles", KEY_TILES, "WAY", 0, "Products on tensor cores: auto, gx, tileir, none", 0},
    {"f32-dots", KEY_F32_DOTS, "FORM", 0, "Products of f32: tf32 or f32", 0},
    {"assembler", KEY_ASSEMBLER, "A", 0, "nvjitlink or ptxas", 0},
    {"max-assembler-seconds", KEY_MAX_ASSEMBLER_SECONDS, "N", 0,
     "Take -O1 for kernels at which ptxas takes more processor time; default 600", 0},
    {"cuda", KEY_CUDA, "DIR", 0, "CUDA toolkit or its wheels", 0},
    {"fp-contract", KEY_FP_CONTRACT, "off", 0, "Never fuse a*b+c", 0},
    {"cache-dir", KEY_CACHE_DIR, "DIR", 0, "Keep compiled kernels there", 0},
    {NULL, 0, NULL, 0, "Seeing inside", 3},
    {"passes", KEY_PASSES, "A,B", 0, "Run only these passes (none: none)", 0},
    {"skip", KEY_SKIP, "A,B", 0, "Leave these passes out", 0},
    {"max-input", KEY_MAX_INPUT, "MIB", 0, "Refuse larger inputs; default 4096", 0},
    {"set", KEY_SET, "NAME=VALUE", 0, "A switch or threshold of --list-settings", 0},
    {"lint", KEY_LINT, NULL, 0, "Check after each pass that it kept what it must", 0},
    {"print-after", KEY_PRINT_AFTER, "PASS", 0, "Show the module after a pass, or all",
     0},
    {"dump-dir", KEY_DUMP_DIR, "DIR", 0, "Write what passes change into DIR", 0},
    {"report", KEY_REPORT, "FORM", OPTION_ARG_OPTIONAL,
     "Numbers on standard output: text, json", 0},
    {"timing", KEY_TIMING, NULL, 0, "Time by stage and pass on standard error", 0},
    {"list-passes", KEY_LIST_PASSES, NULL, 0, "Passes", 0},
    {"list-ops", KEY_LIST_OPS, NULL, 0, "Opcodes; this and the next four list and exit",
     0},
    {"list-targets", KEY_LIST_TARGETS, NULL, 0, "Targets", 0},
    {"list-settings", KEY_LIST_SETTINGS, NULL, 0, "Settings of passes", 0},
    {"list-unsupported", KEY_LIST_UNSUPPORTED, NULL, 0, "What gxc cannot do yet", 0},
    {"json", KEY_JSON, NULL, 0, "The list as JSON", 0},
    {"explain", KEY_EXPLAIN, "OPCODE", 0, "What an opcode means", 0},
    {NULL, 'v', NULL, 0, "Say what is done, on a terminal", 0},
    {0},
};

typedef struct Request {
    gxc_options options;
    const char *input, *output, *report, *list, *explain;
    bool verbose, json;
    size_t most_mib; /* of the input; 0: not given */
    const char **targets, **settings;
} Request;

/* Digits alone, so no sign and no space. */
static long parse_number(struct argp_state *state, const char *option, const char *text,
                         long least, long most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value < least ||
        value > most)
        argp_error(state, "%s%s: a number from %ld to %ld is expected", option, text,
                   least, most);
    return value;
}

static long parse_count(struct argp_state *state, const char *option, const char *text,
                        long least)
{
    return parse_number(state, option, text, least, 1 << 20);
}

static int no_memory(void)
{
    fputs("gxc: out of memory\n", stderr);
    return GXC_INVALID;
}

static const char **append(const char **list, size_t *count, const char *value)
{
    const char **grown = realloc((void *)list, (*count + 1) * sizeof *list);
    if (grown == NULL) {
        exit(no_memory());
    }
    grown[(*count)++] = value;
    return grown;
}

/* Where the text of an option goes as it stands; NULL: it is no such option. */
static const char **text_option(gxc_options *o, int key)
{
    switch (key) {
    case KEY_EMIT:
        return &o->emit;
    case KEY_PRINT:
        return &o->print;
    case KEY_PASSES:
        return &o->passes;
    case KEY_SKIP:
        return &o->skip;
    case KEY_PRINT_AFTER:
        return &o->print_after;
    case KEY_DUMP_DIR:
        return &o->dump_dir;
    case KEY_TILES:
        return &o->tiles;
    case KEY_LIBRARIES:
        return &o->libraries;
    case KEY_F32_DOTS:
        return &o->f32_dots;
    case KEY_ASSEMBLER:
        return &o->assembler;
    case KEY_MODULE:
        return &o->module;
    case KEY_TUNING:
        return &o->tuning;
    case KEY_CUDA:
        return &o->cuda;
    case KEY_CACHE_DIR:
        return &o->cache_dir;
    default:
        return NULL;
    }
}

/* What an option sets to 1; NULL: none. */
static int *flag_option(gxc_options *o, int key)
{
    switch (key) {
    case KEY_VERIFY:
        return &o->verify_only;
    case KEY_LINT:
        return &o->lint;
    case KEY_TIMING:
        return &o->timing;
    case KEY_EMBED_HLO:
        return &o->embed_hlo;
    case KEY_EMBED_PTX:
        return &o->embed_ptx;
    case KEY_EMBED_TILEIR:
        return &o->embed_tileir;
    case KEY_LINEINFO:
        return &o->line_info;
    case KEY_REQUIRE_TUNING:
        return &o->require_tuning;
    default:
        return NULL;
    }
}

/* The list that an option asks for; NULL: none. */
static const char *listed(int key)
{
    switch (key) {
    case KEY_LIST_PASSES:
        return "passes";
    case KEY_LIST_OPS:
        return "ops";
    case KEY_LIST_TARGETS:
        return "targets";
    case KEY_LIST_SETTINGS:
        return "settings";
    case KEY_LIST_UNSUPPORTED:
        return "unsupported";
    default:
        return NULL;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    Request *r = state->input;
    gxc_options *o = &r->options;
    const char **text = text_option(o, key), *list = listed(key);
    int *flag = flag_option(o, key);
    if (text != NULL)
        *text = arg;
    if (flag != NULL)
        *flag = 1;
    if (list != NULL)
        r->list = list;
    if (text != NULL || flag != NULL || list != NULL)
        return 0;
    switch (key) {
    case 'o':
        r->output = arg;
        break;
    case 'O':
        o->opt_level = (int)parse_number(state, "-O", arg, 0, 2);
        o->opt_level_set = 1;
        break;
    case 'v':
        r->verbose = true;
        break;
    case KEY_TARGET:
        r->targets = append(r->targets, &o->target_count, arg);
        break;
    case KEY_REPLICAS:
        o->replicas = parse_count(state, "--replicas=", arg, 1);
        break;
    case KEY_PARTITIONS:
        o->partitions = parse_count(state, "--partitions=", arg, 1);
        break;
    case KEY_JOBS:
        o->jobs = (int)parse_count(state, "--jobs=", arg, 1);
        break;
    case KEY_MAX_INPUT:
        r->most_mib = (size_t)parse_count(state, "--max-input=", arg, 1);
        break;
    case KEY_MAX_ASSEMBLER_SECONDS:
        o->max_assembler_seconds =
            (uint32_t)parse_count(state, "--max-assembler-seconds=", arg, 1);
        break;
    case KEY_JSON:
        r->json = true;
        break;
    case KEY_SET:
        r->settings = append(r->settings, &o->setting_count, arg);
        break;
    case KEY_REPORT:
        r->report = arg != NULL ? arg : "text";
        if (strcmp(r->report, "text") != 0 && strcmp(r->report, "json") != 0)
            argp_error(state, "--report takes text or json, not \"%s\"", arg);
        break;
    case KEY_FP_CONTRACT:
        if (strcmp(arg, "off") != 0 && strcmp(arg, "on") != 0)
            argp_error(state, "--fp-contract takes on or off, not \"%s\"", arg);
        o->fp_contract_off = strcmp(arg, "off") == 0;
        break;
    case KEY_EXPLAIN:
        r->explain = arg;
        break;
    case ARGP_KEY_ARG:
        if (r->input != NULL)
            argp_error(state, "one input only; found %s and %s", r->input, arg);
        r->input = arg;
        break;
    case ARGP_KEY_END:
        if (r->input == NULL && r->list == NULL && r->explain == NULL)
            argp_error(state, "no input file");
        if (r->json && r->list == NULL)
            argp_error(state, "--json is for lists; it needs one of --list-passes, "
                              "--list-ops and their like");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* The whole file; NULL after a message. */
static void *read_all(const Request *r, size_t *size)
{
    void *data;
    size_t mib = r->most_mib != 0 ? r->most_mib : FILE_MOST_MIB;
    int error = file_read(r->input, mib << 20, &data, size);
    if (error == EFBIG)
        fprintf(stderr,
                "gxc: cannot read %s: it has more than %zu MiB; --max-input=MIB allows "
                "more\n",
                r->input, mib);
    else if (error != 0)
        fprintf(stderr, "gxc: cannot read %s: %s\n", r->input, strerror(error));
    return data;
}

/* False after a message. */
static bool write_file(const char *name, const void *data, size_t size)
{
    if (strcmp(name, "-") == 0) {
        fwrite(data, 1, size, stdout);
        return file_flush_output("gxc");
    }
    int error = file_write(name, &(FilePart){data, size}, 1);
    if (error != 0)
        fprintf(stderr, "gxc: cannot write %s: %s\n", name, strerror(error));
    return error == 0;
}

/* The input's name with what is made of it (artefacts are cubins) as its ending. */
static char *default_output(const char *input, const char *emit)
{
    bool is_artefact = emit == NULL || strcmp(emit, "candidates") == 0;
    const char *ending = is_artefact ? "cubin" : emit;
    const char *base = strcmp(input, "-") == 0 ? "out" : input;
    size_t length = strlen(base);
    const char *dot = strrchr(base, '.'), *slash = strrchr(base, '/');
    if (dot != NULL && dot != base && (slash == NULL || dot > slash + 1))
        length = (size_t)(dot - base);
    char *name = malloc(length + strlen(ending) + 2);
    if (name != NULL) {
        memcpy(name, base, length);
        name[length] = '.';
        strcpy(name + length + 1, ending);
    }
    return name;
}

static void show_progress(void *user, const char *stage, size_t done, size_t of)
{
    (void)user;
    if (of > 0 && done > 0)
        fprintf(stderr, "\r\033[Kgxc: %s %zu of %zu", stage, done, of);
    else
        fprintf(stderr, "\r\033[Kgxc: %s", stage);
}

static int write_list(const Request *r)
{
    if (r->list != NULL) {
        char name[32];
        snprintf(name, sizeof name, "%s%s", r->list, r->json ? ".json" : "");
        const char *text = gxc_list(name);
        return text != NULL && write_file("-", text, strlen(text)) ? 0 : GXC_INVALID;
    }
    char *text = gxc_explain(r->explain);
    if (text == NULL) {
        fprintf(stderr, "gxc: unknown opcode \"%s\"; gxc --list-ops names them\n",
                r->explain);
        return GXC_USAGE;
    }
    bool ok = write_file("-", text, strlen(text));
    gxc_free(text);
    return ok ? 0 : GXC_INVALID;
}

static bool writes_text(const gxc_options *o)
{
    static const char *const binary[] = {"cubin", "pb", "tileir", "candidates"};
    for (size_t i = 0; o->emit != NULL && i < sizeof binary / sizeof *binary; i++) {
        if (strcmp(o->emit, binary[i]) == 0)
            return false;
    }
    return o->emit != NULL;
}

static int compile_file(const Request *r)
{
    size_t size = 0;
    char *input = read_all(r, &size);
    if (input == NULL)
        return GXC_INVALID;
    gxc_options o = r->options;
    o.struct_size = sizeof o;
    o.targets = r->targets;
    o.report = r->report != NULL;
    o.max_unpacked_bytes = r->most_mib << 20;
    o.settings = r->settings;
    o.colour = isatty(STDERR_FILENO);
    if (o.colour && (r->verbose || (!writes_text(&o) && !o.verify_only)))
        o.progress = show_progress;
    gxc_result *result;
    gxc_status st = gxc_compile(strcmp(r->input, "-") == 0 ? "<stdin>" : r->input, input,
                                size, &o, &result);
    if (o.progress != NULL)
        fputs("\r\033[K", stderr);
    if (result == NULL) {
        free(input);
        return no_memory();
    }
    fputs(gxc_result_diagnostics(result), stderr);
    size_t bytes = 0;
    const void *data = gxc_result_bytes(result, &bytes);
    if (st == GXC_OK && data != NULL) {
        char *name = NULL;
        const char *output = r->output;
        if (output == NULL)
            output = writes_text(&o) ? "-" : (name = default_output(r->input, o.emit));
        bool is_tuning =
            output != NULL && o.tuning != NULL && file_is_same(o.tuning, output);
        if (output != NULL && (is_tuning || file_is_same(r->input, output))) {
            fprintf(stderr, "gxc: the output %s is the %s; give another with -o\n",
                    output, is_tuning ? "file of --tuning" : "input");
            st = GXC_USAGE;
        } else if (output == NULL || !write_file(output, data, bytes))
            st = GXC_INVALID;
        else if (o.target_count == 0 && o.emit == NULL && r->report == NULL)
            fprintf(stderr, "gxc: wrote %s for sm_90a and the emulator\n",
                    strcmp(output, "-") == 0 ? "standard output" : output);
        free(name);
    }
    if (st == GXC_OK && r->report != NULL) {
        const char *text = gxc_result_report(result, r->report);
        if (!write_file("-", text, strlen(text)))
            st = GXC_INVALID;
    }
    gxc_result_destroy(result);
    free(input);
    return st;
}

/* A folder of XLA's dumps stands for the file of it that is meant. */
static int compile(const Request *r)
{
    struct stat st;
    if (strcmp(r->input, "-") == 0 || stat(r->input, &st) != 0 || !S_ISDIR(st.st_mode))
        return compile_file(r);
    char *message;
    Request file = *r;
    char *path = gxc_folder_program(r->input, r->options.module, &message);
    if (path == NULL) {
        fprintf(stderr, "gxc: %s\n", message != NULL ? message : "out of memory");
        gxc_free(message);
        return GXC_INVALID;
    }
    file.input = path;
    file.options.module = NULL;
    int code = compile_file(&file);
    gxc_free(path);
    return code;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = rows,
        .parser = parse_option,
        .args_doc = "PROG.hlo|PROG.pb|PROG.mlir|FOLDER|-",
        .doc =
            "Compiles HLO ahead of time into one file with GPU kernels and the plan to "
            "run "
            "them.\vExit: 0 done, 1 the input is wrong, 2 usage, 3 a bug of gxc, 4 not "
            "supported yet.",
    };
    file_begin_process("gxc");
    argp_err_exit_status = GXC_USAGE;
    Request r = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &r) != 0)
        return no_memory();
    if (r.report != NULL &&
        (r.output != NULL ? file_is_output(r.output) : writes_text(&r.options))) {
        fputs("gxc: --report and what is made both go to standard output; give -o FILE\n",
              stderr);
        return GXC_USAGE;
    }
    int status = r.list != NULL || r.explain != NULL ? write_list(&r) : compile(&r);
    free((void *)r.targets);
    free((void *)r.settings);
    return status == GXC_NO_MEMORY ? GXC_INVALID : status;
}
