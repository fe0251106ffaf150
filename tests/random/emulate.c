/* See emulate.h. */
#include "tests/random/emulate.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/gxrt.h"

const char *random_emulator_folder;

enum { MOST_ARGUMENTS = 256, MOST_RESULTS = 16 };

/* Literal to the bytes of a device buffer, and back, by the signature's layout. */
static void transfer(const gxrt_value_info *v, Literal *l, char *buffer, bool to_device)
{
    DType t = l->shape->dtype;
    size_t size = dtype_info[t].storage;
    char *dense = calloc((size_t)l->count + 1, size);
    int64_t strides[64];
    int64_t index[64] = {0};
    int64_t stride = 1;
    if (!to_device && dtype_info[t].bits < 8)
        number_unpack(t, dense, buffer, (size_t)l->count);
    else if (!to_device)
        memcpy(dense, buffer, (size_t)l->count * size);
    for (uint32_t i = 0; i < v->rank; i++) {
        strides[v->minor_to_major[i]] = stride;
        stride *= v->dims[v->minor_to_major[i]];
    }
    for (int64_t i = 0; i < l->count; i++) {
        int64_t at = 0;
        for (uint32_t k = 0; k < v->rank; k++)
            at += index[k] * strides[k];
        char *host = (char *)l->data + (size_t)i * size;
        if (to_device)
            memcpy(dense + (size_t)at * size, host, size);
        else
            memcpy(host, dense + (size_t)at * size, size);
        for (uint32_t k = v->rank; k-- > 0 && ++index[k] == v->dims[k];)
            index[k] = 0;
    }
    if (to_device && dtype_info[t].bits < 8)
        number_pack(t, buffer, dense, (size_t)l->count);
    else if (to_device)
        memcpy(buffer, dense, (size_t)l->count * size);
    free(dense);
}

/* What one device works with. */
typedef struct Local {
    gxrt_buffer arguments[MOST_ARGUMENTS], results[MOST_RESULTS];
    bool donated[MOST_RESULTS]; /* the result is in an argument's buffer */
} Local;

typedef struct Running {
    const EmulatorRun *of;
    Arena *arena;
    gxrt_program *program;
    gxrt_session *session;
    Local *local; /* by device */
    size_t devices, argument_count, result_count;
} Running;

static gxrt_status give_argument(Running *r, size_t d, const gxrt_value_info *v, size_t i,
                                 Literal *l)
{
    gxrt_buffer *b = &r->local[d].arguments[i];
    *b = (gxrt_buffer){.struct_size = sizeof *b, .bytes = v->bytes};
    gxrt_status st = gxrt_allocate(r->session, d, v->bytes, &b->data);
    if (st != GXRT_OK)
        return st;
    char *packed = calloc(v->bytes + 1, 1);
    transfer(v, l, packed, true);
    st = gxrt_copy_to_device(r->session, d, b->data, packed, v->bytes);
    free(packed);
    return st;
}

static gxrt_status take_result(Running *r, size_t d, const gxrt_value_info *v, size_t i,
                               Literal *l)
{
    char *packed = calloc(v->bytes + 1, 1);
    gxrt_status st =
        gxrt_copy_to_host(r->session, d, packed, r->local[d].results[i].data, v->bytes);
    if (st == GXRT_OK)
        transfer(v, l, packed, false);
    free(packed);
    return st;
}

/* Array *n of those in l; NULL: there are fewer, *n is what is missing. */
static Literal *leaf_of(Literal *l, size_t *n)
{
    Literal *leaf = NULL;
    if (!shape_is_tuple(l->shape))
        return (*n)-- == 0 ? l : NULL;
    for (uint32_t i = 0; i < l->shape->rank && leaf == NULL; i++)
        leaf = leaf_of(l->elements[i], n);
    return leaf;
}

static Literal *argument_leaf(const EvalDevice *device, size_t n)
{
    Literal *leaf = NULL;
    for (uint32_t i = 0; i < device->argument_count && leaf == NULL; i++)
        leaf = leaf_of((Literal *)(uintptr_t)device->arguments[i], &n);
    return leaf;
}

