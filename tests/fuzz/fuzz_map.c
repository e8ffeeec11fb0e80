/*
 * Maps. An input that begins with '~' makes the choices of a random map
 * (convert/map/map_round.h), mapped between all pairs of its sides. Any other is the text of a
 * map: what is taken becomes a model, refused in words with a place, or with sides that are one
 * when they are mapped there and back.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cursor.h"
#include "shardwright_convert.h"

#define MODEL_SHOW(buf) ((void)(buf))
#define MODEL_FAIL(text) (fprintf(stderr, "%s\n", (text)), __builtin_trap())
#include "convert/map/map_round.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- any checkpoint, for what a mapping wants of its source beside tensors ---------------------
 */

static char folder[64];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void remove_folder(void)
{
    (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const sw_checkpoint *base_checkpoint(void)
{
    static const char header[] = "{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    static sw_checkpoint *base;
    char path[96];
    const uint8_t size[8] = {sizeof header - 1};
    if (base != NULL)
        return base;
    (void)snprintf(folder, sizeof folder, "/tmp/fuzz_map.XXXXXX");
    if (mkdtemp(folder) == NULL)
        abort();
    (void)atexit(remove_folder);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *f = fopen(path, "wb");
    MODEL_PROMISE(f != NULL);
    fwrite(size, 1, 8, f);
    fwrite(header, 1, sizeof header - 1, f);
    fputc(7, f);
    fclose(f);
    MODEL_PROMISE(sw_checkpoint_open(folder, NULL, NULL, &base, NULL) == SW_OK);
    return base;
}

/* ---- random maps -------------------------------------------------------------------------------
 */

/* The end of the input is all zeros. */
static uint64_t choose(void *ctx, uint64_t below)
{
    uint8_t v = 0;
    (void)swi_get_u8(ctx, &v);
    return v % below;
}

/* ---- texts -------------------------------------------------------------------------------------
 */

static const char config_text[] =
    "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"intermediate_size\":4,\"vocab_size\":6,\"num_hidden_layers\":2,"
    "\"n\":2,\"h\":3,\"t\":true,\"f\":false,\"l\":[2,3]}";

static bool read_config(swi_model_config *out)
{
    const size_t size = sizeof config_text - 1;
    *out = (swi_model_config){.size = size, .file = "config.json", .key = "config.json"};
    out->text = malloc(size);
    MODEL_PROMISE(out->text != NULL);
    memcpy(out->text, config_text, size);
    return swi_json_parse(out->text, size, NULL, &out->graph, &out->root, NULL) == SW_OK;
}

static void check_error(const sw_error *err)
{
    MODEL_PROMISE(err->status == SW_ERR_NOMEM || strncmp(err->text, "m.yaml", 6) == 0 ||
                  err->status == SW_ERR_LIMIT);
}

/* Few enough tensors and elements to look at each, and none of them tied. */
static bool is_small(const swi_model *m)
{
    uint64_t all = 0;
    if (swi_model_atom_count(m) > 64)
        return false;
    for (uint32_t a = 0; a < swi_model_atom_count(m); a++)
        if (m->atoms[a].ring != a || m->map->rules[m->atoms[a].rule].dtype != SW_DTYPE_NONE)
            return false;
    for (size_t s = 0; s < swi_model_side_count(m); s++) {
        for (size_t i = 0; i < swi_model_tensor_count(m, s); i++) {
            swi_model_tensor t;
            uint64_t elements;
            MODEL_PROMISE(swi_model_tensor_at(m, s, i, &t));
            if (!swi_shape_elements(t.axes, t.shape, &elements) || elements > MODEL_ELEMENTS_MAX)
                return false;
            all += elements;
        }
    }
    return all <= 4 * MODEL_ELEMENTS_MAX;
}

/* Elements of a tensor of a side, numbered; what pads it is zero. */
static array number(const swi_side_tensor *t, uint64_t *next)
{
    array a = array_make(t->axes, t->shape);
    int64_t index[SW_MAX_AXES] = {0};
    for (size_t e = 0; e < a.count; e++) {
        bool inside = true;
        array_index(&a, e, index);
        for (uint32_t k = 0; k < t->axes; k++)
            inside = inside && index[k] < t->bare[k];
        a.v[e] = inside ? (*next)++ : MODEL_PAD;
    }
    return a;
}

static bool none_is_lost(const swi_model *m, size_t from, size_t to)
{
    for (uint32_t a = 0; a < swi_model_atom_count(m); a++)
        if (swi_side_has(&m->sides[from], a) != swi_side_has(&m->sides[to], a))
            return false;
    return true;
}

static void try_pair(const swi_model *m, size_t from, size_t to)
{
    static program p;
    const char *names[PROGRAM_TENSORS];
    array arrays[PROGRAM_TENSORS];
    swi_shaped shaped[PROGRAM_TENSORS];
    swi_named named[PROGRAM_TENSORS];
    swi_mapped_list list = {0}, back = {0};
    sw_checkpoint *source = NULL, *made = NULL, *again = NULL;
    const size_t count = swi_model_tensor_count(m, from);
    swi_cursor no_choice = swi_cursor_make((const uint8_t *)"", 0);
    uint64_t next = 0;
    sw_error err = {0};
    if (count > PROGRAM_TENSORS || swi_model_tensor_count(m, to) > PROGRAM_TENSORS)
        return;
    model_make(&p.m, choose, &no_choice);
    p.m.dtype = SW_F32;
    p.m.element_bytes = 4;
    for (size_t i = 0; i < count; i++) {
        names[i] = swi_names_at(m->sides[from].names, (uint32_t)i, NULL);
        arrays[i] = number(&m->sides[from].tensors[i], &next);
        shaped[i] = lay_out(&p.m, &arrays[i]);
        named[i] = (swi_named){.name = names[i], .tensor = (uint32_t)i};
    }
    sw_catalog *catalog = catalog_of(&p.m, names, shaped, count);
    MODEL_PROMISE(swi_checkpoint_derive(base_checkpoint(), catalog, &source, NULL) == SW_OK);
    sw_status st = map_to(m, from, to, source, named, count, &list, &made, &err);
    const bool whole = none_is_lost(m, from, to);
    MODEL_PROMISE(st == SW_OK || !whole || !m->sides[to].able || st == SW_ERR_LIMIT);
    for (size_t i = 0; st == SW_OK && i < list.count; i++)
        named[i] = (swi_named){.name = list.items[i].name, .tensor = list.items[i].tensor};
    if (st == SW_OK && whole) {
        st = map_to(m, to, from, made, named, list.count, &back, &again, &err);
        MODEL_PROMISE(st == SW_ERR_LIMIT || (st == SW_OK && back.count == count));
        for (size_t i = 0; st == SW_OK && i < count; i++)
            assert_array(&p.m, sw_checkpoint_catalog(again), back.items[i].tensor, &arrays[i]);
    }
    free(list.items);
    free(back.items);
    sw_checkpoint_close(again);
    sw_checkpoint_close(made);
    sw_checkpoint_close(source);
    for (size_t i = 0; i < count; i++) {
        swi_shaped_free(&shaped[i]);
        free(arrays[i].v);
    }
    model_free(&p.m);
}

static void write_config(const swi_model *m, size_t side)
{
    swi_buf out = {0};
    sw_value_graph *graph = NULL;
    sw_value root;
    if (swi_model_write_config(m, side, NULL, &out, NULL) == SW_OK)
        MODEL_PROMISE(swi_json_parse(out.data, out.size, NULL, &graph, &root, NULL) == SW_OK);
    sw_value_graph_free(graph);
    swi_buf_free(&out);
}

static void try_text(const uint8_t *data, size_t size)
{
    static const sw_limits few = {.tensors = 4096};
    swi_map *map = NULL;
    swi_model *m = NULL;
    swi_model_config config;
    sw_error err = {0};
    if (swi_map_parse(data, size, "m.yaml", NULL, &map, &err) != SW_OK) {
        check_error(&err);
        return;
    }
    MODEL_PROMISE(read_config(&config));
    if (swi_model_make(map, &config, 0, &few, &m, &err) != SW_OK) {
        check_error(&err);
        return;
    }
    const bool small = is_small(m);
    for (size_t s = 0; s < swi_model_side_count(m); s++) {
        write_config(m, s);
        for (size_t t = 0; small && t < swi_model_side_count(m); t++)
            try_pair(m, s, t);
    }
    swi_model_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == '~') {
        swi_cursor cursor = swi_cursor_make(data + 1, size - 1);
        run_program(base_checkpoint(), choose, &cursor, 1);
    } else {
        try_text(data, size);
    }
    return 0;
}
