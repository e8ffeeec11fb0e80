#include "io/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/journal.h"
#include "io/store_ops.h"
#include "io/tree.h"

#define LOCK_TRIES 100

static int open_at(int dir_fd, const char *name, int flags)
{
    int fd;
    do
        fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static sw_status fail_name(sw_error *err, int sys_errno, const char *path, const char *what)
{
    swi_quoted room;
    return swi_fail_errno(err, sys_errno, "%s: %s", swi_quote_str(&room, path), what);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* 0 when something has the name, ENOENT when nothing has, else why that could not be found out. */
static int look_up(int dir_fd, const char *name)
{
    struct stat st;
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

/* ---- names --------------------------------------------------------------------------------- */

/* Splits "a/b/c" into the parent "a/b" and the index of "c"; trailing slashes are cut off. */
static sw_status split_dest(swi_place *place, const char *dest, sw_error *err)
{
    swi_quoted room;
    size_t size = strlen(dest);
    while (size > 1 && dest[size - 1] == '/')
        size--;
    place->dest = strndup(dest, size);
    if (place->dest == NULL)
        return swi_fail_nomem(err);
    const char *slash = strrchr(place->dest, '/');
    place->dest_name = slash != NULL ? slash + 1 : place->dest;
    const char *name = place->dest_name;
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return swi_fail(err, SW_ERR_ARG, "%s: cannot be a destination: it needs a name",
                        swi_quote_str(&room, dest));
    if (slash == NULL)
        place->parent = strdup(".");
    else
        place->parent =
            strndup(place->dest, slash == place->dest ? 1 : (size_t)(slash - place->dest));
    return place->parent != NULL ? SW_OK : swi_fail_nomem(err);
}

static sw_status make_text(char **out, sw_error *err, const char *first, const char *middle,
                           const char *last)
{
    swi_buf buf = {0};
    sw_status status = swi_buf_printf(&buf, err, "%s%s%s", first, middle, last);
    if (status == SW_OK)
        status = swi_buf_u8(&buf, 0, err);
    if (status != SW_OK) {
        swi_buf_free(&buf);
        return status;
    }
    *out = (char *)buf.data;
    return SW_OK;
}

sw_status swi_place_open(swi_place *place, const char *dest, const char *id, sw_error *err)
{
    *place = (swi_place){.parent_fd = -1, .dir_fd = -1, .lock_fd = -1};
    sw_status status = split_dest(place, dest, err);
    if (status == SW_OK)
        status = make_text(&place->partial, err, place->dest, ".partial-", id);
    if (status == SW_OK)
        status = make_text(&place->old_name, err, place->dest_name, ".old-", id);
    if (status != SW_OK)
        goto done;
    place->partial_name = place->partial + (place->dest_name - place->dest);
    do
        place->parent_fd = open(place->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (place->parent_fd < 0 && errno == EINTR);
    if (place->parent_fd < 0) {
        swi_quoted room;
        if (errno == ENOENT || errno == ENOTDIR)
            status = swi_fail(err, SW_ERR_NOTFOUND,
                              "%s: there is no such folder for the destination; make it first, or "
                              "choose another destination",
                              swi_quote_str(&room, place->parent));
        else
            status = fail_name(err, errno, place->parent, "cannot open the destination's folder");
    }
done:
    if (status != SW_OK)
        swi_place_close(place);
    return status;
}

void swi_place_close(swi_place *place)
{
    close_fd(&place->lock_fd);
    close_fd(&place->dir_fd);
    close_fd(&place->parent_fd);
    free(place->parent);
    free(place->dest);
    free(place->partial);
    free(place->old_name);
    *place = (swi_place){.parent_fd = -1, .dir_fd = -1, .lock_fd = -1};
}

static sw_status exists(const swi_place *place, const char *name, bool *out, sw_error *err)
{
    int rc = look_up(place->parent_fd, name);
    if (rc != 0 && rc != ENOENT)
        return fail_name(err, rc, name, "cannot find out whether it exists");
    *out = rc == 0;
    return SW_OK;
}

sw_status swi_place_dest_exists(const swi_place *place, bool *out, sw_error *err)
{
    return exists(place, place->dest_name, out, err);
}

sw_status swi_place_may_write(const swi_place *place, sw_error *err)
{
    if (faccessat(place->parent_fd, ".", W_OK | X_OK, AT_EACCESS) == 0)
        return SW_OK;
    return fail_name(err, errno, place->partial, "cannot make the folder");
}

sw_status swi_place_partial_exists(const swi_place *place, bool *out, sw_error *err)
{
    return exists(place, place->partial_name, out, err);
}

/* ---- step 1 ---------------------------------------------------------------------------------- */

static int lock_fd(int fd)
{
    int rc;
    do
        rc = flock(fd, LOCK_EX | LOCK_NB);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : errno;
}

/*
 * The lock is on the folder itself, so that it stays with it when it is renamed. NFS locks only
 * what is open for writing: there the journal is locked. Some file systems (Lustre without its
 * flock option) lock nothing at all: then nothing keeps two runs with one destination apart.
 */
static sw_status lock_folder(swi_place *place, sw_error *err)
{
    int rc = lock_fd(place->dir_fd);
    if (rc != 0 && rc != EWOULDBLOCK) {
        place->lock_fd = open_at(place->dir_fd, SWI_JOURNAL_NAME, O_RDWR | O_CREAT);
        if (place->lock_fd < 0)
            return fail_name(err, errno, place->partial, "cannot write in it");
        rc = lock_fd(place->lock_fd);
    }
    if (rc == EWOULDBLOCK) {
        swi_quoted room;
        return swi_fail(err, SW_ERR_EXISTS, "%s: another running process is writing it",
                        swi_quote_str(&room, place->partial));
    }
    return SW_OK;
}

/* The folder may have been renamed or removed by its last owner before we got the lock. */
static sw_status check_still_there(const swi_place *place, bool *again, sw_error *err)
{
    struct stat by_fd, by_name;
    if (fstat(place->dir_fd, &by_fd) != 0)
        return fail_name(err, errno, place->partial, "cannot stat");
    int rc = fstatat(place->parent_fd, place->partial_name, &by_name, AT_SYMLINK_NOFOLLOW);
    if (rc != 0 && errno != ENOENT)
        return fail_name(err, errno, place->partial, "cannot stat");
    *again = rc != 0 || by_fd.st_dev != by_name.st_dev || by_fd.st_ino != by_name.st_ino;
    return SW_OK;
}

/* *again: somebody else changed the name meanwhile. */
static sw_status try_lock(swi_place *place, bool *again, sw_error *err)
{
    *again = true;
    if (mkdirat(place->parent_fd, place->partial_name, 0777) != 0 && errno != EEXIST)
        return fail_name(err, errno, place->partial, "cannot make the folder");
    place->dir_fd = open_at(place->parent_fd, place->partial_name, O_RDONLY | O_DIRECTORY);
    if (place->dir_fd < 0 && errno == ENOENT)
        return SW_OK;
    if (place->dir_fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
        /* An old destination that was a file, left by a run that was killed after the exchange. */
        if (unlinkat(place->parent_fd, place->partial_name, 0) != 0 && errno != ENOENT)
            return fail_name(err, errno, place->partial, "cannot remove what is in the way");
        return SW_OK;
    }
    struct stat st;
    if (place->dir_fd < 0 || fstat(place->dir_fd, &st) != 0)
        return fail_name(err, errno, place->partial, "cannot open the folder");
    if (st.st_uid != geteuid()) {
        swi_quoted room;
        return swi_fail(err, SW_ERR_UNSAFE,
                        "%s: exists and belongs to another user; remove it or "
                        "choose another destination",
                        swi_quote_str(&room, place->partial));
    }
    sw_status status = lock_folder(place, err);
    return status == SW_OK ? check_still_there(place, again, err) : status;
}

sw_status swi_place_lock(swi_place *place, sw_error *err)
{
    bool again = true;
    for (int i = 0; i < LOCK_TRIES; i++) {
        sw_status status = try_lock(place, &again, err);
        if (status == SW_OK && !again)
            return SW_OK;
        close_fd(&place->lock_fd);
        close_fd(&place->dir_fd);
        if (status != SW_OK)
            return status;
    }
    swi_quoted room;
    return swi_fail(err, SW_ERR_EXISTS, "%s: other processes keep making and removing it",
                    swi_quote_str(&room, place->partial));
}

sw_status swi_place_repair(swi_place *place, sw_error *err)
{
    bool has_old = false, has_dest = false;
    sw_status status = exists(place, place->old_name, &has_old, err);
    if (status != SW_OK || !has_old)
        return status;
    status = swi_place_dest_exists(place, &has_dest, err);
    if (status != SW_OK)
        return status;
    if (has_dest)
        return swi_place_remove(place, place->old_name, err);
    if (renameat(place->parent_fd, place->old_name, place->parent_fd, place->dest_name) != 0)
        return fail_name(err, errno, place->dest, "cannot put the old destination back");
    return SW_OK;
}

/* ---- steps 6 and 7 --------------------------------------------------------------------------- */

static bool is_unknown_flag(int sys_errno)
{
    return sys_errno == EINVAL || sys_errno == ENOSYS || sys_errno == EOPNOTSUPP;
}

/* Renames to a name that nothing has. Without RENAME_NOREPLACE, looking first is all there is. */
static int rename_new(const swi_place *place, const char *from, const char *to)
{
    int fd = place->parent_fd;
    if (renameat2(fd, from, fd, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (!is_unknown_flag(errno))
        return errno;
    int rc = look_up(fd, to);
    if (rc != ENOENT)
        return rc == 0 ? EEXIST : rc;
    return renameat(fd, from, fd, to) == 0 ? 0 : errno;
}

static int exchange(const swi_place *place, const char *from)
{
    int fd = place->parent_fd;
    return renameat2(fd, from, fd, place->dest_name, RENAME_EXCHANGE) == 0 ? 0 : errno;
}

/* Without RENAME_EXCHANGE there is a moment without a destination; swi_place_repair mends it. */
static int move_aside(const swi_place *place, const char *from)
{
    int rc = rename_new(place, place->dest_name, place->old_name);
    if (rc != 0)
        return rc;
    rc = rename_new(place, from, place->dest_name);
    if (rc != 0)
        (void)rename_new(place, place->old_name, place->dest_name);
    return rc;
}

sw_status swi_place_move(swi_place *place, const char *from, bool overwrite, swi_moved *moved,
                         sw_error *err)
{
    swi_quoted room;
    *moved = SWI_MOVED_NEW;
    int rc = rename_new(place, from, place->dest_name);
    if (rc == EEXIST && !overwrite)
        return swi_fail(err, SW_ERR_EXISTS, "%s: exists by now, and replacing it was not asked for",
                        swi_quote_str(&room, place->dest));
    if (rc == EEXIST) {
        *moved = SWI_MOVED_EXCHANGED;
        rc = exchange(place, from);
        if (is_unknown_flag(rc)) {
            *moved = SWI_MOVED_ASIDE;
            rc = move_aside(place, from);
        }
    }
    if (rc == 0)
        return SW_OK;
    *moved = SWI_MOVED_NOT;
    return fail_name(err, rc, place->dest, "cannot rename the finished output to it");
}

sw_status swi_place_sync(const swi_place *place, sw_error *err)
{
    int rc;
    do
        rc = fsync(place->parent_fd);
    while (rc != 0 && errno == EINTR);
    if (rc == 0 || errno == EINVAL)
        return SW_OK;
    return fail_name(err, errno, place->parent, "cannot make the directory durable (fsync)");
}

/* Best effort: this runs because something failed, and that is what gets reported. */
void swi_place_undo(swi_place *place, const char *from, swi_moved moved)
{
    if (moved == SWI_MOVED_EXCHANGED) {
        (void)exchange(place, from);
        return;
    }
    if (moved == SWI_MOVED_NEW || moved == SWI_MOVED_ASIDE)
        (void)rename_new(place, place->dest_name, from);
    if (moved == SWI_MOVED_ASIDE)
        (void)rename_new(place, place->old_name, place->dest_name);
}

sw_status swi_place_remove(const swi_place *place, const char *name, sw_error *err)
{
    if (unlinkat(place->parent_fd, name, 0) == 0 || errno == ENOENT)
        return SW_OK;
    int why = errno;
    int fd = open_at(place->parent_fd, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return errno == ENOENT ? SW_OK : fail_name(err, why, name, "cannot remove");
    /* Locked by another: a run that took it up as its partial folder, and clears it itself. */
    if (lock_fd(fd) == EWOULDBLOCK) {
        (void)close(fd);
        return SW_OK;
    }
    /* The store closes its own descriptor; this one keeps the lock until the name is gone. */
    int hold = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    swi_store *store;
    sw_status status = swi_store_from_dir(fd, name, &store, err);
    if (status == SW_OK) {
        status = swi_tree_clear(store, err);
        swi_store_close(store);
    }
    if (status == SW_OK && unlinkat(place->parent_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        status = fail_name(err, errno, name, "cannot remove");
    close_fd(&hold);
    return status;
}

sw_status swi_place_remove_partial(const swi_place *place, sw_error *err)
{
    int rc = unlinkat(place->parent_fd, place->partial_name, AT_REMOVEDIR);
    if (rc == 0 || errno == ENOENT)
        return SW_OK;
    return fail_name(err, errno, place->partial, "cannot remove");
}
