/* Values, types and text of the generator. */
#include "tests/random/value.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

uint64_t random_bits(Random *r)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t random_below(Random *r, int64_t n)
{
    return n <= 1 ? 0 : (int64_t)(random_bits(r) % (uint64_t)n);
}

bool random_chance(Random *r, int percent)
{
    return random_below(r, 100) < percent;
}

int64_t below(Gen *g, int64_t n)
{
    return random_below(&g->shared->random, n);
}

bool chance(Gen *g, int percent)
{
    return random_chance(&g->shared->random, percent);
}

/* -- types ----------------------------------------------------------------------------------- */

bool is_float(DType t)
{
    return dtype_info[t].class == DTC_FLOAT;
}

bool is_complex(DType t)
{
    return dtype_info[t].class == DTC_COMPLEX;
}

bool is_int(DType t)
{
    return dtype_info[t].class == DTC_SINT || dtype_info[t].class == DTC_UINT;
}

bool is_arithmetic(DType t)
{
    return dtype_info[t].special != SPECIAL_E8M0;
}

int max_depth(DType t)
{
    int bits = dtype_info[number_component(t)].mantissa_bits;
    return bits >= 23 ? 4 : bits >= 7 ? 2 : 1;
}

DType any_type(Gen *g)
{
    static const DType common[] = {DT_F32, DT_F32, DT_F32,  DT_BF16, DT_F16,
                                   DT_S32, DT_S32, DT_PRED, DT_U32,  DT_F64};
    if (chance(g, 65))
        return common[below(g, 10)];
    for (;;) {
        DType t = (DType)(1 + below(g, DT_COUNT - 1));
        if (dtype_info[t].name != NULL && dtype_info[t].class != DTC_OTHER &&
            !dtype_info[t].text_only && dtype_info[t].storage != 0 &&
            (!generate_plain || t == DT_PRED ||
             dtype_info[t].bits >= (is_float(t) ? 16 : 8)))
            return t;
    }
}

void any_dims(Gen *g, int *rank, int64_t *dims)
{
    static const int sizes[] = {1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 8, 16, 17, 32, 33, 64};
    static const int large[] = {1,  3,   8,   16,  31,  32,  33,   64,
                                65, 100, 128, 129, 256, 257, 1000, 1024};
    const int *from = g->shared->most_elements > 10000 && chance(g, 70) ? large : sizes;
    *rank = (int)below(g, 5);
    int64_t n = 1;
    for (int i = 0; i < *rank; i++) {
        dims[i] = chance(g, 2) ? 0 : from[below(g, 16)];
        if (n * dims[i] > g->shared->most_elements)
            dims[i] = 1;
        n *= dims[i];
    }
    if (*rank > 0 && chance(g, 3))
        dims[*rank - 1] = n == 0 ? 0 : 1 + below(g, 1 + g->shared->most_elements / n);
}

/* -- text ------------------------------------------------------------------------------------- */

const char *list(const int64_t *items, int count, char out[128])
{
    int at = 0;
    out[0] = '\0';
    for (int i = 0; i < count; i++)
        at += snprintf(out + at, (size_t)(128 - at), "%s%lld", i ? "," : "",
                       (long long)items[i]);
    return out;
}

const char *shape_of(const Value *v, char out[128])
{
    char dims[128];
    snprintf(out, 128, "%s[%.100s]", dtype_info[v->type].name,
             list(v->dims, v->rank, dims));
    return out;
}

void say(Gen *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(g->body, format, args);
    va_end(args);
}

static Value *add_value(Gen *g, DType t, int rank, const int64_t *dims)
{
    if (g->count == MAX_VALUES) {
        fprintf(stderr, "a random computation has more than %d values\n", MAX_VALUES);
        exit(2);
    }
    Value *v = &g->values[g->count++];
    *v = (Value){.type = t, .rank = rank, .high = 2, .grain = -2, .pure = true};
    snprintf(v->name, sizeof v->name, "v%d", g->shared->next_id++);
    for (int i = 0; i < rank; i++)
        v->dims[i] = dims[i];
    return v;
}

