/* One module, checked in every way that must agree: print and parse, the evaluator before and
 * after every pass, and the compiled program on the emulator. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/gxc.h"
#include "frontend/hlo/parse.h"
#include "frontend/proto/proto.h"
#include "ir/base/bug.h"
#include "ir/eval/eval.h"
#include "ir/print/print.h"
#include "ir/verify/verify.h"
#include "passes/dynamic/dynamic.h"
#include "passes/pipeline.h"
#include "passes/settings.h"
#include "tests/random/emulate.h"
#include "tests/random/keep.h"
#include "tests/random/random.h"
#include "tests/random/tolerance.h"

const char *const verdict_names[VERDICT_COUNT] = {
    "good", "unsupported", "invalid", "form", "pass", "bug", "run", "different", "dead"};

void (*random_keep)(const KeptProgram *);

enum { MOST_SETTINGS = 200 };

typedef struct Check {
    Arena *arena;
    const char *text;
    const CheckOptions *options;
    char *message;
    size_t size;
    Module *module; /* as parsed, with the interface that the program will have */
    EvalDevice reference[MOST_DEVICES]; /* arguments and the evaluator's results */
    uint32_t devices;
    const Tolerance *tolerances;         /* of the arrays of a result */
    Verdict verdict;                     /* of the pass that runs */
    const char *settings[MOST_SETTINGS]; /* "name=value" */
    size_t setting_count;
    bool is_products; /* of a module that -w made */
} Check;

static Verdict found(Check *c, Verdict v, const char *what, const char *detail)
{
    snprintf(c->message, c->size, "%s%s", what, detail);
    return v;
}

/* Text, or bytes of a proto. */
static Module *parse_bytes(Check *c, const char *bytes, size_t size, Verdict otherwise,
                           const char *what)
{
    Diag *d = diag_create(c->arena, "random.hlo", bytes, size);
    Module *m =
        proto_is(bytes, size) && !proto_to_text(d) ? NULL : hlo_parse(c->arena, d);
    Arena *scratch = arena_create();
    if (m != NULL && !module_verify(m, LEVEL_WELL_FORMED, scratch))
        m = NULL;
    PassContext cx = {.scratch = scratch};
    if (m != NULL && c->options->replicas != 0)
        m->config.replica_count = c->options->replicas;
    if (m != NULL && c->options->partitions != 0)
        m->config.num_partitions = c->options->partitions;
    if (m != NULL)
        pass_dynamic_interface(m, &cx);
    arena_destroy(scratch);
    bool is_unsupported = d->unsupported_count == d->error_count;
    if (m == NULL)
        c->verdict = found(c, is_unsupported ? VERDICT_UNSUPPORTED : otherwise,
                           is_unsupported ? "" : what, diag_render(d, false));
    return m;
}

static Module *parse(Check *c, const char *text, Verdict otherwise, const char *what)
{
    return parse_bytes(c, text, strlen(text), otherwise, what);
}

/* Where control edges lead to what nobody else reads, printing it moves it once, as it does in XLA's order. */
static bool is_settled(Check *c, const char *once, const char *twice)
{
    if (strstr(once, "control-predecessors") == NULL)
        return false;
    Module *m =
        hlo_parse(c->arena, diag_create(c->arena, "again.hlo", twice, strlen(twice)));
    return m != NULL &&
           strcmp(twice, module_print(c->arena, m, PRINT_DEFAULT, NULL)) == 0;
}

static bool same_text(Check *c, const char *what, const char *once, const char *twice)
{
    if (strcmp(once, twice) == 0 || is_settled(c, once, twice))
        return true;
    size_t at = 0;
    while (once[at] == twice[at])
        at++;
    at = at > 40 ? at - 40 : 0;
    c->verdict =
        found(c, VERDICT_FORM, what,
              arena_printf(c->arena, "\"%.90s\", then \"%.90s\"", once + at, twice + at));
    return false;
}

/* -- arguments -------------------------------------------------------------------------------- */

