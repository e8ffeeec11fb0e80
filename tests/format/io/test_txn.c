/* Publishing: complete under its name or absent, and a killed run's work is taken up. */
#include "harness/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/txn.h"

#define ID "0123456789abcdef"

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

static sw_status try_begin(const char *dest, bool overwrite, sw_error *err)
{
    swi_txn *txn = (swi_txn *)err;
    swi_txn_options options = {.id = ID, .overwrite = overwrite};
    sw_status status = swi_txn_begin(dest, &options, &txn, err);
    if (status == SW_OK)
        swi_txn_end(txn, true);
    else
        assert_ptr_equal(txn, err);
    return status;
}

static void put(swi_txn *txn, const char *path, const char *text)
{
    sw_error err = {0};
    assert_ok(swi_txn_put(txn, path, text, strlen(text), &err), &err);
}

static void commit(swi_txn *txn)
{
    sw_error err = {0};
    assert_ok(swi_txn_commit(txn, &err), &err);
    assert_null(swi_txn_leftover(txn));
    swi_txn_end(txn, false);
}

static void assert_file(const char *path, const char *want)
{
    size_t size;
    uint8_t *data = harness_read(path, &size);
    assert_string_equal((char *)data, want);
    free(data);
}

/* Everything below a folder, as "a b/ b/c". */
static char *listing(const char *dir)
{
    const char *const argv[] = {"sh", "-c", "cd \"$0\" && find . -mindepth 1 | LC_ALL=C sort", dir,
                                NULL};
    harness_result result;
    harness_run(argv, &result);
    for (char *p = result.out; *p != '\0'; p++)
        if (*p == '\n')
            *p = ' ';
    free(result.err);
    return result.out;
}

static void assert_listing(const char *dir, const char *want)
{
    char *found = listing(dir);
    assert_string_equal(found, want);
    free(found);
}

static void test_commit(void **state)
{
    sw_error err = {0};
    char *dest = at(*state, "out");
    swi_txn *txn = begin(dest, false, false);
    assert_string_equal(swi_txn_partial(txn), at(*state, "out.partial-" ID));
    assert_int_equal(swi_txn_resumed(txn), 0);
    swi_file *file = NULL, *scratch = NULL;
    assert_ok(swi_store_create(swi_txn_store(txn), "sub/data", &file, &err), &err);
    assert_ok(swi_file_write(file, 0, "bytes", 5, &err), &err);
    assert_ok(swi_txn_finish_file(txn, "sub/data", file, &err), &err);
    assert_ok(swi_txn_scratch(txn, &scratch, &err), &err);
    assert_ok(swi_file_write(scratch, 0, "tmp", 3, &err), &err);
    put(txn, "index", "first");
    put(txn, "index", "second");
    assert_true(swi_txn_has(txn, "sub/data", 5));
    assert_false(swi_txn_has(txn, "other", 5));
    assert_false(harness_exists(dest));
    swi_file_close(scratch);
    commit(txn);
    assert_listing(*state, "./out ./out/index ./out/sub ./out/sub/data ");
    assert_file(at(*state, "out/index"), "second");
    assert_file(at(*state, "out/sub/data"), "bytes");
}

static void test_dest_names(void **state)
{
    sw_error err = {0};
    static const char *const bad[] = {"", "/", ".", "..", "a/..", "a/."};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(try_begin(bad[i], false, &err), SW_ERR_ARG);
        assert_error(&err, SW_ERR_ARG, "cannot be a destination");
    }
    assert_int_equal(try_begin(at(*state, "no/out"), false, &err), SW_ERR_NOTFOUND);
    assert_error(&err, SW_ERR_NOTFOUND, "/no: there is no such folder for the destination");
    swi_txn *txn = NULL;
    static const char *const ids[] = {"", "0123456", "0123456G", "ABCDEF01", "../../../a", NULL};
    for (size_t i = 0; i < 6; i++) {
        swi_txn_options options = {.id = ids[i]};
        assert_int_equal(swi_txn_begin("x", &options, &txn, &err), SW_ERR_ARG);
        assert_error(&err, SW_ERR_ARG, "8 to 64 lower-case hex digits");
    }
    txn = begin(at(*state, "slash//"), false, false);
    put(txn, "f", "x");
    commit(txn);
    assert_file(at(*state, "slash/f"), "x");
    txn = begin("relative", false, false);
    put(txn, "f", "y");
    commit(txn);
    assert_file("relative/f", "y");
}

