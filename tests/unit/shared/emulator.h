/* Calls of the emulated driver: what they return, and what is said of a call that is refused. */
#ifndef GXC_TESTS_UNIT_SHARED_EMULATOR_H
#define GXC_TESTS_UNIT_SHARED_EMULATOR_H

#include "runtime/emu/gxemu.h"

/* Of the last call that failed; valid until the next question. */
const char *emulator_said(void);

void ok(CUresult r);

/* The call returns this, and says why; words may be NULL. */
#define EXPECT(call, result, words) expect_result(__LINE__, call, result, words)
void expect_result(int line, CUresult got, CUresult wanted, const char *words);

#endif
