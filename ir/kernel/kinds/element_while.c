/* See element_while.h. A thread for each element. */
#include "ir/kernel/kinds/element_while.h"

#include "ir/analysis/loop.h"
#include "ir/analysis/loop_slice.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

enum {
    MOST_TRIPS = 1 << 20, /* between kernels others get their turn, or end the program */
    MOST_INSTRUCTIONS = 512, /* of a body: more is compiled slowly, and takes time */
    MOST_VISITS = 4,         /* of an instruction, each at another index, on average */
};

bool while_carries(const WhilePlan *p, int64_t element)
{
    return p->roles[element] == WHILE_ELEMENT || p->roles[element] == WHILE_SCALAR;
}

bool while_is_rows(const WhilePlan *p, const Shape *s)
{
    bool first = s->rank <= p->shape->rank && shape_is_row_major(s) &&
                 shape_is_row_major(p->shape);
    for (uint32_t d = 0; first && d < s->rank; d++)
        first = s->dims[d] == p->shape->dims[d];
    return first;
}

/* Something does, beside a root that hands it on. */
static bool is_read(const Computation *comp, int64_t element)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            bool stays = inst == comp->root && inst->op == OP_TUPLE && k == element;
            if (!stays && loop_element(comp, inst->operands[k]) == element)
                return true;
        }
    }
    return loop_element(comp, comp->root) == element;
}

bool while_reads(const WhilePlan *p, int64_t element)
{
    return is_read(p->body, element) ||
           (p->trips < 0 && is_read(inst_called(p->loop, 0), element));
}

const Instruction *while_update(const WhilePlan *p, uint32_t element)
{
    return p->body->root->operands[element];
}

void while_piece_index(IndexContext *ix, const WhilePlan *p, uint32_t element,
                       const IndexExpr *const *own, const IndexExpr **out)
{
    const Shape *piece = while_update(p, element)->operands[1]->shape;
    uint32_t next = 0;
    for (uint32_t d = 0; d < piece->rank; d++) {
        while (next < p->shape->rank && p->shape->dims[next] == 1)
            next++;
        out[d] = piece->dims[d] == 1 ? ix_const(ix, 0) : own[next++];
    }
}

/* Without dimensions of size 1 both have the same. */
static bool is_piece(const Shape *piece, const Shape *s)
{
    uint32_t next = 0;
    for (uint32_t d = 0; d < piece->rank; d++) {
        while (next < s->rank && s->dims[next] == 1)
            next++;
        if (piece->dims[d] != 1 && (next == s->rank || s->dims[next++] != piece->dims[d]))
            return false;
    }
    return shape_elements(piece) == shape_elements(s) && piece->rank <= KERNEL_MOST_RANK;
}

/* -- the ways from what is handed on to what was carried ------------------------------------------- */

typedef struct Walk {
    const WhilePlan *p;
    const Computation *comp; /* the body, or the condition */
    IndexContext *ix;
    Arena *arena;
    const IndexExpr ***seen; /* by id: the index at which it was visited last */
    uint32_t visits, runtimes;
    const char *wrong;
} Walk;

static bool is_own(const Shape *s, const IndexExpr *const *index)
{
    for (uint32_t d = 0; d < s->rank; d++) {
        bool is_dim = index[d]->kind == IX_DIM && index[d]->value == d;
        if (!is_dim && s->dims[d] != 1)
            return false;
    }
    return true;
}

static void visit(Walk *w, const Instruction *inst, const IndexExpr *const *index);

