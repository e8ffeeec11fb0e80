/* Documents of shapes: SHP-5 to SHP-9 of specs/shapes.md. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/nearest.h"
#include "base/text.h"
#include "codec/yaml.h"
#include "flat/shapes_parts.h"
#include "model/piece.h"
#include "select/names.h"

#define ALIGN_MAX 4096
#define PATTERNS_MAX 1024

typedef struct reading {
    const swi_yaml *doc;
    swi_yaml_node root;
    const char *file;
    const swi_shapes_ask *ask;
    swi_shapes *out;
    bool drop_module; /* all names of the document have it */
    swi_buf name;     /* the one cleaned last */
} reading;

static const char list_form[] = "\"- NAME: [size, size]\"";

/* ---- names ------------------------------------------------------------------------------------
 */

/* SHP-6: wrapper parts off. Good until the next call. */
static sw_status read_name(reading *r, swi_yaml_node node, const char *what, const char **out,
                           sw_error *err)
{
    uint64_t removed = 0;
    sw_status st = swi_yaml_expect(r->doc, node, SWI_YAML_SCALAR, what, err);
    if (st != SW_OK)
        return st;
    const char *text = swi_yaml_text(r->doc, node, NULL);
    if (text[0] == '\0')
        return swi_yaml_fail(r->doc, node, err, SW_ERR_FORMAT, "SHP-6", "%s is empty", what);
    r->name.size = 0;
    st = swi_clean_name(text, r->drop_module, &r->name, &removed, err);
    *out = (const char *)r->name.data;
    return st;
}

/* Where an entry has its name and sizes. */
static sw_status read_entry(const reading *r, swi_yaml_node item, swi_yaml_node *name,
                            swi_yaml_node *sizes, sw_error *err)
{
    if (swi_yaml_kind_of(r->doc, item) != SWI_YAML_MAPPING || swi_yaml_count(r->doc, item) != 1)
        return swi_yaml_fail(r->doc, item, err, SW_ERR_FORMAT, "SHP-6",
                             "each entry is one name with its sizes: %s", list_form);
    swi_yaml_pair(r->doc, item, 0, name, sizes);
    return SW_OK;
}

static sw_status find_module(reading *r, swi_yaml_node list, sw_error *err)
{
    const size_t count = swi_yaml_count(r->doc, list);
    r->drop_module = count > 0;
    for (size_t i = 0; i < count; i++) {
        swi_yaml_node name, sizes;
        sw_status st = read_entry(r, swi_yaml_item(r->doc, list, i), &name, &sizes, err);
        if (st != SW_OK)
            return st;
        r->drop_module = r->drop_module && swi_has_module_prefix(swi_yaml_text(r->doc, name, NULL));
    }
    return SW_OK;
}

/* ---- parameters -------------------------------------------------------------------------------
 */

static sw_status read_sizes(const reading *r, swi_yaml_node node, swi_shape *out, sw_error *err)
{
    uint64_t size, elements;
    sw_status st = swi_yaml_expect(r->doc, node, SWI_YAML_SEQUENCE, "the sizes", err);
    if (st != SW_OK)
        return st;
    const size_t axes = swi_yaml_count(r->doc, node);
    if (axes > SW_MAX_AXES)
        return swi_yaml_fail(r->doc, node, err, SW_ERR_LIMIT, "SHP-6",
                             "%zu dimensions; a tensor has at most %d", axes, SW_MAX_AXES);
    for (size_t i = 0; i < axes; i++) {
        swi_yaml_node item = swi_yaml_item(r->doc, node, i);
        st = swi_yaml_uint(r->doc, item, "a size", &size, err);
        if (st != SW_OK)
            return st;
        if (size > INT64_MAX)
            return swi_yaml_fail(r->doc, item, err, SW_ERR_LIMIT, "SHP-6",
                                 "a size of more than 2^63 - 1");
        out->shape[i] = (int64_t)size;
    }
    out->axes = (uint32_t)axes;
    if (!swi_shape_elements(out->axes, out->shape, &elements))
        return swi_yaml_fail(r->doc, node, err, SW_ERR_LIMIT, "SHP-6",
                             "more elements than can be counted");
    return SW_OK;
}

/* What a step without places says, with the place. */
static sw_status at_place(const reading *r, swi_yaml_node node, sw_status st, const sw_error *cause,
                          sw_error *err)
{
    if (st == SW_OK)
        return SW_OK;
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    return swi_yaml_fail(r->doc, node, err, st, "SHP-6", "%s", cause->text);
}

