/* Batch programs.
 *
 * A register is a row of APPLY_ROWS elements. Tuples exist at compile time only: what an
 * instruction gives is a list of registers. Calls and fusions are inlined. */
#include "ir/eval/apply.h"

#include <string.h>

#include "ir/eval/elementwise.h"

#define APPLY_ROWS 512
#define INLINE_MOST 16 /* depth of calls inside */
#define STEPS_MOST 4096

typedef struct Register {
    DType dtype;
    uint32_t parameter; /* UINT32_MAX: rows of its own */
    uint32_t copy_of;   /* register whose rows are copied at first; UINT32_MAX: none */
    void *rows;
} Register;

typedef struct Step {
    ScalarKernel kernel;
    uint32_t in[3], out;
    uint32_t operands;
} Step;

struct Apply {
    const Computation *comp;
    bool batched;
    Register *registers;
    size_t register_count, register_capacity;
    Step *steps;
    size_t step_count, step_capacity;
    uint32_t result_count;
    uint32_t *results; /* registers */
    DType *result_types;
};

/* What an instruction gives: one register, or several in a (flat) tuple. */
typedef struct Given {
    uint32_t count;
    const uint32_t *registers;
} Given;

typedef struct Compiler {
    EvalCall *call;
    Arena *arena;
    Apply *p;
} Compiler;

static uint32_t register_add(Compiler *c, DType dtype)
{
    Apply *p = c->p;
    p->registers = arena_grow(c->arena, p->registers, &p->register_capacity,
                              p->register_count + 1, sizeof *p->registers);
    Register *r = &p->registers[p->register_count];
    *r = (Register){.dtype = dtype, .parameter = UINT32_MAX, .copy_of = UINT32_MAX};
    r->rows = arena_array(c->arena, APPLY_ROWS, dtype_info[dtype].storage);
    return (uint32_t)p->register_count++;
}

static Given given_one(Compiler *c, uint32_t reg)
{
    return (Given){1, arena_copy(c->arena, &reg, sizeof reg)};
}

static Given given_constant(Compiler *c, const Literal *l)
{
    if (!shape_is_scalar(l->shape) || l->elided)
        return (Given){0, NULL};
    uint32_t reg = register_add(c, l->shape->dtype);
    size_t size = dtype_info[l->shape->dtype].storage;
    for (size_t i = 0; i < APPLY_ROWS; i++)
        memcpy((char *)c->p->registers[reg].rows + i * size, l->data, size);
    return given_one(c, reg);
}

static bool step_add(Compiler *c, const ScalarKernel *k, uint32_t operands,
                     const uint32_t *in, uint32_t out)
{
    Apply *p = c->p;
    if (p->step_count == STEPS_MOST)
        return false;
    p->steps = arena_grow(c->arena, p->steps, &p->step_capacity, p->step_count + 1,
                          sizeof *p->steps);
    Step *s = &p->steps[p->step_count++];
    s->kernel = *k;
    s->operands = operands;
    s->out = out;
    memcpy(s->in, in, operands * sizeof *in);
    return true;
}

/* A register of the wanted type with the same values; UINT32_MAX if there is no kernel. */
static uint32_t converted(Compiler *c, uint32_t reg, DType to)
{
    DType from = c->p->registers[reg].dtype;
    if (from == to)
        return reg;
    ScalarKernel k = {0};
    if (!scalar_kernel(OP_CONVERT, from, to, c->call->eval->options.exact, &k))
        return UINT32_MAX;
    uint32_t out = register_add(c, to);
    return step_add(c, &k, 1, &reg, out) ? out : UINT32_MAX;
}

static Given given_elementwise(Compiler *c, const Instruction *inst, const Given *of)
{
    ElementwiseKernel e;
    if (!shape_is_scalar(inst->shape) ||
        !elementwise_kernel(inst, c->call->eval->options.exact, &e))
        return (Given){0, NULL};
    uint32_t in[3] = {0};
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Given *g = &of[inst->operands[i]->id];
        if (g->count != 1)
            return (Given){0, NULL};
        in[i] = converted(c, g->registers[0], e.operand[i]);
        if (in[i] == UINT32_MAX)
            return (Given){0, NULL};
    }
    uint32_t out = register_add(c, e.result);
    if (!step_add(c, &e.kernel, inst->operand_count, in, out))
        return (Given){0, NULL};
    out = converted(c, out, inst->shape->dtype);
    return out == UINT32_MAX ? (Given){0, NULL} : given_one(c, out);
}

/* The same bits as another type: as texts after layout assignment say bitcast-convert. */
static Given given_bits(Compiler *c, const Instruction *inst, const Given *of)
{
    const Shape *from = inst->operands[0]->shape, *to = inst->shape;
    const Given *g = &of[inst->operands[0]->id];
    ScalarKernel k = {0};
    if (!shape_is_scalar(from) || !shape_is_scalar(to) || g->count != 1 ||
        !scalar_kernel(OP_BITCAST_CONVERT, from->dtype, to->dtype,
                       c->call->eval->options.exact, &k))
        return (Given){0, NULL};
    uint32_t out = register_add(c, to->dtype);
    return step_add(c, &k, 1, g->registers, out) ? given_one(c, out) : (Given){0, NULL};
}

