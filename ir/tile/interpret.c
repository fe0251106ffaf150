/* Runs a tile program on literals, tile by tile: what the lowerings of tile programs must give. A value is an
 * array in storage form over its dimensions' coordinates, the last dimension the fastest. */
#include <string.h>

#include "ir/base/bug.h"
#include "ir/base/divide.h"
#include "ir/eval/elementwise.h"
#include "ir/tile/tile.h"

enum { BYTES = 16 }; /* the largest element */

typedef struct Interpreter {
    const TileProgram *p;
    const Literal *const *arguments;
    Literal *const *results;
    uint8_t **written;             /* [leaf][element] */
    int64_t tile[TILE_MOST_DIMS];  /* numbers of the tiles at hand */
    void **values;                 /* by id */
    int64_t point[TILE_MOST_DIMS]; /* coordinates of the element at hand */
    const char *wrong;
} Interpreter;

/* -- coordinates ------------------------------------------------------------------------------- */

/* Sets the point of element `element` of a tile over `dims`; false: it lies behind an extent. */
static bool set_point(Interpreter *r, uint32_t dims, int64_t element)
{
    const TileProgram *p = r->p;
    bool is_inside = true;
    for (uint32_t i = p->dim_count; i-- > 0;) {
        const TileDim *d = &p->dims[i];
        int64_t local = 0;
        if (dims >> i & 1) {
            local = element % d->size;
            element /= d->size;
        }
        r->point[i] = r->tile[i] * d->size + local;
        is_inside &= r->point[i] < d->extent;
    }
    return is_inside;
}

/* The number of the point's element in a tile over `dims`. */
static int64_t element_at(const Interpreter *r, uint32_t dims)
{
    int64_t element = 0;
    for (uint32_t i = 0; i < r->p->dim_count; i++) {
        const TileDim *d = &r->p->dims[i];
        if (dims >> i & 1)
            element = element * d->size + r->point[i] - r->tile[i] * d->size;
    }
    return element;
}

static void *element_of(const Interpreter *r, const TileOp *op, int64_t element)
{
    return (char *)r->values[op->id] + (size_t)element * dtype_info[op->dtype].storage;
}

/* The value of an expression of operation `op` at the point. */
static int64_t index_value(const Interpreter *r, const TileOp *op, const IndexExpr *e)
{
    switch (e->kind) {
    case IX_CONST:
        return e->value;
    case IX_DIM:
        return r->point[e->value];
    case IX_SYMBOL:
        return r->tile[e->value];
    case IX_RUNTIME:
        for (uint32_t i = 0; i < op->operand_count; i++) {
            const TileOp *x = op->operands[i];
            if (x->id == e->value)
                return number_get_int(x->dtype, element_of(r, x, element_at(r, x->dims)));
        }
        bug("a tile program reads an index that is not there");
    case IX_ADD:
        return index_value(r, op, e->a) + index_value(r, op, e->b);
    case IX_MUL:
        return index_value(r, op, e->a) * e->value;
    case IX_FLOORDIV:
        return floor_div(index_value(r, op, e->a), e->value);
    case IX_MOD: {
        int64_t v = index_value(r, op, e->a);
        return v - floor_div(v, e->value) * e->value;
    }
    }
    return 0;
}

static bool constraints_hold(const Interpreter *r, const TileOp *op)
{
    for (uint32_t i = 0; i < op->constraint_count; i++) {
        int64_t v = index_value(r, op, op->constraints[i].expr);
        if (v < op->constraints[i].range.lo || v > op->constraints[i].range.hi)
            return false;
    }
    return true;
}

/* The element of an array that the operation's index names; -1: none. */
static int64_t array_element(Interpreter *r, const TileOp *op)
{
    int64_t element = 0;
    for (uint32_t i = 0; i < op->shape->rank; i++) {
        int64_t at = index_value(r, op, op->index[i]);
        if (at < 0 || at >= op->shape->dims[i]) {
            r->wrong = "an index outside of its array";
            return -1;
        }
        element = element * op->shape->dims[i] + at;
    }
    return element;
}