static void fill_special(DType t, char *to, Random *r)
{
    static const double numbers[] = {0,     -0.0,   1,     -1,    0.5,
                                     1e-40, -1e-40, 65504, -3e38, 1e30};
    size_t bytes = dtype_info[t].storage;
    int64_t kind = random_below(r, 10);
    DType part = number_component(t);
    size_t step = dtype_info[part].storage;
    for (size_t i = 0; i < bytes; i += step) {
        if (dtype_info[t].class == DTC_PRED)
            to[i] = (char)random_below(r, 2);
        else if (kind == 0)
            number_highest(part, to + i);
        else if (kind == 1)
            number_lowest(part, to + i);
        else if (kind == 2 && (dtype_info[t].class == DTC_FLOAT || bytes != step))
            number_set_double(part, to + i, NAN);
        else if (kind < 6)
            number_set_double(part, to + i, numbers[random_below(r, 10)]);
        else if (dtype_info[part].class == DTC_SINT)
            number_set_int(part, to + i, (int64_t)random_bits(r));
        else
            number_store(part, to + i,
                         random_bits(r) &
                             (dtype_info[part].bits == 64
                                  ? UINT64_MAX
                                  : (UINT64_C(1) << dtype_info[part].bits) - 1));
    }
}

static void fill_small(DType t, char *to, Random *r)
{
    const DTypeInfo *info = &dtype_info[t];
    double x = (double)random_below(r, 17) / 4 - 2;
    if (info->class == DTC_PRED)
        *to = (char)random_below(r, 2);
    else if (info->class == DTC_SINT)
        number_set_int(t, to,
                       info->bits < 4 ? -random_below(r, 2) : random_below(r, 16) - 8);
    else if (info->class == DTC_UINT)
        number_set_int(t, to, random_below(r, info->bits < 4 ? 2 : 16));
    else if (info->class == DTC_COMPLEX)
        number_set_complex(t, to, x, (double)random_below(r, 17) / 4 - 2);
    else
        number_set_double(t, to, info->special == SPECIAL_E8M0 ? 1 + (x < 0) : x);
}

/* The devices of a program get different arguments, but for single values, which may decide where
 * it goes. */
static void fill(Literal *l, const char *name, uint64_t seed, uint32_t device)
{
    Random r = {seed + (l->count > 1 ? device * UINT64_C(7919) : 0)};
    for (const char *s = name; *s != '\0'; s++)
        r.state = r.state * 31 + (unsigned char)*s;
    for (uint32_t i = 0; shape_is_tuple(l->shape) && i < l->shape->rank; i++)
        fill(l->elements[i], name, r.state + i, device);
    DType t = l->shape->dtype;
    size_t size = dtype_info[t].storage;
    bool is_special = strncmp(name, "sp", 2) == 0 && isdigit((unsigned char)name[2]);
    for (int64_t i = 0; shape_is_array(l->shape) && i < l->count; i++) {
        char *to = (char *)l->data + (size_t)i * size;
        if (is_special)
            fill_special(t, to, &r);
        else
            fill_small(t, to, &r);
    }
}

static const Literal *make_argument(Check *c, const Instruction *inst, uint32_t device)
{
    Literal *l = literal_create(c->arena, inst->shape);
    fill(l, inst->name, c->options->data, device);
    return l;
}

static void make_arguments(Check *c)
{
    const Computation *e = c->module->entry;
    for (uint32_t d = 0; d < c->devices; d++) {
        const Literal **arguments =
            ARENA_ARRAY(c->arena, const Literal *, e->parameter_count + 1u);
        for (uint32_t p = 0; p < e->parameter_count; p++)
            arguments[p] = make_argument(c, e->parameters[p], d);
        c->reference[d].argument_count = e->parameter_count;
        c->reference[d].arguments = arguments;
    }
}

