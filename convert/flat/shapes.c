#include "flat/shapes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/sniff.h"
#include "base/text.h"
#include "codec/yaml.h"
#include "container/torch_file.h"
#include "flat/shapes_parts.h"
#include "framework.h"
#include "io/store.h"
#include "map/model.h"
#include "model/piece.h"

/* ---- the list ---------------------------------------------------------------------------------
 */

sw_status swi_shapes_text(swi_shapes *s, const char *text, const char **out, sw_error *err)
{
    return swi_arena_text(&s->arena, text, strlen(text), out, err);
}

sw_status swi_shapes_make(const char *from, swi_shapes **out, sw_error *err)
{
    swi_shapes *s = NULL;
    swi_quoted q;
    sw_status st = swi_alloc_array(1, sizeof *s, (void **)&s, err);
    if (st != SW_OK)
        return st;
    *s = (swi_shapes){.ordered = true, .unordered = "", .use_orig_params = -1};
    st = swi_names_make(&s->names, err);
    if (st == SW_OK)
        st = swi_shapes_text(s, swi_quote_str(&q, from), &s->from, err);
    if (st == SW_OK)
        *out = s;
    else
        swi_shapes_free(s);
    return st;
}

void swi_shapes_free(swi_shapes *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->unit_count; i++)
        swi_pattern_free(s->units[i]);
    free(s->items);
    swi_names_free(s->names);
    swi_arena_free(&s->arena);
    free(s);
}

sw_status swi_shapes_add(swi_shapes *s, const swi_shape *item, sw_error *err)
{
    uint64_t elements;
    uint32_t id;
    bool is_new;
    swi_quoted q;
    if (!swi_shape_elements(item->axes, item->shape, &elements))
        return swi_fail(err, SW_ERR_LIMIT, "\"%s\" has more elements than can be counted",
                        swi_quote_str(&q, item->name));
    sw_status st =
        swi_grow_array((void **)&s->items, &s->capacity, s->count + 1, sizeof *s->items, err);
    if (st == SW_OK)
        st = swi_names_add(s->names, item->name, strlen(item->name), &id, &is_new, err);
    if (st == SW_OK && !is_new)
        st = swi_fail(err, SW_ERR_CONFLICT, "\"%s\" is there twice", swi_quote_str(&q, item->name));
    if (st != SW_OK)
        return st;
    s->items[id] = *item;
    s->items[id].name = swi_names_at(s->names, id, NULL);
    s->count = (size_t)id + 1;
    return SW_OK;
}

int64_t swi_shapes_find(const swi_shapes *s, const char *name)
{
    return swi_names_find(s->names, name, strlen(name));
}

/* The one that all those tied to it are other names of. */
static int64_t first_of(const swi_shapes *s, int64_t i)
{
    while (s->items[i].tied_to >= 0)
        i = s->items[i].tied_to;
    return i;
}

void swi_shapes_tie(swi_shapes *s, int64_t a, int64_t b)
{
    a = first_of(s, a);
    b = first_of(s, b);
    if (a != b)
        s->items[a > b ? a : b].tied_to = a > b ? b : a;
}

void swi_shapes_settle_ties(swi_shapes *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const int64_t to = s->items[i].tied_to;
        if (to >= 0 && s->items[to].tied_to >= 0)
            s->items[i].tied_to = s->items[to].tied_to;
    }
}

/* ---- of a model -------------------------------------------------------------------------------
 */

static sw_status add_model(swi_shapes *s, const swi_model *model, size_t side, sw_error *err)
{
    swi_model_tensor t;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && swi_model_tensor_at(model, side, i, &t); i++) {
        swi_shape item = {.name = t.name,
                          .axes = t.axes,
                          .buffer = t.buffer || t.constant,
                          .may_be = t.optional,
                          .tied_to = -1};
        memcpy(item.shape, t.shape, sizeof item.shape);
        st = swi_shapes_add(s, &item, err);
    }
    for (size_t i = 0; st == SW_OK && swi_model_tensor_at(model, side, i, &t); i++) {
        const int64_t to = t.tied_to != NULL ? swi_shapes_find(s, t.tied_to) : -1;
        if (to >= 0)
            swi_shapes_tie(s, (int64_t)i, to); /* a map may tie it to one behind it */
    }
    for (size_t i = 0; st == SW_OK && i < swi_model_copy_count(model, side); i++) {
        if (!swi_model_copy_at(model, side, i, &t))
            continue;
        swi_shape item = {.name = t.name, .axes = t.axes, .tied_to = swi_shapes_find(s, t.tied_to)};
        memcpy(item.shape, t.shape, sizeof item.shape);
        st = swi_shapes_add(s, &item, err);
    }
    swi_shapes_settle_ties(s);
    return st;
}

