/* The chunks of shard files as blobs, and the bytes between them. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "native/shard_parts.h"

/* A hasher that waits for its next message. */
typedef struct idle {
    swi_hasher *hasher;
    struct idle *next;
} idle;

struct swi_native_chunks {
    swi_blob_ops ops; /* whose ctx is this object */
    const swi_native_shard *shards;
    size_t count;
    uint64_t *first; /* by shard: the number of its first chunk; then how many there are */
    swi_chunk_coder *coder;
    pthread_mutex_t lock;
    idle *idle; /* under the lock: as many as ever worked at a time */
};

/* ---- hashers ------------------------------------------------------------------------------- */

/* A chunk of few bytes is hashed in less time than a hasher is made. */
static sw_status borrow(swi_native_chunks *chunks, idle **out, sw_error *err)
{
    void *room;
    (void)pthread_mutex_lock(&chunks->lock);
    idle *taken = chunks->idle;
    if (taken != NULL)
        chunks->idle = taken->next;
    (void)pthread_mutex_unlock(&chunks->lock);
    if (taken != NULL) {
        *out = taken;
        return SW_OK;
    }
    sw_status status = swi_alloc_array(1, sizeof(idle), &room, err);
    if (status != SW_OK)
        return status;
    taken = room;
    status = swi_hasher_make(&taken->hasher, err);
    if (status != SW_OK) {
        free(room);
        return status;
    }
    *out = taken;
    return SW_OK;
}

static void give_back(swi_native_chunks *chunks, idle *lent)
{
    (void)pthread_mutex_lock(&chunks->lock);
    lent->next = chunks->idle;
    chunks->idle = lent;
    (void)pthread_mutex_unlock(&chunks->lock);
}

/* ---- which chunk --------------------------------------------------------------------------- */

static swi_native_chunks *owner_of(const swi_blob *blob)
{
    return (swi_native_chunks *)(uintptr_t)blob->ops->ctx;
}

/* The record of a blob: the last shard whose first chunk is not behind it has it. */
static sw_status find(const swi_blob *blob, swi_native_chunk *out, sw_error *err)
{
    const swi_native_chunks *chunks = owner_of(blob);
    size_t low = 0, high = chunks->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (chunks->first[middle] <= blob->aux)
            low = middle;
        else
            high = middle;
    }
    if (blob->aux >= chunks->first[chunks->count])
        return swi_fail(err, SW_ERR_ARG, "there is no chunk %" PRIu32, blob->aux);
    swi_native_chunk_at(&chunks->shards[low], blob->aux - chunks->first[low], out);
    if (out->offset_bytes != blob->offset_bytes || out->stored_bytes != blob->stored_bytes)
        return swi_fail(err, SW_ERR_ARG, "chunk %" PRIu32 " lies elsewhere", blob->aux);
    return SW_OK;
}

/* ---- the kind of blob ---------------------------------------------------------------------- */

static sw_status chunk_resolve(const swi_blob *blob, const swi_reader *reader,
                               const swi_blob_want *want, swi_extent *out, sw_error *err)
{
    (void)reader;
    (void)want;
    swi_native_chunk chunk;
    sw_status status = find(blob, &chunk, err);
    if (status != SW_OK)
        return status;
    *out = (swi_extent){.file = blob->file,
                        .offset_bytes = chunk.offset_bytes,
                        .stored_bytes = chunk.stored_bytes,
                        .encoded = true,
                        .dtype = SW_DTYPE_NONE};
    return SW_OK;
}

/* Positions count from the first stored byte; who has read them says where that is. */
static sw_status wrong(const swi_native_chunk *chunk, const swi_digest *found, sw_error *err)
{
    char is[SWI_DIGEST_TEXT], must[SWI_DIGEST_TEXT];
    swi_digest_text(found, is);
    swi_digest_text(&chunk->digest, must);
    return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-13", 0, "its SHA-256 is %s, the index says %s", is,
                       must);
}

static sw_status hash(swi_hasher *hasher, const uint8_t *data, size_t size, swi_digest *out,
                      sw_error *err)
{
    sw_status status = swi_hasher_begin(hasher, err);
    if (status == SW_OK)
        status = swi_hasher_add(hasher, data, size, err);
    return status == SW_OK ? swi_hasher_end(hasher, out, err) : status;
}

