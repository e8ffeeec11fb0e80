/* Catalogs of several parts as one (CAT-28). */
#include "kit.h"

/* A file, a tensor of two blobs, another name of it, and values of all and of one rank. */
static kit part(bool hole)
{
    kit k = start(1000);
    sw_error err = {0};
    uint32_t w = add_tensor(&k, "w", 2, (int64_t[]){4, 6}), tied;
    uint32_t value = add_blob(&k, 900, 50);
    add_box(&k, w, 2, (int64_t[]){4, 6}, (int64_t[]){0, 0}, (int64_t[]){2, 6});
    if (!hole)
        add_box(&k, w, 2, (int64_t[]){4, 6}, (int64_t[]){2, 0}, (int64_t[]){2, 6});
    tied = add_tensor(&k, "tied", 2, (int64_t[]){4, 6});
    swi_builder_alias(k.b, tied, w);
    const swi_value_in global = {"args", 4, -1, value}, ranked = {"args", 4, 7, value};
    assert_ok(swi_builder_value(k.b, &global, &err), &err);
    assert_ok(swi_builder_value(k.b, &ranked, &err), &err);
    finish(&k);
    return k;
}

static void same_pieces(const sw_catalog *a, uint32_t t, const sw_catalog *b, uint32_t u)
{
    sw_tensor_info x, y;
    assert_true(sw_catalog_tensor(a, t, &x) && sw_catalog_tensor(b, u, &y));
    assert_int_equal(x.piece_count, y.piece_count);
    assert_int_equal(x.held_elements, y.held_elements);
    for (uint64_t i = 0; i < x.piece_count; i++) {
        swi_piece p = {0}, q = {0}; /* axes that a piece has not are not filled in */
        swi_blob blob, other;
        swi_tensor_piece(a, t, i, &p);
        swi_tensor_piece(b, u, i, &q);
        swi_catalog_blob(a, p.blob, &blob);
        swi_catalog_blob(b, q.blob, &other);
        assert_int_equal(blob.offset_bytes, other.offset_bytes);
        assert_int_equal(blob.bytes, other.bytes);
        assert_ptr_equal(blob.ops, other.ops);
        q.blob = p.blob;
        assert_memory_equal(&p, &q, sizeof p);
    }
}

static void append(kit *to, const kit *from, const swi_append *how, uint32_t expected)
{
    sw_error err = {0};
    uint32_t first = 99;
    assert_ok(swi_builder_append(to->b, from->c, how, &first, &err), &err);
    assert_int_equal(first, expected);
}

static void test_two_parts(void **state)
{
    (void)state;
    sw_error err = {0};
    kit a = part(false), b = part(false), all = {0};
    sw_tensor_info info;
    sw_value_info value;
    assert_ok(sw_report_make(&all.report, &err), &err);
    assert_ok(swi_builder_make(NULL, &all.b, &err), &err);
    append(&all, &a, &(swi_append){.folder = "", .prefix = ""}, 0);
    append(&all, &b,
           &(swi_append){.folder = "sub", .prefix = "p.", .has_role = true, .role = SW_ROLE_OTHER},
           2);
    finish(&all);
    assert_int_equal(sw_report_count(all.report), 0);
    assert_int_equal(sw_catalog_tensor_count(all.c), 4);
    assert_int_equal(sw_catalog_find(all.c, "p.w"), 2);
    assert_int_equal(sw_catalog_file_count(all.c), 2);
    char path[200];
    snprintf(path, sizeof path, "sub/%s", swi_catalog_path(b.c, 0));
    assert_string_equal(swi_catalog_path(all.c, 1), path);
    for (uint32_t t = 0; t < 2; t++) {
        same_pieces(a.c, t, all.c, t);
        same_pieces(b.c, t, all.c, 2 + t);
    }
    assert_true(sw_catalog_tensor(all.c, 3, &info));
    assert_int_equal(info.alias_of, 2);
    assert_int_equal(info.role, SW_ROLE_OTHER);
    swi_piece p;
    swi_blob blob;
    swi_tensor_piece(all.c, 2, 0, &p);
    swi_catalog_blob(all.c, p.blob, &blob);
    assert_int_equal(blob.file, 1);
    assert_int_equal(sw_catalog_value_count(all.c), 4);
    assert_true(sw_catalog_value_at(all.c, 3, &value));
    assert_string_equal(value.name, "p.args");
    assert_int_equal(value.rank, 7);
    swi_catalog_blob(all.c, swi_value_blob(all.c, 3), &blob);
    assert_int_equal(blob.file, 1);
    assert_int_equal(blob.offset_bytes, 900);
    end(&a);
    end(&b);
    end(&all);
}

static void test_a_name_twice(void **state)
{
    (void)state;
    sw_error err = {0};
    kit a = part(false), all = {0};
    uint32_t first = 99;
    const swi_append bare = {.folder = "", .prefix = ""};
    assert_ok(swi_builder_make(NULL, &all.b, &err), &err);
    append(&all, &a, &bare, 0);
    assert_int_equal(swi_builder_append(all.b, a.c, &bare, &first, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "tensor \"w\" is there twice");
    assert_int_equal(first, 99);
    swi_builder_free(all.b);
    end(&a);
}

/* What was wrong with it stays so, though nothing is found again. */
static void test_defects_stay(void **state)
{
    (void)state;
    sw_error err = {0};
    kit a = part(true), all = {0};
    assert_int_equal(swi_tensor_defect(a.c, 0), SW_ERR_INCOMPLETE);
    assert_ok(swi_builder_make(NULL, &all.b, &err), &err);
    append(&all, &a, &(swi_append){.folder = "x", .prefix = ""}, 0);
    assert_ok(swi_builder_freeze(all.b, NULL, &all.c, &err), &err);
    all.b = NULL;
    assert_int_equal(swi_tensor_defect(all.c, 0), SW_ERR_INCOMPLETE);
    end(&a);
    end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_parts),
        cmocka_unit_test(test_a_name_twice),
        cmocka_unit_test(test_defects_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
