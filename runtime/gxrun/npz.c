/* .npz: a zip file (APPNOTE 6.3) of .npy files, as numpy.savez writes it, without compression. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/file.h"
#include "runtime/gxrun/array_file.h"
#include "runtime/gxrun/npy.h"

enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    END_64 = 0x06064b50,
    LOCATOR_64 = 0x07064b50,
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END_64_BYTES = 56,
    LOCATOR_BYTES = 20,
    EXTRA_64 = 1 /* id of the extra field that has sizes of 64 bits */
};

static uint64_t number(const unsigned char *at, int bytes)
{
    uint64_t n = 0;
    while (bytes-- > 0) {
        n = n << 8 | at[bytes];
    }
    return n;
}

/* --- the sum of what is stored ------------------------------------------------------------ */

/* Eight bytes at a time: rest[k][b] is what a byte b leaves when k bytes have followed it. */
static uint32_t rest[8][256];

static void make_rests(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t x = b;
        for (int k = 0; k < 8; k++) {
            x = x & 1 ? x >> 1 ^ 0xedb88320 : x >> 1;
        }
        rest[0][b] = x;
    }
    for (int k = 1; k < 8; k++) {
        for (uint32_t b = 0; b < 256; b++) {
            rest[k][b] = rest[0][rest[k - 1][b] & 0xff] ^ rest[k - 1][b] >> 8;
        }
    }
}

uint32_t npz_crc(uint32_t c, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    if (rest[0][255] == 0) {
        make_rests();
    }
    c = ~c;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint32_t low = c ^ (uint32_t)number(p, 4);
        c = rest[3][p[4]] ^ rest[2][p[5]] ^ rest[1][p[6]] ^ rest[0][p[7]];
        for (int k = 0; k < 4; k++) {
            c ^= rest[7 - k][low >> 8 * k & 0xff];
        }
    }
    while (bytes-- > 0) {
        c = rest[0][(c ^ *p++) & 0xff] ^ c >> 8;
    }
    return ~c;
}

/* --- reading ----------------------------------------------------------------------------- */

typedef struct Entry {
    const char *name;
    size_t name_length;
    unsigned method;
    uint32_t crc;                  /* of the bytes as they were */
    uint64_t stored, size, offset; /* bytes as stored, as they were, and where they are */
} Entry;

/* Where the central directory is; NULL or what is wrong. */
static const char *find_directory(const ArrayFile *f, uint64_t *at, uint64_t *count)
{
    const unsigned char *b = f->bytes;
    size_t end = f->size < END_BYTES ? 0 : f->size - END_BYTES + 1;
    size_t least = end > 0xffff ? end - 0xffff : 0;
    while (end > least && number(b + end - 1, 4) != END) {
        end--;
    }
    if (end == least) {
        return "the zip file has no end: it is cut off";
    }
    end--;
    *count = number(b + end + 10, 2);
    *at = number(b + end + 16, 4);
    if (end < LOCATOR_BYTES || number(b + end - LOCATOR_BYTES, 4) != LOCATOR_64) {
        return NULL;
    }
    uint64_t far = number(b + end - LOCATOR_BYTES + 8, 8);
    if (f->size < END_64_BYTES || far > f->size - END_64_BYTES ||
        number(b + far, 4) != END_64) {
        return "the end of the zip file is damaged";
    }
    *count = number(b + far + 32, 8);
    *at = number(b + far + 48, 8);
    return NULL;
}

/* Sizes that are all ones stand in the extra field, in this order. */
static bool read_extra(const unsigned char *extra, size_t bytes, Entry *e)
{
    while (bytes >= 4) {
        size_t length = number(extra + 2, 2);
        if (length > bytes - 4) {
            return false;
        }
        if (number(extra, 2) == EXTRA_64) {
            uint64_t *fields[] = {&e->size, &e->stored, &e->offset};
            size_t at = 0;
            for (size_t i = 0; i < 3; i++) {
                if (*fields[i] == UINT32_MAX && at + 8 <= length) {
                    *fields[i] = number(extra + 4 + at, 8);
                    at += 8;
                }
            }
        }
        extra += 4 + length;
        bytes -= 4 + length;
    }
    return true;
}

