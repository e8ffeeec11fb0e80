/*
 * Checkpoints of a side of a random map (map_program.h) that lie in their files in some way: mapped
 * to another side and back, every element is where it must be.
 *
 * The including file defines MODEL_FAIL(text), which does not return, and MODEL_SHOW(buf), which is
 * told the text of each map.
 */
#ifndef TESTS_CONVERT_MAP_MAP_ROUND_H
#define TESTS_CONVERT_MAP_MAP_ROUND_H

#include "base/report.h"
#include "codec/json.h"
#include "map/mapping.h"
#include "map/model_parts.h"

#include "convert/map/map_program.h"

/* ---- a checkpoint of a side ------------------------------------------------------------------
 */

static const swi_blob_ops program_blobs = {.kind = "program"};

/* Lays the array out in blobs of the model, in some way. */
static inline swi_shaped lay_out(model *m, const array *a)
{
    swi_shaped s = {.dtype = m->dtype, .axes = a->axes};
    const int64_t how = model_below(m, 6);
    memcpy(s.shape, a->shape, sizeof s.shape);
    s.replicas = how == 5;
    if (a->count == 0)
        return s;
    if (how == 0)
        model_flat(m, &s, a);
    else if (how == 1)
        model_columns_flat(m, &s, a);
    else if (how == 2)
        model_odd_view(m, &s, a);
    else
        model_grid(m, &s, a);
    return s;
}

static inline sw_catalog *catalog_of(model *m, const char *const *names, const swi_shaped *shaped,
                                     size_t count)
{
    swi_builder *b = NULL;
    sw_catalog *catalog = NULL;
    uint32_t file, id;
    MODEL_PROMISE(swi_builder_make(NULL, &b, NULL) == SW_OK);
    MODEL_PROMISE(swi_builder_file(b, "program", UINT64_MAX, &file, NULL) == SW_OK);
    for (uint32_t i = 0; i < m->blobs; i++) {
        const swi_blob blob = {.ops = &program_blobs,
                               .file = file,
                               .aux = i,
                               .offset_bytes = (uint64_t)i * MODEL_BLOB_BYTES_MAX,
                               .stored_bytes = MODEL_BLOB_BYTES_MAX,
                               .bytes = MODEL_BLOB_BYTES_MAX};
        MODEL_PROMISE(swi_builder_blob(b, &blob, &id, NULL) == SW_OK && id == i);
    }
    for (size_t i = 0; i < count; i++) {
        const swi_shaped_name name = {
            .name = names[i], .name_size = strlen(names[i]), .role = SW_ROLE_PARAMETER};
        MODEL_PROMISE(swi_shaped_put(b, &name, &shaped[i], &id, NULL) == SW_OK && id == i);
    }
    MODEL_PROMISE(swi_builder_freeze(b, NULL, &catalog, NULL) == SW_OK);
    return catalog;
}

/* ---- held against what must be ---------------------------------------------------------------
 */

/* What a constant blob stands for. */
static inline uint64_t constant_of(const sw_catalog *catalog, uint32_t id)
{
    swi_blob blob;
    swi_extent extent = {0};
    swi_catalog_blob(catalog, id, &blob);
    MODEL_PROMISE(blob.file == SWI_NO_FILE);
    const swi_blob_want want = {.dtype = SW_F32};
    MODEL_PROMISE(blob.ops->resolve(&blob, NULL, &want, &extent, NULL) == SW_OK);
    float v = 0;
    memcpy(&v, extent.pattern, sizeof v);
    MODEL_PROMISE(v == 0.0F || v == 1.5F);
    return v == 0.0F ? MODEL_PAD : PROGRAM_FILL;
}

typedef struct program_look {
    const model *m;
    const array *a;
    const swi_piece *p;
    uint8_t *seen;
    bool constant;
    uint64_t value; /* of the constant */
} program_look;

static inline void program_look_at(void *ctx, uint64_t flat, int64_t byte)
{
    program_look *l = ctx;
    MODEL_PROMISE(flat < l->a->count);
    l->seen[flat] = 1;
    MODEL_PROMISE(l->constant || (byte >= 0 && byte < MODEL_BLOB_BYTES_MAX));
    const uint64_t is = l->constant ? l->value : l->m->content[l->p->blob][byte] - 1;
    if (is != l->a->v[flat])
        MODEL_FAIL("a map puts an element at another place than it should");
}

static inline void assert_array(const model *m, const sw_catalog *catalog, uint32_t tensor,
                                const array *a)
{
    program_look look = {.m = m, .a = a};
    swi_shaped s;
    MODEL_PROMISE(swi_shaped_take(catalog, tensor, &s, NULL) == SW_OK);
    MODEL_PROMISE(s.axes == a->axes && s.dtype == m->dtype);
    MODEL_PROMISE(s.axes == 0 || memcmp(s.shape, a->shape, s.axes * sizeof s.shape[0]) == 0);
    look.seen = calloc(a->count + 1, 1);
    MODEL_PROMISE(look.seen != NULL);
    for (size_t i = 0; i < s.count; i++) {
        look.p = &s.pieces[i];
        look.constant = look.p->blob >= m->blobs;
        look.value = look.constant ? constant_of(catalog, look.p->blob) : 0;
        model_each(look.p, program_look_at, &look);
    }
    for (size_t i = 0; i < a->count; i++)
        MODEL_PROMISE(look.seen[i]);
    free(look.seen);
    swi_shaped_free(&s);
}

/* ---- there and back --------------------------------------------------------------------------
 */

