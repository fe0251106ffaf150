/* Validating a plan: after plan_read() says yes, the rest of the runtime follows indices
 * without looking back. First the frame (header, table, hashes), then each table of records,
 * then the command tree. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/plan.h"

enum {
    MAX_SECTIONS = 1024,
    MAX_DEVICES = 1 << 20,
    MAX_RANK = 64,
    MAX_DEPTH = PLAN_MAX_DEPTH,
    MAX_SHARED = 232448, /* opt-in limit of the largest GPUs: 227 KiB */
    MAX_CLUSTER = 16
};

typedef struct Reader {
    Plan *p;
    char *error;
    size_t error_size;
    unsigned char *signalled; /* by slot, while walking the commands */
    unsigned char *started;   /* by async slot */
} Reader;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static bool
fail(Reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->error, r->error_size, format, args);
    va_end(args);
    return false;
}

static bool newer(Reader *r, const char *what, uint64_t value)
{
    return fail(
        r, "the plan has %s %llu: it needs a newer libgxrt (this one knows plans %d.%d)",
        what, (unsigned long long)value, PLAN_MAJOR, PLAN_MINOR);
}

/* --- the frame --------------------------------------------------------------------------- */

static const char *const section_names[] = {
#define PLAN_SECTION(id, name, Record) #name,
    PLAN_SECTIONS(PLAN_SECTION)
#undef PLAN_SECTION
};

static const size_t record_bytes[] = {
#define PLAN_SECTION(id, name, Record) sizeof(Record),
    PLAN_SECTIONS(PLAN_SECTION)
#undef PLAN_SECTION
};

static void set_section(Plan *p, uint32_t id, const void *data, uint64_t count)
{
    switch (id) {
#define PLAN_SECTION(section, name, Record)                                              \
    case PLAN_SECTION_##section:                                                         \
        p->name = data;                                                                  \
        p->name##_count = (uint32_t)count;                                               \
        break;
        PLAN_SECTIONS(PLAN_SECTION)
#undef PLAN_SECTION
    }
}

static bool read_header(Reader *r, const void *bytes, size_t size, PlanHeader *header)
{
    if (size < sizeof *header) {
        return fail(r, "the plan is cut off: %zu bytes", size);
    }
    memcpy(header, bytes, sizeof *header);
    if (memcmp(header->magic, PLAN_MAGIC, sizeof header->magic) != 0) {
        return fail(r, "this is not a plan of gxc");
    }
    if (header->major != PLAN_MAJOR) {
        return newer(r, "format", header->major);
    }
    size_t table = header->section_count * sizeof(PlanSection);
    if (header->section_count > MAX_SECTIONS || size < sizeof *header + table) {
        return fail(r, "the plan's section table is cut off or damaged");
    }
    unsigned char *copy = malloc(sizeof *header + table);
    if (!copy) {
        return fail(r, "no memory to read the plan");
    }
    memcpy(copy, bytes, sizeof *header + table);
    memset(copy + offsetof(PlanHeader, hash), 0, sizeof header->hash);
    uint8_t hash[16];
    plan_hash(copy, sizeof *header + table, hash);
    free(copy);
    if (memcmp(hash, header->hash, sizeof hash) != 0) {
        return fail(r, "the plan's header is damaged: its hash does not match");
    }
    if (header->total_bytes != size) {
        return fail(r, "the plan has %zu bytes, its header says %llu", size,
                    (unsigned long long)header->total_bytes);
    }
    return true;
}

static bool read_section(Reader *r, const char *bytes, size_t size, const PlanSection *s,
                         uint64_t *end, unsigned char *seen)
{
    const char *name = s->id < PLAN_SECTION_COUNT ? section_names[s->id] : "?";
    if (s->offset < *end || s->offset % 16 != 0 || s->offset > size ||
        s->bytes > size - s->offset) {
        return fail(r, "section %s of the plan overlaps another or lies outside", name);
    }
    *end = s->offset + s->bytes;
    if (s->id >= PLAN_SECTION_COUNT) {
        return s->optional ? true : newer(r, "section", s->id);
    }
    uint8_t hash[16];
    plan_hash(bytes + s->offset, s->bytes, hash);
    if (memcmp(hash, s->hash, sizeof hash) != 0) {
        return fail(r, "section %s of the plan is damaged: its hash does not match",
                    name);
    }
    if (seen[s->id]++) {
        return fail(r, "section %s of the plan is there twice", name);
    }
    size_t record = record_bytes[s->id];
    if (s->record_bytes != record || s->bytes % record != 0 ||
        s->bytes / record >= PLAN_NONE) {
        return fail(r, "section %s of the plan has records of the wrong size", name);
    }
    set_section(r->p, s->id, bytes + s->offset, s->bytes / record);
    return true;
}

