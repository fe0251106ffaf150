/* Two ranks of a world, each on a thread of its own, as processes would be: a store between them, what they gather,
 * sessions, executions. The second may be wrong about itself, or not come. Each call of both ends in time, with a
 * status; where nothing is wrong, all do well.
 *
 * An input is what they do, of either one what it runs and gathers, and what is wrong with the second (WorldByte). */
#include <pthread.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "runtime/gxrt.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/shared/folder.h"
#include "tests/fuzz/shared/listener.h"
#include "tests/fuzz/shared/look.h"
#include "tests/fuzz/shared/values.h"

enum { RANKS = 2, GATHERED_MOST = 140000, SECONDS = 10 };

typedef enum WorldByte {
    WORLD_STORE, /* StoreKind */
    WORLD_WRONG, /* WrongBits, of rank 1 */
    WORLD_PROGRAM,
    WORLD_GATHERED = WORLD_PROGRAM + RANKS, /* bytes */
    WORLD_RUNS = WORLD_GATHERED + RANKS,
    WORLD_BYTES = WORLD_RUNS + RANKS
} WorldByte;

typedef enum StoreKind { STORE_FOLDER, STORE_TCP, STORE_NONE, STORE_KINDS } StoreKind;

typedef enum WrongBits {
    WRONG_SECRET = 1,
    WRONG_RANK = 2,    /* it says that it is rank 0 */
    WRONG_SIZE = 4,    /* of its world */
    WRONG_AWAY = 8,    /* it does not come */
    WRONG_LEAVES = 16, /* once it has gathered */
    WRONG_DEVICE = 32, /* it takes that of rank 0 */
    WRONG_LATE = 64,   /* this is not wrong */
    WRONG_AGAIN = 128  /* nor this: a second session, of both */
} WrongBits;

static const char *const names[] = {"collectives", "transfers", "loop"};
enum { PROGRAMS = sizeof names / sizeof *names };
static gxrt_program *programs[PROGRAMS];

typedef struct Rank {
    uint32_t number, said; /* what it says that it is */
    const uint8_t *data;
    unsigned wrong;
    double seconds; /* to wait for the other */
    char store[96];
    gxrt_status status; /* the first that is not OK */
    pthread_t thread;
} Rank;

/* --- a rank -------------------------------------------------------------------------------- */

static bool went_well(Rank *r, gxrt_status st, const char *what)
{
    PROMISE(st == GXRT_OK || gxrt_last_error()[0] != '\0', "%s fails without a word",
            what);
    PROMISE(st == GXRT_OK || r->seconds < SECONDS, "rank %u, %s: %s", r->number, what,
            gxrt_last_error());
    if (r->status == GXRT_OK)
        r->status = st;
    return st == GXRT_OK;
}

static size_t gathered(const Rank *r, uint32_t rank)
{
    static const size_t sizes[] = {0, 1, 8, 1000, 65535, 65536, 65537, GATHERED_MOST};
    return sizes[r->data[WORLD_GATHERED + rank % RANKS] % (sizeof sizes / sizeof *sizes)];
}

static void take(void *user, uint32_t rank, const void *bytes, size_t size)
{
    const Rank *r = user;
    const unsigned char *at = bytes;
    PROMISE(rank < RANKS && size == gathered(r, rank), "%zu bytes of rank %u", size,
            rank);
    PROMISE(size == 0 || (at[0] == rank && at[size - 1] == rank),
            "bytes of another rank");
}

static bool gather(Rank *r, gxrt_world *w)
{
    size_t size = gathered(r, r->said);
    unsigned char *mine = malloc(size + 1);
    PROMISE(mine != NULL, "no memory");
    memset(mine, (int)r->said, size);
    gxrt_status st = gxrt_world_gather(w, mine, size, r->seconds, take, r);
    free(mine);
    return went_well(r, st, "gxrt_world_gather");
}

static void run_session(Rank *r, gxrt_world *w)
{
    gxrt_program *p = programs[r->data[WORLD_PROGRAM + r->number] % PROGRAMS];
    int device = r->wrong & WRONG_DEVICE ? 0 : (int)r->number;
    Values v = {0};
    gxrt_session_options o = {.struct_size = sizeof o,
                              .device = "emu",
                              .devices = &device,
                              .device_count = 1,
                              .allow_native = 1,
                              .library_path = fuzz_folder(),
                              .exact_emulated_devices = RANKS,
                              .world = w,
                              .timeout_seconds = r->seconds};
    gxrt_session *s;
    bool ok = went_well(r, gxrt_session_create(p, &o, &s), "gxrt_session_create");
    PROMISE(ok == (s != NULL), "a session that was refused");
    if (!ok)
        return;
    if (values_make(p, s, 0, &v)) {
        for (int i = r->data[WORLD_RUNS + r->number] % 4; i > 0 && ok; i--)
            ok = went_well(r, gxrt_execute(s, 1, v.runs), "gxrt_execute");
        went_well(r, gxrt_synchronize(s, 0), "gxrt_synchronize");
    }
    values_free(s, 0, &v);
    gxrt_session_destroy(s);
}

