#include "codec/zstd.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>
#include <zstd_errors.h>

#include "base/arena.h"
#include "base/checked.h"

#define IN_BYTES ((size_t)128 * 1024)
#define OUT_BYTES ((size_t)128 * 1024)
#define KEEP_BYTES ((size_t)32 * 1024) /* of the end, where a zip has its directory */
#define WINDOW_LOG_MAX 27

/* Decoding under way: pull gives the next run of decoded bytes. */
typedef struct decoder {
    const swi_reader *reader;
    uint32_t file;
    uint64_t offset, bytes; /* the frames */
    uint64_t max_out;
    ZSTD_DCtx *zstd;
    uint8_t *room; /* IN_BYTES, then OUT_BYTES */
    ZSTD_inBuffer in;
    uint64_t taken;   /* bytes of the frames read into `in` so far */
    uint64_t decoded; /* bytes given so far */
    bool in_frame;
    size_t out_size; /* decoded bytes of the last pull, at room + IN_BYTES */
} decoder;

static void decoder_end(decoder *d)
{
    ZSTD_freeDCtx(d->zstd);
    free(d->room);
    d->zstd = NULL;
    d->room = NULL;
}

static sw_status decoder_make(decoder *d, sw_error *err)
{
    void *room;
    sw_status st = swi_alloc_array(IN_BYTES + OUT_BYTES, 1, &room, err);
    if (st != SW_OK)
        return st;
    d->room = room;
    d->zstd = ZSTD_createDCtx();
    if (d->zstd == NULL ||
        ZSTD_isError(ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
        return swi_fail_nomem(err);
    return SW_OK;
}

static void decoder_rewind(decoder *d)
{
    (void)ZSTD_DCtx_reset(d->zstd, ZSTD_reset_session_only);
    d->in = (ZSTD_inBuffer){0};
    d->taken = 0;
    d->decoded = 0;
    d->in_frame = false;
    d->out_size = 0;
}

/* Position in the file of the byte that is decoded next. */
static uint64_t decoder_pos(const decoder *d)
{
    return d->offset + d->taken - (d->in.size - d->in.pos);
}

static sw_status refill(decoder *d, sw_error *err)
{
    uint64_t left = d->bytes - d->taken;
    size_t size = left < IN_BYTES ? (size_t)left : IN_BYTES;
    sw_status st = d->reader->read(d->reader, d->file, d->offset + d->taken, d->room, size, err);
    if (st != SW_OK)
        return st;
    d->taken += size;
    d->in = (ZSTD_inBuffer){.src = d->room, .size = size};
    return SW_OK;
}

static sw_status zstd_failed(const decoder *d, size_t code, sw_error *err)
{
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
        return swi_fail_nomem(err);
    if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge)
        return swi_fail_at(err, SW_ERR_LIMIT, "", decoder_pos(d),
                           "zstd: a frame asks for a window of more than 128 MiB");
    return swi_fail_at(err, SW_ERR_CORRUPT, "", decoder_pos(d), "zstd: %s",
                       ZSTD_getErrorName(code));
}

/* The next run of decoded bytes (out_size > 0), or the end (*done). */
static sw_status pull(decoder *d, bool *done, sw_error *err)
{
    d->out_size = 0;
    *done = false;
    for (;;) {
        if (d->in.pos == d->in.size && d->taken < d->bytes) {
            sw_status st = refill(d, err);
            if (st != SW_OK)
                return st;
        }
        bool input = d->in.pos < d->in.size;
        if (!input && !d->in_frame) {
            *done = true;
            return SW_OK;
        }
        ZSTD_outBuffer out = {.dst = d->room + IN_BYTES, .size = OUT_BYTES};
        size_t code = ZSTD_decompressStream(d->zstd, &out, &d->in);
        if (ZSTD_isError(code))
            return zstd_failed(d, code, err);
        d->in_frame = code != 0;
        if (out.pos > d->max_out - d->decoded)
            return swi_fail_at(err, SW_ERR_LIMIT, "", decoder_pos(d),
                               "zstd: more than %" PRIu64 " decoded bytes", d->max_out);
        if (out.pos > 0) {
            d->out_size = out.pos;
            d->decoded += out.pos;
            return SW_OK;
        }
        if (!input)
            return swi_fail_at(err, SW_ERR_CORRUPT, "", decoder_pos(d),
                               "zstd: the frame is cut after %" PRIu64 " bytes", d->bytes);
    }
}

static sw_status decoder_setup(decoder *d, const swi_reader *reader, uint32_t file, uint64_t offset,
                               uint64_t bytes, uint64_t max_out, sw_error *err)
{
    *d = (decoder){
        .reader = reader, .file = file, .offset = offset, .bytes = bytes, .max_out = max_out};
    if (bytes == 0)
        return swi_fail_at(err, SW_ERR_CORRUPT, "", offset, "zstd: no frame in 0 bytes");
    return decoder_make(d, err);
}

sw_status swi_zstd_decode(const swi_reader *reader, uint32_t file, uint64_t offset, uint64_t bytes,
                          uint64_t max_out, swi_sink_fn sink, void *ctx, sw_error *err)
{
    decoder d;
    bool done = false;
    sw_status st = decoder_setup(&d, reader, file, offset, bytes, max_out, err);
    while (st == SW_OK && !done) {
        st = pull(&d, &done, err);
        if (st == SW_OK && !done)
            st = sink(ctx, d.room + IN_BYTES, d.out_size, err);
    }
    decoder_end(&d);
    return st;
}

/* ---- the decoded bytes as a reader ------------------------------------------------------- */

struct swi_zstd_view {
    swi_reader pub;
    decoder d;
    uint64_t bytes; /* decoded, in all */
    uint8_t *keep;  /* the last kept bytes */
    size_t kept;    /* how many */
};

/* Keeps the last KEEP_BYTES of all that was given: called with each run in order. */
static void keep_end(swi_zstd_view *v, const uint8_t *data, size_t size)
{
    if (size >= KEEP_BYTES) {
        memcpy(v->keep, data + size - KEEP_BYTES, KEEP_BYTES);
        v->kept = KEEP_BYTES;
        return;
    }
    size_t old = v->kept < KEEP_BYTES - size ? v->kept : KEEP_BYTES - size;
    memmove(v->keep, v->keep + v->kept - old, old);
    memcpy(v->keep + old, data, size);
    v->kept = old + size;
}

/* Copies what [offset, offset + size) and the run of `run` bytes at `at` have in common. */
static void copy_common(uint8_t *to, uint64_t offset, size_t size, const uint8_t *from, uint64_t at,
                        size_t run)
{
    uint64_t lo = offset > at ? offset : at;
    uint64_t end = offset + size < at + run ? offset + size : at + run;
    if (lo < end)
        memcpy(to + (lo - offset), from + (lo - at), (size_t)(end - lo));
}

static sw_status view_read(const swi_reader *self, uint32_t file, uint64_t offset, void *data,
                           size_t size, sw_error *err)
{
    swi_zstd_view *v = self->ctx;
    decoder *d = &v->d;
    if (file != 0 || !swi_range_inside(offset, size, v->bytes))
        return swi_fail_at(err, SW_ERR_CORRUPT, "", offset,
                           "zstd: %zu bytes at %" PRIu64 " of %" PRIu64 " decoded bytes", size,
                           offset, v->bytes);
    if (offset >= v->bytes - v->kept) {
        memcpy(data, v->keep + (offset - (v->bytes - v->kept)), size);
        return SW_OK;
    }
    if (offset < d->decoded - d->out_size)
        decoder_rewind(d);
    copy_common(data, offset, size, d->room + IN_BYTES, d->decoded - d->out_size, d->out_size);
    while (d->decoded < offset + size) {
        bool done;
        sw_status st = pull(d, &done, err);
        if (st != SW_OK)
            return st;
        if (done)
            return swi_fail_at(err, SW_ERR_CORRUPT, "", d->offset,
                               "zstd: the frame changed while it was read");
        copy_common(data, offset, size, d->room + IN_BYTES, d->decoded - d->out_size, d->out_size);
    }
    return SW_OK;
}

static void view_read_ahead(const swi_reader *self, uint32_t file, uint64_t offset, uint64_t size)
{
    (void)self, (void)file, (void)offset, (void)size;
}

static sw_status view_scratch_take(const swi_reader *self, uint64_t size, uint64_t *offset,
                                   sw_error *err)
{
    (void)self, (void)size, (void)offset;
    return swi_fail(err, SW_ERR_UNSUPPORTED, "zstd: no scratch file");
}

static sw_status view_scratch_write(const swi_reader *self, uint64_t offset, const void *data,
                                    size_t size, sw_error *err)
{
    (void)self, (void)offset, (void)data, (void)size;
    return swi_fail(err, SW_ERR_UNSUPPORTED, "zstd: no scratch file");
}

/* Decodes all of it once: how much it is, and its end. */
static sw_status view_measure(swi_zstd_view *v, sw_error *err)
{
    bool done = false;
    sw_status st = SW_OK;
    while (st == SW_OK && !done) {
        st = pull(&v->d, &done, err);
        if (st == SW_OK && !done)
            keep_end(v, v->d.room + IN_BYTES, v->d.out_size);
    }
    v->bytes = v->d.decoded;
    return st;
}

sw_status swi_zstd_view_open(const swi_reader *reader, uint32_t file, uint64_t offset,
                             uint64_t bytes, uint64_t max_out, swi_zstd_view **out, sw_error *err)
{
    void *room;
    sw_status st = swi_alloc_array(1, sizeof(swi_zstd_view), &room, err);
    if (st != SW_OK)
        return st;
    swi_zstd_view *v = room;
    st = swi_alloc_array(KEEP_BYTES, 1, &room, err);
    if (st != SW_OK) {
        free(v);
        return st;
    }
    v->keep = room;
    st = decoder_setup(&v->d, reader, file, offset, bytes, max_out, err);
    if (st == SW_OK)
        st = view_measure(v, err);
    if (st != SW_OK) {
        swi_zstd_view_free(v);
        return st;
    }
    v->pub = (swi_reader){.read = view_read,
                          .read_ahead = view_read_ahead,
                          .scratch_take = view_scratch_take,
                          .scratch_write = view_scratch_write,
                          .ctx = v,
                          .limits = reader->limits};
    decoder_rewind(&v->d);
    *out = v;
    return SW_OK;
}

void swi_zstd_view_free(swi_zstd_view *view)
{
    if (view == NULL)
        return;
    decoder_end(&view->d);
    free(view->keep);
    free(view);
}

uint64_t swi_zstd_view_bytes(const swi_zstd_view *view)
{
    return view->bytes;
}

const swi_reader *swi_zstd_view_reader(const swi_zstd_view *view)
{
    return &view->pub;
}
