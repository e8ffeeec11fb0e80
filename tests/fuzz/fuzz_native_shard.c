/*
 * Any bytes as a shard file. After the first byte come the file itself (even) or patches of a well
 * formed one (odd), as in patch.h. All digests are set right (but for every fourth input), so that
 * what stands behind them is reached. Seeds may be text (hex.h). What was opened is walked, its
 * chunks are made blobs and decoded; a shard whose walk ended well is one that the writer writes
 * again, byte by byte.
 */
#include <stdlib.h>
#include <string.h>

#include "format/mem_reader.h"
#include "format/native/shard_sample.h"
#include "hex.h"
#include "patch.h"

#define RAW_ROOM ((size_t)64 << 10)
#define PIECES_MAX 256
#define CHUNKS_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        __builtin_trap();
}

/* What the walk told. */
typedef struct walked {
    swi_native_piece pieces[PIECES_MAX];
    bool whole[PIECES_MAX];
    swi_native_chunk chunks[CHUNKS_MAX];
    uint64_t piece_count;
} walked;

static swi_store *store_of(const swi_buf *bytes)
{
    swi_store *store = NULL;
    swi_file *file = NULL;
    must(swi_store_open_memory(&store, NULL) == SW_OK);
    must(swi_store_create(store, SAMPLE_NAME, &file, NULL) == SW_OK);
    must(swi_file_write(file, 0, bytes->data, bytes->size, NULL) == SW_OK);
    swi_file_close(file);
    return store;
}

static void must_explain(sw_status status, const sw_error *err)
{
    must(status == SW_ERR_CORRUPT || status == SW_ERR_UNSUPPORTED || status == SW_ERR_UNTRUSTED ||
         status == SW_ERR_LIMIT);
    must(err->status == status && err->text[0] != '\0');
}

static void use_chunk(const swi_native_chunks *chunks, uint64_t i, uint64_t raw_bytes,
                      const swi_buf *bytes, mem_reader *reader)
{
    static uint8_t raw[RAW_ROOM];
    uint8_t buffer[512];
    swi_blob blob;
    swi_extent extent;
    sw_error err;
    swi_blob_check tally = {0};
    const swi_blob_want want = {.dtype = SW_DTYPE_NONE};
    const swi_blob_label label = {.file = SAMPLE_NAME, .name = "t"};
    sw_status status = swi_native_chunks_blob(chunks, 0, i, 0, raw_bytes, &blob, &err);
    if (status != SW_OK) {
        must_explain(status, &err);
        return;
    }
    must(blob.ops->resolve(&blob, &reader->pub, &want, &extent, &err) == SW_OK);
    must(swi_range_inside(extent.offset_bytes, extent.stored_bytes, bytes->size));
    must(blob.ops->check(&blob, &reader->pub, &label, buffer, sizeof buffer, NULL, &tally, &err) ==
         SW_OK);
    if (raw_bytes > RAW_ROOM)
        return;
    status = blob.ops->decode(&blob, bytes->data + extent.offset_bytes, raw, &err);
    if (status != SW_OK)
        must_explain(status, &err);
    else
        must(tally.checked_bytes == extent.stored_bytes);
}

/* All pieces and their chunks; false: it was refused on the way. */
static bool walk(const swi_native_shard *shard, const swi_native_chunks *chunks,
                 const swi_buf *bytes, mem_reader *reader, walked *out)
{
    swi_native_walk at = {0};
    swi_native_piece piece;
    uint64_t first, count, expected = 0;
    bool more = true;
    sw_error err;
    for (;;) {
        sw_status status = swi_native_piece_next(shard, &at, sample_shape, NULL, &piece, &first,
                                                 &count, &more, &err);
        if (status != SW_OK) {
            must_explain(status, &err);
            return false;
        }
        if (!more)
            break;
        must(first == expected && count <= shard->chunk_count - first);
        for (uint64_t c = 0; c < count; c++)
            use_chunk(chunks, first + c, sample_raw_bytes(&piece, c), bytes, reader);
        if (out->piece_count < PIECES_MAX)
            out->pieces[out->piece_count] = piece;
        out->piece_count++;
        expected += count;
    }
    must(expected == shard->chunk_count && out->piece_count == shard->piece_count);
    return true;
}