static void test_existing_is_refused(void **state)
{
    sw_error err = {0};
    harness_write_text(at(*state, "out/old"), "old");
    assert_int_equal(try_begin(at(*state, "out"), false, &err), SW_ERR_EXISTS);
    assert_error(&err, SW_ERR_EXISTS, "/out: exists, and replacing it was not asked for");
    /* A dangling link is something, too. */
    assert_int_equal(symlink("nowhere", at(*state, "link")), 0);
    assert_int_equal(try_begin(at(*state, "link"), false, &err), SW_ERR_EXISTS);
    assert_listing(*state, "./link ./out ./out/old ");
    /* One that comes while we write is not replaced either, and our work stays. */
    swi_txn *txn = begin(at(*state, "late"), false, false);
    put(txn, "f", "ours");
    harness_write_text(at(*state, "late/theirs"), "x");
    assert_int_equal(swi_txn_commit(txn, &err), SW_ERR_EXISTS);
    assert_error(&err, SW_ERR_EXISTS, "/late: exists by now");
    swi_txn_end(txn, true);
    assert_file(at(*state, "late/theirs"), "x");
    harness_remove(at(*state, "late"));
    txn = begin(at(*state, "late"), false, false);
    assert_int_equal(swi_txn_resumed(txn), 1);
    assert_true(swi_txn_has(txn, "f", 4));
    commit(txn);
    assert_listing(*state, "./late ./late/f ./link ./out ./out/old ");
}

static void test_overwrite(void **state)
{
    harness_write_text(at(*state, "out/deep/old"), "old");
    assert_int_equal(symlink("/", at(*state, "out/root")), 0);
    swi_txn *txn = begin(at(*state, "out"), true, false);
    put(txn, "new", "new");
    assert_file(at(*state, "out/deep/old"), "old");
    commit(txn);
    assert_listing(*state, "./out ./out/new ");
    /* A file in place of a folder, a folder in place of a file, and of a link, which is not
     * followed. */
    txn = begin(at(*state, "out"), true, true);
    put(txn, "model.bin", "one file");
    commit(txn);
    assert_file(at(*state, "out"), "one file");
    txn = begin(at(*state, "out"), true, false);
    put(txn, "a", "folder");
    commit(txn);
    assert_listing(*state, "./out ./out/a ");
    harness_remove(at(*state, "out"));
    harness_write_text(at(*state, "target/kept"), "kept");
    assert_int_equal(symlink("target", at(*state, "out")), 0);
    txn = begin(at(*state, "out"), true, false);
    put(txn, "a", "folder");
    commit(txn);
    assert_listing(*state, "./out ./out/a ./target ./target/kept ");
}

