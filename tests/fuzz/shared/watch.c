/* Ends an input that takes too much processor time: what else the machine does then decides nothing,
 * as it does with -timeout. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

enum { MOST_SECONDS = 2 }; /* if the target allows no more */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static timer_t watch;

static void over(int signal)
{
    static const char text[] = "this must not be: too much processor time\n";
    (void)signal;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    abort();
}

static void start(void)
{
    struct sigaction action = {.sa_handler = over};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGVTALRM};
    PROMISE(sigaction(SIGVTALRM, &action, NULL) == 0 &&
                timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &watch) == 0,
            "no timer of processor time");
}

static void set(time_t seconds)
{
    struct itimerspec to = {.it_value.tv_sec = seconds};
    timer_settime(watch, 0, &to, NULL);
}

void fuzz_allow(unsigned seconds)
{
    set((time_t)seconds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    if (!started)
        start();
    started = true;
    set(MOST_SECONDS);
    fuzz_input(data, size);
    set(0);
    return 0;
}
