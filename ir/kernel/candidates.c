/* See candidates.h. Each candidate is written down in a module of its own, as the passes would make it, and
 * asked for its time like any other kernel. */
#include "ir/kernel/candidates.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/attribute/config.h"
#include "ir/kernel/activation.h"
#include "ir/kernel/convolution.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/library.h"
#include "ir/kernel/matmul.h"
#include "ir/kernel/time/costs.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/print/print.h"

enum {
    DEPTH_MOST = 16, /* operations that make an operand */
    BEHIND_MOST = 24 /* a product, and operations on its result */
};

/* The product with what stands in its kernel. */
typedef struct Draft {
    Arena *arena;
    const Target *target;
    const KnownUses *uses;
    Computation *fused;
    const Instruction **sources; /* of its parameters */
    size_t source_capacity;
    uint32_t source_count;
    double made_bytes;    /* that kernels before and behind a library's call move */
    uint32_t made;        /* such kernels */
    double read_less;     /* bytes, by a kernel that makes its operands */
    double operand_bytes; /* of made_bytes: for operands */
    uint32_t operands_made;
} Draft;

static double bytes_of(const Shape *s)
{
    double n = 0;
    for (size_t leaf = 0; leaf < shape_leaf_count(s); leaf++)
        n += (double)shape_bytes(shape_leaf(s, leaf));
    return n;
}

static bool is_product(const Instruction *inst)
{
    return inst->op == OP_DOT || inst->op == OP_CONVOLUTION;
}

/* The product in a fusion, or the instruction itself; NULL: there is none, or several. */
static const Instruction *product_of(const Instruction *inst)
{
    if (inst->op != OP_FUSION)
        return is_product(inst) ? inst : NULL;
    const Instruction *dot = fusion_hero(inst, OP_DOT),
                      *convolution = fusion_hero(inst, OP_CONVOLUTION);
    return dot != NULL && convolution != NULL ? NULL : dot != NULL ? dot : convolution;
}

/* -- drafts ---------------------------------------------------------------------------------------- */

static Instruction *source_parameter(Draft *d, const Instruction *source)
{
    for (uint32_t i = 0; i < d->source_count; i++) {
        if (d->sources[i] == source)
            return d->fused->parameters[i];
    }
    d->sources = arena_grow(d->arena, d->sources, &d->source_capacity,
                            d->source_count + 1, sizeof *d->sources);
    d->sources[d->source_count++] = source;
    return computation_add_parameter(d->fused, d->source_count - 1, source->shape, NULL);
}

/* Fusion would take it into the kernel of the only one that reads it. */
static bool is_taken(const Draft *d, const Instruction *inst)
{
    return d->uses != NULL && inst->id < d->uses->count &&
           uses_only(&d->uses->uses, inst) != NULL && inst != inst->parent->root &&
           shape_is_array(inst->shape) && inst->operand_count != 0 &&
           inst->control_count == 0 &&
           (inst->op == OP_BROADCAST || inst->op == OP_RESHAPE ||
            inst->op == OP_BITCAST || inst->op == OP_TRANSPOSE ||
            (op_is(inst->op, OPF_ELEMENTWISE) && !op_is(inst->op, OPF_EXPENSIVE)));
}

/* Bytes of all that the operations which make it, and could be taken, read. */
static double source_bytes(const Draft *d, const Instruction *inst, int depth)
{
    if (inst->op == OP_CONSTANT && inst->shape->rank == 0)
        return 0;
    if (depth == DEPTH_MOST || !is_taken(d, inst))
        return bytes_of(inst->shape);
    double bytes = 0;
    for (uint32_t i = 0; i < inst->operand_count; i++)
        bytes += source_bytes(d, inst->operands[i], depth + 1);
    return bytes;
}

static Instruction *copied(Draft *d, const Instruction *inst, int depth)
{
    if (inst->op == OP_CONSTANT && inst->shape->rank == 0)
        return computation_add_constant(d->fused, inst->literal, NULL);
    if (depth == DEPTH_MOST || !is_taken(d, inst))
        return source_parameter(d, inst);
    Instruction **operands =
        ARENA_ARRAY(d->arena, Instruction *, (size_t)inst->operand_count);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        operands[i] = copied(d, inst->operands[i], depth + 1);
    return computation_add_like(d->fused, inst, inst->shape, inst->operand_count,
                                operands);
}

/* Whether what makes an operand of a plain product reads less than the operand has. */
static bool add_made(Draft *d, const Instruction *operand)
{
    double bytes = bytes_of(operand->shape), read = source_bytes(d, operand, 0);
    if (read >= bytes)
        return false;
    d->made++;
    d->made_bytes += read + bytes;
    d->operands_made++;
    d->operand_bytes += read + bytes;
    d->read_less += bytes - read;
    return true;
}

