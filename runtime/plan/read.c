/* Validating a plan: after plan_read() says yes, the rest of the runtime follows indices
 * without looking back. First the frame (header, table, hashes), then each table of records,
 * then the command tree. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/limits.h"
#include "runtime/plan/launch_limits.h"
#include "runtime/plan/read.h"

enum { MAX_SECTIONS = 1024, MAX_RANK = 64, MAX_TYPE_NAME = 31 };

bool plan_fail(PlanReader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->error, r->error_size, format, args);
    va_end(args);
    return false;
}

bool plan_lacked_memory(const char *error)
{
    return strncmp(error, PLAN_NO_MEMORY, strlen(PLAN_NO_MEMORY)) == 0;
}

bool plan_newer(PlanReader *r, const char *what, uint64_t value)
{
    return plan_fail(
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

static bool read_header(PlanReader *r, const void *bytes, size_t size, PlanHeader *header)
{
    if (size < sizeof *header) {
        return plan_fail(r, "the plan is cut off: %zu bytes", size);
    }
    if (size > UINT32_MAX) { /* records of all kinds are counted by 32 bits */
        return plan_fail(r, "the plan has %zu bytes, more than %u", size, UINT32_MAX);
    }
    memcpy(header, bytes, sizeof *header);
    if (memcmp(header->magic, PLAN_MAGIC, sizeof header->magic) != 0) {
        return plan_fail(r, "this is not a plan of gxc");
    }
    if (header->major < PLAN_MAJOR) {
        return plan_fail(r,
                         "the plan has format %u of an older gxc, this libgxrt reads %d",
                         header->major, PLAN_MAJOR);
    }
    if (header->major > PLAN_MAJOR) {
        return plan_newer(r, "format", header->major);
    }
    size_t table = header->section_count * sizeof(PlanSection);
    if (header->section_count > MAX_SECTIONS || size < sizeof *header + table) {
        return plan_fail(r, "the plan's section table is cut off or damaged");
    }
    unsigned char *copy = malloc(sizeof *header + table);
    if (!copy) {
        return plan_fail(r, PLAN_NO_MEMORY " to read the plan");
    }
    memcpy(copy, bytes, sizeof *header + table);
    memset(copy + offsetof(PlanHeader, hash), 0, sizeof header->hash);
    uint8_t hash[16];
    plan_hash(copy, sizeof *header + table, hash);
    free(copy);
    if (memcmp(hash, header->hash, sizeof hash) != 0) {
        return plan_fail(r, "the plan's header is damaged: its hash does not match");
    }
    if (header->total_bytes != size) {
        return plan_fail(r, "the plan has %zu bytes, its header says %llu", size,
                         (unsigned long long)header->total_bytes);
    }
    return true;
}

static bool read_section(PlanReader *r, const char *bytes, size_t size,
                         const PlanSection *s, uint64_t *end, unsigned char *seen)
{
    const char *name = s->id < PLAN_SECTION_COUNT ? section_names[s->id] : "?";
    if (s->offset < *end || s->offset % 16 != 0 || s->offset > size ||
        s->bytes > size - s->offset) {
        return plan_fail(r, "section %s of the plan overlaps another or lies outside",
                         name);
    }
    *end = s->offset + s->bytes;
    if (s->id >= PLAN_SECTION_COUNT) {
        return s->optional ? true : plan_newer(r, "section", s->id);
    }
    uint8_t hash[16];
    plan_hash(bytes + s->offset, s->bytes, hash);
    if (memcmp(hash, s->hash, sizeof hash) != 0) {
        return plan_fail(r, "section %s of the plan is damaged: its hash does not match",
                         name);
    }
    if (seen[s->id]++) {
        return plan_fail(r, "section %s of the plan is there twice", name);
    }
    size_t record = record_bytes[s->id];
    if (s->record_bytes != record || s->bytes % record != 0) {
        return plan_fail(r, "section %s of the plan has records of the wrong size", name);
    }
    set_section(r->p, s->id, bytes + s->offset, s->bytes / record);
    return true;
}

static bool read_frame(PlanReader *r, const void *bytes, size_t size)
{
    PlanHeader header;
    if (!read_header(r, bytes, size, &header)) {
        return false;
    }
    unsigned char seen[PLAN_SECTION_COUNT] = {0};
    for (uint32_t i = 0; i < PLAN_SECTION_COUNT; i++) { /* what is not there is empty */
        set_section(r->p, i, bytes, 0);
    }
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
        return plan_fail(r, "the plan's strings are not terminated");
    }
    if (p->info_count != 1 || p->streams_count == 0) {
        return plan_fail(r, "the plan lacks its info or its streams");
    }
    return true;
}

