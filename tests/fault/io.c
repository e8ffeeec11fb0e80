/* The wrappers of the I/O calls. Each counts, may fail, may move less than asked, and tells crash.c
 * what it changed. Names come twice: with 64-bit file offsets libc's headers call name64. */
#include "shim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- opening ------------------------------------------------------------------------------------
 */

int __real_openat(int folder, const char *path, int flags, ...);

static int open_any(int folder, const char *path, int flags, mode_t mode)
{
    if (fault_io()) {
        return -1;
    }
    if ((flags & O_ACCMODE) == O_RDONLY) {
        return __real_openat(folder, path, flags, mode);
    }
    crash_enter(false);
    bool existed = crash_exists(folder, path);
    int fd = __real_openat(folder, path, flags, mode);
    if (fd >= 0) {
        crash_opened(fd, folder, path, existed);
    }
    crash_leave();
    return fd;
}

static mode_t mode_of(int flags, va_list arguments)
{
    bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    return has_mode ? (mode_t)va_arg(arguments, unsigned) : 0;
}

#define WRAP_OPENAT(name)                                                                          \
    int __wrap_##name(int folder, const char *path, int flags, ...);                               \
    int __wrap_##name(int folder, const char *path, int flags, ...)                                \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        mode_t mode = mode_of(flags, arguments);                                                   \
        va_end(arguments);                                                                         \
        return open_any(folder, path, flags, mode);                                                \
    }
#define WRAP_OPEN(name)                                                                            \
    int __wrap_##name(const char *path, int flags, ...);                                           \
    int __wrap_##name(const char *path, int flags, ...)                                            \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        mode_t mode = mode_of(flags, arguments);                                                   \
        va_end(arguments);                                                                         \
        return open_any(AT_FDCWD, path, flags, mode);                                              \
    }
WRAP_OPENAT(openat)
WRAP_OPENAT(openat64)
WRAP_OPEN(open)
WRAP_OPEN(open64)

/* stdio: only the opening can be made to fail; what it writes goes past crash.c. */
FAULT_WRAP(FILE *, fopen, const char *path, const char *mode)
{
    return fault_io() ? NULL : __real_fopen(path, mode);
}

FAULT_WRAP(FILE *, fopen64, const char *path, const char *mode)
{
    return fault_io() ? NULL : __real_fopen64(path, mode);
}

/* ---- reading and writing ------------------------------------------------------------------------
 */

ssize_t __real_pread(int fd, void *data, size_t size, off_t offset);
ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t offset);

static ssize_t read_any(int fd, void *data, size_t size, off_t offset)
{
    if (fault_io()) {
        return -1;
    }
    size_t part = fault_short(size);
    return part == 0 && size > 0 ? -1 : __real_pread(fd, data, part, offset);
}

static ssize_t write_any(int fd, const void *data, size_t size, off_t offset)
{
    if (fault_io()) {
        return -1;
    }
    size_t part = fault_short(size);
    if (part == 0 && size > 0) {
        return -1;
    }
    crash_enter(false);
    crash_wrote(fd, offset, part);
    ssize_t done = __real_pwrite(fd, data, part, offset);
    crash_leave();
    return done;
}

FAULT_WRAP(ssize_t, read, int fd, void *data, size_t size)
{
    if (fault_io()) {
        return -1;
    }
    size_t part = fault_short(size);
    return part == 0 && size > 0 ? -1 : __real_read(fd, data, part);
}

FAULT_WRAP(ssize_t, write, int fd, const void *data, size_t size)
{
    off_t offset = lseek(fd, 0, SEEK_CUR);
    if (fd <= STDERR_FILENO || offset < 0) {
        return __real_write(fd, data, size);
    }
    if ((fcntl(fd, F_GETFL) & O_APPEND) != 0) {
        offset = lseek(fd, 0, SEEK_END);
    }
    ssize_t done = write_any(fd, data, size, offset);
    if (done > 0) {
        (void)lseek(fd, offset + done, SEEK_SET);
    }
    return done;
}

