/* Regions and functions as computations. HLO's see nothing of outside: what a region uses of there is
 * handed in, or made again. */
#include <string.h>

#include "frontend/stablehlo/convert.h"

/* -- building ------------------------------------------------------------------------------ */

/* Where the converter was. */
typedef struct Outside {
    Computation *comp;
    const MlirOp *op;
    size_t rebound_mark;
} Outside;

static bool enter(Converter *c, MlirRegion *region, const char *name, Outside *outside)
{
    *outside = (Outside){c->comp, c->op, c->rebound.count};
    if (c->depth >= MLIR_DEPTH) {
        convert_error(c, "regions and calls are nested deeper than %d levels",
                      MLIR_DEPTH);
        return false;
    }
    c->depth++;
    region->is_open = true;
    c->comp = module_add_computation(c->m, NULL);
    c->comp->name = name;
    c->comp->span = c->file->is_text ? region->span : (Span){0, 0};
    return true;
}

/* Values of outside have their instructions there again. root NULL: it could not be made. */
static Computation *leave(Converter *c, MlirRegion *region, const Outside *outside,
                          Instruction *root)
{
    Computation *comp = c->comp;
    comp->root = root;
    STACK_PUSH(c, c->finished, comp);
    while (c->rebound.count > outside->rebound_mark) {
        const Rebound *r = &c->rebound.data[--c->rebound.count];
        r->value->inst = r->inst;
    }
    region->is_open = false;
    c->depth--;
    c->comp = outside->comp;
    c->op = outside->op;
    return root != NULL ? comp : NULL;
}

/* Until the region is left, the value may become another instruction. */
static void keep(Converter *c, MlirValue *value)
{
    STACK_PUSH(c, c->rebound, ((Rebound){value, value->inst}));
}

static const char word_characters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

static bool is_plain_name(const char *name)
{
    return *name != '\0' && strspn(name, word_characters) == strlen(name) &&
           !(*name >= '0' && *name <= '9');
}

/* MLIR's printer numbers arguments that have no names: %arg0. */
static bool is_numbered(const char *name)
{
    return strncmp(name, "arg", 3) == 0 && name[3] != '\0' &&
           strspn(name + 3, "0123456789") == strlen(name + 3);
}

/* A key path such as params['layers'][0] is params__layers___0_, as JAX names the parameters of its HLO. */
static const char *path_name(Converter *c, Bytes path)
{
    char *name = arena_text(c->arena, path.data, path.length);
    for (char *s = name + strspn(name, word_characters); *s != '\0';
         s += strspn(s, word_characters))
        *s = '_';
    return name;
}

/* The next parameter. */
static Instruction *add_parameter(Converter *c, const Shape *shape, const char *name)
{
    const MlirOp *outer = c->op;
    c->op = NULL; /* it is not from where the operation is */
    Instruction *inst = make(c, OP_PARAMETER, shape, 0, NULL);
    c->op = outer;
    inst->span = c->file->is_text && outer != NULL ? outer->span : (Span){0, 0};
    computation_register_parameter(c->comp, inst, c->comp->parameter_count);
    if (name != NULL)
        inst->name = name;
    return inst;
}

/* Of a function, with the name that the user's program has for it. */
static Instruction *add_argument(Converter *c, const MlirValue *argument)
{
    if (argument->type->shape == NULL)
        return convert_unsupported(c, "an argument of type %s",
                                   mlir_type_text(c->scratch, argument->type));
    const MlirType *type = argument->part != NULL ? argument->part : argument->type;
    Instruction *inst = add_parameter(c, type->shape, argument->name);
    const Metadata *m = argument_metadata(c, argument);
    if (m == NULL)
        return inst;
    inst_set(inst, (Attr){.id = ATTR_METADATA, .metadata = m});
    if (argument->name == NULL || is_numbered(argument->name)) {
        const char *name = path_name(c, m->op_name);
        inst->name = is_plain_name(name) ? name : inst->name;
    }
    return inst;
}

static const MlirOp *terminator(Converter *c, const MlirRegion *region)
{
    const MlirOp *last = region->op_count != 0 ? region->ops[region->op_count - 1] : NULL;
    size_t length = last != NULL ? strlen(last->name) : 0;
    if (length >= 6 && strcmp(last->name + length - 6, "return") == 0)
        return last;
    return convert_error(c, "a region of %s does not end in a return",
                         c->op != NULL ? c->op->name : "this");
}

/* One value, or a tuple of what is returned and `more`. */
static Instruction *make_root(Converter *c, const MlirOp *last, uint32_t more_count,
                              Instruction *const *more, bool alone)
{
    uint32_t count = last->operand_count + more_count;
    if (!operands_are_made(last))
        return NULL;
    Instruction **elements = ARENA_ARRAY(c->scratch, Instruction *, count + 1u);
    for (uint32_t i = 0; i < last->operand_count; i++)
        elements[i] = operand_of(last, i);
    for (uint32_t i = 0; i < more_count; i++)
        elements[last->operand_count + i] = more[i];
    if (count == 1 && alone)
        return elements[0];
    c->op = last;
    return make_tuple(c, count, elements);
}

