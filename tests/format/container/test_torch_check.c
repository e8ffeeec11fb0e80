/* Checking torch.save archives: what is found, and what is said of it. */
#include "harness/harness.h"

#include <string.h>

#include "container/torch_file.h"
#include "format/mem_reader.h"
#include "format/recipe.h"

#define FRONT 1000 /* bytes of something else before the archive */

static const float six[6] = {0, 1, 2, 3, 4, 5};

typedef struct checked {
    sw_report *report;
    swi_blob_check tally;
    uint64_t reads;
} checked;

static void end(checked *c)
{
    sw_report_free(c->report);
}

/* Checks the archive [FRONT, size) with a small buffer. */
static void check(const swi_buf *b, size_t size, checked *c)
{
    static const swi_blob_label label = {.file = "dir/__0_0.distcp", .name = "model.weight"};
    uint8_t buffer[256];
    sw_error err = {0};
    mem_reader m;
    mem_reader_init(&m, b->data, b->size);
    *c = (checked){0};
    assert_ok(sw_report_make(&c->report, &err), &err);
    assert_ok(swi_torch_check(&m.pub, 0, FRONT, size - FRONT, &label, buffer, sizeof(buffer),
                              c->report, &c->tally, &err),
              &err);
    c->reads = m.reads;
}

static const sw_finding *find(const checked *c, const char *code)
{
    for (size_t i = 0; i < sw_report_count(c->report); i++)
        if (strcmp(sw_report_at(c->report, i)->code, code) == 0)
            return sw_report_at(c->report, i);
    return NULL;
}

static void make_tensor(swi_buf *b)
{
    sw_error err = {0};
    const int64_t shape[2] = {2, 3};
    assert_ok(swi_buf_fill(b, 0xAB, FRONT, &err), &err);
    assert_ok(swi_torch_write_tensor(b, SW_F32, 2, shape, six, &err), &err);
}

static size_t find_payload(const swi_buf *b)
{
    for (size_t pos = FRONT; pos + sizeof(six) <= b->size; pos++)
        if (memcmp(b->data + pos, six, sizeof(six)) == 0)
            return pos;
    fail_msg("no payload");
    return 0;
}

static void good_is_silent(void **state)
{
    (void)state;
    swi_buf b = {0};
    checked c;
    make_tensor(&b);
    check(&b, b.size, &c);
    assert_int_equal(sw_report_count(c.report), 0);
    assert_int_equal(c.tally.unchecked_bytes, 0);
    /* data.pkl and 1 + 2 + 6 + 24 + 2 + 40 */
    assert_in_range(c.tally.checked_bytes, 75 + 80, 75 + 200);
    assert_int_equal(c.reads, 1);
    end(&c);
    swi_buf_free(&b);
}

static void good_large_record_in_pieces(void **state)
{
    (void)state;
    static uint8_t data[100003];
    const int64_t shape[1] = {sizeof(data)};
    swi_buf b = {0};
    sw_error err = {0};
    checked c;
    harness_prng prng = {3};
    harness_random_fill(&prng, data, sizeof(data));
    assert_ok(swi_buf_fill(&b, 0, FRONT, &err), &err);
    assert_ok(swi_torch_write_tensor(&b, SW_U8, 1, shape, data, &err), &err);
    check(&b, b.size, &c);
    assert_int_equal(sw_report_count(c.report), 0);
    assert_in_range(c.tally.checked_bytes, sizeof(data), sizeof(data) + 1000);
    end(&c);
    b.data[FRONT + 60000] ^= 1;
    check(&b, b.size, &c);
    assert_non_null(find(&c, "crc-mismatch"));
    end(&c);
    swi_buf_free(&b);
}

static void bad_payload_bit_is_named(void **state)
{
    (void)state;
    swi_buf b = {0};
    checked c;
    make_tensor(&b);
    size_t at = find_payload(&b);
    b.data[at + 9] ^= 4;
    check(&b, b.size, &c);
    assert_int_equal(sw_report_count(c.report), 1);
    const sw_finding *f = sw_report_at(c.report, 0);
    assert_string_equal(f->code, "crc-mismatch");
    assert_int_equal(f->severity, SW_DEFECT);
    assert_int_equal(f->status, SW_ERR_CORRUPT);
    assert_string_equal(f->file, "dir/__0_0.distcp");
    assert_string_equal(f->tensor, "model.weight");
    assert_true(f->has_offset);
    assert_int_equal(f->offset_bytes, at);
    assert_contains(f->message, "record archive/data/0 (24 bytes at ");
    assert_contains(f->message, "the archive says 91e79017");
    end(&c);
    swi_buf_free(&b);
}

