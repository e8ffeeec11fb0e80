#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/checked.h"
#include "io/store_ops.h"

#define PART_MAX 256
#define SLICES_AT_ONCE 64
#define BYTES_AT_ONCE ((size_t)1 << 30)

typedef struct posix_store {
    swi_store base;
    int dir_fd;
} posix_store;

typedef struct posix_file {
    swi_file base;
    int fd;
} posix_file;

static const posix_store *as_posix(const swi_store *store)
{
    return (const posix_store *)store;
}

static int fd_of(const swi_file *file)
{
    return ((const posix_file *)file)->fd;
}

/* ---- errors and system calls --------------------------------------------------------------- */

static sw_status fail_sys(sw_error *err, int sys_errno, const char *label, const char *what)
{
    sw_status status = swi_fail_errno(err, sys_errno, "%s: %s", label, what);
    if (sys_errno == ENOENT || sys_errno == ENOTDIR)
        status = SW_ERR_NOTFOUND;
    else if (sys_errno == EEXIST)
        status = SW_ERR_EXISTS;
    if (err != NULL)
        err->status = status;
    return status;
}

static sw_status fail_path(sw_error *err, int sys_errno, const swi_store *store, const char *path,
                           const char *what)
{
    swi_quoted room;
    return fail_sys(err, sys_errno, swi_store_label(&room, store->root, path), what);
}

static sw_status fail_file(sw_error *err, int sys_errno, const swi_file *file, const char *what)
{
    swi_quoted room;
    return fail_sys(err, sys_errno, swi_quote_str(&room, file->label), what);
}

static sw_status fail_link(sw_error *err, const swi_store *store, const char *path, const char *why)
{
    swi_quoted room;
    return swi_fail(err, SW_ERR_UNSAFE, "%s: %s", swi_store_label(&room, store->root, path), why);
}