/* What any instruction may say of itself; the compiler keeps it (check.c counts `note`s). */
static void say_notes(Gen *g, const char *text)
{
    int id = g->shared->next_id++;
    int kind = (int)below(g, 8);
    if (kind < 3)
        say(g,
            ", metadata={op_type=\"op\" op_name=\"net/op.%d\" source_file=\"net.py\" "
            "source_line=%d}",
            id, id);
    else if (kind == 3)
        say(g, ", origin={{\"net.%d\"}}", id);
    else if (kind == 4)
        say(g, ", statistics={visualizing_index=0,heat=%d}", id);
    else if (kind == 5 && strstr(text, "sharding") == NULL && g->shared->partitions == 1)
        say(g, ", sharding={replicated}");
    else if (strstr(text, "frontend_attributes") == NULL)
        say(g, ", frontend_attributes={note=\"%d\"}", id);
}

/* What comes before the last value though that does not read it. */
static void say_order(Gen *g, const char *text)
{
    if (g->count < 2 || strstr(text, "parameter(") != NULL ||
        strstr(text, "control-predecessors") != NULL)
        return;
    int64_t first = below(g, g->count - 1), second = below(g, g->count - 1);
    say(g, ", control-predecessors={%s", g->values[first].name);
    if (second != first && chance(g, 30))
        say(g, ", %s", g->values[second].name);
    say(g, "}");
}

