/*
 * Publishing when the system will not: no exchange, no locks, syncs that fail; and the order of the
 * protocol's calls. fsync, flock and renameat2 are this program's own.
 */
#include "harness/harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/txn.h"

#define ID "00ff00ff"

static struct {
    bool no_flags; /* renameat2 knows no flags */
    int fail_sync; /* this fsync fails, counted down; 0: none */
    int flock_dir; /* errno for directories, as on NFS */
    int flock_any; /* errno for everything, as on Lustre */
    bool logging;
    char log[4096];
} calls;

static void log_call(const char *what, const char *path)
{
    size_t used = strlen(calls.log);
    const char *name = strrchr(path, '/');
    if (calls.logging)
        (void)snprintf(calls.log + used, sizeof calls.log - used, "%s %s\n", what,
                       name != NULL ? name + 1 : path);
}

int fsync(int fd)
{
    char link[64], path[512];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    log_call("sync", path);
    if (calls.fail_sync > 0 && --calls.fail_sync == 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

int flock(int fd, int operation)
{
    struct stat st;
    bool is_dir = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    errno = calls.flock_any != 0 ? calls.flock_any : is_dir ? calls.flock_dir : 0;
    return errno != 0 ? -1 : (int)syscall(SYS_flock, fd, operation);
}

int renameat2(int old_fd, const char *old_name, int new_fd, const char *new_name,
              unsigned int flags)
{
    log_call("rename", new_name);
    if (calls.no_flags && flags != 0) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_renameat2, old_fd, old_name, new_fd, new_name, flags);
}

static int setup(void **state)
{
    memset(&calls, 0, sizeof calls);
    return harness_dir_setup(state);
}

static char *at(const char *dir, const char *name)
{
    return harness_path(dir, "%s", name);
}

static swi_txn *begin(const char *dest, bool overwrite, bool single_file)
{
    sw_error err = {0};
    swi_txn *txn = NULL;
    swi_txn_options options = {.id = ID, .overwrite = overwrite, .single_file = single_file};
    assert_ok(swi_txn_begin(dest, &options, &txn, &err), &err);
    return txn;
}

static void put(swi_txn *txn, const char *path, const char *text)
{
    sw_error err = {0};
    assert_ok(swi_txn_put(txn, path, text, strlen(text), &err), &err);
}

static void assert_file(const char *path, const char *want)
{
    size_t size;
    uint8_t *data = harness_read(path, &size);
    assert_string_equal((char *)data, want);
    free(data);
}

static void assert_only(const char *dir, const char *want)
{
    const char *const argv[] = {"ls", "-A", dir, NULL};
    harness_result result;
    harness_run(argv, &result);
    assert_string_equal(result.out, want);
    harness_result_free(&result);
}

/* G2: everything that the index names is durable before it, and it before the name. */
static void test_order(void **state)
{
    sw_error err = {0};
    swi_txn *txn = begin(at(*state, "out"), false, false);
    calls.logging = true;
    put(txn, "d/e/one", "1");
    put(txn, "two", "2");
    put(txn, "index", "3");
    assert_ok(swi_txn_commit(txn, &err), &err);
    calls.logging = false;
    char want[512];
    (void)snprintf(want, sizeof want,
                   "sync one\nsync .journal\nsync two\nsync .journal\nsync index\nsync .journal\n"
                   "sync e\nsync d\nsync out.partial-" ID "\nrename out\nsync %s\n",
                   strrchr(*state, '/') + 1);
    assert_string_equal(calls.log, want);
    swi_txn_end(txn, false);
}

static void check_replacements(const char *dir)
{
    sw_error err = {0};
    char *dest = at(dir, "out");
    static const struct {
        bool single, over_file;
    } kinds[] = {{false, false}, {false, true}, {true, false}, {true, true}};
    for (size_t i = 0; i < 4; i++) {
        harness_remove(dest);
        harness_write_text(kinds[i].over_file ? dest : at(dir, "out/old"), "old");
        swi_txn *txn = begin(dest, true, kinds[i].single);
        put(txn, "new", "new");
        assert_ok(swi_txn_commit(txn, &err), &err);
        assert_null(swi_txn_leftover(txn));
        swi_txn_end(txn, false);
        assert_only(dir, "out\n");
        if (kinds[i].single)
            assert_file(dest, "new");
        else
            assert_only(dest, "new\n");
    }
    harness_remove(dest);
    swi_txn *txn = begin(dest, false, false);
    put(txn, "f", "x");
    harness_write_text(at(dir, "out/late"), "theirs");
    assert_int_equal(swi_txn_commit(txn, &err), SW_ERR_EXISTS);
    swi_txn_end(txn, false);
    assert_only(dir, "out\n");
    assert_only(dest, "late\n");
}

static void test_replace_with_exchange(void **state)
{
    check_replacements(*state);
}

static void test_replace_without_exchange(void **state)
{
    calls.no_flags = true;
    check_replacements(*state);
}

/* Whichever sync of the commit fails: the old state, and a partial folder to resume from. */
static void check_failing_commit(const char *dir, bool overwrite, bool single_file)
{
    sw_error err = {0};
    char *dest = at(dir, "out");
    int failures = 0;
    for (bool done = false; !done; failures++) {
        harness_remove(dest);
        if (overwrite)
            harness_write_text(at(dir, "out/old"), "old");
        swi_txn *txn = begin(dest, overwrite, single_file);
        put(txn, "new", "new");
        calls.fail_sync = failures + 1;
        sw_status status = swi_txn_commit(txn, &err);
        done = calls.fail_sync > 0;
        calls.fail_sync = 0;
        assert_int_equal(status, done ? SW_OK : SW_ERR_IO);
        swi_txn_end(txn, true);
        if (done)
            break;
        assert_error(&err, SW_ERR_IO, "cannot make the directory durable (fsync): Input/output");
        assert_only(dir, overwrite ? "out\nout.partial-" ID "\n" : "out.partial-" ID "\n");
        if (overwrite)
            assert_file(at(dir, "out/old"), "old");
        txn = begin(dest, overwrite, single_file);
        assert_int_equal(swi_txn_resumed(txn), 1);
        assert_true(swi_txn_has(txn, "new", 3));
        assert_ok(swi_txn_commit(txn, &err), &err);
        swi_txn_end(txn, false);
        assert_only(dir, "out\n");
    }
    assert_int_equal(failures, 2); /* the folder, its parent */
}

static void test_failing_commit(void **state)
{
    for (int i = 0; i < 8; i++) {
        calls.no_flags = (i & 4) != 0;
        check_failing_commit(*state, i & 1, i & 2);
        harness_remove(at(*state, "out"));
    }
}

static void test_failing_file(void **state)
{
    sw_error err = {0};
    for (int k = 1; k <= 2; k++) {
        swi_txn *txn = begin(at(*state, "out"), false, false);
        put(txn, "good", "g");
        calls.fail_sync = k; /* of the file, of the journal */
        assert_int_equal(swi_txn_put(txn, "bad", "b", 1, &err), SW_ERR_IO);
        assert_error(&err, SW_ERR_IO,
                     k == 1 ? "/bad: cannot make it durable (fsync): Input/output"
                            : "/.journal: cannot make it durable (fsync)");
        assert_int_equal(swi_txn_commit(txn, &err), SW_ERR_ARG);
        assert_error(&err, SW_ERR_ARG, "/bad: was not finished");
        swi_txn_end(txn, true);
        txn = begin(at(*state, "out"), false, false);
        assert_true(swi_txn_has(txn, "good", 1));
        assert_false(k == 1 && swi_txn_has(txn, "bad", 1));
        swi_txn_end(txn, false);
        assert_only(*state, "");
    }
}

static void test_locks_of_network_file_systems(void **state)
{
    sw_error err = {0};
    swi_txn *txn, *second = NULL;
    swi_txn_options options = {.id = ID};
    calls.flock_dir = EBADF;
    txn = begin(at(*state, "out"), false, false);
    put(txn, "f", "x");
    assert_int_equal(swi_txn_begin(at(*state, "out"), &options, &second, &err), SW_ERR_EXISTS);
    assert_error(&err, SW_ERR_EXISTS, "another running process is writing it");
    assert_ok(swi_txn_commit(txn, &err), &err);
    swi_txn_end(txn, false);
    assert_only(*state, "out\n");
    harness_remove(at(*state, "out"));
    calls.flock_any = ENOSYS;
    txn = begin(at(*state, "out"), false, false);
    put(txn, "f", "x");
    assert_ok(swi_txn_commit(txn, &err), &err);
    swi_txn_end(txn, false);
    assert_only(*state, "out\n");
}

int main(void)
{
#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, setup, harness_dir_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DIR(test_order),
        WITH_DIR(test_replace_with_exchange),
        WITH_DIR(test_replace_without_exchange),
        WITH_DIR(test_failing_commit),
        WITH_DIR(test_failing_file),
        WITH_DIR(test_locks_of_network_file_systems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
