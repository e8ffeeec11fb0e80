#include <inttypes.h>
#include <stdio.h>

#include "base/report.h"
#include "format/mem_reader.h"
#include "format/native/shard_sample.h"
#include "harness/harness.h"
#include "io/store.h"

#define ALIGN 16

/* A sample in a store of its own, and what its manifest says of it. */
typedef struct stage {
    sample s;
    swi_store *store;
    swi_native_expect expect;
} stage;

static void put_file(stage *t, const void *data, size_t size)
{
    sw_error err = {0};
    swi_file *file;
    swi_store_close(t->store);
    assert_ok(swi_store_open_memory(&t->store, &err), &err);
    assert_ok(swi_store_create(t->store, SAMPLE_NAME, &file, &err), &err);
    assert_ok(swi_file_write(file, 0, data, size, &err), &err);
    swi_file_close(file);
}

static void set_up(stage *t, uint32_t align)
{
    *t = (stage){0};
    assert_true(sample_make(&t->s, align));
    t->expect = (swi_native_expect){
        .file = &t->s.file, .rank = 1, .world = 3, .save_id = t->s.head.save_id};
    put_file(t, t->s.bytes.data, t->s.bytes.size);
}

static void tear_down(stage *t)
{
    swi_store_close(t->store);
    sample_free(&t->s);
}

static sw_status open_it(const stage *t, swi_native_shard *out, sw_error *err)
{
    *err = (sw_error){0};
    return swi_native_shard_open(t->store, &t->expect, NULL, out, err);
}

/* The file's bytes are refused: outputs stay as they are, the text begins with the name. */
static void refuse(stage *t, sw_status status, const char *text, bool has_offset, uint64_t offset)
{
    sw_error err;
    swi_native_shard shard = {.bytes = 77};
    put_file(t, t->s.bytes.data, t->s.bytes.size);
    assert_int_equal(open_it(t, &shard, &err), status);
    assert_error(&err, status, text);
    assert_memory_equal(err.text, SAMPLE_NAME ": ", sizeof SAMPLE_NAME + 1);
    assert_int_equal(shard.bytes, 77);
    assert_int_equal(err.has_offset, has_offset);
    if (has_offset && err.offset_bytes != offset)
        fail_msg("%s: at %" PRIu64 ", expected %" PRIu64, err.text, err.offset_bytes, offset);
}

/* ---- reading back -------------------------------------------------------------------------- */

static void same_pieces(const stage *t, const swi_native_shard *shard)
{
    sw_error err = {0};
    swi_native_walk walk = {0};
    swi_native_piece piece;
    uint64_t first, chunks, all = 0;
    bool more = true;
    size_t i = 0;
    while (assert_ok(swi_native_piece_next(shard, &walk, sample_shape, NULL, &piece, &first,
                                           &chunks, &more, &err),
                     &err),
           more) {
        const swi_native_piece *is = &t->s.pieces[i++];
        assert_int_equal(piece.tensor, is->tensor);
        assert_int_equal(piece.flat, is->flat);
        assert_int_equal(piece.axes, is->axes);
        assert_memory_equal(piece.offset, is->offset, piece.axes * sizeof piece.offset[0]);
        assert_memory_equal(piece.length, is->length, piece.axes * sizeof piece.length[0]);
        assert_memory_equal(piece.chunk, is->chunk, piece.axes * sizeof piece.chunk[0]);
        assert_int_equal(first, all);
        all += chunks;
    }
    assert_int_equal(i, SAMPLE_PIECES);
    assert_int_equal(all, t->s.chunk_count);
}

static void written_and_read(void **state)
{
    (void)state;
    static const uint32_t aligns[] = {1, 2, 64, 4096, 65536};
    for (size_t a = 0; a < sizeof aligns / sizeof aligns[0]; a++) {
        stage t;
        sw_error err;
        swi_native_shard shard;
        swi_native_chunk chunk;
        set_up(&t, aligns[a]);
        assert_ok(open_it(&t, &shard, &err), &err);
        assert_int_equal(shard.head.align, aligns[a]);
        assert_int_equal(shard.bytes, t.s.bytes.size);
        assert_int_equal(shard.values_bytes, sizeof SAMPLE_VALUES - 1);
        assert_memory_equal(shard.values, SAMPLE_VALUES, sizeof SAMPLE_VALUES - 1);
        assert_int_equal(shard.chunk_count, t.s.chunk_count);
        for (size_t i = 0; i < t.s.chunk_count; i++) {
            swi_native_chunk_at(&shard, i, &chunk);
            assert_int_equal(chunk.offset_bytes, t.s.chunks[i].offset_bytes);
            assert_int_equal(chunk.stored_bytes, t.s.chunks[i].stored_bytes);
            assert_memory_equal(&chunk.digest, &t.s.chunks[i].digest, sizeof chunk.digest);
        }
        same_pieces(&t, &shard);
        swi_native_shard_free(&shard);
        tear_down(&t);
    }
}

