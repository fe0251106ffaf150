/* The text of a tile program. See tile.h.
 *
 *   tiles of fusion.1
 *     m: 128 of 4096, grid      k: 32 of 512, sequential
 *     %3 = f32[m,n] loop k 0 to 16 carrying %2
 *       %4 = f32[m,n] carried 0
 *       %5 = bf16[m,k] load 0 at [m, k]                                                          */
#include "ir/base/text.h"
#include "ir/tile/tile.h"

typedef struct Printer {
    const TileProgram *p;
    Text text;
    Arena *arena;
} Printer;

/* An index expression with the dimensions' names in place of d0, d1, … and operations' in place of r4. */
static void add_index(Printer *out, const IndexExpr *e)
{
    const char *text = ix_text(out->arena, e);
    for (const char *c = text; *c != 0;) {
        bool is_name =
            (*c == 'd' || *c == 's' || *c == 'r') && c[1] >= '0' && c[1] <= '9';
        if (!is_name) {
            text_char(&out->text, *c++);
            continue;
        }
        char letter = *c++;
        uint32_t number = 0;
        for (; *c >= '0' && *c <= '9'; c++)
            number = number * 10 + (uint32_t)(*c - '0');
        if (letter == 'r')
            text_printf(&out->text, "%%%u", number);
        else
            text_printf(&out->text, letter == 'd' ? "%s" : "tile(%s)",
                        out->p->dims[number].name);
    }
}

static void add_indices(Printer *out, const IndexExpr *const *index, uint32_t rank)
{
    text_string(&out->text, "[");
    for (uint32_t i = 0; i < rank; i++) {
        text_string(&out->text, i == 0 ? "" : ", ");
        add_index(out, index[i]);
    }
    text_string(&out->text, "]");
}

static void add_constraints(Printer *out, const TileOp *op, const char *word)
{
    for (uint32_t i = 0; i < op->constraint_count; i++) {
        text_string(&out->text, i == 0 ? word : " and ");
        add_index(out, op->constraints[i].expr);
        text_printf(&out->text, " in %lld..%lld", (long long)op->constraints[i].range.lo,
                    (long long)op->constraints[i].range.hi);
    }
}

static void add_dims(Printer *out, uint32_t dims)
{
    const char *comma = "";
    for (uint32_t i = 0; i < out->p->dim_count; i++) {
        if ((dims >> i & 1) == 0)
            continue;
        text_printf(&out->text, "%s%s", comma, out->p->dims[i].name);
        comma = ",";
    }
}

static void add_operands(Printer *out, const TileOp *op, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        text_printf(&out->text, "%s%%%u", i == 0 ? " " : ", ", op->operands[i]->id);
}

static void add_block(Printer *out, const TileBlock *block, uint32_t depth);

static void add_loop(Printer *out, const TileOp *op, uint32_t depth)
{
    Text *t = &out->text;
    text_printf(t, "loop %s ", out->p->dims[op->dim].name);
    add_index(out, op->begin);
    text_string(t, " to ");
    add_index(out, op->end);
    if (op->inside_begin != NULL) {
        text_string(t, " inside ");
        add_index(out, op->inside_begin);
        text_string(t, " to ");
        add_index(out, op->inside_end);
    }
    if (op->rest == TILE_REST_AFTER)
        text_printf(t, " and the rest where carried %u is below %.9g", op->met,
                    op->least_met);
    if (op->rest == TILE_REST_FIRST)
        text_printf(t, " or all where %%%u is not at least %.9g", op->met_load->id,
                    op->least_met);
    if (op->most != NULL)
        text_printf(t, " but %%%u at most", op->most->id);
    text_string(t, " carrying");
    add_operands(out, op, op->operand_count);
    text_string(t, "\n");
    add_block(out, &op->body, depth + 1);
    text_printf(t, "%*snext", (int)(2 * depth + 2), "");
    for (uint32_t i = 0; i < op->operand_count && op->next != NULL; i++)
        text_printf(t, "%s%%%u", i == 0 ? " " : ", ", op->next[i]->id);
}

static void add_op(Printer *out, const TileOp *op, uint32_t depth)
{
    Text *t = &out->text;
    text_printf(t, "%*s", (int)(2 * depth), "");
    if (op->kind != TILE_STORE) {
        text_printf(t, "%%%u = ", op->id);
        if (op->kind != TILE_LOOP) {
            text_string(t, dtype_info[op->dtype].name);
            text_string(t, "[");
            add_dims(out, op->dims);
            text_string(t, "] ");
        }
    }
    switch (op->kind) {
    case TILE_LOAD:
        text_printf(t, "load %u at ", op->array);
        add_indices(out, op->index, op->shape->rank);
        add_constraints(out, op, " where ");
        break;
    case TILE_STORE:
        text_printf(t, "store %%%u to %u at ", op->operands[0]->id, op->array);
        add_indices(out, op->index, op->shape->rank);
        add_constraints(out, op, " where ");
        break;
    case TILE_INDEX:
        text_string(t, "index ");
        add_index(out, op->index[0]);
        break;
    case TILE_IN_RANGE:
        text_string(t, "whether");
        add_constraints(out, op, " ");
        break;
    case TILE_CONSTANT:
        text_printf(t, "constant %s", literal_text(out->arena, op->literal));
        break;
    case TILE_APPLY:
        text_string(t, op_info[op->inst->op].name);
        add_operands(out, op, op->operand_count);
        break;
    case TILE_BROADCAST:
        text_string(t, "broadcast");
        add_operands(out, op, 1);
        break;
    case TILE_REDUCE:
    case TILE_DOT:
        if (op->kind == TILE_DOT)
            text_string(t, "dot");
        else
            text_printf(t, "reduce %s", op_info[op->combine].name);
        add_operands(out, op, op->operand_count);
        text_string(t, " over ");
        add_dims(out, op->over);
        break;
    case TILE_LOOP:
        add_loop(out, op, depth);
        break;
    case TILE_CARRIED:
        text_printf(t, "carried %u", op->number);
        break;
    case TILE_GROUP: {
        static const char *const parts[] = {"number", "first", "end", "used"};
        text_printf(t, "group %s of %u at ", parts[op->number], op->array);
        add_index(out, op->begin);
        if (op->rows != 0)
            text_printf(t, " by %lld", (long long)op->rows);
        break;
    }
    case TILE_FINAL:
        text_printf(t, "final %%%u %u", op->loop->id, op->number);
        break;
    }
    if (op->known != 0)
        text_printf(t, " (inside: %s)", op->known > 0 ? "all" : "none");
    text_string(t, "\n");
}

static void add_block(Printer *out, const TileBlock *block, uint32_t depth)
{
    for (uint32_t i = 0; i < block->count; i++)
        add_op(out, block->ops[i], depth);
}

const char *tile_text(Arena *a, const TileProgram *p)
{
    static const char *const kinds[] = {"grid", "sequential", "whole"};
    Printer out = {.p = p, .arena = a};
    text_init(&out.text, a);
    text_printf(&out.text, "tiles of %s\n", p->fusion->name);
    for (uint32_t i = 0; i < p->dim_count; i++) {
        const TileDim *d = &p->dims[i];
        text_printf(&out.text, "  %s: %lld of %lld, %s\n", d->name, (long long)d->size,
                    (long long)d->extent, kinds[d->kind]);
    }
    add_block(&out, &p->body, 1);
    return out.text.data;
}
