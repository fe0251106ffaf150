/* gxc_list: what the tables say, as text. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "frontend/gxc.h"
#include "ir/analysis/target.h"
#include "passes/pipeline.h"
#include "passes/settings.h"

static void list_passes(FILE *f)
{
    const Pass *p;
    for (size_t i = 0; (p = pipeline_row(i)) != NULL; i++)
        fprintf(f, "%-28s %s%s\n", p->name,
                p->required ? ""
                            : (const char *[]){"", "-O1 ", "-O2 "}[p->least_level % 3],
                p->why);
}

static void list_ops(FILE *f)
{
    for (int op = 0; op < OP_COUNT; op++)
        fprintf(f, "%-28s %s\n", op_info[op].name, op_info[op].doc);
}

static void list_settings(FILE *f)
{
    const char *name, *doc;
    int64_t value;
    for (size_t i = 0; settings_row(i, &name, &value, &doc); i++)
        fprintf(f, "%-40s %12lld  %s\n", name, (long long)value, doc);
}

/* Forms of opcodes that are supported otherwise. */
static const char *const missing_forms[][2] = {
    {"stochastic-convert", "to floats"},
    {"more than 64 arrays", "in one reduce, reduce-window, scatter or sort"},
    {"reducers, comparators, combiners",
     "that hold sort, scatter, select-and-scatter, "
     "topk, rng, collectives, custom calls, or "
     "arrays of more than 1024 elements, or sums over "
     "many of them; that are given elements of two float types"},
    {"custom-call",
     "eigenvalues of matrices that are not Hermitian and Schur's form; calls back into "
     "Python, kernels of Triton and Mosaic"},
    {"collective-permute", "the in-place form with slice_sizes"},
    {"collective-broadcast", "a root that is computed (has_dynamic_root)"},
    {"send, recv", "pairs that do not begin in one computation; transfers to the host"},
    {"convolution", "structured sparsity (sparsity_config)"},
    {"constant", "of more than 2^30 bytes"},
    {"?", "arrays without a bound"},
    {"<=n",
     "windows' own sizes and groups in convolutions; transformed dimensions of fft, "
     "summed ones of scaled-dot, all but the scanned one of scan; those that collectives "
     "put together or divide, or bitcasts split or merge"},
    {"cuDNN", "graphs of convolutions and of attentions forward (factors of 16 bits, "
              "masks that are bands of rows and "
              "columns) only: a scaled-dot in a fusion for it is done by cuBLASLt, "
              "or by a kernel of our own"},
};

/* Opcodes that only know arrays of fixed size. */
static void list_without_sizes(FILE *f)
{
    const uint32_t known =
        OPF_SIZES | OPF_DENSE | OPF_ELEMENTWISE | OPF_EFFECT | OPF_ASYNC_DONE;
    fprintf(f, "%-28s operands of dynamic size of:", "<=n");
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_info[op].arity != 0 && op_info[op].eval != NULL &&
            !op_is((OpCode)op, known))
            fprintf(f, " %s", op_info[op].name);
    }
    fputc('\n', f);
}

/* What is missing shows in the tables themselves - no evaluator, or a kind that codegen turns
 * away -, forms of opcodes aside. */
static void list_unsupported(FILE *f)
{
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_info[op].eval == NULL)
            fprintf(f, "%-28s the evaluator does not know it\n", op_info[op].name);
        if (codegen_lacks((OpCode)op))
            fprintf(f, "%-28s no kernel for it yet\n", op_info[op].name);
    }
    for (int t = DT_INVALID + 1; t < DT_TUPLE; t++) {
        if (dtype_info[t].text_only)
            fprintf(f, "%-28s text only: no kernel takes this type\n",
                    dtype_info[t].name);
    }
    for (size_t i = 0; i < sizeof missing_forms / sizeof *missing_forms; i++)
        fprintf(f, "%-28s %s\n", missing_forms[i][0], missing_forms[i][1]);
    list_without_sizes(f);
}

static void list_version(FILE *f)
{
    fprintf(f, "gxc %s\n", GXC_VERSION);
    codegen_versions(f);
}

static const struct {
    const char *what;
    void (*write)(FILE *f);
} lists[] = {{"passes", list_passes},     {"ops", list_ops},
             {"settings", list_settings}, {"unsupported", list_unsupported},
             {"targets", target_list},    {"version", list_version}};
#define LIST_COUNT (sizeof lists / sizeof *lists)

static char *texts[LIST_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_texts(void)
{
    for (size_t i = 0; i < LIST_COUNT; i++) {
        size_t size;
        FILE *f = open_memstream(&texts[i], &size);
        if (f == NULL)
            continue;
        lists[i].write(f);
        fclose(f);
    }
}

const char *gxc_list(const char *what)
{
    pthread_once(&once, make_texts);
    for (size_t i = 0; i < LIST_COUNT; i++) {
        if (strcmp(lists[i].what, what) == 0)
            return texts[i];
    }
    return NULL;
}

void gxc_free(void *p)
{
    free(p);
}
