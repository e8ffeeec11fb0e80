/* Content digests of whole checkpoints, and lists of them (specs/digest.md). */
#include "convert/fixture.h"

#include "container/digest_list.h"

/* Each test works inside its folder. */
static int enter(void **state)
{
    return harness_dir_setup(state) == 0 && chdir(*state) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    return chdir("..") == 0 ? harness_dir_teardown(state) : -1;
}

#define test_here(name) cmocka_unit_test_setup_teardown(name, enter, leave)

static sw_digests *hash_good(const char *path, bool weights, sw_dtype as)
{
    const sw_hash_options options = {.weights = weights, .as = as};
    sw_digests *d = NULL;
    sw_error err = {0};
    assert_ok(sw_hash(path, &options, NULL, &d, NULL, &err), &err);
    return d;
}

static void root_of(const char *path, bool weights, sw_dtype as, char root[SW_DIGEST_TEXT])
{
    sw_digests *d = hash_good(path, weights, as);
    sw_digests_root(d, root);
    sw_digests_free(d);
}

static void verify_against(const char *path, const char *list, outcome *o)
{
    const sw_verify_options options = {.level = SW_LEVEL_STRUCTURE, .digests = list};
    outcome_begin(o);
    o->status = sw_verify(path, &options, o->report, &o->verified, &o->err);
    sw_report_sort(o->report);
}

static void write_list(const char *checkpoint, bool weights, const char *list)
{
    sw_error err = {0};
    sw_digests *d = hash_good(checkpoint, weights, SW_DTYPE_NONE);
    assert_ok(sw_digests_write(d, list, true, &err), &err);
    sw_digests_free(d);
}

/* ---- one checkpoint, many forms ------------------------------------------------------------- */

static void any_form_has_one_root(void **state)
{
    (void)state;
    const sw_convert_options shards = {.to = "hf:shard=20kB"};
    const sw_convert_options bf16 = {.to = "hf", .dtype = SW_BF16};
    char root[SW_DIGEST_TEXT], other[SW_DIGEST_TEXT];
    outcome o;
    make_demo("dcp");
    run_convert("dcp", "hf", NULL, &o);
    assert_fine(&o);
    outcome_free(&o);
    run_convert("dcp", "shards", &shards, &o);
    assert_fine(&o);
    outcome_free(&o);
    run_convert("dcp", "bf16", &bf16, &o);
    assert_fine(&o);
    outcome_free(&o);
    root_of("dcp", true, SW_DTYPE_NONE, root);
    root_of("hf", false, SW_DTYPE_NONE, other);
    assert_string_equal(root, other);
    root_of("shards", true, SW_DTYPE_NONE, other);
    assert_string_equal(root, other);
    root_of("bf16", false, SW_DTYPE_NONE, other);
    assert_string_not_equal(root, other);
    root_of("dcp", true, SW_BF16, root);
    assert_string_equal(root, other);
    root_of("dcp", false, SW_DTYPE_NONE, other);
    assert_string_not_equal(root, other);
}

static void names_and_order(void **state)
{
    (void)state;
    const char *name, *before = "";
    char digest[SW_DIGEST_TEXT];
    size_t n = 0;
    make_demo("dcp");
    sw_digests *d = hash_good("dcp", false, SW_DTYPE_NONE);
    sw_checkpoint *c = open_good("dcp");
    for (; sw_digests_at(d, n, &name, digest); n++) {
        assert_true(strcmp(before, name) < 0);
        assert_int_equal(strlen(digest), 64);
        assert_true(sw_catalog_find(sw_checkpoint_catalog(c), name) >= 0);
        before = name;
    }
    assert_int_equal(n, sw_catalog_tensor_count(sw_checkpoint_catalog(c)));
    assert_int_equal(n, sw_digests_count(d));
    sw_checkpoint_close(c);
    sw_digests_free(d);
}