/* A product and elementwise operations on its result. */
typedef struct Behind {
    const Target *target;
    const Uses *users;
    const Instruction *list[BEHIND_MOST];
    uint32_t count;
} Behind;

static bool is_behind(const Behind *b, const Instruction *inst)
{
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->list[i] == inst)
            return true;
    }
    return false;
}

static bool may_be_behind(const Behind *b, const Instruction *user)
{
    return op_is(user->op, OPF_ELEMENTWISE) && shape_is_array(user->shape) &&
           shape_same_dims(user->shape, b->list[0]->shape) && user->control_count == 0 &&
           !is_behind(b, user);
}

/* Another user of those in the list; false: there is none, or no room. */
static bool add_behind(Behind *b)
{
    for (uint32_t i = 0; i < b->count && b->count < BEHIND_MOST; i++) {
        uint32_t id = b->list[i]->id;
        for (uint32_t k = b->users->start[id]; k < b->users->start[id + 1]; k++) {
            if (may_be_behind(b, b->users->list[k])) {
                b->list[b->count++] = b->users->list[k];
                return true;
            }
        }
    }
    return false;
}

/* The only one in the list that others read, or the root; NULL: there are several. */
static const Instruction *only_result(const Behind *b)
{
    const Instruction *result = NULL;
    for (uint32_t i = 0; i < b->count; i++) {
        const Instruction *inst = b->list[i];
        bool is_read = inst == inst->parent->root;
        for (uint32_t k = b->users->start[inst->id]; k < b->users->start[inst->id + 1];
             k++)
            is_read |= !is_behind(b, b->users->list[k]);
        if (is_read && result != NULL)
            return NULL;
        result = is_read ? inst : result;
    }
    return result;
}

/* No kernel that reads it could make it. */
static bool is_stored(const Uses *users, const Instruction *inst)
{
    if (inst == inst->parent->root)
        return true;
    for (uint32_t k = users->start[inst->id]; k < users->start[inst->id + 1]; k++) {
        const Instruction *user = users->list[k];
        if (user->op == OP_TUPLE || user->op == OP_WHILE || user->op == OP_CUSTOM_CALL ||
            is_product(user) || op_is(user->op, OPF_COLLECTIVE))
            return true;
    }
    return false;
}

/* Something is added that kernels make of arrays: libraries want it in memory. */
static bool adds_expression(const Behind *b, const Instruction *add)
{
    for (uint32_t i = 0; i < add->operand_count; i++) {
        const Instruction *x = add->operands[i];
        if (!is_behind(b, x) && x->op != OP_ADD && op_is(x->op, OPF_ELEMENTWISE))
            return true;
    }
    return false;
}

/* The product of a convolution with a vector along its features. */
static bool is_scaled(const Behind *b, const Instruction *multiply)
{
    for (uint32_t i = 0; i < 2; i++) {
        const Instruction *by = multiply->operands[!i];
        if (multiply->operands[i] == b->list[0] && by->op == OP_BROADCAST &&
            convolution_bias_fits(b->list[0], by))
            return true;
    }
    return false;
}

/* A product of f8 is multiplied with a number, or with one for each row where the library has that. */
static bool is_f8_scale(const Behind *b, const Instruction *multiply)
{
    for (uint32_t i = 0; i < 2; i++) {
        const Instruction *by = multiply->operands[i];
        if (!is_behind(b, by) && by->op == OP_BROADCAST &&
            by->operands[0]->shape->rank > 0)
            return target_has(b->target, FEATURE_F8_ROW_SCALES);
    }
    return true;
}

/* A step that the library compiles a kernel for, behind a convolution. */
static bool is_convolutions(const Behind *b, const Instruction *step,
                            const Instruction *result)
{
    return (step->op == OP_MULTIPLY && is_scaled(b, step)) ||
           (step == result && activation_of(result).activation == ACTIVATION_RELU);
}

/* A library adds sums itself, multiplies products of f8 with numbers and convolutions with vectors, and ends in relu or
 * gelu. */
static bool is_libraries(const Behind *b, const Instruction *result)
{
    if (b->list[0]->op == OP_DOT && activation_of(result).activation != ACTIVATION_NONE)
        return true;
    DType t = b->list[0]->operands[0]->shape->dtype;
    bool may_scale = dtype_is_float(t) && dtype_info[t].bits == 8;
    for (uint32_t i = 1; i < b->count; i++) {
        OpCode op = b->list[i]->op;
        if (b->target->compiles_graphs && b->list[0]->op == OP_CONVOLUTION &&
            is_convolutions(b, b->list[i], result))
            continue;
        if ((op != OP_ADD && op != OP_CONVERT &&
             !(may_scale && op == OP_MULTIPLY && is_f8_scale(b, b->list[i]))) ||
            (op == OP_ADD && adds_expression(b, b->list[i])))
            return false;
    }
    return true;
}

