/* A destination is whole or absent, a killed run is taken up, the source is never written. */
#include "convert/fixture.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Shards of one tensor each, so that some are finished when a run stops. */
#define TARGET "hf:shard=1KB"

/* The path of the partial folder beside `dest`, or NULL. */
static char *partial_of(const char *dir, const char *name)
{
    char start[64];
    char *path = NULL;
    int n = snprintf(start, sizeof start, "%s.partial-", name);
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        if (strncmp(e->d_name, start, (size_t)n) == 0)
            path = harness_path(dir, "%s", e->d_name);
    closedir(d);
    return path;
}

/* Stops a run when its journal says that so many files are finished. */
typedef struct stopper {
    const char *dir;
    size_t files;
} stopper;

static size_t count_finished(const char *dir)
{
    char *partial = partial_of(dir, "out");
    char *journal = partial ? harness_path(partial, ".journal") : NULL;
    size_t size = 0, lines = 0;
    if (journal == NULL || !harness_exists(journal))
        return 0;
    uint8_t *text = harness_read(journal, &size);
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    free(text);
    return lines > 0 ? lines - 1 : 0; /* the first is not a file's */
}

/* Files are made durable behind the moves: when those are done it waits for them. */
static bool stop_at(void *ctx, const sw_progress *progress)
{
    const stopper *s = ctx;
    bool last = progress->done_bytes == progress->total_bytes;
    for (int i = 0; last && i < 10000 && count_finished(s->dir) < s->files; i++)
        usleep(1000);
    return count_finished(s->dir) < s->files;
}

static void run_stopped(const char *dir, const char *source, size_t files)
{
    stopper s = {dir, files};
    sw_convert_options o = {
        .to = TARGET,
        .work = {.threads = 1, .memory_bytes = 1, .progress = stop_at, .progress_ctx = &s}};
    outcome run;
    run_convert(source, harness_path(dir, "out"), &o, &run);
    assert_run_refused(&run, SW_ERR_CANCELED, "stopped as asked", harness_path(dir, "out"));
    outcome_free(&run);
}

/* With the digests of what is written in DEST-list, if that is not there. */
static uint64_t run_whole(const char *source, const char *dest, bool overwrite)
{
    char *list = harness_path("", "%s-list", dest + 1);
    sw_convert_options o = {
        .to = TARGET, .overwrite = overwrite, .digests = harness_exists(list) ? NULL : list};
    outcome run;
    run_convert(source, dest, &o, &run);
    assert_fine(&run);
    uint64_t resumed = run.converted.resumed_files;
    outcome_free(&run);
    return resumed;
}

/* Entries of a folder that may vanish meanwhile. */
static size_t count_entries(const char *path)
{
    size_t count = 0;
    DIR *d = path ? opendir(path) : NULL;
    if (d == NULL)
        return 0;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return count;
}

/* A run that is killed when its partial folder has that many entries; or it was faster. */
static void run_killed(const char *dir, const char *source, const char *dest, size_t entries)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sw_convert_options o = {.to = TARGET, .work = {.threads = 1, .memory_bytes = 1}};
        sw_convert_summary sum;
        sw_report *report = NULL;
        sw_error err = {0};
        bool done = sw_report_make(&report, &err) == SW_OK &&
                    sw_convert(source, dest, &o, NULL, NULL, report, &sum, &err) == SW_OK;
        _exit(done ? 0 : 1);
    }
    int status;
    pid_t ended = 0;
    for (int i = 0; i < 20000 && ended == 0; i++) {
        if (count_entries(partial_of(dir, "out")) >= entries)
            break;
        ended = waitpid(child, &status, WNOHANG);
    }
    (void)kill(child, SIGKILL);
    if (ended == 0)
        assert_int_equal(waitpid(child, &status, 0), child);
}

static void test_stopped_run_is_taken_up(void **state)
{
    char *dir = *state, *source = harness_path(dir, "demo"), *dest = harness_path(dir, "out");
    char *want = harness_path(dir, "want");
    make_demo(source);
    assert_int_equal(run_whole(source, want, false), 0);
    for (size_t files = 0; files <= 8; files += 4) {
        run_stopped(dir, source, files);
        assert_int_equal(count_partials(dir, "out"), files > 0);
        uint64_t resumed = run_whole(source, dest, false);
        assert_true(resumed >= files && (files > 0 || resumed == 0));
        assert_same_folder(dest, want);
        /* What was finished before is in the list, too. */
        assert_true(same_file(harness_path(dir, "out-list"), harness_path(dir, "want-list")));
        harness_remove(harness_path(dir, "out-list"));
        assert_int_equal(count_partials(dir, "out"), 0);
        harness_remove(dest);
    }
}

static void test_killed_run_is_taken_up(void **state)
{
    char *dir = *state, *source = harness_path(dir, "demo"), *dest = harness_path(dir, "out");
    char *want = harness_path(dir, "want");
    make_demo(source);
    (void)run_whole(source, want, false);
    uint64_t most = 0;
    for (size_t entries = 4; entries < 40 && most == 0; entries++) {
        run_killed(dir, source, dest, entries % 8 + 3);
        if (harness_exists(dest)) {
            assert_same_folder(dest, want);
            harness_remove(dest);
            continue;
        }
        most = run_whole(source, dest, false);
        assert_same_folder(dest, want);
        assert_int_equal(count_partials(dir, "out"), 0);
        harness_remove(dest);
    }
    assert_true(most > 0);
}