static void bad_every_flipped_bit(void **state)
{
    (void)state;
    swi_buf b = {0};
    make_tensor(&b);
    for (size_t bit = FRONT * 8; bit < b.size * 8; bit++) {
        checked c;
        bool harmless = recipe_uncovered(b.data + FRONT, b.size - FRONT, bit / 8 - FRONT);
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        check(&b, b.size, &c);
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        uint64_t bad = sw_report_total(c.report, SW_DEFECT) + sw_report_total(c.report, SW_DANGER);
        if (bad == 0 && !harmless)
            fail_msg("bit %zu of byte %zu goes unnoticed", bit % 8, bit / 8 - FRONT);
        for (size_t i = 0; i < sw_report_count(c.report); i++)
            assert_string_equal(sw_report_at(c.report, i)->file, "dir/__0_0.distcp");
        end(&c);
    }
    swi_buf_free(&b);
}

static void bad_every_truncation(void **state)
{
    (void)state;
    swi_buf b = {0};
    make_tensor(&b);
    for (size_t size = FRONT; size < b.size; size++) {
        checked c;
        check(&b, size, &c);
        assert_int_equal(sw_report_total(c.report, SW_DEFECT), 1);
        const sw_finding *f = find(&c, "bad-archive");
        assert_non_null(f);
        if (size > FRONT + 4)
            assert_contains(f->message, "cut after");
        end(&c);
    }
    swi_buf_free(&b);
}

/* The records of an archive of {'a': tensor}, some of them without CRC. */
static void make_records(swi_buf *b, bool pickle_crc, bool data_crc, const void *data)
{
    swi_buf pickle = {0};
    recipe(&pickle, "proto:2 } 'a' M:torch._utils/_rebuild_tensor_v2 ( ( 'storage' "
                    "M:torch/FloatStorage '0' 'cpu' 6 t Q 0 ( 6 t ( 1 t false "
                    "M:collections/OrderedDict ) R t R s .");
    const recipe_record r[] = {{"x/data.pkl", pickle.data, pickle.size, !pickle_crc},
                               {"x/data/0", data, 24, !data_crc},
                               {"x/version", "3\n", 2, !pickle_crc},
                               {0}};
    sw_error err = {0};
    assert_ok(swi_buf_fill(b, 0, FRONT, &err), &err);
    swi_buf archive = {0};
    recipe_archive(&archive, r);
    recipe_bytes(b, archive.data, archive.size);
    swi_buf_free(&archive);
    swi_buf_free(&pickle);
}

static void no_crcs_are_counted_not_found(void **state)
{
    (void)state;
    swi_buf b = {0};
    checked c;
    make_records(&b, false, false, six);
    check(&b, b.size, &c);
    assert_int_equal(sw_report_count(c.report), 0);
    assert_int_equal(c.tally.checked_bytes, 0);
    assert_in_range(c.tally.unchecked_bytes, 100, 300);
    end(&c);
    swi_buf_free(&b);
}

static void skipped_data_is_suspicious(void **state)
{
    (void)state;
    static const float zeros[6];
    swi_buf b = {0};
    checked c;
    make_records(&b, true, false, zeros);
    check(&b, b.size, &c);
    assert_int_equal(sw_report_total(c.report, SW_DEFECT), 0);
    const sw_finding *f = find(&c, "crc-missing");
    assert_non_null(f);
    assert_int_equal(f->severity, SW_WARNING);
    assert_contains(f->message, "record x/data/0 has no CRC-32 while others have");
    assert_int_equal(c.tally.unchecked_bytes, 24);
    end(&c);
    swi_buf_free(&b);
}

static void unsafe_pickle_is_a_danger(void **state)
{
    (void)state;
    swi_buf pickle = {0}, b = {0}, archive = {0};
    sw_error err = {0};
    checked c;
    recipe(&pickle, "proto:2 M:posix/system ( 'true' t R .");
    const recipe_record r[] = {
        {"x/data.pkl", pickle.data, pickle.size, false}, {"x/version", "3\n", 2, false}, {0}};
    assert_ok(swi_buf_fill(&b, 0, FRONT, &err), &err);
    recipe_archive(&archive, r);
    recipe_bytes(&b, archive.data, archive.size);
    check(&b, b.size, &c);
    const sw_finding *f = find(&c, "unsafe-pickle");
    assert_non_null(f);
    assert_int_equal(f->severity, SW_DANGER);
    assert_contains(f->message, "posix.system");
    assert_string_equal(f->tensor, "model.weight");
    assert_int_equal(f->offset_bytes, FRONT + 64 + 2);
    end(&c);
    /* Also when the pickle then fails: the danger is not lost. */
    b.data[FRONT + 64 + pickle.size - 1] = 'R';
    check(&b, b.size, &c);
    assert_non_null(find(&c, "crc-mismatch"));
    end(&c);
    swi_buf_free(&archive);
    swi_buf_free(&pickle);
    swi_buf_free(&b);
}

