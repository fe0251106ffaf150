/* See values.h. */
#include "tests/fuzz/shared/values.h"

bool values_make(const gxrt_program *p, gxrt_session *s, size_t device, Values *v)
{
    static const unsigned char data[1 << 16];
    gxrt_program_info info = {.struct_size = sizeof info};
    if (gxrt_program_get_info(p, &info) != GXRT_OK || info.argument_count > VALUES_MOST ||
        info.result_count > VALUES_MOST)
        return false;
    for (size_t i = 0; i < info.argument_count + info.result_count; i++) {
        bool is_result = i >= info.argument_count;
        size_t k = is_result ? i - info.argument_count : i;
        gxrt_value_info about = {.struct_size = sizeof about};
        gxrt_buffer *b = is_result ? &v->results[device][k] : &v->arguments[device][k];
        if ((is_result ? gxrt_program_get_result(p, k, &about)
                       : gxrt_program_get_argument(p, k, &about)) != GXRT_OK ||
            about.bytes > sizeof data)
            return false;
        *b = (gxrt_buffer){.struct_size = sizeof *b, .bytes = about.bytes};
        if (is_result && about.must_alias)
            b->data = v->arguments[device][about.alias].data;
        else if (gxrt_allocate(s, device, about.bytes, &b->data) != GXRT_OK ||
                 gxrt_copy_to_device(s, device, b->data, data, about.bytes) != GXRT_OK)
            return false;
    }
    v->runs[device] = (gxrt_run){sizeof(gxrt_run),     NULL,
                                 v->arguments[device], info.argument_count,
                                 v->results[device],   info.result_count};
    return true;
}

void values_free(gxrt_session *s, size_t device, Values *v)
{
    for (size_t i = 0; i < VALUES_MOST; i++) {
        void *mine = v->arguments[device][i].data;
        gxrt_free(s, device, mine);
        for (size_t k = 0; k < VALUES_MOST; k++) {
            if (v->results[device][k].data == mine)
                v->results[device][k].data = NULL;
        }
    }
    for (size_t k = 0; k < VALUES_MOST; k++)
        gxrt_free(s, device, v->results[device][k].data);
}
