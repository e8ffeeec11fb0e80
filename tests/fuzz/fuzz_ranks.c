/*
 * Any objects as files of two ranks, of a model and of an optimizer: verified, then converted to
 * each kind of target, or refused in words that fit. What was written is whole and has the same
 * tensors.
 *
 * Input: up to four parts with "~~" between them, each a number of storages, their sizes in bytes
 * and a pickle.
 */
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/report.h"
#include "fuzz/archive.h"
#include "fuzz/hex.h"
#include "shardwright_convert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"model_rank_0.pt", "model_rank_1.pt", "optim_rank_0.pt",
                                    "optim_rank_1.pt"};
#define FILES (sizeof names / sizeof names[0])
static const char *const targets[] = {"hf", "torch", "dcp:ranks=2", "fsdp2:dp=2,files=ranks",
                                      "fsdp1:dp=2,mode=local,files=ranks"};

/* Of the model that the seeds are of. */
static const char shapes[] = "shapes: 1\n"
                             "parameters:\n"
                             "- 0.weight: [2, 4]\n"
                             "- 1.weight: [2, 2]\n"
                             "units: []\n";

static const sw_work_options small = {.threads = 1, .memory_bytes = 1 << 20};

static char folder[64];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void remove_folder(void)
{
    (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void write_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
}

static void make_folder(void)
{
    const bool memory = access("/dev/shm", W_OK) == 0;
    if (folder[0] == '\0') {
        (void)snprintf(folder, sizeof folder, "%s/fuzz_ranks.XXXXXX", memory ? "/dev/shm" : "/tmp");
        if (mkdtemp(folder) == NULL)
            abort();
        (void)atexit(remove_folder);
    }
    remove_folder();
    char in[128];
    (void)snprintf(in, sizeof in, "%s/in", folder);
    if (mkdir(folder, 0700) != 0 || mkdir(in, 0700) != 0)
        abort();
    (void)snprintf(in, sizeof in, "%s/shapes.yaml", folder);
    write_file(in, shapes, strlen(shapes));
}

static void must(bool holds, const char *target, const char *what)
{
    if (!holds) {
        fprintf(stderr, "--to %s: %s\n", target, what);
        __builtin_trap();
    }
}

/* Storages of these sizes; in odd ones the numbers of ranks, which a mesh may have. */
#define STORAGES 16
static sw_status archive(swi_buf *out, const uint8_t *sizes, size_t count, const uint8_t *pickle,
                         size_t size)
{
    union {
        int32_t ranks[64];
        float numbers[64];
    } data[STORAGES];
    archive_storage list[STORAGES];
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < 64; k++) {
            if (i % 2 == 1)
                data[i].ranks[k] = k;
            else
                data[i].numbers[k] = (float)(100 * i) + (float)k;
        }
        list[i] = (archive_storage){&data[i], sizes[i]};
    }
    return archive_of(out, pickle, size, list, count);
}

static void write_part(const char *name, const uint8_t *data, size_t size)
{
    swi_buf out = {0};
    char path[128];
    const size_t count = size > 0 ? data[0] % STORAGES : 0;
    if (size <= 1 + count)
        return;
    (void)snprintf(path, sizeof path, "%s/in/%s", folder, name);
    if (archive(&out, data + 1, count, data + 1 + count, size - 1 - count) == SW_OK)
        write_file(path, out.data, out.size);
    swi_buf_free(&out);
}

static void write_parts(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < FILES; i++) {
        const uint8_t *end = memmem(data, size, "~~", 2);
        const size_t n = end != NULL ? (size_t)(end - data) : size;
        write_part(names[i], data, n);
        if (end == NULL)
            return;
        data += n + 2;
        size -= n + 2;
    }
}

/* What an error may say: something of the files, or that there is nothing to do. */
static bool is_refusal(sw_status status)
{
    return status == SW_ERR_FORMAT || status == SW_ERR_UNSUPPORTED || status == SW_ERR_CORRUPT ||
           status == SW_ERR_INCOMPLETE || status == SW_ERR_CONFLICT || status == SW_ERR_UNSAFE ||
           status == SW_ERR_LIMIT || status == SW_ERR_NOMEM || status == SW_ERR_ARG;
}

static void convert(const char *in, const char *target)
{
    char dest[128], known[128];
    sw_report *report;
    sw_convert_summary summary;
    sw_error err = {0};
    const sw_convert_options options = {
        .to = target, .verify = true, .work = small, .open.shapes = known};
    (void)snprintf(known, sizeof known, "%s/shapes.yaml", folder);
    (void)snprintf(dest, sizeof dest, "%s/out", folder);
    (void)nftw(dest, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (sw_report_make(&report, &err) != SW_OK)
        return;
    const sw_status st = sw_convert(in, dest, &options, NULL, NULL, report, &summary, &err);
    must(st == SW_OK || is_refusal(st), target, err.text);
    must(st == SW_OK || (access(dest, F_OK) != 0 && errno == ENOENT), target,
         "refused, and written");
    sw_report_free(report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count = 0;
    uint8_t *bytes = bytes_of_hex(data, size, &count);
    char in[128];
    sw_report *report;
    sw_verify_summary verified;
    sw_error err = {0};
    make_folder();
    write_parts(bytes != NULL ? bytes : data, bytes != NULL ? count : size);
    free(bytes);
    (void)snprintf(in, sizeof in, "%s/in", folder);
    if (sw_report_make(&report, &err) != SW_OK)
        return 0;
    const sw_verify_options options = {.level = SW_LEVEL_VALUES, .work = small};
    const sw_status st = sw_verify(in, &options, report, &verified, &err);
    must(st == SW_OK || is_refusal(st), "verify", err.text);
    sw_report_free(report);
    for (size_t i = 0; st == SW_OK && i < sizeof targets / sizeof targets[0]; i++)
        convert(in, targets[i]);
    return 0;
}
