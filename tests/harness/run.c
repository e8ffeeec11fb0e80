#include "harness/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Output goes to unlinked temporary files rather than pipes: no reader is needed meanwhile. */
static int open_capture(void)
{
    char name[] = "capture.XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0) {
        fail_msg("harness: a temporary file: %s", strerror(errno));
    }
    (void)unlink(name);
    return fd;
}

static char *read_capture(int fd, size_t *size)
{
    off_t end = lseek(fd, 0, SEEK_END);
    assert_true(end >= 0);
    char *text = malloc((size_t)end + 1);
    assert_non_null(text);
    assert_true(pread(fd, text, (size_t)end, 0) == (ssize_t)end);
    text[end] = '\0';
    *size = (size_t)end;
    (void)close(fd);
    return text;
}

static _Noreturn void run_child(const char *const argv[], int out, int err)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) {
        _exit(126);
    }
    char **copy = NULL;
    size_t count = 0;
    while (argv[count] != NULL) {
        count++;
    }
    copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy != NULL && i < count; i++) {
        copy[i] = strdup(argv[i]);
    }
    if (copy != NULL) {
        (void)execvp(copy[0], copy);
    }
    _exit(127);
}

void harness_run(const char *const argv[], harness_result *result)
{
    int out = open_capture();
    int err = open_capture();
    pid_t child = fork();
    if (child == 0) {
        run_child(argv, out, err);
    }
    assert_true(child > 0);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        assert_int_equal(errno, EINTR);
    }
    result->exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    result->out = read_capture(out, &result->out_size);
    result->err = read_capture(err, &result->err_size);
}

void harness_result_free(harness_result *result)
{
    free(result->out);
    free(result->err);
    *result = (harness_result){0};
}

const char *harness_shardwright(void)
{
    const char *path = getenv("SHARDWRIGHT");
    if (path == NULL || access(path, X_OK) != 0) {
        skip();
    }
    return path;
}
