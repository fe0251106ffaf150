/* See tuning.h. */
#include "ir/kernel/tuning.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/print/print.h"

#define HASH_DIGITS 32

const char *tuning_key(Arena *a, const void *bytes, size_t size, const Target *t)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, size);
    return arena_printf(a, "%s/" TUNING_VERSION "/%016llx%016llx", t->device->name,
                        (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

const char *kernel_tuning_key(Arena *a, const Instruction *fusion, const Target *t)
{
    size_t length;
    const char *body =
        computation_print(a, inst_called(fusion, 0), PRINT_CANONICAL, &length);
    return tuning_key(a, body, length, t);
}

static bool is_hash(const char *text)
{
    return strlen(text) == HASH_DIGITS && strspn(text, "0123456789abcdef") == HASH_DIGITS;
}

/* "v1/": the bytes of it; 0: it is none. */
static size_t version_length(const char *text)
{
    size_t digits = *text == 'v' ? strspn(text + 1, "0123456789") : 0;
    return digits != 0 && text[1 + digits] == '/' ? digits + 2 : 0;
}

const char *tuning_key_wrong(Arena *a, const char *key, bool *is_stale)
{
    Target t;
    const char *slash = strchr(key, '/'), *version = slash != NULL ? slash + 1 : "";
    size_t length = version_length(version);
    if (length == 0 || !is_hash(version + length))
        return arena_printf(a,
                            "a key is DEVICE/" TUNING_VERSION
                            "/HASH, with %d digits 0-9a-f; found \"%s\"",
                            HASH_DIGITS, key);
    const char *device = arena_text(a, key, (size_t)(slash - key));
    if (!target_find(device, &t) || strcmp(t.device->name, device) != 0)
        return arena_printf(a, "there is no device \"%s\"", device);
    *is_stale = strncmp(version, TUNING_VERSION "/", length) != 0;
    return NULL;
}

static int compare(const void *a, const void *b)
{
    const TuningEntry *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

const TuningEntry *tuning_sort(Tuning *t)
{
    if (t->count != 0)
        qsort(t->entries, t->count, sizeof *t->entries, compare);
    for (size_t i = 1; i < t->count; i++) {
        if (strcmp(t->entries[i - 1].key, t->entries[i].key) == 0)
            return &t->entries[i];
    }
    return NULL;
}

const TuningEntry *tuning_find(const Tuning *t, const char *key)
{
    size_t low = 0, high = t != NULL ? t->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(t->entries[middle].key, key);
        if (order == 0)
            return &t->entries[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