/* -- values of outside --------------------------------------------------------------------- */

typedef STACK(MlirValue *) Values;

static void gather_outer(Converter *c, const MlirRegion *region, Values *out,
                         uint32_t depth)
{
    if (depth > MLIR_DEPTH)
        return; /* converting will say it */
    for (uint32_t i = 0; i < region->op_count; i++) {
        const MlirOp *op = region->ops[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            MlirValue *value = op->operands[k];
            if (value->region == NULL || !value->region->is_open ||
                value->mark == c->mark)
                continue;
            value->mark = c->mark;
            STACK_PUSH(c, *out, value);
        }
        for (uint32_t k = 0; k < op->region_count; k++)
            gather_outer(c, op->regions[k], out, depth + 1);
    }
}

/* What gives the same value wherever it stands. */
static bool is_constant(const MlirValue *value, uint32_t depth)
{
    static const char *const movable[] = {"constant",  "iota",    "broadcast_in_dim",
                                          "reshape",   "convert", "broadcast",
                                          "transpose", "slice"};
    if (value->op == NULL || depth > 16)
        return false;
    const char *dot = strchr(value->op->name, '.');
    bool found = false;
    for (size_t i = 0; dot != NULL && i < sizeof movable / sizeof *movable; i++)
        found |= strcmp(movable[i], dot + 1) == 0;
    for (uint32_t i = 0; found && i < value->op->operand_count; i++)
        found = is_constant(value->op->operands[i], depth + 1);
    return found;
}

static void make_again(Converter *c, MlirValue *value)
{
    for (uint32_t i = 0; i < value->op->operand_count; i++) {
        MlirValue *operand = value->op->operands[i];
        if (operand->inst != NULL && operand->inst->parent != c->comp)
            make_again(c, operand);
    }
    for (uint32_t i = 0; i < value->op->result_count; i++)
        keep(c, &value->op->results[i]);
    convert_op(c, value->op);
}

static bool bring_constants(Converter *c, const MlirOp *op, const Values *outer)
{
    for (size_t i = 0; i < outer->count; i++) {
        MlirValue *value = outer->data[i];
        if (value->inst == NULL)
            return false; /* said before */
        if (!is_constant(value, 0)) {
            convert_unsupported(c,
                                "a region of %s that uses a value of outside that is no "
                                "constant",
                                op->name);
            return false;
        }
        if (value->inst->parent != c->comp)
            make_again(c, value);
    }
    return true;
}

/* -- regions that are applied to elements -------------------------------------------------- */

Computation *applied_computation(Converter *c, const MlirOp *op, uint32_t number)
{
    MlirRegion *region = op->regions[number];
    Values outer = {0};
    for (uint32_t i = 0; i < region->argument_count; i++)
        if (region->arguments[i].type->shape == NULL)
            return convert_unsupported(
                c, "an argument of type %s",
                mlir_type_text(c->scratch, region->arguments[i].type));
    c->mark++;
    gather_outer(c, region, &outer, c->depth);
    Outside outside;
    if (!enter(c, region, "region", &outside))
        return NULL;
    for (uint32_t i = 0; i < region->argument_count; i++) {
        MlirValue *argument = &region->arguments[i];
        argument->inst = add_parameter(c, argument->type->shape, argument->name);
    }
    Instruction *root = NULL;
    const MlirOp *last = bring_constants(c, op, &outer) ? terminator(c, region) : NULL;
    if (last != NULL) {
        convert_ops(c, region);
        root = make_root(c, last, 0, NULL, true);
    }
    return leave(c, region, &outside, root);
}

/* -- control flow -------------------------------------------------------------------------- */

/* Better made again than carried along: what a loop counts to should stand in it. */
static bool is_small_constant(const MlirValue *value)
{
    int64_t count;
    return is_constant(value, 0) && value->inst != NULL &&
           shape_is_array(value->inst->shape) &&
           shape_element_count(value->inst->shape, &count) && count <= 1024;
}

/* The values of outside that the region uses: small constants, or the others. */
static Values outer_values(Converter *c, const MlirRegion *const *regions, uint32_t count,
                           bool constants)
{
    Values all = {0}, wanted = {0};
    c->mark++;
    for (uint32_t i = 0; i < count; i++)
        gather_outer(c, regions[i], &all, c->depth);
    for (size_t i = 0; i < all.count; i++)
        if (is_small_constant(all.data[i]) == constants)
            STACK_PUSH(c, wanted, all.data[i]);
    return wanted;
}

void loop_state(Converter *c, const MlirOp *op, uint32_t first_operand, LoopState *out)
{
    *out = (LoopState){.own = op->operand_count - first_operand};
    Values outer =
        outer_values(c, (const MlirRegion *const *)op->regions, op->region_count, false);
    out->captured = outer.data;
    out->count = out->own + (uint32_t)outer.count;
    Instruction **parts = ARENA_ARRAY(c->scratch, Instruction *, out->count + 1u);
    for (uint32_t i = 0; i < out->count; i++) {
        const MlirValue *value =
            i < out->own ? op->operands[first_operand + i] : out->captured[i - out->own];
        parts[i] = value->inst;
        if (value->inst == NULL)
            return;
    }
    out->init = out->count == 1 ? parts[0] : make_tuple(c, out->count, parts);
    out->shape = out->init != NULL ? out->init->shape : NULL;
}

