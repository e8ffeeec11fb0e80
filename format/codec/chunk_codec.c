#include "codec/chunk_codec.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY /* the name of ZSTD_c_literalCompressionMode, no function */
#include <zstd.h>
#include <zstd_errors.h>

#include "base/arena.h"
#include "base/cursor.h"
#include "codec/plane_guess.h"
#include "codec/planes.h"

#define HEAD_BYTES(planes) (4 + 4 * (size_t)(planes))
#define TRANSFORM_ROTATED 1u
#define FEW_ELEMENTS 128 /* fewer are not worth a head */

/* What one call needs; idle ones wait in the coder. */
typedef struct lane {
    struct lane *next;
    ZSTD_CCtx *pack;
    ZSTD_DCtx *unpack;
    uint8_t *room; /* planes */
    size_t room_bytes;
} lane;

struct swi_chunk_coder {
    pthread_mutex_t lock;
    lane *idle;
    const swi_planes_ops *ops;
};

/* ---- lanes ------------------------------------------------------------------------------- */

static void lane_free(lane *l)
{
    if (l == NULL)
        return;
    ZSTD_freeCCtx(l->pack);
    ZSTD_freeDCtx(l->unpack);
    free(l->room);
    free(l);
}

static lane *lane_pop(swi_chunk_coder *coder)
{
    (void)pthread_mutex_lock(&coder->lock);
    lane *l = coder->idle;
    if (l != NULL)
        coder->idle = l->next;
    (void)pthread_mutex_unlock(&coder->lock);
    return l;
}

static sw_status lane_take(swi_chunk_coder *coder, lane **out, sw_error *err)
{
    void *fresh;
    lane *l = lane_pop(coder);
    if (l == NULL) {
        sw_status st = swi_alloc_array(1, sizeof(lane), &fresh, err);
        if (st != SW_OK)
            return st;
        l = fresh;
    }
    *out = l;
    return SW_OK;
}

static void lane_return(swi_chunk_coder *coder, lane *l)
{
    (void)pthread_mutex_lock(&coder->lock);
    l->next = coder->idle;
    coder->idle = l;
    (void)pthread_mutex_unlock(&coder->lock);
}

static sw_status lane_room(lane *l, size_t bytes, sw_error *err)
{
    void *room;
    if (l->room_bytes >= bytes)
        return SW_OK;
    sw_status st = swi_alloc_array(bytes, 1, &room, err);
    if (st != SW_OK)
        return st;
    free(l->room);
    l->room = room;
    l->room_bytes = bytes;
    return SW_OK;
}

sw_status swi_chunk_coder_make(swi_chunk_coder **out, sw_error *err)
{
    void *room;
    sw_status st = swi_alloc_array(1, sizeof(swi_chunk_coder), &room, err);
    if (st != SW_OK)
        return st;
    swi_chunk_coder *coder = room;
    int rc = pthread_mutex_init(&coder->lock, NULL);
    if (rc != 0) {
        free(coder);
        return swi_fail_errno(err, rc, "pthread_mutex_init");
    }
    coder->ops = swi_planes_best();
    *out = coder;
    return SW_OK;
}

void swi_chunk_coder_free(swi_chunk_coder *coder)
{
    if (coder == NULL)
        return;
    for (lane *l = coder->idle, *next; l != NULL; l = next) {
        next = l->next;
        lane_free(l);
    }
    (void)pthread_mutex_destroy(&coder->lock);
    free(coder);
}

/* ---- one frame of zstd ------------------------------------------------------------------- */

static bool pack_set(ZSTD_CCtx *pack, ZSTD_cParameter parameter, int value)
{
    return !ZSTD_isError(ZSTD_CCtx_setParameter(pack, parameter, value));
}

/*
 * Literals coded by Huffman, and steps of the search so wide that it costs nothing. Where this
 * libzstd does not let us ask for that, a search in a table of 64 entries comes near.
 */