static void nothing_in_it(void **state)
{
    (void)state;
    stage t;
    sw_error err;
    swi_native_shard shard;
    swi_native_walk walk = {0};
    swi_native_piece piece;
    uint64_t first, chunks;
    bool more = true;
    uint8_t head[SWI_NATIVE_HEAD_BYTES];
    const swi_native_tail tail = {.chunks_end = SWI_NATIVE_HEAD_BYTES};
    set_up(&t, ALIGN);
    swi_buf_free(&t.s.bytes);
    swi_native_head_write(&t.s.head, head);
    assert_ok(swi_buf_append(&t.s.bytes, head, sizeof head, &err), &err);
    assert_ok(swi_native_tail_write(&t.s.head, &tail, &t.s.bytes, &t.s.file, &err), &err);
    assert_int_equal(t.s.file.bytes, SWI_NATIVE_HEAD_BYTES + SWI_NATIVE_FOOT_BYTES);
    put_file(&t, t.s.bytes.data, t.s.bytes.size);
    assert_ok(open_it(&t, &shard, &err), &err);
    assert_null(shard.values);
    assert_int_equal(shard.piece_count, 0);
    assert_ok(swi_native_piece_next(&shard, &walk, sample_shape, NULL, &piece, &first, &chunks,
                                    &more, &err),
              &err);
    assert_false(more);
    swi_native_shard_free(&shard);
    tear_down(&t);
}

/* ---- damage -------------------------------------------------------------------------------- */

/* Digests of all chunks and the padding, as verify does it; true: something was noticed. */
static bool look_inside(const stage *t, const swi_native_shard *shard, uint64_t *where)
{
    sw_error err = {0};
    sw_report *report;
    swi_native_chunks *chunks;
    mem_reader reader;
    uint8_t buffer[8];
    bool zero = false;
    swi_blob_check tally = {0};
    const swi_blob_label label = {.file = SAMPLE_NAME, .name = "a tensor"};
    mem_reader_init(&reader, t->s.bytes.data, t->s.bytes.size);
    assert_ok(sw_report_make(&report, &err), &err);
    assert_ok(swi_native_chunks_make(shard, 1, &chunks, &err), &err);
    for (uint64_t i = 0; i < shard->chunk_count; i++) {
        swi_blob blob;
        assert_ok(swi_native_chunks_blob(chunks, 0, i, 0, t->s.chunks[i].stored_bytes, &blob, &err),
                  &err);
        assert_ok(blob.ops->check(&blob, &reader.pub, &label, buffer, sizeof buffer, report, &tally,
                                  &err),
                  &err);
    }
    assert_ok(swi_native_padding_check(shard, &reader.pub, 0, &zero, where, &err), &err);
    const sw_finding *found = sw_report_at(report, 0);
    bool noticed = !zero || found != NULL;
    if (found != NULL) {
        assert_true(zero);
        assert_int_equal(sw_report_count(report), 1);
        assert_string_equal(found->code, "chunk-mismatch");
        assert_string_equal(found->file, SAMPLE_NAME);
        assert_string_equal(found->tensor, "a tensor");
        assert_int_equal(found->status, SW_ERR_CORRUPT);
        assert_contains(found->message, "its SHA-256 is ");
        assert_contains(found->message, ", the index says ");
        assert_contains(found->message, "chunk of ");
        *where = found->offset_bytes;
    } else {
        uint64_t all = 0;
        for (size_t i = 0; i < t->s.chunk_count; i++)
            all += t->s.chunks[i].stored_bytes;
        assert_int_equal(tally.checked_bytes, all);
    }
    swi_native_chunks_free(chunks);
    sw_report_free(report);
    mem_reader_end(&reader);
    return noticed;
}

