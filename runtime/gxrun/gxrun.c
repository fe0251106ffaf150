/* gxrun: runs a program that gxc compiled, or HLO, and shows and compares its results. */
#include "runtime/gxrun/gxrun.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/file.h"
#include "runtime/gxrun/feed.h"
#include "runtime/gxrun/names.h"
#include "runtime/gxrun/npy.h"
#include "runtime/gxrun/sandbox.h"

/* Names in it may come from files, and must not tell a terminal what to do. There may be no memory. */
int complain(int code, const char *format, ...)
{
    enum { MOST = 1 << 14 };
    char text[MOST];
    va_list args;
    fflush(stdout);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_make_plain(text, "\n\t");
    fprintf(stderr, "gxrun: error: %s\n", text);
    return code;
}

void *allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p) {
        exit(complain(EXIT_WRONG, "no memory for %zu x %zu bytes", count, size));
    }
    return p;
}

char *text_copy(const char *text)
{
    return strcpy(allocate(strlen(text) + 1, 1), text);
}

void free_arrays(void **arrays, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(arrays[i]);
    }
    free(arrays);
}

bool leaf_set(Leaf *leaf, const char *name, const char *dtype, uint32_t rank,
              const int64_t *dims)
{
    leaf->name = text_copy(name);
    leaf->rank = rank;
    leaf->dims = allocate(rank, sizeof *dims);
    if (rank) {
        memcpy(leaf->dims, dims, rank * sizeof *dims);
    }
    for (int t = DT_INVALID + 1; t < DT_TUPLE; t++) {
        if (strcmp(dtype_info[t].name, dtype) == 0) {
            leaf->dtype = (DType)t;
        }
    }
    if (leaf->dtype == DT_INVALID || dtype_info[leaf->dtype].storage == 0 || rank > 64 ||
        !npy_elements(leaf->dtype, rank, dims, &leaf->elements)) {
        return false;
    }
    leaf->bytes = leaf->elements * dtype_info[leaf->dtype].storage;
    return true;
}

const char *leaf_label(const Leaf *leaf)
{
    return leaf->path ? leaf->path : leaf->name;
}

static void leaves_free(Leaf *leaves, size_t count)
{
    for (size_t i = 0; leaves && i < count; i++) {
        free(leaves[i].name);
        free(leaves[i].path);
        free(leaves[i].dims);
    }
    free(leaves);
}

static void signature_free(Signature *s)
{
    leaves_free(s->parameters, s->parameter_count);
    leaves_free(s->results, s->result_count);
    memset(s, 0, sizeof *s);
}

static bool read_file(const Options *o, const char *path, Bytes *out, char *error,
                      size_t error_size)
{
    size_t mib = o->most_mib ? o->most_mib : FILE_MOST_MIB;
    int code = file_read(path, mib << 20, &out->data, &out->size);
    if (code == EFBIG) {
        snprintf(error, error_size,
                 "%s: it has more than %zu MiB; --max-input=MIB allows more", path, mib);
    } else if (code) {
        snprintf(error, error_size, "%s: %s", path, strerror(code));
    }
    return code == 0;
}

static bool is_elf(const Bytes *b)
{
    return b->size >= 4 && memcmp(b->data, "\177ELF", 4) == 0;
}

/* Compiled programs are mapped, not read: they may hold gigabytes of constants. Of a pipe nothing is taken. */
static bool is_elf_file(const char *path)
{
    char start[4];
    struct stat st;
    int fd = strcmp(path, "-") == 0 ? -1 : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool elf = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
               read(fd, start, 4) == 4 && memcmp(start, "\177ELF", 4) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return elf;
}

/* What is run: a compiled program, or HLO, or both. */
typedef struct Subject {
    Bytes file;            /* the program as given */
    Bytes made;            /* the artefact that was compiled from it */
    gxrt_program *program; /* NULL: only HLO, for --device=ref */
    Bytes hlo;             /* `data` NULL: none */
    const char *hlo_path;
    bool owns_hlo;
} Subject;

static void subject_close(Subject *s)
{
    gxrt_program_destroy(s->program);
    free(s->file.data);
    free(s->made.data);
    if (s->owns_hlo) {
        free(s->hlo.data);
    }
}

