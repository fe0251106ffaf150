/* Configurations of kernels in the text: the object "config" of a fusion's backend_config. See kernel.h. */
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "ir/kernel/rules.h"

typedef enum { SHAPE_ONE, SHAPE_FLAG, SHAPE_PAIR, SHAPE_LIST } KeyShape;

static const struct {
    const char *name;
    KeyShape shape;
    int64_t least, most; /* of each number */
    size_t offset;       /* of the field */
} keys[] = {
#define KERNEL_KEY(id, field, shape, least, most, doc)                                   \
    {#field, SHAPE_##shape, least, most, offsetof(KernelConfig, field)},
#include "ir/attribute/config.def"
};

static const void *field_of(const KernelConfig *c, int key)
{
    return (const char *)c + keys[key].offset;
}

static void *field_to_set(KernelConfig *c, int key)
{
    return (char *)c + keys[key].offset;
}

/* A field as a list of numbers. */
static Ints numbers_of(Arena *a, const KernelConfig *c, int key)
{
    const void *field = field_of(c, key);
    int64_t *one;
    switch (keys[key].shape) {
    case SHAPE_ONE:
        return (Ints){field, 1};
    case SHAPE_PAIR:
        return (Ints){field, 2};
    case SHAPE_FLAG:
        one = ARENA_NEW(a, int64_t);
        *one = *(const bool *)field;
        return (Ints){one, 1};
    case SHAPE_LIST:
        break;
    }
    return *(const Ints *)field;
}

/* -- printing ------------------------------------------------------------------------------------ */

const char *kernel_config_text(Arena *a, const KernelConfig *c)
{
    Text t;
    text_init(&t, a);
    text_char(&t, '{');
    for (int key = 0; key < KERNEL_KEY_COUNT; key++) {
        if ((c->set & 1u << key) == 0)
            continue;
        Ints n = numbers_of(a, c, key);
        bool is_list = keys[key].shape == SHAPE_PAIR || keys[key].shape == SHAPE_LIST;
        text_string(&t, t.length > 1 ? ",\"" : "\"");
        text_string(&t, keys[key].name);
        text_string(&t, is_list ? "\":[" : "\":");
        for (uint32_t i = 0; i < n.count; i++) {
            text_string(&t, i != 0 ? "," : "");
            if (keys[key].shape == SHAPE_FLAG)
                text_string(&t, n.data[i] != 0 ? "true" : "false");
            else
                text_int(&t, n.data[i]);
        }
        text_string(&t, is_list ? "]" : "");
    }
    text_char(&t, '}');
    return t.data;
}

/* -- reading -------------------------------------------------------------------------------------- */

static const char *shape_wanted(KeyShape shape)
{
    switch (shape) {
    case SHAPE_ONE:
        return "a number";
    case SHAPE_FLAG:
        return "true or false";
    case SHAPE_PAIR:
        return "two numbers, [a,b]";
    case SHAPE_LIST:
        break;
    }
    return "a list of numbers, [a,...]";
}

static bool has_shape(int key, const ConfigEntry *e)
{
    bool is_pair = keys[key].shape == SHAPE_PAIR;
    return !e->is_wrong && (!is_pair || e->numbers.count == 2);
}

static void take_value(KernelConfig *c, int key, const ConfigEntry *e)
{
    void *field = field_to_set(c, key);
    switch (keys[key].shape) {
    case SHAPE_ONE:
        *(int64_t *)field = e->i;
        break;
    case SHAPE_FLAG:
        *(bool *)field = e->i != 0;
        break;
    case SHAPE_PAIR:
        memcpy(field, e->numbers.data, 2 * sizeof *e->numbers.data);
        break;
    case SHAPE_LIST:
        *(Ints *)field = e->numbers;
        break;
    }
    c->set |= 1u << key;
}

int64_t config_most(KernelKey key)
{
    return keys[key].most;
}

static const char *bounds_refused(const KernelDesign *d, const KernelConfig *c, int key)
{
    Ints n = numbers_of(d->arena, c, key);
    for (uint32_t i = 0; i < n.count; i++) {
        if (n.data[i] < keys[key].least || n.data[i] > keys[key].most)
            return refuse_text(d, "\"%s\" must be between %lld and %lld, found %lld",
                               keys[key].name, (long long)keys[key].least,
                               (long long)keys[key].most, (long long)n.data[i]);
    }
    return NULL;
}

/* One that d->config has already stays. */
static const char *read_entry(KernelDesign *d, int key, const ConfigEntry *e)
{
    if ((kernel_kind_info[d->kind].keys & 1u << key) == 0)
        return refuse_text(d, "this kind of kernel has no \"%s\"", keys[key].name);
    if (!has_shape(key, e))
        return refuse_text(d, "\"%s\" must be %s, found %.*s", keys[key].name,
                           shape_wanted(keys[key].shape), (int)e->text.length,
                           e->text.data);
    KernelConfig one = {.set = 0};
    take_value(&one, key, e);
    const char *wrong = bounds_refused(d, &one, key);
    if (wrong == NULL && (d->config.set & 1u << key) == 0)
        take_value(&d->config, key, e);
    return wrong;
}

const char *config_read(KernelDesign *d, const Config *c)
{
    if (c->no_object.data != NULL)
        return refuse_text(d, "\"config\" must be an object, found %.*s",
                           (int)c->no_object.length, c->no_object.data);
    if (c->unknown.data != NULL)
        return refuse_text(d, "the configuration has no key \"%.*s\"",
                           (int)c->unknown.length, c->unknown.data);
    for (int key = 0; key < KERNEL_KEY_COUNT && c->count != 0; key++) {
        const ConfigEntry *e = config_entry(c, config_kernel_key(key));
        const char *wrong = e != NULL ? read_entry(d, key, e) : NULL;
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

const char *kernel_config_wrong(Arena *a, KernelKind kind, const Config *c)
{
    KernelDesign d = {.arena = a, .kind = kind};
    return config_read(&d, c);
}

bool config_is_complete(const Instruction *fusion, KernelKind kind)
{
    bool has_all = config_has_kernel(fusion);
    uint32_t wanted = kernel_kind_info[kind].keys & ~KERNEL_OPTIONAL_KEYS;
    for (int key = 0; key < KERNEL_KEY_COUNT && has_all; key++) {
        if ((wanted & 1u << key) != 0)
            has_all &= config_has(fusion, config_kernel_key(key));
    }
    return has_all;
}

const char *kernel_config_key(Arena *a, const Instruction *fusion)
{
    KernelDesign d = {.fusion = fusion, .arena = a, .kind = kernel_kind_of(fusion)};
    if (d.kind != KERNEL_COUNT)
        config_read(&d, config_of(fusion));
    return kernel_config_text(a, &d.config);
}

bool config_lacks(KernelConfig *c, KernelKey key)
{
    bool lacks = (c->set & 1u << key) == 0;
    c->set |= 1u << key;
    return lacks;
}

void config_set_lanes(Arena *a, KernelConfig *c, int64_t lanes)
{
    c->lanes = (Ints){arena_copy(a, &lanes, sizeof lanes), 1};
}

const char *refuse_text(const KernelDesign *d, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = arena_vprintf(d->arena, format, args);
    va_end(args);
    return text;
}

/* -- what families share ------------------------------------------------------------------------ */

static bool is_power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

const char *lanes_refused(const KernelDesign *d, uint32_t count)
{
    Ints lanes = d->config.lanes;
    if (lanes.count != count)
        return refuse_text(d, "\"lanes\" must be a list of %u, found %u", count,
                           lanes.count);
    for (uint32_t i = 0; i < count; i++) {
        if (!is_power_of_two(lanes.data[i]))
            return refuse_text(d, "\"lanes\" must be powers of two, found %lld",
                               (long long)lanes.data[i]);
    }
    return NULL;
}

const char *power_refused(const KernelDesign *d, const char *key, int64_t value)
{
    return value > 0 && (value & (value - 1)) == 0
               ? NULL
               : refuse_text(d, "\"%s\" %lld must be a power of two", key,
                             (long long)value);
}

const char *warps_refused(const KernelDesign *d, int64_t threads)
{
    return threads <= TARGET_BLOCK_THREADS
               ? NULL
               : refuse_text(d, "\"warps\" ask for %lld threads; a block has %d at most",
                             (long long)threads, TARGET_BLOCK_THREADS);
}

const char *block_refused(const KernelDesign *d)
{
    int64_t block = d->config.block;
    return block % TARGET_WARP == 0
               ? NULL
               : refuse_text(d, "\"block\" must be a multiple of %d, found %lld",
                             TARGET_WARP, (long long)block);
}

const char *registers_refused(const KernelDesign *d, const char *what, int64_t registers,
                              int64_t threads)
{
    int64_t most = target_thread_registers(threads);
    return registers <= most
               ? NULL
               : refuse_text(
                     d, "%s ask for %lld registers of a thread; one of %lld has %lld",
                     what, (long long)registers, (long long)threads, (long long)most);
}

const char *shared_refused(const KernelDesign *d, uint64_t bytes)
{
    uint64_t most = target_block_shared(d->target);
    return bytes <= most
               ? NULL
               : refuse_text(d,
                             "it takes %llu bytes of shared memory; a block "
                             "has %llu",
                             (unsigned long long)bytes, (unsigned long long)most);
}
