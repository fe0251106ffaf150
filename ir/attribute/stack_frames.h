/* The tables behind metadata's stack_frame_id: files, functions, positions, frames. All ids count
 * from 1; 0 = none. */
#ifndef GXC_IR_ATTRIBUTE_STACK_FRAMES_H
#define GXC_IR_ATTRIBUTE_STACK_FRAMES_H

#include "ir/base/text.h"
#include "ir/module.h"

typedef struct FileLocation {
    int64_t file, function; /* ids */
    int64_t line, end_line, column, end_column;
} FileLocation;

typedef struct StackFrame {
    int64_t location; /* id */
    int64_t parent;   /* id; 0 = outermost */
} StackFrame;

struct StackFrames {
    uint32_t file_count, function_count, location_count, frame_count;
    const Bytes *files, *functions;
    const FileLocation *locations;
    const StackFrame *frames;
};

/* Frames numbered anew, in the order in which they are asked for, parents before children; and
 * what they name. Ids out of range or in a cycle are 0. */
typedef struct StackFrameMap StackFrameMap;
StackFrameMap *stack_frame_map(Arena *a,
                               const StackFrames *old);         /* old NULL: no frames */
int64_t stack_frame_keep(StackFrameMap *map, int64_t id);       /* its new id */
const StackFrames *stack_frames_kept(const StackFrameMap *map); /* NULL: none */

/* Keeps what the instructions of the module reach, numbered in the order of first use, and
 * renumbers their metadata. */
void stack_frames_compact(Module *m);
void stack_frames_print(Text *t, const StackFrames *f);

#endif
