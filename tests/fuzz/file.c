/* The file that a program lies in: its plans edited, with the hashes that they must have, then header, table of
 * sections, names and bytes of the file, and its length. Opened from the disk or from memory it is refused with
 * words, or says all of itself, and a session for each of its variants is made or refused. Nothing is run.
 *
 * An input is a head (HeadByte), edits of plans (shared/edit.h), then edits of the file of FILE_EDIT_BYTES. */
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/gxrt.h"
#include "runtime/plan/elf.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/shared/edit.h"
#include "tests/fuzz/shared/folder.h"
#include "tests/fuzz/shared/look.h"
#include "tests/unit/shared/artefact.h"

static const char *const names[] = {"variants", "loop", "collectives", "block-scaled"};
enum {
    PROGRAMS = sizeof names / sizeof *names,
    VARIANTS_MOST = 3,
    SECTIONS_MOST = 16,
    NAME_BYTES = 32,
    SECONDS = 5
};

typedef enum HeadByte {
    HEAD_PROGRAM,
    HEAD_SOURCE, /* Source; from HEAD_SEALED on, plans' own hashes are made right at the end */
    HEAD_VARIANT,    /* whose plan is edited */
    HEAD_PLAN_EDITS, /* how many */
    HEAD_BYTES,
    HEAD_SEALED = 128
} HeadByte;

typedef enum Source {
    SOURCE_MEMORY,
    SOURCE_UNALIGNED, /* memory that does not begin where plans may */
    SOURCE_FILE,
    SOURCE_FOLDER,
    SOURCE_NOWHERE,
    SOURCES
} Source;

typedef enum FileEditByte {
    EDIT_WHAT,
    EDIT_SECTION,
    EDIT_AT,    /* times the width */
    EDIT_WIDTH, /* log2; with 4, the number is added */
    EDIT_NUMBER,
    FILE_EDIT_BYTES = EDIT_NUMBER + 2
} FileEditByte;

typedef enum FileEdit {
    FILE_HEADER,
    FILE_TABLE, /* a section's row */
    FILE_NAMES, /* a section is called as another */
    FILE_SWAP,  /* two rows */
    FILE_SECTION,
    FILE_CUT,
    FILE_EDITS
} FileEdit;

static struct {
    void *file;
    size_t size;
} programs[PROGRAMS];

/* A file, with space behind it for one that does not begin at its start. */
typedef struct File {
    unsigned char *bytes;
    size_t size;
} File;

/* --- plans --------------------------------------------------------------------------------- */

static void section_name(char out[NAME_BYTES], const char *name, size_t variant)
{
    if (variant == 0)
        snprintf(out, NAME_BYTES, "%s", name);
    else
        snprintf(out, NAME_BYTES, "%s.%zu", name, variant);
}

/* The plan of a variant, edited if it is the one that the input names; the caller's to free. False: no memory. */
static bool make_plan(const PlanElfSection *s, const uint8_t *edits, size_t size,
                      PlanElfSection *out)
{
    char error[512];
    Plan plan;
    PlanBuilder b;
    void *bytes;
    PROMISE(plan_read(&plan, s->bytes, s->size, error, sizeof error), "%s", error);
    edit_open(&b, &plan);
    edit_apply(&b, edits, size);
    bool ok = !b.failed && plan_write(&b, &bytes, &out->size);
    out->bytes = ok ? bytes : NULL;
    plan_builder_deinit(&b);
    return ok;
}