static sw_status of_model(const swi_model *model, size_t side, const char *from, swi_shapes **out,
                          sw_error *err)
{
    swi_shapes *s = NULL;
    swi_buf text = {0};
    sw_status st = swi_buf_printf(&text, err, "%s%sthe map %s", from, from[0] != '\0' ? " by " : "",
                                  swi_model_name(model));
    if (st == SW_OK)
        st = swi_buf_u8(&text, 0, err);
    if (st == SW_OK)
        st = swi_shapes_make((const char *)text.data, &s, err);
    if (st == SW_OK)
        st = add_model(s, model, side, err);
    swi_buf_free(&text);
    if (st == SW_OK)
        *out = s;
    else
        swi_shapes_free(s);
    return st;
}

sw_status swi_shapes_of_model(const swi_model *model, size_t side, swi_shapes **out, sw_error *err)
{
    return of_model(model, side, "", out, err);
}

/* ---- what a path is ---------------------------------------------------------------------------
 */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool lies_in(const char *folder, const char *name, bool *out, sw_error *err)
{
    swi_buf path = {0};
    struct stat found;
    sw_status st = swi_buf_printf(&path, err, "%s/%s", folder, name);
    if (st == SW_OK)
        st = swi_buf_u8(&path, 0, err);
    *out = st == SW_OK && stat((const char *)path.data, &found) == 0;
    swi_buf_free(&path);
    return st == SW_OK;
}

/* The side that is configured by such a file; where none tells, the first. */
static sw_status side_of(const swi_model *model, const char *path, bool folder, size_t *out,
                         sw_error *err)
{
    *out = 0;
    for (size_t i = 0; i < swi_model_side_count(model); i++) {
        const char *name = swi_model_config_name(model, i);
        bool is = name != NULL && strcmp(base_name(path), name) == 0;
        if (folder && name != NULL && !lies_in(path, name, &is, err))
            return SW_ERR_NOMEM;
        if (is) {
            *out = i;
            return SW_OK;
        }
    }
    return SW_OK;
}

static sw_status read_config(const char *path, bool folder, const swi_shapes_ask *ask,
                             swi_shapes **out, sw_error *err)
{
    const swi_model_ask wanted = {
        .map = ask->map, .config = path, .config_by = "", .limits = ask->limits};
    swi_model *model = NULL;
    size_t side = 0;
    sw_status st = swi_model_find(&wanted, &model, err);
    if (st == SW_OK)
        st = side_of(model, path, folder, &side, err);
    if (st == SW_OK)
        st = of_model(model, side, path, out, err);
    swi_model_free(model);
    return st;
}

static sw_status read_checkpoint(const char *path, const swi_shapes_ask *ask, swi_shapes **out,
                                 sw_error *err)
{
    const sw_open_options options = {.limits = ask->limits};
    sw_checkpoint *checkpoint = NULL;
    sw_status st = sw_checkpoint_open(path, &options, NULL, &checkpoint, err);
    if (st == SW_OK)
        st = swi_shapes_of_checkpoint(checkpoint, path, out, err);
    sw_checkpoint_close(checkpoint);
    return st;
}

/* SHP-2: a configuration knows more than the weights beside it, if there is a map for it. */
static sw_status read_folder(const char *path, const swi_shapes_ask *ask, swi_shapes **out,
                             sw_error *err)
{
    sw_error no_model = {0}, no_weights = {0};
    sw_status st = read_config(path, true, ask, out, &no_model);
    if (st == SW_ERR_NOTFOUND) {
        st = read_checkpoint(path, ask, out, &no_weights);
        if (st == SW_ERR_FORMAT || st == SW_ERR_NOTFOUND)
            st = no_model.status; /* no weights either */
        else
            no_model = no_weights;
    }
    if (st != SW_OK && err != NULL)
        *err = no_model;
    return st;
}

