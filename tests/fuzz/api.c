/* Sequences of calls of gxrt.h, on the emulator: right ones, and wrong pointers, sizes, addresses and orders, on one
 * thread or several. Each ends with a status, one that fails with text; what is given back leaves nothing, and a
 * session that was made still runs at the end.
 *
 * An input is calls of CALL_BYTES: which, on which thread, three operands. What callers promise by contract is
 * kept: a handle is not used once it is destroyed, and memory of the host is as large as they say. */
#include <pthread.h>

#include "runtime/gxrt.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/shared/folder.h"
#include "tests/unit/shared/refusing.h"

enum {
    CALL_BYTES = 4,
    CALLS_MOST = 60,
    HANDLES = 4, /* of a kind; the last stays NULL */
    POINTERS = 8,
    VALUES_MOST = 8,
    DEVICES_MOST = 3,
    HOST_BYTES = 1 << 16
};

typedef struct Pointer {
    void *data;
    size_t session, device; /* that it was taken from */
} Pointer;

static struct {
    gxrt_program *programs[HANDLES];
    gxrt_session *sessions[HANDLES];
    size_t program_of[HANDLES];
    gxrt_world *worlds[HANDLES];
    Pointer pointers[POINTERS];
} all;

/* --- numbers and addresses -------------------------------------------------------------------- */

static size_t size_of(uint8_t which)
{
    static const size_t sizes[] = {0,   1,    4,     16,    32,         64,
                                   128, 4096, 65535, 65536, UINT32_MAX, SIZE_MAX};
    return sizes[which % (sizeof sizes / sizeof *sizes)];
}

static void check(gxrt_status st, const char *what)
{
    PROMISE(st <= GXRT_HOST_CALL_FAILED, "%s: status %d", what, (int)st);
    PROMISE(strcmp(gxrt_status_name(st), "unknown status") != 0,
            "%s: a status without a name", what);
    PROMISE(st == GXRT_OK || gxrt_last_error()[0] != '\0', "%s fails without a word",
            what);
}

static size_t free_slot(void *const *handles)
{
    for (size_t i = 0; i + 1 < HANDLES; i++) {
        if (handles[i] == NULL)
            return i;
    }
    return HANDLES;
}

/* --- programs and worlds ------------------------------------------------------------------- */

static void open_program(const uint8_t *at)
{
    static const char *const names[] = {"loop",  "branches", "collectives", "products",
                                        "calls", "none",     "../programs"};
    size_t i = free_slot((void *const *)all.programs);
    char path[4200];
    if (i == HANDLES)
        return;
    snprintf(path, sizeof path, "%s/programs/%s.cubin", fuzz_folder(),
             names[at[1] % (sizeof names / sizeof *names)]);
    bool there = at[1] % 7 < 5;
    gxrt_status st = gxrt_program_open(at[2] == 255 ? NULL : path,
                                       at[3] == 255 ? NULL : &all.programs[i]);
    check(st, "gxrt_program_open");
    PROMISE(st != GXRT_OK || (there && all.programs[i] != NULL), "%s opens", path);
    PROMISE(st == GXRT_OK || all.programs[i] == NULL, "a program that was refused");
}

