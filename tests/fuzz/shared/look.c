/* See look.h. */
#include "tests/fuzz/shared/look.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/shared/folder.h"

void *look_read(const char *name, size_t *out_size)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/programs/%s.cubin", fuzz_folder(), name);
    FILE *f = fopen(path, "rb");
    PROMISE(f != NULL, "no %s: tests/fuzz/run makes it", path);
    fseek(f, 0, SEEK_END);
    *out_size = (size_t)ftell(f);
    rewind(f);
    void *bytes = aligned_alloc(64, (*out_size + 64) / 64 * 64);
    PROMISE(bytes != NULL && fread(bytes, 1, *out_size, f) == *out_size, "%s", path);
    fclose(f);
    return bytes;
}

static void look_at_values(const gxrt_program *p, const gxrt_program_info *info)
{
    gxrt_value_info v = {.struct_size = sizeof v};
    for (size_t i = 0; i < info->argument_count + info->result_count; i++) {
        bool is_result = i >= info->argument_count;
        gxrt_status st = is_result
                             ? gxrt_program_get_result(p, i - info->argument_count, &v)
                             : gxrt_program_get_argument(p, i, &v);
        PROMISE(st == GXRT_OK && v.name != NULL && v.dtype != NULL, "no value");
        for (uint32_t k = 0; k < v.rank; k++)
            PROMISE(v.minor_to_major[k] >= 0 && v.minor_to_major[k] < v.rank,
                    "an order of dimensions that is none");
    }
}

static void look_at_variant(const gxrt_program *p, size_t variant)
{
    gxrt_variant_info v = {.struct_size = sizeof v};
    gxrt_command_info c = {.struct_size = sizeof c};
    gxrt_memory_info m = {.struct_size = sizeof m};
    PROMISE(gxrt_program_get_variant(p, variant, &v) == GXRT_OK, "no variant");
    for (size_t i = 0; i < v.command_count; i++) {
        PROMISE(gxrt_program_get_command(p, variant, i, &c) == GXRT_OK, "no command");
        PROMISE(strlen(c.name) + strlen(c.what) < 1 << 20, "a long name");
    }
    for (size_t i = 0; i < v.buffer_count; i++)
        PROMISE(gxrt_program_get_memory(p, variant, i, &m) == GXRT_OK, "no memory");
    for (size_t i = 0; i < v.step_count; i++)
        PROMISE(gxrt_program_get_step(p, variant, i) != NULL, "no step");
}

void look_program(const gxrt_program *p)
{
    gxrt_program_info info = {.struct_size = sizeof info};
    PROMISE(gxrt_program_get_info(p, &info) == GXRT_OK, "no program");
    (void)memchr(info.hlo_size != 0 ? info.hlo : "", 1, info.hlo_size); /* it is there */
    look_at_values(p, &info);
    for (size_t i = 0; i < info.variant_count; i++)
        look_at_variant(p, i);
}
