/* torch.save archives; clauses are those of specs/torch_zip.md. */
#include "harness/harness.h"

#include <string.h>

#include "container/torch_file.h"
#include "format/mem_reader.h"
#include "format/recipe.h"

/* A tensor (2, 3) of float32 on storage 0 of 6 elements. */
#define STORAGE(class, key, numel) "( 'storage' M:torch/" class " '" key "' 'cpu' " numel " t Q "
#define HOOKS "false M:collections/OrderedDict ) R "
#define TENSOR                                                                                     \
    "M:torch._utils/_rebuild_tensor_v2 ( " STORAGE("FloatStorage", "0",                            \
                                                   "6") "0 ( 2 3 t ( 3 1 t " HOOKS "t R "
#define PLAIN "proto:2 " TENSOR "."

static const float six[6] = {0, 1, 2, 3, 4, 5};

typedef struct fixture {
    const char *pickle;
    const char *byteorder; /* NULL: no record */
    const char *version;   /* NULL: no record */
    const char *more;      /* a record "a/..." of one byte */
    size_t bytes0, bytes1; /* of data/0 and data/1; SIZE_MAX: none */
} fixture;

static const fixture plain = {PLAIN, "little", "3\n", NULL, 24, SIZE_MAX};

static void make(swi_buf *out, const fixture *f)
{
    static const uint8_t zeros[4096];
    swi_buf pickle = {0};
    recipe_record r[8] = {0};
    size_t n = 0;
    recipe(&pickle, f->pickle);
    r[n++] = (recipe_record){"a/data.pkl", pickle.data, pickle.size, false};
    if (f->byteorder != NULL)
        r[n++] = (recipe_record){"a/byteorder", f->byteorder, strlen(f->byteorder), false};
    if (f->bytes0 != SIZE_MAX)
        r[n++] = (recipe_record){"a/data/0", f->bytes0 == 24 ? (const void *)six : zeros, f->bytes0,
                                 false};
    if (f->bytes1 != SIZE_MAX)
        r[n++] = (recipe_record){"a/data/1", zeros, f->bytes1, false};
    if (f->version != NULL)
        r[n++] = (recipe_record){"a/version", f->version, strlen(f->version), false};
    if (f->more != NULL)
        r[n++] = (recipe_record){f->more, "x", 1, false};
    recipe_archive(out, r);
    swi_buf_free(&pickle);
}

static sw_status open_bytes(const swi_buf *b, swi_torch_file **out, sw_error *err)
{
    mem_reader m;
    mem_reader_init(&m, b->data, b->size);
    return swi_torch_open(&m.pub, 0, 0, b->size, out, err);
}

static swi_torch_file *open_pickle(const char *text, size_t bytes0, size_t bytes1)
{
    const fixture f = {text, "little", "3\n", NULL, bytes0, bytes1};
    swi_buf b = {0};
    sw_error err = {0};
    swi_torch_file *tf = NULL;
    make(&b, &f);
    assert_ok(open_bytes(&b, &tf, &err), &err);
    swi_buf_free(&b);
    return tf;
}

/* ---- good ---------------------------------------------------------------------------------- */

static void good_bare_tensor(void **state)
{
    (void)state;
    swi_torch_file *tf = open_pickle(PLAIN, 24, SIZE_MAX);
    sw_error err = {0};
    swi_torch_tensor t;
    assert_int_equal(swi_torch_storage_count(tf), 1);
    const swi_torch_storage *s = swi_torch_storage_at(tf, 0);
    assert_string_equal(s->key, "0");
    assert_int_equal(s->dtype, SW_F32);
    assert_int_equal(s->bytes, 24);
    assert_true(s->has_crc);
    assert_int_equal(s->crc32, swi_crc32(0, six, 24));
    assert_int_equal(s->offset_bytes % 64, 0);
    assert_null(swi_torch_storage_at(tf, 1));
    assert_false(swi_torch_swapped(tf));
    assert_int_equal(swi_torch_unsafe(tf)->total, 0);
    assert_true(swi_torch_is_tensor(tf, swi_torch_root(tf)));
    assert_ok(swi_torch_get_tensor(tf, swi_torch_root(tf), &t, &err), &err);
    assert_int_equal(t.dtype, SW_F32);
    assert_int_equal(t.axes, 2);
    assert_int_equal(t.shape[1], 3);
    assert_int_equal(t.elements, 6);
    assert_true(t.dense);
    assert_false(t.requires_grad);
    swi_torch_free(tf);
}