static int open_at(int dir_fd, const char *name, int flags)
{
    int fd;
    do
        fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOCTTY, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static swi_entry_kind kind_of(const struct stat *st)
{
    if (S_ISREG(st->st_mode))
        return SWI_ENTRY_FILE;
    return S_ISDIR(st->st_mode) ? SWI_ENTRY_DIR : SWI_ENTRY_OTHER;
}

/* A file may claim to be of any year; only those of 1678 to 2261 fit. */
static int64_t mtime_of(const struct stat *st)
{
    int64_t ns;
    if (!swi_mul_i64(st->st_mtim.tv_sec, 1000000000, &ns) ||
        !swi_add_i64(ns, st->st_mtim.tv_nsec, &ns))
        return st->st_mtim.tv_sec < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

/* ---- walking a path: one openat a part, none through a link -----------------------------------
 */

/* A directory inside the store, open for *at calls; the root is borrowed, others are owned. */
typedef struct dir_ref {
    int fd;
    bool owned;
} dir_ref;

static void leave_dir(dir_ref *dir)
{
    if (dir->owned)
        (void)close(dir->fd);
    *dir = (dir_ref){.fd = -1};
}

static sw_status enter_part(const posix_store *store, const char *path, const char *part, bool make,
                            dir_ref *dir, sw_error *err)
{
    if (make && mkdirat(dir->fd, part, 0777) != 0 && errno != EEXIST)
        return fail_path(err, errno, &store->base, path, "cannot make its directory");
    int fd = open_at(dir->fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (fd < 0) {
        int why = errno;
        struct stat st;
        if (fstatat(dir->fd, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
            return fail_link(err, &store->base, path,
                             "leads through a symbolic link, which could leave the checkpoint");
        return fail_path(err, why, &store->base, path, "cannot open its directory");
    }
    leave_dir(dir);
    *dir = (dir_ref){.fd = fd, .owned = true};
    return SW_OK;
}

/*
 * Opens the directory that holds the last part of `path` (whole: the directory `path` itself), and
 * sets *last to that part. `make` makes what is missing on the way.
 */
static sw_status walk(const posix_store *store, const char *path, bool whole, bool make,
                      dir_ref *out, const char **last, sw_error *err)
{
    dir_ref dir = {.fd = store->dir_fd};
    const char *part = path;
    while (part[0] != '\0') {
        size_t size = strcspn(part, "/");
        if (part[size] == '\0' && !whole)
            break;
        sw_status status;
        char name[PART_MAX];
        if (size >= sizeof name) {
            status = fail_path(err, ENAMETOOLONG, &store->base, path, "cannot open");
        } else {
            memcpy(name, part, size);
            name[size] = '\0';
            status = enter_part(store, path, name, make, &dir, err);
        }
        if (status != SW_OK) {
            leave_dir(&dir);
            return status;
        }
        part += size + (part[size] == '/');
    }
    *out = dir;
    if (last != NULL)
        *last = part;
    return SW_OK;
}

/* ---- files --------------------------------------------------------------------------------- */

static sw_status posix_read(const swi_file *file, uint64_t offset, void *data, size_t size,
                            size_t *got, sw_error *err)
{
    uint8_t *to = data;
    size_t done = 0;
    while (done < size && swi_range_inside(offset, done + 1, INT64_MAX)) {
        size_t now = size - done < BYTES_AT_ONCE ? size - done : BYTES_AT_ONCE;
        ssize_t n = pread(fd_of(file), to + done, now, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_file(err, errno, file, "cannot read");
        if (n == 0)
            break;
        done += (size_t)n;
    }
    *got = done;
    return SW_OK;
}

static uint64_t posix_size_now(const swi_file *file)
{
    struct stat st;
    return fstat(fd_of(file), &st) == 0 ? (uint64_t)st.st_size : swi_file_bytes(file);
}

/* Fills iov from slice *i on, of which *used bytes are written already. */
static int fill_iov(struct iovec iov[SLICES_AT_ONCE], const swi_slice *slices, size_t count,
                    size_t first, size_t used)
{
    int n = 0;
    size_t room = BYTES_AT_ONCE;
    for (size_t i = first; i < count && n < SLICES_AT_ONCE && room > 0; i++) {
        size_t size = slices[i].size - used;
        if (size == 0)
            continue; /* its data may be NULL; the first slice always has some left */
        if (size > room)
            size = room;
        iov[n].iov_base = (uint8_t *)(uintptr_t)slices[i].data + used;
        iov[n++].iov_len = size;
        room -= size;
        used = 0;
    }
    return n;
}

/* Whether it was on before. */
static bool set_direct(const swi_file *file, bool on)
{
    int flags = fcntl(fd_of(file), F_GETFL);
    if (flags < 0)
        return false;
    int wanted = on ? flags | O_DIRECT : flags & ~O_DIRECT;
    if (wanted != flags)
        (void)fcntl(fd_of(file), F_SETFL, wanted);
    return (flags & O_DIRECT) != 0;
}

/* Local file systems only: over a network one write at a time would wait for the other side. */
static void posix_direct(swi_file *file, bool on)
{
    struct statfs fs;
    if (!on || (fstatfs(fd_of(file), &fs) == 0 &&
                (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC)))
        (void)set_direct(file, on);
}

static sw_status posix_writev(swi_file *file, uint64_t offset, const swi_slice *slices,
                              size_t count, sw_error *err)
{
    struct iovec iov[SLICES_AT_ONCE];
    size_t i = 0, used = 0;
    for (;;) {
        while (i < count && used == slices[i].size) {
            i++;
            used = 0;
        }
        if (i == count)
            return SW_OK;
        int n = fill_iov(iov, slices, count, i, used);
        ssize_t wrote = pwritev(fd_of(file), iov, n, (off_t)offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        /* a device of larger sectors, or what was left of a short write */
        if (wrote < 0 && errno == EINVAL && set_direct(file, false))
            continue;
        if (wrote <= 0)
            return fail_file(err, wrote == 0 ? ENOSPC : errno, file, "cannot write");
        offset += (uint64_t)wrote;
        size_t left = (size_t)wrote;
        while (left > 0) {
            size_t step = slices[i].size - used;
            if (step > left)
                step = left;
            left -= step;
            used += step;
            if (used == slices[i].size && left > 0) {
                i++;
                used = 0;
            }
        }
    }
}

/*
 * fallocate itself and not posix_fallocate: where the file system cannot, the C library would write
 * a byte into every block, and setting the size is all that can be had.
 */
static sw_status posix_reserve(swi_file *file, uint64_t bytes, sw_error *err)
{
    int rc;
    do
        rc = ftruncate(fd_of(file), (off_t)bytes);
    while (rc != 0 && errno == EINTR);
    if (rc != 0)
        return fail_file(err, errno, file, "cannot set its size");
    if (bytes == 0)
        return SW_OK;
    do
        rc = fallocate(fd_of(file), 0, 0, (off_t)bytes);
    while (rc != 0 && errno == EINTR);
    if (rc != 0 && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        return fail_file(err, errno, file, "cannot reserve space");
    return SW_OK;
}

static void posix_write_behind(swi_file *file, uint64_t offset, uint64_t size)
{
    if (swi_range_inside(offset, size, INT64_MAX))
        (void)sync_file_range(fd_of(file), (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
}

static void posix_read_ahead(const swi_file *file, uint64_t offset, uint64_t size)
{
    if (swi_range_inside(offset, size, INT64_MAX))
        (void)posix_fadvise(fd_of(file), (off_t)offset, (off_t)size, POSIX_FADV_WILLNEED);
}

/* After a failed fsync the pages may be marked clean: it is never tried again. */
static sw_status posix_sync(swi_file *file, sw_error *err)
{
    int rc;
    do
        rc = fsync(fd_of(file));
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? SW_OK : fail_file(err, errno, file, "cannot make it durable (fsync)");
}

static void posix_file_close(swi_file *file)
{
    (void)close(fd_of(file));
    free(file->label);
    free(file);
}

static const swi_file_ops posix_file_ops = {
    .read = posix_read,
    .size_now = posix_size_now,
    .writev = posix_writev,
    .reserve = posix_reserve,
    .direct = posix_direct,
    .write_behind = posix_write_behind,
    .read_ahead = posix_read_ahead,
    .sync = posix_sync,
    .close = posix_file_close,
};

/* Takes over `fd`, also when it fails. Only a regular file becomes a swi_file. */
static sw_status make_file(const swi_store *store, const char *path, int fd, bool writable,
                           swi_file **out, sw_error *err)
{
    struct stat st;
    posix_file *file = NULL;
    void *p;
    sw_status status = SW_OK;
    if (fstat(fd, &st) != 0)
        status = fail_path(err, errno, store, path, "cannot stat");
    else if (!S_ISREG(st.st_mode))
        status = swi_fail_not_file(err, store->root, path, kind_of(&st));
    if (status == SW_OK)
        status = swi_alloc_array(1, sizeof *file, &p, err);
    if (status != SW_OK)
        goto done;
    file = p;
    status = swi_store_join(store->root, path, &file->base.label, err);
    if (status != SW_OK)
        goto done;
    file->base.ops = &posix_file_ops;
    file->base.writable = writable;
    file->fd = fd;
    atomic_init(&file->base.bytes, (uint64_t)st.st_size);
    *out = &file->base;
    return SW_OK;
done:
    free(file);
    (void)close(fd);
    return status;
}

/* ---- the store ----------------------------------------------------------------------------- */

static void posix_close(swi_store *store)
{
    (void)close(as_posix(store)->dir_fd);
    free(store->root);
    free(store);
}

static sw_status read_names(const swi_store *store, const char *dir, DIR *stream,
                            swi_name_sink sink, void *ctx, sw_error *err)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(stream);
        if (entry == NULL && errno != 0)
            return fail_path(err, errno, store, dir, "cannot list");
        if (entry == NULL)
            return SW_OK;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        sw_status status = sink(ctx, entry->d_name, err);
        if (status != SW_OK)
            return status;
    }
}

/* A directory of the store opened for what O_PATH does not allow. */
static sw_status open_dir(const swi_store *store, const char *dir, int *out, sw_error *err)
{
    dir_ref ref;
    sw_status status = walk(as_posix(store), dir, true, false, &ref, NULL, err);
    if (status != SW_OK)
        return status;
    int fd = open_at(ref.fd, ".", O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        status = fail_path(err, errno, store, dir, "cannot open the directory");
    else
        *out = fd;
    leave_dir(&ref);
    return status;
}

static sw_status posix_names(const swi_store *store, const char *dir, swi_name_sink sink, void *ctx,
                             sw_error *err)
{
    int fd;
    sw_status status = open_dir(store, dir, &fd, err);
    if (status != SW_OK)
        return status;
    DIR *stream = fdopendir(fd);
    if (stream == NULL) {
        status = fail_path(err, errno, store, dir, "cannot list");
        (void)close(fd);
        return status;
    }
    status = read_names(store, dir, stream, sink, ctx, err);
    (void)closedir(stream);
    return status;
}

static sw_status posix_stat(const swi_store *store, const char *path, swi_entry *out, sw_error *err)
{
    dir_ref dir;
    const char *last;
    struct stat st;
    sw_status status = walk(as_posix(store), path, false, false, &dir, &last, err);
    if (status != SW_OK)
        return status;
    bool is_link = false, dangles = false;
    if (fstatat(dir.fd, last, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        status = fail_path(err, errno, store, path, "cannot stat");
    } else if (S_ISLNK(st.st_mode)) {
        is_link = true;
        dangles = fstatat(dir.fd, last, &st, 0) != 0;
        if (dangles && errno != ENOENT && errno != ELOOP && errno != ENOTDIR && errno != EACCES)
            status = fail_path(err, errno, store, path, "cannot stat what it links to");
    }
    leave_dir(&dir);
    if (status != SW_OK)
        return status;
    swi_entry_kind kind = dangles ? SWI_ENTRY_OTHER : kind_of(&st);
    *out = (swi_entry){
        .path = path,
        .kind = kind,
        .is_link = is_link,
        .bytes = kind == SWI_ENTRY_FILE ? (uint64_t)st.st_size : 0,
        .mtime_ns = mtime_of(&st),
    };
    return SW_OK;
}

static sw_status posix_read_link(const swi_store *store, const char *path, char *room, size_t size,
                                 sw_error *err)
{
    dir_ref dir;
    const char *last;
    sw_status status = walk(as_posix(store), path, false, false, &dir, &last, err);
    if (status != SW_OK)
        return status;
    ssize_t got = readlinkat(dir.fd, last, room, size - 1);
    if (got >= 0)
        room[got] = '\0';
    else if (errno == EINVAL)
        status = swi_fail(err, SW_ERR_ARG, "%s: is no link", path);
    else
        status = fail_path(err, errno, store, path, "cannot read the link");
    leave_dir(&dir);
    return status;
}

/*
 * What it is gets looked up before it is opened, since opening a device or a FIFO may do something;
 * make_file looks again at what was really opened.
 */
static sw_status open_for_reading(const swi_store *store, const char *path, const dir_ref *dir,
                                  const char *last, int *out, sw_error *err)
{
    struct stat st;
    if (fstatat(dir->fd, last, &st, 0) != 0) {
        int why = errno;
        if (fstatat(dir->fd, last, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
            return fail_path(err, why, store, path, "symbolic link that leads nowhere");
        return fail_path(err, why, store, path, "cannot open");
    }
    if (!S_ISREG(st.st_mode))
        return swi_fail_not_file(err, store->root, path, kind_of(&st));
    int fd = open_at(dir->fd, last, O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return fail_path(err, errno, store, path, "cannot open");
    *out = fd;
    return SW_OK;
}

static sw_status posix_open_read(const swi_store *store, const char *path, swi_file **out,
                                 sw_error *err)
{
    dir_ref dir;
    const char *last;
    int fd = -1;
    sw_status status = walk(as_posix(store), path, false, false, &dir, &last, err);
    if (status != SW_OK)
        return status;
    status = open_for_reading(store, path, &dir, last, &fd, err);
    leave_dir(&dir);
    return status == SW_OK ? make_file(store, path, fd, false, out, err) : status;
}

/* O_RDWR, since scratch files are read back. */
static sw_status open_for_writing(swi_store *store, const char *path, int more_flags,
                                  swi_file **out, sw_error *err)
{
    dir_ref dir;
    const char *last;
    bool make = (more_flags & O_CREAT) != 0;
    sw_status status = walk(as_posix(store), path, false, make, &dir, &last, err);
    if (status != SW_OK)
        return status;
    int fd = open_at(dir.fd, last, O_RDWR | O_NOFOLLOW | O_NONBLOCK | more_flags);
    if (fd < 0 && errno == ELOOP)
        status = fail_link(err, store, path, "is a symbolic link, which is not written through");
    else if (fd < 0)
        status = fail_path(err, errno, store, path, make ? "cannot make" : "cannot open to write");
    leave_dir(&dir);
    return status == SW_OK ? make_file(store, path, fd, true, out, err) : status;
}

static sw_status posix_create(swi_store *store, const char *path, swi_file **out, sw_error *err)
{
    return open_for_writing(store, path, O_CREAT | O_EXCL, out, err);
}

static sw_status posix_open_write(swi_store *store, const char *path, swi_file **out, sw_error *err)
{
    return open_for_writing(store, path, 0, out, err);
}

static sw_status posix_remove(swi_store *store, const char *path, sw_error *err)
{
    dir_ref dir;
    const char *last;
    sw_status status = walk(as_posix(store), path, false, false, &dir, &last, err);
    if (status != SW_OK)
        return status;
    int rc = unlinkat(dir.fd, last, 0);
    if (rc != 0 && (errno == EISDIR || errno == EPERM))
        rc = unlinkat(dir.fd, last, AT_REMOVEDIR);
    if (rc != 0)
        status = fail_path(err, errno, store, path, "cannot remove");
    leave_dir(&dir);
    return status;
}

static sw_status posix_sync_dir(swi_store *store, const char *dir, sw_error *err)
{
    int fd;
    sw_status status = open_dir(store, dir, &fd, err);
    if (status != SW_OK)
        return status;
    int rc;
    do
        rc = fsync(fd);
    while (rc != 0 && errno == EINTR);
    /* Some network file systems have nothing to sync in a directory and say EINVAL. */
    if (rc != 0 && errno != EINVAL)
        status = fail_path(err, errno, store, dir, "cannot make the directory durable (fsync)");
    (void)close(fd);
    return status;
}

static uint64_t posix_free_bytes(const swi_store *store)
{
    struct statvfs fs;
    uint64_t bytes;
    if (fstatvfs(as_posix(store)->dir_fd, &fs) != 0 ||
        !swi_mul_u64(fs.f_bavail, fs.f_frsize, &bytes))
        return UINT64_MAX;
    return bytes;
}

static const swi_store_ops posix_ops = {
    .close = posix_close,
    .names = posix_names,
    .stat = posix_stat,
    .read_link = posix_read_link,
    .open_read = posix_open_read,
    .create = posix_create,
    .open_write = posix_open_write,
    .remove = posix_remove,
    .sync_dir = posix_sync_dir,
    .free_bytes = posix_free_bytes,
};

sw_status swi_store_from_dir(int dir_fd, const char *root, swi_store **out, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(posix_store), &p, err);
    if (status != SW_OK) {
        (void)close(dir_fd);
        return status;
    }
    posix_store *store = p;
    store->base.ops = &posix_ops;
    store->dir_fd = dir_fd;
    status = swi_store_join(root, "", &store->base.root, err);
    if (status != SW_OK) {
        (void)close(dir_fd);
        free(store);
        return status;
    }
    *out = &store->base;
    return SW_OK;
}

/* The folder of a file: what is before the last part, "." when there is nothing. */
static void cut_last_part(char *path)
{
    char *slash = strrchr(path, '/');
    while (slash != NULL && slash > path && slash[-1] == '/')
        slash--;
    if (slash == NULL)
        memcpy(path, ".", 2);
    else
        slash[slash == path] = '\0';
}

sw_status swi_store_open_posix(const char *root, swi_store **out, sw_error *err)
{
    swi_quoted room;
    if (root == NULL || root[0] == '\0')
        return swi_fail(err, SW_ERR_ARG, "the path of a checkpoint is empty");
    char *folder = strdup(root);
    if (folder == NULL)
        return swi_fail_nomem(err);
    size_t size = strlen(folder);
    while (size > 1 && folder[size - 1] == '/')
        folder[--size] = '\0';
    sw_status status = SW_OK;
    struct stat st;
    if (stat(folder, &st) != 0) {
        status = fail_sys(err, errno, swi_quote_str(&room, root), "cannot open");
        goto done;
    }
    if (S_ISREG(st.st_mode))
        cut_last_part(folder);
    int fd = open_at(AT_FDCWD, folder, O_PATH | O_DIRECTORY);
    if (fd < 0 && errno == ENOTDIR)
        status = swi_fail(err, SW_ERR_FORMAT, "%s: is neither a directory nor a regular file",
                          swi_quote_str(&room, root));
    else if (fd < 0)
        status = fail_sys(err, errno, swi_quote_str(&room, root), "cannot open");
    else
        status = swi_store_from_dir(fd, folder, out, err);
done:
    free(folder);
    return status;
}
