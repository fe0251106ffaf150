/* .npz and .safetensors: what is written is read again; a damaged file is an error or other values, never a crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/gxrun/array_file.h"
#include "runtime/gxrun/json_read.h"

static char path[64];
static char error[1024];
static const float numbers[6] = {1, -2, 3.5f, 4, 5, -0.0f};
static const int64_t counts[2] = {-1, INT64_MAX};
static const unsigned char flags[3] = {1, 0, 1};
static const int64_t two_three[] = {2, 3}, two[] = {2}, three[] = {3}, none[] = {0, 4};
static const WrittenArray arrays[] = {{"layers.0.w", DT_F32, 2, two_three, numbers, 24},
                                      {"a \"quoted\" name", DT_S64, 1, two, counts, 16},
                                      {"flags", DT_PRED, 1, three, flags, 3},
                                      {"empty", DT_BF16, 2, none, NULL, 0},
                                      {"scalar", DT_F32, 0, NULL, numbers + 2, 4}};
enum { COUNT = sizeof arrays / sizeof *arrays };

typedef int (*Writer)(const char *, const WrittenArray *, size_t);
static const Writer writers[] = {npz_write, safetensors_write};

static void write_bytes(const unsigned char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    fwrite(bytes, 1, size, file);
    fclose(file);
}

static unsigned char *read_bytes(size_t *size)
{
    FILE *file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static void test_round_trip(void **state)
{
    (void)state;
    for (size_t w = 0; w < 2; w++) {
        assert_int_equal(writers[w](path, arrays, COUNT), 0);
        ArrayFile *f = array_file_open(path, error, sizeof error);
        if (!f)
            fail_msg("%s", error);
        assert_true(f->is_archive);
        assert_int_equal(f->count, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            void *out;
            void *owned;
            const WrittenArray *a = &arrays[i];
            const StoredArray *stored = array_file_find(f, a->name);
            assert_non_null(stored);
            if (!stored_array_read(f, stored, a->dtype, a->rank, a->dims, &out, &owned,
                                   error, sizeof error))
                fail_msg("%s", error);
            if (a->bytes)
                assert_memory_equal(out, a->data, a->bytes);
            free(owned);
            assert_false(stored_array_read(f, stored, DT_F16, a->rank, a->dims, &out,
                                           &owned, error, sizeof error));
            assert_non_null(strstr(error, "the program wants"));
        }
        assert_null(array_file_find(f, "nothing"));
        array_file_close(f);
    }
}

/* Opens the file and reads all of it. With `has_sums` no array is there with other values than were written. */
static void try_file(bool has_sums)
{
    strcpy(error, "");
    ArrayFile *f = array_file_open(path, error, sizeof error);
    assert_true(f || *error);
    for (size_t i = 0; f && i < f->count; i++) {
        for (size_t k = 0; k < COUNT; k++) {
            void *out;
            void *owned;
            const WrittenArray *a = &arrays[k];
            strcpy(error, "");
            bool ok = stored_array_read(f, &f->arrays[i], a->dtype, a->rank, a->dims,
                                        &out, &owned, error, sizeof error);
            assert_true(ok || *error);
            unsigned char sum = 0; /* all of it is there */
            for (size_t b = 0; ok && b < a->bytes; b++)
                sum ^= ((unsigned char *)out)[b];
            error[0] = (char)sum;
            if (ok && has_sums && strcmp(f->arrays[i].name, a->name) == 0)
                assert_memory_equal(out, a->data, a->bytes);
            free(owned);
        }
    }
    array_file_close(f);
}

static void test_damage(void **state)
{
    (void)state;
    for (size_t w = 0; w < 2; w++) {
        size_t size;
        assert_int_equal(writers[w](path, arrays, COUNT), 0);
        unsigned char *bytes = read_bytes(&size);
        for (size_t i = 0; i < size; i++) { /* cut off, and each byte damaged */
            static const unsigned char flips[] = {1, 0x80, 0xff};
            write_bytes(bytes, i);
            try_file(w == 0);
            for (size_t k = 0; k < sizeof flips; k++) {
                bytes[i] ^= flips[k];
                write_bytes(bytes, size);
                try_file(w == 0);
                bytes[i] ^= flips[k];
            }
        }
        free(bytes);
    }
}

