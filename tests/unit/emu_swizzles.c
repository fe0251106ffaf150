/* Factors of wgmma whose rows are swizzled, as the emulator reads them. Where an element lies is written down here as it was
 * found on an H200 for rows of 128 bytes (all products right), and by the PTX ISA's canonical layouts for narrower ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/number/number.h"
#include "runtime/emu/engine.h"

enum {
    THREADS = 128,
    ROWS = 64,
    COLUMNS = 64,
    TERMS = 64,
    STEPS = TERMS / 16,
    FACTOR_BYTES = 8192,
    SHARED_BYTES = 2 * FACTOR_BYTES,
    SUMS = COLUMNS / 2,
    TRANSPOSED = 512,
    RIGHT_TRANSPOSED = 2048
};

static struct {
    uint32_t line; /* bytes of a row */
    bool transposed[2];
    float out[ROWS * COLUMNS];
} product;

static int number_at(int factor, uint32_t i, uint32_t term)
{
    return factor == 0 ? (int)(i * 7 + term * 3) % 11 - 5
                       : (int)(i * 5 + term * 2) % 13 - 6;
}

/* Columns of rows of `line` bytes: rows are of the side, or of the terms; the pieces of 16 bytes of those that follow each
 * other in 128 bytes lie alike, the next ones' are xor'ed with one more. */
static uint32_t offset_of(uint32_t i, uint32_t term, bool is_transposed)
{
    uint32_t fast = is_transposed ? i : term, slow = is_transposed ? term : i,
             numbers = product.line / 2, pieces = product.line / 16,
             piece = fast % numbers / 8 ^ (slow * product.line / 128 & (pieces - 1));
    return fast / numbers * 64 * product.line + slow * product.line + piece * 16 +
           fast % 8 * 2;
}

static void kernel_product(gxemu_block *b, const void *args)
{
    uint32_t number = product.line == 128 ? 3 : product.line / 32,
             far = 64 * product.line, near = 8 * product.line;
    uint32_t words[8 + SUMS] = {COLUMNS + (product.transposed[0] ? TRANSPOSED : 0) +
                                    (product.transposed[1] ? RIGHT_TRANSPOSED : 0) +
                                    (number << 24) + (number << 26),
                                STEPS,
                                0,
                                far,
                                near,
                                FACTOR_BYTES,
                                far,
                                near};
    (void)args;
    for (uint32_t x = b->tid[0]; x < 2 * 64 * TERMS; x += THREADS) {
        uint32_t factor = x / (64 * TERMS), i = x / TERMS % 64, term = x % TERMS;
        uint16_t code = number_float_to_bf16((float)number_at((int)factor, i, term));
        memcpy((unsigned char *)b->shared + factor * FACTOR_BYTES +
                   offset_of(i, term, product.transposed[factor]),
               &code, sizeof code);
    }
    gxemu_proxy_fence(b, 0);
    gxemu_barrier(b, 0);
    gxemu_wgmma(b, words[0], words, 0);
    for (uint32_t s = 0; s < SUMS; s++) {
        uint32_t lane = b->tid[0] % 32,
                 row = b->tid[0] / 32 * 16 + lane / 4 + s / 2 % 2 * 8,
                 column = s / 4 * 8 + lane % 4 * 2 + s % 2;
        memcpy(&product.out[row * COLUMNS + column], &words[8 + s], sizeof(float));
    }
}

static void check_product(void)
{
    static const char *const names[] = {"dot"};
    EngineLaunch launch = {.entry = kernel_product,
                           .name = "kernel",
                           .sites = names,
                           .site_count = 1,
                           .grid = {1, 1, 1},
                           .block = {THREADS, 1, 1},
                           .shared_bytes = SHARED_BYTES};
    Finding finding = {0};
    memset(product.out, 0, sizeof product.out);
    bool done = engine_run(&launch, &finding);
    assert_string_equal(finding.text, "");
    assert_true(done);
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t column = 0; column < COLUMNS; column++) {
            int sum = 0;
            for (uint32_t t = 0; t < TERMS; t++)
                sum += number_at(0, row, t) * number_at(1, column, t);
            assert_float_equal(product.out[row * COLUMNS + column], sum, 0);
        }
    }
}

static void test_products(void **state)
{
    static const uint32_t lines[] = {32, 64, 128};
    (void)state;
    for (int i = 0; i < 12; i++) {
        product.line = lines[i / 4];
        product.transposed[0] = i % 2 != 0;
        product.transposed[1] = i / 2 % 2 != 0;
        check_product();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
