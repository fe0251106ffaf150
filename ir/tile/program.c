/* Tile programs: making them, and the rules that they keep. See tile.h. */
#include "ir/tile/tile.h"

#include "ir/base/bug.h"

TileProgram *tile_program_create(Arena *a, const Instruction *fusion)
{
    TileProgram *p = ARENA_NEW(a, TileProgram);
    p->arena = a;
    p->ix = index_context_create(a);
    p->fusion = fusion;
    return p;
}

TileOp *tile_add(TileProgram *p, TileBlock *block, uint32_t depth, TileKind kind,
                 DType dtype, uint32_t dims, uint32_t operand_count,
                 TileOp *const *operands)
{
    TileOp *op = ARENA_NEW(p->arena, TileOp);
    op->id = p->op_count++;
    op->depth = depth;
    op->kind = kind;
    op->dtype = dtype;
    op->dims = dims;
    op->operand_count = operand_count;
    op->operands = arena_copy(p->arena, operands, operand_count * sizeof(TileOp *));
    block->ops = arena_grow(p->arena, block->ops, &block->capacity,
                            (size_t)block->count + 1, sizeof(TileOp *));
    block->ops[block->count++] = op;
    return op;
}

void tile_move_last(TileBlock *block, const TileOp *op)
{
    uint32_t kept = 0;
    TileOp *moved = NULL;
    for (uint32_t i = 0; i < block->count; i++) {
        if (block->ops[i] == op)
            moved = block->ops[i];
        else
            block->ops[kept++] = block->ops[i];
    }
    if (moved != NULL)
        block->ops[kept] = moved;
}

static void mark(const TileOp *op, bool *is_used)
{
    if (op == NULL || is_used[op->id])
        return;
    is_used[op->id] = true;
    mark(op->loop, is_used);
    mark(op->most, is_used);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        mark(op->operands[i], is_used);
        if (op->kind == TILE_LOOP)
            mark(op->next[i], is_used);
    }
}

static uint32_t add_loads(const TileOp *op, bool *is_seen, const TileOp **out)
{
    uint32_t count = 0;
    if (is_seen[op->id])
        return 0;
    is_seen[op->id] = true;
    if (op->kind == TILE_LOAD) {
        *out = op;
        return 1;
    }
    for (uint32_t i = 0; i < op->operand_count; i++)
        count += add_loads(op->operands[i], is_seen, out + count);
    return count;
}

uint32_t tile_loads(const TileProgram *p, const TileOp *value, const TileOp ***out)
{
    *out = ARENA_ARRAY(p->arena, const TileOp *, p->op_count);
    return add_loads(value, ARENA_ARRAY(p->arena, bool, p->op_count), *out);
}

static void keep_used(TileBlock *block, const bool *is_used)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < block->count; i++) {
        if (!is_used[block->ops[i]->id])
            continue;
        keep_used(&block->ops[i]->body, is_used);
        block->ops[kept++] = block->ops[i];
    }
    block->count = kept;
}

static bool is_f32(const TileOp *op, OpCode code)
{
    return op->kind == TILE_APPLY && op->inst->op == code && op->dtype == DT_F32;
}

uint32_t tile_fused_operand(const TileOp *op)
{
    uint32_t i = 0;
    if (!is_f32(op, OP_ADD) && !is_f32(op, OP_SUBTRACT))
        return 2;
    while (i < 2 && !op->operands[i]->is_fused)
        i++;
    return i;
}

static void begin_fused(TileBlock *block)
{
    for (uint32_t i = 0; i < block->count; i++) {
        block->ops[i]->is_fused = is_f32(block->ops[i], OP_MULTIPLY);
        begin_fused(&block->ops[i]->body);
    }
}