/* Of pred that is neither 0 nor 1 the first read makes 1; the next one gives the same. */
static void test_read_again(void **state)
{
    (void)state;
    static const unsigned char stored[3] = {0, 7, 1}, wanted[3] = {0, 1, 1};
    const WrittenArray array = {"flags", DT_PRED, 1, three, stored, sizeof stored};
    for (size_t w = 0; w < 2; w++) {
        assert_int_equal(writers[w](path, &array, 1), 0);
        ArrayFile *f = array_file_open(path, error, sizeof error);
        assert_non_null(f);
        for (int i = 0; i < 2; i++) {
            void *out, *owned;
            if (!stored_array_read(f, f->arrays, DT_PRED, 1, three, &out, &owned, error,
                                   sizeof error))
                fail_msg("%s", error);
            assert_memory_equal(out, wanted, sizeof wanted);
            free(owned);
        }
        array_file_close(f);
    }
}

static void refused(const char *header, const char *want)
{
    unsigned char bytes[512] = {(unsigned char)strlen(header)};
    memcpy(bytes + 8, header, strlen(header));
    write_bytes(bytes, 8 + strlen(header) + 16);
    assert_null(array_file_open(path, error, sizeof error));
    if (!strstr(error, want))
        fail_msg("%s", error);
}

static void test_headers(void **state)
{
    (void)state;
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 17]}}",
            ":a: its data_offsets are not within the file");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [16, 0]}}",
            "not within the file");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [0, 16]}}",
            ":a: its data_offsets do not fit its shape and dtype");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [-4], \"data_offsets\": [0, 16]}}",
            "its shape is no list of sizes");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [400000000000000000, 40], "
            "\"data_offsets\": [0, 0]}}",
            "do not fit its shape");
    refused("{\"a\": {\"shape\": [4], \"data_offsets\": [0, 16]}}", "it has no dtype");
    refused("{\"a\": [1, 2", "byte 11: ',' or ']' is expected");
    refused("{\"a\" 1}", "byte 5: ':' is expected behind \"a\"");
    refused("{\"a\": \"\\u12\"}", "\\u wants four hexadecimal digits");
    refused("{\"a\": {}} x", "there is more behind the value");
    refused("{\"a\": x}", "a value is expected");
}

static void test_json(void **state)
{
    (void)state;
    static const char text[] =
        " {\"a\\u00e9\\ud83d\\ude00\": [1, -2.5, true, null, \"\\n\"]} ";
    Json *json = json_read(text, sizeof text - 1, error, sizeof error);
    assert_non_null(json);
    const JsonValue *v = json_member(json_root(json), "a\xc3\xa9\xf0\x9f\x98\x80");
    assert_non_null(v);
    assert_int_equal(v->kind, JSON_ARRAY);
    assert_true(v->first->is_whole);
    assert_false(v->first->next->is_whole);
    assert_int_equal(v->first->next->next->kind, JSON_BOOL);
    assert_int_equal(v->first->next->next->next->kind, JSON_NULL);
    assert_string_equal(v->first->next->next->next->next->text, "\n");
    json_destroy(json);
    char deep[256];
    memset(deep, '[', sizeof deep);
    assert_null(json_read(deep, sizeof deep, error, sizeof error));
    assert_non_null(strstr(error, "nested deeper than 32 levels"));
    size_t many = ((size_t)8 << 20) + 8;
    char *zeros = malloc(many);
    assert_non_null(zeros);
    for (size_t i = 0; i < many; i++)
        zeros[i] = i % 2 ? '0' : ',';
    zeros[0] = '[';
    assert_null(json_read(zeros, many, error, sizeof error));
    assert_non_null(strstr(error, "there are more than 4194304 values"));
    free(zeros);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_read_again), cmocka_unit_test(test_headers),
        cmocka_unit_test(test_json)};
    snprintf(path, sizeof path, "/dev/shm/gxc-array-file-%d", (int)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(path);
    return failed;
}
