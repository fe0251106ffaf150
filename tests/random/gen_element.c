/* Random elementwise operations. */
#include <string.h>

#include "tests/random/value.h"

/* Exact for the integers; floats by what rounds and how far results go. */
typedef struct UnaryOp {
    const char *name;
    const char *classes;
    char kind; /* e exact, g exact but drops the grain, j jumps, r rounds and stays below
                  2^result, d rounds and needs a small operand, i integers only */
    int result;
} UnaryOp;

static const UnaryOp unary[] = {
    {"abs", "sf", 'e', 0},
    {"negate", "sufc", 'e', 0},
    {"sign", "sf", 'j', 0},
    {"not", "psu", 'i', 0},
    {"popcnt", "su", 'i', 0},
    {"count-leading-zeros", "su", 'i', 0},
    {"floor", "f", 'j', 1},
    {"ceil", "f", 'j', 1},
    {"round-nearest-even", "f", 'j', 1},
    {"round-nearest-afz", "f", 'j', 1},
    {"sine", "f", 'd', 0},
    {"cosine", "f", 'd', 0},
    {"tanh", "f", 'r', 0},
    {"logistic", "f", 'r', 0},
    {"erf", "f", 'r', 0},
    {"atan", "f", 'x', 0},
    {"exponential", "f", 'd', 7},
    {"exponential-minus-one", "f", 'd', 7},
    {"log-plus-one", "f", 'l', 6},
    {"log", "f", 'l', 6},
    {"sqrt", "f", 'l', 8},
    {"rsqrt", "f", 'w', 0},
    {"cbrt", "f", 'l', 8},
    {"tan", "f", 'w', 0},
    {"sinh", "f", 'd', 7},
    {"cosh", "f", 'd', 7},
    {"asinh", "f", 'r', 4},
    {"atanh", "f", 'w', 0},
    {"acosh", "f", 'w', 0},
    {"asin", "f", 'w', 0},
    {"acos", "f", 'w', 0},
    {"exponential", "c", 'd', 7},
    {"sine", "c", 'd', 6},
    {"tanh", "c", 'w', 0},
    {"log", "c", 'w', 0},
    {"sqrt", "c", 'w', 0},
    {"cosine", "c", 'd', 6},
    {"exponential-minus-one", "c", 'd', 7},
    {"log-plus-one", "c", 'w', 0},
    {"rsqrt", "c", 'w', 0},
    {"tan", "c", 'w', 0},
    {"logistic", "c", 'w', 0},
    {"sign", "c", 'w', 0},
    {"is-finite", "f", 'p', 0},
};

enum { UNARY = sizeof unary / sizeof *unary };

static bool is_special_complex(const Value *v)
{
    return v->special && is_complex(v->type);
}

void gen_unary(Gen *g)
{
    const UnaryOp *u = &unary[below(g, UNARY)];
    Value *a = pick_class(g, u->classes);
    DType t = a->type;
    bool real = is_float(t) || is_complex(t);
    if (u->kind == 'x' || !is_arithmetic(t) || is_special_complex(a))
        return;
    if (real && strchr("jp", u->kind) != NULL && !jumps(a))
        return;
    if (real && strchr("rdlw", u->kind) != NULL &&
        (!may_round(a) || (u->kind == 'd' && a->high > 2) ||
         (strchr("lw", u->kind) != NULL && a->depth > 0) ||
         (u->kind == 'd' && a->special)))
        return;
    if (u->kind == 'p') {
        Value *v = emit(g, DT_PRED, a->rank, a->dims, "is-finite(%s)", a->name);
        v->depth = 0;
        return;
    }
    Value *v = emit(g, t, a->rank, a->dims, "%s(%s)", u->name, a->name);
    moved(v, a, NULL);
    v->pure = !real;
    if (u->kind == 'j') {
        v->grain = v->grain < 0 ? 0 : v->grain;
        v->high += 1;
    }
    if (real && strchr("rdlw", u->kind) != NULL) {
        v->grain = -2000;
        v->high = u->kind == 'w' ? 60 : u->result;
        settle(v, a->depth);
        if (u->kind == 'w')
            v->depth = MAX_DEPTH;
    }
}

typedef struct BinaryOp {
    const char *name;
    const char *classes;
    char
        kind; /* + * exact where it fits; m picks one; i integers; w rounds, goes anywhere */
} BinaryOp;