/* -- operations -------------------------------------------------------------------------------- */

static void run_load(Interpreter *r, const TileOp *op, int64_t count)
{
    const Literal *from = r->arguments[op->array];
    size_t bytes = dtype_info[op->dtype].storage;
    for (int64_t i = 0; i < count && r->wrong == NULL; i++) {
        memset(element_of(r, op, i), 0, bytes);
        if (!set_point(r, op->dims, i) || !constraints_hold(r, op))
            continue;
        int64_t at = array_element(r, op);
        if (at >= 0)
            memcpy(element_of(r, op, i), (const char *)from->data + (size_t)at * bytes,
                   bytes);
    }
}

static void run_store(Interpreter *r, const TileOp *op, int64_t count)
{
    Literal *to = r->results[op->array];
    const TileOp *value = op->operands[0];
    size_t bytes = dtype_info[value->dtype].storage;
    for (int64_t i = 0; i < count && r->wrong == NULL; i++) {
        if (!set_point(r, op->dims, i) || !constraints_hold(r, op))
            continue;
        int64_t at = array_element(r, op);
        if (at < 0)
            return;
        if (r->written[op->array][at]++)
            r->wrong = "an element is stored twice";
        memcpy((char *)to->data + (size_t)at * bytes, element_of(r, value, i), bytes);
    }
}

static void run_index(Interpreter *r, const TileOp *op, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        set_point(r, op->dims, i);
        number_set_int(op->dtype, element_of(r, op, i),
                       op->kind == TILE_INDEX ? index_value(r, op, op->index[0])
                                              : constraints_hold(r, op));
    }
}

static void run_broadcast(Interpreter *r, const TileOp *op, int64_t count)
{
    const TileOp *x = op->operands[0];
    for (int64_t i = 0; i < count; i++) {
        set_point(r, op->dims, i);
        memcpy(element_of(r, op, i), element_of(r, x, element_at(r, x->dims)),
               dtype_info[op->dtype].storage);
    }
}

static void run_apply(Interpreter *r, const TileOp *op, int64_t count)
{
    const Instruction *inst = op->inst;
    ElementwiseKernel e;
    const void *in[3];
    if (inst->op == OP_CONVERT) {
        number_convert(op->dtype, r->values[op->id], op->operands[0]->dtype,
                       r->values[op->operands[0]->id], (size_t)count);
        return;
    }
    if (!elementwise_kernel(inst, false, &e)) {
        r->wrong = "an operation that is not known";
        return;
    }
    Arena *a = arena_scratch();
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const TileOp *x = op->operands[i];
        in[i] = r->values[x->id];
        if (e.operand[i] == x->dtype)
            continue;
        void *converted = arena_array(a, (size_t)count, BYTES);
        number_convert(e.operand[i], converted, x->dtype, in[i], (size_t)count);
        in[i] = converted;
    }
    void *out = r->values[op->id];
    if (e.result != op->dtype)
        out = arena_array(a, (size_t)count, BYTES);
    e.kernel.run(out, in, (size_t)count, &e.kernel);
    if (e.result != op->dtype)
        number_convert(op->dtype, r->values[op->id], e.result, out, (size_t)count);
    arena_destroy(a);
}

static double combined(OpCode op, double x, double y)
{
    switch (op) {
    case OP_ADD:
        return x + y;
    case OP_MULTIPLY:
        return x * y;
    case OP_MAXIMUM:
        return x != x || x > y ? x : y;
    case OP_MINIMUM:
        return x != x || x < y ? x : y;
    default:
        bug("tiles are reduced by %s", op_info[op].name);
    }
}

