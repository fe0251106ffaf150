/* Gives a target damaged inputs, very many: without libFuzzer, sanitizers or feedback a target takes thousands a
 * second. Usage: mutate-TARGET COUNT SEED DICTIONARY FOLDER; the files of FOLDER are what is damaged, lines of
 * DICTIONARY are words, as libFuzzer has them. The same numbers give the same inputs. An input that ends the process
 * is left in last-input.bin. */
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

enum { INPUT_MOST = 4000, SEED_MOST = 20000, MOST_EDITS = 5 };

typedef struct Bytes {
    uint8_t *data;
    size_t size;
} Bytes;

typedef struct List {
    Bytes *data;
    size_t count;
} List;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static Bytes input; /* what the target is given now */
static uint64_t state;

static void list_add(List *list, const uint8_t *data, size_t size)
{
    list->data = realloc(list->data, (list->count + 1) * sizeof *list->data);
    uint8_t *copy = malloc(size + 1);
    PROMISE(list->data != NULL && copy != NULL, "no memory");
    memcpy(copy, data, size);
    list->data[list->count++] = (Bytes){copy, size};
}

static void list_free(List *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->data[i].data);
    free(list->data);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void read_seeds(List *seeds, const char *folder)
{
    static uint8_t bytes[SEED_MOST];
    struct dirent **names;
    int count = scandir(folder, &names, NULL, by_name);
    PROMISE(count >= 0, "no folder %s", folder);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        FILE *f = names[i]->d_name[0] == '.' ? NULL : fopen(path, "rb");
        size_t size = f != NULL ? fread(bytes, 1, sizeof bytes, f) : 0;
        if (size != 0)
            list_add(seeds, bytes, size);
        if (f != NULL)
            fclose(f);
        free(names[i]);
    }
    free(names);
}

/* A line is "word", in which \" \\ and \xNN stand for bytes. */
static void read_words(List *words, const char *path)
{
    char line[512];
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        uint8_t word[sizeof line];
        size_t size = 0;
        for (const char *at = line + 1; *at != '\0' && *at != '"' && *at != '\n'; at++) {
            unsigned value;
            if (at[0] == '\\' && sscanf(at, "\\x%2x", &value) == 1) {
                word[size++] = (uint8_t)value;
                at += 3;
                continue;
            }
            at += at[0] == '\\' && at[1] != '\0';
            word[size++] = (uint8_t)*at;
        }
        list_add(words, word, size);
    }
    if (f != NULL)
        fclose(f);
}

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t bits(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

static size_t below(size_t n)
{
    return n != 0 ? bits() % n : 0;
}

/* `size` bytes of `from` replace `gone` bytes at `at`, as far as there is room. */
static void splice(Bytes *b, size_t at, size_t gone, const uint8_t *from, size_t size)
{
    uint8_t part[SEED_MOST];
    size_t rest = b->size - at - gone;
    if (size > INPUT_MOST - at)
        size = INPUT_MOST - at;
    if (rest > INPUT_MOST - at - size)
        rest = INPUT_MOST - at - size;
    memcpy(part, from, size);
    memmove(b->data + at + size, b->data + at + gone, rest);
    memcpy(b->data + at, part, size);
    b->size = at + size + rest;
}

static void edit_number(Bytes *b, size_t at)
{
    static const char *const numbers[] = {
        "0",          "-1",         "1",    "2147483647",          "4294967296",
        "1e999",      "-0.0",       "nan",  "9223372036854775807", "18446744073709551616",
        "0xFFFFFFFF", "1000000007", "1024", "-9223372036854775808"};
    const char *number = numbers[below(sizeof numbers / sizeof *numbers)];
    while (at < b->size && (b->data[at] < '0' || b->data[at] > '9'))
        at++;
    size_t end = at;
    while (end < b->size && b->data[end] >= '0' && b->data[end] <= '9')
        end++;
    splice(b, at, end - at, (const uint8_t *)number, strlen(number));
}

static void edit(Bytes *b, const List *seeds, const List *words)
{
    static const uint8_t bytes[] = {0,   1,   0x7f, 0x80, 0xff, ' ', '\n',
                                    '"', '{', '}',  '(',  ',',  '<'};
    const Bytes *other = &seeds->data[below(seeds->count)];
    size_t at = below(b->size), most = b->size - at;
    size_t length = 1 + below(below(3) != 0 ? 8 : 200);
    size_t gone = length < most ? length : most;
    switch (below(9)) {
    case 0:
        if (most != 0)
            b->data[at] ^= (uint8_t)(1 << below(8));
        break;
    case 1:
        if (most != 0)
            b->data[at] = bytes[below(sizeof bytes)];
        break;
    case 2:
        splice(b, at, gone, bytes, 0);
        break;
    case 3:
        splice(b, at, 0, b->data + at, gone);
        break;
    case 4:
        if (words->count != 0) {
            const Bytes *word = &words->data[below(words->count)];
            splice(b, at, below(2) == 0 ? gone : 0, word->data, word->size);
        }
        break;
    case 5: {
        size_t from = below(other->size), rest = other->size - from;
        splice(b, at, below(2) == 0 ? gone : 0, other->data + from,
               length < rest ? length : rest);
        break;
    }
    case 6:
        edit_number(b, at);
        break;
    case 7:
        if (below(5) == 0)
            b->size = at; /* cut off */
        break;
    default:
        if (most != 0)
            b->data[at] = (uint8_t)bits();
    }
}

/* Keeps what the target did not survive. */
static void keep(int signal)
{
    FILE *f = fopen("last-input.bin", "wb"); /* the process ends in any case */
    if (f != NULL) {
        fwrite(input.data, 1, input.size, f);
        fclose(f);
    }
    _exit(128 + signal);
}

int main(int count, char **arguments)
{
    static const int fatal[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
    PROMISE(count == 5, "usage: mutate-TARGET COUNT SEED DICTIONARY FOLDER");
    long long inputs = strtoll(arguments[1], NULL, 10);
    state = strtoull(arguments[2], NULL, 10);
    List seeds = {0}, words = {0};
    read_words(&words, arguments[3]);
    read_seeds(&seeds, arguments[4]);
    PROMISE(seeds.count != 0, "no file in %s", arguments[4]);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        signal(fatal[i], keep);
    input.data = malloc(SEED_MOST);
    PROMISE(input.data != NULL, "no memory");
    for (long long i = 0; i < inputs; i++) {
        const Bytes *seed = &seeds.data[below(seeds.count)];
        size_t window = seed->size > INPUT_MOST ? INPUT_MOST : seed->size;
        memcpy(input.data, seed->data, input.size = window);
        for (size_t edits = 1 + below(MOST_EDITS); edits != 0; edits--)
            edit(&input, &seeds, &words);
        LLVMFuzzerTestOneInput(input.data, input.size);
    }
    printf("%lld inputs\n", inputs);
    free(input.data);
    list_free(&seeds);
    list_free(&words);
    return 0;
}