/* The entry at `*at`, which moves on. */
static bool read_entry(const ArrayFile *f, uint64_t *at, Entry *e)
{
    if (f->size < CENTRAL_BYTES || *at > f->size - CENTRAL_BYTES) {
        return false;
    }
    const unsigned char *b = f->bytes + *at;
    size_t name = number(b + 28, 2);
    size_t extra = number(b + 30, 2);
    size_t all = CENTRAL_BYTES + name + extra + number(b + 32, 2);
    if (number(b, 4) != CENTRAL || all > f->size - *at) {
        return false;
    }
    *e = (Entry){.name = (const char *)b + CENTRAL_BYTES,
                 .name_length = name,
                 .method = (unsigned)number(b + 10, 2),
                 .crc = (uint32_t)number(b + 16, 4),
                 .stored = number(b + 20, 4),
                 .size = number(b + 24, 4),
                 .offset = number(b + 42, 4)};
    *at += all;
    return read_extra(b + CENTRAL_BYTES + name, extra, e);
}

/* Where the bytes of an entry are, behind a header of their own. */
static bool find_data(const ArrayFile *f, const Entry *e, uint64_t *out)
{
    if (f->size < LOCAL_BYTES || e->offset > f->size - LOCAL_BYTES ||
        number(f->bytes + e->offset, 4) != LOCAL) {
        return false;
    }
    const unsigned char *b = f->bytes + e->offset;
    uint64_t start = e->offset + LOCAL_BYTES + number(b + 26, 2) + number(b + 28, 2);
    *out = start;
    return start <= f->size && e->stored <= f->size - start;
}

static bool ends_in_npy(const Entry *e)
{
    return e->name_length > 4 && memcmp(e->name + e->name_length - 4, ".npy", 4) == 0;
}

bool npz_list(ArrayFile *f, char *error, size_t error_size)
{
    uint64_t at;
    uint64_t count;
    uint64_t data;
    const char *wrong = find_directory(f, &at, &count);
    for (uint64_t i = 0; i < count && !wrong; i++) {
        Entry e;
        if (!read_entry(f, &at, &e) || !find_data(f, &e, &data) ||
            memchr(e.name, 0, e.name_length)) {
            wrong = "the directory of the zip file is damaged";
        } else if (ends_in_npy(&e)) {
            StoredArray a = {.data = f->bytes + data,
                             .bytes = (size_t)e.stored,
                             .is_npy = true,
                             .has_crc = true,
                             .crc = e.crc,
                             .refused = e.method
                                            ? "not supported: it is compressed; save it "
                                              "with numpy.savez"
                                            : NULL};
            wrong = array_file_add(f, e.name, e.name_length - 4, a) ? NULL : "no memory";
        }
    }
    if (wrong) {
        snprintf(error, error_size, "%s: %s", f->path, wrong);
    }
    return !wrong;
}

/* --- writing ----------------------------------------------------------------------------- */

static unsigned char *put(unsigned char *to, uint64_t n, int bytes)
{
    while (bytes-- > 0) {
        *to++ = (unsigned char)n;
        n >>= 8;
    }
    return to;
}

/* What a file of the archive takes besides its elements. */
typedef struct Member {
    unsigned char local[LOCAL_BYTES];
    unsigned char central[CENTRAL_BYTES];
    unsigned char local_extra[20];   /* sizes of 64 bits */
    unsigned char central_extra[28]; /* and the offset */
    char header[NPY_HEADER + 64];
    size_t header_bytes;
    char *name;
    size_t name_bytes;
} Member;

