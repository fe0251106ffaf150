/* The graphs of a plan: what the ports of their operations are, reading, and printing. */
#include <inttypes.h>

#include "runtime/plan/read.h"

enum { GRAPH_MOST_SIZE = 1 << 30, GRAPH_MOST_ALIGNMENT = 256 };

/* --- tables ------------------------------------------------------------------------------- */

enum { READS = 0, WRITES = 1, OPTIONAL = 2, MAY_READ = OPTIONAL, MAY_WRITE = 3 };

static const PlanGraphPort ports[] = {
#define GRAPH(id, name) {name, false, false},
#define PORT(id, port, name, access)                                                     \
    {name, ((access)&WRITES) != 0, ((access)&OPTIONAL) != 0},
#include "runtime/plan/graph.def"
};

/* The rows of a kind stand behind the one with its name. */
enum {
#define GRAPH(id, name) ROW_##id,
#define PORT(id, port, name, access) ROW_##id##_##port,
#include "runtime/plan/graph.def"
    ROWS
};

static const unsigned char kind_rows[PLAN_GRAPH_KINDS + 1] = {
#define GRAPH(id, name) ROW_##id,
#include "runtime/plan/graph.def"
    ROWS};

const char *plan_graph_kind(uint32_t kind)
{
    return kind < PLAN_GRAPH_KINDS ? ports[kind_rows[kind]].name : "?";
}

const PlanGraphPort *plan_graph_port(uint32_t kind, uint32_t slot)
{
    uint32_t row = kind_rows[kind] + 1u + slot;
    return row < kind_rows[kind + 1] ? &ports[row] : NULL;
}

/* By cudnnDataType_t. */
static const struct {
    const char *name;
    uint32_t bits;
} types[] = {
#define DATA_TYPE(name, value, dtype, text, bits) [value] = {text, bits},
    CUDNN_DATA_TYPES(DATA_TYPE)
#undef DATA_TYPE
};

uint32_t plan_graph_type_bits(uint32_t type)
{
    return type < sizeof types / sizeof *types ? types[type].bits : 0;
}

/* Scales of blocks lie in tiles of 128 rows and 4 columns, of which none is left out. */
static uint64_t tiled_bytes(const PlanGraphTensor *t)
{
    uint32_t column = t->strides[t->rank - 1] == 1 ? t->rank - 1 : t->rank - 2;
    uint32_t row = column == t->rank - 1 ? t->rank - 2 : t->rank - 1;
    uint64_t bytes = plan_multiply(((uint64_t)t->dims[column] + 3) / 4 * 512,
                                   ((uint64_t)t->dims[row] + 127) / 128);
    for (uint32_t d = 0; d + 2 < t->rank; d++) {
        bytes = plan_multiply(bytes, (uint64_t)t->dims[d]);
    }
    return bytes;
}

uint64_t plan_graph_tensor_bytes(const PlanGraphTensor *t)
{
    uint64_t last = 0;
    if (t->reordering != CUDNN_TENSOR_REORDERING_NONE) {
        return tiled_bytes(t);
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        last = plan_add(last,
                        plan_multiply((uint64_t)t->dims[d] - 1, (uint64_t)t->strides[d]));
    }
    uint64_t bits = plan_multiply(plan_add(last, 1), plan_graph_type_bits(t->type));
    return bits == UINT64_MAX ? bits : bits / 8 + (bits % 8 != 0);
}

/* --- reading ------------------------------------------------------------------------------ */