/* --- small checks ------------------------------------------------------------------------ */

static bool is_power_of_two(uint64_t n)
{
    return n && (n & (n - 1)) == 0;
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

static bool read_info(PlanReader *r)
{
    const Plan *p = r->p;
    const PlanInfo *info = p->info;
    if (!plan_is_string(r, info->module) || !plan_is_string(r, info->target) ||
        !plan_is_string(r, info->gxc_version) || !plan_is_string(r, info->llvm_version) ||
        !plan_is_string(r, info->assembler) || !plan_is_string(r, info->options)) {
        return plan_fail(r, "the plan's info names a string that is not there");
    }
    if (!p->strings[info->target] || info->sm < 10 || info->sm > 9999 ||
        (info->suffix != 0 && info->suffix != 'a' && info->suffix != 'f')) {
        return plan_fail(r, "the plan's target is damaged");
    }
    if (plan_multiply(info->replicas, info->partitions) == 0 ||
        plan_multiply(info->replicas, info->partitions) > MODULE_DEVICES_MOST) {
        return plan_fail(r, "the plan is for %u replicas and %u partitions",
                         info->replicas, info->partitions);
    }
    if (info->flags & ~(uint32_t)PLAN_INFO_FLAGS) {
        return plan_newer(r, "flags", info->flags);
    }
    if (info->signal_count > p->commands_count || info->async_count > p->commands_count ||
        info->counter_count > p->loops_count) {
        return plan_fail(r, "the plan counts more slots than commands");
    }
    for (uint32_t i = 0; i < p->streams_count; i++) {
        if (p->streams[i].kind >= PLAN_STREAM_KINDS) {
            return plan_newer(r, "a stream of kind", p->streams[i].kind);
        }
    }
    return true;
}

/* The caller's buffers are those of the arguments and results, and no more: an allocation of
 * that kind which no value lives in would be at no address. */
static bool is_lent(const Plan *p, const PlanAllocation *a, uint32_t index)
{
    bool is_argument = a->kind == PLAN_ARGUMENT;
    if (!is_argument && a->kind != PLAN_RESULT) {
        return true;
    }
    if (a->index >= (is_argument ? p->arguments_count : p->results_count)) {
        return false;
    }
    uint32_t slice = (is_argument ? p->arguments : p->results)[a->index].slice;
    return slice < p->slices_count && p->slices[slice].allocation == index;
}

static bool read_allocations(PlanReader *r)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < p->allocations_count; i++) {
        const PlanAllocation *a = &p->allocations[i];
        if (a->kind >= PLAN_ALLOCATION_KINDS || a->colour >= PLAN_COLOURS) {
            return plan_newer(r, "an allocation of kind",
                              a->kind >= PLAN_ALLOCATION_KINDS ? a->kind : a->colour);
        }
        if (!is_power_of_two(a->alignment) || a->alignment > (1u << 20) ||
            !plan_is_string(r, a->name) || a->bytes > (uint64_t)INT64_MAX) {
            return plan_fail(r, "allocation %u of the plan is damaged", i);
        }
        if (a->colour == PLAN_HOST_MEMORY && a->kind != PLAN_ARGUMENT &&
            a->kind != PLAN_RESULT && a->kind != PLAN_TEMP) {
            return plan_fail(r, "allocation %u of the plan cannot be memory of the host",
                             i);
        }
        if (a->kind == PLAN_CONSTANT &&
            (a->offset % PLAN_CONSTANT_ALIGNMENT != 0 ||
             plan_add(a->offset, a->bytes) > p->info->constant_bytes)) {
            return plan_fail(r, "constant %s of the plan lies outside .gxc.const",
                             plan_text(p, a->name));
        }
        if (!is_lent(p, a, i)) {
            return plan_fail(
                r, "allocation %u of the plan belongs to no argument or result", i);
        }
    }
    return true;
}

