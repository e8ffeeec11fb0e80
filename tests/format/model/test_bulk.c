/* Catalogs that are filled at once by threads, held against the same ones filled one by one. */
#include "kit.h"

enum { MANY = 150000, AXES = 3, FILE_BYTES = 1 << 20 };

typedef struct one_tensor {
    char name[16];
    sw_dtype dtype;
    sw_role role;
    uint32_t axes;
    int64_t shape[AXES];
} one_tensor;

typedef struct one_piece {
    uint32_t tensor;
    bool whole; /* put shortly */
    swi_piece piece;
    swi_blob blob;
} one_piece;

/* What is to be in a catalog, and the columns of it. */
typedef struct sample {
    uint32_t count;
    one_tensor *tensors;
    size_t piece_count;
    one_piece *pieces;
    char *text;
    uint8_t *name_end, *dtype, *role, *shape_end, *shapes;
    uint32_t shape_numbers;
} sample;

/* What goes wrong in it. */
enum { NOTHING, SHORT_FILE, SHORT_BLOB, HOLES, OVERLAPS, SHUFFLED, KINDS };

static void put_number(uint8_t *to, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(v >> (8 * i));
}

static void *room(size_t count, size_t size)
{
    void *p = calloc(count + 1, size);
    assert_non_null(p);
    return p;
}

static uint64_t elements_of(const one_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < t->axes; k++)
        n *= (uint64_t)t->shape[k];
    return n;
}

/* Rows [from, to) of a tensor, or all of it. */
static void add_rows(sample *s, uint32_t tensor, int64_t from, int64_t to, uint64_t offset)
{
    const one_tensor *t = &s->tensors[tensor];
    one_piece *p = &s->pieces[s->piece_count++];
    *p = (one_piece){.tensor = tensor, .piece.axes = t->axes};
    for (uint32_t k = 0; k < t->axes; k++)
        p->piece.view[k] = p->piece.length[k] = t->shape[k];
    if (t->axes > 0) {
        p->piece.offset[0] = from;
        p->piece.length[0] = to - from;
    }
    p->whole = t->axes == 0 || (from == 0 && to == t->shape[0]);
    swi_piece_make_dense(&p->piece, sw_dtype_bytes(t->dtype));
    const uint64_t bytes = swi_piece_elements(&p->piece) * sw_dtype_bytes(t->dtype);
    p->blob = (swi_blob){.ops = &swi_blob_slice,
                         .aux = 5,
                         .offset_bytes = offset,
                         .stored_bytes = bytes,
                         .bytes = bytes};
}

static void add_pieces_of(sample *s, harness_prng *prng, uint32_t i, int wrong)
{
    const one_tensor *t = &s->tensors[i];
    const int64_t rows = t->axes > 0 ? t->shape[0] : 1;
    const bool bad = harness_random_below(prng, 8) == 0;
    if (elements_of(t) == 0 || (wrong == HOLES && bad))
        return;
    const int64_t cut = harness_random_below(prng, 3) == 0 ? rows / 2 : 0;
    if (cut > 0)
        add_rows(s, i, 0, cut, harness_random_below(prng, 1000));
    add_rows(s, i, wrong == OVERLAPS && bad ? 0 : cut, rows, harness_random_below(prng, 1000));
    one_piece *last = &s->pieces[s->piece_count - 1];
    if (wrong == SHORT_FILE && bad)
        last->blob.offset_bytes = FILE_BYTES;
    if (wrong == SHORT_BLOB && bad)
        last->blob.bytes--;
}

static void make_columns(sample *s)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const one_tensor *t = &s->tensors[i];
        memcpy(s->text + end, t->name, strlen(t->name));
        end += (uint32_t)strlen(t->name) + 1;
        put_number(s->name_end + 4 * i, end, 4);
        for (uint32_t k = 0; k < t->axes; k++)
            put_number(s->shapes + 8 * s->shape_numbers++, (uint64_t)t->shape[k], 8);
        put_number(s->shape_end + 4 * i, s->shape_numbers, 4);
        s->dtype[i] = (uint8_t)t->dtype;
        s->role[i] = (uint8_t)t->role;
    }
}

