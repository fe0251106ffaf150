/* .npy files: written and read back in every type; each way of being wrong has its message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/gxrun/npy.c" /* part of the program gxrun, so in no library */

#include <cmocka.h>

static char path[256];
static char error[1024];

static void write_text(const char *header, size_t header_bytes, const void *data,
                       size_t bytes)
{
    FILE *file = fopen(path, "wb");
    unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    start[8] = (unsigned char)(header_bytes & 0xff);
    start[9] = (unsigned char)(header_bytes >> 8);
    fwrite(start, 1, 10, file);
    fwrite(header, 1, header_bytes, file);
    fwrite(data, 1, bytes, file);
    fclose(file);
}

static void refused(const char *header, const void *data, size_t bytes, DType t,
                    uint32_t rank, const int64_t *dims, const char *want)
{
    void *out = &path;
    write_text(header, strlen(header), data, bytes);
    assert_false(npy_read(path, t, rank, dims, &out, error, sizeof error));
    assert_null(out);
    if (!strstr(error, want))
        fail_msg("%s", error);
}

static void test_round_trip(void **state)
{
    (void)state;
    const int64_t dims[3] = {2, 1, 3};
    for (int t = DT_INVALID + 1; t < DT_TUPLE; t++) {
        unsigned char data[6 * 16] = {t != DT_S1, 0, t != DT_S1};
        void *out = NULL;
        size_t bytes = 6 * (size_t)dtype_info[t].storage;
        if (bytes == 0)
            continue;
        for (uint32_t rank = 0; rank <= 3; rank += 3) {
            assert_true(npy_write(path, (DType)t, rank, dims, data, error, sizeof error));
            if (!npy_read(path, (DType)t, rank, dims, &out, error, sizeof error))
                fail_msg("%s: %s", dtype_info[t].name, error);
            assert_memory_equal(out, data, rank ? bytes : dtype_info[t].storage);
            free(out);
        }
    }
}

static void test_messages(void **state)
{
    (void)state;
    const int64_t dims[2] = {2, 2};
    const float data[4] = {1, 2, 3, 4};
    const char good[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";
    void *out;
    write_text(good, sizeof good - 1, data, 16);
    assert_true(npy_read(path, DT_F32, 2, dims, &out, error, sizeof error));
    free(out);
    refused(good, data, 15, DT_F32, 2, dims, "cut off: 15 bytes of 16");
    refused(good, data, 16, DT_F64, 2, dims, "holds f4, the program wants f64");
    refused(good, data, 16, DT_BF16, 2, dims, "wants bf16: an array of u2 (raw bits)");
    refused(good, data, 16, DT_F32, 1, dims, "shape (2, 2), the program wants (2,)");
    refused("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", data, 15,
            DT_F32, 2, dims, "cut off: 15 bytes of 16");
    refused("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2), }", data, 16,
            DT_F32, 2, dims, "big-endian");
    refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 2), }", data,
            16, DT_F32, 2, dims, "the file holds records of several fields");
    refused("{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }", data, 16,
            DT_F32, 2, dims, "the file holds Python objects");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -2), }", data, 16,
            DT_F32, 2, dims, "damaged");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2", data, 16, DT_F32,
            2, dims, "damaged");
    refused("", data, 16, DT_F32, 2, dims, "damaged");
    /* nothing behind the last key, where its value's second letter would be */
    refused("{'fortran_order': False, 'shape': (2, 2), 'descr':", data, 16, DT_F32, 2,
            dims, "damaged");
    const signed char narrow[4] = {7, -8, 8, 0};
    refused("{'descr': '|i1', 'fortran_order': False, 'shape': (2, 2), }", narrow, 4,
            DT_S4, 2, dims, "element 2 is 8: no value of s4");
    FILE *file = fopen(path, "wb");
    fputs("HloModule m", file);
    fclose(file);
    assert_false(npy_read(path, DT_F32, 2, dims, &out, error, sizeof error));
    assert_non_null(strstr(error, "not a .npy file"));
    assert_false(npy_read("/tmp", DT_F32, 2, dims, &out, error, sizeof error));
    assert_non_null(strstr(error, "Is a directory"));
    file = fopen(path, "wb");
    fputs("PK\003\004 and so on", file);
    fclose(file);
    assert_false(npy_read(path, DT_F32, 2, dims, &out, error, sizeof error));
    assert_non_null(strstr(error, "a .npz archive: save one array"));
    assert_false(npy_read("/nonexistent", DT_F32, 2, dims, &out, error, sizeof error));
    assert_non_null(strstr(error, "No such file"));
    assert_false(npy_write("/nonexistent/x", DT_F32, 2, dims, data, error, sizeof error));
    assert_non_null(strstr(error, "cannot be written"));
}

/* As numpy.save writes the types of ml_dtypes; -1 of a narrow one has no more bits than the type. */
static void test_foreign(void **state)
{
    static const struct {
        DType type;
        const char *descr;
        unsigned char stored[4], wanted[4];
    } rows[] = {
        {DT_F8E5M2, "<f1", {0x3c, 0xbc, 0, 0xff}, {0x3c, 0xbc, 0, 0xff}},
        {DT_F8E4M3FN, "|V1", {0x38, 0xb8, 0, 0xff}, {0x38, 0xb8, 0, 0xff}},
        {DT_F4E2M1FN, "|V1", {0, 1, 8, 15}, {0, 1, 8, 15}},
        {DT_S4, "|V1", {15, 7, 8, 0xf8}, {0xff, 7, 0xf8, 0xf8}},
        {DT_U4, "|V1", {15, 7, 8, 0}, {15, 7, 8, 0}},
        {DT_S2, "|V1", {3, 2, 1, 0}, {0xff, 0xfe, 1, 0}},
        {DT_U2, "|V1", {3, 2, 1, 0}, {3, 2, 1, 0}},
    };
    const int64_t dims[1] = {4};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char header[80];
        void *out;
        snprintf(header, sizeof header,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (4,), }\n",
                 rows[i].descr);
        write_text(header, strlen(header), rows[i].stored, 4);
        if (!npy_read(path, rows[i].type, 1, dims, &out, error, sizeof error))
            fail_msg("%s: %s", dtype_info[rows[i].type].name, error);
        assert_memory_equal(out, rows[i].wanted, 4);
        free(out);
    }
    const char void_type[] = "{'descr': '|V1', 'fortran_order': False, 'shape': (4,), }";
    const char float_type[] = "{'descr': '<f1', 'fortran_order': False, 'shape': (4,), }";
    refused(void_type, "\1\1\1\1", 4, DT_S8, 1, dims, "the file holds V1");
    refused(void_type, "\1\1\1\1", 4, DT_PRED, 1, dims, "the file holds V1");
    refused(float_type, "\1\1\1\1", 4, DT_F8E4M3FN, 1, dims, "the file holds f1");
}

static void test_truncation(void **state)
{
    (void)state;
    const int64_t dims[1] = {4};
    const float data[4] = {1, 2, 3, 4};
    char bytes[256];
    void *out;
    assert_true(npy_write(path, DT_F32, 1, dims, data, error, sizeof error));
    FILE *file = fopen(path, "rb");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_int_equal((size - 16) % 64, 0);
    for (size_t n = 0; n < size; n++) {
        file = fopen(path, "wb");
        fwrite(bytes, 1, n, file);
        fclose(file);
        assert_false(npy_read(path, DT_F32, 1, dims, &out, error, sizeof error));
    }
}

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/gxc-npy-test-%ld.npy", (long)getpid());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_truncation),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
