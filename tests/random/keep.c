/* See keep.h: what has run on the emulator becomes a program that tests/gpu/driver.c runs on a GPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/gxrun/npy.h"
#include "tests/random/keep.h"

const char *random_keep_folder;

typedef struct Keeper {
    FILE *manifest;
    char stem[256]; /* of this program's files */
    size_t inputs, outputs;
    const Tolerance *tolerances; /* of the arrays that come next */
} Keeper;

static void keep_array(Keeper *k, const Literal *l, const char *kind, size_t number)
{
    char path[512];
    char error[512];
    snprintf(path, sizeof path, "%s/%s.%s%zu.npy", random_keep_folder, k->stem, kind,
             number);
    if (!npy_write(path, l->shape->dtype, l->shape->rank, l->shape->dims, l->data, error,
                   sizeof error)) {
        fprintf(stderr, "%s\n", error);
        exit(2);
    }
    fprintf(k->manifest, "%sput %s.%s%zu.npy", kind, k->stem, kind, number);
}

static void keep_arguments(Keeper *k, const Literal *l)
{
    for (uint32_t i = 0; shape_is_tuple(l->shape) && i < l->shape->rank; i++)
        keep_arguments(k, l->elements[i]);
    if (!shape_is_array(l->shape))
        return;
    keep_array(k, l, "in", k->inputs++);
    fputc('\n', k->manifest);
}

/* The driver's tolerance is relative to an element, this one's to the largest of the array. */
static void keep_results(Keeper *k, const Literal *l)
{
    if (shape_is_tuple(l->shape)) {
        for (uint32_t i = 0; i < l->shape->rank; i++)
            keep_results(k, l->elements[i]);
        return;
    }
    const Tolerance *t = k->tolerances++;
    if (!shape_is_array(l->shape))
        return;
    keep_array(k, l, "out", k->outputs++);
    fprintf(k->manifest, " 0 %.9g\n", t->atol + t->rtol * literal_largest(l));
}

void keep_program(const KeptProgram *of)
{
    static unsigned number;
    char path[512];
    Keeper k = {.tolerances = of->tolerances};
    snprintf(k.stem, sizeof k.stem, "%llu.%u", (unsigned long long)of->seed, number++);
    snprintf(path, sizeof path, "%s/%s.cubin", random_keep_folder, k.stem);
    FILE *f = fopen(path, "wb");
    bool ok = f != NULL && fwrite(of->bytes, 1, of->size, f) == of->size;
    ok = f != NULL && fclose(f) == 0 && ok;
    snprintf(path, sizeof path, "%s/%s.txt", random_keep_folder, k.stem);
    k.manifest = ok ? fopen(path, "w") : NULL;
    if (k.manifest == NULL) {
        perror(path);
        exit(2);
    }
    fprintf(k.manifest, "program random.%s %s.cubin\n", k.stem, k.stem);
    for (uint32_t i = 0; i < of->device->argument_count; i++)
        keep_arguments(&k, of->device->arguments[i]);
    keep_results(&k, of->device->result);
    if (fclose(k.manifest) != 0) {
        perror(path);
        exit(2);
    }
}