static void choose_order(Gen *g, int rank, char out[24])
{
    int64_t order[MAX_RANK];
    char text[128];
    for (int i = 0; i < rank; i++) {
        int at = (int)below(g, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    snprintf(out, 24, "%.20s", list(order, rank, text));
}

/* What else a layout says: tiles, a memory space, how short types are packed. */
static const char *other_memory(Gen *g, DType t)
{
    static const char *const all[] = {":T(8,128)", ":T(2,128)(2,1)", ":T(4)", ":S(1)",
                                      ":T(8,128)S(1)"};
    if (!chance(g, 15))
        return "";
    if (dtype_info[t].bits < 8 && t != DT_PRED)
        return dtype_info[t].bits == 4 ? ":E(4)" : ":E(2)";
    return all[below(g, 5)];
}

/* Whether its layout is for it to say, not for its operands. */
static bool may_lay_out(const char *text)
{
    static const char *const others[] = {
        "get-tuple-element", "bitcast(",    "parameter(",     "-done(",  "all-",
        "collective-",       "custom-call", "reduce-scatter", "constant"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strstr(text, others[i]) != NULL)
            return false;
    }
    return true;
}

Value *emit(Gen *g, DType t, int rank, const int64_t *dims, const char *format, ...)
{
    Value *v = add_value(g, t, rank, dims);
    char shape[128], text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say(g, "  %s = %s", v->name, shape_of(v, shape));
    if (rank > 1 && !generate_plain && chance(g, 3) && may_lay_out(text)) {
        choose_order(g, rank, v->layout);
        say(g, "{%s%s}", v->layout, other_memory(g, t));
    }
    say(g, " %s", text);
    if (!generate_plain && chance(g, 4))
        say_notes(g, text);
    if (!generate_plain && chance(g, 2))
        say_order(g, text);
    say(g, "\n");
    return v;
}

/* -- facts ------------------------------------------------------------------------------------ */

static int64_t count_of(int rank, const int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= dims[i];
    return n;
}

int64_t elements_of(const Value *v)
{
    return count_of(v->rank, v->dims);
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

void moved(Value *v, const Value *a, const Value *b)
{
    v->depth = a->depth;
    v->high = a->high;
    v->grain = a->grain;
    v->special = a->special;
    v->pure = a->pure;
    if (b != NULL) {
        v->depth = most(v->depth, b->depth);
        v->high = most(v->high, b->high);
        v->grain = v->grain < b->grain ? v->grain : b->grain;
        v->special |= b->special;
        v->pure &= b->pure;
    }
}

void settle(Value *v, int depth)
{
    const DTypeInfo *i = &dtype_info[number_component(v->type)];
    v->pure = is_int(v->type) || v->type == DT_PRED;
    if (v->pure) {
        v->depth = 0;
        return;
    }
    int lowest = 1 - i->bias - i->mantissa_bits;
    int top = (1 << i->exponent_bits) - 2 - i->bias;
    bool fits =
        v->high - v->grain <= i->mantissa_bits && v->high < top && v->grain > lowest;
    v->depth = depth + (fits && !v->special && depth == 0 ? 0 : 1);
}

bool may_round(const Value *v)
{
    return is_arithmetic(v->type) && v->depth < max_depth(v->type) && v->high < 40;
}

bool jumps(const Value *v)
{
    return v->depth == 0;
}

bool is_short(const Value *v, int bits)
{
    return v->depth == 0 && v->high - v->grain <= bits;
}

/* -- finding operands ------------------------------------------------------------------------- */

static char class_letter(DType t)
{
    return dtype_info[t].class == DTC_PRED   ? 'p'
           : dtype_info[t].class == DTC_SINT ? 's'
           : dtype_info[t].class == DTC_UINT ? 'u'
           : is_float(t)                     ? 'f'
                                             : 'c';
}

typedef bool Wanted(const Value *v, const void *what);

static Value *find(Gen *g, Wanted *wanted, const void *what)
{
    Value *found = NULL;
    int n = 0;
    for (int i = 0; i < g->count; i++) {
        /* later ones more often: deep graphs */
        int weight = i * 2 > g->count ? 3 : 1;
        if (wanted(&g->values[i], what)) {
            n += weight;
            if (below(g, n) < weight)
                found = &g->values[i];
        }
    }
    if (found != NULL)
        found->used = true;
    return found;
}

static bool any(const Value *v, const void *what)
{
    (void)v;
    (void)what;
    return true;
}

static bool of_type(const Value *v, const void *what)
{
    return v->type == *(const DType *)what;
}

static bool of_class(const Value *v, const void *what)
{
    return strchr(what, class_letter(v->type)) != NULL;
}

static bool of_rank(const Value *v, const void *what)
{
    return v->rank >= *(const int *)what;
}

static bool of_shape(const Value *v, const void *what)
{
    const Value *w = what;
    return v->type == w->type && v->rank == w->rank &&
           memcmp(v->dims, w->dims, sizeof v->dims[0] * (size_t)v->rank) == 0;
}

static Value *new_value(Gen *g, DType t, int least_rank)
{
    int rank;
    int64_t dims[MAX_RANK];
    do
        any_dims(g, &rank, dims);
    while (rank < least_rank);
    return fresh(g, t, rank, dims);
}

Value *pick(Gen *g)
{
    Value *v = chance(g, 5) ? NULL : find(g, any, NULL);
    return v != NULL ? v : new_value(g, any_type(g), 0);
}

Value *pick_type(Gen *g, DType t)
{
    Value *v = find(g, of_type, &t);
    return v != NULL ? v : new_value(g, t, 0);
}

Value *pick_class(Gen *g, const char *classes)
{
    Value *v = find(g, of_class, classes);
    DType t = DT_F32;
    if (v != NULL)
        return v;
    for (int i = 0; i < 1000; i++) {
        t = any_type(g);
        if (strchr(classes, class_letter(t)) != NULL)
            break;
    }
    return new_value(g, t, 0);
}

Value *pick_rank(Gen *g, int least)
{
    Value *v = find(g, of_rank, &least);
    return v != NULL ? v : new_value(g, any_type(g), least);
}

Value *same_shape(Gen *g, const Value *like, DType t)
{
    Value wanted = *like;
    wanted.type = t;
    Value *v = chance(g, 15) ? NULL : find(g, of_shape, &wanted);
    if (v != NULL && (v != like || chance(g, 20)))
        return v;
    if (chance(g, 40) && wanted.rank > 0) {
        Value *s = constant_scalar(g, t, (double)below(g, 4) - 1);
        v = emit(g, t, wanted.rank, wanted.dims, "broadcast(%s), dimensions={}", s->name);
        moved(v, s, NULL);
        return v;
    }
    return fresh(g, t, wanted.rank, wanted.dims);
}

Value *scalar(Gen *g, DType t)
{
    Value like = {.type = t};
    Value *v = find(g, of_shape, &like);
    return v != NULL && chance(g, 50) ? v : constant_scalar(g, t, (double)below(g, 3));
}

/* -- making operands -------------------------------------------------------------------------- */

Value *constant_scalar(Gen *g, DType t, double value)
{
    if (dtype_info[t].class == DTC_UINT && value < 0)
        value = 1;
    if (dtype_info[t].bits < 4 && value > 1)
        value = 1;
    char text[NUMBER_TEXT_MAX];
    char element[16] = {0};
    if (is_complex(t))
        number_set_complex(t, element, value, 0.5);
    else
        number_set_double(t, element, t == DT_PRED ? value != 0 : value);
    if (dtype_info[t].special == SPECIAL_E8M0)
        number_set_double(t, element, 2);
    number_print(t, element, true, text);
    return emit(g, t, 0, NULL, "constant(%s)", text);
}

/* What only special values are: -0, the largest, infinities, NaN. */
static double special_number(Gen *g)
{
    static const double numbers[] = {-0.0, 0,    INFINITY, -INFINITY,
                                     NAN,  3e38, -65504,   1e-40};
    return numbers[below(g, 8)];
}

static void say_number(Gen *g, DType t, bool special)
{
    char text[NUMBER_TEXT_MAX], element[16] = {0};
    double x = (double)below(g, 9) / 4;
    if (special && chance(g, 40))
        x = special_number(g);
    if (is_complex(t))
        number_set_complex(t, element, x, 1 - x);
    else
        number_set_double(t, element,
                          dtype_info[t].special == SPECIAL_E8M0 ? 1
                          : t == DT_PRED                        ? x > 1
                          : dtype_info[t].bits < 4              ? x > 1
                                                                : x);
    number_print(t, element, true, text);
    say(g, "%s", text);
}

static Value *constant_array(Gen *g, DType t, int rank, const int64_t *dims)
{
    Value *v = add_value(g, t, rank, dims);
    char shape[128];
    v->special =
        is_float(t) && is_arithmetic(t) && g->shared->has_special && chance(g, 30);
    if (v->special) {
        v->high = 300;
        v->grain = -1100;
    }
    say(g, "  %s = %s constant(", v->name, shape_of(v, shape));
    int64_t n = elements_of(v);
    for (int64_t i = 0; i < n; i++) {
        int64_t rows = n;
        if (i > 0)
            say(g, ",");
        for (int d = 0; d < rank; rows /= dims[d++])
            say(g, "%s", i % rows == 0 ? "{" : "");
        say_number(g, t, v->special);
        rows = n;
        for (int d = 0; d < rank; rows /= dims[d++])
            say(g, "%s", (i + 1) % rows == 0 ? "}" : "");
    }
    say(g, ")\n");
    return v;
}

static Value *new_parameter(Gen *g, DType t, int rank, const int64_t *dims)
{
    Value *v = add_value(g, t, rank, dims);
    char shape[128];
    char name[24];
    v->special = g->shared->has_special && chance(g, 40);
    if (v->special) {
        v->high = 300;
        v->grain = -1100;
    }
    snprintf(name, sizeof name, "%s%.18s", v->special ? "sp" : "p", v->name + 1);
    memcpy(v->name, name, sizeof name);
    say(g, "  %s = %s", v->name, shape_of(v, shape));
    if (rank > 1 && chance(g, 40)) {
        choose_order(g, rank, v->layout);
        say(g, "{%s}", v->layout);
    }
    v->parameter = g->parameters + 1;
    say(g, " parameter(%d)\n", g->parameters++);
    return v;
}

/* A parameter that is a tuple: its elements are small values. */
void gen_tuple_parameter(Gen *g)
{
    Value items[3];
    char shapes[3][128], inner[300];
    int n = 2 + (int)below(g, 2), id = g->shared->next_id++;
    bool nested = chance(g, 50);
    if (!g->entry)
        return;
    for (int i = 0; i < n; i++) {
        items[i] = (Value){.type = any_type(g)};
        any_dims(g, &items[i].rank, items[i].dims);
        shape_of(&items[i], shapes[i]);
    }
    snprintf(inner, sizeof inner, nested ? "(%s, %s)" : "%s, %s", shapes[0], shapes[1]);
    say(g, "  pt%d = (%s%s%s) parameter(%d)\n", id, inner, n == 3 ? ", " : "",
        n == 3 ? shapes[2] : "", g->parameters++);
    if (nested)
        say(g, "  pt%dn = %s get-tuple-element(pt%d), index=0\n", id, inner, id);
    for (int i = 0; i < n; i++)
        emit(g, items[i].type, items[i].rank, items[i].dims,
             "get-tuple-element(pt%d%s), index=%d", id, nested && i < 2 ? "n" : "",
             nested && i == 2 ? 1 : i);
}

Value *fresh(Gen *g, DType t, int rank, const int64_t *dims)
{
    if (g->entry && chance(g, generate_products ? 95 : 70))
        return new_parameter(g, t, rank, dims);
    if (rank > 0 && count_of(rank, dims) <= 24 && count_of(rank, dims) > 0 &&
        chance(g, 50))
        return constant_array(g, t, rank, dims);
    if (rank > 0 && dims[rank - 1] <= 4 && is_arithmetic(t) && t != DT_PRED &&
        chance(g, 30) && dtype_info[t].bits > 4)
        return emit(g, t, rank, dims, "iota(), iota_dimension=%d", rank - 1);
    Value *s = constant_scalar(g, t, (double)below(g, 4));
    if (rank == 0)
        return s;
    return emit(g, t, rank, dims, "broadcast(%s), dimensions={}", s->name);
}

Value *small_argument(Gen *g, DType t, int rank, const int64_t *dims)
{
    bool has_special = g->shared->has_special;
    g->shared->has_special = false;
    Value *v = new_parameter(g, t, rank, dims);
    g->shared->has_special = has_special;
    return v;
}

/* Integers that are mostly, not always, in 0 .. bound - 1. */
Value *index_vector(Gen *g, int rank, const int64_t *dims, int bound)
{
    static const DType types[] = {DT_S32, DT_S32, DT_S32, DT_S64, DT_U32, DT_S8, DT_U16};
    Value like = {.type = types[below(g, 7)], .rank = rank};
    for (int i = 0; i < rank; i++)
        like.dims[i] = dims[i];
    Value *v = chance(g, 50) ? find(g, of_shape, &like) : NULL;
    if (v != NULL)
        return v;
    if (rank == 1 && dims[0] <= 16 && bound < 100 && chance(g, 30)) {
        v = add_value(g, like.type, rank, dims);
        char shape[128];
        say(g, "  %s = %s constant({", v->name, shape_of(v, shape));
        for (int64_t i = 0; i < dims[0]; i++)
            say(g, "%s%lld", i ? "," : "", (long long)below(g, bound + 1));
        say(g, "})\n");
        return v;
    }
    return fresh(g, like.type, rank, dims);
}