/* Vectors: the first slice alone is a valid short transfer, and the caller's loop must go on. */
#define WRAP_TRANSFERS(suffix)                                                                     \
    ssize_t __wrap_pread##suffix(int fd, void *data, size_t size, off_t offset);                   \
    ssize_t __wrap_pread##suffix(int fd, void *data, size_t size, off_t offset)                    \
    {                                                                                              \
        return read_any(fd, data, size, offset);                                                   \
    }                                                                                              \
    ssize_t __wrap_pwrite##suffix(int fd, const void *data, size_t size, off_t offset);            \
    ssize_t __wrap_pwrite##suffix(int fd, const void *data, size_t size, off_t offset)             \
    {                                                                                              \
        return write_any(fd, data, size, offset);                                                  \
    }                                                                                              \
    ssize_t __wrap_preadv##suffix(int fd, const struct iovec *slices, int count, off_t offset);    \
    ssize_t __wrap_preadv##suffix(int fd, const struct iovec *slices, int count, off_t offset)     \
    {                                                                                              \
        int first = 0;                                                                             \
        while (first + 1 < count && slices[first].iov_len == 0) {                                  \
            first++;                                                                               \
        }                                                                                          \
        return read_any(fd, slices[first].iov_base, slices[first].iov_len, offset);                \
    }                                                                                              \
    ssize_t __wrap_pwritev##suffix(int fd, const struct iovec *slices, int count, off_t offset);   \
    ssize_t __wrap_pwritev##suffix(int fd, const struct iovec *slices, int count, off_t offset)    \
    {                                                                                              \
        int first = 0;                                                                             \
        while (first + 1 < count && slices[first].iov_len == 0) {                                  \
            first++;                                                                               \
        }                                                                                          \
        return write_any(fd, slices[first].iov_base, slices[first].iov_len, offset);               \
    }
WRAP_TRANSFERS()
WRAP_TRANSFERS(64)

/* ---- syncing, sizes
 * ------------------------------------------------------------------------------ */

int __real_fsync(int fd);

static int sync_any(int fd)
{
    if (fault_io()) {
        return -1;
    }
    crash_enter(true);
    int result = __real_fsync(fd);
    if (result == 0) {
        crash_synced(fd);
    }
    crash_leave();
    return result;
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    return sync_any(fd);
}

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    return sync_any(fd);
}

/* A call that changes something: fails when told to, else happens in one instant. */
#define CHANGE(call)                                                                               \
    if (fault_io()) {                                                                              \
        return -1;                                                                                 \
    }                                                                                              \
    crash_enter(true);                                                                             \
    int result = (call);                                                                           \
    crash_leave();                                                                                 \
    return result

FAULT_WRAP(int, ftruncate, int fd, off_t size)
{
    CHANGE(__real_ftruncate(fd, size));
}

FAULT_WRAP(int, ftruncate64, int fd, off_t size)
{
    CHANGE(__real_ftruncate64(fd, size));
}

FAULT_WRAP(int, fallocate, int fd, int mode, off_t offset, off_t size)
{
    CHANGE(__real_fallocate(fd, mode, offset, size));
}

FAULT_WRAP(int, fallocate64, int fd, int mode, off_t offset, off_t size)
{
    CHANGE(__real_fallocate64(fd, mode, offset, size));
}

/* These return the error and leave errno alone. */
FAULT_WRAP(int, posix_fallocate, int fd, off_t offset, off_t size)
{
    return fault_io() ? errno : __real_posix_fallocate(fd, offset, size);
}

FAULT_WRAP(int, posix_fallocate64, int fd, off_t offset, off_t size)
{
    return fault_io() ? errno : __real_posix_fallocate64(fd, offset, size);
}

/* ---- names
 * --------------------------------------------------------------------------------------- */

int __real_renameat2(int from_folder, const char *from, int to_folder, const char *to,
                     unsigned flags);

static int rename_any(int from_folder, const char *from, int to_folder, const char *to,
                      unsigned flags)
{
    if (fault_io()) {
        return -1;
    }
    crash_enter(true);
    int result = __real_renameat2(from_folder, from, to_folder, to, flags);
    if (result == 0) {
        crash_renamed(from_folder, from, to_folder, to, (flags & RENAME_EXCHANGE) != 0);
    }
    crash_leave();
    return result;
}

int __wrap_renameat2(int from_folder, const char *from, int to_folder, const char *to,
                     unsigned flags);
int __wrap_renameat2(int from_folder, const char *from, int to_folder, const char *to,
                     unsigned flags)
{
    return rename_any(from_folder, from, to_folder, to, flags);
}

int __wrap_renameat(int from_folder, const char *from, int to_folder, const char *to);
int __wrap_renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    return rename_any(from_folder, from, to_folder, to, 0);
}

int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    return rename_any(AT_FDCWD, from, AT_FDCWD, to, 0);
}