static sample make_sample(harness_prng *prng, uint32_t count, int wrong)
{
    sample s = {.count = count,
                .tensors = room(count, sizeof *s.tensors),
                .pieces = room(2 * count, sizeof *s.pieces),
                .text = room(count, 16),
                .name_end = room(count, 4),
                .dtype = room(count, 1),
                .role = room(count, 1),
                .shape_end = room(count, 4),
                .shapes = room(count, 8 * AXES)};
    for (uint32_t i = 0; i < count; i++) {
        one_tensor *t = &s.tensors[i];
        *t = (one_tensor){.dtype = (sw_dtype)(1 + harness_random_below(prng, SW_DTYPE_COUNT - 1)),
                          .role = (sw_role)harness_random_below(prng, 3),
                          .axes = (uint32_t)harness_random_below(prng, AXES + 1)};
        (void)snprintf(t->name, sizeof t->name, "t%07u", i);
        for (uint32_t k = 0; k < t->axes; k++)
            t->shape[k] =
                (int64_t)(harness_random_below(prng, 50) == 0 ? 0
                                                              : 1 + harness_random_below(prng, 5));
        add_pieces_of(&s, prng, i, wrong);
    }
    for (size_t i = 0; wrong == SHUFFLED && i < s.piece_count; i++) {
        const size_t k = harness_random_below(prng, s.piece_count);
        const one_piece p = s.pieces[i];
        s.pieces[i] = s.pieces[k];
        s.pieces[k] = p;
    }
    make_columns(&s);
    return s;
}