static bool read_frame(Reader *r, const void *bytes, size_t size)
{
    PlanHeader header;
    if (!read_header(r, bytes, size, &header)) {
        return false;
    }
    unsigned char seen[PLAN_SECTION_COUNT] = {0};
    uint64_t end = sizeof header + header.section_count * sizeof(PlanSection);
    for (uint32_t i = 0; i < header.section_count; i++) {
        PlanSection s;
        memcpy(&s, (const char *)bytes + sizeof header + i * sizeof s, sizeof s);
        if (!read_section(r, bytes, size, &s, &end, seen)) {
            return false;
        }
    }
    const Plan *p = r->p;
    if (p->strings_count == 0 || p->strings[0] || p->strings[p->strings_count - 1]) {
        return fail(r, "the plan's strings are not terminated");
    }
    if (p->info_count != 1 || p->streams_count == 0) {
        return fail(r, "the plan lacks its info or its streams");
    }
    return true;
}

/* --- small checks ------------------------------------------------------------------------ */

static bool in_table(uint64_t first, uint64_t count, uint64_t total)
{
    return first <= total && count <= total - first;
}

static bool is_string(const Reader *r, uint32_t offset)
{
    return offset < r->p->strings_count;
}

static bool is_power_of_two(uint64_t n)
{
    return n && (n & (n - 1)) == 0;
}

static uint64_t multiply(uint64_t a, uint64_t b) /* saturates */
{
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t add(uint64_t a, uint64_t b) /* saturates */
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static bool product_fits(int64_t a, int64_t b)
{
    if (a == INT64_MIN || b == INT64_MIN) {
        return false;
    }
    int64_t x = a < 0 ? -a : a;
    int64_t y = b < 0 ? -b : b;
    return x == 0 || y <= (INT64_MAX >> 8) / x;
}

/* --- tables ------------------------------------------------------------------------------ */

static bool read_info(Reader *r)
{
    const Plan *p = r->p;
    const PlanInfo *info = p->info;
    if (!is_string(r, info->module) || !is_string(r, info->target) ||
        !is_string(r, info->gxc_version) || !is_string(r, info->llvm_version) ||
        !is_string(r, info->assembler) || !is_string(r, info->options)) {
        return fail(r, "the plan's info names a string that is not there");
    }
    if (!p->strings[info->target] || info->sm < 10 || info->sm > 9999 ||
        (info->suffix != 0 && info->suffix != 'a' && info->suffix != 'f')) {
        return fail(r, "the plan's target is damaged");
    }
    if (multiply(info->replicas, info->partitions) == 0 ||
        multiply(info->replicas, info->partitions) > MAX_DEVICES) {
        return fail(r, "the plan is for %u replicas and %u partitions", info->replicas,
                    info->partitions);
    }
    if (info->signal_count > p->commands_count || info->async_count > p->commands_count ||
        info->counter_count > p->loops_count) {
        return fail(r, "the plan counts more slots than commands");
    }
    for (uint32_t i = 0; i < p->streams_count; i++) {
        if (p->streams[i].kind >= PLAN_STREAM_KINDS) {
            return newer(r, "a stream of kind", p->streams[i].kind);
        }
    }
    return true;
}

static bool read_allocations(Reader *r)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < p->allocations_count; i++) {
        const PlanAllocation *a = &p->allocations[i];
        if (a->kind >= PLAN_ALLOCATION_KINDS || a->colour > 1) {
            return newer(r, "an allocation of kind",
                         a->kind >= PLAN_ALLOCATION_KINDS ? a->kind : a->colour);
        }
        if (!is_power_of_two(a->alignment) || a->alignment > (1u << 20) ||
            !is_string(r, a->name) || a->bytes > (uint64_t)INT64_MAX) {
            return fail(r, "allocation %u of the plan is damaged", i);
        }
        if (a->kind == PLAN_CONSTANT &&
            (a->offset % PLAN_CONSTANT_ALIGNMENT != 0 ||
             add(a->offset, a->bytes) > p->info->constant_bytes)) {
            return fail(r, "constant %s of the plan lies outside .gxc.const",
                        plan_text(p, a->name));
        }
        if ((a->kind == PLAN_ARGUMENT && a->index >= p->arguments_count) ||
            (a->kind == PLAN_RESULT && a->index >= p->results_count)) {
            return fail(r, "allocation %u of the plan belongs to no argument or result",
                        i);
        }
    }
    return true;
}

