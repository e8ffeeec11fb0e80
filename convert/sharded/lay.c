/* Laying out files of ranks: who gets what of each tensor, and in which file. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/report.h"
#include "base/text.h"
#include "sharded/container.h"
#include "target/model_config.h"
#include "target/st_file.h"
#include "target/target.h"

#define AXES_MAX 8U

typedef struct options {
    swi_axis_size axes[AXES_MAX];
    size_t axis_count;
    uint64_t part_bytes; /* UINT64_MAX: a rank's tensors are in one file */
    char names[AXES_MAX][32];
} options;

typedef struct laying {
    swi_sharded_laying shared;
    const swi_model *model;
    options options;
    swi_division *division;
    swi_cut *cuts;          /* by chosen tensor */
    swi_rank_share *shares; /* of the rank that is laid out now; likewise */
} laying;

/* ---- options -----------------------------------------------------------------------------------
 */

static bool parse_count(const char *text, size_t size, uint64_t *out)
{
    uint64_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || n > SWI_MESH_RANKS_MAX)
            return false;
        n = n * 10 + (uint64_t)(text[i] - '0');
    }
    *out = n;
    return size > 0 && n > 0 && n <= SWI_MESH_RANKS_MAX;
}

static sw_status bad_option(const laying *l, const char *text, size_t size, sw_error *err)
{
    swi_quoted q;
    return swi_fail(err, SW_ERR_ARG, "--to %s: not an option: %s; there is %s=RANKS%s",
                    l->shared.kind->side, swi_quote(&q, text, size), l->shared.kind->axis,
                    l->shared.kind->parts ? " and part=SIZE with SIZE like 5GB, 500MB" : "");
}

/* SH-10: "part=SIZE", else an axis of the layout's mesh and its size. */
static sw_status take_option(laying *l, const char *text, size_t size, sw_error *err)
{
    options *o = &l->options;
    const char *equals = memchr(text, '=', size);
    size_t n = equals != NULL ? (size_t)(equals - text) : 0;
    uint64_t ranks;
    if (n == 0)
        return bad_option(l, text, size, err);
    if (l->shared.kind->parts && n == 4 && memcmp(text, "part", 4) == 0)
        return swi_parse_size(equals + 1, size - n - 1, &o->part_bytes)
                   ? SW_OK
                   : bad_option(l, text, size, err);
    if (n >= sizeof o->names[0] || o->axis_count == AXES_MAX ||
        !parse_count(equals + 1, size - n - 1, &ranks))
        return bad_option(l, text, size, err);
    memcpy(o->names[o->axis_count], text, n);
    o->axes[o->axis_count] = (swi_axis_size){o->names[o->axis_count], ranks};
    if (!swi_rules_has_axis(swi_model_layout(l->model, l->shared.in->side, 0),
                            o->names[o->axis_count]))
        return bad_option(l, text, size, err);
    o->axis_count++;
    return SW_OK;
}

static sw_status parse_options(laying *l, sw_error *err)
{
    sw_status st = SW_OK;
    l->options.part_bytes = UINT64_MAX;
    for (const char *at = l->shared.in->options; st == SW_OK && *at != '\0';) {
        size_t size = strcspn(at, ",");
        st = take_option(l, at, size, err);
        at += size + (at[size] == ',');
    }
    return st;
}

static sw_status check_model(const laying *l, sw_error *err)
{
    if (l->model == NULL)
        return swi_fail(err, SW_ERR_ARG,
                        "--to %s needs to know the model: give its configuration with --config or "
                        "--assets, and a map of your own with --map",
                        l->shared.kind->side);
    if (swi_model_layout_count(l->model, l->shared.in->side) == 0)
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "the map %s does not say how ranks divide %s files; give another with "
                        "--map",
                        swi_model_name(l->model), l->shared.kind->side);
    return SW_OK;
}

/* ---- tensors -----------------------------------------------------------------------------------
 */

static void info_of(const laying *l, size_t i, sw_tensor_info *out)
{
    sw_catalog_tensor(sw_checkpoint_catalog(l->shared.in->source), l->shared.in->chosen[i].source,
                      out);
}

/* SH-11: one tensor, of which ranks may have the same parts. */
static sw_status add_tensor(laying *l, size_t i, sw_error *err)
{
    const swi_chosen *c = &l->shared.in->chosen[i];
    sw_tensor_info info;
    info_of(l, i, &info);
    const swi_tensor_in in = {.name = c->name,
                              .name_size = strlen(c->name),
                              .dtype = c->dtype,
                              .axes = info.axes,
                              .shape = info.shape,
                              .role = SW_ROLE_PARAMETER};
    swi_rank_share *s = &l->shares[i];
    sw_status st = swi_divide(l->division, c->name, info.axes, info.shape, &l->cuts[i], err);
    if (st == SW_OK)
        st = swi_target_tensor(l->shared.layout, &in, c, &s->tensor, err);
    if (st == SW_OK && (l->cuts[i].copies > 1 || l->cuts[i].overlap))
        st = swi_layout_replicas(l->shared.layout, s->tensor, err);
    s->chosen = c;
    s->cut = &l->cuts[i];
    return st;
}

static sw_status add_tensors(laying *l, sw_error *err)
{
    size_t count = l->shared.in->count;
    sw_status st = swi_alloc_array(count, sizeof *l->cuts, (void **)&l->cuts, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *l->shares, (void **)&l->shares, err);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        st = add_tensor(l, i, err);
    return st;
}