static gxrt_status make_buffers(Running *r, size_t d)
{
    gxrt_value_info v = {.struct_size = sizeof v};
    gxrt_status st = GXRT_OK;
    Local *own = &r->local[d];
    for (size_t i = 0; i < r->argument_count && st == GXRT_OK; i++) {
        gxrt_program_get_argument(r->program, i, &v);
        Literal *l = literal_copy(r->arena, argument_leaf(&r->of->arguments[d], i));
        st = give_argument(r, d, &v, i, l);
    }
    for (size_t i = 0; i < r->result_count && st == GXRT_OK; i++) {
        gxrt_program_get_result(r->program, i, &v);
        own->results[i] =
            (gxrt_buffer){.struct_size = sizeof own->results[i], .bytes = v.bytes};
        if (v.alias >= 0 && (v.must_alias || r->of->donates)) { /* donated */
            own->results[i] = own->arguments[v.alias];
            own->donated[i] = true;
            continue;
        }
        st = gxrt_allocate(r->session, d, v.bytes, &own->results[i].data);
    }
    return st;
}

static gxrt_status run(Running *r)
{
    gxrt_value_info v = {.struct_size = sizeof v};
    gxrt_run jobs[MOST_DEVICES] = {0};
    gxrt_status st = GXRT_OK;
    for (size_t d = 0; d < r->devices && st == GXRT_OK; d++) {
        st = make_buffers(r, d);
        jobs[d] = (gxrt_run){.struct_size = sizeof jobs[d],
                             .arguments = r->local[d].arguments,
                             .argument_count = r->argument_count,
                             .results = r->local[d].results,
                             .result_count = r->result_count};
    }
    st = st == GXRT_OK ? gxrt_execute(r->session, r->devices, jobs) : st;
    for (size_t d = 0; d < r->devices && st == GXRT_OK; d++) {
        st = gxrt_synchronize(r->session, d);
        for (size_t i = 0; i < r->result_count && st == GXRT_OK; i++) {
            gxrt_program_get_result(r->program, i, &v);
            size_t n = i;
            st = take_result(r, d, &v, i, leaf_of(r->of->results[d], &n));
        }
    }
    return st;
}

static void clean(Running *r)
{
    for (size_t d = 0; d < r->devices && r->session != NULL; d++) {
        Local *own = &r->local[d];
        for (size_t i = 0; i < r->argument_count; i++)
            gxrt_free(r->session, d, own->arguments[i].data);
        for (size_t i = 0; i < r->result_count; i++) {
            if (!own->donated[i])
                gxrt_free(r->session, d, own->results[i].data);
        }
    }
    gxrt_session_destroy(r->session);
    gxrt_program_destroy(r->program);
    free(r->local);
}

const char *emulate(const EmulatorRun *of, Arena *a)
{
    Running r = {.of = of,
                 .arena = a,
                 .devices = of->devices,
                 .local = calloc(of->devices, sizeof *r.local)};
    gxrt_session_options so = {.struct_size = sizeof so,
                               .device = "emu",
                               .allow_native = 1,
                               .library_path = random_emulator_folder,
                               .exact_emulated_devices = (int)of->devices};
    gxrt_program_info info = {.struct_size = sizeof info};
    gxrt_status st = gxrt_program_open_memory(of->bytes, of->size, &r.program);
    st = st == GXRT_OK ? gxrt_session_create(r.program, &so, &r.session) : st;
    st = st == GXRT_OK ? gxrt_program_get_info(r.program, &info) : st;
    if (st == GXRT_OK && info.argument_count <= MOST_ARGUMENTS &&
        info.result_count <= MOST_RESULTS) {
        r.argument_count = info.argument_count;
        r.result_count = info.result_count;
        st = run(&r);
    }
    const char *wrong = st != GXRT_OK ? arena_printf(a, "%s", gxrt_last_error()) : NULL;
    clean(&r);
    return wrong;
}