static bool read_slices(PlanReader *r)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < p->terms_count; i++) {
        const PlanTerm *t = &p->terms[i];
        if (t->counter >= p->info->counter_count || t->low > t->high ||
            !product_fits(t->low, t->stride) || !product_fits(t->high, t->stride)) {
            return plan_fail(r, "address term %u of the plan is damaged", i);
        }
    }
    for (uint32_t i = 0; i < p->slices_count; i++) {
        const PlanSlice *s = &p->slices[i];
        if (s->allocation >= p->allocations_count || s->term_count > MAX_RANK ||
            !plan_in_table(s->terms, s->term_count, p->terms_count) ||
            s->offset > (uint64_t)INT64_MAX >> 1) {
            return plan_fail(r, "slice %u of the plan is damaged", i);
        }
        int64_t low = (int64_t)s->offset;
        int64_t high = low;
        for (uint32_t j = 0; j < s->term_count; j++) {
            const PlanTerm *t = &p->terms[s->terms + j];
            int64_t a = t->low * t->stride;
            int64_t b = t->high * t->stride;
            low += a < b ? a : b; /* 64 terms of at most 2^55: far from overflow */
            high += a < b ? b : a;
        }
        if (low < 0 ||
            plan_add((uint64_t)high, s->bytes) > p->allocations[s->allocation].bytes) {
            return plan_fail(r, "slice %u of the plan leaves its allocation", i);
        }
    }
    return true;
}

/* Some characters, and not many: names of types are compared for each value. */
static bool is_type_name(const PlanReader *r, uint32_t string)
{
    return plan_is_string(r, string) && r->p->strings[string] &&
           strnlen(r->p->strings + string, MAX_TYPE_NAME + 1) <= MAX_TYPE_NAME;
}

static bool read_shape(PlanReader *r, const PlanValue *v)
{
    const Plan *p = r->p;
    if (!plan_is_string(r, v->name) || !is_type_name(r, v->dtype) || v->rank > MAX_RANK ||
        !plan_in_table(v->dims, 2 * v->rank, p->numbers_count) || v->element_bits == 0 ||
        v->element_bits > 128) {
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
        elements = plan_multiply(elements, (uint64_t)dims[i]);
    }
    uint64_t bits = plan_multiply(elements, v->element_bits);
    return bits != UINT64_MAX && v->bytes == bits / 8 + (bits % 8 != 0);
}

/* The other side of an alias must name this one. */
static bool alias_agrees(const PlanValue *v, uint32_t index, const PlanValue *others)
{
    return v->alias_kind != PLAN_ALIAS_NONE && v->alias_kind <= PLAN_ALIAS_MUST &&
           others[v->alias].alias == index &&
           others[v->alias].alias_kind == v->alias_kind &&
           others[v->alias].bytes == v->bytes;
}

/* Of value `index`, an argument or a result; `others`: the results, or the arguments. */
static bool read_alias(PlanReader *r, const char *what, uint32_t index,
                       const PlanValue *v, const PlanValue *others, uint32_t count)
{
    if (v->alias != PLAN_NONE && v->alias >= count) {
        return plan_fail(r, "%s %u of the plan has alias %u, there are %u", what, index,
                         v->alias, count);
    }
    bool agrees = v->alias == PLAN_NONE ? v->alias_kind == PLAN_ALIAS_NONE
                                        : alias_agrees(v, index, others);
    return agrees || plan_fail(r, "%s %u of the plan has an alias that does not agree",
                               what, index);
}

/* Slices lie in their allocations: one of all its bytes starts where it starts. */
static bool is_whole(const Plan *p, const PlanValue *v, uint32_t kind, uint32_t index)
{
    if (v->slice >= p->slices_count) {
        return false;
    }
    const PlanSlice *s = &p->slices[v->slice];
    const PlanAllocation *a = &p->allocations[s->allocation];
    return a->kind == kind && a->index == index && s->term_count == 0 &&
           s->bytes == a->bytes && a->bytes == v->bytes;
}

/* It is the size of a dimension of one of its like, or of none. */
static bool size_agrees(const PlanValue *v, const PlanValue *values, uint32_t count)
{
    return v->size_of == PLAN_NONE ||
           (v->size_of < count && v->size_dimension < values[v->size_of].rank);
}