sw_status swi_rank_share_lay(swi_sharded_laying *l, const swi_rank_share *share, uint32_t file,
                             uint64_t offset_bytes, sw_error *err)
{
    swi_local local;
    if (share->bytes == 0)
        return SW_OK;
    swi_cut_local(share->cut, swi_cut_of_rank(share->cut, l->rank), &local);
    const swi_block block = swi_local_block(&local);
    return swi_layout_block(l->layout, share->tensor, file, offset_bytes, &block, err);
}

/* ---- files -------------------------------------------------------------------------------------
 */

static sw_status share_out(laying *l, sw_error *err)
{
    for (size_t i = 0; i < l->shared.in->count; i++) {
        swi_rank_share *s = &l->shares[i];
        swi_local local;
        uint64_t elements;
        swi_cut_local(s->cut, swi_cut_of_rank(s->cut, l->shared.rank), &local);
        s->axes = local.axes;
        memcpy(s->shape, local.shape, sizeof s->shape);
        if (!swi_shape_elements(s->axes, s->shape, &elements) ||
            !swi_mul_u64(elements, sw_dtype_bytes(s->chosen->dtype), &s->bytes))
            return swi_fail(err, SW_ERR_LIMIT, "a tensor is too large");
    }
    return SW_OK;
}

/* SH-12: a part ends before the tensor that would make it larger than was asked for. */
static size_t part_end(const laying *l, size_t first)
{
    uint64_t used = l->shares[first].bytes, limit = l->options.part_bytes;
    size_t i = first + 1;
    for (; i < l->shared.in->count; i++) {
        uint64_t bytes = l->shares[i].bytes;
        if (bytes > limit || used > limit - bytes)
            break;
        used += bytes;
    }
    return i;
}

static sw_status lay_rank(laying *l, sw_error *err)
{
    swi_rank_name is = {.rank = l->shared.rank};
    size_t count = l->shared.in->count, first = 0;
    sw_status st = share_out(l, err);
    while (st == SW_OK && (first < count || is.part == 0)) {
        size_t end = first < count ? part_end(l, first) : count;
        char path[SWI_RANK_NAME_BYTES];
        swi_rank_name_print(l->shared.kind->names[0], &is, path);
        st = l->shared.kind->container->lay(&l->shared, path, &l->shares[first], end - first, err);
        first = end;
        is.part++;
    }
    return st;
}

static sw_status lay_ranks(laying *l, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint64_t rank = 0; st == SW_OK && rank < swi_division_ranks(l->division); rank++) {
        l->shared.rank = rank;
        st = lay_rank(l, err);
    }
    return st;
}

/* ---- what goes beside them ---------------------------------------------------------------------
 */

static sw_status say_no_config(const laying *l, const char *name, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_WARNING, .code = "no-config", .file = name};
    return swi_report_add(l->shared.in->report, &in, err,
                          "the map does not say what is in it; put it beside the files of ranks");
}

static sw_status find_axis(void *ctx, const char *name, swi_expr_value *out, bool *found,
                           sw_error *err)
{
    const swi_division *division = ctx;
    (void)err;
    for (size_t i = 0; i < swi_division_axis_count(division); i++) {
        const swi_axis_size axis = swi_division_axis(division, i);
        if (strcmp(axis.name, name) != 0)
            continue;
        *out = swi_expr_of_int((int64_t)axis.size);
        *found = true;
    }
    return SW_OK;
}

/* SH-13: the configuration of the assets, else the one that the map can write. */
static sw_status lay_config(laying *l, sw_error *err)
{
    const swi_target_in *in = l->shared.in;
    const char *name = swi_model_config_name(l->model, in->side);
    const swi_expr_scope sizes = {.find = find_axis, .ctx = l->division};
    swi_buf text = {0};
    sw_error cause = {0};
    if (name == NULL)
        return SW_OK;
    for (size_t i = 0; in->assets != NULL && i < in->assets->count; i++)
        if (strcmp(in->assets->items[i].path, name) == 0)
            return SW_OK;
    sw_status st = swi_model_write_config(l->model, in->side, &sizes, &text, &cause);
    if (st == SW_OK)
        st = swi_lay_bytes(l->shared.layout, name, text.data, text.size, err);
    else if (st == SW_ERR_NOTFOUND)
        st = say_no_config(l, name, err);
    else if (err != NULL)
        *err = cause;
    swi_buf_free(&text);
    return st;
}

static sw_status lay_beside(laying *l, sw_error *err)
{
    const swi_assets *assets = l->shared.in->assets;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && assets != NULL && i < assets->count; i++)
        st = swi_lay_bytes(l->shared.layout, assets->items[i].path, assets->items[i].data,
                           assets->items[i].size, err);
    return st == SW_OK ? lay_config(l, err) : st;
}

sw_status swi_sharded_layout(const swi_sharded_kind *kind, const swi_target_in *in,
                             swi_layout *layout, sw_error *err)
{
    laying l = {.shared = {.kind = kind, .in = in, .layout = layout}, .model = in->model};
    sw_status st = check_model(&l, err);
    if (st == SW_OK)
        st = parse_options(&l, err);
    if (st == SW_OK && kind->container->check != NULL)
        st = kind->container->check(in, err);
    if (st == SW_OK)
        st = swi_division_make(swi_model_layout(l.model, in->side, 0), swi_model_scope(l.model),
                               l.options.axes, l.options.axis_count, &l.division, err);
    if (st == SW_OK)
        st = add_tensors(&l, err);
    if (st == SW_OK)
        st = lay_ranks(&l, err);
    if (st == SW_OK)
        st = lay_beside(&l, err);
    swi_division_free(l.division);
    free(l.cuts);
    free(l.shares);
    return st;
}