static bool read_slices(Reader *r)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < p->terms_count; i++) {
        const PlanTerm *t = &p->terms[i];
        if (t->counter >= p->info->counter_count || t->low > t->high ||
            !product_fits(t->low, t->stride) || !product_fits(t->high, t->stride)) {
            return fail(r, "address term %u of the plan is damaged", i);
        }
    }
    for (uint32_t i = 0; i < p->slices_count; i++) {
        const PlanSlice *s = &p->slices[i];
        if (s->allocation >= p->allocations_count || s->term_count > MAX_RANK ||
            !in_table(s->terms, s->term_count, p->terms_count) ||
            s->offset > (uint64_t)INT64_MAX >> 1) {
            return fail(r, "slice %u of the plan is damaged", i);
        }
        int64_t low = (int64_t)s->offset;
        int64_t high = low;
        for (uint32_t j = 0; j < s->term_count; j++) {
            const PlanTerm *t = &p->terms[s->terms + j];
            int64_t a = t->low * t->stride;
            int64_t b = t->high * t->stride;
            low += a < b ? a : b;
            high += a < b ? b : a;
            if (low < 0 || high > INT64_MAX >> 1) {
                return fail(r, "slice %u of the plan leaves its allocation", i);
            }
        }
        if (add((uint64_t)high, s->bytes) > p->allocations[s->allocation].bytes) {
            return fail(r, "slice %u of the plan leaves its allocation", i);
        }
    }
    return true;
}

static bool read_shape(Reader *r, const PlanValue *v)
{
    const Plan *p = r->p;
    if (!is_string(r, v->name) || !is_string(r, v->dtype) || !p->strings[v->dtype] ||
        v->rank > MAX_RANK || !in_table(v->dims, 2 * v->rank, p->numbers_count) ||
        v->element_bits == 0 || v->element_bits > 128) {
        return false;
    }
    const int64_t *dims = p->numbers + v->dims;
    uint64_t elements = 1;
    uint64_t used = 0;
    for (uint32_t i = 0; i < v->rank; i++) {
        int64_t dimension = dims[v->rank + i];
        if (dims[i] < 0 || dimension < 0 || dimension >= (int64_t)v->rank ||
            used >> dimension & 1) {
            return false;
        }
        used |= UINT64_C(1) << dimension;
        elements = multiply(elements, (uint64_t)dims[i]);
    }
    uint64_t bits = multiply(elements, v->element_bits);
    return bits != UINT64_MAX && v->bytes == bits / 8 + (bits % 8 != 0);
}

/* One side of an alias: the other side must name this one. */
static bool alias_agrees(const PlanValue *v, uint32_t index, const PlanValue *others,
                         uint32_t count)
{
    if (v->alias == PLAN_NONE) {
        return v->alias_kind == PLAN_ALIAS_NONE;
    }
    return v->alias < count && v->alias_kind != PLAN_ALIAS_NONE &&
           v->alias_kind <= PLAN_ALIAS_MUST && others[v->alias].alias == index &&
           others[v->alias].alias_kind == v->alias_kind &&
           others[v->alias].bytes == v->bytes;
}

