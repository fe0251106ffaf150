/* See groups.h. */
#include "passes/schedule/groups.h"

#include <string.h>

#include "ir/analysis/collective.h"

uint32_t groups_number(const Computation *comp, Arena *scratch, uint32_t *group)
{
    const char **names = NULL;
    size_t capacity = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < comp->instruction_count; i++) {
        const char *name =
            inst_frontend_attribute(comp->instructions[i], GROUP_ATTRIBUTE);
        group[i] = 0;
        if (name == NULL || strcmp(name, "noop") == 0)
            continue;
        uint32_t k = count;
        while (k > 0 && strcmp(names[k - 1], name) != 0)
            k--;
        if (k == 0) {
            names =
                arena_grow(scratch, names, &capacity, (size_t)count + 1, sizeof *names);
            names[count++] = name;
            k = count;
        }
        group[i] = k;
    }
    return count;
}

bool groups_is_forced_early(const Instruction *inst)
{
    static const char key[] = "\"force_earliest_schedule\"";
    Bytes config = inst_bytes(inst, ATTR_BACKEND_CONFIG);
    const char *at = config.length != 0 ? strstr(config.data, key) : NULL;
    if (at == NULL)
        return false;
    at += sizeof key - 1;
    at += strspn(at, " :");
    return strncmp(at, "true", 4) == 0;
}
