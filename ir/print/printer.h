/* What the files of the printer share. */
#ifndef GXC_IR_PRINT_PRINTER_H
#define GXC_IR_PRINT_PRINTER_H

#include "ir/base/text.h"
#include "ir/print/print.h"

typedef struct PrintOrder {
    Instruction **list;
    uint32_t count;
} PrintOrder;

typedef struct Printer {
    Text text;
    Arena *scratch;
    PrintOrder *orders; /* by Computation.id, those asked for; NULL: of one only */
    PrintForm form;
    bool percent;   /* %name */
    bool signature; /* (p0: f32[2]) -> f32[2] */
    bool operand_shapes;
    bool metadata;
    bool control;
    bool index_comments; /* before every fifth operand */
    bool
        inline_callees; /* canonical text of a part: called computations stand in place */
    uint32_t depth;     /* of inlined computations */
    struct StackFrameMap *frames; /* frames as they are printed; NULL: as they are */
    const uint32_t
        *numbers; /* canonical: of the instructions of the current computation */
    const Instruction *const *unvalued; /* constants whose values are left out */
    uint32_t unvalued_count;
} Printer;

/* The wrapped operation of an asynchronous instruction that can be printed as sugar
 * (`x-start`), and NULL where it cannot. */
const Instruction *print_sugar(const Instruction *inst, PrintForm form);

/* Computations in printed order, those that sugar hides left out. */
const Computation **print_computation_order(Printer *p, const Module *m, uint32_t *count);
/* Instructions in printed order. */
Instruction **print_instruction_order(Printer *p, const Computation *comp,
                                      uint32_t *count);

/* With a '%' where the form has it, or where the name does not read back without. */
void print_name(Printer *p, const char *name);
void print_instruction(Printer *p, const Instruction *inst);
void print_computation(Printer *p, const Computation *comp);

#endif