static bool is_whole(const Plan *p, const PlanValue *v, uint32_t kind, uint32_t index)
{
    if (v->slice >= p->slices_count) {
        return false;
    }
    const PlanSlice *s = &p->slices[v->slice];
    const PlanAllocation *a = &p->allocations[s->allocation];
    return a->kind == kind && a->index == index && s->offset == 0 && s->term_count == 0 &&
           s->bytes == a->bytes && a->bytes == v->bytes;
}

static bool read_signature(Reader *r)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < p->arguments_count; i++) {
        const PlanValue *v = &p->arguments[i];
        if (!read_shape(r, v) || !is_whole(p, v, PLAN_ARGUMENT, i)) {
            return fail(r, "argument %u of the plan is damaged", i);
        }
        if (!alias_agrees(v, i, p->results, p->results_count)) {
            return fail(r, "argument %u of the plan has an alias that does not agree", i);
        }
        if (v->size_of != PLAN_NONE &&
            (v->size_of >= p->arguments_count ||
             v->size_dimension >= p->arguments[v->size_of].rank)) {
            return fail(r, "argument %u of the plan is the size of no dimension", i);
        }
    }
    for (uint32_t i = 0; i < p->results_count; i++) {
        const PlanValue *v = &p->results[i];
        bool aliased = v->alias != PLAN_NONE;
        if (!alias_agrees(v, i, p->arguments, p->arguments_count)) {
            return fail(r, "result %u of the plan has an alias that does not agree", i);
        }
        if (!read_shape(r, v) || !is_whole(p, v, aliased ? PLAN_ARGUMENT : PLAN_RESULT,
                                           aliased ? v->alias : i)) {
            return fail(r, "result %u of the plan is damaged", i);
        }
    }
    return true;
}

static bool launch_fits(const PlanKernel *k)
{
    static const uint32_t grid_limit[3] = {INT32_MAX, 65535, 65535};
    static const uint32_t block_limit[3] = {1024, 1024, 64};
    uint64_t threads = 1;
    uint64_t cluster = 1;
    for (int i = 0; i < 3; i++) {
        if (k->grid[i] == 0 || k->grid[i] > grid_limit[i] || k->block[i] == 0 ||
            k->block[i] > block_limit[i] || k->cluster[i] == 0 ||
            k->cluster[i] > MAX_CLUSTER || k->grid[i] % k->cluster[i] != 0) {
            return false;
        }
        threads *= k->block[i];
        cluster *= k->cluster[i];
    }
    return threads <= 1024 && cluster <= MAX_CLUSTER &&
           add(k->shared_bytes, k->static_shared_bytes) <= MAX_SHARED;
}

static bool read_kernels(Reader *r)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < p->kernels_count; i++) {
        const PlanKernel *k = &p->kernels[i];
        if (!is_string(r, k->name) || !p->strings[k->name] || k->parameter_count > 4096 ||
            !in_table(k->sites, k->site_count, p->refs_count)) {
            return fail(r, "kernel %u of the plan is damaged", i);
        }
        if (k->flags & ~(uint32_t)PLAN_KERNEL_FLAGS) {
            return newer(r, "a kernel with flags", k->flags);
        }
        if (!launch_fits(k)) {
            return fail(r, "kernel %s of the plan is beyond the limits of a launch",
                        plan_text(p, k->name));
        }
        for (uint32_t j = 0; j < k->site_count; j++) {
            if (!is_string(r, p->refs[k->sites + j])) {
                return fail(r, "kernel %s of the plan has a damaged site",
                            plan_text(p, k->name));
            }
        }
    }
    for (uint32_t i = 0; i < p->tensor_maps_count; i++) {
        const PlanTensorMap *t = &p->tensor_maps[i];
        if (t->slice >= p->slices_count || t->rank < 1 || t->rank > 5 ||
            !in_table(t->numbers, 4 * t->rank - 1, p->numbers_count)) {
            return fail(r, "tensor map %u of the plan is damaged", i);
        }
    }
    return true;
}

