#include "sums.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/text.h"
#include "codec/crc32.h"
#include "crc_track.h"

#define READ_BACK_BYTES ((size_t)256 << 10)

struct swi_sums {
    const swi_layout *layout;
    swi_crc_track *track; /* by number of the sum among all */
    uint32_t *values;
    uint8_t *known;
};

sw_status swi_sums_make(const swi_layout *layout, swi_sums **out, sw_error *err)
{
    void *p;
    uint32_t files = (uint32_t)sw_catalog_file_count(swi_layout_catalog(layout));
    size_t count = 0;
    for (uint32_t file = 0; file < files; file++)
        count += swi_layout_sum_count(layout, file);
    if (count > UINT32_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "layout: more than 2^32 sums");
    sw_status status = swi_alloc_array(1, sizeof(swi_sums), &p, err);
    if (status != SW_OK)
        return status;
    swi_sums *sums = p;
    sums->layout = layout;
    status = swi_alloc_array(count + 1, sizeof *sums->values, (void **)&sums->values, err);
    if (status == SW_OK)
        status = swi_alloc_array(count + 1, 1, (void **)&sums->known, err);
    if (status == SW_OK)
        status = swi_crc_track_make((uint32_t)count, &sums->track, err);
    if (status != SW_OK) {
        swi_sums_free(sums);
        return status;
    }
    *out = sums;
    return SW_OK;
}

void swi_sums_free(swi_sums *sums)
{
    if (sums == NULL)
        return;
    swi_crc_track_free(sums->track);
    free(sums->values);
    free(sums->known);
    free(sums);
}

/* ---- while it is written --------------------------------------------------------------------- */

/* The first sum of the file that ends behind `at`. */
static size_t find_sum(const swi_layout *layout, uint32_t file, uint64_t at)
{
    size_t lo = 0, hi = swi_layout_sum_count(layout, file);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        swi_sum range = swi_layout_sum_at(layout, file, mid);
        if (range.offset_bytes + range.bytes <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* A part that ends where its sum does or where what was written does. */
static sw_status end_part(swi_sums *sums, swi_crc_part *part, sw_error *err)
{
    swi_crc_result result;
    uint32_t found = 0;
    sw_status status = swi_crc_track_add(sums->track, part, &result, &found, err);
    if (status == SW_OK && result != SWI_CRC_MORE) {
        sums->values[part->blob] = found;
        sums->known[part->blob] = 1;
    }
    *part = (swi_crc_part){0};
    return status;
}

typedef struct adding {
    swi_sums *sums;
    uint32_t file;
    size_t next, count; /* sums of the file */
    swi_crc_part part;  /* that goes on in the next slice */
} adding;

static sw_status add_slice(adding *a, uint64_t at, const swi_slice *slice, sw_error *err)
{
    const uint64_t end = at + slice->size;
    sw_status status = SW_OK;
    for (uint64_t here = at; status == SW_OK && a->next < a->count && here < end;) {
        swi_sum range = swi_layout_sum_at(a->sums->layout, a->file, a->next);
        uint64_t range_end = range.offset_bytes + range.bytes;
        if (range.offset_bytes >= end)
            break;
        if (here < range.offset_bytes)
            here = range.offset_bytes;
        uint64_t stop = range_end < end ? range_end : end;
        if (a->part.size == 0) {
            size_t first = swi_layout_sum_first(a->sums->layout, a->file);
            a->part.blob = (uint32_t)(first + a->next);
            a->part.at = here - range.offset_bytes;
            a->part.record_bytes = range.bytes;
        }
        a->part.crc = swi_crc32(a->part.crc, (const uint8_t *)slice->data + (here - at),
                                (size_t)(stop - here));
        a->part.size += stop - here;
        here = stop;
        if (here == range_end) {
            a->next++;
            status = end_part(a->sums, &a->part, err);
        }
    }
    return status;
}

sw_status swi_sums_add(swi_sums *sums, uint32_t file, uint64_t offset, const swi_slice *slices,
                       size_t count, sw_error *err)
{
    adding a = {.sums = sums, .file = file, .count = swi_layout_sum_count(sums->layout, file)};
    sw_status status = SW_OK;
    if (a.count == 0)
        return SW_OK;
    a.next = find_sum(sums->layout, file, offset);
    for (size_t i = 0; i < count && status == SW_OK; i++) {
        status = add_slice(&a, offset, &slices[i], err);
        offset += slices[i].size;
    }
    return status == SW_OK && a.part.size > 0 ? end_part(sums, &a.part, err) : status;
}

/* ---- when all is written --------------------------------------------------------------------- */

/* Given up while it was written: its parts were too many to keep. */
static sw_status read_back(const swi_file *file, const swi_sum *range, uint32_t *crc, sw_error *err)
{
    void *buffer = NULL;
    sw_status status = swi_alloc_array(READ_BACK_BYTES, 1, &buffer, err);
    *crc = 0;
    for (uint64_t done = 0; status == SW_OK && done < range->bytes;) {
        uint64_t left = range->bytes - done;
        size_t n = left < READ_BACK_BYTES ? (size_t)left : READ_BACK_BYTES;
        status = swi_file_read(file, range->offset_bytes + done, buffer, n, err);
        if (status == SW_OK)
            *crc = swi_crc32(*crc, buffer, n);
        done += n;
    }
    free(buffer);
    return status;
}

static sw_status know_all(swi_sums *sums, uint32_t file, const swi_file *written, sw_error *err)
{
    size_t first = swi_layout_sum_first(sums->layout, file);
    sw_status status = SW_OK;
    for (size_t i = 0; status == SW_OK && i < swi_layout_sum_count(sums->layout, file); i++) {
        swi_sum range = swi_layout_sum_at(sums->layout, file, i);
        if (sums->known[first + i] || range.bytes == 0)
            continue;
        status = read_back(written, &range, &sums->values[first + i], err);
    }
    return status;
}

static sw_status write_late(const swi_sums *sums, uint32_t file, const swi_late *late,
                            swi_file *written, sw_error *err)
{
    void *room;
    sw_status status = swi_alloc_array(late->size, 1, &room, err);
    if (status != SW_OK)
        return status;
    const uint32_t *values = sums->values + swi_layout_sum_first(sums->layout, file);
    status = late->make(late->ctx, values, room, late->size, err);
    if (status == SW_OK)
        status = swi_file_write(written, late->offset_bytes, room, late->size, err);
    free(room);
    return status;
}

sw_status swi_sums_finish(swi_sums *sums, uint32_t file, swi_file *written, sw_error *err)
{
    size_t lates = swi_layout_late_count(sums->layout, file);
    sw_status status = lates > 0 ? know_all(sums, file, written, err) : SW_OK;
    for (size_t i = 0; status == SW_OK && i < lates; i++)
        status = write_late(sums, file, swi_layout_late_at(sums->layout, file, i), written, err);
    if (status == SW_OK)
        return SW_OK;
    swi_quoted room;
    const char *path = swi_catalog_path(swi_layout_catalog(sums->layout), file);
    return swi_error_prefix(err, "%s", swi_quote_str(&room, path));
}