static sw_status chunk_decode(const swi_blob *blob, const uint8_t *stored, uint8_t *out,
                              sw_error *err)
{
    swi_native_chunks *chunks = owner_of(blob);
    swi_native_chunk chunk;
    swi_digest found;
    idle *lent = NULL;
    sw_status status = find(blob, &chunk, err);
    if (status == SW_OK)
        status = borrow(chunks, &lent, err);
    if (status != SW_OK)
        return status;
    status = hash(lent->hasher, stored, chunk.stored_bytes, &found, err);
    give_back(chunks, lent);
    if (status != SW_OK)
        return status;
    if (memcmp(&found, &chunk.digest, sizeof found) != 0)
        return wrong(&chunk, &found, err);
    return swi_chunk_decode(chunks->coder, chunk.codec, stored, chunk.stored_bytes, out,
                            (size_t)blob->bytes, err);
}

/* Stays in the cache between the read and the hash. */
#define READ_STEP ((size_t)256 << 10)

/* Hashes the stored bytes as they are read, a step at a time. */
static sw_status hash_file(swi_hasher *hasher, const swi_blob *blob, const swi_reader *reader,
                           uint8_t *buffer, size_t buffer_bytes, swi_digest *out, sw_error *err)
{
    const size_t step = buffer_bytes < READ_STEP ? buffer_bytes : READ_STEP;
    sw_status status = swi_hasher_begin(hasher, err);
    for (uint64_t done = 0; done < blob->stored_bytes && status == SW_OK;) {
        uint64_t left = blob->stored_bytes - done;
        size_t n = left < step ? (size_t)left : step;
        status = reader->read(reader, blob->file, blob->offset_bytes + done, buffer, n, err);
        if (status == SW_OK)
            status = swi_hasher_add(hasher, buffer, n, err);
        done += n;
    }
    return status == SW_OK ? swi_hasher_end(hasher, out, err) : status;
}

/* What is wrong with the chunk is a finding; what kept us from looking is an error. */
static sw_status report(const swi_blob_label *label, const swi_native_chunk *chunk,
                        const char *code, sw_error *cause, sw_report *to, sw_error *err)
{
    if (swi_error_of_machine(cause)) {
        if (err != NULL)
            *err = *cause;
        return cause->status;
    }
    (void)swi_error_prefix(cause, "chunk of %" PRIu32 " bytes at %" PRIu64, chunk->stored_bytes,
                           chunk->offset_bytes);
    const swi_finding_in in = {.severity = SW_DEFECT,
                               .status = cause->status,
                               .code = code,
                               .file = label->file,
                               .tensor = label->name,
                               .has_offset = true,
                               .offset_bytes = chunk->offset_bytes};
    return swi_report_error(to, &in, cause, err);
}

static sw_status chunk_check(const swi_blob *blob, const swi_reader *reader,
                             const swi_blob_label *label, uint8_t *buffer, size_t buffer_bytes,
                             sw_report *to, swi_blob_check *tally, sw_error *err)
{
    swi_native_chunks *chunks = owner_of(blob);
    swi_native_chunk chunk;
    swi_digest found;
    idle *lent = NULL;
    sw_error cause = {0};
    sw_status status = find(blob, &chunk, err);
    if (status == SW_OK)
        status = borrow(chunks, &lent, err);
    if (status != SW_OK)
        return status;
    status = hash_file(lent->hasher, blob, reader, buffer, buffer_bytes, &found, &cause);
    give_back(chunks, lent);
    if (status != SW_OK)
        return report(label, &chunk, "unreadable-file", &cause, to, err);
    if (memcmp(&found, &chunk.digest, sizeof found) != 0) {
        (void)wrong(&chunk, &found, &cause);
        tally->differing_bytes += chunk.stored_bytes;
        return report(label, &chunk, "chunk-mismatch", &cause, to, err);
    }
    tally->checked_bytes += chunk.stored_bytes;
    return SW_OK;
}

/* ---- the object ---------------------------------------------------------------------------- */

static sw_status number_chunks(swi_native_chunks *chunks, sw_error *err)
{
    uint64_t all = 0;
    void *first;
    sw_status status = swi_alloc_array(chunks->count + 1, sizeof(uint64_t), &first, err);
    if (status != SW_OK)
        return status;
    chunks->first = first;
    for (size_t i = 0; i < chunks->count; i++) {
        chunks->first[i] = all;
        if (!swi_add_u64(all, chunks->shards[i].chunk_count, &all))
            return swi_fail(err, SW_ERR_LIMIT, "more than 2^64 chunks");
    }
    chunks->first[chunks->count] = all;
    return SW_OK;
}