static void *be_rank(void *argument)
{
    Rank *r = argument;
    gxrt_world *w;
    if (r->wrong & WRONG_LATE)
        sleep_seconds(0.03);
    gxrt_status st = gxrt_world_create(r->said, r->wrong & WRONG_SIZE ? RANKS + 1 : RANKS,
                                       r->store[0] != '\0' ? r->store : NULL, &w);
    PROMISE((st == GXRT_OK) == (w != NULL), "a world that was refused");
    if (went_well(r, st, "gxrt_world_create") && gather(r, w) &&
        !(r->wrong & WRONG_LEAVES)) {
        for (int i = 0; i <= r->data[WORLD_WRONG] / WRONG_AGAIN && r->status == GXRT_OK;
             i++)
            run_session(r, w);
    }
    gxrt_world_destroy(w);
    return NULL;
}

/* --- one input ----------------------------------------------------------------------------- */

static void choose_store(Rank *ranks, StoreKind kind)
{
    Listener listener;
    char folder[64];
    if (kind == STORE_TCP)
        close(listener_open(&listener));
    snprintf(folder, sizeof folder, "file:/tmp/gxrt-fuzz-world-%ld", (long)getpid());
    for (int i = 0; i < RANKS; i++)
        snprintf(ranks[i].store, sizeof ranks[i].store, "%s",
                 kind == STORE_TCP      ? listener.address
                 : kind == STORE_FOLDER ? folder
                                        : "");
    if (kind == STORE_TCP && (ranks[1].wrong & WRONG_SECRET))
        ranks[1].store[strlen("tcp://")] = 'x';
}

/* Whether both must do well. */
static bool is_right(const uint8_t *data)
{
    unsigned wrong = data[WORLD_WRONG] & (WRONG_LATE - 1);
    bool is_tcp = data[WORLD_STORE] % STORE_KINDS == STORE_TCP;
    if (!is_tcp)
        wrong &= ~(unsigned)WRONG_SECRET;
    return wrong == 0 && data[WORLD_STORE] % STORE_KINDS != STORE_NONE &&
           data[WORLD_PROGRAM] % PROGRAMS == data[WORLD_PROGRAM + 1] % PROGRAMS &&
           data[WORLD_PROGRAM] % PROGRAMS != 2 && /* which is for one device */
           data[WORLD_RUNS] % 4 == data[WORLD_RUNS + 1] % 4;
}

static void set_up(void)
{
    setenv("GXEMU_SHADOW", "1", 1);
    setenv("GXEMU_MEMORY", "100000000", 1);
    setenv("GXEMU_WORKERS", "1", 1);
    for (int i = 0; i < PROGRAMS; i++) {
        size_t size;
        const void *file = look_read(names[i], &size); /* stays */
        PROMISE(gxrt_program_open_memory(file, size, &programs[i]) == GXRT_OK, "%s",
                gxrt_last_error());
    }
}

void fuzz_input(const uint8_t *data, size_t size)
{
    Rank ranks[RANKS] = {0};
    if (programs[0] == NULL)
        set_up();
    if (size < WORLD_BYTES)
        return;
    fuzz_allow(SECONDS);
    for (uint32_t i = 0; i < RANKS; i++)
        ranks[i] = (Rank){.number = i,
                          .said = data[WORLD_WRONG] & WRONG_RANK ? 0 : i,
                          .data = data,
                          .wrong = i == 1 ? data[WORLD_WRONG] : 0,
                          .seconds = is_right(data) ? SECONDS : 0.2};
    choose_store(ranks, (StoreKind)(data[WORLD_STORE] % STORE_KINDS));
    int count = data[WORLD_WRONG] & WRONG_AWAY ? 1 : RANKS;
    for (int i = 0; i < count; i++)
        PROMISE(pthread_create(&ranks[i].thread, NULL, be_rank, &ranks[i]) == 0,
                "no thread");
    for (int i = 0; i < count; i++)
        pthread_join(ranks[i].thread, NULL);
}