static void free_sample(sample *s)
{
    void *all[] = {s->tensors, s->pieces, s->text,      s->name_end,
                   s->dtype,   s->role,   s->shape_end, s->shapes};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

/* ---- both ways ------------------------------------------------------------------------------- */

static kit one_by_one(const sample *s)
{
    kit k = start(FILE_BYTES);
    sw_error err = {0};
    for (uint32_t i = 0; i < s->count; i++) {
        const one_tensor *t = &s->tensors[i];
        const swi_tensor_in in = {t->name, strlen(t->name), t->dtype, t->axes, t->shape, t->role};
        uint32_t id;
        assert_ok(swi_builder_tensor(k.b, &in, &id, &err), &err);
    }
    for (size_t i = 0; i < s->piece_count; i++) {
        swi_piece p = s->pieces[i].piece;
        assert_ok(swi_builder_blob(k.b, &s->pieces[i].blob, &p.blob, &err), &err);
        add_piece(&k, s->pieces[i].tensor, &p);
    }
    finish(&k);
    return k;
}

static sw_status put(const void *ctx, uint64_t from, uint64_t to, swi_piece_sink *sink,
                     sw_error *err)
{
    const sample *s = ctx;
    sw_status status = SW_OK;
    for (; from < to && status == SW_OK; from++) {
        const one_piece *p = &s->pieces[from];
        status = p->whole ? swi_sink_whole(sink, p->tensor, &p->blob, err)
                          : swi_sink_piece(sink, p->tensor, &p->piece, &p->blob, err);
    }
    return status;
}

static swi_tensor_columns columns_of(const sample *s)
{
    return (swi_tensor_columns){.names = {s->text, s->name_end, s->count},
                                .dtype = s->dtype,
                                .role = s->role,
                                .shape_end = s->shape_end,
                                .shapes = s->shapes,
                                .shape_numbers = s->shape_numbers};
}

static kit at_once(const sample *s, uint32_t threads)
{
    const swi_tensor_columns columns = columns_of(s);
    const swi_piece_list list = {
        .count = s->piece_count, .ops = &swi_blob_slice, .put = put, .ctx = s};
    kit k = start(FILE_BYTES);
    sw_error err = {0};
    swi_builder_threads(k.b, threads);
    assert_ok(swi_builder_tensors(k.b, &columns, &err), &err);
    assert_ok(swi_builder_pieces(k.b, &list, &err), &err);
    finish(&k);
    return k;
}

static void expect_same_tensor(const kit *a, const kit *b, uint32_t i)
{
    const sw_tensor_info x = info_of(a, i), y = info_of(b, i);
    assert_string_equal(x.name, y.name);
    assert_int_equal(x.dtype, y.dtype);
    assert_int_equal(x.role, y.role);
    assert_int_equal(x.axes, y.axes);
    assert_int_equal(swi_tensor_axes(b->c, i), x.axes);
    assert_memory_equal(x.shape, y.shape, x.axes * sizeof x.shape[0]);
    assert_int_equal(x.elements, y.elements);
    assert_int_equal(x.held_elements, y.held_elements);
    assert_int_equal(x.piece_count, y.piece_count);
    assert_int_equal(swi_tensor_defect(a->c, i), swi_tensor_defect(b->c, i));
    assert_int_equal(sw_catalog_find(b->c, x.name), i);
    for (uint64_t k = 0; k < x.piece_count; k++) {
        swi_piece p = {0}, q = {0};
        swi_blob u = {0}, v = {0};
        swi_tensor_piece(a->c, i, k, &p);
        swi_tensor_piece(b->c, i, k, &q);
        assert_memory_equal(&p, &q, sizeof p);
        swi_catalog_blob(a->c, p.blob, &u);
        swi_catalog_blob(b->c, q.blob, &v);
        assert_memory_equal(&u, &v, sizeof u);
    }
}

static void expect_same(const kit *a, const kit *b)
{
    assert_int_equal(sw_catalog_tensor_count(a->c), sw_catalog_tensor_count(b->c));
    assert_int_equal(sw_catalog_piece_count(a->c), sw_catalog_piece_count(b->c));
    assert_int_equal(swi_catalog_blob_count(a->c), swi_catalog_blob_count(b->c));
    assert_int_equal(sw_report_count(a->report), sw_report_count(b->report));
    for (size_t i = 0; i < sw_report_count(a->report); i++)
        assert_string_equal(sw_report_at(a->report, i)->message,
                            sw_report_at(b->report, i)->message);
    for (uint32_t i = 0; i < sw_catalog_tensor_count(a->c); i++)
        expect_same_tensor(a, b, i);
}

static void test_small_ones(void **state)
{
    (void)state;
    harness_prng prng = {11};
    size_t findings = 0;
    for (int round = 0; round < 60 * KINDS; round++) {
        const uint32_t count = round < KINDS ? 0 : (uint32_t)harness_random_below(&prng, 40);
        sample s = make_sample(&prng, count, round % KINDS);
        kit a = one_by_one(&s), b = at_once(&s, (uint32_t)round % 4);
        expect_same(&a, &b);
        findings += sw_report_count(a.report);
        end(&a);
        end(&b);
        free_sample(&s);
    }
    assert_true(findings > 100);
}

/* More than one block of records and one range of tensors. */
static void test_large_ones(void **state)
{
    (void)state;
    for (int wrong = NOTHING; wrong < KINDS; wrong++) {
        harness_prng prng = {(uint64_t)(wrong + 1)};
        sample s = make_sample(&prng, wrong == NOTHING ? MANY : MANY / 8, wrong);
        kit a = one_by_one(&s), b = at_once(&s, 4);
        expect_same(&a, &b);
        end(&a);
        end(&b);
        free_sample(&s);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void test_columns_that_are_wrong(void **state)
{
    (void)state;
    static const struct {
        size_t tensor;
        int what;
        sw_status status;
        const char *text;
    } all[] = {{9, 0, SW_ERR_ARG, "t0000009\": no such element type"},
               {17000, 1, SW_ERR_ARG, "tensor 17000: its shape is not in the list"},
               {3, 2, SW_ERR_FORMAT, "t0000003\": a size is negative"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        harness_prng prng = {5};
        sample s = make_sample(&prng, 20000, NOTHING);
        const size_t t = all[i].tensor;
        const swi_tensor_columns columns = columns_of(&s);
        kit k = start(FILE_BYTES);
        sw_error err = {0};
        if (all[i].what == 0)
            s.dtype[t] = s.dtype[t + 9000] = 0;
        if (all[i].what == 1)
            put_number(s.shape_end + 4 * t, UINT32_MAX, 4);
        for (uint32_t n = 0, at = 0; all[i].what == 2 && n <= t; at += s.tensors[n++].axes)
            if (n == t) {
                assert_true(s.tensors[n].axes > 0);
                put_number(s.shapes + 8 * at, UINT64_MAX, 8);
            }
        swi_builder_threads(k.b, 3);
        assert_int_equal(swi_builder_tensors(k.b, &columns, &err), all[i].status);
        assert_error(&err, all[i].status, all[i].text);
        end(&k);
        free_sample(&s);
    }
}

/* A list that is longer or shorter than it says, or of what is not there. */
typedef struct liar {
    const sample *s;
    int64_t more;
} liar;

static sw_status put_other_count(const void *ctx, uint64_t from, uint64_t to, swi_piece_sink *sink,
                                 sw_error *err)
{
    const liar *l = ctx;
    return put(l->s, from, (uint64_t)((int64_t)to + l->more), sink, err);
}

static void expect_refusal(const sample *s, const swi_piece_list *list, const char *text)
{
    const swi_tensor_columns columns = columns_of(s);
    kit k = start(FILE_BYTES);
    sw_error err = {0};
    assert_ok(swi_builder_tensors(k.b, &columns, &err), &err);
    assert_int_equal(swi_builder_pieces(k.b, list, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, text);
    end(&k);
}

static void test_lists_that_are_wrong(void **state)
{
    (void)state;
    harness_prng prng = {6};
    sample s = make_sample(&prng, 30, NOTHING);
    liar l = {&s, -1};
    swi_piece_list list = {
        .count = s.piece_count - 1, .ops = &swi_blob_slice, .put = put_other_count, .ctx = &l};
    expect_refusal(&s, &list, "pieces where");
    l.more = 1;
    expect_refusal(&s, &list, "no such thing");
    list = (swi_piece_list){.count = 1, .ops = &swi_blob_slice, .put = put, .ctx = &s};
    const one_piece first = s.pieces[0];
    s.pieces[0].tensor = 30;
    expect_refusal(&s, &list, "piece 0, of tensor 30");
    s.pieces[0] = first;
    s.pieces[0].blob.file = 1;
    expect_refusal(&s, &list, "in file 1: no such thing");
    s.pieces[0] = first;
    s.pieces[0].blob.ops = &swi_blob_constant;
    expect_refusal(&s, &list, "no such thing");
    s.pieces[0] = first;
    s.pieces[0].whole = false;
    s.pieces[0].piece = (swi_piece){.axes = 1, .view = {1}};
    expect_refusal(&s, &list, "has no elements");
    free_sample(&s);
}

static void test_only_into_what_is_empty(void **state)
{
    (void)state;
    harness_prng prng = {7};
    sample s = make_sample(&prng, 5, NOTHING);
    const swi_tensor_columns columns = columns_of(&s);
    const swi_piece_list list = {.ops = &swi_blob_slice, .put = put, .ctx = &s};
    const swi_piece_list many = {.count = 1000000, .ops = &swi_blob_slice, .put = put, .ctx = &s};
    const sw_limits few = {.tensors = 4, .pieces = 1000};
    kit k = start(FILE_BYTES);
    sw_error err = {0};
    swi_builder *b = NULL;
    add_tensor(&k, "x", 0, NULL);
    assert_int_equal(swi_builder_tensors(k.b, &columns, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "behind others");
    (void)add_blob(&k, 0, 4);
    assert_int_equal(swi_builder_pieces(k.b, &list, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "behind others");
    end(&k);
    assert_ok(swi_builder_make(&few, &b, &err), &err);
    assert_int_equal(swi_builder_tensors(b, &columns, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 4 tensors");
    assert_int_equal(swi_builder_pieces(b, &many, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 1000 pieces");
    swi_builder_free(b);
    free_sample(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_ones),
        cmocka_unit_test(test_large_ones),
        cmocka_unit_test(test_columns_that_are_wrong),
        cmocka_unit_test(test_lists_that_are_wrong),
        cmocka_unit_test(test_only_into_what_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