static bool pack_huffman_only(ZSTD_CCtx *pack)
{
    bool wide = pack_set(pack, ZSTD_c_literalCompressionMode, 1);
    return pack_set(pack, ZSTD_c_compressionLevel, 1) &&
           pack_set(pack, ZSTD_c_strategy, ZSTD_fast) && pack_set(pack, ZSTD_c_minMatch, 7) &&
           pack_set(pack, ZSTD_c_hashLog, ZSTD_HASHLOG_MIN) &&
           pack_set(pack, ZSTD_c_targetLength, wide ? ZSTD_TARGETLENGTH_MAX : 0);
}

static bool pack_setup(ZSTD_CCtx *pack, bool huffman_only, int level)
{
    if (ZSTD_isError(ZSTD_CCtx_reset(pack, ZSTD_reset_session_and_parameters)))
        return false;
    return huffman_only ? pack_huffman_only(pack) : pack_set(pack, ZSTD_c_compressionLevel, level);
}

/* One frame into `room` bytes; *out_size is 0 if it did not get that short. */
static sw_status pack_frame(lane *l, bool huffman_only, int level, const uint8_t *raw, size_t size,
                            uint8_t *out, size_t room, size_t *out_size, sw_error *err)
{
    if (l->pack == NULL && (l->pack = ZSTD_createCCtx()) == NULL)
        return swi_fail_nomem(err);
    if (!pack_setup(l->pack, huffman_only, level))
        return swi_fail(err, SW_ERR_ARG, "zstd: this libzstd does not take level %d", level);
    size_t n = ZSTD_compress2(l->pack, out, room, raw, size);
    if (ZSTD_isError(n) && ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation)
        return swi_fail_nomem(err);
    *out_size = ZSTD_isError(n) ? 0 : n;
    return SW_OK;
}

static sw_status unpack_failed(size_t code, sw_error *err)
{
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
        return swi_fail_nomem(err);
    return swi_fail_at(err, SW_ERR_CORRUPT, "COD-3", 0, "zstd: %s; the chunk is damaged",
                       ZSTD_getErrorName(code));
}

/* One frame that says that it has `size` bytes, has them, and is all of `stored`. */
static sw_status unpack_frame(lane *l, const uint8_t *stored, size_t stored_size, uint8_t *raw,
                              size_t size, sw_error *err)
{
    if (l->unpack == NULL && (l->unpack = ZSTD_createDCtx()) == NULL)
        return swi_fail_nomem(err);
    if (stored_size < 4 || swi_load_u32le(stored) != ZSTD_MAGICNUMBER)
        return swi_fail_at(err, SW_ERR_CORRUPT, "COD-3", 0,
                           "no zstd frame where one should begin; the chunk is damaged");
    unsigned long long says = ZSTD_getFrameContentSize(stored, stored_size);
    if (says != size)
        return swi_fail_at(err, SW_ERR_CORRUPT, "COD-3", 0,
                           "the zstd frame does not say that it holds %zu bytes; the chunk is "
                           "damaged",
                           size);
    size_t frame = ZSTD_findFrameCompressedSize(stored, stored_size);
    if (ZSTD_isError(frame))
        return unpack_failed(frame, err);
    if (frame != stored_size)
        return swi_fail_at(err, SW_ERR_CORRUPT, "COD-3", frame,
                           "%zu bytes follow the zstd frame; the chunk is damaged",
                           stored_size - frame);
    size_t n = ZSTD_decompressDCtx(l->unpack, raw, size, stored, stored_size);
    if (ZSTD_isError(n))
        return unpack_failed(n, err);
    return n == size ? SW_OK
                     : swi_fail_at(err, SW_ERR_CORRUPT, "COD-3", 0,
                                   "the zstd frame holds %zu bytes, expected %zu", n, size);
}

/* ---- planes: writing --------------------------------------------------------------------- */

