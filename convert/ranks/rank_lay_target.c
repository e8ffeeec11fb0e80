/* Files of ranks as FSDP2 and a plain torch.save leave them: --to fsdp2:dp=8,files=ranks (RF-20).
 */
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/text.h"
#include "frameworks.h"
#include "ranks/buffers.h"
#include "ranks/rank_lay.h"
#include "target/leaf_division.h"
#include "target/target.h"

static const char of_ranks[] = "ranks";

#define DEVICE_BYTES 32
#define NAMES_BYTES 256

typedef struct rank_target {
    swi_target_in in; /* with the options that are the division's */
    swi_buf options;
    char device[DEVICE_BYTES];
    char names_text[NAMES_BYTES];
    bool names_given, unnamed;
    const char *names[SWI_MESH_AXES_MAX];
    swi_leaf_division division;
    swi_buffers buffers;
} rank_target;

/* ---- options -----------------------------------------------------------------------------------
 */

static bool is_option(const char *text, size_t size, const char *name, const char **value,
                      size_t *value_size)
{
    const size_t n = strlen(name);
    if (size <= n || memcmp(text, name, n) != 0 || text[n] != '=')
        return false;
    *value = text + n + 1;
    *value_size = size - n - 1;
    return true;
}

static sw_status take_text(const char *what, const char *value, size_t size, char *out, size_t room,
                           sw_error *err)
{
    swi_quoted q;
    if (size == 0 || size >= room)
        return swi_fail(err, SW_ERR_ARG, "--to fsdp2:%s=%s: too %s", what,
                        swi_quote(&q, value, size), size == 0 ? "short" : "long");
    memcpy(out, value, size);
    out[size] = '\0';
    return SW_OK;
}

static sw_status keep_option(rank_target *t, const char *text, size_t size, sw_error *err)
{
    sw_status st = t->options.size > 0 ? swi_buf_u8(&t->options, ',', err) : SW_OK;
    return st == SW_OK ? swi_buf_append(&t->options, text, size, err) : st;
}

static sw_status take_option(rank_target *t, const char *text, size_t size, sw_error *err)
{
    const char *value;
    size_t n;
    if (is_option(text, size, SWI_FILES_OPTION, &value, &n))
        return SW_OK;
    if (is_option(text, size, "device", &value, &n))
        return take_text("device", value, n, t->device, sizeof t->device, err);
    if (!is_option(text, size, "mesh", &value, &n))
        return keep_option(t, text, size, err);
    t->names_given = true;
    t->unnamed = n == 4 && memcmp(value, "none", 4) == 0;
    return take_text("mesh", value, n, t->names_text, sizeof t->names_text, err);
}

static sw_status take_options(rank_target *t, sw_error *err)
{
    sw_status st = SW_OK;
    memcpy(t->device, "cuda", sizeof "cuda");
    for (const char *at = t->in.options; st == SW_OK && *at != '\0';) {
        const size_t size = strcspn(at, ",");
        st = take_option(t, at, size, err);
        at += size + (at[size] == ',');
    }
    if (st == SW_OK)
        st = swi_buf_u8(&t->options, '\0', err);
    t->in.options = (const char *)t->options.data;
    return st;
}

/* ---- the mesh ----------------------------------------------------------------------------------
 */

static bool is_kept(const swi_division *division, size_t axis)
{
    return swi_division_axis(division, axis).size > 1 || swi_division_ranks(division) == 1;
}

static sw_status bad_names(const swi_division *division, sw_error *err)
{
    size_t kept = 0;
    for (size_t a = 0; a < swi_division_axis_count(division); a++)
        kept += swi_division_axis(division, a).size > 1;
    return swi_fail(err, SW_ERR_ARG,
                    "--to fsdp2:mesh=NAME+NAME: the mesh has %zu axes of more than one rank; give "
                    "one name for each, or mesh=none",
                    kept > 0 ? kept : 1);
}

/* "ddp+fsdp": for the axes of more than one rank, in order; one name for a mesh of one rank. */
static sw_status give_names(rank_target *t, sw_error *err)
{
    const swi_division *division = t->division.division;
    char *next = t->names_text;
    for (size_t a = 0; a < swi_division_axis_count(division); a++) {
        if (!is_kept(division, a))
            continue;
        if (next == NULL || *next == '+' || *next == '\0')
            return bad_names(division, err);
        t->names[a] = next;
        if (swi_division_ranks(division) == 1)
            continue;
        next = strchr(next, '+');
        if (next != NULL)
            *next++ = '\0';
    }
    if (swi_division_ranks(division) == 1)
        next = strchr(next, '+');
    return next == NULL ? SW_OK : bad_names(division, err);
}

/* Those that verl and most others give to the meshes of FSDP2; of a layout its own. */
static sw_status set_names(rank_target *t, sw_error *err)
{
    const swi_division *division = t->division.division;
    if (t->names_given && !t->unnamed)
        return give_names(t, err);
    for (size_t a = 0; a < swi_division_axis_count(division); a++) {
        const char *name = swi_division_axis(division, a).name;
        t->names[a] = name;
        if (t->division.own == NULL)
            continue;
        if (strcmp(name, "dp") == 0)
            t->names[a] = "fsdp";
        else if (strcmp(name, "replicate") == 0)
            t->names[a] = "ddp";
    }
    return SW_OK;
}

