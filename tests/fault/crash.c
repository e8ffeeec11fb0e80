/* A power cut, simulated: what was written but not synced is kept, lost or turned into garbage at a
 * chosen instant, and names that no folder sync made durable are taken back.
 *
 * Every change goes through crash_enter/crash_leave, one at a time. Files are followed by device
 * and inode; the bytes written since the last sync of a file are a list of ranges. Fixed tables:
 * the fault tests use small checkpoints. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILES = 4096, MAX_RANGES = 1 << 17, MAX_NAMES = 4096 };

typedef struct followed_file {
    dev_t device;
    ino_t inode;
    int fd; /* our own, so that it can be changed after the command closed its one */
    bool was_synced;
    off_t synced_size;
} followed_file;

typedef struct dirty_range {
    size_t file; /* MAX_FILES: none, it was synced */
    off_t offset;
    size_t size;
} dirty_range;

typedef enum name_kind { NAME_FILE, NAME_FOLDER, NAME_RENAMED, NAME_EXCHANGED } name_kind;

typedef struct new_name {
    name_kind kind;
    bool durable;
    char *from; /* what a rename moved away, else NULL */
    char *to;
} new_name;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool enabled;
static bool at_exit;
static unsigned long crash_at;
static unsigned long points;
static fault_mode mode;
static followed_file files[MAX_FILES];
static size_t file_count;
static dirty_range ranges[MAX_RANGES];
static size_t range_count;
static new_name names[MAX_NAMES];
static size_t name_count;

int __real_open(const char *path, int flags, ...);
ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t offset);
int __real_ftruncate(int fd, off_t size);
int __real_fstat(int fd, struct stat *out);
int __real_fstatat(int folder, const char *path, struct stat *out, int flags);
int __real_renameat2(int from_folder, const char *from, int to_folder, const char *to,
                     unsigned flags);
int __real_unlinkat(int folder, const char *path, int flags);
ssize_t __real_readlinkat(int folder, const char *path, char *out, size_t size);
char *__real_strdup(const char *text);

static void give_up(const char *why)
{
    fprintf(stderr, "crash simulation: %s\n", why);
    _exit(99);
}

/* "k,keep" or "end,drop"; k counts from 1. */
void crash_configure(const char *text)
{
    static const char *const modes[] = {",keep", ",drop", ",data", ",garble"};
    enabled = true;
    at_exit = strncmp(text, "end", 3) == 0;
    crash_at = strtoul(text, NULL, 10);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strstr(text, modes[i]) != NULL) {
            mode = (fault_mode)i;
        }
    }
}

unsigned long crash_points(void)
{
    return points;
}

/* ---- what happens at the cut
 * ---------------------------------------------------------------------- */

static void fill_range(const dirty_range *range, unsigned char byte)
{
    unsigned char block[4096];
    memset(block, byte, sizeof block);
    for (size_t done = 0; done < range->size;) {
        size_t part = range->size - done < sizeof block ? range->size - done : sizeof block;
        if (__real_pwrite(files[range->file].fd, block, part, range->offset + (off_t)done) < 0) {
            return;
        }
        done += part;
    }
}

static void lose_data(void)
{
    for (size_t i = 0; i < range_count; i++) {
        if (ranges[i].file < MAX_FILES) {
            fill_range(&ranges[i], mode == FAULT_GARBLE ? 0xa5 : 0);
        }
    }
    for (size_t i = 0; i < file_count && mode != FAULT_GARBLE; i++) {
        struct stat st;
        if (__real_fstat(files[i].fd, &st) == 0 && st.st_size > files[i].synced_size) {
            (void)__real_ftruncate(files[i].fd, files[i].synced_size);
        }
    }
}

/* Names below a renamed folder move with it: the list follows, so that it can be walked back. */
static void follow_rename(const char *from, const char *to)
{
    size_t length = strlen(from);
    for (size_t i = 0; i < name_count; i++) {
        if (strncmp(names[i].to, from, length) == 0 && names[i].to[length] == '/') {
            char moved[2 * PATH_MAX];
            (void)snprintf(moved, sizeof moved, "%s%s", to, names[i].to + length);
            free(names[i].to);
            names[i].to = __real_strdup(moved);
        }
    }
}

static void lose_names(void)
{
    for (size_t i = name_count; i-- > 0;) {
        const new_name *name = &names[i];
        if (name->durable) {
            continue;
        }
        switch (name->kind) {
        case NAME_FILE:
            (void)__real_unlinkat(AT_FDCWD, name->to, 0);
            break;
        case NAME_FOLDER:
            (void)__real_unlinkat(AT_FDCWD, name->to, AT_REMOVEDIR);
            break;
        case NAME_RENAMED:
            (void)__real_renameat2(AT_FDCWD, name->to, AT_FDCWD, name->from, RENAME_NOREPLACE);
            follow_rename(name->to, name->from);
            break;
        case NAME_EXCHANGED:
            (void)__real_renameat2(AT_FDCWD, name->to, AT_FDCWD, name->from, RENAME_EXCHANGE);
            follow_rename(name->to, name->from);
            break;
        }
    }
}