static void danger_survives_a_broken_pickle(void **state)
{
    (void)state;
    swi_buf pickle = {0}, b = {0}, archive = {0};
    sw_error err = {0};
    checked c;
    recipe(&pickle, "proto:2 M:posix/system ( 'true' t R R .");
    const recipe_record r[] = {
        {"x/data.pkl", pickle.data, pickle.size, false}, {"x/version", "3\n", 2, false}, {0}};
    assert_ok(swi_buf_fill(&b, 0, FRONT, &err), &err);
    recipe_archive(&archive, r);
    recipe_bytes(&b, archive.data, archive.size);
    check(&b, b.size, &c);
    assert_non_null(find(&c, "unsafe-pickle"));
    assert_non_null(find(&c, "bad-item"));
    end(&c);
    swi_buf_free(&archive);
    swi_buf_free(&pickle);
    swi_buf_free(&b);
}

/* Bytes between two records that no descriptor accounts for. */
static void stray_bytes_are_suspicious(void **state)
{
    (void)state;
    swi_buf b = {0};
    checked c;
    make_records(&b, true, true, six);
    /* Turn the last record's header offset 4 forward: its name moves with it. */
    size_t central = 0, last = 0;
    for (size_t pos = FRONT; pos + 4 < b.size; pos++) {
        if (memcmp(b.data + pos, "PK\003\004", 4) == 0)
            last = pos;
        if (memcmp(b.data + pos, "PK\001\002", 4) == 0)
            central = pos;
    }
    size_t header = 30 + strlen("x/version");
    uint8_t pad = b.data[last + header + 2];
    assert_true(pad >= 4);
    memmove(b.data + last + 4, b.data + last, header + 4);
    memset(b.data + last, 0, 4);
    b.data[last + 4 + header + 2] = (uint8_t)(pad - 4);
    b.data[last + 4 + 28] = (uint8_t)(b.data[last + 4 + 28] - 4);
    b.data[central + 42] = (uint8_t)(b.data[central + 42] + 4);
    check(&b, b.size, &c);
    assert_int_equal(sw_report_total(c.report, SW_DEFECT), 0);
    const sw_finding *f = find(&c, "stray-bytes");
    assert_non_null(f);
    assert_contains(f->message, "4 bytes behind record x/data/0 belong to nothing");
    assert_int_equal(f->offset_bytes, last);
    end(&c);
    swi_buf_free(&b);
}

static void failing_reads_are_errors(void **state)
{
    (void)state;
    swi_buf b = {0};
    sw_error err = {0};
    sw_report *report;
    swi_blob_check tally = {0};
    uint8_t buffer[64];
    mem_reader m;
    make_tensor(&b);
    mem_reader_init(&m, b.data, b.size);
    assert_ok(sw_report_make(&report, &err), &err);
    /* A cut file is the file's fault: a finding. */
    assert_ok(swi_torch_check(&m.pub, 0, FRONT, b.size, NULL, buffer, sizeof(buffer), report,
                              &tally, &err),
              &err);
    assert_int_equal(sw_report_total(report, SW_DEFECT), 1);
    assert_string_equal(sw_report_at(report, 0)->code, "bad-archive");
    sw_report_free(report);
    swi_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_is_silent),
        cmocka_unit_test(good_large_record_in_pieces),
        cmocka_unit_test(bad_payload_bit_is_named),
        cmocka_unit_test(bad_every_flipped_bit),
        cmocka_unit_test(bad_every_truncation),
        cmocka_unit_test(no_crcs_are_counted_not_found),
        cmocka_unit_test(skipped_data_is_suspicious),
        cmocka_unit_test(unsafe_pickle_is_a_danger),
        cmocka_unit_test(danger_survives_a_broken_pickle),
        cmocka_unit_test(stray_bytes_are_suspicious),
        cmocka_unit_test(failing_reads_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
