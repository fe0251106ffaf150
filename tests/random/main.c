/* check-random: makes modules from seeds and checks each (check.c); what fails is shrunk and
 * written out.
 *
 *     random [-n COUNT] [-s FIRST_SEED] [-j JOBS] [-t SECONDS] [-o FOLDER] [-k FOLDER] [-R] [-w]
 *                               -w: of products on tensor cores, in any configuration
 *                               -k: keeps what is right as programs for a GPU
 *     random [-x] -p SEED       prints the module of a seed; -x: of operations that XLA:CPU has
 *     random -l [-n COUNT]      lists the opcodes that no module of these seeds has
 *     random -c FILE [-d DATA] [-O LEVEL] [-r]   checks a module; -r: shrinks it
 *
 * Exit: 0 nothing found, 1 found something, 2 usage. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "ir/op.h"
#include "tests/random/keep.h"
#include "tests/random/random.h"

typedef struct Options {
    uint64_t first, count;
    int jobs, seconds;
    const char *folder;
    bool keep; /* do not shrink */
    const char *file;
    uint64_t data;
    int level;
    bool shrink, list;
} Options;

/* What workers and parent share. */
typedef struct Worker {
    uint64_t seed; /* now being checked */
    double since;
    uint64_t counts[VERDICT_COUNT];
} Worker;

static int level_of(uint64_t seed)
{
    return seed % 5 == 0 ? 0 : seed % 5 == 1 ? 2 : 1;
}

/* -- one module in its own process ------------------------------------------------------------- */

typedef struct Report {
    Verdict verdict;
    char message[2000];
} Report;

static void limit_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct rlimit memory = {(rlim_t)8 << 30, (rlim_t)8 << 30};
    setrlimit(RLIMIT_AS, &memory);
#endif
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
}

/* Ends the process after so many seconds of processor time (0: never), however busy the machine is;
 * if it waits for nothing, after ten times as many. */
static void limit_time(int seconds)
{
    struct itimerval t = {.it_value = {.tv_sec = seconds}};
    setitimer(ITIMER_PROF, &t, NULL);
    alarm(10 * (unsigned)seconds);
}

Verdict check_apart(const char *text, uint64_t data, int level, int seconds,
                    char *message, size_t size)
{
    Report *r =
        mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    r->verdict = VERDICT_DEAD;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        limit_memory();
        limit_time(seconds);
        char *buffer = malloc(sizeof r->message);
        Verdict v = check_module(text, data, level, buffer, sizeof r->message);
        memcpy(r->message, buffer, sizeof r->message);
        r->verdict = v;
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    Verdict v = r->verdict;
    if (v == VERDICT_DEAD)
        snprintf(message, size, "died: %s",
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit");
    else
        snprintf(message, size, "%s", r->message);
    munmap(r, sizeof *r);
    return v;
}

/* -- failures ----------------------------------------------------------------------------------- */

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
}

static void report(const Options *o, uint64_t seed, Verdict v, const char *message)
{
    char path[512];
    char *text = generate(seed);
    printf("seed %llu -O%d: %s: %s\n", (unsigned long long)seed, level_of(seed),
           verdict_names[v], message);
    snprintf(path, sizeof path, "%s/%s-%llu.hlo", o->folder, verdict_names[v],
             (unsigned long long)seed);
    write_text(path, text);
    if (!o->keep) {
        char *small = reduce_module(text, seed, level_of(seed), v, message);
        snprintf(path, sizeof path, "%s/%s-%llu.small.hlo", o->folder, verdict_names[v],
                 (unsigned long long)seed);
        write_text(path, small);
        free(small);
    }
    printf("  written to %s; again: -c %s -d %llu -O %d\n", path, path,
           (unsigned long long)seed, level_of(seed));
    fflush(stdout);
    free(text);
}

/* -- workers ------------------------------------------------------------------------------------ */

static bool is_failure(Verdict v)
{
    return v != VERDICT_GOOD && v != VERDICT_UNSUPPORTED;
}

static void work(const Options *o, Worker *w, uint64_t from, double end)
{
    char message[2000];
    limit_memory();
    uint64_t done = 0;
    for (uint64_t seed = from; seed < o->first + o->count; seed += (uint64_t)o->jobs) {
        if (seconds_now() > end)
            break;
        w->seed = seed;
        w->since = seconds_now();
        limit_time(20);
        char *text = generate(seed);
        Verdict v = check_module(text, seed, level_of(seed), message, sizeof message);
        limit_time(0);
        free(text);
        w->counts[v]++;
        if (v == VERDICT_UNSUPPORTED)
            fprintf(stderr, "seed %llu: %.300s\n", (unsigned long long)seed, message);
        if (is_failure(v))
            report(o, seed, v, message);
        if (++done == 2000) { /* a fresh process: nothing may pile up */
            w->seed = seed + (uint64_t)o->jobs;
            _exit(7);
        }
    }
    _exit(0);
}

static void start(const Options *o, Worker *w, uint64_t from, double end, pid_t *out)
{
    fflush(NULL);
    *out = fork();
    if (*out == 0)
        work(o, w, from, end);
}