/* Who the ranks are, as launchers say it. */
static void open_world_around(const uint8_t *at, gxrt_world **out)
{
    static const char *const names[][3] = {
        {"GXRT_RANK", "GXRT_WORLD_SIZE", "GXRT_LOCAL_RANK"},
        {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
        {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
        {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};
    static const char *const numbers[] = {"0", "1", "2", "-1", "x", ""};
    static const char *const stores[] = {"tcp://h:99999", "bogus://x", "file:", "tcp://"};
    const char *const *name = names[at[1] % 5];
    setenv(name[0], numbers[at[2] % 6], 1);
    setenv(name[1], numbers[at[2] / 6 % 6], 1);
    if (at[2] >= 128)
        setenv(name[2], numbers[at[1] / 5 % 6], 1);
    if (at[1] >= 128)
        setenv("GXRT_STORE", stores[at[3] % 4], 1);
    if (at[1] >= 192)
        setenv("GXRT_SECRET", "s", 1);
    check(gxrt_world_from_environment(at[3] == 254 ? NULL : out),
          "gxrt_world_from_environment");
    for (int i = 0; i < 3; i++)
        unsetenv(name[i]);
    unsetenv("GXRT_STORE");
    unsetenv("GXRT_SECRET");
    PROMISE(*out == NULL || gxrt_world_rank(*out) < gxrt_world_size(*out),
            "a rank outside its world");
}

static void on_rank(void *user, uint32_t rank, const void *bytes, size_t size)
{
    (void)user, (void)rank;
    PROMISE(size == 0 || bytes != NULL, "a rank without its bytes");
}

static void gather(const uint8_t *at, gxrt_world *world)
{
    static const unsigned char mine[HOST_BYTES];
    size_t size = at[2] < 4 ? at[2] : at[2] % HOST_BYTES;
    check(gxrt_world_gather(world, at[3] % 8 == 7 ? NULL : mine, size,
                            at[3] % 16 == 9 ? -1 : 1, at[1] % 8 == 7 ? NULL : on_rank,
                            NULL),
          "gxrt_world_gather");
}

static void open_world(const uint8_t *at)
{
    static const char *const stores[] = {
        NULL, "", "file:", "tcp://", "bogus://x", "tcp://h:99999"};
    size_t i = free_slot((void *const *)all.worlds);
    if (i == HANDLES)
        return;
    if (at[0] >= 128) {
        open_world_around(at, &all.worlds[i]);
        return;
    }
    uint32_t size = (uint32_t)size_of(at[2]);
    const char *store = size == 1 ? stores[at[3] % 6] : NULL;
    check(gxrt_world_create((uint32_t)size_of(at[1]), size, store,
                            at[3] == 255 ? NULL : &all.worlds[i]),
          "gxrt_world_create");
    gather(at, all.worlds[i]);
}

static void ask_device(const uint8_t *at)
{
    static const char *const devices[] = {NULL,         "emu",   "emu:sm_80", "",
                                          "emu:sm_100", "emu:x", "cuda"};
    char target[16] = "";
    check(gxrt_device_target(devices[at[1] % 7], at[3] == 255 ? NULL : target,
                             at[2] % (sizeof target + 1)),
          "gxrt_device_target");
    PROMISE(memchr(target, '\0', sizeof target) != NULL, "a name without an end");
}

static void ask_program(const uint8_t *at)
{
    const gxrt_program *p = all.programs[at[1] % HANDLES];
    size_t i = at[2] < 200 ? at[2] % 5 : size_of(at[2]),
           sizes = at[3] < 200 ? SIZE_MAX : at[3] - 200u;
    gxrt_program_info info = {.struct_size = sizes < sizeof info ? sizes : sizeof info};
    gxrt_value_info value = {.struct_size = sizes < sizeof value ? sizes : sizeof value};
    gxrt_variant_info variant = {.struct_size =
                                     sizes < sizeof variant ? sizes : sizeof variant};
    gxrt_command_info command = {.struct_size =
                                     sizes < sizeof command ? sizes : sizeof command};
    gxrt_memory_info memory = {.struct_size =
                                   sizes < sizeof memory ? sizes : sizeof memory};
    bool none = at[3] == 255;
    check(gxrt_program_get_info(p, none ? NULL : &info), "gxrt_program_get_info");
    check(gxrt_program_get_argument(p, i, none ? NULL : &value),
          "gxrt_program_get_argument");
    check(gxrt_program_get_result(p, i, none ? NULL : &value), "gxrt_program_get_result");
    check(gxrt_program_get_variant(p, i, none ? NULL : &variant),
          "gxrt_program_get_variant");
    check(gxrt_program_get_command(p, at[3] % 3, i, none ? NULL : &command),
          "gxrt_program_get_command");
    check(gxrt_program_get_memory(p, at[3] % 3, i, none ? NULL : &memory),
          "gxrt_program_get_memory");
    const char *step = gxrt_program_get_step(p, at[3] % 3, i);
    PROMISE(step == NULL || strlen(step) < 1000, "a long step");
    ask_device(at);
}

static void end_program(const uint8_t *at)
{
    size_t i = at[1] % HANDLES;
    for (size_t s = 0; s < HANDLES; s++) {
        if (all.sessions[s] != NULL && all.program_of[s] == i)
            return; /* callers destroy these before */
    }
    gxrt_program_destroy(all.programs[i]);
    all.programs[i] = NULL;
}

/* --- sessions ------------------------------------------------------------------------------ */

static int host_function(void *user, const gxrt_host_arguments *a)
{
    (void)user;
    return a->buffer_count == 0;
}

static void on_log(void *user, int level, const char *text)
{
    (void)user;
    PROMISE(level <= 1 && text[0] != '\0', "a line of the log without words");
}

static void *create_session(const uint8_t *at)
{
    static const gxrt_host_call calls[] = {
        {.struct_size = sizeof *calls, .name = "clip", .described = host_function},
        {.struct_size = sizeof *calls, .name = NULL, .described = host_function}};
    static const char *const devices[] = {"emu",  "emu", "emu", "emu:sm_80",
                                          "none", "",    NULL};
    static const int ordinals[] = {2, 0, 1, -1, 0};
    size_t i = free_slot((void *const *)all.sessions), program = at[1] % HANDLES;
    if (i == HANDLES)
        return NULL;
    gxrt_session_options o = {
        .struct_size = at[2] % 16 == 15 ? at[3] : sizeof o,
        .device = devices[at[2] % 7],
        .allow_native = at[2] % 32 != 31,
        .library_path = fuzz_folder(),
        .host_calls = at[2] % 64 == 63 ? NULL : calls,
        .host_call_count = at[2] % 10 == 9 ? 2 : 1,
        .exact_emulated_devices = DEVICES_MOST,
        .replicas = at[3] % 8 < 6 ? 0 : at[3] % 8 - 4u,
        .devices = at[3] % 5 == 4 ? ordinals : NULL,
        .device_count = at[3] % 11 == 10 ? at[3] % 6 : 0,
        .world = all.worlds[at[3] % 9 == 8 ? at[2] % HANDLES : HANDLES - 1],
        .timeout_seconds = at[3] % 13 == 12 ? -1 : 1,
        .log = at[1] & 4 ? on_log : NULL,
        .allocator = at[1] & 8 ? &refusing_allocator : NULL,
        .streams = at[1] & 16 ? &refusing_streams : NULL,
        .max_seconds = at[1] & 32   ? 5
                       : at[1] & 64 ? (at[2] % 16 == 14 ? -1 : 1000)
                                    : 0,
        .max_channels = at[1] & 128 ? at[3] : 0,
        .graphs = at[3] & 1};
    gxrt_status st = gxrt_session_create(all.programs[program], at[2] == 255 ? NULL : &o,
                                         at[3] == 255 ? NULL : &all.sessions[i]);
    check(st, "gxrt_session_create");
    PROMISE((st == GXRT_OK) == (all.sessions[i] != NULL), "a session and status %d",
            (int)st);
    all.program_of[i] = program;
    return NULL;
}

static void end_session(const uint8_t *at)
{
    size_t i = at[1] % HANDLES;
    for (size_t k = 0; k < POINTERS;
         k++) { /* memory outlives the session: another frees it */
        if (all.pointers[k].data != NULL && all.pointers[k].session == i) {
            gxrt_free(all.sessions[i], all.pointers[k].device, all.pointers[k].data);
            all.pointers[k].data = NULL;
        }
    }
    gxrt_session_destroy(all.sessions[i]);
    all.sessions[i] = NULL;
}

/* --- memory -------------------------------------------------------------------------------- */

static void *allocate(const uint8_t *at)
{
    Pointer *p = &all.pointers[at[2] % POINTERS];
    size_t session = at[1] % HANDLES, device = at[2] / 8 % 5;
    if (p->data != NULL)
        return NULL;
    gxrt_status st = gxrt_allocate(all.sessions[session], device, size_of(at[3]),
                                   at[3] == 255 ? NULL : &p->data);
    check(st, "gxrt_allocate");
    PROMISE(st == GXRT_OK || p->data == NULL, "memory that was refused");
    p->session = session;
    p->device = device;
    return NULL;
}

static void give_back(const uint8_t *at)
{
    Pointer *p = &all.pointers[at[2] % POINTERS];
    gxrt_session *s = all.sessions[p->session];
    if (p->data == NULL || s == NULL) {
        gxrt_free(all.sessions[at[1] % HANDLES], at[3], NULL);
        return;
    }
    gxrt_free(s, at[3] % 2 ? p->device + 1 : SIZE_MAX,
              p->data); /* not there: it stays, but for aliases of devices */
    gxrt_free(s, p->device, p->data);
    p->data = NULL;
}

static void *copy(const uint8_t *at)
{
    static unsigned char host[HOST_BYTES];
    const Pointer *p = &all.pointers[at[2] % POINTERS];
    gxrt_session *s = all.sessions[at[1] % HANDLES];
    size_t bytes = size_of(at[3]), device = at[2] / 8 % 4;
    void *mine = at[3] == 254 ? NULL : host;
    unsigned char *there = p->data;
    if (bytes > HOST_BYTES && mine != NULL) /* nothing on a device is so large */
        there = NULL;
    if (there != NULL && at[2] >= 128)
        there += at[2] - 127;
    check(at[2] & 32 ? gxrt_copy_to_device(s, device, there, mine, bytes)
                     : gxrt_copy_to_host(s, device, mine, there, bytes),
          "gxrt_copy");
    return NULL;
}

/* --- running ------------------------------------------------------------------------------- */

typedef struct Values {
    gxrt_buffer arguments[DEVICES_MOST][VALUES_MOST], results[DEVICES_MOST][VALUES_MOST];
    gxrt_run runs[DEVICES_MOST];
    size_t devices;
} Values;

/* Buffers as the program wants them; what must be the same is. False: there is no memory. */
static bool make_values(const gxrt_program *p, gxrt_session *s, Values *v)
{
    gxrt_session_info about = {.struct_size = sizeof about};
    gxrt_program_info info = {.struct_size = sizeof info};
    memset(v, 0, sizeof *v);
    check(gxrt_session_get_info(s, &about), "gxrt_session_get_info");
    check(gxrt_program_get_info(p, &info), "gxrt_program_get_info");
    PROMISE(about.device_count <= DEVICES_MOST, "%zu devices", about.device_count);
    v->devices = about.device_count;
    for (size_t d = 0; d < v->devices; d++) {
        v->runs[d] = (gxrt_run){sizeof(gxrt_run),    NULL,          v->arguments[d],
                                info.argument_count, v->results[d], info.result_count};
        for (size_t i = 0; i < info.argument_count + info.result_count; i++) {
            bool is_result = i >= info.argument_count;
            size_t k = is_result ? i - info.argument_count : i;
            gxrt_buffer *b = is_result ? &v->results[d][k] : &v->arguments[d][k];
            gxrt_value_info value = {.struct_size = sizeof value};
            (void)(is_result ? gxrt_program_get_result(p, k, &value)
                             : gxrt_program_get_argument(p, k, &value));
            *b = (gxrt_buffer){.struct_size = sizeof *b, .bytes = value.bytes};
            if (is_result && value.must_alias)
                b->data = v->arguments[d][value.alias].data;
            else if (gxrt_allocate(s, d, value.bytes, &b->data) != GXRT_OK)
                return false;
        }
    }
    return true;
}

static void free_values(gxrt_session *s, Values *v)
{
    for (size_t d = 0; d < v->devices; d++) {
        for (size_t i = 0; i < VALUES_MOST; i++) {
            void *mine = v->arguments[d][i].data;
            for (size_t k = 0; k < VALUES_MOST; k++) {
                if (v->results[d][k].data == mine)
                    v->results[d][k].data = NULL;
            }
            gxrt_free(s, d, mine);
        }
        for (size_t k = 0; k < VALUES_MOST; k++)
            gxrt_free(s, d, v->results[d][k].data);
    }
}

/* One thing of a right call becomes wrong. True: the call has to be refused. */
static bool spoil(Values *v, const uint8_t *at, size_t *n)
{
    static const int64_t dims[] = {1, 2, 3, 4, 5, 6, 7, 8};
    gxrt_run *r = &v->runs[at[2] % v->devices];
    gxrt_buffer *b = at[2] & 8 ? &v->results[at[2] % v->devices][0]
                               : &v->arguments[at[2] % v->devices][0];
    const Pointer *p = &all.pointers[at[2] / 16 % POINTERS];
    switch (at[3] % 16) {
    case 0:
        *n += 1 + at[2];
        return true;
    case 1:
        r->arguments = NULL;
        return true;
    case 2:
        r->result_count++;
        return true;
    case 3:
        r->struct_size = at[2] % sizeof *r;
        return true;
    case 4:
        b->bytes -= b->bytes != 0;
        return true;
    case 5:
        b->data = (char *)b->data + 1 + at[2] % 15;
        return true;
    case 6:
        b->dtype = "f7";
        return true;
    case 7:
        b->dims = dims;
        b->rank = at[2] % 8;
        return b->rank > 2;
    case 8:
        b->struct_size = 0;
        return true;
    case 9: /* of another device, another session, or too small */
        if (p->data != NULL)
            b->data = p->data;
        return false;
    case 10:
        b->data = (void *)&all; /* not of a device */
        return true;
    default:
        return false;
    }
}

static void on_event(void *user, const gxrt_event *event)
{
    (void)user;
    PROMISE(event->name != NULL && event->kind != NULL, "an event without a name");
}

static void *execute(const uint8_t *at)
{
    size_t i = at[1] % HANDLES;
    gxrt_session *s = all.sessions[i];
    Values v;
    if (s == NULL) {
        check(gxrt_execute(NULL, at[2], NULL), "gxrt_execute");
        return NULL;
    }
    if (make_values(all.programs[all.program_of[i]], s, &v)) {
        size_t n = v.devices;
        Values right = v;
        bool is_wrong = spoil(&v, at, &n);
        gxrt_status st = at[1] >= 200 ? gxrt_profile(s, n, v.runs, on_event, NULL)
                                      : gxrt_execute(s, n, v.runs);
        check(st, "gxrt_execute");
        PROMISE(!is_wrong || st != GXRT_OK, "a wrong call (%d) is taken", at[3] % 16);
        for (size_t d = 0; d < right.devices; d++)
            check(gxrt_synchronize(s, d), "gxrt_synchronize");
        v = right;
    }
    free_values(s, &v);
    return NULL;
}

static void *synchronize(const uint8_t *at)
{
    check(gxrt_synchronize(all.sessions[at[1] % HANDLES], size_of(at[2])),
          "gxrt_synchronize");
    gxrt_session_info info = {.struct_size = at[3] % 2 ? sizeof info : at[3]};
    check(
        gxrt_session_get_info(all.sessions[at[1] % HANDLES], at[3] == 255 ? NULL : &info),
        "gxrt_session_get_info");
    return NULL;
}

/* --- threads ------------------------------------------------------------------------------- */

typedef struct Job {
    void *(*call)(const uint8_t *at);
    uint8_t at[CALL_BYTES];
} Job;

static void *work(void *argument)
{
    Job *j = argument;
    return j->call(j->at);
}

/* A session is used by one thread at a time, not always by the same. */
static void elsewhere(void *(*call)(const uint8_t *), const uint8_t *at)
{
    Job job = {.call = call};
    pthread_t thread;
    memcpy(job.at, at, CALL_BYTES);
    PROMISE(pthread_create(&thread, NULL, work, &job) == 0, "no thread");
    pthread_join(thread, NULL);
}

/* All sessions at once. */
static void beside(const uint8_t *at)
{
    Job jobs[HANDLES];
    pthread_t threads[HANDLES];
    for (uint8_t i = 0; i < HANDLES; i++) {
        jobs[i] = (Job){execute, {at[0], i, at[2], at[3]}};
        PROMISE(pthread_create(&threads[i], NULL, work, &jobs[i]) == 0, "no thread");
    }
    for (size_t i = 0; i < HANDLES; i++)
        pthread_join(threads[i], NULL);
}

/* --- one input ----------------------------------------------------------------------------- */

static void call(const uint8_t *at)
{
    static void *(*const calls[])(const uint8_t *) = {create_session, allocate, copy,
                                                      execute, synchronize};
    switch (at[0] % 12) {
    case 0:
        open_program(at);
        break;
    case 1:
        open_world(at);
        break;
    case 2:
        ask_program(at);
        break;
    case 3:
        end_program(at);
        break;
    case 4:
        end_session(at);
        break;
    case 5:
        give_back(at);
        break;
    case 6:
        beside(at);
        break;
    default:
        if (at[0] >= 192)
            elsewhere(calls[at[0] % 12 - 7], at);
        else
            calls[at[0] % 12 - 7](at);
        break;
    }
}

static void end_all(void)
{
    static const uint8_t right = 255; /* spoils nothing */
    for (uint8_t i = 0; i < HANDLES; i++) {
        if (all.sessions[i] != NULL)
            execute((const uint8_t[CALL_BYTES]){0, i, 0, right});
        end_session((const uint8_t[CALL_BYTES]){0, i, 0, 0});
    }
    for (size_t i = 0; i < HANDLES; i++) {
        gxrt_world_destroy(all.worlds[i]);
        gxrt_program_destroy(all.programs[i]);
    }
    memset(&all, 0, sizeof all);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    setenv("GXEMU_SHADOW", "1", 1);
    setenv("GXEMU_MEMORY", "100000000", 1);
    setenv("GXEMU_WORKERS", "1", 1);
    for (size_t i = 0; i < CALLS_MOST && (i + 1) * CALL_BYTES <= size; i++)
        call(data + i * CALL_BYTES);
    end_all();
}
