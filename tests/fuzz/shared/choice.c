/* See choice.h. */
#include "tests/fuzz/shared/choice.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/pipeline.h"
#include "passes/settings.h"
#include "tests/random/emulate.h"

/* Room for a word; too many words are the last one. */
static const char *keep(Choice *c, const char *format, ...) GXC_FORMAT(2, 3);
static const char *keep(Choice *c, const char *format, ...)
{
    char *at = c->text + c->used;
    size_t room = sizeof c->text - c->used;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(at, room, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room)
        return "";
    c->used += (size_t)n + 1;
    return at;
}

/* None of which there was no room. */
static void add_setting(Choice *c, const char *setting)
{
    if (*setting != '\0' && c->options.setting_count < CHOICE_SETTINGS_MOST)
        c->settings[c->options.setting_count++] = setting;
}

static void add_target(Choice *c, const char *target)
{
    if (c->options.target_count < CHOICE_TARGETS_MOST)
        c->targets[c->options.target_count++] = target;
}

/* --- what the line says -------------------------------------------------------------------- */

/* The value of "--name=value"; NULL: the word is another one. */
static const char *value_of(const char *word, const char *name)
{
    size_t n = strlen(name);
    return strncmp(word, name, n) == 0 && word[n] == '=' ? word + n + 1 : NULL;
}

static void take_word(Choice *c, const char *word)
{
    gxc_options *o = &c->options;
    const struct {
        const char *name, **to;
    } texts[] = {{"--emit", &o->emit},           {"--passes", &o->passes},
                 {"--skip", &o->skip},           {"--tiles", &o->tiles},
                 {"--libraries", &o->libraries}, {"--f32-dots", &o->f32_dots},
                 {"--print", &o->print}};
    const struct {
        const char *name;
        int *to;
    } flags[] = {
        {"--lineinfo", &o->line_info},  {"--embed-ptx", &o->embed_ptx},
        {"--embed-hlo", &o->embed_hlo}, {"--report", &o->report},
        {"--timing", &o->timing},       {"--fp-contract=off", &o->fp_contract_off}};
    const char *value;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if ((value = value_of(word, texts[i].name)) != NULL)
            *texts[i].to = value;
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strcmp(word, flags[i].name) == 0)
            *flags[i].to = 1;
    }
    if ((value = value_of(word, "--target")) != NULL)
        add_target(c, value);
    if ((value = value_of(word, "--set")) != NULL)
        add_setting(c, value);
    if ((value = value_of(word, "--replicas")) != NULL)
        o->replicas = atoi(value);
    if ((value = value_of(word, "--partitions")) != NULL)
        o->partitions = atoi(value);
    if (strncmp(word, "-O", 2) == 0) {
        o->opt_level = word[2] - '0';
        o->opt_level_set = 1;
    }
}

static void take_line(Choice *c, const char *run)
{
    while (*run != '\n' && *run != '\0') {
        size_t n = strcspn(run, " \n");
        take_word(c, keep(c, "%.*s", (int)n, run));
        run += n + (run[n] == ' ');
    }
}

/* --- what the bytes change ----------------------------------------------------------------- */

static void choose_form(Choice *c, uint8_t byte)
{
    static const char *const forms[] = {"hlo",    "plan", "ptx",    "llvm",       "html",
                                        "tileir", "dot",  "tuning", "candidates", "pb"};
    enum { FORMS = sizeof forms / sizeof *forms };
    c->compares = byte == 0 ? c->options.emit == NULL : byte == 1;
    if (byte != 0)
        c->options.emit = byte == 1 ? NULL : forms[(byte - 2u) % FORMS];
}

static void choose_target(Choice *c, uint8_t byte)
{
    static const char *const targets[] = {
#define TARGET(sm, variant, ptx, cuda, features, model) "sm_" #sm variant,
#define MODEL(...)
#define RATES(...)
#include "ir/analysis/targets.def"
    };
    enum { TARGETS = sizeof targets / sizeof *targets, ASSEMBLED = 128 };
    if (byte != 0) {
        c->options.target_count = 0;
        add_target(c, targets[(byte % ASSEMBLED) % TARGETS]);
        add_target(c, "emu");
    }
    for (size_t i = c->options.target_count; i-- > 0;)
        c->target = strcmp(c->targets[i], "emu") != 0 ? c->targets[i] : c->target;
    bool assembles = c->target != NULL && byte >= ASSEMBLED;
    if (c->options.emit == NULL && !assembles) { /* no other process, which takes long */
        c->target = NULL;
        c->options.target_count = 0;
        add_target(c, "emu");
    }
}

