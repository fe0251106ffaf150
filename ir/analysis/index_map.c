/* Index maps: those of opcodes, and their text. See index_map.h. */
#include "ir/analysis/index_map.h"

#include "ir/base/text.h"

IndexMap index_identity(IndexContext *cx, const Shape *shape)
{
    IndexMap map = {.dim_count = shape->rank, .result_count = shape->rank};
    Range *dims = ARENA_ARRAY(index_arena(cx), Range, shape->rank);
    const IndexExpr **results =
        ARENA_ARRAY(index_arena(cx), const IndexExpr *, shape->rank);
    for (uint32_t i = 0; i < shape->rank; i++) {
        dims[i] = (Range){0, shape->dims[i] - 1};
        results[i] = ix_dim(cx, i, dims[i]);
    }
    map.dims = dims;
    map.results = results;
    return map;
}

IndexMap *index_maps(IndexContext *cx, const Instruction *inst, uint32_t leaf)
{
    if (op_info[inst->op].index == NULL)
        return NULL;
    IndexMap *maps =
        ARENA_ARRAY(index_arena(cx), IndexMap, (size_t)inst->operand_count + 1);
    op_info[inst->op].index(cx, inst, leaf, maps);
    return maps;
}

static void add_range(Text *t, char letter, uint32_t number, Range r)
{
    text_printf(t, "%c%u in [%lld, %lld]", letter, number, (long long)r.lo,
                (long long)r.hi);
}

const char *index_map_text(Arena *a, const IndexMap *map)
{
    Text t;
    text_init(&t, a);
    text_char(&t, '(');
    for (uint32_t i = 0; i < map->dim_count; i++)
        text_printf(&t, "%sd%u", i == 0 ? "" : ", ", i);
    text_string(&t, ") -> (");
    for (uint32_t i = 0; map->results != NULL && i < map->result_count; i++) {
        text_string(&t, i == 0 ? "" : ", ");
        text_string(&t, ix_text(a, map->results[i]));
    }
    text_char(&t, ')');
    for (uint32_t i = 0; i < map->symbol_count; i++) {
        text_string(&t, ", ");
        add_range(&t, 's', i, map->symbols[i]);
    }
    for (uint32_t i = 0; i < map->runtime_count; i++) {
        text_string(&t, ", ");
        add_range(&t, 'r', i, map->runtimes[i].range);
        text_printf(&t, " from %s", map->runtimes[i].source->name);
    }
    for (uint32_t i = 0; i < map->constraint_count; i++) {
        text_string(&t, ", ");
        text_string(&t, ix_text(a, map->constraints[i].expr));
        text_printf(&t, " in [%lld, %lld]", (long long)map->constraints[i].range.lo,
                    (long long)map->constraints[i].range.hi);
    }
    return t.data;
}

void index_map_apply(IndexContext *cx, const IndexMap *map, const IndexExpr *const *dims,
                     const IndexExpr *const *symbols, const IndexExpr *const *runtimes,
                     const IndexExpr **results, const IndexExpr **constraints)
{
    uint32_t total =
        map->result_count + (constraints != NULL ? map->constraint_count : 0);
    for (uint32_t i = 0; i < total; i++) {
        bool is_result = i < map->result_count;
        const IndexExpr *x =
            is_result ? map->results[i] : map->constraints[i - map->result_count].expr;
        x = ix_substitute(cx, x, IX_SYMBOL, map->symbol_count, symbols);
        x = ix_substitute(cx, x, IX_RUNTIME, map->runtime_count, runtimes);
        x = ix_substitute(cx, x, IX_DIM, map->dim_count, dims);
        if (is_result)
            results[i] = x;
        else
            constraints[i - map->result_count] = x;
    }
}
