#include <pthread.h>
#include <stdlib.h>

#include "base/report.h"
#include "format/mem_reader.h"
#include "format/native/shard_sample.h"
#include "harness/harness.h"
#include "model/blob.h"

#define CODECS 3
#define RAW_BYTES 60000U /* odd steps, several reads of the buffer */

/* A shard file of one tensor of uint16 in a chunk for each codec, next to an empty one. */
typedef struct stage {
    uint8_t raw[RAW_BYTES];
    swi_buf bytes;
    swi_native_shard shards[3];
    swi_native_chunks *chunks;
    mem_reader reader;
    sw_report *report;
} stage;

static void encode(stage *t, swi_chunk_codec codec, swi_native_chunk *out)
{
    sw_error err = {0};
    swi_chunk_coder *coder;
    uint8_t *room = malloc(SWI_CHUNK_STORED_MAX(RAW_BYTES));
    size_t size;
    swi_chunk_codec used;
    assert_non_null(room);
    assert_ok(swi_chunk_coder_make(&coder, &err), &err);
    assert_ok(swi_chunk_encode(coder, (swi_chunk_choice){codec, 1}, 2, t->raw, RAW_BYTES, room,
                               &size, &used, &err),
              &err);
    assert_int_equal(used, codec);
    *out = (swi_native_chunk){
        .offset_bytes = t->bytes.size, .stored_bytes = (uint32_t)size, .codec = (uint8_t)codec};
    assert_true(sample_hash(room, size, &out->digest));
    assert_ok(swi_buf_append(&t->bytes, room, size, &err), &err);
    swi_chunk_coder_free(coder);
    free(room);
}

/* The bytes of the file as a shard, without the store's detour. */
static void open_bytes(stage *t, const swi_native_file *file, const swi_native_head *head)
{
    sw_error err = {0};
    swi_store *store;
    swi_file *out;
    const swi_native_expect expect = {
        .file = file, .rank = head->rank, .world = head->world, .save_id = head->save_id};
    assert_ok(swi_store_open_memory(&store, &err), &err);
    assert_ok(swi_store_create(store, file->file, &out, &err), &err);
    assert_ok(swi_file_write(out, 0, t->bytes.data, t->bytes.size, &err), &err);
    swi_file_close(out);
    assert_ok(swi_native_shard_open(store, &expect, NULL, &t->shards[1], &err), &err);
    swi_store_close(store);
}

static void set_up(stage *t)
{
    sw_error err = {0};
    uint8_t begin[SWI_NATIVE_HEAD_BYTES];
    swi_native_chunk chunks[CODECS];
    const swi_native_head head = {.world = 1, .align = 1};
    const swi_native_piece piece = {
        .axes = 1, .length = {CODECS * (RAW_BYTES / 2)}, .chunk = {RAW_BYTES / 2}};
    swi_native_file file = {.file = SAMPLE_NAME};
    memset(t, 0, sizeof *t);
    for (size_t i = 0; i < RAW_BYTES; i++)
        t->raw[i] = i % 2 ? (uint8_t)(60 + i % 3) : (uint8_t)(i * i >> 3);
    swi_native_head_write(&head, begin);
    assert_ok(swi_buf_append(&t->bytes, begin, sizeof begin, &err), &err);
    for (int i = 0; i < CODECS; i++)
        encode(t, (swi_chunk_codec)i, &chunks[i]);
    const swi_native_tail tail = {.pieces = &piece,
                                  .piece_count = 1,
                                  .chunks = chunks,
                                  .chunk_count = CODECS,
                                  .chunks_end = t->bytes.size};
    assert_ok(swi_native_tail_write(&head, &tail, &t->bytes, &file, &err), &err);
    open_bytes(t, &file, &head);
    assert_ok(swi_native_chunks_make(t->shards, 3, &t->chunks, &err), &err);
    assert_ok(sw_report_make(&t->report, &err), &err);
    mem_reader_init(&t->reader, t->bytes.data, t->bytes.size);
}

static void tear_down(stage *t)
{
    swi_native_chunks_free(t->chunks);
    swi_native_shard_free(&t->shards[1]);
    sw_report_free(t->report);
    mem_reader_end(&t->reader);
    swi_buf_free(&t->bytes);
}