static sw_status read_yaml(const char *path, const swi_shapes_ask *ask, swi_shapes **out,
                           sw_error *err)
{
    uint8_t *data = NULL;
    size_t size = 0;
    sw_status st = swi_read_file(path, SWI_YAML_MAX_BYTES, &data, &size, err);
    if (st == SW_OK)
        st = swi_shapes_parse(data, size, path, ask, out, err);
    free(data);
    return st;
}

/* '{' and then a quote or the end, with blanks between. */
static bool looks_like_json(const uint8_t *head, size_t size)
{
    static const char blanks[] = " \t\r\n";
    size_t i = 0;
    while (i < size && head[i] != '\0' && strchr(blanks, head[i]) != NULL)
        i++;
    if (i == size || head[i++] != '{')
        return false;
    while (i < size && head[i] != '\0' && strchr(blanks, head[i]) != NULL)
        i++;
    return i < size && (head[i] == '"' || head[i] == '}');
}

typedef enum kind { NOTHING, DOCUMENT, CONFIG, CHECKPOINT } kind;

/* SHP-1: by name where that tells, else by the first bytes; *what: what else it looks like. */
static kind kind_of(const char *name, const uint8_t *head, size_t size, const char **what)
{
    static const char *const weights[] = {".safetensors", ".index.json", ".distcp", ".metadata"};
    *what = swi_sniff(head, size);
    if (swi_has_suffix(name, ".yaml") || swi_has_suffix(name, ".yml"))
        return DOCUMENT;
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
        if (swi_has_suffix(name, weights[i]))
            return CHECKPOINT;
    if (swi_torch_looks(head, size) != SWI_TORCH_NONE)
        return CHECKPOINT;
    if (swi_has_suffix(name, ".json") || looks_like_json(head, size))
        return CONFIG;
    if (*what != NULL || size - swi_utf8_prefix(head, size) > 3 || memchr(head, 0, size) != NULL)
        return NOTHING;
    return DOCUMENT;
}

static sw_status read_file(const char *path, const swi_shapes_ask *ask, swi_shapes **out,
                           sw_error *err)
{
    swi_store *store = NULL;
    uint8_t head[SWI_TORCH_HEAD];
    size_t size = 0;
    const char *what = NULL;
    swi_quoted q;
    sw_status st = swi_store_open_posix(path, &store, err);
    if (st == SW_OK)
        st = swi_store_head(store, base_name(path), head, sizeof head, &size, err);
    swi_store_close(store);
    if (st != SW_OK)
        return st;
    switch (kind_of(base_name(path), head, size, &what)) {
    case DOCUMENT:
        if (!ask->alone)
            return read_yaml(path, ask, out, err);
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "%s: is a document of shapes itself; name a state dict or a configuration",
                        swi_quote_str(&q, path));
    case CONFIG:
        return read_config(path, false, ask, out, err);
    case CHECKPOINT:
        return read_checkpoint(path, ask, out, err);
    default:
        return swi_fail(err, SW_ERR_ARG,
                        "%s: %s%s; shapes come from a state dict of torch.save, a model's "
                        "configuration (config.json) or a YAML document (shapes: 1)",
                        swi_quote_str(&q, path), what != NULL ? "is " : "is nothing known here",
                        what != NULL ? what : "");
    }
}

sw_status swi_shapes_source(const char *path, const swi_shapes_ask *ask, swi_shapes **out,
                            sw_error *err)
{
    struct stat found;
    if (stat(path, &found) == 0 && S_ISDIR(found.st_mode))
        return read_folder(path, ask, out, err);
    return read_file(path, ask, out, err);
}

sw_status swi_shapes_read(const char *path, const char *map, const sw_limits *limits,
                          swi_shapes **out, sw_error *err)
{
    const swi_shapes_ask ask = {.map = map, .limits = limits};
    sw_status st = swi_shapes_source(path, &ask, out, err);
    if (st != SW_OK)
        (void)swi_error_prefix(err, "--shapes");
    return st;
}
