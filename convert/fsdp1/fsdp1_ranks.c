#include "fsdp1/fsdp1_ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "flat/flatten.h"
#include "ranks/buffers.h"
#include "ranks/rank_lay.h"

static const char *const axis_names[] = {"replicate", "shard"};

/* What the layout keeps. */
typedef struct division {
    swi_target_in in;
    swi_fsdp1_options options;
    bool raw;
    swi_rules *rules;
    swi_division *division;
    swi_buffers buffers;
} division;

static void free_division(void *ctx)
{
    division *d = ctx;
    if (d == NULL)
        return;
    swi_division_free(d->division);
    swi_rules_free(d->rules);
    swi_buffers_end(&d->buffers);
    free(d);
}

/* Rows, all of them again for each of replicate. */
static sw_status divide(division *d, sw_error *err)
{
    char text[256];
    const int n = snprintf(text, sizeof text,
                           "layout: 1\nmesh: {replicate: %" PRIu64 ", shard: %" PRIu64 "}\n"
                           "rules: [{tensor: '**', dims: [shard]}]\n",
                           d->options.replicate, d->options.ranks);
    sw_status st = swi_rules_parse_text(text, (size_t)n, "rows", &d->in.limits, &d->rules, err);
    return st == SW_OK ? swi_division_make(d->rules, NULL, NULL, 0, &d->division, err) : st;
}

static bool is_flat(const char *name)
{
    const char *dot = strrchr(name, '.');
    return strcmp(dot != NULL ? dot + 1 : name, SWI_FLAT_PARAM) == 0;
}

/* FS-34. */
static swi_rank_form form_of(const division *d, const swi_state_part *leaf,
                             const sw_tensor_info *info)
{
    const swi_rank_form shared = d->options.replicate > 1 ? SWI_RANK_DTENSOR : SWI_RANK_SHARDED;
    if (info->role == SW_ROLE_OTHER || info->axes == 0)
        return SWI_RANK_WHOLE;
    if (info->role == SW_ROLE_OPTIMIZER && d->raw)
        return info->axes == 1 && info->elements % d->options.ranks == 0 ? SWI_RANK_LOCAL
                                                                         : SWI_RANK_WHOLE;
    if (info->role == SW_ROLE_PARAMETER && d->options.mode == SWI_FSDP1_LOCAL)
        return is_flat(leaf->name) ? SWI_RANK_SHARDED : SWI_RANK_WHOLE;
    return shared;
}

static sw_status cut(void *ctx, const swi_state_part *leaf, swi_rank_cut *out, sw_error *err)
{
    division *d = ctx;
    sw_tensor_info info;
    bool buffer = false;
    (void)sw_catalog_tensor(sw_checkpoint_catalog(d->in.source), leaf->tensor->source, &info);
    sw_status st = is_flat(leaf->name) ? SW_OK : swi_buffers_are(&d->buffers, leaf, &buffer, err);
    if (st != SW_OK)
        return st;
    out->form = buffer ? SWI_RANK_WHOLE : form_of(d, leaf, &info);
    return out->form == SWI_RANK_WHOLE
               ? SW_OK
               : swi_divide(d->division, leaf->name, info.axes, info.shape, &out->cut, err);
}

sw_status swi_fsdp1_lay_ranks(const swi_target_in *in, const swi_fsdp1_options *options,
                              swi_layout *layout, sw_error *err)
{
    division *d = NULL;
    sw_status st = swi_alloc_array(1, sizeof *d, (void **)&d, err);
    if (st != SW_OK)
        return st;
    d->in = *in;
    d->options = *options;
    d->raw = swi_fsdp1_is_raw(options, in->target);
    st = divide(d, err);
    if (st == SW_OK)
        st = swi_buffers_begin(&d->in, &d->buffers, err);
    if (st != SW_OK) {
        free_division(d);
        return st;
    }
    const swi_rank_lay_in how = {.in = &d->in,
                                 .division = d->division,
                                 .cut = cut,
                                 .ctx = d,
                                 .free_ctx = free_division,
                                 .device = d->options.device,
                                 .axis_names = axis_names,
                                 .fsdp_version = 1};
    return swi_rank_lay(&how, layout, err);
}
