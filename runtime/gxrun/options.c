/* The command line of gxrun. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/gxrun/gxrun.h"

enum {
    KEY_DEVICE = 256,
    KEY_DEVICES,
    KEY_REPLICAS,
    KEY_PARTITIONS,
    KEY_RANK,
    KEY_WORLD,
    KEY_INPUT,
    KEY_OUTPUT,
    KEY_OUTPUTS,
    KEY_MANIFEST,
    KEY_COMPARE,
    KEY_HLO,
    KEY_RTOL,
    KEY_ATOL,
    KEY_BENCH,
    KEY_RUNS,
    KEY_GRAPHS,
    KEY_PROFILE,
    KEY_TUNE,
    KEY_INFO,
    KEY_MEMORY,
    KEY_TIMEOUT,
    KEY_MAX_INPUT,
    KEY_MAX_DEVICES,
    KEY_MAX_MEMORY,
    KEY_MAX_SECONDS,
    KEY_MAX_STEPS,
    KEY_MAX_STREAMS,
    KEY_NO_SANDBOX
};

const char *argp_program_version = "gxrun " GXC_VERSION;

static const struct argp_option table[] = {
    {NULL, 0, NULL, 0, "Where it runs", 1},
    {"device", KEY_DEVICE, "D", 0,
     "auto (a GPU if there is one, else the emulator), cuda, emu, emu:sm_80, ref", 0},
    {"devices", KEY_DEVICES, "N", 0,
     "replicas x partitions; where both are 1, N replicas", 0},
    {"replicas", KEY_REPLICAS, "R", 0, "instead of the module's number", 0},
    {"partitions", KEY_PARTITIONS, "P", 0, "instead of the module's number", 0},
    {"rank", KEY_RANK, "R", 0, "this process is rank R of --world=W", 0},
    {"world", KEY_WORLD, "W", 0, "processes, of which this is --rank=R", 0},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0,
     "how long to wait for a late rank (default 40)", 0},
    {NULL, 0, NULL, 0, "What goes in and out", 2},
    {"input", KEY_INPUT, "[NAME=]@FILE[:ARRAY]|[NAME=]random[:SEED]", 0,
     "a parameter, by name or order, or all that a .npz or .safetensors file has; "
     "{device} in FILE is the device number",
     0},
    {"output", KEY_OUTPUT, "@FILE", 0, "where a result goes, by order", 0},
    {"outputs", KEY_OUTPUTS, "DIR|FILE.npz|FILE.safetensors", 0,
     "where all results go, by name", 0},
    {"manifest", KEY_MANIFEST, "FILE", 0,
     "the key paths of parameters and results, as the Python package writes them", 0},
    {"quiet", 'q', NULL, 0, "no summary of the results", 0},
    {NULL, 0, NULL, 0, "Comparing", 3},
    {"compare", KEY_COMPARE, "ref|@FILE", 0, "with the evaluator, or with files by order",
     0},
    {"hlo", KEY_HLO, "FILE", 0, "the HLO to compare with: of a cubin, or before passes",
     0},
    {"rtol", KEY_RTOL, "X", 0, "relative tolerance (default: by type)", 0},
    {"atol", KEY_ATOL, "X", 0, "absolute tolerance (default: by type)", 0},
    {NULL, 0, NULL, 0, "Measuring and looking", 4},
    {"bench", KEY_BENCH, "FORM", OPTION_ARG_OPTIONAL,
     "run many times, print the time of one: text, json", 0},
    {"runs", KEY_RUNS, "N", 0, "run N times, each time with the same inputs (default 1)",
     0},
    {"graphs", KEY_GRAPHS, NULL, 0, "from the second run on, launch a CUDA graph", 0},
    {"profile", KEY_PROFILE, "FILE", 0,
     "write the time of every command as a trace (-: to standard output)", 0},
    {"tune", KEY_TUNE, "FILE", 0,
     "measure the kernels that gxc --emit=candidates gave the program, and put the "
     "fastest into FILE for gxc "
     "--tuning",
     0},
    {"info", KEY_INFO, "FORM", OPTION_ARG_OPTIONAL,
     "say what the program is instead of running it: text, json", 0},
    {"memory", KEY_MEMORY, "FORM", OPTION_ARG_OPTIONAL,
     "say what its memory is used for, when: text, json", 0},
    {NULL, 0, NULL, 0, "Limits and trust", 5},
    {"max-input", KEY_MAX_INPUT, "MIB", 0, "refuse HLO that is larger (default 4096)", 0},
    {"max-devices", KEY_MAX_DEVICES, "N", 0,
     "refuse programs for more devices in this process (default 1024)", 0},
    {"max-memory", KEY_MAX_MEMORY, "MIB", 0,
     "of an emulated program (default: what this machine has)", 0},
    {"max-seconds", KEY_MAX_SECONDS, "N", 0,
     "end a run that takes longer; 0: it may (default 3600)", 0},
    {"max-steps", KEY_MAX_STEPS, "N", 0,
     "threads and operations that the emulator runs (default 10^12)", 0},
    {"max-streams", KEY_MAX_STREAMS, "N", 0,
     "streams that the emulator has at a time (default 4096)", 0},
    {"no-sandbox", KEY_NO_SANDBOX, NULL, 0,
     "emulated kernels, which are machine code of the program, may do all that you can",
     0},
    {NULL, 0, NULL, 0, NULL, 0}};

/* Digits alone, so no sign and no space. */
static bool read_number(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && errno == 0;
}

