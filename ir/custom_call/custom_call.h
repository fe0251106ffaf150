/* Custom calls whose target has a meaning of its own; all others are calls by name of functions
 * that the caller of the program provides. */
#ifndef GXC_IR_CUSTOM_CALL_CUSTOM_CALL_H
#define GXC_IR_CUSTOM_CALL_CUSTOM_CALL_H

#include "ir/module.h"

bool custom_call_has_target(const Instruction *inst, const char *name);

/* Its result has the shape of its first operand, up to the b() of buffers, or is a tuple of the
 * shapes of all of them. */
bool custom_call_gives_operands(const Instruction *inst);

/* A mark of the partitioner or of memory placement: its result is its operand, or the tuple of
 * its operands; custom_call_gives_operands holds. */
bool custom_call_is_marker(const Instruction *inst);

/* Where a marker of an array wants its value: MoveToHost, MoveToDevice, and annotate_device_placement with
 * _xla_buffer_placement="pinned_host", "unpinned_host" or "device". */
typedef enum MemoryMove { MOVE_NONE, MOVE_TO_HOST, MOVE_TO_DEVICE } MemoryMove;
MemoryMove custom_call_move(const Instruction *inst);

/* The k largest elements of each row and their positions: (t[..., k], s32[..., k]) of t[..., n].
 */
bool custom_call_is_topk(const Instruction *inst);

/* PadToStatic: (t[bounds], s32[]...) of an array of dynamic size: zero beyond its sizes, and a size
 * for each dimension. SliceToDynamic: the way back. */
bool custom_call_is_pad_to_static(const Instruction *inst);
bool custom_call_is_slice_to_dynamic(const Instruction *inst);

/* Memory that holds nothing yet: AllocateBuffer, CreateBuffer. gxc fills it with zeros. */
bool custom_call_is_new_buffer(const Instruction *inst);

/* GetRngSeed: a u64 from the device's generator, another one each time. */
bool custom_call_is_seed(const Instruction *inst);

/* True, with errors: there are calls that nobody can compute, nor be asked to (ir/custom_call/refused_calls.def). */
bool custom_calls_refuse(const Module *m);

/* 64-bit values in two halves: X64SplitLow and X64SplitHigh of one, X64Combine(low, high). Halves
 * of integers are their 32 bits as u32 or s32; of f64, x as f32, rounded, is the high one and x
 * minus that, as f32, the low one, or 0 where that is not finite. */
typedef enum X64Part { X64_NONE, X64_LOW, X64_HIGH, X64_COMBINE } X64Part;
X64Part custom_call_x64(const Instruction *inst);

#endif