/* Every flip of one bit of the values is seen, and in the tensor that it hit. */
static void any_flip_is_seen(void **state)
{
    (void)state;
    const char *header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[40],\"data_offsets\":[0,160]},"
                         "\"b\":{\"dtype\":\"F32\",\"shape\":[2,30],\"data_offsets\":[160,400]}}";
    harness_prng prng = {.state = 11};
    size_t size;
    write_st("model.safetensors", header, 400, 1);
    write_list("model.safetensors", false, "list");
    uint8_t *bytes = harness_read("model.safetensors", &size);
    for (int i = 0; i < 1000; i++) {
        uint64_t bit = harness_random_below(&prng, 3200);
        size_t at = size - 400 + (size_t)(bit / 8);
        outcome o;
        bytes[at] ^= (uint8_t)(1U << bit % 8);
        harness_write("model.safetensors", bytes, size);
        verify_against("model.safetensors", "list", &o);
        assert_int_equal(o.status, SW_OK);
        assert_int_equal(sw_report_total(o.report, SW_DEFECT), 1);
        assert_int_equal(o.verified.matched_tensors, 1);
        const sw_finding *f = assert_found(&o, SW_DEFECT, "digest-mismatch", NULL,
                                           bit < 1280 ? "a" : "b", "not those of the digest list");
        assert_int_equal(f->status, SW_ERR_UNTRUSTED);
        outcome_free(&o);
        bytes[at] ^= (uint8_t)(1U << bit % 8);
    }
    free(bytes);
}

/* ---- checking ------------------------------------------------------------------------------- */

static void missing_and_unlisted(void **state)
{
    (void)state;
    outcome o;
    write_st("x.safetensors",
             "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
             "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
             8, 1);
    write_st("y.safetensors",
             "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
             "\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
             8, 1);
    write_st("z.safetensors", "{\"q\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
             1);
    write_list("x.safetensors", false, "list");
    verify_against("y.safetensors", "list", &o);
    assert_int_equal(o.status, SW_OK);
    assert_int_equal(sw_report_total(o.report, SW_DEFECT), 2);
    assert_found(&o, SW_DEFECT, "digest-missing", NULL, "b", "the checkpoint has not");
    assert_found(&o, SW_DEFECT, "digest-unlisted", NULL, "c", "the digest list has not");
    assert_int_equal(o.verified.listed_tensors, 2);
    assert_int_equal(o.verified.matched_tensors, 1);
    assert_false(o.verified.nothing_listed);
    outcome_free(&o);
    verify_against("z.safetensors", "list", &o);
    assert_fine(&o);
    assert_true(o.verified.nothing_listed);
    outcome_free(&o);
}

/* A list says itself what it was made of. */
static void as_the_list_says(void **state)
{
    (void)state;
    const char *const only[] = {"*.norm.weight", NULL};
    const sw_hash_options options = {.weights = true, .only = only, .as = SW_BF16};
    const sw_convert_options bf16 = {.to = "hf", .dtype = SW_BF16};
    sw_digests *d = NULL;
    sw_error err = {0};
    outcome o;
    make_demo("dcp");
    run_convert("dcp", "hf", &bf16, &o);
    outcome_free(&o);
    assert_ok(sw_hash("dcp", &options, NULL, &d, NULL, &err), &err);
    assert_int_equal(sw_digests_count(d), 2); /* by the names in the model: no "norm.weight" */
    assert_ok(sw_digests_write(d, "list", false, &err), &err);
    sw_digests_free(d);
    verify_against("hf", "list", &o);
    assert_fine(&o);
    assert_int_equal(o.verified.matched_tensors, 2);
    outcome_free(&o);
    verify_against("dcp", "list", &o);
    assert_fine(&o);
    assert_int_equal(o.verified.matched_tensors, 2);
    outcome_free(&o);
}

