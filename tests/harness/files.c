#include "harness/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail_with_errno(const char *what, const char *path)
{
    fail_msg("harness: %s %s: %s", what, path, strerror(errno));
}

int harness_dir_setup(void **state)
{
    char *path = strdup("dir.XXXXXX");
    if (path == NULL || mkdtemp(path) == NULL) {
        free(path);
        return -1;
    }
    *state = realpath(path, NULL);
    free(path);
    return *state != NULL ? 0 : -1;
}

int harness_dir_teardown(void **state)
{
    if (*state != NULL) {
        harness_remove(*state);
        free(*state);
        *state = NULL;
    }
    return 0;
}

/* Only there under a leak sanitizer, which then takes a path that a test lets go as no leak. */
void __lsan_ignore_object(const void *object) __attribute__((weak));

char *harness_path(const char *dir, const char *format, ...)
{
    char name[PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof name) {
        fail_msg("harness: a path is too long");
    }
    size_t size = strlen(dir) + 1 + (size_t)length + 1;
    char *path = malloc(size);
    assert_non_null(path);
    (void)snprintf(path, size, "%s/%s", dir, name);
    if (__lsan_ignore_object != NULL)
        __lsan_ignore_object(path);
    return path;
}

static int unlock_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
    (void)walk;
    if (kind == FTW_D || kind == FTW_DNR) {
        (void)chmod(path, (st->st_mode & 07777) | 0700);
    }
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
    (void)st;
    (void)kind;
    (void)walk;
    return remove(path);
}

void harness_remove(const char *path)
{
    (void)nftw(path, unlock_one, 16, FTW_PHYS);
    if (nftw(path, remove_one, 16, FTW_PHYS | FTW_DEPTH) != 0 && errno != ENOENT) {
        fail_with_errno("remove", path);
    }
}

static void make_parents(const char *path)
{
    char *copy = strdup(path);
    assert_non_null(copy);
    for (char *slash = strchr(copy + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) {
            fail_with_errno("mkdir", copy);
        }
        *slash = '/';
    }
    free(copy);
}

void harness_write(const char *path, const void *data, size_t size_bytes)
{
    make_parents(path);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size_bytes, file) != size_bytes || fclose(file) != 0) {
        fail_with_errno("write", path);
    }
}

void harness_write_text(const char *path, const char *text)
{
    harness_write(path, text, strlen(text));
}

uint64_t harness_file_size(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        fail_with_errno("stat", path);
    }
    return (uint64_t)st.st_size;
}

bool harness_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

uint8_t *harness_read(const char *path, size_t *size_bytes)
{
    size_t size = (size_t)harness_file_size(path);
    uint8_t *data = malloc(size + 1);
    assert_non_null(data);
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(data, 1, size, file) != size) {
        fail_with_errno("read", path);
    }
    (void)fclose(file);
    data[size] = 0;
    if (size_bytes != NULL) {
        *size_bytes = size;
    }
    return data;
}

void harness_copy_tree(const char *from, const char *to)
{
    const char *const argv[] = {"cp", "-a", "--", from, to, NULL};
    harness_result result;
    harness_run(argv, &result);
    if (result.exit_code != 0) {
        fail_msg("harness: copy %s: %s", from, result.err);
    }
    harness_result_free(&result);
}

void harness_flip_bit(const char *path, uint64_t bit)
{
    uint8_t byte = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || pread(fd, &byte, 1, (off_t)(bit / 8)) != 1) {
        fail_with_errno("read", path);
    }
    byte = (uint8_t)(byte ^ (1U << (bit % 8)));
    if (pwrite(fd, &byte, 1, (off_t)(bit / 8)) != 1 || close(fd) != 0) {
        fail_with_errno("write", path);
    }
}

void harness_truncate(const char *path, uint64_t size_bytes)
{
    if (truncate(path, (off_t)size_bytes) != 0) {
        fail_with_errno("truncate", path);
    }
}
