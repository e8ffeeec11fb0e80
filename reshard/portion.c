#include "portion.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/checked.h"

struct swi_portion {
    const sw_catalog *catalog;
    uint32_t *firsts;   /* of each record: its first blob */
    uint32_t *record;   /* by blob */
    uint64_t *left_out; /* by file */
    uint32_t count;
    uint64_t bytes;
};

typedef struct key {
    uint32_t file;
    uint32_t blob;
    uint64_t offset;
} key;

/* The blobs by place, and where the walk over their records is. */
typedef struct walk {
    const sw_catalog *catalog;
    const swi_portion_in *in;
    key *keys;
    uint32_t count;
    uint32_t begin, end; /* the blobs of a record */
    bool wanted;         /* one of them is */
    swi_blob blob;       /* the first of them */
} walk;

static int by_place(const void *left, const void *right)
{
    const key *a = left, *b = right;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return (a->blob > b->blob) - (a->blob < b->blob);
}

static sw_status sort_blobs(walk *w, sw_error *err)
{
    uint32_t count = swi_catalog_blob_count(w->catalog);
    sw_status status = swi_alloc_array(count, sizeof *w->keys, (void **)&w->keys, err);
    if (status != SW_OK)
        return status;
    for (uint32_t i = 0; i < count; i++) {
        swi_blob blob;
        swi_catalog_blob(w->catalog, i, &blob);
        if (swi_range_inside(blob.offset_bytes, blob.stored_bytes,
                             swi_catalog_file_bytes(w->catalog, blob.file)))
            w->keys[w->count++] = (key){blob.file, i, blob.offset_bytes};
    }
    if (w->count > 1)
        qsort(w->keys, w->count, sizeof *w->keys, by_place);
    return SW_OK;
}

static bool same_record(const swi_blob *a, const swi_blob *b)
{
    return a->ops == b->ops && a->file == b->file && a->aux == b->aux &&
           a->offset_bytes == b->offset_bytes && a->stored_bytes == b->stored_bytes;
}

static bool next_record(walk *w)
{
    if (w->end >= w->count)
        return false;
    w->begin = w->end;
    w->wanted = false;
    swi_catalog_blob(w->catalog, w->keys[w->begin].blob, &w->blob);
    for (; w->end < w->count; w->end++) {
        swi_blob blob;
        uint32_t id = w->keys[w->end].blob;
        swi_catalog_blob(w->catalog, id, &blob);
        if (!same_record(&blob, &w->blob))
            break;
        w->wanted = w->wanted || w->in->wanted == NULL || w->in->wanted[id];
    }
    return true;
}

/* Where part i of `parts` begins; their products stay below 2^64 for fewer than 2^32 parts. */
static uint64_t boundary(uint64_t bytes, uint64_t i, uint64_t parts)
{
    return bytes / parts * i + bytes % parts * i / parts;
}

/* What lies at the end, of no bytes, is the last part's. */
static bool in_part(const swi_portion_in *in, uint64_t at, uint64_t bytes)
{
    return in->parts == 0 ||
           (at >= boundary(bytes, in->part, in->parts) &&
            (in->part + 1 == in->parts || at < boundary(bytes, in->part + 1, in->parts)));
}

static uint64_t wanted_bytes(walk *w)
{
    uint64_t bytes = 0;
    while (next_record(w))
        bytes += w->wanted ? w->blob.stored_bytes : 0;
    w->end = 0;
    return bytes;
}

static void divide(walk *w, swi_portion *s)
{
    uint64_t at = 0, bytes = wanted_bytes(w);
    while (next_record(w)) {
        bool taken = w->wanted && in_part(w->in, at, bytes);
        at += w->wanted ? w->blob.stored_bytes : 0;
        if (!taken && w->blob.file != SWI_NO_FILE)
            s->left_out[w->blob.file] += w->blob.stored_bytes;
        if (!taken)
            continue;
        for (uint32_t i = w->begin; i < w->end; i++)
            s->record[w->keys[i].blob] = s->count;
        s->firsts[s->count++] = w->keys[w->begin].blob;
        s->bytes += w->blob.stored_bytes;
    }
}

sw_status swi_portion_make(const sw_catalog *catalog, const swi_portion_in *in, swi_portion **out,
                           sw_error *err)
{
    static const swi_portion_in all = {0};
    const uint32_t blobs = swi_catalog_blob_count(catalog);
    walk w = {.catalog = catalog, .in = in ? in : &all};
    swi_portion *s = NULL;
    if (w.in->parts > UINT32_MAX || (w.in->parts > 0 && w.in->part >= w.in->parts))
        return swi_fail(err, SW_ERR_ARG, "there is no such part of the work");
    sw_status status = swi_alloc_array(1, sizeof *s, (void **)&s, err);
    if (status != SW_OK)
        return status;
    s->catalog = catalog;
    status = swi_alloc_array(blobs, sizeof *s->firsts, (void **)&s->firsts, err);
    if (status == SW_OK)
        status = swi_alloc_array(blobs, sizeof *s->record, (void **)&s->record, err);
    if (status == SW_OK)
        status = swi_alloc_array(sw_catalog_file_count(catalog), sizeof *s->left_out,
                                 (void **)&s->left_out, err);
    for (uint32_t i = 0; status == SW_OK && i < blobs; i++)
        s->record[i] = SWI_NOT_IN_PORTION;
    if (status == SW_OK)
        status = sort_blobs(&w, err);
    if (status == SW_OK) {
        divide(&w, s);
        *out = s;
        s = NULL;
    }
    free(w.keys);
    swi_portion_free(s);
    return status;
}

void swi_portion_free(swi_portion *portion)
{
    if (portion == NULL)
        return;
    free(portion->firsts);
    free(portion->record);
    free(portion->left_out);
    free(portion);
}

uint32_t swi_portion_count(const swi_portion *portion)
{
    return portion->count;
}

uint32_t swi_portion_at(const swi_portion *portion, uint32_t i)
{
    return portion->firsts[i];
}

uint64_t swi_portion_bytes(const swi_portion *portion)
{
    return portion->bytes;
}

uint32_t swi_portion_find(const swi_portion *portion, uint32_t blob)
{
    return portion->record[blob];
}

uint64_t swi_portion_left_out(const swi_portion *portion, uint32_t file)
{
    return portion->left_out[file];
}
