/* A well-formed torch archive around any data.pkl. */
#ifndef TESTS_FUZZ_ARCHIVE_H
#define TESTS_FUZZ_ARCHIVE_H

#include <stdio.h>

#include "codec/crc32.h"
#include "codec/zip.h"

#define ARCHIVE_STORAGE_BYTES 24

static inline sw_status archive_record(swi_zip_writer *w, swi_buf *out, const char *name,
                                       const void *data, size_t size)
{
    sw_status st = swi_zip_writer_begin(w, name, size, out, NULL);
    if (st == SW_OK)
        st = swi_buf_append(out, data, size, NULL);
    return st != SW_OK ? st : swi_zip_writer_end(w, swi_crc32(0, data, size), out, NULL);
}

/* The archive of this pickle and these storages, "0", "1" ... */
typedef struct archive_storage {
    const void *data;
    size_t size;
} archive_storage;
static inline sw_status archive_of(swi_buf *out, const uint8_t *pickle, size_t size,
                                   const archive_storage *storages, size_t count)
{
    swi_zip_writer *w;
    sw_status st = swi_zip_writer_make(64, &w, NULL);
    if (st != SW_OK)
        return st;
    st = archive_record(w, out, "a/data.pkl", pickle, size);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "a/data/%zu", i);
        st = archive_record(w, out, name, storages[i].data, storages[i].size);
    }
    if (st == SW_OK)
        st = archive_record(w, out, "a/version", "3", 1);
    if (st == SW_OK)
        st = swi_zip_writer_finish(w, out, NULL);
    swi_zip_writer_free(w);
    return st;
}

/* Storages of ARCHIVE_STORAGE_BYTES each; element i of the first one is the float i. */
#define ARCHIVE_STORAGES_MAX 16
static inline sw_status archive_around(swi_buf *out, const uint8_t *pickle, size_t size,
                                       size_t storages)
{
    float data[ARCHIVE_STORAGES_MAX][ARCHIVE_STORAGE_BYTES / sizeof(float)];
    archive_storage list[ARCHIVE_STORAGES_MAX];
    if (storages > ARCHIVE_STORAGES_MAX)
        return SW_ERR_ARG;
    for (size_t i = 0; i < storages; i++) {
        for (size_t k = 0; k < sizeof data[i] / sizeof data[i][0]; k++)
            data[i][k] = (float)(100 * i + k);
        list[i] = (archive_storage){data[i], sizeof data[i]};
    }
    return archive_of(out, pickle, size, list, storages);
}

#endif
