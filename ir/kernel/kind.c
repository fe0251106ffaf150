/* Kinds of kernels: names, and the kind of a fusion in its backend_config. See kind.h. */
#include "ir/kernel/kind.h"

#include <string.h>

#include "ir/attribute/config.h"
#include "ir/base/bug.h"

enum {
#define KERNEL_KEY(id, ...) KEY_##id,
#include "ir/attribute/config.def"
    KEY_COUNT
};
_Static_assert(KEY_COUNT <= 32, "sets of keys are 32 bits");

#define F(flag) KERNEL_##flag
#define K(key) (1u << KEY_##key)
const KernelKindInfo kernel_kind_info[KERNEL_COUNT] = {
#define KERNEL(id, name, family, hero, flags, features, keys, doc)                       \
    {#name, doc, OP_##hero, flags, features, keys},
#include "ir/kernel/kernels.def"
};

const char *kernel_kind_name(KernelKind kind)
{
    return kind < KERNEL_COUNT ? kernel_kind_info[kind].name : "none";
}

static const uint8_t lengths[KERNEL_COUNT] = {
#define KERNEL(id, name, ...) sizeof #name - 1,
#include "ir/kernel/kernels.def"
};

KernelKind kernel_kind_find(const char *name, size_t length)
{
    for (unsigned i = 0; i < KERNEL_COUNT; i++) {
        if (lengths[i] == length && memcmp(kernel_kind_info[i].name, name, length) == 0)
            return (KernelKind)i;
    }
    return KERNEL_COUNT;
}

bool kernel_kind_is(KernelKind kind, uint32_t flags)
{
    return kind < KERNEL_COUNT && (kernel_kind_info[kind].flags & flags) != 0;
}

bool kernel_is(const Instruction *inst, uint32_t flags)
{
    return inst->op == OP_FUSION && kernel_kind_is(kernel_kind_of(inst), flags);
}

KernelKind kernel_kind_of(const Instruction *fusion)
{
    Bytes name = config_word(fusion, CONFIG_EMITTER);
    return kernel_kind_find(name.data, name.length);
}

void kernel_kind_set(Instruction *fusion, KernelKind kind)
{
    if (config_has_kernel(fusion))
        config_remove_object(fusion, "config");
    if (kernel_kind_of(fusion) != kind)
        config_set_word(fusion, CONFIG_EMITTER, kernel_kind_name(kind));
}

OpCode kernel_hero(const Instruction *fusion)
{
    KernelKind kind = kernel_kind_of(fusion);
    return kind < KERNEL_COUNT ? kernel_kind_info[kind].hero : OP_COUNT;
}

/* -- results ------------------------------------------------------------------------------------ */

uint32_t fusion_result_count(const Instruction *fusion)
{
    return (uint32_t)shape_leaf_count(inst_called(fusion, 0)->root->shape);
}

/* The tuple element of `inst` that holds its leaf `leaf`; *leaf becomes the leaf inside it. */
static uint32_t element_of_leaf(const Shape *tuple, uint32_t *leaf)
{
    for (uint32_t i = 0; i < tuple->rank; i++) {
        uint32_t count = (uint32_t)shape_leaf_count(tuple->elements[i]);
        if (*leaf < count)
            return i;
        *leaf -= count;
    }
    bug("a tuple has no such leaf");
}

FusionResult fusion_result(const Instruction *fusion, uint32_t leaf)
{
    const Instruction *inst = inst_called(fusion, 0)->root;
    const Shape *shape = shape_leaf(inst->shape, leaf);
    for (;;) {
        if (inst->op == OP_TUPLE) {
            inst = inst->operands[element_of_leaf(inst->shape, &leaf)];
        } else if (inst->op == OP_GET_TUPLE_ELEMENT) {
            int64_t index = inst_int(inst, ATTR_INDEX, 0);
            inst = inst->operands[0];
            for (int64_t i = 0; i < index; i++)
                leaf += (uint32_t)shape_leaf_count(inst->shape->elements[i]);
        } else {
            return (FusionResult){inst, leaf, shape};
        }
    }
}

const Instruction *fusion_hero(const Instruction *fusion, OpCode op)
{
    const Computation *comp = inst_called(fusion, 0);
    const Instruction *hero = NULL;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op != op)
            continue;
        if (hero != NULL)
            return NULL;
        hero = inst;
    }
    return hero;
}