/* The program again, of its parts; the cubin that the file is stays the first. */
static bool make_file(int which, const uint8_t *head, const uint8_t *edits, size_t size,
                      File *out)
{
    static const char *const kept[] = {PLAN_ELF_EMU, PLAN_ELF_CUBIN, PLAN_ELF_IMAGES,
                                       PLAN_ELF_CONST, PLAN_ELF_HLO};
    char called[SECTIONS_MOST][NAME_BYTES];
    PlanElfSection s[SECTIONS_MOST];
    void *plans[VARIANTS_MOST] = {NULL}, *file = NULL;
    size_t count = 0, variants = 0, first_bytes = 0;
    Plan first;
    char error[512];
    const char *why;
    bool ok = true;
    for (; variants < VARIANTS_MOST && ok; variants++) {
        section_name(called[count], PLAN_ELF_PLAN, variants);
        if (!plan_elf_find(programs[which].file, programs[which].size, called[count],
                           &s[count]))
            break;
        bool is_it = head[HEAD_VARIANT] % VARIANTS_MOST == variants;
        if (variants == 0) {
            PROMISE(plan_read(&first, s[0].bytes, s[0].size, error, sizeof error), "%s",
                    error);
            first_bytes = first.info->cubin_bytes;
        }
        ok = make_plan(&s[count], edits, is_it ? size : 0, &s[count]);
        plans[variants] = (void *)(uintptr_t)s[count].bytes;
        count++;
        for (size_t i = 0; i < sizeof kept / sizeof *kept && count + 1 < SECTIONS_MOST;
             i++) {
            section_name(called[count], kept[i], variants);
            count += plan_elf_find(programs[which].file, programs[which].size,
                                   called[count], &s[count]);
        }
    }
    unsigned char *cubin = malloc(first_bytes);
    PROMISE(variants != 0 && cubin != NULL, "no plan, or no memory");
    memcpy(cubin, programs[which].file, first_bytes);
    memcpy(cubin, first.info->elf_header, sizeof first.info->elf_header);
    ok = ok && plan_elf_append(cubin, first_bytes, s, count, &file, &out->size, &why);
    out->bytes = file;
    free(cubin);
    for (size_t i = 0; i < variants; i++)
        free(plans[i]);
    return ok;
}

/* --- the file ------------------------------------------------------------------------------ */

static void change(unsigned char *at, size_t left, const uint8_t edit[FILE_EDIT_BYTES])
{
    size_t width = (size_t)1 << edit[EDIT_WIDTH] % 4, offset = edit[EDIT_AT] * width;
    uint64_t value = 0;
    int64_t number = (int16_t)(edit[EDIT_NUMBER] | edit[EDIT_NUMBER + 1] << 8);
    if (left < width || offset > left - width)
        return;
    memcpy(&value, at + offset, width);
    value = (edit[EDIT_WIDTH] & 4 ? value : 0) + (uint64_t)number;
    memcpy(at + offset, &value, width);
}

static void edit_table(File *f, const Elf64_Ehdr *h, const uint8_t edit[FILE_EDIT_BYTES])
{
    size_t row = edit[EDIT_SECTION] % h->e_shnum, other = edit[EDIT_AT] % h->e_shnum;
    unsigned char *rows = f->bytes + h->e_shoff;
    Elf64_Shdr one, two;
    memcpy(&one, rows + row * sizeof one, sizeof one);
    memcpy(&two, rows + other * sizeof two, sizeof two);
    switch ((FileEdit)(edit[EDIT_WHAT] % FILE_EDITS)) {
    case FILE_TABLE:
        change(rows + row * sizeof one, sizeof one, edit);
        break;
    case FILE_NAMES:
        memcpy(rows + row * sizeof one + offsetof(Elf64_Shdr, sh_name), &two.sh_name,
               sizeof two.sh_name);
        break;
    case FILE_SWAP:
        memcpy(rows + row * sizeof one, &two, sizeof two);
        memcpy(rows + other * sizeof two, &one, sizeof one);
        break;
    case FILE_SECTION:
        if (one.sh_offset <= f->size && one.sh_size <= f->size - one.sh_offset)
            change(f->bytes + one.sh_offset, one.sh_size, edit);
        break;
    case FILE_HEADER:
    case FILE_CUT:
    case FILE_EDITS:
        break;
    }
}

static void edit_file(File *f, const uint8_t edit[FILE_EDIT_BYTES])
{
    Elf64_Ehdr h;
    FileEdit what = (FileEdit)(edit[EDIT_WHAT] % FILE_EDITS);
    size_t number = edit[EDIT_NUMBER] | (size_t)edit[EDIT_NUMBER + 1] << 8;
    if (what == FILE_CUT) {
        f->size =
            edit[EDIT_AT] % 2 ? number % (f->size + 1) : f->size - number % (f->size + 1);
        return;
    }
    if (f->size < sizeof h)
        return;
    if (what == FILE_HEADER) {
        change(f->bytes, sizeof h, edit);
        return;
    }
    memcpy(&h, f->bytes, sizeof h);
    if (h.e_shnum != 0 && h.e_shoff <= f->size &&
        h.e_shnum * sizeof(Elf64_Shdr) <= f->size - h.e_shoff)
        edit_table(f, &h, edit);
}

/* What the header of a plan and its table of sections say is looked at only where their hash is right. */
static void seal_plans(const File *f)
{
    char name[NAME_BYTES];
    PlanElfSection s;
    for (size_t i = 0; i < VARIANTS_MOST; i++) {
        section_name(name, PLAN_ELF_PLAN, i);
        if (!plan_elf_find(f->bytes, f->size, name, &s) || s.size < sizeof(PlanHeader) ||
            (uintptr_t)s.bytes % _Alignof(PlanHeader) != 0)
            continue;
        PlanHeader *h = (PlanHeader *)(uintptr_t)s.bytes;
        if (h->section_count <= (s.size - sizeof *h) / sizeof(PlanSection))
            plan_seal(h);
    }
}

