/* Operations of a tile program that is being built. See value.h. */
#include "ir/tile/value.h"

#include "ir/base/bug.h"

TileOp *tile_refuse(TileBuilder *b, const char *why)
{
    if (b->why == NULL)
        b->why = why;
    return NULL;
}

TileOp *tile_make(TileBuilder *b, TileKind kind, DType dtype, uint32_t dims,
                  uint32_t operand_count, TileOp *const *operands, bool in_loop)
{
    TileProgram *p = b->p;
    for (uint32_t i = 0; i < operand_count; i++)
        in_loop |= operands[i]->depth != 0;
    in_loop &= b->loop != NULL;
    TileOp *op = tile_add(p, in_loop ? &b->loop->body : &p->body, in_loop, kind, dtype,
                          dims, operand_count, operands);
    b->ops = arena_grow(p->arena, b->ops, &b->op_capacity, (size_t)op->id + 1,
                        sizeof(TileOp *));
    b->ops[op->id] = op;
    return op;
}

TileOp *tile_carried(TileBuilder *b, TileOp *loop, uint32_t number, TileKind kind)
{
    const TileOp *from = loop->operands[number];
    TileOp *op =
        tile_make(b, kind, from->dtype, from->dims, 0, NULL, kind == TILE_CARRIED);
    op->loop = loop;
    op->number = number;
    return op;
}

TileOp *tile_broadcast(TileBuilder *b, TileOp *op, uint32_t dims)
{
    bool in_loop = b->loop != NULL && dims >> b->loop->dim & 1;
    if (op->dims == dims)
        return op;
    return tile_make(b, TILE_BROADCAST, op->dtype, dims, 1, &op, in_loop);
}

TileOp *tile_apply_to(TileBuilder *b, const Instruction *inst, uint32_t count,
                      TileOp *const *operands)
{
    TileOp *same[8];
    uint32_t dims = 0;
    if (count > sizeof same / sizeof *same)
        return tile_refuse(b, "an operation has too many operands");
    for (uint32_t i = 0; i < count; i++)
        dims |= operands[i]->dims;
    if (tile_elements(b->p, dims) > TILE_MOST_ELEMENTS)
        return tile_refuse(b, "a tile is too large");
    for (uint32_t i = 0; i < count; i++)
        same[i] = tile_broadcast(b, operands[i], dims);
    TileOp *op = tile_make(b, TILE_APPLY, inst->shape->dtype, dims, count, same, false);
    op->inst = inst;
    return op;
}

const Shape *tile_scalar_shape(Arena *a, DType t)
{
    static const Layout layout = {.tail_padding_alignment = 1};
    Shape *s = ARENA_NEW(a, Shape);
    *s = (Shape){.dtype = t, .layout = &layout};
    return s;
}

TileOp *tile_apply(TileBuilder *b, OpCode op, DType dtype, uint32_t operand_count,
                   TileOp *const *operands)
{
    Arena *a = b->p->arena;
    Instruction *inst = ARENA_NEW(a, Instruction);
    *inst = (Instruction){.op = (uint16_t)op,
                          .operand_count = operand_count,
                          .parent = b->p->fusion->parent,
                          .operands = ARENA_ARRAY(a, Instruction *, operand_count),
                          .shape = tile_scalar_shape(a, dtype),
                          .name = b->p->fusion->name};
    for (uint32_t i = 0; i < operand_count; i++) {
        inst->operands[i] = ARENA_NEW(a, Instruction);
        inst->operands[i]->shape = tile_scalar_shape(a, operands[i]->dtype);
        inst->operands[i]->name = inst->name;
    }
    return tile_apply_to(b, inst, operand_count, operands);
}

TileOp *tile_convert(TileBuilder *b, TileOp *op, DType dtype)
{
    return op->dtype == dtype ? op : tile_apply(b, OP_CONVERT, dtype, 1, &op);
}

TileOp *tile_constant(TileBuilder *b, const Literal *l)
{
    TileOp *op = tile_make(b, TILE_CONSTANT, l->shape->dtype, 0, 0, NULL, false);
    op->literal = l;
    return op;
}

TileOp *tile_number(TileBuilder *b, DType dtype, double value)
{
    Literal *l = literal_create(b->p->arena, tile_scalar_shape(b->p->arena, dtype));
    if (dtype_is_float(dtype))
        literal_set_double(l, 0, value);
    else
        literal_set_int(l, 0, (int64_t)value);
    return tile_constant(b, l);
}

/* What an expression is of: dimensions that it depends on, and RUNTIMEs. */
typedef struct IndexUses {
    uint32_t dims;
    uint32_t count;
    TileOp *runtimes[32];
} IndexUses;

static void add_uses(TileBuilder *b, const IndexExpr *e, IndexUses *u)
{
    switch (e->kind) {
    case IX_CONST:
        return;
    case IX_DIM:
        u->dims |= UINT32_C(1) << e->value;
        return;
    case IX_RUNTIME:
        for (uint32_t i = 0; i < u->count; i++) {
            if (u->runtimes[i]->id == e->value)
                return;
        }
        if (u->count == sizeof u->runtimes / sizeof *u->runtimes) {
            tile_refuse(b, "an index is made of too many numbers that are read");
            return;
        }
        u->runtimes[u->count++] = b->ops[e->value];
        return;
    case IX_SYMBOL:
        bug("a symbol in an index of %s", b->p->fusion->name);
    default:
        add_uses(b, e->a, u);
        if (e->b != NULL)
            add_uses(b, e->b, u);
    }
}

TileOp *tile_make_at(TileBuilder *b, TileKind kind, DType dtype, TileOp *value,
                     const TileAccess *access)
{
    IndexUses u = {.dims = value != NULL ? value->dims : 0};
    TileOp *operands[33] = {value};
    uint32_t first = value != NULL, dims = 0;
    for (uint32_t i = 0; i < access->index_count; i++)
        add_uses(b, access->index[i], &u);
    for (uint32_t i = 0; i < access->constraint_count; i++)
        add_uses(b, access->constraints[i].expr, &u);
    for (uint32_t i = 0; i < b->p->dim_count; i++) {
        if (tile_has_coordinate(b->p, i))
            dims |= u.dims & UINT32_C(1) << i;
    }
    for (uint32_t i = 0; i < u.count; i++) {
        operands[first + i] = u.runtimes[i];
        dims |= u.runtimes[i]->dims;
    }
    if (b->why != NULL)
        return NULL;
    if (tile_elements(b->p, dims) > TILE_MOST_ELEMENTS)
        return tile_refuse(b, "a tile is too large");
    if (value != NULL) /* a value that does not depend on all dimensions of its access */
        operands[0] = tile_broadcast(b, value, dims);
    bool in_loop = b->loop != NULL && u.dims >> b->loop->dim & 1;
    TileOp *op = tile_make(b, kind, dtype, dims, first + u.count, operands, in_loop);
    Arena *a = b->p->arena;
    op->shape = access->shape;
    op->index = arena_copy(a, access->index, access->index_count * sizeof *access->index);
    op->constraint_count = access->constraint_count;
    op->constraints = arena_copy(a, access->constraints,
                                 access->constraint_count * sizeof *access->constraints);
    return op;
}

uint32_t tile_dims_of(TileBuilder *b, const IndexExpr *e)
{
    IndexUses u = {.dims = 0};
    add_uses(b, e, &u);
    for (uint32_t i = 0; i < u.count; i++)
        u.dims |= u.runtimes[i]->dims;
    return u.dims;
}
