/* Asynchronous copies into shared memory (cp.async), in groups that a thread waits for.
 *
 * A GPU makes a copy at any time between its issue and the end of the wait for its group. The emulator makes
 * it at one end or at the other (GXEMU_COPIES): a kernel is right if both give the same. Made late, the
 * copy's bytes hold 0xff until then. In between they belong to the copy: any access to them is a race. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/banks.h"
#include "runtime/emu/engine_parts.h"

struct PendingCopy {
    const unsigned char *from;
    uint64_t to;           /* offset in shared memory */
    uint32_t bytes, valid; /* bytes behind the valid ones become zeros */
    uint32_t group, site;
};

static void copy_make(Engine *e, const PendingCopy *c)
{
    memcpy(e->shared + c->to, c->from, c->valid);
    memset(e->shared + c->to + c->valid, 0, c->bytes - c->valid);
}

static void copy_add(Engine *e, Thread *t, const PendingCopy *c)
{
    if (t->copy_count == t->copy_capacity) {
        uint32_t capacity = t->copy_capacity == 0 ? 16 : 2 * t->copy_capacity;
        PendingCopy *copies = realloc(t->copies, capacity * sizeof *copies);
        if (copies == NULL) {
            finding_set(e->finding, FINDING_MEMORY, "no memory for asynchronous copies");
            engine_abort(e);
        }
        t->copies = copies;
        t->copy_capacity = capacity;
    }
    t->copies[t->copy_count++] = *c;
}

void gxemu_copy_async(gxemu_block *b, uint32_t argument, uint64_t offset, uint64_t to,
                      uint32_t bytes, uint32_t valid, uint32_t site)
{
    Engine *e = engine_of(b);
    Thread *t = thread_of(b);
    const EngineLaunch *l = e->launch;
    if (argument >= l->parameters || valid > bytes || valid > l->extents[argument] ||
        (valid != 0 && offset > l->extents[argument] - valid))
        gxemu_fault(b, argument, offset, valid, site, GXEMU_READ);
    if (bytes > l->shared_bytes || to > l->shared_bytes - bytes)
        gxemu_fault(b, GXEMU_SHARED, to, bytes, site, GXEMU_WRITE);
    const unsigned char *from = (const unsigned char *)(uintptr_t)l->args[argument];
    if (to % bytes != 0)
        gxemu_fault(b, GXEMU_SHARED, to, bytes, site, GXEMU_WRITE | GXEMU_MISALIGNED);
    if (valid != 0 && ((uintptr_t)from + offset) % bytes != 0)
        gxemu_fault(b, argument, offset, bytes, site, GXEMU_READ | GXEMU_MISALIGNED);
    if (b->checks != 0) {
        banks_note(e, t, site, to, bytes);
        if (valid != 0)
            access_check(b, argument, offset, valid, site, GXEMU_READ);
        access_check(b, GXEMU_SHARED, to, bytes, site, ACCESS_COPY);
    }
    PendingCopy c = {
        valid != 0 ? from + offset : from, to, bytes, valid, t->copy_group, site};
    if (l->copies_early)
        copy_make(e, &c);
    else
        memset(e->shared + to, 0xff, bytes);
    copy_add(e, t, &c);
}

void gxemu_copy_commit(gxemu_block *b, uint32_t site)
{
    (void)site;
    thread_of(b)->copy_group++;
}

void gxemu_copy_wait(gxemu_block *b, uint32_t left, uint32_t site)
{
    Engine *e = engine_of(b);
    Thread *t = thread_of(b);
    uint32_t done = 0;
    (void)site;
    while (done < t->copy_count && t->copies[done].group + left < t->copy_group) {
        const PendingCopy *c = &t->copies[done++];
        if (!e->launch->copies_early)
            copy_make(e, c);
        if (b->checks != 0)
            access_check(b, GXEMU_SHARED, c->to, c->bytes, c->site, ACCESS_COPIED);
    }
    t->copy_count -= done;
    if (done != 0)
        memmove(t->copies, t->copies + done, t->copy_count * sizeof *t->copies);
}

void copies_forget(Thread *t)
{
    t->copy_count = t->copy_group = 0;
}

void copies_deinit(Thread *t)
{
    free(t->copies);
}
