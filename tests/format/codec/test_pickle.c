/* The pickle machine: every opcode, what it makes of it, and what it refuses. */
#include "harness/harness.h"

#include <stdio.h>

#include "codec/pickle.h"
#include "format/codec/pickle_roundtrip.h"
#include "format/codec/pickle_text.h"

typedef struct run {
    swi_buf bytes;
    swi_cursor cursor;
    sw_value_graph *graph;
    sw_value root;
    swi_pickle_unsafe unsafe;
    sw_status status;
    sw_error err;
} run;

static sw_status read_part(void *ctx, uint64_t offset, void *data, size_t size, sw_error *err)
{
    const swi_cursor *c = ctx;
    (void)err;
    assert_in_range(offset, 0, c->size);
    assert_in_range(size, 0, c->size - offset);
    memcpy(data, c->data + offset, size);
    return SW_OK;
}

/* Through a window that cuts most opcodes, the same comes out. */
static void check_window(const run *r, const swi_pickle_options *options, const sw_limits *limits)
{
    sw_value_graph *graph = NULL;
    sw_value root;
    swi_pickle_unsafe unsafe;
    sw_error err = {0};
    swi_cursor bytes = r->cursor;
    swi_feed feed = swi_feed_of(read_part, &bytes, bytes.size);
    feed.window_bytes = 2;
    assert_ok(swi_graph_make(limits, &graph, &err), &err);
    assert_int_equal(swi_pickle_read_feed(&feed, options, graph, &root, &unsafe, &err), r->status);
    assert_string_equal(err.text, r->err.text);
    assert_int_equal(err.offset_bytes, r->err.offset_bytes);
    assert_int_equal(unsafe.total, r->unsafe.total);
    if (r->status == SW_OK) {
        char *text = NULL, *expected = NULL;
        assert_int_equal(swi_feed_position(&feed), r->cursor.pos);
        assert_ok(sw_value_text(graph, root, 4096, &text, &err), &err);
        assert_ok(sw_value_text(r->graph, r->root, 4096, &expected, &err), &err);
        assert_string_equal(text, expected);
        free(text);
        free(expected);
    }
    swi_feed_end(&feed);
    sw_value_graph_free(graph);
}

static void run_bytes(run *r, const void *data, size_t size, const swi_pickle_options *options,
                      const sw_limits *limits)
{
    sw_error err = {0};
    /* An exact allocation: a read past the end shows. */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    if (size > 0)
        memcpy(copy, data, size);
    assert_ok(swi_graph_make(limits, &r->graph, &err), &err);
    r->cursor = swi_cursor_make(copy, size);
    r->root = (sw_value){0xabcdef};
    r->err = (sw_error){0};
    r->status = swi_pickle_read(&r->cursor, options, r->graph, &r->root, &r->unsafe, &r->err);
    assert_int_equal(r->status, r->err.status);
    if (r->status != SW_OK)
        assert_true(r->root.bits == 0xabcdef);
    check_window(r, options, limits);
    free(copy);
    r->cursor.data = NULL;
}

static void run_text(run *r, const char *text)
{
    const swi_pickle_options options = {.protocol0_persid = true};
    *r = (run){0};
    pickle_assemble(text, &r->bytes);
    run_bytes(r, r->bytes.data, r->bytes.size, &options, NULL);
}

static void run_free(run *r)
{
    sw_value_graph_free(r->graph);
    swi_buf_free(&r->bytes);
}

static void check_shows(const char *pickle, const char *expected)
{
    run r;
    sw_error err = {0};
    char *text = NULL;
    run_text(&r, pickle);
    if (r.status != SW_OK)
        print_error("%s\n", pickle);
    assert_ok(r.status, &r.err);
    assert_int_equal(r.cursor.pos, r.bytes.size);
    assert_ok(sw_value_text(r.graph, r.root, 4096, &text, &err), &err);
    assert_string_equal(text, expected);
    assert_int_equal(r.unsafe.total, 0);
    check_roundtrip(r.graph, r.root);
    free(text);
    run_free(&r);
}

/* ---- what good pickles say --------------------------------------------------------------------
 */