/* Devices of all groups: in range, none twice. */
static bool read_groups(const Plan *p, const PlanClique *c, unsigned char *seen)
{
    uint64_t devices = (uint64_t)p->info->replicas * p->info->partitions;
    const int64_t *numbers = p->numbers + c->groups;
    memset(seen, 0, devices);
    uint32_t at = 0;
    for (uint32_t g = 0; g < c->group_count; g++) {
        if (at >= c->number_count || numbers[at] < 0 ||
            numbers[at] > (int64_t)(c->number_count - at - 1)) {
            return false;
        }
        uint32_t end = at + 1 + (uint32_t)numbers[at];
        for (at++; at < end; at++) {
            if (numbers[at] < 0 || numbers[at] >= (int64_t)devices ||
                seen[numbers[at]]++) {
                return false;
            }
        }
    }
    return at == c->number_count;
}

static bool read_cliques(Reader *r)
{
    const Plan *p = r->p;
    unsigned char *seen = calloc((size_t)p->info->replicas * p->info->partitions, 1);
    if (!seen) {
        return fail(r, "no memory to read the plan");
    }
    for (uint32_t i = 0; i < p->cliques_count; i++) {
        const PlanClique *c = &p->cliques[i];
        if (!is_string(r, c->name) || c->mode >= PLAN_GROUP_MODES ||
            c->communication > 1 ||
            !in_table(c->groups, c->number_count, p->numbers_count) ||
            !read_groups(p, c, seen)) {
            free(seen);
            return fail(r, "clique %u of the plan is damaged", i);
        }
    }
    free(seen);
    return true;
}

static bool read_collectives(Reader *r)
{
    const Plan *p = r->p;
    int64_t devices = (int64_t)p->info->replicas * p->info->partitions;
    for (uint32_t i = 0; i < p->collectives_count; i++) {
        const PlanCollective *c = &p->collectives[i];
        if (c->kind >= PLAN_COLLECTIVE_KINDS || c->reduction >= PLAN_REDUCTIONS ||
            c->flags > PLAN_COLLECTIVE_TUPLE) {
            return newer(r, "a collective of kind", c->kind);
        }
        if (!is_string(r, c->dtype) || c->clique >= p->cliques_count ||
            !in_table(c->pairs, 2 * (uint64_t)c->pair_count, p->numbers_count)) {
            return fail(r, "collective %u of the plan is damaged", i);
        }
        for (uint32_t j = 0; j < 2 * c->pair_count; j++) {
            if (p->numbers[c->pairs + j] < 0 || p->numbers[c->pairs + j] >= devices) {
                return fail(
                    r, "collective %u of the plan names a device that is not there", i);
            }
        }
    }
    for (uint32_t i = 0; i < p->loops_count; i++) {
        const PlanLoop *l = &p->loops[i];
        if (l->trip_count < -1 ||
            (l->counter != PLAN_NONE && l->counter >= p->info->counter_count)) {
            return fail(r, "loop %u of the plan is damaged", i);
        }
    }
    return true;
}

/* --- commands ---------------------------------------------------------------------------- */

static const PlanSlice *slice_of(const Plan *p, const PlanArg *a)
{
    return &p->slices[a->index];
}

static bool is_slice(const PlanArg *a, uint16_t access)
{
    return a->tag == PLAN_ARG_SLICE && (a->access & access) == access;
}

/* Nothing may write a constant, or an argument that its owner keeps. */
static bool may_write(const Plan *p, uint32_t slice)
{
    const PlanAllocation *a = &p->allocations[p->slices[slice].allocation];
    if (a->kind == PLAN_CONSTANT) {
        return p->slices[slice].bytes == 0;
    }
    if (a->kind == PLAN_ARGUMENT) {
        const PlanValue *v = &p->arguments[a->index];
        return v->donated || v->alias != PLAN_NONE;
    }
    return true;
}

static bool read_arg(Reader *r, const PlanArg *a)
{
    const Plan *p = r->p;
    switch (a->tag) {
    case PLAN_ARG_NONE:
    case PLAN_ARG_IMMEDIATE:
    case PLAN_ARG_PARTITION:
    case PLAN_ARG_REPLICA:
        return true;
    case PLAN_ARG_SLICE:
        return (a->index < p->slices_count && a->access <= 3 &&
                (!(a->access & PLAN_WRITE) || may_write(p, a->index))) ||
               fail(r, "a slice that is not there, or may not be written");
    case PLAN_ARG_TENSOR_MAP:
        return (a->index < p->tensor_maps_count && a->access <= 3 &&
                (!(a->access & PLAN_WRITE) ||
                 may_write(p, p->tensor_maps[a->index].slice))) ||
               fail(r, "a tensor map that is not there, or may not be written");
    case PLAN_ARG_COUNTER:
        return a->index < p->terms_count || fail(r, "a term that is not there");
    default:
        return newer(r, "an argument tag", a->tag);
    }
}

