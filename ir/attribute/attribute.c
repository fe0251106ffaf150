/* The attribute table and what is generic over attribute kinds. See attribute.h. */
#include "ir/attribute/attribute.h"
#include "ir/attribute/sharding.h"

#include <string.h>
#include <strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/attribute/config.h"
#include "ir/base/bug.h"

static const char *const ENUM_mode[] = {"cross_replica", "cross_partition",
                                        "cross_replica_and_partition", "flattened_id",
                                        NULL};
static const char *const ENUM_convolution_kind[] = {"unset", "fprop", "wgrad", "dgrad",
                                                    NULL};
static const char *const ENUM_precision[] = {"default", "high", "highest", NULL};
static const char *const ENUM_algorithm[] = {"unset",
                                             "dot_any_f8_any_f8_f32",
                                             "dot_any_f8_any_f8_f32_fast_accum",
                                             "dot_f16_f16_f16",
                                             "dot_f16_f16_f32",
                                             "dot_bf16_bf16_bf16",
                                             "dot_bf16_bf16_f32",
                                             "dot_bf16_bf16_f32_x3",
                                             "dot_bf16_bf16_f32_x6",
                                             "dot_bf16_bf16_f32_x9",
                                             "dot_tf32_tf32_f32",
                                             "dot_tf32_tf32_f32_x3",
                                             "dot_f32_f32_f32",
                                             "dot_f64_f64_f64",
                                             NULL};
static const char *const ENUM_fusion_kind[] = {"kLoop", "kInput", "kOutput", "kCustom",
                                               NULL};
static const char *const ENUM_direction[] = {"EQ", "NE", "GE", "GT", "LE", "LT", NULL};
static const char *const ENUM_compare_type[] = {"FLOAT", "TOTALORDER", "SIGNED",
                                                "UNSIGNED", NULL};
static const char *const ENUM_compare_order[] = {"PARTIAL", "TOTAL", NULL};
static const char *const ENUM_padding_type[] = {"PADDING_INVALID", "PADDING_VALID",
                                                "PADDING_SAME", NULL};
static const char *const ENUM_schedule[] = {"SCHEDULE_NONE", "SCHEDULE_LATEST",
                                            "SCHEDULE_EARLIEST", NULL};
static const char *const ENUM_api_version[] = {
    "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI", NULL};
static const char *const ENUM_distribution[] = {"rng_invalid", "rng_uniform",
                                                "rng_normal", NULL};
static const char *const ENUM_rng_algorithm[] = {"rng_default", "rng_three_fry",
                                                 "rng_philox", NULL};
static const char *const ENUM_fft_type[] = {"FFT", "IFFT", "RFFT", "IRFFT", NULL};
static const char *const ENUM_transpose[] = {"TRANSPOSE_INVALID", "NO_TRANSPOSE",
                                             "TRANSPOSE", "ADJOINT", NULL};

/* Enums whose spelling is compared without case (section 8.6 of the language). */
static bool folds_case(AttrId id)
{
    return id == ATTR_OPERAND_PRECISION || id == ATTR_ALGORITHM ||
           id == ATTR_DISTRIBUTION || id == ATTR_RNG_ALGORITHM || id == ATTR_SCHEDULE ||
           id == ATTR_API_VERSION;
}

