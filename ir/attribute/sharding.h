/* Shardings: how a value is spread over devices. They are read, checked, kept and printed;
 * nothing is partitioned by them. */
#ifndef GXC_IR_ATTRIBUTE_SHARDING_H
#define GXC_IR_ATTRIBUTE_SHARDING_H

#include "ir/attribute/replica_groups.h"

typedef enum {
    SHARDING_REPLICATED,
    SHARDING_MANUAL,
    SHARDING_UNKNOWN,
    SHARDING_UNREDUCED,
    SHARDING_MAXIMAL, /* all on one device */
    SHARDING_TILED,
    SHARDING_NAMED, /* by the axes of a mesh */
    SHARDING_TUPLE
} ShardingKind;

/* What the last dimensions of a tiling mean, in printed order. */
typedef enum {
    SUBGROUP_MANUAL,
    SUBGROUP_UNREDUCED,
    SUBGROUP_REPLICATED,
    SUBGROUP_MAXIMAL
} Subgroup;

typedef struct DimSharding {
    AxisRefs axes;
    bool is_open; /* `?`: may be sharded further */
} DimSharding;

typedef enum { REDUCTION_NONE, REDUCTION_SUM, REDUCTION_MAX, REDUCTION_MIN } Reduction;

struct Sharding {
    ShardingKind kind;
    int64_t device; /* MAXIMAL */
    /* TILED: `rank` dimensions, the last subgroup_count of them are subgroups */
    uint32_t rank;
    const int64_t *dims;
    Iota iota;               /* rank 0: see devices */
    Ints devices;            /* row-major */
    bool replicate_last;     /* last_tile_dim_replicate */
    uint32_t subgroup_count; /* last_tile_dims; 0 with replicate_last */
    const Subgroup *subgroups;
    /* NAMED */
    const Mesh *mesh;
    bool has_dims; /* else one of whole_* */
    bool whole_replicated, whole_manual, whole_unreduced;
    uint32_t dim_count;
    const DimSharding *dim_shardings;
    AxisRefs replicated, unreduced, manual;
    Reduction reduction; /* of unreduced; NONE: not written */
    /* all but tuples */
    int64_t shard_as, shard_like; /* group, -1 = none */
    uint32_t metadata_count;
    const Metadata *const *metadata;
    /* TUPLE: one per leaf of the shape */
    uint32_t element_count;
    const Sharding *const *elements;
};

bool sharding_equal(const Sharding *a, const Sharding *b);
/* A tuple of so many times the sharding; a tuple stays what it is. */
const Sharding *sharding_for_leaves(Arena *a, const Sharding *s, size_t leaves);
/* Merges and orders subgroups, names special cases: what section 10.10 calls normal. */
const Sharding *sharding_normal(Arena *a, Sharding *s);
/* `{...}` with its braces. */
void sharding_print(Text *t, const Sharding *s, bool metadata);

#endif
