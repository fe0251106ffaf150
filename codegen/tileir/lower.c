/* The lowering of a whole program: values on demand, once for each order of dimensions that they are asked for in;
 * products, reductions. What does not change in a loop goes to the block around it, which is why blocks are filled side
 * by side. See lower.h. */
#include "codegen/tileir/lower.h"

#include <math.h>
#include <string.h>

#include "ir/tile/panels.h"

typedef struct TileIrMemo {
    struct TileIrMemo *next;
    TileOrder order;
    const TileIrTile *tile;
} TileIrMemo;

const TileIrTile *tileir_lacks(TileIrLower *l, const char *why)
{
    if (l->why == NULL)
        l->why = why;
    return NULL;
}

TileOrder tileir_order(const TileIrLower *l, uint32_t dims)
{
    TileOrder order = {0};
    for (uint32_t d = 0; d < l->p->dim_count; d++) {
        if ((dims >> d & 1) != 0 && tile_has_coordinate(l->p, d))
            order.dims[order.rank++] = (uint8_t)d;
    }
    return order;
}

TileOrder tileir_without(const TileOrder *order, uint32_t dims)
{
    TileOrder out = {0};
    for (uint32_t i = 0; i < order->rank; i++) {
        if ((dims >> order->dims[i] & 1) == 0)
            out.dims[out.rank++] = order->dims[i];
    }
    return out;
}

static bool same_order(const TileOrder *a, const TileOrder *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank) == 0;
}

static const TileIrTile *known(const TileIrLower *l, const TileOp *op,
                               const TileOrder *order)
{
    for (const TileIrMemo *m = l->memo[op->id]; m != NULL; m = m->next) {
        if (same_order(&m->order, order))
            return m->tile;
    }
    return NULL;
}

void tileir_remember(TileIrLower *l, const TileOp *op, const TileOrder *order,
                     const TileIrTile *tile)
{
    TileIrMemo *m = ARENA_NEW(l->arena, TileIrMemo);
    *m = (TileIrMemo){l->memo[op->id], *order, tile};
    l->memo[op->id] = m;
}

static const TileIrTile *as_known(TileIrLower *l, const TileOp *op,
                                  const TileOrder *order)
{
    if (l->memo[op->id] == NULL)
        return tileir_lacks(l, "a value is needed before it is there");
    return tileir_arrange(l, l->memo[op->id]->tile, &l->memo[op->id]->order, order);
}

/* -- products ------------------------------------------------------------------------------------- */

/* With zeros behind the extents of dimensions that are summed over. */
static const TileIrTile *summed(TileIrLower *l, const TileOp *op, const TileOrder *order,
                                uint32_t over)
{
    const TileIrTile *x = tileir_value(l, op, order), *ok = NULL;
    for (uint32_t d = 0; d < l->p->dim_count && x != NULL; d++) {
        const TileOp none = {.kind = TILE_IN_RANGE};
        if ((over >> d & 1) != 0 && !tile_is_zero_behind(op, d))
            ok = tileir_both(l, ok, tileir_is_there(l, &none, order, UINT32_C(1) << d));
    }
    if (ok == NULL)
        return x;
    const TileIrTile *in[] = {tileir_spread(l, ok, x->sizes), x,
                              tileir_bits(l, x->element, 0, x->rank, x->sizes)};
    return tileir_make(l, TILEIR_SELECT, x->element, NULL, 3, in);
}

static bool is_integer(TileIrScalar t)
{
    return t <= TILEIR_I64;
}

/* Tile IR's sums of products of 8-bit integers stop at the ends of s32 where HLO's wrap: there must be so few terms
 * that neither happens. */
static bool may_overflow(const TileIrLower *l, const TileOp *op)
{
    int64_t terms = 1, largest = 1;
    for (uint32_t i = 0; i < 2; i++)
        largest *= dtype_info[op->operands[i]->dtype].class == DTC_SINT ? 128 : 255;
    for (uint32_t d = 0; d < l->p->dim_count; d++)
        terms *= (op->over >> d & 1) != 0 ? l->p->dims[d].extent : 1;
    return terms > INT32_MAX / largest;
}