typedef struct view {
    const char *pickle; /* a bare tensor */
    size_t bytes0;
    sw_dtype dtype;
    uint32_t axes;
    int64_t shape[3], stride[3];
    uint64_t start;
    bool dense, grad;
} view;

#define V2(storage, rest) "proto:2 M:torch._utils/_rebuild_tensor_v2 ( " storage rest HOOKS "t R ."
#define UNTYPED(module, class, numel) "( 'storage' M:" module "/" class " '0' 'cpu' " numel " t Q "

static const view views[] = {
    {V2(STORAGE("FloatStorage", "0", "6"), "0 ( 3 2 t ( 1 3 t "),
     24,
     SW_F32,
     2,
     {3, 2},
     {1, 3},
     0,
     false,
     false},
    {V2(STORAGE("HalfStorage", "0", "12"), "7 ( 5 t ( 1 t "),
     24,
     SW_F16,
     1,
     {5},
     {1},
     7,
     true,
     false},
    /* expanded: a stride of 0 */
    {V2(STORAGE("DoubleStorage", "0", "3"), "0 ( 4 3 t ( 0 1 t "),
     24,
     SW_F64,
     2,
     {4, 3},
     {0, 1},
     0,
     false,
     false},
    /* scalar; empty with any strides; axes of length 1 with any strides */
    {V2(STORAGE("BFloat16Storage", "0", "12"), "11 ( t ( t "),
     24,
     SW_BF16,
     0,
     {0},
     {0},
     11,
     true,
     false},
    {V2(STORAGE("CharStorage", "0", "24"), "0 ( 0 7 t ( 1000000007 1 t "),
     24,
     SW_I8,
     2,
     {0, 7},
     {1000000007, 1},
     0,
     true,
     false},
    {V2(STORAGE("ByteStorage", "0", "24"), "0 ( 24 1 t ( 1 99 t "),
     24,
     SW_U8,
     2,
     {24, 1},
     {1, 99},
     0,
     true,
     false},
    {V2(UNTYPED("torch.storage", "UntypedStorage", "24"), "4 ( 20 t ( 1 t "),
     24,
     SW_U8,
     1,
     {20},
     {1},
     4,
     true,
     false},
    {V2(UNTYPED("torch", "_UntypedStorage", "24"), "0 ( 24 t ( 1 t "),
     24,
     SW_U8,
     1,
     {24},
     {1},
     0,
     true,
     false},
    {V2("( 'storage' M:torch.cuda/LongStorage '0' 'cuda:7' 3 t Q ", "0 ( 3 t ( 1 t "),
     24,
     SW_I64,
     1,
     {3},
     {1},
     0,
     true,
     false},
    /* torch.Size as size, a list as stride, six parts of a legacy id */
    {V2("( 'storage' M:torch/IntStorage '0' 'cpu' 6 N t Q ", "0 M:torch/Size ( ( 6 t t R ] ( 1 e "),
     24,
     SW_I32,
     1,
     {6},
     {1},
     0,
     true,
     false},
    /* v3: the dtype beside untyped bytes; empty metadata */
    {"proto:2 M:torch._utils/_rebuild_tensor_v3 ( " UNTYPED("torch.storage", "UntypedStorage",
                                                            "24") "2 ( 3 t ( 2 t " HOOKS
                                                                  "M:torch/float8_e4m3fn t R .",
     24,
     SW_F8_E4M3FN,
     1,
     {3},
     {2},
     2,
     false,
     false},
    /* _rebuild_tensor of torch 0.x; Parameter; tensor with attributes; both */
    {"proto:2 M:torch._utils/_rebuild_tensor ( " STORAGE("FloatStorage", "0",
                                                         "6") "1 ( 5 t ( 1 t t R .",
     24,
     SW_F32,
     1,
     {5},
     {1},
     1,
     true,
     false},
    {"proto:2 M:torch._utils/_rebuild_parameter ( " TENSOR
     "true M:collections/OrderedDict ) R t R .",
     24,
     SW_F32,
     2,
     {2, 3},
     {3, 1},
     0,
     true,
     true},
    {"proto:2 M:torch._utils/_rebuild_parameter_with_state ( " TENSOR
     "true M:collections/OrderedDict ) R } 'x' 1 s t R .",
     24,
     SW_F32,
     2,
     {2, 3},
     {3, 1},
     0,
     true,
     true},
    {"proto:2 M:torch._tensor/_rebuild_from_type_v2 ( M:torch._utils/_rebuild_tensor_v2 "
     "M:torch.nn.parameter/Parameter ( " STORAGE(
         "FloatStorage", "0",
         "6") "0 ( 2 3 t ( 3 1 t true M:collections/OrderedDict ) R t } 'x' 1 s t R .",
     24,
     SW_F32,
     2,
     {2, 3},
     {3, 1},
     0,
     true,
     true},
};