static void choose_uses(Choice *c, uint8_t byte)
{
    static const char *const tiles[] = {NULL, "auto", "gx", "none", "tileir"};
    static const char *const libraries[] = {
        "cublaslt,cusolver", "none", "all", "cublaslt", "cudnn", "cusolver", NULL};
    enum {
        TILES = sizeof tiles / sizeof *tiles,
        LIBRARIES = sizeof libraries / sizeof *libraries
    };
    if (tiles[byte % TILES] != NULL)
        c->options.tiles = tiles[byte % TILES];
    const char *library = libraries[byte / TILES % LIBRARIES];
    if (library != NULL && (byte >= TILES || c->options.libraries == NULL))
        c->options.libraries = library; /* cuDNN only if it is meant: it takes seconds */
}

static size_t pass_count(void)
{
    size_t n = 0;
    while (pipeline_row(n) != NULL)
        n++;
    return n;
}

static size_t setting_count(void)
{
    size_t n = 0;
    while (settings_row(n) != NULL)
        n++;
    return n;
}

/* 1: all; then each pass left out; then those up to each. */
static void choose_passes(Choice *c, uint8_t byte)
{
    size_t count = pass_count(), which = byte - 2u;
    if (byte == 0)
        return;
    c->options.passes = c->options.skip = NULL;
    if (byte == 1)
        return;
    if (which < count) {
        c->options.skip = pipeline_row(which)->name;
        return;
    }
    const char *list = pipeline_row(0)->name;
    for (size_t i = 1; i < which - count && i < count; i++)
        list = keep(c, "%s,%s", list, pipeline_row(i)->name);
    c->options.passes = *list != '\0' ? list : NULL;
}

static void choose_settings(Choice *c, uint8_t byte)
{
    uint32_t state = byte;
    for (int i = 0; byte != 0 && i < 1 + byte % 8; i++) {
        state = state * 1664525 + 1013904223; /* Numerical Recipes */
        const Setting *s = settings_row((state >> 8) % setting_count());
        int64_t some = INT64_C(1) << (state >> 20) % 24;
        int64_t values[] = {s->least, s->most, some, s->least + 1};
        int64_t value = values[(state >> 26) % 4];
        value = value < s->least ? s->least : value > s->most ? s->most : value;
        add_setting(c, keep(c, "%s=%lld", s->name, (long long)value));
    }
}

static void choose_flags(Choice *c, uint8_t byte)
{
    gxc_options *o = &c->options;
    c->twice = byte & CHOICE_TWICE;
    o->report |= (byte & CHOICE_REPORT) != 0;
    o->fp_contract_off |= (byte & CHOICE_NO_CONTRACT) != 0;
    o->embed_hlo |= (byte & CHOICE_HLO) != 0;
    o->line_info |= (byte & CHOICE_LINES) != 0;
    o->embed_ptx |= (byte & CHOICE_PTX) != 0;
    o->timing |= (byte & CHOICE_PRINT) != 0;
    if (byte & CHOICE_PRINT)
        o->print_after = "all";
    if (byte & CHOICE_F32)
        o->f32_dots = "f32";
}

void choice_make(Choice *c, const char *run, const uint8_t bytes[CHOICE_BYTES])
{
    *c = (Choice){.options = {.struct_size = sizeof c->options,
                              .targets = c->targets,
                              .settings = c->settings,
                              .jobs = 1,
                              .lint = 1,
                              .replay_dir = "/nonexistent"}};
    take_line(c, run);
    if (bytes[CHOICE_LEVEL] != 0) {
        c->options.opt_level = bytes[CHOICE_LEVEL] % 3;
        c->options.opt_level_set = 1;
    }
    choose_form(c, bytes[CHOICE_FORM]);
    choose_target(c, bytes[CHOICE_TARGET]);
    choose_uses(c, bytes[CHOICE_USES]);
    if (c->options.tiles != NULL && strcmp(c->options.tiles, "tileir") == 0) {
        c->options.opt_level = 2; /* which it needs */
        c->options.opt_level_set = 1;
    }
    choose_passes(c, bytes[CHOICE_PASSES]);
    choose_settings(c, bytes[CHOICE_SETTINGS]);
    if (bytes[CHOICE_DEVICES] != 0) {
        c->options.replicas = 1 + bytes[CHOICE_DEVICES] % 4;
        c->options.partitions = 1 + bytes[CHOICE_DEVICES] / 4 % 3;
        if (c->options.replicas * c->options.partitions > MOST_DEVICES)
            c->options.partitions = MOST_DEVICES / c->options.replicas;
    }
    choose_flags(c, bytes[CHOICE_FLAGS]);
}