static bool read_signature(PlanReader *r)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < p->arguments_count; i++) {
        const PlanValue *v = &p->arguments[i];
        if (!read_shape(r, v) || !is_whole(p, v, PLAN_ARGUMENT, i)) {
            return plan_fail(r, "argument %u of the plan is damaged", i);
        }
        if (!read_alias(r, "argument", i, v, p->results, p->results_count)) {
            return false;
        }
        if (!size_agrees(v, p->arguments, p->arguments_count)) {
            return plan_fail(r, "argument %u of the plan is the size of no dimension", i);
        }
    }
    for (uint32_t i = 0; i < p->results_count; i++) {
        const PlanValue *v = &p->results[i];
        bool aliased = v->alias != PLAN_NONE;
        if (!read_alias(r, "result", i, v, p->arguments, p->arguments_count)) {
            return false;
        }
        if (!size_agrees(v, p->results, p->results_count)) {
            return plan_fail(r, "result %u of the plan is the size of no dimension", i);
        }
        if (!read_shape(r, v) || !is_whole(p, v, aliased ? PLAN_ARGUMENT : PLAN_RESULT,
                                           aliased ? v->alias : i)) {
            return plan_fail(r, "result %u of the plan is damaged", i);
        }
    }
    return true;
}

static bool launch_fits(const PlanKernel *k)
{
    uint64_t cluster = 1;
    for (int i = 0; i < 3; i++) {
        if (k->cluster[i] == 0 || k->cluster[i] > LAUNCH_MAX_CLUSTER ||
            k->grid[i] % k->cluster[i] != 0) {
            return false;
        }
        cluster *= k->cluster[i];
    }
    return launch_sizes_fit(k->grid, k->block) && cluster <= LAUNCH_MAX_CLUSTER &&
           plan_add(k->shared_bytes, k->static_shared_bytes) <= LAUNCH_MAX_SHARED;
}

static bool read_kernels(PlanReader *r)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < p->kernels_count; i++) {
        const PlanKernel *k = &p->kernels[i];
        if (!plan_is_string(r, k->name) || !p->strings[k->name] ||
            k->parameter_count > 4096) {
            return plan_fail(r, "kernel %u of the plan is damaged", i);
        }
        if (k->flags & ~(uint32_t)PLAN_KERNEL_FLAGS) {
            return plan_newer(r, "a kernel with flags", k->flags);
        }
        if (!launch_fits(k)) {
            return plan_fail(r, "kernel %s of the plan is beyond the limits of a launch",
                             plan_text(p, k->name));
        }
    }
    return true;
}

static bool read_images(PlanReader *r)
{
    const Plan *p = r->p;
    uint32_t texts = 0;
    for (uint32_t i = 0; i < p->images_count; i++) {
        const PlanImage *m = &p->images[i];
        const uint32_t grid[] = {m->blocks, 1, 1};
        const uint32_t block[] = {1, 1, 1};
        texts += m->kind == PLAN_IMAGE_PTX;
        if (texts > 1) {
            return plan_fail(r, "the plan has more than one image of PTX");
        }
        if (m->kind >= PLAN_IMAGE_KINDS) {
            return plan_newer(r, "an image of kind", m->kind);
        }
        bool is_sound = m->kind == PLAN_IMAGE_PTX ? m->kernel == PLAN_NONE
                                                  : m->kernel < p->kernels_count &&
                                                        launch_sizes_fit(grid, block);
        if (!is_sound) {
            return plan_fail(r, "image %u of the plan is damaged", i);
        }
    }
    return true;
}

/* Devices of all groups: in range, none twice. seen[device]: the last clique that had it, plus
 * one. */
static bool read_groups(const Plan *p, uint32_t clique, uint32_t *seen,
                        PlanGroupSizes *sizes)
{
    const PlanClique *c = &p->cliques[clique];
    uint64_t devices = (uint64_t)p->info->replicas * p->info->partitions;
    const int64_t *numbers = p->numbers + c->groups;
    *sizes = c->number_count - c->group_count < devices ? (PlanGroupSizes){1, 1}
                                                        : (PlanGroupSizes){UINT64_MAX, 0};
    uint32_t at = 0;
    for (uint32_t g = 0; g < c->group_count; g++) {
        if (at >= c->number_count || numbers[at] < 0 ||
            numbers[at] > (int64_t)(c->number_count - at - 1)) {
            return false;
        }
        uint64_t size = (uint64_t)numbers[at];
        sizes->least = size != 0 && size < sizes->least ? size : sizes->least;
        sizes->most = size > sizes->most ? size : sizes->most;
        uint32_t end = at + 1 + (uint32_t)size;
        for (at++; at < end; at++) {
            if (numbers[at] < 0 || numbers[at] >= (int64_t)devices ||
                seen[numbers[at]] == clique + 1) {
                return false;
            }
            seen[numbers[at]] = clique + 1;
        }
    }
    return at == c->number_count;
}