/* Where look_inside must place a damage at this byte: at its chunk, or in the padding. */
static uint64_t place_of(const sample *s, uint64_t byte)
{
    for (size_t i = 0; i < s->chunk_count; i++)
        if (byte >= s->chunks[i].offset_bytes &&
            byte < s->chunks[i].offset_bytes + s->chunks[i].stored_bytes)
            return s->chunks[i].offset_bytes;
    return byte;
}

static void any_bit(void **state)
{
    (void)state;
    stage t;
    sw_error err;
    swi_native_shard shard;
    set_up(&t, ALIGN);
    uint64_t where = 0, values = t.s.chunks_end;
    uint64_t index = values + sizeof SAMPLE_VALUES - 1;
    for (uint64_t bit = 0; bit < 8 * t.s.bytes.size; bit++) {
        uint64_t byte = bit / 8;
        t.s.bytes.data[byte] ^= (uint8_t)(1U << bit % 8);
        put_file(&t, t.s.bytes.data, t.s.bytes.size);
        sw_status status = open_it(&t, &shard, &err);
        if (byte >= SWI_NATIVE_HEAD_BYTES && byte < values) {
            assert_ok(status, &err);
            assert_true(look_inside(&t, &shard, &where));
            assert_int_equal(where, place_of(&t.s, byte));
            swi_native_shard_free(&shard);
        } else {
            const char *text = byte < SWI_NATIVE_HEAD_BYTES                    ? SAMPLE_NAME
                               : byte < index                                  ? "values"
                               : byte < t.s.bytes.size - SWI_NATIVE_FOOT_BYTES ? "its index has"
                                                                               : "with its foot";
            if (byte < SWI_NATIVE_HEAD_BYTES)
                assert_true(status == SW_ERR_CORRUPT || status == SW_ERR_UNTRUSTED ||
                            status == SW_ERR_UNSUPPORTED);
            else
                assert_int_equal(status, SW_ERR_CORRUPT);
            assert_error(&err, status, text);
        }
        t.s.bytes.data[byte] ^= (uint8_t)(1U << bit % 8);
    }
    put_file(&t, t.s.bytes.data, t.s.bytes.size);
    assert_ok(open_it(&t, &shard, &err), &err);
    assert_false(look_inside(&t, &shard, &where));
    swi_native_shard_free(&shard);
    tear_down(&t);
}

static void any_length(void **state)
{
    (void)state;
    stage t;
    sw_error err;
    swi_native_shard shard;
    set_up(&t, ALIGN);
    size_t whole = t.s.bytes.size;
    for (size_t size = 0; size < whole; size++) {
        char text[64];
        put_file(&t, t.s.bytes.data, size);
        snprintf(text, sizeof text, "holds %zu bytes", size);
        assert_int_equal(open_it(&t, &shard, &err), SW_ERR_CORRUPT);
        assert_error(&err, SW_ERR_CORRUPT, text);
    }
    assert_ok(swi_buf_u8(&t.s.bytes, 0, &err), &err);
    refuse(&t, SW_ERR_CORRUPT, "the manifest says", true, whole + 1);
    swi_store_close(t.store);
    assert_ok(swi_store_open_memory(&t.store, &err), &err);
    assert_int_equal(open_it(&t, &shard, &err), SW_ERR_NOTFOUND);
    assert_contains(err.text, SAMPLE_NAME);
    tear_down(&t);
}

static void another_save_or_rank(void **state)
{
    (void)state;
    stage t;
    static const uint8_t other[SWI_SAVE_ID_BYTES] = {1, 2, 3};
    set_up(&t, ALIGN);
    t.expect.save_id = other;
    refuse(&t, SW_ERR_UNTRUSTED,
           "is of save a0a1a2a3a4a5a6a7a8a9aaabacadaeaf, the manifest is of save "
           "01020300000000000000000000000000 [NAT-10]",
           true, 24);
    t.expect.save_id = t.s.head.save_id;
    t.expect.rank = 2;
    refuse(&t, SW_ERR_UNTRUSTED, "is of rank 1 of 3, the manifest has it as rank 2 of 3", true, 12);
    t.expect.rank = 1;
    t.expect.world = 4;
    refuse(&t, SW_ERR_UNTRUSTED, "is of rank 1 of 3, the manifest has it as rank 1 of 4", true, 12);
    /* whose file it is comes before its size and digest: another save's are others */
    t.expect.world = 3;
    t.expect.save_id = other;
    t.s.file.bytes++;
    refuse(&t, SW_ERR_UNTRUSTED, "is of save", true, 24);
    tear_down(&t);
}

