/*
 * Positional reads of numbered files, and room for decoded bytes: the interface through which blobs
 * are resolved without knowing where files live. Thread-safe. Implemented by io/filecache.
 */
#ifndef SW_BASE_READER_H
#define SW_BASE_READER_H

#include "base/error.h"

/* The file id of the scratch file. */
#define SWI_FILE_SCRATCH UINT32_MAX

typedef struct swi_reader swi_reader;
struct swi_reader {
    /* Exactly `size` bytes, as swi_file_read. */
    sw_status (*read)(const swi_reader *self, uint32_t file, uint64_t offset, void *data,
                      size_t size, sw_error *err);
    void (*read_ahead)(const swi_reader *self, uint32_t file, uint64_t offset, uint64_t size);
    /*
     * A place of `size` bytes in the scratch file, to write decoded bytes to and read them back as
     * file SWI_FILE_SCRATCH. Without a scratch file: SW_ERR_UNSUPPORTED.
     */
    sw_status (*scratch_take)(const swi_reader *self, uint64_t size, uint64_t *offset,
                              sw_error *err);
    sw_status (*scratch_write)(const swi_reader *self, uint64_t offset, const void *data,
                               size_t size, sw_error *err);
    void *ctx;
    sw_limits limits; /* resolved */
};

#endif
