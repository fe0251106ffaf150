/* See container.h. Sizes and offsets of files are checked before use; what grows is bounded. */
#include "frontend/input/container.h"

#include <string.h>
#include <zlib.h>

enum { MAX_LAYERS = 4 };
#define MAX_BYTES (UINT32_MAX - 8u) /* of what comes out: positions are 32 bits */

/* -- gzip ---------------------------------------------------------------------------------- */

static bool is_gzip(const Diag *d)
{
    return d->length > 2 && memcmp(d->text, "\x1f\x8b\x08", 3) == 0;
}

/* One member; the input goes on behind it. Z_OK: it is whole. */
static int inflate_member(z_stream *z, Arena *a, size_t most, char **data,
                          size_t *capacity, size_t *length)
{
    int st = Z_OK;
    while (st == Z_OK) {
        *data = arena_grow(a, *data, capacity, *length + 65536, 1);
        size_t available = *capacity - *length;
        z->avail_out = available < 1u << 30 ? (uInt)available : 1u << 30;
        z->next_out = (unsigned char *)*data + *length;
        size_t before = z->avail_out;
        st = inflate(z, Z_NO_FLUSH);
        *length += before - z->avail_out;
        if (*length > most)
            return Z_MEM_ERROR;
    }
    return st == Z_STREAM_END ? Z_OK : st;
}

static const char *too_large(Arena *a, size_t most)
{
    return most == MAX_BYTES ? "larger than 4 GiB"
           : most % (1 << 20) == 0
               ? arena_printf(a, "larger than %zu MiB; --max-input=MIB allows more",
                              most >> 20)
               : arena_printf(a, "larger than the %zu bytes of max_unpacked_bytes", most);
}

static bool open_gzip(Diag *d, size_t most)
{
    char *data = NULL;
    size_t capacity = 0, length = 0;
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)d->text,
                  .avail_in = (uInt)d->length};
    int st = d->length <= MAX_BYTES ? inflateInit2(&z, 15 + 16) : Z_MEM_ERROR;
    while (st == Z_OK && z.avail_in > 0) {
        st = inflate_member(&z, d->arena, most, &data, &capacity, &length);
        if (st == Z_OK && inflateReset(&z) != Z_OK)
            st = Z_DATA_ERROR;
    }
    inflateEnd(&z);
    if (st != Z_OK) {
        diag_error(d, (Span){0, 0}, "this file is compressed with gzip, but is %s",
                   st == Z_MEM_ERROR   ? too_large(d->arena, most)
                   : st == Z_BUF_ERROR ? "cut off"
                                       : "damaged");
        return false;
    }
    d->text = arena_text(d->arena, data, length);
    d->length = length;
    return true;
}

/* -- flatbuffers --------------------------------------------------------------------------- */

/* A little-endian number of the file; 0 where it would be beyond the end. */
static uint32_t number_at(const Diag *d, uint64_t at, unsigned bytes)
{
    uint32_t value = 0;
    for (unsigned i = 0; at + bytes <= d->length && i < bytes; i++)
        value |= (uint32_t)(unsigned char)d->text[at + i] << 8 * i;
    return value;
}

/* The vector of bytes that begins as MLIR's bytecode, among the fields of the root table; whichever field it
 * is, so that versions of the schema do not matter. */
static const char *find_bytecode(const Diag *d, size_t *length)
{
    uint64_t table = number_at(d, 0, 4);
    int64_t vtable = (int64_t)table - (int32_t)number_at(d, table, 4);
    if (d->length < 16 || table < 4 || table > d->length - 4 || vtable < 4 ||
        (uint64_t)vtable > d->length - 4)
        return NULL;
    unsigned size = number_at(d, (uint64_t)vtable, 2);
    for (unsigned field = 4; field + 1 < size; field += 2) {
        unsigned offset = number_at(d, (uint64_t)vtable + field, 2);
        uint64_t at = table + offset;
        if (offset == 0 || at + 4 > d->length)
            continue;
        uint64_t vector = at + number_at(d, at, 4);
        uint64_t count = number_at(d, vector, 4);
        if (count < 4 || vector + 4 > d->length || count > d->length - vector - 4 ||
            memcmp(d->text + vector + 4, "ML\xefR", 4) != 0)
            continue;
        *length = count;
        return d->text + vector + 4;
    }
    return NULL;
}

bool container_open(Diag *d, size_t most)
{
    if (most == 0 || most > MAX_BYTES)
        most = MAX_BYTES;
    for (int i = 0; i < MAX_LAYERS && is_gzip(d); i++)
        if (!open_gzip(d, most))
            return false;
    size_t length;
    const char *inner = find_bytecode(d, &length);
    if (inner != NULL) {
        d->text = inner;
        d->length = length;
    }
    return true;
}