/* A chunk on its way into planes. */
typedef struct split {
    swi_planes_shape shape;
    size_t count;        /* elements; the length of each plane */
    const uint8_t *tail; /* bytes behind the last whole element */
    size_t tail_size;
    swi_plane_guess guess[SWI_PLANES_MAX]; /* how each may be stored */
    uint8_t *planes[SWI_PLANES_MAX];
    uint32_t in_place; /* so many of the first planes are split to where they are stored */
} split;

static void guess_planes(const swi_planes_ops *ops, split *s, const uint8_t *raw, uint8_t *room)
{
    uint8_t *sample[SWI_PLANES_MAX];
    size_t slice = s->count < SWI_GUESS_SAMPLE ? s->count : SWI_GUESS_SAMPLE / SWI_GUESS_SLICES;
    size_t slices = s->count < SWI_GUESS_SAMPLE ? 1 : SWI_GUESS_SLICES;
    size_t stride = s->count / slices;
    for (size_t i = 0; i < slices; i++) {
        for (uint32_t k = 0; k < s->shape.element_bytes; k++)
            sample[k] = room + k * SWI_GUESS_SAMPLE + i * slice;
        ops->split(s->shape, raw + i * stride * s->shape.element_bytes, slice, sample);
    }
    for (uint32_t k = 0; k < s->shape.element_bytes; k++)
        s->guess[k] = swi_plane_guess_of(room + k * SWI_GUESS_SAMPLE, slices * slice);
}

static bool all_stored(const split *s)
{
    for (uint32_t k = 0; k < s->shape.element_bytes; k++)
        if (s->guess[k].how != SWI_PLANE_STORE)
            return false;
    return true;
}

/* Planes that are stored in any case, and whose place is known, go there at once. */
static void place_planes(split *s, uint8_t *out, uint8_t *room)
{
    uint32_t planes = s->shape.element_bytes;
    s->in_place = 0;
    while (s->guess[s->in_place].how == SWI_PLANE_STORE)
        s->in_place++;
    for (uint32_t k = 0; k < planes; k++)
        s->planes[k] = (k < s->in_place ? out + HEAD_BYTES(planes) : room) + k * s->count;
}

/*
 * Codes plane k into out[0..room), if that makes it shorter; *size is then not 0. Runs that come
 * again are common where there are few values: a search that does no better than Huffman codes
 * would gives way to them.
 */
static sw_status pack_plane(lane *l, int level, const split *s, uint32_t k, uint8_t *out,
                            size_t room, size_t *size, sw_error *err)
{
    sw_status st = SW_OK;
    const swi_plane_guess *guess = &s->guess[k];
    size_t huffman_size = s->count * guess->bits / 2048;
    *size = 0;
    if (room > s->count - 1)
        room = s->count - 1;
    if (guess->how == SWI_PLANE_SEARCH)
        st = pack_frame(l, false, level, s->planes[k], s->count, out, room, size, err);
    bool huffman = guess->how != SWI_PLANE_STORE && (*size == 0 || *size > huffman_size);
    if (st == SW_OK && huffman)
        st = pack_frame(l, true, 0, s->planes[k], s->count, out, room, size, err);
    return st;
}

static void put_u32le(uint8_t *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> 8 * i);
}

/* Head, planes and tail into `room` bytes; *out_size is 0 if they are too few. */
static sw_status write_planes(lane *l, int level, const split *s, uint8_t *out, size_t room,
                              size_t *out_size, sw_error *err)
{
    uint32_t planes = s->shape.element_bytes;
    size_t at = HEAD_BYTES(planes);
    put_u32le(out, planes | (s->shape.rotated ? TRANSFORM_ROTATED : 0u) << 8);
    *out_size = 0;
    for (uint32_t k = 0; k < planes; k++) {
        size_t size;
        sw_status st = pack_plane(l, level, s, k, out + at, room - at, &size, err);
        if (st != SW_OK)
            return st;
        if (size == 0) {
            if (room - at < s->count)
                return SW_OK;
            size = s->count;
            if (k >= s->in_place)
                memcpy(out + at, s->planes[k], size);
        }
        put_u32le(out + 4 + 4 * k, (uint32_t)size);
        at += size;
    }
    if (room - at < s->tail_size)
        return SW_OK;
    memcpy(out + at, s->tail, s->tail_size);
    *out_size = at + s->tail_size;
    return SW_OK;
}