/* rounding: 0, or a seed (EvalOptions) */
static EvalStatus evaluate_rounded(const Check *c, const Module *m, uint32_t rounding,
                                   EvalDevice *out, Arena *a, const char **error)
{
    EvalOptions o = {
        .step_limit = 1000000, .rounding = rounding, .rounding_tf32 = rounding != 0};
    for (uint32_t d = 0; d < c->devices; d++)
        out[d] = c->reference[d];
    return module_evaluate(m, &o, c->devices, out, a, error);
}

static EvalStatus evaluate(const Check *c, const Module *m, EvalDevice *out, Arena *a,
                           const char **error)
{
    return evaluate_rounded(c, m, 0, out, a, error);
}

/* -- comparing -------------------------------------------------------------------------------- */

static bool component_close(double got, double want, double scale, Tolerance t)
{
    if (isnan(want) || isnan(got) || isinf(want) || isinf(got))
        return (isnan(want) && isnan(got)) || want == got;
    return fabs(got - want) <= t.atol + t.rtol * scale;
}

double literal_largest(const Literal *l)
{
    DType part = number_component(l->shape->dtype);
    int parts = l->shape->dtype == part ? 1 : 2;
    double most = 0;
    for (int64_t i = 0; dtype_info[part].class == DTC_FLOAT && i < l->count * parts;
         i++) {
        double x = fabs(number_get_double(
            part, (char *)l->data + (size_t)i * dtype_info[part].storage));
        most = isfinite(x) && x > most ? x : most;
    }
    return most;
}

/* Relative to the largest value of the array: sums may cancel. */
static bool leaf_close(const Literal *got, const Literal *want, Tolerance tolerance,
                       char *what, size_t size)
{
    DType t = want->shape->dtype;
    size_t bytes = dtype_info[t].storage;
    DType part = number_component(t);
    bool real = dtype_info[part].class == DTC_FLOAT;
    int parts = t == part ? 1 : 2;
    double scale = literal_largest(want);
    for (int64_t i = 0; i < want->count * parts; i++) {
        const char *g = (char *)got->data + (size_t)i * (bytes / (size_t)parts);
        const char *w = (char *)want->data + (size_t)i * (bytes / (size_t)parts);
        bool ok = real ? component_close(number_get_double(part, g),
                                         number_get_double(part, w), scale, tolerance)
                       : memcmp(g, w, bytes) == 0;
        if (!ok) {
            char a[NUMBER_TEXT_MAX];
            char b[NUMBER_TEXT_MAX];
            number_print(part, g, true, a);
            number_print(part, w, true, b);
            snprintf(what, size, "%s element %lld of %lld: %s, wanted %s",
                     dtype_info[t].name, (long long)i, (long long)want->count, a, b);
            return false;
        }
    }
    return true;
}

/* *tolerances: of the arrays; steps behind those of this literal. */
static bool close(const Literal *got, const Literal *want, const Tolerance **tolerances,
                  char *what, size_t size)
{
    if (!shape_compatible(got->shape, want->shape)) {
        snprintf(what, size, "a result of another shape");
        return false;
    }
    if (shape_is_tuple(want->shape)) {
        for (uint32_t i = 0; i < want->shape->rank; i++) {
            if (!close(got->elements[i], want->elements[i], tolerances, what, size))
                return false;
        }
        return true;
    }
    const Tolerance *own = (*tolerances)++;
    return !shape_is_array(want->shape) || leaf_close(got, want, *own, what, size);
}

static bool device_close(const Check *c, uint32_t device, const Literal *got, char *what,
                         size_t size)
{
    const Tolerance *tolerances = c->tolerances;
    return close(got, c->reference[device].result, &tolerances, what, size);
}

/* Whether other roundings give other results: then nobody can say which of them is right. Where they differ by much
 * less than is allowed, what differs by more is wrong. */