/* A product that anything else reads is made anyway. */
static void end_fused(const TileBlock *block)
{
    for (uint32_t i = 0; i < block->count; i++) {
        const TileOp *op = block->ops[i];
        uint32_t fused = tile_fused_operand(op);
        for (uint32_t k = 0; k < op->operand_count; k++) {
            op->operands[k]->is_fused &=
                k == fused && op->operands[k]->depth == op->depth;
            if (op->kind == TILE_LOOP)
                op->next[k]->is_fused = false;
        }
        end_fused(&op->body);
    }
}

void tile_finish(TileProgram *p)
{
    bool *is_used = ARENA_ARRAY(p->arena, bool, p->op_count);
    for (uint32_t i = 0; i < p->body.count; i++) {
        if (p->body.ops[i]->kind == TILE_STORE)
            mark(p->body.ops[i], is_used);
    }
    keep_used(&p->body, is_used);
    begin_fused(&p->body);
    end_fused(&p->body);
}

const IndexExpr *tile_coordinate(const TileProgram *p, uint32_t dim)
{
    return ix_dim(p->ix, dim, (Range){0, p->dims[dim].extent - 1});
}

int64_t tile_count(const TileDim *d)
{
    return (d->extent + d->size - 1) / d->size;
}

int64_t tile_blocks(const TileProgram *p)
{
    int64_t blocks = 1;
    for (uint32_t i = 0; i < p->dim_count; i++) {
        if (p->dims[i].kind == TILE_GRID)
            blocks *= tile_count(&p->dims[i]);
    }
    return blocks;
}

bool tile_has_coordinate(const TileProgram *p, uint32_t dim)
{
    return p->dims[dim].size > 1;
}

bool tile_is_grouped(const TileProgram *p, uint32_t dim)
{
    for (uint32_t i = 0; i < p->body.count; i++) {
        const TileOp *op = p->body.ops[i];
        if (op->kind == TILE_GROUP && op->rows != 0 &&
            ix_depends(op->begin, IX_SYMBOL, dim))
            return true;
    }
    return false;
}

bool tile_is_zero_behind(const TileOp *op, uint32_t dim)
{
    if (op->kind == TILE_LOAD)
        return (op->dims >> dim & 1) != 0;
    if (op->kind == TILE_BROADCAST ||
        (op->kind == TILE_APPLY &&
         (op->inst->op == OP_CONVERT || op->inst->op == OP_NEGATE)))
        return tile_is_zero_behind(op->operands[0], dim);
    /* a factor that is not zero may be infinite */
    return op->kind == TILE_APPLY && op->inst->op == OP_MULTIPLY &&
           tile_is_zero_behind(op->operands[0], dim) &&
           tile_is_zero_behind(op->operands[1], dim);
}

int64_t tile_elements(const TileProgram *p, uint32_t dims)
{
    int64_t elements = 1;
    for (uint32_t i = 0; i < p->dim_count; i++)
        elements *= dims >> i & 1 ? p->dims[i].size : 1;
    return elements;
}

/* -- the verifier --------------------------------------------------------------------------- */

typedef struct Verifier {
    const TileProgram *p;
    bool *is_defined;  /* by id: in this block or one around it */
    uint32_t in_loops; /* dimensions of the loops around */
} Verifier;

/* The expression is one of the op's coordinates, of dimensions without, and of its RUNTIMEs. */
static bool index_is_good(const Verifier *v, const TileOp *op, const IndexExpr *e,
                          uint32_t first)
{
    const TileProgram *p = v->p;
    switch (e->kind) {
    case IX_CONST:
        return true;
    case IX_DIM:
        if (e->value >= p->dim_count)
            return false;
        if (p->dims[e->value].kind == TILE_SEQUENTIAL &&
            (v->in_loops >> e->value & 1) == 0)
            return false;
        return !tile_has_coordinate(p, (uint32_t)e->value) || op->dims >> e->value & 1;
    case IX_RUNTIME:
        for (uint32_t i = first; i < op->operand_count; i++) {
            if (op->operands[i]->id == e->value)
                return true;
        }
        return false;
    case IX_SYMBOL:
        return false;
    default:
        return index_is_good(v, op, e->a, first) &&
               (e->b == NULL || index_is_good(v, op, e->b, first));
    }
}