/* Shorter than the raw bytes, or *out_size is 0. */
static sw_status encode_planes(const swi_planes_ops *ops, lane *l, int level,
                               uint32_t element_bytes, const uint8_t *raw, size_t size,
                               uint8_t *out, size_t *out_size, sw_error *err)
{
    split s = {.shape = {element_bytes, swi_planes_can_rotate(element_bytes)},
               .count = size / element_bytes};
    s.tail_size = size % element_bytes;
    s.tail = raw + (size - s.tail_size);
    *out_size = 0;
    if (s.count < FEW_ELEMENTS)
        return SW_OK;
    size_t sample = element_bytes * (size_t)SWI_GUESS_SAMPLE;
    sw_status st = lane_room(l, size > sample ? size : sample, err);
    if (st != SW_OK)
        return st;
    guess_planes(ops, &s, raw, l->room);
    if (all_stored(&s))
        return SW_OK;
    place_planes(&s, out, l->room);
    ops->split(s.shape, raw, s.count, s.planes);
    return write_planes(l, level, &s, out, size - 1, out_size, err);
}

/* ---- planes: reading --------------------------------------------------------------------- */

typedef struct planes_head {
    swi_planes_shape shape;
    size_t count;
    uint32_t sizes[SWI_PLANES_MAX];
} planes_head;

static sw_status head_failed(sw_error *err, const char *what)
{
    return swi_fail_at(err, SW_ERR_CORRUPT, "COD-5", 0, "planes: %s; the chunk is damaged", what);
}

static sw_status read_head(swi_cursor *c, size_t raw_size, planes_head *h, sw_error *err)
{
    uint8_t planes, transform;
    uint16_t zero;
    if (!swi_get_u8(c, &planes) || !swi_get_u8(c, &transform) || !swi_get_u16le(c, &zero))
        return head_failed(err, "the head is cut");
    if (!swi_planes_can(planes) || zero != 0)
        return head_failed(err, "the head does not begin with 1, 2, 4, 8 or 16 planes");
    if (transform > TRANSFORM_ROTATED ||
        (transform == TRANSFORM_ROTATED && !swi_planes_can_rotate(planes)))
        return head_failed(err, "a transform that elements of this size do not have");
    h->shape = (swi_planes_shape){planes, transform == TRANSFORM_ROTATED};
    h->count = raw_size / planes;
    for (uint32_t k = 0; k < planes; k++) {
        if (!swi_get_u32le(c, &h->sizes[k]))
            return head_failed(err, "the head is cut");
        if (h->sizes[k] > h->count || h->sizes[k] == 0)
            return head_failed(err, "a plane is empty, or longer than the chunk has elements");
    }
    return SW_OK;
}

/* Where the bytes of plane k are: in `stored`, or decoded into `room`. */
static sw_status read_plane(lane *l, swi_cursor *c, const planes_head *h, uint32_t k, uint8_t *room,
                            const uint8_t **plane, sw_error *err)
{
    const uint8_t *stored;
    size_t at = c->pos;
    if (!swi_get_bytes(c, h->sizes[k], &stored))
        return head_failed(err, "it is cut");
    if (h->sizes[k] == h->count) {
        *plane = stored;
        return SW_OK;
    }
    sw_status st = unpack_frame(l, stored, h->sizes[k], room, h->count, err);
    if (st != SW_OK) {
        swi_error_shift(err, at);
        return swi_error_prefix(err, "plane %u", k);
    }
    *plane = room;
    return SW_OK;
}

