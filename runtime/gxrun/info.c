/* gxrun --info: what a compiled program is, without running it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/gxrun/gxrun.h"
#include "runtime/gxrun/json.h"
#include "runtime/gxrun/names.h"

typedef gxrt_status (*ValueQuery)(const gxrt_program *, size_t, gxrt_value_info *);

static void print_hash(const uint8_t hash[16])
{
    for (int i = 0; i < 16; i++) {
        printf("%02x", hash[i]);
    }
}

static void print_numbers(const int64_t *numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        printf("%s%" PRId64, i ? "," : "", numbers[i]);
    }
}

/* --- text ------------------------------------------------------------------------------------- */

static void print_value(size_t index, const gxrt_value_info *v, bool is_argument)
{
    printf("  %3zu %-28s %s[", index, plain_text(v->name), plain_text(v->dtype));
    print_numbers(v->dims, v->rank);
    printf("]{");
    print_numbers(v->minor_to_major, v->rank);
    printf("}  %" PRIu64 " bytes", v->bytes);
    if (v->alias >= 0) {
        printf(", %s be %s %" PRId64, v->must_alias ? "must" : "may",
               is_argument ? "result" : "argument", v->alias);
    }
    if (v->donated) {
        printf(", may be overwritten");
    }
    if (v->size_of >= 0) {
        printf(", size of dimension %" PRId64 " of %s %" PRId64, v->size_dimension,
               is_argument ? "argument" : "result", v->size_of);
    }
    printf("\n");
}

static void print_values(const gxrt_program *program, ValueQuery query, size_t count,
                         bool is_argument)
{
    printf("%zu %s%s\n", count, is_argument ? "argument" : "result",
           count == 1 ? "" : "s");
    for (size_t i = 0; i < count; i++) {
        gxrt_value_info v = {.struct_size = sizeof v};
        if (query(program, i, &v) == GXRT_OK) {
            print_value(i, &v, is_argument);
        }
    }
}

typedef struct Library {
    const char *name;
    bool is_used;
    uint32_t least; /* version; 0: any */
    uint32_t major; /* what its version counts a major one by */
} Library;
enum { LIBRARIES = 4 };

static void libraries_of(const gxrt_variant_info *v, Library out[LIBRARIES])
{
    out[0] = (Library){"cuBLASLt", v->least_cublaslt != 0, v->least_cublaslt, 10000};
    out[1] = (Library){"cuDNN", v->least_cudnn != 0, v->least_cudnn, 10000};
    out[2] = (Library){"cuSOLVER", v->least_cusolver != 0, v->least_cusolver, 1000};
    out[3] = (Library){"NCCL", v->collective_count != 0, v->least_nccl, 10000};
}

static void print_libraries(const gxrt_variant_info *info)
{
    Library libraries[LIBRARIES];
    bool any = false;
    libraries_of(info, libraries);
    printf("  libraries: ");
    for (size_t i = 0; i < LIBRARIES; i++) {
        if (libraries[i].is_used) {
            uint32_t least = libraries[i].least, major = libraries[i].major;
            printf("%s%s", any ? ", " : "", libraries[i].name);
            if (least) {
                printf(" >= %u.%u.%u", least / major, least % major / 100, least % 100);
            }
            any = true;
        }
    }
    printf("%s\n", any ? "" : "none");
}

static bool is_collective(const gxrt_program *program, size_t variant, size_t index,
                          gxrt_command_info *c)
{
    *c = (gxrt_command_info){.struct_size = sizeof *c};
    return gxrt_program_get_command(program, variant, index, c) == GXRT_OK &&
           strcmp(c->kind, "collective") == 0;
}

/* What gxrun --tune measures. */
static bool is_tunable(const gxrt_program *program, size_t variant, size_t index,
                       gxrt_command_info *c)
{
    *c = (gxrt_command_info){.struct_size = sizeof *c};
    return gxrt_program_get_command(program, variant, index, c) == GXRT_OK &&
           *c->tuning_key;
}

static void print_tunable(const gxrt_command_info *c)
{
    printf("  tunable %s, %s: ", plain_text(c->name), plain_text(c->tuning_key));
    if (c->candidate_count) {
        printf("%u kernels\n", c->candidate_count);
    } else {
        printf("algorithms of the library\n");
    }
}

/* What it has besides its cubin. */
static void print_images(const gxrt_variant_info *v)
{
    if (v->ptx_bytes) {
        printf("  for newer GPUs: %" PRIu64 " bytes of PTX", v->ptx_bytes);
        if (v->tileir_bytecodes) {
            printf(", %u kernel%s as CUDA Tile IR", v->tileir_bytecodes,
                   v->tileir_bytecodes == 1 ? "" : "s");
        }
        printf("\n");
    }
    if (v->tileir_cubins) {
        printf("  kernels by CUDA Tile IR: %u\n", v->tileir_cubins);
    }
}

