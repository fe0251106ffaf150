/* Checked accesses of an emulated kernel: bounds, written state, races. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/emu/banks.h"
#include "runtime/emu/engine_parts.h"

static const char *kind_verb(uint32_t kind)
{
    switch (kind) {
    case GXEMU_READ:
    case ACCESS_LOOK:
        return "reads";
    case GXEMU_WRITE:
    case GXEMU_ATOMIC_WRITE:
        return "writes";
    case ACCESS_COPY:
        return "copies";
    default:
        return "updates";
    }
}

/* The host address that an access goes to, for the report. */
static uint64_t access_address(const Engine *e, uint32_t argument, uint64_t offset)
{
    if (argument == GXEMU_SHARED)
        return (uintptr_t)e->shared + offset;
    return e->launch->args[argument] + offset;
}

static void describe_location(const Engine *e, uint32_t argument, uint64_t offset)
{
    if (argument == GXEMU_SHARED)
        finding_add(e->finding, "byte %" PRId64 " of shared memory", (int64_t)offset);
    else
        finding_add(e->finding, "byte %" PRId64 " of argument %" PRIu32, (int64_t)offset,
                    argument);
    finding_add(e->finding, " (address 0x%" PRIx64 ")",
                access_address(e, argument, offset));
}

void gxemu_fault(gxemu_block *b, uint32_t argument, uint64_t offset, uint32_t bytes,
                 uint32_t site, uint32_t kind)
{
    Engine *e = engine_of(b);
    bool is_misaligned = (kind & GXEMU_MISALIGNED) != 0;
    finding_set(e->finding, FINDING_ADDRESS,
                is_misaligned ? "misaligned: " : "out of bounds: ");
    engine_describe(e, thread_of(b), site);
    if (argument != GXEMU_SHARED && argument >= e->launch->parameters) {
        finding_add(e->finding, " uses argument %" PRIu32 ", but there are %" PRIu32,
                    argument, e->launch->parameters);
        engine_abort(e);
    }
    if (bytes == 0)
        finding_add(e->finding, " was promised more of ");
    else
        finding_add(e->finding, " %s %" PRIu32 " bytes at ",
                    kind_verb(kind & ~(uint32_t)GXEMU_MISALIGNED), bytes);
    describe_location(e, argument, offset);
    uint64_t extent =
        argument == GXEMU_SHARED ? e->launch->shared_bytes : e->launch->extents[argument];
    finding_add(e->finding, ", which has %" PRIu64 " bytes", extent);
    engine_abort(e);
}

static void report_unwritten(Engine *e, gxemu_block *b, uint32_t argument,
                             uint64_t offset, uint32_t bytes, uint32_t site,
                             uint64_t skipped)
{
    finding_set(e->finding, FINDING_UNINITIALISED, "uninitialised: ");
    engine_describe(e, thread_of(b), site);
    finding_add(e->finding, " reads %" PRIu32 " bytes at ", bytes);
    describe_location(e, argument, offset);
    finding_add(e->finding, ", but nobody wrote the byte at +%" PRIu64, skipped);
    engine_abort(e);
}

static void report_race(Engine *e, gxemu_block *b, uint32_t argument, uint64_t offset,
                        uint32_t bytes, uint32_t site, uint32_t kind,
                        const RaceConflict *c)
{
    if (c->kind == RACE_NO_MEMORY) {
        finding_set(e->finding, FINDING_MEMORY, "no memory for the race detector");
        engine_abort(e);
    }
    finding_set(e->finding, FINDING_RACE, "race: ");
    engine_describe(e, thread_of(b), site);
    finding_add(e->finding, " %s %" PRIu32 " bytes at ", kind_verb(kind), bytes);
    describe_location(e, argument, offset);
    finding_add(e->finding, ", which %s %s",
                c->is_copy || c->kind == RACE_NOT_FENCED ? "a thread of the block"
                : c->same_block                          ? "another thread of the block"
                                                         : "another block",
                c->kind == RACE_WITH_READ ? "read" : "wrote");
    if (c->is_copy)
        finding_add(e->finding,
                    " (thread %" PRIu32
                    ") by an asynchronous copy that was not waited for",
                    c->thread);
    else if (c->kind == RACE_NOT_FENCED)
        finding_add(e->finding, " (thread %" PRIu32 ") with no proxy fence behind it",
                    c->thread);
    else if (c->same_block)
        finding_add(e->finding, " (thread %" PRIu32 ") with no barrier between",
                    c->thread);
    if (c->site != RACE_NO_SITE)
        finding_add(e->finding, ", in instruction %s (site %" PRIu32 ")",
                    engine_site(e, c->site), c->site);
    engine_abort(e);
}

static void report_read_only(Engine *e, gxemu_block *b, uint32_t argument,
                             uint64_t offset, uint32_t bytes, uint32_t site,
                             uint32_t kind)
{
    finding_set(e->finding, FINDING_ADDRESS, "write to an input: ");
    engine_describe(e, thread_of(b), site);
    finding_add(e->finding, " %s %" PRIu32 " bytes at ", kind_verb(kind), bytes);
    describe_location(e, argument, offset);
    finding_add(e->finding, ", which the launch passes for reading only");
    engine_abort(e);
}

