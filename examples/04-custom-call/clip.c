/* Runs clip.hlo, whose custom call is the function below, on the emulator, where device memory is
 * the host's. On a GPU the function would queue its kernel on arguments->stream.
 *   gxc clip.hlo -o clip.cubin && cc clip.c -lgxrt -o clip && ./clip */
#include <stdio.h>
#include <stdlib.h>

#include <gxrt.h>

enum { COUNT = 32 };
static float x[COUNT], y[COUNT];

static void check(gxrt_status status)
{
    if (status == GXRT_OK)
        return;
    fprintf(stderr, "%s: %s\n", gxrt_status_name(status), gxrt_last_error());
    exit(1);
}

/* Buffers: the operand, the result; attributes: the largest magnitude that stays. */
static int clip(void *user, const gxrt_host_arguments *arguments)
{
    const float *from = arguments->buffers[0];
    float *to = arguments->buffers[1], most = strtof(arguments->attributes, NULL);
    printf("%s: %s of %s\n", (char *)user, arguments->instruction, arguments->shapes);
    for (size_t i = 0; i < arguments->bytes[1] / sizeof *to; i++)
        to[i] = from[i] > most ? most : from[i] < -most ? -most : from[i];
    return 0;
}

int main(void)
{
    gxrt_program *program;
    gxrt_session *session;
    gxrt_host_call call = {
        .struct_size = sizeof call, .name = "clip", .user = "clip", .described = clip};
    gxrt_session_options options = {.struct_size = sizeof options,
                                    .device = "emu",
                                    .allow_native = 1,
                                    .host_calls = &call,
                                    .host_call_count = 1};
    gxrt_buffer argument = {.struct_size = sizeof argument, .bytes = sizeof x};
    gxrt_buffer result = {.struct_size = sizeof result, .bytes = sizeof y};
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i - 16) / 8;

    check(gxrt_program_open("clip.cubin", &program));
    check(gxrt_session_create(program, &options, &session));
    check(gxrt_allocate(session, 0, sizeof x, &argument.data));
    check(gxrt_allocate(session, 0, sizeof y, &result.data));
    check(gxrt_copy_to_device(session, 0, argument.data, x, sizeof x));
    gxrt_run run = {.struct_size = sizeof run,
                    .arguments = &argument,
                    .argument_count = 1,
                    .results = &result,
                    .result_count = 1};
    check(gxrt_execute(session, 1, &run));
    check(gxrt_copy_to_host(session, 0, y, result.data, sizeof y));
    printf("%g became %g, %g became %g\n", x[0], y[0], x[18], y[18]);

    gxrt_free(session, 0, argument.data);
    gxrt_free(session, 0, result.data);
    gxrt_session_destroy(session);
    gxrt_program_destroy(program);
    return 0;
}
