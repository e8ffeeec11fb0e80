/* Which map, and which configuration: what the caller names, else what lies there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/text.h"
#include "codec/json.h"
#include "io/store.h"
#include "map/embedded.h"
#include "map/model_parts.h"

#define CONFIG_MAX (UINT64_C(16) << 20)

typedef struct finding {
    const swi_model_ask *ask;
    sw_limits limits;
    swi_map **maps; /* to choose from */
    size_t count;
    swi_model_config config;
} finding;

/* ---- maps -------------------------------------------------------------------------------------
 */

static sw_status parse_embedded(finding *f, size_t i, sw_error *err)
{
    const char *name;
    const void *data;
    size_t size;
    char file[96];
    swi_map *map;
    if (!swi_embedded_map_at(i, &name, &data, &size))
        return swi_fail(err, SW_ERR_ARG, "no such map");
    snprintf(file, sizeof file, "map %s", name);
    sw_status st = swi_map_parse(data, size, file, &f->limits, &map, err);
    if (st == SW_OK)
        f->maps[f->count++] = map;
    return st;
}

static sw_status parse_file(finding *f, const char *path, sw_error *err)
{
    uint8_t *data = NULL;
    size_t size;
    sw_status st = swi_read_file(path, SWI_YAML_MAX_BYTES, &data, &size, err);
    if (st != SW_OK)
        return swi_error_prefix(err, "--map");
    st = swi_map_parse(data, size, path, &f->limits, &f->maps[f->count], err);
    f->count += st == SW_OK;
    free(data);
    return st;
}

/* The name of an embedded map has neither a dot nor a slash; anything else is a path. */
static sw_status find_maps(finding *f, sw_error *err)
{
    const size_t embedded = swi_embedded_map_count();
    const char *asked = f->ask->map, *name;
    const void *data;
    size_t size;
    sw_status st = swi_alloc_array(embedded + 1, sizeof *f->maps, (void **)&f->maps, err);
    if (st == SW_OK && asked != NULL && strpbrk(asked, "./") != NULL)
        return parse_file(f, asked, err);
    for (size_t i = 0; st == SW_OK && swi_embedded_map_at(i, &name, &data, &size); i++)
        if (asked == NULL || strcmp(asked, name) == 0)
            st = parse_embedded(f, i, err);
    if (st != SW_OK || f->count > 0)
        return st;
    swi_buf list = {0};
    for (size_t i = 0; st == SW_OK && swi_embedded_map_at(i, &name, &data, &size); i++)
        st = swi_buf_printf(&list, err, "%s%s", i > 0 ? ", " : "", name);
    swi_quoted q;
    if (st == SW_OK)
        st = swi_fail(err, SW_ERR_ARG,
                      "--map %s: no map is called so; there are %.*s, or give a file",
                      swi_quote_str(&q, asked ? asked : ""), (int)list.size,
                      list.data ? (const char *)list.data : "");
    swi_buf_free(&list);
    return st;
}

/* ---- configurations ---------------------------------------------------------------------------
 */

/* `data` is the configuration's from then on. */
static sw_status take_config(finding *f, uint8_t *data, size_t size, const char *file,
                             const char *key, sw_error *err)
{
    f->config.text = data;
    f->config.size = size;
    sw_status st = swi_json_parse(data, size, &f->limits, &f->config.graph, &f->config.root, err);
    if (st == SW_OK && sw_value_get_kind(f->config.graph, f->config.root) != SW_VALUE_DICT)
        st = swi_fail(err, SW_ERR_FORMAT, "is no JSON object");
    swi_quoted q;
    if (st != SW_OK)
        return swi_error_prefix(err, "%s", swi_quote_str(&q, file));
    snprintf(f->config.file, sizeof f->config.file, "%s", swi_quote_str(&q, file));
    snprintf(f->config.key, sizeof f->config.key, "%s", key);
    return SW_OK;
}

static sw_status try_file(finding *f, const swi_store *store, const char *name, sw_error *err)
{
    uint8_t *data = NULL;
    size_t size;
    sw_error cause = {0};
    sw_status st = swi_store_read_all(store, name, CONFIG_MAX, &data, &size, &cause);
    if (st == SW_ERR_NOTFOUND || (st == SW_ERR_IO && cause.sys_errno == ENOENT))
        return SW_OK;
    if (st == SW_OK)
        return take_config(f, data, size, name, name, err);
    if (err != NULL)
        *err = cause;
    return st;
}

/* The configuration file of a side: of the sides in their order, the first that is there. */
static sw_status try_folder(finding *f, const swi_store *store, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; i < f->count; i++) {
        for (uint32_t k = 0; k < f->maps[i]->side_count; k++) {
            const swi_map_side *s = &f->maps[i]->sides[k];
            if (s->config == NULL)
                continue;
            st = try_file(f, store, s->config, err);
            if (st != SW_OK || f->config.graph != NULL)
                return st;
        }
    }
    return st;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static sw_status given_folder(finding *f, const char *path, sw_error *err)
{
    swi_store *store = NULL;
    swi_quoted q;
    sw_status st = swi_store_open_posix(path, &store, err);
    if (st == SW_OK)
        st = try_folder(f, store, err);
    swi_store_close(store);
    if (st == SW_OK && f->config.graph == NULL)
        return swi_fail(err, SW_ERR_NOTFOUND, "%s: no configuration (config.json) lies there",
                        swi_quote_str(&q, path));
    return st;
}