/* Another source, target or option is other work: nothing of this one's is taken up. */
static void test_what_is_not_taken_up(void **state)
{
    char *dir = *state, *source = harness_path(dir, "demo"), *dest = harness_path(dir, "out");
    make_demo(source);
    run_stopped(dir, source, 8);
    char *partial = partial_of(dir, "out");
    /* the source changed: a byte of the same size at another time */
    char *file = harness_path(source, "__3_0.distcp");
    struct timespec times[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000, .tv_nsec = 5}};
    assert_int_equal(utimensat(AT_FDCWD, file, times, 0), 0);
    assert_int_equal(run_whole(source, dest, false), 0);
    assert_true(harness_exists(partial));
    harness_remove(dest);
    /* other options */
    sw_convert_options o = {.to = TARGET, .dtype = SW_F16};
    outcome run;
    run_convert(source, dest, &o, &run);
    assert_fine(&run);
    assert_int_equal(run.converted.resumed_files, 0);
    outcome_free(&run);
}

/* What an earlier run finished and somebody cut is made again. */
static void test_cut_file_of_a_partial(void **state)
{
    char *dir = *state, *source = harness_path(dir, "demo"), *dest = harness_path(dir, "out");
    char *want = harness_path(dir, "want");
    make_demo(source);
    (void)run_whole(source, want, false);
    run_stopped(dir, source, 8);
    char *partial = partial_of(dir, "out");
    folder_files files = list_files(partial);
    for (size_t i = 0; i < files.count; i++)
        if (files.names[i][0] != '.')
            harness_truncate(harness_path(partial, "%s", files.names[i]), 7);
    harness_write_text(harness_path(partial, "stranger"), "not ours\n");
    assert_int_equal(run_whole(source, dest, false), 0);
    assert_same_folder(dest, want);
}

static void test_destination_that_exists(void **state)
{
    char *dir = *state, *source = harness_path(dir, "demo"), *dest = harness_path(dir, "out");
    make_demo(source);
    write_st_one(harness_path(dest, "precious.safetensors"), "w", 2, 2, 0);
    outcome run;
    run_convert(source, dest, NULL, &run);
    assert_run_refused(&run, SW_ERR_EXISTS, "out: exists", NULL);
    outcome_free(&run);
    assert_int_equal(list_files(dest).count, 1);
    assert_int_equal(count_partials(dir, "out"), 0);
    (void)run_whole(source, dest, true);
    assert_false(harness_exists(harness_path(dest, "precious.safetensors")));
    assert_true(list_files(dest).count > 1);
    assert_int_equal(count_partials(dir, "out"), 0);
    /* a file is a destination that exists, too */
    harness_remove(dest);
    harness_write_text(dest, "a file\n");
    run_convert(source, dest, NULL, &run);
    assert_run_refused(&run, SW_ERR_EXISTS, "out: exists", NULL);
    outcome_free(&run);
    /* and a link, even one that dangles: nothing is written through it */
    harness_remove(dest);
    assert_int_equal(symlink("elsewhere", dest), 0);
    run_convert(source, dest, NULL, &run);
    assert_run_refused(&run, SW_ERR_EXISTS, "out: exists", NULL);
    outcome_free(&run);
    assert_false(harness_exists(harness_path(dir, "elsewhere")));
}

/* A refused run must leave the old one as it was. */
static void test_overwrite_keeps_the_old_until_the_new_is_whole(void **state)
{
    char *dir = *state, *source = harness_path(dir, "demo"), *dest = harness_path(dir, "out");
    make_demo(source);
    harness_write_text(harness_path(dest, "precious"), "old\n");
    harness_truncate(harness_path(source, "__2_0.distcp"), 100);
    sw_convert_options o = {.to = TARGET, .overwrite = true};
    outcome run;
    run_convert(source, dest, &o, &run);
    assert_run_refused(&run, SW_ERR_CORRUPT, "__2_0.distcp", NULL);
    outcome_free(&run);
    char *text = (char *)harness_read(harness_path(dest, "precious"), NULL);
    assert_string_equal(text, "old\n");
    free(text);
    assert_int_equal(list_files(dest).count, 1);
}

/* Whatever the way to the source, also by one of its files (more in test_destination.c). */
static void test_destination_inside_the_source(void **state)
{
    char *dir = *state, *source = harness_path(dir, "demo");
    make_demo(source);
    assert_int_equal(symlink("demo", harness_path(dir, "link")), 0);
    assert_refuses(harness_path(source, ".metadata"), harness_path(dir, "link/out"), NULL,
                   SW_ERR_ARG, "lies in the source folder, which is never written");
    assert_refuses(harness_path(dir, "link/__0_0.distcp"), harness_path(source, "out"), NULL,
                   SW_ERR_ARG, "lies in the source folder, which is never written");
    assert_int_equal(list_files(source).count, 5);
}

