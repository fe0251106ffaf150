/* Random reductions, contractions, sorts and what else computes across elements. */
#include <stdlib.h>
#include <string.h>

#include "tests/random/value.h"

/* The same in other words, of integers (floats have NaN, and -0). */
static const char *say_reducer(Gen *g, DType t, const char *op, char out[400])
{
    const char *n = dtype_info[t].name;
    bool whole = is_int(t) && g->shared->other_words && chance(g, 60);
    if (whole && strcmp(op, "add") == 0)
        snprintf(out, 400, "  c = %s[] negate(b)\n  ROOT r = %s[] subtract(a, c)", n, n);
    else if (whole && strcmp(op, "maximum") == 0)
        snprintf(
            out, 400,
            "  c = pred[] compare(a, b), direction=GT\n  ROOT r = %s[] select(c, a, b)",
            n);
    else if (whole && strcmp(op, "minimum") == 0)
        snprintf(
            out, 400,
            "  c = pred[] compare(b, a), direction=GE\n  ROOT r = %s[] select(c, a, b)",
            n);
    else
        snprintf(out, 400, "  ROOT r = %s[] %s(%s)", n, op,
                 chance(g, 20) ? "b, a" : "a, b");
    return out;
}

const char *reducer(Gen *g, DType t, const char *op)
{
    Shared *s = g->shared;
    char name[40], text[400];
    snprintf(name, sizeof name, "%s_%s", op, dtype_info[t].name);
    for (int i = 0; i < s->reducer_count; i++) {
        if (strcmp(s->reducers[i], name) == 0)
            return s->reducers[i];
    }
    char *kept = s->reducers[s->reducer_count < 63 ? s->reducer_count++ : 63];
    memcpy(kept, name, sizeof name);
    const char *type = dtype_info[t].name;
    fprintf(s->head, "%s {\n  a = %s[] parameter(0)\n  b = %s[] parameter(1)\n%s\n}\n",
            kept, type, type, say_reducer(g, t, op, text));
    return kept;
}

int log2_up(int64_t n)
{
    int bits = 0;
    while (bits < 40 && (INT64_C(1) << bits) < n)
        bits++;
    return bits;
}

/* An operation that reduces this type, and its starting value as a scalar. */
const char *choose_reduction(Gen *g, const Value *a, Value **init)
{
    static const char *const ints[] = {"add", "add", "maximum", "minimum",
                                       "and", "or",  "xor",     "multiply"};
    static const char *const floats[] = {"add", "add", "maximum", "minimum"};
    static const char *const preds[] = {"and", "or", "xor"};
    const char *op = a->type == DT_PRED  ? preds[below(g, 3)]
                     : is_int(a->type)   ? ints[below(g, 8)]
                     : is_float(a->type) ? floats[below(g, 4)]
                                         : "add";
    bool starts_well = strstr(op, "imum") == NULL && (!is_int(a->type) || op[1] != 'n');
    if (generate_plain && !starts_well) /* the first value has to be neutral */
        op = is_int(a->type) ? "or" : "add";
    double start = strcmp(op, "and") == 0 || strcmp(op, "multiply") == 0 ? 1 : 0;
    /* a function that is no single operation may start anywhere, any number of times */
    bool odd_start = !generate_plain && !g->shared->other_words && chance(g, 10);
    if (generate_plain &&
        is_complex(a->type)) /* XLA:CPU leaves out what must be neutral */
        *init = emit(g, a->type, 0, NULL, "constant((0, 0))");
    else
        *init = constant_scalar(g, a->type, odd_start ? 2 : start);
    return op;
}

/* Facts of a value that combines up to n elements of a. False: its answer is not sure. */
bool can_reduce(const Value *a, const char *op)
{
    bool sums = strcmp(op, "add") == 0;
    if (generate_plain && sums && is_float(a->type) &&
        dtype_info[a->type].mantissa_bits < 20)
        return false; /* XLA:CPU sums short floats in short floats */
    if (!is_arithmetic(a->type) || (sums && (a->special || !may_round(a))))
        return is_int(a->type) || a->type == DT_PRED;
    if (is_float(a->type) && a->special)
        return a->depth == 0;
    /* short formats: sums of inexact values lose all digits */
    return !sums || a->depth == 0 ||
           dtype_info[number_component(a->type)].mantissa_bits > 20;
}

void reduced(Value *v, const Value *a, const char *op, int64_t n)
{
    moved(v, a, NULL);
    v->pure = is_int(v->type) || v->type == DT_PRED;
    v->high = v->high < 2 ? 2 : v->high;
    if (strcmp(op, "add") == 0 && !v->pure) {
        v->high += log2_up(n + 1);
        v->grain = v->grain > 0 ? 0 : v->grain;
        settle(v, a->depth);
    }
}