static bool read_tensor(PlanReader *r, const PlanGraph *g, const PlanGraphTensor *t)
{
    if (plan_graph_type_bits(t->type) == 0) {
        return plan_newer(r, "a tensor of cuDNN type", t->type);
    }
    if (t->storage >= PLAN_GRAPH_STORAGES) {
        return plan_newer(r, "a tensor of a graph with storage", t->storage);
    }
    bool is_tiled = t->reordering == CUDNN_TENSOR_REORDERING_F8_128x4;
    if (!is_tiled && t->reordering != CUDNN_TENSOR_REORDERING_NONE) {
        return plan_newer(r, "a tensor of a graph with reordering", t->reordering);
    }
    bool fits = t->rank >= 1 && t->rank <= PLAN_GRAPH_RANK && t->alignment >= 1 &&
                t->alignment <= GRAPH_MOST_ALIGNMENT &&
                (t->alignment & (t->alignment - 1)) == 0 &&
                (!is_tiled || (t->rank >= 2 && t->storage == PLAN_GRAPH_STORED &&
                               plan_graph_type_bits(t->type) == 8));
    for (uint32_t d = 0; d < PLAN_GRAPH_RANK; d++) {
        fits = fits && (d < t->rank ? t->dims[d] >= 1 && t->dims[d] <= GRAPH_MOST_SIZE &&
                                          t->strides[d] >= 0
                                    : t->dims[d] == 0 && t->strides[d] == 0);
    }
    uint64_t bytes = fits ? plan_graph_tensor_bytes(t) : UINT64_MAX;
    if (t->storage == PLAN_GRAPH_SCALAR) {
        fits = fits && bytes <= sizeof t->value && t->dims[0] == 1;
    } else if (t->storage == PLAN_GRAPH_SCRATCH) {
        fits = fits && t->value % t->alignment == 0 &&
               plan_in_table(t->value, bytes, g->scratch_bytes);
    }
    return (fits && bytes != UINT64_MAX) ||
           plan_fail(r, "a tensor of a graph is damaged");
}

/* Each tensor is written once, before it is read; what is virtual or scratch, by the graph. */
static bool read_ports(PlanReader *r, const PlanGraph *g, const PlanGraphOperation *op,
                       unsigned char *written)
{
    const PlanGraphTensor *tensors = r->p->graph_tensors + g->tensors;
    for (uint32_t slot = 0; slot < PLAN_GRAPH_SLOTS; slot++) {
        const PlanGraphPort *port = plan_graph_port(op->kind, slot);
        uint32_t t = op->tensors[slot];
        if (t == PLAN_NONE && (port == NULL || port->is_optional)) {
            continue;
        }
        if (port == NULL || t >= g->tensor_count) {
            return plan_fail(r, "an operation of a graph lacks its tensor");
        }
        bool is_made = tensors[t].storage == PLAN_GRAPH_VIRTUAL ||
                       tensors[t].storage == PLAN_GRAPH_SCRATCH;
        if (port->writes ? written[t] || tensors[t].storage == PLAN_GRAPH_SCALAR
                         : is_made && !written[t]) {
            return plan_fail(r,
                             "an operation of a graph has a tensor of the wrong storage");
        }
        written[t] |= port->writes;
    }
    return true;
}

static const PlanGraphTensor *tensor_of(const Plan *p, const PlanGraph *g,
                                        const PlanGraphOperation *op, int slot)
{
    uint32_t t = op->tensors[slot];
    return t == PLAN_NONE ? NULL : &p->graph_tensors[g->tensors + t];
}

/* Padding, stride and dilation make y's sizes of x's and w's. The three kinds have the same slots. */
static bool convolution_fits(const PlanGraphTensor *x, const PlanGraphTensor *w,
                             const PlanGraphTensor *y, const int64_t *numbers)
{
    if (x->rank < 3 || w->rank != x->rank || y->rank != x->rank ||
        x->dims[0] != y->dims[0] || w->dims[0] != y->dims[1] ||
        x->dims[1] % w->dims[1] != 0 || y->dims[1] % (x->dims[1] / w->dims[1]) != 0) {
        return false;
    }
    for (uint32_t d = 0; d < 3; d++) {
        int64_t before = numbers[d], behind = numbers[3 + d], stride = numbers[6 + d];
        int64_t dilation = numbers[9 + d];
        if (d + 2 >= x->rank) {
            if (before != 0 || behind != 0 || stride != 0 || dilation != 0) {
                return false;
            }
            continue;
        }
        if (before < 0 || behind < 0 || before > GRAPH_MOST_SIZE ||
            behind > GRAPH_MOST_SIZE || stride < 1 || stride > GRAPH_MOST_SIZE ||
            dilation < 1 || dilation > GRAPH_MOST_SIZE) {
            return false;
        }
        int64_t span = x->dims[d + 2] + before + behind - (w->dims[d + 2] - 1) * dilation;
        if (span < 1 || (span - 1) / stride + 1 != y->dims[d + 2]) {
            return false;
        }
    }
    return true;
}