static uint64_t type_bits(uint32_t type)
{
    switch (type) {
    case 0:  /* CUDA_R_32F */
    case 10: /* CUDA_R_32I */
        return 32;
    case 1: /* CUDA_R_64F */
    case 4: /* CUDA_C_32F */
        return 64;
    case 5: /* CUDA_C_64F */
        return 128;
    case 2:  /* CUDA_R_16F */
    case 14: /* CUDA_R_16BF */
        return 16;
    case 33: /* CUDA_R_4F_E2M1 */
        return 4;
    default:
        return 8;
    }
}

static bool matrix_fits(const Plan *p, const PlanMatrix *m, const PlanArg *a,
                        uint32_t batch)
{
    if (m->ld < 0 || m->batch_stride < 0 || m->order > 1 || m->transpose > 2 ||
        batch == 0) {
        return false;
    }
    uint64_t inner = m->order ? m->columns : m->rows;
    uint64_t outer = m->order ? m->rows : m->columns;
    if (inner == 0 || outer == 0 || (uint64_t)m->ld < inner) {
        return false;
    }
    uint64_t elements = add(add(multiply(outer - 1, (uint64_t)m->ld), inner),
                            multiply(batch - 1, (uint64_t)m->batch_stride));
    return multiply(elements, type_bits(m->type)) / 8 <= slice_of(p, a)->bytes;
}

static bool read_matmul(Reader *r, const PlanCommand *c, const PlanArg *args)
{
    const Plan *p = r->p;
    if (c->index >= p->matmuls_count || c->arg_count != PLAN_MATMUL_ARGS ||
        !is_slice(&args[PLAN_MATMUL_A], PLAN_READ) ||
        !is_slice(&args[PLAN_MATMUL_B], PLAN_READ) ||
        !is_slice(&args[PLAN_MATMUL_D], PLAN_WRITE)) {
        return fail(r, "a matrix product without its operands");
    }
    for (int i = 0; i < PLAN_MATMUL_ARGS; i++) {
        if (args[i].tag != PLAN_ARG_NONE && args[i].tag != PLAN_ARG_SLICE) {
            return fail(r, "a matrix product with an operand that is no slice");
        }
    }
    const PlanMatmul *m = &p->matmuls[c->index];
    const PlanArg *in_c = &args[PLAN_MATMUL_C];
    if (!matrix_fits(p, &m->a, &args[PLAN_MATMUL_A], m->batch) ||
        !matrix_fits(p, &m->b, &args[PLAN_MATMUL_B], m->batch) ||
        !matrix_fits(p, &m->d, &args[PLAN_MATMUL_D], m->batch) ||
        !matrix_fits(p, &m->c, in_c->tag ? in_c : &args[PLAN_MATMUL_D], m->batch)) {
        return fail(r, "a matrix product whose matrices leave their slices");
    }
    if (args[PLAN_MATMUL_WORKSPACE].tag
            ? slice_of(p, &args[PLAN_MATMUL_WORKSPACE])->bytes < m->workspace_bytes
            : m->workspace_bytes != 0) {
        return fail(r, "a matrix product without its workspace");
    }
    return true;
}

static bool read_collective(Reader *r, const PlanCommand *c, const PlanArg *args)
{
    const Plan *p = r->p;
    if (c->index >= p->collectives_count || c->arg_count % 2 != 0) {
        return fail(r, "a collective without its record or operands");
    }
    const PlanCollective *op = &p->collectives[c->index];
    if (op->dtypes != PLAN_NONE &&
        !in_table(op->dtypes, c->arg_count / 2, p->refs_count)) {
        return fail(r, "a collective without its types");
    }
    for (uint32_t i = 0; i < c->arg_count; i++) {
        if (args[i].tag != PLAN_ARG_SLICE && args[i].tag != PLAN_ARG_NONE) {
            return fail(r, "a collective with an operand that is no slice");
        }
        if (op->dtypes != PLAN_NONE && !is_string(r, p->refs[op->dtypes + i / 2])) {
            return fail(r, "a collective with a damaged type");
        }
    }
    return true;
}

