/* Random numbers: rng becomes bits of a known generator, drawn from the device's own counter.
 *
 *   r = f32[8] rng(a, b), distribution=rng_uniform
 *     =>  c = u64[2] rng-get-and-update-state(), delta=2
 *         k = u64[3] concatenate(key, c)
 *         w = u32[8] rng-bit-generator(k), algorithm=rng_philox
 *         r = a + (b - a) * convert(w >> 8) * 2^-24
 *
 * Whatever draws from the counter, in loops and branches too, waits for what drew before it, in the
 * order of the text, so that a program gives the same numbers at every level of optimisation.
 *
 * Needs: calls inlined. Keeps: values. Ends: one sweep. */
#include "ir/custom_call/custom_call.h"
#include "passes/simplify/rewrite.h"
#include "passes/simplify/simplify.h"

typedef struct Draw {
    Rewriter r;
    const Instruction *inst;
    const Shape *s;
    bool wide; /* 64 bits an element */
    bool normal;
    DType bits;        /* u32 or u64 */
    const Shape *one;  /* a scalar of the type that is computed in */
    const Shape *many; /* an array of it */
    Instruction *state;
} Draw;

static const Shape *like(const Draw *d, const Shape *s, DType t)
{
    return shape_with_dtype(d->r.m->intern, s, t);
}

static Instruction *op2(Draw *d, OpCode op, Instruction *a, Instruction *b)
{
    return rw_binary(&d->r, op, a->shape, a, b);
}

static Instruction *spread(Draw *d, Instruction *scalar)
{
    return rw_broadcast(&d->r, like(d, d->s, scalar->shape->dtype), scalar, 0, NULL);
}

static Instruction *compare(Draw *d, Instruction *a, int64_t direction, Instruction *b)
{
    return rw_compare(&d->r, a, b, direction);
}

/* -- bits --------------------------------------------------------------------------------------- */

static Instruction *draw_bits(Draw *d, const Shape *s)
{
    static const int64_t one = 1, two = 2, three = 3, zero = 0;
    Rewriter *r = &d->r;
    int64_t words = shape_elements(s) * (d->wide ? 2 : 1);
    d->state =
        rw_add(r, OP_RNG_GET_AND_UPDATE_STATE, rw_shape(r, DT_U64, 1, &two), 0, NULL);
    inst_set_int(d->state, ATTR_DELTA, (words + 3) / 4);
    Instruction *key =
        rw_splat_int(r, rw_shape(r, DT_U64, 1, &one), (int64_t)RNG_OWN_KEY);
    Instruction *all =
        rw_binary(r, OP_CONCATENATE, rw_shape(r, DT_U64, 1, &three), key, d->state);
    inst_set_ints(all, ATTR_DIMENSIONS, &zero, 1);
    Instruction *bits = rw_unary(r, OP_RNG_BIT_GENERATOR, s, all);
    inst_set_int(bits, ATTR_RNG_ALGORITHM, RNG_PHILOX);
    return bits;
}

/* [0, 1), of 24 or 53 bits. */
static Instruction *unit(Draw *d, Instruction *bits)
{
    Rewriter *r = &d->r;
    bits = op2(d, OP_SHIFT_RIGHT_LOGICAL, bits,
               rw_splat_int(r, bits->shape, d->wide ? 11 : 8));
    Instruction *x = rw_unary(r, OP_CONVERT, d->many, bits);
    return op2(d, OP_MULTIPLY, x, rw_splat(r, d->many, d->wide ? 0x1p-53 : 0x1p-24));
}

/* -- distributions --------------------------------------------------------------------------------- */

static Instruction *uniform(Draw *d)
{
    Rewriter *r = &d->r;
    Instruction *first = d->inst->operands[0], *end = d->inst->operands[1];
    Instruction *a = rw_convert(r, d->one, first), *b = rw_convert(r, d->one, end);
    Instruction *u = unit(d, draw_bits(d, like(d, d->s, d->bits)));
    /* by halves: end - first may be more than the type holds */
    Instruction *part = rw_splat(r, d->one, 0.5);
    Instruction *span =
        op2(d, OP_SUBTRACT, op2(d, OP_MULTIPLY, b, part), op2(d, OP_MULTIPLY, a, part));
    Instruction *x = op2(d, OP_MULTIPLY, spread(d, span), u);
    x = rw_convert(r, d->s, op2(d, OP_ADD, op2(d, OP_ADD, spread(d, a), x), x));
    /* rounded up to the end */
    Instruction *wrong = compare(d, x, DIRECTION_GE, spread(d, end));
    wrong = op2(d, OP_AND, wrong, spread(d, compare(d, first, DIRECTION_LT, end)));
    Instruction *parts[3] = {wrong, spread(d, first), x};
    return rw_add(r, OP_SELECT, d->s, 3, parts);
}

