/* HLO, passes, kernels, on the emulator: a random module or one of the tests, its text edited, compiled for any target
 * with any options. Its results are those of the evaluator, after each pass and on the emulator
 * (tests/random/check.c), or it becomes another form: what is printed is read again and prints the same, a second
 * compile gives the same bytes. Or it is refused with words.
 *
 * An input is a head, which says what module and how it is compiled, and edits (shared/hlo_edit.h). */
#include "frontend/gxc.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/shared/choice.h"
#include "tests/fuzz/shared/folder.h"
#include "tests/fuzz/shared/hlo_edit.h"
#include "tests/fuzz/shared/modules.h"
#include "tests/random/random.h"

typedef enum Head {
    HEAD_NUMBER, /* two bytes: a random module's seed, a test module's key */
    HEAD_SOURCE = 2,
    HEAD_RUN,  /* which of the test's */
    HEAD_DATA, /* seeds arguments, and other configurations */
    HEAD_CHOICE,
    HEAD_BYTES = HEAD_CHOICE + CHOICE_BYTES
} Head;

typedef enum Source { SOURCE_RANDOM, SOURCE_PRODUCTS, SOURCE_TEST, SOURCES } Source;

enum { SECONDS = 120, MOST_WORK = 1000000 };

/* --- the module ---------------------------------------------------------------------------- */

/* Empty where it is too large to be edited. */
static void set_text(HloText *t, const char *text, size_t size)
{
    t->size = size <= HLO_TEXT_MOST / 2 ? size : 0;
    memcpy(t->bytes, text, t->size);
    t->bytes[t->size] = '\0';
}

static void make_random(HloText *t, uint64_t seed, bool is_products)
{
    generate_products = is_products;
    char *text = generate(seed);
    generate_products = false;
    set_text(t, text, strlen(text));
    free(text);
}

/* One instruction a line, as edits need it; as it is where it cannot be read. */
static void print_again(HloText *t)
{
    gxc_result *r;
    gxc_options o = {.struct_size = sizeof o,
                     .emit = "hlo",
                     .passes = "none",
                     .print = "short",
                     .replay_dir = "/nonexistent"};
    if (gxc_compile("test.hlo", t->bytes, t->size, &o, &r) == GXC_OK) {
        size_t size;
        const char *text = gxc_result_bytes(r, &size);
        set_text(t, text, size);
        hlo_plain(t);
    }
    gxc_result_destroy(r);
}

/* What the module's test tells gxc. */
static const char *make_text(HloText *t, const uint8_t *data, bool is_edited)
{
    uint32_t number = data[HEAD_NUMBER] | (uint32_t)data[HEAD_NUMBER + 1] << 8;
    Source source = data[HEAD_SOURCE] % SOURCES;
    if (source != SOURCE_TEST) {
        make_random(t, number, source == SOURCE_PRODUCTS);
        return "";
    }
    const TestModule *m = module_find(number);
    set_text(t, m->text, m->size);
    if (is_edited)
        print_again(t);
    return m->run_count != 0 ? m->runs[data[HEAD_RUN] % m->run_count] : "";
}

/* --- results ------------------------------------------------------------------------------- */

/* The generator knows of each value how exact it is, until the text changes; of tests nobody does. */
static Verdict compare(const HloText *t, const Choice *c, const uint8_t *data,
                       bool is_ours)
{
    char message[2000];
    CheckOptions o = {.data = data[HEAD_DATA],
                      .level = c->options.opt_level_set ? c->options.opt_level : 1,
                      .skip = c->options.skip,
                      .target = c->target,
                      .tiles = c->options.tiles,
                      .libraries = c->options.libraries,
                      .replicas = c->options.replicas,
                      .partitions = c->options.partitions,
                      .settings = c->settings,
                      .setting_count = c->options.setting_count,
                      .most_work = MOST_WORK,
                      .allows_rounding = !is_ours};
    Verdict v = check_module_as(t->bytes, &o, message, sizeof message);
    PROMISE(v == VERDICT_GOOD || v == VERDICT_UNSUPPORTED ||
                (!is_ours && v == VERDICT_INVALID),
            "%s: %s\n%s", verdict_names[v], message, t->bytes);
    return v;
}

/* --- other forms --------------------------------------------------------------------------- */

static gxc_status compile(const HloText *t, const gxc_options *o, gxc_result **out)
{
    gxc_status st = gxc_compile("test.hlo", t->bytes, t->size, o, out);
    const char *said = gxc_result_diagnostics(*out);
    PROMISE(st == GXC_OK || st == GXC_INVALID || st == GXC_USAGE || st == GXC_UNSUPPORTED,
            "status %d: %s\n%s", (int)st, said, t->bytes);
    PROMISE(st == GXC_OK || *said != '\0', "status %d without a word", (int)st);
    return st;
}

static void promise_same(const gxc_result *r, const gxc_result *other, const char *what,
                         const HloText *t)
{
    size_t size, other_size;
    const void *bytes = gxc_result_bytes(r, &size),
               *others = gxc_result_bytes(other, &other_size);
    PROMISE(size == other_size && (size == 0 || memcmp(bytes, others, size) == 0),
            "%s gives other bytes\n%s", what, t->bytes);
}

/* What was printed is printed again as it is. */
static void read_again(const gxc_result *r, const HloText *t)
{
    size_t size;
    const char *text = gxc_result_bytes(r, &size);
    gxc_result *again;
    gxc_options o = {.struct_size = sizeof o,
                     .emit = "hlo",
                     .passes = "none",
                     .replay_dir = "/nonexistent"};
    gxc_status st = gxc_compile("dump.hlo", text, size, &o, &again);
    PROMISE(st == GXC_OK, "a dump is refused: %s\n%s", gxc_result_diagnostics(again),
            t->bytes);
    promise_same(r, again, "a dump", t);
    gxc_result_destroy(again);
}

static void make_form(const HloText *t, const Choice *c)
{
    gxc_result *r, *again;
    gxc_options o = c->options;
    gxc_status st = compile(t, &o, &r);
    if (st == GXC_OK && o.report) {
        PROMISE(gxc_result_report(r, "json") != NULL, "no report");
        PROMISE(gxc_result_report(r, "text") != NULL, "no report");
    }
    bool is_dump = o.emit != NULL && strcmp(o.emit, "hlo") == 0 && o.print == NULL;
    if (st == GXC_OK && is_dump)
        read_again(r, t);
    if (st == GXC_OK && c->twice) {
        o.jobs = 2;
        PROMISE(compile(t, &o, &again) == GXC_OK, "a second compile fails: %s",
                gxc_result_diagnostics(again));
        promise_same(r, again, "a second compile", t);
        gxc_result_destroy(again);
    }
    gxc_result_destroy(r);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static HloText t;
    static Choice c;
    if (size < HEAD_BYTES)
        return;
    fuzz_allow(SECONDS);
    setenv("GXEMU_SHADOW", "1", 1);
    random_emulator_folder = fuzz_folder();
    bool is_edited = size >= HEAD_BYTES + HLO_EDIT_BYTES;
    const char *run = make_text(&t, data, is_edited);
    choice_make(&c, run, data + HEAD_CHOICE);
    hlo_edit(&t, data + HEAD_BYTES, size - HEAD_BYTES);
    bool is_ours =
        !is_edited && t.size != 0 && data[HEAD_SOURCE] % SOURCES != SOURCE_TEST;
    if (!c.compares || compare(&t, &c, data, is_ours) == VERDICT_UNSUPPORTED)
        make_form(&t, &c);
}