static void test_single_file(void **state)
{
    sw_error err = {0};
    char *dest = at(*state, "model.bin");
    swi_txn *txn = begin(dest, false, true);
    put(txn, "a", "1");
    put(txn, "b", "2");
    assert_int_equal(swi_txn_commit(txn, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "one file was to be published, 2 were made");
    swi_txn_end(txn, false);
    assert_listing(*state, "");
    txn = begin(dest, false, true);
    put(txn, "sub/whatever", "text");
    commit(txn);
    assert_listing(*state, "./model.bin ");
    assert_file(dest, "text");
    assert_int_equal(try_begin(dest, false, &err), SW_ERR_EXISTS);
    txn = begin(dest, true, true);
    put(txn, "x", "newer");
    commit(txn);
    assert_listing(*state, "./model.bin ");
    assert_file(dest, "newer");
}

/* Two that belong together: both or none. */
static void test_commit_all(void **state)
{
    sw_error err = {0};
    swi_txn *both[2];
    both[0] = begin(at(*state, "list"), false, true);
    both[1] = begin(at(*state, "out"), false, false);
    put(both[0], "list", "a list");
    put(both[1], "f", "data");
    assert_ok(swi_txn_commit_all(both, 2, &err), &err);
    swi_txn_end(both[0], false);
    swi_txn_end(both[1], false);
    assert_listing(*state, "./list ./out ./out/f ");

    /* The first replaces one, which comes back when the second cannot be. */
    both[0] = begin(at(*state, "list"), true, true);
    both[1] = begin(at(*state, "late"), false, false);
    put(both[0], "list", "a newer list");
    put(both[1], "f", "data");
    harness_write_text(at(*state, "late/theirs"), "x");
    assert_int_equal(swi_txn_commit_all(both, 2, &err), SW_ERR_EXISTS);
    assert_error(&err, SW_ERR_EXISTS, "/late: exists by now");
    assert_file(at(*state, "list"), "a list");
    swi_txn_end(both[0], false);
    swi_txn_end(both[1], true);
    harness_remove(at(*state, "late"));
    assert_listing(*state, "./late.partial-" ID " ./late.partial-" ID "/.journal ./late.partial-" ID
                           "/f ./list ./out ./out/f ");

    /* What is not ready keeps both from their names; the finished work of both is taken up. */
    both[0] = begin(at(*state, "other"), false, true);
    both[1] = begin(at(*state, "late"), false, false);
    assert_true(swi_txn_has(both[1], "f", 4));
    put(both[0], "other", "1");
    put(both[0], "too many", "2");
    assert_int_equal(swi_txn_commit_all(both, 2, &err), SW_ERR_ARG);
    swi_txn_end(both[0], false);
    commit(both[1]);
    assert_listing(*state, "./late ./late/f ./list ./out ./out/f ");
}

static void test_end_without_commit(void **state)
{
    sw_error err = {0};
    char *dest = at(*state, "out");
    swi_txn *txn = begin(dest, false, false);
    put(txn, "d/f", "x");
    swi_txn_end(txn, false);
    assert_listing(*state, "");
    /* Nothing finished: nothing worth keeping. */
    txn = begin(dest, false, false);
    swi_file *file = NULL;
    assert_ok(swi_store_create(swi_txn_store(txn), "half", &file, &err), &err);
    swi_file_close(file);
    swi_txn_end(txn, true);
    assert_listing(*state, "");
    swi_txn_end(NULL, true);
}

static void test_unfinished_file_is_not_published(void **state)
{
    sw_error err = {0};
    swi_txn *txn = begin(at(*state, "out"), false, false);
    put(txn, "f", "x");
    swi_file *file = NULL;
    assert_ok(swi_store_create(swi_txn_store(txn), "d/half", &file, &err), &err);
    swi_file_close(file);
    assert_int_equal(swi_txn_commit(txn, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "/d/half: was not finished before the commit");
    assert_ok(swi_store_remove(swi_txn_store(txn), "d/half", &err), &err);
    harness_write_text(at(*state, "out.partial-" ID "/f"), "longer");
    assert_int_equal(swi_txn_commit(txn, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "/f: was finished with 1 bytes, now holds 6");
    swi_txn_end(txn, false);
    assert_listing(*state, "");
}

/* What a killed run finished may be of other data: a fresh one begins with nothing. */
static void test_fresh(void **state)
{
    sw_error err = {0};
    char *dest = at(*state, "out");
    const swi_txn_options options = {.id = ID, .fresh = true};
    swi_txn *txn = begin(dest, false, false);
    put(txn, "f", "old");
    put(txn, "d/g", "old");
    swi_txn_end(txn, true); /* as a killed run leaves it */
    assert_ok(swi_txn_begin(dest, &options, &txn, &err), &err);
    assert_int_equal(swi_txn_resumed(txn), 0);
    assert_false(swi_txn_has(txn, "f", 3));
    assert_false(swi_txn_has(txn, "d/g", 3));
    put(txn, "f", "new");
    commit(txn);
    assert_listing(*state, "./out ./out/f ");
    assert_file(at(*state, "out/f"), "new");
}

static void test_resume(void **state)
{
    sw_error err = {0};
    char *dest = at(*state, "out");
    char *partial = at(*state, "out.partial-" ID);
    swi_txn *txn = begin(dest, false, false);
    put(txn, "one", "11");
    put(txn, "sub/two\nlines", "22");
    put(txn, "three", "33");
    put(txn, "four", "44");
    swi_txn_end(txn, true);
    /* What a crash can do to files that are not durable, and what others could put there. */
    harness_write_text(harness_path(partial, "unfinished"), "x");
    harness_write_text(harness_path(partial, "sub/deep/er"), "x");
    assert_int_equal(symlink("/etc/passwd", harness_path(partial, "evil")), 0);
    harness_truncate(harness_path(partial, "three"), 1);
    harness_remove(harness_path(partial, "four"));
    txn = begin(dest, false, false);
    assert_int_equal(swi_txn_resumed(txn), 2);
    assert_true(swi_txn_has(txn, "one", 2));
    assert_true(swi_txn_has(txn, "sub/two\nlines", 2));
    assert_false(swi_txn_has(txn, "three", 2));
    assert_false(swi_txn_has(txn, "four", 2));
    assert_false(swi_txn_has(txn, "unfinished", 1));
    put(txn, "unfinished", "done");
    /* A file of another size than wanted makes room for the right one. */
    assert_false(swi_txn_has(txn, "one", 3));
    swi_file *file = NULL;
    assert_ok(swi_store_create(swi_txn_store(txn), "one", &file, &err), &err);
    assert_ok(swi_file_write(file, 0, "111", 3, &err), &err);
    assert_ok(swi_txn_finish_file(txn, "one", file, &err), &err);
    commit(txn);
    assert_file(at(*state, "out/sub/two\nlines"), "22");
    harness_remove(at(*state, "out/sub/two\nlines"));
    assert_listing(*state, "./out ./out/one ./out/sub ./out/unfinished ");
    assert_file(at(*state, "out/one"), "111");
}

/* Replaced and killed before it was whole: the journal's older line must not vouch for it. */
static void test_resume_after_half_a_replacement(void **state)
{
    char *dest = at(*state, "out");
    swi_txn *txn = begin(dest, false, false);
    put(txn, "keep", "k");
    put(txn, "index", "old!");
    swi_txn_end(txn, true);
    txn = begin(dest, false, false);
    sw_error err = {0};
    assert_false(swi_txn_has(txn, "index", 5));
    swi_file *file = NULL;
    assert_ok(swi_store_create(swi_txn_store(txn), "index", &file, &err), &err);
    assert_ok(swi_file_write(file, 0, "half", 4, &err), &err); /* as long as the old one */
    swi_file_close(file);
    swi_txn_end(txn, true);
    txn = begin(dest, false, false);
    assert_int_equal(swi_txn_resumed(txn), 1);
    assert_false(swi_txn_has(txn, "index", 4));
    swi_txn_end(txn, false);
    assert_listing(*state, "");
}

/* The journal cut at every length, and with bits of each byte of its last line flipped. */
static void test_torn_journal(void **state)
{
    char *dest = at(*state, "out");
    char *partial = at(*state, "out.partial-" ID);
    char *path = harness_path(partial, ".journal");
    swi_txn *txn = begin(dest, false, false);
    put(txn, "a", "1");
    uint64_t one_line = harness_file_size(path);
    put(txn, "b", "2");
    swi_txn_end(txn, true);
    uint64_t whole = harness_file_size(path);
    harness_copy_tree(partial, at(*state, "saved"));
    for (uint64_t cut = 0; cut <= whole; cut++) {
        harness_remove(partial);
        harness_copy_tree(at(*state, "saved"), partial);
        harness_truncate(path, cut);
        txn = begin(dest, false, false);
        assert_int_equal(swi_txn_has(txn, "a", 1), cut >= one_line);
        assert_int_equal(swi_txn_has(txn, "b", 1), cut == whole);
        /* New lines go where the good ones end. */
        put(txn, "c", "3");
        swi_txn_end(txn, true);
        txn = begin(dest, false, false);
        assert_true(swi_txn_has(txn, "c", 1));
        assert_int_equal(swi_txn_has(txn, "a", 1), cut >= one_line);
        swi_txn_end(txn, false);
    }
    for (uint64_t bit = one_line * 8; bit < whole * 8; bit += 3) {
        harness_remove(partial);
        harness_copy_tree(at(*state, "saved"), partial);
        harness_flip_bit(path, bit);
        txn = begin(dest, false, false);
        assert_true(swi_txn_has(txn, "a", 1));
        assert_false(swi_txn_has(txn, "b", 1));
        swi_txn_end(txn, true);
    }
}

static void test_journal_that_is_none(void **state)
{
    char *partial = at(*state, "out.partial-" ID);
    assert_int_equal(mkdir(partial, 0777), 0);
    harness_write_text(at(*state, "victim"), "precious");
    assert_int_equal(symlink("../victim", harness_path(partial, ".journal")), 0);
    swi_txn *txn = begin(at(*state, "out"), false, false);
    put(txn, "f", "x");
    commit(txn);
    assert_file(at(*state, "victim"), "precious");
    assert_listing(*state, "./out ./out/f ./victim ");
    /* A link where the partial folder should be is not entered. */
    assert_int_equal(mkdir(at(*state, "elsewhere"), 0777), 0);
    assert_int_equal(symlink("elsewhere", at(*state, "new.partial-" ID)), 0);
    txn = begin(at(*state, "new"), false, false);
    put(txn, "f", "x");
    assert_listing(at(*state, "elsewhere"), "");
    commit(txn);
    assert_file(at(*state, "new/f"), "x");
}

/* ---- other processes
 * ----------------------------------------------------------------------------- */

static void test_locked_out(void **state)
{
    sw_error err = {0};
    char *dest = at(*state, "out");
    swi_txn *txn = begin(dest, false, false);
    put(txn, "f", "x");
    pid_t child = fork();
    if (child == 0) {
        swi_txn *second = NULL;
        swi_txn_options options = {.id = ID, .overwrite = true};
        sw_status status = swi_txn_begin(dest, &options, &second, &err);
        bool right = status == SW_ERR_EXISTS &&
                     strstr(err.text, ".partial-" ID ": another running process is writing it");
        _exit(right ? 0 : 1);
    }
    int how = 1;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    assert_int_equal(try_begin(dest, false, &err), SW_ERR_EXISTS);
    commit(txn);
    assert_listing(*state, "./out ./out/f ");
}

/* Killed while it writes: the lock goes with it, what was finished stays. */
static void test_killed(void **state)
{
    char *dest = at(*state, "out");
    pid_t child = fork();
    if (child == 0) {
        swi_txn *txn = NULL;
        swi_txn_options options = {.id = ID};
        if (swi_txn_begin(dest, &options, &txn, NULL) != SW_OK ||
            swi_txn_put(txn, "whole", "1", 1, NULL) != SW_OK)
            _exit(1);
        swi_file *file;
        if (swi_store_create(swi_txn_store(txn), "half", &file, NULL) != SW_OK)
            _exit(2);
        (void)raise(SIGKILL);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    assert_false(harness_exists(dest));
    swi_txn *txn = begin(dest, false, false);
    assert_int_equal(swi_txn_resumed(txn), 1);
    assert_true(swi_txn_has(txn, "whole", 1));
    assert_false(harness_exists(at(*state, "out.partial-" ID "/half")));
    put(txn, "half", "2");
    commit(txn);
    assert_listing(*state, "./out ./out/half ./out/whole ");
}

/* Left by a run that was killed while it replaced the destination without an exchange. */
static void test_old_one_is_put_back(void **state)
{
    harness_write_text(at(*state, "out.old-" ID "/was"), "old");
    swi_txn *txn = begin(at(*state, "out"), true, false);
    assert_file(at(*state, "out/was"), "old");
    put(txn, "f", "x");
    commit(txn);
    assert_listing(*state, "./out ./out/f ");
    harness_write_text(at(*state, "out.old-" ID "/was"), "old");
    txn = begin(at(*state, "out"), true, false);
    swi_txn_end(txn, false);
    assert_listing(*state, "./out ./out/f ");
    /* After an exchange the old one is where the partial folder was: an old file, too. */
    harness_write_text(at(*state, "out.partial-" ID), "old");
    txn = begin(at(*state, "out"), true, false);
    put(txn, "f", "z");
    commit(txn);
    assert_file(at(*state, "out/f"), "z");
}

static void test_unwritable_parent(void **state)
{
    sw_error err = {0};
    if (geteuid() == 0) /* root may write anywhere; /proc is where it cannot */
        assert_int_equal(try_begin("/proc/out", false, &err), SW_ERR_IO);
    else {
        assert_int_equal(chmod(*state, 0555), 0);
        assert_int_equal(try_begin(at(*state, "out"), false, &err), SW_ERR_IO);
    }
    assert_error(&err, SW_ERR_IO, "/out.partial-" ID ": cannot make the folder: ");
    assert_int_not_equal(err.sys_errno, 0);
}

/* What begin would say, told without writing anything. */
static void test_look(void **state)
{
    sw_error err = {0};
    uint64_t free_bytes = 0;
    swi_txn_options options = {.id = ID}, replace = {.id = ID, .overwrite = true};
    assert_ok(swi_txn_look(at(*state, "out"), &options, &free_bytes, &err), &err);
    assert_true(free_bytes > 0 && free_bytes < UINT64_MAX);
    assert_listing(*state, "");
    harness_write_text(at(*state, "out/old"), "old");
    assert_int_equal(swi_txn_look(at(*state, "out"), &options, &free_bytes, &err), SW_ERR_EXISTS);
    assert_error(&err, SW_ERR_EXISTS, "/out: exists, and replacing it was not asked for");
    assert_ok(swi_txn_look(at(*state, "out"), &replace, &free_bytes, &err), &err);
    assert_int_equal(swi_txn_look(at(*state, "no/out"), &options, &free_bytes, &err),
                     SW_ERR_NOTFOUND);
    assert_error(&err, SW_ERR_NOTFOUND, "/no: there is no such folder for the destination");
    assert_listing(*state, "./out ./out/old ");
    /* what a killed run left takes up room that is not needed again */
    swi_txn *txn = begin(at(*state, "new"), false, false);
    put(txn, "f", "ours");
    swi_txn_end(txn, true);
    assert_ok(swi_txn_look(at(*state, "new"), &options, &free_bytes, &err), &err);
    assert_true(free_bytes == UINT64_MAX);
    if (geteuid() != 0) {
        assert_int_equal(chmod(*state, 0555), 0);
        assert_int_equal(swi_txn_look(at(*state, "a"), &options, &free_bytes, &err), SW_ERR_IO);
        assert_error(&err, SW_ERR_IO, "/a.partial-" ID ": cannot make the folder: ");
    }
}

int main(void)
{
#define WITH_DIR(test)                                                                             \
    cmocka_unit_test_setup_teardown(test, harness_dir_setup, harness_dir_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DIR(test_commit),
        WITH_DIR(test_dest_names),
        WITH_DIR(test_existing_is_refused),
        WITH_DIR(test_overwrite),
        WITH_DIR(test_single_file),
        WITH_DIR(test_commit_all),
        WITH_DIR(test_end_without_commit),
        WITH_DIR(test_unfinished_file_is_not_published),
        WITH_DIR(test_fresh),
        WITH_DIR(test_resume),
        WITH_DIR(test_resume_after_half_a_replacement),
        WITH_DIR(test_torn_journal),
        WITH_DIR(test_journal_that_is_none),
        WITH_DIR(test_locked_out),
        WITH_DIR(test_killed),
        WITH_DIR(test_old_one_is_put_back),
        WITH_DIR(test_unwritable_parent),
        WITH_DIR(test_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