static void good_views(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        const view *v = &views[i];
        swi_torch_file *tf = open_pickle(v->pickle, v->bytes0, SIZE_MAX);
        swi_torch_tensor t;
        sw_error err = {0};
        assert_true(swi_torch_is_tensor(tf, swi_torch_root(tf)));
        assert_ok(swi_torch_get_tensor(tf, swi_torch_root(tf), &t, &err), &err);
        assert_int_equal(t.dtype, v->dtype);
        assert_int_equal(t.axes, v->axes);
        for (uint32_t k = 0; k < v->axes; k++) {
            assert_int_equal(t.shape[k], v->shape[k]);
            assert_int_equal(t.stride_elements[k], v->stride[k]);
        }
        assert_int_equal(t.start_elements, v->start);
        assert_int_equal(t.dense, v->dense);
        assert_int_equal(t.requires_grad, v->grad);
        swi_torch_free(tf);
    }
}

static void good_shared_storage_and_values(void **state)
{
    (void)state;
    /* {'a': tensor, 'b': tensor on the same storage, 'step': 7, 'c': on another} */
    swi_torch_file *tf = open_pickle(
        "proto:2 } ( 'a' " TENSOR "'b' " TENSOR "'step' 7 'c' M:torch._utils/_rebuild_tensor_v2 "
        "( " STORAGE("LongStorage", "1", "2") "0 ( 2 t ( 1 t " HOOKS "t R u .",
        24, 16);
    const sw_value_graph *g = swi_torch_graph(tf);
    sw_value root = swi_torch_root(tf), v;
    sw_error err = {0};
    swi_torch_tensor a, b, c;
    int64_t step;
    assert_int_equal(swi_torch_storage_count(tf), 2);
    assert_true(swi_value_get(g, root, "a", &v));
    assert_ok(swi_torch_get_tensor(tf, v, &a, &err), &err);
    assert_true(swi_value_get(g, root, "b", &v));
    assert_ok(swi_torch_get_tensor(tf, v, &b, &err), &err);
    assert_true(swi_value_get(g, root, "c", &v));
    assert_ok(swi_torch_get_tensor(tf, v, &c, &err), &err);
    assert_int_equal(a.storage, b.storage);
    assert_int_not_equal(a.storage, c.storage);
    assert_string_equal(swi_torch_storage_at(tf, c.storage)->key, "1");
    assert_true(swi_value_get(g, root, "step", &v));
    assert_false(swi_torch_is_tensor(tf, v));
    assert_true(sw_value_int(g, v, &step));
    assert_int_equal(step, 7);
    sw_value_graph *taken = swi_torch_take_graph(tf);
    assert_non_null(taken);
    assert_null(swi_torch_graph(tf));
    (void)!swi_torch_get_tensor(tf, v, &a, &err);
    assert_error(&err, SW_ERR_FORMAT, "not a tensor");
    swi_torch_free(tf);
    assert_true(sw_value_int(taken, v, &step));
    sw_value_graph_free(taken);
}

