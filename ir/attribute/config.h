/* backend_config, typed: what an instruction's text for the back end says by the keys of config.def.
 *
 * A text is parsed once, when the instruction gets it, and stands beside what it says: as long as no key
 * is set it is printed byte for byte as it was given, and setting one changes that key only. White space,
 * order and the quotes of names mean nothing: JSON, the text form of protobuf and MLIR's dictionaries are
 * read alike. What is none of them, or is nested too deeply, says nothing. No other file looks into texts. */
#ifndef GXC_IR_ATTRIBUTE_CONFIG_H
#define GXC_IR_ATTRIBUTE_CONFIG_H

#include "ir/base/text.h"
#include "ir/module.h"

typedef enum {
#define CONFIG(id, ...) CONFIG_##id,
#include "ir/attribute/config.def"
    CONFIG_KERNEL_FIRST, /* those of kernels, in their order */
    CONFIG_KERNEL_BEFORE = CONFIG_KERNEL_FIRST - 1,
#define KERNEL_KEY(id, ...) CONFIG_KERNEL_##id,
#include "ir/attribute/config.def"
    CONFIG_COUNT
} ConfigKey;

typedef enum {
    CONFIG_TYPE_NUMBER,
    CONFIG_TYPE_QUOTED,
    CONFIG_TYPE_FLAG,
    CONFIG_TYPE_WORD,
    CONFIG_TYPE_NUMBERS,
} ConfigType;

/* A key that the text has, in the order of the text. */
typedef struct ConfigEntry {
    ConfigKey key;
    bool is_wrong; /* the value is not of the key's type: as if it were not there */
    Bytes text;    /* the value as it stands */
    int64_t i;     /* NUMBER, QUOTED, FLAG */
    Bytes word;    /* WORD, without its quotes */
    Ints numbers;  /* NUMBERS */
} ConfigEntry;

typedef struct Config {
    Bytes text;
    bool is_object; /* the text can be read, and keys be set in it */
    uint32_t count;
    const ConfigEntry *entries; /* each key once: the first that the text has */
    Bytes
        unknown; /* the first key of the object "config" that config.def does not have */
    Bytes no_object; /* what stands instead of that object */
} Config;

/* Lives in `a`; the text is copied. */
const Config *config_parse(Arena *a, const char *text, size_t length);

/* -- instructions ------------------------------------------------------------------------------ */

/* The text as it stands, for whom it is not ours; empty: it has none. */
Bytes config_text(const Instruction *inst);
bool config_has_text(const Instruction *inst);
bool config_same(const Instruction *a, const Instruction *b); /* the same text, or none */
/* What protobuf's reader takes beside JSON, names without quotes and a comma behind the last entry, written as JSON; anything
 * else as it stands. Lives in `a`. */
Bytes config_json(const Instruction *inst, Arena *a);
/* The same, parsed; of an instruction without a text one that has nothing. */
const Config *config_of(const Instruction *inst);
/* NULL: it does not say. An entry with a wrong value is given, too. */
const ConfigEntry *config_entry(const Config *c, ConfigKey key);
const ConfigEntry *config_find(const Instruction *inst, ConfigKey key);

bool config_has(const Instruction *inst, ConfigKey key);
int64_t config_int(const Instruction *inst, ConfigKey key, int64_t absent);
bool config_flag(const Instruction *inst, ConfigKey key);
Bytes config_word(const Instruction *inst, ConfigKey key); /* empty: it does not say */
bool config_is(const Instruction *inst, ConfigKey key, const char *word);

/* Instead of the whole text; length 0: none. */
void config_set_text(Instruction *inst, const char *text, size_t length);
void config_copy(Instruction *to, const Instruction *from);

/* Sets one key and leaves the rest as it is. A text that cannot be read is replaced: who minds asks
 * config_is_open first. */
void config_set_int(Instruction *inst, ConfigKey key, int64_t value); /* NUMBER, QUOTED */
void config_set_flag(Instruction *inst, ConfigKey key, bool value);
void config_set_word(Instruction *inst, ConfigKey key, const char *word);
/* Instead of the object of this name in the outermost one. */
void config_set_object(Instruction *inst, const char *name, const char *text);
/* There is an object "config" with something in it. */
bool config_has_kernel(const Instruction *inst);
void config_remove(Instruction *inst, ConfigKey key);
void config_remove_object(Instruction *inst, const char *name);
/* It has no text, or one that keys can be set in. */
bool config_is_open(const Instruction *inst);

/* Key number i of those of kernels. */
ConfigKey config_kernel_key(int i);

#endif