/* ---- tensors -----------------------------------------------------------------------------------
 */

static sw_status cut(void *ctx, const swi_state_part *leaf, swi_rank_cut *out, sw_error *err)
{
    rank_target *t = ctx;
    swi_cut_axis axes[SWI_MESH_AXES_MAX];
    uint32_t mesh;
    bool whole = false;
    sw_status st = swi_leaf_cut(&t->division, leaf, &whole, &out->cut, err);
    out->form = SWI_RANK_WHOLE;
    if (st != SW_OK || whole)
        return st;
    const uint32_t count = swi_cut_axes(&out->cut, axes, &mesh);
    whole = true;
    for (uint32_t a = 0; a < count; a++)
        whole = whole && !axes[a].splits;
    if (!whole)
        st = swi_buffers_are(&t->buffers, leaf, &whole, err);
    if (st == SW_OK && !whole)
        out->form = SWI_RANK_DTENSOR;
    return st;
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

static void end_target(void *ctx)
{
    rank_target *t = ctx;
    swi_leaf_division_end(&t->division);
    swi_buffers_end(&t->buffers);
    swi_buf_free(&t->options);
    free(t);
}

static sw_status begin_target(rank_target *t, const swi_target_in *in, sw_error *err)
{
    t->in = *in;
    const swi_leaf_division_in division = swi_leaf_division_dcp(&t->in);
    sw_status st = take_options(t, err);
    if (st == SW_OK)
        st = swi_leaf_division_make(&division, &t->division, err);
    if (st == SW_OK)
        st = set_names(t, err);
    return st == SW_OK ? swi_buffers_begin(&t->in, &t->buffers, err) : st;
}

sw_status swi_rank_layout(const swi_target_in *in, swi_layout *layout, sw_error *err)
{
    rank_target *t = NULL;
    sw_status st = swi_alloc_array(1, sizeof *t, (void **)&t, err);
    if (st != SW_OK)
        return st;
    st = begin_target(t, in, err);
    if (st != SW_OK) {
        end_target(t);
        return st;
    }
    const swi_rank_lay_in lay = {.in = &t->in,
                                 .division = t->division.division,
                                 .cut = cut,
                                 .ctx = t,
                                 .free_ctx = end_target,
                                 .device = t->device,
                                 .axis_names = t->unnamed ? NULL : t->names,
                                 .fsdp_version = 2};
    st = swi_rank_lay(&lay, layout, err);
    return st == SW_OK ? swi_leaf_division_say(&t->division, err) : st;
}

/* ---- which files -------------------------------------------------------------------------------
 */

/* The option of that name; NULL: it is not there. */
static const char *find_option(const char *options, const char *name, const char **value,
                               size_t *value_size)
{
    for (const char *at = options; *at != '\0';) {
        const size_t size = strcspn(at, ",");
        if (is_option(at, size, name, value, value_size))
            return at;
        at += size + (at[size] == ',');
    }
    return NULL;
}

bool swi_rank_files_asked(const char *options)
{
    const char *value;
    size_t n;
    return find_option(options, SWI_FILES_OPTION, &value, &n) != NULL && n == strlen(of_ranks) &&
           memcmp(value, of_ranks, n) == 0;
}

static sw_status no_files(const swi_target *target, const char *value, size_t size, sw_error *err)
{
    swi_nearest nearest = swi_nearest_begin(value, size);
    swi_quoted q;
    const char *own = target->framework->name;
    swi_nearest_offer(&nearest, own);
    swi_nearest_offer(&nearest, of_ranks);
    return swi_fail(err, SW_ERR_ARG,
                    "--to %s:files=%s: no such files; there are files=%s (the usual ones) and "
                    "files=%s, one of torch.save for each rank%s%s%s",
                    own, swi_quote(&q, value, size), own, of_ranks,
                    nearest.found != NULL ? "; did you mean " : "",
                    nearest.found != NULL ? nearest.found : "", nearest.found != NULL ? "?" : "");
}

/* The options without the one that begins at `at`. */
static void take_out(swi_buf *options, const char *at)
{
    char *text = (char *)options->data;
    const size_t from = (size_t)(at - text), size = strcspn(at, ",");
    const size_t to = from + size + (at[size] == ',');
    memmove(text + from, text + to, options->size - to);
    options->size -= to - from;
    if (at[size] == '\0' && from > 0)
        text[from - 1] = '\0';
}

sw_status swi_rank_choose_files(swi_target *target, sw_error *err)
{
    const char *value, *own = target->framework->name;
    size_t n = 0;
    const char *at = find_option((const char *)target->options.data, SWI_FILES_OPTION, &value, &n);
    if (at == NULL)
        return SW_OK;
    if (n == strlen(own) && memcmp(value, own, n) == 0) {
        take_out(&target->options, at);
        return SW_OK;
    }
    if (!swi_rank_files_asked((const char *)target->options.data))
        return no_files(target, value, n, err);
    target->reader = &swi_framework_rank_files;
    target->rank_values = target->param_names = target->assets = true;
    if (!target->form_asked)
        target->form = SWI_FORM_IDS;
    return SW_OK;
}
