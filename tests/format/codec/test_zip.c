/* Reading and writing zip archives; clauses are those of specs/torch_zip.md. */
#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

#include "codec/crc32.h"
#include "codec/zip.h"
#include "format/mem_reader.h"
#include "format/recipe.h"

/* data.pkl of torch.save(torch.arange(6.).reshape(2, 3)), torch 2.13 */
#define DATA_PKL                                                                                   \
    "\200\002ctorch._utils\n_rebuild_tensor_v2\nq\000((X\007\000\000\000storageq\001ctorch\n"      \
    "FloatStorage\nq\002X\001\000\000\0000q\003X\003\000\000\000cpuq\004K\006tq\005QK\000K\002K"   \
    "\003\206q\006K\003K\001\206q\007\211ccollections\nOrderedDict\nq\010)Rq\ttq\nRq\013."
#define SERIAL "1572819951185464302603622430115872126654"

typedef struct record {
    const char *name;
    const void *data;
    size_t size;
} record;

static const float six[6] = {0, 1, 2, 3, 4, 5};
static const record small[] = {
    {"archive/data.pkl", DATA_PKL, sizeof(DATA_PKL) - 1},
    {"archive/.format_version", "1", 1},
    {"archive/.storage_alignment", "64", 2},
    {"archive/byteorder", "little", 6},
    {"archive/data/0", six, sizeof(six)},
    {"archive/version", "3\n", 2},
    {"archive/.data/serialization_id", SERIAL, sizeof(SERIAL) - 1},
};
#define SMALL_COUNT (sizeof(small) / sizeof(small[0]))

static void write_archive(swi_buf *out, const record *records, size_t count, uint32_t alignment)
{
    sw_error err = {0};
    swi_zip_writer *w;
    assert_ok(swi_zip_writer_make(alignment, &w, &err), &err);
    for (size_t i = 0; i < count; i++) {
        const record *r = &records[i];
        assert_ok(swi_zip_writer_begin(w, r->name, r->size, out, &err), &err);
        assert_ok(swi_buf_append(out, r->data, r->size, &err), &err);
        assert_ok(swi_zip_writer_end(w, swi_crc32(0, r->data, r->size), out, &err), &err);
    }
    assert_ok(swi_zip_writer_finish(w, out, &err), &err);
    swi_zip_writer_free(w);
}

/* Reads all of an archive: directory, every header, payload, CRC and descriptor. */
static sw_status read_all(const swi_reader *reader, uint64_t offset, uint64_t bytes, swi_buf *all,
                          sw_error *err)
{
    swi_zip *zip;
    sw_status st = swi_zip_open(reader, 0, offset, bytes, &zip, err);
    if (st != SW_OK)
        return st;
    for (size_t i = 0; i < swi_zip_count(zip) && st == SW_OK; i++) {
        const swi_zip_entry *e = swi_zip_at(zip, i);
        uint64_t at, stray;
        st = swi_zip_payload(zip, reader, e, &at, err);
        if (st == SW_OK)
            st = swi_zip_check_descriptor(zip, reader, e, at, &stray, err);
        if (st == SW_OK && stray != 0)
            st = swi_fail(err, SW_ERR_CORRUPT, "stray bytes");
        if (st == SW_OK)
            st = swi_buf_append(all, e->name, strlen(e->name) + 1, err);
        if (st == SW_OK)
            st = swi_zip_read(zip, reader, e, 1 << 20, all, err);
    }
    swi_zip_free(zip);
    return st;
}

static sw_status read_bytes(const void *data, size_t size, swi_buf *all, sw_error *err)
{
    mem_reader m;
    mem_reader_init(&m, data, size);
    swi_buf room = {0};
    sw_status st = read_all(&m.pub, 0, size, all ? all : &room, err);
    swi_buf_free(&room);
    return st;
}

/* ---- good -------------------------------------------------------------------------------- */

static void good_same_bytes_as_torch(void **state)
{
    (void)state;
    swi_buf out = {0};
    write_archive(&out, small, SMALL_COUNT, 64);
    assert_int_equal(out.size, 1577);
    assert_int_equal(swi_crc32(0, out.data, out.size), 0xd60bbe97u); /* of torch's own file */
    swi_buf_free(&out);
}

