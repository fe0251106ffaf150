/* Registers of a thread: what the loop of a chain of dots carries; and how many that of a contraction needs: its sums
 * and fragments, what it has loaded for a stage that it fills by itself, and what stands in front of the loop for it.
 * The latter is an estimate, so that no tile is chosen which assemblers can only spill. */
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

/* Different elements of a value that a thread has of what it brings. */
static uint32_t brought_elements(const TileFactor *f, const TileOp *op)
{
    LinearLayout own = linear_projected(&f->copy, op->dims);
    return distinct_registers(&own);
}

/* What stands in front of the loop, as of a row or a column, stays in registers, each in its own. */
static uint32_t kept_words(const TileFactor *f, const TileOp *op)
{
    return brought_elements(f, op) * words_of(1, op->dtype);
}

/* Elements of a load that a thread has; of a held factor they differ along the terms, where neighbours may be one. */
static uint32_t loaded_elements(const TileMapping *m, const TileFactor *f,
                                const TileOp *op)
{
    uint32_t each = brought_elements(f, op), bits = 0;
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
    if (op->depth == 0)
        return op->dims != 0 ? kept_words(f, op) : 0;
    if (op->kind == TILE_LOAD) {
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

uint32_t tile_sum_registers(const TileMapping *m)
{
    return ADDRESSES + words_of(elements_of(&m->partial), m->dot->dtype);
}

uint32_t tile_thread_registers(const TileMapping *m, const Target *target)
{
    uint32_t sum = tile_sum_registers(m);
    bool *seen = ARENA_ARRAY(m->program->arena, bool, m->program->op_count);
    for (uint32_t i = 0; i < 2; i++) {
        const TileFactor *f = &m->factors[i];
        if (!m->by_warpgroup)
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

/* Which outer dots' weights (bits) an operation of the loop is needed for. */
static void mark_needed(const TileOp *op, uint32_t dot, uint32_t *needed)
{
    if (op->depth == 0 || (needed[op->id] & dot) != 0)
        return;
    needed[op->id] |= dot;
    bool is_end = op->kind == TILE_DOT || op->kind == TILE_LOAD;
    for (uint32_t i = 0; i < op->operand_count && !is_end; i++)
        mark_needed(op->operands[i], dot, needed);
}

static bool is_of_several(uint32_t dots)
{
    return (dots & (dots - 1)) != 0;
}

/* Tiles of scores that wait while the first outer dot's weights are made: results of inner dots, and what other weights are
 * made of as well. Predicates are computed anew. */
static uint32_t waiting_tiles(const TileChainMapping *m, const uint32_t *needed)
{
    const TileProgram *p = m->program;
    const TileBlock *body = &m->loop->body;
    uint32_t scores = m->inner[0].dot->dims, count = 0;
    bool *waits = ARENA_ARRAY(p->arena, bool, p->op_count);
    for (uint32_t i = 0; i < body->count; i++) {
        const TileOp *op = body->ops[i];
        bool is_own = needed[op->id] != 0 && !is_of_several(needed[op->id]);
        if (op->kind == TILE_DOT && is_own)
            waits[op->id] = true;
        for (uint32_t k = 0; k < op->operand_count && is_own; k++)
            waits[op->operands[k]->id] |= is_of_several(needed[op->operands[k]->id]);
    }
    for (uint32_t i = 0; i < body->count; i++) {
        const TileOp *op = body->ops[i];
        count += waits[op->id] && op->dims == scores && op->dtype != DT_PRED &&
                 op->kind != TILE_LOAD;
    }
    return count > m->inner_count ? count : m->inner_count;
}

static uint32_t sums_and_scores(const TileChainMapping *m)
{
    uint32_t sums = 0;
    for (uint32_t i = 0; i < m->outer_count; i++)
        sums += elements_of(&m->outer[i].sums);
    return sums + m->inner_count * elements_of(&m->inner[0].sums);
}

/* Of an array with an element for each score: a thread's elements, for two of them an address or a predicate where they
 * are loaded one by one, and where some are behind the end. */
static uint32_t score_words(const TileChainMapping *m, const TileOp *load)
{
    const TileProgram *p = m->program;
    const TileDim *column = &p->dims[m->inner[0].column];
    uint32_t each = elements_of(&m->inner[0].sums);
    bool is_pair = tile_is_vector(p, load, m->inner[0].column, 1);
    return (is_pair ? words_of(each, load->dtype) : each + each / 2) +
           (column->extent % column->size != 0 ? each / 2 : 0);
}

/* Of the factors that lie in stages: copies of a depth that is not all there, fragments of a step. */
static uint32_t staging_registers(const TileChainMapping *m)
{
    enum { ZEROS = 8, FRAGMENTS = 24 };
    bool is_short = false;
    for (uint32_t i = 0; i < m->inner_count; i++) {
        const TileDim *depth = &m->program->dims[m->inner[i].term];
        is_short |= depth->extent % depth->size != 0;
    }
    return (is_short ? ZEROS : 0) + (m->inner[0].by_warpgroup ? 0 : FRAGMENTS);
}

uint32_t tile_least_registers(const TileChainMapping *m)
{
    uint32_t sum = distinct_registers(&m->inner[0].sums);
    for (uint32_t i = 0; i < m->outer_count; i++)
        sum += distinct_registers(&m->outer[i].sums);
    return sum;
}

uint32_t tile_chain_registers(const TileChainMapping *m)
{
    const TileBlock *body = &m->loop->body;
    uint32_t each = elements_of(&m->inner[0].sums), scores = m->inner[0].dot->dims,
             *needed = ARENA_ARRAY(m->program->arena, uint32_t, m->program->op_count);
    for (uint32_t i = 0; i < m->outer_count; i++)
        mark_needed(m->outer[i].factors[0].value, UINT32_C(1) << i, needed);
    uint32_t sum = sums_and_scores(m) + staging_registers(m) +
                   (waiting_tiles(m, needed) - m->inner_count) * each;
    for (uint32_t i = 0; i < body->count; i++) {
        const TileOp *op = body->ops[i];
        sum += op->kind == TILE_LOAD && op->dims == scores ? score_words(m, op) : 0;
    }
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
        f->is_kept = !c->inner[i].by_warpgroup && kept + words <= MOST_KEPT &&
                     used + weights + kept + words <= MOST_BESIDE;
        kept += f->is_kept ? words : 0;
    }
}
