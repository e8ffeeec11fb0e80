/* Shapes as a document (SHP-10): what is written is read again and compared. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "flat/shapes_parts.h"

/* ---- texts ------------------------------------------------------------------------------------
 */

#define WORD "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

/* In quotes where it may mean something else. */
static sw_status write_text(swi_buf *out, const char *text, sw_error *err)
{
    if (strspn(text, WORD) > 0 && strspn(text, WORD ".-") == strlen(text))
        return swi_buf_append_str(out, text, err);
    sw_status st = swi_buf_u8(out, '\'', err);
    for (const char *p = text; st == SW_OK && *p != '\0'; p++) {
        st = swi_buf_u8(out, (uint8_t)*p, err);
        if (st == SW_OK && *p == '\'')
            st = swi_buf_u8(out, '\'', err);
    }
    return st == SW_OK ? swi_buf_u8(out, '\'', err) : st;
}

static sw_status write_item(swi_buf *out, const swi_shape *item, sw_error *err)
{
    sw_status st = swi_buf_append_str(out, "- ", err);
    if (st == SW_OK)
        st = write_text(out, item->name, err);
    if (st == SW_OK)
        st = swi_buf_append_str(out, ": [", err);
    for (uint32_t k = 0; st == SW_OK && k < item->axes; k++)
        st = swi_buf_printf(out, err, "%s%" PRId64, k > 0 ? ", " : "", item->shape[k]);
    return st == SW_OK ? swi_buf_append_str(out, "]\n", err) : st;
}

static sw_status write_tie(swi_buf *out, const char *alias, const char *owner, sw_error *err)
{
    sw_status st = swi_buf_append_str(out, "  ", err);
    if (st == SW_OK)
        st = write_text(out, alias, err);
    if (st == SW_OK)
        st = swi_buf_append_str(out, ": ", err);
    if (st == SW_OK)
        st = write_text(out, owner, err);
    return st == SW_OK ? swi_buf_u8(out, '\n', err) : st;
}

/* ---- the document -----------------------------------------------------------------------------
 */

/* What a document has of them. */
static bool is_listed(const swi_shape *item)
{
    return !item->buffer;
}

static bool any_may_be(const swi_shapes *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (is_listed(&s->items[i]) && s->items[i].may_be)
            return true;
    return false;
}

static sw_status write_list(const swi_shapes *s, swi_buf *out, sw_error *err)
{
    static const char unsure[] =
        "# Floating-point buffers may be among them, and copies of tied parameters: a state dict "
        "does\n# not tell. Name them here:\n# buffers: [\"**.running_mean\"]\n# ties: {OTHER: "
        "NAME}\n"
        "tensors:\n";
    sw_status st = swi_buf_append_str(out, any_may_be(s) ? unsure : "parameters:\n", err);
    for (size_t i = 0; st == SW_OK && i < s->count; i++)
        if (is_listed(&s->items[i]))
            st = write_item(out, &s->items[i], err);
    return st;
}

static sw_status write_ties(const swi_shapes *s, swi_buf *out, sw_error *err)
{
    sw_status st = SW_OK;
    bool any = false;
    for (size_t i = 0; st == SW_OK && i < s->count; i++) {
        const swi_shape *t = &s->items[i];
        if (!is_listed(t) || t->tied_to < 0)
            continue;
        st = any ? SW_OK : swi_buf_append_str(out, "ties:\n", err);
        any = true;
        if (st == SW_OK)
            st = write_tie(out, t->name, s->items[t->tied_to].name, err);
    }
    return st;
}

/* What no list of parameters tells. */
static sw_status write_how(const swi_shapes *s, swi_buf *out, sw_error *err)
{
    sw_status st =
        swi_buf_append_str(out,
                           s->has_units ? "units: ["
                                        : "# Modules that FSDP wrapped, the root besides:\n"
                                          "# units: [\"layers.{n}\"]\n",
                           err);
    for (size_t i = 0; st == SW_OK && i < s->unit_count; i++) {
        st = swi_buf_append_str(out, i > 0 ? ", " : "", err);
        if (st == SW_OK)
            st = write_text(out, swi_pattern_text(s->units[i]), err);
    }
    if (st == SW_OK && s->has_units)
        st = swi_buf_append_str(out, "]\n", err);
    if (st == SW_OK && s->use_orig_params >= 0)
        st = swi_buf_printf(out, err, "use_orig_params: %s\n",
                            s->use_orig_params > 0 ? "true" : "false");
    return st == SW_OK && s->align > 0 ? swi_buf_printf(out, err, "align: %" PRIu32 "\n", s->align)
                                       : st;
}

/* ---- the proof --------------------------------------------------------------------------------
 */

static bool same_item(const swi_shapes *a, size_t i, const swi_shapes *b, size_t k)
{
    const swi_shape *x = &a->items[i], *y = &b->items[k];
    const char *of_x = x->tied_to >= 0 ? a->items[x->tied_to].name : "";
    const char *of_y = y->tied_to >= 0 ? b->items[y->tied_to].name : "";
    return strcmp(x->name, y->name) == 0 && strcmp(of_x, of_y) == 0 && x->axes == y->axes &&
           memcmp(x->shape, y->shape, x->axes * sizeof *x->shape) == 0;
}

static bool says_the_same(const swi_shapes *s, const swi_shapes *read)
{
    size_t k = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (!is_listed(&s->items[i]))
            continue;
        if (k >= read->count || !same_item(s, i, read, k))
            return false;
        k++;
    }
    return k == read->count && s->unit_count == read->unit_count;
}

static sw_status prove(const swi_shapes *s, const swi_buf *text, sw_error *err)
{
    const swi_shapes_ask ask = {.alone = true};
    swi_shapes *read = NULL;
    sw_error cause = {0};
    sw_status st = swi_shapes_parse(text->data, text->size, "document", &ask, &read, &cause);
    const bool same = st == SW_OK && says_the_same(s, read);
    swi_shapes_free(read);
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    if (same)
        return SW_OK;
    return swi_fail(err, SW_ERR_UNSUPPORTED,
                    "%s: its shapes cannot be written as a document: %s; --shapes takes it itself",
                    s->from, st != SW_OK ? cause.text : "some names would be read as others");
}

sw_status swi_shapes_write(const swi_shapes *s, swi_buf *out, sw_error *err)
{
    swi_buf text = {0};
    sw_status st =
        swi_buf_printf(&text, err, "# %s, in the order of registration\nshapes: 1\n", s->from);
    if (st == SW_OK)
        st = write_list(s, &text, err);
    if (st == SW_OK)
        st = write_ties(s, &text, err);
    if (st == SW_OK)
        st = write_how(s, &text, err);
    if (st == SW_OK)
        st = prove(s, &text, err);
    if (st == SW_OK)
        st = swi_buf_u8(&text, '\0', err);
    if (st == SW_OK) {
        swi_buf_free(out);
        *out = text;
        return SW_OK;
    }
    swi_buf_free(&text);
    return st;
}
