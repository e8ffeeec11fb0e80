/*
 * Any object as a torch file, converted to each target that takes a whole state dict: refused in
 * words that fit, and then nothing is there; or what was written is whole, has the digests that
 * were computed on the way, and holds the same. DCP folders are then a source in their turn.
 * After a '~' come patches (fuzz/patch.h) of the index of a DCP folder that is whole.
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
#include "fuzz/patch.h"
#include "shardwright_convert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* `keeps`: optimizers stay in their form, so that both sides can be compared name by name. */
static const struct {
    const char *to;
    bool keeps, goes_on;
} targets[] = {
    {.to = "torch", .keeps = true},
    {.to = "torch:form=legacy", .keeps = true},
    {.to = "dcp:ranks=2", .goes_on = true},
    {.to = "torch:optimizer=nested"},
    {.to = "torch:optimizer=ids"},
    {.to = "torch:optimizer=flat"},
    {.to = "dcp:ranks=3,optimizer=flat", .goes_on = true},
};
#define BY_NAME 3
#define TARGETS (sizeof targets / sizeof targets[0])

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

static void make_folder(void)
{
    struct stat st;
    bool memory = stat("/dev/shm", &st) == 0 && access("/dev/shm", W_OK) == 0;
    (void)snprintf(folder, sizeof folder, "%s/fuzz_convert.XXXXXX", memory ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder) == NULL)
        abort();
    (void)atexit(remove_folder);
}

/* What a finding is, for whoever looks at it. */
static void must(bool holds, const char *target, const char *what)
{
    if (!holds) {
        fprintf(stderr, "--to %s: %s\n", target, what);
        __builtin_trap();
    }
}

typedef struct path {
    char text[80];
} path;

static path in_folder(const char *name)
{
    path p;
    (void)snprintf(p.text, sizeof p.text, "%s/%s", folder, name);
    return p;
}