static uint32_t positive(struct argp_state *state, const char *name, const char *text,
                         uint32_t least)
{
    enum { MOST = 1 << 20 };
    uint64_t n;
    if (!read_number(text, &n) || n < least || n > MOST) {
        argp_error(state, "--%s=%s: a number from %u to %d is expected", name, text,
                   least, MOST);
    }
    return (uint32_t)n;
}

static Form form(struct argp_state *state, const char *name, const char *text)
{
    bool is_json = text && strcmp(text, "json") == 0;
    if (text && !is_json && strcmp(text, "text") != 0) {
        argp_error(state, "--%s=%s: there is text and json", name, text);
    }
    return is_json ? FORM_JSON : FORM_TEXT;
}

static double tolerance(struct argp_state *state, const char *name, const char *text)
{
    double x = 0;
    if (!number_parse_double(text, strlen(text), &x) || !(x >= 0)) {
        argp_error(state, "--%s=%s: a number that is not negative is expected", name,
                   text);
    }
    return x;
}

static void push(Source **list, size_t *count, Source s)
{
    Source *longer = realloc(*list, (*count + 1) * sizeof s);
    if (!longer) {
        exit(complain(EXIT_WRONG, "no memory"));
    }
    longer[(*count)++] = s;
    *list = longer;
}

/* [NAME=]@FILE or [NAME=]random[:SEED] */
static void add_input(struct argp_state *state, Options *o, char *text)
{
    Source s = {0};
    char *value = text;
    char *equals = strchr(text, '=');
    if (*text != '@' && equals) {
        *equals = 0;
        s.name = text;
        value = equals + 1;
    }
    if (*value == '@' && value[1]) {
        s.file = value + 1;
    } else if (strncmp(value, "random", 6) == 0 && (!value[6] || value[6] == ':')) {
        s.has_seed = value[6] == ':';
        if (s.has_seed && !read_number(value + 7, &s.seed)) {
            argp_error(state, "--input=%s: random:SEED, SEED a number below 2^64", value);
        }
    } else {
        argp_error(state, "--input=%s: @FILE or random[:SEED] is expected", value);
    }
    push(&o->inputs, &o->input_count, s);
}

static void add_file(struct argp_state *state, const char *name, char *text,
                     Source **list, size_t *count)
{
    if (*text != '@' || !text[1]) {
        argp_error(state, "--%s=%s: @FILE is expected", name, text);
    }
    push(list, count, (Source){.file = text + 1});
}

/* The emulator reads it when it is loaded, wherever that is. */
static void set_variable(const char *name, uint64_t value)
{
    char text[24]; /* without the zeros in front that would make it octal */
    snprintf(text, sizeof text, "%" PRIu64, value);
    if (setenv(name, text, 1) != 0) {
        exit(complain(EXIT_WRONG, "no memory"));
    }
}

static void set_steps(struct argp_state *state, const char *text)
{
    uint64_t steps;
    if (!read_number(text, &steps) || steps == 0 ||
        steps >= UINT64_C(1000000000000000000)) {
        argp_error(state, "--max-steps=%s: a number from 1 to 10^18 - 1 is expected",
                   text);
    }
    set_variable("GXEMU_STEPS", steps);
}

/* What the evaluator would leave out without a word. */
static void check_reference(struct argp_state *state, const Options *o)
{
    const char *given = o->tune          ? "tune"
                        : o->profile     ? "profile"
                        : o->bench       ? "bench"
                        : o->runs        ? "runs"
                        : o->graphs      ? "graphs"
                        : o->has_rank    ? "rank"
                        : o->timeout     ? "timeout"
                        : o->most_memory ? "max-memory"
                        : o->no_sandbox  ? "no-sandbox"
                                         : o->of_emulator;
    if (given && strcmp(o->device, "ref") == 0) {
        argp_error(state,
                   "--%s: is for compiled programs, not for the reference evaluator",
                   given);
    }
}