static const struct {
    const char *pickle;
    const char *shows;
} good[] = {
    /* constants and numbers */
    {"NONE ; STOP", "None"},
    {"PROTO 2 ; NEWTRUE ; STOP", "True"},
    {"PROTO 2 ; NEWFALSE ; STOP", "False"},
    {"INT 01 ; STOP", "True"},
    {"INT 00 ; STOP", "False"},
    {"INT 1 ; STOP", "1"},
    {"INT -17 ; STOP", "-17"},
    {"INT +9223372036854775807 ; STOP", "9223372036854775807"},
    {"LONG 36893488147419103232L ; STOP", "0x20000000000000000"},
    {"LONG -36893488147419103232L ; STOP", "-0x20000000000000000"},
    {"LONG -9223372036854775808L ; STOP", "-9223372036854775808"},
    {"LONG 0 ; STOP", "0"},
    {"BININT -2 ; STOP", "-2"},
    {"BININT 0x7fffffff ; STOP", "2147483647"},
    {"BININT1 255 ; STOP", "255"},
    {"BININT2 65535 ; STOP", "65535"},
    {"PROTO 2 ; LONG1 '' ; STOP", "0"},
    {"PROTO 2 ; LONG1 '\\xff' ; STOP", "-1"},
    {"PROTO 2 ; LONG1 '\\xff\\x00' ; STOP", "255"},
    {"PROTO 2 ; LONG1 '\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x00' ; STOP",
     "0x8000000000000000"},
    {"PROTO 2 ; LONG1 '\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\xff' ; STOP",
     "-9223372036854775808"},
    {"PROTO 2 ; LONG4 '\\x00\\x00\\x00\\x00\\x00\\x00\\x80' ; STOP", "-36028797018963968"},
    {"PROTO 2 ; LONG4 '\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x00' ; STOP", "36028797018963968"},
    {"BINFLOAT 1.5 ; STOP", "1.5"},
    {"BINFLOAT -0.0 ; STOP", "-0.0"},
    {"BINFLOAT 1e300 ; STOP", "1e+300"},
    {"BINFLOAT nan ; STOP", "nan"},
    {"FLOAT 0.1 ; STOP", "0.1"},
    {"FLOAT -inf ; STOP", "-inf"},
    {"FLOAT 1e-05 ; STOP", "1e-05"},
    /* text and bytes */
    {"STRING '\\'a\\\\x41\\\\n\\\\\\\\\\\\101\\'' ; STOP", "\"aA\\n\\\\A\""},
    {"STRING '\"q\"' ; STOP", "\"q\""},
    {"BINSTRING 'caf\\xc3\\xa9' ; STOP", "\"caf\xc3\xa9\""},
    {"SHORT_BINSTRING '\\xff\\x00' ; STOP", "b\"\\xff\\x00\""},
    {"UNICODE 'a\\\\u00e9\\xe9' ; STOP", "\"a\xc3\xa9\xc3\xa9\""},
    {"UNICODE '\\\\U0001f600' ; STOP", "\"\xf0\x9f\x98\x80\""},
    {"UNICODE '\\\\\\\\u0041' ; STOP", "\"\\\\\\\\u0041\""},
    {"BINUNICODE 'x' ; STOP", "\"x\""},
    {"PROTO 4 ; SHORT_BINUNICODE '' ; STOP", "\"\""},
    {"PROTO 4 ; BINUNICODE8 '\\xed\\xa0\\x80' ; STOP", "\"\\xed\\xa0\\x80\""},
    {"PROTO 3 ; BINBYTES 'a\\x00' ; STOP", "b\"a\\x00\""},
    {"PROTO 3 ; SHORT_BINBYTES '' ; STOP", "b\"\""},
    {"PROTO 4 ; BINBYTES8 'zz' ; STOP", "b\"zz\""},
    {"PROTO 5 ; BYTEARRAY8 'zz' ; STOP", "bytearray(b\"zz\")"},
    /* containers */
    {"EMPTY_TUPLE ; STOP", "()"},
    {"MARK ; TUPLE ; STOP", "()"},
    {"MARK ; INT 1 ; INT 2 ; TUPLE ; STOP", "(1, 2)"},
    {"INT 1 ; TUPLE1 ; STOP", "(1,)"},
    {"INT 1 ; INT 2 ; TUPLE2 ; STOP", "(1, 2)"},
    {"INT 1 ; INT 2 ; INT 3 ; TUPLE3 ; STOP", "(1, 2, 3)"},
    {"EMPTY_LIST ; STOP", "[]"},
    {"MARK ; INT 1 ; LIST ; INT 2 ; APPEND ; STOP", "[1, 2]"},
    {"EMPTY_LIST ; MARK ; INT 1 ; INT 2 ; APPENDS ; MARK ; INT 3 ; APPENDS ; STOP", "[1, 2, 3]"},
    {"EMPTY_DICT ; STOP", "{}"},
    {"MARK ; INT 1 ; INT 2 ; DICT ; INT 3 ; INT 4 ; SETITEM ; STOP", "{1: 2, 3: 4}"},
    {"EMPTY_DICT ; MARK ; INT 1 ; NONE ; INT 2 ; NONE ; BINFLOAT 1.0 ; INT 5 ; SETITEMS ; STOP",
     "{1: 5, 2: None}"},
    {"PROTO 4 ; EMPTY_SET ; MARK ; INT 1 ; ADDITEMS ; STOP", "{1}"},
    {"PROTO 4 ; EMPTY_SET ; STOP", "set()"},
    {"PROTO 4 ; MARK ; INT 1 ; FROZENSET ; STOP", "frozenset({1})"},
    /* stack and memo */
    {"NONE ; INT 1 ; POP ; STOP", "None"},
    {"NONE ; MARK ; POP ; STOP", "None"},
    {"NONE ; MARK ; INT 1 ; INT 2 ; POP_MARK ; STOP", "None"},
    {"INT 1 ; DUP ; TUPLE2 ; STOP", "(1, 1)"},
    {"INT 7 ; PUT 3 ; POP ; GET 3 ; STOP", "7"},
    {"INT 7 ; BINPUT 2 ; POP ; BINGET 2 ; STOP", "7"},
    {"INT 7 ; LONG_BINPUT 2 ; LONG_BINGET 2 ; TUPLE2 ; STOP", "(7, 7)"},
    {"INT 7 ; MEMOIZE ; INT 8 ; MEMOIZE ; BINGET 0 ; BINGET 1 ; MARK ; POP ; TUPLE2 ; TUPLE3 ; "
     "STOP",
     "(7, 8, (7, 8))"},
    {"EMPTY_LIST ; BINPUT 0 ; BINGET 0 ; APPEND ; STOP", "[...]"},
    {"EMPTY_LIST ; MEMOIZE ; BINGET 0 ; TUPLE1 ; APPEND ; STOP", "[(...,)]"},
    /* memo of both kinds together, as no pickler writes it: what was put counts */
    {"INT 5 ; BINPUT 0 ; INT 6 ; MEMOIZE ; POP ; POP ; BINGET 0 ; BINGET 1 ; TUPLE2 ; STOP",
     "(5, 6)"},
    /* protocol and frames */
    {"PROTO 4 ; FRAME 2 ; NONE ; STOP", "None"},
    {"PROTO 4 ; FRAME 1 ; NONE ; FRAME 1 ; STOP", "None"},
    /* globals and calls */
    {"GLOBAL torch float32 ; STOP", "torch.float32"},
    {"PROTO 4 ; SHORT_BINUNICODE 'torch' ; SHORT_BINUNICODE 'float32' ; STACK_GLOBAL ; STOP",
     "torch.float32"},
    {"PROTO 2 ; GLOBAL __builtin__ long ; STOP", "builtins.int"},
    {"PROTO 2 ; GLOBAL copy_reg _reconstructor ; STOP", "copyreg._reconstructor"},
    {"PROTO 3 ; GLOBAL copy_reg _reconstructor ; STOP", "copy_reg._reconstructor"},
    {"GLOBAL torch Size ; INT 2 ; INT 3 ; TUPLE2 ; TUPLE1 ; REDUCE ; STOP",
     "<torch.Size((2, 3),)>"},
    {"GLOBAL a B ; EMPTY_TUPLE ; NEWOBJ ; EMPTY_DICT ; BUILD ; STOP", "<a.B state {}>"},
    {"PROTO 4 ; GLOBAL a B ; INT 1 ; TUPLE1 ; EMPTY_DICT ; NEWOBJ_EX ; STOP", "<a.B(1,)>"},
    {"PROTO 4 ; GLOBAL a B ; EMPTY_TUPLE ; EMPTY_DICT ; BINUNICODE k ; INT 1 ; SETITEM ; NEWOBJ_EX "
     "; "
     "STOP",
     "<copyreg.__newobj_ex__(a.B, (), {\"k\": 1})>"},
    {"MARK ; INT 1 ; INST a B ; STOP", "<a.B(1,)>"},
    {"MARK ; GLOBAL a B ; INT 1 ; OBJ ; STOP", "<a.B(1,)>"},
    {"GLOBAL copy_reg _reconstructor ; MARK ; GLOBAL a B ; GLOBAL __builtin__ object ; NONE ; "
     "TUPLE ; "
     "REDUCE ; EMPTY_DICT ; BUILD ; STOP",
     "<a.B state {}>"},
    {"GLOBAL a B ; EMPTY_TUPLE ; REDUCE ; INT 1 ; APPEND ; STOP", "<a.B() [1]>"},
    {"GLOBAL a B ; EMPTY_TUPLE ; REDUCE ; INT 1 ; INT 2 ; SETITEM ; STOP", "<a.B() {1: 2}>"},
    {"GLOBAL a B ; EMPTY_TUPLE ; NEWOBJ ; MARK ; INT 1 ; INT 2 ; DICT ; BUILD ; MARK ; INT 1 ; INT "
     "3 ; "
     "INT 4 ; INT 5 ; DICT ; BUILD ; STOP",
     "<a.B state {1: 3, 4: 5}>"},
    {"BINUNICODE id ; BINPERSID ; STOP", "<persistent \"id\">"},
    {"PERSID id ; STOP", "<persistent \"id\">"},
    /* calls that are values */
    {"PROTO 2 ; GLOBAL _codecs encode ; BINUNICODE 'a\\xc3\\xbf' ; BINUNICODE latin1 ; TUPLE2 ; "
     "REDUCE ; "
     "STOP",
     "b\"a\\xff\""},
    {"PROTO 2 ; GLOBAL __builtin__ bytes ; EMPTY_TUPLE ; REDUCE ; STOP", "b\"\""},
    {"PROTO 2 ; GLOBAL __builtin__ bytearray ; BINUNICODE z ; BINUNICODE latin-1 ; TUPLE2 ; REDUCE "
     "; "
     "STOP",
     "bytearray(b\"z\")"},
    {"PROTO 3 ; GLOBAL builtins bytearray ; BINBYTES z ; TUPLE1 ; REDUCE ; STOP",
     "bytearray(b\"z\")"},
    {"PROTO 3 ; GLOBAL builtins bytes ; GLOBAL builtins bytearray ; BINBYTES z ; TUPLE1 ; REDUCE ; "
     "TUPLE1 ; REDUCE ; STOP",
     "b\"z\""},
    {"PROTO 2 ; GLOBAL __builtin__ set ; MARK ; INT 1 ; LIST ; TUPLE1 ; REDUCE ; STOP", "{1}"},
    {"PROTO 2 ; GLOBAL __builtin__ frozenset ; EMPTY_LIST ; TUPLE1 ; REDUCE ; STOP", "frozenset()"},
    {"PROTO 2 ; GLOBAL __builtin__ complex ; BINFLOAT 1.0 ; BINFLOAT -2.5 ; TUPLE2 ; REDUCE ; STOP",
     "(1.0-2.5j)"},
    {"PROTO 2 ; GLOBAL collections OrderedDict ; EMPTY_TUPLE ; REDUCE ; MARK ; INT 1 ; INT 2 ; "
     "SETITEMS ; "
     "EMPTY_DICT ; BUILD ; STOP",
     "<collections.OrderedDict() {1: 2} state {}>"},
    {"PROTO 2 ; GLOBAL collections OrderedDict ; MARK ; MARK ; INT 1 ; INT 2 ; LIST ; LIST ; "
     "TUPLE1 ; REDUCE "
     "; STOP",
     "<collections.OrderedDict() {1: 2}>"},
    /* what looks like them but is not stays an object */
    {"PROTO 2 ; GLOBAL _codecs encode ; BINUNICODE '\\xe2\\x82\\xac' ; BINUNICODE latin1 ; TUPLE2 "
     "; REDUCE ; "
     "STOP",
     "<_codecs.encode(\"\xe2\x82\xac\", \"latin1\")>"},
    {"PROTO 2 ; GLOBAL __builtin__ set ; INT 1 ; TUPLE1 ; REDUCE ; STOP", "<builtins.set(1,)>"},
    {"PROTO 2 ; GLOBAL __builtin__ getattr ; GLOBAL a Outer ; BINUNICODE Inner ; TUPLE2 ; REDUCE ; "
     "STOP",
     "a.Outer.Inner"},
};

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        check_shows(good[i].pickle, good[i].shows);
}