/* A file may be called anything. */
static sw_status given_config(finding *f, const char *path, sw_error *err)
{
    struct stat found;
    uint8_t *data;
    size_t size;
    sw_status st;
    if (stat(path, &found) == 0 && S_ISDIR(found.st_mode)) {
        st = given_folder(f, path, err);
    } else {
        st = swi_read_file(path, CONFIG_MAX, &data, &size, err);
        if (st == SW_OK)
            st = take_config(f, data, size, path, base_name(path), err);
    }
    const char *by = f->ask->config_by != NULL ? f->ask->config_by : "--config";
    return st == SW_OK || by[0] == '\0' ? st : swi_error_prefix(err, "%s", by);
}

static sw_status find_config(finding *f, sw_error *err)
{
    if (f->ask->config != NULL)
        return given_config(f, f->ask->config, err);
    sw_status st = SW_OK;
    if (f->ask->store2 != NULL)
        st = try_folder(f, f->ask->store2, err);
    if (st == SW_OK && f->config.graph == NULL && f->ask->store != NULL)
        st = try_folder(f, f->ask->store, err);
    return st;
}

/* ---- choosing ---------------------------------------------------------------------------------
 */

/* The side whose configuration it is, or SIZE_MAX. */
static size_t side_of_config(const finding *f, const swi_map *map)
{
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < map->side_count; i++) {
        const swi_map_side *s = &map->sides[i];
        if (s->config == NULL || strcmp(s->config, f->config.key) != 0)
            continue;
        if (found == SIZE_MAX || (f->ask->side != NULL && strcmp(s->name, f->ask->side) == 0))
            found = i;
    }
    return found;
}

static bool has_side(const swi_map *map, const char *name)
{
    for (size_t i = 0; i < map->side_count; i++)
        if (strcmp(map->sides[i].name, name) == 0)
            return true;
    return false;
}

static bool fits(const finding *f, const swi_map *map, const char *type, size_t type_size)
{
    if (f->ask->side != NULL && !has_side(map, f->ask->side))
        return false;
    if (type == NULL)
        return side_of_config(f, map) != SIZE_MAX;
    for (size_t i = 0; i < map->model_count; i++)
        if (strlen(map->models[i]) == type_size && memcmp(map->models[i], type, type_size) == 0)
            return true;
    return false;
}

static sw_status none_fits(const finding *f, const char *type, size_t type_size, sw_error *err)
{
    swi_quoted q;
    if (f->config.graph == NULL)
        return swi_fail(err, SW_ERR_NOTFOUND,
                        "the model's configuration is needed and is nowhere: give the folder with "
                        "config.json with --assets or --config");
    if (type == NULL)
        return swi_fail(err, SW_ERR_NOTFOUND,
                        "%s does not say model_type; say which map it is for with --map",
                        f->config.file);
    return swi_fail(err, SW_ERR_NOTFOUND,
                    "%s: there is no map for model_type \"%s\"%s%s; give one with --map",
                    f->config.file, swi_quote(&q, type, type_size),
                    f->ask->side ? " that has a side " : "", f->ask->side ? f->ask->side : "");
}

/* MAP-13: by model_type; without it, it belongs to the side that is configured by such a file. */
static sw_status choose(const finding *f, size_t *out, sw_error *err)
{
    const uint8_t *type = NULL;
    size_t type_size = 0, found = SIZE_MAX;
    sw_value v;
    if (f->ask->map != NULL) {
        *out = 0;
        return SW_OK;
    }
    if (f->config.graph != NULL &&
        (!swi_value_get(f->config.graph, f->config.root, "model_type", &v) ||
         sw_value_get_kind(f->config.graph, v) != SW_VALUE_STR ||
         !sw_value_bytes(f->config.graph, v, &type, &type_size)))
        type = NULL;
    for (size_t i = 0; f->config.graph != NULL && i < f->count; i++) {
        if (!fits(f, f->maps[i], (const char *)type, type_size))
            continue;
        if (found != SIZE_MAX)
            return swi_fail(err, SW_ERR_CONFLICT,
                            "%s fits the maps %s and %s; choose one with --map", f->config.file,
                            f->maps[found]->name, f->maps[i]->name);
        found = i;
    }
    if (found == SIZE_MAX)
        return none_fits(f, (const char *)type, type_size, err);
    *out = found;
    return SW_OK;
}

/* Both of a tied pair are wanted, so they are not tied. */
static sw_status untie(finding *f, sw_error *err)
{
    static const char key[] = "tie_word_embeddings";
    sw_value pair[2] = {{0}, swi_value_of_bool(false)};
    if (!f->ask->untie || f->config.graph == NULL)
        return SW_OK;
    f->config.untied = true;
    sw_status st =
        swi_graph_text(f->config.graph, SW_VALUE_STR, key, sizeof key - 1, &pair[0], err);
    return st == SW_OK ? swi_graph_set_items(f->config.graph, f->config.root, pair, 1, err) : st;
}

sw_status swi_model_find(const swi_model_ask *ask, swi_model **out, sw_error *err)
{
    finding f = {.ask = ask, .limits = sw_limits_resolve(ask->limits)};
    size_t chosen = 0;
    sw_status st = find_maps(&f, err);
    if (st == SW_OK)
        st = find_config(&f, err);
    if (st == SW_OK)
        st = choose(&f, &chosen, err);
    if (st == SW_OK && ask->side != NULL && !has_side(f.maps[chosen], ask->side))
        st = swi_fail(err, SW_ERR_NOTFOUND, "map %s has no side %s", f.maps[chosen]->name,
                      ask->side);
    if (st == SW_OK)
        st = untie(&f, err);
    if (st == SW_OK) {
        swi_map *map = f.maps[chosen];
        const size_t side = side_of_config(&f, map);
        f.maps[chosen] = NULL;
        st = swi_model_make(map, &f.config, side, &f.limits, out, err);
    }
    for (size_t i = 0; i < f.count; i++)
        swi_map_free(f.maps[i]);
    free(f.maps);
    swi_model_config_free(&f.config);
    return st;
}