static const TileIrTile *multiply(TileIrLower *l, const TileOp *op,
                                  const TileIrTile *const *in)
{
    const TileIrTile *sides[] = {in[0], in[1]};
    if (in[0] == NULL || in[1] == NULL || in[2] == NULL)
        return NULL;
    for (uint32_t i = 0; i < 2; i++) {
        if (sides[i]->element == TILEIR_F32) /* tensor cores have no other */
            sides[i] = tileir_make(l, TILEIR_FTOF, TILEIR_TF32, NULL, 1, &sides[i]);
    }
    if (sides[0]->element != sides[1]->element) /* f8 of two kinds */
        return tileir_lacks(l, "a product of factors of two types");
    bool integers = is_integer(in[0]->element);
    if (integers && may_overflow(l, op))
        return tileir_lacks(l, "sums of integers that may overflow");
    const char signs[] = {dtype_info[op->operands[0]->dtype].class == DTC_SINT,
                          dtype_info[op->operands[1]->dtype].class == DTC_SINT};
    uint32_t type = in[2]->value->type;
    TileIrOp *mma = bytecode_op(l->m, integers ? TILEIR_MMAI : TILEIR_MMAF, 1, &type,
                                integers ? signs : NULL);
    bytecode_operand(mma, sides[0]->value);
    bytecode_operand(mma, sides[1]->value);
    bytecode_operand(mma, in[2]->value);
    bytecode_append(l->at, mma);
    return tileir_tile_of(l, mma, 0, in[2]->element, in[2]->rank, in[2]->sizes);
}

static const TileIrTile *make_dot(TileIrLower *l, const TileOp *op,
                                  const TileOrder *order)
{
    TileOrder over = tileir_order(l, op->over), rows, columns, sums, a, b;
    rows = tileir_order(l, op->operands[0]->dims & ~op->over);
    columns = tileir_order(l, op->operands[1]->dims & ~op->over);
    if (over.rank != 1 || rows.rank != 1 || columns.rank != 1 ||
        rows.dims[0] == columns.dims[0])
        return tileir_lacks(l, "a product of other than two matrices");
    a = (TileOrder){2, {rows.dims[0], over.dims[0]}};
    b = (TileOrder){2, {over.dims[0], columns.dims[0]}};
    sums = (TileOrder){2, {rows.dims[0], columns.dims[0]}};
    const TileIrTile *in[] = {summed(l, op->operands[0], &a, op->over),
                              summed(l, op->operands[1], &b, op->over),
                              tileir_value(l, op->operands[2], &sums)};
    return tileir_arrange(l, multiply(l, op, in), &sums, order);
}

/* -- reductions ----------------------------------------------------------------------------------- */