/* Each opcode of the table occurs in a good pickle or is refused by name below. */
static void test_every_opcode_is_tried(void **state)
{
    (void)state;
    for (size_t k = 0; k < PICKLE_MNEMONICS; k++) {
        bool seen = strncmp(pickle_mnemonics[k].name, "EXT", 3) == 0 ||
                    strstr(pickle_mnemonics[k].name, "_BUFFER") != NULL;
        for (size_t i = 0; i < sizeof good / sizeof good[0] && !seen; i++) {
            const char *at = strstr(good[i].pickle, pickle_mnemonics[k].name);
            size_t size = strlen(pickle_mnemonics[k].name);
            seen = at != NULL && (at[size] == ' ' || at[size] == '\0');
        }
        if (!seen)
            fail_msg("%s is not tried", pickle_mnemonics[k].name);
    }
}

static void test_nested_class_is_one_node(void **state)
{
    run r;
    (void)state;
    run_text(&r,
             "PROTO 2 ; GLOBAL __builtin__ getattr ; GLOBAL a Outer ; BINUNICODE Inner ; TUPLE2 ; "
             "REDUCE ; GLOBAL a Outer.Inner ; TUPLE2 ; STOP");
    assert_ok(r.status, &r.err);
    sw_value a, b;
    assert_true(sw_value_item(r.graph, r.root, 0, &a) && sw_value_item(r.graph, r.root, 1, &b));
    assert_true(a.bits == b.bits);
    run_free(&r);
}

