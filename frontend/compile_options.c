/* From the options of a call to targets, settings and libraries; what is wrong with them is said here. */
#include <stdarg.h>
#include <string.h>

#include "frontend/compile.h"
#include "ir/base/text.h"

void compile_usage_error(Compile *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diag_error(c->diag, (Span){0, 0}, "%s", arena_vprintf(c->arena, format, args));
    va_end(args);
    c->status = GXC_USAGE;
}

bool compile_has_failed(const Compile *c)
{
    return c->status != GXC_OK || c->diag->error_count != 0;
}

void compile_check_call(Compile *c)
{
    const gxc_options *o = &c->options;
    if (c->input == NULL && c->size != 0)
        compile_usage_error(c, "the input is NULL, but its size is %zu", c->size);
    if (o->target_count != 0 && o->targets == NULL)
        compile_usage_error(c, "targets is NULL, but target_count is %zu",
                            o->target_count);
    for (size_t i = 0; o->targets != NULL && i < o->target_count; i++) {
        if (o->targets[i] == NULL)
            compile_usage_error(c, "target %zu is NULL", i);
    }
    if (o->setting_count != 0 && o->settings == NULL)
        compile_usage_error(c, "settings is NULL, but setting_count is %zu",
                            o->setting_count);
    for (size_t i = 0; o->settings != NULL && i < o->setting_count; i++) {
        if (o->settings[i] == NULL)
            compile_usage_error(c, "setting %zu is NULL", i);
    }
}

void compile_copy_options(Compile *c, const gxc_options *from)
{
    if (from == NULL)
        return;
    /* structs with pointers are whole words long: no pointer is cut in two */
    if (from->struct_size < sizeof(size_t) || from->struct_size % sizeof(size_t) != 0) {
        compile_usage_error(c, "struct_size of the options is not set to their size: %zu",
                            from->struct_size);
        return;
    }
    memcpy(&c->options, from,
           from->struct_size < sizeof c->options ? from->struct_size : sizeof c->options);
}

static void check_targets(Compile *c)
{
    const gxc_options *o = &c->options;
    c->targets = ARENA_ARRAY(c->arena, Target, o->target_count + 1);
    c->emu = o->target_count == 0;
    for (size_t i = 0; i < o->target_count; i++) {
        Target t;
        if (strcmp(o->targets[i], "emu") == 0)
            c->emu = true;
        else if (!target_find(o->targets[i], &t))
            compile_usage_error(c, "unknown target \"%s\"; targets are %s", o->targets[i],
                                target_names());
        else
            c->targets[c->target_count++] = t;
    }
    if (c->target_count == 0 && target_find("sm_90a", &c->targets[0]))
        c->target_count = 1;
    c->module_arenas = ARENA_ARRAY(c->arena, Arena *, c->target_count);
    for (size_t i = 0; i < c->target_count; i++)
        c->module_arenas[i] = arena_create();
}

enum { CUBLASLT, CUDNN, CUSOLVER, LIBRARIES };

/* Which of them --libraries allows. */
static void read_libraries(Compile *c, bool out[LIBRARIES])
{
    static const char *const names[LIBRARIES] = {"cublaslt", "cudnn", "cusolver"};
    const char *list = c->options.libraries;
    bool has_all = list == NULL || strcmp(list, "all") == 0;
    for (size_t i = 0; i < LIBRARIES; i++)
        out[i] = has_all;
    if (has_all || strcmp(list, "none") == 0)
        return;
    for (const char *at = list; *at != '\0';) {
        size_t length = strcspn(at, ","), i = 0;
        while (i < LIBRARIES &&
               (strlen(names[i]) != length || memcmp(at, names[i], length) != 0))
            i++;
        if (i < LIBRARIES)
            out[i] = true;
        else
            compile_usage_error(
                c,
                "unknown library \"%.*s\"; libraries are all, none, cublaslt, "
                "cudnn, cusolver",
                (int)length, at);
        at += length + (at[length] == ',');
    }
}

/* `count` if it is none of them. */
static size_t find_word(const char *const *words, size_t count, const char *word)
{
    size_t i = 0;
    while (i < count && strcmp(words[i], word) != 0)
        i++;
    return i;
}

static void check_tiles(Compile *c)
{
    static const char *const words[] = {[TILES_AUTO] = "auto",
                                        [TILES_GX] = "gx",
                                        [TILES_TILEIR] = "tileir",
                                        [TILES_NONE] = "none"};
    const char *word = c->options.tiles != NULL ? c->options.tiles : "auto";
    size_t count = sizeof words / sizeof *words, i = find_word(words, count, word);
    if (i == count)
        compile_usage_error(c, "--tiles=%s: auto, gx, tileir or none is expected", word);
    for (size_t k = 0; k < c->target_count && i < count; k++)
        c->targets[k].tiles = (TileUse)i;
}

static void check_print(Compile *c)
{
    static const char *const words[] = {
        [PRINT_DEFAULT] = "default", [PRINT_LONG] = "long", [PRINT_SHORT] = "short"};
    const char *word = c->options.print != NULL ? c->options.print : "default";
    size_t count = sizeof words / sizeof *words, i = find_word(words, count, word);
    if (i == count)
        compile_usage_error(
            c, "unknown print form \"%s\"; forms are default, long, short", word);
    else
        c->print = (PrintForm)i;
}

/* A file "" + "/name" would lie in the root folder. */
static void check_folders(Compile *c)
{
    const gxc_options *o = &c->options;
    const struct {
        const char *option, *folder;
    } rows[] = {
        {"--dump-dir", o->dump_dir}, {"--cache-dir", o->cache_dir}, {"--cuda", o->cuda}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].folder != NULL && *rows[i].folder == '\0')
            compile_usage_error(c, "%s= names no folder", rows[i].option);
    }
}