static void test_parent_that_is_not_there(void **state)
{
    char *dir = *state, *source = harness_path(dir, "demo");
    make_demo(source);
    outcome run;
    run_convert(source, harness_path(dir, "no/such/out"), NULL, &run);
    assert_int_not_equal(run.status, SW_OK);
    assert_contains(run.err.text, "no/such");
    outcome_free(&run);
    assert_false(harness_exists(harness_path(dir, "no")));
}

/* Gives up what lets root write anywhere. */
static bool drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    return syscall(SYS_capset, &header, none) == 0;
}

static void test_parent_that_may_not_be_written(void **state)
{
    char *dir = *state, *source = harness_path(dir, "demo"), *parent = harness_path(dir, "locked");
    char *out = harness_path(parent, "out");
    make_demo(source);
    harness_write_text(harness_path(parent, "x"), "");
    assert_int_equal(chmod(parent, 0555), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        outcome run;
        if (!drop_capabilities() || access(parent, W_OK) == 0)
            _exit(77);
        run_convert(source, out, NULL, &run);
        bool right = run.status == SW_ERR_IO && run.err.sys_errno == EACCES &&
                     strstr(run.err.text, "locked") != NULL && !harness_exists(out);
        if (!right)
            show_outcome(&run);
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(parent, 0755), 0);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(list_files(parent).count, 1);
}

/* The source may be read-only, and stays as it is: names, bytes and times. */
static void test_source_is_untouched(void **state)
{
    char *dir = *state, *source = harness_path(dir, "demo"), *copy = harness_path(dir, "copy");
    make_demo(source);
    harness_copy_tree(source, copy);
    struct stat before, after;
    assert_int_equal(stat(source, &before), 0);
    assert_int_equal(chmod(source, 0555), 0);
    (void)run_whole(source, harness_path(dir, "out"), false);
    assert_int_equal(stat(source, &after), 0);
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
    assert_same_folder(source, copy);
    assert_int_equal(chmod(source, 0755), 0);
}

/* S5: a volume that is too small is seen before anything is written. */
static void test_no_space(void **state)
{
    char *dir = *state, *source = harness_path(dir, "demo"), *small = harness_path(dir, "small");
    make_demo(source);
    assert_int_equal(mkdir(small, 0755), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* a mount that nobody else sees, and that ends with this process */
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("tmpfs", small, "tmpfs", 0, "size=64k") != 0)
            _exit(77);
        outcome run;
        run_convert(source, harness_path(small, "out"), NULL, &run);
        bool right = run.status == SW_ERR_IO && run.err.sys_errno == ENOSPC &&
                     strstr(run.err.text, "bytes are needed and") != NULL &&
                     !harness_exists(harness_path(small, "out")) &&
                     count_partials(small, "out") == 0;
        if (!right)
            show_outcome(&run);
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* --dry-run proves and says, and leaves nothing. */
static void test_dry_run(void **state)
{
    char *dir = *state, *source = harness_path(dir, "demo");
    make_demo(source);
    sw_convert_options o = {.to = TARGET, .dry_run = true};
    outcome run;
    run_convert(source, NULL, &o, &run);
    assert_fine(&run);
    assert_int_equal(run.converted.tensors, 8);
    assert_int_equal(run.converted.files, 9);
    assert_true(run.converted.bytes > 125196);
    assert_int_equal(run.converted.tally.read_bytes, 0);
    outcome_free(&run);
    run_convert(source, NULL, NULL, &run);
    assert_run_refused(&run, SW_ERR_ARG, "dest", NULL);
    outcome_free(&run);
    assert_refuses(source, harness_path(dir, "out"), &(sw_convert_options){.to = "gguf"},
                   SW_ERR_ARG, "--to gguf: not a target");
    assert_refuses(source, harness_path(dir, "out"), &(sw_convert_options){.to = "dcp:ranks=0"},
                   SW_ERR_ARG, "--to dcp:ranks=0: not an option");
    assert_refuses(source, harness_path(dir, "out"), &(sw_convert_options){.to = "hf:shard=0"},
                   SW_ERR_ARG, "--to hf:shard=0");
    assert_refuses(source, harness_path(dir, "out"), &(sw_convert_options){.to = "hf:shard=5XB"},
                   SW_ERR_ARG, "shard=5XB");
    assert_refuses(source, harness_path(dir, "out"), &(sw_convert_options){0}, SW_ERR_ARG,
                   "--to (none)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_stopped_run_is_taken_up),
        test_in_dir(test_killed_run_is_taken_up),
        test_in_dir(test_what_is_not_taken_up),
        test_in_dir(test_cut_file_of_a_partial),
        test_in_dir(test_destination_that_exists),
        test_in_dir(test_overwrite_keeps_the_old_until_the_new_is_whole),
        test_in_dir(test_destination_inside_the_source),
        test_in_dir(test_parent_that_is_not_there),
        test_in_dir(test_parent_that_may_not_be_written),
        test_in_dir(test_source_is_untouched),
        test_in_dir(test_no_space),
        test_in_dir(test_dry_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
