/* Graphs of cuDNN on the CPU: what an operation graph says, as tensors and nodes, and computing
 * it. Numbers are f64 between nodes; what a tensor's type cannot hold is rounded as each tensor is
 * made. */
#ifndef GXC_RUNTIME_EMU_DNN_H
#define GXC_RUNTIME_EMU_DNN_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/number/number.h"
#include "runtime/emu/finding.h"
#include "runtime/library/cudnn_types.h"

enum { DNN_RANK = 8, DNN_TENSORS = 96, DNN_NODES = 64, DNN_PORTS = 9, DNN_NONE = -1 };

typedef struct DnnTensor {
    int64_t id;
    DType type;
    uint32_t rank;
    int64_t dims[DNN_RANK], strides[DNN_RANK]; /* strides in elements */
    bool is_virtual, is_scalar;                /* scalar: its value lies in host memory */
    bool is_tiled; /* block scales in tiles of 128 rows and 4 columns */
    uint32_t alignment;
    bool is_read, is_written; /* by nodes */
} DnnTensor;

/* What a port of a node is for; which node has which: dnn_nodes.c. */
typedef enum DnnPort {
    DNN_X,
    DNN_W,
    DNN_Y,
    DNN_B = DNN_W, /* second operand */
    DNN_T = 3,     /* of a select: its mask; norms: epsilon or dy */
    DNN_SCALE,
    DNN_BIAS,
    DNN_MEAN,
    DNN_DEVIATION /* its inverse */
} DnnPort;

typedef struct DnnNode {
    cudnnBackendDescriptorType_t kind; /* of the operation's descriptor */
    int mode;                          /* pointwise, reduction, convolution, norm */
    DType compute;
    int32_t ports[DNN_PORTS]; /* numbers of tensors, or DNN_NONE */
    int64_t axis, block;      /* of an index; of scales */
    uint32_t spatial;
    int64_t before[DNN_RANK], behind[DNN_RANK], stride[DNN_RANK], dilation[DNN_RANK];
} DnnNode;

typedef struct DnnProgram {
    uint32_t tensor_count, node_count;
    bool rounds_tf32; /* factors of f32 products */
    DnnTensor tensors[DNN_TENSORS];
    DnnNode nodes[DNN_NODES];
} DnnProgram;

/* The program on memory: `data` has the address of each tensor that is not virtual. */
typedef struct DnnRun {
    const DnnProgram *program;
    unsigned char *data[DNN_TENSORS];
    double *values[DNN_TENSORS]; /* row-major, NULL until somebody asks */
} DnnRun;

/* Sets is_read and is_written of the tensors. */
void dnn_mark_uses(DnnProgram *p);

/* Whether the nodes can be computed; else *out_why. */
bool dnn_check(const DnnProgram *p, const char **out_why);
/* False: no memory. Frees what it takes. */
bool dnn_compute(DnnRun *run);

int64_t dnn_elements(const DnnTensor *t);
/* Bytes from the tensor's first element to its last. */
uint64_t dnn_bytes(const DnnTensor *t);

/* -- dnn_nodes.c, dnn_convolution.c, dnn_norm.c: one node; inputs and outputs are row-major -- */

/* The values of a port, loaded or computed before; NULL: it has none. */
const double *dnn_input(const DnnRun *run, const DnnNode *n, int port);
double *dnn_output(const DnnRun *run, const DnnNode *n, int port);
const DnnTensor *dnn_tensor(const DnnRun *run, const DnnNode *n, int port);

typedef bool DnnCompute(DnnRun *run, const DnnNode *n); /* false: no memory */
DnnCompute dnn_convolution, dnn_norm, dnn_norm_gradient;

/* Row-major x as rows that are normalised. False: the dimensions of a row are not the last ones. */
bool dnn_norm_split(const DnnTensor *x, const DnnTensor *scale, int64_t *rows,
                    int64_t *columns);

#endif