/* One half of what was drawn. */
static Instruction *half(Draw *d, Instruction *bits, int64_t which)
{
    SliceDim *dims = ARENA_ARRAY(d->r.scratch, SliceDim, bits->shape->rank);
    int64_t *sizes = ARENA_ARRAY(d->r.scratch, int64_t, bits->shape->rank);
    for (uint32_t i = 0; i < bits->shape->rank; i++) {
        sizes[i] = i == 0 ? 1 : bits->shape->dims[i];
        dims[i] = (SliceDim){i == 0 ? which : 0, i == 0 ? which + 1 : sizes[i], 1};
    }
    const Shape *s = rw_shape(&d->r, d->bits, bits->shape->rank, sizes);
    return rw_reshape(&d->r, like(d, d->s, d->bits), rw_slice(&d->r, s, bits, dims));
}

/* sqrt(-2 log(1 - u)) cos(2 pi v) (Box, Muller 1958) */
static Instruction *normal(Draw *d)
{
    Rewriter *r = &d->r;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, d->s->rank + 1u);
    dims[0] = 2;
    for (uint32_t i = 0; i < d->s->rank; i++)
        dims[i + 1] = d->s->dims[i];
    Instruction *bits = draw_bits(d, rw_shape(r, d->bits, d->s->rank + 1, dims));
    Instruction *u =
        op2(d, OP_SUBTRACT, rw_splat(r, d->many, 1), unit(d, half(d, bits, 0)));
    Instruction *angle = op2(d, OP_MULTIPLY, rw_splat(r, d->many, 6.283185307179586),
                             unit(d, half(d, bits, 1)));
    Instruction *length =
        op2(d, OP_MULTIPLY, rw_splat(r, d->many, -2), rw_unary(r, OP_LOG, d->many, u));
    Instruction *x = op2(d, OP_MULTIPLY, rw_unary(r, OP_SQRT, d->many, length),
                         rw_unary(r, OP_COSINE, d->many, angle));
    Instruction *a = rw_convert(r, d->one, d->inst->operands[0]),
                *b = rw_convert(r, d->one, d->inst->operands[1]);
    x = op2(d, OP_ADD, spread(d, a), op2(d, OP_MULTIPLY, spread(d, b), x));
    return rw_convert(r, d->s, x);
}

/* A limit as the bits of a whole word. */
static Instruction *word(Draw *d, Instruction *x)
{
    DType t = x->shape->dtype;
    if (dtype_info[t].class == DTC_SINT) {
        DType as = d->wide ? DT_S64 : DT_S32;
        x = rw_convert(&d->r, like(d, x->shape, as), x);
        return rw_unary(&d->r, OP_BITCAST_CONVERT, like(d, x->shape, d->bits), x);
    }
    return rw_convert(&d->r, like(d, x->shape, d->bits), x);
}

static Instruction *integers(Draw *d)
{
    Rewriter *r = &d->r;
    Instruction *bits = draw_bits(d, like(d, d->s, d->bits));
    if (d->s->dtype == DT_PRED)
        return compare(d, bits, DIRECTION_GE,
                       rw_splat_int(r, bits->shape, INT64_C(1) << 31));
    Instruction *low = word(d, d->inst->operands[0]);
    Instruction *span = op2(d, OP_SUBTRACT, word(d, d->inst->operands[1]), low);
    span = op2(d, OP_MAXIMUM, span, rw_splat_int(r, span->shape, 1));
    Instruction *x =
        op2(d, OP_ADD, spread(d, low), op2(d, OP_REMAINDER, bits, spread(d, span)));
    if (dtype_info[d->s->dtype].class == DTC_SINT)
        x = rw_unary(r, OP_BITCAST_CONVERT, like(d, d->s, d->wide ? DT_S64 : DT_S32), x);
    return rw_convert(r, d->s, x);
}

/* -- the sweep --------------------------------------------------------------------------------------- */

typedef struct Random {
    Module *m;
    PassContext *cx;
    bool *draws; /* by Computation.id: something in it draws */
    bool changed;
} Random;

static bool draws(const Random *x, const Instruction *inst)
{
    if (op_is(inst->op, OPF_RANDOM) || custom_call_is_seed(inst))
        return true;
    for (uint32_t i = 0; i < inst_called_count(inst); i++) {
        if (x->draws[inst_called(inst, i)->id])
            return true;
    }
    return false;
}