/* ---- what bad pickles get ----------------------------------------------------------------------
 */

static const struct {
    const char *pickle;
    sw_status status;
    const char *clause;
    uint64_t offset;
    const char *says;
} bad[] = {
    {"", SW_ERR_FORMAT, "PKL-3", 0, "the input ends before it"},
    {"STOP", SW_ERR_FORMAT, "PKL-1", 0, "holds 0 values and 0 marks"},
    {"NONE ; NONE ; STOP", SW_ERR_FORMAT, "PKL-1", 2, "holds 2 values"},
    {"NONE ; MARK ; STOP", SW_ERR_FORMAT, "PKL-1", 2, "1 marks"},
    {"POP ; STOP", SW_ERR_FORMAT, "PKL-2", 0, "too few values"},
    {"INT 1 ; MARK ; TUPLE1 ; STOP", SW_ERR_FORMAT, "PKL-2", 4, "TUPLE1"},
    {"NONE ; MARK ; PUT 0 ; STOP", SW_ERR_FORMAT, "PKL-2", 2, "PUT"},
    {"NONE ; MARK ; DUP ; STOP", SW_ERR_FORMAT, "PKL-2", 2, "DUP"},
    {"MARK ; OBJ ; STOP", SW_ERR_FORMAT, "PKL-2", 1, "OBJ"},
    {"MARK ; APPENDS ; STOP", SW_ERR_FORMAT, "PKL-2", 1, "APPENDS"},
    {"INT 1", SW_ERR_FORMAT, "PKL-3", 3, "STOP"},
    {"raw 4b", SW_ERR_FORMAT, "PKL-3", 0, "BININT1 at byte 0: the input ends inside it"},
    {"raw 63 61 0a 62", SW_ERR_FORMAT, "PKL-3", 0, "GLOBAL"},
    {"NONE ; raw ff ; STOP", SW_ERR_FORMAT, "PKL-4", 1, "0xff is no opcode"},
    {"raw 00", SW_ERR_FORMAT, "PKL-4", 0, "0x00 is no opcode"},
    {"PROTO 6 ; NONE ; STOP", SW_ERR_UNSUPPORTED, "PKL-5", 0, "protocol 6"},
    {"PROTO 4 ; FRAME 3 ; NONE ; STOP", SW_ERR_FORMAT, "PKL-6", 2,
     "a frame of 3 bytes, 2 are left"},
    {"PROTO 4 ; FRAME -1 ; NONE ; STOP", SW_ERR_FORMAT, "PKL-6", 2, "18446744073709551615 bytes"},
    {"PROTO 4 ; FRAME 11 ; NONE ; FRAME 1 ; STOP", SW_ERR_FORMAT, "PKL-6", 12, "inside another"},
    {"INT '' ; STOP", SW_ERR_FORMAT, "PKL-7", 0, "without digits"},
    {"INT - ; STOP", SW_ERR_FORMAT, "PKL-7", 0, "without digits"},
    {"INT 1x ; STOP", SW_ERR_FORMAT, "PKL-7", 0, "not decimal"},
    {"FLOAT 0x10 ; STOP", SW_ERR_FORMAT, "PKL-7", 0, "not a decimal number"},
    {"FLOAT 1.5.5 ; STOP", SW_ERR_FORMAT, "PKL-7", 0, "not a decimal number"},
    {"FLOAT '' ; STOP", SW_ERR_FORMAT, "PKL-7", 0, "of 0 characters"},
    {"raw 8b ff ff ff ff", SW_ERR_FORMAT, "PKL-8", 0, "a negative size (-1)"},
    {"raw 8b ff ff ff 7f 00", SW_ERR_FORMAT, "PKL-3", 0, "LONG4"},
    {"BINUNICODE '\\xff' ; STOP", SW_ERR_FORMAT, "PKL-9", 0, "not valid UTF-8"},
    {"BINUNICODE '\\xed\\xa0' ; STOP", SW_ERR_FORMAT, "PKL-9", 0, "not valid UTF-8"},
    {"STRING abc ; STOP", SW_ERR_FORMAT, "PKL-9", 0, "not quoted"},
    {"STRING '\\'abc\"' ; STOP", SW_ERR_FORMAT, "PKL-9", 0, "not quoted"},
    {"STRING '\\'\\\\x1\\'' ; STOP", SW_ERR_FORMAT, "PKL-9", 0, "broken escape"},
    {"STRING '\\'\\\\\\'' ; STOP", SW_ERR_FORMAT, "PKL-9", 0, "broken escape"},
    {"UNICODE '\\\\u12' ; STOP", SW_ERR_FORMAT, "PKL-9", 0, "broken \\u escape"},
    {"UNICODE '\\\\Uffffffff' ; STOP", SW_ERR_FORMAT, "PKL-9", 0, "broken \\u escape"},
    {"raw 58 ff ff ff ff 61", SW_ERR_FORMAT, "PKL-10", 0, "4294967295 bytes of text, 1 are left"},
    {"raw 54 ff ff ff ff 61", SW_ERR_FORMAT, "PKL-10", 0, "negative size"},
    {"raw 8d ff ff ff ff ff ff ff ff 61", SW_ERR_FORMAT, "PKL-10", 0, "1 are left"},
    {"NONE ; BINGET 3 ; STOP", SW_ERR_FORMAT, "PKL-11", 1, "memo 3 was never set"},
    {"NONE ; BINPUT 2 ; BINGET 1 ; STOP", SW_ERR_FORMAT, "PKL-11", 3, "memo 1 was never set"},
    {"NONE ; LONG_BINPUT 6 ; STOP", SW_ERR_FORMAT, "PKL-11", 1, "memo number 6 after only 6 bytes"},
    {"NONE ; LONG_BINPUT -1 ; STOP", SW_ERR_FORMAT, "PKL-11", 1, "memo number 4294967295"},
    {"NONE ; PUT 99999999999999999999 ; STOP", SW_ERR_FORMAT, "PKL-11", 1, "not a decimal number"},
    {"NONE ; PUT -1 ; STOP", SW_ERR_FORMAT, "PKL-11", 1, "not a decimal number"},
    {"NONE ; TUPLE ; STOP", SW_ERR_FORMAT, "PKL-12", 1, "no mark is open"},
    {"NONE ; POP_MARK ; STOP", SW_ERR_FORMAT, "PKL-12", 1, "no mark is open"},
    {"EMPTY_DICT ; MARK ; INT 1 ; SETITEMS ; STOP", SW_ERR_FORMAT, "PKL-13", 5, "odd number"},
    {"MARK ; NONE ; DICT ; STOP", SW_ERR_FORMAT, "PKL-13", 2, "odd number"},
    {"EMPTY_TUPLE ; NONE ; APPEND ; STOP", SW_ERR_FORMAT, "PKL-13", 2, "no list, set or object"},
    {"EMPTY_LIST ; NONE ; NONE ; SETITEM ; STOP", SW_ERR_FORMAT, "PKL-13", 3, "no dict or object"},
    {"EMPTY_LIST ; MARK ; NONE ; ADDITEMS ; STOP", SW_ERR_FORMAT, "PKL-13", 3, "no list, set"},
    {"GLOBAL a B ; EMPTY_TUPLE ; REDUCE ; NONE ; APPEND ; NONE ; NONE ; SETITEM ; STOP",
     SW_ERR_UNSUPPORTED, "PKL-13", 11, "list items and dict items"},
    {"GLOBAL a '' ; STOP", SW_ERR_FORMAT, "PKL-14", 0, "empty"},
    {"GLOBAL a '\\x00' ; STOP", SW_ERR_FORMAT, "PKL-14", 0, "zero"},
    {"GLOBAL a '\\xff' ; STOP", SW_ERR_FORMAT, "PKL-14", 0, "UTF-8"},
    {"PROTO 4 ; NONE ; BINUNICODE a ; STACK_GLOBAL ; STOP", SW_ERR_FORMAT, "PKL-14", 9,
     "must be text"},
    {"PROTO 4 ; BINUNICODE a ; BINUNICODE '\\xed\\xa0\\x80' ; STACK_GLOBAL ; STOP", SW_ERR_FORMAT,
     "PKL-14", 16, "UTF-8"},
    {"GLOBAL collections OrderedDict ; EMPTY_LIST ; EMPTY_LIST ; APPEND ; TUPLE1 ; REDUCE ; STOP",
     SW_ERR_FORMAT, "PKL-16", 29, "element 0 is no pair"},
    {"GLOBAL a B ; NONE ; REDUCE ; STOP", SW_ERR_FORMAT, "PKL-15", 6, "not a tuple"},
    {"GLOBAL a B ; EMPTY_LIST ; NEWOBJ ; STOP", SW_ERR_FORMAT, "PKL-15", 6, "not a tuple"},
    {"GLOBAL a B ; EMPTY_TUPLE ; NONE ; NEWOBJ_EX ; STOP", SW_ERR_FORMAT, "PKL-15", 7, "a dict"},
    {"EMPTY_DICT ; NONE ; BUILD ; STOP", SW_ERR_FORMAT, "PKL-17", 2, "no object"},
    {"GLOBAL a B ; EMPTY_TUPLE ; NEWOBJ ; INT 1 ; BUILD ; EMPTY_DICT ; BUILD ; STOP",
     SW_ERR_UNSUPPORTED, "PKL-17", 12, "second state"},
    {"EXT1 1 ; STOP", SW_ERR_UNSUPPORTED, "PKL-19", 0, "EXT1"},
    {"EXT2 1 ; STOP", SW_ERR_UNSUPPORTED, "PKL-19", 0, "extension registry"},
    {"EXT4 1 ; STOP", SW_ERR_UNSUPPORTED, "PKL-19", 0, "EXT4"},
    {"NEXT_BUFFER ; STOP", SW_ERR_UNSUPPORTED, "PKL-19", 0, "outside of the pickle"},
    {"NONE ; READONLY_BUFFER ; STOP", SW_ERR_UNSUPPORTED, "PKL-19", 1, "READONLY_BUFFER"},
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        run r;
        run_text(&r, bad[i].pickle);
        if (r.status != bad[i].status || strcmp(r.err.clause, bad[i].clause) != 0 ||
            r.err.offset_bytes != bad[i].offset)
            print_error("%s: %s [%s] at %llu\n", bad[i].pickle, r.err.text, r.err.clause,
                        (unsigned long long)r.err.offset_bytes);
        assert_error(&r.err, bad[i].status, bad[i].says);
        assert_string_equal(r.err.clause, bad[i].clause);
        assert_true(r.err.has_offset);
        assert_int_equal(r.err.offset_bytes, bad[i].offset);
        run_free(&r);
    }
}