static void visit_operand(Walk *w, const IndexMap *map, const Instruction *operand,
                          const IndexExpr *const *index)
{
    const IndexExpr *at[KERNEL_MOST_RANK];
    const IndexExpr **runtimes =
        ARENA_ARRAY(w->arena, const IndexExpr *, (size_t)map->runtime_count + 1);
    if (map->results == NULL || map->symbol_count > 0 ||
        operand->shape->rank > KERNEL_MOST_RANK) {
        w->wrong = "its body combines elements";
        return;
    }
    for (uint32_t i = 0; i < map->runtime_count; i++) {
        const IndexRuntime *r = &map->runtimes[i];
        for (uint32_t d = 0; d < r->source->shape->rank; d++)
            at[d] = ix_substitute(w->ix, r->index[d], IX_DIM, map->dim_count, index);
        visit(w, r->source, at);
        runtimes[i] = ix_runtime(w->ix, w->runtimes++, r->range);
    }
    index_map_apply(w->ix, map, index, NULL, runtimes, at, NULL);
    visit(w, operand, at);
}

static bool was_seen(Walk *w, const Instruction *inst, const IndexExpr *const *index)
{
    uint32_t rank = inst->shape->rank;
    const IndexExpr **seen = w->seen[inst->id];
    bool same = seen != NULL;
    for (uint32_t d = 0; same && d < rank; d++)
        same = seen[d] == index[d];
    if (seen == NULL)
        seen = w->seen[inst->id] =
            ARENA_ARRAY(w->arena, const IndexExpr *, (size_t)rank + 1);
    for (uint32_t d = 0; d < rank; d++)
        seen[d] = index[d];
    return same;
}

/* An element of the body at an index of the loop's shape: what it reads must be of the same index. */
static void visit(Walk *w, const Instruction *inst, const IndexExpr *const *index)
{
    ElementKind kind = element_kind[inst->op];
    int64_t element = loop_element(w->comp, inst);
    if (w->wrong == NULL &&
        (!shape_is_array(inst->shape) || inst->shape->rank > KERNEL_MOST_RANK))
        w->wrong = "a value inside is no array that a kernel can have";
    if (w->wrong != NULL || was_seen(w, inst, index))
        return;
    if (element >= 0) {
        if (w->p->roles[element] == WHILE_ELEMENT && !is_own(inst->shape, index))
            w->wrong = "its body reads another element";
        return;
    }
    if (++w->visits > MOST_VISITS * MOST_INSTRUCTIONS)
        w->wrong = "its body reads too much";
    else if (inst->op == OP_BITCAST_CONVERT &&
             dtype_info[inst->shape->dtype].bits !=
                 dtype_info[inst->operands[0]->shape->dtype].bits)
        w->wrong = "its body joins elements";
    else if (kind == ELEMENT_CONSTANT && shape_elements(inst->shape) != 1)
        w->wrong = "its body has a table";
    else if (kind != ELEMENT_SCALAR && kind != ELEMENT_MOVE && kind != ELEMENT_SELECT &&
             kind != ELEMENT_INDEX && kind != ELEMENT_CONSTANT)
        w->wrong = "its body has more than elements";
    if (w->wrong != NULL || inst->operand_count == 0)
        return;
    const IndexMap *maps = index_maps(w->ix, inst, 0);
    for (uint32_t i = 0; maps != NULL && i < inst->operand_count && w->wrong == NULL;
         i++) {
        if (i > 0 && maps[i].results == NULL && kind != ELEMENT_SCALAR)
            continue; /* starts of slices and gathers, which another operand's map reads */
        visit_operand(w, &maps[i], inst->operands[i], index);
    }
    if (maps == NULL)
        w->wrong = "its body has more than elements";
}

/* What a trip writes, and where. */
static void visit_update(Walk *w, uint32_t element, const IndexExpr *const *own)
{
    const Instruction *update = while_update(w->p, element);
    const IndexExpr *at[KERNEL_MOST_RANK];
    while_piece_index(w->ix, w->p, element, own, at);
    visit(w, update->operands[1], at);
    for (uint32_t i = 2; i < update->operand_count; i++)
        visit(w, update->operands[i], NULL);
}

