/* Groups of devices that a collective works in, in the three forms of the language: lists,
 * iota (`[2,4]<=[4,2]T(1,0)`) and mesh (`mesh['x'=2,'y'=4] {'x'}`). The form is kept for
 * printing; replica_groups_lists gives all of them as lists. */
#ifndef GXC_IR_ATTRIBUTE_REPLICA_GROUPS_H
#define GXC_IR_ATTRIBUTE_REPLICA_GROUPS_H

#include "ir/attribute/attribute.h"
#include "ir/base/text.h"

/* The numbers 0 .. n-1 reshaped to `dims`, transposed by `order`, read row-major. */
typedef struct Iota {
    uint32_t rank;        /* 0: none */
    const int64_t *dims;  /* [rank] */
    const int64_t *order; /* [rank] a permutation */
} Iota;

/* Drops dimensions of size 1 and merges those that stay adjacent and in order. */
Iota iota_canonical(Arena *a, Iota iota);
bool iota_equal(Iota a, Iota b);
void iota_print(Text *t, Iota iota); /* [4,2]T(1,0) */
int64_t iota_count(Iota iota);
int64_t *iota_expand(Arena *a, Iota iota); /* [iota_count] */

typedef struct MeshAxis {
    const char *name;
    int64_t size;
} MeshAxis;

typedef struct Mesh {
    bool is_maximal; /* maximal_mesh[device_id=3] */
    int64_t device;
    uint32_t axis_count;
    const MeshAxis *axes;
    Ints devices; /* explicit ids in row-major order of the axes; count 0: see iota */
    Iota iota;    /* rank 0: the ids are 0, 1, ... */
} Mesh;

/* An axis of a mesh, or the part (pre)size of one. */
typedef struct AxisRef {
    uint32_t axis;
    int64_t pre, size; /* size 0: the whole axis */
} AxisRef;

typedef struct AxisRefs {
    uint32_t count;
    const AxisRef *data;
} AxisRefs;

bool mesh_equal(const Mesh *a, const Mesh *b);
void mesh_print(Text *t, const Mesh *mesh);
void axis_refs_print(Text *t, const Mesh *mesh, AxisRefs refs,
                     const char *separator); /* 'x', 'y':(1)2 */
bool axis_refs_equal(AxisRefs a, AxisRefs b);
/* No part of an axis is named twice, and of two parts of one the minor one divides what is before
 * it into whole ones. */
bool axis_refs_apart(const Mesh *mesh, AxisRefs refs);
int64_t mesh_device_count(const Mesh *mesh);

typedef enum { GROUPS_LISTS, GROUPS_IOTA, GROUPS_MESH } GroupsForm;

struct ReplicaGroups {
    GroupsForm form;
    IntLists lists;      /* GROUPS_LISTS; count 0 = one group of all devices */
    int64_t count, size; /* GROUPS_IOTA: so many groups of so many devices */
    Iota iota;           /* GROUPS_IOTA */
    const Mesh *mesh;    /* GROUPS_MESH */
    AxisRefs axes;       /* GROUPS_MESH: a group varies over these */
};

/* The groups as lists, in order; made in `a` unless the form is lists already. */
IntLists replica_groups_lists(Arena *a, const ReplicaGroups *g);
/* How many groups; 0 = one group of all. */
int64_t replica_groups_count(const ReplicaGroups *g);
bool replica_groups_equal(const ReplicaGroups *a, const ReplicaGroups *b); /* forms too */
void replica_groups_print(Text *t, const ReplicaGroups *g);

#endif