/* The state's values in the region that was just entered: in `more` those of outside. */
static void open_state(Converter *c, const MlirRegion *region, const LoopState *state,
                       Instruction **more)
{
    Instruction *parameter = add_parameter(c, state->shape, "state");
    for (uint32_t i = 0; i < state->count; i++) {
        bool used = i >= state->own || region->arguments[i].uses != 0;
        Instruction *inst = state->count == 1 ? parameter
                            : used            ? make_element(c, parameter, i)
                                              : NULL;
        if (i < state->own) {
            region->arguments[i].inst = inst;
            if (inst != NULL && region->arguments[i].name != NULL)
                inst->name = region->arguments[i].name;
            continue;
        }
        MlirValue *value = state->captured[i - state->own];
        keep(c, value);
        value->inst = inst;
        more[i - state->own] = inst;
    }
}

Computation *state_computation(Converter *c, const MlirOp *op, uint32_t number,
                               const LoopState *state, bool gives_state)
{
    MlirRegion *region = op->regions[number];
    if (region->argument_count != state->own)
        return convert_error(c, "region %u of %s has %u arguments, but should have %u",
                             number, op->name, region->argument_count, state->own);
    const MlirRegion *const inner = region;
    Values constants = outer_values(c, &inner, 1, true);
    Outside outside;
    if (state->init == NULL || !enter(c, region, "region", &outside))
        return NULL;
    Instruction **more =
        ARENA_ARRAY(c->scratch, Instruction *, state->count - state->own + 1u);
    open_state(c, region, state, more);
    Instruction *root = NULL;
    const MlirOp *last =
        bring_constants(c, op, &constants) ? terminator(c, region) : NULL;
    if (last != NULL) {
        convert_ops(c, region);
        root = make_root(c, last, gives_state ? state->count - state->own : 0, more,
                         !gives_state || state->count == 1);
    }
    return leave(c, region, &outside, root);
}

/* -- functions ----------------------------------------------------------------------------- */

Function *find_function(Converter *c, const char *symbol)
{
    for (uint32_t low = 0, high = c->function_count; low < high;) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(symbol, c->functions[middle].name);
        if (order == 0)
            return &c->functions[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return convert_error(c, "there is no function @%s", symbol);
}

static bool has_body(Converter *c, const Function *f)
{
    const MlirType *type = f->type;
    if (f->op->region_count != 1 || f->op->regions[0]->op_count == 0) {
        convert_error(c, "function @%s has no body", f->name);
        return false;
    }
    const MlirRegion *body = f->op->regions[0];
    bool right = type != NULL && type->kind == MLIR_FUNCTION &&
                 body->argument_count == type->input_count;
    for (uint32_t i = 0; right && i < type->input_count; i++)
        right = mlir_type_equal(type->inputs[i], body->arguments[i].type);
    if (!right)
        convert_error(c, "the arguments of function @%s are not those of its type",
                      f->name);
    return right;
}

static bool returns_its_type(Converter *c, const Function *f, const MlirOp *last)
{
    const MlirType *type = f->type;
    bool right = last->operand_count == type->result_count;
    for (uint32_t i = 0; right && i < type->result_count; i++)
        right = mlir_type_equal(type->results[i], last->operands[i]->type);
    if (right)
        return true;
    c->op = last;
    convert_error(c, "the return of @%s does not give what its type says", f->name);
    return false;
}

void check_function(Converter *c, const Function *f)
{
    c->op = f->op;
    if (f->op->region_count == 0 || f->op->regions[0]->op_count == 0 || !has_body(c, f))
        return;
    const MlirOp *last = terminator(c, f->op->regions[0]);
    if (last != NULL)
        returns_its_type(c, f, last);
}

static Computation *convert_function(Converter *c, Function *f)
{
    MlirRegion *region = f->op->region_count != 0 ? f->op->regions[0] : NULL;
    Outside outside;
    if (!has_body(c, f) || !enter(c, region, f->name, &outside))
        return NULL;
    for (uint32_t i = 0; i < region->argument_count; i++)
        region->arguments[i].inst = add_argument(c, &region->arguments[i]);
    Instruction *root = NULL;
    const MlirOp *last = terminator(c, region);
    if (last != NULL && returns_its_type(c, f, last)) {
        convert_ops(c, region);
        root = make_root(c, last, 0, NULL, true);
    }
    return leave(c, region, &outside, root);
}

Computation *function_computation(Converter *c, const char *symbol)
{
    Function *f = find_function(c, symbol);
    if (f == NULL)
        return NULL;
    if (f->state == FUNCTION_OPEN)
        return convert_error(c, "function @%s calls itself", symbol);
    if (f->state == FUNCTION_DONE)
        return f->comp;
    f->state = FUNCTION_OPEN;
    f->comp = convert_function(c, f);
    f->state = FUNCTION_DONE;
    return f->comp;
}
