/* Who the ranks are. The one file of libgxrt that reads the environment. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/collective/store.h"
#include "runtime/run/fork.h"
#include "runtime/run/session.h"

/* The variables of each launcher, most explicit first. */
static const struct {
    const char *rank, *size, *local, *launcher;
} launchers[] = {
    {"GXRT_RANK", "GXRT_WORLD_SIZE", "GXRT_LOCAL_RANK", "GXRT_RANK"},
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "torchrun"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "mpirun"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "mpirun"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "srun"},
};

static int read_number(const char *text, uint32_t *out)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    bool is_digit = *text >= '0' && *text <= '9'; /* no sign, no space */
    if (errno || *end || !is_digit || n > UINT32_MAX) {
        return 0;
    }
    *out = (uint32_t)n;
    return 1;
}

gxrt_status gxrt_world_create(uint32_t rank, uint32_t size, const char *store,
                              gxrt_world **out)
{
    if (!out) {
        return status_set(GXRT_INVALID_ARGUMENT, "gxrt_world_create: NULL result");
    }
    *out = NULL;
    if (rank >= size) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_world_create: rank %u of a world of %u ranks", rank,
                          size);
    }
    gxrt_world *world = calloc(1, sizeof *world);
    if (!world) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_world_create: no memory");
    }
    world->generation = fork_generation();
    world->rank = rank;
    world->size = size;
    world->local_rank = rank;
    gxrt_status st =
        store && size > 1 ? store_open(store, rank, size, &world->store) : GXRT_OK;
    if (st != GXRT_OK) {
        free(world);
        return st;
    }
    *out = world;
    return GXRT_OK;
}

/* The store that the environment names, with its secret; the caller frees it. NULL: none. False: there is no memory. */
static bool store_text(char **out)
{
    static const char scheme[] = "tcp://";
    const char *store = getenv("GXRT_STORE");
    const char *secret = getenv("GXRT_SECRET");
    bool is_tcp = store && strncmp(store, scheme, strlen(scheme)) == 0;
    size_t size = (store ? strlen(store) : 0) + (secret ? strlen(secret) : 0) + 2;
    *out = store ? malloc(size) : NULL;
    if (*out && is_tcp && secret && *secret) {
        snprintf(*out, size, "%s%s@%s", scheme, secret, store + strlen(scheme));
    } else if (*out) {
        snprintf(*out, size, "%s", store);
    }
    return *out || !store;
}

gxrt_status gxrt_world_from_environment(gxrt_world **out)
{
    if (!out) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_world_from_environment: NULL result");
    }
    *out = NULL;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *rank_text = getenv(launchers[i].rank);
        const char *size_text = getenv(launchers[i].size);
        bool is_ours = i == 0 && (rank_text || size_text);
        if (!is_ours && (!rank_text || !size_text)) {
            continue;
        }
        const char *local_text = getenv(launchers[i].local);
        uint32_t rank;
        uint32_t size;
        uint32_t local;
        rank_text = rank_text ? rank_text : "";
        size_text = size_text ? size_text : "";
        if (!read_number(rank_text, &rank) || !read_number(size_text, &size)) {
            return status_set(
                GXRT_INVALID_ARGUMENT,
                "gxrt_world_from_environment: %s=%s and %s=%s (set by %s) are "
                "no numbers",
                launchers[i].rank, rank_text, launchers[i].size, size_text,
                launchers[i].launcher);
        }
        local = rank;
        if (local_text && !read_number(local_text, &local)) {
            return status_set(
                GXRT_INVALID_ARGUMENT,
                "gxrt_world_from_environment: %s=%s (set by %s) is no number",
                launchers[i].local, local_text, launchers[i].launcher);
        }
        char *store;
        if (!store_text(&store)) {
            return status_set(GXRT_OUT_OF_MEMORY,
                              "gxrt_world_from_environment: no memory");
        }
        gxrt_status st = gxrt_world_create(rank, size, store, out);
        free(store);
        if (st == GXRT_OK) {
            (*out)->local_rank = local;
        }
        return st;
    }
    return gxrt_world_create(0, 1, NULL, out);
}

void gxrt_world_destroy(gxrt_world *world)
{
    if (world && world->generation == fork_generation()) { /* else it is the parent's */
        store_close(world->store);
        free(world);
    }
}

