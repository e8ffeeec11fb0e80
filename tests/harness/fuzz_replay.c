/* Stands in for libFuzzer in ordinary builds: runs the target over every file of the folders and
 * files named on the command line. A folder that does not exist is an empty corpus. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path, unsigned *count)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    int result = 1;
    uint8_t *data = NULL;
    struct stat st;
    if (fstat(fileno(file), &st) != 0 || st.st_size < 0) {
        goto done;
    }
    size_t size = (size_t)st.st_size;
    /* An exact allocation, so that a read past the end is seen by the sanitizer. */
    data = malloc(size > 0 ? size : 1);
    if (data == NULL || fread(data, 1, size, file) != size) {
        goto done;
    }
    (void)LLVMFuzzerTestOneInput(data, size);
    ++*count;
    result = 0;
done:
    free(data);
    (void)fclose(file);
    return result;
}

static int replay_folder(const char *path, unsigned *count)
{
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return 1;
    }
    int result = 0;
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char name[PATH_MAX];
        struct stat st;
        int length = snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof name || stat(name, &st) != 0 ||
            !S_ISREG(st.st_mode)) {
            continue;
        }
        result |= replay_file(name, count);
    }
    (void)closedir(dir);
    return result;
}

int main(int argc, char **argv)
{
    unsigned count = 0;
    int result = 0;
    (void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) != 0) {
            continue;
        }
        result |=
            S_ISDIR(st.st_mode) ? replay_folder(argv[i], &count) : replay_file(argv[i], &count);
    }
    printf("%u inputs replayed\n", count);
    return result;
}
