/* See names.h. A hash table of roots; the numbers that a root has in use are bits: the first 64 with
 * the root, the others in a second table, 64 to an entry, so that numbers in a row cost next to
 * nothing. Both tables grow in memory of their own, which is given back. */
#include "ir/names.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { WORD = 64 };

typedef struct Root {
    const char *text; /* not always NUL-terminated */
    uint32_t length;
    uint32_t hash;
    uint64_t next; /* where to look for a number that was not given yet */
    uint64_t used; /* numbers below WORD */
} Root;

/* Numbers [word * WORD, (word + 1) * WORD) of a root. */
typedef struct Numbers {
    uint64_t word; /* 0: free slot, for those are in the root */
    uint64_t used;
    uint32_t root;
} Numbers;

struct Names {
    Arena *arena;
    Root *roots;
    uint32_t root_count;
    size_t root_capacity;
    uint32_t *slots; /* number of a root + 1; 0: free */
    size_t slot_count;
    Numbers *numbers;
    size_t number_slots, number_count;
};

Names *names_create(Arena *a)
{
    Names *n = ARENA_NEW(a, Names);
    n->arena = a;
    return n;
}

/* -- roots ------------------------------------------------------------------------------ */

static void slots_grow(Names *n)
{
    size_t count = n->slot_count == 0 ? 64 : n->slot_count * 2;
    arena_drop(n->arena, n->slots, n->slot_count * sizeof *n->slots);
    n->slots = ARENA_ARRAY(n->arena, uint32_t, count);
    n->slot_count = count;
    for (uint32_t i = 0; i < n->root_count; i++) {
        size_t at = n->roots[i].hash & (count - 1);
        while (n->slots[at] != 0)
            at = (at + 1) & (count - 1);
        n->slots[at] = i + 1;
    }
}

/* The number of the root, added if it is new; lasts: the text needs no copy. */
static uint32_t root_find(Names *n, const char *text, size_t length, bool lasts)
{
    if ((size_t)n->root_count * 2 >= n->slot_count)
        slots_grow(n);
    uint32_t hash = (uint32_t)XXH3_64bits(text, length);
    size_t at = hash & (n->slot_count - 1);
    for (; n->slots[at] != 0; at = (at + 1) & (n->slot_count - 1)) {
        const Root *r = &n->roots[n->slots[at] - 1];
        if (r->hash == hash && r->length == length && memcmp(r->text, text, length) == 0)
            return n->slots[at] - 1;
    }
    n->roots = arena_grow(n->arena, n->roots, &n->root_capacity,
                          (size_t)n->root_count + 1, sizeof *n->roots);
    n->roots[n->root_count] =
        (Root){.text = lasts ? text : arena_text(n->arena, text, length),
               .length = (uint32_t)length,
               .hash = hash};
    n->slots[at] = ++n->root_count;
    return n->root_count - 1;
}

/* -- numbers ------------------------------------------------------------------------------ */