/* Whether CUDA Tile IR makes tiles: where it is at hand, and time to compile is. */
static void choose_tileir(Compile *c)
{
    enum { LEAST_LEVEL = 2 };
    TileUse tiles = c->targets[0].tiles;
    bool is_forced = tiles == TILES_TILEIR, is_late = c->settings.level >= LEAST_LEVEL;
    Cuda found = {0};
    if (is_forced && !is_late)
        compile_usage_error(c, "--tiles=tileir takes a second a kernel: it needs -O%d",
                            LEAST_LEVEL);
    if (!is_late || (!is_forced && tiles != TILES_AUTO))
        return;
    cuda_find_tileir(c->arena, c->options.cuda, &found);
    if (is_forced && found.tileiras == NULL)
        compile_usage_error(
            c, "--tiles=tileir: no tileiras found; CUDA 13.1 and newer have it, "
               "`make setup` fetches it");
    for (size_t k = 0; k < c->target_count; k++)
        c->targets[k].has_tileir =
            found.tileiras != NULL && target_has(&c->targets[k], FEATURE_TILE_IR);
}

/* PTX for "sm_90a" or "sm_100f" has what newer GPUs lack. */
static void check_embedding(Compile *c)
{
    const gxc_options *o = &c->options;
    const char *option = o->embed_tileir ? "--embed-tileir" : "--embed-ptx";
    if (!o->embed_ptx && !o->embed_tileir)
        return;
    bool is_portable = false, has_tileir = false;
    for (size_t i = 0; i < c->target_count; i++) {
        is_portable |= target_is_portable(&c->targets[i]);
        has_tileir |= target_is_portable(&c->targets[i]) && c->targets[i].has_tileir;
    }
    if (!is_portable)
        compile_usage_error(c,
                            "%s: what is compiled for %s runs on no newer GPU: give a "
                            "target without a suffix besides, as --target=sm_%u",
                            option, c->targets[0].name, c->targets[0].sm);
    else if (o->embed_tileir && !has_tileir)
        compile_usage_error(c, "--embed-tileir: no kernel comes by CUDA Tile IR: that "
                               "takes -O2, tileiras and a target from sm_80 on");
}

/* "name=value", where there is such a name. */
static void refuse_value(Compile *c, const char *text)
{
    const Setting *s = NULL;
    size_t length = strcspn(text, "=");
    for (size_t i = 0; (s = settings_row(i)) != NULL; i++) {
        if (strlen(s->name) == length && strncmp(s->name, text, length) == 0)
            break;
    }
    if (s != NULL)
        compile_usage_error(c,
                            "setting \"%s\" has no value that it takes: a number from "
                            "%lld to %lld is expected",
                            text, (long long)s->least, (long long)s->most);
}

void compile_check_options(Compile *c)
{
    const gxc_options *o = &c->options;
    check_targets(c);
    if (o->tuning != NULL)
        c->tuning = tuning_read(c->arena, c->diag, o->tuning, o->require_tuning != 0);
    if (o->require_tuning != 0 && o->tuning == NULL)
        compile_usage_error(c, "--require-tuning: of which file? give --tuning=FILE");
    check_folders(c);
    check_print(c);
    check_tiles(c);
    settings_init(&c->settings);
    c->settings.level = o->opt_level_set || o->opt_level != 0 ? o->opt_level : 1;
    choose_tileir(c);
    check_embedding(c);
    bool libraries[LIBRARIES];
    read_libraries(c, libraries);
    c->settings.cublaslt = libraries[CUBLASLT];
    c->settings.cusolver = libraries[CUSOLVER];
    c->settings.tf32 = o->f32_dots == NULL || strcmp(o->f32_dots, "tf32") == 0;
    if (!c->settings.tf32 && strcmp(o->f32_dots, "f32") != 0)
        compile_usage_error(c, "unknown form \"%s\" of --f32-dots; forms are tf32, f32",
                            o->f32_dots);
    for (size_t i = 0; i < o->setting_count; i++) {
        SettingStatus st = settings_set(&c->settings, o->settings[i]);
        if (st == SETTING_UNKNOWN)
            compile_usage_error(c,
                                "unknown setting \"%s\"; gxc --list-settings names them",
                                o->settings[i]);
        else if (st == SETTING_BAD_VALUE)
            refuse_value(c, o->settings[i]);
    }
    bool compiles = c->settings.level >= 2;
    if (libraries[CUDNN])
        c->planner = planner_create(
            c->arena,
            &(PlannerOptions){.cuda = o->cuda,
                              .seconds = c->settings.library_seconds,
                              .flags = PLAN_GRAPH_FULL_F32 |
                                       (compiles ? 0 : PLAN_GRAPH_PRECOMPILED)});
    for (size_t k = 0; k < c->target_count; k++)
        c->targets[k].compiles_graphs = compiles;
    const char *lists[] = {o->passes, o->skip,
                           o->print_after != NULL && strcmp(o->print_after, "all") != 0
                               ? o->print_after
                               : NULL};
    for (size_t i = 0; i < 3; i++) {
        const char *unknown = pipeline_unknown_name(lists[i]);
        if (unknown != NULL)
            compile_usage_error(c, "unknown pass \"%.*s\"; gxc --list-passes names them",
                                (int)strcspn(unknown, ","), unknown);
    }
    if (c->settings.level < 0 || c->settings.level > 2)
        compile_usage_error(c, "optimisation level %lld; levels are 0, 1, 2",
                            (long long)c->settings.level);
    if (o->replicas < 0 || o->partitions < 0)
        compile_usage_error(c, "replica and partition counts must be positive");
    if (o->jobs < 0)
        compile_usage_error(c, "%d jobs: the number of threads must be positive",
                            o->jobs);
}