static void good_reads_back(void **state)
{
    (void)state;
    static const uint32_t alignments[] = {1, 8, 64, 4096};
    for (size_t a = 0; a < 4; a++) {
        sw_error err = {0};
        swi_buf out = {0};
        swi_zip *zip;
        mem_reader m;
        swi_buf placed = {0};
        assert_ok(swi_buf_fill(&placed, 0xAA, 333, &err), &err);
        write_archive(&out, small, SMALL_COUNT, alignments[a]);
        assert_ok(swi_buf_append(&placed, out.data, out.size, &err), &err);
        assert_ok(swi_buf_fill(&placed, 0xBB, 77, &err), &err);
        mem_reader_init(&m, placed.data, placed.size);
        assert_ok(swi_zip_open(&m.pub, 0, 333, out.size, &zip, &err), &err);
        assert_int_equal(swi_zip_count(zip), SMALL_COUNT);
        assert_null(swi_zip_at(zip, SMALL_COUNT));
        assert_null(swi_zip_find(zip, "archive/data/1"));
        for (size_t i = 0; i < SMALL_COUNT; i++) {
            const swi_zip_entry *e = swi_zip_find(zip, small[i].name);
            swi_buf content = {0};
            uint64_t at;
            assert_ptr_equal(e, swi_zip_at(zip, i));
            assert_ok(swi_zip_payload(zip, &m.pub, e, &at, &err), &err);
            assert_int_equal((at - 333) % alignments[a], 0);
            assert_ok(swi_zip_read(zip, &m.pub, e, small[i].size, &content, &err), &err);
            assert_int_equal(content.size, small[i].size);
            assert_memory_equal(content.data, small[i].data, small[i].size);
            swi_buf_free(&content);
        }
        swi_zip_free(zip);
        swi_buf_free(&placed);
        swi_buf_free(&out);
    }
}

static void good_small_archive_is_one_read(void **state)
{
    (void)state;
    swi_buf out = {0}, all = {0};
    sw_error err = {0};
    mem_reader m;
    write_archive(&out, small, SMALL_COUNT, 64);
    mem_reader_init(&m, out.data, out.size);
    assert_ok(read_all(&m.pub, 0, out.size, &all, &err), &err);
    assert_int_equal(m.reads, 1);
    swi_buf_free(&all);
    swi_buf_free(&out);
}

static void good_empty_record_and_comment(void **state)
{
    (void)state;
    static const record records[] = {{"a/data.pkl", "N.", 2}, {"a/data/0", "", 0}};
    swi_buf out = {0};
    sw_error err = {0};
    write_archive(&out, records, 2, 64);
    /* A comment of 300 bytes that looks like another end record inside. */
    out.data[out.size - 2] = 300 & 0xFF;
    out.data[out.size - 1] = 300 >> 8;
    assert_ok(swi_buf_append(&out, "PK\005\006", 4, &err), &err);
    assert_ok(swi_buf_fill(&out, ' ', 296, &err), &err);
    assert_ok(read_bytes(out.data, out.size, NULL, &err), &err);
    swi_buf_free(&out);
}

static void good_crc_not_computed(void **state)
{
    (void)state;
    sw_error err = {0};
    swi_buf out = {0}, all = {0};
    swi_zip_writer *w;
    assert_ok(swi_zip_writer_make(64, &w, &err), &err);
    assert_ok(swi_zip_writer_begin(w, "a/x", 3, &out, &err), &err);
    assert_ok(swi_buf_append(&out, "abc", 3, &err), &err);
    assert_ok(swi_zip_writer_end(w, 0, &out, &err), &err);
    assert_ok(swi_zip_writer_finish(w, &out, &err), &err);
    swi_zip_writer_free(w);
    assert_ok(read_bytes(out.data, out.size, &all, &err), &err);
    assert_memory_equal(all.data, "a/x\0abc", 7);
    bool computed = true;
    swi_zip_entry e = {.crc32 = 0, .bytes = 3};
    assert_true(swi_zip_crc_agrees(&e, 5, &computed));
    assert_false(computed);
    assert_true(swi_zip_crc_agrees(&e, 0, &computed));
    assert_true(computed);
    e.crc32 = 5;
    assert_true(swi_zip_crc_agrees(&e, 5, &computed));
    assert_true(computed);
    assert_false(swi_zip_crc_agrees(&e, 6, &computed));
    assert_false(swi_zip_crc_agrees(&e, 0, &computed));
    swi_buf_free(&all);
    swi_buf_free(&out);
}

