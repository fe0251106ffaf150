/* See config.h. */
#include "runtime/emu/config.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static EmuConfig config;
static pthread_once_t config_once = PTHREAD_ONCE_INIT;

static void config_refuse(const char *name, const char *text, const char *expected)
{
    if (config.problem[0] == '\0')
        snprintf(config.problem, sizeof config.problem, "%s=%.40s: expected %s", name,
                 text, expected);
}

/* Reads the number at `text`, which must reach to the end. */
static bool number_read(const char *text, long long least, long long most, long long *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < least || value > most)
        return false;
    *out = value;
    return true;
}

static long long number_from(const char *name, long long least, long long most,
                             long long otherwise)
{
    const char *text = getenv(name);
    long long value = otherwise;
    if (text != NULL && text[0] != '\0' && !number_read(text, least, most, &value)) {
        char expected[80];
        snprintf(expected, sizeof expected, "a number from %lld to %lld", least, most);
        config_refuse(name, text, expected);
    }
    return value;
}

/* Reads "first:second", or only "second" where both are not required. */
static void pair_read(const char *name, bool both, long long most, long long *first,
                      long long *second)
{
    const char *text = getenv(name);
    char head[24];
    if (text == NULL || text[0] == '\0')
        return;
    const char *colon = strchr(text, ':');
    snprintf(head, sizeof head, "%.*s", colon == NULL ? 0 : (int)(colon - text), text);
    if ((colon == NULL && both) ||
        (colon != NULL && !number_read(head, 0, INT_MAX, first)) ||
        !number_read(colon == NULL ? text : colon + 1, 0, most, second))
        config_refuse(name, text,
                      both ? "two numbers, as 1:20" : "a number, or two as 1:20");
}

static void arch_read(void)
{
    const char *text = getenv("GXEMU_ARCH");
    long long number;
    config.major = 9;
    config.minor = 0;
    if (text == NULL || text[0] == '\0')
        return;
    char digits[8] = "";
    if (strncmp(text, "sm_", 3) == 0)
        snprintf(digits, sizeof digits, "%s", text + 3);
    size_t length = strlen(digits);
    if (length > 0 && (digits[length - 1] == 'a' || digits[length - 1] == 'f'))
        digits[length - 1] = '\0';
    if (!number_read(digits, 70, 999, &number)) {
        config_refuse("GXEMU_ARCH", text, "a target such as sm_90");
        return;
    }
    config.major = (int)(number / 10);
    config.minor = (int)(number % 10);
}

/* The number of the variable's text among `names`; 0 if it is not set. */
static int choice_read(const char *name, const char *const *names, int count,
                       const char *expected)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0')
        return 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0)
            return i;
    }
    config_refuse(name, text, expected);
    return 0;
}

static void choices_read(void)
{
    static const char *const schedules[] = {"eager", "threads", "lazy"};
    static const char *const copies[] = {"late", "early"};
    config.schedule =
        (Schedule)choice_read("GXEMU_SCHEDULE", schedules, 3, "eager, threads or lazy");
    config.copies_early = choice_read("GXEMU_COPIES", copies, 2, "late or early") == 1;
}

static void failure_read(void)
{
    const char *text = getenv("GXEMU_FAIL_CALL");
    long long number;
    if (text == NULL || text[0] == '\0')
        return;
    const char *colon = strchr(text, ':');
    if (colon != NULL)
        snprintf(config.fail_name, sizeof config.fail_name, "%.*s", (int)(colon - text),
                 text);
    if (!number_read(colon != NULL ? colon + 1 : text, 1, LONG_MAX, &number)) {
        config_refuse("GXEMU_FAIL_CALL", text,
                      "a number, or the name of a function and a number");
        return;
    }
    config.fail_call = (long)number;
}

/* Three quarters of what this machine has, at most what a large GPU has. */
static uint64_t memory_default(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t most = UINT64_C(80) << 30;
    uint64_t here =
        pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 4 * 3 : most;
    return here < most ? here : most;
}

/* Hours, of the smallest kernels. */
static const long long STEPS_DEFAULT = 1000000000000;

static void config_read(void)
{
    const char *devices = getenv("GXEMU_DEVICES");
    config.devices_given = devices != NULL && devices[0] != '\0';
    config.devices = (int)number_from("GXEMU_DEVICES", 1, CONFIG_MOST_DEVICES, 1);
    config.memory =
        (uint64_t)number_from("GXEMU_MEMORY", 1, LLONG_MAX, (long long)memory_default());
    config.steps = (uint64_t)number_from("GXEMU_STEPS", 1, LLONG_MAX, STEPS_DEFAULT);
    config.streams = (unsigned)number_from("GXEMU_STREAMS", 1, 1 << 20, 4096);
    config.driver_version = (int)number_from("GXEMU_DRIVER_VERSION", 0, INT_MAX, 13000);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    config.workers = (int)number_from("GXEMU_WORKERS", 1, 256, cores > 1 ? cores : 1);
    config.shadow = number_from("GXEMU_SHADOW", 0, 1, 0) != 0;
    config.race = number_from("GXEMU_RACE", 0, 1, 0) != 0;
    const char *banks = getenv("GXEMU_BANKS");
    config.banks = banks != NULL && banks[0] != '\0' ? banks : NULL;
    config.nccl_version = (int)number_from("GXEMU_NCCL_VERSION", 0, INT_MAX, 22707);
    config.cudnn_version = (int)number_from("GXEMU_CUDNN_VERSION", 0, INT_MAX, 91300);
    config.cusolver_version =
        (int)number_from("GXEMU_CUSOLVER_VERSION", 0, INT_MAX, 12000);
    config.cudnn_workspace = number_from("GXEMU_CUDNN_WORKSPACE", 0, INT_MAX, 0);
    long long first = 0, second = 0;
    pair_read("GXEMU_DELAY", false, 10000000, &first, &second);
    config.delay_seed = (uint32_t)first;
    config.delay = (uint32_t)second;
    first = second = 0;
    pair_read("GXEMU_LOSE_RANK", true, LLONG_MAX, &first, &second);
    config.lose_rank = (int)first;
    config.lose_call = (uint64_t)second;
    first = second = 0;
    pair_read("GXEMU_DELAY_RANK", true, 10000000, &first, &second);
    config.delay_rank = (int)first;
    config.delay_rank_time = (uint32_t)second;
    arch_read();
    choices_read();
    failure_read();
}

EmuConfig *emu_config(void)
{
    pthread_once(&config_once, config_read);
    return &config;
}
