/* What every test needs: a folder of its own, files, commands, and random numbers that repeat.
 *
 * Include this instead of <cmocka.h>. Each executable already runs in an empty temporary working
 * directory; harness_dir_setup gives each test of it a fresh folder besides.
 * A helper that cannot do its work fails the running test, with the reason; no result needs a
 * check.
 */
#ifndef HARNESS_HARNESS_H
#define HARNESS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <shardwright_format.h>

/* ---- errors ------------------------------------------------------------------------------- */

/* Asserts the status and that the message contains the text: assert_error(&err, SW_ERR_IO, "x"). */
#define assert_error(err, status, text)                                                            \
    harness_assert_error((err), (status), (text), __FILE__, __LINE__)
/* Asserts success of a call that returns sw_status, and prints the error if it is none. */
#define assert_ok(call, err) harness_assert_ok((call), (err), #call, __FILE__, __LINE__)
/* Asserts that the text contains the part. */
#define assert_contains(text, part) harness_assert_contains((text), (part), __FILE__, __LINE__)

void harness_assert_error(const sw_error *err, sw_status status, const char *text, const char *file,
                          int line);
void harness_assert_ok(sw_status status, const sw_error *err, const char *call, const char *file,
                       int line);
void harness_assert_contains(const char *text, const char *part, const char *file, int line);

/* ---- a folder per test -------------------------------------------------------------------- */

/* cmocka_unit_test_setup_teardown(test, harness_dir_setup, harness_dir_teardown): *state is then
 * the path of the folder (const char *). */
int harness_dir_setup(void **state);
int harness_dir_teardown(void **state);

/* A path below a folder, printf style. Free it, or let it go: tests are short. */
char *harness_path(const char *dir, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Removes the file or folder with all in it; one that is not there is no failure. */
void harness_remove(const char *path);

/* ---- files -------------------------------------------------------------------------------- */

/* Creates or replaces a file, and the folders above it. */
void harness_write(const char *path, const void *data, size_t size_bytes);
void harness_write_text(const char *path, const char *text);

/* Reads a whole file into malloc'ed memory that has one zero byte after its end. */
uint8_t *harness_read(const char *path, size_t *size_bytes);

/* Copies a folder with its files (recursively). */
void harness_copy_tree(const char *from, const char *to);

void harness_flip_bit(const char *path, uint64_t bit);
void harness_truncate(const char *path, uint64_t size_bytes);
uint64_t harness_file_size(const char *path);
bool harness_exists(const char *path);

/* ---- commands ----------------------------------------------------------------------------- */

typedef struct harness_result {
    int exit_code; /* 128 + N when signal N ended it, as in a shell */
    char *out;     /* stdout, zero-terminated */
    char *err;     /* stderr */
    size_t out_size;
    size_t err_size;
} harness_result;

/* Runs argv (NULL-terminated; argv[0] is looked up in PATH) with an empty stdin. */
void harness_run(const char *const argv[], harness_result *result);
void harness_result_free(harness_result *result);

/* The path of the shardwright command: $SHARDWRIGHT. Skips the test where it is not set. */
const char *harness_shardwright(void);

/* ---- random numbers that repeat (splitmix64) ------------------------------------------------ */

typedef struct harness_prng {
    uint64_t state;
} harness_prng;

uint64_t harness_random(harness_prng *prng);
/* Uniform in 0 .. limit-1; limit > 0. */
uint64_t harness_random_below(harness_prng *prng, uint64_t limit);
void harness_random_fill(harness_prng *prng, void *data, size_t size_bytes);

#endif
