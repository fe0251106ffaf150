/* How a block carries out a chain of dots. See mapping.h. */
#include "ir/tile/mapping_parts.h"

enum {
    WARPGROUP_LEAST_COLUMNS = 32 /* of wgmma: of fewer, reading 64 rows takes longer */
};

/* What the dot's sides are. */
static void name_sides(TileMapping *m, const TileOp *dot)
{
    m->term = tile_only_dim(dot->over);
    m->row = tile_only_dim(dot->operands[0]->dims & ~dot->over);
    m->column = tile_only_dim(dot->operands[1]->dims & ~dot->over);
}

/* It comes to shared memory in pieces of 16 bytes, 8 numbers. */
static bool has_pieces(TileMapping *m, uint32_t factor, const Target *target)
{
    TileFactor f = {.value = m->dot->operands[factor]};
    tile_choose_way(m, &f, target);
    return f.vector == WARPGROUP_PIECE_LOG2;
}

/* Whether four warps make the dot together, by wgmma: 64 rows, or several times as many, by enough columns. An outer
 * one's first factor is in registers. */
static bool is_warpgroup_dot(const TileProgram *p, TileOp *dot, bool is_outer,
                             uint32_t warps, const Target *target)
{
    TileMapping m = {.program = p, .dot = dot};
    name_sides(&m, dot);
    int64_t columns = p->dims[m.column].size, terms = p->dims[m.term].size;
    return dot->dtype == DT_F32 && tile_bits(dot->operands[0]) == 16 &&
           dot->operands[0]->dtype == dot->operands[1]->dtype &&
           p->dims[m.row].size >= WARPGROUP_ROWS * (warps / WARPGROUP_WARPS) &&
           columns <= WARPGROUP_COLUMNS && terms >= WARPGROUP_TERMS &&
           terms <= WARPGROUP_COLUMNS &&
           (is_outer || columns >= WARPGROUP_LEAST_COLUMNS) &&
           has_pieces(&m, 1, target) && (is_outer || has_pieces(&m, 0, target));
}

/* All dots or none: what is a factor of several lies once. */
static bool takes_warpgroups(const TileProgram *p, const TileOp *loop, uint32_t warps,
                             const Target *target)
{
    if (!target_has(target, FEATURE_WARPGROUP) || warps % WARPGROUP_WARPS != 0)
        return false;
    for (uint32_t i = 0; i < loop->body.count; i++) {
        TileOp *op = loop->body.ops[i];
        bool is_outer = op->over >> loop->dim & 1;
        if (op->kind == TILE_DOT && !is_warpgroup_dot(p, op, is_outer, warps, target))
            return false;
    }
    return true;
}

/* A dot whose rows are the warps' and whose columns all of them have. */
static bool map_dot(TileMapping *m, const TileProgram *p, TileOp *dot, uint32_t warps,
                    const Target *target)
{
    m->program = p;
    m->dot = dot;
    name_sides(m, dot);
    m->warps[0] = warps;
    m->warps[1] = m->slices = 1;
    for (uint32_t i = 0; i < 2; i++)
        m->factors[i].value = dot->operands[i];
    m->core = tensor_core_find(dot->operands[0]->dtype, dot->operands[1]->dtype,
                               dot->dtype, target, UINT32_MAX);
    if (m->core == NULL || p->dims[m->row].size < (int64_t)m->core->m * warps ||
        p->dims[m->column].size < m->core->n || p->dims[m->term].size < m->core->k)
        return false;
    tile_lay_out(m);
    return true;
}

/* Terms of an outer dot are added in any order. Of the instruction of 32 bits a thread has one and the one 4 behind it,
 * of the scores two that follow each other: numbered like these, they are its factor as they lie. */
