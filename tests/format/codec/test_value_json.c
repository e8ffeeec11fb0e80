/* Values as tagged JSON: every kind there and back, and what is refused (specs/values.md). */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "codec/json.h"
#include "codec/value_json.h"

static const char *const names[] = {"model.w", "b"};

static const char *name_of(const void *ctx, uint32_t index)
{
    (void)ctx;
    return index < 2 ? names[index] : NULL;
}

static int64_t find(const void *ctx, const char *name, size_t size)
{
    (void)ctx;
    for (int64_t i = 0; i < 2; i++)
        if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0)
            return i;
    return -1;
}

static sw_status read_text(const char *text, sw_value_graph **graph, sw_value *v, sw_error *err)
{
    sw_value_graph *json = NULL;
    sw_value root;
    sw_limits limits = sw_limits_resolve(NULL);
    sw_error own = {0};
    assert_ok(swi_json_parse(text, strlen(text), &limits, &json, &root, &own), &own);
    assert_ok(swi_graph_make(&limits, graph, &own), &own);
    sw_status st = swi_value_json_read(json, root, *graph, find, NULL, v, err);
    sw_value_graph_free(json);
    return st;
}

/* ---- texts that are written so --------------------------------------------------------------- */

static const char *const texts[] = {
    "null",
    "true",
    "[false,0,-7,9223372036854775807,-9223372036854775808]",
    "[0.5,-0.0,1e+300,1.0,4.94065645841247e-324]",
    "[{\"$float\":\"nan\"},{\"$float\":\"inf\"},{\"$float\":\"-inf\"}]",
    "{\"$float\":\"7ff8000000000001\"}",
    "{\"$float\":\"fff8000000000000\"}",
    "{\"$int\":\"000000000000000001\"}",
    "{\"$complex\":[1.0,{\"$float\":\"nan\"}]}",
    "\"text \\\"with\\\\ \\u0001 \xc3\xa9\"",
    "{\"$str\":\"eda080\"}",
    "{\"$bytes\":\"AAEC/w==\"}",
    "{\"$bytes\":\"\"}",
    "{\"$bytearray\":\"AAEC\"}",
    "[]",
    "{}",
    "{\"b\":1,\"a\":[2,{\"c\":null}]}",
    "{\"$tuple\":[]}",
    "{\"$tuple\":[1,{\"$tuple\":[0.9,0.999]}]}",
    "{\"$set\":[1,2]}",
    "{\"$frozenset\":[\"a\"]}",
    "{\"$dict\":[[1,\"one\"],[{\"$tuple\":[1,2]},null],[\"k\",true]]}",
    "{\"$dict\":[[\"$ref\",0]]}",
    "{\"$global\":[\"torch\",\"float32\"]}",
    ("{\"$object\":[{\"$global\":[\"collections\",\"OrderedDict\"]},{\"$tuple\":[]},null,{\"a\":1},"
     "4]}"),
    "{\"$object\":[{\"$global\":[\"m\",\"C\"]},{\"$tuple\":[1]},{\"x\":2},null,3]}",
    "{\"$persistent\":{\"$tuple\":[\"storage\",\"0\"]}}",
    "{\"$tensor\":\"model.w\"}",
    "{\"model\":{\"w\":{\"$tensor\":\"model.w\"}},\"b\":{\"$tensor\":\"b\"}}",
    "[{\"$id\":0,\"$value\":[1]},{\"$ref\":0},{\"$ref\":0}]",
    "{\"$id\":0,\"$value\":[{\"$ref\":0}]}",
    "{\"$id\":0,\"$value\":{\"self\":{\"$ref\":0}}}",
    "[{\"$id\":0,\"$value\":{\"$set\":[1]}},{\"$id\":1,\"$value\":[]},{\"$ref\":1},{\"$ref\":0}]",
};