/* Sums and the like are taken in f64 and rounded once. */
static void run_reduce(Interpreter *r, const TileOp *op, int64_t count)
{
    const TileOp *x = op->operands[0];
    int64_t all = tile_elements(r->p, x->dims);
    Arena *a = arena_scratch();
    double *sums = ARENA_ARRAY(a, double, count);
    bool *is_started = ARENA_ARRAY(a, bool, count);
    for (int64_t i = 0; i < all; i++) {
        bool is_inside = set_point(r, x->dims, i);
        double v = number_get_double(x->dtype, element_of(r, x, i));
        int64_t at = element_at(r, op->dims);
        if (!is_inside)
            continue;
        sums[at] = is_started[at] ? combined(op->combine, sums[at], v) : v;
        is_started[at] = true;
    }
    for (int64_t i = 0; i < count; i++)
        number_set_double(op->dtype, element_of(r, op, i), sums[i]);
    arena_destroy(a);
}

static void run_dot(Interpreter *r, const TileOp *op, int64_t count)
{
    const TileOp *a = op->operands[0], *b = op->operands[1], *c = op->operands[2];
    int64_t terms = tile_elements(r->p, op->over);
    bool is_float = dtype_is_float(op->dtype);
    for (int64_t i = 0; i < count; i++) {
        double sum = number_get_double(c->dtype, element_of(r, c, i));
        uint64_t whole = (uint64_t)number_get_int(c->dtype, element_of(r, c, i));
        for (int64_t j = 0; j < terms; j++) {
            /* the point of the result's element, then of the term's */
            int64_t point[TILE_MOST_DIMS];
            set_point(r, op->dims, i);
            memcpy(point, r->point, sizeof point);
            bool is_inside = set_point(r, op->over, j);
            for (uint32_t d = 0; d < r->p->dim_count; d++) {
                if (op->dims >> d & 1)
                    r->point[d] = point[d];
                else if (op->over >> d & 1)
                    is_inside &= r->point[d] < r->p->dims[d].extent;
            }
            if (!is_inside)
                continue;
            const void *x = element_of(r, a, element_at(r, a->dims)),
                       *y = element_of(r, b, element_at(r, b->dims));
            if (is_float)
                sum += number_get_double(a->dtype, x) * number_get_double(b->dtype, y);
            else
                whole += (uint64_t)number_get_int(a->dtype, x) *
                         (uint64_t)number_get_int(b->dtype, y);
        }
        if (is_float)
            number_set_double(op->dtype, element_of(r, op, i), sum);
        else
            number_set_int(op->dtype, element_of(r, op, i), (int64_t)whole);
    }
}

static void run_block(Interpreter *r, const TileBlock *block);

/* Predicates are what they are said to be in tiles of which all is inside. */
static void check_known(Interpreter *r, const TileOp *loop)
{
    int64_t tile = r->tile[loop->dim];
    if (loop->inside_begin == NULL || tile < index_value(r, loop, loop->inside_begin) ||
        tile >= index_value(r, loop, loop->inside_end))
        return;
    for (uint32_t i = 0; i < loop->body.count; i++) {
        const TileOp *op = loop->body.ops[i];
        int64_t count = op->known != 0 ? tile_elements(r->p, op->dims) : 0;
        for (int64_t k = 0; k < count; k++) {
            bool is_true = number_get_int(DT_PRED, element_of(r, op, k)) != 0;
            if (set_point(r, op->dims, k) && is_true != (op->known > 0))
                r->wrong = "a predicate is not what it is said to be";
        }
    }
}

static void copy_value(Interpreter *r, const TileOp *to, const TileOp *from)
{
    memcpy(r->values[to->id], r->values[from->id],
           (size_t)tile_elements(r->p, to->dims) * dtype_info[to->dtype].storage);
}

/* One of the block's elements is not at least `least`. */
static bool misses_some(Interpreter *r, const TileOp *met, double least)
{
    int64_t count = tile_elements(r->p, met->dims);
    for (int64_t i = 0; i < count; i++) {
        if (set_point(r, met->dims, i) &&
            !(number_get_double(met->dtype, element_of(r, met, i)) >= least))
            return true;
    }
    return false;
}

static void run_op(Interpreter *r, const TileOp *op);

