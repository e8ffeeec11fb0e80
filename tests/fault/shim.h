/* What the parts of the fault shim share. See tests/fault/README for the environment variables. */
#ifndef FAULT_SHIM_H
#define FAULT_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Defines the wrapper of a libc function; __real_NAME is the function itself. */
#define FAULT_WRAP(result, name, ...)                                                              \
    result __real_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__)

typedef enum fault_mode {
    FAULT_KEEP,   /* everything written reaches the disk */
    FAULT_DROP,   /* unsynced data is lost and unsynced names are as before */
    FAULT_DATA,   /* unsynced data is lost, names are kept: delayed allocation */
    FAULT_GARBLE, /* unsynced data is garbage, names are kept */
} fault_mode;

/* True when this allocation or I/O call shall fail; errno is then set. */
bool fault_alloc(void);
bool fault_io(void);
/* Bytes that a transfer of `size` may move; 0 with errno EINTR: none. */
size_t fault_short(size_t size);

/* ---- crash simulation (crash.c); every function is a no-op unless it was asked for ------------
 */

void crash_configure(const char *text);
/* Around every call that changes a file or folder: one at a time, so that a crash is one instant.
 * A point is where the process may die: before each sync and each change of a name or size. */
void crash_enter(bool is_point);
void crash_leave(void);
void crash_opened(int fd, int folder, const char *path, bool existed);
void crash_wrote(int fd, off_t offset, size_t size);
void crash_synced(int fd);
void crash_made_folder(int folder, const char *path);
void crash_renamed(int from_folder, const char *from, int to_folder, const char *to, bool exchange);
/* At exit: loses what was not synced, as a power cut right after the last message would. */
void crash_at_exit(void);
unsigned long crash_points(void);
bool crash_exists(int folder, const char *path);

#endif