static void test_there_and_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        sw_value_graph *graph = NULL;
        sw_value v;
        swi_buf out = {0};
        sw_error err = {0};
        sw_status st = read_text(texts[i], &graph, &v, &err);
        if (st == SW_OK)
            st = swi_value_json_write(graph, v, name_of, NULL, &out, &err);
        if (st != SW_OK)
            fail_msg("%s: %s", texts[i], err.text);
        if (out.size != strlen(texts[i]) || memcmp(out.data, texts[i], out.size) != 0)
            fail_msg("%s: became %.*s", texts[i], (int)out.size, (const char *)out.data);
        swi_buf_free(&out);
        sw_value_graph_free(graph);
    }
}

/* What is one list twice is one list again, and what is inside itself is. */
static void test_shared_is_shared(void **state)
{
    (void)state;
    sw_value_graph *graph = NULL;
    sw_value v, a, b, inside;
    sw_error err = {0};
    assert_ok(read_text("[{\"$id\":0,\"$value\":[1]},{\"$ref\":0}]", &graph, &v, &err), &err);
    assert_true(sw_value_item(graph, v, 0, &a) && sw_value_item(graph, v, 1, &b));
    assert_int_equal(a.bits, b.bits);
    sw_value_graph_free(graph);
    assert_ok(read_text("{\"$id\":0,\"$value\":[{\"$ref\":0}]}", &graph, &v, &err), &err);
    assert_true(sw_value_item(graph, v, 0, &inside));
    assert_int_equal(inside.bits, v.bits);
    sw_value_graph_free(graph);
}

/* ---- texts that are refused ------------------------------------------------------------------ */

static const struct {
    const char *text, *says;
    sw_status status;
} wrong[] = {
    {"{\"$tupel\":[]}", "a tag that is none", SW_ERR_FORMAT},
    {"{\"$tuple\":{}}", "a tagged container is a list", SW_ERR_FORMAT},
    {"{\"$tuple\":[],\"x\":1}", "alone in its object", SW_ERR_FORMAT},
    {"{\"$float\":\"NaN\"}", "none of nan, inf, -inf", SW_ERR_FORMAT},
    {"{\"$float\":\"7FF8000000000001\"}", "none of nan, inf, -inf", SW_ERR_FORMAT},
    {"{\"$int\":\"abc\"}", "half a byte", SW_ERR_FORMAT},
    {"{\"$int\":\"zz\"}", "no hexadecimal digits", SW_ERR_FORMAT},
    {"{\"$complex\":[1.0]}", "a list of two floats", SW_ERR_FORMAT},
    {"{\"$dict\":[[1]]}", "a list of pairs", SW_ERR_FORMAT},
    {"{\"$dict\":[1]}", "a list of pairs", SW_ERR_FORMAT},
    {"{\"$global\":[\"m\"]}", "a module and a name", SW_ERR_FORMAT},
    {"{\"$global\":[\"m\",\"n\\u0000\"]}", "a module and a name", SW_ERR_FORMAT},
    {"{\"$object\":[1,2,3]}", "a list of five", SW_ERR_FORMAT},
    {"{\"$object\":[null,{\"$tuple\":[]},null,null,8]}", "a number of 0 to 7", SW_ERR_FORMAT},
    {"{\"$object\":[null,[],null,null,0]}", "a tuple", SW_ERR_FORMAT},
    {"{\"$object\":[null,{\"$tuple\":[]},null,1,4]}", "a list or a dict", SW_ERR_FORMAT},
    {"{\"$ref\":0}", "nothing has yet", SW_ERR_FORMAT},
    {"{\"$ref\":-1}", "nothing has yet", SW_ERR_FORMAT},
    {"{\"$id\":1,\"$value\":[]}", "not the next number", SW_ERR_FORMAT},
    {"{\"$id\":0}", "not the next number", SW_ERR_FORMAT},
    {"{\"$id\":0,\"$value\":1}", "no container", SW_ERR_FORMAT},
    {"{\"$tensor\":\"x\"}", "there is no tensor \"x\"", SW_ERR_CORRUPT},
};