/* Sizes that an operation relies on. Those of attentions and norms cuDNN checks. */
static bool read_sizes(PlanReader *r, const PlanGraph *g, const PlanGraphOperation *op)
{
    const PlanGraphTensor *first = tensor_of(r->p, g, op, 0);
    const PlanGraphTensor *second = tensor_of(r->p, g, op, 1);
    const PlanGraphTensor *third = tensor_of(r->p, g, op, 2);
    bool fits = true;
    switch ((PlanGraphKind)op->kind) {
    case PLAN_GRAPH_CONVOLUTION_FORWARD:
    case PLAN_GRAPH_CONVOLUTION_DATA:
    case PLAN_GRAPH_CONVOLUTION_FILTER:
        fits = op->mode <= 1 && convolution_fits(first, second, third, op->numbers);
        break;
    case PLAN_GRAPH_DEQUANTIZE:
        fits = op->numbers[0] >= 1 && op->numbers[0] <= GRAPH_MOST_SIZE;
        break;
    case PLAN_GRAPH_POINTWISE:
    case PLAN_GRAPH_MATMUL:
    case PLAN_GRAPH_ATTENTION:
    case PLAN_GRAPH_ATTENTION_GRADIENT:
    case PLAN_GRAPH_NORM:
    case PLAN_GRAPH_NORM_GRADIENT:
    case PLAN_GRAPH_KINDS:
        break;
    }
    return fits || plan_fail(r, "the sizes of a graph's tensors do not fit each other");
}