/* What is stored of the result, once elementwise operations have made something else of it, is written by the
 * product's own kernel, but takes another behind a library's call. */
static void add_behind_library(Draft *d, const Instruction *product)
{
    if (d->uses == NULL || product->id >= d->uses->count)
        return;
    const Uses *users = &d->uses->uses;
    Behind b = {.target = d->target, .users = users, .list = {product}, .count = 1};
    const Instruction *last = NULL;
    while (add_behind(&b)) {
        const Instruction *result = only_result(&b);
        if (result != NULL && !is_libraries(&b, result) && is_stored(users, result))
            last = result;
    }
    if (last == NULL)
        return;
    d->made++;
    d->made_bytes += bytes_of(product->shape) + bytes_of(last->shape);
}

/* Fusion leaves a convolution's operand in memory where its dimensions are joined from more. */
static bool is_joined(const Instruction *product, const Instruction *x)
{
    return product->op == OP_CONVOLUTION && x->op == OP_RESHAPE &&
           x->operands[0]->shape->rank > x->shape->rank;
}

/* Of a plain product. What makes an operand of less memory stands in its kernel; a library wants the operand
 * itself, which another kernel makes. */
static void draft_product(Draft *d, const Instruction *inst)
{
    Instruction *operands[2];
    for (uint32_t i = 0; i < 2; i++) {
        const Instruction *x = inst->operands[i];
        bool is_made = !is_joined(inst, x) && add_made(d, x);
        operands[i] = copied(d, x, is_made ? 0 : DEPTH_MOST);
    }
    d->fused->root = computation_add_like(d->fused, inst, inst->shape, 2, operands);
    add_behind_library(d, inst);
}

/* Of a fusion: what stands around the product would be kernels by themselves. */
static void draft_fusion(Draft *d, const Instruction *fusion)
{
    const Computation *comp = inst_called(fusion, 0);
    Instruction **copy =
        ARENA_ARRAY(d->arena, Instruction *, (size_t)comp->instruction_count + 1);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op == OP_PARAMETER) {
            copy[inst->id] = source_parameter(d, fusion->operands[inst->parameter]);
            continue;
        }
        Instruction **operands =
            ARENA_ARRAY(d->arena, Instruction *, (size_t)inst->operand_count + 1);
        for (uint32_t i = 0; i < inst->operand_count; i++)
            operands[i] = copy[inst->operands[i]->id];
        copy[inst->id] = computation_add_like(d->fused, inst, inst->shape,
                                              inst->operand_count, operands);
    }
    d->fused->root = copy[comp->root->id];
    const Instruction *hero = product_of(fusion);
    for (uint32_t i = 0; i < 2; i++) {
        if (hero->operands[i]->op == OP_PARAMETER)
            continue;
        d->made++;
        d->made_bytes += 2 * bytes_of(hero->operands[i]->shape);
    }
    if (hero != comp->root) {
        d->made++;
        d->made_bytes += bytes_of(hero->shape) + bytes_of(comp->root->shape);
    }
}

/* -- times ------------------------------------------------------------------------------------------- */

/* The fastest of each maker stays. */
static void add(Candidates *c, CandidateMaker maker, KernelKind kind, const char *name,
                double seconds)
{
    const Candidate *other = candidates_by(c, maker);
    if (other != NULL && other->seconds <= seconds)
        return;
    uint32_t at = other != NULL ? (uint32_t)(other - c->list) : c->count++;
    for (; at > 0 && c->list[at - 1].seconds > seconds; at--)
        c->list[at] = c->list[at - 1];
    c->list[at] = (Candidate){maker, name, kind, seconds};
}

static const char *library_name(const Instruction *product)
{
    return product->op == OP_DOT ? "cublaslt" : "cudnn";
}

/* The product by itself, and the kernels before and behind it. */
static bool library_seconds(const Draft *d, const Instruction *product, double *seconds)
{
    KernelTime call;
    if (!library_product_time(product, d->target->device, &call))
        return false;
    *seconds = call.seconds + d->made * costs.launch_seconds +
               cost_seconds_of_bytes(d->target->device, d->made_bytes);
    return true;
}