static void walk_begin(Walk *w, const Computation *comp)
{
    w->comp = comp;
    w->seen = ARENA_ARRAY(w->arena, const IndexExpr **, comp->instruction_count + 1);
}

static const char *walk(const WhilePlan *p, Arena *a)
{
    Walk w = {.p = p, .ix = index_context_create(a), .arena = a};
    const IndexExpr *own[KERNEL_MOST_RANK], *zero[KERNEL_MOST_RANK];
    for (uint32_t d = 0; d < KERNEL_MOST_RANK; d++)
        zero[d] = ix_const(w.ix, 0);
    for (uint32_t d = 0; d < p->shape->rank; d++)
        own[d] = ix_dim(w.ix, d, (Range){0, p->shape->dims[d] - 1});
    walk_begin(&w, p->body);
    for (uint32_t i = 0; i < p->count && w.wrong == NULL; i++) {
        if (p->roles[i] == WHILE_FILLED)
            visit_update(&w, i, own);
        else if (while_carries(p, i))
            visit(&w, p->body->root->operands[i],
                  p->roles[i] == WHILE_ELEMENT ? own : zero);
    }
    if (p->more != NULL && w.wrong == NULL) {
        walk_begin(&w, inst_called(p->loop, 0));
        visit(&w, p->more, p->ends_alone ? own : zero);
    }
    return w.wrong;
}

/* -- roles -------------------------------------------------------------------------------------------- */

static bool is_unchanged(const WhilePlan *p, uint32_t i)
{
    return loop_element(p->body, p->body->root->operands[i]) == i;
}

static const Shape *larger_of(const Shape *x, const Shape *y)
{
    return x == NULL || shape_elements(y) > shape_elements(x) ? y : x;
}

/* The largest of what is carried, or of pieces that are larger. */
static const Shape *find_shape(const WhilePlan *p)
{
    const Shape *largest = NULL;
    for (uint32_t i = 0; i < p->count; i++) {
        if (while_carries(p, i))
            largest = larger_of(largest, p->loop->shape->elements[i]);
    }
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->roles[i] == WHILE_FILLED)
            largest = larger_of(largest, while_update(p, i)->operands[1]->shape);
    }
    return largest;
}

static const char *set_role(const WhilePlan *p, uint32_t i, WhileRole *role)
{
    const Shape *s = p->loop->shape->elements[i];
    if (*role == WHILE_UNCHANGED)
        return NULL;
    if (*role == WHILE_FILLED &&
        !is_piece(while_update(p, i)->operands[1]->shape, p->shape))
        return "it fills an array by pieces of another shape";
    bool is_whole = shape_same_dims(s, p->shape) && shape_layouts_equal(s, p->shape);
    if (*role == WHILE_SCALAR && (is_whole || (s->rank > 0 && while_is_rows(p, s))))
        *role = WHILE_ELEMENT;
    if (*role == WHILE_SCALAR && shape_elements(s) != 1)
        return "it carries arrays of several shapes";
    return dtype_info[s->dtype].bits < 8 ? "its elements are less than a byte" : NULL;
}

static const char *set_roles(WhilePlan *p, Arena *a)
{
    WhileRole *roles = ARENA_ARRAY(a, WhileRole, p->count);
    const char *wrong = NULL;
    p->roles = roles;
    for (uint32_t i = 0; i < p->count; i++) {
        const Shape *s = p->loop->shape->elements[i];
        if (!shape_is_array(s) || shape_is_dynamic(s))
            return "it carries more than arrays";
        roles[i] = is_unchanged(p, i)       ? WHILE_UNCHANGED
                   : loop_fills(p->loop, i) ? WHILE_FILLED
                                            : WHILE_SCALAR;
    }
    p->shape = find_shape(p);
    if (p->shape == NULL || shape_elements(p->shape) == 0 ||
        p->shape->rank > KERNEL_MOST_RANK)
        return "it changes nothing";
    for (uint32_t i = 0; i < p->count && wrong == NULL; i++)
        wrong = set_role(p, i, &roles[i]);
    return wrong;
}

