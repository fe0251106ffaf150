/* See tuning.h. */
#include "ir/kernel/tuning.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/print.h"

#define HASH_DIGITS 32

const char *kernel_tuning_key(Arena *a, const Instruction *fusion, const Target *t)
{
    size_t length;
    const char *body =
        computation_print(a, inst_called(fusion, 0), PRINT_CANONICAL, &length);
    XXH128_hash_t hash = XXH3_128bits(body, length);
    return arena_printf(a, "%s/%s/%016llx%016llx", t->device->name,
                        kernel_kind_name(kernel_kind_of(fusion)),
                        (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

static bool is_hash(const char *text)
{
    return strlen(text) == HASH_DIGITS && strspn(text, "0123456789abcdef") == HASH_DIGITS;
}

const char *tuning_key_wrong(Arena *a, const char *key, KernelKind *kind)
{
    Target t;
    const char *name = strchr(key, '/'),
               *hash = name != NULL ? strchr(++name, '/') : NULL;
    if (hash == NULL || !is_hash(hash + 1))
        return arena_printf(a, "a key is DEVICE/KIND/HASH, with %d digits 0-9a-f",
                            HASH_DIGITS);
    const char *device = arena_text(a, key, (size_t)(name - 1 - key));
    *kind = kernel_kind_find(name, (size_t)(hash - name));
    if (!target_find(device, &t) || strcmp(t.device->name, device) != 0)
        return arena_printf(a, "there is no device \"%s\"", device);
    if (*kind == KERNEL_COUNT)
        return arena_printf(a, "there is no kind of kernel \"%.*s\"", (int)(hash - name),
                            name);
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