static void test_persid_is_refused_where_not_asked_for(void **state)
{
    run r = {0};
    (void)state;
    run_bytes(&r, "Pid\n.", 5, NULL, NULL);
    assert_error(&r.err, SW_ERR_UNSUPPORTED, "a persistent id in text form");
    run_free(&r);
}

/* A sample of a bit of everything; no prefix of it is a pickle. */
static void test_every_truncation_fails(void **state)
{
    static const char sample[] =
        "PROTO 4 ; FRAME 5 ; EMPTY_DICT ; MEMOIZE ; MARK ; SHORT_BINUNICODE 'key' ; MEMOIZE ; "
        "GLOBAL torch Size ; BININT1 1 ; BININT2 258 ; TUPLE2 ; TUPLE1 ; REDUCE ; MEMOIZE ; "
        "BINUNICODE 'k2' ; EMPTY_LIST ; MARK ; BINFLOAT 1.5 ; LONG1 '\\x01\\x02' ; BINGET 0 ; "
        "BINBYTES 'abc' ; STRING '\\'q\\'' ; UNICODE u ; INT 5 ; LONG 6L ; FLOAT 1.0 ; APPENDS ; "
        "BINUNICODE8 'k3' ; BYTEARRAY8 'zz' ; SETITEMS ; STOP";
    swi_buf bytes = {0};
    (void)state;
    pickle_assemble(sample, &bytes);
    for (size_t size = 0; size <= bytes.size; size++) {
        run r = {0};
        run_bytes(&r, bytes.data, size, NULL, NULL);
        if (size == bytes.size)
            assert_ok(r.status, &r.err);
        else if (r.status != SW_ERR_FORMAT)
            fail_msg("%zu of %zu bytes: %s", size, bytes.size, r.err.text);
        run_free(&r);
    }
    swi_buf_free(&bytes);
}

