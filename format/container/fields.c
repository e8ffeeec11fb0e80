#include "container/fields.h"

#include <string.h>

#include "base/text.h"

static bool is_known(const char *const *known, const char *name, size_t size)
{
    for (; *known != NULL; known++) {
        if (strlen(*known) == size && memcmp(*known, name, size) == 0)
            return true;
    }
    return false;
}

static sw_status check_known(const swi_fields *f, const char *const *known, sw_error *err)
{
    for (size_t i = 0; i < sw_value_size(f->graph, f->object); i++) {
        sw_value key, value;
        const uint8_t *name = NULL;
        size_t size = 0;
        swi_quoted q;
        if (!sw_value_pair(f->graph, f->object, i, &key, &value) ||
            !sw_value_bytes(f->graph, key, &name, &size) ||
            !is_known(known, (const char *)name, size))
            return swi_fail(err, SW_ERR_FORMAT, "%s: unknown member \"%s\"", f->what,
                            swi_quote(&q, name, size));
    }
    return SW_OK;
}

sw_status swi_fields_open(const sw_value_graph *graph, sw_value v, const char *what,
                          const char *const *known, swi_fields *out, sw_error *err)
{
    const swi_fields f = {.graph = graph, .object = v, .what = what};
    if (sw_value_get_kind(graph, v) != SW_VALUE_DICT)
        return swi_fail(err, SW_ERR_FORMAT, "%s: is no JSON object", what);
    sw_status status = known != NULL ? check_known(&f, known, err) : SW_OK;
    if (status == SW_OK)
        *out = f;
    return status;
}

bool swi_fields_has(const swi_fields *f, const char *key)
{
    sw_value v;
    return swi_value_get(f->graph, f->object, key, &v);
}

sw_status swi_fields_get(const swi_fields *f, const char *key, sw_value *out, sw_error *err)
{
    if (!swi_value_get(f->graph, f->object, key, out))
        return swi_fail(err, SW_ERR_FORMAT, "%s: no member \"%s\"", f->what, key);
    return SW_OK;
}

static sw_status fail_kind(const swi_fields *f, const char *key, const char *kind, sw_error *err)
{
    return swi_fail(err, SW_ERR_FORMAT, "%s: member \"%s\" is no %s", f->what, key, kind);
}

sw_status swi_fields_object(const swi_fields *f, const char *key, const char *what,
                            const char *const *known, swi_fields *out, sw_error *err)
{
    sw_value v;
    sw_status status = swi_fields_get(f, key, &v, err);
    return status == SW_OK ? swi_fields_open(f->graph, v, what, known, out, err) : status;
}

sw_status swi_fields_list(const swi_fields *f, const char *key, sw_value *out, sw_error *err)
{
    sw_value v;
    sw_status status = swi_fields_get(f, key, &v, err);
    if (status != SW_OK)
        return status;
    if (sw_value_get_kind(f->graph, v) != SW_VALUE_LIST)
        return fail_kind(f, key, "list", err);
    *out = v;
    return SW_OK;
}

sw_status swi_fields_text(const swi_fields *f, const char *key, swi_field_text *out, sw_error *err)
{
    sw_value v;
    const uint8_t *data;
    size_t size;
    sw_status status = swi_fields_get(f, key, &v, err);
    if (status != SW_OK)
        return status;
    if (sw_value_get_kind(f->graph, v) != SW_VALUE_STR ||
        !sw_value_bytes(f->graph, v, &data, &size))
        return fail_kind(f, key, "text", err);
    *out = (swi_field_text){.data = (const char *)data, .size = size};
    return SW_OK;
}

sw_status swi_fields_digest(const swi_fields *f, const char *key, swi_digest *out, sw_error *err)
{
    swi_field_text text = {0};
    sw_status status = swi_fields_text(f, key, &text, err);
    if (status == SW_OK && !swi_digest_parse(text.data, text.size, out))
        status = fail_kind(f, key, "SHA-256 in lower-case hexadecimal digits", err);
    return status;
}

sw_status swi_fields_expect(const swi_fields *f, const char *key, const char *expected,
                            sw_error *err)
{
    swi_field_text text = {0};
    swi_quoted q;
    sw_status status = swi_fields_text(f, key, &text, err);
    if (status == SW_OK && !swi_field_is(&text, expected))
        status = swi_fail(err, SW_ERR_UNSUPPORTED, "%s: \"%s\" is \"%s\", known is \"%s\"", f->what,
                          key, swi_quote(&q, text.data, text.size), expected);
    return status;
}

bool swi_field_is(const swi_field_text *text, const char *expected)
{
    return text->size == strlen(expected) && memcmp(text->data, expected, text->size) == 0;
}