/* All but the DCP folder, which is kept for the next time. */
static void clean_folder(void)
{
    static const char *const names[] = {"source.pt", "dest", "list", "next", "next-list"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)nftw(in_folder(names[i]).text, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void write_file(const path *to, const swi_buf *data)
{
    FILE *f = fopen(to->text, "wb");
    if (f == NULL || fwrite(data->data, 1, data->size, f) != data->size || fclose(f) != 0)
        abort();
}

/* What an error of a conversion may say: something of the source, not of the call or the disk. */
static bool is_refusal(sw_status status)
{
    return status == SW_ERR_FORMAT || status == SW_ERR_UNSUPPORTED || status == SW_ERR_CORRUPT ||
           status == SW_ERR_INCOMPLETE || status == SW_ERR_CONFLICT || status == SW_ERR_UNSAFE ||
           status == SW_ERR_LIMIT || status == SW_ERR_NOMEM;
}

/* What one side has alone. */
#define ALONE_MAX 256
typedef struct alone {
    const char *target;
    swi_buf a[ALONE_MAX], b[ALONE_MAX];
    size_t count_a, count_b;
} alone;

static void on_difference(void *ctx, const sw_difference *d)
{
    alone *all = ctx;
    bool in_a = d->kind == SW_DIFF_ONLY_A;
    const char *name = d->name_a != NULL ? d->name_a : d->name_b;
    size_t *count = in_a ? &all->count_a : &all->count_b;
    must((in_a && d->is_value) || d->kind == SW_DIFF_ONLY_B, all->target, name);
    if (*count < ALONE_MAX &&
        swi_buf_append_str(in_a ? &all->a[*count] : &all->b[*count], name, NULL) == SW_OK)
        ++*count;
}

static bool lies_in(const swi_buf *name, const swi_buf *value)
{
    return name->size > value->size && memcmp(name->data, value->data, value->size) == 0 &&
           name->data[value->size] == '.';
}

/* Nothing, but for values of DCP with tensors in them: what they hold has names in a torch file. */
static void check_alone(alone *all)
{
    for (size_t i = 0; i < all->count_b; i++) {
        bool inside = false;
        for (size_t k = 0; k < all->count_a && !inside; k++)
            inside = lies_in(&all->b[i], &all->a[k]);
        must(inside, all->target, "only in what was written");
    }
    for (size_t k = 0; k < all->count_a; k++) {
        bool holds = false;
        for (size_t i = 0; i < all->count_b && !holds; i++)
            holds = lies_in(&all->b[i], &all->a[k]);
        must(holds, all->target, "only in what was read");
        swi_buf_free(&all->a[k]);
    }
    for (size_t i = 0; i < all->count_b; i++)
        swi_buf_free(&all->b[i]);
}

static void check_written(const path *from, const path *to, const path *list, size_t target)
{
    const char *name = targets[target].to;
    sw_report *report;
    sw_verify_summary verified;
    sw_diff_summary diff;
    sw_error err = {0};
    if (sw_report_make(&report, &err) != SW_OK)
        return;
    const sw_verify_options verify = {.work = small, .digests = list->text};
    const sw_diff_options compare = {.state = true, .work = small};
    must(sw_verify(to->text, &verify, report, &verified, &err) == SW_OK, name, err.text);
    for (size_t i = 0; i < sw_report_count(report); i++) {
        const sw_finding *f = sw_report_at(report, i);
        must(f->severity < SW_DEFECT, name, f->message);
    }
    must(verified.matched_tensors == verified.listed_tensors &&
             verified.listed_tensors == verified.tensors,
         name, "tensors without a digest");
    /* A CONFLICT: several parts could be the model, and diff asks which. */
    alone *all = calloc(1, sizeof *all);
    if (targets[target].keeps && all != NULL) {
        all->target = name;
        must(sw_diff(from->text, to->text, &compare, on_difference, all, report, &diff, &err) ==
                     SW_OK ||
                 err.status == SW_ERR_CONFLICT,
             name, err.text);
        check_alone(all);
    }
    free(all);
    sw_report_free(report);
}

/* false: refused. */
static bool convert(const path *from, const path *to, const path *list, size_t target)
{
    sw_report *report;
    sw_convert_summary summary;
    sw_error err = {0};
    const sw_convert_options options = {
        .to = targets[target].to,
        .verify = true,
        .digests = list->text,
        .open.limits = &(sw_limits){.nodes = 1 << 16},
        .work = small,
    };
    if (sw_report_make(&report, &err) != SW_OK)
        return false;
    sw_status status =
        sw_convert(from->text, to->text, &options, NULL, NULL, report, &summary, &err);
    sw_report_free(report);
    must(status == SW_OK || is_refusal(status), options.to, err.text);
    if (status == SW_OK)
        check_written(from, to, list, target);
    else
        must(access(to->text, F_OK) != 0 && errno == ENOENT && access(list->text, F_OK) != 0,
             options.to, "refused, and written");
    return status == SW_OK;
}

static void convert_to(const swi_buf *archive, size_t target)
{
    const path source = in_folder("source.pt"), dest = in_folder("dest"), list = in_folder("list");
    const path next = in_folder("next"), next_list = in_folder("next-list");
    write_file(&source, archive);
    if (convert(&source, &dest, &list, target) && targets[target].goes_on)
        must(convert(&dest, &next, &next_list, 0), targets[0].to, "not back from DCP");
    clean_folder();
}

static void read_index(const path *from, swi_buf *out)
{
    sw_error err = {0};
    uint8_t part[4096];
    size_t n;
    FILE *f = fopen(from->text, "rb");
    if (f == NULL)
        abort();
    while ((n = fread(part, 1, sizeof part, f)) > 0)
        if (swi_buf_append(out, part, n, &err) != SW_OK)
            abort();
    (void)fclose(f);
}

static void convert_patched(const uint8_t *data, size_t size)
{
    static swi_buf index;
    const path source = in_folder("dcp"), at = in_folder("dcp/.metadata");
    const path dest = in_folder("dest"), list = in_folder("list");
    sw_error err = {0};
    swi_buf patched = {0};
    if (index.size == 0) {
        must(sw_demo(source.text, &err) == SW_OK, "dcp", err.text);
        read_index(&at, &index);
    }
    if (swi_buf_append(&patched, index.data, index.size, &err) == SW_OK) {
        patch(&patched, data, size);
        write_file(&at, &patched);
        /* Names in the destination are those of paths, which keys need not be. */
        (void)convert(&source, &dest, &list, BY_NAME);
    }
    swi_buf_free(&patched);
    clean_folder();
}

/* The first byte chooses the target; of a text in hexadecimal each is tried. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count;
    swi_buf archive = {0};
    if (folder[0] == '\0')
        make_folder();
    if (size > 0 && data[0] == '~') {
        convert_patched(data + 1, size - 1);
        return 0;
    }
    uint8_t *bytes = bytes_of_hex(data, size, &count);
    if (bytes != NULL && archive_around(&archive, bytes, count, 2) == SW_OK) {
        for (size_t i = 0; i < TARGETS; i++)
            convert_to(&archive, i);
    } else if (size > 1 && archive_around(&archive, data + 1, size - 1, 2) == SW_OK) {
        convert_to(&archive, data[0] % TARGETS);
    }
    swi_buf_free(&archive);
    free(bytes);
    return 0;
}