static gxrt_status open_from_disk(const File *f, Source source, gxrt_program **out)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/gxrt-fuzz-file-%ld", (long)getpid());
    if (source == SOURCE_FOLDER) {
        PROMISE(mkdir(path, 0700) == 0, "no folder %s", path);
    } else if (source == SOURCE_FILE) {
        int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
        PROMISE(fd >= 0 && write(fd, f->bytes, f->size) == (ssize_t)f->size, "%s", path);
        close(fd);
    }
    gxrt_status st = gxrt_program_open(path, out);
    PROMISE(source == SOURCE_FILE || st != GXRT_OK, "%s is no program", path);
    (void)(source == SOURCE_FOLDER ? rmdir(path) : unlink(path));
    return st;
}

/* --- one input ----------------------------------------------------------------------------- */

static void try_sessions(const gxrt_program *p)
{
    gxrt_program_info info = {.struct_size = sizeof info};
    gxrt_variant_info v = {.struct_size = sizeof v};
    PROMISE(gxrt_program_get_info(p, &info) == GXRT_OK, "no program");
    for (size_t i = 0; i < info.variant_count; i++) {
        char device[600];
        PROMISE(gxrt_program_get_variant(p, i, &v) == GXRT_OK, "no variant");
        snprintf(device, sizeof device, "emu:%s", v.target);
        gxrt_session_options o = {.struct_size = sizeof o,
                                  .device = device,
                                  .allow_native = 1,
                                  .library_path = fuzz_folder(),
                                  .exact_emulated_devices = 2,
                                  .timeout_seconds = 1};
        gxrt_session *s;
        gxrt_status st = gxrt_session_create(p, &o, &s);
        PROMISE((st == GXRT_OK) == (s != NULL) &&
                    (st == GXRT_OK || gxrt_last_error()[0] != '\0'),
                "%s: status %s", device, gxrt_status_name(st));
        gxrt_session_destroy(s);
    }
}

static void open_and_look(const File *f, Source source, bool is_edited)
{
    gxrt_program *p;
    size_t by = source == SOURCE_UNALIGNED;
    unsigned char *copy = malloc(f->size + by); /* a sanitizer sees where it ends */
    PROMISE(copy != NULL || f->size + by == 0, "no memory");
    memcpy(copy + by, f->bytes, f->size);
    gxrt_status st = source <= SOURCE_UNALIGNED
                         ? gxrt_program_open_memory(copy + by, f->size, &p)
                         : open_from_disk(f, source, &p);
    PROMISE((st == GXRT_OK) == (p != NULL), "a program that was refused");
    PROMISE(st == GXRT_OK || gxrt_last_error()[0] != '\0', "refused without a word");
    PROMISE(st == GXRT_OK || is_edited || source > SOURCE_FILE, "%s", gxrt_last_error());
    if (st == GXRT_OK) {
        look_program(p);
        try_sessions(p);
    }
    gxrt_program_destroy(p);
    free(copy);
}

static void set_up(void)
{
    setenv("GXEMU_MEMORY", "100000000", 1);
    setenv("GXEMU_WORKERS", "1", 1);
    for (int i = 0; i < PROGRAMS; i++)
        programs[i].file = look_read(names[i], &programs[i].size);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    File f;
    if (programs[0].file == NULL)
        set_up();
    if (size < HEAD_BYTES)
        return;
    fuzz_allow(SECONDS);
    size_t all = size - HEAD_BYTES, in_plan = data[HEAD_PLAN_EDITS] * (size_t)EDIT_BYTES;
    in_plan = in_plan < all ? in_plan : all;
    const uint8_t *edits = data + HEAD_BYTES;
    if (!make_file(data[HEAD_PROGRAM] % PROGRAMS, data, edits, in_plan, &f))
        return;
    bool is_edited = all >= EDIT_BYTES;
    for (size_t at = in_plan; at + FILE_EDIT_BYTES <= all; at += FILE_EDIT_BYTES)
        edit_file(&f, edits + at);
    if (data[HEAD_SOURCE] >= HEAD_SEALED)
        seal_plans(&f);
    open_and_look(&f, (Source)(data[HEAD_SOURCE] % HEAD_SEALED % SOURCES), is_edited);
    free(f.bytes);
}
