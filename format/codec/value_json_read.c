#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "codec/sign.h"
#include "codec/value_json.h"

/* A container under way; the values of its parts lie on the stack of values from `base` on. */
typedef struct frame {
    sw_value_kind kind;
    bool pairs;    /* a DICT written as pairs */
    sw_value text; /* a LIST or DICT of the document */
    size_t next, count;
    sw_value made; /* LIST, DICT, SET: from the beginning */
    size_t base;
    int64_t id; /* -1: none */
} frame;

typedef struct reading {
    const sw_value_graph *j;
    sw_value_graph *g;
    swi_tensor_find_fn find;
    const void *ctx;
    frame *frames;
    size_t depth, frame_capacity;
    sw_value *values;
    size_t value_count, value_capacity;
    sw_value *ids;
    bool *known;
    size_t id_count, id_capacity, known_capacity;
    swi_buf bytes;
    sw_error *err;
} reading;

static sw_status wrong(const reading *r, const char *what)
{
    return swi_fail(r->err, SW_ERR_FORMAT, "%s", what);
}

static sw_status push_value(reading *r, sw_value v)
{
    sw_status st = swi_grow_array((void **)&r->values, &r->value_capacity, r->value_count + 1,
                                  sizeof *r->values, r->err);
    if (st == SW_OK)
        r->values[r->value_count++] = v;
    return st;
}

static bool text_of(const reading *r, sw_value v, const char **text, size_t *size)
{
    const uint8_t *data;
    if (sw_value_get_kind(r->j, v) != SW_VALUE_STR || !sw_value_bytes(r->j, v, &data, size))
        return false;
    *text = (const char *)data;
    return true;
}

/* ---- leaves ------------------------------------------------------------------------------------
 */

static sw_status read_hex(reading *r, const char *text, size_t size)
{
    sw_status st = SW_OK;
    r->bytes.size = 0;
    if (size % 2 != 0)
        return wrong(r, "half a byte of hexadecimal digits");
    for (size_t i = 0; st == SW_OK && i < size; i += 2) {
        int a = swi_hex_digit(text[i]), b = swi_hex_digit(text[i + 1]);
        if (a < 0 || b < 0)
            return wrong(r, "no hexadecimal digits");
        st = swi_buf_u8(&r->bytes, (uint8_t)(a * 16 + b), r->err);
    }
    return st;
}

static sw_status get_double(const reading *r, sw_value v, double *out)
{
    const char *text;
    size_t size;
    sw_value inner;
    uint64_t bits = 0;
    if (sw_value_float(r->j, v, out))
        return SW_OK;
    if (sw_value_get_kind(r->j, v) != SW_VALUE_DICT || sw_value_size(r->j, v) != 1 ||
        !swi_value_get(r->j, v, "$float", &inner) || !text_of(r, inner, &text, &size))
        return wrong(r, "no float");
    if (size == 3 && memcmp(text, "nan", 3) == 0)
        bits = UINT64_C(0x7ff8000000000000);
    else if (size == 3 && memcmp(text, "inf", 3) == 0)
        bits = UINT64_C(0x7ff0000000000000);
    else if (size == 4 && memcmp(text, "-inf", 4) == 0)
        bits = UINT64_C(0xfff0000000000000);
    else if (size != 16)
        return wrong(r, "\"$float\" is none of nan, inf, -inf and 16 digits");
    for (size_t i = 0; size == 16 && i < size; i++) {
        int d = swi_hex_digit(text[i]);
        if (d < 0)
            return wrong(r, "\"$float\" is none of nan, inf, -inf and 16 digits");
        bits = bits << 4 | (unsigned)d;
    }
    memcpy(out, &bits, sizeof *out);
    return SW_OK;
}

static sw_status read_bytes(reading *r, const char *text, size_t size, bool array, sw_value *out)
{
    r->bytes.size = 0;
    sw_status st = swi_base64_read(text, size, &r->bytes, r->err);
    if (st != SW_OK)
        return st;
    const void *data = r->bytes.data != NULL ? (const void *)r->bytes.data : "";
    return array ? swi_graph_bytearray(r->g, data, r->bytes.size, out, r->err)
                 : swi_graph_text(r->g, SW_VALUE_BYTES, data, r->bytes.size, out, r->err);
}

static sw_status read_tensor(const reading *r, const char *text, size_t size, sw_value *out)
{
    swi_quoted q;
    if (r->find == NULL)
        return wrong(r, "\"$tensor\" where there are no tensors");
    int64_t index = r->find(r->ctx, text, size);
    if (index < 0)
        return swi_fail(r->err, SW_ERR_CORRUPT, "there is no tensor \"%s\"",
                        swi_quote(&q, text, size));
    *out = swi_value_of_tensor((uint32_t)index);
    return SW_OK;
}

