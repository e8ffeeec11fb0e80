#include "plan_show.h"

#include <string.h>

/* It has no bytes of its own; the type is that of what it sees. */
static void show_view(const sw_catalog *from, const swi_layout_view *view, sw_plan_fn on_plan,
                      void *ctx)
{
    sw_tensor_info s;
    sw_catalog_tensor(from, view->source, &s);
    sw_plan_tensor line = {.name = view->name,
                           .source = s.name,
                           .file = "",
                           .from = s.dtype,
                           .to = view->dtype,
                           .axes = s.axes,
                           .pieces = s.piece_count};
    memcpy(line.shape, s.shape, sizeof line.shape);
    on_plan(ctx, &line);
}

void swi_plan_show_tensors(const swi_layout *layout, const sw_checkpoint *whole, sw_plan_fn on_plan,
                           void *ctx)
{
    const sw_catalog *to = swi_layout_catalog(layout);
    const sw_catalog *from = sw_checkpoint_catalog(whole);
    for (size_t i = 0; on_plan != NULL && i < sw_catalog_tensor_count(to); i++) {
        sw_tensor_info t, s;
        swi_piece piece;
        swi_blob blob;
        sw_catalog_tensor(to, i, &t);
        sw_catalog_tensor(from, swi_layout_source(layout, (uint32_t)i), &s);
        sw_plan_tensor line = {
            .name = t.name,
            .source = s.name,
            .file = "",
            .from = s.dtype,
            .to = t.dtype,
            .axes = t.axes,
            .bytes = t.bytes,
            .pieces = s.piece_count,
        };
        memcpy(line.shape, t.shape, sizeof line.shape);
        if (t.piece_count > 0) {
            swi_tensor_piece(to, (uint32_t)i, 0, &piece);
            swi_catalog_blob(to, piece.blob, &blob);
            line.file = swi_catalog_path(to, blob.file);
        }
        on_plan(ctx, &line);
    }
    for (size_t i = 0; on_plan != NULL && i < swi_layout_view_count(layout); i++)
        show_view(from, swi_layout_view_at(layout, i), on_plan, ctx);
}

void swi_plan_show_rules(const swi_remap *remap, const sw_convert_options *o)
{
    if (o->on_rule == NULL || remap->mapping == NULL)
        return;
    for (size_t i = 0; i < swi_mapping_effect_count(remap->mapping); i++) {
        swi_mapping_effect e;
        swi_mapping_effect_at(remap->mapping, i, &e);
        const sw_plan_rule rule = {.map = swi_model_name(remap->model),
                                   .line = e.line,
                                   .from = e.from,
                                   .to = e.to,
                                   .what = e.what,
                                   .tensors = e.tensors,
                                   .bytes = e.bytes,
                                   .lost = e.lost,
                                   .lossy = e.lossy};
        if (e.tensors > 0 || e.lost > 0)
            o->on_rule(o->rule_ctx, &rule);
    }
}