static bool is_moved_by_rounding(Check *c)
{
    enum { SEEDS = 3, PART = 4 };
    bool moved = false;
    size_t leaves = (size_t)shape_leaf_count(c->module->entry->root->shape);
    Tolerance *strict = ARENA_ARRAY(c->arena, Tolerance, leaves + 1);
    for (size_t i = 0; i < leaves; i++)
        strict[i] =
            (Tolerance){c->tolerances[i].rtol / PART, c->tolerances[i].atol / PART};
    for (uint32_t seed = 1; seed <= SEEDS && !moved; seed++) {
        EvalDevice other[MOST_DEVICES];
        const char *error;
        char what[256];
        moved = evaluate_rounded(c, c->module, seed, other, c->arena, &error) != EVAL_OK;
        for (uint32_t d = 0; d < c->devices && !moved; d++) {
            const Tolerance *t = strict;
            moved =
                !close(other[d].result, c->reference[d].result, &t, what, sizeof what);
        }
    }
    return moved;
}

static size_t count_notes(const char *text)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, "note=\"")) != NULL; at++)
        n++;
    return n;
}

/* A proto holds the same module. */
static bool check_proto(Check *c)
{
    size_t size;
    const char *bytes = proto_print(c->arena, c->module, &size);
    Module *m = parse_bytes(c, bytes, size, VERDICT_FORM, "proto: ");
    return m != NULL &&
           same_text(c, "proto: ", module_print(c->arena, c->module, PRINT_LONG, NULL),
                     module_print(c->arena, m, PRINT_LONG, NULL));
}

/* The default form printed again is itself; what is read from the others computes the same.
 * (Their order of computations depends on the order that they were read in.) */
static bool check_forms(Check *c)
{
    static const PrintForm forms[] = {PRINT_DEFAULT, PRINT_LONG, PRINT_SHORT};
    static const char *const names[] = {"default form: ", "long form: ", "short form: "};
    const char *error = "";
    for (int i = 0; i < 3; i++) {
        const char *once = module_print(c->arena, c->module, forms[i], NULL);
        Module *m = parse(c, once, VERDICT_FORM, names[i]);
        /* XLA's order, which these forms keep, may put a computation before one that it calls. */
        if (m == NULL && forms[i] != PRINT_DEFAULT && c->options->allows_rounding &&
            strstr(c->message, "computation does not exist") != NULL)
            continue;
        EvalDevice got[MOST_DEVICES];
        if (m == NULL ||
            (forms[i] == PRINT_DEFAULT &&
             !same_text(c, names[i], once, module_print(c->arena, m, forms[i], NULL))))
            return false;
        if (forms[i] == PRINT_DEFAULT && count_notes(once) != count_notes(c->text)) {
            c->verdict =
                found(c, VERDICT_FORM, names[i], "has other frontend attributes");
            return false;
        }
        bool same = evaluate(c, m, got, c->arena, &error) == EVAL_OK;
        for (uint32_t d = 0; d < c->devices && same; d++)
            same = literal_equal(got[d].result, c->reference[d].result);
        if (!same) {
            c->verdict = found(c, VERDICT_FORM, names[i],
                               *error != '\0' ? error : "computes something else");
            return false;
        }
    }
    return true;
}

/* -- settings ---------------------------------------------------------------------------------- */

