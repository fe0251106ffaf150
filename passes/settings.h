/* Switches and thresholds of passes. See settings.def. */
#ifndef GXC_PASSES_SETTINGS_H
#define GXC_PASSES_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "passes/pass.h"

/* Values of settings with words for values: off, on, default, explicit. */
typedef enum { MODE_OFF, MODE_ON, MODE_DEFAULT, MODE_EXPLICIT } SettingMode;

struct PassSettings {
#define SETTING(field, name, value, least, most, doc) int64_t field;
#include "passes/settings.def"
    int64_t level;           /* of optimisation, for passes that do more at -O2 */
    bool cublaslt, cusolver; /* may be called */
    bool tf32; /* may make products of f32 where the program leaves it open */
};

/* A row of the table. */
typedef struct Setting {
    const char *name;
    size_t offset; /* of its field in PassSettings */
    int64_t value, least, most;
    const char *doc;
} Setting;

typedef enum { SETTING_OK, SETTING_UNKNOWN, SETTING_BAD_VALUE } SettingStatus;

void settings_init(PassSettings *s);
/* "option-name=value"; value: an integer, or true, false, or the word of a mode. */
SettingStatus settings_set(PassSettings *s, const char *text);
/* Row i of the table; NULL: there are fewer. */
const Setting *settings_row(size_t i);
/* All values as "name=value ...", for the plan's record of options. */
size_t settings_text(const PassSettings *s, char *out, size_t size);

#endif