static bool read_while(Reader *r, const PlanCommand *c, const PlanArg *args)
{
    const Plan *p = r->p;
    if (c->index >= p->loops_count) {
        return fail(r, "a loop without its record");
    }
    const PlanLoop *l = &p->loops[c->index];
    if (add(l->condition_commands, l->body_commands) != c->subtree - 1) {
        return fail(r, "a loop whose parts do not add up");
    }
    if (l->trip_count < 0 && (c->arg_count < 1 || !is_slice(&args[0], PLAN_READ) ||
                              slice_of(p, &args[0])->bytes != 1)) {
        return fail(r, "a loop without its predicate");
    }
    return true;
}

static bool read_conditional(Reader *r, const PlanCommand *c, const PlanArg *args)
{
    const Plan *p = r->p;
    if (c->arg_count < 1 || !is_slice(&args[0], PLAN_READ) || c->count == 0 ||
        !in_table(c->index, c->count, p->refs_count)) {
        return fail(r, "a conditional without its selector or branches");
    }
    uint64_t bytes = slice_of(p, &args[0])->bytes;
    if (bytes != 4 && !(bytes == 1 && c->count == 2)) {
        return fail(r, "a conditional whose selector is neither pred nor s32");
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        total += p->refs[c->index + i];
    }
    return total == c->subtree - 1 ||
           fail(r, "a conditional whose branches do not add up");
}

static bool read_fill(Reader *r, const PlanCommand *c, const PlanArg *args)
{
    if (c->arg_count != 2 || !is_slice(&args[0], PLAN_WRITE) ||
        (args[1].tag != PLAN_ARG_IMMEDIATE && args[1].tag != PLAN_ARG_PARTITION &&
         args[1].tag != PLAN_ARG_REPLICA) ||
        (c->count != 1 && c->count != 2 && c->count != 4) ||
        slice_of(r->p, &args[0])->bytes % c->count != 0) {
        return fail(r, "a fill without its destination or pattern");
    }
    return true;
}

static bool read_kind(Reader *r, const PlanCommand *c, const PlanArg *args)
{
    const Plan *p = r->p;
    switch ((PlanCommandKind)c->kind) {
    case PLAN_LAUNCH:
        return (c->index < p->kernels_count &&
                c->arg_count == p->kernels[c->index].parameter_count) ||
               fail(r, "a launch whose arguments do not fit its kernel");
    case PLAN_COPY:
        return (c->arg_count == 2 && is_slice(&args[0], PLAN_WRITE) &&
                is_slice(&args[1], PLAN_READ) &&
                slice_of(p, &args[0])->bytes == slice_of(p, &args[1])->bytes) ||
               fail(r, "a copy whose sides do not fit");
    case PLAN_FILL:
        return read_fill(r, c, args);
    case PLAN_MATMUL:
        return read_matmul(r, c, args);
    case PLAN_COLLECTIVE:
        return read_collective(r, c, args);
    case PLAN_WHILE:
        return read_while(r, c, args);
    case PLAN_CONDITIONAL:
        return read_conditional(r, c, args);
    case PLAN_CALL:
        return true;
    case PLAN_HOST_CALL:
        return (is_string(r, c->index) && p->strings[c->index]) ||
               fail(r, "a host call without a name");
    case PLAN_ASYNC_START:
        if (c->index >= p->info->async_count) {
            return fail(r, "an async slot that is not there");
        }
        r->started[c->index] = 1;
        return true;
    case PLAN_ASYNC_DONE:
        return (c->index < p->info->async_count && r->started[c->index]) ||
               fail(r, "an async done without its start");
    case PLAN_COMMAND_KINDS:
        break;
    }
    return newer(r, "a command of kind", c->kind);
}

static bool has_children(uint16_t kind)
{
    return kind == PLAN_WHILE || kind == PLAN_CONDITIONAL || kind == PLAN_CALL ||
           kind == PLAN_ASYNC_START;
}