static const char *check_access(const Verifier *v, const TileOp *op, uint32_t rank,
                                uint32_t first)
{
    for (uint32_t i = 0; i < rank; i++) {
        if (!index_is_good(v, op, op->index[i], first))
            return "an index of something that is not there";
    }
    for (uint32_t i = 0; i < op->constraint_count; i++) {
        if (!index_is_good(v, op, op->constraints[i].expr, first))
            return "a constraint of something that is not there";
    }
    for (uint32_t i = first; i < op->operand_count; i++) {
        const TileOp *r = op->operands[i];
        if ((r->dtype != DT_S32 && r->dtype != DT_S64) || (r->dims & ~op->dims) != 0)
            return "an index that is read has a type or dimensions that it cannot have";
    }
    return NULL;
}

static const char *check_sums(const TileOp *op)
{
    const TileOp *a = op->operands[0], *b = op->operands[1], *c = op->operands[2];
    if (c->dims != op->dims || c->dtype != op->dtype)
        return "a dot is added to something else than it gives";
    if (a->dtype != b->dtype && dtype_info[a->dtype].bits != dtype_info[b->dtype].bits)
        return "a dot of types that do not go together";
    if ((a->dims | b->dims) != (op->dims | op->over) || (op->dims & op->over) != 0 ||
        (a->dims & b->dims & op->over) != op->over)
        return "a dot over dimensions that its operands do not have";
    return NULL;
}

static const char *check_block(Verifier *v, const TileBlock *block);

static const char *check_loop(Verifier *v, const TileOp *op)
{
    const TileProgram *p = v->p;
    if (op->dim >= p->dim_count || p->dims[op->dim].kind != TILE_SEQUENTIAL ||
        v->in_loops >> op->dim & 1)
        return "a loop over a dimension that is none of loops";
    if (op->most != NULL && (!v->is_defined[op->most->id] || op->most->dims != 0 ||
                             op->most->dtype != DT_S32))
        return "a loop whose number of tiles is no number that stands before it";
    if (op->rest == TILE_REST_AFTER &&
        (op->met >= op->operand_count || op->operands[op->met]->dtype != DT_F32))
        return "a loop that asks for what it does not carry, or no number of 32 bits";
    if (op->rest == TILE_REST_FIRST && op->met_load->kind != TILE_LOAD)
        return "a loop that asks first for what is not loaded";
    v->in_loops |= UINT32_C(1) << op->dim;
    const char *wrong = check_block(v, &op->body);
    v->in_loops &= ~(UINT32_C(1) << op->dim);
    for (uint32_t i = 0; i < op->operand_count && wrong == NULL; i++) {
        const TileOp *x = op->operands[i], *y = op->next[i];
        if (y == NULL || x->dtype != y->dtype || x->dims != y->dims)
            wrong = "a loop carries one thing in and another out";
    }
    return wrong;
}

static const char *check_carried(const TileOp *op)
{
    if (op->loop == NULL || op->loop->kind != TILE_LOOP ||
        op->number >= op->loop->operand_count)
        return "something carried by no loop";
    const TileOp *x = op->loop->operands[op->number];
    return x->dtype == op->dtype && x->dims == op->dims
               ? NULL
               : "something carried in another form";
}

