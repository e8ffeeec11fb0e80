#include "run/times_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"

#define SECOND INT64_C(1000000000)
#define GAP_MIN (600 * SECOND)
#define GAP_OVER_SPREAD 20
/* A slow copy: 10 MB/s. */
#define COPY_NS_PER_BYTE 100

typedef struct timed {
    const char *path;
    int64_t at_ns;
    uint64_t bytes;
    bool is_index;
} timed;

static int by_time(const void *left, const void *right)
{
    const timed *a = left, *b = right;
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns ? -1 : 1;
    return strcmp(a->path, b->path);
}

static bool has_optimizer(const sw_catalog *catalog)
{
    sw_tensor_info info;
    for (size_t i = 0; sw_catalog_tensor(catalog, i, &info); i++)
        if (info.role == SW_ROLE_OPTIMIZER)
            return true;
    return false;
}

/* Files of the catalog, and the indexes beside them, whose times are known. */
static size_t list_times(const sw_checkpoint *checkpoint, timed *out)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    const swi_listing *listing = swi_checkpoint_listing(checkpoint);
    size_t count = 0;
    for (size_t i = 0; i < swi_listing_count(listing); i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        if (e->mtime_ns > 0 && e->kind == SWI_ENTRY_FILE &&
            (swi_has_suffix(e->name, ".metadata") || strcmp(e->name, "metadata.pkl") == 0))
            out[count++] = (timed){e->name, e->mtime_ns, e->bytes, true};
    }
    for (size_t i = 0; i < sw_catalog_file_count(catalog); i++) {
        const char *path = swi_catalog_path(catalog, (uint32_t)i);
        const swi_listing_entry *e = swi_listing_find(listing, path);
        if (e != NULL && e->mtime_ns > 0)
            out[count++] = (timed){path, e->mtime_ns, e->bytes, false};
    }
    return count;
}

/* How many files lie before the widest gap, if it divides them in two groups; else 0. */
static size_t find_gap(const timed *files, size_t count, int64_t *gap)
{
    size_t at = 0;
    uint64_t largest = 0;
    *gap = 0;
    for (size_t i = 0; i < count; i++) {
        largest = files[i].bytes > largest ? files[i].bytes : largest;
        if (i > 0 && files[i].at_ns - files[i - 1].at_ns > *gap) {
            *gap = files[i].at_ns - files[i - 1].at_ns;
            at = i;
        }
    }
    if (at == 0 || *gap < GAP_MIN || largest > (uint64_t)*gap / COPY_NS_PER_BYTE)
        return 0;
    int64_t before = files[at - 1].at_ns - files[0].at_ns;
    int64_t behind = files[count - 1].at_ns - files[at].at_ns;
    int64_t spread = before > behind ? before : behind;
    return *gap / GAP_OVER_SPREAD > spread ? at : 0;
}

/* The first file of data in a group, and how many there are; whether an index is in it. */
static const char *data_of(const timed *files, size_t count, size_t *data, bool *index)
{
    const char *first = NULL;
    *data = 0;
    *index = false;
    for (size_t i = 0; i < count; i++) {
        *index = *index || files[i].is_index;
        if (!files[i].is_index && (*data)++ == 0)
            first = files[i].path;
    }
    return first;
}

static sw_status tell(const timed *files, size_t count, sw_report *report, sw_error *err)
{
    int64_t gap;
    size_t at = find_gap(files, count, &gap), older, newer;
    bool index_older, index_newer;
    if (at == 0)
        return SW_OK;
    const char *old = data_of(files, at, &older, &index_older);
    const char *new = data_of(files + at, count - at, &newer, &index_newer);
    bool stale = older > 0 && newer > 0 && index_newer && !index_older;
    bool ahead = newer > 0 && index_older && !index_newer;
    if (!stale && !ahead)
        return SW_OK;
    swi_finding_in in = {
        .severity = SW_NOTE, .code = "files-of-two-times", .file = stale ? old : new};
    return swi_report_add(report, &in, err,
                          stale ? "%zu files were written %" PRId64 " s before the index and the "
                                  "others: left from an earlier save into this folder, or copied "
                                  "at another time"
                                : "%zu files were written %" PRId64
                                  " s after the index: of a later "
                                  "save that was cut, or copied at another time",
                          stale ? older : newer, gap / SECOND);
}

sw_status swi_times_check(const sw_checkpoint *checkpoint, sw_report *report, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    size_t room =
        swi_listing_count(swi_checkpoint_listing(checkpoint)) + sw_catalog_file_count(catalog);
    void *files = NULL;
    if (!has_optimizer(catalog))
        return SW_OK;
    sw_status st = swi_alloc_array(room, sizeof(timed), &files, err);
    if (st != SW_OK)
        return st;
    size_t count = list_times(checkpoint, files);
    if (count > 1) {
        qsort(files, count, sizeof(timed), by_time);
        st = tell(files, count, report, err);
    }
    free(files);
    return st;
}