static int choose_dims(Gen *g, const Value *a, int64_t *reduced_dims, int64_t *kept,
                       int *kept_count, int64_t *n)
{
    int count = 0;
    *kept_count = 0;
    *n = 1;
    for (int i = 0; i < a->rank; i++) {
        if (chance(g, 55)) {
            reduced_dims[count++] = i;
            *n *= a->dims[i];
        } else {
            kept[(*kept_count)++] = a->dims[i];
        }
    }
    return count;
}

void gen_reduce(Gen *g)
{
    Value *a = pick_rank(g, 1);
    int64_t which[MAX_RANK];
    int64_t dims[MAX_RANK];
    int rank;
    int64_t n;
    int count = choose_dims(g, a, which, dims, &rank, &n);
    Value *init;
    const char *op = choose_reduction(g, a, &init);
    if (!can_reduce(a, op))
        return;
    char text[128];
    Value *v =
        emit(g, a->type, rank, dims, "reduce(%s, %s), dimensions={%s}, to_apply=%s",
             a->name, init->name, list(which, count, text), reducer(g, a->type, op));
    reduced(v, a, op, n);
}

/* Where a maximum starts: for XLA:CPU, which may leave it out, below all that there is. */
static Value *lowest(Gen *g, DType t, int64_t n)
{
    char element[16], text[NUMBER_TEXT_MAX];
    if (!generate_plain || n == 0)
        return constant_scalar(g, t, 0);
    number_lowest(t, element);
    number_print(t, element, true, text);
    return emit(g, t, 0, NULL, "constant(%s)", text);
}

/* Two results: the largest element and its least index. */
void gen_reduce_pair(Gen *g)
{
    Value *a = pick_rank(g, 1);
    if (a->depth > 0 || is_complex(a->type) || a->special || a->type == DT_PRED)
        return;
    int64_t which[MAX_RANK];
    int64_t dims[MAX_RANK];
    char text[128];
    char shape[128];
    int rank;
    int64_t n;
    int count = choose_dims(g, a, which, dims, &rank, &n);
    if (count == 0)
        return;
    Value *index = emit(g, DT_S32, a->rank, a->dims, "iota(), iota_dimension=%d",
                        (int)which[count - 1]);
    Value *least = lowest(g, a->type, n);
    Value *zero = constant_scalar(g, DT_S32, 0);
    const char *t = dtype_info[a->type].name;
    int id = g->shared->next_id++;
    fprintf(g->shared->head,
            "argmax%d {\n  a = %s[] parameter(0)\n  i = s32[] parameter(1)\n  b = %s[] "
            "parameter(2)\n  j = s32[] parameter(3)\n  gt = pred[] compare(a, b), "
            "direction=GT\n  eq = pred[] compare(a, b), direction=EQ\n  lt = pred[] "
            "compare(i, j), direction=LT\n  tie = pred[] and(eq, lt)\n  first = pred[] "
            "or(gt, "
            "tie)\n  x = %s[] select(first, a, b)\n  k = s32[] select(first, i, j)\n  "
            "ROOT r = "
            "(%s[], s32[]) tuple(x, k)\n}\n",
            id, t, t, t, t);
    Value like = {.type = a->type, .rank = rank};
    memcpy(like.dims, dims, sizeof dims);
    like.type = DT_S32;
    char second[128];
    shape_of(&like, second);
    like.type = a->type;
    int pair = g->shared->next_id++;
    say(g,
        "  t%d = (%s, %s) reduce(%s, %s, %s, %s), dimensions={%s}, to_apply=argmax%d\n",
        pair, shape_of(&like, shape), second, a->name, index->name, least->name,
        zero->name, list(which, count, text), id);
    Value *v = emit(g, a->type, rank, dims, "get-tuple-element(t%d), index=0", pair);
    moved(v, a, NULL);
    v->pure = is_int(a->type);
    emit(g, DT_S32, rank, dims, "get-tuple-element(t%d), index=1", pair);
}

/* Associative computations for which the order counts, and how often the initial value joins: what stands
 * last; one map x -> a x + b after the other; what stands last among the largest. */