static swi_blob blob_of(const stage *t, uint64_t chunk)
{
    sw_error err = {0};
    swi_blob blob;
    assert_ok(swi_native_chunks_blob(t->chunks, 1, chunk, 0, RAW_BYTES, &blob, &err), &err);
    return blob;
}

static swi_native_chunk chunk_of(const stage *t, uint64_t chunk)
{
    swi_native_chunk out;
    swi_native_chunk_at(&t->shards[1], chunk, &out);
    return out;
}

static void each_codec(void **state)
{
    (void)state;
    stage t;
    sw_error err = {0};
    uint8_t *raw = malloc(RAW_BYTES);
    assert_non_null(raw);
    set_up(&t);
    for (uint64_t i = 0; i < CODECS; i++) {
        swi_blob blob = blob_of(&t, i);
        swi_native_chunk chunk = chunk_of(&t, i);
        const swi_blob_want want = {.dtype = SW_U16};
        swi_extent extent;
        assert_int_equal(chunk.codec, i);
        assert_int_equal(blob.bytes, RAW_BYTES);
        assert_string_equal(blob.ops->kind, "native-chunk");
        assert_ok(blob.ops->resolve(&blob, &t.reader.pub, &want, &extent, &err), &err);
        assert_true(extent.encoded);
        assert_int_equal(extent.offset_bytes, chunk.offset_bytes);
        assert_int_equal(extent.stored_bytes, chunk.stored_bytes);
        memset(raw, 0, RAW_BYTES);
        assert_ok(blob.ops->decode(&blob, t.bytes.data + chunk.offset_bytes, raw, &err), &err);
        assert_memory_equal(raw, t.raw, RAW_BYTES);
    }
    tear_down(&t);
    free(raw);
}

/* Not even the decoder sees bytes that are not those that were written. */
static void other_bytes(void **state)
{
    (void)state;
    stage t;
    static uint8_t raw[RAW_BYTES], buffer[1000];
    set_up(&t);
    for (uint64_t i = 0; i < CODECS; i++) {
        sw_error err = {0};
        swi_blob blob = blob_of(&t, i);
        swi_native_chunk chunk = chunk_of(&t, i);
        char text[SWI_DIGEST_TEXT];
        swi_blob_check tally = {0};
        const swi_blob_label label = {.file = SAMPLE_NAME, .name = "w"};
        t.bytes.data[chunk.offset_bytes + chunk.stored_bytes - 1] ^= 0x10;
        memset(raw, 0x5A, sizeof raw);
        assert_int_equal(blob.ops->decode(&blob, t.bytes.data + chunk.offset_bytes, raw, &err),
                         SW_ERR_CORRUPT);
        swi_digest_text(&chunk.digest, text);
        assert_error(&err, SW_ERR_CORRUPT, "its SHA-256 is ");
        assert_error(&err, SW_ERR_CORRUPT, text);
        assert_int_equal(err.offset_bytes, 0);
        assert_int_equal(raw[0], 0x5A);
        assert_ok(blob.ops->check(&blob, &t.reader.pub, &label, buffer, sizeof buffer, t.report,
                                  &tally, &err),
                  &err);
        assert_int_equal(tally.checked_bytes + tally.unchecked_bytes, 0);
        const sw_finding *found = sw_report_at(t.report, i);
        assert_non_null(found);
        assert_string_equal(found->code, "chunk-mismatch");
        assert_string_equal(found->tensor, "w");
        assert_int_equal(found->offset_bytes, chunk.offset_bytes);
        assert_contains(found->message, text);
    }
    tear_down(&t);
}

/* Encoded bytes that are vouched for and still decode to something else. */
static void other_codec(void **state)
{
    (void)state;
    stage t;
    sw_error err = {0};
    static uint8_t raw[RAW_BYTES + 2];
    set_up(&t);
    swi_native_chunk chunk = chunk_of(&t, SWI_CHUNK_ZSTD);
    swi_blob blob;
    assert_ok(swi_native_chunks_blob(t.chunks, 1, SWI_CHUNK_ZSTD, 0, RAW_BYTES + 2, &blob, &err),
              &err);
    assert_int_equal(blob.ops->decode(&blob, t.bytes.data + chunk.offset_bytes, raw, &err),
                     SW_ERR_CORRUPT);
    tear_down(&t);
}