static void print_variant(const gxrt_program *program, size_t index,
                          const gxrt_variant_info *v)
{
    printf("variant %zu for %s%s\n", index, plain_text(v->target),
           v->has_emulator ? " and the emulator" : "");
    printf("  plan %u.%u, LLVM %s, %s; CUDA driver >= %u.%u\n", v->plan_major,
           v->plan_minor, plain_text(v->llvm_version), plain_text(v->assembler),
           v->minimum_driver / 1000, v->minimum_driver % 1000 / 10);
    if (*v->options) {
        printf("  options: %s\n", plain_text(v->options));
    }
    print_libraries(v);
    print_images(v);
    printf("  bytes: constants %" PRIu64 ", temporary %" PRIu64
           ", for libraries and blocks %" PRIu64 ", in memory of the host %" PRIu64
           ", at most on the device %" PRIu64 "\n",
           v->constant_bytes, v->temp_bytes, v->workspace_bytes, v->host_bytes,
           v->peak_bytes);
    printf("  commands: %zu launches and library calls, %zu copies and fills, %zu "
           "collectives; the host waits %u times\n",
           v->launch_count, v->copy_count, v->collective_count, v->host_syncs);
    gxrt_command_info c;
    for (size_t i = 0; v->collective_count && i < v->command_count; i++) {
        if (is_collective(program, index, i, &c)) {
            printf("  %s %s: %" PRIu64 " bytes read and written, %u group%s of %u\n",
                   c.what, plain_text(c.name), c.bytes, c.group_count,
                   c.group_count == 1 ? "" : "s", c.group_size);
        }
    }
    for (size_t i = 0; i < v->command_count; i++) {
        if (is_tunable(program, index, i, &c)) {
            print_tunable(&c);
        }
    }
}