static void check_device(struct argp_state *state, const char *text)
{
    static const char *const names[] = {"auto", "cuda", "emu", "ref"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            return;
        }
    }
    if (strncmp(text, "emu:", 4) != 0 || !text[4]) {
        argp_error(state, "--device=%s: there is auto, cuda, emu, emu:TARGET and ref",
                   text);
    }
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    Options *o = state->input;
    switch (key) {
    case KEY_DEVICE:
        check_device(state, text);
        o->device = text;
        break;
    case KEY_DEVICES:
        o->devices = positive(state, "devices", text, 1);
        break;
    case KEY_REPLICAS:
        o->replicas = positive(state, "replicas", text, 1);
        break;
    case KEY_PARTITIONS:
        o->partitions = positive(state, "partitions", text, 1);
        break;
    case KEY_RANK:
        o->rank = positive(state, "rank", text, 0);
        o->has_rank = true;
        break;
    case KEY_WORLD:
        o->world = positive(state, "world", text, 1);
        break;
    case KEY_TIMEOUT:
        o->timeout = positive(state, "timeout", text, 1);
        break;
    case KEY_INPUT:
        add_input(state, o, text);
        break;
    case KEY_OUTPUT:
        add_file(state, "output", text, &o->outputs, &o->output_count);
        break;
    case KEY_OUTPUTS:
        o->all_outputs = text;
        break;
    case KEY_MANIFEST:
        o->manifest = text;
        break;
    case KEY_COMPARE:
        if (strcmp(text, "ref") == 0) {
            o->compare_ref = true;
        } else {
            add_file(state, "compare", text, &o->compare, &o->compare_count);
        }
        break;
    case KEY_HLO:
        o->hlo = text;
        break;
    case KEY_RTOL:
        o->rtol = tolerance(state, "rtol", text);
        o->has_rtol = true;
        break;
    case KEY_ATOL:
        o->atol = tolerance(state, "atol", text);
        o->has_atol = true;
        break;
    case KEY_RUNS:
        o->runs = positive(state, "runs", text, 1);
        break;
    case KEY_GRAPHS:
        o->graphs = true;
        break;
    case KEY_BENCH:
        o->bench = form(state, "bench", text);
        break;
    case KEY_PROFILE:
        o->profile = text;
        break;
    case KEY_TUNE:
        o->tune = text;
        break;
    case KEY_INFO:
        o->info = form(state, "info", text);
        break;
    case KEY_MEMORY:
        o->memory = form(state, "memory", text);
        break;
    case KEY_MAX_INPUT:
        o->most_mib = positive(state, "max-input", text, 1);
        break;
    case KEY_MAX_DEVICES:
        o->most_devices = positive(state, "max-devices", text, 1);
        break;
    case KEY_MAX_MEMORY:
        o->most_memory = positive(state, "max-memory", text, 1);
        break;
    case KEY_MAX_SECONDS:
        o->most_seconds = positive(state, "max-seconds", text, 0);
        break;
    case KEY_MAX_STEPS:
        set_steps(state, text);
        o->of_emulator = "max-steps";
        break;
    case KEY_MAX_STREAMS:
        set_variable("GXEMU_STREAMS", positive(state, "max-streams", text, 1));
        o->of_emulator = "max-streams";
        break;
    case KEY_NO_SANDBOX:
        o->no_sandbox = true;
        break;
    case 'q':
        o->quiet = true;
        break;
    case ARGP_KEY_ARG:
        if (o->program) {
            argp_error(state, "one program is expected, found %s and %s", o->program,
                       text);
        }
        o->program = text;
        break;
    case ARGP_KEY_END:
        if (!o->program) {
            argp_error(state, "which program? give a cubin that gxc made, or HLO");
        }
        if (o->tune && (o->profile || o->bench || o->graphs || o->runs)) {
            argp_error(state,
                       "--tune runs once, without --bench, --profile, --graphs and "
                       "--runs");
        }
        if (o->tune && strcmp(o->tune, "-") == 0) {
            argp_error(state,
                       "--tune: a file is expected, which is read and written, found -");
        }
        check_reference(state, o);
        if (o->has_rank != (o->world > 0) || (o->has_rank && o->rank >= o->world)) {
            argp_error(state, "--rank=R --world=W go together, R less than W");
        }
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

void options_parse(Options *o, int argc, char **argv)
{
    static const struct argp argp = {
        .options = table,
        .parser = parse_option,
        .args_doc = "prog.cubin|prog.hlo",
        .doc = "Runs a program that gxc compiled, on a GPU or on the emulator, or HLO on "
               "the "
               "reference evaluator; prints its results and compares them."};
    memset(o, 0, sizeof *o);
    o->device = "auto";
    o->most_devices = 1024;
    o->most_seconds = 3600;
    argp_err_exit_status = EXIT_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, o) != 0) {
        exit(complain(EXIT_WRONG, "no memory"));
    }
}

void options_free(Options *o)
{
    free(o->inputs);
    free(o->outputs);
    free(o->compare);
}