static void test_cursor_stands_behind_the_stop(void **state)
{
    run r = {0};
    (void)state;
    run_bytes(&r, "K\x01.K\x02.", 6, NULL, NULL);
    assert_ok(r.status, &r.err);
    assert_int_equal(r.cursor.pos, 3);
    run_free(&r);
}

static void test_positions_count_from_the_base(void **state)
{
    run r = {0};
    const swi_pickle_options options = {.base_offset_bytes = 1000};
    (void)state;
    run_bytes(&r, "cos\nsystem\nN\xff", 13, &options, NULL);
    assert_error(&r.err, SW_ERR_FORMAT, "opcode at byte 1012: 0xff is no opcode");
    assert_int_equal(r.err.offset_bytes, 1012);
    assert_int_equal(r.unsafe.at[0].offset_bytes, 1000);
    run_free(&r);
}

/* ---- bombs
 * ---------------------------------------------------------------------------------------- */

static void repeat(swi_buf *out, const char *bytes, size_t size, size_t times)
{
    for (size_t i = 0; i < times; i++)
        pickle_put(out, bytes, size);
}

static void test_deep_nesting_is_flat(void **state)
{
    swi_buf bytes = {0};
    run r = {0};
    sw_error err = {0};
    char *text = NULL;
    (void)state;
    pickle_put(&bytes, "N", 1);
    repeat(&bytes, "\x85", 1, 1000000);
    pickle_put(&bytes, ".", 1);
    run_bytes(&r, bytes.data, bytes.size, NULL, NULL);
    assert_ok(r.status, &r.err);
    assert_ok(sw_value_text(r.graph, r.root, 1 << 20, &text, &err), &err);
    assert_int_equal(strlen(text), 64 + 3 + 2 * 64);
    free(text);
    run_free(&r);
    swi_buf_free(&bytes);

    repeat(&bytes, "(", 1, 1000000);
    repeat(&bytes, "t", 1, 1000000);
    pickle_put(&bytes, ".", 1);
    r = (run){0};
    run_bytes(&r, bytes.data, bytes.size, NULL, NULL);
    assert_ok(r.status, &r.err);
    run_free(&r);
    swi_buf_free(&bytes);
}