/* The HLO of --hlo, or the one that the artefact carries. */
static int find_hlo(const Options *o, Subject *s)
{
    char error[512];
    gxrt_program_info info = {.struct_size = sizeof info};
    if (o->hlo) {
        s->owns_hlo = true;
        s->hlo_path = o->hlo;
        return read_file(o, o->hlo, &s->hlo, error, sizeof error)
                   ? EXIT_DONE
                   : complain(EXIT_WRONG, "%s", error);
    }
    if (s->program && gxrt_program_get_info(s->program, &info) == GXRT_OK && info.hlo) {
        s->owns_hlo = true;
        s->hlo_path = o->program;
        s->hlo = (Bytes){allocate(info.hlo_size, 1), info.hlo_size};
        memcpy(s->hlo.data, info.hlo, info.hlo_size);
    }
    return EXIT_DONE;
}

static int open_artefact(const Options *o, Subject *s)
{
    const Bytes *b = s->made.data ? &s->made : &s->file;
    gxrt_status st = b->data ? gxrt_program_open_memory(b->data, b->size, &s->program)
                             : gxrt_program_open(o->program, &s->program);
    if (st != GXRT_OK) {
        return complain(st == GXRT_UNSUPPORTED ? EXIT_NOT_SUPPORTED : EXIT_WRONG, "%s",
                        gxrt_last_error());
    }
    return EXIT_DONE;
}

static int subject_open(const Options *o, Subject *s)
{
    char error[512];
    bool ref = strcmp(o->device, "ref") == 0;
    bool elf = is_elf_file(o->program);
    if (!elf && !read_file(o, o->program, &s->file, error, sizeof error)) {
        return complain(EXIT_WRONG, "%s", error);
    }
    if (elf || is_elf(&s->file)) {
        int code = open_artefact(o, s);
        code = code == EXIT_DONE ? find_hlo(o, s) : code;
        if (code == EXIT_DONE && !s->hlo.data && (ref || o->compare_ref)) {
            code = complain(EXIT_WRONG,
                            "the reference evaluator needs the HLO: give --hlo=FILE, "
                            "or compile with --embed-hlo");
        }
        return code;
    }
    if (s->file.size == 0) {
        return complain(EXIT_WRONG, "%s: the file is empty", o->program);
    }
    s->hlo = s->file;
    s->hlo_path = o->program;
    int found = o->hlo ? find_hlo(o, s) : EXIT_DONE;
    if (ref || found != EXIT_DONE) {
        return found;
    }
    int code = compiler_compile(o, o->program, &s->file, &s->made);
    return code == EXIT_DONE ? open_artefact(o, s) : code;
}

static int check_hash(const Options *o, const Subject *s, const Signature *program)
{
    Options plain = {
        .device = o->device, .replicas = o->replicas, .partitions = o->partitions};
    Signature hlo;
    int code = compiler_signature(&plain, s->hlo_path, &s->hlo, &hlo);
    if (code == EXIT_DONE && (hlo.parameter_count != program->parameter_count ||
                              hlo.result_count != program->result_count)) {
        code = complain(EXIT_WRONG, "%s is another program than %s", s->hlo_path,
                        o->program);
    } else if (code == EXIT_DONE &&
               memcmp(hlo.hash, program->hash, sizeof hlo.hash) != 0) {
        fprintf(stderr, "gxrun: warning: %s was compiled from another module than %s\n",
                o->program, s->hlo_path);
    }
    signature_free(&hlo);
    return code;
}

/* Results beyond the usual tolerance may still be as good as the reference's: sums whose terms
 * cancel, numbers at the edge between two of a narrow type. So the reference is rounded at random
 * until its results have moved as far, or often enough. NULL: not needed, or the user has said
 * what is to be allowed. */
static double **allow_rounding(const Options *o, const Subject *s,
                               const Signature *signature, void *const *inputs,
                               void *const *outputs, void *const *wanted)
{
    enum { TIMES = 8 };
    if (o->has_rtol || o->has_atol ||
        compare_results(o, signature, outputs, wanted, NULL, false)) {
        return NULL;
    }
    size_t count = signature->devices * signature->result_count;
    double **moves = compare_moves(signature);
    bool equal = false;
    int code = EXIT_DONE;
    for (uint32_t i = 1; i <= TIMES && code == EXIT_DONE && !equal; i++) {
        void **other = allocate(count, sizeof *other);
        code = compiler_evaluate(o, s->hlo_path, &s->hlo, signature, i, inputs, other);
        if (code == EXIT_DONE) {
            compare_add_moves(signature, moves, wanted, other);
            equal = compare_results(o, signature, outputs, wanted, moves, false);
        }
        free_arrays(other, count);
    }
    return moves;
}

