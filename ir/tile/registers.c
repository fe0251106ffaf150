/* Registers of a thread: what the loop of a chain of dots carries; and how many that of a contraction needs: its sums
 * and fragments, and what it has loaded for a stage that it fills by itself. The latter is an estimate, so that no
 * tile is chosen which assemblers can only spill. */
#include "ir/tile/mapping.h"

enum {
    ADDRESSES = 24, /* and numbers of the loop, stages, lanes */
    WORD_BITS = 32
};

/* -- contractions -------------------------------------------------------------------------------- */

static uint32_t words_of(uint32_t elements, DType t)
{
    return (elements * dtype_info[t].bits + WORD_BITS - 1) / WORD_BITS;
}

static uint32_t elements_of(const LinearLayout *l)
{
    return UINT32_C(1) << l->in[LINEAR_REGISTER];
}

/* Elements of a load that a thread has; of a held factor they differ along the terms, where neighbours may be one. */
static uint32_t loaded_elements(const TileMapping *m, const TileFactor *f,
                                const TileOp *op)
{
    uint32_t threads = tile_warps(m) * TARGET_WARP, bits = 0;
    uint32_t each =
        (uint32_t)((tile_elements(m->program, op->dims) + threads - 1) / threads);
    while (each >> (bits + 1) != 0)
        bits++;
    return f->is_held ? each >> tile_same_run(m->program, op, m->term, bits) : each;
}

/* What is loaded element by element, each where it may not be there, has an address or a predicate for two of them
 * beside each one's own register; what lies side by side is whole words. */
static uint32_t loaded_words(const TileMapping *m, const TileFactor *f, const TileOp *op,
                             bool *seen)
{
    uint32_t sum = 0;
    if (seen[op->id])
        return 0;
    seen[op->id] = true;
    if (op->kind == TILE_LOAD && op->depth != 0) {
        uint32_t each = loaded_elements(m, f, op);
        bool is_single = f->vector == 0 && op->constraint_count != 0;
        return is_single ? each + each / 2 : words_of(each, op->dtype);
    }
    for (uint32_t i = 0; i < op->operand_count && op->kind != TILE_LOAD; i++)
        sum += loaded_words(m, f, op->operands[i], seen);
    return sum;
}

/* Of one step of the instruction. mma.sync has no f8 on sm_90 and sm_100: ptxas makes f16 of it. */
static uint32_t fragment_words(const TileMapping *m, const TileFactor *f,
                               const Target *target)
{
    DType t = f->value->dtype;
    uint32_t words = words_of(elements_of(&f->fragment) / tile_core_steps(m), t);
    bool is_widened =
        dtype_info[t].class == DTC_FLOAT && dtype_info[t].bits == 8 &&
        (target_has(target, FEATURE_WGMMA) || target_has(target, FEATURE_TCGEN05));
    return is_widened ? 3 * words : words;
}

uint32_t tile_thread_registers(const TileMapping *m, const Target *target)
{
    uint32_t sum = ADDRESSES + words_of(elements_of(&m->partial), m->dot->dtype);
    bool *seen = ARENA_ARRAY(m->program->arena, bool, m->program->op_count);
    for (uint32_t i = 0; i < 2; i++) {
        const TileFactor *f = &m->factors[i];
        if (!m->is_wide)
            sum += fragment_words(m, f, target);
        if (!f->is_copied)
            sum += loaded_words(m, f, f->value, seen);
    }
    return sum;
}

/* -- chains of dots ----------------------------------------------------------------------------- */

const LinearLayout *tile_carried_layout(const TileChainMapping *m, const TileOp *op)
{
    for (uint32_t i = 0; i < m->outer_count; i++) {
        if (op->dims == m->outer[i].dot->dims)
            return &m->outer[i].sums;
    }
    return &m->rows;
}

uint32_t tile_distinct_bits(const LinearLayout *layout)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < layout->in[LINEAR_REGISTER]; i++)
        bits |= layout->columns[i] != 0 ? UINT32_C(1) << i : 0;
    return bits;
}

static uint32_t distinct_registers(const LinearLayout *layout)
{
    uint32_t count = 1;
    for (uint32_t bits = tile_distinct_bits(layout); bits != 0; bits &= bits - 1)
        count *= 2;
    return count;
}

uint32_t tile_row_registers(const TileChainMapping *m)
{
    return distinct_registers(&m->rows);
}

uint32_t tile_carried_registers(const TileChainMapping *m)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < m->loop->operand_count; i++)
        sum += distinct_registers(tile_carried_layout(m, m->loop->operands[i]));
    return sum;
}

/* What stays in shared memory is read for each tile of columns, unless registers have room for it beside sums and
 * scores; wgmma reads it there. Beside as many as CROWDED ptxas spills a few for a branch around predicates. */
void tile_use_registers(TileChainMapping *c)
{
    enum { MOST_KEPT = 32, MOST_BESIDE = 160, CROWDED = 192 /* registers */ };
    uint32_t kept = 0, used = 0,
             weights = 0; /* these beside the scores they are made of */
    for (uint32_t i = 0; i < c->outer_count; i++)
        used += elements_of(&c->outer[i].sums);
    for (uint32_t i = 0; i < c->inner_count; i++) {
        used += elements_of(&c->inner[i].sums);
        if (dtype_info[c->inner[i].factors[0].value->dtype].bits == WORD_BITS)
            weights += elements_of(&c->inner[i].sums);
    }
    c->has_edges = c->loop->inside_begin != NULL && used < CROWDED;
    for (uint32_t i = 0; i < c->inner_count; i++) {
        TileFactor *f = &c->inner[i].factors[0];
        uint32_t words = words_of(elements_of(&f->fragment), f->value->dtype);
        f->is_kept = !c->inner[i].is_wide && kept + words <= MOST_KEPT &&
                     used + weights + kept + words <= MOST_BESIDE;
        kept += f->is_kept ? words : 0;
    }
}