static void print_ordered(Gen *g, const char *t, int id, int arrays)
{
    FILE *f = g->shared->head;
    fprintf(f, "ordered%d {\n", id);
    for (int i = 0; i < 2 * arrays; i++)
        fprintf(f, "  p%d = %s[] parameter(%d)\n", i, t, i);
    if (arrays == 1) {
        fprintf(f, "  ROOT r = %s[] copy(p1)\n}\n", t);
        return;
    }
    if (arrays == 2)
        fprintf(f,
                "  r0 = %s[] multiply(p0, p2)\n  x = %s[] multiply(p1, p2)\n"
                "  r1 = %s[] add(x, p3)\n",
                t, t, t);
    else
        fprintf(f, "  more = pred[] compare(p0, p3), direction=GT\n");
    for (int i = 0; i < arrays && arrays == 3; i++)
        fprintf(f, "  r%d = %s[] select(more, p%d, p%d)\n", i, t, i, i + 3);
    if (arrays == 2)
        fprintf(f, "  ROOT r = (%s[], %s[]) tuple(r0, r1)\n}\n", t, t);
    else
        fprintf(f, "  ROOT r = (%s[], %s[], %s[]) tuple(r0, r1, r2)\n}\n", t, t, t);
}

void combine_ordered(Gen *g, Value *first, int counted, const char *op,
                     const char *attributes, int rank, const int64_t *dims)
{
    DType t = first->type;
    Value *a[3] = {first};
    int arrays = 1 + (int)below(g, 3), id = g->shared->next_id++;
    char shape[128], operands[400];
    for (int i = 1; i < arrays; i++)
        a[i] = same_shape(g, first, t);
    if (arrays == 3 && counted >= 0 && dtype_info[t].bits > 8 && chance(g, 50))
        a[2] = emit(g, t, first->rank, first->dims, "iota(), iota_dimension=%d", counted);
    operands[0] = '\0';
    for (int i = 0; i < arrays; i++)
        sprintf(operands + strlen(operands), "%.24s, ", a[i]->name);
    for (int i = 0; i < arrays; i++)
        sprintf(operands + strlen(operands), "%s%.24s", i ? ", " : "",
                constant_scalar(g, t, (double)below(g, 4))->name);
    print_ordered(g, dtype_info[t].name, id, arrays);
    if (arrays == 1) {
        emit(g, t, rank, dims, "%s(%s),%s to_apply=ordered%d", op, operands, attributes,
             id);
        return;
    }
    Value like = {.type = t, .rank = rank};
    memcpy(like.dims, dims, (size_t)rank * sizeof *dims);
    shape_of(&like, shape);
    say(g, "  t%d = (%s, %s%s%s) %s(%s),%s to_apply=ordered%d\n", id, shape, shape,
        arrays == 3 ? ", " : "", arrays == 3 ? shape : "", op, operands, attributes, id);
    for (int i = 0; i < arrays; i++)
        emit(g, t, rank, dims, "get-tuple-element(t%d), index=%d", id, i);
}

void gen_reduce_ordered(Gen *g)
{
    Value *a = pick_rank(g, 1);
    int64_t which[MAX_RANK], dims[MAX_RANK], n;
    int rank;
    char text[128], attributes[160];
    if (!is_int(a->type))
        return;
    int count = choose_dims(g, a, which, dims, &rank, &n);
    snprintf(attributes, sizeof attributes, " dimensions={%s},",
             list(which, count, text));
    combine_ordered(g, a, count > 0 ? (int)which[count - 1] : -1, "reduce", attributes,
                    rank, dims);
}

/* How to multiply: what rounds operands only where nothing is lost. */
static const char *choose_precision(Gen *g, const Value *a, const Value *b, DType out)
{
    static const char *const any[] = {
        ", operand_precision={high,highest}", ", operand_precision={highest,highest}",
        ", algorithm=dot_f32_f32_f32", ", algorithm=dot_tf32_tf32_f32_x3",
        ", algorithm=dot_bf16_bf16_f32_x6"};
    static const char *const rounding[] = {", algorithm=dot_tf32_tf32_f32",
                                           ", algorithm=dot_bf16_bf16_f32",
                                           ", algorithm=dot_bf16_bf16_f32_x3"};
    if (generate_plain || !chance(g, 25))
        return "";
    if (a->type != DT_F32 || b->type != DT_F32 || out != DT_F32)
        return any[below(g, 2)];
    return is_short(a, 7) && is_short(b, 7) && chance(g, 50) ? rounding[below(g, 3)]
                                                             : any[below(g, 5)];
}