static void print_text(const gxrt_program *program, const gxrt_program_info *info)
{
    printf("module %s, compiled by gxc %s\nhash ", plain_text(info->module),
           plain_text(info->gxc_version));
    print_hash(info->module_hash);
    printf("\n%u replica%s x %u partition%s%s%s\n", info->replicas,
           info->replicas == 1 ? "" : "s", info->partitions,
           info->partitions == 1 ? "" : "s",
           info->has_tf32 ? "; products of f32 lose bits to TF32" : "",
           info->hlo ? "; with its HLO" : "");
    print_values(program, gxrt_program_get_argument, info->argument_count, true);
    print_values(program, gxrt_program_get_result, info->result_count, false);
    for (size_t i = 0; i < info->variant_count; i++) {
        gxrt_variant_info v = {.struct_size = sizeof v};
        if (gxrt_program_get_variant(program, i, &v) == GXRT_OK) {
            print_variant(program, i, &v);
        }
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void json_value(const gxrt_value_info *v)
{
    JsonList m = {0};
    printf("{");
    json_member_text(stdout, &m, "name", v->name);
    json_member_text(stdout, &m, "dtype", v->dtype);
    json_key(stdout, &m, "dims");
    printf("[");
    print_numbers(v->dims, v->rank);
    printf("]");
    json_key(stdout, &m, "minor_to_major");
    printf("[");
    print_numbers(v->minor_to_major, v->rank);
    printf("]");
    json_member_number(stdout, &m, "bytes", v->bytes);
    json_member_number(stdout, &m, "element_bits", v->element_bits);
    if (v->alias >= 0) {
        json_member_number(stdout, &m, v->must_alias ? "must_alias" : "may_alias",
                           (uint64_t)v->alias);
    }
    if (v->size_of >= 0) {
        json_member_number(stdout, &m, "size_of", (uint64_t)v->size_of);
        json_member_number(stdout, &m, "size_dimension", (uint64_t)v->size_dimension);
    }
    json_member_bool(stdout, &m, "donated", v->donated);
    printf("}");
}

static void json_values(const gxrt_program *program, ValueQuery query, size_t count)
{
    JsonList list = {0};
    printf("[");
    for (size_t i = 0; i < count; i++) {
        gxrt_value_info v = {.struct_size = sizeof v};
        if (query(program, i, &v) == GXRT_OK) {
            json_next(stdout, &list);
            printf("\n  ");
            json_value(&v);
        }
    }
    printf("]");
}

static void json_collectives(const gxrt_program *program, size_t variant,
                             const gxrt_variant_info *v)
{
    JsonList list = {0};
    gxrt_command_info c;
    printf("[");
    for (size_t i = 0; i < v->command_count; i++) {
        if (is_collective(program, variant, i, &c)) {
            JsonList m = {0};
            json_next(stdout, &list);
            printf("{");
            json_member_text(stdout, &m, "kind", c.what);
            json_member_text(stdout, &m, "name", c.name);
            json_member_number(stdout, &m, "bytes", c.bytes);
            json_member_number(stdout, &m, "group_size", c.group_size);
            json_member_number(stdout, &m, "group_count", c.group_count);
            printf("}");
        }
    }
    printf("]");
}

static void json_tunables(const gxrt_program *program, size_t variant,
                          const gxrt_variant_info *v)
{
    JsonList list = {0};
    gxrt_command_info c;
    printf("[");
    for (size_t i = 0; i < v->command_count; i++) {
        if (is_tunable(program, variant, i, &c)) {
            JsonList m = {0};
            json_next(stdout, &list);
            printf("{");
            json_member_text(stdout, &m, "name", c.name);
            json_member_text(stdout, &m, "key", c.tuning_key);
            json_member_number(stdout, &m, "candidates", c.candidate_count);
            printf("}");
        }
    }
    printf("]");
}

static void json_libraries(const gxrt_variant_info *v)
{
    Library libraries[LIBRARIES];
    JsonList m = {0};
    libraries_of(v, libraries);
    printf("{");
    for (size_t i = 0; i < LIBRARIES; i++) {
        if (libraries[i].is_used) {
            json_member_number(stdout, &m, libraries[i].name, libraries[i].least);
        }
    }
    printf("}");
}

static void json_variant(const gxrt_program *program, size_t index,
                         const gxrt_variant_info *v)
{
    JsonList m = {0};
    printf("\n  {");
    json_member_text(stdout, &m, "target", v->target);
    json_member_bool(stdout, &m, "emulator", v->has_emulator);
    json_key(stdout, &m, "plan_version");
    printf("[%u, %u]", v->plan_major, v->plan_minor);
    json_member_text(stdout, &m, "llvm", v->llvm_version);
    json_member_text(stdout, &m, "assembler", v->assembler);
    json_member_text(stdout, &m, "options", v->options);
    json_member_number(stdout, &m, "minimum_driver", v->minimum_driver);
    json_key(stdout, &m, "libraries");
    json_libraries(v);
    json_member_number(stdout, &m, "ptx_bytes", v->ptx_bytes);
    json_member_number(stdout, &m, "tileir_cubins", v->tileir_cubins);
    json_member_number(stdout, &m, "tileir_bytecodes", v->tileir_bytecodes);
    json_member_number(stdout, &m, "constant_bytes", v->constant_bytes);
    json_member_number(stdout, &m, "temp_bytes", v->temp_bytes);
    json_member_number(stdout, &m, "workspace_bytes", v->workspace_bytes);
    json_member_number(stdout, &m, "host_bytes", v->host_bytes);
    json_member_number(stdout, &m, "peak_bytes", v->peak_bytes);
    json_member_number(stdout, &m, "launches", v->launch_count);
    json_member_number(stdout, &m, "copies", v->copy_count);
    json_member_number(stdout, &m, "host_syncs", v->host_syncs);
    json_key(stdout, &m, "collectives");
    json_collectives(program, index, v);
    json_key(stdout, &m, "tunables");
    json_tunables(program, index, v);
    printf("}");
}

static void print_json(const gxrt_program *program, const gxrt_program_info *info)
{
    JsonList m = {0}, list = {0};
    printf("{");
    json_member_text(stdout, &m, "module", info->module);
    json_member_text(stdout, &m, "gxc_version", info->gxc_version);
    json_key(stdout, &m, "module_hash");
    printf("\"");
    print_hash(info->module_hash);
    printf("\"");
    json_member_number(stdout, &m, "replicas", info->replicas);
    json_member_number(stdout, &m, "partitions", info->partitions);
    json_member_bool(stdout, &m, "tf32", info->has_tf32);
    json_member_bool(stdout, &m, "has_hlo", info->hlo != NULL);
    json_key(stdout, &m, "arguments");
    json_values(program, gxrt_program_get_argument, info->argument_count);
    json_key(stdout, &m, "results");
    json_values(program, gxrt_program_get_result, info->result_count);
    json_key(stdout, &m, "variants");
    printf("[");
    for (size_t i = 0; i < info->variant_count; i++) {
        gxrt_variant_info v = {.struct_size = sizeof v};
        if (gxrt_program_get_variant(program, i, &v) == GXRT_OK) {
            json_next(stdout, &list);
            json_variant(program, i, &v);
        }
    }
    printf("]}\n");
}

int info_print(const Options *o, const gxrt_program *program)
{
    gxrt_program_info info = {.struct_size = sizeof info};
    if (gxrt_program_get_info(program, &info) != GXRT_OK) {
        return complain(EXIT_WRONG, "%s", gxrt_last_error());
    }
    if (o->info == FORM_JSON) {
        print_json(program, &info);
    } else {
        print_text(program, &info);
    }
    return EXIT_DONE;
}
