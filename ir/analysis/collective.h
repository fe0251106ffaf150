/* Collectives: which devices meet, and what they compute. The only module that knows the rules
 * of group modes; verifier, passes and codegen ask here.
 *
 * A device's number is replica * partitions + partition. Modes follow from channel_id and
 * use_global_device_ids:
 *   no channel                      ids are replicas; one group for each partition
 *   channel, op without the flag    ids are partitions; one group for each replica
 *   channel, flag false             ids are replicas; every partition of the listed ones
 *   channel, flag true              ids are device numbers */
#ifndef GXC_IR_ANALYSIS_COLLECTIVE_H
#define GXC_IR_ANALYSIS_COLLECTIVE_H

#include "ir/analysis/target.h"
#include "ir/module.h"

typedef enum {
    COLLECTIVE_CROSS_REPLICA,
    COLLECTIVE_CROSS_PARTITION,
    COLLECTIVE_CROSS_REPLICA_AND_PARTITION,
    COLLECTIVE_FLATTENED_ID,
} CollectiveMode;

CollectiveMode collective_mode(const Instruction *inst);

/* Groups of device numbers, expanded for the module's replicas and partitions; an operation
 * without groups has one of all its ids. For a collective-permute, send or recv: all devices
 * that its ids range over. Made in `a`. */
IntLists collective_groups(Arena *a, const Instruction *inst);
/* How many ids the mode of the operation ranges over, and the largest that its groups or pairs name;
 * -1: none. Scratch memory comes from `a`. */
int64_t collective_id_count(const Instruction *inst);
int64_t collective_last_id(Arena *a, const Instruction *inst);
/* The same groups in the same order, each in the same order. */
bool collective_groups_equal(IntLists a, IntLists b);
/* Devices in each group: the first one's size. */
int64_t collective_group_size(Arena *a, const Instruction *inst);
/* Pairs {source, target} of device numbers of a collective-permute; made in `a`. */
IntLists collective_pairs(Arena *a, const Instruction *inst);

/* The most devices that a group of one collective and a group of another have in common; a
 * collective without groups, which may mean any, has all in common. Of a collective-permute the
 * devices that its pairs connect are the groups. */
int64_t collective_shared_devices(Arena *a, const Instruction *x, const Instruction *y);

/* The pairs of ids that send and recv carry in a frontend attribute; false if there are none. */
bool collective_transfer_pairs(Arena *a, const Instruction *inst, IntLists *out);

/* What a reducer of two scalars computes, if it is one commutative operation on both
 * parameters: OP_ADD, OP_MULTIPLY, OP_MINIMUM, OP_MAXIMUM, OP_AND, OP_OR or OP_XOR; on pred
 * minimum for "and", maximum for "or". OP_COUNT if it is more. */
OpCode collective_reduction(const Computation *reducer);
/* NCCL reduces values of this type on the GPUs of the target; NULL: on all that gxc knows. */
bool collective_reduces(DType t, const Target *target);

/* What the program says keeps collectives apart, or together: frontend attributes, NULL at the
 * end. Only those whose values are equal may become one. */
extern const char *const collective_keys[];
bool collective_same_keys(const Instruction *a, const Instruction *b);

/* The value of a frontend attribute; NULL if it has none. */
const char *inst_frontend_attribute(const Instruction *inst, const char *key);
/* Sets it; value NULL: removes it. */
void inst_set_frontend_attribute(Instruction *inst, const char *key, const char *value);

/* What the backend_config's collective_backend_config records: a pipeliner moved it already. */
bool collective_is_pipelined(const Instruction *inst);
void collective_set_pipelined(Instruction *inst);

/* The channels of all sends and of all recvs of a module, each list ascending. */
typedef struct TransferChannels {
    Ints sends, recvs;
} TransferChannels;

TransferChannels collective_transfer_channels(const Module *m, Arena *a);
/* What joins a send or recv with its other end: its channel, or CHANNEL_NONE for all whose channel has no other
 * end in the module; the order alone joins those, as it does on a GPU. */
#define CHANNEL_NONE INT64_MIN
int64_t collective_transfer_channel(const TransferChannels *c, const Instruction *inst);

/* What a collective gives in the end, and what of it comes from operand k: of a start that holds its
 * operands too, the results among its elements. */
const Shape *collective_result(const Instruction *inst);
const Shape *collective_result_part(const Instruction *inst, uint32_t k);

#endif
