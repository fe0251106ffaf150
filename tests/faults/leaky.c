/* In place of gxc and gxrun: loses an array where it has no memory for another, or its file cannot be opened. faults.test
 * expects run.py to say so, in forks and in runs. What it asks for while it holds a lock, it can do without. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local void *volatile of_thread; /* what these point to is no leak */

static int fail(char *volatile *array, void *other)
{
    *array = NULL;
    free(other);
    fputs("gxc: error: no file\n", stderr);
    exit(1);
}

int main(int count, char **words)
{
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_rwlock_wrlock(&lock);
    void *spare = malloc(500);
    pthread_rwlock_unlock(&lock);
    pthread_rwlock_wrlock(&lock);
    free(spare);
    pthread_rwlock_unlock(&lock);
    char *volatile array = malloc(100);
    void *volatile of_stack = malloc(200);
    of_thread = malloc(300);
    if (!array || !of_stack || !of_thread) {
        fputs("gxc: error: no memory\n", stderr);
        exit(1);
    }
    void *other = malloc(400);
    if (!other)
        fail(&array, NULL);
    FILE *out = fopen(words[count - 1], "w");
    if (!out)
        fail(&array, other);
    fclose(out);
    free(array);
    free(of_stack);
    free(of_thread);
    free(other);
    return 0;
}