static void test_what_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sw_value_graph *graph = NULL;
        sw_value v;
        sw_error err = {0};
        sw_status st = read_text(wrong[i].text, &graph, &v, &err);
        if (st != wrong[i].status || strstr(err.text, wrong[i].says) == NULL)
            fail_msg("%s: %s: %s", wrong[i].text, sw_status_name(st), err.text);
        sw_value_graph_free(graph);
    }
}

/* An object inside itself, a tensor without a name, lists that unfold without end. */
static void test_what_cannot_be_written(void **state)
{
    (void)state;
    sw_value_graph *g = NULL;
    sw_limits limits = sw_limits_resolve(NULL);
    sw_value v = swi_value_of_tensor(2), tuple[2];
    swi_buf out = {0};
    sw_error err = {0};
    assert_ok(swi_graph_make(&limits, &g, &err), &err);
    assert_int_equal(swi_value_json_write(g, v, name_of, NULL, &out, &err), SW_ERR_UNSUPPORTED);
    assert_ok(swi_graph_int(g, 1, &v, &err), &err);
    for (int i = 0; i < 40; i++) {
        tuple[0] = tuple[1] = v;
        assert_ok(swi_graph_sequence(g, SW_VALUE_TUPLE, tuple, 2, &v, &err), &err);
    }
    assert_int_equal(swi_value_json_write(g, v, name_of, NULL, &out, &err), SW_ERR_LIMIT);
    sw_value_graph_free(g);
    swi_buf_free(&out);
}

/* Keys too long to be compared when a pickle is read, as a hostile one has them. */
static void test_long_keys(void **state)
{
    (void)state;
    static char text[5000];
    for (size_t size = 4096; size <= sizeof text; size += sizeof text - 4096) {
        sw_value_graph *g = NULL;
        sw_limits limits = sw_limits_resolve(NULL);
        sw_value dict, pair[2];
        swi_buf out = {0};
        sw_error err = {0};
        memset(text, 'k', sizeof text);
        assert_ok(swi_graph_make(&limits, &g, &err), &err);
        assert_ok(swi_graph_dict(g, &dict, &err), &err);
        for (int i = 0; i < 3; i++) {
            text[1] = i == 1 ? 'x' : 'k'; /* the first and the last are equal */
            assert_ok(swi_graph_text(g, SW_VALUE_STR, text, size, &pair[0], &err), &err);
            pair[1] = swi_value_none();
            assert_ok(swi_graph_set_items(g, dict, pair, 1, &err), &err);
        }
        sw_status st = swi_value_json_write(g, dict, name_of, NULL, &out, &err);
        if (size == 4096) { /* one key */
            assert_ok(st, &err);
        } else {
            assert_int_equal(st, SW_ERR_UNSUPPORTED);
            assert_error(&err, SW_ERR_UNSUPPORTED, "the same key of 5000 bytes twice");
        }
        swi_buf_free(&out);
        sw_value_graph_free(g);
    }
}

/* ---- random graphs --------------------------------------------------------------------------- */

#define NODES 40

typedef struct making {
    harness_prng prng;
    sw_value_graph *g;
    sw_value made[NODES];
    size_t count;
} making;

static size_t below(making *m, size_t n)
{
    return (size_t)harness_random_below(&m->prng, n);
}