static void lose(void)
{
    if (mode != FAULT_KEEP) {
        lose_data();
    }
    if (mode == FAULT_DROP) {
        lose_names();
    }
}

void crash_enter(bool is_point)
{
    if (!enabled) {
        if (is_point) {
            __atomic_add_fetch(&points, 1, __ATOMIC_RELAXED);
        }
        return;
    }
    (void)pthread_mutex_lock(&lock);
    if (is_point && ++points == crash_at) {
        lose();
        _exit(137);
    }
}

void crash_leave(void)
{
    if (enabled) {
        int saved = errno;
        (void)pthread_mutex_unlock(&lock);
        errno = saved;
    }
}

void crash_at_exit(void)
{
    if (enabled && at_exit) {
        lose();
    }
}

/* ---- what was changed
 * ------------------------------------------------------------------------------ */

bool crash_exists(int folder, const char *path)
{
    struct stat st;
    return enabled && __real_fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The absolute path of a name in a folder; it stays valid until the folder itself is renamed. */
static char *absolute(int folder, const char *path)
{
    char full[2 * PATH_MAX];
    if (path[0] == '/') {
        (void)snprintf(full, sizeof full, "%s", path);
    } else {
        char link[64];
        char base[PATH_MAX];
        (void)snprintf(link, sizeof link,
                       folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
        ssize_t length = __real_readlinkat(AT_FDCWD, link, base, sizeof base - 1);
        if (length < 0) {
            give_up("a folder has no name");
        }
        base[length] = '\0';
        (void)snprintf(full, sizeof full, "%s/%s", base, path);
    }
    char *copy = __real_strdup(full);
    if (copy == NULL) {
        give_up("no memory");
    }
    return copy;
}

static void add_name(name_kind kind, char *from, char *to)
{
    if (name_count == MAX_NAMES) {
        give_up("too many names");
    }
    names[name_count++] = (new_name){.kind = kind, .from = from, .to = to};
}

static size_t find_file(int fd, bool add)
{
    struct stat st;
    if (__real_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return MAX_FILES;
    }
    for (size_t i = 0; i < file_count; i++) {
        if (files[i].device == st.st_dev && files[i].inode == st.st_ino) {
            return i;
        }
    }
    if (!add) {
        return MAX_FILES;
    }
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int own = __real_open(link, O_RDWR | O_CLOEXEC);
    if (own < 0 || file_count == MAX_FILES) {
        give_up("a file cannot be followed");
    }
    files[file_count] = (followed_file){.device = st.st_dev, .inode = st.st_ino, .fd = own};
    files[file_count].synced_size = st.st_size;
    return file_count++;
}

void crash_opened(int fd, int folder, const char *path, bool existed)
{
    if (!enabled) {
        return;
    }
    (void)find_file(fd, true);
    if (!existed) {
        add_name(NAME_FILE, NULL, absolute(folder, path));
    }
}

void crash_wrote(int fd, off_t offset, size_t size)
{
    size_t file = enabled ? find_file(fd, false) : MAX_FILES;
    if (file == MAX_FILES) {
        return;
    }
    if (range_count == MAX_RANGES) {
        give_up("too many writes");
    }
    ranges[range_count++] = (dirty_range){.file = file, .offset = offset, .size = size};
}

/* A folder: the names directly in it are durable. */
static void synced_folder(int fd)
{
    char *prefix = absolute(fd, "");
    size_t length = strlen(prefix);
    for (size_t i = 0; i < name_count; i++) {
        const char *to = names[i].to;
        if (strncmp(to, prefix, length) == 0 && strchr(to + length, '/') == NULL) {
            names[i].durable = true;
        }
    }
    free(prefix);
}

void crash_synced(int fd)
{
    struct stat st;
    if (!enabled || __real_fstat(fd, &st) != 0) {
        return;
    }
    if (S_ISDIR(st.st_mode)) {
        synced_folder(fd);
        return;
    }
    size_t file = find_file(fd, false);
    if (file == MAX_FILES) {
        return;
    }
    files[file].was_synced = true;
    files[file].synced_size = st.st_size;
    for (size_t i = 0; i < range_count; i++) {
        if (ranges[i].file == file) {
            ranges[i].file = MAX_FILES;
        }
    }
}

void crash_made_folder(int folder, const char *path)
{
    if (enabled) {
        add_name(NAME_FOLDER, NULL, absolute(folder, path));
    }
}

void crash_renamed(int from_folder, const char *from, int to_folder, const char *to, bool exchange)
{
    if (!enabled) {
        return;
    }
    char *old_path = absolute(from_folder, from);
    char *new_path = absolute(to_folder, to);
    follow_rename(old_path, new_path);
    add_name(exchange ? NAME_EXCHANGED : NAME_RENAMED, old_path, new_path);
}