static void renumber_terms(TileMapping *m)
{
    uint32_t position[LINEAR_MOST_BITS] = {1, 2, 0};
    if (tile_bits(m->factors[0].value) != 32)
        return;
    for (uint32_t i = 3; i < LINEAR_MOST_BITS; i++)
        position[i] = i;
    for (uint32_t i = 0; i < 2; i++)
        tile_renumber(&m->factors[i].fragment, m->term, position);
}

static void lay_out_shared(TileMapping *m, uint32_t factor, const Target *target,
                           uint64_t *bytes)
{
    TileFactor *f = &m->factors[factor];
    tile_choose_way(m, f, target);
    if (m->by_warpgroup)
        tile_lay_out_warpgroup(m, f);
    else
        tile_lay_out_factor(m, f);
    f->offset = *bytes;
    *bytes += tile_aligned(m, f->bytes);
}

/* The same tile as a factor of another dot: as it lies, read in this one's fragments. */
static void read_as_laid_out(TileMapping *m, TileFactor *f, const TileFactor *laid_out)
{
    LinearLayout fragment = f->fragment, rows;
    uint32_t bits = tile_bits(f->value), row = tile_log2(TILE_MOST_VECTOR / bits);
    *f = *laid_out;
    f->fragment = fragment;
    f->is_transposed = f->fast != m->term;
    f->is_matrix = !m->by_warpgroup &&
                   linear_matrix_rows(&f->fragment, bits, 0, f->is_transposed, &rows);
    if (f->is_matrix) {
        LinearMap offsets = linear_offsets(&rows, &f->shared);
        f->is_matrix = linear_vector(&rows, &offsets) >= UINT32_C(1) << row;
    }
}

static void lay_out_staged(TileChainMapping *c, TileMapping *m, const Target *target)
{
    TileFactor *f = &m->factors[1];
    for (uint32_t i = 0; i < c->staged_count; i++) {
        if (c->staged[i]->value == f->value) {
            read_as_laid_out(m, f, c->staged[i]);
            return;
        }
    }
    lay_out_shared(m, 1, target, &c->stage_bytes);
    c->staged[c->staged_count++] = f;
}

/* The loop and the dots in it: those over what a tile has all of, and those over the loop's dimension. */
static bool find_dots(TileChainMapping *c, TileOp *inner[], TileOp *outer[])
{
    const TileBlock *body = &c->program->body;
    for (uint32_t i = 0; i < body->count; i++) {
        c->loop = body->ops[i]->kind == TILE_LOOP ? body->ops[i] : c->loop;
        c->result_count += body->ops[i]->kind == TILE_STORE;
    }
    for (uint32_t i = 0; c->loop != NULL && i < c->loop->body.count; i++) {
        TileOp *op = c->loop->body.ops[i];
        bool is_outer = op->over >> c->loop->dim & 1;
        uint32_t *count = is_outer ? &c->outer_count : &c->inner_count;
        if (op->kind != TILE_DOT)
            continue;
        if (*count == TILE_CHAIN_DOTS)
            return false;
        (is_outer ? outer : inner)[(*count)++] = op;
    }
    return c->inner_count != 0 && c->outer_count != 0;
}

/* The mapping of the outer dot whose result lies as the value does; NULL: it has an element for each row. */
static const TileMapping *sums_like(const TileChainMapping *c, const TileOp *value)
{
    for (uint32_t i = 0; i < c->outer_count; i++) {
        if (c->outer[i].dot->dims == value->dims)
            return &c->outer[i];
    }
    return NULL;
}

static bool lay_out_results(Arena *a, TileChainMapping *c, const Target *target)
{
    const TileBlock *body = &c->program->body;
    uint32_t n = 0;
    c->results = ARENA_ARRAY(a, TileResult, c->result_count);
    for (uint32_t i = 0; i < body->count; i++) {
        if (body->ops[i]->kind != TILE_STORE)
            continue;
        TileResult *r = &c->results[n++];
        r->store = body->ops[i];
        r->sums = sums_like(c, r->store->operands[0]);
        if (r->sums != NULL) {
            tile_lay_out_result(r->sums, r, target->device->block_shared);
        } else if (r->store->dims == UINT32_C(1) << c->inner[0].row) {
            r->layout = c->rows;
        } else {
            return false;
        }
        if (r->bytes > c->shared_bytes)
            c->shared_bytes = r->bytes;
    }
    return true;
}

