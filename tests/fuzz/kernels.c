/* HLO, passes, kernels, on the emulator: a random module, its text edited, checked in every way that must agree
 * (tests/random/check.c): printed and read, evaluated before and after each pass, compiled and run. It is right or it
 * is refused with words.
 *
 * An input is the number of the module (two bytes), how it is compiled, and edits (shared/hlo_edit.h). */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/shared/folder.h"
#include "tests/fuzz/shared/hlo_edit.h"
#include "tests/random/random.h"

enum { HEAD_BYTES = 3, SECONDS = 20 };

/* Whether all that the module computes has one right result. */
static bool is_exact(const char *text)
{
    const char *line = strchr(text, ':');
    return line != NULL && strspn(line + 1, " ") == strcspn(line + 1, "\n");
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static HloText t;
    char message[2000];
    if (size < HEAD_BYTES)
        return;
    fuzz_allow(SECONDS);
    library_folder = fuzz_folder();
    char *text = generate(data[0] | (uint64_t)data[1] << 8);
    t.size = strlen(text);
    if (t.size > HLO_TEXT_MOST / 2) {
        free(text);
        return;
    }
    memcpy(t.bytes, text, t.size + 1);
    free(text);
    hlo_edit(&t, data + HEAD_BYTES, size - HEAD_BYTES);
    Verdict v = check_module(t.bytes, data[2] / 3, data[2] % 3, message, sizeof message);
    bool is_edited = size >= HEAD_BYTES + HLO_EDIT_BYTES;
    bool is_rounding = !is_exact(t.bytes) && strstr(message, ", wanted ") != NULL;
    PROMISE(v == VERDICT_GOOD || v == VERDICT_UNSUPPORTED ||
                (is_edited && (v == VERDICT_INVALID || is_rounding)),
            "%s: %s\n%s", verdict_names[v], message, t.bytes);
}