static sw_status read_global(const reading *r, sw_value pair, sw_value *out)
{
    char room[2][SWI_GLOBAL_MAX_BYTES + 1];
    for (size_t i = 0; i < 2; i++) {
        sw_value item;
        const char *text;
        size_t size;
        if (sw_value_get_kind(r->j, pair) != SW_VALUE_LIST || sw_value_size(r->j, pair) != 2 ||
            !sw_value_item(r->j, pair, i, &item) || !text_of(r, item, &text, &size) ||
            size > SWI_GLOBAL_MAX_BYTES || memchr(text, 0, size) != NULL)
            return wrong(r, "\"$global\" is a list of a module and a name");
        memcpy(room[i], text, size);
        room[i][size] = '\0';
    }
    return swi_graph_global(r->g, room[0], room[1], out, r->err);
}

static sw_status read_complex(const reading *r, sw_value pair, sw_value *out)
{
    sw_value re, im;
    double parts[2];
    if (sw_value_get_kind(r->j, pair) != SW_VALUE_LIST || sw_value_size(r->j, pair) != 2 ||
        !sw_value_item(r->j, pair, 0, &re) || !sw_value_item(r->j, pair, 1, &im))
        return wrong(r, "\"$complex\" is a list of two floats");
    sw_status st = get_double(r, re, &parts[0]);
    if (st == SW_OK)
        st = get_double(r, im, &parts[1]);
    return st == SW_OK ? swi_graph_complex(r->g, parts[0], parts[1], out, r->err) : st;
}

static sw_status read_ref(const reading *r, sw_value number, sw_value *out)
{
    int64_t n;
    if (!sw_value_int(r->j, number, &n) || n < 0 || (uint64_t)n >= r->id_count || !r->known[n])
        return wrong(r, "\"$ref\" to a number that nothing has yet");
    *out = r->ids[n];
    return SW_OK;
}

/* Tags of leaves. *is: it was one. */
static sw_status read_tagged_leaf(reading *r, const char *tag, sw_value v, sw_value text, bool *is,
                                  sw_value *out)
{
    const char *s = NULL;
    size_t size = 0;
    double f;
    sw_status st;
    bool array = strcmp(tag, "$bytearray") == 0;
    *is = true;
    if (strcmp(tag, "$global") == 0)
        return read_global(r, v, out);
    if (strcmp(tag, "$complex") == 0)
        return read_complex(r, v, out);
    if (strcmp(tag, "$ref") == 0)
        return read_ref(r, v, out);
    if (strcmp(tag, "$float") == 0) {
        st = get_double(r, text, &f);
        return st == SW_OK ? swi_graph_float(r->g, f, out, r->err) : st;
    }
    *is = text_of(r, v, &s, &size);
    if (!*is)
        return SW_OK;
    if (array || strcmp(tag, "$bytes") == 0)
        return read_bytes(r, s, size, array, out);
    if (strcmp(tag, "$tensor") == 0)
        return read_tensor(r, s, size, out);
    const bool number = strcmp(tag, "$int") == 0;
    *is = number || strcmp(tag, "$str") == 0;
    if (!*is)
        return SW_OK;
    st = read_hex(r, s, size);
    if (st != SW_OK)
        return st;
    const uint8_t *data = r->bytes.data != NULL ? r->bytes.data : (const uint8_t *)"";
    return number ? swi_graph_bigint(r->g, data, r->bytes.size, out, r->err)
                  : swi_graph_text(r->g, SW_VALUE_STR, data, r->bytes.size, out, r->err);
}

/* ---- containers --------------------------------------------------------------------------------
 */

static void know(reading *r, int64_t id, sw_value v)
{
    if (id >= 0) {
        r->ids[id] = v;
        r->known[id] = true;
    }
}

static sw_status open_frame(reading *r, sw_value_kind kind, sw_value text, bool pairs, int64_t id)
{
    frame f = {.kind = kind, .pairs = pairs, .text = text, .base = r->value_count, .id = id};
    f.count = sw_value_size(r->j, text);
    sw_status st = SW_OK;
    if (kind == SW_VALUE_PERSISTENT)
        f.count = 1;
    else if (kind == SW_VALUE_OBJECT && f.count != 5)
        return wrong(r, "\"$object\" is a list of five");
    else if (kind == SW_VALUE_LIST || kind == SW_VALUE_SET)
        st = swi_graph_sequence(r->g, kind, NULL, 0, &f.made, r->err);
    else if (kind == SW_VALUE_DICT)
        st = swi_graph_dict(r->g, &f.made, r->err);
    if (st == SW_OK && (kind == SW_VALUE_LIST || kind == SW_VALUE_SET || kind == SW_VALUE_DICT))
        know(r, id, f.made);
    if (st == SW_OK)
        st = swi_grow_array((void **)&r->frames, &r->frame_capacity, r->depth + 1,
                            sizeof *r->frames, r->err);
    if (st == SW_OK)
        r->frames[r->depth++] = f;
    return st;
}