static const BinaryOp binary[] = {
    {"add", "psufc", '+'},
    {"subtract", "sufc", '+'},
    {"multiply", "psufc", '*'},
    {"maximum", "psuf", 'm'},
    {"minimum", "psuf", 'm'},
    {"and", "psu", 'i'},
    {"or", "psu", 'i'},
    {"xor", "psu", 'i'},
    {"shift-left", "su", 'i'},
    {"shift-right-arithmetic", "su", 'i'},
    {"shift-right-logical", "su", 'i'},
    {"divide", "su", 'i'},
    {"remainder", "su", 'i'},
    {"power", "su", 'i'},
    {"mulhi", "su", 'i'},
    {"divide", "f", 'w'},
    {"remainder", "f", 'j'},
    {"atan2", "f", 'w'},
    {"power", "f", 'w'},
    {"divide", "c", 'w'},
    {"power", "c", 'w'},
};

enum { BINARY = sizeof binary / sizeof *binary };

static void settle_binary(Value *v, const Value *a, const Value *b, char kind)
{
    int depth = a->depth > b->depth ? a->depth : b->depth;
    if (kind == '+') {
        v->high = (a->high > b->high ? a->high : b->high) + 1;
    } else if (kind == '*') {
        v->high = a->high + b->high + is_complex(v->type);
        v->grain = a->grain + b->grain;
    } else {
        v->high = 60;
        v->grain = -2000;
    }
    settle(v, depth);
    if ((kind == 'w' || kind == 'j') && v->depth > 0)
        v->depth = MAX_DEPTH;
}

void gen_binary(Gen *g)
{
    const BinaryOp *o = &binary[chance(g, 50) ? below(g, 5) : below(g, BINARY)];
    Value *a = pick_class(g, o->classes);
    DType t = a->type;
    if (!is_arithmetic(t) || is_special_complex(a) ||
        (generate_plain && is_int(t) && strcmp(o->name, "power") == 0))
        return; /* XLA:CPU shifts for powers of two, whatever the exponent */
    Value *b = same_shape(g, a, t);
    bool real = is_float(t) || is_complex(t);
    if (is_special_complex(b) ||
        (real && (!may_round(a) || !may_round(b)) && o->kind != 'm'))
        return;
    /* differences of inexact values cancel; short formats have no digits left then */
    if (o->kind == '+' && a->depth + b->depth > 0 &&
        dtype_info[number_component(t)].mantissa_bits < 20)
        return;
    if (real && strchr("wj", o->kind) != NULL && (a->depth > 0 || b->depth > 0))
        return;
    if (chance(g, 50)) {
        Value *c = a;
        a = b;
        b = c;
    }
    Value *v = emit(g, t, a->rank, a->dims, "%s(%s, %s)", o->name, a->name, b->name);
    moved(v, a, b);
    v->pure = !real;
    if (real && o->kind != 'm')
        settle_binary(v, a, b, o->kind);
}

/* Operands, or operand and result, of different floats: the language allows it. */
void gen_mixed(Gen *g)
{
    Value *a = pick_class(g, "f");
    DType wide = a->type == DT_F32 || chance(g, 30) ? DT_F64 : DT_F32;
    if (a->type == DT_F64 || !is_arithmetic(a->type) || a->depth > 0 || a->special)
        return;
    Value *b = same_shape(g, a, wide), *v;
    if (b->depth > 0 || b->special)
        return;
    const BinaryOp *o = &binary[below(g, 5)];
    int kind = (int)below(g, 4);
    if (kind == 0) {
        bool narrow = chance(g, 20) && dtype_info[a->type].bits >= 16;
        v = emit(g, narrow ? a->type : wide, a->rank, a->dims, "%s(%s, %s)", o->name,
                 chance(g, 50) ? a->name : b->name, b->name);
        moved(v, a, b);
        if (o->kind != 'm')
            settle_binary(v, a, b, o->kind);
        if (narrow)
            v->depth = MAX_DEPTH;
    } else if (kind == 1) {
        v = emit(g, wide, a->rank, a->dims, "%s(%s)", chance(g, 50) ? "negate" : "abs",
                 a->name);
        moved(v, a, NULL);
    } else if (kind == 2 && a->rank > 0) {
        int d = (int)below(g, a->rank);
        int64_t dims[MAX_RANK];
        memcpy(dims, a->dims, sizeof dims);
        dims[d] *= 2;
        v = emit(g, wide, a->rank, dims, "concatenate(%s, %s), dimensions={%d}", a->name,
                 b->name, d);
        moved(v, a, b);
    } else {
        Value *p = same_shape(g, a, DT_PRED);
        v = emit(g, wide, a->rank, a->dims, "select(%s, %s, %s)", p->name, a->name,
                 b->name);
        moved(v, a, b);
    }
    v->pure = false;
}

