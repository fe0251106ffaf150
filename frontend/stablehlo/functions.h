/* The functions of ops.def's rows, one prototype each, and what they share with one another. */
#ifndef GXC_FRONTEND_STABLEHLO_FUNCTIONS_H
#define GXC_FRONTEND_STABLEHLO_FUNCTIONS_H

#include "frontend/stablehlo/convert.h"

#define ROW(name, op, function, operands, results, regions, attributes)                  \
    ConvertFn convert_##function;
#include "frontend/stablehlo/ops.def"

/* convert.c */
bool set_row_attrs(Converter *c, const MlirOp *op, const OpRow *row, Instruction *inst);

/* quantized.c */
bool is_quantized(const MlirOp *op);
bool quantized_needs_floats(const OpRow *row); /* it computes, and does not only move */
void convert_by_floats(Converter *c, const MlirOp *op, const OpRow *row);

/* dynamic.c: the values of a small array of integers that can be known now; false after a message */
bool known_ints(Converter *c, const MlirOp *op, uint32_t operand, Ints *out);

/* move.c */
Instruction *broadcast_in_dim(Converter *c, Instruction *inst, const Shape *shape,
                              Ints dims);
void set_padding(Converter *c, Instruction *inst, Ints low, Ints high, Ints interior);
typedef struct DimensionNumber {
    const char *name; /* NULL: the end */
    AttrId id;
    bool is_list, is_required;
} DimensionNumber;
bool set_dimension_numbers(Converter *c, const MlirOp *op, const char *group,
                           const DimensionNumber *list, Instruction *inst);
void finish_gather(Converter *c, const MlirOp *op, Ints sizes);

/* apply.c */
typedef struct WindowNames {
    const char *stride, *base_dilation, *window_dilation, *reversal;
} WindowNames;
bool make_window(Converter *c, const MlirOp *op, const WindowNames *names, Ints sizes,
                 const IntLists *padding, Window *out);
void set_window(Converter *c, Instruction *inst, const Window *window);

/* collective.c: a custom_call that HLO has an operation for */
void convert_ragged_all_to_all(Converter *c, const MlirOp *op, const MlirAttr *config);

/* dot.c */
bool set_precision(Converter *c, const MlirOp *op, Instruction *inst);
void make_convolution(Converter *c, const MlirOp *op, const IntLists *padding);

/* notes.c */
void set_composite(Converter *c, const MlirOp *op, Instruction *call);
/* Beside those that it has, unless it has one of this name. */
void add_frontend_attribute(Converter *c, Instruction *inst, const char *key,
                            Bytes value);

#endif
