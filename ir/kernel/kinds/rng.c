/* Random bits: each thread computes the block of the counter that its elements' words come from. */
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

static OpCode hero_of(const Instruction *fusion)
{
    bool is_state = fusion_hero(fusion, OP_RNG_GET_AND_UPDATE_STATE) != NULL;
    return is_state ? OP_RNG_GET_AND_UPDATE_STATE : OP_RNG_BIT_GENERATOR;
}

const char *illegal_rng(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    if (!op_set_has(&f->ops, OP_RNG_GET_AND_UPDATE_STATE) &&
        !op_set_has(&f->ops, OP_RNG_BIT_GENERATOR))
        return "it draws no random bits";
    return hero_root_illegal(f->fusion, hero_of(f->fusion));
}

bool suits_rng(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

/* The generator's words, and what it lacks. */
static void describe(KernelDesign *d, RngPlan *p)
{
    const Shape *state = p->inst->operands[0]->shape;
    int64_t bytes = shape_bytes(state);
    unsigned state_bits = dtype_info[state->dtype].bits;
    p->has_state = shape_is_tuple(p->inst->shape);
    p->bits_leaf = p->has_state ? 1 : 0;
    p->bits = shape_leaf(p->inst->shape, p->bits_leaf);
    p->is_threefry = inst_int(p->inst, ATTR_RNG_ALGORITHM, RNG_DEFAULT) == RNG_THREE_FRY;
    p->width = dtype_info[p->bits->dtype].bits;
    p->state_words = (uint32_t)bytes / 8;
    if ((bytes != 16 && (bytes != 24 || p->is_threefry)) || state_bits < 8 ||
        state_bits > 64)
        d->unsupported = refuse_text(d, "%s has a state of %lld bytes", p->inst->name,
                                     (long long)bytes);
    else if (p->width > 64 || p->bits->dtype == DT_PRED)
        d->unsupported = refuse_text(d, "%s makes random bits of %s", p->inst->name,
                                     dtype_name(p->bits->dtype));
    int64_t elements = shape_elements(p->bits), per_block = p->width == 64 ? 2 : 4;
    bool in_order = layout_is_default(p->bits->layout) && elements % per_block == 0;
    p->elements = elements == 0 ? 1 : elements;
    p->per_block = !p->is_threefry && in_order ? (uint32_t)per_block : 1;
}

void plan_rng(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    RngPlan *p = ARENA_NEW(d->arena, RngPlan);
    *p = (RngPlan){.elements = 1, .per_block = 1};
    d->plan.rng = p;
    if (hero_of(d->fusion) == OP_RNG_BIT_GENERATOR) {
        p->inst = fusion_hero(d->fusion, OP_RNG_BIT_GENERATOR);
        describe(d, p);
    }
}

static int64_t threads_of(const KernelDesign *d, const KernelConfig *c)
{
    int64_t lanes = c->lanes.data[0], elements = d->plan.rng->elements;
    return elements / lanes + (elements % lanes != 0);
}

void configure_rng(const KernelDesign *d, KernelConfig *c)
{
    if (config_lacks(c, KERNEL_KEY_LANES))
        config_set_lanes(d->arena, c, d->plan.rng->per_block);
    configure_threads(c, threads_of(d, c));
}

const char *refuse_rng(const KernelDesign *d)
{
    const char *wrong = lanes_refused(d, 1);
    if (wrong != NULL)
        return wrong;
    int64_t lanes = d->config.lanes.data[0];
    if (lanes != 1 && lanes != d->plan.rng->per_block)
        return refuse_text(d,
                           "\"lanes\" must be 1 or the %u elements that the generator "
                           "gives at once, found %lld",
                           d->plan.rng->per_block, (long long)lanes);
    return block_refused(d);
}

void geometry_rng(KernelDesign *d)
{
    geometry_threads(d, threads_of(d, &d->config));
}