/* A checkpoint with the same catalog and what a map makes of these tensors of it. */
static inline sw_status map_to(const swi_model *of, size_t from, size_t to,
                               const sw_checkpoint *source, const swi_named *named, size_t count,
                               swi_mapped_list *list, sw_checkpoint **out, sw_error *err)
{
    sw_report *report = NULL;
    swi_mapping *mapping = NULL;
    MODEL_PROMISE(sw_report_make(&report, NULL) == SW_OK);
    const swi_mapping_in in = {
        .model = of, .from = from, .to = to, .source = source, .report = report};
    sw_status st = swi_mapping_begin(&in, &mapping, err);
    if (st == SW_OK)
        st = swi_mapping_model(mapping, named, count, list, err);
    if (st == SW_OK)
        st = swi_mapping_end(mapping, out, err);
    for (size_t i = 0; st == SW_OK && i < swi_mapping_effect_count(mapping); i++) {
        swi_mapping_effect effect;
        swi_mapping_effect_at(mapping, i, &effect);
        MODEL_PROMISE(effect.lost == 0 || effect.lossy);
    }
    swi_mapping_free(mapping);
    sw_report_free(report);
    return st;
}

static inline void check_side(program *p, uint32_t s, const sw_checkpoint *c,
                              const swi_mapped_list *list)
{
    MODEL_PROMISE(list->count == p->tensor_count[s]);
    for (size_t i = 0; i < list->count; i++) {
        const program_tensor *t = NULL;
        for (size_t k = 0; k < p->tensor_count[s]; k++)
            if (strcmp(p->tensors[s][k].name, list->items[i].name) == 0)
                t = &p->tensors[s][k];
        MODEL_PROMISE(t != NULL);
        assert_array(&p->m, sw_checkpoint_catalog(c), list->items[i].tensor, &t->a);
    }
}

/* Of two tensors that are one the source may lack either. */
static inline bool left_out(program *p, uint32_t s, uint32_t t)
{
    const int tie = p->rules[p->tensors[s][t].rule].tie;
    return tie >= 0 && model_below(&p->m, 3) == 0;
}

static inline void there_and_back(program *p, const swi_model *of, const sw_checkpoint *base,
                                  uint32_t from, uint32_t to)
{
    const char *names[PROGRAM_TENSORS];
    swi_shaped shaped[PROGRAM_TENSORS];
    swi_named named[PROGRAM_TENSORS];
    swi_mapped_list list = {0}, back = {0};
    sw_checkpoint *source = NULL, *made = NULL, *again = NULL;
    sw_error err = {0};
    size_t count = 0, side;
    for (uint32_t t = 0; t < p->tensor_count[from]; t++) {
        if (left_out(p, from, t))
            continue;
        names[count] = p->tensors[from][t].name;
        shaped[count] = lay_out(&p->m, &p->tensors[from][t].a);
        named[count] = (swi_named){.name = names[count], .tensor = (uint32_t)count};
        count++;
    }
    const bool full = p->m.blobs == MODEL_BLOBS_MAX;
    sw_catalog *catalog = full ? NULL : catalog_of(&p->m, names, shaped, count);
    for (size_t t = 0; t < count; t++)
        swi_shaped_free(&shaped[t]);
    if (full)
        return;
    MODEL_PROMISE(swi_checkpoint_derive(base, catalog, &source, &err) == SW_OK);
    MODEL_PROMISE(swi_model_detect(of, named, count, NULL, false, &side, &err) == SW_OK);
    MODEL_PROMISE(side == from);
    if (map_to(of, from, to, source, named, count, &list, &made, &err) != SW_OK)
        MODEL_FAIL(err.text);
    check_side(p, to, made, &list);
    MODEL_PROMISE(list.count <= PROGRAM_TENSORS);
    for (size_t t = 0; t < list.count; t++)
        named[t] = (swi_named){.name = list.items[t].name, .tensor = list.items[t].tensor};
    if (map_to(of, to, from, made, named, list.count, &back, &again, &err) != SW_OK)
        MODEL_FAIL(err.text);
    check_side(p, from, again, &back);
    free(list.items);
    free(back.items);
    sw_checkpoint_close(again);
    sw_checkpoint_close(made);
    sw_checkpoint_close(source);
}

static inline swi_model *program_model(program *p)
{
    swi_map *map = NULL;
    swi_model *of = NULL;
    swi_model_config none = {0};
    sw_error err = {0};
    if (swi_map_parse(p->text.data, p->text.size, "random", NULL, &map, &err) != SW_OK)
        MODEL_FAIL(err.text);
    if (swi_model_make(map, &none, SIZE_MAX, NULL, &of, &err) != SW_OK)
        MODEL_FAIL(err.text);
    return of;
}

/* One random map, between `pairs` of its sides. `base`: any checkpoint, for what is not asked. */
static inline void run_program(const sw_checkpoint *base, model_choose choose, void *ctx, int pairs)
{
    static program p;
    program_make(&p, choose, ctx);
    MODEL_SHOW(&p.text);
    if (!p.too_big) {
        swi_model *of = program_model(&p);
        for (int i = 0; i < pairs; i++) {
            const int64_t pair = model_below(&p.m, PROGRAM_SIDES * PROGRAM_SIDES);
            there_and_back(&p, of, base, (uint32_t)pair / PROGRAM_SIDES,
                           (uint32_t)pair % PROGRAM_SIDES);
        }
        swi_model_free(of);
    }
    program_free(&p);
}

#endif