static const char *check_op(Verifier *v, const TileOp *op)
{
    static const int32_t counts[] = {
        [TILE_LOAD] = -1,     [TILE_STORE] = -1,   [TILE_INDEX] = -1,
        [TILE_IN_RANGE] = -1, [TILE_CONSTANT] = 0, [TILE_APPLY] = -1,
        [TILE_BROADCAST] = 1, [TILE_REDUCE] = 1,   [TILE_DOT] = 3,
        [TILE_LOOP] = -1,     [TILE_CARRIED] = 0,  [TILE_FINAL] = 0,
        [TILE_GROUP] = 0,
    };
    if (counts[op->kind] >= 0 && op->operand_count != (uint32_t)counts[op->kind])
        return "a wrong number of operands";
    if (op->dims >> v->p->dim_count != 0 ||
        tile_elements(v->p, op->dims) > TILE_MOST_ELEMENTS)
        return "a tile of dimensions that are not there, or too large";
    switch (op->kind) {
    case TILE_LOAD:
        return check_access(v, op, op->shape->rank, 0);
    case TILE_STORE:
        if (op->operand_count == 0 || op->operands[0]->dims != op->dims)
            return "a store of something else";
        return check_access(v, op, op->shape->rank, 1);
    case TILE_INDEX:
        return check_access(v, op, 1, 0);
    case TILE_IN_RANGE:
        return check_access(v, op, 0, 0);
    case TILE_CONSTANT:
        return op->dims == 0 ? NULL : "a constant that is no scalar";
    case TILE_APPLY:
        if (op->inst == NULL || op->operand_count != op->inst->operand_count)
            return "a function of another number of operands";
        for (uint32_t i = 0; i < op->operand_count; i++) {
            if (op->operands[i]->dims != op->dims)
                return "a function of tiles of different dimensions";
        }
        return NULL;
    case TILE_BROADCAST:
        return (op->operands[0]->dims & ~op->dims) == 0 &&
                       op->operands[0]->dtype == op->dtype
                   ? NULL
                   : "a broadcast that loses something";
    case TILE_REDUCE:
        return (op->dims & op->over) == 0 &&
                       op->operands[0]->dims == (op->dims | op->over)
                   ? NULL
                   : "a reduction over dimensions that its operand does not have";
    case TILE_DOT:
        return check_sums(op);
    case TILE_LOOP:
        return check_loop(v, op);
    case TILE_CARRIED:
    case TILE_FINAL:
        return check_carried(op);
    case TILE_GROUP:
        return op->dims == 0 && op->depth == 0 && op->shape->rank == 1 && op->rows >= 0
                   ? NULL
                   : "groups by something else than a list of sizes";
    }
    return "no such operation";
}

static const char *check_block(Verifier *v, const TileBlock *block)
{
    const char *wrong = NULL;
    for (uint32_t i = 0; i < block->count && wrong == NULL; i++) {
        const TileOp *op = block->ops[i];
        for (uint32_t j = 0; j < op->operand_count; j++) {
            if (!v->is_defined[op->operands[j]->id])
                return "an operand that does not stand before its use";
        }
        wrong = check_op(v, op);
        v->is_defined[op->id] = true;
        for (uint32_t j = 0; op->kind == TILE_LOOP && j < op->operand_count; j++) {
            if (wrong == NULL && !v->is_defined[op->next[j]->id])
                wrong = "a loop carries what is not there";
        }
        for (uint32_t j = 0; op->kind == TILE_LOOP && j < op->body.count; j++)
            v->is_defined[op->body.ops[j]->id] = false;
    }
    return wrong;
}

const char *tile_verify(const TileProgram *p)
{
    Arena *a = arena_scratch();
    Verifier v = {.p = p, .is_defined = ARENA_ARRAY(a, bool, p->op_count)};
    const char *wrong = NULL;
    for (uint32_t i = 0; i < p->dim_count; i++) {
        const TileDim *d = &p->dims[i];
        if (d->extent < 1 || d->size < 1 || (d->size & (d->size - 1)) != 0 ||
            (d->kind == TILE_WHOLE && d->size < d->extent))
            wrong = "a dimension of a size that it cannot have";
    }
    if (wrong == NULL)
        wrong = check_block(&v, &p->body);
    arena_destroy(a);
    return wrong;
}

bool tile_is_exp2(const TileOp *op)
{
    if (op->kind != TILE_APPLY || op->inst->op != OP_POWER)
        return false;
    const TileOp *base = op->operands[0];
    while (base->kind == TILE_BROADCAST)
        base = base->operands[0];
    return base->kind == TILE_CONSTANT && literal_double(base->literal, 0) == 2;
}