static Given given_tuple(Compiler *c, const Instruction *inst, const Given *of)
{
    uint32_t *list = ARENA_ARRAY(c->arena, uint32_t, inst->operand_count);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Given *g = &of[inst->operands[i]->id];
        if (g->count != 1 || !shape_is_scalar(inst->operands[i]->shape))
            return (Given){0, NULL};
        list[i] = g->registers[0];
    }
    return (Given){inst->operand_count, list};
}

static Given compile_computation(Compiler *c, const Computation *comp,
                                 const Given *arguments, uint32_t depth);

static Given compile_call(Compiler *c, const Instruction *inst, const Given *of,
                          uint32_t depth)
{
    const Computation *callee = inst_called(inst, 0);
    if (callee->parameter_count != inst->operand_count || depth == INLINE_MOST)
        return (Given){0, NULL};
    Given *arguments = ARENA_ARRAY(c->arena, Given, inst->operand_count);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        arguments[i] = of[inst->operands[i]->id];
    return compile_computation(c, callee, arguments, depth + 1);
}

/* Moves of a scalar that change nothing. */
static bool is_identity(const Instruction *inst)
{
    if (inst->operand_count != 1 || !shape_is_scalar(inst->shape) ||
        !shape_is_scalar(inst->operands[0]->shape) ||
        inst->shape->dtype != inst->operands[0]->shape->dtype)
        return false;
    return inst->op == OP_COPY || inst->op == OP_RESHAPE || inst->op == OP_BROADCAST ||
           inst->op == OP_TRANSPOSE || inst->op == OP_BITCAST ||
           inst->op == OP_OPT_BARRIER;
}

/* count 0: cannot run in batches. */
static Given compile_instruction(Compiler *c, const Instruction *inst,
                                 const Given *arguments, const Given *of, uint32_t depth)
{
    switch (inst->op) {
    case OP_PARAMETER:
        return arguments[inst->parameter];
    case OP_CONSTANT:
        return given_constant(c, inst->literal);
    case OP_TUPLE:
        return given_tuple(c, inst, of);
    case OP_GET_TUPLE_ELEMENT: {
        const Given *g = &of[inst->operands[0]->id];
        int64_t i = inst_int(inst, ATTR_INDEX, 0);
        if (i < 0 || i >= g->count)
            return (Given){0, NULL};
        return (Given){1, g->registers + i};
    }
    case OP_CALL:
    case OP_FUSION:
        return compile_call(c, inst, of, depth);
    default:
        if (is_identity(inst))
            return of[inst->operands[0]->id];
        return inst->op == OP_BITCAST ? given_bits(c, inst, of)
                                      : given_elementwise(c, inst, of);
    }
}

static Given compile_computation(Compiler *c, const Computation *comp,
                                 const Given *arguments, uint32_t depth)
{
    uint32_t n = 0;
    Instruction **order = computation_post_order(comp, c->arena, &n);
    Given *of = ARENA_ARRAY(c->arena, Given, comp->instruction_count);
    for (uint32_t i = 0; i < n; i++) {
        Given g = compile_instruction(c, order[i], arguments, of, depth);
        if (g.count == 0)
            return g;
        of[order[i]->id] = g;
    }
    return of[comp->root->id];
}

static bool compile(Compiler *c)
{
    const Computation *comp = c->p->comp;
    Given *arguments = ARENA_ARRAY(c->arena, Given, comp->parameter_count);
    for (uint32_t i = 0; i < comp->parameter_count; i++) {
        const Shape *s = comp->parameters[i]->shape;
        if (!shape_is_scalar(s))
            return false;
        uint32_t reg = register_add(c, s->dtype);
        c->p->registers[reg].parameter = i;
        arguments[i] = given_one(c, reg);
    }
    Given root = compile_computation(c, comp, arguments, 0);
    if (root.count != c->p->result_count)
        return false;
    c->p->results = ARENA_ARRAY(c->arena, uint32_t, root.count);
    for (uint32_t i = 0; i < root.count; i++) {
        uint32_t reg = root.registers[i];
        if (c->p->registers[reg].parameter != UINT32_MAX) {
            /* An output may overwrite the parameter before another one is taken from it. */
            uint32_t copy = register_add(c, c->p->registers[reg].dtype);
            c->p->registers[copy].copy_of = reg;
            reg = copy;
        }
        c->p->results[i] = reg;
    }
    return true;
}

Apply *apply_of(EvalCall *call, const Computation *comp)
{
    Eval *eval = call->eval;
    Apply *p = pointer_map_get(&eval->programs, comp);
    if (p != NULL)
        return p;
    p = ARENA_NEW(eval->arena, Apply);
    p->comp = comp;
    const Shape *root = comp->root->shape;
    p->result_count = root->dtype == DT_TUPLE ? root->rank : 1;
    p->result_types = ARENA_ARRAY(eval->arena, DType, p->result_count);
    for (uint32_t i = 0; i < p->result_count; i++) {
        const Shape *s = root->dtype == DT_TUPLE ? root->elements[i] : root;
        if (!shape_is_scalar(s))
            eval_fail(call, "computation '%s' does not give scalars", comp->name);
        p->result_types[i] = s->dtype;
    }
    Compiler c = {call, eval->arena, p};
    p->batched = p->result_count > 0 && compile(&c);
    pointer_map_set(&eval->programs, eval->arena, comp, p);
    return p;
}