static double any_double(making *m)
{
    static const uint64_t odd[] = {0,
                                   UINT64_C(1) << 63,
                                   1,
                                   UINT64_C(0x7ff0000000000000),
                                   UINT64_C(0xfff0000000000000),
                                   UINT64_C(0x7ff8000000000000),
                                   UINT64_C(0x7ff0000000000001),
                                   UINT64_C(0xffffffffffffffff)};
    uint64_t bits = below(m, 2) == 0 ? odd[below(m, 8)] : harness_random(&m->prng);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Also texts that look like tags, and halves of surrogate pairs. */
static sw_status any_text(making *m, sw_value_kind kind, sw_value *out)
{
    static const char *const keys[] = {"",  "a",  "b",     "$",        "$ref",         "$id",
                                       "k", "\n", "\"\\/", "\xc3\xa9", "\xed\xa0\x80", "$dict"};
    const char *text = keys[below(m, 12)];
    return swi_graph_text(m->g, kind, text, strlen(text), out, NULL);
}

static sw_status any_leaf(making *m, sw_value *out)
{
    uint8_t bytes[24];
    harness_random_fill(&m->prng, bytes, sizeof bytes);
    switch (below(m, 10)) {
    case 0:
        *out = swi_value_of_tensor((uint32_t)below(m, 2));
        return SW_OK;
    case 1:
        return swi_graph_int(m->g, (int64_t)(harness_random(&m->prng) >> below(m, 64)), out, NULL);
    case 2:
        return swi_graph_bigint(m->g, bytes, 1 + below(m, sizeof bytes), out, NULL);
    case 3:
        return swi_graph_float(m->g, any_double(m), out, NULL);
    case 4:
        return swi_graph_complex(m->g, any_double(m), any_double(m), out, NULL);
    case 5:
        return any_text(m, SW_VALUE_STR, out);
    case 6:
        return swi_graph_text(m->g, SW_VALUE_BYTES, bytes, below(m, sizeof bytes), out, NULL);
    case 7:
        return swi_graph_bytearray(m->g, bytes, below(m, sizeof bytes), out, NULL);
    case 8:
        return swi_graph_global(m->g, "m", below(m, 2) == 0 ? "A" : "B.c", out, NULL);
    default:
        *out = below(m, 3) == 0 ? swi_value_none() : swi_value_of_bool(below(m, 2) == 0);
        return SW_OK;
    }
}

static sw_value any_made(making *m)
{
    return m->made[below(m, m->count)];
}

static sw_status any_dict(making *m, sw_value *out)
{
    sw_status st = swi_graph_dict(m->g, out, NULL);
    const bool by_text = below(m, 3) > 0;
    for (size_t i = below(m, 4); st == SW_OK && i > 0; i--) {
        sw_value pair[2] = {swi_value_none(), any_made(m)};
        st = by_text ? any_text(m, SW_VALUE_STR, &pair[0])
                     : swi_graph_int(m->g, (int64_t)below(m, 5), &pair[0], NULL);
        if (st == SW_OK)
            st = swi_graph_set_items(m->g, *out, pair, 1, NULL);
    }
    return st;
}

static sw_status any_object(making *m, sw_value *out)
{
    sw_value_object o = {.callable = any_made(m),
                         .state = swi_value_none(),
                         .items = swi_value_none(),
                         .is_new = below(m, 2) == 0,
                         .has_state = below(m, 2) == 0,
                         .has_items = below(m, 2) == 0};
    const sw_value arg = any_made(m);
    sw_status st = swi_graph_sequence(m->g, SW_VALUE_TUPLE, &arg, below(m, 2), &o.args, NULL);
    if (o.has_state)
        o.state = any_made(m);
    if (st == SW_OK && o.has_items)
        st = any_dict(m, &o.items);
    return st == SW_OK ? swi_graph_object(m->g, &o, out, NULL) : st;
}

static sw_status any_node(making *m, sw_value *out)
{
    static const sw_value_kind kinds[] = {SW_VALUE_LIST, SW_VALUE_TUPLE, SW_VALUE_SET,
                                          SW_VALUE_FROZENSET};
    sw_value items[3];
    if (m->count == 0 || below(m, 3) == 0)
        return any_leaf(m, out);
    switch (below(m, 5)) {
    case 0:
        return any_dict(m, out);
    case 1:
        return any_object(m, out);
    case 2:
        return swi_graph_persistent(m->g, any_made(m), out, NULL);
    default:
        break;
    }
    for (size_t i = 0; i < 3; i++)
        items[i] = any_made(m);
    return swi_graph_sequence(m->g, kinds[below(m, 4)], items, below(m, 4), out, NULL);
}

/* What was made last holds some of what was made before, more than once; some lists hold it. */
static void make_graph(making *m, uint64_t seed)
{
    const sw_limits limits = sw_limits_resolve(NULL);
    *m = (making){.prng = {.state = seed}};
    assert_int_equal(swi_graph_make(&limits, &m->g, NULL), SW_OK);
    for (size_t n = 1 + below(m, NODES); m->count < n; m->count++)
        assert_int_equal(any_node(m, &m->made[m->count]), SW_OK);
    for (size_t i = 0; i < m->count && seed % 4 == 0; i++)
        if (sw_value_get_kind(m->g, m->made[i]) == SW_VALUE_LIST)
            assert_int_equal(swi_graph_append(m->g, m->made[i], &m->made[m->count - 1], 1, NULL),
                             SW_OK);
}

/* ---- are two graphs the same? By what they hold, and by what is the same container. -----------
 */

typedef struct pairing {
    const sw_value_graph *a, *b;
    uint64_t left[4096], right[4096]; /* containers met, as pairs */
    size_t met;
    sw_value todo[65536][2];
    size_t depth;
} pairing;

static bool is_shared_kind(sw_value_kind kind)
{
    return kind == SW_VALUE_LIST || kind == SW_VALUE_DICT || kind == SW_VALUE_SET ||
           kind == SW_VALUE_OBJECT;
}

static void both(pairing *p, sw_value a, sw_value b)
{
    assert_true(p->depth < sizeof p->todo / sizeof p->todo[0]);
    p->todo[p->depth][0] = a;
    p->todo[p->depth++][1] = b;
}

/* false: they were met before, as each other. */
static bool is_new_pair(pairing *p, sw_value a, sw_value b)
{
    for (size_t i = 0; i < p->met; i++) {
        assert_int_equal(p->left[i] == a.bits, p->right[i] == b.bits);
        if (p->left[i] == a.bits)
            return false;
    }
    assert_true(p->met < sizeof p->left / sizeof p->left[0]);
    p->left[p->met] = a.bits;
    p->right[p->met++] = b.bits;
    return true;
}

static void compare_bits(double a, double b)
{
    assert_memory_equal(&a, &b, sizeof a);
}

static void compare_leaf(const pairing *p, sw_value a, sw_value b)
{
    const char *module[2], *name[2];
    const uint8_t *data[2];
    size_t size[2];
    double re[2], im[2];
    if (sw_value_bytes(p->a, a, &data[0], &size[0])) {
        assert_true(sw_value_bytes(p->b, b, &data[1], &size[1]));
        assert_int_equal(size[0], size[1]);
        assert_true(size[0] == 0 || memcmp(data[0], data[1], size[0]) == 0);
        assert_int_equal(sw_value_is_bytearray(p->a, a), sw_value_is_bytearray(p->b, b));
    } else if (sw_value_float(p->a, a, &re[0])) {
        assert_true(sw_value_float(p->b, b, &re[1]));
        compare_bits(re[0], re[1]);
    } else if (sw_value_complex(p->a, a, &re[0], &im[0])) {
        assert_true(sw_value_complex(p->b, b, &re[1], &im[1]));
        compare_bits(re[0], re[1]);
        compare_bits(im[0], im[1]);
    } else if (sw_value_global(p->a, a, &module[0], &name[0])) {
        assert_true(sw_value_global(p->b, b, &module[1], &name[1]));
        assert_string_equal(module[0], module[1]);
        assert_string_equal(name[0], name[1]);
    } else {
        int64_t n[2] = {0, 0};
        const bool is_int = sw_value_int(p->a, a, &n[0]);
        assert_int_equal(is_int, sw_value_int(p->b, b, &n[1]));
        assert_true(is_int ? n[0] == n[1] : a.bits == b.bits); /* none, bools, tensors */
    }
}

static void compare_parts(pairing *p, sw_value a, sw_value b)
{
    sw_value_object o, q;
    sw_value x, y, k, l;
    const size_t n = sw_value_size(p->a, a);
    if (sw_value_get_object(p->a, a, &o)) {
        assert_true(sw_value_get_object(p->b, b, &q));
        assert_true(o.is_new == q.is_new && o.has_state == q.has_state &&
                    o.has_items == q.has_items);
        both(p, o.callable, q.callable);
        both(p, o.args, q.args);
        both(p, o.state, q.state);
        both(p, o.items, q.items);
    } else if (sw_value_persistent(p->a, a, &x)) {
        assert_true(sw_value_persistent(p->b, b, &y));
        both(p, x, y);
    } else {
        assert_int_equal(n, sw_value_size(p->b, b));
        for (size_t i = 0; i < n; i++) {
            if (sw_value_pair(p->a, a, i, &k, &x)) {
                assert_true(sw_value_pair(p->b, b, i, &l, &y));
                both(p, k, l);
            } else {
                assert_true(sw_value_item(p->a, a, i, &x) && sw_value_item(p->b, b, i, &y));
            }
            both(p, x, y);
        }
    }
}

static void compare(const sw_value_graph *g, sw_value a, const sw_value_graph *h, sw_value b)
{
    pairing *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->a = g;
    p->b = h;
    both(p, a, b);
    while (p->depth > 0) {
        p->depth--;
        a = p->todo[p->depth][0];
        b = p->todo[p->depth][1];
        const sw_value_kind kind = sw_value_get_kind(g, a);
        assert_int_equal(kind, sw_value_get_kind(h, b));
        if (is_shared_kind(kind) && !is_new_pair(p, a, b))
            continue;
        if (is_shared_kind(kind) || kind == SW_VALUE_TUPLE || kind == SW_VALUE_FROZENSET ||
            kind == SW_VALUE_PERSISTENT)
            compare_parts(p, a, b);
        else
            compare_leaf(p, a, b);
    }
    free(p);
}

/* Written and read it is the same graph, and written again the same text. */
static void test_random_graphs(void **state)
{
    (void)state;
    size_t written = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        making m;
        swi_buf first = {0}, second = {0};
        sw_value_graph *graph = NULL;
        sw_value back, root;
        sw_error err = {0};
        make_graph(&m, seed);
        root = m.made[m.count - 1];
        sw_status st = swi_value_json_write(m.g, root, name_of, NULL, &first, &err);
        /* what an object or tuple holds may hold it */
        assert_true(st == SW_OK || st == SW_ERR_UNSUPPORTED || st == SW_ERR_LIMIT);
        assert_true(st == SW_OK || seed % 4 == 0);
        if (st == SW_OK) {
            written++;
            assert_ok(swi_buf_u8(&first, 0, &err), &err);
            assert_ok(read_text((const char *)first.data, &graph, &back, &err), &err);
            compare(m.g, root, graph, back);
            assert_ok(swi_value_json_write(graph, back, name_of, NULL, &second, &err), &err);
            assert_int_equal(second.size, first.size - 1);
            assert_memory_equal(second.data, first.data, second.size);
        }
        swi_buf_free(&first);
        swi_buf_free(&second);
        sw_value_graph_free(graph);
        sw_value_graph_free(m.g);
    }
    assert_true(written > 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),  cmocka_unit_test(test_shared_is_shared),
        cmocka_unit_test(test_what_is_refused), cmocka_unit_test(test_what_cannot_be_written),
        cmocka_unit_test(test_long_keys),       cmocka_unit_test(test_random_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
