/* gxc_list: what the tables say, as text and as JSON. */
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "frontend/gxc.h"
#include "ir/analysis/target.h"
#include "passes/pipeline.h"
#include "passes/settings.h"

/* A list in the making: rows of a name and a text, and of JSON what else there is to know. */
typedef struct List {
    FILE *text;
    json_t *rows;
    int width; /* of names */
} List;

static void add_row(List *l, const char *name, json_t *more, const char *format, ...)
    GXC_FORMAT(4, 5);
static void add_row(List *l, const char *name, json_t *more, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(l->text, "%-*s ", l->width, name);
    json_t *row = json_pack("{s:s}", "name", name), *value;
    const char *key;
    json_object_foreach(more, key, value)
    {
        json_object_set(row, key, value);
        if (json_is_integer(value))
            fprintf(l->text, "%12lld  ", (long long)json_integer_value(value));
        else
            fprintf(l->text, "%s ", json_string_value(value));
    }
    json_decref(more);
    fprintf(l->text, "%s\n", text);
    json_object_set_new(row, "text", json_string(text));
    json_array_append_new(l->rows, row);
}

static void list_passes(List *l)
{
    static const char *const levels[] = {NULL, "-O1", "-O2"};
    const Pass *p;
    for (size_t i = 0; (p = pipeline_row(i)) != NULL; i++) {
        const char *level = p->required ? NULL : levels[p->least_level % 3];
        add_row(l, p->name, level != NULL ? json_pack("{s:s}", "level", level) : NULL,
                "%s", p->why);
    }
}

static void list_ops(List *l)
{
    for (int op = 0; op < OP_COUNT; op++)
        add_row(l, op_info[op].name, NULL, "%s", op_info[op].doc);
}

static void list_settings(List *l)
{
    const Setting *s;
    l->width = 40;
    for (size_t i = 0; (s = settings_row(i)) != NULL; i++)
        add_row(l, s->name, json_pack("{s:I}", "value", (json_int_t)s->value), "%s",
                s->doc);
}

/* Forms of opcodes that are supported otherwise. */
static const char *const missing_forms[][2] = {
    {"stochastic-convert", "to floats"},
    {"more than 64 dimensions", "of one array"},
    {"more than 64 loops", "and branches inside of each other, or more than 1000 calls"},
    {"more than 64 computations",
     "inside of each other, of loops, calls and branches for one element, in the "
     "evaluator"},
    {"more than 64 arrays", "in one reduce, reduce-window, scatter or sort"},
    {"rng-bit-generator", "states of other than 16 bytes, or for philox 24"},
    {"reducers, comparators, combiners",
     "that hold sort, scatter, select-and-scatter, "
     "topk, rng, collectives, custom calls, or "
     "arrays of more than 1024 elements, or sums over "
     "many of them; that are given elements of two float types"},
    {"custom-call",
     "eigenvalues of matrices that are not Hermitian and Schur's form; calls back into "
     "Python, kernels of Triton and Mosaic"},
    {"cuBLAS, cuDNN by name", "factors of integers that are no integers of 32 bits"},
    {"collective-permute", "the in-place form with slice_sizes"},
    {"collective-broadcast", "a root that is computed (has_dynamic_root)"},
    {"send, recv", "pairs that do not begin in one computation; transfers to the host"},
    {"convolution", "structured sparsity (sparsity_config); gradients (convolution_kind "
                    "wgrad; dgrad in groups)"},
    {"constant", "of more than 2^30 bytes"},
    {"several partitions", "programs that no partitioner has divided"},
    {"?", "arrays without a bound"},
    {"<=n",
     "windows' own sizes and groups in convolutions; transformed dimensions of fft, "
     "summed ones of scaled-dot, all but the scanned one of scan; those that collectives "
     "put together or divide, bitcasts split or merge, or reshapes do beside others; "
     "sums "
     "of f8e8m0fnu"},
    {"cuDNN",
     "graphs of convolutions, attentions (factors of 16 bits, masks that are "
     "bands of rows and columns), norms forward and block-scaled dots only: a "
     "scaled-dot in a fusion for it is done by cuBLASLt, or by a kernel of our own"},
};

typedef struct Names {
    char text[1024];
    size_t at;
} Names;