static void good_byteorder(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        bool swapped;
    } cases[] = {{NULL, false}, {"little", false}, {"big", true}};
    for (size_t i = 0; i < 3; i++) {
        fixture f = plain;
        swi_buf b = {0};
        sw_error err = {0};
        swi_torch_file *tf;
        f.byteorder = cases[i].word;
        make(&b, &f);
        assert_ok(open_bytes(&b, &tf, &err), &err);
        assert_int_equal(swi_torch_swapped(tf), cases[i].swapped);
        swi_torch_free(tf);
        swi_buf_free(&b);
    }
}

static void good_versions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *complaint;
    } cases[] = {
        {"1\n", NULL},          {"10", NULL},           {"3", NULL},
        {"0\n", "version 0"},   {"11\n", "version 11"}, {"", "version"},
        {"3\n\n", "version 3"}, {"-3", "version -3"},   {"9999999999999999999999", "version 9"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fixture f = plain;
        swi_buf b = {0};
        sw_error err = {0};
        swi_torch_file *tf = NULL;
        f.version = cases[i].text;
        make(&b, &f);
        sw_status st = open_bytes(&b, &tf, &err);
        if (cases[i].complaint == NULL) {
            assert_ok(st, &err);
        } else {
            assert_error(&err, SW_ERR_UNSUPPORTED, cases[i].complaint);
            assert_string_equal(err.clause, "TF-2");
        }
        swi_torch_free(tf);
        swi_buf_free(&b);
    }
}

/* What dangerous names a pickle has does not fail it: they are listed. */
static void good_lists_unsafe(void **state)
{
    (void)state;
    swi_torch_file *tf =
        open_pickle("proto:2 } ( 'a' M:os/system ( 'id' t R u .", SIZE_MAX, SIZE_MAX);
    const swi_pickle_unsafe *unsafe = swi_torch_unsafe(tf);
    assert_int_equal(unsafe->total, 1);
    assert_contains(unsafe->at[0].name, "system");
    assert_in_range(unsafe->at[0].offset_bytes, 64, 64 + 40); /* in the file, not the pickle */
    swi_torch_free(tf);
}

/* ---- bad archives -------------------------------------------------------------------------- */

typedef struct bad {
    const char *from, *to; /* in the pickle of `plain` */
    sw_status status;
    const char *clause, *text;
} bad;

/* Failures of opening. */
static const bad bad_open[] = {
    {"t R .", "t R . N", SW_ERR_CORRUPT, "TF-4", "bytes behind its end"},
    {"'storage'", "'module'", SW_ERR_UNSUPPORTED, "TF-5", "names no storage"},
    {"'storage' M:torch/FloatStorage", "'storage' 5", SW_ERR_UNSUPPORTED, "TF-5",
     "names no storage"},
    {"M:torch/FloatStorage", "M:torch/QuaternionStorage", SW_ERR_UNSUPPORTED, "TF-5",
     "storage class torch.QuaternionStorage"},
    {"M:torch/FloatStorage", "M:evil/FloatStorage", SW_ERR_UNSUPPORTED, "TF-5",
     "storage class evil.FloatStorage"},
    {"'0' 'cpu' 6", "'../0' 'cpu' 6", SW_ERR_CORRUPT, "TF-5", "../0 is no storage key"},
    {"'0' 'cpu' 6", "'' 'cpu' 6", SW_ERR_CORRUPT, "TF-5", "is no storage key"},
    {"'0' 'cpu' 6", "'0' 'cpu' -1", SW_ERR_CORRUPT, "TF-5", "storage 0 has -1 elements"},
    {"'0' 'cpu' 6", "'0' 'cpu' 4611686018427387905", SW_ERR_CORRUPT, "TF-5",
     "has 4611686018427387905"},
    {"'0' 'cpu' 6", "'0' 'cpu' 7", SW_ERR_CORRUPT, "TF-6",
     "record data/0 holds 24 bytes, data.pkl says 28"},
    {"M:torch/FloatStorage", "M:torch/DoubleStorage", SW_ERR_CORRUPT, "TF-6",
     "record data/0 holds 24 bytes, data.pkl says 48"},
    {"'0' 'cpu' 6", "'7' 'cpu' 6", SW_ERR_CORRUPT, "TF-6", "the archive has no record data/7"},
};

