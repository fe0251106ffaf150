/* Products of a tile: the instruction's steps along the terms, in a loop that PTX has written out. See lower.h. */
#include <string.h>

#include "codegen/gx/repeat.h"
#include "codegen/tile/lower.h"

static void multiply(TileLower *l, LLVMValueRef *const words[2], const uint32_t counts[2],
                     LLVMValueRef *sums)
{
    const TensorCore *core = l->m->core;
    uint32_t of_a = tensor_core_registers(core, TENSOR_A),
             of_b = tensor_core_registers(core, TENSOR_B),
             of_sums = tensor_core_registers(core, TENSOR_C), columns = counts[1] / of_b;
    l->k->at = l->m->dot->inst->name;
    for (uint32_t row = 0; row < counts[0] / of_a; row++) {
        for (uint32_t column = 0; column < columns; column++) {
            LLVMValueRef *c = &sums[(row * columns + column) * of_sums];
            gx_mma(l->k, core, &words[0][row * of_a], &words[1][column * of_b], c, c);
        }
    }
}

LLVMValueRef *tile_words_of_steps(TileLower *l, const TileSide *s)
{
    uint32_t steps = tile_core_steps(l->m), count = factor_words(l, s->factor);
    LLVMValueRef *words = ARENA_ARRAY(l->k->arena, LLVMValueRef, (size_t)steps * count);
    SharedOffsets offsets = factor_offsets(l, s->factor, s->base);
    for (uint32_t step = 0; step < steps; step++)
        factor_fragments(l, s->factor, step, &offsets, &words[step * count]);
    return words;
}

static void multiply_each(TileLower *l, const TileSide sides[2], const uint32_t counts[2],
                          LLVMValueRef *sums)
{
    uint32_t steps = tile_core_steps(l->m);
    LLVMValueRef *all[2], *words[2];
    for (uint32_t i = 0; i < 2; i++)
        all[i] =
            sides[i].words != NULL ? sides[i].words : tile_words_of_steps(l, &sides[i]);
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < 2; i++)
            words[i] = &all[i][step * counts[i]];
        multiply(l, words, counts, sums);
    }
}

/* What a loop carries: sums, then the words of the sides that are in registers, from own[i] on. */
typedef struct ProductLoop {
    LLVMValueRef *carried, *own[2];
    uint32_t count, sums;
} ProductLoop;

static ProductLoop carry(TileLower *l, const TileSide sides[2], const uint32_t counts[2],
                         LLVMValueRef *sums)
{
    uint32_t steps = tile_core_steps(l->m);
    ProductLoop p = {.sums = UINT32_C(1) << l->m->partial.in[LINEAR_REGISTER]};
    p.count = p.sums;
    p.carried = ARENA_ARRAY(l->k->arena, LLVMValueRef,
                            p.sums + (size_t)steps * (counts[0] + counts[1]));
    memcpy(p.carried, sums, p.sums * sizeof *sums);
    for (uint32_t i = 0; i < 2; i++) {
        if (sides[i].words == NULL)
            continue;
        p.own[i] = &p.carried[p.count];
        memcpy(p.own[i], sides[i].words, (size_t)steps * counts[i] * sizeof *sums);
        p.count += steps * counts[i];
    }
    return p;
}

/* Words in registers move up by those of a step. */
static LLVMValueRef *next_carried(TileLower *l, const ProductLoop *p,
                                  const uint32_t counts[2])
{
    LLVMValueRef *next = arena_copy(l->k->arena, p->carried, p->count * sizeof *next);
    uint32_t remaining = tile_core_steps(l->m) - 1;
    for (uint32_t i = 0; i < 2; i++) {
        if (p->own[i] != NULL)
            memcpy(&next[p->own[i] - p->carried], p->own[i] + counts[i],
                   (size_t)remaining * counts[i] * sizeof *next);
    }
    return next;
}

static void repeat_multiply(TileLower *l, const TileSide sides[2],
                            const uint32_t counts[2], LLVMValueRef *sums)
{
    uint32_t steps = tile_core_steps(l->m), bits = 0;
    ProductLoop p = carry(l, sides, counts, sums);
    SharedOffsets offsets[2];
    LLVMValueRef *words[2];
    GxRepeat loop;
    while (steps >> bits > 1)
        bits++;
    for (uint32_t i = 0; i < 2; i++) {
        if (p.own[i] == NULL)
            offsets[i] = factor_offsets(l, sides[i].factor, sides[i].base);
    }
    gx_repeat_begin(l->k, &loop, steps, p.carried, p.count);
    for (uint32_t i = 0; i < 2; i++) {
        words[i] = p.own[i];
        if (words[i] != NULL)
            continue;
        words[i] = ARENA_ARRAY(l->k->arena, LLVMValueRef, counts[i]);
        shared_step(l, &offsets[i], bits, loop.index);
        factor_fragments(l, sides[i].factor, 0, &offsets[i], words[i]);
    }
    multiply(l, words, counts, p.carried);
    gx_repeat_end(l->k, &loop, next_carried(l, &p, counts));
    memcpy(sums, p.carried, p.sums * sizeof *sums);
}

void tile_multiply(TileLower *l, const TileSide sides[2], LLVMValueRef *sums)
{
    if (l->m->by_warpgroup) {
        tile_multiply_warpgroup(l, sides, sums);
        return;
    }
    uint32_t counts[] = {factor_words(l, sides[0].factor),
                         factor_words(l, sides[1].factor)};
    bool is_held = sides[0].factor->is_held || sides[1].factor->is_held;
    if (is_held || tile_core_steps(l->m) < 2)
        multiply_each(l, sides, counts, sums);
    else
        repeat_multiply(l, sides, counts, sums);
}