/* No product is too small for a kernel of our own, none is left whole. */
static void choose_products(Check *c, Random *r)
{
    static const char *const always[] = {"vector-dot-elements=1000000000", "tf32-work=0"};
    static const char *const pieces[] = {"split-products=1", "split-products=1",
                                         "split-products=2", "split-products=3",
                                         "split-products=16"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        c->settings[c->setting_count++] = always[i];
    c->settings[c->setting_count++] = pieces[random_below(r, 5)];
}

/* Of half of the modules some switches and thresholds are others than by default. */
static void choose_settings(Check *c)
{
    Random r = {c->options->data};
    for (size_t i = 0; i < c->options->setting_count; i++)
        c->settings[c->setting_count++] = c->options->settings[i];
    if (c->is_products)
        choose_products(c, &r);
    if (random_chance(&r, c->is_products ? 80 : 50))
        return;
    const Setting *s;
    for (size_t i = 0; (s = settings_row(i)) != NULL; i++) {
        int64_t least = s->least, most = s->most;
        int64_t some = random_below(&r, INT64_C(1) << random_below(&r, 24));
        int64_t value = random_chance(&r, 30)   ? least
                        : random_chance(&r, 30) ? most
                        : some < least          ? least
                        : some > most           ? most
                                                : some;
        if (random_chance(&r, 20))
            c->settings[c->setting_count++] =
                arena_printf(c->arena, "%s=%lld", s->name, (long long)value);
    }
}

/* -- passes ----------------------------------------------------------------------------------- */

/* Dumps can be read again, whatever passes have run. */
static void check_dump(Check *c, const char *name, const Module *m, Arena *a)
{
    const char *once = module_print(a, m, PRINT_DEFAULT, NULL);
    Diag *d = diag_create(a, "dump.hlo", once, strlen(once));
    Module *again = hlo_parse(a, d);
    if (again == NULL)
        c->verdict = found(c, VERDICT_FORM, name, diag_render(d, false));
    else
        same_text(c, name, once, module_print(a, again, PRINT_DEFAULT, NULL));
}

static void after_pass(void *user, unsigned number, const char *pass, PassResult result,
                       const Module *m)
{
    (void)number;
    Check *c = user;
    if (result != PASS_CHANGED || c->verdict != VERDICT_GOOD)
        return;
    Arena *a = arena_scratch();
    EvalDevice got[MOST_DEVICES];
    const char *error = "";
    char what[256];
    char name[300];
    EvalStatus st = evaluate(c, m, got, a, &error);
    snprintf(name, sizeof name, "after %s: ", pass);
    if (st != EVAL_OK)
        c->verdict = found(c, VERDICT_PASS, name, error);
    for (uint32_t d = 0; d < c->devices && st == EVAL_OK; d++) {
        if (!device_close(c, d, got[d].result, what, sizeof what)) {
            c->verdict = found(c, VERDICT_PASS, name, what);
            break;
        }
    }
    if (c->verdict == VERDICT_GOOD && c->options->data % 4 == 0)
        check_dump(c, name, m, a);
    arena_destroy(a);
}

static bool check_passes(Check *c)
{
    static const char *const targets[] = {"sm_90a", "sm_80", "sm_100a"};
    PassSettings settings;
    settings_init(&settings);
    settings.level = c->options->level;
    for (size_t i = 0; i < c->setting_count; i++) {
        if (settings_set(&settings, c->settings[i]) != SETTING_OK) {
            c->verdict = found(c, VERDICT_BUG, "refused: ", c->settings[i]);
            return false;
        }
    }
    Target target;
    const char *named = c->options->target;
    target_find(named != NULL ? named : targets[c->options->data % 3], &target);
    Arena *scratch = arena_scratch();
    Module *m = parse(c, c->text, VERDICT_INVALID, "");
    PassContext cx = {.scratch = scratch,
                      .target = &target,
                      .settings = &settings,
                      .opt_level = c->options->level,
                      .lint = true};
    PipelineOptions o = {
        .skip = c->options->skip, .verify_each = true, .after = after_pass, .user = c};
    c->verdict = VERDICT_GOOD;
    bool ok = pipeline_run(m, &cx, &o);
    if (!ok && c->verdict == VERDICT_GOOD) {
        bool is_refused =
            o.current != NULL && strcmp(o.current, "scheduling-groups") == 0;
        c->verdict = m->diag->unsupported_count == m->diag->error_count
                         ? VERDICT_UNSUPPORTED
                     : is_refused ? VERDICT_INVALID /* what the text asks for */
                                  : VERDICT_PASS;
        found(c, c->verdict,
              arena_printf(c->arena, "verifier after %s: ", o.current ? o.current : "?"),
              diag_render(m->diag, false));
    }
    arena_destroy(scratch);
    return c->verdict == VERDICT_GOOD;
}

/* -- the emulator ------------------------------------------------------------------------------ */

static Verdict run_artefact(Check *c, const void *bytes, size_t size)
{
    Literal *results[MOST_DEVICES];
    for (uint32_t d = 0; d < c->devices; d++)
        results[d] = literal_copy(c->arena, c->reference[d].result);
    EmulatorRun r = {.bytes = bytes,
                     .size = size,
                     .devices = c->devices,
                     .arguments = c->reference,
                     .results = results,
                     .donates = c->options->data % 2 == 0};
    const char *wrong = emulate(&r, c->arena);
    char what[256];
    if (wrong != NULL)
        return found(c, VERDICT_RUN, "", wrong);
    for (uint32_t d = 0; d < c->devices; d++) {
        if (!device_close(c, d, results[d], what, sizeof what))
            return found(c, VERDICT_DIFFERENT, "", what);
    }
    if (random_keep != NULL && c->devices == 1)
        random_keep(&(KeptProgram){.bytes = bytes,
                                   .size = size,
                                   .seed = c->options->data,
                                   .device = &c->reference[0],
                                   .tolerances = c->tolerances});
    return VERDICT_GOOD;
}

/* What gxc makes of a text: an artefact for the emulator, or `emit`. */
static gxc_status compile(const Check *c, const char *text, const char *emit,
                          const char *passes, gxc_result **out)
{
    const CheckOptions *given = c->options;
    const char *targets[] = {"emu", given->target};
    const char *libraries = c->is_products ? "none" : NULL,
               *tiles = c->is_products ? "gx" : NULL;
    gxc_options o = {.struct_size = sizeof o,
                     .targets = targets,
                     .target_count = given->target != NULL ? 2 : 1,
                     .emit = emit,
                     .passes = passes,
                     .skip = passes == NULL ? c->options->skip : NULL,
                     .opt_level = c->options->level,
                     .opt_level_set = 1,
                     .jobs = 1,
                     .libraries = given->libraries != NULL ? given->libraries : libraries,
                     .tiles = given->tiles != NULL ? given->tiles : tiles,
                     .replicas = given->replicas,
                     .partitions = given->partitions,
                     .settings = c->settings,
                     .setting_count = c->setting_count,
                     .replay_dir = "/nonexistent"};
    return gxc_compile("random.hlo", text, strlen(text), &o, out);
}

static Verdict check_artefact(Check *c, const char *text, const char *passes)
{
    gxc_result *r;
    size_t size = 0;
    gxc_status st = compile(c, text, NULL, passes, &r);
    const void *bytes = st == GXC_OK ? gxc_result_bytes(r, &size) : NULL;
    Verdict v;
    if (bytes != NULL)
        v = run_artefact(c, bytes, size);
    else if (r == NULL)
        v = found(c, VERDICT_BUG, "no memory", "");
    else
        v = found(c,
                  st == GXC_UNSUPPORTED ? VERDICT_UNSUPPORTED
                  : st == GXC_INVALID   ? VERDICT_INVALID
                                        : VERDICT_BUG,
                  "", gxc_result_diagnostics(r));
    gxc_result_destroy(r);
    return v;
}

/* The same kernels, made in another way. */
static Verdict check_configured(Check *c)
{
    gxc_result *r;
    size_t size = 0;
    const void *bytes = NULL;
    const char *changed = NULL;
    if (compile(c, c->text, "hlo", NULL, &r) == GXC_OK)
        bytes = gxc_result_bytes(r, &size);
    if (bytes != NULL)
        changed = change_kernels(c->arena, arena_text(c->arena, bytes, size),
                                 c->options->target, c->options->data);
    gxc_result_destroy(r);
    Verdict v = changed != NULL ? check_artefact(c, changed, "none")
                                : found(c, VERDICT_BUG, "no dump", "");
    if (v != VERDICT_GOOD)
        found(c, v, "configured otherwise: ", arena_printf(c->arena, "%s", c->message));
    return v;
}

static Verdict check_program(Check *c)
{
    Verdict v = check_artefact(c, c->text, NULL);
    return v == VERDICT_GOOD && (c->is_products || c->options->data % 4 == 1)
               ? check_configured(c)
               : v;
}

static double elements_of(const Shape *s)
{
    double sum = 0;
    for (size_t i = 0; i < shape_leaf_count(s); i++) {
        int64_t n;
        if (shape_is_array(shape_leaf(s, i)) && shape_element_count(shape_leaf(s, i), &n))
            sum += (double)n;
    }
    return sum;
}

/* Roughly the elements that one evaluation looks at; loops count once. */
static double work_of(const Module *m)
{
    double work = 0;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            double product = 1, most = 0;
            for (uint32_t i = 0; i < inst->operand_count; i++) {
                double n = elements_of(inst->operands[i]->shape);
                product *= i < 2 ? n : 1;
                most = fmax(most, n);
            }
            double own = elements_of(inst->shape);
            bool is_product = inst->op == OP_DOT || inst->op == OP_CONVOLUTION ||
                              inst->op == OP_RAGGED_DOT || inst->op == OP_SCALED_DOT;
            work += is_product ? sqrt(product * own) : own + most;
        }
    }
    return work;
}