void gen_dot(Gen *g)
{
    Value *a = pick_rank(g, 1);
    if (!is_arithmetic(a->type) || a->type == DT_PRED || a->special || !may_round(a) ||
        (a->depth > 0 && dtype_info[number_component(a->type)].mantissa_bits < 20))
        return;
    int64_t lists[4][MAX_RANK];
    int contracting = 0;
    int batches = 0;
    int64_t bdims[MAX_RANK] = {0};
    int64_t out[MAX_RANK];
    int rank = 0;
    char role[MAX_RANK];
    int64_t n = 1;
    int64_t work = 1;
    for (int i = 0; i < a->rank; i++)
        role[i] = chance(g, 40) ? 'c' : chance(g, 35) ? 'b' : 'f';
    int b_rank = 0;
    int free_at = (int)below(g, 3); /* where the free dimension of b stands */
    int64_t free_size = chance(g, 20) ? 1 : 1 + below(g, 17);
    int shared = 0;
    for (int i = 0; i < a->rank; i++)
        shared += role[i] != 'f';
    bool has_free = shared < 4 && chance(g, 80);
    free_at = free_at < shared ? free_at : shared;
    for (int i = 0; i < a->rank; i++) {
        if (role[i] == 'f')
            continue;
        if (has_free && b_rank == free_at)
            bdims[b_rank++] = free_size;
        bdims[b_rank] = a->dims[i];
        int *count = role[i] == 'c' ? &contracting : &batches;
        lists[role[i] == 'c' ? 0 : 2][*count] = i;
        lists[role[i] == 'c' ? 1 : 3][*count] = b_rank++;
        (*count)++;
        if (role[i] == 'c')
            n *= a->dims[i];
    }
    if (has_free && b_rank <= free_at)
        bdims[b_rank++] = free_size;
    for (int i = 0; i < batches; i++)
        out[rank++] = a->dims[lists[2][i]];
    for (int i = 0; i < a->rank; i++) {
        if (role[i] == 'f')
            out[rank++] = a->dims[i];
    }
    if (has_free)
        out[rank++] = free_size;
    for (int i = 0; i < rank; i++)
        work *= out[i];
    if (work * (n + 1) > 16 * g->shared->most_elements || rank > MAX_RANK)
        return;
    Value like = {.rank = b_rank};
    memcpy(like.dims, bdims, sizeof like.dims);
    Value *b = same_shape(g, &like, a->type);
    if (b->special || !may_round(b) ||
        (b->depth > 0 && a->depth == 0 && max_depth(a->type) < 4))
        return;
    DType t = a->type;
    if ((t == DT_BF16 || t == DT_F16) && chance(g, 30))
        t = DT_F32;
    else if (is_int(t) && dtype_info[t].bits <= 8 && !generate_plain && chance(g, 70))
        t = dtype_info[t].class == DTC_SINT ? DT_S32 : DT_U32;
    else if (t == DT_S8 && chance(g, 70))
        t = DT_S32;
    else if (dtype_info[t].class == DTC_FLOAT && dtype_info[t].bits <= 8)
        t = chance(g, 70) ? DT_F32 : DT_BF16;
    char text[4][128];
    Value *v =
        emit(g, t, rank, out,
             "dot(%s, %s), lhs_contracting_dims={%s}, rhs_contracting_dims={%s}, "
             "lhs_batch_dims={%s}, rhs_batch_dims={%s}%s",
             a->name, b->name, list(lists[0], contracting, text[0]),
             list(lists[1], contracting, text[1]), list(lists[2], batches, text[2]),
             list(lists[3], batches, text[3]), choose_precision(g, a, b, t));
    v->high = a->high + b->high + log2_up(n) + is_complex(t);
    v->grain = a->grain + b->grain;
    settle(v, a->depth > b->depth ? a->depth : b->depth);
}