static void add_name(Names *n, const char *name)
{
    if (n->at < sizeof n->text)
        n->at += (size_t)snprintf(n->text + n->at, sizeof n->text - n->at, " %s", name);
}

/* Opcodes that only know arrays of fixed size. */
static void list_without_sizes(List *l)
{
    const uint32_t known =
        OPF_SIZES | OPF_DENSE | OPF_ELEMENTWISE | OPF_EFFECT | OPF_ASYNC_DONE;
    Names names = {0};
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_info[op].arity != 0 && op_info[op].eval != NULL &&
            !op_is((OpCode)op, known))
            add_name(&names, op_info[op].name);
    }
    add_row(l, "<=n", NULL, "operands of dynamic size of:%s", names.text);
}

/* Floats without infinities of their own. */
static void list_without_precision(List *l)
{
    Names names = {0};
    for (int t = DT_INVALID + 1; t < DT_TUPLE; t++) {
        if (dtype_info[t].class == DTC_FLOAT && dtype_info[t].special != SPECIAL_IEEE)
            add_name(&names, dtype_info[t].name);
    }
    add_row(l, op_info[OP_REDUCE_PRECISION].name, NULL, "of:%s", names.text);
}

/* What is missing shows in the tables themselves - no evaluator, or a kind that codegen turns
 * away -, forms of opcodes aside. */
static void list_unsupported(List *l)
{
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_info[op].eval == NULL)
            add_row(l, op_info[op].name, NULL, "the evaluator does not know it");
        if (codegen_lacks((OpCode)op))
            add_row(l, op_info[op].name, NULL, "no kernel for it yet");
    }
    for (int t = DT_INVALID + 1; t < DT_TUPLE; t++) {
        if (dtype_info[t].text_only)
            add_row(l, dtype_info[t].name, NULL, "text only: no kernel takes this type");
    }
    for (size_t i = 0; i < sizeof missing_forms / sizeof *missing_forms; i++)
        add_row(l, missing_forms[i][0], NULL, "%s", missing_forms[i][1]);
    list_without_sizes(l);
    list_without_precision(l);
}

/* Lines whose first word is the name. */
static void add_lines(List *l, char *text)
{
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        size_t name = strcspn(line, " "), gap = strspn(line + name, " ");
        const char *meaning = line + name + gap;
        line[name] = '\0';
        add_row(l, line, NULL, "%s", gap != 0 ? meaning : "");
    }
}

static void add_written(List *l, void (*write)(FILE *f))
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return;
    write(f);
    fclose(f);
    add_lines(l, text);
    free(text);
}

static void list_targets(List *l)
{
    l->width = 13;
    add_written(l, target_list);
}

static void write_version(FILE *f)
{
    fprintf(f, "gxc %s\n", GXC_VERSION);
    codegen_versions(f);
}

static void list_version(List *l)
{
    l->width = 0;
    add_written(l, write_version);
}

static const struct {
    const char *what;
    void (*write)(List *l);
} lists[] = {{"passes", list_passes},     {"ops", list_ops},
             {"settings", list_settings}, {"unsupported", list_unsupported},
             {"targets", list_targets},   {"version", list_version}};
#define LIST_COUNT (sizeof lists / sizeof *lists)

static char *texts[LIST_COUNT], *jsons[LIST_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_texts(void)
{
    for (size_t i = 0; i < LIST_COUNT; i++) {
        size_t size;
        List l = {.rows = json_array(), .width = 28};
        l.text = open_memstream(&texts[i], &size);
        if (l.text == NULL)
            continue;
        lists[i].write(&l);
        fclose(l.text);
        jsons[i] = json_dumps(l.rows, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
        json_decref(l.rows);
    }
}

const char *gxc_list(const char *what)
{
    pthread_once(&once, make_texts);
    if (what == NULL)
        return NULL;
    size_t length = strcspn(what, ".");
    bool is_json = strcmp(what + length, ".json") == 0;
    for (size_t i = 0; i < LIST_COUNT && (is_json || what[length] == '\0'); i++) {
        if (strlen(lists[i].what) == length && memcmp(lists[i].what, what, length) == 0)
            return is_json ? jsons[i] : texts[i];
    }
    return NULL;
}

void gxc_free(void *p)
{
    free(p);
}
