/* The tables behind metadata's stack_frame_id: files, functions, places, frames. All ids count
 * from 1; 0 = none. */
#ifndef GXC_IR_STACK_FRAMES_H
#define GXC_IR_STACK_FRAMES_H

#include "ir/module.h"
#include "ir/text.h"

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

/* Keeps what the instructions of the module reach, numbered in the order of first use (parents
 * before children), and renumbers their metadata; ids out of range or in a cycle become 0. */
void stack_frames_compact(Module *m, Arena *scratch);
void stack_frames_print(Text *t, const StackFrames *f);

#endif
