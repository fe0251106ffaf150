/* Edits of HLO text, one instruction a line: what is made is read again more often than not. */
#ifndef GXC_TESTS_FUZZ_HLO_EDIT_H
#define GXC_TESTS_FUZZ_HLO_EDIT_H

#include <stddef.h>
#include <stdint.h>

enum { HLO_EDIT_BYTES = 4, HLO_TEXT_MOST = 1 << 16 };

typedef struct HloText {
    char bytes[HLO_TEXT_MOST + 1];
    size_t size;
} HloText;

/* One edit for HLO_EDIT_BYTES bytes of `data`: what (EditKind), which instruction (16 bits), of what and with what.
 * Each result that was exact still is: no operation comes in whose order or method may change what it gives. */
void hlo_edit(HloText *t, const uint8_t *data, size_t size);

/* Leaves out layouts that are those of text without any, so that shapes stand alone: of a module as gxc prints it. */
void hlo_plain(HloText *t);

#endif