/* Are all bytes of a written state set? They are 0 or 0xff. */
static inline bool written_all(const uint8_t *p, uint32_t bytes)
{
    uint32_t i = 0;
    uint64_t word;
    for (; bytes - i >= 8; i += 8) {
        memcpy(&word, p + i, 8);
        if (word != UINT64_MAX)
            return false;
    }
    if ((bytes & 4) != 0) {
        uint32_t half;
        memcpy(&half, p + i, 4);
        if (half != UINT32_MAX)
            return false;
        i += 4;
    }
    for (; i < bytes; i++)
        if (p[i] == 0)
            return false;
    return true;
}

static inline void written_set(uint8_t *p, uint32_t bytes)
{
    static const uint64_t ones = UINT64_MAX;
    uint32_t i = 0;
    for (; bytes - i >= 8; i += 8)
        memcpy(p + i, &ones, 8);
    if ((bytes & 4) != 0) {
        memcpy(p + i, &ones, 4);
        i += 4;
    }
    for (; i < bytes; i++)
        p[i] = 0xff;
}

void access_check(gxemu_block *b, uint32_t argument, uint64_t offset, uint32_t bytes,
                  uint32_t site, uint32_t kind)
{
    Engine *e = engine_of(b);
    const EngineLaunch *l = e->launch;
    Shadow *shadow = &e->shared_shadow;
    uint64_t serial = e->race.block_serial;
    uint64_t at = offset;
    uint64_t extent = l->shared_bytes;
    if (argument != GXEMU_SHARED) {
        if (argument >= l->parameters)
            gxemu_fault(b, argument, offset, bytes, site, kind);
        shadow = l->arguments[argument].shadow;
        at += l->arguments[argument].offset;
        serial = e->race.serial;
        extent = l->extents[argument];
        if (kind != GXEMU_READ && l->arguments[argument].is_read_only)
            report_read_only(e, b, argument, offset, bytes, site, kind);
    }
    if (bytes > extent || offset > extent - bytes)
        gxemu_fault(b, argument, offset, bytes, site, kind);
    if (shadow == NULL)
        return;
    uint8_t *written = shadow->written;
    if (l->check_written && written != NULL) {
        /* an atomic on one byte puts a narrow element beside its neighbours */
        if (kind == GXEMU_WRITE || kind == GXEMU_ATOMIC_WRITE || kind == ACCESS_COPIED ||
            (kind == GXEMU_ATOMIC && bytes == 1)) {
            written_set(written + at, bytes);
        } else if (kind == ACCESS_COPY) {
            memset(written + at, 0, bytes);
        } else if (!written_all(written + at, bytes)) {
            uint64_t first = at;
            shadow_is_written(shadow, at, bytes, &first);
            report_unwritten(e, b, argument, offset, bytes, site, first - at);
        }
    }
    if (l->check_races && shadow->pages != NULL) {
        RaceConflict conflict;
        RaceKind found = race_access(shadow, &e->race, serial, thread_of(b)->index, at,
                                     bytes, site_number(site), kind, &conflict);
        if (found != RACE_NONE)
            report_race(e, b, argument, offset, bytes, site, kind, &conflict);
        bool writes = kind != GXEMU_READ && kind != ACCESS_LOOK;
        if (argument == GXEMU_SHARED && writes && kind != ACCESS_COPY)
            race_shared_written(&e->race, thread_of(b)->index);
        if (argument == GXEMU_SHARED && writes)
            tensor_check_write(b, offset, bytes, site);
    }
}

void fence_check(gxemu_block *b, uint64_t offset, uint32_t bytes, uint32_t site)
{
    Engine *e = engine_of(b);
    RaceConflict conflict;
    if (e->launch->check_races && e->shared_shadow.pages != NULL &&
        race_fenced(&e->shared_shadow, &e->race, offset, bytes, &conflict) != RACE_NONE)
        report_race(e, b, GXEMU_SHARED, offset, bytes, site, GXEMU_READ, &conflict);
}

void gxemu_fence(gxemu_block *b, uint32_t site)
{
    Engine *e = engine_of(b);
    (void)site;
    atomic_thread_fence(memory_order_seq_cst);
    if (e->launch->check_races && !race_device_fence(&e->race, thread_of(b)->index)) {
        finding_set(e->finding, FINDING_MEMORY, "no memory for the race detector");
        engine_abort(e);
    }
}

void gxemu_proxy_fence(gxemu_block *b, uint32_t site)
{
    Engine *e = engine_of(b);
    (void)site;
    if (e->launch->check_races)
        race_fence(&e->race, thread_of(b)->index);
}

void gxemu_access(gxemu_block *b, uint32_t argument, uint64_t offset, uint32_t bytes,
                  uint32_t align, uint32_t site, uint32_t kind)
{
    Engine *e = engine_of(b);
    bool is_known = argument == GXEMU_SHARED || argument < e->launch->parameters;
    if (is_known && access_address(e, argument, offset) % align != 0)
        gxemu_fault(b, argument, offset, bytes, site, kind | GXEMU_MISALIGNED);
    access_check(b, argument, offset, bytes, site, kind);
    if (argument == GXEMU_SHARED)
        banks_note(e, thread_of(b), site, offset, bytes);
}
