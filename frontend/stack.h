/* Stacks of readers: growable arrays in the scratch arena `scratch` of their owner, which also has
 * the arena of what is kept, `arena`. */
#ifndef GXC_FRONTEND_STACK_H
#define GXC_FRONTEND_STACK_H

#include "ir/base/arena.h"

/* A growable array in the scratch arena. */
#define STACK(T)                                                                         \
    struct {                                                                             \
        T *data;                                                                         \
        size_t count;                                                                    \
        size_t capacity;                                                                 \
    }
#define STACK_PUSH(p, stack, value)                                                      \
    ((stack).count < (stack).capacity                                                    \
         ? (void)0                                                                       \
         : (void)((stack).data =                                                         \
                      arena_grow((p)->scratch, (stack).data, &(stack).capacity,          \
                                 (stack).count + 1, sizeof *(stack).data)),              \
     (stack).data[(stack).count++] = (value))

/* Its elements, moved to the module's arena. */
#define STACK_KEEP(p, stack)                                                             \
    arena_copy((p)->arena, (stack).data, (stack).count * sizeof *(stack).data)

/* Room for the first ones: `data` may then be counted from. */
#define STACK_OPEN(p, stack)                                                             \
    ((stack).data =                                                                      \
         arena_grow((p)->scratch, NULL, &(stack).capacity, 8, sizeof *(stack).data))

#endif