/* So is one of those that the loop asks for first: of the tiles outside of begin .. end - 1. */
static bool misses_first(Interpreter *r, const TileOp *loop, int64_t begin, int64_t end)
{
    const TileOp *load = loop->met_load;
    int64_t count = tile_count(&r->p->dims[loop->dim]);
    if ((load->dims >> loop->dim & 1) == 0)
        return misses_some(r, load, loop->least_met);
    bool misses = false;
    for (int64_t tile = 0; tile < count && !misses; tile++) {
        if (tile >= begin && tile < end)
            continue;
        r->tile[loop->dim] = tile;
        run_op(r, load);
        misses = misses_some(r, load, loop->least_met);
    }
    r->tile[loop->dim] = 0;
    return misses;
}

/* What is carried lies in the CARRIED operations; next ones are read before any is written. */
static void run_loop(Interpreter *r, const TileOp *op)
{
    int64_t begin = index_value(r, op, op->begin), end = index_value(r, op, op->end),
            count = tile_count(&r->p->dims[op->dim]);
    begin = begin < 0 ? 0 : begin;
    end = end > count ? count : end;
    if (op->most != NULL) {
        int64_t most = number_get_int(DT_S32, element_of(r, op->most, 0));
        end = end - begin > most ? begin + most : end;
    }
    if (op->rest == TILE_REST_FIRST && misses_first(r, op, begin, end)) {
        begin = 0;
        end = count;
    }
    int64_t last = end > begin ? end : begin;
    uint32_t n = op->operand_count;
    Arena *a = arena_scratch();
    const TileOp **current = ARENA_ARRAY(a, const TileOp *, (size_t)n + 1);
    void **next = ARENA_ARRAY(a, void *, (size_t)n + 1);
    for (uint32_t i = 0; i < op->body.count; i++) {
        const TileOp *x = op->body.ops[i];
        if (x->kind == TILE_CARRIED && x->loop == op)
            current[x->number] = x;
    }
    for (uint32_t i = 0; i < n; i++) {
        next[i] =
            arena_array(a, (size_t)tile_elements(r->p, op->operands[i]->dims), BYTES);
        if (current[i] != NULL)
            copy_value(r, current[i], op->operands[i]);
    }
    for (int64_t step = begin; r->wrong == NULL; step++) {
        if (step == last && op->rest == TILE_REST_AFTER &&
            misses_some(r, current[op->met], op->least_met))
            last = begin + count;
        if (step == last)
            break;
        r->tile[op->dim] = step < count ? step : step - count;
        run_block(r, &op->body);
        check_known(r, op);
        for (uint32_t i = 0; i < n; i++)
            memcpy(next[i], r->values[op->next[i]->id],
                   (size_t)tile_elements(r->p, op->next[i]->dims) *
                       dtype_info[op->next[i]->dtype].storage);
        for (uint32_t i = 0; i < n; i++) {
            if (current[i] != NULL)
                memcpy(r->values[current[i]->id], next[i],
                       (size_t)tile_elements(r->p, current[i]->dims) *
                           dtype_info[current[i]->dtype].storage);
        }
    }
    r->tile[op->dim] = 0;
    arena_destroy(a);
}

static void run_group(Interpreter *r, const TileOp *op)
{
    const Literal *sizes = r->arguments[op->array];
    int64_t tile = index_value(r, op, op->begin), before = 0, start = 0, values[4],
            groups = op->shape->dims[0], g = 0, end = 0;
    for (; g < groups; g++) {
        int64_t size = literal_int(sizes, g), left = op->among - start;
        size = size < 0 ? 0 : size > left ? left : size;
        int64_t tiles = op->rows == 0 ? 1 : (size + op->rows - 1) / op->rows;
        end = start + size;
        if (tile < before + tiles)
            break;
        before += tiles;
        start = end;
    }
    int64_t first = start + (tile - before) * op->rows;
    values[GROUP_NUMBER] = g < groups ? g : groups - 1;
    values[GROUP_FIRST] = first > op->among ? op->among : first;
    values[GROUP_END] = g < groups ? end : op->among;
    values[GROUP_USED] = g < groups && first < end;
    number_set_int(DT_S32, element_of(r, op, 0), values[op->number]);
}

