/* What the parts of the plan's reader share: frame and tables (read.c), commands (commands.c),
 * matrix products (matmul.c). */
#ifndef GXC_RUNTIME_PLAN_READ_H
#define GXC_RUNTIME_PLAN_READ_H

#include "runtime/plan/plan.h"

#if defined(__GNUC__)
#define PLAN_FORMAT(f, a) __attribute__((format(printf, f, a)))
#else
#define PLAN_FORMAT(f, a)
#endif

#define PLAN_NO_MEMORY "no memory" /* how errors begin that say nothing of the plan */

/* Of the groups of a clique; a device in none is one of its own. */
typedef struct PlanGroupSizes {
    uint64_t least, most;
} PlanGroupSizes;

typedef struct PlanReader {
    Plan *p;
    char *error;
    size_t error_size;
    unsigned char *signalled; /* by slot, while walking the commands */
    unsigned char *started;   /* by async slot */
    uint32_t region_end;      /* of the region that holds the command being read */
    PlanGroupSizes *sizes;    /* by clique */
    struct PlanTaken {
        uint64_t numbers, refs, args, candidates;
    } * taken; /* how many of these tables the records read so far have; its copies have it, too */
} PlanReader;

/* Both write the error and return false. */
bool plan_fail(PlanReader *r, const char *format, ...) PLAN_FORMAT(2, 3);
bool plan_newer(PlanReader *r, const char *what, uint64_t value);

/* The command tree; every table that it names has been validated. */
bool plan_read_commands(PlanReader *r);

/* The records of matrix products by themselves, whether a command names them or not. */
bool plan_read_matmuls(PlanReader *r);
bool plan_read_solvers(PlanReader *r);
bool plan_read_graphs(PlanReader *r); /* the same of graphs */
bool plan_read_algorithms(PlanReader *r);
bool plan_read_choices(PlanReader *r);

/* Origins, steps and buffers; allocations have been read. */
bool plan_read_description(PlanReader *r);

/* Tunables and candidates; commands have been read. */
bool plan_read_tunables(PlanReader *r);

/* Column `read` of commands.def: what is particular to this kind of command. Its args have been
 * read: slices are there and may be accessed so. */
typedef bool PlanReadCommand(PlanReader *r, const PlanCommand *c, const PlanArg *args);
#define COMMAND(id, name, counts, read, ...) PlanReadCommand plan_read_##read;
#include "runtime/plan/commands.def"

static inline bool plan_in_table(uint64_t first, uint64_t count, uint64_t total)
{
    return first <= total && count <= total - first;
}

/* Takes `count` records of a table, which no other record names. Who takes more than there are shares
 * some: then reading would not be linear. */
static inline bool plan_take(uint64_t *taken, uint64_t count, uint64_t total)
{
    *taken += count;
    return *taken <= total;
}

static inline bool plan_is_string(const PlanReader *r, uint32_t offset)
{
    return offset < r->p->strings_count;
}

static inline uint64_t plan_multiply(uint64_t a, uint64_t b) /* saturates */
{
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static inline uint64_t plan_add(uint64_t a, uint64_t b) /* saturates */
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline const PlanSlice *plan_slice_of(const Plan *p, const PlanArg *a)
{
    return &p->slices[a->index];
}

static inline bool plan_is_slice(const PlanArg *a, uint16_t access)
{
    return a->tag == PLAN_ARG_SLICE && (a->access & access) == access;
}

#endif