static bool make_member(Member *m, const WrittenArray *a, uint64_t offset)
{
    m->name_bytes = strlen(a->name) + 4;
    m->name = malloc(m->name_bytes + 1);
    if (!m->name) {
        return false;
    }
    snprintf(m->name, m->name_bytes + 1, "%s.npy", a->name);
    m->header_bytes = npy_header(a->dtype, a->rank, a->dims, m->header, NPY_HEADER);
    uint64_t size = m->header_bytes + a->bytes;
    uint32_t sum = npz_crc(npz_crc(0, m->header, m->header_bytes), a->data, a->bytes);
    unsigned char *to = put(m->local, LOCAL, 4);
    to = put(to, 45, 2);       /* version needed: 64 bits */
    to = put(to, 0x800, 2);    /* names are UTF-8 */
    to = put(to, 0, 2);        /* stored */
    to = put(to, 0x210000, 4); /* 1980-01-01 */
    to = put(to, sum, 4);
    to = put(to, UINT32_MAX, 4);
    to = put(to, UINT32_MAX, 4);
    to = put(to, m->name_bytes, 2);
    put(to, 20, 2);
    to = put(put(m->local_extra, EXTRA_64, 2), 16, 2);
    put(put(to, size, 8), size, 8);
    to = put(put(m->central_extra, EXTRA_64, 2), 24, 2);
    put(put(put(to, size, 8), size, 8), offset, 8);
    to = put(m->central, CENTRAL, 4);
    to = put(to, 45, 2);
    memcpy(to, m->local + 4, LOCAL_BYTES - 4); /* version to length of the extra field */
    put(m->central + 30, 28, 2);
    put(m->central + 32, 0, 10); /* no comment, first disk, no attributes */
    put(m->central + 42, UINT32_MAX, 4);
    return true;
}

static size_t put_end(unsigned char *end, uint64_t count, uint64_t bytes, uint64_t at)
{
    unsigned char *to = put(end, END_64, 4);
    to = put(to, END_64_BYTES - 12, 8);
    to = put(put(to, 45, 2), 45, 2);
    to = put(to, 0, 8);
    to = put(put(to, count, 8), count, 8);
    to = put(put(to, bytes, 8), at, 8);
    to = put(to, LOCATOR_64, 4);
    to = put(to, 0, 4);
    to = put(to, at + bytes, 8);
    to = put(to, 1, 4);
    to = put(to, END, 4);
    to = put(to, 0, 4);
    to = put(put(to, 0xffff, 2), 0xffff, 2);
    to = put(put(to, UINT32_MAX, 4), UINT32_MAX, 4);
    to = put(to, 0, 2);
    return (size_t)(to - end);
}

/* The files of the archive; `*bytes` of them all. */
static FilePart *add_files(FilePart *to, Member *members, const WrittenArray *arrays,
                           size_t count, uint64_t *bytes)
{
    for (size_t i = 0; i < count; i++) {
        Member *m = &members[i];
        if (!make_member(m, &arrays[i], *bytes)) {
            return NULL;
        }
        *to++ = (FilePart){m->local, sizeof m->local};
        *to++ = (FilePart){m->name, m->name_bytes};
        *to++ = (FilePart){m->local_extra, sizeof m->local_extra};
        *to++ = (FilePart){m->header, m->header_bytes};
        *to++ = (FilePart){arrays[i].data, arrays[i].bytes};
        *bytes += sizeof m->local + m->name_bytes + sizeof m->local_extra +
                  m->header_bytes + arrays[i].bytes;
    }
    return to;
}

static FilePart *add_directory(FilePart *to, const Member *members, size_t count,
                               uint64_t *bytes)
{
    for (size_t i = 0; i < count; i++) {
        const Member *m = &members[i];
        *to++ = (FilePart){m->central, sizeof m->central};
        *to++ = (FilePart){m->name, m->name_bytes};
        *to++ = (FilePart){m->central_extra, sizeof m->central_extra};
        *bytes += sizeof m->central + m->name_bytes + sizeof m->central_extra;
    }
    return to;
}

int npz_write(const char *path, const WrittenArray *arrays, size_t count)
{
    Member *members = calloc(count ? count : 1, sizeof *members);
    FilePart *parts = calloc(count * 8 + 1, sizeof *parts);
    unsigned char end[END_64_BYTES + LOCATOR_BYTES + END_BYTES];
    uint64_t files = 0;
    uint64_t directory = 0;
    int code = ENOMEM;
    FilePart *to =
        members && parts ? add_files(parts, members, arrays, count, &files) : NULL;
    if (to) {
        to = add_directory(to, members, count, &directory);
        *to++ = (FilePart){end, put_end(end, count, directory, files)};
        code = file_write(path, parts, (size_t)(to - parts));
    }
    for (size_t i = 0; members && i < count; i++) {
        free(members[i].name);
    }
    free(members);
    free(parts);
    return code;
}