static void test_shared_nodes_stay_shared(void **state)
{
    swi_buf bytes = {0};
    run r = {0};
    sw_error err = {0};
    char *text = NULL;
    (void)state;
    /* 2^60 elements when unfolded */
    pickle_put(&bytes, "K\x07", 2);
    repeat(&bytes, "2\x86", 2, 60);
    pickle_put(&bytes, ".", 1);
    run_bytes(&r, bytes.data, bytes.size, NULL, NULL);
    assert_ok(r.status, &r.err);
    assert_true(swi_graph_memory(r.graph) < 100000);
    assert_ok(sw_value_text(r.graph, r.root, 1000, &text, &err), &err);
    assert_true(strlen(text) <= 1003);
    assert_string_equal(text + strlen(text) - 3, "...");
    free(text);
    run_free(&r);
    swi_buf_free(&bytes);
}

static void check_limit(const swi_buf *bytes, const char *says)
{
    const sw_limits limits = {.nodes = 1000};
    run r = {0};
    run_bytes(&r, bytes->data, bytes->size, NULL, &limits);
    assert_error(&r.err, SW_ERR_LIMIT, says);
    assert_true(swi_graph_memory(r.graph) < 1000000);
    run_free(&r);
}

static void test_limits(void **state)
{
    swi_buf bytes = {0};
    (void)state;
    repeat(&bytes, "N", 1, 5000);
    check_limit(&bytes, "a stack of 1");
    bytes.size = 0;
    repeat(&bytes, "(", 1, 5000);
    check_limit(&bytes, "open marks (limit nodes)");
    bytes.size = 0;
    repeat(&bytes, "]0", 2, 5000);
    check_limit(&bytes, "more than 1000 nodes");
    /* a short way to much memory: the same long text again and again */
    bytes.size = 0;
    pickle_assemble("PROTO 2 ; GLOBAL _codecs encode", &bytes);
    pickle_put(&bytes, "X\x10\x27\0\0", 5);
    repeat(&bytes, "a", 1, 10000);
    pickle_assemble("BINUNICODE latin1 ; TUPLE2 ; BINPUT 0 ; REDUCE ; POP", &bytes);
    for (int i = 0; i < 100; i++)
        pickle_assemble("GLOBAL _codecs encode ; BINGET 0 ; REDUCE ; POP", &bytes);
    check_limit(&bytes, "more than 1000 nodes");
    swi_buf_free(&bytes);
}