static void limits(void **state)
{
    (void)state;
    stage t;
    sw_error err = {0};
    swi_native_shard shard;
    set_up(&t, ALIGN);
    sw_limits small = {.metadata_bytes = sizeof SAMPLE_VALUES - 2};
    assert_int_equal(swi_native_shard_open(t.store, &t.expect, &small, &shard, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "its section of values is of 33 bytes, the limit is 32");
    small.metadata_bytes++;
    assert_int_equal(swi_native_shard_open(t.store, &t.expect, &small, &shard, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "its index is of");
    tear_down(&t);
}

/* ---- what lies behind right digests ---------------------------------------------------------- */

typedef enum part { HEAD, FOOT, INDEX, CHUNK } part;

typedef struct edit {
    part in;     /* where the offset counts from: CHUNK: the record of chunk 0 */
    uint64_t at; /* what is overwritten */
    uint64_t value;
    size_t size;
    sw_status status;
    uint64_t says_at; /* position of the refusal, counted likewise */
    const char *text;
} edit;

/* Pieces of the sample: a box at 0 of the index, flat at 64, whole at 104, boxes at 120 and 184. */
static const edit edits[] = {
    {HEAD, 0, 'X', 1, SW_ERR_CORRUPT, 0, "does not begin as a shard file does [NAT-10]"},
    {HEAD, 8, 2, 2, SW_ERR_UNSUPPORTED, 8, "is of version 2.0 of the native format"},
    {HEAD, 8, 0, 2, SW_ERR_UNSUPPORTED, 8, "is of version 0.0 of the native format"},
    {HEAD, 20, 0, 4, SW_ERR_CORRUPT, 20, "aligns its chunks to 0, expected a power of two"},
    {HEAD, 20, 24, 4, SW_ERR_CORRUPT, 20, "aligns its chunks to 24"},
    {HEAD, 20, 131072, 4, SW_ERR_CORRUPT, 20, "aligns its chunks to 131072"},
    {HEAD, 40, 1, 1, SW_ERR_CORRUPT, 40, "the end of its head is not zero"},
    {HEAD, 63, 1, 1, SW_ERR_CORRUPT, 40, "the end of its head is not zero"},
    {FOOT, 0, 63, 8, SW_ERR_CORRUPT, 0, "do not end at the index"},
    {FOOT, 0, UINT64_MAX, 8, SW_ERR_CORRUPT, 0, "do not end at the index"},
    {FOOT, 8, 31, 8, SW_ERR_CORRUPT, 0, "values of 31 bytes at"},
    {FOOT, 8, UINT64_MAX, 8, SW_ERR_CORRUPT, 0, "do not end at the index"},
    {FOOT, 48, UINT64_MAX, 8, SW_ERR_CORRUPT, 0, "do not end at the index"},
    {FOOT, 56, UINT64_MAX, 8, SW_ERR_CORRUPT, 48, "does not end at the foot"},
    {FOOT, 56, 1, 8, SW_ERR_CORRUPT, 48, "an index of 1 bytes at"},
    {FOOT, 96, 1, 8, SW_ERR_CORRUPT, 96, "bytes, its foot says 1 [NAT-10]"},
    {FOOT, 104, (uint64_t)1 << 63, 8, SW_ERR_CORRUPT, 104,
     "9223372036854775808 pieces and 11 chunks do not fit an index of"},
    {FOOT, 104, UINT64_MAX / 16 + 2, 8, SW_ERR_CORRUPT, 104, "do not fit an index of"},
    {FOOT, 104, 16, 8, SW_ERR_CORRUPT, 104, "16 pieces and 11 chunks do not fit an index of 776"},
    {FOOT, 112, UINT64_MAX / 48 + 1, 8, SW_ERR_CORRUPT, 104, "do not fit an index of"},
    {FOOT, 120, 1, 1, SW_ERR_CORRUPT, 120, "does not end as a shard file does"},
    {FOOT, 159, 'x', 1, SW_ERR_CORRUPT, 120, "does not end as a shard file does"},
    {INDEX, 4, 3, 1, SW_ERR_CORRUPT, 4, "a piece of tensor 0 is of no kind that there is"},
    {INDEX, 4, 1, 1, SW_ERR_CORRUPT, 5, "has a number of axes that is not that of its kind"},
    {INDEX, 4, 2, 1, SW_ERR_CORRUPT, 5, "has a number of axes that is not that of its kind"},
    {INDEX, 5, 11, 1, SW_ERR_CORRUPT, 5, "has a number of axes that is not that of its kind"},
    {INDEX, 6, 256, 2, SW_ERR_CORRUPT, 4, "is of no kind that there is"},
    {INDEX, 8, 3, 8, SW_ERR_CORRUPT, 8, "is not cut into as many chunks as it says"},
    {INDEX, 16, (uint64_t)1 << 63, 8, SW_ERR_CORRUPT, 16, "has a number of more than 63 bits"},
    {INDEX, 16, INT64_MAX, 8, SW_ERR_CORRUPT, 8, "is not cut into as many chunks as it says"},
    {INDEX, 32, 0, 8, SW_ERR_CORRUPT, 8, "is not cut into as many chunks as it says"},
    {INDEX, 48, 0, 8, SW_ERR_CORRUPT, 8, "is not cut into as many chunks as it says"},
    {INDEX, 48, 5, 8, SW_ERR_CORRUPT, 8, "is not cut into as many chunks as it says"},
    {INDEX, 104 + 8, 2, 8, SW_ERR_CORRUPT, 104 + 8, "a piece of tensor 3 is not cut into"},
    {INDEX, 184 + 4, 2, 2, SW_ERR_CORRUPT, 200, "and 48 bytes are left behind their records"},
    {INDEX, 104, 1, 4, SW_ERR_CORRUPT, 104, "a piece of tensor 1 follows one of a later tensor"},
    {CHUNK, 0, 65, 8, SW_ERR_CORRUPT, 0, "chunk 0 begins at 65, what lies before it ends at 64"},
    {CHUNK, 0, UINT64_MAX, 8, SW_ERR_CORRUPT, 0, "chunk 0 begins at 18446744073709551615"},
    {CHUNK, 48, 64, 8, SW_ERR_CORRUPT, 48, "chunk 1 begins at 64, what lies before it ends at 88"},
    {CHUNK, 8, 0, 4, SW_ERR_CORRUPT, 8, "chunk 0 of 0 bytes at 64 does not fit"},
    {CHUNK, 8, 4194304 + 65, 4, SW_ERR_CORRUPT, 8, "chunk 0 of 4194369 bytes at 64 does not fit"},
    {CHUNK, 8, UINT32_MAX, 4, SW_ERR_CORRUPT, 8, "chunk 0 of 4294967295 bytes at 64"},
    {CHUNK, 8, 33, 4, SW_ERR_CORRUPT, 48, "what lies before it ends at 97"},
    {CHUNK, 12, 3, 1, SW_ERR_UNSUPPORTED, 12, "chunk 0 is of codec 3"},
    {CHUNK, 13, 1, 1, SW_ERR_CORRUPT, 13, "the record of chunk 0 is not zero where it has to be"},
    {CHUNK, 15, 1, 1, SW_ERR_CORRUPT, 13, "the record of chunk 0 is not zero where it has to be"},
    {CHUNK, 10 * 48 + 8, 2, 4, SW_ERR_CORRUPT, 10 * 48 + 8, "chunk 10 of 2 bytes at"},
};

static uint64_t begin_of(const stage *t, part in)
{
    uint64_t foot = t->s.bytes.size - SWI_NATIVE_FOOT_BYTES;
    uint64_t index = t->s.chunks_end + sizeof SAMPLE_VALUES - 1;
    return in == HEAD    ? 0
           : in == FOOT  ? foot
           : in == INDEX ? index
                         : foot - 48 * (uint64_t)t->s.chunk_count;
}

static void overwrite(stage *t, uint64_t at, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        t->s.bytes.data[at + i] = (uint8_t)(value >> 8 * i);
}

static void any_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        const edit *e = &edits[i];
        stage t;
        set_up(&t, ALIGN);
        assert_int_equal(t.s.chunk_count, 11);
        uint64_t begin = begin_of(&t, e->in);
        overwrite(&t, begin + e->at, e->value, e->size);
        assert_true(sample_seal(&t.s.bytes, &t.s.file));
        refuse(&t, e->status, e->text, true, begin + e->says_at);
        tear_down(&t);
    }
}

