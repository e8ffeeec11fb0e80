#include "model/value_node.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

#define DEPTH_MAX 64
#define QUOTE_STEP 20 /* bytes: each takes up to 10 characters when it is escaped */

/* A container that is being printed. */
typedef struct frame {
    sw_value v;
    size_t next;  /* parts already begun */
    size_t count; /* parts: elements, pairs x 2, fields */
    const char *close;
} frame;

typedef struct printer {
    const sw_value_graph *g;
    swi_buf out;
    size_t max;
    bool full;
    frame stack[DEPTH_MAX];
    size_t depth;
    sw_error *err;
} printer;

static sw_status put(printer *p, const char *text, size_t size)
{
    if (p->full || size > p->max - p->out.size) {
        p->full = true;
        return SW_OK;
    }
    return swi_buf_append(&p->out, text, size, p->err);
}

static sw_status put_str(printer *p, const char *text)
{
    return put(p, text, strlen(text));
}

static bool is_continuation(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

static sw_status put_quoted(printer *p, const uint8_t *data, size_t size)
{
    sw_status status = put_str(p, "\"");
    for (size_t i = 0; status == SW_OK && !p->full && i < size;) {
        swi_quoted room;
        size_t step = size - i < QUOTE_STEP ? size - i : QUOTE_STEP;
        for (size_t k = 0; k < 3 && step > 1 && i + step < size && is_continuation(data[i + step]);
             k++)
            step--;
        status = put_str(p, swi_quote(&room, data + i, step));
        i += step;
    }
    return status != SW_OK ? status : put_str(p, "\"");
}

static sw_status put_bytes(printer *p, sw_value v, const uint8_t *data, size_t size)
{
    bool array = sw_value_is_bytearray(p->g, v);
    sw_status status = put_str(p, array ? "bytearray(b\"" : "b\"");
    for (size_t i = 0; status == SW_OK && !p->full && i < size; i++) {
        char text[8];
        bool plain = data[i] >= 0x20 && data[i] < 0x7f && data[i] != '"' && data[i] != '\\';
        (void)snprintf(text, sizeof text, plain ? "%c" : "\\x%02x", (unsigned)data[i]);
        status = put_str(p, text);
    }
    return status != SW_OK ? status : put_str(p, array ? "\")" : "\"");
}

/* Hexadecimal: decimal takes time that is quadratic in the size. */
static sw_status put_bigint(printer *p, const uint8_t *data, size_t size)
{
    bool negative = size > 0 && (data[size - 1] & 0x80) != 0;
    uint8_t *digits = malloc(size > 0 ? size : 1);
    if (digits == NULL)
        return swi_fail_nomem(p->err);
    unsigned carry = negative;
    for (size_t i = 0; i < size; i++) {
        unsigned byte = negative ? (uint8_t)~data[i] + carry : data[i];
        digits[i] = (uint8_t)byte;
        carry = negative ? byte >> 8 : 0;
    }
    while (size > 1 && digits[size - 1] == 0)
        size--;
    sw_status status = put_str(p, negative ? "-0x" : "0x");
    for (size_t i = size; status == SW_OK && !p->full && i-- > 0;) {
        char text[4];
        (void)snprintf(text, sizeof text, i + 1 == size ? "%x" : "%02x", digits[i]);
        status = put_str(p, text);
    }
    free(digits);
    return status;
}

/* The shortest decimal that reads back as the same number. */
static void float_text(double v, char out[40])
{
    if (isnan(v) || isinf(v)) {
        (void)snprintf(out, 40, "%s", isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(out, 40, "%.*g", digits, v);
        if (strtod(out, NULL) == v)
            break;
    }
    /* printf and strtod agree on the locale's point; people are shown this one. */
    out[strcspn(out, ",")] = out[strcspn(out, ",")] == ',' ? '.' : '\0';
    if (out[strspn(out, "-0123456789")] == '\0')
        (void)snprintf(out + strlen(out), 4, ".0");
}

static sw_status put_complex(printer *p, double re, double im)
{
    char text[96], re_text[40], im_text[40];
    float_text(re, re_text);
    float_text(im, im_text);
    (void)snprintf(text, sizeof text, "(%s%s%sj)", re_text, im_text[0] == '-' ? "" : "+", im_text);
    return put_str(p, text);
}

static sw_status put_global(printer *p, sw_value v)
{
    const char *module, *name;
    swi_quoted room;
    if (!sw_value_global(p->g, v, &module, &name))
        return SW_OK;
    sw_status status = put_str(p, swi_quote_str(&room, module));
    if (status == SW_OK)
        status = put_str(p, ".");
    return status != SW_OK ? status : put_str(p, swi_quote_str(&room, name));
}

static sw_status put_scalar(printer *p, sw_value v)
{
    char text[64] = "";
    int64_t whole;
    double re, im;
    bool flag;
    uint64_t payload;
    uint32_t tensor;
    const uint8_t *data;
    size_t size;
    if (sw_value_bool(p->g, v, &flag))
        return put_str(p, flag ? "True" : "False");
    if (sw_value_float(p->g, v, &re)) {
        float_text(re, text);
        return put_str(p, text);
    }
    if (sw_value_complex(p->g, v, &re, &im))
        return put_complex(p, re, im);
    if (sw_value_bytes(p->g, v, &data, &size)) {
        sw_value_kind kind = sw_value_get_kind(p->g, v);
        return kind == SW_VALUE_STR     ? put_quoted(p, data, size)
               : kind == SW_VALUE_BYTES ? put_bytes(p, v, data, size)
                                        : put_bigint(p, data, size);
    }
    if (sw_value_int(p->g, v, &whole))
        (void)snprintf(text, sizeof text, "%" PRId64, whole);
    else if (swi_value_record(v, &payload))
        (void)snprintf(text, sizeof text, "<record %" PRIu64 ">", payload);
    else if (sw_value_tensor(p->g, v, &tensor))
        (void)snprintf(text, sizeof text, "<tensor %" PRIu32 ">", tensor);
    else if (swi_value_tag(v) == SWI_TAG_GLOBAL)
        return put_global(p, v);
    else
        (void)snprintf(text, sizeof text, "None");
    return put_str(p, text);
}

/* ---- containers
 * ---------------------------------------------------------------------------------- */

/* How a container opens and closes; an OBJECT and a PERSISTENT are containers of their fields. */
static void brackets(const sw_value_graph *g, sw_value v, const char **open, const char **close)
{
    size_t size = sw_value_size(g, v);
    switch (sw_value_get_kind(g, v)) {
    case SW_VALUE_LIST:
        *open = "[";
        *close = "]";
        return;
    case SW_VALUE_TUPLE:
        *open = "(";
        *close = size == 1 ? ",)" : ")";
        return;
    case SW_VALUE_SET:
        *open = size == 0 ? "set(" : "{";
        *close = size == 0 ? ")" : "}";
        return;
    case SW_VALUE_FROZENSET:
        *open = size == 0 ? "frozenset(" : "frozenset({";
        *close = size == 0 ? ")" : "})";
        return;
    case SW_VALUE_DICT:
        *open = "{";
        *close = "}";
        return;
    case SW_VALUE_PERSISTENT:
        *open = "<persistent ";
        *close = ">";
        return;
    default:
        *open = "<";
        *close = ">";
        return;
    }
}

static bool is_container(sw_value v)
{
    unsigned tag = swi_value_tag(v);
    return (tag >= SWI_TAG_LIST && tag <= SWI_TAG_FROZENSET) || tag == SWI_TAG_OBJECT ||
           tag == SWI_TAG_PERSISTENT;
}

static sw_status open_container(printer *p, sw_value v)
{
    for (size_t i = 0; i < p->depth; i++) {
        if (p->stack[i].v.bits == v.bits)
            return put_str(p, "...");
    }
    if (p->depth == DEPTH_MAX)
        return put_str(p, "...");
    const char *open;
    frame *f = &p->stack[p->depth++];
    *f = (frame){.v = v, .count = sw_value_size(p->g, v)};
    brackets(p->g, v, &open, &f->close);
    unsigned tag = swi_value_tag(v);
    if (tag == SWI_TAG_DICT)
        f->count *= 2;
    else if (tag == SWI_TAG_OBJECT)
        f->count = 4;
    else if (tag == SWI_TAG_PERSISTENT)
        f->count = 1;
    return put_str(p, open);
}

static sw_status put_value(printer *p, sw_value v)
{
    return is_container(v) ? open_container(p, v) : put_scalar(p, v);
}

/* The i-th field of an OBJECT: callable, arguments, items, state. */
static sw_status put_field(printer *p, sw_value v, size_t i)
{
    sw_value_object object = {0};
    (void)sw_value_get_object(p->g, v, &object);
    if (i == 0)
        return put_value(p, object.callable);
    if (i == 1)
        return object.is_new && sw_value_size(p->g, object.args) == 0 ? SW_OK
                                                                      : put_value(p, object.args);
    if ((i == 2 && !object.has_items) || (i == 3 && !object.has_state))
        return SW_OK;
    sw_status status = put_str(p, i == 2 ? " " : " state ");
    return status != SW_OK ? status : put_value(p, i == 2 ? object.items : object.state);
}

static sw_status put_next(printer *p)
{
    frame *f = &p->stack[p->depth - 1];
    size_t i = f->next++;
    sw_value part = swi_value_none(), key;
    sw_status status = SW_OK;
    if (i == f->count) {
        p->depth--;
        return put_str(p, f->close);
    }
    if (swi_value_tag(f->v) == SWI_TAG_OBJECT)
        return put_field(p, f->v, i);
    if (swi_value_tag(f->v) == SWI_TAG_DICT) {
        if (i > 0)
            status = put_str(p, i % 2 == 1 ? ": " : ", ");
        (void)sw_value_pair(p->g, f->v, i / 2, &key, &part);
        return status != SW_OK ? status : put_value(p, i % 2 == 0 ? key : part);
    }
    if (i > 0)
        status = put_str(p, ", ");
    if (!sw_value_item(p->g, f->v, i, &part))
        (void)sw_value_persistent(p->g, f->v, &part);
    return status != SW_OK ? status : put_value(p, part);
}

sw_status sw_value_text(const sw_value_graph *graph, sw_value v, size_t max_chars, char **out,
                        sw_error *err)
{
    printer *p = calloc(1, sizeof *p);
    if (p == NULL)
        return swi_fail_nomem(err);
    p->g = graph;
    p->max = max_chars;
    p->err = err;
    sw_status status = put_value(p, v);
    while (status == SW_OK && p->depth > 0 && !p->full)
        status = put_next(p);
    if (status == SW_OK && p->full)
        status = swi_buf_append_str(&p->out, "...", err);
    if (status == SW_OK)
        status = swi_buf_u8(&p->out, 0, err);
    if (status == SW_OK) {
        *out = (char *)p->out.data;
        p->out = (swi_buf){0};
    }
    swi_buf_free(&p->out);
    free(p);
    return status;
}