static sw_status read_parameter(reading *r, swi_yaml_node item, bool may_be, sw_error *err)
{
    swi_shape shape = {.may_be = may_be, .tied_to = -1};
    swi_yaml_node name, sizes;
    sw_error cause = {0};
    sw_status st = read_entry(r, item, &name, &sizes, err);
    if (st == SW_OK)
        st = read_name(r, name, "a name", &shape.name, err);
    if (st == SW_OK)
        st = read_sizes(r, sizes, &shape, err);
    if (st != SW_OK)
        return st;
    return at_place(r, name, swi_shapes_add(r->out, &shape, &cause), &cause, err);
}

static sw_status read_parameters(reading *r, const char *key, swi_yaml_node list, bool may_be,
                                 sw_error *err)
{
    if (swi_yaml_kind_of(r->doc, list) == SWI_YAML_MAPPING)
        return swi_yaml_fail(r->doc, list, err, SW_ERR_FORMAT, "SHP-6",
                             "%s is a mapping, which has no order; make it a list: %s", key,
                             list_form);
    sw_status st = swi_yaml_expect(r->doc, list, SWI_YAML_SEQUENCE, key, err);
    const size_t count = st == SW_OK ? swi_yaml_count(r->doc, list) : 0;
    if (st == SW_OK && count == 0)
        return swi_yaml_fail(r->doc, list, err, SW_ERR_FORMAT, "SHP-6", "%s is an empty list", key);
    if (st == SW_OK)
        st = swi_shapes_make(r->file, &r->out, err);
    if (st == SW_OK)
        st = find_module(r, list, err);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        st = read_parameter(r, swi_yaml_item(r->doc, list, i), may_be, err);
    return st;
}

/* ---- the model that another file describes ----------------------------------------------------
 */

static sw_status read_model(reading *r, swi_yaml_node node, sw_error *err)
{
    const swi_shapes_ask ask = {.map = r->ask->map, .limits = r->ask->limits, .alone = true};
    const char *slash = strrchr(r->file, '/');
    swi_buf path = {0};
    sw_error cause = {0};
    sw_status st = swi_yaml_expect(r->doc, node, SWI_YAML_SCALAR, "model", err);
    if (st != SW_OK)
        return st;
    const char *text = swi_yaml_text(r->doc, node, NULL);
    if (r->ask->alone)
        return swi_yaml_fail(r->doc, node, err, SW_ERR_UNSUPPORTED, "SHP-7",
                             "a document that is not read from a file holds its parameters itself");
    if (text[0] == '\0')
        return swi_yaml_fail(r->doc, node, err, SW_ERR_FORMAT, "SHP-7", "model is empty");
    if (slash != NULL && text[0] != '/')
        st = swi_buf_append(&path, r->file, (size_t)(slash - r->file) + 1, err);
    if (st == SW_OK)
        st = swi_buf_append(&path, text, strlen(text) + 1, err);
    if (st == SW_OK) {
        st = swi_shapes_source((const char *)path.data, &ask, &r->out, &cause);
        st = at_place(r, node, st, &cause, err);
    }
    swi_buf_free(&path);
    return st;
}

/* SHP-5: what is described, by one of three keys; or nothing but units is. */
static sw_status read_items(reading *r, sw_error *err)
{
    static const char *const keys[] = {"parameters", "tensors", "model"};
    swi_yaml_node found = {0};
    size_t which = 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        swi_yaml_node node = swi_yaml_find(r->doc, r->root, keys[i]);
        if (!swi_yaml_is_node(node))
            continue;
        if (swi_yaml_is_node(found))
            return swi_yaml_fail(r->doc, node, err, SW_ERR_FORMAT, "SHP-5",
                                 "%s and %s: a document has one of parameters, tensors and model",
                                 keys[which], keys[i]);
        found = node;
        which = i;
    }
    if (!swi_yaml_is_node(found) && swi_yaml_is_node(swi_yaml_find(r->doc, r->root, "units")))
        return swi_shapes_make(r->file, &r->out, err);
    if (!swi_yaml_is_node(found))
        return swi_yaml_fail(r->doc, r->root, err, SW_ERR_FORMAT, "SHP-5",
                             "a document of shapes lacks one of the keys parameters, tensors and "
                             "model (it may lack them where it has units)");
    return which == 2 ? read_model(r, found, err)
                      : read_parameters(r, keys[which], found, which == 1, err);
}

/* ---- what is known of them --------------------------------------------------------------------
 */

static sw_status no_such(const reading *r, swi_yaml_node node, const char *name, sw_error *err)
{
    swi_nearest near = swi_nearest_begin(name, strlen(name));
    swi_quoted p, q;
    for (size_t i = 0; i < r->out->count; i++)
        swi_nearest_offer(&near, r->out->items[i].name);
    return swi_yaml_fail(r->doc, node, err, SW_ERR_NOTFOUND, "SHP-8", "\"%s\" is not there%s%s%s",
                         swi_quote_str(&p, name), near.found != NULL ? "; did you mean \"" : "",
                         near.found != NULL ? swi_quote_str(&q, near.found) : "",
                         near.found != NULL ? "\"?" : "");
}