/* A record of 5 GiB and a small one behind it: sizes and offsets that need zip64. */
static void good_zip64(void **state)
{
    (void)state;
    const uint64_t big = (uint64_t)5 << 30;
    sw_error err = {0};
    swi_zip_writer *w;
    swi_zip *zip;
    swi_buf head = {0}, tail = {0};
    assert_ok(swi_zip_writer_make(64, &w, &err), &err);
    assert_ok(swi_zip_writer_begin(w, "a/data/0", big, &head, &err), &err);
    assert_ok(swi_zip_writer_end(w, 0x1234, &tail, &err), &err);
    assert_int_equal(tail.size, 24);
    assert_ok(swi_zip_writer_begin(w, "a/version", 2, &tail, &err), &err);
    assert_int_equal((head.size + tail.size) % 64, 0);
    assert_ok(swi_buf_append(&tail, "3\n", 2, &err), &err);
    assert_ok(swi_zip_writer_end(w, 0x55679ed1u, &tail, &err), &err);
    assert_ok(swi_zip_writer_finish(w, &tail, &err), &err);
    swi_zip_writer_free(w);
    mem_reader m;
    mem_reader_init(&m, head.data, head.size);
    m.runs[1].data = tail.data;
    m.runs[1].size = tail.size;
    m.runs[1].pos = head.size + big;
    m.bytes = head.size + big + tail.size;
    assert_ok(swi_zip_open(&m.pub, 0, 0, m.bytes, &zip, &err), &err);
    const swi_zip_entry *e = swi_zip_find(zip, "a/data/0");
    uint64_t at, stray;
    assert_int_equal(e->bytes, big);
    assert_int_equal(e->crc32, 0x1234);
    assert_ok(swi_zip_payload(zip, &m.pub, e, &at, &err), &err);
    assert_int_equal(at, head.size);
    assert_ok(swi_zip_check_descriptor(zip, &m.pub, e, at, &stray, &err), &err);
    assert_int_equal(stray, 0);
    e = swi_zip_find(zip, "a/version");
    assert_ok(swi_zip_payload(zip, &m.pub, e, &at, &err), &err);
    assert_ok(swi_zip_check_descriptor(zip, &m.pub, e, at, &stray, &err), &err);
    assert_int_equal(stray, 0);
    swi_zip_free(zip);
    swi_buf_free(&head);
    swi_buf_free(&tail);
}

static void good_many_records(void **state)
{
    (void)state;
    const size_t count = 70000;
    sw_error err = {0};
    swi_zip_writer *w;
    swi_zip *zip;
    swi_buf out = {0};
    char name[32];
    assert_ok(swi_zip_writer_make(1, &w, &err), &err);
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "a/data/%zu", i);
        assert_ok(swi_zip_writer_begin(w, name, 0, &out, &err), &err);
        assert_ok(swi_zip_writer_end(w, 0, &out, &err), &err);
    }
    assert_ok(swi_zip_writer_finish(w, &out, &err), &err);
    swi_zip_writer_free(w);
    mem_reader m;
    mem_reader_init(&m, out.data, out.size);
    assert_ok(swi_zip_open(&m.pub, 0, 0, out.size, &zip, &err), &err);
    assert_int_equal(swi_zip_count(zip), count);
    assert_ptr_equal(swi_zip_find(zip, "a/data/69999"), swi_zip_at(zip, 69999));
    swi_zip_free(zip);
    swi_buf_free(&out);
}

/* ---- bad --------------------------------------------------------------------------------- */