#define NO_NAMES NULL
#define SHARED true
#define OWN false
const AttrInfo attr_info[ATTR_COUNT] = {
#define ATTR(id, name, kind, shared, names, doc)                                         \
    [ATTR_##id] = {name, AK_##kind, shared, names, doc},
#include "ir/attribute/attrs.def"
};
#undef NO_NAMES
#undef SHARED
#undef OWN

bool attr_enum_find(AttrId id, const char *text, size_t length, int64_t *out)
{
    const char *const *names = attr_info[id].names;
    for (int64_t i = 0; names != NULL && names[i] != NULL; i++) {
        if (strlen(names[i]) != length)
            continue;
        int differ = folds_case(id) ? strncasecmp(names[i], text, length)
                                    : strncmp(names[i], text, length);
        if (differ == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* -- equality and hash by kind ------------------------------------------------------- */

static bool bytes_equal(Bytes a, Bytes b)
{
    return a.length == b.length &&
           (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

const Shape *shape_part(const Shape *s, Ints index)
{
    for (uint32_t i = 0; i < index.count; i++) {
        if (!shape_is_tuple(s) || index.data[i] < 0 || index.data[i] >= s->rank)
            return NULL;
        s = s->elements[index.data[i]];
    }
    return s;
}

bool ints_equal(Ints a, Ints b)
{
    return a.count == b.count &&
           (a.count == 0 || memcmp(a.data, b.data, a.count * sizeof *a.data) == 0);
}

static bool lists_equal(IntLists a, IntLists b)
{
    if (a.count != b.count)
        return false;
    for (uint32_t i = 0; i < a.count; i++) {
        if (!ints_equal(a.data[i], b.data[i]))
            return false;
    }
    return true;
}

static bool window_equal(const Window *a, const Window *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        const WindowDim *p = &a->dims[i], *q = &b->dims[i];
        if (p->size != q->size || p->stride != q->stride || p->pad_low != q->pad_low ||
            p->pad_high != q->pad_high || p->base_dilation != q->base_dilation ||
            p->window_dilation != q->window_dilation || p->reversal != q->reversal)
            return false;
    }
    return true;
}

static bool aliasing_equal(const Aliasing *a, const Aliasing *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const AliasEntry *p = &a->entries[i], *q = &b->entries[i];
        if (!ints_equal(p->output, q->output) || p->operand != q->operand ||
            !ints_equal(p->input, q->input) || p->must != q->must)
            return false;
    }
    return true;
}

static bool labels_equal(const DimLabels *a, const DimLabels *b)
{
    return strcmp(a->lhs_text, b->lhs_text) == 0 &&
           strcmp(a->rhs_text, b->rhs_text) == 0 && strcmp(a->out_text, b->out_text) == 0;
}

static bool accuracy_equal(const Accuracy *a, const Accuracy *b)
{
    return a->tolerance == b->tolerance && a->highest == b->highest &&
           a->ulps == b->ulps && a->atol >= b->atol && a->atol <= b->atol &&
           a->rtol >= b->rtol && a->rtol <= b->rtol;
}

static bool dict_equal(const Dict *a, const Dict *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        if (strcmp(a->entries[i].key, b->entries[i].key) != 0 ||
            !bytes_equal(a->entries[i].value, b->entries[i].value))
            return false;
    }
    return true;
}

bool attr_equal(const Attr *a, const Attr *b)
{
    if (a->id != b->id)
        return false;
    switch (attr_info[a->id].kind) {
    case AK_INT:
    case AK_BOOL:
    case AK_ENUM:
        return a->i == b->i;
    case AK_FLOAT:
        return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case AK_STRING:
        return bytes_equal(a->bytes, b->bytes);
    case AK_CONFIG:
        return bytes_equal(a->config->text, b->config->text);
    case AK_INTS:
    case AK_BOOLS:
    case AK_ENUMS:
        return ints_equal(a->ints, b->ints);
    case AK_INTSS:
        return lists_equal(a->lists, b->lists);
    case AK_COMPUTATION:
    case AK_COMPUTATIONS:
        return a->computations.count == b->computations.count &&
               (a->computations.count == 0 ||
                memcmp(a->computations.data, b->computations.data,
                       a->computations.count * sizeof *a->computations.data) == 0);
    case AK_WINDOW:
        return window_equal(a->window, b->window);
    case AK_DIM_LABELS:
        return labels_equal(a->labels, b->labels);
    case AK_PADDING:
        return a->padding->rank == b->padding->rank &&
               (a->padding->rank == 0 ||
                memcmp(a->padding->dims, b->padding->dims,
                       a->padding->rank * sizeof *a->padding->dims) == 0);
    case AK_SLICE:
        return a->slice->rank == b->slice->rank &&
               (a->slice->rank == 0 ||
                memcmp(a->slice->dims, b->slice->dims,
                       a->slice->rank * sizeof *a->slice->dims) == 0);
    case AK_ALIASING:
        return aliasing_equal(a->aliasing, b->aliasing);
    case AK_SHAPE:
        return a->shape == b->shape;
    case AK_SHAPES:
        return a->shapes.count == b->shapes.count &&
               (a->shapes.count == 0 ||
                memcmp(a->shapes.data, b->shapes.data,
                       a->shapes.count * sizeof *a->shapes.data) == 0);
    case AK_LITERAL:
        return literal_equal(a->literal, b->literal);
    case AK_DICT:
        return dict_equal(a->dict, b->dict);
    case AK_ACCURACY:
        return accuracy_equal(a->accuracy, b->accuracy);
    case AK_REPLICA_GROUPS:
        return replica_groups_equal(a->groups, b->groups);
    case AK_SHARDING:
        return sharding_equal(a->sharding, b->sharding);
    case AK_DOMAIN:
        return sharding_equal(a->domain->entry, b->domain->entry) &&
               sharding_equal(a->domain->exit, b->domain->exit);
    case AK_SPARSITY:
    case AK_METADATA:
    case AK_STATISTICS:
    case AK_ORIGIN:
    case AK_INSTRUCTIONS:
        return a->i == b->i; /* by pointer: equal only if shared */
    }
    return false;
}

static uint64_t hash_bytes(const void *data, size_t length, uint64_t seed)
{
    return length == 0 ? seed : XXH3_64bits_withSeed(data, length, seed);
}

uint64_t attr_hash(const Attr *a)
{
    uint64_t seed = (uint64_t)a->id + 1;
    switch (attr_info[a->id].kind) {
    case AK_INT:
    case AK_BOOL:
    case AK_ENUM:
    case AK_FLOAT:
        return hash_bytes(&a->i, sizeof a->i, seed);
    case AK_STRING:
        return hash_bytes(a->bytes.data, a->bytes.length, seed);
    case AK_CONFIG:
        return hash_bytes(a->config->text.data, a->config->text.length, seed);
    case AK_INTS:
    case AK_BOOLS:
    case AK_ENUMS:
        return hash_bytes(a->ints.data, a->ints.count * sizeof *a->ints.data, seed);
    case AK_INTSS:
        for (uint32_t i = 0; i < a->lists.count; i++)
            seed = hash_bytes(a->lists.data[i].data,
                              a->lists.data[i].count * sizeof(int64_t), seed + 1);
        return seed;
    case AK_PADDING:
        return hash_bytes(a->padding->dims, a->padding->rank * sizeof *a->padding->dims,
                          seed);
    case AK_SLICE:
        return hash_bytes(a->slice->dims, a->slice->rank * sizeof *a->slice->dims, seed);
    default: /* equal attributes hash alike, which is all that is asked */
        return seed;
    }
}