/* The counter's first word. */
static Instruction *seed(Random *x, Computation *comp, Instruction *inst,
                         Instruction **state)
{
    static const int64_t two = 2, one = 1;
    Rewriter r = {.m = x->m, .comp = comp, .scratch = x->cx->scratch, .at = inst};
    *state =
        rw_add(&r, OP_RNG_GET_AND_UPDATE_STATE, rw_shape(&r, DT_U64, 1, &two), 0, NULL);
    inst_set_int(*state, ATTR_DELTA, 1);
    SliceDim first = {0, 1, 1};
    Instruction *word = rw_slice(&r, rw_shape(&r, DT_U64, 1, &one), *state, &first);
    return rw_reshape(&r, inst->shape, word);
}

/* The value in place of an rng; *state: what of it draws. */
static Instruction *expand(Random *x, Computation *comp, Instruction *inst,
                           Instruction **state)
{
    if (custom_call_is_seed(inst))
        return seed(x, comp, inst, state);
    DType t = inst->shape->dtype;
    Draw d = {.r = {.m = x->m, .comp = comp, .scratch = x->cx->scratch, .at = inst},
              .inst = inst,
              .s = inst->shape,
              .wide = dtype_info[t].bits == 64,
              .normal = inst_int(inst, ATTR_DISTRIBUTION, RNG_UNIFORM) == RNG_NORMAL};
    d.bits = d.wide ? DT_U64 : DT_U32;
    d.one = shape_scalar(x->m->intern, d.wide ? DT_F64 : DT_F32);
    d.many = like(&d, d.s, d.one->dtype);
    Instruction *by = !dtype_is_float(t) ? integers(&d)
                      : d.normal         ? normal(&d)
                                         : uniform(&d);
    *state = d.state;
    return by;
}

static bool can_expand(const Instruction *inst)
{
    if (custom_call_is_seed(inst))
        return true;
    return inst->op == OP_RNG && shape_is_array(inst->shape) &&
           !shape_is_dynamic(inst->shape) && !dtype_is_complex(inst->shape->dtype) &&
           inst->operand_count == 2;
}

static void sweep(Random *x, Computation *comp)
{
    uint32_t n;
    Instruction **order = computation_post_order(comp, x->cx->scratch, &n);
    Instruction *last = NULL, **by = ARENA_ARRAY(x->cx->scratch, Instruction *, n + 1u);
    for (uint32_t i = 0; i < n; i++) {
        if (!draws(x, order[i]))
            continue;
        Instruction *state = order[i];
        if (can_expand(order[i])) {
            by[i] = expand(x, comp, order[i], &state);
            state->control = order[i]->control;
            state->control_count = order[i]->control_count;
        }
        if (last != NULL)
            inst_add_control(state, last);
        last = state;
        x->draws[comp->id] = x->changed = true;
    }
    if (last == NULL)
        return;
    Instruction **forward =
        ARENA_ARRAY(x->cx->scratch, Instruction *, comp->instruction_count + 1u);
    for (uint32_t i = 0; i < n; i++)
        forward[order[i]->id] = by[i];
    computation_substitute(comp, forward, comp->instruction_count);
}

/* What runs as often as it is called: programs, and the functions of map and scan, which become bodies of
 * loops. */
static const bool *find_drawing(const Module *m, Arena *scratch)
{
    bool *is_run = ARENA_ARRAY(scratch, bool, m->computation_count + 1u);
    Computations programs = module_programs(m, scratch);
    for (uint32_t c = 0; c < programs.count; c++)
        is_run[programs.data[c]->id] = true;
    for (const Computation *comp = comp_last(m); comp; comp = comp_previous(comp)) {
        if (!is_run[comp->id])
            continue;
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op != OP_MAP && inst->op != OP_SCAN &&
                !op_is(inst->op, OPF_CONTROL))
                continue;
            for (uint32_t k = 0; k < inst_called_count(inst); k++)
                is_run[inst_called(inst, k)->id] = true;
        }
    }
    return is_run;
}

bool pass_random(Module *m, PassContext *cx)
{
    Random x = {.m = m,
                .cx = cx,
                .draws = ARENA_ARRAY(cx->scratch, bool, m->computation_count + 1u)};
    const bool *is_run = find_drawing(m, cx->scratch);
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (is_run[comp->id])
            sweep(&x, comp);
    }
    if (x.changed)
        module_sort(m);
    return x.changed;
}