static void bad_pickles(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_open) / sizeof(bad_open[0]); i++) {
        const bad *c = &bad_open[i];
        fixture f = plain;
        char *text = recipe_swap(PLAIN, c->from, c->to);
        swi_buf b = {0};
        sw_error err = {0};
        swi_torch_file *tf = NULL;
        f.pickle = text;
        make(&b, &f);
        (void)!open_bytes(&b, &tf, &err);
        assert_error(&err, c->status, c->text);
        assert_string_equal(err.clause, c->clause);
        assert_true(err.has_offset);
        assert_null(tf);
        swi_buf_free(&b);
        free(text);
    }
}

static void bad_storage_described_twice(void **state)
{
    (void)state;
    fixture f = plain;
    swi_buf b = {0};
    sw_error err = {0};
    swi_torch_file *tf = NULL;
    f.pickle = "proto:2 ( " TENSOR STORAGE("IntStorage", "0", "6") "t .";
    make(&b, &f);
    (void)!open_bytes(&b, &tf, &err);
    assert_error(&err, SW_ERR_CORRUPT,
                 "storage 0 is described twice, as 24 bytes of float32 and 24 bytes of int32");
    assert_string_equal(err.clause, "TF-5");
    swi_buf_free(&b);
}

static void bad_records(void **state)
{
    (void)state;
    static const struct {
        const char *byteorder, *version, *more;
        sw_status status;
        const char *clause, *text;
    } cases[] = {
        {"middle", "3\n", NULL, SW_ERR_CORRUPT, "TF-3", "byteorder is middle"},
        {"little\n", "3\n", NULL, SW_ERR_CORRUPT, "TF-3", "byteorder is little\\n"},
        {"little", NULL, NULL, SW_ERR_CORRUPT, "TF-2", "no version record"},
        {"little", "3\n", "a/constants.pkl", SW_ERR_UNSUPPORTED, "TF-1", "TorchScript"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fixture f = plain;
        swi_buf b = {0};
        sw_error err = {0};
        swi_torch_file *tf = NULL;
        f.byteorder = cases[i].byteorder;
        f.version = cases[i].version;
        f.more = cases[i].more;
        make(&b, &f);
        (void)!open_bytes(&b, &tf, &err);
        assert_error(&err, cases[i].status, cases[i].text);
        assert_string_equal(err.clause, cases[i].clause);
        swi_buf_free(&b);
    }
}

static void bad_not_an_archive(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        sw_status status;
        const char *text;
    } cases[] = {
        {"", 0, SW_ERR_FORMAT, "an empty file"},
        {"version https://git-lfs.github.com/spec/v1\n", 43, SW_ERR_FORMAT, "Git LFS pointer"},
        {"<!DOCTYPE html><html>", 21, SW_ERR_FORMAT, "an HTML"},
        {"\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19\x2E.", 16, SW_ERR_UNSUPPORTED,
         "before 1.6"},
        {"PK\003\004 and no more of it than this text", 38, SW_ERR_CORRUPT, "cut after 38 bytes"},
        {"something else altogether, but long", 35, SW_ERR_FORMAT, "not a torch.save archive"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        swi_buf b = {0};
        sw_error err = {0};
        swi_torch_file *tf = NULL;
        recipe_bytes(&b, cases[i].bytes, cases[i].size);
        (void)!open_bytes(&b, &tf, &err);
        assert_error(&err, cases[i].status, cases[i].text);
        swi_buf_free(&b);
    }
}

static void bad_zip_without_pickle(void **state)
{
    (void)state;
    static const recipe_record flat[] = {{"readme", "x", 1, false}, {0}};
    static const recipe_record other[] = {{"a/readme", "x", 1, false}, {0}};
    static const recipe_record none[] = {{0}};
    static const struct {
        const recipe_record *records;
        const char *text;
    } cases[] = {{flat, "lie in no folder"}, {other, "no a/data.pkl"}, {none, "it is empty"}};
    for (size_t i = 0; i < 3; i++) {
        swi_buf b = {0};
        sw_error err = {0};
        swi_torch_file *tf = NULL;
        recipe_archive(&b, cases[i].records);
        (void)!open_bytes(&b, &tf, &err);
        assert_error(&err, SW_ERR_FORMAT, cases[i].text);
        assert_string_equal(err.clause, "TF-1");
        swi_buf_free(&b);
    }
}

/* ---- bad tensors --------------------------------------------------------------------------- */

static const bad bad_tensor[] = {
    {"0 ( 2 3 t", "1 ( 2 3 t", SW_ERR_CORRUPT, "TF-7",
     "reaches to element 6 of storage 0, which holds 6"},
    {"( 3 1 t", "( 4 1 t", SW_ERR_CORRUPT, "TF-7", "reaches to element 6"},
    {"( 3 1 t", "( 9223372036854775807 1 t", SW_ERR_CORRUPT, "TF-7", "reaches to element"},
    {"( 2 3 t", "( 4294967296 4294967296 t", SW_ERR_CORRUPT, "TF-7", "more elements than can be"},
    {"( 2 3 t", "( -2 3 t", SW_ERR_CORRUPT, "TF-7", "a size of -2"},
    {"( 3 1 t", "( -3 1 t", SW_ERR_CORRUPT, "TF-7", "a stride of -3"},
    {"( 3 1 t", "( 1 t", SW_ERR_CORRUPT, "TF-7", "more or fewer strides than axes"},
    {"0 ( 2 3 t", "-1 ( 2 3 t", SW_ERR_CORRUPT, "TF-7", "a storage offset that is none"},
    {"0 ( 2 3 t", "N ( 2 3 t", SW_ERR_CORRUPT, "TF-7", "a storage offset that is none"},
    {"( 2 3 t", "( 'x' 3 t", SW_ERR_FORMAT, "TF-7", "not a tuple of integers: size"},
    {"( 2 3 t", "6", SW_ERR_FORMAT, "TF-7", "not a tuple of integers: size"},
    {"( 2 3 t", "( 1 1 1 1 1 1 1 1 1 1 1 t", SW_ERR_UNSUPPORTED, "TF-7", "a tensor of 11 axes"},
    {"false M:collections/OrderedDict ) R t R", "t R", SW_ERR_FORMAT, "TF-7", "other arguments"},
    {") R t R .", ") R } 'conj' true s t R .", SW_ERR_UNSUPPORTED, "TF-8",
     "a tensor view with the bit conj"},
    {") R t R .", ") R } 'neg' true s t R .", SW_ERR_UNSUPPORTED, "TF-8", "the bit neg"},
    {") R t R .", ") R 5 t R .", SW_ERR_UNSUPPORTED, "TF-8", "metadata of an unknown kind"},
    {") R t R .", ") R } 'conj' false s t R .", SW_OK, "", ""},
    {"M:torch/FloatStorage", "M:torch/QInt32Storage", SW_ERR_UNSUPPORTED, "TF-8", "quantised"},
    {"M:torch._utils/_rebuild_tensor_v2", "M:torch._utils/_rebuild_qtensor", SW_ERR_UNSUPPORTED,
     "TF-8", "not a plain tensor but: _rebuild_qtensor"},
    {"M:torch._utils/_rebuild_tensor_v2", "M:torch._utils/_rebuild_sparse_tensor",
     SW_ERR_UNSUPPORTED, "TF-8", "_rebuild_sparse_tensor"},
    {"M:torch._utils/_rebuild_tensor_v2", "M:torch._utils/_rebuild_tensor_v3", SW_ERR_FORMAT,
     "TF-7", "other arguments"},
    {") R t R .", ") R t R tuple1 .", SW_ERR_FORMAT, "TF-7", "not a tensor"},
    {STORAGE("FloatStorage", "0", "6"), "N ", SW_ERR_FORMAT, "TF-7", "without a storage"},
};

static void bad_tensors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_tensor) / sizeof(bad_tensor[0]); i++) {
        const bad *c = &bad_tensor[i];
        char *text = recipe_swap(PLAIN, c->from, c->to);
        sw_error err = {0};
        swi_torch_tensor t = {.axes = 77};
        swi_torch_file *tf = open_pickle(text, 24, SIZE_MAX);
        sw_status st = swi_torch_get_tensor(tf, swi_torch_root(tf), &t, &err);
        if (c->status == SW_OK) {
            assert_ok(st, &err);
        } else {
            assert_error(&err, c->status, c->text);
            assert_string_equal(err.clause, c->clause);
            assert_int_equal(t.axes, 77);
        }
        swi_torch_free(tf);
        free(text);
    }
}