static int compare_with_reference(const Options *o, const Subject *s,
                                  const Signature *signature, void *const *inputs,
                                  void *const *outputs)
{
    size_t count = signature->devices * signature->result_count;
    void **wanted = allocate(count, sizeof *wanted);
    int code = s->owns_hlo && s->program ? check_hash(o, s, signature) : EXIT_DONE;
    if (code == EXIT_DONE) {
        code = compiler_evaluate(o, s->hlo_path, &s->hlo, signature, 0, inputs, wanted);
    }
    if (code == EXIT_DONE) {
        double **moves = allow_rounding(o, s, signature, inputs, outputs, wanted);
        bool equal = compare_results(o, signature, outputs, wanted, moves, true);
        code = equal ? EXIT_DONE : EXIT_WRONG;
        free_arrays((void **)moves, moves ? count : 0);
    }
    free_arrays(wanted, count);
    return code;
}

static int run(const Options *o, const Subject *s, const Signature *signature)
{
    bool ref = strcmp(o->device, "ref") == 0;
    size_t input_count = signature->devices * signature->parameter_count;
    size_t output_count = signature->devices * signature->result_count;
    FileSet files = {0};
    void **inputs = allocate(input_count, sizeof *inputs);
    void **owned = allocate(input_count, sizeof *owned);
    void **outputs = allocate(output_count, sizeof *outputs);
    int code = data_check_outputs(o, signature);
    code = code == EXIT_DONE && !ref ? device_check_memory(o, signature) : code;
    code = code == EXIT_DONE ? data_inputs(o, signature, &files, inputs, owned) : code;
    if (code == EXIT_DONE && !ref) {
        code = device_run(o, s->program, signature, inputs, outputs);
    } else if (code == EXIT_DONE && s->program) {
        code = compiler_evaluate(o, s->hlo_path, &s->hlo, signature, 0, inputs, outputs);
    } else if (code == EXIT_DONE) {
        sandbox_end_after(o->most_seconds);
        code = compiler_evaluate(o, o->program, &s->file, signature, 0, inputs, outputs);
        sandbox_end_after(0);
    }
    if (code == EXIT_DONE) {
        compare_summary(o, signature, outputs);
        code = data_outputs(o, signature, outputs);
    }
    if (code == EXIT_DONE && o->compare_ref) {
        code = compare_with_reference(o, s, signature, inputs, outputs);
    }
    if (code == EXIT_DONE && o->compare_count) {
        code = compare_files(o, signature, outputs);
    }
    free(inputs);
    free_arrays(owned, input_count);
    free_arrays(outputs, output_count);
    feed_close(&files);
    return code;
}

/* Inputs and results of every device are held in memory, whoever says how many there are. */
static int check_devices(const Options *o, const Signature *s)
{
    return s->devices <= o->most_devices
               ? EXIT_DONE
               : complain(EXIT_WRONG,
                          "the program is for %zu devices in this process, at most %zu "
                          "are allowed; --max-devices=N allows more",
                          s->devices, o->most_devices);
}

/* What the program is, instead of running it. */
static int describe(const Options *o, const Subject *s)
{
    if (!s->program) {
        return complain(EXIT_USAGE, "--info and --memory need a compiled program, not "
                                    "--device=ref");
    }
    int code = o->info ? info_print(o, s->program) : EXIT_DONE;
    return code == EXIT_DONE && o->memory ? memory_print(o, s->program) : code;
}

/* Of a file that is mapped the end may be gone. What else this signal may mean ends the process as it would. */
static void end_shortened(int number, siginfo_t *info, void *context)
{
    static const char text[] = "gxrun: error: a program or an input became shorter while "
                               "it was read, or the system has no memory for it\n";
    (void)context;
    if (info->si_code != BUS_ADRERR) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    _exit(written < 0 ? EXIT_BUG : EXIT_WRONG);
}

int main(int argc, char **argv)
{
    Options o;
    Subject s = {0};
    Signature signature = {0};
    struct sigaction shortened = {.sa_sigaction = end_shortened, .sa_flags = SA_SIGINFO};
    file_begin_process("gxrun");
    sigaction(SIGBUS, &shortened, NULL);
    options_parse(&o, argc, argv);
    int code = subject_open(&o, &s);
    if (code == EXIT_DONE && (o.info || o.memory)) {
        code = describe(&o, &s);
        subject_close(&s);
        options_free(&o);
        return code;
    }
    if (code == EXIT_DONE) {
        code = strcmp(o.device, "ref") == 0
                   ? compiler_signature(&o, s.hlo_path, &s.hlo, &signature)
                   : device_signature(&o, s.program, &signature);
    }
    code = code == EXIT_DONE ? check_devices(&o, &signature) : code;
    code = code == EXIT_DONE ? manifest_read(&o, &signature) : code;
    code = code == EXIT_DONE ? run(&o, &s, &signature) : code;
    signature_free(&signature);
    subject_close(&s);
    options_free(&o);
    return code;
}
