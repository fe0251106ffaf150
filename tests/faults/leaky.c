/* In place of gxc and gxrun: loses an array where its file cannot be opened. faults.test expects run.py to say so. */
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words)
{
    char *volatile array = malloc(100);
    FILE *out = fopen(words[count - 1], "w");
    if (!out) {
        array = NULL;
        fputs("gxc: error: no file\n", stderr);
        return 1;
    }
    fclose(out);
    free(array);
    return 0;
}
