/* What a mapping finds of its source's side. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "map/holding.h"
#include "map/mapping_parts.h"

bool swi_mapping_source(const swi_mapping *m, const swi_present *have, uint32_t atom,
                        uint32_t *from_tensor, uint32_t *as_atom)
{
    uint32_t at = atom;
    do {
        const uint32_t t = m->from->tensor_of[at];
        if (t != SWI_NO_TENSOR && have->tensor[t] != SWI_NO_TENSOR) {
            *from_tensor = t;
            *as_atom = at;
            return true;
        }
        at = swi_next_tied(m->model, at);
    } while (at != atom);
    return false;
}

bool swi_mapping_is_there(const swi_mapping *m, uint32_t atom)
{
    const uint32_t group = m->model->atoms[atom].group;
    return group == SWI_NO_TENSOR || m->there[group];
}

/* A scale has one element for each block, ragged at the ends. */
static sw_status check_scale(const swi_mapping *m, uint32_t id, const swi_named *scale,
                             sw_error *err)
{
    const swi_side_tensor *t = &m->from->tensors[id];
    sw_tensor_info info;
    int64_t expected[SW_MAX_AXES] = {0};
    char found_text[SWI_SHAPE_TEXT], expected_text[SWI_SHAPE_TEXT];
    swi_quoted q;
    (void)sw_catalog_tensor(m->catalog, scale->tensor, &info);
    bool fits = m->model->block_axes == t->axes && info.axes == t->axes;
    for (uint32_t k = 0; k < t->axes && m->model->block_axes == t->axes; k++) {
        expected[k] = t->shape[k] / m->model->block[k] + (t->shape[k] % m->model->block[k] != 0);
        fits = fits && expected[k] == info.shape[k];
    }
    if (fits)
        return SW_OK;
    swi_shape_text(info.axes, info.shape, found_text);
    swi_shape_text(t->axes, expected, expected_text);
    return swi_fail_at(err, SW_ERR_CONFLICT, "MAP-10", 0,
                       "tensor \"%s\": the scales have the shape %s, expected is %s by the block "
                       "size of the configuration",
                       swi_quote_str(&q, scale->name), found_text, expected_text);
}

static sw_status find_scales(swi_mapping *m, const swi_named *named, size_t count, sw_error *err)
{
    const uint32_t tensors = swi_names_count(m->from->names);
    free(m->scales.tensor);
    m->scales = (swi_present){.are_scales = true};
    sw_status st =
        swi_alloc_array(tensors, sizeof *m->scales.tensor, (void **)&m->scales.tensor, err);
    for (uint32_t i = 0; st == SW_OK && i < tensors; i++)
        m->scales.tensor[i] = SWI_NO_TENSOR;
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        const int64_t id = swi_model_scaled_by(m->model, m->in.from, named[i].name);
        if (id < 0 || swi_names_find(m->from->names, named[i].name, strlen(named[i].name)) >= 0)
            continue;
        st = check_scale(m, (uint32_t)id, &named[i], err);
        m->scales.tensor[id] = named[i].tensor;
    }
    return st;
}

/* Nothing that differs is converted. */
static sw_status refuse(const swi_mapping *m, const swi_holding *h, uint64_t misshapen,
                        const sw_error *first_misshapen, sw_error *err)
{
    const char *side = swi_model_side_name(m->model, m->in.from);
    swi_quoted q;
    if (h->unknown > 0)
        return swi_fail(err, SW_ERR_NOTFOUND,
                        "%" PRIu64 " tensors are unknown to side %s of map %s, first \"%s\"; the "
                        "report lists them; --drop leaves them out",
                        h->unknown, side, swi_model_name(m->model),
                        swi_quote_str(&q, h->first_unknown));
    if (h->missing > 0 && !m->in.partial)
        return swi_fail(err, SW_ERR_INCOMPLETE,
                        "%" PRIu64 " tensors that side %s of map %s has are missing, first \"%s\"; "
                        "the report lists them",
                        h->missing, side, swi_model_name(m->model),
                        swi_quote_str(&q, h->first_missing));
    if (misshapen > 0 && err != NULL)
        *err = *first_misshapen;
    return misshapen > 0 ? SW_ERR_CONFLICT : SW_OK;
}

sw_status swi_mapping_meet(swi_mapping *m, const swi_named *named, size_t count, swi_present *have,
                           sw_error *err)
{
    const swi_holding_tell tell = {
        .catalog = m->catalog, .partial = m->in.partial, .report = m->in.report};
    swi_holding h = {0};
    uint64_t misshapen = 0;
    sw_error first = {0};
    sw_status st = swi_holding_make(m->model, m->in.from, named, count, &h, err);
    if (st == SW_OK)
        st = swi_holding_say(&h, &tell, &misshapen, &first, err);
    if (st == SW_OK)
        st = refuse(m, &h, misshapen, &first, err);
    if (st == SW_OK)
        st = find_scales(m, named, count, err);
    if (st == SW_OK) {
        have->tensor = h.tensor;
        h.tensor = NULL;
        if (m->model->group_count > 0)
            memcpy(m->there, h.there, m->model->group_count * sizeof *m->there);
    }
    swi_holding_free(&h);
    return st;
}