/* The kinds of pieces, from the records: a box may be all of its tensor, too. */
static void read_kinds(const swi_native_shard *shard, walked *w)
{
    const uint8_t *p = shard->index;
    for (uint64_t i = 0; i < w->piece_count; i++) {
        w->whole[i] = p[4] == 2;
        p += 16 + 24 * (size_t)p[5];
    }
}

static void write_again(const swi_native_shard *shard, walked *w, const swi_buf *bytes,
                        const swi_native_file *file)
{
    uint8_t head[SWI_NATIVE_HEAD_BYTES];
    swi_buf out = {0};
    swi_native_file same = {0};
    if (w->piece_count > PIECES_MAX || shard->chunk_count > CHUNKS_MAX)
        return;
    read_kinds(shard, w);
    for (uint64_t i = 0; i < shard->chunk_count; i++)
        swi_native_chunk_at(shard, i, &w->chunks[i]);
    const swi_native_tail tail = {.pieces = w->pieces,
                                  .piece_count = (size_t)w->piece_count,
                                  .chunks = w->chunks,
                                  .chunk_count = (size_t)shard->chunk_count,
                                  .values = shard->values,
                                  .values_bytes = (size_t)shard->values_bytes,
                                  .chunks_end = shard->values_at,
                                  .whole = w->whole};
    must(swi_native_tail_write(&shard->head, &tail, &out, &same, NULL) == SW_OK);
    must(out.size == bytes->size - shard->values_at &&
         memcmp(out.data, bytes->data + shard->values_at, out.size) == 0);
    swi_native_head_write(&shard->head, head);
    must(same.bytes == file->bytes);
    if (memcmp(head, bytes->data, sizeof head) == 0) /* else of a newer minor version */
        must(memcmp(&same.digest, &file->digest, sizeof same.digest) == 0);
    swi_buf_free(&out);
}

static void use(const swi_native_shard *shard, const swi_buf *bytes, const swi_native_file *file)
{
    swi_native_chunks *chunks = NULL;
    mem_reader reader;
    bool zero;
    uint64_t at = 0;
    walked *w = calloc(1, sizeof *w);
    must(w != NULL);
    mem_reader_init(&reader, bytes->data, bytes->size);
    must(swi_native_chunks_make(shard, 1, &chunks, NULL) == SW_OK);
    must(swi_native_padding_check(shard, &reader.pub, 0, &zero, &at, NULL) == SW_OK);
    must(zero || bytes->data[at] != 0);
    if (walk(shard, chunks, bytes, &reader, w))
        write_again(shard, w, bytes, file);
    swi_native_chunks_free(chunks);
    mem_reader_end(&reader);
    free(w);
}

static int fuzz(const uint8_t *data, size_t size)
{
    sample s;
    sw_error err;
    swi_native_shard shard;
    const sw_limits limits = {.metadata_bytes = 1 << 20};
    if (size == 0)
        return 0;
    must(sample_make(&s, 1U << data[0] / 16 % 8));
    if (data[0] % 2 == 0) {
        s.bytes.size = 0;
        must(swi_buf_append(&s.bytes, data + 1, size - 1, NULL) == SW_OK);
    } else {
        patch(&s.bytes, data + 1, size - 1);
    }
    if (data[0] / 2 % 4 != 3)
        must(sample_seal(&s.bytes, &s.file));
    swi_store *store = store_of(&s.bytes);
    const swi_native_expect expect = {
        .file = &s.file, .rank = 1, .world = 3, .save_id = s.head.save_id};
    sw_status status = swi_native_shard_open(store, &expect, &limits, &shard, &err);
    if (status == SW_OK) {
        use(&shard, &s.bytes, &s.file);
        swi_native_shard_free(&shard);
    } else {
        must_explain(status, &err);
    }
    swi_store_close(store);
    sample_free(&s);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count;
    uint8_t *bytes = bytes_of_hex(data, size, &count);
    if (bytes == NULL)
        return fuzz(data, size);
    (void)fuzz(bytes, count);
    free(bytes);
    return 0;
}
