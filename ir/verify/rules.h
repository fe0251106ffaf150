/* What the parts of the verifier share. Private to verify*.c. */
#ifndef GXC_IR_VERIFY_RULES_H
#define GXC_IR_VERIFY_RULES_H

#include "ir/infer/infer.h"
#include "ir/verify/verify.h"

typedef struct Verify {
    Module *m;
    Diag *diag;
    Arena *scratch;
    Level level;
    InferContext infer;
    const Shape **seen; /* shapes that were looked at: a hash table of pointers */
    size_t seen_size, seen_count;
    bool
        is_too_large; /* some shape is: what follows from shapes is looked at no further */
    const Instruction *
        *fusion_of; /* by Computation.id: the fusion, or async-start, that calls it */
    const Instruction
        *all_reduce; /* the first one: constrain_layout must be the same in all */
    const Instruction **channels; /* host transfers by channel: a hash table */
    size_t channel_size, channel_count;
    const Instruction **transfers; /* sends and recvs between devices */
    size_t transfer_count, transfer_capacity;
} Verify;

void verify_error(Verify *v, const Instruction *inst, const char *format, ...)
    GXC_FORMAT(3, 4);
const char *verify_text(Verify *v, const Shape *s); /* with layouts */

bool verify_has_buffer(const Shape *s); /* b(...) anywhere inside */

/* Fewer operands than its opcode or callee takes: updates of an async-start bring the rest. */
bool verify_lacks_operands(const Instruction *inst);
/* Shape and own rules of one instruction. */
void verify_instruction(Verify *v, const Instruction *inst);
/* Groups and pairs of devices of a collective. */
void verify_collective(Verify *v, const Instruction *inst);
/* Starts and dones, sends and recvs. */
void verify_pairs(Verify *v, const Computation *comp, Uses uses);
/* The sends and recvs that verify_pairs saw belong together. */
void verify_transfers(Verify *v);
/* Shardings fit shapes, and those of a loop each other. */
void verify_sharding(Verify *v, const Instruction *inst);
/* The flow of b(...) values. */
void verify_buffers(Verify *v, const Computation *comp, Uses uses);
/* A custom call's rules about buffers and known targets. */
void verify_custom_call(Verify *v, const Instruction *inst);
/* entry_computation_layout, input_output_alias, buffer_donor. */
void verify_header(Verify *v);
/* What levels above LEVEL_WELL_FORMED add. */
void verify_level(Verify *v);

#endif