static void bad_every_truncation(void **state)
{
    (void)state;
    swi_buf out = {0};
    write_archive(&out, small, SMALL_COUNT, 64);
    for (size_t size = 0; size < out.size; size++) {
        sw_error err = {0};
        assert_int_equal(read_bytes(out.data, size, NULL, &err), SW_ERR_CORRUPT);
        assert_string_equal(err.clause, "ZIP-1");
        assert_contains(err.text, "cut after");
        assert_int_equal(err.offset_bytes, size);
    }
    swi_buf_free(&out);
}

static void bad_every_flipped_bit(void **state)
{
    (void)state;
    swi_buf out = {0}, want = {0};
    sw_error err = {0};
    size_t harmless = 0;
    write_archive(&out, small, SMALL_COUNT, 64);
    assert_ok(read_bytes(out.data, out.size, &want, &err), &err);
    for (size_t bit = 0; bit < out.size * 8; bit++) {
        swi_buf all = {0};
        out.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        sw_status st = read_bytes(out.data, out.size, &all, &err);
        out.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (st == SW_OK) {
            if (!recipe_uncovered(out.data, out.size, bit / 8))
                fail_msg("bit %zu of byte %zu goes unnoticed", bit % 8, bit / 8);
            assert_int_equal(all.size, want.size);
            assert_memory_equal(all.data, want.data, want.size);
            harmless++;
        } else {
            assert_int_not_equal(err.text[0], 0);
        }
        swi_buf_free(&all);
    }
    /* 7 local headers of 6 such bytes, 7 entries of 14, 4 and a bit; 3 records of 1 or 2 bytes */
    assert_int_equal(harmless, 7 * 6 * 8 + 7 * 14 * 8 + 4 * 8 + 1 + 3 * 2);
    swi_buf_free(&want);
    swi_buf_free(&out);
}

/* Where in an archive of `small` something lies. */
static size_t find(const swi_buf *b, const char *sig, size_t nth)
{
    for (size_t pos = 0; pos + 4 <= b->size; pos++)
        if (memcmp(b->data + pos, sig, 4) == 0 && nth-- == 0)
            return pos;
    fail_msg("signature not found");
    return 0;
}

#define LOCAL "PK\003\004"
#define CENTRAL "PK\001\002"
#define END64 "PK\006\006"
#define LOCATOR "PK\006\007"
#define END "PK\005\006"
#define DESCRIPTOR "PK\007\010"

typedef struct lie {
    const char *sig; /* the nth structure with this signature */
    size_t nth;
    size_t at; /* in it */
    uint64_t value;
    size_t width;
    sw_status status;
    const char *clause;
    const char *text;
} lie;