/* Beside so many sums and scores ptxas spills what is used once for each tile of columns: of the rows of an attention
 * their totals, the last of what its loop carries. A band's masks leave it room: its loop's bounds are no constants. */
static bool is_crowded(const TileChainMapping *c)
{
    enum { CROWDED = 192 /* registers of sums, scores and rows */ };
    uint32_t registers = tile_carried_registers(c);
    for (uint32_t i = 0; i < c->inner_count; i++)
        registers += UINT32_C(1) << c->inner[i].sums.in[LINEAR_REGISTER];
    return registers >= CROWDED && c->loop->begin->kind == IX_CONST &&
           c->loop->end->kind == IX_CONST;
}

static void lay_out_rows(TileChainMapping *c, uint32_t warps, const Target *target)
{
    enum { WORD_BYTES = 4 };
    const TileOp *last = c->loop->operands[c->loop->operand_count - 1];
    uint64_t bytes = (uint64_t)warps * TARGET_WARP * tile_row_registers(c) * WORD_BYTES;
    if (!is_crowded(c) || tile_carried_layout(c, last) != &c->rows ||
        c->shared_bytes + bytes > target->device->block_shared)
        return;
    c->shares_rows = true;
    c->rows_offset = c->shared_bytes;
    c->shared_bytes += bytes;
}

TileChainMapping *tile_map_chain(Arena *a, const TileProgram *p, uint32_t warps,
                                 uint32_t stages, const Target *target, const char **why)
{
    TileChainMapping *c = ARENA_NEW(a, TileChainMapping);
    TileOp *inner[TILE_CHAIN_DOTS], *outer[TILE_CHAIN_DOTS];
    c->program = p;
    c->stages = stages;
    *why = "it is no loop of dots and of dots of these";
    if (!find_dots(c, inner, outer))
        return NULL;
    *why = "the target has no tensor cores for these types, or the tile is too small";
    bool by_warpgroup = takes_warpgroups(p, c->loop, warps, target);
    for (uint32_t i = 0; i < c->inner_count; i++) {
        c->inner[i].by_warpgroup = by_warpgroup;
        if (!map_dot(&c->inner[i], p, inner[i], warps, target))
            return NULL;
    }
    for (uint32_t i = 0; i < c->outer_count; i++) {
        c->outer[i].by_warpgroup = by_warpgroup;
        if (!map_dot(&c->outer[i], p, outer[i], warps, target))
            return NULL;
        renumber_terms(&c->outer[i]);
    }
    /* what is made of an inner dot's results is an outer one's factor as it lies */
    *why = "the instruction's results do not lie as its factors do";
    if (linear_convert(&c->inner[0].sums, &c->outer[0].factors[0].fragment).kind >
        CONVERT_REGISTERS)
        return NULL;
    c->rows = linear_without(&c->inner[0].sums, c->inner[0].column);
    for (uint32_t i = 0; i < c->inner_count; i++)
        lay_out_shared(&c->inner[i], 0, target, &c->stage_offset);
    for (uint32_t i = 0; i < c->inner_count; i++)
        lay_out_staged(c, &c->inner[i], target);
    for (uint32_t i = 0; i < c->outer_count; i++)
        lay_out_staged(c, &c->outer[i], target);
    c->shared_bytes = c->stage_offset + c->stage_bytes * stages;
    lay_out_rows(c, warps, target);
    tile_use_registers(c);
    *why = "a result has other elements";
    if (!lay_out_results(a, c, target))
        return NULL;
    *why = NULL;
    return c;
}