static bool container_of(const char *tag, sw_value_kind *kind)
{
    static const struct {
        const char *tag;
        sw_value_kind kind;
    } known[] = {{"$tuple", SW_VALUE_TUPLE},         {"$set", SW_VALUE_SET},
                 {"$frozenset", SW_VALUE_FROZENSET}, {"$object", SW_VALUE_OBJECT},
                 {"$dict", SW_VALUE_DICT},           {"$persistent", SW_VALUE_PERSISTENT}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(tag, known[i].tag) == 0) {
            *kind = known[i].kind;
            return true;
        }
    }
    return false;
}

/* {"$id": n, "$value": ...}: its number, and what it stands before. */
static sw_status take_id(reading *r, sw_value dict, sw_value *inner, int64_t *id)
{
    sw_value number;
    if (sw_value_size(r->j, dict) != 2 || !swi_value_get(r->j, dict, "$id", &number) ||
        !swi_value_get(r->j, dict, "$value", inner) || !sw_value_int(r->j, number, id) || *id < 0 ||
        (uint64_t)*id != r->id_count)
        return wrong(r, "\"$id\" is not the next number, or has no \"$value\"");
    sw_status st =
        swi_grow_array((void **)&r->ids, &r->id_capacity, r->id_count + 1, sizeof *r->ids, r->err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&r->known, &r->known_capacity, r->id_count + 1,
                            sizeof *r->known, r->err);
    if (st == SW_OK)
        r->known[r->id_count++] = false;
    return st;
}

/* A tag of at most 15 bytes, terminated; false: the dict is plain. No tag holds the character 0: a
 * text that does is as good as none, "$". */
static bool tag_of(const reading *r, sw_value dict, char tag[16], sw_value *inner)
{
    sw_value key;
    const char *text;
    size_t size;
    if (!sw_value_pair(r->j, dict, 0, &key, inner) || !text_of(r, key, &text, &size) || size == 0 ||
        text[0] != '$')
        return false;
    size = memchr(text, 0, size) != NULL ? 1 : size;
    size = size < 15 ? size : 15;
    memcpy(tag, text, size);
    tag[size] = '\0';
    return true;
}

static sw_status start(reading *r, sw_value text);

static sw_status start_tagged(reading *r, sw_value text, const char *tag, sw_value inner,
                              int64_t id)
{
    sw_value made;
    sw_value_kind kind;
    bool is = false;
    if (sw_value_size(r->j, text) != 1)
        return wrong(r, "a tag is alone in its object");
    if (container_of(tag, &kind)) {
        if (kind != SW_VALUE_PERSISTENT && sw_value_get_kind(r->j, inner) != SW_VALUE_LIST)
            return wrong(r, "a tagged container is a list");
        if (id >= 0 && kind != SW_VALUE_DICT && kind != SW_VALUE_SET && kind != SW_VALUE_OBJECT)
            return wrong(r, "VAL-5: only a list, dict, set or object has a number");
        return open_frame(r, kind, kind == SW_VALUE_PERSISTENT ? text : inner,
                          kind == SW_VALUE_DICT, id);
    }
    sw_status st = read_tagged_leaf(r, tag, inner, text, &is, &made);
    if (st == SW_OK && (!is || id >= 0))
        st = wrong(r, "a tag that is none");
    return st == SW_OK ? push_value(r, made) : st;
}

static sw_status start_leaf(reading *r, sw_value text)
{
    sw_value made = swi_value_none();
    const uint8_t *data;
    size_t size;
    int64_t n;
    double f;
    bool b;
    sw_status st = SW_OK;
    if (sw_value_bool(r->j, text, &b))
        made = swi_value_of_bool(b);
    else if (sw_value_int(r->j, text, &n))
        st = swi_graph_int(r->g, n, &made, r->err);
    else if (sw_value_float(r->j, text, &f))
        st = swi_graph_float(r->g, f, &made, r->err);
    else if (sw_value_bytes(r->j, text, &data, &size))
        st = swi_graph_text(r->g, SW_VALUE_STR, data, size, &made, r->err);
    return st == SW_OK ? push_value(r, made) : st;
}

