/* Tables and indexes of more than one range of threads: every place is found, the first failure is
 * told. */
#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

#include "format/native/shard_sample.h"
#include "native/table.h"

enum { TENSORS = 30000, PIECES = 30000, CHUNKS = 150000, TENSOR_BYTES = 9 };

static void put_number(uint8_t *to, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(v >> (8 * i));
}

/* ---- a table --------------------------------------------------------------------------------- */

static void the_first_tensor_that_is_wrong_is_told(void **state)
{
    (void)state;
    static char names[TENSORS][8];
    static swi_native_tensor tensors[TENSORS];
    swi_buf out = {0};
    sw_error err = {0};
    swi_native_table table;
    for (size_t i = 0; i < TENSORS; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%05zu", i);
        tensors[i] = (swi_native_tensor){.name = names[i], .name_size = 6, .dtype = SW_U8};
    }
    assert_ok(swi_native_table_write(tensors, TENSORS, &out, &err), &err);
    uint8_t *names_at = out.data + out.size - 7 * (size_t)TENSORS;
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        assert_ok(swi_native_table_read(out.data, out.size, 1, threads, &table, &err), &err);
        for (size_t bad = 1000; bad < TENSORS; bad += 2048) {
            names_at[7 * bad] = names_at[7 * (TENSORS - 1)] = 'a';
            assert_int_equal(swi_native_table_read(out.data, out.size, 1, threads, &table, &err),
                             SW_ERR_CORRUPT);
            char text[80];
            (void)snprintf(text, sizeof text, "tensor %zu of 30000: its name is not behind", bad);
            assert_error(&err, SW_ERR_CORRUPT, text);
            names_at[7 * bad] = names_at[7 * (TENSORS - 1)] = 't';
        }
    }
    swi_buf_free(&out);
}

/* ---- an index -------------------------------------------------------------------------------- */

static bool shape_of(const void *ctx, uint32_t tensor, swi_native_shape *out)
{
    static const int64_t shape[1] = {TENSOR_BYTES};
    (void)ctx;
    *out = (swi_native_shape){.axes = 1, .shape = shape, .element_bytes = 1};
    return tensor < PIECES;
}

/* A file of one piece by tensor, every other of 9 chunks of a byte each. */
static void make_file(swi_buf *bytes, swi_native_file *file, swi_native_head *head)
{
    static swi_native_piece pieces[PIECES];
    static swi_native_chunk chunks[CHUNKS];
    static bool whole[PIECES];
    uint8_t start[SWI_NATIVE_HEAD_BYTES];
    sw_error err = {0};
    size_t count = 0;
    uint64_t at = SWI_NATIVE_HEAD_BYTES;
    *head = (swi_native_head){.world = 1, .align = 1};
    for (uint32_t i = 0; i < PIECES; i++) {
        const uint32_t step = i % 2 == 0 ? 1 : TENSOR_BYTES;
        pieces[i] =
            (swi_native_piece){.tensor = i, .axes = 1, .length = {TENSOR_BYTES}, .chunk = {step}};
        whole[i] = i % 2 == 1;
        for (uint32_t k = 0; k < TENSOR_BYTES; k += step, at += step)
            chunks[count++] = (swi_native_chunk){.offset_bytes = at, .stored_bytes = step};
    }
    assert_int_equal(count, CHUNKS);
    const swi_native_tail tail = {.pieces = pieces,
                                  .piece_count = PIECES,
                                  .chunks = chunks,
                                  .chunk_count = CHUNKS,
                                  .chunks_end = at,
                                  .whole = whole};
    swi_native_head_write(head, start);
    assert_ok(swi_buf_append(bytes, start, sizeof start, &err), &err);
    assert_ok(swi_buf_fill(bytes, 7, at - SWI_NATIVE_HEAD_BYTES, &err), &err);
    assert_ok(swi_native_tail_write(head, &tail, bytes, file, &err), &err);
}

static sw_status open_bytes(const swi_buf *bytes, swi_native_file *file,
                            const swi_native_head *head, swi_native_shard *out, sw_error *err)
{
    swi_store *store = NULL;
    swi_file *written = NULL;
    const swi_native_expect expect = {
        .file = file, .world = 1, .save_id = head->save_id, .threads = 4};
    file->file = (char *)(uintptr_t) "rank-00000-of-00001.sws";
    assert_ok(swi_store_open_memory(&store, err), err);
    assert_ok(swi_store_create(store, file->file, &written, err), err);
    assert_ok(swi_file_write(written, 0, bytes->data, bytes->size, err), err);
    swi_file_close(written);
    sw_status status = swi_native_shard_open(store, &expect, NULL, out, err);
    swi_store_close(store);
    return status;
}

static void every_chunk_is_near_a_mark(void **state)
{
    (void)state;
    swi_buf bytes = {0};
    swi_native_file file = {0};
    swi_native_head head;
    swi_native_shard shard;
    sw_error err = {0};
    make_file(&bytes, &file, &head);
    assert_ok(open_bytes(&bytes, &file, &head, &shard, &err), &err);
    for (uint64_t chunk = 0; chunk < CHUNKS; chunk += 1 + chunk % 61) {
        swi_native_walk walk;
        swi_native_piece piece;
        uint64_t first = 0, count = 0;
        bool more = true;
        swi_native_walk_near(&shard, chunk, &walk);
        assert_true(walk.chunk <= chunk && chunk - walk.chunk < 1024 + TENSOR_BYTES);
        while (first + count <= chunk && more)
            assert_ok(swi_native_piece_next(&shard, &walk, shape_of, NULL, &piece, &first, &count,
                                            &more, &err),
                      &err);
        assert_true(first <= chunk && more);
        assert_int_equal(piece.tensor, chunk / 10 * 2 + (chunk % 10 == 9));
    }
    swi_native_shard_free(&shard);
    swi_buf_free(&bytes);
}

static void the_first_chunk_that_is_wrong_is_told(void **state)
{
    (void)state;
    static const uint64_t wrong[] = {0, 65535, 65536, 70000, 131071, 131072, CHUNKS - 1};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        swi_buf bytes = {0};
        swi_native_file file = {0};
        swi_native_head head;
        swi_native_shard shard;
        sw_error err = {0};
        char text[40];
        make_file(&bytes, &file, &head);
        uint8_t *records = bytes.data + bytes.size - SWI_NATIVE_FOOT_BYTES - 48 * (size_t)CHUNKS;
        put_number(records + 48 * wrong[i], 1, 8);
        put_number(records + 48 * (size_t)(CHUNKS - 1), 2, 8);
        assert_true(sample_seal(&bytes, &file));
        assert_int_equal(open_bytes(&bytes, &file, &head, &shard, &err), SW_ERR_CORRUPT);
        (void)snprintf(text, sizeof text, "chunk %d begins at", (int)wrong[i]);
        assert_error(&err, SW_ERR_CORRUPT, text);
        swi_buf_free(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_tensor_that_is_wrong_is_told),
        cmocka_unit_test(every_chunk_is_near_a_mark),
        cmocka_unit_test(the_first_chunk_that_is_wrong_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