static void bad_v3_tensors(void **state)
{
    (void)state;
    static const char base[] = "proto:2 M:torch._utils/_rebuild_tensor_v3 ( " UNTYPED(
        "torch.storage", "UntypedStorage", "24") "0 ( 24 t ( 1 t " HOOKS
                                                 "M:torch/float8_e5m2 t R .";
    static const bad cases[] = {
        {"M:torch/float8_e5m2", "M:torch/float3_e1m1", SW_ERR_UNSUPPORTED, "TF-7",
         "dtype: float3_e1m1"},
        {"M:torch/float8_e5m2", "M:numpy/float32", SW_ERR_UNSUPPORTED, "TF-7", "dtype: float32"},
        {"M:torch/float8_e5m2", "'float32'", SW_ERR_FORMAT, "TF-7", "without a dtype"},
        {"M:torch/float8_e5m2", "M:torch/uint16", SW_ERR_CORRUPT, "TF-7",
         "reaches to element 23 of storage 0, which holds 12"},
        {"M:torch.storage/UntypedStorage", "M:torch/ByteStorage", SW_ERR_CORRUPT, "TF-7",
         "with dtype on a typed storage"},
        {"M:torch/float8_e5m2 t", "M:torch/float8_e5m2 } t", SW_OK, "", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text = recipe_swap(base, cases[i].from, cases[i].to);
        sw_error err = {0};
        swi_torch_tensor t;
        swi_torch_file *tf = open_pickle(text, 24, SIZE_MAX);
        sw_status st = swi_torch_get_tensor(tf, swi_torch_root(tf), &t, &err);
        if (cases[i].status == SW_OK) {
            assert_ok(st, &err);
        } else {
            assert_error(&err, cases[i].status, cases[i].text);
            assert_string_equal(err.clause, cases[i].clause);
        }
        swi_torch_free(tf);
        free(text);
    }
}

/* ---- written by us ------------------------------------------------------------------------- */

static void writes_every_dtype(void **state)
{
    (void)state;
    static const uint8_t data[16 * 6];
    for (int d = SW_DTYPE_NONE + 1; d < SW_DTYPE_COUNT; d++) {
        const int64_t shape[3] = {2, 0, 3}, full[2] = {2, 3};
        for (int empty = 0; empty < 2; empty++) {
            swi_buf b = {0};
            sw_error err = {0};
            swi_torch_file *tf;
            swi_torch_tensor t;
            assert_ok(swi_torch_write_tensor(&b, (sw_dtype)d, empty ? 3 : 2, empty ? shape : full,
                                             data, &err),
                      &err);
            assert_ok(open_bytes(&b, &tf, &err), &err);
            assert_ok(swi_torch_get_tensor(tf, swi_torch_root(tf), &t, &err), &err);
            assert_int_equal(t.dtype, d);
            assert_true(t.dense);
            assert_int_equal(t.elements, empty ? 0 : 6);
            assert_int_equal(swi_torch_storage_at(tf, 0)->bytes,
                             t.elements * sw_dtype_bytes((sw_dtype)d));
            swi_torch_free(tf);
            swi_buf_free(&b);
        }
    }
}

static sw_status emit_pair(void *ctx, swi_pickle_writer *w, sw_error *err)
{
    (void)ctx;
    sw_status st = swi_pickle_op(w, '(', err);
    if (st == SW_OK)
        st = swi_pickle_float(w, 0.5, err);
    if (st == SW_OK)
        st = swi_pickle_str(w, "x", 1, err);
    return st == SW_OK ? swi_pickle_op(w, 't', err) : st;
}

static void writes_values(void **state)
{
    (void)state;
    swi_buf b = {0}, again = {0};
    sw_error err = {0};
    swi_torch_file *tf;
    sw_value item;
    double v;
    assert_ok(swi_torch_write_value(&b, emit_pair, NULL, &err), &err);
    assert_ok(swi_torch_write_value(&again, emit_pair, NULL, &err), &err);
    assert_int_equal(b.size, again.size);
    assert_memory_equal(b.data, again.data, b.size);
    assert_ok(open_bytes(&b, &tf, &err), &err);
    assert_int_equal(swi_torch_storage_count(tf), 0);
    assert_true(sw_value_item(swi_torch_graph(tf), swi_torch_root(tf), 0, &item));
    assert_true(sw_value_float(swi_torch_graph(tf), item, &v));
    assert_true(v == 0.5);
    swi_torch_free(tf);
    swi_buf_free(&b);
    swi_buf_free(&again);
}

static void writer_refuses(void **state)
{
    (void)state;
    swi_buf b = {0};
    sw_error err = {0};
    const int64_t negative[] = {-1}, huge[] = {INT64_MAX, 3};
    (void)!swi_torch_write_tensor(&b, SW_F32, 1, negative, NULL, &err);
    assert_error(&err, SW_ERR_ARG, "cannot be");
    (void)!swi_torch_write_tensor(&b, SW_F32, 2, huge, NULL, &err);
    assert_error(&err, SW_ERR_ARG, "cannot be");
    (void)!swi_torch_write_tensor(&b, SW_DTYPE_NONE, 0, NULL, NULL, &err);
    assert_error(&err, SW_ERR_UNSUPPORTED, "no dtype");
    assert_int_equal(b.size, 0);
}

static void dtype_names(void **state)
{
    (void)state;
    for (int d = SW_DTYPE_NONE + 1; d < SW_DTYPE_COUNT; d++) {
        const char *name = swi_torch_dtype_name((sw_dtype)d);
        assert_non_null(name);
        assert_int_equal(swi_torch_dtype(name), d);
    }
    assert_null(swi_torch_dtype_name(SW_DTYPE_NONE));
    assert_int_equal(swi_torch_dtype("float"), SW_DTYPE_NONE);
    assert_int_equal(swi_torch_dtype(""), SW_DTYPE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_bare_tensor),
        cmocka_unit_test(good_views),
        cmocka_unit_test(good_shared_storage_and_values),
        cmocka_unit_test(good_byteorder),
        cmocka_unit_test(good_versions),
        cmocka_unit_test(good_lists_unsafe),
        cmocka_unit_test(bad_pickles),
        cmocka_unit_test(bad_storage_described_twice),
        cmocka_unit_test(bad_records),
        cmocka_unit_test(bad_not_an_archive),
        cmocka_unit_test(bad_zip_without_pickle),
        cmocka_unit_test(bad_tensors),
        cmocka_unit_test(bad_v3_tensors),
        cmocka_unit_test(writes_every_dtype),
        cmocka_unit_test(writes_values),
        cmocka_unit_test(writer_refuses),
        cmocka_unit_test(dtype_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