void gen_sort(Gen *g)
{
    Value *a = pick_rank(g, 1);
    if (a->depth > 0 || is_complex(a->type) || (a->special && !a->pure))
        return;
    int d = (int)below(g, a->rank);
    const char *t = dtype_info[a->type].name;
    const char *direction = chance(g, 50) ? "LT" : "GT";
    const char *total = is_float(a->type) ? ", type=TOTALORDER" : "";
    if (is_float(a->type) && !a->pure)
        total = "";
    Value *b = chance(g, 50) ? same_shape(g, a, any_type(g)) : NULL;
    int id = g->shared->next_id++;
    fprintf(g->shared->head,
            "less%d {\n  a = %s[] parameter(0)\n  b = %s[] parameter(1)\n", id, t, t);
    if (b != NULL)
        fprintf(g->shared->head, "  c = %s[] parameter(2)\n  d = %s[] parameter(3)\n",
                dtype_info[b->type].name, dtype_info[b->type].name);
    fprintf(g->shared->head, "  ROOT r = pred[] compare(a, b), direction=%s%s\n}\n",
            direction, total);
    if (b == NULL) {
        Value *v = emit(g, a->type, a->rank, a->dims,
                        "sort(%s), dimensions={%d}, is_stable=true, to_apply=less%d",
                        a->name, d, id);
        moved(v, a, NULL);
        return;
    }
    char first[128];
    char second[128];
    int pair = g->shared->next_id++;
    say(g,
        "  t%d = (%s, %s) sort(%s, %s), dimensions={%d}, is_stable=true, "
        "to_apply=less%d\n",
        pair, shape_of(a, first), shape_of(b, second), a->name, b->name, d, id);
    Value *v =
        emit(g, a->type, a->rank, a->dims, "get-tuple-element(t%d), index=0", pair);
    moved(v, a, NULL);
    v = emit(g, b->type, b->rank, b->dims, "get-tuple-element(t%d), index=1", pair);
    moved(v, b, NULL);
}

void gen_topk(Gen *g)
{
    Value *a = pick_rank(g, 1);
    if (a->depth > 0 || a->special || is_complex(a->type) || a->rank > 2 ||
        a->type == DT_PRED || !is_arithmetic(a->type) || a->dims[a->rank - 1] == 0)
        return;
    int64_t dims[MAX_RANK];
    memcpy(dims, a->dims, sizeof dims);
    dims[a->rank - 1] = 1 + below(g, dims[a->rank - 1]);
    Value like = {.type = a->type, .rank = a->rank};
    memcpy(like.dims, dims, sizeof dims);
    char first[128];
    char second[128];
    shape_of(&like, first);
    like.type = DT_S32;
    int pair = g->shared->next_id++;
    say(g, "  t%d = (%s, %s) topk(%s), k=%d, largest=%s\n", pair, first,
        shape_of(&like, second), a->name, (int)dims[a->rank - 1],
        chance(g, 50) ? "true" : "false");
    Value *v = emit(g, a->type, a->rank, dims, "get-tuple-element(t%d), index=0", pair);
    moved(v, a, NULL);
    emit(g, DT_S32, a->rank, dims, "get-tuple-element(t%d), index=1", pair);
}

void gen_norm(Gen *g)
{
    DType t = chance(g, 70) ? DT_F32 : DT_F64;
    Value *a = pick_type(g, t);
    if (a->rank < 2 || a->depth > 1 || a->special)
        return;
    int f = (int)below(g, a->rank);
    Value like = {.rank = 1, .dims = {a->dims[f]}};
    Value *scale = same_shape(g, &like, t);
    Value *offset = same_shape(g, &like, t);
    if (scale->special || offset->special || scale->depth > 1 || offset->depth > 1)
        return;
    char full[128];
    char small[128];
    like.type = t;
    shape_of(&like, small);
    int id = g->shared->next_id++;
    say(g,
        "  t%d = (%s, %s, %s) batch-norm-training(%s, %s, %s), epsilon=0.5, "
        "feature_index=%d\n",
        id, shape_of(a, full), small, small, a->name, scale->name, offset->name, f);
    for (int i = 0; i < 3; i++) {
        Value *v = emit(g, t, i ? 1 : a->rank, i ? like.dims : a->dims,
                        "get-tuple-element(t%d), index=%d", id, i);
        v->depth = MAX_DEPTH;
        v->high = 60;
    }
}

void gen_random_bits(Gen *g)
{
    int algorithm = (int)below(g, 3);
    int64_t two[] = {algorithm == 0 ? 2 : 3};
    Value *state = index_vector(g, 1, two, 10);
    Value *wide = emit(g, DT_U64, 1, two, "convert(%s)", state->name);
    static const DType types[] = {DT_U32, DT_U32, DT_U64, DT_U16, DT_U8, DT_S32};
    static const char *const algorithms[] = {"rng_three_fry", "rng_philox",
                                             "rng_default"};
    DType t = types[below(g, 6)];
    int rank;
    Value like = {.type = t};
    any_dims(g, &rank, like.dims);
    like.rank = rank;
    char shape[128];
    int id = g->shared->next_id++;
    say(g, "  t%d = (u64[%d], %s) rng-bit-generator(%s), algorithm=%s\n", id, (int)two[0],
        shape_of(&like, shape), wide->name, algorithms[algorithm]);
    emit(g, DT_U64, 1, two, "get-tuple-element(t%d), index=0", id);
    emit(g, t, rank, like.dims, "get-tuple-element(t%d), index=1", id);
}