static Verdict check(Check *c)
{
    const char *error = "";
    c->module = parse(c, c->text, VERDICT_INVALID, "");
    if (c->module == NULL)
        return c->verdict;
    for (uint32_t i = 0; i < c->module->entry->parameter_count; i++) {
        if (shape_is_unbounded(c->module->entry->parameters[i]->shape))
            return found(c, VERDICT_UNSUPPORTED, "", "an argument without a bound");
    }
    if (c->options->allows_rounding && strstr(c->text, " rng") != NULL)
        return found(c, VERDICT_UNSUPPORTED, "", "random numbers, in any order");
    int64_t devices = eval_device_count(c->module, NULL);
    if (devices < 1 || devices > MOST_DEVICES)
        return found(c, VERDICT_INVALID, "", "too many devices");
    c->devices = (uint32_t)devices;
    uint64_t most = c->options->most_work;
    if (most != 0 && work_of(c->module) * (double)devices > (double)most)
        return found(c, VERDICT_UNSUPPORTED, "", "too much work for the evaluator");
    c->tolerances = result_tolerances(c->module, c->text, c->arena);
    make_arguments(c);
    choose_settings(c);
    EvalStatus st = evaluate(c, c->module, c->reference, c->arena, &error);
    if (st != EVAL_OK)
        return found(c, st == EVAL_UNSUPPORTED ? VERDICT_UNSUPPORTED : VERDICT_INVALID,
                     "evaluator: ", error);
    if (!check_forms(c) || !check_proto(c))
        return c->verdict;
    Verdict v = check_passes(c) ? check_program(c) : c->verdict;
    bool differs = v == VERDICT_DIFFERENT ||
                   (v == VERDICT_PASS && strstr(c->message, ", wanted ") != NULL);
    return differs && c->options->allows_rounding && is_moved_by_rounding(c)
               ? VERDICT_GOOD
               : v;
}

Verdict check_module(const char *text, uint64_t data, int level, char *message,
                     size_t size)
{
    const char *target = random_keep != NULL ? "sm_90a" : NULL;
    return check_module_as(
        text, &(CheckOptions){.data = data, .level = level, .target = target}, message,
        size);
}

Verdict check_module_as(const char *text, const CheckOptions *options, char *message,
                        size_t size)
{
    Check *c = calloc(1, sizeof *c);
    volatile Verdict v = VERDICT_GOOD;
    message[0] = '\0';
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        c->arena = arena_scratch();
        c->text = text;
        c->is_products = strstr(text, "HloModule " PRODUCTS_NAME) != NULL;
        c->options = options;
        c->message = message;
        c->size = size;
        v = check(c);
        arena_destroy(c->arena);
    }
    escape_pop(&e);
    if (e.kind != ESCAPE_NONE) {
        snprintf(message, size, "%s", e.message);
        v = e.kind == ESCAPE_UNSUPPORTED ? VERDICT_UNSUPPORTED : VERDICT_BUG;
    }
    free(c);
    return v;
}
