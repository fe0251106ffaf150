/* Arenas: memory that is given back all at once.
 *
 * A compile owns two: the module's (lives until the plan is written) and a scratch arena
 * (reset after every pass). Everything that is allocated is zeroed and aligned to 16 bytes;
 * nothing is freed by itself. When the system has no memory left, or a size overflows,
 * allocation does not return: it ends the compile through escape_throw (ir/base/bug.h). */
#ifndef GXC_IR_BASE_ARENA_H
#define GXC_IR_BASE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define GXC_FORMAT(f, a) __attribute__((format(printf, f, a)))
#define GXC_NORETURN __attribute__((noreturn))
#else
#define GXC_FORMAT(f, a)
#define GXC_NORETURN
#endif

typedef struct Arena Arena;

Arena *arena_create(void);
/* One for a function's own use: as arena_create, but an escape that is thrown past its owner
 * destroys it. To be destroyed in the Escape and by the thread that it was created in. */
Arena *arena_scratch(void);
void arena_destroy(Arena *a); /* NULL is fine */
void arena_reset(Arena *a);   /* forgets all allocations, keeps one block for reuse */
/* A scratch arena with all that `a` held; `a` is empty afterwards. */
Arena *arena_move(Arena *a);

void *arena_alloc(Arena *a, size_t bytes); /* zeroed; bytes 0 gives a valid pointer */
void *arena_array(Arena *a, size_t count, size_t size); /* zeroed; checks count * size */
void *arena_copy(Arena *a, const void *data, size_t bytes);
char *arena_text(Arena *a, const char *data, size_t length); /* copy, NUL added */
/* A copy of what lies in memory of malloc(), which is freed: also where there is no memory for the copy. NULL gives
 * NULL. */
void *arena_take(Arena *a, void *data, size_t bytes);
char *arena_take_text(Arena *a, char *text);
char *arena_printf(Arena *a, const char *format, ...) GXC_FORMAT(2, 3);
char *arena_vprintf(Arena *a, const char *format, va_list args) GXC_FORMAT(2, 0);
size_t arena_bytes(const Arena *a); /* bytes taken from the system */

/* New allocation of one element type: T *p = ARENA_NEW(a, T); T *q = ARENA_ARRAY(a, T, n); */
#define ARENA_NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_array((a), (n), sizeof(T)))

/* What was allocated with `bytes` bytes goes back to the system if it is large enough to have been
 * given memory of its own; small things are left behind. NULL is fine. */
void arena_drop(Arena *a, void *p, size_t bytes);
/* A large thing as before, moved from one arena to another without copying it; false: it is small. */
bool arena_hand_over(Arena *from, Arena *to, const void *p, size_t bytes);

/* Grows an array that lives in an arena: returns the array with room for at least `needed`
 * elements, contents kept, and updates *capacity. The old copy is dropped. */
void *arena_grow(Arena *a, void *array, size_t *capacity, size_t needed, size_t size);

#endif