uint32_t gxrt_world_rank(const gxrt_world *world)
{
    return world ? world->rank : 0;
}

uint32_t gxrt_world_size(const gxrt_world *world)
{
    return world ? world->size : 1;
}

/* --- gather ------------------------------------------------------------------------------------ */

static void gather_key(char key[STORE_MOST_KEY], const gxrt_world *w, uint32_t rank,
                       size_t piece)
{
    snprintf(key, STORE_MOST_KEY, "gather-%u-%u-%zu", w->gathers, rank, piece);
}

enum { PIECE_DONE = 1 << 30 /* not a piece: the rank has read everything */ };

/* Some stores go with rank 0: it waits until the others have read. */
static gxrt_status leave_together(const gxrt_world *w, double seconds)
{
    char key[STORE_MOST_KEY];
    char done = 1;
    gather_key(key, w, w->rank, PIECE_DONE);
    gxrt_status st = store_put(w->store, key, &done, sizeof done, seconds);
    for (uint32_t rank = 1; rank < w->size && w->rank == 0 && st == GXRT_OK; rank++) {
        gather_key(key, w, rank, PIECE_DONE);
        st = store_get(w->store, key, &done, sizeof done, seconds);
    }
    return st;
}

/* Piece 0 is the size, the others are the bytes in turn. */
static gxrt_status put_all(const gxrt_world *w, const char *bytes, size_t size,
                           double seconds)
{
    char key[STORE_MOST_KEY];
    uint64_t all = size;
    gather_key(key, w, w->rank, 0);
    gxrt_status st = store_put(w->store, key, &all, sizeof all, seconds);
    for (size_t at = 0; at < size && st == GXRT_OK; at += STORE_MOST_VALUE) {
        size_t n = size - at < STORE_MOST_VALUE ? size - at : STORE_MOST_VALUE;
        gather_key(key, w, w->rank, at / STORE_MOST_VALUE + 1);
        st = store_put(w->store, key, bytes + at, n, seconds);
    }
    return st;
}

/* *out is the caller's to free. */
static gxrt_status get_all(const gxrt_world *w, uint32_t rank, double seconds, char **out,
                           size_t *out_size)
{
    char key[STORE_MOST_KEY];
    uint64_t all = 0;
    gather_key(key, w, rank, 0);
    gxrt_status st = store_get(w->store, key, &all, sizeof all, seconds);
    *out = st == GXRT_OK && all < SIZE_MAX ? malloc((size_t)all + 1) : NULL;
    if (st == GXRT_OK && !*out) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_world_gather: no memory");
    }
    for (size_t at = 0; at < all && st == GXRT_OK; at += STORE_MOST_VALUE) {
        size_t n = all - at < STORE_MOST_VALUE ? (size_t)all - at : STORE_MOST_VALUE;
        gather_key(key, w, rank, at / STORE_MOST_VALUE + 1);
        st = store_get(w->store, key, *out + at, n, seconds);
    }
    *out_size = (size_t)all;
    return st;
}

gxrt_status
gxrt_world_gather(gxrt_world *w, const void *bytes, size_t size, double seconds,
                  void (*take)(void *user, uint32_t rank, const void *bytes, size_t size),
                  void *user)
{
    if (!take || (size && !bytes)) {
        return status_set(GXRT_INVALID_ARGUMENT, "gxrt_world_gather: NULL argument");
    }
    gxrt_status st = wait_check_seconds("gxrt_world_gather", seconds);
    if (st != GXRT_OK) {
        return st;
    }
    if (!w || w->size == 1) {
        take(user, 0, bytes, size);
        return GXRT_OK;
    }
    if (!w->store) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_world_gather: a world of %u ranks has no store: set "
                          "GXRT_STORE",
                          w->size);
    }
    st = fork_check(w->generation, "gxrt_world_gather");
    st = st == GXRT_OK ? put_all(w, bytes, size, seconds) : st;
    for (uint32_t rank = 0; rank < w->size && st == GXRT_OK; rank++) {
        char *got = NULL;
        size_t got_size = 0;
        st = get_all(w, rank, seconds, &got, &got_size);
        if (st == GXRT_OK) {
            take(user, rank, got, got_size);
        }
        free(got);
    }
    st = st == GXRT_OK ? leave_together(w, seconds) : st;
    w->gathers++;
    return st;
}