static bool read_cliques(PlanReader *r)
{
    const Plan *p = r->p;
    size_t devices = (size_t)p->info->replicas * p->info->partitions;
    uint32_t *seen = calloc(devices, sizeof *seen);
    r->sizes = calloc((size_t)p->cliques_count + 1, sizeof *r->sizes);
    if (!seen || !r->sizes) {
        free(seen);
        return plan_fail(r, PLAN_NO_MEMORY " to read the plan");
    }
    for (uint32_t i = 0; i < p->cliques_count; i++) {
        const PlanClique *c = &p->cliques[i];
        if (!plan_is_string(r, c->name) || c->mode >= PLAN_GROUP_MODES ||
            !plan_in_table(c->groups, c->number_count, p->numbers_count) ||
            !read_groups(p, i, seen, &r->sizes[i])) {
            free(seen);
            return plan_fail(r, "clique %u of the plan is damaged", i);
        }
        if (!plan_take(&r->taken->numbers, c->number_count, p->numbers_count)) {
            free(seen);
            return plan_fail(r, "clique %u of the plan shares its groups", i);
        }
    }
    free(seen);
    return true;
}

static bool read_collectives(PlanReader *r)
{
    const Plan *p = r->p;
    int64_t devices = (int64_t)p->info->replicas * p->info->partitions;
    for (uint32_t i = 0; i < p->collectives_count; i++) {
        const PlanCollective *c = &p->collectives[i];
        if (c->kind >= PLAN_COLLECTIVE_KINDS || c->reduction >= PLAN_REDUCTIONS ||
            c->flags > (PLAN_COLLECTIVE_TUPLE | PLAN_COLLECTIVE_JOINED)) {
            return plan_newer(r, "a collective of kind, reduction or flags",
                              c->kind >= PLAN_COLLECTIVE_KINDS  ? c->kind
                              : c->reduction >= PLAN_REDUCTIONS ? c->reduction
                                                                : c->flags);
        }
        if (!plan_is_string(r, c->dtype) || c->clique >= p->cliques_count ||
            !plan_in_table(c->pairs, 2 * (uint64_t)c->pair_count, p->numbers_count)) {
            return plan_fail(r, "collective %u of the plan is damaged", i);
        }
        if (!plan_take(&r->taken->numbers, 2 * (uint64_t)c->pair_count,
                       p->numbers_count)) {
            return plan_fail(r, "collective %u of the plan shares its pairs", i);
        }
        for (uint32_t j = 0; j < 2 * c->pair_count; j++) {
            if (p->numbers[c->pairs + j] < 0 || p->numbers[c->pairs + j] >= devices) {
                return plan_fail(
                    r, "collective %u of the plan names a device that is not there", i);
            }
        }
    }
    for (uint32_t i = 0; i < p->loops_count; i++) {
        const PlanLoop *l = &p->loops[i];
        if (l->trip_count < -1 ||
            (l->counter != PLAN_NONE && l->counter >= p->info->counter_count)) {
            return plan_fail(r, "loop %u of the plan is damaged", i);
        }
    }
    return true;
}

static bool read_all(PlanReader *r, const void *bytes, size_t size)
{
    if (!read_frame(r, bytes, size) || !read_info(r) || !read_allocations(r) ||
        !read_slices(r) || !read_signature(r) || !read_kernels(r) || !read_images(r) ||
        !plan_read_matmuls(r) || !plan_read_algorithms(r) || !plan_read_graphs(r) ||
        !plan_read_choices(r) || !plan_read_solvers(r) || !read_cliques(r) ||
        !read_collectives(r) || !plan_read_description(r)) {
        return false;
    }
    r->signalled = calloc((size_t)r->p->info->signal_count + 1, 1);
    r->started = calloc((size_t)r->p->info->async_count + 1, 1);
    return r->signalled && r->started ? plan_read_commands(r) && plan_read_tunables(r)
                                      : plan_fail(r, PLAN_NO_MEMORY " to read the plan");
}

bool plan_read(Plan *out, const void *bytes, size_t size, char *error, size_t error_size)
{
    memset(out, 0, sizeof *out);
    out->bytes = bytes;
    out->size = size;
    struct PlanTaken taken = {0};
    PlanReader r = {.p = out, .error = error, .error_size = error_size, .taken = &taken};
    if ((uintptr_t)bytes % 8 != 0) {
        return plan_fail(&r, "the plan does not start at a multiple of 8 bytes");
    }
    bool ok = read_all(&r, bytes, size);
    free(r.sizes);
    free(r.signalled);
    free(r.started);
    return ok;
}
