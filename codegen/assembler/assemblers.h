/* The assemblers behind assemble.h. */
#ifndef GXC_CODEGEN_ASSEMBLER_ASSEMBLER_ASSEMBLERS_H
#define GXC_CODEGEN_ASSEMBLER_ASSEMBLER_ASSEMBLERS_H

#include <stdio.h>

#include "codegen/assembler/assemble.h"

/* Reads what the log of an assembler (-v) says of each kernel. */
void assembler_read_log(Arena *a, const char *log, Cubin *out);

/* Of 0 to 10: more gives faster code more registers; 5 where nothing is said. */
#define SPARING_LEVEL "3"

/* nvjitlink.c: in this process; `ptx` is all of a program. */
bool nvjitlink_assemble(Arena *a, const Cuda *cuda, const Target *target, const char *ptx,
                        AssembleForm form, Cubin *out, const char **out_error);

/* ptxas.c: by a process. */
bool ptxas_assemble(Arena *a, const Cuda *cuda, const Target *target, const char *ptx,
                    AssembleForm form, uint32_t threads, Cubin *out,
                    const char **out_error);
/* nvlink.c: by a process. */
bool nvlink_link(Arena *a, const Cuda *cuda, const Target *target, const Cubin *pieces,
                 size_t count, Cubin *out, const char **out_error);

/* process.c: runs a program, with files[i] as its file 3 + i and what it prints in `log`, and adds
 * the processor time that it took to *seconds. Its exit status, above 128 for a signal, PROCESS_OUT_OF_TIME; -1 with
 * errno set: it could not be run. One that uses no processor for a while is ended, as by SIGALRM: ptxas whose
 * threads find no memory waits for ever. */
typedef struct ProcessFiles {
    int log;
    int files[2];
    int file_count;
    char *const *environment; /* NULL: this process's */
    unsigned deadline;        /* seconds; 0: none */
    unsigned idle;            /* most seconds without work; 0: PROCESS_IDLE_SECONDS */
    unsigned
        most_seconds; /* of processor time, it and each that it starts; 0: no limit */
} ProcessFiles;
enum { PROCESS_IDLE_SECONDS = 30, PROCESS_OUT_OF_TIME = 256 };
int process_run(const char *path, const char *const *args, const ProcessFiles *files,
                double *seconds);
/* Why it failed: what it said, or that it was ended. */
const char *process_trouble(int status, const char *log, const char *nothing_said);
/* Whether that is all it will ever do with the same input: it was not ended from outside. */
AssembleFailure process_failure(int status);
/* All of a file that was written, NUL added; NULL with errno set: it cannot be read. */
char *process_read(Arena *a, FILE *f, size_t *out_bytes);

#endif