static const lie lies[] = {
    {END, 0, 4, 1, 2, SW_ERR_CORRUPT, "ZIP-2", "several disks"},
    {END, 0, 8, 6, 2, SW_ERR_CORRUPT, "ZIP-4", "twofold"},
    {END, 0, 12, 1, 4, SW_ERR_CORRUPT, "ZIP-4", "disagree"},
    {END, 0, 16, 0, 4, SW_ERR_CORRUPT, "ZIP-4", "disagree"},
    {END64, 0, 4, 45, 8, SW_ERR_CORRUPT, "ZIP-3", "not where its locator says"},
    {END64, 0, 24, 6, 8, SW_ERR_CORRUPT, "ZIP-3", "twofold"},
    {END64, 0, 20, 1, 4, SW_ERR_CORRUPT, "ZIP-2", "several disks"},
    {LOCATOR, 0, 8, UINT64_MAX - 8, 8, SW_ERR_CORRUPT, "ZIP-3", "outside the archive"},
    {LOCATOR, 0, 8, 0, 8, SW_ERR_CORRUPT, "ZIP-3", "not where its locator says"},
    {LOCATOR, 0, 16, 2, 4, SW_ERR_CORRUPT, "ZIP-2", "several disks"},
    {CENTRAL, 0, 0, 0, 4, SW_ERR_CORRUPT, "ZIP-5", "no directory entry"},
    {CENTRAL, 6, 28, 0xFFFF, 2, SW_ERR_CORRUPT, "ZIP-5", "runs over"},
    {CENTRAL, 2, 30, 100, 2, SW_ERR_CORRUPT, "ZIP-8", "runs over"},
    {CENTRAL, 4, 34, 1, 2, SW_ERR_CORRUPT, "ZIP-2", "several disks"},
    {CENTRAL, 4, 8, 0x0809, 2, SW_ERR_UNSUPPORTED, "ZIP-6", "encrypted"},
    {CENTRAL, 4, 8, 0x8808, 2, SW_ERR_UNSUPPORTED, "ZIP-6", "unknown flags 0x8808"},
    {CENTRAL, 4, 10, 93, 2, SW_ERR_UNSUPPORTED, "ZIP-6", "compression method 93"},
    {CENTRAL, 4, 20, 23, 4, SW_ERR_CORRUPT, "ZIP-9", "stored with 23 bytes and holds 24"},
    {CENTRAL, 4, 24, 0xFFFFFFFF, 4, SW_ERR_CORRUPT, "ZIP-8", "without the zip64 field"},
    {CENTRAL, 4, 42, 0xFFFFFFFE, 4, SW_ERR_CORRUPT, "ZIP-10", "data/0"},
    {CENTRAL, 4, 42, 0, 4, SW_ERR_CORRUPT, "ZIP-10", "runs into what begins at 0"},
    {LOCAL, 4, 0, 0, 4, SW_ERR_CORRUPT, "ZIP-11", "no local header"},
    {CENTRAL, 4, 16, 1, 4, SW_ERR_CORRUPT, "ZIP-13", "disagree on CRC"},
    {LOCAL, 4, 6, 0x0800, 2, SW_ERR_CORRUPT, "ZIP-11", "other flags"},
    {LOCAL, 4, 8, 8, 2, SW_ERR_CORRUPT, "ZIP-11", "another method"},
    {LOCAL, 4, 14, 1, 4, SW_ERR_CORRUPT, "ZIP-11", "another CRC"},
    {LOCAL, 4, 22, 25, 4, SW_ERR_CORRUPT, "ZIP-11", "another CRC or size"},
    {LOCAL, 4, 26, 13, 2, SW_ERR_CORRUPT, "ZIP-11", "another name"},
    {LOCAL, 4, 31, 'R', 1, SW_ERR_CORRUPT, "ZIP-11", "another name"},
    {LOCAL, 4, 28, 200, 2, SW_ERR_CORRUPT, "ZIP-11", "payload runs into"},
    {LOCAL, 4, 60, 'z', 1, SW_ERR_CORRUPT, "ZIP-11", "padding of its local header was changed"},
    {DESCRIPTOR, 4, 0, 0, 4, SW_ERR_CORRUPT, "ZIP-13", "data/0"},
    {DESCRIPTOR, 4, 4, 0, 4, SW_ERR_CORRUPT, "ZIP-13", "disagree on CRC or sizes"},
    {DESCRIPTOR, 4, 8, 25, 4, SW_ERR_CORRUPT, "ZIP-13", "disagree on CRC or sizes"},
};

static void bad_lies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        const lie *l = &lies[i];
        swi_buf out = {0};
        sw_error err = {0};
        write_archive(&out, small, SMALL_COUNT, 64);
        size_t pos = find(&out, l->sig, l->nth) + l->at;
        for (size_t k = 0; k < l->width; k++)
            out.data[pos + k] = (uint8_t)(l->value >> 8 * k);
        (void)read_bytes(out.data, out.size, NULL, &err);
        assert_error(&err, l->status, l->text);
        assert_string_equal(err.clause, l->clause);
        assert_true(err.has_offset);
        assert_in_range(err.offset_bytes, 0, out.size);
        swi_buf_free(&out);
    }
}

static void bad_payload_bit(void **state)
{
    (void)state;
    swi_buf out = {0};
    sw_error err = {0};
    write_archive(&out, small, SMALL_COUNT, 64);
    size_t pos = find(&out, DESCRIPTOR, 4) - sizeof(six);
    out.data[pos + 7] ^= 0x40;
    (void)read_bytes(out.data, out.size, NULL, &err);
    assert_error(&err, SW_ERR_CORRUPT, "the directory says 91e79017");
    assert_string_equal(err.clause, "ZIP-14");
    assert_int_equal(err.offset_bytes, pos);
    swi_buf_free(&out);
}

