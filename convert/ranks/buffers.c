#include "ranks/buffers.h"

#include <string.h>

#include "base/error.h"
#include "base/report.h"
#include "map/model.h"
#include "model/catalog.h"
#include "optimizer/optimizer.h"

static sw_status add_trained(swi_buffers *b, const swi_optimizer *o, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < o->parameter_count; i++) {
        uint32_t id;
        bool is_new;
        const char *name = o->parameters[i];
        st = swi_names_add(b->trained, name, strlen(name), &id, &is_new, err);
    }
    return st;
}

/* Nothing is known where the optimizers cannot be taken apart. */
static sw_status learn_trained(swi_buffers *b, const swi_target_in *in, sw_error *err)
{
    swi_optimizer *optimizers = NULL;
    size_t count = 0;
    sw_error cause = {0};
    sw_status st = swi_names_make(&b->trained, err);
    if (st == SW_OK && swi_optimizers_lift(in->source, in->state, NULL, &optimizers, &count,
                                           &cause) == SW_ERR_NOMEM)
        st = swi_fail_nomem(err);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        st = add_trained(b, &optimizers[i], err);
    swi_optimizers_free(optimizers, count);
    return st;
}

static void look_at_source(swi_buffers *b, const swi_target_in *in)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(b->source);
    for (size_t i = 0; i < in->leaf_count && !b->source_cuts; i++) {
        const swi_chosen *tensor = in->leaves[i].tensor;
        sw_tensor_info info;
        b->source_cuts = tensor != NULL && sw_catalog_tensor(catalog, tensor->source, &info) &&
                         info.role == SW_ROLE_PARAMETER && info.piece_count > 1;
    }
}

sw_status swi_buffers_begin(const swi_target_in *in, swi_buffers *out, sw_error *err)
{
    swi_buffers made = {.source = in->source,
                        .model = in->model,
                        .side = in->side,
                        .report = in->report,
                        .parameters = in->state->parameters};
    sw_status st = made.parameters == NULL ? learn_trained(&made, in, err) : SW_OK;
    if (st == SW_OK)
        st = swi_names_make(&made.said, err);
    if (st != SW_OK) {
        swi_buffers_end(&made);
        return st;
    }
    look_at_source(&made, in);
    *out = made;
    return SW_OK;
}

void swi_buffers_end(swi_buffers *b)
{
    swi_names_free(b->trained);
    swi_names_free(b->said);
    swi_section_end(&b->section);
    *b = (swi_buffers){0};
}

/* Its pieces are all of what was stored, as those of a tensor that every rank had whole are. One
 * row that is there once may also be the part of the first rank. */
static bool was_whole(const swi_buffers *b, const sw_tensor_info *info, uint32_t tensor)
{
    swi_piece piece;
    swi_blob blob;
    if (!b->source_cuts || info->piece_count == 0 || info->axes == 0)
        return false;
    if (info->piece_count == 1 && info->shape[0] < 2)
        return false;
    const sw_catalog *catalog = sw_checkpoint_catalog(b->source);
    swi_tensor_piece(catalog, tensor, 0, &piece);
    swi_catalog_blob(catalog, piece.blob, &blob);
    return blob.bytes == info->bytes;
}

static bool known_by_model(const swi_buffers *b, const char *name, bool *buffer)
{
    swi_model_tensor t;
    const int64_t i = b->model != NULL ? swi_model_tensor_find(b->model, b->side, name) : -1;
    if (i < 0 || !swi_model_tensor_at(b->model, b->side, (size_t)i, &t))
        return false;
    *buffer = t.buffer;
    return true;
}

/* RF-25: weights alone, of ranks that divided some of them (TP), look so too. */
static sw_status say_guess(swi_buffers *b, const char *name, const char *leaf, sw_error *err)
{
    uint32_t id;
    bool is_new, by_model;
    const swi_finding_in in = {.severity = SW_WARNING, .code = "taken-for-buffer", .tensor = leaf};
    if (b->parameters != NULL || swi_names_count(b->trained) > 0 ||
        known_by_model(b, name, &by_model))
        return SW_OK;
    sw_status st = swi_names_add(b->said, leaf, strlen(leaf), &id, &is_new, err);
    if (st == SW_OK && is_new)
        st = swi_report_add(b->report, &in, err,
                            "it was stored whole while others were divided, and no optimizer tells "
                            "that it is a parameter: it is written whole, as a buffer is; if it is "
                            "a parameter, a rule of --layout divides it");
    return st;
}

sw_status swi_buffers_are(swi_buffers *b, const swi_state_part *leaf, bool *out, sw_error *err)
{
    sw_tensor_info info;
    sw_catalog_tensor(sw_checkpoint_catalog(b->source), leaf->tensor->source, &info);
    *out = info.role == SW_ROLE_PARAMETER && !sw_dtype_is_float(info.dtype);
    if (info.role != SW_ROLE_PARAMETER || *out)
        return SW_OK;
    sw_status st = swi_section_of_leaf(leaf, &b->section, err);
    if (st != SW_OK)
        return st;
    const char *name = (const char *)b->section.name.data;
    if (b->parameters != NULL)
        *out = swi_names_find(b->parameters, name, strlen(name)) < 0;
    else if (!known_by_model(b, name, out))
        *out = swi_names_find(b->trained, name, strlen(name)) < 0 &&
               was_whole(b, &info, leaf->tensor->source);
    return *out ? say_guess(b, name, leaf->name, err) : SW_OK;
}