static void test_long_names_and_numbers_are_refused(void **state)
{
    swi_buf bytes = {0};
    run r = {0};
    (void)state;
    pickle_put(&bytes, "c", 1);
    repeat(&bytes, "a", 1, 3000);
    pickle_put(&bytes, "\nb\n.", 4);
    run_bytes(&r, bytes.data, bytes.size, NULL, NULL);
    assert_error(&r.err, SW_ERR_LIMIT, "a name of more than 2048 bytes");
    run_free(&r);
    bytes.size = 0;
    pickle_put(&bytes, "L", 1);
    repeat(&bytes, "9", 1, 4301);
    pickle_put(&bytes, "\n.", 2);
    r = (run){0};
    run_bytes(&r, bytes.data, bytes.size, NULL, NULL);
    assert_error(&r.err, SW_ERR_LIMIT, "4301 digits, at most 4300");
    run_free(&r);
    swi_buf_free(&bytes);
}

static void test_a_long_number_is_right(void **state)
{
    /* 10^40 = 0x1d6329f1c35ca4bfabb9f5610000000000 */
    check_shows("LONG 10000000000000000000000000000000000000000 ; STOP",
                "0x1d6329f1c35ca4bfabb9f5610000000000");
    check_shows("LONG -10000000000000000000000000000000000000000L ; STOP",
                "-0x1d6329f1c35ca4bfabb9f5610000000000");
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_every_opcode_is_tried),
        cmocka_unit_test(test_nested_class_is_one_node),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_persid_is_refused_where_not_asked_for),
        cmocka_unit_test(test_every_truncation_fails),
        cmocka_unit_test(test_cursor_stands_behind_the_stop),
        cmocka_unit_test(test_positions_count_from_the_base),
        cmocka_unit_test(test_deep_nesting_is_flat),
        cmocka_unit_test(test_shared_nodes_stay_shared),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_long_names_and_numbers_are_refused),
        cmocka_unit_test(test_a_long_number_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
