/* Descriptors of cuDNN's backend interface. See dnn_descriptor.c. */
#ifndef GXC_RUNTIME_EMU_DNN_DESCRIPTOR_H
#define GXC_RUNTIME_EMU_DNN_DESCRIPTOR_H

#include "runtime/emu/dnn.h"

typedef struct DnnAttribute {
    struct DnnAttribute *next;
    int id, type;
    int64_t count;
    unsigned char data[]; /* the elements, as they were given */
} DnnAttribute;

typedef struct DnnDescriptor {
    int type;
    bool is_final;
    DnnAttribute *attributes;
    DnnProgram *program; /* of an operation graph, and of what is made of it */
    bool is_exact;       /* a configuration or engine that does not round f32 to TF32 */
} DnnDescriptor;

/* NULL: an unknown type, or no memory. */
DnnDescriptor *dnn_descriptor_create(int type);
void dnn_descriptor_destroy(DnnDescriptor *d);

/* As the library's functions. */
cudnnStatus_t dnn_descriptor_set(DnnDescriptor *d, int attribute, int type, int64_t count,
                                 const void *elements);
cudnnStatus_t dnn_descriptor_get(const DnnDescriptor *d, int attribute, int type,
                                 int64_t requested, int64_t *count, void *elements);
cudnnStatus_t dnn_descriptor_finalize(DnnDescriptor *d);

/* NULL: it was not set. */
const DnnAttribute *dnn_attribute(const DnnDescriptor *d, int id);

/* dnn_program.c: the program of a graph's operations. */
cudnnStatus_t dnn_program_make(const DnnDescriptor *graph, DnnProgram *out);

/* Notes the reason, for cudnnGetLastErrorString. */
cudnnStatus_t dnn_refuse(cudnnStatus_t status, const char *text);

/* Memory that a plan works in; the second configuration wants half of it. */
uint64_t dnn_workspace_bytes(const DnnDescriptor *plan);

#endif
