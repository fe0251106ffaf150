/* A plan's graph as cuDNN's own descriptors, and execution plans of it. libgxrt needs this at load,
 * the planner at compile time; neither touches a device. */
#ifndef GXC_RUNTIME_LIBRARY_GRAPH_BUILD_H
#define GXC_RUNTIME_LIBRARY_GRAPH_BUILD_H

#include "runtime/library/library.h"
#include "runtime/plan/plan.h"

enum {
    GRAPH_BUILD_OPERATIONS = 64,
    GRAPH_BUILD_DESCRIPTORS = 512,
    GRAPH_BUILD_TEXT = 512
};

/* Descriptors in the making. The first call that fails decides: those behind it are not made. */
typedef struct GraphBuild {
    const CudnnApi *dnn;
    cudnnBackendDescriptor_t made[GRAPH_BUILD_DESCRIPTORS]; /* to be given back */
    uint32_t made_count;
    cudnnBackendDescriptor_t tensors[PLAN_GRAPH_MOST_TENSORS]; /* of the plan's */
    cudnnBackendDescriptor_t operations[GRAPH_BUILD_OPERATIONS];
    uint32_t operation_count;
    int64_t next_id; /* for tensors that only the library's graph has */
    cudnnBackendDescriptor_t graph;
    cudnnStatus_t status;
    char error[GRAPH_BUILD_TEXT]; /* the call that failed, in the library's words */
} GraphBuild;

/* Where plans are to run: on the handle's device, or on one that is only described. */
typedef struct GraphDevice {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t properties;
} GraphDevice;

typedef struct GraphChoice {
    cudnnBackendDescriptor_t plan;
    uint64_t workspace_bytes;
    uint32_t configurations; /* that the library has for the graph on this device */
    uint32_t number;         /* in the library's order, of those that the flags allow */
} GraphChoice;

/* `b` must be zero but for `dnn`. Makes b->graph of a graph of a validated plan. */
bool graph_build(GraphBuild *b, const Plan *p, const PlanGraph *g, const GraphDevice *at);

/* The first of the library's ranked configurations that the graph's flags allow, that needs at
 * most `workspace_most` bytes, and of which a plan can be made. */
bool graph_build_choose(GraphBuild *b, const PlanGraph *g, const GraphDevice *at,
                        uint64_t workspace_most, GraphChoice *out);

/* Plans of the first of them, at most `most`, in their order; how many there are. */
uint32_t graph_build_choices(GraphBuild *b, const PlanGraph *g, const GraphDevice *at,
                             uint64_t workspace_most, GraphChoice *out, uint32_t most);
/* Of configuration `number`. False: there is none, or no plan can be made of it. */
bool graph_build_choose_number(GraphBuild *b, const PlanGraph *g, const GraphDevice *at,
                               uint64_t workspace_most, uint32_t number,
                               GraphChoice *out);

/* A plan from its serialised form. */
bool graph_build_load(GraphBuild *b, const GraphDevice *at, const char *plan,
                      uint64_t bytes, GraphChoice *out);

/* A device by its description, for GraphDevice.properties. */
cudnnBackendDescriptor_t graph_build_describe_device(GraphBuild *b, const char *json);

/* Gives all descriptors back. */
void graph_build_destroy(GraphBuild *b);

/* --- for graph_attention.c ---------------------------------------------------------------------- */

cudnnBackendDescriptor_t graph_build_make(GraphBuild *b,
                                          cudnnBackendDescriptorType_t type);
void graph_build_set(GraphBuild *b, cudnnBackendDescriptor_t d, int attribute, int type,
                     int64_t count, const void *elements);
void graph_build_set_descriptor(GraphBuild *b, cudnnBackendDescriptor_t d, int attribute,
                                cudnnBackendDescriptor_t value);
void graph_build_finalize(GraphBuild *b, cudnnBackendDescriptor_t d);
void graph_build_add_operation(GraphBuild *b, cudnnBackendDescriptor_t d);

cudnnBackendDescriptor_t graph_build_tensor(GraphBuild *b, const PlanGraphTensor *t,
                                            int64_t id);
/* A virtual tensor of four dimensions, whose strides are row-major unless they are given. */
cudnnBackendDescriptor_t graph_build_intermediate(GraphBuild *b, uint32_t type,
                                                  const int64_t dims[4],
                                                  const int64_t *strides);

/* Operations; optional tensors may be NULL. axis: of GEN_INDEX and of what follows from it. */
enum { GRAPH_NO_AXIS = -1 };
void graph_build_pointwise(GraphBuild *b, int mode, uint32_t compute, int64_t axis,
                           cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t second,
                           cudnnBackendDescriptor_t third, cudnnBackendDescriptor_t y);
void graph_build_matmul(GraphBuild *b, uint32_t compute, cudnnBackendDescriptor_t a,
                        cudnnBackendDescriptor_t second, cudnnBackendDescriptor_t c);
void graph_build_reduction(GraphBuild *b, int operator, uint32_t compute,
                           cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y);
void graph_build_reshape(GraphBuild *b, cudnnBackendDescriptor_t x,
                         cudnnBackendDescriptor_t y);

/* Attentions and their gradients, as the operations that cuDNN knows them by. */
void graph_build_attention(GraphBuild *b, const Plan *p, const PlanGraph *g,
                           const PlanGraphOperation *op);
void graph_build_attention_gradient(GraphBuild *b, const Plan *p, const PlanGraph *g,
                                    const PlanGraphOperation *op);

#endif