sw_status swi_native_chunks_make(const swi_native_shard *shards, size_t count,
                                 swi_native_chunks **out, sw_error *err)
{
    void *room;
    sw_status status = swi_alloc_array(1, sizeof(swi_native_chunks), &room, err);
    if (status != SW_OK)
        return status;
    swi_native_chunks *chunks = room;
    int rc = pthread_mutex_init(&chunks->lock, NULL);
    if (rc != 0) {
        free(chunks);
        return swi_fail_errno(err, rc, "pthread_mutex_init");
    }
    chunks->shards = shards;
    chunks->count = count;
    chunks->ops = (swi_blob_ops){.kind = "native-chunk",
                                 .resolve = chunk_resolve,
                                 .check = chunk_check,
                                 .decode = chunk_decode,
                                 .ctx = chunks};
    status = number_chunks(chunks, err);
    if (status == SW_OK)
        status = swi_chunk_coder_make(&chunks->coder, err);
    if (status != SW_OK) {
        swi_native_chunks_free(chunks);
        return status;
    }
    *out = chunks;
    return SW_OK;
}

void swi_native_chunks_free(swi_native_chunks *chunks)
{
    if (chunks == NULL)
        return;
    while (chunks->idle != NULL) {
        idle *gone = chunks->idle;
        chunks->idle = gone->next;
        swi_hasher_free(gone->hasher);
        free(gone);
    }
    swi_chunk_coder_free(chunks->coder);
    (void)pthread_mutex_destroy(&chunks->lock);
    free(chunks->first);
    free(chunks);
}

/* No encoding is longer than the bytes themselves and a little; stored bytes are as many. */
static bool sizes_agree(const swi_native_chunk *chunk, uint64_t raw_bytes)
{
    if (raw_bytes == 0 || raw_bytes > SWI_CHUNK_RAW_MAX)
        return false;
    return chunk->codec == SWI_CHUNK_STORED
               ? chunk->stored_bytes == raw_bytes
               : chunk->stored_bytes <= SWI_CHUNK_STORED_MAX(raw_bytes);
}

const swi_blob_ops *swi_native_chunks_ops(const swi_native_chunks *chunks)
{
    return &chunks->ops;
}

sw_status swi_native_chunks_blob(const swi_native_chunks *chunks, size_t shard, uint64_t chunk,
                                 uint32_t file, uint64_t raw_bytes, swi_blob *out, sw_error *err)
{
    swi_native_chunk at;
    if (shard >= chunks->count || chunk >= chunks->shards[shard].chunk_count)
        return swi_fail(err, SW_ERR_ARG, "there is no chunk %" PRIu64 " of shard file %zu", chunk,
                        shard);
    uint64_t number = chunks->first[shard] + chunk;
    if (number > UINT32_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "more than 2^32 chunks");
    swi_native_chunk_at(&chunks->shards[shard], chunk, &at);
    if (!sizes_agree(&at, raw_bytes))
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-13", at.offset_bytes,
                           "its chunk at %" PRIu64 " stores %" PRIu64 " bytes in %" PRIu32
                           " by codec %u",
                           at.offset_bytes, raw_bytes, at.stored_bytes, (unsigned)at.codec);
    *out = (swi_blob){.ops = &chunks->ops,
                      .file = file,
                      .aux = (uint32_t)number,
                      .offset_bytes = at.offset_bytes,
                      .stored_bytes = at.stored_bytes,
                      .bytes = raw_bytes};
    return SW_OK;
}

/* ---- padding ------------------------------------------------------------------------------- */

#define PADDING_STEP ((size_t)4096)

/* The first byte in [from, to) that is not zero, or `to`. */
static sw_status first_nonzero(const swi_reader *reader, uint32_t file, uint64_t from, uint64_t to,
                               uint64_t *at, sw_error *err)
{
    uint8_t room[PADDING_STEP];
    while (from < to) {
        size_t n = to - from < PADDING_STEP ? (size_t)(to - from) : PADDING_STEP;
        sw_status status = reader->read(reader, file, from, room, n, err);
        if (status != SW_OK)
            return status;
        for (size_t i = 0; i < n; i++)
            if (room[i] != 0) {
                *at = from + i;
                return SW_OK;
            }
        from += n;
    }
    *at = to;
    return SW_OK;
}

sw_status swi_native_padding_check(const swi_native_shard *shard, const swi_reader *reader,
                                   uint32_t file, bool *zero, uint64_t *at, sw_error *err)
{
    uint64_t end = SWI_NATIVE_HEAD_BYTES, found = 0;
    swi_native_chunk chunk;
    for (uint64_t i = 0; i < shard->chunk_count; i++) {
        swi_native_chunk_at(shard, i, &chunk);
        sw_status status = first_nonzero(reader, file, end, chunk.offset_bytes, &found, err);
        if (status != SW_OK)
            return status;
        if (found < chunk.offset_bytes) {
            *zero = false;
            *at = found;
            return SW_OK;
        }
        end = chunk.offset_bytes + chunk.stored_bytes;
    }
    *zero = true;
    return SW_OK;
}
