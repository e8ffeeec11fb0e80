/* What readers of a notation ask a document for. */
#include <string.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/nearest.h"
#include "base/text.h"
#include "codec/yaml_doc.h"

#define TYPES "NT-1.4"
#define KEYS "NT-1.5"

static const char *kind_name(swi_yaml_kind kind)
{
    static const char *const names[] = {"a text", "a list", "a mapping"};
    return names[kind];
}

static bool is_absent(const swi_yaml *doc, swi_yaml_node node)
{
    return swi_yaml_kind_of(doc, node) == SWI_YAML_SCALAR && !swi_yaml_is_quoted(doc, node) &&
           swi_yaml_text(doc, node, NULL)[0] == '\0';
}

sw_status swi_yaml_expect(const swi_yaml *doc, swi_yaml_node node, swi_yaml_kind kind,
                          const char *what, sw_error *err)
{
    swi_yaml_kind found = swi_yaml_kind_of(doc, node);
    bool absent = is_absent(doc, node);
    if (found == kind && !absent)
        return SW_OK;
    return swi_yaml_fail(doc, node, err, SW_ERR_FORMAT, TYPES, "%s must be %s, is %s", what,
                         kind_name(kind), absent ? "left out" : kind_name(found));
}

static sw_status append_known(swi_buf *list, const char *const *known, sw_error *err)
{
    sw_status status = SW_OK;
    for (size_t i = 0; status == SW_OK && known[i] != NULL; i++)
        status = swi_buf_printf(list, err, "%s%s", i > 0 ? ", " : "", known[i]);
    return status;
}

static sw_status fail_key(const swi_yaml *doc, swi_yaml_node key, const char *what,
                          const char *const *known, sw_error *err)
{
    size_t size;
    const char *text = swi_yaml_text(doc, key, &size);
    swi_nearest nearest = swi_nearest_begin(text, size);
    for (size_t i = 0; known[i] != NULL; i++)
        swi_nearest_offer(&nearest, known[i]);
    swi_buf list = {0};
    sw_status status = append_known(&list, known, err);
    if (status == SW_OK) {
        swi_quoted room;
        bool like = nearest.found != NULL;
        status = swi_yaml_fail(doc, key, err, SW_ERR_FORMAT, KEYS,
                               "unknown key \"%s\" in %s;%s%s%s known: %.*s",
                               swi_quote(&room, text, size), what, like ? " did you mean \"" : "",
                               like ? nearest.found : "", like ? "\"?" : "", (int)list.size,
                               list.data != NULL ? (const char *)list.data : "");
    }
    swi_buf_free(&list);
    return status;
}

sw_status swi_yaml_known_keys(const swi_yaml *doc, swi_yaml_node node, const char *what,
                              const char *const *known, sw_error *err)
{
    sw_status status = swi_yaml_expect(doc, node, SWI_YAML_MAPPING, what, err);
    size_t count = status == SW_OK ? swi_yaml_count(doc, node) : 0;
    for (size_t i = 0; i < count; i++) {
        swi_yaml_node key, value;
        swi_yaml_pair(doc, node, i, &key, &value);
        size_t k = 0;
        while (known[k] != NULL && strcmp(known[k], swi_yaml_text(doc, key, NULL)) != 0)
            k++;
        if (known[k] == NULL)
            return fail_key(doc, key, what, known, err);
    }
    return status;
}

sw_status swi_yaml_require(const swi_yaml *doc, swi_yaml_node mapping, const char *what,
                           const char *key, swi_yaml_node *out, sw_error *err)
{
    swi_yaml_node found = swi_yaml_find(doc, mapping, key);
    if (!swi_yaml_is_node(found))
        return swi_yaml_fail(doc, mapping, err, SW_ERR_FORMAT, KEYS, "%s lacks the key \"%s\"",
                             what, key);
    *out = found;
    return SW_OK;
}