static bool read_graph(PlanReader *r, const PlanGraph *g)
{
    const Plan *p = r->p;
    unsigned char written[PLAN_GRAPH_MOST_TENSORS] = {0};
    if (!plan_is_string(r, g->name) || g->tensor_count > PLAN_GRAPH_MOST_TENSORS ||
        g->operation_count == 0 || g->operation_count > PLAN_GRAPH_MOST_OPERATIONS ||
        !plan_in_table(g->tensors, g->tensor_count, p->graph_tensors_count) ||
        !plan_in_table(g->operations, g->operation_count, p->graph_operations_count) ||
        !plan_in_table(g->plan, g->plan_bytes, p->graph_plans_count) ||
        g->scratch_bytes > g->workspace_bytes) {
        return plan_fail(r, "a damaged record");
    }
    if (g->flags & ~(uint32_t)PLAN_GRAPH_FLAGS) {
        return plan_newer(r, "a graph with flags", g->flags);
    }
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        if (!read_tensor(r, g, &p->graph_tensors[g->tensors + i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < g->operation_count; i++) {
        const PlanGraphOperation *op = &p->graph_operations[g->operations + i];
        if (op->kind >= PLAN_GRAPH_KINDS) {
            return plan_newer(r, "a graph with an operation of kind", op->kind);
        }
        if (plan_graph_type_bits(op->compute) == 0) {
            return plan_newer(r, "a graph that computes in cuDNN type", op->compute);
        }
        if (!read_ports(r, g, op, written) || !read_sizes(r, g, op)) {
            return false;
        }
    }
    return true;
}

bool plan_read_choices(PlanReader *r)
{
    for (uint32_t i = 0; i < r->p->choices_count; i++) {
        if (r->p->choices[i].graph >= r->p->graphs_count) {
            return plan_fail(r, "choice %u of the plan is damaged", i);
        }
    }
    return true;
}

bool plan_read_graphs(PlanReader *r)
{
    for (uint32_t i = 0; i < r->p->graphs_count; i++) {
        if (!read_graph(r, &r->p->graphs[i])) {
            return false;
        }
    }
    return true;
}

static bool is_written(const Plan *p, const PlanGraph *g, uint32_t tensor)
{
    for (uint32_t i = 0; i < g->operation_count; i++) {
        const PlanGraphOperation *op = &p->graph_operations[g->operations + i];
        for (uint32_t slot = 0; slot < PLAN_GRAPH_SLOTS; slot++) {
            if (op->tensors[slot] == tensor && plan_graph_port(op->kind, slot)->writes) {
                return true;
            }
        }
    }
    return false;
}

/* Stored tensors lie in their slices; what is beyond its dimensions there is not touched. */
bool plan_read_graph(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    const Plan *p = r->p;
    if (c->index >= p->graphs_count) {
        return plan_fail(r, "a graph that is not there");
    }
    const PlanGraph *g = &p->graphs[c->index];
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        const PlanGraphTensor *t = &p->graph_tensors[g->tensors + i];
        if (t->storage != PLAN_GRAPH_STORED) {
            continue;
        }
        uint16_t access = is_written(p, g, i) ? PLAN_WRITE : PLAN_READ;
        if (n >= c->arg_count || !plan_is_slice(&args[n], access) ||
            plan_graph_tensor_bytes(t) > plan_slice_of(p, &args[n])->bytes) {
            return plan_fail(r, "a graph whose tensors leave their slices");
        }
        n++;
    }
    bool has_scratch = n < c->arg_count && args[n].tag == PLAN_ARG_SLICE;
    if (c->arg_count != n + 1 ||
        (has_scratch ? !plan_is_slice(&args[n], PLAN_WRITE) ||
                           plan_slice_of(p, &args[n])->bytes < g->workspace_bytes
                     : args[n].tag != PLAN_ARG_NONE || g->workspace_bytes != 0)) {
        return plan_fail(r, "a graph without its workspace");
    }
    return true;
}

/* --- printing ----------------------------------------------------------------------------- */

static void print_sizes(const int64_t *sizes, uint32_t count, FILE *out)
{
    for (uint32_t i = 0; i < count; i++) {
        fprintf(out, "%s%" PRId64, i ? "," : "", sizes[i]);
    }
}

static void print_tensor(const PlanGraphTensor *t, uint32_t number, FILE *out)
{
    static const char *const storages[] = {"stored", "virtual", "scalar", "scratch"};
    fprintf(out, "  t%u %s[", number, types[t->type].name);
    print_sizes(t->dims, t->rank, out);
    fprintf(out, "] strides=");
    print_sizes(t->strides, t->rank, out);
    fprintf(out, " %s", storages[t->storage]);
    if (t->storage == PLAN_GRAPH_SCALAR || t->storage == PLAN_GRAPH_SCRATCH) {
        fprintf(out, "=0x%" PRIx64, t->value);
    }
    if (t->reordering) {
        fprintf(out, " reordering=%u", t->reordering);
    }
    fprintf(out, " align=%u\n", t->alignment);
}

static void print_operation(const PlanGraphOperation *op, FILE *out)
{
    const char *comma = "";
    fprintf(out, "  %s(", plan_graph_kind(op->kind));
    for (uint32_t slot = 0; slot < PLAN_GRAPH_SLOTS; slot++) {
        if (op->tensors[slot] != PLAN_NONE) {
            fprintf(out, "%s%s=t%u", comma, plan_graph_port(op->kind, slot)->name,
                    op->tensors[slot] + 1);
            comma = ", ";
        }
    }
    fprintf(out, ") compute=%s mode=%u", types[op->compute].name, op->mode);
    uint32_t last = PLAN_GRAPH_NUMBERS;
    while (last > 0 && op->numbers[last - 1] == 0) {
        last--;
    }
    if (last > 0) {
        fprintf(out, " numbers=");
        print_sizes(op->numbers, last, out);
    }
    fprintf(out, "\n");
}

void plan_print_graph(const Plan *p, uint32_t i, FILE *out)
{
    const PlanGraph *g = &p->graphs[i];
    fprintf(out, "graph g%u configurations=%u workspace=%" PRIu64, i, g->configurations,
            g->workspace_bytes);
    if (g->plan_bytes) {
        fprintf(out, " plan=%" PRIu64 " of cudnn %u", g->plan_bytes, g->cudnn_version);
    }
    fprintf(out, "%s  ; %s\n", g->flags & PLAN_GRAPH_FULL_F32 ? " full-f32" : "",
            plan_text(p, g->name));
    for (uint32_t t = 0; t < g->tensor_count; t++) {
        print_tensor(&p->graph_tensors[g->tensors + t], t + 1, out);
    }
    for (uint32_t o = 0; o < g->operation_count; o++) {
        print_operation(&p->graph_operations[g->operations + o], out);
    }
}
