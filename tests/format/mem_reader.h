/*
 * A reader of one file (id 0) that lives in memory: runs of bytes, zeros between them, so that
 * files larger than memory can be played. Scratch bytes lie in memory too.
 */
#ifndef TESTS_FORMAT_MEM_READER_H
#define TESTS_FORMAT_MEM_READER_H

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/reader.h"

#define MEM_RUNS 4

typedef struct mem_reader {
    swi_reader pub;
    struct {
        uint64_t pos;
        const uint8_t *data;
        size_t size;
    } runs[MEM_RUNS];
    uint64_t bytes; /* of the file */
    uint64_t reads, read_bytes;
    swi_buf scratch;
} mem_reader;

static inline sw_status mem_read(const swi_reader *self, uint32_t file, uint64_t offset, void *data,
                                 size_t size, sw_error *err)
{
    mem_reader *m = self->ctx;
    uint8_t *to = data;
    m->reads++;
    m->read_bytes += size;
    if (file == SWI_FILE_SCRATCH) {
        if (offset > m->scratch.size || size > m->scratch.size - offset)
            return swi_fail(err, SW_ERR_CORRUPT, "scratch ends early");
        memcpy(to, m->scratch.data + offset, size);
        return SW_OK;
    }
    if (file != 0 || offset > m->bytes || size > m->bytes - offset)
        return swi_fail(err, SW_ERR_CORRUPT, "the file ends early");
    memset(to, 0, size);
    for (int i = 0; i < MEM_RUNS; i++) {
        uint64_t lo = offset > m->runs[i].pos ? offset : m->runs[i].pos;
        uint64_t end = m->runs[i].pos + m->runs[i].size;
        if (end > offset + size)
            end = offset + size;
        if (lo < end)
            memcpy(to + (lo - offset), m->runs[i].data + (lo - m->runs[i].pos), (size_t)(end - lo));
    }
    return SW_OK;
}

static inline void mem_read_ahead(const swi_reader *self, uint32_t file, uint64_t offset,
                                  uint64_t size)
{
    (void)self, (void)file, (void)offset, (void)size;
}

static inline sw_status mem_scratch_take(const swi_reader *self, uint64_t size, uint64_t *offset,
                                         sw_error *err)
{
    mem_reader *m = self->ctx;
    uint64_t at = m->scratch.size;
    if (size > ((uint64_t)64 << 20))
        return swi_fail(err, SW_ERR_IO, "no space");
    sw_status st = swi_buf_fill(&m->scratch, 0, (size_t)size, err);
    if (st == SW_OK)
        *offset = at;
    return st;
}

static inline sw_status mem_scratch_write(const swi_reader *self, uint64_t offset, const void *data,
                                          size_t size, sw_error *err)
{
    mem_reader *m = self->ctx;
    if (offset > m->scratch.size || size > m->scratch.size - offset)
        return swi_fail(err, SW_ERR_IO, "outside the scratch file");
    memcpy(m->scratch.data + offset, data, size);
    return SW_OK;
}

/* The bytes are borrowed. */
static inline void mem_reader_init(mem_reader *m, const void *data, size_t size)
{
    *m = (mem_reader){.bytes = size};
    m->runs[0].data = data;
    m->runs[0].size = size;
    m->pub = (swi_reader){.read = mem_read,
                          .read_ahead = mem_read_ahead,
                          .scratch_take = mem_scratch_take,
                          .scratch_write = mem_scratch_write,
                          .ctx = m,
                          .limits = sw_limits_resolve(NULL)};
}

static inline void mem_reader_end(mem_reader *m)
{
    swi_buf_free(&m->scratch);
}

#endif