/* The same bytes under another type or shape are another content. */
static void type_and_shape_count(void **state)
{
    (void)state;
    static const char *const others[] = {
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3,1],\"data_offsets\":[0,24]}}",
        "{\"a\":{\"dtype\":\"I32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
    };
    outcome o;
    write_st("x.safetensors", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
             24, 1);
    write_list("x.safetensors", false, "list");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        write_st("y.safetensors", others[i], 24, 1);
        verify_against("y.safetensors", "list", &o);
        assert_found(&o, SW_DEFECT, "digest-mismatch", NULL, "a", "type or shape");
        outcome_free(&o);
    }
}

static void damaged_is_refused(void **state)
{
    (void)state;
    const int64_t shape[] = {8}, low[] = {0}, half[] = {4};
    sw_digests *d = NULL;
    sw_error err = {0};
    dcp_world *w = dcp_begin();
    dcp_item *it = dcp_tensor(w, "model/w", 1, shape, 0);
    dcp_chunk(w, it, 0, low, half);
    dcp_end(w, "dcp");
    assert_int_equal(sw_hash("dcp", NULL, NULL, &d, NULL, &err), SW_ERR_INCOMPLETE);
    assert_error(&err, SW_ERR_INCOMPLETE, "model.w");
    assert_null(d);
}

static void nothing_of_that_name(void **state)
{
    (void)state;
    const char *const only[] = {"nope*", NULL};
    const sw_hash_options options = {.only = only};
    sw_digests *d = NULL;
    sw_error err = {0};
    make_demo("dcp");
    assert_int_equal(sw_hash("dcp", &options, NULL, &d, NULL, &err), SW_ERR_NOTFOUND);
    assert_error(&err, SW_ERR_NOTFOUND, "--only");
}

/* ---- list files ----------------------------------------------------------------------------- */

static void names_come_back(void **state)
{
    (void)state;
    static const char *const names[] = {"plain",     "a b", "\\x41", "\xc3\xbc",
                                        "tab\there", "#",   "\n"};
    swi_digest_list list = {0}, same = {0};
    swi_buf text = {0}, again = {0};
    sw_error err = {0};
    for (uint8_t i = 0; i < 7; i++) {
        swi_digest digest = {{i}};
        assert_ok(swi_digest_list_add(&list, names[i], strlen(names[i]), &digest, &err), &err);
    }
    list.weights = true;
    list.as = SW_BF16;
    assert_ok(swi_digest_list_add_only(&list, "a *", 3, &err), &err);
    assert_ok(swi_digest_list_end(&list, &err), &err);
    assert_ok(swi_digest_list_text(&list, &text, &err), &err);
    assert_ok(swi_digest_list_parse(text.data, text.size, &same, &err), &err);
    assert_ok(swi_digest_list_text(&same, &again, &err), &err);
    assert_int_equal(text.size, again.size);
    assert_memory_equal(text.data, again.data, text.size);
    for (uint8_t i = 0; i < 7; i++) {
        const swi_digest_entry *e = swi_digest_list_find(&same, names[i]);
        assert_non_null(e);
        assert_int_equal(e->digest.bytes[0], i);
    }
    assert_null(swi_digest_list_find(&same, "nope"));
    assert_string_equal(same.only[0], "a *");
    assert_null(same.only[1]);
    swi_digest_list_free(&list);
    swi_digest_list_free(&same);
    swi_buf_free(&text);
    swi_buf_free(&again);
}