static void run_op(Interpreter *r, const TileOp *op)
{
    int64_t count = tile_elements(r->p, op->dims);
    switch (op->kind) {
    case TILE_LOAD:
        run_load(r, op, count);
        break;
    case TILE_STORE:
        run_store(r, op, count);
        break;
    case TILE_INDEX:
    case TILE_IN_RANGE:
        run_index(r, op, count);
        break;
    case TILE_CONSTANT:
        memcpy(r->values[op->id], op->literal->data, dtype_info[op->dtype].storage);
        break;
    case TILE_APPLY:
        run_apply(r, op, count);
        break;
    case TILE_BROADCAST:
        run_broadcast(r, op, count);
        break;
    case TILE_REDUCE:
        run_reduce(r, op, count);
        break;
    case TILE_DOT:
        run_dot(r, op, count);
        break;
    case TILE_LOOP:
        run_loop(r, op);
        break;
    case TILE_GROUP:
        run_group(r, op);
        break;
    case TILE_CARRIED: /* set by its loop */
        break;
    case TILE_FINAL: {
        /* what the last step gave; of no step, what the loop began with */
        for (uint32_t i = 0; i < op->loop->body.count; i++) {
            const TileOp *x = op->loop->body.ops[i];
            if (x->kind == TILE_CARRIED && x->loop == op->loop &&
                x->number == op->number) {
                copy_value(r, op, x);
                return;
            }
        }
        copy_value(r, op, op->loop->operands[op->number]);
        break;
    }
    }
}

static void run_block(Interpreter *r, const TileBlock *block)
{
    for (uint32_t i = 0; i < block->count && r->wrong == NULL; i++)
        run_op(r, block->ops[i]);
}

static void make_values(Interpreter *r, Arena *a, const TileBlock *block)
{
    for (uint32_t i = 0; i < block->count; i++) {
        const TileOp *op = block->ops[i];
        r->values[op->id] = arena_array(a, (size_t)tile_elements(r->p, op->dims), BYTES);
        make_values(r, a, &op->body);
    }
}

/* The tiles of block number `block`: the last grid dimension is the fastest. */
static void set_tiles(Interpreter *r, int64_t block)
{
    for (uint32_t i = r->p->dim_count; i-- > 0;) {
        const TileDim *d = &r->p->dims[i];
        r->tile[i] = 0;
        if (d->kind != TILE_GRID)
            continue;
        r->tile[i] = block % tile_count(d);
        block /= tile_count(d);
    }
}

const char *tile_interpret(const TileProgram *p, const Literal *const *arguments,
                           Literal *const *results)
{
    Arena *a = arena_scratch();
    Interpreter r = {.p = p, .arguments = arguments, .results = results};
    r.values = ARENA_ARRAY(a, void *, p->op_count);
    make_values(&r, a, &p->body);
    uint32_t leaves = 0;
    for (uint32_t i = 0; i < p->body.count; i++) {
        const TileOp *op = p->body.ops[i];
        if (op->kind == TILE_STORE && op->array >= leaves)
            leaves = op->array + 1;
    }
    r.written = ARENA_ARRAY(a, uint8_t *, (size_t)leaves + 1);
    for (uint32_t i = 0; i < leaves; i++)
        r.written[i] = ARENA_ARRAY(a, uint8_t, results[i]->count);
    for (int64_t block = 0; block < tile_blocks(p) && r.wrong == NULL; block++) {
        set_tiles(&r, block);
        run_block(&r, &p->body);
    }
    for (uint32_t i = 0; i < leaves; i++) {
        for (int64_t j = 0; j < results[i]->count && r.wrong == NULL; j++) {
            if (!r.written[i][j])
                r.wrong = "an element is not stored";
        }
    }
    arena_destroy(a);
    return r.wrong;
}