static Instruction *drafted_fusion(const Draft *d)
{
    Computation *entry = module_add_computation(d->fused->module, "main");
    Instruction **operands =
        ARENA_ARRAY(d->arena, Instruction *, (size_t)d->source_count + 1);
    for (uint32_t i = 0; i < d->source_count; i++)
        operands[i] = computation_add_parameter(entry, i, d->sources[i]->shape, NULL);
    Instruction *fusion = computation_add(entry, OP_FUSION, d->fused->root->shape,
                                          d->source_count, operands, NULL);
    inst_set_int(fusion, ATTR_KIND, FUSION_LOOP);
    inst_set_computation(fusion, ATTR_CALLS, d->fused);
    return fusion;
}

/* A kernel of a kind, and the same by CUDA Tile IR. */
static void add_kernel(const Instruction *fusion, KernelKind kind, CandidateMaker maker,
                       const Target *t, Arena *a, Candidates *out)
{
    KernelDesign design;
    KernelWork works[KERNEL_BACKENDS];
    bool has[KERNEL_BACKENDS];
    kernel_design(fusion, t, a, &design);
    if (design.wrong != NULL || design.unsupported != NULL)
        return;
    kernel_design_work(&design, works, has);
    add(out, maker, kind, kernel_kind_name(kind),
        kernel_time(&works[KERNEL_BACKEND_GX], t->device).seconds);
    if (has[KERNEL_BACKEND_TILEIR])
        add(out, CANDIDATE_TILEIR, kind, "tileir",
            kernel_time(&works[KERNEL_BACKEND_TILEIR], t->device).seconds);
}

/* By tensor cores where fusion would choose them or has, and without them, by tiles and element by element. */
static void add_kernels(const Draft *d, Instruction *fusion, KernelKind own,
                        Candidates *out)
{
    for (KernelKind kind = 0; kind < KERNEL_COUNT; kind++) {
        bool is_tile = kernel_kind_is(kind, KERNEL_ON_TENSOR_CORES);
        CandidateMaker maker = is_tile ? CANDIDATE_TILE : CANDIDATE_PLAIN;
        if (kernel_kind_is(kind, KERNEL_CONTRACTS | KERNEL_BY_ELEMENT) &&
            (!is_tile ||
             (candidates_by(out, maker) == NULL &&
              (own == kind || kernel_kind_choose(fusion, d->target) == kind)))) {
            kernel_kind_set(fusion, kind);
            add_kernel(fusion, kind, maker, d->target, d->arena, out);
        }
    }
}

/* -- what is known of equal ones ------------------------------------------------------------------- */

typedef struct Known {
    const char *key; /* what is drafted, and the kind that it has already */
    size_t length;
    uint64_t hash;
    Candidates kernels;
} Known;

struct CandidateMemo {
    Arena *arena;
    Known *list;
    size_t count, capacity;
};

CandidateMemo *candidate_memo_create(Arena *a)
{
    CandidateMemo *memo = ARENA_NEW(a, CandidateMemo);
    memo->arena = a;
    return memo;
}

size_t candidate_memo_count(const CandidateMemo *memo)
{
    return memo->count;
}

static Known key_of(const Draft *d, KernelKind own)
{
    Known k = {.key = ""};
    size_t length;
    const char *text = computation_print(d->arena, d->fused, PRINT_CANONICAL, &length);
    k.key = arena_printf(d->arena, "%d %.*s", (int)own, (int)length, text);
    k.length = strlen(k.key);
    k.hash = XXH3_64bits(k.key, k.length);
    return k;
}

static const Known *find_known(const CandidateMemo *memo, const Known *k)
{
    for (size_t i = 0; i < memo->count; i++) {
        const Known *have = &memo->list[i];
        if (have->hash == k->hash && have->length == k->length &&
            memcmp(have->key, k->key, k->length) == 0)
            return have;
    }
    return NULL;
}

/* Layers have the same products: the model is asked once for all of them. */
static void add_known_kernels(const Draft *d, Instruction *fusion, KernelKind own,
                              CandidateMemo *memo, Candidates *out)
{
    if (memo == NULL) {
        add_kernels(d, fusion, own, out);
        return;
    }
    Known k = key_of(d, own);
    const Known *known = find_known(memo, &k);
    if (known == NULL) {
        add_kernels(d, fusion, own, &k.kernels);
        k.key = arena_text(memo->arena, k.key, k.length);
        memo->list = arena_grow(memo->arena, memo->list, &memo->capacity, memo->count + 1,
                                sizeof *memo->list);
        memo->list[memo->count] = k;
        known = &memo->list[memo->count++];
    }
    for (uint32_t i = 0; i < known->kernels.count; i++) {
        const Candidate *c = &known->kernels.list[i];
        add(out, c->maker, c->kind, c->name, c->seconds);
    }
}