/* A directory that claims more entries than it has bytes for must not be believed. */
static void bad_directory_bomb(void **state)
{
    (void)state;
    swi_buf out = {0};
    sw_error err = {0};
    write_archive(&out, small, SMALL_COUNT, 64);
    size_t end64 = find(&out, END64, 0), end = find(&out, END, 0);
    memset(out.data + end64 + 24, 0xFF, 16);
    memset(out.data + end + 8, 0xFF, 4);
    (void)read_bytes(out.data, out.size, NULL, &err);
    assert_error(&err, SW_ERR_CORRUPT, "18446744073709551615 entries do not fit");
    assert_string_equal(err.clause, "ZIP-5");
    /* And the size, up to the whole file and over it. */
    memset(out.data + end64 + 40, 0xFF, 8);
    memset(out.data + end + 12, 0xFF, 4);
    (void)read_bytes(out.data, out.size, NULL, &err);
    assert_error(&err, SW_ERR_CORRUPT, "does not end at its end record");
    swi_buf_free(&out);
}

static void bad_directory_limit(void **state)
{
    (void)state;
    swi_buf out = {0};
    sw_error err = {0};
    swi_zip *zip;
    mem_reader m;
    write_archive(&out, small, SMALL_COUNT, 64);
    mem_reader_init(&m, out.data, out.size);
    m.pub.limits.metadata_bytes = 100;
    (void)!swi_zip_open(&m.pub, 0, 0, out.size, &zip, &err);
    assert_error(&err, SW_ERR_LIMIT, "the limit is 100");
    swi_buf_free(&out);
}

static void check_names(const char *const *names, size_t count, sw_status status, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        const record r[] = {{names[i], "x", 1}};
        swi_buf out = {0};
        sw_error err = {0};
        write_archive(&out, r, 1, 64);
        (void)read_bytes(out.data, out.size, NULL, &err);
        assert_error(&err, status, text);
        assert_string_equal(err.clause, "ZIP-7");
        swi_buf_free(&out);
    }
}

static void bad_names(void **state)
{
    (void)state;
    static const char *const hostile[] = {"/etc/x", "a/../../x", "a\\x", "..", "a//../b"};
    static const char *const odd[] = {"a//b", "./a", "a/\xff", "a/.", "../\xff"};
    check_names(hostile, sizeof(hostile) / sizeof(hostile[0]), SW_ERR_UNSAFE, "unsafe record name");
    check_names(odd, sizeof(odd) / sizeof(odd[0]), SW_ERR_CORRUPT, "malformed record name");
}

static void bad_duplicate_names(void **state)
{
    (void)state;
    static char name[40][24];
    record r[40];
    for (size_t few = 0; few < 2; few++) {
        size_t count = few ? 3 : 40;
        swi_buf out = {0};
        sw_error err = {0};
        for (size_t i = 0; i < count; i++) {
            snprintf(name[i], sizeof(name[i]), "a/%zu", i == count - 1 ? 1 : i);
            r[i] = (record){name[i], "x", 1};
        }
        write_archive(&out, r, count, 64);
        (void)read_bytes(out.data, out.size, NULL, &err);
        assert_error(&err, SW_ERR_CORRUPT, "two records are called a/1");
        assert_string_equal(err.clause, "ZIP-7");
        swi_buf_free(&out);
    }
}