/* Waits for all workers; one that dies is replaced by one that goes on behind the seed. */
static void supervise(const Options *o, Worker *workers, double end)
{
    pid_t pids[64];
    int running = 0;
    for (int i = 0; i < o->jobs; i++, running++)
        start(o, &workers[i], o->first + (uint64_t)i, end, &pids[i]);
    while (running > 0) {
        int status;
        pid_t pid = wait(&status);
        int i = 0;
        while (i < o->jobs && pids[i] != pid)
            i++;
        if (i == o->jobs)
            continue;
        Worker *w = &workers[i];
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            running--;
        } else if (WIFEXITED(status) && WEXITSTATUS(status) == 7) {
            start(o, w, w->seed, end, &pids[i]);
        } else {
            char message[128];
            w->counts[VERDICT_DEAD]++;
            snprintf(message, sizeof message, "died: %s",
                     WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit");
            report(o, w->seed, VERDICT_DEAD, message);
            start(o, w, w->seed + (uint64_t)o->jobs, end, &pids[i]);
        }
    }
}

static int run_all(const Options *o)
{
    Worker *workers = mmap(NULL, 64 * sizeof *workers, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t counts[VERDICT_COUNT] = {0};
    uint64_t all = 0;
    uint64_t bad = 0;
    double started = seconds_now();
    supervise(o, workers, o->seconds > 0 ? started + o->seconds : 1e300);
    for (int v = 0; v < VERDICT_COUNT; v++) {
        for (int i = 0; i < o->jobs; i++)
            counts[v] += workers[i].counts[v];
        all += counts[v];
        bad += is_failure((Verdict)v) ? counts[v] : 0;
    }
    printf("random: %llu modules in %.0f s:", (unsigned long long)all,
           seconds_now() - started);
    for (int v = 0; v < VERDICT_COUNT; v++) {
        if (counts[v] != 0)
            printf(" %llu %s", (unsigned long long)counts[v], verdict_names[v]);
    }
    printf("\n");
    return bad != 0 || all == 0;
}

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    if (f == NULL || getdelim(&text, &size, '\0', f) < 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(2);
    }
    fclose(f);
    return text;
}

/* Which opcodes of the table the generator never makes. */
static int list_missing(const Options *o)
{
    bool has[OP_COUNT] = {false};
    uint64_t count = o->count < 1000000 ? o->count : 2000;
    for (uint64_t seed = o->first; seed < o->first + count; seed++) {
        char *text = generate(seed);
        for (int op = 0; op < OP_COUNT; op++) {
            char call[64];
            snprintf(call, sizeof call, " %s(", op_info[op].name);
            has[op] = has[op] || strstr(text, call) != NULL;
        }
        free(text);
    }
    int missing = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        if (!has[op])
            printf("%s\n", op_info[op].name);
        missing += !has[op];
    }
    return missing != 0;
}

static int check_file(const Options *o)
{
    char message[2000];
    char *text = read_text(o->file);
    Verdict v = check_apart(text, o->data, o->level, 60, message, sizeof message);
    printf("%s: %s\n", verdict_names[v], message);
    if (o->shrink && is_failure(v)) {
        char *small = reduce_module(text, o->data, o->level, v, message);
        printf("%s", small);
        free(small);
    }
    free(text);
    return is_failure(v);
}

static void print_module(uint64_t seed)
{
    char *text = generate(seed);
    fputs(text, stdout);
    free(text);
}

int main(int argc, char **argv)
{
    Options o = {.first = 1, .count = 1000000000, .jobs = 1, .folder = ".", .level = 1};
    int option;
    while ((option = getopt(argc, argv, "n:s:j:t:o:k:Rp:c:d:O:rlxw")) != -1) {
        switch (option) {
        case 'n':
            o.count = strtoull(optarg, NULL, 10);
            break;
        case 's':
            o.first = strtoull(optarg, NULL, 10);
            break;
        case 'j':
            o.jobs = atoi(optarg);
            break;
        case 't':
            o.seconds = atoi(optarg);
            break;
        case 'o':
            o.folder = optarg;
            break;
        case 'k':
            random_keep_folder = optarg;
            random_keep = keep_program;
            break;
        case 'R':
            o.keep = true;
            break;
        case 'p':
            print_module(strtoull(optarg, NULL, 10));
            return 0;
        case 'c':
            o.file = optarg;
            break;
        case 'd':
            o.data = strtoull(optarg, NULL, 10);
            break;
        case 'O':
            o.level = atoi(optarg);
            break;
        case 'r':
            o.shrink = true;
            break;
        case 'x':
            generate_plain = true;
            break;
        case 'w':
            generate_products = true;
            break;
        case 'l':
            o.list = true;
            break;
        default:
            return 2;
        }
    }
    if (o.jobs < 1 || o.jobs > 64 || optind != argc)
        return 2;
    static char folder[4096];
    const char *slash = strrchr(argv[0], '/');
    snprintf(folder, sizeof folder, "%.*s/..", slash != NULL ? (int)(slash - argv[0]) : 1,
             slash != NULL ? argv[0] : ".");
    random_emulator_folder = folder;
    setenv("GXEMU_SHADOW", "1", 0);
    setenv("GXEMU_RACE", "1", 0);
    return o.list ? list_missing(&o) : o.file != NULL ? check_file(&o) : run_all(&o);
}