/* No trip has an effect beside what it hands on: what calls a computation might. */
static bool only_computes(const Computation *comp)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        bool calls = inst_called_count(inst) > 0 && inst->op != OP_REDUCE;
        if (op_is(inst->op, OPF_EFFECT) || calls ||
            inst_bool(inst, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT))
            return false;
    }
    return true;
}

const char *while_plan(const Instruction *loop, Arena *a, WhilePlan *out)
{
    *out = (WhilePlan){.loop = loop, .trips = loop_known_trip_count(loop)};
    if (loop->op != OP_WHILE || loop->operands[0]->op != OP_TUPLE)
        return "it is no loop over a tuple";
    if (out->trips == 0)
        return "it never runs";
    if (out->trips > MOST_TRIPS)
        return "it runs so often that the kernel would take seconds";
    if (out->trips > 0 && !loop_counts_as_known(loop))
        return "it counts to another number than its known trip count";
    out->body = inst_attr(loop, ATTR_BODY)->computations.data[0];
    out->count = loop->shape->rank;
    if (out->body->root->op != OP_TUPLE ||
        out->body->instruction_count > MOST_INSTRUCTIONS ||
        inst_called(loop, 0)->instruction_count > MOST_INSTRUCTIONS)
        return "its body is too large";
    if (!only_computes(out->body) || !only_computes(inst_called(loop, 0)))
        return "it does more than to compute what it carries";
    const char *wrong = set_roles(out, a);
    if (wrong == NULL && out->trips < 0)
        wrong = while_find_end(out, a);
    return wrong != NULL ? wrong : walk(out, a);
}

/* -- the kind -------------------------------------------------------------------------------------------- */

/* What a thread starts from it computes; what stays as it is lies in memory. */
static const char *operands_illegal(const WhilePlan *p)
{
    const Instruction *init = p->loop->operands[0];
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->roles[i] == WHILE_UNCHANGED && init->operands[i]->op != OP_PARAMETER &&
            while_reads(p, i))
            return "an array that stays as it is is made inside";
    }
    return NULL;
}

static const char *body_wrong(const Instruction *fusion, const WhilePlan *p)
{
    const Computation *comp = inst_called(fusion, 0);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst == p->loop || inst == p->loop->operands[0] || inst == comp->root)
            continue;
        if (!op_has_elements(inst->op) || !shape_is_array(inst->shape))
            return "a value inside has no elements";
    }
    return operands_illegal(p);
}

const char *illegal_element_while(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    WhilePlan p;
    const Instruction *loop = fusion_hero(f->fusion, OP_WHILE);
    if (loop == NULL)
        return "it needs exactly one loop";
    const char *wrong = while_plan(loop, f->arena, &p);
    for (uint32_t i = 0; wrong == NULL && i < fusion_result_count(f->fusion); i++) {
        FusionResult r = fusion_result(f->fusion, i);
        if (r.inst != loop || (p.roles[r.inst_leaf] != WHILE_ELEMENT &&
                               p.roles[r.inst_leaf] != WHILE_FILLED))
            wrong = "the results are not those of the loop";
    }
    return wrong != NULL ? wrong : body_wrong(f->fusion, &p);
}

bool suits_element_while(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

void plan_element_while(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    WhilePlan *p = ARENA_NEW(d->arena, WhilePlan);
    while_plan(fusion_hero(d->fusion, OP_WHILE), d->arena, p);
    d->plan.element_while = p;
}

void configure_element_while(const KernelDesign *d, KernelConfig *c)
{
    configure_threads(c, shape_elements(d->plan.element_while->shape));
}

const char *refuse_element_while(const KernelDesign *d)
{
    return block_refused(d);
}

void geometry_element_while(KernelDesign *d)
{
    geometry_threads(d, shape_elements(d->plan.element_while->shape));
}
