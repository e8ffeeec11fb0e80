/*
 * What bench.py holds the native format against, and what it measures from inside a process:
 *
 *   native_bench sha256 THREADS DIR     reads all of DIR's files and takes SHA-256 of it, nothing
 * else native_bench read DIR               reads them one after the other native_bench many N DEST
 * saves N small tensors to a native checkpoint native_bench open DIR               opens a
 * checkpoint: seconds, as JSON native_bench slice rows|columns N DIR   loads the first N-th of
 * every matrix: bytes, as JSON
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "codec/digest.h"
#include "shardwright_convert.h"

#define BLOCK_BYTES ((size_t)1 << 20)
#define FILES_MAX 4096
#define THREADS_MAX 64
#define REGIONS_MAX 4096

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "native_bench: %s\n", what);
    exit(1);
}

static void must(sw_status status, const sw_error *err)
{
    if (status != SW_OK)
        fail(err->text);
}

static void *allocate(size_t bytes)
{
    void *p = malloc(bytes > 0 ? bytes : 1);
    if (p == NULL)
        fail("no memory");
    return p;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- yardsticks ------------------------------------------------------------------------------ */

/* The files of a folder as one row of blocks, which threads take one by one. */
typedef struct work {
    int fd[FILES_MAX];
    size_t first[FILES_MAX + 1]; /* number of the file's first block */
    size_t files;
    bool hash;
    atomic_size_t next;
} work;

static void open_files(work *w, const char *folder)
{
    char path[4096];
    struct dirent *entry;
    struct stat about;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        fail("cannot list the folder");
    while ((entry = readdir(dir)) != NULL && w->files < FILES_MAX) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (stat(path, &about) != 0 || !S_ISREG(about.st_mode))
            continue;
        w->fd[w->files] = open(path, O_RDONLY);
        size_t blocks = ((size_t)about.st_size + BLOCK_BYTES - 1) / BLOCK_BYTES;
        w->first[w->files + 1] = w->first[w->files] + blocks;
        w->files++;
    }
    closedir(dir);
}

static void *walk(void *of)
{
    work *w = of;
    uint8_t *data = allocate(BLOCK_BYTES);
    swi_hasher *hasher;
    swi_digest digest;
    sw_error err = {0};
    must(swi_hasher_make(&hasher, &err), &err);
    for (size_t file = 0, i; (i = atomic_fetch_add(&w->next, 1)) < w->first[w->files];) {
        while (i >= w->first[file + 1])
            file++;
        ssize_t got =
            pread(w->fd[file], data, BLOCK_BYTES, (off_t)((i - w->first[file]) * BLOCK_BYTES));
        if (got < 0)
            fail("cannot read");
        if (!w->hash)
            continue;
        must(swi_hasher_begin(hasher, &err), &err);
        must(swi_hasher_add(hasher, data, (size_t)got, &err), &err);
        must(swi_hasher_end(hasher, &digest, &err), &err);
    }
    swi_hasher_free(hasher);
    free(data);
    return NULL;
}

static void walk_all(const char *folder, size_t threads, bool hash)
{
    static work w;
    pthread_t thread[THREADS_MAX];
    if (threads == 0 || threads > THREADS_MAX)
        fail("1 to 64 threads");
    w.hash = hash;
    open_files(&w, folder);
    for (size_t i = 1; i < threads; i++)
        if (pthread_create(&thread[i], NULL, walk, &w) != 0)
            fail("cannot make a thread");
    walk(&w);
    for (size_t i = 1; i < threads; i++)
        pthread_join(thread[i], NULL);
    for (size_t i = 0; i < w.files; i++)
        close(w.fd[i]);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static void save_many(uint32_t count, const char *dest)
{
    static const float data[6] = {0, 1, 2, 3, 4, 5};
    sw_save *save = NULL;
    sw_error err = {0};
    sw_convert_options how = {.to = "native:codec=stored"};
    char name[80];
    must(sw_save_begin(NULL, &save, &err), &err);
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "model.layers.%07" PRIu32 ".mlp.experts.w.weight", i);
        sw_tensor_data tensor = {
            .name = name, .dtype = SW_F32, .axes = 2, .shape = {2, 3}, .data = data};
        must(sw_save_tensor(save, &tensor, &err), &err);
    }
    must(sw_save_commit(save, dest, &how, NULL, NULL, &err), &err);
    sw_save_free(save);
}

static void open_one(const char *path)
{
    sw_checkpoint *checkpoint = NULL;
    sw_error err = {0};
    double start = now();
    must(sw_checkpoint_open(path, NULL, NULL, &checkpoint, &err), &err);
    double seconds = now() - start;
    printf("{\"seconds\": %.6f, \"tensors\": %zu}\n", seconds,
           sw_catalog_tensor_count(sw_checkpoint_catalog(checkpoint)));
    sw_checkpoint_close(checkpoint);
}

/* What this process has asked the system to read. */
static uint64_t bytes_read(void)
{
    char line[128];
    uint64_t bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "rchar:", 6) == 0)
            bytes = strtoull(line + 6, NULL, 10);
    if (file != NULL)
        fclose(file);
    return bytes;
}

static void load_slice(const char *path, uint32_t axis, int64_t parts)
{
    static sw_region regions[REGIONS_MAX];
    sw_checkpoint *checkpoint = NULL;
    sw_error err = {0};
    size_t count = 0;
    uint64_t asked = 0;
    must(sw_checkpoint_open(path, NULL, NULL, &checkpoint, &err), &err);
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    for (size_t i = 0; i < sw_catalog_tensor_count(catalog) && count < REGIONS_MAX; i++) {
        sw_tensor_info t;
        if (!sw_catalog_tensor(catalog, i, &t) || t.axes != 2 || t.shape[axis] < parts)
            continue;
        sw_region *r = &regions[count++];
        r->struct_bytes = sizeof *r;
        r->tensor = t.name;
        r->axes = t.axes;
        memcpy(r->length, t.shape, sizeof r->length);
        r->length[axis] /= parts;
        r->out_bytes = t.bytes / (uint64_t)t.shape[axis] * (uint64_t)r->length[axis];
        r->out = allocate((size_t)r->out_bytes);
        asked += r->out_bytes;
    }
    uint64_t own = bytes_read(); /* asking reads a little itself */
    uint64_t before = bytes_read();
    own = before - own;
    double start = now();
    must(sw_load(checkpoint, regions, count, NULL, NULL, NULL, &err), &err);
    double seconds = now() - start;
    printf("{\"tensors\": %zu, \"asked\": %" PRIu64 ", \"read\": %" PRIu64 ", \"seconds\": %.6f}\n",
           count, asked, bytes_read() - before - own, seconds);
    for (size_t i = 0; i < count; i++)
        free(regions[i].out);
    sw_checkpoint_close(checkpoint);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *last = argv[argc - 1];
    if (strcmp(what, "sha256") == 0 && argc == 4)
        walk_all(last, strtoul(argv[2], NULL, 10), true);
    else if (strcmp(what, "read") == 0 && argc == 3)
        walk_all(last, 1, false);
    else if (strcmp(what, "many") == 0 && argc == 4)
        save_many((uint32_t)strtoul(argv[2], NULL, 10), last);
    else if (strcmp(what, "open") == 0 && argc == 3)
        open_one(last);
    else if (strcmp(what, "slice") == 0 && argc == 5)
        load_slice(last, strcmp(argv[2], "columns") == 0, strtol(argv[3], NULL, 10));
    else
        fail("sha256 THREADS DIR | read DIR | many N DEST | open DIR | slice rows|columns N DIR");
    return 0;
}
