/* See modules.h. */
#include "tests/fuzz/shared/modules.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/shared/folder.h"

enum { MODULES_MOST = 2000 };

static TestModule modules[MODULES_MOST]; /* by key, as in the file */
static size_t module_count;

static char *read_all(size_t *out_size)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/programs/modules.txt", fuzz_folder());
    FILE *f = fopen(path, "rb");
    PROMISE(f != NULL, "no %s: make writes it", path);
    fseek(f, 0, SEEK_END);
    *out_size = (size_t)ftell(f);
    rewind(f);
    char *bytes = malloc(*out_size + 1);
    PROMISE(bytes != NULL && fread(bytes, 1, *out_size, f) == *out_size, "%s", path);
    bytes[*out_size] = '\0';
    fclose(f);
    return bytes;
}

static const char *next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    PROMISE(end != NULL, "modules.txt ends within a head");
    return end + 1;
}

static void read_modules(void)
{
    size_t size;
    const char *at = read_all(&size), *end = at + size;
    while (at < end) {
        PROMISE(module_count < MODULES_MOST, "more than %d modules", MODULES_MOST);
        TestModule *m = &modules[module_count++];
        int head = 0;
        PROMISE(sscanf(at, "@ %u %zu %n", &m->key, &m->size, &head) == 2 && head > 0,
                "no head in modules.txt: %.60s", at);
        m->name = at + head;
        for (at = next_line(at); *at != '\n'; at = next_line(at)) {
            PROMISE(m->run_count < MODULE_RUNS_MOST, "too many runs: %.60s", at);
            m->runs[m->run_count++] = at;
        }
        m->text = at + 1;
        PROMISE(m->size <= (size_t)(end - m->text), "modules.txt is cut off");
        at = m->text + m->size;
    }
    PROMISE(module_count != 0, "no modules in modules.txt");
}

const TestModule *module_find(uint32_t key)
{
    if (module_count == 0)
        read_modules();
    for (size_t i = 0; i < module_count; i++) {
        if (modules[i].key >= key)
            return &modules[i];
    }
    return &modules[0];
}