FAULT_WRAP(int, mkdirat, int folder, const char *path, mode_t mode)
{
    if (fault_io()) {
        return -1;
    }
    crash_enter(true);
    int result = __real_mkdirat(folder, path, mode);
    if (result == 0) {
        crash_made_folder(folder, path);
    }
    crash_leave();
    return result;
}

int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode)
{
    return __wrap_mkdirat(AT_FDCWD, path, mode);
}

FAULT_WRAP(int, unlinkat, int folder, const char *path, int flags)
{
    CHANGE(__real_unlinkat(folder, path, flags));
}

FAULT_WRAP(int, unlink, const char *path)
{
    CHANGE(__real_unlink(path));
}

FAULT_WRAP(int, rmdir, const char *path)
{
    CHANGE(__real_rmdir(path));
}

FAULT_WRAP(int, linkat, int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    CHANGE(__real_linkat(from_folder, from, to_folder, to, flags));
}

/* ---- asking
 * --------------------------------------------------------------------------------------- */

#define WRAP_STATS(suffix)                                                                         \
    int __real_fstat##suffix(int fd, struct stat *out);                                            \
    int __wrap_fstat##suffix(int fd, struct stat *out);                                            \
    int __wrap_fstat##suffix(int fd, struct stat *out)                                             \
    {                                                                                              \
        return fault_io() ? -1 : __real_fstat##suffix(fd, out);                                    \
    }                                                                                              \
    int __real_stat##suffix(const char *path, struct stat *out);                                   \
    int __wrap_stat##suffix(const char *path, struct stat *out);                                   \
    int __wrap_stat##suffix(const char *path, struct stat *out)                                    \
    {                                                                                              \
        return fault_io() ? -1 : __real_stat##suffix(path, out);                                   \
    }                                                                                              \
    int __real_lstat##suffix(const char *path, struct stat *out);                                  \
    int __wrap_lstat##suffix(const char *path, struct stat *out);                                  \
    int __wrap_lstat##suffix(const char *path, struct stat *out)                                   \
    {                                                                                              \
        return fault_io() ? -1 : __real_lstat##suffix(path, out);                                  \
    }                                                                                              \
    int __real_fstatat##suffix(int folder, const char *path, struct stat *out, int flags);         \
    int __wrap_fstatat##suffix(int folder, const char *path, struct stat *out, int flags);         \
    int __wrap_fstatat##suffix(int folder, const char *path, struct stat *out, int flags)          \
    {                                                                                              \
        return fault_io() ? -1 : __real_fstatat##suffix(folder, path, out, flags);                 \
    }                                                                                              \
    struct dirent *__real_readdir##suffix(DIR *dir);                                               \
    struct dirent *__wrap_readdir##suffix(DIR *dir);                                               \
    struct dirent *__wrap_readdir##suffix(DIR *dir)                                                \
    {                                                                                              \
        return fault_io() ? NULL : __real_readdir##suffix(dir);                                    \
    }                                                                                              \
    int __real_fstatvfs##suffix(int fd, struct statvfs *out);                                      \
    int __wrap_fstatvfs##suffix(int fd, struct statvfs *out);                                      \
    int __wrap_fstatvfs##suffix(int fd, struct statvfs *out)                                       \
    {                                                                                              \
        return fault_io() ? -1 : __real_fstatvfs##suffix(fd, out);                                 \
    }
WRAP_STATS()
WRAP_STATS(64)

FAULT_WRAP(int, faccessat, int folder, const char *path, int mode, int flags)
{
    return fault_io() ? -1 : __real_faccessat(folder, path, mode, flags);
}

FAULT_WRAP(DIR *, opendir, const char *path)
{
    return fault_io() ? NULL : __real_opendir(path);
}

FAULT_WRAP(DIR *, fdopendir, int fd)
{
    return fault_io() ? NULL : __real_fdopendir(fd);
}

FAULT_WRAP(int, flock, int fd, int operation)
{
    return fault_io() ? -1 : __real_flock(fd, operation);
}

FAULT_WRAP(ssize_t, readlinkat, int folder, const char *path, char *out, size_t size)
{
    return fault_io() ? -1 : __real_readlinkat(folder, path, out, size);
}

FAULT_WRAP(ssize_t, getrandom, void *out, size_t size, unsigned flags)
{
    return fault_io() ? -1 : __real_getrandom(out, size, flags);
}

FAULT_WRAP(char *, realpath, const char *path, char *out)
{
    return fault_io() ? NULL : __real_realpath(path, out);
}