static sw_status decode_planes(const swi_planes_ops *ops, lane *l, swi_cursor c, uint8_t *raw,
                               size_t raw_size, sw_error *err)
{
    planes_head h = {0};
    const uint8_t *planes[SWI_PLANES_MAX], *tail;
    sw_status st = read_head(&c, raw_size, &h, err);
    if (st == SW_OK)
        st = lane_room(l, raw_size, err);
    for (uint32_t k = 0; st == SW_OK && k < h.shape.element_bytes; k++)
        st = read_plane(l, &c, &h, k, l->room + k * h.count, &planes[k], err);
    if (st != SW_OK)
        return st;
    size_t tail_size = raw_size - h.count * h.shape.element_bytes;
    if (swi_cursor_left(&c) != tail_size || !swi_get_bytes(&c, tail_size, &tail))
        return head_failed(err, "it is longer or shorter than its planes");
    ops->merge(h.shape, planes, h.count, raw);
    memcpy(raw + (raw_size - tail_size), tail, tail_size);
    return SW_OK;
}

/* ---- chunks ------------------------------------------------------------------------------ */

sw_status swi_chunk_encode(swi_chunk_coder *coder, swi_chunk_choice choice, uint32_t element_bytes,
                           const uint8_t *raw, size_t size, uint8_t *out, size_t *out_size,
                           swi_chunk_codec *codec, sw_error *err)
{
    lane *l;
    size_t shorter = 0;
    int level = choice.level != 0 ? choice.level : 1;
    if (size == 0 || size > SWI_CHUNK_RAW_MAX || !swi_planes_can(element_bytes))
        return swi_fail(err, SW_ERR_ARG, "a chunk of %zu bytes, elements of %u", size,
                        element_bytes);
    sw_status st = lane_take(coder, &l, err);
    if (st != SW_OK)
        return st;
    if (choice.codec == SWI_CHUNK_ZSTD && size > 1)
        st = pack_frame(l, false, level, raw, size, out, size - 1, &shorter, err);
    else if (choice.codec == SWI_CHUNK_PLANES)
        st = encode_planes(coder->ops, l, level, element_bytes, raw, size, out, &shorter, err);
    lane_return(coder, l);
    if (st != SW_OK)
        return st;
    if (shorter == 0)
        memcpy(out, raw, size);
    *out_size = shorter == 0 ? size : shorter;
    *codec = shorter == 0 ? SWI_CHUNK_STORED : choice.codec;
    return SW_OK;
}

static sw_status decode_stored(const uint8_t *stored, size_t stored_size, uint8_t *raw,
                               size_t raw_size, sw_error *err)
{
    if (stored_size != raw_size)
        return swi_fail_at(err, SW_ERR_CORRUPT, "COD-2", 0,
                           "a stored chunk of %zu bytes, expected %zu; the index is damaged",
                           stored_size, raw_size);
    memcpy(raw, stored, raw_size);
    return SW_OK;
}

sw_status swi_chunk_decode(swi_chunk_coder *coder, uint8_t codec, const uint8_t *stored,
                           size_t stored_size, uint8_t *raw, size_t raw_size, sw_error *err)
{
    lane *l;
    if (raw_size == 0 || raw_size > SWI_CHUNK_RAW_MAX)
        return swi_fail_at(err, SW_ERR_CORRUPT, "COD-1", 0,
                           "a chunk of %zu bytes; they have 1 to %zu", raw_size, SWI_CHUNK_RAW_MAX);
    if (codec > SWI_CHUNK_PLANES)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "COD-1", 0,
                           "codec %u is not known; a newer version may read it", codec);
    if (codec == SWI_CHUNK_STORED)
        return decode_stored(stored, stored_size, raw, raw_size, err);
    sw_status st = lane_take(coder, &l, err);
    if (st != SW_OK)
        return st;
    if (codec == SWI_CHUNK_ZSTD)
        st = unpack_frame(l, stored, stored_size, raw, raw_size, err);
    else
        st = decode_planes(coder->ops, l, swi_cursor_make(stored, stored_size), raw, raw_size, err);
    lane_return(coder, l);
    return st;
}