sw_status swi_yaml_get_text(const swi_yaml *doc, swi_yaml_node mapping, const char *key,
                            const char **out, swi_yaml_node *node, sw_error *err)
{
    swi_yaml_node found = swi_yaml_find(doc, mapping, key);
    if (swi_yaml_is_node(found)) {
        sw_status status = swi_yaml_expect(doc, found, SWI_YAML_SCALAR, key, err);
        if (status != SW_OK)
            return status;
    }
    *out = swi_yaml_is_node(found) ? swi_yaml_text(doc, found, NULL) : NULL;
    if (node != NULL)
        *node = found;
    return SW_OK;
}

/* The text of a node that is a scalar without quotes. */
static sw_status get_unquoted(const swi_yaml *doc, swi_yaml_node node, const char *what,
                              const char *wanted, const char **out, sw_error *err)
{
    sw_status status = swi_yaml_expect(doc, node, SWI_YAML_SCALAR, what, err);
    if (status != SW_OK)
        return status;
    if (swi_yaml_is_quoted(doc, node))
        return swi_yaml_fail(doc, node, err, SW_ERR_FORMAT, TYPES,
                             "%s must be %s, is a text in quotes", what, wanted);
    *out = swi_yaml_text(doc, node, NULL);
    return SW_OK;
}

sw_status swi_yaml_get_bool(const swi_yaml *doc, swi_yaml_node mapping, const char *key, bool *out,
                            sw_error *err)
{
    static const char wanted[] = "true or false";
    const char *text = NULL;
    swi_yaml_node node = swi_yaml_find(doc, mapping, key);
    if (!swi_yaml_is_node(node))
        return SW_OK;
    sw_status status = get_unquoted(doc, node, key, wanted, &text, err);
    if (status != SW_OK)
        return status;
    bool truth = strcmp(text, "true") == 0;
    swi_quoted room;
    if (!truth && strcmp(text, "false") != 0)
        return swi_yaml_fail(doc, node, err, SW_ERR_FORMAT, TYPES, "%s must be %s, is \"%s\"", key,
                             wanted, swi_quote_str(&room, text));
    *out = truth;
    return SW_OK;
}

/* A decimal number without sign or leading zeros that fits. */
static bool parse_uint(const char *text, uint64_t *out)
{
    uint64_t v = 0;
    if (text[0] == '\0' || (text[0] == '0' && text[1] != '\0'))
        return false;
    for (; *text != '\0'; text++)
        if (*text < '0' || *text > '9' || !swi_mul_u64(v, 10, &v) ||
            !swi_add_u64(v, (uint64_t)(*text - '0'), &v))
            return false;
    *out = v;
    return true;
}

sw_status swi_yaml_uint(const swi_yaml *doc, swi_yaml_node node, const char *what, uint64_t *out,
                        sw_error *err)
{
    static const char wanted[] = "a whole number";
    const char *text = NULL;
    sw_status status = get_unquoted(doc, node, what, wanted, &text, err);
    if (status != SW_OK)
        return status;
    uint64_t v;
    swi_quoted room;
    if (!parse_uint(text, &v))
        return swi_yaml_fail(doc, node, err, SW_ERR_FORMAT, TYPES, "%s must be %s, is \"%s\"", what,
                             wanted, swi_quote_str(&room, text));
    *out = v;
    return SW_OK;
}

sw_status swi_yaml_get_uint(const swi_yaml *doc, swi_yaml_node mapping, const char *key,
                            uint64_t *out, sw_error *err)
{
    swi_yaml_node node = swi_yaml_find(doc, mapping, key);
    return swi_yaml_is_node(node) ? swi_yaml_uint(doc, node, key, out, err) : SW_OK;
}

sw_status swi_yaml_get_list(const swi_yaml *doc, swi_yaml_node mapping, const char *key,
                            swi_yaml_list *out, sw_error *err)
{
    swi_yaml_node found = swi_yaml_find(doc, mapping, key);
    const swi_yaml_list list = swi_yaml_list_of(doc, mapping, key);
    if (swi_yaml_is_node(found) && list.count == 0)
        return swi_yaml_fail(doc, found, err, SW_ERR_FORMAT, TYPES, "%s is an empty list", key);
    for (size_t i = 0; i < list.count; i++) {
        sw_status status = swi_yaml_expect(doc, list.items[i], SWI_YAML_SCALAR, key, err);
        if (status != SW_OK)
            return status;
    }
    *out = list;
    return SW_OK;
}
