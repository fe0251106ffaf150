/* Loads softmax.cubin and runs it: on a GPU if there is one, else on the emulator.
 *   gxc softmax.hlo -o softmax.cubin && cc softmax.c -lgxrt -lm -o softmax && ./softmax */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <gxrt.h>

enum { ROWS = 64, COLUMNS = 1000 };
static float x[ROWS][COLUMNS], y[ROWS][COLUMNS];

static void check(gxrt_status status)
{
    if (status == GXRT_OK)
        return;
    fprintf(stderr, "%s: %s\n", gxrt_status_name(status), gxrt_last_error());
    exit(1);
}

int main(int count, char **arguments)
{
    gxrt_program *program;
    gxrt_session *session;
    gxrt_session_options options = {
        .struct_size = sizeof options,
        .allow_native = 1, /* we made the file: without a GPU its code may run here */
    };
    void *x_device, *y_device;

    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            x[i][j] = sinf((float)(i * COLUMNS + j));

    check(gxrt_program_open(count > 1 ? arguments[1] : "softmax.cubin", &program));
    check(gxrt_session_create(program, &options, &session));
    check(gxrt_allocate(session, 0, sizeof x, &x_device));
    check(gxrt_allocate(session, 0, sizeof y, &y_device));
    check(gxrt_copy_to_device(session, 0, x_device, x, sizeof x));

    gxrt_buffer argument = {
        .struct_size = sizeof argument, .data = x_device, .bytes = sizeof x};
    gxrt_buffer result = {
        .struct_size = sizeof result, .data = y_device, .bytes = sizeof y};
    gxrt_run run = {.struct_size = sizeof run,
                    .arguments = &argument,
                    .argument_count = 1,
                    .results = &result,
                    .result_count = 1};
    check(gxrt_execute(session, 1, &run)); /* queued; run it as often as you like */
    check(gxrt_copy_to_host(session, 0, y, y_device, sizeof y));

    double sum = 0;
    for (int j = 0; j < COLUMNS; j++)
        sum += y[ROWS - 1][j];
    printf("the last row begins %.6f %.6f and sums to %.6f\n", y[ROWS - 1][0],
           y[ROWS - 1][1], sum);

    gxrt_free(session, 0, x_device);
    gxrt_free(session, 0, y_device);
    gxrt_session_destroy(session);
    gxrt_program_destroy(program);
    return fabs(sum - 1) < 1e-5 ? 0 : 1;
}