static void bad_zip64_field_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *extra;
        size_t size;
        bool ones;
        const char *text;
    } cases[] = {
        {"\1\0\10\0\30\0\0\0\0\0\0\0", 12, true, NULL},
        {"\1\0\7\0\30\0\0\0\0\0\0", 11, true, "another size than its entry asks for"},
        {"\1\0\11\0\30\0\0\0\0\0\0\0\0", 13, true, "another size than its entry asks for"},
        {"\1\0\10\0\30\0\0\0\0\0\0\0", 12, false, "that nothing asks for"},
        {"\1\0\10\0\30\0\0\0\0\0\0\0\1\0\0\0", 16, true, "that nothing asks for"},
        {"\2\0\10\0\30\0\0\0\0\0\0\0", 12, true, "without the zip64 field"},
        {"\1\0\10", 3, true, "runs over"},
        {"\1\0\10\0\31\0\0\0\0\0\0\0", 12, true, "stored with 24 bytes and holds 25"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        swi_buf out = {0}, new = {0};
        sw_error err = {0};
        write_archive(&out, small, SMALL_COUNT, 64);
        size_t entry = find(&out, CENTRAL, 4), end64 = find(&out, END64, 0);
        size_t behind = entry + 46 + strlen(small[4].name);
        size_t more = cases[i].size;
        out.data[entry + 30] = (uint8_t)more;
        if (cases[i].ones)
            memset(out.data + entry + 24, 0xFF, 4);
        out.data[end64 + 40] = (uint8_t)(out.data[end64 + 40] + more); /* no carry: 0xcf + 16 */
        out.data[end64 + 76 - 12] = (uint8_t)(out.data[end64 + 76 - 12] + more);
        out.data[end64 + 76 + 12] = (uint8_t)(out.data[end64 + 76 + 12] + more);
        assert_ok(swi_buf_append(&new, out.data, behind, &err), &err);
        assert_ok(swi_buf_append(&new, cases[i].extra, more, &err), &err);
        assert_ok(swi_buf_append(&new, out.data + behind, out.size - behind, &err), &err);
        sw_status st = read_bytes(new.data, new.size, NULL, &err);
        if (cases[i].text == NULL)
            assert_ok(st, &err);
        else
            assert_error(&err, SW_ERR_CORRUPT, cases[i].text);
        swi_buf_free(&new);
        swi_buf_free(&out);
    }
}

static void bad_reads_fail(void **state)
{
    (void)state;
    /* Longer than the file: what the reader says comes through. */
    swi_buf out = {0};
    sw_error err = {0};
    swi_zip *zip = NULL;
    mem_reader m;
    write_archive(&out, small, SMALL_COUNT, 64);
    mem_reader_init(&m, out.data, out.size);
    (void)!swi_zip_open(&m.pub, 0, 1, out.size, &zip, &err);
    assert_error(&err, SW_ERR_CORRUPT, "the file ends early");
    (void)!swi_zip_open(&m.pub, 0, UINT64_MAX, out.size, &zip, &err);
    assert_error(&err, SW_ERR_CORRUPT, "outside any file");
    assert_null(zip);
    swi_buf_free(&out);
}

static void writer_refuses_misuse(void **state)
{
    (void)state;
    sw_error err = {0};
    swi_zip_writer *w = NULL;
    swi_buf out = {0};
    (void)!swi_zip_writer_make(0, &w, &err);
    assert_error(&err, SW_ERR_ARG, "alignment of 0");
    assert_ok(swi_zip_writer_make(64, &w, &err), &err);
    (void)!swi_zip_writer_end(w, 0, &out, &err);
    assert_error(&err, SW_ERR_ARG, "no record to end");
    assert_ok(swi_zip_writer_begin(w, "a", 1, &out, &err), &err);
    (void)!swi_zip_writer_begin(w, "b", 1, &out, &err);
    assert_error(&err, SW_ERR_ARG, "cannot begin");
    (void)!swi_zip_writer_finish(w, &out, &err);
    assert_error(&err, SW_ERR_ARG, "not ended");
    swi_zip_writer_free(w);
    swi_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_same_bytes_as_torch),
        cmocka_unit_test(good_reads_back),
        cmocka_unit_test(good_small_archive_is_one_read),
        cmocka_unit_test(good_empty_record_and_comment),
        cmocka_unit_test(good_crc_not_computed),
        cmocka_unit_test(good_zip64),
        cmocka_unit_test(good_many_records),
        cmocka_unit_test(bad_every_truncation),
        cmocka_unit_test(bad_every_flipped_bit),
        cmocka_unit_test(bad_lies),
        cmocka_unit_test(bad_payload_bit),
        cmocka_unit_test(bad_directory_bomb),
        cmocka_unit_test(bad_directory_limit),
        cmocka_unit_test(bad_names),
        cmocka_unit_test(bad_duplicate_names),
        cmocka_unit_test(bad_zip64_field_sizes),
        cmocka_unit_test(bad_reads_fail),
        cmocka_unit_test(writer_refuses_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
