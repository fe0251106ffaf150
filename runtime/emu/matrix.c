/* ldmatrix and stmatrix of the emulator: 1, 2 or 4 matrices of 8 rows of 16 bytes. Lane 8 j + i names the
 * address of row i of matrix j. Lane l has a word of each matrix: 2 elements of 16 bits of row l / 4, or,
 * transposed, those of column l / 4 in rows 2 (l % 4) and the next. */
#include <string.h>

#include "runtime/emu/banks.h"
#include "runtime/emu/engine_parts.h"

enum { LANES = 32, ROWS = 8, ROW_BYTES = 16, FORM_TRANSPOSED = 8 };

typedef unsigned char Matrix[ROWS][ROW_BYTES];

unsigned char *matrix_row(Engine *e, Thread *lane, uint64_t offset, uint32_t kind)
{
    uint64_t extent = e->launch->shared_bytes;
    if (offset % ROW_BYTES != 0)
        gxemu_fault(&lane->view, GXEMU_SHARED, offset, ROW_BYTES, lane->site,
                    kind | GXEMU_MISALIGNED);
    if (extent < ROW_BYTES || offset > extent - ROW_BYTES)
        gxemu_fault(&lane->view, GXEMU_SHARED, offset, ROW_BYTES, lane->site, kind);
    if (lane->view.checks != 0)
        access_check(&lane->view, GXEMU_SHARED, offset, ROW_BYTES, lane->site, kind);
    return e->shared + offset;
}

/* Of a row that a lane names. */
static unsigned char *row_address(Engine *e, Thread *lane, uint32_t kind)
{
    return matrix_row(e, lane, lane->call.offset, kind);
}

/* Where part `part` of a lane's word lies in a matrix. */
static unsigned char *half_of(Matrix m, uint32_t lane, uint32_t part, bool is_transposed)
{
    uint32_t row = is_transposed ? lane % 4 * 2 + part : lane / 4;
    uint32_t column = is_transposed ? lane / 4 : lane % 4 * 2 + part;
    return &m[row][(size_t)2 * column];
}

static void count_banks(Engine *e, const Thread *first)
{
    uint64_t offsets[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        offsets[i] = first[i].call.offset;
    banks_count(e, first->site, offsets, ROWS, ROW_BYTES);
}

void warp_ldmatrix(Engine *e, Thread *warp)
{
    bool is_transposed = (warp->call.number & FORM_TRANSPOSED) != 0;
    for (uint32_t j = 0; j < (warp->call.number & ~(uint32_t)FORM_TRANSPOSED); j++) {
        Matrix m;
        for (uint32_t i = 0; i < ROWS; i++)
            memcpy(m[i], row_address(e, &warp[ROWS * j + i], GXEMU_READ), ROW_BYTES);
        count_banks(e, &warp[ROWS * j]);
        for (uint32_t lane = 0; lane < LANES; lane++) {
            unsigned char *word = (unsigned char *)&warp[lane].call.registers[j];
            for (uint32_t part = 0; part < 2; part++)
                memcpy(word + (size_t)2 * part, half_of(m, lane, part, is_transposed), 2);
        }
    }
}

void warp_stmatrix(Engine *e, Thread *warp)
{
    bool is_transposed = (warp->call.number & FORM_TRANSPOSED) != 0;
    for (uint32_t j = 0; j < (warp->call.number & ~(uint32_t)FORM_TRANSPOSED); j++) {
        Matrix m;
        for (uint32_t lane = 0; lane < LANES; lane++) {
            const unsigned char *word =
                (const unsigned char *)&warp[lane].call.registers[j];
            for (uint32_t part = 0; part < 2; part++)
                memcpy(half_of(m, lane, part, is_transposed), word + (size_t)2 * part, 2);
        }
        count_banks(e, &warp[ROWS * j]);
        for (uint32_t i = 0; i < ROWS; i++)
            memcpy(row_address(e, &warp[ROWS * j + i], GXEMU_WRITE), m[i], ROW_BYTES);
    }
}
