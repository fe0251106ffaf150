/* The emitters by kind. */
#include "codegen/emit/emitters.h"

static EmitterFn *const emitters[EMITTER_COUNT] = {
    [EMITTER_LOOP] = emitter_loop,
};

EmitterFn *emitter_function(EmitterKind kind)
{
    return kind < EMITTER_COUNT ? emitters[kind] : NULL;
}
