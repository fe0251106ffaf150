/* Numbers of MLIR's bytecode. */
#include "frontend/stablehlo/bytecode.h"

unsigned char bytes_byte(ByteReader *r)
{
    if (r->at < r->end)
        return *r->at++;
    r->damaged = true;
    return 0;
}

/* Zeros below the lowest bit that is set say how many bytes follow the first. */
uint64_t bytes_varint(ByteReader *r)
{
    unsigned first = bytes_byte(r);
    if ((first & 1) != 0)
        return first >> 1;
    unsigned more = 8;
    for (unsigned i = 1; first != 0 && i < 8; i++) {
        if ((first >> i & 1) != 0) {
            more = i;
            break;
        }
    }
    if (bytes_left(r) < more) {
        r->damaged = true;
        r->at = r->end;
        return 0;
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < more; i++)
        value |= (uint64_t)r->at[i] << 8 * i;
    r->at += more;
    return more == 8 ? value : (value << 8 | first) >> (more + 1);
}

int64_t bytes_signed(ByteReader *r)
{
    uint64_t value = bytes_varint(r);
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

uint64_t bytes_flagged(ByteReader *r, bool *flag)
{
    uint64_t value = bytes_varint(r);
    *flag = (value & 1) != 0;
    return value >> 1;
}

ByteReader bytes_take(ByteReader *r, uint64_t count)
{
    if (count > bytes_left(r)) {
        r->damaged = true;
        count = 0;
    }
    ByteReader part = {r->at, r->at + count, false};
    r->at += count;
    return part;
}

uint32_t bytes_count(ByteReader *r)
{
    uint64_t count = bytes_varint(r);
    if (count <= bytes_left(r) && count < UINT32_MAX / 64)
        return (uint32_t)count;
    r->damaged = true;
    return 0;
}