/* What makes no difference. */
static uint64_t neutral_bits(const TileOp *op)
{
    float value = op->combine == OP_MAXIMUM ? -INFINITY : 0;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* With what makes no difference behind the extent. */
static const TileIrTile *reduced_value(TileIrLower *l, const TileOp *op,
                                       const TileOrder *order)
{
    const TileOp none = {.kind = TILE_IN_RANGE};
    const TileIrTile *x = tileir_value(l, op->operands[0], order),
                     *ok = tileir_is_there(l, &none, order, op->over);
    if (x == NULL || ok == NULL)
        return x;
    const TileIrTile *in[] = {
        tileir_spread(l, ok, x->sizes), x,
        tileir_bits(l, x->element, neutral_bits(op), x->rank, x->sizes)};
    return tileir_make(l, TILEIR_SELECT, x->element, NULL, 3, in);
}

static void add_identity(TileIrLower *l, TileIrOp *op, TileIrScalar t, uint64_t bits)
{
    enum { INTEGER = 1, FLOAT };
    bytecode_attribute(op, 1);
    bytecode_attribute(op, is_integer(t) ? INTEGER : FLOAT);
    bytecode_attribute(op, bytecode_scalar(l->m, t));
    bytecode_attribute(op, bits << 1); /* as a signed number */
}

static TileIrOpcode combination(OpCode combine, TileIrScalar t)
{
    bool is_maximum = combine == OP_MAXIMUM;
    if (is_integer(t))
        return is_maximum ? TILEIR_MAXI : TILEIR_ADDI;
    return is_maximum ? TILEIR_MAXF : TILEIR_ADDF;
}

/* Two elements become one. */
static void fill_body(TileIrLower *l, TileIrBlock *body, OpCode combine, TileIrScalar t)
{
    TileIrBlock *at = l->at;
    const TileIrTile sides[] = {{&body->arguments[0], t, 0, {0}},
                                {&body->arguments[1], t, 0, {0}}};
    l->at = body;
    const TileIrTile *both =
        tileir_binary(l, combination(combine, t), &sides[0], &sides[1]);
    TileIrOp *yield = bytecode_op_counted(l->m, TILEIR_YIELD, 0, NULL);
    bytecode_operand_count(yield, 1);
    bytecode_operand(yield, both->value);
    bytecode_append(body, yield);
    l->at = at;
}

const TileIrTile *tileir_combined(TileIrLower *l, TileIrOpcode op, OpCode combine,
                                  const TileIrTile *x, uint64_t neutral)
{
    if (x == NULL)
        return NULL;
    uint32_t rank = op == TILEIR_REDUCE ? x->rank - 1 : x->rank,
             type = tileir_type(l, x->element, rank, x->sizes),
             scalar = tileir_type(l, x->element, 0, NULL);
    TileIrOp *all = bytecode_op_counted(l->m, op, 1, &type);
    bytecode_attribute(all, x->rank - 1);
    if (op == TILEIR_SCAN)
        bytecode_attribute(all, 0); /* forwards */
    add_identity(l, all, x->element, neutral);
    bytecode_operand_count(all, 1);
    bytecode_operand(all, x->value);
    fill_body(l, bytecode_body(all, 2, (uint32_t[]){scalar, scalar}), combine,
              x->element);
    bytecode_append(l->at, all);
    return tileir_tile_of(l, all, 0, x->element, rank, x->sizes);
}

static const TileIrTile *make_reduce(TileIrLower *l, const TileOp *op,
                                     const TileOrder *order)
{
    TileOrder over = tileir_order(l, op->over), from = *order;
    bool is_known = op->combine == OP_ADD || op->combine == OP_MAXIMUM;
    if (over.rank != 1 || op->dtype != DT_F32 || !is_known)
        return tileir_lacks(l, "a reduction of another kind");
    from.dims[from.rank++] = over.dims[0];
    return tileir_combined(l, TILEIR_REDUCE, op->combine, reduced_value(l, op, &from),
                           neutral_bits(op));
}

/* -- values --------------------------------------------------------------------------------------- */

static const TileIrTile *make_index(TileIrLower *l, const TileOp *op,
                                    const TileOrder *order)
{
    int64_t sizes[TILE_MOST_DIMS];
    for (uint32_t i = 0; i < order->rank; i++)
        sizes[i] = l->p->dims[order->dims[i]].size;
    if (op->kind == TILE_IN_RANGE) {
        const TileIrTile *ok = tileir_is_there(l, op, order, 0);
        if (ok == NULL && l->why == NULL)
            ok = tileir_bits(l, TILEIR_I1, 1, order->rank, sizes);
        return tileir_spread(l, ok, sizes);
    }
    const TileIrTile *x =
        tileir_index(l, op->index[0], op, order, dtype_info[op->dtype].bits == 64);
    return tileir_spread(l, x, sizes);
}

static const TileIrTile *make_constant(TileIrLower *l, const TileOp *op)
{
    TileIrScalar t;
    if (!tileir_type_of(op->dtype, false, &t))
        return tileir_lacks(l, "Tile IR has no such type");
    return tileir_bits(l, t, literal_bits(op->literal, 0), 0, NULL);
}

static const TileIrTile *make(TileIrLower *l, const TileOp *op, const TileOrder *order)
{
    TileOrder own;
    switch (op->kind) {
    case TILE_LOAD:
        return tileir_load(l, op, order);
    case TILE_INDEX:
    case TILE_IN_RANGE:
        return make_index(l, op, order);
    case TILE_CONSTANT:
        return make_constant(l, op);
    case TILE_APPLY:
        return tileir_apply(l, op, order);
    case TILE_BROADCAST:
        own = tileir_without(order, ~op->operands[0]->dims);
        return tileir_value(l, op->operands[0], &own);
    case TILE_REDUCE:
        return make_reduce(l, op, order);
    case TILE_DOT:
        return make_dot(l, op, order);
    case TILE_CARRIED:
    case TILE_FINAL:
        return as_known(l, op, order);
    case TILE_GROUP:
        return tileir_group(l, op);
    case TILE_STORE:
    case TILE_LOOP:
        break;
    }
    return tileir_lacks(l, "an operation without a value");
}

const TileIrTile *tileir_value(TileIrLower *l, const TileOp *op, const TileOrder *order)
{
    TileOrder own = tileir_without(order, ~op->dims);
    TileIrBlock *at = l->at;
    if (own.rank != tileir_order(l, op->dims).rank)
        return tileir_lacks(l, "a tile is needed with fewer dimensions than it has");
    const TileIrTile *t = known(l, op, &own);
    l->at = l->blocks[op->depth];
    if (t == NULL) {
        t = make(l, op, &own);
        if (op->kind == TILE_BROADCAST && t != NULL) {
            TileOrder inner = tileir_without(&own, ~op->operands[0]->dims);
            t = tileir_arrange(l, t, &inner, &own);
        }
        if (t != NULL)
            tileir_remember(l, op, &own, t);
    }
    l->at = at;
    return own.rank == order->rank ? t : tileir_arrange(l, t, &own, order);
}

/* -- the kernel ----------------------------------------------------------------------------------- */

static void number_ops(TileIrLower *l, const TileBlock *block)
{
    for (uint32_t i = 0; i < block->count; i++) {
        l->ops[block->ops[i]->id] = block->ops[i];
        number_ops(l, &block->ops[i]->body);
    }
}

/* The argument that an array is, by its parameter or result. */
static void set_types(TileIrLower *l, uint32_t *types, TileIrScalar *elements)
{
    const Instruction *fusion = l->p->fusion;
    for (uint32_t i = 0; i < l->r->arg_count; i++) {
        uint32_t leaf = i - fusion->operand_count;
        bool is_result = i >= fusion->operand_count && leaf < fusion_result_count(fusion);
        const Shape *s = i < fusion->operand_count ? fusion->operands[i]->shape
                         : is_result               ? fusion_result(fusion, leaf).shape
                                                   : NULL;
        elements[i] = TILEIR_I8; /* what is not used */
        if (s != NULL && shape_is_array(s))
            tileir_type_of(s->dtype, true, &elements[i]);
        types[i] = bytecode_tile(l->m, bytecode_pointer(l->m, elements[i]), 0, NULL);
    }
}

/* Pointers, said to be aligned as they are. */
static void set_arguments(TileIrLower *l, const TileIrScalar *elements)
{
    enum { DIVISIBLE = 8 };
    for (uint32_t i = 0; i < l->r->arg_count; i++) {
        const TileIrValue *v = &l->blocks[0]->arguments[i];
        TileIrOp *op = bytecode_op(l->m, TILEIR_ASSUME, 1, &v->type, NULL);
        bytecode_attribute(op, DIVISIBLE);
        bytecode_attribute(op, l->r->args[i].align);
        bytecode_attribute(op, 0); /* all of it */
        bytecode_operand(op, v);
        bytecode_append(l->at, op);
        l->arguments[i] = tileir_tile_of(l, op, 0, elements[i], 0, NULL);
    }
}

static const TileIrTile *integer(TileIrLower *l, int64_t value)
{
    return tileir_bits(l, TILEIR_I32, (uint64_t)value, 0, NULL);
}

static const TileIrTile *quotient(TileIrLower *l, const TileIrTile *x, int64_t by)
{
    return by == 1 ? x : tileir_binary(l, TILEIR_DIVI, x, integer(l, by));
}

/* The remainder; *number becomes the quotient. */
static const TileIrTile *part_of(TileIrLower *l, const TileIrTile **number, int64_t by)
{
    const TileIrTile *x = *number;
    *number = quotient(l, x, by);
    return by == 1
               ? integer(l, 0)
               : tileir_binary(l, TILEIR_SUBI, x,
                               tileir_binary(l, TILEIR_MULI, *number, integer(l, by)));
}

static const TileIrTile *select(TileIrLower *l, const TileIrTile *x, int64_t equals,
                                const TileIrTile *then, const TileIrTile *otherwise)
{
    static const char equal[] = {0, 1};
    const TileIrTile *same[] = {x, integer(l, equals)};
    const TileIrTile *in[] = {tileir_make(l, TILEIR_CMPI, TILEIR_I1, equal, 2, same),
                              then, otherwise};
    return tileir_make(l, TILEIR_SELECT, TILEIR_I32, NULL, 3, in);
}

/* As tile_panels_at has it; what is left is the number of the matrix. */
static const TileIrTile *find_in_panels(TileIrLower *l, const TilePanels *p,
                                        const TileIrTile *number)
{
    int64_t fast = p->tiles[PANEL_FAST], count = tile_panel_count(p),
            last = tile_last_panel(p), all = p->tiles[PANEL_SLOW] * fast;
    bool is_only = tile_blocks(l->p) == all;
    const TileIrTile *of = is_only ? number : part_of(l, &number, all),
                     *in = part_of(l, &of, p->panel * fast), *column = in,
                     *row = part_of(l, &column, p->panel), *other = in;
    if (last != p->panel) {
        const TileIrTile *own = part_of(l, &other, last);
        row = select(l, of, count - 1, own, row);
        column = select(l, of, count - 1, other, column);
    }
    if (count > 1) {
        const TileIrTile *back =
            tileir_binary(l, TILEIR_SUBI, integer(l, fast - 1), column);
        const TileIrTile *half = of, *odd = part_of(l, &half, 2);
        column = select(l, odd, 0, column, back);
        row = tileir_binary(l, TILEIR_ADDI, row,
                            tileir_binary(l, TILEIR_MULI, of, integer(l, p->panel)));
    }
    l->tile[p->dims[PANEL_SLOW]] = row;
    l->tile[p->dims[PANEL_FAST]] = column;
    return number;
}

static void set_tiles(TileIrLower *l, int64_t panel)
{
    uint32_t type = tileir_type(l, TILEIR_I32, 0, NULL), grid[TILE_MOST_DIMS], count = 0,
             left = l->p->dim_count;
    TileIrOp *id =
        bytecode_op(l->m, TILEIR_BLOCK_ID, 3, (uint32_t[]){type, type, type}, NULL);
    bytecode_append(l->at, id);
    const TileIrTile *block = tileir_tile_of(l, id, 0, TILEIR_I32, 0, NULL);
    TilePanels panels = tile_panels(l->p, panel);
    if (panel > 1) {
        block = find_in_panels(l, &panels, block);
        left = panels.dims[PANEL_SLOW];
    }
    for (uint32_t d = 0; d < left; d++) {
        if (l->p->dims[d].kind != TILE_GRID)
            continue;
        if (tile_count(&l->p->dims[d]) == 1)
            l->tile[d] = integer(l, 0);
        else
            grid[count++] = d;
    }
    for (uint32_t i = count; i-- > 0;)
        l->tile[grid[i]] =
            i == 0 ? block : part_of(l, &block, tile_count(&l->p->dims[grid[i]]));
}

/* Before Ada there are no floats of 8 bits, not even to convert. */
static bool has_types(TileIrLower *l, const Target *target)
{
    for (uint32_t i = 0; i < l->p->op_count; i++) {
        const DTypeInfo *t = l->ops[i] != NULL ? &dtype_info[l->ops[i]->dtype] : NULL;
        if (t != NULL && t->class == DTC_FLOAT && t->bits == 8 &&
            !target_has(target, FEATURE_FP8_CVT)) {
            tileir_lacks(l, "the target has no floats of 8 bits");
            return false;
        }
    }
    return true;
}

static bool make_stores(TileIrLower *l)
{
    for (uint32_t i = 0; i < l->p->body.count; i++) {
        const TileOp *op = l->p->body.ops[i];
        l->at = l->blocks[0];
        if (op->kind == TILE_STORE && !tileir_store(l, op))
            return false;
    }
    return true;
}

/* The dimension along which tiles of `piece` are smaller, and how many of them a tile is; 0: the last tile is none. */
static int64_t pieces_of(const TileProgram *p, const TileProgram *piece, uint32_t *dim)
{
    for (uint32_t d = 0; d < p->dim_count; d++) {
        if (p->dims[d].size != piece->dims[d].size)
            *dim = d;
    }
    int64_t pieces = p->dims[*dim].size / piece->dims[*dim].size;
    return tile_count(&piece->dims[*dim]) == pieces * tile_count(&p->dims[*dim]) ? pieces
                                                                                 : 0;
}

/* That the whole's final `m` is what a piece's `op` is, as far as the piece has it. */
static void name_final(TileIrLower *l, const TileOp *op, const TileIrMemo *m,
                       uint32_t dim, int64_t number)
{
    int64_t sizes[TILE_MOST_DIMS];
    uint32_t along = 0;
    for (uint32_t d = 0; d < m->order.rank; d++) {
        sizes[d] = l->p->dims[m->order.dims[d]].size;
        along = m->order.dims[d] == dim ? d : along;
    }
    tileir_remember(l, op, &m->order, tileir_part(l, m->tile, sizes, along, number));
}

static bool is_final(const TileOp *op)
{
    return op != NULL && op->kind == TILE_FINAL;
}

/* What the loop of the whole leaves. */
static void name_finals(const TileIrLower *whole, TileIrLower *l, uint32_t dim,
                        int64_t number)
{
    for (uint32_t i = 0; i < l->p->op_count; i++) {
        const TileOp *op = l->ops[i];
        for (uint32_t k = 0; is_final(op) && k < whole->p->op_count; k++) {
            if (is_final(whole->ops[k]) && whole->ops[k]->number == op->number)
                name_final(l, op, whole->memo[k], dim, number);
        }
    }
}

/* A thread has no room for all that a tile's stores take at once. */
static bool make_pieces(TileIrLower *whole, const TileProgram *piece, uint32_t dim,
                        int64_t count)
{
    TileIrLower l = *whole;
    size_t ops = (size_t)piece->op_count + 1;
    l.p = piece;
    l.ops = ARENA_ARRAY(l.arena, const TileOp *, ops);
    number_ops(&l, &piece->body);
    for (int64_t i = 0; i < count; i++) {
        l.memo = ARENA_ARRAY(l.arena, TileIrMemo *, ops);
        l.at = l.blocks[0];
        const TileIrTile *first =
            tileir_binary(&l, TILEIR_MULI, whole->tile[dim], integer(&l, count));
        l.tile[dim] = tileir_binary(&l, TILEIR_ADDI, first, integer(&l, i));
        name_finals(whole, &l, dim, i);
        if (!make_stores(&l)) {
            whole->why = l.why;
            return false;
        }
    }
    return true;
}

static bool lower_body(TileIrLower *l, const TileProgram *piece)
{
    for (uint32_t i = 0; i < l->p->body.count; i++) {
        const TileOp *op = l->p->body.ops[i];
        l->at = l->blocks[0];
        if (op->kind == TILE_LOOP && !tileir_loop(l, op))
            return false;
    }
    uint32_t dim = 0;
    int64_t pieces = piece != NULL ? pieces_of(l->p, piece, &dim) : 0;
    if (pieces > 1 ? !make_pieces(l, piece, dim, pieces) : !make_stores(l))
        return false;
    TileIrOp *end = bytecode_op_counted(l->m, TILEIR_RETURN, 0, NULL);
    bytecode_operand_count(end, 0);
    bytecode_append(l->blocks[0], end);
    return l->why == NULL;
}

bool tileir_lower(TileIrModule *m, const TileProgram *p, const TileProgram *piece,
                  const KernelRequest *r, const Target *target, const TileIrHints *hints,
                  const char **why)
{
    TileIrLower l = {.arena = p->arena, .m = m, .p = p, .r = r};
    uint32_t *types = ARENA_ARRAY(l.arena, uint32_t, (size_t)r->arg_count + 1);
    TileIrScalar *elements = ARENA_ARRAY(l.arena, TileIrScalar, (size_t)r->arg_count + 1);
    l.arguments = ARENA_ARRAY(l.arena, const TileIrTile *, (size_t)r->arg_count + 1);
    l.ops = ARENA_ARRAY(l.arena, const TileOp *, (size_t)p->op_count + 1);
    l.memo = ARENA_ARRAY(l.arena, TileIrMemo *, (size_t)p->op_count + 1);
    number_ops(&l, &p->body);
    set_types(&l, types, elements);
    const char *gpu = arena_printf(l.arena, "sm_%u", target->sm);
    l.blocks[0] = l.at = bytecode_kernel(m, r->name, r->arg_count, types, hints, gpu);
    set_arguments(&l, elements);
    set_tiles(&l, hints->panel);
    bool done = has_types(&l, target) && lower_body(&l, piece);
    *why = l.why;
    return done;
}
