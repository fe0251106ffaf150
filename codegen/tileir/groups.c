/* Which group of a ragged dot the block's tile belongs to: all sizes are one tile, summed up by a scan. See lower.h. */
#include "codegen/tileir/lower.h"

/* Sums and offsets of all groups, in i64, and of those that the search is for. */
typedef struct Search {
    TileIrLower *l;
    const TileOp *op;
    int64_t size; /* of the tiles: a power of two */
    const TileIrTile *zeros, *tile, *found, *has;
} Search;

static const TileIrTile *filled(const Search *s, int64_t value)
{
    return tileir_bits(s->l, TILEIR_I64, (uint64_t)value, 1, &s->size);
}

static const TileIrTile *scalar(const Search *s, int64_t value)
{
    return tileir_bits(s->l, TILEIR_I64, (uint64_t)value, 0, NULL);
}

static const TileIrTile *spread(const Search *s, const TileIrTile *x)
{
    static const int64_t one = 1;
    return tileir_spread(s->l, tileir_reshape(s->l, x, 1, &one), &s->size);
}

static const TileIrTile *less(const Search *s, const TileIrTile *x, const TileIrTile *y)
{
    static const char less_signed[] = {2, 1};
    const TileIrTile *in[] = {x, y};
    return tileir_make(s->l, TILEIR_CMPI, TILEIR_I1, less_signed, 2, in);
}

static const TileIrTile *chosen(const Search *s, const TileIrTile *is,
                                const TileIrTile *x, const TileIrTile *y)
{
    const TileIrTile *in[] = {is, x, y};
    return tileir_make(s->l, TILEIR_SELECT, x->element, NULL, 3, in);
}

static const TileIrTile *sum(const Search *s, const TileIrTile *x)
{
    return tileir_combined(s->l, TILEIR_REDUCE, OP_ADD, x, 0);
}

/* The value at the tile's group; 0 of none. */
static const TileIrTile *of_group(const Search *s, const TileIrTile *x)
{
    return sum(s, chosen(s, s->has, x, s->zeros));
}

/* The sizes of all groups, within what there is; 0 behind the last one. */
static const TileIrTile *sizes_of_groups(const Search *s)
{
    TileIrLower *l = s->l;
    const TileIrTile *x = tileir_load_row(l, s->op, s->size);
    x = x == NULL ? NULL
                  : tileir_resize(l, x, TILEIR_I64, dtype_is_signed(s->op->shape->dtype));
    x = tileir_binary(l, TILEIR_MAXI, x, s->zeros);
    return tileir_binary(l, TILEIR_MINI, x, filled(s, s->op->among));
}

static const TileIrTile *tiles_of(const Search *s, const TileIrTile *size)
{
    if (s->op->rows == 0)
        return filled(s, 1);
    return tileir_binary(
        s->l, TILEIR_DIVI,
        tileir_binary(s->l, TILEIR_ADDI, size, filled(s, s->op->rows - 1)),
        filled(s, s->op->rows));
}

static const TileIrTile *narrowed(const Search *s, const TileIrTile *x)
{
    return tileir_resize(s->l, x, TILEIR_I32, true);
}

static void search(Search *s)
{
    TileIrLower *l = s->l;
    const TileIrTile *all = filled(s, s->op->among), *most = scalar(s, s->op->among),
                     *size = sizes_of_groups(s);
    if (size == NULL)
        return;
    const TileIrTile *behind = tileir_combined(l, TILEIR_SCAN, OP_ADD, size, 0),
                     *end = tileir_binary(l, TILEIR_MINI, behind, all),
                     *start =
                         tileir_binary(l, TILEIR_MINI,
                                       tileir_binary(l, TILEIR_SUBI, behind, size), all);
    const TileIrTile *tiles = tiles_of(s, tileir_binary(l, TILEIR_SUBI, end, start)),
                     *after = tileir_combined(l, TILEIR_SCAN, OP_ADD, tiles, 0),
                     *before = tileir_binary(l, TILEIR_SUBI, after, tiles),
                     *tile = spread(s, s->tile);
    const TileIrTile *is_behind = less(s, tile, before);
    is_behind = tileir_binary(l, TILEIR_XORI, is_behind,
                              tileir_bits(l, TILEIR_I1, 1, 1, &s->size));
    s->has = tileir_binary(l, TILEIR_ANDI, is_behind, less(s, tile, after));
    s->found = less(s, scalar(s, 0), of_group(s, filled(s, 1)));
    const TileIrTile *first = chosen(s, s->found, of_group(s, start),
                                     tileir_binary(l, TILEIR_MINI, sum(s, size), most)),
                     *inside = chosen(s, s->found, of_group(s, before), sum(s, tiles));
    inside = tileir_binary(l, TILEIR_MULI, tileir_binary(l, TILEIR_SUBI, s->tile, inside),
                           scalar(s, s->op->rows));
    first =
        tileir_binary(l, TILEIR_MINI, tileir_binary(l, TILEIR_ADDI, first, inside), most);
    const TileIrTile *ends = chosen(s, s->found, of_group(s, end), most);
    const TileIrTile *used =
        tileir_binary(l, TILEIR_ANDI, s->found, less(s, first, ends));
    l->groups[GROUP_FIRST] = narrowed(s, first);
    l->groups[GROUP_END] = narrowed(s, ends);
    l->groups[GROUP_USED] = tileir_resize(l, used, TILEIR_I32, false);
}

static void number(Search *s)
{
    TileIrLower *l = s->l;
    uint32_t type = tileir_type(l, TILEIR_I64, 1, &s->size);
    TileIrOp *iota = bytecode_op(l->m, TILEIR_IOTA, 1, &type, NULL);
    bytecode_append(l->at, iota);
    const TileIrTile *numbers = tileir_tile_of(l, iota, 0, TILEIR_I64, 1, &s->size);
    l->groups[GROUP_NUMBER] = narrowed(s, chosen(s, s->found, of_group(s, numbers),
                                                 scalar(s, s->op->shape->dims[0] - 1)));
}

/* Operations of one program differ in the part that they name, not in the groups. */
const TileIrTile *tileir_group(TileIrLower *l, const TileOp *op)
{
    enum { MOST_GROUPS = 4096 };
    static const TileOrder none = {0};
    Search s = {.l = l, .op = op, .size = 1};
    if (l->groups[op->number] != NULL)
        return l->groups[op->number];
    while (s.size < op->shape->dims[0])
        s.size *= 2;
    if (s.size > MOST_GROUPS)
        return tileir_lacks(l, "more groups than a tile has room for");
    s.zeros = filled(&s, 0);
    s.tile = tileir_index(l, op->begin, op, &none, true);
    if (s.tile != NULL)
        search(&s);
    if (l->groups[GROUP_USED] != NULL)
        number(&s);
    return l->groups[op->number];
}