static sw_status start(reading *r, sw_value text)
{
    char tag[16];
    sw_value inner;
    int64_t id = -1;
    sw_status st = SW_OK;
    sw_value_kind kind = sw_value_get_kind(r->j, text);
    if (kind == SW_VALUE_DICT && tag_of(r, text, tag, &inner) && strcmp(tag, "$id") == 0) {
        st = take_id(r, text, &text, &id);
        kind = sw_value_get_kind(r->j, text);
    }
    if (st != SW_OK)
        return st;
    if (kind == SW_VALUE_DICT && tag_of(r, text, tag, &inner))
        return start_tagged(r, text, tag, inner, id);
    if (kind == SW_VALUE_DICT || kind == SW_VALUE_LIST)
        return open_frame(r, kind, text, false, id);
    return id >= 0 ? wrong(r, "\"$value\" is no container") : start_leaf(r, text);
}

/* The next part of the innermost container. */
static sw_status start_part(reading *r, frame *f)
{
    sw_value part, key, v;
    const size_t i = f->next++;
    if (f->kind == SW_VALUE_PERSISTENT) {
        (void)sw_value_pair(r->j, f->text, 0, &key, &part);
        return start(r, part);
    }
    if (f->kind != SW_VALUE_DICT || f->pairs) {
        (void)sw_value_item(r->j, f->text, f->pairs ? i / 2 : i, &part);
        if (!f->pairs)
            return start(r, part);
        if (sw_value_get_kind(r->j, part) != SW_VALUE_LIST || sw_value_size(r->j, part) != 2)
            return wrong(r, "\"$dict\" is a list of pairs");
        (void)sw_value_item(r->j, part, i % 2, &v);
        return start(r, v);
    }
    (void)sw_value_pair(r->j, f->text, i / 2, &key, &v);
    return i % 2 == 0 ? start_leaf(r, key) : start(r, v);
}

static sw_status finish_object(reading *r, const frame *f, sw_value *out)
{
    const sw_value *p = r->values + f->base;
    int64_t flags;
    if (!sw_value_int(r->g, p[4], &flags) || flags < 0 || flags > 7)
        return wrong(r, "\"$object\" ends with a number of 0 to 7");
    const sw_value_object o = {.callable = p[0],
                               .args = p[1],
                               .state = p[2],
                               .items = p[3],
                               .is_new = (flags & 1) != 0,
                               .has_state = (flags & 2) != 0,
                               .has_items = (flags & 4) != 0};
    const sw_value_kind items = sw_value_get_kind(r->g, o.items);
    if (sw_value_get_kind(r->g, o.args) != SW_VALUE_TUPLE ||
        (o.has_items && items != SW_VALUE_LIST && items != SW_VALUE_DICT))
        return wrong(r, "the arguments of an \"$object\" are a tuple, its items a list or a dict");
    return swi_graph_object(r->g, &o, out, r->err);
}

static sw_status finish(reading *r)
{
    const frame f = r->frames[--r->depth];
    const size_t n = r->value_count - f.base;
    const sw_value *parts = n > 0 ? r->values + f.base : NULL;
    sw_value made = f.made;
    sw_status st = SW_OK;
    if (f.kind == SW_VALUE_LIST || f.kind == SW_VALUE_SET)
        st = swi_graph_append(r->g, made, parts, n, r->err);
    else if (f.kind == SW_VALUE_DICT)
        st = swi_graph_set_items(r->g, made, parts, n / 2, r->err);
    else if (f.kind == SW_VALUE_OBJECT)
        st = finish_object(r, &f, &made);
    else if (f.kind == SW_VALUE_PERSISTENT)
        st = swi_graph_persistent(r->g, parts[0], &made, r->err);
    else
        st = swi_graph_sequence(r->g, f.kind, parts, n, &made, r->err);
    if (st == SW_OK)
        know(r, f.id, made);
    r->value_count = f.base;
    return st == SW_OK ? push_value(r, made) : st;
}

sw_status swi_value_json_read(const sw_value_graph *json, sw_value text, sw_value_graph *graph,
                              swi_tensor_find_fn find, const void *ctx, sw_value *out,
                              sw_error *err)
{
    reading r = {.j = json, .g = graph, .find = find, .ctx = ctx, .err = err};
    sw_status st = start(&r, text);
    while (st == SW_OK && r.depth > 0) {
        frame *f = &r.frames[r.depth - 1];
        const size_t parts = f->kind == SW_VALUE_DICT ? 2 * f->count : f->count;
        st = f->next < parts ? start_part(&r, f) : finish(&r);
    }
    if (st == SW_OK)
        *out = r.values[0];
    swi_buf_free(&r.bytes);
    free(r.frames);
    free(r.values);
    free(r.ids);
    free(r.known);
    return st;
}