static void wrong_sizes(void **state)
{
    (void)state;
    stage t;
    set_up(&t);
    static const struct {
        uint64_t chunk, raw;
        sw_status status;
        const char *text;
    } cases[] = {
        {0, RAW_BYTES - 2, SW_ERR_CORRUPT,
         "its chunk at 64 stores 59998 bytes in 60000 by codec 0"},
        {0, RAW_BYTES + 2, SW_ERR_CORRUPT, "its chunk at 64 stores 60002 bytes in 60000"},
        {1, 64, SW_ERR_CORRUPT, "stores 64 bytes in"},
        {1, 0, SW_ERR_CORRUPT, "stores 0 bytes in"},
        {1, SWI_CHUNK_RAW_MAX + 1, SW_ERR_CORRUPT, "stores 4194305 bytes in"},
        {CODECS, RAW_BYTES, SW_ERR_ARG, "there is no chunk 3 of shard file 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sw_error err = {0};
        swi_blob blob = {.aux = 9};
        assert_int_equal(
            swi_native_chunks_blob(t.chunks, 1, cases[i].chunk, 0, cases[i].raw, &blob, &err),
            cases[i].status);
        assert_error(&err, cases[i].status, cases[i].text);
        assert_int_equal(blob.aux, 9);
    }
    tear_down(&t);
}

static void cut_file(void **state)
{
    (void)state;
    stage t;
    sw_error err = {0};
    uint8_t buffer[4096];
    swi_blob_check tally = {0};
    const swi_blob_label label = {.file = SAMPLE_NAME, .name = "w"};
    set_up(&t);
    swi_blob blob = blob_of(&t, 2);
    t.reader.bytes = blob.offset_bytes + 5;
    assert_ok(blob.ops->check(&blob, &t.reader.pub, &label, buffer, sizeof buffer, t.report, &tally,
                              &err),
              &err);
    const sw_finding *found = sw_report_at(t.report, 0);
    assert_non_null(found);
    assert_string_equal(found->code, "unreadable-file");
    assert_contains(found->message, "the file ends early");
    tear_down(&t);
}

/* More chunks than a blob can number are refused, where they are. */
static void too_many(void **state)
{
    (void)state;
    stage t;
    sw_error err = {0};
    swi_blob blob;
    swi_native_chunks *chunks;
    set_up(&t);
    t.shards[0].chunk_count = UINT32_MAX - 1;
    assert_ok(swi_native_chunks_make(t.shards, 3, &chunks, &err), &err);
    assert_ok(swi_native_chunks_blob(chunks, 1, 1, 0, RAW_BYTES, &blob, &err), &err);
    assert_int_equal(blob.aux, UINT32_MAX);
    assert_int_equal(swi_native_chunks_blob(chunks, 1, 2, 0, RAW_BYTES, &blob, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 2^32 chunks");
    t.shards[0].chunk_count = 0;
    swi_native_chunks_free(chunks);
    swi_native_chunks_free(NULL);
    tear_down(&t);
}

static void *decode_often(void *arg)
{
    const stage *t = arg;
    sw_error err = {0};
    uint8_t *raw = malloc(RAW_BYTES);
    bool good = raw != NULL;
    for (uint64_t i = 0; i < 60 && good; i++) {
        swi_blob blob = blob_of(t, i % CODECS);
        good = blob.ops->decode(&blob, t->bytes.data + blob.offset_bytes, raw, &err) == SW_OK &&
               memcmp(raw, t->raw, RAW_BYTES) == 0;
    }
    free(raw);
    return good ? arg : NULL;
}

static void many_threads(void **state)
{
    (void)state;
    stage t;
    pthread_t threads[4];
    set_up(&t);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, decode_often, &t), 0);
    for (int i = 0; i < 4; i++) {
        void *good;
        assert_int_equal(pthread_join(threads[i], &good), 0);
        assert_non_null(good);
    }
    tear_down(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_codec),   cmocka_unit_test(other_bytes),
        cmocka_unit_test(other_codec),  cmocka_unit_test(wrong_sizes),
        cmocka_unit_test(cut_file),     cmocka_unit_test(too_many),
        cmocka_unit_test(many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