/* -- all -------------------------------------------------------------------------------------------- */

/* Of a kernel that no library makes: of several products, of a ragged one. */
static void find_backends(const Instruction *fusion, const Target *t, Candidates *out)
{
    Arena *a = arena_scratch();
    add_kernel(fusion, kernel_kind_of(fusion), CANDIDATE_TILE, t, a, out);
    arena_destroy(a);
}

static Draft draft_begin(Arena *a, const Target *t, const KnownUses *uses)
{
    Module *m = module_create(a, diag_create(a, "", "", 0), "candidates");
    Draft d = {.arena = a,
               .target = t,
               .uses = uses,
               .fused = module_add_computation(m, "fused")};
    d.fused->is_fused = true;
    return d;
}

/* Kernels that want images and filters in memory, where what makes one of them would be taken into other kernels: it is
 * a kernel then, as for a library. */
static void add_from_memory(const Draft *made, const Instruction *conv, Candidates *out)
{
    KernelWork works[KERNEL_BACKENDS];
    bool has[KERNEL_BACKENDS];
    KernelDesign design;
    Draft d = draft_begin(made->arena, made->target, NULL);
    draft_product(&d, conv);
    Instruction *fusion = drafted_fusion(&d);
    KernelKind kind = kernel_kind_choose(fusion, d.target);
    if (!kernel_kind_is(kind, KERNEL_AS_IMAGES))
        return;
    kernel_kind_set(fusion, kind);
    kernel_design(fusion, d.target, d.arena, &design);
    if (design.wrong != NULL || design.unsupported != NULL)
        return;
    kernel_design_work(&design, works, has);
    add(out, CANDIDATE_TILE, kind, kernel_kind_name(kind),
        kernel_time(&works[KERNEL_BACKEND_GX], d.target->device).seconds +
            made->operands_made * costs.launch_seconds +
            cost_seconds_of_bytes(d.target->device, made->operand_bytes));
}

void candidates_find(const Instruction *inst, const KnownUses *uses, const Target *t,
                     CandidateMemo *memo, Candidates *out)
{
    *out = (Candidates){.count = 0};
    const Instruction *product = product_of(inst);
    if (kernel_is(inst, KERNEL_ON_TENSOR_CORES) &&
        (!kernel_is(inst, KERNEL_CONTRACTS) || product == NULL)) {
        find_backends(inst, t, out);
        return;
    }
    if (product == NULL || product->operand_count != 2 ||
        shape_elements(product->shape) == 0)
        return;
    Arena *a = arena_scratch();
    Draft d = draft_begin(a, t, uses);
    if (inst->op == OP_FUSION)
        draft_fusion(&d, inst);
    else
        draft_product(&d, inst);
    Instruction *fusion = drafted_fusion(&d);
    KernelKind own = inst->op == OP_FUSION ? kernel_kind_of(inst) : KERNEL_COUNT;
    double seconds = library_time(inst, t->device).seconds;
    if (library_makes(inst) || library_seconds(&d, product, &seconds))
        add(out, CANDIDATE_LIBRARY, KERNEL_COUNT, library_name(product), seconds);
    add_known_kernels(&d, fusion, own, memo, out);
    if (inst->op == OP_CONVOLUTION && d.operands_made != 0)
        add_from_memory(&d, inst, out);
    arena_destroy(a);
}

bool candidates_worth_asking(const Instruction *product, const KnownUses *uses,
                             const Target *t, double gain)
{
    Draft d = {.target = t, .uses = uses};
    KernelTime call;
    if (product->operand_count != 2 || !library_product_time(product, t->device, &call))
        return false;
    for (uint32_t i = 0; i < 2; i++)
        add_made(&d, product->operands[i]);
    add_behind_library(&d, product);
    double seconds;
    library_seconds(&d, product, &seconds);
    DType type = product->operands[0]->shape->dtype;
    const GpuRates *rates = gpu_rates(t->device);
    double percent = t->has_tileir && rates->async_mma > rates->mma ? rates->async_mma
                                                                    : rates->mma,
           arithmetic = call.operations / (product_peak(type, t->device) * percent / 100);
    double memory = cost_seconds_of_bytes(t->device, call.bytes - d.read_less);
    double least = arithmetic > memory ? arithmetic : memory;
    return least + costs.launch_seconds < seconds * gain;
}

const Candidate *candidates_by(const Candidates *c, CandidateMaker maker)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->list[i].maker == maker)
            return &c->list[i];
    }
    return NULL;
}
