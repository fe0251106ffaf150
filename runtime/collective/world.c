/* Who the ranks are. The one file of libgxrt that reads the environment. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/collective/store.h"
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

/* The store that the environment names, with its secret; the caller frees it. NULL: none. */
static char *store_text(void)
{
    static const char scheme[] = "tcp://";
    const char *store = getenv("GXRT_STORE");
    const char *secret = getenv("GXRT_SECRET");
    bool is_tcp = store && strncmp(store, scheme, strlen(scheme)) == 0;
    size_t size = (store ? strlen(store) : 0) + (secret ? strlen(secret) : 0) + 2;
    char *text = store ? malloc(size) : NULL;
    if (text && is_tcp && secret && *secret) {
        snprintf(text, size, "%s%s@%s", scheme, secret, store + strlen(scheme));
    } else if (text) {
        snprintf(text, size, "%s", store);
    }
    return text;
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
        char *store = store_text();
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
    if (world) {
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
