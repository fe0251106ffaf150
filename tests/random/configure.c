/* Other configurations: each kernel of a scheduled module gets random numbers wherever it may have them. What
 * is legal must compile, and compute the same. */
#include "frontend/hlo/parse.h"
#include "ir/kernel/kernel.h"
#include "ir/print/print.h"
#include "tests/random/random.h"

enum { MOST_NUMBER = 4096, MOST_POWER = 12 };

/* Mostly a power of two. */
static int64_t random_number(Random *r, int64_t least, int64_t most)
{
    most = most < MOST_NUMBER ? most : MOST_NUMBER;
    if (random_chance(r, 20))
        return least + random_below(r, most - least + 1);
    int64_t n = (int64_t)1 << random_below(r, MOST_POWER + 1);
    return n < least ? least : n > most ? most : n;
}

static Ints random_numbers(Arena *a, Random *r, Ints old, int64_t least, int64_t most)
{
    int64_t *n = ARENA_ARRAY(a, int64_t, old.count);
    for (uint32_t i = 0; i < old.count; i++)
        n[i] = random_number(r, least, most);
    return (Ints){n, old.count};
}

static void change_config(Arena *a, Random *r, KernelConfig *c)
{
#define CHANGE_ONE(field, least, most) c->field = random_number(r, least, most)
#define CHANGE_FLAG(field, least, most) c->field = !c->field
#define CHANGE_PAIR(field, least, most)                                                  \
    c->field[random_below(r, 2)] = random_number(r, least, most)
#define CHANGE_LIST(field, least, most)                                                  \
    c->field = random_numbers(a, r, c->field, least, most)
#define KERNEL_KEY(id, field, shape, least, most, doc)                                   \
    if ((c->set & 1u << KERNEL_KEY_##id) != 0 && random_chance(r, 40))                   \
        CHANGE_##shape(field, least, most);
#include "ir/attribute/config.def"
}

/* Blocks share tiles only where it is said. */
static void share_tiles(Random *r, KernelKind kind, KernelConfig *c)
{
    enum { MOST_SHARED = 16 };
    if ((kernel_kind_info[kind].keys & 1u << KERNEL_KEY_STREAM_K) == 0 ||
        random_chance(r, 50))
        return;
    for (int i = 0; i < 2; i++)
        c->stream_k[i] = 1 + random_below(r, MOST_SHARED);
    c->set |= 1u << KERNEL_KEY_STREAM_K;
}

/* What cannot be is tried again, and at last left as it was. */
static void change_fusion(Instruction *fusion, const Target *t, Arena *a, Random *r)
{
    KernelDesign d, other;
    kernel_design(fusion, t, a, &d);
    if (d.wrong != NULL || d.unsupported != NULL)
        return;
    for (int attempt = 0; attempt < 4; attempt++) {
        KernelConfig c = d.config;
        change_config(a, r, &c);
        share_tiles(r, d.kind, &c);
        config_set_object(fusion, "config", kernel_config_text(a, &c));
        kernel_design(fusion, t, a, &other);
        if (other.wrong == NULL && other.unsupported == NULL)
            return;
    }
    config_set_object(fusion, "config", kernel_config_text(a, &d.config));
}

const char *change_kernels(Arena *a, const char *text, const char *target, uint64_t seed)
{
    Target t;
    Random r = {seed};
    Module *m = hlo_parse(a, diag_create(a, "scheduled.hlo", text, strlen(text)));
    if (m == NULL || !target_find(target != NULL ? target : "sm_90a", &t))
        return NULL;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op == OP_FUSION && kernel_kind_of(inst) != KERNEL_COUNT)
                change_fusion(inst, &t, a, &r);
        }
    }
    return module_print(a, m, PRINT_DEFAULT, NULL);
}