uint32_t apply_result_count(const Apply *p)
{
    return p->result_count;
}

DType apply_result_type(const Apply *p, uint32_t i)
{
    return p->result_types[i];
}

/* -- running ------------------------------------------------------------------------ */

static void run_rows(Apply *p, size_t at, size_t n, const void *const *inputs,
                     void *const *outputs)
{
    for (size_t i = 0; i < p->register_count; i++) {
        Register *r = &p->registers[i];
        if (r->copy_of != UINT32_MAX)
            memcpy(r->rows, p->registers[r->copy_of].rows,
                   n * dtype_info[r->dtype].storage);
        if (r->parameter == UINT32_MAX)
            continue;
        const char *from = inputs[r->parameter];
        /* read only: a parameter's register is never written */
        memcpy(&r->rows, &from, sizeof from);
        r->rows = (char *)r->rows + at * dtype_info[r->dtype].storage;
    }
    for (size_t i = 0; i < p->step_count; i++) {
        const Step *s = &p->steps[i];
        const void *in[3] = {p->registers[s->in[0]].rows, p->registers[s->in[1]].rows,
                             p->registers[s->in[2]].rows};
        s->kernel.run(p->registers[s->out].rows, in, n, &s->kernel);
    }
    for (uint32_t i = 0; i < p->result_count; i++) {
        const Register *r = &p->registers[p->results[i]];
        size_t size = dtype_info[r->dtype].storage;
        memcpy((char *)outputs[i] + at * size, r->rows, n * size);
    }
}

/* Element by element, each in a frame of its own. */
static void run_frames(EvalCall *call, Apply *p, size_t n, const void *const *inputs,
                       void *const *outputs)
{
    const Computation *comp = p->comp;
    uint32_t count = comp->parameter_count;
    Value **arguments = ARENA_ARRAY(call->scratch, Value *, count);
    for (size_t e = 0; e < n; e++) {
        for (uint32_t i = 0; i < count; i++) {
            arguments[i] = eval_array(call, comp->parameters[i]->shape);
            size_t size = value_element_bytes(arguments[i]);
            memcpy(arguments[i]->data, (const char *)inputs[i] + e * size, size);
        }
        Value *result = eval_nested(call, comp, count, arguments);
        for (uint32_t i = 0; i < p->result_count; i++) {
            const Value *leaf =
                result->shape->dtype == DT_TUPLE ? result->elements[i] : result;
            size_t size = value_element_bytes(leaf);
            memcpy((char *)outputs[i] + e * size, leaf->data, size);
        }
        value_release(result);
        for (uint32_t i = 0; i < count; i++)
            value_release(arguments[i]);
    }
}

void apply_run(EvalCall *call, Apply *p, size_t n, const void *const *inputs,
               void *const *outputs)
{
    if (!p->batched) {
        run_frames(call, p, n, inputs, outputs);
        return;
    }
    for (size_t at = 0; at < n; at += APPLY_ROWS)
        run_rows(p, at, n - at < APPLY_ROWS ? n - at : APPLY_ROWS, inputs, outputs);
}

/* -- simple computations ------------------------------------------------------------ */

static SimpleKind kind_of(OpCode op)
{
    switch (op) {
    case OP_ADD:
        return SIMPLE_ADD;
    case OP_MULTIPLY:
        return SIMPLE_MULTIPLY;
    case OP_MAXIMUM:
        return SIMPLE_MAXIMUM;
    case OP_MINIMUM:
        return SIMPLE_MINIMUM;
    case OP_AND:
        return SIMPLE_AND;
    case OP_OR:
        return SIMPLE_OR;
    case OP_XOR:
        return SIMPLE_XOR;
    default:
        return SIMPLE_NONE;
    }
}

SimpleKind apply_simple(const Computation *comp, uint32_t i)
{
    const Instruction *root = comp->root;
    int64_t count = comp->parameter_count / 2;
    if (comp->parameter_count % 2 != 0)
        return SIMPLE_NONE;
    if (root->op == OP_TUPLE)
        root = root->operands[i];
    if (root->op == OP_PARAMETER && root->parameter % count == i)
        return root->parameter == i ? SIMPLE_FIRST : SIMPLE_SECOND;
    SimpleKind kind = kind_of(root->op);
    if (kind == SIMPLE_NONE || root->operands[0]->op != OP_PARAMETER ||
        root->operands[1]->op != OP_PARAMETER || root->operands[0] == root->operands[1] ||
        root->operands[0]->parameter % count != i ||
        root->operands[1]->parameter % count != i)
        return SIMPLE_NONE;
    DType t = root->shape->dtype;
    if (root->operands[0]->shape->dtype != t || root->operands[1]->shape->dtype != t)
        return SIMPLE_NONE;
    return kind;
}