void gen_compare(Gen *g)
{
    static const char *const directions[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    Value *a = pick(g);
    Value *b = same_shape(g, a, a->type);
    const char *d = directions[is_complex(a->type) ? below(g, 2) : below(g, 6)];
    if (!jumps(a) || !jumps(b))
        return;
    bool total = is_float(a->type) && a->pure && b->pure && chance(g, 20);
    emit(g, DT_PRED, a->rank, a->dims, "compare(%s, %s), direction=%s%s", a->name,
         b->name, d, total ? ", type=TOTALORDER" : "");
}

void gen_select(Gen *g)
{
    Value *a = pick(g);
    Value *b = same_shape(g, a, a->type);
    if (chance(g, 20) && a->type != DT_PRED && !is_complex(a->type) &&
        is_arithmetic(a->type)) {
        bool scalars = chance(g, 50);
        Value *low = scalars ? scalar(g, a->type) : same_shape(g, a, a->type);
        if (low->special || a->special || b->special)
            return;
        Value *high = scalars ? constant_scalar(g, a->type, 3) : b;
        Value *v = emit(g, a->type, a->rank, a->dims, "clamp(%s, %s, %s)", low->name,
                        a->name, high->name);
        moved(v, a, high);
        Value bounds = *v;
        moved(v, &bounds, low);
        v->pure = is_int(a->type);
        return;
    }
    Value *p =
        a->rank > 0 && chance(g, 15) ? scalar(g, DT_PRED) : same_shape(g, a, DT_PRED);
    Value *v = emit(g, a->type, a->rank, a->dims, "select(%s, %s, %s)", p->name, a->name,
                    b->name);
    moved(v, a, b);
}

void gen_convert(Gen *g)
{
    Value *a = pick(g);
    DType to = any_type(g);
    const DTypeInfo *i = &dtype_info[to];
    bool real = is_float(a->type) || is_complex(a->type);
    bool narrow = dtype_info[number_component(to)].mantissa_bits <
                  dtype_info[number_component(a->type)].mantissa_bits;
    if (is_complex(a->type) && !is_complex(to))
        return; /* asked for by real and imag */
    if (real && !jumps(a) && (is_int(to) || to == DT_PRED || i->special == SPECIAL_E8M0))
        return;
    bool wide = dtype_info[number_component(to)].mantissa_bits >
                dtype_info[number_component(a->type)].mantissa_bits;
    if (real && a->depth > 0 && (wide || (narrow && a->depth > max_depth(to))))
        return; /* a finer type has a finer tolerance */
    Value *v = emit(g, to, a->rank, a->dims, "convert(%s)", a->name);
    moved(v, a, NULL);
    v->pure = is_int(to) || to == DT_PRED;
    if (is_int(to) || to == DT_PRED) {
        v->special = false;
        return;
    }
    if (!real) { /* integers may be anything: the conversion rounds once, the same everywhere */
        bool small = a->type == DT_PRED || dtype_info[a->type].bits <= 4;
        v->high = a->type == DT_PRED ? 0 : small ? 4 : dtype_info[a->type].bits;
        v->grain =
            small ? 0 : v->high - dtype_info[number_component(to)].mantissa_bits - 1;
    }
    if (i->special == SPECIAL_E8M0 || (i->special == SPECIAL_FINITE && v->special)) {
        v->special = true;
        v->high = 200;
    }
}

void gen_bits(Gen *g)
{
    Value *a = pick(g);
    if (a->type == DT_PRED || is_complex(a->type) || !a->pure || a->depth > 0)
        return;
    DType to = any_type(g);
    if (to == DT_PRED || is_complex(to))
        return;
    int from_bits = dtype_info[a->type].bits;
    int to_bits = dtype_info[to].bits;
    int rank = a->rank;
    int64_t dims[MAX_RANK];
    memcpy(dims, a->dims, sizeof dims);
    if (from_bits > to_bits) {
        if (rank == 4)
            return;
        dims[rank++] = from_bits / to_bits;
    } else if (from_bits < to_bits) {
        if (rank == 0 || dims[rank - 1] != to_bits / from_bits)
            return;
        rank--;
    }
    Value *v = emit(g, to, rank, dims, "bitcast-convert(%s)", a->name);
    v->special = is_float(to);
    v->high = v->special ? 300 : 1;
}

void gen_complex(Gen *g)
{
    if (chance(g, 50)) {
        Value *a = pick_class(g, "c");
        if (chance(g, 25) && may_round(a) && !a->special) {
            Value *v =
                emit(g, number_component(a->type), a->rank, a->dims, "abs(%s)", a->name);
            v->high = a->high + 1;
            v->depth = MAX_DEPTH;
            return;
        }
        Value *v = emit(g, number_component(a->type), a->rank, a->dims, "%s(%s)",
                        chance(g, 50) ? "real" : "imag", a->name);
        moved(v, a, NULL);
        return;
    }
    DType t = chance(g, 70) ? DT_F32 : DT_F64;
    Value *a = pick_type(g, t);
    Value *b = same_shape(g, a, t);
    Value *v = emit(g, t == DT_F32 ? DT_C64 : DT_C128, a->rank, a->dims,
                    "complex(%s, %s)", a->name, b->name);
    moved(v, a, b);
}