/* The other name is in the list too: it must be able to be the same tensor. */
static sw_status tie_known(reading *r, swi_yaml_node node, int64_t alias, int64_t owner,
                           sw_error *err)
{
    swi_shape *a = &r->out->items[alias];
    const swi_shape *o = &r->out->items[owner];
    swi_quoted p, q;
    if (alias <= owner)
        return swi_yaml_fail(r->doc, node, err, SW_ERR_CONFLICT, "SHP-8",
                             "\"%s\" %s \"%s\"; of those that are tied the first is the one, the "
                             "others are its other names",
                             swi_quote_str(&p, a->name), alias == owner ? "is" : "comes before",
                             swi_quote_str(&q, o->name));
    if (a->axes != o->axes || memcmp(a->shape, o->shape, a->axes * sizeof *a->shape) != 0)
        return swi_yaml_fail(r->doc, node, err, SW_ERR_CONFLICT, "SHP-8",
                             "\"%s\" and \"%s\" have not the same sizes",
                             swi_quote_str(&p, a->name), swi_quote_str(&q, o->name));
    if (a->tied_to >= 0 && a->tied_to != owner)
        return swi_yaml_fail(r->doc, node, err, SW_ERR_CONFLICT, "SHP-8",
                             "\"%s\" is another name of \"%s\" already", swi_quote_str(&p, a->name),
                             swi_quote_str(&q, r->out->items[a->tied_to].name));
    a->tied_to = owner;
    return SW_OK;
}

static sw_status read_tie(reading *r, swi_yaml_node key, swi_yaml_node value, sw_error *err)
{
    const char *name;
    sw_error cause = {0};
    swi_quoted p, q;
    sw_status st = read_name(r, value, "the value of a tie", &name, err);
    if (st != SW_OK)
        return st;
    const int64_t owner = swi_shapes_find(r->out, name);
    if (owner < 0)
        return no_such(r, value, name, err);
    swi_shape shape = r->out->items[owner];
    if (shape.tied_to >= 0)
        return swi_yaml_fail(r->doc, value, err, SW_ERR_CONFLICT, "SHP-8",
                             "\"%s\" is another name itself, of \"%s\"",
                             swi_quote_str(&p, shape.name),
                             swi_quote_str(&q, r->out->items[shape.tied_to].name));
    st = read_name(r, key, "a name", &name, err);
    if (st != SW_OK)
        return st;
    const int64_t alias = swi_shapes_find(r->out, name);
    if (alias >= 0)
        return tie_known(r, key, alias, owner, err);
    shape.name = name;
    shape.tied_to = owner;
    return at_place(r, key, swi_shapes_add(r->out, &shape, &cause), &cause, err);
}

static sw_status read_ties(reading *r, sw_error *err)
{
    swi_yaml_node ties = swi_yaml_find(r->doc, r->root, "ties"), key, value;
    if (!swi_yaml_is_node(ties))
        return SW_OK;
    sw_status st = swi_yaml_expect(r->doc, ties, SWI_YAML_MAPPING, "ties", err);
    const size_t count = st == SW_OK ? swi_yaml_count(r->doc, ties) : 0;
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        swi_yaml_pair(r->doc, ties, i, &key, &value);
        st = read_tie(r, key, value, err);
    }
    if (st == SW_OK)
        swi_shapes_settle_ties(r->out);
    return st;
}

static sw_status read_patterns(const reading *r, const char *key, swi_yaml_list *out, sw_error *err)
{
    sw_status st = swi_yaml_get_list(r->doc, r->root, key, out, err);
    if (st == SW_OK && out->count > PATTERNS_MAX)
        st = swi_yaml_fail(r->doc, swi_yaml_find(r->doc, r->root, key), err, SW_ERR_LIMIT, "SHP-9",
                           "%s has %zu patterns; at most %d are read", key, out->count,
                           PATTERNS_MAX);
    return st;
}

static sw_status read_pattern(const reading *r, swi_yaml_node node, swi_pattern **out,
                              sw_error *err)
{
    size_t size;
    const char *text = swi_yaml_text(r->doc, node, &size);
    sw_status st = swi_pattern_parse(text, size, out, err);
    return swi_yaml_fail_inside(r->doc, node, st, err);
}

static sw_status mark_buffers(reading *r, swi_yaml_node node, sw_error *err)
{
    swi_pattern *pattern = NULL;
    bool met = false;
    swi_quoted q;
    sw_status st = read_pattern(r, node, &pattern, err);
    for (size_t i = 0; st == SW_OK && i < r->out->count; i++) {
        swi_shape *s = &r->out->items[i];
        if (!swi_pattern_match(pattern, s->name, strlen(s->name), NULL))
            continue;
        met = s->buffer = true;
        s->may_be = false;
    }
    swi_pattern_free(pattern);
    if (st == SW_OK && !met)
        st =
            swi_yaml_fail(r->doc, node, err, SW_ERR_NOTFOUND, "SHP-9", "no tensor is called \"%s\"",
                          swi_quote_str(&q, swi_yaml_text(r->doc, node, NULL)));
    return st;
}