static bool read_command(Reader *r, uint32_t i)
{
    const Plan *p = r->p;
    const PlanCommand *c = &p->commands[i];
    if (c->kind >= PLAN_COMMAND_KINDS) {
        return newer(r, "a command of kind", c->kind);
    }
    if (!is_string(r, c->name) || c->stream >= p->streams_count ||
        !in_table(c->waits, c->wait_count, p->refs_count) ||
        !in_table(c->args, c->arg_count, p->args_count) || c->subtree == 0 ||
        (c->subtree > 1 && !has_children(c->kind))) {
        return fail(r, "a damaged record");
    }
    for (uint32_t j = 0; j < c->wait_count; j++) {
        uint32_t slot = p->refs[c->waits + j];
        if (slot >= p->info->signal_count || !r->signalled[slot]) {
            return fail(r, "a wait for a signal that nobody gave");
        }
    }
    if (c->signal != PLAN_NONE) {
        if (c->signal >= p->info->signal_count) {
            return fail(r, "a signal slot that is not there");
        }
        r->signalled[c->signal] = 1;
    }
    const PlanArg *args = p->args + c->args;
    for (uint32_t j = 0; j < c->arg_count; j++) {
        if (!read_arg(r, &args[j])) {
            return false;
        }
    }
    return read_kind(r, c, args);
}

/* A command that is open: its current region (branch, condition or body) ends at `end`. */
typedef struct Open {
    uint32_t command;
    uint32_t region;
    uint32_t end;
} Open;

/* Every subtree ends where a region of its parent allows it to. */
static bool read_tree(Reader *r)
{
    const Plan *p = r->p;
    Open open[MAX_DEPTH];
    size_t depth = 0;
    for (uint32_t i = 0; i < p->commands_count; i++) {
        while (depth && open[depth - 1].end == i) {
            Open *o = &open[depth - 1];
            const PlanCommand *c = &p->commands[o->command];
            if (++o->region < plan_region_count(c)) {
                o->end += plan_region_size(p, c, o->region);
            } else {
                depth--;
            }
        }
        uint32_t limit = depth ? open[depth - 1].end : p->commands_count;
        const PlanCommand *c = &p->commands[i];
        char why[256];
        Reader inner = *r;
        inner.error = why;
        inner.error_size = sizeof why;
        if (!read_command(&inner, i)) {
            const char *name = c->name < p->strings_count ? plan_text(p, c->name) : "?";
            if (strstr(why, "newer libgxrt")) {
                return fail(r, "%s", why);
            }
            return fail(r, "command %u (%s) of the plan is damaged: %s", i, name, why);
        }
        if (c->subtree > limit - i) {
            return fail(r, "command %u (%s) of the plan leaves its parent", i,
                        plan_text(p, c->name));
        }
        if (c->subtree > 1) {
            if (depth == MAX_DEPTH) {
                return fail(r, "the plan's commands are nested more than %d deep",
                            MAX_DEPTH);
            }
            open[depth++] = (Open){i, 0, i + 1 + plan_region_size(p, c, 0)};
        }
    }
    return true;
}

bool plan_read(Plan *out, const void *bytes, size_t size, char *error, size_t error_size)
{
    memset(out, 0, sizeof *out);
    out->bytes = bytes;
    out->size = size;
    Reader r = {.p = out, .error = error, .error_size = error_size};
    if ((uintptr_t)bytes % 8 != 0) {
        return fail(&r, "the plan does not start at a multiple of 8 bytes");
    }
    if (!read_frame(&r, bytes, size) || !read_info(&r) || !read_allocations(&r) ||
        !read_slices(&r) || !read_signature(&r) || !read_kernels(&r) ||
        !read_cliques(&r) || !read_collectives(&r)) {
        return false;
    }
    r.signalled = calloc((size_t)out->info->signal_count + 1, 1);
    r.started = calloc((size_t)out->info->async_count + 1, 1);
    bool ok =
        r.signalled && r.started ? read_tree(&r) : fail(&r, "no memory to read the plan");
    free(r.signalled);
    free(r.started);
    return ok;
}