static Numbers *numbers_slot(Numbers *slots, size_t count, uint32_t root, uint64_t word)
{
    uint64_t h =
        (root + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ word * UINT64_C(0xc2b2ae3d27d4eb4f);
    size_t at = (h ^ (h >> 29)) & (count - 1);
    while (slots[at].word != 0 && (slots[at].word != word || slots[at].root != root))
        at = (at + 1) & (count - 1);
    return &slots[at];
}

static void numbers_grow(Names *n)
{
    size_t count = n->number_slots == 0 ? 64 : n->number_slots * 2;
    Numbers *slots = ARENA_ARRAY(n->arena, Numbers, count);
    for (size_t i = 0; i < n->number_slots; i++) {
        const Numbers *e = &n->numbers[i];
        if (e->word != 0)
            *numbers_slot(slots, count, e->root, e->word) = *e;
    }
    arena_drop(n->arena, n->numbers, n->number_slots * sizeof *n->numbers);
    n->numbers = slots;
    n->number_slots = count;
}

/* The bits that hold whether `number` is in use. */
static uint64_t *bits_of(Names *n, uint32_t root, uint64_t number)
{
    if (number < WORD)
        return &n->roots[root].used;
    if (n->number_count * 3 >= n->number_slots * 2)
        numbers_grow(n);
    Numbers *e = numbers_slot(n->numbers, n->number_slots, root, number / WORD);
    if (e->word == 0) {
        *e = (Numbers){.word = number / WORD, .root = root};
        n->number_count++;
    }
    return &e->used;
}

/* False: it is in use already. */
static bool take_number(Names *n, uint32_t root, uint64_t number)
{
    uint64_t *bits = bits_of(n, root, number), bit = UINT64_C(1) << (number % WORD);
    bool is_free = (*bits & bit) == 0;
    *bits |= bit;
    return is_free;
}

/* -- names ---------------------------------------------------------------------------------- */

/* Splits "x.12" into its root's length and number; false if there is no such suffix. */
static bool split_number(const char *name, size_t length, size_t *root_length,
                         uint64_t *number)
{
    size_t at = length;
    uint64_t value = 0, scale = 1;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9' && length - at < 18) {
        value += scale * (uint64_t)(name[at - 1] - '0');
        scale *= 10;
        at--;
    }
    if (at == length || at < 2 || name[at - 1] != '.')
        return false;
    *root_length = at - 1;
    *number = value;
    return true;
}

/* "root.number" */
static const char *numbered(Names *n, const char *root, size_t length, uint64_t number)
{
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    char *text = arena_alloc(n->arena, length + count + 2);
    memcpy(text, root, length);
    text[length++] = '.';
    while (count != 0)
        text[length++] = digits[--count];
    return text;
}

static const char *give(Names *n, const char *wanted, bool lasts)
{
    size_t length = strlen(wanted), root_length = length;
    uint64_t number = 0;
    split_number(wanted, length, &root_length, &number);
    uint32_t known = n->root_count, root = root_find(n, wanted, root_length, lasts);
    if (!take_number(n, root, number)) {
        do
            number = n->roots[root].next++;
        while (!take_number(n, root, number));
        return numbered(n, n->roots[root].text, root_length, number);
    }
    if (root_length + 2 < length && wanted[root_length + 1] == '0') /* x.007 is x.7 */
        return numbered(n, n->roots[root].text, root_length, number);
    if (lasts)
        return wanted;
    bool is_copied = root == known && root_length == length;
    return is_copied ? n->roots[root].text : arena_text(n->arena, wanted, length);
}

const char *names_take(Names *n, const char *wanted)
{
    return give(n, wanted, false);
}

const char *names_keep(Names *n, const char *wanted)
{
    return give(n, wanted, true);
}

Names *names_copy(Arena *a, const Names *from)
{
    Names *n = names_create(a);
    *n = *from;
    n->arena = a;
    n->root_capacity = n->root_count;
    n->roots = arena_copy(a, from->roots, n->root_count * sizeof *n->roots);
    n->slots = arena_copy(a, from->slots, n->slot_count * sizeof *n->slots);
    n->numbers = arena_copy(a, from->numbers, n->number_slots * sizeof *n->numbers);
    size_t bytes = 0;
    for (uint32_t i = 0; i < n->root_count; i++)
        bytes += n->roots[i].length + 1;
    char *text = arena_alloc(a, bytes);
    for (uint32_t i = 0; i < n->root_count; i++) {
        n->roots[i].text = memcpy(text, n->roots[i].text, n->roots[i].length);
        text += n->roots[i].length + 1;
    }
    return n;
}

bool name_is_keyword(const char *name)
{
    static const char *const words[] = {
#define KEYWORD(word, token) #word,
#include "ir/attribute/keywords.def"
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(name, words[i]) == 0)
            return true;
    return false;
}