static sw_status read_buffers(reading *r, sw_error *err)
{
    swi_yaml_list list;
    sw_status st = read_patterns(r, "buffers", &list, err);
    for (size_t i = 0; st == SW_OK && i < list.count; i++)
        st = mark_buffers(r, list.items[i], err);
    return st;
}

/* An empty list says that the root alone is wrapped. */
static sw_status read_units(reading *r, sw_error *err)
{
    swi_shapes *s = r->out;
    swi_yaml_node node = swi_yaml_find(r->doc, r->root, "units");
    swi_yaml_list list = {0};
    swi_pattern **units;
    s->has_units = swi_yaml_is_node(node);
    if (!s->has_units ||
        (swi_yaml_kind_of(r->doc, node) == SWI_YAML_SEQUENCE && swi_yaml_count(r->doc, node) == 0))
        return SW_OK;
    sw_status st = read_patterns(r, "units", &list, err);
    if (st == SW_OK)
        st = swi_arena_alloc(&s->arena, list.count * sizeof *units, (void **)&units, err);
    if (st != SW_OK)
        return st;
    s->units = units;
    for (size_t i = 0; st == SW_OK && i < list.count; i++) {
        st = read_pattern(r, list.items[i], &units[i], err);
        s->unit_count += st == SW_OK;
    }
    return st;
}

static sw_status read_how(reading *r, sw_error *err)
{
    swi_yaml_node align = swi_yaml_find(r->doc, r->root, "align");
    bool original = false;
    uint64_t elements = 0;
    sw_status st = swi_yaml_get_bool(r->doc, r->root, "use_orig_params", &original, err);
    if (st == SW_OK && swi_yaml_is_node(swi_yaml_find(r->doc, r->root, "use_orig_params")))
        r->out->use_orig_params = original;
    if (st == SW_OK)
        st = swi_yaml_get_uint(r->doc, r->root, "align", &elements, err);
    if (st != SW_OK || !swi_yaml_is_node(align))
        return st;
    if (elements < 1 || elements > ALIGN_MAX)
        return swi_yaml_fail(r->doc, align, err, SW_ERR_FORMAT, "SHP-9",
                             "align is a number of elements from 1 to %d", ALIGN_MAX);
    r->out->align = (uint32_t)elements;
    return SW_OK;
}

/* ---- documents --------------------------------------------------------------------------------
 */

static sw_status read_version(const reading *r, sw_error *err)
{
    static const char *const known[] = {"shapes",  "parameters", "tensors",         "model", "ties",
                                        "buffers", "units",      "use_orig_params", "align", NULL};
    swi_yaml_node node;
    uint64_t version = 0;
    sw_status st = swi_yaml_known_keys(r->doc, r->root, "a document of shapes", known, err);
    if (st == SW_OK)
        st = swi_yaml_require(r->doc, r->root, "a document of shapes", "shapes", &node, err);
    if (st == SW_OK)
        st = swi_yaml_uint(r->doc, node, "shapes", &version, err);
    if (st == SW_OK && version != 1)
        st = swi_yaml_fail(r->doc, node, err, SW_ERR_UNSUPPORTED, "SHP-5",
                           "this is version 1 of documents of shapes: shapes: 1");
    return st;
}

static sw_status read_document(reading *r, sw_error *err)
{
    sw_status st = read_version(r, err);
    if (st == SW_OK)
        st = read_items(r, err);
    if (st == SW_OK)
        st = swi_shapes_text(r->out, swi_yaml_file(r->doc), &r->out->from, err);
    if (st == SW_OK)
        st = read_ties(r, err);
    if (st == SW_OK)
        st = read_buffers(r, err);
    if (st == SW_OK)
        st = read_units(r, err);
    return st == SW_OK ? read_how(r, err) : st;
}

sw_status swi_shapes_parse(const void *data, size_t size, const char *file,
                           const swi_shapes_ask *ask, swi_shapes **out, sw_error *err)
{
    swi_yaml *doc = NULL;
    sw_status st = swi_yaml_parse(data, size, file, ask->limits, &doc, err);
    if (st != SW_OK)
        return st;
    reading r = {.doc = doc, .root = swi_yaml_root(doc), .file = file, .ask = ask};
    st = read_document(&r, err);
    if (st == SW_OK)
        *out = r.out;
    else
        swi_shapes_free(r.out);
    swi_buf_free(&r.name);
    swi_yaml_free(doc);
    return st;
}