static void same_name_twice(void **state)
{
    (void)state;
    const swi_digest digest = {{0}};
    swi_digest_list list = {0};
    sw_error err = {0};
    assert_ok(swi_digest_list_add(&list, "a", 1, &digest, &err), &err);
    assert_ok(swi_digest_list_add(&list, "a", 1, &digest, &err), &err);
    assert_int_equal(swi_digest_list_end(&list, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "two tensors are called \"a\"");
    swi_digest_list_free(&list);
}

#define Z8 "00000000"
#define Z64 Z8 Z8 Z8 Z8 Z8 Z8 Z8 Z8
#define HEAD "# shardwright-digests 1\n"
#define ROOT HEAD "# root " Z64 "\n"

static void bad_lists(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sw_status status;
        const char *what;
        uint64_t offset;
    } rows[] = {
        {"", SW_ERR_FORMAT, "does not begin", 0},
        {"# shardwright-digests 2\n", SW_ERR_FORMAT, "does not begin", 0},
        {"# shardwright-digests 1", SW_ERR_FORMAT, "does not begin", 0},
        {HEAD, SW_ERR_FORMAT, "no root", 24},
        {HEAD Z64 "  a\n", SW_ERR_FORMAT, "no root before", 24},
        {HEAD "# root 00\n", SW_ERR_FORMAT, "other than 64 digits", 24},
        {HEAD "# root " Z64 "0\n", SW_ERR_FORMAT, "other than 64 digits", 24},
        {HEAD "# names some\n", SW_ERR_FORMAT, "not known", 24},
        {HEAD "# names all\n# names all\n", SW_ERR_FORMAT, "not known", 36},
        {HEAD "# as bf16\n", SW_ERR_FORMAT, "type that is not known", 24},
        {HEAD "# as bfloat16\n# as float32\n", SW_ERR_FORMAT, "twice", 38},
        {ROOT "# names all\n", SW_ERR_FORMAT, "behind the root", 96},
        {ROOT Z64 " a\n", SW_ERR_FORMAT, "two spaces", 96},
        {ROOT Z64 "  \n", SW_ERR_CORRUPT, "do not give the root", 0},
        {ROOT Z64 "  a b\n", SW_ERR_FORMAT, "must be escaped", 96},
        {ROOT Z64 "  a\\n\n", SW_ERR_FORMAT, "no \\xNN", 96},
        {ROOT Z64 "  \\x41\n", SW_ERR_FORMAT, "needs none", 96},
        {ROOT Z64 "  \\x00\n", SW_ERR_FORMAT, "needs none", 96},
        {ROOT Z64 "  \\xff\n", SW_ERR_FORMAT, "not UTF-8", 96},
        {ROOT Z64 "  b\n" Z64 "  a\n", SW_ERR_FORMAT, "ascending", 164},
        {ROOT Z64 "  a\n" Z64 "  a\n", SW_ERR_FORMAT, "ascending", 164},
        {ROOT Z64 "  a", SW_ERR_FORMAT, "has no end", 96},
        {ROOT Z64 "  a\n", SW_ERR_CORRUPT, "do not give the root", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        swi_digest_list list = {0};
        sw_error err = {0};
        assert_int_equal(swi_digest_list_parse(rows[i].text, strlen(rows[i].text), &list, &err),
                         rows[i].status);
        assert_error(&err, rows[i].status, rows[i].what);
        assert_int_equal(err.offset_bytes, rows[i].offset);
        assert_null(list.items);
    }
}

static void written_whole_or_not(void **state)
{
    (void)state;
    sw_error err = {0};
    make_demo("dcp");
    sw_digests *d = hash_good("dcp", true, SW_DTYPE_NONE);
    assert_ok(sw_digests_write(d, "list", false, &err), &err);
    assert_int_equal(sw_digests_write(d, "list", false, &err), SW_ERR_EXISTS);
    assert_error(&err, SW_ERR_EXISTS, "list");
    assert_ok(sw_digests_write(d, "list", true, &err), &err);
    assert_int_equal(sw_digests_write(d, "nowhere/list", false, &err), SW_ERR_NOTFOUND);
    assert_int_equal(count_partials(".", "list"), 0);
    sw_digests_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_here(any_form_has_one_root),  test_here(names_and_order),
        test_here(any_flip_is_seen),       test_here(missing_and_unlisted),
        test_here(as_the_list_says),       test_here(type_and_shape_count),
        test_here(damaged_is_refused),     test_here(nothing_of_that_name),
        cmocka_unit_test(names_come_back), cmocka_unit_test(same_name_twice),
        cmocka_unit_test(bad_lists),       test_here(written_whole_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