/* Where the records of pieces end, and chunks begin, follows from the count of chunks. */
static void other_counts(void **state)
{
    (void)state;
    static const struct {
        uint64_t pieces, chunks, at;
        const char *text;
    } counts[] = {
        {5, 12, 184, "a piece of tensor 4 has a record that is cut by those of chunks"},
        {5, 10, 184 + 8, "a piece of tensor 4 has more chunks than are left"},
        {4, 11, 184, "the pieces have 10 chunks of 11, and 64 bytes are left behind their records"},
        {6, 11, 248, "the record of a piece is cut by those of chunks"},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        stage t;
        set_up(&t, ALIGN);
        uint64_t foot = begin_of(&t, FOOT);
        overwrite(&t, foot + 104, counts[i].pieces, 8);
        overwrite(&t, foot + 112, counts[i].chunks, 8);
        assert_true(sample_seal(&t.s.bytes, &t.s.file));
        refuse(&t, SW_ERR_CORRUPT, counts[i].text, true, begin_of(&t, INDEX) + counts[i].at);
        tear_down(&t);
    }
}

/* The values begin where the last chunk ends, and the first one where the head does. */
static void gaps(void **state)
{
    (void)state;
    static const struct {
        int64_t moved; /* where the values begin */
        const char *text;
    } cases[] = {{1, "the chunks end at 305, the values begin at 306"},
                 {-1, "chunk 10 of 1 bytes at 304 does not fit before the values, 304"},
                 {-242, "chunk 0 of 24 bytes at 64 does not fit before the values, 63"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stage t;
        sw_error err;
        swi_native_shard shard;
        set_up(&t, ALIGN);
        uint64_t foot = begin_of(&t, FOOT);
        overwrite(&t, foot, t.s.chunks_end + (uint64_t)cases[i].moved, 8);
        overwrite(&t, foot + 8, sizeof SAMPLE_VALUES - 1 - (uint64_t)cases[i].moved, 8);
        assert_true(sample_seal(&t.s.bytes, &t.s.file));
        put_file(&t, t.s.bytes.data, t.s.bytes.size);
        assert_int_equal(open_it(&t, &shard, &err), SW_ERR_CORRUPT);
        assert_error(&err, SW_ERR_CORRUPT, cases[i].text);
        tear_down(&t);
    }
}

/* A newer minor version changes nothing for this reader. */
static void newer_minor(void **state)
{
    (void)state;
    stage t;
    sw_error err;
    swi_native_shard shard;
    set_up(&t, ALIGN);
    overwrite(&t, 10, 9, 2);
    assert_true(sample_seal(&t.s.bytes, &t.s.file));
    put_file(&t, t.s.bytes.data, t.s.bytes.size);
    assert_ok(open_it(&t, &shard, &err), &err);
    swi_native_shard_free(&shard);
    tear_down(&t);
}

/* ---- against the tensors ------------------------------------------------------------------- */

static const edit misfits[] = {
    {INDEX, 184, 5, 4, SW_ERR_CORRUPT, 184, "a piece of tensor 5 is of none in the table"},
    {INDEX, 184, 3000, 4, SW_ERR_CORRUPT, 184, "a piece of tensor 3000 is of none in the table"},
    {INDEX, 16, 2, 8, SW_ERR_CORRUPT, 16, "a piece of tensor 0 reaches out of the tensor"},
    {INDEX, 16, 6, 8, SW_ERR_CORRUPT, 16, "a piece of tensor 0 reaches out of the tensor"},
    {INDEX, 0, 2, 4, SW_ERR_CORRUPT, 5, "has another number of axes than the tensor"},
    {INDEX, 64 + 16, 14, 8, SW_ERR_CORRUPT, 64 + 16, "a piece of tensor 2 reaches out of"},
    {INDEX, 64 + 16, 31, 8, SW_ERR_CORRUPT, 64 + 16, "a piece of tensor 2 reaches out of"},
};

static bool empty_shape(const void *ctx, uint32_t tensor, swi_native_shape *out)
{
    static const int64_t shape[2] = {1 << 20, 0}, large[2] = {1 << 20, 5};
    bool is_large = *(const bool *)ctx;
    if (tensor != 3)
        return sample_shape(NULL, tensor, out);
    *out = (swi_native_shape){.axes = 2, .shape = is_large ? large : shape, .element_bytes = 1};
    return true;
}

static sw_status walk_all(const swi_native_shard *shard, swi_native_shape_fn shape, const void *ctx,
                          sw_error *err)
{
    swi_native_walk walk = {0};
    swi_native_piece piece;
    uint64_t first, chunks;
    bool more = true;
    sw_status status = SW_OK;
    *err = (sw_error){0};
    while (status == SW_OK && more)
        status =
            swi_native_piece_next(shard, &walk, shape, ctx, &piece, &first, &chunks, &more, err);
    return status;
}

static void outside_tensors(void **state)
{
    (void)state;
    sw_error err;
    swi_native_shard shard;
    stage t;
    for (size_t i = 0; i < sizeof misfits / sizeof misfits[0]; i++) {
        const edit *e = &misfits[i];
        set_up(&t, ALIGN);
        uint64_t begin = begin_of(&t, e->in);
        overwrite(&t, begin + e->at, e->value, e->size);
        assert_true(sample_seal(&t.s.bytes, &t.s.file));
        put_file(&t, t.s.bytes.data, t.s.bytes.size);
        assert_ok(open_it(&t, &shard, &err), &err);
        assert_int_equal(walk_all(&shard, sample_shape, NULL, &err), e->status);
        assert_error(&err, e->status, e->text);
        assert_int_equal(err.offset_bytes, begin + e->says_at);
        swi_native_shard_free(&shard);
        tear_down(&t);
    }
    set_up(&t, ALIGN);
    assert_ok(open_it(&t, &shard, &err), &err);
    bool is_large = false;
    assert_int_equal(walk_all(&shard, empty_shape, &is_large, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "a piece of tensor 3 is all of a tensor without elements");
    is_large = true;
    assert_int_equal(walk_all(&shard, empty_shape, &is_large, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "a piece of tensor 3 has chunks of more than 4194304 bytes");
    swi_native_shard_free(&shard);
    tear_down(&t);
}

/* ---- writing ------------------------------------------------------------------------------- */

static void refuse_tail(const stage *t, const swi_native_tail *tail, const char *text)
{
    sw_error err = {0};
    swi_buf out = {0};
    swi_native_file file = {.bytes = 5};
    assert_int_equal(swi_native_tail_write(&t->s.head, tail, &out, &file, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, text);
    assert_int_equal(out.size, 0);
    assert_int_equal(file.bytes, 5);
    swi_buf_free(&out);
}

static void wrong_writers(void **state)
{
    (void)state;
    stage t;
    set_up(&t, ALIGN);
    swi_native_tail tail = sample_tail(&t.s);
    tail.chunk_count--;
    refuse_tail(&t, &tail, "pieces of 11 chunks, 10 were written");
    tail = sample_tail(&t.s);
    tail.chunks_end++;
    refuse_tail(&t, &tail, "the chunks end at");
    tail = sample_tail(&t.s);
    t.s.chunks[3].offset_bytes += ALIGN;
    refuse_tail(&t, &tail, "chunk 3: ");
    t.s.chunks[3].offset_bytes -= ALIGN;
    t.s.chunks[10].stored_bytes = 0;
    tail.chunks_end--;
    refuse_tail(&t, &tail, "chunk 10: 0 bytes at 304");
    t.s.chunks[10].stored_bytes = 4194304 + 65;
    tail.chunks_end += 4194304 + 65;
    refuse_tail(&t, &tail, "chunk 10: 4194369 bytes at 304");
    t.s.chunks[10].stored_bytes = 1;
    tail.chunks_end = t.s.chunks_end;
    t.s.pieces[1].tensor = 3;
    t.s.pieces[2].tensor = 2;
    refuse_tail(&t, &tail, "piece 2 is of tensor 2, after 3");
    t.s.pieces[1].tensor = 2;
    t.s.pieces[2].tensor = 3;
    t.s.whole[0] = true;
    refuse_tail(&t, &tail, "piece 0 (tensor 0) has no such grid");
    t.s.whole[0] = false;
    t.s.pieces[0].length[1] = 0;
    refuse_tail(&t, &tail, "piece 0 (tensor 0) has no such grid");
    t.s.pieces[0].length[1] = 7;
    t.s.head.align = 48;
    refuse_tail(&t, &tail, "chunks cannot be aligned to 48");
    tear_down(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_and_read),
        cmocka_unit_test(nothing_in_it),
        cmocka_unit_test(any_bit),
        cmocka_unit_test(any_length),
        cmocka_unit_test(another_save_or_rank),
        cmocka_unit_test(limits),
        cmocka_unit_test(any_rule),
        cmocka_unit_test(other_counts),
        cmocka_unit_test(gaps),
        cmocka_unit_test(newer_minor),
        cmocka_unit_test(outside_tensors),
        cmocka_unit_test(wrong_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
